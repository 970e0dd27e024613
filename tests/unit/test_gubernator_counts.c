/* test_gubernator_counts.c - answers to clients of Gubernator are counted once each: by who
 * decided, over the limit or not, and by what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/batches.h"
#include "node/gateway/gubernator/gubernator.h"

#define SELF "n1"

enum { CHECKS_MAX = 8 };

/* What a shard says of an item. */
struct said {
    const char *node; /* NULL: that is not told */
    uint8_t outcome;
    uint16_t status;
};

static struct gubernator_plan plan;
static struct gubernator_kept kept;
static uint64_t notes[BATCH_NOTES_MAX / sizeof(uint64_t)];
static struct wire_decisions decisions;

static void decide(const struct said *said, uint32_t count)
{
    static struct wire_decision_columns columns;
    static struct wire_decisions_space space;
    static struct wire_sources sources;
    static uint8_t frame[WIRE_MESSAGE_MAX];
    const struct wire_decisions_head head = {.session = 1, .seq = 1, .count = count};
    char error[WIRE_ERROR_LEN];
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_source source = {.window = wire_text_of("5/h"),
                                           .status = said[i].status,
                                           .node = wire_text_of(said[i].node)};
        columns.outcomes[i] = said[i].outcome;
        columns.flags[i] = said[i].outcome == OUTCOME_ALLOW ? WIRE_ALLOWED : 0;
        columns.source_index[i] =
            said[i].node != NULL ? wire_sources_add(&sources, &source) : WIRE_SOURCE_NONE;
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, frame, sizeof frame);
    assert_true(len > 0);
    assert_int_equal(wire_decode_decisions(frame, (size_t)len, &space, &decisions, error), 0);
}

/* Has items of this algorithm and behavior answered as `said`, which is of those with a check. */
static void answer(const struct gubernator_item *items, uint32_t count, const struct said *said,
                   struct gubernator_stats *stats)
{
    struct gubernator_answer out;
    gubernator_begin(&plan, 1000000000);
    for (uint32_t i = 0; i < count; i++)
        gubernator_add(&plan, &items[i]);
    assert_true(plan.checks <= CHECKS_MAX);
    gubernator_note(&plan, &kept, notes);
    if (plan.checks > 0)
        decide(said, plan.checks);
    struct gubernator_reader reader =
        gubernator_answers(&kept, notes, plan.checks > 0 ? &decisions : NULL, 0, 1000000000);
    reader.stats = stats;
    reader.self = SELF;
    while (gubernator_next(&reader, &out))
        ;
}

static struct gubernator_item item_of(int32_t behavior)
{
    return (struct gubernator_item){.name = wire_text_of("name"),
                                    .unique_key = wire_text_of("key"),
                                    .hits = 1,
                                    .limit = 5,
                                    .duration = 60000,
                                    .behavior = behavior};
}

static void assert_counted(const struct gubernator_stats *found,
                           const struct gubernator_stats *expected)
{
    assert_memory_equal(found, expected, sizeof *found);
}

static void an_item_is_of_this_node_of_another_one_or_global(void **state)
{
    static const struct said said[] = {
        {"n1", OUTCOME_ALLOW, 200}, {"n1", OUTCOME_DENY, 429}, {"n2", OUTCOME_ALLOW, 200},
        {"n10", OUTCOME_DENY, 429}, {"n", OUTCOME_ALLOW, 200}, {NULL, OUTCOME_ALLOW, 200},
        {"n1", OUTCOME_ALLOW, 200}, {"n2", OUTCOME_DENY, 429},
    };
    struct gubernator_item items[CHECKS_MAX];
    struct gubernator_stats stats = {.local = 0};
    (void)state;
    for (uint32_t i = 0; i < CHECKS_MAX; i++)
        items[i] = item_of(i < 6 ? GUBERNATOR_NO_BATCHING : GUBERNATOR_GLOBAL);
    answer(items, CHECKS_MAX, said, &stats);
    assert_counted(&stats,
                   &(struct gubernator_stats){.local = 2, .forward = 4, .global = 2, .over = 3});
    answer(items, CHECKS_MAX, said, &stats);
    assert_counted(&stats,
                   &(struct gubernator_stats){.local = 4, .forward = 8, .global = 4, .over = 6});
    answer(items, CHECKS_MAX, said, NULL); /* counted nowhere */
}

/* A look exceeds nothing; a limit of nothing is exceeded by a hit alone. */
static void over_the_limit_is_what_is_told_so(void **state)
{
    static const struct said said[] = {
        {"n1", OUTCOME_ALLOW, 200}, {"n1", OUTCOME_ALLOW, 200}, {"n1", OUTCOME_ALLOW, 200}};
    struct gubernator_item items[] = {item_of(0), item_of(0), item_of(0)};
    struct gubernator_stats stats = {.local = 0};
    (void)state;
    items[0].hits = 0;
    items[1].limit = 0;
    items[2].limit = items[2].hits = 0;
    answer(items, 3, said, &stats);
    assert_counted(&stats, &(struct gubernator_stats){.local = 3, .over = 1});
}

static void an_item_that_is_not_decided_is_an_error_and_nothing_else(void **state)
{
    static const struct said said[] = {{"n1", OUTCOME_BUSY, 503},
                                       {"n2", OUTCOME_ERROR, 503},
                                       {NULL, OUTCOME_ERROR, 503},
                                       {"n1", OUTCOME_ERROR, 400}};
    struct gubernator_item items[] = {item_of(0), item_of(0), item_of(0), item_of(0),
                                      item_of(0), item_of(0), item_of(0), item_of(0)};
    struct gubernator_stats stats = {.local = 0};
    (void)state;
    items[1].unique_key.len = 0;
    items[2].name.len = 0;
    items[3].algorithm = 2;
    items[5].behavior = GUBERNATOR_GLOBAL | GUBERNATOR_GREGORIAN; /* of no unit */
    answer(items, 8, said, &stats);
    assert_counted(
        &stats, &(struct gubernator_stats){.invalid = 4, .algorithm = 1, .timeout = 2, .busy = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_is_of_this_node_of_another_one_or_global),
        cmocka_unit_test(over_the_limit_is_what_is_told_so),
        cmocka_unit_test(an_item_that_is_not_decided_is_an_error_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_wire_decisions.c - what a node answers is what a client reads, up to every bound. */
#include "client/protocol/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

enum { TEXTS = 2000 };

struct bench {
    struct wire_decision_columns columns;
    struct wire_sources sources;
    struct wire_explain explain;
    struct wire_decisions_space space;
    uint8_t frame[WIRE_MESSAGE_MAX];
    char texts[TEXTS][WIRE_TEXT_MAX + 64];
    char error[WIRE_ERROR_LEN];
};

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    wire_sources_init(&b->sources);
    for (int i = 0; i < TEXTS; i++)
        (void)snprintf(b->texts[i], sizeof b->texts[i], "text-%d", i);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static struct wire_source source_of(struct bench *b, size_t rule, size_t node)
{
    return (struct wire_source){.rule = wire_text_of(b->texts[rule]),
                                .window = wire_text_of("5/h"),
                                .status = 429,
                                .message = wire_text_of("NO"),
                                .node = wire_text_of(b->texts[node]),
                                .shadow_rule = wire_text_of(rule % 3 == 1 ? b->texts[0] : "")};
}

static void assert_same_text(struct wire_text got, struct wire_text sent)
{
    assert_int_equal(got.len, sent.len);
    assert_memory_equal(got.data, sent.data, sent.len);
}

/* Every number is random over its whole range; -1 stays never. */
static void random_decisions_round_trip(void **state)
{
    struct bench *b = *state;
    struct random random;

    random_init(&random, 8);
    for (int round = 0; round < 30; round++) {
        struct wire_decisions_head head = {
            1 + random_below(&random, 1000),          random_next(&random), random_next(&random),
            1 + (uint32_t)random_below(&random, 500), round % 2 == 0,       round % 4 == 0};
        struct wire_decisions decisions;
        int len;
        wire_sources_init(&b->sources);
        for (uint32_t i = 0; i < head.count; i++) {
            const struct wire_source source =
                source_of(b, random_below(&random, 20), random_below(&random, 3));

            b->columns.outcomes[i] = (uint8_t)random_below(&random, OUTCOME_COUNT);
            b->columns.flags[i] = (uint8_t)random_below(&random, 16);
            b->columns.source_index[i] = random_below(&random, 9) == 0
                                             ? WIRE_SOURCE_NONE
                                             : wire_sources_add(&b->sources, &source);
            b->columns.vnode[i] = (uint32_t)random_next(&random);
            b->columns.limit[i] = random_next(&random);
            b->columns.used[i] = random_next(&random);
            b->columns.remaining[i] = random_next(&random);
            b->columns.granted[i] = random_next(&random);
            b->columns.reset_after_ms[i] = (int64_t)(random_next(&random) >> 1);
            b->columns.retry_after_ms[i] = WIRE_NEVER_MS;
            b->columns.delay_ms[i] = (int64_t)random_below(&random, 100);
            b->columns.leases[i] = random_next(&random);
            b->columns.lease_ms[i] = (uint32_t)random_next(&random);
        }
        assert_true(b->sources.count <= 60);
        len =
            wire_encode_decisions(&head, &b->columns, &b->sources, NULL, b->frame, sizeof b->frame);
        assert_true(len > 0);
        assert_int_equal(
            wire_decode_decisions(b->frame, (size_t)len, &b->space, &decisions, b->error), 0);
        assert_true(decisions.head.session == head.session && decisions.head.seq == head.seq);
        assert_true(decisions.head.view_version == head.view_version);
        assert_int_equal(decisions.head.count, head.count);
        assert_null(decisions.explain);
        for (uint32_t i = 0; i < head.count; i++) {
            struct wire_decision d;

            wire_decision_at(&decisions, i, &d);
            assert_int_equal(d.outcome, b->columns.outcomes[i]);
            assert_int_equal(d.allowed, b->columns.flags[i] & 1);
            assert_int_equal(d.degraded | d.pending << 2, b->columns.flags[i] >> 1 & 5);
            assert_true(d.limit == b->columns.limit[i] && d.used == b->columns.used[i]);
            assert_true(d.remaining == b->columns.remaining[i]);
            assert_true(d.granted == b->columns.granted[i]);
            assert_true(d.reset_after_ms == b->columns.reset_after_ms[i]);
            assert_true(d.retry_after_ms == WIRE_NEVER_MS);
            assert_true(d.delay_ms == b->columns.delay_ms[i]);
            assert_int_equal(d.vnode, b->columns.vnode[i]);
            assert_true(d.lease == (head.leased ? b->columns.leases[i] : 0));
            assert_true(d.lease_ms == (head.held ? b->columns.lease_ms[i] : 0));
            if (b->columns.source_index[i] == WIRE_SOURCE_NONE) {
                assert_null(d.source);
            } else {
                const struct wire_source *sent = &b->sources.table[b->columns.source_index[i]];

                assert_same_text(d.source->rule, sent->rule);
                assert_same_text(d.source->node, sent->node);
                assert_same_text(d.source->shadow_rule, sent->shadow_rule);
            }
        }
    }
}

/* Equal by content, wherever the bytes lie; every part counts. */
static void each_source_is_kept_once(void **state)
{
    struct bench *b = *state;
    struct wire_source source = source_of(b, 1, 2);
    char copy[] = "text-1";
    uint16_t first = wire_sources_add(&b->sources, &source);

    source.rule = wire_text_of(copy);
    assert_int_equal(wire_sources_add(&b->sources, &source), first);
    source.status = 200;
    assert_int_not_equal(wire_sources_add(&b->sources, &source), first);
    source.status = 429;
    source.window = wire_text_of("6/h");
    assert_int_not_equal(wire_sources_add(&b->sources, &source), first);
    source.window = wire_text_of("5/h");
    source.message = wire_text_of("YES");
    assert_int_not_equal(wire_sources_add(&b->sources, &source), first);
    source.message = wire_text_of("NO");
    source.node = wire_text_of("n9");
    assert_int_not_equal(wire_sources_add(&b->sources, &source), first);
    source.node = wire_text_of(b->texts[2]);
    source.shadow_rule = wire_text_of("trial");
    assert_int_not_equal(wire_sources_add(&b->sources, &source), first);
    assert_int_equal(b->sources.count, 6);
    source.shadow_rule = wire_text_of(b->texts[0]);
    assert_int_equal(wire_sources_add(&b->sources, &source), first);
}

/* Beyond the table's bound items lose the names, never the decision. */
static void a_full_table_gives_no_source(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < WIRE_SOURCES_MAX; i++) {
        const struct wire_source source = source_of(b, i, 0);

        assert_int_equal(wire_sources_add(&b->sources, &source), (uint16_t)i);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        const struct wire_source source = source_of(b, i, 0);

        assert_int_equal(wire_sources_add(&b->sources, &source),
                         i < WIRE_SOURCES_MAX ? (uint16_t)i : WIRE_SOURCE_NONE);
    }
}

/* Everything at its bound at once still fits in one message, as the static_assert says. */
static void the_largest_decisions_fit_in_one_message(void **state)
{
    struct bench *b = *state;
    struct wire_decisions_head head = {UINT64_MAX,      UINT64_MAX, UINT64_MAX,
                                       WIRE_CHECKS_MAX, true,       true};
    struct wire_decisions decisions;
    int len;

    for (size_t i = 0; i < WIRE_SOURCES_MAX; i++) {
        struct wire_source source = {.status = UINT16_MAX};

        memset(b->texts[i], 'x', WIRE_TEXT_MAX);
        b->texts[i][0] = (char)('0' + i % 64);
        b->texts[i][1] = (char)('0' + i / 64);
        b->texts[i][WIRE_TEXT_MAX] = '\0';
        source.rule = source.window = source.message = source.node = wire_text_of(b->texts[i]);
        assert_int_equal(wire_sources_add(&b->sources, &source), (uint16_t)i);
    }
    assert_int_equal(b->sources.table[0].rule.len, WIRE_RULE_MAX); /* cut */
    len = wire_encode_decisions(&head, &b->columns, &b->sources, NULL, b->frame, sizeof b->frame);
    assert_true(len > 0);
    assert_int_equal(wire_decode_decisions(b->frame, (size_t)len, &b->space, &decisions, b->error),
                     0);
    assert_int_equal(decisions.source_count, WIRE_SOURCES_MAX);
    head.count = WIRE_EXPLAIN_ITEMS_MAX;
    for (uint32_t i = 0; i < WIRE_EXPLAIN_ITEMS_MAX * WIRE_EXPLAIN_ROWS_MAX; i++)
        b->explain.rows[i] = (struct wire_explain_row){wire_text_of(b->texts[i]),
                                                       wire_text_of(b->texts[i]),
                                                       UINT64_MAX,
                                                       UINT64_MAX,
                                                       UINT64_MAX,
                                                       true,
                                                       INT64_MAX,
                                                       WIRE_NEVER_MS,
                                                       wire_text_of(b->texts[i]),
                                                       UINT64_MAX,
                                                       UINT64_MAX,
                                                       UINT64_MAX,
                                                       true,
                                                       wire_text_of(b->texts[i])};
    for (uint32_t i = 0; i < WIRE_EXPLAIN_ITEMS_MAX; i++)
        b->explain.end[i] = (i + 1) * WIRE_EXPLAIN_ROWS_MAX;
    b->sources.count = WIRE_EXPLAIN_ITEMS_MAX;
    len = wire_encode_decisions(&head, &b->columns, &b->sources, &b->explain, b->frame,
                                sizeof b->frame);
    assert_true(len > 0);
    assert_int_equal(wire_decode_decisions(b->frame, (size_t)len, &b->space, &decisions, b->error),
                     0);
    assert_int_equal(decisions.explain->end[15], 1024);
    assert_true(decisions.explain->rows[1023].retry_after_ms == WIRE_NEVER_MS);
    assert_int_equal(decisions.explain->rows[1023].pool.len, WIRE_RULE_MAX); /* cut */
    assert_true(decisions.explain->rows[1023].borrowed == UINT64_MAX);
    assert_int_equal(decisions.explain->rows[1023].pool_home.len, WIRE_NAME_MAX); /* cut */
}

/* A text that must be cut is cut between two characters. */
static void a_cut_never_ends_inside_a_character(void **state)
{
    struct bench *b = *state;
    struct wire_source source = source_of(b, 0, 0);
    char window[64];

    memset(window, 'a', sizeof window);
    memcpy(window + WIRE_WINDOW_MAX - 1, "\xc3\xa9", 2); /* one character over the bound */
    source.window = (struct wire_text){window, sizeof window};
    assert_int_equal(wire_sources_add(&b->sources, &source), 0);
    assert_int_equal(b->sources.table[0].window.len, WIRE_WINDOW_MAX - 1);
}

/* Inconsistent columns are a programmer's mistake that never reaches the wire. */
static void bad_columns_are_refused(void **state)
{
    struct bench *b = *state;
    struct wire_decisions_head head = {1, 2, 3, 2, false, false};

    b->columns.source_index[1] = 5;
    assert_int_equal(
        wire_encode_decisions(&head, &b->columns, &b->sources, NULL, b->frame, sizeof b->frame),
        TG_EINVALID);
    b->columns.source_index[0] = b->columns.source_index[1] = WIRE_SOURCE_NONE;
    b->explain.end[0] = WIRE_EXPLAIN_ROWS_MAX + 1;
    b->explain.end[1] = WIRE_EXPLAIN_ROWS_MAX + 1;
    assert_int_equal(wire_encode_decisions(&head, &b->columns, &b->sources, &b->explain, b->frame,
                                           sizeof b->frame),
                     TG_EINVALID);
    assert_true(wire_encode_decisions(&head, &b->columns, &b->sources, NULL, b->frame,
                                      sizeof b->frame) > 0);
    head.count = 0;
    assert_int_equal(
        wire_encode_decisions(&head, &b->columns, &b->sources, NULL, b->frame, sizeof b->frame),
        TG_EINVALID);
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_bench(random_decisions_round_trip),
        with_bench(each_source_is_kept_once),
        with_bench(a_full_table_gives_no_source),
        with_bench(the_largest_decisions_fit_in_one_message),
        with_bench(a_cut_never_ends_inside_a_character),
        with_bench(bad_columns_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

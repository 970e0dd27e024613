/* test_gubernator.c - what clients of Gubernator ask, step by step at a shard in virtual time: both
 * algorithms, looks, hits that are given back, changed limits, the calendar, each behavior; items
 * that are wrong between others; keys; and the same as JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/api/gubernator_json.h"
#include "node/gateway/batches.h"
#include "node/gateway/gubernator/gubernator.h"
#include "tests/unit/support_shard.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define MOST   INT64_C(1000000000000000)

enum {
    TOKEN = GUBERNATOR_TOKEN_BUCKET,
    LEAKY = GUBERNATOR_LEAKY_BUCKET,
    RESET = GUBERNATOR_RESET,
    DRAIN = GUBERNATOR_DRAIN,
    UNIT = GUBERNATOR_GREGORIAN
};

/* What is asked after a while, and answered: `reset` is ms after the first step; AS_NONE, 0. */
#define AS_NONE INT64_MIN
struct step {
    int64_t wait_ms;
    int64_t hits;
    int64_t limit;
    int64_t duration;
    int64_t burst;
    int32_t algorithm;
    int32_t behavior;
    bool over;
    int64_t remaining;
    int64_t reset;
};

static struct gubernator_plan plan;
static struct gubernator_kept kept;
static uint64_t notes[BATCH_NOTES_MAX / sizeof(uint64_t)];

/* Asks shard `at` about these items, in one message. */
static struct gubernator_reader ask(struct lab *lab, uint32_t at,
                                    const struct gubernator_item *items, uint32_t count)
{
    gubernator_begin(&plan, lab->now_ns);
    for (uint32_t i = 0; i < count; i++)
        gubernator_add(&plan, &items[i]);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(
            gubernator_append(&plan, i, items[i].name, items[i].unique_key, &lab->builder), 0);
    assert_int_equal(lab->builder.count, plan.checks);
    assert_true(gubernator_more_len(&plan) <= sizeof notes);
    gubernator_note(&plan, &kept, notes);
    if (plan.checks > 0)
        (void)lab_answer(lab, lab_send(lab, at, 5000), 0);
    return gubernator_answers(&kept, notes, plan.checks > 0 ? &lab->decisions : NULL, 0,
                              lab->now_ns);
}

static struct gubernator_item item_of(const struct step *step, const char *key)
{
    return (struct gubernator_item){.name = wire_text_of("name"),
                                    .unique_key = wire_text_of(key),
                                    .hits = step->hits,
                                    .limit = step->limit,
                                    .duration = step->duration,
                                    .burst = step->burst,
                                    .algorithm = step->algorithm,
                                    .behavior = step->behavior};
}

static void wait_ms(struct lab *lab, int64_t ms)
{
    if (ms > 400) {
        lab_pause(lab, (ms - 200) * LAB_MS);
        ms = 200;
    }
    lab_run(lab, ms * LAB_MS);
    lab_forget(lab);
}

static void run_steps(struct lab *lab, const char *key, const struct step *steps, size_t count)
{
    const int64_t start_ms = lab->now_ns / LAB_MS;
    struct gubernator_answer answer;
    for (size_t i = 0; i < count; i++) {
        const struct step *step = &steps[i];
        const struct gubernator_item item = item_of(step, key);
        wait_ms(lab, step->wait_ms);
        struct gubernator_reader reader = ask(lab, 0, &item, 1);
        assert_true(gubernator_next(&reader, &answer));
        const int64_t reset = step->reset == AS_NONE ? 0 : start_ms + step->reset;
        if (answer.error.len != 0 || answer.over != step->over ||
            answer.remaining != step->remaining || answer.reset_ms != reset ||
            answer.limit != step->limit)
            fail_msg("step %zu of %s: over %d, limit %lld, remaining %lld, reset %lld after the "
                     "first step, error \"%.*s\"",
                     i, key, answer.over, (long long)answer.limit, (long long)answer.remaining,
                     (long long)(answer.reset_ms - start_ms), (int)answer.error.len,
                     answer.error.data);
        assert_false(gubernator_next(&reader, &answer));
    }
}

#define RUN(lab, key, steps) run_steps(lab, key, steps, sizeof(steps) / sizeof *(steps))

/* ---- token buckets --------------------------------------------------------------------------- */

static void a_token_bucket_is_a_window_that_the_first_hit_begins(void **state)
{
    static const struct step steps[] = {
        {0, 1, 2, 9 * SECOND, 0, TOKEN, 0, false, 1, 9 * SECOND},
        {100, 1, 2, 9 * SECOND, 0, TOKEN, 0, false, 0, 9 * SECOND},
        {100, 1, 2, 9 * SECOND, 0, TOKEN, 0, true, 0, 9 * SECOND},
        {8 * SECOND + 799, 1, 2, 9 * SECOND, 0, TOKEN, 0, true, 0, 9 * SECOND},
        {1, 1, 2, 9 * SECOND, 0, TOKEN, 0, false, 1, 18 * SECOND},
    };
    RUN(*state, "window", steps);
}

static void more_than_is_left_is_over_the_limit_and_takes_nothing(void **state)
{
    static const struct step steps[] = {
        {0, 1000, 2000, SECOND, 0, TOKEN, 0, false, 1000, SECOND},
        {0, 1500, 2000, SECOND, 0, TOKEN, 0, true, 1000, SECOND},
        {0, 500, 2000, SECOND, 0, TOKEN, 0, false, 500, SECOND},
        {0, 400, 2000, SECOND, 0, TOKEN, 0, false, 100, SECOND},
        {0, 100, 2000, SECOND, 0, TOKEN, 0, false, 0, SECOND},
        {0, 1, 2000, SECOND, 0, TOKEN, 0, true, 0, SECOND},
    };
    RUN(*state, "more", steps);
}

static void a_look_takes_nothing_and_begins_no_window(void **state)
{
    static const struct step steps[] = {
        {0, 0, 5, SECOND, 0, TOKEN, 0, false, 5, SECOND},
        {300, 0, 5, SECOND, 0, TOKEN, 0, false, 5, 300 + SECOND},
        {0, 5, 5, SECOND, 0, TOKEN, 0, false, 0, 300 + SECOND},
        {100, 0, 5, SECOND, 0, TOKEN, 0, false, 0, 300 + SECOND},
        {1, 1, 5, SECOND, 0, TOKEN, 0, true, 0, 300 + SECOND},
    };
    RUN(*state, "look", steps);
}

static void negative_hits_give_back_and_never_above_the_limit(void **state)
{
    static const struct step steps[] = {
        {0, 3, 5, MINUTE, 0, TOKEN, 0, false, 2, MINUTE},
        {0, -2, 5, MINUTE, 0, TOKEN, 0, false, 4, MINUTE},
        {0, -9, 5, MINUTE, 0, TOKEN, 0, false, 5, MINUTE},
        {0, INT64_MIN, 5, MINUTE, 0, TOKEN, 0, false, 5, MINUTE},
        {0, 6, 5, MINUTE, 0, TOKEN, 0, true, 5, MINUTE},
        {0, 4, 9, MINUTE, 0, LEAKY, 0, false, 5, 4 * MINUTE / 9 + 1},
        {0, -4, 9, MINUTE, 0, LEAKY, 0, false, 9, 0},
        {0, -4, 9, MINUTE, 0, LEAKY, 0, false, 9, 0},
    };
    RUN(*state, "back", steps);
}

static void a_changed_limit_keeps_what_was_used(void **state)
{
    static const struct step steps[] = {
        {0, 8, 10, MINUTE, 0, TOKEN, 0, false, 2, MINUTE},
        {0, 1, 20, MINUTE, 0, TOKEN, 0, false, 11, MINUTE},
        {0, 1, 5, MINUTE, 0, TOKEN, 0, true, 0, MINUTE},
        {0, 1, 10, MINUTE, 0, TOKEN, 0, false, 0, MINUTE},
    };
    RUN(*state, "changed", steps);
}

static void a_changed_duration_ends_the_window_sooner_or_later_after_its_beginning(void **state)
{
    static const struct step steps[] = {
        {0, 4, 5, 10 * SECOND, 0, TOKEN, 0, false, 1, 10 * SECOND},
        {SECOND, 0, 5, MINUTE, 0, TOKEN, 0, false, 1, MINUTE},
        {0, 1, 5, MINUTE, 0, TOKEN, 0, false, 0, MINUTE},
        {SECOND, 1, 5, SECOND, 0, TOKEN, 0, false, 4, 3 * SECOND}, /* that one is over */
    };
    RUN(*state, "duration", steps);
}

static void a_changed_algorithm_begins_anew(void **state)
{
    static const struct step steps[] = {
        {0, 5, 5, MINUTE, 0, TOKEN, 0, false, 0, MINUTE},
        {0, 1, 5, MINUTE, 0, LEAKY, 0, false, 4, MINUTE / 5},
        {0, 1, 5, MINUTE, 0, TOKEN, 0, true, 0, MINUTE},
    };
    RUN(*state, "algorithm", steps);
}

/* ---- leaky buckets --------------------------------------------------------------------------- */

static void a_leaky_bucket_drains_evenly(void **state)
{
    static const struct step steps[] = {
        {0, 1, 10, 30 * SECOND, 0, LEAKY, 0, false, 9, 3 * SECOND},
        {SECOND, 1, 10, 30 * SECOND, 0, LEAKY, 0, false, 8, 6 * SECOND},
        {SECOND, 1, 10, 30 * SECOND, 0, LEAKY, 0, false, 7, 9 * SECOND},
        {1500, 0, 10, 30 * SECOND, 0, LEAKY, 0, false, 8, 9 * SECOND},
        {3000, 0, 10, 30 * SECOND, 0, LEAKY, 0, false, 9, 9 * SECOND},
        {0, 9, 10, 30 * SECOND, 0, LEAKY, 0, false, 0, 36 * SECOND},
        {0, 1, 10, 30 * SECOND, 0, LEAKY, 0, true, 0, 36 * SECOND},
        {30 * SECOND, 10, 10, 30 * SECOND, 0, LEAKY, 0, false, 0, 66 * SECOND + 500},
        {29 * SECOND, 9, 10, 30 * SECOND, 0, LEAKY, 0, false, 0, 93 * SECOND + 500},
    };
    /* At the eighth step nothing is left of what was used: it begins at 36.5 s. */
    RUN(*state, "leaky", steps);
}

static void a_burst_is_how_much_a_leaky_bucket_holds(void **state)
{
    static const struct step steps[] = {
        {0, 1, 10, 30 * SECOND, 20, LEAKY, 0, false, 19, 3 * SECOND},
        {0, 19, 10, 30 * SECOND, 20, LEAKY, 0, false, 0, MINUTE},
        {0, 1, 10, 30 * SECOND, 20, LEAKY, 0, true, 0, MINUTE},
        {3 * SECOND, 1, 10, 30 * SECOND, 20, LEAKY, 0, false, 0, 63 * SECOND},
        {0, 1, 10, 30 * SECOND, 5, LEAKY, 0, true, 0, 3 * SECOND + 30 * SECOND},
    };
    /* The last: of a smaller burst one more is owed at most. */
    RUN(*state, "burst", steps);
}

/* ---- the calendar ---------------------------------------------------------------------------- */

static void windows_of_the_calendar_end_with_their_unit_in_utc(void **state)
{
    static const int64_t ends_s[] = {1700000040, 1700002800, 1700006400,
                                     1700438400, 1701388800, 1704067200};
    struct lab *lab = *state;
    struct gubernator_answer answer;
    for (int64_t unit = 0; unit < 6; unit++) {
        const struct step step = {0, 3, 5, unit, 0, TOKEN, UNIT, false, 2, 0};
        const struct step look = {0, 0, 5, unit, 0, TOKEN, UNIT, false, 2, 0};
        const char *key = "abcdef" + unit;
        for (int i = 0; i < 2; i++) {
            const struct gubernator_item item = item_of(i == 0 ? &look : &step, key);
            struct gubernator_reader reader = ask(lab, 0, &item, 1);
            assert_true(gubernator_next(&reader, &answer));
            assert_int_equal(answer.error.len, 0);
            assert_int_equal(answer.remaining, i == 0 ? 5 : 2);
            assert_int_equal(answer.reset_ms, ends_s[unit] * 1000);
        }
    }
    const struct step late = {0, 3, 5, 0, 0, TOKEN, UNIT, false, 2, 0};
    const struct gubernator_item item = item_of(&late, "abcdef");
    wait_ms(lab, 1700000040 * SECOND - lab->now_ns / LAB_MS - 1);
    struct gubernator_reader reader = ask(lab, 0, &item, 1);
    assert_true(gubernator_next(&reader, &answer) && answer.over);
    wait_ms(lab, 1);
    reader = ask(lab, 0, &item, 1);
    assert_true(gubernator_next(&reader, &answer) && !answer.over);
    assert_int_equal(answer.reset_ms, (1700000040 + 60) * INT64_C(1000));
}

static void a_leaky_bucket_of_the_calendar_drains_over_the_length_of_its_unit(void **state)
{
    static const struct step steps[] = {
        {0, 12, 24, 2, 0, LEAKY, UNIT, false, 12, DAY / 2},
        {HOUR, 0, 24, 2, 0, LEAKY, UNIT, false, 13, DAY / 2},
    };
    RUN(*state, "day", steps);
}

static void a_unit_that_is_none_is_the_item_s_error(void **state)
{
    static const int64_t units[] = {-1, 6, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const struct step step = {.hits = 1, .limit = 5, .duration = units[i], .behavior = UNIT};
        const struct gubernator_item item = item_of(&step, "unit");
        struct gubernator_answer answer;
        struct gubernator_reader reader = ask(*state, 0, &item, 1);
        assert_true(gubernator_next(&reader, &answer));
        assert_non_null(strstr(answer.error.data, "expected 0 to 5"));
    }
}

/* ---- behaviors ------------------------------------------------------------------------------- */

static void a_reset_makes_the_limit_new_and_takes_no_hits(void **state)
{
    static const struct step steps[] = {
        {0, 5, 5, MINUTE, 0, TOKEN, 0, false, 0, MINUTE},
        {10, 3, 5, MINUTE, 0, TOKEN, RESET, false, 5, AS_NONE},
        {10, 1, 5, MINUTE, 0, TOKEN, 0, false, 4, 20 + MINUTE},
        {0, 5, 5, MINUTE, 9, LEAKY, 0, false, 4, 20 + MINUTE},
        {0, 3, 5, MINUTE, 9, LEAKY, RESET, false, 9, 20},
    };
    RUN(*state, "reset", steps);
}

static void a_drain_takes_what_is_left_when_more_is_asked(void **state)
{
    static const struct step steps[] = {
        {0, 0, 10, 30 * SECOND, 0, TOKEN, DRAIN, false, 10, 30 * SECOND},
        {0, 1, 10, 30 * SECOND, 0, TOKEN, DRAIN, false, 9, 30 * SECOND},
        {0, 100, 10, 30 * SECOND, 0, TOKEN, DRAIN, true, 0, 30 * SECOND},
        {0, 0, 10, 30 * SECOND, 0, TOKEN, DRAIN, false, 0, 30 * SECOND},
        {0, 1, 10, 30 * SECOND, 0, TOKEN, DRAIN, true, 0, 30 * SECOND},
        {0, 4, 10, 30 * SECOND, 0, LEAKY, DRAIN, false, 6, 12 * SECOND},
        {0, 6, 10, 30 * SECOND, 0, LEAKY, DRAIN, false, 0, 30 * SECOND},
        {0, 6, 10, 30 * SECOND, 0, LEAKY, DRAIN, true, 0, 30 * SECOND},
    };
    RUN(*state, "drain", steps);
}

static void what_only_says_how_to_decide_changes_nothing(void **state)
{
    static const struct step steps[] = {
        {0, 2, 5, MINUTE, 0, TOKEN, GUBERNATOR_NO_BATCHING, false, 3, MINUTE},
        {0, 2, 5, MINUTE, 0, TOKEN, GUBERNATOR_GLOBAL, false, 1, MINUTE},
        {0, 2, 5, MINUTE, 0, TOKEN, GUBERNATOR_MULTI_REGION, true, 1, MINUTE},
        {0, 1, 5, MINUTE, 0, TOKEN, 1 << 20, false, 0, MINUTE},
    };
    RUN(*state, "how", steps);
    const struct gubernator_item item = item_of(&steps[2], "how");
    struct gubernator_answer answer;
    struct gubernator_reader reader = ask(*state, 0, &item, 1);
    assert_true(gubernator_next(&reader, &answer));
    assert_non_null(strstr(answer.region.data, "in each region"));
    assert_true(answer.owner.len > 0);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void a_limit_of_nothing_lets_nothing_through(void **state)
{
    static const struct step steps[] = {
        {0, 1, 0, MINUTE, 0, TOKEN, 0, true, 0, MINUTE},
        {0, 0, 0, MINUTE, 0, TOKEN, 0, false, 0, MINUTE},
        {0, -1, 0, MINUTE, 0, TOKEN, 0, false, 0, MINUTE},
        {0, 1, -7, MINUTE, 0, LEAKY, 0, true, 0, 0},
        {0, 1, 0, MINUTE, 9, LEAKY, DRAIN, true, 0, 0},
        {0, 1, 1, MINUTE, 0, TOKEN, 0, false, 0, MINUTE}, /* nothing of that was counted */
    };
    RUN(*state, "nothing", steps);
}

static void without_a_duration_each_millisecond_is_a_window(void **state)
{
    static const struct step steps[] = {
        {0, 1, 10, 0, 0, TOKEN, 0, false, 9, 1},
        {0, 10, 10, 0, 0, TOKEN, 0, true, 9, 1},
        {1, 10, 10, -5, 0, TOKEN, 0, false, 0, 2},
    };
    RUN(*state, "short", steps);
}

static void what_is_beyond_what_can_be_counted_is_never_let_through_for_that(void **state)
{
    static const struct step steps[] = {
        {0, MOST + 1, MOST, DAY, 0, TOKEN, 0, true, MOST, MOST / 1000000},
        {0, INT64_MAX, INT64_MAX, DAY, 0, TOKEN, 0, true, MOST, MOST / 1000000},
        {0, 7, INT64_MAX, DAY, 0, TOKEN, 0, false, MOST - 7, MOST / 1000000},
        {0, INT64_MAX, INT64_MAX, DAY, 0, TOKEN, DRAIN, true, 0, MOST / 1000000},
        {0, 1, 5, INT64_MAX, 0, LEAKY, 0, false, 4, 732 * DAY},
        {0, 5, 2000000, 1, 0, TOKEN, RESET, false, 2000000, AS_NONE},
        {0, 2000000, 2000000, 1, 0, TOKEN, 0, false, 0, 2}, /* 10^9 a second */
        {0, 7, MOST, 0, 0, TOKEN, UNIT, false, MOST - 7, 40 * SECOND - 1},
        {0, 7, MOST, 0, 0, LEAKY, UNIT, false, MOST - 7, 1},
    };
    run_steps(*state, "far", steps, 4);
    run_steps(*state, "year", steps + 4, 1);
    run_steps(*state, "fast", steps + 5, 2);
    run_steps(*state, "unit", steps + 7, 2);
}

/* ---- many items ------------------------------------------------------------------------------ */

static void an_item_that_is_wrong_is_an_error_among_others_that_are_decided(void **state)
{
    static struct gubernator_item items[GUBERNATOR_ITEMS_MAX];
    static const struct step good = {.hits = 1, .limit = 2000, .duration = MINUTE};
    struct lab *lab = *state;
    struct gubernator_answer answer;
    int64_t left = 2000;
    for (uint32_t i = 0; i < GUBERNATOR_ITEMS_MAX; i++) {
        items[i] = item_of(&good, "many");
        if (i % 5 == 1)
            items[i].unique_key.len = 0;
        if (i % 5 == 2)
            items[i].name.len = 0;
        if (i % 5 == 3)
            items[i].algorithm = 2 + (int32_t)i;
    }
    struct gubernator_reader reader = ask(lab, 0, items, GUBERNATOR_ITEMS_MAX);
    assert_int_equal(plan.checks, GUBERNATOR_ITEMS_MAX / 5 * 2);
    for (uint32_t i = 0; i < GUBERNATOR_ITEMS_MAX; i++) {
        static const char *const errors[] = {
            [1] = "field 'unique_key' cannot be empty",
            [2] = "field 'namespace' cannot be empty",
            [3] = "field 'algorithm': expected TOKEN_BUCKET or LEAKY_BUCKET",
        };
        assert_true(gubernator_next(&reader, &answer));
        const char *error = i % 5 == 4 ? NULL : errors[i % 5];
        assert_true(lab_text_is(answer.error, error == NULL ? "" : error));
        assert_false(answer.over);
        if (error == NULL)
            assert_int_equal(answer.remaining, --left);
    }
    assert_false(gubernator_next(&reader, &answer));
}

static void limits_beyond_a_hundred_and_twenty_eight_are_errors_and_repeated_ones_none(void **state)
{
    static struct gubernator_item items[GUBERNATOR_ITEMS_MAX];
    static const struct step good = {.hits = 1, .limit = 5, .duration = MINUTE};
    struct gubernator_answer answer;
    for (uint32_t i = 0; i < GUBERNATOR_ITEMS_MAX; i++) {
        items[i] = item_of(&good, "crowd");
        items[i].limit = 2000 + i % 130;
    }
    struct gubernator_reader reader = ask(*state, 0, items, GUBERNATOR_ITEMS_MAX);
    for (uint32_t i = 0; i < GUBERNATOR_ITEMS_MAX; i++) {
        assert_true(gubernator_next(&reader, &answer));
        assert_int_equal(answer.error.len > 0, i % 130 >= GUBERNATOR_LIMITS_MAX);
        if (answer.error.len == 0)
            assert_int_equal(answer.limit, 2000 + i % 130);
    }
}

static void each_item_of_a_request_is_counted_by_a_limit_of_its_own_fields(void **state)
{
    static const struct step steps[] = {
        {0, 1, 5, MINUTE, 0, TOKEN, 0, false, 4, MINUTE},
        {0, 1, 5, HOUR, 0, TOKEN, 0, false, 4, HOUR},
        {0, 1, 5, HOUR, 9, LEAKY, 0, false, 8, 12 * MINUTE},
        {0, 1, 5, HOUR, 7, LEAKY, 0, false, 6, 12 * MINUTE},
        {0, 1, 3, MINUTE, 0, TOKEN, 0, false, 2, MINUTE},
    };
    enum { STEPS = sizeof steps / sizeof *steps, ASKED = 2 * STEPS };
    static const char *const keys[ASKED] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct gubernator_item items[ASKED];
    struct lab *lab = *state;
    struct gubernator_answer answer;
    const int64_t start_ms = lab->now_ns / LAB_MS;
    for (size_t i = 0; i < ASKED; i++)
        items[i] = item_of(&steps[i % STEPS], keys[i]);
    struct gubernator_reader reader = ask(lab, 0, items, ASKED);
    assert_int_equal(plan.asked.limit_count, STEPS);
    for (size_t i = 0; i < ASKED; i++) {
        const struct step *step = &steps[i % STEPS];
        assert_true(gubernator_next(&reader, &answer));
        assert_true(answer.error.len == 0 && answer.over == step->over);
        assert_true(answer.limit == step->limit && answer.remaining == step->remaining);
        assert_int_equal(answer.reset_ms - start_ms, step->reset);
    }
}

static void what_has_no_say_in_a_limit_makes_no_other_one(void **state)
{
    static struct gubernator_item items[GUBERNATOR_ITEMS_MAX];
    static const struct step good = {.hits = 1, .limit = 2000, .duration = MINUTE};
    struct gubernator_answer answer;
    for (uint32_t i = 0; i < GUBERNATOR_ITEMS_MAX; i++) {
        items[i] = item_of(&good, "burst");
        items[i].burst = i;
        items[i].behavior = i % 2 == 0 ? GUBERNATOR_GLOBAL : GUBERNATOR_NO_BATCHING;
    }
    struct gubernator_reader reader = ask(*state, 0, items, GUBERNATOR_ITEMS_MAX);
    assert_int_equal(plan.asked.limit_count, 1);
    for (uint32_t i = 0; i < GUBERNATOR_ITEMS_MAX; i++) {
        assert_true(gubernator_next(&reader, &answer));
        assert_int_equal(answer.remaining, 2000 - 1 - i);
    }
}

static void what_is_told_is_each_item_s_though_the_limit_is_counted_alike(void **state)
{
    static const struct step steps[] = {
        {.hits = 1, .limit = 1, .duration = MINUTE},
        {.hits = 1, .limit = 0, .duration = MINUTE},
        {.hits = 1, .limit = 1, .duration = MINUTE, .behavior = RESET},
        {.hits = 0, .limit = 1, .duration = MINUTE},
    };
    struct gubernator_item items[4];
    struct gubernator_answer answers[4];
    for (size_t i = 0; i < 4; i++)
        items[i] = item_of(&steps[i], "alike");
    struct gubernator_reader reader = ask(*state, 0, items, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(gubernator_next(&reader, &answers[i]));
    assert_true(answers[0].limit == 1 && !answers[0].over && answers[0].remaining == 0);
    assert_true(answers[1].limit == 0 && answers[1].over && answers[1].reset_ms > 0);
    assert_true(answers[2].limit == 1 && answers[2].remaining == 1 && answers[2].reset_ms == 0);
    assert_true(answers[3].limit == 1 && answers[3].remaining == 1 && answers[3].reset_ms > 0);
}

/* Who waits until then is let through. */
static void a_moment_is_told_late_rather_than_early(void **state)
{
    static const struct step step = {.hits = 1, .limit = 1, .duration = MINUTE};
    const struct gubernator_item item = item_of(&step, "moment");
    struct lab *lab = *state;
    struct gubernator_answer answer;
    const int64_t end_ms = lab->now_ns / LAB_MS + MINUTE;
    assert_int_equal(lab->now_ns % LAB_MS, 0);
    for (int64_t later_ns = 0; later_ns < 3; later_ns++) {
        struct gubernator_reader reader = ask(lab, 0, &item, 1);
        reader.now_ns += later_ns;
        assert_true(gubernator_next(&reader, &answer));
        assert_int_equal(answer.over, later_ns > 0);
        assert_int_equal(answer.reset_ms, end_ms + (later_ns > 0));
    }
}

static void other_names_and_other_keys_are_other_counts(void **state)
{
    static char text[2 * WIRE_VALUE_MAX];
    struct lab *lab = *state;
    struct gubernator_answer answer;
    const struct step good = {.hits = 1, .limit = 1, .duration = MINUTE};
    memset(text, 'x', sizeof text);
    const struct {
        size_t name;
        size_t key;
    } lens[] = {{1, 2}, {2, 1}, {1, 1}, {500, 512}, {500, 513}, {501, 512}, {1500, 1}, {1, 1500}};
    for (size_t i = 0; i < 2 * (sizeof lens / sizeof *lens); i++) {
        struct gubernator_item item = item_of(&good, "");
        item.name = (struct wire_text){text, lens[i / 2].name};
        item.unique_key = (struct wire_text){text, lens[i / 2].key};
        struct gubernator_reader reader = ask(lab, 0, &item, 1);
        assert_true(gubernator_next(&reader, &answer));
        assert_int_equal(answer.error.len, 0);
        assert_int_equal(answer.over, i % 2 == 1);
    }
    const struct limit limit = {
        .algorithm = ALGORITHM_FIXED_WINDOW, .align = 1, .count = 1, .window_ns = 60000000000};
    assert_true(lab_check(lab, 0, "xxx", &limit, 1).allowed);
    struct gubernator_item odd = item_of(&good, "key");
    odd.name = (struct wire_text){"a\0b", 3};
    struct gubernator_reader reader = ask(lab, 0, &odd, 1);
    assert_true(gubernator_next(&reader, &answer) && answer.error.len > 0);
}

static void a_count_is_one_whatever_node_is_asked(void **state)
{
    struct lab *lab = *state;
    struct gubernator_answer answer;
    const struct step good = {
        .hits = 1, .limit = 30, .duration = 5, .behavior = UNIT | GUBERNATOR_GLOBAL};
    const struct gubernator_item item = item_of(&good, "one");
    for (uint32_t i = 0; i < 33; i++) {
        struct gubernator_reader reader = ask(lab, i % 3, &item, 1);
        assert_true(gubernator_next(&reader, &answer));
        assert_int_equal(answer.over, i >= 30);
        assert_int_equal(answer.reset_ms, INT64_C(1704067200000));
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static uint32_t read_all(const char *text, struct gubernator_item *items, char *error)
{
    static char room[GUBERNATOR_ROOM];
    struct json_reader reader;
    struct gubernator_item item;
    uint32_t count = 0;
    json_reader_begin(&reader, text, strlen(text), room, sizeof room);
    if (gubernator_open(&reader))
        while (gubernator_read(&reader, &item))
            items[count++] = item;
    const bool well = !reader.failed && gubernator_close(&reader);
    (void)snprintf(error, JSON_ERROR_LEN, "%s", well ? "" : reader.error);
    return count;
}

static void json_takes_either_spelling_and_what_is_not_known(void **state)
{
    static const char *const bodies[] = {
        "{\"requests\":[{\"name\":\"n\",\"unique_key\":\"k\",\"hits\":\"-3\",\"limit\":5,"
        "\"duration\":\"60000\",\"burst\":7,\"algorithm\":\"LEAKY_BUCKET\","
        "\"behavior\":\"DRAIN_OVER_LIMIT\"}]}",
        "{\"x\":[1.5e3,{\"y\":[[],{}]},\"\\u00e4\",true,null],\"requests\":[{\"uniqueKey\":\"k\","
        "\"created_at\":\"12\",\"createdAt\":12,\"metadata\":{\"a\":\"b\"},\"name\":\"n\","
        "\"hits\":-3,\"limit\":\"5\",\"duration\":60000,\"burst\":\"7\",\"algorithm\":1,"
        "\"behavior\":32,\"z\":{\"requests\":[{}]}}],\"w\":-0.5}",
    };
    struct gubernator_item items[2];
    char error[JSON_ERROR_LEN];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(read_all(bodies[i], items, error), 1);
        assert_string_equal(error, "");
        assert_true(lab_text_is(items[0].name, "n") && lab_text_is(items[0].unique_key, "k"));
        assert_int_equal(items[0].hits, -3);
        assert_int_equal(items[0].limit, 5);
        assert_int_equal(items[0].duration, 60000);
        assert_int_equal(items[0].burst, 7);
        assert_int_equal(items[0].algorithm, LEAKY);
        assert_int_equal(items[0].behavior, DRAIN);
    }
}

static void json_names_the_place_of_what_is_wrong(void **state)
{
    static const struct {
        const char *body;
        const char *says;
    } wrong[] = {
        {"[]", "found a list, expected an object"},
        {"{\"requests\":{}}", "requests: found an object, expected a list"},
        {"{\"requests\":[{},{\"hits\":true}]}", "requests[1].hits: found true or false"},
        {"{\"requests\":[{\"hits\":1.5}]}", "requests[0].hits: found a number that is not whole"},
        {"{\"requests\":[{\"hits\":\"9223372036854775808\"}]}", "expected a whole number of 64"},
        {"{\"requests\":[{\"hits\":\"\"}]}", "expected a whole number of 64"},
        {"{\"requests\":[{\"algorithm\":\"GCRA\"}]}", "requests[0].algorithm: found an unknown"},
        {"{\"requests\":[{\"algorithm\":4294967296}]}", "beyond 32 bits"},
        {"{\"requests\":[{\"x\":[1,]}]}", "expected a value"},
        {"{\"requests\":[{\"x\":-}]}", "expected a number"},
        {"{\"requests\":[{\"x\":nul}]}", "expected null"},
        {"{\"requests\":[{\"x\":[[[[[[[[]]]]]]]]}]}", "found more than 8 objects and lists"},
        {"{\"requests\":[]}x", "expected the end of the body"},
        {"{\"requests\":[],\"requests\":[]}", "found this field twice"},
        {"{\"requests\":[", "found the end of the body"},
    };
    struct gubernator_item items[4];
    char error[JSON_ERROR_LEN];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void)read_all(wrong[i].body, items, error);
        if (strstr(error, wrong[i].says) == NULL)
            fail_msg("%s: \"%s\", expected \"%s\"", wrong[i].body, error, wrong[i].says);
    }
}

static void an_empty_body_has_no_items(void **state)
{
    static const char *const bodies[] = {"{}", "{\"requests\":null}", " {\"requests\" : [ ] } "};
    struct gubernator_item items[1];
    char error[JSON_ERROR_LEN];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(read_all(bodies[i], items, error), 0);
        assert_string_equal(error, "");
    }
    assert_int_equal(read_all("{\"requests\":[{\"hits\":null,\"name\":null}]}", items, error), 1);
    assert_string_equal(error, "");
}

static void an_answer_has_all_fields_and_long_numbers_in_quotes(void **state)
{
    const struct gubernator_answer answer = {.over = true,
                                             .limit = 5,
                                             .reset_ms = 1795761130945,
                                             .owner = wire_text_of("n\"1"),
                                             .region = wire_text_of("says")};
    char bytes[1024];
    struct gateway_out out = {.data = bytes, .capacity = sizeof bytes};
    struct http_reply reply = {.out = &out, .limit = sizeof bytes};
    (void)state;
    gubernator_put(&reply, &answer);
    bytes[out.len] = '\0';
    assert_string_equal(bytes, "{\"status\":\"OVER_LIMIT\",\"limit\":\"5\",\"remaining\":\"0\","
                               "\"reset_time\":\"1795761130945\",\"error\":\"\",\"metadata\":"
                               "{\"owner\":\"n\\\"1\",\"multi_region\":\"says\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_ONE(a_token_bucket_is_a_window_that_the_first_hit_begins),
        LAB_TEST_ONE(more_than_is_left_is_over_the_limit_and_takes_nothing),
        LAB_TEST_ONE(a_look_takes_nothing_and_begins_no_window),
        LAB_TEST_ONE(negative_hits_give_back_and_never_above_the_limit),
        LAB_TEST_ONE(a_changed_limit_keeps_what_was_used),
        LAB_TEST_ONE(a_changed_duration_ends_the_window_sooner_or_later_after_its_beginning),
        LAB_TEST_ONE(a_changed_algorithm_begins_anew),
        LAB_TEST_ONE(a_leaky_bucket_drains_evenly),
        LAB_TEST_ONE(a_burst_is_how_much_a_leaky_bucket_holds),
        LAB_TEST_ONE(windows_of_the_calendar_end_with_their_unit_in_utc),
        LAB_TEST_ONE(a_leaky_bucket_of_the_calendar_drains_over_the_length_of_its_unit),
        LAB_TEST_ONE(a_unit_that_is_none_is_the_item_s_error),
        LAB_TEST_ONE(a_reset_makes_the_limit_new_and_takes_no_hits),
        LAB_TEST_ONE(a_drain_takes_what_is_left_when_more_is_asked),
        LAB_TEST_ONE(what_only_says_how_to_decide_changes_nothing),
        LAB_TEST_ONE(a_limit_of_nothing_lets_nothing_through),
        LAB_TEST_ONE(without_a_duration_each_millisecond_is_a_window),
        LAB_TEST_ONE(what_is_beyond_what_can_be_counted_is_never_let_through_for_that),
        LAB_TEST_ONE(an_item_that_is_wrong_is_an_error_among_others_that_are_decided),
        LAB_TEST_ONE(limits_beyond_a_hundred_and_twenty_eight_are_errors_and_repeated_ones_none),
        LAB_TEST_ONE(each_item_of_a_request_is_counted_by_a_limit_of_its_own_fields),
        LAB_TEST_ONE(what_has_no_say_in_a_limit_makes_no_other_one),
        LAB_TEST_ONE(what_is_told_is_each_item_s_though_the_limit_is_counted_alike),
        LAB_TEST_ONE(a_moment_is_told_late_rather_than_early),
        LAB_TEST_ONE(other_names_and_other_keys_are_other_counts),
        LAB_TEST_THREE(a_count_is_one_whatever_node_is_asked),
        cmocka_unit_test(json_takes_either_spelling_and_what_is_not_known),
        cmocka_unit_test(json_names_the_place_of_what_is_wrong),
        cmocka_unit_test(an_empty_body_has_no_items),
        cmocka_unit_test(an_answer_has_all_fields_and_long_numbers_in_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_control_bound.c - what status says of the over-admission that is possible now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control_answer.h"

struct said {
    uint8_t bytes[4096];
    struct mp_token tokens[128];
    struct mp_cursor cursor;
};

/* Reads up to the value of `name` of the map at `cursor`. */
static struct mp_cursor field(struct mp_cursor cursor, const char *name)
{
    const uint32_t pairs = mp_get_map(&cursor);
    for (uint32_t i = 0; i < pairs; i++) {
        char text[64];
        mp_copy_str(&cursor, text, sizeof text);
        if (strcmp(text, name) == 0)
            return cursor;
        mp_skip(&cursor);
    }
    fail();
    return cursor;
}

static uint64_t number(struct mp_cursor map, const char *name)
{
    struct mp_cursor at = field(map, name);
    return mp_get_uint(&at);
}

static void assert_why(struct mp_cursor map, const char *expected)
{
    struct mp_cursor at = field(map, "why");
    char text[512];
    mp_copy_str(&at, text, sizeof text);
    assert_string_equal(text, expected);
}

static struct mp_cursor say(struct said *said, const struct shard_stats *shards, uint32_t count)
{
    const struct control_report report = {.shards = shards, .shard_count = count};
    struct mp_writer writer;
    mp_writer_init(&writer, said->bytes, sizeof said->bytes);
    mp_put_map(&writer, 2);
    control_put_bound(&report, &writer);
    assert_false(writer.failed);
    const int tokens = mp_parse(said->bytes, writer.len, said->tokens, 128);
    assert_true(tokens > 0);
    mp_cursor_init(&said->cursor, said->tokens, (size_t)tokens);
    return said->cursor;
}

/* When nothing is open, all is 0 and there is nothing to say. */
static void without_a_bound_there_is_no_reason(void **state)
{
    (void)state;
    struct said said;
    const struct shard_stats shards[2] = {{.checks = 1}, {.checks = 2}};
    const struct mp_cursor map = say(&said, shards, 2);
    const struct mp_cursor one = field(field(map, "over_admission"), "one");
    assert_int_equal(number(one, "tokens"), 0);
    assert_int_equal(number(one, "vnodes_cut_off"), 0);
    assert_int_equal(number(one, "vnodes_degraded"), 0);
    assert_why(one, "");
    assert_why(field(field(map, "over_admission"), "quorum"), "");
    assert_int_equal(number(field(map, "acknowledgement"), "samples"), 0);
}

/* Figures are summed over the shards, and each one that is not 0 has its sentence. */
static void figures_of_all_shards_are_summed_and_explained(void **state)
{
    (void)state;
    struct said said;
    struct shard_stats shards[2] = {
        {.over_tokens = 5, .vnodes_cut_off = 2, .vnodes_unconfirmed = 3},
        {.over_tokens = 7, .vnodes_unconfirmed = 1, .quorum_vnodes_undecided = 9},
    };
    lag_add(&shards[0].lag, 1000000);
    lag_add(&shards[1].lag, 3000000);
    const struct mp_cursor map = say(&said, shards, 2);
    const struct mp_cursor one = field(field(map, "over_admission"), "one");
    assert_int_equal(number(one, "tokens"), 12);
    assert_int_equal(number(one, "vnodes_cut_off"), 2);
    assert_int_equal(number(one, "vnodes_degraded"), 4);
    assert_why(one,
               "no other replica of 2 vnodes is in reach: if it is a split, each side may admit "
               "one limit more per key; no majority stands behind 2 vnodes; 12 tokens are not "
               "yet acknowledged by a replica");
    const struct mp_cursor quorum = field(field(map, "over_admission"), "quorum");
    assert_int_equal(number(quorum, "tokens"), 0);
    assert_int_equal(number(quorum, "vnodes_cut_off"), 9);
    assert_why(quorum, "unavailable: no majority decides 9 vnodes, on_failure applies");
    const struct mp_cursor lag = field(map, "acknowledgement");
    assert_int_equal(number(lag, "samples"), 2);
    assert_int_equal(number(lag, "max_us"), 3000);
    assert_true(number(lag, "p50_us") >= 1000 && number(lag, "p50_us") <= 1250);
    assert_int_equal(number(lag, "p99_us"), 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_bound_there_is_no_reason),
        cmocka_unit_test(figures_of_all_shards_are_summed_and_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

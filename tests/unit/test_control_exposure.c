/* test_control_exposure.c - what status says of the over-admission that is possible now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/operator/control_answer.h"
#include "tests/unit/support_tokens.h"

struct said {
    uint8_t bytes[4096];
    struct mp_token tokens[128];
    struct mp_cursor cursor;
};

static struct mp_cursor say(struct said *said, const struct shard_stats *shards, uint32_t count)
{
    const struct control_report report = {.shards = shards, .shard_count = count};
    struct mp_writer writer;
    mp_writer_init(&writer, said->bytes, sizeof said->bytes);
    mp_put_map(&writer, 2);
    control_put_exposure(&report, &writer);
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
    const struct mp_cursor one = tokens_field(tokens_field(map, "over_admission"), "one");
    assert_int_equal(tokens_uint(one, "tokens"), 0);
    assert_int_equal(tokens_uint(one, "vnodes_cut_off"), 0);
    assert_int_equal(tokens_uint(one, "vnodes_degraded"), 0);
    tokens_assert_text(one, "why", "");
    tokens_assert_text(tokens_field(tokens_field(map, "over_admission"), "quorum"), "why", "");
    assert_int_equal(tokens_uint(tokens_field(map, "acknowledgement"), "samples"), 0);
}

/* Figures are summed over the shards, and each one that is not 0 has its sentence. */
static void figures_of_all_shards_are_summed_and_explained(void **state)
{
    (void)state;
    struct said said;
    struct shard_stats shards[2] = {
        {.over_tokens = 5, .vnodes_cut_off = 2, .vnodes_unconfirmed = 3, .uncounted = 30},
        {.over_tokens = 7,
         .vnodes_unconfirmed = 1,
         .uncounted = 3,
         .forgotten = 2,
         .quorum.vnodes_undecided = 9},
    };
    lag_add(&shards[0].lag, 1000000);
    lag_add(&shards[1].lag, 3000000);
    const struct mp_cursor map = say(&said, shards, 2);
    const struct mp_cursor one = tokens_field(tokens_field(map, "over_admission"), "one");
    assert_int_equal(tokens_uint(one, "uncounted"), 33);
    assert_int_equal(tokens_uint(one, "forgotten"), 2);
    assert_int_equal(tokens_uint(one, "tokens"), 12);
    assert_int_equal(tokens_uint(one, "vnodes_cut_off"), 2);
    assert_int_equal(tokens_uint(one, "vnodes_degraded"), 4);
    tokens_assert_text(
        one, "why",
        "no other replica of 2 vnodes is in reach: if it is a split, each side may admit "
        "one limit more per key; no majority stands behind 2 vnodes; 12 tokens are not "
        "yet acknowledged by a replica; 33 tokens were allowed by on_failure: open where "
        "there was no room to count; 2 slots could not be read back from disk");
    const struct mp_cursor quorum = tokens_field(tokens_field(map, "over_admission"), "quorum");
    assert_int_equal(tokens_uint(quorum, "tokens"), 0);
    assert_int_equal(tokens_uint(quorum, "vnodes_cut_off"), 9);
    tokens_assert_text(quorum, "why",
                       "unavailable: no majority decides 9 vnodes, on_failure applies");
    const struct mp_cursor lag = tokens_field(map, "acknowledgement");
    assert_int_equal(tokens_uint(lag, "samples"), 2);
    assert_int_equal(tokens_uint(lag, "max_us"), 3000);
    assert_true(tokens_uint(lag, "p50_us") >= 1000 && tokens_uint(lag, "p50_us") <= 1250);
    assert_int_equal(tokens_uint(lag, "p99_us"), 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_bound_there_is_no_reason),
        cmocka_unit_test(figures_of_all_shards_are_summed_and_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_usage_tally.c - what a shard counts of people between two looks: all of it, within bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/model/usage_tally.h"

enum { PEOPLE = 500, REQUESTS = 20000 };

/* Everybody's requests are counted under his hash alone, also where hashes share a place, and the
 * last one of each is known. */
static void everybody_has_his_own_count(void **state)
{
    static struct usage_seen expected[PEOPLE];
    struct usage_tally *tally = usage_tally_new(alloc_heap());
    struct random random;
    (void)state;
    assert_non_null(tally);
    memset(expected, 0, sizeof expected);
    random_init(&random, 3);
    for (uint64_t at = 1; at <= REQUESTS; at++) {
        const uint64_t who = random_below(&random, PEOPLE);
        const bool exceeded = random_below(&random, 3) == 0;
        const uint64_t hash = 1 + who % 7 + (who << 32); /* few places for all */
        usage_tally_add(tally, hash, exceeded, at);
        expected[who].hash = hash;
        expected[who].requests++;
        expected[who].exceeded += exceeded;
        expected[who].last_ms = at;
    }
    assert_int_equal(tally->count, PEOPLE);
    for (uint32_t i = 0; i < tally->count; i++)
        assert_memory_equal(&tally->entries[i], &expected[tally->entries[i].hash >> 32],
                            sizeof *expected);
    usage_tally_clear(tally);
    assert_int_equal(tally->count, 0);
    usage_tally_add(tally, 1, false, 5);
    assert_int_equal(tally->count, 1);
    assert_int_equal(tally->entries[0].requests, 1);
    usage_tally_free(&tally);
    usage_tally_free(&tally);
}

/* More people than there is room for are left out, and counted; those inside go on. */
static void a_full_tally_says_what_it_left_out(void **state)
{
    struct usage_tally *tally = usage_tally_new(alloc_heap());
    (void)state;
    for (uint64_t hash = 1; hash <= USAGE_TALLY_MAX + 3; hash++)
        usage_tally_add(tally, hash, false, 1);
    usage_tally_add(tally, 7, true, 2);
    assert_int_equal(tally->count, USAGE_TALLY_MAX);
    assert_int_equal(tally->dropped, 3);
    assert_int_equal(tally->entries[6].requests, 2);
    usage_tally_free(&tally);
}

/* A tally that finds no memory is none, and keeps none. */
static void without_memory_there_is_no_tally(void **state)
{
    (void)state;
    for (size_t at = 1; at <= 3; at++) {
        struct alloc_failing failing;
        alloc_failing_init(&failing, at);
        assert_null(usage_tally_new(&failing.allocator));
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_has_his_own_count),
        cmocka_unit_test(a_full_tally_says_what_it_left_out),
        cmocka_unit_test(without_memory_there_is_no_tally),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

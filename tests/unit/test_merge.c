/* test_merge.c - after a split every replica holds what both sides counted, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/unit/support_shard.h"

enum { LIMIT = 1000, HEAL_MS = 10000 };

static const char KEY[] = "counted";
static const uint8_t algorithms[] = {ALGORITHM_TOKEN_BUCKET, ALGORITHM_FIXED_WINDOW,
                                     ALGORITHM_SLIDING_WINDOW, ALGORITHM_SLIDING_LOG};

static int set_up(void **state)
{
    struct lab *lab = lab_new(3, 1, 3);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

static int tear_down(void **state)
{
    struct lab *lab = *state;
    lab_free(lab);
    return 0;
}

/* LIMIT a year: what comes back while a test runs is not a whole token. */
static struct limit limit_of(uint8_t algorithm)
{
    return (struct limit){
        .count = LIMIT,
        .window_ns = UINT64_C(31536000) * 1000000000,
        .algorithm = algorithm,
    };
}

/* Cuts every link between shards of different sides; `sides` has a letter for each shard. */
static void split(struct lab *lab, const char *sides)
{
    for (uint32_t from = 0; from < lab->count; from++)
        for (uint32_t to = 0; to < lab->count; to++)
            lab->cut[from][to] = sides[from] != sides[to];
}

static void heal(struct lab *lab)
{
    memset(lab->cut, 0, sizeof lab->cut);
}

/* The sides of a split in which the owner of `vnode` is alone. */
static void split_owner_off(struct lab *lab, uint32_t vnode)
{
    char sides[LAB_SHARDS_MAX + 1] = "bbbbbb";
    sides[lab_replica(lab, vnode, 0)] = 'a';
    split(lab, sides);
}

static void take(struct lab *lab, uint32_t at, const char *key, const struct limit *limit,
                 uint64_t cost)
{
    assert_true(lab_check(lab, at, key, limit, cost).allowed);
}

static bool no_guard(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL && lab_stats(lab, at).guarded != 0)
            return false;
    return true;
}

/* Every replica has the same bytes for the key as its decider, and the decider says `used`. */
static void assert_used(struct lab *lab, const char *key, const struct limit *limit, uint64_t used)
{
    static uint8_t first[1 << 19];
    static uint8_t other[1 << 19];
    const uint32_t vnode = lab_vnode_of(lab, key);
    const struct hash128 id = lab_slot_of(lab, key, limit->algorithm);
    const uint32_t owner = lab_replica(lab, vnode, 0);
    assert_int_equal(lab_used(lab, owner, key, limit), used);
    const int len = inspect_slot(lab->shards[owner].shard, id, first, sizeof first);
    for (uint32_t rank = 1; rank < 3; rank++) {
        struct shard *shard = lab->shards[lab_replica(lab, vnode, rank)].shard;
        assert_int_equal(inspect_slot(shard, id, other, sizeof other), len);
        assert_memory_equal(other, first, (size_t)len);
    }
}

/* Heals, waits until all is quiet, and looks at what is counted. */
static void heal_and_expect(struct lab *lab, const char *key, const struct limit *limit,
                            uint64_t used)
{
    heal(lab);
    lab_run(lab, 50 * LAB_MS);
    lab_settle(lab);
    lab_until(lab, no_guard, NULL, HEAL_MS * LAB_MS);
    lab_settle(lab);
    lab_run(lab, 50 * LAB_MS);
    assert_used(lab, key, limit, used);
}

/* The base is counted once, and what each side admitted is added, whatever the algorithm. */
static void a_split_in_two_ends_with_the_sum(void **state)
{
    struct lab *lab = *state;
    for (size_t i = 0; i < sizeof algorithms; i++) {
        const struct limit limit = limit_of(algorithms[i]);
        const uint32_t vnode = lab_vnode_of(lab, KEY);
        const uint32_t owner = lab_replica(lab, vnode, 0);
        take(lab, owner, KEY, &limit, 100);
        lab_run(lab, 50 * LAB_MS);
        split_owner_off(lab, vnode);
        lab_run(lab, 500 * LAB_MS);
        take(lab, owner, KEY, &limit, 30);
        take(lab, lab_replica(lab, vnode, 2), KEY, &limit, 7);
        heal_and_expect(lab, KEY, &limit, 137);
    }
}

/* Three sides, each with a decider of its own, end with the sum of all three. */
static void a_split_in_three_ends_with_the_sum(void **state)
{
    struct lab *lab = *state;
    for (size_t i = 0; i < sizeof algorithms; i++) {
        const struct limit limit = limit_of(algorithms[i]);
        take(lab, 0, KEY, &limit, 100);
        lab_run(lab, 50 * LAB_MS);
        split(lab, "abc");
        lab_run(lab, 500 * LAB_MS);
        take(lab, 0, KEY, &limit, 30);
        take(lab, 1, KEY, &limit, 7);
        take(lab, 2, KEY, &limit, 5);
        heal_and_expect(lab, KEY, &limit, 142);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_split_in_two_ends_with_the_sum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_split_in_three_ends_with_the_sum, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

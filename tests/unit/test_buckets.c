/* test_buckets.c - places of slots against a plain list: growth in place, holes, runs, walks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/limit/table/table_slot.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_limit.h"

enum { BUCKETS = 4000, KEYS = 48000 };

struct world {
    struct buckets buckets;
    _Alignas(64) struct slot slots[BUCKETS * BUCKET_SLOTS];
    struct bucket_head heads[BUCKETS + 1];
    bool there[KEYS];
    struct random random;
};

static struct world world;

static void world_init(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    random_init(&world.random, seed);
    buckets_init(&world.buckets, world.slots, world.heads);
}

/* The key's place, or UINT32_MAX: by looking at each bucket that may have it, and nothing else. */
static uint32_t find(uint64_t key)
{
    const struct hash128 id = limit_key(key);
    const uint64_t hash = bucket_hash(&world.buckets, id);
    for (uint32_t bucket = bucket_home(&world.buckets, hash);; bucket++) {
        for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
            if (world.heads[bucket].tag[i] == bucket_tag(hash) &&
                hash128_equal(world.slots[bucket * BUCKET_SLOTS + i].id, id))
                return bucket * BUCKET_SLOTS + i;
        if (world.heads[bucket].over == 0)
            return UINT32_MAX;
    }
}

static bool add(uint64_t key)
{
    if (buckets_full(&world.buckets) && !buckets_grow(&world.buckets, BUCKETS - BUCKETS_PAD))
        return false;
    const uint32_t number = buckets_add(&world.buckets, limit_key(key));
    if (number == UINT32_MAX)
        return false;
    const struct slot *slot = &world.slots[number];
    assert_true(slot->id.lo == 0 && slot->id.hi == 0 && slot->word[0] == 0);
    world.slots[number].id = limit_key(key);
    world.slots[number].word[0] = (uint32_t)key;
    return true;
}

/* Keys come and go at random, more come than go until it is full; each is where it is looked for,
 * with what was written there, and no other is. */
static void each_key_is_found_while_the_array_grows_and_others_come_and_go(void **state)
{
    (void)state;
    world_init(1);
    uint32_t refused = 0;
    for (uint32_t n = 0; n < EFFORT(600000); n++) {
        const uint32_t key = (uint32_t)random_below(&world.random, KEYS);
        if (!world.there[key]) {
            world.there[key] = add(key);
            refused += !world.there[key];
        } else if (random_below(&world.random, 3) == 0) {
            buckets_remove(&world.buckets, find(key));
            world.there[key] = false;
        }
        const uint32_t other = (uint32_t)random_below(&world.random, KEYS);
        const uint32_t number = find(other);
        assert_int_equal(number != UINT32_MAX, world.there[other]);
        assert_true(number == UINT32_MAX || world.slots[number].word[0] == other);
        if (n % 20000 == 0)
            buckets_check(&world.buckets);
    }
    assert_int_equal(refused, 0);
    buckets_check(&world.buckets);
}

/* BUCKETS-3: a slot's number never falls, and never rises but when a key is added. */
static void a_slot_moves_upwards_only(void **state)
{
    static uint32_t last[KEYS];
    (void)state;
    world_init(2);
    for (uint32_t key = 0; key < KEYS; key++) {
        assert_true(add(key));
        last[key] = find(key);
        for (uint32_t n = 0; n < 20; n++) {
            const uint32_t old = (uint32_t)random_below(&world.random, key + 1);
            const uint32_t number = find(old);
            assert_true(number >= last[old]);
            last[old] = number;
        }
    }
    for (uint32_t key = 0; key < KEYS; key++)
        assert_true(find(key) >= last[key]);
}

/* Who walks upwards to the end as it is by then meets every key that was there when he began. */
static void a_walk_misses_no_key_though_others_are_added_meanwhile(void **state)
{
    static bool met[KEYS];
    (void)state;
    for (uint64_t seed = 3; seed < 9; seed++) {
        world_init(seed);
        memset(met, 0, sizeof met);
        const uint32_t before = 500 + (uint32_t)random_below(&world.random, 8000);
        uint32_t key = 0;
        while (key < before)
            assert_true(add(key++));
        for (uint32_t number = 0; number < buckets_end(&world.buckets); number++) {
            if (world.heads[number / BUCKET_SLOTS].tag[number % BUCKET_SLOTS] != 0)
                met[world.slots[number].word[0]] = true;
            if (number % 3 == 0 && key < KEYS)
                assert_true(add(key++));
        }
        for (uint32_t old = 0; old < before; old++)
            assert_true(met[old]);
    }
}

/* An absent key costs a bounded look: what was removed leaves nothing behind. */
static void an_array_that_is_emptied_is_as_new(void **state)
{
    (void)state;
    world_init(10);
    for (uint32_t key = 0; key < KEYS; key++)
        assert_true(add(key));
    for (uint32_t key = 0; key < KEYS; key++)
        buckets_remove(&world.buckets, find(key));
    assert_int_equal(world.buckets.used, 0);
    for (uint32_t bucket = 0; bucket <= BUCKETS; bucket++)
        for (uint32_t i = 0; i <= BUCKET_SLOTS; i++)
            assert_int_equal(((const uint8_t *)&world.heads[bucket])[i], 0);
}

/* Most keys lie at home, most of these in the line that is asked for before the head tells; both
 * are what the speed of a check rests on. */
static void most_keys_lie_where_they_are_first_looked_for(void **state)
{
    (void)state;
    world_init(11);
    uint32_t home = 0;
    uint32_t line = 0;
    for (uint32_t key = 0; key < KEYS; key++)
        assert_true(add(key));
    for (uint32_t key = 0; key < KEYS; key++) {
        const uint64_t hash = bucket_hash(&world.buckets, limit_key(key));
        const uint32_t its = bucket_home(&world.buckets, hash);
        const uint32_t number = find(key);
        home += number / BUCKET_SLOTS == its;
        line += number / 2 == bucket_first_choice(hash, its) / 2;
    }
    assert_true(home > KEYS / 100 * 88);
    assert_true(line > KEYS / 100 * 60);
}

/* By heads alone nearly each key is found, and mostly the place where one that is not there would
 * come to lie: memory is asked for that, and other places have to be waited for. */
static void a_guess_is_where_a_key_lies_or_will(void **state)
{
    (void)state;
    world_init(14);
    uint32_t there = 0;
    uint32_t will = 0;
    uint32_t news = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        const uint64_t hash = bucket_hash(&world.buckets, limit_key(key));
        const uint32_t home = bucket_home(&world.buckets, hash);
        const uint32_t guess = bucket_guess(&world.buckets, hash, home);
        const bool still = world.buckets.frontier == 0;
        assert_true(add(key));
        if (still && world.buckets.frontier == 0) { /* else others have moved meanwhile */
            news++;
            will += guess == find(key);
        }
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        const uint64_t hash = bucket_hash(&world.buckets, limit_key(key));
        there += bucket_guess(&world.buckets, hash, bucket_home(&world.buckets, hash)) == find(key);
    }
    assert_true(there > KEYS / 100 * 93);
    assert_true(news > KEYS / 4);
    assert_true(will > news / 100 * 72); /* the others: a tag like theirs misleads */
}

/* Keys that come in the order in which another table holds them find room, for that one has another
 * seed; so it is with each copy that a node sends to another. */
static void keys_in_the_order_of_another_table_find_room(void **state)
{
    (void)state;
    static struct hash128 ids[KEYS];
    uint32_t count = 0;
    world_init(12);
    for (uint32_t key = 0; key < KEYS; key++)
        assert_true(add(key));
    for (uint32_t number = 0; number < buckets_end(&world.buckets); number++)
        if (world.heads[number / BUCKET_SLOTS].tag[number % BUCKET_SLOTS] != 0)
            ids[count++] = world.slots[number].id;
    assert_int_equal(count, KEYS);
    world_init(12);
    world.buckets.seed = 99;
    for (uint32_t i = 0; i < count; i++) {
        if (buckets_full(&world.buckets))
            (void)buckets_grow(&world.buckets, BUCKETS - BUCKETS_PAD);
        const uint32_t number = buckets_add(&world.buckets, ids[i]);
        assert_int_not_equal(number, UINT32_MAX);
        world.slots[number].id = ids[i];
    }
    buckets_check(&world.buckets);
}

/* The comparison of sixteen bytes at once says what one after the other says. */
static void a_match_is_the_same_however_it_is_found(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 13);
    for (uint32_t n = 0; n < 100000; n++) {
        struct bucket_head head;
        for (uint32_t i = 0; i < BUCKET_SLOTS; i++)
            head.tag[i] = (uint8_t)random_below(&random, n % 2 == 0 ? 4 : 256);
        head.over = (uint8_t)random_below(&random, 4);
        const uint8_t tag = (uint8_t)random_below(&random, n % 2 == 0 ? 4 : 256);
        assert_int_equal(bucket_match(&head, tag), bucket_match_portably(&head, tag));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_is_found_while_the_array_grows_and_others_come_and_go),
        cmocka_unit_test(a_slot_moves_upwards_only),
        cmocka_unit_test(a_walk_misses_no_key_though_others_are_added_meanwhile),
        cmocka_unit_test(an_array_that_is_emptied_is_as_new),
        cmocka_unit_test(most_keys_lie_where_they_are_first_looked_for),
        cmocka_unit_test(a_guess_is_where_a_key_lies_or_will),
        cmocka_unit_test(keys_in_the_order_of_another_table_find_room),
        cmocka_unit_test(a_match_is_the_same_however_it_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_ring_place.c - bounded rendezvous against a naive stable matching in floating point. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "ring/place.h"
#include "ring/ring.h"
#include "ring/score.h"

enum { VNODES = 256, MEMBERS_MAX = 40, REPLICAS = 3 };

static struct ring_ranked members[MEMBERS_MAX];
static uint16_t positions[VNODES * REPLICAS];
static uint16_t expected[VNODES * REPLICAS];
static double costs[VNODES][MEMBERS_MAX];

/* The definition itself, with libm: -ln(h) / w. */
static double cost(uint32_t vnode, const struct ring_ranked *member)
{
    const uint64_t step = 0x9e3779b97f4a7c15ULL;
    const uint64_t hash = hash_mix64(hash_mix64(member->id ^ step) + step * (vnode + 1ULL));

    return (double)-logl(((long double)hash + 0.5L) / 0x1p64L) / member->weight;
}

static int may_stand(const uint16_t *list, uint32_t position, uint32_t rank, uint32_t zones)
{
    for (uint32_t i = 0; i < position; i++) {
        if (list[i] == rank || (position < zones && members[list[i]].zone == members[rank].zone)) {
            return 0;
        }
    }
    return 1;
}

/* Of all open pairs that are allowed, again and again the cheapest; O(V^2 N) and proud of it.
 * Returns 0 when some vnode found only full members (the fallback has its own test). */
static int naive_position(uint32_t count, uint32_t position, uint32_t zones, uint32_t *loads)
{
    uint64_t weight_sum = 0;

    for (uint32_t rank = 0; rank < count; rank++) {
        weight_sum += members[rank].weight;
        for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
            costs[vnode][rank] = cost(vnode, &members[rank]);
        }
    }
    for (uint32_t placed = 0; placed < VNODES; placed++) {
        double best = INFINITY;
        uint32_t best_vnode = 0;
        uint32_t best_rank = 0;
        for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
            const uint16_t *list = &expected[vnode * REPLICAS];
            for (uint32_t rank = 0; rank < count && list[position] == RING_UNPLACED; rank++) {
                const uint32_t cap =
                    ring_place_cap(count, weight_sum, members[rank].weight, VNODES, position);
                if (loads[rank] < cap && may_stand(list, position, rank, zones) &&
                    costs[vnode][rank] < best) {
                    best = costs[vnode][rank];
                    best_vnode = vnode;
                    best_rank = rank;
                }
            }
        }
        if (best == INFINITY) {
            return 0;
        }
        expected[best_vnode * REPLICAS + position] = (uint16_t)best_rank;
        loads[best_rank]++;
    }
    return 1;
}

static void make_members(struct random *random, uint32_t count, uint32_t zones, int weighted)
{
    uint64_t id = 0;

    for (uint32_t rank = 0; rank < count; rank++) {
        id += 1 + random_below(random, UINT64_MAX / MEMBERS_MAX - 1);
        members[rank] = (struct ring_ranked){.id = id,
                                             .weight = weighted ? 50 * (1 + rank % 4) : 100,
                                             .zone = rank % zones,
                                             .index = (uint16_t)rank};
    }
}

static void place_all(uint32_t count)
{
    struct ring_place place;

    memset(positions, 0xff, sizeof positions);
    assert_int_equal(
        ring_place_init(&place, alloc_heap(), members, count, VNODES, REPLICAS, positions), 0);
    for (uint32_t position = 0; position < REPLICAS; position++) {
        ring_place_position(&place, position);
    }
    ring_place_fini(&place);
}

/* With everything open, each position equals the naive model's, weighted or not, zones or none. */
static void placing_agrees_with_the_naive_model(void **state)
{
    static const uint32_t counts[] = {5, 9, 14};
    struct random random;
    uint32_t compared = 0;

    (void)state;
    random_init(&random, 3);
    for (uint32_t round = 0; round < 6; round++) {
        const uint32_t count = counts[round % 3];
        const uint32_t zones = round < 3 ? 1 : 3;
        uint32_t loads[MEMBERS_MAX] = {0};
        make_members(&random, count, zones, round % 2 == 1);
        place_all(count);
        memset(expected, 0xff, sizeof expected);
        for (uint32_t position = 0; position < REPLICAS; position++) {
            if (!naive_position(count, position, zones, loads)) {
                break; /* full members only: from here on the models differ by design */
            }
            for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
                assert_int_equal(positions[vnode * REPLICAS + position],
                                 expected[vnode * REPLICAS + position]);
                compared++;
            }
        }
    }
    assert_true(compared >= 12 * VNODES);
}

/* A zone of one member among big zones gets more than its cap rather than zones being shared. */
static void distinct_zones_come_before_caps(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 4);
    make_members(&random, 12, 1, 0);
    members[3].zone = 7;
    members[8].zone = 9;
    place_all(12);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        const uint16_t *list = &positions[vnode * REPLICAS];
        assert_int_not_equal(members[list[0]].zone, members[list[1]].zone);
        assert_int_not_equal(members[list[0]].zone, members[list[2]].zone);
        assert_int_not_equal(members[list[1]].zone, members[list[2]].zone);
    }
}

/* A member with more than its cap gives the excess away and keeps what it likes best. */
static void trimming_leaves_each_member_its_cap(void **state)
{
    struct ring_place place;
    struct random random;
    uint32_t kept = 0;
    uint64_t worst_kept = 0;
    uint64_t best_given = UINT64_MAX;

    (void)state;
    random_init(&random, 5);
    make_members(&random, 8, 1, 0);
    memset(positions, 0xff, sizeof positions);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        positions[vnode * REPLICAS] = 2;
    }
    assert_int_equal(ring_place_init(&place, alloc_heap(), members, 8, VNODES, REPLICAS, positions),
                     0);
    ring_place_trim(&place);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        const uint64_t key = ring_score_key(vnode, members[2].id, 100, 2);
        if (positions[vnode * REPLICAS] == 2) {
            kept++;
            worst_kept = key > worst_kept ? key : worst_kept;
        } else {
            best_given = key < best_given ? key : best_given;
        }
    }
    assert_int_equal(kept, ring_place_cap(8, 800, 100, VNODES, 0));
    assert_true(worst_kept < best_given);
    ring_place_fini(&place);
}

/* The sort behind candidates and orders, on sizes around its edges. */
static void keys_are_sorted(void **state)
{
    uint64_t keys[300];
    struct random random;

    (void)state;
    random_init(&random, 6);
    for (uint32_t count = 0; count <= 300; count += count < 9 ? 1 : 97) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            keys[i] = random_below(&random, 1000);
            sum += keys[i];
        }
        ring_sort_keys(keys, count);
        for (uint32_t i = 0; i < count; i++) {
            sum -= keys[i];
            assert_true(i == 0 || keys[i - 1] <= keys[i]);
        }
        assert_int_equal(sum, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placing_agrees_with_the_naive_model),
        cmocka_unit_test(distinct_zones_come_before_caps),
        cmocka_unit_test(trimming_leaves_each_member_its_cap),
        cmocka_unit_test(keys_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

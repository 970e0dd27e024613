/* test_ring_seats.c - the deal of vnodes to seats: even loads, and one step a seat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ring/ring.h"
#include "ring/seats.h"

enum { SEATS_MAX = 2048 };

static uint16_t owners[RING_VNODES_MAX];
static uint16_t before[RING_VNODES_MAX];
static uint32_t loads[SEATS_MAX + 1];

/* Every seat has the share rounded down or up, for any number of seats, even more than vnodes. */
static void loads_differ_by_at_most_one(void **state)
{
    static const uint32_t vnodes[] = {16, 256, 4096, RING_VNODES_MAX};
    static const uint32_t seats[] = {1, 2, 3, 5, 7, 16, 17, 20, 64, 100, 200, 333, 600};

    (void)state;
    for (size_t v = 0; v < sizeof vnodes / sizeof vnodes[0]; v++) {
        for (size_t s = 0; s < sizeof seats / sizeof seats[0]; s++) {
            uint32_t counted[SEATS_MAX + 1] = {0};
            ring_seats_deal(owners, loads, seats[s], vnodes[v]);
            for (uint32_t vnode = 0; vnode < vnodes[v]; vnode++) {
                assert_in_range(owners[vnode], 1, seats[s]);
                counted[owners[vnode]]++;
            }
            for (uint32_t seat = 1; seat <= seats[s]; seat++) {
                assert_int_equal(counted[seat], loads[seat]);
                assert_true(loads[seat] >= vnodes[v] / seats[s]);
                assert_true(loads[seat] <= vnodes[v] / seats[s] + 1);
            }
        }
    }
}

/* One seat more: every vnode that moves goes to the new seat, which gets its share. */
static void next_seat_takes_only_its_share(void **state)
{
    (void)state;
    ring_seats_deal(before, loads, 1, 4096);
    for (uint32_t seats = 2; seats <= 150; seats++) {
        uint32_t moved = 0;
        ring_seats_deal(owners, loads, seats, 4096);
        for (uint32_t vnode = 0; vnode < 4096; vnode++) {
            if (owners[vnode] != before[vnode]) {
                assert_int_equal(owners[vnode], seats);
                moved++;
            }
        }
        assert_in_range(moved, 4096 / seats, 4096 / seats + 1);
        memcpy(before, owners, sizeof before);
    }
}

/* A seat's vnodes must not be neighbours: half the circle holds about half of them. */
static void vnodes_of_a_seat_are_scattered(void **state)
{
    (void)state;
    ring_seats_deal(owners, loads, 10, 4096);
    for (uint32_t seat = 1; seat <= 10; seat++) {
        uint32_t lower = 0;
        for (uint32_t vnode = 0; vnode < 2048; vnode++) {
            lower += owners[vnode] == seat ? 1 : 0;
        }
        assert_in_range(lower, 150, 260);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_differ_by_at_most_one),
        cmocka_unit_test(next_seat_takes_only_its_share),
        cmocka_unit_test(vnodes_of_a_seat_are_scattered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

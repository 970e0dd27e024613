/* test_room.c - at which level a store is, and when that changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/runtime/system/room.h"

#define MOST UINT64_C(1000)

static void levels_are_reached_at_80_95_and_100_per_cent(void **state)
{
    (void)state;
    assert_int_equal(room_level(ROOM_ROOMY, 799, MOST, true), ROOM_ROOMY);
    assert_int_equal(room_level(ROOM_ROOMY, 800, MOST, true), ROOM_NEAR);
    assert_int_equal(room_level(ROOM_ROOMY, 949, MOST, true), ROOM_NEAR);
    assert_int_equal(room_level(ROOM_NEAR, 950, MOST, true), ROOM_TIGHT);
    assert_int_equal(room_level(ROOM_ROOMY, 999, MOST, true), ROOM_TIGHT);
    assert_int_equal(room_level(ROOM_TIGHT, 1000, MOST, true), ROOM_FULL);
    assert_int_equal(room_level(ROOM_ROOMY, UINT64_MAX, MOST, true), ROOM_FULL);
}

static void a_level_ends_two_per_cent_below_where_it_began(void **state)
{
    (void)state;
    assert_int_equal(room_level(ROOM_FULL, 980, MOST, true), ROOM_FULL);
    assert_int_equal(room_level(ROOM_FULL, 979, MOST, true), ROOM_TIGHT);
    assert_int_equal(room_level(ROOM_TIGHT, 930, MOST, true), ROOM_TIGHT);
    assert_int_equal(room_level(ROOM_TIGHT, 929, MOST, true), ROOM_NEAR);
    assert_int_equal(room_level(ROOM_NEAR, 780, MOST, true), ROOM_NEAR);
    assert_int_equal(room_level(ROOM_NEAR, 779, MOST, true), ROOM_ROOMY);
}

/* A disk that is full says so itself; of one whose size nobody knows nothing is said. */
static void without_a_bound_no_store_is_full(void **state)
{
    (void)state;
    assert_int_equal(room_level(ROOM_ROOMY, 1000, MOST, false), ROOM_TIGHT);
    assert_int_equal(room_level(ROOM_ROOMY, 1000, 0, false), ROOM_ROOMY);
}

static void a_level_is_told_as_the_per_cent_that_is_reached(void **state)
{
    struct room room;
    (void)state;
    room_init(&room, MOST);
    assert_int_equal(room_percent(&room), 0);
    room.level = ROOM_NEAR;
    assert_int_equal(room_percent(&room), 80);
    room.level = ROOM_TIGHT;
    assert_int_equal(room_percent(&room), 95);
    room.level = ROOM_FULL;
    assert_int_equal(room_percent(&room), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_reached_at_80_95_and_100_per_cent),
        cmocka_unit_test(a_level_ends_two_per_cent_below_where_it_began),
        cmocka_unit_test(without_a_bound_no_store_is_full),
        cmocka_unit_test(a_level_is_told_as_the_per_cent_that_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

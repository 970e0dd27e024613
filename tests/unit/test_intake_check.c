/* test_intake_check.c - queues of waiting messages with one wrong field are seen by
 * intake_check_invariants, which names the invariant that is broken.
 *
 * It includes the source, for nobody else may know what an intake is made of. */
#include "node/runtime/shard/intake.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_death.h"

static struct intake *intake;

/* Three messages of connection 7, two of 8, one of 9. */
static void whole(void)
{
    assert_int_equal(intake_new(&intake), 0);
    for (uint64_t who = 7; who <= 9; who++)
        for (uint64_t i = who; i <= 9; i++)
            assert_int_not_equal(intake_put(intake, who, 100), INTAKE_NONE);
    intake_check_invariants(intake);
}

static struct queue *queue_of(uint64_t who)
{
    return &intake->queues[find(intake, who)];
}

static void check(void *checked)
{
    intake_check_invariants(checked);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char text[256];

    whole();
    corrupt();
    assert_true(death_by_assert(check, intake, text, sizeof text));
    assert_non_null(strstr(text, id));
    intake_free(&intake);
}

CORRUPTION(a_connection_that_counts_its_messages_wrong_is_seen, "INTAKE-4", queue_of(7)->count++)
CORRUPTION(messages_that_weigh_more_than_is_said_are_seen, "INTAKE-4", queue_of(8)->weight -= 1)
CORRUPTION(a_connection_whose_turn_never_comes_is_seen, "INTAKE-4", queue_of(8)->next = INTAKE_NONE)
CORRUPTION(a_connection_that_is_not_found_is_seen, "INTAKE-4", queue_of(9)->connection = 10)
CORRUPTION(a_message_that_is_in_no_queue_is_seen, "INTAKE-4",
           queue_of(7)->first = queue_of(7)->last)
CORRUPTION(a_place_that_is_neither_free_nor_taken_is_seen, "INTAKE-4",
           intake->place_free = intake->places[intake->place_free].next)
CORRUPTION(a_pace_of_nothing_is_seen, "INTAKE-2", intake->pace_ns = 0)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_counts_its_messages_wrong_is_seen),
        cmocka_unit_test(messages_that_weigh_more_than_is_said_are_seen),
        cmocka_unit_test(a_connection_whose_turn_never_comes_is_seen),
        cmocka_unit_test(a_connection_that_is_not_found_is_seen),
        cmocka_unit_test(a_message_that_is_in_no_queue_is_seen),
        cmocka_unit_test(a_place_that_is_neither_free_nor_taken_is_seen),
        cmocka_unit_test(a_pace_of_nothing_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

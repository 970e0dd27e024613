/* test_client_check.c - a handle with one wrong field is seen by client_check_invariants, which
 * names the invariant that is broken. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/lib/call.h"
#include "client/lib/check.h"
#include "client/lib/client.h"
#include "client/lib/message.h"
#include "client/lib/messages.h"
#include "tests/unit/support_death.h"

enum { IN_FLIGHT_MAX = 32, ITEMS_MAX = 64, REQUESTS = 3 };

static const tg_limit_t limit = {
    .algorithm = TG_TOKEN_BUCKET, .count = 100, .window_ns = 3600000000000ULL};

static struct tg_client handle; /* of the test at hand: without a thread, it stands still */
static struct client_driver *const driver = &handle.driver;
static struct client_call call;
static struct client_message *message;
static tg_request_t requests[REQUESTS];
static tg_decision_t decisions[REQUESTS];

/* A call of three requests: two wait for a link, one is in a message to the only one. */
static struct client_call *call_new(void)
{
    call = (struct client_call){.requests = requests,
                                .decisions = decisions,
                                .count = REQUESTS,
                                .undecided = REQUESTS,
                                .operation = TG_CHECK,
                                .deadline_ns = 9000000000};
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = tg_request_inline("k", &limit);
        decisions[i] = (tg_decision_t){.outcome = (tg_outcome_t)CLIENT_UNDECIDED};
    }
    atomic_init(&call.owners, 2);
    atomic_init(&handle.shared.in_flight, REQUESTS);
    return &call;
}

static void message_new(void)
{
    message = calloc(1, sizeof *message + sizeof message->items[0]);
    assert_non_null(message);
    message->count = 1;
    assert_true(client_items_pop(&driver->items, &driver->waiting, &message->items[0]));
    assert_int_equal(client_pending_next(&driver->pending, &message->seq), 0);
    client_pending_put(&driver->pending, message->seq, message);
    client_window_sent(&driver->links[0].window, 1);
    driver->messages = message;
}

static void whole(void)
{
    memset(&handle, 0, sizeof handle);
    handle.config.in_flight_max = IN_FLIGHT_MAX;
    handle.config.items_max = ITEMS_MAX;
    assert_int_equal(client_items_init(&driver->items, alloc_heap(), ITEMS_MAX, 2), 0);
    assert_int_equal(client_pending_init(&driver->pending, alloc_heap(), ITEMS_MAX), 0);
    assert_int_equal(client_hold_init(&handle.shared.holds, alloc_heap()), 0);
    assert_int_equal(client_denial_init(&handle.shared.denials, alloc_heap()), 0);
    driver->now_ns = 1000000000;
    driver->preferred = CLIENT_LINK_NONE;
    driver->link_count = 1;
    (void)snprintf(driver->links[0].endpoint, sizeof driver->links[0].endpoint, "tcp://a:1");
    client_window_init(&driver->links[0].window, ITEMS_MAX, 1000000);
    client_dispatch(&handle, call_new());
    message_new();
    client_check_invariants(&handle);
}

static void empty(void)
{
    free(message);
    client_denial_fini(&handle.shared.denials);
    client_hold_fini(&handle.shared.holds);
    client_pending_fini(&handle.driver.pending);
    client_items_fini(&handle.driver.items);
}

static void check(void *client)
{
    client_check_invariants(client);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char text[256];

    whole();
    corrupt();
    assert_true(death_by_assert(check, &handle, text, sizeof text));
    assert_non_null(strstr(text, id));
    empty();
}

CORRUPTION(a_call_that_counts_its_decisions_wrong_is_seen, "CALL-1", call.undecided--)
CORRUPTION(an_item_that_no_queue_holds_is_seen, "MESSAGES-1", call.items_out++)
CORRUPTION(a_call_that_ended_and_is_live_is_seen, "CLIENT-3", call.done = true)
CORRUPTION(requests_that_nobody_counts_are_seen, "CLIENT-5",
           atomic_store(&handle.shared.in_flight, 0))
CORRUPTION(a_call_about_a_lease_that_is_not_there_is_seen, "CLIENT-5", driver->lease_calls = 1)
CORRUPTION(a_call_about_a_lease_that_nobody_waits_for_is_seen, "LEASES-1",
           call.hold = handle.shared.holds.holds)
CORRUPTION(a_message_under_another_number_is_seen, "MESSAGES-2", message->seq++)
CORRUPTION(a_window_that_counts_wrong_is_seen, "WINDOW-1", driver->links[0].window.out++)
CORRUPTION(a_window_that_is_too_wide_is_seen, "WINDOW-2",
           driver->links[0].window.size = ITEMS_MAX + 1)
CORRUPTION(a_link_that_is_up_without_a_socket_is_seen, "LINK-3", driver->links[0].up = true)
CORRUPTION(a_link_that_is_free_and_preferred_is_seen, "LINKS-1", driver->preferred = 7)
CORRUPTION(a_queue_that_counts_wrong_is_seen, "ITEMS-1", driver->waiting.count--)
CORRUPTION(room_that_items_take_is_seen, "ITEMS-2", driver->items.room++)
CORRUPTION(a_number_that_was_never_given_is_seen, "PENDING-1", driver->pending.seq_last = 0)
CORRUPTION(tokens_of_no_lease_are_seen, "HOLD-1",
           atomic_store(&handle.shared.holds.holds[5].blocks[0].state, 3))
CORRUPTION(a_held_key_that_nobody_counts_is_seen, "HOLD-5",
           atomic_fetch_add(&handle.shared.holds.count, 1))
CORRUPTION(a_denial_that_is_half_written_is_seen, "DENIAL-2",
           atomic_store(&handle.shared.denials.denials[9].version, 1))
CORRUPTION(a_denial_that_lasts_too_long_is_seen, "DENIAL-3",
           atomic_store(&handle.shared.denials.denials[9].until_ns, 2000000000))

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_counts_its_decisions_wrong_is_seen),
        cmocka_unit_test(an_item_that_no_queue_holds_is_seen),
        cmocka_unit_test(a_call_that_ended_and_is_live_is_seen),
        cmocka_unit_test(requests_that_nobody_counts_are_seen),
        cmocka_unit_test(a_call_about_a_lease_that_is_not_there_is_seen),
        cmocka_unit_test(a_call_about_a_lease_that_nobody_waits_for_is_seen),
        cmocka_unit_test(a_message_under_another_number_is_seen),
        cmocka_unit_test(a_window_that_counts_wrong_is_seen),
        cmocka_unit_test(a_window_that_is_too_wide_is_seen),
        cmocka_unit_test(a_link_that_is_up_without_a_socket_is_seen),
        cmocka_unit_test(a_link_that_is_free_and_preferred_is_seen),
        cmocka_unit_test(a_queue_that_counts_wrong_is_seen),
        cmocka_unit_test(room_that_items_take_is_seen),
        cmocka_unit_test(a_number_that_was_never_given_is_seen),
        cmocka_unit_test(tokens_of_no_lease_are_seen),
        cmocka_unit_test(a_held_key_that_nobody_counts_is_seen),
        cmocka_unit_test(a_denial_that_is_half_written_is_seen),
        cmocka_unit_test(a_denial_that_lasts_too_long_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

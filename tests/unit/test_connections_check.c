/* test_connections_check.c - a loop of connections that is not as it must be is seen by its check.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/gateway/zmtp.h"
#include "node/runtime/shard/connections_state.h"
#include "node/runtime/system/listener.h"
#include "tests/unit/support_death.h"

enum { CLIENTS = 3 };

static struct clock now;
static struct gateway_stats stats;
static struct zmtp_gate gate;
static struct connections *loop;
static struct connection *first;
static int clients[CLIENTS];

static bool take_message(void *context, uint64_t token, const void *data, size_t len)
{
    (void)context;
    (void)token;
    (void)data;
    (void)len;
    return true;
}

static void check(void *context)
{
    (void)context;
    connections_check_invariants(loop);
}

/* Three clients, each in the middle of its beginning. */
static void whole(void)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener;
    memset(&stats, 0, sizeof stats);
    assert_int_equal(clock_init(&now), 0);
    assert_int_equal(listener_open("127.0.0.1", 0, &listener), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    gate = (struct zmtp_gate){.message = take_message, .stats = &stats};
    const struct connections_options options = {.codec = &zmtp_codec,
                                                .gate = &gate,
                                                .stats = &stats,
                                                .listeners = {listener},
                                                .listener_count = 1,
                                                .max = 2 * CLIENTS,
                                                .all = -1,
                                                .slow_ns = CONNECTIONS_SLOW_NS,
                                                .begin_ns = CONNECTIONS_BEGIN_NS,
                                                .request_ns = CONNECTIONS_REQUEST_NS,
                                                .quiet_ns = CONNECTIONS_QUIET_NS,
                                                .clock = &now};
    assert_int_equal(connections_new(&options, &loop), 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(clients[i] >= 0);
        assert_int_equal(connect(clients[i], (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(send(clients[i], "\xff", 1, MSG_NOSIGNAL), 1);
    }
    while (loop->kept_total < CLIENTS || connections_pending(loop))
        connections_turn(loop);
    first = &loop->places[0];
    check(NULL);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char text[256];
    whole();
    const struct connections kept = *loop;
    struct connection places[CLIENTS];
    struct gateway_out outs[CLIENTS];
    const struct gateway_stats counted = stats;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        places[i] = loop->places[i];
        outs[i] = connection_peer(loop, &loop->places[i])->out;
    }
    corrupt();
    assert_true(death_by_assert(check, NULL, text, sizeof text));
    if (strstr(text, id) == NULL)
        fail_msg("found \"%s\", expected %s", text, id);
    *loop = kept;
    stats = counted;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        loop->places[i] = places[i];
        connection_peer(loop, &loop->places[i])->out = outs[i];
        (void)close(clients[i]);
    }
    connections_free(&loop);
}

CORRUPTION(more_kept_than_there_is_room_for_is_seen, "CONNBYTES-1",
           first->kept_len = first->kept_capacity + 1)
CORRUPTION(memory_without_anything_kept_is_seen, "CONNBYTES-1", first->kept_len = 0)
CORRUPTION(kept_bytes_that_are_not_counted_are_seen, "CONNBYTES-2", loop->kept_total--)
CORRUPTION(unsent_bytes_that_are_not_counted_are_seen, "CONNBYTES-2", loop->unsent_total++)
CORRUPTION(more_sent_than_there_was_is_seen, "CONNBYTES-3", first->sent = 1)
CORRUPTION(a_connection_in_two_lists_is_seen, "PLACES-1", first->dirty = first->deferred = true)
CORRUPTION(a_connection_that_is_in_no_list_is_seen, "PLACES-1", first->dirty = true)
CORRUPTION(a_connection_out_of_the_order_is_seen, "PLACES-3",
           loop->used.oldest = first->links[CONNECTION_BY_USE].newer)
CORRUPTION(a_place_that_is_lost_is_seen, "PLACES-3", loop->used_max++;
           loop->places[CLIENTS].fd = -1)
CORRUPTION(connections_that_are_not_counted_are_seen, "PLACES-3", stats.connections++)
CORRUPTION(an_address_that_is_not_counted_is_seen, "PLACES-4", first->address.s6_addr[0] ^= 1)
CORRUPTION(a_blocked_connection_out_of_the_order_is_seen, "PLACES-5", first->blocked = true)
CORRUPTION(a_waiting_connection_out_of_the_order_is_seen, "PLACES-5", first->wait = CONNECTION_ASKS)
CORRUPTION(an_order_that_is_not_by_time_is_seen, "PLACES-5", first->since_ns = INT64_MAX)
CORRUPTION(events_beyond_those_there_are_are_seen, "CONNECTIONS-3",
           loop->event_at = loop->event_count + 1)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_kept_than_there_is_room_for_is_seen),
        cmocka_unit_test(memory_without_anything_kept_is_seen),
        cmocka_unit_test(kept_bytes_that_are_not_counted_are_seen),
        cmocka_unit_test(unsent_bytes_that_are_not_counted_are_seen),
        cmocka_unit_test(more_sent_than_there_was_is_seen),
        cmocka_unit_test(a_connection_in_two_lists_is_seen),
        cmocka_unit_test(a_connection_that_is_in_no_list_is_seen),
        cmocka_unit_test(a_connection_out_of_the_order_is_seen),
        cmocka_unit_test(a_place_that_is_lost_is_seen),
        cmocka_unit_test(connections_that_are_not_counted_are_seen),
        cmocka_unit_test(an_address_that_is_not_counted_is_seen),
        cmocka_unit_test(a_blocked_connection_out_of_the_order_is_seen),
        cmocka_unit_test(a_waiting_connection_out_of_the_order_is_seen),
        cmocka_unit_test(an_order_that_is_not_by_time_is_seen),
        cmocka_unit_test(events_beyond_those_there_are_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

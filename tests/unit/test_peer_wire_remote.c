/* test_peer_wire_remote.c - records for other regions, and of what they count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_peer_wire.h"

enum { VNODES = 64, BUFFER_LEN = 2048 };

/* What peer_next says to a record of that type. */
static int read_back(uint8_t type, struct peer_record *record)
{
    const struct answer answer = {.granted = UINT64_MAX};
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;
    bytes_writer_init(&writer, data, sizeof data);
    peer_wire_put_remote(&writer, type, &answer);
    return peer_wire_next(data, writer.len, VNODES, record);
}

/* What goes to another region, or is about what it counts, names that region; a forward that names
 * none has none. */
static void what_another_region_counts_reads_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;
    struct peer_record record;
    struct forward sent = peer_wire_global();
    (void)state;
    assert_int_equal(read_back(PEER_FORWARD_GLOBAL, &record), 1);
    assert_true(record.forward.home == sent.home && record.forward.wait_ms == PEER_WAIT_MAX_MS);
    assert_true(record.forward.ticket == sent.ticket && record.forward.cost == sent.cost);
    assert_int_equal(read_back(PEER_REMOTE_ASK, &record), 1);
    assert_true(record.forward.home == sent.home && record.forward.wait_ms == 0);
    assert_int_equal(record.forward.limit_count, PEER_LIMITS_MAX);
    assert_int_equal(read_back(PEER_REMOTE_ANSWER, &record), 1);
    assert_true(record.answer.ticket == 39 && record.answer.answer.granted == UINT64_MAX);
    assert_int_equal(read_back(PEER_REMOTE_PING, &record), 1);
    assert_true(record.remote_ping.sent_ns == 38 && record.remote_ping.echo_ns == 0);
    sent.home = 0;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_forward(&writer, &sent);
    assert_int_equal(peer_wire_next(data, writer.len, VNODES, &record), 1);
    assert_true(record.type == PEER_FORWARD && record.forward.home == 0);
    assert_int_equal(record.forward.wait_ms, 0);
}

static int next_of(void (*put)(struct bytes_writer *writer, const struct forward *forward),
                   const struct forward *forward)
{
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;
    struct peer_record record;
    bytes_writer_init(&writer, data, sizeof data);
    put(&writer, forward);
    return peer_wire_next(data, writer.len, VNODES, &record);
}

/* One without a home, with a wait longer than any, or for a stand-in; a ping that neither asks nor
 * answers, or does both. */
static void what_no_region_says_is_refused(void **state)
{
    const int64_t pings[][2] = {{0, 0}, {1, 1}, {-1, 0}, {0, -1}};
    struct forward bad = peer_wire_global();
    (void)state;
    bad.wait_ms++;
    assert_int_equal(next_of(peer_put_forward, &bad), TG_EPROTOCOL);
    bad = peer_wire_global();
    bad.flags |= FORWARD_STAND_IN;
    assert_int_equal(next_of(peer_put_forward, &bad), TG_EPROTOCOL);
    bad = peer_wire_global();
    bad.home = 0;
    assert_int_equal(next_of(peer_put_remote_ask, &bad), TG_EPROTOCOL);
    for (size_t i = 0; i < sizeof pings / sizeof pings[0]; i++) {
        uint8_t data[BUFFER_LEN];
        struct bytes_writer writer;
        struct peer_record record;
        bytes_writer_init(&writer, data, sizeof data);
        peer_put_remote_ping(&writer, pings[i][0], pings[i][1]);
        assert_int_equal(peer_wire_next(data, writer.len, VNODES, &record), TG_EPROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_region_counts_reads_back_as_written),
        cmocka_unit_test(what_no_region_says_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

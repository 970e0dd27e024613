/* test_peer_wire_pools.c - the records of pools between leaders and owners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_peer_wire.h"

enum { VNODES = 16, BUFFER_LEN = 1024 };

static size_t report_bytes(uint8_t data[BUFFER_LEN])
{
    struct bytes_writer writer;
    bytes_writer_init(&writer, data, BUFFER_LEN);
    peer_put_pool_report(&writer, NULL, &peer_wire_report, 36, 37);
    assert_false(writer.failed);
    return writer.len;
}

static size_t level_bytes(uint8_t data[BUFFER_LEN])
{
    struct bytes_writer writer;
    bytes_writer_init(&writer, data, BUFFER_LEN);
    peer_put_pool_level(&writer, &peer_wire_level);
    assert_false(writer.failed);
    return writer.len;
}

static int next_of(const uint8_t *data, size_t len, struct peer_record *record)
{
    return peer_wire_next(data, len, VNODES, record);
}

/* Pools: what leaders tell an owner, share by share, and what it answers. */
static void records_of_pools_read_back_as_written(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    struct fair_share_bin share;
    struct bytes_reader reader;

    (void)state;
    bytes_reader_init(&reader, data, report_bytes(data));
    assert_int_equal(peer_next(&reader, VNODES, &record), 1);
    assert_true(record.pool_report.pool == peer_wire_report.pool);
    assert_true(record.pool_report.guaranteed == UINT64_MAX && record.pool_report.borrowed == 31);
    assert_true(record.pool_report.load_ppm == 36 && record.pool_report.load_ms == 37);
    assert_memory_equal(record.pool_report.count, ((const uint16_t[]){2, 0, 1}), 6);
    const struct fair_share_bin *const told[] = {&peer_wire_report.shares[0][0],
                                                 &peer_wire_report.shares[0][1],
                                                 &peer_wire_report.shares[2][0]};
    for (size_t i = 0; i < 3; i++) {
        assert_true(peer_share_next(&record.pool_report.shares, &share));
        assert_true(share.weight == told[i]->weight && share.ask == told[i]->ask);
    }
    assert_false(peer_share_next(&record.pool_report.shares, &share));
    assert_int_equal(next_of(data, level_bytes(data), &record), 1);
    assert_memory_equal(&record.pool_level.level, &peer_wire_level.level,
                        sizeof peer_wire_level.level);
    assert_true(record.pool_level.pool == peer_wire_level.pool && record.pool_level.load_ppm == 48);
    assert_true(record.pool_level.guaranteed == 46 && record.pool_level.borrowed == 47);
}

/* What a region tells a pool's home says who is to be answered, and when it was sent; the answer
 * says that again. What leaders and owners of one region say has none of it. */
static void records_of_global_pools_name_their_origin(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    struct bytes_writer writer;

    (void)state;
    bytes_writer_init(&writer, data, sizeof data);
    peer_wire_put_remote(&writer, PEER_REMOTE_POOL_REPORT, NULL);
    assert_int_equal(next_of(data, writer.len, &record), 1);
    assert_int_equal(record.type, PEER_REMOTE_POOL_REPORT);
    assert_true(record.pool_report.origin.home == peer_wire_origin.home);
    assert_true(record.pool_report.origin.node == peer_wire_origin.node);
    assert_true(record.pool_report.origin.shard == peer_wire_origin.shard);
    assert_true(record.pool_report.origin.sent_ns == peer_wire_origin.sent_ns);
    assert_true(record.pool_report.pool == peer_wire_report.pool);
    assert_true(record.pool_report.load_ppm == 36 && record.pool_report.load_ms == 37);
    bytes_writer_init(&writer, data, sizeof data);
    peer_wire_put_remote(&writer, PEER_REMOTE_POOL_LEVEL, NULL);
    assert_int_equal(next_of(data, writer.len, &record), 1);
    assert_int_equal(record.type, PEER_REMOTE_POOL_LEVEL);
    assert_true(record.pool_level.echo_ns == 49 && record.pool_level.load_ppm == 48);
    assert_int_equal(next_of(data, level_bytes(data), &record), 1);
    assert_true(record.type == PEER_POOL_LEVEL && record.pool_level.echo_ns == 0);
    assert_int_equal(next_of(data, report_bytes(data), &record), 1);
    assert_true(record.type == PEER_POOL_REPORT && record.pool_report.origin.home == 0);
}

/* A report of nobody, of no time or for no region, and an answer to none. */
static void impossible_origins_are_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    struct bytes_writer writer;
    const size_t home_at = 1;
    const size_t node_at = 9;
    const size_t time_at = 19;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        const size_t ats[] = {home_at, node_at, time_at};
        bytes_writer_init(&writer, data, sizeof data);
        peer_wire_put_remote(&writer, PEER_REMOTE_POOL_REPORT, NULL);
        memset(data + ats[i], 0, 8);
        assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    }
    bytes_writer_init(&writer, data, sizeof data);
    peer_wire_put_remote(&writer, PEER_REMOTE_POOL_REPORT, NULL);
    memset(data + time_at, 0xff, 8); /* before 1970 */
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    bytes_writer_init(&writer, data, sizeof data);
    peer_wire_put_remote(&writer, PEER_REMOTE_POOL_LEVEL, NULL);
    memset(data + 1, 0, 8);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    memset(data + 1, 0xff, 8);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
}

/* Rates, loads and counts that no owner and no leader can mean are refused. */
static void impossible_records_of_pools_are_refused(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct peer_record record;
    struct bytes_writer writer;
    struct elastic_report report = peer_wire_report;

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        struct peer_pool_level level = peer_wire_level;
        uint64_t *const rates[] = {&level.level.level[0],    &level.level.level[1],
                                   &level.level.level[2],    &level.level.budget,
                                   &level.level.budget_open, &level.level.spare};
        if (i < 6)
            *rates[i] = FAIR_SHARE_RATE_MAX + 1;
        else
            level.pool = 0;
        bytes_writer_init(&writer, data, sizeof data);
        peer_put_pool_level(&writer, &level);
        assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    }
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_pool_report(&writer, NULL, &report, PEER_LOAD_MAX + 1, 1);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    report.pool = 0;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_pool_report(&writer, NULL, &report, PEER_LOAD_MAX, 1);
    assert_int_equal(next_of(data, writer.len, &record), TG_EPROTOCOL);
    static uint8_t large[2 * PEER_REPORT_MAX];
    static struct elastic_report full = {
        .pool = 1,
        .count = {FAIR_SHARE_SUMMARY_MAX, FAIR_SHARE_SUMMARY_MAX, FAIR_SHARE_SUMMARY_MAX}};
    bytes_writer_init(&writer, large, sizeof large);
    peer_put_pool_report(&writer, &peer_wire_origin, &full, 0, 0);
    assert_in_range(writer.len, 1, PEER_REPORT_MAX);
    assert_int_equal(next_of(large, writer.len, &record), 1);
    bytes_writer_init(&writer, large, sizeof large);
    peer_put_pool_report(&writer, NULL, &full, 0, 0);
    assert_in_range(writer.len, 1, PEER_REPORT_MAX);
    assert_int_equal(next_of(large, writer.len, &record), 1);
    large[29] = 0xff; /* the first count, after the type, the pool, two rates and the load */
    large[30] = 0xff;
    assert_int_equal(next_of(large, sizeof large, &record), TG_EPROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_pools_read_back_as_written),
        cmocka_unit_test(records_of_global_pools_name_their_origin),
        cmocka_unit_test(impossible_origins_are_refused),
        cmocka_unit_test(impossible_records_of_pools_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_peer_wire_slots.c - the records in which slots travel: alone, and with their term and mark.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_peer_wire.h"

enum { VNODE = PEER_WIRE_VNODE, VNODES = VNODE + 1, BUFFER_LEN = 1024 };

/* A slot's state lies in place in the frame: nothing is copied, and an empty one is fine. */
static void a_slot_is_a_view_into_the_frame(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;
    struct bytes_reader reader;
    struct peer_record record;

    (void)state;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_slot(&writer, VNODE, peer_wire_id, peer_wire_state, sizeof peer_wire_state);
    peer_put_slot(&writer, 0, peer_wire_id, peer_wire_state, 0);
    bytes_reader_init(&reader, data, writer.len);
    assert_int_equal(peer_next(&reader, VNODES, &record), 1);
    assert_int_equal(record.type, PEER_SLOT);
    assert_int_equal(record.slot.vnode, VNODE);
    assert_true(hash128_equal(record.slot.id, peer_wire_id));
    assert_int_equal(record.slot.len, sizeof peer_wire_state);
    assert_memory_equal(record.slot.state, peer_wire_state, sizeof peer_wire_state);
    assert_in_range((uintptr_t)record.slot.state, (uintptr_t)data, (uintptr_t)data + writer.len);
    assert_int_equal(peer_next(&reader, VNODES, &record), 1);
    assert_int_equal(record.slot.len, 0);
    assert_int_equal(peer_next(&reader, VNODES, &record), 0);
}

/* A CHANGE is three records in one; which term it is of is told but for its writer, and it is no
 * WATERMARK before it is made one. */
static void a_change_reads_back_as_what_term_slot_and_mark_say(void **state)
{
    uint8_t data[BUFFER_LEN];
    struct bytes_writer writer;
    struct peer_record record;

    (void)state;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_slot(&writer, VNODE, peer_wire_id, peer_wire_state, sizeof peer_wire_state);
    const size_t before = writer.len;
    const size_t at = peer_wire_put_change(&writer);
    for (uint32_t marked = 0; marked < 2; marked++) {
        assert_int_equal(peer_wire_next(data + before, writer.len - before, VNODES, &record), 1);
        assert_int_equal(record.type, PEER_CHANGE);
        const struct peer_change *change = &record.change;
        assert_int_equal(change->term.vnode, VNODE);
        assert_true(change->term.term.epoch == 3);
        assert_true(change->term.term.number == ((uint64_t)1 << 62) - 1);
        assert_int_equal(change->term.term.writer, 0);
        assert_int_equal(change->term.sync, 39);
        assert_true(change->term.copy && change->term.begins);
        assert_int_equal(change->slot.vnode, VNODE);
        assert_true(hash128_equal(change->slot.id, peer_wire_id));
        assert_int_equal(change->slot.len, sizeof peer_wire_state);
        assert_int_equal(change->marks, marked);
        assert_true(change->seq == (marked ? UINT64_MAX : 0));
        assert_true(peer_says(&record, PEER_TERM) && peer_says(&record, PEER_SLOT));
        assert_int_equal(peer_says(&record, PEER_WATERMARK), marked);
        assert_false(peer_says(&record, PEER_HELD));
        peer_watermark_change(&writer, at, UINT64_MAX);
    }
    bytes_writer_init(&writer, data, sizeof data);
    const struct peer_written plain = {.vnode = VNODE};
    assert_int_equal(peer_put_change(&writer, &plain, peer_wire_id, NULL, 0), 0);
    assert_int_equal(peer_wire_next(data, writer.len, VNODES, &record), 1);
    assert_false(record.change.term.copy || record.change.term.begins);
    assert_int_equal(record.change.slot.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_a_view_into_the_frame),
        cmocka_unit_test(a_change_reads_back_as_what_term_slot_and_mark_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

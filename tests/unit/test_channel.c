/* test_channel.c - what a peer may acknowledge of a channel's frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/peer/channel.h"

enum { STREAM = 3, ACKED = 4, FILLING = 7, FRAME_LEN = 100 };

/* Frames ACKED + 1 to FILLING - 1 are on their way, and the one behind them is being filled. */
static struct channel channel_in_use(void)
{
    struct channel channel = {
        .out_stream = STREAM, .out_seq = FILLING, .out_acked = ACKED, .outbox_streams = true};
    for (uint64_t seq = ACKED + 1; seq < FILLING; seq++) {
        channel.out_lens[seq % CHANNEL_FRAMES_MAX] = FRAME_LEN;
        channel.out_bytes += FRAME_LEN;
    }
    return channel;
}

/* CHANNEL-2: a peer that acknowledges what it cannot have seen would have the next frame begin
 * among those that are done with. */
static void a_frame_that_is_still_being_filled_is_not_acknowledged(void **state)
{
    struct channel channel = channel_in_use();
    (void)state;
    assert_false(channel_acked(&channel, STREAM, FILLING, 9));
    assert_false(channel_acked(&channel, STREAM, UINT64_MAX, 9));
    assert_int_equal(channel.out_acked, ACKED);
    assert_int_equal(channel.out_bytes, 2 * FRAME_LEN);
    assert_int_equal(channel.out_wait_ns, 0);
    channel.outbox_streams = false; /* it was sent */
    channel.out_lens[FILLING % CHANNEL_FRAMES_MAX] = FRAME_LEN;
    channel.out_bytes += FRAME_LEN;
    assert_true(channel_acked(&channel, STREAM, FILLING, 9));
    assert_int_equal(channel.out_acked, FILLING);
    assert_int_equal(channel.out_bytes, 0);
    assert_int_equal(channel.out_wait_ns, 9);
}

/* An acknowledgement is of all frames up to it, once, and of the stream that they are of. */
static void an_acknowledgement_is_of_what_was_not_acknowledged_before(void **state)
{
    struct channel channel = channel_in_use();
    (void)state;
    assert_false(channel_acked(&channel, STREAM - 1, FILLING - 1, 9));
    assert_false(channel_acked(&channel, STREAM + 1, FILLING - 1, 9));
    assert_false(channel_acked(&channel, STREAM, ACKED, 9));
    assert_int_equal(channel.out_bytes, 2 * FRAME_LEN);
    assert_true(channel_acked(&channel, STREAM, FILLING - 1, 9));
    assert_int_equal(channel.out_bytes, 0);
    assert_false(channel_acked(&channel, STREAM, FILLING - 1, 9));
    assert_false(channel_acked(&channel, STREAM, ACKED + 1, 9));
    assert_int_equal(channel.out_acked, FILLING - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_that_is_still_being_filled_is_not_acknowledged),
        cmocka_unit_test(an_acknowledgement_is_of_what_was_not_acknowledged_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

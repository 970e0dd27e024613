/* test_register_wire.c - the register's messages survive the wire, and hostile bytes do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/consensus/register_wire.h"

static const uint8_t VALUE[] = "a configuration";

static struct register_frame make(enum register_type type)
{
    struct register_frame frame;
    memset(&frame, 0, sizeof frame);
    memset(frame.cluster_id, 0xab, sizeof frame.cluster_id);
    memcpy(frame.address, "10.0.0.1:7602", 14);
    memcpy(frame.region, "eu", 3);
    frame.message = (struct register_message){
        .type = type,
        .sender = UINT64_MAX,
        .epoch = UINT64_C(1) << 40 | 7,
        .ballot = {3, 4, UINT64_MAX},
        .other = {1, 2, 3},
        .value = VALUE,
        .value_len = sizeof VALUE,
    };
    return frame;
}

/* Each message arrives as it was sent. */
static void messages_are_read_as_they_were_written(void **state)
{
    uint8_t bytes[512];
    struct register_frame got;
    (void)state;
    for (int type = REGISTER_PREPARE; type < REGISTER_TYPE_END; type++) {
        const struct register_frame frame = make((enum register_type)type);
        const int len = register_wire_encode(&frame, bytes, sizeof bytes);
        assert_true(len > 0 && join_is(bytes, (size_t)len));
        assert_int_equal(register_wire_decode(bytes, (size_t)len, &got), 0);
        assert_int_equal(got.message.type, type);
        assert_memory_equal(got.cluster_id, frame.cluster_id, sizeof got.cluster_id);
        assert_string_equal(got.address, frame.address);
        assert_string_equal(got.region, "eu");
        assert_int_equal(got.message.sender, frame.message.sender);
        assert_int_equal(got.message.epoch, frame.message.epoch);
        assert_int_equal(register_ballot_compare(&got.message.ballot, &frame.message.ballot), 0);
        assert_int_equal(register_ballot_compare(&got.message.other, &frame.message.other), 0);
        assert_int_equal(got.message.value_len, sizeof VALUE);
        assert_memory_equal(got.message.value, VALUE, sizeof VALUE);
    }
}

/* Two adjacent releases vote in one register: the older one's frames end before the region. */
static void a_frame_without_a_region_is_understood(void **state)
{
    uint8_t bytes[512];
    struct register_frame got;
    struct register_frame frame = make(REGISTER_PROMISE);
    (void)state;
    frame.region[0] = '\0';
    const int len = register_wire_encode(&frame, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(bytes[len - 1], 0xa0); /* an empty text */
    bytes[1]--;
    assert_int_equal(register_wire_decode(bytes, (size_t)len - 1, &got), 0);
    assert_int_equal(got.message.value_len, sizeof VALUE);
    assert_string_equal(got.region, "");
}

/* Both kinds of frame come to one address: neither may be taken for the other. */
static void frames_of_joining_are_told_apart(void **state)
{
    uint8_t bytes[512];
    struct register_frame got;
    struct join_message message;
    (void)state;
    memset(&message, 0, sizeof message);
    message.type = JOIN_FETCH;
    message.sender = 5;
    int len = join_encode(&message, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(register_wire_decode(bytes, (size_t)len, &got), TG_EPROTOCOL);
    const struct register_frame frame = make(REGISTER_PREPARE);
    len = register_wire_encode(&frame, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(join_decode(bytes, (size_t)len, &message), TG_EPROTOCOL);
}

/* What nobody may send: no ballot or one beyond all bounds, no sender, no such type, too large a
 * value. */
static void impossible_messages_are_refused(void **state)
{
    uint8_t *bytes = malloc(JOIN_FRAME_MAX);
    uint8_t *value = calloc(1, REGISTER_VALUE_LEN_MAX + 1);
    struct register_frame got;
    (void)state;
    assert_true(bytes != NULL && value != NULL);
    for (int wrong = 0; wrong < 6; wrong++) {
        struct register_frame frame = make(REGISTER_PROMISE);
        if (wrong == 0)
            frame.message.ballot.number = 0;
        else if (wrong == 1)
            frame.message.sender = 0;
        else if (wrong == 2)
            frame.message.type = REGISTER_TYPE_END;
        else if (wrong == 3)
            frame.message.ballot.number = UINT64_MAX; /* the next one would be 0: none */
        else if (wrong == 4)
            frame.message.other.number = REGISTER_NUMBER_MAX + 1;
        else
            frame.message.value = value, frame.message.value_len = REGISTER_VALUE_LEN_MAX + 1;
        const int len = register_wire_encode(&frame, bytes, JOIN_FRAME_MAX);
        assert_true(len > 0);
        assert_int_equal(register_wire_decode(bytes, (size_t)len, &got), TG_EPROTOCOL);
    }
    struct register_frame frame = make(REGISTER_ACCEPT);
    assert_int_equal(register_wire_encode(&frame, bytes, 60), TG_ETOOBIG);
    assert_int_equal(register_wire_encode(&frame, bytes, 0), TG_ETOOBIG);
    free(bytes);
    free(value);
}

/* Bytes come from the network: cut short or changed anywhere, they are read within their bounds. */
static void mangled_frames_are_read_within_bounds(void **state)
{
    uint8_t bytes[512];
    struct random random;
    struct register_frame got;
    (void)state;
    random_init(&random, 7);
    const struct register_frame frame = make(REGISTER_ACCEPT);
    const int len = register_wire_encode(&frame, bytes, sizeof bytes);
    assert_true(len > 0);
    for (size_t cut = 0; cut < (size_t)len; cut++) {
        uint8_t *copy = malloc(cut + 1); /* its own, so that a sanitizer sees one byte too many */
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_true(register_wire_decode(copy, cut, &got) != 0);
        free(copy);
    }
    for (int round = 0; round < 20000; round++) {
        uint8_t *copy = malloc((size_t)len);
        assert_non_null(copy);
        memcpy(copy, bytes, (size_t)len);
        copy[1 + random_below(&random, (uint64_t)len - 1)] = (uint8_t)random_next(&random);
        if (register_wire_decode(copy, (size_t)len, &got) == 0 && got.message.value_len > 0)
            assert_true(got.message.value >= copy &&
                        got.message.value + got.message.value_len <= copy + len);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_read_as_they_were_written),
        cmocka_unit_test(a_frame_without_a_region_is_understood),
        cmocka_unit_test(frames_of_joining_are_told_apart),
        cmocka_unit_test(impossible_messages_are_refused),
        cmocka_unit_test(mangled_frames_are_read_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

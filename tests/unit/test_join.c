/* test_join.c - a newcomer and a member understand each other, and nobody else gets in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp.h"
#include "base/random.h"
#include "node/cluster/wire/join.h"

enum { BUFFER_LEN = 1024 };

static const uint8_t config[40] = {1, 2, 3};

static struct join_message make(enum join_type type)
{
    struct join_message message = {
        .type = type,
        .sender = 0xfedcba9876543210,
        .identity = {.vnodes = 4096, .replicas = 3},
        .config = config,
        .config_len = sizeof config,
    };
    memset(message.cluster_id, 0xc1, sizeof message.cluster_id);
    memset(message.identity.secret.bytes, 0x5e, HASH_KEY_LEN);
    memset(message.identity.route_key.bytes, 0x40, HASH_KEY_LEN);
    (void)snprintf(message.address, sizeof message.address, "%s", "[fe80::1]:7946");
    (void)snprintf(message.region, sizeof message.region, "eu-west");
    return message;
}

static size_t encode(const struct join_message *message, uint8_t frame[BUFFER_LEN])
{
    const int len = join_encode(message, frame, BUFFER_LEN);

    assert_in_range(len, 1, BUFFER_LEN);
    return (size_t)len;
}

/* What join_decode says to `len` bytes that lie in a block of just that size. */
static int decode_exact(const uint8_t *frame, size_t len)
{
    struct join_message message;
    uint8_t *copy = malloc(len + 1); /* so that a read beyond the end is seen by a sanitizer */

    assert_non_null(copy);
    memcpy(copy + 1, frame, len);
    const int result = join_decode(copy + 1, len, &message);
    if (result == 0) {
        assert_in_range(message.type, JOIN_JOIN, JOIN_CONFIG);
        assert_true(message.sender != 0);
        assert_non_null(memchr(message.address, 0, sizeof message.address));
        assert_true(message.config >= copy + 1);
        assert_true(message.config_len <= (size_t)(copy + 1 + len - message.config));
    }
    free(copy);
    return result;
}

static int decode_of(const struct join_message *message)
{
    uint8_t frame[BUFFER_LEN];

    return decode_exact(frame, encode(message, frame));
}

/* A newcomer lives on with what it reads here: keys, ring size and configuration. */
static void each_message_reads_back_as_written(void **state)
{
    uint8_t frame[BUFFER_LEN];
    struct join_message got;

    (void)state;
    for (int type = JOIN_JOIN; type <= JOIN_CONFIG; type++) {
        const struct join_message sent = make((enum join_type)type);
        const size_t len = encode(&sent, frame);
        assert_true(join_is(frame, len));
        assert_int_equal(join_decode(frame, len, &got), 0);
        assert_int_equal(got.type, type);
        assert_true(got.sender == sent.sender);
        assert_string_equal(got.address, sent.address);
        assert_memory_equal(got.cluster_id, sent.cluster_id, CONTROL_CLUSTER_ID_LEN);
        assert_memory_equal(got.identity.cluster_id, sent.cluster_id, CONTROL_CLUSTER_ID_LEN);
        assert_memory_equal(got.identity.secret.bytes, sent.identity.secret.bytes, HASH_KEY_LEN);
        assert_memory_equal(got.identity.route_key.bytes, sent.identity.route_key.bytes,
                            HASH_KEY_LEN);
        assert_int_equal(got.identity.vnodes, 4096);
        assert_int_equal(got.identity.replicas, 3);
        assert_int_equal(got.config_len, sizeof config);
        assert_memory_equal(got.config, config, sizeof config);
        assert_string_equal(got.region, "eu-west");
        assert_in_range((uintptr_t)got.config, (uintptr_t)frame, (uintptr_t)frame + len);
    }
}

/* Two adjacent releases run in one cluster: the older one's frames end before the region. */
static void a_frame_without_a_region_is_understood(void **state)
{
    uint8_t frame[BUFFER_LEN];
    struct join_message got;
    struct join_message sent = make(JOIN_CONFIG);

    (void)state;
    sent.region[0] = '\0';
    const size_t len = encode(&sent, frame);
    assert_int_equal(frame[len - 1], 0xa0); /* an empty text */
    frame[1]--;
    assert_int_equal(join_decode(frame, len - 1, &got), 0);
    assert_int_equal(got.config_len, sizeof config);
    assert_string_equal(got.region, "");
}

/* A newcomer has no cluster, ring or configuration to tell of yet. */
static void a_join_of_a_node_without_a_cluster_is_understood(void **state)
{
    uint8_t frame[BUFFER_LEN];
    struct join_message got;
    const struct join_message sent = {.type = JOIN_JOIN, .sender = 1};

    (void)state;
    assert_int_equal(join_decode(frame, encode(&sent, frame), &got), 0);
    assert_int_equal(got.type, JOIN_JOIN);
    assert_int_equal(got.config_len, 0);
    assert_int_equal(got.identity.vnodes, 0);
    assert_string_equal(got.address, "");
}

/* The mark tells these frames from SWIM's, which come to the same socket. */
static void a_frame_without_the_mark_is_none_of_these(void **state)
{
    uint8_t frame[BUFFER_LEN];
    const struct join_message message = make(JOIN_FETCH);
    const size_t len = encode(&message, frame);

    (void)state;
    assert_false(join_is(frame, 0));
    for (unsigned mark = 0; mark < 256; mark++) {
        frame[0] = (uint8_t)mark;
        assert_int_equal(join_is(frame, len), mark == JOIN_MARK);
        assert_int_equal(decode_exact(frame, len), mark == JOIN_MARK ? 0 : TG_EPROTOCOL);
    }
}

/* A member of another version is named as such, so that an operator learns the cause. */
static void another_version_is_named(void **state)
{
    uint8_t frame[BUFFER_LEN];
    const struct join_message message = make(JOIN_FETCH);
    const size_t len = encode(&message, frame);

    (void)state;
    assert_int_equal(frame[2], JOIN_VERSION); /* after the mark and the array's head */
    frame[2] = JOIN_VERSION + 1;
    assert_int_equal(decode_exact(frame, len), TG_EVERSION);
    frame[2] = 0;
    assert_int_equal(decode_exact(frame, len), TG_EVERSION);
}

/* A type that this node does not know must not be acted upon as if it were another. */
static void an_unknown_type_or_nobody_as_sender_is_refused(void **state)
{
    struct join_message message = make((enum join_type)0);

    (void)state;
    assert_int_equal(decode_of(&message), TG_EPROTOCOL);
    message.type = (enum join_type)(JOIN_CONFIG + 1);
    assert_int_equal(decode_of(&message), TG_EPROTOCOL);
    message.type = JOIN_CONFIG;
    assert_int_equal(decode_of(&message), 0);
    message.sender = 0;
    assert_int_equal(decode_of(&message), TG_EPROTOCOL);
}

/* Half a configuration would be worse than none. */
static void every_prefix_of_every_message_is_refused(void **state)
{
    uint8_t frame[BUFFER_LEN];

    (void)state;
    for (int type = JOIN_JOIN; type <= JOIN_CONFIG; type++) {
        const struct join_message message = make((enum join_type)type);
        const size_t len = encode(&message, frame);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(decode_exact(frame, cut), TG_EPROTOCOL);
        frame[len] = 0; /* nor may bytes follow */
        assert_int_equal(decode_exact(frame, len + 1), TG_EPROTOCOL);
    }
}

/* Whoever is admitted makes a ring of these numbers, so only possible ones pass. */
static void an_admission_to_an_impossible_ring_is_refused(void **state)
{
    static const uint32_t vnodes[] = {
        0, 1, RING_VNODES_MIN / 2, RING_VNODES_MIN + 1, 4095, RING_VNODES_MAX * 2, UINT32_MAX};
    static const uint32_t replicas[] = {0, VIEW_REPLICATION_MAX + 1, UINT32_MAX};
    struct join_message message;

    (void)state;
    for (size_t i = 0; i < sizeof vnodes / sizeof *vnodes; i++) {
        message = make(JOIN_ADMIT);
        message.identity.vnodes = vnodes[i];
        assert_int_equal(decode_of(&message), TG_EPROTOCOL);
        message.type = JOIN_FETCH; /* in which the number means nothing */
        assert_int_equal(decode_of(&message), 0);
    }
    for (size_t i = 0; i < sizeof replicas / sizeof *replicas; i++) {
        message = make(JOIN_ADMIT);
        message.identity.replicas = replicas[i];
        assert_int_equal(decode_of(&message), TG_EPROTOCOL);
    }
    for (uint32_t good = 1; good <= VIEW_REPLICATION_MAX; good++) {
        message = make(JOIN_ADMIT);
        message.identity.replicas = good;
        message.identity.vnodes = good == 1 ? RING_VNODES_MIN : RING_VNODES_MAX;
        assert_int_equal(decode_of(&message), 0);
    }
}

/* Writes a message whose cluster id, key or address has another length; what is said to it. */
static int decode_with_lens(size_t fields, size_t id_len, size_t address_len, size_t key_len)
{
    static const char bytes[VIEW_TEXT_LEN + 1] = {0};
    char address[VIEW_TEXT_LEN + 1];
    uint8_t frame[BUFFER_LEN] = {JOIN_MARK};
    struct mp_writer writer;

    memset(address, 'a', sizeof address);
    mp_writer_init(&writer, frame + 1, sizeof frame - 1);
    mp_put_array(&writer, fields);
    mp_put_uint(&writer, JOIN_VERSION);
    mp_put_uint(&writer, JOIN_FETCH);
    mp_put_bin(&writer, bytes, id_len);
    mp_put_uint(&writer, 1);
    mp_put_strn(&writer, address, address_len);
    mp_put_bin(&writer, bytes, key_len);
    mp_put_bin(&writer, bytes, HASH_KEY_LEN);
    mp_put_uint(&writer, 16);
    mp_put_uint(&writer, 1);
    if (fields >= 10)
        mp_put_bin(&writer, bytes, 0);
    for (size_t i = 10; i < fields; i++)
        mp_put_nil(&writer);
    assert_false(writer.failed);
    return decode_exact(frame, writer.len + 1);
}

/* Fields are copied into arrays of fixed size: another length must neither overrun nor pass. */
static void a_field_of_another_length_is_refused(void **state)
{
    enum { ID = CONTROL_CLUSTER_ID_LEN, KEY = HASH_KEY_LEN, ADDRESS_MAX = VIEW_TEXT_LEN - 1 };

    (void)state;
    assert_int_equal(decode_with_lens(10, ID, ADDRESS_MAX, KEY), 0);
    assert_int_equal(decode_with_lens(12, ID, 5, KEY), 0); /* fields added later */
    assert_int_equal(decode_with_lens(9, ID, 5, KEY), TG_EPROTOCOL);
    assert_int_equal(decode_with_lens(10, ID - 1, 5, KEY), TG_EPROTOCOL);
    assert_int_equal(decode_with_lens(10, ID + 1, 5, KEY), TG_EPROTOCOL);
    assert_int_equal(decode_with_lens(10, ID, ADDRESS_MAX + 1, KEY), TG_EPROTOCOL);
    assert_int_equal(decode_with_lens(10, ID, 5, KEY - 1), TG_EPROTOCOL);
    assert_int_equal(decode_with_lens(10, ID, 5, KEY + 1), TG_EPROTOCOL);
}

/* A message that does not fit is an error, and no byte goes beyond the buffer. */
static void a_message_that_does_not_fit_is_refused_by_the_writer(void **state)
{
    uint8_t frame[BUFFER_LEN];
    const struct join_message message = make(JOIN_ADMIT);
    const size_t len = encode(&message, frame);

    (void)state;
    for (size_t capacity = 0; capacity < len; capacity++) {
        memset(frame, 0xee, sizeof frame);
        assert_int_equal(join_encode(&message, frame, capacity), TG_ETOOBIG);
        assert_int_equal(frame[capacity], 0xee);
    }
    assert_int_equal(join_encode(&message, frame, len), len);
}

/* The largest configuration fits into a frame of the largest size, and nothing larger is read. */
static void the_largest_configuration_fits_the_largest_frame(void **state)
{
    static uint8_t largest[JOIN_FRAME_MAX];
    static uint8_t frame[JOIN_FRAME_MAX + 1];
    struct join_message message = make(JOIN_ADMIT);
    struct join_message got;

    (void)state;
    memset(message.address, 'a', sizeof message.address - 1);
    message.config = largest;
    message.config_len = CONTROL_CONFIG_LEN_MAX;
    int len = join_encode(&message, frame, JOIN_FRAME_MAX);
    assert_true(len > CONTROL_CONFIG_LEN_MAX);
    assert_int_equal(join_decode(frame, (size_t)len, &got), 0);
    assert_int_equal(got.config_len, CONTROL_CONFIG_LEN_MAX);
    message.config_len += (size_t)(JOIN_FRAME_MAX - len);
    assert_int_equal(join_encode(&message, frame, sizeof frame), JOIN_FRAME_MAX);
    assert_int_equal(join_decode(frame, JOIN_FRAME_MAX, &got), 0);
    message.config_len++;
    len = join_encode(&message, frame, sizeof frame);
    assert_int_equal(len, JOIN_FRAME_MAX + 1);
    assert_int_equal(join_decode(frame, (size_t)len, &got), TG_EPROTOCOL);
}

/* Before it has a cluster a node hears anybody: nothing that comes may lead outside the frame. */
static void hostile_bytes_never_lead_outside(void **state)
{
    enum { FRAMES = 20000 };
    uint8_t frame[BUFFER_LEN];
    struct random random;
    uint32_t accepted = 0;

    (void)state;
    random_init(&random, 44);
    for (int i = 0; i < FRAMES; i++) {
        const struct join_message message = make((enum join_type)(1 + random_below(&random, 4)));
        size_t len = encode(&message, frame);
        if (random_below(&random, 8) == 0)
            for (size_t at = 1; at < len; at++)
                frame[at] = (uint8_t)random_next(&random);
        if (random_below(&random, 8) == 0)
            len = random_below(&random, len);
        for (uint64_t n = random_below(&random, 4); n > 0 && len > 1; n--)
            frame[1 + random_below(&random, len - 1)] =
                (uint8_t)(random_below(&random, 2) == 0 ? random_next(&random) : 0xff);
        accepted += decode_exact(frame, len) == 0;
    }
    assert_in_range(accepted, FRAMES / 10, FRAMES * 9 / 10); /* both ways were taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_reads_back_as_written),
        cmocka_unit_test(a_frame_without_a_region_is_understood),
        cmocka_unit_test(a_join_of_a_node_without_a_cluster_is_understood),
        cmocka_unit_test(a_frame_without_the_mark_is_none_of_these),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(an_unknown_type_or_nobody_as_sender_is_refused),
        cmocka_unit_test(every_prefix_of_every_message_is_refused),
        cmocka_unit_test(an_admission_to_an_impossible_ring_is_refused),
        cmocka_unit_test(a_field_of_another_length_is_refused),
        cmocka_unit_test(a_message_that_does_not_fit_is_refused_by_the_writer),
        cmocka_unit_test(the_largest_configuration_fits_the_largest_frame),
        cmocka_unit_test(hostile_bytes_never_lead_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

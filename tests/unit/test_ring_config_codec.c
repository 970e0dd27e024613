/* test_ring_config_codec.c - configurations survive msgpack; hostile bytes do not get in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "ring/config.h"

static struct ring_config config;
static struct ring_config other;
static struct ring_config decoded;
static struct mp_token tokens[RING_CONFIG_TOKENS_MAX];
static uint8_t bytes[RING_CONFIG_BYTES_MAX];
static uint8_t hostile[RING_CONFIG_BYTES_MAX];

/* `count` members with names, zones and weights, the last one still joining. */
static void make_config(uint64_t seed, uint32_t count)
{
    struct random random;
    struct ring_member member;

    random_init(&random, seed);
    for (uint32_t i = 0; i < count; i++) {
        char name[RING_NAME_LEN];
        (void)snprintf(name, sizeof name, "node-%u", (unsigned)i);
        assert_int_equal(ring_member_init(&member, random_next(&random) | 1U, name,
                                          i % 2 ? "east" : "west",
                                          1 + (uint32_t)random_below(&random, RING_WEIGHT_MAX)),
                         0);
        if (i == 0) {
            assert_int_equal(ring_config_init(&config, &member, 4096, 3), 0);
            continue;
        }
        assert_int_equal(ring_config_add(&other, &config, &member), 0);
        if (i + 1 < count) {
            assert_int_equal(ring_config_settle(&config, &other), 0);
        } else {
            ring_config_copy(&config, &other);
        }
    }
}

static int decode(const void *data, int len)
{
    return ring_config_decode(&decoded, data, (size_t)len, tokens, RING_CONFIG_TOKENS_MAX);
}

/* Stable and in transition, small and large: what comes back is equal, and so are its bytes. */
static void configurations_survive_a_round_trip(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 10, 60};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        make_config(i + 1, counts[i]);
        const int len = ring_config_encode(&config, bytes, sizeof bytes);
        assert_true(len > 0);
        assert_int_equal(decode(bytes, len), 0);
        assert_true(ring_config_equal(&config, &decoded));
        assert_int_equal(ring_config_validate(&decoded, NULL), 0);
        assert_int_equal(ring_config_encode(&decoded, hostile, sizeof hostile), len);
        assert_memory_equal(bytes, hostile, (size_t)len);
    }
}

/* The largest configuration there can be fits the bounds that the header names. */
static void the_largest_configuration_fits_its_bounds(void **state)
{
    (void)state;
    make_config(1, 1);
    for (uint32_t i = 0; i < RING_MEMBERS_MAX; i++) {
        struct ring_member *member = &config.to[i];
        char name[RING_NAME_LEN];
        memset(name, 'n', sizeof name);
        (void)snprintf(name, 5, "%04u", (unsigned)i);
        name[4] = 'n';
        name[RING_NAME_LEN - 1] = '\0';
        assert_int_equal(ring_member_init(member, UINT64_MAX - RING_MEMBERS_MAX + i, name, name,
                                          i < 200 ? RING_WEIGHT_MAX : 100),
                         0);
        const uint32_t seats = ring_seats_of_weight(member->weight);
        const uint32_t first = i < 200 ? i * seats + 1 : 4000 + (i - 200) * seats + 1;
        member->seats_count = (uint16_t)seats;
        for (uint32_t k = 0; k < seats; k++) {
            member->seats[k] = (uint16_t)(first + k);
        }
        config.from[i] = *member;
    }
    config.from[0].weight = RING_WEIGHT_MAX - 1;
    config.from_count = config.to_count = RING_MEMBERS_MAX;
    config.voters[0] = config.to[0].id;
    config.epoch = UINT64_MAX;
    char sentence[RING_SENTENCE_LEN] = "";
    assert_int_equal(ring_config_validate(&config, sentence), 0);
    const int len = ring_config_encode(&config, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(decode(bytes, len), 0);
    assert_true(ring_config_equal(&config, &decoded));
}

/* Too small a buffer is an error at every length, never a write past it. */
static void a_small_buffer_is_refused(void **state)
{
    (void)state;
    make_config(7, 3);
    const int len = ring_config_encode(&config, bytes, sizeof bytes);
    for (int capacity = 0; capacity < len; capacity++) {
        hostile[capacity] = 0xa5;
        assert_int_equal(ring_config_encode(&config, hostile, (size_t)capacity), TG_ETOOBIG);
        assert_int_equal(hostile[capacity], 0xa5);
    }
}

/* Cut anywhere, or with a byte too many, it is refused. */
static void truncated_and_overlong_bytes_are_refused(void **state)
{
    (void)state;
    make_config(8, 4);
    const int len = ring_config_encode(&config, bytes, sizeof bytes);
    for (int cut = 0; cut < len; cut++) {
        assert_true(decode(bytes, cut) < 0);
    }
    bytes[len] = 0xc0;
    assert_true(decode(bytes, len + 1) < 0);
}

/* Random damage either is refused or leaves a configuration that keeps every rule. */
static void damaged_bytes_never_break_a_rule(void **state)
{
    struct random random;
    uint32_t refused = 0;

    (void)state;
    random_init(&random, 9);
    make_config(9, 6);
    const int len = ring_config_encode(&config, bytes, sizeof bytes);
    for (uint32_t round = 0; round < 20000; round++) {
        memcpy(hostile, bytes, (size_t)len);
        for (uint64_t hits = 1 + random_below(&random, 3); hits > 0; hits--) {
            hostile[random_below(&random, (uint64_t)len)] = (uint8_t)random_next(&random);
        }
        if (decode(hostile, len) < 0) {
            refused++;
        } else {
            assert_int_equal(ring_config_validate(&decoded, NULL), 0);
        }
    }
    assert_true(refused > 5000);
}

/* Bytes that are no configuration at all, declared counts of billions among them. */
static void foreign_bytes_are_refused(void **state)
{
    static const uint8_t huge_array[] = {0xdd, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t huge_voters[] = {0x97, 0x01, 0x01, 0xcd, 0x10, 0x00,
                                          0x03, 0xdd, 0xff, 0xff, 0xff, 0xff};
    struct random random;

    (void)state;
    random_init(&random, 10);
    assert_true(decode("", 0) < 0);
    assert_true(decode(huge_array, sizeof huge_array) < 0);
    assert_true(decode(huge_voters, sizeof huge_voters) < 0);
    for (uint32_t round = 0; round < 20000; round++) {
        const int len = (int)random_below(&random, 100);
        for (int i = 0; i < len; i++) {
            hostile[i] = (uint8_t)random_next(&random);
        }
        hostile[0] = 0x97;
        assert_true(decode(hostile, len) < 0);
    }
}

static int write_config(uint64_t version, uint64_t vnodes, uint64_t replicas, uint64_t weight,
                        uint64_t id, int spell_out)
{
    struct mp_writer writer;

    mp_writer_init(&writer, hostile, sizeof hostile);
    mp_put_array(&writer, 7);
    mp_put_uint(&writer, version);
    mp_put_uint(&writer, 1);
    mp_put_uint(&writer, vnodes);
    mp_put_uint(&writer, replicas);
    mp_put_array(&writer, 1);
    mp_put_uint(&writer, id);
    for (int side = 0; side < (spell_out ? 2 : 1); side++) {
        mp_put_array(&writer, 1);
        mp_put_array(&writer, 5);
        mp_put_uint(&writer, id);
        mp_put_uint(&writer, weight);
        mp_put_array(&writer, 0);
        mp_put_str(&writer, "n");
        mp_put_str(&writer, "");
    }
    if (!spell_out) {
        mp_put_nil(&writer);
    }
    assert_false(writer.failed);
    return (int)writer.len;
}

/* Well-formed msgpack that breaks one rule: refused, and a newer version says so. */
static void well_formed_but_wrong_values_are_refused(void **state)
{
    (void)state;
    assert_int_equal(decode(hostile, write_config(1, 4096, 3, 100, 7, 0)), 0);
    assert_int_equal(decode(hostile, write_config(2, 4096, 3, 100, 7, 0)), TG_EVERSION);
    assert_int_equal(decode(hostile, write_config(1, 4097, 3, 100, 7, 0)), TG_EPROTOCOL);
    assert_int_equal(decode(hostile, write_config(1, 4096 + (1ULL << 32), 3, 100, 7, 0)),
                     TG_EPROTOCOL);
    assert_int_equal(decode(hostile, write_config(1, 4096, 0, 100, 7, 0)), TG_EPROTOCOL);
    assert_int_equal(decode(hostile, write_config(1, 4096, 3, 1001, 7, 0)), TG_EPROTOCOL);
    assert_int_equal(decode(hostile, write_config(1, 4096, 3, 0, 7, 0)), TG_EPROTOCOL);
    assert_int_equal(decode(hostile, write_config(1, 4096, 3, 100, 0, 0)), TG_EPROTOCOL);
    assert_int_equal(decode(hostile, write_config(1, 4096, 3, 100, 7, 1)), TG_EPROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_survive_a_round_trip),
        cmocka_unit_test(the_largest_configuration_fits_its_bounds),
        cmocka_unit_test(a_small_buffer_is_refused),
        cmocka_unit_test(truncated_and_overlong_bytes_are_refused),
        cmocka_unit_test(damaged_bytes_never_break_a_rule),
        cmocka_unit_test(foreign_bytes_are_refused),
        cmocka_unit_test(well_formed_but_wrong_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_identity.c - what is counted has one name, and every implementation agrees on its vnode. */
#include "client/protocol/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/unit/support_vectors.h"

/* The vnodes of the vectors were computed by another implementation of SipHash. */
static void vnodes_are_those_of_the_vectors(void **state)
{
    struct vector *vectors;
    const size_t count = vectors_read(&vectors);
    size_t seen = 0;

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct identity identity;
        struct hash_key key;

        if (vectors[i].vnodes == 0)
            continue;
        memcpy(key.bytes, vectors[i].route_key, sizeof key.bytes);
        memcpy(identity.bytes, vectors[i].frame, vectors[i].len);
        identity.len = vectors[i].len;
        assert_int_equal(identity_vnode(&key, &identity, (uint32_t)vectors[i].vnodes),
                         vectors[i].vnode);
        seen++;
    }
    assert_true(seen >= 4);
    free(vectors);
}

/* The bytes are spelled out once by hand. */
static void the_bytes_are_tag_lengths_and_parts(void **state)
{
    static const uint8_t rule[] = "r\x03\x00"
                                  "all\x02\x01\x00x\x00\x00";
    const struct identity_value values[] = {{"x", 1}, {NULL, 0}};
    struct identity identity;

    (void)state;
    assert_int_equal(identity_inline(&identity, "ab", 2), 0);
    assert_int_equal(identity.len, 5);
    assert_memory_equal(identity.bytes,
                        "k\x02\x00"
                        "ab",
                        5);
    assert_int_equal(identity_rule(&identity, "all", 3, values, 2), 0);
    assert_int_equal(identity.len, sizeof rule - 1);
    assert_memory_equal(identity.bytes, rule, sizeof rule - 1);
}

/* Moving a byte from one part to its neighbour must change the identity. */
static void different_splits_of_the_same_bytes_differ(void **state)
{
    const struct identity_value left[] = {{"ab", 2}, {"c", 1}};
    const struct identity_value right[] = {{"a", 1}, {"bc", 2}};
    struct identity a;
    struct identity b;

    (void)state;
    assert_int_equal(identity_rule(&a, "rule", 4, left, 2), 0);
    assert_int_equal(identity_rule(&b, "rule", 4, right, 2), 0);
    assert_int_equal(a.len, b.len);
    assert_memory_not_equal(a.bytes, b.bytes, a.len);
    assert_int_equal(identity_rule(&b, "rul", 3, left, 2), 0);
    assert_int_not_equal(a.len, b.len);
}

/* Parts at their bound are taken, one byte more is refused. */
static void parts_over_their_bound_are_refused(void **state)
{
    static char big[IDENTITY_KEY_MAX + 1];
    struct identity_value values[IDENTITY_VALUES_MAX + 1];
    struct identity *identity = malloc(sizeof *identity);

    (void)state;
    assert_non_null(identity);
    for (size_t i = 0; i <= IDENTITY_VALUES_MAX; i++)
        values[i] = (struct identity_value){big, IDENTITY_VALUE_MAX};
    assert_int_equal(identity_inline(identity, big, IDENTITY_KEY_MAX), 0);
    assert_int_equal(identity_inline(identity, big, IDENTITY_KEY_MAX + 1), TG_ETOOBIG);
    assert_int_equal(identity_rule(identity, big, IDENTITY_NAME_MAX, values, IDENTITY_VALUES_MAX),
                     0);
    assert_int_equal(identity->len, IDENTITY_LEN_MAX);
    (void)identity_slot(&(struct hash_key){{0}}, identity, 1, 2); /* ASan: the spare bytes */
    assert_int_equal(identity_rule(identity, big, IDENTITY_NAME_MAX + 1, values, 1), TG_ETOOBIG);
    assert_int_equal(identity_rule(identity, "r", 1, values, IDENTITY_VALUES_MAX + 1), TG_ETOOBIG);
    values[1].len++;
    assert_int_equal(identity_rule(identity, "r", 1, values, 2), TG_ETOOBIG);
    free(identity);
}

/* The slot is the hash of the bytes with algorithm and ordinal behind, computed the plain way. */
static void slots_differ_by_algorithm_and_ordinal_but_vnodes_do_not(void **state)
{
    const struct hash_key secret = {{1, 2, 3}};
    const struct hash_key route_key = {{9}};
    struct identity identity;
    uint8_t plain[64];
    uint32_t vnode;

    (void)state;
    assert_int_equal(identity_inline(&identity, "key", 3), 0);
    vnode = identity_vnode(&route_key, &identity, 4096);
    memcpy(plain, identity.bytes, identity.len);
    for (uint8_t algorithm = 0; algorithm < 4; algorithm++) {
        for (uint8_t ordinal = 0; ordinal < 3; ordinal++) {
            plain[identity.len] = algorithm;
            plain[identity.len + 1] = ordinal;
            assert_true(hash128_equal(identity_slot(&secret, &identity, algorithm, ordinal),
                                      hash128(&secret, plain, identity.len + 2)));
            assert_int_equal(identity_vnode(&route_key, &identity, 4096), vnode);
        }
    }
    assert_int_equal(identity.len, 6);
}

/* The vnode is the hash's top bits, for every power of two. */
static void the_vnode_is_the_top_bits_of_the_hash(void **state)
{
    const struct hash_key key = {{7}};
    struct random random;
    struct identity identity;

    (void)state;
    random_init(&random, 1);
    for (int i = 0; i < 200; i++) {
        const uint64_t value = random_next(&random);
        uint64_t hash;

        assert_int_equal(identity_inline(&identity, &value, sizeof value), 0);
        hash = hash64(&key, identity.bytes, identity.len);
        assert_int_equal(identity_vnode(&key, &identity, 1), 0);
        for (uint32_t bits = 1; bits <= 16; bits++)
            assert_int_equal(identity_vnode(&key, &identity, 1u << bits), hash >> (64 - bits));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vnodes_are_those_of_the_vectors),
        cmocka_unit_test(the_bytes_are_tag_lengths_and_parts),
        cmocka_unit_test(different_splits_of_the_same_bytes_differ),
        cmocka_unit_test(parts_over_their_bound_are_refused),
        cmocka_unit_test(slots_differ_by_algorithm_and_ordinal_but_vnodes_do_not),
        cmocka_unit_test(the_vnode_is_the_top_bits_of_the_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

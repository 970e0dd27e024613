/* test_hash.c - keyed hashes against the published SipHash-2-4 vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

/* The key and the messages of the reference implementation: bytes counting up from 0. */
static struct hash_key counting_key(void)
{
    struct hash_key key;
    for (uint8_t i = 0; i < HASH_KEY_LEN; i++)
        key.bytes[i] = i;
    return key;
}

static const uint8_t message[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};

/* The 64-bit hash is SipHash-2-4 read little-endian, on whatever machine this runs. */
static void hash64_matches_the_published_vectors(void **state)
{
    const struct hash_key key = counting_key();

    (void)state;
    assert_true(hash64(&key, NULL, 0) == 0x726fdb47dd0e0e31ULL);
    assert_true(hash64(&key, message, 1) == 0x74f839c593dc67fdULL);
    assert_true(hash64(&key, message, 8) == 0x93f5f5799a932462ULL);
    assert_true(hash64(&key, message, 15) == 0xa129ca6149be45e5ULL);
}

/* The 128-bit hash too: first digest byte is the lowest of lo. */
static void hash128_matches_the_published_vectors(void **state)
{
    const struct hash_key key = counting_key();
    const struct hash128 empty = hash128(&key, NULL, 0);
    const struct hash128 one = hash128(&key, message, 1);

    (void)state;
    /* a3817f04ba25a8e6 6df67214c7550293 and da87c1d86b99af44 347659119b22fc45 */
    assert_true(empty.lo == 0xe6a825ba047f81a3ULL && empty.hi == 0x930255c71472f66dULL);
    assert_true(one.lo == 0x44af996bd8c187daULL && one.hi == 0x45fc229b11597634ULL);
}

/* Who has another key sees unrelated hashes: each bit of the key matters. */
static void every_bit_of_the_key_changes_the_hash(void **state)
{
    const struct hash_key key = counting_key();
    const uint64_t plain = hash64(&key, message, 20);
    const struct hash128 plain128 = hash128(&key, message, 20);

    (void)state;
    for (int bit = 0; bit < HASH_KEY_LEN * 8; bit++) {
        struct hash_key other = key;
        other.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(hash64(&other, message, 20) != plain);
        assert_false(hash128_equal(hash128(&other, message, 20), plain128));
    }
}

/* Equality looks at both halves. */
static void hashes_are_equal_only_in_both_halves(void **state)
{
    (void)state;
    assert_true(hash128_equal((struct hash128){1, 2}, (struct hash128){1, 2}));
    assert_false(hash128_equal((struct hash128){1, 2}, (struct hash128){1, 3}));
    assert_false(hash128_equal((struct hash128){1, 2}, (struct hash128){0, 2}));
}

/* Neighbouring integers land far apart: about half of the bits differ on average. */
static void mixing_spreads_neighbours(void **state)
{
    int differing = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        differing += __builtin_popcountll(hash_mix64(i) ^ hash_mix64(i + 1));
    assert_in_range(differing, 31000, 33000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash64_matches_the_published_vectors),
        cmocka_unit_test(hash128_matches_the_published_vectors),
        cmocka_unit_test(every_bit_of_the_key_changes_the_hash),
        cmocka_unit_test(hashes_are_equal_only_in_both_halves),
        cmocka_unit_test(mixing_spreads_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

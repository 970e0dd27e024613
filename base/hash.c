/* hash.c - SipHash-2-4 with 64 and 128 bits of output, from libsodium.
 *
 *   digest   b0 b1 .. b7 | b8 .. b15
 *            lo (LE)     | hi (LE)
 *
 * HASH-1  Equal key and bytes give an equal number on machines of either byte order, because the
 *         digest is a byte string and is read little-endian.
 * HASH-2  The 64-bit hash is not the low half of the 128-bit one: SipHash separates the two.
 *
 * Pure and thread-safe; libsodium needs no initialisation for these two functions.
 */
#include "base/hash.h"

#include <assert.h>
#include <endian.h>
#include <sodium.h>
#include <string.h>

static_assert(HASH_KEY_LEN == crypto_shorthash_KEYBYTES, "SipHash takes a 128-bit key");
static_assert(HASH_KEY_LEN == crypto_shorthash_siphashx24_KEYBYTES, "both take the same key");
static_assert(crypto_shorthash_BYTES == 8, "hash64 reads one 64-bit word");
static_assert(crypto_shorthash_siphashx24_BYTES == 16, "hash128 reads two 64-bit words");

/* Digests are words in little-endian order, whatever the machine. */
static uint64_t word_at(const uint8_t *digest, size_t index)
{
    uint64_t word;

    memcpy(&word, digest + index * sizeof word, sizeof word);
    return le64toh(word);
}

uint64_t hash64(const struct hash_key *key, const void *data, size_t len)
{
    uint8_t digest[crypto_shorthash_BYTES];

    (void)crypto_shorthash(digest, data, len, key->bytes); /* it has no failure */
    return word_at(digest, 0);
}

struct hash128 hash128(const struct hash_key *key, const void *data, size_t len)
{
    uint8_t digest[crypto_shorthash_siphashx24_BYTES];

    (void)crypto_shorthash_siphashx24(digest, data, len, key->bytes);
    return (struct hash128){.lo = word_at(digest, 0), .hi = word_at(digest, 1)};
}

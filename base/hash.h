/* hash.h - keyed hashes (SipHash-2-4 of libsodium), 64 and 128 bits.
 *
 * Who does not know the key can neither predict nor choose a hash, so no caller can
 * pile keys onto one vnode or one slot. The result is the same on every machine:
 * it is read little-endian from the digest.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_KEY_LEN = 16 };

struct hash_key {
    uint8_t bytes[HASH_KEY_LEN];
};

struct hash128 {
    uint64_t lo;
    uint64_t hi;
};

uint64_t hash64(const struct hash_key *key, const void *data, size_t len);
struct hash128 hash128(const struct hash_key *key, const void *data, size_t len);

static inline int hash128_equal(struct hash128 a, struct hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* Mixes one integer into a well-distributed one (splitmix64's finaliser); not keyed. */
static inline uint64_t hash_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

#endif

/* buckets.h - where a key's slot lies: an open hash table of buckets that grows in place.
 *
 *   head     | tag 0 .. 14 | over |           16 bytes, in an array of their own
 *   bucket   | slot 0 .. slot 14  |           480 bytes, in the table's region
 *
 * A slot lies in the bucket that its id's hash is scaled to, its home, or if that was full in one
 * of the next; a tag is eight bits of the hash, 0 where the place is free; `over` counts the slots
 * whose home is here or before, and that lie behind. So a key is found, or known to be absent, with
 * one look at a head and mostly one at a slot; heads are a thirtieth of the slots, and stay in the
 * processor's caches where an index of numbers would not.
 *
 * Homes are in the order of hashes, need not be a power of two, and probing never wraps: a pad
 * follows. That allows the array to grow in place by a sixteenth, some buckets with each key that
 * is added, from its end downwards, so that no key waits for a rebuild and memory is touched only
 * as keys come:
 *
 *   | old homes (size)   | frontier | new homes (size_next)        | pad |
 *   ids whose old home is below the frontier live by `size`, the others by `size_next`.
 *
 * BUCKETS-1  A slot with home h in bucket b is counted in `over` of each of h .. b - 1, in no
 *            other.
 * BUCKETS-2  Each slot's home is as the rule above says; frontier 0 = not growing, all by `size`.
 * BUCKETS-3  A slot moves only when a key is added, and only upwards: who walks from 0 up to the
 *            end, asked anew each time, meets each slot that was there when he began.
 * BUCKETS-4  A place whose tag is 0 is all zero.
 * BUCKETS-5  A new slot lies near its home, or is not taken; so there is room for all that is
 *            moved: of the slots whose old home is h or above, size - h + BUCKETS_NEAR buckets full
 *            at most, the new homes and the pad hold more.
 * BUCKETS-6  `used` is how many places are taken. It grows while `size_next` is above `size`, and
 *            then alone there is a frontier, up to `size`.
 *
 * The hash of an id names its slot for those who come back later (a slot's ref). It has a seed:
 * keys that come in the order of another table's slots, as they are copied from node to node, would
 * all be at home in the few buckets there are at first, had both the same one. The table's thread.
 * Must not: look at what a slot says beyond its id.
 */
#ifndef NODE_LIMIT_TABLE_BUCKETS_H
#define NODE_LIMIT_TABLE_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

struct slot; /* table_private.h */

enum {
    BUCKET_SLOTS = 15,
    BUCKETS_PAD = 256,  /* behind the array */
    BUCKETS_NEAR = 128, /* so far behind its home a new slot may lie */
    BUCKETS_MIN = 64,
    BUCKETS_LOAD_PERCENT = 89,
    BUCKETS_GROWTH = 16,     /* it grows by one in so many */
    BUCKETS_GROWTH_MIN = 64, /* or, where memory ends, by no less than one in so many */
    BUCKETS_HASTE = 4, /* so many times as fast as need be: what has not moved fills up meanwhile */
    BUCKETS_OVER_MAX = UINT8_MAX,
    BUCKETS_GUESSED = 3, /* buckets that a guess reads the heads of; nearly all slots lie in them */
};

struct bucket_head {
    _Alignas(16) uint8_t tag[BUCKET_SLOTS];
    uint8_t over; /* BUCKETS_OVER_MAX: so many or more, for ever */
};

_Static_assert(sizeof(struct bucket_head) == 16, "a head is compared as one");

struct buckets {
    struct slot *slots;
    struct bucket_head *heads;
    uint32_t size;
    uint32_t size_next;
    uint32_t frontier;
    uint32_t step; /* buckets moved by each addition while growing */
    uint32_t used; /* places taken */
    uint64_t seed;
};

/* Over zeroed memory for BUCKETS_MIN + BUCKETS_PAD buckets and more, and one head beyond. */
void buckets_init(struct buckets *buckets, struct slot *slots, struct bucket_head *heads);
/* Whether one more slot would be more than the load allows. */
bool buckets_full(const struct buckets *buckets);
/* Begins to grow, up to `size_max`; more growing is then done by buckets_add. False if it grows
 * already, or there is too little to gain. */
bool buckets_grow(struct buckets *buckets, uint32_t size_max);
/* How many buckets behind its home a new slot of that hash would lie, or `most` if more. */
uint32_t buckets_way(const struct buckets *buckets, uint64_t hash, uint32_t most);
/* Takes a place for an id that is not there, after moving others. Its number; UINT32_MAX if none is
 * near. The slot is all zero, and to be given the id at once. */
uint32_t buckets_add(struct buckets *buckets, struct hash128 id);
/* Frees a place, and clears its slot, which still has its id. */
void buckets_remove(struct buckets *buckets, uint32_t number);
/* Asserts BUCKETS-1, BUCKETS-2, BUCKETS-4 and BUCKETS-6. O(slots). */
void buckets_check(const struct buckets *buckets);

/* Whether no place of a bucket is taken: all its slots are zero then (BUCKETS-4). */
static inline bool buckets_vacant(const struct buckets *buckets, uint32_t bucket)
{
    static const uint8_t none[BUCKET_SLOTS];
    return memcmp(buckets->heads[bucket].tag, none, sizeof none) == 0;
}

/* Places 0 .. end - 1 may be taken. */
static inline uint32_t buckets_end(const struct buckets *buckets)
{
    return (buckets->size_next + BUCKETS_PAD) * BUCKET_SLOTS;
}

/* The product of both halves, folded: ids are hashes, but those of tests need not be. */
static inline uint64_t bucket_hash(const struct buckets *buckets, struct hash128 id)
{
    const unsigned __int128 product =
        (unsigned __int128)(id.lo ^ buckets->seed) * (id.hi ^ UINT64_C(0xd1342543de82ef95));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t bucket_home(const struct buckets *buckets, uint64_t hash)
{
    const uint32_t home = (uint32_t)((unsigned __int128)hash * buckets->size >> 64);
    if (__builtin_expect(buckets->frontier != 0, 0) && home >= buckets->frontier)
        return (uint32_t)((unsigned __int128)hash * buckets->size_next >> 64);
    return home;
}

static inline uint8_t bucket_tag(uint64_t hash)
{
    const uint8_t tag = (uint8_t)hash;
    return (uint8_t)(tag + (tag == 0));
}

/* The place in its home where a slot of that hash lies, if it was free when it came: two of three
 * lie in that line of memory, which can be asked for before the head tells. */
static inline uint32_t bucket_first_choice(uint64_t hash, uint32_t home)
{
    return home * BUCKET_SLOTS + (uint32_t)((hash >> 8 & 0xff) * BUCKET_SLOTS >> 8);
}

/* The places of a bucket that have the tag, a bit each. */
uint32_t bucket_match_portably(const struct bucket_head *head, uint8_t tag);

#ifdef __SSE2__
#include <emmintrin.h>

static inline uint32_t bucket_match(const struct bucket_head *head, uint8_t tag)
{
    const __m128i tags = _mm_load_si128((const __m128i *)(const void *)head);
    const __m128i same = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));
    return (uint32_t)_mm_movemask_epi8(same) & ((1u << BUCKET_SLOTS) - 1);
}
#else
static inline uint32_t bucket_match(const struct bucket_head *head, uint8_t tag)
{
    return bucket_match_portably(head, tag);
}
#endif

/* The same as bucket_guess, where the home has no such tag. */
uint32_t bucket_guess_behind(const struct buckets *buckets, uint64_t hash, uint32_t home);

/* Where the slot of that hash most likely is, or would be if it were added now. */
static inline uint32_t bucket_guess(const struct buckets *buckets, uint64_t hash, uint32_t home)
{
    const uint32_t match = bucket_match(&buckets->heads[home], bucket_tag(hash));
    return match != 0 ? home * BUCKET_SLOTS + (uint32_t)__builtin_ctz(match)
                      : bucket_guess_behind(buckets, hash, home);
}

#endif

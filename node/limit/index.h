/* index.h - from an id to its slot: one array of 32-bit words, linear probing, no tombstones.
 *
 *   word   0, or | tag | slot + 1 |      the tag, some other bits of the id, spares most looks at
 * slots
 *
 * The home of an id is its hash scaled to the array's size, so the size need not be a power of two,
 * homes are in the order of hashes, and probing never wraps: a pad follows the array. That allows
 * the array to grow in place by an eighth, bit by bit, from its end downwards, so that no key ever
 * waits for a rebuild and memory is touched only as keys come:
 *
 *   | old homes (size)   | frontier | new homes (size_next)        | pad |
 *   ids whose old home is below the frontier live by `size`, the others by `size_next`.
 *
 * I1  For an entry at position p with home h: h <= p and no word in h .. p is 0.
 * I2  Each entry's home is as the rule above says; frontier 0 = not growing, all by `size`.
 *
 * The index reads ids through the table's slots; it belongs to the table's thread.
 */
#ifndef NODE_LIMIT_INDEX_H
#define NODE_LIMIT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct slot; /* table_private.h */

enum {
    INDEX_PAD = 8192, /* words after the array: longer runs do not occur at this load */
    INDEX_SIZE_MIN = 1024,
    INDEX_LOAD_PERCENT = 84,
    INDEX_MOVE_WORDS = 32, /* positions moved by each insertion while growing */
    INDEX_SCRATCH = 8192,
};

#define INDEX_NONE UINT32_MAX

struct index {
    const struct slot *slots;
    uint32_t *words; /* size_max + INDEX_PAD */
    uint32_t *scratch;
    uint32_t size;
    uint32_t size_next;
    uint32_t size_max;
    uint32_t frontier;
    uint32_t used;
    uint32_t slot_bits;
};

/* Over zeroed `words` and `scratch` (INDEX_SCRATCH words), for slot numbers below `slots_max`. */
void index_init(struct index *index, const struct slot *slots, uint32_t *words, uint32_t *scratch,
                uint32_t size_max, uint32_t slots_max);
/* Puts in an id that is not there. False if no word is near enough. */
bool index_insert(struct index *index, struct hash128 id, uint32_t slot);
/* Takes out an id that is there with this slot (whose id is still in the slot). */
void index_remove(struct index *index, struct hash128 id, uint32_t slot);
/* Asks memory for what index_remove of the id reads first; then, for the rest of it. */
void index_prefetch(const struct index *index, struct hash128 id);
void index_prefetch_run(const struct index *index, struct hash128 id);
/* Bytes of the array as it is now, pad and scratch apart. */
size_t index_bytes(const struct index *index);
void index_check(const struct index *index);

/* Fibonacci hashing: robust even if ids were not hashes. */
static inline uint64_t index_hash(struct hash128 id)
{
    return (id.lo ^ (id.hi << 32 | id.hi >> 32)) * 0x9e3779b97f4a7c15ULL;
}

static inline uint32_t index_home(const struct index *index, uint64_t hash)
{
    const uint32_t home = (uint32_t)((unsigned __int128)hash * index->size >> 64);
    if (__builtin_expect(index->frontier != 0, 0) && home >= index->frontier)
        return (uint32_t)((unsigned __int128)hash * index->size_next >> 64);
    return home;
}

/* The tag of a hash, in place above the slot bits. */
static inline uint32_t index_tag(const struct index *index, uint64_t hash)
{
    return (uint32_t)hash << index->slot_bits;
}

#endif

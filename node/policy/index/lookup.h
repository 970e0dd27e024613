/* lookup.h - a set of entries that is filled once and looked through by hash, with its own copies
 * of their texts: what blocks and API keys are made of.
 *
 *   slots    open addressing, at most half full: number of an entry + 1, 0 = free
 *   entries  of one size, in the order in which they were added, never moved
 *   bytes    the texts, each with a NUL behind it
 *
 * LOOKUP-1  Each entry that was added is filed once, and found by its hash; no slot names another.
 * LOOKUP-2  At most half of the slots are taken: every look ends at a free one.
 * LOOKUP-3  What was kept and added has room; behind the texts there is still a NUL.
 *
 * All memory is taken at the beginning; nothing is ever taken out. Reading needs no lock once the
 * last entry is in. Must not: know what an entry is, or allocate later.
 */
#ifndef NODE_POLICY_INDEX_LOOKUP_H
#define NODE_POLICY_INDEX_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/policy/model/policy.h"

struct lookup {
    const struct allocator *allocator;
    uint32_t *slots;
    uint32_t mask;
    char *bytes;
    size_t bytes_len;
    size_t bytes_used;
    char *entries;
    size_t entry_size;
    size_t count;
    size_t capacity;
};

/* Makes room for `count` entries and for texts of `bytes` in all, one more counted for each text.
 * Returns 0 or TG_ENOMEM; lookup_fini is due in both cases. */
MUST_USE int lookup_init(struct lookup *lookup, const struct allocator *allocator, size_t count,
                         size_t entry_size, size_t bytes);
void lookup_fini(struct lookup *lookup);

/* A copy of the text, which lives as long as the set. There must be room for it. */
struct policy_text lookup_keep(struct lookup *lookup, const char *text, size_t len);
/* A further entry, all zero; there must be room. It is not found before it is filed. */
void *lookup_add(struct lookup *lookup);
/* Files the entry that was added last under `hash`. */
void lookup_file(struct lookup *lookup, uint64_t hash);
/* Asserts LOOKUP-1 to LOOKUP-3 of a set that is filled; `hash_of` is an entry's. */
void lookup_check(const struct lookup *lookup, uint64_t (*hash_of)(const void *entry));

/* The entries that may be filed under `hash`, one after the other:
 *     for (at = lookup_home(l, hash); (entry = lookup_at(l, at)) != NULL; at = lookup_next(l, at))
 */
static inline uint32_t lookup_home(const struct lookup *lookup, uint64_t hash)
{
    return (uint32_t)hash & lookup->mask;
}

static inline uint32_t lookup_next(const struct lookup *lookup, uint32_t at)
{
    return (at + 1) & lookup->mask;
}

static inline const void *lookup_at(const struct lookup *lookup, uint32_t at)
{
    const uint32_t slot = lookup->slots[at];
    return slot == 0 ? NULL : lookup->entries + (slot - 1) * lookup->entry_size;
}

#endif

/* usage_tally.h - what a shard counts of people and API keys between two looks at it.
 *
 *   requests --usage_tally_add--> tally of the shard --(each second, another one for it)--> book
 *
 * One entry for each user with a quota record and each API key that asked meanwhile, by a hash of
 * its name: how many requests, how many of them exceeded a limit, when the last one was. The shard
 * adds; whoever keeps the sums takes the whole tally, and gives an empty one for it.
 *
 *   slots    open addressing, at most half full: number of an entry + 1, 0 = free
 *   entries  in the order in which they came
 *
 * TALLY-1  Adding costs one probe; it allocates nothing, and where the tally is full it counts what
 *          it left out.
 * TALLY-2  A tally has one owner at a time: nothing here is shared between threads.
 * TALLY-3  Each entry is found by its hash, and a hash has one entry.
 *
 * What is counted is for people: nothing is decided by it, and a process that is killed loses it.
 */
#ifndef NODE_CLUSTER_MODEL_USAGE_TALLY_H
#define NODE_CLUSTER_MODEL_USAGE_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum { USAGE_TALLY_MAX = 65536 }; /* who may ask a shard between two looks */

struct usage_seen {
    uint64_t hash; /* of whom */
    uint32_t requests;
    uint32_t exceeded;
    uint64_t last_ms; /* Unix time */
};

struct usage_tally {
    const struct allocator *allocator;
    uint32_t *slots;
    struct usage_seen *entries;
    uint32_t count;
    uint64_t dropped; /* requests that it had no room for */
};

/* NULL: out of memory. */
struct usage_tally *usage_tally_new(const struct allocator *allocator);
/* NULL is allowed. */
void usage_tally_free(struct usage_tally **tally);
void usage_tally_clear(struct usage_tally *tally);
/* Counts a request of whom that hash is of, which is not 0. */
void usage_tally_add(struct usage_tally *tally, uint64_t hash, bool exceeded, uint64_t now_ms);
/* The same for as many as the holder of a lease has admitted meanwhile. */
void usage_tally_add_used(struct usage_tally *tally, uint64_t hash, uint64_t requests,
                          uint64_t now_ms);

/* Asserts the above. */
void usage_tally_check_invariants(const struct usage_tally *tally);

#endif

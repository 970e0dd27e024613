/* usage_ledger.h - how often users with a quota record and API keys have asked this node: today,
 * this month, ever, and when last.
 *
 * Days and months are those of UTC. What each node keeps is what it was asked itself, whoever
 * decided: the cluster's totals are the sums over its nodes, for whoever wants to know.
 *
 *   tally of a shard --usage_ledger_add--> entry, by hash, in chunk (hash mod 1,024)
 *                                              |
 *   store  <---- usage_ledger_encode ---- the chunk, when something in it has changed
 *          ----> usage_ledger_restore --> the same after a start
 *
 *   stored   u8 version | u32 count | entries, in the order of their hashes:
 *            u64 hash | u64 last_ms | u32 day | u32 month | 3 x (u64 requests | u64 exceeded)
 *
 * LEDGER-1  A chunk is in the order of hashes, each hash once; it has at most USAGE_CHUNK_MAX
 *           entries. In a full one whoever asked least lately makes room, and is counted
 *           (`forgotten`).
 * LEDGER-2  Entries are of hashes alone: a record that is removed and comes back goes on with its
 *           totals.
 * LEDGER-3  A node that was started with a clock far ahead counts days and months of that time;
 *           once its clock is right, they begin anew with the next request, and nothing is told of
 *           them before.
 *
 * One thread. Must not: look at a clock, or trust what was stored.
 */
#ifndef NODE_CLUSTER_USAGE_USAGE_LEDGER_H
#define NODE_CLUSTER_USAGE_USAGE_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "node/cluster/model/usage_tally.h"

enum {
    USAGE_CHUNKS = 1024,
    USAGE_CHUNK_MAX = 512, /* entries: five times the users and keys that there may be, in all */
    USAGE_ENTRY_LEN = 2 * 8 + 2 * 4 + 3 * 16,
    USAGE_CHUNK_LEN_MAX = 1 + 4 + USAGE_CHUNK_MAX * USAGE_ENTRY_LEN
};

struct usage_count {
    uint64_t requests;
    uint64_t exceeded; /* of those: denied, for a limit was exceeded */
};

struct usage_totals {
    struct usage_count today;
    struct usage_count month;
    struct usage_count ever;
    uint64_t last_ms; /* 0: never */
};

struct usage_ledger;

/* NULL: out of memory. */
struct usage_ledger *usage_ledger_new(const struct allocator *allocator);
/* NULL is allowed. */
void usage_ledger_free(struct usage_ledger **book);

/* Adds all that the tally has. What there is no memory for is left out, and counted. */
void usage_ledger_add(struct usage_ledger *book, const struct usage_tally *tally);
/* The totals at `now_ms` of whom that hash is of; all 0 if it was never seen, or without a book. */
struct usage_totals usage_ledger_find(const struct usage_ledger *book, uint64_t hash,
                                      uint64_t now_ms);
/* Requests, or whole entries, that are in no total. */
uint64_t usage_ledger_lost(const struct usage_ledger *book);

/* Whether the chunk has changed since it was encoded last, or restored. */
bool usage_ledger_dirty(const struct usage_ledger *book, uint32_t chunk);
/* The chunk as it is to be stored; returns the length. It is not dirty then. */
size_t usage_ledger_encode(struct usage_ledger *book, uint32_t chunk,
                           uint8_t out[USAGE_CHUNK_LEN_MAX]);
/* The chunk could not be stored: it has changed still. */
void usage_ledger_retry(struct usage_ledger *book, uint32_t chunk);
/* What was stored of a chunk, into a book that has nothing of it yet. 0, TG_ENOMEM, or TG_ECORRUPT:
 * then the chunk is empty. */
MUST_USE int usage_ledger_restore(struct usage_ledger *book, uint32_t chunk, const void *bytes,
                                  size_t len);

/* Asserts the above. */
void usage_ledger_check_invariants(const struct usage_ledger *book);

#endif

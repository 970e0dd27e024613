/* batch.h - checks gathered for one step of the engine (decide.c).
 *
 *   items   | item 0: an item of a message | item 1: a part | item 2: a forward of a peer |
 *   rows    | limit | limit | limit        | limit          | limit | limit               |
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_ADMISSION_BATCH_H
#define NODE_CLUSTER_ADMISSION_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/limit.h"
#include "node/cluster/dedup/reserve.h"
#include "node/cluster/dedup/retry.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/limit/engine/engine.h"
#include "node/policy/model/policy.h"

enum { SHARD_BATCH_ROWS = 1024 }; /* limits decided in one step of the engine */

/* One group of the batch: a part, or all parts of an item that are decided here together. */
struct batch_item {
    uint32_t part;  /* POOL_NONE if it has none */
    bool from_peer; /* without a part: a peer's forward, else item `item` of the message at hand */
    uint8_t again;  /* FORWARD_RETRY, as it came */
    bool recalled;  /* answered from the retry memory; the rows only peek for the numbers */
    bool revoked;   /* the vnode is not decided here any more */
    bool explains;  /* its rows are told, each */
    bool several;   /* of a request of several parts: remembered in `reserves` */
    bool once;      /* nobody will ask for it again */
    bool undo;
    uint8_t parts;
    uint8_t withholds; /* takes 0: for the sake of this part */
    uint8_t operation;
    uint16_t attempt;  /* its name (retry.h) */
    uint16_t undo_for; /* an undo: the name of the attempt whose charge it gives back */
    uint64_t takes;    /* of each limit, at most; ALLOCATION_ALL: as asked (DECIDE-14) */
    uint64_t gives;    /* an undo: so many tokens of each limit; 0: the rows only peek */
    uint16_t peer;
    uint16_t item;
    uint64_t cost;
    uint64_t used; /* of a lease of tokens */
    uint64_t ticket;
    uint32_t first; /* row */
    uint32_t count;
    struct retry_key retry;         /* as it came */
    struct retry_key key;           /* under which its first part is remembered */
    uint64_t tag;                   /* that of the key, 0: not known yet */
    struct reservation reservation; /* an undo that gives: of what */
    struct retry_memory_entry memory;
    const struct policy_rule *rules[POLICY_PARTS_MAX]; /* of each part, NULL: inline */
    uint32_t ends[POLICY_PARTS_MAX];                   /* rows up to the end of each part */
    uint32_t vnodes[POLICY_PARTS_MAX];
};

/* Checks gathered for one step of the engine. */
struct batch {
    uint32_t count; /* rows */
    uint32_t item_count;
    bool has_repeated; /* some of it may be another copy (DECIDE-4) */
    bool has_several;  /* some of it may be undone by what comes behind it (DECIDE-12) */
    bool delivering;   /* the rows are being read: nothing may be added (DECIDE-3) */
    struct hash128 ids[SHARD_BATCH_ROWS];
    uint32_t vnodes[SHARD_BATCH_ROWS];
    struct limit limits[SHARD_BATCH_ROWS];
    uint64_t costs[SHARD_BATCH_ROWS];
    uint8_t operations[SHARD_BATCH_ROWS];
    uint8_t flags[SHARD_BATCH_ROWS];
    uint32_t groups[SHARD_BATCH_ROWS];
    uint32_t classes[SHARD_BATCH_ROWS]; /* of new keys */
    uint64_t leases[SHARD_BATCH_ROWS];  /* of rows with a concurrency limit, or about tokens */
    uint32_t ttls_ms[SHARD_BATCH_ROWS]; /* of rows about tokens that are held */
    const struct limit *limit_of[SHARD_BATCH_ROWS];
    struct limit_mark marks[SHARD_BATCH_ROWS];
    struct batch_item items[SHARD_BATCH_ROWS];
    uint8_t status[SHARD_BATCH_ROWS];
    uint8_t allowed[SHARD_BATCH_ROWS];
    uint64_t limit[SHARD_BATCH_ROWS];
    uint64_t used[SHARD_BATCH_ROWS];
    uint64_t remaining[SHARD_BATCH_ROWS];
    uint64_t granted[SHARD_BATCH_ROWS];
    int64_t reset_after_ns[SHARD_BATCH_ROWS];
    int64_t retry_after_ns[SHARD_BATCH_ROWS];
    int64_t delay_ns[SHARD_BATCH_ROWS];
    uint8_t notes[SHARD_BATCH_ROWS];    /* enum limit_note */
    bool elastic;                       /* some limit has a pool */
    uint8_t borrowed[SHARD_BATCH_ROWS]; /* valid if so: the row's limit was not charged */
};

#endif

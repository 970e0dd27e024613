/* disk.h - the storage threads: two write, one reads, and no shard ever waits for any of them.
 *
 *   shard loop i                    lane i                         threads
 *   ------------                    ------                         -------
 *   disk_write, disk_drop  ---->  one batch, a set of drops  ---->  writer --> store_write
 *   disk_journal           ---->  one batch, with those of   ---->  journal -> store_journal_write
 *                                 other shards
 *   disk_load              ---->  queue of loads             ---->  reader --> store_read_slots
 *   disk_list              ---->  one listing, in pieces     ---->  reader --> store_list
 *   disk_poll              <----  results        <--- wake ---      all
 *
 * Vnodes below options.vnodes live in the store's state, those from there on (the second plane, see
 * shard.h) in its journal; loads, listings and drops go to one or the other by the number.
 *
 * Everything between a shard and the threads is bounded and taken at disk_new: one write batch and
 * one journal batch out, DISK_LOADS_MAX loads out, one listing, and a bit per vnode for drops.
 * Idle, writer and journal remove what has expired, in small portions; the writer clears dead
 * readers.
 *
 * DISK-1  A batch's buffers belong to the threads from disk_write until its DISK_WRITTEN was
 *         polled. ok means that every record is on disk; not ok, that at least one may not be. The
 *         same holds for a journal batch until its DISK_JOURNALED; it is on disk whole, or (not ok)
 *         not to be relied on.
 * DISK-2  A vnode's header is written in the transaction that holds the last of the batch's records
 *         of that vnode, so that on disk it never claims more than is there. Where the stored claim
 *         fell and the vnode's records need several transactions, those before the last have a
 *         header that claims nothing: what is stored between two of them is a mixture.
 * DISK-3  Writes and drops of one shard happen in the order they were asked for, and so do its
 *         journal batches and drops of vnodes that are there. A drop that failed is tried again,
 *         and before any later write, or journal batch, of the shard.
 * DISK-4  Every load gets exactly one result, and every listing exactly one that is the last or a
 *         failure, unless disk_free comes first.
 * DISK-5  `wake` is called when a result can be polled, with the disk's lock held: it must be quick
 *         and must not call the disk. It is never called once disk_free has begun.
 *
 * Threads: disk_write, disk_journal, disk_drop, disk_load, disk_list and disk_poll for shard i from
 * the thread of shard i; disk_stats from any; disk_new and disk_free when no other call runs.
 *
 * Orderly stop: (1) each loop resigns and flushes its shard (shard_resign, shard_flushed) until no
 * batch is out; (2) the loops' threads end; (3) disk_free, which finishes queued writes and drops;
 * (4) store_close. After a forced stop (2) may find a batch out: it is finished in (3), so its
 * buffers are freed after (3).
 */
#ifndef NODE_RUNTIME_DISK_DISK_H
#define NODE_RUNTIME_DISK_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "node/cluster/shard/shard.h"
#include "node/runtime/system/clock.h"
#include "storage/store.h"

enum {
    DISK_SHARDS_MAX = 16,
    DISK_WRITES_MAX = 1 << 15, /* writes of one batch */
    /* Loads out per shard, unpolled results included: those of checks (SHARD_LOADS_MAX), and some
     * for copies and merges. */
    DISK_LOADS_MAX = 1280,
    DISK_REFUSED_MAX = 1024,      /* loads beyond, whose refusal was not polled yet */
    DISK_READ_BATCH = 256,        /* loads of one read transaction */
    DISK_LIST_IDS = 1024,         /* ids of one piece of a listing */
    DISK_CHUNK_LEN = 8 << 20,     /* bytes of states in one write transaction */
    DISK_CHUNK_RECORDS = 1 << 17, /* records in one */
    DISK_PURGE_CHUNKS = 64,       /* looked at by one portion of the purge */
    DISK_JOURNAL_RECORDS = 4096,  /* records of one journal batch */
    DISK_EXPIRE_RECORDS = 512,    /* looked at by one portion of the journal's expiry */
};

struct disk;

struct disk_options {
    const struct allocator *allocator;
    struct store *store; /* borrowed; NULL: ephemeral, no thread is started */
    uint32_t shard_count;
    uint32_t vnodes;           /* V: from here on a vnode's records are in the journal */
    uint64_t pages_max;        /* bytes that a transaction holds until it commits, about; 0: any */
    const struct clock *clock; /* borrowed */
    const struct log *log;     /* borrowed; may be NULL */
    /* Called from disk threads when `shard` has something to poll; must be quick (uv_async_send,
     * a write to an eventfd) and may come more often than there are results. */
    void (*wake)(void *context, uint32_t shard);
    void *context;
};

/* Takes all memory and starts the threads. 0, TG_EINVALID (shard_count), TG_ENOMEM or TG_EIO (no
 * thread could be started), with *out NULL on failure. */
MUST_USE int disk_new(const struct disk_options *options, struct disk **out);
/* Finishes queued writes and drops (one attempt each; their results are dropped), forgets queued
 * loads, ends the threads, frees, sets *disk to NULL. Blocks for the I/O. NULL is allowed. */
void disk_free(struct disk **disk);

/* Hands a gathered batch of at most DISK_WRITES_MAX writes to the writer (DISK-1), which puts them
 * in order: `writes` may come in any, of one id twice the last counts; headers ascend by vnode. No
 * batch of this shard may be out; not for an ephemeral disk. */
void disk_write(struct disk *disk, uint32_t shard, const struct shard_writes *writes);
/* Hands a gathered batch of at most DISK_JOURNAL_RECORDS records to the journal (DISK-1); batches
 * of several shards share a transaction. No journal batch of this shard may be out. False for an
 * ephemeral disk: there is nothing to wait for, the batch counts as committed at once. */
bool disk_journal(struct disk *disk, uint32_t shard, const struct shard_journal *batch);
/* Asks for one slot. 0: a result comes; where DISK_LOADS_MAX are out it is TG_EBUSY. TG_EBUSY:
 * DISK_REFUSED_MAX of these were not polled yet. An ephemeral disk gives TG_ENOTFOUND at once. */
MUST_USE int disk_load(struct disk *disk, uint32_t shard, uint32_t vnode, struct hash128 id);
/* Asks for the ids stored of `vnode`; they come in pieces of at most DISK_LIST_IDS, each read after
 * this call and after the piece before it was polled. Ids of expired records are left out. No
 * listing of this shard may be out; not for an ephemeral disk. */
void disk_list(struct disk *disk, uint32_t shard, uint32_t vnode);
/* Forgets all that is stored of `vnode`. Nothing for an ephemeral disk. Never fails: what could not
 * be dropped now stays asked for (until the process ends). */
void disk_drop(struct disk *disk, uint32_t shard, uint32_t vnode);

/* Whether the store takes no keys that it does not have: any thread says so, and any asks. */
void disk_close(struct disk *disk, bool closed);
bool disk_closed(const struct disk *disk);

enum disk_result_kind { DISK_WRITTEN, DISK_LOADED, DISK_LISTED, DISK_JOURNALED };

struct disk_result {
    enum disk_result_kind kind;
    bool ok;              /* WRITTEN: for shard_written; JOURNALED: for shard_journaled */
    uint32_t vnode;       /* LOADED: these five for shard_loaded; LISTED, for shard_listed */
    struct hash128 id;    /* LOADED */
    int result;           /* both: 0, TG_ECORRUPT, TG_EIO, TG_ENOMEM; LOADED: TG_ENOTFOUND,
                             TG_EBUSY */
    const uint8_t *bytes; /* LOADED with 0: the state; lives until the shard's next disk_poll */
    size_t len;
    const struct hash128 *ids; /* LISTED: a piece; lives as long */
    size_t count;
    bool last;
};

/* The next result for `shard`; false if there is none. Call until false after each wake. Costs one
 * atomic load when there is nothing. */
bool disk_poll(struct disk *disk, uint32_t shard, struct disk_result *out);

struct disk_stats {
    int64_t last_commit_unix_ns; /* when the last successful write ended; 0: none yet */
    int64_t last_commit_ns;      /* how long its last transaction took, sync included */
    uint64_t writes;             /* batches written */
    uint64_t write_fails;        /* batches and drops that failed */
    uint64_t records;            /* records written */
    uint64_t transactions;
    uint64_t loads; /* results given */
    uint64_t loads_found;
    uint64_t load_fails; /* other than absent */
    uint64_t listings;   /* of vnodes, completed */
    uint64_t drops;
    uint64_t purged; /* expired records removed when idle */
    uint64_t journal_batches;
    uint64_t journal_fails; /* batches and drops of the journal that failed */
    uint64_t journal_records;
    uint64_t journal_transactions;
    int64_t journal_commit_ns; /* how long the journal's last transaction took, sync included */
    bool failing;              /* the last write failed */
    bool journal_failing;      /* the last one of the journal */
    bool full;                 /* for want of room, and the same of the journal */
    bool journal_full;
};

void disk_stats(struct disk *disk, struct disk_stats *out);

#endif

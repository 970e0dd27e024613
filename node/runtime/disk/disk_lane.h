/* disk_lane.h - what the four files of the storage threads share; for them only.
 *
 *     disk.c         what shards call, lanes, life of the threads
 *     disk_writer.c  the writer thread: batches and drops into transactions, upkeep when idle
 *     disk_journal.c  the journal thread: batches of quorum's promises and slots, durable at once
 *     disk_reader.c  the reader thread: queued loads and listings into read transactions
 *
 * Fields are guarded by disk->lock unless their comment says otherwise.
 */
#ifndef NODE_RUNTIME_DISK_DISK_LANE_H
#define NODE_RUNTIME_DISK_DISK_LANE_H

#include <pthread.h>
#include <stdatomic.h>

#include "node/runtime/disk/disk.h"

enum {
    DISK_VNODES_MAX = 65536,
    DISK_CHUNK_BATCHES = DISK_VNODES_MAX, /* vnodes of one transaction */
    DISK_READ_BYTES = 1 << 19,            /* states of one batch of loads */
};

/* A set of vnodes as a bitmap: it has room for all, so that a drop can never be refused. */
struct disk_set {
    uint32_t count;
    uint64_t words[DISK_VNODES_MAX / 64];
};

void disk_set_add(struct disk_set *set, uint32_t vnode);
void disk_set_remove(struct disk_set *set, uint32_t vnode);
/* The first member that is not below `from`, or DISK_VNODES_MAX. */
uint32_t disk_set_next(const struct disk_set *set, uint32_t from);
/* Adds all members of `from` to `to` and empties `from`. */
void disk_set_move(struct disk_set *to, struct disk_set *from);

struct load {
    uint32_t vnode;
    struct hash128 id;
};

enum write_state { WRITE_NONE, WRITE_QUEUED, WRITE_RUNNING, WRITE_DONE };
enum read_state { READ_FREE, READ_RUNNING, READ_READY };
enum list_state { LIST_NONE, LIST_QUEUED, LIST_RUNNING, LIST_READY, LIST_POLLED };

struct lane {
    uint32_t shard;
    _Atomic uint32_t ready; /* results to poll; raised and lowered under the lock, read without */

    enum write_state write_state;
    bool write_ok;                     /* DONE */
    const struct shard_writes *writes; /* the shard's; read by the writer while RUNNING */
    struct disk_set drops_now;
    struct disk_set drops_later;
    int64_t drops_retry_ns; /* monotonic; drops alone wait until then after a failure */

    enum write_state journal_state;
    bool journal_ok;                     /* DONE */
    const struct shard_journal *journal; /* the shard's; read by the journal thread while RUNNING */
    struct disk_set journal_drops_now;
    struct disk_set journal_drops_later;
    int64_t journal_drops_retry_ns; /* as drops_retry_ns */

    uint32_t loads_out;
    uint32_t queue_first;
    uint32_t queue_count;
    struct load queue[DISK_LOADS_MAX];
    uint32_t refused_count; /* of the shard's thread alone, as are these */
    struct load refused[DISK_REFUSED_MAX];

    enum read_state read_state;
    bool read_spent; /* of the shard's thread alone: it has polled the batch's last result */
    uint32_t read_polled;
    uint32_t read_count;
    struct store_slot_read reads[DISK_READ_BATCH]; /* the reader's while RUNNING */
    uint8_t *read_bytes;                           /* likewise; DISK_READ_BYTES */

    enum list_state list_state;
    bool list_spent; /* of the shard's thread alone: it has polled the piece */
    int list_result;
    size_t list_count;
    struct store_listing listing;           /* the reader's while RUNNING, as are the ids */
    struct hash128 list_ids[DISK_LIST_IDS]; /* the piece */
};

struct disk {
    struct disk_options options; /* constant */
    struct lane *lanes;

    pthread_mutex_t lock;
    pthread_cond_t writer_work;
    pthread_cond_t reader_work;
    pthread_cond_t journal_work;
    bool stopping;
    _Atomic bool closed; /* takes no further keys */
    struct disk_stats stats;

    pthread_t writer;
    pthread_t reader;
    pthread_t journal;
    bool writer_started;
    bool reader_started;
    bool journal_started;

    /* The writer thread's alone. */
    struct store_vnode_batch *batches; /* DISK_CHUNK_BATCHES */
    struct store_vnode_header *headers;
    struct store_record *records; /* DISK_CHUNK_RECORDS */
    uint32_t *order;              /* DISK_WRITES_MAX: the batch's writes, sorted by vnode */
    uint32_t *starts;             /* DISK_VNODES_MAX: where in it each vnode's begin */
    struct disk_set dropping;     /* taken from a lane for the job that runs */
    uint32_t writer_next;         /* lane to look at first, so that none is starved */
    int64_t purge_due_ns;         /* monotonic */
    int64_t maintain_due_ns;
    bool upkeep_failing; /* said in the log */

    /* The journal thread's alone. */
    struct store_journal_record *journal_records; /* DISK_JOURNAL_RECORDS a lane */
    int64_t expire_due_ns;                        /* monotonic */
    bool expire_failing;                          /* said in the log */

    /* The reader thread's alone. */
    uint32_t reader_next; /* lane to look at first, for loads and for listings */
    uint32_t lister_next;
    bool read_failing; /* said in the log */
};

/* CLOCK_MONOTONIC, which the conditions wait by. */
int64_t disk_mono_ns(void);
/* The node's time in Unix ms, for expiry. */
uint64_t disk_now_ms(const struct disk *disk);
/* `count` more results of the lane can be polled: wakes its shard. Lock held. */
void disk_ready(struct disk *disk, struct lane *lane, uint32_t count);

/* Asserts DISK-6 to DISK-9 of all lanes, as they are between two steps. For tests; any thread. */
void disk_check_invariants(struct disk *disk);

/* The threads' bodies; `context` is the struct disk. */
void *disk_writer_run(void *context);
void *disk_reader_run(void *context);
void *disk_journal_run(void *context);

#endif

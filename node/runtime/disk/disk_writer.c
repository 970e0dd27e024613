/* disk_writer.c - the writer thread: batches and drops into transactions, upkeep when idle.
 *
 *   job of a lane:  drops of before --> chunk --> chunk --> ... --> DONE (ok if all committed)
 *
 *   a batch, ordered by vnode     |<--------- chunk 1 --------->|<----- chunk 2 ----->|
 *                                 | v3: records, header | v8: .. | ..rest, header | v9 |
 *
 * The shard hands its writes over as it met them; here they are put in order by counting, in
 * time linear in their number: the thread that decides checks has no time for it.
 *
 * A chunk is one transaction of at most DISK_CHUNK_LEN bytes of states, and of
 * as many vnodes and records as make it hold no more pages than the options say. A vnode that is
 * cut by the end of a chunk gets its header with its last records, and if its stored claim fell,
 * with those before a header that claims nothing (DISK-2).
 *
 * DISKWRITER-1  A job runs with the lane's drops and its write taken out of the lane, so that the
 *               shard may ask for more meanwhile; what failed among the drops goes back.
 * DISKWRITER-2  The lock is not held while the store writes.
 * DISKWRITER-3  A failure is logged when it begins and when it is over, not in between.
 * DISKWRITER-4  Where all processors are busy, who decides goes first: this thread is a little
 *               nicer than the others. Beside a busy one it still gets a quarter of a processor,
 *               more than it needs; so a round takes longer there, but not for ever. Where a
 *               processor is idle nothing changes.
 *
 * Must not: change what the shard handed over, or try a batch again: the shard does.
 */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/runtime/disk/disk_lane.h"

enum {
    DROPS_PER_TRANSACTION = 256,
    WRITES_AHEAD = 8, /* asked for before they are looked at: another core wrote them */
    VNODE_PAGES = 16 << 10,
    RECORD_PAGES = 4 << 10,
    NICER_BY = 5, /* than the other threads (DISKWRITER-4) */
};
#define NS_PER_MS         ((int64_t)1000000)
#define DROP_RETRY_NS     (1000 * NS_PER_MS)
#define PURGE_EVERY_NS    (200 * NS_PER_MS)   /* between two portions */
#define PURGE_REST_NS     (60000 * NS_PER_MS) /* between two rounds, and after a failure */
#define MAINTAIN_EVERY_NS (60000 * NS_PER_MS)

static_assert((int)DROPS_PER_TRANSACTION <= (int)DISK_CHUNK_BATCHES,
              "drops use the array of a chunk");

/* ---- one transaction ------------------------------------------------------------------------- */

/* Says once that writing fails, and once that it works again (DISKWRITER-3). */
static void say_state(struct disk *disk, int result, bool was_failing)
{
    char why[STORE_ERROR_LEN];

    if ((result != TG_OK) == was_failing)
        return;
    if (result == TG_OK) {
        log_printf(disk->options.log, LOG_LEVEL_INFO, "the store can be written again");
        return;
    }
    store_last_error(disk->options.store, why);
    log_printf(disk->options.log, LOG_LEVEL_ERROR,
               "cannot write to the store, so limits are kept in memory alone until it works "
               "again: %s: %s",
               error_message(result), why);
}

/* Writes `count` of disk->batches in one transaction and keeps the books. 0 or the store's error.
 */
static int commit(struct disk *disk, size_t count, size_t records)
{
    const int64_t before_ns = disk_mono_ns();
    const int result = store_write(disk->options.store, disk->batches, count,
                                   disk_now_ms(disk)); /* DISKWRITER-2 */

    (void)pthread_mutex_lock(&disk->lock);
    const bool was_failing = disk->stats.failing;
    disk->stats.failing = result != TG_OK;
    disk->stats.full = result == TG_EFULL;
    if (result == TG_OK) {
        disk->stats.last_commit_unix_ns = clock_now_ns(disk->options.clock);
        disk->stats.last_commit_ns = disk_mono_ns() - before_ns;
        disk->stats.transactions++;
        disk->stats.records += records;
    }
    (void)pthread_mutex_unlock(&disk->lock);
    say_state(disk, result, was_failing);
    return result;
}

/* ---- a shard's batch, chunk by chunk --------------------------------------------------------- */

struct cursor {
    const struct shard_writes *writes;
    const uint32_t *order; /* of its writes */
    uint32_t record;       /* the place in the order of the next one to write */
    uint32_t header;
};

struct chunk {
    size_t batches;
    size_t records;
    size_t bytes;
};

static bool cursor_at_end(const struct cursor *cursor)
{
    return cursor->record == cursor->writes->count &&
           cursor->header == cursor->writes->header_count;
}

/* The lowest vnode of which records or a header are left. */
static uint32_t cursor_vnode(const struct cursor *cursor)
{
    const struct shard_writes *writes = cursor->writes;
    uint32_t vnode = UINT32_MAX;

    if (cursor->record < writes->count)
        vnode = writes->writes[cursor->order[cursor->record]].vnode;
    if (cursor->header < writes->header_count && writes->headers[cursor->header].vnode < vnode)
        vnode = writes->headers[cursor->header].vnode;
    return vnode;
}

/* Adds records of `vnode` while there is room. True if none of them is left. */
static bool add_records(struct disk *disk, struct cursor *cursor, struct chunk *chunk,
                        uint32_t vnode)
{
    const struct shard_writes *writes = cursor->writes;

    for (; cursor->record < writes->count; cursor->record++) {
        if (cursor->record + WRITES_AHEAD < writes->count)
            prefetch(&writes->writes[cursor->order[cursor->record + WRITES_AHEAD]]);
        const struct shard_write *write = &writes->writes[cursor->order[cursor->record]];
        if (write->vnode != vnode)
            return true;
        if (chunk->records == DISK_CHUNK_RECORDS || DISK_CHUNK_LEN - chunk->bytes < write->len)
            return false;
        disk->records[chunk->records++] = (struct store_record){
            .id = write->id,
            .expires_ms = write->expires_ms,
            .state = writes->bytes + write->offset,
            .len = write->len,
        };
        chunk->bytes += write->len;
    }
    return true;
}

/* The header that goes with this piece of a vnode, put into `out`; false if none does (DISK-2). */
static bool take_header(struct cursor *cursor, uint32_t vnode, bool last,
                        struct store_vnode_header *out)
{
    const struct shard_writes *writes = cursor->writes;

    if (cursor->header == writes->header_count || writes->headers[cursor->header].vnode != vnode)
        return false;
    const struct shard_write_header *from = &writes->headers[cursor->header];
    if (!last) {
        *out = (struct store_vnode_header){.epoch = 0};
        return from->fell;
    }
    cursor->header++;
    *out = (struct store_vnode_header){
        .epoch = from->state.epoch,
        .number = from->state.number,
        .writer = from->state.writer,
        .seq = from->seq,
    };
    return true;
}

/* Adds one vnode's records, and its header if all of them are in. False when the chunk is full. */
static bool add_vnode(struct disk *disk, struct cursor *cursor, struct chunk *chunk)
{
    const uint32_t vnode = cursor_vnode(cursor);
    const size_t first = chunk->records;
    const bool whole = add_records(disk, cursor, chunk, vnode);
    struct store_vnode_header *header = NULL;

    if ((whole || chunk->records > first) &&
        take_header(cursor, vnode, whole, &disk->headers[chunk->batches]))
        header = &disk->headers[chunk->batches];
    if (header != NULL || chunk->records > first)
        disk->batches[chunk->batches++] = (struct store_vnode_batch){
            .vnode = vnode,
            .header = header,
            .records = disk->records + first,
            .count = chunk->records - first,
        };
    return whole;
}

/* Puts the places of all writes into disk->order, by vnode, and as they came within one. */
static void order_writes(struct disk *disk, const struct shard_writes *writes)
{
    uint32_t *starts = disk->starts;
    uint32_t before = 0;
    uint32_t end = 0;

    for (uint32_t i = 0; i < writes->count; i++) {
        const uint32_t vnode = writes->writes[i].vnode;
        ASSERT(vnode < DISK_VNODES_MAX);
        end = vnode >= end ? vnode + 1 : end;
        starts[vnode]++;
    }
    for (uint32_t vnode = 0; vnode < end; vnode++) {
        const uint32_t count = starts[vnode];
        starts[vnode] = before;
        before += count;
    }
    for (uint32_t i = 0; i < writes->count; i++)
        disk->order[starts[writes->writes[i].vnode]++] = i;
    ASSERT(before == writes->count && writes->count <= DISK_WRITES_MAX);
    memset(starts, 0, end * sizeof(*starts));
}

/* Bytes of the pages that LMDB holds for the chunk until it commits, about: each vnode has leaves
 * and branches of its own, and a record is one of a few that share a stored chunk of three pages.
 * It is the most of a transaction, and stays with the process. */
static uint64_t pages_of(const struct chunk *chunk)
{
    return chunk->batches * VNODE_PAGES + chunk->records * RECORD_PAGES;
}

/* Writes a whole batch; the first failing chunk ends it. */
static int write_batch(struct disk *disk, const struct shard_writes *writes)
{
    struct cursor cursor = {.writes = writes, .order = disk->order};

    order_writes(disk, writes);
    while (!cursor_at_end(&cursor)) {
        struct chunk chunk = {.batches = 0};
        bool room = true;
        while (room && chunk.batches < DISK_CHUNK_BATCHES &&
               pages_of(&chunk) < disk->options.pages_max && !cursor_at_end(&cursor))
            room = add_vnode(disk, &cursor, &chunk);
        if (chunk.batches == 0)
            return TG_ETOOBIG; /* a record larger than a chunk */
        const int result = commit(disk, chunk.batches, chunk.records);
        if (result != TG_OK)
            return result;
    }
    return TG_OK;
}

/* ---- drops ----------------------------------------------------------------------------------- */

/* Drops disk->dropping; what was dropped leaves the set. */
static int drop_vnodes(struct disk *disk)
{
    while (disk->dropping.count > 0) {
        size_t count = 0;
        for (uint32_t vnode = disk_set_next(&disk->dropping, 0);
             vnode < DISK_VNODES_MAX && count < DROPS_PER_TRANSACTION;
             vnode = disk_set_next(&disk->dropping, vnode + 1))
            disk->batches[count++] = (struct store_vnode_batch){.vnode = vnode, .drop_all = true};
        ASSERT(count > 0 && count <= disk->dropping.count); /* DISK-9 */
        const int result = commit(disk, count, 0);
        if (result != TG_OK)
            return result;
        for (size_t i = 0; i < count; i++)
            disk_set_remove(&disk->dropping, disk->batches[i].vnode);
        (void)pthread_mutex_lock(&disk->lock);
        disk->stats.drops += count;
        (void)pthread_mutex_unlock(&disk->lock);
    }
    return TG_OK;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool has_work(const struct disk *disk, const struct lane *lane, int64_t now_ns)
{
    if (lane->write_state == WRITE_QUEUED)
        return true;
    return lane->drops_now.count > 0 && (disk->stopping || now_ns >= lane->drops_retry_ns);
}

/* The next lane with something to do, or NULL. Lock held. */
static struct lane *next_lane(struct disk *disk)
{
    const int64_t now_ns = disk_mono_ns();

    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        const uint32_t at = (disk->writer_next + i) % disk->options.shard_count;
        if (!has_work(disk, &disk->lanes[at], now_ns))
            continue;
        disk->writer_next = at + 1;
        return &disk->lanes[at];
    }
    return NULL;
}

/* Puts a job's outcome into its lane. Lock held. */
static void finish_job(struct disk *disk, struct lane *lane, bool has_writes, int result)
{
    if (result == TG_OK) {
        disk->stats.writes += has_writes;
    } else {
        disk->stats.write_fails++;
        lane->drops_retry_ns = disk_mono_ns() + DROP_RETRY_NS;
    }
    disk_set_move(&lane->drops_now, &disk->dropping); /* DISKWRITER-1 */
    if (!has_writes)
        return;
    ASSERT(lane->write_state == WRITE_RUNNING && lane->writes != NULL); /* DISK-9 */
    disk_set_move(&lane->drops_now, &lane->drops_later);
    lane->write_ok = result == TG_OK;
    lane->write_state = WRITE_DONE;
    disk_ready(disk, lane, 1);
}

/* Runs one job of the lane. Called and left with the lock held. */
static void run_job(struct disk *disk, struct lane *lane)
{
    const bool has_writes = lane->write_state == WRITE_QUEUED;
    int result;

    ASSERT(disk->dropping.count == 0);
    disk_set_move(&disk->dropping, &lane->drops_now); /* DISKWRITER-1 */
    if (has_writes)
        lane->write_state = WRITE_RUNNING;
    (void)pthread_mutex_unlock(&disk->lock); /* DISKWRITER-2 */
    result = drop_vnodes(disk);
    if (result == TG_OK && has_writes)
        result = write_batch(disk, lane->writes);
    (void)pthread_mutex_lock(&disk->lock);
    finish_job(disk, lane, has_writes, result);
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

static void say_upkeep(struct disk *disk, const char *what, int result)
{
    char why[STORE_ERROR_LEN];

    if ((result != TG_OK) == disk->upkeep_failing)
        return;
    disk->upkeep_failing = result != TG_OK;
    if (result == TG_OK)
        return;
    store_last_error(disk->options.store, why);
    log_printf(disk->options.log, LOG_LEVEL_WARN, "cannot %s the store: %s: %s", what,
               error_message(result), why);
}

/* Removes what has expired, one portion. Called and left with the lock held. */
static void purge(struct disk *disk)
{
    struct store_purge_result purged = {.round_complete = true};

    (void)pthread_mutex_unlock(&disk->lock);
    const int result =
        store_purge(disk->options.store, disk_now_ms(disk), DISK_PURGE_CHUNKS, NULL, NULL, &purged);
    const bool rest = result != TG_OK || purged.round_complete;
    disk->purge_due_ns = disk_mono_ns() + (rest ? PURGE_REST_NS : PURGE_EVERY_NS);
    say_upkeep(disk, "purge", result);
    (void)pthread_mutex_lock(&disk->lock);
    if (result == TG_OK)
        disk->stats.purged += purged.removed;
}

/* Clears readers that died. Called and left with the lock held. */
static void maintain(struct disk *disk)
{
    (void)pthread_mutex_unlock(&disk->lock);
    const int result = store_maintain(disk->options.store);
    disk->maintain_due_ns = disk_mono_ns() + MAINTAIN_EVERY_NS;
    say_upkeep(disk, "maintain", result);
    (void)pthread_mutex_lock(&disk->lock);
}

/* When an idle writer has something to do without being asked. Lock held. */
static int64_t next_due_ns(const struct disk *disk)
{
    int64_t due_ns = disk->purge_due_ns;

    if (disk->maintain_due_ns < due_ns)
        due_ns = disk->maintain_due_ns;
    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        const struct lane *lane = &disk->lanes[i];
        if (lane->drops_now.count > 0 && lane->drops_retry_ns < due_ns)
            due_ns = lane->drops_retry_ns;
    }
    return due_ns;
}

/* A portion of the purge if one is due, else a wait for work. Called and left with the lock held.
 */
static void idle(struct disk *disk)
{
    const int64_t now_ns = disk_mono_ns();

    if (now_ns >= disk->purge_due_ns) {
        purge(disk);
    } else {
        const int64_t due_ns = next_due_ns(disk);
        const struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000),
                                       .tv_nsec = (long)(due_ns % 1000000000)};
        (void)pthread_cond_timedwait(&disk->writer_work, &disk->lock, &until);
    }
}

/* What is queued at the stop is tried once: a job that fails is not run again. */
static void finish_queued(struct disk *disk)
{
    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        struct lane *lane = &disk->lanes[i];
        if (has_work(disk, lane, 0))
            run_job(disk, lane);
        if (lane->drops_now.count > 0 && !disk->stats.failing)
            run_job(disk, lane); /* those that waited for the write */
    }
}

void *disk_writer_run(void *context)
{
    struct disk *disk = context;

    (void)pthread_setname_np(pthread_self(), "disk-writer");
    (void)!nice(NICER_BY); /* of this thread alone: so it is on Linux */
    (void)pthread_mutex_lock(&disk->lock);
    disk->purge_due_ns = disk_mono_ns() + PURGE_EVERY_NS;
    disk->maintain_due_ns = disk_mono_ns() + MAINTAIN_EVERY_NS;
    while (!disk->stopping) {
        if (disk_mono_ns() >= disk->maintain_due_ns)
            maintain(disk);
        struct lane *lane = next_lane(disk);
        if (lane != NULL)
            run_job(disk, lane);
        else
            idle(disk);
    }
    finish_queued(disk);
    (void)pthread_mutex_unlock(&disk->lock);
    return NULL;
}

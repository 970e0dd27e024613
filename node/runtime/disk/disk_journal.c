/* disk_journal.c - the journal thread: what must be durable before anyone hears of it.
 *
 *   lane 0  batch --+
 *   lane 1  batch --+--> one transaction, one sync --> all DONE
 *   lane 2  none    |
 *   lane 3  batch --+      meanwhile the shards gather the next batches
 *
 * Everything that is queued when the thread looks shares one sync (group commit), so that the cost
 * of a sync is spread over as many decisions as wait for it. A transaction of several batches that
 * fails is tried again batch by batch, so that one that does not fit on a full disk takes no other
 * one with it.
 *
 * DISKJOURNAL-1  A batch is one transaction's, whole. Drops of its lane that were asked for before
 *                it are done first; if they cannot be done, the batch has failed (DISK-3).
 * DISKJOURNAL-2  The lock is not held while the store writes.
 * DISKJOURNAL-3  A failure is logged when it begins and when it is over, not in between.
 *
 * Must not: change what a shard handed over, or try a failed batch again: the shard does.
 */
#include <assert.h>

#include "base/assert.h"
#include "node/runtime/disk/disk_lane.h"

#define NS_PER_MS      ((int64_t)1000000)
#define DROP_RETRY_NS  (1000 * NS_PER_MS)
#define EXPIRE_NS      (200 * NS_PER_MS)   /* between two portions */
#define EXPIRE_REST_NS (60000 * NS_PER_MS) /* between two rounds, and after a failure */

static_assert((int)STORE_JOURNAL_PROMISE == (int)JOURNAL_PROMISE &&
                  (int)STORE_JOURNAL_HEADER == (int)JOURNAL_HEADER &&
                  (int)STORE_JOURNAL_SLOT == (int)JOURNAL_SLOT,
              "a record's kind is the same number in a shard and in the store");
static_assert((int)DISK_JOURNAL_RECORDS >= (int)SHARD_JOURNAL_RECORDS_MIN,
              "a shard's batch makes headway");

/* Says once that writing fails, and once that it works again (DISKJOURNAL-3). */
static void say_state(struct disk *disk, int result, bool was_failing)
{
    char why[STORE_ERROR_LEN];

    if ((result != TG_OK) == was_failing)
        return;
    if (result == TG_OK) {
        log_printf(disk->options.log, LOG_LEVEL_INFO, "the journal can be written again");
        return;
    }
    store_last_error(disk->options.store, why);
    log_printf(disk->options.log, LOG_LEVEL_ERROR,
               "cannot write to the journal, so keys of consistency quorum are not confirmed here "
               "until it works again: %s: %s",
               error_message(result), why);
}

/* Keeps the books of one transaction. Called without the lock. */
static void note_commit(struct disk *disk, int result, int64_t before_ns, size_t records)
{
    (void)pthread_mutex_lock(&disk->lock);
    const bool was_failing = disk->stats.journal_failing;
    disk->stats.journal_failing = result != TG_OK;
    disk->stats.journal_full = result == TG_EFULL;
    if (result == TG_OK) {
        disk->stats.last_commit_unix_ns = clock_now_ns(disk->options.clock);
        disk->stats.journal_commit_ns = disk_mono_ns() - before_ns;
        disk->stats.journal_transactions++;
        disk->stats.journal_records += records;
    }
    (void)pthread_mutex_unlock(&disk->lock);
    say_state(disk, result, was_failing);
}

/* ---- batches --------------------------------------------------------------------------------- */

static struct store_journal_record record_of(const struct shard_journal *batch, uint32_t index)
{
    const struct shard_journal_record *from = &batch->records[index];

    return (struct store_journal_record){
        .vnode = from->vnode,
        .kind = (enum store_journal_kind)from->kind,
        .header = {.epoch = from->term.epoch,
                   .number = from->term.number,
                   .writer = from->term.writer,
                   .seq = from->seq},
        .slot = {.id = from->id,
                 .expires_ms = from->expires_ms,
                 .state = batch->bytes + from->offset,
                 .len = from->len},
    };
}

/* Writes the batches of `count` lanes in one transaction (DISKJOURNAL-1). */
static int write_together(struct disk *disk, struct lane *const *lanes, uint32_t count)
{
    const int64_t before_ns = disk_mono_ns();
    size_t records = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct shard_journal *batch = lanes[i]->journal;
        ASSERT(batch->count <= DISK_JOURNAL_RECORDS);
        for (uint32_t r = 0; r < batch->count; r++)
            disk->journal_records[records++] = record_of(batch, r);
    }
    const int result = store_journal_write(disk->options.store, disk->journal_records, records);
    note_commit(disk, result, before_ns, records);
    return result;
}

/* Writes all of them together, or, if that fails, each one alone. */
static void write_batches(struct disk *disk, struct lane *const *lanes, uint32_t count, bool *ok)
{
    const bool together = write_together(disk, lanes, count) == TG_OK;
    for (uint32_t i = 0; i < count; i++)
        ok[i] = together || (count > 1 && write_together(disk, &lanes[i], 1) == TG_OK);
}

/* ---- drops ----------------------------------------------------------------------------------- */

/* Does the drops of one lane; what could not be done is asked for again. Called and left with the
 * lock held. */
static bool drop_vnodes(struct disk *disk, struct lane *lane)
{
    while (lane->journal_drops_now.count > 0) {
        const uint32_t vnode = disk_set_next(&lane->journal_drops_now, 0);
        const int64_t before_ns = disk_mono_ns();
        ASSERT(vnode < DISK_VNODES_MAX); /* DISK-9 */
        disk_set_remove(&lane->journal_drops_now, vnode);
        (void)pthread_mutex_unlock(&disk->lock); /* DISKJOURNAL-2 */
        const int result = store_journal_drop(disk->options.store, vnode);
        note_commit(disk, result, before_ns, 0);
        (void)pthread_mutex_lock(&disk->lock);
        if (result != TG_OK) {
            disk_set_add(&lane->journal_drops_now, vnode);
            lane->journal_drops_retry_ns = disk_mono_ns() + DROP_RETRY_NS;
            disk->stats.journal_fails++;
            return false;
        }
        disk->stats.drops++;
    }
    return true;
}

static bool drops_due(const struct disk *disk, const struct lane *lane, int64_t now_ns)
{
    return lane->journal_drops_now.count > 0 &&
           (disk->stopping || now_ns >= lane->journal_drops_retry_ns);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Puts a batch's outcome into its lane. Lock held. */
static void finish_batch(struct disk *disk, struct lane *lane, bool ok)
{
    disk->stats.journal_batches += ok;
    disk->stats.journal_fails += !ok;
    ASSERT(lane->journal_state == WRITE_RUNNING && lane->journal != NULL); /* DISK-9 */
    lane->journal_ok = ok;
    disk_set_move(&lane->journal_drops_now, &lane->journal_drops_later);
    lane->journal_state = WRITE_DONE;
    disk_ready(disk, lane, 1);
}

/* Does what all lanes have queued. Called and left with the lock held; false if there was nothing,
 * and then it was held all the time, so that nothing was queued behind the thread's back. */
static bool serve_lanes(struct disk *disk)
{
    struct lane *lanes[DISK_SHARDS_MAX];
    bool ok[DISK_SHARDS_MAX];
    uint32_t count = 0;
    bool served = false;
    const int64_t now_ns = disk_mono_ns();

    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        struct lane *lane = &disk->lanes[i];
        const bool has_batch = lane->journal_state == WRITE_QUEUED;
        if (!has_batch && !drops_due(disk, lane, now_ns))
            continue;
        served = true;
        if (has_batch)
            lane->journal_state = WRITE_RUNNING; /* from here on drops wait for it */
        const bool dropped = drop_vnodes(disk, lane);
        if (has_batch && dropped)
            lanes[count++] = lane;
        else if (has_batch)
            finish_batch(disk, lane, false); /* DISKJOURNAL-1 */
    }
    if (count == 0)
        return served;
    (void)pthread_mutex_unlock(&disk->lock); /* DISKJOURNAL-2 */
    write_batches(disk, lanes, count, ok);
    (void)pthread_mutex_lock(&disk->lock);
    for (uint32_t i = 0; i < count; i++)
        finish_batch(disk, lanes[i], ok[i]);
    return true;
}

/* Removes what has expired, one portion. Called and left with the lock held. */
static void expire(struct disk *disk)
{
    struct store_journal_expiry expiry = {.round_complete = true};
    char why[STORE_ERROR_LEN];

    (void)pthread_mutex_unlock(&disk->lock);
    const int result =
        store_journal_expire(disk->options.store, disk_now_ms(disk), DISK_EXPIRE_RECORDS, &expiry);
    const bool rest = result != TG_OK || expiry.round_complete;
    disk->expire_due_ns = disk_mono_ns() + (rest ? EXPIRE_REST_NS : EXPIRE_NS);
    if (result != TG_OK && !disk->expire_failing) {
        store_last_error(disk->options.store, why);
        log_printf(disk->options.log, LOG_LEVEL_WARN,
                   "cannot remove expired slots from the journal: %s: %s", error_message(result),
                   why);
    }
    disk->expire_failing = result != TG_OK;
    (void)pthread_mutex_lock(&disk->lock);
    disk->stats.purged += expiry.removed;
}

/* When an idle journal has something to do without being asked. Lock held. */
static int64_t next_due_ns(const struct disk *disk)
{
    int64_t due_ns = disk->expire_due_ns;

    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        const struct lane *lane = &disk->lanes[i];
        if (lane->journal_drops_now.count > 0 && lane->journal_drops_retry_ns < due_ns)
            due_ns = lane->journal_drops_retry_ns;
    }
    return due_ns;
}

/* A portion of the expiry if one is due, else a wait for work. Called and left with the lock held.
 */
static void idle(struct disk *disk)
{
    if (disk_mono_ns() >= disk->expire_due_ns) {
        expire(disk);
        return;
    }
    const int64_t due_ns = next_due_ns(disk);
    const struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000),
                                   .tv_nsec = (long)(due_ns % 1000000000)};
    (void)pthread_cond_timedwait(&disk->journal_work, &disk->lock, &until);
}

void *disk_journal_run(void *context)
{
    struct disk *disk = context;

    (void)pthread_setname_np(pthread_self(), "disk-journal");
    (void)pthread_mutex_lock(&disk->lock);
    disk->expire_due_ns = disk_mono_ns() + EXPIRE_NS;
    while (!disk->stopping) {
        if (!serve_lanes(disk))
            idle(disk);
    }
    /* What is queued at the stop is tried once; then the drops that waited for it. */
    (void)serve_lanes(disk);
    (void)serve_lanes(disk);
    (void)pthread_mutex_unlock(&disk->lock);
    return NULL;
}

/* disk.c - between the shards' loops and the storage threads: lanes, their rules, their results.
 *
 * A lane is all that one shard and the two threads share. One mutex guards all lanes; it is held to
 * move a request or a result, never over I/O. This file is what the shards call, and the life of
 * the threads; what the threads do is in disk_writer.c and disk_reader.c.
 *
 *   write    NONE --disk_write--> QUEUED --writer--> RUNNING --writer--> DONE --disk_poll--> NONE
 *   journal  the same states as a write batch's
 *   batch    FREE --reader--> RUNNING --reader--> READY --disk_poll until behind the last--> FREE
 *   of reads
 *   piece of NONE --disk_list--> QUEUED --reader--> RUNNING --reader--> READY --disk_poll--> POLLED
 *   listing  POLLED --next disk_poll--> QUEUED for the next piece, or NONE behind the last one
 *
 * DISK-6  loads_out = loads queued + loads in the batch that were not polled yet <= DISK_LOADS_MAX.
 *         Each load has one result: those beyond are refused, when the others were polled.
 * DISK-7  A drop asked for while a write is QUEUED or RUNNING waits in drops_later until that write
 *         is DONE; all others are in drops_now and go before the next write (DISK-3). So for the
 *         journal's.
 * DISK-8  `ready` is the number of results that can be polled.
 * DISK-9  A lane has a batch of writes, and one of the journal's, exactly while its state is not
 *         NONE; a set of vnodes counts its members.
 *
 * Must not: do I/O on a shard's thread, or allocate after disk_new.
 */
#include "node/runtime/disk/disk.h"

#include <assert.h>
#include <time.h>

#include "base/assert.h"
#include "node/limit/table/table.h"
#include "node/runtime/disk/disk_lane.h"

static_assert((int)DISK_READ_BYTES >= (int)TABLE_EXPORT_MAX, "any state of a slot can be loaded");
static_assert((int)DISK_READ_BYTES >= (int)STORE_STATE_MAX, "any record can be loaded");
static_assert((int)DISK_CHUNK_LEN >= (int)STORE_STATE_MAX, "any record fits an empty chunk");
static_assert(DISK_READ_BATCH <= DISK_LOADS_MAX, "a batch is a part of the queue");

/* ---- sets of vnodes -------------------------------------------------------------------------- */

void disk_set_add(struct disk_set *set, uint32_t vnode)
{
    const uint64_t bit = UINT64_C(1) << (vnode % 64);

    ASSERT(vnode < DISK_VNODES_MAX);
    set->count += (set->words[vnode / 64] & bit) == 0;
    set->words[vnode / 64] |= bit;
}

void disk_set_remove(struct disk_set *set, uint32_t vnode)
{
    const uint64_t bit = UINT64_C(1) << (vnode % 64);

    ASSERT(vnode < DISK_VNODES_MAX);
    set->count -= (set->words[vnode / 64] & bit) != 0;
    set->words[vnode / 64] &= ~bit;
}

uint32_t disk_set_next(const struct disk_set *set, uint32_t from)
{
    for (uint32_t word = from / 64; word < DISK_VNODES_MAX / 64; word++) {
        uint64_t bits = set->words[word];
        if (word == from / 64)
            bits &= ~UINT64_C(0) << (from % 64);
        if (bits != 0)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return DISK_VNODES_MAX;
}

void disk_set_move(struct disk_set *to, struct disk_set *from)
{
    if (from->count == 0)
        return;
    for (uint32_t vnode = disk_set_next(from, 0); vnode < DISK_VNODES_MAX;
         vnode = disk_set_next(from, vnode + 1))
        disk_set_add(to, vnode);
    *from = (struct disk_set){.count = 0};
}

/* ---- what the threads share with this file --------------------------------------------------- */

int64_t disk_mono_ns(void)
{
    struct timespec now;
    const int result = clock_gettime(CLOCK_MONOTONIC, &now);

    ASSERT(result == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t disk_now_ms(const struct disk *disk)
{
    const int64_t now_ns = clock_now_ns(disk->options.clock);

    return now_ns > 0 ? (uint64_t)now_ns / 1000000 : 0;
}

void disk_ready(struct disk *disk, struct lane *lane, uint32_t count)
{
    ASSERT(count > 0 && lane->shard < disk->options.shard_count);
    atomic_fetch_add_explicit(&lane->ready, count, memory_order_release); /* DISK-8 */
    if (!disk->stopping)
        disk->options.wake(disk->options.context, lane->shard);
}

/* ---- what the shards call -------------------------------------------------------------------- */

static struct lane *lane_at(struct disk *disk, uint32_t shard)
{
    ASSERT(disk->options.store != NULL);
    ASSERT(shard < disk->options.shard_count);
    return &disk->lanes[shard];
}

static void lock(struct disk *disk)
{
    const int result = pthread_mutex_lock(&disk->lock);

    ASSERT(result == 0);
}

static void unlock(struct disk *disk)
{
    (void)pthread_mutex_unlock(&disk->lock);
}

void disk_write(struct disk *disk, uint32_t shard, const struct shard_writes *writes)
{
    struct lane *lane = lane_at(disk, shard);

    ASSERT(writes->count <= DISK_WRITES_MAX);
    lock(disk);
    ASSERT(lane->write_state == WRITE_NONE); /* one batch out */
    lane->writes = writes;
    lane->write_state = WRITE_QUEUED;
    (void)pthread_cond_signal(&disk->writer_work);
    unlock(disk);
}

int disk_load(struct disk *disk, uint32_t shard, uint32_t vnode, struct hash128 id)
{
    if (disk->options.store == NULL)
        return TG_ENOTFOUND;
    struct lane *lane = lane_at(disk, shard);
    int result = TG_EBUSY;

    lock(disk);
    if (lane->loads_out < DISK_LOADS_MAX) { /* DISK-6 */
        ASSERT(lane->queue_count <= lane->loads_out);
        const uint32_t at = (lane->queue_first + lane->queue_count) % DISK_LOADS_MAX;
        lane->queue[at] = (struct load){.vnode = vnode, .id = id};
        lane->queue_count++;
        lane->loads_out++;
        (void)pthread_cond_signal(&disk->reader_work);
        result = TG_OK;
    }
    unlock(disk);
    if (result == TG_OK || lane->refused_count == DISK_REFUSED_MAX)
        return result;
    lane->refused[lane->refused_count++] = (struct load){.vnode = vnode, .id = id};
    return TG_OK;
}

bool disk_journal(struct disk *disk, uint32_t shard, const struct shard_journal *batch)
{
    if (disk->options.store == NULL)
        return false;
    struct lane *lane = lane_at(disk, shard);

    ASSERT(batch->count <= DISK_JOURNAL_RECORDS);
    lock(disk);
    ASSERT(lane->journal_state == WRITE_NONE); /* one batch out */
    lane->journal = batch;
    lane->journal_state = WRITE_QUEUED;
    (void)pthread_cond_signal(&disk->journal_work);
    unlock(disk);
    return true;
}

static bool is_ahead(enum write_state state)
{
    return state == WRITE_QUEUED || state == WRITE_RUNNING;
}

void disk_drop(struct disk *disk, uint32_t shard, uint32_t vnode)
{
    if (disk->options.store == NULL)
        return;
    struct lane *lane = lane_at(disk, shard);

    lock(disk);
    if (vnode < disk->options.vnodes) { /* DISK-7 */
        disk_set_add(is_ahead(lane->write_state) ? &lane->drops_later : &lane->drops_now, vnode);
        (void)pthread_cond_signal(&disk->writer_work);
    } else {
        disk_set_add(is_ahead(lane->journal_state) ? &lane->journal_drops_later
                                                   : &lane->journal_drops_now,
                     vnode);
        (void)pthread_cond_signal(&disk->journal_work);
    }
    unlock(disk);
}

/* The shard is done with the piece it polled: the next one may be read into its place. */
static void release_piece(struct disk *disk, struct lane *lane)
{
    const bool ended = lane->list_result != TG_OK || lane->listing.complete;

    ASSERT(lane->list_state == LIST_POLLED);
    lane->list_spent = false;
    lane->list_state = ended ? LIST_NONE : LIST_QUEUED;
    if (!ended)
        (void)pthread_cond_signal(&disk->reader_work);
}

void disk_list(struct disk *disk, uint32_t shard, uint32_t vnode)
{
    struct lane *lane = lane_at(disk, shard);

    lock(disk);
    if (lane->list_spent)
        release_piece(disk, lane);
    ASSERT(lane->list_state == LIST_NONE); /* one listing out */
    lane->listing = (struct store_listing){.vnode = vnode};
    lane->list_state = LIST_QUEUED;
    (void)pthread_cond_signal(&disk->reader_work);
    unlock(disk);
}

static void poll_written(struct lane *lane, struct disk_result *out)
{
    ASSERT(lane->writes != NULL && !lane->drops_later.count); /* DISK-7, DISK-9 */
    *out = (struct disk_result){.kind = DISK_WRITTEN, .ok = lane->write_ok};
    lane->write_state = WRITE_NONE;
    lane->writes = NULL;
}

static void poll_journaled(struct lane *lane, struct disk_result *out)
{
    ASSERT(lane->journal != NULL && !lane->journal_drops_later.count); /* DISK-7, DISK-9 */
    *out = (struct disk_result){.kind = DISK_JOURNALED, .ok = lane->journal_ok};
    lane->journal_state = WRITE_NONE;
    lane->journal = NULL;
}

static void poll_loaded(struct lane *lane, struct disk_result *out)
{
    ASSERT(lane->read_polled < lane->read_count && lane->loads_out > 0); /* DISK-6 */
    const struct store_slot_read *read = &lane->reads[lane->read_polled++];

    *out = (struct disk_result){
        .kind = DISK_LOADED, .vnode = read->vnode, .id = read->id, .result = read->result};
    if (read->result == TG_OK) {
        out->bytes = read->record.state;
        out->len = read->record.len;
    }
    lane->loads_out--;
    lane->read_spent = lane->read_polled == lane->read_count;
}

static void poll_listed(struct lane *lane, struct disk_result *out)
{
    ASSERT(lane->list_count <= DISK_LIST_IDS && !lane->list_spent);
    *out = (struct disk_result){.kind = DISK_LISTED,
                                .vnode = lane->listing.vnode,
                                .result = lane->list_result,
                                .ids = lane->list_ids,
                                .count = lane->list_count,
                                .last = lane->list_result == TG_OK && lane->listing.complete};
    lane->list_state = LIST_POLLED;
    lane->list_spent = true;
}

/* The batch whose last result the shard has been given: its bytes are done with. */
static void release_batch(struct disk *disk, struct lane *lane)
{
    ASSERT(lane->read_state == READ_READY && lane->read_polled == lane->read_count);
    lane->read_spent = false;
    lane->read_state = READ_FREE;
    if (lane->queue_count > 0)
        (void)pthread_cond_signal(&disk->reader_work);
}

/* A load that found no room, if there is one. */
static bool poll_refused(struct lane *lane, struct disk_result *out)
{
    if (lane->refused_count == 0)
        return false;
    ASSERT(lane->refused_count <= DISK_REFUSED_MAX); /* DISK-6 */
    const struct load *load = &lane->refused[--lane->refused_count];
    *out = (struct disk_result){
        .kind = DISK_LOADED, .vnode = load->vnode, .id = load->id, .result = TG_EBUSY};
    return true;
}

bool disk_poll(struct disk *disk, uint32_t shard, struct disk_result *out)
{
    if (disk->options.store == NULL)
        return false;
    struct lane *lane = lane_at(disk, shard);
    bool found = true;

    /* read_spent and list_spent are written by this thread alone. */
    if (atomic_load_explicit(&lane->ready, memory_order_acquire) == 0 && !lane->read_spent &&
        !lane->list_spent)
        return poll_refused(lane, out);
    lock(disk);
    if (lane->read_spent)
        release_batch(disk, lane);
    if (lane->list_spent)
        release_piece(disk, lane);
    if (lane->journal_state == WRITE_DONE)
        poll_journaled(lane, out); /* answers wait for it */
    else if (lane->write_state == WRITE_DONE)
        poll_written(lane, out);
    else if (lane->read_state == READ_READY)
        poll_loaded(lane, out);
    else if (lane->list_state == LIST_READY)
        poll_listed(lane, out);
    else
        found = false;
    if (found) {
        const uint32_t before = atomic_fetch_sub_explicit(&lane->ready, 1, memory_order_relaxed);
        ASSERT(before > 0); /* DISK-8 */
    }
    unlock(disk);
    return found || poll_refused(lane, out);
}

void disk_stats(struct disk *disk, struct disk_stats *out)
{
    *out = (struct disk_stats){.writes = 0};
    if (disk->options.store == NULL)
        return;
    lock(disk);
    *out = disk->stats;
    unlock(disk);
}

/* ---- the invariants -------------------------------------------------------------------------- */

static void check_set(const struct disk_set *set)
{
    uint32_t count = 0;

    for (uint32_t word = 0; word < DISK_VNODES_MAX / 64; word++)
        count += (uint32_t)__builtin_popcountll(set->words[word]);
    INVARIANT("DISK-9", count == set->count);
}

static void check_loads(const struct lane *lane)
{
    const bool batch = lane->read_state != READ_FREE;
    const uint32_t out = batch ? lane->read_count - lane->read_polled : 0;

    INVARIANT("DISK-6", lane->read_polled <= lane->read_count || !batch);
    INVARIANT("DISK-6", lane->read_count <= DISK_READ_BATCH);
    INVARIANT("DISK-6", lane->loads_out == lane->queue_count + out);
    INVARIANT("DISK-6", lane->loads_out <= DISK_LOADS_MAX);
    INVARIANT("DISK-6", lane->queue_first < DISK_LOADS_MAX);
}

static void check_lane(const struct lane *lane)
{
    const uint32_t loaded =
        lane->read_state == READ_READY ? lane->read_count - lane->read_polled : 0;
    const uint32_t others = (uint32_t)(lane->write_state == WRITE_DONE) +
                            (lane->journal_state == WRITE_DONE) + (lane->list_state == LIST_READY);

    check_loads(lane);
    check_set(&lane->drops_now);
    check_set(&lane->drops_later);
    check_set(&lane->journal_drops_now);
    check_set(&lane->journal_drops_later);
    INVARIANT("DISK-7", lane->drops_later.count == 0 || is_ahead(lane->write_state));
    INVARIANT("DISK-7", lane->journal_drops_later.count == 0 || is_ahead(lane->journal_state));
    INVARIANT("DISK-8", atomic_load(&lane->ready) == loaded + others);
    INVARIANT("DISK-9", (lane->writes == NULL) == (lane->write_state == WRITE_NONE));
    INVARIANT("DISK-9", (lane->journal == NULL) == (lane->journal_state == WRITE_NONE));
    INVARIANT("DISK-4", (lane->list_state != LIST_READY && lane->list_state != LIST_POLLED) ||
                            lane->list_count <= DISK_LIST_IDS); /* else it is the reader's */
}

void disk_check_invariants(struct disk *disk)
{
    if (disk->options.store == NULL)
        return;
    lock(disk);
    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        INVARIANT("DISK-8", disk->lanes[i].shard == i);
        check_lane(&disk->lanes[i]);
    }
    unlock(disk);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int start_thread(pthread_t *thread, void *(*run)(void *), struct disk *disk)
{
    return pthread_create(thread, NULL, run, disk) == 0 ? TG_OK : TG_EIO;
}

static int init_locks(struct disk *disk)
{
    pthread_condattr_t monotonic;
    int failed = pthread_condattr_init(&monotonic);

    if (failed != 0)
        return TG_ENOMEM;
    failed |= pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    failed |= pthread_mutex_init(&disk->lock, NULL);
    failed |= pthread_cond_init(&disk->writer_work, &monotonic);
    failed |= pthread_cond_init(&disk->reader_work, &monotonic);
    failed |= pthread_cond_init(&disk->journal_work, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return failed == 0 ? TG_OK : TG_ENOMEM;
}

/* Takes everything that threads and lanes will need. What was taken is given back by give_back. */
static int take(struct disk *disk)
{
    const struct allocator *allocator = disk->options.allocator;

    disk->lanes = alloc_array(allocator, disk->options.shard_count, sizeof(*disk->lanes));
    disk->batches = alloc_array(allocator, DISK_CHUNK_BATCHES, sizeof(*disk->batches));
    disk->headers = alloc_array(allocator, DISK_CHUNK_BATCHES, sizeof(*disk->headers));
    disk->records = alloc_array(allocator, DISK_CHUNK_RECORDS, sizeof(*disk->records));
    disk->order = alloc_array(allocator, DISK_WRITES_MAX, sizeof(*disk->order));
    disk->starts = alloc_array(allocator, DISK_VNODES_MAX, sizeof(*disk->starts));
    disk->journal_records = alloc_array(allocator, disk->options.shard_count * DISK_JOURNAL_RECORDS,
                                        sizeof(*disk->journal_records));
    if (disk->journal_records == NULL || disk->lanes == NULL || disk->batches == NULL ||
        disk->headers == NULL || disk->records == NULL || disk->order == NULL ||
        disk->starts == NULL)
        return TG_ENOMEM;
    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        disk->lanes[i].shard = i;
        disk->lanes[i].read_bytes = alloc_get(allocator, DISK_READ_BYTES);
        if (disk->lanes[i].read_bytes == NULL)
            return TG_ENOMEM;
    }
    return TG_OK;
}

static void give_back(struct disk *disk)
{
    const struct allocator *allocator = disk->options.allocator;

    for (uint32_t i = 0; disk->lanes != NULL && i < disk->options.shard_count; i++)
        alloc_put(allocator, disk->lanes[i].read_bytes, DISK_READ_BYTES);
    alloc_put(allocator, disk->lanes, disk->options.shard_count * sizeof(*disk->lanes));
    alloc_put(allocator, disk->batches, DISK_CHUNK_BATCHES * sizeof(*disk->batches));
    alloc_put(allocator, disk->headers, DISK_CHUNK_BATCHES * sizeof(*disk->headers));
    alloc_put(allocator, disk->records, DISK_CHUNK_RECORDS * sizeof(*disk->records));
    alloc_put(allocator, disk->order, DISK_WRITES_MAX * sizeof(*disk->order));
    alloc_put(allocator, disk->starts, DISK_VNODES_MAX * sizeof(*disk->starts));
    alloc_put(allocator, disk->journal_records,
              disk->options.shard_count * DISK_JOURNAL_RECORDS * sizeof(*disk->journal_records));
    alloc_put(allocator, disk, sizeof(*disk));
}

static void stop_threads(struct disk *disk)
{
    lock(disk);
    disk->stopping = true;
    (void)pthread_cond_broadcast(&disk->writer_work);
    (void)pthread_cond_broadcast(&disk->reader_work);
    (void)pthread_cond_broadcast(&disk->journal_work);
    unlock(disk);
    if (disk->writer_started)
        (void)pthread_join(disk->writer, NULL);
    if (disk->reader_started)
        (void)pthread_join(disk->reader, NULL);
    if (disk->journal_started)
        (void)pthread_join(disk->journal, NULL);
    (void)pthread_cond_destroy(&disk->journal_work);
    (void)pthread_cond_destroy(&disk->reader_work);
    (void)pthread_cond_destroy(&disk->writer_work);
    (void)pthread_mutex_destroy(&disk->lock);
}

static int start(struct disk *disk)
{
    int result = init_locks(disk);

    if (result != TG_OK)
        return result;
    result = start_thread(&disk->writer, disk_writer_run, disk);
    disk->writer_started = result == TG_OK;
    if (result == TG_OK)
        result = start_thread(&disk->reader, disk_reader_run, disk);
    disk->reader_started = disk->writer_started && result == TG_OK;
    if (result == TG_OK)
        result = start_thread(&disk->journal, disk_journal_run, disk);
    disk->journal_started = disk->reader_started && result == TG_OK;
    if (result != TG_OK)
        stop_threads(disk);
    return result;
}

int disk_new(const struct disk_options *options, struct disk **out)
{
    *out = NULL;
    if (options->shard_count == 0 || options->shard_count > DISK_SHARDS_MAX)
        return TG_EINVALID;
    struct disk *disk = alloc_get(options->allocator, sizeof(*disk));
    int result = TG_OK;

    if (disk == NULL)
        return TG_ENOMEM;
    disk->options = *options;
    if (options->pages_max == 0)
        disk->options.pages_max = UINT64_MAX;
    if (options->store != NULL)
        result = take(disk);
    if (result == TG_OK && options->store != NULL)
        result = start(disk);
    if (result != TG_OK) {
        give_back(disk);
        return result;
    }
    *out = disk;
    return TG_OK;
}

void disk_free(struct disk **disk)
{
    if (*disk == NULL)
        return;
    if ((*disk)->options.store != NULL)
        stop_threads(*disk);
    give_back(*disk);
    *disk = NULL;
}

void disk_close(struct disk *disk, bool closed)
{
    atomic_store_explicit(&disk->closed, closed, memory_order_relaxed);
}

bool disk_closed(const struct disk *disk)
{
    return atomic_load_explicit(&disk->closed, memory_order_relaxed);
}

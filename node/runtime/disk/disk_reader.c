/* disk_reader.c - the reader thread: gathers what is queued and reads it in one transaction.
 *
 *   lane: queue of loads --> reads[<= DISK_READ_BATCH] --> store_read_slots   --> READY, wake
 *                            of the second plane       --> store_journal_read
 *
 * A lane has one batch; while the shard is still polling it, its further loads wait in the queue
 * and the reader serves the other lanes. So memory is bounded, whatever the states' sizes.
 *
 * DISKREADER-1  A load leaves the queue for exactly one batch; if its state found no room in the
 *               batch's bytes it goes back to the head of the queue, and the batch still has at
 *               least one result.
 * DISKREADER-2  The lock is not held while the store reads.
 * DISKREADER-3  Loads and listings take turns, a batch and a piece: a listing never holds up a
 *               check for longer than one piece takes, and loads that never end do not starve the
 *               listing that would make them unnecessary.
 *
 * Must not: write, or answer a load that the shard did not ask for.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "node/runtime/disk/disk_lane.h"

/* The next lane with queued loads and a free batch, or NULL. Lock held. */
static struct lane *next_lane(struct disk *disk)
{
    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        const uint32_t at = (disk->reader_next + i) % disk->options.shard_count;
        struct lane *lane = &disk->lanes[at];
        if (lane->queue_count == 0 || lane->read_state != READ_FREE)
            continue;
        disk->reader_next = at + 1;
        return lane;
    }
    return NULL;
}

/* Moves queued loads into the lane's batch. Lock held. */
static void fill_batch(struct lane *lane)
{
    ASSERT(lane->read_state == READ_FREE && lane->queue_count <= lane->loads_out); /* DISK-6 */
    lane->read_count = 0;
    lane->read_polled = 0;
    lane->read_state = READ_RUNNING;
    while (lane->queue_count > 0 && lane->read_count < DISK_READ_BATCH) {
        const struct load *load = &lane->queue[lane->queue_first];
        lane->reads[lane->read_count++] =
            (struct store_slot_read){.vnode = load->vnode, .id = load->id};
        lane->queue_first = (lane->queue_first + 1) % DISK_LOADS_MAX;
        lane->queue_count--;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct store_slot_read *x = a;
    const struct store_slot_read *y = b;

    if (x->vnode != y->vnode)
        return x->vnode < y->vnode ? -1 : 1;
    if (x->id.hi != y->id.hi)
        return x->id.hi < y->id.hi ? -1 : 1;
    return x->id.lo < y->id.lo ? -1 : x->id.lo > y->id.lo;
}

/* Reads `count` slots of one plane into `bytes`, of which *used are taken. */
static void read_plane(struct disk *disk,
                       int (*read)(struct store *store, struct store_slot_read *reads, size_t count,
                                   void *buffer, size_t capacity),
                       struct store_slot_read *reads, uint32_t count, uint8_t *bytes, size_t *used)
{
    if (count == 0)
        return;
    const int result =
        read(disk->options.store, reads, count, bytes + *used, DISK_READ_BYTES - *used);
    for (uint32_t i = 0; i < count; i++) {
        if (result != TG_OK)
            reads[i].result = result;
        if (reads[i].result == TG_OK)
            *used += reads[i].record.len;
    }
    ASSERT(*used <= DISK_READ_BYTES);
}

static void read_batch(struct disk *disk, struct lane *lane)
{
    uint32_t first = 0; /* of the second plane */
    size_t used = 0;

    qsort(lane->reads, lane->read_count, sizeof(*lane->reads), by_place);
    while (first < lane->read_count && lane->reads[first].vnode < disk->options.vnodes)
        first++;
    read_plane(disk, store_read_slots, lane->reads, first, lane->read_bytes, &used);
    read_plane(disk, store_journal_read, lane->reads + first, lane->read_count - first,
               lane->read_bytes, &used);
}

/* Puts back what found no room, keeping the order of the rest (DISKREADER-1). Lock held. */
static void requeue(struct lane *lane)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < lane->read_count; i++) {
        const struct store_slot_read read = lane->reads[i];
        if (read.result != TG_ETOOBIG || i == 0) {
            lane->reads[kept++] = read;
            continue;
        }
        lane->queue_first = (lane->queue_first + DISK_LOADS_MAX - 1) % DISK_LOADS_MAX;
        lane->queue[lane->queue_first] = (struct load){.vnode = read.vnode, .id = read.id};
        lane->queue_count++;
    }
    ASSERT(kept >= 1 && kept + lane->queue_count <= lane->loads_out); /* DISKREADER-1 */
    lane->read_count = kept;
}

/* Counts the results; returns the first failure among them, 0 if there is none. Lock held. */
static int count_results(struct disk *disk, const struct lane *lane)
{
    int failure = TG_OK;

    for (uint32_t i = 0; i < lane->read_count; i++) {
        const int result = lane->reads[i].result;
        disk->stats.loads++;
        disk->stats.loads_found += result == TG_OK;
        if (result == TG_OK || result == TG_ENOTFOUND)
            continue;
        disk->stats.load_fails++;
        failure = failure == TG_OK ? result : failure;
    }
    return failure;
}

/* Says once that reading fails, and once that it works again. */
static void say_state(struct disk *disk, int failure)
{
    char why[STORE_ERROR_LEN];

    if ((failure != TG_OK) == disk->read_failing)
        return;
    disk->read_failing = failure != TG_OK;
    if (failure == TG_OK) {
        log_printf(disk->options.log, LOG_LEVEL_INFO, "the store can be read again");
        return;
    }
    store_last_error(disk->options.store, why);
    log_printf(disk->options.log, LOG_LEVEL_ERROR, "cannot read a slot from the store: %s: %s",
               error_message(failure), why);
}

/* Reads one batch of loads, if any wait. Called and left with the lock held. */
static bool serve_loads(struct disk *disk)
{
    struct lane *lane = next_lane(disk);

    if (lane == NULL)
        return false;
    fill_batch(lane);
    (void)pthread_mutex_unlock(&disk->lock); /* DISKREADER-2 */
    read_batch(disk, lane);
    (void)pthread_mutex_lock(&disk->lock);
    requeue(lane);
    const int failure = count_results(disk, lane);
    ASSERT(lane->read_count > 0);
    lane->read_state = READ_READY;
    disk_ready(disk, lane, lane->read_count);
    (void)pthread_mutex_unlock(&disk->lock);
    say_state(disk, failure);
    (void)pthread_mutex_lock(&disk->lock);
    return true;
}

/* ---- listings -------------------------------------------------------------------------------- */

/* The next lane that waits for a piece of its listing, or NULL. Lock held. */
static struct lane *next_listing(struct disk *disk)
{
    for (uint32_t i = 0; i < disk->options.shard_count; i++) {
        const uint32_t at = (disk->lister_next + i) % disk->options.shard_count;
        struct lane *lane = &disk->lanes[at];
        if (lane->list_state != LIST_QUEUED)
            continue;
        disk->lister_next = at + 1;
        return lane;
    }
    return NULL;
}

/* Reads one piece of a listing, if one is asked for. Called and left with the lock held. */
static bool serve_listing(struct disk *disk)
{
    struct lane *lane = next_listing(disk);

    if (lane == NULL)
        return false;
    lane->list_state = LIST_RUNNING;
    (void)pthread_mutex_unlock(&disk->lock); /* DISKREADER-2 */
    lane->list_result =
        (lane->listing.vnode < disk->options.vnodes ? store_list : store_journal_list)(
            disk->options.store, &lane->listing, disk_now_ms(disk), lane->list_ids, DISK_LIST_IDS,
            &lane->list_count);
    (void)pthread_mutex_lock(&disk->lock);
    lane->list_state = LIST_READY;
    disk->stats.listings += lane->list_result == TG_OK && lane->listing.complete;
    disk_ready(disk, lane, 1);
    if (lane->list_result == TG_OK)
        return true;
    const int failure = lane->list_result;
    (void)pthread_mutex_unlock(&disk->lock);
    say_state(disk, failure);
    (void)pthread_mutex_lock(&disk->lock);
    return true;
}

void *disk_reader_run(void *context)
{
    struct disk *disk = context;

    (void)pthread_setname_np(pthread_self(), "disk-reader");
    (void)pthread_mutex_lock(&disk->lock);
    while (!disk->stopping) {
        bool served = serve_loads(disk);
        if (!disk->stopping)
            served = serve_listing(disk) || served; /* DISKREADER-3 */
        if (!served)
            (void)pthread_cond_wait(&disk->reader_work, &disk->lock);
    }
    (void)pthread_mutex_unlock(&disk->lock);
    return NULL;
}

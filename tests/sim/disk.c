/* disk.c - a node's disk: what survives its process.
 *
 * Identity, incarnation and meta values are durable when their effect is carried out. Slots come
 * in batches by write-back: a batch is copied when it is gathered and committed as a whole some
 * milliseconds later, unless the process crashes before, or the disk refuses it. In one seed of
 * four batches are so small that a round has many, and a crash falls between them. A vnode is
 * dropped in the order in which that was asked for, so a batch handed over before does not bring
 * it back.
 *
 * The journal is quicker and keeps promises: a batch that is out when the process ends is lost, or
 * on disk whole though nobody was told. A promise only rises, and outlives its vnode.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

enum {
    DISK_BATCH_MAX = 1 << 15,
    DISK_BATCH_SMALL = 5,
    DISK_EFFORT_SMALL = 2, /* slots that a step handles */
    DISK_BYTES_MAX = 8 << 20,
    DISK_FAIL_PPM = 20000,
    DISK_PIECE = 16, /* ids of one piece of a listing */
    DISK_JOURNAL_MAX = 4096,
    DISK_JOURNAL_MIN_US = 300, /* until a batch is durable */
    DISK_JOURNAL_MAX_US = 5000,
    DISK_JOURNAL_KEPT_PPM = 500000, /* of the batches that are out when the process ends */
};

/* ---- named values ---------------------------------------------------------------------------- */

/* The place of `key`, or the count of values if it has none. */
static uint32_t meta_at(const struct disk *disk, const char *key)
{
    uint32_t at = 0;
    while (at < disk->now.meta_count && strcmp(disk->now.metas[at].key, key) != 0)
        at++;
    return at;
}

void disk_put_meta(struct disk *disk, const char *key, const uint8_t *bytes, size_t len)
{
    const uint32_t at = meta_at(disk, key);
    struct disk_meta *meta = &disk->now.metas[at];
    if (bytes == NULL) {
        if (at < disk->now.meta_count) {
            free(meta->bytes);
            disk->now.meta_count--;
            memmove(meta, meta + 1, (disk->now.meta_count - at) * sizeof *meta);
        }
        return;
    }
    ASSERT(at < SIM_METAS_MAX && strlen(key) < sizeof meta->key);
    if (at == disk->now.meta_count) {
        disk->now.meta_count++;
        meta->bytes = NULL; /* one that moved away may have left its own there */
        memcpy(meta->key, key, strlen(key) + 1);
    }
    free(meta->bytes);
    meta->bytes = sim_copy(bytes, len);
    meta->len = len;
}

struct disk_meta disk_get_meta(const struct disk *disk, const char *key)
{
    const uint32_t at = meta_at(disk, key);
    return at < disk->now.meta_count ? disk->now.metas[at] : (struct disk_meta){.bytes = NULL};
}

static int compare_metas(const void *a, const void *b)
{
    return strcmp(((const struct disk_meta *)a)->key, ((const struct disk_meta *)b)->key);
}

void disk_sort_metas(struct disk *disk)
{
    qsort(disk->now.metas, disk->now.meta_count, sizeof *disk->now.metas, compare_metas);
}

/* ---- records --------------------------------------------------------------------------------- */

static struct disk_record **place_of(struct disk *disk, uint32_t vnode, struct hash128 id)
{
    struct disk_record **place = &disk->now.buckets[vnode][id.lo % SIM_DISK_BUCKETS];
    while (*place != NULL && !hash128_equal((*place)->id, id))
        place = &(*place)->next;
    return place;
}

const struct disk_record *disk_find(const struct disk *disk, uint32_t vnode, struct hash128 id)
{
    const struct disk_record *record = disk->now.buckets[vnode][id.lo % SIM_DISK_BUCKETS];
    while (record != NULL && !hash128_equal(record->id, id))
        record = record->next;
    return record;
}

static void put(struct disk *disk, uint32_t vnode, struct hash128 id, const uint8_t *state,
                uint32_t len)
{
    struct disk_record **place = place_of(disk, vnode, id);
    struct disk_record *next = NULL;
    if (*place != NULL) {
        next = (*place)->next;
        free(*place);
        *place = next;
        disk->now.records--;
    }
    if (len == 0)
        return;
    struct disk_record *record = malloc(sizeof *record + len);
    ASSERT(record != NULL);
    record->next = next;
    record->vnode = vnode;
    record->id = id;
    record->len = len;
    memcpy(record->state, state, len);
    *place = record;
    disk->now.records++;
}

/* As the journal does it, what was accepted of a term is kept as a promise. */
static void forget_vnode(struct disk *disk, uint32_t vnode)
{
    const struct term *state = &disk->now.headers[vnode].state;
    if (disk->now.has_header[vnode] && term_compare(&disk->now.promises[vnode], state) < 0)
        disk->now.promises[vnode] = *state;
    disk->now.has_header[vnode] = false;
    for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++) {
        while (disk->now.buckets[vnode][i] != NULL) {
            struct disk_record *record = disk->now.buckets[vnode][i];
            disk->now.buckets[vnode][i] = record->next;
            free(record);
            disk->now.records--;
        }
    }
}

void disk_drop(struct sim *sim, struct node *node, uint32_t vnode)
{
    const uint32_t place = vnode % sim->vnodes;
    struct disk_batch *batch = &node->disk.batches[place % node->shard_count];
    struct disk_journal *journal = &node->disk.journals[place % node->shard_count];
    const bool journaled = vnode >= sim->vnodes;
    if (journaled ? journal->out : batch->out)
        (journaled ? journal->drop : batch->drop)[place] = true;
    else
        forget_vnode(&node->disk, vnode);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Whether the disk fails at this once. */
static bool errs(struct sim *sim)
{
    return sim_chance(sim, STREAM_DISK, DISK_FAIL_PPM) &&
           options_fault(&sim->options, FAULT_DISK_ERROR);
}

static void batch_end(struct disk_batch *batch)
{
    free(batch->writes);
    free(batch->headers);
    free(batch->bytes);
    memset(batch, 0, sizeof *batch);
}

/* What a shard gathers into, over several calls. */
static struct shard_writes *writes_of(struct disk *disk, uint8_t shard)
{
    struct shard_writes *writes = &disk->writes[shard];
    if (writes->writes != NULL)
        return writes;
    writes->writes = calloc(DISK_BATCH_MAX, sizeof *writes->writes);
    writes->headers = calloc(SIM_VNODES_MAX, sizeof *writes->headers);
    writes->bytes = malloc(DISK_BYTES_MAX);
    writes->bytes_capacity = DISK_BYTES_MAX;
    ASSERT(writes->writes != NULL && writes->headers != NULL && writes->bytes != NULL);
    return writes;
}

static void writes_end(struct shard_writes *writes)
{
    free(writes->writes);
    free(writes->headers);
    free(writes->bytes);
    memset(writes, 0, sizeof *writes);
}

void disk_gather(struct sim *sim, struct node *node, uint8_t shard)
{
    const int64_t node_ns = shell_clock(sim, node);
    struct disk_batch *batch = &node->disk.batches[shard];
    if (batch->out || !shard_write_due(node->shards[shard], node_ns))
        return;
    struct shard_writes *out = writes_of(&node->disk, shard);
    out->capacity = sim->options.piecemeal && !sim->flooded ? DISK_BATCH_SMALL : DISK_BATCH_MAX;
    out->effort = sim->options.bit_by_bit && !sim->flooded ? DISK_EFFORT_SMALL : 0;
    shard_gather(node->shards[shard], node_ns, out);
    if (out->count == 0)
        return;
    batch->out = true;
    batch->count = out->count;
    batch->header_count = out->header_count;
    batch->writes =
        (struct shard_write *)(void *)sim_copy(out->writes, out->count * sizeof *out->writes);
    batch->headers = (struct shard_write_header *)(void *)sim_copy(
        out->headers, out->header_count * sizeof *out->headers);
    batch->bytes = sim_copy(out->bytes, out->bytes_len);
    const struct event event = {
        .at_ns = sim->now_ns + random_between(sim_stream(sim, STREAM_DISK), SIM_MS, 40 * SIM_MS),
        .kind = EVENT_COMMIT,
        .node = node->index,
        .shard = shard,
        .tag = node->boots,
    };
    queue_push(&sim->queue, &event);
}

void disk_commit(struct sim *sim, struct node *node, uint8_t shard)
{
    struct disk *disk = &node->disk;
    struct disk_batch *batch = &disk->batches[shard];
    const bool ok = sim->now_ns >= disk->full_until_ns && !errs(sim);
    ASSERT(batch->out);
    for (uint32_t i = 0; ok && i < batch->count; i++)
        put(disk, batch->writes[i].vnode, batch->writes[i].id,
            batch->bytes + batch->writes[i].offset, batch->writes[i].len);
    for (uint32_t i = 0; ok && i < batch->header_count; i++) {
        disk->now.headers[batch->headers[i].vnode] = batch->headers[i];
        disk->now.has_header[batch->headers[i].vnode] = true;
    }
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        if (batch->drop[vnode])
            forget_vnode(disk, vnode);
    sim->coverage.commits += ok;
    sim->coverage.commits_failed += !ok;
    batch_end(batch);
    shard_written(node->shards[shard], shell_clock(sim, node), ok);
}

/* ---- journal --------------------------------------------------------------------------------- */

static void journal_end(struct disk_journal *journal)
{
    free(journal->records);
    free(journal->bytes);
    memset(journal, 0, sizeof *journal);
}

bool disk_journal(struct sim *sim, struct node *node, uint8_t shard)
{
    struct disk_journal *journal = &node->disk.journals[shard];
    const int64_t node_ns = shell_clock(sim, node);
    if (!shard_journal_due(node->shards[shard]))
        return false;
    ASSERT(!journal->out);
    if (sim->journal.records == NULL) {
        sim->journal.capacity = DISK_JOURNAL_MAX;
        sim->journal.bytes_capacity = DISK_BYTES_MAX;
        sim->journal.records = calloc(DISK_JOURNAL_MAX, sizeof *sim->journal.records);
        sim->journal.bytes = malloc(DISK_BYTES_MAX);
        ASSERT(sim->journal.records != NULL && sim->journal.bytes != NULL);
    }
    shard_journal_gather(node->shards[shard], node_ns, &sim->journal);
    if (sim->journal.count == 0) {
        shard_journaled(node->shards[shard], node_ns, true, &sim->effects);
        return true;
    }
    journal->out = true;
    journal->count = sim->journal.count;
    journal->records = (struct shard_journal_record *)(void *)sim_copy(
        sim->journal.records, sim->journal.count * sizeof *sim->journal.records);
    journal->bytes = sim_copy(sim->journal.bytes, sim->journal.bytes_len);
    const struct event event = {
        .at_ns = sim->now_ns + random_between(sim_stream(sim, STREAM_DISK),
                                              DISK_JOURNAL_MIN_US * (SIM_MS / 1000),
                                              DISK_JOURNAL_MAX_US * (SIM_MS / 1000)),
        .kind = EVENT_JOURNALED,
        .node = node->index,
        .shard = shard,
        .tag = node->boots,
    };
    queue_push(&sim->queue, &event);
    return false;
}

static void journal_put(struct disk *disk, const struct shard_journal_record *record,
                        const uint8_t *bytes)
{
    const uint32_t vnode = record->vnode;
    struct disk_content *now = &disk->now;
    ASSERT(vnode < SIM_PLANES_VNODES);
    switch ((enum shard_journal_kind)record->kind) {
    case JOURNAL_PROMISE:
        if (term_is_none(&now->promises[vnode]) ||
            term_compare(&record->term, &now->promises[vnode]) > 0)
            now->promises[vnode] = record->term;
        break;
    case JOURNAL_HEADER:
        now->has_header[vnode] = true;
        now->headers[vnode] =
            (struct shard_write_header){.vnode = vnode, .state = record->term, .seq = record->seq};
        break;
    case JOURNAL_SLOT:
        put(disk, vnode, record->id, bytes + record->offset, record->len);
        break;
    }
}

static void journal_commit(struct sim *sim, struct disk *disk, struct disk_journal *journal,
                           bool ok)
{
    for (uint32_t i = 0; ok && i < journal->count; i++)
        journal_put(disk, &journal->records[i], journal->bytes);
    for (uint32_t place = 0; place < sim->vnodes; place++)
        if (journal->drop[place])
            forget_vnode(disk, sim->vnodes + place);
    journal_end(journal);
}

void disk_journaled(struct sim *sim, struct node *node, uint8_t shard)
{
    const bool ok = sim->now_ns >= node->disk.full_until_ns && !errs(sim);
    ASSERT(node->disk.journals[shard].out);
    journal_commit(sim, &node->disk, &node->disk.journals[shard], ok);
    shard_journaled(node->shards[shard], shell_clock(sim, node), ok, &sim->effects);
}

/* ---- reading --------------------------------------------------------------------------------- */

void disk_loaded(struct sim *sim, struct node *node, const struct event *event)
{
    const struct disk_record *record = disk_find(&node->disk, event->vnode, event->id);
    int result = record == NULL ? TG_ENOTFOUND : 0;
    if (errs(sim))
        result = TG_EIO;
    shard_loaded(node->shards[event->shard], shell_clock(sim, node), event->vnode, event->id,
                 result, result == 0 ? record->state : NULL, result == 0 ? record->len : 0,
                 &sim->effects);
}

void disk_listed(struct sim *sim, struct node *node, uint8_t shard, uint32_t vnode)
{
    const int64_t node_ns = shell_clock(sim, node);
    struct hash128 ids[DISK_PIECE];
    size_t count = 0;
    if (errs(sim)) {
        shard_listed(node->shards[shard], node_ns, vnode, NULL, 0, false, TG_EIO);
        return;
    }
    for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++) {
        for (const struct disk_record *record = node->disk.now.buckets[vnode][i]; record != NULL;
             record = record->next) {
            ids[count++] = record->id;
            if (count < DISK_PIECE)
                continue;
            shard_listed(node->shards[shard], node_ns, vnode, ids, count, false, 0);
            count = 0;
        }
    }
    shard_listed(node->shards[shard], node_ns, vnode, ids, count, true, 0);
}

static void restore_vnode(struct sim *sim, struct node *node, uint8_t shard, uint32_t vnode)
{
    const struct disk *disk = &node->disk;
    for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++) {
        for (const struct disk_record *record = disk->now.buckets[vnode][i]; record != NULL;
             record = record->next) {
            const int result =
                shard_restore_slot(node->shards[shard], vnode, record->id, record->state,
                                   record->len, shell_clock(sim, node));
            if (result != 0)
                sim_fail(sim, "node %u could not restore a stored slot: %d", node->index, result);
        }
    }
    if (disk->now.has_header[vnode])
        shard_restore_vnode(node->shards[shard], vnode, &disk->now.headers[vnode].state,
                            disk->now.headers[vnode].seq);
}

void disk_restore(struct sim *sim, struct node *node, uint8_t shard)
{
    for (uint32_t place = shard; place < sim->vnodes; place += node->shard_count) {
        const uint32_t second = sim->vnodes + place;
        restore_vnode(sim, node, shard, place);
        if (!term_is_none(&node->disk.now.promises[second]))
            shard_restore_promise(node->shards[shard], second, &node->disk.now.promises[second]);
        restore_vnode(sim, node, shard, second);
    }
}

static void batches_end(struct disk *disk)
{
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        batch_end(&disk->batches[i]);
        journal_end(&disk->journals[i]);
    }
    disk->full_until_ns = 0;
}

void disk_crash(struct sim *sim, struct node *node)
{
    struct disk *disk = &node->disk;
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++)
        if (disk->journals[i].out && sim->now_ns >= disk->full_until_ns)
            journal_commit(sim, disk, &disk->journals[i],
                           sim_chance(sim, STREAM_DISK, DISK_JOURNAL_KEPT_PPM));
    batches_end(disk);
}

void disk_wipe(const struct sim *sim, struct disk *disk)
{
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        forget_vnode(disk, vnode);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static void content_fini(struct disk_content *content)
{
    for (uint32_t vnode = 0; vnode < SIM_PLANES_VNODES; vnode++) {
        for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++) {
            struct disk_record *record = content->buckets[vnode][i];
            while (record != NULL) {
                struct disk_record *next = record->next;
                free(record);
                record = next;
            }
        }
    }
    for (uint32_t i = 0; i < content->meta_count; i++)
        free(content->metas[i].bytes);
    memset(content, 0, sizeof *content);
}

static struct disk_record *copy_records(const struct disk_record *record)
{
    struct disk_record *first = NULL;
    struct disk_record **place = &first;
    for (; record != NULL; record = record->next) {
        struct disk_record *copy =
            (struct disk_record *)(void *)sim_copy(record, sizeof *record + record->len);
        copy->next = NULL;
        *place = copy;
        place = &copy->next;
    }
    return first;
}

void disk_take_snapshot(struct disk *disk)
{
    if (disk->snapshot == NULL)
        disk->snapshot = calloc(1, sizeof *disk->snapshot);
    ASSERT(disk->snapshot != NULL);
    content_fini(disk->snapshot);
    *disk->snapshot = disk->now;
    for (uint32_t vnode = 0; vnode < SIM_PLANES_VNODES; vnode++)
        for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++)
            disk->snapshot->buckets[vnode][i] = copy_records(disk->now.buckets[vnode][i]);
    for (uint32_t i = 0; i < disk->now.meta_count; i++)
        disk->snapshot->metas[i].bytes = sim_copy(disk->now.metas[i].bytes, disk->now.metas[i].len);
}

bool disk_restore_snapshot(struct disk *disk)
{
    if (disk->snapshot == NULL)
        return false;
    content_fini(&disk->now);
    disk->now = *disk->snapshot;
    free(disk->snapshot);
    disk->snapshot = NULL;
    return true;
}

void disk_fini(struct disk *disk)
{
    batches_end(disk);
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++)
        writes_end(&disk->writes[i]);
    content_fini(&disk->now);
    if (disk->snapshot != NULL)
        content_fini(disk->snapshot);
    free(disk->snapshot);
    memset(disk, 0, sizeof *disk);
}

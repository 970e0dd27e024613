/* disk.c - a node's disk: what survives its process.
 *
 * Identity, incarnation and meta values are durable when their effect is carried out. Slots come
 * in batches by write-back: a batch is copied when it is gathered and committed as a whole some
 * milliseconds later, unless the process crashes before, or the disk refuses it. A vnode is
 * dropped in the order in which that was asked for, so a batch handed over before does not bring
 * it back.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

enum {
    DISK_BATCH_MAX = 1 << 15,
    DISK_BYTES_MAX = 8 << 20,
    DISK_FAIL_PPM = 20000,
    DISK_PIECE = 16, /* ids of one piece of a listing */
};

/* ---- named values ---------------------------------------------------------------------------- */

/* The place of `key`, or the count of values if it has none. */
static uint32_t meta_at(const struct disk *disk, const char *key)
{
    uint32_t at = 0;
    while (at < disk->meta_count && strcmp(disk->metas[at].key, key) != 0)
        at++;
    return at;
}

void disk_put_meta(struct disk *disk, const char *key, const uint8_t *bytes, size_t len)
{
    const uint32_t at = meta_at(disk, key);
    struct disk_meta *meta = &disk->metas[at];
    ASSERT(at < SIM_METAS_MAX && strlen(key) < sizeof meta->key);
    if (at == disk->meta_count) {
        disk->meta_count++;
        memcpy(meta->key, key, strlen(key) + 1);
    }
    free(meta->bytes);
    meta->bytes = sim_copy(bytes, len);
    meta->len = len;
}

struct disk_meta disk_get_meta(const struct disk *disk, const char *key)
{
    const uint32_t at = meta_at(disk, key);
    return at < disk->meta_count ? disk->metas[at] : (struct disk_meta){.bytes = NULL};
}

/* ---- records --------------------------------------------------------------------------------- */

static struct disk_record **place_of(struct disk *disk, uint32_t vnode, struct hash128 id)
{
    struct disk_record **place = &disk->buckets[vnode][id.lo % SIM_DISK_BUCKETS];
    while (*place != NULL && !hash128_equal((*place)->id, id))
        place = &(*place)->next;
    return place;
}

const struct disk_record *disk_find(const struct disk *disk, uint32_t vnode, struct hash128 id)
{
    const struct disk_record *record = disk->buckets[vnode][id.lo % SIM_DISK_BUCKETS];
    while (record != NULL && !hash128_equal(record->id, id))
        record = record->next;
    return record;
}

static void put(struct disk *disk, const struct shard_write *write, const uint8_t *state)
{
    struct disk_record **place = place_of(disk, write->vnode, write->id);
    struct disk_record *next = NULL;
    if (*place != NULL) {
        next = (*place)->next;
        free(*place);
        disk->records--;
    }
    struct disk_record *record = malloc(sizeof *record + write->len);
    ASSERT(record != NULL);
    record->next = next;
    record->vnode = write->vnode;
    record->id = write->id;
    record->len = write->len;
    memcpy(record->state, state, write->len);
    *place = record;
    disk->records++;
}

static void forget_vnode(struct disk *disk, uint32_t vnode)
{
    disk->has_header[vnode] = false;
    for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++) {
        while (disk->buckets[vnode][i] != NULL) {
            struct disk_record *record = disk->buckets[vnode][i];
            disk->buckets[vnode][i] = record->next;
            free(record);
            disk->records--;
        }
    }
}

void disk_drop(struct node *node, uint32_t vnode)
{
    struct disk_batch *batch = &node->disk.batches[vnode % node->shard_count];
    if (batch->out)
        batch->drop[vnode] = true;
    else
        forget_vnode(&node->disk, vnode);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void batch_end(struct disk_batch *batch)
{
    free(batch->writes);
    free(batch->headers);
    free(batch->bytes);
    memset(batch, 0, sizeof *batch);
}

void disk_gather(struct sim *sim, struct node *node, uint8_t shard)
{
    const int64_t node_ns = sim->now_ns + node->offset_ns;
    struct disk_batch *batch = &node->disk.batches[shard];
    if (batch->out || !shard_write_due(node->shards[shard], node_ns))
        return;
    if (sim->writes == NULL) {
        sim->writes = calloc(DISK_BATCH_MAX, sizeof *sim->writes);
        sim->headers = calloc(SIM_VNODES_MAX, sizeof *sim->headers);
        sim->bytes = malloc(DISK_BYTES_MAX);
        ASSERT(sim->writes != NULL && sim->headers != NULL && sim->bytes != NULL);
    }
    struct shard_writes out = {
        .writes = sim->writes,
        .capacity = DISK_BATCH_MAX,
        .headers = sim->headers,
        .bytes = sim->bytes,
        .bytes_capacity = DISK_BYTES_MAX,
    };
    shard_gather(node->shards[shard], node_ns, &out);
    if (out.count == 0)
        return;
    batch->out = true;
    batch->count = out.count;
    batch->header_count = out.header_count;
    batch->writes =
        (struct shard_write *)(void *)sim_copy(out.writes, out.count * sizeof *out.writes);
    batch->headers = (struct shard_write_header *)(void *)sim_copy(
        out.headers, out.header_count * sizeof *out.headers);
    batch->bytes = sim_copy(out.bytes, out.bytes_len);
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
    const bool ok = !sim_chance(sim, STREAM_DISK, DISK_FAIL_PPM);
    ASSERT(batch->out);
    for (uint32_t i = 0; ok && i < batch->count; i++)
        put(disk, &batch->writes[i], batch->bytes + batch->writes[i].offset);
    for (uint32_t i = 0; ok && i < batch->header_count; i++) {
        disk->headers[batch->headers[i].vnode] = batch->headers[i];
        disk->has_header[batch->headers[i].vnode] = true;
    }
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        if (batch->drop[vnode])
            forget_vnode(disk, vnode);
    sim->coverage->commits += ok;
    sim->coverage->commits_failed += !ok;
    batch_end(batch);
    shard_written(node->shards[shard], sim->now_ns + node->offset_ns, ok);
}

void disk_listed(struct sim *sim, struct node *node, uint8_t shard, uint32_t vnode)
{
    const int64_t node_ns = sim->now_ns + node->offset_ns;
    struct hash128 ids[DISK_PIECE];
    size_t count = 0;
    if (sim_chance(sim, STREAM_DISK, DISK_FAIL_PPM)) {
        shard_listed(node->shards[shard], node_ns, vnode, NULL, 0, false, TG_EIO);
        return;
    }
    for (uint32_t i = 0; i < SIM_DISK_BUCKETS; i++) {
        for (const struct disk_record *record = node->disk.buckets[vnode][i]; record != NULL;
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
        for (const struct disk_record *record = disk->buckets[vnode][i]; record != NULL;
             record = record->next) {
            const int result =
                shard_restore_slot(node->shards[shard], vnode, record->id, record->state,
                                   record->len, sim->now_ns + node->offset_ns);
            if (result != 0)
                sim_fail(sim, "node %u could not restore a stored slot: %d", node->index, result);
        }
    }
    if (disk->has_header[vnode])
        shard_restore_vnode(node->shards[shard], vnode, &disk->headers[vnode].state,
                            disk->headers[vnode].seq);
}

void disk_restore(struct sim *sim, struct node *node, uint8_t shard)
{
    for (uint32_t vnode = shard; vnode < sim->vnodes; vnode += node->shard_count)
        restore_vnode(sim, node, shard, vnode);
}

void disk_crash(struct disk *disk)
{
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++)
        batch_end(&disk->batches[i]);
}

void disk_wipe(struct disk *disk)
{
    for (uint32_t vnode = 0; vnode < SIM_VNODES_MAX; vnode++)
        forget_vnode(disk, vnode);
}

void disk_fini(struct disk *disk)
{
    disk_crash(disk);
    disk_wipe(disk);
    for (uint32_t i = 0; i < disk->meta_count; i++)
        free(disk->metas[i].bytes);
    memset(disk, 0, sizeof *disk);
}

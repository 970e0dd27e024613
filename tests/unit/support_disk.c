/* support_disk.c - disks for a lab of shards; support_disk.h tells how they work. */
#include "tests/unit/support_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH_MAX = 1 << 12, BATCH_BYTES = 4 << 20, WANTS_MAX = 1 << 12, IDS_MAX = 1 << 14 };

struct record {
    uint32_t vnode;
    struct hash128 id;
    size_t len;
    uint8_t *bytes;
    bool damaged;
};

/* What was asked for and is answered with the next tick. */
struct want {
    bool list;
    uint32_t vnode;
    struct hash128 id;
};

struct disk {
    bool stopped;
    struct record *records;
    size_t count;
    size_t capacity;
    struct term state[LAB_VNODES];
    uint64_t seq[LAB_VNODES];
    struct want wants[WANTS_MAX];
    size_t want_count;
};

struct lab_disks {
    struct disk disks[LAB_SHARDS_MAX];
    struct shard_writes batch;
    struct hash128 ids[IDS_MAX];
};

void disks_init(struct lab *lab)
{
    struct lab_disks *disks = calloc(1, sizeof *disks);
    assert_non_null(disks);
    disks->batch = (struct shard_writes){
        .writes = calloc(BATCH_MAX, sizeof *disks->batch.writes),
        .capacity = BATCH_MAX,
        .headers = calloc(LAB_VNODES, sizeof *disks->batch.headers),
        .bytes = malloc(BATCH_BYTES),
        .bytes_capacity = BATCH_BYTES,
    };
    lab->disks = disks;
}

static void clear(struct disk *disk, size_t i)
{
    free(disk->records[i].bytes);
    disk->records[i] = disk->records[--disk->count];
}

void disks_fini(struct lab *lab)
{
    for (uint32_t at = 0; at < LAB_SHARDS_MAX; at++) {
        struct disk *disk = &lab->disks->disks[at];
        while (disk->count > 0)
            clear(disk, disk->count - 1);
        free(disk->records);
    }
    free(lab->disks->batch.writes);
    free(lab->disks->batch.headers);
    free(lab->disks->batch.bytes);
    free(lab->disks);
    lab->disks = NULL;
}

void disks_stop(struct lab *lab, uint32_t at, bool stopped)
{
    lab->disks->disks[at].stopped = stopped;
}

static struct record *find(struct disk *disk, uint32_t vnode, struct hash128 id)
{
    for (size_t i = 0; i < disk->count; i++)
        if (disk->records[i].vnode == vnode && hash128_equal(disk->records[i].id, id))
            return &disk->records[i];
    return NULL;
}

bool disks_have(const struct lab *lab, uint32_t at, uint32_t vnode, struct hash128 id)
{
    return find(&lab->disks->disks[at], vnode, id) != NULL;
}

void disks_spoil(struct lab *lab, uint32_t at, uint32_t vnode, struct hash128 id)
{
    struct record *record = find(&lab->disks->disks[at], vnode, id);
    assert_non_null(record);
    record->damaged = true;
}

void disks_load(struct lab *lab, uint32_t at, uint32_t vnode, struct hash128 id)
{
    struct disk *disk = &lab->disks->disks[at];
    assert_true(disk->want_count < WANTS_MAX);
    disk->wants[disk->want_count++] = (struct want){false, vnode, id};
}

void disks_list(struct lab *lab, uint32_t at, uint32_t vnode)
{
    struct disk *disk = &lab->disks->disks[at];
    assert_true(disk->want_count < WANTS_MAX);
    disk->wants[disk->want_count++] = (struct want){.list = true, .vnode = vnode};
}

void disks_drop(struct lab *lab, uint32_t at, uint32_t vnode)
{
    struct disk *disk = &lab->disks->disks[at];
    for (size_t i = disk->count; i-- > 0;)
        if (disk->records[i].vnode == vnode)
            clear(disk, i);
    memset(&disk->state[vnode], 0, sizeof disk->state[vnode]);
    disk->seq[vnode] = 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put(struct disk *disk, const struct shard_write *write, const uint8_t *bytes)
{
    struct record *record = find(disk, write->vnode, write->id);
    if (record == NULL && disk->count == disk->capacity) {
        disk->capacity = disk->capacity * 2 + 64;
        disk->records = realloc(disk->records, disk->capacity * sizeof *disk->records);
        assert_non_null(disk->records);
    }
    if (record == NULL) {
        record = &disk->records[disk->count++];
        *record = (struct record){.vnode = write->vnode, .id = write->id};
    }
    free(record->bytes);
    record->damaged = false;
    record->len = write->len;
    record->bytes = malloc(write->len == 0 ? 1 : write->len);
    assert_non_null(record->bytes);
    memcpy(record->bytes, bytes + write->offset, write->len);
}

static void write_batch(struct lab *lab, uint32_t at)
{
    struct disk *disk = &lab->disks->disks[at];
    struct shard_writes *batch = &lab->disks->batch;
    shard_gather(lab->shards[at].shard, lab->now_ns, batch);
    for (uint32_t i = 0; i < batch->count; i++)
        put(disk, &batch->writes[i], batch->bytes);
    for (uint32_t i = 0; i < batch->header_count; i++) {
        disk->state[batch->headers[i].vnode] = batch->headers[i].state;
        disk->seq[batch->headers[i].vnode] = batch->headers[i].seq;
    }
    if (batch->count > 0)
        shard_written(lab->shards[at].shard, lab->now_ns, true);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void answer_list(struct lab *lab, uint32_t at, uint32_t vnode)
{
    const struct disk *disk = &lab->disks->disks[at];
    size_t count = 0;
    for (size_t i = 0; i < disk->count; i++)
        if (disk->records[i].vnode == vnode) {
            assert_true(count < IDS_MAX);
            lab->disks->ids[count++] = disk->records[i].id;
        }
    shard_listed(lab->shards[at].shard, lab->now_ns, vnode, lab->disks->ids, count, true, 0);
}

static void answer(struct lab *lab, uint32_t at, const struct want *want)
{
    if (want->list) {
        answer_list(lab, at, want->vnode);
        return;
    }
    const struct record *record = find(&lab->disks->disks[at], want->vnode, want->id);
    const int result = record == NULL ? TG_ENOTFOUND : record->damaged ? TG_ECORRUPT : 0;
    shard_loaded(lab->shards[at].shard, lab->now_ns, want->vnode, want->id, result,
                 result == 0 ? record->bytes : NULL, result == 0 ? record->len : 0, &lab->effects);
    lab_perform(lab, at);
}

void disks_step(struct lab *lab, uint32_t at)
{
    struct disk *disk = &lab->disks->disks[at];
    const size_t due = disk->want_count; /* what an answer asks for waits for the next tick */
    for (size_t i = 0; i < due; i++)
        answer(lab, at, &disk->wants[i]);
    disk->want_count -= due;
    memmove(disk->wants, disk->wants + due, disk->want_count * sizeof *disk->wants);
    if (!disk->stopped && shard_write_due(lab->shards[at].shard, lab->now_ns))
        write_batch(lab, at);
}

void disks_restore(struct lab *lab, uint32_t at)
{
    struct disk *disk = &lab->disks->disks[at];
    struct shard *shard = lab->shards[at].shard;
    disk->want_count = 0;
    for (size_t i = 0; i < disk->count; i++)
        assert_int_equal(shard_restore_slot(shard, disk->records[i].vnode, disk->records[i].id,
                                            disk->records[i].bytes, disk->records[i].len,
                                            lab->now_ns),
                         0);
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        if (!term_is_none(&disk->state[vnode]))
            shard_restore_vnode(shard, vnode, &disk->state[vnode], disk->seq[vnode]);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool flushed(struct lab *lab, void *context)
{
    return shard_flushed(lab->shards[*(const uint32_t *)context].shard);
}

void disks_flush(struct lab *lab, uint32_t at)
{
    lab_until(lab, flushed, &at, 5000 * LAB_MS);
}

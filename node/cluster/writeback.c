/* writeback.c - dirty slots on their way to disk, and slots on their way back.
 *
 * Every flush_ns a round begins. All that is dirty then is put together by vnodes (stage.h) and
 * copied out in batches for the storage writer, one after the other:
 *
 *     mark                                                             mark + flush_ns
 *      | fill the stage | order it | batch | batch | ... | last batch, headers | next round
 *      v                                                                       v
 *     sequence numbers of the vnodes at the mark ---------------> in the headers
 *
 * Until the writer answers, slots are marked as being written; only its success makes them "on
 * disk" (node/limit/table.h), so an eviction never trusts a write that has not been committed.
 *
 * W1  At most one batch is out. What changes after it was copied stays dirty, for the next round:
 *     what would catch up with it on the way touches every vnode, and a busy node never ends it.
 * W2  The headers of vnodes (state term, sequence) go with the last batch of a round, and tell of
 *     the moment of its mark. All that was dirty then is written with them or before, so a header
 *     never claims more than is on disk, however busy the node. While slots that a complete copy
 *     left over are still on disk, its header waits: a restart would believe both. A round of which
 *     a batch failed ends without headers.
 * W3  Where the claim of a vnode fell (B2 of diverge.c), every batch until the next header has one
 *     that claims nothing: no slot of what follows is written under the old claim. What was marked
 *     of it is void. The storage writer is told, for it may write a batch in pieces (D2 of
 *     node/runtime/disk.h).
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

enum {
    STAGE_STEP = 1 << 12, /* slots put into the stage in one event */
    STAGE_SWEEPS = 32,    /* portions of a sweep that find nothing, in one event */
    ORDER_STEP = 1 << 15, /* slots put in order in one event */
    STAGE_AHEAD = 16,     /* slots that memory is asked for before they are copied out */
    WRITTEN_AHEAD = 24,   /* and before they are marked, which takes less time */
};

int writeback_init(struct shard *shard)
{
    const uint64_t most = shard->options.memory_bytes / SHARD_STAGE_SLOT_BYTES;
    return stage_init(&shard->writeback.stage, shard->allocator,
                      most == 0                ? 1
                      : most < SHARD_STAGE_MAX ? (uint32_t)most
                                               : SHARD_STAGE_MAX);
}

/* Whether no slot is dirty but those that are out. */
static bool is_gathered(const struct shard *shard)
{
    return shard->writeback.stage.left == 0 && table_target_idle(shard->table, TABLE_DISK);
}

bool writeback_clean(const struct shard *shard)
{
    return shard->options.ephemeral || (!shard->writeback.out && is_gathered(shard));
}

bool shard_write_due(const struct shard *shard, int64_t now_ns)
{
    if (shard->options.ephemeral || shard->writeback.out)
        return false;
    if (now_ns < shard->writeback.next_ns && !shard->writeback.asked && !shard->writeback.more)
        return false;
    return !is_gathered(shard) || shard->writeback.more;
}

static uint64_t expires_ms(int64_t expires_ns)
{
    return expires_ns <= 0 ? 0 : (uint64_t)expires_ns / 1000000 + 1;
}

/* Copies one slot into the batch; it is marked as being written by the caller. False if it does not
 * fit. */
static bool take_slot(struct shard *shard, uint32_t slot, struct shard_writes *out)
{
    const int len = table_export(shard->table, slot, out->bytes + out->bytes_len,
                                 out->bytes_capacity - out->bytes_len);
    if (len < 0)
        return false;
    out->writes[out->count++] = (struct shard_write){
        .vnode = table_slot_vnode(shard->table, slot),
        .id = table_slot_id(shard->table, slot),
        .expires_ms = expires_ms(table_expires_ns(shard->table, slot)),
        .offset = (uint32_t)out->bytes_len,
        .len = (uint32_t)len,
    };
    out->bytes_len += (size_t)len;
    shard->vnodes[table_slot_vnode(shard->table, slot)].header_due = true;
    shard->writeback.slots[shard->writeback.slot_count++] =
        (struct written){table_slot_ref(shard->table, slot), slot};
    return true;
}

/* Notes what the vnodes' headers will claim when all that is dirty now is on disk (W2). */
static void begin_round(struct shard *shard, int64_t now_ns)
{
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        struct vnode *vnode = &shard->vnodes[number];
        vnode->marked = !table_copy_fading(shard->table, number);
        vnode->marked_state = vnode->state;
        vnode->marked_seq = table_vnode_seq(shard->table, number);
    }
    stage_clear(&shard->writeback.stage);
    table_round_begin(shard->table);
    shard->writeback.round = ROUND_FILLS;
    shard->writeback.round_ok = true;
    shard->writeback.began_ns = now_ns;
}

/* The headers of all vnodes with slots written since headers were last taken; before the last batch
 * of a round only those of claims that fell (W3). */
static void take_headers(struct shard *shard, bool last, struct shard_writes *out)
{
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        struct vnode *vnode = &shard->vnodes[number];
        struct shard_write_header header = {.vnode = number, .fell = vnode->claim_fell};
        const bool whole = last && vnode->header_due && vnode->marked;
        if (!vnode->claim_fell && !whole)
            continue;
        if (whole) {
            vnode->header_due = false;
            vnode->claim_out = vnode->claim_fell;
            header.state = vnode->marked_state;
            header.seq = vnode->marked_seq;
        }
        out->headers[out->header_count++] = header;
    }
}

/* Puts more of what the round is about into the stage. True if that is all, or it is full. */
static bool fill_stage(struct shard *shard)
{
    struct stage *stage = &shard->writeback.stage;
    uint32_t sweeps = 0;
    for (uint32_t n = 0; n < STAGE_STEP && !stage_full(stage);) {
        const uint32_t slot = table_round_next(shard->table);
        if (slot != TABLE_NONE) {
            stage_put(stage, table_slot_ref(shard->table, slot),
                      table_slot_vnode(shard->table, slot), shard->options.vnodes);
            table_write_begin(shard->table, slot);
            n++;
        } else if (table_round_over(shard->table)) {
            return true;
        } else if (++sweeps == STAGE_SWEEPS) {
            return false;
        }
    }
    return stage_full(stage);
}

/* Goes on with the round until slots may be taken. False while they may not yet. */
static bool prepare(struct shard *shard)
{
    struct writeback *writeback = &shard->writeback;
    if (writeback->round == ROUND_FILLS && fill_stage(shard))
        writeback->round = ROUND_ORDERS;
    if (writeback->round == ROUND_ORDERS && stage_order(&writeback->stage, ORDER_STEP))
        writeback->round = ROUND_WRITES;
    return writeback->round == ROUND_WRITES;
}

static bool has_room(const struct shard *shard, const struct shard_writes *out)
{
    return out->count < out->capacity && shard->writeback.slot_count < SHARD_WRITES_MAX &&
           out->bytes_capacity - out->bytes_len >= TABLE_EXPORT_MAX;
}

/* Asks memory for a slot that is taken soon, and for what tells of a later one where it is. Returns
 * where the first most likely is. */
static uint32_t look_ahead(const struct shard *shard, uint32_t skip)
{
    const struct stage *stage = &shard->writeback.stage;
    uint64_t ref;
    if (stage_peek(stage, skip + STAGE_AHEAD, &ref))
        table_prefetch_head(shard->table, ref);
    return stage_peek(stage, skip, &ref) ? table_prefetch_ref(shard->table, ref) : 0;
}

static void take_staged(struct shard *shard, struct shard_writes *out)
{
    struct stage *stage = &shard->writeback.stage;
    uint32_t hints[STAGE_AHEAD]; /* of those that are taken next */
    for (uint32_t n = 0; n < STAGE_AHEAD; n++)
        hints[n] = look_ahead(shard, n);
    for (uint32_t n = 0; stage->left > 0 && has_room(shard, out); n++) {
        const uint64_t ref = stage_take(stage);
        const uint32_t hint = hints[n % STAGE_AHEAD];
        hints[n % STAGE_AHEAD] = look_ahead(shard, STAGE_AHEAD - 1);
        const uint32_t slot = table_write_again(shard->table, ref, hint);
        if (slot == TABLE_NONE) {
            table_write_done(shard->table, ref, hint, false);
            continue;
        }
        const bool taken = take_slot(shard, slot, out);
        ASSERT(taken); /* has_room: any slot fits */
    }
}

/* What the stage held is taken: the rest of the round if it did not hold all, or the next one. */
static void end_stage(struct shard *shard)
{
    struct writeback *writeback = &shard->writeback;
    if (!table_round_over(shard->table)) {
        stage_clear(&writeback->stage);
        writeback->round = ROUND_FILLS;
        return;
    }
    writeback->round = ROUND_NONE;
    writeback->more = !writeback->round_ok && !is_gathered(shard); /* what failed is overdue */
    writeback->next_ns = writeback->began_ns + shard->options.flush_ns;
}

void shard_gather(struct shard *shard, int64_t now_ns, struct shard_writes *out)
{
    struct writeback *writeback = &shard->writeback;
    ASSERT(!writeback->out && writeback->slot_count == 0); /* W1 */
    out->count = 0;
    out->bytes_len = 0;
    out->header_count = 0;
    if (writeback->round == ROUND_NONE)
        begin_round(shard, now_ns);
    writeback->more = true;
    if (!prepare(shard))
        return;
    take_staged(shard, out);
    if (writeback->stage.left == 0)
        end_stage(shard);
    take_headers(shard, writeback->round == ROUND_NONE && writeback->round_ok, out); /* W2 */
    writeback->out = out->count > 0;
}

void shard_written(struct shard *shard, int64_t now_ns, bool ok)
{
    ASSERT(shard->writeback.out);
    const uint32_t count = shard->writeback.slot_count;
    const struct written *written = shard->writeback.slots;
    for (uint32_t i = 0; i < count; i++) {
        if (i + WRITTEN_AHEAD < count)
            table_prefetch(shard->table, written[i + WRITTEN_AHEAD].hint);
        table_write_done(shard->table, written[i].ref, written[i].hint, ok);
    }
    shard->writeback.slot_count = 0;
    shard->writeback.out = false;
    shard->writeback.round_ok = shard->writeback.round_ok && ok;
    if (shard->writeback.round == ROUND_NONE && shard->writeback.round_ok)
        shard->writeback.dirty_ns = shard->writeback.began_ns; /* what was dirty then is on disk */
    /* Which vnodes the batch was of is not known any more: slots may have been dropped meanwhile.
     * A header too many costs a few bytes, one too few would claim slots that were not written. */
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        struct vnode *vnode = &shard->vnodes[number];
        vnode->claim_fell = vnode->claim_fell && !(ok && vnode->claim_out);
        vnode->claim_out = false;
        vnode->header_due = vnode->header_due || (!ok && vnode->role != ROLE_ABSENT);
    }
    if (!ok) {
        shard->writeback.more = false;
        shard->writeback.next_ns = now_ns + shard->options.flush_ns; /* not in a tight loop */
    }
}

bool shard_flushed(struct shard *shard)
{
    if (shard->options.ephemeral)
        return true;
    shard->writeback.asked = true;
    return writeback_clean(shard) && !shard->journaling.out && !shard_journal_due(shard);
}

/* ---- back from disk -------------------------------------------------------------------------- */

int shard_restore_slot(struct shard *shard, uint32_t number, struct hash128 id,
                       const uint8_t *state, size_t len, int64_t now_ns)
{
    struct table_stats stats;
    if (number >= 2 * shard->options.vnodes || !vnodes_mine(shard, number))
        return 0;
    shard->quorum.wanted = shard->quorum.wanted || vnodes_quorum(shard, number);
    shard->vnodes[number].beyond = true; /* W2: even if its first header was never written */
    table_stats(shard->table, &stats);
    int result = TG_EFULL;
    if (stats.bytes < stats.bytes_max / 10 * 9)
        result = table_import(shard->table, number, id, state, len, now_ns, TABLE_FROM_DISK);
    if (result != TG_EFULL)
        return result;
    table_filter_add(shard->table, number, id);
    return 0;
}

void shard_restore_vnode(struct shard *shard, uint32_t number, const struct term *state,
                         uint64_t seq)
{
    if (number >= 2 * shard->options.vnodes || !vnodes_mine(shard, number))
        return;
    if (vnodes_quorum(shard, number)) {
        journal_restored(shard, number, state, seq);
    } else {
        shard->vnodes[number].term = *state;
        shard->vnodes[number].merge.guard.blind = true;
        shard->vnodes[number].beyond = true; /* W2 */
    }
    shard->vnodes[number].state = *state;
    table_set_vnode_seq(shard->table, number, seq);
}

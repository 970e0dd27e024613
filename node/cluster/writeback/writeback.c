/* writeback.c - dirty slots on their way to disk, and slots on their way back.
 *
 * In a round all that is dirty at its mark is put together by vnodes (sort_buffer.h) and copied out
 * in batches for the storage writer, one after the other:
 *
 *     mark                                                     written         next mark
 *      | fill the stage | order it | batch | batch | ... | last batch |  flush_ns  |
 *      v                                                     v
 *     sequence numbers of the vnodes at the mark ----> in its headers
 *
 * Each call does as much of that as its caller likes (shard_writes.effort): the thread that decides
 * does it, and who asks waits meanwhile.
 *
 * The interval begins when a round is over, not when it begins: rounds of a busy node, which take
 * as long as that, would follow one another without a pause, and write a key that is asked for all
 * the time once more for ever fewer checks. Vnodes are written in the same order in each round, so
 * what dies with all replicas is what was asked in an interval, one round and one batch; in a
 * second round too, where the stage does not hold all that is dirty and the order is another one.
 *
 * While less than half of memory has room for new keys (node/limit/table/table_room.c) there is no
 * pause: what is written may leave for others.
 *
 * Until the writer answers, slots are marked as being written; only its success makes them "on
 * disk" (node/limit/table/table.h), so an eviction never trusts a write that has not been
 * committed.
 *
 * WRITEBACK-1  At most one batch is out. What changes after it was copied stays dirty, for the next
 *              round: what would catch up with it on the way touches every vnode, and a busy node
 *              never ends it.
 * WRITEBACK-2  The headers of vnodes (state term, sequence) go with the last batch of a round, and
 *              tell of the moment of its mark. All that was dirty then is written with them or
 *              before, so a header never claims more than is on disk, however busy the node. While
 *              slots that a complete copy left over are still on disk, its header waits: a restart
 *              would believe both. A round of which a batch failed ends without headers.
 * WRITEBACK-3  Where the claim of a vnode fell (RECONCILE-2), every batch until the next header has
 *              one that claims nothing: no slot of what follows is written under the old claim.
 *              What was marked of it is void. The storage writer is told, for it may write a batch
 *              in pieces (DISK-2).
 * WRITEBACK-4  Nothing is dropped on disk while a batch is being copied: its slots of the vnode
 *              would be written after that. (What is with the storage writer is written before:
 *              DISK-3.) Nor is anything copied of a vnode that is being removed.
 * WRITEBACK-5  A batch that is not complete yet is of the stage that is being written: what was
 *              gathered was copied, and what was copied is left in the stage.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

enum {
    SORT_BUFFER_PORTION = 512,  /* slots put into the stage at once, at most; */
    SORT_BUFFER_STEP = 1 << 14, /* slots, */
    SORT_BUFFER_PORTIONS = 128, /* and portions, in one event */
    ORDER_STEP = 1 << 15,       /* slots put in order in one event */
};

int writeback_init(struct shard *shard)
{
    const uint64_t most = shard->options.memory_bytes / SHARD_STAGE_SLOT_BYTES;
    table_set_write_period(shard->table, shard->options.flush_ns);
    shard->writeback.round_ok = true;
    return sort_buffer_init(&shard->writeback.sort_buffer, shard->allocator,
                            most < SHARD_STAGE_MIN   ? SHARD_STAGE_MIN
                            : most < SHARD_STAGE_MAX ? (uint32_t)most
                                                     : SHARD_STAGE_MAX,
                            shard->options.vnodes);
}

/* Whether no slot is dirty but those that are out. */
static bool is_gathered(const struct shard *shard)
{
    return shard->writeback.sort_buffer.left == 0 && table_target_idle(shard->table, TABLE_DISK);
}

bool writeback_clean(const struct shard *shard)
{
    return shard->options.ephemeral || (!shard->writeback.out && is_gathered(shard));
}

bool shard_write_due(const struct shard *shard, int64_t now_ns)
{
    if (shard->options.ephemeral || shard->writeback.out || !skew_stands(shard))
        return false;
    const struct writeback *writeback = &shard->writeback;
    const bool pressed = writeback->round_ok && table_pressed(shard->table);
    if (now_ns < writeback->next_ns && !writeback->asked && !writeback->more && !pressed)
        return false;
    return !is_gathered(shard) || shard->writeback.more;
}

void shard_close(struct shard *shard, bool closed)
{
    table_close(shard->table, closed);
}

static uint64_t expires_ms(int64_t expires_ns)
{
    return expires_ns <= 0 ? 0 : (uint64_t)expires_ns / 1000000 + 1;
}

/* Copies the first of `count` slots into the batch, unless its key is gone. */
static void take_slot(struct shard *shard, struct table_write *slots, uint32_t count,
                      struct shard_writes *out)
{
    struct table_state state;
    if (!table_write_again(shard->table, slots, count, out->bytes + out->bytes_len, &state) ||
        table_vnode_removing(shard->table, state.vnode)) /* WRITEBACK-4 */
        return;
    out->writes[out->count++] = (struct shard_write){
        .vnode = state.vnode,
        .id = state.id,
        .expires_ms = expires_ms(state.expires_ns),
        .offset = (uint32_t)out->bytes_len,
        .len = state.len,
    };
    out->bytes_len += state.len;
    shard->vnodes[state.vnode].header_due = true;
}

/* Notes what the vnodes' headers will claim when all that is dirty now is on disk (WRITEBACK-2). */
static void begin_round(struct shard *shard, int64_t now_ns)
{
    for (uint32_t number = 0; number < shard->options.vnodes; number++) {
        struct vnode *vnode = &shard->vnodes[number];
        vnode->marked = !table_copy_fading(shard->table, number);
        vnode->marked_state = vnode->state;
        vnode->marked_seq = table_vnode_seq(shard->table, number);
    }
    sort_buffer_clear(&shard->writeback.sort_buffer);
    table_round_begin(shard->table);
    shard->writeback.round = ROUND_FILLS;
    shard->writeback.round_ok = true;
    shard->writeback.began_ns = now_ns;
}

/* The headers of all vnodes with slots written since headers were last taken; before the last batch
 * of a round only those of claims that fell (WRITEBACK-3). */
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

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Slots to handle in this call, `most` at most. */
static uint32_t effort(const struct shard_writes *out, uint32_t most)
{
    return out->effort == 0 ? most : least(out->effort, most);
}

/* Puts more of what the round is about into the stage. True if that is all, or it is full. */
static bool fill_stage(struct shard *shard, const struct shard_writes *out)
{
    struct sort_buffer *buffer = &shard->writeback.sort_buffer;
    struct table_write writes[SORT_BUFFER_PORTION];
    uint16_t vnodes[SORT_BUFFER_PORTION];
    const uint32_t most = effort(out, SORT_BUFFER_STEP);
    const uint32_t portions =
        out->effort == 0 ? SORT_BUFFER_PORTIONS : most / SORT_BUFFER_PORTION + 1;
    uint32_t slots = 0;
    for (uint32_t n = 0; n < portions && slots < most && sort_buffer_room(buffer) > 0; n++) {
        const uint32_t count = table_round_take(
            shard->table, writes, vnodes, least(sort_buffer_room(buffer), SORT_BUFFER_PORTION));
        if (count == 0 && table_round_over(shard->table))
            return true;
        sort_buffer_put(buffer, writes, vnodes, count);
        slots += count;
    }
    return sort_buffer_room(buffer) == 0;
}

/* Goes on with the round until slots may be taken: one part of that in a call, if the caller has
 * set an effort. False while they may not yet. */
static bool prepare(struct shard *shard, const struct shard_writes *out)
{
    struct writeback *writeback = &shard->writeback;
    if (writeback->round == ROUND_FILLS) {
        if (!fill_stage(shard, out))
            return false;
        writeback->round = ROUND_ORDERS;
        if (out->effort > 0)
            return false;
    }
    if (writeback->round == ROUND_ORDERS) {
        if (!sort_buffer_order(&writeback->sort_buffer, effort(out, ORDER_STEP)))
            return false;
        writeback->round = ROUND_WRITES;
        if (out->effort > 0)
            return false;
    }
    return true;
}

static bool has_room(const struct shard_writes *out)
{
    return out->count < out->capacity && out->bytes_capacity - out->bytes_len >= TABLE_EXPORT_MAX;
}

/* Goes on with copying the next batch. False if it is not complete yet. */
static bool take_staged(struct shard *shard, struct shard_writes *out)
{
    struct writeback *writeback = &shard->writeback;
    struct sort_buffer *buffer = &writeback->sort_buffer;
    const uint32_t most = least(buffer->left, SHARD_WRITES_MAX);
    const uint32_t end =
        writeback->copied + least(effort(out, SHARD_WRITES_MAX), most - writeback->copied);
    uint32_t count = writeback->copied;
    writeback->batch = sort_buffer_rest(buffer);
    out->count = writeback->gathered;
    for (; count < end && has_room(out); count++)
        take_slot(shard, writeback->batch + count, most - count, out);
    if (count < most && has_room(out)) {
        writeback->copied = count;
        writeback->gathered = out->count;
        out->count = 0;
        return false;
    }
    sort_buffer_take(buffer, count);
    writeback->batch_count = count;
    writeback->copied = writeback->gathered = 0;
    return true;
}

/* If the round is over: what was dirty at its mark is on disk if nothing of it failed. The next one
 * begins after an interval, or at once if somebody has begun to wait for it meanwhile. */
static void note_round(struct shard *shard, int64_t now_ns)
{
    struct writeback *writeback = &shard->writeback;
    if (writeback->round != ROUND_NONE)
        return;
    if (writeback->round_ok) {
        writeback->dirty_ns = writeback->began_ns;
        table_round_written(shard->table);
    }
    if (writeback->next_ns <= writeback->began_ns)
        writeback->next_ns = now_ns + shard->options.flush_ns;
}

/* The batch that was taken last is written, or not; of such whose key is gone there is nothing. */
static void end_batch(struct shard *shard, bool ok)
{
    struct writeback *writeback = &shard->writeback;
    table_write_done(shard->table, writeback->batch, writeback->batch_count, ok);
    writeback->batch_count = 0;
    writeback->out = false;
}

/* What the stage held is taken: the rest of the round if it did not hold all, or the next one. */
static void end_stage(struct shard *shard)
{
    struct writeback *writeback = &shard->writeback;
    if (!table_round_over(shard->table)) {
        sort_buffer_clear(&writeback->sort_buffer);
        writeback->round = ROUND_FILLS;
        return;
    }
    writeback->round = ROUND_NONE;
    writeback->more = !writeback->round_ok && !is_gathered(shard); /* what failed is overdue */
}

void shard_gather(struct shard *shard, int64_t now_ns, struct shard_writes *out)
{
    struct writeback *writeback = &shard->writeback;
    ASSERT(!writeback->out && writeback->batch_count == 0); /* WRITEBACK-1 */
    out->count = 0;
    out->header_count = 0;
    if (writeback->copied == 0)
        out->bytes_len = 0;
    if (writeback->round == ROUND_NONE)
        begin_round(shard, now_ns);
    writeback->more = true;
    if (!prepare(shard, out) || !take_staged(shard, out))
        return;
    writeback->out = out->count > 0;
    if (!writeback->out)
        end_batch(shard, false);
    if (writeback->sort_buffer.left == 0)
        end_stage(shard);
    if (!writeback->out) {
        note_round(shard, now_ns);
        return; /* headers go with a batch, and wait for one */
    }
    /* WRITEBACK-2 */
    take_headers(shard, writeback->round == ROUND_NONE && writeback->round_ok, out);
}

void shard_written(struct shard *shard, int64_t now_ns, bool ok)
{
    ASSERT(shard->writeback.out);
    end_batch(shard, ok);
    shard->writeback.round_ok = shard->writeback.round_ok && ok;
    note_round(shard, now_ns);
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

static void filter_rebuild_check(const struct shard *shard)
{
    const struct filter_rebuild *rebuild = &shard->filter_rebuild;
    INVARIANT("REBUILD-4", rebuild->cursor % shard->options.shards == shard->options.shard);
    INVARIANT("REBUILD-4", !rebuild->listing || rebuild->vnode < shard->options.vnodes);
    INVARIANT("REBUILD-2", !rebuild->listing || !shard->cold_keys.listing);
}

void writeback_check_invariants(const struct shard *shard)
{
    const struct writeback *writeback = &shard->writeback;
    sort_buffer_check_invariants(&writeback->sort_buffer);
    INVARIANT("WRITEBACK-5", writeback->gathered <= writeback->copied);
    INVARIANT("WRITEBACK-5", writeback->copied <= writeback->sort_buffer.left);
    INVARIANT("WRITEBACK-5", writeback->round <= ROUND_WRITES);
    INVARIANT("WRITEBACK-1", !writeback->out || writeback->batch_count > 0);
    if (writeback->copied > 0) {
        INVARIANT("WRITEBACK-1", !writeback->out);
        INVARIANT("WRITEBACK-5", writeback->more && writeback->round == ROUND_WRITES);
    }
    for (uint32_t number = 0; number < shard->vnode_end; number++) {
        const struct vnode *vnode = &shard->vnodes[number];
        INVARIANT("WRITEBACK-3", !vnode->claim_out || vnode->claim_fell);
        INVARIANT("WRITEBACK-3", !vnode->claim_fell || !vnodes_quorum(shard, number));
    }
    filter_rebuild_check(shard);
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
    /* WRITEBACK-2: even if its first header was never written */
    shard->vnodes[number].holds_newer = true;
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
        shard->vnodes[number].merge.lineage.blind = true;
        shard->vnodes[number].holds_newer = true; /* WRITEBACK-2 */
    }
    shard->vnodes[number].state = *state;
    table_set_vnode_seq(shard->table, number, seq);
}

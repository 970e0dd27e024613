/* journal.c - what consistency `quorum` may not forget, on its way to the journal.
 *
 * Promises, accepted slots and the headers that say how far they go are gathered into batches. One
 * batch is at the journal's writer; what comes meanwhile gathers for the next one, so that many
 * changes share one sync (group commit). What waits for a batch - a promise's REPORT, a HELD, the
 * leader's own share of a majority - is released when the batch has been committed.
 *
 *   journal_promise, journal_header, dirty slots --> gather --> writer --> shard_journaled
 *          ^                                                                  |
 *          +---------------------- not written -------------------------------+--> REPORT, HELD,
 *                                                                                  answers
 * JOURNAL-1  At most one batch is out. A failed one releases nothing; its records are gathered
 *            again.
 * JOURNAL-2  A header is gathered only when no slot of its vnode is dirty: with the batches before
 *            it, and this one, the journal holds all that the header claims, or more. And only when
 *            nothing that a complete copy left over is still to be taken out (table_copy.c): a
 *            restart would believe both. Such a header is held back, and asks for no batch.
 * JOURNAL-3  A batch holds the promises first: they are few, and others wait for them.
 * JOURNAL-4  A vnode is forgotten in the journal only when no batch with records of it is out; the
 *            shell forgets before it writes what was gathered later.
 * JOURNAL-6  The list has each vnode with something due once, and those alone. The batch has each
 *            once, too, and what is not in it is of no batch.
 * JOURNAL-5  Clean is a vnode whose header in the journal tells of all its slots. A journal that
 *            holds the slots and an older header is asked after a crash for no more than that
 *            header claims.
 *
 * A node without a disk has a new id after each start, and so is a new replica: to what it promised
 * nobody will ever hold it. Its memory is as good as a journal, and a batch is over at once.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/majority.h"
#include "node/cluster/partition/vnodes.h"

/* Portions of the table from which leftovers are taken in one tick while a header waits for it:
 * some 65,000 slots, so that a million are gone through in less than 200 ms. */
enum { JOURNAL_STEPS = 16 };

static void list(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum->listed)
        return;
    ASSERT(shard->journaling.count < shard->options.vnodes); /* JOURNAL-6 */
    quorum->listed = true;
    shard->journaling.list[shard->journaling.count++] = number;
}

void journal_promise(struct shard *shard, uint32_t number)
{
    shard->journaling.held = 0; /* it may be held for its header only */
    quorum_of(shard, number)->promise_due = true;
    list(shard, number);
}

void journal_header(struct shard *shard, uint32_t number)
{
    quorum_of(shard, number)->header_due = true;
    list(shard, number);
}

/* JOURNAL-2: whether the journal may hold slots that are no part of the state. Without a disk
 * memory is the journal, and there they are gone. */
static bool has_stale_slots_left(const struct shard *shard, uint32_t number)
{
    return !shard->options.ephemeral && table_copy_fading(shard->table, number);
}

bool journal_clean(const struct shard *shard, uint32_t number)
{
    const struct quorum *quorum = quorum_of(shard, number);
    return table_vnode_dirty(shard->table, number, TABLE_DISK) == 0 && !quorum->batch_slots &&
           !quorum->ahead && !quorum->header_due && !quorum->batch_header &&
           !has_stale_slots_left(shard, number); /* JOURNAL-5 */
}

void journal_dropped(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    quorum->promise_due = false;
    quorum->header_due = false;
    quorum->report_due = false;
    quorum->tell_held = false;
    memset(&quorum->held, 0, sizeof quorum->held);
    quorum->held_seq = 0;
}

/* ---- gathering ------------------------------------------------------------------------------- */

static void add_to_batch(struct shard *shard, uint32_t number)
{
    struct quorum *quorum = quorum_of(shard, number);
    if (quorum->in_batch)
        return;
    ASSERT(shard->journaling.batch_count < shard->options.vnodes); /* JOURNAL-6 */
    quorum->in_batch = true;
    shard->journaling.batch[shard->journaling.batch_count++] = number;
}

static void take_promises(struct shard *shard, struct shard_journal *out)
{
    for (uint32_t i = 0; i < shard->journaling.count && out->count < out->capacity; i++) {
        const uint32_t number = shard->journaling.list[i];
        struct quorum *quorum = quorum_of(shard, number);
        if (!quorum->promise_due)
            continue;
        quorum->promise_due = false;
        quorum->batch_promises = true;
        quorum->batch_promise = shard->vnodes[number].term;
        add_to_batch(shard, number);
        out->records[out->count++] = (struct shard_journal_record){
            .vnode = number,
            .kind = JOURNAL_PROMISE,
            .term = quorum->batch_promise,
        };
    }
}

static void take_slot(struct shard *shard, uint32_t slot, struct shard_journal *out)
{
    const uint32_t number = table_slot_vnode(shard->table, slot);
    ASSERT(vnodes_quorum(shard, number)); /* the others go by write-back */
    const int64_t expires_ns = table_expires_ns(shard->table, slot);
    const int len = table_export(shard->table, slot, out->bytes + out->bytes_len,
                                 out->bytes_capacity - out->bytes_len);
    ASSERT(len >= 0); /* there is room for the largest */
    out->records[out->count++] = (struct shard_journal_record){
        .vnode = number,
        .kind = JOURNAL_SLOT,
        .id = table_slot_id(shard->table, slot),
        .expires_ms = expires_ns <= 0 ? 0 : (uint64_t)expires_ns / 1000000 + 1,
        .offset = (uint32_t)out->bytes_len,
        .len = (uint32_t)len,
    };
    out->bytes_len += (size_t)len;
    shard->journaling.slots[shard->journaling.slot_count++] = table_write_begin(shard->table, slot);
    add_to_batch(shard, number);
    quorum_of(shard, number)->batch_slots = true;
    quorum_of(shard, number)->ahead = true;
}

static void take_slots(struct shard *shard, struct shard_journal *out)
{
    enum { SWEEPS_MAX = 4096 };
    uint32_t sweeps = 0;
    while (out->count < out->capacity && shard->journaling.slot_count < SHARD_JOURNAL_SLOTS &&
           out->bytes_capacity - out->bytes_len >= TABLE_EXPORT_MAX) {
        const uint32_t slot = table_next_dirty(shard->table, TABLE_JOURNAL);
        if (slot != TABLE_NONE)
            take_slot(shard, slot, out);
        else if (table_target_idle(shard->table, TABLE_JOURNAL) || ++sweeps == SWEEPS_MAX)
            return;
    }
}

static void take_headers(struct shard *shard, struct shard_journal *out)
{
    for (uint32_t i = 0; i < shard->journaling.count && out->count < out->capacity; i++) {
        const uint32_t number = shard->journaling.list[i];
        const struct vnode *vnode = &shard->vnodes[number];
        struct quorum *quorum = quorum_of(shard, number);
        if (!quorum->header_due || table_vnode_dirty(shard->table, number, TABLE_DISK) > 0 ||
            has_stale_slots_left(shard, number)) /* JOURNAL-2 */
            continue;
        quorum->header_due = false;
        quorum->ahead = false;
        quorum->batch_header = true;
        quorum->batch_state = vnode->state;
        quorum->batch_seq = table_vnode_seq(shard->table, number);
        quorum->batch_sync = vnode->in_sync;
        add_to_batch(shard, number);
        out->records[out->count++] = (struct shard_journal_record){
            .vnode = number,
            .kind = JOURNAL_HEADER,
            .term = quorum->batch_state,
            .seq = quorum->batch_seq,
        };
    }
}

/* JOURNAL-2: of the list, what waits for nothing but leftovers. */
static bool waits(const struct shard *shard, uint32_t number)
{
    return !quorum_of(shard, number)->promise_due && has_stale_slots_left(shard, number);
}

/* Takes vnodes with nothing left off the list. */
static void shorten_list(struct shard *shard)
{
    uint32_t kept = 0;
    shard->journaling.held = 0;
    for (uint32_t i = 0; i < shard->journaling.count; i++) {
        const uint32_t number = shard->journaling.list[i];
        struct quorum *quorum = quorum_of(shard, number);
        quorum->listed = quorum->promise_due || quorum->header_due;
        if (!quorum->listed)
            continue;
        shard->journaling.list[kept++] = number;
        shard->journaling.held += waits(shard, number);
    }
    ASSERT(kept <= shard->journaling.count && shard->journaling.held <= kept);
    shard->journaling.count = kept;
}

void journal_tick(struct shard *shard)
{
    if (shard->journaling.held == 0)
        return;
    for (uint32_t i = 0; i < JOURNAL_STEPS && table_step(shard->table, shard->now_ns); i++)
        continue;
    shard->journaling.held = 0;
    for (uint32_t i = 0; i < shard->journaling.count; i++)
        shard->journaling.held += waits(shard, shard->journaling.list[i]);
}

bool shard_journal_due(const struct shard *shard)
{
    return !shard->journaling.out && !shard->options.ephemeral &&
           shard->now_ns >= shard->journaling.next_ns &&
           (shard->journaling.count > shard->journaling.held ||
            !table_target_idle(shard->table, TABLE_JOURNAL));
}

void shard_journal_gather(struct shard *shard, int64_t now_ns, struct shard_journal *out)
{
    (void)now_ns;
    ASSERT(!shard->journaling.out); /* JOURNAL-1 */
    ASSERT(out->capacity >= SHARD_JOURNAL_RECORDS_MIN &&
           out->bytes_capacity >= SHARD_JOURNAL_BYTES_MIN);
    out->count = 0;
    out->bytes_len = 0;
    shard->journaling.slot_count = 0;
    shard->journaling.batch_count = 0;
    take_promises(shard, out); /* JOURNAL-3 */
    take_slots(shard, out);
    take_headers(shard, out);
    shorten_list(shard);
    shard->journaling.out = true;
    shard->stats.journal_records += out->count;
}

/* ---- released -------------------------------------------------------------------------------- */

static void raise_term(struct term *term, const struct term *other)
{
    if (term_compare(other, term) > 0)
        *term = *other;
}

static void promise_kept(struct shard *shard, uint32_t number, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    raise_term(&quorum->promised, &quorum->batch_promise);
    if (term_compare(&quorum->promised, &vnode->term) != 0)
        return; /* a higher one is on its way */
    if (vnode->term.writer == shard->options.node_id) {
        if (quorum->campaigning)
            quorum->campaign_ns = shard->now_ns;
        if (vnode->role == ROLE_RECOVERING)
            quorum_recover(shard, number, effects);
    } else if (quorum->report_due && vnode->hint != PEER_NONE) {
        quorum_put_report(shard, vnode->hint, number, effects);
    }
    quorum->report_due = false;
}

static void header_kept(struct shard *shard, uint32_t number, struct effects *effects)
{
    const struct vnode *vnode = &shard->vnodes[number];
    struct quorum *quorum = quorum_of(shard, number);
    if (vnode->role == ROLE_ABSENT)
        return; /* dropped meanwhile */
    raise_term(&quorum->promised, &quorum->batch_state);
    if (term_compare(&quorum->held, &quorum->batch_state) != 0 ||
        quorum->held_seq < quorum->batch_seq)
        quorum->held_seq = quorum->batch_seq;
    quorum->held = quorum->batch_state;
    if (vnode->role == ROLE_REPLICA && quorum->tell_held && vnode->hint != PEER_NONE &&
        term_compare(&quorum->batch_state, &vnode->term) == 0) {
        stream_tell_held(shard, vnode->hint, number, quorum->batch_sync, quorum->batch_seq,
                         effects);
        quorum->tell_held = quorum->header_due;
    }
    quorum_advance(shard, number, effects);
}

static void release(struct shard *shard, uint32_t number, bool ok, struct effects *effects)
{
    struct quorum *quorum = quorum_of(shard, number);
    ASSERT(quorum->in_batch); /* JOURNAL-6 */
    const bool promises = quorum->batch_promises;
    const bool header = quorum->batch_header;
    quorum->in_batch = false;
    quorum->batch_slots = false;
    quorum->batch_promises = false;
    quorum->batch_header = false;
    quorum->ahead = quorum->ahead || (header && !ok);
    if (shard->vnodes[number].drop_due)
        vnodes_mark_active(shard, number); /* JOURNAL-4 */
    if (!ok) {
        const bool kept = !shard->vnodes[number].drop_due; /* else nobody waits for it any more */
        quorum->promise_due = quorum->promise_due || (promises && kept);
        quorum->header_due = quorum->header_due || (header && kept);
        if (quorum->promise_due || quorum->header_due)
            list(shard, number);
        shard->journaling.held = 0;
        return;
    }
    if (promises)
        promise_kept(shard, number, effects);
    if (header)
        header_kept(shard, number, effects);
}

/* The batch that is out was written, or not. */
static void finish(struct shard *shard, bool ok, struct effects *effects)
{
    table_write_done(shard->table, shard->journaling.slots, shard->journaling.slot_count, ok);
    shard->journaling.slot_count = 0;
    shard->journaling.out = false;
    /* What is released may list vnodes, but gathers nothing: the batch's own list stands still. */
    for (uint32_t i = 0; i < shard->journaling.batch_count; i++)
        release(shard, shard->journaling.batch[i], ok, effects);
    shard->journaling.batch_count = 0;
}

void journal_done(struct shard *shard, bool ok, struct effects *effects)
{
    ASSERT(shard->journaling.out);
    shard->stats.journal_batches += ok;
    shard->stats.journal_failures += !ok;
    if (!ok)
        shard->journaling.next_ns = shard->now_ns + SHARD_JOURNAL_REST_NS;
    finish(shard, ok, effects);
}

void journal_pretend(struct shard *shard, struct effects *effects)
{
    struct shard_journal_record records[SHARD_JOURNAL_RECORDS_MIN];
    struct shard_journal batch = {.records = records, .capacity = SHARD_JOURNAL_RECORDS_MIN};
    while (shard->options.ephemeral && shard->journaling.count > 0) {
        batch.count = 0;
        shard->journaling.batch_count = 0;
        take_promises(shard, &batch);
        take_headers(shard, &batch); /* no slot is dirty: the disk is no target */
        shorten_list(shard);
        finish(shard, true, effects);
    }
}

/* ---- at the start ---------------------------------------------------------------------------- */

void shard_restore_promise(struct shard *shard, uint32_t number, const struct term *promised)
{
    if (number < shard->options.vnodes || number >= 2 * shard->options.vnodes ||
        !vnodes_mine(shard, number))
        return;
    shard->quorum.wanted = true;
    raise_term(&quorum_of(shard, number)->promised, promised);
    raise_term(&shard->vnodes[number].term, promised);
}

void journal_restored(struct shard *shard, uint32_t number, const struct term *state, uint64_t seq)
{
    struct quorum *quorum = quorum_of(shard, number);
    shard->quorum.wanted = true;
    quorum->held = *state;
    quorum->held_seq = seq;
    quorum->ahead = true;
    shard->vnodes[number].holds_newer = true; /* slots are written before their header */
    raise_term(&quorum->promised, state);
    raise_term(&shard->vnodes[number].term, state);
}

/* ---- what always holds ----------------------------------------------------------------------- */

static void check_one(const struct shard *shard, uint32_t number)
{
    const struct quorum *quorum = quorum_of(shard, number);
    const bool batch =
        quorum->batch_slots || quorum->batch_promises || quorum->batch_header || quorum->in_batch;
    INVARIANT("JOURNAL-6", !batch || (quorum->in_batch && shard->journaling.out));
    INVARIANT("JOURNAL-6", quorum->listed || (!quorum->promise_due && !quorum->header_due));
    INVARIANT("JOURNAL-5", !quorum->batch_slots || quorum->ahead || quorum->batch_header);
}

void journal_check_invariants(const struct shard *shard)
{
    const struct journaling *journaling = &shard->journaling;
    uint32_t listed = 0;
    uint32_t in_batch = 0;
    for (uint32_t number = shard->options.vnodes; number < 2 * shard->options.vnodes; number++) {
        check_one(shard, number);
        listed += quorum_of(shard, number)->listed;
        in_batch += quorum_of(shard, number)->in_batch;
    }
    INVARIANT("JOURNAL-6", listed == journaling->count && journaling->held <= journaling->count);
    INVARIANT("JOURNAL-6", in_batch == journaling->batch_count);
    INVARIANT("JOURNAL-1", journaling->out || journaling->batch_count == 0);
    INVARIANT("JOURNAL-1", journaling->out || journaling->slot_count == 0);
    INVARIANT("JOURNAL-1", journaling->slot_count <= SHARD_JOURNAL_SLOTS);
    for (uint32_t i = 0; i < journaling->count; i++)
        INVARIANT("JOURNAL-6", quorum_of(shard, journaling->list[i])->listed);
    for (uint32_t i = 0; i < journaling->batch_count; i++)
        INVARIANT("JOURNAL-6", quorum_of(shard, journaling->batch[i])->in_batch);
}

/* peer_wire.c - the codec of peer_wire.h, which gives the layouts.
 *
 * Every number is little-endian and every record begins with its type. Pure: no length that comes
 * from outside is used before it was compared with what is there.
 */
#include "node/cluster/wire/peer_wire.h"

#include <assert.h>

#include "base/assert.h"
#include "base/mp.h"
#include "node/limit/engine/engine.h"

static void put_retry(struct bytes_writer *writer, const struct retry_key *key)
{
    bytes_put_u64(writer, key->session);
    bytes_put_u64(writer, key->seq);
    bytes_put_u16(writer, key->item);
    bytes_put_u8(writer, key->part);
}

static void put_limit(struct bytes_writer *writer, struct hash128 id, const struct limit *limit)
{
    bytes_put_hash128(writer, id);
    bytes_put_u64(writer, limit->count);
    bytes_put_u64(writer, limit->window_ns);
    bytes_put_u64(writer, limit->burst);
    bytes_put_u8(writer, limit->buckets);
    bytes_put_u8(writer, limit->algorithm);
    bytes_put_u8(writer, limit->ordinal);
    bytes_put_u16(writer, limit->exceed_percent);
    bytes_put_u8(writer, limit->align);
    if (limit_is_calendar(limit->align)) {
        bytes_put_i64(writer, limit->start_ns);
        bytes_put_u32(writer, limit->before_s);
    }
    bytes_put_u32(writer, limit->pool);
    bytes_put_u16(writer, limit->weight);
    bytes_put_u32(writer, limit->ceiling_percent);
    bytes_put_u8(writer, limit->class);
}

enum { TERM_COPY = 1, TERM_BEGINS = 2, CHANGE_IS_WATERMARK = 4 };
/* Where the parts of a CHANGE lie, from its type on. */
enum {
    CHANGE_VNODE = 1,
    CHANGE_EPOCH = CHANGE_VNODE + 4,
    CHANGE_NUMBER = CHANGE_EPOCH + 8,
    CHANGE_SYNC = CHANGE_NUMBER + 8,
    CHANGE_FLAGS = CHANGE_SYNC + 4,
    CHANGE_SEQ = CHANGE_FLAGS + 1,
    CHANGE_ID = CHANGE_SEQ + 8,
    CHANGE_LEN = CHANGE_ID + 16,
    CHANGE_STATE = CHANGE_LEN + 4
};
enum { LINEAGE_OVERFLOWED = 1, LINEAGE_BLIND = 2 };
enum { VNODE_ASKS = 1, VNODE_HOLDS_NEWER = 2 };
enum {
    ANSWER_ALLOWED = 1,
    ANSWER_DEGRADED = 2,
    ANSWER_SOFT = 4,
    ANSWER_BORROWED = 8,
    ANSWER_HELD = 16,
    ANSWER_FULL = 32
};
enum {
    PING_RESIGNING = 1,
    PING_ANNOUNCES = 2,
    PING_ASKS = 4,
    PING_CANNOT_HEAR = 8,
    PING_RESERVES = 16,
    PING_LEASES = 32,
    PING_CHANGES = 64,
    PING_VERSIONS = 128
};
enum { MARK_NOTHING = 1 };
enum { OPERATION_SURE = 0x80, OPERATION_CLASSED = 0x40 }; /* beside the operation of a FORWARD */

/* What older releases know by number, or by how many there are: these only grow. */
static_assert((int)PEER_TYPE_END == 36 && (int)ANSWER_STATUS_END == 3 && (int)ROLE_END == 5 &&
                  (int)MERGE_BASE_KIND_END == 4,
              "one more has the next number, and is told only to who reads it");
static_assert((int)OPERATION_COUNT <= (int)OPERATION_CLASSED, "an operation leaves both bits");
static_assert(LIMIT_CLASSES == 3, "reports and levels of pools have a list, or a number, a class");

void peer_put_ping(struct bytes_writer *writer, const struct peer_ping *ping)
{
    bytes_put_u8(writer, PEER_PING);
    bytes_put_i64(writer, ping->sent_ns);
    bytes_put_i64(writer, ping->echo_ns);
    bytes_put_u64(writer, ping->opened);
    bytes_put_u32(writer, ping->announced);
    bytes_put_u32(writer, ping->patience_ms);
    bytes_put_u64(writer, ping->process);
    bytes_put_u8(
        writer,
        (uint8_t)((ping->resigning ? PING_RESIGNING : 0) | (ping->announces ? PING_ANNOUNCES : 0) |
                  (ping->asks ? PING_ASKS : 0) | (ping->cannot_hear_you ? PING_CANNOT_HEAR : 0) |
                  (ping->reserves ? PING_RESERVES : 0) | (ping->leases ? PING_LEASES : 0) |
                  (ping->changes ? PING_CHANGES : 0) | (ping->versions ? PING_VERSIONS : 0)));
}

static void put_forward(struct bytes_writer *writer, const struct forward *forward, bool versioned)
{
    const unsigned flags = forward->flags & ~(unsigned)FORWARD_LOADED;
    const bool classed = versioned && forward->class != 0;
    bytes_put_u64(writer, forward->ticket);
    put_retry(writer, &forward->retry);
    bytes_put_u8(writer, (uint8_t)(flags | (versioned ? FORWARD_LOADED : 0)));
    bytes_put_u8(writer, (uint8_t)(forward->operation | (classed ? OPERATION_CLASSED : 0) |
                                   (forward->sure ? OPERATION_SURE : 0)));
    bytes_put_u32(writer, forward->vnode);
    bytes_put_u64(writer, forward->cost);
    bytes_put_u8(writer, forward->limit_count);
    for (uint32_t i = 0; i < forward->limit_count; i++)
        put_limit(writer, forward->ids[i], &forward->limits[i]);
    if ((forward->retry.part & RETRY_UNDO) != 0)
        bytes_put_u16(writer, forward->attempt);
    if ((forward->flags & FORWARD_HOLD) != 0)
        bytes_put_u64(writer, forward->used);
    if (versioned)
        bytes_put_u64(writer, forward->rules);
    if (classed)
        bytes_put_u16(writer, forward->class);
}

void peer_put_forward(struct bytes_writer *writer, const struct forward *forward)
{
    bytes_put_u8(writer, forward->home == 0 ? PEER_FORWARD : PEER_FORWARD_GLOBAL);
    if (forward->home != 0) {
        bytes_put_u64(writer, forward->home);
        bytes_put_u32(writer, forward->wait_ms);
    }
    put_forward(writer, forward, forward->rules != 0);
}

void peer_put_remote_ping(struct bytes_writer *writer, int64_t sent_ns, int64_t echo_ns)
{
    bytes_put_u8(writer, PEER_REMOTE_PING);
    bytes_put_i64(writer, sent_ns);
    bytes_put_i64(writer, echo_ns);
}

void peer_put_remote_ask(struct bytes_writer *writer, const struct forward *forward)
{
    bytes_put_u8(writer, PEER_REMOTE_ASK);
    bytes_put_u64(writer, forward->home);
    put_forward(writer, forward, false); /* nobody knows whether its receiver reads that */
}

static void put_answer(struct bytes_writer *writer, uint64_t ticket, const struct answer *answer)
{
    bytes_put_u64(writer, ticket);
    bytes_put_u8(writer, answer->status);
    bytes_put_u8(writer,
                 (uint8_t)((answer->allowed ? ANSWER_ALLOWED : 0) |
                           (answer->degraded ? ANSWER_DEGRADED : 0) |
                           (answer->soft ? ANSWER_SOFT : 0) |
                           (answer->borrowed ? ANSWER_BORROWED : 0) |
                           (answer->held ? ANSWER_HELD : 0) | (answer->full ? ANSWER_FULL : 0)));
    bytes_put_u8(writer, answer->limit_index);
    bytes_put_u64(writer, answer->limit);
    bytes_put_u64(writer, answer->used);
    bytes_put_u64(writer, answer->remaining);
    bytes_put_u64(writer, answer->granted);
    bytes_put_i64(writer, answer->reset_after_ns);
    bytes_put_i64(writer, answer->retry_after_ns);
    bytes_put_i64(writer, answer->delay_ns);
}

void peer_put_answer(struct bytes_writer *writer, uint64_t ticket, const struct answer *answer)
{
    bytes_put_u8(writer, PEER_ANSWER);
    put_answer(writer, ticket, answer);
}

void peer_put_remote_answer(struct bytes_writer *writer, uint64_t ticket,
                            const struct answer *answer)
{
    bytes_put_u8(writer, PEER_REMOTE_ANSWER);
    put_answer(writer, ticket, answer);
}

void peer_put_explain(struct bytes_writer *writer, uint64_t ticket, const struct peer_state *states,
                      uint32_t count)
{
    ASSERT(count <= PEER_LIMITS_MAX);
    bytes_put_u8(writer, PEER_EXPLAIN);
    bytes_put_u64(writer, ticket);
    bytes_put_u8(writer, (uint8_t)count);
    for (uint32_t i = 0; i < count; i++) {
        bytes_put_u8(writer, states[i].allowed);
        bytes_put_u64(writer, states[i].limit);
        bytes_put_u64(writer, states[i].used);
        bytes_put_u64(writer, states[i].remaining);
        bytes_put_i64(writer, states[i].reset_after_ns);
        bytes_put_i64(writer, states[i].retry_after_ns);
    }
}

void peer_put_reserved(struct bytes_writer *writer, uint32_t vnode, const struct term *term,
                       const struct term *line, const struct peer_reservation *what)
{
    ASSERT(what->attempts <= RETRY_ATTEMPTS_MAX && what->count <= PEER_LIMITS_MAX);
    bytes_put_u8(writer, PEER_RESERVED);
    bytes_put_u32(writer, vnode);
    term_put(writer, term);
    term_put(writer, line);
    bytes_put_u64(writer, what->tag);
    bytes_put_u32(writer, what->age_ms);
    bytes_put_u8(writer, what->limit_index);
    bytes_put_u8(writer, what->claims);
    bytes_put_u8(writer, what->attempts);
    for (uint32_t i = 0; i < what->attempts; i++)
        bytes_put_u16(writer, what->names[i]);
    bytes_put_u64(writer, what->granted);
    bytes_put_u64(writer, what->seq);
    bytes_put_u16(writer, what->fold);
    bytes_put_u8(writer, what->count);
    for (uint32_t i = 0; i < what->count; i++) {
        bytes_put_u64(writer, what->marks[i].place);
        bytes_put_i64(writer, what->marks[i].at_ns);
        bytes_put_u32(writer, what->marks[i].part);
        bytes_put_u8(writer, what->marks[i].nothing ? MARK_NOTHING : 0);
    }
}

void peer_put_moved(struct bytes_writer *writer, uint64_t ticket, uint32_t vnode,
                    const struct term *term)
{
    bytes_put_u8(writer, PEER_MOVED);
    bytes_put_u64(writer, ticket);
    bytes_put_u32(writer, vnode);
    term_put(writer, term);
}

void peer_put_stream(struct bytes_writer *writer, uint64_t stream, uint64_t seq, uint64_t boot)
{
    bytes_put_u8(writer, PEER_STREAM);
    bytes_put_u64(writer, stream);
    bytes_put_u64(writer, seq);
    bytes_put_u64(writer, boot);
}

enum { ACK_RESYNC = 1, ACK_BULK = 2 };

void peer_put_ack(struct bytes_writer *writer, uint64_t stream, uint64_t seq, bool resync,
                  bool bulk)
{
    bytes_put_u8(writer, PEER_ACK);
    bytes_put_u64(writer, stream);
    bytes_put_u64(writer, seq);
    bytes_put_u8(writer, (uint8_t)((resync ? ACK_RESYNC : 0) | (bulk ? ACK_BULK : 0)));
}

void peer_put_term(struct bytes_writer *writer, uint32_t vnode, const struct term *term,
                   uint32_t sync, bool copy, bool begins)
{
    bytes_put_u8(writer, PEER_TERM);
    bytes_put_u32(writer, vnode);
    term_put(writer, term);
    bytes_put_u32(writer, sync);
    bytes_put_u8(writer, (uint8_t)((copy ? TERM_COPY : 0) | (begins ? TERM_BEGINS : 0)));
}

static void put_state(struct bytes_writer *writer, enum peer_record_type type, uint32_t vnode,
                      struct hash128 id, const uint8_t *state, uint32_t len)
{
    bytes_put_u8(writer, (uint8_t)type);
    bytes_put_u32(writer, vnode);
    bytes_put_hash128(writer, id);
    bytes_put_u32(writer, len);
    bytes_put(writer, state, len);
}

void peer_put_slot(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                   const uint8_t *state, uint32_t len)
{
    put_state(writer, PEER_SLOT, vnode, id, state, len);
}

size_t peer_put_change(struct bytes_writer *writer, const struct peer_written *term,
                       struct hash128 id, const uint8_t *state, uint32_t len)
{
    const size_t at = writer->len;
    uint8_t *place = bytes_claim(writer, CHANGE_STATE);
    if (place == NULL)
        return at;
    place[0] = PEER_CHANGE;
    bytes_set_u32(place + CHANGE_VNODE, term->vnode);
    bytes_set_u64(place + CHANGE_EPOCH, term->term.epoch);
    bytes_set_u64(place + CHANGE_NUMBER, term->term.number);
    bytes_set_u32(place + CHANGE_SYNC, term->sync);
    place[CHANGE_FLAGS] =
        (uint8_t)((term->copy ? TERM_COPY : 0) | (term->begins ? TERM_BEGINS : 0));
    bytes_set_u64(place + CHANGE_SEQ, 0);
    bytes_set_u64(place + CHANGE_ID, id.lo);
    bytes_set_u64(place + CHANGE_ID + 8, id.hi);
    bytes_set_u32(place + CHANGE_LEN, len);
    bytes_put(writer, state, len);
    return at;
}

void peer_watermark_change(struct bytes_writer *writer, size_t at, uint64_t seq)
{
    ASSERT(at + CHANGE_STATE <= writer->len && writer->data[at] == PEER_CHANGE);
    writer->data[at + CHANGE_FLAGS] |= CHANGE_IS_WATERMARK;
    bytes_set_u64(writer->data + at + CHANGE_SEQ, seq);
}

void peer_put_diverged(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                       const uint8_t *state, uint32_t len)
{
    put_state(writer, PEER_DIVERGED, vnode, id, state, len);
}

static void put_cuts(struct bytes_writer *writer, const struct lineage *lineage)
{
    ASSERT(lineage->count <= LINEAGE_FORKS_MAX);
    bytes_put_u8(writer, (uint8_t)((lineage->overflowed ? LINEAGE_OVERFLOWED : 0) |
                                   (lineage->blind ? LINEAGE_BLIND : 0)));
    bytes_put_u8(writer, lineage->count);
    for (uint32_t i = 0; i < lineage->count; i++) {
        term_put(writer, &lineage->cuts[i].term);
        bytes_put_u64(writer, lineage->cuts[i].seq);
    }
}

void peer_put_lineage(struct bytes_writer *writer, uint32_t vnode, const struct lineage *lineage)
{
    bytes_put_u8(writer, PEER_LINEAGE);
    bytes_put_u32(writer, vnode);
    put_cuts(writer, lineage);
}

void peer_put_apart(struct bytes_writer *writer, const struct peer_apart *apart)
{
    bytes_put_u8(writer, PEER_APART);
    bytes_put_u32(writer, apart->vnode);
    term_put(writer, &apart->to);
    term_put(writer, &apart->state);
    bytes_put_u64(writer, apart->seq);
    bytes_put_u32(writer, apart->sync);
    put_cuts(writer, &apart->lineage);
}

void peer_put_merge_base(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                         uint8_t count)
{
    bytes_put_u8(writer, PEER_MERGE_BASE);
    bytes_put_u32(writer, vnode);
    bytes_put_hash128(writer, id);
    bytes_put_u8(writer, count);
}

void peer_put_blob(struct bytes_writer *writer, const struct merge_base_blob *blob,
                   const uint8_t *bytes)
{
    bytes_put_u8(writer, (uint8_t)blob->kind);
    term_put(writer, &blob->term);
    bytes_put_u64(writer, blob->seq);
    bytes_put_u32(writer, blob->event);
    bytes_put_u32(writer, blob->len);
    bytes_put(writer, bytes, blob->len);
}

void peer_put_pool_report(struct bytes_writer *writer, const struct peer_pool_origin *origin,
                          const struct elastic_report *report, uint32_t load_ppm, uint32_t load_ms)
{
    const bool remote = origin != NULL && origin->home != 0;
    bytes_put_u8(writer, remote ? PEER_REMOTE_POOL_REPORT : PEER_POOL_REPORT);
    if (remote) {
        bytes_put_u64(writer, origin->home);
        bytes_put_u64(writer, origin->node);
        bytes_put_u16(writer, origin->shard);
        bytes_put_i64(writer, origin->sent_ns);
    }
    bytes_put_u32(writer, report->pool);
    bytes_put_u64(writer, report->guaranteed);
    bytes_put_u64(writer, report->borrowed);
    bytes_put_u32(writer, load_ppm);
    bytes_put_u32(writer, load_ms);
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
        bytes_put_u16(writer, (uint16_t)report->count[class]);
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        for (uint32_t i = 0; i < report->count[class]; i++) {
            const struct fair_share_bin *share = &report->shares[class][i];
            bytes_put_u32(writer,
                          share->weight > UINT32_MAX ? UINT32_MAX : (uint32_t)share->weight);
            bytes_put_u64(writer, share->ask);
        }
    }
}

void peer_put_pool_level(struct bytes_writer *writer, const struct peer_pool_level *level)
{
    bytes_put_u8(writer, level->echo_ns != 0 ? PEER_REMOTE_POOL_LEVEL : PEER_POOL_LEVEL);
    if (level->echo_ns != 0)
        bytes_put_i64(writer, level->echo_ns);
    bytes_put_u32(writer, level->pool);
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
        bytes_put_u64(writer, level->level.level[class]);
    bytes_put_u64(writer, level->level.budget);
    bytes_put_u64(writer, level->level.budget_open);
    bytes_put_u64(writer, level->level.spare);
    bytes_put_u64(writer, level->guaranteed);
    bytes_put_u64(writer, level->borrowed);
    bytes_put_u32(writer, level->load_ppm);
}

void peer_put_vnode(struct bytes_writer *writer, enum peer_record_type type,
                    const struct peer_vnode *entry)
{
    bytes_put_u8(writer, (uint8_t)type);
    bytes_put_u32(writer, entry->vnode);
    bytes_put_u8(writer, entry->role);
    term_put(writer, &entry->term);
    term_put(writer, &entry->state);
    bytes_put_u64(writer, entry->seq);
    bytes_put_u32(writer, entry->sync);
    bytes_put_u8(writer, (uint8_t)((entry->asks ? VNODE_ASKS : 0) |
                                   (entry->holds_newer ? VNODE_HOLDS_NEWER : 0) | entry->flags));
}

int peer_encode(const struct peer_envelope *envelope, void *out, size_t capacity)
{
    ASSERT(envelope->node != 0 && envelope->len <= PEER_FRAME_MAX);
    struct mp_writer writer;
    mp_writer_init(&writer, out, capacity);
    mp_put_array(&writer, envelope->seen_ns != 0 ? 9 : 8);
    mp_put_uint(&writer, PEER_VERSION);
    mp_put_uint(&writer, envelope->node);
    mp_put_uint(&writer, envelope->shard);
    mp_put_uint(&writer, envelope->boot);
    mp_put_bin(&writer, envelope->records, envelope->len);
    mp_put_uint(&writer, envelope->bulk ? 1 : 0);
    mp_put_uint(&writer, envelope->reads);
    mp_put_int(&writer, envelope->wall_ns);
    if (envelope->seen_ns != 0)
        mp_put_int(&writer, envelope->seen_ns);
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

int peer_decode(const void *frame, size_t len, struct peer_envelope *envelope)
{
    struct mp_token tokens[16];
    struct mp_cursor cursor;
    if (len > PEER_FRAME_MAX)
        return TG_ETOOBIG;
    const int count = mp_parse(frame, len, tokens, sizeof tokens / sizeof *tokens);
    if (count < 0)
        return count;
    mp_cursor_init(&cursor, tokens, (size_t)count);
    const uint32_t fields = mp_get_array(&cursor);
    if (fields < 5)
        return TG_EPROTOCOL;
    if (mp_get_uint(&cursor) != PEER_VERSION)
        return cursor.failed ? TG_EPROTOCOL : TG_EVERSION;
    envelope->node = mp_get_uint(&cursor);
    const uint64_t shard = mp_get_uint(&cursor);
    envelope->boot = mp_get_uint(&cursor);
    envelope->records = mp_get_bin(&cursor, &envelope->len);
    const uint64_t channel = fields > 5 ? mp_get_uint(&cursor) : 0;
    const uint64_t reads = fields > 6 ? mp_get_uint(&cursor) : 0;
    envelope->wall_ns = fields > 7 ? mp_get_int(&cursor) : 0;
    envelope->seen_ns = fields > 8 ? mp_get_int(&cursor) : 0;
    envelope->shard = (uint16_t)shard;
    envelope->bulk = channel == 1;
    envelope->reads = (uint8_t)(reads & READS_ALL);
    return cursor.failed || shard > UINT16_MAX || channel > 1 || envelope->node == 0 ||
                   envelope->seen_ns < 0
               ? TG_EPROTOCOL
               : 0;
}

/* Times before 1970 are nobody's; without them the difference of two never overflows. */
static bool get_ping(struct bytes_reader *reader, struct peer_ping *ping)
{
    ping->sent_ns = bytes_get_i64(reader);
    ping->echo_ns = bytes_get_i64(reader);
    ping->opened = bytes_get_u64(reader);
    ping->announced = bytes_get_u32(reader);
    ping->patience_ms = bytes_get_u32(reader);
    ping->process = bytes_get_u64(reader);
    const uint8_t flags = bytes_get_u8(reader);
    ping->resigning = (flags & PING_RESIGNING) != 0;
    ping->announces = (flags & PING_ANNOUNCES) != 0;
    ping->asks = (flags & PING_ASKS) != 0;
    ping->cannot_hear_you = (flags & PING_CANNOT_HEAR) != 0;
    ping->reserves = (flags & PING_RESERVES) != 0;
    ping->leases = (flags & PING_LEASES) != 0;
    ping->changes = (flags & PING_CHANGES) != 0;
    ping->versions = (flags & PING_VERSIONS) != 0;
    return ping->sent_ns >= 0 && ping->echo_ns >= 0;
}

/* Whether it is an operation on tokens that are held, and its limits give such. */
static bool names_hold(const struct forward *forward)
{
    for (uint32_t i = 0; i < forward->limit_count; i++)
        if (limit_lease_refusal(&forward->limits[i]) != NULL)
            return false;
    return forward->operation >= OPERATION_LEASE &&
           (forward->operation != OPERATION_RESERVE || limit_ttl_fits(forward->used));
}

static bool get_forward(struct bytes_reader *reader, uint32_t vnodes, struct forward *forward)
{
    forward->ticket = bytes_get_u64(reader);
    forward->retry.session = bytes_get_u64(reader);
    forward->retry.seq = bytes_get_u64(reader);
    forward->retry.item = bytes_get_u16(reader);
    forward->retry.part = bytes_get_u8(reader);
    forward->flags = bytes_get_u8(reader);
    const uint8_t operation = bytes_get_u8(reader);
    const bool classed = (operation & OPERATION_CLASSED) != 0;
    forward->operation = operation & (uint8_t) ~(OPERATION_SURE | OPERATION_CLASSED);
    forward->sure = (operation & OPERATION_SURE) != 0;
    forward->vnode = bytes_get_u32(reader);
    forward->cost = bytes_get_u64(reader);
    forward->limit_count = bytes_get_u8(reader);
    if (reader->failed || forward->vnode >= vnodes || forward->operation >= OPERATION_COUNT ||
        forward->limit_count == 0 || forward->limit_count > PEER_LIMITS_MAX)
        return false;
    char error[160];
    for (uint32_t i = 0; i < forward->limit_count; i++) {
        struct limit *limit = &forward->limits[i];
        forward->ids[i] = bytes_get_hash128(reader);
        limit->count = bytes_get_u64(reader);
        limit->window_ns = bytes_get_u64(reader);
        limit->burst = bytes_get_u64(reader);
        limit->buckets = bytes_get_u8(reader);
        limit->algorithm = bytes_get_u8(reader);
        limit->ordinal = bytes_get_u8(reader);
        limit->exceed_percent = bytes_get_u16(reader);
        limit->align = bytes_get_u8(reader);
        const bool calendar = limit_is_calendar(limit->align);
        limit->start_ns = calendar ? bytes_get_i64(reader) : 0;
        limit->before_s = calendar ? bytes_get_u32(reader) : 0;
        limit->pool = bytes_get_u32(reader);
        limit->weight = bytes_get_u16(reader);
        limit->ceiling_percent = bytes_get_u32(reader);
        limit->class = bytes_get_u8(reader);
        if (reader->failed || limit_validate(limit, error) != 0)
            return false;
    }
    const bool undo = (forward->retry.part & RETRY_UNDO) != 0;
    forward->attempt = undo ? bytes_get_u16(reader) : 0;
    const bool holds = (forward->flags & FORWARD_HOLD) != 0;
    forward->used = holds ? bytes_get_u64(reader) : 0;
    forward->rules = (forward->flags & FORWARD_LOADED) != 0 ? bytes_get_u64(reader) : 0;
    forward->class = classed ? bytes_get_u16(reader) : 0;
    forward->flags &= (uint8_t)~FORWARD_LOADED;
    const bool stands = (forward->flags & FORWARD_FALLBACK) != 0; /* who stands in grants none */
    if (holds && (undo || stands || !names_hold(forward)))
        return false;
    return !undo || forward->operation == OPERATION_REFUND;
}

/* FORWARD, and those that name a home. How long an REMOTE_ASK may wait is up to its receiver. */
static bool get_any_forward(struct bytes_reader *reader, uint32_t vnodes,
                            struct peer_record *record)
{
    struct forward *forward = &record->forward;
    forward->home = record->type != PEER_FORWARD ? bytes_get_u64(reader) : 0;
    forward->wait_ms = record->type == PEER_FORWARD_GLOBAL ? bytes_get_u32(reader) : 0;
    if (record->type == PEER_FORWARD)
        return get_forward(reader, vnodes, forward);
    return forward->home != 0 && forward->wait_ms <= PEER_WAIT_MAX_MS &&
           get_forward(reader, vnodes, forward) && (forward->flags & FORWARD_FALLBACK) == 0;
}

static bool get_remote_ping(struct bytes_reader *reader, struct peer_record *record)
{
    record->remote_ping.sent_ns = bytes_get_i64(reader);
    record->remote_ping.echo_ns = bytes_get_i64(reader);
    return record->remote_ping.sent_ns >= 0 && record->remote_ping.echo_ns >= 0 &&
           (record->remote_ping.sent_ns == 0) != (record->remote_ping.echo_ns == 0);
}

static bool get_answer(struct bytes_reader *reader, struct peer_record *record)
{
    struct answer *answer = &record->answer.answer;
    record->answer.ticket = bytes_get_u64(reader);
    answer->status = bytes_get_u8(reader);
    const uint8_t flags = bytes_get_u8(reader);
    answer->allowed = (flags & ANSWER_ALLOWED) != 0;
    answer->degraded = (flags & ANSWER_DEGRADED) != 0;
    answer->soft = (flags & ANSWER_SOFT) != 0;
    answer->borrowed = (flags & ANSWER_BORROWED) != 0;
    answer->held = (flags & ANSWER_HELD) != 0;
    answer->full = (flags & ANSWER_FULL) != 0;
    answer->limit_index = bytes_get_u8(reader);
    answer->limit = bytes_get_u64(reader);
    answer->used = bytes_get_u64(reader);
    answer->remaining = bytes_get_u64(reader);
    answer->granted = bytes_get_u64(reader);
    answer->reset_after_ns = bytes_get_i64(reader);
    answer->retry_after_ns = bytes_get_i64(reader);
    answer->delay_ns = bytes_get_i64(reader);
    return answer->status < ANSWER_STATUS_END && answer->limit_index < PEER_LIMITS_MAX;
}

static bool get_firsts(struct bytes_reader *reader, uint32_t vnodes, struct peer_firsts *firsts)
{
    struct peer_first first;
    firsts->vnode = bytes_get_u32(reader);
    const uint16_t len = bytes_get_u16(reader);
    const uint8_t *bytes = bytes_take(reader, len);
    if (reader->failed)
        return false;
    bytes_reader_init(&firsts->bytes, bytes, len);
    struct bytes_reader ahead = firsts->bytes;
    while (peer_first_next(&ahead, &first))
        continue;
    return firsts->vnode < vnodes && len > 0 && ahead.at == len;
}

static bool get_explain(struct bytes_reader *reader, struct peer_record *record)
{
    record->explain.ticket = bytes_get_u64(reader);
    record->explain.count = bytes_get_u8(reader);
    if (reader->failed || record->explain.count == 0 || record->explain.count > PEER_LIMITS_MAX)
        return false;
    for (uint32_t i = 0; i < record->explain.count; i++) {
        struct peer_state *state = &record->explain.states[i];
        state->allowed = bytes_get_u8(reader) != 0;
        state->limit = bytes_get_u64(reader);
        state->used = bytes_get_u64(reader);
        state->remaining = bytes_get_u64(reader);
        state->reset_after_ns = bytes_get_i64(reader);
        state->retry_after_ns = bytes_get_i64(reader);
    }
    return true;
}

/* Terms count openings: numbers near the end of the range can only be forged. */
static bool sane(const struct term *term)
{
    return term->epoch >> 62 == 0 && term->number >> 62 == 0;
}

static bool get_vnode(struct bytes_reader *reader, uint32_t vnodes, struct peer_vnode *entry)
{
    entry->vnode = bytes_get_u32(reader);
    entry->role = bytes_get_u8(reader);
    entry->term = term_get(reader);
    entry->state = term_get(reader);
    entry->seq = bytes_get_u64(reader);
    entry->sync = bytes_get_u32(reader);
    const uint8_t flags = bytes_get_u8(reader);
    entry->asks = (flags & VNODE_ASKS) != 0;
    entry->holds_newer = (flags & VNODE_HOLDS_NEWER) != 0;
    entry->flags = (uint8_t)(flags & ~(VNODE_ASKS | VNODE_HOLDS_NEWER));
    return entry->vnode < vnodes && entry->role < ROLE_END && sane(&entry->term) &&
           sane(&entry->state);
}

static bool get_slot(struct bytes_reader *reader, uint32_t vnodes, struct peer_record *record)
{
    record->slot.vnode = bytes_get_u32(reader);
    record->slot.id = bytes_get_hash128(reader);
    record->slot.len = bytes_get_u32(reader);
    record->slot.state = bytes_take(reader, record->slot.len);
    return record->slot.vnode < vnodes;
}

static bool get_change(struct bytes_reader *reader, uint32_t vnodes, struct peer_change *change)
{
    const uint8_t *fields = bytes_take(reader, CHANGE_STATE - CHANGE_VNODE);
    if (fields == NULL)
        return false;
    const uint8_t *place = fields - CHANGE_VNODE;
    const uint8_t flags = place[CHANGE_FLAGS];
    change->term = (struct peer_written){
        .vnode = bytes_u32_at(place + CHANGE_VNODE, 0),
        .term = {.epoch = bytes_u64_at(place + CHANGE_EPOCH, 0),
                 .number = bytes_u64_at(place + CHANGE_NUMBER, 0)},
        .sync = bytes_u32_at(place + CHANGE_SYNC, 0),
        .copy = (flags & TERM_COPY) != 0,
        .begins = (flags & TERM_BEGINS) != 0,
    };
    change->marks = (flags & CHANGE_IS_WATERMARK) != 0;
    change->seq = bytes_u64_at(place + CHANGE_SEQ, 0);
    change->slot.vnode = change->term.vnode;
    change->slot.id = (struct hash128){.lo = bytes_u64_at(place + CHANGE_ID, 0),
                                       .hi = bytes_u64_at(place + CHANGE_ID, 1)};
    change->slot.len = bytes_u32_at(place + CHANGE_LEN, 0);
    change->slot.state = bytes_take(reader, change->slot.len);
    return change->term.vnode < vnodes && sane(&change->term.term);
}

static bool get_cuts(struct bytes_reader *reader, struct lineage *lineage)
{
    const uint8_t flags = bytes_get_u8(reader);
    lineage->overflowed = (flags & LINEAGE_OVERFLOWED) != 0;
    lineage->blind = (flags & LINEAGE_BLIND) != 0;
    lineage->count = bytes_get_u8(reader);
    if (reader->failed || lineage->count > LINEAGE_FORKS_MAX)
        return false;
    for (uint32_t i = 0; i < lineage->count; i++) {
        lineage->cuts[i].term = term_get(reader);
        lineage->cuts[i].seq = bytes_get_u64(reader);
        if (!sane(&lineage->cuts[i].term))
            return false;
    }
    return true;
}

static bool get_apart(struct bytes_reader *reader, uint32_t vnodes, struct peer_apart *apart)
{
    apart->vnode = bytes_get_u32(reader);
    apart->to = term_get(reader);
    apart->state = term_get(reader);
    apart->seq = bytes_get_u64(reader);
    apart->sync = bytes_get_u32(reader);
    return apart->vnode < vnodes && sane(&apart->to) && sane(&apart->state) &&
           get_cuts(reader, &apart->lineage);
}

bool peer_merge_base_next(struct bytes_reader *blobs, struct merge_base_blob *blob,
                          const uint8_t **bytes)
{
    if (bytes_left(blobs) == 0)
        return false;
    const uint8_t kind = bytes_get_u8(blobs);
    blob->kind = (enum merge_base_kind)kind;
    blob->term = term_get(blobs);
    blob->seq = bytes_get_u64(blobs);
    blob->event = bytes_get_u32(blobs);
    blob->len = bytes_get_u32(blobs);
    *bytes = bytes_take(blobs, blob->len);
    return !blobs->failed && kind < MERGE_BASE_KIND_END && sane(&blob->term);
}

static bool get_merge_base(struct bytes_reader *reader, uint32_t vnodes,
                           struct peer_merge_base *side)
{
    side->vnode = bytes_get_u32(reader);
    side->id = bytes_get_hash128(reader);
    side->count = bytes_get_u8(reader);
    if (reader->failed || side->vnode >= vnodes || side->count > MERGE_BASE_BLOBS_MAX)
        return false;
    const size_t first = reader->at;
    for (uint32_t i = 0; i < side->count; i++) {
        struct merge_base_blob blob;
        const uint8_t *bytes;
        if (!peer_merge_base_next(reader, &blob, &bytes))
            return false;
    }
    bytes_reader_init(&side->blobs, reader->data + first, reader->at - first);
    return true;
}

bool peer_share_next(struct bytes_reader *shares, struct fair_share_bin *share)
{
    if (bytes_left(shares) == 0)
        return false;
    share->weight = bytes_get_u32(shares);
    share->ask = bytes_get_u64(shares);
    return !shares->failed;
}

static bool get_origin(struct bytes_reader *reader, struct peer_pool_origin *origin)
{
    origin->home = bytes_get_u64(reader);
    origin->node = bytes_get_u64(reader);
    origin->shard = bytes_get_u16(reader);
    origin->sent_ns = bytes_get_i64(reader);
    return origin->home != 0 && origin->node != 0 && origin->sent_ns > 0;
}

static bool get_pool_report(struct bytes_reader *reader, bool remote,
                            struct peer_pool_report *report)
{
    size_t count = 0;
    report->origin = (struct peer_pool_origin){.home = 0};
    if (remote && !get_origin(reader, &report->origin))
        return false;
    report->pool = bytes_get_u32(reader);
    report->guaranteed = bytes_get_u64(reader);
    report->borrowed = bytes_get_u64(reader);
    report->load_ppm = bytes_get_u32(reader);
    report->load_ms = bytes_get_u32(reader);
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        report->count[class] = bytes_get_u16(reader);
        if (report->count[class] > FAIR_SHARE_SUMMARY_MAX)
            return false;
        count += report->count[class];
    }
    const uint8_t *shares = bytes_take(reader, count * PEER_SHARE_LEN);
    if (shares == NULL || report->pool == 0 || report->load_ppm > PEER_LOAD_MAX)
        return false;
    bytes_reader_init(&report->shares, shares, count * PEER_SHARE_LEN);
    return true;
}

/* No rate is above what a pool may have: meters reckon with that. */
static bool get_pool_level(struct bytes_reader *reader, bool remote, struct peer_pool_level *level)
{
    struct elastic_level *out = &level->level;
    uint64_t most = 0;
    level->echo_ns = remote ? bytes_get_i64(reader) : 0;
    if (remote && level->echo_ns <= 0)
        return false;
    level->pool = bytes_get_u32(reader);
    for (uint32_t class = 0; class < LIMIT_CLASSES; class ++) {
        out->level[class] = bytes_get_u64(reader);
        most = most > out->level[class] ? most : out->level[class];
    }
    out->budget = bytes_get_u64(reader);
    out->budget_open = bytes_get_u64(reader);
    out->spare = bytes_get_u64(reader);
    level->guaranteed = bytes_get_u64(reader);
    level->borrowed = bytes_get_u64(reader);
    level->load_ppm = bytes_get_u32(reader);
    return level->pool != 0 && most <= FAIR_SHARE_RATE_MAX && out->budget <= FAIR_SHARE_RATE_MAX &&
           out->budget_open <= FAIR_SHARE_RATE_MAX && out->spare <= FAIR_SHARE_RATE_MAX;
}

static bool get_reservation(struct bytes_reader *reader, struct peer_reservation *what)
{
    what->tag = bytes_get_u64(reader);
    what->age_ms = bytes_get_u32(reader);
    what->limit_index = bytes_get_u8(reader);
    what->claims = bytes_get_u8(reader);
    what->attempts = bytes_get_u8(reader);
    if (reader->failed || what->tag == 0 || what->attempts > RETRY_ATTEMPTS_MAX)
        return false;
    for (uint32_t i = 0; i < RETRY_ATTEMPTS_MAX; i++)
        what->names[i] = i < what->attempts ? bytes_get_u16(reader) : 0;
    what->granted = bytes_get_u64(reader);
    what->seq = bytes_get_u64(reader);
    what->fold = bytes_get_u16(reader);
    what->count = bytes_get_u8(reader);
    if (reader->failed || what->count == 0 || what->count > PEER_LIMITS_MAX)
        return false;
    for (uint32_t i = 0; i < what->count; i++) {
        what->marks[i].place = bytes_get_u64(reader);
        what->marks[i].at_ns = bytes_get_i64(reader);
        what->marks[i].part = bytes_get_u32(reader);
        what->marks[i].nothing = (bytes_get_u8(reader) & MARK_NOTHING) != 0;
        if (what->marks[i].at_ns < 0)
            return false;
    }
    return what->granted > 0;
}

static bool get_reserved(struct bytes_reader *reader, uint32_t vnodes, struct peer_record *record)
{
    record->reserved.vnode = bytes_get_u32(reader);
    record->reserved.term = term_get(reader);
    record->reserved.line = term_get(reader);
    return record->reserved.vnode < vnodes && sane(&record->reserved.term) &&
           sane(&record->reserved.line) && get_reservation(reader, &record->reserved.what);
}

static bool get_stream(struct bytes_reader *reader, struct peer_record *record)
{
    record->stream.stream = bytes_get_u64(reader);
    record->stream.seq = bytes_get_u64(reader);
    record->stream.boot = bytes_get_u64(reader);
    record->stream.resync = record->stream.bulk = false; /* of an ACK alone */
    return true;
}

static bool get_ack(struct bytes_reader *reader, struct peer_record *record)
{
    record->stream.stream = bytes_get_u64(reader);
    record->stream.seq = bytes_get_u64(reader);
    const uint8_t flags = bytes_get_u8(reader);
    record->stream.resync = (flags & ACK_RESYNC) != 0;
    record->stream.bulk = (flags & ACK_BULK) != 0;
    return true;
}

static void get_term_flags(struct bytes_reader *reader, struct peer_record *record)
{
    const uint8_t flags = bytes_get_u8(reader);
    record->term.copy = (flags & TERM_COPY) != 0;
    record->term.begins = (flags & TERM_BEGINS) != 0;
}

static bool get_body(struct bytes_reader *reader, uint32_t vnodes, struct peer_record *record)
{
    switch (record->type) {
    case PEER_PING:
        return get_ping(reader, &record->ping);
    case PEER_FORWARD:
    case PEER_FORWARD_GLOBAL:
    case PEER_REMOTE_ASK:
        return get_any_forward(reader, vnodes, record);
    case PEER_REMOTE_PING:
        return get_remote_ping(reader, record);
    case PEER_ANSWER:
    case PEER_REMOTE_ANSWER:
        return get_answer(reader, record);
    case PEER_EXPLAIN:
        return get_explain(reader, record);
    case PEER_MOVED:
        record->moved.ticket = bytes_get_u64(reader);
        record->moved.vnode = bytes_get_u32(reader);
        record->moved.term = term_get(reader);
        return record->moved.vnode < vnodes && sane(&record->moved.term);
    case PEER_FIRSTS:
        return get_firsts(reader, vnodes, &record->firsts);
    case PEER_STREAM:
        return get_stream(reader, record);
    case PEER_ACK:
        return get_ack(reader, record);
    case PEER_TERM:
        record->term.vnode = bytes_get_u32(reader);
        record->term.term = term_get(reader);
        record->term.sync = bytes_get_u32(reader);
        get_term_flags(reader, record);
        return record->term.vnode < vnodes && sane(&record->term.term);
    case PEER_SLOT:
    case PEER_DIVERGED:
        return get_slot(reader, vnodes, record);
    case PEER_CHANGE:
        return get_change(reader, vnodes, &record->change);
    case PEER_LINEAGE:
        record->lineage.vnode = bytes_get_u32(reader);
        return record->lineage.vnode < vnodes && get_cuts(reader, &record->lineage.lineage);
    case PEER_MERGE_BASE:
        return get_merge_base(reader, vnodes, &record->side);
    case PEER_APART:
        return get_apart(reader, vnodes, &record->apart);
    case PEER_POOL_REPORT:
    case PEER_REMOTE_POOL_REPORT:
        return get_pool_report(reader, record->type != PEER_POOL_REPORT, &record->pool_report);
    case PEER_POOL_LEVEL:
    case PEER_REMOTE_POOL_LEVEL:
        return get_pool_level(reader, record->type != PEER_POOL_LEVEL, &record->pool_level);
    case PEER_RESERVED:
        return get_reserved(reader, vnodes, record);
    case PEER_WATERMARK:
    case PEER_STALE:
    case PEER_QUERY:
    case PEER_REPORT:
    case PEER_PULL:
    case PEER_TRANSFER:
    case PEER_OPENED:
    case PEER_HELD:
    case PEER_LACK:
    case PEER_DIVERGED_END:
    case PEER_MERGED:
        return get_vnode(reader, vnodes, &record->vnode);
    case PEER_TYPE_END:
        break;
    }
    return false;
}

int peer_next(struct bytes_reader *reader, uint32_t vnodes, struct peer_record *record)
{
    if (bytes_left(reader) == 0)
        return 0;
    const uint8_t type = bytes_get_u8(reader);
    if (type == 0 || type >= PEER_TYPE_END)
        return TG_EPROTOCOL;
    record->type = (enum peer_record_type)type;
    return get_body(reader, vnodes, record) && !reader->failed ? 1 : TG_EPROTOCOL;
}

bool peer_says(const struct peer_record *record, enum peer_record_type type)
{
    const bool change = record->type == PEER_CHANGE;
    return record->type == type || (change && (type == PEER_TERM || type == PEER_SLOT)) ||
           (change && type == PEER_WATERMARK && record->change.marks);
}

enum { GLANCE_ENTRY_LEN = 2 * TERM_LEN + 14, GLANCE_TERM_LEN = TERM_LEN + 5 };

bool peer_glance(struct bytes_reader *reader, uint32_t vnodes, struct peer_glance *glance)
{
    struct bytes_reader ahead = *reader;
    const uint8_t type = bytes_get_u8(&ahead);
    glance->vnode = bytes_get_u32(&ahead);
    glance->slot = type == PEER_SLOT || type == PEER_CHANGE;
    if (type == PEER_CHANGE)
        (void)bytes_take(&ahead, CHANGE_ID - CHANGE_EPOCH);
    if (glance->slot) {
        glance->id = bytes_get_hash128(&ahead);
        (void)bytes_take(&ahead, bytes_get_u32(&ahead));
    } else if (type == PEER_TERM) {
        (void)bytes_take(&ahead, GLANCE_TERM_LEN);
    } else if (type == PEER_WATERMARK) {
        (void)bytes_take(&ahead, GLANCE_ENTRY_LEN);
    } else if (type == PEER_FIRSTS) {
        (void)bytes_take(&ahead, bytes_get_u16(&ahead));
    } else {
        return false;
    }
    if (ahead.failed || glance->vnode >= vnodes)
        return false;
    *reader = ahead;
    return true;
}

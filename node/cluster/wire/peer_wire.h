/* peer_wire.h - what shards of different nodes say to each other, byte by byte.
 *
 * One ZeroMQ frame is a msgpack envelope [1, node, shard, boot, records, channel, reads, wall,
 * seen]; `records` is a bin that holds fixed-layout little-endian records, one after the other, in
 * the order in which they were put. Order matters within a channel: a WATERMARK follows the last
 * SLOT that it stands for. The channel is 1 for bulk copies, 0 for everything else (channel.c).
 * Behind it a frame says what its sender reads (enum peer_reads), and by how much its wall clock is
 * ahead of its cluster time; of one of release 0.1.0, which says neither, both are nothing. `seen`
 * is there for who is not listened to (SKEW-2).
 *
 *   record = u8 type | body            (lengths follow from the type, or are given within)
 *
 *   PING      i64 sent_ns | i64 echo_ns | u64 opened | u32 announced | u32 patience_ms |
 *             u64 process | u8 flags        keep-alive; echo of the last one; both >= 0
 *   FORWARD   ticket, retry identity, vnode, operation, limits        a check for the leader
 *             | u16 attempt, if it undoes one | u64 used, if it is about a lease of tokens
 *             | u64 version of the rules, if flag 2 is set: for peers whose PING says they read it
 *             | u16 class, if its operation has the bit 0x40: READS_CLASSES
 *             its operation has the bit 0x80 if it is to be sure (LESSOR-6): READS_SURE
 *   ANSWER    u64 ticket | decision                                   its decision
 *   MOVED     u64 ticket | u32 vnode | term                           not decided here
 *   STREAM    u64 stream | u64 seq | u64 boot     this frame's place in the stream to that process
 *   TERM      u32 vnode | term | u32 sync | u8 flags    what follows of it was written in that term
 *   GUARD     u32 vnode | guard             the cuts of the line that the sender's state is on
 *   SIDE      u32 vnode | id | u8 count | count x (u8 kind | term | u64 seq | u32 event |
 *                                           u32 len | bytes):
 *                                           what is remembered of the slot that comes next
 *   SLOT      u32 vnode | id | u32 len | state
 *   CHANGE    u32 vnode | u64 epoch | u64 number | u32 sync | u8 flags | u64 seq | id | u32 len |
 *             state                         what TERM, SLOT and (flag 4) WATERMARK say, in this
 * order: of a term that its sender writes, in the plane of `one`; for peers whose PING says they
 * read it WATERMARK      vnode entry: up to seq everything of the vnode has been sent in this sync
 *   HELD      vnode entry: that mark was taken      LACK    vnode entry: not all of that sync came
 *   ACK       u64 stream | u64 seq | u8 flags     1: begin the stream anew, 2: the bulk channel's
 *   STALE     vnode entry: you wrote in an old term; this is the newest I know
 *   QUERY     vnode entry: which state do you hold?       REPORT    vnode entry: this one
 *   PULL      vnode entry: stream me that state           TRANSFER      vnode entry: decide from
 * now on OPENED    vnode entry: I decide in this term APART     u32 vnode | term to | term state |
 * u64 seq | u32 sync | guard what follows is a branch, for the leader of term `to` DIVERGED  as
 * SLOT: a state of that branch DIVERGED_END  vnode entry: all of the branch was sent in this sync
 *   MERGED    vnode entry: all of that sync is merged and held, or (asks) send it again
 *
 *   EXPLAIN   u64 ticket | u8 count | count x (u8 allowed | u64 limit | u64 used | u64 remaining |
 *                                           i64 reset_after_ns | i64 retry_after_ns):
 *                                           what the part met, ahead of its ANSWER
 *   POOL_REPORT  u32 pool | u64 guaranteed | u64 borrowed | u32 load_ppm | u32 load_ms |
 *             3 x u16 count | counts x (u32 weight | u64 ask)     for the pool's owner (pools.h)
 *   POOL_LEVEL  u32 pool | 3 x u64 level | u64 budget | u64 budget_open | u64 spare |
 *             u64 guaranteed | u64 borrowed | u32 load_ppm        what it answers
 *
 *   RESERVED  u32 vnode | term | term line | u64 tag | u32 age_ms | u8 limit_index | u8 claims |
 *             u8 count | count x u16 name | u64 granted | u64 seq | u16 fold | u8 count |
 *             count x (u64 place | i64 at_ns | u32 part | u8 flags)
 *                                           ahead of a TRANSFER: a charge that may have to be
 * undone (reserve.h); for peers whose PING says they read it
 *
 *   FORWARD_GLOBAL  u64 home | u32 wait_ms | as FORWARD: of a rule that another region counts, for
 *                                           the leader in the sender's region (remote_regions.h)
 *
 * Between regions, in frames that hold nothing else (but EXPLAIN, ahead of an REMOTE_ANSWER):
 *
 *   REMOTE_PING    i64 sent_ns | i64 echo_ns        one of both is 0: it asks, or it answers
 *   REMOTE_ASK     u64 home | as FORWARD            to be decided in that region, the receiver's
 *   REMOTE_ANSWER  as ANSWER
 *   REMOTE_POOL_REPORT  u64 home | u64 node | u16 shard | i64 sent_ns | as POOL_REPORT: of a whole
 *             region, by that shard, for the pool's owner in the home; within that region, too: who
 *             was told passes it on
 *   REMOTE_POOL_LEVEL  i64 echo_ns | as POOL_LEVEL: to that shard; the time of its newest report
 *
 *   FIRSTS    u32 vnode | u16 len | so many bytes of (u8 flags | u8 limit_index | u64 tag |
 *             u32 granted | u16 age_ms | u16 attempt | u32 seq, if flag 4 is set)
 *                                           behind a SLOT or CHANGE, or ahead of a WATERMARK:
 * answers that it counts (firsts.h); for who says READS_FIRSTS
 *
 *   guard  = u8 flags | u8 count | count x (term | u64 seq)
 *
 * Decoding is by pulling: peer_next gives one record after the other as views into the frame; every
 * length is checked before a byte is read, and a malformed frame ends the iteration with an error.
 */
#ifndef NODE_CLUSTER_WIRE_PEER_WIRE_H
#define NODE_CLUSTER_WIRE_PEER_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limit.h"
#include "node/cluster/model/lineage.h"
#include "node/cluster/model/merge_base_blob.h"
#include "node/cluster/model/term.h"
#include "node/cluster/wire/peer_forward.h"
#include "node/cluster/wire/peer_kinds.h"
#include "node/cluster/wire/peer_records.h"
#include "node/limit/engine/elastic.h"

/* Who sent a frame, and since when it runs (`boot` is higher with every start of the process). */
struct peer_envelope {
    uint64_t node;
    uint16_t shard;
    uint64_t boot;
    bool bulk;       /* on the channel of bulk copies */
    uint8_t reads;   /* enum peer_reads: what the sender does, beyond release 0.1.0 */
    int64_t wall_ns; /* its wall clock minus its cluster time; 0 of release 0.1.0 */
    int64_t seen_ns; /* the newest sent_ns that it read of whom it does not listen to, 0: it does */
    const uint8_t *records;
    size_t len;
};

/* Upper bound of the bytes of one record without a slot's state. */
enum { PEER_RECORD_MAX = 84 + PEER_LIMITS_MAX * 69, PEER_RESERVED_MAX = 96 + PEER_LIMITS_MAX * 21 };

void peer_put_ping(struct bytes_writer *writer, const struct peer_ping *ping);
/* As FORWARD, or as FORWARD_GLOBAL if it has a home. */
void peer_put_forward(struct bytes_writer *writer, const struct forward *forward);
void peer_put_remote_ping(struct bytes_writer *writer, int64_t sent_ns, int64_t echo_ns);
void peer_put_remote_ask(struct bytes_writer *writer, const struct forward *forward);
void peer_put_remote_answer(struct bytes_writer *writer, uint64_t ticket,
                            const struct answer *answer);
void peer_put_answer(struct bytes_writer *writer, uint64_t ticket, const struct answer *answer);
void peer_put_explain(struct bytes_writer *writer, uint64_t ticket, const struct peer_state *states,
                      uint32_t count);
void peer_put_reserved(struct bytes_writer *writer, uint32_t vnode, const struct term *term,
                       const struct term *line, const struct peer_reservation *what);
void peer_put_moved(struct bytes_writer *writer, uint64_t ticket, uint32_t vnode,
                    const struct term *term);
void peer_put_stream(struct bytes_writer *writer, uint64_t stream, uint64_t seq, uint64_t boot);
void peer_put_ack(struct bytes_writer *writer, uint64_t stream, uint64_t seq, bool resync,
                  bool bulk);
void peer_put_term(struct bytes_writer *writer, uint32_t vnode, const struct term *term,
                   uint32_t sync, bool copy, bool begins);
void peer_put_lineage(struct bytes_writer *writer, uint32_t vnode, const struct lineage *lineage);
void peer_put_apart(struct bytes_writer *writer, const struct peer_apart *apart);
/* A SIDE record is begun, and its blobs follow one by one: `count` of them. */
void peer_put_merge_base(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                         uint8_t count);
void peer_put_blob(struct bytes_writer *writer, const struct merge_base_blob *blob,
                   const uint8_t *bytes);
/* A FIRSTS record is begun, and its answers follow one by one. Returns where it lies, for
 * peer_end_firsts, which notes how long it is by then. */
size_t peer_put_firsts(struct bytes_writer *writer, uint32_t vnode);
void peer_end_firsts(struct bytes_writer *writer, size_t at);
void peer_put_first(struct bytes_writer *writer, const struct peer_first *first);
/* The next answer of a FIRSTS record that peer_next gave; false at the end. */
bool peer_first_next(struct bytes_reader *bytes, struct peer_first *first);
/* The next blob of a SIDE record that peer_next gave; false at the end. */
bool peer_merge_base_next(struct bytes_reader *blobs, struct merge_base_blob *blob,
                          const uint8_t **bytes);
void peer_put_slot(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                   const uint8_t *state, uint32_t len);
/* Returns where in `writer` it lies, for peer_watermark_change. */
size_t peer_put_change(struct bytes_writer *writer, const struct peer_written *term,
                       struct hash128 id, const uint8_t *state, uint32_t len);
/* Has the CHANGE at that place say what a WATERMARK of `seq` behind it would. */
void peer_watermark_change(struct bytes_writer *writer, size_t at, uint64_t seq);
void peer_put_diverged(struct bytes_writer *writer, uint32_t vnode, struct hash128 id,
                       const uint8_t *state, uint32_t len);
/* As POOL_REPORT, or as REMOTE_POOL_REPORT if its origin, which may be NULL, has a home. */
void peer_put_pool_report(struct bytes_writer *writer, const struct peer_pool_origin *origin,
                          const struct elastic_report *report, uint32_t load_ppm, uint32_t load_ms);
/* As POOL_LEVEL, or as REMOTE_POOL_LEVEL if it is an echo. */
void peer_put_pool_level(struct bytes_writer *writer, const struct peer_pool_level *level);
/* The next share of either report that peer_next gave; false at the end. */
bool peer_share_next(struct bytes_reader *shares, struct fair_share_bin *share);
/* `type` is one of those whose body is a vnode entry. */
void peer_put_vnode(struct bytes_writer *writer, enum peer_record_type type,
                    const struct peer_vnode *entry);

/* Wraps `records` into a frame at `out`; returns its length, or TG_ETOOBIG. */
MUST_USE int peer_encode(const struct peer_envelope *envelope, void *out, size_t capacity);
/* Opens a frame. TG_EPROTOCOL, TG_EVERSION or TG_ETOOBIG; then nothing may be used. */
MUST_USE int peer_decode(const void *frame, size_t len, struct peer_envelope *envelope);
/* Whether the record says what one of `type` does: it is one, or a CHANGE with that part. */
bool peer_says(const struct peer_record *record, enum peer_record_type type);
/* What a record that replicates is about, for who wants to look ahead. */
struct peer_glance {
    uint32_t vnode;
    bool slot; /* it is a SLOT or a CHANGE, of `id` */
    struct hash128 id;
};
/* Passes over the next record if it is a TERM, SLOT, CHANGE or WATERMARK; false, and nothing is
 * passed over, if it is another one or malformed, or there is none. */
bool peer_glance(struct bytes_reader *reader, uint32_t vnodes, struct peer_glance *glance);
/* The next record: 1, 0 at the end, TG_EPROTOCOL for anything malformed or out of range
 * (`vnodes` bounds vnode numbers). */
MUST_USE int peer_next(struct bytes_reader *reader, uint32_t vnodes, struct peer_record *record);

#endif

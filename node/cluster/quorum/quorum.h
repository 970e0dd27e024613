/* quorum.h - what a shard keeps of the plane of quorum, and what its files offer the others.
 *
 *   quorum.c         decisions that majorities hold before they are answered   (start here)
 *   quorum_ballot.c  who may decide a vnode: promises and ballots
 *   journal.c        what must be durable before it may be said
 *
 * Part of shard_state.h, for the files of node/cluster alone.
 */
#ifndef NODE_CLUSTER_QUORUM_QUORUM_H
#define NODE_CLUSTER_QUORUM_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/model/effects.h"
#include "node/cluster/model/term.h"
#include "node/cluster/model/view.h"
#include "node/cluster/wire/peer_wire.h"

struct shard;

/* The replicas of which a majority is needed. */
struct quorum_set {
    uint8_t count;
    uint64_t ids[VIEW_REPLICATION_MAX];
};

/* What a vnode of the plane of quorum has beside its struct vnode. */
struct quorum {
    /* durable, as known here */
    struct term promised; /* nothing of a lower term is ever accepted again */
    struct term held;     /* the journal holds the state of (held, held_seq), or one as good */
    uint64_t held_seq;
    /* waiting for the journal, and in the batch that is out */
    bool listed; /* is in shard.journaling.list */
    bool promise_due;
    bool header_due;
    bool report_due; /* when the promise is durable, its writer is told */
    bool tell_held;  /* when the header is durable, the leader is told */
    bool ahead;      /* the journal has slots, or is to have, that its header does not tell of */
    bool in_batch;
    bool batch_slots;
    bool batch_promises;
    bool batch_header;
    struct term batch_promise;
    struct term batch_state;
    uint64_t batch_seq;
    uint32_t batch_sync;
    /* becoming the leader */
    bool campaigning;     /* vnode.term is this node's ballot */
    bool invited;         /* by the leader */
    bool moving;          /* sealed or campaigning: is one of shard.quorum.moving */
    uint8_t promises;     /* links that promised the ballot */
    uint8_t refused;      /* links that will not */
    uint8_t free;         /* links that have no leader */
    uint8_t asks;         /* questions since something was learned: they become rarer */
    uint8_t tries;        /* ballots since somebody decided: with them patience grows */
    struct term seen;     /* the highest ballot heard of (BALLOT-4) */
    int64_t campaign_ns;  /* when it got on last; SEALED: began */
    int64_t pause_ns;     /* no campaign before */
    int64_t caught_up_ns; /* when the state was asked for last */
    int64_t lost_ns;      /* since when nobody decides, as far as known here; 0: somebody does */
    int64_t heard_ns;     /* when it was heard that somebody does, or is about to */
    /* being the leader */
    bool sealed;    /* decides nothing more: another ballot is to follow */
    bool outbid;    /* a replica has promised a higher ballot, and takes nothing of this one */
    bool stalled;   /* decisions were given up for want of a majority */
    int64_t cut_ns; /* since when no majority is within reach, 0: one is */
    uint64_t settled_epoch; /* of the configuration that wants the vnode where it is (QUORUM-9) */
    struct quorum_set from; /* whose majorities commit: of both */
    struct quorum_set to;
    uint64_t marked_seq; /* the newest that any link was told */
    uint64_t committed_seq;
    uint32_t first_pending; /* decided, not committed; POOL_NONE */
    uint32_t last_part;
    int64_t reminded_ns;
};

/* The second plane of vnodes (quorum.c). */
struct quorum_plane {
    bool wanted;              /* it is to be used */
    bool due;                 /* decisions wait for marks to be sent */
    struct quorum *states;    /* [options.vnodes]: of vnodes options.vnodes + v */
    uint32_t uncommitted;     /* parts that are COMMITTING */
    uint32_t moving;          /* vnodes that are between two ballots, or in one of this node */
    uint32_t roles[ROLE_END]; /* vnodes of this shard by role */
};

/* What of the plane of quorum is due for the journal, and what of it is with the journal's writer.
 */
struct journaling {
    uint32_t *list; /* [options.vnodes]: vnodes with something due */
    uint32_t count;
    uint32_t held;   /* of these: headers that wait for what copies left over to go */
    bool out;        /* a batch is with the writer */
    uint32_t *batch; /* [options.vnodes]: its vnodes */
    uint32_t batch_count;
    struct table_write *slots; /* [SHARD_JOURNAL_SLOTS]: its slots */
    uint32_t slot_count;
    int64_t next_ns; /* no batch before */
};

/* ---- quorum.c -------------------------------------------------------------------------------- */

void quorum_init(struct quorum *quorum);
/* A term was opened here. */
void quorum_opened(struct shard *shard, uint32_t vnode);
/* The part was decided here: its answer leaves when a majority holds that durably. */
void quorum_wait(struct shard *shard, uint32_t part, const struct answer *answer);
/* The part does not wait any more. */
void quorum_forget(struct shard *shard, uint32_t part);
/* The replica said that it holds (term, seq) durably. */
void quorum_link_held(struct shard *shard, uint32_t vnode, uint32_t link,
                      const struct peer_vnode *entry, struct effects *effects);
/* Lets go what a majority holds. */
void quorum_advance(struct shard *shard, uint32_t vnode, struct effects *effects);
/* This node decides the vnode no more: what was not committed is in doubt. */
void quorum_doubt(struct shard *shard, uint32_t vnode);
/* A mark was taken: HELD is told as soon as it is true durably. */
void quorum_watermarked(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                        struct effects *effects);
/* Whether nothing decided here waits for a majority. */
bool quorum_committed(const struct shard *shard, uint32_t vnode);
/* Whether the leader's majorities are those that the view wants. */
bool quorum_current(const struct shard *shard, uint32_t vnode);
/* What time does to the leader of a vnode. */
void quorum_tick(struct shard *shard, uint32_t vnode, struct effects *effects);
/* Whether the configuration's wish for this vnode is fulfilled (QUORUM-9). */
bool quorum_arrived(const struct shard *shard, uint32_t vnode);
/* Whether a tick would find nothing to do for a leader. */
bool quorum_quiescent(const struct shard *shard, uint32_t vnode);
/* Asserts what quorum.c and quorum_ballot.c say about the plane. */
void quorum_check_invariants(const struct shard *shard);

/* ---- quorum_ballot.c ------------------------------------------------------------------------- */

void quorum_query(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                  struct effects *effects);
void quorum_report(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                   struct effects *effects);
void quorum_put_report(struct shard *shard, uint16_t peer, uint32_t vnode, struct effects *effects);
/* A peer knows `term`: one that was opened is taken over, another is noted (BALLOT-4). */
void quorum_heard(struct shard *shard, uint16_t peer, uint32_t vnode, const struct term *term,
                  bool open);
/* Notes that nobody decides / that somebody does. */
void quorum_lost(struct shard *shard, uint32_t vnode);
void quorum_found(struct shard *shard, uint32_t vnode);

/* Wants to open a term now. Planned: it is no take-over; invited: the leader asks for it. */
void quorum_campaign(struct shard *shard, uint32_t vnode, bool planned, bool invited,
                     struct effects *effects);
/* Seals the vnode, or no longer; wants to open a term, or no longer. */
void quorum_set_sealed(struct shard *shard, uint32_t vnode, bool sealed);
void quorum_set_campaigning(struct shard *shard, uint32_t vnode, bool campaigning);
/* RECOVERING: asks again, campaigns, pulls, opens, as far as it can. */
void quorum_recover(struct shard *shard, uint32_t vnode, struct effects *effects);
void quorum_recover_tick(struct shard *shard, uint32_t vnode, struct effects *effects);
void quorum_ask(struct shard *shard, uint32_t vnode, struct effects *effects);
void quorum_replica_tick(struct shard *shard, uint32_t vnode, struct effects *effects);
/* Whether another vnode may be sealed or campaign now. */
bool quorum_may_move(const struct shard *shard);
/* Whether the ring configuration of the newest term heard of is known here (QUORUM-9). */
bool quorum_up_to_date(const struct shard *shard, uint32_t vnode);

/* A higher term was adopted; this node follows another one. */
void quorum_adopted(struct shard *shard, uint32_t vnode);
void quorum_deposed(struct shard *shard, uint32_t vnode);
/* This node is no replica any more. */
void quorum_dropped(struct shard *shard, uint32_t vnode);
/* TRANSFER: the leader wants this replica to decide. False if it cannot. */
bool quorum_transferred(struct shard *shard, uint32_t vnode, struct effects *effects);
/* In vain: not again at once. */
void quorum_pause(struct shard *shard, uint32_t vnode);
/* It begins to recover: nothing is known of the others. */
void quorum_recovering(struct shard *shard, uint32_t vnode);

/* ---- journal.c ------------------------------------------------------------------------------- */

/* The vnode's promise, or its state up to now, waits for the journal. */
void journal_promise(struct shard *shard, uint32_t vnode);
void journal_header(struct shard *shard, uint32_t vnode);
/* Whether the journal lacks nothing of the vnode's slots. */
bool journal_clean(const struct shard *shard, uint32_t vnode);
/* Forgets what waits for the journal: the vnode is dropped. */
void journal_dropped(struct shard *shard, uint32_t vnode);
/* A header that the journal held at the start. */
void journal_restored(struct shard *shard, uint32_t vnode, const struct term *state, uint64_t seq);
/* Takes out sooner what copies left over, if a header waits for that. */
void journal_tick(struct shard *shard);
/* The batch is in the journal, or could not be written. */
void journal_done(struct shard *shard, bool ok, struct effects *effects);
/* Without a disk: ends at once what waits for the journal. */
void journal_pretend(struct shard *shard, struct effects *effects);
/* Asserts what journal.c says. */
void journal_check_invariants(const struct shard *shard);

#endif

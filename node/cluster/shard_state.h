/* shard_state.h - the private state of a shard, and what its files offer one another.
 *
 * Reading order: peers.c (frames to and from peers), vnodes*.c (roles and terms), stream*.c
 * (replication), parts.c (checks that wait), requests.c, resolve.c (client messages), retry.c
 * (first answers), lend.c, pools.c (elastic limits), quorum.c, quorum_ballot.c, journal.c (the
 * plane of quorum), writeback.c, refresh.c, copy.c (disk), merge*.c, diverge.c (after a split),
 * abroad.c (other regions), shares.c (who gets what), admin.c (what operators ask), shard.c (events
 * dispatched to all of them).
 *
 *                          +----------- shard.c ------------+
 *       client frames ---> | requests.c --> parts.c          | ---> effects
 *         peer frames ---> | peers.c --> vnodes.c, stream.c  |
 *                          +--------------------------------+
 *
 * S1  A check is decided here only while its vnode's role is DECIDING and its leases hold.
 * S2  A vnode's role is DECIDING iff this node is the writer of the highest term it knows of.
 * S3  Every part in use is in `active`, and every request in use has pending > 0, or is in `news`.
 * S4  A replica's (state term, seq) rises only by a MARK of the decider it follows, so it never
 *     claims state that it does not hold.
 * S5  What is decided in the plane of quorum is answered only when majorities hold it (quorum.c).
 *
 * Nothing outside node/cluster includes this header.
 */
#ifndef NODE_CLUSTER_SHARD_STATE_H
#define NODE_CLUSTER_SHARD_STATE_H

#include <stddef.h>

#include "base/pool.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "client/protocol/wire.h"
#include "node/cluster/admission/batch.h"
#include "node/cluster/admission/explain.h"
#include "node/cluster/admission/pools.h"
#include "node/cluster/dedup/reserve.h"
#include "node/cluster/dedup/retry.h"
#include "node/cluster/lease/holds.h"
#include "node/cluster/lease/purses.h"
#include "node/cluster/lease/shares.h"
#include "node/cluster/model/usage_tally.h"
#include "node/cluster/peer/channel.h"
#include "node/cluster/peer/skew.h"
#include "node/cluster/quorum/quorum.h"
#include "node/cluster/reconcile/merge.h"
#include "node/cluster/region/abroad.h"
#include "node/cluster/replication/bound.h"
#include "node/cluster/replication/copy.h"
#include "node/cluster/replication/firsts.h"
#include "node/cluster/replication/stream.h"
#include "node/cluster/request/stand_in.h"
#include "node/cluster/request/unfinished.h"
#include "node/cluster/shard/shard.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/cluster/writeback/stage.h"
#include "node/limit/engine.h"
#include "node/limit/table.h"
#include "node/policy/api_keys.h"

#define MS ((int64_t)1000000)

enum {
    PEER_NONE = UINT16_MAX,
    SHARD_STATE_MAX = 1 << 19, /* exported bytes of one slot */
    SHARD_REPLICAS_OTHER = VIEW_REPLICAS_MAX - 1,
    SHARD_ROW_BLOCK = 64,
    SHARD_LOADS_MAX = 1024,
    SHARD_ENDPOINTS_MAX = 2048,
    SHARD_POLICIES_MAX = 8,
    SHARD_WRITES_MAX = 1 << 15,    /* slots of one write-back batch */
    SHARD_STAGE_MAX = 1 << 20,     /* slots that are put in order for write-back, at most, */
    SHARD_STAGE_SLOT_BYTES = 48,   /* and one for so many bytes of the table */
    SHARD_JOURNAL_SLOTS = 1 << 14, /* of one batch for the journal */
};

static_assert(SHARD_STATE_MAX + 3 * PEER_RECORD_MAX <= CHANNEL_OUTBOX_LEN - CHANNEL_LIVE_FLUSH,
              "one slot always fits behind a full outbox");
static_assert((int)SHARD_REPLICAS_OTHER == (int)TABLE_REPLICAS_MAX,
              "each other replica has a dirty bit");

/* Times with which the shard paces itself. */
#define SHARD_RESEND_NS          (100 * MS) /* a forward without an answer is sent again */
#define SHARD_REROUTE_NS         (5 * MS)   /* a part without a route looks for one */
#define SHARD_RESYNC_NS          (250 * MS) /* an unacknowledged stream is begun anew */
#define SHARD_RECOVER_NS         (150 * MS) /* a replica that nobody knows yet is waited for */
#define SHARD_PASS_RETRY_NS      (50 * MS)
#define SHARD_FORWARD_NS         (1000 * MS)           /* how long a peer's forward may wait here */
#define SHARD_DEADLINE_NS        (10000 * MS)          /* no client's message waits longer */
#define SHARD_UNDO_NS            (5000 * MS)           /* how long an undo is tried */
#define SHARD_UNDO_PARTS_MAX     (SHARD_PARTS_MAX / 2) /* with so many parts no doubt is undone */
#define SHARD_QUORUM_PATIENCE_NS (300 * MS)            /* for a majority; then checks are refused */
#define SHARD_QUORUM_REMIND_NS   (50 * MS) /* a mark whose HELD does not come is sent again */
#define SHARD_JOURNAL_REST_NS    (50 * MS) /* after a batch that could not be written */

/* ---- peers --------------------------------------------------------------------------------- */

/* One walk over the table that sends complete copies of some vnodes to a peer; handoff.c. */
struct pass {
    bool running;
    bool urgent;     /* somebody waits for one of them to decide: no rate holds it up */
    uint32_t at;     /* the next slot; what is added behind it is a change */
    uint32_t vnodes; /* that it copies */
    uint32_t slots;  /* of these, when it was gathered */
    uint8_t *links;  /* [vnodes]: link + 1 of those that it copies, 0 for others */
};

struct peer {
    uint64_t node;
    uint64_t boot; /* 0: never heard */
    uint16_t shard;
    bool in_view;
    bool closed;       /* its connection ended and nothing was heard since */
    bool refused;      /* and its host takes no new one */
    bool deaf;         /* it is heard, but does not hear this node (P6) */
    bool hears;        /* it has heard this process */
    bool silent;       /* as judged at the last look */
    bool resigning;    /* it said that it stops soon */
    bool reserves;     /* it reads RESERVED */
    bool leases;       /* it reads leases of tokens (T4 of holds.c) */
    bool changes;      /* it reads CHANGE, as its present process has said */
    bool versions;     /* and the version of the rules in a FORWARD */
    uint8_t reads;     /* enum peer_reads, as its newest frame said */
    bool announce_due; /* it asked which vnodes are decided here */
    uint64_t opened;   /* terms it has opened, as it said last */
    uint64_t known;    /* of those: all up to this one are known here */
    uint32_t told;     /* OPENED records of its announcement so far */
    int64_t since_ns;
    int64_t heard_ns;
    int64_t heard_behind_ns; /* behind_ns of the shard then (P12) */
    int64_t late_until_ns;   /* until then it counts as one that comes late (P11) */
    int64_t ping_ns;         /* the newest sent_ns it told, to be echoed */
    int64_t echo_ns;         /* the newest of our own sent_ns that it echoed (P4) */
    int64_t echo_seen_ns;    /* the newest that it echoed at all */
    int64_t met_ns;          /* when its process was first heard */
    int64_t age_ns;          /* of echoes when they come: the longest lately */
    int64_t way_ns;          /* the patience that the length of the way alone asks for (P8) */
    int64_t told_ns;         /* the patience that it was told last (P8) */
    int64_t kept_ns;         /* a longer one that it was told before, kept until kept_until_ns */
    int64_t kept_until_ns;
    int64_t promised_ns; /* the patience that it told */
    struct peer_clock clock;
    struct channel channels[CHANNELS];
    struct pass pass;
};

/* ---- vnodes -------------------------------------------------------------------------------- */

/* How changes of a vnode go to a replica; stream.c draws it. */
enum link_phase {
    LINK_LIVE,     /* in the ordinary stream */
    LINK_WAITING,  /* put off: a complete copy is due, and waits for its turn */
    LINK_COPYING,  /* put off: a pass over the table sends the copy */
    LINK_CATCHING, /* in the bulk stream, behind the copy */
    LINK_ASKED,    /* put off: the copy's MARK is out, HELD is waited for */
};

/* What the decider knows of one other replica. */
struct replica_link {
    uint64_t node;       /* 0: a vacant place, left by a replica that is none any more */
    uint16_t peer;       /* PEER_NONE: vacant, or not known yet */
    uint8_t phase;       /* enum link_phase; all but LINK_LIVE are the bulk channel's */
    bool confirmed;      /* holds everything of this term up to a mark, as it said itself */
    bool copy_due;       /* keys on disk are still to be sent, before the next mark */
    bool copy;           /* the sync is a complete copy, not a mark on what is held already */
    bool begun;          /* something of the sync was sent */
    bool firsts_all;     /* all first answers of the vnode are still to be told (firsts.c), or */
    uint32_t sync;       /* names the complete copy being sent, a new one with each restart */
    uint32_t term_frame; /* the number of the frame that a TERM was last put in */
    uint32_t change_at;  /* in that frame: 1 + where its CHANGE lies, 0 if more of it followed */
    uint32_t firsts;     /* those noted after this one; low bits of its number */
    uint64_t sent_frame; /* the newest frame of the link's channel with slots of the vnode */
    uint64_t mark_frame; /* the frame that carried the newest mark */
    uint64_t mark_seq;
    int64_t mark_ns;
    /* An earlier mark, kept until it is acknowledged: so that under a steady stream of marks, of
     * which the newest is never acknowledged yet, it is known how far the peer has come. */
    uint64_t sample_frame;
    uint64_t sample_seq;
    uint64_t held_seq;    /* acknowledged */
    uint64_t durable_seq; /* quorum: held in the journal, in the vnode's present term */
    struct link_granted granted;
};

struct vnode {
    /* What each decision and each record of a stream reads or writes lies side by side, up to the
     * cuts of the guard, and in lines of its own the links: vnodes are many, and visited in no
     * order. */
    struct term term;  /* the newest known */
    struct term state; /* the term that wrote what is held here */
    /* the copy that arrives here; copies of one sender are ordered by (term, sync) */
    struct term in_term;
    uint32_t in_sync;
    uint16_t in_from; /* peer index, PEER_NONE = none yet */
    uint16_t hint;    /* peer index of the decider, PEER_NONE if that is this node or unknown */
    uint16_t puller;  /* whom this non-decider streams its state to, PEER_NONE = nobody */
    bool in_late;     /* what the frame at hand brings is of an older one */
    bool whole;       /* nothing of it was refused */
    bool in_copy;     /* a complete copy is arriving */
    bool leftover;    /* the last one may have left slots that its decider lacks */
    bool beyond;      /* parts of a newer state than the claim were taken */
    uint8_t role;     /* enum peer_role */
    uint8_t link_count;
    uint8_t marks_due; /* links that changed since their last mark, a bit each */
    bool mark_listed;  /* is in shard.marks */
    bool sampled;      /* is in shard.bound.samples */
    uint64_t granted;  /* tokens, in this term; bound.c */
    int64_t oldest_ns; /* of the grants that no mark tells of yet, 0 = none */
    struct merge_vnode merge;
    uint8_t rank;     /* own place in the replica set */
    uint8_t reported; /* RECOVERING: links that have told what they hold */
    uint8_t equal;    /* RECOVERING: links that hold exactly the best state */
    uint8_t on_line;  /* RECOVERING: links that hold it or less of the same term */
    uint8_t bound;    /* RECOVERING: links that follow the newest term's writer, and hear it */
    uint8_t yielded;  /* links that do not want to be waited for */
    bool
        best_beyond; /* RECOVERING: who holds the best state holds parts of a newer one beside it */
    bool best_apart; /* RECOVERING: the best state is on another line than this node's */
    bool yields;     /* RECOVERING: nor does this node: the best state is on another line */
    bool claim_fell; /* what is stored claims more than is held; writeback.c */
    bool claim_out;  /* the claim as it is now is with the storage writer */
    bool fresh;      /* RECOVERING since the start, not because of a silent decider */
    bool pulling;
    uint8_t pulls_short; /* complete copies that held less than the state that is pulled */
    bool drop_due;       /* what is stored of it is to be forgotten */
    bool header_due;     /* slots were written, the header was not */
    bool arrived;        /* all of the current configuration's conditions were met once */
    bool stirred;        /* is in shard.stirred */
    bool marked;         /* what was held at a mark is still to be claimed; marked_state */
    uint8_t id_count;
    uint16_t best;        /* RECOVERING: who holds the best state, PEER_NONE = this node */
    uint16_t passing_to;  /* PASSING: the peer that shall decide */
    uint16_t refresh_bar; /* permille of its filter from which a refresh pays; refresh.c */
    int64_t in_ns;        /* RECOVERING: when something of the copy came that arrives */
    uint32_t reserved;    /* RESERVED that came since the last PASS */
    uint64_t ids[VIEW_REPLICAS_MAX]; /* the whole replica set, V2 of view.h */
    struct term best_state;
    uint64_t best_seq;
    int64_t since_ns; /* of the role */
    int64_t asked_ns;
    struct term base_state; /* what this node's newest term was opened on */
    uint64_t base_seq;
    /* Answers of the plane of quorum are remembered under `line`: the term in which they were
     * given, or the first one of those that it was passed on through, each state containing all
     * that was decided before. That is known of the state that `line_of` wrote (D6 of decide.c). */
    struct term line;
    struct term line_of;
    struct term marked_state; /* what was held when a round of write-back began; writeback.c */
    uint64_t marked_seq;
    int64_t learned_ns; /* no leases of tokens before (T3 of holds.c) */
    _Alignas(PREFETCH_LINE) struct replica_link
        links[SHARD_REPLICAS_OTHER]; /* the others; each keeps its place */
};

/* What vnodes_prefetch_copy asks memory for. */
enum { VNODE_COPY_LEN = offsetof(struct vnode, merge.guard.cuts) };

static_assert(VNODE_COPY_LEN <= 2 * PREFETCH_LINE, "what records of a stream touch is two lines");
static_assert(sizeof(struct replica_link) == 2 * PREFETCH_LINE, "a link is two lines");

/* ---- parts and requests -------------------------------------------------------------------- */

enum part_status {
    PART_PARKED,
    PART_DECIDING,
    PART_WAITING,
    PART_LOADING,
    PART_COMMITTING,
    PART_HOLDING, /* for replicas, to know a lease: holds.c */
    PART_ABROAD,  /* for another region: abroad.c */
    PART_DONE
};

/* One rule's limits on one key, of one item; lives while it cannot be decided at once. */
struct part {
    uint8_t status;
    bool from_peer;
    bool undo;       /* gives back what a denied request was granted here */
    bool stood_in;   /* was sent to a stand-in last; stand_in.c */
    bool abroad;     /* another region asks */
    bool fell_back;  /* is decided here by a share, for its home is out of reach (A4 of abroad.c) */
    uint8_t loading; /* LOADING: the limit whose slot is fetched */
    uint16_t peer;   /* WAITING: whom it was sent to */
    uint16_t item;
    uint16_t purse;      /* whose it is, + 1, or PURSE_RETURN; 0: none's */
    uint16_t stands;     /* how often it has changed between its decider and a stand-in */
    uint32_t generation; /* tells a late answer from the one waited for */
    uint32_t active_at;
    uint32_t request;     /* of a client's message */
    uint32_t next_load;   /* the next part that waits for the same slot */
    uint32_t sibling;     /* the next part of the same item, POOL_NONE at the end */
    uint8_t loaded;       /* limits for which the disk was asked, a bit each */
    uint8_t sends;        /* how many copies of it there may be elsewhere: 0, 1, 2 or more */
    uint64_t commit_seq;  /* COMMITTING: its answer leaves when this is committed */
    uint32_t commit_next; /* the next and the last one of the vnode that wait so */
    uint32_t commit_last;
    uint16_t origin_peer; /* of a peer's forward; abroad: the shard of the node that asked */
    uint64_t origin_node; /* abroad */
    uint64_t origin_ticket;
    int64_t wan_ns; /* waits for tokens of another region until then; 0: not */
    int64_t sent_ns;
    int64_t retry_ns;
    int64_t deadline_ns;
    const struct policy_rule *rule; /* NULL: inline */
    struct forward forward;
    struct answer answer;
};

/* What tells one limit of a rule from another, and the text of its window. */
struct limit_shown {
    uint64_t count;
    uint64_t window_ns;
    uint8_t algorithm;
    uint8_t ordinal;
};

/* Why an item is not allowed, where neither its outcome nor a rule tells. From WHY_ABSENT on: the
 * attribute of the rule's key with that place, counted from there, is missing. */
enum row_why { WHY_NOTHING, WHY_CROWD, WHY_BOUNDS, WHY_LEASE, WHY_WORK, WHY_FULL, WHY_ABSENT };
#define WHY_FULL_SENTENCE "new keys come faster than they can be written: no room for this one"

/* The decision of one item as it takes shape. */
struct row {
    bool allowed;
    bool degraded;
    bool granted_set;
    bool shown;          /* some limit's numbers are in it */
    bool looks;          /* it is a peek: nothing is granted */
    bool trial_granted;  /* a rule on trial took something */
    bool leased;         /* admitted, it holds a lease */
    bool held;           /* the lease is one of tokens: delay_ns is how long it lasts */
    bool soft;           /* an enforced limit is exceeded, within what mode soft allows */
    bool borrowed;       /* an enforced limit is exceeded, by what a pool has lent */
    bool counted;        /* it is in its user's totals */
    bool unsteady;       /* if denied, more than time may change it, or it is to be counted */
    uint8_t failure;     /* enum answer_status when a part could not be decided */
    uint8_t outcome;     /* fixed by policy (no_rule, blocked ...), or OUTCOME_COUNT */
    uint8_t why;         /* enum row_why */
    uint16_t parts_left; /* answers still to come */
    uint32_t first_part; /* of an item whose parts are decided apart, else POOL_NONE */
    uint32_t vnode;
    const struct policy_rule *rule;   /* of what is shown; NULL: inline */
    const struct policy_rule *shadow; /* the first rule on trial that would have denied, or NULL */
    const char *refusal;              /* why what was asked cannot be done; NULL: it can */
    uint64_t node;                    /* who decided */
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    uint64_t granted;
    int64_t reset_after_ns;
    int64_t retry_after_ns; /* until the cost can succeed, as its decider reckons */
    int64_t soft_over;      /* soft: by how much more than it granted a limit would be exceeded */
    int64_t told_ns;        /* the same as it is told: a rule may have one of its own */
    int64_t delay_ns;
    uint64_t lease;      /* held: its id */
    uint64_t lease_used; /* of a lease of tokens that is released: so many were */
    uint64_t user_hash;  /* whose totals it is in, 0: nobody's; people.h */
    uint64_t key_hash;
    struct limit_shown limit_shown; /* the deciding limit, for its window's text; else all 0 */
};

struct request {
    uint64_t connection;
    uint64_t session;
    uint64_t seq;
    uint32_t count;
    uint32_t pending;   /* parts not yet answered */
    uint32_t next_news; /* news: the next one in shard.news */
    bool partly;        /* what is decided is answered before all is */
    bool news;          /* partly: some item was decided that no answer has told yet */
    uint32_t policy;    /* index into policies */
    uint32_t explained; /* its block, or POOL_NONE */
    int64_t deadline_ns;
    uint32_t blocks[WIRE_CHECKS_MAX / SHARD_ROW_BLOCK];
};

struct policy_slot {
    const struct policy *policy;
    const struct blocks *denied;     /* its blocks, or NULL */
    const struct api_keys *api_keys; /* of it, or NULL: none was issued */
    const struct people *people;     /* its quota records, or NULL */
    uint32_t references;             /* waiting requests */
    uint64_t version;                /* of the rules, in the configuration store, or 0 */
    bool global;                     /* some rule in force has scope global */
};

enum { COPY_IDS_MAX = 1 << 16, COPY_WINDOW = 64 };

/* The vnode whose keys on disk go to replicas; copy.c. */
struct copy {
    bool asked;    /* some link may wait */
    bool later;    /* some link could not be served in this round */
    bool active;   /* `vnode` is being copied */
    bool listing;  /* the disk lists it */
    uint8_t links; /* for these links, a bit each */
    uint32_t vnode;
    uint32_t cursor;
    uint32_t count;  /* of ids */
    uint32_t next;   /* the first that was not asked for */
    uint64_t listed; /* ids that the listing has told */
    uint64_t skip;   /* ids that earlier listings of this copy have dealt with */
    uint32_t out_count;
    int64_t next_ns;                 /* no read before */
    int64_t rest_ns;                 /* after the newest read that was refused; 0: one succeeded */
    struct hash128 *ids;             /* [COPY_IDS_MAX] */
    struct hash128 out[COPY_WINDOW]; /* being read */
};

/* The filter that is made anew, and which one is looked at next. */
struct refresh {
    bool listing; /* the disk lists `vnode` */
    uint32_t vnode;
    uint32_t cursor;
    int64_t next_ns;  /* no listing before */
    int64_t round_ns; /* the cursor does not begin anew before */
};

/* What bulk copies may use, and how far they are; handoff.c. */
struct handoff {
    bool busy;      /* a pass could go on if it were allowed to */
    uint16_t first; /* the peer that is served first next time */
    int64_t tat_ns; /* when all that was sent is paid for, at the rate allowed */
    uint64_t sent;  /* bytes of the bulk channels, since the start */
    uint64_t received;
    uint32_t most;    /* vnodes that were left at most since it was last zero */
    int64_t since_ns; /* when that began */
    uint32_t give;    /* left as last counted */
    uint32_t receive;
    uint64_t counted; /* sent + received when the rate was last measured */
    int64_t counted_ns;
    uint64_t rate; /* bytes a second */
};

struct load {
    uint32_t vnode;
    struct hash128 id;
    uint32_t first_part;
};

/* When keep-alives are sent (peers.c). */
struct keepalive {
    int64_t busy_ns; /* when a client's message or a peer's record came, but keep-alives */
    int64_t next_ping_ns;
    int64_t next_silence_ns; /* when a peer will be silent, or nearly, if it is not heard */
    bool uneasy;             /* a peer is nearly silent */
    bool idle;               /* as judged at the last tick */
};

/* A list of vnodes, each in it once at most. */
struct vnode_list {
    uint32_t *list;
    uint32_t count;
};

/* What is fetched from disk (parts.c). */
struct loads {
    struct load list[SHARD_LOADS_MAX];
    uint32_t count;
};

/* What of the slots is due for the disk, and what is with the storage writer (writeback.c). */
enum writeback_round { ROUND_NONE, ROUND_FILLS, ROUND_ORDERS, ROUND_WRITES };

struct writeback {
    int64_t next_ns;
    int64_t dirty_ns; /* since when something is not on disk, 0 = all is */
    bool asked;
    bool more;     /* there is more to do than to wait for next_ns */
    uint8_t round; /* enum writeback_round: what is done with the stage */
    bool round_ok; /* no batch of the round failed */
    struct stage stage;
    int64_t began_ns;          /* the mark of the round, or of the last one */
    bool out;                  /* a batch is with the storage writer */
    struct table_write *batch; /* its slots, and such whose key is gone: in the stage */
    uint32_t batch_count;
    uint32_t copied;   /* of the first slots of the stage, for a batch that is not complete yet */
    uint32_t gathered; /* of these, writes in that batch: the others' keys are gone */
};

/* When what does not wait for an event is looked at again. */
struct upkeep {
    int64_t stream_ns;
    int64_t watch_ns;
    int64_t parts_ns;
};

/* What the source of a row was made of, and which one it is (source_of of requests.c). */
struct source_seen {
    uint8_t outcome; /* OUTCOME_COUNT: of none yet */
    uint8_t why;
    bool never; /* no retry can succeed */
    uint16_t index;
    const struct policy_rule *rule;
    const struct policy_rule *shadow;
    const char *refusal;
    uint64_t node;
    struct limit_shown limit;
};

/* The reply that is being written (requests.c): scratch. */
struct reply {
    struct wire_decision_columns columns;
    struct wire_sources sources;
    struct wire_explain explain;
    char windows[WIRE_SOURCES_MAX + 1][QUANTITY_TEXT_LEN]; /* one a source, and the one at hand */
    uint32_t window_count;
    struct quantity_rate window_last;
    struct source_seen seen[2]; /* of the last row that was denied, and allowed */
};

/* What an operator asks, and the ring as it is told (admin.c): scratch. */
struct admin_scratch {
    struct mp_token tokens[SHARD_ADMIN_TOKENS_MAX];
    struct wire_ring_member members[WIRE_MEMBERS_MAX];
    struct wire_text endpoints[SHARD_ENDPOINTS_MAX];
    char texts[SHARD_ENDPOINTS_MAX][VIEW_TEXT_LEN];
    uint16_t index_of[VIEW_MEMBERS_MAX * 2]; /* of the view's members, in `members` */
};

/* A client's message at hand. */
struct message {
    struct wire_checks checks;
    uint64_t connection;
    uint32_t request;   /* POOL_NONE if it needed none yet */
    uint32_t explained; /* its block, or POOL_NONE */
    uint8_t flags;      /* of the forwards of each item */
    uint64_t retries;   /* what the tags of its answers have in common (retry.h) */
    uint64_t work;      /* that looking for its rules has cost (Z3 of resolve.c) */
    const void *frame;
    uint32_t len;
};

/* ---- the shard ------------------------------------------------------------------------------- */

struct shard {
    const struct allocator *allocator;
    struct shard_options options;
    struct shard_stats stats;
    const struct view *view;
    struct table *table;
    struct table *stand_ins;               /* what this shard counted in place of others */
    uint16_t ring_order[RING_MEMBERS_MAX]; /* scratch */
    struct random random;
    int64_t now_ns;
    int64_t started_ns;
    int64_t floor_ns;  /* silence is counted from here at the earliest */
    int64_t behind_ns; /* by how much this shard's short stalls made it late, in all (P12) */
    struct upkeep next;
    struct writeback writeback;
    uint64_t opened;       /* terms opened since the start */
    int64_t full_until_ns; /* a copy found no room: none is asked for before that (R7) */
    bool reroute_due;
    bool resigning;
    bool resigned; /* V10 of vnodes.c */

    struct peer *peers[SHARD_PEERS_MAX];
    uint16_t peer_count;
    uint64_t peers_followed; /* digest of who has which shards, as vnodes last followed it */
    uint16_t peer_index[SHARD_PEERS_MAX * 2]; /* open addressing by (node, shard) */

    void *vnodes_block;   /* as allocated */
    struct vnode *vnodes; /* [2 x options.vnodes]: the plane of `one`, that of quorum */
    uint32_t vnode_end;   /* of these in use: options.vnodes, or all */
    struct quorum_plane quorum;
    struct vnode_list marks;   /* those that owe a MARK */
    struct vnode_list stirred; /* those that a tick looks at (V8) */
    uint32_t ticks;            /* of the vnodes, counted */
    uint32_t roles[ROLE_END];  /* vnodes of this shard by role, in the first plane */
    uint32_t unarrived;        /* of both planes, vnodes that are not `arrived` */
    bool resume_due;           /* a peer may have room again */
    uint64_t settled_epoch;

    struct pool parts;
    uint32_t active[SHARD_PARTS_MAX];
    uint32_t active_count;
    struct pool requests;
    uint32_t news; /* the first request of which something is to be told, or POOL_NONE */
    struct pool blocks;
    struct pool explains; /* struct explained */
    struct loads loads;
    struct refresh refresh;
    struct copy copy;
    struct handoff handoff;
    struct bound bound;
    struct holds holds;
    struct unfinished unfinished;
    struct purses purses;
    struct shares shares;
    struct abroad abroad;
    struct pools pools;
    struct keepalive keepalive;
    struct skew_watch watch;
    struct journaling journaling;
    struct policy_slot policies[SHARD_POLICIES_MAX];
    uint32_t policy;                      /* index of the one in force */
    uint64_t rules_seen;                  /* the newest version that decided something here (D15) */
    struct api_keys_cache api_keys_cache; /* of that one */
    uint32_t generation;
    uint32_t sync;   /* the newest name of a copy that was given */
    uint32_t frames; /* begun, of all channels */
    struct retry_memory retries;
    struct firsts firsts;    /* and what replicas know of them */
    int64_t late_until_ns;   /* until then first copies are looked up, too: D9 of decide.c */
    struct reserve reserves; /* the same for requests of several parts */
    struct merge merge;
    struct usage_tally *usage; /* NULL: nobody wants totals */

    /* scratch: valid within one event */
    struct message message;
    uint64_t turn_work; /* that looking for rules has cost in this turn (Z4 of resolve.c) */
    struct batch batch;
    struct row rows[WIRE_CHECKS_MAX];
    struct wire_checks_space checks_space;
    struct reply reply;
    struct identity identity;
    struct admin_scratch admin;
    uint8_t state[SHARD_STATE_MAX];
};

/* ---- shard.c --------------------------------------------------------------------------------- */

/* The beginning and the end of every event. */
void shard_enter(struct shard *shard, int64_t now_ns);
void shard_settle(struct shard *shard, struct effects *effects);

/* ---- peers.c --------------------------------------------------------------------------------- */

/* The index of shard `shard` of `node`, or PEER_NONE. */
uint16_t peers_find(const struct shard *shard, uint64_t node, uint16_t peer_shard);
/* Makes the peers match the view: new ones are added, absent ones marked. */
void peers_follow_view(struct shard *shard);
void peers_fini(struct shard *shard);
/* The outbox of the peer's live channel, with room for `len` more bytes. */
struct bytes_writer *peers_outbox(struct shard *shard, uint16_t peer, size_t len,
                                  struct effects *effects);
/* Sends what either outbox holds. */
void peers_flush(struct shard *shard, uint16_t peer, struct effects *effects);
/* Keep-alives, and silence looked at; calls vnodes_peer_silent for peers that fell silent. */
/* How long after a keep-alive the next one is due. */
int64_t peers_interval_ns(const struct shard *shard);
void peers_tick(struct shard *shard, struct effects *effects);
void peers_closed(struct shard *shard, uint16_t peer, bool refused, struct effects *effects);
/* How long the peer may be unheard before it counts as silent (P8). */
int64_t peers_patience_ns(const struct shard *shard, uint16_t peer);
/* How much longer than usual an answer of the peer may take because the way is long (P8). */
int64_t peers_detour_ns(const struct shard *shard, uint16_t peer);
/* Whether what is sent to the peer waits long until it is taken, or its answers here (P10). */
bool peers_lag(const struct shard *shard, uint16_t peer);
/* Whether nothing but keep-alives may be listened to (P6). */
bool peers_deaf(const struct shard *shard, uint16_t peer);
void peers_ping(struct shard *shard, uint16_t peer, const struct peer_ping *ping);
/* An OPENED came from the peer: `ordinal` of an opening, 0 for a part of an announcement. */
void peers_opened(struct shard *shard, uint16_t peer, uint32_t ordinal);
/* Whether `boot` is a process of the peer that a newer one has replaced (P9). */
bool peers_former(const struct shard *shard, uint16_t peer, uint64_t boot);
/* Whether `boot` may be a process of the peer, as far as its connection and gossip tell (P9). */
bool peers_credible(const struct shard *shard, uint16_t peer, uint64_t boot);
/* Notes that a frame of `boot` came from the peer. True if the peer is a new process. */
bool peers_heard(struct shard *shard, uint16_t peer, uint64_t boot);
/* Whether the peer was gone when it was last looked at: unlike peers_silent this changes only at
 * events, and each change stirs the vnodes that it concerns. */
bool peers_gone(const struct shard *shard, uint16_t peer);
/* Whether there is no evidence that the peer lives. */
bool peers_silent(const struct shard *shard, uint16_t peer);
bool peers_silent_node(const struct shard *shard, uint64_t node, uint32_t vnode);
/* The peer that is responsible for `vnode` on `node`, PEER_NONE for this shard or an unknown. */
uint16_t peers_for(const struct shard *shard, uint64_t node, uint32_t vnode);
/* Whether the peer, if it lives, has recently shown that it has not deposed this shard (P3). */
bool peers_lease_holds(const struct shard *shard, uint16_t peer);
void peers_put_vnode(struct shard *shard, uint16_t peer, enum peer_record_type type,
                     const struct peer_vnode *entry, struct effects *effects);

/* ---- vnodes.c, vnodes_*.c -------------------------------------------------------------------- */

bool vnodes_mine(const struct shard *shard, uint32_t vnode);
/* The vnodes of this shard in both planes that are in use: from vnodes_first on, below vnode_end.
 */
static inline uint32_t vnodes_first(const struct shard *shard)
{
    return shard->options.shard;
}
static inline uint32_t vnodes_next(const struct shard *shard, uint32_t vnode)
{
    const uint32_t plane = shard->options.vnodes;
    const uint32_t next = vnode + shard->options.shards;
    return vnode < plane && next >= plane ? plane + shard->options.shard : next;
}
/* The vnode of the ring that `vnode` is a plane of. */
static inline uint32_t vnodes_ring(const struct shard *shard, uint32_t vnode)
{
    return vnode & (shard->options.vnodes - 1);
}
/* Whether `vnode` is of the plane of quorum. */
static inline bool vnodes_quorum(const struct shard *shard, uint32_t vnode)
{
    return vnode >= shard->options.vnodes;
}
void vnodes_follow_view(struct shard *shard, struct effects *effects);
/* Takes up the plane of quorum, for good. */
void vnodes_use_quorum(struct shard *shard, struct effects *effects);
void vnodes_tick(struct shard *shard, struct effects *effects);
void vnodes_peer_silent(struct shard *shard, uint16_t peer, struct effects *effects);
/* Whether a replica needs a complete copy: it has none, or one that may have left something over.
 */
bool vnodes_lacks(const struct shard *shard, uint32_t number);
void vnodes_peer_restarted(struct shard *shard, uint16_t peer, struct effects *effects);
/* The vnode may have something to do at the next tick (V8). */
void vnodes_stir(struct shard *shard, uint32_t vnode);
void vnodes_stir_all(struct shard *shard);
/* Whether a tick would find nothing to do for the vnode. */
bool vnodes_calm(const struct shard *shard, uint32_t vnode);
/* Adopts `term` if it is newer than what is known. True if it was. */
bool vnodes_adopt(struct shard *shard, uint32_t vnode, const struct term *term);
/* Takes notice of the term of a record about a vnode. */
void vnodes_hear(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* `peer` does not decide `vnode`, and `term` is the newest that it knows. */
void vnodes_moved(struct shard *shard, uint16_t peer, uint32_t vnode, const struct term *term,
                  struct effects *effects);
void vnodes_query(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                  struct effects *effects);
void vnodes_report(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                   struct effects *effects);
/* A replica that follows this node got no copy, or not all of it. */
void vnodes_lack(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                 struct effects *effects);
void vnodes_pull(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                 struct effects *effects);
void vnodes_pass(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                 struct effects *effects);
/* A RESERVED came: what the decider that passes the vnode on knows of a charge. */
void vnodes_reserved(struct shard *shard, const struct peer_record *record);
void vnodes_opened(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* Tells the peer of every vnode decided here; returns how many records that took. */
uint32_t vnodes_announce(struct shard *shard, uint16_t peer, struct effects *effects);
/* A MARK completed the pulled state. */
void vnodes_pulled(struct shard *shard, uint32_t vnode, struct effects *effects);
/* A replica stands behind the decider if it has confirmed its copy and there is no evidence that it
 * is gone: what is acknowledged later than that is on nobody's word but this node's. */
static inline bool vnodes_degraded(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnodes_quorum(shard, number))
        return false; /* S5 */
    uint32_t replicas = 1;
    for (uint32_t i = 0; i < vnode->link_count; i++)
        replicas += vnode->links[i].node != 0;
    const uint32_t majority = replicas / 2 + 1;
    uint32_t holders = 1;
    for (uint32_t i = 0; i < vnode->link_count && holders < majority; i++)
        holders += vnode->links[i].confirmed && vnode->links[i].peer != PEER_NONE &&
                   !peers_silent(shard, vnode->links[i].peer);
    return holders < majority;
}
struct peer_vnode vnodes_entry(const struct shard *shard, uint32_t vnode);
/* V11: whether this node follows a decider other than `at`, and hears it. */
bool vnodes_bound(const struct shard *shard, uint32_t vnode, uint16_t at);

/* NONE: nobody can decide it, and waiting would not help soon. */
enum route { ROUTE_HERE, ROUTE_PEER, ROUTE_WAIT, ROUTE_NONE };
/* Whether a check of `vnode` is decided here now, in the first plane (S1; P3 of peers.c for every
 * other replica). */
static inline bool vnodes_here(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->role != ROLE_DECIDING || shard->watch.doubt_ns != 0 || shard->watch.refused)
        return false; /* S1, W3 of skew.h */
    for (uint32_t i = 0; i < vnode->link_count; i++)
        if (vnode->links[i].peer != PEER_NONE && !peers_lease_holds(shard, vnode->links[i].peer))
            return false;
    return true;
}
/* Where a check of `vnode` is to go now; `*peer` is set for ROUTE_PEER. */
enum route vnodes_route(struct shard *shard, uint32_t vnode, uint16_t *peer);
/* Asks memory for what routing and deciding a check of `vnode` will read and write of it. */
static inline void vnodes_prefetch(const struct shard *shard, uint32_t number)
{
    const struct vnode *vnode = &shard->vnodes[number];
    prefetch(&vnode->role);
    prefetch_to_write(&vnode->granted);
    if (shard->peer_count == 0)
        return; /* then it has no links */
    prefetch(&vnode->links[0].peer);
    prefetch(&vnode->links[1].peer);
}
/* The same for what a replica reads and writes of it, and who streams it to one. */
void vnodes_prefetch_copy(const struct shard *shard, uint32_t vnode);
/* The node that decides `vnode` as far as known, 0 if unknown. */
uint64_t vnodes_decider(const struct shard *shard, uint32_t vnode);

/* ---- parts.c --------------------------------------------------------------------------------- */

struct part *parts_at(const struct shard *shard, uint32_t index);
/* The name of the attempt that the part belongs to, for the retry memory. */
uint16_t parts_attempt(const struct shard *shard, uint32_t index);
/* Its ticket; the part of one, and of one that still waits for that region, or POOL_NONE. */
uint64_t parts_ticket(const struct shard *shard, uint32_t index);
uint32_t parts_find(const struct shard *shard, uint64_t ticket);
uint32_t parts_abroad(const struct shard *shard, uint64_t ticket, uint64_t region);
/* Lets it wait for a moment, and be dispatched again. */
void parts_park(struct shard *shard, uint32_t index);
/* A new part in `active`, POOL_NONE when there is no room. */
uint32_t parts_new(struct shard *shard, const struct forward *forward, int64_t deadline_ns);
void parts_free(struct shard *shard, uint32_t index);
/* Sends a part where it can be decided, or lets it wait. */
void parts_dispatch(struct shard *shard, uint32_t index, struct effects *effects);
/* A forward that came from a peer. */
void parts_forwarded(struct shard *shard, uint16_t peer, const struct forward *forward,
                     struct effects *effects);
/* A part was decided, here or elsewhere, or given up. */
void parts_answer(struct shard *shard, uint32_t index, const struct answer *answer, uint64_t node,
                  struct effects *effects);
void parts_answered(struct shard *shard, uint16_t peer, uint64_t ticket,
                    const struct answer *answer, struct effects *effects);
/* What a part met elsewhere was told. */
void parts_explained(struct shard *shard, uint64_t ticket, const struct peer_state *states,
                     uint32_t count, struct effects *effects);
void parts_moved(struct shard *shard, uint64_t ticket);
/* Gives back what a part was granted, but for `keep` tokens, retrying until it is acknowledged. */
void parts_undo(struct shard *shard, uint32_t index, uint64_t keep, struct effects *effects);
/* Lets a part wait for its slots to be read from disk. */
void parts_load(struct shard *shard, uint32_t index, struct effects *effects);
/* Whether some part waits for that slot. */
bool parts_await(const struct shard *shard, struct hash128 id);
void parts_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result,
                  struct effects *effects);
/* Routes, resends and times out what waits. */
void parts_tick(struct shard *shard, struct effects *effects);

/* ---- merge.c, merge_side.c, diverge.c -------------------------------------------------------- */

/* 0 or TG_ENOMEM. */
MUST_USE int merge_init(struct shard *shard);
void merge_fini(struct shard *shard);
/* A frame of a peer begins: nothing was said yet. */
void merge_frame_begin(struct shard *shard);
/* A term begins: notes where its line was cut, if somebody may be apart. */
void merge_cut(struct shard *shard, uint32_t vnode);
/* Keeps the bases of the slots that the batch may change. */
void merge_before(struct shard *shard);
/* Looks whether guarding may end. */
void merge_watch(struct shard *shard, uint32_t vnode);
void merge_tick(struct shard *shard, struct effects *effects);
/* Whether something is to be merged into the slot when it was read. */
bool merge_awaits(const struct shard *shard, struct hash128 id);
/* The slot was read from disk, or is not there, or cannot be read. */
void merge_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result);
void merge_set_guard(struct shard *shard, uint32_t vnode, const struct guard *guard);
/* Guards no more. */
void merge_forget(struct shard *shard, uint32_t vnode);
void merge_in_diverged(struct shard *shard, const struct peer_record *record);

/* What is remembered of a slot, put before its state: bytes it needs at most, and the record. */
size_t merge_side_room(const struct shard *shard, uint32_t vnode, struct hash128 id);
void merge_put_side(struct shard *shard, uint32_t vnode, struct hash128 id,
                    struct bytes_writer *outbox);
/* Whether it puts one. */
bool merge_tells(const struct vnode *vnode);
void merge_put_guard(const struct shard *shard, uint32_t vnode, struct bytes_writer *outbox);
/* A vnode entry of `type` with the guard that it is to be read with. */
void merge_put_report(struct shard *shard, uint16_t peer, uint32_t vnode,
                      enum peer_record_type type, struct effects *effects);
void merge_in_side(struct shard *shard, const struct peer_record *record);
/* A state of the slot was taken from the decider / a mark was, after a complete copy or not. */
void merge_in_slot(struct shard *shard, uint32_t vnode, struct hash128 id);
void merge_in_mark(struct shard *shard, uint32_t vnode, bool copied);

/* Whether a branch is being handed over. */
bool diverge_busy(const struct vnode *vnode);
void diverge_stop(struct shard *shard, uint32_t vnode);
/* Begins the sending anew. */
void diverge_again(struct shard *shard, uint32_t vnode);
void diverge_tick(struct shard *shard, uint32_t vnode);
void diverge_put_apart(const struct shard *shard, uint32_t vnode, struct bytes_writer *outbox);
/* A newer term was seen, the vnode's role being as before. */
void diverge_deposed(struct shard *shard, uint32_t vnode);
/* Whether a node that is no replica must keep the vnode. */
bool diverge_keeps(struct shard *shard, uint32_t vnode, struct effects *effects);
/* A REPORT of the decider: this node has no branch, or else GUARD has told it already. */
void diverge_told(struct shard *shard, uint16_t peer, const struct peer_vnode *entry);
/* The guard that came with the record at hand; of no cuts if none did. */
const struct guard *diverge_guard_of(const struct shard *shard, uint32_t vnode);
void diverge_in_guard(struct shard *shard, uint16_t peer, const struct peer_record *record);
void diverge_in_apart(struct shard *shard, uint16_t at, const struct peer_record *record);
/* Something of the sending at hand could not be taken: when it ends it is asked for again. False
 * if that was known. */
bool diverge_refuse(struct shard *shard, uint32_t vnode);
void diverge_in_end(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                    struct effects *effects);
void diverge_merged(struct shard *shard, uint16_t peer, const struct peer_vnode *entry,
                    struct effects *effects);

/* Sends a part, as it is written in `forward`, and waits for the answer. */
void parts_send(struct shard *shard, uint32_t index, uint16_t peer, struct forward *forward,
                struct effects *effects);

/* ---- bound.c (the rest: bound.h) ---------------------------------------------------------------
 */

/* Tokens were granted. */
static inline void bound_granted(struct shard *shard, uint32_t number, uint64_t tokens)
{
    struct vnode *vnode = &shard->vnodes[number];
    vnode->granted += tokens;
    if (vnode->oldest_ns == 0)
        vnode->oldest_ns = shard->now_ns;
}

/* ---- writeback.c (the rest: shard.h) ----------------------------------------------------------
 */

/* 0 or TG_ENOMEM. */
MUST_USE int writeback_init(struct shard *shard);
/* Whether nothing is dirty for the disk, nor on its way there. */
bool writeback_clean(const struct shard *shard);
void writeback_check_invariants(const struct shard *shard);

/* ---- lend.c -----------------------------------------------------------------------------------
 */

/* Lends to what the engine has denied, and charges what it has allowed, of elastic limits. */
void lend_batch(struct shard *shard);

/* ---- resolve.c ------------------------------------------------------------------------------- */

/* Items resolved at a time: enough to hide most of the wait for memory, few enough to stay in the
 * nearest cache meanwhile. */
enum { RESOLVED_MAX = 8 };
/* What finding the rules of a message may cost, in steps of comparing patterns (Z3 of resolve.c).
 */
#define RESOLVE_WORK_MAX UINT64_C(270000000)

/* What an item is to be decided by. */
struct resolved {
    uint32_t count;    /* 0: its row is fixed */
    bool leases;       /* some limit in force has leases */
    bool trials;       /* some rule is on trial, ... */
    bool trial_leases; /* ... and some limit of those has leases */
    const struct policy_rule *rules[POLICY_PARTS_MAX];
    struct forward parts[POLICY_PARTS_MAX];
};
/* Resolves items first .. first + count - 1 of the message at hand, whose rows are fresh; `count`
 * is at most RESOLVED_MAX. How many of them: at least one, and not all where the turn is over. */
uint32_t resolve_items(struct shard *shard, uint32_t first, uint32_t count, struct resolved *out);
/* Whether the message at hand needs rules, for which no work is left in this turn. */
bool resolve_waits(const struct shard *shard);
/* Whether tokens of all that the item meets can be held elsewhere: limits of one rule, for of
 * several one might grant what another denies. Its count is not 0. */
bool resolve_gives_holds(const struct resolved *resolved);
/* The same of part `part` alone. */
bool resolve_part_holds(const struct resolved *resolved, uint32_t part);

/* ---- reasons.c ------------------------------------------------------------------------------- */

/* The text of the deciding limit's window, valid until the reply is made; one that no rule has the
 * text of is written into the reply's scratch. */
struct wire_text reasons_window(struct shard *shard, const struct row *row);
/* What is said of a row that is not allowed: by whoever wrote the rule, or else why. Never empty.
 */
struct wire_text reasons_message(const struct row *row, uint8_t outcome);

/* ---- requests.c ------------------------------------------------------------------------------ */

void requests_checks(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     struct effects *effects);
/* Goes on with the message at hand from an item on: to its end, or until the turn is over. */
void requests_work(struct shard *shard, uint32_t item, struct effects *effects);
/* Takes up what the flags of the message at hand say. */
void requests_flags(struct shard *shard);
/* The request of the message at hand, made when there is none yet; POOL_NONE without room. */
uint32_t requests_current(struct shard *shard);
/* The answer of a part of a waiting request has come. */
void requests_part_done(struct shard *shard, uint32_t part, uint64_t node, struct effects *effects);
/* The answer to one part of the item of the message at hand that has this row. */
void requests_row_done(struct shard *shard, struct row *row, const struct policy_rule *rule,
                       const struct limit *limit, uint32_t vnode, const struct answer *answer,
                       struct effects *effects);
/* The rule, which is on trial, would have denied the item of this row. */
void requests_shadow(struct row *row, const struct policy_rule *rule);
/* Answers what has been decided of messages that are answered in parts; at the end of events. */
void requests_tell(struct shard *shard, struct effects *effects);
/* A part of item `item` of the message at hand has to wait: its part, POOL_NONE without room. */
uint32_t requests_new_part(struct shard *shard, uint16_t item, const struct policy_rule *rule,
                           const struct forward *forward);
void requests_error(struct shard *shard, uint64_t connection, uint64_t session, uint64_t seq,
                    int code, const char *text, struct effects *effects);

/* Answers a frame with an ERROR of its own session and sequence, as far as they can be read. */
void requests_refuse(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     int code, const char *text, struct effects *effects);

/* ---- admin.c --------------------------------------------------------------------------------- */

void admin_command(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                   struct effects *effects);
void admin_hello(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                 struct effects *effects);
void admin_ring(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                struct effects *effects);

#endif

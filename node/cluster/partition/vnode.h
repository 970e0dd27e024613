/* vnode.h - what a shard knows of one vnode: its term and role, its replicas, the copy that comes.
 *
 * One array of these is the heart of a shard. Which room writes what of it: the term and the role
 * are election/'s, links replication/'s, `merge` is reconcile/'s, `claim_*` and `drop_due` are
 * writeback/'s.
 */
#ifndef NODE_CLUSTER_PARTITION_VNODE_H
#define NODE_CLUSTER_PARTITION_VNODE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prefetch.h"
#include "node/cluster/model/lineage.h"
#include "node/cluster/model/term.h"
#include "node/cluster/model/view.h"
#include "node/limit/table/table.h"

enum { SHARD_REPLICAS_OTHER = VIEW_REPLICAS_MAX - 1 };

static_assert((int)SHARD_REPLICAS_OTHER == (int)TABLE_REPLICAS_MAX,
              "each other replica has a dirty bit");

/* ---- what replication/ and reconcile/ keep in it --------------------------------------------- */

enum {
    MERGE_ENDS_MAX = 4,    /* branches of one vnode that are known to have ended */
    MERGE_REFUSED_MAX = 8, /* and of which something was not taken */
};

/* How many of the tokens granted in this term some marks tell of; exposure.c. */
struct link_granted {
    uint64_t mark;   /* the newest mark */
    uint64_t sample; /* the sample */
    uint64_t held;   /* what was acknowledged before */
    bool based;      /* holds what this term was opened on (EXPOSURE-4) */
};

/* A sending that was ended. */
struct merge_end {
    uint16_t from;
    bool told;           /* MERGED was said */
    uint32_t sync;       /* 0: none */
    uint64_t line;       /* names the term of the branch */
    uint64_t branch_seq; /* and how far it goes */
    uint64_t seq;        /* up to which replicas must hold it before it counts as merged */
    int64_t ended_ns;    /* when it was ended first, and last */
    int64_t again_ns;
};

/* The newest sending of a peer of which something was not taken. */
struct merge_refused {
    uint16_t from;
    uint32_t sync; /* 0: none */
};

/* Of one vnode. */
struct merge_vnode {
    uint16_t successor; /* to whom a branch goes that is handed over, PEER_NONE: there is none */
    bool begun;         /* that is being sent */
    bool deposed; /* decided until another term was seen: may have a branch though no replica */
    bool merge_base_lost; /* of the copy that arrives, some of what is remembered found no room */
    struct lineage lineage;
    int64_t lineage_ns; /* of the newest cut */
    int64_t successor_ns;
    /* taking one over */
    struct merge_end ends[MERGE_ENDS_MAX];
    struct merge_refused refused[MERGE_REFUSED_MAX];
    uint8_t refused_next; /* the one that is written over */
    uint32_t refusals;    /* sendings in a row that met a full store of merge bases */
};

/* ---- links and vnodes --------------------------------------------------------------------------
 */

/* How changes of a vnode go to a replica; stream.c draws it. */
enum link_phase {
    LINK_LIVE,     /* in the ordinary stream */
    LINK_WAITING,  /* put off: a complete copy is due, and waits for its turn */
    LINK_COPYING,  /* put off: a pass over the table sends the copy */
    LINK_CATCHING, /* in the bulk stream, behind the copy */
    LINK_ASKED,    /* put off: the copy's WATERMARK is out, HELD is waited for */
};

/* What the leader knows of one other replica. */
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
    uint64_t watermark_frame; /* the frame that carried the newest mark */
    uint64_t watermark_seq;
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
     * forks of the lineage, and in lines of its own the links: vnodes are many, and visited in no
     * order. */
    struct term term;  /* the newest known */
    struct term state; /* the term that wrote what is held here */
    /* the copy that arrives here; copies of one sender are ordered by (term, sync) */
    struct term in_term;
    uint32_t in_sync;
    uint16_t in_from;     /* peer index, PEER_NONE = none yet */
    uint16_t hint;        /* peer index of the leader, PEER_NONE if that is this node or unknown */
    uint16_t snapshot_to; /* whom this non-leader streams its state to, PEER_NONE = nobody */
    bool in_late;         /* what the frame at hand brings is of an older one */
    bool copy_complete;   /* nothing of it was refused */
    bool in_copy;         /* a complete copy is arriving */
    bool has_stale_slots; /* the last one may have left slots that its leader lacks */
    bool holds_newer;     /* parts of a newer state than the claim were taken */
    uint8_t role;         /* enum peer_role */
    uint8_t link_count;
    uint8_t watermarks_due; /* links that changed since their last mark, a bit each */
    bool watermark_listed;  /* is in shard.watermarks */
    bool sampled;           /* is in shard.exposure.samples */
    uint64_t granted;       /* tokens, in this term; exposure.c */
    int64_t oldest_ns;      /* of the grants that no mark tells of yet, 0 = none */
    struct merge_vnode merge;
    uint8_t rank;                /* own place in the replica set */
    uint8_t reported;            /* RECOVERING: links that have told what they hold */
    uint8_t equal;               /* RECOVERING: links that hold exactly the best state */
    uint8_t same_lineage;        /* RECOVERING: links that hold it or less of the same term */
    uint8_t follows_live_leader; /* RECOVERING: links that follow the newest term's writer, and hear
                                    it */
    uint8_t yielded;             /* links that do not want to be waited for */
    bool best_holds_newer; /* RECOVERING: who holds the best state holds parts of a newer one beside
                              it */
    bool best_diverged;    /* RECOVERING: the best state is on another line than this node's */
    bool yields;           /* RECOVERING: nor does this node: the best state is on another line */
    bool claim_fell;       /* what is stored claims more than is held; writeback.c */
    bool claim_out;        /* the claim as it is now is with the storage writer */
    bool fresh;            /* RECOVERING since the start, not because of a silent leader */
    bool catching_up;
    uint8_t short_snapshots; /* complete copies that held less than the state that is pulled */
    bool drop_due;           /* what is stored of it is to be forgotten */
    bool header_due;         /* slots were written, the header was not */
    bool arrived;            /* all of the current configuration's conditions were met once */
    bool is_active;          /* is in shard.active_vnodes */
    bool marked;             /* what was held at a mark is still to be claimed; marked_state */
    uint8_t id_count;
    uint16_t best;        /* RECOVERING: who holds the best state, PEER_NONE = this node */
    uint16_t transfer_to; /* TRANSFERRING: the peer that shall decide */
    uint16_t
        filter_rebuild_bar; /* permille of its filter from which a refresh pays; filter_rebuild.c */
    int64_t in_ns;          /* RECOVERING: when something of the copy came that arrives */
    uint32_t reserved;      /* RESERVED that came since the last TRANSFER */
    uint64_t ids[VIEW_REPLICAS_MAX]; /* the whole replica set, VIEW-2 */
    struct term best_state;
    uint64_t best_seq;
    int64_t since_ns; /* of the role */
    int64_t asked_ns;
    struct term base_state; /* what this node's newest term was opened on */
    uint64_t base_seq;
    /* Answers of the plane of quorum are remembered under `line`: the term in which they were
     * given, or the first one of those that it was passed on through, each state containing all
     * that was decided before. That is known of the state that `line_of` wrote (DECIDE-6). */
    struct term line;
    struct term line_of;
    struct term marked_state; /* what was held when a round of write-back began; writeback.c */
    uint64_t marked_seq;
    int64_t learned_ns; /* no leases of tokens before (LESSOR-3) */
    _Alignas(PREFETCH_LINE) struct replica_link
        links[SHARD_REPLICAS_OTHER]; /* the others; each keeps its place */
};

/* What vnodes_prefetch_copy asks memory for. */
enum { VNODE_COPY_LEN = offsetof(struct vnode, merge.lineage.cuts) };

static_assert(VNODE_COPY_LEN <= 2 * PREFETCH_LINE, "what records of a stream touch is two lines");
static_assert(sizeof(struct replica_link) == 2 * PREFETCH_LINE, "a link is two lines");

/* A list of vnodes, each in it once at most. */
struct vnode_list {
    uint32_t *list;
    uint32_t count;
};

#endif

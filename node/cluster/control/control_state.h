/* control_state.h - the private state of the control core (control.c, control_admin.c). */
#ifndef NODE_CLUSTER_CONTROL_CONTROL_STATE_H
#define NODE_CLUSTER_CONTROL_CONTROL_STATE_H

#include "base/random.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/consensus/register.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control.h"
#include "node/cluster/control/control_parts.h"
#include "node/cluster/control/gather.h"
#include "node/cluster/model/health.h"
#include "node/cluster/wire/join.h"

#define CONTROL_MS ((int64_t)1000000)
/* How long a bootstrapping node that has seeds looks for somebody else's cluster first. */
#define CONTROL_SEEK_NS    (1500 * CONTROL_MS)
#define CONTROL_ASK_NS     (250 * CONTROL_MS) /* between repeated JOINs and FETCHes */
#define CONTROL_PROPOSE_NS (125 * CONTROL_MS) /* between changes that one node proposes */
#define CONTROL_LOOK_NS    (20 * CONTROL_MS)  /* between looks for one: it walks all members */
/* While the ring changes, a member spreads its record again after so long: whoever missed a rumour
 * would else hold the change up until the next push/pull. */
#define CONTROL_RETELL_NS (500 * CONTROL_MS)
/* A member must be seen alive this long before it is taken into the ring. */
#define CONTROL_ADMIT_NS (300 * CONTROL_MS)
/* Who lives is heard of within so long after a start, though some gossip is lost: from push/pulls
 * that are asked for until one is answered, and from what is told of members that changed. */
#define CONTROL_HEAR_NS (3000 * CONTROL_MS)
/* A member that has been dead this long is taken out of the ring; coming back, it joins anew. */
#define CONTROL_FORGET_NS (600000 * CONTROL_MS)
/* A voter that has been dead this long is replaced by a living member, if there is one. */
#define CONTROL_VOTER_DEAD_NS (60000 * CONTROL_MS)
/* A node that joins a cluster waits so long for its settings before it serves: without them it
 * would decide by rules that are not the cluster's, or by none. */
#define CONTROL_SETTINGS_WAIT_NS (3000 * CONTROL_MS)
/* An operator's request is pursued this long after the last time it was made. */
#define CONTROL_REQUEST_NS (3000 * CONTROL_MS)
/* A transition that has not ended after so long may be forced, and `remove` says so. */
#define CONTROL_STILL_NS (10000 * CONTROL_MS)

/* A node that has left the ring answers for so long before it ends, so that whoever waits hears. */
#define CONTROL_FAREWELL_NS (1500 * CONTROL_MS)

/* Meta values. */
#define CONTROL_CONFIG_KEY  "ring.config"
#define CONTROL_PEERS_KEY   "gossip.peers"
#define CONTROL_BALLOTS_KEY "ring.register"

/* What an operator wants of the ring, through this node. */
struct control_request {
    uint64_t remove; /* this member; 0: nothing */
    bool force;      /* by a new lineage, if the ring is frozen */
    bool settings;   /* of the configuration store alone: the ring is left as it is */
    int64_t until_ns;
};

/* A member that could vote. */
struct voters_candidate {
    uint64_t id;
    uint32_t place; /* members of one place may be lost together: a zone, or a region */
    uint32_t inner; /* the same within the place: a zone of a region */
};

enum { CONTROL_PROOF_MAX = 64 };

/* What others said when they were asked for their configuration (control_proof.c). */
struct control_said {
    uint64_t node;
    uint64_t epoch;
    struct hash128 digest;
    struct hash128 accepted; /* of what it has accepted for the epoch after that; 0: nothing */
};

struct control_proof {
    struct hash_key nonce;
    int64_t begun_ns;  /* when the number was drawn, 0: there is none */
    int64_t until_ns;  /* somebody has a newer one: it is asked for until then */
    int64_t wait_ns;   /* between two questions */
    int64_t asked_ns;  /* the last one */
    int64_t looked_ns; /* whether there is a reason */
    int64_t frozen_ns; /* since when too few voters live to prove anything, 0: enough do */
    uint32_t said_count;
    struct control_said said[CONTROL_PROOF_MAX];
};

struct control {
    const struct allocator *allocator;
    struct control_options options;
    struct control_identity identity;
    struct swim *swim;
    struct swim_effects gossip;
    struct cluster_time *time;
    int64_t clocks_ns; /* when clocks were judged last */
    int64_t jumped_ns; /* when this node's own time last went on by 2 s or more at once, or back */
    int64_t wall_ns;   /* own wall clock minus own cluster time */
    bool confirmed;    /* that a majority agreed with the own time is told */
    struct random random;
    struct register_core *ballots;
    struct register_out wants; /* of the register's last call */
    struct settings *settings;
    struct control_request request;
    uint64_t removal_of; /* the last that was asked for: the member may be forgotten since */
    char removal_name[RING_NAME_LEN];
    char removal_by[SETTINGS_AUTHOR_LEN_MAX + 1];
    enum control_departure departure;
    char departure_by[SETTINGS_AUTHOR_LEN_MAX + 1]; /* who asked for it */
    int64_t departed_ns; /* when this node had no part in the ring any more, 0 = not yet */
    struct control_foreign {
        int64_t first_ns; /* 0: no seed has answered for another cluster */
        int64_t last_ns;
        char seed[SWIM_ADDRESS_LEN];
        char name[VIEW_TEXT_LEN];
        uint8_t cluster_id[CONTROL_CLUSTER_ID_LEN];
    } foreign;
    struct control_seed {
        char address[SWIM_ADDRESS_LEN];
        char name[VIEW_TEXT_LEN];
        int64_t heard_ns; /* 0: never */
        bool has_cluster;
    } seeds_heard[CONTROL_SEEDS_HEARD]; /* who answered a node without a cluster */
    struct control_twin {
        uint64_t id; /* 0: no other living node has this node's name */
        int64_t since_ns;
        int64_t looked_ns;
        bool outside; /* it is this node that is kept out of the ring */
    } twin;
    struct control_proof proof;
    struct control_news {
        enum control_departure departure; /* that was told, and whose removal, */
        uint64_t removal_of;
        struct control_news_state {
            bool told;
            int64_t since_ns;           /* since when it is another, 0: it is not */
        } ring, settings;               /* whether it is frozen; */
        struct control_news_state time; /* whether the cluster's is off its wall clocks */
        uint64_t version;               /* and up to which change, 0: none yet */
        struct hash128 digest;
        int64_t window_ns;
        uint32_t lines; /* in it */
        uint64_t untold;
    } news;
    uint64_t join_asked;  /* who was asked for its cluster last */
    int64_t strangers_ns; /* since when the strangers answered are counted */
    uint32_t strangers;
    bool accompanied; /* somebody of this node's own cluster was heard */
    bool joined;
    bool creating; /* may create a cluster when nobody else does */
    bool view_due;
    bool peers_due; /* members came: their addresses are to be kept */
    bool disk_full; /* nothing is kept that is new (control_disk.c) */
    bool leaving;
    struct health health;       /* what is wrong with this node, as others are told */
    uint32_t troubles;          /* of these, what the core was told last */
    int64_t health_ns;          /* when that was looked at last */
    struct figures_meter meter; /* of this node */
    int64_t figures_asked_ns;   /* when another node, or an operator, asked for them last */
    struct gather gather;       /* and what others told */
    bool stopping;              /* it was told to end, and stays a member */
    uint64_t view_version;
    uint64_t rules_digest;
    uint64_t rules_version; /* of the settings, whose rules are in force; 0: of a file, or none */
    char rules_error[SETTINGS_SENTENCE_LEN]; /* why newer ones are not; "" if there is no reason */
    uint64_t settled_epoch;
    uint64_t spread_version; /* of the settings, by which all shards decide */
    bool spreads;            /* somebody tells that */
    int64_t now_ns;
    int64_t started_ns;
    int64_t joined_ns;
    int64_t asked_ns;
    int64_t retold_ns; /* when this node last spread its record though nothing had changed */
    int64_t proposed_ns;
    int64_t looked_ns;          /* whether there is something to propose */
    bool look_due;              /* something happened since that may be a reason to */
    int64_t changed_ns;         /* when the configuration was adopted, 0 = by an earlier process */
    int64_t lower_seen_ns;      /* when a bootstrapping node of lower id was met last */
    struct ring_config *config; /* epoch 0: none yet */
    struct ring_config *next;   /* scratch */
    struct mp_token *tokens;    /* RING_CONFIG_TOKENS_MAX */
    uint8_t *bytes;             /* JOIN_FRAME_MAX */
    struct view_member *members;
    struct voters_candidate *candidates; /* SWIM_MEMBERS_MAX, scratch */
    struct hash128 region_edit;          /* the last one that was to make a record of the region */
    struct hash128 removal;              /* the last one that was to remove another's */
    char removed[SWIM_PLACE_LEN];        /* the region that was removed by this node last */
    int64_t region_ns;                   /* when that was looked at last */
    struct view_regions regions;         /* that have a ring */
    uint64_t regions_since;              /* what settings->kind_since was when they were listed */
    uint64_t strays;    /* frames on the ring of another region, which were ignored */
    struct view *known; /* of the newest configuration that a view was made of, or NULL */
};

/* Flags of a member record; from HEALTH_SHIFT on those of health.h. */
enum {
    CONTROL_FLAG_BOOTSTRAP = 1, /* may create a cluster */
    CONTROL_FLAG_DRAINING = 2,  /* wants out of the ring, and not in again */
    CONTROL_FLAG_FULL = 4,      /* its disk has no room: it cannot vote */
    CONTROL_FLAG_MIXED = 8,     /* its settings are of no version: it waits for a history to copy */
    CONTROL_FLAG_REGIONS = 16,  /* knows that a ring is of one region: older releases do not */
    CONTROL_FLAG_FIGURES = 64,  /* answers who asks for its figures (gather.h) */
    CONTROL_FLAG_PROVES = 32,   /* repeats the number of a FETCH, of either kind, in its answer */
    CONTROL_FLAG_TIMED = 128,   /* a majority agreed with its time: cluster_time_confirmed */
    CONTROL_FLAG_STOPS = 65536  /* its process ends in order, and is expected to start again */
};
static_assert((int)CONTROL_FLAG_STOPS < 1 << HEALTH_SHIFT, "no bit means two things");

#endif

/* swim_values.h - what goes in and out of a membership: records, members, regions, options,
 * effects.
 *
 * Values only: nothing here has a function. swim.h is what one does with them.
 */
#ifndef GOSSIP_SWIM_VALUES_H
#define GOSSIP_SWIM_VALUES_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SWIM_MEMBERS_MAX = 2048, /* bound of options.members_max, this node included */
    SWIM_REGIONS_MAX = 32,   /* this node's own included */
    SWIM_SEEDS_MAX = 128,
    SWIM_SEEDS_PER_ROUND_MAX = 8, /* that a node without a cluster greets at once */
    SWIM_MESSAGE_MAX = 8192,      /* bytes of one gossip message */
    SWIM_SENDS_MAX = 64,          /* messages in one effects buffer */
    SWIM_SEND_BYTES_MAX = 8 * SWIM_MESSAGE_MAX,
    SWIM_EVENTS_MAX = 64,
    SWIM_MET_MAX = 4,
    /* No claim about a member is believed that is so much above what is known, and never more than
     * so many of this region that the ring does not know: swim_doubt.c, swim_stranger.c. */
    SWIM_INCARNATION_STEP = 1024,
    SWIM_STRANGERS_MAX = 64,
    SWIM_CLUSTER_ID_LEN = 16,
    SWIM_NAME_LEN = 64, /* these lengths include the terminating NUL */
    SWIM_PLACE_LEN = 32,
    SWIM_ADDRESS_LEN = 64,
    SWIM_VERSION_LEN = 24
};

/* A process starts with no higher incarnation, nor follows what others say of it above that: so it
 * can always say something higher, and what is made of it (names of processes) has room. */
#define SWIM_INCARNATION_START_MAX (UINT64_C(1) << 43)

/* The region of a member that names none. */
#define SWIM_REGION_DEFAULT "default"

/* The order is the order of precedence within one incarnation. */
enum swim_state { SWIM_ALIVE = 0, SWIM_SUSPECT = 1, SWIM_DEAD = 2, SWIM_LEFT = 3 };
enum { SWIM_STATES = 4 }; /* on the wire: append */
static_assert((int)SWIM_STATES == (int)SWIM_LEFT + 1, "all have a number");

/* What a node says about itself; only its owner changes it. (incarnation, version) orders two
 * records of one node. Addresses are "HOST:PORT". */
struct swim_record {
    uint64_t id; /* random, never 0 */
    uint64_t incarnation;
    uint64_t version; /* of the content within the incarnation; kept by swim_update_self */
    uint64_t rules_digest;
    uint64_t ring_epoch;
    uint64_t settled_epoch;
    uint64_t settings_version; /* of the configuration store; 0: none, or of an older release */
    uint64_t settings_digest;
    uint32_t weight;
    uint32_t vnodes; /* how many virtual nodes it carries now */
    uint32_t flags;  /* meaning belongs to node/cluster; unknown bits are carried along */
    uint16_t shards;
    uint16_t protocol_min;
    uint16_t protocol_max;
    char name[SWIM_NAME_LEN];
    char region[SWIM_PLACE_LEN]; /* "" is SWIM_REGION_DEFAULT */
    char zone[SWIM_PLACE_LEN];
    char gossip[SWIM_ADDRESS_LEN];
    char peer[SWIM_ADDRESS_LEN];
    char client[SWIM_ADDRESS_LEN];
    char software[SWIM_VERSION_LEN];
};

/* What a member's last answer says of its clock. */
struct swim_clock {
    int64_t low_ns; /* bounds of its cluster time minus ours */
    int64_t high_ns;
    int64_t wall_ns; /* its wall clock minus its cluster time; 0 of older releases */
    int64_t at_ns;   /* when it came, 0 = never */
};

/* A member as this node sees it. */
struct swim_member {
    struct swim_record record;
    enum swim_state state;
    uint64_t incarnation; /* at which `state` holds; >= record.incarnation */
    int64_t since_ns;     /* when `state` began, as far as this node knows */
    int64_t rtt_ns;       /* smoothed; 0 = not measured yet */
    int64_t skew_ns;      /* smoothed: its clock minus ours; valid if rtt_ns > 0 */
    struct swim_clock clock;
};

/* A region as this node sees it. Times are this node's, 0 = never. Of its own region only the
 * name and the members mean anything: it hears from it all the time. */
struct swim_region {
    char name[SWIM_PLACE_LEN];
    uint32_t members[SWIM_STATES]; /* by state as their own region says it; this node included */
    int64_t last_contact_ns;       /* when one of its members last spoke to this node */
    int64_t heard_ns;              /* of when the newest is that is known of it, by whomever */
    int64_t rtt_ns;                /* smoothed, of contacts from here; 0 = not measured yet */
};

/* All durations in ns. swim_options_default fills in what the architecture promises. */
struct swim_options {
    int64_t probe_interval_ns;    /* 500 ms */
    int64_t ack_timeout_ns;       /* 200 ms, raised to 3 round trips of the member probed */
    int64_t gossip_interval_ns;   /* 100 ms, only while there are rumours */
    int64_t push_pull_ns;         /* 30 s */
    int64_t join_retry_ns;        /* 500 ms: every seed is tried this often while alone */
    int64_t rejoin_ns;            /* 2 s: one dead member or unreached seed is tried */
    int64_t contact_ns;           /* 1 s, times members here up to 5: another region is asked */
    int64_t tombstone_ns;         /* 24 h */
    int64_t stall_ns;             /* 100 ms: a tick later than this is this node's own fault */
    uint32_t gossip_peers;        /* 3 */
    uint32_t abroad_peers;        /* 2: of a region's nodes so many tell each other one its news */
    uint32_t indirect_peers;      /* 3 */
    uint32_t retransmit_factor;   /* 4, times ceil(log10(n + 1)) */
    uint32_t suspicion_factor;    /* 6, times max(1, log10 n) probe intervals */
    uint32_t suspicion_max_ratio; /* 6: longest suspicion over shortest */
    uint32_t confirmations;       /* k = 2 */
    uint32_t health_max;          /* 8 */
    uint32_t members_max;         /* SWIM_MEMBERS_MAX */
};

enum swim_event_kind {
    SWIM_EVENT_JOINED,   /* a member that was not known */
    SWIM_EVENT_ALIVE,    /* was suspect, dead or left; or came back with a new incarnation */
    SWIM_EVENT_SUSPECT,  /* still counts as a member; may refute */
    SWIM_EVENT_DEAD,     /* also the first event of a member only ever heard of as dead */
    SWIM_EVENT_LEFT,     /* said good-bye */
    SWIM_EVENT_UPDATED,  /* its record changed: look it up */
    SWIM_EVENT_FORGOTTEN /* its tombstone expired: swim_find no longer knows it */
};

/* Events tell that something changed; the truth is what swim_find says now. Two changes of one
 * member between two looks at the effects may be told as the last one. Never about this node. */
struct swim_event {
    enum swim_event_kind kind;
    uint64_t id;
};

struct swim_send {
    char address[SWIM_ADDRESS_LEN];
    uint32_t offset; /* into effects.bytes */
    uint32_t len;
};

/* Someone met while this node had no cluster yet; cluster_id all zero = has none either. Or, when
 * it has one, who answered for another. */
struct swim_met {
    uint8_t cluster_id[SWIM_CLUSTER_ID_LEN];
    char seed[SWIM_ADDRESS_LEN]; /* the address that was greeted and answers; "": it greeted us */
    int64_t time_ns;             /* its cluster time when it spoke */
    int64_t wall_ns;             /* its wall clock minus that; 0 of older releases */
    bool timeless;               /* it has none yet: that is its wall clock */
    bool answers;                /* it was greeted: */
    int64_t asked_ns;            /* when the greeting that this answers left */
    struct swim_record record;
};

/* What one or several calls want done; calls append. About 75 KB: keep one per loop. When it
 * fills, replies are dropped (counted: SWIM repairs lost messages), and periodic work, pages
 * and events wait: swim_next_deadline is then "at once". */
struct swim_effects {
    uint64_t persist_incarnation; /* non-zero: make it durable before anything is sent */
    size_t sends_count;
    size_t events_count;
    size_t met_count;
    size_t bytes_len;
    struct swim_send sends[SWIM_SENDS_MAX];
    struct swim_event events[SWIM_EVENTS_MAX];
    struct swim_met met[SWIM_MET_MAX];
    uint8_t bytes[SWIM_SEND_BYTES_MAX];
};

struct swim_stats {
    uint64_t received;
    uint64_t received_bytes;
    uint64_t sent;
    uint64_t sent_bytes;
    uint64_t malformed;   /* dropped: not a message of any known release */
    uint64_t foreign;     /* dropped: another cluster's */
    uint64_t misdirected; /* dropped: meant for another node */
    uint64_t probes;
    uint64_t probes_indirect; /* needed helpers */
    uint64_t probes_failed;
    uint64_t suspicions;
    uint64_t deaths;          /* members this node saw become dead */
    uint64_t refutations;     /* of claims against this node */
    uint64_t stalls;          /* calls that came more than stall_ns late */
    uint64_t push_pulls;      /* exchanges started */
    uint64_t replies_dropped; /* effects were full */
    uint64_t jobs_dropped;    /* relay, sync or met table was full */
    uint64_t members_refused; /* table full of living members */
    uint64_t regions_refused; /* claims dropped: one region too many */
    uint64_t doubts; /* claims dropped: too far above what is known; their owner is asked */
    uint64_t strangers_refused; /* members that the ring does not know, and messages from addresses
                                 * that nobody is known at: too many of them */
    uint64_t abroad_received;   /* of the above: messages from and to members of other regions */
    uint64_t abroad_received_bytes;
    uint64_t abroad_sent;
    uint64_t abroad_sent_bytes;
    uint32_t local_health; /* 0 = well .. health_max */
    uint32_t alive;        /* members of all regions by state, this node included */
    uint32_t suspect;
    uint32_t dead;
    uint32_t left;
};

#endif

/* swim_internal.h - the state of one membership, shared by the files of gossip/ and its tests.
 *
 *   swim.c            entry points, timers, effects             each calls some of those below it
 *   swim_sync.c       push/pull, paged jobs
 *   swim_probe.c      probes and helpers
 *   swim_doubt.c      claims that are too much to believe: their owner is asked
 *   swim_piggyback.c  what rides along with messages
 *   swim_message.c    the frame of a message, in and out
 *   swim_table.c      members, the rules of precedence, suspicion
 *   swim_rumour.c     the queue of what is still to be told
 *   swim_stranger.c   who is not in the ring, or not known at all
 *   swim_seed.c       addresses that are tried for ever
 *   swim_health.c     this node's own slowness, round trips, skew
 *   swim_region.c     regions: who is in them, what is known of them
 *   swim_index.c      id -> slot
 *   swim_record.c     bytes of records and items
 *
 * Members live in slots that never move, so a slot number is a stable name within the node:
 *
 *   slot   0      1      2      3 ...        order[] = the others, shuffled: who is probed next
 *        [self] [used] [free] [used]         index[] = id -> slot, open addressing
 *                                            rumours[] = slots with something to tell
 *
 * GOSSIP-1  Slot 0 is this node: SWIM_ALIVE, or SWIM_LEFT after swim_leave.
 * GOSSIP-2  member.incarnation >= record.incarnation; they are equal while the member is alive.
 * GOSSIP-3  A suspect has 1 .. SWIM_ACCUSERS_MAX accusers and a deadline; nobody else has accusers.
 *           The deadline of one abroad is never: its own region decides.
 * GOSSIP-4  order[] holds every used slot but 0 exactly once; rumours[] those with rumour set.
 * GOSSIP-5  Each slot is in the region its record names; a region's members[] agree with the states
 *           of its slots, and a region without any is unused. Region 0 is this node's own, and
 *           stays.
 * GOSSIP-6  The index finds each used slot by its id, and holds no other entry.
 * GOSSIP-7  events_waiting counts the slots with events that were not told; slot 0 has none.
 * GOSSIP-8  Counts are within their bounds: health, hints, seeds, the ring's members.
 * GOSSIP-9  Between two calls no effects are borrowed, and the next turn is not in the past.
 */
#ifndef GOSSIP_SWIM_INTERNAL_H
#define GOSSIP_SWIM_INTERNAL_H

#include <assert.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/mp.h"
#include "base/random.h"
#include "gossip/swim_values.h"

enum {
    SWIM_PROBES_MAX = 16,
    SWIM_RELAYS_MAX = 64,
    SWIM_JOBS_MAX = 16,
    SWIM_HINTS_MAX = 16,
    SWIM_DOUBTS_MAX = 16,
    SWIM_ACCUSERS_MAX = 4,
    SWIM_HELPERS_MAX = 8,      /* bound of gossip_peers and indirect_peers */
    SWIM_BUCKETS = 64,         /* of the push/pull summary */
    SWIM_TOKENS_MAX = 4096,    /* msgpack tokens of one message */
    SWIM_ITEMS_MAX = 64,       /* member items of one message */
    SWIM_PIGGYBACK_MAX = 1024, /* bytes of rumours on a ping or an ack */
    SWIM_ITEM_MAX = 640,       /* bytes of one item with the longest record */
    SWIM_HEAD_MAX = 192,       /* bytes of a frame around its body and items */
    SWIM_SUMMARY_LEN = SWIM_BUCKETS * 4,
    SWIM_ENTRY_LEN = 33, /* id, incarnation, content incarnation, version, state */
    SWIM_ENTRIES_MAX = (SWIM_MESSAGE_MAX - SWIM_HEAD_MAX - SWIM_PIGGYBACK_MAX) / SWIM_ENTRY_LEN,
    SWIM_JOB_WORDS = SWIM_MEMBERS_MAX / 64,
    SWIM_GREETINGS_MAX = 4, /* of one seed that may still be answered */
    SWIM_AGE_LEN = 6,       /* hash of a region's name, age of what is known of it */
    SWIM_AGES_MAX = 3,      /* told with one message */
    SWIM_WALL_LEN = 9,      /* bytes of the wall clock behind the ages */
    SWIM_TAIL_MAX = 40,     /* bytes of a frame behind its items */
    SWIM_SELF = 0,
    SWIM_HOME = 0 /* this node's own region; the others are abroad */
};

#define SWIM_SLOT_NONE   UINT32_MAX
#define SWIM_REGION_NONE UINT32_MAX

/* An incarnation beyond this is no honest count of restarts; refusing it keeps +1 safe. */
#define SWIM_INCARNATION_MAX (UINT64_MAX / 4)

static_assert(SWIM_SUMMARY_LEN + SWIM_HEAD_MAX + 2 * SWIM_ITEM_MAX < SWIM_MESSAGE_MAX,
              "a summary with this node's own item fits one message");
static_assert(SWIM_AGES_MAX * SWIM_AGE_LEN + 2 + SWIM_WALL_LEN <= SWIM_TAIL_MAX,
              "ages and wall clock fit behind the items");
static_assert(SWIM_HELPERS_MAX + SWIM_REGIONS_MAX < SWIM_SENDS_MAX, "one turn of gossip fits");
static_assert(SWIM_MEMBERS_MAX % 64 == 0, "job bitmaps are whole words");
static_assert(SWIM_SEEDS_PER_ROUND_MAX < SWIM_SENDS_MAX / 4, "seeds leave room for probes");

/* Whether `claimed` is further above `known` than anybody rises unheard. */
static inline bool swim_too_far(uint64_t known, uint64_t claimed)
{
    return claimed > known && claimed - known > SWIM_INCARNATION_STEP;
}

struct swim_slot {
    struct swim_member member;
    bool used;
    bool in_ring;    /* as swim_ring said */
    uint32_t region; /* place in swim.regions */
    uint8_t events;  /* bit per swim_event_kind not yet told */
    /* dissemination */
    bool rumour;        /* in swim.rumours */
    bool rumour_record; /* the record goes along */
    uint32_t transmits;
    uint64_t sent_in; /* number of the last message that carried it */
    /* suspicion */
    uint64_t accusers[SWIM_ACCUSERS_MAX];
    uint32_t accusers_count;
    uint32_t patience; /* 1 + local health if our own stall may be to blame, else 1 */
    int64_t deadline_ns;
};

struct swim_probe {
    bool used;
    bool indirect;
    uint32_t slot;
    uint32_t helpers;
    uint32_t nacks;
    uint64_t id;
    uint64_t seq;
    int64_t sent_ns;
    int64_t indirect_ns;
    int64_t deadline_ns;
};

/* A ping made for somebody else. */
struct swim_relay {
    bool used;
    bool nacked;
    uint64_t subject;
    uint64_t seq; /* of our ping */
    uint64_t asker_id;
    uint64_t asker_seq;
    int64_t nack_ns;
    int64_t deadline_ns;
    char asker[SWIM_ADDRESS_LEN];
};

/* Pages still owed to one address: digests of the buckets in `mask`, records of `slots`. */
struct swim_job {
    bool used;
    bool digest;
    bool answered; /* at least one page of the digest has gone out */
    uint64_t mask;
    uint64_t seq;
    uint64_t target;
    uint64_t slots[SWIM_JOB_WORDS];
    char address[SWIM_ADDRESS_LEN];
};

/* A HELLO that went to a seed. */
struct swim_greeting {
    uint64_t seq; /* 0 = none, or it was answered */
    int64_t sent_ns;
};

struct swim_seed {
    char address[SWIM_ADDRESS_LEN];
    uint64_t seq;                                       /* of the last exchange started with it */
    uint64_t id;                                        /* who answered there, 0 = nobody yet */
    struct swim_greeting greetings[SWIM_GREETINGS_MAX]; /* the newest first */
    bool learned; /* remembered from an expired tombstone; may be replaced */
};

/* A member that was asked for its own word, because others said what is hard to believe. */
struct swim_doubt {
    uint64_t id;  /* 0 = none */
    uint64_t seq; /* of the greeting: random, so that nobody else can answer; 0 = was answered */
    int64_t until_ns; /* it is not asked again before */
};

/* The exchange that was last started with another region, until it is answered. */
struct swim_contact {
    uint64_t seq; /* 0 = none */
    int64_t sent_ns;
};

/* The state of swim_probe.c. */
struct swim_probing {
    struct swim_probe probes[SWIM_PROBES_MAX];
    struct swim_relay relays[SWIM_RELAYS_MAX];
    uint64_t hints[SWIM_HINTS_MAX]; /* ids that the data plane wants probed at once */
    uint32_t hints_len;
    uint32_t order_at;
    bool order_any;  /* whose turn it is: of anybody, or of those that are no strangers */
    int64_t next_ns; /* the next probe of the round */
};

/* The state of swim_sync.c. */
struct swim_syncing {
    struct swim_job jobs[SWIM_JOBS_MAX];
    struct swim_contact contact;
    uint32_t contact_at;  /* the region asked last */
    int64_t contact_ns;   /* when another region is asked, while there is one */
    int64_t push_pull_ns; /* the next exchange with a random member, */
    int64_t rejoin_ns;    /* with a dead one or a seed */
    int64_t greet_ns;     /* nobody unknown is asked before */
};

/* The state of swim_seed.c. */
struct swim_seeds {
    struct swim_seed all[SWIM_SEEDS_MAX];
    uint32_t len;
    uint32_t at;     /* the seed tried next */
    int64_t join_ns; /* when seeds are tried next, while this node is alone */
};

/* The state of swim_stranger.c. */
struct swim_strangers {
    uint64_t *ring; /* members_max ids, ascending */
    uint32_t ring_len;
    uint32_t tokens; /* messages that may still come from where nobody is known */
    int64_t refill_ns;
};

/* The state of swim_message.c and swim_piggyback.c. */
struct swim_frame {
    struct hash_key seq_key; /* of the numbers of questions, so that */
    uint64_t seq_count;      /* no answer tells the next one's */
    uint64_t written;        /* messages are numbered, so that no item rides twice on one */
    bool abroad;             /* the message being written goes to another region */
    struct mp_token tokens[SWIM_TOKENS_MAX];
    uint8_t scratch[SWIM_MESSAGE_MAX];
};

struct swim {
    const struct allocator *allocator;
    struct swim_options options;
    struct random random;
    uint8_t cluster_id[SWIM_CLUSTER_ID_LEN];
    bool joined;  /* has a cluster id */
    bool started; /* timers are set */
    bool at_once; /* something waits that no timer stands for */
    int64_t now_ns;
    int64_t wall_ns;          /* this node's wall clock minus now_ns */
    bool timeless;            /* now_ns is no cluster time */
    int64_t deadline_ns;      /* earliest timer, as computed at the end of the last call */
    struct swim_effects *out; /* of the call in progress, else NULL */

    struct swim_slot *slots;
    uint32_t slots_len; /* highest used slot + 1 */
    uint32_t *order;
    uint32_t order_len;
    uint32_t *rumours;
    uint32_t rumours_len;
    uint32_t *index; /* slot + 1, 0 = empty */
    uint32_t index_len;
    uint32_t events_waiting;                      /* slots with events */
    struct swim_region regions[SWIM_REGIONS_MAX]; /* a name of "" = unused */
    uint32_t regions_abroad;                      /* used ones but the own */
    uint32_t age_at;                              /* the region whose age was told last */

    uint32_t health;
    int64_t stalled_until_ns;
    bool refuted;      /* during the message in hand */
    int64_t gossip_ns; /* next turn of rumours, */
    int64_t reap_ns;   /* of looking for expired tombstones */
    struct swim_probing probe;
    struct swim_syncing sync;
    struct swim_seeds seeds;
    struct swim_strangers strangers;
    struct swim_doubt doubts[SWIM_DOUBTS_MAX];
    struct swim_frame frame;
    struct swim_stats stats;
};

#endif

/* swim_internal.h - the state of one membership, shared by the files of gossip/ and its tests.
 *
 *   swim.c          entry points, timers, effects             calls all below
 *   swim_sync.c     push/pull, seeds, paged jobs
 *   swim_probe.c    probes, helpers, local health
 *   swim_message.c  the frame of a message, in and out
 *   swim_rumour.c   what rides along, how often
 *   swim_table.c    members, the rules of precedence, suspicion
 *   swim_doubt.c    claims that are too much to believe: their owner is asked
 *   swim_region.c   regions: who is in them, what is known of them
 *   swim_record.c   bytes of records and items                calls base only
 *
 * Members live in slots that never move, so a slot number is a stable name within the node:
 *
 *   slot   0      1      2      3 ...        order[] = the others, shuffled: who is probed next
 *        [self] [used] [free] [used]         index[] = id -> slot, open addressing
 *                                            rumours[] = slots with something to tell
 *
 * I1  Slot 0 is this node: SWIM_ALIVE, or SWIM_LEFT after swim_leave.
 * I2  member.incarnation >= record.incarnation; they are equal while the member is alive.
 * I3  A suspect has 1 .. SWIM_ACCUSERS_MAX accusers and a deadline; nobody else has accusers.
 *     The deadline of one abroad is never: its own region decides.
 * I4  order[] holds every used slot but 0 exactly once; rumours[] those with rumour set.
 * I5  Each slot is in the region its record names; a region's members[] agree with the states of
 *     its slots, and a region without any is unused. Region 0 is this node's own, and stays.
 */
#ifndef GOSSIP_SWIM_INTERNAL_H
#define GOSSIP_SWIM_INTERNAL_H

#include <assert.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mp.h"
#include "base/random.h"
#include "gossip/swim.h"

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
    SWIM_INDEX_LEN_MAX = 4 * SWIM_MEMBERS_MAX,
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

/* What a message says about one member: its state at an incarnation, and perhaps its record. */
struct swim_item {
    uint64_t id;
    uint64_t incarnation;
    int64_t age_ns; /* how long the sender has seen it in this state */
    uint64_t accusers[SWIM_ACCUSERS_MAX];
    uint32_t accusers_count;
    enum swim_state state;
    bool has_record;
    struct swim_record record;
};

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

enum swim_kind {
    SWIM_PING = 1,
    SWIM_ACK = 2,
    SWIM_PING_REQ = 3,
    SWIM_NACK = 4,
    SWIM_GOSSIP = 5,
    SWIM_SYNC = 6,
    SWIM_DIGEST = 7,
    SWIM_WANT = 8,
    SWIM_RECORDS = 9,
    SWIM_HELLO = 10,
    SWIM_WELCOME = 11
};

/* A decoded frame; its pointers and cursors live as long as the input and swim.tokens. */
struct swim_message {
    uint8_t cluster_id[SWIM_CLUSTER_ID_LEN];
    uint64_t kind;
    uint64_t seq;
    uint64_t sender;
    uint64_t incarnation;
    uint64_t target; /* 0 = whoever lives at the address */
    int64_t time_ns; /* its cluster time; of one that has none, its wall clock */
    int64_t wall_ns; /* its wall clock minus that */
    bool timeless;   /* it has no cluster time yet */
    char address[SWIM_ADDRESS_LEN];
    /* body, by kind */
    uint64_t number;                /* subject (ack, ping-req), salt (sync), mask (digest) */
    char subject[SWIM_ADDRESS_LEN]; /* ping-req: where to ping */
    const uint8_t *bytes;           /* sync: summary, digest: entries, want: ids */
    size_t bytes_len;
    struct swim_record record; /* hello, welcome */
    struct mp_cursor items;    /* stands on the first item */
    uint32_t items_count;
    const uint8_t *ages; /* of regions; NULL or empty if the sender knows of one region only */
    size_t ages_len;
};

/* The exchange that was last started with another region, until it is answered. */
struct swim_contact {
    uint64_t seq; /* 0 = none */
    int64_t sent_ns;
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
    uint32_t order_at;
    bool order_any; /* whose turn it is: of anybody, or of those that are no strangers (D4) */
    uint32_t *rumours;
    uint32_t rumours_len;
    uint32_t *index; /* slot + 1, 0 = empty */
    uint32_t index_len;
    uint32_t events_waiting;                      /* slots with events */
    struct swim_region regions[SWIM_REGIONS_MAX]; /* a name of "" = unused */
    uint32_t regions_abroad;                      /* used ones but the own */
    uint32_t contact_at;                          /* the region asked last */
    uint32_t age_at;                              /* the region whose age was told last */

    struct hash_key seq_key; /* of the numbers of questions, so that */
    uint64_t seq_count;      /* no answer tells the next one's */
    uint64_t messages;       /* numbered, so that no item rides twice on one */
    uint32_t health;
    int64_t stalled_until_ns;
    bool refuted; /* during the message in hand */
    bool abroad;  /* the message being written goes to another region */

    int64_t probe_ns, gossip_ns, push_pull_ns, join_ns, rejoin_ns, reap_ns; /* next turns */
    int64_t contact_ns; /* and of asking another region, while there is one */
    struct swim_contact contact;
    int64_t stranger_ns; /* nobody unknown is asked before */
    struct swim_probe probes[SWIM_PROBES_MAX];
    struct swim_relay relays[SWIM_RELAYS_MAX];
    struct swim_job jobs[SWIM_JOBS_MAX];
    struct swim_doubt doubts[SWIM_DOUBTS_MAX];
    uint64_t *ring; /* members_max ids, ascending */
    uint32_t ring_len;
    uint32_t stranger_tokens; /* messages that may still come from where nobody is known */
    int64_t stranger_refill_ns;
    struct swim_seed seeds[SWIM_SEEDS_MAX];
    uint32_t seeds_len;
    uint32_t seeds_at;
    uint64_t hints[SWIM_HINTS_MAX];
    uint32_t hints_len;
    struct swim_stats stats;
    struct mp_token tokens[SWIM_TOKENS_MAX];
    uint8_t scratch[SWIM_MESSAGE_MAX];
};

/* swim.c */
/* The number of a question, never 0, that tells nobody the next one's. */
uint64_t swim_seq(struct swim *swim);

/* swim_record.c */
int swim_record_check(const struct swim_record *record);
void swim_record_put(struct mp_writer *writer, const struct swim_record *record);
/* Reads and checks one record; failure sets cursor->failed. */
void swim_record_get(struct mp_cursor *cursor, struct swim_record *record);
bool swim_address_ok(const char *address);
/* Whether record `a` is newer than `b` of the same node. */
bool swim_record_newer(const struct swim_record *a, const struct swim_record *b);
void swim_item_put(struct mp_writer *writer, const struct swim_slot *slot, bool with_record,
                   int64_t now_ns);
void swim_item_get(struct mp_cursor *cursor, struct swim_item *item);

/* swim_region.c */
bool swim_region_used(const struct swim_region *region);
/* Whether a member with this record has a place; false when it needs one region too many. */
bool swim_region_fits(const struct swim *swim, const struct swim_record *record);
/* Puts a slot into the region its record names, which must fit; takes it out of its region. */
void swim_region_enter(struct swim *swim, uint32_t slot);
void swim_region_leave(struct swim *swim, uint32_t slot);
/* Whether the member in `slot` (SWIM_SLOT_NONE: no) is of another region. */
bool swim_slot_abroad(const struct swim *swim, uint32_t slot);
uint32_t swim_region_living(const struct swim_region *region);
/* A member of region `at` spoke to this node now. */
void swim_region_contact(struct swim *swim, uint32_t at);
/* The ages that go with a message, and come with one. */
void swim_ages_put(struct swim *swim, struct mp_writer *writer);
void swim_ages_take(struct swim *swim, const struct swim_message *message);

/* swim_doubt.c */
/* Asks the member at the address what it says itself. */
void swim_doubt(struct swim *swim, uint64_t id, const char *address);
/* Takes a WELCOME that answers this; false: it answers something else. */
bool swim_doubt_answered(struct swim *swim, const struct swim_message *message);
/* Asks the sender of a message that is far below what is known of it. */
void swim_doubt_known(struct swim *swim, const struct swim_message *message);
bool swim_in_ring(const struct swim *swim, uint64_t id);
/* Whether the member of this region is neither in the ring nor has ever answered this node. */
bool swim_unheard(const struct swim *swim, uint32_t slot);
/* Whether one more member of this region that the ring does not know may be taken in. */
bool swim_stranger_fits(const struct swim *swim);
/* Whether a message may be answered: it is from a known address, or there are not too many of
 * those that are not. */
bool swim_stranger_heard(struct swim *swim, const struct swim_message *message);

/* swim_table.c */
/* Enters slot 0 into the empty index. */
void swim_index_self(struct swim *swim);
uint32_t swim_lookup(const struct swim *swim, uint64_t id);
/* Applies one item by the rules of precedence; from_sync: heard by push/pull from `sender`. */
void swim_apply(struct swim *swim, const struct swim_item *item, bool from_sync, uint64_t sender);
/* What the member itself has just said, asked by this node: that counts, whatever was known. */
void swim_owner_said(struct swim *swim, uint32_t slot, const struct swim_record *record);
/* This node's own accusation after a failed probe. */
void swim_accuse(struct swim *swim, uint32_t slot);
/* Declares dead whose suspicion has run out, forgets expired tombstones. */
void swim_table_tick(struct swim *swim);
int64_t swim_table_deadline(const struct swim *swim);
void swim_events_flush(struct swim *swim);
int64_t swim_suspicion_min_ns(const struct swim *swim);
int64_t swim_suspicion_ns(const struct swim *swim, uint32_t accusers, uint32_t patience);
/* Living members of this node's region but this node; of all regions. */
uint32_t swim_others(const struct swim *swim);
uint32_t swim_others_anywhere(const struct swim *swim);
/* Up to `wanted` (<= SWIM_HELPERS_MAX) random living members of `region` but this node and
 * `except`. */
uint32_t swim_pick(struct swim *swim, uint32_t region, uint32_t wanted, uint32_t except,
                   uint32_t *picked);

/* swim_rumour.c */
void swim_rumour_start(struct swim *swim, uint32_t slot, bool with_record, uint32_t transmits);
void swim_rumour_stop(struct swim *swim, uint32_t slot);
uint32_t swim_retransmit_limit(const struct swim *swim);
/* Writes the items array: `forced` first (SWIM_SLOT_NONE = none), then rumours by how seldom
 * they were sent, within `budget` bytes; with budget 0 none but `forced`, for addresses where
 * perhaps nobody listens. */
void swim_rumours_put(struct swim *swim, struct mp_writer *writer, size_t budget, uint32_t forced);
/* The parts of it, for who chooses the items: they are written aside, since their number comes
 * first. swim_item_append returns false, and takes nothing, when the item does not fit. */
void swim_items_begin(struct swim *swim, const struct mp_writer *writer, size_t budget,
                      struct mp_writer *items);
bool swim_item_append(struct swim *swim, struct mp_writer *items, uint32_t slot, bool with_record);
void swim_items_end(struct mp_writer *writer, const struct mp_writer *items, uint32_t count);
void swim_gossip_tick(struct swim *swim);

/* swim_message.c */
bool swim_room(const struct swim *swim);
/* Starts a message in the effects; false (nothing changed) when they are full. The body follows,
 * then swim_rumours_put or an empty array, then swim_message_end. */
bool swim_message_begin(struct swim *swim, struct mp_writer *writer, enum swim_kind kind,
                        uint64_t seq, uint64_t target);
void swim_message_end(struct swim *swim, struct mp_writer *writer, const char *address);
int swim_message_parse(struct swim *swim, const void *bytes, size_t len,
                       struct swim_message *message);

/* swim_probe.c */
void swim_probe_tick(struct swim *swim);
int64_t swim_probe_deadline(const struct swim *swim);
void swim_probe_receive(struct swim *swim, const struct swim_message *message);
void swim_health_add(struct swim *swim, int delta);
/* Takes round trip and skew from the answer to what was sent to the member at `sent_ns`. */
void swim_measure(struct swim *swim, uint32_t slot, int64_t sent_ns,
                  const struct swim_message *message);
/* Moves all waits for answers by `by_ns`: this node, not the others, was late. */
void swim_probe_delay(struct swim *swim, int64_t by_ns);

/* swim_sync.c */
/* Greets whoever is at the address; false if there is no room. */
bool swim_hello(struct swim *swim, const char *address, uint64_t seq);
void swim_sync_tick(struct swim *swim);
void swim_sync_receive(struct swim *swim, const struct swim_message *message);
void swim_jobs_run(struct swim *swim);
bool swim_jobs_waiting(const struct swim *swim);
int64_t swim_sync_deadline(const struct swim *swim);
/* Keeps the address of a member that is being forgotten among the seeds. */
void swim_seed_remember(struct swim *swim, const char *address);
/* Notes that `id` answered the exchange `seq`. */
void swim_seed_answered(struct swim *swim, uint64_t seq, uint64_t id);
/* The sender's slot if we hold it suspect or dead, so that a reply can say so; else none. */
uint32_t swim_accused_sender(const struct swim *swim, const struct swim_message *message);

#endif

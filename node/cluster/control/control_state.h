/* control_state.h - the private state of the control core (control.c, control_admin.c). */
#ifndef NODE_CLUSTER_CONTROL_CONTROL_STATE_H
#define NODE_CLUSTER_CONTROL_CONTROL_STATE_H

#include "base/random.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/consensus/register.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control.h"
#include "node/cluster/control/gather.h"
#include "node/cluster/control/health.h"
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
/* An operator's wish is pursued this long after it was uttered last. */
#define CONTROL_WISH_NS (3000 * CONTROL_MS)
/* A transition that has not ended after so long may be forced, and `remove` says so. */
#define CONTROL_STILL_NS (10000 * CONTROL_MS)

/* A node that has left the ring answers for so long before it ends, so that whoever waits hears. */
#define CONTROL_FAREWELL_NS (1500 * CONTROL_MS)

/* Meta values. */
#define CONTROL_CONFIG_KEY  "ring.config"
#define CONTROL_PEERS_KEY   "gossip.peers"
#define CONTROL_BALLOTS_KEY "ring.register"

/* What an operator wants of the ring, through this node. */
struct control_wish {
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
    struct control_wish wish;
    uint64_t wished; /* whose removal was asked for last, and its name: it may be forgotten since */
    char wished_name[RING_NAME_LEN];
    char wished_by[SETTINGS_AUTHOR_LEN_MAX + 1];
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
        uint64_t wished;
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

/* ---- control.c ---- */
/* Takes the stored ring configuration, and what was promised for the one after it. 0 or
 * TG_ECORRUPT. */
MUST_USE int control_recall(struct control *control, const struct control_stored *stored);
/* Brings the own record up to date. */
void control_tell_self(struct control *control);

/* ---- control_foreign.c ---- */
/* Takes what gossip met, and looks whether anybody of the own cluster is there. */
void control_look_foreign(struct control *control);

/* ---- control_waiting.c ---- */
/* Notes who answered at a seed, while there is no cluster. */
void control_note_seed(struct control *control, const struct swim_met *met);

/* ---- control_twin.c ---- */
/* Looks for another living node of this node's name, now and then. */
void control_look_twin(struct control *control);

/* ---- control_config.c ---- */
void control_send_join(const struct join_message *message, const char *address,
                       struct effects *effects);
void control_keep(const char *key, const void *bytes, size_t len, struct effects *effects);
/* `nonce`: of the question that it answers, NULL: nobody asked. */
void control_tell_config(struct control *control, const char *address, const struct hash_key *nonce,
                         struct effects *effects);
/* Tells gossip who is in the ring. */
void control_tell_ring(struct control *control);
/* Puts control->next in force (C1, C2); false if it is not newer. */
bool control_adopt(struct control *control, struct effects *effects);
/* Takes the one of an ADMIT or a CONFIG: with proof (control_proof.c), or what `asked` brought. */
void control_take_config(struct control *control, const struct join_message *message, bool asked,
                         struct effects *effects);
/* Takes a frame of the register; false if it is none. */
bool control_receive_register(struct control *control, const void *bytes, size_t len,
                              struct effects *effects);
/* Where `node` is reached: as gossip says, or as it has just said itself; NULL if nobody knows. */
const char *control_address_of(const struct control *control, uint64_t node,
                               const struct register_frame *from);
void control_send_register(struct control *control, const struct register_send *send, bool settings,
                           const char *address, struct effects *effects);
/* After every event of a joined node: fetches, repeats, proposes. */
void control_move_config(struct control *control, struct effects *effects);

/* ---- control_health.c ---- */
/* After every event: tells the others if this node's health has changed. */
void control_move_health(struct control *control);
/* What is wrong with the member as HEALTH_BITs: as it tells, and of this node as `report` says. */
uint32_t control_health_of(const struct control *control, const struct swim_member *member,
                           const struct control_report *report);
/* What the report says is wrong with this node. */
uint32_t control_troubles_of(const struct control_report *report, int64_t now_ns);

/* ---- control_gather.c ---- */
/* Somebody looks: figures of all members are wanted for a while. */
void control_gather_look(struct control *control);
/* After every event of a joined node: asks. */
void control_move_gather(struct control *control, struct effects *effects);
/* Takes a frame of figures.h; false if it is none. */
bool control_receive_figures(struct control *control, const void *bytes, size_t len,
                             struct effects *effects);
/* What the node told lately; NULL: nothing. Of this node, what was taken last. */
const struct figures *control_figures_of(const struct control *control, uint64_t id);
/* The number of the question to a member in a round of gather.h: nobody who was asked knows that of
 * another. */
uint64_t control_figures_number(const struct control *control, uint64_t round, uint64_t id);
/* How many members have yet to tell theirs. */
uint32_t control_figures_awaited(const struct control *control);

/* ---- control_proof.c ---- */
/* Whether what is asked for may be sent to that address. */
bool control_may_answer(struct control *control, uint64_t sender, const char *address);
/* Somebody seems to have a newer configuration. */
void control_proof_want(struct control *control);
/* Notes what the message says of the configuration in control->next; true if that is proven. */
bool control_proof_take(struct control *control, const struct join_message *message);
/* Puts into a CONFIG what this node has accepted for the one after it. */
void control_proof_testify(const struct control *control, struct join_message *message);
/* Asks those who can prove it, if there is a reason and it is time. */
void control_proof_ask(struct control *control, struct effects *effects);
/* Another configuration is in force: what was said is of no use any more. */
void control_proof_end(struct control *control);

/* ---- control_clock.c ---- */
/* After every event: judges the members' clocks, ten times a second. */
void control_clock_judge(struct control *control);
struct view_clock control_clock_of(const struct control *control, uint64_t id);
/* Whether the time that all agree on is 2 s or more off the wall clocks of a majority, and by what:
 * a sentence. */
bool control_clock_off(const struct control *control, char *out, size_t capacity);
/* Whether what is over by this node's time may be taken out of the configuration for all: a
 * majority has the same time, and has had since it last jumped. */
bool control_clock_sure(const struct control *control);

/* ---- control_region.c ---- */
/* Whether the member is of another region. */
bool control_remote(const struct control *control, const struct swim_member *member);
/* What gossip knows of the region, NULL: nothing. */
const struct swim_region *control_region_find(const struct control *control, const char *name);
/* Whether another region is in reach (G4). */
bool control_region_reached(int64_t now_ns, const struct swim_region *region);
/* From when on the member's region is out of reach (G4). */
int64_t control_region_lost_ns(const struct control *control, const struct swim_member *member);
/* Whether `region`, or if it is "" that of the sender as gossip knows it, is the own one. */
bool control_region_ours(const struct control *control, const char *region, uint64_t sender);
/* The same of a frame on the ring, which is counted if it is to be ignored (C5). */
bool control_region_takes(struct control *control, const char *region, uint64_t sender);
/* Whether this node may ask that member to be let into its cluster (G5). */
bool control_region_admits(const struct control *control, const struct swim_record *record);
/* Whether all that live know of regions (G5). */
bool control_region_all_know(const struct control *control);
/* Whether the configuration store knows of more than one region: then its voters are of all. */
bool control_regions(const struct control *control);
/* The record of a region, NULL: there is none. */
const struct settings_entry *control_region_record(const struct control *control, const char *name);
/* Makes the first configuration of a ring, of which this node is the only member. `generation`: of
 * its epoch, 0 in the first region of a cluster. */
void control_create_ring(struct control *control, uint64_t generation, struct effects *effects);
/* After every event of a joined node: founds. */
void control_move_region(struct control *control, struct effects *effects);
/* Whether the region is gone: it has no record, and no member that is in reach or is expected to
 * come back. */
bool control_region_gone(const struct control *control, const char *name);
/* Has this node take the record of another region, which is gone for good, out of the settings;
 * asked again, it goes on. `force`: although rules name it as a home, or the settings are frozen.
 * 0, also when it is gone already, or TG_ECONFLICT with a sentence. */
MUST_USE int control_region_remove(struct control *control, int64_t now_ns, const char *name,
                                   const struct policy *policy, bool force,
                                   char sentence[CONTROL_SENTENCE_LEN]);
/* What that waits for; "" for nothing. */
const char *control_region_removal(const struct control *control, const char *name);
/* Whether node `id` is to found the ring of this region, which has none. */
bool control_region_founder(const struct control *control, uint64_t id);
/* A sentence on a joined node without a ring: what it waits for. */
void control_region_say(const struct control *control, char *out, size_t capacity);

/* ---- control_settings.c ---- */
/* Hands on what the settings' register wants done. `from`: the frame it answers, or NULL. */
void control_take_votes(struct control *control, const struct register_frame *from,
                        struct effects *effects);
void control_receive_vote(struct control *control, const struct register_frame *frame,
                          struct effects *effects);
/* Takes a frame of settings_wire.h; false if it is none. */
bool control_receive_settings(struct control *control, const void *bytes, size_t len,
                              struct effects *effects);
/* Asks whoever is at the address for what this node lacks. */
void control_ask_settings(struct control *control, const char *address, struct effects *effects);
/* Tells the members that this node has a version that is new. */
void control_settings_changed(struct control *control, struct effects *effects);
/* Whether this node is being sent what it lacks, and what it has is not the newest yet. */
bool control_settings_coming(const struct control *control);
/* After every event of a joined node: fetches, repeats, proposes. */
void control_move_settings(struct control *control, struct effects *effects);

/* ---- control_disk.c ---- */
/* A sentence on this node's disk, whose room is at an end. */
void control_say_disk_full(const struct control *control, char *out, size_t capacity);
/* Whether fewer than a majority of these voters can keep a vote, and would with room on their
 * disks; and the sentence on it. */
bool control_voters_full(const struct control *control, const uint64_t *voters, uint32_t count);
void control_say_voters_full(const struct control *control, const uint64_t *voters, uint32_t count,
                             char *out, size_t capacity);
/* Ends all edits that wait, or whose change was not kept: for want of room. */
void control_edits_refuse(struct control *control);

/* ---- control_edit.c ---- */
void control_edit_move(struct control *control, struct effects *effects);
/* Before every event, when all that was wanted so far was carried out: whether the edit that was
 * proposed last, or something in its place, is known to voters. */
void control_edits_note(struct control *control);
/* Ends the edit; only its outcome is kept. */
void control_edit_end(const struct control *control, struct settings_edit *edit,
                      enum settings_edit_state state, uint64_t version);
/* Whether a living member says that it has a newer version. */
bool control_settings_behind(const struct control *control);
/* Whether an edit waits to be decided. */
bool control_edits_wait(const struct control *control);
/* Whether fewer than a majority of the settings' voters can answer, and the sentence on it. */
bool control_settings_frozen(const struct control *control);
void control_say_settings_frozen(const struct control *control, char *out, size_t capacity);

/* ---- voters.c, for people ---- */
/* The name of a member of the ring; "?" of nobody. */
const char *control_member_name(const struct control *control, uint64_t id);
/* A sentence on a frozen ring: which voters cannot be reached. */
void control_say_frozen(const struct control *control, char *out, size_t capacity);

/* ---- propose.c ---- */
/* Whether this is the lowest-id living member of the ring, those with full disks not counted, which
 * proposes of its own accord. */
bool propose_by_itself(const struct control *control);
/* Whether gossip holds `id` for living (alive or suspect), and its region is in reach. */
bool control_alive(const struct control *control, uint64_t id);
/* Whether member `id` of the ring has been dead for `age_ns`, as far as this node knows. */
bool control_dead_for(const struct control *control, uint64_t id, int64_t age_ns);
/* The flags of the member's record, 0 if it is not known. */
uint32_t control_flags(const struct control *control, uint64_t id);
/* Makes the next configuration in control->next. False if none is wanted, or if it is not for this
 * node to propose it. */
bool propose_next(struct control *control);
/* Whether a transition is under way and nothing of the configuration has changed for long. */
bool propose_stands_still(const struct control *control);
/* Makes the first configuration of a new lineage, if an operator forces it on a frozen ring, or on
 * one whose transition stands still. */
bool propose_forced(struct control *control);

/* ---- voters.c ---- */
/* Whether fewer than a majority of the voters can answer: then the ring cannot change. */
bool voters_frozen(const struct control *control);
/* The voters that the ring shall have, `leaving` (0: nobody) not among them; returns how many. */
uint32_t voters_choose(const struct control *control, uint64_t leaving,
                       uint64_t out[RING_VOTERS_MAX]);
/* The same among those that live: the voters of a new lineage. */
uint32_t voters_choose_living(const struct control *control, uint64_t leaving,
                              uint64_t out[RING_VOTERS_MAX]);
/* The voters that the settings of several regions shall have; 0: that is not known yet (V4). */
uint32_t voters_choose_regions(const struct control *control, uint64_t out[RING_VOTERS_MAX]);
/* The same among those that live. */
uint32_t voters_choose_regions_living(const struct control *control, uint64_t leaving,
                                      uint64_t out[RING_VOTERS_MAX]);

#endif

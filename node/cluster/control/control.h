/* control.h - the node's part in the cluster as a whole: membership joined with the ring.
 *
 * The control core owns gossip (who is alive) and the ring configuration (who owns what), finds a
 * cluster to join or creates one, and makes the views that shards work by. It is pure as shards
 * are: messages and time come in, effects go out.
 *
 *     gossip frame --> control_receive --+
 *             time --> control_tick -----+--> effects; control_view when it changed
 *    shards settled --> control_settled -+
 *
 * Two kinds of message arrive at the gossip address: SWIM's (gossip/swim.h), and those of joining,
 * configuration and settings (join.h, register_wire.h, settings_wire.h), which begin with a byte
 * that msgpack never uses.
 *
 * CONTROL-1  The configuration only moves forward: one of a higher epoch replaces one of a lower.
 * CONTROL-2  A configuration is durable here before it is told to anyone or given to a shard.
 * CONTROL-3  Clusters never mix: a message of another cluster id changes nothing.
 * CONTROL-4  Configurations of one lineage (the upper half of the epoch) are agreed on by the
 *            voters, one epoch after the other (register.h). Only an operator's force, while no
 *            majority of them can answer, begins a new lineage; its epochs are above all of the old
 *            one.
 * CONTROL-6  Who has joined founds nothing, and settles no configuration but one that it knows.
 * CONTROL-7  What others have said, the figures they told and the regions known are within bounds.
 * CONTROL-5  Rings never mix: a region has a ring and a register of its own, and what another
 *            region says of its own changes nothing here. Members, identity and settings are of all
 *            regions (control_region.c).
 *
 * What is proposed is behind one function (propose_next, in propose.c); the lowest-id live member
 * proposes by itself, any other when its operator asks. One thread calls all functions.
 */
#ifndef NODE_CLUSTER_CONTROL_CONTROL_H
#define NODE_CLUSTER_CONTROL_CONTROL_H
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "gossip/swim.h"
#include "node/cluster/configstore/settings_change.h"
#include "node/cluster/control/control_report.h"
#include "node/cluster/control/control_settings.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/model/identity.h"
#include "node/cluster/model/view.h"
#include "node/cluster/shard/shard.h"
#include "node/policy/model/policy.h"
#include "ring/config.h"

enum {
    CONTROL_SEEDS_MAX = 64,
    CONTROL_SEEDS_HEARD = 16,
    CONTROL_PATH_LEN = 256,
    CONTROL_SENTENCE_LEN = 400,
};

struct control_options {
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t seed; /* of the random numbers */
    char name[VIEW_TEXT_LEN];
    char region[SWIM_PLACE_LEN];
    char zone[SWIM_PLACE_LEN];
    char gossip[VIEW_TEXT_LEN]; /* addresses told to others */
    char peer[VIEW_TEXT_LEN];
    char client[VIEW_TEXT_LEN];
    char version[SWIM_VERSION_LEN];
    char data[CONTROL_PATH_LEN]; /* where the node keeps what it keeps, for people; or the end */
    uint32_t weight;
    uint16_t shards;
    bool bootstrap; /* create a cluster although there are seeds */
    char seeds[CONTROL_SEEDS_MAX][VIEW_TEXT_LEN];
    uint32_t seed_count;
    bool seeds_pending; /* seeds were given whose addresses are not known yet: not alone */
    bool has_identity;  /* `identity` is the stored one */
    struct control_identity identity; /* without one: what to create a cluster with */
    const uint8_t *config;            /* the stored configuration, NULL without one */
    size_t config_len;
    const uint8_t *peers; /* stored gossip addresses of members, NULL without any */
    size_t peers_len;
    const uint8_t *ballots; /* the stored promises (register.h), NULL without any */
    size_t ballots_len;
    const struct policy_zones *zones; /* for rules that are to be validated; NULL: UTC alone */
    uint32_t settings_log_max;        /* as settings_options.log_max */
    uint32_t settings_items_max;      /* as settings_options.items_max */
};

struct control;
struct settings_edit;
struct usage_ledger;

/* 0, TG_ENOMEM, TG_EINVALID, or TG_ECORRUPT when the stored configuration cannot be read. */
MUST_USE int control_new(const struct allocator *allocator, const struct control_options *options,
                         int64_t now_ns, struct control **out);
void control_free(struct control **control);

void control_receive(struct control *control, int64_t now_ns, const void *frame, size_t len,
                     struct effects *effects);
void control_tick(struct control *control, int64_t now_ns, struct effects *effects);
int64_t control_next_deadline(const struct control *control);

/* What a node waits for that cannot serve yet; false: it can, as far as this core is concerned. */
bool control_waiting(const struct control *control, char *out, size_t capacity);
/* Adds a gossip address to be tried, as options.seeds are; one known or too many is ignored. */
void control_add_seed(struct control *control, const char *address);
/* Gossip addresses of the members it knows, one a line, of a node that shares a ring: for the next
 * process of one without a disk. Else 0. They live until the next call. */
size_t control_peers(struct control *control, const uint8_t **addresses);
/* Whether this node has a cluster, and which. */
const struct control_identity *control_identity(const struct control *control);
/* Says which seed answers for another cluster, in one sentence; false if none does. */
bool control_foreign_say(const struct control *control, char *out, size_t capacity);
/* Whether what this node keeps is of another cluster than its seeds, and its own is not heard. */
bool control_misplaced(const struct control *control);
/* True once after each change: then make the new view and give it to every shard. */
bool control_view_due(struct control *control);
/* A new view for the shards, the caller's to free; NULL before joining or out of memory. */
struct view *control_view(struct control *control);

/* ---- clocks (control_clock.c) ---- */

/* This node's wall clock minus its cluster time: call it ten times a second. */
void control_wall(struct control *control, int64_t wall_ns);
/* What the shards saw of peers' clocks. */
void control_clock_heard(struct control *control, int64_t now_ns,
                         const struct cluster_time_sample *clocks, uint32_t count);
/* Whether a member says that a majority of its ring agreed with its time. */
bool control_clock_confirmed(const struct swim_record *record);
/* By how much the cluster time of this node is to be slewed. */
int64_t control_clock_target_ns(const struct control *control);
/* Of this node itself. CLOCK_PASSES: it is to pass its vnodes on, stop, and start again with
 * another offset; CLOCK_REFUSED: to stop at once, for nobody listens, and to start again. */
enum clock_verdict control_clock_verdict(const struct control *control);
/* One sentence on a clock that is off; false: it is not. */
enum { CLOCK_SENTENCE_LEN = 240 };
bool control_clock_sentence(const char *name, const struct view_clock *clock, char *out,
                            size_t capacity);

/* ---- a disk without room (control_disk.c) ---- */

/* What is stored of the ring, under CONTROL_CONFIG_KEY and CONTROL_BALLOTS_KEY; NULL: nothing. */
struct control_stored {
    const uint8_t *config;
    size_t config_len;
    const uint8_t *ballots;
    size_t ballots_len;
};

/* Call this when the disk has no room for a value of EFFECT_META (of that transaction, none is
 * kept), before any other event, and carry out nothing that stands behind it. The core goes back to
 * what is stored: to `stored`, and to the settings that are given back afterwards as at a start. It
 * serves on, and until control_disk_has_room it changes nothing: no vote, no edit, no newer ring or
 * settings. 0 or TG_ECORRUPT. */
MUST_USE int control_disk_refused(struct control *control, int64_t now_ns,
                                  const struct control_stored *stored);
void control_disk_has_room(struct control *control);
bool control_disk_full(const struct control *control);

/* What shards and the runtime report. */
void control_settled(struct control *control, uint64_t epoch);
/* The rules in force: of that version of the settings, 0 for those of a file that is not in them.
 */
void control_rules(struct control *control, uint64_t version, uint64_t digest);
/* The rules of that version cannot be put in force here, and why; those before them stay. */
void control_rules_refused(struct control *control, uint64_t version, const char *why);
/* Tells the others that this process ends in order and is expected to start again: they are not to
 * be alarmed. True when that was told often enough, or there is nobody to tell; ask again. */
bool control_stop(struct control *control);
/* A connection to `node` was closed: it is probed at once. */
void control_suspect(struct control *control, uint64_t node);
/* What is wrong with this node that others see, as HEALTH_BITs of health.h; from time to time. The
 * core adds what it knows itself, and tells the others (control_health.c). */
void control_trouble(struct control *control, int64_t now_ns, uint32_t troubles);

/* Whether this node is on its way out of the ring, because an operator wants it so. */
enum control_departure {
    CONTROL_STAYS,
    CONTROL_DRAINS, /* out of the ring, but alive: it forwards */
    CONTROL_LEAVES  /* and then says good-bye and ends */
};

/* The configuration in force; epoch 0: none yet. Lives as long as the core. */
const struct ring_config *control_config(const struct control *control);
/* Starts to take this node out of the ring, as its operator wants; nothing is taken back. 0, or
 * TG_ECONFLICT with a sentence: nobody could take over, or the ring is frozen. */
MUST_USE int control_depart(struct control *control, enum control_departure departure,
                            char sentence[CONTROL_SENTENCE_LEN]);
/* Has this node propose the ring without dead member `id`, as soon as no transition runs and for
 * three seconds; asked again, it goes on. `force`: by a new lineage, if the ring is frozen. 0, also
 * when it is out already, or TG_ECONFLICT with a sentence that calls it `name`. */
MUST_USE int control_remove(struct control *control, int64_t now_ns, uint64_t id, const char *name,
                            bool force, char sentence[CONTROL_SENTENCE_LEN]);
/* Another living node that has this node's name, with a sentence on which of them is kept out of
 * the ring; 0: there is none. */
uint64_t control_twin_say(const struct control *control, char *out, size_t capacity);
/* Whether it is this one, and the other is no ghost of what it was itself. */
bool control_twin_ends(const struct control *control);
/* Whoever asked this node last to go or to remove another, and which node that is about; NULL:
 * nobody has. Lives until the next event. */
const char *control_asked(const struct control *control, uint64_t *node);
/* Names of the members of a ring, in the order of people, as many as fit sensibly. */
void control_ring_names(const struct ring_config *config, char *out, size_t capacity);
/* The next thing that has come about and that the log should have, as a sentence; false: nothing.
 * After every event, until there is nothing. *warns: it is more than news. */
bool control_news(struct control *control, char *out, size_t capacity, bool *warns);
/* True once a node that is to leave has no part in the ring any more, and whoever asked could hear
 * of it: stop in order, then control_leave. */
bool control_departed(struct control *control, int64_t now_ns);
/* Says good-bye to gossip as a member that leaves for good; true when it has been told. */
bool control_leave(struct control *control, int64_t now_ns, struct effects *effects);

/* Looks at the node as a whole, a few times a second: what is wrong with it is told to others. True
 * if newer figures are wanted than are left for nobody: something is wrong, or somebody looks. */
bool control_look(struct control *control, int64_t now_ns, const struct control_report *report);

/* Whether the answer to the ADMIN frame takes a text of rules compiled, which may take long: the
 * text, in the frame, or in the configuration store until that changes. The caller may then compile
 * it, in a thread of its own, and have the frame answered with that. */
bool control_admin_compiles(struct control *control, const void *frame, size_t len,
                            const char **text, size_t *text_len);

/* Answers an ADMIN frame. Returns the reply's length in `out` (never fails: errors are replies). */
size_t control_admin(struct control *control, int64_t now_ns, const void *frame, size_t len,
                     const struct control_report *report, void *out, size_t capacity);

/* Whether who sent the ADMIN frame would rather wait: for an edit to end, for others' figures. */
bool control_admin_waits(const struct control *control, const void *frame, size_t len);

void control_check_invariants(const struct control *control);

#endif

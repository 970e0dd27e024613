/* swim.h - who is alive: SWIM membership with Lifeguard's refinements, as a pure core.
 *
 * Every node probes one other member per interval, directly and then through three helpers;
 * who does not answer is *suspected* first, may refute, and is declared dead only when the
 * suspicion has run out. News travel as rumours on the back of every message; a periodic
 * exchange of digests (push/pull) repairs what rumours missed and rejoins healed splits.
 *
 *   time, bytes --> swim_receive / swim_tick --> struct swim_effects (sends, events, persist)
 *
 * Members live in regions (record.region). All of the above happens among the members of one
 * region; of the others this node believes what their region says. Regions keep in touch by a few
 * random contacts, each at a slow pace, so that wide-area traffic stays small. A region that is
 * cut off stays as it was last heard of, with an age: swim_region_next.
 *
 * Nothing here reads a clock, opens a socket or allocates after swim_new. `now_ns` is the
 * node's cluster time, which never goes back; all calls of one instance come from one thread.
 * A pointer to a member lives until the next call that takes a non-const swim.
 *
 * What the caller owes:
 *   1. give every received gossip message to swim_receive,
 *   2. call swim_tick at swim_next_deadline or soon after it,
 *   3. after each call carry out the effects: FIRST make persist_incarnation durable, then
 *      send, then look at the events; then swim_effects_clear.
 */
#ifndef GOSSIP_SWIM_H
#define GOSSIP_SWIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gossip/swim_values.h"

struct swim;

void swim_options_default(struct swim_options *options);

/* The incarnation for a process whose store counts `stored`: that, or if somebody drove it up
 * (an older release followed whatever it was told), one of this time. */
uint64_t swim_incarnation_start(uint64_t stored, uint64_t now_ms);

/* Creates the membership of the node described by `self` (id, incarnation > every earlier one of
 * this id, gossip address; version is ignored). `cluster_id`: SWIM_CLUSTER_ID_LEN bytes; all zero
 * = no cluster yet: the node only greets its seeds, and effects.met says whom it met, until
 * swim_set_cluster. `seed` seeds the random numbers. Takes all memory there will ever be.
 * 0, TG_EINVALID (options or record out of bounds) or TG_ENOMEM. */
MUST_USE int swim_new(struct swim **out, const struct allocator *allocator,
                      const struct swim_options *options, const struct swim_record *self,
                      const uint8_t *cluster_id, uint64_t seed);
/* Frees and nulls; NULL inside is allowed. */
void swim_free(struct swim **swim);

/* Adds a gossip address that is tried for ever until a member answers there; one's own is
 * recognised and left alone. 0 (also when known), TG_EINVALID or TG_EFULL. */
MUST_USE int swim_add_seed(struct swim *swim, const char *address);
/* Gives a node without a cluster its cluster. 0, or TG_ECONFLICT if it has another one. */
MUST_USE int swim_set_cluster(struct swim *swim, const uint8_t *cluster_id);

/* Tells this node's wall clock minus the time that it is called with. `timeless`: that time is no
 * cluster time, there is none yet. */
void swim_wall(struct swim *swim, int64_t wall_ns, bool timeless);

/* Who is in the ring, as the register says, ascending; none: it is not known. No rumour makes a
 * member of it leave, and of others in this region at most SWIM_STRANGERS_MAX are kept. */
void swim_ring(struct swim *swim, const uint64_t *ids, uint32_t count);

/* Takes one message. 0, TG_EPROTOCOL / TG_ETOOBIG / TG_EVERSION (malformed), TG_ECONFLICT
 * (another cluster's); errors are counted and change nothing, the caller need not act on them. */
int swim_receive(struct swim *swim, int64_t now_ns, const void *bytes, size_t len,
                 struct swim_effects *out);
/* Does whatever is due at `now_ns`. */
void swim_tick(struct swim *swim, int64_t now_ns, struct swim_effects *out);
/* When swim_tick is due next; may lie in the past (at once). */
int64_t swim_next_deadline(const struct swim *swim);

/* Replaces what this node says about itself and spreads it; id, incarnation and version of
 * `record` are ignored. 0, or TG_EINVALID for a bad record or another region than at first. Nothing
 * is sent if nothing changed. */
MUST_USE int swim_update_self(struct swim *swim, const struct swim_record *record);
/* Spreads what this node says about itself once more, though nothing changed: a rumour reaches
 * every member very likely, not surely. */
void swim_retell_self(struct swim *swim);
/* Says good-bye: others record this node as left. Keep ticking until swim_leave_done. */
void swim_leave(struct swim *swim, int64_t now_ns, struct swim_effects *out);
/* Whether the good-bye has been sent often enough (or there is nobody to tell). */
bool swim_leave_done(const struct swim *swim);
/* Whether what this node says of itself has been sent often enough, or there is nobody to tell. */
bool swim_told(const struct swim *swim);
/* Evidence from the data plane (a closed connection): the next tick, due at once, probes this
 * member. Unknown, dead or own ids, and members of other regions, are ignored. */
void swim_probe_now(struct swim *swim, uint64_t id);
/* Takes a member of another region for one that has left, as this node's operator says that nobody
 * is there any more to say so. If it lives after all, it hears of that and refutes. Unknown ids and
 * members of the own region are ignored. */
void swim_dismiss(struct swim *swim, uint64_t id);

/* This node's own member. */
const struct swim_member *swim_self(const struct swim *swim);
/* The member `id` (this node's own included) or NULL. */
const struct swim_member *swim_find(const struct swim *swim, uint64_t id);
/* Walks all members in no order, this node and the dead included: start with *cursor = 0; NULL
 * at the end. */
const struct swim_member *swim_next(const struct swim *swim, size_t *cursor);
/* Walks the regions that have members, the own one first: start with *cursor = 0; NULL at the
 * end. The pointer lives as a member's does. */
const struct swim_region *swim_region_next(const struct swim *swim, size_t *cursor);
/* The name of the region a record places its member in. */
const char *swim_region_name(const struct swim_record *record);
/* Counters since swim_new and gauges of now. */
void swim_stats(const struct swim *swim, struct swim_stats *out);
/* "alive", "suspect", "dead" or "left". Static storage. */
const char *swim_state_name(enum swim_state state);

void swim_effects_clear(struct swim_effects *effects);

/* Asserts every invariant of the state; for tests and the simulator, O(members). */
void swim_check_invariants(const struct swim *swim);

#endif

/* control_parts.h - what the files of control/ offer one another; control_state.h has their state.
 */
#ifndef NODE_CLUSTER_CONTROL_CONTROL_PARTS_H
#define NODE_CLUSTER_CONTROL_CONTROL_PARTS_H

#include "base/random.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/consensus/register.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control.h"
#include "node/cluster/control/gather.h"
#include "node/cluster/model/health.h"
#include "node/cluster/wire/join.h"

struct control;

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
/* Puts control->next in force (CONTROL-1, CONTROL-2); false if it is not newer. */
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
/* Whether some are, and only now began to be. */
bool control_figures_due(const struct control *control);

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
/* Whether another region is in reach (FOUNDING-4). */
bool control_region_reached(int64_t now_ns, const struct swim_region *region);
/* From when on the member's region is out of reach (FOUNDING-4). */
int64_t control_region_lost_ns(const struct control *control, const struct swim_member *member);
/* Whether `region`, or if it is "" that of the sender as gossip knows it, is the own one. */
bool control_region_ours(const struct control *control, const char *region, uint64_t sender);
/* The same of a frame on the ring, which is counted if it is to be ignored (CONTROL-5). */
bool control_region_takes(struct control *control, const char *region, uint64_t sender);
/* Whether this node may ask that member to be let into its cluster (FOUNDING-5). */
bool control_region_admits(const struct control *control, const struct swim_record *record);
/* Whether all that live know of regions (FOUNDING-5). */
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
/* After every call of the settings' register: whether the edit that was proposed last, or something
 * in its place, is about to be told to voters; */
void control_edits_offer(struct control *control);
/* before every event: what was, is known to them if all that was wanted was carried out (`said`);
 * not if there was no room on the disk. */
void control_edits_note(struct control *control, bool said);
/* Whether the edit's change may yet be decided, whatever is said of it now: voters may have it. */
bool control_edit_may_come(const struct control *control, const struct settings_edit *edit);
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
/* The voters that the settings of several regions shall have; 0: that is not known yet
 * (VOTERS-4). */
uint32_t voters_choose_regions(const struct control *control, uint64_t out[RING_VOTERS_MAX]);
/* The same among those that live. */
uint32_t voters_choose_regions_living(const struct control *control, uint64_t leaving,
                                      uint64_t out[RING_VOTERS_MAX]);

#endif

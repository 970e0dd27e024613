/* global.h - limits that several regions share: what the files about them offer the others.
 *
 *   phase_global.c --> global_faults.c --> global_keys.c      what is asked for, and what goes
 * wrong
 *                 \--> check_global.c                         what must hold of it
 *
 * What they share is in sim.h: struct global.
 */
#ifndef TESTS_SIM_GLOBAL_H
#define TESTS_SIM_GLOBAL_H

#include "tests/sim/sim.h"

/* ---- global_keys.c --------------------------------------------------------------------------- */

/* The rules of phase global, as a part of all rules; their length. */
size_t global_rules_text(struct sim *sim, char *text, size_t room);
/* What requests for the key name, and the value that they give. */
const char *global_api(uint32_t number);
void global_text(const struct sim *sim, uint32_t number, char out[SIM_TEXT_LEN]);
/* Where the phase's keys are counted, as rules say now. */
void global_place(struct sim *sim);
/* Puts the first rules in force again, everywhere. */
void global_rules_reset(struct sim *sim);
/* Some limits are lowered or raised, or get another home: nodes hear of it one after another. */
void global_rules_change(struct sim *sim);
/* Gives the new rules to those who are to have them by now, or to all; true when all have them. */
bool global_rules_spread(struct sim *sim, bool at_once);

/* ---- global_faults.c ------------------------------------------------------------------------- */

/* Some clocks of a region that has not started yet are off. */
void global_clocks(struct sim *sim);
/* How far apart the regions are, beside what net.c has drawn. */
void global_move_apart(struct sim *sim, int64_t ms);
/* One thing goes wrong, or two. */
void global_faults_act(struct sim *sim);
/* What was to go wrong a little later. */
void global_faults_meet(struct sim *sim);

/* ---- check_global.c -------------------------------------------------------------------------- */

/* Follows them from now on: all are at rest. */
void check_global_begin(struct sim *sim);
/* After an event of the node, while keys of scope global are followed. */
void check_global(struct sim *sim, struct node *node);
/* So many were admitted of the key between the two moments. */
void check_global_admitted(struct sim *sim, uint32_t key, uint64_t tokens, int64_t from_ns,
                           int64_t to_ns);
/* All nodes have the new rules now; and: some time has passed. */
void check_global_spread(struct sim *sim);
void check_global_time(struct sim *sim);
/* Whether old rules may still be at work somewhere. */
bool check_global_unsettled(const struct sim *sim);
/* What was admitted of a bucket, over each interval. */
void check_global_bucket(struct sim *sim, uint32_t key);
/* What regions admitted by a share. */
void check_global_share(struct sim *sim);
/* What nodes hold of the key; what was lost of it with leaders. */
uint64_t check_global_out(const struct sim *sim, uint32_t key);
uint64_t check_global_lost(const struct global_key *key);
/* A frame that the node is about to send to shards of another one. */
void check_global_asks(struct sim *sim, const struct node *from, const struct node *to,
                       const uint8_t *bytes, size_t len);
/* What another writer counted was added to a slot, at the node that acts. */
void check_global_merged(struct sim *sim, struct hash128 id);
/* The process of the node is gone, and what it held. */
void check_global_ended(struct sim *sim, const struct node *node);
/* For this run. */
void check_global_end(void);

#endif

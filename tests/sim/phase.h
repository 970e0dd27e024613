/* phase.h - what a seed goes through: phases, each a row of steps, each step a small function.
 *
 *   form --> phase --> phase --> ... --> end
 *
 * A phase has keys of its own, so that it is judged alone. Its steps are called every few
 * milliseconds until they say that they are over; one that takes longer than its patience is a
 * failure, with what was missing last. A new phase is a row of steps in one of the phase_*.c files
 * and a line in phase.c.
 *
 * SIMPHASE-1  Between phases there are no faults, all members run, and the cluster is at rest.
 */
#ifndef TESTS_SIM_PHASE_H
#define TESTS_SIM_PHASE_H

#include "tests/sim/sim.h"

struct phase_step {
    const char *name;
    bool (*run)(struct sim *sim); /* true when the step is over */
};

struct phase {
    const char *name;
    uint32_t weight; /* how often it is drawn; 0: only at its place, or when asked for */
    bool strict;     /* no vnode may have two leaders */
    bool (*fits)(const struct sim *sim); /* NULL: always */
    const struct phase_step *steps;      /* the last has no function */
};

enum {
    PHASE_FEW = SIM_LIMIT / 20,
    PHASE_HALF = SIM_LIMIT / 4,
    PHASE_ENOUGH = SIM_LIMIT + SIM_LIMIT / 2,
    PHASE_KEYS = 2
};

/* All phases; phase_at(0) is the first of a run, phase_at(1) the last. */
const struct phase *phase_at(uint32_t index);
uint32_t phase_count(void);
/* The index of a phase, -1 if there is none of that name. */
int phase_find(const char *name, size_t len);

void phase_init(struct sim *sim);
/* EVENT_PLAN. */
void phase_event(struct sim *sim);

/* ---- for steps --------------------------------------------------------------------------------
 */

/* True at the first call of a step. */
bool phase_first(struct sim *sim);
/* The step, or the one that follows it, is not called again before `ms` have passed. */
void phase_wait(struct sim *sim, int64_t ms);
/* Says what the step waits for, and that it is not over: false. Fails when it takes too long. */
bool phase_not_yet(struct sim *sim, const char *why);
struct random *phase_stream(struct sim *sim);

/* Steps that several phases have. */
bool step_few(struct sim *sim);     /* a small part of the limits is used */
bool step_some(struct sim *sim);    /* a part of the limits is used */
bool step_quiet(struct sim *sim);   /* clients stop, and changes have time to spread */
bool step_enough(struct sim *sim);  /* more than the limits is asked for */
bool step_drain(struct sim *sim);   /* clients stop */
bool step_audit(struct sim *sim);   /* one client looks at all keys */
bool step_flushed(struct sim *sim); /* all is on disk */
bool step_owned(struct sim *sim);   /* all are back, and each vnode is decided by its owner */
bool step_rest(struct sim *sim);    /* and all replicas are in step */
bool step_equal(struct sim *sim);   /* and hold the same */
bool step_back(struct sim *sim);    /* who is down starts again, and all are at rest */
bool step_ill(struct sim *sim);     /* a member has troubles, and all know it */
bool step_told(struct sim *sim);    /* all know what is wrong with each, and soon nothing is */
bool step_exact(struct sim *sim);   /* judged: exactly the limits */
bool step_kept(struct sim *sim);    /* judged: as exact, but repeated checks may be charged twice */
bool step_found(struct sim *sim);   /* other regions are founded */
bool step_regions(struct sim *sim); /* all regions are at rest */

/* ---- the phases -------------------------------------------------------------------------------
 */

extern const struct phase_step phase_form[];
extern const struct phase_step phase_end[];
extern const struct phase_step phase_idle[];
extern const struct phase_step phase_return[];
extern const struct phase_step phase_crash[];
extern const struct phase_step phase_bounce[];
extern const struct phase_step phase_echo[];
extern const struct phase_step phase_deaf[];
extern const struct phase_step phase_rules[];
extern const struct phase_step phase_roll[];
extern const struct phase_step phase_join[];
extern const struct phase_step phase_replace[];
extern const struct phase_step phase_drain[];
extern const struct phase_step phase_remove[];
extern const struct phase_step phase_shift[];
extern const struct phase_step phase_force[];
extern const struct phase_step phase_dark[];
extern const struct phase_step phase_flood[];
extern const struct phase_step phase_full[];
extern const struct phase_step phase_brim[];
extern const struct phase_step phase_press[];
extern const struct phase_step phase_split[];
extern const struct phase_step phase_merge[];
extern const struct phase_step phase_night[];
extern const struct phase_step phase_lag[];
extern const struct phase_step phase_starve[];
extern const struct phase_step phase_alone[];
extern const struct phase_step phase_chaos[];
extern const struct phase_step phase_apart[];
extern const struct phase_step phase_relay[];
extern const struct phase_step phase_orphan[];
extern const struct phase_step phase_borrow[];
extern const struct phase_step phase_lease[];
extern const struct phase_step phase_hold[];
extern const struct phase_step phase_reserve[];
extern const struct phase_step phase_remote[];
extern const struct phase_step phase_global[];
extern const struct phase_step phase_wild[];
extern const struct phase_step phase_clocks[];
bool phase_remote_fits(const struct sim *sim);
bool phase_join_fits(const struct sim *sim);

/* ---- what members tell of themselves (phase_health.c) ---------------------------------------- */

/* Troubles that depend on the seed, the step and `turn` alone. */
uint32_t health_draw(const struct sim *sim, uint64_t turn);
void health_trouble(struct sim *sim, struct node *node, uint32_t troubles);

/* ---- answers to what phases asked ------------------------------------------------------------ */

/* What nobody in particular asked. */
void borrow_reply(struct sim *sim, const struct event *event);
/* What a worker asked; false: it is for somebody else. */
bool lease_reply(struct sim *sim, const struct event *event);
bool hold_reply(struct sim *sim, const struct event *event);
/* Whether the node ends as soon as it has sent that answer, with all that it did not send yet. */
bool hold_ends(struct sim *sim, struct node *node, const struct effect *effect);
bool reserve_reply(struct sim *sim, const struct event *event);
bool reserve_ends(struct sim *sim, struct node *node, const struct effect *effect);
bool global_reply(struct sim *sim, const struct event *event);

#endif

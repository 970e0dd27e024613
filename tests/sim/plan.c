/* plan.c - what a seed goes through, and what is asked of the cluster at each end.
 *
 *   FORM    nodes start and join one by one, under load          exactly the limits
 *   IDLE    half the limits used, quiet, one node crashes, on     exactly the limits
 *   LOAD    one node crashes under load                           what nobody had acknowledged
 *   ROLL    nodes stop in order and come back, one by one         never above the limits
 *   DARK    all written, all nodes killed at once, and back       exactly the limits
 *   FLOOD   (some seeds) more keys than memory holds, then a      what was spilled still counts,
 *           node that loses its disk                              also there
 *   CHAOS   loss, repetition, late and reordered frames, cuts,    one limit per split at most
 *           pauses, crashes and restarts, under load
 *   HEAL    faults end                                            one decider, equal replicas
 *   AFTER   load again                                            exactly the limits
 *
 * Each phase loads keys of its own, so that it is judged alone.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

enum {
    STEP_MS = 5,
    KEYS_EACH = 3,
    ENOUGH = SIM_LIMIT * 2, /* attempts on each key: well above its limit */
    HALF = SIM_LIMIT / 4,
    QUIET_MS = 80,
    FORM_MS = 30000,
    SETTLE_MS = 20000,
    PHASE_MS = 20000,
    FLOOD_SEEDS = 20, /* one seed of so many is flooded */
    FLOOD_MS = 3000,
};

enum step {
    STEP_FORM,
    STEP_FORM_DRAIN,
    STEP_IDLE_HALF,
    STEP_IDLE_QUIET,
    STEP_IDLE_CRASH,
    STEP_IDLE_REST,
    STEP_IDLE_DRAIN,
    STEP_IDLE_BACK,
    STEP_LOAD_HALF,
    STEP_LOAD_REST,
    STEP_LOAD_DRAIN,
    STEP_LOAD_BACK,
    STEP_ROLL_STOP,
    STEP_ROLL_WAIT,
    STEP_ROLL_BACK,
    STEP_ROLL_REST,
    STEP_ROLL_DRAIN,
    STEP_DARK_HALF,
    STEP_DARK_QUIET,
    STEP_DARK_KILL,
    STEP_DARK_BACK,
    STEP_DARK_REST,
    STEP_DARK_DRAIN,
    STEP_FLOOD,
    STEP_FLOOD_ASK,
    STEP_FLOOD_STOP,
    STEP_FLOOD_BACK,
    STEP_FLOOD_AGAIN,
    STEP_CHAOS,
    STEP_HEAL,
    STEP_SETTLE,
    STEP_AFTER,
    STEP_AFTER_DRAIN,
    STEP_END
};

static const char *const step_names[] = {
    [STEP_FORM] = "form",
    [STEP_FORM_DRAIN] = "form, drain",
    [STEP_IDLE_HALF] = "idle, half",
    [STEP_IDLE_QUIET] = "idle, quiet",
    [STEP_IDLE_CRASH] = "idle, crash",
    [STEP_IDLE_REST] = "idle, rest",
    [STEP_IDLE_DRAIN] = "idle, drain",
    [STEP_IDLE_BACK] = "idle, back",
    [STEP_LOAD_HALF] = "load, half",
    [STEP_LOAD_REST] = "load, rest",
    [STEP_LOAD_DRAIN] = "load, drain",
    [STEP_LOAD_BACK] = "load, back",
    [STEP_ROLL_STOP] = "roll, stop",
    [STEP_ROLL_WAIT] = "roll, wait",
    [STEP_ROLL_BACK] = "roll, back",
    [STEP_ROLL_REST] = "roll, rest",
    [STEP_ROLL_DRAIN] = "roll, drain",
    [STEP_DARK_HALF] = "dark, half",
    [STEP_DARK_QUIET] = "dark, quiet",
    [STEP_DARK_KILL] = "dark, kill",
    [STEP_DARK_BACK] = "dark, back",
    [STEP_DARK_REST] = "dark, rest",
    [STEP_DARK_DRAIN] = "dark, drain",
    [STEP_FLOOD] = "flood",
    [STEP_FLOOD_ASK] = "flood, ask",
    [STEP_FLOOD_STOP] = "flood, stop",
    [STEP_FLOOD_BACK] = "flood, back",
    [STEP_FLOOD_AGAIN] = "flood, again",
    [STEP_CHAOS] = "chaos",
    [STEP_HEAL] = "heal",
    [STEP_SETTLE] = "settle",
    [STEP_AFTER] = "after",
    [STEP_AFTER_DRAIN] = "after, drain",
    [STEP_END] = "end",
};

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_FAULTS);
}

static void enter(struct sim *sim, enum step step, int64_t wait_ms, int64_t patience_ms)
{
    sim->plan.step = step;
    sim->plan.next_ns = sim->now_ns + wait_ms * SIM_MS;
    sim->plan.deadline_ns = sim->now_ns + (wait_ms + patience_ms) * SIM_MS;
    sim_tell(sim, 1, "---- %s", step_names[step]);
}

static void start_later(struct sim *sim, uint8_t node, int64_t delay_ns)
{
    const struct event event = {.at_ns = sim->now_ns + delay_ns, .kind = EVENT_START, .node = node};
    queue_push(&sim->queue, &event);
}

void plan_init(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    memset(plan, 0, sizeof *plan);
    plan->strict = true;
    plan->formed = client_keys(sim, "formed", KEYS_EACH);
    plan->idle = client_keys(sim, "idle", KEYS_EACH);
    plan->load = client_keys(sim, "load", KEYS_EACH);
    plan->roll = client_keys(sim, "roll", KEYS_EACH);
    plan->dark = client_keys(sim, "dark", KEYS_EACH);
    plan->chaos = client_keys(sim, "chaos", KEYS_EACH);
    plan->healed = client_keys(sim, "healed", KEYS_EACH);
    plan->stops_left = 2;
    plan->chaos_left = 6 + (uint32_t)random_below(stream(sim), 10);
    for (uint8_t i = 0; i < sim->node_count; i++)
        start_later(sim, i, i == 0 ? 0 : (int64_t)random_below(stream(sim), 2 * SIM_SEC));
    const struct event event = {.at_ns = sim->now_ns, .kind = EVENT_PLAN};
    queue_push(&sim->queue, &event);
    client_load(sim, plan->formed);
    enter(sim, STEP_FORM, 0, FORM_MS);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* Fails when a wait has gone on for too long. */
static void overdue(struct sim *sim, const char *why)
{
    if (sim->now_ns > sim->plan.deadline_ns)
        sim_fail(sim, "%s takes too long: %s", step_names[sim->plan.step], why);
}

static bool rests(struct sim *sim)
{
    char why[SIM_TEXT_LEN * 4];
    const bool converged = check_converged(sim, why);
    if (!converged) {
        sim_tell(sim, 3, "not at rest: %s", why);
        overdue(sim, why);
    }
    return converged;
}

/* As rests, under load: all nodes are back and own what they shall. */
static bool serves(struct sim *sim)
{
    char why[SIM_TEXT_LEN * 4];
    if (check_owned(sim, why))
        return true;
    overdue(sim, why);
    return false;
}

static bool drained(struct sim *sim)
{
    client_load(sim, (struct key_set){0, 0});
    if (client_idle(sim))
        return true;
    overdue(sim, "clients still wait");
    return false;
}

static bool asked(struct sim *sim, struct key_set set, uint64_t enough)
{
    if (client_attempts(sim, set) >= enough)
        return true;
    overdue(sim, "clients got too few answers");
    return false;
}

static void judge_load(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    const uint64_t excess = check_excess(sim, plan->load);
    sim->coverage->excess += excess;
    sim->coverage->excess_bound += plan->excess_bound;
    if (excess > plan->excess_bound)
        sim_fail(sim, "a crash under load let %llu too many in, the dead decider held %llu",
                 (unsigned long long)excess, (unsigned long long)plan->excess_bound);
}

static void judge_chaos(struct sim *sim)
{
    const struct plan *plan = &sim->plan;
    for (uint32_t i = plan->chaos.first; i < plan->chaos.first + plan->chaos.count; i++)
        if (sim->keys[i].admitted > sim->keys[i].limit.count * (1 + plan->splits))
            sim_fail(sim, "chaos: key %s admitted %llu of limit %llu in %llu splits",
                     sim->keys[i].text, (unsigned long long)sim->keys[i].admitted,
                     (unsigned long long)sim->keys[i].limit.count,
                     (unsigned long long)plan->splits);
}

static void chaos(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (plan->chaos_left > 0) {
        plan->chaos_left--;
        faults_act(sim);
        plan->next_ns = sim->now_ns + random_between(stream(sim), 20 * SIM_MS, 700 * SIM_MS);
        plan->deadline_ns = sim->now_ns + PHASE_MS * SIM_MS;
        return;
    }
    net_heal(sim);
    for (uint8_t i = 0; i < sim->node_count; i++)
        if (!sim->nodes[i].up)
            start_later(sim, i, (int64_t)random_below(stream(sim), 500 * SIM_MS));
    enter(sim, STEP_HEAL, 1000, PHASE_MS);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void step_idle(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    switch ((enum step)plan->step) {
    case STEP_IDLE_HALF:
        if (asked(sim, plan->idle, HALF))
            enter(sim, STEP_IDLE_QUIET, 0, PHASE_MS);
        break;
    case STEP_IDLE_QUIET:
        if (drained(sim))
            enter(sim, STEP_IDLE_CRASH, QUIET_MS, PHASE_MS);
        break;
    case STEP_IDLE_CRASH:
        plan->victim = faults_up_node(sim)->index;
        faults_crash(sim, &sim->nodes[plan->victim]);
        client_load(sim, plan->idle);
        enter(sim, STEP_IDLE_REST, 0, PHASE_MS);
        break;
    case STEP_IDLE_REST:
        if (asked(sim, plan->idle, ENOUGH))
            enter(sim, STEP_IDLE_DRAIN, 0, PHASE_MS);
        break;
    case STEP_IDLE_DRAIN:
        if (!drained(sim))
            break;
        check_exact(sim, plan->idle, "after a crash at rest", false);
        start_later(sim, plan->victim, (int64_t)random_below(stream(sim), 500 * SIM_MS));
        enter(sim, STEP_IDLE_BACK, 500, SETTLE_MS);
        break;
    default:
        if (!rests(sim))
            break;
        client_load(sim, plan->load);
        enter(sim, STEP_LOAD_HALF, 0, PHASE_MS);
        break;
    }
}

static void step_load(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    switch ((enum step)plan->step) {
    case STEP_LOAD_HALF:
        if (!asked(sim, plan->load, HALF))
            break;
        plan->victim = faults_up_node(sim)->index;
        plan->excess_bound += node_unconfirmed(&sim->nodes[plan->victim]);
        faults_crash(sim, &sim->nodes[plan->victim]);
        enter(sim, STEP_LOAD_REST, 0, PHASE_MS);
        break;
    case STEP_LOAD_REST:
        if (asked(sim, plan->load, ENOUGH))
            enter(sim, STEP_LOAD_DRAIN, 0, PHASE_MS);
        break;
    case STEP_LOAD_DRAIN:
        if (!drained(sim))
            break;
        judge_load(sim);
        start_later(sim, plan->victim, (int64_t)random_below(stream(sim), 500 * SIM_MS));
        enter(sim, STEP_LOAD_BACK, 500, SETTLE_MS);
        break;
    default:
        if (!rests(sim))
            break;
        client_load(sim, plan->roll);
        enter(sim, STEP_ROLL_STOP, 0, PHASE_MS);
        break;
    }
}

static void step_roll(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    switch ((enum step)plan->step) {
    case STEP_ROLL_STOP:
        plan->victim = faults_up_node(sim)->index;
        node_stop(sim, &sim->nodes[plan->victim]);
        enter(sim, STEP_ROLL_WAIT, 0, PHASE_MS);
        break;
    case STEP_ROLL_WAIT:
        overdue(sim, "the node does not stop");
        if (sim->nodes[plan->victim].up)
            break;
        start_later(sim, plan->victim, (int64_t)random_below(stream(sim), 300 * SIM_MS));
        enter(sim, STEP_ROLL_BACK, 300, SETTLE_MS);
        break;
    case STEP_ROLL_BACK:
        if (!serves(sim))
            break;
        plan->stops_left--;
        if (plan->stops_left > 0)
            enter(sim, STEP_ROLL_STOP, 0, PHASE_MS);
        else
            enter(sim, STEP_ROLL_REST, 0, PHASE_MS);
        break;
    case STEP_ROLL_REST:
        if (asked(sim, plan->roll, ENOUGH))
            enter(sim, STEP_ROLL_DRAIN, 0, PHASE_MS);
        break;
    default:
        if (!drained(sim) || !rests(sim))
            break;
        check_exact(sim, plan->roll, "over orderly restarts", true);
        client_load(sim, plan->dark);
        enter(sim, STEP_DARK_HALF, 0, PHASE_MS);
        break;
    }
}

static bool flushed(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (!node_flushed(&sim->nodes[i])) {
            overdue(sim, "something is not on disk");
            return false;
        }
    return true;
}

static void kill_all(struct sim *sim)
{
    sim->coverage->blackouts++;
    for (uint8_t i = 0; i < sim->node_count; i++)
        node_crash(sim, &sim->nodes[i], true);
    for (uint8_t i = 0; i < sim->node_count; i++)
        start_later(sim, i, (int64_t)random_below(stream(sim), 800 * SIM_MS));
}

static void step_dark(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    switch ((enum step)plan->step) {
    case STEP_DARK_HALF:
        if (asked(sim, plan->dark, HALF))
            enter(sim, STEP_DARK_QUIET, 0, PHASE_MS);
        break;
    case STEP_DARK_QUIET:
        if (drained(sim))
            enter(sim, STEP_DARK_KILL, QUIET_MS, PHASE_MS);
        break;
    case STEP_DARK_KILL:
        if (!flushed(sim))
            break;
        kill_all(sim);
        enter(sim, STEP_DARK_BACK, 1000, SETTLE_MS);
        break;
    case STEP_DARK_BACK:
        if (!rests(sim))
            break;
        client_load(sim, plan->dark);
        enter(sim, STEP_DARK_REST, 0, PHASE_MS);
        break;
    case STEP_DARK_REST:
        if (asked(sim, plan->dark, ENOUGH))
            enter(sim, STEP_DARK_DRAIN, 0, PHASE_MS);
        break;
    default:
        if (!drained(sim))
            break;
        check_exact(sim, plan->dark, "after a blackout", false);
        plan->flooded = sim->seed % FLOOD_SEEDS == 0;
        if (plan->flooded)
            client_flood(sim);
        sim->coverage->floods += plan->flooded;
        enter(sim, STEP_FLOOD, plan->flooded ? FLOOD_MS : 0, PHASE_MS);
        break;
    }
}

static void to_chaos(struct sim *sim)
{
    sim->plan.strict = false;
    client_load(sim, sim->plan.chaos);
    enter(sim, STEP_CHAOS, 0, PHASE_MS);
}

/* The keys of the first phase are used up; that must be remembered, from disk if need be, and when
 * vnodes of which most keys are on disk move: to a node that stopped and comes back with nothing.
 */
static void step_flood(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    switch ((enum step)plan->step) {
    case STEP_FLOOD:
        client_load(sim, plan->formed);
        enter(sim, STEP_FLOOD_ASK, plan->flooded ? 300 : 0, PHASE_MS);
        break;
    case STEP_FLOOD_ASK:
        if (!drained(sim))
            break;
        check_exact(sim, plan->formed, "after a flood", false);
        if (!plan->flooded) {
            to_chaos(sim);
            break;
        }
        plan->victim = faults_up_node(sim)->index;
        node_stop(sim, &sim->nodes[plan->victim]);
        enter(sim, STEP_FLOOD_STOP, 0, PHASE_MS);
        break;
    case STEP_FLOOD_STOP:
        overdue(sim, "the node does not stop");
        if (sim->nodes[plan->victim].up)
            break;
        disk_wipe(&sim->nodes[plan->victim].disk);
        start_later(sim, plan->victim, (int64_t)random_below(stream(sim), 300 * SIM_MS));
        enter(sim, STEP_FLOOD_BACK, 300, SETTLE_MS);
        break;
    case STEP_FLOOD_BACK:
        if (!rests(sim))
            break;
        client_load(sim, plan->formed);
        enter(sim, STEP_FLOOD_AGAIN, 300, PHASE_MS);
        break;
    default:
        if (!drained(sim))
            break;
        check_exact(sim, plan->formed, "after a flood and the loss of a disk", false);
        to_chaos(sim);
        break;
    }
}

static void step_healing(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    char why[SIM_TEXT_LEN * 4];
    switch ((enum step)plan->step) {
    case STEP_HEAL:
        if (drained(sim)) {
            judge_chaos(sim);
            enter(sim, STEP_SETTLE, 0, SETTLE_MS);
        }
        break;
    case STEP_SETTLE:
        if (!rests(sim))
            break;
        if (sim->now_ns - (plan->deadline_ns - SETTLE_MS * SIM_MS) > sim->coverage->settle_ns_max)
            sim->coverage->settle_ns_max = sim->now_ns - (plan->deadline_ns - SETTLE_MS * SIM_MS);
        if (!check_equal(sim, why))
            sim_fail(sim, "after faults: %s", why); /* K5 */
        plan->strict = true;
        client_load(sim, plan->healed);
        enter(sim, STEP_AFTER, 0, PHASE_MS);
        break;
    case STEP_AFTER:
        if (asked(sim, plan->healed, ENOUGH))
            enter(sim, STEP_AFTER_DRAIN, 0, PHASE_MS);
        break;
    case STEP_AFTER_DRAIN:
        if (!drained(sim))
            break;
        check_exact(sim, plan->healed, "after all faults", false);
        enter(sim, STEP_END, 0, 0);
        break;
    default:
        plan->done = sim->events >= SIM_EVENTS_MIN;
        break;
    }
}

static void step(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (plan->step == STEP_FORM) {
        if (rests(sim) && asked(sim, plan->formed, ENOUGH))
            enter(sim, STEP_FORM_DRAIN, 0, PHASE_MS);
    } else if (plan->step == STEP_FORM_DRAIN) {
        if (drained(sim)) {
            check_exact(sim, plan->formed, "while forming", false);
            client_load(sim, plan->idle);
            enter(sim, STEP_IDLE_HALF, 0, PHASE_MS);
        }
    } else if (plan->step <= STEP_IDLE_BACK) {
        step_idle(sim);
    } else if (plan->step <= STEP_LOAD_BACK) {
        step_load(sim);
    } else if (plan->step <= STEP_ROLL_DRAIN) {
        step_roll(sim);
    } else if (plan->step <= STEP_DARK_DRAIN) {
        step_dark(sim);
    } else if (plan->step <= STEP_FLOOD_AGAIN) {
        step_flood(sim);
    } else if (plan->step == STEP_CHAOS) {
        chaos(sim);
    } else {
        step_healing(sim);
    }
}

void plan_event(struct sim *sim)
{
    if (sim->now_ns >= sim->plan.next_ns)
        step(sim);
    const struct event event = {.at_ns = sim->now_ns + STEP_MS * SIM_MS, .kind = EVENT_PLAN};
    queue_push(&sim->queue, &event);
}

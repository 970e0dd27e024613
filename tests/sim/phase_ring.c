/* phase_ring.c - phases in which operators change the ring.
 *
 *   drain    a node moves all it holds away under load, or leaves   nothing lost but repeated
 *            for good; then it is started again                     checks charged twice
 *   remove   a dead node is taken out, and comes back as a          the same
 *            newcomer
 *   shift    a node departs, is removed or joins while nothing      one limit a side; for sure,
 *            passes between two sides                               what was known
 *   force    most voters die, all of them are removed by force,     one ring in one new lineage,
 *            the rest goes on, and all come back                    which serves all keys
 */
#include <string.h>

#include "base/assert.h"
#include "tests/sim/phase.h"

/* ---- drain ----------------------------------------------------------------------------------- */

static bool holds_nothing(const struct node *node)
{
    if (ring_config_find(control_config(node->control), node->id) != NULL)
        return false;
    for (uint8_t i = 0; i < node->shard_count; i++) {
        struct shard_stats stats;
        shard_stats(node->shards[i], &stats);
        if (stats.vnodes_leading + stats.vnodes_replica + stats.vnodes_recovering > 0)
            return false;
    }
    return true;
}

/* Whether a node may go, and begins to; `sentence` says why not. */
static bool tell_to_go(struct sim *sim, char sentence[CONTROL_SENTENCE_LEN])
{
    struct node *node = node_some_up(sim);
    sim->plan.victim = node->index;
    sim->plan.left = (uint32_t)random_below(phase_stream(sim), 2); /* it leaves for good */
    node->member = false;
    sim->coverage.departures++;
    sim_tell(sim, 1, "n%u %s", node->index, sim->plan.left != 0 ? "leaves" : "drains");
    return control_depart(node->control, sim->plan.left != 0 ? CONTROL_LEAVES : CONTROL_DRAINS,
                          sentence) == 0;
}

static bool has_gone(struct sim *sim)
{
    return holds_nothing(&sim->nodes[sim->plan.victim]) ||
           phase_not_yet(sim, "it holds something, or is in the ring");
}

static bool depart(struct sim *sim)
{
    char sentence[CONTROL_SENTENCE_LEN] = "";
    if (phase_first(sim) && !tell_to_go(sim, sentence))
        sim_fail(sim, "node %u may not go: %s", sim->plan.victim, sentence);
    return has_gone(sim);
}

/* A node that leaves stops, and says good-bye last. */
static bool say_farewell(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (sim->plan.left == 0 || !node->up)
        return true;
    if (!node->stopping)
        node_stop(sim, node);
    node->leaves = true;
    return phase_not_yet(sim, "it does not stop");
}

static bool start_again(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (phase_first(sim)) {
        if (node->up)
            node_stop(sim, node);
        return false;
    }
    if (node->up && !node->member)
        return phase_not_yet(sim, "it does not stop");
    if (!node->member) {
        node->member = true;
        node_start_later(sim, node->index, 0);
        phase_wait(sim, 100);
        return false;
    }
    return step_owned(sim);
}

const struct phase_step phase_drain[] = {
    {"half", step_some},     {"depart", depart},     {"farewell", say_farewell},
    {"enough", step_enough}, {"drain", step_drain},  {"audit", step_audit},
    {"judge", step_kept},    {"again", start_again}, {"rest", step_rest},
    {"equal", step_equal},   {NULL, NULL},
};

/* ---- remove ---------------------------------------------------------------------------------- */

static bool die(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    sim->plan.victim = node->index;
    node->member = false;
    faults_crash(sim, node);
    return true;
}

/* Asks somebody, again and again, until nobody has it in the ring. */
static bool ask_removal(struct sim *sim, uint8_t at, const struct node *gone, bool force)
{
    char sentence[CONTROL_SENTENCE_LEN];
    struct node *node = &sim->nodes[at];
    const int error =
        control_remove(node->control, shell_clock(sim, node), gone->id, "it", force, sentence);
    if (error != 0)
        return phase_not_yet(sim, sentence);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *other = &sim->nodes[i];
        if (other->up && ring_config_find(control_config(other->control), gone->id) != NULL)
            return phase_not_yet(sim, "it is in the ring");
    }
    return true;
}

static bool take_out(struct sim *sim)
{
    if (phase_first(sim)) {
        sim->plan.left = node_some_up(sim)->index; /* who is asked */
        sim->coverage.removals++;
    }
    phase_wait(sim, 50);
    return ask_removal(sim, (uint8_t)sim->plan.left, &sim->nodes[sim->plan.victim], false);
}

static bool come_back(struct sim *sim)
{
    struct node *node = &sim->nodes[sim->plan.victim];
    if (phase_first(sim)) {
        node->member = true;
        node_start_later(sim, node->index, 0);
        phase_wait(sim, 100);
        return false;
    }
    return step_owned(sim);
}

const struct phase_step phase_remove[] = {
    {"half", step_some},     {"quiet", step_quiet}, {"die", die},          {"remove", take_out},
    {"enough", step_enough}, {"drain", step_drain}, {"audit", step_audit}, {"judge", step_kept},
    {"back", come_back},     {"rest", step_rest},   {"equal", step_equal}, {NULL, NULL},
};

/* ---- shift ----------------------------------------------------------------------------------- */

enum { SHIFT_MIN_MS = 200, SHIFT_MAX_MS = 3000, SHIFT_BEFORE_MS = 400 };

static bool cut(struct sim *sim)
{
    struct random *random = phase_stream(sim);
    const uint32_t side = 1 + (uint32_t)random_below(random, (1u << sim->node_count) - 2);
    const bool at_once = random_below(random, 2) == 0;
    const int64_t ms = random_between(random, 0, SHIFT_BEFORE_MS);
    if (!options_fault(&sim->options, FAULT_CUT))
        return true;
    sim_tell(sim, 1, "cut %02x off", side);
    net_cut(sim, side, false, at_once);
    sim->coverage.splits++;
    sim->plan.splits++;
    phase_wait(sim, ms);
    return true;
}

/* A spare node joins, if there is one. */
static bool tell_to_join(struct sim *sim)
{
    for (uint8_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i].member)
            continue;
        sim->plan.victim = i;
        sim->nodes[i].member = true;
        sim_tell(sim, 1, "n%u joins", i);
        node_start_later(sim, i, 0);
        return true;
    }
    return false;
}

/* What changes begins in the middle of the split, and ends when it can. */
static bool change(struct sim *sim)
{
    char sentence[CONTROL_SENTENCE_LEN] = "";
    struct plan *plan = &sim->plan;
    plan->change = (enum plan_change)random_below(phase_stream(sim), PLAN_CHANGE_END);
    sim->coverage.shifts++;
    if (plan->change == PLAN_JOIN && !tell_to_join(sim))
        plan->change = PLAN_DEPART;
    if (plan->change == PLAN_DEPART && !tell_to_go(sim, sentence)) {
        sim->nodes[plan->victim].member = true; /* it finds itself alone, and stays */
        plan->change = PLAN_JOIN;
    }
    if (plan->change == PLAN_REMOVE) {
        (void)die(sim);
        plan->splits++; /* a third one may decide what it decided */
    }
    phase_wait(sim, random_between(phase_stream(sim), SHIFT_MIN_MS, SHIFT_MAX_MS));
    return true;
}

static bool heal(struct sim *sim)
{
    net_heal(sim);
    sim_tell(sim, 1, "the split heals");
    return true;
}

static bool changed(struct sim *sim)
{
    if (sim->plan.change == PLAN_REMOVE)
        return take_out(sim);
    return sim->plan.change == PLAN_JOIN || has_gone(sim);
}

static bool say_farewell_if_gone(struct sim *sim)
{
    return sim->plan.change != PLAN_DEPART || say_farewell(sim);
}

static bool all_back(struct sim *sim)
{
    return sim->plan.change == PLAN_JOIN ? step_owned(sim) : start_again(sim);
}

static bool judge_shift(struct sim *sim)
{
    check_splits(sim, sim->plan.keys, sim->plan.splits);
    return true;
}

const struct phase_step phase_shift[] = {
    {"half", step_some},
    {"cut", cut},
    {"change", change},
    {"heal", heal},
    {"changed", changed},
    {"farewell", say_farewell_if_gone},
    {"enough", step_enough},
    {"drain", step_drain},
    {"judge", judge_shift},
    {"back", all_back},
    {"rest", step_rest},
    {"equal", step_equal},
    {NULL, NULL},
};

/* ---- force ----------------------------------------------------------------------------------- */

static bool kill_voters(struct sim *sim)
{
    const struct ring_config *config = control_config(node_some_up(sim)->control);
    uint64_t voters[RING_VOTERS_MAX];
    const uint32_t count = config->voters_count / 2 + 1;
    ASSERT(count < sim->options.nodes);
    memcpy(voters, config->voters, sizeof voters);
    for (uint32_t i = 0; i < count; i++) {
        const int at = node_by_id(sim, voters[i]);
        ASSERT(at >= 0);
        sim->plan.victim = (uint8_t)at;
        faults_crash(sim, &sim->nodes[at]);
    }
    return true;
}

static bool go_on_alone(struct sim *sim)
{
    if (phase_first(sim))
        sim->plan.left = node_some_up(sim)->index;
    phase_wait(sim, 50);
    const struct node *asked = &sim->nodes[sim->plan.left];
    if (!ask_removal(sim, asked->index, &sim->nodes[sim->plan.victim], true))
        return false;
    if (ring_config_lineage(control_config(asked->control)->epoch) == 0)
        sim_fail(sim, "node %u forced a removal, and there is no new lineage", asked->index);
    return true;
}

/* The other dead ones as well: a vnode may wait for any of them (QUORUM-11). */
static bool remove_rest(struct sim *sim)
{
    const uint8_t asked = (uint8_t)sim->plan.left;
    phase_wait(sim, 50);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *gone = &sim->nodes[i];
        if (!gone->up && !ask_removal(sim, asked, gone, true))
            return false;
    }
    return true;
}

const struct phase_step phase_force[] = {
    {"quiet", step_quiet},  {"flushed", step_flushed}, {"kill", kill_voters},
    {"force", go_on_alone}, {"others", remove_rest},   {"some", step_some},
    {"drain", step_drain},  {"back", step_back},       {"equal", step_equal},
    {NULL, NULL},
};

/* propose.c - which ring configuration is wanted next, and whether this node is to propose it.
 *
 *   stable ring:  the voters are put right; a member that an operator wants out, or that wants
 *                 out itself, is removed; one that was started with another weight is weighed anew;
 *                 a newcomer is added, in place of a dead member whose name it bears; one dead for
 *                 long is removed
 *   transition:   the voters are put right; settled once all living members say so (PROPOSE-4)
 *
 * PROPOSE-1  By itself, only the lowest-id live member of the ring with room on its disk proposes,
 *            so that proposals rarely meet; any member does when its operator asks, or has started
 *            it with another weight. Whether a proposal comes about is for the voters to say
 *            (register.h), and a frozen ring is left as it is.
 * PROPOSE-2  One change at a time: each is made out of the committed configuration.
 * PROPOSE-3  Who votes is replaced first and removed after that.
 * PROPOSE-4  A transition is settled when all living members say so: those that come and stay, for
 *            they have taken over what they are to own, and those that go, for they may be the last
 *            ones to hold a vnode whose new replicas are all dead. Of whom nothing was heard yet
 *            since this process started is not taken for dead before all that live can have been
 *            heard of.
 * PROPOSE-5  An operator's force begins a new lineage if the ring is frozen, or if a transition
 *            does not end though the voters agree: where a vnode of consistency quorum has lost the
 *            majority of its old replicas for good, nobody may decide it before he says that they
 *            are lost (QUORUM-11).
 * PROPOSE-6  A newcomer is taken in when it has answered the proposer itself, its wall clock was
 *            measured and is right (cluster_time.h), and weighs at most NEWCOMER_WEIGHTS times what
 *            the heaviest member does, or would by default: no rumour brings anybody into the ring,
 *            and nobody takes most of it at once by what it says of itself.
 * PROPOSE-7  A member of the ring proposes its own weight, and no other's: what gossip says of one
 *            may be made up. It weighs what its operator says, with the bound of a newcomer, which
 *            takes nothing from who weighs more already.
 */
#include <string.h>

#include "node/cluster/control/control_state.h"

enum { NEWCOMER_WEIGHTS = 4 };

bool control_alive(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    return member != NULL && (member->state == SWIM_ALIVE || member->state == SWIM_SUSPECT) &&
           control->now_ns < control_region_lost_ns(control, member);
}

uint32_t control_flags(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    return member != NULL ? member->record.flags : 0;
}

bool control_dead_for(const struct control *control, uint64_t id, int64_t age_ns)
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (id == control->options.node_id)
        return false;
    int64_t since_ns = control->started_ns + CONTROL_HEAR_NS; /* not heard of: since the start */
    if (member != NULL)
        since_ns = control_region_lost_ns(control, member);
    if (member != NULL && (member->state == SWIM_DEAD || member->state == SWIM_LEFT) &&
        member->since_ns < since_ns)
        since_ns = member->since_ns;
    if (age_ns > 0 && since_ns < control->jumped_ns) /* what came before is no time that passed */
        since_ns = control->jumped_ns;
    return since_ns <= control->now_ns && control->now_ns - since_ns >= age_ns;
}

static bool in_ring(const struct ring_config *config, uint64_t id)
{
    return ring_config_find(config, id) != NULL;
}

static bool in_to(const struct ring_config *config, uint64_t id)
{
    for (uint32_t i = 0; i < config->to_count; i++)
        if (config->to[i].id == id)
            return true;
    return false;
}

/* Whether a member of the list other than this node has a lower id, lives, and can propose: one
 * whose disk is full cannot (control_disk.c). */
static bool lower_lives(const struct control *control, const struct ring_member *list,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count && list[i].id < control->options.node_id; i++)
        if (control_alive(control, list[i].id) &&
            (control_flags(control, list[i].id) & CONTROL_FLAG_FULL) == 0)
            return true;
    return false;
}

/* PROPOSE-1. */
bool propose_by_itself(const struct control *control)
{
    const struct ring_config *config = control->config;
    return in_ring(config, control->options.node_id) &&
           !lower_lives(control, config->from, config->from_count) &&
           !lower_lives(control, config->to, config->to_count);
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool votes(const struct ring_config *config, uint64_t id)
{
    for (uint32_t i = 0; i < config->voters_count; i++)
        if (config->voters[i] == id)
            return true;
    return false;
}

/* Makes the configuration with the voters that are wanted when `leaving` is about to go. */
static bool put_voters_right(struct control *control, uint64_t leaving)
{
    const struct ring_config *config = control->config;
    uint64_t voters[RING_VOTERS_MAX];
    const uint32_t count = voters_choose(control, leaving, voters);
    bool same = count == config->voters_count;
    for (uint32_t i = 0; same && i < count; i++)
        same = votes(config, voters[i]);
    return count > 0 && !same && ring_config_set_voters(control->next, config, voters, count) == 0;
}

/* Makes the configuration without member `id`, or the one before that (PROPOSE-3). */
static bool remove_member(struct control *control, uint64_t id)
{
    if (votes(control->config, id))
        return put_voters_right(control, id);
    return ring_config_remove(control->next, control->config, id) == 0;
}

/* What a newcomer, or `id` beside the others, may weigh (PROPOSE-6). */
static uint32_t weight_max(const struct ring_config *config, uint64_t id)
{
    uint32_t most = RING_WEIGHT_DEFAULT;
    for (uint32_t i = 0; i < config->to_count; i++)
        if (config->to[i].id != id && config->to[i].weight > most)
            most = config->to[i].weight;
    return NEWCOMER_WEIGHTS * most < RING_WEIGHT_MAX ? NEWCOMER_WEIGHTS * most
                                                     : (uint32_t)RING_WEIGHT_MAX;
}

/* Whether the member has answered this node itself: what others say of it is not enough
 * (PROPOSE-6). */
static bool has_answered(struct control *control, const struct swim_member *member)
{
    if (member->rtt_ns == 0)
        swim_probe_now(control->swim, member->record.id);
    return member->rtt_ns > 0;
}

static bool clock_admits(const struct control *control, uint64_t id)
{
    const struct view_clock clock = control_clock_of(control, id);
    return clock.verdict != CLOCK_UNKNOWN && clock.verdict != CLOCK_REFUSED && !clock.held;
}

/* Takes `member` into the ring. A dead member of the same name is what it was before it lost its
 * disk: that one goes first. */
static bool add_member(struct control *control, const struct swim_member *member)
{
    const struct swim_record *record = &member->record;
    const struct ring_config *config = control->config;
    struct ring_member joining;
    const uint32_t most = weight_max(config, record->id);
    if (ring_member_init(&joining, record->id, record->name, record->zone,
                         record->weight < most ? record->weight : most) != 0)
        return false;
    const int result = ring_config_add(control->next, config, &joining);
    if (result != TG_EEXISTS)
        return result == 0;
    for (uint32_t i = 0; i < config->to_count; i++)
        if (strcmp(config->to[i].name, record->name) == 0)
            return control_dead_for(control, config->to[i].id, 0) &&
                   remove_member(control, config->to[i].id);
    return false;
}

/* Makes the configuration with the first newcomer that can be added. */
static bool add_newcomer(struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (member->state == SWIM_ALIVE && !control_remote(control, member) &&
            !in_ring(control->config, member->record.id) &&
            (member->record.flags & CONTROL_FLAG_DRAINING) == 0 &&
            control->now_ns - member->since_ns >= CONTROL_ADMIT_NS &&
            has_answered(control, member) && clock_admits(control, member->record.id) &&
            add_member(control, member))
            return true;
    return false;
}

/* Makes the configuration without a member that has been dead for long. */
static bool remove_dead(struct control *control)
{
    for (uint32_t i = 0; i < control->config->to_count; i++)
        if (control_dead_for(control, control->config->to[i].id, CONTROL_FORGET_NS))
            return remove_member(control, control->config->to[i].id);
    return false;
}

/* Makes the configuration without a living member that wants out. */
static bool remove_leaver(struct control *control)
{
    for (uint32_t i = 0; i < control->config->to_count; i++) {
        const uint64_t id = control->config->to[i].id;
        if ((control_flags(control, id) & CONTROL_FLAG_DRAINING) != 0 &&
            (id == control->options.node_id || control_alive(control, id)))
            return remove_member(control, id);
    }
    return false;
}

/* What the operator of this node wants; a request that has come true, or got old, is dropped. */
static bool grant_request(struct control *control)
{
    struct control_request *request = &control->request;
    if (request->remove == 0)
        return false;
    if (control->now_ns > request->until_ns || !in_to(control->config, request->remove)) {
        memset(request, 0, sizeof *request);
        return false;
    }
    return ring_config_is_stable(control->config) && remove_member(control, request->remove);
}

/* Makes the configuration in which this node weighs what its operator says (PROPOSE-7). */
static bool reweigh_self(struct control *control)
{
    const struct ring_config *config = control->config;
    const struct ring_member *self = ring_config_find(config, control->options.node_id);
    if (self == NULL || !ring_config_is_stable(config))
        return false;
    const uint32_t bound = weight_max(config, self->id);
    const uint32_t most = self->weight > bound ? self->weight : bound;
    const uint32_t wanted = control->options.weight < most ? control->options.weight : most;
    return wanted != self->weight &&
           ring_config_reweigh(control->next, config, self->id, wanted) == 0;
}

/* Whether the member is dead, or says that all it has to do with has arrived. */
static bool has_settled(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (id == control->options.node_id)
        return control->settled_epoch >= control->config->epoch;
    return control_dead_for(control, id, 0) ||
           (member != NULL && member->record.settled_epoch >= control->config->epoch);
}

/* PROPOSE-4. */
static bool all_settled(const struct control *control)
{
    const struct ring_config *config = control->config;
    for (uint32_t i = 0; i < config->to_count; i++)
        if (!has_settled(control, config->to[i].id))
            return false;
    for (uint32_t i = 0; i < config->from_count; i++)
        if (!has_settled(control, config->from[i].id))
            return false;
    return true;
}

/* Makes the next configuration in control->next; false if none is wanted now. */
static bool next_config(struct control *control)
{
    const struct ring_config *config = control->config;
    const bool forced = !ring_config_is_stable(config) && ring_config_epoch_forced(config->epoch);
    if (!forced && put_voters_right(control, 0)) /* else the operator has just chosen them */
        return true;
    if (!ring_config_is_stable(config))
        return all_settled(control) && ring_config_settle(control->next, config) == 0;
    return remove_leaver(control) || add_newcomer(control) || remove_dead(control);
}

bool propose_next(struct control *control)
{
    if (voters_frozen(control))
        return false;
    return grant_request(control) || reweigh_self(control) ||
           (propose_by_itself(control) && next_config(control));
}

bool propose_stands_still(const struct control *control)
{
    const int64_t since_ns =
        control->changed_ns > control->started_ns ? control->changed_ns : control->started_ns;
    return !ring_config_is_stable(control->config) &&
           control->now_ns - since_ns >= CONTROL_STILL_NS;
}

/* PROPOSE-5: whether force is of use beside voters that agree. */
static bool force_helps(const struct control *control)
{
    return propose_stands_still(control) && (!ring_config_epoch_forced(control->config->epoch) ||
                                             in_to(control->config, control->request.remove));
}

bool propose_forced(struct control *control)
{
    uint64_t voters[RING_VOTERS_MAX];
    if (!control->request.force || control->request.settings ||
        control->now_ns > control->request.until_ns ||
        (!voters_frozen(control) && !force_helps(control)))
        return false;
    const uint32_t count = voters_choose_living(control, control->request.remove, voters);
    return count > 0 && ring_config_force(control->next, control->config, control->request.remove,
                                          voters, count, control->options.node_id) == 0;
}

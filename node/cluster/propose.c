/* propose.c - what the next ring configuration should be, and whether this node is to propose it.
 *
 *   stable:      a newcomer is added  |  a dead member whose name it bears, or one dead for long,
 *                                     |  is removed
 *   transition:  settled once every living member has taken over what it is to own
 *
 * The proposer is the lowest-id live member that sees a majority of the ring, so that at most one
 * side of a split changes the ring. Nothing else knows how a configuration is agreed on: control.c
 * asks propose_next, and a register of consensus can take its place.
 */
#include <string.h>

#include "node/cluster/control_state.h"

bool control_alive(const struct control *control, uint64_t id)
{
    const struct swim_member *member = swim_find(control->swim, id);
    return member != NULL && (member->state == SWIM_ALIVE || member->state == SWIM_SUSPECT);
}

static bool in_ring(const struct ring_config *config, uint64_t id)
{
    return ring_config_find(config, id) != NULL;
}

/* Whether this node is the one to propose: lowest id alive in the ring, seeing a majority. */
static bool may_propose(const struct control *control)
{
    const struct ring_config *config = control->config;
    uint32_t living = 0;
    if (!in_ring(config, control->options.node_id))
        return false;
    for (uint32_t i = 0; i < config->from_count; i++) {
        const uint64_t id = config->from[i].id;
        const bool lives = id == control->options.node_id || control_alive(control, id);
        if (lives && id < control->options.node_id)
            return false;
        living += lives;
    }
    return living >= config->from_count / 2 + 1;
}

/* Whether a member of the ring has been dead for at least `age_ns`, as far as this node knows. */
static bool dead_for(const struct control *control, uint64_t id, int64_t age_ns)
{
    const struct swim_member *member = swim_find(control->swim, id);
    if (id == control->options.node_id)
        return false;
    if (member == NULL) /* not heard of since this process started */
        return control->now_ns - control->started_ns >= age_ns + CONTROL_ADMIT_NS;
    return (member->state == SWIM_DEAD || member->state == SWIM_LEFT) &&
           control->now_ns - member->since_ns >= age_ns;
}

/* Makes the configuration without member `id`; a voter is replaced by this node first. */
static bool remove_member(struct control *control, uint64_t id)
{
    const struct ring_config *config = control->config;
    if (ring_config_remove(control->next, config, id) == 0)
        return true;
    return ring_config_set_voters(control->next, config, &control->options.node_id, 1) == 0 &&
           !ring_config_equal(control->next, config);
}

/* Takes `member` into the ring. A dead member of the same name is what it was before it lost its
 * disk: that one goes first. */
static bool add_member(struct control *control, const struct swim_member *member)
{
    const struct swim_record *record = &member->record;
    const struct ring_config *config = control->config;
    struct ring_member joining;
    if (ring_member_init(&joining, record->id, record->name, record->zone, record->weight) != 0)
        return false;
    const int result = ring_config_add(control->next, config, &joining);
    if (result != TG_EEXISTS)
        return result == 0;
    for (uint32_t i = 0; i < config->to_count; i++)
        if (strcmp(config->to[i].name, record->name) == 0)
            return dead_for(control, config->to[i].id, 0) &&
                   remove_member(control, config->to[i].id);
    return false;
}

/* Makes the configuration with the first newcomer that can be added. */
static bool add_newcomer(struct control *control)
{
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL)
        if (member->state == SWIM_ALIVE && !in_ring(control->config, member->record.id) &&
            control->now_ns - member->since_ns >= CONTROL_ADMIT_NS && add_member(control, member))
            return true;
    return false;
}

/* Makes the configuration without a member that has been dead for long. */
static bool remove_dead(struct control *control)
{
    for (uint32_t i = 0; i < control->config->to_count; i++)
        if (dead_for(control, control->config->to[i].id, CONTROL_FORGET_NS))
            return remove_member(control, control->config->to[i].id);
    return false;
}

/* Whether every live member of the new ring has taken over what it is to own. */
static bool all_settled(const struct control *control)
{
    const struct ring_config *config = control->config;
    for (uint32_t i = 0; i < config->to_count; i++) {
        const struct swim_member *member = swim_find(control->swim, config->to[i].id);
        if (config->to[i].id == control->options.node_id) {
            if (control->settled_epoch < config->epoch)
                return false;
        } else if (member != NULL && member->state != SWIM_DEAD && member->state != SWIM_LEFT &&
                   member->record.settled_epoch < config->epoch) {
            return false;
        }
    }
    return true;
}

/* Makes the next configuration in control->next; false if none is wanted now. */
static bool next_config(struct control *control)
{
    const struct ring_config *config = control->config;
    if (!ring_config_is_stable(config))
        return all_settled(control) && ring_config_settle(control->next, config) == 0;
    return add_newcomer(control) || remove_dead(control);
}

bool propose_next(struct control *control)
{
    return may_propose(control) && next_config(control);
}

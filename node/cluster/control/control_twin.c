/* control_twin.c - another living node of this node's name in its region: a twin.
 *
 * A ring has each name once, so whoever comes second is kept outside (propose.c), in silence: it
 * would serve by forwarding, own nothing, and nobody would know why. Mostly somebody has copied a
 * command line or a configuration.
 *
 * TWIN-1  The twin that is in the ring is the first; of two outside nothing is said, for one of
 *         them is about to be taken in.
 * TWIN-2  A node whose disk was lost comes back as another one of its name while the one that it
 *         was is not known to be dead yet. So a twin ends nobody before others would know of its
 *         death.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/cluster/control/control_state.h"

#define TWIN_LOOK_NS (500 * CONTROL_MS)
#define TWIN_SAY_NS  (3000 * CONTROL_MS)
#define TWIN_END_NS  (15000 * CONTROL_MS) /* TWIN-2: a death is known after ten seconds at most */

static bool is_twin(const struct control *control, const struct swim_member *member)
{
    return member->record.id != control->options.node_id && member->state == SWIM_ALIVE &&
           !control_remote(control, member) &&
           strcmp(member->record.name, control->options.name) == 0;
}

/* The twin of the lowest id on the other side of the ring's border; NULL: there is none
 * (TWIN-1). */
static const struct swim_member *find_twin(const struct control *control, bool outside)
{
    const struct swim_member *member;
    const struct swim_member *found = NULL;
    size_t cursor = 0;
    while ((member = swim_next(control->swim, &cursor)) != NULL) {
        const bool inside = ring_config_find(control->config, member->record.id) != NULL;
        if (is_twin(control, member) && inside == outside &&
            (found == NULL || member->record.id < found->record.id))
            found = member;
    }
    return found;
}

void control_look_twin(struct control *control)
{
    struct control_twin *twin = &control->twin;
    if (control->config->epoch == 0 || control->now_ns - twin->looked_ns < TWIN_LOOK_NS)
        return;
    const bool outside = ring_config_find(control->config, control->options.node_id) == NULL &&
                         control->departure == CONTROL_STAYS;
    const struct swim_member *found = find_twin(control, outside);
    twin->looked_ns = control->now_ns;
    if (found == NULL || found->record.id != twin->id)
        twin->since_ns = control->now_ns;
    twin->id = found != NULL ? found->record.id : 0;
    twin->outside = outside;
}

uint64_t control_twin_say(const struct control *control, char *out, size_t capacity)
{
    const struct control_twin *twin = &control->twin;
    const struct swim_member *member = twin->id != 0 ? swim_find(control->swim, twin->id) : NULL;
    if (member == NULL || control->now_ns - twin->since_ns < TWIN_SAY_NS)
        return 0;
    (void)snprintf(out, capacity,
                   "another living node is called %s too (%016" PRIx64 ", gossip %s): %s is kept "
                   "out of the ring until the other has ended, or is started with another --name",
                   control->options.name, twin->id, member->record.gossip,
                   twin->outside ? "this one" : "that one");
    return twin->id;
}

bool control_twin_ends(const struct control *control)
{
    const struct control_twin *twin = &control->twin;
    return twin->id != 0 && twin->outside && control->now_ns - twin->since_ns >= TWIN_END_NS;
}

/* control_waiting.c - what a node that does not serve yet waits for: one sentence for everybody who
 * asks, by whatever protocol, and for the log.
 *
 *   no cluster   what each seed that was asked has answered lately
 *   no ring      whom the region's ring waits for (control_region.c)
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/control/control_state.h"

#define HEARD_NS (5000 * CONTROL_MS) /* seeds are asked twice a second */

enum { SEEDS_NAMED = 5 };

void control_note_seed(struct control *control, const struct swim_met *met)
{
    struct control_seed *place = &control->seeds_heard[0];
    for (uint32_t i = 0; i < CONTROL_SEEDS_HEARD; i++) {
        struct control_seed *seed = &control->seeds_heard[i];
        if (strcmp(seed->address, met->record.gossip) == 0) {
            place = seed;
            break;
        }
        if (seed->heard_ns < place->heard_ns)
            place = seed;
    }
    (void)snprintf(place->address, sizeof place->address, "%s", met->record.gossip);
    (void)snprintf(place->name, sizeof place->name, "%s", met->record.name);
    static const uint8_t none[CONTROL_CLUSTER_ID_LEN];
    place->has_cluster = memcmp(met->cluster_id, none, sizeof none) != 0;
    place->heard_ns = control->now_ns;
}

static bool is_heard(const struct control *control, const struct control_seed *seed)
{
    return seed->heard_ns != 0 && control->now_ns - seed->heard_ns < HEARD_NS;
}

static const struct control_seed *heard_at(const struct control *control, const char *address)
{
    for (uint32_t i = 0; i < CONTROL_SEEDS_HEARD; i++)
        if (strcmp(control->seeds_heard[i].address, address) == 0 &&
            is_heard(control, &control->seeds_heard[i]))
            return &control->seeds_heard[i];
    return NULL;
}

/* What came of asking the seed. */
static void say_seed(const struct control *control, const char *address, char *out, size_t capacity)
{
    const struct control_seed *heard = heard_at(control, address);
    if (strcmp(address, control->options.gossip) == 0)
        (void)snprintf(out, capacity, "%s is this node itself", address);
    else if (heard == NULL)
        (void)snprintf(out, capacity, "%s does not answer", address);
    else if (heard->has_cluster)
        (void)snprintf(out, capacity, "%s (%s) answers, and has not let this node in yet", address,
                       heard->name);
    else
        (void)snprintf(out, capacity, "%s (%s) answers, and has no cluster either", address,
                       heard->name);
}

bool control_waiting(const struct control *control, char *out, size_t capacity)
{
    const struct control_options *options = &control->options;
    if (control->joined && control->config->epoch > 0)
        return false;
    if (control->joined) {
        control_region_say(control, out, capacity);
        return true;
    }
    int len = snprintf(out, capacity, "waiting for a cluster: ");
    if (options->seed_count == 0 && len > 0 && (size_t)len < capacity)
        (void)snprintf(out + len, capacity - (size_t)len, "%s",
                       options->seeds_pending ? "no name of a seed can be resolved"
                                              : "this node is about to create one");
    for (uint32_t i = 0; i < options->seed_count && len > 0 && (size_t)len < capacity; i++) {
        char said[2 * VIEW_TEXT_LEN + 64];
        if (i == SEEDS_NAMED) {
            (void)snprintf(out + len, capacity - (size_t)len, "; and %u seeds more",
                           options->seed_count - i);
            break;
        }
        say_seed(control, options->seeds[i], said, sizeof said);
        len += snprintf(out + len, capacity - (size_t)len, "%s%s", i > 0 ? "; " : "seed ", said);
    }
    return true;
}

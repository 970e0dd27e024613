/* control_view.c - what gossip and the ring configuration say, put together for the shards.
 *
 * A view lists everybody who is known: members of all regions that gossip has heard of, and members
 * of the own ring that it has not heard of yet (after a restart), as dead and without addresses.
 */
#include <string.h>

#include "node/cluster/control/control_state.h"

static void copy_text(char *out, size_t capacity, const char *text)
{
    const size_t len = strlen(text);
    const size_t kept = len < capacity ? len : capacity - 1;
    memcpy(out, text, kept);
    out[kept] = '\0';
}

static void member_of(const struct control *control, const struct swim_member *member,
                      struct view_member *out)
{
    const struct swim_record *record = &member->record;
    static const enum view_state states[] = {VIEW_ALIVE, VIEW_SUSPECT, VIEW_DEAD, VIEW_LEFT};
    memset(out, 0, sizeof *out);
    out->id = record->id;
    out->incarnation = member->incarnation;
    out->rules_digest = record->rules_digest;
    out->ring_epoch = record->ring_epoch;
    out->state = states[member->state];
    out->clock = control_clock_of(control, record->id);
    out->stops = (record->flags & CONTROL_FLAG_STOPS) != 0;
    out->drains = (record->flags & CONTROL_FLAG_DRAINING) != 0;
    out->shards = record->shards <= VIEW_SHARDS_MAX ? record->shards : VIEW_SHARDS_MAX;
    copy_text(out->name, sizeof out->name, record->name);
    copy_text(out->region, sizeof out->region, record->region);
    copy_text(out->zone, sizeof out->zone, record->zone);
    copy_text(out->client, sizeof out->client, record->client);
    copy_text(out->peer, sizeof out->peer, record->peer);
    copy_text(out->gossip, sizeof out->gossip, record->gossip);
    copy_text(out->version, sizeof out->version, record->software);
}

/* Members of the ring that gossip has not heard of (after a restart): known by name alone. */
static uint32_t add_unheard(struct control *control, const struct ring_member *list, uint32_t count,
                            uint32_t filled)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t known = 0;
        while (known < filled && control->members[known].id != list[i].id)
            known++;
        if (known < filled || filled == VIEW_MEMBERS_MAX * 2)
            continue;
        struct view_member *member = &control->members[filled++];
        memset(member, 0, sizeof *member);
        member->id = list[i].id;
        member->state = VIEW_DEAD;
        copy_text(member->name, sizeof member->name, list[i].name);
        copy_text(member->region, sizeof member->region, control->options.region);
        copy_text(member->zone, sizeof member->zone, list[i].zone_name);
    }
    return filled;
}

bool control_view_due(struct control *control)
{
    const bool due = control->view_due && control->joined && control->config->epoch > 0;
    if (due)
        control->view_due = false;
    return due;
}

/* Makes sure that there is a view of the present configuration to take the ring from: members come
 * and go far more often than it changes, and to compute it takes long in a large cluster. */
static bool ring_known(struct control *control, uint32_t filled)
{
    if (control->known != NULL && control->known->epoch == control->config->epoch)
        return true;
    view_free(&control->known);
    return view_new(control->allocator, control->view_version, control->members, filled,
                    control->options.node_id, control->config, &control->known) == 0;
}

struct view *control_view(struct control *control)
{
    if (!control->joined || control->config->epoch == 0)
        return NULL;
    uint32_t filled = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL && filled < VIEW_MEMBERS_MAX * 2)
        member_of(control, member, &control->members[filled++]);
    filled = add_unheard(control, control->config->to, control->config->to_count, filled);
    filled = add_unheard(control, control->config->from, control->config->from_count, filled);
    struct view *view;
    const uint64_t version = ++control->view_version;
    const uint64_t self = control->options.node_id;
    if (!ring_known(control, filled) || view_again(control->allocator, version, control->members,
                                                   filled, self, control->known, &view) != 0)
        return NULL;
    view->regions = control->regions;
    return view;
}

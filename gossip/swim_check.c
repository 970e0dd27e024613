/* swim_check.c - whether a membership is whole: the invariants that its state alone can show.
 *
 * GOSSIP-1 to GOSSIP-9 are told in swim_internal.h, PROBE-1 and PROBE-5 in swim_probe.c, STRANGER-3
 * in swim_stranger.c.
 */
#include "gossip/swim.h"

#include <string.h>

#include "base/assert.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_region.h"
#include "gossip/swim_stranger.h"

static void check_member(const struct swim *swim, const struct swim_slot *slot)
{
    const struct swim_member *member = &slot->member;
    INVARIANT("GOSSIP-2", member->incarnation >= member->record.incarnation);
    INVARIANT("GOSSIP-2",
              member->state != SWIM_ALIVE || member->incarnation == member->record.incarnation);
    INVARIANT("GOSSIP-3", slot->accusers_count <= SWIM_ACCUSERS_MAX);
    INVARIANT("GOSSIP-3", (member->state == SWIM_SUSPECT) == (slot->accusers_count >= 1));
    INVARIANT("GOSSIP-3", member->state != SWIM_SUSPECT || slot->deadline_ns > 0);
    INVARIANT("GOSSIP-3", member->state != SWIM_SUSPECT || slot->region == SWIM_HOME ||
                              slot->deadline_ns == INT64_MAX);
    INVARIANT("STRANGER-3", slot->in_ring == swim_in_ring(swim, member->record.id));
}

static void check_slots(const struct swim *swim)
{
    const enum swim_state self = swim->slots[SWIM_SELF].member.state;
    uint32_t used = 0;
    uint32_t rumours = 0;
    uint32_t events = 0;
    uint32_t entries = 0;
    INVARIANT("GOSSIP-1", swim->slots_len >= 1 && swim->slots[SWIM_SELF].used);
    INVARIANT("GOSSIP-1", self == SWIM_ALIVE || self == SWIM_LEFT);
    INVARIANT("GOSSIP-8", swim->slots_len <= swim->options.members_max);
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        const struct swim_slot *slot = &swim->slots[at];
        INVARIANT("GOSSIP-4", slot->used || !slot->rumour);
        INVARIANT("GOSSIP-7", slot->used || slot->events == 0);
        if (!slot->used)
            continue;
        INVARIANT("GOSSIP-6", swim_lookup(swim, slot->member.record.id) == at);
        check_member(swim, slot);
        used++;
        rumours += slot->rumour ? 1 : 0;
        events += slot->events != 0 ? 1 : 0;
    }
    for (uint32_t at = 0; at < swim->index_len; at++)
        entries += swim->index[at] != 0 ? 1 : 0;
    INVARIANT("GOSSIP-6", entries == used);
    INVARIANT("GOSSIP-7", events == swim->events_waiting);
    INVARIANT("GOSSIP-7", swim->slots[SWIM_SELF].events == 0);
    INVARIANT("GOSSIP-4", swim->order_len + 1 == used && swim->rumours_len == rumours);
}

/* Each used slot once: as many as there are, all used, and none twice. */
static void check_orders(const struct swim *swim)
{
    uint64_t seen[SWIM_JOB_WORDS] = {0};
    for (uint32_t i = 0; i < swim->order_len; i++) {
        const uint32_t at = swim->order[i];
        INVARIANT("GOSSIP-4", at != SWIM_SELF && at < swim->slots_len && swim->slots[at].used);
        INVARIANT("GOSSIP-4", (seen[at / 64] >> at % 64 & 1) == 0);
        seen[at / 64] |= UINT64_C(1) << at % 64;
    }
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < swim->rumours_len; i++) {
        const uint32_t at = swim->rumours[i];
        INVARIANT("GOSSIP-4", at < swim->slots_len && swim->slots[at].rumour);
        INVARIANT("GOSSIP-4", (seen[at / 64] >> at % 64 & 1) == 0);
        seen[at / 64] |= UINT64_C(1) << at % 64;
    }
}

static void check_regions(const struct swim *swim)
{
    uint32_t members[SWIM_REGIONS_MAX][SWIM_STATES] = {{0}};
    uint32_t abroad = 0;
    INVARIANT("GOSSIP-5", swim->slots[SWIM_SELF].region == SWIM_HOME);
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        const struct swim_slot *slot = &swim->slots[at];
        if (!slot->used)
            continue;
        INVARIANT("GOSSIP-5", slot->region < SWIM_REGIONS_MAX &&
                                  strcmp(swim->regions[slot->region].name,
                                         swim_region_of(&slot->member.record)) == 0);
        members[slot->region][slot->member.state]++;
    }
    for (uint32_t at = 0; at < SWIM_REGIONS_MAX; at++) {
        const struct swim_region *region = &swim->regions[at];
        uint32_t sum = 0;
        for (int state = 0; state < SWIM_STATES; state++)
            sum += region->members[state];
        INVARIANT("GOSSIP-5", memcmp(members[at], region->members, sizeof members[at]) == 0);
        INVARIANT("GOSSIP-5", swim_region_used(region) == (sum > 0));
        INVARIANT("GOSSIP-5",
                  region->heard_ns >= region->last_contact_ns && region->heard_ns <= swim->now_ns);
        abroad += at != SWIM_HOME && swim_region_used(region) ? 1 : 0;
    }
    INVARIANT("GOSSIP-5", abroad == swim->regions_abroad);
}

static void check_probes(const struct swim *swim)
{
    for (uint32_t i = 0; i < SWIM_PROBES_MAX; i++) {
        const struct swim_probe *probe = &swim->probe.probes[i];
        INVARIANT("PROBE-5", !probe->used || (probe->nacks <= probe->helpers &&
                                              probe->helpers <= SWIM_HELPERS_MAX));
        INVARIANT("PROBE-5", !probe->used || probe->indirect || probe->helpers == 0);
        for (uint32_t k = 0; probe->used && k < i; k++)
            INVARIANT("PROBE-1",
                      !swim->probe.probes[k].used || swim->probe.probes[k].id != probe->id);
    }
}

static void check_bounds(const struct swim *swim)
{
    INVARIANT("GOSSIP-8", swim->health <= swim->options.health_max);
    INVARIANT("GOSSIP-8", swim->probe.hints_len <= SWIM_HINTS_MAX);
    INVARIANT("GOSSIP-8", swim->seeds.len <= SWIM_SEEDS_MAX);
    INVARIANT("GOSSIP-8", swim->strangers.ring_len <= swim->options.members_max);
    for (uint32_t i = 1; i < swim->strangers.ring_len; i++)
        INVARIANT("GOSSIP-8", swim->strangers.ring[i - 1] < swim->strangers.ring[i]);
    INVARIANT("GOSSIP-9", swim->out == NULL);
    INVARIANT("GOSSIP-9", !swim->started || swim->deadline_ns >= swim->now_ns);
}

void swim_check_invariants(const struct swim *swim)
{
    check_slots(swim);
    check_orders(swim);
    check_regions(swim);
    check_probes(swim);
    check_bounds(swim);
}

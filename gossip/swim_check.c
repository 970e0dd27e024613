/* swim_check.c - whether a membership is whole: invariants I1 to I5 of swim_internal.h. */
#include "gossip/swim.h"

#include <string.h>

#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_region.h"

static void check_slot(const struct swim *swim, uint32_t at)
{
    const struct swim_slot *slot = &swim->slots[at];
    const struct swim_member *member = &slot->member;
    ASSERT(swim_lookup(swim, member->record.id) == at);
    ASSERT(member->incarnation >= member->record.incarnation); /* I2 */
    if (member->state == SWIM_ALIVE)
        ASSERT(member->incarnation == member->record.incarnation);
    if (member->state == SWIM_SUSPECT)
        ASSERT(slot->accusers_count >= 1 && slot->accusers_count <= SWIM_ACCUSERS_MAX &&
               slot->deadline_ns > 0 &&
               (slot->region == SWIM_HOME || slot->deadline_ns == INT64_MAX)); /* I3 */
    else
        ASSERT(slot->accusers_count == 0);
}

/* I5 */
static void check_regions(const struct swim *swim)
{
    uint32_t members[SWIM_REGIONS_MAX][SWIM_STATES] = {{0}};
    uint32_t abroad = 0;
    ASSERT(swim->slots[SWIM_SELF].region == SWIM_HOME);
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        const struct swim_slot *slot = &swim->slots[at];
        if (!slot->used)
            continue;
        ASSERT(strcmp(swim->regions[slot->region].name, swim_region_of(&slot->member.record)) == 0);
        members[slot->region][slot->member.state]++;
    }
    for (uint32_t at = 0; at < SWIM_REGIONS_MAX; at++) {
        const struct swim_region *region = &swim->regions[at];
        uint32_t sum = 0;
        for (int state = 0; state < SWIM_STATES; state++)
            sum += region->members[state];
        ASSERT(memcmp(members[at], region->members, sizeof members[at]) == 0);
        ASSERT(swim_region_used(region) == (sum > 0));
        ASSERT(region->heard_ns >= region->last_contact_ns && region->heard_ns <= swim->now_ns);
        abroad += at != SWIM_HOME && swim_region_used(region) ? 1 : 0;
    }
    ASSERT(abroad == swim->regions_abroad);
}

void swim_check_invariants(const struct swim *swim)
{
    uint32_t used = 0;
    uint32_t rumours = 0;
    const enum swim_state self = swim->slots[SWIM_SELF].member.state;
    ASSERT(self == SWIM_ALIVE || self == SWIM_LEFT); /* I1 */
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        if (!swim->slots[at].used)
            continue;
        check_slot(swim, at);
        used++;
        rumours += swim->slots[at].rumour ? 1 : 0;
    }
    check_regions(swim);
    ASSERT(swim->order_len + 1 == used && swim->rumours_len == rumours); /* I4 */
    for (uint32_t i = 0; i < swim->order_len; i++)
        ASSERT(swim->order[i] != SWIM_SELF && swim->slots[swim->order[i]].used);
    for (uint32_t i = 0; i < swim->rumours_len; i++)
        ASSERT(swim->slots[swim->rumours[i]].rumour);
    ASSERT(swim->out == NULL);
}

/* swim_rumour.c - the queue of what is still to be told.
 *
 * A member has at most one rumour, its current state, so newer news replace older and the memory is
 * one flag a member. A rumour that was told 4 x ceil(log10(n + 1)) times is over. What goes along
 * with a message is swim_piggyback.c's to choose.
 */
#include "gossip/swim_rumour.h"

#include "base/assert.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_region.h"

uint32_t swim_retransmit_limit(const struct swim *swim)
{
    const uint32_t members = swim_others(swim) + 1;
    uint32_t digits = 1; /* ceil(log10(n + 1)) */
    for (uint64_t power = 10; power < (uint64_t)members + 1; power *= 10)
        digits++;
    ASSERT(digits >= 1 && digits <= 5); /* of SWIM_MEMBERS_MAX */
    return swim->options.retransmit_factor * digits;
}

void swim_rumour_start(struct swim *swim, uint32_t at, bool with_record, uint32_t transmits)
{
    ASSERT(swim->slots[at].used && swim->rumours_len <= swim->options.members_max);
    struct swim_slot *slot = &swim->slots[at];
    if (!slot->rumour) {
        slot->rumour = true;
        slot->rumour_record = false;
        swim->rumours[swim->rumours_len++] = at;
    }
    slot->rumour_record |= with_record;
    slot->transmits = transmits;
}

void swim_rumour_stop(struct swim *swim, uint32_t at)
{
    struct swim_slot *slot = &swim->slots[at];
    if (!slot->rumour)
        return;
    slot->rumour = false;
    slot->rumour_record = false;
    for (uint32_t i = 0; i < swim->rumours_len; i++) {
        if (swim->rumours[i] == at) {
            swim->rumours[i] = swim->rumours[--swim->rumours_len];
            return;
        }
    }
    ASSERT(false); /* GOSSIP-4 */
}

void swim_rumours_retire(struct swim *swim)
{
    const uint32_t limit = swim_retransmit_limit(swim);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < swim->rumours_len; i++) {
        struct swim_slot *slot = &swim->slots[swim->rumours[i]];
        if (slot->transmits < limit) {
            swim->rumours[kept++] = swim->rumours[i];
        } else {
            slot->rumour = false;
            slot->rumour_record = false;
        }
    }
    ASSERT(kept <= swim->rumours_len);
    swim->rumours_len = kept;
}

/* swim_stranger.c - nodes that the ring does not know, and addresses at which nobody is known:
 * bounded in number.
 *
 * STRANGER-1  Members of this region that the ring does not know are SWIM_STRANGERS_MAX at most:
 *             each costs probes. Until they have answered, every other probe passes over them,
 *             their silence says nothing about this node, and nobody tells them news or asks
 *             them for help. A full table gives up others for those of the ring.
 * STRANGER-2  Messages from addresses at which nobody is known are answered at a bounded rate,
 *             whatever address they name: nobody is flooded through this node.
 * STRANGER-3  A slot is marked as one of the ring exactly if its id is among the ring's.
 */
#include "gossip/swim_stranger.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "base/search.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"

#define REFILL_NS INT64_C(4000000) /* 250 messages a second */

/* ---- the ring -------------------------------------------------------------------------------- */

bool swim_in_ring(const struct swim *swim, uint64_t id)
{
    return search_ids(swim->strangers.ring, sizeof *swim->strangers.ring, swim->strangers.ring_len,
                      id) != SEARCH_NONE;
}

void swim_stranger_ring(struct swim *swim, const uint64_t *ids, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        ASSERT(ids[i - 1] < ids[i]);
    const uint32_t most = swim->options.members_max;
    swim->strangers.ring_len = count < most ? count : most;
    if (swim->strangers.ring_len > 0)
        memcpy(swim->strangers.ring, ids, swim->strangers.ring_len * sizeof *ids);
    for (uint32_t at = 0; at < swim->slots_len; at++)
        swim->slots[at].in_ring =
            swim->slots[at].used && swim_in_ring(swim, swim->slots[at].member.record.id);
}

bool swim_unheard(const struct swim *swim, uint32_t at)
{
    const struct swim_slot *slot = &swim->slots[at];
    return swim->strangers.ring_len > 0 && !slot->in_ring && slot->region == SWIM_HOME &&
           slot->member.rtt_ns == 0;
}

bool swim_stranger_fits(const struct swim *swim)
{
    uint32_t strangers = 0;
    if (swim->strangers.ring_len == 0)
        return true;
    for (uint32_t at = 1; at < swim->slots_len; at++)
        strangers += swim->slots[at].used && !swim->slots[at].in_ring &&
                     swim->slots[at].region == SWIM_HOME &&
                     swim->slots[at].member.state < SWIM_DEAD;
    return strangers < SWIM_STRANGERS_MAX;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool known_address(const struct swim *swim, const struct swim_message *message)
{
    const uint32_t at = swim_lookup(swim, message->sender);
    if (at != SWIM_SLOT_NONE && strcmp(swim->slots[at].member.record.gossip, message->address) == 0)
        return true;
    for (uint32_t i = 0; i < swim->seeds.len; i++)
        if (strcmp(swim->seeds.all[i].address, message->address) == 0)
            return true;
    return false;
}

bool swim_stranger_heard(struct swim *swim, const struct swim_message *message)
{
    const int64_t due = sat_sub(swim->now_ns, swim->strangers.refill_ns) / REFILL_NS;
    if (known_address(swim, message))
        return true;
    if (due > 0) {
        const int64_t tokens =
            swim->strangers.tokens + (due < SWIM_MEMBERS_MAX ? due : SWIM_MEMBERS_MAX);
        swim->strangers.tokens =
            tokens < SWIM_MEMBERS_MAX ? (uint32_t)tokens : (uint32_t)SWIM_MEMBERS_MAX;
        swim->strangers.refill_ns = swim->now_ns;
    }
    if (swim->strangers.tokens == 0) {
        swim->stats.strangers_refused++;
        return false;
    }
    ASSERT(swim->strangers.tokens <= SWIM_MEMBERS_MAX); /* STRANGER-2 */
    swim->strangers.tokens--;
    return true;
}

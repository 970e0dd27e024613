/* swim_doubt.c - what is too much to believe at its word: the owner is asked, and numbers are
 * bounded.
 *
 * Everything that is said of a member is told on by others, so one frame with a wild number would
 * be everybody's truth for good: an incarnation near the highest cannot be refuted.
 *
 *   claim far above what is known --+
 *   message of a member far below --+--> HELLO to the member --> WELCOME: its record, which counts
 *
 * D1  A claim more than SWIM_INCARNATION_STEP above the known incarnation changes nothing. The
 *     member's own answer to a greeting of this node does, up or down: its number is random, and
 *     it goes to the member's address alone.
 * D2  A member is asked at most once in a probe interval, and so are SWIM_DOUBTS_MAX at once.
 * D3  A member that hears of itself far above follows only up to SWIM_INCARNATION_START_MAX (older
 *     releases believe what they hear), and rises by one in all other cases. So it always has
 *     something higher to say, or need not, since nobody believes the others.
 * D4  Members of this region that the ring does not know are SWIM_STRANGERS_MAX at most: each costs
 *     probes. Until they have answered, every other probe passes over them, their silence says
 *     nothing about this node, and nobody tells them news or asks them for help. A full table
 *     gives up others for those of the ring.
 * D5  Messages from addresses at which nobody is known are answered at a bounded rate, whatever
 *     address they name: nobody is flooded through this node.
 * D6  Whoever is held for suspect and speaks as if nothing were is told of it again, until it has
 *     refuted: a claim that was made to one member alone has not come round to it.
 */
#include <string.h>

#include "base/sat.h"
#include "gossip/swim_internal.h"

#define REFILL_NS INT64_C(4000000) /* 250 messages a second */

uint64_t swim_incarnation_start(uint64_t stored, uint64_t now_ms)
{
    if (stored <= SWIM_INCARNATION_START_MAX)
        return stored;
    return now_ms < SWIM_INCARNATION_START_MAX ? now_ms : SWIM_INCARNATION_START_MAX;
}

/* ---- the ring -------------------------------------------------------------------------------- */

bool swim_in_ring(const struct swim *swim, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = swim->ring_len;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (swim->ring[middle] == id)
            return true;
        if (swim->ring[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

void swim_ring(struct swim *swim, const uint64_t *ids, uint32_t count)
{
    const uint32_t most = swim->options.members_max;
    swim->ring_len = count < most ? count : most;
    if (swim->ring_len > 0)
        memcpy(swim->ring, ids, swim->ring_len * sizeof *ids);
    for (uint32_t at = 0; at < swim->slots_len; at++)
        swim->slots[at].in_ring =
            swim->slots[at].used && swim_in_ring(swim, swim->slots[at].member.record.id);
}

bool swim_unheard(const struct swim *swim, uint32_t at)
{
    const struct swim_slot *slot = &swim->slots[at];
    return swim->ring_len > 0 && !slot->in_ring && slot->region == SWIM_HOME &&
           slot->member.rtt_ns == 0;
}

bool swim_stranger_fits(const struct swim *swim)
{
    uint32_t strangers = 0;
    if (swim->ring_len == 0)
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
    for (uint32_t i = 0; i < swim->seeds_len; i++)
        if (strcmp(swim->seeds[i].address, message->address) == 0)
            return true;
    return false;
}

bool swim_stranger_heard(struct swim *swim, const struct swim_message *message)
{
    const int64_t due = sat_sub(swim->now_ns, swim->stranger_refill_ns) / REFILL_NS;
    if (known_address(swim, message))
        return true;
    if (due > 0) {
        const int64_t tokens =
            swim->stranger_tokens + (due < SWIM_MEMBERS_MAX ? due : SWIM_MEMBERS_MAX);
        swim->stranger_tokens =
            tokens < SWIM_MEMBERS_MAX ? (uint32_t)tokens : (uint32_t)SWIM_MEMBERS_MAX;
        swim->stranger_refill_ns = swim->now_ns;
    }
    if (swim->stranger_tokens == 0) {
        swim->stats.strangers_refused++;
        return false;
    }
    swim->stranger_tokens--;
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The place for asking `id`, or none: it is being asked, or too many are. */
static struct swim_doubt *place_for(struct swim *swim, uint64_t id)
{
    struct swim_doubt *spare = NULL;
    for (int i = 0; i < SWIM_DOUBTS_MAX; i++) {
        struct swim_doubt *doubt = &swim->doubts[i];
        const bool over = doubt->id == 0 || swim->now_ns >= doubt->until_ns;
        if (doubt->id == id)
            return over ? doubt : NULL;
        if (over)
            spare = doubt;
    }
    if (spare == NULL)
        swim->stats.jobs_dropped++;
    return spare;
}

void swim_doubt(struct swim *swim, uint64_t id, const char *address)
{
    struct swim_doubt *doubt = swim->joined ? place_for(swim, id) : NULL;
    const uint64_t seq = random_next(&swim->random) | 1;
    if (doubt == NULL || !swim_hello(swim, address, seq))
        return;
    *doubt = (struct swim_doubt){
        .id = id,
        .seq = seq,
        .until_ns = sat_add(swim->now_ns, swim->options.probe_interval_ns),
    };
}

void swim_doubt_known(struct swim *swim, const struct swim_message *message)
{
    const uint32_t at = swim_lookup(swim, message->sender);
    if (at == SWIM_SLOT_NONE)
        return;
    const struct swim_member *member = &swim->slots[at].member;
    if (swim_too_far(message->incarnation, member->incarnation))
        swim_doubt(swim, message->sender, message->address);
    else if (member->state == SWIM_SUSPECT && message->incarnation <= member->incarnation &&
             !swim->slots[at].rumour)
        swim_rumour_start(swim, at, false, 0); /* D6 */
}

bool swim_doubt_answered(struct swim *swim, const struct swim_message *message)
{
    if (!swim->joined || message->seq == 0 || message->record.id != message->sender ||
        memcmp(message->cluster_id, swim->cluster_id, SWIM_CLUSTER_ID_LEN) != 0)
        return false;
    for (int i = 0; i < SWIM_DOUBTS_MAX; i++) {
        struct swim_doubt *doubt = &swim->doubts[i];
        const uint32_t at = swim_lookup(swim, doubt->id);
        if (doubt->id != message->sender || doubt->seq != message->seq)
            continue;
        doubt->seq = 0;
        if (at != SWIM_SLOT_NONE && at != SWIM_SELF)
            swim_owner_said(swim, at, &message->record);
        return true;
    }
    return false;
}

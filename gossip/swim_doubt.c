/* swim_doubt.c - what is too much to believe at its word: the owner is asked.
 *
 * Everything that is said of a member is told on by others, so one frame with a wild number would
 * be everybody's truth for good: an incarnation near the highest cannot be refuted.
 *
 *   claim far above what is known --+
 *   message of a member far below --+--> HELLO to the member --> WELCOME: its record, which counts
 *
 * DOUBT-1  A claim more than SWIM_INCARNATION_STEP above the known incarnation changes nothing. The
 *          member's own answer to a greeting of this node does, up or down: its number is random,
 *          and it goes to the member's address alone.
 * DOUBT-2  A member is asked at most once in a probe interval, and so are SWIM_DOUBTS_MAX at once.
 * DOUBT-3  A member that hears of itself far above follows only up to SWIM_INCARNATION_START_MAX
 *          (older releases believe what they hear), and rises by one in all other cases. So it
 *          always has something higher to say, or need not, since nobody believes the others.
 * DOUBT-4  Whoever is held for suspect and speaks as if nothing were is told of it again, until it
 *          has refuted: a claim that was made to one member alone has not come round to it.
 */
#include "gossip/swim_doubt.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_rumour.h"
#include "gossip/swim_table.h"

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
    ASSERT(id != 0);
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
        swim_rumour_start(swim, at, false, 0); /* DOUBT-4 */
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
        ASSERT(doubt->id != 0); /* DOUBT-1 */
        doubt->seq = 0;
        if (at != SWIM_SLOT_NONE && at != SWIM_SELF)
            swim_owner_said(swim, at, &message->record);
        return true;
    }
    return false;
}

/* voters.c - which members vote on the ring configuration.
 *
 *   members   1 2 | 3 4 | 5 ...      Who votes goes on voting, unless it has been dead for a
 *   voters     1  |  3  |  5         minute or wants out, and a living member can take its place.
 *
 * V1  The choice depends only on the configuration and on what gossip says, so that whoever
 *     proposes comes to the same, and it is stable: chosen again, it stays.
 * V2  Their number is odd: of an even one, a majority is no smaller than of one more.
 * V3  Zones differ where there are enough: one lost zone then leaves a majority. A voter whose
 *     zone has another one makes place for a living member of a zone without any.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control_state.h"

/* What makes a voter the one to go, in the order of weight. */
enum { WORSE_DEAD = 8, WORSE_NEW = 4, WORSE_ZONE = 2 };

struct choice {
    const struct control *control;
    uint64_t leaving;
    uint32_t count;
    const struct ring_member *members[RING_VOTERS_MAX];
};

/* ---- what is asked of one member ------------------------------------------------------------- */

static bool is_voter(const struct control *control, uint64_t id)
{
    for (uint32_t i = 0; i < control->config->voters_count; i++)
        if (control->config->voters[i] == id)
            return true;
    return false;
}

static bool lives(const struct control *control, uint64_t id)
{
    return id == control->options.node_id || control_alive(control, id);
}

static bool willing(const struct choice *choice, uint64_t id)
{
    return id != choice->leaving &&
           (control_flags(choice->control, id) & CONTROL_FLAG_DRAINING) == 0;
}

bool voters_frozen(const struct control *control)
{
    const struct ring_config *config = control->config;
    uint32_t living = 0;
    for (uint32_t i = 0; i < config->voters_count; i++)
        living += lives(control, config->voters[i]);
    return living < config->voters_count / 2 + 1;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool chosen(const struct choice *choice, uint64_t id)
{
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->members[i]->id == id)
            return true;
    return false;
}

/* How many of the chosen, `member` not counted, are in its zone. */
static uint32_t in_zone(const struct choice *choice, const struct ring_member *member)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        count += choice->members[i]->id != member->id && choice->members[i]->zone == member->zone;
    return count;
}

/* The number of voters for as many members as are willing (V2). */
static uint32_t size_wanted(const struct choice *choice)
{
    const struct ring_config *config = choice->control->config;
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->to_count; i++)
        count += willing(choice, config->to[i].id);
    return count < 3 ? 1 : count < 5 ? 3 : 5;
}

static void keep_voters(struct choice *choice, bool living_only, bool long_dead, uint32_t wanted)
{
    const struct control *control = choice->control;
    for (uint32_t i = 0; i < control->config->to_count && choice->count < RING_VOTERS_MAX; i++) {
        const struct ring_member *member = &control->config->to[i];
        if (!is_voter(control, member->id) || !willing(choice, member->id) ||
            chosen(choice, member->id) || (living_only && !lives(control, member->id)))
            continue;
        if (!control_dead_for(control, member->id, CONTROL_VOTER_DEAD_NS))
            choice->members[choice->count++] = member;
        else if (long_dead && choice->count < wanted)
            choice->members[choice->count++] = member;
    }
}

/* The living member that would vote best: in the emptiest zone, then of the lowest id; or NULL. */
static const struct ring_member *candidate(const struct choice *choice)
{
    const struct ring_config *config = choice->control->config;
    const struct ring_member *best = NULL;
    for (uint32_t i = 0; i < config->to_count; i++) {
        const struct ring_member *member = &config->to[i];
        if (!chosen(choice, member->id) && willing(choice, member->id) &&
            lives(choice->control, member->id) &&
            (best == NULL || in_zone(choice, member) < in_zone(choice, best)))
            best = member;
    }
    return best;
}

/* The place of the one to go first. */
static uint32_t worst(const struct choice *choice)
{
    uint32_t at = 0;
    uint32_t at_score = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        const struct ring_member *member = choice->members[i];
        const uint32_t score = (lives(choice->control, member->id) ? 0U : WORSE_DEAD) +
                               (is_voter(choice->control, member->id) ? 0U : WORSE_NEW) +
                               (in_zone(choice, member) > 0 ? WORSE_ZONE : 0U);
        if (score > at_score || (score == at_score && member->id >= choice->members[at]->id)) {
            at = i;
            at_score = score;
        }
    }
    return at;
}

static void take_out(struct choice *choice, uint32_t at)
{
    choice->members[at] = choice->members[--choice->count];
}

/* V3, one at a time. */
static void spread_zones(struct choice *choice)
{
    const struct ring_member *member = candidate(choice);
    if (member == NULL || in_zone(choice, member) > 0)
        return;
    for (uint32_t i = 0; i < choice->count; i++) {
        const uint32_t at = choice->count - 1 - i;
        if (in_zone(choice, choice->members[at]) == 0)
            continue;
        choice->members[at] = member;
        return;
    }
}

static uint32_t choose(const struct control *control, uint64_t leaving, bool living_only,
                       uint64_t out[RING_VOTERS_MAX])
{
    struct choice choice = {.control = control, .leaving = leaving};
    const uint32_t wanted = size_wanted(&choice);
    keep_voters(&choice, living_only, false, wanted);
    while (choice.count < wanted) {
        const struct ring_member *member = candidate(&choice);
        if (member == NULL)
            break;
        choice.members[choice.count++] = member;
    }
    if (!living_only)
        keep_voters(&choice, false, true, wanted);
    while (choice.count > wanted || (choice.count > 0 && choice.count % 2 == 0))
        take_out(&choice, worst(&choice)); /* V2 */
    spread_zones(&choice);
    for (uint32_t i = 0; i < choice.count; i++)
        out[i] = choice.members[i]->id;
    return choice.count;
}

uint32_t voters_choose(const struct control *control, uint64_t leaving,
                       uint64_t out[RING_VOTERS_MAX])
{
    return choose(control, leaving, false, out);
}

uint32_t voters_choose_living(const struct control *control, uint64_t leaving,
                              uint64_t out[RING_VOTERS_MAX])
{
    return choose(control, leaving, true, out);
}

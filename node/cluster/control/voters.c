/* voters.c - which members vote on the ring configuration, and on the settings of several regions.
 *
 *   members   1 2 | 3 4 | 5 ...      Who votes goes on voting, unless it has been dead for a
 *   voters     1  |  3  |  5         minute or wants out, and a living member can take its place.
 *
 * VOTERS-1  The choice depends only on the configuration and on what gossip says, so that whoever
 *           proposes comes to the same, and it is stable: chosen again, it stays.
 * VOTERS-2  Their number is odd: of an even one, a majority is no smaller than of one more.
 * VOTERS-3  They are spread over zones, where there are several regions over regions, and in a
 *           region over its zones: where there are enough, one that is lost leaves a majority. A
 *           voter of the fullest makes place for a living member of one that has fewer, if that
 *           evens them out.
 * VOTERS-4  Of a region nothing is known but by gossip: before that has heard of all voters, they
 *           stay.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control/control_state.h"

/* What makes a voter the one to go, in the order of weight. */
enum { WORSE_DEAD = 8, WORSE_NEW = 4, WORSE_PLACE = 2 };
/* One more of its place crowds a candidate more than all of its inner place could. */
enum { CROWD_PLACE = RING_VOTERS_MAX + 1 };

struct choice {
    const struct control *control;
    uint64_t leaving;
    struct register_voters voters; /* those that there are */
    uint32_t list_count;
    const struct voters_candidate *list;
    uint32_t count;
    const struct voters_candidate *members[RING_VOTERS_MAX];
};

/* ---- what is asked of one member ------------------------------------------------------------- */

static bool is_voter(const struct choice *choice, uint64_t id)
{
    for (uint32_t i = 0; i < choice->voters.count; i++)
        if (choice->voters.ids[i] == id)
            return true;
    return false;
}

static const struct voters_candidate *find(const struct choice *choice, uint64_t id)
{
    for (uint32_t i = 0; i < choice->list_count; i++)
        if (choice->list[i].id == id)
            return &choice->list[i];
    return NULL;
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

/* How many of the chosen, `member` not counted, are in its place. */
static uint32_t in_place(const struct choice *choice, const struct voters_candidate *member)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < choice->count; i++)
        count += choice->members[i]->id != member->id && choice->members[i]->place == member->place;
    return count;
}

/* The same, and then how many of them are in its inner place. */
static uint32_t crowd(const struct choice *choice, const struct voters_candidate *member)
{
    uint32_t count = CROWD_PLACE * in_place(choice, member);
    for (uint32_t i = 0; i < choice->count; i++)
        count += choice->members[i]->id != member->id &&
                 choice->members[i]->place == member->place &&
                 choice->members[i]->inner == member->inner;
    return count;
}

/* The number of voters for as many members as are willing (VOTERS-2). */
static uint32_t size_wanted(const struct choice *choice)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < choice->list_count; i++)
        count += willing(choice, choice->list[i].id);
    return count < 3 ? 1 : count < 5 ? 3 : 5;
}

static void keep_voters(struct choice *choice, bool living_only, bool long_dead, uint32_t wanted)
{
    const struct control *control = choice->control;
    for (uint32_t i = 0; i < choice->voters.count && choice->count < RING_VOTERS_MAX; i++) {
        const struct voters_candidate *member = find(choice, choice->voters.ids[i]);
        if (member == NULL || !willing(choice, member->id) || chosen(choice, member->id) ||
            (living_only && !lives(control, member->id)))
            continue;
        if (!control_dead_for(control, member->id, CONTROL_VOTER_DEAD_NS))
            choice->members[choice->count++] = member;
        else if (long_dead && choice->count < wanted)
            choice->members[choice->count++] = member;
    }
}

/* The living member that would vote best: in the emptiest place, then of the lowest id; or NULL. */
static const struct voters_candidate *candidate(const struct choice *choice)
{
    const struct voters_candidate *best = NULL;
    for (uint32_t i = 0; i < choice->list_count; i++) {
        const struct voters_candidate *member = &choice->list[i];
        if (chosen(choice, member->id) || !willing(choice, member->id) ||
            !lives(choice->control, member->id))
            continue;
        const uint32_t crowded = crowd(choice, member);
        const uint32_t least = best != NULL ? crowd(choice, best) : UINT32_MAX;
        if (crowded < least || (crowded == least && best != NULL && member->id < best->id))
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
        const struct voters_candidate *member = choice->members[i];
        const uint32_t score = (lives(choice->control, member->id) ? 0U : WORSE_DEAD) +
                               (is_voter(choice, member->id) ? 0U : WORSE_NEW) +
                               (in_place(choice, member) > 0 ? WORSE_PLACE : 0U);
        if (score > at_score || (score == at_score && member->id >= choice->members[at]->id)) {
            at = i;
            at_score = score;
        }
    }
    return at;
}

static void take_out(struct choice *choice, uint32_t at)
{
    ASSERT(at < choice->count); /* VOTERS-3 */
    choice->members[at] = choice->members[--choice->count];
}

/* VOTERS-3, one at a time: of the fullest place, the last one makes room. */
static void spread(struct choice *choice)
{
    const struct voters_candidate *member = candidate(choice);
    uint32_t most = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < choice->count; i++) {
        const uint32_t others = in_place(choice, choice->members[i]);
        at = others >= most ? i : at;
        most = others >= most ? others : most;
    }
    if (member != NULL && most > in_place(choice, member))
        choice->members[at] = member;
}

static uint32_t choose(struct choice *choice, bool living_only, uint64_t out[RING_VOTERS_MAX])
{
    const uint32_t wanted = size_wanted(choice);
    keep_voters(choice, living_only, false, wanted);
    while (choice->count < wanted) {
        const struct voters_candidate *member = candidate(choice);
        if (member == NULL)
            break;
        choice->members[choice->count++] = member;
    }
    if (!living_only)
        keep_voters(choice, false, true, wanted);
    while (choice->count > wanted || (choice->count > 0 && choice->count % 2 == 0))
        take_out(choice, worst(choice)); /* VOTERS-2 */
    spread(choice);
    for (uint32_t i = 0; i < choice->count; i++)
        out[i] = choice->members[i]->id;
    ASSERT(choice->count <= RING_VOTERS_MAX); /* VOTERS-2 */
    return choice->count;
}

/* ---- of a ring ------------------------------------------------------------------------------- */

static uint32_t choose_of_ring(const struct control *control, uint64_t leaving, bool living_only,
                               uint64_t out[RING_VOTERS_MAX])
{
    const struct ring_config *config = control->config;
    struct choice choice = {.control = control, .leaving = leaving, .list = control->candidates};
    choice.voters.count = config->voters_count;
    memcpy(choice.voters.ids, config->voters, config->voters_count * sizeof *config->voters);
    for (uint32_t i = 0; i < config->to_count; i++)
        control->candidates[choice.list_count++] =
            (struct voters_candidate){.id = config->to[i].id, .place = config->to[i].zone};
    return choose(&choice, living_only, out);
}

uint32_t voters_choose(const struct control *control, uint64_t leaving,
                       uint64_t out[RING_VOTERS_MAX])
{
    return choose_of_ring(control, leaving, false, out);
}

uint32_t voters_choose_living(const struct control *control, uint64_t leaving,
                              uint64_t out[RING_VOTERS_MAX])
{
    return choose_of_ring(control, leaving, true, out);
}

/* ---- of all regions -------------------------------------------------------------------------- */

/* Members of a ring of theirs, those that died lately included; of the own region, those that the
 * register has. */
static uint32_t list_regions(const struct control *control)
{
    uint32_t count = 0;
    size_t cursor = 0;
    const struct swim_member *member;
    while ((member = swim_next(control->swim, &cursor)) != NULL && count < SWIM_MEMBERS_MAX)
        if (member->record.ring_epoch > 0 && member->state != SWIM_LEFT &&
            (control_remote(control, member) || control->config->epoch == 0 ||
             ring_config_find(control->config, member->record.id) != NULL) &&
            !control_dead_for(control, member->record.id, CONTROL_FORGET_NS))
            control->candidates[count++] =
                (struct voters_candidate){.id = member->record.id,
                                          .place = ring_zone_hash(member->record.region),
                                          .inner = ring_zone_hash(member->record.zone)};
    return count;
}

static uint32_t choose_of_regions(const struct control *control, uint64_t leaving, bool living_only,
                                  uint64_t out[RING_VOTERS_MAX])
{
    struct choice choice = {.control = control,
                            .leaving = leaving,
                            .voters = control->settings->voters,
                            .list_count = list_regions(control),
                            .list = control->candidates};
    for (uint32_t i = 0; i < choice.voters.count && !living_only; i++)
        if (swim_find(control->swim, choice.voters.ids[i]) == NULL &&
            !control_dead_for(control, choice.voters.ids[i], CONTROL_VOTER_DEAD_NS))
            return 0; /* VOTERS-4 */
    return choose(&choice, living_only, out);
}

uint32_t voters_choose_regions(const struct control *control, uint64_t out[RING_VOTERS_MAX])
{
    return choose_of_regions(control, 0, false, out);
}

uint32_t voters_choose_regions_living(const struct control *control, uint64_t leaving,
                                      uint64_t out[RING_VOTERS_MAX])
{
    return choose_of_regions(control, leaving, true, out);
}

/* ---- for people ------------------------------------------------------------------------------ */

const char *control_member_name(const struct control *control, uint64_t id)
{
    const struct ring_member *member = ring_config_find(control->config, id);
    return member != NULL ? member->name : "?";
}

void control_say_frozen(const struct control *control, char *out, size_t capacity)
{
    const struct ring_config *config = control->config;
    int len =
        snprintf(out, capacity, "the ring is frozen: of its %u voters ", config->voters_count);
    const char *joint = "";
    for (uint32_t i = 0; i < config->voters_count; i++) {
        const uint64_t id = config->voters[i];
        if (id == control->options.node_id || control_alive(control, id) || len < 0 ||
            (size_t)len >= capacity)
            continue;
        len += snprintf(out + len, capacity - (size_t)len, "%s%s", joint,
                        control_member_name(control, id));
        joint = ", ";
    }
    if (len > 0 && (size_t)len < capacity)
        (void)snprintf(out + len, capacity - (size_t)len, " cannot be reached");
}

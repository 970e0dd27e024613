/* first_time.c - camps of clocks, and which of them is the best. See first_time.h. */
#include "node/cluster/clock/first_time.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/cluster/clock/cluster_time.h"

/* No clock is taken for true that tells a time before 1970, or after about 2170; nor one whose
 * wall clock is further off than a hundred years. */
#define OFF_MAX_NS  (INT64_C(3155760000) * 1000000000)
#define TIME_MAX_NS (2 * OFF_MAX_NS)

void first_time_init(struct first_time *first, uint64_t self)
{
    memset(first, 0, sizeof *first);
    first->self = self;
}

void first_time_ring(struct first_time *first, const struct ring_config *config)
{
    first->ring_count = config->to_count;
    for (uint32_t i = 0; i < config->to_count; i++)
        first->ring[i] = config->to[i].id;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The member's place: its own, that of who answered at this address before, or a new one
 * (FIRSTTIME-1). */
static struct first_time_member *place_for(struct first_time *first, uint64_t id, uint32_t place)
{
    ASSERT(first->count <= FIRST_TIME_ANSWERS_MAX); /* FIRSTTIME-1 */
    struct first_time_member *found = NULL;
    for (uint32_t i = 0; i < first->count; i++) {
        if (first->members[i].id == id)
            return &first->members[i];
        if (first->members[i].place == place)
            found = &first->members[i];
    }
    if (found == NULL && first->count < FIRST_TIME_ANSWERS_MAX)
        found = &first->members[first->count++];
    if (found != NULL)
        *found = (struct first_time_member){.id = 0};
    return found;
}

void first_time_heard(struct first_time *first, const struct first_time_answer *answer)
{
    int64_t low_ns = sat_sub(answer->time_ns, answer->now_ns);
    int64_t high_ns = sat_sub(answer->time_ns, answer->asked_ns);
    ASSERT(answer->place < first->asked && first->asked <= FIRST_TIME_ANSWERS_MAX);
    first->heard[answer->place] = true;
    if (answer->id == 0 || answer->id == first->self || high_ns < low_ns || answer->time_ns <= 0 ||
        answer->time_ns > TIME_MAX_NS || answer->wall_ns > OFF_MAX_NS ||
        answer->wall_ns < -OFF_MAX_NS)
        return;
    struct first_time_member *member = place_for(first, answer->id, answer->place);
    if (member == NULL)
        return;
    if (member->id == answer->id && member->running == answer->running &&
        member->low_ns <= high_ns && low_ns <= member->high_ns) {
        low_ns = member->low_ns > low_ns ? member->low_ns : low_ns;
        high_ns = member->high_ns < high_ns ? member->high_ns : high_ns;
    } /* else a clock was stepped, or is another one */
    *member = (struct first_time_member){.id = answer->id,
                                         .place = answer->place,
                                         .running = answer->running,
                                         .confirmed = answer->running && answer->confirmed,
                                         .low_ns = low_ns,
                                         .high_ns = high_ns,
                                         .wall_ns = answer->running ? answer->wall_ns : 0};
}

/* ---- votes ----------------------------------------------------------------------------------- */

/* The own vote is the last of them. */
struct vote {
    int64_t at_ns; /* from the own wall clock */
    int64_t wall_ns;
    bool running;
    bool confirmed;
};

struct votes {
    uint32_t count; /* of those that count */
    uint32_t of;    /* that there may be */
    uint32_t left_out;
    bool own;     /* this node has one, too */
    bool missing; /* somebody who could tell who is right did not answer */
    struct vote list[FIRST_TIME_ANSWERS_MAX + 1];
};

static bool in_ring(const struct first_time *first, uint64_t id)
{
    for (uint32_t i = 0; i < first->ring_count; i++)
        if (first->ring[i] == id)
            return true;
    return false;
}

/* Whether a member of the ring has answered: else it may be an old one, and whoever did counts. */
static bool ring_heard(const struct first_time *first)
{
    for (uint32_t i = 0; i < first->count; i++)
        if (in_ring(first, first->members[i].id))
            return true;
    return false;
}

static void collect(const struct first_time *first, bool late, struct votes *votes)
{
    const bool known = first->ring_count > 0;
    const bool listed = known && in_ring(first, first->self);
    const bool any = !known || (late && !ring_heard(first) && !(listed && first->ring_count == 1));
    *votes =
        (struct votes){.of = known ? first->ring_count : first->asked + 1, .own = listed || !known};
    for (uint32_t i = 0; i < first->count; i++) {
        const struct first_time_member *member = &first->members[i];
        const int64_t width_ns = sat_sub(member->high_ns, member->low_ns);
        const int64_t at_ns = sat_add(member->low_ns, width_ns / 2); /* FIRSTTIME-2 */
        if (!any && !in_ring(first, member->id))
            continue;
        if (!late && width_ns > FIRST_TIME_PROMPT_NS) {
            votes->left_out++;
            continue;
        }
        votes->list[votes->count++] = (struct vote){.at_ns = at_ns,
                                                    .wall_ns = sat_add(at_ns, member->wall_ns),
                                                    .running = member->running,
                                                    .confirmed = member->confirmed};
    }
    votes->list[votes->count] = (struct vote){.at_ns = 0};
    votes->missing = listed && votes->of > 2 && votes->count + 1 < votes->of;
}

static bool near(int64_t a_ns, int64_t b_ns)
{
    const int64_t ns = sat_sub(a_ns, b_ns);
    return ns < CLUSTER_TIME_REFUSED_NS && ns > -CLUSTER_TIME_REFUSED_NS;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of the votes near `at_ns`, or of all (whole); of an even number the lower of the
 * middle ones. `running`: of those alone who run. */
static int64_t median_of(const struct votes *votes, int64_t at_ns, bool whole, bool running)
{
    int64_t values[FIRST_TIME_ANSWERS_MAX + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < votes->count + (votes->own ? 1 : 0); i++) {
        const struct vote *vote = &votes->list[i];
        if ((whole || near(vote->at_ns, at_ns)) && (!running || vote->running))
            values[count++] = vote->at_ns;
    }
    if (count == 0)
        return at_ns;
    qsort(values, count, sizeof *values, by_value);
    return values[(count - 1) / 2];
}

/* ---- camps ----------------------------------------------------------------------------------- */

enum { MERITS = 7 };

/* Whoever lies near one time. */
struct camp {
    int64_t at_ns;
    bool majority;
    bool agreed; /* a majority, with one that runs */
    uint32_t running;
    uint32_t merit[MERITS]; /* the first that differs decides */
};

static struct camp camp_of(const struct votes *votes, int64_t at_ns)
{
    struct camp camp = {.at_ns = at_ns};
    const uint32_t own = near(0, at_ns);
    uint32_t confirmed = 0;
    uint32_t count = votes->own ? own : 0;
    uint32_t walls = own;
    for (uint32_t i = 0; i < votes->count; i++) {
        const struct vote *vote = &votes->list[i];
        walls += near(vote->wall_ns, at_ns);
        if (!near(vote->at_ns, at_ns))
            continue;
        count++;
        camp.running += vote->running;
        confirmed += vote->confirmed;
    }
    camp.majority = count >= votes->of / 2 + 1;
    camp.agreed = camp.majority && (camp.running > 0 || votes->of == 1);
    const uint32_t merit[MERITS] = {
        camp.agreed,                 /* 1 */
        camp.agreed ? 0 : confirmed, /* 2 */
        count,                       /* 3, and the rest is where as many are in several */
        votes->missing ? 0 : camp.running,
        walls,
        votes->missing ? own : 0,
        camp.running,
    };
    memcpy(camp.merit, merit, sizeof merit);
    return camp;
}

static bool better(const struct camp *a, const struct camp *b, int64_t median_ns)
{
    for (int i = 0; i < MERITS; i++)
        if (a->merit[i] != b->merit[i])
            return a->merit[i] > b->merit[i];
    const int64_t a_ns = sat_sub(a->at_ns, median_ns);
    const int64_t b_ns = sat_sub(b->at_ns, median_ns);
    const int64_t a_size_ns = a_ns < 0 ? sat_sub(0, a_ns) : a_ns;
    const int64_t b_size_ns = b_ns < 0 ? sat_sub(0, b_ns) : b_ns;
    return a_size_ns != b_size_ns ? a_size_ns < b_size_ns : a->at_ns < b->at_ns;
}

static bool all_heard(const struct first_time *first)
{
    for (uint32_t i = 0; i < first->asked; i++)
        if (!first->heard[i])
            return false;
    return true;
}

struct first_time_choice first_time_choose(const struct first_time *first, bool late)
{
    struct votes votes;
    collect(first, late, &votes);
    const int64_t median_ns = median_of(&votes, 0, true, false);
    struct camp best = camp_of(&votes, 0);
    for (uint32_t i = 0; i < votes.count; i++) {
        const struct camp camp = camp_of(&votes, votes.list[i].at_ns);
        if (better(&camp, &best, median_ns))
            best = camp;
    }
    return (struct first_time_choice){
        .offset_ns = median_of(&votes, best.at_ns, false, best.running > 0),
        .majority = best.majority,
        .enough = best.agreed || (all_heard(first) && votes.left_out == 0)};
}

void first_time_check_invariants(const struct first_time *first)
{
    INVARIANT("FIRSTTIME-3", first->asked <= FIRST_TIME_ANSWERS_MAX);
    INVARIANT("FIRSTTIME-3", first->count <= FIRST_TIME_ANSWERS_MAX);
    for (uint32_t i = 1; i < first->ring_count; i++)
        INVARIANT("FIRSTTIME-1", first->ring[i - 1] < first->ring[i]);
    for (uint32_t i = 0; i < first->count; i++) {
        const struct first_time_member *member = &first->members[i];
        INVARIANT("FIRSTTIME-3", member->low_ns <= member->high_ns && member->id != first->self);
        INVARIANT("FIRSTTIME-3", member->place < first->asked);
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("FIRSTTIME-1", first->members[k].id != member->id);
    }
}

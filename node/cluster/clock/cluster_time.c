/* cluster_time.c - medians of clocks, and verdicts on them. See cluster_time.h. */
#include "node/cluster/clock/cluster_time.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"

enum { SAMPLES = 3, SELF = 0 };
#define BEST_FOR_NS INT64_C(1000000000) /* then other bounds take the place of narrower ones */
#define DRIFT_NS    INT64_C(1000000)    /* by which two clocks slew apart between two samples */
/* No clock that is told of is further off: a hundred years. */
#define FURTHEST_NS (INT64_C(3155760000) * 1000000000)

struct bounds {
    int64_t low_ns;
    int64_t high_ns;
};

struct cluster_time {
    const struct allocator *allocator;
    uint32_t count;
    bool measured; /* a majority was */
    bool agreed;
    bool walls_agreed;
    bool walls_have_middle; /* so, or of an odd number, three or more, one is the middle one */
    bool alone;
    bool confirmed;
    struct bounds median; /* of cluster times */
    struct bounds wall_median;
    int64_t values[CLUSTER_TIME_MEMBERS_MAX]; /* scratch */
    struct cluster_time_member members[CLUSTER_TIME_MEMBERS_MAX];
};

int cluster_time_new(const struct allocator *allocator, uint64_t self, struct cluster_time **out)
{
    struct cluster_time *time = alloc_get(allocator, sizeof *time);
    *out = time;
    if (time == NULL)
        return TG_ENOMEM;
    time->allocator = allocator;
    time->alone = true;
    time->members[SELF] =
        (struct cluster_time_member){.id = self, .samples = SAMPLES, .verdict = CLOCK_FINE};
    time->count = 1;
    return 0;
}

void cluster_time_free(struct cluster_time **time)
{
    if (*time != NULL)
        alloc_put((*time)->allocator, *time, sizeof **time);
    *time = NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static struct cluster_time_member *find(const struct cluster_time *time, uint64_t id)
{
    for (uint32_t i = 0; i < time->count; i++)
        if (time->members[i].id == id)
            return (struct cluster_time_member *)&time->members[i];
    return NULL;
}

/* A place for a new member: a new one, or that of who was not heard for long. */
static struct cluster_time_member *place_for(struct cluster_time *time, int64_t now_ns)
{
    ASSERT(time->count <= CLUSTER_TIME_MEMBERS_MAX);
    if (time->count < CLUSTER_TIME_MEMBERS_MAX)
        return &time->members[time->count++];
    for (uint32_t i = SELF + 1; i < time->count; i++)
        if (sat_sub(now_ns, time->members[i].heard_ns) > CLUSTER_TIME_FRESH_NS)
            return &time->members[i];
    return NULL;
}

static int64_t bounded(int64_t ns)
{
    if (ns > FURTHEST_NS)
        return FURTHEST_NS;
    return ns < -FURTHEST_NS ? -FURTHEST_NS : ns;
}

static void begin(struct cluster_time_member *member, int64_t now_ns, int64_t low_ns,
                  int64_t high_ns)
{
    ASSERT(low_ns <= high_ns); /* CLUSTERTIME-7 */
    member->low_ns = low_ns;
    member->high_ns = high_ns;
    member->at_ns = now_ns;
    member->odd = 0;
}

void cluster_time_heard(struct cluster_time *time, int64_t now_ns,
                        const struct cluster_time_sample *sample)
{
    struct cluster_time_member *member = find(time, sample->id);
    const int64_t low = bounded(sample->low_ns);
    const int64_t high = bounded(sample->high_ns);
    if (high < low || member == &time->members[SELF])
        return;
    if (member == NULL && (member = place_for(time, now_ns)) == NULL)
        return;
    if (member->id != sample->id || sample->process > member->process) /* CLUSTERTIME-6 */
        *member = (struct cluster_time_member){.id = sample->id, .process = sample->process};
    else if (sample->process != 0 && sample->process < member->process)
        return;
    const bool known = member->samples > 0 &&
                       sat_sub(now_ns, member->heard_ns) <= CLUSTER_TIME_FRESH_NS &&
                       now_ns >= member->heard_ns;
    bool anew = !known || high - low <= member->high_ns - member->low_ns ||
                now_ns - member->at_ns >= BEST_FOR_NS;
    if (known && (low > member->high_ns + DRIFT_NS || high < member->low_ns - DRIFT_NS)) {
        member->odd += sample->count;
        if (member->odd < SAMPLES)
            return; /* a clock was stepped, or the frame is forged: nothing of it counts yet */
        member->samples = SAMPLES;
        anew = true;
    }
    member->odd = 0;
    member->heard_ns = now_ns;
    member->wall_ns = bounded(sample->wall_ns);
    if (anew)
        begin(member, now_ns, low, high);
    member->samples = (known ? member->samples : 0) + sample->count;
    if (member->samples > SAMPLES)
        member->samples = SAMPLES;
}

void cluster_time_forget(struct cluster_time *time)
{
    for (uint32_t i = SELF + 1; i < time->count; i++)
        time->members[i].samples = 0;
    time->confirmed = false;
}

void cluster_time_wall(struct cluster_time *time, int64_t wall_ns)
{
    time->members[SELF].wall_ns = bounded(wall_ns);
}

/* ---- judging --------------------------------------------------------------------------------- */

static bool measured(const struct cluster_time *time, const struct cluster_time_member *member,
                     int64_t now_ns)
{
    return member == &time->members[SELF] ||
           (member->samples >= SAMPLES &&
            sat_sub(now_ns, member->heard_ns) <= CLUSTER_TIME_FRESH_NS);
}

static int64_t middle(const struct bounds *bounds)
{
    return bounds->low_ns + (bounds->high_ns - bounds->low_ns) / 2;
}

static struct bounds bounds_of(const struct cluster_time_member *member, bool walls)
{
    const int64_t wall_ns = walls ? member->wall_ns : 0;
    return (struct bounds){member->low_ns + wall_ns, member->high_ns + wall_ns};
}

/* The least that `from` and what lies within `bounds` can differ by, with its sign
 * (CLUSTERTIME-5). */
static int64_t least(const struct bounds *bounds, const struct bounds *from)
{
    if (bounds->low_ns > from->high_ns)
        return bounds->low_ns - from->high_ns;
    return bounds->high_ns < from->low_ns ? bounds->high_ns - from->low_ns : 0;
}

static int64_t size_of(int64_t ns)
{
    return ns < 0 ? -ns : ns;
}

/* The most that they can differ by, without its sign. */
static int64_t most(const struct bounds *bounds, const struct bounds *from)
{
    const int64_t above_ns = bounds->high_ns - from->low_ns;
    const int64_t below_ns = from->high_ns - bounds->low_ns;
    return above_ns > below_ns ? above_ns : below_ns;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of one side of all bounds; of an even number the lower of the middle ones, which all
 * find alike. */
static int64_t median_of(struct cluster_time *time, int64_t now_ns, bool walls, bool high,
                         uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < time->count; i++) {
        const struct bounds bounds = bounds_of(&time->members[i], walls);
        if (time->members[i].listed && measured(time, &time->members[i], now_ns))
            time->values[(*count)++] = high ? bounds.high_ns : bounds.low_ns;
    }
    ASSERT(*count <= time->count); /* CLUSTERTIME-1 */
    qsort(time->values, *count, sizeof *time->values, by_value);
    return *count > 0 ? time->values[(*count - 1) / 2] : 0;
}

/* The median of what a majority has, of cluster times or of wall clocks, lies between those of the
 * bounds. False: there is no majority. */
static bool agree(struct cluster_time *time, int64_t now_ns, bool walls, uint32_t ring,
                  struct bounds *median, bool *agreed)
{
    uint32_t count;
    uint32_t near = 0;
    median->low_ns = median_of(time, now_ns, walls, false, &count);
    median->high_ns = median_of(time, now_ns, walls, true, &count);
    for (uint32_t i = 0; i < time->count; i++) {
        const struct bounds bounds = bounds_of(&time->members[i], walls);
        near += time->members[i].listed && measured(time, &time->members[i], now_ns) &&
                size_of(least(&bounds, median)) < CLUSTER_TIME_REFUSED_NS;
    }
    *agreed = near >= ring / 2 + 1;
    if (walls)
        time->walls_have_middle = *agreed || (count >= 3 && count % 2 == 1);
    return count > 0 && count >= ring / 2 + 1;
}

/* How far a clock is from what it is measured by: at least, and at most. */
struct distance {
    int64_t least_ns;
    int64_t most_ns;
};

static struct distance distance_of(const struct bounds *bounds, const struct bounds *from)
{
    return (struct distance){size_of(least(bounds, from)), most(bounds, from)};
}

/* Whether a step that is entered at `at_ns` holds. It is left at less, and only where that is sure
 * (CLUSTERTIME-3): wide bounds say nothing against it. */
static bool stands(bool before, const struct distance *distance, int64_t at_ns)
{
    return before ? distance->most_ns >= at_ns / 5 * 4 : distance->least_ns >= at_ns;
}

static enum clock_verdict verdict_of(enum clock_verdict before, const struct distance *time,
                                     const struct distance *wall, bool agreed)
{
    if (agreed && stands(before == CLOCK_REFUSED, time, CLUSTER_TIME_REFUSED_NS))
        return CLOCK_REFUSED;
    if (agreed && stands(before >= CLOCK_PASSES, time, CLUSTER_TIME_PASSES_NS))
        return CLOCK_PASSES;
    if (stands(before >= CLOCK_ALARM, time, CLUSTER_TIME_ALARM_NS) ||
        stands(before >= CLOCK_ALARM, wall, CLUSTER_TIME_ALARM_NS))
        return CLOCK_ALARM;
    return CLOCK_FINE;
}

/* True if the verdict changed. */
static bool judge_one(struct cluster_time *time, struct cluster_time_member *member, int64_t now_ns)
{
    const enum clock_verdict before = member->verdict;
    const bool held = member->held;
    if (!measured(time, member, now_ns)) {
        member->verdict = CLOCK_UNKNOWN;
        return before != member->verdict;
    }
    const struct bounds ours = {0, 0};
    const struct bounds our_wall = bounds_of(&time->members[SELF], true);
    const struct bounds *by = time->agreed ? &time->median : &ours;
    const struct bounds *wall_by = time->walls_have_middle ? &time->wall_median : &our_wall;
    const struct bounds bounds = bounds_of(member, false);
    const struct bounds wall = bounds_of(member, true);
    const struct distance off = distance_of(&bounds, by);
    const struct distance wall_off = distance_of(&wall, wall_by);
    member->skew_ns = middle(&bounds) - middle(by);
    member->wall_skew_ns = middle(&wall) - middle(wall_by);
    member->ours = !time->agreed;
    member->wall_ours = !time->walls_have_middle;
    member->verdict = verdict_of(before, &off, &wall_off, time->agreed);
    member->held =
        time->walls_agreed && !member->listed && stands(held, &wall_off, CLUSTER_TIME_REFUSED_NS);
    return before != member->verdict || held != member->held;
}

static bool in_ring(const uint64_t *ids, uint32_t count, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        const uint32_t at = low + (high - low) / 2;
        if (ids[at] < id)
            low = at + 1;
        else
            high = at;
    }
    return low < count && ids[low] == id;
}

bool cluster_time_judge(struct cluster_time *time, int64_t now_ns, const uint64_t *ids,
                        uint32_t count)
{
    const bool agreed = time->agreed;
    const bool divided = cluster_time_divided(time);
    bool changed = false;
    for (uint32_t i = 0; i < time->count; i++)
        time->members[i].listed = in_ring(ids, count, time->members[i].id);
    time->alone = count == 0 || (count == 1 && time->members[SELF].listed);
    time->measured = agree(time, now_ns, false, count, &time->median, &time->agreed);
    (void)agree(time, now_ns, true, count, &time->wall_median, &time->walls_agreed);
    for (uint32_t i = 0; i < time->count; i++)
        changed = judge_one(time, &time->members[i], now_ns) || changed;
    time->confirmed =
        (time->confirmed || time->agreed) && time->members[SELF].verdict < CLOCK_PASSES;
    return changed || agreed != time->agreed || divided != cluster_time_divided(time);
}

/* ---- answers --------------------------------------------------------------------------------- */

const struct cluster_time_member *cluster_time_of(const struct cluster_time *time, uint64_t id)
{
    return find(time, id);
}

const struct cluster_time_member *cluster_time_next(const struct cluster_time *time,
                                                    uint32_t *cursor)
{
    return *cursor < time->count ? &time->members[(*cursor)++] : NULL;
}

bool cluster_time_agreed(const struct cluster_time *time)
{
    return time->agreed;
}

bool cluster_time_confirmed(const struct cluster_time *time)
{
    return time->confirmed;
}

bool cluster_time_divided(const struct cluster_time *time)
{
    return time->measured && !(time->agreed && time->walls_agreed);
}

int64_t cluster_time_target_ns(const struct cluster_time *time)
{
    if (time->alone)
        return time->members[SELF].wall_ns;
    return time->walls_agreed ? middle(&time->wall_median) : 0;
}

const char *cluster_time_verdict_name(enum clock_verdict verdict)
{
    static const char *const names[] = {"unknown", "fine", "alarm", "passes on", "refused"};
    ASSERT((size_t)verdict < sizeof names / sizeof *names);
    return names[verdict];
}

static void check_member(const struct cluster_time *time, uint32_t place)
{
    const struct cluster_time_member *member = &time->members[place];
    INVARIANT("CLUSTERTIME-7", find(time, member->id) == member);
    INVARIANT("CLUSTERTIME-7", member->low_ns <= member->high_ns);
    INVARIANT("CLUSTERTIME-7", member->low_ns >= -FURTHEST_NS && member->high_ns <= FURTHEST_NS);
    INVARIANT("CLUSTERTIME-1", member->samples <= SAMPLES && member->odd < SAMPLES);
    INVARIANT("CLUSTERTIME-4", member->verdict <= CLOCK_ALARM || !member->ours);
}

void cluster_time_check_invariants(const struct cluster_time *time)
{
    INVARIANT("CLUSTERTIME-7", time->count > SELF && time->count <= CLUSTER_TIME_MEMBERS_MAX);
    INVARIANT("CLUSTERTIME-1", time->members[SELF].samples == SAMPLES);
    for (uint32_t i = 0; i < time->count; i++)
        check_member(time, i);
}

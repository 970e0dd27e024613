/* clock.c - one clock for all threads of the process. See clock.h.
 *
 * The shared state is a course: the line that counts now and the one that takes over in a moment.
 * The adjusting thread writes the next course into the copy that nobody reads and then publishes
 * it by raising `version`. A reader takes the published copy, reads the monotonic clock, and
 * starts again if a publication came in between (at most one a second).
 *
 *   version 6 --> courses[0]        version 7 --> courses[1]        version 8 --> courses[0] ...
 *
 * CLOCK-3  A reader's monotonic reading lies before the publication that followed the course it
 *          used; the new line starts later than that (CLOCK_LEAD_NS after the reading it was
 *          computed from, and the publisher makes sure that half of the lead is left). Hence
 *          CLOCK-1.
 * CLOCK-4  The new line starts where the old one is at that moment: no jump.
 *
 * Must not: lock, wait, or know what the time is used for.
 */
#include "node/runtime/system/clock.h"

#include <assert.h>
#include <time.h>

#include "base/assert.h"
#include "base/sat.h"

enum {
    PPB_PER_PPM = 1000,
    READ_TRIES = 5,   /* readings of the pair of clocks, of which the tightest counts */
    PUBLISH_TRIES = 8 /* times that a publisher halted for half the lead starts again */
};
#define NS_PER_S       ((int64_t)1000000000)
#define READ_GAP_OK_NS ((int64_t)2000) /* two readings this close are a pair */

static_assert(CLOCK_LEAD_NS < CLOCK_ADJUST_EVERY_NS, "a course is in force before the next");

/* ---- the pure part --------------------------------------------------------------------------- */

static int64_t line_at(const struct clock_line *line, int64_t mono_ns)
{
    const int64_t elapsed_ns = sat_sub(mono_ns, line->mono_ns);
    const __int128 gained_ns = (__int128)elapsed_ns * line->rate_ppb / NS_PER_S;

    return sat_add(sat_add(line->unix_ns, elapsed_ns), (int64_t)gained_ns);
}

struct clock_course clock_course_start(int64_t mono_ns, int64_t wall_ns)
{
    const struct clock_line line = {.mono_ns = mono_ns, .unix_ns = wall_ns};

    return (struct clock_course){.current = line, .next = line};
}

int64_t clock_course_at(const struct clock_course *course, int64_t mono_ns)
{
    return line_at(mono_ns < course->next.mono_ns ? &course->current : &course->next, mono_ns);
}

/* The rate that closes `difference_ns` in about the horizon, or as fast as is allowed. */
static int64_t rate_for(int64_t difference_ns)
{
    const int64_t max_ppb = (int64_t)CLOCK_SLEW_MAX_PPM * PPB_PER_PPM;
    const bool behind = difference_ns > 0;

    if (difference_ns <= CLOCK_DEADBAND_NS && difference_ns >= -CLOCK_DEADBAND_NS)
        return 0;
    const __int128 rate_ppb = (__int128)difference_ns * NS_PER_S / CLOCK_HORIZON_NS;
    if (rate_ppb > max_ppb || rate_ppb < -max_ppb)
        return behind ? max_ppb : -max_ppb;
    return (int64_t)rate_ppb;
}

struct clock_course clock_course_adjust(const struct clock_course *course, int64_t mono_ns,
                                        int64_t difference_ns)
{
    const int64_t start_ns = sat_add(mono_ns, CLOCK_LEAD_NS);

    ASSERT(course->current.mono_ns <= course->next.mono_ns);
    if (mono_ns < course->next.mono_ns)
        return *course; /* its next line has not begun: one change at a time */
    return (struct clock_course){
        .current = course->next,
        .next = {.mono_ns = start_ns,
                 .unix_ns = line_at(&course->next, start_ns), /* CLOCK-4 */
                 .rate_ppb = rate_for(difference_ns)},
    };
}

/* ---- the clock of the process ---------------------------------------------------------------- */

static int read_ns(clockid_t id, int64_t *ns)
{
    struct timespec now;

    if (clock_gettime(id, &now) != 0)
        return TG_EIO;
    *ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
    return TG_OK;
}

/* Reads both clocks as one moment: the wall clock between two readings of the other one, again
 * while the thread was held up in between. */
static int read_pair(clockid_t mono_id, int64_t *mono_ns, int64_t *wall_ns)
{
    int64_t best_gap_ns = INT64_MAX;

    for (int i = 0; i < READ_TRIES && best_gap_ns > READ_GAP_OK_NS; i++) {
        int64_t before_ns;
        int64_t wall;
        int64_t after_ns;
        if (read_ns(mono_id, &before_ns) != TG_OK || read_ns(CLOCK_REALTIME, &wall) != TG_OK ||
            read_ns(mono_id, &after_ns) != TG_OK)
            return TG_EIO;
        if (after_ns - before_ns >= best_gap_ns)
            continue;
        best_gap_ns = after_ns - before_ns;
        *mono_ns = before_ns + best_gap_ns / 2;
        *wall_ns = wall;
    }
    return TG_OK;
}

/* Release and acquire, word by word: a reader that meets a word of a later course then also sees
 * that the version has moved on. */
static void store_line(_Atomic int64_t *words, const struct clock_line *line)
{
    atomic_store_explicit(&words[0], line->mono_ns, memory_order_release);
    atomic_store_explicit(&words[1], line->unix_ns, memory_order_release);
    atomic_store_explicit(&words[2], line->rate_ppb, memory_order_release);
}

static struct clock_line load_line(const _Atomic int64_t *words)
{
    return (struct clock_line){
        .mono_ns = atomic_load_explicit(&words[0], memory_order_acquire),
        .unix_ns = atomic_load_explicit(&words[1], memory_order_acquire),
        .rate_ppb = atomic_load_explicit(&words[2], memory_order_acquire),
    };
}

static void store_course(struct clock *clock, uint64_t version, const struct clock_course *course)
{
    store_line(&clock->courses[version & 1][0], &course->current);
    store_line(&clock->courses[version & 1][3], &course->next);
}

static struct clock_course load_course(const struct clock *clock, uint64_t version)
{
    return (struct clock_course){
        .current = load_line(&clock->courses[version & 1][0]),
        .next = load_line(&clock->courses[version & 1][3]),
    };
}

int clock_init(struct clock *clock)
{
    int64_t mono_ns;
    int64_t wall_ns;

    *clock = (struct clock){.mono_id = CLOCK_BOOTTIME};
    if (read_ns(CLOCK_BOOTTIME, &mono_ns) != TG_OK)
        clock->mono_id = CLOCK_MONOTONIC; /* a kernel or sandbox without it */
    if (read_pair(clock->mono_id, &mono_ns, &wall_ns) != TG_OK)
        return TG_EIO;
    const struct clock_course course = clock_course_start(mono_ns, wall_ns);
    store_course(clock, 0, &course);
    return TG_OK;
}

void clock_set(struct clock *clock, int64_t offset_ns)
{
    const int64_t mono_ns = clock_mono_ns(clock);
    const struct clock_course course =
        clock_course_start(mono_ns, sat_add(clock_now_ns(clock), offset_ns));

    store_course(clock, 0, &course);
    store_course(clock, 1, &course);
}

int64_t clock_mono_ns(const struct clock *clock)
{
    int64_t ns = 0;
    const int result = read_ns(clock->mono_id, &ns);

    ASSERT(result == TG_OK); /* it worked in clock_init */
    return ns;
}

int64_t clock_now_ns(const struct clock *clock)
{
    for (;;) {
        const uint64_t version = atomic_load_explicit(&clock->version, memory_order_acquire);
        const struct clock_course course = load_course(clock, version);
        const int64_t mono_ns = clock_mono_ns(clock);
        if (atomic_load_explicit(&clock->version, memory_order_relaxed) == version)
            return clock_course_at(&course, mono_ns); /* CLOCK-3 */
    }
}

void clock_adjust(struct clock *clock, int64_t difference_ns)
{
    const uint64_t version = atomic_load_explicit(&clock->version, memory_order_relaxed);
    const struct clock_course course = load_course(clock, version);

    for (int i = 0; i < PUBLISH_TRIES; i++) {
        const int64_t mono_ns = clock_mono_ns(clock);
        const struct clock_course adjusted = clock_course_adjust(&course, mono_ns, difference_ns);
        store_course(clock, version + 1, &adjusted);
        if (clock_mono_ns(clock) < mono_ns + CLOCK_LEAD_NS / 2) {
            atomic_store_explicit(&clock->version, version + 1, memory_order_release); /* CLOCK-3 */
            return;
        }
    }
}

void clock_look(struct clock *clock)
{
    const uint64_t version = atomic_load_explicit(&clock->version, memory_order_relaxed);
    const struct clock_course course = load_course(clock, version);
    int64_t mono_ns;
    int64_t wall_ns;

    if (read_pair(clock->mono_id, &mono_ns, &wall_ns) == TG_OK)
        atomic_store_explicit(&clock->wall_ns, sat_sub(wall_ns, clock_course_at(&course, mono_ns)),
                              memory_order_relaxed);
}

int64_t clock_wall_ns(const struct clock *clock)
{
    return atomic_load_explicit(&clock->wall_ns, memory_order_relaxed);
}

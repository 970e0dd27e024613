/* clock.h - the node's cluster time: Unix time that never goes back and hardly ever runs unevenly.
 *
 * It is what a monotonic clock counted plus an offset. The offset is set once, before anything is
 * decided, by what other members say (clock_first.h); the wall clock is that until then, and for
 * who is alone. From then on clock_adjust is told once a second by how much the members' wall
 * clocks are ahead of it (node/cluster/clock/cluster_time.h), and sets a slew rate of at most
 * CLOCK_SLEW_MAX_PPM, so that they are followed without a jump:
 *
 *      time                        . wall clocks, stepped forward
 *       |                  .  .  '
 *       |              .       ,-'  node's clock: gains 500 ppm until it has caught up
 *       |          .      ,-'
 *       |  ._._,-._._,-'
 *       +------------------|-----------------> monotonic clock
 *                         step
 *
 * The monotonic clock is the one that counts suspended time too (CLOCK_BOOTTIME), so a suspended
 * machine makes no difference.
 *
 * CLOCK-1  On every thread and between threads, a later reading of the monotonic clock gives no
 *          smaller time: a new rate applies from a moment in the future (CLOCK_LEAD_NS) that both
 *          the old and the new line pass through, and is published before it. (Only if the
 *          adjusting thread were halted for longer than half the lead between two adjacent
 *          instructions, two threads could differ, by 0.001 of that pause.)
 * CLOCK-2  Time runs at 1 +- CLOCK_SLEW_MAX_PPM of the monotonic clock.
 *
 * clock_now_ns and clock_wall_ns are for any thread, without lock or waiting; the rest for one.
 */
#ifndef NODE_RUNTIME_SYSTEM_CLOCK_H
#define NODE_RUNTIME_SYSTEM_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { CLOCK_SLEW_MAX_PPM = 500 };
#define CLOCK_DEADBAND_NS     ((int64_t)10000)          /* smaller ones are noise of reading */
#define CLOCK_HORIZON_NS      ((int64_t)4 * 1000000000) /* small ones are closed in about this */
#define CLOCK_LEAD_NS         ((int64_t)10000000)
#define CLOCK_ADJUST_EVERY_NS ((int64_t)1000000000)
#define CLOCK_WALL_EVERY_NS   ((int64_t)100000000) /* the wall clock is looked at so often */

/* ---- the pure part --------------------------------------------------------------------------- */

/* A straight line from (mono_ns, unix_ns) on, `rate_ppb` faster than the monotonic clock. */
struct clock_line {
    int64_t mono_ns;
    int64_t unix_ns;
    int64_t rate_ppb;
};

/* Two lines that meet at next.mono_ns, where the second takes over. */
struct clock_course {
    struct clock_line current;
    struct clock_line next;
};

/* A course that starts at the pair of readings and runs evenly. */
struct clock_course clock_course_start(int64_t mono_ns, int64_t wall_ns);
/* The time at `mono_ns` (CLOCK-2). */
int64_t clock_course_at(const struct clock_course *course, int64_t mono_ns);
/* The course that slews to gain `difference_ns`, from mono_ns + CLOCK_LEAD_NS on; the same as
 * `course` before that. */
struct clock_course clock_course_adjust(const struct clock_course *course, int64_t mono_ns,
                                        int64_t difference_ns);

/* ---- the clock of the process ---------------------------------------------------------------- */

struct clock {
    /* Two courses; `version` counts publications and its lowest bit says which one counts. */
    _Atomic int64_t courses[2][6];
    _Atomic uint64_t version;
    _Atomic int64_t wall_ns; /* the wall clock minus this one, when they were last compared */
    int mono_id;             /* clockid_t of the monotonic clock in use */
};

/* Reads the wall clock. 0, or TG_EIO when the machine has no usable clocks. */
MUST_USE int clock_init(struct clock *clock);
/* Moves the clock by `offset_ns`: before any other thread reads it, and before anything depends on
 * its not going back. */
void clock_set(struct clock *clock, int64_t offset_ns);
/* Unix time in ns, as the cluster counts it. Any thread. */
int64_t clock_now_ns(const struct clock *clock);
/* Raw reading of the monotonic clock in ns, for measuring durations. Any thread. */
int64_t clock_mono_ns(const struct clock *clock);
/* Sets the rate so that the clock gains `difference_ns`; call it every CLOCK_ADJUST_EVERY_NS. */
void clock_adjust(struct clock *clock, int64_t difference_ns);
/* Compares with the wall clock; call it every CLOCK_WALL_EVERY_NS. */
void clock_look(struct clock *clock);
/* The wall clock minus this clock when last compared, ns. Any thread. */
int64_t clock_wall_ns(const struct clock *clock);

#endif

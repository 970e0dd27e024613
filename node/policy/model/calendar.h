/* calendar.h - the windows of a calendar: minutes to years of a time zone, as spans of UTC.
 *
 * A zone is a table of spans, each with one offset from UTC; whoever makes it asks a library that
 * knows the zones (node/zones/zones.c), once, when rules are compiled. From then on it is plain
 * arithmetic:
 *
 *   now, UTC --offset--> local time --unit--> its beginning, local --table--> the window, UTC
 *
 *        spans  | +1 h          | +2 h               | +1 h         |
 *        days   |24 h|24 h|23 h |24 h|24 h| ... |24 h|25 h |24 h|
 *
 * CALENDAR-1  Windows of one unit follow one another without a gap or an overlap.
 * CALENDAR-2  A day, week, month or year begins at the first moment at which the local clock shows
 *             its beginning or more. So it is one window, however often the clock is put back in
 *             it.
 * CALENDAR-3  Hours and minutes are those of the clock too, but end where the clock is moved in
 *             them.
 *
 * Pure: no clock, no file.
 */
#ifndef NODE_POLICY_MODEL_CALENDAR_H
#define NODE_POLICY_MODEL_CALENDAR_H

#include <stdint.h>

#include "base/limit.h"

/* From `from_s` on (Unix time) local time is UTC + offset_s, until the next span begins. */
struct calendar_span {
    int64_t from_s;
    int32_t offset_s;
};

/* Spans in the order of time, at least one; the first one holds before its beginning as well. */
struct calendar_zone {
    const struct calendar_span *spans;
    uint32_t span_count;
};

/* Writes the window of `limit` (whose `align` is a calendar unit) that `now_ns` is in: start_ns,
 * window_ns and before_s, the length of the window before it. Windows begin in 1970 at the
 * earliest. */
void calendar_place(const struct calendar_zone *zone, int64_t now_ns, struct limit *limit);

#endif

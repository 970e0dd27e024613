/* timeline.h - requests and denials by the minute, in bounded memory.
 *
 * All timelines of a replay share one axis, which begins with the first request's minute. A column
 * is a minute wide; when a log is longer than the axis, pairs of columns are joined and each is
 * twice as wide, as often as it takes:
 *
 *   | 3 | 5 | 0 | 2 | ... full        -->   | 8 | 2 | ... | free ...
 *
 * Pure.
 */
#ifndef CLIENT_REPLAY_TIMELINE_H
#define CLIENT_REPLAY_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

enum { TIMELINE_COLUMNS = 2048 }; /* 34 hours by the minute */
#define TIMELINE_MINUTE_NS INT64_C(60000000000)

struct timeline_axis {
    int64_t origin_ns; /* of a minute; meaningful once width_ns is not 0 */
    int64_t width_ns;
    uint32_t used; /* columns up to the last request */
};

struct timeline {
    uint32_t requests[TIMELINE_COLUMNS];
    uint32_t denied[TIMELINE_COLUMNS];
};

/* How often the axis has to be folded before `now_ns` has a column; starts the axis with the first
 * time. After that many timeline_fold of every timeline and one call of timeline_axis_fold. */
unsigned timeline_folds(struct timeline_axis *axis, int64_t now_ns);
void timeline_axis_fold(struct timeline_axis *axis, unsigned folds);
void timeline_fold(struct timeline *timeline, unsigned folds);

/* The column of a time that has one; times before the axis count as its first. */
uint32_t timeline_column(struct timeline_axis *axis, int64_t now_ns);

#endif

/* timeline.c - requests and denials by the minute; see timeline.h. */
#include "client/replay/timeline.h"

#include <string.h>

#include "base/assert.h"

unsigned timeline_folds(struct timeline_axis *axis, int64_t now_ns)
{
    if (axis->width_ns == 0)
        *axis = (struct timeline_axis){now_ns - now_ns % TIMELINE_MINUTE_NS, TIMELINE_MINUTE_NS, 0};
    unsigned folds = 0;
    for (int64_t columns = (now_ns - axis->origin_ns) / axis->width_ns; columns >= TIMELINE_COLUMNS;
         columns /= 2)
        folds++;
    ASSERT((now_ns - axis->origin_ns) / axis->width_ns >> folds < TIMELINE_COLUMNS);
    return folds;
}

void timeline_axis_fold(struct timeline_axis *axis, unsigned folds)
{
    ASSERT(axis->width_ns > 0 && axis->used <= TIMELINE_COLUMNS);
    axis->width_ns <<= folds;
    axis->used = folds > 31 ? axis->used > 0 : (axis->used + (1u << folds) - 1) >> folds;
}

static void fold_once(uint32_t *columns)
{
    for (uint32_t i = 0; i < TIMELINE_COLUMNS / 2; i++) {
        const uint64_t sum = (uint64_t)columns[2 * i] + columns[2 * i + 1];
        columns[i] = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
    }
    memset(columns + TIMELINE_COLUMNS / 2, 0, TIMELINE_COLUMNS / 2 * sizeof *columns);
}

void timeline_fold(struct timeline *timeline, unsigned folds)
{
    for (unsigned i = 0; i < folds; i++) {
        fold_once(timeline->requests);
        fold_once(timeline->denied);
    }
}

uint32_t timeline_column(struct timeline_axis *axis, int64_t now_ns)
{
    ASSERT(axis->width_ns > 0);
    const int64_t since = now_ns > axis->origin_ns ? now_ns - axis->origin_ns : 0;
    const uint32_t column = (uint32_t)(since / axis->width_ns);
    ASSERT(column < TIMELINE_COLUMNS);
    if (column >= axis->used)
        axis->used = column + 1;
    return column;
}

/* replay_plot.c - requests and denials over the time of a log, drawn with characters.
 *
 *   requests  1,204 |     _#-        two panes with a scale each, since denials are few
 *                   |.:-=####-.
 *   denied       31 |     #_
 *                    09:00                10:12 UTC, one column is 2m
 *
 * Columns of the axis are added up until they fit the width. A column that is not empty shows at
 * least the lowest step.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/cli/replay/replay_report.h"
#include "client/replay/log_time.h"

enum { REQUEST_ROWS = 4, DENIED_ROWS = 2, STEPS = 8, NUMBER_WIDTH = 11 };

struct plot {
    uint32_t count;
    uint32_t joined; /* columns of the axis in one of the plot */
    uint64_t requests[REPLAY_PLOT_COLUMNS];
    uint64_t denied[REPLAY_PLOT_COLUMNS];
};

static void fill(struct plot *plot, uint32_t columns, const struct timeline_axis *axis,
                 const struct timeline *timeline)
{
    memset(plot, 0, sizeof *plot);
    plot->joined = (axis->used + columns - 1) / columns;
    if (plot->joined == 0)
        plot->joined = 1;
    plot->count = (axis->used + plot->joined - 1) / plot->joined;
    ASSERT(plot->count <= columns && columns <= REPLAY_PLOT_COLUMNS);
    for (uint32_t i = 0; i < axis->used; i++) {
        plot->requests[i / plot->joined] += timeline->requests[i];
        plot->denied[i / plot->joined] += timeline->denied[i];
    }
}

static uint64_t most(const uint64_t *values, uint32_t count)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < count; i++)
        max = values[i] > max ? values[i] : max;
    return max;
}

/* One character: `step` of STEPS filled. */
static void add_step(struct cli_text *text, uint64_t step, bool unicode)
{
    static const char plain[] = " .:-=+*%#";
    if (step == 0 || !unicode) {
        cli_text_fill(text, step > STEPS ? '#' : plain[step], 1);
        return;
    }
    const char block[] = {'\xe2', '\x96', (char)(0x80 + (step > STEPS ? STEPS : step)), '\0'};
    cli_text_str(text, block);
}

static void add_label(struct cli_text *text, const char *name, uint64_t number, bool shown)
{
    struct cli_text digits;
    cli_text_init(&digits);
    if (shown)
        cli_replay_number(&digits, number);
    cli_text_str(text, "  ");
    cli_text_str(text, name);
    const size_t used = strlen(name) + digits.len;
    cli_text_fill(text, ' ', used < 8 + NUMBER_WIDTH ? 8 + NUMBER_WIDTH - used : 1);
    if (digits.len > 0)
        cli_text_add(text, digits.data, digits.len);
    cli_text_fini(&digits);
}

/* How many steps a value fills, of all the pane's rows. */
static uint64_t steps_of(uint64_t value, uint64_t max, uint64_t rows)
{
    if (value == 0)
        return 0;
    ASSERT(value <= max);
    const uint64_t steps = (uint64_t)((unsigned __int128)value * rows * STEPS / max);
    return steps == 0 ? 1 : steps;
}

static void add_pane(struct cli_text *text, const char *name, const uint64_t *values,
                     uint32_t count, uint64_t rows, bool unicode, const char *colour)
{
    const uint64_t max = most(values, count);
    for (uint64_t row = rows; row-- > 0;) {
        const uint64_t base = row * STEPS;
        uint32_t end = count; /* no blanks at a line's end */
        while (end > 0 && steps_of(values[end - 1], max, rows) <= base)
            end--;
        add_label(text, row == rows - 1 ? name : "", max, row == rows - 1);
        cli_text_str(text, unicode ? " \xe2\x94\x82" : " |");
        cli_text_str(text, colour);
        for (uint32_t i = 0; i < end; i++) {
            const uint64_t steps = steps_of(values[i], max, rows);
            add_step(text,
                     steps <= base          ? 0
                     : steps - base > STEPS ? STEPS
                                            : steps - base,
                     unicode);
        }
        cli_text_str(text, colour[0] != '\0' ? "\033[0m\n" : "\n");
    }
}

/* Where the axis begins and ends, and how wide a column is. */
static void add_axis(struct cli_text *text, const struct plot *plot,
                     const struct timeline_axis *axis)
{
    char from[LOG_TIME_LEN];
    char to[LOG_TIME_LEN];
    char width[CLI_SPAN_LEN];
    ASSERT(plot->joined > 0 && (uint64_t)plot->count * plot->joined >= axis->used);
    const int64_t column_ns = axis->width_ns * plot->joined;
    log_time_format(axis->origin_ns, from);
    log_time_format(axis->origin_ns + axis->width_ns * axis->used, to);
    cli_span(column_ns / 1000000, width);
    const bool one_day = memcmp(from, to, 10) == 0;
    from[10] = ' ';
    to[10] = ' ';
    add_label(text, "", 0, false);
    /* "2026-11-21 12:44": the end as a clock time where the day is the same. */
    cli_text_format(text, "  %.16s to %.*s UTC, one column is %s\n", from, one_day ? 5 : 16,
                    one_day ? to + 11 : to, width);
}

void cli_replay_plot(struct cli_text *text, const struct timeline_axis *axis,
                     const struct timeline *timeline, const struct replay_canvas *canvas)
{
    struct plot plot;
    if (timeline == NULL || axis->used == 0)
        return;
    fill(&plot, canvas->columns, axis, timeline);
    add_pane(text, "requests", plot.requests, plot.count, REQUEST_ROWS, canvas->unicode, "");
    if (most(plot.denied, plot.count) > 0)
        add_pane(text, "denied", plot.denied, plot.count, DENIED_ROWS, canvas->unicode,
                 canvas->colour ? "\033[31m" : "");
    add_axis(text, &plot, axis);
}

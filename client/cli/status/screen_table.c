/* screen_table.c - the table of nodes: a row each, or those that are ill and the sum of the others.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "client/cli/status/screen_text.h"

enum { GAP = 2, NAME_MIN = 8 };

static const bool right[SCREEN_COLUMNS] = {
    [SCREEN_CHECKS] = true, [SCREEN_DENIED] = true, [SCREEN_ACK] = true};

struct table {
    const struct screen *screen;
    const struct screen_options *options;
    bool regions;           /* there are several */
    bool summed;            /* those that are well stand in one row */
    struct screen_node sum; /* that row */
    uint32_t well;          /* how many stand in it */
    size_t widths[SCREEN_COLUMNS];
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* The next row behind *at, or NULL: of nodes that are shown one by one, then the sum. */
static const struct screen_node *next_row(const struct table *table, uint32_t *at, uint32_t *shown)
{
    const struct screen *screen = table->screen;
    for (; *at < screen->node_count; (*at)++) {
        const struct screen_node *node = &screen->nodes[*at];
        if (table->summed && (!screen_is_ill(node) || *shown == SCREEN_ILL_MAX))
            continue;
        (*at)++;
        (*shown)++;
        return node;
    }
    ASSERT(*at <= screen->node_count + 1 && *shown <= *at);
    if (*at == screen->node_count && table->summed) {
        (*at)++;
        return &table->sum;
    }
    return NULL;
}

static void add_up(struct screen_node *sum, const struct screen_node *node)
{
    const int64_t size = node->skew_us < 0 ? -node->skew_us : node->skew_us;
    const int64_t most = sum->skew_us < 0 ? -sum->skew_us : sum->skew_us;
    sum->told = sum->told || node->told;
    sum->skewed = sum->skewed || node->skewed;
    sum->checks_rate += node->checks_rate;
    sum->denied_rate += node->denied_rate;
    if (node->ack_p99_us > sum->ack_p99_us)
        sum->ack_p99_us = node->ack_p99_us;
    if (node->told && (sum->uptime_ms == 0 || node->uptime_ms < sum->uptime_ms))
        sum->uptime_ms = node->uptime_ms;
    sum->slots += node->slots;
    sum->slots_max += node->slots_max;
    sum->memory_max += node->memory_max;
    if (node->flush_lag_ms > sum->flush_lag_ms)
        sum->flush_lag_ms = node->flush_lag_ms;
    if (size > most)
        sum->skew_us = node->skew_us;
}

/* Those that have no row of their own, in one: rates and memory added up, of all else the worst. */
static void sum_others(struct table *table)
{
    const struct screen *screen = table->screen;
    struct screen_node *sum = &table->sum;
    uint32_t ill = 0;
    for (uint32_t i = 0; i < screen->node_count; i++) {
        if (screen_is_ill(&screen->nodes[i]) && ill++ < SCREEN_ILL_MAX)
            continue;
        table->well++;
        add_up(sum, &screen->nodes[i]);
    }
    ASSERT(table->well <= screen->node_count);
    const uint64_t others = table->well + screen->nodes_more;
    (void)snprintf(sum->name, sizeof sum->name, "%llu%s", (unsigned long long)others,
                   ill > 0 ? " others" : " nodes");
    (void)snprintf(sum->state, sizeof sum->state, "%s", ill > SCREEN_ILL_MAX ? "mixed" : "alive");
    (void)snprintf(sum->region, sizeof sum->region, "-");
    (void)snprintf(sum->version, sizeof sum->version, "%s", screen->version);
}

static size_t shown_width(const char *text)
{
    struct cli_text shown;
    cli_text_init(&shown);
    cli_text_shown(&shown, text, strlen(text));
    const size_t width = cli_utf8_count(shown.data, shown.len);
    cli_text_fini(&shown);
    return width;
}

static void measure(struct table *table)
{
    const struct screen_node *node = NULL; /* the header first */
    uint32_t at = 0;
    uint32_t shown = 0;
    size_t total = 0;
    do {
        for (int i = 0; i < SCREEN_COLUMNS; i++) {
            char text[SCREEN_CELL_LEN];
            screen_cell(table->screen, node, (enum screen_column)i, text);
            const size_t width = shown_width(text);
            if (width > table->widths[i])
                table->widths[i] = width;
        }
    } while ((node = next_row(table, &at, &shown)) != NULL);
    for (int i = table->regions ? SCREEN_REGION : SCREEN_NAME; i < SCREEN_NOTE; i++)
        total += table->widths[i] + GAP;
    /* Long names give way to what stands behind them. */
    const size_t most = table->options->width > sizeof "NOTE" - 1 + GAP
                            ? table->options->width - (sizeof "NOTE" - 1)
                            : table->options->width;
    if (total > most) {
        const size_t over = total - most;
        const size_t name = table->widths[SCREEN_NAME];
        table->widths[SCREEN_NAME] = name > over + NAME_MIN ? name - over : (size_t)NAME_MIN;
    }
}

/* Adds the text, cut or filled to the width of its column. */
static void add_cell(struct cli_text *line, const char *text, size_t width, bool to_right)
{
    const size_t len = strlen(text);
    const size_t columns = shown_width(text);
    size_t at = 0;
    if (columns <= width) {
        if (to_right)
            cli_text_fill(line, ' ', width - columns);
        cli_text_add(line, text, len);
        if (!to_right)
            cli_text_fill(line, ' ', width - columns);
        return;
    }
    for (size_t count = 0; at < len && count + 2 < width; count++) {
        const size_t step = utf8_len(text + at, len - at);
        at += step > 0 ? step : 1;
    }
    cli_text_add(line, text, at);
    cli_text_str(line, "..");
}

static void write_row(struct cli_text *out, const struct table *table,
                      const struct screen_node *node)
{
    struct cli_text line;
    cli_text_init(&line);
    for (int i = table->regions ? SCREEN_REGION : SCREEN_NAME; i < SCREEN_COLUMNS; i++) {
        char text[SCREEN_CELL_LEN];
        screen_cell(table->screen, node, (enum screen_column)i, text);
        add_cell(&line, text, table->widths[i], right[i]);
        cli_text_fill(&line, ' ', i + 1 < SCREEN_COLUMNS ? GAP : 0);
    }
    const bool alarms = node != NULL && table->options->colour && screen_is_ill(node);
    cli_text_str(out, alarms ? "\033[31m" : "");
    screen_line(out, line.data != NULL ? line.data : "", table->options->width);
    if (alarms && !out->failed) { /* the colour ends before the line does */
        ASSERT(out->len > 0 && out->data[out->len - 1] == '\n');
        out->len--;
        cli_text_str(out, "\033[0m\n");
    }
    out->failed = out->failed || line.failed;
    cli_text_fini(&line);
}

void screen_write_table(struct cli_text *out, const struct screen *screen,
                        const struct screen_options *options)
{
    struct table table = {.screen = screen, .options = options};
    const struct screen_node *node;
    uint32_t at = 0;
    uint32_t shown = 0;
    table.summed = !options->all_nodes && screen->node_count + screen->nodes_more > SCREEN_ROWS;
    for (uint32_t i = 1; i < screen->node_count; i++)
        table.regions =
            table.regions || strcmp(screen->nodes[i].region, screen->nodes[0].region) != 0;
    if (table.summed)
        sum_others(&table);
    measure(&table);
    write_row(out, &table, NULL);
    while ((node = next_row(&table, &at, &shown)) != NULL)
        write_row(out, &table, node);
}

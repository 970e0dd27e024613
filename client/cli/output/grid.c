/* grid.c - text in aligned columns; see grid.h for its invariants GRID-1 and GRID-2. */
#include "client/cli/output/grid.h"

#include <string.h>

#include "base/assert.h"

static const char gap[] = "  ";

void cli_grid_init(struct cli_grid *grid, const char *const *headers, size_t columns, bool colour)
{
    ASSERT(columns >= 1 && columns <= CLI_COLUMNS_MAX);
    memset(grid, 0, sizeof *grid);
    grid->columns = columns;
    grid->colour = colour;
    for (size_t i = 0; i < columns; i++) {
        grid->headers[i] = headers != NULL ? headers[i] : NULL;
        grid->widths[i] = headers != NULL ? strlen(headers[i]) : 0;
    }
    cli_text_init(&grid->cells);
}

void cli_grid_fini(struct cli_grid *grid)
{
    cli_text_fini(&grid->cells);
}

/* A count, a share or a span of time, such as 4096, ~4,096, 2.5% and 12m30s. */
static bool is_number(const char *cell)
{
    if (cell[0] == '~')
        cell++;
    return cell[0] >= '0' && cell[0] <= '9' && cell[strspn(cell, "0123456789.,%dhms")] == '\0';
}

/* What stands where a number is missing says nothing about its column. */
static bool is_neutral(const char *cell)
{
    return strcmp(cell, "-") == 0 || strcmp(cell, "never") == 0;
}

static bool is_right(const struct cli_grid *grid, size_t column)
{
    return grid->numbers[column] && !grid->words[column];
}

void cli_grid_add(struct cli_grid *grid, const char *cell)
{
    const size_t column = grid->cell_count % grid->columns;
    const size_t len = strlen(cell);
    const size_t width = cli_utf8_count(cell, len);
    if (width > grid->widths[column])
        grid->widths[column] = width;
    if (is_number(cell))
        grid->numbers[column] = true;
    else if (!is_neutral(cell))
        grid->words[column] = true;
    ASSERT(width <= grid->widths[column] && width <= len); /* GRID-3 */
    cli_text_add(&grid->cells, cell, len + 1);
    grid->cell_count++;
}

static const char *colour_of(const char *cell)
{
    static const struct {
        const char *word;
        const char *colour;
    } words[] = {
        {"allow", "\033[32m"},         {"alive", "\033[32m"},
        {"deny", "\033[31m"},          {"blocked", "\033[31m"},
        {"dead", "\033[31m"},          {"error", "\033[31m"},
        {"suspect", "\033[33m"},       {"soft_exceeded", "\033[33m"},
        {"shadow_denied", "\033[33m"}, {"elastic_borrowed", "\033[33m"},
        {"busy", "\033[33m"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(cell, words[i].word) == 0)
            return words[i].colour;
    return NULL;
}

static void write_cell(const struct cli_grid *grid, size_t column, const char *cell,
                       struct cli_text *out)
{
    const size_t len = strlen(cell);
    const size_t width = cli_utf8_count(cell, len);
    ASSERT(width <= grid->widths[column]); /* GRID-3 */
    const size_t padding = grid->widths[column] - width;
    const char *colour = grid->colour ? colour_of(cell) : NULL;
    if (is_right(grid, column))
        cli_text_fill(out, ' ', padding);
    if (colour != NULL)
        cli_text_str(out, colour);
    cli_text_add(out, cell, len);
    if (colour != NULL)
        cli_text_str(out, "\033[0m");
    if (column + 1 == grid->columns) {
        cli_text_str(out, "\n");
        return;
    }
    if (!is_right(grid, column))
        cli_text_fill(out, ' ', padding);
    cli_text_str(out, gap);
}

void cli_grid_write(struct cli_grid *grid, struct cli_text *out)
{
    ASSERT(grid->cell_count % grid->columns == 0); /* GRID-1 */
    if (grid->cells.failed)
        out->failed = true;
    if (!grid->header_written && grid->headers[0] != NULL)
        for (size_t i = 0; i < grid->columns; i++)
            write_cell(grid, i, grid->headers[i], out);
    grid->header_written = true;
    const char *cell = grid->cells.data;
    for (size_t i = 0; i < grid->cell_count && !grid->cells.failed; i++) {
        write_cell(grid, i % grid->columns, cell, out);
        cell += strlen(cell) + 1;
    }
    grid->cell_count = 0;
    cli_text_clear(&grid->cells);
}

void cli_grid_check_invariants(const struct cli_grid *grid)
{
    size_t at = 0;
    cli_text_check_invariants(&grid->cells);
    INVARIANT("GRID-3", grid->columns >= 1 && grid->columns <= CLI_COLUMNS_MAX);
    for (size_t i = 0; i < grid->columns && grid->headers[0] != NULL; i++)
        INVARIANT("GRID-3", strlen(grid->headers[i]) <= grid->widths[i]);
    if (grid->cells.failed)
        return;
    for (size_t i = 0; i < grid->cell_count; i++) {
        INVARIANT("GRID-3", at < grid->cells.len);
        const size_t len = strlen(grid->cells.data + at);
        INVARIANT("GRID-3",
                  cli_utf8_count(grid->cells.data + at, len) <= grid->widths[i % grid->columns]);
        at += len + 1;
    }
    INVARIANT("GRID-3", at == grid->cells.len);
}

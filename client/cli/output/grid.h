/* grid.h - text in aligned columns.
 *
 *     NAME  STATE  VNODES        a column of numbers is aligned right,
 *     n1    alive    1366        every other one left; two spaces lie between columns
 *
 * Rows are collected and written by cli_grid_write, which may be called again after more rows:
 * columns keep their width then, so that a line can be shown before the next one is known.
 *
 * GRID-1  A row has exactly `columns` cells.
 * GRID-2  Widths never shrink between two writes, and the header is written once.
 * GRID-3  `cells` holds `cell_count` texts, each with a NUL behind it; no column is narrower than
 *         its header or one of its cells.
 */
#ifndef CLIENT_CLI_OUTPUT_GRID_H
#define CLIENT_CLI_OUTPUT_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/output/text.h"

enum { CLI_COLUMNS_MAX = 80 };

struct cli_grid {
    size_t columns;
    const char *headers[CLI_COLUMNS_MAX]; /* NULL in headers[0]: no header line */
    size_t widths[CLI_COLUMNS_MAX];
    bool numbers[CLI_COLUMNS_MAX]; /* the column holds some */
    bool words[CLI_COLUMNS_MAX];   /* and other things: then it is aligned left */
    struct cli_text cells;         /* row by row, each cell ended by a NUL */
    size_t cell_count;
    bool header_written;
    bool colour; /* states and outcomes in colour, for terminals */
};

/* `headers` are `columns` static strings (at most CLI_COLUMNS_MAX), or NULL for none. */
void cli_grid_init(struct cli_grid *grid, const char *const *headers, size_t columns, bool colour);
void cli_grid_fini(struct cli_grid *grid);

/* The next cell of the row, its bytes as they are: see cli_text_shown for what others wrote. */
void cli_grid_add(struct cli_grid *grid, const char *cell);

/* Adds the header (once) and the rows since the last write to `out`, each line ended. */
void cli_grid_write(struct cli_grid *grid, struct cli_text *out);
/* Asserts GRID-3, unless memory ran out. */
void cli_grid_check_invariants(const struct cli_grid *grid);

#endif

/* test_output_check.c - what the command line is about to show, with one wrong field, is seen by
 * its x_check_invariants, which name the invariant that is broken; and random grids stay whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/cli/output/grid.h"
#include "client/cli/status/screen_text.h"
#include "tests/unit/support_death.h"

static const char *const headers[] = {"NAME", "STATE", "VNODES"};

static struct cli_text text;
static struct cli_grid grid;
static struct screen screen;
static struct screen_node node;

/* A text of some bytes, a grid of two rows, a screen with one node and one condition. */
static void whole(void)
{
    cli_text_init(&text);
    cli_text_str(&text, "some");
    cli_grid_init(&grid, headers, 3, false);
    for (int row = 0; row < 2; row++) {
        cli_grid_add(&grid, "n1");
        cli_grid_add(&grid, "unreachable");
        cli_grid_add(&grid, "1366");
    }
    memset(&screen, 0, sizeof screen);
    memset(&node, 0, sizeof node);
    screen.nodes = &node;
    screen.node_count = screen.condition_count = screen.change_count = 1;
    cli_text_check_invariants(&text);
    cli_grid_check_invariants(&grid);
    screen_check_invariants(&screen);
}

static void check(void *context)
{
    (void)context;
    cli_text_check_invariants(&text);
    cli_grid_check_invariants(&grid);
    screen_check_invariants(&screen);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    const size_t capacity = 1024;
    char why[256];

    whole();
    corrupt();
    assert_true(death_by_assert(check, NULL, why, sizeof why));
    assert_non_null(strstr(why, id));
    text.capacity = capacity;
    cli_text_fini(&text);
    cli_grid_fini(&grid);
}

CORRUPTION(a_text_that_does_not_end_is_seen, "TEXT-1", text.data[text.len] = 'x')
CORRUPTION(a_text_longer_than_its_memory_is_seen, "TEXT-3", text.len = text.capacity)
CORRUPTION(a_text_of_no_memory_is_seen, "TEXT-3", text.capacity = 0)
CORRUPTION(a_cell_that_nobody_counts_is_seen, "GRID-3", grid.cell_count--)
CORRUPTION(a_cell_that_was_counted_and_is_not_there_is_seen, "GRID-3", grid.cell_count++)
CORRUPTION(a_column_narrower_than_its_cell_is_seen, "GRID-3", grid.widths[1] = 5)
CORRUPTION(a_column_narrower_than_its_header_is_seen, "GRID-3", grid.widths[0] = 3)
CORRUPTION(a_screen_of_more_conditions_than_it_holds_is_seen, "SCREEN-1",
           screen.condition_count = SCREEN_CONDITIONS_MAX + 1)
CORRUPTION(a_name_that_does_not_end_in_its_field_is_seen, "SCREEN-1",
           memset(node.name, 'x', sizeof node.name))
CORRUPTION(nodes_that_are_counted_and_not_there_are_seen, "SCREEN-1", screen.nodes = NULL)

/* Cells of every length, numbers among them, in any number of columns, written now and then. */
static void random_grids_stay_whole(void **state)
{
    static const char letters[] = "0123456789,%dhms abcdefghijklmnopqrstuvwxyz-0123456789";
    struct random random;
    struct cli_text out;

    (void)state;
    random_init(&random, 23);
    cli_text_init(&out);
    for (int round = 0; round < 200; round++) {
        const size_t columns = 1 + random_below(&random, CLI_COLUMNS_MAX);
        cli_grid_init(&grid, NULL, columns, round % 2 == 0);
        for (size_t i = 0; i < columns * 5; i++) {
            char cell[16] = "";
            memcpy(cell, letters + random_below(&random, sizeof letters - sizeof cell),
                   random_below(&random, sizeof cell));
            cli_grid_add(&grid, cell);
            cli_grid_check_invariants(&grid);
            if ((i + 1) % (2 * columns) == 0)
                cli_grid_write(&grid, &out);
        }
        cli_grid_write(&grid, &out);
        cli_grid_check_invariants(&grid);
        cli_text_check_invariants(&out);
        cli_text_clear(&out);
        cli_grid_fini(&grid);
    }
    cli_text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_does_not_end_is_seen),
        cmocka_unit_test(a_text_longer_than_its_memory_is_seen),
        cmocka_unit_test(a_text_of_no_memory_is_seen),
        cmocka_unit_test(a_cell_that_nobody_counts_is_seen),
        cmocka_unit_test(a_cell_that_was_counted_and_is_not_there_is_seen),
        cmocka_unit_test(a_column_narrower_than_its_cell_is_seen),
        cmocka_unit_test(a_column_narrower_than_its_header_is_seen),
        cmocka_unit_test(a_screen_of_more_conditions_than_it_holds_is_seen),
        cmocka_unit_test(a_name_that_does_not_end_in_its_field_is_seen),
        cmocka_unit_test(nodes_that_are_counted_and_not_there_are_seen),
        cmocka_unit_test(random_grids_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_standing.c - a node's own stalls and its majorities, each told once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/control/standing.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { LINE_LEN = 256, LINES_MAX = 8 };

static struct lines {
    uint32_t count;
    char text[LINES_MAX][LINE_LEN];
} lines;

static void keep(void *context, enum log_level level, const char *line)
{
    (void)context;
    (void)level;
    assert_true(lines.count < LINES_MAX);
    (void)snprintf(lines.text[lines.count++], LINE_LEN, "%s", line);
}

static const struct log output = {LOG_LEVEL_INFO, keep, NULL};

static void assert_line(uint32_t at, const char *part)
{
    assert_true(at < lines.count);
    if (strstr(lines.text[at], part) == NULL)
        fail_msg("'%s' does not say '%s'", lines.text[at], part);
}

/* A machine that starves a node does so again and again: the log is not to be full of it. */
static void stalls_are_told_once_in_ten_seconds(void **state)
{
    struct standing standing = {.looked_ns = 0};
    (void)state;
    lines.count = 0;
    standing_woke(&standing, 1 * SECOND, 499 * MS, &output);
    assert_int_equal(lines.count, 0);
    standing_woke(&standing, 2 * SECOND, 1234 * MS, &output);
    assert_int_equal(lines.count, 1);
    assert_line(0, "this node stood still for 1234 ms");
    standing_woke(&standing, 4 * SECOND, 700 * MS, &output);
    standing_woke(&standing, 6 * SECOND, 900 * MS, &output);
    assert_int_equal(lines.count, 1);
    standing_woke(&standing, 12 * SECOND, 600 * MS, &output);
    assert_int_equal(lines.count, 2);
    assert_line(1, "stood still 3 times, for 900 ms at most");
}

static void look(struct standing *standing, int64_t now_ns, uint32_t degraded, uint32_t undecided)
{
    const struct shard_stats stats[2] = {{.vnodes_unconfirmed = degraded},
                                         {.quorum.vnodes_undecided = undecided}};
    assert_true(standing_due(standing, now_ns));
    standing_look(standing, now_ns, stats, 2, &output);
    assert_false(standing_due(standing, now_ns));
}

/* Not those that are lost for a moment only. */
static void majorities_that_stay_lost_are_told_and_when_they_are_back(void **state)
{
    struct standing standing = {.looked_ns = 0};
    (void)state;
    lines.count = 0;
    look(&standing, 1 * SECOND, 0, 0);
    look(&standing, 2 * SECOND, 9, 0);
    look(&standing, 3 * SECOND, 0, 0);
    look(&standing, 4 * SECOND, 7, 3);
    assert_int_equal(lines.count, 0);
    look(&standing, 5 * SECOND, 8, 3);
    assert_int_equal(lines.count, 2);
    assert_line(0, "majority lost: 8 vnodes are decided here without a majority");
    assert_line(1, "majority lost: 3 vnodes of rules with consistency quorum");
    look(&standing, 6 * SECOND, 2, 3);
    look(&standing, 7 * SECOND, 0, 0);
    assert_int_equal(lines.count, 2);
    look(&standing, 8 * SECOND, 0, 0);
    assert_int_equal(lines.count, 4);
    assert_line(2, "majority won back: one stands behind every vnode");
    assert_line(3, "majority won back: all vnodes of rules with consistency quorum");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stalls_are_told_once_in_ten_seconds),
        cmocka_unit_test(majorities_that_stay_lost_are_told_and_when_they_are_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_member_log.c - what the log says of members: each change once, and no flood. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/control/member_log.h"

enum { LINE_LEN = 256, LINES_MAX = 64, SELF = 1, MANY = 40 };

struct lines {
    size_t count;
    enum log_level levels[LINES_MAX];
    char text[LINES_MAX][LINE_LEN];
};

static void keep(void *context, enum log_level level, const char *line)
{
    struct lines *lines = context;
    assert_in_range(lines->count, 0, LINES_MAX - 1);
    lines->levels[lines->count] = level;
    (void)snprintf(lines->text[lines->count++], LINE_LEN, "%s", line);
}

static struct view_member member_of(uint64_t id, enum view_state state)
{
    struct view_member member = {.id = id, .state = state, .region = "default"};
    (void)snprintf(member.name, sizeof member.name, "n%u", (unsigned)id);
    (void)snprintf(member.peer, sizeof member.peer, "127.0.0.1:7%u01", (unsigned)id);
    return member;
}

static struct lines told(enum log_level level, const struct view *before, const struct view *now)
{
    struct lines lines = {.count = 0};
    const struct log log = {level, keep, &lines};
    member_log_tell(&log, before, now);
    return lines;
}

static struct view view_of(struct view_member *members, uint32_t count, uint64_t epoch)
{
    return (struct view){.members = members, .member_count = count, .epoch = epoch, .stable = true};
}

/* Each thing that may become of a member has its line; what is as it was has none. */
static void every_change_of_a_member_is_told_once(void **state)
{
    static const struct {
        enum view_state before;
        enum view_state now;
        enum log_level level;
        const char *line;
    } changes[] = {
        {VIEW_DEAD, VIEW_ALIVE, LOG_LEVEL_INFO, " is alive"},
        {VIEW_LEFT, VIEW_SUSPECT, LOG_LEVEL_INFO, " is alive"},
        {VIEW_ALIVE, VIEW_DEAD, LOG_LEVEL_WARN, " is dead: it did not answer"},
        {VIEW_SUSPECT, VIEW_DEAD, LOG_LEVEL_WARN, " is dead: it did not answer"},
        {VIEW_ALIVE, VIEW_LEFT, LOG_LEVEL_INFO, " has left"},
        {VIEW_DEAD, VIEW_LEFT, LOG_LEVEL_INFO, " has left"},
        {VIEW_ALIVE, VIEW_SUSPECT, LOG_LEVEL_DEBUG, " is suspected: it does not answer"},
        {VIEW_SUSPECT, VIEW_ALIVE, LOG_LEVEL_DEBUG, NULL},
        {VIEW_ALIVE, VIEW_ALIVE, LOG_LEVEL_DEBUG, NULL},
        {VIEW_DEAD, VIEW_DEAD, LOG_LEVEL_DEBUG, NULL},
        {VIEW_LEFT, VIEW_LEFT, LOG_LEVEL_DEBUG, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct view_member old[] = {member_of(SELF, VIEW_ALIVE), member_of(2, changes[i].before)};
        struct view_member new[] = {member_of(SELF, VIEW_ALIVE), member_of(2, changes[i].now)};
        const struct view before = view_of(old, 2, 6);
        const struct view now = view_of(new, 2, 6);
        const struct lines lines = told(LOG_LEVEL_DEBUG, &before, &now);
        assert_int_equal(lines.count, changes[i].line != NULL);
        if (changes[i].line == NULL)
            continue;
        char expected[LINE_LEN];
        (void)snprintf(expected, sizeof expected,
                       "member n2 (0000000000000002, region default, peer 127.0.0.1:7201)%s",
                       changes[i].line);
        assert_string_equal(lines.text[0], expected);
        assert_int_equal(lines.levels[0], changes[i].level);
    }
}

/* Who begins tells of those it has heard of, not of itself nor of those it has yet to hear of. */
static void a_node_that_begins_tells_who_is_there(void **state)
{
    struct view_member members[] = {member_of(SELF, VIEW_ALIVE), member_of(2, VIEW_ALIVE),
                                    member_of(3, VIEW_DEAD), member_of(4, VIEW_LEFT)};
    const struct view now = view_of(members, 4, 6);
    (void)state;
    const struct lines lines = told(LOG_LEVEL_INFO, NULL, &now);
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.text[0], "member n2 ("));
}

static void a_forgotten_member_is_told(void **state)
{
    struct view_member members[] = {member_of(SELF, VIEW_ALIVE), member_of(2, VIEW_DEAD)};
    const struct view before = view_of(members, 2, 6);
    const struct view now = view_of(members, 1, 7);
    (void)state;
    const struct lines lines = told(LOG_LEVEL_INFO, &before, &now);
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.text[0], " is forgotten"));
}

/* What a node that stops in order has said is told when it says so, once, and alarms nobody. */
static void a_node_that_stops_in_order_is_no_dead_one(void **state)
{
    static const struct {
        enum view_state before;
        bool stopped;
        enum view_state now;
        bool stops;
        const char *line; /* at info or above; NULL: none */
    } steps[] = {
        {VIEW_ALIVE, false, VIEW_ALIVE, true, " stopped, restart expected"},
        {VIEW_ALIVE, true, VIEW_SUSPECT, true, NULL},
        {VIEW_SUSPECT, true, VIEW_DEAD, true, NULL},
        {VIEW_ALIVE, false, VIEW_DEAD, true, " stopped, restart expected"},
        {VIEW_DEAD, true, VIEW_ALIVE, false, " is alive"},
        {VIEW_ALIVE, true, VIEW_ALIVE, false, " is alive"},
        {VIEW_ALIVE, true, VIEW_DEAD, false, " is dead: it did not answer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct view_member old[] = {member_of(SELF, VIEW_ALIVE), member_of(2, steps[i].before)};
        struct view_member new[] = {member_of(SELF, VIEW_ALIVE), member_of(2, steps[i].now)};
        old[1].stops = steps[i].stopped;
        new[1].stops = steps[i].stops;
        const struct view before = view_of(old, 2, 6);
        const struct view now = view_of(new, 2, 6);
        const struct lines lines = told(LOG_LEVEL_INFO, &before, &now);
        assert_int_equal(lines.count, steps[i].line != NULL);
        if (steps[i].line != NULL && strstr(lines.text[0], steps[i].line) == NULL)
            fail_msg("step %zu: '%s' does not say '%s'", i, lines.text[0], steps[i].line);
    }
}

/* However many change at once, the log gets a bounded number of lines, and the rest as a number. */
static void many_changes_at_once_are_counted(void **state)
{
    struct view_member old[MANY + 1];
    struct view_member new[MANY + 1];
    (void)state;
    for (uint64_t i = 0; i <= MANY; i++) {
        old[i] = member_of(i + SELF, VIEW_ALIVE);
        new[i] = member_of(i + SELF, i == 0 ? VIEW_ALIVE : VIEW_DEAD);
    }
    const struct view before = view_of(old, MANY + 1, 6);
    const struct view now = view_of(new, MANY + 1, 6);
    const struct lines lines = told(LOG_LEVEL_INFO, &before, &now);
    assert_int_equal(lines.count, MEMBER_LOG_LINES_MAX + 1);
    assert_string_equal(lines.text[MEMBER_LOG_LINES_MAX],
                        "and so for 24 members more (`tidegate members` lists all)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_change_of_a_member_is_told_once),
        cmocka_unit_test(a_node_that_begins_tells_who_is_there),
        cmocka_unit_test(a_forgotten_member_is_told),
        cmocka_unit_test(a_node_that_stops_in_order_is_no_dead_one),
        cmocka_unit_test(many_changes_at_once_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

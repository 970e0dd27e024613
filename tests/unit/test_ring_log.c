/* test_ring_log.c - the line about the ring names who comes, who goes, and by whose word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/runtime/control/ring_log.h"

enum { LINE_LEN = 1024 };

static char line[LINE_LEN];

static void keep(void *context, enum log_level level, const char *text)
{
    (void)context;
    assert_int_equal(level, LOG_LEVEL_INFO);
    (void)snprintf(line, sizeof line, "%s", text);
}

/* The line on a ring of `before` that becomes one of `now`, where node 3 is dead. */
static void assert_told(const char *before, const char *now, uint64_t asked_of, const char *asked,
                        const char *expected)
{
    static struct ring_config config;
    const struct log log = {LOG_LEVEL_INFO, keep, NULL};
    struct view_member members[16] = {{.id = 0}};
    struct view view = {.members = members, .member_count = 16};
    const char *const lists[] = {before, now};
    memset(&config, 0, sizeof config);
    config.epoch = 7;
    for (uint32_t i = 0; i < 16; i++)
        members[i] = (struct view_member){.id = i + 1, .state = i == 2 ? VIEW_DEAD : VIEW_ALIVE};
    for (uint32_t side = 0; side < 2; side++) {
        struct ring_member *out = side == 0 ? config.from : config.to;
        uint32_t *count = side == 0 ? &config.from_count : &config.to_count;
        for (const char *at = lists[side]; *at != '\0'; at++) {
            const bool heavy = *at < 'a'; /* a capital letter */
            const unsigned number = (unsigned)(*at - (heavy ? 'A' : 'a') + 1);
            struct ring_member *member = &out[(*count)++];
            member->id = number;
            member->weight = heavy ? 300 : 100;
            (void)snprintf(member->name, sizeof member->name, "n%u", number);
        }
    }
    ring_log_tell(&log, &config, &view, asked_of, asked);
    assert_string_equal(line, expected);
}

static void who_comes_and_goes_is_named_with_the_reason(void **state)
{
    (void)state;
    assert_told("ab", "abd", 0, NULL, "ring of epoch 7: n4 joins; vnodes are moving");
    assert_told("abd", "ab", 0, NULL,
                "ring of epoch 7: n4 drains, as it was told; vnodes are moving");
    assert_told("abd", "ab", 4, "root@vm",
                "ring of epoch 7: n4 drains, as root@vm asked; vnodes are moving");
    assert_told("abc", "ab", 0, NULL,
                "ring of epoch 7: n3 is removed, it is dead; vnodes are moving");
    assert_told("abc", "ab", 3, "root@vm",
                "ring of epoch 7: n3 is removed, as root@vm asked; vnodes are moving");
    assert_told("abc", "ab", 2, "root@vm", /* about another one */
                "ring of epoch 7: n3 is removed, it is dead; vnodes are moving");
    assert_told("abc", "abd", 0, NULL,
                "ring of epoch 7: n4 joins; n3 is removed, it is dead; vnodes are moving");
    assert_told("abc", "aBc", 0, NULL,
                "ring of epoch 7: n2 weighs 300, 100 before; vnodes are moving");
}

static void a_settled_ring_lists_who_is_in_it(void **state)
{
    (void)state;
    assert_told("abj", "abj", 0, NULL, "ring of epoch 7: settled; in it are n1, n2, n10");
    assert_told("abcdefghijklmn", "abcdefghijklmn", 0, NULL,
                "ring of epoch 7: settled; in it are n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, "
                "n12 and 2 more");
}

static void a_line_names_a_few_and_counts_the_rest(void **state)
{
    (void)state;
    assert_told(
        "a", "adefghi", 0, NULL,
        "ring of epoch 7: n4 joins; n5 joins; n6 joins; n7 joins; and so 2 more; vnodes are "
        "moving");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_and_goes_is_named_with_the_reason),
        cmocka_unit_test(a_settled_ring_lists_who_is_in_it),
        cmocka_unit_test(a_line_names_a_few_and_counts_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

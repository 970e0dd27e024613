/* test_diff.c - how two texts differ, line by line, and times as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/cli/diff.h"

enum { LINES = 30, ROUNDS = 3000, TEXT_LEN = LINES * 4 };

static void assert_diff(const char *old, const char *new, const char *expected)
{
    struct cli_text text;
    cli_text_init(&text);
    cli_diff(&text, old, strlen(old), new, strlen(new), false);
    assert_false(text.failed);
    assert_string_equal(text.len > 0 ? text.data : "", expected);
    cli_text_fini(&text);
}

/* Equal texts differ in nothing; changed, added and removed lines are shown with what is around
 * them. */
static void changed_lines_are_shown_with_their_surroundings(void **state)
{
    (void)state;
    assert_diff("a\nb\n", "a\nb\n", "");
    assert_diff("", "a\nb\n", "@@ line 1 @@\n+a\n+b\n");
    assert_diff("a\n", "", "@@ line 1 @@\n-a\n");
    assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
                "@@ line 2 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
    assert_diff("a\nb\nc\n", "a\nx\nc\ny\n", "@@ line 1 @@\n a\n-b\n+x\n c\n+y\n");
}

/* Lines that are far apart are shown apart. */
static void far_changes_are_shown_apart(void **state)
{
    (void)state;
    assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n",
                "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\ntwelve\n",
                "@@ line 1 @@\n-1\n+one\n 2\n 3\n 4\n@@ line 9 @@\n 9\n 10\n 11\n-12\n+twelve\n");
}

static size_t make_text(struct random *random, char *out)
{
    size_t len = 0;
    for (uint64_t lines = random_below(random, LINES); lines > 0; lines--) {
        out[len++] = (char)('a' + random_below(random, 4));
        out[len++] = '\n';
    }
    return len;
}

/* Random texts: what is shown as gone and as come makes the new text out of the old one, as far as
 * its lines are shown, and no shown line is made up. */
static void removed_and_added_lines_balance(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 9);
    for (int round = 0; round < ROUNDS; round++) {
        char old[TEXT_LEN];
        char new[TEXT_LEN];
        long balance[4] = {0};
        struct cli_text text;
        const size_t old_len = make_text(&random, old);
        const size_t new_len = make_text(&random, new);
        cli_text_init(&text);
        cli_diff(&text, old, old_len, new, new_len, false);
        for (size_t i = 0; i < old_len; i += 2)
            balance[old[i] - 'a']++;
        for (size_t i = 0; i < new_len; i += 2)
            balance[new[i] - 'a']--;
        for (size_t i = 0; i < text.len; i += strcspn(text.data + i, "\n") + 1) {
            if (text.data[i] == '-')
                balance[text.data[i + 1] - 'a']--;
            else if (text.data[i] == '+')
                balance[text.data[i + 1] - 'a']++;
        }
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(balance[i], 0);
        cli_text_fini(&text);
    }
}

/* Times are read as UTC, with or without their parts, and nothing else is taken for one. */
static void times_are_read_as_utc(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"2026-11-21T13:33:07Z", 1795267987000},
                {"2026-11-21 13:33:07", 1795267987000},
                {"2024-02-29", 1709164800000},
                {"1795267987", 1795267987000},
                {"2000-03-01T00:00:00Z", 951868800000}};
    static const char *const bad[] = {"",
                                      "tomorrow",
                                      "2026-13-01",
                                      "2026-11-21T25:00:00Z",
                                      "2026-11-21x",
                                      "0",
                                      "2026-11-21T13:33:07+01:00",
                                      "1969-01-01"};
    uint64_t ms;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(cli_parse_time(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cli_parse_time(bad[i], &ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_lines_are_shown_with_their_surroundings),
        cmocka_unit_test(far_changes_are_shown_apart),
        cmocka_unit_test(removed_and_added_lines_balance),
        cmocka_unit_test(times_are_read_as_utc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

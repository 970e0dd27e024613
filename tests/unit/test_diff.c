/* test_diff.c - how two texts differ, line by line, and times as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/cli/output/diff.h"

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

/* How many lines are common to both, in the same order. */
static size_t common_lines(const char *old, size_t old_len, const char *new, size_t new_len)
{
    size_t most[LINES + 1][LINES + 1] = {{0}};
    for (size_t i = 0; i < old_len / 2; i++)
        for (size_t j = 0; j < new_len / 2; j++) {
            const size_t best = most[i][j + 1] > most[i + 1][j] ? most[i][j + 1] : most[i + 1][j];
            most[i + 1][j + 1] = old[2 * i] == new[2 * j] ? most[i][j] + 1 : best;
        }
    return most[old_len / 2][new_len / 2];
}

/* Makes of the old text what the difference says; returns its length, and how many lines changed.
 * Fails where the difference tells of a line that is not there. */
static size_t apply(const struct cli_text *diff, const char *old, size_t old_len, char *out,
                    size_t *changed)
{
    size_t at = 0;
    size_t len = 0;
    *changed = 0;
    for (size_t i = 0; i < diff->len; i += strcspn(diff->data + i, "\n") + 1) {
        const char *line = diff->data + i;
        if (line[0] == '@') {
            const size_t to = 2 * (strtoul(line + strlen("@@ line "), NULL, 10) - 1);
            assert_true(to >= at && to <= old_len);
            memcpy(out + len, old + at, to - at);
            len += to - at;
            at = to;
            continue;
        }
        if (line[0] != '+') {
            assert_true(at < old_len && line[1] == old[at]);
            at += 2;
        }
        if (line[0] != '-') {
            memcpy(out + len, line + 1, 2);
            len += 2;
        }
        *changed += line[0] != ' ';
    }
    memcpy(out + len, old + at, old_len - at);
    return len + old_len - at;
}

/* Random texts: what is shown makes the new text out of the old one, and no more lines go and come
 * than have to. */
static void a_difference_is_right_and_the_shortest(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 9);
    for (int round = 0; round < ROUNDS; round++) {
        char old[TEXT_LEN];
        char new[TEXT_LEN];
        char made[2 * TEXT_LEN];
        size_t changed;
        struct cli_text text;
        const size_t old_len = make_text(&random, old);
        const size_t new_len = make_text(&random, new);
        cli_text_init(&text);
        cli_diff(&text, old, old_len, new, new_len, false);
        assert_int_equal(apply(&text, old, old_len, made, &changed), new_len);
        assert_memory_equal(made, new, new_len);
        assert_int_equal(changed,
                         old_len / 2 + new_len / 2 - 2 * common_lines(old, old_len, new, new_len));
        cli_text_fini(&text);
    }
}

/* Also among hundreds of lines only those that differ are shown. */
static void few_changes_of_many_lines_are_few_lines(void **state)
{
    (void)state;
    enum { MANY = 1000, STEP = 300, LINE_LEN = 16 };
    static char old[MANY * LINE_LEN];
    static char new[MANY * LINE_LEN];
    size_t old_len = 0;
    size_t new_len = 0;
    size_t shown = 0;
    struct cli_text text;
    for (size_t i = 0; i < MANY; i++) {
        old_len += (size_t)snprintf(old + old_len, LINE_LEN, "%zu\n", i);
        new_len += (size_t)snprintf(new + new_len, LINE_LEN, "%zu%s\n", i,
                                    i % STEP == 0 ? " changed" : "");
    }
    cli_text_init(&text);
    cli_diff(&text, old, old_len, new, new_len, false);
    for (size_t i = 0; i < text.len; i++)
        shown += text.data[i] == '\n';
    assert_int_equal(shown, 4 * (1 + 2) + 3 + 3 * 6); /* places, changes, what is around them */
    cli_text_fini(&text);
}

/* What others wrote is shown, and does nothing to the terminal. */
static void control_characters_are_not_passed_on(void **state)
{
    (void)state;
    assert_diff("a\n", "\033[2J\n", "@@ line 1 @@\n-a\n+?[2J\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_lines_are_shown_with_their_surroundings),
        cmocka_unit_test(far_changes_are_shown_apart),
        cmocka_unit_test(a_difference_is_right_and_the_shortest),
        cmocka_unit_test(few_changes_of_many_lines_are_few_lines),
        cmocka_unit_test(control_characters_are_not_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_command_table.c - the table of commands agrees with itself, and help says all that it holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/arguments/command_table.h"
#include "client/cli/arguments/help.h"

/* COMMANDS-1: of two rows of one flag no command has both, and both are written in the same way. */
static void rows_of_one_flag_agree_and_share_no_command(void **state)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            const bool same = strcmp(rows[i].name, rows[k].name) == 0;
            assert_int_equal(same, rows[i].flag == rows[k].flag);
            assert_true(same || rows[i].letter == 0 || rows[i].letter != rows[k].letter);
            if (!same)
                continue;
            assert_true((rows[i].commands & rows[k].commands) == 0);
            assert_int_equal(rows[i].letter, rows[k].letter);
            assert_int_equal(rows[i].repeats, rows[k].repeats);
            assert_int_equal(rows[i].value == NULL, rows[k].value == NULL);
        }
    }
}

/* A row that is not whole would be shown as an empty line, or read into the first field. */
static void every_flag_has_a_row_that_is_whole(void **state)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    (void)state;
    for (enum cli_flag flag = 0; flag < CLI_FLAG_COUNT; flag++)
        assert_string_not_equal(cli_flag_name(flag), "");
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i].commands != 0 && rows[i].help[0] != '\0');
        assert_true(rows[i].kind == CLI_VALUE_OTHER || rows[i].offset > 0);
        assert_int_equal(rows[i].kind == CLI_VALUE_SWITCH,
                         rows[i].value == NULL && rows[i].kind != CLI_VALUE_OTHER);
        if (rows[i].kind == CLI_VALUE_NUMBER)
            assert_true(rows[i].min < rows[i].max);
        if (rows[i].kind == CLI_VALUE_CHOICE)
            assert_non_null(rows[i].choices);
    }
}

/* COMMANDS-2: who copies a flag from the usage line is not told that the command does not take
 * it. */
static void a_usage_names_only_flags_that_the_command_takes(void **state)
{
    (void)state;
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *usage = cli_command_row(i)->usage;
        for (const char *at = usage; at != NULL && (at = strstr(at, "--")) != NULL; at += 2) {
            char name[64];
            bool taken = false;
            (void)snprintf(name, sizeof name, "%.*s",
                           (int)strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-"), at + 2);
            for (enum cli_flag flag = 0; flag < CLI_FLAG_COUNT; flag++)
                taken |= strcmp(cli_flag_name(flag), name) == 0 && cli_flag_row(flag, i) != NULL;
            if (!taken)
                fail_msg("'%s' does not take --%s, which its usage names", cli_command_row(i)->name,
                         name);
        }
    }
}

/* Fails if a word of `prose` is not in `text`. */
static void holds_words(const char *text, const char *prose, const char *command)
{
    for (const char *at = prose; *at != '\0';) {
        char word[256];
        const size_t len = strcspn(at, " \t\n");
        (void)snprintf(word, sizeof word, "%.*s", (int)len, at);
        if (strstr(text, word) == NULL)
            fail_msg("help on '%s' lacks '%s'", command, word);
        at += len + (at[len] != '\0');
    }
}

/* Nothing that the table tells of a command is lost where lines are broken. */
static void help_on_a_command_tells_all_of_its_rows(void **state)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    (void)state;
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const struct cli_command_row *row = cli_command_row(i);
        const struct cli_operand_row *operand = cli_operand_row(row->operand);
        struct cli_text text;
        cli_text_init(&text);
        cli_help(&text, i);
        assert_false(text.failed);
        holds_words(text.data, row->summary, row->name);
        holds_words(text.data, row->usage != NULL ? row->usage : "", row->name);
        holds_words(text.data, row->notes != NULL ? row->notes : "", row->name);
        holds_words(text.data, operand->term != NULL ? operand->help : "", row->name);
        for (size_t k = 0; k < count; k++)
            if ((rows[k].commands & CLI_SET(i)) != 0)
                holds_words(text.data, rows[k].help, row->name);
        cli_text_fini(&text);
    }
}

/* A terminal of 100 columns shows help as it is meant. */
static void lines_of_help_are_short(void **state)
{
    enum { LINE_MAX_LEN = 100 };
    (void)state;
    for (enum cli_command i = 0; i <= CLI_COMMAND_COUNT; i++) {
        struct cli_text text;
        cli_text_init(&text);
        cli_help(&text, i);
        for (const char *at = text.data; *at != '\0';) {
            const size_t len = strcspn(at, "\n");
            if (len > LINE_MAX_LEN)
                fail_msg("a line of %zu bytes: %.*s", len, (int)len, at);
            at += len + 1;
        }
        cli_text_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_one_flag_agree_and_share_no_command),
        cmocka_unit_test(every_flag_has_a_row_that_is_whole),
        cmocka_unit_test(a_usage_names_only_flags_that_the_command_takes),
        cmocka_unit_test(help_on_a_command_tells_all_of_its_rows),
        cmocka_unit_test(lines_of_help_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

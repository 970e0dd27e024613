/* help.c - the texts of `tidegate help`, put together from the table of commands.
 *
 *   usage, what it takes (operands and flags), notes, the commands of its group, flags of every
 *   command, examples, exit statuses
 */
#include "client/cli/arguments/help.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/cli/arguments/command_table.h"
#include "client/cli/arguments/commands.h"

enum {
    WIDTH = 95,
    TERM_COLUMN = 24,   /* where what a flag does begins */
    ITEM_COLUMN = 31,   /* and what an item of a list says */
    COMMON_COLUMN = 40, /* and what a flag of every command does */
    NAME_WIDTH = 19,
    TERM_LEN = 80
};

/* Adds a term and what it means, aligned at `column`; a long term stands alone on its line only if
 * that is not `close` behind it. */
static void add_term(struct cli_text *text, const char *lead, const char *term, size_t column,
                     const char *meaning, size_t len)
{
    const size_t used = strlen(lead) + strlen(term);
    cli_text_str(text, lead);
    cli_text_str(text, term);
    cli_text_fill(text, ' ', used + 2 <= column ? column - used : 3);
    cli_text_wrap(text, meaning, len, used + 2 <= column ? column : used + 3, column, WIDTH);
}

/* Adds paragraphs and items; the first one continues a line that is `at` columns long. */
static void add_prose(struct cli_text *text, const char *prose, size_t at, size_t indent)
{
    char term[TERM_LEN];
    char lead[TERM_LEN] = "";
    (void)snprintf(lead, sizeof lead, "%*s", (int)(indent > 0 ? 4 : 0), "");
    for (const char *next = prose; next != NULL && *next != '\0'; at = 0) {
        const size_t len = strcspn(next, "\n");
        const char *tab = memchr(next, '\t', len);
        if (tab != NULL) {
            const size_t skip = (size_t)(tab - next) + 1;
            (void)snprintf(term, sizeof term, "%.*s", (int)(tab - next), next);
            add_term(text, lead, term, strlen(lead) + ITEM_COLUMN, next + skip, len - skip);
        } else {
            if (at == 0)
                cli_text_fill(text, ' ', indent);
            cli_text_wrap(text, next, len, at == 0 ? indent : at, indent, WIDTH);
        }
        next = next[len] == '\n' ? next + len + 1 : NULL;
    }
}

void cli_flag_term(const struct cli_flag_row *row, char *out, size_t capacity)
{
    char letter[8] = "";
    if (row->letter != 0)
        (void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
    const int len = snprintf(out, capacity, "%s--%s%s%s", letter, row->name,
                             row->value != NULL ? " " : "", row->value != NULL ? row->value : "");
    ASSERT(len > 0 && (size_t)len < capacity); /* what the table tells is shown whole */
}

static void add_flag(struct cli_text *text, const struct cli_flag_row *row)
{
    const bool common = cli_flag_common(row);
    const size_t column = common ? COMMON_COLUMN : TERM_COLUMN;
    const char *lead = common && row->letter == 0 ? "      " : "  ";
    char term[TERM_LEN];
    char help[1024];
    cli_flag_term(row, term, sizeof term);
    const size_t used = strlen(lead) + strlen(term);
    const int len =
        snprintf(help, sizeof help, "%s%s", row->help, row->repeats ? "; repeatable" : "");
    ASSERT(len > 0 && (size_t)len < sizeof help);
    cli_text_str(text, lead);
    cli_text_str(text, term);
    if (used + 2 > column) {
        cli_text_str(text, "\n");
        cli_text_fill(text, ' ', column);
    } else {
        cli_text_fill(text, ' ', column - used);
    }
    add_prose(text, help, column, column);
}

static void add_common_flags(struct cli_text *text)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    cli_text_str(text, "Flags of every command:\n");
    for (size_t i = 0; i < count; i++)
        if (cli_flag_common(&rows[i]))
            add_flag(text, &rows[i]);
}

/* Its operands and the flags that are its own. */
static void add_taken(struct cli_text *text, enum cli_command command)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    const struct cli_operand_row *operand = cli_operand_row(cli_command_row(command)->operand);
    bool any = operand->term != NULL;
    if (any) {
        cli_text_str(text, "\nWhat it takes:\n");
        add_term(text, "  ", operand->term, TERM_COLUMN, operand->help, strlen(operand->help));
    }
    for (size_t i = 0; i < count; i++) {
        if (cli_flag_common(&rows[i]) || (rows[i].commands & CLI_SET(command)) == 0)
            continue;
        if (!any)
            cli_text_str(text, "\nWhat it takes:\n");
        any = true;
        add_flag(text, &rows[i]);
    }
}

static void add_usage(struct cli_text *text, enum cli_command topic)
{
    if (topic == CLI_COMMAND_NONE) {
        cli_text_str(text, "usage: tidegate [-e tcp://HOST:PORT[,...]] [-o table|json|yaml] "
                           "COMMAND ...\n");
        return;
    }
    enum { USAGE_LEN = 512, INDENT = 8 };
    char line[USAGE_LEN];
    const struct cli_command_row *row = cli_command_row(topic);
    const int len = snprintf(line, sizeof line, "usage: tidegate %s%s%s", row->name,
                             row->usage != NULL ? " " : "", row->usage != NULL ? row->usage : "");
    ASSERT(len > 0 && (size_t)len < sizeof line);
    cli_text_wrap(text, line, (size_t)len, 0, INDENT, WIDTH);
}

void cli_hint(struct cli_text *text, enum cli_command topic)
{
    add_usage(text, topic);
    cli_text_str(text, "see: tidegate help");
    if (topic != CLI_COMMAND_NONE) {
        cli_text_str(text, " ");
        cli_text_str(text, cli_command_name(topic));
    }
    cli_text_str(text, "\n");
}

/* The command, and what it does. */
static void add_command(struct cli_text *text, enum cli_command command)
{
    const struct cli_command_row *row = cli_command_row(command);
    cli_text_str(text, "  ");
    cli_text_str(text, row->name);
    ASSERT(strlen(row->name) < NAME_WIDTH);
    cli_text_fill(text, ' ', NAME_WIDTH - strlen(row->name));
    cli_text_str(text, row->summary);
    cli_text_str(text, "\n");
}

static void add_exits(struct cli_text *text)
{
    size_t count;
    const struct cli_exit_row *rows = cli_exit_rows(&count);
    char line[512] = "Exit status:";
    size_t len = strlen(line);
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, " %d %s%s", (int)rows[i].status,
                                rows[i].meaning, i + 1 < count ? "," : ".");
    ASSERT(len < sizeof line);
    cli_text_wrap(text, line, len, 0, 0, WIDTH);
}

/* "  tidegate ...", a line each. */
static void add_examples(struct cli_text *text, enum cli_command command)
{
    for (const char *at = cli_command_row(command)->examples; *at != '\0';) {
        const size_t len = strcspn(at, "\n") + 1;
        cli_text_str(text, "  ");
        cli_text_add(text, at, len);
        at += len;
    }
}

static void add_overview(struct cli_text *text)
{
    cli_text_str(text, "tidegate - ");
    cli_text_str(text, cli_program_summary);
    cli_text_str(text, "\n\n");
    add_usage(text, CLI_COMMAND_NONE);
    cli_text_str(text, "\nCommands:\n");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        add_command(text, i);
    cli_text_str(text, "\n");
    add_common_flags(text);
    cli_text_str(text, "\nExamples:\n");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        add_examples(text, i);
    cli_text_str(text, "\n");
    add_exits(text);
}

/* The commands of the same group, for help on its word alone shows one of them. */
static void add_group(struct cli_text *text, enum cli_command topic)
{
    char group[NAME_WIDTH];
    const char *name = cli_command_name(topic);
    if (strchr(name, ' ') == NULL)
        return;
    ASSERT(strcspn(name, " ") < sizeof group);
    (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(name, " "), name);
    cli_text_str(text, "\nAll of its kind:\n");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        if (cli_command_behind(i, group) != NULL)
            add_command(text, i);
}

void cli_help(struct cli_text *text, enum cli_command topic)
{
    if (topic == CLI_COMMAND_NONE) {
        add_overview(text);
        return;
    }
    const struct cli_command_row *row = cli_command_row(topic);
    cli_text_str(text, "tidegate ");
    cli_text_str(text, row->name);
    cli_text_str(text, " - ");
    cli_text_str(text, row->summary);
    cli_text_str(text, "\n\n");
    add_usage(text, topic);
    add_taken(text, topic);
    if (row->notes != NULL) {
        cli_text_str(text, "\n");
        add_prose(text, row->notes, 0, 0);
    }
    add_group(text, topic);
    cli_text_str(text, "\n");
    add_common_flags(text);
    cli_text_str(text, "\nExamples:\n");
    add_examples(text, topic);
    cli_text_str(text, "\n");
    add_exits(text);
}

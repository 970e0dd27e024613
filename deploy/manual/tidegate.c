/* tidegate.c - tidegate(1): every command with its flags, from the table of commands. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/arguments/command_table.h"
#include "client/cli/arguments/help.h"
#include "deploy/manual/manual.h"

enum { TERM_LEN = 160, HELP_LEN = 1024 };

static void add_flag(struct page *page, const struct cli_flag_row *row)
{
    char term[TERM_LEN];
    char help[HELP_LEN];
    cli_flag_term(row, term, sizeof term);
    (void)snprintf(help, sizeof help, "%s%s", row->help, row->repeats ? "; repeatable" : "");
    page_term(page, term, help);
}

/* Its own flags, or those that every command takes. */
static void add_flags(struct page *page, enum cli_command command, bool common)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (cli_flag_common(&rows[i]) == common && (rows[i].commands & CLI_SET(command)) != 0)
            add_flag(page, &rows[i]);
}

static bool has_flags(enum cli_command command)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= !cli_flag_common(&rows[i]) && (rows[i].commands & CLI_SET(command)) != 0;
    return any;
}

static void add_command(struct page *page, enum cli_command command)
{
    const struct cli_command_row *row = cli_command_row(command);
    const struct cli_operand_row *operand = cli_operand_row(row->operand);
    char usage[HELP_LEN];
    page_subsection(page, row->name);
    (void)snprintf(usage, sizeof usage, "%c%s.\n", toupper((unsigned char)row->summary[0]),
                   row->summary + 1);
    page_prose(page, usage);
    (void)snprintf(usage, sizeof usage, "tidegate %s%s%s\n", row->name,
                   row->usage != NULL ? " " : "", row->usage != NULL ? row->usage : "");
    page_code(page, usage);
    if (page->format == PAGE_MARKDOWN && (operand->term != NULL || has_flags(command)))
        cli_text_str(page->text, "\n");
    if (operand->term != NULL)
        page_term(page, operand->term, operand->help);
    add_flags(page, command, false);
    if (row->notes != NULL)
        page_prose(page, row->notes);
    page_prose(page, strchr(row->examples, '\n')[1] != '\0' ? "Examples:\n" : "An example:\n");
    page_code(page, row->examples);
}

static void add_ends(struct page *page)
{
    size_t count;
    const struct cli_exit_row *exits = cli_exit_rows(&count);
    page_section(page, "Exit status");
    if (page->format == PAGE_MARKDOWN)
        cli_text_str(page->text, "\n");
    for (size_t i = 0; i < count; i++) {
        char status[16];
        (void)snprintf(status, sizeof status, "%d", (int)exits[i].status);
        page_term(page, status, exits[i].meaning);
    }
    const struct cli_variable_row *variables = cli_variable_rows(&count);
    page_section(page, "Environment");
    if (page->format == PAGE_MARKDOWN)
        cli_text_str(page->text, "\n");
    for (size_t i = 0; i < count; i++)
        page_term(page, variables[i].name, variables[i].meaning);
}

void manual_tidegate(struct page *page, const struct page_release *release)
{
    page_title(page, "tidegate", 1, cli_program_summary, release);
    page_section(page, "Synopsis");
    page_code(page, "tidegate [-e tcp://HOST:PORT[,...]] [-o table|json|yaml] COMMAND ...\n");
    page_section(page, "Description");
    page_prose(page,
               "`tidegate` asks the nodes of a cluster, and shows what they answer. Flags may "
               "stand anywhere behind `tidegate`; behind `--` nothing is a flag. `tidegate "
               "help COMMAND` shows what is told here of one command.\n"
               "Answers go to standard output, complaints to standard error as `tidegate: "
               "sentence`. With `-o json` and `-o yaml` fields are only ever added.\n");
    page_section(page, "Flags of every command");
    if (page->format == PAGE_MARKDOWN)
        cli_text_str(page->text, "\n");
    add_flags(page, CLI_CHECK, true);
    page_section(page, "Commands");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        add_command(page, i);
    add_ends(page);
    page_section(page, "See also");
    page_prose(page, "`tidegated`(8), `tidegate-rules`(5)\n");
}

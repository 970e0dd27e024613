/* zsh.c - completion of the command line for zsh, from the table of commands.
 *
 *   _tidegate --first word--> a command, or a group --second word--> its flags and operands
 *
 * As that of bash it asks no node.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/arguments/command_table.h"
#include "client/cli/arguments/commands.h"
#include "deploy/manual/manual.h"

/* Adds the beginning of a help text, up to its first stop, as an explanation of _arguments: within
 * single quotes, with brackets and colons escaped. */
static void add_brief(struct cli_text *text, const char *help)
{
    size_t len = 0;
    while (help[len] != '\0' && help[len] != '\n' && help[len] != ';' &&
           strncmp(help + len, ": ", 2) != 0 && strncmp(help + len, " (", 2) != 0)
        len++;
    len -= len > 0 && help[len - 1] == ':';
    for (size_t i = 0; i < len; i++) {
        if (help[i] == '\'')
            cli_text_str(text, "'\\''");
        else if (strchr("[]:\\", help[i]) != NULL)
            cli_text_format(text, "\\%c", help[i]);
        else
            cli_text_add(text, &help[i], 1);
    }
}

/* ":VALUE:ACTION" of a flag that takes one. */
static void add_value(struct cli_text *text, const struct cli_flag_row *row)
{
    const char *words = row->choices != NULL ? row->choices : row->proposal;
    if (row->value == NULL)
        return;
    cli_text_format(text, ":%s:", row->name);
    if (row->file)
        cli_text_str(text, "_files");
    else if (words != NULL)
        for (const char *at = words; *at != '\0'; at++)
            cli_text_format(text, "%s%s%c%s", at == words ? "(" : "", *at == ':' ? "\\" : "", *at,
                            at[1] == '\0' ? ")" : "");
}

static void add_flag(struct cli_text *text, const struct cli_flag_row *row)
{
    const char *assigned = row->value != NULL ? "=" : "";
    cli_text_str(text, " \\\n                '");
    if (row->letter != 0)
        cli_text_format(text, "(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name, row->letter,
                        row->value != NULL ? "+" : "", row->name, assigned);
    else
        cli_text_format(text, "%s--%s%s[", row->repeats ? "*" : "", row->name, assigned);
    add_brief(text, row->help);
    cli_text_str(text, "]");
    add_value(text, row);
    cli_text_str(text, "'");
}

static void add_operand(struct cli_text *text, enum cli_command command)
{
    const struct cli_operand_row *operand = cli_operand_row(cli_command_row(command)->operand);
    if (operand->term == NULL)
        return;
    cli_text_str(text, " \\\n                '*:");
    add_brief(text, operand->term);
    cli_text_format(text, ":%s'", operand->file ? "_files" : "");
}

/* The flags of one command, and what stands behind it. */
static void add_arguments(struct cli_text *text, enum cli_command command)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    cli_text_str(text, "            _arguments $common");
    for (size_t i = 0; i < count; i++)
        if (!cli_flag_common(&rows[i]) && (rows[i].commands & CLI_SET(command)) != 0)
            add_flag(text, &rows[i]);
    add_operand(text, command);
    cli_text_str(text, "\n            ;;\n");
}

static void add_described(struct cli_text *text, const char *word, const char *summary)
{
    cli_text_format(text, "        '%s:", word);
    add_brief(text, summary);
    cli_text_str(text, "'\n");
}

static void add_lists(struct cli_text *text)
{
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    cli_text_str(text, "    commands=(\n");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        if (strchr(cli_command_name(i), ' ') == NULL)
            add_described(text, cli_command_name(i), cli_command_row(i)->summary);
    for (size_t i = 0; i < count; i++)
        add_described(text, groups[i].word, groups[i].summary);
    cli_text_str(text, "    )\n");
    for (size_t i = 0; i < count; i++) {
        cli_text_format(text, "    behind_%s=(\n", groups[i].word);
        for (enum cli_command command = 0; command < CLI_COMMAND_COUNT; command++)
            if (cli_command_behind(command, groups[i].word) != NULL)
                add_described(text, cli_command_behind(command, groups[i].word),
                              cli_command_row(command)->summary);
        cli_text_str(text, "    )\n");
    }
}

static void add_common(struct cli_text *text)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    cli_text_str(text, "    common=(");
    for (size_t i = 0; i < count; i++)
        if (cli_flag_common(&rows[i]))
            add_flag(text, &rows[i]);
    cli_text_str(text, "\n    )\n");
}

/* Behind a group's word: one of its words, or what that takes. */
static void add_groups(struct cli_text *text)
{
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    cli_text_str(text, "    name=\"${words[1]}\"\n    case \"$name\" in\n    ");
    for (size_t i = 0; i < count; i++)
        cli_text_format(text, "%s%s", i > 0 ? " | " : "", groups[i].word);
    cli_text_str(text, ")\n"
                       "        if ((CURRENT == 2)); then\n"
                       "            _describe -t commands \"$name command\" \"behind_$name\"\n"
                       "            return\n"
                       "        fi\n"
                       "        name=\"$name ${words[2]}\"\n"
                       "        shift words\n"
                       "        ((CURRENT--))\n"
                       "        ;;\n"
                       "    esac\n");
}

void manual_zsh(struct cli_text *text)
{
    cli_text_str(text, "#compdef tidegate\n"
                       "# _tidegate - completion of the tidegate command line for zsh; made by "
                       "`make docs`.\n"
                       "#\n"
                       "# Install into a folder of $fpath, such as /usr/share/zsh/site-functions.\n"
                       "# It asks no node: words, flags and their fixed values only.\n\n"
                       "_tidegate() {\n"
                       "    local curcontext=\"$curcontext\" state line name\n"
                       "    typeset -A opt_args\n"
                       "    local -a common commands");
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    for (size_t i = 0; i < count; i++)
        cli_text_format(text, " behind_%s", groups[i].word);
    cli_text_str(text, "\n");
    add_common(text);
    add_lists(text);
    cli_text_str(text, "    _arguments -C $common '1: :->command' '*:: :->rest' && return\n"
                       "    if [[ $state == command ]]; then\n"
                       "        _describe -t commands command commands\n"
                       "        return\n"
                       "    fi\n");
    add_groups(text);
    cli_text_str(text, "    case \"$name\" in\n");
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        cli_text_format(text, "    '%s')\n", cli_command_name(i));
        if (cli_operand_row(cli_command_row(i)->operand)->command)
            cli_text_str(text, "            _describe -t commands command commands\n"
                               "            ;;\n");
        else
            add_arguments(text, i);
    }
    cli_text_str(text, "    esac\n}\n\n_tidegate \"$@\"\n");
}

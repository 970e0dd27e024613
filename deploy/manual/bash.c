/* bash.c - completion of the command line for bash, from the table of commands.
 *
 * The script knows of each command its flags and what stands behind it, and of each flag the values
 * that there are. It asks no node, so it is as fast as typing.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/arguments/command_table.h"
#include "client/cli/arguments/commands.h"
#include "deploy/manual/manual.h"

/* The first row of the flag: rows of one flag complete alike. */
static bool is_first(const struct cli_flag_row *rows, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (rows[i].flag == rows[at].flag)
            return false;
    return true;
}

static void add_spellings(struct cli_text *text, const struct cli_flag_row *row,
                          const char *between)
{
    if (row->letter != 0)
        cli_text_format(text, "-%c%s", row->letter, between);
    cli_text_format(text, "--%s", row->name);
}

/* A line of _tidegate_flags for each command. */
static void add_flags(struct cli_text *text)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    cli_text_str(text, "_tidegate_flags() {\n    case \"$1\" in\n");
    for (enum cli_command command = 0; command < CLI_COMMAND_COUNT; command++) {
        cli_text_format(text, "    \"%s\") echo \"", cli_command_name(command));
        for (size_t i = 0; i < count; i++) {
            if ((rows[i].commands & CLI_SET(command)) == 0)
                continue;
            add_spellings(text, &rows[i], " ");
            cli_text_str(text, " ");
        }
        cli_text_str(text, "\" ;;\n");
    }
    cli_text_str(text, "    *) echo \"");
    for (size_t i = 0; i < count; i++) {
        if (!cli_flag_common(&rows[i]))
            continue;
        add_spellings(text, &rows[i], " ");
        cli_text_str(text, " ");
    }
    cli_text_str(text, "\" ;;\n    esac\n}\n\n");
}

/* _tidegate_values: 0 and the values of a flag that takes one, 1 for all others. */
static void add_values(struct cli_text *text)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    cli_text_str(text, "_tidegate_values() {\n    case \"$1\" in\n");
    for (size_t i = 0; i < count; i++) {
        const char *words = rows[i].choices != NULL ? rows[i].choices : rows[i].proposal;
        if (rows[i].value == NULL || !is_first(rows, i))
            continue;
        cli_text_str(text, "    ");
        add_spellings(text, &rows[i], " | ");
        if (rows[i].file)
            cli_text_str(text, ") compgen -f -- \"$2\" ;;\n");
        else if (words != NULL)
            cli_text_format(text, ") compgen -W \"%s\" -- \"$2\" ;;\n", words);
        else
            cli_text_str(text, ") ;;\n");
    }
    cli_text_str(text, "    *) return 1 ;;\n    esac\n    return 0\n}\n\n");
}

static void add_first_words(struct cli_text *text)
{
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        if (strchr(cli_command_name(i), ' ') == NULL)
            cli_text_format(text, "%s ", cli_command_name(i));
    for (size_t i = 0; i < count; i++)
        cli_text_format(text, "%s ", groups[i].word);
}

/* _tidegate_words: what may stand where a word is expected behind those that are there. */
static void add_words(struct cli_text *text)
{
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    cli_text_str(text, "_tidegate_words() {\n    case \"$1\" in\n    \"\" | help) compgen -W \"");
    add_first_words(text);
    cli_text_str(text, "\" -- \"$2\" ;;\n");
    for (size_t i = 0; i < count; i++) {
        cli_text_format(text, "    %s | \"help %s\") compgen -W \"", groups[i].word,
                        groups[i].word);
        for (enum cli_command command = 0; command < CLI_COMMAND_COUNT; command++)
            if (cli_command_behind(command, groups[i].word) != NULL)
                cli_text_format(text, "%s ", cli_command_behind(command, groups[i].word));
        cli_text_str(text, "\" -- \"$2\" ;;\n");
    }
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        if (cli_operand_row(cli_command_row(i)->operand)->file)
            cli_text_format(text, "    \"%s\" | \"%s \"*) compgen -f -- \"$2\" ;;\n",
                            cli_command_name(i), cli_command_name(i));
    cli_text_str(text, "    esac\n}\n\n");
}

static const char body[] =
    "_tidegate() {\n"
    "    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n"
    "    local words=\"\" command=\"\" i\n"
    "    COMPREPLY=()\n"
    "\n"
    "    # The words that are neither flags nor values of flags; the command is the first of "
    "them,\n"
    "    # or the first two.\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        if [[ \"${COMP_WORDS[i]}\" != -* ]]; then\n"
    "            words=\"${words:+$words }${COMP_WORDS[i]}\"\n"
    "        elif _tidegate_values \"${COMP_WORDS[i]}\" \"\" >/dev/null; then\n"
    "            ((i++))\n"
    "        fi\n"
    "    done\n"
    "    command=\"${words%% *}\"\n"
    "    case \"$command\" in\n"
    "    @GROUPS@)\n"
    "        if [[ \"$words\" == *\" \"* ]]; then\n"
    "            local rest=\"${words#* }\"\n"
    "            command=\"$command ${rest%% *}\"\n"
    "        fi\n"
    "        ;;\n"
    "    esac\n"
    "\n"
    "    if ((COMP_CWORD > 1)) && _tidegate_values \"$previous\" \"\" >/dev/null; then\n"
    "        mapfile -t COMPREPLY < <(_tidegate_values \"$previous\" \"$current\")\n"
    "    elif [[ \"$current\" == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(_tidegate_flags \"$command\")\" -- "
    "\"$current\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(_tidegate_words \"$words\" \"$current\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _tidegate tidegate\n";

void manual_bash(struct cli_text *text)
{
    static const char mark[] = "@GROUPS@";
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    const char *at = strstr(body, mark);
    cli_text_str(text,
                 "# tidegate.bash - completion of the tidegate command line for bash; made by "
                 "`make docs`.\n"
                 "#\n"
                 "# Install as /usr/share/bash-completion/completions/tidegate, or source it "
                 "from ~/.bashrc.\n"
                 "# It asks no node: words, flags and their fixed values only.\n\n");
    add_flags(text);
    add_values(text);
    add_words(text);
    cli_text_add(text, body, (size_t)(at - body));
    for (size_t i = 0; i < count; i++)
        cli_text_format(text, "%s%s", i > 0 ? " | " : "", groups[i].word);
    cli_text_str(text, at + strlen(mark));
}

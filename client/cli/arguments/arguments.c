/* arguments.c - the command line, understood or refused with a sentence; see arguments.h.
 *
 * Two passes, so that flags may stand anywhere:
 *
 *   argv --split--> given: words in order, one string a flag --values.c, operands.c--> out
 *
 * Which flags there are, which command takes one and what stands behind a command is told by
 * command_table.h.
 */
#include "client/cli/arguments/arguments.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "client/cli/arguments/commands.h"
#include "client/cli/arguments/given.h"

static_assert(CLI_WORDS_MAX > TG_ATTRIBUTES_MAX + 2,
              "too many attributes are told from too many words");
static_assert(CLI_WORDS_MAX > CLI_LOGS_MAX + 2, "and so are too many files");
static_assert(CLI_REPEATED_MAX > 2 * LOG_PAIRS_MAX, "and too many pairs of a flag");

bool cli_waits(const struct cli_arguments *arguments)
{
    return arguments->wait_healthy ||
           (cli_command_changes(arguments->command) && !arguments->no_wait);
}

/* ---- splitting ------------------------------------------------------------------------------- */

int cli_refuse(const struct cli_given *given, int status, const char *format, ...)
{
    ASSERT(status != CLI_EXIT_OK); /* a refusal ends the command */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(given->sentence, CLI_SENTENCE_LEN, format, arguments);
    va_end(arguments);
    return status;
}

/* A row of the flag that `text`, starting with '-', names; *value is what is attached to it, or
 * NULL. NULL: there is none. */
static const struct cli_flag_row *find_flag(const char *text, const char **value)
{
    size_t count;
    const struct cli_flag_row *rows = cli_flag_rows(&count);
    ASSERT(text[0] == '-');
    *value = NULL;
    for (const struct cli_flag_row *row = rows; row < rows + count; row++) {
        if (text[1] != '-') {
            if (row->letter != 0 && text[1] == row->letter) {
                *value = text[2] != '\0' ? text + 2 : NULL;
                return row;
            }
            continue;
        }
        const size_t len = strcspn(text + 2, "=");
        if (len == strlen(row->name) && memcmp(text + 2, row->name, len) == 0) {
            *value = text[2 + len] == '=' ? text + 2 + len + 1 : NULL;
            return row;
        }
    }
    return NULL;
}

/* Says that there is no such flag, and which was probably meant. */
static int refuse_flag(const struct cli_given *given, const char *text)
{
    char name[NEAREST_LEN_MAX + 2] = "";
    struct nearest nearest;
    if (strncmp(text, "--", 2) == 0)
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    nearest_init(&nearest, name);
    for (enum cli_flag i = 0; i < CLI_FLAG_COUNT; i++)
        nearest_try(&nearest, cli_flag_name(i));
    if (nearest.found == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "unknown flag '%.64s'", text);
    return cli_refuse(given, CLI_EXIT_USAGE, "unknown flag '%.64s'; did you mean --%s?", text,
                      nearest.found);
}

static int take_flag(struct cli_given *given, int argc, const char *const *argv, int *at)
{
    const char *value;
    const char *text = argv[*at];
    const struct cli_flag_row *row = find_flag(text, &value);
    if (row == NULL)
        return refuse_flag(given, text);
    ASSERT(row->flag < CLI_FLAG_COUNT && given->repeated_count <= CLI_REPEATED_MAX);
    if (given->values[row->flag] != NULL && !row->repeats)
        return cli_refuse(given, CLI_EXIT_USAGE, "--%s is given twice", row->name);
    if (row->repeats && given->repeated_count == CLI_REPEATED_MAX)
        return cli_refuse(given, CLI_EXIT_USAGE, "--%s is given more than %d times", row->name,
                          (int)LOG_PAIRS_MAX);
    if (row->value == NULL && value != NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--%s takes no value, found '%.64s'", row->name,
                          text);
    if (row->value != NULL && value == NULL) {
        if (*at + 1 >= argc)
            return cli_refuse(given, CLI_EXIT_USAGE, "--%s needs a value", row->name);
        value = argv[++*at];
    }
    given->values[row->flag] = value != NULL ? value : "";
    if (row->repeats) {
        given->repeated[given->repeated_count] = given->values[row->flag];
        given->repeated_flag[given->repeated_count++] = row->flag;
    }
    return CLI_EXIT_OK;
}

static int split(struct cli_given *given, int argc, const char *const *argv)
{
    bool only_words = false;
    for (int at = 1; at < argc; at++) {
        ASSERT(given->word_count <= CLI_WORDS_MAX);
        const char *text = argv[at];
        if (!only_words && strcmp(text, "--") == 0) {
            only_words = true;
        } else if (!only_words && text[0] == '-' && text[1] != '\0') {
            const int status = take_flag(given, argc, argv, &at);
            if (status != CLI_EXIT_OK)
                return status;
        } else if (given->word_count == CLI_WORDS_MAX) {
            return cli_refuse(given, CLI_EXIT_USAGE,
                              "more than %d words; expected at most %d attributes",
                              (int)CLI_WORDS_MAX, (int)TG_ATTRIBUTES_MAX);
        } else {
            given->words[given->word_count++] = text;
        }
    }
    return CLI_EXIT_OK;
}

size_t cli_gather(const struct cli_given *given, enum cli_flag flag, const char **out)
{
    size_t count = 0;
    ASSERT(given->repeated_count <= CLI_REPEATED_MAX);
    for (size_t i = 0; i < given->repeated_count; i++)
        if (given->repeated_flag[i] == flag)
            out[count++] = given->repeated[i];
    return count;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int check_flags(const struct cli_given *given, enum cli_command command)
{
    for (enum cli_flag i = 0; i < CLI_FLAG_COUNT; i++)
        if (given->values[i] != NULL && cli_flag_row(i, command) == NULL)
            return cli_refuse(given, CLI_EXIT_USAGE, "'%s' does not take --%s",
                              cli_command_name(command), cli_flag_name(i));
    const char *members = given->values[CLI_FLAG_MEMBERS];
    const bool waits = given->values[CLI_FLAG_WAIT] != NULL;
    if (waits && given->values[CLI_FLAG_WATCH] != NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--wait and --watch exclude each other");
    if (waits && given->values[CLI_FLAG_REGIONS] != NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--wait and --regions exclude each other");
    if (members != NULL && !waits && strcmp(members, "all") != 0)
        return cli_refuse(given, CLI_EXIT_USAGE,
                          "--members N needs --wait healthy; expected a number "
                          "with it, or --members all");
    if (given->values[CLI_FLAG_NODE] != NULL && (waits || given->values[CLI_FLAG_REGIONS] != NULL))
        return cli_refuse(given, CLI_EXIT_USAGE, "--node excludes --wait and --regions");
    return CLI_EXIT_OK;
}

int cli_arguments_parse(struct cli_arguments *out, int argc, const char *const *argv,
                        char *sentence)
{
    struct cli_given given = {.sentence = sentence};
    memset(out, 0, sizeof *out);
    *out = (struct cli_arguments){
        .command = CLI_COMMAND_NONE, .topic = CLI_COMMAND_NONE, .cost = 1, .repeat = 1};
    int status = split(&given, argc, argv);
    const size_t used = cli_command_match(given.words, given.word_count, &out->command);
    if (status != CLI_EXIT_OK)
        return status;
    if (given.values[CLI_FLAG_HELP] != NULL) {
        out->topic = used == 0                  ? cli_command_group(given.words, given.word_count)
                     : out->command == CLI_HELP ? CLI_COMMAND_NONE
                                                : out->command;
        out->command = CLI_HELP;
        return CLI_EXIT_OK;
    }
    if (given.values[CLI_FLAG_VERSION] != NULL) {
        out->command = CLI_VERSION;
        return cli_take_output(out, &given);
    }
    if (used == 0) {
        cli_command_refuse(given.words, given.word_count, sentence);
        return CLI_EXIT_USAGE;
    }
    ASSERT(used <= given.word_count);
    struct cli_words words = {given.words + used, given.word_count - used, 0};
    status = check_flags(&given, out->command);
    if (status == CLI_EXIT_OK)
        status = cli_take_values(out, &given);
    if (status == CLI_EXIT_OK)
        status = cli_take_operands(out, &given, &words);
    if (status == CLI_EXIT_OK)
        status = cli_take_times_and_limits(out, &given);
    return status;
}

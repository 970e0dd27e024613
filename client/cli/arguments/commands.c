/* commands.c - which command the words name, and which was meant by words that name none. */
#include "client/cli/arguments/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "client/cli/arguments/command_table.h"

const char *cli_command_name(enum cli_command command)
{
    return command < CLI_COMMAND_COUNT ? cli_command_row(command)->name : "";
}

size_t cli_command_match(const char *const *words, size_t word_count, enum cli_command *out)
{
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *name = cli_command_name(i);
        const size_t first = strcspn(name, " ");
        if (word_count < 1 || strlen(words[0]) != first || memcmp(words[0], name, first) != 0)
            continue;
        if (name[first] == '\0') {
            *out = i;
            return 1;
        }
        if (word_count >= 2 && strcmp(words[1], name + first + 1) == 0) {
            *out = i;
            return 2;
        }
    }
    return 0;
}

/* The row of the group that the word names, or NULL. */
static const struct cli_group_row *find_group(const char *word)
{
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, groups[i].word) == 0)
            return &groups[i];
    return NULL;
}

const char *cli_command_behind(enum cli_command command, const char *group)
{
    const char *name = cli_command_name(command);
    const size_t len = strlen(group);
    return strncmp(name, group, len) == 0 && name[len] == ' ' ? name + len + 1 : NULL;
}

/* "list, set or report": the words that may stand behind that of a group. */
static void list_behind(const char *group, char *out, size_t capacity)
{
    const char *last = NULL;
    size_t len = 0;
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *word = cli_command_behind(i, group);
        if (word != NULL && last != NULL)
            len += (size_t)snprintf(out + len, capacity - len, "%s%s", len > 0 ? ", " : "", last);
        last = word != NULL ? word : last;
    }
    ASSERT(last != NULL && len < capacity); /* no group is empty */
    (void)snprintf(out + len, capacity - len, " or %s", last);
}

enum cli_command cli_command_group(const char *const *words, size_t count)
{
    enum cli_command first = 0;
    if (count != 1 || find_group(words[0]) == NULL)
        return CLI_COMMAND_NONE;
    while (first < CLI_COMMAND_COUNT && cli_command_behind(first, words[0]) == NULL)
        first++;
    ASSERT(first < CLI_COMMAND_COUNT); /* no group is empty */
    return first;
}

/* The command, or word of a group, that was probably meant by a word that is neither; NULL: none.
 * The second word of a command alone means the whole of it. */
static const char *meant(const char *word)
{
    struct nearest nearest;
    nearest_init(&nearest, word);
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *second = strchr(cli_command_name(i), ' ');
        if (second == NULL)
            nearest_try(&nearest, cli_command_name(i));
        else if (strcmp(second + 1, word) == 0)
            return cli_command_name(i);
    }
    size_t count;
    const struct cli_group_row *groups = cli_group_rows(&count);
    for (size_t i = 0; i < count; i++)
        nearest_try(&nearest, groups[i].word);
    return nearest.found;
}

/* The same of the second word behind that of a group. */
static const char *meant_behind(const char *group, const char *word)
{
    struct nearest nearest;
    nearest_init(&nearest, word);
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        if (cli_command_behind(i, group) != NULL)
            nearest_try(&nearest, cli_command_behind(i, group));
    return nearest.found;
}

/* The same of words whose first one is a group's. */
static void refuse_behind(const char *const *words, size_t count, char sentence[CLI_SENTENCE_LEN])
{
    char behind[CLI_SENTENCE_LEN / 2];
    const char *found = count > 1 ? meant_behind(words[0], words[1]) : NULL;
    list_behind(words[0], behind, sizeof behind);
    if (count == 1)
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "'%s' needs %s behind it", words[0], behind);
    else
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "unknown command '%s %.64s'; expected %s%s%s%s",
                       words[0], words[1], behind, found != NULL ? "; did you mean " : "",
                       found != NULL ? found : "", found != NULL ? "?" : "");
}

void cli_command_refuse(const char *const *words, size_t count, char sentence[CLI_SENTENCE_LEN])
{
    if (count == 0) {
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "a command is missing");
        return;
    }
    if (find_group(words[0]) != NULL) {
        refuse_behind(words, count, sentence);
        return;
    }
    const char *found = meant(words[0]);
    (void)snprintf(sentence, CLI_SENTENCE_LEN, "unknown command '%.64s'%s%s%s", words[0],
                   found != NULL ? "; did you mean '" : "", found != NULL ? found : "",
                   found != NULL ? "'?" : "");
}

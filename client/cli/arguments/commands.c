/* commands.c - what the commands are called, and what somebody meant who calls one otherwise. */
#include "client/cli/arguments/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

static const char *const command_names[CLI_COMMAND_COUNT] = {
    [CLI_CHECK] = "check",
    [CLI_PEEK] = "peek",
    [CLI_HIT] = "hit",
    [CLI_REFUND] = "refund",
    [CLI_RESET] = "reset",
    [CLI_LEASE] = "lease",
    [CLI_RELEASE] = "release",
    [CLI_RENEW] = "renew",
    [CLI_STATUS] = "status",
    [CLI_MEMBERS] = "members",
    [CLI_RING] = "ring",
    [CLI_OWNER] = "owner",
    [CLI_RULES_LIST] = "rules list",
    [CLI_RULES_VALIDATE] = "rules validate",
    [CLI_RULES_EXPLAIN] = "rules explain",
    [CLI_RULES_SHOW] = "rules show",
    [CLI_RULES_DIFF] = "rules diff",
    [CLI_RULES_APPLY] = "rules apply",
    [CLI_RULES_DELETE] = "rules delete",
    [CLI_RULES_HISTORY] = "rules history",
    [CLI_RULES_ROLLBACK] = "rules rollback",
    [CLI_BLOCK] = "block",
    [CLI_UNBLOCK] = "unblock",
    [CLI_BLOCKS] = "blocks",
    [CLI_APIKEY_CREATE] = "apikey create",
    [CLI_APIKEY_LIST] = "apikey list",
    [CLI_APIKEY_SHOW] = "apikey show",
    [CLI_APIKEY_REVOKE] = "apikey revoke",
    [CLI_APIKEY_DELETE] = "apikey delete",
    [CLI_QUOTA_SET] = "quota set",
    [CLI_QUOTA_SHOW] = "quota show",
    [CLI_QUOTA_LIST] = "quota list",
    [CLI_QUOTA_DELETE] = "quota delete",
    [CLI_QUOTA_RESET] = "quota reset",
    [CLI_POOLS_LIST] = "pools list",
    [CLI_POOLS_SET] = "pools set",
    [CLI_POOLS_REPORT] = "pools report",
    [CLI_DRAIN] = "drain",
    [CLI_LEAVE] = "leave",
    [CLI_REMOVE] = "remove",
    [CLI_REPLAY] = "replay",
    [CLI_VERSION] = "version",
    [CLI_HELP] = "help",
};

const char *cli_command_name(enum cli_command command)
{
    return command < CLI_COMMAND_COUNT ? command_names[command] : "";
}

size_t cli_command_match(const char *const *words, size_t word_count, enum cli_command *out)
{
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *name = command_names[i];
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

/* First words that need a second one. */
static const struct {
    const char *word;
    enum cli_command first; /* what help on the word alone is about */
    const char *behind;
} groups[] = {
    {"rules", CLI_RULES_LIST,
     "list, show, validate, explain, diff, apply, delete, history or rollback"},
    {"pools", CLI_POOLS_LIST, "list, set or report"},
    {"apikey", CLI_APIKEY_CREATE, "create, list, show, revoke or delete"},
    {"quota", CLI_QUOTA_SET, "set, show, list, delete or reset"},
};

enum { GROUPS = sizeof groups / sizeof *groups };

/* The place of the word in groups; GROUPS: it is none. */
static size_t find_group(const char *word)
{
    size_t at = 0;
    while (at < GROUPS && strcmp(word, groups[at].word) != 0)
        at++;
    return at;
}

enum cli_command cli_command_group(const char *const *words, size_t count)
{
    const size_t group = count == 1 ? find_group(words[0]) : (size_t)GROUPS;
    return group < GROUPS ? groups[group].first : CLI_COMMAND_NONE;
}

/* The command, or word of a group, that was probably meant by a word that is neither; NULL: none.
 * The second word of a command alone means the whole of it. */
static const char *meant(const char *word)
{
    struct nearest nearest;
    nearest_init(&nearest, word);
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++) {
        const char *second = strchr(command_names[i], ' ');
        if (second == NULL)
            nearest_try(&nearest, command_names[i]);
        else if (strcmp(second + 1, word) == 0)
            return command_names[i];
    }
    for (size_t i = 0; i < GROUPS; i++)
        nearest_try(&nearest, groups[i].word);
    return nearest.found;
}

/* The same of the second word behind that of a group. */
static const char *meant_behind(const char *group, const char *word)
{
    struct nearest nearest;
    const size_t len = strlen(group);
    nearest_init(&nearest, word);
    for (enum cli_command i = 0; i < CLI_COMMAND_COUNT; i++)
        if (strncmp(command_names[i], group, len) == 0 && command_names[i][len] == ' ')
            nearest_try(&nearest, command_names[i] + len + 1);
    return nearest.found;
}

void cli_command_refuse(const char *const *words, size_t count, char sentence[CLI_SENTENCE_LEN])
{
    if (count == 0) {
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "a command is missing");
        return;
    }
    const size_t group = find_group(words[0]);
    const char *found = group == GROUPS ? meant(words[0])
                        : count > 1     ? meant_behind(words[0], words[1])
                                        : NULL;
    if (group == GROUPS && found == NULL)
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "unknown command '%.64s'", words[0]);
    else if (group == GROUPS)
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "unknown command '%.64s'; did you mean '%s'?",
                       words[0], found);
    else if (count == 1)
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "'%s' needs %s behind it", groups[group].word,
                       groups[group].behind);
    else
        (void)snprintf(sentence, CLI_SENTENCE_LEN, "unknown command '%s %.64s'; expected %s%s%s%s",
                       groups[group].word, words[1], groups[group].behind,
                       found != NULL ? "; did you mean " : "", found != NULL ? found : "",
                       found != NULL ? "?" : "");
}

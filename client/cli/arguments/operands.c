/* operands.c - what stands behind a command, read by the kind of operand that its row names. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "client/cli/arguments/commands.h"
#include "client/cli/arguments/given.h"
#include "client/cli/arguments/pool_flags.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/rights/credential.h"
#include "node/policy/rights/token.h"

static int take_attribute(struct cli_arguments *out, const struct cli_given *given,
                          const char *word)
{
    const size_t name_len = strcspn(word, "=");
    if (word[name_len] == '\0')
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "attribute '%.64s' has no '='; expected name=value", word);
    if (name_len == 0)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "attribute '%.64s' has no name; expected name=value", word);
    if (name_len > TG_ATTRIBUTE_NAME_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "the attribute name '%.64s...' has %zu bytes; expected at most %d", word,
                          name_len, (int)TG_ATTRIBUTE_NAME_MAX);
    const char *value = word + name_len + 1;
    ASSERT(out->attribute_count < TG_ATTRIBUTES_MAX && name_len <= TG_ATTRIBUTE_NAME_MAX);
    char *name = out->names[out->attribute_count];
    if (strlen(value) > TG_VALUE_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "the value of attribute '%.*s' has %zu bytes; expected at most %d",
                          (int)name_len, word, strlen(value), (int)TG_VALUE_MAX);
    memcpy(name, word, name_len);
    name[name_len] = '\0';
    for (size_t i = 0; i < out->attribute_count; i++)
        if (strcmp(out->names[i], name) == 0)
            return cli_refuse(given, CLI_EXIT_INVALID, "attribute '%s' is given twice", name);
    out->attributes[out->attribute_count++] = (tg_attribute_t){name, value, strlen(value)};
    return CLI_EXIT_OK;
}

static int take_inline(struct cli_arguments *out, const struct cli_given *given)
{
    const char *key = given->values[CLI_FLAG_KEY];
    if (strlen(key) > TG_VALUE_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID, "--key has %zu bytes; expected at most %d",
                          strlen(key), (int)TG_VALUE_MAX);
    out->key = key;
    if (given->values[CLI_FLAG_RATE] != NULL)
        return cli_take_limit(out, given);
    if (given->values[CLI_FLAG_BURST] != NULL || given->values[CLI_FLAG_ALGORITHM] != NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--burst and --algorithm need --rate");
    if (out->command != CLI_OWNER)
        return cli_refuse(given, CLI_EXIT_USAGE, "--key needs --rate, such as --rate 5/60s");
    return CLI_EXIT_OK;
}

static int take_target(struct cli_arguments *out, const struct cli_given *given,
                       struct cli_words *words)
{
    if (given->values[CLI_FLAG_KEY] != NULL) {
        if (words->count > 0)
            return cli_refuse(given, CLI_EXIT_USAGE,
                              "found both --key and '%.64s'; expected attributes or an inline key",
                              words->list[0]);
        return take_inline(out, given);
    }
    if (given->values[CLI_FLAG_RATE] != NULL || given->values[CLI_FLAG_BURST] != NULL ||
        given->values[CLI_FLAG_ALGORITHM] != NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--rate, --burst and --algorithm need --key");
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs attributes (name=value)%s",
                          cli_command_name(out->command),
                          out->command == CLI_RULES_EXPLAIN ? " or --domain" : " or --key");
    if (words->count > TG_ATTRIBUTES_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID, "%zu attributes; expected at most %d",
                          words->count, (int)TG_ATTRIBUTES_MAX);
    for (size_t i = 0; i < words->count; i++) {
        const int status = take_attribute(out, given, words->list[i]);
        if (status != CLI_EXIT_OK)
            return status;
    }
    return CLI_EXIT_OK;
}

/* Attributes, or --domain and --descriptor instead. */
static int take_explained(struct cli_arguments *out, const struct cli_given *given,
                          struct cli_words *words)
{
    const struct cli_domains *domains = &out->domains;
    if (domains->domain == NULL && domains->descriptor == NULL)
        return take_target(out, given, words);
    if (domains->domain == NULL || domains->descriptor == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE, "--domain and --descriptor need each other");
    words->taken = 0;
    return CLI_EXIT_OK;
}

static int take_imported(struct cli_arguments *out, const struct cli_given *given,
                         struct cli_words *words)
{
    struct cli_domains *domains = &out->domains;
    if (words->count == 0 || strcmp(words->list[0], "envoy") != 0)
        return cli_refuse(given, CLI_EXIT_USAGE,
                          "'rules import' needs the form of the files; expected envoy");
    if (words->count == 1)
        return cli_refuse(given, CLI_EXIT_USAGE, "'rules import envoy' needs a FILE");
    if (words->count - 1 > CLI_IMPORTED_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID, "%zu files; expected at most %d, or a directory",
                          words->count - 1, (int)CLI_IMPORTED_MAX);
    domains->file_count = words->count - 1;
    memcpy(domains->files, words->list + 1, domains->file_count * sizeof *domains->files);
    return CLI_EXIT_OK;
}

static int take_topic(struct cli_arguments *out, const struct cli_given *given,
                      struct cli_words *words)
{
    out->topic = CLI_COMMAND_NONE;
    if (words->count == 0)
        return CLI_EXIT_OK;
    const size_t used = cli_command_match(words->list, words->count, &out->topic);
    if (used == 0) {
        out->topic = cli_command_group(words->list, words->count);
        if (out->topic != CLI_COMMAND_NONE)
            return CLI_EXIT_OK;
        cli_command_refuse(words->list, words->count, given->sentence);
        return CLI_EXIT_USAGE;
    }
    ASSERT(used <= words->count && out->topic < CLI_COMMAND_COUNT);
    if (used < words->count)
        return cli_refuse(given, CLI_EXIT_USAGE, "unexpected '%.64s' behind 'help %s'",
                          words->list[used], cli_command_name(out->topic));
    return CLI_EXIT_OK;
}

static int take_member(struct cli_arguments *out, const struct cli_given *given,
                       struct cli_words *words)
{
    const char *region = given->values[CLI_FLAG_REGION];
    const char *name = region != NULL || words->count == 0 ? region : words->list[0];
    if (name == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE,
                          "'remove' needs a NODE, a name or an id, or --region");
    if (name[0] == '\0' || strlen(name) >= CLI_MEMBER_LEN)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "the %s '%.64s' has %zu bytes; expected a name or an id of 1 to %d",
                          region != NULL ? "region" : "node", name, strlen(name),
                          CLI_MEMBER_LEN - 1);
    words->taken = region == NULL;
    *(region != NULL ? &out->region : &out->member) = name;
    return CLI_EXIT_OK;
}

static int take_replay(struct cli_arguments *out, const struct cli_given *given,
                       struct cli_words *words)
{
    const char *maps[CLI_REPEATED_MAX];
    const char *sets[CLI_REPEATED_MAX];
    const struct cli_replay_words asked = {
        .files = words->list,
        .file_count = words->count,
        .rules = given->values[CLI_FLAG_RULES],
        .format = given->values[CLI_FLAG_FORMAT],
        .time_field = given->values[CLI_FLAG_TIME_FIELD],
        .cost_field = given->values[CLI_FLAG_COST_FIELD],
        .proxies = given->values[CLI_FLAG_PROXIES],
        .reorder = given->values[CLI_FLAG_REORDER],
        .top = given->values[CLI_FLAG_TOP],
        .suggest = given->values[CLI_FLAG_SUGGEST],
        .spread = given->values[CLI_FLAG_SPREAD] != NULL,
        .maps = maps,
        .map_count = cli_gather(given, CLI_FLAG_MAP, maps),
        .sets = sets,
        .set_count = cli_gather(given, CLI_FLAG_SET, sets),
    };
    return cli_replay_arguments(&out->replay, &asked, given->sentence);
}

static int take_file(struct cli_arguments *out, const struct cli_given *given,
                     struct cli_words *words)
{
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs a FILE",
                          cli_command_name(out->command));
    out->file = words->list[0];
    return CLI_EXIT_OK;
}

static int take_rule_if_any(struct cli_arguments *out, const struct cli_given *given,
                            struct cli_words *words)
{
    if (given->values[CLI_FLAG_OF_VERSION] != NULL && words->count > 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "a NAME and --of-version exclude each other");
    out->name = words->count > 0 ? words->list[0] : NULL;
    return CLI_EXIT_OK;
}

static int take_rule(struct cli_arguments *out, const struct cli_given *given,
                     struct cli_words *words)
{
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs the NAME of a rule",
                          cli_command_name(out->command));
    out->name = words->list[0];
    return CLI_EXIT_OK;
}

static int take_version(struct cli_arguments *out, const struct cli_given *given,
                        struct cli_words *words)
{
    char error[QUANTITY_ERROR_LEN];
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs a VERSION of `rules history`",
                          cli_command_name(out->command));
    if (quantity_parse_uint(words->list[0], UINT32_MAX, &out->version, error) != 0)
        return cli_refuse(given, CLI_EXIT_INVALID, "VERSION: %s", error);
    return CLI_EXIT_OK;
}

static int take_blocked(struct cli_arguments *out, const struct cli_given *given,
                        struct cli_words *words)
{
    out->key = given->values[CLI_FLAG_KEY];
    if (out->key == NULL && words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs attr=value, a CIDR or --key",
                          cli_command_name(out->command));
    if (out->key != NULL && strlen(out->key) > TG_VALUE_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID, "--key has %zu bytes; expected at most %d",
                          strlen(out->key), (int)TG_VALUE_MAX);
    words->taken = out->key == NULL;
    if (out->key == NULL)
        out->target = words->list[0];
    return CLI_EXIT_OK;
}

/* Which API key is meant: a key itself is cut to its id, so that it goes nowhere. */
static int take_api_key(struct cli_arguments *out, const struct cli_given *given,
                        struct cli_words *words)
{
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs a KEY: its id or its name",
                          cli_command_name(out->command));
    if (words->list[0][0] == '\0' || strlen(words->list[0]) > API_KEY_NAME_LEN_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "KEY has %zu bytes; expected an id or a name of 1 to %d",
                          strlen(words->list[0]), (int)API_KEY_NAME_LEN_MAX);
    out->name = words->list[0];
    out->name_len = strlen(words->list[0]);
    if (out->name_len == API_KEY_LEN &&
        memcmp(words->list[0], API_KEY_PREFIX, strlen(API_KEY_PREFIX)) == 0) {
        out->name += strlen(API_KEY_PREFIX);
        out->name_len = API_KEY_ID_LEN;
    }
    return CLI_EXIT_OK;
}

/* The name of a credential, its id, or its token, which is cut to its id, so that it goes nowhere.
 */
static int take_credential(struct cli_arguments *out, const struct cli_given *given,
                           struct cli_words *words)
{
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs a NAME",
                          cli_command_name(out->command));
    out->name = words->list[0];
    out->name_len = strlen(words->list[0]);
    if (token_begins(out->name, out->name_len)) {
        out->name = token_id(out->name, out->name_len);
        if (out->name == NULL || out->command == CLI_TOKEN_CREATE)
            return cli_refuse(given, CLI_EXIT_INVALID,
                              "NAME begins as a token does, and is none; expected a name");
        out->name_len = TOKEN_ID_LEN;
    }
    if (!credential_name_ok(out->name, out->name_len))
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "NAME: found '%.64s'; expected 1 to %d letters, digits, and . _ - only",
                          words->list[0], (int)CREDENTIAL_NAME_LEN_MAX);
    if (out->command == CLI_TOKEN_CREATE && out->holder.roles == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE,
                          "'token create' needs --role, such as --role check");
    return CLI_EXIT_OK;
}

static int check_quota_flags(const struct cli_quota *quota, const struct cli_given *given)
{
    const bool timed = given->values[CLI_FLAG_FOR] != NULL || given->values[CLI_FLAG_UNTIL] != NULL;
    if (quota->block != NULL && quota->unblock)
        return cli_refuse(given, CLI_EXIT_USAGE, "--block and --unblock exclude each other");
    if (timed && quota->block == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE,
                          "--for and --until say when a --block ends; expected it");
    return CLI_EXIT_OK;
}

/* The USER of `quota`, and what is to be set; `quota reset` is a reset of what he counts by. */
static int take_quota(struct cli_arguments *out, const struct cli_given *given,
                      struct cli_words *words)
{
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs a USER",
                          cli_command_name(out->command));
    if (words->list[0][0] == '\0' || strlen(words->list[0]) > TG_VALUE_MAX)
        return cli_refuse(given, CLI_EXIT_INVALID, "USER has %zu bytes; expected 1 to %d",
                          strlen(words->list[0]), (int)TG_VALUE_MAX);
    out->quota.user = words->list[0];
    out->attributes[0] = (tg_attribute_t){"user", words->list[0], strlen(words->list[0])};
    out->attribute_count = 1;
    return out->command == CLI_QUOTA_SET ? check_quota_flags(&out->quota, given) : CLI_EXIT_OK;
}

/* The NAME of a pool. */
static int take_pool_name(const struct cli_arguments *out, const struct cli_given *given,
                          const struct cli_words *words)
{
    if (words->count == 0)
        return cli_refuse(given, CLI_EXIT_USAGE, "'%s' needs a NAME, that of a pool",
                          cli_command_name(out->command));
    if (words->list[0][0] == '\0' || strlen(words->list[0]) >= CLI_POOL_LEN)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "the pool '%.64s' has %zu bytes; expected a name of 1 to %d",
                          words->list[0], strlen(words->list[0]), CLI_POOL_LEN - 1);
    return CLI_EXIT_OK;
}

/* The NAME and the --load of `pools report`. */
static int take_pool_load(struct cli_arguments *out, const struct cli_given *given,
                          struct cli_words *words)
{
    const char *load = given->values[CLI_FLAG_LOAD];
    char *end = NULL;
    const int status = take_pool_name(out, given, words);
    if (status != CLI_EXIT_OK)
        return status;
    if (load == NULL)
        return cli_refuse(given, CLI_EXIT_USAGE,
                          "'pools report' needs --load, a number from 0 to 1");
    out->report.pool = words->list[0];
    out->report.load = strtod(load, &end);
    if (end == load || *end != '\0' || strspn(load, "0123456789.") != strlen(load) ||
        out->report.load > 1)
        return cli_refuse(given, CLI_EXIT_INVALID,
                          "--load is '%.64s'; expected a number from 0 to 1", load);
    return CLI_EXIT_OK;
}

/* The NAME of `pools set`, and what of the pool is to be changed. */
static int take_pool_edit(struct cli_arguments *out, const struct cli_given *given,
                          struct cli_words *words)
{
    const struct pool_flags flags = {
        .rate = given->values[CLI_FLAG_RATE],
        .load_max = given->values[CLI_FLAG_LOAD_MAX],
        .reserve = given->values[CLI_FLAG_RESERVE],
        .scope = given->values[CLI_FLAG_SCOPE],
        .home = given->values[CLI_FLAG_HOME],
    };
    char sentence[CLI_SENTENCE_LEN];
    int status = take_pool_name(out, given, words);
    if (status != CLI_EXIT_OK)
        return status;
    out->pool_edit.name = words->list[0];
    status = cli_read_pool_flags(&flags, &out->pool_edit, sentence);
    return status == CLI_EXIT_OK ? status : cli_refuse(given, status, "%s", sentence);
}

static int take_pool(struct cli_arguments *out, const struct cli_given *given,
                     struct cli_words *words)
{
    return out->command == CLI_POOLS_SET ? take_pool_edit(out, given, words)
                                         : take_pool_load(out, given, words);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static int take_nothing(struct cli_arguments *out, const struct cli_given *given,
                        struct cli_words *words)
{
    (void)out;
    (void)given;
    (void)words;
    return CLI_EXIT_OK;
}

static const struct {
    int (*take)(struct cli_arguments *out, const struct cli_given *given, struct cli_words *words);
    size_t words; /* at most, unless the reader says otherwise */
} readers[CLI_OPERAND_COUNT] = {
    [CLI_OPERAND_NONE] = {take_nothing, 0},
    [CLI_OPERAND_TARGET] = {take_target, CLI_WORDS_MAX},
    [CLI_OPERAND_ATTRIBUTES] = {take_explained, CLI_WORDS_MAX},
    [CLI_OPERAND_IMPORTED] = {take_imported, CLI_WORDS_MAX},
    [CLI_OPERAND_TOPIC] = {take_topic, CLI_WORDS_MAX},
    [CLI_OPERAND_LOGS] = {take_replay, CLI_WORDS_MAX},
    [CLI_OPERAND_FILE] = {take_file, 1},
    [CLI_OPERAND_MEMBER] = {take_member, 1},
    [CLI_OPERAND_RULE_IF_ANY] = {take_rule_if_any, 1},
    [CLI_OPERAND_RULE] = {take_rule, 1},
    [CLI_OPERAND_VERSION] = {take_version, 1},
    [CLI_OPERAND_BLOCKED] = {take_blocked, 1},
    [CLI_OPERAND_API_KEY] = {take_api_key, 1},
    [CLI_OPERAND_CREDENTIAL] = {take_credential, 1},
    [CLI_OPERAND_USER] = {take_quota, 1},
    [CLI_OPERAND_POOL] = {take_pool, 1},
};

int cli_take_operands(struct cli_arguments *out, const struct cli_given *given,
                      struct cli_words *words)
{
    const enum cli_operand operand = cli_command_row(out->command)->operand;
    words->taken = readers[operand].words;
    const int status = readers[operand].take(out, given, words);
    if (status == CLI_EXIT_OK && words->count > words->taken)
        return cli_refuse(given, CLI_EXIT_USAGE, "unexpected '%.64s' behind '%s'",
                          words->list[words->taken], cli_command_name(out->command));
    return status;
}

/* arguments.c - the command line, understood or refused with a sentence; see arguments.h.
 *
 * Two passes, so that flags may stand anywhere:
 *
 *   argv --split--> raw: words in order, one string a flag --interpret--> struct cli_arguments
 *
 * Which commands take a flag is a set of bits in the table of flags; that table, help.c and the
 * completions in deploy/completion are kept together by tests/cluster/test_cli_fake.py.
 */
#include "client/cli/arguments.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limit.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "client/cli/commands.h"
#include "client/cli/pool_flags.h"
#include "client/replay/log_time.h"
#include "node/policy/people/api_keys.h"

enum { WORDS_MAX = 300, REPEATED_MAX = 80, MS_NS = 1000000 };
#define CLI_REPEAT_MAX UINT64_C(1000000000)
#define DAY_NS         UINT64_C(86400000000000)

static_assert(WORDS_MAX > TG_ATTRIBUTES_MAX + 2,
              "too many attributes are told from too many words");
static_assert(WORDS_MAX > CLI_LOGS_MAX + 2, "and so are too many files");
static_assert(REPEATED_MAX > 2 * LOG_PAIRS_MAX, "and too many pairs of a flag");

/* ---- tables ---------------------------------------------------------------------------------- */

#define BIT(command) (UINT64_C(1) << (command))
#define ASKING                                                                                     \
    (BIT(CLI_CHECK) | BIT(CLI_PEEK) | BIT(CLI_HIT) | BIT(CLI_REFUND) | BIT(CLI_RESET) |            \
     BIT(CLI_LEASE))
#define NAMING   (BIT(CLI_RELEASE) | BIT(CLI_RENEW)) /* a lease */
#define KEYED    (ASKING | NAMING | BIT(CLI_OWNER))
#define COSTED   (ASKING & ~BIT(CLI_RESET))
#define WATCHED  (BIT(CLI_STATUS) | BIT(CLI_MEMBERS) | BIT(CLI_RING))
#define CHANGING (BIT(CLI_DRAIN) | BIT(CLI_LEAVE) | BIT(CLI_REMOVE))
#define APPLYING                                                                                   \
    (BIT(CLI_RULES_APPLY) | BIT(CLI_RULES_DELETE) | BIT(CLI_RULES_ROLLBACK) | BIT(CLI_POOLS_SET))
#define BLOCKING (BIT(CLI_BLOCK) | BIT(CLI_UNBLOCK))
#define QUOTING  (BIT(CLI_QUOTA_SET) | BIT(CLI_QUOTA_DELETE)) /* quotas change */
#define KEYING                                                                                     \
    (BIT(CLI_APIKEY_CREATE) | BIT(CLI_APIKEY_REVOKE) | BIT(CLI_APIKEY_DELETE))     /* keys change */
#define ENDING      (BIT(CLI_BLOCK) | BIT(CLI_APIKEY_CREATE) | BIT(CLI_QUOTA_SET)) /* at a time */
#define NAMING_KEYS (BIT(CLI_APIKEY_SHOW) | BIT(CLI_APIKEY_REVOKE) | BIT(CLI_APIKEY_DELETE))
#define LIMITING    (BIT(CLI_QUOTA_SET) | BIT(CLI_APIKEY_CREATE)) /* own limits */
#define FILED       (BIT(CLI_RULES_VALIDATE) | BIT(CLI_RULES_DIFF) | BIT(CLI_RULES_APPLY))
#define EVERY       (BIT(CLI_COMMAND_COUNT) - 1)

static_assert(CLI_COMMAND_COUNT < 64, "a set of commands is 64 bits");

enum flag {
    FLAG_ENDPOINT,
    FLAG_OUTPUT,
    FLAG_TIMEOUT,
    FLAG_HELP,
    FLAG_VERSION,
    FLAG_WATCH,
    FLAG_WAIT,
    FLAG_MEMBERS,
    FLAG_REGIONS,
    FLAG_ALL,
    FLAG_NODE,
    FLAG_KEY,
    FLAG_RATE,
    FLAG_BURST,
    FLAG_ALGORITHM,
    FLAG_COST,
    FLAG_AT_MOST,
    FLAG_REPEAT,
    FLAG_LEASE,
    FLAG_USED,
    FLAG_EXPLAIN,
    FLAG_RULES,
    FLAG_LOAD,
    FLAG_LOAD_MAX,
    FLAG_RESERVE,
    FLAG_SCOPE,
    FLAG_HOME,
    FLAG_FORCE,
    FLAG_REGION,
    FLAG_NO_WAIT,
    FLAG_FORMAT,
    FLAG_MAP,
    FLAG_SET,
    FLAG_TIME_FIELD,
    FLAG_COST_FIELD,
    FLAG_PROXIES,
    FLAG_REORDER,
    FLAG_SPREAD,
    FLAG_TOP,
    FLAG_SUGGEST,
    FLAG_DRY_RUN,
    FLAG_YES,
    FLAG_AUTHOR,
    FLAG_NOTE,
    FLAG_OF_VERSION,
    FLAG_FOR,
    FLAG_UNTIL,
    FLAG_REASON,
    FLAG_NAME,
    FLAG_OWNER,
    FLAG_TIER,
    FLAG_LIMIT,
    FLAG_BLOCK,
    FLAG_UNBLOCK,
    FLAG_NOTES,
    FLAG_CLEAR,
    FLAG_AFTER,
    FLAG_COUNT
};

static const struct {
    const char *name;
    char letter; /* or 0 */
    bool takes_value;
    uint64_t commands;
} flags[FLAG_COUNT] = {
    [FLAG_ENDPOINT] = {"endpoint", 'e', true, EVERY},
    [FLAG_OUTPUT] = {"output", 'o', true, EVERY},
    [FLAG_TIMEOUT] = {"timeout", 0, true, EVERY},
    [FLAG_HELP] = {"help", 'h', false, EVERY},
    [FLAG_VERSION] = {"version", 0, false, EVERY},
    [FLAG_WATCH] = {"watch", 0, false, WATCHED},
    [FLAG_WAIT] = {"wait", 0, true, BIT(CLI_STATUS)},
    [FLAG_MEMBERS] = {"members", 0, true, BIT(CLI_STATUS)},
    [FLAG_REGIONS] = {"regions", 0, false, BIT(CLI_STATUS)},
    [FLAG_ALL] = {"all", 0, false, BIT(CLI_MEMBERS) | BIT(CLI_STATUS)},
    [FLAG_NODE] = {"node", 0, true, BIT(CLI_STATUS)},
    [FLAG_KEY] = {"key", 0, true, KEYED | BLOCKING},
    [FLAG_RATE] = {"rate", 0, true, KEYED | BIT(CLI_POOLS_SET)},
    [FLAG_BURST] = {"burst", 0, true, KEYED | LIMITING},
    [FLAG_ALGORITHM] = {"algorithm", 0, true, KEYED},
    [FLAG_COST] = {"cost", 0, true, COSTED},
    [FLAG_AT_MOST] = {"at-most", 0, false, BIT(CLI_CHECK) | BIT(CLI_PEEK) | BIT(CLI_LEASE)},
    [FLAG_REPEAT] = {"repeat", 0, true, ASKING},
    [FLAG_LEASE] = {"lease", 0, true, NAMING},
    [FLAG_USED] = {"used", 0, true, NAMING},
    [FLAG_EXPLAIN] = {"explain", 0, false, ASKING},
    [FLAG_RULES] = {"rules", 0, true, BIT(CLI_RULES_EXPLAIN) | BIT(CLI_REPLAY)},
    [FLAG_LOAD] = {"load", 0, true, BIT(CLI_POOLS_REPORT)},
    [FLAG_LOAD_MAX] = {"load-max", 0, true, BIT(CLI_POOLS_SET)},
    [FLAG_RESERVE] = {"reserve", 0, true, BIT(CLI_POOLS_SET)},
    [FLAG_SCOPE] = {"scope", 0, true, BIT(CLI_POOLS_SET)},
    [FLAG_HOME] = {"home", 0, true, BIT(CLI_POOLS_SET)},
    [FLAG_FORCE] = {"force", 0, false, BIT(CLI_REMOVE) | BIT(CLI_APIKEY_DELETE)},
    [FLAG_REGION] = {"region", 0, true, BIT(CLI_REMOVE)},
    [FLAG_NO_WAIT] = {"no-wait", 0, false, CHANGING},
    [FLAG_FORMAT] = {"format", 0, true, BIT(CLI_REPLAY)},
    [FLAG_MAP] = {"map", 0, true, BIT(CLI_REPLAY)},
    [FLAG_SET] = {"set", 0, true, BIT(CLI_REPLAY)},
    [FLAG_TIME_FIELD] = {"time-field", 0, true, BIT(CLI_REPLAY)},
    [FLAG_COST_FIELD] = {"cost-field", 0, true, BIT(CLI_REPLAY)},
    [FLAG_PROXIES] = {"proxies", 0, true, BIT(CLI_REPLAY)},
    [FLAG_REORDER] = {"reorder", 0, true, BIT(CLI_REPLAY)},
    [FLAG_SPREAD] = {"spread", 0, false, BIT(CLI_REPLAY)},
    [FLAG_TOP] = {"top", 0, true, BIT(CLI_REPLAY)},
    [FLAG_SUGGEST] = {"suggest", 0, true, BIT(CLI_REPLAY)},
    [FLAG_DRY_RUN] = {"dry-run", 0, false, APPLYING | BIT(CLI_QUOTA_SET)},
    [FLAG_YES] = {"yes", 'y', false, APPLYING | BIT(CLI_BLOCK)},
    [FLAG_AUTHOR] = {"author", 0, true, APPLYING | BLOCKING | KEYING | QUOTING},
    [FLAG_NOTE] = {"note", 0, true, APPLYING | KEYING | QUOTING},
    [FLAG_OF_VERSION] = {"of-version", 0, true, BIT(CLI_RULES_SHOW)},
    [FLAG_FOR] = {"for", 0, true, ENDING},
    [FLAG_UNTIL] = {"until", 0, true, ENDING},
    [FLAG_REASON] = {"reason", 0, true, BIT(CLI_BLOCK)},
    [FLAG_NAME] = {"name", 0, true, BIT(CLI_APIKEY_CREATE)},
    [FLAG_OWNER] = {"owner", 0, true, BIT(CLI_APIKEY_CREATE) | BIT(CLI_APIKEY_LIST)},
    [FLAG_TIER] = {"tier", 0, true, BIT(CLI_APIKEY_CREATE) | BIT(CLI_QUOTA_SET)},
    [FLAG_LIMIT] = {"limit", 0, true, LIMITING},
    [FLAG_BLOCK] = {"block", 0, true, BIT(CLI_QUOTA_SET)},
    [FLAG_UNBLOCK] = {"unblock", 0, false, BIT(CLI_QUOTA_SET)},
    [FLAG_NOTES] = {"notes", 0, true, BIT(CLI_QUOTA_SET)},
    [FLAG_CLEAR] = {"clear", 0, false, BIT(CLI_QUOTA_SET)},
    [FLAG_AFTER] = {"after", 0, true, BIT(CLI_QUOTA_LIST) | BIT(CLI_APIKEY_LIST)},
};

/* Flags that may be given several times. */
static bool repeats(enum flag flag)
{
    return flag == FLAG_MAP || flag == FLAG_SET || flag == FLAG_LIMIT;
}

bool cli_waits(const struct cli_arguments *arguments)
{
    return arguments->wait_healthy ||
           ((CHANGING & BIT(arguments->command)) != 0 && !arguments->no_wait);
}

/* ---- splitting ------------------------------------------------------------------------------- */

struct raw {
    const char *words[WORDS_MAX];
    size_t word_count;
    const char *values[FLAG_COUNT];     /* NULL: not given; of a flag without value: "" */
    const char *repeated[REPEATED_MAX]; /* values of the flags that repeat, in their order */
    enum flag repeated_flag[REPEATED_MAX];
    size_t repeated_count;
    char *sentence;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct raw *raw, int status,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(raw->sentence, CLI_SENTENCE_LEN, format, arguments);
    va_end(arguments);
    return status;
}

/* The flag that `text`, starting with '-', names; *value is what is attached to it or NULL. */
static enum flag find_flag(const char *text, const char **value)
{
    *value = NULL;
    for (enum flag i = 0; i < FLAG_COUNT; i++) {
        if (text[1] != '-') {
            if (flags[i].letter != 0 && text[1] == flags[i].letter) {
                *value = text[2] != '\0' ? text + 2 : NULL;
                return i;
            }
            continue;
        }
        const size_t len = strcspn(text + 2, "=");
        if (len == strlen(flags[i].name) && memcmp(text + 2, flags[i].name, len) == 0) {
            *value = text[2 + len] == '=' ? text + 2 + len + 1 : NULL;
            return i;
        }
    }
    return FLAG_COUNT;
}

/* Says that there is no such flag, and which was probably meant. */
static int refuse_flag(const struct raw *raw, const char *text)
{
    char name[NEAREST_LEN_MAX + 2] = "";
    struct nearest nearest;
    if (strncmp(text, "--", 2) == 0)
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    nearest_init(&nearest, name);
    for (enum flag i = 0; i < FLAG_COUNT; i++)
        nearest_try(&nearest, flags[i].name);
    if (nearest.found == NULL)
        return refuse(raw, CLI_EXIT_USAGE, "unknown flag '%.64s'", text);
    return refuse(raw, CLI_EXIT_USAGE, "unknown flag '%.64s'; did you mean --%s?", text,
                  nearest.found);
}

static int take_flag(struct raw *raw, int argc, const char *const *argv, int *at)
{
    const char *value;
    const char *text = argv[*at];
    const enum flag flag = find_flag(text, &value);
    if (flag == FLAG_COUNT)
        return refuse_flag(raw, text);
    if (raw->values[flag] != NULL && !repeats(flag))
        return refuse(raw, CLI_EXIT_USAGE, "--%s is given twice", flags[flag].name);
    if (repeats(flag) && raw->repeated_count == REPEATED_MAX)
        return refuse(raw, CLI_EXIT_USAGE, "--%s is given more than %d times", flags[flag].name,
                      (int)LOG_PAIRS_MAX);
    if (!flags[flag].takes_value && value != NULL)
        return refuse(raw, CLI_EXIT_USAGE, "--%s takes no value, found '%.64s'", flags[flag].name,
                      text);
    if (flags[flag].takes_value && value == NULL) {
        if (*at + 1 >= argc)
            return refuse(raw, CLI_EXIT_USAGE, "--%s needs a value", flags[flag].name);
        value = argv[++*at];
    }
    raw->values[flag] = value != NULL ? value : "";
    if (repeats(flag)) {
        raw->repeated[raw->repeated_count] = raw->values[flag];
        raw->repeated_flag[raw->repeated_count++] = flag;
    }
    return CLI_EXIT_OK;
}

static int split(struct raw *raw, int argc, const char *const *argv)
{
    bool only_words = false;
    for (int at = 1; at < argc; at++) {
        const char *text = argv[at];
        if (!only_words && strcmp(text, "--") == 0) {
            only_words = true;
        } else if (!only_words && text[0] == '-' && text[1] != '\0') {
            const int status = take_flag(raw, argc, argv, &at);
            if (status != CLI_EXIT_OK)
                return status;
        } else if (raw->word_count == WORDS_MAX) {
            return refuse(raw, CLI_EXIT_USAGE, "more than %d words; expected at most %d attributes",
                          (int)WORDS_MAX, (int)TG_ATTRIBUTES_MAX);
        } else {
            raw->words[raw->word_count++] = text;
        }
    }
    return CLI_EXIT_OK;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* --members all: of a status, a line for each of them. */
static bool wants_all_members(const struct raw *raw)
{
    return raw->values[FLAG_MEMBERS] != NULL && raw->values[FLAG_WAIT] == NULL &&
           strcmp(raw->values[FLAG_MEMBERS], "all") == 0;
}

static int check_flags(const struct raw *raw, enum cli_command command)
{
    for (enum flag i = 0; i < FLAG_COUNT; i++)
        if (raw->values[i] != NULL && (flags[i].commands & BIT(command)) == 0)
            return refuse(raw, CLI_EXIT_USAGE, "'%s' does not take --%s", cli_command_name(command),
                          flags[i].name);
    if (raw->values[FLAG_WAIT] != NULL && raw->values[FLAG_WATCH] != NULL)
        return refuse(raw, CLI_EXIT_USAGE, "--wait and --watch exclude each other");
    if (raw->values[FLAG_WAIT] != NULL && raw->values[FLAG_REGIONS] != NULL)
        return refuse(raw, CLI_EXIT_USAGE, "--wait and --regions exclude each other");
    if (raw->values[FLAG_MEMBERS] != NULL && !wants_all_members(raw) &&
        raw->values[FLAG_WAIT] == NULL)
        return refuse(raw, CLI_EXIT_USAGE,
                      "--members N needs --wait healthy; expected a number "
                      "with it, or --members all");
    if (raw->values[FLAG_NODE] != NULL &&
        (raw->values[FLAG_WAIT] != NULL || raw->values[FLAG_REGIONS] != NULL))
        return refuse(raw, CLI_EXIT_USAGE, "--node excludes --wait and --regions");
    return CLI_EXIT_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static int take_output(struct cli_arguments *out, const struct raw *raw)
{
    static const char *const names[] = {
        [CLI_TABLE] = "table", [CLI_JSON] = "json", [CLI_YAML] = "yaml"};
    const char *value = raw->values[FLAG_OUTPUT];
    if (value == NULL)
        return CLI_EXIT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(value, names[i]) == 0) {
            out->output = (enum cli_output)i;
            return CLI_EXIT_OK;
        }
    }
    return refuse(raw, CLI_EXIT_INVALID, "--output is '%.64s'; expected table, json or yaml",
                  value);
}

static int take_timeout(struct cli_arguments *out, const struct raw *raw)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;
    const char *value = raw->values[FLAG_TIMEOUT];
    if (value == NULL)
        return CLI_EXIT_OK;
    if (quantity_parse_wait(value, &ns, error) != 0)
        return refuse(raw, CLI_EXIT_INVALID, "--timeout: %s", error);
    const uint64_t ms = ns / MS_NS + (ns % MS_NS != 0);
    if (ms < 1 || ms > TG_TIMEOUT_MS_MAX)
        return refuse(raw, CLI_EXIT_INVALID, "--timeout is '%.64s'; expected 1ms to 1h", value);
    out->timeout_ms = (int)ms;
    return CLI_EXIT_OK;
}

static int take_number(const struct raw *raw, enum flag flag, uint64_t min, uint64_t max,
                       uint64_t *out)
{
    char error[QUANTITY_ERROR_LEN];
    const char *value = raw->values[flag];
    if (value == NULL)
        return CLI_EXIT_OK;
    if (quantity_parse_uint(value, max, out, error) != 0)
        return refuse(raw, CLI_EXIT_INVALID, "--%s: %s", flags[flag].name, error);
    if (*out < min)
        return refuse(raw, CLI_EXIT_INVALID, "--%s is %.64s; expected %llu or more",
                      flags[flag].name, value, (unsigned long long)min);
    return CLI_EXIT_OK;
}

#define COMMA_ALGORITHM(name, number, text) ", " text
static const char algorithm_list[] = ALGORITHM_MAP(COMMA_ALGORITHM);

/* Weeks, months and years have no length of their own. */
static bool unit_is_nominal(const char *rate)
{
    uint64_t number;
    uint64_t unit_ns;
    quantity_rate_window(rate, &number, &unit_ns);
    return unit_ns > DAY_NS;
}

/* The inline limit of --rate, --burst and --algorithm. */
static int take_limit(struct cli_arguments *out, const struct raw *raw)
{
    char error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;
    const bool leases = ((NAMING | BIT(CLI_LEASE)) & BIT(out->command)) != 0;
    struct limit limit = {.algorithm = leases ? ALGORITHM_CONCURRENCY : ALGORITHM_TOKEN_BUCKET};
    const char *algorithm = raw->values[FLAG_ALGORITHM];
    if (quantity_parse_rate(raw->values[FLAG_RATE], &rate, error) != 0)
        return refuse(raw, CLI_EXIT_INVALID, "--rate: %s", error);
    if (algorithm != NULL) {
        const int number = algorithm_parse(algorithm, strlen(algorithm));
        if (number < 0)
            return refuse(raw, CLI_EXIT_INVALID, "--algorithm is '%.64s'; expected one of %s",
                          algorithm, algorithm_list + 2);
        limit.algorithm = (uint8_t)number;
    }
    const int status = take_number(raw, FLAG_BURST, 1, LIMIT_COUNT_MAX, &limit.burst);
    if (status != CLI_EXIT_OK)
        return status;
    limit.count = rate.count;
    limit.window_ns = rate.window_ns;
    if (limit_validate(&limit, error) != 0)
        return refuse(raw, CLI_EXIT_INVALID, "--rate %.64s: %s", raw->values[FLAG_RATE], error);
    if (limit.algorithm == ALGORITHM_FIXED_WINDOW && unit_is_nominal(raw->values[FLAG_RATE]))
        return refuse(raw, CLI_EXIT_INVALID,
                      "--rate is '%.64s'; expected days: a fixed_window of weeks, months or years "
                      "needs a rule with align: calendar",
                      raw->values[FLAG_RATE]);
    out->limit = (tg_limit_t){.algorithm = (tg_algorithm_t)limit.algorithm,
                              .count = limit.count,
                              .window_ns = limit.window_ns,
                              .burst = limit.burst};
    return CLI_EXIT_OK;
}

static int take_attribute(struct cli_arguments *out, const struct raw *raw, const char *word)
{
    const size_t name_len = strcspn(word, "=");
    if (word[name_len] == '\0')
        return refuse(raw, CLI_EXIT_INVALID, "attribute '%.64s' has no '='; expected name=value",
                      word);
    if (name_len == 0)
        return refuse(raw, CLI_EXIT_INVALID, "attribute '%.64s' has no name; expected name=value",
                      word);
    if (name_len > TG_ATTRIBUTE_NAME_MAX)
        return refuse(raw, CLI_EXIT_INVALID,
                      "the attribute name '%.64s...' has %zu bytes; expected at most %d", word,
                      name_len, (int)TG_ATTRIBUTE_NAME_MAX);
    const char *value = word + name_len + 1;
    char *name = out->names[out->attribute_count];
    if (strlen(value) > TG_VALUE_MAX)
        return refuse(raw, CLI_EXIT_INVALID,
                      "the value of attribute '%.*s' has %zu bytes; expected at most %d",
                      (int)name_len, word, strlen(value), (int)TG_VALUE_MAX);
    memcpy(name, word, name_len);
    name[name_len] = '\0';
    for (size_t i = 0; i < out->attribute_count; i++)
        if (strcmp(out->names[i], name) == 0)
            return refuse(raw, CLI_EXIT_INVALID, "attribute '%s' is given twice", name);
    out->attributes[out->attribute_count++] = (tg_attribute_t){name, value, strlen(value)};
    return CLI_EXIT_OK;
}

/* ---- operands -------------------------------------------------------------------------------- */

static int take_inline(struct cli_arguments *out, const struct raw *raw)
{
    const char *key = raw->values[FLAG_KEY];
    if (strlen(key) > TG_VALUE_MAX)
        return refuse(raw, CLI_EXIT_INVALID, "--key has %zu bytes; expected at most %d",
                      strlen(key), (int)TG_VALUE_MAX);
    out->key = key;
    if (raw->values[FLAG_RATE] != NULL)
        return take_limit(out, raw);
    if (raw->values[FLAG_BURST] != NULL || raw->values[FLAG_ALGORITHM] != NULL)
        return refuse(raw, CLI_EXIT_USAGE, "--burst and --algorithm need --rate");
    if (out->command != CLI_OWNER)
        return refuse(raw, CLI_EXIT_USAGE, "--key needs --rate, such as --rate 5/60s");
    return CLI_EXIT_OK;
}

static int take_target(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                       size_t count)
{
    if (raw->values[FLAG_KEY] != NULL) {
        if (count > 0)
            return refuse(raw, CLI_EXIT_USAGE,
                          "found both --key and '%.64s'; expected attributes or an inline key",
                          words[0]);
        return take_inline(out, raw);
    }
    if (raw->values[FLAG_RATE] != NULL || raw->values[FLAG_BURST] != NULL ||
        raw->values[FLAG_ALGORITHM] != NULL)
        return refuse(raw, CLI_EXIT_USAGE, "--rate, --burst and --algorithm need --key");
    if (count == 0)
        return refuse(raw, CLI_EXIT_USAGE, "'%s' needs attributes (name=value)%s",
                      cli_command_name(out->command),
                      out->command == CLI_RULES_EXPLAIN ? "" : " or --key");
    if (count > TG_ATTRIBUTES_MAX)
        return refuse(raw, CLI_EXIT_INVALID, "%zu attributes; expected at most %d", count,
                      (int)TG_ATTRIBUTES_MAX);
    for (size_t i = 0; i < count; i++) {
        const int status = take_attribute(out, raw, words[i]);
        if (status != CLI_EXIT_OK)
            return status;
    }
    return CLI_EXIT_OK;
}

static int take_topic(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                      size_t count)
{
    out->topic = CLI_COMMAND_NONE;
    if (count == 0)
        return CLI_EXIT_OK;
    const size_t used = cli_command_match(words, count, &out->topic);
    if (used == 0) {
        out->topic = cli_command_group(words, count);
        if (out->topic != CLI_COMMAND_NONE)
            return CLI_EXIT_OK;
        cli_command_refuse(words, count, raw->sentence);
        return CLI_EXIT_USAGE;
    }
    if (used < count)
        return refuse(raw, CLI_EXIT_USAGE, "unexpected '%.64s' behind 'help %s'", words[used],
                      cli_command_name(out->topic));
    return CLI_EXIT_OK;
}

static int take_member(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                       size_t count)
{
    const char *region = raw->values[FLAG_REGION];
    const char *name = region != NULL || count == 0 ? region : words[0];
    if (name == NULL)
        return refuse(raw, CLI_EXIT_USAGE, "'remove' needs a NODE, a name or an id, or --region");
    if (name[0] == '\0' || strlen(name) >= CLI_MEMBER_LEN)
        return refuse(raw, CLI_EXIT_INVALID,
                      "the %s '%.64s' has %zu bytes; expected a name or an id of 1 to %d",
                      region != NULL ? "region" : "node", name, strlen(name), CLI_MEMBER_LEN - 1);
    *(region != NULL ? &out->region : &out->member) = name;
    return CLI_EXIT_OK;
}

/* The values of a flag that repeats, gathered into `out`; how many. */
static size_t gather(const struct raw *raw, enum flag flag, const char **out)
{
    size_t count = 0;
    for (size_t i = 0; i < raw->repeated_count; i++)
        if (raw->repeated_flag[i] == flag)
            out[count++] = raw->repeated[i];
    return count;
}

static int take_replay(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                       size_t count)
{
    const char *maps[REPEATED_MAX];
    const char *sets[REPEATED_MAX];
    const struct cli_replay_words given = {
        .files = words,
        .file_count = count,
        .rules = raw->values[FLAG_RULES],
        .format = raw->values[FLAG_FORMAT],
        .time_field = raw->values[FLAG_TIME_FIELD],
        .cost_field = raw->values[FLAG_COST_FIELD],
        .proxies = raw->values[FLAG_PROXIES],
        .reorder = raw->values[FLAG_REORDER],
        .top = raw->values[FLAG_TOP],
        .suggest = raw->values[FLAG_SUGGEST],
        .spread = raw->values[FLAG_SPREAD] != NULL,
        .maps = maps,
        .map_count = gather(raw, FLAG_MAP, maps),
        .sets = sets,
        .set_count = gather(raw, FLAG_SET, sets),
    };
    return cli_replay_arguments(&out->replay, &given, raw->sentence);
}

static int take_rule(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                     size_t count)
{
    char error[QUANTITY_ERROR_LEN];
    if (out->command == CLI_RULES_SHOW && raw->values[FLAG_OF_VERSION] != NULL && count > 0)
        return refuse(raw, CLI_EXIT_USAGE, "a NAME and --of-version exclude each other");
    if (count == 0 && out->command == CLI_RULES_DELETE)
        return refuse(raw, CLI_EXIT_USAGE, "'rules delete' needs the NAME of a rule");
    if (count == 0 && out->command == CLI_RULES_ROLLBACK)
        return refuse(raw, CLI_EXIT_USAGE, "'rules rollback' needs a VERSION of `rules history`");
    if (out->command == CLI_RULES_ROLLBACK) {
        if (quantity_parse_uint(words[0], UINT32_MAX, &out->version, error) != 0)
            return refuse(raw, CLI_EXIT_INVALID, "VERSION: %s", error);
    } else if (count > 0 && out->command != CLI_RULES_HISTORY) {
        out->name = words[0];
    }
    return CLI_EXIT_OK;
}

static int take_time(struct cli_arguments *out, const struct raw *raw)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns;
    const char *span = raw->values[FLAG_FOR];
    const char *until = raw->values[FLAG_UNTIL];
    if (span != NULL && until != NULL)
        return refuse(raw, CLI_EXIT_USAGE, "--for and --until exclude each other");
    if (span != NULL) {
        if (quantity_parse_duration(span, &ns, error) != 0)
            return refuse(raw, CLI_EXIT_INVALID, "--for: %s", error);
        out->for_ms = ns / MS_NS + (ns % MS_NS != 0);
    }
    const char *wrong = until != NULL ? log_time_date(until, strlen(until), &out->until_ms) : NULL;
    if (wrong != NULL)
        return refuse(raw, CLI_EXIT_INVALID,
                      "--until is '%.64s': %s; expected a time like 2026-12-31T18:00:00Z, a day "
                      "like 2026-12-31 (in UTC), or seconds since 1970",
                      until, wrong);
    return CLI_EXIT_OK;
}

static int take_blocked(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                        size_t count)
{
    out->key = raw->values[FLAG_KEY];
    if (out->key == NULL && count == 0)
        return refuse(raw, CLI_EXIT_USAGE, "'%s' needs attr=value, a CIDR or --key",
                      cli_command_name(out->command));
    if (out->key != NULL && strlen(out->key) > TG_VALUE_MAX)
        return refuse(raw, CLI_EXIT_INVALID, "--key has %zu bytes; expected at most %d",
                      strlen(out->key), (int)TG_VALUE_MAX);
    if (out->key == NULL)
        out->target = words[0];
    return take_time(out, raw);
}

/* A text of at most `max` bytes, if it is given. */
static int take_text(const struct raw *raw, enum flag flag, size_t max, const char **out)
{
    const char *value = raw->values[flag];
    *out = value;
    if (value != NULL && (value[0] == '\0' || strlen(value) > max))
        return refuse(raw, CLI_EXIT_INVALID, "--%s has %zu bytes; expected 1 to %zu",
                      flags[flag].name, strlen(value), max);
    return CLI_EXIT_OK;
}

/* The own limits given, apart by spaces, and the burst; the node judges each. */
static int take_limits(struct cli_quota *quota, const struct raw *raw)
{
    const char *limits[REPEATED_MAX];
    const size_t count = gather(raw, FLAG_LIMIT, limits);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t more = strlen(limits[i]);
        if (more == 0 || strchr(limits[i], ' ') != NULL || more >= CLI_LIMITS_LEN - 1 - len)
            return refuse(raw, CLI_EXIT_INVALID,
                          "--limit is '%.64s'; expected a rate of one unit, such as 500/h",
                          limits[i]);
        if (len > 0)
            quota->limits[len++] = ' ';
        memcpy(quota->limits + len, limits[i], more + 1);
        len += more;
    }
    return take_number(raw, FLAG_BURST, 1, TG_COST_MAX, &quota->burst);
}

/* What an API key is to be, or which one is meant: a key itself is cut to its id, so that it goes
 * nowhere. */
static int take_api_key(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                        size_t count)
{
    int status = take_text(raw, FLAG_NAME, API_KEY_NAME_LEN_MAX, &out->name);
    if (status == CLI_EXIT_OK)
        status = take_text(raw, FLAG_OWNER, API_KEY_OWNER_LEN_MAX, &out->owner);
    if (status == CLI_EXIT_OK)
        status = take_text(raw, FLAG_TIER, API_KEY_TIER_LEN_MAX, &out->tier);
    if (status == CLI_EXIT_OK)
        status = take_text(raw, FLAG_AFTER, API_KEY_NAME_LEN_MAX, &out->after);
    if (status == CLI_EXIT_OK)
        status = take_limits(&out->quota, raw);
    if (status == CLI_EXIT_OK)
        status = take_time(out, raw);
    if (status != CLI_EXIT_OK || (NAMING_KEYS & BIT(out->command)) == 0)
        return status;
    if (count == 0)
        return refuse(raw, CLI_EXIT_USAGE, "'%s' needs a KEY: its id or its name",
                      cli_command_name(out->command));
    if (words[0][0] == '\0' || strlen(words[0]) > API_KEY_NAME_LEN_MAX)
        return refuse(raw, CLI_EXIT_INVALID,
                      "KEY has %zu bytes; expected an id or a name of 1 to %d", strlen(words[0]),
                      (int)API_KEY_NAME_LEN_MAX);
    out->name = words[0];
    out->name_len = strlen(words[0]);
    if (out->name_len == API_KEY_LEN &&
        memcmp(words[0], API_KEY_PREFIX, strlen(API_KEY_PREFIX)) == 0) {
        out->name += strlen(API_KEY_PREFIX);
        out->name_len = API_KEY_ID_LEN;
    }
    return CLI_EXIT_OK;
}

static int take_quota_flags(struct cli_arguments *out, const struct raw *raw)
{
    struct cli_quota *quota = &out->quota;
    const bool timed = raw->values[FLAG_FOR] != NULL || raw->values[FLAG_UNTIL] != NULL;
    quota->tier = raw->values[FLAG_TIER];
    quota->block = raw->values[FLAG_BLOCK];
    quota->notes = raw->values[FLAG_NOTES];
    quota->unblock = raw->values[FLAG_UNBLOCK] != NULL;
    quota->clear = raw->values[FLAG_CLEAR] != NULL;
    if (quota->block != NULL && quota->unblock)
        return refuse(raw, CLI_EXIT_USAGE, "--block and --unblock exclude each other");
    if (timed && quota->block == NULL)
        return refuse(raw, CLI_EXIT_USAGE,
                      "--for and --until say when a --block ends; expected it");
    const int status = take_limits(quota, raw);
    return status == CLI_EXIT_OK ? take_time(out, raw) : status;
}

/* The USER of `quota`, and what is to be set; `quota reset` is a reset of what he counts by. */
static int take_quota(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                      size_t count)
{
    if (out->command == CLI_QUOTA_LIST)
        return take_text(raw, FLAG_AFTER, TG_VALUE_MAX, &out->after);
    if (count == 0)
        return refuse(raw, CLI_EXIT_USAGE, "'%s' needs a USER", cli_command_name(out->command));
    if (words[0][0] == '\0' || strlen(words[0]) > TG_VALUE_MAX)
        return refuse(raw, CLI_EXIT_INVALID, "USER has %zu bytes; expected 1 to %d",
                      strlen(words[0]), (int)TG_VALUE_MAX);
    out->quota.user = words[0];
    out->attributes[0] = (tg_attribute_t){"user", words[0], strlen(words[0])};
    out->attribute_count = 1;
    return out->command == CLI_QUOTA_SET ? take_quota_flags(out, raw) : CLI_EXIT_OK;
}

/* The NAME of a pool. */
static int take_pool_name(const struct cli_arguments *out, const struct raw *raw,
                          const char *const *words, size_t count)
{
    if (count == 0)
        return refuse(raw, CLI_EXIT_USAGE, "'%s' needs a NAME, that of a pool",
                      cli_command_name(out->command));
    if (words[0][0] == '\0' || strlen(words[0]) >= CLI_POOL_LEN)
        return refuse(raw, CLI_EXIT_INVALID,
                      "the pool '%.64s' has %zu bytes; expected a name of 1 to %d", words[0],
                      strlen(words[0]), CLI_POOL_LEN - 1);
    return CLI_EXIT_OK;
}

/* The NAME and the --load of `pools report`. */
static int take_pool_load(struct cli_arguments *out, const struct raw *raw,
                          const char *const *words, size_t count)
{
    const char *load = raw->values[FLAG_LOAD];
    char *end = NULL;
    const int status = take_pool_name(out, raw, words, count);
    if (status != CLI_EXIT_OK)
        return status;
    if (load == NULL)
        return refuse(raw, CLI_EXIT_USAGE, "'pools report' needs --load, a number from 0 to 1");
    out->pool = words[0];
    out->load = strtod(load, &end);
    if (end == load || *end != '\0' || strspn(load, "0123456789.") != strlen(load) || out->load > 1)
        return refuse(raw, CLI_EXIT_INVALID, "--load is '%.64s'; expected a number from 0 to 1",
                      load);
    return CLI_EXIT_OK;
}

/* The NAME of `pools set`, and what of the pool is to be changed. */
static int take_pool_edit(struct cli_arguments *out, const struct raw *raw,
                          const char *const *words, size_t count)
{
    const struct pool_flags given = {
        .rate = raw->values[FLAG_RATE],
        .load_max = raw->values[FLAG_LOAD_MAX],
        .reserve = raw->values[FLAG_RESERVE],
        .scope = raw->values[FLAG_SCOPE],
        .home = raw->values[FLAG_HOME],
    };
    char sentence[CLI_SENTENCE_LEN];
    int status = take_pool_name(out, raw, words, count);
    if (status != CLI_EXIT_OK)
        return status;
    out->pool_edit.name = words[0];
    status = cli_read_pool_flags(&given, &out->pool_edit, sentence);
    return status == CLI_EXIT_OK ? status : refuse(raw, status, "%s", sentence);
}

static int take_operands(struct cli_arguments *out, const struct raw *raw, const char *const *words,
                         size_t count)
{
    if ((KEYED & BIT(out->command)) != 0 || out->command == CLI_RULES_EXPLAIN)
        return take_target(out, raw, words, count);
    if (out->command == CLI_HELP)
        return take_topic(out, raw, words, count);
    if (out->command == CLI_REPLAY)
        return take_replay(out, raw, words, count);
    int status = CLI_EXIT_OK;
    size_t wanted = 0;
    if ((FILED & BIT(out->command)) != 0) {
        if (count == 0)
            return refuse(raw, CLI_EXIT_USAGE, "'%s' needs a FILE", cli_command_name(out->command));
        out->file = words[0];
        wanted = 1;
    } else if (out->command == CLI_REMOVE) {
        status = take_member(out, raw, words, count);
        wanted = out->member != NULL;
    } else if (out->command >= CLI_RULES_SHOW && out->command <= CLI_RULES_ROLLBACK) {
        status = take_rule(out, raw, words, count);
        wanted = out->command != CLI_RULES_HISTORY;
    } else if ((BLOCKING & BIT(out->command)) != 0) {
        status = take_blocked(out, raw, words, count);
        wanted = out->key == NULL;
    } else if (out->command >= CLI_APIKEY_CREATE && out->command <= CLI_APIKEY_DELETE) {
        status = take_api_key(out, raw, words, count);
        wanted = (NAMING_KEYS & BIT(out->command)) != 0;
    } else if (out->command >= CLI_QUOTA_SET && out->command <= CLI_QUOTA_RESET) {
        status = take_quota(out, raw, words, count);
        wanted = out->command != CLI_QUOTA_LIST;
    } else if (out->command == CLI_POOLS_REPORT || out->command == CLI_POOLS_SET) {
        status = out->command == CLI_POOLS_SET ? take_pool_edit(out, raw, words, count)
                                               : take_pool_load(out, raw, words, count);
        wanted = 1;
    }
    if (status != CLI_EXIT_OK)
        return status;
    if (count > wanted)
        return refuse(raw, CLI_EXIT_USAGE, "unexpected '%.64s' behind '%s'", words[wanted],
                      cli_command_name(out->command));
    return CLI_EXIT_OK;
}

static int take_lease(struct cli_arguments *out, const struct raw *raw)
{
    enum { LEASE_LEN = 16 };
    const char *value = raw->values[FLAG_LEASE];
    if ((NAMING & BIT(out->command)) == 0)
        return CLI_EXIT_OK;
    if (value == NULL)
        return refuse(raw, CLI_EXIT_USAGE, "'%s' needs --lease ID, as the admission gave it",
                      cli_command_name(out->command));
    if (strlen(value) != LEASE_LEN || strspn(value, "0123456789abcdef") != LEASE_LEN)
        return refuse(raw, CLI_EXIT_INVALID, "--lease is '%.64s'; expected %d hexadecimal digits",
                      value, LEASE_LEN);
    out->lease_id = strtoull(value, NULL, LEASE_LEN);
    return take_number(raw, FLAG_USED, 0, TG_COST_MAX, &out->used);
}

static int take_values(struct cli_arguments *out, const struct raw *raw)
{
    int status = take_output(out, raw);
    if (status == CLI_EXIT_OK)
        status = take_timeout(out, raw);
    if (status == CLI_EXIT_OK)
        status = take_number(raw, FLAG_COST, 0, TG_COST_MAX, &out->cost);
    if (status == CLI_EXIT_OK)
        status = take_number(raw, FLAG_REPEAT, 1, CLI_REPEAT_MAX, &out->repeat);
    if (status == CLI_EXIT_OK)
        status = take_lease(out, raw);
    if (status == CLI_EXIT_OK && raw->values[FLAG_WAIT] != NULL &&
        strcmp(raw->values[FLAG_WAIT], "healthy") != 0)
        return refuse(raw, CLI_EXIT_INVALID, "--wait is '%.64s'; expected healthy",
                      raw->values[FLAG_WAIT]);
    out->all_members = wants_all_members(raw);
    if (status == CLI_EXIT_OK && !out->all_members)
        status = take_number(raw, FLAG_MEMBERS, 1, UINT16_MAX, &out->members);
    out->node = raw->values[FLAG_NODE];
    out->endpoints = raw->values[FLAG_ENDPOINT];
    out->watch = raw->values[FLAG_WATCH] != NULL;
    out->regions = raw->values[FLAG_REGIONS] != NULL;
    out->all = raw->values[FLAG_ALL] != NULL;
    out->wait_healthy = raw->values[FLAG_WAIT] != NULL;
    out->force = raw->values[FLAG_FORCE] != NULL;
    out->no_wait = raw->values[FLAG_NO_WAIT] != NULL;
    out->at_most = raw->values[FLAG_AT_MOST] != NULL;
    out->explain = raw->values[FLAG_EXPLAIN] != NULL;
    out->file = raw->values[FLAG_RULES];
    out->dry_run = raw->values[FLAG_DRY_RUN] != NULL;
    out->yes = raw->values[FLAG_YES] != NULL;
    out->author = raw->values[FLAG_AUTHOR];
    out->note = raw->values[FLAG_NOTE];
    out->reason = raw->values[FLAG_REASON];
    if (status == CLI_EXIT_OK)
        status = take_number(raw, FLAG_OF_VERSION, 1, UINT32_MAX, &out->version);
    return status;
}

int cli_arguments_parse(struct cli_arguments *out, int argc, const char *const *argv,
                        char *sentence)
{
    struct raw raw = {.sentence = sentence};
    memset(out, 0, sizeof *out);
    *out = (struct cli_arguments){
        .command = CLI_COMMAND_NONE, .topic = CLI_COMMAND_NONE, .cost = 1, .repeat = 1};
    int status = split(&raw, argc, argv);
    const size_t used = cli_command_match(raw.words, raw.word_count, &out->command);
    if (status != CLI_EXIT_OK)
        return status;
    if (raw.values[FLAG_HELP] != NULL) {
        out->topic = used == 0                  ? cli_command_group(raw.words, raw.word_count)
                     : out->command == CLI_HELP ? CLI_COMMAND_NONE
                                                : out->command;
        out->command = CLI_HELP;
        return CLI_EXIT_OK;
    }
    if (raw.values[FLAG_VERSION] != NULL) {
        out->command = CLI_VERSION;
        return take_output(out, &raw);
    }
    if (used == 0) {
        cli_command_refuse(raw.words, raw.word_count, sentence);
        return CLI_EXIT_USAGE;
    }
    status = check_flags(&raw, out->command);
    if (status == CLI_EXIT_OK)
        status = take_values(out, &raw);
    if (status == CLI_EXIT_OK)
        status = take_operands(out, &raw, raw.words + used, raw.word_count - used);
    return status;
}

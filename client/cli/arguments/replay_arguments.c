/* replay_arguments.c - what `tidegate replay` was asked for, understood or refused. */
#include "client/cli/arguments/replay_arguments.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "client/cli/arguments/arguments.h"
#include "client/replay/replay.h"

#define SECOND_NS UINT64_C(1000000000)

__attribute__((format(printf, 3, 4))) static int refuse(char *sentence, int status,
                                                        const char *format, ...)
{
    ASSERT(status != CLI_EXIT_OK);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, CLI_SENTENCE_LEN, format, arguments);
    va_end(arguments);
    return status;
}

static struct policy_text text_of(const char *word)
{
    return (struct policy_text){word, word != NULL ? strlen(word) : 0};
}

static int take_format(struct cli_replay *out, const char *word, char *sentence)
{
    static const char *const names[] = {
        [LOG_AUTO] = "auto", [LOG_COMBINED] = "combined", [LOG_XFF] = "xff", [LOG_JSON] = "json"};
    for (size_t i = 0; word != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i]) == 0) {
            out->log.format = (enum log_format)i;
            return CLI_EXIT_OK;
        }
    }
    return word == NULL ? CLI_EXIT_OK
                        : refuse(sentence, CLI_EXIT_INVALID,
                                 "--format is '%.64s'; expected auto, combined, xff or json", word);
}

static bool is_attribute(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyz0123456789_.-", name[i]) == NULL || name[i] == '\0')
            return false;
    return len > 0 && len <= POLICY_ATTRIBUTE_NAME_LEN_MAX;
}

/* `NAME=VALUE` pairs of --map or --set. */
static int take_pairs(const char *flag, const char *const *words, size_t count,
                      struct log_pair *pairs, size_t *pair_count, char *sentence)
{
    if (count > LOG_PAIRS_MAX)
        return refuse(sentence, CLI_EXIT_INVALID, "%zu times %s; expected at most %d", count, flag,
                      (int)LOG_PAIRS_MAX);
    for (size_t i = 0; i < count; i++) {
        const size_t len = strcspn(words[i], "=");
        const char *value = words[i] + len + 1;
        if (words[i][len] == '\0' || !is_attribute(words[i], len) || value[0] == '\0')
            return refuse(sentence, CLI_EXIT_INVALID,
                          "%s is '%.64s'; expected NAME=%s, the name of a-z 0-9 _ . -", flag,
                          words[i], strcmp(flag, "--map") == 0 ? "FIELD" : "VALUE");
        if (strlen(value) > POLICY_VALUE_LEN_MAX)
            return refuse(sentence, CLI_EXIT_INVALID,
                          "the value of %s %.*s has %zu bytes; expected at most %d", flag, (int)len,
                          words[i], strlen(value), (int)POLICY_VALUE_LEN_MAX);
        for (size_t k = 0; k < i; k++)
            if (pairs[k].name.len == len && memcmp(pairs[k].name.data, words[i], len) == 0)
                return refuse(sentence, CLI_EXIT_INVALID, "%s names '%.*s' twice", flag, (int)len,
                              words[i]);
        ASSERT(*pair_count == i && i < LOG_PAIRS_MAX);
        pairs[(*pair_count)++] = (struct log_pair){{words[i], len}, text_of(value)};
    }
    return CLI_EXIT_OK;
}

/* Lines that are no JSON have a fixed set of fields: a name that is none of them would never be
 * there, which is a slip of the pen and not a wish. */
static int check_fields(const struct cli_replay *out, char *sentence)
{
    static const char query[] = "query.";
    if (out->log.format != LOG_COMBINED && out->log.format != LOG_XFF)
        return CLI_EXIT_OK;
    ASSERT(out->log.map_count <= LOG_PAIRS_MAX);
    for (size_t i = 0; i <= out->log.map_count; i++) {
        const struct policy_text field =
            i < out->log.map_count ? out->log.maps[i].value : out->log.cost_field;
        const bool parameter =
            field.len > sizeof query - 1 && memcmp(field.data, query, sizeof query - 1) == 0;
        if (field.len > 0 && !parameter && !log_field_known(field.data, field.len))
            return refuse(sentence, CLI_EXIT_INVALID,
                          "'%.64s' is no field of this format; expected ip, remote_addr, user, "
                          "method, api, target, query, query.NAME, status, bytes, host, referer, "
                          "user_agent or protocol",
                          field.data);
    }
    return CLI_EXIT_OK;
}

static int take_uint(const char *flag, const char *word, uint64_t min, uint64_t max, uint32_t *out,
                     char *sentence)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t value = 0;
    ASSERT(min <= max && max <= UINT32_MAX);
    if (word == NULL)
        return CLI_EXIT_OK;
    if (quantity_parse_uint(word, max, &value, error) != 0)
        return refuse(sentence, CLI_EXIT_INVALID, "%s: %s", flag, error);
    if (value < min)
        return refuse(sentence, CLI_EXIT_INVALID, "%s is %.64s; expected %llu or more", flag, word,
                      (unsigned long long)min);
    *out = (uint32_t)value;
    return CLI_EXIT_OK;
}

static int take_reorder(struct cli_replay *out, const char *word, char *sentence)
{
    char error[QUANTITY_ERROR_LEN];
    uint64_t ns = 0;
    out->reorder_ns = REPLAY_REORDER_NS;
    if (word == NULL)
        return CLI_EXIT_OK;
    if (strcmp(word, "0") != 0 && quantity_parse_wait(word, &ns, error) != 0)
        return refuse(sentence, CLI_EXIT_INVALID, "--reorder: %s", error);
    if (ns > REPLAY_REORDER_MAX_S * SECOND_NS)
        return refuse(sentence, CLI_EXIT_INVALID, "--reorder is '%.64s'; expected 0 to %ds", word,
                      (int)REPLAY_REORDER_MAX_S);
    out->reorder_ns = (int64_t)ns;
    return CLI_EXIT_OK;
}

/* A share such as 0.1% or 0, of up to four digits behind the point. */
static int take_share(struct cli_replay *out, const char *word, char *sentence)
{
    enum { PERCENT_PPM = 10000 };
    if (word == NULL)
        return CLI_EXIT_OK;
    uint64_t ppm = 0;
    size_t at = 0;
    uint64_t unit = PERCENT_PPM;
    bool digits = false;
    for (; word[at] >= '0' && word[at] <= '9' && ppm <= 100 * PERCENT_PPM; at++, digits = true)
        ppm = ppm * 10 + (uint64_t)(word[at] - '0') * PERCENT_PPM;
    if (word[at] == '.')
        for (at++; word[at] >= '0' && word[at] <= '9' && unit >= 10; at++)
            ppm += (uint64_t)(word[at] - '0') * (unit /= 10);
    const bool end = word[at] == '\0' || (word[at] == '%' && word[at + 1] == '\0');
    if (!digits || !end || ppm > 100 * PERCENT_PPM)
        return refuse(sentence, CLI_EXIT_INVALID,
                      "--suggest is '%.64s'; expected a share of the callers such as 0.1%%", word);
    out->suggest = true;
    out->suggest_ppm = (uint32_t)ppm;
    return CLI_EXIT_OK;
}

static int take_files(struct cli_replay *out, const struct cli_replay_words *words, char *sentence)
{
    if (words->file_count == 0)
        return refuse(sentence, CLI_EXIT_USAGE,
                      "'replay' needs a LOGFILE, or - for standard input");
    if (words->rules == NULL)
        return refuse(sentence, CLI_EXIT_USAGE, "'replay' needs --rules FILE");
    if (words->file_count > CLI_LOGS_MAX)
        return refuse(sentence, CLI_EXIT_INVALID, "%zu files; expected at most %d",
                      words->file_count, (int)CLI_LOGS_MAX);
    size_t inputs = strcmp(words->rules, "-") == 0;
    for (size_t i = 0; i < words->file_count; i++) {
        ASSERT(i < CLI_LOGS_MAX);
        out->files[i] = words->files[i];
        inputs += strcmp(words->files[i], "-") == 0;
    }
    out->file_count = words->file_count;
    out->rules = words->rules;
    return inputs > 1 ? refuse(sentence, CLI_EXIT_USAGE, "standard input (-) is named twice")
                      : CLI_EXIT_OK;
}

int cli_replay_arguments(struct cli_replay *out, const struct cli_replay_words *words,
                         char *sentence)
{
    struct log_options *log = &out->log;
    *out = (struct cli_replay){.top = 5, .spread = words->spread};
    log->time_field = text_of(words->time_field);
    log->cost_field = text_of(words->cost_field);
    int status = take_files(out, words, sentence);
    if (status == CLI_EXIT_OK)
        status = take_format(out, words->format, sentence);
    if (status == CLI_EXIT_OK)
        status = take_pairs("--map", words->maps, words->map_count, log->maps, &log->map_count,
                            sentence);
    if (status == CLI_EXIT_OK)
        status = take_pairs("--set", words->sets, words->set_count, log->sets, &log->set_count,
                            sentence);
    if (status == CLI_EXIT_OK)
        status = check_fields(out, sentence);
    if (status == CLI_EXIT_OK)
        status =
            take_uint("--proxies", words->proxies, 1, LOG_PROXIES_MAX, &log->proxies, sentence);
    if (status == CLI_EXIT_OK)
        status = take_uint("--top", words->top, 1, REPLAY_TOP_MAX, &out->top, sentence);
    if (status == CLI_EXIT_OK)
        status = take_reorder(out, words->reorder, sentence);
    if (status == CLI_EXIT_OK)
        status = take_share(out, words->suggest, sentence);
    return status;
}

/* resp_check.c - checks by rules from Redis clients; resp_check.h has their form.
 *
 * Options are read from behind, in any order: PEEK and MESSAGE are one word, COST has its number
 * behind it. What is left are attributes, so an even number of words: a word that only looks like
 * an option, as the value of an attribute, is told from one by that. Of two ways to read the words
 * the one with fewer attributes is meant, so an attribute called `cost` is given before another
 * one.
 */
#include "node/gateway/resp_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/gateway/throttle.h"

enum { SHOWN_LEN = 64, OPTIONS_MAX = 8 };

bool resp_is_word(struct wire_text text, const char *word)
{
    size_t i = 0;
    for (; i < text.len && word[i] != '\0'; i++) {
        const char c = text.data[i];
        if ((c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c) != word[i])
            return false;
    }
    return i == text.len && word[i] == '\0';
}

static int shown(struct wire_text text)
{
    return text.len < SHOWN_LEN ? (int)text.len : SHOWN_LEN;
}

__attribute__((format(printf, 2, 3))) static int refuse(char *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error, RESP_CHECK_ERROR_LEN, format, arguments);
    va_end(arguments);
    return TG_EINVALID;
}

static int read_cost(struct wire_text text, uint64_t *cost, char *error)
{
    int64_t value;
    if (throttle_read_integer(text, &value) && value >= 0 && (uint64_t)value <= WIRE_COST_MAX) {
        *cost = (uint64_t)value;
        return 0;
    }
    return refuse(error, "ERR COST: found '%.*s', expected a whole number from 0 to %" PRIu64,
                  shown(text), text.data, (uint64_t)WIRE_COST_MAX);
}

/* What was found at the end of the words. */
struct options {
    uint32_t rest; /* words in front of them */
    uint32_t peeks;
    uint32_t messages;
    uint32_t statuses;
    uint32_t costs;
    struct wire_text cost;
};

/* Takes one option from the end; `pairs`: a COST before a single word, where it may be either. */
static bool take_option(const struct wire_text *words, bool pairs, struct options *options)
{
    const struct wire_text *end = words + options->rest;
    const bool cost = options->rest >= 2 && resp_is_word(end[-2], "COST");
    const bool peek = options->rest >= 1 && resp_is_word(end[-1], "PEEK");
    const bool message = options->rest >= 1 && resp_is_word(end[-1], "MESSAGE");
    const bool status = options->rest >= 1 && resp_is_word(end[-1], "STATUS");
    const bool alone = peek || message || status;
    if (cost && (pairs || !alone)) {
        options->costs++;
        options->cost = end[-1];
        options->rest -= 2;
        return true;
    }
    options->peeks += peek;
    options->messages += message;
    options->statuses += status;
    options->rest -= alone;
    return alone;
}

/* The most options that leave whole attributes; `rest` is odd if there is no such way. */
static struct options find_options(const struct wire_text *words, uint32_t count)
{
    struct options best = {.rest = count};
    for (unsigned pairs = 0; pairs < 2; pairs++) {
        struct options options = {.rest = count};
        for (uint32_t i = 0; i < OPTIONS_MAX && take_option(words, pairs != 0, &options); i++)
            if (options.rest % 2 == 0 && (best.rest % 2 == 1 || options.rest < best.rest))
                best = options;
    }
    return best;
}

/* Takes options from the end of `words`; *count is what is left. */
static int read_options(const struct wire_text *words, uint32_t *count, struct resp_check *out,
                        char *error)
{
    const struct options options = find_options(words, *count);
    out->cost = 1;
    if (options.rest % 2 == 1)
        return refuse(error, "ERR '%.*s': expected a value behind each attribute",
                      shown(words[*count - 1]), words[*count - 1].data);
    if (options.peeks > 1 || options.costs > 1 || options.messages > 1 || options.statuses > 1)
        return refuse(error,
                      "ERR %s: found it twice, expected it once (an attribute of that name "
                      "is given before another one)",
                      options.costs > 1      ? "COST"
                      : options.peeks > 1    ? "PEEK"
                      : options.messages > 1 ? "MESSAGE"
                                             : "STATUS");
    if (options.peeks > 0 && out->operation != OPERATION_CHECK)
        return refuse(error, "ERR PEEK: expected it with TG.CHECK alone");
    if (options.costs > 0 && out->operation == OPERATION_RESET)
        return refuse(error, "ERR COST: expected none with TG.RESET, which gives all back");
    if (options.peeks > 0)
        out->operation = OPERATION_PEEK;
    out->says = options.messages > 0;
    out->tells = options.statuses > 0;
    *count = options.rest;
    return options.costs > 0 ? read_cost(options.cost, &out->cost, error) : 0;
}

static bool name_repeated(const struct resp_check *check, uint32_t at)
{
    const struct wire_text name = check->names[at];
    for (uint32_t i = 0; i < at; i++)
        if (check->names[i].len == name.len &&
            memcmp(check->names[i].data, name.data, name.len) == 0)
            return true;
    return false;
}

static int check_attribute(const struct resp_check *check, uint32_t at, char *error)
{
    const struct wire_text name = check->names[at];
    const struct wire_text value = check->values[at];
    if (name.len == 0 || name.len > WIRE_ATTRIBUTE_LEN_MAX ||
        memchr(name.data, 0, name.len) != NULL)
        (void)snprintf(error, RESP_CHECK_ERROR_LEN,
                       "ERR attribute %" PRIu32 ": found a name of %zu bytes, expected 1 to %d, "
                       "none of them 0",
                       at + 1, name.len, WIRE_ATTRIBUTE_LEN_MAX);
    else if (name_repeated(check, at))
        (void)snprintf(error, RESP_CHECK_ERROR_LEN, "ERR attribute '%.*s': found it twice",
                       shown(name), name.data);
    else if (value.len > WIRE_VALUE_MAX)
        (void)snprintf(error, RESP_CHECK_ERROR_LEN,
                       "ERR attribute '%.*s': found a value of %zu bytes, expected at most %d",
                       shown(name), name.data, value.len, WIRE_VALUE_MAX);
    else
        return 0;
    return TG_EINVALID;
}

int resp_check_read(const struct resp_request *request, enum operation operation,
                    struct resp_check *out, char error[RESP_CHECK_ERROR_LEN])
{
    const struct wire_text *words = request->arguments + 1;
    uint32_t count = request->count - 1;
    out->operation = (uint8_t)operation;
    out->says = false;
    out->tells = false;
    if (count > 0 && read_options(words, &count, out, error) != 0)
        return TG_EINVALID;
    if (count == 0 || count > 2 * WIRE_ATTRIBUTES_MAX) {
        (void)snprintf(error, RESP_CHECK_ERROR_LEN,
                       "ERR found %" PRIu32 " attributes, expected 1 to %d with a value each",
                       count / 2, WIRE_ATTRIBUTES_MAX);
        return TG_EINVALID;
    }
    out->count = count / 2;
    for (uint32_t i = 0; i < out->count; i++) {
        out->names[i] = words[2 * i];
        out->values[i] = words[2 * i + 1];
        if (check_attribute(out, i, error) != 0)
            return TG_EINVALID;
    }
    return 0;
}

/* What is said of what is not allowed. */
static void put_message(const struct wire_decision *decision, struct gateway_out *out)
{
    const struct wire_source *source = decision->source;
    if (source != NULL && source->message.len > 0)
        resp_put_bulk(out, source->message.data, source->message.len);
    else
        resp_put_text(out, decision->allowed ? "" : outcome_sentence(decision->outcome));
}

void resp_check_answer(const struct wire_decision *decision, bool says, bool tells,
                       struct gateway_out *out)
{
    const struct throttle_figures figures = {
        .limited = !decision->allowed,
        .limit = decision->limit,
        .remaining = decision->remaining,
        .retry_ms = decision->retry_after_ms,
        .reset_ms = decision->reset_after_ms,
    };
    const struct wire_source *source = decision->source;
    resp_put_array(out, 7U + says + tells);
    throttle_put_figures(&figures, out);
    resp_put_text(out, outcome_name(decision->outcome));
    resp_put_bulk(out, source != NULL ? source->rule.data : "",
                  source != NULL ? source->rule.len : 0);
    if (says)
        put_message(decision, out);
    if (tells)
        resp_put_integer(out, source != NULL ? source->status : 0);
}

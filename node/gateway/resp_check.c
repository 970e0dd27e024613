/* resp_check.c - checks by rules from Redis clients; resp_check.h has their form.
 *
 * The words are read from behind: a last word without a partner is PEEK, and a last pair may be
 * COST with its number. What is left are attributes. So it never depends on values what a word
 * means, and a client may send names and values as they come.
 */
#include "node/gateway/resp_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/gateway/throttle.h"

enum { SHOWN_LEN = 64 };

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

static int read_cost(struct wire_text text, uint64_t *cost, char *error)
{
    int64_t value;
    if (throttle_read_integer(text, &value) && value >= 0 && (uint64_t)value <= WIRE_COST_MAX) {
        *cost = (uint64_t)value;
        return 0;
    }
    (void)snprintf(error, RESP_CHECK_ERROR_LEN,
                   "ERR COST: found '%.*s', expected a whole number from 0 to %" PRIu64,
                   shown(text), text.data, (uint64_t)WIRE_COST_MAX);
    return TG_EINVALID;
}

/* Takes options from the end of `words`; *count is what is left. */
static int read_options(const struct wire_text *words, uint32_t *count, struct resp_check *out,
                        char *error)
{
    out->cost = 1;
    if (*count % 2 == 1) {
        if (out->operation != OPERATION_CHECK || !resp_is_word(words[*count - 1], "PEEK")) {
            (void)snprintf(error, RESP_CHECK_ERROR_LEN,
                           "ERR '%.*s': expected a value behind each attribute",
                           shown(words[*count - 1]), words[*count - 1].data);
            return TG_EINVALID;
        }
        out->operation = OPERATION_PEEK;
        (*count)--;
    }
    if (*count < 2 || out->operation == OPERATION_RESET || !resp_is_word(words[*count - 2], "COST"))
        return 0;
    *count -= 2;
    return read_cost(words[*count + 1], &out->cost, error);
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

void resp_check_answer(const struct wire_decision *decision, struct resp_writer *out)
{
    const struct throttle_figures figures = {
        .limited = !decision->allowed,
        .limit = decision->limit,
        .remaining = decision->remaining,
        .retry_ms = decision->retry_after_ms,
        .reset_ms = decision->reset_after_ms,
    };
    const struct wire_source *source = decision->source;
    resp_put_array(out, 7);
    throttle_put_figures(&figures, out);
    resp_put_text(out, outcome_name(decision->outcome));
    resp_put_bulk(out, source != NULL ? source->rule.data : "",
                  source != NULL ? source->rule.len : 0);
}

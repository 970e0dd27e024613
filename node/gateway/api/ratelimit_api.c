/* ratelimit_api.c - see ratelimit_api.h. */
#include "node/gateway/api/ratelimit_api.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/api/json_reader.h"
#include "node/gateway/batches.h"
#include "node/gateway/ratelimit/ratelimit.h"

#define NS_PER_S INT64_C(1000000000)

enum {
    STATUS_OK = 200,
    STATUS_BAD = 400,
    STATUS_OVER = 429,
    STATUS_NOT_YET = 500,
    EACH_ROOM = 1024, /* of a status: its name at its longest, each letter escaped */
    ROOM = 64 << 10   /* for strings of a body that have escapes */
};

static_assert((int)RATELIMIT_STATE_MAX <= (int)BATCH_NOTES_MAX, "any state is kept");

static const char *const units[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                    "DAY",     "MONTH",  "YEAR",   "WEEK"};
enum { GIVEN_UNITS = 7 }; /* that a limit may come with */

/* ---- requests -------------------------------------------------------------------------------- */

/* What a body is read with. */
struct body {
    struct json_reader reader;
    struct ratelimit_asking asking;
    char room[ROOM];
};

/* The hits that a message tells of; those of a descriptor depend on those of the request, which may
 * come behind it. */
struct addend {
    bool set;
    bool negative;
    uint64_t hits;
};

static bool is(struct wire_text key, const char *name, const char *other)
{
    return (key.len == strlen(name) && memcmp(key.data, name, key.len) == 0) ||
           (key.len == strlen(other) && memcmp(key.data, other, key.len) == 0);
}

/* A whole number, in quotes or not. */
static bool take_number(struct json_reader *reader, uint64_t max, uint64_t *out)
{
    struct wire_text text;
    if (json_next_kind(reader) != JSON_KIND_STRING)
        return json_take_unsigned(reader, max, out);
    if (!json_take_text(reader, &text))
        return false;
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        const uint64_t digit = (uint64_t)(unsigned char)text.data[i] - '0';
        if (digit > 9 || *out > (max - digit) / 10) {
            json_refuse(reader, "expected a whole number, of at most %llu",
                        (unsigned long long)max);
            return false;
        }
        *out = *out * 10 + digit;
    }
    if (text.len == 0)
        json_refuse(reader, "found nothing, expected a whole number");
    return text.len > 0;
}

static bool take_unit(struct json_reader *reader, uint64_t *out)
{
    struct wire_text text;
    if (json_next_kind(reader) != JSON_KIND_STRING)
        return json_take_unsigned(reader, UINT32_MAX, out);
    if (!json_take_text(reader, &text))
        return false;
    for (uint64_t i = 0; i < GIVEN_UNITS; i++) {
        *out = i;
        if (is(text, units[i], units[i]))
            return true;
    }
    json_refuse(reader, "found another word, expected a unit such as MINUTE");
    return false;
}

static bool unknown(struct json_reader *reader)
{
    json_refuse(reader, "found an unknown field");
    return false;
}

static bool read_entry(struct body *body)
{
    struct json_reader *reader = &body->reader;
    struct wire_text field;
    struct wire_text key = {"", 0};
    struct wire_text value = {"", 0};
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &field)) {
        if (json_take_null(reader))
            continue;
        if (is(field, "key", "key")       ? !json_take_text(reader, &key)
            : is(field, "value", "value") ? !json_take_text(reader, &value)
                                          : !unknown(reader))
            return false;
    }
    if (reader->failed)
        return false;
    if (ratelimit_entry(&body->asking, (struct policy_text){key.data, key.len},
                        (struct policy_text){value.data, value.len}))
        return true;
    json_refuse(reader, "%s", body->asking.error);
    return false;
}

static bool read_limit(struct body *body)
{
    struct json_reader *reader = &body->reader;
    struct wire_text field;
    uint64_t requests = 0;
    uint64_t unit = 0;
    uint64_t multiplier = 1;
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &field)) {
        if (json_take_null(reader))
            continue;
        if (is(field, "requestsPerUnit", "requests_per_unit")
                ? !take_number(reader, UINT32_MAX, &requests)
            : is(field, "unit", "unit") ? !take_unit(reader, &unit)
            : is(field, "unitMultiplier", "unit_multiplier")
                ? !take_number(reader, UINT32_MAX, &multiplier)
                : !unknown(reader))
            return false;
    }
    if (reader->failed)
        return false;
    if (ratelimit_limit(&body->asking, (uint32_t)requests, (uint32_t)unit, (uint32_t)multiplier))
        return true;
    json_refuse(reader, "%s", body->asking.error);
    return false;
}

static bool read_entries(struct body *body)
{
    if (!json_open_list(&body->reader))
        return false;
    while (json_next_element(&body->reader))
        if (!read_entry(body))
            return false;
    return !body->reader.failed;
}

static bool read_descriptor(struct body *body, struct addend *addend)
{
    struct json_reader *reader = &body->reader;
    struct wire_text field;
    *addend = (struct addend){.set = false};
    (void)ratelimit_descriptor(&body->asking);
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &field)) {
        if (json_take_null(reader))
            continue;
        if (is(field, "hitsAddend", "hits_addend")) {
            addend->set = true;
            if (!take_number(reader, UINT64_MAX, &addend->hits))
                return false;
        } else if (is(field, "entries", "entries") ? !read_entries(body)
                   : is(field, "limit", "limit")   ? !read_limit(body)
                   : is(field, "isNegativeHits", "is_negative_hits")
                       ? !json_take_flag(reader, &addend->negative)
                       : !unknown(reader)) {
            return false;
        }
    }
    return !reader->failed;
}

static bool read_descriptors(struct body *body, struct addend *addends)
{
    struct addend addend;
    if (!json_open_list(&body->reader))
        return false;
    while (json_next_element(&body->reader)) {
        const uint32_t at = body->asking.request.count;
        if (!read_descriptor(body, &addend))
            return false;
        if (at < RATELIMIT_DESCRIPTORS_MAX)
            addends[at] = addend;
    }
    return !body->reader.failed;
}

static bool read_body(struct body *body, struct wire_text text)
{
    struct json_reader *reader = &body->reader;
    struct ratelimit_request *request = &body->asking.request;
    struct addend addends[RATELIMIT_DESCRIPTORS_MAX];
    struct wire_text field;
    struct wire_text domain = {"", 0};
    uint64_t hits = 0;
    json_reader_begin(reader, text.data, text.len, body->room, sizeof body->room);
    ratelimit_begin(&body->asking, RATELIMIT_CHECK);
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &field)) {
        if (json_take_null(reader))
            continue;
        if (is(field, "descriptors", "descriptors") && request->count > 0)
            json_refuse(reader, "found it a second time, expected it once");
        if (is(field, "domain", "domain")             ? !json_take_text(reader, &domain)
            : is(field, "descriptors", "descriptors") ? !read_descriptors(body, addends)
            : is(field, "hitsAddend", "hits_addend")  ? !take_number(reader, UINT32_MAX, &hits)
                                                      : !unknown(reader))
            return false;
    }
    request->domain = (struct policy_text){domain.data, domain.len};
    for (uint32_t i = 0; i < request->count && i < RATELIMIT_DESCRIPTORS_MAX; i++)
        body->asking.descriptors[i].hits = descriptor_hits_of((uint32_t)hits, addends[i].set,
                                                              addends[i].hits, addends[i].negative);
    return json_reader_end(reader);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void put_number(struct http_reply *reply, const char *name, uint64_t value)
{
    if (value == 0)
        return;
    http_put_text(reply, name);
    http_put_unsigned(reply, value);
}

static void put_status(struct http_reply *reply, const struct descriptor_status *status)
{
    http_put_text(reply, status->over ? "{\"code\":\"OVER_LIMIT\"" : "{\"code\":\"OK\"");
    if (status->limited) {
        const struct wire_text name = {status->name.data, status->name.len};
        http_put_text(reply, ",\"currentLimit\":{\"unit\":\"");
        http_put_text(reply, units[status->unit]);
        http_put_text(reply, "\"");
        put_number(reply, ",\"requestsPerUnit\":", status->requests_per_unit);
        put_number(reply, ",\"unitMultiplier\":",
                   status->unit_multiplier == 1 ? 0 : status->unit_multiplier);
        if (name.len > 0) {
            http_put_text(reply, ",\"name\":");
            http_put_string(reply, name);
        }
        http_put_text(reply, "}");
    }
    put_number(reply, ",\"limitRemaining\":", status->limit_remaining);
    if (status->limited) {
        http_put_text(reply, ",\"durationUntilReset\":\"");
        http_put_unsigned(reply, status->reset_s);
        http_put_text(reply, "s\"");
    }
    http_put_text(reply, "}");
}

/* Bytes, as JSON of Protocol Buffers has them: base64 of RFC 4648, 4. */
static void put_bytes(struct http_reply *reply, const char *data, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        char out[5] = "====";
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < len ? (unsigned char)data[i + k] : 0);
        for (size_t k = 0; k < 4 && i + k <= len; k++)
            out[k] = letters[bits >> (18 - 6 * k) & 63];
        http_put_text(reply, out);
    }
}

static void put_rest(struct http_reply *reply, const struct ratelimit_answer *told, uint8_t fields)
{
    struct ratelimit_field list[RATELIMIT_FIELDS_COUNT];
    const uint32_t count = ratelimit_fields_of(told, (enum ratelimit_fields)fields, list);
    for (uint32_t i = 0; i < count; i++) {
        http_put_text(reply, i == 0 ? ",\"responseHeadersToAdd\":[{\"key\":\"" : "},{\"key\":\"");
        http_put_text(reply, list[i].name);
        http_put_text(reply, "\",\"value\":\"");
        http_put_text(reply, list[i].value);
        http_put_text(reply, "\"");
    }
    http_put_text(reply, count > 0 ? "}]" : "");
    if (told->message.len == 0)
        return;
    http_put_text(reply, ",\"rawBody\":\"");
    put_bytes(reply, told->message.data, told->message.len);
    http_put_text(reply, "\"");
}

static void answer(struct http_reply *reply, const struct ratelimit_state *state,
                   const struct wire_decisions *decisions, uint32_t first, int64_t now_ns,
                   uint8_t fields)
{
    struct ratelimit_answer told;
    ratelimit_settle(state, decisions, first, (uint64_t)(now_ns / NS_PER_S), &told);
    if (told.failed != NULL) {
        http_problem_busy(reply, "nobody who can decide is in reach now; ask again");
        return;
    }
    http_reply_begin(reply, told.over ? STATUS_OVER : STATUS_OK);
    http_reply_body(reply, "application/json");
    http_put_text(reply, told.over ? "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":["
                                   : "{\"overallCode\":\"OK\",\"statuses\":[");
    for (uint32_t i = 0; i < told.count; i++) {
        if (i > 0)
            http_put_text(reply, ",");
        put_status(reply, &told.statuses[i]);
    }
    http_put_text(reply, "]");
    put_rest(reply, &told, fields);
    http_put_text(reply, "}\n");
    http_reply_end(reply);
}

static void complete(struct http_completion *completion)
{
    answer(&completion->reply, completion->notes, completion->decisions, completion->first,
           completion->now_ns, completion->facts->fields);
}

/* ---- the handlers ---------------------------------------------------------------------------- */

static enum http_verdict refuse(struct http_exchange *exchange, const char *detail)
{
    http_problem(&exchange->reply, STATUS_BAD, detail);
    return HTTP_ANSWERED;
}

static enum http_verdict answer_at_once(struct http_exchange *exchange,
                                        const struct ratelimit_found *found, size_t room)
{
    _Alignas(struct ratelimit_state) char state[RATELIMIT_STATE_MAX];
    enum http_verdict verdict;
    if (!http_room(exchange, room, &verdict))
        return verdict;
    ratelimit_state_put(found, state);
    answer(&exchange->reply, (const void *)state, NULL, 0, exchange->now_ns,
           exchange->facts->fields);
    return HTTP_ANSWERED;
}

enum http_verdict ratelimit_api_json(struct http_exchange *exchange)
{
    struct body body; /* some 130 KiB that nobody clears */
    struct ratelimit_asking *asking = &body.asking;
    struct http_ask ask = {.complete = complete};
    void *context;
    if (!read_body(&body, exchange->request->body))
        return refuse(exchange, body.reader.error);
    if (ratelimit_find(exchange->facts->policy, &asking->request, &exchange->facts->path_secret,
                       &asking->found, asking->error) != TG_OK)
        return refuse(exchange, asking->error);
    const struct ratelimit_found *found = &asking->found;
    ask.count = found->state.items;
    ask.room = HTTP_ROOM + (size_t)found->state.count * EACH_ROOM;
    ask.explain = found->state.all;
    ask.notes_len = ratelimit_state_len(found);
    if (ask.count == 0)
        return answer_at_once(exchange, found, ask.room);
    const enum http_verdict verdict = http_ask_begin(exchange, &ask, &context);
    if (verdict != HTTP_ASKED)
        return verdict;
    if (ratelimit_append(found, &asking->request, exchange->builder) != TG_OK)
        return http_ask_full(exchange);
    ratelimit_state_put(found, exchange->notes);
    return HTTP_ASKED;
}

enum http_verdict ratelimit_api_health(struct http_exchange *exchange)
{
    struct http_reply *reply = &exchange->reply;
    const bool good = exchange->facts->policy != NULL;
    http_reply_begin(reply, good ? STATUS_OK : STATUS_NOT_YET);
    http_reply_body(reply, "text/plain");
    http_put_text(reply, good ? "OK" : "");
    http_reply_end(reply);
    return HTTP_ANSWERED;
}

/* ---- what OpenAPI says ----------------------------------------------------------------------- */

#define TEXT "{\"type\":[\"string\",\"null\"]}"
#define WHOLE                                                                                      \
    "{\"anyOf\":[{\"type\":[\"integer\",\"null\"],\"minimum\":0,\"maximum\":4294967295},"          \
    "{\"type\":\"string\",\"pattern\":\"^[0-9]{1,9}$\"}]}"

const struct http_document ratelimit_api_document = {
    .request =
        ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{"
        "\"type\":\"object\",\"properties\":{\"domain\":" TEXT ",\"hitsAddend\":" WHOLE
        ",\"descriptors\":{\"type\":\"array\",\"maxItems\":64,\"items\":{\"type\":\"object\","
        "\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
        "\"properties\":{\"key\":" TEXT ",\"value\":" TEXT "},\"additionalProperties\":false}},"
        "\"limit\":{\"type\":\"object\",\"properties\":{\"requestsPerUnit\":" WHOLE
        ",\"unit\":{\"enum\":[\"SECOND\",\"MINUTE\",\"HOUR\",\"DAY\",\"MONTH\",\"YEAR\"]},"
        "\"unitMultiplier\":" WHOLE "},\"additionalProperties\":false},\"hitsAddend\":" WHOLE
        ",\"isNegativeHits\":{\"type\":\"boolean\"}},\"additionalProperties\":false}}},"
        "\"additionalProperties\":false}}}}",
    .answer = "\"200\":{\"description\":\"within all limits\",\"content\":{\"application/json\":{"
              "\"schema\":{\"type\":\"object\",\"required\":[\"overallCode\",\"statuses\"],"
              "\"properties\":{\"overallCode\":{\"enum\":[\"OK\",\"OVER_LIMIT\"]},"
              "\"statuses\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}}}}}},",
};

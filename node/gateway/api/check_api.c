/* check_api.c - checks by JSON; check_api.h has their forms.
 *
 *   body --json_reader--> check_item --> the open batch ... decisions --> decision_json --> reply
 *
 * A list is read twice: to find its mistakes and its length before anything is asked, and to ask.
 * So a mistake anywhere in it charges nothing.
 */
#include "node/gateway/api/check_api.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "base/quantity.h"
#include "node/gateway/api/check_item.h"
#include "node/gateway/api/decision_json.h"

#define NS_PER_MS      UINT64_C(1000000)
#define TIMEOUT_MIN_NS NS_PER_MS
#define TIMEOUT_MAX_NS (60000 * NS_PER_MS)
#define LATE_DETAIL    "the time of X-Request-Timeout ran out before anything was charged"

enum {
    SINGLE_ROOM = 2560, /* of a response: all texts at their longest, each letter escaped */
    LIST_ROOM = HTTP_ROOM,
    ROW_ROOM = 2560, /* of a limit that is explained, likewise */
    EACH_ROOM = 720, /* of a decision in a list: as long as can be without the texts of people */
    STATUS_OK = 200,
    STATUS_BAD = 400,
    STATUS_LATE = 504,
    TIMEOUT_LEN = 24,
    ERROR_LEN = 160,
    RETRY_KEY_MAX = 256
};

/* What the answer needs to know of the request. */
struct asked {
    bool list;
    bool always_ok; /* ?status=200 */
    bool explain;
    bool reserves;
};

static_assert(sizeof(struct asked) <= HTTP_CONTEXT_LEN, "a handler keeps it");

/* What a body is read with. */
struct body {
    struct json_reader reader;
    struct check_item item;
    char room[CHECK_ITEM_ROOM];
};

static enum http_verdict refuse(struct http_exchange *exchange, const char *detail)
{
    http_problem(&exchange->reply, STATUS_BAD, detail);
    return HTTP_ANSWERED;
}

/* ---- answers --------------------------------------------------------------------------------- */

static unsigned manner_of(const struct asked *asked, bool brief)
{
    return (brief ? DECISION_BRIEF : 0U) | (asked->reserves ? DECISION_RESERVED : 0U);
}

static void write_single(struct http_completion *completion, const struct asked *asked, bool brief)
{
    const struct wire_explain *explain = completion->decisions->explain;
    struct wire_decision decision;
    struct http_reply *reply = &completion->reply;
    http_decision(completion, 0, &decision);
    http_reply_begin(reply, asked->always_ok ? STATUS_OK : decision_status(&decision));
    decision_put_headers(reply, &decision, brief ? DECISION_NO_HEADERS : completion->facts->headers,
                         completion->now_ns);
    http_reply_body(reply, "application/json");
    if (asked->explain && explain != NULL && !brief) /* a message of its own has it: its first */
        decision_put_explained(reply, &decision, explain->rows, explain->end[0]);
    else
        decision_put(reply, &decision, manner_of(asked, brief));
    http_put_text(reply, "\n");
    http_reply_end(reply);
}

static void write_list(struct http_completion *completion, const struct asked *asked, bool brief)
{
    struct http_reply *reply = &completion->reply;
    http_reply_begin(reply, STATUS_OK);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{\"decisions\":[");
    for (uint32_t i = 0; i < completion->count; i++) {
        struct wire_decision decision;
        http_decision(completion, i, &decision);
        if (i > 0)
            http_put_text(reply, ",\n");
        decision_put(reply, &decision, manner_of(asked, brief));
    }
    http_put_text(reply, "]}\n");
    http_reply_end(reply);
}

static void answer(struct http_completion *completion)
{
    const struct asked *asked = completion->context;
    ASSERT(completion->decisions != NULL && completion->count > 0);
    for (unsigned brief = 0; brief < 2; brief++) {
        if (asked->list)
            write_list(completion, asked, brief != 0);
        else
            write_single(completion, asked, brief != 0);
        if (!completion->reply.failed)
            return;
        if (brief == 0)
            http_reply_undo(&completion->reply);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Reads ?status=200, the only parameter there is: nothing here changes what is charged. */
static bool read_query(struct wire_text query, bool *always_ok)
{
    static const char only[] = "status=200";
    *always_ok = query.len == sizeof only - 1 && memcmp(query.data, only, query.len) == 0;
    return *always_ok || query.len == 0;
}

/* Whether the field is there more than once: which of them would count is a guess. */
static bool is_repeated(const struct http1_request *request, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->header_count; i++)
        count += http1_same(request->headers[i].name, wire_text_of(name));
    return count > 1;
}

/* The name of a request that may be sent again: of its key and all that it says, so that another
 * request under the same key is another one. */
static bool read_retry_key(const struct http_exchange *exchange, enum operation operation,
                           struct http_ask *ask)
{
    struct {
        struct digest key;
        struct digest body;
        uint8_t operation;
    } named;
    struct digest digest;
    static const char retry_key[] = "Idempotency-Key";
    const struct wire_text *key = http1_header(exchange->request, retry_key);
    if (key == NULL)
        return true;
    if (key->len == 0 || key->len > RETRY_KEY_MAX || is_repeated(exchange->request, retry_key))
        return false;
    memset(&named, 0, sizeof named);
    digest_make(key->data, key->len, &named.key);
    digest_make(exchange->request->body.data, exchange->request->body.len, &named.body);
    named.operation = (uint8_t)operation;
    digest_make(&named, sizeof named, &digest);
    memcpy(&ask->session, digest.bytes, sizeof ask->session);
    memcpy(&ask->seq, digest.bytes + sizeof ask->session, sizeof ask->seq);
    ask->session |= 1;
    ask->seq |= 1;
    return true;
}

/* Reads in how long the request is to be decided: seconds, or a time with its unit. `error`, if it
 * is none. */
static bool read_timeout(const struct http_exchange *exchange, struct http_ask *ask,
                         char error[ERROR_LEN])
{
    static const char field[] = "X-Request-Timeout";
    const struct wire_text *value = http1_header(exchange->request, field);
    char text[TIMEOUT_LEN + 2] = "";
    char why[QUANTITY_ERROR_LEN];
    uint64_t ns = 0;
    if (value == NULL)
        return true;
    const size_t len = value->len < TIMEOUT_LEN ? value->len : TIMEOUT_LEN;
    memcpy(text, value->data, len);
    if (strspn(text, "0123456789") == len)
        text[len] = 's';
    if (value->len > TIMEOUT_LEN || quantity_parse_duration(text, &ns, why) != 0 ||
        ns < TIMEOUT_MIN_NS || ns > TIMEOUT_MAX_NS || is_repeated(exchange->request, field)) {
        (void)snprintf(error, ERROR_LEN,
                       "%s: found \"%.*s\"; expected one, of seconds or with a unit such as 250ms, "
                       "from 1ms to 60s",
                       field, (int)len, value->data);
        return false;
    }
    ask->timeout_ms = (uint32_t)(ns / NS_PER_MS);
    return true;
}

/* Takes from the time to decide what the request has waited for. False: nothing is left. */
static bool take_waited(const struct http_exchange *exchange, struct http_ask *ask)
{
    const int64_t waited_ms = (exchange->now_ns - exchange->asked_ns) / (int64_t)NS_PER_MS;
    if (ask->timeout_ms == 0 || waited_ms <= 0) /* or the clock was set back */
        return true;
    if (waited_ms >= ask->timeout_ms)
        return false;
    ask->timeout_ms -= (uint32_t)waited_ms;
    return true;
}

/* Reads the checks of the list that comes next; with an exchange, appends each. Their number, or
 * less than 0: the reader has failed, or the builder has said so. */
static int read_list(struct body *body, enum operation operation, struct http_exchange *exchange)
{
    const size_t room_used = body->reader.room_used;
    int count = 0;
    if (!json_open_list(&body->reader))
        return TG_EINVALID;
    while (json_next_element(&body->reader)) {
        body->reader.room_used = room_used;
        if (count == WIRE_CHECKS_MAX) {
            json_refuse(&body->reader, "found more than %d checks", (int)WIRE_CHECKS_MAX);
            return TG_EINVALID;
        }
        if (!check_item_read(&body->item, &body->reader, operation))
            return TG_EINVALID;
        if (body->item.explain) {
            json_refuse(&body->reader, "found explain, expected it of a check that is no list's");
            return TG_EINVALID;
        }
        const int number = exchange != NULL ? check_item_append(&body->item, exchange->builder) : 0;
        if (number < 0)
            return number;
        count++;
    }
    return body->reader.failed ? TG_EINVALID : count;
}

/* Reads the body of one check, or of a list: *count of them, as `asked` tells. */
static bool read_body(struct body *body, enum operation operation, struct asked *asked,
                      uint32_t *count)
{
    struct wire_text key;
    struct json_reader *reader = &body->reader;
    check_item_begin(&body->item, operation);
    *count = 1;
    if (!json_open_object(reader))
        return false;
    for (bool first = true; json_next_member(reader, &key); first = false) {
        const bool list = key.len == 6 && memcmp(key.data, "checks", key.len) == 0;
        if (asked->list || (list && !first)) {
            json_refuse(reader, "found another field beside checks, expected checks alone");
        } else if (list) {
            const int found = read_list(body, operation, NULL);
            asked->list = true;
            *count = found > 0 ? (uint32_t)found : 0;
            if (found == 0)
                json_refuse(reader, "found no check, expected 1 to %d", (int)WIRE_CHECKS_MAX);
        } else {
            (void)check_item_field(&body->item, reader, key);
        }
    }
    return (asked->list || check_item_end(&body->item, reader)) && json_reader_end(reader);
}

/* Appends what read_body has read. */
static int append(struct body *body, enum operation operation, const struct asked *asked,
                  struct http_exchange *exchange)
{
    struct wire_text key;
    if (!asked->list)
        return check_item_append(&body->item, exchange->builder);
    const struct wire_text text = exchange->request->body;
    json_reader_begin(&body->reader, text.data, text.len, body->room, sizeof body->room);
    if (!json_open_object(&body->reader) || !json_next_member(&body->reader, &key))
        return TG_EINVALID;
    return read_list(body, operation, exchange);
}

static enum http_verdict ask(struct http_exchange *exchange, enum operation operation)
{
    struct body body;
    struct asked asked = {.reserves = operation == OPERATION_RESERVE};
    struct http_ask ask = {.complete = answer};
    char error[ERROR_LEN];
    void *context;
    const struct wire_text text = exchange->request->body;
    if (!read_timeout(exchange, &ask, error))
        return refuse(exchange, error);
    if (!read_query(exchange->request->query, &asked.always_ok))
        return refuse(exchange, "the query: expected nothing, or status=200");
    if (!read_retry_key(exchange, operation, &ask))
        return refuse(exchange, "Idempotency-Key: expected one, of 1 to 256 bytes");
    json_reader_begin(&body.reader, text.data, text.len, body.room, sizeof body.room);
    if (!read_body(&body, operation, &asked, &ask.count))
        return refuse(exchange, body.reader.error);
    if (!take_waited(exchange, &ask)) {
        http_problem(&exchange->reply, STATUS_LATE, LATE_DETAIL);
        return HTTP_ANSWERED;
    }
    asked.explain = ask.explain = !asked.list && body.item.explain;
    ask.room = ask.explain  ? SINGLE_ROOM + (size_t)WIRE_EXPLAIN_ROWS_MAX * ROW_ROOM
               : asked.list ? LIST_ROOM + (size_t)ask.count * EACH_ROOM
                            : SINGLE_ROOM;
    const enum http_verdict verdict = http_ask_begin(exchange, &ask, &context);
    if (verdict != HTTP_ASKED)
        return verdict;
    memcpy(context, &asked, sizeof asked);
    const int appended = append(&body, operation, &asked, exchange);
    if (appended == TG_EFULL)
        return http_ask_full(exchange);
    if (appended >= 0)
        return HTTP_ASKED;
    http_ask_cancel(exchange); /* all that the builder bounds was read within its bounds */
    return refuse(exchange, "a field is beyond its bound");
}

enum http_verdict api_check(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_CHECK);
}

enum http_verdict api_peek(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_PEEK);
}

enum http_verdict api_hit(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_HIT);
}

enum http_verdict api_refund(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_REFUND);
}

enum http_verdict api_reset(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_RESET);
}

enum http_verdict api_lease(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_LEASE);
}

enum http_verdict api_release(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_RELEASE);
}

enum http_verdict api_renew(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_RENEW);
}

enum http_verdict api_reserve(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_RESERVE);
}

enum http_verdict api_commit(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_COMMIT);
}

enum http_verdict api_cancel(struct http_exchange *exchange)
{
    return ask(exchange, OPERATION_CANCEL);
}

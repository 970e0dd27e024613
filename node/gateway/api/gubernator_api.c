/* gubernator_api.c - see gubernator_api.h. A body is read twice, as a list of checks is: to find
 * what is wrong with it before anything is asked, and to ask.
 */
#include "node/gateway/api/gubernator_api.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/api/gubernator_json.h"

#define TOO_MANY "Requests.RateLimits list too large; max size is '1000'"

enum {
    STATUS_OK = 200,
    STATUS_BAD = 400,
    EACH_ROOM = 720 /* of an answer: all texts at their longest, some letters escaped */
};

static_assert(sizeof(struct gubernator_kept) <= HTTP_CONTEXT_LEN, "a handler keeps it");
static_assert((int)GUBERNATOR_BODY_MAX == (int)HTTP1_BODY_MAX, "a body is as long as a message");

/* What a body is read with. */
struct body {
    struct json_reader reader;
    struct gubernator_plan plan;
    char room[GUBERNATOR_ROOM];
};

static size_t room_of(uint32_t count)
{
    return HTTP_ROOM + (size_t)count * EACH_ROOM;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void write_answers(struct http_reply *reply, const struct http_facts *facts,
                          struct gubernator_reader *reader)
{
    struct gubernator_answer answer;
    reader->stats = facts->gubernator;
    reader->self = facts->name;
    http_reply_begin(reply, STATUS_OK);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{\"responses\":[");
    for (bool first = true; gubernator_next(reader, &answer); first = false) {
        http_put_text(reply, first ? "" : ",\n");
        gubernator_put(reply, &answer);
    }
    http_put_text(reply, "]}\n");
    http_reply_end(reply);
}

static void complete(struct http_completion *completion)
{
    struct gubernator_reader reader =
        gubernator_answers(completion->context, completion->notes, completion->decisions,
                           completion->first, completion->now_ns);
    write_answers(&completion->reply, completion->facts, &reader);
}

/* What is wrong is told when nothing is waited for any more, and so it is counted once. */
static enum http_verdict refuse(struct http_exchange *exchange, bool many, const char *detail)
{
    enum http_verdict verdict;
    if (!http_room(exchange, HTTP_ROOM, &verdict))
        return verdict;
    if (many && exchange->facts->gubernator != NULL)
        exchange->facts->gubernator->too_large++;
    http_problem(&exchange->reply, STATUS_BAD, detail);
    return HTTP_ANSWERED;
}

/* Nothing is to be asked. */
static enum http_verdict answer_at_once(struct http_exchange *exchange,
                                        const struct gubernator_plan *plan)
{
    struct gubernator_note more[GUBERNATOR_ITEMS_MAX];
    struct gubernator_kept kept;
    enum http_verdict verdict;
    ASSERT(gubernator_more_len(plan) <= sizeof more); /* an item without a check has no limit */
    if (!http_room(exchange, room_of(plan->asked.count), &verdict))
        return verdict;
    gubernator_note(plan, &kept, more);
    struct gubernator_reader reader = gubernator_answers(&kept, more, NULL, 0, plan->now_ns);
    write_answers(&exchange->reply, exchange->facts, &reader);
    return HTTP_ANSWERED;
}

/* ---- questions ------------------------------------------------------------------------------- */

static void begin(struct body *body, struct wire_text text)
{
    json_reader_begin(&body->reader, text.data, text.len, body->room, sizeof body->room);
}

/* Plans what is asked. False: the reader has failed, or *many: there are too many items. */
static bool make_plan(struct body *body, struct wire_text text, int64_t now_ns, bool *many)
{
    struct gubernator_item item;
    begin(body, text);
    gubernator_begin(&body->plan, now_ns);
    *many = false;
    if (gubernator_open(&body->reader)) {
        while (gubernator_read(&body->reader, &item)) {
            *many = body->plan.asked.count == GUBERNATOR_ITEMS_MAX;
            if (*many)
                return false;
            gubernator_add(&body->plan, &item);
        }
    }
    return !body->reader.failed && gubernator_close(&body->reader);
}

static int append(struct body *body, struct wire_text text, struct wire_checks_builder *builder)
{
    struct gubernator_item item;
    int result = 0;
    begin(body, text);
    const bool opened = gubernator_open(&body->reader);
    ASSERT(opened);
    for (uint32_t i = 0; result == 0 && gubernator_read(&body->reader, &item); i++)
        result = gubernator_append(&body->plan, i, item.name, item.unique_key, builder);
    return result;
}

enum http_verdict gubernator_api_limits(struct http_exchange *exchange)
{
    struct body body;
    struct http_ask ask = {.complete = complete};
    const struct wire_text text = exchange->request->body;
    void *context;
    bool many;
    if (!make_plan(&body, text, exchange->now_ns, &many))
        return refuse(exchange, many, many ? TOO_MANY : body.reader.error);
    if (body.plan.checks == 0)
        return answer_at_once(exchange, &body.plan);
    ask.count = body.plan.checks;
    ask.room = room_of(body.plan.asked.count);
    ask.notes_len = gubernator_more_len(&body.plan);
    const enum http_verdict verdict = http_ask_begin(exchange, &ask, &context);
    if (verdict != HTTP_ASKED)
        return verdict;
    const int result = append(&body, text, exchange->builder);
    ASSERT(result == 0 || result == TG_EFULL);
    if (result != 0)
        return http_ask_full(exchange);
    gubernator_note(&body.plan, context, exchange->notes);
    return HTTP_ASKED;
}

/* ---- health ---------------------------------------------------------------------------------- */

enum http_verdict gubernator_api_health(struct http_exchange *exchange)
{
    struct http_reply *reply = &exchange->reply;
    const struct http_facts *facts = exchange->facts;
    if (facts->waits != NULL) {
        http_problem_busy(reply, facts->waits);
        return HTTP_ANSWERED;
    }
    http_reply_begin(reply, STATUS_OK);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{\"status\":\"healthy\",\"message\":\"\",\"peer_count\":");
    http_put_unsigned(reply, facts->members);
    http_put_text(reply, ",\"advertise_address\":");
    http_put_string(reply, wire_text_of(facts->address));
    http_put_text(reply, "}\n");
    http_reply_end(reply);
    return HTTP_ANSWERED;
}

enum http_verdict gubernator_api_live(struct http_exchange *exchange)
{
    struct http_reply *reply = &exchange->reply;
    http_reply_begin(reply, STATUS_OK);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{}\n");
    http_reply_end(reply);
    return HTTP_ANSWERED;
}

/* ---- what OpenAPI says ----------------------------------------------------------------------- */

#define WHOLE                                                                                      \
    "{\"anyOf\":[{\"type\":[\"integer\",\"null\"],\"minimum\":-9223372036854775808,"               \
    "\"maximum\":9223372036854775807},{\"type\":\"string\",\"pattern\":\"^-?[0-9]+$\"}]}"
#define TEXT   "{\"type\":[\"string\",\"null\"]}"
#define NUMBER "{\"type\":\"integer\",\"minimum\":-2147483648,\"maximum\":2147483647}"
#define QUOTED "{\"type\":\"string\",\"pattern\":\"^-?[0-9]+$\"}"

const struct http_document gubernator_api_document = {
    .request =
        ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{"
        "\"type\":\"object\",\"properties\":{\"requests\":{\"type\":[\"array\",\"null\"],"
        "\"maxItems\":1000,\"items\":{\"type\":\"object\",\"properties\":{"
        "\"name\":" TEXT ",\"unique_key\":" TEXT ",\"uniqueKey\":" TEXT ",\"hits\":" WHOLE
        ",\"limit\":" WHOLE ",\"duration\":" WHOLE ",\"burst\":" WHOLE
        ",\"algorithm\":{\"anyOf\":[{\"enum\":[\"TOKEN_BUCKET\",\"LEAKY_BUCKET\",null]}," NUMBER
        "]},"
        "\"behavior\":{\"anyOf\":[{\"enum\":[\"BATCHING\",\"NO_BATCHING\",\"GLOBAL\","
        "\"DURATION_IS_GREGORIAN\",\"RESET_REMAINING\",\"MULTI_REGION\",\"DRAIN_OVER_LIMIT\","
        "null]}," NUMBER "]}}}}}}}}}",
    .answer =
        "\"200\":{\"description\":\"decided\",\"content\":{\"application/json\":{\"schema\":{"
        "\"type\":\"object\",\"required\":[\"responses\"],\"properties\":{\"responses\":{"
        "\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"status\",\"limit\","
        "\"remaining\",\"reset_time\",\"error\",\"metadata\"],\"properties\":{"
        "\"status\":{\"enum\":[\"UNDER_LIMIT\",\"OVER_LIMIT\"]},\"limit\":" QUOTED
        ",\"remaining\":" QUOTED ",\"reset_time\":" QUOTED ",\"error\":{\"type\":\"string\"},"
        "\"metadata\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}}}}}}}}}"
        ","};

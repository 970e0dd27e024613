/* http_check.c - one check by an inline limit; http_check.h has its form. */
#include "node/gateway/http/http_check.h"

#include <jansson.h>
#include <string.h>

#include "base/quantity.h"
#include "base/vocabulary.h"

enum { DETAIL_LEN = 256, ROOM = 2 << 10 };

static enum http_verdict refuse(struct http_exchange *exchange, const char *detail)
{
    http_problem(&exchange->reply, 400, detail);
    return HTTP_ANSWERED;
}

static void put_time(struct http_reply *reply, const char *name, int64_t ms)
{
    http_put_text(reply, name);
    if (ms == WIRE_NEVER_MS)
        http_put_text(reply, "null");
    else
        http_put_integer(reply, ms);
}

static void answer(struct http_completion *completion)
{
    struct http_reply *reply = &completion->reply;
    struct wire_decision decision;
    http_decision(completion, 0, &decision);
    if (!decision.allowed && decision.outcome >= OUTCOME_BUSY) {
        http_problem_busy(reply, outcome_sentence(decision.outcome));
        return;
    }
    http_reply_begin(reply, decision.allowed ? 200 : 429);
    http_reply_body(reply, "application/json");
    http_put_text(reply, "{\"allowed\":");
    http_put_text(reply, decision.allowed ? "true" : "false");
    http_put_text(reply, ",\"outcome\":");
    http_put_string(reply, wire_text_of(outcome_name(decision.outcome)));
    http_put_text(reply, ",\"limit\":");
    http_put_unsigned(reply, decision.limit);
    http_put_text(reply, ",\"remaining\":");
    http_put_unsigned(reply, decision.remaining);
    put_time(reply, ",\"retry_after_ms\":", decision.retry_after_ms);
    put_time(reply, ",\"reset_after_ms\":", decision.reset_after_ms);
    http_put_text(reply, "}\n");
    http_reply_end(reply);
}

static enum http_verdict ask(struct http_exchange *exchange, const struct limit *limit,
                             struct wire_text key)
{
    const struct http_ask asked = {.count = 1, .room = ROOM, .complete = answer};
    void *context;
    const enum http_verdict verdict = http_ask_begin(exchange, &asked, &context);
    if (verdict != HTTP_ASKED)
        return verdict;
    const int template = wire_checks_builder_inline(exchange->builder, limit);
    if (template == TG_EFULL)
        return http_ask_full(exchange);
    const int result =
        template <0 ? template
                    : wire_checks_builder_append(exchange->builder, (uint32_t) template,
                                                 OPERATION_CHECK, 1, &key, 1);
    if (result == TG_EFULL)
        return http_ask_full(exchange);
    if (result >= 0)
        return HTTP_ASKED;
    http_ask_cancel(exchange);
    return refuse(exchange, "key or rate: beyond their bounds");
}

static enum http_verdict check(struct http_exchange *exchange, const json_t *body)
{
    char error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;
    const json_t *key = json_object_get(body, "key");
    const char *text = json_string_value(json_object_get(body, "rate"));
    if (!json_is_string(key) || json_string_length(key) > WIRE_VALUE_MAX)
        return refuse(exchange, "key: expected a string of at most 1024 bytes");
    if (text == NULL)
        return refuse(exchange, "rate: expected a string, as \"5/60s\"");
    if (quantity_parse_rate(text, &rate, error) != 0)
        return refuse(exchange, error);
    const struct limit limit = {.algorithm = ALGORITHM_TOKEN_BUCKET,
                                .count = rate.count,
                                .window_ns = rate.window_ns,
                                .burst = 0};
    const struct wire_text value = {json_string_value(key), json_string_length(key)};
    return ask(exchange, &limit, value);
}

enum http_verdict http_check(struct http_exchange *exchange)
{
    const struct wire_text body = exchange->request->body;
    json_error_t error;
    json_t *root = json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL)
        return refuse(exchange, error.text);
    const enum http_verdict verdict =
        json_is_object(root) ? check(exchange, root) : refuse(exchange, "expected an object");
    json_decref(root);
    return verdict;
}

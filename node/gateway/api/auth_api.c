/* auth_api.c - questions of proxies; auth_api.h has their forms. */
#include "node/gateway/api/auth_api.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/vocabulary.h"
#include "node/gateway/api/auth_request.h"
#include "node/gateway/api/decision_json.h"
#include "node/gateway/http/http_batch.h"

#define QUOTA_EXCEEDED "https://iana.org/assignments/http-problem-types#quota-exceeded"
#define REDUCED_CAPACITY                                                                           \
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

enum {
    ROOM = 3 << 10,
    STATUS_BAD = 400,
    STATUS_DENIED = 429,
    STATUS_FAILED = 500,
    STATUS_UNAVAILABLE = 503
};

/* What the answer needs to know of the endpoint. */
struct asked {
    uint16_t allow;
    uint16_t deny;
    uint8_t headers; /* enum decision_headers */
};

static_assert(sizeof(struct asked) <= HTTP_CONTEXT_LEN, "a handler keeps it");

static struct wire_text sentence_of(const struct wire_decision *decision)
{
    if (decision->source != NULL && decision->source->message.len > 0)
        return decision->source->message;
    return wire_text_of(outcome_sentence(decision->outcome));
}

static bool undecided(const struct wire_decision *decision)
{
    return decision->outcome == OUTCOME_BUSY || decision->outcome == OUTCOME_ERROR;
}

static const char *problem_of(const struct wire_decision *decision)
{
    if (undecided(decision))
        return REDUCED_CAPACITY;
    return decision->outcome == OUTCOME_BLOCKED ? NULL : QUOTA_EXCEEDED;
}

/* A proxy takes a status above 499 for a node that is in trouble, and may then let pass: what was
 * decided never has one, whatever status its rule has. */
static unsigned denied_status(const struct asked *asked, const struct wire_decision *decision)
{
    const unsigned status = decision_status(decision);
    if (undecided(decision))
        return STATUS_UNAVAILABLE;
    if (asked->deny != 0)
        return asked->deny;
    return status < STATUS_FAILED ? status : STATUS_DENIED;
}

static void write_denial(struct http_completion *completion, const struct wire_decision *decision,
                         bool brief)
{
    const struct asked *asked = completion->context;
    struct http_reply *reply = &completion->reply;
    const struct wire_text sentence =
        brief ? wire_text_of(outcome_sentence(decision->outcome)) : sentence_of(decision);
    http_reply_begin(reply, denied_status(asked, decision));
    decision_put_headers(reply, decision, asked->headers, completion->now_ns);
    http_problem_body(reply, problem_of(decision), sentence);
    if (problem_of(decision) != NULL && decision->source != NULL &&
        decision->source->rule.len > 0 && !brief) {
        http_put_text(reply, ",\"violated-policies\":[");
        http_put_string(reply, decision->source->rule);
        http_put_text(reply, "]");
    }
    http_problem_end(reply);
}

static void answer(struct http_completion *completion)
{
    const struct asked *asked = completion->context;
    struct http_reply *reply = &completion->reply;
    struct wire_decision decision;
    ASSERT(completion->decisions != NULL && completion->count == 1);
    http_decision(completion, 0, &decision);
    if (decision.allowed) {
        http_reply_begin(reply, asked->allow);
        decision_put_headers(reply, &decision, asked->headers, completion->now_ns);
        http_reply_end(reply);
        return;
    }
    write_denial(completion, &decision, false);
    if (!reply->failed)
        return;
    http_reply_undo(reply);
    write_denial(completion, &decision, true);
}

static enum http_verdict ask(struct http_exchange *exchange, const struct auth_request *request,
                             const struct auth_endpoint *endpoint)
{
    const struct http_ask asks = {.count = 1, .room = ROOM, .complete = answer};
    const struct asked asked = {
        .allow = endpoint->allow,
        .deny = endpoint->deny,
        .headers = endpoint->own_header_kind ? endpoint->header_kind : exchange->facts->headers,
    };
    void *context;
    const enum http_verdict verdict = http_ask_begin(exchange, &asks, &context);
    if (verdict != HTTP_ASKED)
        return verdict;
    memcpy(context, &asked, sizeof asked);
    const int template =
        wire_checks_builder_attributes(exchange->builder, request->names, request->count);
    const int appended = template <0 ? template
                                     : wire_checks_builder_append(
                                           exchange->builder, (uint32_t) template, OPERATION_CHECK,
                                           1, request->values, request->count);
    if (appended == TG_EFULL)
        return http_ask_full(exchange);
    if (appended >= 0)
        return HTTP_ASKED;
    http_ask_cancel(exchange); /* the configuration was checked, and values are cut */
    http_problem(&exchange->reply, STATUS_UNAVAILABLE, "the request cannot be told to the rules");
    return HTTP_ANSWERED;
}

enum http_verdict api_auth(struct http_exchange *exchange)
{
    struct auth_request request;
    const struct wire_text name = exchange->parameters[0];
    const struct auth_endpoint *endpoint =
        auth_find(exchange->facts->auth, name.data != NULL ? name : wire_text_of("default"));
    if (endpoint == NULL) {
        http_problem(&exchange->reply, 404, "there is no endpoint of that name under auth");
        return HTTP_ANSWERED;
    }
    auth_read(endpoint, exchange->request, exchange->rest, exchange->peer->base.address,
              exchange->facts->trusted, &request);
    if (request.untold != NULL) {
        http_problem(&exchange->reply, endpoint->deny != 0 ? endpoint->deny : STATUS_BAD,
                     "the path or the query cannot be told to the rules");
        return HTTP_ANSWERED;
    }
    return ask(exchange, &request, endpoint);
}

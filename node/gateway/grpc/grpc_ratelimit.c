/* grpc_ratelimit.c - messages of the services that proxies ask, and how long they may wait.
 *
 *   RateLimitRequest --> ratelimit.h --> RateLimitResponse
 *
 *   no domain, no descriptors, a bound is passed, no unit      3 INVALID_ARGUMENT
 *   nobody could decide, and on_failure is `closed`            14 UNAVAILABLE
 *
 * A proxy takes an answer that is late for none, and lets the request pass. So the shard is to
 * decide before the caller's time is over, by a fifth of it that is between 2 and 20 ms: what has
 * no decision by then is answered as the rule's on_failure says. Without grpc-timeout it is
 * UNTIMED_NS.
 */
#include "node/gateway/grpc/grpc_ratelimit.h"

#include <assert.h>
#include <proto/ratelimit.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/batches.h"
#include "node/gateway/ratelimit/ratelimit.h"

typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor descriptor_message;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__Entry entry_message;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__RateLimitOverride
    override_message;
typedef Envoy__Service__Ratelimit__V3__RateLimitRequest request_message;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse response_message;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus status_message;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit limit_message;
typedef Envoy__Config__Core__V3__HeaderValue header_message;
typedef Google__Protobuf__Duration duration_message;
typedef Google__Protobuf__UInt32Value number_message;

#define OK         ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__OK
#define OVER_LIMIT ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT

#define NS_PER_MS  INT64_C(1000000)
#define NS_PER_S   INT64_C(1000000000)
#define UNTIMED_NS (15 * NS_PER_MS)

enum { MARGIN_PART = 5, MARGIN_LEAST_MS = 2, MARGIN_MOST_MS = 20 };

static_assert((int)RATELIMIT_STATE_MAX <= (int)BATCH_NOTES_MAX, "any state is kept");

/* ---- requests -------------------------------------------------------------------------------- */

static bool read_descriptor(struct ratelimit_asking *asking, const descriptor_message *message,
                            uint32_t hits)
{
    const Google__Protobuf__UInt64Value *own = message->hits_addend;
    const override_message *given = message->limit;
    struct ratelimit_descriptor *out = ratelimit_descriptor(asking);
    out->hits = descriptor_hits_of(hits, own != NULL, own != NULL ? own->value : 0,
                                   message->is_negative_hits != 0);
    for (size_t i = 0; i < message->n_entries; i++) {
        const entry_message *entry = message->entries[i];
        if (!ratelimit_entry(asking, (struct policy_text){entry->key, strlen(entry->key)},
                             (struct policy_text){entry->value, strlen(entry->value)}))
            return false;
    }
    return given == NULL ||
           ratelimit_limit(asking, given->requests_per_unit, (uint32_t)given->unit,
                           given->unit_multiplier == NULL ? 1 : given->unit_multiplier->value);
}

/* Whether a text of an entry has a NUL, at which decoded texts end: it would be another's. */
static bool has_nul(const struct grpc_call *call)
{
    enum { DESCRIPTORS = 2, ENTRIES = 1 }; /* numbers of the .proto */
    struct grpc_piece request = {call->bytes, call->len};
    struct grpc_piece descriptor, entry, text;
    uint32_t outer, inner;
    if (call->len == 0 || memchr(call->bytes, 0, call->len) == NULL)
        return false;
    while ((outer = grpc_piece_next(&request, &descriptor)) != 0) {
        if (outer != DESCRIPTORS && memchr(descriptor.data, 0, descriptor.len) != NULL)
            return true; /* the domain */
        while (outer == DESCRIPTORS && (inner = grpc_piece_next(&descriptor, &entry)) != 0)
            while (inner == ENTRIES && grpc_piece_next(&entry, &text) != 0)
                if (memchr(text.data, 0, text.len) != NULL)
                    return true;
    }
    return false;
}

bool grpc_ratelimit_read(
    const struct grpc_call *call, const char *domain,
    Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor **descriptors, size_t count,
    uint32_t hits, struct ratelimit_asking *asking)
{
    if (has_nul(call)) {
        (void)snprintf(asking->error, sizeof asking->error,
                       "found a text with a NUL; expected none in domain, keys and values");
        return false;
    }
    asking->request.domain = (struct policy_text){domain, strlen(domain)};
    for (size_t i = 0; i < count; i++)
        if (!read_descriptor(asking, descriptors[i], hits))
            return false;
    return ratelimit_find(call->facts->policy, &asking->request, &call->facts->secret,
                          &asking->found, asking->error) == TG_OK;
}

/* ---- responses ------------------------------------------------------------------------------- */

/* A response, and all that it points to. */
struct response {
    response_message message;
    status_message *list[RATELIMIT_DESCRIPTORS_MAX];
    status_message statuses[RATELIMIT_DESCRIPTORS_MAX];
    limit_message limits[RATELIMIT_DESCRIPTORS_MAX];
    duration_message resets[RATELIMIT_DESCRIPTORS_MAX];
    number_message multipliers[RATELIMIT_DESCRIPTORS_MAX];
    header_message *header_list[RATELIMIT_FIELDS_COUNT];
    header_message headers[RATELIMIT_FIELDS_COUNT];
    struct ratelimit_field fields[RATELIMIT_FIELDS_COUNT];
    char names[RATELIMIT_DESCRIPTORS_MAX][RATELIMIT_NAME_LEN_MAX + 1];
};

static void put_limit(struct response *out, uint32_t i, const struct descriptor_status *status)
{
    limit_message *limit = &out->limits[i];
    envoy__service__ratelimit__v3__rate_limit_response__rate_limit__init(limit);
    limit->requests_per_unit = status->requests_per_unit;
    limit->unit = (Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit__Unit)status->unit;
    if (status->unit_multiplier != 1) {
        google__protobuf__uint32_value__init(&out->multipliers[i]);
        out->multipliers[i].value = status->unit_multiplier;
        limit->unit_multiplier = &out->multipliers[i];
    }
    memcpy(out->names[i], status->name.data, status->name.len);
    out->names[i][status->name.len] = '\0';
    limit->name = out->names[i];
    google__protobuf__duration__init(&out->resets[i]);
    out->resets[i].seconds = status->reset_s;
    out->statuses[i].current_limit = limit;
    out->statuses[i].duration_until_reset = &out->resets[i];
}

/* What Envoy is to add to the response, and tell instead of it. */
static void put_rest(struct response *out, const struct ratelimit_answer *answer,
                     enum ratelimit_fields kind)
{
    const uint32_t count = ratelimit_fields_of(answer, kind, out->fields);
    for (uint32_t i = 0; i < count; i++) {
        header_message *header = &out->headers[i];
        envoy__config__core__v3__header_value__init(header);
        header->key = (char *)(uintptr_t)out->fields[i].name;
        header->value = out->fields[i].value;
        out->header_list[i] = header;
    }
    out->message.n_response_headers_to_add = count;
    out->message.response_headers_to_add = out->header_list;
    out->message.raw_body.len = answer->message.len;
    out->message.raw_body.data = (uint8_t *)(uintptr_t)answer->message.data;
    out->message.dynamic_metadata.len = answer->metadata_len;
    out->message.dynamic_metadata.data = (uint8_t *)(uintptr_t)answer->metadata;
}

static enum grpc_verdict reply(struct grpc_call *call, const struct ratelimit_answer *answer)
{
    struct response out; /* some 30 KiB that nobody clears */
    envoy__service__ratelimit__v3__rate_limit_response__init(&out.message);
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct descriptor_status *status = &answer->statuses[i];
        envoy__service__ratelimit__v3__rate_limit_response__descriptor_status__init(
            &out.statuses[i]);
        out.statuses[i].code = status->over ? OVER_LIMIT : OK;
        out.statuses[i].limit_remaining = status->limit_remaining;
        if (status->limited)
            put_limit(&out, i, status);
        out.list[i] = &out.statuses[i];
    }
    out.message.overall_code = answer->over ? OVER_LIMIT : OK;
    put_rest(&out, answer, (enum ratelimit_fields)call->facts->fields);
    out.message.n_statuses = answer->count;
    out.message.statuses = out.list;
    return grpc_reply(call, &out.message.base);
}

static enum grpc_verdict settle(struct grpc_call *call, const struct ratelimit_state *state,
                                const struct wire_decisions *decisions, uint32_t first)
{
    struct ratelimit_answer answer;
    ratelimit_settle(state, decisions, first, (uint64_t)(call->now_ns / NS_PER_S), &answer);
    if (answer.failed != NULL) {
        char text[GRPC_TEXT_LEN];
        const struct wire_source *source = answer.failed->source;
        (void)snprintf(text, sizeof text, "%.*s", source != NULL ? (int)source->message.len : 0,
                       source != NULL ? source->message.data : "");
        return grpc_fail(call, GRPC_UNAVAILABLE, text);
    }
    return reply(call, &answer);
}

/* Small states are kept by the request, others by its call. */
static void complete(struct grpc_completion *completion)
{
    (void)settle(&completion->call, completion->call.context, completion->decisions,
                 completion->first);
}

static void complete_noted(struct grpc_completion *completion)
{
    (void)settle(&completion->call, completion->notes, completion->decisions, completion->first);
}

/* ---- the services ---------------------------------------------------------------------------- */

static int64_t decide_by(const struct grpc_call *call)
{
    const int64_t left_ns = call->deadline_ns - call->now_ns;
    int64_t margin_ns = left_ns / MARGIN_PART;
    if (call->deadline_ns == INT64_MAX)
        return call->now_ns + UNTIMED_NS;
    if (margin_ns < MARGIN_LEAST_MS * NS_PER_MS)
        margin_ns = MARGIN_LEAST_MS * NS_PER_MS;
    if (margin_ns > MARGIN_MOST_MS * NS_PER_MS)
        margin_ns = MARGIN_MOST_MS * NS_PER_MS;
    if (left_ns - margin_ns < NS_PER_MS) /* a millisecond is the least that is asked */
        return call->now_ns + NS_PER_MS < call->deadline_ns ? call->now_ns + NS_PER_MS
                                                            : call->deadline_ns;
    return call->deadline_ns - margin_ns;
}

static enum grpc_verdict ask(struct grpc_call *call, enum ratelimit_manner manner)
{
    struct ratelimit_asking asking; /* some 80 KiB that nobody clears */
    const request_message *message = (const request_message *)call->request;
    ratelimit_begin(&asking, manner);
    if (!grpc_ratelimit_read(call, message->domain, message->descriptors, message->n_descriptors,
                             message->hits_addend, &asking))
        return grpc_fail(call, GRPC_INVALID_ARGUMENT, asking.error);
    const struct ratelimit_found *found = &asking.found;
    const size_t len = ratelimit_state_len(found);
    const bool small = len <= GRPC_CONTEXT_LEN;
    if (found->state.items == 0) {
        _Alignas(struct ratelimit_state) char state[RATELIMIT_STATE_MAX];
        ratelimit_state_put(found, state);
        return settle(call, (const void *)state, NULL, 0);
    }
    call->decide_ns = decide_by(call);
    call->explain = found->state.all;
    const enum grpc_verdict verdict = grpc_ask_noting(call, found->state.items, small ? 0 : len,
                                                      small ? complete : complete_noted);
    if (verdict != GRPC_ASKED)
        return verdict;
    ratelimit_state_put(found, small ? call->context : call->notes);
    if (ratelimit_append(found, &asking.request, call->builder) != TG_OK)
        return grpc_ask_full(call);
    return GRPC_ASKED;
}

enum grpc_verdict grpc_ratelimit_should(struct grpc_call *call)
{
    return ask(call, RATELIMIT_CHECK);
}

enum grpc_verdict grpc_ratelimit_check(struct grpc_call *call)
{
    return ask(call, RATELIMIT_LOOK);
}

enum grpc_verdict grpc_ratelimit_report(struct grpc_call *call)
{
    return ask(call, RATELIMIT_REPORT);
}

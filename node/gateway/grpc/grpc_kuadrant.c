/* grpc_kuadrant.c - reservations of a domain's limits.
 *
 * All limits that the descriptors meet, eight at most, are held together, and settled together. A
 * reservation's name is its number and when it ends, so that a commit can tell whether it was still
 * held; what it charges does not depend on that.
 */
#include "node/gateway/grpc/grpc_kuadrant.h"

#include <inttypes.h>
#include <proto/kuadrant.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "node/gateway/grpc/grpc_ratelimit.h"
#include "node/gateway/ratelimit/ratelimit.h"

typedef Kuadrant__Service__Ratelimit__V1__ReserveRequest reserve_request;
typedef Kuadrant__Service__Ratelimit__V1__ReserveResponse reserve_response;
typedef Kuadrant__Service__Ratelimit__V1__CommitRequest commit_request;
typedef Kuadrant__Service__Ratelimit__V1__CommitResponse commit_response;

#define OK         ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__OK
#define OVER_LIMIT ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__OVER_LIMIT
#define NS_PER_MS  INT64_C(1000000)

enum { NAME_LEN = 40, MS_PER_S = 1000 };

/* What the answer to a commit needs to know of the request. */
struct asked {
    int64_t ends_ms; /* when the reservation does */
};

static enum grpc_verdict fail_undecided(struct grpc_call *call,
                                        const struct wire_decision *decision)
{
    char text[GRPC_TEXT_LEN] = "nobody who can decide is in reach now; ask again";
    const struct wire_source *source = decision->source;
    if (source != NULL && source->message.len > 0)
        (void)snprintf(text, sizeof text, "%.*s", (int)source->message.len, source->message.data);
    return grpc_fail(call, GRPC_UNAVAILABLE, text);
}

static bool is_undecided(const struct wire_decision *decision)
{
    return !decision->allowed &&
           (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY);
}

static enum grpc_verdict ask(struct grpc_call *call, const struct ratelimit_asking *asking,
                             grpc_complete_fn *complete)
{
    const enum grpc_verdict verdict = grpc_ask(call, 1, complete);
    if (verdict != GRPC_ASKED)
        return verdict;
    if (ratelimit_append(&asking->found, &asking->request, call->builder) != TG_OK)
        return grpc_ask_full(call);
    return GRPC_ASKED;
}

/* ---- Reserve --------------------------------------------------------------------------------- */

static enum grpc_verdict tell_reserved(struct grpc_call *call, bool allowed, uint64_t lease,
                                       int64_t ends_ms)
{
    char name[NAME_LEN];
    reserve_response response = KUADRANT__SERVICE__RATELIMIT__V1__RESERVE_RESPONSE__INIT;
    response.code = allowed ? OK : OVER_LIMIT;
    (void)snprintf(name, sizeof name, "%" PRIx64 "-%" PRIx64, lease, (uint64_t)ends_ms);
    if (allowed)
        response.reservation_id = name;
    return grpc_reply(call, &response.base);
}

static void reserved(struct grpc_completion *completion)
{
    struct wire_decision decision;
    struct grpc_call *call = &completion->call;
    grpc_decision(completion, 0, &decision);
    if (is_undecided(&decision))
        (void)fail_undecided(call, &decision);
    else
        (void)tell_reserved(call, decision.allowed, decision.lease,
                            call->now_ns / NS_PER_MS + decision.lease_ms);
}

/* In ms; 0: none is given. Less than 0: it is out of its bounds. */
static int64_t ttl_ms_of(const Google__Protobuf__Duration *ttl)
{
    if (ttl == NULL)
        return 0;
    if (ttl->seconds < 0 || ttl->seconds > LIMIT_TTL_MAX_MS / MS_PER_S)
        return -1;
    const int64_t ms = ttl->seconds * MS_PER_S + ttl->nanos / NS_PER_MS;
    return ms > 0 && wire_ttl_valid((uint64_t)ms) ? ms : -1;
}

enum grpc_verdict grpc_kuadrant_reserve(struct grpc_call *call)
{
    struct ratelimit_asking asking;
    const reserve_request *message = (const reserve_request *)call->request;
    const int64_t ttl_ms = ttl_ms_of(message->ttl);
    ratelimit_begin(&asking, RATELIMIT_RESERVE);
    if (message->amount == 0 || message->amount > WIRE_COST_MAX)
        return grpc_fail(call, GRPC_INVALID_ARGUMENT, "amount: expected 1 to 10^15");
    if (ttl_ms < 0)
        return grpc_fail(call, GRPC_INVALID_ARGUMENT, "ttl: expected 1s to 1h");
    asking.request.cost = message->amount;
    asking.request.used = (uint64_t)ttl_ms;
    if (!grpc_ratelimit_read(call, message->domain, message->descriptors, message->n_descriptors, 0,
                             &asking))
        return grpc_fail(call, GRPC_INVALID_ARGUMENT, asking.error);
    if (asking.found.state.items == 0)
        return tell_reserved(call, true, 0, 0);
    return ask(call, &asking, reserved);
}

/* ---- Commit ---------------------------------------------------------------------------------- */

static enum grpc_verdict tell_committed(struct grpc_call *call, bool released)
{
    commit_response response = KUADRANT__SERVICE__RATELIMIT__V1__COMMIT_RESPONSE__INIT;
    response.reservation_released = released;
    return grpc_reply(call, &response.base);
}

static void committed(struct grpc_completion *completion)
{
    struct wire_decision decision;
    struct grpc_call *call = &completion->call;
    const struct asked *asked = call->context;
    grpc_decision(completion, 0, &decision);
    if (is_undecided(&decision))
        (void)fail_undecided(call, &decision);
    else
        (void)tell_committed(call, call->now_ns / NS_PER_MS < asked->ends_ms);
}

/* NUMBER-END, both in hexadecimal. */
static bool read_name(const char *name, uint64_t *lease, int64_t *ends_ms)
{
    uint64_t ends;
    int len = 0;
    const bool good = sscanf(name, "%16" SCNx64 "-%16" SCNx64 "%n", lease, &ends, &len) == 2 &&
                      len > 0 && name[len] == '\0' && ends <= INT64_MAX;
    *ends_ms = good ? (int64_t)ends : 0;
    return good;
}

enum grpc_verdict grpc_kuadrant_commit(struct grpc_call *call)
{
    struct ratelimit_asking asking;
    const commit_request *message = (const commit_request *)call->request;
    struct asked *asked = call->context;
    ratelimit_begin(&asking, RATELIMIT_COMMIT);
    if (!read_name(message->reservation_id, &asking.request.cost, &asked->ends_ms))
        return grpc_fail(call, GRPC_INVALID_ARGUMENT,
                         "reservation_id: expected one that Reserve has told");
    if (message->actual_amount > WIRE_COST_MAX)
        return grpc_fail(call, GRPC_INVALID_ARGUMENT, "actual_amount: expected at most 10^15");
    asking.request.used = message->actual_amount;
    if (!grpc_ratelimit_read(call, message->domain, message->descriptors, message->n_descriptors, 0,
                             &asking))
        return grpc_fail(call, GRPC_INVALID_ARGUMENT, asking.error);
    if (asking.found.state.items == 0)
        return tell_committed(call, false);
    return ask(call, &asking, committed);
}

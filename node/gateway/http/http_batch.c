/* http_batch.c - questions of HTTP's requests in messages to the shard; http_batch.h draws the way.
 *
 * A handler's question is a call of a batch (batches.h), whose user this is: what is decided goes
 * to the completion that the handler has left, with room for the response in its connection's
 * `out`.
 */
#include "node/gateway/http/http_batch.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "base/mp.h"
#include "node/gateway/http/http_stream.h"
#include "node/gateway/http/http_trace.h"
#include "node/gateway/trace/tracer.h"
#include "node/policy/rights/commands.h"

#define NS_PER_S INT64_C(1000000000)

#define BUSY_DETAIL "the node has more requests than it can decide; try again later"
#define LATE_DETAIL "the node did not decide in time; whether it counted is not known"
#define LONG_DETAIL                                                                                \
    "the checks need more than one message: expected at most 256 different limits or sets of "     \
    "attributes, and 1 MiB"

enum { DETAIL_LEN = WIRE_ERROR_LEN };

static_assert((int)HTTP_ADMIN_ROOM <= (int)WIRE_MESSAGE_MAX, "texts of a question fit");
static_assert((int)GATEWAY_OUT_LEN >= 2 * (int)HTTP_ROOM, "one always fits");

/* A request that waits. */
struct call {
    struct batch_call base;
    http_complete_fn *complete;
    struct http_form form;
    uint32_t span; /* of the request, or 0 */
    uint64_t context[HTTP_CONTEXT_LEN / sizeof(uint64_t)];
};

static_assert(offsetof(struct call, base) == 0, "it is a call of a batch");
static_assert(sizeof(struct call) >= BATCH_CALL_MIN, "notes have the room that is told");

struct http_batches {
    const struct allocator *allocator;
    const struct http_facts *facts;
    struct gateway_stats *stats;
    struct http_stats *http_stats;
    struct batches *batches; /* their calls are struct call, or of HTTP/2 */
    struct batch_user user;
    int64_t date_s;
    struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    char date[HTTP_DATE_LEN];
};

void http_batches_now(struct http_batches *batches, int64_t now_ns)
{
    batches->batches->now_ns = now_ns;
    if (now_ns / NS_PER_S == batches->date_s)
        return;
    batches->date_s = now_ns / NS_PER_S;
    http_date(batches->date_s, batches->date);
}

int64_t http_batches_time(const struct http_batches *batches)
{
    return batches->batches->now_ns;
}

const char *http_batches_date(const struct http_batches *batches)
{
    return batches->date;
}

struct batches *http_batches_of(struct http_batches *batches)
{
    return batches->batches;
}

void http_batches_close(struct http_batches *batches, struct http_reply *reply)
{
    if (reply->form.stream != HTTP_STREAM_NONE) {
        http_stream_settle(reply);
        return;
    }
    if (reply->failed || !reply->done) {
        http_problem(reply, 500, "the response has no room");
        ASSERT(reply->done); /* HTTP_ROOM is more than that */
    }
    batches->http_stats->answered++;
    batches->http_stats->redirected += reply->status / 100 == 3;
    batches->http_stats->refused += reply->status / 100 == 4;
    batches->http_stats->failed += reply->status / 100 == 5;
    tracer_end(batches->facts->tracer, reply->span, reply->status);
}

/* ---- the question of a request --------------------------------------------------------------- */

static enum http_verdict again(struct http_exchange *exchange, enum gateway_stop stop)
{
    exchange->stop = stop;
    return HTTP_AGAIN;
}

static enum http_verdict busy(struct http_exchange *exchange)
{
    if (exchange->peer->base.waiting > 0)
        return again(exchange, GATEWAY_NEED_ANSWER);
    exchange->batches->stats->busy++;
    http_problem_busy(&exchange->reply, BUSY_DETAIL);
    return HTTP_ANSWERED;
}

/* Whether `out` has so much room beside what is reserved; else *verdict is what to return. */
static bool have_room(struct http_exchange *exchange, size_t room, enum http_verdict *verdict)
{
    struct gateway_peer *peer = &exchange->peer->base;
    ASSERT(exchange->reply.status == 0);
    if (peer->out.capacity - peer->out.len >= peer->reserved + room)
        return true;
    if (peer->cramped) {
        *verdict = busy(exchange);
        return false;
    }
    peer->room = room;
    *verdict = again(exchange, GATEWAY_NEED_ROOM);
    return false;
}

bool http_room(struct http_exchange *exchange, size_t room, enum http_verdict *verdict)
{
    struct gateway_peer *peer = &exchange->peer->base;
    if (peer->waiting > 0) {
        *verdict = again(exchange, GATEWAY_NEED_ANSWER);
        return false;
    }
    if (!have_room(exchange, room, verdict))
        return false;
    http_reply_init(&exchange->reply, &peer->out, room, exchange->form, exchange->batches->date);
    return true;
}

/* Begins a call in the open batch, which is opened for it. */
static enum http_verdict begin_call(struct http_exchange *exchange, const struct http_ask *ask,
                                    enum batch_kind kind, struct call **out)
{
    struct batches *batches = exchange->batches->batches;
    const struct batch_ask asked = {
        .count = ask->count,
        .notes_len = ask->notes_len,
        .kind = kind,
        .explain = ask->explain,
        .timeout_ms = ask->timeout_ms > 0 ? ask->timeout_ms : BATCH_TIMEOUT_MS,
        .session = ask->session,
        .seq = ask->seq,
    };
    ASSERT(ask->room >= HTTP_ROOM && ask->room <= UINT32_MAX);
    if (batches_elsewhere(batches, &exchange->peer->base))
        return again(exchange, GATEWAY_NEED_ANSWER);
    enum http_verdict verdict;
    if (!have_room(exchange, ask->room, &verdict)) /* BATCHES-2 */
        return verdict;
    struct batch_call *place;
    const enum batch_begun begun = batches_begin(batches, &asked, &place);
    if (begun != BATCH_BEGUN)
        return begun == BATCH_BUSY ? busy(exchange) : again(exchange, GATEWAY_NEED_SUBMIT);
    struct call *call = (struct call *)place;
    *call = (struct call){.base = {.token = exchange->token,
                                   .user = &exchange->batches->user,
                                   .first = place->first,
                                   .count = place->count,
                                   .extra = place->extra,
                                   .room = (uint32_t)ask->room},
                          .complete = ask->complete,
                          .form = exchange->form};
    *out = call;
    return HTTP_ASKED;
}

enum http_verdict http_ask_begin(struct http_exchange *exchange, const struct http_ask *ask,
                                 void **context)
{
    struct call *call;
    ASSERT(ask->count >= 1 && ask->complete != NULL);
    ASSERT(!ask->explain || ask->count <= WIRE_EXPLAIN_ITEMS_MAX);
    const enum batch_kind kind = ask->session != 0 ? BATCH_RETRY
                                 : ask->explain    ? BATCH_ALONE
                                                   : BATCH_SHARED;
    const enum http_verdict verdict = begin_call(exchange, ask, kind, &call);
    if (verdict != HTTP_ASKED)
        return verdict;
    exchange->builder = &exchange->batches->batches->builder;
    exchange->notes = batches_notes(exchange->batches->batches, &call->base);
    *context = call->context;
    return HTTP_ASKED;
}

enum http_verdict http_ask_admin(struct http_exchange *exchange, const char *command, size_t room,
                                 http_complete_fn *complete, void **context,
                                 struct mp_writer **writer)
{
    struct batches *batches = exchange->batches->batches;
    const struct http_ask ask = {.count = 0, .room = room, .complete = complete};
    struct call *call;
    const uint8_t needed = (uint8_t)command_right(command, strlen(command));
    if (!exchange->peer->base.aside && access_missing(&exchange->access, needed)[0] != '\0') {
        http_problem(&exchange->reply, 403, "the route's right is not that of its command");
        return HTTP_ANSWERED; /* ACCESS-1: no route goes without */
    }
    const enum http_verdict verdict = begin_call(exchange, &ask, BATCH_ADMIN, &call);
    if (verdict != HTTP_ASKED)
        return verdict;
    *writer = batches_command(batches, command, HTTP_ADMIN_TIMEOUT_MS);
    *context = call->context;
    exchange->room = (char *)batches->values; /* of the builder, which has nothing to hold now */
    return HTTP_ASKED;
}

void http_ask_secret(const struct http_exchange *exchange, uint8_t number, struct digest *out)
{
    const struct http_facts *facts = exchange->batches->facts;
    struct batches *batches = exchange->batches->batches;
    ASSERT(batches->asking);
    struct {
        uint8_t secret[sizeof facts->secret];
        uint64_t session;
        uint64_t seq;
        uint64_t number;
    } from = {.session = batches->session, .seq = batches_at_hand(batches)->seq, .number = number};
    memcpy(from.secret, facts->secret, sizeof from.secret);
    digest_make(&from, sizeof from, out);
}

void http_ask_cancel(struct http_exchange *exchange)
{
    batches_cancel(exchange->batches->batches);
    exchange->builder = NULL;
}

enum http_verdict http_ask_full(struct http_exchange *exchange)
{
    http_ask_cancel(exchange);
    if (batches_at_hand(exchange->batches->batches)->count > 0)
        return again(exchange, GATEWAY_NEED_SUBMIT);
    http_problem(&exchange->reply, 413, LONG_DETAIL);
    return HTTP_ANSWERED;
}

bool http_batches_refused(struct http_exchange *exchange, struct http_stats *stats,
                          struct http_guarded *guarded)
{
    const struct batches *batches = exchange->batches->batches;
    if (exchange->form.stream != HTTP_STREAM_NONE ||
        !http_guard_checks(exchange, &batches->builder, batches->mark.count, stats, guarded))
        return false;
    http_ask_cancel(exchange);
    return true;
}

void http_batches_commit(struct http_exchange *exchange)
{
    struct batches *batches = exchange->batches->batches;
    struct call *call = (struct call *)batches_next(batches);
    if (exchange->form.stream == HTTP_STREAM_NONE) /* a turn of a stream is no request */
        call->span = http_trace_asked(exchange, call->base.first, call->base.count);
    batches_commit(batches, &exchange->peer->base);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct http_completion completion_of(struct http_batches *batches, struct gateway_peer *peer,
                                            struct call *call)
{
    struct http_stream *stream = ((struct http_peer *)peer)->stream;
    struct http_completion completion = {.facts = batches->facts,
                                         .now_ns = batches->batches->now_ns,
                                         .context = call->context,
                                         .notes = batches_notes(batches->batches, &call->base),
                                         .stream = stream != NULL ? stream->context : NULL,
                                         .count = call->base.count,
                                         .first = call->base.first};
    http_reply_init(&completion.reply, &peer->out, call->base.room, call->form, batches->date);
    completion.reply.span = call->span;
    return completion;
}

static void decided(void *context, struct gateway_peer *peer, struct batch_call *base,
                    const struct wire_decisions *decisions)
{
    struct http_batches *batches = context;
    struct call *call = (struct call *)base;
    struct http_completion completion = completion_of(batches, peer, call);
    completion.decisions = decisions;
    tracer_decided(batches->facts->tracer, call->span, decisions, base->first, base->count);
    call->complete(&completion);
    http_batches_close(batches, &completion.reply);
}

static void replied(void *context, struct gateway_peer *peer, struct batch_call *base,
                    const void *frame, size_t len)
{
    struct http_batches *batches = context;
    struct call *call = (struct call *)base;
    struct http_completion completion = completion_of(batches, peer, call);
    struct wire_admin_reply reply;
    char error[WIRE_ERROR_LEN];
    if (wire_decode_admin_reply(frame, len, batches->tokens, WIRE_ADMIN_TOKENS_MAX, &reply,
                                error) != 0) {
        http_problem(&completion.reply, 500, "the answer has more parts than can be shown");
    } else {
        completion.admin = &reply;
        call->complete(&completion);
    }
    http_batches_close(batches, &completion.reply);
}

/* Whoever asked for an operator's command has more to say when that is not answered in time. */
static void tell_late(struct http_completion *completion, const struct call *call,
                      const char *detail)
{
    const struct mp_token sentence = {
        .type = MP_STR, .count = (uint32_t)strlen(detail), .data = (const uint8_t *)detail};
    const struct wire_admin_reply reply = {.code = TG_ETIMEOUT,
                                           .value = {.tokens = &sentence, .token_count = 1}};
    completion->admin = &reply;
    call->complete(completion);
}

static void failed(void *context, struct gateway_peer *peer, struct batch_call *base,
                   const struct batch_failure *failure)
{
    struct http_batches *batches = context;
    struct call *call = (struct call *)base;
    struct http_completion completion = completion_of(batches, peer, call);
    const bool busy = failure->code == TG_EBUSY;
    const bool admin = base->count == 0;
    char detail[DETAIL_LEN];
    (void)snprintf(detail, sizeof detail, "%.*s", (int)failure->text.len, failure->text.data);
    const unsigned status = failure->late                              ? 504
                            : busy || failure->code == TG_EUNAVAILABLE ? 503
                            : admin ? http_status_of(failure->code)
                                    : 500;
    const char *says = failure->late ? LATE_DETAIL : busy ? BUSY_DETAIL : detail;
    batches->stats->busy += busy;
    if (admin && status == 504)
        tell_late(&completion, call, says);
    else if (status == 503)
        http_problem_busy(&completion.reply, says);
    else
        http_problem(&completion.reply, status, says);
    http_batches_close(batches, &completion.reply);
}

static void gone(void *context, struct batch_call *base)
{
    const struct http_batches *batches = context;
    tracer_end(batches->facts->tracer, ((struct call *)base)->span, 0);
}

/* ---- the start ------------------------------------------------------------------------------- */

int http_batches_new(const struct allocator *allocator, uint64_t session,
                     const struct http_facts *facts, struct gateway_stats *stats,
                     struct http_stats *http_stats, struct http_batches **out)
{
    struct http_batches *batches = alloc_get(allocator, sizeof *batches);
    *out = batches;
    if (batches == NULL)
        return TG_ENOMEM;
    batches->allocator = allocator;
    batches->facts = facts;
    batches->stats = stats;
    batches->http_stats = http_stats;
    batches->date_s = -1;
    batches->user = (struct batch_user){batches, decided, replied, failed, gone};
    if (batches_new(allocator, session, sizeof(struct call), stats, &batches->batches) == 0) {
        http_batches_now(batches, 0);
        return 0;
    }
    http_batches_free(out);
    return TG_ENOMEM;
}

void http_batches_free(struct http_batches **pointer)
{
    struct http_batches *batches = *pointer;
    *pointer = NULL;
    if (batches == NULL)
        return;
    batches_free(&batches->batches);
    alloc_put(batches->allocator, batches, sizeof *batches);
}

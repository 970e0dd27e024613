/* http_batch.c - questions of many requests in few messages; http_batch.h draws the way.
 *
 * The shard knows nothing of HTTP. To it the gate is one client more, with a session of its own,
 * that sends CHECKS and operators' commands by the client protocol (as resp_gate.c does for Redis
 * clients), so rules, forwarding, undos and totals are those of every other check.
 *
 * A batch is filled by whatever the connections have sent that were found ready at once, and leaves
 * when it has HTTP_BATCH_MAX checks, or when these have been read. One in which some checks are
 * decided by other nodes is answered in parts (PARTLY), each of which tells all that is decided by
 * then. So nothing is kept of a decision: the answer that decides the last check of a request tells
 * the others of it again, and its handler writes the response from that.
 *
 *      batch    FREE --ask--> OPEN --submit--> SUBMITTED --last answer, expire--> FREE
 *                                                |   ^
 *                                                +---+ answer with something pending
 *
 *      seq      | serial 53 bits | place 11 bits |    what an answer names it by
 *
 * Order. Responses come in the order of requests, and connections have no queue of responses. They
 * need none, by two rules: while requests of a peer are in a batch, more of it are taken into that
 * same batch only, which answers them in order; and whatever is answered at once waits until
 * nothing of the peer is waited for. What cannot be taken stays with the caller, and so in the end
 * with the client: that is the bound on what one may send ahead.
 *
 * A request that is a retry has a name of its own, chosen by its handler (session, seq), and a
 * batch of its own, which is found by that name.
 *
 * HTTPBATCH-1  A peer's `waiting` requests are all in one batch, `batch`.
 * HTTPBATCH-2  `out` always has room for the responses that a peer waits for (`reserved`), so none
 *              is lost or grows a buffer.
 * HTTPBATCH-3  Every request that was taken is answered once: by its handler, or by the gate when
 *              the shard refuses its batch or does not answer.
 * HTTPBATCH-4  What the batch's builder accepts the shard accepts: nobody's mistake is in another's
 *              batch.
 * HTTPBATCH-5  A batch is in the list of free ones, or open, or submitted; `waiting` counts the
 *              last ones, and each of them has a request that is not answered.
 */
#include "node/gateway/http/http_batch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/digest.h"
#include "base/mp.h"
#include "node/gateway/http/http_stream.h"
#include "node/gateway/http/http_trace.h"
#include "node/gateway/trace/tracer.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

#define BUSY_DETAIL "the node has more requests than it can decide; try again later"
#define LATE_DETAIL "the node did not decide in time; whether it counted is not known"
#define LONG_DETAIL                                                                                \
    "the checks need more than one message: expected at most 256 different limits or sets of "     \
    "attributes, and 1 MiB"

enum {
    PLACE_BITS = 11,
    VALUES_LEN = WIRE_MESSAGE_MAX,
    NONE = UINT16_MAX,
    FLAGS = WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE, /* of batches that are asked once */
    DETAIL_LEN = WIRE_ERROR_LEN
};

static_assert(HTTP_BATCHES_MAX == 1 << PLACE_BITS, "a place fits a seq");
static_assert((int)HTTP_BATCH_MAX <= (int)WIRE_TEMPLATES_MAX, "a shared batch is one message");
static_assert((int)HTTP_ADMIN_ROOM <= (int)VALUES_LEN, "texts of an operator's question fit");
static_assert((int)GATEWAY_OUT_LEN >= 2 * (int)HTTP_ROOM, "one always fits");

/* A request that waits. */
struct call {
    uint64_t token;
    http_complete_fn *complete;
    uint32_t first; /* of its checks in the batch */
    uint32_t count;
    uint32_t room; /* that is reserved for its response */
    uint32_t span; /* of the request, or 0 */
    struct http_form form;
    bool answered;
    uint64_t context[HTTP_CONTEXT_LEN / sizeof(uint64_t)];
};

/* What a batch carries. */
enum kind {
    KIND_SHARED,  /* checks of any requests */
    KIND_EXPLAIN, /* checks of one request, all limits of which are told */
    KIND_RETRY,   /* checks of one request, under a name that its handler chose */
    KIND_ADMIN    /* an operator's command */
};

struct batch {
    uint64_t seq; /* 0: free */
    uint64_t session;
    uint64_t name; /* the seq that travels */
    int64_t submitted_ns;
    uint16_t next_free;
    uint16_t count; /* of calls */
    uint8_t kind;
    bool explain;
    uint32_t timeout_ms; /* in which the shard is to decide */
    struct call *calls;  /* [HTTP_BATCH_MAX] */
};

/* How far the builder was before the request at hand. */
struct mark {
    uint32_t count;
    uint32_t template_count;
    uint32_t template_last;
    size_t templates_len;
    size_t values_len;
    bool states_uses;
};

struct http_batches {
    const struct allocator *allocator;
    const struct http_facts *facts;
    struct gateway_stats *stats;
    struct http_stats *http_stats;
    uint64_t session;
    uint64_t serial;
    uint64_t answers; /* that came */
    int64_t now_ns;
    int64_t date_s;
    uint16_t first_free;
    uint16_t open; /* the batch that is being filled, or NONE */
    uint32_t waiting;
    uint32_t retries;       /* of these: under a name of their own */
    bool asking;            /* a handler has begun a question, in the open batch, */
    uint32_t asked;         /* of so many checks, */
    struct mark mark;       /* before which the builder was there */
    struct mp_writer admin; /* of an operator's command */
    struct batch batches[HTTP_BATCHES_MAX];
    struct call calls[HTTP_BATCHES_MAX * HTTP_BATCH_MAX]; /* the first ones are used most */
    struct wire_checks_builder builder;
    struct wire_decisions_space space;
    struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    char date[HTTP_DATE_LEN];
    uint8_t values[VALUES_LEN];
    uint8_t frame[WIRE_MESSAGE_MAX];
};

int http_batches_new(const struct allocator *allocator, uint64_t session,
                     const struct http_facts *facts, struct gateway_stats *stats,
                     struct http_stats *http_stats, struct http_batches **out)
{
    struct http_batches *batches = alloc_get(allocator, sizeof *batches);
    *out = batches;
    if (batches == NULL)
        return TG_ENOMEM;
    ASSERT(session != 0);
    batches->allocator = allocator;
    batches->facts = facts;
    batches->stats = stats;
    batches->http_stats = http_stats;
    batches->session = session;
    batches->open = NONE;
    batches->date_s = -1;
    http_batches_now(batches, 0);
    for (uint16_t i = 0; i < HTTP_BATCHES_MAX; i++) {
        batches->batches[i].next_free = (uint16_t)(i + 1 < HTTP_BATCHES_MAX ? i + 1 : NONE);
        batches->batches[i].calls = &batches->calls[(size_t)i * HTTP_BATCH_MAX];
    }
    wire_checks_builder_init(&batches->builder, batches->values, sizeof batches->values);
    return 0;
}

void http_batches_free(struct http_batches **batches)
{
    if (*batches != NULL)
        alloc_put((*batches)->allocator, *batches, sizeof **batches);
    *batches = NULL;
}

void http_batches_now(struct http_batches *batches, int64_t now_ns)
{
    batches->now_ns = now_ns;
    if (now_ns / NS_PER_S == batches->date_s)
        return;
    batches->date_s = now_ns / NS_PER_S;
    http_date(batches->date_s, batches->date);
}

int64_t http_batches_time(const struct http_batches *batches)
{
    return batches->now_ns;
}

const char *http_batches_date(const struct http_batches *batches)
{
    return batches->date;
}

uint32_t http_batches_waiting(const struct http_batches *batches)
{
    return batches->waiting;
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

/* The open batch, opened if there is none; NULL if all are out. */
static struct batch *open_batch(struct http_batches *batches)
{
    if (batches->open != NONE)
        return &batches->batches[batches->open];
    const uint16_t place = batches->first_free;
    if (place == NONE)
        return NULL;
    struct batch *batch = &batches->batches[place];
    ASSERT(batch->seq == 0 && place < HTTP_BATCHES_MAX); /* HTTPBATCH-5 */
    batches->first_free = batch->next_free;
    batches->open = place;
    batch->seq = batch->name = ++batches->serial << PLACE_BITS | place;
    batch->session = batches->session;
    batch->count = 0;
    batch->kind = KIND_SHARED;
    batch->explain = false;
    wire_checks_builder_reset(&batches->builder);
    return batch;
}

bool http_batches_full(const struct http_batches *batches)
{
    if (batches->open == NONE || batches->batches[batches->open].count == 0)
        return false;
    return batches->batches[batches->open].kind != KIND_SHARED ||
           batches->builder.count >= HTTP_BATCH_MAX;
}

static void set_mark(struct http_batches *batches)
{
    const struct wire_checks_builder *builder = &batches->builder;
    batches->mark = (struct mark){.count = builder->count,
                                  .template_count = builder->template_count,
                                  .template_last = builder->template_last,
                                  .templates_len = builder->templates_len,
                                  .values_len = builder->values_len,
                                  .states_uses = builder->states_uses};
}

static void go_back(struct http_batches *batches)
{
    struct wire_checks_builder *builder = &batches->builder;
    const struct mark *mark = &batches->mark;
    builder->count = mark->count;
    builder->template_count = mark->template_count;
    builder->template_last = mark->template_last;
    builder->templates_len = mark->templates_len;
    builder->values_len = mark->values_len;
    builder->states_uses = mark->states_uses;
}

/* Begins a call in the open batch, which is opened for it. `alone`: the batch is its own. */
static enum http_verdict begin_call(struct http_exchange *exchange, const struct http_ask *ask,
                                    bool alone, struct call **out)
{
    struct http_batches *batches = exchange->batches;
    struct gateway_peer *peer = &exchange->peer->base;
    ASSERT(!batches->asking && ask->room >= HTTP_ROOM && ask->room <= UINT32_MAX);
    if (peer->waiting > 0 &&
        (batches->open == NONE || batches->batches[batches->open].seq != exchange->peer->batch))
        return again(exchange, GATEWAY_NEED_ANSWER); /* HTTPBATCH-1 */
    enum http_verdict verdict;
    if (!have_room(exchange, ask->room, &verdict)) /* HTTPBATCH-2 */
        return verdict;
    struct batch *batch = open_batch(batches);
    if (batch == NULL)
        return busy(exchange);
    const uint32_t timeout_ms = ask->timeout_ms > 0 ? ask->timeout_ms : HTTP_TIMEOUT_MS;
    if (batch->count > 0 &&
        (alone || http_batches_full(batches) || batch->timeout_ms != timeout_ms ||
         batches->builder.count + ask->count > HTTP_BATCH_MAX))
        return again(exchange, GATEWAY_NEED_SUBMIT);
    batch->timeout_ms = timeout_ms;
    struct call *call = &batch->calls[batch->count];
    *call = (struct call){.token = exchange->token,
                          .complete = ask->complete,
                          .first = batches->builder.count,
                          .count = ask->count,
                          .room = (uint32_t)ask->room,
                          .form = exchange->form};
    batches->asking = true;
    batches->asked = ask->count;
    set_mark(batches);
    *out = call;
    return HTTP_ASKED;
}

enum http_verdict http_ask_begin(struct http_exchange *exchange, const struct http_ask *ask,
                                 void **context)
{
    struct http_batches *batches = exchange->batches;
    struct call *call;
    ASSERT(ask->count >= 1 && ask->count <= WIRE_CHECKS_MAX && ask->complete != NULL);
    const bool alone = ask->session != 0 || ask->explain;
    ASSERT(!ask->explain || ask->count <= WIRE_EXPLAIN_ITEMS_MAX);
    const enum http_verdict verdict = begin_call(exchange, ask, alone, &call);
    if (verdict != HTTP_ASKED)
        return verdict;
    struct batch *batch = &batches->batches[batches->open];
    batch->kind = ask->session != 0 ? KIND_RETRY : ask->explain ? KIND_EXPLAIN : KIND_SHARED;
    batch->explain = ask->explain;
    batch->session = ask->session != 0 ? ask->session : batches->session;
    batch->name = ask->session != 0 ? ask->seq : batch->seq;
    exchange->builder = &batches->builder;
    *context = call->context;
    return HTTP_ASKED;
}

enum http_verdict http_ask_admin(struct http_exchange *exchange, const char *command, size_t room,
                                 http_complete_fn *complete, void **context,
                                 struct mp_writer **writer)
{
    struct http_batches *batches = exchange->batches;
    const struct http_ask ask = {.count = 0, .room = room, .complete = complete};
    struct call *call;
    const enum http_verdict verdict = begin_call(exchange, &ask, true, &call);
    if (verdict != HTTP_ASKED)
        return verdict;
    struct batch *batch = &batches->batches[batches->open];
    batch->kind = KIND_ADMIN;
    mp_writer_init(&batches->admin, batches->frame, sizeof batches->frame);
    wire_begin_admin(&batches->admin, batches->session, batch->seq, command);
    *context = call->context;
    *writer = &batches->admin;
    exchange->room = (char *)batches->values; /* of the builder, which has nothing to hold now */
    return HTTP_ASKED;
}

void http_ask_secret(const struct http_exchange *exchange, uint8_t number, struct digest *out)
{
    const struct http_batches *batches = exchange->batches;
    struct {
        uint8_t secret[sizeof batches->facts->secret];
        uint64_t session;
        uint64_t seq;
        uint64_t number;
    } from = {
        .session = batches->session, .seq = batches->batches[batches->open].seq, .number = number};
    ASSERT(batches->asking && batches->open != NONE);
    memcpy(from.secret, batches->facts->secret, sizeof from.secret);
    digest_make(&from, sizeof from, out);
}

void http_ask_cancel(struct http_exchange *exchange)
{
    struct http_batches *batches = exchange->batches;
    ASSERT(batches->asking);
    go_back(batches);
    batches->asking = false;
    exchange->builder = NULL;
}

enum http_verdict http_ask_full(struct http_exchange *exchange)
{
    const struct http_batches *batches = exchange->batches;
    const bool shared = batches->batches[batches->open].count > 0;
    http_ask_cancel(exchange);
    if (shared)
        return again(exchange, GATEWAY_NEED_SUBMIT);
    http_problem(&exchange->reply, 413, LONG_DETAIL);
    return HTTP_ANSWERED;
}

void http_batches_commit(struct http_exchange *exchange)
{
    struct http_batches *batches = exchange->batches;
    struct http_peer *peer = exchange->peer;
    struct batch *batch = &batches->batches[batches->open];
    struct call *call = &batch->calls[batch->count];
    ASSERT(batches->asking && batch->count < HTTP_BATCH_MAX);
    ASSERT(batches->builder.count - batches->mark.count == batches->asked);
    ASSERT(batch->kind != KIND_ADMIN || !batches->admin.failed);
    ASSERT(peer->base.waiting == 0 || peer->batch == batch->seq); /* HTTPBATCH-1 */
    batches->asking = false;
    call->span = exchange->form.stream == HTTP_STREAM_NONE
                     ? http_trace_asked(exchange, call->first, call->count)
                     : 0; /* a turn of a stream is no request */
    batch->count++;
    peer->batch = batch->seq;
    peer->base.waiting++;
    peer->base.reserved += call->room;
    ASSERT(peer->base.out.len + peer->base.reserved <= peer->base.out.capacity); /* HTTPBATCH-2 */
    batches->stats->checks += call->count;
}

size_t http_batches_submit(struct http_batches *batches, const uint8_t **frame)
{
    if (batches->open == NONE || batches->batches[batches->open].count == 0)
        return 0;
    struct batch *batch = &batches->batches[batches->open];
    ASSERT(!batches->asking);
    batches->open = NONE;
    batches->waiting++;
    batches->retries += batch->kind == KIND_RETRY;
    ASSERT(batches->waiting <= HTTP_BATCHES_MAX); /* HTTPBATCH-5 */
    batches->stats->batches++;
    batch->submitted_ns = batches->now_ns;
    *frame = batches->frame;
    if (batch->kind == KIND_ADMIN)
        return batches->admin.len;
    const uint32_t flags =
        (batch->kind == KIND_RETRY ? WIRE_FLAG_RETRY | WIRE_FLAG_PARTLY : FLAGS) |
        (batch->explain ? WIRE_FLAG_EXPLAIN : 0U);
    const int len =
        wire_checks_builder_encode(&batches->builder, batch->session, batch->name, flags,
                                   batch->timeout_ms, batches->frame, sizeof batches->frame);
    ASSERT(len > 0); /* HTTPBATCH-4 */
    return (size_t)len;
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct http_peer *find_peer(const struct gateway_finder *finder, uint64_t token)
{
    return (struct http_peer *)finder->find(finder->context, token); /* begins with its base */
}

/* The call is answered now; `peer` is whose it is, NULL: it is gone. */
static void settle(const struct http_batches *batches, struct http_peer *peer, struct call *call)
{
    ASSERT(!call->answered); /* HTTPBATCH-3 */
    call->answered = true;
    if (peer == NULL) {
        tracer_end(batches->facts->tracer, call->span, 0);
        return;
    }
    ASSERT(peer->base.waiting > 0 && peer->base.reserved >= call->room);
    peer->base.waiting--;
    peer->base.reserved -= call->room;
}

static void release(struct http_batches *batches, struct batch *batch)
{
    ASSERT(batch->seq != 0 && batches->waiting > 0); /* HTTPBATCH-5 */
    batches->retries -= batch->kind == KIND_RETRY;
    batch->seq = 0;
    batch->next_free = batches->first_free;
    batches->first_free = (uint16_t)(batch - batches->batches);
    batches->waiting--;
}

static struct http_completion completion_of(struct http_batches *batches, struct http_peer *peer,
                                            struct call *call)
{
    struct http_completion completion = {.facts = batches->facts,
                                         .now_ns = batches->now_ns,
                                         .context = call->context,
                                         .stream =
                                             peer->stream != NULL ? peer->stream->context : NULL,
                                         .count = call->count,
                                         .first = call->first};
    http_reply_init(&completion.reply, &peer->base.out, call->room, call->form, batches->date);
    completion.reply.span = call->span;
    return completion;
}

/* What all of a batch that are not answered yet are told. */
struct failure {
    unsigned status;
    const char *detail;
};

/* Whoever asked for an operator's command has more to say when that is not answered in time. */
static void tell_late(struct http_completion *completion, const struct call *call,
                      const struct failure *failure)
{
    const struct mp_token sentence = {.type = MP_STR,
                                      .count = (uint32_t)strlen(failure->detail),
                                      .data = (const uint8_t *)failure->detail};
    const struct wire_admin_reply reply = {.code = TG_ETIMEOUT,
                                           .value = {.tokens = &sentence, .token_count = 1}};
    completion->admin = &reply;
    call->complete(completion);
}

static void answer_all(struct http_batches *batches, struct batch *batch,
                       const struct gateway_finder *finder, const struct failure *failure)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct call *call = &batch->calls[i];
        if (call->answered)
            continue;
        struct http_peer *peer = find_peer(finder, call->token);
        settle(batches, peer, call);
        if (peer == NULL)
            continue;
        struct http_completion completion = completion_of(batches, peer, call);
        if (batch->kind == KIND_ADMIN && failure->status == 504)
            tell_late(&completion, call, failure);
        else if (failure->status == 503)
            http_problem_busy(&completion.reply, failure->detail);
        else
            http_problem(&completion.reply, failure->status, failure->detail);
        http_batches_close(batches, &completion.reply);
    }
    release(batches, batch);
}

static void complete(struct http_batches *batches, struct http_peer *peer, struct call *call,
                     const struct wire_decisions *decisions, const struct wire_admin_reply *admin)
{
    struct http_completion completion = completion_of(batches, peer, call);
    completion.decisions = decisions;
    completion.admin = admin;
    tracer_decided(batches->facts->tracer, call->span, decisions, call->first, call->count);
    call->complete(&completion);
    http_batches_close(batches, &completion.reply);
}

static bool is_pending(const struct wire_decisions *decisions, const struct call *call)
{
    for (uint32_t i = 0; i < call->count; i++)
        if ((decisions->flags[call->first + i] & WIRE_PENDING) != 0)
            return true;
    return false;
}

static void answer_decisions(struct http_batches *batches, struct batch *batch, const void *frame,
                             size_t len, const struct gateway_finder *finder)
{
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];
    const int result = wire_decode_decisions(frame, len, &batches->space, &decisions, error);
    ASSERT(result == 0 && batch->count > 0); /* by our own shard */
    const struct call *end = &batch->calls[batch->count - 1];
    ASSERT(decisions.head.count == end->first + end->count);
    batches->answers++;
    bool last = true;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct call *call = &batch->calls[i];
        if (call->answered)
            continue;
        struct http_peer *peer = find_peer(finder, call->token);
        const bool pending = is_pending(&decisions, call);
        const bool held = peer != NULL && peer->held == batches->answers;
        last = last && !pending;
        if (pending && peer != NULL)
            peer->held = batches->answers;
        if (pending || held)
            continue; /* a later answer tells again */
        settle(batches, peer, call);
        if (peer != NULL)
            complete(batches, peer, call, &decisions, NULL);
    }
    if (last)
        release(batches, batch);
}

static void answer_error(struct http_batches *batches, struct batch *batch, const void *frame,
                         size_t len, const struct gateway_finder *finder)
{
    struct wire_error message;
    char error[WIRE_ERROR_LEN];
    char detail[DETAIL_LEN];
    const int result = wire_decode_error(frame, len, &message, error);
    ASSERT(result == 0);
    (void)snprintf(detail, sizeof detail, "%.*s", (int)message.text.len, message.text.data);
    const bool is_busy = message.code == TG_EBUSY;
    if (batch->kind == KIND_ADMIN && !is_busy) {
        const struct failure refused = {http_status_of(message.code), detail};
        answer_all(batches, batch, finder, &refused);
        return;
    }
    batches->stats->busy += is_busy ? batch->count : 0U;
    const struct failure failure = {
        is_busy || message.code == TG_EUNAVAILABLE ? 503 : 500,
        is_busy ? BUSY_DETAIL : detail,
    };
    answer_all(batches, batch, finder, &failure);
}

static void answer_admin(struct http_batches *batches, struct batch *batch, const void *frame,
                         size_t len, const struct gateway_finder *finder)
{
    struct wire_admin_reply reply;
    char error[WIRE_ERROR_LEN];
    static const struct failure too_big = {500, "the answer has more parts than can be shown"};
    ASSERT(batch->kind == KIND_ADMIN && batch->count == 1);
    if (wire_decode_admin_reply(frame, len, batches->tokens, WIRE_ADMIN_TOKENS_MAX, &reply,
                                error) != 0) {
        answer_all(batches, batch, finder, &too_big);
        return;
    }
    struct call *call = &batch->calls[0];
    struct http_peer *peer = find_peer(finder, call->token);
    settle(batches, peer, call);
    if (peer != NULL)
        complete(batches, peer, call, NULL, &reply);
    release(batches, batch);
}

/* The submitted batch that is called so, or NULL. */
static struct batch *find_batch(struct http_batches *batches, uint64_t session, uint64_t name)
{
    const uint16_t place = name & (HTTP_BATCHES_MAX - 1);
    struct batch *batch = &batches->batches[place];
    if (session == batches->session)
        return name != 0 && batch->seq == name && place != batches->open ? batch : NULL;
    uint32_t left = batches->retries;
    for (uint16_t i = 0; left > 0 && i < HTTP_BATCHES_MAX; i++) {
        batch = &batches->batches[i];
        if (batch->seq == 0 || i == batches->open || batch->kind != KIND_RETRY)
            continue;
        if (batch->session == session && batch->name == name)
            return batch;
        left--;
    }
    return NULL;
}

void http_batches_answer(struct http_batches *batches, const void *frame, size_t len,
                         const struct gateway_finder *finder)
{
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(frame, len, &envelope, error) != 0)
        return;
    struct batch *batch = find_batch(batches, envelope.session, envelope.seq);
    if (batch == NULL)
        return; /* it was given up */
    if (envelope.type == WIRE_DECISIONS)
        answer_decisions(batches, batch, frame, len, finder);
    else if (envelope.type == WIRE_ERROR)
        answer_error(batches, batch, frame, len, finder);
    else
        answer_admin(batches, batch, frame, len, finder);
}

void http_batches_expire(struct http_batches *batches, const struct gateway_finder *finder)
{
    static const struct failure late = {504, LATE_DETAIL};
    for (uint16_t i = 0; batches->waiting > 0 && i < HTTP_BATCHES_MAX; i++) {
        struct batch *batch = &batches->batches[i];
        if (batch->seq == 0 || i == batches->open)
            continue;
        const int64_t most_ms =
            batch->kind == KIND_ADMIN ? HTTP_ADMIN_TIMEOUT_MS : batch->timeout_ms + HTTP_TIMEOUT_MS;
        if (batches->now_ns - batch->submitted_ns < most_ms * NS_PER_MS)
            continue;
        batches->stats->late++;
        answer_all(batches, batch, finder, &late);
    }
}

/* ---- the invariants -------------------------------------------------------------------------- */

static uint32_t unanswered(const struct batch *batch)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        count += !batch->calls[i].answered;
    return count;
}

static uint32_t count_free(const struct http_batches *batches)
{
    uint32_t count = 0;
    for (uint16_t at = batches->first_free; at != NONE; at = batches->batches[at].next_free) {
        INVARIANT("HTTPBATCH-5", at < HTTP_BATCHES_MAX && count < HTTP_BATCHES_MAX);
        INVARIANT("HTTPBATCH-5", batches->batches[at].seq == 0 && at != batches->open);
        count++;
    }
    return count;
}

void http_batches_check_invariants(const struct http_batches *batches)
{
    uint32_t used = 0;
    uint32_t retries = 0;
    INVARIANT("HTTPBATCH-5", batches->open == NONE || batches->batches[batches->open].seq != 0);
    INVARIANT("HTTPBATCH-5", !batches->asking);
    for (uint16_t i = 0; i < HTTP_BATCHES_MAX; i++) {
        const struct batch *batch = &batches->batches[i];
        if (batch->seq == 0)
            continue;
        INVARIANT("HTTPBATCH-5", (batch->seq & (HTTP_BATCHES_MAX - 1)) == i);
        INVARIANT("HTTPBATCH-5", batch->count <= HTTP_BATCH_MAX);
        INVARIANT("HTTPBATCH-3", i == batches->open || unanswered(batch) > 0);
        retries += i != batches->open && batch->kind == KIND_RETRY;
        used++;
    }
    INVARIANT("HTTPBATCH-5", used == batches->waiting + (batches->open != NONE));
    INVARIANT("HTTPBATCH-5", used + count_free(batches) == HTTP_BATCHES_MAX);
    INVARIANT("HTTPBATCH-5", retries == batches->retries);
}

void http_batches_check_peer(const struct http_batches *batches, const struct http_peer *peer,
                             uint64_t token)
{
    const struct batch *batch = &batches->batches[peer->batch & (HTTP_BATCHES_MAX - 1)];
    uint32_t waiting = 0;
    uint32_t reserved = 0;
    INVARIANT("HTTPBATCH-1", peer->base.waiting == 0 || batch->seq == peer->batch);
    for (uint32_t i = 0; peer->base.waiting > 0 && i < batch->count; i++) {
        const struct call *call = &batch->calls[i];
        if (call->answered || call->token != token)
            continue;
        waiting++;
        reserved += call->room;
    }
    INVARIANT("HTTPBATCH-1", waiting == peer->base.waiting);
    INVARIANT("HTTPBATCH-2", reserved == peer->base.reserved);
    INVARIANT("HTTPBATCH-2", !peer->base.out.failed);
    INVARIANT("HTTPBATCH-2", peer->base.out.len + reserved <= peer->base.out.capacity);
}

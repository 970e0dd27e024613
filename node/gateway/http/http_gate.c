/* http_gate.c - requests of a connection, one after the other; http_gate.h draws the way.
 *
 *            head, body complete          a handler               keep-alive
 *   bytes --------------------> request ------------> response ----------------> the next one
 *     | 400, 413 ...               | 403, 404 ...                 | else
 *     v                            v                              v
 *   response, then closed       response                        closed when it is sent
 *
 * A refusal of the parser ends the connection, for where the next request begins is not known; one
 * of the router, the guard or a handler does not. A client that waits for 100 Continue is told at
 * once what its head is refused for, instead of being asked for a body that is of no use.
 *
 * A connection that begins with the preface of HTTP/2 is one of node/gateway/http2 from then on,
 * and what it asks is gRPC's (node/gateway/grpc). Its requests are in the same batches.
 *
 * HTTPGATE-1  Responses come in the order of requests, each once (BATCHES-1, BATCHES-3).
 * HTTPGATE-2  A handler that answered at once while something is waited for has answered nothing:
 *             its response is taken back, and it is called again.
 * HTTPGATE-3  After a response that says Connection: close, nothing is taken any more.
 */
#include "node/gateway/http/http_gate.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/http/http_guard.h"
#include "node/gateway/http/http_routes.h"
#include "node/gateway/http/http_stream.h"
#include "node/gateway/http/http_trace.h"

static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                              "Cache-Control: no-store\r\nConnection: close\r\n"
                              "Content-Length: 0\r\n\r\n";
static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

struct http_gate {
    const struct allocator *allocator;
    struct http_facts facts;
    struct gateway_stats *stats; /* the caller's */
    struct http_stats http_stats;
    struct http_batches *batches;
    struct http_streams streams;
    struct h2_gate *h2;
    struct grpc_gate *grpc;
    enum http_stage stage;
    struct http1_request request;
    char parameters[HTTP_PARAMETERS_MAX * HTTP_PARAMETER_LEN];
    char body[HTTP1_BODY_MAX];
};

/* What takes connections of HTTP/2. */
static int open_streams(struct http_gate *gate, uint64_t random)
{
    struct grpc_facts facts = {.waits = gate->facts.waits,
                               .address = gate->facts.address,
                               .fields = gate->facts.fields,
                               .anonymous = gate->facts.anonymous_grpc,
                               .name = gate->facts.name,
                               .gubernator = gate->facts.gubernator,
                               .secret = gate->facts.path_secret};
    facts.methods = grpc_methods(&facts.method_count);
    if (grpc_gate_new(gate->allocator, &facts, http_batches_of(gate->batches),
                      &gate->http_stats.grpc, &gate->grpc) != 0)
        return TG_ENOMEM;
    const struct h2_user user = grpc_gate_user(gate->grpc);
    if (h2_gate_new(gate->allocator, &user, random, gate->stats, &gate->http_stats.h2, &gate->h2) !=
        0)
        return TG_ENOMEM;
    h2_gate_age(gate->h2, gate->facts.age_ns);
    return 0;
}

int http_gate_new(const struct allocator *allocator, uint64_t session,
                  const struct http_facts *facts, struct gateway_stats *stats,
                  struct http_gate **out)
{
    struct http_gate *gate = alloc_get(allocator, sizeof *gate);
    *out = gate;
    if (gate == NULL)
        return TG_ENOMEM;
    ASSERT(facts->name_count <= HTTP_NAMES_MAX);
    gate->allocator = allocator;
    gate->facts = *facts;
    gate->facts.gubernator = &gate->http_stats.gubernator;
    gate->stats = stats;
    gate->stage = HTTP_SERVES;
    if (http_batches_new(allocator, session, &gate->facts, stats, &gate->http_stats,
                         &gate->batches) == 0 &&
        open_streams(gate, session) == 0)
        return 0;
    http_gate_free(out);
    return TG_ENOMEM;
}

void http_gate_free(struct http_gate **pointer)
{
    struct http_gate *gate = *pointer;
    *pointer = NULL;
    if (gate == NULL)
        return;
    h2_gate_free(&gate->h2);
    grpc_gate_free(&gate->grpc);
    http_batches_free(&gate->batches);
    alloc_put(gate->allocator, gate, sizeof *gate);
}

void http_gate_stats(const struct http_gate *gate, struct http_stats *out)
{
    *out = gate->http_stats;
}

void http_gate_stage(struct http_gate *gate, enum http_stage stage, const char *waits,
                     const struct policy *policy)
{
    ASSERT(stage == HTTP_SERVES || waits != NULL);
    gate->stage = stage;
    gate->facts.waits = waits;
    gate->facts.policy = policy;
    grpc_gate_stage(gate->grpc, stage != HTTP_WAITS, waits, policy);
    if (stage == HTTP_ENDS)
        h2_gate_end(gate->h2);
}

void http_gate_members(struct http_gate *gate, uint32_t members)
{
    if (gate == NULL)
        return;
    gate->facts.members = members;
    grpc_gate_members(gate->grpc, members);
}

void http_gate_open(struct http_gate *gate, struct http_peer *peer)
{
    (void)gate;
    peer->base.begun = true; /* a connection is quiet at first, as it is between two requests */
}

void http_gate_now(struct http_gate *gate, int64_t now_ns)
{
    http_batches_now(gate->batches, now_ns);
    h2_gate_now(gate->h2, now_ns);
}

struct batches *http_gate_batches(struct http_gate *gate)
{
    return http_batches_of(gate->batches);
}

void http_gate_look(struct http_gate *gate, const struct gateway_finder *finder)
{
    h2_gate_look(gate->h2, finder);
    http_streams_wake(&gate->streams, http_batches_time(gate->batches), finder);
}

/* ---- responses at once ----------------------------------------------------------------------- */

/* What is wrong, as the last response of the connection. Nothing is waited for. */
static void end_with(struct http_gate *gate, struct http_peer *peer, unsigned status,
                     const char *detail)
{
    const struct http_form form = {.closes = true};
    struct http_reply reply;
    ASSERT(peer->base.waiting == 0);
    http_reply_init(&reply, &peer->base.out, peer->base.out.capacity - peer->base.out.len, form,
                    http_batches_date(gate->batches));
    http_problem(&reply, status, detail);
    http_batches_close(gate->batches, &reply);
    peer->base.closing = true; /* HTTPGATE-3 */
}

/* RFC 6750, 3; of the page what makes a browser ask for a password. */
static void challenge(struct http_exchange *exchange, const struct http_route *route,
                      unsigned status)
{
    struct http_reply *reply = &exchange->reply;
    const unsigned kinds = HTTP_ROUTE_PAGE | HTTP_ROUTE_OPERATOR;
    const char *text = "Bearer realm=\"tidegate\"";
    if (status == 401 && (route->flags & kinds) == HTTP_ROUTE_PAGE)
        text = "Basic realm=\"tidegate: a token, or that of admin.cred, as password\", "
               "charset=\"UTF-8\"";
    else if (status == 403)
        text = "Bearer realm=\"tidegate\", error=\"insufficient_scope\"";
    else if (exchange->access.shown)
        text = "Bearer realm=\"tidegate\", error=\"invalid_token\"";
    http_reply_header(reply, "WWW-Authenticate", text);
}

/* A response of router or guard. */
static void answer_refusal(struct http_gate *gate, struct http_exchange *exchange,
                           const struct http_match *match, const struct http_guarded *guarded)
{
    struct http_reply *reply = &exchange->reply;
    const unsigned status = guarded->status != 0 ? guarded->status : match->status;
    const char *detail = guarded->status != 0 ? guarded->detail : match->detail;
    if (guarded->counter != NULL)
        ++*guarded->counter;
    gate->http_stats.unknown += status == 404;
    gate->http_stats.methods += status == 405;
    http_reply_begin(reply, status);
    if (status == 401 || guarded->needed != 0)
        challenge(exchange, match->route, status);
    if (match->allow[0] != '\0' && (status == 204 || status == 405))
        http_reply_header(reply, "Allow", match->allow);
    if (status == 204) {
        http_reply_end(reply);
        return;
    }
    http_problem_body(reply, NULL, wire_text_of(detail));
    http_problem_end(reply);
}

/* ---- a request ------------------------------------------------------------------------------- */

static struct http_exchange exchange_of(struct http_gate *gate, struct http_peer *peer,
                                        uint64_t token, int64_t now_ns)
{
    const struct http1_request *request = &gate->request;
    struct gateway_out *out = &peer->base.out;
    const bool closes = !request->keep_alive || gate->stage == HTTP_ENDS;
    struct http_exchange exchange = {
        .request = request,
        .facts = &gate->facts,
        .now_ns = now_ns,
        .asked_ns = peer->asked_ns,
        .batches = gate->batches,
        .peer = peer,
        .token = token,
        .form = {.head = request->method == HTTP1_HEAD,
                 .closes = closes,
                 .keeps = !closes && request->minor == 0},
        .stop = GATEWAY_NEED_ANSWER,
        .stream = gate->streams.fresh,
    };
    http_reply_init(&exchange.reply, out, out->capacity - out->len - peer->base.reserved,
                    exchange.form, http_batches_date(gate->batches));
    return exchange;
}

/* By a listener aside there are but the routes that are meant for it. */
static unsigned among(const struct http_peer *peer)
{
    return peer->base.aside ? HTTP_ROUTE_PROBE | HTTP_ROUTE_ASIDE : 0;
}

/* Has the handler answer, or ask. */
static enum http_verdict handle(struct http_gate *gate, struct http_exchange *exchange,
                                const struct http_route *route)
{
    const bool probe = (route->flags & HTTP_ROUTE_PROBE) != 0;
    if (gate->stage == HTTP_WAITS && !probe) {
        http_problem_busy(&exchange->reply, gate->facts.waits);
        return HTTP_ANSWERED;
    }
    const bool asks = (route->flags & HTTP_ROUTE_CHECKS) != 0;
    if (!asks && exchange->peer->base.waiting > 0)
        return HTTP_AGAIN;
    exchange->stop = GATEWAY_NEED_SUBMIT;
    if (asks && batches_full(http_batches_of(gate->batches)))
        return HTTP_AGAIN;
    exchange->stop = GATEWAY_NEED_ANSWER;
    return route->handle(exchange);
}

/* What the handler has begun is a stream from now on, if there is a place for one. */
static void open_stream(struct http_gate *gate, struct http_exchange *exchange)
{
    if (exchange->more == NULL || !exchange->reply.done)
        return;
    if (http_streams_open(&gate->streams, exchange)) {
        gate->http_stats.streams++;
        return;
    }
    gate->http_stats.streamless++;
    http_problem_busy(&exchange->reply,
                      "the node has as many streams as it takes; ask again later");
}

/* Takes the request at hand. False: *stop tells what it waits for. */
static bool take_request(struct http_gate *gate, struct http_peer *peer, uint64_t token,
                         enum gateway_stop *stop)
{
    const int64_t now_ns = http_batches_time(gate->batches);
    peer->asked_ns = peer->asked_ns != 0 ? peer->asked_ns : now_ns;
    struct http_exchange exchange = exchange_of(gate, peer, token, now_ns);
    struct http_match match;
    struct http_guarded guarded;
    enum http_verdict verdict = HTTP_ANSWERED;
    http_route_find(&gate->request, &exchange, among(peer), gate->parameters, &match);
    http_guard(&exchange, match.route, gate->stage == HTTP_WAITS, &gate->http_stats, &guarded);
    const bool refused = guarded.status != 0 || match.route == NULL;
    *stop = GATEWAY_NEED_ANSWER;
    if (refused && peer->base.waiting > 0)
        return false;
    exchange.route = match.route;
    if (refused)
        answer_refusal(gate, &exchange, &match, &guarded);
    else
        verdict = handle(gate, &exchange, match.route);
    if (verdict == HTTP_ASKED && http_batches_refused(&exchange, &gate->http_stats, &guarded)) {
        answer_refusal(gate, &exchange, &match, &guarded);
        verdict = HTTP_ANSWERED;
    }
    if (verdict == HTTP_ASKED) {
        http_batches_commit(&exchange);
    } else if (verdict == HTTP_AGAIN || peer->base.waiting > 0) {
        http_reply_undo(&exchange.reply); /* HTTPGATE-2 */
        *stop = verdict == HTTP_AGAIN ? exchange.stop : GATEWAY_NEED_ANSWER;
        return false;
    } else {
        exchange.reply.span = http_trace_begin(&exchange);
        open_stream(gate, &exchange);
        http_batches_close(gate->batches, &exchange.reply);
    }
    peer->base.closing = exchange.form.closes && peer->stream == NULL; /* HTTPGATE-3 */
    peer->asked_ns = 0;
    return true;
}

/* ---- requests that are not complete ---------------------------------------------------------- */

/* The head has come, the body has not, and the client waits to be told. False: an earlier request
 * has no answer yet. */
static bool tell_to_go_on(struct http_gate *gate, struct http_peer *peer)
{
    struct http_exchange exchange = exchange_of(gate, peer, 0, http_batches_time(gate->batches));
    struct http_match match;
    struct http_guarded guarded;
    if (peer->base.waiting > 0)
        return false;
    http_route_find(&gate->request, &exchange, among(peer), gate->parameters, &match);
    http_guard(&exchange, match.route, gate->stage == HTTP_WAITS, &gate->http_stats, &guarded);
    if (guarded.status == 0 && match.route != NULL) {
        http_put(&exchange.reply, go_on, sizeof go_on - 1);
        gate->http_stats.expectations++;
        return true;
    }
    exchange.reply.form.closes = true; /* the body may come, or not */
    answer_refusal(gate, &exchange, &match, &guarded);
    http_batches_close(gate->batches, &exchange.reply);
    peer->base.closing = true;
    return true;
}

/* Whether the head of the request at hand was just seen to be complete, without its body. */
static enum gateway_stop need_bytes(struct http_gate *gate, struct http_peer *peer, size_t left)
{
    if (gate->request.head_len > 0 && gate->request.continues && !tell_to_go_on(gate, peer)) {
        peer->progress = (struct http1_progress){.searched = 0}; /* it is looked at again */
        return GATEWAY_NEED_ANSWER;
    }
    peer->base.need = gate->request.need;
    peer->base.early = left > 0 && peer->progress.head_len == 0;
    return peer->base.closing ? GATEWAY_AT_END : GATEWAY_NEED_BYTES;
}

/* The parser has refused. */
static enum gateway_stop refuse(struct http_gate *gate, struct http_peer *peer,
                                const struct http1_refusal *refused)
{
    if (peer->base.waiting > 0)
        return GATEWAY_NEED_ANSWER;
    gate->stats->protocol_errors++;
    gate->http_stats.heads += refused->status == 431 || refused->status == 414;
    gate->http_stats.bodies += refused->status == 413;
    end_with(gate, peer, refused->status, refused->detail);
    return GATEWAY_AT_END;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A turn of a stream, if it is due; the end of it, if the node stops. */
/* Who asked, now; false: he may not go on. */
static bool may_go_on(const struct http_gate *gate, const struct http_stream *stream,
                      struct http_exchange *exchange)
{
    access_look(gate->facts.policy, 0, &stream->who, exchange->now_ns, &exchange->access);
    if (!stream->who.shown)
        exchange->access.rights = stream->rights;
    return access_missing(&exchange->access, stream->needed)[0] == '\0';
}

static enum gateway_stop go_on_with(struct http_gate *gate, struct http_peer *peer, uint64_t token)
{
    static const struct http1_request none = {.method = HTTP1_GET, .minor = 1};
    struct http_stream *stream = peer->stream;
    const int64_t now_ns = http_batches_time(gate->batches);
    if (peer->base.waiting > 0)
        return GATEWAY_NEED_ANSWER;
    if (now_ns < stream->due_ns && gate->stage == HTTP_SERVES)
        return GATEWAY_NEED_TIME;
    gate->request = none;
    struct http_exchange exchange = exchange_of(gate, peer, token, now_ns);
    exchange.stream = stream->context;
    exchange.form = exchange.reply.form = stream->form;
    if (gate->stage != HTTP_SERVES || !may_go_on(gate, stream, &exchange)) {
        http_stream_end(&exchange.reply);
        http_stream_settle(&exchange.reply);
        http_streams_close(peer);
        peer->base.closing = true;
        return GATEWAY_AT_END;
    }
    const enum http_verdict verdict = stream->more(&exchange);
    if (verdict == HTTP_AGAIN)
        return exchange.stop;
    stream->due_ns = now_ns + HTTP_STREAM_NS;
    if (verdict == HTTP_ASKED)
        http_batches_commit(&exchange);
    else
        http_batches_close(gate->batches, &exchange.reply);
    peer->base.room = 0;
    peer->base.cramped = false;
    return verdict == HTTP_ASKED ? GATEWAY_NEED_ANSWER : GATEWAY_NEED_TIME;
}

/* Finds out what a connection speaks. False: *stop tells why that is not known, or of no use. */
static bool find_protocol(struct http_gate *gate, struct http_peer *peer, uint64_t token,
                          const char *data, size_t len, enum gateway_stop *stop)
{
    const int preface = peer->base.aside ? 0 : h2_preface(data, len);
    peer->plain = preface == 0;
    peer->base.early = preface < 0;
    *stop = GATEWAY_NEED_BYTES;
    if (preface <= 0)
        return peer->plain;
    peer->h2 = h2_open(gate->h2, &peer->base, token);
    if (peer->h2 != NULL)
        return true;
    gate->stats->crowded++;
    peer->base.closing = true;
    *stop = GATEWAY_AT_END;
    return false;
}

static enum gateway_stop take_plain(struct http_gate *gate, struct http_peer *peer, uint64_t token,
                                    const char *data, size_t len, size_t *used)
{
    struct http1_refusal refused;
    enum gateway_stop stop;
    *used = 0;
    while (!peer->base.closing) {
        const struct gateway_out *out = &peer->base.out;
        if (peer->stream != NULL)
            return go_on_with(gate, peer, token);
        if (out->capacity - out->len < peer->base.reserved + HTTP_ROOM) {
            peer->base.room = HTTP_ROOM;
            return GATEWAY_NEED_ROOM; /* BATCHES-2 */
        }
        const int bytes = http1_parse(&peer->progress, data + *used, len - *used, gate->body,
                                      &gate->request, &refused);
        if (bytes == 0)
            return need_bytes(gate, peer, len - *used);
        if (bytes < 0)
            return refuse(gate, peer, &refused);
        if (!take_request(gate, peer, token, &stop))
            return stop; /* and it is looked at from its beginning then */
        gate->stats->commands++;
        peer->base.need = peer->base.room = 0;
        peer->base.cramped = peer->base.early = false;
        *used += (size_t)bytes;
        ASSERT(*used <= len); /* HTTP1-1 */
    }
    return GATEWAY_AT_END;
}

enum gateway_stop http_gate_take(struct http_gate *gate, struct http_peer *peer, uint64_t token,
                                 const char *data, size_t len, size_t *used)
{
    enum gateway_stop stop;
    *used = 0;
    if (!peer->plain && peer->h2 == NULL && !find_protocol(gate, peer, token, data, len, &stop))
        return stop;
    return peer->plain ? take_plain(gate, peer, token, data, len, used)
                       : h2_take(peer->h2, data, len, used);
}

void http_gate_close(struct http_peer *peer)
{
    h2_close(&peer->h2);
    http_streams_close(peer);
}

void http_gate_late(struct http_gate *gate, struct http_peer *peer)
{
    const struct gateway_out *out = &peer->base.out;
    if (!peer->plain || peer->base.waiting > 0 || out->data == NULL ||
        out->capacity - out->len < HTTP_ROOM)
        return;
    gate->http_stats.expired++;
    end_with(gate, peer, 408, "the request took too long to come");
}

/* ---- the codec ------------------------------------------------------------------------------- */

static void codec_open(void *gate, struct gateway_peer *peer)
{
    http_gate_open(gate, (struct http_peer *)peer);
}

static enum gateway_stop codec_take(void *gate, struct gateway_peer *peer, uint64_t token,
                                    const char *data, size_t len, size_t *used)
{
    return http_gate_take(gate, (struct http_peer *)peer, token, data, len, used);
}

static void codec_now(void *gate, int64_t now_ns)
{
    http_gate_now(gate, now_ns);
}

static void codec_close(void *gate, struct gateway_peer *peer)
{
    (void)gate;
    http_gate_close((struct http_peer *)peer);
}

static bool codec_pump(void *gate, struct gateway_peer *peer, bool last)
{
    (void)gate;
    return h2_pump(((struct http_peer *)peer)->h2, last);
}

static void codec_look(void *gate, const struct gateway_finder *finder)
{
    http_gate_look(gate, finder);
}

static void codec_late(void *gate, struct gateway_peer *peer)
{
    http_gate_late(gate, (struct http_peer *)peer);
}

static_assert(offsetof(struct http_peer, base) == 0, "a peer of HTTP is one of the gateway");

const struct gateway_codec http_codec = {
    .name = "http",
    .refusal = refusal,
    .peer_len = sizeof(struct http_peer),
    .pending_max = HTTP1_PENDING_MAX,
    .read_len = 16 << 10,
    .socket_len = 64 << 10,
    .open = codec_open,
    .take = codec_take,
    .close = codec_close,
    .now = codec_now,
    .pump = codec_pump,
    .look = codec_look,
    .late = codec_late,
};

/* grpc_gate.c - requests of gRPC; grpc_gate.h draws the way.
 *
 *   found                                              answered
 *   another content type                               HTTP 415
 *   another method than POST                           HTTP 405
 *   header fields beyond H2_HEAD_MAX                   8 RESOURCE_EXHAUSTED
 *   no such method                                     12 UNIMPLEMENTED
 *   a message that is compressed                       12, and grpc-accept-encoding: identity
 *   one longer than the method takes                   8
 *   none, half of one, two, or one that is no protobuf 13 INTERNAL
 *   nobody to decide, or too much to do                14 UNAVAILABLE
 *   its time is over (grpc-timeout)                    4 DEADLINE_EXCEEDED
 *
 * A refusal is said as soon as it is known, before the rest of the request has come. The prefix of
 * a message and its bytes come in whatever pieces, and memory for them is taken as they come, not
 * as the prefix promises. Messages are decoded in an arena that is forgotten at the next one.
 *
 * What a request asks the shard is told `timeout_ms` to decide in: a second, or what is left until
 * the deadline, cut to a step of few, for requests of one batch have it in common. A stream that is
 * gone when its decision comes is charged all the same, and nobody is told.
 *
 * GRPC-1  Each request is answered once: with one message and OK, with a status, or with messages
 *         and then a status.
 * GRPC-2  Of a stream there is at most one call in batches.
 */
#include "node/gateway/grpc/grpc_gate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "node/gateway/access.h"
#include "node/gateway/grpc/grpc_arena.h"
#include "node/policy/rights/token.h"

#define NS_PER_MS     INT64_C(1000000)
#define STEPS_FROM_NS (50 * NS_PER_MS)

#define BUSY_TEXT "the node has more requests than it can decide; try again later"
#define LATE_TEXT "the node did not decide in time; whether it counted is not known"

enum { FIELDS_MAX = 5, MESSAGE_MIN = 256 };

/* A request, behind its stream. */
struct request {
    const struct grpc_method *method;
    uint8_t prefix[GRPC_PREFIX_LEN];
    uint8_t prefix_len;
    bool has_message; /* one has come as a whole */
    bool asked;       /* GRPC-2 */
    bool compressed;  /* refused for that */
    uint8_t fault;    /* enum fault: of its head */
    uint8_t status;
    uint8_t *message;
    uint32_t len;
    uint32_t size; /* that its prefix promises */
    uint32_t capacity;
    int64_t deadline_ns;
    grpc_complete_fn *complete;
    char text[GRPC_TEXT_LEN]; /* to the status */
    uint64_t context[GRPC_CONTEXT_LEN / sizeof(uint64_t)];
};

/* One that waits for the shard. */
struct call {
    struct batch_call base;
    struct h2_peer *peer;
    int32_t stream;
};

static_assert(sizeof(struct call) <= GRPC_CALL_LEN, "its batches have room for it");

struct grpc_gate {
    const struct allocator *allocator;
    struct grpc_facts facts;
    bool serves;
    struct batches *batches;
    struct batch_user user;
    struct batch_call *asking; /* of the request at hand */
    struct grpc_stats *stats;
    struct grpc_arena arena;
};

static struct request *request_of(struct h2_stream *stream)
{
    return h2_stream_own(stream);
}

static struct grpc_call call_of(struct grpc_gate *gate, struct h2_stream *stream)
{
    struct request *request = request_of(stream);
    return (struct grpc_call){.method = request->method,
                              .facts = &gate->facts,
                              .now_ns = gate->batches->now_ns,
                              .deadline_ns = request->deadline_ns,
                              .decide_ns = request->deadline_ns,
                              .context = request->context,
                              .gate = gate,
                              .stream = stream};
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Name and value live until the call for which the field is made returns; names are constant. */
static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

static size_t put_status(const struct request *request, nghttp2_nv *fields,
                         char status[GRPC_STATUS_LEN], char text[GRPC_ESCAPED_LEN])
{
    size_t count = 0;
    (void)snprintf(status, GRPC_STATUS_LEN, "%u", (unsigned)request->status);
    fields[count++] = field("grpc-status", status);
    if (request->text[0] != '\0') {
        grpc_message_escape(request->text, text);
        fields[count++] = field("grpc-message", text);
    }
    return count;
}

static void trailers(void *gate, struct h2_stream *stream)
{
    nghttp2_nv fields[FIELDS_MAX];
    char status[GRPC_STATUS_LEN];
    char text[GRPC_ESCAPED_LEN];
    (void)gate;
    const size_t count = put_status(request_of(stream), fields, status, text);
    h2_trailers(stream, fields, count);
}

static void count_answer(struct grpc_gate *gate, const struct request *request)
{
    const size_t place = request->method != NULL ? (size_t)(request->method - gate->facts.methods)
                                                 : GRPC_METHODS_MAX;
    ASSERT(place <= GRPC_METHODS_MAX && request->status < GRPC_STATUSES);
    gate->stats->answered[place][request->status]++;
    gate->stats->calls++;
    gate->stats->faults += request->status != GRPC_OK;
    gate->stats->late += request->status == GRPC_DEADLINE_EXCEEDED;
}

/* The answer as HTTP has it: whatever asked was no client of gRPC. */
static void refuse(struct grpc_gate *gate, struct h2_stream *stream, const char *status)
{
    const nghttp2_nv fields[] = {field(":status", status)};
    gate->stats->calls++;
    gate->stats->faults++;
    h2_respond(stream, fields, 1, false);
}

enum grpc_verdict grpc_fail(struct grpc_call *call, enum grpc_status code, const char *sentence)
{
    struct request *request = request_of(call->stream);
    nghttp2_nv fields[FIELDS_MAX] = {field(":status", "200"),
                                     field("content-type", "application/grpc")};
    char status[GRPC_STATUS_LEN];
    char text[GRPC_ESCAPED_LEN];
    request->status = (uint8_t)code;
    (void)snprintf(request->text, sizeof request->text, "%s", sentence);
    count_answer(call->gate, request);
    if (call->stream->answered) {
        h2_end(call->stream);
        return GRPC_ANSWERED;
    }
    size_t count = 2;
    if (request->compressed)
        fields[count++] = field("grpc-accept-encoding", "identity");
    count += put_status(request, fields + count, status, text);
    h2_respond(call->stream, fields, count, false);
    return GRPC_ANSWERED;
}

enum grpc_verdict grpc_begin(struct grpc_call *call)
{
    const nghttp2_nv fields[] = {field(":status", "200"),
                                 field("content-type", "application/grpc")};
    h2_respond(call->stream, fields, 2, true);
    call->stream->lasts = true;
    return GRPC_GOES_ON;
}

/* Room for a message behind its prefix; NULL: there is none. */
static uint8_t *put_prefix(struct grpc_call *call, size_t len)
{
    ASSERT(len <= GRPC_REPLY_MAX);
    uint8_t *out = h2_put(call->stream, GRPC_PREFIX_LEN + len);
    if (out == NULL)
        return NULL;
    grpc_prefix_write(out, (uint32_t)len);
    return out + GRPC_PREFIX_LEN;
}

static enum grpc_verdict fail_room(struct grpc_call *call)
{
    return grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "the answer has no room");
}

void grpc_say(struct grpc_call *call, const ProtobufCMessage *message)
{
    uint8_t *out = put_prefix(call, protobuf_c_message_get_packed_size(message));
    if (out != NULL)
        (void)protobuf_c_message_pack(message, out);
    else
        (void)fail_room(call);
}

/* The answer was said as a whole. */
static enum grpc_verdict end_reply(struct grpc_call *call)
{
    struct request *request = request_of(call->stream);
    request->status = GRPC_OK;
    count_answer(call->gate, request);
    h2_end(call->stream);
    return GRPC_ANSWERED;
}

enum grpc_verdict grpc_reply(struct grpc_call *call, const ProtobufCMessage *message)
{
    (void)grpc_begin(call);
    uint8_t *out = put_prefix(call, protobuf_c_message_get_packed_size(message));
    if (out == NULL)
        return fail_room(call);
    (void)protobuf_c_message_pack(message, out);
    return end_reply(call);
}

enum grpc_verdict grpc_reply_bytes(struct grpc_call *call, struct grpc_piece message)
{
    (void)grpc_begin(call);
    uint8_t *out = put_prefix(call, message.len);
    if (out == NULL)
        return fail_room(call);
    if (message.len > 0)
        memcpy(out, message.data, message.len);
    return end_reply(call);
}

enum grpc_verdict grpc_fail_message(struct grpc_call *call)
{
    return grpc_fail(call, GRPC_INTERNAL, "the message is none of this method's");
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* The largest step that is no longer than what is left; 0: nothing is. What is short is not cut. */
static uint32_t timeout_of(const struct grpc_call *call)
{
    static const uint32_t steps[] = {BATCH_TIMEOUT_MS, 500, 200, 100, 50};
    const int64_t left_ns = call->decide_ns - call->now_ns;
    if (left_ns < STEPS_FROM_NS)
        return left_ns < 0 ? 0 : (uint32_t)(left_ns / NS_PER_MS);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (left_ns >= steps[i] * NS_PER_MS)
            return steps[i];
    return 0;
}

static enum grpc_verdict again(struct grpc_call *call, enum gateway_stop stop)
{
    call->stop = stop;
    return GRPC_AGAIN;
}

enum grpc_verdict grpc_ask(struct grpc_call *call, uint32_t count, grpc_complete_fn *complete)
{
    return grpc_ask_noting(call, count, 0, complete);
}

void *grpc_take(struct grpc_call *call, size_t len)
{
    ProtobufCAllocator *allocator = &call->gate->arena.allocator;
    return allocator->alloc(allocator->allocator_data, len);
}

enum grpc_verdict grpc_ask_noting(struct grpc_call *call, uint32_t count, size_t notes_len,
                                  grpc_complete_fn *complete)
{
    struct grpc_gate *gate = call->gate;
    struct request *request = request_of(call->stream);
    const struct batch_ask ask = {.count = count,
                                  .notes_len = notes_len,
                                  .kind = call->explain ? BATCH_ALONE : BATCH_SHARED,
                                  .explain = call->explain,
                                  .timeout_ms = timeout_of(call)};
    ASSERT(count >= 1 && !request->asked); /* GRPC-2 */
    if (ask.timeout_ms == 0)
        return grpc_fail(call, GRPC_DEADLINE_EXCEEDED, "there was no time left to decide");
    switch (batches_begin(gate->batches, &ask, &gate->asking)) {
    case BATCH_BEGUN:
        break;
    case BATCH_SUBMIT:
        return again(call, GATEWAY_NEED_SUBMIT);
    case BATCH_BUSY:
        gate->batches->stats->busy++;
        return grpc_fail(call, GRPC_UNAVAILABLE, BUSY_TEXT);
    }
    request->complete = complete;
    call->builder = &gate->batches->builder;
    call->notes = batches_notes(gate->batches, gate->asking);
    return GRPC_ASKED;
}

enum grpc_verdict grpc_ask_full(struct grpc_call *call)
{
    struct batches *batches = call->gate->batches;
    batches_cancel(batches);
    if (batches_at_hand(batches)->count > 0)
        return again(call, GATEWAY_NEED_SUBMIT);
    return grpc_fail(call, GRPC_RESOURCE_EXHAUSTED,
                     "the checks need more than one message: expected at most 256 different sets "
                     "of attributes, and 1 MiB");
}

/* Who asks. */
static void judge(const struct grpc_gate *gate, const struct h2_stream *stream,
                  struct access *access)
{
    static const char scheme[] = "Bearer ";
    const size_t len = sizeof scheme - 1;
    struct wire_text token = {"", 0};
    if (strncasecmp(stream->authorization, scheme, len) == 0)
        token = wire_text_of(stream->authorization + len);
    if (!token_begins(token.data, token.len))
        token.len = 0; /* it is none of ours */
    access_judge(gate->facts.policy, gate->facts.anonymous, token, h2_base(stream->peer)->address,
                 gate->batches->now_ns, access);
}

static void refuse_access(struct grpc_call *call, const struct access *access, uint8_t needed)
{
    char text[ACCESS_SENTENCE_LEN];
    const bool known = access->shown && access->verdict == CREDENTIAL_GOOD;
    access_sentence(access, needed, text);
    (void)grpc_fail(call, known ? GRPC_PERMISSION_DENIED : GRPC_UNAUTHENTICATED, text);
}

/* Whether who asks may not ask that: then it is taken back, and answered. */
static bool refuse_checks(struct grpc_gate *gate, struct grpc_call *call)
{
    struct batches *batches = gate->batches;
    struct access access;
    judge(gate, call->stream, &access);
    const uint8_t needed = access_needs(&batches->builder, batches->mark.count);
    if (access.verdict == CREDENTIAL_GOOD && access_missing(&access, needed)[0] == '\0')
        return false;
    batches_cancel(batches);
    refuse_access(call, &access, needed);
    return true;
}

/* The handler has asked. */
static void commit(struct grpc_gate *gate, struct h2_stream *stream)
{
    struct call *call = (struct call *)gate->asking;
    *call = (struct call){.base = {.token = h2_token(stream->peer),
                                   .user = &gate->user,
                                   .first = gate->asking->first,
                                   .count = gate->asking->count,
                                   .extra = gate->asking->extra},
                          .peer = stream->peer,
                          .stream = stream->id};
    request_of(stream)->asked = true;
    batches_commit(gate->batches, h2_base(stream->peer));
}

/* The stream of a call that still waits for it; NULL: it is gone, or its time was over. */
static struct h2_stream *waiting_of(const struct call *call)
{
    struct h2_stream *stream = h2_stream_of(call->peer, call->stream);
    if (stream == NULL || stream->answered)
        return NULL;
    ASSERT(request_of(stream)->asked);
    request_of(stream)->asked = false;
    return stream;
}

static void decided(void *context, struct gateway_peer *peer, struct batch_call *base,
                    const struct wire_decisions *decisions)
{
    struct h2_stream *stream = waiting_of((const struct call *)base);
    (void)peer;
    if (stream == NULL)
        return;
    struct grpc_gate *gate = context;
    grpc_arena_reset(&gate->arena);
    struct grpc_completion completion = {.call = call_of(gate, stream),
                                         .notes = batches_notes(gate->batches, base),
                                         .count = base->count,
                                         .first = base->first,
                                         .decisions = decisions};
    request_of(stream)->complete(&completion);
    ASSERT(stream->answered); /* GRPC-1 */
}

static void failed(void *context, struct gateway_peer *peer, struct batch_call *base,
                   const struct batch_failure *failure)
{
    struct grpc_gate *gate = context;
    struct h2_stream *stream = waiting_of((const struct call *)base);
    char text[GRPC_TEXT_LEN];
    (void)peer;
    if (stream == NULL)
        return;
    struct grpc_call call = call_of(gate, stream);
    const bool busy = failure->code == TG_EBUSY;
    gate->batches->stats->busy += busy;
    if (failure->late) {
        (void)grpc_fail(&call, GRPC_DEADLINE_EXCEEDED, LATE_TEXT);
        return;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)failure->text.len, failure->text.data);
    (void)grpc_fail(&call,
                    busy || failure->code == TG_EUNAVAILABLE ? GRPC_UNAVAILABLE : GRPC_INTERNAL,
                    busy ? BUSY_TEXT : text);
}

/* ---- what comes ------------------------------------------------------------------------------ */

static const struct grpc_method *find_method(const struct grpc_facts *facts, const char *path)
{
    for (size_t i = 0; i < facts->method_count; i++)
        if (strcmp(facts->methods[i].path, path) == 0)
            return &facts->methods[i];
    return NULL;
}

static int64_t deadline_of(const struct h2_stream *stream, int64_t now_ns)
{
    if (stream->timeout[0] == '\0')
        return INT64_MAX;
    const int64_t timeout_ns = grpc_timeout_read(stream->timeout);
    if (timeout_ns < 0)
        return -1;
    return timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;
}

/* What is wrong with a head. */
enum fault {
    FAULT_NONE,
    FAULT_TYPE,
    FAULT_VERB,
    FAULT_LEN,
    FAULT_METHOD,
    FAULT_TIMEOUT,
    FAULT_EARLY,
    FAULT_ACCESS /* whoever may ask nothing of the shard is not listened to */
};

static enum fault fault_of(const struct grpc_gate *gate, const struct h2_stream *stream,
                           const struct request *request)
{
    struct access access;
    if (!grpc_type_fits(stream->type))
        return FAULT_TYPE;
    if (!stream->post)
        return FAULT_VERB;
    if (stream->head_len > H2_HEAD_MAX)
        return FAULT_LEN;
    if (request->method == NULL)
        return FAULT_METHOD;
    if (request->deadline_ns < 0)
        return FAULT_TIMEOUT;
    if (request->method->always)
        return FAULT_NONE;
    if (!gate->serves)
        return FAULT_EARLY;
    judge(gate, stream, &access);
    return access.verdict != CREDENTIAL_GOOD || (access.rights & (RIGHT_CHECK | RIGHT_ADJUST)) == 0
               ? FAULT_ACCESS
               : FAULT_NONE;
}

/* It is told when the request is whole, or does not end: curl 7 waits for ever where an answer
 * comes before it has said all. */
static void tell_fault(struct grpc_gate *gate, struct h2_stream *stream)
{
    struct grpc_call call = call_of(gate, stream);
    struct access access;
    char text[GRPC_TEXT_LEN];
    switch ((enum fault)request_of(stream)->fault) {
    case FAULT_TYPE:
        refuse(gate, stream, "415");
        return;
    case FAULT_VERB:
        refuse(gate, stream, "405");
        return;
    case FAULT_LEN:
        (void)grpc_fail(&call, GRPC_RESOURCE_EXHAUSTED,
                        "the header fields are too long: expected at most 16384 bytes");
        return;
    case FAULT_METHOD:
        (void)snprintf(text, sizeof text, "unknown method %.200s", stream->path);
        (void)grpc_fail(&call, GRPC_UNIMPLEMENTED, text);
        return;
    case FAULT_TIMEOUT:
        (void)grpc_fail(&call, GRPC_INTERNAL,
                        "grpc-timeout: expected 1 to 8 digits and one of H M S m u n");
        return;
    case FAULT_EARLY:
        (void)grpc_fail(&call, GRPC_UNAVAILABLE,
                        gate->facts.waits != NULL ? gate->facts.waits : "the node is not ready");
        return;
    case FAULT_ACCESS:
    case FAULT_NONE:
        break;
    }
    judge(gate, stream, &access);
    refuse_access(&call, &access, RIGHT_CHECK);
}

static void headed(void *context, struct h2_stream *stream)
{
    struct grpc_gate *gate = context;
    struct request *request = request_of(stream);
    request->deadline_ns = deadline_of(stream, gate->batches->now_ns);
    request->method = find_method(&gate->facts, stream->path);
    request->fault = (uint8_t)fault_of(gate, stream, request);
}

/* The prefix of a message has come. False: it is refused. */
static bool begin_message(struct grpc_gate *gate, struct h2_stream *stream)
{
    struct request *request = request_of(stream);
    const struct grpc_prefix prefix = grpc_prefix_read(request->prefix);
    struct grpc_call call = call_of(gate, stream);
    char text[GRPC_TEXT_LEN];
    if (prefix.flag == 1) {
        request->compressed = true;
        (void)grpc_fail(&call, GRPC_UNIMPLEMENTED,
                        "the message is compressed; expected none that is");
    } else if (prefix.flag > 1) {
        (void)grpc_fail(&call, GRPC_INTERNAL, "the prefix of the message is none of gRPC");
    } else if (request->has_message && !request->method->many) {
        (void)grpc_fail(&call, GRPC_INTERNAL, "found two messages; expected one");
    } else if (prefix.len > request->method->request_max) {
        (void)snprintf(text, sizeof text, "found a message of %u bytes; expected at most %u",
                       (unsigned)prefix.len, (unsigned)request->method->request_max);
        (void)grpc_fail(&call, GRPC_RESOURCE_EXHAUSTED, text);
    }
    request->size = prefix.len;
    return !stream->ended;
}

/* Memory for `more` bytes of the message, as they come. */
static bool grow_message(struct h2_stream *stream, uint32_t more)
{
    struct request *request = request_of(stream);
    const uint32_t need = request->len + more;
    uint32_t capacity = request->capacity > 0 ? request->capacity : (uint32_t)MESSAGE_MIN;
    while (capacity < need)
        capacity *= 2;
    if (capacity == request->capacity)
        return true;
    uint8_t *message =
        h2_memory_grow(h2_memory_of(stream->peer), request->message, capacity, H2_MEMORY_KEPT);
    if (message == NULL)
        return false;
    request->message = message;
    request->capacity = capacity;
    return true;
}

static void drop_message(struct h2_stream *stream)
{
    struct request *request = request_of(stream);
    h2_memory_put(h2_memory_of(stream->peer), request->message);
    request->message = NULL;
    request->capacity = request->len = 0;
}

/* Decodes the message and has the method's handler answer. */
static enum grpc_verdict handle(struct grpc_gate *gate, struct grpc_call *call)
{
    static const uint8_t nothing[1];
    const struct request *request = request_of(call->stream);
    grpc_arena_reset(&gate->arena);
    call->bytes = request->message != NULL ? request->message : nothing;
    call->len = request->len;
    if (request->method->request == NULL)
        return request->method->handle(call);
    call->request = protobuf_c_message_unpack(request->method->request, &gate->arena.allocator,
                                              call->len, call->bytes);
    if (call->request == NULL)
        return gate->arena.full
                   ? grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "the message has too many parts")
                   : grpc_fail_message(call);
    return request->method->handle(call);
}

/* A message has come as a whole. Of several, each is answered as it comes. */
static void end_message(struct grpc_gate *gate, struct h2_stream *stream)
{
    struct request *request = request_of(stream);
    struct grpc_call call = call_of(gate, stream);
    request->has_message = true;
    request->prefix_len = 0;
    if (!request->method->many)
        return;
    const enum grpc_verdict verdict = handle(gate, &call);
    ASSERT(stream->answered && (verdict == GRPC_GOES_ON || stream->ended));
    drop_message(stream);
}

/* Takes a piece of a prefix or of a message; returns how long it was. */
static size_t take_piece(struct grpc_gate *gate, struct h2_stream *stream, const uint8_t *data,
                         size_t len)
{
    struct request *request = request_of(stream);
    if (request->prefix_len < GRPC_PREFIX_LEN) {
        request->prefix[request->prefix_len++] = *data;
        if (request->prefix_len == GRPC_PREFIX_LEN && begin_message(gate, stream) &&
            request->size == 0)
            end_message(gate, stream);
        return 1;
    }
    const uint32_t left = request->size - request->len;
    const uint32_t count = len < left ? (uint32_t)len : left;
    if (!grow_message(stream, count)) {
        struct grpc_call call = call_of(gate, stream);
        (void)grpc_fail(&call, GRPC_RESOURCE_EXHAUSTED, "the message has no room");
        return len;
    }
    memcpy(request->message + request->len, data, count);
    request->len += count;
    if (request->len == request->size)
        end_message(gate, stream);
    return count;
}

static void take_data(void *context, struct h2_stream *stream, const uint8_t *data, size_t len)
{
    struct request *request = request_of(stream);
    if (request->fault != FAULT_NONE) { /* what is said is not looked at */
        request->size += request->size > H2_REST_MAX ? 0 : (uint32_t)len;
        if (request->size > H2_REST_MAX)
            tell_fault(context, stream);
        return;
    }
    for (size_t at = 0; at < len && !stream->ended;)
        at += take_piece(context, stream, data + at, len - at);
}

static bool take(void *context, struct h2_stream *stream, enum gateway_stop *stop)
{
    struct grpc_gate *gate = context;
    const struct request *request = request_of(stream);
    struct grpc_call call = call_of(gate, stream);
    enum grpc_verdict verdict = GRPC_ANSWERED;
    if (request->fault != FAULT_NONE)
        tell_fault(gate, stream);
    else if (request->method->many && request->prefix_len == 0)
        (void)grpc_fail(&call, GRPC_OK, "");
    else if (!request->has_message || request->prefix_len > 0)
        (void)grpc_fail(&call, GRPC_INTERNAL,
                        "the request ended before its message; expected one as a whole");
    else if (call.now_ns >= call.deadline_ns)
        (void)grpc_fail(&call, GRPC_DEADLINE_EXCEEDED, "there was no time left to decide");
    else
        verdict = handle(gate, &call);
    *stop = call.stop;
    if (verdict == GRPC_AGAIN)
        return false;
    if (verdict == GRPC_ASKED && refuse_checks(gate, &call))
        verdict = GRPC_ANSWERED;
    if (verdict == GRPC_ASKED)
        commit(gate, stream);
    ASSERT(verdict == GRPC_ASKED || stream->answered); /* GRPC-1 */
    drop_message(stream);
    return true;
}

static void closed(void *gate, struct h2_stream *stream)
{
    (void)gate;
    drop_message(stream);
}

static void look(void *context, struct h2_stream *stream)
{
    struct grpc_gate *gate = context;
    const struct request *request = request_of(stream);
    struct grpc_call call = call_of(gate, stream);
    if (request->fault != FAULT_NONE && call.now_ns - stream->since_ns >= H2_REST_NS)
        tell_fault(gate, stream);
    else if (request->fault != FAULT_NONE)
        return;
    else if (call.now_ns >= call.deadline_ns)
        (void)grpc_fail(&call, GRPC_DEADLINE_EXCEEDED, "the request's time is over");
    else if (stream->lasts && request->method->look != NULL)
        request->method->look(&call);
}

/* ---- the gate -------------------------------------------------------------------------------- */

int grpc_gate_new(const struct allocator *allocator, const struct grpc_facts *facts,
                  struct batches *batches, struct grpc_stats *stats, struct grpc_gate **out)
{
    struct grpc_gate *gate = alloc_get(allocator, sizeof *gate);
    *out = gate;
    if (gate == NULL)
        return TG_ENOMEM;
    ASSERT(batches->call_len >= sizeof(struct call) && facts->method_count <= GRPC_METHODS_MAX);
    gate->allocator = allocator;
    gate->facts = *facts;
    gate->serves = true;
    gate->batches = batches;
    gate->stats = stats;
    gate->user = (struct batch_user){.gate = gate, .decided = decided, .failed = failed};
    return 0;
}

void grpc_gate_free(struct grpc_gate **gate)
{
    if (*gate != NULL)
        alloc_put((*gate)->allocator, *gate, sizeof **gate);
    *gate = NULL;
}

void grpc_gate_stage(struct grpc_gate *gate, bool serves, const char *waits,
                     const struct policy *policy)
{
    gate->facts.policy = policy;
    gate->serves = serves;
    gate->facts.waits = waits;
}

void grpc_gate_members(struct grpc_gate *gate, uint32_t members)
{
    gate->facts.members = members;
}

struct h2_user grpc_gate_user(struct grpc_gate *gate)
{
    return (struct h2_user){
        .gate = gate,
        .stream_len = sizeof(struct request),
        .headed = headed,
        .data = take_data,
        .take = take,
        .trailers = trailers,
        .closed = closed,
        .look = look,
    };
}

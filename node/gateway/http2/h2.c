/* h2.c - connections of HTTP/2 and their streams; h2.h draws the way.
 *
 *   stream    begun --head--> headed --its last byte--> whole --taken--> waits --h2_respond, ...-->
 *             answered --all is sent--> closed
 *
 * Bytes are taken only while no whole request waits to be taken, so what a client sends ahead of
 * what the node can do stays in its socket, as with the other protocols; within that, windows are
 * opened again as bytes come. What a connection may hold is bounded by its memory (h2_memory.h): a
 * stream that finds none is refused, and a client knows that it was not begun.
 *
 * What asks for nothing is bounded, too: frames that have to be answered or thought about, by
 * H2_CONTROL_MAX a second beside one a request; a head of fields without end; CONTINUATION,
 * SETTINGS and answers to PING that are not taken, by libnghttp2. To end a stream at once and begin
 * the next does not help: requests of streams that are gone are still counted, until they are
 * decided.
 *
 * A connection ends in two steps: a word that its end is near (GOAWAY with the highest number), and
 * a while later, or at once where nothing more will be read, one that names the last stream that
 * was taken (GOAWAY). What the client has sent behind that one was not done, and it knows.
 *
 * H2-1  A stream is in its connection's list from its beginning to its end, and `stream_count`
 *       counts them; those that are whole and not taken are in the other list, in the order of
 *       their ends.
 * H2-2  What libnghttp2 gives is copied to `out` whole and in order, in as many pieces as it takes.
 */
#include "node/gateway/http2/h2.h"

#include <string.h>

#include "base/assert.h"

#define NS_PER_S INT64_C(1000000000)

enum {
    FIELD_COST = 32,         /* of a field beside its bytes, as RFC 9113 counts */
    HEADER_TABLE_LEN = 4096, /* what the client's encoder may refer to */
    RESETS_BURST = 10000,    /* streams that a client may end at once, */
    RESETS_RATE = 1000,      /* and in a second from then on: a proxy's time-outs are no attack */
    WAITING_MAX = 2 * H2_STREAMS_MAX, /* requests, those of streams that are gone among them */
    OUT_MIN = 128
};

struct h2_peer {
    nghttp2_session *session;
    struct h2_gate *gate;
    struct gateway_peer *base;
    uint64_t token;
    struct h2_memory memory;
    struct h2_peer *next; /* of the gate's */
    struct h2_peer *previous;
    struct h2_stream *oldest;
    struct h2_stream *newest;
    uint32_t stream_count;
    struct h2_stream *whole_first; /* those that wait to be taken */
    struct h2_stream *whole_last;
    const uint8_t *tail; /* H2-2: what had no room */
    size_t tail_len;
    int64_t age_ns;     /* when it is told to end */
    int64_t noticed_ns; /* when it was; 0: not yet */
    bool told_last;
    bool flooded;
    bool dead; /* nothing can be done with it any more */
    int64_t heard_ns;
    int64_t pinged_ns;  /* 0: not since it was heard */
    int64_t control_ns; /* when the second began in which so many came: */
    uint32_t control;
};

struct h2_gate {
    struct h2_memories memories;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct h2_user user;
    struct random random;
    struct gateway_stats *stats;
    struct h2_stats *h2_stats;
    struct h2_peer *first;
    int64_t now_ns;
    int64_t age_ns; /* of connections that come from now on; 0: they have no end */
    bool ends;
};

/* ---- memory ---------------------------------------------------------------------------------- */

static void *give(size_t len, void *memory)
{
    return h2_memory_get(memory, len, 0);
}

static void take_back(void *block, void *memory)
{
    h2_memory_put(memory, block);
}

static void *give_many(size_t count, size_t len, void *memory)
{
    return len != 0 && count > SIZE_MAX / len ? NULL : h2_memory_get(memory, count * len, 0);
}

static void *give_more(void *block, size_t len, void *memory)
{
    return h2_memory_grow(memory, block, len, 0);
}

/* ---- streams --------------------------------------------------------------------------------- */

static struct h2_stream *new_stream(struct h2_peer *peer, int32_t id)
{
    const struct h2_gate *gate = peer->gate;
    struct h2_stream *stream =
        h2_memory_get(&peer->memory, sizeof *stream + gate->user.stream_len, H2_MEMORY_KEPT);
    if (stream == NULL)
        return NULL;
    stream->peer = peer;
    stream->id = id;
    stream->since_ns = gate->now_ns;
    stream->older = peer->newest;
    if (peer->newest != NULL)
        peer->newest->newer = stream;
    else
        peer->oldest = stream;
    peer->newest = stream;
    peer->stream_count++; /* H2-1 */
    return stream;
}

static void leave_whole(struct h2_peer *peer, const struct h2_stream *stream)
{
    struct h2_stream *before = NULL;
    struct h2_stream *at = peer->whole_first;
    for (; at != stream; at = at->next_whole)
        before = at;
    if (before != NULL)
        before->next_whole = stream->next_whole;
    else
        peer->whole_first = stream->next_whole;
    if (peer->whole_last == stream)
        peer->whole_last = before;
}

static void free_stream(struct h2_peer *peer, struct h2_stream *stream)
{
    peer->gate->user.closed(peer->gate->user.gate, stream);
    if (stream->waits)
        leave_whole(peer, stream);
    if (stream->older != NULL)
        stream->older->newer = stream->newer;
    else
        peer->oldest = stream->newer;
    if (stream->newer != NULL)
        stream->newer->older = stream->older;
    else
        peer->newest = stream->older;
    peer->stream_count--; /* H2-1 */
    h2_memory_put(&peer->memory, stream->out);
    h2_memory_put(&peer->memory, stream);
}

/* All of the request has come. */
static void set_whole(struct h2_stream *stream)
{
    struct h2_peer *peer = stream->peer;
    stream->whole = true;
    if (stream->ended)
        return;
    stream->waits = true;
    if (peer->whole_last != NULL)
        peer->whole_last->next_whole = stream;
    else
        peer->whole_first = stream;
    peer->whole_last = stream;
}

struct gateway_peer *h2_base(const struct h2_peer *peer)
{
    return peer->base;
}

uint64_t h2_token(const struct h2_peer *peer)
{
    return peer->token;
}

struct h2_memory *h2_memory_of(struct h2_peer *peer)
{
    return &peer->memory;
}

struct h2_stream *h2_stream_of(const struct h2_peer *peer, int32_t id)
{
    return nghttp2_session_get_stream_user_data(peer->session, id);
}

void *h2_stream_own(struct h2_stream *stream)
{
    return stream + 1;
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* The connection does what no client has to do: it is closed, with a word for it. */
static void end_flood(struct h2_peer *peer)
{
    if (peer->flooded)
        return;
    peer->flooded = true;
    peer->gate->h2_stats->floods++;
    peer->gate->stats->protocol_errors++;
    (void)nghttp2_session_terminate_session(peer->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct h2_peer *peer = context;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    peer->gate->h2_stats->streams++;
    struct h2_stream *stream = peer->base->waiting < WAITING_MAX && !peer->told_last
                                   ? new_stream(peer, frame->hd.stream_id)
                                   : NULL;
    if (stream == NULL) { /* it is not begun, and the client may ask again elsewhere */
        peer->gate->h2_stats->refused++;
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_REFUSED_STREAM);
    }
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
}

/* Cuts what is too long, which is then equal to nothing that is known. */
static void keep(char *out, size_t capacity, const uint8_t *value, size_t len)
{
    const size_t kept = len < capacity - 1 ? len : capacity - 1;
    memcpy(out, value, kept);
    out[kept] = '\0';
}

static bool is_named(const uint8_t *name, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(name, text, len) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *context)
{
    struct h2_peer *peer = context;
    struct h2_stream *stream = h2_stream_of(peer, frame->hd.stream_id);
    (void)session;
    (void)flags;
    if (stream == NULL || stream->headed)
        return 0;
    stream->head_len += (uint32_t)(name_len + value_len + FIELD_COST);
    if (stream->head_len > H2_HEAD_FLOOD) {
        end_flood(peer);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (is_named(name, name_len, ":method"))
        stream->post = is_named(value, value_len, "POST");
    else if (is_named(name, name_len, ":path"))
        keep(stream->path, sizeof stream->path, value, value_len);
    else if (is_named(name, name_len, "content-type"))
        keep(stream->type, sizeof stream->type, value, value_len);
    else if (is_named(name, name_len, "grpc-encoding"))
        keep(stream->encoding, sizeof stream->encoding, value, value_len);
    else if (is_named(name, name_len, "authorization"))
        keep(stream->authorization, sizeof stream->authorization, value, value_len);
    else if (is_named(name, name_len, "grpc-timeout"))
        keep(stream->timeout, sizeof stream->timeout, value, value_len);
    return 0;
}

/* The answer came before the request was whole. Its client may be saying the rest, and some (curl)
 * take a reset for a fault although it is without an error: as much as is on its way is dropped. */
static void drop_rest(struct h2_stream *stream, size_t len)
{
    const bool over = stream->rest_len > H2_REST_MAX;
    stream->rest_len += over ? 0 : (uint32_t)len;
    if (!over && stream->rest_len > H2_REST_MAX && stream->sent)
        h2_reset(stream, NGHTTP2_NO_ERROR);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *context)
{
    struct h2_peer *peer = context;
    struct h2_stream *stream = h2_stream_of(peer, id);
    (void)session;
    (void)flags;
    if (stream != NULL && !stream->ended)
        peer->gate->user.data(peer->gate->user.gate, stream, data, len);
    else if (stream != NULL)
        drop_rest(stream, len);
    return 0;
}

/* A frame that asks for nothing, but has to be looked at. */
static void count_control(struct h2_peer *peer)
{
    const int64_t now_ns = peer->gate->now_ns;
    if (now_ns - peer->control_ns >= NS_PER_S) {
        peer->control_ns = now_ns;
        peer->control = 0;
    }
    if (++peer->control > H2_CONTROL_MAX)
        end_flood(peer);
}

static bool is_control(const nghttp2_frame *frame)
{
    switch (frame->hd.type) {
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PRIORITY:
        return true;
    case NGHTTP2_DATA:
        return frame->hd.length == 0 && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0;
    default:
        return false;
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct h2_peer *peer = context;
    (void)session;
    if (is_control(frame))
        count_control(peer);
    if (frame->hd.type == NGHTTP2_SETTINGS)
        peer->base->begun = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct h2_stream *stream = h2_stream_of(peer, frame->hd.stream_id);
    if (stream == NULL)
        return 0;
    if (!stream->headed) {
        stream->headed = true;
        peer->control -= peer->control > 0; /* gRPC's clients send a PING as they ask */
        peer->gate->user.headed(peer->gate->user.gate, stream);
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        set_whole(stream);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct h2_peer *peer = context;
    struct h2_stream *stream = h2_stream_of(peer, id);
    (void)session;
    if (stream == NULL)
        return 0;
    peer->gate->h2_stats->cut += code != NGHTTP2_NO_ERROR && !stream->ended;
    free_stream(peer, stream);
    return 0;
}

/* The answer is out. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct h2_stream *stream = h2_stream_of(context, frame->hd.stream_id);
    (void)session;
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0 ||
        stream == NULL)
        return 0;
    stream->sent = true;
    if (stream->rest_len > H2_REST_MAX)
        h2_reset(stream, NGHTTP2_NO_ERROR);
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *data, size_t len,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct h2_stream *stream = source->ptr;
    struct h2_peer *peer = context;
    const size_t left = stream->out_len - stream->out_at;
    const size_t count = left < len ? left : len;
    (void)session;
    (void)id;
    if (count == 0 && !stream->ended)
        return NGHTTP2_ERR_DEFERRED;
    if (count > 0)
        memcpy(data, stream->out + stream->out_at, count);
    stream->out_at += count;
    if (stream->out_at == stream->out_len)
        stream->out_at = stream->out_len = 0;
    if (stream->out_len == 0 && stream->ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        peer->gate->user.trailers(peer->gate->user.gate, stream);
    }
    return (ssize_t)count;
}

/* There is no memory for what libnghttp2 was asked: the connection is of no use. */
static void check_fatal(struct h2_peer *peer, int result)
{
    if (result == 0 || !nghttp2_is_fatal(result))
        return;
    peer->dead = true;
    peer->gate->stats->crowded += result == NGHTTP2_ERR_NOMEM;
}

void h2_respond(struct h2_stream *stream, const nghttp2_nv *fields, size_t count, bool body)
{
    const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_body};
    ASSERT(!stream->answered);
    stream->answered = true;
    stream->ended = !body;
    stream->since_ns = stream->peer->gate->now_ns;
    check_fatal(stream->peer, nghttp2_submit_response(stream->peer->session, stream->id, fields,
                                                      count, body ? &provider : NULL));
}

uint8_t *h2_put(struct h2_stream *stream, size_t len)
{
    const size_t need = stream->out_len + len;
    size_t capacity = stream->out_capacity > 0 ? stream->out_capacity : (size_t)OUT_MIN;
    ASSERT(stream->answered && !stream->ended);
    while (capacity < need)
        capacity *= 2;
    if (capacity > stream->out_capacity) {
        uint8_t *out = h2_memory_grow(&stream->peer->memory, stream->out, capacity, H2_MEMORY_KEPT);
        if (out == NULL)
            return NULL;
        stream->out = out;
        stream->out_capacity = capacity;
    }
    if (stream->out_at == stream->out_len) /* it had nothing to send */
        (void)nghttp2_session_resume_data(stream->peer->session, stream->id);
    stream->since_ns = stream->peer->gate->now_ns;
    stream->out_len = need;
    return stream->out + need - len;
}

void h2_end(struct h2_stream *stream)
{
    ASSERT(stream->answered && !stream->ended);
    stream->ended = true;
    stream->lasts = false;
    stream->since_ns = stream->peer->gate->now_ns;
    if (stream->out_at == stream->out_len)
        (void)nghttp2_session_resume_data(stream->peer->session, stream->id);
}

void h2_trailers(struct h2_stream *stream, const nghttp2_nv *fields, size_t count)
{
    check_fatal(stream->peer,
                nghttp2_submit_trailer(stream->peer->session, stream->id, fields, count));
}

void h2_reset(struct h2_stream *stream, uint32_t code)
{
    stream->answered = stream->ended = true;
    stream->since_ns = stream->peer->gate->now_ns;
    check_fatal(stream->peer, nghttp2_submit_rst_stream(stream->peer->session, NGHTTP2_FLAG_NONE,
                                                        stream->id, code));
}

/* ---- a connection ---------------------------------------------------------------------------- */

int h2_preface(const char *data, size_t len)
{
    const size_t known = len < H2_PREFACE_LEN ? len : (size_t)H2_PREFACE_LEN;
    if (memcmp(data, NGHTTP2_CLIENT_MAGIC, known) != 0)
        return 0;
    return known == H2_PREFACE_LEN ? 1 : -1;
}

static int begin_session(struct h2_peer *peer)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEAD_MAX},
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, HEADER_TABLE_LEN},
    };
    nghttp2_mem mem = {&peer->memory, give, take_back, give_many, give_more};
    if (nghttp2_session_server_new3(&peer->session, peer->gate->callbacks, peer, peer->gate->option,
                                    &mem) != 0)
        return TG_ENOMEM;
    if (nghttp2_submit_settings(peer->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof *settings) != 0 ||
        nghttp2_session_set_local_window_size(peer->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW) != 0)
        return TG_ENOMEM;
    return 0;
}

struct h2_peer *h2_open(struct h2_gate *gate, struct gateway_peer *base, uint64_t token)
{
    struct h2_memory memory = {.all = &gate->memories};
    struct h2_peer *peer = h2_memory_get(&memory, sizeof *peer, 0);
    if (peer == NULL)
        return NULL;
    peer->gate = gate;
    peer->base = base;
    peer->token = token;
    peer->memory = memory;
    peer->heard_ns = gate->now_ns;
    peer->age_ns = INT64_MAX;
    if (gate->age_ns > 0)
        peer->age_ns =
            gate->now_ns + random_between(&gate->random, gate->age_ns - gate->age_ns / 10,
                                          gate->age_ns + gate->age_ns / 10);
    peer->next = gate->first;
    if (gate->first != NULL)
        gate->first->previous = peer;
    gate->first = peer;
    if (begin_session(peer) != 0) {
        h2_close(&peer);
        return NULL;
    }
    base->by_stream = true;
    base->begun = false; /* until its settings have come */
    base->need = 0;
    gate->h2_stats->connections++;
    return peer;
}

void h2_close(struct h2_peer **pointer)
{
    struct h2_peer *peer = *pointer;
    *pointer = NULL;
    if (peer == NULL)
        return;
    struct h2_gate *gate = peer->gate;
    while (peer->oldest != NULL)
        free_stream(peer, peer->oldest);
    nghttp2_session_del(peer->session);
    if (peer->next != NULL)
        peer->next->previous = peer->previous;
    if (peer->previous != NULL)
        peer->previous->next = peer->next;
    else
        gate->first = peer->next;
    struct h2_memory memory = peer->memory;
    h2_memory_put(&memory, peer);
    ASSERT(memory.used == 0); /* H2MEMORY-1 */
}

/* Takes requests that are whole. False: *stop tells what they wait for. */
static bool take_whole(struct h2_peer *peer, enum gateway_stop *stop)
{
    const struct h2_user *user = &peer->gate->user;
    while (peer->whole_first != NULL) {
        struct h2_stream *stream = peer->whole_first;
        if (!stream->ended && !user->take(user->gate, stream, stop))
            return false;
        peer->gate->stats->commands++;
        stream->waits = false;
        peer->whole_first = stream->next_whole;
        if (peer->whole_first == NULL)
            peer->whole_last = NULL;
    }
    return true;
}

enum gateway_stop h2_take(struct h2_peer *peer, const char *data, size_t len, size_t *used)
{
    enum gateway_stop stop = GATEWAY_NEED_BYTES;
    *used = 0;
    if (len > 0) {
        peer->heard_ns = peer->gate->now_ns;
        peer->pinged_ns = 0;
    }
    while (!peer->base->closing && !peer->dead) {
        if (!take_whole(peer, &stop))
            return stop;
        if (*used == len)
            return GATEWAY_NEED_BYTES;
        const ssize_t bytes =
            nghttp2_session_mem_recv(peer->session, (const uint8_t *)data + *used, len - *used);
        if (bytes < 0) {
            peer->gate->stats->protocol_errors += bytes != NGHTTP2_ERR_NOMEM && !peer->flooded;
            peer->gate->stats->crowded += bytes == NGHTTP2_ERR_NOMEM;
            peer->dead = true;
            break;
        }
        *used += (size_t)bytes;
    }
    *used = len;
    return GATEWAY_AT_END;
}

/* The two words of its end. */
static void say_end(struct h2_peer *peer, bool last)
{
    const int64_t now_ns = peer->gate->now_ns;
    if (peer->noticed_ns == 0) {
        peer->noticed_ns = now_ns;
        check_fatal(peer, nghttp2_submit_shutdown_notice(peer->session));
    }
    if (peer->told_last || (!last && now_ns - peer->noticed_ns < H2_NOTICE_NS))
        return;
    peer->told_last = true;
    check_fatal(peer, nghttp2_submit_goaway(peer->session, NGHTTP2_FLAG_NONE,
                                            nghttp2_session_get_last_proc_stream_id(peer->session),
                                            NGHTTP2_NO_ERROR, NULL, 0));
}

/* H2-2: as much of `tail` as there is room for. False: some is left. */
static bool put_tail(struct h2_peer *peer)
{
    struct gateway_out *out = &peer->base->out;
    const size_t room = out->capacity - out->len;
    const size_t count = peer->tail_len < room ? peer->tail_len : room;
    if (count == 0)
        return peer->tail_len == 0;
    memcpy(out->data + out->len, peer->tail, count);
    out->len += count;
    peer->tail += count;
    peer->tail_len -= count;
    return peer->tail_len == 0;
}

bool h2_pump(struct h2_peer *peer, bool last)
{
    if (!peer->dead && (last || peer->noticed_ns != 0 || peer->gate->ends))
        say_end(peer, last);
    for (bool more = true; more;) {
        if (!put_tail(peer))
            return true;
        const ssize_t len = nghttp2_session_mem_send(peer->session, &peer->tail);
        check_fatal(peer, len < 0 ? (int)len : 0);
        peer->tail_len = len > 0 ? (size_t)len : 0;
        more = len > 0;
    }
    if (peer->dead || (peer->told_last && peer->stream_count == 0) ||
        (nghttp2_session_want_read(peer->session) == 0 &&
         nghttp2_session_want_write(peer->session) == 0))
        peer->base->closing = true;
    return false;
}

/* ---- what is late ---------------------------------------------------------------------------- */

/* A request that does not come, or an answer that is not taken, ends. */
static void look_at_streams(struct h2_peer *peer)
{
    const struct h2_gate *gate = peer->gate;
    struct h2_stream *newer;
    for (struct h2_stream *stream = peer->oldest; stream != NULL; stream = newer) {
        newer = stream->newer;
        if (!stream->answered || stream->lasts)
            gate->user.look(gate->user.gate, stream);
        if (stream->sent) {
            if (gate->now_ns - stream->since_ns >= H2_REST_NS)
                h2_reset(stream, NGHTTP2_NO_ERROR);
            continue;
        }
        const bool late = gate->now_ns - stream->since_ns >= H2_STREAM_NS;
        if (!late || stream->lasts || (stream->whole && !stream->answered))
            continue;
        gate->h2_stats->late++;
        h2_reset(stream, NGHTTP2_CANCEL);
    }
}

/* Whether the client still answers, after it has been quiet. */
static void look_at_quiet(struct h2_peer *peer)
{
    const int64_t now_ns = peer->gate->now_ns;
    if (peer->pinged_ns != 0 && now_ns - peer->pinged_ns >= H2_PONG_NS) {
        peer->gate->h2_stats->unanswered++;
        peer->gate->stats->idle++;
        peer->dead = true;
    } else if (peer->pinged_ns == 0 && now_ns - peer->heard_ns >= H2_QUIET_NS) {
        peer->pinged_ns = now_ns;
        check_fatal(peer, nghttp2_submit_ping(peer->session, NGHTTP2_FLAG_NONE, NULL));
    }
}

void h2_gate_age(struct h2_gate *gate, int64_t age_ns)
{
    gate->age_ns = age_ns;
}

void h2_gate_look(struct h2_gate *gate, const struct gateway_finder *finder)
{
    for (struct h2_peer *peer = gate->first; peer != NULL; peer = peer->next) {
        look_at_streams(peer);
        look_at_quiet(peer);
        if (gate->now_ns >= peer->age_ns && peer->noticed_ns == 0) {
            gate->h2_stats->aged++;
            say_end(peer, false);
        }
        if (peer->noticed_ns != 0 && gate->now_ns - peer->noticed_ns >= H2_GRACE_NS)
            peer->dead = true;
        if (peer->dead || peer->noticed_ns != 0 || gate->ends ||
            nghttp2_session_want_write(peer->session) != 0)
            (void)finder->find(finder->context, peer->token); /* it is pumped then */
    }
}

/* ---- the gate -------------------------------------------------------------------------------- */

static bool make_options(struct h2_gate *gate)
{
    if (nghttp2_option_new(&gate->option) != 0 ||
        nghttp2_session_callbacks_new(&gate->callbacks) != 0)
        return false;
    nghttp2_option_set_no_closed_streams(gate->option, 1);
    nghttp2_option_set_stream_reset_rate_limit(gate->option, RESETS_BURST, RESETS_RATE);
    nghttp2_session_callbacks_set_on_begin_headers_callback(gate->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(gate->callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(gate->callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(gate->callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(gate->callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(gate->callbacks, on_sent);
    return true;
}

int h2_gate_new(const struct allocator *allocator, const struct h2_user *user, uint64_t random,
                struct gateway_stats *stats, struct h2_stats *h2_stats, struct h2_gate **out)
{
    struct h2_gate *gate = alloc_get(allocator, sizeof *gate);
    *out = gate;
    if (gate == NULL)
        return TG_ENOMEM;
    gate->memories.allocator = allocator;
    gate->user = *user;
    gate->stats = stats;
    gate->h2_stats = h2_stats;
    gate->age_ns = H2_AGE_NS;
    random_init(&gate->random, random);
    if (make_options(gate))
        return 0;
    h2_gate_free(out);
    return TG_ENOMEM;
}

void h2_gate_free(struct h2_gate **pointer)
{
    struct h2_gate *gate = *pointer;
    *pointer = NULL;
    if (gate == NULL)
        return;
    ASSERT(gate->first == NULL && gate->memories.used == 0);
    nghttp2_option_del(gate->option);
    nghttp2_session_callbacks_del(gate->callbacks);
    alloc_put(gate->memories.allocator, gate, sizeof *gate);
}

void h2_gate_now(struct h2_gate *gate, int64_t now_ns)
{
    gate->now_ns = now_ns;
}

int64_t h2_gate_time(const struct h2_gate *gate)
{
    return gate->now_ns;
}

void h2_gate_end(struct h2_gate *gate)
{
    gate->ends = true;
}

void h2_check_peer(const struct h2_peer *peer)
{
    uint32_t count = 0;
    uint32_t waiting = 0;
    for (const struct h2_stream *stream = peer->oldest; stream != NULL; stream = stream->newer) {
        INVARIANT("H2-1",
                  stream->peer == peer && (stream->newer != NULL || stream == peer->newest));
        INVARIANT("H2-1", h2_stream_of(peer, stream->id) == stream);
        count++;
        waiting += stream->waits;
    }
    INVARIANT("H2-1", count == peer->stream_count);
    for (const struct h2_stream *stream = peer->whole_first; stream != NULL;
         stream = stream->next_whole, waiting--)
        INVARIANT("H2-1", stream->waits && stream->whole && waiting > 0);
    INVARIANT("H2-1", waiting == 0);
}

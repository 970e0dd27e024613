/* lobby.c - clients of a node that does not serve yet; lobby.h is the contract.
 *
 * Its connections are those of a shard in small: the same loops, with the same codec for native
 * clients, the same gate for HTTP clients, which answers probes alone, and a codec for Redis
 * clients that has a single answer.
 *
 * LOBBY-1  Whoever asks is answered, or its connection is closed: never is a question left without
 *          a word. Nothing that a client sends takes more than its place here.
 * LOBBY-2  Whoever comes when all places are taken has that of who was quiet longest: idle
 *          connections, as clients keep ready, keep nobody out.
 */
#include "node/runtime/control/lobby.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "client/protocol/wire.h"
#include "node/gateway/http/http_gate.h"
#include "node/gateway/resp_parser.h"
#include "node/gateway/resp_writer.h"
#include "node/gateway/zmtp.h"
#include "node/runtime/shard/connections.h"

enum { LINE_LEN = 640, ANSWER_LEN = 1024 };

static_assert((int)LOBBY_LISTENERS_MAX <= (int)CONNECTIONS_LISTENERS_MAX, "one loop has them all");

struct lobby {
    struct gateway_stats native_stats;
    struct gateway_stats redis_stats;
    struct gateway_stats http_stats;
    struct zmtp_gate zmtp;
    struct connections *native;
    struct connections *redis;
    struct http_gate *gate;
    struct connections *http;
    struct resp_request request;
    const char *why; /* during a turn */
};

/* ---- native clients -------------------------------------------------------------------------- */

/* The length of the answer, 0 for none: an operator's question is answered as such, so that its
 * sentence is shown alone. */
static size_t refuse(const void *data, size_t data_len, const char *why, uint8_t out[ANSWER_LEN])
{
    struct wire_envelope envelope = {0};
    char ignored[WIRE_ERROR_LEN];
    const int result = wire_peek(data, data_len, &envelope, ignored);
    if (result == 0 && envelope.type == WIRE_GOODBYE)
        return 0;
    if (result == 0 && envelope.type == WIRE_ADMIN) {
        struct mp_writer writer;
        mp_writer_init(&writer, out, ANSWER_LEN);
        wire_begin_admin_reply(&writer, envelope.session, envelope.seq, TG_EUNAVAILABLE);
        mp_put_str(&writer, why);
        return writer.failed ? 0 : writer.len;
    }
    const struct wire_error error = {
        .session = envelope.session,
        .seq = envelope.seq,
        .code = result != 0 ? result : TG_EUNAVAILABLE,
        .text = wire_text_of(result != 0 ? ignored : why),
    };
    const int len = wire_encode_error(&error, out, ANSWER_LEN);
    ASSERT(len <= ANSWER_LEN);
    return len > 0 ? (size_t)len : 0;
}

static bool answer_native(void *context, uint64_t token, const void *data, size_t len)
{
    struct lobby *lobby = context;
    uint8_t answer[ANSWER_LEN];
    const size_t answer_len = refuse(data, len, lobby->why, answer);
    if (answer_len > 0)
        (void)connections_put(lobby->native, token, answer, answer_len); /* or it is gone */
    return true;
}

/* ---- Redis clients --------------------------------------------------------------------------- */

static void open_redis(void *gate, struct gateway_peer *peer)
{
    (void)gate;
    peer->begun = true;
    peer->out.protocol = 2;
}

/* Answers each whole request with the same sentence (LOBBY-1). */
static enum gateway_stop answer_redis(void *context, struct gateway_peer *peer, uint64_t token,
                                      const char *data, size_t len, size_t *used)
{
    struct lobby *lobby = context;
    char line[LINE_LEN];
    (void)token;
    (void)snprintf(line, sizeof line, "UNAVAILABLE %s", lobby->why);
    *used = 0;
    while (*used < len) {
        const char *error;
        if (peer->out.capacity - peer->out.len < LINE_LEN)
            return GATEWAY_NEED_ROOM;
        const int taken = resp_parse(data + *used, len - *used, &lobby->request, &error);
        if (taken == 0)
            break;
        if (taken < 0 || lobby->request.count > 0)
            resp_put_error(&peer->out, line);
        if (taken < 0) {
            peer->closing = true;
            return GATEWAY_AT_END;
        }
        ASSERT((size_t)taken <= len - *used);
        *used += (size_t)taken;
    }
    return GATEWAY_NEED_BYTES;
}

static void ignore_time(void *gate, int64_t now_ns)
{
    (void)gate;
    (void)now_ns;
}

static const struct gateway_codec redis_codec = {
    .name = "lobby",
    .refusal = "-UNAVAILABLE the node does not serve yet\r\n",
    .peer_len = sizeof(struct gateway_peer),
    .pending_max = RESP_PENDING_MAX,
    .read_len = 4 << 10,
    .socket_len = 64 << 10,
    .open = open_redis,
    .take = answer_redis,
    .now = ignore_time,
};

/* ---- life ------------------------------------------------------------------------------------ */

static int make(const struct lobby_options *options, const int *listeners, uint32_t count,
                const struct gateway_codec *codec, void *gate, struct gateway_stats *stats,
                struct connections **out)
{
    struct connections_options made = {
        .codec = codec,
        .gate = gate,
        .stats = stats,
        .max = LOBBY_CONNECTIONS_MAX,
        .all = -1,
        .slow_ns = CONNECTIONS_BEGIN_NS,
        .begin_ns = CONNECTIONS_BEGIN_NS,
        .request_ns = CONNECTIONS_BEGIN_NS,
        .quiet_ns = 0,
        .clock = options->clock,
    };
    ASSERT(count <= LOBBY_LISTENERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const int listener = listeners[i] >= 0 ? fcntl(listeners[i], F_DUPFD_CLOEXEC, 0) : -1;
        if (listener >= 0)
            made.listeners[made.listener_count++] = listener;
    }
    return connections_new(&made, out);
}

static int make_http(const struct lobby_options *options, struct lobby *lobby)
{
    if (options->http_count == 0)
        return 0;
    const int error = http_gate_new(alloc_heap(), options->http_session, options->http_facts,
                                    &lobby->http_stats, &lobby->gate);
    return error != 0 ? error
                      : make(options, options->http, options->http_count, &http_codec, lobby->gate,
                             &lobby->http_stats, &lobby->http);
}

int lobby_new(const struct lobby_options *options, struct lobby **out)
{
    struct lobby *lobby = calloc(1, sizeof *lobby);
    *out = lobby;
    if (lobby == NULL)
        return TG_ENOMEM;
    lobby->zmtp = (struct zmtp_gate){
        .message = answer_native, .context = lobby, .stats = &lobby->native_stats};
    int error = make(options, options->native, options->native_count, &zmtp_codec, &lobby->zmtp,
                     &lobby->native_stats, &lobby->native);
    if (error == 0)
        error = make(options, options->redis, options->redis_count, &redis_codec, lobby,
                     &lobby->redis_stats, &lobby->redis);
    if (error == 0)
        error = make_http(options, lobby);
    if (error != 0)
        lobby_free(out);
    return error;
}

void lobby_free(struct lobby **pointer)
{
    struct lobby *lobby = *pointer;
    *pointer = NULL;
    if (lobby == NULL)
        return;
    connections_free(&lobby->native);
    connections_free(&lobby->redis);
    connections_free(&lobby->http);
    http_gate_free(&lobby->gate);
    free(lobby);
}

void lobby_turn(struct lobby *lobby, const char *why)
{
    lobby->why = why;
    connections_turn(lobby->native);
    connections_turn(lobby->redis);
    if (lobby->http != NULL) {
        http_gate_stage(lobby->gate, HTTP_WAITS, why, NULL);
        connections_turn(lobby->http);
    }
    lobby->why = "";
}

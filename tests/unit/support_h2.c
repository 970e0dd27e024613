/* support_h2.c - a client of HTTP/2. */
#include "tests/unit/support_h2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"

static struct h2_call *call_of(struct h2_client *client, int32_t stream)
{
    for (uint32_t i = 0; i < client->call_count; i++)
        if (client->calls[i].stream == stream)
            return &client->calls[i];
    return NULL;
}

static void keep(char *out, const uint8_t *value, size_t len)
{
    assert_true(len < H2_CALL_TEXT);
    memcpy(out, value, len);
    out[len] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t len, uint8_t flags,
                     void *context)
{
    struct h2_call *call = call_of(context, frame->hd.stream_id);
    char text[H2_CALL_TEXT];
    (void)session;
    (void)flags;
    (void)name_len;
    keep(text, value, len);
    if (strcmp((const char *)name, ":status") == 0)
        call->http = (unsigned)strtol(text, NULL, 10);
    else if (strcmp((const char *)name, "grpc-status") == 0)
        call->status = (int)strtol(text, NULL, 10);
    else if (strcmp((const char *)name, "grpc-message") == 0)
        keep(call->text, value, len);
    else if (strcmp((const char *)name, "grpc-accept-encoding") == 0)
        keep(call->accepts, value, len);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *context)
{
    struct h2_call *call = call_of(context, id);
    (void)session;
    (void)flags;
    assert_true(call->data_len + len <= sizeof call->data);
    memcpy(call->data + call->data_len, data, len);
    call->data_len += len;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct h2_client *client = context;
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->goaways++;
        client->last_stream = frame->goaway.last_stream_id;
        client->goaway_code = frame->goaway.error_code;
    }
    client->resets += frame->hd.type == NGHTTP2_RST_STREAM;
    client->pings += frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct h2_call *call = call_of(context, id);
    (void)session;
    call->closed = true;
    call->code = code;
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *data, size_t len,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct h2_call *call = source->ptr;
    const size_t left = call->body_len - call->body_at;
    const size_t count = left < len ? left : len;
    (void)session;
    (void)id;
    (void)context;
    if (count == 0 && call->open)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(data, call->body + call->body_at, count);
    call->body_at += count;
    if (call->body_at == call->body_len && !call->open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

void h2_client_open(struct h2_client *client, struct h2_gate *gate, uint64_t token)
{
    nghttp2_session_callbacks *callbacks;
    memset(client, 0, sizeof *client);
    client->cut = SIZE_MAX;
    client->base.out.data = client->out;
    client->base.out.capacity = sizeof client->out;
    client->peer = h2_open(gate, &client->base, token);
    assert_non_null(client->peer);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option *option;
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_peer_max_concurrent_streams(option, 1 << 20);
    assert_int_equal(nghttp2_session_client_new2(&client->session, callbacks, client, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
    h2_client_turn(client);
    assert_true(client->base.begun && client->base.by_stream);
}

void h2_client_close(struct h2_client *client)
{
    nghttp2_session_del(client->session);
    client->session = NULL;
    h2_close(&client->peer);
}

/* What the client says, in pieces. */
static bool say(struct h2_client *client)
{
    const uint8_t *data;
    const ssize_t len = nghttp2_session_mem_send(client->session, &data);
    assert_true(len >= 0);
    for (size_t at = 0; at < (size_t)len && !client->base.closing;) {
        const size_t left = (size_t)len - at;
        const size_t count = left < client->cut ? left : client->cut;
        size_t used;
        client->stop = h2_take(client->peer, (const char *)data + at, count, &used);
        while (client->stop == GATEWAY_NEED_SUBMIT) {
            size_t more;
            client->submit();
            client->stop =
                h2_take(client->peer, (const char *)data + at + used, count - used, &more);
            used += more;
        }
        assert_int_equal(used, count);
        h2_check_peer(client->peer);
        at += count;
    }
    return len > 0;
}

static bool hear(struct h2_client *client)
{
    struct gateway_out *out = &client->base.out;
    if (client->deaf)
        return false;
    const bool more = h2_pump(client->peer, false);
    const size_t len = out->len;
    out->len = 0;
    if (len > 0)
        assert_int_equal(nghttp2_session_mem_recv(client->session, (uint8_t *)out->data, len), len);
    return more || len > 0;
}

void h2_client_turn(struct h2_client *client)
{
    bool more = true;
    while (more) {
        more = say(client);
        more = hear(client) || more;
    }
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

struct h2_call *h2_client_ask(struct h2_client *client, const char *path, const void *body,
                              size_t len, const char *const *more)
{
    nghttp2_nv fields[H2_FIELDS + 8] = {
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", path),
        field(":authority", "localhost"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    };
    size_t count = 6;
    ASSERT(client->call_count < H2_CALLS);
    struct h2_call *call = &client->calls[client->call_count++];
    *call = (struct h2_call){.body = body, .body_len = len, .status = -1};
    for (; more != NULL && *more != NULL; more += 2) {
        size_t at = 0;
        while (at < count && strcmp((const char *)fields[at].name, more[0]) != 0)
            at++;
        fields[at] = field(more[0], more[1]);
        count += at == count;
    }
    const nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_body};
    call->stream = nghttp2_submit_request(client->session, NULL, fields, count, &provider, NULL);
    assert_true(call->stream > 0);
    return call;
}

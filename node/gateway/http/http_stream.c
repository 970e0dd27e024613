/* http_stream.c - see http_stream.h.
 *
 *   HTTP/1.1   0000002a CRLF  bytes CRLF  ...  0 CRLF CRLF
 *   HTTP/1.0   bytes ...                       and the end of the connection
 *
 * The length of a chunk is written into the eight digits before it when it is known.
 */
#include "node/gateway/http/http_stream.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { SIZE_DIGITS = 8, SIZE_LEN = SIZE_DIGITS + 2 };

/* ---- bytes ----------------------------------------------------------------------------------- */

void *http_stream_begin(struct http_exchange *exchange, const char *type, http_handler_fn *more)
{
    struct http_reply *reply = &exchange->reply;
    const bool chunked = exchange->request->minor > 0;
    exchange->form.closes = reply->form.closes = true;
    reply->form.keeps = false;
    http_reply_begin(reply, 200);
    http_reply_header(reply, "Content-Type", type);
    http_reply_header(reply, "X-Accel-Buffering", "no");
    if (chunked)
        http_reply_header(reply, "Transfer-Encoding", "chunked");
    http_put(reply, "\r\n", 2);
    reply->done = !reply->failed;
    if (!reply->form.head)
        exchange->more = more;
    exchange->form.stream = chunked ? HTTP_STREAM_CHUNKED : HTTP_STREAM_PLAIN;
    memset(exchange->stream, 0, HTTP_CONTEXT_LEN);
    return exchange->stream;
}

void http_chunk_begin(struct http_reply *reply)
{
    ASSERT(reply->form.stream != HTTP_STREAM_NONE && reply->body_at == 0);
    reply->length_at = reply->out->len;
    if (reply->form.stream == HTTP_STREAM_CHUNKED)
        http_put(reply, "00000000\r\n", SIZE_LEN);
    reply->body_at = reply->out->len;
}

void http_chunk_end(struct http_reply *reply)
{
    char digits[SIZE_DIGITS + 1];
    const size_t len = reply->out->len - reply->body_at;
    if (reply->failed || len == 0)
        return; /* a chunk of no bytes would be the last one */
    ASSERT(len <= UINT32_MAX);
    if (reply->form.stream == HTTP_STREAM_CHUNKED) {
        (void)snprintf(digits, sizeof digits, "%08x", (unsigned)len);
        http_put(reply, "\r\n", 2);
        memcpy(reply->out->data + reply->length_at, digits, SIZE_DIGITS);
    }
    reply->done = !reply->failed;
}

void http_stream_end(struct http_reply *reply)
{
    if (reply->form.stream == HTTP_STREAM_CHUNKED)
        http_put(reply, "0\r\n\r\n", 5);
    reply->done = !reply->failed;
}

void http_stream_settle(struct http_reply *reply)
{
    if (reply->failed || !reply->done || reply->status != 0)
        http_reply_undo(reply); /* HTTPSTREAM-2 */
}

/* ---- places ---------------------------------------------------------------------------------- */

bool http_streams_open(struct http_streams *streams, const struct http_exchange *exchange)
{
    struct http_peer *peer = exchange->peer;
    ASSERT(peer->stream == NULL && exchange->more != NULL); /* HTTPSTREAM-1 */
    for (uint32_t i = 0; i < HTTP_STREAMS_MAX; i++) {
        struct http_stream *stream = &streams->list[i];
        if (stream->more != NULL)
            continue;
        *stream = (struct http_stream){.token = exchange->token,
                                       .due_ns = exchange->now_ns,
                                       .more = exchange->more,
                                       .form = exchange->form,
                                       .rights = exchange->access.rights,
                                       .needed = exchange->route->right};
        access_keep(&exchange->access, &stream->who);
        memcpy(stream->context, exchange->stream, sizeof stream->context);
        peer->stream = stream; /* HTTPSTREAM-1 */
        peer->base.told = true;
        return true;
    }
    return false;
}

void http_streams_close(struct http_peer *peer)
{
    if (peer->stream != NULL)
        peer->stream->more = NULL;
    peer->stream = NULL;
    peer->base.told = false;
}

void http_streams_wake(const struct http_streams *streams, int64_t now_ns,
                       const struct gateway_finder *finder)
{
    for (uint32_t i = 0; i < HTTP_STREAMS_MAX; i++) {
        const struct http_stream *stream = &streams->list[i];
        if (stream->more != NULL && now_ns >= stream->due_ns)
            (void)finder->find(finder->context, stream->token);
    }
}

uint32_t http_streams_count(const struct http_streams *streams)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < HTTP_STREAMS_MAX; i++)
        count += streams->list[i].more != NULL;
    return count;
}

/* http_stream.h - responses that go on: what happens is told when it happens, in chunks.
 *
 *   handler --http_stream_begin--> the head is written; the connection is a stream from now on
 *                                       |
 *   once a second: more(exchange) <-----+   --> http_ask_admin ... completion --> a chunk
 *                                           \-> a chunk at once, or none
 *
 * A stream ends with its connection: when the client goes, does not read, or the node stops. What
 * the client sends meanwhile is not looked at.
 *
 * HTTPSTREAM-1  A peer that is a stream has one of HTTP_STREAMS_MAX places, and nobody else has it.
 * HTTPSTREAM-2  After the head a stream has nothing but whole chunks: what was begun and did not
 *               fit, or became a response of its own, is taken back, and comes in the next turn.
 *
 * Pure. The thread of the connections.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_STREAM_H
#define NODE_GATEWAY_HTTP_HTTP_STREAM_H

#include "node/gateway/http/http_batch.h"

enum { HTTP_STREAMS_MAX = 32 };            /* of a loop of connections */
#define HTTP_STREAM_NS INT64_C(1000000000) /* from one turn of a stream to the next */

struct http_stream {
    http_handler_fn *more; /* NULL: the place is free */
    uint64_t token;
    int64_t due_ns;
    struct http_form form;
    struct access_kept
        who;        /* asks; he may go on as long as he has the right that the route needs */
    uint8_t rights; /* of whoever showed no credential */
    uint8_t needed;
    uint64_t context[HTTP_CONTEXT_LEN / sizeof(uint64_t)];
};

/* All zero to begin with. */
struct http_streams {
    struct http_stream list[HTTP_STREAMS_MAX];
    uint64_t fresh[HTTP_CONTEXT_LEN / sizeof(uint64_t)]; /* of one that a handler begins */
};

/* Of a handler, which returns HTTP_ANSWERED then: writes the head of a response of that type, which
 * `more` will go on with. Returns HTTP_CONTEXT_LEN zeroed bytes that the stream keeps: they are
 * exchange->stream in its turns, and completion->stream. */
void *http_stream_begin(struct http_exchange *exchange, const char *type, http_handler_fn *more);

/* Of a turn, or its completion: a chunk, whose bytes are put between both. */
void http_chunk_begin(struct http_reply *reply);
void http_chunk_end(struct http_reply *reply);

/* ---- what the gate calls ---- */

/* Makes a stream of what the handler has begun. False: there is no place. */
MUST_USE bool http_streams_open(struct http_streams *streams, const struct http_exchange *exchange);
/* The connection has ended, or is to end. */
void http_streams_close(struct http_peer *peer);
/* Has all streams that are due looked at again by the loop. */
void http_streams_wake(const struct http_streams *streams, int64_t now_ns,
                       const struct gateway_finder *finder);
/* The last bytes of a stream. */
void http_stream_end(struct http_reply *reply);
/* Takes back what is no whole chunk (HTTPSTREAM-2). */
void http_stream_settle(struct http_reply *reply);
/* How many there are. */
uint32_t http_streams_count(const struct http_streams *streams);

#endif

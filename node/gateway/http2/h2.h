/* h2.h - HTTP/2: the bytes of a connection to requests of its streams, and their answers to bytes.
 *
 *   bytes --h2_take--> head, data, a whole request ----> its user (h2_user)
 *                                                             | at once, or later
 *   bytes <--h2_pump-- frames <-- h2_respond, h2_put, h2_end -+
 *
 * The protocol's frames, header tables and windows are libnghttp2's, which has no socket and no
 * thread. What is bounded, and when a connection ends, is told in h2.c. Memory is taken from the
 * heap as streams come (h2_memory.h); time is told. The thread of the connections.
 */
#ifndef NODE_GATEWAY_HTTP2_H2_H
#define NODE_GATEWAY_HTTP2_H2_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "node/gateway/gateway.h"
#include "node/gateway/http2/h2_memory.h"

struct h2_gate;
struct h2_peer;

enum {
    H2_PREFACE_LEN = 24,
    H2_STREAMS_MAX = 1024,     /* of a connection at a time */
    H2_WINDOW = 1 << 20,       /* bytes that a stream, and a connection, may send ahead */
    H2_HEAD_MAX = 16 << 10,    /* bytes of a request's header fields, each with 32 more */
    H2_HEAD_FLOOD = 128 << 10, /* beyond these the connection ends */
    H2_REST_MAX = 64 << 10,    /* bytes of a request that are dropped behind its answer */
    H2_CONTROL_MAX = 1000,     /* frames of PING, SETTINGS, PRIORITY, RST_STREAM in a second */
    H2_PATH_LEN = 256,         /* of a path, with its NUL; no longer one is served */
    H2_VALUE_LEN = 64,         /* of other fields that are looked at, */
    H2_TOKEN_LEN = 96          /* and of authorization */
};

/* How long a connection lives at most by default, a tenth more or less by chance; from the first
 * word of its end to the second one, and to the end of what still goes on; how long a request may
 * take to come, and its answer to be taken; how long what is left of a request may come behind its
 * answer; and after how long a time of quiet a peer is asked whether it lives, and has to have
 * answered. */
#define H2_AGE_NS    INT64_C(300000000000)
#define H2_NOTICE_NS INT64_C(1000000000)
#define H2_GRACE_NS  INT64_C(30000000000)
#define H2_STREAM_NS INT64_C(30000000000)
#define H2_REST_NS   INT64_C(1000000000)
#define H2_QUIET_NS  INT64_C(120000000000)
#define H2_PONG_NS   INT64_C(20000000000)

/* A request, and its answer. Its user's own struct lies behind it. */
struct h2_stream {
    struct h2_peer *peer;
    struct h2_stream *newer; /* of its connection */
    struct h2_stream *older;
    struct h2_stream *next_whole;
    int32_t id;
    int64_t since_ns; /* when it began, or was answered */
    uint32_t head_len;
    uint32_t rest_len; /* what came behind the answer, and was dropped */
    bool headed;       /* its head has come, */
    bool whole;        /* and all of it, */
    bool waits;        /* which has not been taken yet */
    bool answered;     /* the head of the answer is on its way, */
    bool ended;        /* all of it is told, */
    bool sent;         /* and has gone out */
    bool lasts;        /* it may take as long as it likes */
    bool post;         /* its method */
    char path[H2_PATH_LEN];
    char type[H2_VALUE_LEN]; /* content-type; a field that is too long is cut */
    char encoding[H2_VALUE_LEN];
    char timeout[H2_VALUE_LEN];
    char authorization[H2_TOKEN_LEN];
    uint8_t *out; /* of the body: what is not sent */
    size_t out_len;
    size_t out_at;
    size_t out_capacity;
};

/* What is done with requests; `gate` is the user's. For a stream whose answer has ended no function
 * is called but `trailers` and `closed`. */
struct h2_user {
    void *gate;
    size_t stream_len; /* of its struct of a stream, zeroed at first */
    void (*headed)(void *gate, struct h2_stream *stream);
    void (*data)(void *gate, struct h2_stream *stream, const uint8_t *data, size_t len);
    /* All of it has come. False: *stop tells what it waits for. */
    bool (*take)(void *gate, struct h2_stream *stream, enum gateway_stop *stop);
    /* The body is sent: the last fields, by h2_trailers. */
    void (*trailers)(void *gate, struct h2_stream *stream);
    void (*closed)(void *gate, struct h2_stream *stream);
    /* Now and then, while it has no answer, or is one that lasts. */
    void (*look)(void *gate, struct h2_stream *stream);
};

/* Counted since the start. */
struct h2_stats {
    uint64_t connections;
    uint64_t streams; /* requests that began, */
    uint64_t refused; /* of these: for want of room, */
    uint64_t cut;     /* ended by their client before the answer, */
    uint64_t late;    /* or here: they took too long to come, or their answer to be taken */
    uint64_t floods; /* connections closed for frames that ask for nothing, or fields without end */
    uint64_t aged;   /* connections that were told to end for their age */
    uint64_t unanswered; /* connections closed because they did not answer a PING */
};

/* `random` is for how long connections live; `user` and both kinds of stats are borrowed. */
MUST_USE int h2_gate_new(const struct allocator *allocator, const struct h2_user *user,
                         uint64_t random, struct gateway_stats *stats, struct h2_stats *h2_stats,
                         struct h2_gate **out);
/* How long connections that come from now on live, in ns; 0: without an end. */
void h2_gate_age(struct h2_gate *gate, int64_t age_ns);
void h2_gate_free(struct h2_gate **gate);
void h2_gate_now(struct h2_gate *gate, int64_t now_ns);
int64_t h2_gate_time(const struct h2_gate *gate);
/* From now on connections are told to end. */
void h2_gate_end(struct h2_gate *gate);
/* Looks for what is late; a connection that has something to be sent is looked up by the finder. */
void h2_gate_look(struct h2_gate *gate, const struct gateway_finder *finder);

/* Whether `data` is the beginning of HTTP/2: 1; not: 0; too short to tell: -1. */
int h2_preface(const char *data, size_t len);

/* A connection whose first bytes are the preface; NULL: there is no room. */
struct h2_peer *h2_open(struct h2_gate *gate, struct gateway_peer *base, uint64_t token);
void h2_close(struct h2_peer **peer);
/* Takes the bytes, and the requests in them; *used tells how many. */
enum gateway_stop h2_take(struct h2_peer *peer, const char *data, size_t len, size_t *used);
/* Writes what is to be sent into the peer's `out`. True: there is more than that has room for.
 * `last`: nothing more will be read of it. */
bool h2_pump(struct h2_peer *peer, bool last);

struct gateway_peer *h2_base(const struct h2_peer *peer);
uint64_t h2_token(const struct h2_peer *peer);
struct h2_memory *h2_memory_of(struct h2_peer *peer);
/* The stream of that number; NULL: it is closed. */
struct h2_stream *h2_stream_of(const struct h2_peer *peer, int32_t id);
void *h2_stream_own(struct h2_stream *stream);

/* The head of the answer. `body`: a body and trailers follow; else that is all. */
void h2_respond(struct h2_stream *stream, const nghttp2_nv *fields, size_t count, bool body);
/* Room for so many bytes more of the body, which are there then; NULL: there is none. */
uint8_t *h2_put(struct h2_stream *stream, size_t len);
/* The body ends with what was put. */
void h2_end(struct h2_stream *stream);
/* From `trailers`. */
void h2_trailers(struct h2_stream *stream, const nghttp2_nv *fields, size_t count);
void h2_reset(struct h2_stream *stream, uint32_t code);

/* Asserts what always holds of the connection. For tests. */
void h2_check_peer(const struct h2_peer *peer);

#endif

/* http_reply.h - one response, written into the room that its connection has for it.
 *
 *   http_reply_begin --> http_reply_header, ... --> http_reply_body --> http_put, ... --> end
 *
 * The writer adds what every response has: the date, Cache-Control: no-store, the length of the
 * body, which is put in when it is known, and Connection where the connection ends or goes on
 * against the habit of its version. A response to HEAD has the head of that to GET, and no body.
 *
 * Errors are sticky: what does not fit sets `failed`, and nothing more is written. Its caller, the
 * gate, then answers 500 instead. Pure.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_REPLY_H
#define NODE_GATEWAY_HTTP_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/protocol/wire_base.h"
#include "node/gateway/gateway.h"

enum {
    HTTP_DATE_LEN = 30, /* "Sun, 06 Nov 1994 08:49:37 GMT" and NUL */
    HTTP_ROOM = 2 << 10 /* bytes that a response may have that asked for no more room */
};

/* Whether a response goes on, and how its pieces are told apart (http_stream.h). */
enum http_stream_form { HTTP_STREAM_NONE, HTTP_STREAM_CHUNKED, HTTP_STREAM_PLAIN };

/* What of a request tells how it is answered. */
struct http_form {
    bool head;      /* HEAD: no body */
    bool closes;    /* the connection ends with this response */
    bool keeps;     /* it is HTTP/1.0, and goes on */
    uint8_t stream; /* enum http_stream_form: what is written is a piece of such a response */
};

struct http_reply {
    struct gateway_out *out;
    const char *date;
    size_t start;     /* in out: where the response begins, */
    size_t limit;     /* and how far it may go */
    size_t length_at; /* where its body's length is to stand */
    size_t body_at;
    struct http_form form;
    uint16_t status; /* 0: not begun */
    uint32_t span;   /* of its request (trace/tracer.h), or 0 */
    bool done;
    bool failed;
};

/* A response of at most `room` bytes behind what `out` has. `date` is that of http_date, and lives
 * as long as the reply. */
void http_reply_init(struct http_reply *reply, struct gateway_out *out, size_t room,
                     struct http_form form, const char *date);
/* Forgets what was written, so that another response can be begun. */
void http_reply_undo(struct http_reply *reply);

/* The status line. Begins anew what was begun. */
void http_reply_begin(struct http_reply *reply, unsigned status);
/* A header; bytes of the value that would end its line, or are no text, become blanks. */
void http_reply_header(struct http_reply *reply, const char *name, const char *value);
void http_reply_header_text(struct http_reply *reply, const char *name, struct wire_text value);
void http_reply_header_integer(struct http_reply *reply, const char *name, uint64_t value);
/* A header whose value is put, as bytes of the body are, until its end. It has no control bytes. */
void http_reply_header_open(struct http_reply *reply, const char *name);
void http_reply_header_close(struct http_reply *reply);
/* Ends the head; the body follows. `type` is that of the content. */
void http_reply_body(struct http_reply *reply, const char *type);
/* Ends the response; without http_reply_body before, it has no body. */
void http_reply_end(struct http_reply *reply);

/* Bytes of the body. */
static inline void http_put(struct http_reply *reply, const void *data, size_t len)
{
    struct gateway_out *out = reply->out;
    if (reply->failed || reply->limit - out->len < len) { /* HTTPREPLY-1 */
        reply->failed = true;
        return;
    }
    if (len > 0)
        memcpy(out->data + out->len, data, len);
    out->len += len;
}
static inline void http_put_text(struct http_reply *reply, const char *text)
{
    http_put(reply, text, strlen(text));
}
void http_put_integer(struct http_reply *reply, int64_t value);
void http_put_unsigned(struct http_reply *reply, uint64_t value);
/* A string of JSON, with its quotes: bytes that are no UTF-8 become U+FFFD. */
void http_put_string(struct http_reply *reply, struct wire_text text);

/* application/problem+json of RFC 9457, in the response that is begun. `type` is a URI; NULL: the
 * status tells all, about:blank. More members may be put, each behind a comma, until the end. */
void http_problem_body(struct http_reply *reply, const char *type, struct wire_text detail);
void http_problem_end(struct http_reply *reply);
/* A whole response that says what is wrong. */
void http_problem(struct http_reply *reply, unsigned status, const char *detail);
/* The same with Retry-After, of a node that has too much to do. */
void http_problem_busy(struct http_reply *reply, const char *detail);

/* The status of an operator's answer of that code, less than 0 (base/error.h). */
unsigned http_status_of(int code);
/* The phrase of a status, "" if it is not known. */
const char *http_phrase(unsigned status);
/* Writes the time, of Unix, as headers have it. */
void http_date(int64_t unix_s, char out[HTTP_DATE_LEN]);

#endif

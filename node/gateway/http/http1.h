/* http1.h - one request of HTTP/1.1 or 1.0, taken from the front of some bytes.
 *
 *   [CRLF] POST /v1/check HTTP/1.1 CRLF
 *          Host: 127.0.0.1:7604 CRLF ... CRLF
 *          CRLF
 *          a body: Content-Length bytes, or chunks
 *
 * The parser takes what RFC 9112 lets a sender write, and nothing that two readers could understand
 * in two ways: what a proxy before the node and the node might cut differently is refused, and the
 * connection ends, for where the next request begins is not known then.
 *
 *   refused with 400   bare CR or LF, other control characters, NUL; blanks before a colon; folded
 *                      lines; no or two Host, or one that is no host; Content-Length twice, beside
 *                      Transfer-Encoding, or anything but digits; Transfer-Encoding other than
 *                      exactly `chunked`, twice, or in HTTP/1.0; headers that mean one thing,
 * twice; a target of another form than its method has; chunks with more framing than
 *                      HTTP1_FRAMING_MAX, sizes of more than 8 digits
 *   413, 414, 431      a body, a target, a head beyond its bound
 *   417                an expectation other than 100-continue
 *   501                a method of more than HTTP1_METHOD_MAX bytes
 *   505                another version: 0.9, 1.2, 2.0 and its preface
 *
 * Pure. Any thread, on the caller's memory.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP1_H
#define NODE_GATEWAY_HTTP_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/protocol/wire_base.h"

enum http1_method {
    HTTP1_GET,
    HTTP1_HEAD,
    HTTP1_POST,
    HTTP1_PUT,
    HTTP1_PATCH,
    HTTP1_DELETE,
    HTTP1_OPTIONS,
    HTTP1_TRACE,
    HTTP1_CONNECT,
    HTTP1_EXTENSION, /* any other one */
    HTTP1_METHODS
};

enum {
    HTTP1_HEAD_MAX = 16 << 10, /* bytes of the request line and the header lines, and of the end */
    HTTP1_HEADERS_MAX = 100,   /* lines */
    HTTP1_TARGET_MAX = 8 << 10,
    HTTP1_METHOD_MAX = 32,
    HTTP1_BODY_MAX = 1 << 20,
    HTTP1_FRAMING_MAX = 128 << 10,  /* bytes of a chunked body that are not its content */
    HTTP1_CHUNK_LINE_MAX = 8 + 256, /* of a chunk's line: its size, its extensions */
    HTTP1_TRAILER_MAX = 8 << 10,    /* bytes of the lines behind the last chunk */
    /* Bytes of a request that is not complete. */
    HTTP1_PENDING_MAX = HTTP1_HEAD_MAX + HTTP1_BODY_MAX + HTTP1_FRAMING_MAX
};

struct http1_header {
    struct wire_text name;
    struct wire_text value; /* without blanks around it */
};

/* All texts lie in the bytes that were parsed; but for the body of more than one chunk, which is
 * put together in the caller's room. One that was not sent has no `data`. */
struct http1_request {
    enum http1_method method;
    struct wire_text method_name;
    struct wire_text target;         /* as it was sent, */
    struct wire_text path;           /* and of it: what is before the first '?'; "*" of OPTIONS, */
    struct wire_text query;          /* what is behind it; without data if there is no '?' */
    struct wire_text host;           /* of Host, with its port if there is one */
    struct wire_text content_type;   /* values of headers */
    struct wire_text encoding;       /* Content-Encoding */
    struct wire_text origin;         /* Origin */
    struct wire_text fetch_site;     /* Sec-Fetch-Site */
    struct wire_text content_length; /* Content-Length */
    struct wire_text transfer;       /* Transfer-Encoding */
    struct wire_text expect;         /* Expect */
    struct wire_text body;
    uint8_t minor;     /* HTTP/1.minor: 0 or 1 */
    bool keep_alive;   /* another request may follow */
    bool closes;       /* Connection: close */
    bool keeps;        /* Connection: keep-alive */
    bool continues;    /* Expect: 100-continue, of a body that is not there yet */
    uint32_t head_len; /* bytes up to the body; 0: the head was not looked at */
    size_t need;       /* bytes that the whole request has; 0: not known yet */
    uint32_t header_count;
    struct http1_header headers[HTTP1_HEADERS_MAX];
};

/* How far a request that is not complete was looked at, so that more of it is not looked at from
 * the beginning. All zero before a request; its caller keeps it for as long as the bytes. */
struct http1_progress {
    uint32_t searched; /* bytes of the head: no line ends behind the last one that was read */
    uint32_t head_len; /* of a complete head, or 0 */
    uint32_t at;       /* chunked: where the next line of framing begins; else the body's end */
    uint32_t content;  /* bytes of the chunks before that */
    uint32_t framing;  /* bytes between them */
    uint32_t chunks;
    uint32_t trailer; /* bytes of the lines behind the last chunk */
    bool chunked;
    bool ended; /* the last chunk has come */
};

struct http1_refusal {
    uint16_t status;
    const char *detail; /* a sentence, a constant */
};

/* Takes the first request of `data`. The bytes that it has (> 0), with *out and a `progress` of
 * zeros; TG_EPROTOCOL with *refusal; or 0 if it is not complete yet. By then *out has what its head
 * says if the head has just become complete, else out->head_len is 0.
 *
 * `room` of HTTP1_BODY_MAX bytes takes a body of several chunks. */
MUST_USE int http1_parse(struct http1_progress *progress, const char *data, size_t len, char *room,
                         struct http1_request *out, struct http1_refusal *refusal);

/* The value of the first header of that name, whatever its case; NULL: there is none. */
const struct wire_text *http1_header(const struct http1_request *request, const char *name);
/* How many headers have that name. */
uint32_t http1_count(const struct http1_request *request, const char *name);
/* Whether two texts are the same but for the case of their letters. */
bool http1_same(struct wire_text a, struct wire_text b);
/* The method's name; of HTTP1_EXTENSION "". */
const char *http1_method_name(enum http1_method method);

#endif

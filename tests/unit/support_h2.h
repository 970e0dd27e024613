/* support_h2.h - a client of HTTP/2 at a node's end of one connection: libnghttp2's own client
 * session speaks to node/gateway/http2, and what comes of each request is noted.
 */
#ifndef TESTS_UNIT_SUPPORT_H2_H
#define TESTS_UNIT_SUPPORT_H2_H

#include "node/gateway/http2/h2.h"

enum { H2_CALLS = 1200, H2_CALL_TEXT = 300, H2_CALL_DATA = 4096, H2_FIELDS = 8 };

/* A request and what was answered. */
struct h2_call {
    int32_t stream;
    const uint8_t *body; /* the caller's */
    size_t body_len;
    size_t body_at;
    bool open; /* more of the body may come */
    unsigned http;
    int status; /* -1: none has come */
    char text[H2_CALL_TEXT];
    char accepts[H2_CALL_TEXT];
    uint8_t data[H2_CALL_DATA];
    size_t data_len;
    bool closed;
    uint32_t code;
};

struct h2_client {
    nghttp2_session *session;
    struct gateway_peer base;
    struct h2_peer *peer;
    size_t cut;           /* how many bytes go at a time */
    bool deaf;            /* it reads nothing */
    void (*submit)(void); /* GATEWAY_NEED_SUBMIT */
    enum gateway_stop stop;
    struct h2_call calls[H2_CALLS];
    uint32_t call_count;
    uint32_t goaways;
    int32_t last_stream; /* of the newest GOAWAY */
    uint32_t goaway_code;
    uint32_t pings;
    uint32_t resets; /* streams that the node reset */
    char out[GATEWAY_OUT_LEN];
};

/* A connection that has said who it is. */
void h2_client_open(struct h2_client *client, struct h2_gate *gate, uint64_t token);
void h2_client_close(struct h2_client *client);
/* Bytes go both ways until there are no more. */
void h2_client_turn(struct h2_client *client);
/* Asks POST `path` with the fields of gRPC, and `more`, name and value in turns until NULL, which
 * replace those of the same name. Nothing goes yet. */
struct h2_call *h2_client_ask(struct h2_client *client, const char *path, const void *body,
                              size_t len, const char *const *more);

#endif

/* wire_session.h - the messages that are a handful of fields: HELLO, WELCOME, GOODBYE, ERROR,
 * GET_RING, administration. */
#ifndef CLIENT_PROTOCOL_WIRE_SESSION_H
#define CLIENT_PROTOCOL_WIRE_SESSION_H

#include "base/hash.h"
#include "base/mp.h"
#include "client/protocol/wire_base.h"

struct wire_hello {
    uint64_t session;     /* chosen at random by the client, non-zero */
    uint32_t version_min; /* protocol versions that the client speaks, inclusive */
    uint32_t version_max;
    struct wire_text agent; /* "libtidegate/1.0.0", <= WIRE_AGENT_MAX */
};

struct wire_welcome {
    uint64_t session;
    uint32_t version; /* the one to use from now on */
    uint8_t cluster_id[16];
    uint64_t node_id; /* non-zero */
    struct wire_text node_name;
    struct hash_key route_key;
    uint32_t vnodes; /* power of two, 1 .. WIRE_VNODES_MAX */
    uint64_t view_version;
    uint32_t checks_max;  /* 1 .. WIRE_CHECKS_MAX: items that this node takes in one CHECKS */
    uint32_t message_max; /* 1024 .. WIRE_MESSAGE_MAX */
    struct wire_text software;
};

MUST_USE int wire_encode_hello(const struct wire_hello *hello, void *out, size_t capacity);
MUST_USE int wire_decode_hello(const void *frame, size_t len, struct wire_hello *hello,
                               char *error);
MUST_USE int wire_encode_welcome(const struct wire_welcome *welcome, void *out, size_t capacity);
MUST_USE int wire_decode_welcome(const void *frame, size_t len, struct wire_welcome *welcome,
                                 char *error);
MUST_USE int wire_encode_goodbye(uint64_t session, void *out, size_t capacity);
MUST_USE int wire_decode_goodbye(const void *frame, size_t len, uint64_t *session, char *error);

struct wire_error {
    uint64_t session;
    uint64_t seq;
    int32_t code;          /* a negative TG_E* */
    struct wire_text text; /* a sentence; cut to WIRE_ERROR_LEN - 1 when encoded */
};

MUST_USE int wire_encode_error(const struct wire_error *message, void *out, size_t capacity);
MUST_USE int wire_decode_error(const void *frame, size_t len, struct wire_error *message,
                               char *error);

/* Asks for a RING. */
struct wire_get_ring {
    uint64_t session;
    uint64_t seq;
};

MUST_USE int wire_encode_get_ring(const struct wire_get_ring *message, void *out, size_t capacity);
MUST_USE int wire_decode_get_ring(const void *frame, size_t len, struct wire_get_ring *message,
                                  char *error);

/* ---- administration ---------------------------------------------------------------------- */

/* The rest of an administrative message is a free msgpack value, given both as bytes (to hand on)
 * and as tokens (to read with a mp_cursor); both are views. */
struct wire_value {
    const uint8_t *data;
    size_t len;
    const struct mp_token *tokens;
    size_t token_count;
};

struct wire_admin {
    uint64_t session;
    uint64_t seq;
    struct wire_text command;    /* "rules.list"; 1 .. WIRE_NAME_MAX bytes */
    struct wire_value arguments; /* a map */
};

struct wire_admin_reply {
    uint64_t session;
    uint64_t seq;
    int32_t code; /* 0 or a negative TG_E*; then the value is a sentence (str) */
    struct wire_value value;
};

/* Each starts the message on a fresh writer; the caller then puts exactly one value (a map for
 * the arguments) and the frame is writer->len bytes if !writer->failed. */
void wire_begin_admin(struct mp_writer *writer, uint64_t session, uint64_t seq,
                      const char *command);
void wire_begin_admin_reply(struct mp_writer *writer, uint64_t session, uint64_t seq, int32_t code);
/* TG_ETOOBIG when the message has more than `tokens_max` tokens. */
MUST_USE int wire_decode_admin(const void *frame, size_t len, struct mp_token *tokens,
                               size_t tokens_max, struct wire_admin *admin, char *error);
MUST_USE int wire_decode_admin_reply(const void *frame, size_t len, struct mp_token *tokens,
                                     size_t tokens_max, struct wire_admin_reply *reply,
                                     char *error);

#endif

/* grpc_wire.h - what gRPC adds to HTTP/2: prefixes of messages, statuses, time-outs as text.
 *
 * Pure.
 */
#ifndef NODE_GATEWAY_GRPC_GRPC_WIRE_H
#define NODE_GATEWAY_GRPC_GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_PREFIX_LEN = 5,
    GRPC_TEXT_LEN = 256,                  /* of what is said to a status, with its NUL */
    GRPC_ESCAPED_LEN = 3 * GRPC_TEXT_LEN, /* the same as grpc-message has it */
    GRPC_STATUS_LEN = 4
};

/* As all of gRPC has them. */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
    GRPC_STATUSES
};
/* As gRPC spells it; NULL: no status that is given here. */
const char *grpc_status_name(enum grpc_status status);

/* What the five bytes in front of a message say. */
struct grpc_prefix {
    uint8_t flag; /* 0; 1: it is compressed; others are none */
    uint32_t len;
};
struct grpc_prefix grpc_prefix_read(const uint8_t bytes[GRPC_PREFIX_LEN]);
void grpc_prefix_write(uint8_t bytes[GRPC_PREFIX_LEN], uint32_t len);

/* Bytes of an encoded message. */
struct grpc_piece {
    const uint8_t *data;
    size_t len;
};
/* Kinds of fields, as all of protobuf has them. */
enum grpc_kind { GRPC_NUMBER = 0, GRPC_64 = 1, GRPC_BYTES = 2, GRPC_32 = 5 };
struct grpc_field {
    uint32_t number;
    enum grpc_kind kind;
    uint64_t value;          /* of GRPC_NUMBER */
    struct grpc_piece bytes; /* of the others: a text, bytes or a message, or so many bits */
};
/* Takes the next field off the message. 1; 0: there is none; less than 0: what follows is no
 * message. */
int grpc_field_next(struct grpc_piece *message, struct grpc_field *out);
/* Goes to the next field that is a text, bytes or a message: its number, and what is in it. 0:
 * there is none, or what follows is no message. */
uint32_t grpc_piece_next(struct grpc_piece *message, struct grpc_piece *out);

/* Bytes of a number, and that many: GRPC_VARINT_MAX at most. Returns what is behind them. */
enum { GRPC_VARINT_MAX = 10 };
uint8_t *grpc_put_varint(uint8_t *out, uint64_t value);

/* A grpc-timeout, one to eight digits and a unit, in ns; INT64_MAX where it is longer than that
 * counts; less than 0: it is none. */
int64_t grpc_timeout_read(const char *text);
/* The text as grpc-message has it: what is not printable ASCII, and the percent sign, escaped. */
void grpc_message_escape(const char *text, char out[GRPC_ESCAPED_LEN]);
/* Whether the content type is one of gRPC's with messages of protobuf. */
bool grpc_type_fits(const char *type);

#endif

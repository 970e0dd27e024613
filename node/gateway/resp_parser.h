/* resp_parser.h - one request of a Redis client, taken from the front of its bytes.
 *
 *   *3\r\n $4\r\nECHO\r\n ...    an array of bulk strings, as every client library sends it
 *   PING "hello world"\r\n       a line of words, as people type it
 *
 * Bounds: RESP_ARGUMENTS_MAX arguments, RESP_COMMAND_LEN_MAX bytes of an array with all that is in
 * it, RESP_INLINE_MAX bytes of a line. More is an error of the protocol, after which the connection
 * has to be closed: where the next request begins is not known.
 *
 * Pure. Any thread, on the caller's memory.
 */
#ifndef NODE_GATEWAY_RESP_PARSER_H
#define NODE_GATEWAY_RESP_PARSER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/protocol/wire.h"

enum {
    RESP_ARGUMENTS_MAX = 128,
    RESP_COMMAND_LEN_MAX = 1 << 16,
    RESP_INLINE_MAX = 1 << 13,
    RESP_NUMBER_DIGITS_MAX = 9,
    /* Bytes of a request that is not complete: the longest one, and the line of a number. */
    RESP_PENDING_MAX = RESP_COMMAND_LEN_MAX + 16
};

static_assert((int)RESP_ARGUMENTS_MAX >= 2 * (int)WIRE_ATTRIBUTES_MAX + 8,
              "a check with all its attributes and options is one request");

/* The arguments, the command's name first. Those of an array lie in the bytes that were parsed,
 * those of a line, without quotes, in `words`. */
struct resp_request {
    uint32_t count; /* 0: an empty line or array, to which there is no answer */
    struct wire_text arguments[RESP_ARGUMENTS_MAX];
    char words[RESP_INLINE_MAX];
};

/* Takes the first request of `data`: the bytes that it has (> 0), 0 if it is not complete yet, or
 * TG_EPROTOCOL with what is wrong in `*error`, a constant. */
MUST_USE int resp_parse(const char *data, size_t len, struct resp_request *out, const char **error);

#endif

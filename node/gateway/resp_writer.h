/* resp_writer.h - replies as bytes, by version 2 or 3 of Redis' protocol.
 *
 * The two differ in types: maps, sets, null and texts for people exist in 3 alone; to a client of 2
 * they are an array of keys and values, an array, a null bulk and a bulk string.
 *
 * Errors are sticky: what does not fit sets `failed`, and nothing more is written. Pure.
 */
#ifndef NODE_GATEWAY_RESP_WRITER_H
#define NODE_GATEWAY_RESP_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire.h"
#include "node/gateway/gateway.h"

enum {
    RESP_INTEGER_LEN = 1 + 20 + 2,
    RESP_ERROR_LEN_MAX = 256 /* of the text of an error; more is cut */
};

void resp_put_integer(struct gateway_out *writer, int64_t value);
void resp_put_bulk(struct gateway_out *writer, const void *data, size_t len);
void resp_put_text(struct gateway_out *writer, const char *text);
/* "+OK": without line ends in it. */
void resp_put_simple(struct gateway_out *writer, const char *text);
/* "-ERR ...": the code is the first word of `text`. Line ends in it become blanks. */
void resp_put_error(struct gateway_out *writer, const char *text);
void resp_put_null(struct gateway_out *writer);
/* Heads: as many elements follow (pairs, of a map). */
void resp_put_array(struct gateway_out *writer, size_t count);
/* An array that is no reply to a request: of version 3, a push. */
void resp_put_push(struct gateway_out *writer, size_t count);
void resp_put_set(struct gateway_out *writer, size_t count);
void resp_put_map(struct gateway_out *writer, size_t pairs);
/* A text to be shown as it is. */
void resp_put_verbatim(struct gateway_out *writer, const char *text, size_t len);

#endif

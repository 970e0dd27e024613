/* operate_read.h - what an operator's call is told: by its path, its query and its body.
 *
 * Pure. The caller's thread, on the caller's memory.
 */
#ifndef NODE_GATEWAY_API_OPERATE_READ_H
#define NODE_GATEWAY_API_OPERATE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire_base.h"
#include "node/gateway/api/json_reader.h"
#include "node/gateway/api/operate_call.h"
#include "node/gateway/http/http_exchange.h"

enum { OPERATE_RATES_LEN = 256 };

struct operate_value {
    bool given;
    struct wire_text text;
    uint64_t number; /* of a number, a flag (0, 1), milliseconds of a span */
    double share;
};

struct operate_values {
    struct operate_value of[OPERATE_FIELDS_MAX]; /* the call's fields, in their order */
    struct operate_value of_edits[OPERATE_OF_EDITS];
    struct wire_text packed; /* a document of rules that came as its gzip */
    uint32_t pair_count;     /* of an object of attributes */
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    char rates[OPERATE_RATES_LEN];
};

/* Reads them; texts lie in the request, or in `room`. False: `error` says what was found where, and
 * what was expected. */
bool operate_read(const struct http_exchange *exchange, const struct operate_call *call, char *room,
                  size_t room_len, struct operate_values *out, char error[JSON_ERROR_LEN]);

#endif

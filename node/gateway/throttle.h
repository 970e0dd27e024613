/* throttle.h - CL.THROTTLE as redis-cell has it: words to an inline limit, a decision to five
 * integers.
 *
 *   CL.THROTTLE key max_burst count period_s [quantity]
 *   --> [0 allowed | 1 limited, limit, remaining, retry_after_s, reset_after_s]
 *
 * Pure.
 */
#ifndef NODE_GATEWAY_THROTTLE_H
#define NODE_GATEWAY_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/limit.h"
#include "base/vocabulary.h"
#include "client/protocol/wire.h"
#include "node/gateway/resp_parser.h"
#include "node/gateway/resp_writer.h"

struct throttle {
    struct limit limit;
    uint64_t cost;
    uint8_t operation; /* check; peek for quantity 0, refund for a negative one */
};

/* What the answer needs besides the decision. */
struct throttle_asked {
    uint64_t limit;
    uint64_t count; /* the rate */
    uint64_t window_ns;
    uint64_t cost;
    bool peek;
};

enum { THROTTLE_ERROR_LEN = 256 };

/* Reads the arguments of the command. 0, or TG_EINVALID with the text of the error reply. */
MUST_USE int throttle_read(const struct resp_request *request, struct throttle *out,
                           char error[THROTTLE_ERROR_LEN]);
struct throttle_asked throttle_asked(const struct throttle *throttle);
void throttle_answer(const struct throttle_asked *asked, const struct wire_decision *decision,
                     struct gateway_out *out);

/* Writes [limited, limit, remaining, retry, reset], without the array's head. */
struct throttle_figures {
    bool limited;
    uint64_t limit;
    uint64_t remaining;
    int64_t retry_ms; /* WIRE_NEVER_MS: never, or there is no need to */
    int64_t reset_ms;
};
void throttle_put_figures(const struct throttle_figures *figures, struct gateway_out *out);

/* A whole number as redis-cell reads it: sign allowed, blanks and other bytes not, 64 bits. */
bool throttle_read_integer(struct wire_text text, int64_t *value);

#endif

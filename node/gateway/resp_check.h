/* resp_check.h - TG.CHECK and its kin: words to a check by rules, a decision to a reply.
 *
 *   TG.CHECK  attribute value [attribute value ...] [COST n] [PEEK] [MESSAGE]
 *   TG.PEEK | TG.HIT | TG.REFUND  attribute value ... [COST n] [MESSAGE]
 *   TG.RESET  attribute value ... [MESSAGE]
 *   --> [0 allowed | 1 denied, limit, remaining, retry_after_s, reset_after_s, outcome, rule]
 *       and with MESSAGE one more: why it is not allowed, never empty then; and with STATUS one
 *       more behind it: the status of HTTP, 200, that of the rule, or 403 of a block
 *
 * Options come last, in any order and any case, each once; so an attribute called `cost` is given
 * before another one. Pure.
 */
#ifndef NODE_GATEWAY_RESP_CHECK_H
#define NODE_GATEWAY_RESP_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vocabulary.h"
#include "client/protocol/wire.h"
#include "node/gateway/resp_parser.h"
#include "node/gateway/resp_writer.h"

enum { RESP_CHECK_ERROR_LEN = 256 };

struct resp_check {
    uint32_t count; /* 1 .. WIRE_ATTRIBUTES_MAX; names are distinct */
    uint8_t operation;
    bool says;  /* the message is asked for, */
    bool tells; /* and the status */
    uint64_t cost;
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
};

/* Reads the arguments of the command, which asks for `operation`. 0, or TG_EINVALID with the text
 * of the error reply. */
MUST_USE int resp_check_read(const struct resp_request *request, enum operation operation,
                             struct resp_check *out, char error[RESP_CHECK_ERROR_LEN]);
/* `says`: with the message; `tells`: with the status. */
void resp_check_answer(const struct wire_decision *decision, bool says, bool tells,
                       struct gateway_out *out);

/* Whether the two are the same but for the case of letters; `word` in capitals. */
bool resp_is_word(struct wire_text text, const char *word);

#endif

/* support_operator.h - an operator who asks by HTTP: a gate, one connection, the token, and what
 * the shard is asked. */
#ifndef TESTS_UNIT_SUPPORT_OPERATOR_H
#define TESTS_UNIT_SUPPORT_OPERATOR_H

#include "base/digest.h"
#include "node/gateway/http/http_gate.h"

#define OPERATOR_TOKEN  "tga_token"
#define OPERATOR_BEARER "Authorization: Bearer " OPERATOR_TOKEN "\r\n"

#define OPERATOR_CHECKS "(checks)"

enum { OPERATOR_OUT = 6 << 20, OPERATOR_TEXT = 4096 };

struct operator_bench {
    struct http_gate *gate;
    struct http_peer peer;
    struct gateway_stats stats;
    struct digest operators;
    char *out;
    char asked[OPERATOR_TEXT]; /* the command and its arguments, as JSON; OPERATOR_CHECKS; "":
                                  nothing was asked */
    struct wire_admin admin;
};

void operator_open(struct operator_bench *bench);
void operator_close(struct operator_bench *bench);
/* Sends a request, which is taken as a whole. */
void operator_say(struct operator_bench *bench, const char *request);
/* The shard sends this frame. */
void operator_answer(struct operator_bench *bench, const void *frame, size_t len);
/* As much later: the gate gives up what has no answer. */
void operator_wait(struct operator_bench *bench, int64_t ns);
/* What has been sent back. */
const char *operator_heard(struct operator_bench *bench);
/* Asserts that `part` is in that. */
void operator_expect(struct operator_bench *bench, const char *part);

#endif

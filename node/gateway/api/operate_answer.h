/* operate_answer.h - what a command's answer is as a response.
 *
 * Pure. The caller's thread, on the caller's memory.
 */
#ifndef NODE_GATEWAY_API_OPERATE_ANSWER_H
#define NODE_GATEWAY_API_OPERATE_ANSWER_H

#include "node/gateway/api/operate_call.h"
#include "node/gateway/http/http_exchange.h"
#include "node/policy/people/api_keys.h"

/* What the answer needs to know of the request: in the context of its question. */
struct operate_asked {
    const struct operate_call *call;
    bool yaml;                 /* the document itself is wanted, */
    bool gzip;                 /* and may be packed */
    bool based;                /* If-Match or If-None-Match was there, of an edit */
    bool known;                /* If-None-Match was there, of what is shown: */
    uint64_t version;          /* who asks has that one */
    char id[33];               /* of an edit */
    char key[API_KEY_LEN + 1]; /* that is made, or may be */
};

void operate_answer(struct http_completion *completion);

#endif

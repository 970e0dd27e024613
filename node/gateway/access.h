/* access.h - who asks, and what he may: for each protocol that callers speak.
 *
 *   what a request shows --access_judge--> rights, or why none --+
 *                                                                +--> may it pass?
 *   what it asks --access_needs--> rights -----------------------+
 *
 * A caller who shows nothing has the anonymous rights of his protocol. One who shows a token has
 * those of its credential, and no others: a token that is good for nothing is told so.
 *
 * ACCESS-1  What a request asks of the shard is looked at as it will be sent, whatever handler made
 *           it: operations and kinds of limits say which rights it needs.
 *
 * Pure.
 */
#ifndef NODE_GATEWAY_ACCESS_H
#define NODE_GATEWAY_ACCESS_H

#include "client/protocol/wire.h"
#include "node/policy/model/policy.h"
#include "node/policy/rights/credentials.h"
#include "node/policy/rights/token.h"

/* What whoever shows nothing may do, where nothing else is said. */
enum { ACCESS_ANONYMOUS = RIGHT_CHECK | RIGHT_ADJUST | RIGHT_INLINE | RIGHT_OBSERVE };

struct access {
    uint8_t rights;
    uint8_t verdict; /* enum credential_verdict: other than GOOD, what was shown is of no use */
    bool shown;      /* a token was */
    const struct credential *credential; /* whose it is; NULL: nobody's. It lives with the policy */
    struct digest digest;                /* of the token, where it is somebody's */
    struct policy_ip ip;                 /* from where it was shown */
};

/* What a connection, or a response that goes on, keeps of who asked. All zero: he showed nothing.
 */
struct access_kept {
    bool shown; /* a token, which was good then */
    char id[TOKEN_ID_LEN];
    struct digest digest;
    struct policy_ip ip;
};

/* Of a caller at `address` (GATEWAY_ADDRESS) who shows `token`, of length 0: nothing. `policy` has
 * the credentials in force, NULL: none are known yet. */
void access_judge(const struct policy *policy, uint8_t anonymous, struct wire_text token,
                  const char *address, int64_t now_ns, struct access *out);
/* What is to be kept of him; and what he may now, by the credentials in force. */
void access_keep(const struct access *access, struct access_kept *out);
void access_look(const struct policy *policy, uint8_t anonymous, const struct access_kept *kept,
                 int64_t now_ns, struct access *out);
/* The rights that the checks from the one numbered `from` on need. */
uint8_t access_needs(const struct wire_checks_builder *builder, uint32_t from);
/* Of the needed rights the first one that is missing, by name; "" : none is. */
const char *access_missing(const struct access *access, uint8_t needed);

enum { ACCESS_SENTENCE_LEN = 256 };
/* Why the request is refused, and what to do. */
void access_sentence(const struct access *access, uint8_t needed, char out[ACCESS_SENTENCE_LEN]);

#endif

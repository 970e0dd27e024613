/* resp_user.h - who a Redis client is, and what he may.
 *
 *   AUTH token, HELLO 3 AUTH name token --> id and digest are kept with the connection
 *   each command: among the credentials in force now --> rights, or AUTH comes first again
 *   nothing shown, or RESET: user `default` --> the anonymous rights; of none: AUTH comes first
 *
 * RESPUSER-1  Rights are looked up for each command, when it is taken: what ends a credential, or
 *             its token, ends those of living connections.
 * RESPUSER-2  Who has shown a token has its rights and no others: when it ends, he has none until
 *             he authenticates anew, or RESET.
 *
 * Pure. The thread of the connection.
 */
#ifndef NODE_GATEWAY_RESP_USER_H
#define NODE_GATEWAY_RESP_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "client/protocol/wire.h"
#include "node/gateway/access.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/rights/token.h"

/* By what users are told apart. */
struct resp_users {
    const struct policy *policy; /* has the credentials in force; NULL: none are known yet */
    uint8_t anonymous;           /* roles of `default` */
    int64_t now_ns;              /* Unix time */
};

/* What the user may now; `out` lives with the policy. */
void resp_user_look(const struct resp_users *users, const struct access_kept *user,
                    struct access *out);
/* Whether AUTH has to come first. */
bool resp_user_unknown(const struct access *access);
/* What ACL WHOAMI says of him. It lives with the policy. */
struct wire_text resp_user_name(const struct access *access);
/* The connection from `address` (GATEWAY_ADDRESS) shows a password, for that name unless NULL.
 * NULL, and *user is who it is from now on; or the text of the error, and *user is as before. */
const char *resp_user_auth(const struct resp_users *users, const char *address,
                           const struct wire_text *name, struct wire_text password,
                           struct access_kept *user);

#endif

/* credentials.h - the credentials of a cluster as requests meet them: who is it that shows this?
 *
 *   token --id--> credential --digest, expiry, revocation, network--> rights, or why not
 *
 * CREDENTIALS-1  A set is made whole and never changed after; any thread may look.
 * CREDENTIALS-2  A look costs one probe and one digest, and compares in constant time. Whether an
 *                id exists is no secret.
 * CREDENTIALS-3  Whatever is wrong, nobody gets a right. What is wrong with a credential is told to
 *                whoever knows its secret alone.
 */
#ifndef NODE_POLICY_RIGHTS_CREDENTIALS_H
#define NODE_POLICY_RIGHTS_CREDENTIALS_H

#include "base/alloc.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/rights/credential.h"
#include "node/policy/rights/rights.h"

struct credential {
    struct policy_text id;
    struct policy_text name;
    uint8_t rights; /* what its roles give */
    uint8_t digest_count;
    uint8_t network_count;
    struct credential_digest digests[CREDENTIAL_DIGESTS_MAX];
    uint64_t expires_ms;
    uint64_t revoked_ms;
    struct policy_block networks[CREDENTIAL_NETWORKS_MAX];
};

struct credentials;

/* What a set is made of: a record and the id under which it is kept. */
struct credential_entry {
    struct policy_text id;
    struct policy_text value; /* as credential_encode wrote it */
};

/* Why somebody has no rights by what he shows. */
enum credential_verdict {
    CREDENTIAL_GOOD,
    CREDENTIAL_MALFORMED, /* no token: cut, mistyped, or something else */
    CREDENTIAL_UNKNOWN,   /* of this cluster's none */
    CREDENTIAL_EXPIRED,   /* it, or its replaced token */
    CREDENTIAL_REVOKED,
    CREDENTIAL_ELSEWHERE /* it may not be shown from there */
};

/* A set of `count` credentials, copied; entries that cannot be read are left out: their tokens are
 * unknown. 0, TG_ENOMEM, or TG_ETOOBIG. */
MUST_USE int credentials_new(const struct allocator *allocator,
                             const struct credential_entry *entries, size_t count,
                             struct credentials **out);
/* Another pointer to the same set, to be given to credentials_free as well. */
struct credentials *credentials_share(struct credentials *credentials);
/* Frees the set unless it is shared still; NULL is allowed. */
void credentials_free(struct credentials **credentials);
size_t credentials_count(const struct credentials *credentials);

/* Whose token it is, shown at `now_ms` from `ip` (NULL or of no length: no address, which no
 * network holds). *out is set if it is GOOD, and lives as long as the set. `credentials` may be
 * NULL: there are none. */
enum credential_verdict credentials_judge(const struct credentials *credentials, const char *token,
                                          size_t len, const struct policy_ip *ip, uint64_t now_ms,
                                          const struct credential **out);
/* The same of a token by its id, TOKEN_ID_LEN bytes, and its digest: for a connection that has
 * shown it, and is asked anew with each request. Nothing is hashed but the id; never MALFORMED. */
enum credential_verdict credentials_judge_kept(const struct credentials *credentials,
                                               const char *id, const struct digest *digest,
                                               const struct policy_ip *ip, uint64_t now_ms,
                                               const struct credential **out);
/* Whether a credential that was found GOOD is still; what a connection asks that keeps it. */
enum credential_verdict credential_still(const struct credential *credential,
                                         const struct policy_ip *ip, uint64_t now_ms);
/* A sentence that says what to do. Static storage. */
const char *credential_sentence(enum credential_verdict verdict);

#endif

/* credential.h - a credential as the cluster keeps it, under its id.
 *
 *   [1, name, roles, digests, created_ms, created_by, expires_ms, revoked_ms, revoked_by, networks]
 *
 *   digests   [[digest of a token, until_ms], ...]: two are valid at once while one is replaced
 *   networks  ["10.0.0.0/8", ...]: from where it may be shown; none: from everywhere
 *
 * What further releases append is skipped. Pure; texts are borrowed.
 */
#ifndef NODE_POLICY_RIGHTS_CREDENTIAL_H
#define NODE_POLICY_RIGHTS_CREDENTIAL_H

#include "base/digest.h"
#include "base/error.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_ip.h"

enum {
    CREDENTIALS_MAX = 10000, /* that a cluster keeps, those revoked included */
    CREDENTIAL_NAME_LEN_MAX = 64,
    CREDENTIAL_AUTHOR_LEN_MAX = 128,
    CREDENTIAL_DIGESTS_MAX = 2,
    CREDENTIAL_NETWORKS_MAX = 16,
    CREDENTIAL_RECORD_LEN_MAX = 1536
};

struct credential_digest {
    struct digest digest;
    uint64_t until_ms; /* Unix time, as all of these; 0: as long as the credential */
};

struct credential_record {
    struct policy_text name;
    uint8_t roles; /* enum right, or'd */
    uint32_t digest_count;
    struct credential_digest digests[CREDENTIAL_DIGESTS_MAX];
    uint64_t created_ms;
    struct policy_text
        created_by;      /* who revoked it, below: a credential, or who the machine says */
    uint64_t expires_ms; /* 0: never */
    uint64_t revoked_ms; /* 0: it is not */
    struct policy_text revoked_by;
    uint32_t network_count;
    struct policy_block networks[CREDENTIAL_NETWORKS_MAX];
};

/* Whether a name of a credential has 1 to CREDENTIAL_NAME_LEN_MAX letters, digits, and . _ - only.
 */
bool credential_name_ok(const char *text, size_t len);
/* The length of the record in `out`, or TG_ETOOBIG. */
MUST_USE int credential_encode(const struct credential_record *record, void *out, size_t capacity);
/* False if it is none; texts point into `bytes`. */
bool credential_decode(const void *bytes, size_t len, struct credential_record *out);
/* Whether it is one that was revoked. */
bool credential_revoked(const void *bytes, size_t len);

#endif

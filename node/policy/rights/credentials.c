/* credentials.c - see credentials.h. The table (../index/lookup.h) is by id. */
#include "node/policy/rights/credentials.h"

#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/index/lookup.h"
#include "node/policy/rights/token.h"

struct credentials {
    _Atomic uint32_t shares; /* how often credentials_free leaves it in place */
    struct lookup table;     /* of struct credential, by id */
};

static uint64_t hash_of(const char *id, size_t len)
{
    static const struct hash_key key = {{'c', 'r', 'e', 'd'}}; /* ids are random */
    return hash64(&key, id, len);
}

static void add(struct credentials *credentials, const struct credential_entry *entry)
{
    struct credential_record record;
    struct lookup *table = &credentials->table;
    if (!credential_decode(entry->value.data, entry->value.len, &record))
        return;
    struct credential *made = lookup_add(table);
    made->id = lookup_keep(table, entry->id.data, entry->id.len);
    made->name = lookup_keep(table, record.name.data, record.name.len);
    made->rights = rights_of(record.roles);
    made->digest_count = (uint8_t)record.digest_count;
    made->network_count = (uint8_t)record.network_count;
    memcpy(made->digests, record.digests, record.digest_count * sizeof record.digests[0]);
    memcpy(made->networks, record.networks, record.network_count * sizeof record.networks[0]);
    made->expires_ms = record.expires_ms;
    made->revoked_ms = record.revoked_ms;
    lookup_file(table, hash_of(made->id.data, made->id.len));
}

int credentials_new(const struct allocator *allocator, const struct credential_entry *entries,
                    size_t count, struct credentials **out)
{
    size_t bytes = 0;
    *out = NULL;
    if (count > CREDENTIALS_MAX)
        return TG_ETOOBIG;
    for (size_t i = 0; i < count; i++) /* a record is longer than its name */
        bytes += entries[i].id.len + entries[i].value.len + 2;
    struct credentials *made = alloc_get(allocator, sizeof *made);
    if (made == NULL)
        return TG_ENOMEM;
    const int error = lookup_init(&made->table, allocator, count, sizeof(struct credential), bytes);
    for (size_t i = 0; error == 0 && i < count; i++)
        add(made, &entries[i]);
    if (error == 0)
        *out = made;
    else
        credentials_free(&made);
    return error;
}

struct credentials *credentials_share(struct credentials *credentials)
{
    atomic_fetch_add(&credentials->shares, 1);
    return credentials;
}

void credentials_free(struct credentials **pointer)
{
    struct credentials *credentials = *pointer;
    *pointer = NULL;
    if (credentials == NULL || atomic_fetch_sub(&credentials->shares, 1) != 0)
        return;
    const struct allocator *allocator = credentials->table.allocator;
    lookup_fini(&credentials->table);
    alloc_put(allocator, credentials, sizeof *credentials);
}

size_t credentials_count(const struct credentials *credentials)
{
    return credentials != NULL ? credentials->table.count : 0;
}

static const struct credential *find(const struct credentials *credentials, const char *id)
{
    const struct lookup *table = &credentials->table;
    const struct credential *credential;
    uint32_t at = lookup_home(table, hash_of(id, TOKEN_ID_LEN));
    while (
        (credential = lookup_at(table, at)) != NULL &&
        (credential->id.len != TOKEN_ID_LEN || memcmp(credential->id.data, id, TOKEN_ID_LEN) != 0))
        at = lookup_next(table, at);
    return credential;
}

enum credential_verdict credential_still(const struct credential *credential,
                                         const struct policy_ip *ip, uint64_t now_ms)
{
    if (credential->revoked_ms != 0)
        return CREDENTIAL_REVOKED;
    if (credential->expires_ms != 0 && now_ms >= credential->expires_ms)
        return CREDENTIAL_EXPIRED;
    for (uint32_t i = 0; i < credential->network_count; i++)
        if (ip != NULL && policy_block_holds(&credential->networks[i], ip))
            return CREDENTIAL_GOOD;
    return credential->network_count > 0 ? CREDENTIAL_ELSEWHERE : CREDENTIAL_GOOD;
}

enum credential_verdict credentials_judge_kept(const struct credentials *credentials,
                                               const char *id, const struct digest *digest,
                                               const struct policy_ip *ip, uint64_t now_ms,
                                               const struct credential **out)
{
    const struct credential_digest *shown = NULL;
    const struct credential *found = credentials != NULL ? find(credentials, id) : NULL;
    *out = NULL;
    for (uint32_t i = 0; found != NULL && i < found->digest_count; i++)
        if (digest_equal(&found->digests[i].digest, digest))
            shown = &found->digests[i];
    if (shown == NULL) /* CREDENTIALS-3 */
        return CREDENTIAL_UNKNOWN;
    enum credential_verdict verdict = credential_still(found, ip, now_ms);
    if (verdict == CREDENTIAL_GOOD && shown->until_ms != 0 && now_ms >= shown->until_ms)
        verdict = CREDENTIAL_EXPIRED;
    if (verdict == CREDENTIAL_GOOD)
        *out = found;
    return verdict;
}

enum credential_verdict credentials_judge(const struct credentials *credentials, const char *token,
                                          size_t len, const struct policy_ip *ip, uint64_t now_ms,
                                          const struct credential **out)
{
    struct digest digest;
    const char *id = token_id(token, len);
    *out = NULL;
    if (id == NULL)
        return CREDENTIAL_MALFORMED;
    digest_make(token, len, &digest);
    return credentials_judge_kept(credentials, id, &digest, ip, now_ms, out);
}

const char *credential_sentence(enum credential_verdict verdict)
{
    static const char *const sentences[] = {
        [CREDENTIAL_GOOD] = "",
        [CREDENTIAL_MALFORMED] = "the token is none of Tidegate: was it cut or mistyped?",
        [CREDENTIAL_UNKNOWN] = "the token is not known to this cluster: is it another one's?",
        [CREDENTIAL_EXPIRED] = "the token has expired: `tidegate token create` makes a new one",
        [CREDENTIAL_REVOKED] = "the token was revoked: `tidegate token create` makes a new one",
        [CREDENTIAL_ELSEWHERE] =
            ("the token may not be used from this address: its credential names "
             "networks (`tidegate credential show`)"),
    };
    ASSERT(verdict <= CREDENTIAL_ELSEWHERE);
    return sentences[verdict];
}

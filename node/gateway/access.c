/* access.c - see access.h. */
#include "node/gateway/access.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/vocabulary.h"
#include "node/policy/people/policy_join.h"

#define NS_PER_MS INT64_C(1000000)

static const struct credentials *in_force(const struct policy *policy)
{
    return policy != NULL ? policy_joined(policy)->credentials : NULL;
}

/* By id and digest, which are there. */
static void judge(const struct policy *policy, const char *id, int64_t now_ns, struct access *out)
{
    out->verdict =
        (uint8_t)credentials_judge_kept(in_force(policy), id, &out->digest, &out->ip,
                                        (uint64_t)(now_ns / NS_PER_MS), &out->credential);
    out->rights = out->credential != NULL ? out->credential->rights : 0;
}

void access_judge(const struct policy *policy, uint8_t anonymous, struct wire_text token,
                  const char *address, int64_t now_ns, struct access *out)
{
    *out = (struct access){.rights = rights_of(anonymous), .shown = token.len > 0};
    if (!out->shown)
        return;
    const char *id = token_id(token.data, token.len);
    out->rights = 0;
    out->verdict = CREDENTIAL_MALFORMED;
    if (id == NULL)
        return;
    if (!policy_ip_parse(address, strlen(address), &out->ip))
        out->ip.len = 0;
    digest_make(token.data, token.len, &out->digest);
    judge(policy, id, now_ns, out);
}

void access_keep(const struct access *access, struct access_kept *out)
{
    *out = (struct access_kept){.shown = access->credential != NULL};
    if (!out->shown)
        return;
    memcpy(out->id, access->credential->id.data, TOKEN_ID_LEN);
    out->digest = access->digest;
    out->ip = access->ip;
}

void access_look(const struct policy *policy, uint8_t anonymous, const struct access_kept *kept,
                 int64_t now_ns, struct access *out)
{
    *out = (struct access){.shown = kept->shown, .digest = kept->digest, .ip = kept->ip};
    if (kept->shown)
        judge(policy, kept->id, now_ns, out);
    else
        out->rights = rights_of(anonymous);
}

static uint8_t needs_of(uint8_t operation)
{
    static const uint8_t needs[OPERATION_COUNT] = {
        [OPERATION_CHECK] = RIGHT_CHECK,    [OPERATION_PEEK] = RIGHT_CHECK,
        [OPERATION_HIT] = RIGHT_ADJUST,     [OPERATION_REFUND] = RIGHT_ADJUST,
        [OPERATION_RESET] = RIGHT_ADJUST,   [OPERATION_LEASE] = RIGHT_CHECK,
        [OPERATION_RELEASE] = RIGHT_CHECK,  [OPERATION_RENEW] = RIGHT_CHECK,
        [OPERATION_RESERVE] = RIGHT_ADJUST, [OPERATION_COMMIT] = RIGHT_ADJUST,
        [OPERATION_CANCEL] = RIGHT_ADJUST,
    };
    const unsigned number = operation & WIRE_OPERATION_MASK;
    ASSERT(number < OPERATION_COUNT && needs[number] != 0);
    return needs[number];
}

uint8_t access_needs(const struct wire_checks_builder *builder, uint32_t from)
{
    unsigned needed = 0;
    for (uint32_t i = from; i < builder->count; i++) {
        needed |= needs_of(builder->operations[i]);
        if (wire_checks_builder_names_limit(builder, i))
            needed |= RIGHT_INLINE;
    }
    return (uint8_t)needed;
}

const char *access_missing(const struct access *access, uint8_t needed)
{
    for (unsigned bit = 1; bit < RIGHTS_ALL; bit <<= 1)
        if ((needed & bit) != 0 && (access->rights & bit) == 0)
            return right_name((enum right)bit);
    return "";
}

void access_sentence(const struct access *access, uint8_t needed, char out[ACCESS_SENTENCE_LEN])
{
    const char *missing = access_missing(access, needed);
    if (access->verdict != CREDENTIAL_GOOD)
        (void)snprintf(out, ACCESS_SENTENCE_LEN, "%s",
                       credential_sentence((enum credential_verdict)access->verdict));
    else if (access->credential != NULL)
        (void)snprintf(out, ACCESS_SENTENCE_LEN,
                       "the credential %.*s has not the role %s, which this needs",
                       (int)access->credential->name.len, access->credential->name.data, missing);
    else
        (void)snprintf(out, ACCESS_SENTENCE_LEN,
                       "this needs a token with the role %s (`tidegate token create NAME --role "
                       "%s`)",
                       missing, missing);
}

/* identity.c - canonical bytes of what is counted; see identity.h for the layout and its reasons.
 *
 * IDENTITY-4  Lengths are checked before anything is written, so the fixed buffer never overflows.
 * IDENTITY-5  Nothing is hashed twice: the vnode's hash and the slot's hash read the same bytes in
 *             place.
 */
#include "client/protocol/identity.h"

#include <string.h>

#include "base/assert.h"

static size_t put_part(uint8_t *out, const void *data, size_t len)
{
    out[0] = (uint8_t)len;
    out[1] = (uint8_t)(len >> 8);
    if (len != 0)
        memcpy(out + 2, data, len);
    return 2 + len;
}

int identity_inline(struct identity *identity, const void *key, size_t key_len)
{
    if (key_len > IDENTITY_KEY_MAX)
        return TG_ETOOBIG;
    identity->bytes[0] = 'k';
    identity->len = 1 + put_part(identity->bytes + 1, key, key_len);
    return 0;
}

int identity_rule(struct identity *identity, const char *name, size_t name_len,
                  const struct identity_value *values, size_t value_count)
{
    size_t at = 1;

    if (name_len > IDENTITY_NAME_MAX || value_count > IDENTITY_VALUES_MAX)
        return TG_ETOOBIG;
    for (size_t i = 0; i < value_count; i++) {
        if (values[i].len > IDENTITY_VALUE_MAX)
            return TG_ETOOBIG; /* IDENTITY-4 */
    }
    identity->bytes[0] = 'r';
    at += put_part(identity->bytes + at, name, name_len);
    identity->bytes[at++] = (uint8_t)value_count;
    for (size_t i = 0; i < value_count; i++)
        at += put_part(identity->bytes + at, values[i].data, values[i].len);
    identity->len = at;
    return 0;
}

uint32_t identity_vnode(const struct hash_key *route_key, const struct identity *identity,
                        uint32_t vnode_count)
{
    uint64_t hash;

    ASSERT(vnode_count >= 1 && vnode_count <= IDENTITY_VNODES_MAX);
    ASSERT((vnode_count & (vnode_count - 1)) == 0);
    ASSERT(identity->len <= IDENTITY_LEN_MAX);
    hash = hash64(route_key, identity->bytes, identity->len);
    /* The top bits: (hash * V) >> 64, which also serves V = 1. */
    return (uint32_t)(((unsigned __int128)hash * vnode_count) >> 64);
}

struct hash128 identity_slot(const struct hash_key *secret, struct identity *identity,
                             uint8_t algorithm, uint8_t ordinal)
{
    ASSERT(identity->len <= IDENTITY_LEN_MAX);
    identity->bytes[identity->len] = algorithm;
    identity->bytes[identity->len + 1] = ordinal;
    return hash128(secret, identity->bytes, identity->len + IDENTITY_SUFFIX_LEN);
}

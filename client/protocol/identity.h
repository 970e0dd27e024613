/* identity.h - the bytes that name what is counted, and the vnode and slot they fall on.
 *
 * What is counted is (inline key, or rule and attribute values; algorithm; ordinal) and never the
 * rate: a changed rate keeps its count. Its canonical bytes, lengths little-endian:
 *
 *   inline   'k' | u16 len | key
 *   rule     'r' | u16 len | name | u8 values | (u16 len | value)...
 *            the name is the rule's, or that of all plans of users
 *
 *   vnode  = top log2(V) bits of hash64(route key, bytes)
 *   slot   = hash128(secret, bytes | u8 algorithm | u8 ordinal)
 *
 * IDENTITY-1  Two different identities have different bytes: every part carries its length.
 * IDENTITY-2  The vnode ignores algorithm and ordinal, so all limits of one rule on one key live on
 *             one decider and are decided all-or-nothing in one hop.
 * IDENTITY-3  Clients know the route key alone. The slot needs the secret, which stays on the
 *             nodes.
 *
 * Pure; must not know rules, slots or sockets. Any thread, on the caller's memory.
 */
#ifndef CLIENT_PROTOCOL_IDENTITY_H
#define CLIENT_PROTOCOL_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

enum {
    IDENTITY_KEY_MAX = 1024,   /* bytes of an inline key */
    IDENTITY_VALUE_MAX = 1024, /* bytes of one attribute value */
    IDENTITY_VALUES_MAX = 16,  /* attributes counted together */
    IDENTITY_NAME_MAX = 128,   /* bytes of a rule's name */
    IDENTITY_SUFFIX_LEN = 2,   /* room for algorithm and ordinal behind the bytes */
    IDENTITY_LEN_MAX =
        1 + 2 + IDENTITY_NAME_MAX + 1 + IDENTITY_VALUES_MAX * (2 + IDENTITY_VALUE_MAX),
    IDENTITY_VNODES_MAX = 65536
};

/* Not zeroed by its writers: only `len` bytes have a meaning. 16 KiB, so keep one per thread or
 * on the stack; a short identity touches a short prefix only. */
struct identity {
    size_t len;
    uint8_t bytes[IDENTITY_LEN_MAX + IDENTITY_SUFFIX_LEN];
};

struct identity_value {
    const void *data;
    size_t len;
};

/* Writes the identity of inline key `key`. 0, or TG_ETOOBIG if key_len > IDENTITY_KEY_MAX. */
MUST_USE int identity_inline(struct identity *identity, const void *key, size_t key_len);

/* Writes the identity of a rule on attribute values, in the order of the rule's `key` list.
 * 0, or TG_ETOOBIG if the name, a value or the number of values is over its bound. */
MUST_USE int identity_rule(struct identity *identity, const char *name, size_t name_len,
                           const struct identity_value *values, size_t value_count);

/* The vnode, 0 .. vnode_count - 1. `vnode_count`: a power of two, 1 .. IDENTITY_VNODES_MAX. */
uint32_t identity_vnode(const struct hash_key *route_key, const struct identity *identity,
                        uint32_t vnode_count);

/* The slot of one limit of the identity. Uses the two spare bytes behind `bytes`; the identity
 * itself is unchanged. `algorithm` and `ordinal` are those of struct limit. */
struct hash128 identity_slot(const struct hash_key *secret, struct identity *identity,
                             uint8_t algorithm, uint8_t ordinal);

#endif

/* blocks.h - who is denied at once, until a time: attribute values, addresses and inline keys.
 *
 * An operator blocks one of
 *
 *   NAME=VALUE        requests with that attribute value
 *   CIDR, ADDRESS     requests whose attribute `ip` lies in it (also written ip=CIDR)
 *   a key             checks of that inline key
 *
 * with a reason, which is the message of the denial (status 403, outcome `blocked`), and perhaps an
 * end: from then on the block does nothing, whether or not anybody has removed it.
 *
 * Each has a name, the one text of what it blocks, under which it is kept:
 *
 *   "attr NAME=VALUE"   "cidr 10.0.0.0/8"   "cidr 2001:db8::/32"   "key KEY"
 *
 * VALUE is in the one spelling of the attribute's kind (attribute_kind.h), by the rules in force
 * when it was blocked. A set is made with the kinds of the rules in force now: a value that was
 * spelt otherwise then is blocked in its one spelling of now. One that no request can have any more
 * (a path with a query) blocks nothing, rather than more than was meant.
 *
 * BLOCKS-1  A set of blocks is made whole and never changed after; any thread may look.
 * BLOCKS-2  A look costs one probe an attribute, and one for each length of prefix in use if there
 *           is an address; where nothing is blocked, one comparison.
 * BLOCKS-3  Lengths of prefixes are there once each, longest first, that of each blocked address
 *           among them; the address has no bit behind its prefix.
 */
#ifndef NODE_POLICY_PEOPLE_BLOCKS_H
#define NODE_POLICY_PEOPLE_BLOCKS_H

#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/policy.h"

enum {
    BLOCKS_MAX = 65536,
    BLOCKS_REASON_LEN_MAX = POLICY_MESSAGE_LEN_MAX,
    BLOCKS_NAME_LEN_MAX = 8 + POLICY_ATTRIBUTE_NAME_LEN_MAX + POLICY_VALUE_LEN_MAX,
    BLOCKS_ERROR_LEN = 200
};

struct block {
    struct policy_text name; /* as above */
    struct policy_text reason;
    uint64_t until_ms; /* Unix time; 0: until it is removed */
};

struct blocks;

/* Writes the name of what the operator means: `text` as above, or an inline key if `is_key`. Its
 * length, or TG_EINVALID with a sentence. */
MUST_USE int blocks_name(const struct attribute_kinds *kinds, const char *text, size_t len,
                         bool is_key, char out[BLOCKS_NAME_LEN_MAX], char error[BLOCKS_ERROR_LEN]);

/* A set of `count` blocks, copied; names that blocks_name would not write are left out. 0,
 * TG_ENOMEM, or TG_ETOOBIG (more than BLOCKS_MAX). */
MUST_USE int blocks_new(const struct allocator *allocator, const struct attribute_kinds *kinds,
                        const struct block *blocks, size_t count, struct blocks **out);
void blocks_free(struct blocks **blocks);
/* Asserts BLOCKS-3 and that each block is found; NULL is allowed. */
void blocks_check_invariants(const struct blocks *blocks);

/* The block that denies a request with these attributes, in the one spelling of each, or a check of
 * this key, at `now_ms`, as a rule whose message is the reason; of several the one that lasts
 * longest; NULL if there is none. `blocks` may be NULL. */
const struct policy_rule *blocks_find(const struct blocks *blocks,
                                      const struct policy_attribute *attributes, size_t count,
                                      uint64_t now_ms);
const struct policy_rule *blocks_find_key(const struct blocks *blocks, const char *key, size_t len,
                                          uint64_t now_ms);

#endif

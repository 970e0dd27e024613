/* policy_request.h - a request, as rules see it: its attributes, their spelling, its parts. */
#ifndef NODE_POLICY_MODEL_POLICY_REQUEST_H
#define NODE_POLICY_MODEL_POLICY_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "node/policy/model/policy.h"

/* One attribute of a request. Bytes in place, not NUL-terminated. */
struct policy_attribute {
    const char *name;
    size_t name_len;
    const char *value;
    size_t value_len;
};

/* Where values of a request go that came in another spelling than their one (attribute_kind.h). */
struct policy_spelling {
    uint32_t used;
    uint32_t absent; /* values that are no address, though their attribute is one */
    char bytes[POLICY_SPELLING_LEN];
};

static inline void policy_spelling_begin(struct policy_spelling *spelling)
{
    spelling->used = 0;
    spelling->absent = 0;
}

/* One throttle rule that acts on the request. */
struct policy_part {
    const struct policy_rule *rule;
    struct policy_text
        values[POLICY_KEY_ATTRIBUTES_MAX]; /* rule->key_count, in rule->key's order */
    const struct own_limits *own;          /* on top of the rule's limits, or NULL (people.h) */
};

#endif

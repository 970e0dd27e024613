/* support_rules.h - large rules files of the shapes that people have, and requests that meet them;
 * for the unit test that counts what they cost, and for the benchmark that times it.
 *
 * Request i of a file of n rules meets rule i mod n (by whatever its shape matches on), so that
 * requests are spread over all rules.
 */
#ifndef TESTS_UNIT_SUPPORT_RULES_H
#define TESTS_UNIT_SUPPORT_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"

enum rules_shape {
    RULES_EXACT,      /* apis, with a list of methods */
    RULES_PREFIX,     /* apis with a trailing star */
    RULES_MIXED,      /* a third each: exact apis, prefixes, customers of some tiers */
    RULES_TIERS,      /* one api, a tier each */
    RULES_ATTRIBUTES, /* one api and method, some attribute of the payload */
    RULES_IPV4,       /* one api, a block of IPv4 each, of three sizes */
    RULES_IPV6,       /* one api, a block of IPv6 each */
    RULES_IP_LISTS,   /* one api, eight blocks of both families each */
    RULES_INNER,      /* an inner star: /v1/STAR/item-7 */
    RULES_INNER_REST, /* an inner and a trailing star: /v1/STAR/item-7/STAR */
    RULES_SUFFIX,     /* a leading star: *@shop-7.example */
    RULES_GROUP,      /* tiers that override a default in one group */
    RULES_BOUNDED,    /* how many the shapes above are */
    /* Shapes that no index of this kind tells apart: the cost grows with the rules. */
    RULES_PIECES = RULES_BOUNDED, /* the only difference is a piece of a segment: /v1/xSTAR7ySTAR */
    RULES_EVERYONE,               /* every rule matches, and is left out for its key alone */
    RULES_SHAPES
};

enum { RULES_ATTRIBUTES_MAX = 5 };

/* One request. It points into itself: it must not be moved. */
struct rules_request {
    struct policy_attribute attributes[RULES_ATTRIBUTES_MAX];
    size_t count;
    char text[2][64];
};

const char *rules_shape_name(enum rules_shape shape);
/* Compiles `count` rules of the shape. Ends the program on an error. */
struct policy *rules_policy(enum rules_shape shape, size_t count);
/* Request number `i` for such a file. */
void rules_request_init(struct rules_request *request, enum rules_shape shape, size_t count,
                        size_t i);
/* How many rules act on each of these requests. */
size_t rules_parts(enum rules_shape shape);

#endif

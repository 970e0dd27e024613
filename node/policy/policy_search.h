/* policy_search.h - one request on its way through the rules; for policy_resolve.c, which looks at
 * the few that may act, and policy_explain.c, which looks at all.
 *
 *   begin --> act, act ..  in rank order, until one ends the search --> end
 */
#ifndef NODE_POLICY_POLICY_SEARCH_H
#define NODE_POLICY_POLICY_SEARCH_H

#include "node/policy/policy_internal.h"

/* An attribute of the request that some rule mentions. */
struct policy_known {
    uint32_t attribute;
    struct policy_text value; /* ip in canonical text */
};

struct policy_search {
    const struct policy *policy;
    struct policy_result *out;
    size_t count;
    struct policy_ip ip; /* len 0: the request has no address */
    bool overflow;
    const struct policy_plan *parts[POLICY_PARTS_MAX]; /* out->part_count of them */
    struct policy_known known[POLICY_ATTRIBUTES_MAX];
};

/* The request's value of an attribute, or NULL. */
static inline const struct policy_text *policy_search_value(const struct policy_search *search,
                                                            uint32_t attribute)
{
    for (size_t i = 0; i < search->count; i++) {
        if (search->known[i].attribute == attribute)
            return &search->known[i].value;
    }
    return NULL;
}

/* Takes the request's attributes. As policy_resolve returns. */
MUST_USE int policy_search_begin(struct policy_search *search, const struct policy *policy,
                                 const struct policy_attribute *attributes, size_t count,
                                 struct policy_result *out);
/* The part found earlier that closes the rule's group to it, or NULL. */
const struct policy_plan *policy_search_closed(const struct policy_search *search,
                                               const struct policy_plan *plan);
/* Sets *place to the first key attribute that the request lacks. False if it has all. */
bool policy_search_lacks(const struct policy_search *search, const struct policy_plan *plan,
                         size_t *place);
/* Lets an enabled rule act if it matches. True when the search ends. */
bool policy_search_act(struct policy_search *search, const struct policy_plan *plan);
/* Turns what was found into the result's action. */
void policy_search_end(struct policy_search *search);

#endif

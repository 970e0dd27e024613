/* policy_search.h - one request on its way through the rules, in steps: for who has several
 * requests at a time, for policy_resolve.c, which looks at the few rules that may act, and for
 * policy_explain.c, which looks at all.
 *
 *   ask ----------> look ----------> run       what policy_resolve does
 *    hashes          buckets          plans    read here
 *           buckets           plans            asked of memory, for the next step
 *
 *   begin ---> act, act ..  in rank order, until one ends the search ---> end
 *
 * With thousands of rules their memory is in no near cache, and nobody knows which part of it is
 * needed before the part before it has come. Who takes one step for several requests and then the
 * next one waits for all of them at once.
 *
 * SEARCH-1  Steps of other requests in between change nothing: a search is written by its own steps
 *           alone.
 *
 * The policy, the attributes and `out` live and stay as they are from the first step to the last.
 */
#ifndef NODE_POLICY_INDEX_POLICY_SEARCH_H
#define NODE_POLICY_INDEX_POLICY_SEARCH_H

#include <assert.h>

#include "node/policy/index/policy_filing.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_pattern.h"

/* What is asked ahead; a request that asks for more than that does so in its last step. */
enum { POLICY_ASKED_MAX = 128 };
static_assert((int)POLICY_ASKED_MAX >= POLICY_HASHES_MAX + POLICY_LENGTHS_MAX,
              "what one attribute asks for has room");

struct policy_index;
struct policy_plan;

/* An attribute of the request that some rule mentions. */
struct policy_known {
    uint32_t attribute;
    struct policy_text value;
    struct policy_ip ip; /* that it is, of an attribute that is an address; else len 0 */
};

struct policy_search {
    const struct policy *policy;
    const struct policy_index *index; /* of the policy */
    struct policy_result *out;
    struct policy_pattern_space *space; /* of whoever lets rules act, meanwhile */
    size_t count;
    bool overflow;
    bool ahead;                                        /* `asked` is all that it asks for */
    uint32_t asked_count;                              /* of `asked` */
    uint32_t asked[POLICY_ASKED_MAX];                  /* hashes; then what is filed under them */
    const struct policy_plan *parts[POLICY_PARTS_MAX]; /* out->part_count of them */
    struct policy_known known[POLICY_ATTRIBUTES_MAX];
};

/* The three steps of policy_resolve. The first takes the request's attributes, and returns as that
 * does; on an error there are no others. */
MUST_USE int policy_search_ask(struct policy_search *search, const struct policy *policy,
                               const struct policy_attribute *attributes, size_t count,
                               struct policy_result *out);
void policy_search_look(struct policy_search *search);
void policy_search_run(struct policy_search *search);

/* What the request has of an attribute, or NULL. */
static inline const struct policy_known *policy_search_known(const struct policy_search *search,
                                                             uint32_t attribute)
{
    for (size_t i = 0; i < search->count; i++) {
        if (search->known[i].attribute == attribute)
            return &search->known[i];
    }
    return NULL;
}

/* Takes the request's attributes, as policy_search_ask does. As policy_resolve returns. Before
 * rules act, `space` has to be set. */
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

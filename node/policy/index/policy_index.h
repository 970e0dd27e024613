/* policy_index.h - which rules a request may meet, without looking at the others.
 *
 * Every enabled rule is filed under one of its matched attributes, the one whose values are the
 * rarest in the file: under (attribute, value) when the value is exact, under a literal piece of it
 * when it has a wildcard, under its first bits when it is a block of addresses (policy_filing.h). A
 * rule that matches nothing in particular is always looked at.
 *
 *   request api=/user/v1/me, tier=free
 *     (api, "/user/v1/me")  exact   -> ranks 3, 17
 *     (api, "/user/")       prefix  -> ranks 4, 9       only lengths that occur are asked for
 *     (tier, "free")        exact   -> ranks 12
 *     always                        -> ranks 2
 *   merged by rank: 2 3 4 9 12 17; each is then verified in full by policy_resolve.c
 *
 * INDEX-1  A rule that matches a request is among its candidates: the index only ever filters.
 * INDEX-2  Each list holds its rules in rank order, each once.
 * INDEX-3  A request follows at most POLICY_CURSORS_MAX lists, whatever the rules are.
 * INDEX-4  An attribute is found by its name, under its number, with its kind; each table has one
 *          free place at least, where a look ends.
 */
#ifndef NODE_POLICY_INDEX_POLICY_INDEX_H
#define NODE_POLICY_INDEX_POLICY_INDEX_H

#include <assert.h>

#include "node/policy/index/policy_filing.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/chunks.h"
#include "node/policy/model/policy.h"

enum { POLICY_CURSORS_MAX = 1 + POLICY_ATTRIBUTES_MAX * POLICY_HASHES_MAX + POLICY_LENGTHS_MAX };
static_assert(POLICY_CURSORS_MAX <= 2400, "the cursors of a request fit on the stack");

#define POLICY_INDEX_NONE UINT32_MAX

/* Where the plans of some rules are, in rank order and therefore ascending. */
struct policy_places {
    const uint32_t *places;
    uint32_t count;
};

/* An attribute that some rule matches or counts. */
struct policy_index_attribute {
    struct policy_text name;
    uint8_t kind; /* enum attribute_kind */
    struct policy_filed filed;
};

/* The rules filed under one hash: 8 bytes, because with thousands of rules a request's cost is
 * cache misses. `at` is the place of the only rule's plan, so that nothing lies between the two; or
 * POLICY_BUCKET_LIST and where in `places` the number of places stands, and behind it they; or
 * POLICY_INDEX_NONE: the bucket is free. */
struct policy_bucket {
    uint32_t hash;
    uint32_t at;
};
#define POLICY_BUCKET_LIST 0x80000000U

struct policy_index {
    const char *plans;       /* all plans by rank, none over more cache lines than it needs, each
                              * with its rule behind it */
    const uint32_t *plan_at; /* by rank: its place among them, in units of POLICY_PLAN_ALIGN */
    struct policy_index_attribute *attributes;
    uint32_t attribute_count;
    uint32_t *name_table; /* open addressing: attribute index, or NONE */
    uint32_t name_mask;
    struct policy_bucket *buckets; /* open addressing, at most half full */
    uint32_t bucket_mask;
    uint32_t *places; /* number and places of all buckets with more than one */
    struct policy_places always;
};

/* Builds the index of rules in rank order; all memory from `chunks`. They move behind their plans,
 * with their names, limits and windows, and `rules` then says where they are. 0 or TG_ENOMEM. */
MUST_USE int policy_index_init(struct policy_index *index, struct chunks *chunks,
                               const struct attribute_kinds *kinds, struct policy_rule **rules,
                               size_t rule_count);
/* The plan at a place. */
static inline const struct policy_plan *policy_index_plan(const struct policy_index *index,
                                                          uint32_t place)
{
    return (const struct policy_plan *)(const void *)(index->plans +
                                                      (size_t)POLICY_PLAN_ALIGN * place);
}

/* The number of the attribute, or NONE if no rule mentions it. */
uint32_t policy_index_attribute(const struct policy_index *index, const char *name, size_t len);
/* Where to look for one attribute's value (`ip`: the address that it is, or len 0): appends to
 * `hashes`, which has room for POLICY_HASHES_MAX + POLICY_LENGTHS_MAX more. Returns how many were
 * appended. */
size_t policy_index_hashes(const struct policy_index *index, uint32_t attribute,
                           const struct policy_text *value, const struct policy_ip *ip,
                           uint32_t *hashes);
/* Asks memory for where `count` hashes are looked up. */
void policy_index_prefetch(const struct policy_index *index, const uint32_t *hashes, size_t count);
/* Replaces them by what is filed under them: `at` of their buckets, empty ones left out. Returns
 * how many are left. */
size_t policy_index_find(const struct policy_index *index, uint32_t *hashes, size_t count);
/* The places of what was found. They live as long as both. */
static inline struct policy_places policy_index_places(const struct policy_index *index,
                                                       const uint32_t *found)
{
    if ((*found & POLICY_BUCKET_LIST) == 0)
        return (struct policy_places){found, 1};
    const uint32_t *list = index->places + (*found & ~POLICY_BUCKET_LIST);
    return (struct policy_places){list + 1, list[0]};
}

#endif

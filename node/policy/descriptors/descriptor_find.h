/* descriptor_find.h - from a domain and a descriptor to the limit that is asked: the seam between
 * the service that Envoy calls and what decides.
 *
 *   {domain, [(key, value)...], limit?} --> found: which rule, which limit, under which path
 *        found.match LIMITED  --> one item: rule->counted and `path` name what is counted,
 *                                 `limit` is what it is asked against
 *        any other            --> answered at once (descriptor_status.h), nothing is counted
 *
 * Matching: entries and levels are walked together; at each level the exact KEY_VALUE, then the
 * wildcards in the order of the file, then KEY alone. The descriptor has a limit if the walk ends
 * with its last entry at a node that has one: depths are equal. A limit that the request brings
 * along needs its domain only.
 *
 * DESCRIPTORFIND-1  The result is that of walking the file and testing every element in that order.
 * DESCRIPTORFIND-2  Its cost does not grow with the number of descriptors: a level takes two looks
 *                   into a table, and one for each shape of wildcard that it has (how many bytes,
 *                   32 at most, stand before the first and behind the last `*`). Only wildcards
 *                   that begin and end as the entry does are compared with it, in time linear in
 *                   both.
 * DESCRIPTORFIND-3  Two different paths in a domain are counted apart: a path is written without
 *                   doubt (DESCRIPTORS-3), or, above DESCRIPTOR_PATH_LEN_MAX bytes, it is a keyed
 *                   hash of 128 bits behind a `#`.
 *
 * Pure, allocates nothing; any number of threads with one policy.
 */
#ifndef NODE_POLICY_DESCRIPTORS_DESCRIPTOR_FIND_H
#define NODE_POLICY_DESCRIPTORS_DESCRIPTOR_FIND_H

#include "base/hash.h"
#include "base/limit.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/model/policy.h"

enum {
    DESCRIPTOR_ERROR_LEN = 160,
    DESCRIPTOR_ENTRIES_MAX = 64 /* of a request; above DEPTH_MAX nothing of the file is met */
};

struct descriptor_entry {
    struct policy_text key;
    struct policy_text value;
};

/* A limit that the request brings along. */
struct descriptor_given {
    uint64_t window_s; /* 1 to 10 years: the unit times its multiplier */
    uint32_t requests_per_unit;
};

struct descriptor_request {
    struct policy_text domain;
    const struct descriptor_entry *entries;
    uint32_t entry_count;
    const struct descriptor_given *given; /* or NULL */
};

enum descriptor_match {
    DESCRIPTOR_NO_DOMAIN, /* nothing is known of it: allowed, and counted as such */
    DESCRIPTOR_NO_LIMIT,  /* nothing of the domain is for it: allowed */
    DESCRIPTOR_UNLIMITED, /* allowed without counting */
    DESCRIPTOR_NOTHING,   /* requests_per_unit is 0: all but a look is over */
    DESCRIPTOR_REPLACED,  /* another one of the request takes its place: as without a limit */
    DESCRIPTOR_LIMITED
};

/* Points into the policy, the request and itself: it must not be copied or outlive them. */
struct descriptor_found {
    enum descriptor_match match;
    const struct policy_rule *rule; /* whose it is, from NOTHING on and of UNLIMITED; else NULL */
    const struct descriptor *descriptor; /* of the file; NULL: the limit came with the request */
    struct limit limit;                  /* LIMITED */
    struct policy_text path;             /* LIMITED: the one value that it is counted by */
    uint64_t window_s;                   /* LIMITED, NOTHING */
    uint32_t requests_per_unit;          /* as it is told, even where `limit` is less */
    uint32_t depth;                      /* nodes that were met: nodes[0 .. depth-1] */
    uint32_t nodes[DESCRIPTOR_DEPTH_MAX];
    uint32_t looks;    /* work done: looks into the table, .. */
    uint32_t compared; /* .. and wildcards compared */
    char text[DESCRIPTOR_PATH_LEN_MAX + 1];
};

/* Finds what is asked. `secret` shortens long paths; every node has the same. 0, or TG_EINVALID
 * with a sentence in `error` (DESCRIPTOR_ERROR_LEN bytes): an empty domain, too many entries, too
 * long a key or value, a window of a given limit that is none. */
MUST_USE int policy_descriptor_find(const struct policy *policy,
                                    const struct descriptor_request *request,
                                    const struct hash_key *secret, struct descriptor_found *out,
                                    char *error);
/* Of the limits that the descriptors of one request have met, those that another one of them
 * replaces become REPLACED. In the time of all names that are replaced times `count`. */
void policy_descriptors_replace(struct descriptor_found *found, size_t count);
/* The name by which the reference counts what was found, DOMAIN.KEY_VALUE.KEY, as its options say,
 * and a NUL; cut to `capacity` bytes. Of what has no rule "". Returns its length. */
size_t policy_descriptor_stat(const struct policy *policy, const struct descriptor_request *request,
                              const struct descriptor_found *found, char *out, size_t capacity);

#endif

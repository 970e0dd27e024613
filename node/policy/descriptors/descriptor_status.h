/* descriptor_status.h - what is answered of a descriptor and of a request, from what was found and
 * what was decided: the arithmetic of the reference, without its messages.
 *
 * Pure: the time is given in.
 */
#ifndef NODE_POLICY_DESCRIPTORS_DESCRIPTOR_STATUS_H
#define NODE_POLICY_DESCRIPTORS_DESCRIPTOR_STATUS_H

#include "node/policy/descriptors/descriptor_find.h"

/* Units as statuses have them; numbers of the wire. */
enum descriptor_unit {
    DESCRIPTOR_UNIT_UNKNOWN = 0,
    DESCRIPTOR_UNIT_SECOND = 1,
    DESCRIPTOR_UNIT_MINUTE = 2,
    DESCRIPTOR_UNIT_HOUR = 3,
    DESCRIPTOR_UNIT_DAY = 4,
    DESCRIPTOR_UNIT_MONTH = 5,
    DESCRIPTOR_UNIT_YEAR = 6,
    DESCRIPTOR_UNIT_WEEK = 7
};

/* What a descriptor costs. */
enum descriptor_use { DESCRIPTOR_CHARGE, DESCRIPTOR_LOOK, DESCRIPTOR_REFUND };
struct descriptor_hits {
    enum descriptor_use use;
    uint64_t cost;
};
/* Its own addend counts if it is `set`, and 0 is a look; else the request's, 0 being 1. */
struct descriptor_hits descriptor_hits_of(uint32_t request_addend, bool set, uint64_t own_addend,
                                          bool negative);

/* What was decided of what was found. */
struct descriptor_decision {
    bool allowed;
    uint64_t used; /* and what remains, behind the request */
    uint64_t remaining;
};

struct descriptor_status {
    bool over;
    bool limited; /* what follows up to reset_s is told; else only limit_remaining */
    struct policy_text name;
    uint32_t requests_per_unit;
    enum descriptor_unit unit;
    uint32_t unit_multiplier; /* 1 for the units of the file */
    uint32_t reset_s;         /* until the window ends: 1 .. its length */
    uint32_t limit_remaining;
    bool quota;         /* whether it counts as one of these for the request */
    bool shadow_denied; /* it would have been over */
};

/* The status at `now_s`, Unix time of the cluster. `decision`: of LIMITED only; else it may be
 * NULL. */
struct descriptor_status descriptor_status_of(const struct descriptor_found *found,
                                              const struct descriptor_hits *hits,
                                              const struct descriptor_decision *decision,
                                              uint64_t now_s);
/* Whether the request is over its limits: if a status that is no quota's is, or if there are quotas
 * and all of them are. `all_quota`: every status is one, whatever the file says. */
bool descriptor_statuses_over(const struct descriptor_status *statuses, size_t count,
                              bool all_quota);

/* How many of the hits were which: above the limit, above floor(limit x ratio) and not above it;
 * and `within`, all hits of a request that was not over. */
struct descriptor_counts {
    uint64_t over;
    uint64_t near;
    uint64_t within;
};
enum { DESCRIPTOR_NEAR_PPM = 800000 };
/* `before`: what the window had; `near_ppm`: the ratio in millionths, at most 10^6. */
struct descriptor_counts descriptor_counts_of(uint64_t limit, uint64_t before, uint64_t hits,
                                              uint32_t near_ppm);

#endif

/* resolve.h - which rules the items of a message meet. */
#ifndef NODE_CLUSTER_REQUEST_RESOLVE_H
#define NODE_CLUSTER_REQUEST_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/request/requests.h"

struct shard;

/* Items resolved at a time: enough to hide most of the wait for memory, few enough to stay in the
 * nearest cache meanwhile. */
enum { RESOLVED_MAX = 8 };
/* What finding the rules of a message may cost, in steps of comparing patterns (RESOLVE-3).
 */
#define RESOLVE_WORK_MAX UINT64_C(270000000)

/* What an item is to be decided by. */
struct resolved {
    uint32_t count;    /* 0: its row is fixed */
    bool leases;       /* some limit in force has leases */
    bool trials;       /* some rule is on trial, ... */
    bool trial_leases; /* ... and some limit of those has leases */
    const struct policy_rule *rules[POLICY_PARTS_MAX];
    struct forward parts[POLICY_PARTS_MAX];
};
/* Resolves items first .. first + count - 1 of the message at hand, whose rows are fresh; `count`
 * is at most RESOLVED_MAX. How many of them: at least one, and not all where the turn is over. */
uint32_t resolve_items(struct shard *shard, uint32_t first, uint32_t count, struct resolved *out);
/* Whether the message at hand needs rules, for which no work is left in this turn. */
bool resolve_waits(const struct shard *shard);
/* Whether tokens of all that the item meets can be held elsewhere: limits of one rule, for of
 * several one might grant what another denies. Its count is not 0. */
bool resolve_gives_holds(const struct resolved *resolved);
/* The same of part `part` alone. */
bool resolve_part_holds(const struct resolved *resolved, uint32_t part);

#endif

/* check_keys.c - what keys admitted, against their limits.
 *
 * SIMKEYS-1  Without faults what is admitted on a key is its limit, exactly; fewer only by what may
 *            have been charged without an answer.
 * SIMKEYS-2  With faults, answers that were not marked as degraded admit no more than the limit and
 *            what newer leaders did not know of; all answers no more than one limit on each side of
 *            a split.
 * SIMKEYS-3  What was admitted was charged: the count that a leader tells is no less. Nor is it
 *            more than was asked for, but for forwards that a node sent again to another leader.
 * SIMKEYS-4  When nobody who holds a key can be reached, its rule decides: nothing is admitted
 *            (closed), a share of the limit on each side of a split (local), or anything (open);
 *            the latter two are marked as degraded.
 * SIMKEYS-5  A request that meets several rules is admitted by all of them or charged by none: when
 *            all is given back, each key is charged what was admitted on it, to the token, unless
 *            the node died that was to give it back.
 */
#include <stdio.h>

#include "tests/sim/sim.h"

static void too_many(struct sim *sim, const struct key *key, uint64_t admitted, uint64_t bound,
                     const char *what)
{
    sim_fail(sim, "%s: key %s (%s, vnode %u) admitted %llu%s of %llu attempts, %llu allowed",
             sim_phase(sim), key->text, algorithm_name(key->limit.algorithm), key->vnode,
             (unsigned long long)admitted, what, (unsigned long long)key->attempts,
             (unsigned long long)bound);
}

void check_exact(struct sim *sim, struct key_set set)
{
    const uint64_t resent = nodes_resent(sim) - sim->plan.resent;
    for (uint32_t i = set.first; i < set.first + set.count; i++) {
        const struct key *key = &sim->keys[i];
        const uint64_t asked = key->attempts < key->limit.count ? key->attempts : key->limit.count;
        const uint64_t unsure =
            key->uncertain + (sim->plan.changed ? key->repeated + resent : 0) + sim->stepped;
        if (key->admitted > key->limit.count)
            too_many(sim, key, key->admitted, key->limit.count, "");
        if (key->kind == KEY_EXACT && key->admitted + unsure < asked)
            sim_fail(sim,
                     "%s: key %s (%s, vnode %u) admitted %llu of %llu, limit %llu, unsure %llu",
                     sim_phase(sim), key->text, algorithm_name(key->limit.algorithm), key->vnode,
                     (unsigned long long)key->admitted, (unsigned long long)key->attempts,
                     (unsigned long long)key->limit.count, (unsigned long long)unsure);
    }
}

static uint64_t above(uint64_t admitted, const struct key *key)
{
    return admitted > key->limit.count ? admitted - key->limit.count : 0;
}

void check_bound(struct sim *sim, struct key_set set, uint64_t bound)
{
    uint64_t excess = 0;
    for (uint32_t i = set.first; i < set.first + set.count; i++)
        excess += above(sim->keys[i].admitted, &sim->keys[i]);
    sim->coverage.excess += excess;
    if (excess > bound)
        sim_fail(sim, "%s: %llu too many admitted, %llu were unconfirmed", sim_phase(sim),
                 (unsigned long long)excess, (unsigned long long)bound);
}

void check_splits(struct sim *sim, struct key_set set, uint64_t splits)
{
    uint64_t excess[SIM_VNODES_MAX] = {0};
    for (uint32_t i = set.first; i < set.first + set.count; i++) {
        const struct key *key = &sim->keys[i];
        excess[key->vnode] += above(key->sure, key);
        sim->coverage.excess += above(key->admitted, key);
        if (key->admitted > key->limit.count * (1 + splits))
            too_many(sim, key, key->admitted, key->limit.count * (1 + splits), "");
        if (excess[key->vnode] > sim->fronts[key->vnode].lost)
            too_many(sim, key, key->sure, key->limit.count + sim->fronts[key->vnode].lost,
                     " for sure");
    }
}

/* Whether a replica of the vnode is among the nodes in `side`. */
static bool replica_in(const struct sim *sim, uint32_t vnode, uint32_t side)
{
    uint64_t ids[VIEW_REPLICAS_MAX];
    const uint32_t count = view_replica_set(sim->nodes[0].view, vnode, ids);
    for (uint32_t i = 0; i < count; i++) {
        const int at = node_by_id(sim, ids[i]);
        if (at >= 0 && (side & 1u << at) != 0)
            return true;
    }
    return false;
}

void check_lent(struct sim *sim, struct key_set set, uint32_t side)
{
    for (uint32_t i = set.first; i < set.first + set.count; i++) {
        const struct key *key = &sim->keys[i];
        const uint32_t holding =
            replica_in(sim, key->vnode, side) + replica_in(sim, key->vnode, ~side);
        const uint32_t lacking = side == 0 ? 0 : 2 - holding;
        const uint64_t limits = key->limit.count * holding;
        const uint32_t standing = key->lent == LENT_LOCAL   ? lacking
                                  : key->lent == LENT_NAMED ? sim->node_count
                                                            : 0;
        const uint64_t shares = (uint64_t)standing * KEYS_LENT_SHARE;
        if (key->sure > limits)
            too_many(sim, key, key->sure, limits, " for sure"); /* SIMKEYS-4 */
        if (key->lent != LENT_OPEN && key->admitted > limits + shares)
            too_many(sim, key, key->admitted, limits + shares, ""); /* SIMKEYS-4 */
    }
}

void check_charged(struct sim *sim, struct key_set set, uint64_t lost)
{
    const uint64_t resent = nodes_resent(sim) - sim->plan.resent;
    uint64_t missing = 0;
    uint64_t twice = 0;
    for (uint32_t i = set.first; i < set.first + keys_exact(set); i++) {
        const struct key *key = &sim->keys[i];
        const uint64_t admitted =
            key->admitted < key->limit.count ? key->admitted : key->limit.count;
        const uint64_t asked = key->attempts + key->repeated;
        sim->coverage.audited++;
        missing += key->used + sim->stepped < admitted ? admitted - key->used : 0;
        if (missing > lost)
            sim_fail(sim, "%s: key %s (%s, vnode %u) admitted %llu, but only %llu are charged",
                     sim_phase(sim), key->text, algorithm_name(key->limit.algorithm), key->vnode,
                     (unsigned long long)key->admitted, (unsigned long long)key->used);
        twice += key->used > asked ? key->used - asked : 0;
        if (twice > resent)
            sim_fail(sim, "%s: key %s (%s, vnode %u) is charged %llu, asked for %llu times",
                     sim_phase(sim), key->text, algorithm_name(key->limit.algorithm), key->vnode,
                     (unsigned long long)key->used, (unsigned long long)asked);
    }
}

void check_several(struct sim *sim, struct key_set set, uint64_t lost, uint64_t kept)
{
    uint64_t excess = 0;
    uint64_t missing = 0;
    for (uint32_t i = set.first; i < set.first + set.count; i++) {
        const struct key *key = &sim->keys[i];
        const uint64_t unsure =
            key->uncertain + (sim->plan.changed ? key->repeated + key->failed : 0) + kept;
        sim->coverage.audited++;
        excess += above(key->admitted, key);
        missing += key->used < key->admitted ? key->admitted - key->used : 0;
        if (excess > lost)
            too_many(sim, key, key->admitted, key->limit.count + lost, " of several");
        if (missing > lost)
            sim_fail(sim, "%s: key %s (%s, vnode %u) admitted %llu, but only %llu are charged",
                     sim_phase(sim), key->text, algorithm_name(key->limit.algorithm), key->vnode,
                     (unsigned long long)key->admitted,
                     (unsigned long long)key->used); /* SIMKEYS-5 */
        if (key->at_least > key->admitted + unsure)
            sim_fail(sim, "%s: key %s (%s, vnode %u) is charged %llu, admitted %llu, unsure %llu",
                     sim_phase(sim), key->text, algorithm_name(key->limit.algorithm), key->vnode,
                     (unsigned long long)key->used, (unsigned long long)key->admitted,
                     (unsigned long long)unsure); /* SIMKEYS-5 */
    }
    sim->coverage.excess += excess;
}

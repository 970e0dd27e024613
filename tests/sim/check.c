/* check.c - what must hold: after each event, every few hundred events, and at the ends of phases.
 *
 * K1  Only the writer of a term decides in it, and so at most one node decides in a term.
 * K2  The newest term that a replica knows of a vnode never goes back while it is one.
 * K3  Without faults at most one node decides a vnode at any moment.
 * K4  Without faults what is admitted on a key is its limit, exactly.
 * K5  After faults every vnode has one decider, its replicas hold what it holds, and all nodes
 *     agree on one stable configuration of which all are members.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/inspect.h"
#include "tests/sim/sim.h"

enum { WHY_LEN = SIM_TEXT_LEN * 4, STATE_MAX = 4096 };

static void note_decider(struct sim *sim, struct node *node, uint32_t vnode, bool decides)
{
    const uint8_t bit = (uint8_t)(1u << node->index);
    const bool before = (sim->deciders[vnode] & bit) != 0;
    if (decides == before)
        return;
    sim->deciders[vnode] ^= bit;
    if (decides && sim->plan.strict && (sim->deciders[vnode] & (uint8_t)~bit) != 0)
        sim_fail(sim, "vnode %u is decided by more than one node without a fault: %02x", vnode,
                 sim->deciders[vnode]); /* K3 */
}

static void count_roles(struct sim *sim, struct node *node, const struct shard *shard,
                        uint32_t vnode, enum shard_role role)
{
    if (role != node->roles[vnode]) {
        sim->coverage->passes += role == SHARD_PASSING;
        sim->coverage->recoveries += role == SHARD_RECOVERING;
        node->pulling[vnode] = false;
    }
    if (role != SHARD_RECOVERING || node->pulling[vnode])
        return;
    struct inspect_vnode at;
    inspect_vnode(shard, vnode, &at);
    node->pulling[vnode] = at.pulling;
    sim->coverage->pulls += at.pulling;
}

void check_event(struct sim *sim, struct node *node)
{
    for (uint8_t s = 0; s < node->shard_count; s++) {
        if (node->shards[s] == NULL)
            continue;
        for (uint32_t vnode = s; vnode < sim->vnodes; vnode += node->shard_count) {
            struct term term;
            const enum shard_role role = shard_vnode(node->shards[s], vnode, &term);
            if ((role == SHARD_DECIDING || role == SHARD_PASSING) && term.writer != node->id)
                sim_fail(sim, "node %u decides vnode %u in the term of another", node->index,
                         vnode); /* K1 */
            if (role != SHARD_ABSENT && term_compare(&term, &node->terms[vnode]) < 0)
                sim_fail(sim, "node %u went back to an older term of vnode %u", node->index,
                         vnode); /* K2 */
            if (term_compare(&term, &node->terms[vnode]) != 0 || role != node->roles[vnode])
                sim_tell(sim, 2, "n%u vnode %u role %d term %llu.%llu.n%d", node->index, vnode,
                         (int)role, (unsigned long long)term.epoch, (unsigned long long)term.number,
                         node_by_id(sim, term.writer));
            count_roles(sim, node, node->shards[s], vnode, role);
            node->roles[vnode] = (uint8_t)role;
            node->terms[vnode] = term;
            note_decider(sim, node, vnode, role == SHARD_DECIDING);
        }
    }
}

void check_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *node = &sim->nodes[i];
        if (!node->up)
            continue;
        control_check_invariants(node->control);
        for (uint8_t s = 0; s < node->shard_count; s++)
            if (node->shards[s] != NULL)
                shard_check_invariants(node->shards[s]);
    }
}

/* ---- rest ------------------------------------------------------------------------------------ */

static bool members_agree(struct sim *sim, char *why)
{
    uint64_t epoch = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *node = &sim->nodes[i];
        if (!node->up || node->view == NULL) {
            snprintf(why, WHY_LEN, "node %u has no view", i);
            return false;
        }
        if (epoch == 0)
            epoch = node->view->epoch;
        if (node->view->epoch != epoch || !node->view->stable ||
            node->view->to.members_count != sim->node_count) {
            snprintf(why, WHY_LEN, "node %u is at epoch %llu with %u in the ring%s", i,
                     (unsigned long long)node->view->epoch, node->view->to.members_count,
                     node->view->stable ? "" : ", in transition");
            return false;
        }
        for (uint32_t m = 0; m < node->view->member_count; m++) {
            const struct view_member *member = &node->view->members[m];
            if (member->state != VIEW_ALIVE) {
                snprintf(why, WHY_LEN, "node %u sees %s as %s", i, member->name,
                         view_state_name(member->state));
                return false;
            }
        }
    }
    return true;
}

static const struct shard *shard_for(const struct node *node, uint32_t vnode)
{
    return node->shards[vnode % node->shard_count];
}

/* Whether the owner alone decides; sets what it holds. */
static bool owner_decides(struct sim *sim, uint32_t vnode, struct inspect_vnode *decider, char *why)
{
    uint32_t deciders = 0;
    uint64_t ids[VIEW_REPLICAS_MAX];
    (void)view_replica_set(sim->nodes[0].view, vnode, ids);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct inspect_vnode at;
        inspect_vnode(shard_for(&sim->nodes[i], vnode), vnode, &at);
        if (at.role != SHARD_DECIDING)
            continue;
        deciders++;
        *decider = at;
        if (sim->nodes[i].id != ids[0]) {
            snprintf(why, WHY_LEN, "vnode %u is decided by n%u, not by its owner", vnode, i);
            return false;
        }
    }
    if (deciders != 1)
        snprintf(why, WHY_LEN, "vnode %u has %u deciders", vnode, deciders);
    return deciders == 1;
}

static bool vnode_rests(struct sim *sim, uint32_t vnode, char *why)
{
    struct inspect_vnode decider = {0};
    uint32_t holders = 0;
    uint64_t ids[VIEW_REPLICAS_MAX];
    const uint32_t count = view_replica_set(sim->nodes[0].view, vnode, ids);
    if (!owner_decides(sim, vnode, &decider, why))
        return false;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct inspect_vnode at;
        inspect_vnode(shard_for(&sim->nodes[i], vnode), vnode, &at);
        if (at.role == SHARD_ABSENT)
            continue;
        holders++;
        if (term_compare(&at.state, &decider.term) != 0 || at.seq != decider.seq ||
            (at.role != SHARD_DECIDING && at.role != SHARD_REPLICA)) {
            snprintf(why, WHY_LEN, "vnode %u: n%u is in role %d at seq %llu, the decider at %llu%s",
                     vnode, i, (int)at.role, (unsigned long long)at.seq,
                     (unsigned long long)decider.seq,
                     term_compare(&at.state, &decider.term) != 0 ? ", other term" : "");
            return false;
        }
    }
    if (holders == count && decider.synced)
        return true;
    snprintf(why, WHY_LEN, "vnode %u: %u of %u replicas%s", vnode, holders, count,
             decider.synced ? "" : ", not synced");
    return false;
}

bool check_owned(struct sim *sim, char *why)
{
    struct inspect_vnode decider;
    if (!members_agree(sim, why))
        return false;
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        if (!owner_decides(sim, vnode, &decider, why))
            return false;
    return true;
}

bool check_converged(struct sim *sim, char *why)
{
    if (!members_agree(sim, why))
        return false;
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        if (!vnode_rests(sim, vnode, why))
            return false;
    return true;
}

/* ---- contents -------------------------------------------------------------------------------- */

static bool key_equal(struct sim *sim, const struct key *key, char *why)
{
    uint8_t expected[STATE_MAX];
    uint8_t held[STATE_MAX];
    int expected_len = -1;
    uint32_t decider = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct shard *shard = shard_for(&sim->nodes[i], key->vnode);
        struct inspect_vnode at;
        inspect_vnode(shard, key->vnode, &at);
        if (at.role != SHARD_DECIDING)
            continue;
        decider = i;
        expected_len = inspect_slot(shard, key->id, expected, sizeof expected);
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct shard *shard = shard_for(&sim->nodes[i], key->vnode);
        struct inspect_vnode at;
        inspect_vnode(shard, key->vnode, &at);
        if (at.role != SHARD_REPLICA || expected_len <= 0)
            continue;
        const int len = inspect_slot(shard, key->id, held, sizeof held);
        if (len > 0 && (len != expected_len || memcmp(held, expected, (size_t)len) != 0)) {
            snprintf(why, WHY_LEN, "key %s: n%u holds another state than its decider n%u",
                     key->text, i, decider);
            return false;
        }
        if (len == 0 && !inspect_spilled(shard, key->vnode, key->id)) {
            snprintf(why, WHY_LEN, "key %s: n%u lacks what its decider n%u holds", key->text, i,
                     decider);
            return false;
        }
    }
    return true;
}

bool check_equal(struct sim *sim, char *why)
{
    for (uint32_t i = 0; i < sim->key_count; i++)
        if (!key_equal(sim, &sim->keys[i], why))
            return false;
    return true;
}

void check_exact(struct sim *sim, struct key_set set, const char *when, bool changed)
{
    for (uint32_t i = set.first; i < set.first + set.count; i++) {
        const struct key *key = &sim->keys[i];
        const uint64_t asked = key->attempts < key->limit.count ? key->attempts : key->limit.count;
        const uint64_t unsure = key->uncertain + (changed ? key->repeated : 0);
        const bool too_few = key->kind == KEY_EXACT && key->admitted + unsure < asked;
        if (key->admitted > key->limit.count || too_few)
            sim_tell(sim, 1, "key %s of vnode %u admitted %llu of %llu", key->text, key->vnode,
                     (unsigned long long)key->admitted, (unsigned long long)key->attempts);
        if (key->admitted > key->limit.count || too_few)
            sim_fail(sim, "%s: key %s (%s) admitted %llu of %llu, limit %llu, uncertain %llu", when,
                     key->text, algorithm_name(key->limit.algorithm),
                     (unsigned long long)key->admitted, (unsigned long long)key->attempts,
                     (unsigned long long)key->limit.count, (unsigned long long)unsure);
    }
}

uint64_t check_excess(const struct sim *sim, struct key_set set)
{
    uint64_t excess = 0;
    for (uint32_t i = set.first; i < set.first + set.count; i++)
        if (sim->keys[i].admitted > sim->keys[i].limit.count)
            excess += sim->keys[i].admitted - sim->keys[i].limit.count;
    return excess;
}

/* check_rest.c - whether the cluster has come to rest, and what must hold then.
 *
 * SIMREST-1  After faults every vnode has one leader, its replicas hold what it holds, and all
 *            members agree on one stable configuration, of which they are the members.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/shard/test_probe.h"
#include "node/limit/table/table.h"
#include "tests/sim/sim.h"

enum { STATE_MAX = 4096 };

/* Whether that node is to be alive; one that lost its disk has become another. */
static bool expected(const struct sim *sim, uint64_t id)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].id == id)
            return sim->nodes[i].member;
    return false;
}

/* The numbers of the nodes of a region. */
struct span {
    uint32_t first;
    uint32_t end;
};

static struct span span_of(const struct sim *sim, uint32_t region)
{
    return (struct span){region_first(sim, region), region_first(sim, region + 1)};
}

static struct span own_region(const struct sim *sim)
{
    return span_of(sim, 0);
}

static uint32_t members_of(const struct sim *sim, struct span region)
{
    uint32_t count = 0;
    for (uint32_t i = region.first; i < region.end; i++)
        count += sim->nodes[i].member;
    return count;
}

static bool members_agree(struct sim *sim, struct span region, char *why)
{
    uint64_t epoch = 0;
    for (uint32_t i = region.first; i < region.end; i++) {
        const struct node *node = &sim->nodes[i];
        if (!node->member)
            continue;
        if (!node->up || node->view == NULL) {
            snprintf(why, SIM_WHY_LEN, "node %u has no view", i);
            return false;
        }
        if (epoch == 0)
            epoch = node->view->epoch;
        if (node->view->epoch != epoch || !node->view->stable ||
            node->view->to.members_count != members_of(sim, region)) {
            snprintf(why, SIM_WHY_LEN, "node %u is at epoch %llu with %u in the ring%s", i,
                     (unsigned long long)node->view->epoch, node->view->to.members_count,
                     node->view->stable ? "" : ", in transition");
            return false;
        }
        for (uint32_t m = 0; m < node->view->member_count; m++) {
            const struct view_member *member = &node->view->members[m];
            if (member->state != VIEW_ALIVE && expected(sim, member->id)) {
                snprintf(why, SIM_WHY_LEN, "node %u sees %s as %s", i, member->name,
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
static bool owner_decides(struct sim *sim, struct span region, uint32_t vnode,
                          struct probe_vnode *leader, char *why)
{
    uint32_t deciders = 0;
    uint64_t ids[VIEW_REPLICAS_MAX];
    (void)view_replica_set(sim->nodes[region.first].view, vnode, ids);
    for (uint32_t i = region.first; i < region.end; i++) {
        struct probe_vnode at;
        if (!sim->nodes[i].member)
            continue;
        probe_vnode(shard_for(&sim->nodes[i], vnode), vnode, &at);
        if (at.role != SHARD_LEADING)
            continue;
        deciders++;
        *leader = at;
        if (sim->nodes[i].id != ids[0]) {
            snprintf(why, SIM_WHY_LEN, "vnode %u is decided by n%u, not by its owner", vnode, i);
            return false;
        }
    }
    if (deciders != 1)
        snprintf(why, SIM_WHY_LEN, "vnode %u has %u deciders", vnode, deciders);
    return deciders == 1;
}

static bool vnode_rests(struct sim *sim, struct span region, uint32_t vnode, char *why)
{
    struct probe_vnode leader = {0};
    uint32_t holders = 0;
    uint64_t ids[VIEW_REPLICAS_MAX];
    const uint32_t count = view_replica_set(sim->nodes[region.first].view, vnode, ids);
    if (!owner_decides(sim, region, vnode, &leader, why))
        return false;
    for (uint32_t i = region.first; i < region.end; i++) {
        struct probe_vnode at;
        if (!sim->nodes[i].member)
            continue;
        probe_vnode(shard_for(&sim->nodes[i], vnode), vnode, &at);
        if (at.role == SHARD_ABSENT)
            continue;
        holders++;
        if (term_compare(&at.state, &leader.term) != 0 || at.seq != leader.seq ||
            (at.role != SHARD_LEADING && at.role != SHARD_REPLICA)) {
            snprintf(why, SIM_WHY_LEN,
                     "vnode %u: n%u is in role %d at seq %llu, the decider at %llu%s", vnode, i,
                     (int)at.role, (unsigned long long)at.seq, (unsigned long long)leader.seq,
                     term_compare(&at.state, &leader.term) != 0 ? ", other term" : "");
            return false;
        }
    }
    if (holders == count && leader.synced)
        return true;
    snprintf(why, SIM_WHY_LEN, "vnode %u: %u of %u replicas%s", vnode, holders, count,
             leader.synced ? "" : ", not synced");
    return false;
}

bool check_owned(struct sim *sim, char *why)
{
    struct probe_vnode leader;
    const struct span region = own_region(sim);
    if (!members_agree(sim, region, why))
        return false;
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        if (!owner_decides(sim, region, vnode, &leader, why))
            return false;
    return true;
}

static bool rests(struct sim *sim, struct span region, char *why)
{
    if (!members_agree(sim, region, why))
        return false;
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        if (!vnode_rests(sim, region, vnode, why))
            return false;
    return true;
}

bool check_converged(struct sim *sim, char *why)
{
    return rests(sim, own_region(sim), why);
}

bool check_remote(struct sim *sim, char *why)
{
    for (uint32_t region = 1; region < sim->options.regions; region++)
        if (!rests(sim, span_of(sim, region), why))
            return false;
    return true;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* The shard of node `i` that has this role for the key's vnode, or NULL. */
static const struct shard *member_as(struct sim *sim, uint32_t i, const struct key *key,
                                     enum shard_role role)
{
    struct probe_vnode at;
    if (!sim->nodes[i].member)
        return NULL;
    const struct shard *shard = shard_for(&sim->nodes[i], key->vnode);
    probe_vnode(shard, key->vnode, &at);
    return at.role == role ? shard : NULL;
}

/* Whether a state says no more to the node than none at all: who is sent it need not keep it. */
static bool as_good_as_new(struct sim *sim, struct node *node, const uint8_t *state, int len)
{
    int64_t expires_ns = INT64_MAX;
    const int result = table_export_expires_ns(state, (size_t)len, &expires_ns);
    return result == 0 && expires_ns <= shell_clock(sim, node);
}

static bool key_equal(struct sim *sim, const struct key *key, char *why)
{
    uint8_t expected[STATE_MAX];
    uint8_t held[STATE_MAX];
    int expected_len = -1;
    uint32_t leader = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct shard *shard = member_as(sim, i, key, SHARD_LEADING);
        if (shard == NULL)
            continue;
        leader = i;
        expected_len = probe_slot(shard, key->id, expected, sizeof expected);
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct shard *shard = member_as(sim, i, key, SHARD_REPLICA);
        if (shard == NULL || expected_len <= 0)
            continue;
        const int len = probe_slot(shard, key->id, held, sizeof held);
        if (len > 0 && (len != expected_len || memcmp(held, expected, (size_t)len) != 0)) {
            snprintf(why, SIM_WHY_LEN,
                     "key %s of vnode %u: n%u holds another state than its decider n%u", key->text,
                     key->vnode, i, leader);
            return false;
        }
        if (len == 0 && !probe_spilled(shard, key->vnode, key->id) &&
            !as_good_as_new(sim, &sim->nodes[i], expected, expected_len)) {
            snprintf(why, SIM_WHY_LEN, "key %s of vnode %u: n%u lacks what its decider n%u holds",
                     key->text, key->vnode, i, leader);
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

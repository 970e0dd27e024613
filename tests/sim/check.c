/* check.c - what must hold after each event of a node.
 *
 * SIMCHECK-1  Only the writer of a term decides in it, and no process decides in a term that an
 *             earlier one of its node has opened: so at most one process decides in a term.
 * SIMCHECK-2  The newest term that a process knows of a vnode never goes back while it holds the
 *             vnode.
 * SIMCHECK-3  In a strict phase at most one node decides a vnode at any moment.
 * SIMCHECK-4  A node's epoch never goes back.
 *
 * It also keeps the *front* of each vnode: the newest term and how far its leader has come. When a
 * term is opened on less than that, what lies between is lost: the bound that over-admission is
 * judged by (check_keys.c).
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard/test_probe.h"
#include "tests/sim/global.h"

/* More than any set of keys can be admitted: nothing is known of what was lost. */
#define LOST_ALL ((uint64_t)1 << 32)

static void note_leader(struct sim *sim, struct node *node, uint32_t vnode, bool decides)
{
    const uint32_t region = node_region(sim, node);
    const uint8_t bit = (uint8_t)(1u << (node->index - region_first(sim, region)));
    uint8_t *deciders = &sim->deciders[region][vnode];
    const bool before = (*deciders & bit) != 0;
    if (decides == before)
        return;
    *deciders ^= bit;
    /* In the plane of quorum one that was deposed may think so, but commits nothing. */
    if (decides && sim->plan.strict && vnode < sim->vnodes && (*deciders & (uint8_t)~bit) != 0)
        sim_fail(sim, "vnode %u is decided by more than one node%s without a fault: %02x", vnode,
                 region > 0 ? " abroad" : "", *deciders); /* SIMCHECK-3 */
}

/* Notes that the term was opened; true if it was before. */
static bool opened_before(struct sim *sim, uint32_t vnode, const struct term *term)
{
    const uint64_t tag =
        hash_mix64(hash_mix64(hash_mix64(term->epoch) ^ term->number) ^ term->writer ^ vnode) | 1;
    uint32_t at = (uint32_t)(tag >> 32) % SIM_TERMS_MAX;
    ASSERT(sim->term_count < SIM_TERMS_MAX - 1);
    while (sim->terms[at] != 0 && sim->terms[at] != tag)
        at = (at + 1) % SIM_TERMS_MAX;
    const bool before = sim->terms[at] == tag;
    sim->term_count += !before;
    sim->terms[at] = tag;
    return before;
}

/* A term was opened: on what? */
static void note_term(struct sim *sim, struct node *node, const struct shard *shard, uint32_t vnode,
                      const struct term *term)
{
    struct front *front = &sim->fronts[vnode];
    struct probe_vnode at;
    probe_vnode(shard, vnode, &at);
    uint64_t lost = 0;
    if (!node_remote(sim, node))
        check_merge_opened(sim, node, shard, vnode);
    if (opened_before(sim, vnode, term) && !node->rewound)
        /* SIMCHECK-1 */
        sim_fail(sim, "node %u opens a term of vnode %u again", node->index, vnode);
    if (node_remote(sim, node) || term_compare(term, &front->term) <= 0)
        return; /* nobody asks for keys there; or a split: another side has come further */
    if (term_compare(&at.base_state, &front->term) != 0 && !term_is_none(&front->term))
        lost = LOST_ALL;
    else if (at.base_seq < front->seq)
        lost = front->seq - at.base_seq;
    if (lost > 0)
        sim_tell(sim, 2, "n%u opens vnode %u without %llu changes of n%d", node->index, vnode,
                 (unsigned long long)lost, node_by_id(sim, front->term.writer));
    sim->coverage.lost_changes += lost < LOST_ALL ? lost : 1;
    front->lost += lost;
    front->term = *term;
    front->seq = at.seq;
}

/* How far a leader has come; what one of an older term still decides is lost. */
static void follow_leader(struct sim *sim, struct probe_brief *held, uint32_t vnode, uint64_t seq)
{
    struct front *front = &sim->fronts[vnode];
    if (term_compare(&held->term, &front->term) == 0)
        front->seq = seq;
    else if (seq > held->seq)
        front->lost += seq - held->seq;
    held->seq = seq;
}

static void count_roles(struct sim *sim, struct node *node, const struct shard *shard,
                        uint32_t vnode, enum shard_role role)
{
    if (role != node->held[vnode].role) {
        sim->coverage.passes += role == SHARD_TRANSFERRING;
        sim->coverage.recoveries += role == SHARD_RECOVERING;
        node->catching_up[vnode] = false;
    }
    if (role != SHARD_RECOVERING || node->catching_up[vnode])
        return;
    struct probe_vnode at;
    probe_vnode(shard, vnode, &at);
    node->catching_up[vnode] = at.catching_up;
    sim->coverage.pulls += at.catching_up;
}

static void tell_vnode(const struct sim *sim, const struct node *node, uint32_t vnode,
                       const struct term *term, enum shard_role role)
{
    sim_tell(sim, 2, "n%u vnode %u role %d term %llu.%llu.n%d", node->index, vnode, (int)role,
             (unsigned long long)term->epoch, (unsigned long long)term->number,
             node_by_id(sim, term->writer));
}

static void check_vnode(struct sim *sim, struct node *node, const struct shard *shard,
                        uint32_t vnode)
{
    struct probe_brief *held = &node->held[vnode];
    struct term term;
    const enum shard_role role = shard_vnode(shard, vnode, &term);
    const bool decides = role == SHARD_LEADING || role == SHARD_TRANSFERRING;
    const int order = term_compare(&term, &held->term);
    if (decides && term.writer != node->id)
        sim_fail(sim, "node %u decides vnode %u in the term of another", node->index,
                 vnode); /* SIMCHECK-1 */
    if (role != SHARD_ABSENT && order < 0)
        sim_fail(sim, "node %u went back to an older term of vnode %u", node->index,
                 vnode); /* SIMCHECK-2 */
    if (order != 0 || role != held->role) {
        tell_vnode(sim, node, vnode, &term, role);
        if (decides &&
            (order != 0 || (held->role != SHARD_LEADING && held->role != SHARD_TRANSFERRING)))
            note_term(sim, node, shard, vnode, &term);
    }
    if (role == SHARD_RECOVERING || role != held->role)
        count_roles(sim, node, shard, vnode, role);
    held->role = (uint8_t)role;
    held->term = term;
    if (decides && !node_remote(sim, node))
        follow_leader(sim, held, vnode, probe_seq(shard, vnode));
    note_leader(sim, node, vnode, role == SHARD_LEADING);
}

/* What SIMCHECK-1 to SIMCHECK-3 say of a vnode holds as it did after the event before, if neither
 * its role nor its term nor how far its leader has come is another. */
static void check_shard(struct sim *sim, struct node *node, const struct shard *shard,
                        uint32_t number)
{
    const uint32_t step = node->shard_count;
    for (uint32_t vnode = probe_differs(shard, number, step, sim->vnodes, node->held);
         vnode < sim->vnodes;
         vnode = probe_differs(shard, vnode + step, step, sim->vnodes, node->held))
        check_vnode(sim, node, shard, vnode);
}

void check_event(struct sim *sim, struct node *node)
{
    if (node->view != NULL && node->view->epoch < node->epoch)
        sim_fail(sim, "node %u went back to epoch %llu", node->index,
                 (unsigned long long)node->view->epoch); /* SIMCHECK-4 */
    node->epoch = node->view == NULL ? node->epoch : node->view->epoch;
    check_ring(sim, node);
    settings_check(sim, node);
    if (sim->global.watching)
        check_global(sim, node);
    for (uint8_t s = 0; s < node->shard_count; s++) {
        if (node->shards[s] == NULL)
            continue;
        check_shard(sim, node, node->shards[s], s);
        if (sim->options.quorum)
            check_ballots(sim, node, s);
    }
}

void check_ended(struct sim *sim, struct node *node)
{
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        note_leader(sim, node, vnode, false);
    check_global_ended(sim, node);
}

void check_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++) {
        const struct node *node = &sim->nodes[i];
        if (!node->up)
            continue;
        control_check_invariants(node->control);
        for (uint8_t s = 0; s < node->shard_count; s++)
            if (node->shards[s] != NULL)
                shard_check_invariants(node->shards[s]);
    }
}

/* support_ring_plan.c - what moves between two tables, one vnode at a time, computed as it is asked
 * for.
 *
 * RINGPLAN-1  gain = new list - old list, drop = old list - new list, by id.
 * RINGPLAN-2  gain, drop and owner_changes of all vnodes together turn the old table into the new
 *             one, but for the order of replicas behind an unchanged owner, which needs no data
 *             moved.
 */
#include "tests/unit/support_ring_plan.h"

#include "base/assert.h"

/* Ids of `vnode`'s list in `a` that are not in its list in `b`; returns how many. */
static uint32_t difference(const struct ring_table *a, const struct ring_table *b, uint32_t vnode,
                           uint64_t out[RING_REPLICAS_MAX])
{
    uint32_t count;
    uint32_t found = 0;
    const uint16_t *list = ring_replicas(a, vnode, &count);

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t id = ring_member_id(a, list[i]);
        if (ring_position_of(b, vnode, id) < 0) {
            out[found++] = id;
        }
    }
    return found;
}

void ring_plan_init(struct ring_plan *plan, const struct ring_table *from,
                    const struct ring_table *to)
{
    ASSERT(from->members_count > 0 && to->members_count > 0);
    ASSERT(from->vnodes == to->vnodes);
    plan->from = from;
    plan->to = to;
    plan->next_vnode = 0;
}

void ring_plan_at(const struct ring_plan *plan, uint32_t vnode, struct ring_move *move)
{
    move->vnode = vnode;
    move->from_owner = ring_owner_id(plan->from, vnode);
    move->to_owner = ring_owner_id(plan->to, vnode);
    move->owner_changes = move->from_owner != move->to_owner;
    move->gain_count = difference(plan->to, plan->from, vnode, move->gain);
    move->drop_count = difference(plan->from, plan->to, vnode, move->drop);
}

bool ring_plan_next(struct ring_plan *plan, struct ring_move *move)
{
    while (plan->next_vnode < plan->from->vnodes) {
        ring_plan_at(plan, plan->next_vnode++, move);
        if (move->owner_changes || move->gain_count > 0 || move->drop_count > 0) {
            return true;
        }
    }
    return false;
}

uint32_t ring_plan_owner_changes(const struct ring_plan *plan)
{
    uint32_t changes = 0;

    for (uint32_t vnode = 0; vnode < plan->from->vnodes; vnode++) {
        changes += ring_owner_id(plan->from, vnode) != ring_owner_id(plan->to, vnode) ? 1 : 0;
    }
    return changes;
}

/* support_ring_plan.h - what changes between two ring tables, vnode by vnode, to judge a table by.
 */
#ifndef TESTS_UNIT_SUPPORT_RING_PLAN_H
#define TESTS_UNIT_SUPPORT_RING_PLAN_H

#include "ring/ring.h"

/* What changes for one vnode between two tables. Members are named by id, since the indices
 * of the two tables differ. */
struct ring_move {
    uint32_t vnode;
    uint64_t from_owner;
    uint64_t to_owner;
    bool owner_changes;
    uint32_t gain_count; /* members that must receive the vnode: in the new list, not in the old */
    uint32_t drop_count; /* members that may drop it afterwards: in the old list, not in the new */
    uint64_t gain[RING_REPLICAS_MAX];
    uint64_t drop[RING_REPLICAS_MAX];
};

/* An iterator over the vnodes whose list changes; borrows both tables, owns nothing. */
struct ring_plan {
    const struct ring_table *from;
    const struct ring_table *to;
    uint32_t next_vnode;
};

/* Starts a plan. Both tables must have the same number of vnodes (asserted). */
void ring_plan_init(struct ring_plan *plan, const struct ring_table *from,
                    const struct ring_table *to);
/* Fills *move with the next vnode whose owner or set of replicas changes, in vnode order; false
 * when there is none left. A mere change of order behind the same owner is no move. */
bool ring_plan_next(struct ring_plan *plan, struct ring_move *move);
/* What changes for one vnode, whether anything does or not. */
void ring_plan_at(const struct ring_plan *plan, uint32_t vnode, struct ring_move *move);
/* Number of vnodes whose owner changes. Linear in vnodes. */
uint32_t ring_plan_owner_changes(const struct ring_plan *plan);

#endif

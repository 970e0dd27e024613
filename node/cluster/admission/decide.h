/* decide.h - what decide.c offers the files that bring it checks, and the steps that each check
 * takes.
 */
#ifndef NODE_CLUSTER_ADMISSION_DECIDE_H
#define NODE_CLUSTER_ADMISSION_DECIDE_H

#include "base/assert.h"
#include "node/cluster/shard_state.h"

/* Whether what the forward asks for may have to be shared with others. */
static inline bool allocation_matter(const struct shard *shard, const struct forward *forward)
{
    return __builtin_expect(shard->allocation.busy != 0 || forward->operation == OPERATION_LEASE,
                            0);
}

/* How much of what it asks for the check or lease may take now: ALLOCATION_ALL, so much of it at
 * most, or 0. It counts as taken. To be called ahead of decide_group. */
static inline uint64_t allocation_take(struct shard *shard, const struct forward *forward,
                                       struct effects *effects)
{
    return allocation_matter(shard, forward) ? allocation_ask(shard, forward, effects)
                                             : ALLOCATION_ALL;
}

/* Decides all that is in the batch and delivers the decisions. */
void decide_run(struct shard *shard, struct effects *effects);

/* Adds an empty group for `rows` rows, first deciding what is in the batch if it is full. */
static inline struct batch_item *decide_group(struct shard *shard, uint32_t rows,
                                              struct effects *effects)
{
    struct batch *batch = &shard->batch;
    ASSERT(rows <= LIMIT_GROUP_MAX && !batch->delivering); /* DECIDE-3 */
    if (batch->count + rows > SHARD_BATCH_ROWS || batch->item_count == SHARD_BATCH_ROWS)
        decide_run(shard, effects);
    struct batch_item *item = &batch->items[batch->item_count++];
    item->part = POOL_NONE;
    item->from_peer = false;
    item->again = 0;
    item->attempt = 0;
    item->recalled = false;
    item->revoked = false;
    item->explains = false;
    item->several = false;
    item->once = false;
    item->undo = false;
    item->takes = ALLOCATION_ALL;
    item->withholds = 0;
    item->parts = 0;
    item->tag = 0;
    item->first = batch->count;
    item->count = 0;
    return item;
}

/* Adds one part (rule or inline limit) to the group, which was added last. */
void decide_rows(struct shard *shard, struct batch_item *item, const struct policy_rule *rule,
                 const struct forward *forward, uint8_t loaded);

/* Whether doing it twice would let more pass than doing it once. */
static inline bool decide_gives_back(const struct forward *forward)
{
    return forward->operation == OPERATION_REFUND || forward->operation == OPERATION_RESET;
}

/* Whether first copies may come behind repeated ones (DECIDE-9). */
static inline bool decide_expects_late(const struct shard *shard)
{
    return __builtin_expect(shard->now_ns < shard->late_until_ns, 0);
}

/* Whether the forward gives back and may have been decided before, in a vnode of the plane of
 * quorum: then it is not done if nothing is remembered of it (QUORUM-6). */
bool decide_only_once(const struct shard *shard, const struct forward *forward);
/* Whether the group, whose keys are set, was answered before, here or where it was decided before
 * (firsts.h), and how: its attempt is told. `id` is its first slot. */
bool decide_recall(struct shard *shard, struct batch_item *item, uint32_t vnode, struct hash128 id);
void decide_part(struct shard *shard, uint32_t index, struct effects *effects);
/* Whether the undo of a peer's part came before it (RESERVE-5). */
bool decide_called_off(const struct shard *shard, uint32_t index);
void decide_forward(struct shard *shard, uint16_t peer, const struct forward *forward,
                    struct effects *effects);
/* Has the engine decide rows of the batch. */
void decide_step(struct shard *shard, uint32_t first, uint32_t count);

/* Whether the part is asked by older rules than some part before it, as far as it says
 * (DECIDE-15). */
bool decide_is_older(struct shard *shard, const struct forward *forward);

#endif

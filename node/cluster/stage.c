/* stage.c - slots by groups of vnodes, by counting; stage.h tells what for. Pure. */
#include "node/cluster/stage.h"

#include <string.h>

#include "base/assert.h"

int stage_init(struct stage *stage, const struct allocator *allocator, uint32_t max)
{
    ASSERT(max > 0);
    memset(stage, 0, sizeof *stage);
    stage->allocator = allocator;
    stage->max = max;
    stage->put = alloc_array(allocator, max, sizeof *stage->put);
    stage->groups = alloc_array(allocator, max, sizeof *stage->groups);
    stage->ordered = alloc_array(allocator, max, sizeof *stage->ordered);
    if (stage->put != NULL && stage->groups != NULL && stage->ordered != NULL)
        return 0;
    stage_fini(stage);
    return TG_ENOMEM;
}

void stage_fini(struct stage *stage)
{
    if (stage->allocator == NULL)
        return;
    alloc_put(stage->allocator, stage->put, stage->max * sizeof *stage->put);
    alloc_put(stage->allocator, stage->groups, stage->max * sizeof *stage->groups);
    alloc_put(stage->allocator, stage->ordered, stage->max * sizeof *stage->ordered);
    memset(stage, 0, sizeof *stage);
}

void stage_clear(struct stage *stage)
{
    stage->filled = 0;
    stage->dealt = 0;
    stage->left = 0;
    memset(stage->at, 0, sizeof stage->at);
}

void stage_put(struct stage *stage, uint64_t slot, uint32_t vnode, uint32_t vnodes)
{
    ASSERT(!stage_full(stage) && stage->dealt == 0 && vnode < vnodes);
    ASSERT(stage->left == stage->filled);
    const uint32_t group = (uint32_t)((uint64_t)vnode * STAGE_GROUPS / vnodes);
    stage->put[stage->filled] = slot;
    stage->groups[stage->filled] = (uint16_t)group;
    stage->at[group]++;
    stage->filled++;
    stage->left++;
}

/* Counts become places. */
static void begin_order(struct stage *stage)
{
    uint32_t sum = 0;
    for (uint32_t group = 0; group < STAGE_GROUPS; group++) {
        const uint32_t count = stage->at[group];
        stage->at[group] = sum;
        sum += count;
    }
    ASSERT(sum == stage->filled);
}

bool stage_order(struct stage *stage, uint32_t most)
{
    ASSERT(stage->left == stage->filled);
    if (stage->dealt == 0)
        begin_order(stage);
    const uint32_t rest = stage->filled - stage->dealt;
    const uint32_t end = stage->dealt + (most < rest ? most : rest);
    for (uint32_t i = stage->dealt; i < end; i++)
        stage->ordered[stage->at[stage->groups[i]]++] = stage->put[i];
    stage->dealt = end;
    return end == stage->filled;
}

uint64_t stage_take(struct stage *stage)
{
    ASSERT(stage->left > 0);
    return stage->ordered[stage->filled - stage->left--];
}

bool stage_peek(const struct stage *stage, uint32_t skip, uint64_t *slot)
{
    if (skip >= stage->left)
        return false;
    *slot = stage->ordered[stage->filled - stage->left + skip];
    return true;
}

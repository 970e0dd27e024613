/* stage.c - slots by groups of vnodes, by counting; stage.h tells what for. Pure. */
#include "node/cluster/writeback/stage.h"

#include <string.h>

#include "base/assert.h"

int stage_init(struct stage *stage, const struct allocator *allocator, uint32_t max,
               uint32_t vnodes)
{
    ASSERT(max > 0 && vnodes > 0 && vnodes - 1 <= UINT16_MAX);
    memset(stage, 0, sizeof *stage);
    stage->allocator = allocator;
    stage->max = max;
    stage->scale = ((uint64_t)STAGE_GROUPS << 32) / vnodes;
    stage->put = alloc_array(allocator, max, sizeof *stage->put);
    stage->vnodes = alloc_array(allocator, max, sizeof *stage->vnodes);
    stage->ordered = alloc_array(allocator, max, sizeof *stage->ordered);
    if (stage->put != NULL && stage->vnodes != NULL && stage->ordered != NULL)
        return 0;
    stage_fini(stage);
    return TG_ENOMEM;
}

void stage_fini(struct stage *stage)
{
    if (stage->allocator == NULL)
        return;
    alloc_put(stage->allocator, stage->put, stage->max * sizeof *stage->put);
    alloc_put(stage->allocator, stage->vnodes, stage->max * sizeof *stage->vnodes);
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

/* Ascending with the vnodes; one of its own for each while there are no more of them than groups.
 */
static uint32_t group_of(const struct stage *stage, uint32_t vnode)
{
    return (uint32_t)(vnode * stage->scale >> 32);
}

void stage_put(struct stage *stage, const struct table_write *writes, const uint16_t *vnodes,
               uint32_t count)
{
    ASSERT(count <= stage_room(stage) && stage->dealt == 0 && stage->left == stage->filled);
    memcpy(stage->put + stage->filled, writes, count * sizeof *writes);
    memcpy(stage->vnodes + stage->filled, vnodes, count * sizeof *vnodes);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t group = group_of(stage, vnodes[i]);
        ASSERT(group < STAGE_GROUPS);
        stage->at[group]++;
    }
    stage->filled += count;
    stage->left += count;
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
        stage->ordered[stage->at[group_of(stage, stage->vnodes[i])]++] = stage->put[i];
    stage->dealt = end;
    return end == stage->filled;
}

struct table_write *stage_rest(const struct stage *stage)
{
    return stage->ordered + (stage->filled - stage->left);
}

void stage_take(struct stage *stage, uint32_t count)
{
    ASSERT(count <= stage->left);
    stage->left -= count;
}

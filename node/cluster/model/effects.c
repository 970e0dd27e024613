/* effects.c - the bounded effects buffer; effects.h tells the contract. Pure. */
#include "node/cluster/model/effects.h"

#include <string.h>

#include "base/assert.h"

int effects_init(struct effects *effects, const struct allocator *allocator)
{
    memset(effects, 0, sizeof *effects);
    effects->allocator = allocator;
    effects->items = alloc_array(allocator, EFFECTS_MAX, sizeof *effects->items);
    effects->arena = alloc_get(allocator, EFFECTS_ARENA_LEN);
    if (effects->items != NULL && effects->arena != NULL)
        return 0;
    effects_fini(effects);
    return TG_ENOMEM;
}

void effects_fini(struct effects *effects)
{
    if (effects->allocator == NULL)
        return;
    alloc_put(effects->allocator, effects->items, EFFECTS_MAX * sizeof *effects->items);
    alloc_put(effects->allocator, effects->arena, EFFECTS_ARENA_LEN);
    memset(effects, 0, sizeof *effects);
}

void effects_clear(struct effects *effects)
{
    effects->count = 0;
    effects->used = 0;
}

bool effects_fit(const struct effects *effects, size_t len)
{
    return effects->count < EFFECTS_MAX - EFFECTS_KEPT && len <= EFFECTS_ARENA_LEN - effects->used;
}

struct effect *effects_add(struct effects *effects, enum effect_kind kind)
{
    ASSERT(effects->count < EFFECTS_MAX);
    struct effect *effect = &effects->items[effects->count++];
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    return effect;
}

uint8_t *effects_reserve(struct effects *effects, size_t capacity)
{
    ASSERT(capacity <= EFFECTS_ARENA_LEN - effects->used);
    return effects->arena + effects->used;
}

void effects_commit(struct effects *effects, struct effect *effect, size_t len)
{
    ASSERT(len <= EFFECTS_ARENA_LEN - effects->used);
    effect->bytes = effects->arena + effects->used;
    effect->len = len;
    effects->used += len;
}

/* callers.c - who was counted by which rule; see callers.h for the idea and CALLERS-1 to CALLERS-3.
 *
 * The index is open addressing at most half full, rebuilt whenever entries are dropped, so nothing
 * is ever removed from it singly. Texts are copied to the other block then, which leaves no holes.
 *
 * CALLERS-4  Every used entry is in the index once; entries given back are linked by `held`.
 * CALLERS-5  The texts of the used entries lie below bytes_used.
 */
#include "client/replay/callers.h"

#include <string.h>

#include "base/assert.h"

enum { EXACT_WEIGHTS = 1024, WEIGHTS = EXACT_WEIGHTS + 64 };

int callers_init(struct callers *callers, const struct allocator *allocator, uint32_t max,
                 uint32_t bytes_max)
{
    ASSERT(max >= 16 && max <= UINT32_MAX / 8);
    uint32_t len = 32;
    while (len < 2 * max)
        len *= 2;
    *callers = (struct callers){.allocator = allocator,
                                .max = max,
                                .free = CALLERS_NONE,
                                .index_mask = len - 1,
                                .bytes_max = bytes_max};
    callers->entries = alloc_array(allocator, max, sizeof *callers->entries);
    callers->index = alloc_array(allocator, len, sizeof *callers->index);
    callers->bytes = alloc_get(allocator, bytes_max);
    if (callers->entries == NULL || callers->index == NULL || callers->bytes == NULL) {
        callers_fini(callers);
        return TG_ENOMEM;
    }
    return TG_OK;
}

void callers_fini(struct callers *callers)
{
    const struct allocator *allocator = callers->allocator;
    alloc_put(allocator, callers->entries, callers->max * sizeof *callers->entries);
    alloc_put(allocator, callers->index,
              ((size_t)callers->index_mask + 1) * sizeof *callers->index);
    alloc_put(allocator, callers->bytes, callers->bytes_max);
    alloc_put(allocator, callers->spare, callers->bytes_max);
    callers->entries = NULL;
    callers->index = NULL;
    callers->bytes = NULL;
    callers->spare = NULL;
}

uint32_t callers_find(const struct callers *callers, struct hash128 hash)
{
    uint32_t at = (uint32_t)hash.lo & callers->index_mask;
    for (; callers->index[at] != 0; at = (at + 1) & callers->index_mask) {
        const uint32_t number = callers->index[at] - 1;
        if (hash128_equal(callers->entries[number].hash, hash))
            return number;
    }
    return CALLERS_NONE;
}

static void put_index(struct callers *callers, uint32_t number)
{
    uint32_t at = (uint32_t)callers->entries[number].hash.lo & callers->index_mask;
    while (callers->index[at] != 0)
        at = (at + 1) & callers->index_mask;
    callers->index[at] = number + 1;
}

uint32_t callers_add(struct callers *callers, struct hash128 hash, uint32_t rule, const void *text,
                     uint32_t text_len)
{
    if (callers->count == callers->max || text_len > callers->bytes_max - callers->bytes_used)
        return CALLERS_NONE;
    uint32_t number = callers->free;
    if (number != CALLERS_NONE)
        callers->free = callers->entries[number].held;
    else
        number = callers->end++;
    ASSERT(number < callers->max && callers->end <= callers->max);
    callers->entries[number] = (struct caller){.hash = hash,
                                               .error = callers->floor,
                                               .rule = rule,
                                               .text = callers->bytes_used,
                                               .text_len = text_len,
                                               .used = true};
    if (text_len > 0)
        memcpy(callers->bytes + callers->bytes_used, text, text_len);
    callers->bytes_used += text_len;
    callers->count++;
    put_index(callers, number);
    return number;
}

/* ---- dropping -------------------------------------------------------------------------------- */

/* Weights up to EXACT_WEIGHTS are told apart, larger ones by their power of two. */
static uint32_t weight_class(uint64_t weight)
{
    if (weight < EXACT_WEIGHTS)
        return (uint32_t)weight;
    ASSERT(weight > 0);
    return EXACT_WEIGHTS + 63 - (uint32_t)__builtin_clzll(weight);
}

/* The largest weight of a class. */
static uint64_t class_max(uint32_t class)
{
    ASSERT(class < WEIGHTS);
    if (class < EXACT_WEIGHTS)
        return class;
    const uint32_t power = class - EXACT_WEIGHTS;
    return power >= 63 ? UINT64_MAX : ((uint64_t)2 << power) - 1;
}

static uint64_t weight_of(const struct caller *caller)
{
    return caller->requests + caller->error; /* the most it can have been seen (CALLERS-2) */
}

/* The weight up to which entries are to go. */
static uint64_t choose_floor(const struct callers *callers)
{
    uint32_t counts[WEIGHTS] = {0};
    for (uint32_t i = 0; i < callers->end; i++)
        if (callers->entries[i].used && callers->entries[i].held == 0)
            counts[weight_class(weight_of(&callers->entries[i]))]++;
    uint32_t class = 0;
    for (uint64_t sum = counts[0]; sum < callers->max / 4 && class + 1 < WEIGHTS;)
        sum += counts[++class];
    return class_max(class);
}

static void give_back(struct callers *callers, uint32_t number)
{
    ASSERT(callers->entries[number].used && callers->entries[number].held == 0);
    callers->entries[number].used = false;
    callers->entries[number].held = callers->free;
    callers->free = number;
    callers->count--;
}

bool callers_drop(struct callers *callers)
{
    if (callers->spare == NULL)
        callers->spare = alloc_get(callers->allocator, callers->bytes_max);
    if (callers->spare == NULL)
        return false;
    const uint64_t floor = choose_floor(callers);
    const uint32_t count = callers->count;
    uint32_t used = 0;
    memset(callers->index, 0, ((size_t)callers->index_mask + 1) * sizeof *callers->index);
    for (uint32_t i = 0; i < callers->end; i++) {
        struct caller *caller = &callers->entries[i];
        if (!caller->used)
            continue;
        if (caller->held == 0 && weight_of(caller) <= floor) {
            give_back(callers, i);
            continue;
        }
        memcpy(callers->spare + used, callers->bytes + caller->text, caller->text_len);
        caller->text = used;
        used += caller->text_len;
        put_index(callers, i);
    }
    ASSERT(used <= callers->bytes_used);
    uint8_t *const old = callers->bytes;
    callers->bytes = callers->spare;
    callers->spare = old;
    callers->bytes_used = used;
    if (callers->count < count && floor > callers->floor)
        callers->floor = floor; /* CALLERS-3 */
    return callers->count < count;
}

/* ---- invariants ------------------------------------------------------------------------------ */

void callers_check_invariants(const struct callers *callers)
{
    uint32_t used = 0;
    uint32_t entered = 0;
    uint32_t free = 0;
    for (uint32_t i = 0; i < callers->end; i++) {
        const struct caller *caller = &callers->entries[i];
        if (!caller->used)
            continue;
        used++;
        INVARIANT("CALLERS-4", callers_find(callers, caller->hash) == i);
        INVARIANT("CALLERS-5", caller->text <= callers->bytes_used &&
                                   caller->text_len <= callers->bytes_used - caller->text);
        INVARIANT("CALLERS-2", caller->denied <= caller->requests);
    }
    for (uint32_t i = 0; i <= callers->index_mask; i++)
        entered += callers->index[i] != 0;
    for (uint32_t at = callers->free; at != CALLERS_NONE; at = callers->entries[at].held) {
        INVARIANT("CALLERS-4", at < callers->end && !callers->entries[at].used);
        free++;
        INVARIANT("CALLERS-4", free <= callers->end);
    }
    INVARIANT("CALLERS-4", used == callers->count && entered == used);
    INVARIANT("CALLERS-4", used + free == callers->end && callers->end <= callers->max);
    INVARIANT("CALLERS-5", callers->bytes_used <= callers->bytes_max);
}

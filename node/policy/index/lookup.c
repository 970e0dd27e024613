/* lookup.c - filling such a set, and giving its memory back; see lookup.h. */
#include "node/policy/index/lookup.h"

#include <string.h>

#include "base/assert.h"

enum { SLOTS_MIN = 8 };

int lookup_init(struct lookup *lookup, const struct allocator *allocator, size_t count,
                size_t entry_size, size_t bytes)
{
    uint32_t slots = SLOTS_MIN;
    ASSERT(count < UINT32_MAX / 4 && entry_size > 0);
    while (slots < 2 * count)
        slots *= 2;
    *lookup = (struct lookup){.allocator = allocator,
                              .mask = slots - 1,
                              .bytes_len = bytes + 1,
                              .entry_size = entry_size,
                              .capacity = count + 1};
    lookup->slots = alloc_array(allocator, slots, sizeof *lookup->slots);
    lookup->bytes = alloc_get(allocator, lookup->bytes_len);
    lookup->entries = alloc_array(allocator, lookup->capacity, entry_size);
    const bool ok = lookup->slots != NULL && lookup->bytes != NULL && lookup->entries != NULL;
    return ok ? 0 : TG_ENOMEM;
}

void lookup_fini(struct lookup *lookup)
{
    const size_t slots = (size_t)lookup->mask + 1;
    alloc_put(lookup->allocator, lookup->slots, slots * sizeof *lookup->slots);
    alloc_put(lookup->allocator, lookup->bytes, lookup->bytes_len);
    alloc_put(lookup->allocator, lookup->entries, lookup->capacity * lookup->entry_size);
}

struct policy_text lookup_keep(struct lookup *lookup, const char *text, size_t len)
{
    char *at = lookup->bytes + lookup->bytes_used;
    ASSERT(len < lookup->bytes_len - lookup->bytes_used);
    if (len > 0)
        memcpy(at, text, len);
    lookup->bytes_used += len + 1; /* the NUL is there: memory is zeroed */
    return (struct policy_text){at, len};
}

void *lookup_add(struct lookup *lookup)
{
    ASSERT(lookup->count < lookup->capacity - 1);
    return lookup->entries + lookup->count++ * lookup->entry_size;
}

void lookup_file(struct lookup *lookup, uint64_t hash)
{
    uint32_t at = lookup_home(lookup, hash);
    ASSERT(lookup->count >= 1 && 2 * lookup->count <= (size_t)lookup->mask + 1); /* LOOKUP-2 */
    while (lookup->slots[at] != 0)
        at = lookup_next(lookup, at);
    lookup->slots[at] = (uint32_t)lookup->count;
}

/* Whether a look by the hash comes to entry `number`. */
static bool is_filed(const struct lookup *lookup, uint64_t hash, size_t number)
{
    uint32_t at = lookup_home(lookup, hash);
    while (lookup->slots[at] != 0 && lookup->slots[at] != number + 1)
        at = lookup_next(lookup, at);
    return lookup->slots[at] != 0;
}

void lookup_check(const struct lookup *lookup, uint64_t (*hash_of)(const void *entry))
{
    size_t taken = 0;
    INVARIANT("LOOKUP-3", lookup->count < lookup->capacity);
    INVARIANT("LOOKUP-3", lookup->bytes_used < lookup->bytes_len);
    INVARIANT("LOOKUP-3", lookup->bytes[lookup->bytes_used] == '\0');
    for (uint32_t at = 0; at <= lookup->mask; at++) {
        INVARIANT("LOOKUP-1", lookup->slots[at] <= lookup->count);
        taken += lookup->slots[at] != 0;
    }
    INVARIANT("LOOKUP-1", taken == lookup->count);
    INVARIANT("LOOKUP-2", 2 * taken <= (size_t)lookup->mask + 1);
    for (size_t i = 0; i < lookup->count; i++)
        INVARIANT("LOOKUP-1",
                  is_filed(lookup, hash_of(lookup->entries + i * lookup->entry_size), i));
}

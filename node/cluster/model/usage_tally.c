/* usage_tally.c - see usage_tally.h. */
#include "node/cluster/model/usage_tally.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"

enum { SLOTS = 2 * USAGE_TALLY_MAX };

struct usage_tally *usage_tally_new(const struct allocator *allocator)
{
    struct usage_tally *tally = alloc_get(allocator, sizeof *tally);
    if (tally == NULL)
        return NULL;
    tally->allocator = allocator;
    tally->slots = alloc_array(allocator, SLOTS, sizeof *tally->slots);
    tally->entries = alloc_array(allocator, USAGE_TALLY_MAX, sizeof *tally->entries);
    if (tally->slots == NULL || tally->entries == NULL)
        usage_tally_free(&tally);
    return tally;
}

void usage_tally_free(struct usage_tally **pointer)
{
    struct usage_tally *tally = *pointer;
    *pointer = NULL;
    if (tally == NULL)
        return;
    const struct allocator *allocator = tally->allocator;
    alloc_put(allocator, tally->slots, SLOTS * sizeof *tally->slots);
    alloc_put(allocator, tally->entries, USAGE_TALLY_MAX * sizeof *tally->entries);
    alloc_put(allocator, tally, sizeof *tally);
}

void usage_tally_clear(struct usage_tally *tally)
{
    if (tally->count > 0)
        memset(tally->slots, 0, SLOTS * sizeof *tally->slots);
    tally->count = 0;
    tally->dropped = 0;
}

/* The entry of that hash, made if it is new; NULL: left out (TALLY-1). */
static struct usage_seen *seen_of(struct usage_tally *tally, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (SLOTS - 1);
    ASSERT(hash != 0);
    while (tally->slots[at] != 0 && tally->entries[tally->slots[at] - 1].hash != hash)
        at = (at + 1) & (SLOTS - 1);
    if (tally->slots[at] == 0) {
        if (tally->count == USAGE_TALLY_MAX) { /* TALLY-1 */
            tally->dropped++;
            return NULL;
        }
        tally->entries[tally->count++] = (struct usage_seen){.hash = hash};
        tally->slots[at] = tally->count;
    }
    return &tally->entries[tally->slots[at] - 1];
}

void usage_tally_add(struct usage_tally *tally, uint64_t hash, bool exceeded, uint64_t now_ms)
{
    struct usage_seen *seen = seen_of(tally, hash);
    if (seen == NULL)
        return;
    if (seen->requests == UINT32_MAX)
        return; /* of one second: a lease was said to be used so much */
    seen->requests++;
    seen->exceeded += exceeded;
    seen->last_ms = now_ms;
}

void usage_tally_add_used(struct usage_tally *tally, uint64_t hash, uint64_t requests,
                          uint64_t now_ms)
{
    struct usage_seen *seen = seen_of(tally, hash);
    if (seen == NULL)
        return;
    const uint64_t sum = sat_addu(seen->requests, requests);
    seen->requests = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX; /* of one second */
    seen->last_ms = now_ms;
}

void usage_tally_check_invariants(const struct usage_tally *tally)
{
    INVARIANT("TALLY-1", tally->count <= USAGE_TALLY_MAX);
    INVARIANT("TALLY-1", tally->dropped == 0 || tally->count == USAGE_TALLY_MAX);
    for (uint32_t i = 0; i < tally->count; i++) {
        const struct usage_seen *seen = &tally->entries[i];
        uint32_t at = (uint32_t)seen->hash & (SLOTS - 1);
        while (tally->slots[at] != 0 && tally->entries[tally->slots[at] - 1].hash != seen->hash)
            at = (at + 1) & (SLOTS - 1);
        INVARIANT("TALLY-3", seen->hash != 0 && tally->slots[at] == i + 1);
        INVARIANT("TALLY-3", seen->exceeded <= seen->requests);
    }
}

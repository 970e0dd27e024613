/* swim_index.c - from the id of a member to its slot: open addressing, at most half full.
 *
 * A slot is 0 for an empty place, else the slot's number plus one. Ids are random already; they are
 * mixed nevertheless, for whoever sends them may choose them.
 */
#include "gossip/swim_index.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "gossip/swim_internal.h"

void swim_index_put(struct swim *swim, uint64_t id, uint32_t slot)
{
    ASSERT(id != 0 && slot < swim->slots_len);
    const uint32_t mask = swim->index_len - 1;
    uint32_t at = (uint32_t)hash_mix64(id) & mask;
    while (swim->index[at] != 0)
        at = (at + 1) & mask;
    swim->index[at] = slot + 1;
}

void swim_index_rebuild(struct swim *swim)
{
    memset(swim->index, 0, swim->index_len * sizeof *swim->index);
    for (uint32_t slot = 0; slot < swim->slots_len; slot++) {
        if (swim->slots[slot].used)
            swim_index_put(swim, swim->slots[slot].member.record.id, slot);
    }
}

uint32_t swim_lookup(const struct swim *swim, uint64_t id)
{
    const uint32_t mask = swim->index_len - 1;
    uint32_t at = (uint32_t)hash_mix64(id) & mask;
    while (swim->index[at] != 0) {
        const uint32_t slot = swim->index[at] - 1;
        if (swim->slots[slot].member.record.id == id)
            return slot;
        at = (at + 1) & mask;
    }
    return SWIM_SLOT_NONE;
}

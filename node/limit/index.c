/* index.c - insertion, removal and growth in place; see index.h.
 *
 * Growing moves whole clusters: the frontier goes down to a word that follows an empty one, all
 * entries from there to the next empty word come out and go back in by the new rule. Entries whose
 * home is further down cannot be among them (I1), so nobody else's probes are disturbed.
 */
#include "node/limit/index.h"

#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/limit/table_private.h"

enum { INDEX_STRIDE = 256 };

void index_init(struct index *index, const struct slot *slots, uint32_t *words, uint32_t *scratch,
                uint32_t size_max, uint32_t slots_max)
{
    *index = (struct index){.slots = slots, .words = words, .scratch = scratch};
    index->size_max = size_max;
    index->size = size_max < INDEX_SIZE_MIN ? size_max : INDEX_SIZE_MIN;
    index->size_next = index->size;
    while (slots_max >> index->slot_bits != 0)
        index->slot_bits++;
}

static uint32_t slot_in(const struct index *index, uint32_t word)
{
    return (word & ((1u << index->slot_bits) - 1)) - 1;
}

static uint64_t hash_in(const struct index *index, uint32_t word)
{
    return index_hash(index->slots[slot_in(index, word)].id);
}

static bool index_place(struct index *index, uint32_t home, uint32_t word)
{
    const uint32_t end = index->size_max + INDEX_PAD - 1; /* the last word stays 0 */
    while (home < end && index->words[home] != 0)
        home++;
    if (home == end)
        return false;
    index->words[home] = word;
    return true;
}

/* Moves the frontier down by at least INDEX_MOVE_WORDS positions, to the start of a cluster. */
static void index_grow_some(struct index *index)
{
    uint32_t from = index->frontier > INDEX_MOVE_WORDS ? index->frontier - INDEX_MOVE_WORDS : 0;
    while (from > 0 && index->words[from - 1] != 0)
        from--;
    uint32_t count = 0;
    for (uint32_t at = from; at < index->frontier || index->words[at] != 0; at++) {
        if (index->words[at] == 0)
            continue;
        ASSERT(count < INDEX_SCRATCH);
        prefetch(&index->slots[slot_in(index, index->words[at])]);
        index->scratch[count++] = index->words[at];
        index->words[at] = 0;
    }
    index->frontier = from;
    if (from == 0)
        index->size = index->size_next;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t word = index->scratch[i];
        const bool placed = index_place(index, index_home(index, hash_in(index, word)), word);
        ASSERT(placed);
    }
}

static void index_grow_begin(struct index *index)
{
    const uint64_t next = (uint64_t)index->size + index->size / 8;
    index->size_next = next > index->size_max ? index->size_max : (uint32_t)next;
    uint32_t end = index->size;
    while (index->words[end] != 0)
        end++;
    index->frontier = end; /* all old homes are below it: nothing has moved yet */
}

bool index_insert(struct index *index, struct hash128 id, uint32_t slot)
{
    if (index->frontier != 0)
        index_grow_some(index);
    else if (index->size < index->size_max &&
             (uint64_t)(index->used + 1) * 100 > (uint64_t)index->size * INDEX_LOAD_PERCENT)
        index_grow_begin(index);
    const uint64_t hash = index_hash(id);
    const uint32_t word = index_tag(index, hash) | (slot + 1);
    if (!index_place(index, index_home(index, hash), word))
        return false;
    index->used++;
    return true;
}

void index_remove(struct index *index, struct hash128 id, uint32_t slot)
{
    const uint64_t hash = index_hash(id);
    const uint32_t word = index_tag(index, hash) | (slot + 1);
    uint32_t hole = index_home(index, hash);
    while (index->words[hole] != word) {
        ASSERT(index->words[hole] != 0);
        hole++;
    }
    const uint32_t end = index->size_max + INDEX_PAD - 1; /* the last word stays 0 */
    for (uint32_t at = hole + 1; at < end && index->words[at] != 0; at++) {
        if (index_home(index, hash_in(index, index->words[at])) <= hole) {
            index->words[hole] = index->words[at];
            hole = at;
        }
    }
    index->words[hole] = 0;
    index->used--;
}

void index_prefetch(const struct index *index, struct hash128 id)
{
    prefetch_to_write(&index->words[index_home(index, index_hash(id))]);
}

void index_prefetch_run(const struct index *index, struct hash128 id)
{
    for (uint32_t at = index_home(index, index_hash(id)); index->words[at] != 0; at++)
        prefetch(&index->slots[slot_in(index, index->words[at])]);
}

size_t index_bytes(const struct index *index)
{
    return (size_t)index->size_next * sizeof(uint32_t);
}

/* The first position from `at` on, below `end`, that is taken; `end` if there is none. Most are
 * free, so many are looked at together: all are, if the first is and each equals the next. */
static uint32_t index_next(const struct index *index, uint32_t at, uint32_t end)
{
    const uint32_t *words = index->words;
    while (at + INDEX_STRIDE <= end && words[at] == 0 &&
           memcmp(&words[at], &words[at + 1], (INDEX_STRIDE - 1) * sizeof *words) == 0)
        at += INDEX_STRIDE;
    while (at < end && words[at] == 0)
        at++;
    return at;
}

void index_check(const struct index *index)
{
    const uint32_t end = index->size_max + INDEX_PAD;
    uint32_t used = 0;
    uint32_t run = 0; /* the first position of the current cluster */
    for (uint32_t at = 0; at < end; at++) {
        if (index->words[at] == 0) {
            at = index_next(index, at, end);
            run = at;
            if (at == end)
                break;
        }
        const uint64_t hash = hash_in(index, index->words[at]);
        const uint32_t home = index_home(index, hash);
        ASSERT(home >= run && home <= at); /* I1, I2 */
        const uint32_t mask = (1u << index->slot_bits) - 1;
        ASSERT((index->words[at] & ~mask) == index_tag(index, hash));
        used++;
    }
    ASSERT(used == index->used);
}

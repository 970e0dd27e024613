/* retry.c - the retry memory; retry.h tells what it promises. Pure.
 *
 * An entry's tag is a mix of session, sequence, item and part. Sessions are random 64-bit numbers
 * that their clients keep to themselves, so two callers do not meet in a tag by accident. The
 * time is kept in milliseconds modulo 2^32, which is ample for seconds.
 *
 * The low bits of a tag say in which set it is: where a mix of session and sequence points to, and
 * as many sets further as the item's number. So a message is noted in one run through memory,
 * while each set gets as many entries as if every item went anywhere:
 *
 *   sets  ... |      | item 0 | item 1 | item 2 |  ...   | item n |      | ...
 *                    ^ mix of session and sequence
 */
#include "node/cluster/retry.h"

#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"

enum { RUN_BITS = 20 };
#define PART_STEP UINT64_C(0x3779b9) /* odd: the parts of an item are far from one another */

static uint64_t tag_of(const struct retry_memory *memory, const struct retry_key *key)
{
    const uint64_t run = (UINT64_C(1) << RUN_BITS) - 1;
    uint64_t fold;
    memcpy(&fold, memory->key.bytes, sizeof fold);
    const uint64_t message = hash_mix64(hash_mix64(key->session ^ fold) ^ key->seq);
    const uint64_t mixed = hash_mix64(message ^ ((uint64_t)key->item << 8 | key->part));
    const uint64_t place = message + key->item + key->part * PART_STEP;
    const uint64_t tag = (mixed & ~run) | (place & run);
    return tag == 0 ? 1 : tag;
}

/* The set of the tag, or the second one where there are two. */
static struct retry_memory_entry *set_of(const struct retry_memory *memory, uint64_t tag,
                                         uint32_t choice)
{
    const uint64_t hash = choice == 0 ? tag : tag >> 32;
    return &memory->entries[(hash & (memory->sets - 1)) * RETRY_WAYS];
}

static uint32_t ms_of(int64_t now_ns)
{
    return (uint32_t)((uint64_t)now_ns / 1000000);
}

static bool young(const struct retry_memory *memory, const struct retry_memory_entry *entry,
                  uint32_t now_ms)
{
    return entry->tag != 0 && now_ms - entry->at_ms <= memory->keep_ms;
}

int retry_init(struct retry_memory *memory, const struct allocator *allocator,
               const struct hash_key *key, uint32_t sets)
{
    ASSERT(sets > 0 && (sets & (sets - 1)) == 0);
    memset(memory, 0, sizeof *memory);
    memory->allocator = allocator;
    memory->key = *key;
    memory->sets = sets;
    memory->choices = 1;
    memory->keep_ms = RETRY_KEEP_NS / 1000000;
    memory->entries = alloc_array(allocator, (size_t)sets * RETRY_WAYS, sizeof *memory->entries);
    return memory->entries == NULL ? TG_ENOMEM : 0;
}

void retry_fini(struct retry_memory *memory)
{
    if (memory->entries != NULL)
        alloc_put(memory->allocator, memory->entries,
                  (size_t)memory->sets * RETRY_WAYS * sizeof *memory->entries);
    memory->entries = NULL;
}

uint64_t retry_prefetch(const struct retry_memory *memory, const struct retry_key *key)
{
    const uint64_t tag = tag_of(memory, key);
    const struct retry_memory_entry *set = set_of(memory, tag, 0);
    prefetch_to_write(set);
    prefetch_to_write((const char *)set + PREFETCH_LINE);
    return tag;
}

uint16_t retry_attempt(uint64_t node, uint64_t ticket)
{
    return (uint16_t)hash_mix64((ticket & ~RETRY_TICKET_STANDS) ^ hash_mix64(node));
}

/* R3 */
static void claim(struct retry_memory_entry *entry, uint16_t attempt)
{
    for (uint32_t i = 0; i < entry->attempts; i++)
        if (entry->names[i] == attempt)
            return;
    if (entry->attempts < RETRY_ATTEMPTS_MAX) {
        entry->names[entry->attempts++] = attempt;
        if (entry->claims < UINT8_MAX)
            entry->claims++;
    } else {
        entry->claims = UINT8_MAX;
    }
}

/* Who was told that the older answer granted something still counts on it. */
static void keep_claims(const struct retry_memory_entry *older, struct retry_memory_entry *entry)
{
    for (uint32_t i = 0; older->allowed && i < older->attempts; i++)
        claim(entry, older->names[i]);
    if (older->allowed && older->claims == UINT8_MAX)
        entry->claims = UINT8_MAX;
}

/* Where the tag is in its set, else the oldest place. */
static struct retry_memory_entry *place_in(struct retry_memory_entry *set, uint64_t tag,
                                           uint32_t now_ms)
{
    uint32_t oldest = 0;
    uint32_t oldest_ms = 0;
    for (uint32_t i = 0; i < RETRY_WAYS; i++) {
        const uint32_t age_ms = set[i].tag == 0 ? UINT32_MAX : now_ms - set[i].at_ms;
        if (set[i].tag == tag)
            return &set[i];
        oldest = age_ms > oldest_ms ? i : oldest;
        oldest_ms = age_ms > oldest_ms ? age_ms : oldest_ms;
    }
    return &set[oldest];
}

/* Where the tag is, else a free place in the set that has more of them, else the oldest. */
static struct retry_memory_entry *place_among(const struct retry_memory *memory, uint64_t tag,
                                              uint32_t now_ms)
{
    struct retry_memory_entry *best = set_of(memory, tag, 0);
    uint32_t most = 0;
    for (uint32_t choice = 0; choice < memory->choices; choice++) {
        struct retry_memory_entry *set = set_of(memory, tag, choice);
        struct retry_memory_entry *free_place = NULL;
        uint32_t free_count = 0;
        for (uint32_t i = 0; i < RETRY_WAYS; i++) {
            if (set[i].tag == tag)
                return &set[i];
            if (set[i].tag == 0) {
                free_place = &set[i];
                free_count++;
            } else if (most == 0 && best->tag != 0 &&
                       now_ms - set[i].at_ms > now_ms - best->at_ms) {
                best = &set[i];
            }
        }
        if (free_count > most) {
            best = free_place;
            most = free_count;
        }
    }
    return best;
}

/* Every check comes here, and mostly has one set. */
static inline struct retry_memory_entry *place_for(const struct retry_memory *memory, uint64_t tag,
                                                   uint32_t now_ms)
{
    return memory->choices == 1 ? place_in(set_of(memory, tag, 0), tag, now_ms)
                                : place_among(memory, tag, now_ms);
}

uint32_t retry_remember(struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                        bool allowed, uint8_t limit_index, uint64_t granted, int64_t now_ns)
{
    return retry_remember_tag(memory, tag_of(memory, key), attempt, allowed, limit_index, granted,
                              now_ns);
}

uint32_t retry_remember_tag(struct retry_memory *memory, uint64_t tag, uint16_t attempt,
                            bool allowed, uint8_t limit_index, uint64_t granted, int64_t now_ns)
{
    const uint32_t now_ms = ms_of(now_ns);
    struct retry_memory_entry *place = place_for(memory, tag, now_ms);
    const bool fresh = young(memory, place, now_ms);
    const bool again = fresh && place->tag == tag;
    struct retry_memory_entry older;
    if (__builtin_expect(again, 0))
        older = *place;
    memory->dropped += fresh && !again;
    place->tag = tag;
    place->at_ms = now_ms;
    place->allowed = allowed;
    place->limit_index = limit_index;
    place->claims = 0;
    place->attempts = 1;
    place->granted = granted;
    memset(place->names, 0, sizeof place->names);
    place->names[0] = attempt;
    if (__builtin_expect(again, 0))
        keep_claims(&older, place);
    return (uint32_t)(place - memory->entries);
}

static struct retry_memory_entry *find(const struct retry_memory *memory,
                                       const struct retry_key *key, int64_t now_ns)
{
    const uint64_t tag = tag_of(memory, key);
    for (uint32_t choice = 0; choice < memory->choices; choice++) {
        struct retry_memory_entry *set = set_of(memory, tag, choice);
        for (uint32_t i = 0; i < RETRY_WAYS; i++)
            if (set[i].tag == tag && young(memory, &set[i], ms_of(now_ns)))
                return &set[i];
    }
    return NULL;
}

bool retry_recall(struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                  int64_t now_ns, struct retry_memory_entry *out)
{
    struct retry_memory_entry *entry = find(memory, key, now_ns);
    if (entry == NULL)
        return false;
    claim(entry, attempt);
    *out = *entry;
    return true;
}

bool retry_look(const struct retry_memory *memory, const struct retry_key *key, int64_t now_ns,
                struct retry_memory_entry *out)
{
    const struct retry_memory_entry *entry = find(memory, key, now_ns);
    if (entry != NULL)
        *out = *entry;
    return entry != NULL;
}

bool retry_told(const struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                int64_t now_ns, struct retry_memory_entry *out)
{
    if (!retry_look(memory, key, now_ns, out))
        return false;
    for (uint32_t i = 0; i < out->attempts; i++)
        if (out->names[i] == attempt)
            return true;
    return out->claims == UINT8_MAX;
}

/* The place of `attempt` among those who were told, or how many these are. */
static uint32_t name_of(const struct retry_memory_entry *entry, uint16_t attempt)
{
    uint32_t at = 0;
    while (at < entry->attempts && entry->names[at] != attempt)
        at++;
    return at;
}

enum retry_hold retry_held(const struct retry_memory *memory, const struct retry_key *key,
                           uint16_t attempt, int64_t now_ns, struct retry_memory_entry *out,
                           uint32_t *index)
{
    const struct retry_memory_entry *entry = find(memory, key, now_ns);
    if (entry == NULL || (name_of(entry, attempt) == entry->attempts && entry->claims < UINT8_MAX))
        return RETRY_HELD_NOT;
    *out = *entry;
    *index = (uint32_t)(entry - memory->entries);
    return entry->claims > 0 ? RETRY_HELD_SHARED : RETRY_HELD_ALONE;
}

void retry_let_go(struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                  uint64_t keep, int64_t now_ns)
{
    struct retry_memory_entry *entry = find(memory, key, now_ns);
    if (entry == NULL || entry->claims == UINT8_MAX) /* R3 */
        return;
    const uint32_t at = name_of(entry, attempt);
    if (at == entry->attempts)
        return;
    if (entry->claims == 0 && keep == 0) {
        memset(entry, 0, sizeof *entry);
    } else if (entry->claims == 0) {
        entry->granted = keep < entry->granted ? keep : entry->granted;
    } else if (keep == 0) {
        entry->claims--;
        entry->names[at] = entry->names[--entry->attempts];
    }
}

uint32_t retry_take(struct retry_memory *memory, const struct retry_memory_entry *entry,
                    int64_t now_ns)
{
    const uint32_t now_ms = ms_of(now_ns);
    struct retry_memory_entry *place = place_for(memory, entry->tag, now_ms);
    if (place->tag != entry->tag && young(memory, place, now_ms))
        memory->dropped++;
    *place = *entry;
    return (uint32_t)(place - memory->entries);
}

uint32_t retry_age_ms(const struct retry_memory_entry *entry, int64_t now_ns)
{
    return ms_of(now_ns) - entry->at_ms;
}

uint32_t retry_made_ms(uint32_t age_ms, int64_t now_ns)
{
    return ms_of(now_ns) - age_ms;
}

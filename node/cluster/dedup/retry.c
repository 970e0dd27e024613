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
#include "node/cluster/dedup/retry.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

static_assert(RETRY_WAYS == 4, "place_in compares four");

uint64_t retry_message(const struct retry_memory *memory, uint64_t session, uint64_t seq)
{
    uint64_t fold;
    memcpy(&fold, memory->key.bytes, sizeof fold);
    return hash_mix64(hash_mix64(session ^ fold) ^ seq);
}

uint64_t retry_tag(const struct retry_memory *memory, const struct retry_key *key)
{
    return retry_item_tag(retry_message(memory, key->session, key->seq), key->item, key->part);
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

uint16_t retry_attempt(uint64_t node, uint64_t ticket)
{
    return (uint16_t)hash_mix64((ticket & ~RETRY_TICKET_STANDS) ^ hash_mix64(node));
}

/* RETRY-3 */
static void claim(struct retry_memory_entry *entry, uint16_t attempt)
{
    ASSERT(entry->attempts <= RETRY_ATTEMPTS_MAX); /* RETRY-3 */
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

/* The higher, the sooner the place is given to another answer: by its age, and free ones first. */
static inline uint64_t rank_of(const struct retry_memory_entry *set, uint32_t i, uint32_t now_ms)
{
    const uint32_t free_place = -(uint32_t)(set[i].tag == 0);
    return (uint64_t)((now_ms - set[i].at_ms) | free_place) << 8 | (RETRY_WAYS - i);
}

static inline uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The oldest place of a set; without a branch, for there is no telling which it will be. */
static inline struct retry_memory_entry *oldest_in(struct retry_memory_entry *set, uint32_t now_ms)
{
    const uint64_t rank = higher(higher(rank_of(set, 0, now_ms), rank_of(set, 1, now_ms)),
                                 higher(rank_of(set, 2, now_ms), rank_of(set, 3, now_ms)));
    return &set[RETRY_WAYS - (rank & 0xff)];
}

/* Where the tag is in its set, else the oldest place. */
static inline struct retry_memory_entry *place_in(struct retry_memory_entry *set, uint64_t tag,
                                                  uint32_t now_ms)
{
    return set[0].tag == tag   ? &set[0]
           : set[1].tag == tag ? &set[1]
           : set[2].tag == tag ? &set[2]
           : set[3].tag == tag ? &set[3]
                               : oldest_in(set, now_ms);
}

/* Where the tag is, else a free place in the set that has more of them, else the oldest. */
static __attribute__((noinline)) struct retry_memory_entry *
place_among(const struct retry_memory *memory, uint64_t tag, uint32_t now_ms)
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
    return retry_remember_tag(memory, retry_tag(memory, key), attempt, allowed, limit_index,
                              granted, now_ns);
}

static inline void note(struct retry_memory_entry *place, uint64_t tag, uint32_t at_ms,
                        uint16_t attempt, bool allowed, uint8_t limit_index, uint64_t granted)
{
    place->tag = tag;
    place->at_ms = at_ms;
    place->allowed = allowed;
    place->limit_index = limit_index;
    place->claims = 0;
    place->attempts = 1;
    place->granted = granted;
    memset(place->names, 0, sizeof place->names);
    place->names[0] = attempt;
}

/* In place of an answer that is still known. */
static __attribute__((noinline)) void note_again(struct retry_memory_entry *place, uint32_t at_ms,
                                                 uint16_t attempt, bool allowed,
                                                 uint8_t limit_index, uint64_t granted)
{
    const struct retry_memory_entry older = *place;
    note(place, older.tag, at_ms, attempt, allowed, limit_index, granted);
    keep_claims(&older, place);
}

uint32_t retry_remember_tag(struct retry_memory *memory, uint64_t tag, uint16_t attempt,
                            bool allowed, uint8_t limit_index, uint64_t granted, int64_t now_ns)
{
    const uint32_t now_ms = ms_of(now_ns);
    struct retry_memory_entry *place = place_for(memory, tag, now_ms);
    const bool fresh = young(memory, place, now_ms);
    if (__builtin_expect(fresh && place->tag == tag, 0)) {
        note_again(place, now_ms, attempt, allowed, limit_index, granted);
    } else {
        memory->dropped += fresh;
        note(place, tag, now_ms, attempt, allowed, limit_index, granted);
    }
    return (uint32_t)(place - memory->entries);
}

static struct retry_memory_entry *find(const struct retry_memory *memory,
                                       const struct retry_key *key, int64_t now_ns)
{
    const uint64_t tag = retry_tag(memory, key);
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
    if (entry == NULL || entry->claims == UINT8_MAX) /* RETRY-3 */
        return;
    const uint32_t at = name_of(entry, attempt);
    if (at == entry->attempts)
        return;
    ASSERT(entry->attempts > 0 && entry->attempts <= RETRY_ATTEMPTS_MAX);
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
    ASSERT(entry->attempts <= RETRY_ATTEMPTS_MAX); /* RETRY-3 */
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

static void check_entry(const struct retry_memory *memory, uint32_t index)
{
    const struct retry_memory_entry *entry = &memory->entries[index];
    uint32_t places = 0;
    INVARIANT("RETRY-3", entry->attempts <= RETRY_ATTEMPTS_MAX);
    for (uint32_t choice = 0; choice < memory->choices && entry->tag != 0; choice++) {
        const struct retry_memory_entry *set = set_of(memory, entry->tag, choice);
        for (uint32_t i = 0; i < RETRY_WAYS; i++)
            places += set[i].tag == entry->tag && &set[i] == entry;
        for (uint32_t i = 0; i < RETRY_WAYS; i++)
            INVARIANT("RETRY-4", set[i].tag != entry->tag || &set[i] == entry);
    }
    INVARIANT("RETRY-4", entry->tag == 0 || places > 0);
}

void retry_check_invariants(const struct retry_memory *memory, uint32_t from, uint32_t count)
{
    const uint32_t all = memory->sets * RETRY_WAYS;
    INVARIANT("RETRY-4", memory->sets > 0 && (memory->sets & (memory->sets - 1)) == 0);
    INVARIANT("RETRY-4", memory->choices == 1 || memory->choices == 2);
    for (uint32_t i = 0; i < count && i < all; i++)
        check_entry(memory, (from + i) % all);
}

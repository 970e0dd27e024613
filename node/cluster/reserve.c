/* reserve.c - the memory of reservations; reserve.h tells what it promises. Pure. */
#include "node/cluster/reserve.h"

#include <string.h>

#include "base/assert.h"

int reserve_init(struct reserve *reserve, const struct allocator *allocator,
                 const struct hash_key *key, uint32_t sets)
{
    memset(reserve, 0, sizeof *reserve);
    const int error = retry_init(&reserve->answers, allocator, key, sets);
    if (error != 0)
        return error;
    reserve->answers.choices = 2; /* then hardly any is lost before three quarters are full */
    reserve->answers.keep_ms = RESERVE_KEEP_NS / 1000000;
    reserve->marks_max = sets * RESERVE_MARKS_PER_SET;
    reserve->places = alloc_array(allocator, (size_t)sets * RETRY_WAYS, sizeof *reserve->places);
    reserve->marks = alloc_array(allocator, reserve->marks_max, sizeof *reserve->marks);
    return reserve->places == NULL || reserve->marks == NULL ? TG_ENOMEM : 0;
}

void reserve_fini(struct reserve *reserve)
{
    const struct allocator *allocator = reserve->answers.allocator;
    const size_t entries = (size_t)reserve->answers.sets * RETRY_WAYS;
    if (reserve->places != NULL)
        alloc_put(allocator, reserve->places, entries * sizeof *reserve->places);
    if (reserve->marks != NULL)
        alloc_put(allocator, reserve->marks, reserve->marks_max * sizeof *reserve->marks);
    reserve->places = NULL;
    reserve->marks = NULL;
    retry_fini(&reserve->answers);
}

struct retry_key reserve_key(const struct retry_key *key, struct hash128 id)
{
    struct retry_key out = *key;
    out.session ^= hash_mix64(id.lo);
    out.part &= RETRY_UNDO;
    return out;
}

void reserve_note(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                  bool allowed, uint8_t limit_index, int64_t now_ns, const struct reservation *what)
{
    const uint32_t at = retry_remember(&reserve->answers, key, attempt, allowed, limit_index,
                                       what->granted, now_ns);
    struct reserve_place *place = &reserve->places[at];
    *place = (struct reserve_place){.first = reserve->marks_end,
                                    .term = what->term,
                                    .seq = what->seq,
                                    .count = what->marks == NULL ? 0 : what->count};
    /* They lie in one piece: what would be cut by the ring's end begins anew. */
    const uint32_t at_end = (uint32_t)(reserve->marks_end % reserve->marks_max);
    if (at_end + place->count > reserve->marks_max)
        place->first += reserve->marks_max - at_end;
    for (uint32_t i = 0; i < place->count; i++)
        reserve->marks[(place->first + i) % reserve->marks_max] = what->marks[i];
    reserve->marks_end = place->first + place->count;
}

enum reserve_hold reserve_find(const struct reserve *reserve, const struct retry_key *key,
                               uint16_t attempt, int64_t now_ns, struct reservation *out)
{
    struct retry_memory_entry entry;
    uint32_t at;
    const enum retry_hold hold = retry_held(&reserve->answers, key, attempt, now_ns, &entry, &at);
    if (hold == RETRY_HELD_NOT || !entry.allowed || entry.granted == 0)
        return RESERVE_UNKNOWN;
    const struct reserve_place *place = &reserve->places[at];
    const bool there = reserve->marks_end - place->first <= reserve->marks_max;
    *out = (struct reservation){.term = place->term,
                                .seq = place->seq,
                                .granted = entry.granted,
                                .count = there ? place->count : 0,
                                .marks = &reserve->marks[place->first % reserve->marks_max]};
    if (hold == RETRY_HELD_SHARED)
        return RESERVE_SHARED;
    return out->count == 0 ? RESERVE_UNKNOWN : RESERVE_ALONE; /* V4 */
}

/* Where the word of an undo that came too early is left: beside the part's answer, by attempt. */
static struct retry_key key_of_word(const struct retry_key *key, uint16_t attempt)
{
    struct retry_key out = *key;
    out.session ^= hash_mix64(UINT64_C(1) << 32 | attempt);
    out.part |= RETRY_UNDO;
    return out;
}

void reserve_call_off(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                      int64_t now_ns)
{
    const struct retry_key word = key_of_word(key, attempt);
    (void)retry_remember(&reserve->answers, &word, attempt, false, 0, 0, now_ns);
}

bool reserve_called_off(const struct reserve *reserve, const struct retry_key *key,
                        uint16_t attempt, int64_t now_ns)
{
    const struct retry_key word = key_of_word(key, attempt);
    struct retry_memory_entry ignored;
    return retry_look(&reserve->answers, &word, now_ns, &ignored);
}

void reserve_undone(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                    uint64_t keep, int64_t now_ns)
{
    retry_let_go(&reserve->answers, key, attempt, keep, now_ns);
}

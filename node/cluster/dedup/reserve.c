/* reserve.c - the memory of reservations; reserve.h tells what it promises. Pure. */
#include "node/cluster/dedup/reserve.h"

#include <string.h>

#include "base/assert.h"

int reserve_init(struct reserve *reserve, const struct allocator *allocator,
                 const struct hash_key *key, uint32_t sets, uint32_t vnodes)
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
    reserve->vnodes = vnodes;
    reserve->heads = alloc_array(allocator, vnodes, sizeof *reserve->heads);
    if (reserve->places == NULL || reserve->marks == NULL || reserve->heads == NULL)
        return TG_ENOMEM;
    memset(reserve->heads, 0xff, vnodes * sizeof *reserve->heads); /* RESERVE_NONE each */
    return 0;
}

void reserve_fini(struct reserve *reserve)
{
    const struct allocator *allocator = reserve->answers.allocator;
    const size_t entries = (size_t)reserve->answers.sets * RETRY_WAYS;
    if (reserve->places != NULL)
        alloc_put(allocator, reserve->places, entries * sizeof *reserve->places);
    if (reserve->marks != NULL)
        alloc_put(allocator, reserve->marks, reserve->marks_max * sizeof *reserve->marks);
    if (reserve->heads != NULL)
        alloc_put(allocator, reserve->heads, reserve->vnodes * sizeof *reserve->heads);
    reserve->places = NULL;
    reserve->marks = NULL;
    reserve->heads = NULL;
    retry_fini(&reserve->answers);
}

struct retry_key reserve_key(const struct retry_key *key, struct hash128 id)
{
    struct retry_key out = *key;
    out.session ^= hash_mix64(id.lo);
    out.part &= RETRY_UNDO;
    return out;
}

uint16_t reserve_fold(const struct hash128 *ids, uint32_t count)
{
    uint64_t fold = count;
    for (uint32_t i = 0; i < count; i++)
        fold = hash_mix64(fold ^ ids[i].lo);
    return (uint16_t)fold;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Takes the place out of the chain it is in. A place that was never used is all zero: count tells
 * that it is in none. */
static void leave_chain(struct reserve *reserve, uint32_t at)
{
    struct reserve_place *place = &reserve->places[at];
    if (place->count == 0)
        return;
    place->count = 0;
    ASSERT(place->vnode < reserve->vnodes && place->newer != at &&
           place->older != at); /* RESERVE-7 */
    if (place->newer == RESERVE_NONE)
        reserve->heads[place->vnode] = place->older;
    else
        reserve->places[place->newer].older = place->older;
    if (place->older != RESERVE_NONE)
        reserve->places[place->older].newer = place->newer;
}

/* Writes the place of a new entry, and the marks behind those that are there. */
static void fill_place(struct reserve *reserve, uint32_t at, const struct reservation *what)
{
    ASSERT(what->vnode < reserve->vnodes && what->count <= PEER_LIMITS_MAX);
    struct reserve_place *place = &reserve->places[at];
    leave_chain(reserve, at);
    if (what->marks == NULL || what->count == 0)
        return;
    *place = (struct reserve_place){.first = reserve->marks_end,
                                    .term = what->term,
                                    .seq = what->seq,
                                    .vnode = what->vnode,
                                    .newer = RESERVE_NONE,
                                    .older = reserve->heads[what->vnode],
                                    .fold = what->fold,
                                    .count = what->count};
    /* They lie in one piece: what would be cut by the ring's end begins anew. */
    const uint32_t at_end = (uint32_t)(reserve->marks_end % reserve->marks_max);
    if (at_end + place->count > reserve->marks_max)
        place->first += reserve->marks_max - at_end;
    for (uint32_t i = 0; i < place->count; i++)
        reserve->marks[(place->first + i) % reserve->marks_max] = what->marks[i];
    reserve->marks_end = place->first + place->count;
    if (place->older != RESERVE_NONE)
        reserve->places[place->older].newer = at;
    reserve->heads[what->vnode] = at;
}

static bool marks_there(const struct reserve *reserve, const struct reserve_place *place)
{
    return reserve->marks_end - place->first <= reserve->marks_max;
}

/* ---- what is known --------------------------------------------------------------------------- */

void reserve_note(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                  bool allowed, uint8_t limit_index, int64_t now_ns, const struct reservation *what)
{
    const uint32_t at = retry_remember(&reserve->answers, key, attempt, allowed, limit_index,
                                       what->granted, now_ns);
    fill_place(reserve, at, what);
}

void reserve_learn(struct reserve *reserve, const struct retry_memory_entry *entry, int64_t now_ns)
{
    leave_chain(reserve, retry_take(&reserve->answers, entry, now_ns));
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
    const bool there = marks_there(reserve, place);
    *out = (struct reservation){.vnode = place->vnode,
                                .term = place->term,
                                .seq = place->seq,
                                .granted = entry.granted,
                                .fold = place->fold,
                                .count = there ? place->count : 0,
                                .marks = &reserve->marks[place->first % reserve->marks_max]};
    if (hold == RETRY_HELD_SHARED)
        return RESERVE_SHARED;
    return out->count == 0 ? RESERVE_UNKNOWN : RESERVE_ALONE; /* RESERVE-4 */
}

struct retry_key reserve_word(const struct retry_key *key, uint16_t attempt)
{
    struct retry_key out = *key;
    out.session ^= hash_mix64(UINT64_C(1) << 32 | attempt);
    out.part |= RETRY_UNDO;
    return out;
}

void reserve_call_off(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                      int64_t now_ns)
{
    const struct retry_key word = reserve_word(key, attempt);
    leave_chain(reserve, retry_remember(&reserve->answers, &word, attempt, false, 0, 0, now_ns));
}

bool reserve_called_off(const struct reserve *reserve, const struct retry_key *key,
                        uint16_t attempt, int64_t now_ns)
{
    const struct retry_key word = reserve_word(key, attempt);
    struct retry_memory_entry ignored;
    return retry_look(&reserve->answers, &word, now_ns, &ignored);
}

void reserve_undone(struct reserve *reserve, const struct retry_key *key, uint16_t attempt,
                    uint64_t keep, int64_t now_ns)
{
    retry_let_go(&reserve->answers, key, attempt, keep, now_ns);
}

/* ---- RESERVE-6: from leader to leader
 * ------------------------------------------------------------- */

uint32_t reserve_first(const struct reserve *reserve, uint32_t vnode)
{
    ASSERT(vnode < reserve->vnodes);
    return reserve->heads[vnode];
}

/* What another one needs to know of the reservation; false if nothing of it can be undone. */
static bool describe(const struct reserve *reserve, uint32_t at, uint32_t resets, int64_t now_ns,
                     struct peer_reservation *out)
{
    const struct retry_memory_entry *entry = &reserve->answers.entries[at];
    const struct reserve_place *place = &reserve->places[at];
    if (entry->tag == 0 || entry->granted == 0 || !entry->allowed || !marks_there(reserve, place))
        return false;
    *out = (struct peer_reservation){.tag = entry->tag,
                                     .age_ms = retry_age_ms(entry, now_ns),
                                     .limit_index = entry->limit_index,
                                     .claims = entry->claims,
                                     .attempts = entry->attempts,
                                     .granted = entry->granted,
                                     .seq = place->seq,
                                     .fold = place->fold,
                                     .count = place->count};
    memcpy(out->names, entry->names, sizeof out->names);
    for (uint32_t i = 0; i < place->count; i++) {
        const struct limit_mark *mark = &reserve->marks[(place->first + i) % reserve->marks_max];
        out->marks[i] = (struct peer_mark){.place = mark->place,
                                           .at_ns = mark->at_ns,
                                           .part = mark->part,
                                           .nothing = mark->given == LIMIT_GIVEN_NOTHING ||
                                                      mark->resets != resets};
    }
    return out->age_ms <= reserve->answers.keep_ms;
}

bool reserve_next(const struct reserve *reserve, uint32_t *at, uint32_t resets, int64_t now_ns,
                  struct peer_reservation *out)
{
    while (*at != RESERVE_NONE) {
        const uint32_t here = *at;
        *at = reserve->places[here].older;
        if (describe(reserve, here, resets, now_ns, out))
            return true;
    }
    return false;
}

void reserve_take(struct reserve *reserve, uint32_t vnode, const struct term *term,
                  const struct peer_reservation *what, uint32_t resets, int64_t now_ns)
{
    struct limit_mark marks[PEER_LIMITS_MAX];
    struct retry_memory_entry entry = {.tag = what->tag,
                                       .at_ms = retry_made_ms(what->age_ms, now_ns),
                                       .allowed = true,
                                       .limit_index = what->limit_index,
                                       .claims = what->claims,
                                       .attempts = what->attempts,
                                       .granted = what->granted};
    memcpy(entry.names, what->names, sizeof entry.names);
    for (uint32_t i = 0; i < what->count; i++)
        marks[i] = (struct limit_mark){.place = what->marks[i].place,
                                       .at_ns = what->marks[i].at_ns,
                                       .part = what->marks[i].part,
                                       .resets = resets,
                                       .given = what->marks[i].nothing ? LIMIT_GIVEN_NOTHING
                                                                       : LIMIT_GIVEN_UNKNOWN};
    const struct reservation reservation = {.vnode = vnode,
                                            .term = *term,
                                            .seq = what->seq,
                                            .fold = what->fold,
                                            .count = what->count,
                                            .marks = marks};
    fill_place(reserve, retry_take(&reserve->answers, &entry, now_ns), &reservation);
}

void reserve_opened(struct reserve *reserve, uint32_t vnode, const struct term *base,
                    uint64_t base_seq, const struct term *term)
{
    ASSERT(vnode < reserve->vnodes && term_compare(base, term) < 0); /* RESERVE-6 */
    for (uint32_t at = reserve->heads[vnode], older; at != RESERVE_NONE; at = older) {
        struct reserve_place *place = &reserve->places[at];
        older = place->older;
        if (term_compare(&place->term, base) != 0 || place->seq > base_seq) {
            memset(&reserve->answers.entries[at], 0, sizeof *reserve->answers.entries);
            leave_chain(reserve, at);
            continue;
        }
        place->term = *term;
        place->seq = base_seq;
        for (uint32_t i = 0; i < place->count && marks_there(reserve, place); i++) {
            struct limit_mark *mark = &reserve->marks[(place->first + i) % reserve->marks_max];
            if (mark->given != LIMIT_GIVEN_NOTHING)
                mark->given = LIMIT_GIVEN_UNKNOWN;
        }
    }
}

/* ---- what always holds ----------------------------------------------------------------------- */

void reserve_check_invariants(const struct reserve *reserve)
{
    const uint32_t places = reserve->answers.sets * RETRY_WAYS;
    uint32_t chained = 0;
    for (uint32_t vnode = 0; vnode < reserve->vnodes; vnode++) {
        uint32_t newer = RESERVE_NONE;
        for (uint32_t at = reserve->heads[vnode]; at != RESERVE_NONE; chained++) {
            INVARIANT("RESERVE-7", at < places && chained < places);
            const struct reserve_place *place = &reserve->places[at];
            INVARIANT("RESERVE-7", place->vnode == vnode && place->newer == newer);
            INVARIANT("RESERVE-7", place->count > 0 && place->count <= PEER_LIMITS_MAX);
            INVARIANT("RESERVE-7", place->first + place->count <= reserve->marks_end);
            newer = at;
            at = place->older;
        }
    }
}

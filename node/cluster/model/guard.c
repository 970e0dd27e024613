/* guard.c - cuts of a line of terms; guard.h tells the idea. Pure. */
#include "node/cluster/model/guard.h"

#include <assert.h>
#include <string.h>

static_assert(GUARD_CUTS_MAX >= 3, "a full list has a cut between its newest and its oldest");

void guard_add(struct guard *guard, const struct term *term, uint64_t seq)
{
    if (guard->count == GUARD_CUTS_MAX) {
        guard->cuts[GUARD_CUTS_MAX - 2] = guard->cuts[GUARD_CUTS_MAX - 1];
        guard->count--;
    }
    memmove(&guard->cuts[1], &guard->cuts[0], guard->count * sizeof guard->cuts[0]);
    guard->cuts[0] = (struct guard_cut){.term = *term, .seq = seq};
    guard->count++;
}

int guard_find(const struct guard *guard, const struct term *term)
{
    for (int i = 0; i < guard->count; i++)
        if (term_compare(&guard->cuts[i].term, term) == 0)
            return i;
    return -1;
}

bool guard_apart(const struct guard *guard, const struct term *state, uint64_t seq)
{
    if (term_is_none(state))
        return false;
    const int cut = guard_find(guard, state);
    if (cut >= 0)
        return seq > guard->cuts[cut].seq;
    return guard->blind ||
           (guard->count > 0 && term_compare(state, &guard->cuts[guard->count - 1].term) > 0);
}

bool guard_includes(const struct guard *guard, const struct term *term, uint64_t seq)
{
    const int cut = guard_find(guard, term);
    return cut >= 0 && seq <= guard->cuts[cut].seq;
}

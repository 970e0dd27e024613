/* lineage.c - cuts of a line of terms; lineage.h tells the idea. Pure. */
#include "node/cluster/model/lineage.h"
#include "base/assert.h"

#include <assert.h>
#include <string.h>

static_assert(LINEAGE_FORKS_MAX >= 3, "a full list has a cut between its newest and its oldest");

void lineage_add(struct lineage *lineage, const struct term *term, uint64_t seq)
{
    ASSERT(lineage->count <= LINEAGE_FORKS_MAX);
    if (lineage->count == LINEAGE_FORKS_MAX) {
        lineage->cuts[LINEAGE_FORKS_MAX - 2] = lineage->cuts[LINEAGE_FORKS_MAX - 1];
        lineage->count--;
    }
    memmove(&lineage->cuts[1], &lineage->cuts[0], lineage->count * sizeof lineage->cuts[0]);
    lineage->cuts[0] = (struct lineage_fork){.term = *term, .seq = seq};
    lineage->count++;
}

int lineage_find(const struct lineage *lineage, const struct term *term)
{
    for (int i = 0; i < lineage->count; i++)
        if (term_compare(&lineage->cuts[i].term, term) == 0)
            return i;
    return -1;
}

bool lineage_apart(const struct lineage *lineage, const struct term *state, uint64_t seq)
{
    if (term_is_none(state))
        return false;
    const int cut = lineage_find(lineage, state);
    if (cut >= 0)
        return seq > lineage->cuts[cut].seq;
    return lineage->blind ||
           (lineage->count > 0 && term_compare(state, &lineage->cuts[lineage->count - 1].term) > 0);
}

bool lineage_includes(const struct lineage *lineage, const struct term *term, uint64_t seq)
{
    const int cut = lineage_find(lineage, term);
    return cut >= 0 && seq <= lineage->cuts[cut].seq;
}

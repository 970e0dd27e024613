/* fair_share.c - the max-min fair level, by one walk over bins; see fair_share.h.
 *
 *   bin   0 | 2^20 ..  64 bins .. | 2^21 ..  64 bins .. | ... | 2^60 and more
 *
 * A bin is found by the position of the highest bit of ask / weight and the six bits behind it. The
 * walk begins at the lowest: as long as all keys from here on could have what those of this bin
 * ask, these get it, and are done with; where they could not, what is left is shared by weight.
 *
 * FAIRSHARE-1  The sums of a bin saturate. A sum of asks that did is above any spare rate there is.
 */
#include "node/limit/engine/fair_share.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"

enum { FAIR_SHARE_FINE_LOG2 = 6 };
static_assert(1 << FAIR_SHARE_FINE_LOG2 == FAIR_SHARE_FINE,
              "the bits behind the highest one name a bin");
static_assert(FAIR_SHARE_RATE_MAX < UINT64_C(1) << FAIR_SHARE_EXPONENT_END,
              "rates have bins (FAIRSHARE-1)");

static size_t bin_of(uint64_t per_weight)
{
    if (per_weight < UINT64_C(1) << FAIR_SHARE_EXPONENT_MIN)
        return 0;
    const unsigned exponent = 63 - (unsigned)__builtin_clzll(per_weight);
    if (exponent >= FAIR_SHARE_EXPONENT_END)
        return FAIR_SHARE_BINS - 1;
    const size_t fine = (per_weight >> (exponent - FAIR_SHARE_FINE_LOG2)) & (FAIR_SHARE_FINE - 1);
    return 1 + (size_t)(exponent - FAIR_SHARE_EXPONENT_MIN) * FAIR_SHARE_FINE + fine;
}

void fair_share_clear(struct fair_share *fair_share)
{
    memset(fair_share, 0, sizeof *fair_share);
}

static void share_add(struct fair_share_bin *share, uint64_t weight, uint64_t ask)
{
    share->weight = sat_addu(share->weight, weight);
    share->ask = sat_addu(share->ask, ask);
}

void fair_share_add(struct fair_share *fair_share, uint64_t weight, uint64_t ask)
{
    if (weight > 0)
        share_add(&fair_share->bins[bin_of(ask / weight)], weight, ask);
}

uint64_t fair_share_taken(const struct fair_share_bin *share, uint64_t level)
{
    const uint64_t most = sat_muldiv(share->weight, level, 1);
    return share->ask < most ? share->ask : most;
}

uint64_t fair_share_level(const struct fair_share *fair_share, uint64_t spare, uint64_t *left)
{
    uint64_t weight = 0;
    uint64_t rest = spare;
    for (size_t i = 0; i < FAIR_SHARE_BINS; i++)
        weight = sat_addu(weight, fair_share->bins[i].weight);
    for (size_t i = 0; i < FAIR_SHARE_BINS; i++) {
        const struct fair_share_bin *bin = &fair_share->bins[i];
        if (bin->weight == 0)
            continue;
        const unsigned __int128 for_all = (unsigned __int128)bin->ask * weight;
        if (for_all > (unsigned __int128)rest * bin->weight) {
            *left = 0;
            return rest / weight;
        }
        ASSERT(bin->ask <= rest &&
               bin->weight <= weight); /* weights have 32 bits: no sum saturates */
        rest -= bin->ask;
        weight -= bin->weight;
    }
    *left = rest;
    return spare;
}

size_t fair_share_summary(const struct fair_share *fair_share, uint64_t near,
                          struct fair_share_bin *out)
{
    const size_t fine_from = bin_of(near / 2);
    const size_t fine_end = bin_of(sat_muldiv(near, 2, 1));
    size_t count = 0;
    size_t group_end = 0; /* bins before it are of the share added last */
    for (size_t i = 0; i < FAIR_SHARE_BINS; i++) {
        const struct fair_share_bin *bin = &fair_share->bins[i];
        if (bin->weight == 0)
            continue;
        const bool fine = i >= fine_from && i < fine_end;
        if (i >= group_end || fine) {
            out[count++] = (struct fair_share_bin){0, 0};
            const size_t octave = i == 0 ? 0 : (i - 1) / FAIR_SHARE_FINE;
            group_end = fine ? i + 1 : i == 0 ? 1 : 1 + (octave + 1) * FAIR_SHARE_FINE;
        }
        ASSERT(count >= 1 && count <= FAIR_SHARE_SUMMARY_MAX);
        share_add(&out[count - 1], bin->weight, bin->ask);
    }
    return count;
}

/* water.c - the level of the water, by one walk over bins; see water.h.
 *
 *   bin   0 | 2^20 ..  64 bins .. | 2^21 ..  64 bins .. | ... | 2^60 and more
 *
 * A bin is found by the position of the highest bit of ask / weight and the six bits behind it. The
 * walk begins at the lowest: as long as all keys from here on could have what those of this bin
 * ask, these get it, and are done with; where they could not, what is left is shared by weight.
 *
 * W1  The sums of a bin saturate. A sum of asks that did is above any spare rate there is.
 */
#include "node/limit/water.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/sat.h"

enum { WATER_FINE_LOG2 = 6 };
static_assert(1 << WATER_FINE_LOG2 == WATER_FINE, "the bits behind the highest one name a bin");
static_assert(WATER_RATE_MAX < UINT64_C(1) << WATER_EXPONENT_END, "rates have bins (W1)");

static size_t bin_of(uint64_t per_weight)
{
    if (per_weight < UINT64_C(1) << WATER_EXPONENT_MIN)
        return 0;
    const unsigned exponent = 63 - (unsigned)__builtin_clzll(per_weight);
    if (exponent >= WATER_EXPONENT_END)
        return WATER_BINS - 1;
    const size_t fine = (per_weight >> (exponent - WATER_FINE_LOG2)) & (WATER_FINE - 1);
    return 1 + (size_t)(exponent - WATER_EXPONENT_MIN) * WATER_FINE + fine;
}

void water_clear(struct water *water)
{
    memset(water, 0, sizeof *water);
}

static void share_add(struct water_share *share, uint64_t weight, uint64_t ask)
{
    share->weight = sat_addu(share->weight, weight);
    share->ask = sat_addu(share->ask, ask);
}

void water_add(struct water *water, uint64_t weight, uint64_t ask)
{
    if (weight > 0)
        share_add(&water->bins[bin_of(ask / weight)], weight, ask);
}

uint64_t water_taken(const struct water_share *share, uint64_t level)
{
    const uint64_t most = sat_muldiv(share->weight, level, 1);
    return share->ask < most ? share->ask : most;
}

uint64_t water_level(const struct water *water, uint64_t spare, uint64_t *left)
{
    uint64_t weight = 0;
    uint64_t rest = spare;
    for (size_t i = 0; i < WATER_BINS; i++)
        weight = sat_addu(weight, water->bins[i].weight);
    for (size_t i = 0; i < WATER_BINS; i++) {
        const struct water_share *bin = &water->bins[i];
        if (bin->weight == 0)
            continue;
        const unsigned __int128 for_all = (unsigned __int128)bin->ask * weight;
        if (for_all > (unsigned __int128)rest * bin->weight) {
            *left = 0;
            return rest / weight;
        }
        rest -= bin->ask;
        weight -= bin->weight;
    }
    *left = rest;
    return spare;
}

size_t water_shares(const struct water *water, uint64_t near, struct water_share *out)
{
    const size_t fine_from = bin_of(near / 2);
    const size_t fine_end = bin_of(sat_muldiv(near, 2, 1));
    size_t count = 0;
    size_t group_end = 0; /* bins before it are of the share added last */
    for (size_t i = 0; i < WATER_BINS; i++) {
        const struct water_share *bin = &water->bins[i];
        if (bin->weight == 0)
            continue;
        const bool fine = i >= fine_from && i < fine_end;
        if (i >= group_end || fine) {
            out[count++] = (struct water_share){0, 0};
            const size_t octave = i == 0 ? 0 : (i - 1) / WATER_FINE;
            group_end = fine ? i + 1 : i == 0 ? 1 : 1 + (octave + 1) * WATER_FINE;
        }
        share_add(&out[count - 1], bin->weight, bin->ask);
    }
    return count;
}

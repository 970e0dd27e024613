/* water.h - weighted max-min fairness: how high the water stands when a spare rate is poured out.
 *
 * Each key asks for a rate and has a weight. The level is the rate per weight at which all keys
 * together take exactly what there is, a key taking no more than it asks for:
 *
 *      ask per weight     sum over keys of min(ask, weight * level) = spare
 *        |   #
 *  level |~~~#~~~#~~~~~       a key below the level gets all that it asks for,
 *        |   #   #   #        one above it gets weight * level
 *        +---1---2---3--
 *
 * Keys are not kept one by one: they are added up in bins by what they ask per weight, 64 bins to
 * a factor of two. Below the level only the sum of asks matters and above it only the sum of
 * weights, and both are exact; only the keys in the very bin of the level are taken for alike, and
 * these differ by less than 1.6%.
 *
 * Rates are in nanotokens a second. Pure: no time, no memory of its own.
 */
#ifndef NODE_LIMIT_WATER_H
#define NODE_LIMIT_WATER_H

#include <stddef.h>
#include <stdint.h>

enum {
    WATER_EXPONENT_MIN = 20, /* below 2^20 nanotokens a second, a token in 16 minutes, all is one */
    WATER_EXPONENT_END = 60, /* and so it is from 2^60 on, a thousand million tokens a second */
    WATER_FINE = 64,         /* bins of a factor of two */
    WATER_BINS = 1 + (WATER_EXPONENT_END - WATER_EXPONENT_MIN) * WATER_FINE + 1,
    /* Shares that water_shares gives at most: fine ones within a factor of two of the level, one
     * a factor of two elsewhere. */
    WATER_SHARES_MAX = 2 * WATER_FINE + (WATER_EXPONENT_END - WATER_EXPONENT_MIN) + 4,
};
#define WATER_RATE_MAX UINT64_C(1000000000000000000) /* a thousand million tokens a second */

/* What some keys ask for together, each about ask / weight per weight. */
struct water_share {
    uint64_t weight;
    uint64_t ask;
};

struct water {
    struct water_share bins[WATER_BINS];
};

void water_clear(struct water *water);
/* Adds keys. A weight of 0 asks for nothing. */
void water_add(struct water *water, uint64_t weight, uint64_t ask);
/* The level at which `spare` is used up, and in *left what is over. Where all asks fit, the level
 * is `spare` itself: then nobody is held back. */
uint64_t water_level(const struct water *water, uint64_t spare, uint64_t *left);
/* Sums up what was added as few shares that give the same level as the bins do as long as that is
 * within a factor of two of `near`. Returns how many; `out` has WATER_SHARES_MAX places. */
size_t water_shares(const struct water *water, uint64_t near, struct water_share *out);
/* What keys of one share take when the water stands at `level`. */
uint64_t water_taken(const struct water_share *share, uint64_t level);

#endif

/* fair_share.h - weighted max-min fair shares of a spare rate, by water-filling.
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
#ifndef NODE_LIMIT_ENGINE_FAIR_SHARE_H
#define NODE_LIMIT_ENGINE_FAIR_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum {
    FAIR_SHARE_EXPONENT_MIN =
        20, /* below 2^20 nanotokens a second, a token in 16 minutes, all is one */
    FAIR_SHARE_EXPONENT_END =
        60,               /* and so it is from 2^60 on, a thousand million tokens a second */
    FAIR_SHARE_FINE = 64, /* bins of a factor of two */
    FAIR_SHARE_BINS = 1 + (FAIR_SHARE_EXPONENT_END - FAIR_SHARE_EXPONENT_MIN) * FAIR_SHARE_FINE + 1,
    /* Shares that fair_share_summary gives at most: fine ones within a factor of two of the level,
     * one a factor of two elsewhere. */
    FAIR_SHARE_SUMMARY_MAX =
        2 * FAIR_SHARE_FINE + (FAIR_SHARE_EXPONENT_END - FAIR_SHARE_EXPONENT_MIN) + 4,
};
#define FAIR_SHARE_RATE_MAX UINT64_C(1000000000000000000) /* a thousand million tokens a second */

/* What some keys ask for together, each about ask / weight per weight. */
struct fair_share_bin {
    uint64_t weight;
    uint64_t ask;
};

struct fair_share {
    struct fair_share_bin bins[FAIR_SHARE_BINS];
};

void fair_share_clear(struct fair_share *fair_share);
/* Adds keys. A weight of 0 asks for nothing. */
void fair_share_add(struct fair_share *fair_share, uint64_t weight, uint64_t ask);
/* The level at which `spare` is used up, and in *left what is over. Where all asks fit, the level
 * is `spare` itself: then nobody is held back. */
uint64_t fair_share_level(const struct fair_share *fair_share, uint64_t spare, uint64_t *left);
/* Sums up what was added as few shares that give the same level as the bins do as long as that is
 * within a factor of two of `near`. Returns how many; `out` has FAIR_SHARE_SUMMARY_MAX places. */
size_t fair_share_summary(const struct fair_share *fair_share, uint64_t near,
                          struct fair_share_bin *out);
/* What keys of one share take at `level`. */
uint64_t fair_share_taken(const struct fair_share_bin *share, uint64_t level);

#endif

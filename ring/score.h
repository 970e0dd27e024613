/* score.h - how much a vnode likes a member: weighted rendezvous hashing in whole numbers.
 *
 * Weighted rendezvous gives vnode v to the member with the largest -w / ln(h(v, member)), where h
 * is uniform in (0, 1). We keep the reciprocal, the *cost* -log2(h) / w: smallest first. The cost
 * is an exponential variable of rate w, and the smallest of several such is member i's with
 * probability w_i / sum(w).
 *
 * SCORE-1  Whole numbers only: every machine and compiler gets the same bits.
 * SCORE-2  Two members never tie: the lower bits of a key are the member's rank by id.
 * SCORE-3  The key of (vnode, id, weight) depends on nothing else, so the order of two members
 *          never changes when a third one comes or goes.
 */
#ifndef RING_SCORE_H
#define RING_SCORE_H

#include <stdint.h>

enum {
    RING_RANK_BITS = 16, /* lower bits of a key: rank of the member in ascending order of id */
    RING_COST_BITS = 48
};

/* -log2(hash / 2^64) with 42 fractional bits; `hash` 0 counts as 1. */
uint64_t ring_score_neglog2(uint64_t hash);

/* The key of a member for a vnode: cost above, rank (< 65536) below. `weight` >= 1. */
uint64_t ring_score_key(uint32_t vnode, uint64_t id, uint32_t weight, uint32_t rank);

static inline uint32_t ring_score_rank(uint64_t key)
{
    return (uint32_t)(key & ((1U << RING_RANK_BITS) - 1));
}

#endif

/* place.h - the second half: gives each vnode the members that its seat does not decide. */
#ifndef RING_PLACE_H
#define RING_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum { RING_UNPLACED = 0xffff };

/* A member as placing sees it; the array is ascending by id, and a rank is an index into it. */
struct ring_ranked {
    uint64_t id;
    uint32_t weight;
    uint32_t zone;
    uint16_t index; /* in the caller's array */
};

struct ring_place {
    const struct allocator *allocator;
    const struct ring_ranked *members;
    uint32_t members_count;
    uint32_t zones_count;
    uint32_t vnodes;
    uint32_t replicas;
    uint32_t cached; /* leading candidates kept for each vnode */
    uint64_t weight_sum;
    uint16_t *positions; /* [vnodes * replicas] ranks, caller's; RING_UNPLACED where open */
    uint64_t *cache;     /* [vnodes * cached] keys ascending */
    uint64_t *order;     /* [members_count] scratch for a vnode that exhausts its cache */
    uint64_t *heap_keys; /* [vnodes] offers, smallest key first */
    uint32_t *heap_vnodes;
    uint32_t *heap_next; /* the candidate number after the offered one */
    uint32_t heap_count;
    uint32_t *loads; /* [members_count] positions placed so far */
    uint32_t *caps;  /* [members_count] */
};

/* Takes scratch memory and computes the candidates. `positions` and `members` are borrowed.
 * Returns 0 or TG_ENOMEM (nothing kept). */
MUST_USE int ring_place_init(struct ring_place *place, const struct allocator *allocator,
                             const struct ring_ranked *members, uint32_t members_count,
                             uint32_t vnodes, uint32_t replicas, uint16_t *positions);
void ring_place_fini(struct ring_place *place);

/* Opens again the owner entries that exceed a member's cap, those that it likes least; for
 * members whose seats are worth more than their weight. Before ring_place_position(place, 0). */
void ring_place_trim(struct ring_place *place);

/* Fills every open entry of `position`, all earlier positions being filled. */
void ring_place_position(struct ring_place *place, uint32_t position);

/* The most vnodes that a member of `weight` may hold at positions 0..`position` before offers
 * to it are refused; never below its share rounded up. */
uint32_t ring_place_cap(uint32_t members_count, uint64_t weight_sum, uint32_t weight,
                        uint32_t vnodes, uint32_t position);

/* Sorts keys ascending in place (heap sort: no recursion, no memory, same on every machine). */
void ring_sort_keys(uint64_t *keys, uint32_t count);

#endif

/* order.h - requests of a log in the order of their time, as far as they came out of order.
 *
 * Servers write a line when a request ends, some with the time at which it began, and several
 * workers write in turns: lines of one moment lie some way apart. So each request waits until the
 * newest one seen is `horizon` ahead of it, or until `max` of them wait:
 *
 *   add --> [ heap: time, then order of arrival ] --> next, once due
 *
 * ORDER-1  What is taken never has a time below what was taken before, unless it was added too
 *          late; that is said of it, once.
 * ORDER-2  Requests of one time leave in the order in which they came.
 *
 * Pure; all memory is taken at init.
 */
#ifndef CLIENT_REPLAY_ORDER_H
#define CLIENT_REPLAY_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

struct order_place;

struct order {
    const struct allocator *allocator;
    int64_t horizon_ns;
    uint32_t max;
    size_t item_len;
    struct order_place *heap; /* count of them */
    uint32_t count;
    uint32_t *free; /* numbers of items that are not waiting; max - count of them */
    uint8_t *items;
    int64_t newest_ns;
    int64_t taken_ns; /* the latest time that was taken */
    uint64_t arrivals;
};

/* Room for `max` (>= 1) waiting items of `item_len` bytes. 0 or TG_ENOMEM, nothing held then. */
MUST_USE int order_init(struct order *order, const struct allocator *allocator, uint32_t max,
                        size_t item_len, int64_t horizon_ns);
void order_fini(struct order *order);

/* Copies the item in. True if it came too late: others with a later time have been taken. Not
 * while order_due(order, false). */
bool order_add(struct order *order, int64_t time_ns, const void *item);
/* Whether an item is to be taken now; with `all`, whether one waits at all. */
bool order_due(const struct order *order, bool all);
/* The first of those that wait, of which there is one. Valid until the next add. */
const void *order_take(struct order *order, int64_t *time_ns);
/* Asserts that the heap is one and each item is in it or free; for tests. */
void order_check_invariants(const struct order *order);

#endif

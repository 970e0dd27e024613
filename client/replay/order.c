/* order.c - requests in the order of their time; see order.h.
 *
 * A binary heap of (time, arrival, number of the item). Lines come nearly in order, so adding one
 * is a comparison or two, and taking one a walk down a heap that lies in the cache.
 *
 * ORDER-3  heap[i] is not before heap[(i - 1) / 2].
 * ORDER-4  Each item's number is once in the heap or once among the free ones.
 */
#include "client/replay/order.h"

#include <string.h>

#include "base/assert.h"

enum { CHECK_ITEMS = 4096 }; /* as many as a check looks at together */

struct order_place {
    int64_t time_ns;
    uint64_t arrival;
    uint32_t item;
};

int order_init(struct order *order, const struct allocator *allocator, uint32_t max,
               size_t item_len, int64_t horizon_ns)
{
    ASSERT(max >= 1 && item_len > 0 && horizon_ns >= 0);
    *order = (struct order){
        .allocator = allocator, .horizon_ns = horizon_ns, .max = max, .item_len = item_len};
    order->heap = alloc_array(allocator, max, sizeof *order->heap);
    order->free = alloc_array(allocator, max, sizeof *order->free);
    order->items = alloc_array(allocator, max, item_len);
    if (order->heap == NULL || order->free == NULL || order->items == NULL) {
        order_fini(order);
        return TG_ENOMEM;
    }
    for (uint32_t i = 0; i < max; i++)
        order->free[i] = max - 1 - i; /* the first ones are used first */
    return TG_OK;
}

void order_fini(struct order *order)
{
    alloc_put(order->allocator, order->heap, order->max * sizeof *order->heap);
    alloc_put(order->allocator, order->free, order->max * sizeof *order->free);
    alloc_put(order->allocator, order->items, order->max * order->item_len);
    order->heap = NULL;
    order->free = NULL;
    order->items = NULL;
    order->count = 0;
}

static bool before(const struct order_place *a, const struct order_place *b)
{
    return a->time_ns < b->time_ns ||
           (a->time_ns == b->time_ns && a->arrival < b->arrival); /* ORDER-2 */
}

bool order_add(struct order *order, int64_t time_ns, const void *item)
{
    ASSERT(order->count < order->max);
    const uint32_t number = order->free[order->max - order->count - 1];
    const struct order_place place = {time_ns, order->arrivals++, number};
    ASSERT(number < order->max);
    memcpy(order->items + number * order->item_len, item, order->item_len);
    uint32_t at = order->count++;
    while (at > 0 && before(&place, &order->heap[(at - 1) / 2])) {
        order->heap[at] = order->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    order->heap[at] = place;
    if (time_ns > order->newest_ns)
        order->newest_ns = time_ns;
    return time_ns < order->taken_ns;
}

bool order_due(const struct order *order, bool all)
{
    if (order->count == 0)
        return false;
    return all || order->count == order->max ||
           order->newest_ns - order->heap[0].time_ns > order->horizon_ns;
}

const void *order_take(struct order *order, int64_t *time_ns)
{
    ASSERT(order->count > 0);
    const struct order_place first = order->heap[0];
    const struct order_place last = order->heap[--order->count];
    const uint32_t count = order->count;
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && before(&order->heap[child + 1], &order->heap[child]))
            child++;
        if (!before(&order->heap[child], &last))
            break;
        order->heap[at] = order->heap[child];
        at = child;
    }
    ASSERT(at <= count && first.item < order->max);
    order->heap[at] = last;
    order->free[order->max - order->count - 1] = first.item;
    if (first.time_ns > order->taken_ns)
        order->taken_ns = first.time_ns;
    *time_ns = first.time_ns;
    return order->items + first.item * order->item_len;
}

/* Of the CHECK_ITEMS items from `first` on each is either in the heap, or free, and once. */
static void check_places(const struct order *order, uint32_t first)
{
    bool seen[CHECK_ITEMS] = {false};
    for (uint32_t i = 0; i < order->max; i++) {
        const uint32_t item =
            i < order->count ? order->heap[i].item : order->free[i - order->count];
        INVARIANT("ORDER-4", item < order->max);
        if (item - first >= CHECK_ITEMS)
            continue;
        INVARIANT("ORDER-4", !seen[item - first]); /* so all max of them are there */
        seen[item - first] = true;
    }
}

void order_check_invariants(const struct order *order)
{
    INVARIANT("ORDER-4", order->count <= order->max);
    for (uint32_t i = 1; i < order->count; i++)
        INVARIANT("ORDER-3", !before(&order->heap[i], &order->heap[(i - 1) / 2]));
    for (uint32_t i = 0; i < order->count; i++)
        INVARIANT("ORDER-1", order->heap[i].time_ns <= order->newest_ns);
    for (uint32_t first = 0; first < order->max; first += CHECK_ITEMS)
        check_places(order, first);
}

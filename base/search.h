/* search.h - binary search by ids that are in ascending order. Pure. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#define SEARCH_NONE UINT32_MAX

/* The place of `id` among `count` records of `stride` bytes with distinct ascending ids, or
 * SEARCH_NONE. `first` is the id of the first one: of plain ids the stride is 8. */
static inline uint32_t search_ids(const uint64_t *first, size_t stride, uint32_t count, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const uint64_t found =
            *(const uint64_t *)(const void *)((const char *)first + middle * stride);

        if (found == id)
            return middle;
        if (found < id)
            low = middle + 1;
        else
            high = middle;
    }
    return SEARCH_NONE;
}

#endif

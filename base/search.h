/* search.h - binary search by ids that are in ascending order. Pure. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#define SEARCH_NONE UINT32_MAX

/* Where `id` is among `count` records of `stride` bytes in ascending order of ids, or belongs: the
 * first place whose id is not below it. `first` is the id of the first record: of plain ids the
 * stride is 8. */
static inline uint32_t search_place(const uint64_t *first, size_t stride, uint32_t count,
                                    uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const uint64_t found =
            *(const uint64_t *)(const void *)((const char *)first + middle * stride);

        if (found < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The place of `id` among records with distinct ids, or SEARCH_NONE. */
static inline uint32_t search_ids(const uint64_t *first, size_t stride, uint32_t count, uint64_t id)
{
    const uint32_t place = search_place(first, stride, count, id);

    if (place == count)
        return SEARCH_NONE;
    return *(const uint64_t *)(const void *)((const char *)first + place * stride) == id
               ? place
               : SEARCH_NONE;
}

#endif

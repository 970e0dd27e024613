/* utf8.c - how long a character is; utf8.h has the contract. */
#include "base/utf8.h"

#include <stdint.h>

/* The length that a first byte announces, 0 if none starts so, and the range of the second. */
static size_t announced_len(uint8_t first, uint8_t *second_min, uint8_t *second_max)
{
    *second_min = 0x80;
    *second_max = 0xbf;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef) {
        if (first == 0xe0)
            *second_min = 0xa0; /* else overlong */
        if (first == 0xed)
            *second_max = 0x9f; /* else a surrogate */
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (first == 0xf0)
            *second_min = 0x90;
        if (first == 0xf4)
            *second_max = 0x8f; /* up to U+10FFFF */
        return 4;
    }
    return 0;
}

size_t utf8_len(const char *data, size_t len)
{
    if (len == 0)
        return 0;
    uint8_t second_min;
    uint8_t second_max;
    const size_t wanted = announced_len((uint8_t)data[0], &second_min, &second_max);
    if (wanted > len)
        return 0;
    for (size_t i = 1; i < wanted; i++) {
        const uint8_t byte = (uint8_t)data[i];
        if (byte < (i == 1 ? second_min : 0x80) || byte > (i == 1 ? second_max : 0xbf))
            return 0;
    }
    return wanted;
}

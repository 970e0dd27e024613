/* window.h - the grid of epoch-aligned windows, and how a cell remembers which one it counted in.
 *
 *   cell  | exponent 6 | window key 42 (or 34) | counts 48 (or 56) |
 *
 * A cell does not hold its window's length, only the exponent of the power of two ms above it:
 * enough to know when the cell is as good as new. The key is the window's start in ms; from
 * 2^10 ms on in units of 256 ms, which still tells any two windows apart and leaves 8 bits more for
 * counts. A start that lies on no boundary of the request's grid (or another exponent) tells that
 * the rule's window has changed: then what was counted is carried into the current window.
 */
#ifndef NODE_LIMIT_WINDOW_H
#define NODE_LIMIT_WINDOW_H

#include <stdint.h>

#include "node/limit/algorithm.h"

enum {
    WINDOW_EXPONENT_MAX = 40,
    WINDOW_COARSE_EXPONENT = 10, /* keys of longer windows are in units of ... */
    WINDOW_COARSE_SHIFT = 8,     /* ... 2^8 ms */
    WINDOW_KEY_BITS = 42,
    WINDOW_NS_PER_MS = 1000000,
};

/* How the window of a cell relates to the one of now. */
enum window_relation {
    WINDOW_SAME,     /* it is the current one, or lies ahead because time went back */
    WINDOW_PREVIOUS, /* the one before */
    WINDOW_OLD,      /* long gone */
    WINDOW_CHANGED,  /* of another grid, and not yet expired */
};

/* Where `now` is. If the cell's window lies ahead, the position is that window's beginning. */
struct window_place {
    int64_t start_ns;
    uint64_t elapsed_ns;
    uint64_t key;
    enum window_relation relation;
};

/* The smallest exponent whose power of two ms is at least the window. */
static inline uint8_t window_exponent(uint64_t window_ns)
{
    uint8_t exponent = 0;
    while (((uint64_t)WINDOW_NS_PER_MS << exponent) < window_ns)
        exponent++;
    return exponent;
}

static inline unsigned window_shift(unsigned exponent)
{
    return exponent >= WINDOW_COARSE_EXPONENT ? WINDOW_COARSE_SHIFT : 0;
}

static inline uint64_t window_key(int64_t start_ns, unsigned exponent)
{
    return (uint64_t)start_ns / WINDOW_NS_PER_MS >> window_shift(exponent);
}

/* The first boundary of the grid at or after the key's time. */
static inline int64_t window_key_start_ns(uint64_t key, unsigned exponent, uint64_t window_ns)
{
    const uint64_t from_ns = (key << window_shift(exponent)) * WINDOW_NS_PER_MS;
    return (int64_t)((from_ns + window_ns - 1) / window_ns * window_ns);
}

/* The time by which `windows` windows from the key's start are surely over. */
static inline int64_t window_key_expires_ns(uint64_t key, unsigned exponent, unsigned windows)
{
    const uint64_t from_ms = (key + 1) << window_shift(exponent);
    const uint64_t ms = from_ms + ((uint64_t)windows << exponent);
    return ms > INT64_MAX / WINDOW_NS_PER_MS ? INT64_MAX : (int64_t)ms * WINDOW_NS_PER_MS;
}

/* Relates a used cell (exponent, key) to the plan's grid at `now_ns`; `windows` as for expires. */
static inline struct window_place window_locate(const struct limit_plan *plan, unsigned exponent,
                                                uint64_t key, unsigned windows, int64_t now_ns)
{
    const uint64_t window_ns = plan->limit.window_ns;
    struct window_place place = {.elapsed_ns = (uint64_t)now_ns % window_ns};
    place.start_ns = now_ns - (int64_t)place.elapsed_ns;
    place.key = window_key(place.start_ns, plan->exponent);
    place.relation = WINDOW_SAME;
    if (exponent == plan->exponent && key == place.key)
        return place;
    if (exponent == plan->exponent) {
        const int64_t start_ns = window_key_start_ns(key, exponent, window_ns);
        if (window_key(start_ns, exponent) == key) { /* a window of this grid */
            if (start_ns > now_ns) {
                place.start_ns = start_ns;
                place.elapsed_ns = 0;
                place.key = key;
            } else if (start_ns + (int64_t)window_ns == place.start_ns) {
                place.relation = WINDOW_PREVIOUS;
            } else {
                place.relation = WINDOW_OLD;
            }
            return place;
        }
    }
    place.relation =
        window_key_expires_ns(key, exponent, windows) > now_ns ? WINDOW_CHANGED : WINDOW_OLD;
    return place;
}

#endif

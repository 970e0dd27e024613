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
#ifndef NODE_LIMIT_ALGORITHMS_WINDOW_H
#define NODE_LIMIT_ALGORITHMS_WINDOW_H

#include <stdint.h>

#include "node/limit/algorithms/algorithm.h"

enum {
    WINDOW_EXPONENT_MAX = 40,
    WINDOW_COARSE_EXPONENT = 10, /* keys of longer windows are in units of ... */
    WINDOW_COARSE_SHIFT = 8,     /* ... 2^8 ms */
    WINDOW_KEY_BITS = 42,
    WINDOW_NS_PER_MS = 1000000,
};

/* How long the window in which a fixed window's cell counts now still lasts. */
int64_t fixed_window_left_ns(const struct limit_memory *memory, const struct limit_cell *cell,
                             const struct limit_plan *plan, int64_t now_ns);

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

/* How two windows lie to each other, by what cells know of them. A window of exponent e is longer
 * than 2^(e-1) ms and at most 2^e ms, so boundaries of one grid are at least the first apart, and
 * neighbours at most the second. */
enum window_gap {
    WINDOW_GAP_NONE,     /* the same window */
    WINDOW_GAP_NEXT,     /* neighbours */
    WINDOW_GAP_NEAR,     /* neighbours, or one between: keys are too coarse to tell */
    WINDOW_GAP_FAR,      /* at least one between */
    WINDOW_GAP_UNRELATED /* of different grids: the rule's window has changed */
};

static inline int64_t window_key_ms(uint64_t key, unsigned exponent)
{
    return (int64_t)(key << window_shift(exponent));
}

static inline enum window_gap window_gap(unsigned exponent_a, uint64_t key_a, unsigned exponent_b,
                                         uint64_t key_b)
{
    if (exponent_a != exponent_b)
        return WINDOW_GAP_UNRELATED;
    const uint64_t gap = key_a < key_b ? key_b - key_a : key_a - key_b;
    const uint64_t longest = UINT64_C(1) << (exponent_a - window_shift(exponent_a));
    if (gap == 0)
        return WINDOW_GAP_NONE;
    if (gap < longest / 2)
        return WINDOW_GAP_UNRELATED;
    return gap < longest ? WINDOW_GAP_NEXT : gap == longest ? WINDOW_GAP_NEAR : WINDOW_GAP_FAR;
}

/* Whether window a begins after window b, or, of other grids, ends after it. */
static inline bool window_later(unsigned exponent_a, uint64_t key_a, unsigned exponent_b,
                                uint64_t key_b)
{
    const int64_t a_ms = window_key_ms(key_a, exponent_a);
    const int64_t b_ms = window_key_ms(key_b, exponent_b);
    return a_ms != b_ms ? a_ms > b_ms : exponent_a > exponent_b;
}

/* Whether the window may begin after `now`, because its clock was ahead: then the one before it is
 * not over. The key's last unit of time counts as ahead, for a boundary may lie inside it. */
static inline bool window_ahead(unsigned exponent, uint64_t key, int64_t now_ns)
{
    return window_key_ms(key + 1, exponent) > now_ns / WINDOW_NS_PER_MS;
}

#endif

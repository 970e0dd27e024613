/* heat.h - which keys are hot: how often each was admitted in the last 200 ms, in little memory.
 * Pure; not thread-safe. The idea is in heat.c. */
#ifndef CLIENT_LIB_CACHE_HEAT_H
#define CLIENT_LIB_CACHE_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    CLIENT_HEAT_CELLS = 4096, /* power of two */
    CLIENT_HEAT_SPANS = 8,
    CLIENT_HEAT_SPAN_MS = 25,
    CLIENT_HEAT_MS = CLIENT_HEAT_SPANS * CLIENT_HEAT_SPAN_MS,
    CLIENT_HEAT_CHECKS = 64 /* in CLIENT_HEAT_MS, that make a key hot */
};

struct client_heat_cell {
    uint64_t place; /* of the key's tag; 0: nobody's */
    int64_t span;   /* the newest one: time / CLIENT_HEAT_SPAN_MS */
    int64_t quiet_ns;
    uint32_t passed; /* checks of other keys that would have liked the cell */
    uint32_t checks[CLIENT_HEAT_SPANS];
    uint64_t tokens[CLIENT_HEAT_SPANS];
};

struct client_heat {
    const struct allocator *allocator;
    struct client_heat_cell *cells;
};

/* 0 or TG_ENOMEM. */
MUST_USE int client_heat_init(struct client_heat *heat, const struct allocator *allocator);
void client_heat_fini(struct client_heat *heat);
/* Counts `checks` (of which one was seen) that were admitted with `tokens`. The tokens of the last
 * 200 ms if that makes, or leaves, the key hot and it is not quiet; else 0. */
uint64_t client_heat_count(struct client_heat *heat, uint64_t place, uint32_t checks,
                           uint64_t tokens, int64_t now_ns);
/* The key is not called hot before `quiet_ns`, as long as it keeps its cell. */
void client_heat_quiet(struct client_heat *heat, uint64_t place, int64_t quiet_ns);

#endif

/* callers.h - who was counted by which rule, how often, and how often denied.
 *
 * One table for all rules, found by a 128-bit hash of (rule, key values). It is exact until it is
 * full. Then the keys seen least are dropped, and what is dropped becomes the floor: a key that
 * comes (again) may have been seen up to `floor` times before, and carries that as its error. So
 * the busiest keys stay, and each count is known to within an error that is told (lossy counting).
 *
 *   index --> entries [ hash | rule | requests denied error | text --> bytes ]
 *
 * CALLERS-1  An entry that is held (callers_hold) keeps its number and is not dropped.
 * CALLERS-2  requests <= the key's true count <= requests + error.
 * CALLERS-3  A key that is not in the table was seen at most `floor` times.
 *
 * Pure; takes its memory at init, and a second block for texts when it first drops.
 */
#ifndef CLIENT_REPLAY_CALLERS_H
#define CLIENT_REPLAY_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/prefetch.h"

#define CALLERS_NONE UINT32_MAX

struct caller {
    struct hash128 hash;
    uint64_t requests;
    uint64_t denied;
    uint64_t error;
    uint32_t rule;
    uint32_t text; /* offset in the bytes */
    uint32_t text_len;
    uint32_t held; /* references; the next free entry where it is none */
    bool used;
};

struct callers {
    const struct allocator *allocator;
    struct caller *entries;
    uint32_t max;
    uint32_t end;    /* entries ever used are below */
    uint32_t count;  /* in use */
    uint32_t free;   /* the first of those given back, or CALLERS_NONE */
    uint32_t *index; /* entry + 1, or 0 */
    uint32_t index_mask;
    uint8_t *bytes;
    uint8_t *spare; /* NULL until something is dropped */
    uint32_t bytes_max;
    uint32_t bytes_used;
    uint64_t floor;
};

/* A table of `max` (>= 16) keys whose texts take up to bytes_max bytes. 0 or TG_ENOMEM. */
MUST_USE int callers_init(struct callers *callers, const struct allocator *allocator, uint32_t max,
                          uint32_t bytes_max);
void callers_fini(struct callers *callers);

/* The entry of that hash, or CALLERS_NONE. */
uint32_t callers_find(const struct callers *callers, struct hash128 hash);
/* A new entry, for a hash that has none. CALLERS_NONE: no room, callers_drop is to be called. */
uint32_t callers_add(struct callers *callers, struct hash128 hash, uint32_t rule, const void *text,
                     uint32_t text_len);
/* Drops the least seen of those that are not held, at least a quarter of the table if so many are
 * not. False if all are held, or memory for it ran out. */
bool callers_drop(struct callers *callers);

/* Asserts that index, entries and bytes agree; for tests. */
void callers_check_invariants(const struct callers *callers);

/* Has the processor fetch what callers_find will look at: first of all the index of several hashes,
 * then of all their entries. */
static inline void callers_fetch_index(const struct callers *callers, struct hash128 hash)
{
    prefetch(&callers->index[(uint32_t)hash.lo & callers->index_mask]);
}
static inline void callers_fetch_entry(const struct callers *callers, struct hash128 hash)
{
    const uint32_t number = callers->index[(uint32_t)hash.lo & callers->index_mask];
    if (number != 0)
        prefetch(&callers->entries[number - 1]);
}

static inline struct caller *callers_at(struct callers *callers, uint32_t number)
{
    return &callers->entries[number];
}

static inline const uint8_t *callers_text(const struct callers *callers,
                                          const struct caller *caller)
{
    return callers->bytes + caller->text;
}

#endif

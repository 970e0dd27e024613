/* chunk.h - the packed form of many records of one vnode: encode, check, merge, cut.
 *
 *     0        8       12      16
 *     | check  | count | bytes | record | record | ...           all integers little-endian
 *
 *     record:  0     8     16                      24
 *              | hi  | lo  | expires:44 | len:20   | state ... |
 *
 * `check` covers everything after itself and the vnode, so neither a flipped bit nor a chunk
 * of another vnode is taken for data. Records ascend strictly by (hi, lo): a merge is
 * linear, and untouched runs are copied as they are. A "body" is the records alone.
 *
 * Pure: bytes in, bytes out. Knows nothing of LMDB.
 */
#ifndef STORAGE_CHUNK_H
#define STORAGE_CHUNK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store_values.h"

enum {
    CHUNK_HEAD_LEN = 16,
    CHUNK_RECORD_LEN = 24, /* before the state */
    CHUNK_LEN_BITS = 20,
    /* A body above this is cut. With both heads (ours, LMDB's 16 bytes) it fills three 4 KiB pages:
     * measured with 244 slots a vnode, two pages cost 15% more CPU and a third more disk, four gain
     * nothing, and every page more is written again for a single dirty slot. */
    CHUNK_BODY_MAX = 3 * 4096 - 16 - CHUNK_HEAD_LEN,
    /* Cut pieces are about this long: room to grow before the next cut. */
    CHUNK_BODY_FILL = CHUNK_BODY_MAX * 3 / 4,
    /* A purge joins a chunk shorter than this with the next one. */
    CHUNK_BODY_JOIN = CHUNK_BODY_MAX / 2,
    /* A piece ends with the record that reaches its share, hence + 1. */
    CHUNK_RECORDS_MAX = CHUNK_BODY_MAX / CHUNK_RECORD_LEN + 1,
    CHUNK_BYTES_MAX = CHUNK_HEAD_LEN + CHUNK_BODY_MAX + CHUNK_RECORD_LEN + STORE_STATE_MAX,
};
static_assert(STORE_STATE_MAX < 1 << CHUNK_LEN_BITS, "a state's length fits its field");
static_assert(CHUNK_BODY_JOIN < CHUNK_BODY_FILL && CHUNK_BODY_FILL < CHUNK_BODY_MAX,
              "what a cut makes is neither cut nor joined again");

/* One of the records to merge, by its place in the order. */
struct chunk_ref {
    uint64_t hi;
    uint32_t index; /* into the caller's records */
};

/* What a merge did. */
struct chunk_tally {
    uint64_t stored;  /* records taken from the refs */
    uint64_t expired; /* records dropped, from either side */
};

static inline bool chunk_id_less(struct hash128 a, struct hash128 b)
{
    return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

/* Checksum of `len` bytes under `seed`: finds accidents, not attacks. Any thread. */
uint64_t chunk_checksum(uint64_t seed, const void *data, size_t len);

/* 0 if these bytes are a whole chunk of `vnode`, else TG_ECORRUPT. On success *body, *body_len
 * are its records, in place. */
int chunk_open(const void *data, size_t len, uint32_t vnode, const uint8_t **body,
               size_t *body_len) MUST_USE;

/* The record at *at of a body that chunk_open gave; *at moves behind it. False at the end.
 * record->state points into the body. */
bool chunk_next(const uint8_t *body, size_t body_len, size_t *at, struct store_record *record);

/* Finds `id` in a body. */
bool chunk_find(const uint8_t *body, size_t body_len, struct hash128 id,
                struct store_record *record);

/* Orders records by id into refs[0..count): of equal ids only the last one stays. Returns how many
 * are left. Linear for ids that are hashes. */
size_t chunk_sort(const struct store_record *records, size_t count, struct chunk_ref *refs);

/* Merges body and sorted refs into `out` (capacity body_len + the refs' sizes), without what
 * has expired by now_ms. A ref replaces the record of its id, and removes it if it is itself
 * expired. Returns the new body's length. */
size_t chunk_merge(const uint8_t *body, size_t body_len, const struct store_record *records,
                   const struct chunk_ref *refs, size_t count, uint64_t now_ms, uint8_t *out,
                   struct chunk_tally *tally);

/* Where the first piece of this body ends, and *count, the records in it. All of it if it is
 * short enough; else the pieces come out even. */
size_t chunk_cut(const uint8_t *body, size_t body_len, uint32_t *count);

/* Writes head and body into `out` (CHUNK_HEAD_LEN + body_len bytes). */
void chunk_seal(uint8_t *out, const uint8_t *body, size_t body_len, uint32_t count, uint32_t vnode);

/* Bytes of a record in a body. */
static inline size_t chunk_record_len(uint32_t state_len)
{
    return CHUNK_RECORD_LEN + (size_t)state_len;
}

#endif

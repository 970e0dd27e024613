/* concurrency.h - the leases of a key as they lie in memory and in bytes, for the two files that
 * work on them: concurrency.c decides, lease_merge.c joins what two writers have.
 *
 *   cell    wide, handle in word 2 (all zero: nothing in flight)
 *   block   | leases 4 | capacity 4 | places 8 | lease ... |
 *   lease   | id 8 | until 8 | places 4 | - 4 |      in the order of `until`
 *   bytes   | leases 4 | leases x (id 8 | until 8 | places 4) |
 */
#ifndef NODE_LIMIT_ALGORITHMS_CONCURRENCY_H
#define NODE_LIMIT_ALGORITHMS_CONCURRENCY_H

#include <stddef.h>
#include <stdint.h>

#include "node/limit/algorithms/algorithm.h"

enum {
    LEASES_MAX = 2 * LIMIT_LEASES_MAX, /* of one key */
    LEASES_MIN = 2,
    LEASES_HEADER_LEN = 4,
    LEASE_LEN = 20
};

struct lease {
    uint64_t id;
    int64_t until_ns;
    uint32_t places;
    uint32_t window_ms; /* as it was granted here, rounded up; 0: it came from elsewhere */
};

struct leases {
    uint32_t count;
    uint32_t capacity;
    uint64_t places;
    struct lease lease[];
};

static inline struct leases *leases_of(const struct limit_memory *memory,
                                       const struct limit_cell *cell)
{
    return cell->wide ? arena_at(&memory->arena, cell->word[2]) : NULL;
}

static inline size_t leases_len(uint32_t capacity)
{
    return sizeof(struct leases) + (size_t)capacity * sizeof(struct lease);
}

static inline struct lease lease_read(struct bytes_reader *reader)
{
    struct lease lease = {.id = bytes_get_u64(reader)};
    lease.until_ns = bytes_get_i64(reader);
    lease.places = bytes_get_u32(reader);
    return lease;
}

/* limit_ops.merge of concurrency. */
int leases_merge(struct limit_memory *memory, struct limit_cell *cell, struct bytes_reader *base,
                 struct bytes_reader *other, int64_t now_ns);

#endif

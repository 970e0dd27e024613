/* leased.h - a key of whose limit tokens are held elsewhere: the envelope around its state.
 *
 * For the files of node/limit: leased.c decides, leased_bytes.c writes and reads, leased_merge.c
 * joins what two writers have. The idea and the invariants are in leased.c.
 *
 *   cell    wide, handle in word 2
 *   block   | inner cell 16 | out 8 | drain 8 | holders 4 | capacity 4 | algorithm 1 | holder ... |
 *   holder  | id 8 | until 8 | granted 8 | used 8 |       in the order of `until`
 *   bytes   | algorithm 1 | drain 8 | holders 4 | holders x 32 | the algorithm's own fields |
 */
#ifndef NODE_LIMIT_ALGORITHMS_LEASED_H
#define NODE_LIMIT_ALGORITHMS_LEASED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/limit/algorithms/algorithm.h"

enum {
    HOLDERS_MAX = 128, /* leases of one key at a time */
    HOLDERS_MIN = 2,
    HOLDER_LEN = 32,
    LEASED_HEADER_LEN = 13,
};

/* One lease. */
struct holder {
    uint64_t id; /* 0: nobody's, it ends by itself */
    int64_t until_ns;
    uint64_t granted; /* > used */
    uint64_t used;    /* stated, and charged to the inner state */
};

struct leased {
    struct limit_cell inner;
    uint64_t out;     /* of all holders, granted - used */
    int64_t drain_ns; /* what is out weighs nothing any more so long after its lease has ended */
    uint32_t count;
    uint32_t capacity;
    uint8_t algorithm; /* of the inner cell */
    struct holder holder[];
};

static inline struct leased *leased_of(const struct limit_memory *memory,
                                       const struct limit_cell *cell)
{
    return arena_at(&memory->arena, cell->word[2]);
}

static inline size_t leased_len(uint32_t capacity)
{
    return sizeof(struct leased) + (size_t)capacity * sizeof(struct holder);
}

static inline uint64_t holder_out(const struct holder *holder)
{
    return holder->granted - holder->used;
}

/* Puts an envelope without leases around the cell, a state of that algorithm. 0 or TG_EFULL, then
 * nothing has changed. */
int leased_wrap(struct limit_memory *memory, unsigned algorithm, struct limit_cell *cell);
/* Takes it off again, with the leases that are in it; returns the algorithm of the cell. */
unsigned leased_unwrap(struct limit_memory *memory, struct limit_cell *cell);
/* Ends the leases whose time is over when `request` comes, and rewrites for it a state that was
 * kept for another limit (ALGORITHM-7, ALGORITHM-8). An enum limit_change, or TG_EFULL: some are
 * still to be ended. */
int leased_settle(struct limit_memory *memory, struct limit_cell *cell,
                  const struct limit_plan *plan, const struct limit_request *request);
/* As limit_ops.apply of the inner algorithm, whose plan it is; everything that has ended by now is
 * settled already. TG_EBUSY: the key has HOLDERS_MAX leases. */
int leased_apply(struct limit_memory *memory, struct limit_cell *cell,
                 const struct limit_plan *plan, const struct limit_request *request,
                 struct limit_decision *out);
/* Corrects what the inner algorithm said of itself by what is out. */
void leased_report(const struct leased *leased, const struct limit_plan *plan, int64_t now_ns,
                   struct limit_decision *out);

/* Whether some lease's time is over, so that a decision would have to settle it. */
static inline bool leased_lapsed(const struct limit_memory *memory, const struct limit_cell *cell,
                                 int64_t now_ns)
{
    const struct leased *leased = leased_of(memory, cell);
    return leased->count > 0 && leased->holder[0].until_ns <= now_ns;
}
/* Another envelope of the same content, for who only looks; it is to be released. 0 or TG_EFULL. */
int leased_clone(struct limit_memory *memory, const struct limit_cell *cell,
                 struct limit_cell *out);

/* What stands before the inner state's fields. */
struct leased_head {
    struct bytes_reader holders; /* for leased_read_holder, `count` times */
    int64_t last_ns;             /* the latest end */
    int64_t drain_ns;
    uint32_t count;
    uint8_t algorithm;
};
/* Reads and checks it; the reader is left at the inner state's fields. 0 or TG_ECORRUPT. */
int leased_read_head(struct bytes_reader *reader, struct leased_head *head);
struct holder leased_read_holder(struct bytes_reader *reader);

/* There is room for it. Keeps the order and the sum. */
void leased_put_in(struct leased *leased, const struct holder *holder);
/* The lease of that id, not 0, or NULL. */
struct holder *leased_find(struct leased *leased, uint64_t id);

/* Asserts that the envelope in a live slot is whole. */
void leased_check(const struct limit_memory *memory, const struct limit_cell *cell);

/* A state that is an envelope (kind LIMIT_LEASED), or a plain one of the algorithm `kind`. */
struct leased_state {
    unsigned kind;
    struct bytes_reader bytes; /* found valid; at the fields of its kind */
};
/* Adds what another writer took since both had `base` (NULL: the key was new) to the cell of kind
 * `*kind`, as ALGORITHM-5 says; all three are of one inner algorithm. LIMIT_SAME, LIMIT_CHANGED,
 * with the kind that the cell has then, or TG_EFULL (ALGORITHM-3). */
int leased_merge(struct limit_memory *memory, struct limit_cell *cell, uint8_t *kind,
                 const struct leased_state *base, const struct leased_state *other, int64_t now_ns);

#endif

/* leased.h - a key of whose limit tokens are held elsewhere: the envelope around its state.
 *
 * For the files of node/limit: leased.c decides, leased_bytes.c writes and reads, leased_merge.c
 * joins what two writers have. The idea and the invariants are in leased.c.
 *
 *   cell    wide, handle in word 2
 *   block   | inner cell 16 | out 8 | drain 8 | holders 4 | capacity 4 | algorithm 1 | holder ... |
 *   holder  | id 8 | until 8 | granted 8 | used 8 | kind 1 |       in the order of `until`
 *   bytes   | algorithm 1 | drain 8 | holders 4 | holders x 32 | the algorithm's own fields |
 *           | id 8 | until 8 | kind in two bits above granted 8 | used 8 |
 */
#ifndef NODE_LIMIT_ALGORITHMS_LEASED_H
#define NODE_LIMIT_ALGORITHMS_LEASED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/limit/algorithms/algorithm.h"

enum {
    LEASES_MAX = 128,   /* leases of one key at a time: so many a node of release 0.1.0 reads */
    HOLDERS_MAX = 1024, /* leases, reservations, and settled ones that are remembered */
    HOLDERS_MIN = 2,
    HOLDER_LEN = 32,
    HOLDER_KIND_SHIFT = 62,
    LEASED_HEADER_LEN = 13,
};

/* What a holder is, and what its end means (LEASED-8). */
enum holder_kind {
    HOLDER_LEASE = 0,    /* spent when its time is over; granted > used */
    HOLDER_RESERVED = 1, /* given back when its time is over; nothing used */
    HOLDER_SETTLED = 2,  /* nothing out: a reservation of that id was committed or cancelled; used,
                          * and granted, is what was charged */
    HOLDER_UNDONE = 3,   /* nothing out: its request was denied, none is to be given any more */
};

struct holder {
    uint64_t id; /* 0: nobody's, it ends by itself */
    int64_t until_ns;
    uint64_t granted;
    uint64_t used; /* stated, and charged to the inner state */
    uint8_t kind;  /* enum holder_kind */
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

/* Whether it holds nothing: it is there to be remembered. */
static inline bool holder_is_over(const struct holder *holder)
{
    return holder->kind >= HOLDER_SETTLED;
}

/* Whether its fields fit its kind (LEASED-7). */
static inline bool holder_is_sound(const struct holder *holder)
{
    switch (holder->kind) {
    case HOLDER_LEASE:
        return holder->used < holder->granted;
    case HOLDER_RESERVED:
        return holder->used == 0;
    case HOLDER_SETTLED:
        return holder->used == holder->granted;
    default:
        return holder->kind == HOLDER_UNDONE && (holder->used | holder->granted) == 0;
    }
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
 * settled already. TG_EBUSY: the key has LEASES_MAX leases, or HOLDERS_MAX of all kinds that are
 * not over. */
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
/* Takes the first `count` from `at` out. */
void leased_take_out(struct leased *leased, uint32_t at, uint32_t count);
/* The holder of that id, not 0, or NULL. */
struct holder *leased_find(struct leased *leased, uint64_t id);
/* The first one of that kind; of any that is over with HOLDER_SETTLED. NULL: there is none. */
struct holder *leased_first_of(struct leased *leased, enum holder_kind kind);
uint32_t leased_count_of(const struct leased *leased, enum holder_kind kind);

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

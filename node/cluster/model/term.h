/* term.h - who may decide for a vnode, as a totally ordered number.
 *
 * Every vnode has one leader per term. A term is (epoch, number, writer): the epoch of the ring
 * configuration it was opened under, a count of openings, and the id of the node that opened it.
 * Two nodes can never open the same term, because the writer is part of it; so comparing terms
 * always tells which of two leaders came later, and a stale one gives way.
 *
 * TERM-1  The leader of a vnode is the writer of its highest term.
 * TERM-2  A node only opens terms of which it is the writer, above every term it knows.
 * TERM-3  No two processes of one node open the same term, whatever the later one has forgotten: a
 *         number is a round, one more than the newest that was seen, and the incarnation of the
 *         process.
 *
 *         63             20 19          0
 *        +-----------------+-------------+
 *        |      round      | incarnation |
 *        +-----------------+-------------+
 */
#ifndef NODE_CLUSTER_MODEL_TERM_H
#define NODE_CLUSTER_MODEL_TERM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct term {
    uint64_t epoch;
    uint64_t number; /* round and incarnation (TERM-3); 0: no term was ever opened */
    uint64_t writer; /* node id */
};

enum { TERM_LEN = 24, TERM_INCARNATION_BITS = 20 };

/* Negative, zero or positive as `a` is older than, the same as, or newer than `b`. */
int term_compare(const struct term *a, const struct term *b);

/* The term that `writer`, in its process of `incarnation`, opens above `seen` under configuration
 * `epoch` (TERM-2, TERM-3). */
struct term term_above(const struct term *seen, uint64_t epoch, uint64_t writer,
                       uint64_t incarnation);

static inline bool term_equal(const struct term *a, const struct term *b)
{
    return a->epoch == b->epoch && a->number == b->number && a->writer == b->writer;
}

static inline bool term_is_none(const struct term *term)
{
    return term->number == 0;
}

static inline void term_put(struct bytes_writer *writer, const struct term *term)
{
    uint8_t *place = bytes_claim(writer, TERM_LEN);
    if (place == NULL)
        return;
    bytes_set_u64(place, term->epoch);
    bytes_set_u64(place + 8, term->number);
    bytes_set_u64(place + 16, term->writer);
}

static inline struct term term_get(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, TERM_LEN);
    if (place == NULL)
        return (struct term){0};
    return (struct term){
        .epoch = bytes_u64_at(place, 0),
        .number = bytes_u64_at(place, 1),
        .writer = bytes_u64_at(place, 2),
    };
}

#endif

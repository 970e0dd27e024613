/* term.h - who may decide for a vnode, as a totally ordered number.
 *
 * Every vnode has one decider per term. A term is (epoch, number, writer): the epoch of the ring
 * configuration it was opened under, a count of openings, and the id of the node that opened it.
 * Two nodes can never open the same term, because the writer is part of it; so comparing terms
 * always tells which of two deciders came later, and a stale one gives way.
 *
 * T1  The decider of a vnode is the writer of its highest term.
 * T2  A node only opens terms of which it is the writer, above every term it knows.
 */
#ifndef NODE_CLUSTER_TERM_H
#define NODE_CLUSTER_TERM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct term {
    uint64_t epoch;
    uint64_t number; /* 0: no term was ever opened */
    uint64_t writer; /* node id */
};

enum { TERM_LEN = 24 };

/* Negative, zero or positive as `a` is older than, the same as, or newer than `b`. */
int term_compare(const struct term *a, const struct term *b);

/* The term that `writer` opens above `seen` under configuration `epoch` (T2). */
struct term term_above(const struct term *seen, uint64_t epoch, uint64_t writer);

static inline bool term_is_none(const struct term *term)
{
    return term->number == 0;
}

void term_put(struct bytes_writer *writer, const struct term *term);
struct term term_get(struct bytes_reader *reader);

#endif

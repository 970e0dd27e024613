/* spans.h - which stretches of time were accounted for already, of some key: a few of them.
 *
 *      |--a--|      |----b----|          |--c--|        what is noted, never touching
 *                |------ asked for --------|            what is missing of it: all but b, and
 *                                                       the beginning of c
 *
 * There is room for SPANS_MAX. What has none pushes out the one that ended first, and is then asked
 * for once more: whoever pays by these spans pays too much then, never too little.
 *
 * Pure; plain memory, all zero being empty.
 */
#ifndef NODE_LIMIT_ALGORITHMS_SPANS_H
#define NODE_LIMIT_ALGORITHMS_SPANS_H

#include <stdint.h>

enum { SPANS_MAX = 3 };

struct span {
    int64_t from_ns;
    int64_t to_ns; /* not below from_ns; both 0: none */
};

struct spans {
    struct span of[SPANS_MAX];
};

/* How much of from .. to is not noted; 0 if it is empty or runs backwards. */
uint64_t spans_missing(const struct spans *spans, int64_t from_ns, int64_t to_ns);
/* Notes it, joined with what it touches. */
void spans_add(struct spans *spans, int64_t from_ns, int64_t to_ns);

#endif

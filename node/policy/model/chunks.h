/* chunks.h - memory taken piece by piece and given back whole.
 *
 * A rules file becomes thousands of small texts and arrays that live and die together. Chunks
 * hand out pieces of a few large blocks, so a failure anywhere leaves one thing to release, and
 * what is kept together in time lies together in memory.
 *
 *   first -> [ header | piece | piece | free.. ] -> [ header | one large piece ] -> NULL
 *
 * CHUNKS-1  Every piece is zeroed and aligned to CHUNKS_ALIGN bytes.
 * CHUNKS-2  `taken` is the sum of all blocks, and never exceeds the maximum set at init.
 *
 * Must not be used on the check path: it allocates.
 */
#ifndef NODE_POLICY_MODEL_CHUNKS_H
#define NODE_POLICY_MODEL_CHUNKS_H

#include <stddef.h>

#include "base/alloc.h"

enum { CHUNKS_ALIGN = 16, CHUNKS_BLOCK_LEN = 64 * 1024 };

struct chunks_block;

struct chunks {
    const struct allocator *allocator;
    struct chunks_block *first;
    size_t taken;
    size_t taken_max;
};

/* Prepares empty chunks that will never take more than `taken_max` bytes. Takes nothing yet. */
void chunks_init(struct chunks *chunks, const struct allocator *allocator, size_t taken_max);
/* Gives every block back; all pieces are gone. */
void chunks_fini(struct chunks *chunks);
/* A zeroed piece of `count` elements of `size` bytes (at least one byte), NULL when memory or the
 * maximum is exhausted. Lives until chunks_fini. */
void *chunks_get(struct chunks *chunks, size_t count, size_t size);
/* A NUL-terminated copy of `len` bytes, or NULL. */
char *chunks_copy(struct chunks *chunks, const char *text, size_t len);

#endif

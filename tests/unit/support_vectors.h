/* support_vectors.h - reads client/protocol/vectors.txt, the client protocol by example. */
#ifndef TESTS_UNIT_SUPPORT_VECTORS_H
#define TESTS_UNIT_SUPPORT_VECTORS_H

#include <stddef.h>
#include <stdint.h>

enum { VECTOR_NAME_LEN = 80, VECTOR_FRAME_MAX = 8192, VECTOR_ERROR_LEN = 256, VECTORS_MAX = 128 };

/* One block of the file; a field that the block lacks is empty. */
struct vector {
    char name[VECTOR_NAME_LEN];
    char error[VECTOR_ERROR_LEN];
    uint8_t frame[VECTOR_FRAME_MAX]; /* or the identity's bytes */
    size_t len;
    uint8_t route_key[16];
    unsigned long vnodes;
    unsigned long vnode;
};

/* All blocks of the file, read from the root of the tree; fails the test if there is none.
 * Returns their number; the caller frees *vectors. */
size_t vectors_read(struct vector **vectors);

#endif

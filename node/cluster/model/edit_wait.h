/* edit_wait.h - who would rather wait for an edit than be told that it waits.
 *
 * Pure. Any thread, on the caller's memory.
 */
#ifndef NODE_CLUSTER_MODEL_EDIT_WAIT_H
#define NODE_CLUSTER_MODEL_EDIT_WAIT_H

#include <stddef.h>
#include <stdint.h>

enum { EDIT_WAIT_LEN = 128 };
/* What an edit's state is called that is not decided. */
extern const char edit_wait_state[];

/* Whether whoever sent the ADMIN frame would rather wait than be given this reply: its argument
 * "wait" is true, and the edit is not decided. The length of the ADMIN frame in `out` that asks for
 * the same edit, to be answered in the place of this one; or 0. */
size_t edit_wait_again(const void *frame, size_t len, const void *reply, size_t reply_len,
                       uint8_t out[EDIT_WAIT_LEN]);

#endif

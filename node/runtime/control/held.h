/* held.h - questions that wait for their answer: on edits until these are decided, on `status`
 * until others have told their figures.
 *
 *   answer "waiting" --held_put--> [question]  every HELD_EVERY_NS: asked again, and held anew
 *
 * HELD-1  At most HELD_MAX; who finds no place is told what there is, and asks again itself.
 *
 * The control loop's thread.
 */
#ifndef NODE_RUNTIME_CONTROL_HELD_H
#define NODE_RUNTIME_CONTROL_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/runtime/system/mailbox.h"

enum { HELD_MAX = 128 };
#define HELD_EVERY_NS INT64_C(2000000)

struct held {
    uint32_t count;
    int64_t looked_ns;
    struct mailbox_message questions[HELD_MAX];
};

/* Keeps a copy of the question for whom `message` came from. False: there is no place, or no
 * memory. */
bool held_put(struct held *held, const struct mailbox_message *message, const void *question,
              size_t len);
/* Holds a question that held_take gave, as it is. There is always a place. */
void held_keep(struct held *held, const struct mailbox_message *question);
/* Gives all that are held to `out` if they are due, and forgets them: their blocks are the
 * caller's. Returns how many. */
uint32_t held_take(struct held *held, int64_t now_ns, struct mailbox_message out[HELD_MAX]);
/* Frees what is held, at the end. */
void held_fini(struct held *held);

#endif

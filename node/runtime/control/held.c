/* held.c - see held.h. */
#include "node/runtime/control/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

bool held_put(struct held *held, const struct mailbox_message *message, const void *question,
              size_t len)
{
    ASSERT(held->count <= HELD_MAX); /* HELD-1 */
    void *copy = held->count < HELD_MAX ? malloc(len) : NULL;
    if (copy == NULL)
        return false;
    memcpy(copy, question, len);
    struct mailbox_message *place = &held->questions[held->count++];
    *place = *message;
    place->pointer = copy;
    place->len = len;
    return true;
}

void held_keep(struct held *held, const struct mailbox_message *question)
{
    ASSERT(held->count < HELD_MAX); /* HELD-1 */
    held->questions[held->count++] = *question;
}

uint32_t held_take(struct held *held, int64_t now_ns, struct mailbox_message out[HELD_MAX])
{
    const uint32_t count = held->count;
    if (count == 0 || now_ns - held->looked_ns < HELD_EVERY_NS)
        return 0;
    memcpy(out, held->questions, count * sizeof *out);
    held->count = 0;
    held->looked_ns = now_ns;
    return count;
}

void held_fini(struct held *held)
{
    for (uint32_t i = 0; i < held->count; i++)
        free(held->questions[i].pointer);
    held->count = 0;
}

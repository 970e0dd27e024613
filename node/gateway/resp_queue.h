/* resp_queue.h - the commands of a transaction, from MULTI to EXEC.
 *
 *   MULTI --> put, put, put --EXEC--> taken one after the other, as if they came then
 *                           --DISCARD, the connection's end--> dropped
 *
 * Here a transaction is a pipeline whose replies come in one array: each command is decided by
 * itself, and others may come between. Memory is asked for by the first command, and bounded for a
 * connection and for all.
 *
 * Pure. The thread of the connection.
 */
#ifndef NODE_GATEWAY_RESP_QUEUE_H
#define NODE_GATEWAY_RESP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    RESP_QUEUE_MAX = 64 << 10,   /* bytes of a transaction */
    RESP_QUEUE_ALWAYS = 4 << 10, /* of these, what is there whatever others have */
    RESP_QUEUES_MAX = 64 << 20,  /* of all */
    RESP_QUEUED_MAX = 4096       /* commands of a transaction */
};

/* What all transactions of a gate share. */
struct resp_queues {
    const struct allocator *allocator;
    size_t total; /* bytes that they have */
};

/* All zero: empty. */
struct resp_queue {
    char *bytes;
    uint32_t capacity;
    uint32_t len;
    uint32_t at;    /* of the next command to be taken */
    uint32_t count; /* commands that were put */
};

/* Keeps a request as it came. 0, or it is not kept: TG_EFULL, the transaction is too long; or
 * TG_EBUSY, all together are. */
MUST_USE int resp_queue_put(struct resp_queues *queues, struct resp_queue *queue, const char *data,
                            size_t len);
void resp_queue_drop(struct resp_queues *queues, struct resp_queue *queue);

#endif

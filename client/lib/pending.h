/* pending.h - messages that were sent and not answered yet, by their seq. Pure; not thread-safe.
 *
 *   slot = seq % capacity        a new seq is the next one whose slot is free
 *
 * so that an answer finds its message in one step and nothing is allocated per message.
 */
#ifndef CLIENT_LIB_PENDING_H
#define CLIENT_LIB_PENDING_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

struct client_pending_slot {
    uint64_t seq;
    void *message; /* NULL = free */
};

struct client_pending {
    const struct allocator *allocator;
    struct client_pending_slot *slots;
    size_t capacity;
    size_t count;
    uint64_t seq_last;
};

/* Room for `capacity` messages, at least one. 0 or TG_ENOMEM. */
MUST_USE int client_pending_init(struct client_pending *pending, const struct allocator *allocator,
                                 size_t capacity);
void client_pending_fini(struct client_pending *pending);
/* A seq that was never given before, never 0, whose slot is free: for client_pending_put. 0 or
 * TG_EBUSY (full). A seq that is then not put is skipped for ever. */
MUST_USE int client_pending_next(struct client_pending *pending, uint64_t *seq);
/* Keeps `message` (not NULL) under the seq that client_pending_next gave last. */
void client_pending_put(struct client_pending *pending, uint64_t seq, void *message);
/* The message of this seq, or NULL: answered before, given up, or never sent. */
void *client_pending_find(const struct client_pending *pending, uint64_t seq);
void client_pending_remove(struct client_pending *pending, uint64_t seq);
/* Asserts that each message is in its seq's slot; for tests. */
void client_pending_check_invariants(const struct client_pending *pending);

#endif

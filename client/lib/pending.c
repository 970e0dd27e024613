/* pending.c - messages that wait for an answer, by seq.
 *
 * I1  A seq is given once: seq_last only grows. Skipped numbers are never used.
 * I2  slots[s].seq % capacity == s for each used slot, so seqs in one slot differ by a multiple of
 *     the capacity and are told apart by comparing the whole seq.
 */
#include "client/lib/pending.h"

#include "base/assert.h"

int client_pending_init(struct client_pending *pending, const struct allocator *allocator,
                        size_t capacity)
{
    *pending = (struct client_pending){.allocator = allocator, .capacity = capacity};
    pending->slots = alloc_array(allocator, capacity, sizeof *pending->slots);
    return pending->slots != NULL ? 0 : TG_ENOMEM;
}

void client_pending_fini(struct client_pending *pending)
{
    if (pending->slots != NULL)
        alloc_put(pending->allocator, pending->slots, pending->capacity * sizeof *pending->slots);
    *pending = (struct client_pending){0};
}

static struct client_pending_slot *slot_of(const struct client_pending *pending, uint64_t seq)
{
    return &pending->slots[seq % pending->capacity];
}

int client_pending_next(struct client_pending *pending, uint64_t *seq)
{
    if (pending->count == pending->capacity)
        return TG_EBUSY;
    do {
        pending->seq_last++;
    } while (slot_of(pending, pending->seq_last)->message != NULL);
    *seq = pending->seq_last;
    return 0;
}

void client_pending_put(struct client_pending *pending, uint64_t seq, void *message)
{
    struct client_pending_slot *slot = slot_of(pending, seq);

    ASSERT(message != NULL && slot->message == NULL);
    *slot = (struct client_pending_slot){.seq = seq, .message = message};
    pending->count++;
}

void *client_pending_find(const struct client_pending *pending, uint64_t seq)
{
    const struct client_pending_slot *slot = slot_of(pending, seq);

    return slot->message != NULL && slot->seq == seq ? slot->message : NULL;
}

void client_pending_remove(struct client_pending *pending, uint64_t seq)
{
    struct client_pending_slot *slot = slot_of(pending, seq);

    ASSERT(slot->message != NULL && slot->seq == seq);
    slot->message = NULL;
    pending->count--;
}

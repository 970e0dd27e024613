/* pending.c - messages that wait for an answer, by seq.
 *
 * PENDING-1  A seq is given once: seq_last only grows. Skipped numbers are never used.
 * PENDING-2  slots[s].seq % capacity == s for each used slot, so seqs in one slot differ by a
 *            multiple of the capacity and are told apart by comparing the whole seq.
 */
#include "client/lib/pending.h"

#include "base/assert.h"

int client_pending_init(struct client_pending *pending, const struct allocator *allocator,
                        size_t capacity)
{
    ASSERT(capacity >= 1);
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
    ASSERT(pending->count < pending->capacity); /* a free slot ends the search */
    do {
        pending->seq_last++;
    } while (slot_of(pending, pending->seq_last)->message != NULL);
    *seq = pending->seq_last;
    return 0;
}

void client_pending_put(struct client_pending *pending, uint64_t seq, void *message)
{
    ASSERT(seq != 0 && seq <= pending->seq_last); /* PENDING-1 */
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
    ASSERT(pending->count > 0); /* PENDING-2 */
    pending->count--;
}

void client_pending_check_invariants(const struct client_pending *pending)
{
    size_t used = 0;

    for (size_t i = 0; i < pending->capacity; i++) {
        const struct client_pending_slot *slot = &pending->slots[i];

        INVARIANT("PENDING-1", slot->seq <= pending->seq_last);
        INVARIANT("PENDING-2", slot->message == NULL || slot->seq % pending->capacity == i);
        used += slot->message != NULL;
    }
    INVARIANT("PENDING-2", used == pending->count);
}

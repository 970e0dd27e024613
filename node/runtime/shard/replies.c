/* replies.c - counting the bytes of answers that wait for slow readers; replies.h is the contract.
 *
 * Connections share the places of a small table by their number, which libzmq gives out at random:
 * that two meet in one place costs the second some room, never correctness.
 */
#include "node/runtime/shard/replies.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/runtime/system/socket.h"

enum { PLACES = 1024 };

struct replies {
    atomic_size_t references; /* the owner's and one of each counted answer (REPLIES-3) */
    atomic_size_t total;
    atomic_size_t waiting[PLACES];
    uint64_t dropped;
};

/* What lies before the bytes of a counted answer. */
struct reply_block {
    size_t len;
    uint32_t place;
    unsigned char bytes[];
};

int replies_new(struct replies **out)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return TG_ENOMEM;
    atomic_init(&(*out)->references, 1);
    return 0;
}

static void unreference(struct replies *replies)
{
    const size_t before = atomic_fetch_sub_explicit(&replies->references, 1, memory_order_acq_rel);
    ASSERT(before > 0); /* REPLIES-3 */
    if (before == 1)
        free(replies);
}

void replies_free(struct replies **replies)
{
    if (*replies != NULL)
        unreference(*replies);
    *replies = NULL;
}

/* Called by libzmq, on any of its threads, when an answer has been sent or dropped. The shard
 * filled the block before it counted the reference (release), so it is whole after that was read
 * (acquire). */
static void sent(void *data, void *hint)
{
    struct replies *replies = hint;
    (void)atomic_load_explicit(&replies->references, memory_order_acquire);
    struct reply_block *block =
        (void *)((unsigned char *)data - offsetof(struct reply_block, bytes));
    const size_t waiting = atomic_fetch_sub_explicit(&replies->waiting[block->place], block->len,
                                                     memory_order_relaxed);
    const size_t total =
        atomic_fetch_sub_explicit(&replies->total, block->len, memory_order_relaxed);
    ASSERT(waiting >= block->len && total >= block->len); /* REPLIES-1 */
    free(block);
    unreference(replies);
}

static int send_counted(struct replies *replies, void *router, uint64_t connection,
                        const void *data, size_t len)
{
    const uint32_t place = (uint32_t)(connection % PLACES);
    struct reply_block *block = malloc(sizeof *block + len);
    if (block == NULL)
        return TG_ENOMEM;
    *block = (struct reply_block){.len = len, .place = place};
    memcpy(block->bytes, data, len);
    (void)atomic_fetch_add_explicit(&replies->references, 1, memory_order_release);
    (void)atomic_fetch_add_explicit(&replies->waiting[place], len, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&replies->total, len, memory_order_relaxed);
    return socket_reply_block(router, connection, block->bytes, len, sent, replies);
}

int replies_send(struct replies *replies, void *router, uint64_t connection, const void *data,
                 size_t len)
{
    if (len <= REPLIES_SMALL) /* REPLIES-2 */
        return socket_reply(router, connection, data, len);
    const uint32_t place = (uint32_t)(connection % PLACES);
    const size_t waiting = atomic_load_explicit(&replies->waiting[place], memory_order_relaxed);
    const size_t total = atomic_load_explicit(&replies->total, memory_order_relaxed);
    if (waiting + len > REPLIES_CONNECTION_MAX || total + len > REPLIES_TOTAL_MAX) { /* REPLIES-1 */
        replies->dropped++;
        return TG_EBUSY;
    }
    return send_counted(replies, router, connection, data, len);
}

uint64_t replies_dropped(const struct replies *replies)
{
    return replies->dropped;
}

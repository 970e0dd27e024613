/* mailbox.h - messages between the loops of the process, and the wake-up that comes with them.
 *
 * Each loop owns one mailbox that others put messages into. A message is small and may carry one
 * heap block that goes over to the receiver. Messages are rare (views, rules, admin frames): a
 * mutex is fine here, and nothing on the check path uses it.
 *
 * MAILBOX-1  At most MAILBOX_MESSAGES_MAX messages wait, each of a known kind; one that hands over
 *            something has it.
 * MAILBOX-2  Of these at most all but MAILBOX_KEPT are questions and replies (mailbox_put).
 */
#ifndef NODE_RUNTIME_SYSTEM_MAILBOX_H
#define NODE_RUNTIME_SYSTEM_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

enum {
    MAILBOX_MESSAGES_MAX = 4096,
    MAILBOX_KEPT =
        256 /* of these, for what the node itself has to say: not for clients' questions */
};

enum mailbox_message_kind {
    MESSAGE_VIEW,    /* to a shard: `pointer` is a struct view, the receiver's from now on */
    MESSAGE_POLICY,  /* to a shard: `pointer` is a struct policy, likewise */
    MESSAGE_REPLY,   /* to a shard: send the block to client `number` */
    MESSAGE_RESIGN,  /* to a shard: pass deciding on, write everything */
    MESSAGE_STOP,    /* to a shard: end */
    MESSAGE_ADMIN,   /* to control: the block is an ADMIN frame of client `number` of `shard` */
    MESSAGE_CLOSED,  /* to control: the connection to node `number` was lost */
    MESSAGE_SETTLED, /* to control: shard `shard` has settled epoch `number` */
    MESSAGE_IDLE,    /* to control: shard `shard` has resigned and written everything */
    MESSAGE_USAGE, /* to a shard: `pointer` is an empty struct usage_tally, the receiver's from now
                     on; to control: the one that `shard` had before, or NULL */
};

struct mailbox_message {
    enum mailbox_message_kind kind;
    uint32_t shard;
    uint64_t number;
    void *pointer; /* a malloc'ed block of `len` bytes, or what the kind says */
    size_t len;
};

struct mailbox {
    pthread_mutex_t lock;
    uv_async_t *wake; /* of the receiving loop */
    struct mailbox_message *messages;
    uint32_t first;
    uint32_t count;
    uint64_t refused;
};

MUST_USE int mailbox_init(struct mailbox *mailbox, uv_async_t *wake);
/* Frees blocks of messages that were never taken (MESSAGE_REPLY, MESSAGE_ADMIN). */
void mailbox_fini(struct mailbox *mailbox);
/* Puts a message and wakes the receiver. False (and the block stays the sender's) when it is full;
 * for MESSAGE_ADMIN and MESSAGE_REPLY it is so MAILBOX_KEPT messages earlier: a flood of questions
 * keeps no view, rules or end from a shard. Any thread. */
bool mailbox_put(struct mailbox *mailbox, const struct mailbox_message *message);
/* A copy of `data` as the message's block. Any thread. */
bool mailbox_put_copy(struct mailbox *mailbox, enum mailbox_message_kind kind, uint32_t shard,
                      uint64_t number, const void *data, size_t len);
/* The next message; its block is the receiver's to free. */
bool mailbox_take(struct mailbox *mailbox, struct mailbox_message *out);
/* Asserts MAILBOX-1 and MAILBOX-2. For tests; any thread. */
void mailbox_check_invariants(struct mailbox *mailbox);

#endif

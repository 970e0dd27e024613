/* mailbox.h - letters between the loops of the process, and the wake-up that comes with them.
 *
 * Each loop owns one mailbox that others put letters into. A letter is small and may carry one
 * heap block that goes over to the receiver. Letters are rare (views, rules, admin frames): a
 * mutex is fine here, and nothing on the check path uses it.
 *
 * MAILBOX-1  At most MAILBOX_LETTERS_MAX letters wait, each of a known kind; one that hands over
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
    MAILBOX_LETTERS_MAX = 4096,
    MAILBOX_KEPT =
        256 /* of these, for what the node itself has to say: not for clients' questions */
};

enum letter_kind {
    LETTER_VIEW,    /* to a shard: `pointer` is a struct view, the receiver's from now on */
    LETTER_POLICY,  /* to a shard: `pointer` is a struct policy, likewise */
    LETTER_REPLY,   /* to a shard: send the block to client `number` */
    LETTER_RESIGN,  /* to a shard: pass deciding on, write everything */
    LETTER_STOP,    /* to a shard: end */
    LETTER_ADMIN,   /* to control: the block is an ADMIN frame of client `number` of `shard` */
    LETTER_CLOSED,  /* to control: the connection to node `number` was lost */
    LETTER_SETTLED, /* to control: shard `shard` has settled epoch `number` */
    LETTER_IDLE,    /* to control: shard `shard` has resigned and written everything */
    LETTER_USAGE,   /* to a shard: `pointer` is an empty struct usage_tally, the receiver's from now
                       on; to control: the one that `shard` had before, or NULL */
};

struct letter {
    enum letter_kind kind;
    uint32_t shard;
    uint64_t number;
    void *pointer; /* a malloc'ed block of `len` bytes, or what the kind says */
    size_t len;
};

struct mailbox {
    pthread_mutex_t lock;
    uv_async_t *wake; /* of the receiving loop */
    struct letter *letters;
    uint32_t first;
    uint32_t count;
    uint64_t refused;
};

MUST_USE int mailbox_init(struct mailbox *mailbox, uv_async_t *wake);
/* Frees blocks of letters that were never taken (LETTER_REPLY, LETTER_ADMIN). */
void mailbox_fini(struct mailbox *mailbox);
/* Puts a letter and wakes the receiver. False (and the block stays the sender's) when it is full;
 * for LETTER_ADMIN and LETTER_REPLY it is so MAILBOX_KEPT letters earlier: a flood of questions
 * keeps no view, rules or end from a shard. Any thread. */
bool mailbox_put(struct mailbox *mailbox, const struct letter *letter);
/* A copy of `data` as the letter's block. Any thread. */
bool mailbox_put_copy(struct mailbox *mailbox, enum letter_kind kind, uint32_t shard,
                      uint64_t number, const void *data, size_t len);
/* The next letter; its block is the receiver's to free. */
bool mailbox_take(struct mailbox *mailbox, struct letter *out);
/* Asserts MAILBOX-1 and MAILBOX-2. For tests; any thread. */
void mailbox_check_invariants(struct mailbox *mailbox);

#endif

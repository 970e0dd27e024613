/* replies.h - answers on their way to clients, with a bound in bytes on what was not sent yet.
 *
 * libzmq bounds a connection's queue in messages. That says nothing about memory when a message
 * may have a megabyte: a few clients that ask and never read would fill the machine. So answers
 * that are not small are counted in bytes until libzmq's thread has sent or dropped them, a
 * connection's own and all together.
 *
 *     replies_send --> count += len --> libzmq's queue --> sent or dropped --> count -= len
 *
 * REPLIES-1  At most REPLIES_CONNECTION_MAX bytes wait in one place of the table, and
 *            REPLIES_TOTAL_MAX in all. An answer beyond that is dropped and counted: its reader
 *            does not read.
 * REPLIES-2  Answers of up to REPLIES_SMALL bytes are not counted: the bound in messages is enough.
 * REPLIES-3  The table lives until the last answer has left it, even if replies_free came earlier.
 *
 * replies_send belongs to one thread; counts go down on libzmq's.
 */
#ifndef NODE_RUNTIME_SHARD_REPLIES_H
#define NODE_RUNTIME_SHARD_REPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    REPLIES_SMALL = 4096,
    REPLIES_CONNECTION_MAX = 8 << 20,
    REPLIES_TOTAL_MAX = 256 << 20,
};

struct replies;

/* 0 or TG_ENOMEM. */
MUST_USE int replies_new(struct replies **out);
void replies_free(struct replies **replies);

/* Sends a copy of `data` to a ROUTER's connection, without waiting: 0, TG_EBUSY (its reader is too
 * slow), TG_EUNREACHABLE (it is gone) or TG_ENOMEM. */
int replies_send(struct replies *replies, void *router, uint64_t connection, const void *data,
                 size_t len);
/* Answers that were dropped because of the bounds. */
uint64_t replies_dropped(const struct replies *replies);

#endif

/* call.h - one call of the API, from the queue to its end. */
#ifndef CLIENT_LIB_CALL_H
#define CLIENT_LIB_CALL_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#include "client/include/tidegate.h"

struct client_hold;
struct tg_client;

/* What one call of the API asks: requests, or one administrative command. */
struct client_call {
    struct client_call *next; /* in the queue, then among the live calls */
    struct client_call *prev;
    struct client_call *next_asked; /* among those of leases.c that wait to be started */
    const tg_request_t *requests;
    tg_decision_t *decisions;
    size_t count;        /* of requests; 0 for administration */
    int operation;       /* replaces the requests' own; negative = theirs */
    const char *command; /* administration */
    const void *arguments;
    size_t arguments_len;
    tg_reply_t reply;
    int64_t deadline_ns;
    size_t undecided; /* I/O thread: requests without a decision */
    size_t items_out; /* I/O thread: items, messages and lists, beside the live ones, that refer to
                       * this call */
    size_t failed_at; /* index of the first request without a decision that counts as one */
    int code;         /* 0, or its error */
    bool sent;        /* a message with one of its requests left this host */
    bool crowded;     /* one of them waits for a window that is full */
    bool done;
    /* Not NULL: nobody waits for the call, and its end is told here (leases.c). */
    void (*ended)(struct tg_client *client, const struct client_call *call);
    struct client_hold *hold; /* what leases.c asked it for */
    tg_callback_t callback;   /* asynchronous calls */
    void *argument;
    sem_t completed;   /* waiting calls */
    atomic_int owners; /* the I/O thread and, if it waits, the caller: the last one frees it */
};

/* ---- any thread ---- */

/* Whether so many more requests would not be too many now: a look that reserves nothing. */
bool client_call_room(const struct tg_client *client, size_t count);
/* Counts `count` more requests in flight; false if that would be too many. */
bool client_call_reserve(struct tg_client *client, size_t count);
/* Takes back what was reserved for a call that never came to the queue. */
void client_call_unreserve(struct tg_client *client, size_t count);
/* Gives up one owner's claim; the last one frees it. */
void client_call_drop(struct client_call *call);

/* ---- I/O thread only ---- */

/* The operation of one of its requests. */
static inline int client_call_operation(const struct client_call *call, size_t index)
{
    return call->operation >= 0 ? call->operation : (int)call->requests[index].operation;
}

/* The call is live from now on. */
void client_call_enter(struct tg_client *client, struct client_call *call);
/* One of the call's requests is asked, answered, or has failed: if it may make room, what is asked
 * after it is decided after it, not by a denial that is older. */
void client_call_give_back(struct tg_client *client, const struct client_call *call, size_t index);
/* One more of its decisions was filled in; with the last one the call completes. */
void client_call_decided(struct tg_client *client, struct client_call *call);
/* The same for one that has none: fills it by `code` and on_failure. */
void client_call_fail(struct tg_client *client, struct client_call *call, uint32_t index, int code);
/* Fails whatever it still lacks and completes it. */
void client_call_end(struct tg_client *client, struct client_call *call, int code);
/* Takes one reference of an item or message away. */
void client_call_release(struct client_call *call);

#endif

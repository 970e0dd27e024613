/* call.c - the life of one call inside the I/O thread, from its first decision to its end.
 *
 *   queued -> LIVE --every request decided or failed--> done --items_out == 0--> dropped
 *                 \--deadline--> the rest fails -------/
 *
 * CALL-1  `undecided` falls by one per request and never twice for one: an item is answered once,
 *         for its message leaves `pending` with the first answer.
 * CALL-2  After `done` neither requests nor decisions are touched: they are the caller's again.
 */
#include "client/lib/call.h"

#include <stdlib.h>

#include "base/assert.h"
#include "client/lib/client.h"

static bool has_room(const struct tg_client *client, size_t in_flight, size_t count)
{
    return count <= client->config.in_flight_max &&
           in_flight <= client->config.in_flight_max - count;
}

bool client_call_room(const struct tg_client *client, size_t count)
{
    return has_room(client, atomic_load_explicit(&client->shared.in_flight, memory_order_relaxed),
                    count);
}

bool client_call_reserve(struct tg_client *client, size_t count)
{
    size_t now = atomic_load(&client->shared.in_flight);

    do {
        if (!has_room(client, now, count))
            return false;
    } while (!atomic_compare_exchange_weak(&client->shared.in_flight, &now, now + count));
    return true;
}

void client_call_unreserve(struct tg_client *client, size_t count)
{
    const size_t before = atomic_fetch_sub(&client->shared.in_flight, count);

    ASSERT(before >= count); /* CLIENT-5 */
}

void client_call_drop(struct client_call *call)
{
    ASSERT(atomic_load_explicit(&call->owners, memory_order_relaxed) >= 1); /* CLIENT-3 */
    if (atomic_fetch_sub_explicit(&call->owners, 1, memory_order_acq_rel) != 1)
        return;
    (void)sem_destroy(&call->completed);
    free(call);
}

void client_call_release(struct client_call *call)
{
    ASSERT(call->items_out > 0);
    call->items_out--;
    if (call->done && call->items_out == 0)
        client_call_drop(call);
}

static void tell_caller(struct tg_client *client, struct client_call *call)
{
    ASSERT(call->ended == NULL && call->done);
    client_call_unreserve(client, call->count != 0 ? call->count : 1);
    if (call->callback == NULL) {
        (void)sem_post(&call->completed);
        return;
    }
    call->callback(call->argument, call->code, call->decisions, call->count);
    (void)atomic_fetch_sub(&client->shared.asynchronous, 1);
}

void client_call_enter(struct tg_client *client, struct client_call *call)
{
    ASSERT(!call->done && call->deadline_ns > 0);
    call->prev = NULL;
    call->next = client->driver.live;
    if (call->next != NULL)
        call->next->prev = call;
    client->driver.live = call;
    client_wake_by(client, call->deadline_ns);
}

void client_call_give_back(struct tg_client *client, const struct client_call *call, size_t index)
{
    if (call->hold == NULL && client_gives_back(client_call_operation(call, index)))
        client_denial_forget(&client->shared.denials, client->driver.now_ns);
}

static void complete(struct tg_client *client, struct client_call *call)
{
    ASSERT(!call->done);
    ASSERT(call->undecided == 0); /* CALL-1 */
    call->done = true;
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        client->driver.live = call->next;
    if (call->next != NULL)
        call->next->prev = call->prev;
    if (call->ended != NULL)
        call->ended(client, call);
    else
        tell_caller(client, call);
    if (call->items_out == 0)
        client_call_drop(call);
}

void client_call_decided(struct tg_client *client, struct client_call *call)
{
    ASSERT(call->undecided > 0);
    if (--call->undecided == 0)
        complete(client, call);
}

static void fail_one(struct tg_client *client, struct client_call *call, size_t index, int code)
{
    ASSERT(index < call->count && !call->done); /* CALL-2 */
    client_call_give_back(client, call, index); /* it may have been carried out */
    if (client_decision_fail(&call->decisions[index], code, client->config.on_failure) == 0)
        return;
    if (call->code == 0 || index < call->failed_at) {
        call->code = code;
        call->failed_at = index;
    }
}

void client_call_fail(struct tg_client *client, struct client_call *call, uint32_t index, int code)
{
    ASSERT(index < call->count && code < 0);
    fail_one(client, call, index, code);
    client_call_decided(client, call);
}

/* Decisions start out with `outcome` beyond the vocabulary (tidegate.c), so that the undecided
 * ones can be told. */
void client_call_end(struct tg_client *client, struct client_call *call, int code)
{
    ASSERT(!call->done); /* CLIENT-3 */
    for (size_t i = 0; i < call->count; i++) {
        if ((unsigned)call->decisions[i].outcome >= OUTCOME_COUNT)
            fail_one(client, call, i, code);
    }
    if (call->count == 0)
        call->code = code;
    call->undecided = 0;
    complete(client, call);
}

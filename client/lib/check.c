/* check.c - whether a handle is whole: what the calls, messages, queues, links and leases say of
 * each other.
 *
 * The ids are those of the files that own the state: client.h, call.c, messages.c, links.c,
 * leases.c; items, pending messages, windows, holds and denials check themselves.
 */
#include "client/lib/check.h"

#include "base/assert.h"
#include "client/lib/call.h"
#include "client/lib/client.h"
#include "client/lib/message.h"

/* ---- calls ------------------------------------------------------------------------------- */

static size_t items_of_queue(const struct client_items *items, const struct client_queue *queue,
                             const struct client_call *call)
{
    uint32_t block = queue->first;
    size_t found = 0;

    for (uint32_t left = queue->count; left > 0; block = items->blocks[block].next) {
        for (uint32_t at = items->blocks[block].begin; at < items->blocks[block].end; at++, left--)
            found += items->blocks[block].items[at].call == call;
    }
    return found;
}

/* How many items, messages and lists refer to the call. */
static size_t references(const struct tg_client *client, const struct client_call *call)
{
    const struct client_driver *driver = &client->driver;
    size_t found = items_of_queue(&driver->items, &driver->waiting, call);

    for (uint16_t i = 0; i < driver->link_count; i++)
        found += items_of_queue(&driver->items, &driver->links[i].queue, call);
    for (const struct client_message *message = driver->messages; message != NULL;
         message = message->next) {
        found += message->admin == call;
        for (uint32_t i = 0; i < message->count; i++)
            found += message->items[i].call == call;
    }
    for (const struct client_call *asked = driver->asked_first; asked != NULL;
         asked = asked->next_asked)
        found += asked == call;
    return found;
}

static size_t undecided(const struct client_call *call)
{
    size_t found = 0;

    for (size_t i = 0; i < call->count; i++)
        found += (unsigned)call->decisions[i].outcome >= OUTCOME_COUNT;
    return found;
}

static void check_calls(const struct tg_client *client)
{
    size_t of_leases = 0;
    size_t requests = 0;

    for (const struct client_call *call = client->driver.live; call != NULL; call = call->next) {
        INVARIANT("CLIENT-3", !call->done);
        INVARIANT("CLIENT-3", call->next == NULL || call->next->prev == call);
        INVARIANT("CALL-1", call->undecided == undecided(call));
        INVARIANT("MESSAGES-1", call->items_out == references(client, call));
        INVARIANT("LEASES-1", (call->hold == NULL) == (call->ended == NULL));
        INVARIANT("LEASES-1", call->hold == NULL || call->hold->calls > 0);
        of_leases += call->hold != NULL;
        requests += call->hold != NULL ? 0 : call->count != 0 ? call->count : 1;
    }
    INVARIANT("CLIENT-5", client->driver.lease_calls == of_leases);
    INVARIANT("CLIENT-5", of_leases <= CLIENT_LEASE_CALLS_MAX);
    INVARIANT("CLIENT-5", requests <= atomic_load(&client->shared.in_flight));
    INVARIANT("CLIENT-5", requests <= client->config.in_flight_max);
}

/* ---- messages, queues and links ---------------------------------------------------------- */

static void check_messages(const struct tg_client *client)
{
    const struct client_driver *driver = &client->driver;
    size_t out[CLIENT_LINKS_MAX] = {0};
    size_t count = 0;

    for (const struct client_message *message = driver->messages; message != NULL;
         message = message->next) {
        INVARIANT("MESSAGES-2", client_pending_find(&driver->pending, message->seq) == message);
        INVARIANT("MESSAGES-2", (message->admin != NULL) == (message->count == 0));
        INVARIANT("MESSAGES-2", message->next == NULL || message->next->prev == message);
        INVARIANT("WINDOW-1",
                  message->window == CLIENT_LINK_NONE || message->window < driver->link_count);
        if (message->window != CLIENT_LINK_NONE)
            out[message->window] += message->count;
        count++;
    }
    INVARIANT("MESSAGES-2", driver->pending.count == count);
    for (uint16_t i = 0; i < driver->link_count; i++)
        INVARIANT("WINDOW-1", driver->links[i].window.out == out[i]);
}

static void check_links(const struct tg_client *client)
{
    const struct client_driver *driver = &client->driver;
    size_t waiting = driver->waiting.count;

    INVARIANT("LINKS-1", driver->link_count <= CLIENT_LINKS_MAX);
    INVARIANT("LINKS-1",
              driver->preferred == CLIENT_LINK_NONE || driver->preferred < driver->link_count);
    client_items_check_invariants(&driver->items, &driver->waiting);
    for (uint16_t i = 0; i < driver->link_count; i++) {
        const struct client_link *link = &driver->links[i];
        const bool known = link->endpoint[0] != '\0';

        INVARIANT("LINK-3", link->socket != NULL || (!link->up && !link->welcomed));
        INVARIANT("LINKS-1", known || (link->socket == NULL && link->queue.count == 0));
        client_items_check_invariants(&driver->items, &link->queue);
        client_window_check_invariants(&link->window);
        waiting += link->queue.count;
    }
    INVARIANT("ITEMS-2", waiting + driver->items.room == client->config.items_max);
}

void client_check_invariants(const struct tg_client *client)
{
    check_links(client);
    check_messages(client);
    check_calls(client);
    client_pending_check_invariants(&client->driver.pending);
    client_hold_check_invariants(&client->shared.holds);
    client_denial_check_invariants(&client->shared.denials);
}

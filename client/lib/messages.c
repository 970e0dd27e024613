/* messages.c - from queued calls to messages on links, and again elsewhere when a link fails.
 *
 *   items --place--> waiting (no link is up)
 *              \---> queue of a link --build--> message --send--> pending
 *                                                 ^                |  link fell, try timed out,
 *                                                 +----retry-------+  or node cannot decide now
 *
 * MESSAGES-1  An item is in exactly one place: the waiting queue, one link's queue, or one message.
 * MESSAGES-2  A message never changes its items, nor its seq: a retry is the same message with
 *             RETRY.
 * MESSAGES-3  Items for one link keep the order in which they were asked.
 * MESSAGES-4  Of what is asked of a link and not answered a message takes a quarter, rounded up:
 *             the node decides one while the next is built and the answer to another is read. With
 *             few under way, in one message, node and client would work in turns; with many, large
 *             messages cost least.
 */
#include "client/lib/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "client/lib/call.h"
#include "client/lib/client.h"
#include "client/lib/detail.h"
#include "client/lib/leases.h"
#include "client/lib/links.h"
#include "client/lib/local.h"
#include "client/lib/message.h"

static const int64_t ms_ns = 1000000;

/* ---- choosing a link --------------------------------------------------------------------- */

static bool link_usable(const struct tg_client *client, uint16_t number)
{
    const struct client_link *link = &client->driver.links[number];

    return link->up && link->refused == 0 && link->stalled_ns <= client->driver.now_ns;
}

/* Any link but `not_this`, if there is another: the preferred one, else the next in turn. */
static uint16_t link_any(const struct tg_client *client, uint16_t not_this)
{
    uint16_t spare = CLIENT_LINK_NONE;

    if (client->driver.preferred != not_this &&
        client->driver.preferred < client->driver.link_count &&
        link_usable(client, client->driver.preferred))
        return client->driver.preferred;
    for (uint16_t i = 1; i <= client->driver.link_count; i++) {
        const uint32_t start =
            not_this == CLIENT_LINK_NONE ? client->driver.link_count - 1u : not_this;
        const uint16_t number = (uint16_t)((start + i) % client->driver.link_count);

        if (link_usable(client, number) && number != not_this)
            return number;
        if (client->driver.links[number].up && client->driver.links[number].refused == 0 &&
            (spare == CLIENT_LINK_NONE || spare == not_this))
            spare = number; /* stalled, or the very one: better than none */
    }
    return spare;
}

static uint16_t link_for(struct tg_client *client, struct client_item *item)
{
    const tg_request_t *request = &item->call->requests[item->index];
    uint16_t number = client_route_only(&client->driver.route);

    if (number != CLIENT_LINK_NONE) {
        /* there is no choice */
    } else if (request->attribute_count != 0) {
        if (item->hint == 0)
            item->hint = client_route_hash(request->attributes, request->attribute_count);
        number = client_route_attributes(&client->driver.route, item->hint);
    } else {
        number = client_route_inline(&client->driver.route, request->key,
                                     client_request_key_len(request));
    }
    if (number != CLIENT_LINK_NONE) {
        if (link_usable(client, number))
            return number;
        client_link_want(client, number); /* for the next time */
    }
    return link_any(client, CLIENT_LINK_NONE);
}

/* ---- sending ----------------------------------------------------------------------------- */

static uint32_t left_ms(const struct tg_client *client, int64_t deadline_ns)
{
    const int64_t left = (deadline_ns - client->driver.now_ns) / ms_ns;

    return left < 1 ? 1 : left > WIRE_TIMEOUT_MS_MAX ? WIRE_TIMEOUT_MS_MAX : (uint32_t)left;
}

static void mark_sent(struct client_message *message)
{
    ASSERT((message->admin != NULL) == (message->count == 0)); /* MESSAGES-2 */
    message->sent = true;
    if (message->admin != NULL)
        message->admin->sent = true;
    for (uint32_t i = 0; i < message->count; i++)
        message->items[i].call->sent = true;
}

/* Takes the message out of the window that counts it: that of a link, or NULL. */
static struct client_link *leave_window(struct tg_client *client, struct client_message *message)
{
    struct client_link *link = NULL;

    if (message->window != CLIENT_LINK_NONE)
        link = &client->driver.links[message->window];
    message->window = CLIENT_LINK_NONE;
    return link;
}

void client_message_answered(struct tg_client *client, struct client_message *message)
{
    struct client_link *link = leave_window(client, message);

    if (link != NULL)
        client_window_answered(&link->window, message->count, message->sent_ns,
                               client->driver.now_ns, link->queue.count);
}

void client_message_refused(struct tg_client *client, struct client_message *message)
{
    struct client_link *link = leave_window(client, message);

    if (link != NULL)
        client_window_refused(&link->window, message->count);
}

/* Nothing more is heard of it from where it was sent. */
static void drop_from_window(struct tg_client *client, struct client_message *message)
{
    struct client_link *link = leave_window(client, message);

    if (link != NULL)
        client_window_dropped(&link->window, message->count);
}

/* Hands the message to link `number`, or leaves it for a moment if that takes none. */
static void send_message(struct tg_client *client, struct client_message *message, uint16_t number)
{
    ASSERT(number == CLIENT_LINK_NONE || number < client->driver.link_count); /* LINKS-1 */
    const void *frame = message->frame;
    size_t len = message->frame_len;
    int status = TG_EUNREACHABLE;

    if (message->sent && message->admin == NULL) {
        const int retry = wire_checks_retry(message->frame, message->frame_len,
                                            left_ms(client, message->deadline_ns),
                                            client->scratch.frame, sizeof client->scratch.frame);

        ASSERT(retry > 0);
        frame = client->scratch.frame;
        len = (size_t)retry;
    }
    drop_from_window(client, message);
    if (number != CLIENT_LINK_NONE)
        status = client_link_send(&client->driver.links[number], frame, len);
    message->link = status == 0 ? number : CLIENT_LINK_NONE;
    message->try_ns = client->driver.now_ns +
                      ms_ns * (status == 0 ? client->config.try_timeout_ms : CLIENT_RESEND_MS);
    client_wake_by(client, message->try_ns);
    if (status != 0)
        return;
    mark_sent(message);
    message->sent_ns = client->driver.now_ns;
    message->window = number;
    client_window_sent(&client->driver.links[number].window, message->count);
}

static struct client_message *message_new(struct tg_client *client, const void *frame, size_t len,
                                          uint64_t seq, uint32_t count)
{
    struct client_message *message =
        malloc(sizeof *message + count * sizeof(struct client_item) + len);

    if (message == NULL)
        return NULL;
    *message = (struct client_message){
        .seq = seq, .link = CLIENT_LINK_NONE, .window = CLIENT_LINK_NONE, .count = count};
    message->frame = (uint8_t *)(message->items + count);
    message->frame_len = len;
    memcpy(message->frame, frame, len);
    message->next = client->driver.messages;
    if (message->next != NULL)
        message->next->prev = message;
    client->driver.messages = message;
    return message;
}

void client_message_free(struct tg_client *client, struct client_message *message)
{
    ASSERT(client_pending_find(&client->driver.pending, message->seq) == message); /* MESSAGES-2 */
    drop_from_window(client, message);
    client_pending_remove(&client->driver.pending, message->seq);
    if (message->prev != NULL)
        message->prev->next = message->next;
    else
        client->driver.messages = message->next;
    if (message->next != NULL)
        message->next->prev = message->prev;
    for (uint32_t i = 0; i < message->count; i++)
        client_call_release(message->items[i].call);
    if (message->admin != NULL)
        client_call_release(message->admin);
    free(message);
}

/* ---- building ---------------------------------------------------------------------------- */

static void building_reset(struct tg_client *client)
{
    wire_checks_builder_reset(&client->scratch.building.builder);
    client->scratch.building.cache = (struct client_template_cache){0};
    client->scratch.building.count = 0;
}

static void fail_item(struct tg_client *client, struct client_item item, int code)
{
    ASSERT(item.call->items_out > 0); /* MESSAGES-1 */
    if (!item.call->done)
        client_call_fail(client, item.call, item.index, code);
    client_call_release(item.call);
}

/* Turns what was built into a message and sends it over `number`. */
static void building_flush(struct tg_client *client, uint16_t number)
{
    struct client_message *message = NULL;
    int64_t deadline_ns = 0;
    uint64_t seq = 0;
    int len;
    int status;

    if (client->scratch.building.count == 0)
        return;
    for (uint32_t i = 0; i < client->scratch.building.count; i++) {
        if (client->scratch.building.items[i].call->deadline_ns > deadline_ns)
            deadline_ns = client->scratch.building.items[i].call->deadline_ns;
    }
    status = client_pending_next(&client->driver.pending, &seq);
    len = status != 0
              ? status
              : wire_checks_builder_encode(&client->scratch.building.builder,
                                           client->config.session, seq,
                                           client->scratch.building.explain ? WIRE_FLAG_EXPLAIN : 0,
                                           left_ms(client, deadline_ns), client->scratch.frame,
                                           sizeof client->scratch.frame);
    if (len > 0)
        message = message_new(client, client->scratch.frame, (size_t)len, seq,
                              client->scratch.building.count);
    if (message == NULL) {
        for (uint32_t i = 0; i < client->scratch.building.count; i++)
            fail_item(client, client->scratch.building.items[i], len < 0 ? len : TG_ENOMEM);
        building_reset(client);
        return;
    }
    ASSERT(message->count == client->scratch.building.count);
    client_pending_put(&client->driver.pending, seq, message);
    memcpy(message->items, client->scratch.building.items,
           client->scratch.building.count * sizeof *message->items);
    message->explain = client->scratch.building.explain;
    message->asked_ns = client->driver.now_ns;
    message->deadline_ns = deadline_ns;
    building_reset(client);
    send_message(client, message, number);
}

/* How many checks the next messages to the link may hold (MESSAGES-4). */
static uint32_t checks_max(const struct client_link *link)
{
    const size_t asked = link->window.out + link->queue.count;
    const size_t share = (asked + CLIENT_CHECKS_SHARE - 1) / CLIENT_CHECKS_SHARE; /* no crumbs */
    const size_t max = share > CLIENT_CHECKS_LEAST ? share : (size_t)CLIENT_CHECKS_LEAST;
    ASSERT(max >= CLIENT_CHECKS_LEAST); /* MESSAGES-4 */
    return max < link->checks_max ? (uint32_t)max : link->checks_max;
}

static void build_item(struct tg_client *client, uint16_t number, struct client_item item)
{
    const tg_request_t *request;
    bool explain;
    int status;

    if (item.call->done) {
        client_call_release(item.call);
        return;
    }
    request = &item.call->requests[item.index];
    explain = request->explain_max != 0;
    if (client->scratch.building.count != 0 &&
        (explain != client->scratch.building.explain ||
         client->scratch.building.count ==
             (explain ? (uint32_t)WIRE_EXPLAIN_ITEMS_MAX : client->scratch.building.max)))
        building_flush(client, number);
    status = client_request_append(request, item.call->operation, &client->scratch.building.cache,
                                   &client->scratch.building.builder);
    if (status == TG_EFULL && client->scratch.building.count != 0) {
        building_flush(client, number);
        status =
            client_request_append(request, item.call->operation, &client->scratch.building.cache,
                                  &client->scratch.building.builder);
    }
    if (status < 0) {
        fail_item(client, item, status == TG_EFULL ? TG_ETOOBIG : status);
        return;
    }
    ASSERT(client->scratch.building.count < WIRE_CHECKS_MAX);
    client->scratch.building.explain = explain;
    client->scratch.building.items[client->scratch.building.count++] = item;
}

static void build_link(struct tg_client *client, uint16_t number)
{
    struct client_link *link = &client->driver.links[number];
    struct client_item item;

    if (link->queue.count == 0)
        return;
    ASSERT(link->endpoint[0] != '\0'); /* LINKS-1 */
    building_reset(client);
    client->scratch.building.builder.len_max = link->message_max;
    client->scratch.building.max = checks_max(link);
    for (size_t room = client_window_room(&link->window);
         room > 0 && client_items_pop(&client->driver.items, &link->queue, &item); room--) {
        const struct client_item *soon =
            client_items_soon(&client->driver.items, &link->queue, CLIENT_ITEMS_AHEAD);

        if (soon != NULL)
            prefetch(&soon->call->requests[soon->index].explain_max);
        build_item(client, number, item);
    }
    building_flush(client, number);
}

/* ---- administration ---------------------------------------------------------------------- */

/* The first endpoint of tg_open that is up: an operator means the node that was named. */
static uint16_t link_named(const struct tg_client *client)
{
    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (client->driver.links[i].configured && client->driver.links[i].up &&
            client->driver.links[i].refused == 0)
            return i;
    }
    return CLIENT_LINK_NONE;
}

static void start_admin(struct tg_client *client, struct client_call *call)
{
    struct client_message *message = NULL;
    struct mp_writer writer;
    uint64_t seq;

    if (client_pending_next(&client->driver.pending, &seq) != 0) {
        client_call_end(client, call, TG_EBUSY);
        return;
    }
    mp_writer_init(&writer, client->scratch.frame, sizeof client->scratch.frame);
    wire_begin_admin(&writer, client->config.session, seq, call->command);
    if (!writer.failed && call->arguments_len <= writer.capacity - writer.len) {
        memcpy(writer.data + writer.len, call->arguments, call->arguments_len);
        message =
            message_new(client, client->scratch.frame, writer.len + call->arguments_len, seq, 0);
    }
    if (message == NULL) {
        client_call_end(client, call, TG_ETOOBIG);
        return;
    }
    client_pending_put(&client->driver.pending, seq, message);
    ASSERT(call->items_out == 0 && call->count == 0);
    call->items_out++;
    message->admin = call;
    message->deadline_ns = call->deadline_ns;
    send_message(client, message, link_named(client));
}

/* ---- out of time ------------------------------------------------------------------------- */

/* Why no link could be used, in one sentence. */
static void tell_unreachable(struct tg_client *client)
{
    char text[CLIENT_DETAIL_LEN] = "";
    size_t at = 0;

    for (uint16_t i = 0; i < client->driver.link_count && at + 1 < sizeof text; i++) {
        const struct client_link *link = &client->driver.links[i];
        int len;

        if (link->endpoint[0] == '\0' || (link->up && link->refused == 0))
            continue;
        len = snprintf(text + at, sizeof text - at, "%s%s: %s", at != 0 ? "; " : "", link->endpoint,
                       link->refused != 0 ? error_message(link->refused) : link->reason);
        at += len > 0 ? (size_t)len : 0;
    }
    if (at != 0)
        client_detail(client, "%s", text);
}

static int expired_code(struct tg_client *client, const struct client_call *call)
{
    if (call->sent)
        return TG_ETIMEOUT;
    if (call->crowded) {
        client_detail(client, "more was asked than the nodes answered in time");
        return TG_EBUSY; /* it waited for a window */
    }
    const bool admin = call->count == 0; /* another node than the named one is of no use to it */
    if ((admin ? link_named(client) : link_any(client, CLIENT_LINK_NONE)) != CLIENT_LINK_NONE) {
        client_detail(client, "the time was over before the question could be sent; give it more, "
                              "or this process more of the processor");
        return TG_ETIMEOUT;
    }
    tell_unreachable(client);
    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (client->driver.links[i].configured && client->driver.links[i].refused != 0)
            return client->driver.links[i].refused;
    }
    return TG_EUNREACHABLE;
}

/* ---- the turns of the loop --------------------------------------------------------------- */

/* Whether the item would wait so long for its turn that to ask is of no use. Who waits for the
 * answer is left to wait: it asks no more meanwhile. */
static bool is_too_much(const struct tg_client *client, const struct client_link *link,
                        const struct client_call *call)
{
    ASSERT(!call->done);
    const int64_t left_ns = call->deadline_ns - client->driver.now_ns;

    return call->callback != NULL && left_ns > 0 && /* else it is late, whoever is asked */
           client_window_wait_ns(&link->window, link->queue.count) > left_ns / CLIENT_WAIT_SHARE;
}

/* Whether that is so wherever it may be asked: then it is refused as a whole, which takes this
 * thread less time than to ask for it. A flood leaves it the time for what can be had. */
static bool is_crowded(const struct tg_client *client, const struct client_call *call)
{
    bool any = false;

    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (!link_usable(client, i))
            continue;
        if (!is_too_much(client, &client->driver.links[i], call))
            return false;
        any = true;
    }
    return any;
}

/* Puts one of the call's items behind what waits for a link. False: there is no room, and the call
 * has ended. */
static bool push_item(struct tg_client *client, struct client_call *call, size_t index)
{
    const struct client_item item = {.call = call, .index = (uint32_t)index};

    ASSERT(!call->done && (int)call->decisions[index].outcome == CLIENT_UNDECIDED); /* CALL-1 */
    call->items_out++;
    if (client_items_push(&client->driver.items, &client->driver.waiting, item))
        return true;
    /* Items of calls that ended still take the room: they go with the next turn. */
    call->items_out--;
    client_call_end(client, call, TG_EBUSY);
    return false;
}

/* Starts what leases.c asks; to end one may make it ask for more. */
static void start_lease_calls(struct tg_client *client)
{
    while (client->driver.asked_first != NULL) {
        struct client_call *call = client->driver.asked_first;

        ASSERT(call->hold != NULL && call->items_out > 0); /* LEASES-1 */
        client->driver.asked_first = call->next_asked;
        if (!call->done)
            (void)push_item(client, call, 0);
        client_call_release(call);
    }
}

/* What can be said of a call at once: true if it has ended. */
static bool ended_at_once(struct tg_client *client, struct client_call *call)
{
    if (call->callback != NULL) { /* a waiting caller has done so itself */
        call->undecided -= client_local_decide(client, call->requests, call->count, call->operation,
                                               call->decisions);
        client_local_end(client, call->requests, call->count, call->decisions, true);
        if (call->undecided == 0 || is_crowded(client, call)) {
            client_call_end(client, call, TG_EBUSY); /* of what is undecided, if anything is */
            return true;
        }
    }
    if (call->deadline_ns > client->driver.now_ns)
        return false;
    client_call_end(client, call, expired_code(client, call)); /* nobody would wait for it */
    return true;
}

/* Takes a call of the queue in: it is live, and its items wait to be sent. */
static void start_call(struct tg_client *client, struct client_call *call)
{
    bool goes_on = true;

    ASSERT(call->hold == NULL && !call->done);
    client_call_enter(client, call);
    if (call->count == 0) {
        start_admin(client, call);
        return;
    }
    if (ended_at_once(client, call))
        return;
    for (size_t i = 0; goes_on && i < call->count; i++) {
        if ((int)call->decisions[i].outcome != CLIENT_UNDECIDED)
            continue;
        client_call_give_back(client, call, i);
        client_leases_state(client, call, i);
        start_lease_calls(client); /* it goes ahead: LEASES-5 */
        goes_on = push_item(client, call, i);
    }
}

static void place_waiting(struct tg_client *client)
{
    struct client_item item;

    if (client->driver.waiting.count == 0 || link_any(client, CLIENT_LINK_NONE) == CLIENT_LINK_NONE)
        return;
    while (client_items_pop(&client->driver.items, &client->driver.waiting, &item)) {
        struct client_link *link;

        if (item.call->done) {
            client_call_release(item.call);
            continue;
        }
        link = &client->driver.links[link_for(client, &item)];
        if (client_window_room(&link->window) <= link->queue.count)
            item.call->crowded = true;
        if (is_too_much(client, link, item.call) ||
            !client_items_push(&client->driver.items, &link->queue, item))
            fail_item(client, item, TG_EBUSY);
    }
}

void client_dispatch(struct tg_client *client, struct client_call *queue)
{
    start_lease_calls(client);
    place_waiting(client);
    while (queue != NULL) {
        struct client_call *call = queue;

        queue = call->next;
        start_call(client, call);
        place_waiting(client);
    }
    for (uint16_t i = 0; i < client->driver.link_count; i++)
        build_link(client, i);
}

/* Sends a message again, elsewhere if there is an elsewhere. */
static void retry(struct tg_client *client, struct client_message *message)
{
    const uint16_t before = message->link;

    if (message->admin == NULL) {
        send_message(client, message, link_any(client, before));
        return;
    }
    if (!message->sent) {
        send_message(client, message, link_named(client));
        return;
    }
    /* An administrative command is asked once: nobody knows whether it is safe twice. */
    message->try_ns = message->deadline_ns;
    client_wake_by(client, message->try_ns);
}

void client_messages_move(struct tg_client *client, uint16_t link)
{
    struct client_message *next;

    /* What waits for this link waits for any. */
    client_items_join(&client->driver.items, &client->driver.waiting,
                      &client->driver.links[link].queue);

    for (struct client_message *message = client->driver.messages; message != NULL;
         message = next) {
        next = message->next;
        if (message->link != link)
            continue;
        if (message->admin != NULL && !message->admin->done) {
            client_detail(client, "%s: the connection was lost before the answer",
                          client->driver.links[link].endpoint);
            client_call_end(client, message->admin, TG_EUNREACHABLE);
            client_message_free(client, message);
        } else {
            retry(client, message);
        }
    }
}

/* A link let a message time out: it is avoided for a while, and what waits for its turn there goes
 * to another one, if there is one that answers. */
static void stall(struct tg_client *client, uint16_t number)
{
    struct client_link *link = &client->driver.links[number];

    link->stalled_ns = client->driver.now_ns + CLIENT_STALL_MS * ms_ns;
    client_detail(client, "%s: no answer for %d ms", link->endpoint, client->config.try_timeout_ms);
    const uint16_t other = link_any(client, number);

    if (other == CLIENT_LINK_NONE || !link_usable(client, other))
        return;
    client_items_join(&client->driver.items, &client->driver.waiting, &link->queue);
    client_wake_by(client, client->driver.now_ns);
}

static void tick_message(struct tg_client *client, struct client_message *message)
{
    if (message->deadline_ns <= client->driver.now_ns) {
        client_message_free(client, message);
        return;
    }
    if (message->try_ns <= client->driver.now_ns) {
        if (message->link != CLIENT_LINK_NONE && message->admin == NULL)
            stall(client, message->link);
        retry(client, message);
    }
    client_wake_by(client, message->try_ns);
    client_wake_by(client, message->deadline_ns);
}

/* Items of ended calls leave a queue. */
static void sweep(struct tg_client *client, struct client_queue *queue)
{
    struct client_queue all = *queue;
    struct client_item item;

    *queue = (struct client_queue){.count = 0};
    while (client_items_pop(&client->driver.items, &all, &item)) {
        if (item.call->done)
            client_call_release(item.call);
        else if (!client_items_push(&client->driver.items, queue, item))
            fail_item(client, item, TG_EBUSY);
    }
}

static void sweep_waiting(struct tg_client *client)
{
    sweep(client, &client->driver.waiting);
    for (uint16_t i = 0; i < client->driver.link_count; i++)
        sweep(client, &client->driver.links[i].queue);
}

void client_messages_tick(struct tg_client *client)
{
    struct client_call *next_call;
    struct client_message *next;
    bool ended = false;

    if (client->driver.now_ns < client->driver.wake_ns)
        return;
    client->driver.wake_ns = client->driver.holds_next_ns;
    for (struct client_call *call = client->driver.live; call != NULL; call = next_call) {
        next_call = call->next;
        if (call->deadline_ns <= client->driver.now_ns) {
            client_call_end(client, call, expired_code(client, call));
            ended = true;
        } else {
            client_wake_by(client, call->deadline_ns);
        }
    }
    if (ended)
        sweep_waiting(client);
    for (struct client_message *message = client->driver.messages; message != NULL;
         message = next) {
        next = message->next;
        tick_message(client, message);
    }
    for (uint16_t i = 0; i < client->driver.link_count; i++)
        if (client->driver.links[i].queue.count != 0 &&
            client_window_room(&client->driver.links[i].window) > 0)
            client_wake_by(client, client->driver.now_ns); /* what was given up made room */
}

void client_messages_close(struct tg_client *client)
{
    struct client_call *next;

    for (struct client_call *call = client->driver.live; call != NULL; call = next) {
        next = call->next;
        if (call->hold == NULL)
            client_call_end(client, call, TG_ECLOSED);
    }
}

void client_messages_end(struct tg_client *client)
{
    struct client_item item;

    while (client->driver.live != NULL)
        client_call_end(client, client->driver.live, TG_ECLOSED);
    start_lease_calls(client);
    while (client_items_pop(&client->driver.items, &client->driver.waiting, &item))
        client_call_release(item.call);
    for (uint16_t i = 0; i < client->driver.link_count; i++)
        while (client_items_pop(&client->driver.items, &client->driver.links[i].queue, &item))
            client_call_release(item.call);
    while (client->driver.messages != NULL)
        client_message_free(client, client->driver.messages);
}

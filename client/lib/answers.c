/* answers.c - what comes back from the nodes.
 *
 * ANSWERS-1  An answer counts once: its message leaves `pending` with it, so the answer to a retry
 *            that both nodes gave is dropped when it comes second.
 * ANSWERS-2  Bytes from a node are trusted no further than the codec checked them; a malformed
 *            answer fails its own message and nothing else.
 * ANSWERS-3  A node of another cluster is never used, whatever its address says.
 */
#include "client/lib/answers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "client/lib/call.h"
#include "client/lib/client.h"
#include "client/lib/detail.h"
#include "client/lib/leases.h"
#include "client/lib/links.h"
#include "client/lib/message.h"
#include "client/lib/messages.h"

void client_hello(struct tg_client *client, uint16_t link)
{
    const struct wire_hello hello = {
        .session = client->config.session,
        .version_min = WIRE_VERSION,
        .version_max = WIRE_VERSION,
        .agent = wire_text_of(client->config.agent),
    };
    const int len = wire_encode_hello(&hello, client->scratch.frame, sizeof client->scratch.frame);

    /* A lost HELLO costs only routing: any node answers without one. */
    if (len > 0 &&
        client_link_send(&client->driver.links[link], client->scratch.frame, (size_t)len) != 0)
        client_detail(client, "%s: HELLO could not be sent", client->driver.links[link].endpoint);
}

/* `view_version`: what the node of this link says it has. Each node counts its own, so it is only
 * compared with what the same node said before. */
static void ask_ring(struct tg_client *client, uint16_t link, uint64_t view_version)
{
    struct wire_get_ring question = {.session = client->config.session};
    int len;

    if (client->driver.ring_asked_ns + (int64_t)CLIENT_RING_PAUSE_MS * 1000000 >
        client->driver.now_ns)
        return; /* the next answer with another view version asks again */
    if (client_pending_next(&client->driver.pending, &question.seq) != 0)
        return;
    len = wire_encode_get_ring(&question, client->scratch.frame, sizeof client->scratch.frame);
    if (len > 0 &&
        client_link_send(&client->driver.links[link], client->scratch.frame, (size_t)len) == 0) {
        client->driver.ring_asked_ns = client->driver.now_ns;
        client->driver.ring_seq = question.seq;
        client->driver.links[link].view_version = view_version;
    }
}

static void refuse_link(struct tg_client *client, uint16_t number, int code, const char *why)
{
    ASSERT(code < 0);
    struct client_link *link = &client->driver.links[number];

    link->refused = code;
    client_detail(client, "%s: %s", link->endpoint, why);
    client_messages_move(client, number);
}

static void take_welcome(struct tg_client *client, uint16_t number, const void *frame, size_t len)
{
    struct client_link *link = &client->driver.links[number];
    struct wire_welcome welcome;
    char error[WIRE_ERROR_LEN];

    if (wire_decode_welcome(frame, len, &welcome, error) != 0) {
        refuse_link(client, number, TG_EPROTOCOL, error);
        return;
    }
    if (client->driver.cluster_known &&
        memcmp(client->driver.cluster_id, welcome.cluster_id, 16) != 0) {
        refuse_link(client, number, TG_ECONFLICT, "belongs to another cluster"); /* ANSWERS-3 */
        return;
    }
    client->driver.cluster_known = true;
    memcpy(client->driver.cluster_id, welcome.cluster_id, 16);
    link->welcomed = true;
    link->checks_max = welcome.checks_max;
    link->message_max = welcome.message_max;
    client_route_key(&client->driver.route, &welcome.route_key);
    if (!client->driver.route.ring_known || link->view_version != welcome.view_version)
        ask_ring(client, number, welcome.view_version);
}

/* The ring names the endpoint no more: what was sent to it moves. */
static void leave_link(struct tg_client *client, uint16_t number)
{
    client_link_drop(client, number);
    client_messages_move(client, number);
    client_link_forget(client, number);
}

static void take_ring(struct tg_client *client, const void *frame, size_t len)
{
    uint16_t endpoint_links[WIRE_ENDPOINTS_MAX];
    char endpoint[CLIENT_ENDPOINT_LEN];
    char error[WIRE_ERROR_LEN];
    struct wire_ring ring;

    if (wire_decode_ring(frame, len, &client->scratch.space.ring, &ring, error) != 0) {
        client_detail(client, "RING: %s", error);
        return;
    }
    for (uint16_t i = 0; i < client->driver.link_count; i++)
        client->driver.links[i].in_ring = false;
    for (uint32_t i = 0; i < ring.endpoint_count; i++) {
        client_endpoint_of(ring.endpoints[i], endpoint);
        endpoint_links[i] = client_link_number(client, endpoint);
        if (endpoint_links[i] != CLIENT_LINK_NONE)
            client->driver.links[endpoint_links[i]].in_ring = true;
    }
    client_route_ring(&client->driver.route, &ring, endpoint_links);
    for (uint16_t i = 0; i < client->driver.link_count; i++) {
        if (client->driver.links[i].endpoint[0] != '\0' && !client->driver.links[i].in_ring &&
            !client->driver.links[i].configured)
            leave_link(client, i);
    }
}

static void fail_message(struct tg_client *client, struct client_message *message, int code)
{
    for (uint32_t i = 0; i < message->count; i++) {
        if (!message->items[i].call->done)
            client_call_fail(client, message->items[i].call, message->items[i].index, code);
    }
    if (message->admin != NULL && !message->admin->done)
        client_call_end(client, message->admin, code);
    client_message_free(client, message);
}

/* Asks memory for what the item's answer is about: who asked may be another processor's thread. */
static void expect_item(const struct client_item *item)
{
    const tg_request_t *request = &item->call->requests[item->index];
    const tg_decision_t *decision = &item->call->decisions[item->index];

    prefetch(&request->operation);
    prefetch_to_write(decision);
    prefetch_to_write((const char *)(decision + 1) - 1);
}

static void take_item(struct tg_client *client, const struct client_message *message, uint32_t i,
                      const struct wire_decisions *decisions)
{
    const struct client_item *item = &message->items[i];
    struct client_call *call = item->call;
    struct wire_decision decision;
    const struct client_source *source = NULL;
    tg_decision_t *out;

    if (call->done)
        return;
    ASSERT(call->undecided > 0 && item->index < call->count); /* CALL-1 */
    wire_decision_at(decisions, i, &decision);
    if (decision.source != NULL)
        source = &client->scratch.sources[decision.source - decisions->sources];
    out = &call->decisions[item->index];
    client_decision_fill(out, &decision, source);
    if (decisions->explain != NULL)
        client_decision_explain(out, &call->requests[item->index], decisions->explain, i,
                                &client->driver.intern);
    client_route_learn(&client->driver.route, item->hint, decision.vnode);
    client_leases_note(client, message, i, decision.steady);
    client_call_decided(client, call);
}

static void take_decisions(struct tg_client *client, uint16_t number,
                           struct client_message *message, const void *frame, size_t len)
{
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];

    if (wire_decode_decisions(frame, len, &client->scratch.space.decisions, &decisions, error) !=
        0) {
        client_detail(client, "%s: DECISIONS: %s", client->driver.links[number].endpoint, error);
        fail_message(client, message, TG_EPROTOCOL);
        return;
    }
    if (message->admin != NULL || decisions.head.count != message->count) {
        client_detail(client, "%s: DECISIONS: found %" PRIu32 " items, expected %" PRIu32,
                      client->driver.links[number].endpoint, decisions.head.count, message->count);
        fail_message(client, message, TG_EPROTOCOL);
        return;
    }
    client_message_answered(client, message);
    for (uint32_t i = 0; i < decisions.source_count; i++)
        client_source_intern(&client->driver.intern, &decisions.sources[i],
                             &client->scratch.sources[i]);
    for (uint32_t i = 0; i < message->count; i++) {
        if (i + CLIENT_ITEMS_AHEAD < message->count)
            expect_item(&message->items[i + CLIENT_ITEMS_AHEAD]);
        take_item(client, message, i, &decisions);
    }
    client_message_free(client, message); /* ANSWERS-1 */
    if (decisions.head.view_version != client->driver.links[number].view_version)
        ask_ring(client, number, decisions.head.view_version);
}

static void take_reply(struct tg_client *client, uint16_t number, struct client_message *message,
                       const void *frame, size_t len)
{
    struct client_call *call = message->admin;
    struct wire_admin_reply reply;
    char error[WIRE_ERROR_LEN];
    const int status = wire_decode_admin_reply(frame, len, client->scratch.space.admin,
                                               WIRE_ADMIN_TOKENS_MAX, &reply, error);

    if (status != 0 || call == NULL) {
        client_detail(client, "%s: ADMIN_REPLY: %s", client->driver.links[number].endpoint,
                      status != 0 ? error : "found one, expected DECISIONS");
        fail_message(client, message, status != 0 ? status : TG_EPROTOCOL);
        return;
    }
    if (!call->done) {
        ASSERT(call->count == 0 && call->reply.data == NULL);
        call->reply.data = malloc(reply.value.len);
        if (call->reply.data != NULL) {
            memcpy(call->reply.data, reply.value.data, reply.value.len);
            call->reply.len = reply.value.len;
        }
        client_call_end(client, call, call->reply.data != NULL ? reply.code : TG_ENOMEM);
    }
    client_message_free(client, message);
}

/* Whether each node that there is has said that it does not serve yet: to ask again within one call
 * is of no use then, and whoever asks is told at once. */
static bool nobody_serves(const struct tg_client *client)
{
    for (uint16_t i = 0; i < client->driver.link_count; i++)
        if (client->driver.links[i].endpoint[0] != '\0' && !client->driver.links[i].waits)
            return false;
    return true;
}

static void take_error(struct tg_client *client, uint16_t number, const void *frame, size_t len)
{
    struct client_message *message;
    struct wire_error refusal;
    char error[WIRE_ERROR_LEN];

    if (wire_decode_error(frame, len, &refusal, error) != 0) {
        client_detail(client, "%s: ERROR: %s", client->driver.links[number].endpoint, error);
        return;
    }
    client_detail(client, "%s: %.*s", client->driver.links[number].endpoint, (int)refusal.text.len,
                  refusal.text.data);
    if (refusal.code == TG_EVERSION) {
        client->driver.links[number].refused = TG_EVERSION;
        client_messages_move(client, number);
        return;
    }
    if (refusal.code == TG_EUNAVAILABLE && !client->driver.links[number].welcomed)
        client->driver.links[number].waits = true;
    message = client_pending_find(&client->driver.pending, refusal.seq);
    if (message == NULL)
        return;
    if (refusal.code == TG_EUNAVAILABLE && message->admin == NULL && !nobody_serves(client)) {
        client_message_answered(client, message);
        message->link = CLIENT_LINK_NONE; /* not this link's fault */
        message->try_ns = client->driver.now_ns + (int64_t)CLIENT_BACKOFF_MS * 1000000;
        client_wake_by(client, message->try_ns);
        return;
    }
    if (refusal.code == TG_EBUSY)
        client_message_refused(client, message);
    fail_message(client, message, refusal.code);
}

void client_answer(struct tg_client *client, uint16_t link, const void *frame, size_t len)
{
    ASSERT(link < client->driver.link_count);
    struct wire_envelope envelope;
    struct client_message *message;
    char error[WIRE_ERROR_LEN];
    const int status = wire_peek(frame, len, &envelope, error);

    if (status != 0) {
        client_detail(client, "%s: %s", client->driver.links[link].endpoint, error);
        if (status == TG_EVERSION)
            refuse_link(client, link, TG_EVERSION, error);
        return;
    }
    if (envelope.type == WIRE_ERROR) {
        take_error(client, link, frame, len);
        return;
    }
    if (envelope.session != client->config.session)
        return;
    if (client->driver.links[link].waits &&
        envelope.type == WIRE_DECISIONS) { /* it serves by now */
        client->driver.links[link].waits = false;
        client_hello(client, link);
    }
    client->driver.links[link].stalled_ns = 0;
    if (envelope.type == WIRE_WELCOME) {
        take_welcome(client, link, frame, len);
        return;
    }
    if (envelope.type == WIRE_RING) {
        if (envelope.seq == client->driver.ring_seq)
            take_ring(client, frame, len);
        return;
    }
    message = client_pending_find(&client->driver.pending, envelope.seq);
    if (message == NULL)
        return; /* ANSWERS-1 */
    client->driver.preferred = link;
    if (envelope.type == WIRE_DECISIONS)
        take_decisions(client, link, message, frame, len);
    else if (envelope.type == WIRE_ADMIN_REPLY)
        take_reply(client, link, message, frame, len);
}

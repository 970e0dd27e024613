/* leases.c - the keeper of hold.h and denial.h: which keys are hot, what is asked for them, what is
 * given back. I/O thread only.
 *
 *   decisions of checks --allowed--> heat --hot--> LEASE --granted--> hold --half gone--> LEASE ...
 *          |                                          | none             \--given up--> RELEASE
 *          \--denied, steady--> denial                v
 *                                        not asked again for a while
 *
 * What is asked for here are calls as any others, of one request that is the hold's copy: their
 * items join the messages of the turn, are routed and retried alike. Only their end comes here, and
 * nobody waits for them.
 *
 * LEASES-1  A hold's request and place stay while a call about it is under way (hold->calls).
 * LEASES-2  A lease is reckoned from when its call began: that is before its question left,
 *           whatever number of times it was sent.
 * LEASES-3  A release is sent after its block was taken out, and never before. It is not repeated
 *           when its time is over: what it would have given back is spent.
 * LEASES-4  Only what a check says of itself makes a key hot, or a denial known: what is asked for
 *           here does not.
 * LEASES-5  What was admitted here stands at the node before a refund or reset of the key does: a
 *           renewal that states it goes ahead, in the same message. A node gives back only what it
 *           has counted.
 */
#include "client/lib/leases.h"

#include <stdlib.h>

#include "base/assert.h"
#include "client/lib/call.h"
#include "client/lib/client.h"
#include "client/lib/message.h"

enum {
    CALL_MS = 500, /* an answer that comes later is of no use */
    CLOSE_MS = 100,
    PAUSE_MS = 200,     /* after busy, or a failure of the moment */
    REFUSED_MS = 10000, /* after what will not change soon: this limit gives no leases */
    SAMPLE_FROM = 32,   /* of larger messages, one check in SAMPLE is looked at, for the others */
    SAMPLE = 8
};
static const int64_t ms_ns = 1000000;

/* A call with room for its one request and decision. */
struct lease_call {
    struct client_call call; /* first: it is freed as this */
    tg_request_t request;
    tg_decision_t decision;
};

static void lease_ended(struct tg_client *client, const struct client_call *call);

/* Puts the call behind those that the driver starts, before it builds messages. To start it here
 * would be to do so amid the start, or the end, of another call. */
static void leave_to_driver(struct tg_client *client, struct client_call *call)
{
    if (client->driver.asked_first == NULL)
        client->driver.asked_first = call;
    else
        client->driver.asked_last->next_asked = call;
    client->driver.asked_last = call;
    call->items_out++;                              /* the list refers to it */
    client->driver.wake_ns = client->driver.now_ns; /* this turn's messages may be built already */
}

static bool start(struct tg_client *client, struct client_hold *hold, tg_operation_t operation,
                  const tg_request_t *request)
{
    struct lease_call *lease;

    if (client->driver.lease_calls == CLIENT_LEASE_CALLS_MAX)
        return false;
    lease = calloc(1, sizeof *lease);
    if (lease == NULL)
        return false;
    client->driver.lease_calls++;
    lease->request = *request;
    lease->decision.outcome = (tg_outcome_t)CLIENT_UNDECIDED;
    lease->call.requests = &lease->request;
    lease->call.decisions = &lease->decision;
    lease->call.count = 1;
    lease->call.undecided = 1;
    lease->call.operation = (int)operation;
    lease->call.hold = hold;
    lease->call.ended = lease_ended;
    lease->call.deadline_ns = client->driver.leases_end_ns != 0
                                  ? client->driver.leases_end_ns
                                  : client->driver.now_ns + CALL_MS * ms_ns;
    (void)sem_init(&lease->call.completed, 0, 0);
    atomic_init(&lease->call.owners, 1);
    ASSERT(client->driver.lease_calls <= CLIENT_LEASE_CALLS_MAX); /* CLIENT-5 */
    hold->calls++;
    client_call_enter(client, &lease->call);
    leave_to_driver(client, &lease->call);
    return true;
}

static void state_used(struct tg_client *client, struct client_hold *hold, tg_operation_t operation,
                       uint64_t id, uint64_t used)
{
    ASSERT(id != 0 && (operation == TG_RENEW || operation == TG_RELEASE));
    tg_request_t request = hold->request;

    request.lease_id = id;
    request.used = used;
    (void)!start(client, hold, operation, &request);
}

static void release(struct tg_client *client, struct client_hold *hold, uint64_t id, uint64_t used)
{
    state_used(client, hold, TG_RELEASE, id, used); /* or it is spent */
}

static bool ask(struct tg_client *client, struct client_hold *hold, uint64_t tokens)
{
    ASSERT(tokens > 0 && hold->asking); /* LEASES-1 */
    tg_request_t request = hold->request;

    request.cost = tokens;
    request.at_most = 1;
    return start(client, hold, TG_LEASE, &request);
}

/* Does what is to be done about a hold now. */
static void look(struct tg_client *client, struct client_hold *hold)
{
    struct client_hold_step step;

    client_hold_step(hold, client->driver.now_ns, &step);
    ASSERT(step.release_count <= 2 && (step.ask == 0 || hold->asking)); /* HOLD-4 */
    for (uint32_t i = 0; i < step.release_count; i++)
        release(client, hold, step.releases[i].lease, step.releases[i].used);
    if (step.ask != 0 && !ask(client, hold, step.ask)) {
        client_hold_refused(hold, client->driver.now_ns + PAUSE_MS * ms_ns, false);
        client_hold_step(hold, client->driver.now_ns, &step); /* it asks for nothing now */
    }
    hold->next_ns = step.next_ns;
    if (step.next_ns < client->driver.holds_next_ns)
        client->driver.holds_next_ns = step.next_ns;
    if (step.next_ns < client->driver.wake_ns)
        client->driver.wake_ns = step.next_ns;
    if (step.over)
        client_hold_drop(&client->shared.holds, hold);
}

void client_leases_tick(struct tg_client *client)
{
    struct client_hold *hold;

    client_denial_tick(&client->shared.denials, client->driver.now_ns);
    if (atomic_load_explicit(&client->shared.holds.count, memory_order_relaxed) == 0) {
        client->driver.holds_next_ns = INT64_MAX;
        return;
    }
    while ((hold = client_hold_due(&client->shared.holds)) != NULL)
        look(client, hold);
    if (client->driver.now_ns < client->driver.holds_next_ns)
        return;
    client->driver.holds_next_ns = INT64_MAX;
    for (uint32_t i = 0; i < CLIENT_HOLDS_MAX; i++) {
        hold = &client->shared.holds.holds[i];
        if (hold->used && hold->next_ns <= client->driver.now_ns)
            look(client, hold);
        else if (hold->used && hold->next_ns < client->driver.holds_next_ns)
            client->driver.holds_next_ns = hold->next_ns;
    }
}

/* ---- answers to what was asked for here -------------------------------------------------- */

/* For how long no lease of this key is asked for after such an answer. */
static int64_t pause_ms(const tg_decision_t *decision)
{
    if (decision->error != 0)
        return error_retryable(decision->error) ? PAUSE_MS : REFUSED_MS;
    if (decision->outcome == TG_BUSY)
        return PAUSE_MS;
    if (decision->outcome == TG_DENY && decision->retry_after_ms >= 0 &&
        decision->retry_after_ms < REFUSED_MS)
        return decision->retry_after_ms > PAUSE_MS ? decision->retry_after_ms : PAUSE_MS;
    return REFUSED_MS;
}

static bool is_lease(const struct client_call *call)
{
    const tg_decision_t *decision = call->decisions;

    return call->code == 0 && decision->error == 0 && decision->outcome == TG_ALLOW &&
           decision->lease_id != 0 && decision->lease_ms > 0 && decision->granted > 0;
}

static void lease_ended(struct tg_client *client, const struct client_call *call)
{
    const tg_decision_t *decision = call->decisions;
    struct client_hold *hold = call->hold;
    int64_t quiet_ns;

    ASSERT(hold->calls > 0 && client->driver.lease_calls > 0); /* LEASES-1 */
    client->driver.lease_calls--;
    hold->calls--;
    if (call->operation == TG_RENEW)
        return; /* LEASES-5: it was for what came behind it */
    if (client->driver.leases_end_ns != 0) {
        hold->asking = false;
        if (is_lease(call))
            release(client, hold, decision->lease_id, 0); /* nobody has seen it */
        return;
    }
    if (call->operation == TG_RELEASE) {
        if (decision->granted != 0 || decision->error != 0) /* who was denied may have them now */
            client_denial_drop(&client->shared.denials, &hold->tag);
        return;
    }
    if (is_lease(call)) {
        client_hold_granted(hold, decision->lease_id, decision->lease_ms, decision,
                            client->driver.now_ns);
        look(client, hold);
        return;
    }
    quiet_ns = client->driver.now_ns + pause_ms(decision) * ms_ns;
    if (call->code == 0 && decision->error == 0 && decision->lease_id != 0)
        release(client, hold, decision->lease_id, 0); /* a place in flight: not ours */
    client_heat_quiet(&client->driver.heat, hold->tag.place, quiet_ns);
    /* What the decider would not let by at all, or by other rules, is not let by here either. */
    client_hold_refused(hold, quiet_ns,
                        decision->error == 0 && decision->outcome != TG_DENY &&
                            decision->outcome != TG_BUSY);
    look(client, hold);
}

/* ---- what checks say --------------------------------------------------------------------- */

static void note_allowed(struct tg_client *client, const tg_request_t *request, uint32_t weight)
{
    struct client_hold *hold;
    struct client_tag tag;
    uint64_t demand;

    if (request->cost > CLIENT_HOLD_COST_MAX ||
        !client_tag_of(&client->config.tag_key, request, &tag))
        return;
    demand = client_heat_count(&client->driver.heat, tag.place, weight, request->cost * weight,
                               client->driver.now_ns);
    if (demand == 0 || client_hold_find(&client->shared.holds, &tag) != NULL)
        return;
    hold = client_hold_claim(&client->shared.holds, &tag, request);
    if (hold == NULL) {
        client_heat_quiet(&client->driver.heat, tag.place,
                          client->driver.now_ns + PAUSE_MS * ms_ns);
        return;
    }
    hold->next_ns = INT64_MAX;
    if (!ask(client, hold, client_hold_ask_first(hold, demand, client->driver.now_ns))) {
        client_hold_refused(hold, 0, true);
        client_hold_drop(&client->shared.holds, hold);
    }
}

static void note_denied(struct tg_client *client, const tg_request_t *request,
                        const tg_decision_t *decision, int64_t asked_ns)
{
    struct client_tag tag;

    if (client_tag_of(&client->config.tag_key, request, &tag))
        client_denial_put(&client->shared.denials, &tag, request->cost, decision, asked_ns,
                          client->driver.now_ns);
}

void client_leases_state(struct tg_client *client, const struct client_call *call, size_t index)
{
    const int operation = client_call_operation(call, index);
    struct client_hold_release uses[2];
    struct client_hold *hold;
    struct client_tag tag;

    if (call->hold != NULL || (operation != TG_REFUND && operation != TG_RESET) ||
        atomic_load(&client->shared.holds.count) == 0 ||
        !client_tag_of(&client->config.tag_key, &call->requests[index], &tag))
        return;
    hold = client_hold_find(&client->shared.holds, &tag);
    const uint32_t count = hold != NULL ? client_hold_used(hold, uses) : 0;

    for (uint32_t i = 0; i < count; i++)
        state_used(client, hold, TG_RENEW, uses[i].lease, uses[i].used);
}

void client_leases_note(struct tg_client *client, const struct client_message *message, uint32_t at,
                        bool steady)
{
    ASSERT(at < message->count);
    const struct client_call *call = message->items[at].call;
    const tg_request_t *request = &call->requests[message->items[at].index];
    const tg_decision_t *decision = &call->decisions[message->items[at].index];
    const int operation = client_call_operation(call, message->items[at].index);
    const uint32_t weight = message->count > SAMPLE_FROM ? SAMPLE : 1;

    if (call->hold != NULL || client->driver.leases_end_ns != 0)
        return; /* LEASES-4 */
    client_call_give_back(client, call, message->items[at].index);
    if (operation != TG_CHECK || (weight != 1 && (message->seq + at) % SAMPLE != 0) ||
        request->at_most != 0 || request->explain_max != 0 || request->cost == 0)
        return;
    if (decision->outcome == TG_ALLOW && decision->lease_id == 0 && !client->config.no_leases)
        note_allowed(client, request, weight);
    else if (decision->outcome == TG_DENY && steady && !client->config.no_denials)
        note_denied(client, request, decision, message->asked_ns);
}

void client_leases_end(struct tg_client *client)
{
    ASSERT(client->driver.leases_end_ns == 0);
    struct client_hold_release releases[2];

    client->driver.leases_end_ns = client->driver.now_ns + CLOSE_MS * ms_ns;
    client->driver.wake_ns = client->driver.now_ns;
    for (struct client_call *call = client->driver.live; call != NULL; call = call->next) {
        if (call->deadline_ns > client->driver.leases_end_ns)
            call->deadline_ns = client->driver.leases_end_ns;
    }
    if (atomic_load(&client->shared.holds.count) == 0)
        return; /* the table's memory may never have been touched */
    for (uint32_t i = 0; i < CLIENT_HOLDS_MAX; i++) {
        struct client_hold *hold = &client->shared.holds.holds[i];
        const uint32_t count = hold->used ? client_hold_end(hold, releases) : 0;

        for (uint32_t k = 0; k < count; k++)
            release(client, hold, releases[k].lease, releases[k].used);
    }
}

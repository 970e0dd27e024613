/* local.h - what is decided without asking; the idea and the invariants are in local.c. Any thread.
 *
 * The check of one request is in line, for what it does is little beside a call and the saving of
 * registers. */
#ifndef CLIENT_LIB_LOCAL_H
#define CLIENT_LIB_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "client/lib/client.h"
#include "client/lib/clock.h"
#include "client/lib/wake.h"

enum { CLIENT_LOCAL_GUARD_MS = 250 };

/* client_now_ns, cheaper and some ticks behind (LOCAL-3). What it takes to get there from the
 * coarse clock is reckoned anew with each tick, for only client_now_ns knows of time in which the
 * machine was suspended. Who is slow over that stores too much: then the exact clock is asked. */
static inline __attribute__((always_inline)) int64_t client_local_now_ns(struct tg_client *client)
{
    struct timespec now;
    int64_t tick_ns;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    tick_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (atomic_load_explicit(&client->shared.tick_ns, memory_order_acquire) != tick_ns) {
        atomic_store_explicit(&client->shared.ahead_ns, client_now_ns() - tick_ns,
                              memory_order_release);
        atomic_store_explicit(&client->shared.tick_ns, tick_ns, memory_order_release);
    }
    return tick_ns + atomic_load_explicit(&client->shared.ahead_ns, memory_order_acquire);
}

/* LOCAL-3 */
static inline bool client_local_is_before(int64_t *now_ns, int64_t until_ns)
{
    if (*now_ns + (int64_t)CLIENT_LOCAL_GUARD_MS * 1000000 >= until_ns)
        *now_ns = client_now_ns();
    return *now_ns < until_ns;
}

static inline bool client_local_any(const struct tg_client *client)
{
    return atomic_load_explicit(&client->shared.holds.count, memory_order_relaxed) != 0 ||
           client_denial_any(&client->shared.denials);
}

/* LOCAL-1 */
static inline bool client_local_is_plain(const tg_request_t *request, int operation)
{
    return (operation >= 0 ? operation : (int)request->operation) == TG_CHECK &&
           request->at_most == 0 && request->explain_max == 0 && request->cost != 0 &&
           request->cost <= TG_COST_MAX;
}

static inline __attribute__((always_inline)) bool client_local_take(struct tg_client *client,
                                                                    const struct client_tag *tag,
                                                                    const tg_request_t *request,
                                                                    tg_decision_t *decision,
                                                                    struct client_hold_taken *taken)
{
    if (request->cost > CLIENT_HOLD_COST_MAX ||
        !client_hold_take(&client->shared.holds, tag, (uint32_t)request->cost, decision, taken))
        return false;
    if (taken->due)
        client_nudge(client);
    return true;
}

static inline bool client_local_deny(struct tg_client *client, const struct client_tag *tag,
                                     const tg_request_t *request, int64_t *now_ns,
                                     tg_decision_t *decision)
{
    if (!client_denial_any(&client->shared.denials))
        return false;
    *now_ns = client_now_ns();
    return client_denial_find(&client->shared.denials, tag, request->cost, *now_ns, decision);
}

/* tg_check: decides without asking, if that can be; else false, and it is to be asked. */
static inline __attribute__((always_inline)) bool
client_local_check(struct tg_client *client, const tg_request_t *request, tg_decision_t *decision)
{
    struct client_hold_taken taken;
    struct client_tag tag;
    int64_t now_ns;

    if (!client_local_any(client) || !client_local_is_plain(request, TG_CHECK) ||
        !client_tag_of(&client->config.tag_key, request, &tag))
        return false;
    if (client_local_take(client, &tag, request, decision, &taken)) {
        now_ns = client_local_now_ns(client);
        if (client_local_is_before(&now_ns, taken.until_ns)) {
            client_hold_finish(decision, taken.told_ns, now_ns);
            decision->lease_id = 0;
            return true;
        }
    }
    return client_local_deny(client, &tag, request, &now_ns, decision);
}

/* The same for many; returns how many were decided. The others' outcome is CLIENT_UNDECIDED. Then
 * client_local_end: to keep what was taken of leases for them, or to give it back. */
size_t client_local_decide(struct tg_client *client, const tg_request_t *requests, size_t count,
                           int operation, tg_decision_t *decisions);
void client_local_end(struct tg_client *client, const tg_request_t *requests, size_t count,
                      tg_decision_t *decisions, bool keep);

#endif

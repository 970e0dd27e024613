/* local.c - what is decided without asking: by tokens that are held, or a denial that still holds.
 *
 *   request --tag--> tokens held? --take, then look at the clock--> allowed here
 *                         | no
 *                         +--> denied a moment ago, for no more than this? --> denied here
 *                         | no
 *                         +--> it is asked
 *
 * This runs in the callers' threads, for every check while a key is hot or somebody was denied: no
 * lock, no allocation, no system call.
 *
 * I1  Only plain checks are decided here: not at_most, not explained, and of 1 to
 *     CLIENT_HOLD_COST_MAX tokens where they are taken of a lease.
 * I2  What is decided here needs no validation: only what was asked, and so found valid, has a
 *     lease or a denial, and its tag is that of the same attributes, or key and limit. So a call is
 *     validated only if something of it is to be asked; if it is wrong then, what was taken for the
 *     rest goes back.
 * I3  The clock is read after the takes (I3 of hold.c). The cheap one lags by ticks. It will do
 *     while a lease lasts for so much longer that no running machine lags by it.
 * I4  What stands in a call behind something that gives back is not denied here: the room is made
 *     before it is decided. (Of a call after it: client_leases_give_back.)
 */
#include <time.h>

#include "client/lib/client.h"

enum {
    CHUNK = 64, /* requests that share one look at the clock */
    GUARD_MS = 250
};

/* client_now_ns, cheaper and some ticks behind (I3). What it takes to get there from the coarse
 * clock is reckoned anew with each tick, for only client_now_ns knows of time in which the machine
 * was suspended. Who is slow over that stores too much: then the exact clock is asked. */
static inline __attribute__((always_inline)) int64_t coarse_now_ns(struct tg_client *client)
{
    struct timespec now;
    int64_t tick_ns;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    tick_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (atomic_load_explicit(&client->tick_ns, memory_order_acquire) != tick_ns) {
        atomic_store_explicit(&client->ahead_ns, client_now_ns() - tick_ns, memory_order_release);
        atomic_store_explicit(&client->tick_ns, tick_ns, memory_order_release);
    }
    return tick_ns + atomic_load_explicit(&client->ahead_ns, memory_order_acquire);
}

/* I3 */
static inline bool is_before(int64_t *now_ns, int64_t until_ns)
{
    if (*now_ns + (int64_t)GUARD_MS * 1000000 >= until_ns)
        *now_ns = client_now_ns();
    return *now_ns < until_ns;
}

static inline bool any_local(const struct tg_client *client)
{
    return atomic_load_explicit(&client->holds.count, memory_order_relaxed) != 0 ||
           client_denial_any(&client->denials);
}

/* I1 */
static inline bool is_plain(const tg_request_t *request, int operation)
{
    return (operation >= 0 ? operation : (int)request->operation) == TG_CHECK &&
           request->at_most == 0 && request->explain_max == 0 && request->cost != 0 &&
           request->cost <= TG_COST_MAX;
}

static inline __attribute__((always_inline)) bool
take(struct tg_client *client, const struct client_tag *tag, const tg_request_t *request,
     tg_decision_t *decision, struct client_hold_taken *taken)
{
    if (request->cost > CLIENT_HOLD_COST_MAX ||
        !client_hold_take(&client->holds, tag, (uint32_t)request->cost, decision, taken))
        return false;
    if (taken->due)
        client_nudge(client);
    return true;
}

static inline bool deny(struct tg_client *client, const struct client_tag *tag,
                        const tg_request_t *request, int64_t *now_ns, tg_decision_t *decision)
{
    if (!client_denial_any(&client->denials))
        return false;
    *now_ns = client_now_ns();
    return client_denial_find(&client->denials, tag, request->cost, *now_ns, decision);
}

int client_local_check(struct tg_client *client, const tg_request_t *request,
                       tg_decision_t *decision)
{
    struct client_hold_taken taken;
    struct client_tag tag;
    int64_t now_ns;

    if (!any_local(client) || !is_plain(request, TG_CHECK) ||
        !client_tag_of(&client->tag_key, request, &tag))
        return client_check_asked(client, request, decision);
    if (take(client, &tag, request, decision, &taken)) {
        now_ns = coarse_now_ns(client);
        if (is_before(&now_ns, taken.until_ns)) {
            client_hold_finish(decision, taken.told_ns, now_ns);
            decision->lease_id = 0;
            return 0;
        }
    }
    if (deny(client, &tag, request, &now_ns, decision))
        return 0;
    return client_check_asked(client, request, decision);
}

/* Decides up to CHUNK requests; returns how many were. *gives_back: one before may make room (I4).
 */
static size_t decide_chunk(struct tg_client *client, const tg_request_t *requests, size_t count,
                           int operation, tg_decision_t *decisions, bool *gives_back)
{
    struct client_hold_taken taken[CHUNK];
    struct client_tag tags[CHUNK];
    int64_t now_ns = 0;
    size_t decided = 0;

    for (size_t i = 0; i < count; i++) {
        taken[i].until_ns = 0; /* nothing was taken */
        tags[i].place = 0;     /* nor is there a tag */
        if (!is_plain(&requests[i], operation) ||
            !client_tag_of(&client->tag_key, &requests[i], &tags[i])) {
            *gives_back = *gives_back || client_gives_back((int)requests[i].operation);
            tags[i].place = 0;
        } else if (!take(client, &tags[i], &requests[i], &decisions[i], &taken[i])) {
            taken[i].until_ns = 0;
        }
        if (*gives_back)
            tags[i].place = 0; /* no denial is looked for */
    }
    now_ns = coarse_now_ns(client);
    for (size_t i = 0; i < count; i++) {
        if (taken[i].until_ns != 0 && is_before(&now_ns, taken[i].until_ns))
            client_hold_finish(&decisions[i], taken[i].told_ns, now_ns);
        else if (tags[i].place == 0 ||
                 !deny(client, &tags[i], &requests[i], &now_ns, &decisions[i])) {
            decisions[i].outcome = (tg_outcome_t)CLIENT_UNDECIDED;
            continue;
        }
        decided++;
    }
    return decided;
}

void client_local_end(struct tg_client *client, const tg_request_t *requests, size_t count,
                      tg_decision_t *decisions, bool keep)
{
    for (size_t i = 0; i < count; i++) {
        if ((int)decisions[i].outcome == CLIENT_UNDECIDED || decisions[i].lease_id == 0)
            continue;
        if (!keep)
            client_hold_return(&client->holds, decisions[i].lease_id, (uint32_t)requests[i].cost);
        decisions[i].lease_id = 0;
    }
}

size_t client_local_decide(struct tg_client *client, const tg_request_t *requests, size_t count,
                           int operation, tg_decision_t *decisions)
{
    const bool any = any_local(client);
    bool gives_back = false;
    size_t decided = 0;

    for (size_t i = 0; i < count; i += CHUNK) {
        const size_t len = count - i < CHUNK ? count - i : CHUNK;

        for (size_t k = i; !any && k < i + len; k++)
            decisions[k].outcome = (tg_outcome_t)CLIENT_UNDECIDED;
        if (any)
            decided +=
                decide_chunk(client, requests + i, len, operation, decisions + i, &gives_back);
    }
    return decided;
}

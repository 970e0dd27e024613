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
 * LOCAL-1  Only plain checks are decided here: not at_most, not explained, and of 1 to
 *          CLIENT_HOLD_COST_MAX tokens where they are taken of a lease.
 * LOCAL-2  What is decided here needs no validation: only what was asked, and so found valid, has a
 *          lease or a denial, and its tag is that of the same attributes, or key and limit. So a
 *          call is validated only if something of it is to be asked; if it is wrong then, what was
 *          taken for the rest goes back.
 * LOCAL-3  The clock is read after the takes (HOLD-3). The cheap one lags by ticks. It will
 *          do while a lease lasts for so much longer that no running machine lags by it.
 * LOCAL-4  What stands in a call behind something that gives back is not denied here: the room is
 *          made before it is decided. (Of a call after it: client_call_give_back.)
 */
#include "client/lib/local.h"

enum { CHUNK = 64 }; /* requests that share one look at the clock */

/* Decides up to CHUNK requests; returns how many were. *gives_back: one before may make room
 * (LOCAL-4).
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
        if (!client_local_is_plain(&requests[i], operation) ||
            !client_tag_of(&client->config.tag_key, &requests[i], &tags[i])) {
            *gives_back = *gives_back || client_gives_back((int)requests[i].operation);
            tags[i].place = 0;
        } else if (!client_local_take(client, &tags[i], &requests[i], &decisions[i], &taken[i])) {
            taken[i].until_ns = 0;
        }
        if (*gives_back)
            tags[i].place = 0; /* no denial is looked for */
    }
    now_ns = client_local_now_ns(client);
    for (size_t i = 0; i < count; i++) {
        if (taken[i].until_ns != 0 && client_local_is_before(&now_ns, taken[i].until_ns))
            client_hold_finish(&decisions[i], taken[i].told_ns, now_ns);
        else if (tags[i].place == 0 ||
                 !client_local_deny(client, &tags[i], &requests[i], &now_ns, &decisions[i])) {
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
            client_hold_return(&client->shared.holds, decisions[i].lease_id,
                               (uint32_t)requests[i].cost);
        decisions[i].lease_id = 0;
    }
}

size_t client_local_decide(struct tg_client *client, const tg_request_t *requests, size_t count,
                           int operation, tg_decision_t *decisions)
{
    const bool any = client_local_any(client);
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

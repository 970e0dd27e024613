/* client.c - the load: sessions that send batches of checks, ask again, and count what they got.
 *
 * A client has one message under way. Without an answer in time it sends the same (session, seq)
 * with the RETRY flag to another node, as libtidegate does; after many tries it gives up, and its
 * checks count as uncertain: they may have been charged.
 *
 *   items of a message    exact keys   cost 1, a limit of SIM_LIMIT per day, one of each algorithm
 *                         vaults       any operation on keys that majorities keep; see history.c
 *                         rules        attributes that two rules limit, on different vnodes
 *                         lent         keys of rules that say what if nobody is reached
 *                         several      attributes that three rules limit, a crowd at once
 *                         noise        any operation, cost and short windows; not counted
 *   of an audit           exact keys   looked at, so that the count itself is told
 *
 * SIMCLIENT-1  A message sent n times gets at most n answers; only the first one counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/dedup/retry.h"
#include "tests/sim/phase.h"

enum {
    TRIES_MAX = 12,
    TIMEOUT_MS = 300,
    NOISE_KEYS = 20000,
    FRAME_MAX = 1 << 18,
    DRAIN_SLACK_MS = 100000,
    FLOOD_ITEMS = 1000,
    FLOOD_PACE_MS = 8,
    LENT_MESSAGES_PPM = 700000,
    BRIEF_MESSAGES_PPM = 300000, /* of these: checks that name their rules, in */
    BRIEF_MS = 16,
    KEY_NONE_INDEX = SIM_KEYS_MAX,
};

/* ---- messages -------------------------------------------------------------------------------- */

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_CLIENTS);
}

static bool append(struct sim *sim, int template, uint8_t operation, uint64_t cost,
                   const struct wire_text *values, uint32_t count)
{
    ASSERT(template >= 0);
    return wire_checks_builder_append(&sim->builder, (uint32_t) template, operation, cost, values,
                                      count) >= 0;
}

static void append_exact(struct sim *sim, struct client *client, uint32_t item)
{
    const struct key_set set = sim->load.keys;
    const uint32_t index = set.first + (uint32_t)random_below(stream(sim), keys_exact(set));
    struct key *key = &sim->keys[index];
    const struct wire_text text = wire_text_of(key->text);
    const bool peek = sim_chance(sim, STREAM_CLIENTS, 50000);
    const uint8_t operation = peek ? OPERATION_PEEK : OPERATION_CHECK;
    const bool ok =
        append(sim, wire_checks_builder_inline(&sim->builder, &key->limit), operation, 1, &text, 1);
    ASSERT(ok);
    client->operations[item] = operation;
    client->keys[item][0] = peek ? KEY_NONE_INDEX : index;
    key->attempts += !peek;
}

static void append_rule(struct sim *sim, struct client *client, uint32_t item)
{
    const uint32_t users = sim->load.keys.first + keys_exact(sim->load.keys);
    const uint32_t user = users + (uint32_t)random_below(stream(sim), KEYS_USERS);
    const uint32_t ip = users + KEYS_USERS + (uint32_t)random_below(stream(sim), KEYS_ADDRESSES);
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of("user"),
                                      wire_text_of("host")};
    const struct wire_text values[] = {wire_text_of("/pay"), wire_text_of(sim->keys[user].text),
                                       wire_text_of(sim->keys[ip].text)};
    const bool ok = append(sim, wire_checks_builder_attributes(&sim->builder, names, 3),
                           OPERATION_CHECK, 1, values, 3);
    ASSERT(ok);
    client->operations[item] = OPERATION_CHECK;
    client->keys[item][0] = user;
    client->keys[item][1] = ip;
    sim->keys[user].attempts++;
    sim->keys[ip].attempts++;
}

/* A check of a key whose rule says what if nobody is reached. */
static void append_lent(struct sim *sim, struct client *client, uint32_t item)
{
    struct random *random = sim_stream(sim, STREAM_LENT);
    const struct key_set set = sim->load.lent;
    /* One that nobody answers holds up the whole message, so they are few. */
    const bool any = item + 1 == client->item_count && random_below(random, 6) == 0;
    uint32_t index = set.first + (uint32_t)random_below(random, set.count);
    while (sim->keys[index].lent == LENT_NAMED || (!any && sim->keys[index].lent == LENT_CLOSED))
        index = set.first + (uint32_t)random_below(random, set.count);
    struct key *key = &sim->keys[index];
    char api[SIM_TEXT_LEN];
    snprintf(api, sizeof api, "/%s", keys_lent_name(key->lent));
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of("guest")};
    const struct wire_text values[] = {wire_text_of(api), wire_text_of(key->text)};
    const bool ok = append(sim, wire_checks_builder_attributes(&sim->builder, names, 2),
                           OPERATION_CHECK, 1, values, 2);
    ASSERT(ok);
    client->operations[item] = OPERATION_CHECK;
    client->histories[item] = HISTORY_NONE;
    client->keys[item][0] = index;
    key->attempts++;
}

/* A check that names its rule, of a message that has little time. */
static void append_named(struct sim *sim, struct client *client, uint32_t item)
{
    const struct wire_rule rule = {.name = wire_text_of("lent:guest")};
    const struct key_set set = sim->load.lent;
    uint32_t index = set.first;
    while (sim->keys[index].lent != LENT_NAMED)
        index = set.first + (uint32_t)random_below(sim_stream(sim, STREAM_LENT), set.count);
    struct key *key = &sim->keys[index];
    const struct wire_text path = wire_text_of(key->text);
    const bool ok = append(sim, wire_checks_builder_rules(&sim->builder, &rule, 1), OPERATION_CHECK,
                           1, &path, 1);
    ASSERT(ok);
    client->operations[item] = OPERATION_CHECK;
    client->histories[item] = HISTORY_NONE;
    client->keys[item][0] = index;
    key->attempts++;
}

/* An operation on a key that majorities keep. */
static void append_vault(struct sim *sim, struct client *client, uint32_t item)
{
    static const uint8_t operations[] = {OPERATION_CHECK, OPERATION_PEEK, OPERATION_REFUND};
    static const enum linear_kind kinds[] = {LINEAR_CHECK, LINEAR_PEEK, LINEAR_REFUND};
    const uint32_t vault = (uint32_t)random_below(stream(sim), KEYS_VAULTS);
    const uint32_t index = sim->load.keys.first + sim->load.keys.count + vault;
    const uint64_t dice = random_below(stream(sim), 10);
    const uint32_t kind = dice < 7 ? 0 : dice < 9 ? 1 : 2;
    const uint32_t cost = kind == 1 ? 0 : 1 + (uint32_t)random_below(stream(sim), 2);
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of("account")};
    const struct wire_text values[] = {wire_text_of(vault % 2 == 0 ? "/vault" : "/safe"),
                                       wire_text_of(sim->keys[index].text)};
    const bool ok = append(sim, wire_checks_builder_attributes(&sim->builder, names, 2),
                           operations[kind], cost, values, 2);
    ASSERT(ok);
    client->operations[item] = OPERATION_COUNT;
    client->keys[item][0] = KEY_NONE_INDEX;
    client->histories[item] = history_call(sim, index, kinds[kind], cost);
}

static void append_noise(struct sim *sim, struct client *client, uint32_t item)
{
    char name[SIM_TEXT_LEN];
    const uint64_t number = random_below(stream(sim), NOISE_KEYS);
    snprintf(name, sizeof name, "noise-%u", (unsigned)number);
    const struct limit limit = {
        .count = 20,
        .window_ns = 1000000000ull << (number % 3 * 3),
        .algorithm = (uint8_t)(number % ALGORITHM_COUNT),
    };
    uint8_t operation = (uint8_t)random_below(stream(sim), OPERATION_RENEW + 1);
    const uint64_t cost = operation == OPERATION_RESET ? 0 : random_below(stream(sim), 5);
    if ((operation == OPERATION_CHECK || operation == OPERATION_PEEK) && (number & 1) != 0)
        operation |= WIRE_AT_MOST;
    const struct wire_text text = wire_text_of(name);
    const bool ok =
        append(sim, wire_checks_builder_inline(&sim->builder, &limit), operation, cost, &text, 1);
    ASSERT(ok);
    client->operations[item] = OPERATION_COUNT;
    client->keys[item][0] = KEY_NONE_INDEX;
}

/* What rule names each kind of key of a crowd, and where they begin in its set. */
static const char *const several_names[SIM_ITEM_KEYS] = {"member", "host", "team"};
static const uint32_t several_counts[SIM_ITEM_KEYS] = {KEYS_MEMBERS, KEYS_HOSTS, KEYS_TEAMS};

static void append_several(struct sim *sim, struct client *client, uint32_t item)
{
    struct wire_text names[1 + SIM_ITEM_KEYS] = {wire_text_of("api")};
    struct wire_text values[1 + SIM_ITEM_KEYS] = {wire_text_of("/several")};
    uint32_t first = sim->load.several.first;
    for (uint32_t kind = 0; kind < SIM_ITEM_KEYS; kind++) {
        const uint32_t index = first + (uint32_t)random_below(stream(sim), several_counts[kind]);
        names[1 + kind] = wire_text_of(several_names[kind]);
        values[1 + kind] = wire_text_of(sim->keys[index].text);
        client->keys[item][kind] = index;
        sim->keys[index].attempts++;
        first += several_counts[kind];
    }
    const bool ok =
        append(sim, wire_checks_builder_attributes(&sim->builder, names, 1 + SIM_ITEM_KEYS),
               OPERATION_CHECK, 1, values, 1 + SIM_ITEM_KEYS);
    ASSERT(ok);
    client->operations[item] = OPERATION_CHECK;
    client->histories[item] = HISTORY_NONE;
}

/* Looks at one key of a crowd: a request that has only that attribute meets only its rule. */
static bool append_look(struct sim *sim, const struct key_set *set, uint32_t index)
{
    uint32_t kind = 0;
    for (uint32_t end = set->first + several_counts[0]; index >= end; end += several_counts[kind])
        kind++;
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of(several_names[kind])};
    const struct wire_text values[] = {wire_text_of("/several"),
                                       wire_text_of(sim->keys[index].text)};
    return append(sim, wire_checks_builder_attributes(&sim->builder, names, 2), OPERATION_PEEK, 0,
                  values, 2);
}

/* How many of the set are looked at. */
static uint32_t audited_count(const struct sim *sim, struct key_set set)
{
    return sim->keys[set.first].kind == KEY_SEVERAL ? set.count : keys_exact(set);
}

/* Looks at the next keys, without charging them. */
static void append_audit(struct sim *sim, struct client *client)
{
    const struct key_set set = sim->load.keys;
    const uint32_t count = audited_count(sim, set);
    client->item_count = 0;
    while (client->item_count < SIM_ITEMS_MAX && sim->load.audit_next < count) {
        const uint32_t index = set.first + sim->load.audit_next++;
        const struct key *key = &sim->keys[index];
        const struct wire_text text = wire_text_of(key->text);
        const bool ok = key->kind == KEY_SEVERAL
                            ? append_look(sim, &set, index)
                            : append(sim, wire_checks_builder_inline(&sim->builder, &key->limit),
                                     OPERATION_PEEK, 0, &text, 1);
        ASSERT(ok);
        client->operations[client->item_count] = OPERATION_PEEK;
        client->histories[client->item_count] = HISTORY_NONE;
        client->keys[client->item_count][0] = index;
        client->item_count++;
    }
}

static void append_crowd(struct sim *sim, struct client *client)
{
    const uint32_t each = (sim->options.crowd + sim->client_count - 1) / sim->client_count;
    client->item_count = each < SIM_CROWD_MAX ? each : SIM_CROWD_MAX;
    for (uint32_t item = 0; item < client->item_count; item++)
        append_several(sim, client, item);
}

static void append_load(struct sim *sim, struct client *client)
{
    client->item_count = 1 + (uint32_t)random_below(stream(sim), sim->options.items);
    const bool lent = sim->load.lent.count > 0 && sim_chance(sim, STREAM_LENT, LENT_MESSAGES_PPM);
    client->brief = lent && sim_chance(sim, STREAM_LENT, BRIEF_MESSAGES_PPM);
    for (uint32_t item = 0; lent && item < client->item_count; item++) {
        if (client->brief)
            append_named(sim, client, item);
        else
            append_lent(sim, client, item);
    }
    for (uint32_t item = 0; !lent && item < client->item_count; item++) {
        const uint64_t dice = random_below(stream(sim), 100);
        client->histories[item] = HISTORY_NONE;
        if (dice < 65)
            append_exact(sim, client, item);
        else if (dice < 75)
            append_rule(sim, client, item);
        else if (dice < 85 && sim->options.quorum)
            append_vault(sim, client, item);
        else
            append_noise(sim, client, item);
    }
}

/* How long nodes may take; of a crowd less than its clients wait, so that these are told. */
static uint32_t deadline_ms(const struct sim *sim, const struct client *client)
{
    if (client->brief)
        return BRIEF_MS;
    return sim->load.several.count > 0 ? sim->load.timeout_ms * 3 / 4 : sim->load.timeout_ms;
}

static void build(struct sim *sim, struct client *client)
{
    client->brief = false;
    wire_checks_builder_reset(&sim->builder);
    for (uint32_t item = 0; item < SIM_CROWD_MAX; item++)
        for (uint32_t k = 0; k < SIM_ITEM_KEYS; k++)
            client->keys[item][k] = KEY_NONE_INDEX;
    if (sim->load.audit)
        append_audit(sim, client);
    else if (sim->load.several.count > 0)
        append_crowd(sim, client);
    else
        append_load(sim, client);
    client->frame = realloc(client->frame, FRAME_MAX);
    ASSERT(client->frame != NULL);
    const int len = wire_checks_builder_encode(&sim->builder, client->session, ++client->seq, 0,
                                               deadline_ms(sim, client), client->frame, FRAME_MAX);
    ASSERT(len > 0);
    client->frame_len = (size_t)len;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void schedule(struct sim *sim, const struct client *client, enum event_kind kind,
                     int64_t delay_ns)
{
    const struct event event = {
        .at_ns = sim->now_ns + delay_ns,
        .kind = kind,
        .node = client->index,
        .tag = client->seq << 8 | client->tries,
    };
    queue_push(&sim->queue, &event);
}

static void send(struct sim *sim, struct client *client)
{
    const uint8_t at = (uint8_t)random_below(stream(sim), sim->node_count);
    const struct node *node = &sim->nodes[at];
    client->tries++;
    if (node->up)
        net_ask(sim, client->index, at, (uint8_t)random_below(stream(sim), node->shard_count),
                client->frame, client->frame_len);
    schedule(sim, client, EVENT_TIMEOUT, node->up ? sim->load.timeout_ms * SIM_MS : SIM_MS);
}

static void send_again(struct sim *sim, struct client *client)
{
    for (uint32_t item = 0; item < client->item_count; item++) {
        if (!client->echoes)
            history_again(sim, client->histories[item]);
        for (uint32_t k = 0; k < SIM_ITEM_KEYS; k++)
            if (client->keys[item][k] != KEY_NONE_INDEX &&
                client->operations[item] == OPERATION_CHECK)
                sim->keys[client->keys[item][k]].repeated++;
    }
    uint8_t *frame = malloc(FRAME_MAX);
    ASSERT(frame != NULL);
    const int len =
        wire_checks_retry(client->frame, client->frame_len, deadline_ms(sim, client), frame, FRAME_MAX);
    ASSERT(len > 0);
    free(client->frame);
    client->frame = frame;
    client->frame_len = (size_t)len;
    sim->coverage.retries++;
    send(sim, client);
}

static void not_told(struct sim *sim, const struct client *client, uint32_t item)
{
    if (client->operations[item] != OPERATION_CHECK)
        return;
    for (uint32_t k = 0; k < SIM_ITEM_KEYS; k++)
        if (client->keys[item][k] != KEY_NONE_INDEX)
            sim->keys[client->keys[item][k]].uncertain++;
}

/* One of several rules could not be asked in time, so none is to stay charged; unless the same was
 * asked again meanwhile: nobody waits for what becomes of that. */
static void failed(struct sim *sim, const struct client *client, uint32_t item)
{
    const uint32_t first = client->keys[item][0];
    if (first == KEY_NONE_INDEX || sim->keys[first].kind != KEY_SEVERAL || client->tries > 1) {
        not_told(sim, client, item);
        return;
    }
    for (uint32_t k = 0; k < SIM_ITEM_KEYS; k++)
        sim->keys[client->keys[item][k]].failed++;
    sim->coverage.failed++;
}

static bool wants(const struct sim *sim, const struct client *client)
{
    if (sim->load.audit)
        return client->index == 0 && sim->load.audit_next < audited_count(sim, sim->load.keys);
    return sim->load.keys.count > 0;
}

static void turn_later(struct sim *sim, struct client *client)
{
    if (client->turn_pending || !wants(sim, client))
        return;
    client->turn_pending = true;
    schedule(sim, client, EVENT_TURN, random_between(stream(sim), 2 * SIM_MS, 20 * SIM_MS));
}

/* True if there was anything to do. */
static bool turn(struct sim *sim, struct client *client)
{
    client->turn_pending = false;
    if (client->waiting || !wants(sim, client))
        return false;
    client->waiting = true;
    client->echoes = false;
    client->tries = 0;
    client->replies = 0;
    client->asked_ns = sim->now_ns;
    build(sim, client);
    send(sim, client);
    return true;
}

static void done(struct sim *sim, struct client *client)
{
    client->waiting = false;
    turn_later(sim, client);
}

static void timed_out(struct sim *sim, struct client *client)
{
    sim_tell(sim, 2, "client %u seq %llu has no answer to try %u", client->index,
             (unsigned long long)client->seq, client->tries);
    if (client->tries < TRIES_MAX) {
        send_again(sim, client);
        return;
    }
    for (uint32_t item = 0; item < client->item_count; item++)
        not_told(sim, client, item);
    done(sim, client);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* What has drained from a bucket while charges were there that are undone is not known to the
 * moment (GCRA-4): so many moments may add up to what looks like a token for a while. */
static void audited(struct key *key, const struct wire_decision *decision)
{
    key->audited = true;
    key->used = decision->used;
    key->at_least = decision->used;
    if (key->kind != KEY_SEVERAL || key->limit.algorithm != ALGORITHM_TOKEN_BUCKET)
        return;
    const uint64_t token_ms = key->limit.window_ns / key->limit.count / SIM_MS;
    const uint64_t debt_ms = (uint64_t)decision->reset_after_ms;
    const uint64_t sure_ms = debt_ms > DRAIN_SLACK_MS ? debt_ms - DRAIN_SLACK_MS : 0;
    key->at_least = (sure_ms + token_ms - 1) / token_ms;
}

static void take_item(struct sim *sim, struct client *client, uint32_t item,
                      const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY) {
        sim_tell(sim, 2, "client %u seq %llu item %u gets %s for vnode %u", client->index,
                 (unsigned long long)client->seq, item, outcome_name(decision->outcome),
                 decision->vnode);
        failed(sim, client, item);
        return;
    }
    if (client->histories[item] != HISTORY_NONE)
        history_return(sim, client->histories[item], decision->allowed, decision->used);
    if (client->operations[item] == OPERATION_PEEK && client->keys[item][0] != KEY_NONE_INDEX) {
        audited(&sim->keys[client->keys[item][0]], decision);
    }
    sim->coverage.degraded += decision->degraded;
    if (!decision->allowed || client->operations[item] != OPERATION_CHECK)
        return;
    for (uint32_t k = 0; k < SIM_ITEM_KEYS; k++) {
        if (client->keys[item][k] == KEY_NONE_INDEX)
            continue;
        sim->keys[client->keys[item][k]].admitted++;
        sim->keys[client->keys[item][k]].sure += !decision->degraded;
    }
    sim->coverage.admitted++;
}

/* Whether the message was sent again so often, or for so long, that not all of it is remembered:
 * RETRY-1 and RETRY-3. */
static bool over_asked(const struct sim *sim, const struct client *client)
{
    return client->tries > RETRY_ATTEMPTS_MAX ||
           sim->now_ns - client->asked_ns > RETRY_KEEP_NS - SIM_SEC / 10;
}

static void take_reply(struct sim *sim, struct client *client, const struct event *event)
{
    struct wire_decisions decisions;
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(event->bytes, event->len, &envelope, error) != 0) {
        sim_fail(sim, "client %u got a malformed answer: %s", client->index, error);
        return;
    }
    if (!client->waiting || envelope.seq != client->seq)
        return;
    if (++client->replies > client->tries)
        sim_fail(sim, "client %u got %u answers to %u messages", client->index, client->replies,
                 client->tries);
    if (envelope.type == WIRE_ERROR) {
        schedule(sim, client, EVENT_TIMEOUT, 20 * SIM_MS);
        return;
    }
    const int result =
        wire_decode_decisions(event->bytes, event->len, &sim->space, &decisions, error);
    if (result != 0 || decisions.head.count != client->item_count) {
        sim_fail(sim, "client %u got a wrong answer: %d, %s", client->index, result,
                 result != 0 ? error : "another number of items");
        return;
    }
    for (uint32_t item = 0; item < client->item_count && !client->echoes; item++) {
        struct wire_decision decision;
        wire_decision_at(&decisions, item, &decision);
        take_item(sim, client, item, &decision);
        if (over_asked(sim, client))
            not_told(sim, client, item);
    }
    done(sim, client);
}

/* Whether all that the client asked last can be asked again by one who has the answers, and changes
 * nothing by that: of keys with a history only what was admitted; a denial is decided afresh. */
static bool can_echo(const struct sim *sim, const struct client *client)
{
    if (client->waiting || client->frame == NULL || client->tries + 1 >= RETRY_ATTEMPTS_MAX ||
        sim->now_ns - client->asked_ns > RETRY_KEEP_NS / 2)
        return false;
    for (uint32_t item = 0; item < client->item_count; item++)
        if (client->histories[item] != HISTORY_NONE &&
            !history_admitted(sim, client->histories[item]))
            return false;
    return true;
}

void client_echo(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        struct client *client = &sim->clients[i];
        if (!can_echo(sim, client))
            continue;
        client->waiting = client->echoes = true;
        sim->coverage.echoes++;
        send_again(sim, client);
    }
}

int worker_of_reply(const struct event *event, uint64_t first, uint32_t count)
{
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(event->bytes, event->len, &envelope, error) != 0 || envelope.session < first ||
        envelope.session - first >= count)
        return -1;
    return (int)(envelope.session - first);
}

bool worker_decision(struct sim *sim, const struct event *event, uint64_t seq,
                     struct wire_decision *out)
{
    struct wire_envelope envelope;
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(event->bytes, event->len, &envelope, error) != 0 ||
        envelope.type != WIRE_DECISIONS || envelope.seq != seq)
        return false;
    if (wire_decode_decisions(event->bytes, event->len, &sim->space, &decisions, error) != 0 ||
        decisions.head.count != 1) {
        sim_fail(sim, "the worker of session %llu got a wrong answer: %s",
                 (unsigned long long)envelope.session, error);
        return false;
    }
    wire_decision_at(&decisions, 0, out);
    return true;
}

bool client_event(struct sim *sim, const struct event *event)
{
    struct client *client = &sim->clients[event->node];
    if (event->kind == EVENT_TURN)
        return turn(sim, client);
    if (event->kind == EVENT_REPLY && event->node == SIM_CLIENTS_MAX) {
        if (!lease_reply(sim, event) && !hold_reply(sim, event) && !reserve_reply(sim, event) &&
            !global_reply(sim, event))
            borrow_reply(sim, event);
        return true;
    }
    if (event->kind == EVENT_REPLY) {
        take_reply(sim, client, event);
        return true;
    }
    if (!client->waiting || event->tag != (client->seq << 8 | client->tries))
        return false;
    timed_out(sim, client);
    return true;
}

/* ---- floods ---------------------------------------------------------------------------------- */

void client_flood(struct sim *sim, uint32_t frames)
{
    uint8_t *frame = malloc(WIRE_MESSAGE_MAX);
    const struct limit limit = {
        .count = 20, .window_ns = 3600ull * 1000000000, .algorithm = ALGORITHM_TOKEN_BUCKET};
    ASSERT(frame != NULL);
    for (uint32_t i = 0; i < frames; i++) {
        wire_checks_builder_reset(&sim->builder);
        const int template = wire_checks_builder_inline(&sim->builder, &limit);
        for (uint32_t item = 0; item < FLOOD_ITEMS; item++) {
            char name[SIM_TEXT_LEN];
            snprintf(name, sizeof name, "spate-%u-%u", i, item); /* no key of a phase */
            const struct wire_text text = wire_text_of(name);
            const bool ok = append(sim, template, OPERATION_CHECK, 1, &text, 1);
            ASSERT(ok);
        }
        const int len = wire_checks_builder_encode(&sim->builder, 1, i + 1, 0, TIMEOUT_MS, frame,
                                                   WIRE_MESSAGE_MAX);
        ASSERT(len > 0);
        const struct node *node = &sim->nodes[i % sim->node_count];
        const struct event event = {
            .at_ns = sim->now_ns + i * FLOOD_PACE_MS * SIM_MS,
            .kind = EVENT_CLIENT,
            .node = node->index,
            .shard = (uint8_t)(i % node->shard_count),
            .from = SIM_CLIENTS_MAX,
            .len = (uint32_t)len,
            .bytes = sim_copy(frame, (size_t)len),
        };
        queue_push(&sim->queue, &event);
    }
    free(frame);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void load(struct sim *sim, struct key_set set, bool audit)
{
    sim->load.keys = set;
    sim->load.lent.count = 0;
    sim->load.several.count = 0;
    sim->load.audit = audit;
    sim->load.audit_next = 0;
    for (uint32_t i = 0; i < sim->client_count; i++)
        if (!sim->clients[i].waiting)
            turn_later(sim, &sim->clients[i]);
}

void client_load(struct sim *sim, struct key_set set)
{
    load(sim, set, false);
}

void client_lend(struct sim *sim, struct key_set set)
{
    sim->load.lent = set;
}

void client_crowd(struct sim *sim, struct key_set set)
{
    load(sim, set, false);
    sim->load.several = set;
}

void client_audit(struct sim *sim, struct key_set set)
{
    load(sim, set, true);
}

bool client_idle(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++)
        if (sim->clients[i].waiting || (sim->load.audit && wants(sim, &sim->clients[i])))
            return false;
    return true;
}

void client_init(struct sim *sim)
{
    keys_rules(sim, 0);
    wire_checks_builder_init(&sim->builder, sim->values, sizeof sim->values);
    sim->load.timeout_ms = TIMEOUT_MS;
    sim->client_count = sim->options.clients;
    for (uint32_t i = 0; i < sim->client_count; i++) {
        struct client *client = &sim->clients[i];
        client->index = (uint8_t)i;
        client->session = random_next(stream(sim)) | 1;
    }
}

void client_fini(struct sim *sim)
{
    history_fini(sim);
    for (uint32_t i = 0; i < sim->client_count; i++)
        free(sim->clients[i].frame);
    for (uint32_t i = 0; i < sim->policy_count; i++)
        policy_free(&sim->policies[i]);
}

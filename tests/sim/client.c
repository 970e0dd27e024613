/* client.c - the load: sessions that send batches of checks, ask again, and count what they got.
 *
 * A client has one message under way. Without an answer in time it sends the same (session, seq)
 * with the RETRY flag to another node, as libtidegate does; after many tries it gives up, and its
 * checks count as uncertain: they may have been charged.
 *
 *   items of a message    exact keys   cost 1, a limit of SIM_LIMIT per day, one of each algorithm
 *                         rules        attributes that two rules limit, on different vnodes
 *                         noise        any operation, cost and short windows; not counted
 *
 * N1  A message sent n times gets at most n answers; only the first one counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

enum {
    TRIES_MAX = 12,
    TIMEOUT_MS = 300,
    NOISE_KEYS = 20000,
    USERS = 8,
    ADDRESSES = 4,
    USER_LIMIT = 30,
    ADDRESS_LIMIT = 60,
    FRAME_MAX = 1 << 16,
    FLOOD_FRAMES = 230,
    FLOOD_ITEMS = 1000,
    FLOOD_PACE_MS = 8,
    KEY_NONE_INDEX = SIM_KEYS_MAX,
};

static const char rules_text[] = "rules:\n"
                                 "  - name: per-user\n"
                                 "    match: {api: /pay}\n"
                                 "    key: [user]\n"
                                 "    on_failure: closed\n"
                                 "    limits:\n"
                                 "      - {rate: 30/24h, algorithm: token_bucket}\n"
                                 "      - {rate: 40/24h, algorithm: fixed_window}\n"
                                 "  - name: per-ip\n"
                                 "    match: {api: /pay}\n"
                                 "    key: [ip]\n"
                                 "    on_failure: closed\n"
                                 "    limits:\n"
                                 "      - {rate: 60/24h, algorithm: sliding_log}\n";

/* ---- keys ------------------------------------------------------------------------------------ */

static void place_key(struct sim *sim, struct key *key, struct identity *identity)
{
    key->vnode = identity_vnode(&sim->identity.route_key, identity, sim->vnodes);
    key->id = identity_slot(&sim->identity.secret, identity, key->limit.algorithm, 0);
}

static struct key *add_key(struct sim *sim, enum key_kind kind, uint8_t algorithm, uint64_t count)
{
    ASSERT(sim->key_count < SIM_KEYS_MAX);
    struct key *key = &sim->keys[sim->key_count++];
    memset(key, 0, sizeof *key);
    key->kind = kind;
    key->limit.algorithm = algorithm;
    key->limit.count = count;
    key->limit.window_ns = 24ull * 3600 * 1000000000;
    return key;
}

static void add_rule_key(struct sim *sim, const char *text, const char *rule, uint8_t algorithm,
                         uint64_t count)
{
    struct identity identity;
    struct key *key = add_key(sim, KEY_RULE, algorithm, count);
    snprintf(key->text, sizeof key->text, "%s", text);
    const struct identity_value value = {key->text, strlen(key->text)};
    const int error = identity_rule(&identity, rule, strlen(rule), &value, 1);
    ASSERT(error == 0);
    place_key(sim, key, &identity);
}

struct key_set client_keys(struct sim *sim, const char *name, uint32_t each)
{
    const uint32_t first = sim->key_count;
    struct identity identity;
    char text[SIM_TEXT_LEN];
    for (uint32_t i = 0; i < each * ALGORITHM_COUNT; i++) {
        struct key *key = add_key(sim, KEY_EXACT, (uint8_t)(i % ALGORITHM_COUNT), SIM_LIMIT);
        snprintf(key->text, sizeof key->text, "%s-%u", name, i);
        const int error = identity_inline(&identity, key->text, strlen(key->text));
        ASSERT(error == 0);
        place_key(sim, key, &identity);
    }
    for (uint32_t i = 0; i < USERS; i++) {
        snprintf(text, sizeof text, "%s-user-%u", name, i);
        add_rule_key(sim, text, "per-user", ALGORITHM_TOKEN_BUCKET, USER_LIMIT);
    }
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        snprintf(text, sizeof text, "%s-ip-%u", name, i);
        add_rule_key(sim, text, "per-ip", ALGORITHM_SLIDING_LOG, ADDRESS_LIMIT);
    }
    return (struct key_set){first, sim->key_count - first};
}

uint64_t client_attempts(const struct sim *sim, struct key_set set)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = set.first; i < set.first + set.count; i++)
        if (sim->keys[i].kind == KEY_EXACT && sim->keys[i].attempts < least)
            least = sim->keys[i].attempts;
    return least;
}

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
    const uint32_t exact = sim->load.count - USERS - ADDRESSES;
    const uint32_t index = sim->load.first + (uint32_t)random_below(stream(sim), exact);
    struct key *key = &sim->keys[index];
    const struct wire_text text = wire_text_of(key->text);
    const bool peek = sim_chance(sim, STREAM_CLIENTS, 50000);
    const uint8_t operation = peek ? OPERATION_PEEK : OPERATION_CHECK;
    const bool ok =
        append(sim, wire_checks_builder_inline(&sim->builder, &key->limit), operation, 1, &text, 1);
    ASSERT(ok);
    client->operations[item] = operation;
    client->keys[item][0] = peek ? KEY_NONE_INDEX : index;
    client->keys[item][1] = KEY_NONE_INDEX;
    key->attempts += !peek;
}

static void append_rule(struct sim *sim, struct client *client, uint32_t item)
{
    const uint32_t users = sim->load.first + sim->load.count - USERS - ADDRESSES;
    const uint32_t user = users + (uint32_t)random_below(stream(sim), USERS);
    const uint32_t ip = users + USERS + (uint32_t)random_below(stream(sim), ADDRESSES);
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of("user"),
                                      wire_text_of("ip")};
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
    uint8_t operation = (uint8_t)random_below(stream(sim), OPERATION_COUNT);
    const uint64_t cost = operation == OPERATION_RESET ? 0 : random_below(stream(sim), 5);
    if ((operation == OPERATION_CHECK || operation == OPERATION_PEEK) && (number & 1) != 0)
        operation |= WIRE_AT_MOST;
    const struct wire_text text = wire_text_of(name);
    const bool ok =
        append(sim, wire_checks_builder_inline(&sim->builder, &limit), operation, cost, &text, 1);
    ASSERT(ok);
    client->operations[item] = OPERATION_COUNT;
    client->keys[item][0] = KEY_NONE_INDEX;
    client->keys[item][1] = KEY_NONE_INDEX;
}

static void build(struct sim *sim, struct client *client)
{
    wire_checks_builder_reset(&sim->builder);
    client->item_count = 1 + (uint32_t)random_below(stream(sim), SIM_ITEMS_MAX / 2);
    for (uint32_t item = 0; item < client->item_count; item++) {
        const uint64_t dice = random_below(stream(sim), 100);
        if (dice < 75)
            append_exact(sim, client, item);
        else if (dice < 85)
            append_rule(sim, client, item);
        else
            append_noise(sim, client, item);
    }
    client->frame = realloc(client->frame, FRAME_MAX);
    ASSERT(client->frame != NULL);
    const int len = wire_checks_builder_encode(&sim->builder, client->session, ++client->seq, 0,
                                               TIMEOUT_MS, client->frame, FRAME_MAX);
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
    schedule(sim, client, EVENT_TIMEOUT, node->up ? TIMEOUT_MS * SIM_MS : SIM_MS);
}

static void send_again(struct sim *sim, struct client *client)
{
    for (uint32_t item = 0; item < client->item_count; item++)
        for (uint32_t k = 0; k < 2; k++)
            if (client->keys[item][k] != KEY_NONE_INDEX)
                sim->keys[client->keys[item][k]].repeated++;
    uint8_t *frame = malloc(FRAME_MAX);
    ASSERT(frame != NULL);
    const int len =
        wire_checks_retry(client->frame, client->frame_len, TIMEOUT_MS, frame, FRAME_MAX);
    ASSERT(len > 0);
    free(client->frame);
    client->frame = frame;
    client->frame_len = (size_t)len;
    sim->coverage->retries++;
    send(sim, client);
}

static void not_told(struct sim *sim, const struct client *client, uint32_t item)
{
    for (uint32_t k = 0; k < 2; k++)
        if (client->keys[item][k] != KEY_NONE_INDEX)
            sim->keys[client->keys[item][k]].uncertain++;
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
    client->waiting = false;
}

static void turn(struct sim *sim, struct client *client)
{
    if (client->active && !client->waiting && sim->load.count > 0) {
        client->waiting = true;
        client->tries = 0;
        client->replies = 0;
        build(sim, client);
        send(sim, client);
    }
    schedule(sim, client, EVENT_TURN, random_between(stream(sim), 2 * SIM_MS, 20 * SIM_MS));
}

/* ---- answers --------------------------------------------------------------------------------- */

static void take_item(struct sim *sim, struct client *client, uint32_t item,
                      const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY) {
        sim_tell(sim, 2, "client %u seq %llu item %u gets %s for vnode %u", client->index,
                 (unsigned long long)client->seq, item, outcome_name(decision->outcome),
                 decision->vnode);
        not_told(sim, client, item);
        return;
    }
    if (!decision->allowed || client->operations[item] != OPERATION_CHECK)
        return;
    for (uint32_t k = 0; k < 2; k++)
        if (client->keys[item][k] != KEY_NONE_INDEX)
            sim->keys[client->keys[item][k]].admitted++;
    sim->coverage->admitted++;
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
    for (uint32_t item = 0; item < client->item_count; item++) {
        struct wire_decision decision;
        wire_decision_at(&decisions, item, &decision);
        take_item(sim, client, item, &decision);
    }
    client->waiting = false;
}

void client_event(struct sim *sim, const struct event *event)
{
    struct client *client = &sim->clients[event->node];
    if (event->kind == EVENT_TURN)
        turn(sim, client);
    else if (event->kind == EVENT_REPLY)
        take_reply(sim, client, event);
    else if (client->waiting && event->tag == (client->seq << 8 | client->tries))
        timed_out(sim, client);
}

/* ---- floods ---------------------------------------------------------------------------------- */

void client_flood(struct sim *sim)
{
    uint8_t *frame = malloc(WIRE_MESSAGE_MAX);
    const struct limit limit = {
        .count = 20, .window_ns = 3600ull * 1000000000, .algorithm = ALGORITHM_TOKEN_BUCKET};
    ASSERT(frame != NULL);
    for (uint32_t i = 0; i < FLOOD_FRAMES; i++) {
        wire_checks_builder_reset(&sim->builder);
        const int template = wire_checks_builder_inline(&sim->builder, &limit);
        for (uint32_t item = 0; item < FLOOD_ITEMS; item++) {
            char name[SIM_TEXT_LEN];
            snprintf(name, sizeof name, "flood-%u-%u", i, item);
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

void client_load(struct sim *sim, struct key_set set)
{
    sim->load = set;
    for (uint32_t i = 0; i < sim->client_count; i++)
        sim->clients[i].active = set.count > 0;
}

bool client_idle(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++)
        if (sim->clients[i].waiting)
            return false;
    return true;
}

void client_init(struct sim *sim)
{
    struct policy_error error;
    const int result =
        policy_compile(rules_text, sizeof rules_text - 1, sim->allocator, &sim->policy, &error);
    ASSERT(result == 0);
    wire_checks_builder_init(&sim->builder, sim->values, sizeof sim->values);
    sim->client_count = SIM_CLIENTS_MAX;
    for (uint32_t i = 0; i < sim->client_count; i++) {
        struct client *client = &sim->clients[i];
        memset(client, 0, sizeof *client);
        client->index = (uint8_t)i;
        client->session = random_next(stream(sim)) | 1;
        schedule(sim, client, EVENT_TURN, (int64_t)random_below(stream(sim), 10 * SIM_MS));
    }
}

void client_fini(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->client_count; i++)
        free(sim->clients[i].frame);
    policy_free(&sim->policy);
}

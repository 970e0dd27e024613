/* support_control.c - see support_control.h. */
#include "tests/unit/support_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"

static void net_address(uint32_t at, char out[VIEW_TEXT_LEN])
{
    (void)snprintf(out, VIEW_TEXT_LEN, "10.0.0.%u:7946", at + 1);
}

struct net *net_new(void)
{
    struct net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->now_ns = INT64_C(1700000000) * NET_SECOND;
    net->step_ns = 10 * NET_MS;
    net->settles = true;
    assert_int_equal(effects_init(&net->effects, alloc_heap()), 0);
    return net;
}

void net_free(struct net *net)
{
    for (uint32_t i = 0; i < net->count; i++) {
        control_free(&net->nodes[i].control);
        free(net->nodes[i].config);
        free(net->nodes[i].peers);
        free(net->nodes[i].ballots);
        for (uint32_t v = 0; v < net->nodes[i].value_count; v++)
            free(net->nodes[i].values[v].bytes);
        free(net->nodes[i].values);
    }
    for (size_t i = 0; i < net->frame_count; i++)
        free(net->frames[i].bytes);
    effects_fini(&net->effects);
    free(net);
}

struct control_options net_options(const struct net *net, uint64_t id, const char *name)
{
    struct control_options options;
    memset(&options, 0, sizeof options);
    options.node_id = id;
    options.incarnation = 1;
    options.seed = id * 7919;
    options.weight = 100;
    options.shards = 1;
    (void)snprintf(options.name, sizeof options.name, "%s", name);
    (void)snprintf(options.data, sizeof options.data, "/srv/%s", name);
    (void)snprintf(options.region, sizeof options.region, "r1");
    (void)snprintf(options.zone, sizeof options.zone, "z%u", net->count);
    (void)snprintf(options.version, sizeof options.version, "0.1.0");
    net_address(net->count, options.gossip);
    (void)snprintf(options.peer, sizeof options.peer, "10.0.0.%u:7001", net->count + 1);
    (void)snprintf(options.client, sizeof options.client, "10.0.0.%u:7000", net->count + 1);
    options.identity.vnodes = NET_VNODES;
    options.identity.replicas = 2;
    memset(options.identity.cluster_id, (int)(0xa0 + net->count), CONTROL_CLUSTER_ID_LEN);
    memset(options.identity.secret.bytes, (int)(0xb0 + net->count), HASH_KEY_LEN);
    memset(options.identity.route_key.bytes, (int)(0xc0 + net->count), HASH_KEY_LEN);
    return options;
}

void net_seed(struct control_options *options, uint32_t seed)
{
    net_address(seed, options->seeds[options->seed_count++]);
}

static void restore(const struct net_node *node)
{
    for (uint32_t i = 0; i < node->value_count; i++)
        assert_int_equal(control_restore_settings(node->control, node->values[i].key,
                                                  node->values[i].bytes, node->values[i].len),
                         0);
    assert_int_equal(control_settings_restored(node->control), 0);
}

static void create(struct net *net, uint32_t at)
{
    struct net_node *node = &net->nodes[at];
    assert_null(node->control);
    node->joined = 0;
    assert_int_equal(control_new(alloc_heap(), &node->options, net->now_ns, &node->control), 0);
    restore(node);
}

void net_fill(struct net *net, uint32_t at, uint32_t spare)
{
    net->nodes[at].full = true;
    net->nodes[at].spare = spare;
}

void net_empty(struct net *net, uint32_t at)
{
    net->nodes[at].full = false;
    control_disk_has_room(net->nodes[at].control);
}

uint32_t net_start(struct net *net, const struct control_options *options)
{
    const uint32_t at = net->count++;
    assert_true(at < NET_NODES_MAX);
    net->nodes[at].options = *options;
    create(net, at);
    return at;
}

void net_stop(struct net *net, uint32_t at)
{
    assert_non_null(net->nodes[at].control);
    control_free(&net->nodes[at].control);
}

/* What the process of a node finds on its disk when it starts again. */
static void recall(struct net_node *node)
{
    node->options.incarnation++;
    node->options.seed_count = 0;
    node->options.bootstrap = false;
    node->options.has_identity = node->has_identity;
    if (node->has_identity)
        node->options.identity = node->identity;
    node->options.config = node->config;
    node->options.config_len = node->config_len;
    node->options.peers = node->peers;
    node->options.peers_len = node->peers_len;
    node->options.ballots = node->ballots;
    node->options.ballots_len = node->ballots_len;
}

void net_restart(struct net *net, uint32_t at)
{
    recall(&net->nodes[at]);
    create(net, at);
}

void net_restart_seeded(struct net *net, uint32_t at, uint32_t seed)
{
    recall(&net->nodes[at]);
    net_seed(&net->nodes[at].options, seed);
    create(net, at);
}

static void store(uint8_t **to, size_t *to_len, const struct effect *effect)
{
    free(*to);
    *to = malloc(effect->len + 1);
    assert_non_null(*to);
    memcpy(*to, effect->bytes, effect->len);
    *to_len = effect->len;
}

/* Puts a value of the settings among the others, by its key, or removes it. */
static void store_value(struct net_node *node, const struct effect *effect)
{
    uint32_t at = 0;
    if (node->values == NULL)
        node->values = calloc(NET_VALUES_MAX, sizeof *node->values);
    assert_non_null(node->values);
    while (at < node->value_count && strcmp(node->values[at].key, effect->address) < 0)
        at++;
    struct net_value *value = &node->values[at];
    const bool there = at < node->value_count && strcmp(value->key, effect->address) == 0;
    node->group = effect->more;
    if (effect->bytes == NULL && there) {
        free(value->bytes);
        node->value_count--;
        memmove(value, value + 1, (node->value_count - at) * sizeof *value);
    }
    if (effect->bytes == NULL)
        return;
    if (!there) {
        assert_true(node->value_count < NET_VALUES_MAX);
        memmove(value + 1, value, (node->value_count - at) * sizeof *value);
        node->value_count++;
        memset(value, 0, sizeof *value);
        (void)snprintf(value->key, sizeof value->key, "%s", effect->address);
    }
    store(&value->bytes, &value->len, effect);
}

/* Puts a frame on its way; a configuration in it has to be on the disk already (LABCONTROL-2). */
static void send_frame(struct net *net, uint32_t at, const struct effect *effect)
{
    const struct net_node *node = &net->nodes[at];
    struct join_message message;
    struct register_frame frame;
    struct figures_frame figures;
    static struct settings_frame settings;
    net->sent++;
    if (register_wire_decode(effect->bytes, effect->len, &frame) == 0) {
        net->asked[frame.message.type] += !frame.settings;
    } else if (settings_wire_decode(effect->bytes, effect->len, &settings) == 0) {
        assert_false(node->group);
    } else if (figures_decode(effect->bytes, effect->len, &figures) == 0) {
        net->figures++;
    } else if (join_is(effect->bytes, effect->len)) {
        assert_int_equal(join_decode(effect->bytes, effect->len, &message), 0);
        net->told[message.type]++;
        if (message.config_len > 0) {
            assert_int_equal(message.config_len, node->config_len);
            assert_memory_equal(message.config, node->config, node->config_len);
        }
    }
    for (uint32_t to = 0; to < net->count; to++) {
        if (strcmp(net->nodes[to].options.gossip, effect->address) != 0 || node->cut ||
            net->nodes[to].cut || net->nodes[to].side != node->side)
            continue;
        assert_true(net->frame_count < NET_FRAMES_MAX);
        uint8_t *bytes = malloc(effect->len);
        assert_non_null(bytes);
        memcpy(bytes, effect->bytes, effect->len);
        net->frames[net->frame_count++] = (struct net_frame){at, to, effect->len, bytes};
    }
}

/* Whether the disk has no room for a transaction that begins here; the node goes back then. */
static bool refuses(struct net *net, uint32_t at, const struct effect *effect)
{
    struct net_node *node = &net->nodes[at];
    const struct control_stored stored = {node->config, node->config_len, node->ballots,
                                          node->ballots_len};
    if (!node->full || effect->kind != EFFECT_META || node->group)
        return false;
    if (node->spare > 0) {
        node->spare--;
        return false;
    }
    node->refused++;
    assert_int_equal(control_disk_refused(node->control, net->now_ns + node->ahead_ns, &stored), 0);
    restore(node);
    return true;
}

static void perform(struct net *net, uint32_t at)
{
    struct net_node *node = &net->nodes[at];
    for (size_t i = 0; i < net->effects.count; i++) {
        const struct effect *effect = &net->effects.items[i];
        if (refuses(net, at, effect))
            break;
        if (effect->kind == EFFECT_META && strcmp(effect->address, "ring.config") == 0) {
            store(&node->config, &node->config_len, effect);
        } else if (effect->kind == EFFECT_META && strcmp(effect->address, "ring.register") == 0) {
            store(&node->ballots, &node->ballots_len, effect);
        } else if (effect->kind == EFFECT_META &&
                   strncmp(effect->address, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) == 0) {
            store_value(node, effect);
        } else if (effect->kind == EFFECT_META) {
            assert_string_equal(effect->address, "gossip.peers");
            store(&node->peers, &node->peers_len, effect);
        } else if (effect->kind == EFFECT_JOINED) {
            node->joined++;
            node->has_identity = true;
            node->identity = *control_identity(node->control);
        } else if (effect->kind == EFFECT_INCARNATION) {
            if (effect->target > node->options.incarnation)
                node->options.incarnation = effect->target;
        } else {
            assert_int_equal(effect->kind, EFFECT_SEND_GOSSIP);
            send_frame(net, at, effect);
        }
    }
    assert_false(node->group); /* a transaction ends with the step */
    effects_clear(&net->effects);
    assert_true(net_config(net, at)->epoch >= node->epoch);
    node->epoch = net_config(net, at)->epoch;
    if (control_view_due(node->control) && net->settles)
        control_settled(node->control, node->epoch);
}

void net_tell(struct net *net, uint32_t at, const void *frame, size_t len)
{
    const struct net_node *node = &net->nodes[at];
    control_receive(node->control, net->now_ns + node->ahead_ns, frame, len, &net->effects);
    perform(net, at);
}

void net_tell_join(struct net *net, uint32_t at, const struct join_message *message)
{
    uint8_t *frame = malloc(JOIN_FRAME_MAX);
    assert_non_null(frame);
    const int len = join_encode(message, frame, JOIN_FRAME_MAX);
    assert_true(len > 0);
    net_tell(net, at, frame, (size_t)len);
    free(frame);
}

/* Delivers what the step before sent, in its order; answers to it wait for the next step. */
static void deliver(struct net *net)
{
    const size_t count = net->frame_count;
    for (size_t i = 0; i < count; i++) {
        const struct net_frame frame = net->frames[i];
        if (net->nodes[frame.to].control != NULL)
            net_tell(net, frame.to, frame.bytes, frame.len);
        free(frame.bytes);
    }
    net->frame_count -= count;
    memmove(net->frames, net->frames + count, net->frame_count * sizeof *net->frames);
}

void net_run(struct net *net, int64_t ns)
{
    for (const int64_t end_ns = net->now_ns + ns; net->now_ns < end_ns;) {
        net->now_ns += net->step_ns;
        deliver(net);
        for (uint32_t i = 0; i < net->count; i++) {
            const struct net_node *node = &net->nodes[i];
            if (node->control == NULL)
                continue;
            control_tick(node->control, net->now_ns + node->ahead_ns, &net->effects);
            perform(net, i);
        }
    }
    for (uint32_t i = 0; i < net->count; i++)
        if (net->nodes[i].control != NULL)
            control_check_invariants(net->nodes[i].control);
}

const struct ring_config *net_config(const struct net *net, uint32_t at)
{
    return net->nodes[at].control->config;
}

bool net_has_ring(const struct net *net, uint32_t at, uint32_t mask)
{
    const struct ring_config *config = net_config(net, at);
    uint32_t expected = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        if ((mask >> i & 1) == 0)
            continue;
        expected++;
        if (ring_config_find(config, net->nodes[i].options.node_id) == NULL)
            return false;
    }
    return config->epoch > 0 && ring_config_is_stable(config) && config->to_count == expected;
}

struct net *net_cluster(uint32_t count)
{
    struct net *net = net_new();
    for (uint32_t i = 0; i < count; i++) {
        const char name[] = {'n', (char)('1' + i), '\0'};
        struct control_options options = net_options(net, i + 1, name);
        if (i > 0)
            net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, count < 4 ? 5 * NET_SECOND : 10 * NET_SECOND);
    for (uint32_t i = 0; i < count; i++)
        assert_true(net_has_ring(net, i, (1U << count) - 1));
    return net;
}

bool net_votes(const struct net *net, uint32_t at, uint64_t id)
{
    const struct ring_config *config = net_config(net, at);
    for (uint32_t i = 0; i < config->voters_count; i++)
        if (config->voters[i] == id)
            return true;
    return false;
}

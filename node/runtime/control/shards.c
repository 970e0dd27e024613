/* shards.c - the cluster is known: shards are made, restored from the store, and started.
 *
 *   identity kept -> a shard core each -> slots and journal from the store -> loops -> threads
 */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/api/api_routes.h"
#include "node/runtime/control/daemon_state.h"
#include "node/runtime/telemetry/telemetry.h"

enum {
    NATIVE_CONNECTIONS_MAX = 32768,
    REDIS_CONNECTIONS_MAX = 10000,
    HTTP_CONNECTIONS_MAX = 32768, /* of each shard */
    PAGES_SHARE = 16,  /* of a container's memory, one part is for a transaction's pages, */
    WAITING_SHARE = 32 /* and one for what waits, of each kind and protocol, */
};
#define WAITING_LEAST (UINT64_C(4) << 20) /* which the longest answer needs */

static void copy_text(char *out, size_t capacity, const char *text)
{
    (void)snprintf(out, capacity, "%s", text);
}

static int keep_identity(struct daemon *daemon, const struct control_identity *identity)
{
    struct store_identity stored = {
        .node_id = daemon->node_id,
        .secret = identity->secret,
        .route_key = identity->route_key,
        .vnodes = identity->vnodes,
        .replicas = identity->replicas,
    };
    memcpy(stored.cluster_id, identity->cluster_id, sizeof stored.cluster_id);
    const char *region = daemon->config->region;
    const int error = daemon->store == NULL ? 0 : store_identity_put(daemon->store, &stored);
    return daemon->store == NULL || error != 0
               ? error
               : store_meta_put(daemon->store, DAEMON_REGION_KEY, region, strlen(region));
}

static void shard_options_of(const struct daemon *daemon, uint32_t number,
                             const struct control_identity *identity, struct shard_options *options)
{
    const struct config *config = daemon->config;
    shard_options_default(options);
    options->node_id = daemon->node_id;
    options->boot = daemon->boot;
    options->incarnation = daemon->incarnation;
    options->shard = (uint16_t)number;
    options->shards = (uint16_t)config->shards;
    options->vnodes = identity->vnodes;
    options->memory_bytes = config->room.memory_bytes / config->shards;
    options->ephemeral = daemon->store == NULL;
    options->secret = identity->secret;
    options->route_key = identity->route_key;
    memcpy(options->cluster_id, identity->cluster_id, sizeof options->cluster_id);
    copy_text(options->name, sizeof options->name, config->name);
    copy_text(options->version, sizeof options->version, "tidegated " DAEMON_VERSION);
    options->flush_ns = config->flush_interval_ns;
    options->handoff_rate = config->handoff_rate;
}

struct restore {
    struct shard *shards[CONFIG_SHARDS_MAX];
    uint32_t count;
    uint32_t vnodes;
    int64_t now_ns;
    uint64_t slots;
};

static int restore_records(void *context, uint32_t vnode, const struct store_vnode_header *header,
                           const struct store_record *records, size_t count, bool last)
{
    struct restore *restore = context;
    struct shard *shard = restore->shards[vnode % restore->count];
    for (size_t i = 0; i < count; i++) {
        const int result = shard_restore_slot(shard, vnode, records[i].id, records[i].state,
                                              records[i].len, restore->now_ns);
        if (result != 0)
            return result;
    }
    restore->slots += count;
    if (last && header != NULL) {
        const struct term term = {header->epoch, header->number, header->writer};
        shard_restore_vnode(shard, vnode, &term, header->seq);
    }
    return 0;
}

static int restore_journal(void *context, const struct store_journal_record *record)
{
    struct restore *restore = context;
    const uint32_t vnode = record->vnode;
    if (vnode < restore->vnodes || vnode >= 2 * restore->vnodes)
        return TG_ECORRUPT;
    struct shard *shard = restore->shards[vnode % restore->vnodes % restore->count];
    const struct term term = {record->header.epoch, record->header.number, record->header.writer};
    switch (record->kind) {
    case STORE_JOURNAL_PROMISE:
        shard_restore_promise(shard, vnode, &term);
        return 0;
    case STORE_JOURNAL_HEADER:
        shard_restore_vnode(shard, vnode, &term, record->header.seq);
        return 0;
    case STORE_JOURNAL_SLOT:
        break;
    }
    restore->slots++;
    return shard_restore_slot(shard, vnode, record->slot.id, record->slot.state, record->slot.len,
                              restore->now_ns);
}

static int restore_shards(struct daemon *daemon, struct restore *restore)
{
    char error[STORE_ERROR_LEN];
    if (daemon->store == NULL)
        return 0;
    int result = store_scan(daemon->store, STORE_VNODE_ALL, restore_records, restore);
    if (result == 0)
        result = store_journal_scan(daemon->store, restore_journal, restore);
    if (result == 0) {
        log_printf(daemon->log, LOG_LEVEL_INFO, "restored %llu slots",
                   (unsigned long long)restore->slots);
        return 0;
    }
    store_last_error(daemon->store, error);
    return daemon_complain_corrupt(daemon,
                                   error[0] != '\0' ? error : "the store holds impossible records");
}

static void wake_shard(void *context, uint32_t shard)
{
    struct daemon *daemon = context;
    ASSERT(shard < daemon->config->shards);
    shard_loop_wake(daemon->shards[shard]);
}

static int start_threads(struct daemon *daemon)
{
    const struct disk_options options = {
        .allocator = alloc_heap(),
        .store = daemon->store,
        .shard_count = daemon->config->shards,
        .vnodes = control_identity(daemon->control)->vnodes,
        .pages_max = container_share(&daemon->config->room.container, PAGES_SHARE),
        .clock = &daemon->clock,
        .log = daemon->log,
        .wake = wake_shard,
        .context = daemon,
    };
    if (disk_new(&options, &daemon->disk) != 0)
        return daemon_complain(daemon, DAEMON_DATA, "the storage threads cannot be started");
    for (uint32_t i = 0; i < daemon->config->shards; i++) {
        ASSERT(daemon->shard_count == i);
        if (shard_loop_start(daemon->shards[i], daemon->disk) != 0)
            return daemon_complain(daemon, DAEMON_DATA, "a shard's thread cannot be started");
        daemon->shard_count++;
    }
    return 0;
}

/* How many clients of a protocol a shard takes at a time: at most half of the descriptors that
 * there are, for a node that has none left for its peers is of no use to anybody. */
static uint32_t clients_max(const struct daemon *daemon, uint32_t most)
{
    ASSERT(daemon->config->shards > 0 && daemon->config->shards <= CONFIG_SHARDS_MAX);
    const uint32_t share = daemon->sockets.files.max / 2 / daemon->config->shards;
    return share < most ? share : most;
}

static struct shard_loop_front front_of(const struct daemon *daemon,
                                        struct daemon_listeners *listeners, uint32_t number,
                                        uint32_t most)
{
    struct shard_loop_front front = {.max = clients_max(daemon, most)};
    const uint64_t random[] = {daemon_random_id(), daemon_random_id()};
    static_assert(sizeof random == sizeof front.key, "all of the key is random");
    memcpy(&front.key, random, sizeof random);
    ASSERT(number < CONFIG_SHARDS_MAX && listeners->counts[number] <= CONFIG_LISTEN_MAX + 2);
    while (listeners->counts[number] > 0)
        front.listeners[front.listener_count++] =
            listeners->fds[number][--listeners->counts[number]];
    return front;
}

/* Of HTTP clients: those for metrics alone are the last ones. */
static struct shard_loop_front http_front_of(struct daemon *daemon, uint32_t number)
{
    struct daemon_listeners *metrics = &daemon->sockets.metrics;
    struct shard_loop_front front =
        front_of(daemon, &daemon->sockets.http, number, HTTP_CONNECTIONS_MAX);
    static_assert((int)CONNECTIONS_LISTENERS_MAX > CONFIG_LISTEN_MAX + 3, "all have room");
    for (; metrics->counts[number] > 0; front.aside++)
        front.listeners[front.listener_count++] = metrics->fds[number][--metrics->counts[number]];
    return front;
}

static struct resp_facts redis_facts(const struct daemon *daemon, uint32_t number)
{
    const struct config *config = daemon->config;
    const uint32_t max = clients_max(daemon, REDIS_CONNECTIONS_MAX);
    if (max < REDIS_CONNECTIONS_MAX && number == 0)
        log_printf(daemon->log, LOG_LEVEL_INFO,
                   "each shard takes %" PRIu32
                   " clients of a protocol at most: half of the files that this "
                   "process may open (ulimit -n, LimitNOFILE)",
                   max);
    return (struct resp_facts){
        .node_id = daemon->node_id,
        .keys = &daemon->keys,
        .name = config->name,
        .version = DAEMON_VERSION,
        .connections_max = max,
        .port = config_shard_endpoint(&config->resp, number).port,
        .told_host = config->between.resp_advertise.host,
        .told_port = config->between.resp_advertise.port,
        .started_ns = daemon->started_ns,
        .now_ns = daemon->started_ns,
        .anonymous = daemon->config->between.anonymous.resp,
    };
}

/* Where gRPC's clients find the node. */
static void tell_address(const struct config *config, char address[HTTP_ADDRESS_LEN])
{
    char text[CONFIG_ENDPOINT_LEN];
    struct config_endpoint at = config->grpc.off ? config->http.first : config->grpc;
    if (config->advertise[0] != '\0')
        (void)snprintf(at.host, sizeof at.host, "%s", config->advertise);
    if (!at.off)
        (void)snprintf(address, HTTP_ADDRESS_LEN, "%s", config_endpoint_text(&at, text));
}

/* HTTP clients may call the node by the hosts at which it listens and is told of, as well. */
struct http_facts daemon_http_facts(const struct daemon *daemon)
{
    const struct config *config = daemon->config;
    struct http_facts facts = {
        .node_id = daemon->node_id, .name = config->name, .version = DAEMON_VERSION};
    facts.routes = api_routes(&facts.route_count);
    facts.trusted = &config->between.trusted_proxies;
    facts.auth = &config->between.auth;
    facts.operators = daemon->cred.given ? &daemon->cred.digest : NULL;
    randombytes_buf(facts.secret, sizeof facts.secret);
    facts.age_ns = config->http.age_ns;
    facts.anonymous = config->between.anonymous.http;
    facts.anonymous_grpc = config->between.anonymous.grpc;
    facts.headers = (uint8_t)config->http.headers;
    facts.fields = (uint8_t)config->http.fields;
    tell_address(config, facts.address);
    for (uint32_t i = 0; i < config->http.names.count; i++)
        facts.names[facts.name_count++] = config->http.names.at[i];
    if (!config->http.first.off && !config_host_is_wildcard(config->http.first.host))
        facts.names[facts.name_count++] = config->http.first.host;
    if (!config->grpc.off && !config_host_is_wildcard(config->grpc.host))
        facts.names[facts.name_count++] = config->grpc.host;
    for (uint32_t i = 0; i < config->http.more.count; i++)
        if (config->http.more.at[i].path[0] == '\0' &&
            !config_host_is_wildcard(config->http.more.at[i].endpoint.host))
            facts.names[facts.name_count++] = config->http.more.at[i].endpoint.host;
    if (!config->http.metrics.off && !config_host_is_wildcard(config->http.metrics.host))
        facts.names[facts.name_count++] = config->http.metrics.host;
    if (config->advertise[0] != '\0')
        facts.names[facts.name_count++] = config->advertise;
    return facts;
}

/* 0: without a limit. */
static uint64_t waiting_max(const struct container *container)
{
    const uint64_t share = container_share(container, WAITING_SHARE);
    if (share == 0 || share > CONNECTIONS_WAITING_MAX)
        return 0;
    return share < WAITING_LEAST ? WAITING_LEAST : share;
}

static int make_loop(struct daemon *daemon, uint32_t number, struct shard **shard, uint32_t vnodes)
{
    struct http_facts http_facts = daemon_http_facts(daemon);
    http_facts.tracer = telemetry_tracer(daemon->sockets.telemetry, number);
    http_facts.path_secret = shard_secret(*shard);
    const struct shard_loop_options options = {
        .context = daemon->sockets.context,
        .peers = daemon->sockets.peers[number],
        .native = front_of(daemon, &daemon->sockets.native, number, NATIVE_CONNECTIONS_MAX),
        .redis = front_of(daemon, &daemon->sockets.redis, number, REDIS_CONNECTIONS_MAX),
        .redis_session = daemon_random_id(),
        .redis_facts = redis_facts(daemon, number),
        .http = http_front_of(daemon, number),
        .http_session = daemon_random_id(),
        .http_facts = http_facts,
        .crowded = &daemon->sockets.files.paused,
        .trusted = daemon->config->between.proxy_protocol != CONFIG_PROXY_OFF
                       ? &daemon->config->between.trusted_proxies
                       : NULL,
        .proxies_tell = daemon->config->between.proxy_protocol == CONFIG_PROXY_REQUIRED,
        .keys = &daemon->keys,
        .shard = *shard,
        .number = number,
        .node_id = daemon->node_id,
        .clock = &daemon->clock,
        .log = daemon->log,
        .failpoints = daemon->failpoints,
        .control = &daemon->mailbox,
        .polls = container_may_poll(&daemon->config->room.container),
        .waiting_max = waiting_max(&daemon->config->room.container),
    };
    const int error = shard_loop_new(&options, vnodes, &daemon->shards[number]);
    if (error != 0)
        return error;
    *shard = NULL; /* the loop's from now on */
    daemon->sockets.peers[number] = NULL;
    return 0;
}

int daemon_start_shards(struct daemon *daemon)
{
    const struct control_identity *identity = control_identity(daemon->control);
    struct restore restore = {.count = daemon->config->shards,
                              .vnodes = identity->vnodes,
                              .now_ns = clock_now_ns(&daemon->clock)};
    int code = 0;
    ASSERT(daemon->shard_count == 0 && restore.count <= CONFIG_SHARDS_MAX);
    if (keep_identity(daemon, identity) != 0)
        return daemon_complain(daemon, DAEMON_DATA,
                               "the node's identity cannot be written to the store");
    for (uint32_t i = 0; i < restore.count; i++) {
        struct shard_options options;
        shard_options_of(daemon, i, identity, &options);
        if (shard_new(alloc_heap(), &options, restore.now_ns, &restore.shards[i]) != 0)
            code = daemon_complain(daemon, DAEMON_DATA, "not enough memory for --memory");
        else
            shard_wall(restore.shards[i], clock_wall_ns(&daemon->clock));
    }
    if (code == 0)
        code = restore_shards(daemon, &restore);
    for (uint32_t i = 0; code == 0 && i < restore.count; i++)
        if (make_loop(daemon, i, &restore.shards[i], identity->vnodes) != 0)
            code = daemon_complain(daemon, DAEMON_DATA, "a shard's loop cannot be made");
    for (uint32_t i = 0; i < restore.count; i++)
        shard_free(&restore.shards[i]);
    return code != 0 ? code : start_threads(daemon);
}

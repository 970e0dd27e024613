/* daemon.c - the order in which a node starts and stops; daemon.h draws it.
 *
 * A step that fails says so once, in a sentence that names the place, and unwinds what was
 * started before it.
 */
#include "node/runtime/start/daemon.h"
#include "node/runtime/start/clock_first.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/people.h"
#include "node/policy/rights/credentials.h"
#include "node/runtime/control/daemon_state.h"
#include "node/runtime/system/listener.h"
#include "node/runtime/telemetry/telemetry.h"
#include "node/zones/zones.h"

/* What the collector may take longer for at the end. */
#define TELEMETRY_FLUSH_NS INT64_C(2000000000)

enum {
    ZMQ_SOCKETS_MAX = 65536,
    FILES_BASE = 64,    /* open files of a node without peers and clients */
    FILES_A_SHARD = 24, /* more for each shard */
};

/* Takes all the open files that it may; below the least, libraries would end the process in ways
 * that tell nobody why. */
static int check_files(struct daemon *daemon)
{
    struct rlimit files;
    const rlim_t least = FILES_BASE + (rlim_t)FILES_A_SHARD * daemon->config->shards;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 0;
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        (void)getrlimit(RLIMIT_NOFILE, &files);
    }
    room_init(&daemon->room, daemon->config->room.store_max_bytes);
    files_init(&daemon->sockets.files,
               files.rlim_cur < INT32_MAX ? (uint32_t)files.rlim_cur : (uint32_t)INT32_MAX);
    if (files.rlim_cur >= least)
        return 0;
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "this process may open %" PRIu64 " files and needs at least %" PRIu64
               ", and more for its clients and peers: raise the limit (ulimit -n, LimitNOFILE)",
               (uint64_t)files.rlim_cur, (uint64_t)least);
    return DAEMON_CONFIG;
}

/* ---- storage --------------------------------------------------------------------------------- */

/* A node that comes back as a new one, and knows nobody, would found a second cluster in silence.
 */
static int set_aside(struct daemon *daemon, const char *dir)
{
    char error[STORE_ERROR_LEN];
    char moved_to[CONFIG_PATH_LEN + 32];
    bool meta_kept = false;
    const bool alone = daemon->config->seed_count == 0 && !daemon->config->bootstrap;
    const int result = store_set_aside(dir, alone, &meta_kept, moved_to, sizeof moved_to, error);
    if (result == 0)
        log_printf(daemon->log, LOG_LEVEL_WARN, "store set aside in %s; %s", moved_to,
                   meta_kept ? "identity and promises could be read and stay"
                             : "identity and promises could not be read, so this is a new node");
    else if (result == TG_ECORRUPT)
        log_printf(daemon->log, LOG_LEVEL_ERROR,
                   "%s (this would be a new node, and without --seed a cluster of its own: give "
                   "--seed with a node that lives, or --bootstrap where there is none)",
                   error);
    else if (result != TG_ENOTFOUND)
        return daemon_complain(daemon, DAEMON_DATA, error);
    return result == TG_ECORRUPT ? DAEMON_DATA : 0;
}

static int open_store(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    char error[STORE_ERROR_LEN];
    if (config->ephemeral)
        return 0;
    if (config->rebuild) {
        const int code = set_aside(daemon, config->data);
        if (code != 0)
            return code;
    }
    const struct store_options options = {.failpoints = daemon->failpoints};
    const int result = store_open(config->data, &options, &daemon->store, error);
    if (result == TG_ECORRUPT)
        return daemon_complain_corrupt(daemon, error);
    if (result != 0)
        return daemon_complain(daemon, DAEMON_DATA, error);
    if (store_next_incarnation(daemon->store, &daemon->incarnation) != 0)
        return daemon_complain(daemon, DAEMON_DATA,
                               "the incarnation cannot be written to the store");
    const uint64_t kept = daemon->incarnation;
    daemon->incarnation = swim_incarnation_start(kept, (uint64_t)daemon->started_ns / 1000000);
    if (daemon->incarnation != kept)
        log_printf(daemon->log, LOG_LEVEL_WARN,
                   "the incarnation kept is %" PRIu64
                   ", far above what restarts make: somebody told "
                   "others of this node what is not so; starting with %" PRIu64,
                   kept, daemon->incarnation);
    return 0;
}

/* Names this process: above the earlier ones of its node (PEERS-9), and like no other even when the
 * data were put back to an older state. */
static uint64_t make_boot(uint64_t incarnation)
{
    enum { RANDOM_BITS = 20 };
    ASSERT(incarnation >> (64 - RANDOM_BITS) == 0); /* swim_incarnation_start bounds it */
    return incarnation << RANDOM_BITS | daemon_random_id() >> (64 - RANDOM_BITS);
}

/* ---- control --------------------------------------------------------------------------------- */

static void new_identity(const struct config *config, struct control_identity *identity)
{
    randombytes_buf(identity->cluster_id, sizeof identity->cluster_id);
    randombytes_buf(identity->secret.bytes, sizeof identity->secret.bytes);
    randombytes_buf(identity->route_key.bytes, sizeof identity->route_key.bytes);
    identity->vnodes = config->vnodes;
    identity->replicas = config->replicas;
}

/* A data directory belongs to the region whose ring it holds. Those of releases that did not keep
 * which it is are the region's that the node is started in. */
static int check_region(struct daemon *daemon)
{
    const char *region = daemon->config->region;
    char kept[CONFIG_PLACE_LEN] = "";
    size_t len = 0;
    const int error = store_meta_get(daemon->store, DAEMON_REGION_KEY, kept, sizeof kept - 1, &len);
    if (error == TG_ENOTFOUND || (error == 0 && strcmp(kept, region) == 0))
        return 0;
    if (error != 0)
        return daemon_complain(daemon, DAEMON_DATA,
                               "the node's region cannot be read from the store");
    log_printf(daemon->log, LOG_LEVEL_ERROR,
               "--region %s: %s belongs to a node of region %s, whose ring and counts it holds; "
               "expected --region %s, or an empty data directory",
               region, daemon->config->data, kept, kept);
    return DAEMON_CONFIG;
}

/* Takes the stored identity into the options, if there is one. */
static int recall_identity(struct daemon *daemon, struct control_options *options)
{
    struct store_identity stored;
    if (daemon->store == NULL)
        return 0;
    const int result = store_identity_get(daemon->store, &stored);
    if (result == TG_ENOTFOUND)
        return 0;
    if (result != 0)
        return daemon_complain(daemon, DAEMON_DATA,
                               "the node's identity cannot be read from the store");
    const int code = check_region(daemon);
    if (code != 0)
        return code;
    daemon->node_id = stored.node_id;
    options->has_identity = true;
    memcpy(options->identity.cluster_id, stored.cluster_id, sizeof stored.cluster_id);
    options->identity.secret = stored.secret;
    options->identity.route_key = stored.route_key;
    options->identity.vnodes = stored.vnodes;
    options->identity.replicas = stored.replicas;
    return 0;
}

static void copy_text(char *out, size_t capacity, const char *text)
{
    (void)snprintf(out, capacity, "%s", text);
}

static void describe_node(struct daemon *daemon, struct control_options *options)
{
    const struct config *config = daemon->config;
    options->node_id = daemon->node_id;
    options->incarnation = daemon->incarnation;
    options->seed = daemon_random_id();
    copy_text(options->name, sizeof options->name, config->name);
    copy_text(options->region, sizeof options->region, config->region);
    copy_text(options->zone, sizeof options->zone, config->zone);
    copy_text(options->gossip, sizeof options->gossip, config->gossip_address);
    copy_text(options->peer, sizeof options->peer, config->peer_address);
    copy_text(options->client, sizeof options->client, config->client_address);
    copy_text(options->version, sizeof options->version, DAEMON_VERSION);
    (void)snprintf(options->data, sizeof options->data, "%.*s", CONTROL_PATH_LEN - 1, config->data);
    options->zones = zones_system();
    options->weight = config->weight;
    options->shards = (uint16_t)config->shards;
    options->bootstrap = config->bootstrap;
    options->seed_count = seeds_resolve(config, options->seeds, daemon->log, daemon->seeds_lost);
    ASSERT(options->seed_count <= CONTROL_SEEDS_MAX);
    options->seeds_pending = config->seed_count > 0 && options->seed_count == 0;
}

/* A node without a disk that starts again for its clock would know nobody, and found another
 * cluster beside its own: it looks for those it shared the ring with. */
static void recall_peers(const struct daemon *daemon, struct control_options *options)
{
    const struct daemon_kept *kept = daemon->kept;
    const uint8_t *at = kept->peers;
    size_t left = at == NULL || daemon->store != NULL ? 0 : kept->peers_len;
    if (left > 0)
        options->bootstrap = false;
    while (left > 0 && options->seed_count < CONTROL_SEEDS_MAX) {
        const uint8_t *end = memchr(at, '\n', left);
        const size_t len = end == NULL ? left : (size_t)(end - at);
        if (len > 0 && len < VIEW_TEXT_LEN)
            (void)snprintf(options->seeds[options->seed_count++], VIEW_TEXT_LEN, "%.*s", (int)len,
                           (const char *)at);
        at += len + (len < left);
        left -= len + (len < left);
    }
}

/* From here on time does not jump any more. */
static int find_time(struct daemon *daemon, const struct control_options *options)
{
    const struct clock_first first = {.clock = &daemon->clock,
                                      .gossip = daemon->sockets.gossip,
                                      .out = &daemon->sockets.out,
                                      .options = options,
                                      .log = daemon->log};
    if (clock_first(&first) != 0)
        return daemon_complain(daemon, DAEMON_DATA, "out of memory");
    daemon->started_ns = clock_now_ns(&daemon->clock);
    daemon->looks.seeds_ns = daemon->started_ns;
    gossip_out_fini(
        &daemon->sockets.out); /* when its lines were used is told by the earlier time */
    return 0;
}

static int start_control(struct daemon *daemon)
{
    struct control_options *options = calloc(1, sizeof *options);
    if (options == NULL)
        return daemon_complain(daemon, DAEMON_DATA, "out of memory");
    new_identity(daemon->config, &options->identity);
    int code = recall_identity(daemon, options);
    describe_node(daemon, options);
    recall_peers(daemon, options);
    struct daemon_ring ring;
    uint8_t *peers;
    const int error = daemon_recall_ring(daemon, &ring);
    (void)daemon_recall_meta(daemon, "gossip.peers", &peers,
                             &options->peers_len); /* else by the seeds */
    options->config = ring.config;
    options->config_len = ring.config_len;
    options->peers = peers;
    options->ballots = ring.ballots;
    options->ballots_len = ring.ballots_len;
    if (code == 0 && error != 0)
        code = daemon_complain_corrupt(daemon, "the stored ring configuration cannot be read");
    if (code == 0)
        code = find_time(daemon, options);
    if (code == 0 &&
        control_new(alloc_heap(), options, clock_now_ns(&daemon->clock), &daemon->control) != 0)
        code =
            daemon_complain(daemon, DAEMON_DATA,
                            "the stored ring configuration, or what was promised for the next one, "
                            "cannot be used");
    if (code == 0) /* whoever it greets is told from the first word on */
        control_wall(daemon->control, clock_wall_ns(&daemon->clock));
    if (code == 0 && daemon_recall_settings(daemon) != 0)
        code = daemon_complain_corrupt(daemon,
                                       "the stored configuration (rules, blocks) cannot be used");
    daemon->joined_due = options->has_identity;
    daemon_ring_free(&ring);
    free(peers);
    free(options);
    return code;
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* Says why nobody can listen at `endpoint`. */
static int complain_listen(const struct daemon *daemon, const struct config_endpoint *endpoint,
                           int error)
{
    char text[CONFIG_ENDPOINT_LEN];
    log_printf(daemon->log, LOG_LEVEL_ERROR, "cannot listen at %s: %s",
               config_endpoint_text(endpoint, text),
               error == TG_EINVALID ? "the address does not belong to this machine"
                                    : error_message(error));
    return error == TG_EADDRINUSE ? DAEMON_ADDRESS : DAEMON_CONFIG;
}

static int bind_one(struct daemon *daemon, enum socket_use use, const struct config_endpoint *base,
                    uint32_t shard, void **socket)
{
    const struct config_endpoint endpoint = config_shard_endpoint(base, shard);
    const int error =
        socket_bind(daemon->sockets.context, use, endpoint.host, endpoint.port, socket);
    return error == 0 ? 0 : complain_listen(daemon, &endpoint, error);
}

static void add_listener(struct daemon_listeners *listeners, uint32_t shard, int listener)
{
    ASSERT(shard < CONFIG_SHARDS_MAX && listeners->counts[shard] < CONFIG_LISTEN_MAX + 2);
    listeners->fds[shard][listeners->counts[shard]++] = listener;
}

/* A place that all shards share. */
static int listen_together(struct daemon *daemon, const struct config_endpoint *endpoint,
                           struct daemon_listeners *listeners)
{
    const uint32_t shards = daemon->config->shards;
    int group[CONFIG_SHARDS_MAX];
    ASSERT(shards > 0 && shards <= CONFIG_SHARDS_MAX);
    const int error = listener_open_group(endpoint->host, endpoint->port, shards, group);
    for (uint32_t i = 0; error == 0 && i < shards; i++)
        add_listener(listeners, i, group[i]);
    return error == 0 ? 0 : complain_listen(daemon, endpoint, error);
}

/* A shard's own port. */
static int listen_for(struct daemon *daemon, const struct config_endpoint *base, uint32_t shard,
                      struct daemon_listeners *listeners)
{
    const struct config_endpoint endpoint = config_shard_endpoint(base, shard);
    int listener;
    const int error = listener_open(endpoint.host, endpoint.port, &listener);
    if (error != 0)
        return complain_listen(daemon, &endpoint, error);
    add_listener(listeners, shard, listener);
    return 0;
}

/* Redis clients, for whom one shard is as good as another, share the first one's port; each shard
 * has one of its own besides. */
static int listen_for_redis(struct daemon *daemon, uint32_t shard)
{
    const struct config_endpoint *base = &daemon->config->resp;
    if (base->off)
        return 0;
    return shard == 0 && daemon->config->shards > 1
               ? listen_together(daemon, base, &daemon->sockets.redis)
               : listen_for(daemon, base, shard, &daemon->sockets.redis);
}

static int complain_path(const struct daemon *daemon, const char *path, int error)
{
    log_printf(daemon->log, LOG_LEVEL_ERROR, "cannot listen at unix:%s: %s", path,
               error == TG_EINVALID ? "its folder is missing or may not be written, or the name is "
                                      "that of something else"
                                    : error_message(error));
    return error == TG_EADDRINUSE ? DAEMON_ADDRESS : DAEMON_CONFIG;
}

/* A socket of the file system is one listener, of which each shard has a descriptor. */
static int listen_at_path(struct daemon *daemon, const char *path,
                          struct daemon_listeners *listeners)
{
    int listener;
    const int error = listener_open_path(path, &listener);
    if (error != 0)
        return complain_path(daemon, path, error);
    for (uint32_t i = 0; i < daemon->config->shards; i++) {
        const int own = i == 0 ? listener : fcntl(listener, F_DUPFD_CLOEXEC, 0);
        if (own >= 0)
            add_listener(listeners, i, own);
    }
    return 0;
}

/* The further places of a protocol, which all shards share. */
static int listen_more(struct daemon *daemon, const struct config_listen *more,
                       struct daemon_listeners *listeners)
{
    int code = 0;
    ASSERT(more->count <= CONFIG_LISTEN_MAX);
    for (uint32_t i = 0; code == 0 && i < more->count; i++) {
        const struct config_place *place = &more->at[i];
        code = place->path[0] != '\0' ? listen_at_path(daemon, place->path, listeners)
                                      : listen_together(daemon, &place->endpoint, listeners);
        listeners->places += code == 0;
    }
    return code;
}

static void close_listeners(struct daemon_listeners *listeners, const struct config_listen *more)
{
    for (uint32_t i = 0; i < CONFIG_SHARDS_MAX; i++)
        while (listeners->counts[i] > 0)
            listener_close(&listeners->fds[i][--listeners->counts[i]]);
    ASSERT(listeners->places <= more->count);
    for (uint32_t i = 0; i < listeners->places; i++)
        if (more->at[i].path[0] != '\0')
            (void)unlink(more->at[i].path);
}

static int bind_sockets(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    if (socket_context_new(ZMQ_SOCKETS_MAX, &daemon->sockets.context) != 0)
        return daemon_complain(daemon, DAEMON_DATA, "out of memory");
    gossip_out_init(&daemon->sockets.out, daemon->sockets.context);
    int code = bind_one(daemon, SOCKET_GOSSIP, &config->gossip, 0, &daemon->sockets.gossip);
    for (uint32_t i = 0; code == 0 && i < config->shards; i++) {
        code = listen_for(daemon, &config->client, i, &daemon->sockets.native);
        if (code == 0)
            code = bind_one(daemon, SOCKET_PEERS, &config->peer, i, &daemon->sockets.peers[i]);
        if (code == 0)
            code = listen_for_redis(daemon, i);
    }
    if (code == 0)
        code = listen_more(daemon, &config->client_more, &daemon->sockets.native);
    if (code == 0)
        code = listen_more(daemon, &config->resp_more, &daemon->sockets.redis);
    if (code == 0 && !config->http.first.off)
        code = listen_together(daemon, &config->http.first, &daemon->sockets.http);
    if (code == 0)
        code = listen_more(daemon, &config->http.more, &daemon->sockets.http);
    if (code == 0 && !config->grpc.off)
        code = listen_together(daemon, &config->grpc, &daemon->sockets.http);
    if (code == 0 && !config->http.metrics.off)
        code = listen_for(daemon, &config->http.metrics, 0, &daemon->sockets.metrics);
    return code;
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* A fault test may have asked in the environment that this process kills itself somewhere. */
static int read_failpoint(struct daemon *daemon)
{
    const char *text = getenv(FAILURE_VARIABLE);
    if (text == NULL)
        return 0;
    if (failure_init(&daemon->failure, text, daemon->log) != 0)
        return DAEMON_CONFIG;
    daemon->failpoints = &daemon->failure.failpoints;
    return 0;
}

/* What the process may use, and what follows. */
static void tell_container(const struct daemon *daemon)
{
    const struct config_room *room = &daemon->config->room;
    char found[CONTAINER_TEXT_LEN];
    log_printf(daemon->log, LOG_LEVEL_INFO, "found %s; chosen: %" PRIu64 " MiB for keys (%s), %s",
               container_text(&room->container, found), room->memory_bytes >> 20,
               room->memory_given                ? "--memory"
               : room->container.memory_max != 0 ? "half of what there is"
                                                 : "the default",
               container_may_poll(&room->container) ? "busy polling" : "no busy polling");
    if (room->container.memory_max == 0)
        return;
    const uint64_t rest = config_rest_bytes(daemon->config->shards);
    if (room->memory_bytes + rest > room->container.memory_max)
        log_printf(daemon->log, LOG_LEVEL_WARN,
                   "--memory: found %" PRIu64 " MiB for keys, beside which a node of %" PRIu32
                   " shards needs %" PRIu64 " MiB, and a container that allows %" PRIu64
                   " MiB; expected less: the system ends the node when that is used up",
                   room->memory_bytes >> 20, daemon->config->shards, rest >> 20,
                   room->container.memory_max >> 20);
}

static void tell_begin(const struct daemon *daemon)
{
    const struct config *config = daemon->config;
    log_printf(daemon->log, LOG_LEVEL_INFO,
               "tidegated " DAEMON_VERSION " starts: node %s, region %s, data %s, %" PRIu64
               " MiB for keys, shards %" PRIu32,
               config->name, config->region, daemon->store != NULL ? config->data : "-",
               config->room.memory_bytes >> 20, config->shards);
    tell_container(daemon);
}

/* A node that keeps nothing, and is told of no file, has no token: there are no operators' calls.
 */
static int read_cred(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    char path[CONFIG_PATH_LEN + 16];
    const bool given = config->between.admin_cred[0] != '\0';
    if ((config->http.first.off && config->grpc.off) || (!given && daemon->store == NULL))
        return 0;
    if (given)
        (void)snprintf(path, sizeof path, "%s", config->between.admin_cred);
    else
        (void)snprintf(path, sizeof path, "%s/admin.cred", config->data);
    return admin_cred_open(path, daemon->log, &daemon->cred) == 0 ? 0 : DAEMON_CONFIG;
}

static int start_telemetry(struct daemon *daemon)
{
    const struct config_telemetry *config = &daemon->config->telemetry;
    const struct telemetry_options options = {.config = daemon->config,
                                              .output = &daemon->output,
                                              .clock = &daemon->clock,
                                              .version = DAEMON_VERSION,
                                              .started_ns = daemon->started_ns,
                                              .seed = daemon_random_id()};
    if (config->ignored[0] != '\0')
        log_printf(daemon->log, LOG_LEVEL_WARN, "%s", config->ignored);
    if (config->traces[0] != '\0' || config->metrics[0] != '\0')
        log_printf(daemon->log, LOG_LEVEL_INFO, "pushes traces to %s, metrics to %s",
                   config->traces[0] != '\0' ? config->traces : "-",
                   config->metrics[0] != '\0' ? config->metrics : "-");
    return telemetry_new(&options, &daemon->sockets.telemetry) == 0
               ? 0
               : daemon_complain(daemon, DAEMON_DATA, "traces and metrics cannot be prepared");
}

static int start(struct daemon *daemon)
{
    char error[CONFIG_ERROR_LEN * 16];
    if (sodium_init() < 0 || clock_init(&daemon->clock) != 0)
        return daemon_complain(daemon, DAEMON_DATA,
                               "the machine offers no clock or no random numbers");
    daemon->started_ns = clock_now_ns(&daemon->clock);
    daemon->looks.seeds_ns = daemon->started_ns;
    daemon->node_id = daemon_random_id();
    daemon->incarnation = (uint64_t)daemon->started_ns / 1000000;
    daemon->kept_on_disk.items = calloc(EFFECTS_KEPT, sizeof *daemon->kept_on_disk.items);
    if (daemon->kept_on_disk.items == NULL || effects_init(&daemon->effects, alloc_heap()) != 0)
        return daemon_complain(daemon, DAEMON_DATA, "out of memory");
    if (rules_load(daemon, error, sizeof error) != 0)
        return daemon_complain(daemon, DAEMON_CONFIG, error);
    int code = read_failpoint(daemon);
    if (code == 0)
        code = check_files(daemon);
    if (code == 0)
        code = bind_sockets(daemon);
    if (code == 0)
        code = open_store(daemon);
    if (code == 0)
        code = read_cred(daemon);
    if (code == 0)
        tell_begin(daemon);
    if (code == 0)
        code = start_telemetry(daemon);
    daemon->boot = make_boot(daemon->incarnation);
    if (code == 0)
        code = start_control(daemon);
    if (code == 0 && usage_open(daemon) != 0)
        code = daemon_complain(daemon, DAEMON_DATA,
                               "the totals of users cannot be read from the store");
    if (code == 0 && control_loop_open(daemon) != 0)
        code = daemon_complain(daemon, DAEMON_DATA, "the event loop cannot be made");
    if (code == 0 && daemon->store == NULL)
        log_printf(daemon->log, LOG_LEVEL_WARN, "ephemeral: nothing survives a restart");
    return code;
}

static void stop(struct daemon *daemon)
{
    files_fini(&daemon->sockets.files);
    ASSERT(daemon->shard_count <= daemon->config->shards);
    const struct mailbox_message message = {.kind = MESSAGE_STOP};
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        (void)mailbox_put(shard_loop_mailbox(daemon->shards[i]), &message);
    for (uint32_t i = 0; i < daemon->shard_count; i++)
        shard_loop_join(daemon->shards[i]);
    telemetry_end(daemon->sockets.telemetry, daemon->config->drain_timeout_ns < TELEMETRY_FLUSH_NS
                                                 ? daemon->config->drain_timeout_ns
                                                 : TELEMETRY_FLUSH_NS);
    disk_free(&daemon->disk);
    usage_close(daemon);
    for (uint32_t i = 0; i < CONFIG_SHARDS_MAX; i++) {
        shard_loop_free(&daemon->shards[i]);
        socket_close(&daemon->sockets.peers[i]);
    }
    rules_watch_free(&daemon->rules.file.watch);
    compiler_free(&daemon->rules.compiler);
    if (daemon->mailbox.messages != NULL)
        control_loop_close(daemon);
    lobby_free(&daemon->sockets.lobby);
    close_listeners(&daemon->sockets.native, &daemon->config->client_more);
    close_listeners(&daemon->sockets.redis, &daemon->config->resp_more);
    close_listeners(&daemon->sockets.http, &daemon->config->http.more);
    close_listeners(&daemon->sockets.metrics, &(struct config_listen){.count = 0});
    control_free(&daemon->control);
    gossip_out_fini(&daemon->sockets.out);
    socket_close(&daemon->sockets.gossip);
    socket_context_free(&daemon->sockets.context);
    store_close(&daemon->store);
    view_free(&daemon->told.view);
    policy_free(&daemon->rules.alone);
    policy_free(&daemon->rules.joined);
    people_free(&daemon->records.people);
    api_keys_free(&daemon->records.api_keys);
    credentials_free(&daemon->records.credentials);
    rules_file_fini(daemon);
    free(daemon->rules.ordinals);
    free(daemon->kept_on_disk.items);
    effects_fini(&daemon->effects);
    telemetry_free(&daemon->sockets.telemetry);
}

int daemon_check(const struct config *config)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    char error[CONFIG_ERROR_LEN * 16];
    if (daemon == NULL)
        return DAEMON_DATA;
    daemon->config = config;
    const int result = rules_load(daemon, error, sizeof error);
    if (result == 0)
        (void)puts("configuration ok");
    else
        (void)fprintf(stderr, "tidegated: %s\n", error);
    policy_free(&daemon->rules.alone);
    policy_free(&daemon->rules.joined);
    people_free(&daemon->records.people);
    api_keys_free(&daemon->records.api_keys);
    credentials_free(&daemon->records.credentials);
    rules_file_fini(daemon);
    free(daemon);
    return result == 0 ? DAEMON_OK : DAEMON_CONFIG;
}

/* What the next run is to know of this one. */
static void keep(struct daemon *daemon, struct daemon_kept *kept)
{
    ASSERT(kept->again && daemon->kept == kept);
    const uint8_t *peers;
    const size_t len = daemon->store == NULL ? control_peers(daemon->control, &peers) : 0;
    uint8_t *copy = len > 0 ? malloc(len) : NULL;
    if (copy != NULL) {
        memcpy(copy, peers, len);
        free(kept->peers);
        kept->peers = copy;
        kept->peers_len = len;
    }
    free(kept->rules_text);
    rules_keep(daemon, &kept->rules_text, &kept->rules_len);
}

/* kept->again: the process is to begin once more, with another offset of its clock. */
static int run(const struct config *config, struct daemon_kept *kept)
{
    kept->again = false;
    struct daemon *daemon = calloc(1, sizeof *daemon);
    if (daemon == NULL)
        return DAEMON_DATA;
    daemon->config = config;
    daemon->kept = kept;
    daemon->events.signals = -1;
    if (log_output_init(&daemon->output, STDERR_FILENO, config->log.level,
                        config->log.format == CONFIG_LOG_JSON ? LOG_OUTPUT_JSON
                                                              : LOG_OUTPUT_TEXT) != 0) {
        free(daemon);
        return DAEMON_DATA;
    }
    daemon->log = &daemon->output.log;
    teller_init(&daemon->told.teller, daemon->log, &daemon->clock);
    int code = start(daemon);
    if (code == 0) {
        control_loop_run(daemon);
        code = daemon->end.exit_code;
        kept->again = code == 0 && daemon->end.again;
    }
    ASSERT(code == 0 || !kept->again);
    if (kept->again)
        keep(daemon, kept);
    stop(daemon);
    if (kept->again)
        log_printf(daemon->log, LOG_LEVEL_WARN, "starting again, by the cluster's time");
    else if (code == 0)
        log_printf(daemon->log, LOG_LEVEL_INFO, "stopped");
    log_output_fini(&daemon->output);
    free(daemon);
    return code;
}

int daemon_run(const struct config *config)
{
    int code;
    struct daemon_kept kept = {.again = false};
    signals_hold();
    do
        code = run(config, &kept);
    while (kept.again);
    free(kept.rules_text);
    free(kept.peers);
    return code;
}

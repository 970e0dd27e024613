/* config_check.c - what follows from several options together, and what contradicts.
 *
 *   bind, base port --> endpoints not given --> ports free of each other --> reachable? insecure?
 *                                           --> addresses told to others
 *
 * CONFIGCHECK-1  After config_check client, peer, gossip, and resp, http, grpc and metrics unless
 *                off, have host and port, for each shard within 1..65535 and different from all
 *                others of the node that share its address.
 * CONFIGCHECK-2  No endpoint is reachable from other machines without `insecure`.
 *
 * Must not: open, bind or resolve anything.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/limit/table/table.h"
#include "node/runtime/config/config_option.h"
#include "node/runtime/config/config_telemetry.h"
#include "ring/ring.h"

enum { TOLD = 3, ENDPOINTS = 7, SOCKETS_MAX = 3 * CONFIG_SHARDS_MAX + 4 + 3 * CONFIG_LISTEN_MAX };

struct named {
    const char *name;
    struct config_endpoint *endpoint;
    char *address;                    /* CONFIG_ADDRESS_LEN; NULL: others are not told */
    uint32_t sockets;                 /* one, or one a shard */
    uint32_t base_add;                /* to the base port */
    const struct config_listen *more; /* or NULL */
};

static void name_endpoints(struct config *config, struct named out[ENDPOINTS])
{
    out[0] = (struct named){"client", &config->client,     config->client_address, config->shards,
                            0,        &config->client_more};
    out[1] = (struct named){"peer", &config->peer, config->peer_address, config->shards, 1, NULL};
    out[2] = (struct named){"gossip", &config->gossip, config->gossip_address, 1, 2, NULL};
    out[3] = (struct named){"resp", &config->resp, NULL, config->shards, 3, &config->resp_more};
    out[4] = (struct named){"http", &config->http.first, NULL, 1, 4, &config->http.more};
    out[5] = (struct named){"grpc", &config->grpc, NULL, 1, 5, NULL};
    out[6] = (struct named){"metrics", &config->http.metrics, NULL, 1, 0, NULL};
}

/* Gives endpoints that were not set their host and port. A node without one of the first three
 * could not take its part, so off is refused until there is a use for it. */
static int derive(const struct config *config, const struct named *named,
                  char error[CONFIG_ERROR_LEN])
{
    struct config_endpoint *endpoint = named->endpoint;
    const uint32_t base = config->base_port + named->base_add;
    const bool given = endpoint->port != 0;

    if (endpoint->off && named->address == NULL)
        return TG_OK;
    if (endpoint->off) {
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "--%s: off is not supported by this version; expected HOST:PORT",
                       named->name);
        return TG_EINVALID;
    }
    if (!given && base <= UINT16_MAX) {
        endpoint->port = (uint16_t)base;
        (void)snprintf(endpoint->host, sizeof(endpoint->host), "%s", config->bind);
    }
    const uint32_t first = given ? endpoint->port : base;
    const uint32_t last = first + (named->sockets - 1) * CONFIG_SHARD_PORT_STEP;
    if (last <= UINT16_MAX)
        return TG_OK;
    (void)snprintf(
        error, CONFIG_ERROR_LEN,
        "--%s: found port %" PRIu32 " for shard %" PRIu32 " (each adds %d); expected at most 65535",
        given ? named->name : "base-port", last, named->sockets - 1, CONFIG_SHARD_PORT_STEP);
    return TG_EINVALID;
}

struct listener {
    const char *name;
    const char *host;
    uint32_t port;
};

static bool listeners_clash(const struct listener *a, const struct listener *b)
{
    return a->port == b->port &&
           (strcmp(a->host, b->host) == 0 || config_host_is_wildcard(a->host) ||
            config_host_is_wildcard(b->host));
}

/* Adds the further endpoints, which have no port for each shard. Returns how many there are then.
 */
static uint32_t add_more(const struct named *named, struct listener all[SOCKETS_MAX],
                         uint32_t count)
{
    for (uint32_t i = 0; named->more != NULL && i < named->more->count; i++)
        if (named->more->at[i].path[0] == '\0')
            all[count++] = (struct listener){named->name, named->more->at[i].endpoint.host,
                                             named->more->at[i].endpoint.port};
    return count;
}

/* CONFIGCHECK-1 */
static int check_ports(const struct named named[ENDPOINTS], char error[CONFIG_ERROR_LEN])
{
    struct listener all[SOCKETS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        const struct config_endpoint *endpoint = named[i].endpoint;
        for (uint32_t shard = 0; shard < named[i].sockets && !endpoint->off; shard++)
            all[count++] =
                (struct listener){named[i].name, endpoint->host,
                                  endpoint->port + shard * (uint32_t)CONFIG_SHARD_PORT_STEP};
        count = add_more(&named[i], all, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (!listeners_clash(&all[i], &all[j]))
                continue;
            (void)snprintf(error, CONFIG_ERROR_LEN,
                           "--%s and --%s: found port %" PRIu32 " for both (shard i uses port + "
                           "%d * i); expected different ports",
                           all[j].name, all[i].name, all[i].port, CONFIG_SHARD_PORT_STEP);
            return TG_EINVALID;
        }
    }
    return TG_OK;
}

static int check_reach_of(const struct named *named, const struct config_endpoint *endpoint,
                          char error[CONFIG_ERROR_LEN])
{
    char text[CONFIG_ENDPOINT_LEN];

    if (endpoint->off || config_host_is_loopback(endpoint->host))
        return TG_OK;
    (void)snprintf(error, CONFIG_ERROR_LEN,
                   "--%s: other machines can reach %.128s, and this version has no transport keys: "
                   "whoever reaches it can read and change limits; give --insecure to accept that "
                   "(in a network you trust), or bind 127.0.0.1",
                   named->name, config_endpoint_text(endpoint, text));
    return TG_EINVALID;
}

/* CONFIGCHECK-2 */
static int check_reach(const struct config *config, const struct named *named,
                       char error[CONFIG_ERROR_LEN])
{
    if (config->insecure)
        return TG_OK;
    int result = check_reach_of(named, named->endpoint, error);
    for (uint32_t i = 0; result == TG_OK && named->more != NULL && i < named->more->count; i++)
        if (named->more->at[i].path[0] == '\0')
            result = check_reach_of(named, &named->more->at[i].endpoint, error);
    return result;
}

/* Fills in the address that others are told. */
static int advertise(const struct config *config, const struct named *named,
                     char error[CONFIG_ERROR_LEN])
{
    struct config_endpoint told = *named->endpoint;
    char text[CONFIG_ENDPOINT_LEN];

    if (config->advertise[0] != '\0')
        (void)snprintf(told.host, sizeof(told.host), "%s", config->advertise);
    if (config_host_is_wildcard(told.host)) {
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "--advertise: found %s; expected the host that others reach this node by, "
                       "because --%s listens on every address",
                       config->advertise[0] != '\0' ? "a wildcard" : "none", named->name);
        return TG_EINVALID;
    }
    /* The last shard's port may have a digit more. */
    const struct config_endpoint last = config_shard_endpoint(&told, named->sockets - 1);
    const size_t len = strlen(config_endpoint_text(&last, text));
    if (len >= CONFIG_ADDRESS_LEN) {
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "--%s: found address %.100s of %zu bytes; expected HOST:PORT of at most %d",
                       config->advertise[0] != '\0' ? "advertise" : named->name, text, len,
                       CONFIG_ADDRESS_LEN - 1);
        return TG_EINVALID;
    }
    (void)snprintf(named->address, CONFIG_ADDRESS_LEN, "%s", config_endpoint_text(&told, text));
    return TG_OK;
}

static int refuse(const char *sentence, char error[CONFIG_ERROR_LEN])
{
    (void)snprintf(error, CONFIG_ERROR_LEN, "%s", sentence);
    return TG_EINVALID;
}

uint64_t config_rest_bytes(uint32_t shards)
{
    return CONFIG_REST_NODE + shards * CONFIG_REST_SHARD;
}

/* Options that are fine alone. */
static int check_pairs(const struct config *config, char error[CONFIG_ERROR_LEN])
{
    if (!ring_vnodes_valid(config->vnodes)) {
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "--vnodes: found %" PRIu32 "; expected a power of two from %d to %d",
                       config->vnodes, RING_VNODES_MIN, RING_VNODES_MAX);
        return TG_EINVALID;
    }
    const uint64_t rest = config_rest_bytes(config->shards);
    if (config->room.container.memory_max != 0 && !config->room.memory_given &&
        config->room.memory_bytes < rest) {
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "the container: found a limit of %" PRIu64
                       "M of memory; expected at least %" PRIu64 "M for %" PRIu32
                       " shards, half of it for keys, or --memory",
                       config->room.container.memory_max >> 20, 2 * rest >> 20, config->shards);
        return TG_EINVALID;
    }
    if (config->room.memory_bytes / config->shards < TABLE_MEMORY_MIN) {
        (void)snprintf(error, CONFIG_ERROR_LEN,
                       "--memory: found %" PRIu64 "M for %" PRIu32
                       " shards; expected at least %zuM for each",
                       config->room.memory_bytes >> 20, config->shards, TABLE_MEMORY_MIN >> 20);
        return TG_EINVALID;
    }
    if (config->between.proxy_protocol == CONFIG_PROXY_REQUIRED &&
        config->between.trusted_proxies.count == 0 && !config->between.trusted_proxies.local)
        return refuse("--proxy-protocol: found required without --trusted-proxy; expected the "
                      "networks of the proxies",
                      error);
    if (config->ephemeral && config->rebuild)
        return refuse("--rebuild: found with --ephemeral; expected one of them, because an "
                      "ephemeral node has no store to rebuild",
                      error);
    return TG_OK;
}

int config_check(struct config *config, char error[CONFIG_ERROR_LEN])
{
    struct named named[ENDPOINTS];
    int result = check_pairs(config, error);

    if (config->http.first.off && config->grpc.port == 0)
        config->grpc.off = true; /* who wants no HTTP is not given it at another port */
    name_endpoints(config, named);
    for (uint32_t i = 0; result == TG_OK && i < ENDPOINTS; i++)
        result = derive(config, &named[i], error);
    if (result == TG_OK)
        result = check_ports(named, error);
    for (uint32_t i = 0; result == TG_OK && i < ENDPOINTS; i++)
        result = check_reach(config, &named[i], error);
    for (uint32_t i = 0; result == TG_OK && i < TOLD; i++)
        result = advertise(config, &named[i], error);
    return result == TG_OK ? config_telemetry_check(config, error) : result;
}

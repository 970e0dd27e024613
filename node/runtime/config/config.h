/* config.h - what tidegated was told: flags over a YAML file over defaults, checked as a whole.
 *
 *   defaults <- OTEL_... <- --config FILE (YAML) <- flags    then: derive, check, refuse or accept
 *
 * One table of options (config_option.h) serves flags, YAML keys and the help text, so that they
 * cannot drift apart: `--base-port 7700` and `base_port: 7700` are one entry.
 *
 * CONFIG-1  After config_parse gave 0 every field is set, in range and consistent with the others:
 *           nobody downstream checks again.
 * CONFIG-2  Every refusal names the flag, or FILE:LINE:COLUMN and key, what was found, what was
 *           expected.
 * CONFIG-3  Everything lies in the struct; there is nothing to free.
 */
#ifndef NODE_RUNTIME_CONFIG_CONFIG_H
#define NODE_RUNTIME_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "node/cluster/metrics/metric_table.h"
#include "node/gateway/api/auth_request.h"
#include "node/gateway/api/decision_json.h"
#include "node/gateway/networks.h"
#include "node/gateway/ratelimit/ratelimit.h"
#include "node/gateway/trace/tracer.h"
#include "node/runtime/system/container.h"

enum {
    CONFIG_HOST_LEN = 254,     /* the longest DNS name and NUL */
    CONFIG_ENDPOINT_LEN = 264, /* "[HOST]:65535" and NUL */
    CONFIG_ADDRESS_LEN = 64,   /* the same for our own addresses, which travel in member records */
    CONFIG_NAME_LEN = 64,      /* a node's name and NUL */
    CONFIG_PLACE_LEN = 32,     /* a region's or zone's name and NUL */
    CONFIG_PATH_LEN = 4096,
    CONFIG_SEEDS_MAX = 64,
    CONFIG_HOSTS_MAX = 16,   /* names by which HTTP clients may call the node */
    CONFIG_LISTEN_MAX = 8,   /* further places where clients of a protocol come */
    CONFIG_SOCKET_LEN = 108, /* the path of a socket and NUL, as the system has it */
    CONFIG_SHARDS_MAX = 16,
    CONFIG_SHARD_PORT_STEP = 10, /* shard i listens at port + 10 i (client, peer, resp) */
    CONFIG_REPLICAS_MAX = 3,
    CONFIG_URL_LEN = 1024,
    CONFIG_PAIRS_LEN = 4096,
    CONFIG_SERVICE_LEN = 256,
    CONFIG_ERROR_LEN = 512, /* a sentence of config_parse with its NUL */
};

/* One HOST:PORT; `host` has no brackets, also when it is an IPv6 address. */
struct config_endpoint {
    bool off; /* host is "" and port 0 then */
    uint16_t port;
    char host[CONFIG_HOST_LEN];
};

/* A further place to listen at: an endpoint, or a socket of the file system. */
struct config_place {
    struct config_endpoint endpoint;
    char path[CONFIG_SOCKET_LEN]; /* absolute, and `endpoint` all zero; or "" */
};

struct config_listen {
    uint32_t count;
    struct config_place at[CONFIG_LISTEN_MAX];
};

struct config_hosts {
    uint32_t count;
    char at[CONFIG_HOSTS_MAX][CONFIG_HOST_LEN]; /* "*": any name */
};

/* Where HTTP clients come: one port, which all shards share, and further ones. */
struct config_http {
    struct config_endpoint first;
    struct config_listen more;
    struct config_hosts names; /* by which these clients may call the node, beside loopback */
    enum decision_headers headers;
    enum ratelimit_fields fields;   /* that proxies are asked to add */
    int64_t age_ns;                 /* of a connection of HTTP/2, at most; 0: no end */
    struct config_endpoint metrics; /* a place for metrics and probes alone, or off */
    enum metrics_compat metrics_compat;
};

enum config_log_format { CONFIG_LOG_TEXT, CONFIG_LOG_JSON };

struct config_log {
    enum log_level level;
    enum config_log_format format;
};

/* Whether connections of trusted proxies begin with a PROXY header. */
enum config_proxy_protocol {
    CONFIG_PROXY_OPTIONAL,
    CONFIG_PROXY_REQUIRED,
    CONFIG_PROXY_OFF /* it is never believed */
};

/* Whether what `rules` names is read again when it changes. */
enum config_rules_watch {
    CONFIG_RULES_WATCH_AUTO, /* if it is a directory */
    CONFIG_RULES_WATCH_ON,
    CONFIG_RULES_WATCH_OFF
};

/* What whoever shows no token may do: roles (enum right), by the protocol that he speaks. */
struct config_anonymous {
    uint8_t http;
    uint8_t grpc;
    uint8_t resp;
};

/* What stands between the node and its clients. */
struct config_between {
    struct networks trusted_proxies; /* who may say for whom a connection is */
    enum config_proxy_protocol proxy_protocol;
    struct config_anonymous anonymous;
    struct auth_endpoints auth;       /* of /v1/auth, where proxies ask */
    char admin_cred[CONFIG_PATH_LEN]; /* "": in the data directory, if there is one */
    /* Where Redis clients of a cluster are told to connect; port 0: where they came. */
    struct config_endpoint resp_advertise;
};

/* Traces and metrics that are pushed to a collector, and what the log tells of traced requests. */
struct config_telemetry {
    char endpoint[CONFIG_URL_LEN]; /* of a collector, for both signals */
    char traces[CONFIG_URL_LEN];   /* of each, whole; "": it is off */
    char metrics[CONFIG_URL_LEN];
    char headers[CONFIG_PAIRS_LEN];  /* NAME=VALUE,... (config_telemetry.h) */
    char resource[CONFIG_PAIRS_LEN]; /* likewise */
    char service[CONFIG_SERVICE_LEN];
    char ca[CONFIG_PATH_LEN]; /* "": the machine's */
    int64_t interval_ns;
    int64_t timeout_ns;
    enum trace_sampler sampler;
    uint32_t ratio;     /* of TRACE_RATIO_ALL */
    uint32_t log_lines; /* a second; 0: none */
    int64_t slow_ns;
    char ignored[CONFIG_ERROR_LEN]; /* what of the environment was, "": nothing */
};

#define CONFIG_MEMORY_DEFAULT                                                                      \
    (UINT64_C(256) << 20) /* for keys, where no container says otherwise */
/* What a node needs besides when much is asked of it, as measured: of its own, and for each shard.
 */
#define CONFIG_REST_NODE  (UINT64_C(16) << 20)
#define CONFIG_REST_SHARD (UINT64_C(32) << 20)

/* What it may take, and what it is in. */
struct config_room {
    uint64_t memory_bytes;      /* for keys, of all shards together */
    bool memory_given;          /* it is not derived */
    uint64_t store_max_bytes;   /* from which on the store takes no new keys; 0: no bound */
    struct container container; /* as it was told */
};

struct config {
    char file[CONFIG_PATH_LEN]; /* --config; "" if none */
    bool check_config;          /* validate and exit */

    /* Where it listens. Shard i adds i * CONFIG_SHARD_PORT_STEP to the client, peer and resp port.
     * client, peer and gossip are never off in this version. */
    char bind[CONFIG_HOST_LEN];
    uint16_t base_port;
    struct config_endpoint client;
    struct config_endpoint peer;
    struct config_endpoint gossip;
    struct config_endpoint resp;
    struct config_listen client_more; /* further ones, which all shards share */
    struct config_listen resp_more;
    struct config_http http;
    struct config_endpoint grpc; /* a further place of http, where gRPC is looked for */
    bool insecure;
    struct config_between between;

    /* What it tells the others: HOST:PORT of shard 0. */
    char advertise[CONFIG_HOST_LEN]; /* --advertise; "" if not given */
    char client_address[CONFIG_ADDRESS_LEN];
    char peer_address[CONFIG_ADDRESS_LEN];
    char gossip_address[CONFIG_ADDRESS_LEN];

    /* Who it is and whom it asks. */
    struct config_endpoint seeds[CONFIG_SEEDS_MAX]; /* gossip endpoints, in the order given */
    uint32_t seed_count;
    bool bootstrap; /* create a cluster although seeds are given */
    char name[CONFIG_NAME_LEN];
    bool name_given; /* it is not derived from the host's */
    char region[CONFIG_PLACE_LEN];
    char zone[CONFIG_PLACE_LEN]; /* may be "" */
    uint32_t weight;
    uint32_t vnodes;   /* only used when creating a cluster */
    uint32_t replicas; /* likewise */

    /* What it keeps and how. */
    char data[CONFIG_PATH_LEN];
    bool ephemeral; /* no disk: `data` is not touched */
    bool rebuild;
    char rules[CONFIG_PATH_LEN]; /* "" if none */
    enum config_rules_watch rules_watch;
    uint32_t shards;
    struct config_room room;
    int64_t flush_interval_ns;
    uint64_t handoff_rate; /* bytes a second of complete copies that a shard sends, at most */
    int64_t drain_timeout_ns;

    struct config_telemetry telemetry;
    struct config_log log;
};

enum config_result { CONFIG_HELP = 1, CONFIG_VERSION = 2 };

/* Reads the flags (argv[0] is skipped), the file they name, and OTEL_... of the environment;
 * `container` is what the process is in, and is copied. 0; CONFIG_HELP or CONFIG_VERSION (print it
 * and exit 0; *out is unspecified); or TG_EINVALID (exit 2) with one sentence in `error`, which
 * fits CONFIG_ERROR_LEN and is cut to `error_len`. Reads these, the host name and nothing else of
 * the machine. One thread at a time per `out`. */
MUST_USE int config_parse(int argc, const char *const *argv, const struct container *container,
                          struct config *out, char *error, size_t error_len);

/* Writes the help text, every flag with default and unit, and a NUL, cut to `capacity`. Returns the
 * length the whole text has; CONFIG_HELP_LEN is enough. */
enum { CONFIG_HELP_LEN = 16384 };
size_t config_help(char *out, size_t capacity);

/* Bytes that a node of so many shards needs beside its keys. Pure. */
uint64_t config_rest_bytes(uint32_t shards);

/* Reads "HOST:PORT", "[IPV6]:PORT". 0, or TG_EINVALID with *out unspecified. Pure. */
MUST_USE int config_endpoint_parse(const char *text, struct config_endpoint *out);
/* Writes "HOST:PORT" ("[IPV6]:PORT") and returns `out`; "off" for an endpoint that is off. */
const char *config_endpoint_text(const struct config_endpoint *endpoint,
                                 char out[CONFIG_ENDPOINT_LEN]);
/* The endpoint of shard `shard` from that of shard 0: only the port differs. */
struct config_endpoint config_shard_endpoint(const struct config_endpoint *base, uint32_t shard);
/* Whether only this machine reaches the host: 127.0.0.0/8, ::1 or "localhost". Pure. */
bool config_host_is_loopback(const char *host);
/* Whether the host means every address of the machine: 0.0.0.0, :: or "*". Pure. */
bool config_host_is_wildcard(const char *host);

#endif

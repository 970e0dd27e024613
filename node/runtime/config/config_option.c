/* config_option.c - every option once: its name, default, range and help.
 *
 *   {"base-port", "PORT", "7600", .., KIND_PORT, offset}  -->  --base-port PORT
 *                                                              base_port: PORT
 *                                                              a line of --help
 *                                                              the default, through the same setter
 *
 * CONFIGOPTION-1  A default passes the check of its own option (asserted when it is set).
 *
 * Must not: know how a value is read (config_set.c), or look at two options at once
 * (config_check.c).
 */
#include "node/runtime/config/config_option.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/nearest.h"
#include "ring/ring.h"

#define NS_PER_MS        UINT64_C(1000000)
#define NS_PER_S         (1000 * NS_PER_MS)
#define MEMORY_MAX       (UINT64_C(1) << 44)
#define MEMORY_MIN       (UINT64_C(8) << 20)
#define HANDOFF_RATE_MIN (UINT64_C(64) << 10)
#define HANDOFF_RATE_MAX (UINT64_C(16) << 30)
#define AT(field)        .offset = offsetof(struct config, field)
#define SWITCH(f)        .kind = CONFIG_KIND_SWITCH, AT(f)
#define ENDPOINT(f)      .value = "HOST:PORT", .kind = CONFIG_KIND_ENDPOINT, AT(f)
#define LISTEN_MORE(f, m)                                                                          \
    .value = "HOST:PORT|unix:PATH", .kind = CONFIG_KIND_LISTEN, AT(f),                             \
    .more = offsetof(struct config, m)
#define LISTEN(f) LISTEN_MORE(f, f##_more)

#define WORD(f, names) .kind = CONFIG_KIND_WORD, .words = (names), AT(f)

static const char *const proxy_words[] = {[CONFIG_PROXY_OPTIONAL] = "optional",
                                          [CONFIG_PROXY_REQUIRED] = "required",
                                          [CONFIG_PROXY_OFF] = "off",
                                          NULL};
static const char *const watch_words[] = {[CONFIG_RULES_WATCH_AUTO] = "auto",
                                          [CONFIG_RULES_WATCH_ON] = "on",
                                          [CONFIG_RULES_WATCH_OFF] = "off",
                                          NULL};
static const char *const format_words[] = {
    [CONFIG_LOG_TEXT] = "text", [CONFIG_LOG_JSON] = "json", NULL};

static const struct config_option options[] = {
    {.name = "config",
     .value = "FILE",
     .kind = CONFIG_KIND_FILE,
     .flag_only = true,
     AT(file),
     .help = "YAML file with these options, underscores for dashes; flags override it"},
    {.name = "check-config",
     SWITCH(check_config),
     .flag_only = true,
     .help = "check flags and file, then exit"},
    {.name = "bind",
     .value = "IP",
     .initial = "127.0.0.1",
     .kind = CONFIG_KIND_HOST,
     AT(bind),
     .help = "address to listen on"},
    {.name = "base-port",
     .value = "PORT",
     .initial = "7600",
     .kind = CONFIG_KIND_PORT,
     AT(base_port),
     .help = "client port; peer is + 1, gossip + 2, Redis + 3, HTTP + 4, gRPC + 5; shard i adds 10 "
             "* i"},
    {.name = "client",
     LISTEN(client),
     .derived = "BIND:BASE-PORT",
     .help = "where clients connect; repeatable, a list in the file: all shards share those after "
             "the first"},
    {.name = "peer",
     ENDPOINT(peer),
     .derived = "BIND:BASE-PORT + 1",
     .help = "where other nodes' shards connect"},
    {.name = "gossip",
     ENDPOINT(gossip),
     .derived = "BIND:BASE-PORT + 2",
     .help = "where membership is talked about"},
    {.name = "resp",
     LISTEN(resp),
     .may_be_off = true,
     .derived = "BIND:BASE-PORT + 3",
     .help = "where Redis clients connect, or off; repeatable likewise"},
    {.name = "resp-anonymous",
     .value = "ROLES",
     .initial = "check,adjust,inline,observe",
     .kind = CONFIG_KIND_ROLES,
     AT(between.anonymous.resp),
     .help = "what Redis clients may do that show no token: roles, or none"},
    {.name = "http",
     LISTEN_MORE(http.first, http.more),
     .may_be_off = true,
     .derived = "BIND:BASE-PORT + 4",
     .help = "where HTTP clients connect, or off; repeatable likewise, and all shards share each"},
    {.name = "http-name",
     .value = "HOST",
     .kind = CONFIG_KIND_HOSTS,
     AT(http.names),
     .help =
         "name or address that HTTP clients may call this node by, beside loopback, the address "
         "they reach and those of --http; * for any; repeatable, a list in the file"},
    {.name = "http-headers",
     .value = "KIND",
     .initial = "ietf",
     WORD(http.headers, decision_headers_words),
     .help = "header fields that tell what is left of a limit: RateLimit by the IETF's draft, "
             "X-RateLimit-Limit, -Remaining and -Reset (legacy), or none (off)"},
    {.name = "http-anonymous",
     .value = "ROLES",
     .initial = "check,adjust,inline,observe",
     .kind = CONFIG_KIND_ROLES,
     AT(between.anonymous.http),
     .help = "what callers over HTTP may do that show no token: roles, or none"},
    {.name = "ratelimit-headers",
     .value = "KIND",
     .initial = "off",
     WORD(http.fields, ratelimit_fields_words),
     .help =
         "header fields that proxies of the rate limit service are asked to add to responses: "
         "RateLimit-Limit, -Remaining and -Reset (draft), these with X- (legacy), or none (off)"},
    {.name = "metrics",
     ENDPOINT(http.metrics),
     .may_be_off = true,
     .initial = "off",
     .help = "where /metrics, /livez and /readyz are answered and nothing else, beside --http; or "
             "off"},
    {.name = "metrics-compat",
     .value = "WHOSE",
     .initial = "off",
     WORD(http.metrics_compat, metrics_compat_words),
     .help = "whose metrics are told under their names beside this node's own: those of "
             "gubernator, or nobody's (off)"},
    {.name = "auth",
     .value = "MAPPING",
     .initial = "{}",
     .kind = CONFIG_KIND_AUTH,
     AT(between.auth),
     .help = "endpoints of /v1/auth/NAME beside, or other than, default, nginx and envoy: for each "
             "its status (allow, deny), headers (as http_headers), original_request (forwarded, "
             "original, itself), and the lists attributes_from_headers and attributes_from_query"},
    {.name = "admin-cred",
     .value = "FILE",
     .derived = "DATA/admin.cred",
     .kind = CONFIG_KIND_PATH,
     AT(between.admin_cred),
     .help = "the token that operators' calls over HTTP need; made if there is none"},
    {.name = "grpc",
     ENDPOINT(grpc),
     .may_be_off = true,
     .derived = "BIND:BASE-PORT + 5",
     .help = "where clients of gRPC connect, or off; all shards share it. It is a further place of "
             "--http: each answers HTTP/1.1 and HTTP/2, and this one is off as well where that is "
             "off and this is not given"},
    {.name = "grpc-anonymous",
     .value = "ROLES",
     .initial = "check,adjust,inline,observe",
     .kind = CONFIG_KIND_ROLES,
     AT(between.anonymous.grpc),
     .help = "what callers over gRPC may do that show no token: roles, or none"},
    {.name = "connection-age",
     .value = "TIME",
     .initial = "5m",
     .kind = CONFIG_KIND_DURATION,
     AT(http.age_ns),
     .min = 0,
     .max = 7 * 24 * 3600 * NS_PER_S,
     .help =
         "how long a connection of HTTP/2 lives before it is told to end, a tenth more or less; "
         "s, m; 0s: for ever"},
    {.name = "advertise",
     .value = "HOST",
     .derived = "as bound",
     .kind = CONFIG_KIND_HOST,
     AT(advertise),
     .help = "host told to others; needed when bound to every address"},
    {.name = "resp-advertise",
     .value = "HOST:PORT",
     .derived = "where the client came",
     .kind = CONFIG_KIND_TOLD,
     AT(between.resp_advertise),
     .help = "where Redis clients of a cluster or sentinel are told to connect; needed where ports "
             "are mapped"},
    {.name = "insecure",
     SWITCH(insecure),
     .help = "allow addresses that other machines reach, without encryption or keys"},
    {.name = "trusted-proxy",
     .in_file = "trusted-proxies",
     .value = "NETWORK",
     .kind = CONFIG_KIND_NETWORK,
     AT(between.trusted_proxies),
     .help = "network of proxies whose word on their clients' addresses is taken; repeatable, the "
             "list trusted_proxies in the file"},
    {.name = "proxy-protocol",
     .value = "WHEN",
     .initial = "optional",
     WORD(between.proxy_protocol, proxy_words),
     .help = "whether connections of trusted proxies begin with a PROXY header: where they pass on "
             "others' bytes without one, it must not be optional"},
    {.name = "seed",
     .value = "HOST:PORT",
     .kind = CONFIG_KIND_SEED,
     .help = "gossip address of a member; repeatable, a list in the file"},
    {.name = "bootstrap", SWITCH(bootstrap), .help = "create a cluster although seeds are given"},
    {.name = "name",
     .value = "NAME",
     .derived = "the host's name",
     .kind = CONFIG_KIND_NAME,
     AT(name),
     .min = 1,
     .max = CONFIG_NAME_LEN - 1,
     .help = "this node's name"},
    {.name = "region",
     .value = "NAME",
     .initial = "default",
     .kind = CONFIG_KIND_NAME,
     AT(region),
     .min = 1,
     .max = CONFIG_PLACE_LEN - 1,
     .help = "region: all nodes of one ring, and of no other, have the same"},
    {.name = "zone",
     .value = "NAME",
     .initial = "",
     .kind = CONFIG_KIND_NAME,
     AT(zone),
     .max = CONFIG_PLACE_LEN - 1,
     .help = "failure zone; replicas go to different ones"},
    {.name = "weight",
     .value = "N",
     .initial = "100",
     .kind = CONFIG_KIND_NUMBER,
     AT(weight),
     .min = RING_WEIGHT_MIN,
     .max = RING_WEIGHT_MAX,
     .help = "share of the keys in relation to the other nodes; of a newcomer, at most four times "
             "the heaviest one's"},
    {.name = "data",
     .value = "DIR",
     .initial = "./tidegate-data",
     .kind = CONFIG_KIND_PATH,
     AT(data),
     .help = "folder of the store"},
    {.name = "ephemeral", SWITCH(ephemeral), .help = "keep nothing on disk"},
    {.name = "rebuild",
     SWITCH(rebuild),
     .help = "set the store aside, usable or not, and refill it from replicas"},
    {.name = "rules",
     .value = "FILE",
     .kind = CONFIG_KIND_PATH,
     AT(rules),
     .help = "rules in YAML, or a directory of such files; reloaded by SIGHUP, a directory also "
             "as it changes"},
    {.name = "rules-watch",
     .value = "WHEN",
     .initial = "auto",
     WORD(rules_watch, watch_words),
     .help = "whether what --rules names is reloaded as it changes: on, off, or on for a directory "
             "alone (auto)"},
    {.name = "shards",
     .value = "N",
     .initial = "1",
     .kind = CONFIG_KIND_NUMBER,
     AT(shards),
     .min = 1,
     .max = CONFIG_SHARDS_MAX,
     .help = "deciding threads"},
    {.name = "memory",
     .value = "SIZE",
     .derived = "half of the container's, else 256M",
     .kind = CONFIG_KIND_SIZE,
     AT(room.memory_bytes),
     .min = MEMORY_MIN,
     .max = MEMORY_MAX,
     .help = "bytes for keys, of all shards together; K, M, G"},
    {.name = "store-max",
     .value = "SIZE",
     .initial = "0K",
     .kind = CONFIG_KIND_SIZE,
     AT(room.store_max_bytes),
     .min = 0,
     .max = MEMORY_MAX,
     .help = "bytes on disk from which on new keys are refused; K, M, G; 0K: while there is room"},
    {.name = "vnodes",
     .value = "N",
     .initial = "4096",
     .kind = CONFIG_KIND_NUMBER,
     AT(vnodes),
     .min = RING_VNODES_MIN,
     .max = RING_VNODES_MAX,
     .help = "virtual nodes, a power of two; used when a cluster is created"},
    {.name = "replicas",
     .value = "N",
     .initial = "3",
     .kind = CONFIG_KIND_NUMBER,
     AT(replicas),
     .min = 1,
     .max = CONFIG_REPLICAS_MAX,
     .help = "nodes that keep each key; used when a cluster is created"},
    {.name = "flush-interval",
     .value = "TIME",
     .initial = "500ms",
     .kind = CONFIG_KIND_DURATION,
     AT(flush_interval_ns),
     .min = 10 * NS_PER_MS,
     .max = 60 * NS_PER_S,
     .help = "from the end of a write-back to the next; ms, s"},
    {.name = "handoff-rate",
     .value = "SIZE",
     .initial = "64M",
     .kind = CONFIG_KIND_SIZE,
     AT(handoff_rate),
     .min = HANDOFF_RATE_MIN,
     .max = HANDOFF_RATE_MAX,
     .help = "bytes a second that hand-off may send, per shard; K, M, G"},
    {.name = "drain-timeout",
     .value = "TIME",
     .initial = "25s",
     .kind = CONFIG_KIND_DURATION,
     AT(drain_timeout_ns),
     .min = 0,
     .max = 3600 * NS_PER_S,
     .help = "longest orderly stop; s, m; 0s: none, it ends at once"},
    {.name = "cluster-secret",
     .value = "FILE",
     .kind = CONFIG_KIND_UNSUPPORTED,
     .help = "not supported by this version"},
    {.name = "otlp-endpoint",
     .value = "URL",
     .derived = "none: nothing is pushed",
     .kind = CONFIG_KIND_TEXT,
     AT(telemetry.endpoint),
     .min = 0,
     .max = CONFIG_URL_LEN - 1,
     .help =
         "collector that traces and metrics are pushed to, by OTLP over HTTP, at /v1/traces and "
         "/v1/metrics of it"},
    {.name = "otlp-traces",
     .value = "URL",
     .derived = "OTLP-ENDPOINT/v1/traces",
     .kind = CONFIG_KIND_TEXT,
     AT(telemetry.traces),
     .min = 0,
     .max = CONFIG_URL_LEN - 1,
     .help = "where traces are pushed, as it is; or off"},
    {.name = "otlp-metrics",
     .value = "URL",
     .derived = "OTLP-ENDPOINT/v1/metrics",
     .kind = CONFIG_KIND_TEXT,
     AT(telemetry.metrics),
     .min = 0,
     .max = CONFIG_URL_LEN - 1,
     .help = "where metrics are pushed, as it is; or off"},
    {.name = "otlp-headers",
     .value = "NAME=VALUE,...",
     .derived = "none",
     .kind = CONFIG_KIND_TEXT,
     AT(telemetry.headers),
     .min = 0,
     .max = CONFIG_PAIRS_LEN - 1,
     .help = "header fields that the collector wants, values percent-encoded; better in the file, "
             "as other users of the machine see flags"},
    {.name = "otlp-ca",
     .value = "FILE",
     .derived = "the machine's",
     .kind = CONFIG_KIND_PATH,
     AT(telemetry.ca),
     .help = "certificates of the authorities by which the collector is known"},
    {.name = "otlp-interval",
     .value = "TIME",
     .initial = "60s",
     .kind = CONFIG_KIND_DURATION,
     AT(telemetry.interval_ns),
     .min = NS_PER_S,
     .max = 3600 * NS_PER_S,
     .help = "from one push of metrics to the next; s, m"},
    {.name = "otlp-timeout",
     .value = "TIME",
     .initial = "10s",
     .kind = CONFIG_KIND_DURATION,
     AT(telemetry.timeout_ns),
     .min = 100 * NS_PER_MS,
     .max = 60 * NS_PER_S,
     .help = "how long the collector may take with a message; ms, s"},
    {.name = "otlp-service",
     .value = "NAME",
     .derived = "service.name of OTLP-RESOURCE, or tidegate",
     .kind = CONFIG_KIND_TEXT,
     AT(telemetry.service),
     .min = 0,
     .max = CONFIG_SERVICE_LEN - 1,
     .help = "name of the service in traces and metrics"},
    {.name = "otlp-resource",
     .value = "NAME=VALUE,...",
     .derived = "none",
     .kind = CONFIG_KIND_TEXT,
     AT(telemetry.resource),
     .min = 0,
     .max = CONFIG_PAIRS_LEN - 1,
     .help = "further attributes of the service, values percent-encoded"},
    {.name = "trace-sampler",
     .value = "NAME",
     .initial = "parentbased_always_off",
     WORD(telemetry.sampler, trace_sampler_words),
     .help =
         "which HTTP requests are traced: parentbased_* as their traceparent says, and of those "
         "without one as the rest of the name does"},
    {.name = "trace-ratio",
     .value = "RATIO",
     .initial = "1",
     .kind = CONFIG_KIND_RATIO,
     AT(telemetry.ratio),
     .help = "share of traces that the samplers by ratio take, 0 to 1"},
    {.name = "trace-log",
     .value = "N",
     .initial = "10",
     .kind = CONFIG_KIND_NUMBER,
     AT(telemetry.log_lines),
     .min = 0,
     .max = 1000,
     .help = "lines a second that the log may have on traced requests that were refused, degraded, "
             "undecided or slow; 0: none"},
    {.name = "trace-slow",
     .value = "TIME",
     .initial = "100ms",
     .kind = CONFIG_KIND_DURATION,
     AT(telemetry.slow_ns),
     .min = NS_PER_MS,
     .max = 60 * NS_PER_S,
     .help = "how long a traced request takes to be slow; ms, s"},
    {.name = "log-level",
     .value = "LEVEL",
     .initial = "info",
     .kind = CONFIG_KIND_LEVEL,
     AT(log.level),
     .help = "debug, info, warn or error"},
    {.name = "log-format",
     .value = "FORMAT",
     .initial = "text",
     WORD(log.format, format_words),
     .help = "text or json"},
    {.name = "help", .kind = CONFIG_KIND_HELP, .flag_only = true, .help = "print this and exit"},
    {.name = "version",
     .kind = CONFIG_KIND_VERSION,
     .flag_only = true,
     .help = "print the version and exit"},
};

enum { OPTIONS = sizeof(options) / sizeof(options[0]) };
static_assert((int)OPTIONS <= (int)CONFIG_OPTIONS_MAX, "a bit and an argument for each");
static_assert((int)CONFIG_SHARD_PORT_STEP > 4, "the ports of two shards do not meet");

const struct config_option *config_options(size_t *count)
{
    *count = OPTIONS;
    return options;
}

static const struct config_exit exits[] = {
    {0, "stopped in order"},
    {2, "bad configuration"},
    {3, "data unusable"},
    {4, "address in use"},
};

const char config_summary[] = "a node of a Tidegate cluster, the distributed rate limiter";
const char config_without_arguments[] =
    "Without arguments: a cluster of one node on 127.0.0.1, data in ./tidegate-data.";
const char config_signals[] =
    "SIGTERM stops in order (the node stays a member), SIGHUP reloads the rules.";

const struct config_exit *config_exits(size_t *count)
{
    *count = sizeof(exits) / sizeof(exits[0]);
    return exits;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A name with `separator` for its dashes. */
static const char *spell(const char *name, char separator, char out[CONFIG_NAME_MAX])
{
    (void)snprintf(out, CONFIG_NAME_MAX, "%s", name);
    for (char *at = out; *at != '\0'; at++) {
        if (*at == '-')
            *at = separator;
    }
    return out;
}

const char *config_option_name(const struct config_option *option, char separator,
                               char out[CONFIG_NAME_MAX])
{
    const bool file = separator == '_' && option->in_file != NULL;
    return spell(file ? option->in_file : option->name, separator, out);
}

/* In a file the flag's own name is good, too: that is what a list of one is easily called. */
const struct config_option *config_option_find(const char *name, char separator)
{
    char written[CONFIG_NAME_MAX];

    for (size_t i = 0; i < OPTIONS; i++) {
        if (strcmp(config_option_name(&options[i], separator, written), name) == 0 ||
            strcmp(spell(options[i].name, separator, written), name) == 0)
            return &options[i];
    }
    return NULL;
}

void config_option_nearest(const char *name, char separator, char out[CONFIG_NAME_MAX])
{
    char written[OPTIONS][CONFIG_NAME_MAX];
    struct nearest nearest;

    nearest_init(&nearest, name);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (separator == '-' || !options[i].flag_only)
            nearest_try(&nearest, config_option_name(&options[i], separator, written[i]));
    }
    (void)snprintf(out, CONFIG_NAME_MAX, "%s", nearest.found != NULL ? nearest.found : "");
}

bool config_option_bare(const struct config_option *option)
{
    return option->kind == CONFIG_KIND_SWITCH || option->kind == CONFIG_KIND_HELP ||
           option->kind == CONFIG_KIND_VERSION;
}

/* ---- defaults
 * ------------------------------------------------------------------------------------ */

void config_option_defaults(struct config *config)
{
    char why[CONFIG_WHY_LEN];

    *config = (struct config){.check_config = false};
    for (size_t i = 0; i < OPTIONS; i++) {
        if (options[i].initial == NULL)
            continue;
        const int result = config_option_set(&options[i], config, options[i].initial, why);
        ASSERT(result == TG_OK); /* CONFIGOPTION-1 */
    }
}

/* ---- help ------------------------------------------------------------------------------------ */

struct text {
    char *out;
    size_t capacity;
    size_t len; /* of the whole text, also where it was cut */
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    const bool fits = text->len < text->capacity;
    va_list arguments;

    va_start(arguments, format);
    const int len = vsnprintf(fits ? text->out + text->len : NULL,
                              fits ? text->capacity - text->len : 0, format, arguments);
    va_end(arguments);
    text->len += len > 0 ? (size_t)len : 0;
}

static void add_option(struct text *text, const struct config_option *option)
{
    const char *initial = option->initial != NULL ? option->initial : option->derived;
    char flag[64];

    (void)snprintf(flag, sizeof(flag), "--%s%s%s", option->name, option->value != NULL ? " " : "",
                   option->value != NULL ? option->value : "");
    add(text, "  %-24s %s", flag, option->help);
    if (initial != NULL && initial[0] != '\0')
        add(text, " [%s]", initial);
    add(text, "\n");
}

size_t config_help(char *out, size_t capacity)
{
    struct text text = {.out = out, .capacity = capacity};

    add(&text,
        "tidegated - %s\n\n"
        "usage: tidegated [--config FILE] [options]\n\n"
        "%s\n"
        "Defaults are in brackets. --flag VALUE and --flag=VALUE mean the same.\n\n",
        config_summary, config_without_arguments);
    for (size_t i = 0; i < OPTIONS; i++)
        add_option(&text, &options[i]);
    add(&text, "\nExit status: 0");
    for (size_t i = 1; i < sizeof(exits) / sizeof(exits[0]); i++)
        add(&text, ", %d %s", exits[i].status, exits[i].meaning);
    add(&text, ".\n%s\n", config_signals);
    return text.len;
}

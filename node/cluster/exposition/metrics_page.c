/* metrics_page.c - see metrics_page.h; node/cluster/metrics has the table.
 *
 * Each metric has a source here: a sum of a counter of all shards, one number, or a function that
 * writes several lines. The page is bounded, for all that names a series is (METRIC-2).
 */
#include "node/cluster/exposition/metrics_page.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/conditions/conditions.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/metrics/metric_text.h"
#include "node/cluster/shard/shard_told.h"

static_assert((int)METRIC_PEERS_MAX == (int)SHARD_TOLD_PEERS_MAX, "each peer that is told has one");

#define OTHER "other"

enum { NODE_LEN = 64, METHOD_LEN = 64 };

struct peer_series {
    char name[NODE_LEN];
    uint64_t forwarded;
    int64_t lag_ns;
};

struct collecting {
    int64_t now_ns;
    const struct control *control;
    const struct control_report *report;
    struct metric_text *text;
    bool healthy;
    uint32_t peer_count;
    struct peer_series peers[METRIC_PEERS_MAX];
};

/* Where the value of a metric comes from: one of these. */
struct source {
    uint64_t (*number)(const struct collecting *collecting);
    int64_t (*ns)(const struct collecting *collecting);
    void (*lines)(const struct collecting *collecting);
    const char *clients; /* a figure of clients, by their protocol, */
    const char *http;    /* or of those of HTTP alone */
    const char *results; /* what its figures of struct control_report's telemetry begin with */
    bool report;         /* a number of struct control_report, at: */
    size_t offset;       /* or of a counter of struct shard_stats, */
    size_t len;          /* and how wide it is: the sum of all shards */
};

static const char *const protocols[] = {"native", "redis", "http"};
static_assert(sizeof protocols / sizeof *protocols == ANSWERED_PROTOCOLS, "each has a name");

/* ---- lines ----------------------------------------------------------------------------------- */

static void put_one(const struct collecting *collecting, const char *label, const char *value,
                    uint64_t number)
{
    const struct metric_labels labels = {{{label, value}}};
    metric_put(collecting->text, &labels, number);
}

static void put_two(const struct collecting *collecting, const struct metric_label *first,
                    const char *label, const char *value, uint64_t number)
{
    const struct metric_labels labels = {{*first, {label, value}}};
    metric_put(collecting->text, &labels, number);
}

static uint64_t sum_at(const struct collecting *collecting, size_t offset, size_t len)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < collecting->report->shard_count; i++) {
        const char *at = (const char *)&collecting->report->shards[i] + offset;
        uint64_t wide = 0;
        uint32_t narrow = 0;
        memcpy(len == sizeof wide ? (void *)&wide : (void *)&narrow, at, len);
        sum += wide + narrow;
    }
    return sum;
}

#define SUM_OF(collecting, field)                                                                  \
    sum_at((collecting), offsetof(struct shard_stats, field),                                      \
           sizeof(((const struct shard_stats *)0)->field))

/* ---- the node -------------------------------------------------------------------------------- */

static void put_build(const struct collecting *collecting)
{
    put_one(collecting, "version", collecting->control->options.version, 1);
}

static void put_node(const struct collecting *collecting)
{
    const struct control_options *options = &collecting->control->options;
    const struct metric_labels labels = {
        {{"node", options->name}, {"region", options->region}, {"zone", options->zone}}};
    metric_put(collecting->text, &labels, 1);
}

static uint64_t is_healthy(const struct collecting *collecting)
{
    return collecting->healthy;
}

static void put_troubles(const struct collecting *collecting)
{
    const struct control *control = collecting->control;
    const struct swim_member *self = swim_find(control->swim, control->options.node_id);
    const uint32_t troubles =
        self != NULL ? control_health_of(control, self, collecting->report) : 0;
    for (int i = 0; i < HEALTH_TROUBLES; i++)
        put_one(collecting, "trouble", health_kind((enum health_trouble)i)->code,
                (troubles & HEALTH_BIT(i)) != 0);
}

static int64_t figures_age(const struct collecting *collecting)
{
    int64_t age_ns = 0;
    for (uint32_t i = 0; i < collecting->report->shard_count; i++) {
        const int64_t shard_ns = collecting->now_ns - collecting->report->shards[i].taken_ns;
        age_ns = shard_ns > age_ns ? shard_ns : age_ns;
    }
    return age_ns;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static const struct answered *answered_of(const struct collecting *collecting)
{
    static const struct answered none;
    return collecting->report->told != NULL ? &collecting->report->told->answered : &none;
}

static void put_checks(const struct collecting *collecting)
{
    const struct answered *answered = answered_of(collecting);
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        for (unsigned k = 0; k < OUTCOME_COUNT; k++)
            put_two(collecting, &(struct metric_label){"protocol", protocols[i]}, "outcome",
                    outcome_name(k), answered->by[i].outcomes[k]);
}

static void put_durations(const struct collecting *collecting)
{
    const struct answered *answered = answered_of(collecting);
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        metric_put_times(collecting->text, &(struct metric_label){"protocol", protocols[i]},
                         answered_bounds_ns, answered->by[i].times, ANSWERED_BOUNDS,
                         answered->by[i].sum_ns);
}

static void put_degraded(const struct collecting *collecting)
{
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        put_one(collecting, "protocol", protocols[i], answered_of(collecting)->by[i].degraded);
}

static void put_rule(const struct collecting *collecting, const char *name,
                     const uint64_t fates[ANSWERED_FATES])
{
    static const char *const names[ANSWERED_FATES] = {"allowed", "denied", "would_deny", "failed"};
    for (int i = 0; i < ANSWERED_FATES; i++)
        put_two(collecting, &(struct metric_label){"rule", name}, "outcome", names[i], fates[i]);
}

/* A rule that is called as all others together are is one of them: no series is there twice. */
static void put_rules(const struct collecting *collecting)
{
    const struct answered *answered = answered_of(collecting);
    struct answered_rule others = answered->rules[answered->rule_count];
    for (uint32_t i = 0; i < answered->rule_count; i++) {
        const struct answered_rule *rule = &answered->rules[i];
        if (strcmp(rule->name, OTHER) != 0)
            put_rule(collecting, rule->name, rule->fates);
        for (int k = 0; k < ANSWERED_FATES && strcmp(rule->name, OTHER) == 0; k++)
            others.fates[k] += rule->fates[k];
    }
    put_rule(collecting, OTHER, others.fates);
}

static void put_decided(const struct collecting *collecting)
{
    put_one(collecting, "outcome", "allowed", SUM_OF(collecting, allowed));
    put_one(collecting, "outcome", "denied", SUM_OF(collecting, denied));
}

/* ---- other nodes ----------------------------------------------------------------------------- */

/* By name, as people know nodes: two that have one are one series. */
static void collect_peers(struct collecting *collecting)
{
    const struct shard_told *told = collecting->report->told;
    for (uint32_t i = 0; told != NULL && i < told->peer_count; i++) {
        const struct swim_member *member =
            swim_find(collecting->control->swim, told->peers[i].node);
        struct peer_series peer = {.forwarded = told->peers[i].forwarded,
                                   .lag_ns = told->peers[i].lag_ns};
        uint32_t at = 0;
        if (member != NULL)
            (void)snprintf(peer.name, sizeof peer.name, "%.*s", NODE_LEN - 1, member->record.name);
        else
            (void)snprintf(peer.name, sizeof peer.name, "%016" PRIx64, told->peers[i].node);
        while (at < collecting->peer_count && strcmp(collecting->peers[at].name, peer.name) != 0)
            at++;
        ASSERT(at < METRIC_PEERS_MAX); /* told has no more */
        if (at < collecting->peer_count) {
            peer.forwarded += collecting->peers[at].forwarded;
            if (collecting->peers[at].lag_ns > peer.lag_ns)
                peer.lag_ns = collecting->peers[at].lag_ns;
        } else {
            collecting->peer_count++;
        }
        collecting->peers[at] = peer;
    }
}

static void put_forwarded(const struct collecting *collecting)
{
    const struct shard_told *told = collecting->report->told;
    uint64_t others = told != NULL ? told->forwarded_more : 0;
    for (uint32_t i = 0; i < collecting->peer_count; i++) {
        const struct peer_series *peer = &collecting->peers[i];
        if (strcmp(peer->name, OTHER) == 0)
            others += peer->forwarded;
        else
            put_one(collecting, "peer", peer->name, peer->forwarded);
    }
    put_one(collecting, "peer", OTHER, others);
}

static void put_lags(const struct collecting *collecting)
{
    for (uint32_t i = 0; i < collecting->peer_count; i++) {
        const struct metric_labels labels = {{{"peer", collecting->peers[i].name}}};
        metric_put_ns(collecting->text, &labels, collecting->peers[i].lag_ns);
    }
}

static int64_t acknowledgement(const struct collecting *collecting)
{
    struct lag lag = {.max_ns = 0};
    for (uint32_t i = 0; i < collecting->report->shard_count; i++)
        lag_join(&lag, &collecting->report->shards[i].lag);
    return lag_quantile_ns(&lag, 990);
}

static void put_members(const struct collecting *collecting)
{
    struct swim_stats stats;
    const uint32_t removed = control_count_removed(collecting->control);
    swim_stats(collecting->control->swim, &stats);
    put_one(collecting, "state", "alive", stats.alive);
    put_one(collecting, "state", "suspect", stats.suspect);
    put_one(collecting, "state", "dead", stats.dead - removed);
    put_one(collecting, "state", "left", stats.left + removed);
}

static uint64_t regions_unreachable(const struct collecting *collecting)
{
    const struct swim_region *region;
    uint64_t count = 0;
    size_t cursor = 0;
    while ((region = swim_region_next(collecting->control->swim, &cursor)) != NULL)
        count += strcmp(region->name, collecting->control->options.region) != 0 &&
                 region->members[SWIM_ALIVE] + region->members[SWIM_SUSPECT] +
                         region->members[SWIM_DEAD] >
                     0 &&
                 !control_region_reached(collecting->now_ns, region);
    return count;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static uint64_t ring_epoch(const struct collecting *collecting)
{
    return collecting->control->config->epoch;
}

static uint64_t ring_stable(const struct collecting *collecting)
{
    return ring_config_is_stable(collecting->control->config);
}

static bool lives(const struct control *control, uint64_t id)
{
    return id == control->options.node_id || control_alive(control, id);
}

static uint64_t register_majority(const struct collecting *collecting)
{
    return collecting->control->config->epoch > 0 && !voters_frozen(collecting->control);
}

static void put_voters(const struct collecting *collecting)
{
    const struct ring_config *config = collecting->control->config;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < config->voters_count; i++)
        alive += lives(collecting->control, config->voters[i]);
    put_one(collecting, "state", "alive", alive);
    put_one(collecting, "state", "lost", config->voters_count - alive);
}

static void put_vnodes(const struct collecting *collecting)
{
    put_one(collecting, "role", "deciding", SUM_OF(collecting, vnodes_leading));
    put_one(collecting, "role", "replica", SUM_OF(collecting, vnodes_replica));
    put_one(collecting, "role", "recovering", SUM_OF(collecting, vnodes_recovering));
}

static void put_handoff(const struct collecting *collecting)
{
    put_one(collecting, "direction", "give", SUM_OF(collecting, handoff.give));
    put_one(collecting, "direction", "receive", SUM_OF(collecting, handoff.receive));
}

static void put_handoff_bytes(const struct collecting *collecting)
{
    put_one(collecting, "direction", "give", SUM_OF(collecting, handoff.sent));
    put_one(collecting, "direction", "receive", SUM_OF(collecting, handoff.received));
}

static int64_t clock_offset(const struct collecting *collecting)
{
    return cluster_time_target_ns(collecting->control->time);
}

static uint64_t clock_agreed(const struct collecting *collecting)
{
    return cluster_time_agreed(collecting->control->time);
}

/* ---- memory and disk ------------------------------------------------------------------------- */

/* Of all bytes for keys, the part of the places that are taken. */
static uint64_t memory_used(const struct collecting *collecting)
{
    const uint64_t slots_max = SUM_OF(collecting, slots_max);
    const uint64_t each = slots_max > 0 ? collecting->report->memory_max / slots_max : 0;
    return SUM_OF(collecting, slots) * each;
}

static int64_t flush_age(const struct collecting *collecting)
{
    return collecting->report->flush_lag_ns;
}

static uint64_t store_closed(const struct collecting *collecting)
{
    return collecting->report->storage_closed;
}

/* ---- configuration --------------------------------------------------------------------------- */

static uint64_t config_version(const struct collecting *collecting)
{
    return settings_version_shown(collecting->control->settings->version);
}

static uint64_t config_majority(const struct collecting *collecting)
{
    return collecting->control->settings->version != 0 &&
           !control_settings_frozen(collecting->control);
}

static uint64_t rule_count(const struct collecting *collecting)
{
    return policy_rule_count(collecting->report->policy);
}

/* ---- connections ----------------------------------------------------------------------------- */

static uint64_t figure(const struct control_figure *figures, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(figures[i].name, name) == 0)
            return figures[i].value;
    return 0;
}

/* Of the clients of one protocol. */
static uint64_t client_figure(const struct collecting *collecting, int protocol, const char *name)
{
    const struct control_report *report = collecting->report;
    switch (protocol) {
    case ANSWERED_REDIS:
        return figure(report->resp, report->resp_count, name);
    case ANSWERED_HTTP:
        return figure(report->http, report->http_count, name);
    default:
        return figure(report->native, report->native_count, name);
    }
}

static void put_client_figure(const struct collecting *collecting, const char *name)
{
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        put_one(collecting, "protocol", protocols[i], client_figure(collecting, i, name));
}

static void put_refused(const struct collecting *collecting)
{
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        put_one(collecting, "protocol", protocols[i],
                client_figure(collecting, i, "refused") +
                    client_figure(collecting, i, "accept_failures"));
}

struct reason {
    const char *reason;
    const char *figure;
};

static void put_closed(const struct collecting *collecting)
{
    static const struct reason reasons[] = {{"protocol_error", "protocol_errors"},
                                            {"slow_reader", "slow_readers"},
                                            {"unfinished", "unfinished"},
                                            {"idle", "idle"},
                                            {"crowded", "crowded"},
                                            {"evicted", "evicted"}};
    for (int i = 0; i < ANSWERED_PROTOCOLS; i++)
        for (size_t k = 0; k < sizeof reasons / sizeof *reasons; k++)
            put_two(collecting, &(struct metric_label){"protocol", protocols[i]}, "reason",
                    reasons[k].reason, client_figure(collecting, i, reasons[k].figure));
}

static void put_responses(const struct collecting *collecting)
{
    const uint64_t all = client_figure(collecting, ANSWERED_HTTP, "answered");
    const uint64_t sent_on = client_figure(collecting, ANSWERED_HTTP, "answered_3xx");
    const uint64_t refused = client_figure(collecting, ANSWERED_HTTP, "answered_4xx");
    const uint64_t failed = client_figure(collecting, ANSWERED_HTTP, "answered_5xx");
    put_one(collecting, "class", "2xx", all - sent_on - refused - failed);
    put_one(collecting, "class", "3xx", sent_on);
    put_one(collecting, "class", "4xx", refused);
    put_one(collecting, "class", "5xx", failed);
}

static void put_reasons(const struct collecting *collecting, const char *label,
                        const struct reason *reasons, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_one(collecting, label, reasons[i].reason,
                client_figure(collecting, ANSWERED_HTTP, reasons[i].figure));
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void put_resets(const struct collecting *collecting)
{
    static const struct reason reasons[] = {
        {"refused", "h2_refused"}, {"cancelled", "h2_cut"}, {"late", "h2_late"}};
    put_reasons(collecting, "reason", reasons, COUNT(reasons));
}

static void put_goaways(const struct collecting *collecting)
{
    static const struct reason reasons[] = {
        {"flood", "h2_floods"}, {"age", "h2_aged"}, {"silent", "h2_unanswered"}};
    put_reasons(collecting, "reason", reasons, COUNT(reasons));
}

static void put_calls(const struct collecting *collecting)
{
    for (uint32_t i = 0; i < collecting->report->call_count; i++) {
        const struct control_call *at = &collecting->report->calls[i];
        put_two(collecting, &(struct metric_label){"method", at->method}, "status", at->status,
                at->count);
    }
}

static uint64_t files_paused(const struct collecting *collecting)
{
    return figure(collecting->report->files, collecting->report->files_count, "paused");
}

/* Of what is counted under `prefix`, a line for each result. */
static void put_results(const struct collecting *collecting, const char *prefix)
{
    const struct control_report *report = collecting->report;
    for (uint32_t i = 0; i < report->telemetry_count; i++) {
        const struct control_figure *at = &report->telemetry[i];
        if (strncmp(at->name, prefix, strlen(prefix)) == 0)
            put_one(collecting, "result", at->name + strlen(prefix), at->value);
    }
}

/* ---- names of Gubernator --------------------------------------------------------------------- */

static void put_calltypes(const struct collecting *collecting)
{
    static const struct reason types[] = {{"local", "gubernator_local"},
                                          {"forward", "gubernator_forward"},
                                          {"global", "gubernator_global"}};
    put_reasons(collecting, "calltype", types, COUNT(types));
}

/* Its own words, but for `Busy`: it has no bound that would refuse an item. */
static void put_errors(const struct collecting *collecting)
{
    static const struct reason errors[] = {{"Invalid request", "gubernator_invalid"},
                                           {"Invalid algorithm", "gubernator_algorithm"},
                                           {"Request too large", "gubernator_too_large"},
                                           {"Timeout", "gubernator_timeout"},
                                           {"Busy", "gubernator_busy"}};
    put_reasons(collecting, "error", errors, COUNT(errors));
}

/* Of each of its methods, whose statuses follow each other. */
static void put_outcomes(const struct collecting *collecting)
{
    static const char service[] = "pb.gubernator.V1/";
    const struct control_report *report = collecting->report;
    uint64_t counts[2] = {0, 0}; /* failed, success */
    for (uint32_t i = 0; i < report->call_count; i++) {
        const struct control_call *at = &report->calls[i];
        char method[METHOD_LEN];
        if (strncmp(at->method, service, sizeof service - 1) != 0)
            continue;
        counts[strcmp(at->status, "OK") == 0] += at->count;
        if (i + 1 < report->call_count && strcmp(at[1].method, at->method) == 0)
            continue;
        (void)snprintf(method, sizeof method, "/%s", at->method);
        put_two(collecting, &(struct metric_label){"status", "success"}, "method", method,
                counts[1]);
        put_two(collecting, &(struct metric_label){"status", "failed"}, "method", method,
                counts[0]);
        counts[0] = counts[1] = 0;
    }
}

/* ---- the process ----------------------------------------------------------------------------- */

static int64_t process_cpu(const struct collecting *collecting)
{
    return collecting->report->process.cpu_ns;
}

static int64_t process_start(const struct collecting *collecting)
{
    return collecting->report->started_ns;
}

/* ---- all ------------------------------------------------------------------------------------- */

#define SUM(field)                                                                                 \
    {                                                                                              \
        .offset = offsetof(struct shard_stats, field),                                             \
        .len = sizeof(((const struct shard_stats *)0)->field)                                      \
    }

#define REPORT(field)                                                                              \
    {                                                                                              \
        .report = true, .offset = offsetof(struct control_report, field)                           \
    }

static const struct source sources[METRICS_ALL] = {
    [METRIC_BUILD_INFO] = {.lines = put_build},
    [METRIC_NODE_INFO] = {.lines = put_node},
    [METRIC_HEALTHY] = {.number = is_healthy},
    [METRIC_TROUBLE] = {.lines = put_troubles},
    [METRIC_FIGURES_AGE] = {.ns = figures_age},
    [METRIC_CHECKS] = {.lines = put_checks},
    [METRIC_CHECK_DURATION] = {.lines = put_durations},
    [METRIC_DEGRADED] = {.lines = put_degraded},
    [METRIC_RULE_DECISIONS] = {.lines = put_rules},
    [METRIC_DECIDED] = {.lines = put_decided},
    [METRIC_FORWARDED] = {.lines = put_forwarded},
    [METRIC_RESENT] = SUM(resent),
    [METRIC_BUSY] = SUM(busy),
    [METRIC_SHED] = SUM(shed),
    [METRIC_EXPIRED] = SUM(expired),
    [METRIC_STAND_IN] = SUM(fallbacks),
    [METRIC_UNCOUNTED] = SUM(uncounted),
    [METRIC_WAITING] = SUM(checks_pending),
    [METRIC_RETRIES_RECALLED] = SUM(retries_recalled),
    [METRIC_RETRIES_LOST] = SUM(retry_lost),
    [METRIC_UNDO_LOST] = SUM(undo_lost),
    [METRIC_QUORUM_UNAVAILABLE] = SUM(quorum.unavailable),
    [METRIC_OVER_ADMISSION] = SUM(over_tokens),
    [METRIC_CUT_OFF] = SUM(vnodes_cut_off),
    [METRIC_UNDECIDED] = SUM(quorum.vnodes_undecided),
    [METRIC_KEYS] = SUM(slots),
    [METRIC_KEYS_LIMIT] = SUM(slots_max),
    [METRIC_KEYS_ROOM] = SUM(room),
    [METRIC_MEMORY_USED] = {.number = memory_used},
    [METRIC_MEMORY_LIMIT] = REPORT(memory_max),
    [METRIC_TURNED_AWAY] = SUM(turned_away),
    [METRIC_EVICTED] = SUM(evicted),
    [METRIC_LOADS] = SUM(loads),
    [METRIC_FLUSH_AGE] = {.ns = flush_age},
    [METRIC_STORE_USED] = REPORT(storage_used),
    [METRIC_STORE_LIMIT] = REPORT(storage_most),
    [METRIC_STORE_CLOSED] = {.number = store_closed},
    [METRIC_STORE_ERRORS] = REPORT(storage_failed_writes),
    [METRIC_MEMBERS] = {.lines = put_members},
    [METRIC_REGIONS_UNREACHABLE] = {.number = regions_unreachable},
    [METRIC_RING_EPOCH] = {.number = ring_epoch},
    [METRIC_RING_STABLE] = {.number = ring_stable},
    [METRIC_REGISTER_MAJORITY] = {.number = register_majority},
    [METRIC_VOTERS] = {.lines = put_voters},
    [METRIC_VNODES] = {.lines = put_vnodes},
    [METRIC_VNODES_INCOMPLETE] = SUM(vnodes_incomplete),
    [METRIC_TAKEOVERS] = SUM(takeovers),
    [METRIC_TERMS] = SUM(terms_opened),
    [METRIC_MERGES] = SUM(merges),
    [METRIC_HANDOFF_PENDING] = {.lines = put_handoff},
    [METRIC_HANDOFF_BYTES] = {.lines = put_handoff_bytes},
    [METRIC_REPLICATION_LAG] = {.lines = put_lags},
    [METRIC_ACKNOWLEDGEMENT] = {.ns = acknowledgement},
    [METRIC_STALLS] = SUM(stalls),
    [METRIC_LINKS_DROPPED] = REPORT(links_dropped),
    [METRIC_CLOCK_OFFSET] = {.ns = clock_offset},
    [METRIC_CLOCK_AGREED] = {.number = clock_agreed},
    [METRIC_CONFIG_VERSION] = {.number = config_version},
    [METRIC_CONFIG_MAJORITY] = {.number = config_majority},
    [METRIC_CONFIG_FAILURES] = REPORT(rules_refusals),
    [METRIC_RULES_UNREAD] = REPORT(rules_unread),
    [METRIC_RULES] = {.number = rule_count},
    [METRIC_CONNECTIONS] = {.clients = "connections"},
    [METRIC_ACCEPTED] = {.clients = "accepted"},
    [METRIC_REFUSED] = {.lines = put_refused},
    [METRIC_CLOSED] = {.lines = put_closed},
    [METRIC_REQUESTS] = {.clients = "commands"},
    [METRIC_HTTP_RESPONSES] = {.lines = put_responses},
    [METRIC_H2_CONNECTIONS] = {.http = "h2_connections"},
    [METRIC_H2_STREAMS] = {.http = "h2_streams"},
    [METRIC_H2_CUT] = {.lines = put_resets},
    [METRIC_H2_ENDED] = {.lines = put_goaways},
    [METRIC_GRPC] = {.lines = put_calls},
    [METRIC_FILES_PAUSED] = {.number = files_paused},
    [METRIC_LOG_DROPPED] = REPORT(log_lines_dropped),
    [METRIC_SPANS] = {.results = "spans_"},
    [METRIC_PUSHES] = {.results = "pushes_"},
    [METRIC_TRACE_LINES] = {.results = "lines_"},
    [METRIC_CPU] = {.ns = process_cpu},
    [METRIC_RESIDENT] = REPORT(process.resident),
    [METRIC_VIRTUAL] = REPORT(process.virtual),
    [METRIC_OPEN_FDS] = REPORT(process.open_files),
    [METRIC_MAX_FDS] = REPORT(process.max_files),
    [METRIC_START_TIME] = {.ns = process_start},
    [METRIC_GUBERNATOR_CALLS] = {.lines = put_calltypes},
    [METRIC_GUBERNATOR_OVER] = {.http = "gubernator_over"},
    [METRIC_GUBERNATOR_ERRORS] = {.lines = put_errors},
    [METRIC_GUBERNATOR_CACHE] = SUM(slots),
    [METRIC_GUBERNATOR_CONCURRENT] = SUM(checks_pending),
    [METRIC_GUBERNATOR_GRPC] = {.lines = put_outcomes},
};

static uint64_t number_of(const struct collecting *collecting, const struct source *source)
{
    uint64_t number;
    if (source->number != NULL)
        return source->number(collecting);
    if (source->http != NULL)
        return client_figure(collecting, ANSWERED_HTTP, source->http);
    if (!source->report)
        return sum_at(collecting, source->offset, source->len);
    memcpy(&number, (const char *)collecting->report + source->offset, sizeof number);
    return number;
}

static void collect(const struct collecting *collecting)
{
    const bool theirs = collecting->report->metrics_compat == METRICS_COMPAT_GUBERNATOR;
    for (int i = 0; i < (theirs ? METRICS_ALL : METRICS); i++) {
        const struct source *source = &sources[i];
        ASSERT(source->lines != NULL || source->number != NULL || source->ns != NULL ||
               source->len > 0 || source->report || source->results != NULL ||
               source->clients != NULL || source->http != NULL);
        metric_begin(collecting->text, (enum metric_id)i);
        if (source->lines != NULL)
            source->lines(collecting);
        else if (source->ns != NULL)
            metric_put_ns(collecting->text, NULL, source->ns(collecting));
        else if (source->clients != NULL)
            put_client_figure(collecting, source->clients);
        else if (source->results != NULL)
            put_results(collecting, source->results);
        else
            metric_put(collecting->text, NULL, number_of(collecting, source));
    }
}

bool metrics_page_make(const struct control *control, const struct control_report *report,
                       int64_t now_ns, struct control_page *page)
{
    struct conditions conditions;
    struct metric_text text;
    struct collecting collecting = {
        .control = control, .report = report, .now_ns = now_ns, .text = &text};
    conditions_look(control, report, &conditions);
    collecting.healthy = !conditions.grave;
    collect_peers(&collecting);
    metric_text_init(&text, page->text, sizeof page->text);
    collect(&collecting);
    page->len = text.failed ? 0 : text.len;
    return !text.failed;
}

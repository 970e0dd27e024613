/* metric_table.c - the table; metric_table.h tells what is made of it. */
#include "node/cluster/metrics/metric_table.h"

#include "base/assert.h"

#define COUNTER(n, l, h)                                                                           \
    {                                                                                              \
        .name = "tidegate_" n "_total", .type = METRIC_COUNTER, .labels = l, .help = h             \
    }
#define GAUGE(n, l, h)                                                                             \
    {                                                                                              \
        .name = "tidegate_" n, .type = METRIC_GAUGE, .labels = l, .help = h                        \
    }

#define THEIRS(n, t, l, h)                                                                         \
    {                                                                                              \
        .name = "gubernator_" n, .type = t, .labels = l, .help = h                                 \
    }

static const struct metric table[METRICS_ALL] = {
    /* ---- the node */
    [METRIC_BUILD_INFO] = GAUGE("build_info", "version", "Always 1. The label tells the version."),
    [METRIC_NODE_INFO] =
        GAUGE("node_info", "node, region, zone",
              "Always 1. The labels tell which node of which region and zone this is."),
    [METRIC_HEALTHY] = GAUGE(
        "healthy", "",
        "1 if this node sees a healthy cluster, 0 if it does not: `tidegate status` says why."),
    [METRIC_TROUBLE] = GAUGE(
        "trouble", "trouble",
        "1 while this node has that trouble, and 0 if not, as `health` of `tidegate members`."),
    [METRIC_FIGURES_AGE] = GAUGE("figures_age_seconds", "",
                                 "How old the oldest of the figures of deciding threads are."),

    /* ---- checks */
    [METRIC_CHECKS] = COUNTER("checks", "protocol, outcome",
                              "Checks that clients of this node were answered, whoever decided "
                              "them, or refused. Peeks, refunds and the like are checks, too."),
    [METRIC_CHECK_DURATION] =
        {.name = "tidegate_check_duration_seconds",
         .type = METRIC_HISTOGRAM,
         .labels = "protocol",
         .help = "From when a check was taken up to when its answer was written, of the same "
                 "checks but those that were refused unread. Waiting in sockets is no part of it."},
    [METRIC_DEGRADED] = COUNTER("degraded_decisions", "protocol",
                                "Of these checks, those that were answered without the certainty "
                                "that their rule asks for: `degraded` in the answer."),
    [METRIC_RULE_DECISIONS] =
        COUNTER("rule_decisions", "rule, outcome",
                "Checks by the rule that decided them, of the first 200 rules in acting order; "
                "`other` has all further ones. A rule on trial counts what it would have denied."),
    [METRIC_DECIDED] = COUNTER("decisions", "outcome",
                               "Parts of checks that this node decided, for whichever node asked."),
    [METRIC_FORWARDED] = COUNTER("forwarded_checks", "peer",
                                 "Parts of checks that were sent to that node to be decided."),
    [METRIC_RESENT] = COUNTER("resent_checks", "",
                              "Parts of checks that were sent again, as no answer had come."),
    [METRIC_BUSY] = COUNTER("busy_checks", "",
                            "Checks that were refused for want of room, shed ones included."),
    [METRIC_SHED] =
        COUNTER("shed_checks", "", "Checks that were refused unread, as too much waited already."),
    [METRIC_EXPIRED] = COUNTER("expired_checks", "",
                               "Checks that were not decided within their client's deadline."),
    [METRIC_STAND_IN] = COUNTER("stand_in_decisions", "",
                                "Parts of checks that were decided by a share of the limit, as "
                                "nobody who holds the key was in reach."),
    [METRIC_UNCOUNTED] =
        COUNTER("uncounted_tokens", "",
                "Tokens that `on_failure: open` allowed for want of room, without counting them."),
    [METRIC_WAITING] = GAUGE("waiting_checks", "",
                             "Parts of checks that wait for another node, a disk or a majority."),
    [METRIC_RETRIES_RECALLED] =
        COUNTER("retries_recalled", "", "Retries that were answered from memory, and not charged."),
    [METRIC_RETRIES_LOST] =
        COUNTER("retries_lost", "",
                "Answers that replicas may not know, so that a retry may be charged twice."),
    [METRIC_UNDO_LOST] =
        COUNTER("undo_lost", "", "Charges of denied checks that could not be given back in time."),
    [METRIC_QUORUM_UNAVAILABLE] =
        COUNTER("quorum_unavailable_checks", "",
                "Checks of `consistency: quorum` that no majority could confirm."),

    /* ---- what could be admitted too much */
    [METRIC_OVER_ADMISSION] =
        GAUGE("over_admission_bound", "",
              "Tokens that this node has granted and no replica in reach has acknowledged: so many "
              "could be admitted again if it died now."),
    [METRIC_CUT_OFF] =
        GAUGE("vnodes_cut_off", "",
              "Vnodes that are decided here with no other replica in reach: in a split each side "
              "may admit one limit a key."),
    [METRIC_UNDECIDED] = GAUGE("vnodes_undecided", "",
                               "Vnodes of `consistency: quorum` that nobody can decide now."),

    /* ---- memory and disk */
    [METRIC_KEYS] = GAUGE("keys", "", "Keys in memory."),
    [METRIC_KEYS_LIMIT] = GAUGE("keys_limit", "", "Keys that memory has places for."),
    [METRIC_KEYS_ROOM] = GAUGE(
        "keys_room", "",
        "Places in memory that new keys can have: free ones, and those of keys that may leave "
        "it, as the disk has them."),
    [METRIC_MEMORY_USED] = GAUGE("memory_used_bytes", "", "Of `--memory`, what keys take."),
    [METRIC_MEMORY_LIMIT] = GAUGE("memory_limit_bytes", "", "What `--memory` says."),
    [METRIC_TURNED_AWAY] = COUNTER("turned_away_keys", "", "New keys that found no room."),
    [METRIC_EVICTED] = COUNTER("evicted_keys", "", "Keys that left memory, and are on disk."),
    [METRIC_LOADS] = COUNTER("loaded_keys", "", "Keys that were looked for on disk."),
    [METRIC_FLUSH_AGE] = GAUGE("flush_age_seconds", "",
                               "Age of the oldest change that is not on disk; 0 if all is."),
    [METRIC_STORE_USED] = GAUGE("store_used_bytes", "", "What the store on disk holds."),
    [METRIC_STORE_LIMIT] =
        GAUGE("store_limit_bytes", "",
              "What the store may hold: `--store-max`, or what there is room for. 0: not known."),
    [METRIC_STORE_CLOSED] = GAUGE("store_closed", "", "1 while the store takes no further keys."),
    [METRIC_STORE_ERRORS] =
        COUNTER("store_errors", "", "Batches of changes that the disk did not take."),

    /* ---- the cluster */
    [METRIC_MEMBERS] = GAUGE("members", "state", "Members that this node knows, by state."),
    [METRIC_REGIONS_UNREACHABLE] =
        GAUGE("regions_unreachable", "", "Other regions of which this node hears nothing."),
    [METRIC_RING_EPOCH] = GAUGE("ring_epoch", "", "Number of the ring configuration."),
    [METRIC_RING_STABLE] = GAUGE("ring_stable", "", "0 while the ring is changing."),
    [METRIC_REGISTER_MAJORITY] =
        GAUGE("register_has_majority", "",
              "1 if a majority of the voters is alive, so that the ring can change."),
    [METRIC_VOTERS] =
        GAUGE("register_voters", "state", "Voters on the ring, and whether they are alive."),
    [METRIC_VNODES] = GAUGE("vnodes", "role", "Vnodes of this node by what it is for them."),
    [METRIC_VNODES_INCOMPLETE] =
        GAUGE("vnodes_incomplete", "",
              "Vnodes that are decided here, and of which some replica has no whole copy."),
    [METRIC_TAKEOVERS] =
        COUNTER("takeovers", "", "Vnodes that this node took over after their leader's silence."),
    [METRIC_TERMS] =
        COUNTER("terms_opened", "", "Times that this node began to decide for a vnode."),
    [METRIC_MERGES] = COUNTER("merges", "", "Branches of a split that were merged here."),
    [METRIC_HANDOFF_PENDING] = GAUGE("handoff_pending_vnodes", "direction",
                                     "Vnodes of which a whole copy is still to be sent, or come."),
    [METRIC_HANDOFF_BYTES] = COUNTER("handoff_bytes", "direction", "Bytes of whole copies."),
    [METRIC_REPLICATION_LAG] =
        GAUGE("replication_lag_seconds", "peer",
              "How long that node has acknowledged nothing of what is on its way to it; 0 if "
              "nothing is."),
    [METRIC_ACKNOWLEDGEMENT] =
        GAUGE("acknowledgement_p99_seconds", "",
              "In 99 of 100 cases a replica acknowledged a grant sooner, in the last minutes."),
    [METRIC_STALLS] =
        COUNTER("stalls", "", "Pauses of deciding threads that others could have noticed."),
    [METRIC_LINKS_DROPPED] = COUNTER("link_frames_dropped", "",
                                     "Frames to other nodes that no connection took at once."),
    [METRIC_CLOCK_OFFSET] = GAUGE(
        "clock_offset_seconds", "",
        "By how much this node's cluster time is to be slewed to meet the majority's clocks."),
    [METRIC_CLOCK_AGREED] =
        GAUGE("clock_agreed", "", "1 if a majority of the ring agrees on the time within 2 s."),

    /* ---- configuration */
    [METRIC_CONFIG_VERSION] =
        GAUGE("config_version", "", "Version of the configuration store at this node."),
    [METRIC_CONFIG_MAJORITY] =
        GAUGE("config_has_majority", "", "1 if edits of rules, blocks and keys can be made."),
    [METRIC_CONFIG_FAILURES] = COUNTER("config_apply_failures", "",
                                       "Times that newer rules could not be put in force here."),
    [METRIC_RULES_UNREAD] =
        COUNTER("rules_reload_failures", "",
                "Times that what `--rules` names was not taken: it cannot be read, or is wrong."),
    [METRIC_RULES] = GAUGE("rules", "", "Rules in force."),

    /* ---- connections */
    [METRIC_CONNECTIONS] = GAUGE("connections", "protocol", "Clients that are connected."),
    [METRIC_ACCEPTED] = COUNTER("accepted_connections", "protocol", "Clients that were let in."),
    [METRIC_REFUSED] = COUNTER("refused_connections", "protocol",
                               "Clients that were closed at once, or not accepted: there were too "
                               "many, or no descriptor was left."),
    [METRIC_CLOSED] = COUNTER("closed_connections", "protocol, reason",
                              "Clients that this node closed, and why."),
    [METRIC_REQUESTS] = COUNTER("requests", "protocol", "Requests and commands of any kind."),
    [METRIC_HTTP_RESPONSES] = COUNTER("http_responses", "class", "Responses by class of status."),
    [METRIC_H2_CONNECTIONS] =
        COUNTER("http2_connections", "", "Clients of HTTP that spoke HTTP/2, gRPC among them."),
    [METRIC_H2_STREAMS] = COUNTER("http2_streams", "", "Requests that began over HTTP/2."),
    [METRIC_H2_CUT] = COUNTER("http2_resets", "reason",
                              "Of these, those that got no answer: `refused` for want of room, "
                              "`cancelled` by their client, or `late` in coming or being read."),
    [METRIC_H2_ENDED] =
        COUNTER("http2_goaways", "reason",
                "Connections of HTTP/2 that this node ended: for a `flood` of frames that ask for "
                "nothing, for their `age`, or as their client was `silent`."),
    [METRIC_GRPC] = COUNTER("grpc_requests", "method, status",
                            "Requests of gRPC by their method, `other` for what is none here, and "
                            "the status that they were answered with."),
    [METRIC_FILES_PAUSED] =
        GAUGE("accepting_paused", "",
              "1 while no further client is let in, as open files are nearly used up."),
    [METRIC_LOG_DROPPED] =
        COUNTER("log_lines_dropped", "", "Lines of the log that standard error did not take."),

    [METRIC_SPANS] = COUNTER("trace_spans", "result",
                             "Spans of traced requests: sent to the collector, rejected by it "
                             "alone or failed with their message, or dropped for want of room."),
    [METRIC_PUSHES] = COUNTER("metric_pushes", "result",
                              "Pages of metrics that were sent to the collector, failed, or were "
                              "dropped as a newer one had come."),
    [METRIC_TRACE_LINES] =
        COUNTER("trace_log_lines", "result",
                "Lines on traced requests that the log has, or that were dropped as there were too "
                "many in their second."),

    /* ---- the process */
    [METRIC_CPU] = {.name = "process_cpu_seconds_total",
                    .type = METRIC_COUNTER,
                    .labels = "",
                    .help = "Time of processors that the process has used."},
    [METRIC_RESIDENT] = {.name = "process_resident_memory_bytes",
                         .type = METRIC_GAUGE,
                         .labels = "",
                         .help = "Memory of the process that is in the machine's."},
    [METRIC_VIRTUAL] = {.name = "process_virtual_memory_bytes",
                        .type = METRIC_GAUGE,
                        .labels = "",
                        .help = "Memory that the process has asked for."},
    [METRIC_OPEN_FDS] = {.name = "process_open_fds",
                         .type = METRIC_GAUGE,
                         .labels = "",
                         .help = "Open files, with those that are held back for other nodes."},
    [METRIC_MAX_FDS] = {.name = "process_max_fds",
                        .type = METRIC_GAUGE,
                        .labels = "",
                        .help = "Files that the process may open."},
    [METRIC_START_TIME] = {.name = "process_start_time_seconds",
                           .type = METRIC_GAUGE,
                           .labels = "",
                           .help = "When the process began, as Unix time."},

    /* ---- names of Gubernator */
    [METRIC_GUBERNATOR_CALLS] =
        THEIRS("getratelimit_counter", METRIC_COUNTER, "calltype",
               "Items of GetRateLimits that this node was asked, by gRPC or HTTP, and answered: "
               "decided here (`local`), by another node (`forward`), or with GLOBAL, wherever "
               "(`global`)."),
    [METRIC_GUBERNATOR_OVER] = THEIRS("over_limit_counter", METRIC_COUNTER, "",
                                      "Of these items, those that were over their limit."),
    [METRIC_GUBERNATOR_ERRORS] =
        THEIRS("check_error_counter", METRIC_COUNTER, "error",
               "Items that were answered with an error instead, and requests of too many items."),
    [METRIC_GUBERNATOR_CACHE] = THEIRS("cache_size", METRIC_GAUGE, "",
                                       "Keys in memory, however they are asked: `tidegate_keys`."),
    [METRIC_GUBERNATOR_CONCURRENT] =
        THEIRS("concurrent_checks_counter", METRIC_GAUGE, "",
               "Parts of checks in flight, however they are asked: `tidegate_waiting_checks`."),
    [METRIC_GUBERNATOR_GRPC] =
        THEIRS("grpc_request_counts", METRIC_COUNTER, "status, method",
               "Requests of gRPC for methods of Gubernator that were answered, as `success` or "
               "`failed`."),
};

const char *const metrics_compat_words[] = {
    [METRICS_COMPAT_OFF] = "off", [METRICS_COMPAT_GUBERNATOR] = "gubernator", NULL};

const struct metric *metric_of(enum metric_id id)
{
    ASSERT((unsigned)id < METRICS_ALL && table[id].name != NULL);
    return &table[id];
}

const char *metric_type_name(enum metric_type type)
{
    static const char *const names[] = {"counter", "gauge", "histogram"};
    ASSERT((unsigned)type < sizeof names / sizeof *names);
    return names[type];
}

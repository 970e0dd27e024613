/* metric_table.h - every metric of a node once: its name, its type, its labels, what it tells.
 *
 *   {"tidegate_keys", METRIC_GAUGE, "", "Keys in memory."}  -->  # HELP, # TYPE of /metrics
 *                                                           -->  the reference page
 *
 * Where a value comes from is beside what collects it (exposition/metrics_page.c), which has one
 * entry for each of these.
 *
 * METRIC-1  Of our own, counters end with _total, and nothing else does; times are in seconds,
 *           sizes in bytes. Names of others are theirs to the letter, and shown where they are
 *           asked for alone.
 * METRIC-2  No key, user, address or value is a label. What is, is bounded: nodes by
 *           METRIC_PEERS_MAX, rules by ANSWERED_RULES_MAX, all else by this table.
 * METRIC-3  A series whose labels are known is there from the start, at 0.
 */
#ifndef NODE_CLUSTER_METRICS_METRIC_TABLE_H
#define NODE_CLUSTER_METRICS_METRIC_TABLE_H

#include <stddef.h>

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum metric_id {
    METRIC_BUILD_INFO,
    METRIC_NODE_INFO,
    METRIC_HEALTHY,
    METRIC_TROUBLE,
    METRIC_FIGURES_AGE,

    METRIC_CHECKS,
    METRIC_CHECK_DURATION,
    METRIC_DEGRADED,
    METRIC_RULE_DECISIONS,
    METRIC_DECIDED,
    METRIC_FORWARDED,
    METRIC_RESENT,
    METRIC_BUSY,
    METRIC_SHED,
    METRIC_EXPIRED,
    METRIC_STAND_IN,
    METRIC_UNCOUNTED,
    METRIC_WAITING,
    METRIC_RETRIES_RECALLED,
    METRIC_RETRIES_LOST,
    METRIC_UNDO_LOST,
    METRIC_QUORUM_UNAVAILABLE,

    METRIC_OVER_ADMISSION,
    METRIC_CUT_OFF,
    METRIC_UNDECIDED,

    METRIC_KEYS,
    METRIC_KEYS_LIMIT,
    METRIC_KEYS_ROOM,
    METRIC_MEMORY_USED,
    METRIC_MEMORY_LIMIT,
    METRIC_TURNED_AWAY,
    METRIC_EVICTED,
    METRIC_LOADS,
    METRIC_FLUSH_AGE,
    METRIC_STORE_USED,
    METRIC_STORE_LIMIT,
    METRIC_STORE_CLOSED,
    METRIC_STORE_ERRORS,

    METRIC_MEMBERS,
    METRIC_REGIONS_UNREACHABLE,
    METRIC_RING_EPOCH,
    METRIC_RING_STABLE,
    METRIC_REGISTER_MAJORITY,
    METRIC_VOTERS,
    METRIC_VNODES,
    METRIC_VNODES_INCOMPLETE,
    METRIC_TAKEOVERS,
    METRIC_TERMS,
    METRIC_MERGES,
    METRIC_HANDOFF_PENDING,
    METRIC_HANDOFF_BYTES,
    METRIC_REPLICATION_LAG,
    METRIC_ACKNOWLEDGEMENT,
    METRIC_STALLS,
    METRIC_LINKS_DROPPED,
    METRIC_CLOCK_OFFSET,
    METRIC_CLOCK_AGREED,

    METRIC_CONFIG_VERSION,
    METRIC_CONFIG_MAJORITY,
    METRIC_CONFIG_FAILURES,
    METRIC_RULES_UNREAD,
    METRIC_RULES,

    METRIC_CONNECTIONS,
    METRIC_ACCEPTED,
    METRIC_REFUSED,
    METRIC_CLOSED,
    METRIC_REQUESTS,
    METRIC_HTTP_RESPONSES,
    METRIC_H2_CONNECTIONS,
    METRIC_H2_STREAMS,
    METRIC_H2_CUT,
    METRIC_H2_ENDED,
    METRIC_GRPC,
    METRIC_FILES_PAUSED,
    METRIC_LOG_DROPPED,
    METRIC_SPANS,
    METRIC_PUSHES,
    METRIC_TRACE_LINES,

    METRIC_CPU,
    METRIC_RESIDENT,
    METRIC_VIRTUAL,
    METRIC_OPEN_FDS,
    METRIC_MAX_FDS,
    METRIC_START_TIME,
    METRICS, /* of our own; those of others follow */

    METRIC_GUBERNATOR_CALLS = METRICS,
    METRIC_GUBERNATOR_OVER,
    METRIC_GUBERNATOR_ERRORS,
    METRIC_GUBERNATOR_CACHE,
    METRIC_GUBERNATOR_CONCURRENT,
    METRIC_GUBERNATOR_GRPC,
    METRICS_ALL
};

/* Whose metrics are shown beside our own, under their names. */
enum metrics_compat { METRICS_COMPAT_OFF, METRICS_COMPAT_GUBERNATOR };
extern const char *const metrics_compat_words[]; /* and NULL */

enum { METRIC_PEERS_MAX = 256 };

struct metric {
    const char *name;
    enum metric_type type;
    const char *labels; /* their names, as people read a list; "" if there are none */
    const char *help;   /* whole sentences, of one line */
};

/* One metric. Static storage. */
const struct metric *metric_of(enum metric_id id);
/* "counter", "gauge", "histogram". */
const char *metric_type_name(enum metric_type type);

#endif

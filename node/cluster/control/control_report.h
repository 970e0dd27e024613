/* control_report.h - what the runtime tells of the node, beside what the control core knows itself:
 * for operators, and for metrics.
 */
#ifndef NODE_CLUSTER_CONTROL_CONTROL_REPORT_H
#define NODE_CLUSTER_CONTROL_CONTROL_REPORT_H

#include "node/cluster/metrics/metric_table.h"
#include "node/cluster/shard/shard.h"
#include "node/policy/compile/policy_errors.h"
#include "node/policy/compile/policy_warnings.h"
#include "node/policy/model/policy.h"

/* What a text of rules that came with a command has been compiled to. */
struct control_compiled {
    int error; /* 0, or that of policy_compile_zoned; TG_EBUSY: nobody had the time */
    struct policy *policy;
    struct policy_error place;
    const struct policy_errors *errors;    /* all places; NULL: they are not known */
    const struct policy_warning *warnings; /* what the policy probably does not mean */
    size_t warning_count;
};

/* A count of a part of the node that is not this core's. */
struct control_figure {
    const char *name;
    uint64_t value;
};

/* How many calls of gRPC's method were answered with that status. */
struct control_call {
    const char *method; /* without the slash in front; "other": none of this node's */
    const char *status;
    uint64_t count;
};

/* What the machine says of the process. */
struct control_process {
    int64_t cpu_ns;
    uint64_t resident; /* bytes of memory */
    uint64_t virtual;
    uint64_t open_files;
    uint64_t max_files;
};

/* A page of metrics, which whoever asks at the same time is told. */
enum { CONTROL_PAGE_MAX = 480 << 10 };
struct control_page {
    size_t len; /* 0: it is to be made */
    char text[CONTROL_PAGE_MAX];
};

struct event_log;
/* What the node as a whole is asked by an operator, beside what control knows itself. */
struct control_report {
    const struct shard_stats *shards;
    uint32_t shard_count;
    const struct policy *policy;
    const char *storage;            /* "lmdb", "ephemeral" */
    bool storage_ok;                /* false after a failed write, until one succeeds */
    bool storage_full;              /* which failed for want of room */
    uint64_t memory_max;            /* bytes, for keys */
    uint64_t storage_failed_writes; /* batches and drops since start that the disk refused */
    uint64_t storage_used;          /* bytes that the store holds, */
    uint64_t storage_most;    /* and may hold: a bound, or what there is room for; 0: unknown */
    unsigned storage_percent; /* of these: 80, 95 or 100 if so many are used, else 0 */
    bool storage_closed;      /* and so it takes no further keys */
    int64_t flush_lag_ns;     /* age of the oldest change not on disk, 0 = none */
    int64_t started_ns;
    const struct usage_ledger *usage;        /* totals of people and API keys; NULL: none */
    const struct control_compiled *compiled; /* NULL: what has to be compiled is compiled here */
    const struct control_figure *native;     /* of native clients, of all shards */
    uint32_t native_count;
    const struct control_figure *resp; /* of Redis clients */
    uint32_t resp_count;
    const struct control_figure *http; /* of HTTP clients */
    uint32_t http_count;
    const struct control_call *calls; /* of clients of gRPC, each method and status once */
    uint32_t call_count;
    uint64_t links_dropped;             /* frames that connections to peers did not take */
    uint64_t log_lines_dropped;         /* since start */
    const struct control_figure *files; /* open files, and clients kept out for want of them */
    uint32_t files_count;
    const struct control_figure *telemetry; /* what was pushed, and logged of traced requests */
    uint32_t telemetry_count;
    uint64_t rules_refusals;        /* times that newer rules could not be put in force, */
    uint64_t rules_unread;          /* and that those of the file were not taken */
    const struct shard_told *told;  /* of all shards, by the rules in force; NULL: not known */
    struct control_process process; /* all 0: not known */
    struct control_page *page;      /* of metrics, and events; NULL: they are not told */
    enum metrics_compat metrics_compat;
    struct event_log *events;
};

#endif

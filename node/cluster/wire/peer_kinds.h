/* peer_kinds.h - the kinds of records between shards, and what a node says it reads.
 */
#ifndef NODE_CLUSTER_WIRE_PEER_KINDS_H
#define NODE_CLUSTER_WIRE_PEER_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/limit/engine/elastic.h"

enum {
    PEER_VERSION = 1,
    PEER_FRAME_MAX = 1 << 20,
    PEER_ENVELOPE_MAX = 56,
    PEER_LIMITS_MAX = 8, /* of one forwarded check: one rule's limits */
    PEER_WAIT_MAX_MS = 10000,
    PEER_LOAD_MAX = 1000000, /* millionths */
    PEER_SHARE_LEN = 12,
    PEER_REPORT_MAX = 64 + ELASTIC_SHARES_MAX * PEER_SHARE_LEN, /* of either kind */
};

enum peer_record_type {
    PEER_PING = 1,
    PEER_FORWARD,
    PEER_ANSWER,
    PEER_MOVED,
    PEER_STREAM,
    PEER_TERM,
    PEER_SLOT,
    PEER_WATERMARK,
    PEER_ACK,
    PEER_STALE,
    PEER_QUERY,
    PEER_REPORT,
    PEER_PULL,
    PEER_TRANSFER,
    PEER_OPENED,
    PEER_HELD,
    PEER_LACK,
    PEER_LINEAGE,
    PEER_MERGE_BASE,
    PEER_APART,
    PEER_DIVERGED,
    PEER_DIVERGED_END,
    PEER_MERGED,
    PEER_EXPLAIN,
    PEER_POOL_REPORT,
    PEER_POOL_LEVEL,
    PEER_RESERVED,
    PEER_FORWARD_GLOBAL,
    PEER_REMOTE_PING,
    PEER_REMOTE_ASK,
    PEER_REMOTE_ANSWER,
    PEER_CHANGE,
    PEER_REMOTE_POOL_REPORT,
    PEER_REMOTE_POOL_LEVEL,
    PEER_FIRSTS,
    PEER_TYPE_END
};

/* What a peer may be sent. */
enum peer_reads {
    READS_SURE = 1, /* forwards that are to be sure */
    READS_FIRSTS = 2,
    READS_CLASSES = 4, /* the class of new keys in a forward */
    READS_ALL = READS_SURE | READS_FIRSTS | READS_CLASSES,
};

#endif

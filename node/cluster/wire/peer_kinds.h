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
    PEER_FORWARD = 2,
    PEER_ANSWER = 3,
    PEER_MOVED = 4,
    PEER_STREAM = 5,
    PEER_TERM = 6,
    PEER_SLOT = 7,
    PEER_WATERMARK = 8,
    PEER_ACK = 9,
    PEER_STALE = 10,
    PEER_QUERY = 11,
    PEER_REPORT = 12,
    PEER_PULL = 13,
    PEER_TRANSFER = 14,
    PEER_OPENED = 15,
    PEER_HELD = 16,
    PEER_LACK = 17,
    PEER_LINEAGE = 18,
    PEER_MERGE_BASE = 19,
    PEER_APART = 20,
    PEER_DIVERGED = 21,
    PEER_DIVERGED_END = 22,
    PEER_MERGED = 23,
    PEER_EXPLAIN = 24,
    PEER_POOL_REPORT = 25,
    PEER_POOL_LEVEL = 26,
    PEER_RESERVED = 27,
    PEER_FORWARD_GLOBAL = 28,
    PEER_REMOTE_PING = 29,
    PEER_REMOTE_ASK = 30,
    PEER_REMOTE_ANSWER = 31,
    PEER_CHANGE = 32,
    PEER_REMOTE_POOL_REPORT = 33,
    PEER_REMOTE_POOL_LEVEL = 34,
    PEER_FIRSTS = 35,
    PEER_TYPE_END
};

/* What a peer may be sent. */
enum peer_reads {
    READS_SURE = 1, /* forwards that are to be sure */
    READS_FIRSTS = 2,
    READS_CLASSES = 4,      /* the class of new keys in a forward */
    READS_RESERVATIONS = 8, /* tokens that are reserved, in forwards and in the bytes of slots */
    READS_ALL = READS_SURE | READS_FIRSTS | READS_CLASSES | READS_RESERVATIONS,
};

#endif

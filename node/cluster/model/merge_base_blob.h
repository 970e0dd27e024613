/* merge_base_blob.h - one thing that is remembered of a slot, so that two histories of it can be
 * merged; reconcile/merge_base.h keeps them, peer frames carry them.
 */
#ifndef NODE_CLUSTER_MODEL_MERGE_BASE_BLOB_H
#define NODE_CLUSTER_MODEL_MERGE_BASE_BLOB_H

#include <stdint.h>

#include "node/cluster/model/term.h"

enum {
    MERGE_BASE_BLOBS_MAX = 12,              /* of one entry */
    MERGE_BASE_ENTRY_BYTES_MAX = 128 << 10, /* of all blobs of one entry */
};

enum merge_base_kind {
    MERGE_BASE_STATE = 0,        /* the state when the line was cut at `term` */
    MERGE_BASE_CONTRIBUTION = 1, /* what was merged of the branch of `term`, up to `seq` of it */
    MERGE_BASE_WAITING = 2,      /* what is to be merged of it, once the slot is back from disk */
    MERGE_BASE_WAITING_BASE = 3, /* with WAITING: what it adds to, if that is not the slot itself */
    MERGE_BASE_KIND_END
};

struct merge_base_blob {
    enum merge_base_kind kind;
    struct term term;
    uint64_t seq;
    uint32_t event; /* of a contribution: names the term in which it was merged */
    uint32_t len;
};

#endif

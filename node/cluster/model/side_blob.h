/* side_blob.h - one thing that is remembered of a slot, so that two histories of it can be merged;
 * reconcile/side_table.h keeps them, peer frames carry them.
 */
#ifndef NODE_CLUSTER_MODEL_SIDE_BLOB_H
#define NODE_CLUSTER_MODEL_SIDE_BLOB_H

#include <stdint.h>

#include "node/cluster/model/term.h"

enum {
    SIDE_BLOBS_MAX = 12,              /* of one entry */
    SIDE_ENTRY_BYTES_MAX = 128 << 10, /* of all blobs of one entry */
};

enum side_kind {
    SIDE_BASE,         /* the state when the line was cut at `term` */
    SIDE_CONTRIBUTION, /* what was merged of the branch of `term`, up to `seq` of it */
    SIDE_WAITING,      /* what is to be merged of it, once the slot is back from disk */
    SIDE_WAITING_BASE, /* with WAITING: what it adds to, if that is not the slot itself */
    SIDE_KIND_END
};

struct side_blob {
    enum side_kind kind;
    struct term term;
    uint64_t seq;
    uint32_t event; /* of a contribution: names the term in which it was merged */
    uint32_t len;
};

#endif

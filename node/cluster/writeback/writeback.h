/* writeback.h - slots that are due for the disk, and what is with the storage writer. */
#ifndef NODE_CLUSTER_WRITEBACK_WRITEBACK_H
#define NODE_CLUSTER_WRITEBACK_WRITEBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "node/cluster/writeback/sort_buffer.h"

struct shard;

enum {
    SHARD_WRITES_MAX = 1 << 15,   /* slots of one write-back batch */
    SHARD_STAGE_MAX = 1 << 20,    /* slots that are put in order for write-back, at most, */
    SHARD_STAGE_MIN = 1 << 15,    /* a batch of them */
    SHARD_STAGE_SLOT_BYTES = 192, /* and one for so many bytes of the table */
};

/* What of the slots is due for the disk, and what is with the storage writer (writeback.c). */
enum writeback_round { ROUND_NONE, ROUND_FILLS, ROUND_ORDERS, ROUND_WRITES };

struct writeback {
    int64_t next_ns;
    int64_t dirty_ns; /* since when something is not on disk, 0 = all is */
    bool asked;
    bool more;     /* there is more to do than to wait for next_ns */
    uint8_t round; /* enum writeback_round: what is done with the stage */
    bool round_ok; /* no batch of the round failed */
    struct sort_buffer sort_buffer;
    int64_t began_ns;          /* the mark of the round, or of the last one */
    bool out;                  /* a batch is with the storage writer */
    struct table_write *batch; /* its slots, and such whose key is gone: in the stage */
    uint32_t batch_count;
    uint32_t copied;   /* of the first slots of the stage, for a batch that is not complete yet */
    uint32_t gathered; /* of these, writes in that batch: the others' keys are gone */
};

/* 0 or TG_ENOMEM. */
MUST_USE int writeback_init(struct shard *shard);
/* Whether nothing is dirty for the disk, nor on its way there. */
bool writeback_clean(const struct shard *shard);
void writeback_check_invariants(const struct shard *shard);

#endif

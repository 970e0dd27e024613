/* tallies.h - what is counted of a check when its client is told: for metrics, by rule, by user. */
#ifndef NODE_CLUSTER_REQUEST_TALLIES_H
#define NODE_CLUSTER_REQUEST_TALLIES_H

#include <stdint.h>

#include "node/cluster/model/answered.h"
#include "node/cluster/model/usage_tally.h"

struct row;
struct shard;

struct tallies {
    struct usage_tally *usage; /* NULL: nobody wants totals */
    struct answered answered;
};

/* Counts a row that is told its client for the first time, whose message came at `begun_ns`. */
void tallies_count(struct shard *shard, uint64_t connection, int64_t begun_ns,
                   const struct row *row, uint8_t outcome);

/* Counts so many checks whose message was refused as a whole: they have no time. */
void tallies_refused(struct shard *shard, uint64_t connection, uint32_t count, uint8_t outcome);

#endif

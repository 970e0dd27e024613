/* standing.h - how this node stands, in the log: its own stalls, majorities lost and won back. Pure
 * but for the log. */
#ifndef NODE_RUNTIME_CONTROL_STANDING_H
#define NODE_RUNTIME_CONTROL_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "node/cluster/shard/shard.h"

struct standing_state {
    uint32_t told; /* vnodes, as the log knows; 0: all is well */
    int64_t since_ns;
};

struct standing {
    int64_t looked_ns;
    struct standing_state degraded;
    struct standing_state undecided;
    int64_t stall_told_ns; /* 0: none yet */
    uint64_t stalls;       /* since then, which were not told, and the longest of them */
    int64_t longest_ns;
};

/* The control loop woke so much later than it wanted to. `now_ns` is of a clock that never goes
 * back. */
void standing_woke(struct standing *standing, int64_t now_ns, int64_t late_ns,
                   const struct log *log);
/* Whether it is time for standing_look: once a second. */
bool standing_due(const struct standing *standing, int64_t now_ns);
/* Looks at what the shards say of majorities. */
void standing_look(struct standing *standing, int64_t now_ns, const struct shard_stats *stats,
                   uint32_t count, const struct log *log);

#endif

/* support_swim.h - whole clusters of the real membership code on a network made of memory.
 *
 * Virtual time, one heap of events, everything drawn from one seed:
 *
 *   heap: (time, deliver bytes to node) | (time, tick node)
 *
 * Messages may be lost, delayed, duplicated (hence reordered) or cut off by a split. The nodes may
 * be of several regions of equal size, a wide-area delay apart: node i is of region i / size.
 */
#ifndef TESTS_UNIT_SUPPORT_SWIM_H
#define TESTS_UNIT_SUPPORT_SWIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "gossip/swim.h"

#define SWARM_MS       INT64_C(1000000)
#define SWARM_SECOND   (1000 * SWARM_MS)
#define SWARM_START_NS (INT64_C(1700000000) * SWARM_SECOND)

enum {
    SWARM_NODES_MAX = 1000,
    SWARM_REGIONS_MAX = 10,
    SWARM_KINDS = 16, /* of messages */
    SWARM_PPM = 1000000
};

struct swarm_node {
    struct swim *swim;
    struct swim_record record;
    bool up;
    bool paused;
    uint32_t side; /* only nodes of one side hear each other */
    int64_t skew_ns;
    int64_t tick_ns; /* the tick that counts; older ones in the heap are stale */
    uint64_t sent_bytes;
    uint64_t wan_bytes; /* of those, to other regions */
};

struct swarm_event {
    int64_t at_ns;
    uint64_t order;
    uint32_t node;
    uint32_t len; /* 0 = a tick */
    uint8_t *bytes;
};

struct swarm {
    struct random random;
    struct swim_options options;
    struct swim_effects effects;
    struct swarm_node nodes[SWARM_NODES_MAX];
    uint32_t nodes_count;
    struct swarm_event *heap;
    size_t heap_len;
    size_t heap_capacity;
    uint64_t events;
    int64_t now_ns;
    uint64_t loss_ppm;
    uint64_t duplicate_ppm;
    int64_t delay_min_ns;
    int64_t delay_max_ns;
    uint32_t region_nodes;                             /* of each */
    int64_t wan_ns;                                    /* further delay between regions, one way */
    bool cut[SWARM_REGIONS_MAX][SWARM_REGIONS_MAX];    /* no message from one to the other */
    uint64_t wan_sent[SWARM_REGIONS_MAX][SWARM_KINDS]; /* messages of a region to others */
    uint64_t deaths;                                   /* events that told of a death */
    int64_t *dead_at_ns;                               /* per observer, of the member `watched` */
    uint64_t watched;
};

/* A swarm of `nodes`, all started and with node 0 for their seed. */
struct swarm *swarm_new(uint32_t nodes, uint64_t seed);
/* Regions of `nodes` each, `wan_ns` apart; node 0, of the first region, is everybody's seed. */
struct swarm *swarm_new_regions(uint32_t regions, uint32_t nodes, int64_t wan_ns, uint64_t seed);
uint32_t swarm_region(const struct swarm *swarm, uint32_t node);
/* Cuts region `a` off from `b`, both ways, or joins them again. */
void swarm_cut(struct swarm *swarm, uint32_t a, uint32_t b, bool cut);
/* Checks every node's invariants, and frees all. */
void swarm_free(struct swarm *swarm);
void swarm_run(struct swarm *swarm, int64_t for_ns);
/* Starts (again) a node that is not up. */
void swarm_start(struct swarm *swarm, uint32_t at, uint32_t seed_node);
void swarm_kill(struct swarm *swarm, uint32_t at);
void swarm_pause(struct swarm *swarm, uint32_t at);
/* For who called a node directly: its next tick; what its effects ask for. */
void swarm_schedule(struct swarm *swarm, uint32_t at);
void swarm_do(struct swarm *swarm, uint32_t at);
uint64_t swarm_id(uint32_t node);
/* Whether every running node sees exactly the running ones as alive. */
bool swarm_agrees(const struct swarm *swarm);
/* Runs until all agree; returns how long it took, -1 if not within `within_ns`. */
int64_t swarm_settle(struct swarm *swarm, int64_t within_ns);
uint64_t swarm_sent_bytes(const struct swarm *swarm);
uint64_t swarm_wan_bytes(const struct swarm *swarm);
/* Kills `victim`, waits, and puts into `times_ns` when each other node marked it dead, or only when
 * the last one did; returns how many times. */
size_t swarm_death(struct swarm *swarm, uint32_t victim, int64_t *times_ns, bool last_only);

#endif

/* support_control.h - control cores of a small cluster, joined by a network of memory and time.
 *
 *     net_run: a tick each step --> control --> effects --> frames, delivered in the next step
 *                                                      +--> the disk: configuration, peers,
 *                                                           promises
 *
 * LABCONTROL-1  Nothing happens but by a call of these functions, and only net_run lets time pass.
 * LABCONTROL-2  A configuration that a node tells is the one on its disk at that moment
 *               (CONTROL-2), and its epoch never falls (CONTROL-1); every event is checked for
 *               both.
 */
#ifndef TESTS_UNIT_SUPPORT_CONTROL_H
#define TESTS_UNIT_SUPPORT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control.h"
#include "node/cluster/wire/join.h"
#include "ring/config.h"

#define NET_MS     INT64_C(1000000)
#define NET_SECOND (1000 * NET_MS)

enum { NET_NODES_MAX = 9, NET_FRAMES_MAX = 1024, NET_VNODES = 64, NET_VALUES_MAX = 4096 };

/* A value of the settings on a disk, in the order of keys. */
struct net_value {
    char key[64];
    uint8_t *bytes;
    size_t len;
};

struct net_node {
    struct control *control; /* NULL: not running */
    struct control_options options;
    bool cut;         /* nothing reaches it and nothing it says arrives */
    int64_t ahead_ns; /* of the others' time */
    uint32_t side;    /* of a split: only nodes of one side hear each other */
    uint32_t joined;  /* how many EFFECT_JOINED it has had since it started */
    uint64_t epoch;   /* the highest it has had */
    uint8_t *config;  /* its disk */
    size_t config_len;
    uint8_t *peers;
    size_t peers_len;
    uint8_t *ballots;
    size_t ballots_len;
    struct net_value *values; /* NET_VALUES_MAX */
    uint32_t value_count;
    bool group;       /* the last value was to be kept with one that follows */
    bool full;        /* its disk takes no more than `spare` transactions */
    uint32_t spare;   /* of one value or more */
    uint32_t refused; /* transactions for which there was no room */
    bool has_identity;
    struct control_identity identity;
};

struct net_frame {
    uint32_t from;
    uint32_t to;
    size_t len;
    uint8_t *bytes;
};

struct net {
    int64_t now_ns;
    int64_t step_ns;
    bool settles; /* shards take over at once: every new view is reported as settled */
    uint32_t count;
    struct net_node nodes[NET_NODES_MAX];
    struct effects effects;
    struct net_frame frames[NET_FRAMES_MAX];
    size_t frame_count;
    uint32_t told[JOIN_CONFIG + 1];    /* frames of each join_type that were sent */
    uint32_t asked[REGISTER_TYPE_END]; /* the same of each register_type */
    uint32_t figures;                  /* frames of figures.h */
    uint32_t sent;                     /* frames of any kind */
};

struct net *net_new(void);
void net_free(struct net *net);

/* Options of the node that comes next: of id `id`, called `name`, without seeds. */
struct control_options net_options(const struct net *net, uint64_t id, const char *name);
/* Makes node `seed` (started or not) a seed. */
void net_seed(struct control_options *options, uint32_t seed);
/* Starts the next node; gives its number. */
uint32_t net_start(struct net *net, const struct control_options *options);
/* The process of node `at` ends without a word / starts again from its disk, without seeds. */
void net_stop(struct net *net, uint32_t at);
void net_restart(struct net *net, uint32_t at);
/* The same with node `seed` for a seed. */
void net_restart_seeded(struct net *net, uint32_t at, uint32_t seed);
/* Starts `count` nodes, n1 with id 1 and so on, and runs until all are in one stable ring. */
struct net *net_cluster(uint32_t count);
/* There is no room on the disk of node `at`, but for so many transactions / there is room again. */
void net_fill(struct net *net, uint32_t at, uint32_t spare);
void net_empty(struct net *net, uint32_t at);

void net_run(struct net *net, int64_t ns);
/* Gives node `at` a frame now. */
void net_tell(struct net *net, uint32_t at, const void *frame, size_t len);
/* The same for a message of joining and configuration. */
void net_tell_join(struct net *net, uint32_t at, const struct join_message *message);

const struct ring_config *net_config(const struct net *net, uint32_t at);
/* Whether `at` has a stable ring of exactly the members of the numbers in `mask`. */
bool net_has_ring(const struct net *net, uint32_t at, uint32_t mask);
/* Whether the node of `id` is a voter, as `at` has the configuration. */
bool net_votes(const struct net *net, uint32_t at, uint64_t id);

#endif

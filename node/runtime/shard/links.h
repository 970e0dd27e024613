/* links.h - a shard's connections to the other shards of the cluster, two DEALERs each: one for
 * what must not wait, and one for complete copies of vnodes, whose TCP connection may be full of
 * them.
 *
 * To a member of another region there is one DEALER, from the first thing on that is said to it: a
 * shard speaks with one or two of a region (node/cluster/region/remote_regions.c), and nobody's
 * life is judged by it.
 *
 * They follow the view: a member that is there is connected to, one that left is not. A lost
 * connection is told, as evidence for the shard (PEERS-7), and whether the process is gone: the
 * kernel closes what a killed one had open one by one, so its host may refuse new connections only
 * some moments later. It is asked again for an eighth of a second. One thread: the shard's loop.
 */
#ifndef NODE_RUNTIME_SHARD_LINKS_H
#define NODE_RUNTIME_SHARD_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "node/cluster/model/view.h"
#include "node/cluster/shard/shard.h"

enum { LINKS_MAX = SHARD_PEERS_MAX };

struct links;

struct links_options {
    void *context; /* ZeroMQ's */
    const struct log *log;
    uint64_t self;                       /* own node id */
    uint16_t shard;                      /* own shard: not connected to */
    const struct failpoints *failpoints; /* borrowed; NULL outside fault tests */
};

MUST_USE int links_new(const struct links_options *options, struct links **out);
void links_free(struct links **links);
void links_follow(struct links *links, const struct view *view);
/* Tries again, once a second, to open what could not be opened, for want of descriptors say. */
void links_retry(struct links *links, int64_t now_ns);
/* Sends without waiting; what cannot be sent now is dropped and counted: the core repeats. */
void links_send(struct links *links, uint64_t node, uint16_t shard, bool bulk, const void *data,
                size_t len);
/* A descriptor, readable when there is news of connections. */
int links_descriptor(const struct links *links);
/* Calls `lost` for each connection lost since the last call with `news`; `refused` if the peer's
 * host takes no new one: nobody listens there any more. It is told again then, as what the process
 * had sent before may be read after that. */
void links_poll(struct links *links, bool news, int64_t now_ns,
                void (*lost)(void *context, uint64_t node, uint16_t shard, bool refused),
                void *context);
/* When links_poll is to be called though there is no news; INT64_MAX: not at all. */
int64_t links_deadline(const struct links *links);
/* Frames that were dropped since the start. Any thread. */
uint64_t links_dropped(const struct links *links);

#endif

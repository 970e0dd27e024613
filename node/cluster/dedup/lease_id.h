/* lease_id.h - the names of leases. */
#ifndef NODE_CLUSTER_DEDUP_LEASE_ID_H
#define NODE_CLUSTER_DEDUP_LEASE_ID_H

#include <stdint.h>

struct forward;
struct retry_key;
struct shard;

/* The lease that the request of that identity takes / that the forward is about. Of an undo it is
 * that of the request it undoes. */
uint64_t decide_lease_of(const struct shard *shard, const struct retry_key *key);
uint64_t decide_lease(const struct shard *shard, const struct forward *forward);

#endif

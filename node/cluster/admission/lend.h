/* lend.h - requests above an elastic limit: what they borrow (lend.c). */
#ifndef NODE_CLUSTER_ADMISSION_LEND_H
#define NODE_CLUSTER_ADMISSION_LEND_H

struct shard;

/* Lends to what the engine has denied, and charges what it has allowed, of elastic limits. */
void lend_batch(struct shard *shard);

#endif

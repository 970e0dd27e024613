/* borrow.h - requests above an elastic limit: what they borrow (borrow.c). */
#ifndef NODE_CLUSTER_ADMISSION_BORROW_H
#define NODE_CLUSTER_ADMISSION_BORROW_H

struct shard;

/* Lends to what the engine has denied, and charges what it has allowed, of elastic limits. */
void borrow_batch(struct shard *shard);

#endif

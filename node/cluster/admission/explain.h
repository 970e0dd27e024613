/* explain.h - what a request met: the state of every limit, for clients that ask for it.
 *
 * A decision tells of one limit, the one that decided. A message with the EXPLAIN flag wants all of
 * them, wherever they were decided:
 *
 *   row of a batch --here--> place (item, part, limit) of the message's block --> DECISIONS
 *                  \--peer's--> EXPLAIN record, ahead of the ANSWER --> the same place there
 *
 * EXPLAIN-1  Explaining changes no decision, and never delays one: where there is no block free, or
 *            a record is lost, rows are missing, counted, and the decision stands.
 * EXPLAIN-2  A limit has one place, so what is decided again (a term ended, a part moved) replaces
 *            what was told first, and rows come in the order of the rules, whoever answers first.
 * EXPLAIN-3  How the pool of an elastic limit is doing is told by the node that was asked, as it
 *            heard from the pool's owner: it is the same for all who decide, and needs no word of
 *            theirs. So is which region lends, of a pool of scope global.
 */
#ifndef NODE_CLUSTER_ADMISSION_EXPLAIN_H
#define NODE_CLUSTER_ADMISSION_EXPLAIN_H

#include <assert.h>
#include <stdint.h>

#include "base/quantity.h"
#include "client/protocol/wire.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/policy/model/policy.h"

enum {
    SHARD_EXPLAINS_MAX = 8, /* messages at once whose limits are gathered */
    EXPLAIN_PLACES = POLICY_PARTS_MAX * PEER_LIMITS_MAX,
    EXPLAIN_OWN_MAX = 2 /* parts of one item with own limits: of the user, of the API key */
};
static_assert((int)EXPLAIN_PLACES <= (int)WIRE_EXPLAIN_ROWS_MAX, "all limits of an item are told");
static_assert(EXPLAIN_PLACES <= 64, "a place is a bit");

/* What one message met. */
struct explained {
    uint64_t met[WIRE_EXPLAIN_ITEMS_MAX]; /* bits: places filled */
    const struct policy_rule *rules[WIRE_EXPLAIN_ITEMS_MAX][POLICY_PARTS_MAX];
    /* Of limits that no rule has the text of: inline ones and those of a user, those of a key. */
    char windows[WIRE_EXPLAIN_ITEMS_MAX][EXPLAIN_OWN_MAX][PEER_LIMITS_MAX][QUANTITY_TEXT_LEN];
    struct peer_state states[WIRE_EXPLAIN_ITEMS_MAX][EXPLAIN_PLACES];
};

struct shard;
struct batch_item;
struct effects;
struct limit_decision;

/* Gives the message at hand a block if it asks for one: shard->message.explained, else POOL_NONE.
 */
void explain_begin(struct shard *shard);
/* Gives a block back; POOL_NONE is nothing. */
void explain_end(struct shard *shard, uint32_t explained);
/* Part number `part` of a group that explains was decided: tells its rows first .. end - 1. */
void explain_rows(struct shard *shard, const struct batch_item *item, uint32_t part, uint32_t first,
                  uint32_t end, struct effects *effects);
/* A part that waits was decided elsewhere, by a fallback leader or a peer. */
void explain_part(struct shard *shard, uint32_t index, const struct peer_state *states,
                  uint32_t count, struct effects *effects);
/* The rows of the block's first `count` items as the client gets them, in scratch of the shard;
 * NULL without a block. */
const struct wire_explain *explain_wire(struct shard *shard, uint32_t explained, uint32_t count);

#endif

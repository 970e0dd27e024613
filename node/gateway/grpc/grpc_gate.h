/* grpc_gate.h - gRPC among the streams of HTTP/2: the user of node/gateway/http2.
 *
 *   head, messages --> the method's handler --checks--> batches.h --> the shard
 *                             |                             |
 *   answer, trailers <--------+--------- completion <-------+
 *
 * grpc_gate.c tells what is refused, and how. The thread of the connections.
 */
#ifndef NODE_GATEWAY_GRPC_GRPC_GATE_H
#define NODE_GATEWAY_GRPC_GRPC_GATE_H

#include "base/alloc.h"
#include "base/error.h"
#include "node/gateway/batches.h"
#include "node/gateway/grpc/grpc.h"
#include "node/gateway/http2/h2.h"

enum { GRPC_METHODS_MAX = 24 }; /* that there may be in the table */

/* Counted since the start. */
struct grpc_stats {
    uint64_t calls;  /* requests that were answered, */
    uint64_t faults; /* of these: with a status other than OK */
    uint64_t late;   /* of these: their time was over */
    /* Those that were answered as gRPC has it, by the method's place in the table and the status;
     * of no method of it: at GRPC_METHODS_MAX. */
    uint64_t answered[GRPC_METHODS_MAX + 1][GRPC_STATUSES];
};

/* What the methods of this node are, for struct grpc_facts. */
const struct grpc_method *grpc_methods(size_t *count); /* GRPC_METHODS_MAX at most */

/* The batches are those of the loop, with calls of GRPC_CALL_LEN bytes or more; `facts`, which is
 * copied, and the stats are borrowed. */
enum { GRPC_CALL_LEN = 64 };
MUST_USE int grpc_gate_new(const struct allocator *allocator, const struct grpc_facts *facts,
                           struct batches *batches, struct grpc_stats *stats,
                           struct grpc_gate **out);
void grpc_gate_free(struct grpc_gate **gate);
/* Whether there is somebody to decide, and why the node is not ready; NULL: it is. The text and
 * `policy`, the rules in force or NULL, live until the next call, or the end of the turn. */
void grpc_gate_stage(struct grpc_gate *gate, bool serves, const char *waits,
                     const struct policy *policy);
/* What takes requests of HTTP/2. */
struct h2_user grpc_gate_user(struct grpc_gate *gate);

#endif

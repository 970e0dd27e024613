/* http_gate.h - HTTP as a protocol of a loop of connections (gateway.h).
 *
 *   bytes --> http1.c --> http_routes.c, http_guard.c --> a handler --> http_reply.c --> bytes
 *                                                           |  ^
 *                                                           v  |
 *                                                        http_batch.c <--> shard
 *
 * http_gate.c tells how a connection goes on. Pure: memory at the start only; time is told. One
 * thread uses a gate and its peers.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_GATE_H
#define NODE_GATEWAY_HTTP_HTTP_GATE_H

#include "node/gateway/http/http_batch.h"

struct http_gate;

/* The protocol for a loop; its `gate` is a struct http_gate. */
extern const struct gateway_codec http_codec;

/* How long a head may take from its first byte, a request as a whole, and a connection that is
 * quiet may stay. */
#define HTTP_HEAD_NS INT64_C(10000000000)
#define HTTP_BODY_NS INT64_C(30000000000)
#define HTTP_IDLE_NS INT64_C(75000000000)

/* `session`: random, like no other of the cluster; `facts` is copied, what it points to borrowed;
 * `stats`, all zero, is the caller's and counted up. */
MUST_USE int http_gate_new(const struct allocator *allocator, uint64_t session,
                           const struct http_facts *facts, struct gateway_stats *stats,
                           struct http_gate **out);
void http_gate_free(struct http_gate **gate);
void http_gate_stats(const struct http_gate *gate, struct http_stats *out);

/* What the node is up to: `waits` tells why it is not ready, NULL: it is. The text and
 * `policy`, the rules in force or NULL, live until the next call, or the end of the turn. */
enum http_stage {
    HTTP_WAITS, /* there is nobody to decide: only probes are answered */
    HTTP_SERVES,
    HTTP_ENDS /* each response is the last one of its connection */
};
void http_gate_stage(struct http_gate *gate, enum http_stage stage, const char *waits,
                     const struct policy *policy);
/* How many members of the cluster are up. `gate` may be NULL. */
void http_gate_members(struct http_gate *gate, uint32_t members);

/* What the shard is asked in, and answers to. */
struct batches *http_gate_batches(struct http_gate *gate);

/* What the codec calls, for tests. */
void http_gate_open(struct http_gate *gate, struct http_peer *peer);
void http_gate_now(struct http_gate *gate, int64_t now_ns);
enum gateway_stop http_gate_take(struct http_gate *gate, struct http_peer *peer, uint64_t token,
                                 const char *data, size_t len, size_t *used);
/* The connection has ended: what its streams hold is given back. */
void http_gate_close(struct http_peer *peer);
/* Looks for what is late, and has those streams found that are due. */
void http_gate_look(struct http_gate *gate, const struct gateway_finder *finder);
/* A request took too long: 408, unless an earlier one has no answer yet. */
void http_gate_late(struct http_gate *gate, struct http_peer *peer);

#endif

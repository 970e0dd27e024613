/* http_batch.h - questions of many requests in few messages to the shard, answers in order.
 *
 *   handler --http_ask_begin, append--> the open batch --http_batches_submit--> frame for the shard
 *                                                                                    |
 *   complete(), reply <-- http_batches_answer <-- frame of the shard <---------------+
 *
 * batches.c tells how order is kept and what is bounded. Pure: memory at the start only; time is
 * told. One thread uses it, and the connections' peers.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_BATCH_H
#define NODE_GATEWAY_HTTP_HTTP_BATCH_H

#include "base/alloc.h"
#include "node/gateway/batches.h"
#include "node/gateway/http/http_exchange.h"
#include "node/gateway/http/http_guard.h"

enum {
    HTTP_ADMIN_TIMEOUT_MS = 30000 /* in which an operator's command is to be answered */
};

struct http_stream;

/* A connection. */
struct http_peer {
    struct gateway_peer base;
    int64_t asked_ns; /* when the gate came to the request that it has not taken yet; 0: to none */
    struct http_stream *stream; /* it is one (http_stream.h); else NULL */
    struct http1_progress progress;
    struct h2_peer *h2; /* NULL: it does not speak HTTP/2 */
    bool plain;         /* it is known to speak HTTP/1 */
};

/* `session`: random, like no other of the cluster; the rest is borrowed, and lives longer. */
MUST_USE int http_batches_new(const struct allocator *allocator, uint64_t session,
                              const struct http_facts *facts, struct gateway_stats *stats,
                              struct http_stats *http_stats, struct http_batches **out);
void http_batches_free(struct http_batches **batches);
/* `now_ns` is Unix time. */
void http_batches_now(struct http_batches *batches, int64_t now_ns);
int64_t http_batches_time(const struct http_batches *batches);
const char *http_batches_date(const struct http_batches *batches);

/* What the shard is asked in, and answers to. The caller commits what a handler has asked. */
struct batches *http_batches_of(struct http_batches *batches);
/* The handler has returned HTTP_ASKED: the request waits for its answer from now on. */
void http_batches_commit(struct http_exchange *exchange);
/* Whether who asks may not ask what the handler has appended: then it is taken back, and *guarded
 * tells why. */
bool http_batches_refused(struct http_exchange *exchange, struct http_stats *stats,
                          struct http_guarded *guarded);
/* Counts a response that is complete; one that did not fit becomes a 500 before. */
void http_batches_close(struct http_batches *batches, struct http_reply *reply);

#endif

/* http_batch.h - questions of many requests in few messages to the shard, answers in order.
 *
 *   handler --http_ask_begin, append--> the open batch --http_batches_submit--> frame for the shard
 *                                                                                    |
 *   complete(), reply <-- http_batches_answer <-- frame of the shard <---------------+
 *
 * http_batch.c tells how order is kept and what is bounded. Pure: memory at the start only; time is
 * told. One thread uses it, and the connections' peers.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_BATCH_H
#define NODE_GATEWAY_HTTP_HTTP_BATCH_H

#include "base/alloc.h"
#include "node/gateway/http/http_exchange.h"

enum {
    /* Checks of one batch that several requests share: as many as the engine asks memory for at a
     * time. A single request may have WIRE_CHECKS_MAX, in a batch of its own. */
    HTTP_BATCH_MAX = 64,
    /* Batches without an answer. Each that waits takes a place at the shard as well. */
    HTTP_BATCHES_MAX = 1 << 11,
    HTTP_TIMEOUT_MS = 1000,       /* in which a batch is to be decided that asks for no other, */
    HTTP_ADMIN_TIMEOUT_MS = 30000 /* and an operator's command to be answered */
};

struct http_stream;

/* A connection. */
struct http_peer {
    struct gateway_peer base;
    uint64_t batch;   /* the batch that its requests are in, while it waits */
    uint64_t held;    /* the answer that left one of them pending: those behind it wait */
    int64_t asked_ns; /* when the gate came to the request that it has not taken yet; 0: to none */
    struct http_stream *stream; /* it is one (http_stream.h); else NULL */
    struct http1_progress progress;
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

/* The handler has returned HTTP_ASKED: the request waits for its answer from now on. */
void http_batches_commit(struct http_exchange *exchange);
/* Whether the open batch takes no more requests: it is to be submitted first. */
bool http_batches_full(const struct http_batches *batches);
/* Counts a response that is complete; one that did not fit becomes a 500 before. */
void http_batches_close(struct http_batches *batches, struct http_reply *reply);

/* The frame of the open batch, which is closed by that; 0 if there is nothing in it. It lives until
 * the next call. */
size_t http_batches_submit(struct http_batches *batches, const uint8_t **frame);
/* Takes a frame that the shard sent, and writes the responses. */
void http_batches_answer(struct http_batches *batches, const void *frame, size_t len,
                         const struct gateway_finder *finder);
/* Gives up batches that have had no answer for too long: 504 to all in them. Now and then. */
void http_batches_expire(struct http_batches *batches, const struct gateway_finder *finder);
/* Batches that wait for an answer. */
uint32_t http_batches_waiting(const struct http_batches *batches);
/* Asserts HTTPBATCH-5; and HTTPBATCH-1 and HTTPBATCH-2 of the peer that the token names. For tests.
 */
void http_batches_check_invariants(const struct http_batches *batches);
void http_batches_check_peer(const struct http_batches *batches, const struct http_peer *peer,
                             uint64_t token);

#endif

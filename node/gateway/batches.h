/* batches.h - requests of many connections in few messages to the shard, and each one's answer.
 *
 *   a request --batches_open, append to `builder`, batches_add--> the open batch
 *       |                                                             ^   |
 *       +--batches_begin, append or take back, batches_commit---------+   +--batches_submit-->
 * frame
 *                                                                                               |
 *   decided, replied, failed of the protocol <-- batches_answer <-- frame of the shard <--------+
 *
 * Each protocol has batches of its own, and an open batch at most; batches.c tells how order is
 * kept and what is bounded. Pure: memory at the start only; time is told. One thread uses them, and
 * the connections' peers.
 */
#ifndef NODE_GATEWAY_BATCHES_H
#define NODE_GATEWAY_BATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "client/protocol/wire.h"
#include "node/gateway/gateway.h"

enum {
    /* Checks of one batch that several requests share: as many as the engine asks memory for at a
     * time. A single request may have WIRE_CHECKS_MAX, in a batch of its own. */
    BATCH_MAX = 64,
    /* Batches without an answer. Each that waits takes a place at the shard as well. */
    BATCHES_MAX = 1 << 11,
    BATCH_TIMEOUT_MS = 1000, /* in which a batch is to be decided that asks for no other, */
    BATCH_GRACE_MS = 1000,   /* and how much longer its answer is waited for */
    BATCHES_NONE = UINT16_MAX,
    /* Bytes that a request may note, in the places that its checks leave of a batch, where a call
     * has BATCH_CALL_MIN bytes at least. */
    BATCH_CALL_MIN = 176,
    BATCH_NOTES_MAX = (BATCH_MAX - 1) * BATCH_CALL_MIN
};

/* A request that waits. A protocol's own struct begins with it. */
struct batch_call {
    uint64_t token;                /* of its peer */
    const struct batch_user *user; /* its protocol */
    uint32_t first;                /* of its checks in the batch */
    uint32_t count;
    uint32_t room; /* of the peer's `out` that is reserved for its answer */
    bool answered;
    uint8_t extra; /* places behind its own that are its notes */
};

/* What a batch carries. */
enum batch_kind {
    BATCH_SHARED, /* checks of any requests */
    BATCH_ALONE,  /* checks of one request */
    BATCH_RETRY,  /* the same, under a name that its protocol chose */
    BATCH_ADMIN   /* an operator's command */
};

struct batch {
    uint64_t seq; /* 0: free */
    uint64_t session;
    uint64_t name; /* the seq that travels */
    int64_t submitted_ns;
    uint16_t next_free;
    uint16_t count;  /* of calls, */
    uint16_t places; /* which take so many places, */
    uint16_t last;   /* the last one from this one on */
    uint8_t kind;
    bool explain;        /* all limits that the checks meet are told */
    uint32_t timeout_ms; /* in which the shard is to decide */
    uint32_t patience_ms;
};

/* Why the calls of a batch were not decided: the shard has refused it by `code`, TG_EBUSY among
 * these, with a sentence; or no answer came in time. */
struct batch_failure {
    bool late;
    int code;
    struct wire_text text;
};

/* What a protocol does with answers. Each is called once for a call whose peer is still there, when
 * that is no longer waited for; `gone` for one whose peer is not. Protocols of one loop have
 * batches in common. */
struct batch_user {
    void *gate; /* the protocol's own */
    /* All its checks are decided. */
    void (*decided)(void *gate, struct gateway_peer *peer, struct batch_call *call,
                    const struct wire_decisions *decisions);
    /* An operator's command is answered by the frame. */
    void (*replied)(void *gate, struct gateway_peer *peer, struct batch_call *call,
                    const void *frame, size_t len);
    void (*failed)(void *gate, struct gateway_peer *peer, struct batch_call *call,
                   const struct batch_failure *failure);
    /* Instead of these: its peer is not there any more. NULL: nobody minds. */
    void (*gone)(void *gate, struct batch_call *call);
};

/* How far the builder was before the request at hand. */
struct batch_mark {
    uint32_t count;
    uint32_t template_count;
    uint32_t template_last;
    size_t templates_len;
    size_t values_len;
    bool states_uses;
};

struct batches {
    const struct allocator *allocator;
    struct gateway_stats *stats;
    size_t call_len; /* of the longest struct of a call */
    uint64_t session;
    uint64_t serial;
    uint64_t answers; /* that came */
    int64_t now_ns;
    uint16_t first_free;
    uint16_t open; /* the batch that is being filled, or BATCHES_NONE */
    uint32_t waiting;
    uint32_t retries;       /* of these: under a name of their own */
    bool asking;            /* a request has begun, in the open batch, */
    uint32_t asked;         /* of so many checks, */
    struct batch_mark mark; /* before which the builder was there */
    struct mp_writer admin; /* of an operator's command */
    uint8_t *calls;         /* [BATCHES_MAX * BATCH_MAX]; the first ones are used most */
    struct batch batches[BATCHES_MAX];
    struct wire_checks_builder builder;
    struct wire_decisions_space space;
    uint8_t values[WIRE_MESSAGE_MAX];
    uint8_t frame[WIRE_MESSAGE_MAX];
};

/* `session`: random, like no other of the cluster; `call_len`: of the longest struct of a call;
 * `stats` is borrowed. */
MUST_USE int batches_new(const struct allocator *allocator, uint64_t session, size_t call_len,
                         struct gateway_stats *stats, struct batches **out);
void batches_free(struct batches **batches);

static inline struct batch *batches_at_hand(struct batches *batches)
{
    return batches->open == BATCHES_NONE ? NULL : &batches->batches[batches->open];
}

/* Whether the peer's next request has to wait for answers to those before it: they are in another
 * batch than the open one, and answers come in order (BATCHES-1). */
static inline bool batches_elsewhere(const struct batches *batches, const struct gateway_peer *peer)
{
    return peer->waiting > 0 && !peer->by_stream &&
           (batches->open == BATCHES_NONE || batches->batches[batches->open].seq != peer->batch);
}

/* The open batch, opened if there is none; NULL if all are out. */
struct batch *batches_open(struct batches *batches);
/* Whether the open batch takes no more requests: it is to be submitted first. */
bool batches_full(const struct batches *batches);
/* The place of the next call of the open batch, which is not full. */
static inline struct batch_call *batches_next(const struct batches *batches)
{
    const uint16_t places = batches->batches[batches->open].places;
    ASSERT(places < BATCH_MAX);
    return (struct batch_call *)(void *)(batches->calls +
                                         ((size_t)batches->open * BATCH_MAX + places) *
                                             batches->call_len);
}
/* What a call has noted of its request until its answer: struct batch_ask's notes_len bytes. */
static inline void *batches_notes(const struct batches *batches, struct batch_call *call)
{
    return (uint8_t *)call + batches->call_len;
}
/* The call, which is in that place, is taken: it waits from now on, for the peer. Its checks are in
 * the builder, and its room is in `out`. */
void batches_add(struct batches *batches, struct gateway_peer *peer, const struct batch_call *call);
/* Makes the open batch, which has nothing in it, one for an operator's command. One value, the map
 * of its arguments, is to be put to what is returned. */
struct mp_writer *batches_command(struct batches *batches, const char *command,
                                  uint32_t patience_ms);

/* What is asked by a request of several checks. */
struct batch_ask {
    uint32_t count;   /* of checks that will be appended */
    size_t notes_len; /* bytes that are noted until the answer, at most BATCH_NOTES_MAX */
    enum batch_kind kind;
    bool explain;        /* of BATCH_ALONE or BATCH_RETRY */
    uint32_t timeout_ms; /* in which it is to be decided. Requests of one batch have one */
    uint64_t session;    /* of BATCH_RETRY: the name */
    uint64_t seq;
};
enum batch_begun {
    BATCH_BEGUN,
    BATCH_SUBMIT, /* it fits, once the open batch is submitted */
    BATCH_BUSY    /* all batches are out */
};
/* Begins a request in the open batch, which is opened for it: *call is its place, where all is to
 * be filled in but `first`, `count` and `extra`. Exactly ask->count checks are to be appended to
 * the builder, or an operator's command to be made, and then it is committed or cancelled. */
enum batch_begun batches_begin(struct batches *batches, const struct batch_ask *ask,
                               struct batch_call **call);
void batches_commit(struct batches *batches, struct gateway_peer *peer);
/* What was appended is taken back. */
void batches_cancel(struct batches *batches);

/* The frame of the open batch, which is closed by that; 0 if there is nothing in it. It lives until
 * the next call. */
size_t batches_submit(struct batches *batches, const uint8_t **frame);
/* Takes a frame that the shard sent. */
void batches_answer(struct batches *batches, const void *frame, size_t len,
                    const struct gateway_finder *finder);
/* Gives up batches that have had no answer for too long. Now and then. */
void batches_expire(struct batches *batches, const struct gateway_finder *finder);

/* Asserts BATCHES-3 and BATCHES-5; and BATCHES-1 and BATCHES-2 of the peer that the token names.
 * For tests. */
void batches_check_invariants(const struct batches *batches);
void batches_check_peer(const struct batches *batches, const struct gateway_peer *peer,
                        uint64_t token);

#endif

/* http_exchange.h - what the handler of a request is given, and how it answers.
 *
 *   handler(exchange) --> http_reply_... of exchange->reply --------------> HTTP_ANSWERED
 *                    |--> http_ask_begin, append to exchange->builder ----> HTTP_ASKED
 *                    |       ... the shard decides ... complete(completion) --> its reply
 *                    |--> http_ask_admin, the arguments to its writer ----> HTTP_ASKED
 *                    \--> what a function of these told to return --------> HTTP_AGAIN
 *
 * A handler has no effect but by what it asks the shard, for it may be called again: after
 * HTTP_AGAIN, and where it answered at once while an earlier request of its connection has no
 * answer yet. It keeps nothing but what fits its context.
 *
 * The checks of one request are in one message to the shard, beside others' unless it is told
 * otherwise: 1 to 4,096 of them, of at most 256 different limits or sets of attribute names. So all
 * of them are decided when `complete` is called, whatever the order in which that came.
 *
 * Pure. The thread of the connection.
 */
#ifndef NODE_GATEWAY_HTTP_HTTP_EXCHANGE_H
#define NODE_GATEWAY_HTTP_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "client/protocol/wire.h"
#include "node/gateway/access.h"
#include "node/gateway/gateway.h"
#include "node/gateway/grpc/grpc_gate.h"
#include "node/gateway/gubernator/gubernator.h"
#include "node/gateway/http/http1.h"
#include "node/gateway/http/http_reply.h"

struct auth_endpoints;
struct digest;
struct http_batches;
struct http_completion;
struct http_exchange;
struct http_peer;
struct http_route;
struct networks;
struct tracer;

enum {
    HTTP_PARAMETERS_MAX = 4, /* of a path */
    HTTP_PARAMETER_LEN = 512,
    HTTP_CONTEXT_LEN = 128, /* bytes that a handler keeps until its answer */
    HTTP_ADMIN_ROOM = WIRE_MESSAGE_MAX,
    HTTP_NAMES_MAX = 32,   /* hosts that requests may name */
    HTTP_ADDRESS_LEN = 272 /* HOST:PORT and a NUL */
};

enum http_verdict {
    HTTP_ANSWERED, /* the reply is complete */
    HTTP_ASKED,    /* the shard is: the completion answers */
    HTTP_AGAIN     /* not now; exchange->stop says what it waits for */
};

/* What is told of the node; what is pointed to is borrowed. */
struct http_facts {
    uint64_t node_id;
    const char *name;
    const char *version;
    char address[HTTP_ADDRESS_LEN];  /* HOST:PORT at which gRPC's clients find it, or "" */
    uint32_t members;                /* of the cluster that are up, as far as it knows */
    const char *waits;               /* why the node is not ready; NULL: it is */
    const struct http_route *routes; /* the table (http_routes.h) */
    size_t route_count;
    const struct networks *trusted;    /* proxies whose word is taken (networks.h); NULL: none */
    const struct auth_endpoints *auth; /* of /v1/auth (auth_request.h); NULL: the defaults */
    const struct digest *operators; /* of the token that operators' calls need; NULL: there is none,
                                       and none of these calls */
    struct tracer *tracer;          /* of this gate alone; NULL: nothing is traced */
    int64_t age_ns; /* of a connection of HTTP/2, at most, a tenth more or less; 0: no end */
    struct gubernator_stats *gubernator; /* likewise, in struct http_stats; the gate sets it */
    struct hash_key path_secret;         /* of the cluster, where a shard is asked */
    const struct policy *policy; /* the rules in force, in this turn; NULL: there are none yet */
    uint8_t secret[32];          /* random; of what is made here, such as API keys */
    uint8_t anonymous;           /* enum right: roles of whoever shows no token, over HTTP, */
    uint8_t anonymous_grpc;      /* and over gRPC */
    uint8_t headers; /* enum decision_headers (decision_json.h): which ones tell of limits */
    uint8_t fields;  /* enum ratelimit_fields (ratelimit.h): which ones proxies are to add */
    uint32_t name_count;
    const char *names[HTTP_NAMES_MAX]; /* hosts beside loopback that requests may name; "*": any */
};

/* Counted since the start, beside struct gateway_stats. */
struct http_stats {
    uint64_t answered;     /* responses, */
    uint64_t redirected;   /* of these: with a status of 3xx, */
    uint64_t refused;      /* 4xx, */
    uint64_t failed;       /* 5xx */
    uint64_t hosts;        /* refused: Host names neither loopback nor a configured name, */
    uint64_t origins;      /* a page of another origin asked, */
    uint64_t types;        /* the body is not JSON, */
    uint64_t unauthorized; /* 401: an operator's call without the operators' token, */
    uint64_t unknown;      /* there is nothing at its path, */
    uint64_t methods;      /* nor for its method, */
    uint64_t heads;        /* the head or its target is too long, */
    uint64_t bodies;       /* the body is */
    uint64_t expectations; /* 100 Continue was sent */
    uint64_t expired;      /* 408: a head or a body took too long */
    uint64_t streams;      /* responses that go on, */
    uint64_t streamless;   /* and 503 for want of a place for one */
    struct h2_stats h2;    /* of HTTP/2 */
    struct gubernator_stats gubernator;
    struct grpc_stats grpc; /* last, for what is counted by method is shown apart */
};

typedef enum http_verdict http_handler_fn(struct http_exchange *exchange);
typedef void http_complete_fn(struct http_completion *completion);

struct http_exchange {
    const struct http1_request *request;
    const struct http_route *route;
    struct wire_text parameters[HTTP_PARAMETERS_MAX]; /* of the pattern, in its order, decoded */
    struct wire_text rest;                            /* what its "*" stands for, as it was sent */
    const struct http_facts *facts;
    struct access access; /* who asks */
    int64_t now_ns;
    int64_t asked_ns;        /* when the gate first came to it: it may have had to wait */
    struct http_reply reply; /* for an answer at once; HTTP_ROOM bytes, or what http_room gave */
    struct wire_checks_builder *builder; /* between http_ask_begin and the return, */
    void *notes;                         /* likewise: what was asked for, not zeroed */
    char *room; /* or http_ask_admin and the return: HTTP_ADMIN_ROOM bytes */
    struct http_batches *batches;
    struct http_peer *peer; /* peer->base.address: the other end */
    uint64_t token;
    struct http_form form;
    enum gateway_stop stop; /* of HTTP_AGAIN */
    http_handler_fn *more;  /* the response is a stream, which this goes on with (http_stream.h) */
    void *stream;           /* what it keeps: HTTP_CONTEXT_LEN bytes */
};

/* What is asked. */
struct http_ask {
    uint32_t count;   /* of checks that are appended */
    size_t room;      /* bytes of the response, at most; HTTP_ROOM or more */
    size_t notes_len; /* that are kept until the answer beside the context (batches.h) */
    http_complete_fn *complete;
    /* In which it is to be decided; 0: a second. Requests of one message have one. */
    uint32_t timeout_ms;
    bool explain; /* a message of its own, of 16 checks at most: tell all limits that they meet */
    /* A message of its own, which is a retry of whatever came under that name before (the client
     * protocol's RETRY). `session` 0: none. */
    uint64_t session;
    uint64_t seq;
};

/* The answer is due: complete() writes it into `reply`. */
struct http_completion {
    const struct http_facts *facts;
    int64_t now_ns;
    struct http_reply reply;
    void *context;
    void *notes;                            /* of ask->notes_len bytes */
    void *stream;                           /* of a turn of a stream: what that keeps */
    uint32_t count;                         /* of checks */
    uint32_t first;                         /* of them, in: */
    const struct wire_decisions *decisions; /* or NULL: an operator's answer, */
    const struct wire_admin_reply *admin;   /* which lives as long as this call */
};

/* Gives the reply at once so much room. False: the handler returns *verdict. */
MUST_USE bool http_room(struct http_exchange *exchange, size_t room, enum http_verdict *verdict);

/* Begins a question. HTTP_ASKED: *context is there, HTTP_CONTEXT_LEN zeroed bytes, and exactly
 * ask->count checks are to be appended to exchange->builder, before the handler returns HTTP_ASKED
 * itself. Else the handler returns what this returned: HTTP_AGAIN, or HTTP_ANSWERED (503). */
MUST_USE enum http_verdict http_ask_begin(struct http_exchange *exchange,
                                          const struct http_ask *ask, void **context);
/* The builder has said TG_EFULL: what was appended is taken back. The handler returns what this
 * returns: HTTP_AGAIN, for there is room in another message, or HTTP_ANSWERED: it would fit none
 * (413). */
MUST_USE enum http_verdict http_ask_full(struct http_exchange *exchange);
/* What was appended is taken back: the handler answers at once instead. */
void http_ask_cancel(struct http_exchange *exchange);

/* Begins an operator's command (client/protocol/wire_session.h). HTTP_ASKED: *context is there, and
 * one value, the map of its arguments, is to be put to *writer, unless http_ask_cancel takes it
 * back. Else as http_ask_begin. */
MUST_USE enum http_verdict http_ask_admin(struct http_exchange *exchange, const char *command,
                                          size_t room, http_complete_fn *complete, void **context,
                                          struct mp_writer **writer);

/* Between http_ask_admin and the return: 32 bytes that no other question has, and that nobody
 * knows; the same for the same `number`, of which there may be several. */
void http_ask_secret(const struct http_exchange *exchange, uint8_t number, struct digest *out);

/* The decision on check `i` < completion->count, in the order in which they were appended. */
static inline void http_decision(const struct http_completion *completion, uint32_t i,
                                 struct wire_decision *out)
{
    wire_decision_at(completion->decisions, completion->first + i, out);
}

#endif

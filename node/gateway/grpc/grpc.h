/* grpc.h - gRPC over HTTP/2: what the handler of a method is given, and how it answers.
 *
 *   handler(call) --> grpc_reply, or grpc_fail --------------------------> GRPC_ANSWERED
 *            |------> grpc_ask, append to call->builder -----------------> GRPC_ASKED
 *            |           ... the shard decides ... complete(completion) --> grpc_reply
 *            |------> grpc_begin, then and later grpc_say, grpc_fail -----> GRPC_GOES_ON
 *            \------> what a function of these told to return ------------> GRPC_AGAIN
 *
 * The table of methods is what grpc_gate.c finds them in. A handler has no effect but by what it
 * asks the shard, for it may be called again after GRPC_AGAIN; it keeps nothing but what fits its
 * context. The decoded request lives until it returns.
 *
 * The thread of the connections.
 */
#ifndef NODE_GATEWAY_GRPC_GRPC_H
#define NODE_GATEWAY_GRPC_GRPC_H

#include <protobuf-c/protobuf-c.h>

#include "base/hash.h"
#include "client/protocol/wire.h"
#include "node/gateway/gateway.h"
#include "node/gateway/grpc/grpc_wire.h"

struct grpc_call;
struct grpc_gate;
struct gubernator_stats;
struct h2_stream;
struct policy;

enum {
    GRPC_CONTEXT_LEN = 128,    /* bytes that a handler keeps until its answer */
    GRPC_REPLY_MAX = 512 << 10 /* bytes of an answer */
};

enum grpc_verdict {
    GRPC_ANSWERED,
    GRPC_ASKED,   /* the shard is: the completion answers */
    GRPC_GOES_ON, /* there may be more messages, until the client or the method ends it */
    GRPC_AGAIN    /* not now; call->stop says what it waits for */
};

typedef enum grpc_verdict grpc_handler_fn(struct grpc_call *call);

struct grpc_method {
    const char *path;                          /* "/package.Service/Method" */
    const ProtobufCMessageDescriptor *request; /* NULL: the handler reads the bytes */
    uint32_t request_max;                      /* bytes of a request */
    bool always;                               /* it answers while the node is not ready, too */
    bool many; /* the handler is called with each of several messages, as it comes, begins
                  the answer with the first one, and asks the shard nothing */
    grpc_handler_fn *handle;
    /* Now and then, after GRPC_GOES_ON. */
    void (*look)(struct grpc_call *call);
};

/* What is told of the node; borrowed. */
struct grpc_facts {
    const struct grpc_method *methods;
    size_t method_count;
    const char *waits;           /* why the node is not ready; NULL: it is */
    uint8_t anonymous;           /* enum right: roles of whoever shows no token */
    uint8_t fields;              /* enum ratelimit_fields: which ones proxies are to add */
    struct hash_key secret;      /* of the cluster: shortens long paths of descriptors */
    const struct policy *policy; /* the rules in force, in this turn; NULL: there are none yet */
    const char *address; /* HOST:PORT at which clients find the node, or ""; NULL likewise */
    uint32_t members;    /* of the cluster that are up, as far as the node knows */
    const char *name;    /* of the node, */
    struct gubernator_stats *gubernator; /* and where its answers to clients of Gubernator are
                                            counted; NULL: nowhere */
};

struct grpc_call {
    const struct grpc_method *method;
    const struct grpc_facts *facts;
    const ProtobufCMessage *request; /* for the handler: decoded, or NULL, */
    const uint8_t *bytes;            /* and as it came: decoded texts end at their first NUL */
    size_t len;
    int64_t now_ns;
    int64_t deadline_ns;                 /* INT64_MAX: none was given */
    int64_t decide_ns;                   /* till when the shard is to decide; not later, at first */
    bool explain;                        /* of the question: all limits are to be told */
    void *context;                       /* GRPC_CONTEXT_LEN bytes, zeroed at first */
    struct wire_checks_builder *builder; /* after grpc_ask, until the return */
    void *notes;                         /* likewise, of grpc_ask_noting: not zeroed */
    enum gateway_stop stop;              /* of GRPC_AGAIN */
    struct grpc_gate *gate;
    struct h2_stream *stream;
};

/* All checks of a request are decided. */
struct grpc_completion {
    struct grpc_call call;
    const void *notes; /* of grpc_ask_noting */
    uint32_t count;
    uint32_t first; /* of them, in: */
    const struct wire_decisions *decisions;
};
typedef void grpc_complete_fn(struct grpc_completion *completion);

/* The answer, as a whole. */
enum grpc_verdict grpc_reply(struct grpc_call *call, const ProtobufCMessage *message);
/* The same of an answer that is encoded; at most GRPC_REPLY_MAX bytes. */
enum grpc_verdict grpc_reply_bytes(struct grpc_call *call, struct grpc_piece message);
/* The message is none of the method's. */
enum grpc_verdict grpc_fail_message(struct grpc_call *call);
/* What went wrong, as a status and a sentence, of which GRPC_TEXT_LEN bytes are sent. Ends what
 * goes on as well; GRPC_OK ends it well. */
enum grpc_verdict grpc_fail(struct grpc_call *call, enum grpc_status status, const char *text);
/* An answer of several messages begins; they are said now or from `look`. */
enum grpc_verdict grpc_begin(struct grpc_call *call);
void grpc_say(struct grpc_call *call, const ProtobufCMessage *message);

/* Begins a question. GRPC_ASKED: exactly `count` checks, 1 to 4,096, are to be appended to
 * call->builder before the handler returns that itself. Else the handler returns what this
 * returned: GRPC_AGAIN, or GRPC_ANSWERED (14, or 4 where its time is over). */
MUST_USE enum grpc_verdict grpc_ask(struct grpc_call *call, uint32_t count,
                                    grpc_complete_fn *complete);
/* The same, with so many bytes that are kept until the answer beside the context (batches.h). */
MUST_USE enum grpc_verdict grpc_ask_noting(struct grpc_call *call, uint32_t count, size_t notes_len,
                                           grpc_complete_fn *complete);
/* Memory for an answer, aligned for anything, that lives until the handler or the completion
 * returns; NULL: there is no more. A handler's request has some of it. */
void *grpc_take(struct grpc_call *call, size_t len);
/* The builder has said TG_EFULL: what was appended is taken back. The handler returns what this
 * returns: GRPC_AGAIN, for there is room in another message, or GRPC_ANSWERED: it would fit none.
 */
MUST_USE enum grpc_verdict grpc_ask_full(struct grpc_call *call);

/* The decision on check `i` < completion->count, in the order in which they were appended. */
static inline void grpc_decision(const struct grpc_completion *completion, uint32_t i,
                                 struct wire_decision *out)
{
    wire_decision_at(completion->decisions, completion->first + i, out);
}

#endif

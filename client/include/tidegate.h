/* tidegate.h - libtidegate: ask a Tidegate cluster whether something may happen now.
 *
 *     tg_client_t *client = tg_open("tcp://10.0.0.1:7600,tcp://10.0.0.2:7600", NULL);
 *     const tg_attribute_t who[] = {{"api", "/login", TG_STRLEN}, {"ip", "192.0.2.7", TG_STRLEN}};
 *     tg_request_t request = tg_request(who, 2);
 *     tg_decision_t decision;
 *
 *     if (tg_check(client, &request, &decision) == 0 && !decision.allowed)
 *         reject(decision.status, decision.retry_after_ms);
 *     tg_close(&client);
 *
 * - A denial is a decision, never an error. Functions return 0 when there is a decision and a
 *   negative TG_E* when there is none.
 * - A handle may be used by any number of threads at once. One thread inside it owns all sockets;
 *   concurrent calls share messages, so many threads cost the cluster little more than one.
 * - Every call ends within its deadline (TG_TIMEOUT_MS_DEFAULT unless the options say otherwise).
 *   If a node dies in between, another is asked with the same identification, so that
 *   the check is not charged twice.
 * - Hot keys and denials: most checks of a key that is asked about often cost no message. The
 *   handle takes blocks of its tokens for a second (leases) and admits with them by itself;
 *   and what was denied a moment ago is denied again without asking, until the time that was told,
 *   for a second at most. See tg_check.
 * - When no decision can be had in time, options.on_failure may turn the error into a
 *   decision (allowed or denied) with `degraded` set and `error` saying why.
 * - fork: a handle is of the process that opened it; a child opens its own. Calls on a parent's
 *   handle are TG_EINVALID there, and tg_close only forgets it. No signal is blocked, handled or
 *   sent; the inner thread blocks all signals.
 *
 * Strings in decisions live until tg_close. All other memory is the caller's.
 */
#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors: 0, or one of these ----------------------------------------------------------- */

#ifndef TG_ERROR_MAP
enum tg_error {
    TG_OK = 0,
    TG_EINVALID = -1,      /* a bad argument */
    TG_ENOMEM = -2,        /* out of memory */
    TG_ETIMEOUT = -3,      /* no answer within the deadline; it may have been charged */
    TG_EUNREACHABLE = -4,  /* no endpoint could be reached within the deadline */
    TG_EPROTOCOL = -5,     /* a malformed answer */
    TG_EVERSION = -6,      /* no common protocol version */
    TG_ETOOBIG = -7,       /* a message or field over its bound */
    TG_EBUSY = -8,         /* overloaded, here or there: try again later */
    TG_ENOTFOUND = -9,     /* (administration) no such thing */
    TG_EEXISTS = -10,      /* (administration) already there */
    TG_EIO = -11,          /* input/output error */
    TG_ECORRUPT = -12,     /* stored data is corrupt */
    TG_EFULL = -13,        /* no space left */
    TG_ECLOSED = -14,      /* the handle was closed during the call */
    TG_EUNAVAILABLE = -15, /* no node can decide for this key now */
    TG_EUNSUPPORTED = -16, /* not supported by this node */
    TG_EADDRINUSE = -17,   /* address already in use */
    TG_ECONFLICT = -18     /* (administration) conflicts with a newer state */
};
#endif

/* The message of `code`, "ok" for 0. Static storage. */
TG_API const char *tg_strerror(int code);
/* Its name: "TG_ETIMEOUT". Static storage. */
TG_API const char *tg_error_name(int code);
/* 1 if the same call may succeed when it is made again, else 0. */
TG_API int tg_retryable(int code);
/* "1.2.3". Static storage. */
TG_API const char *tg_version(void);

/* ---- opening and closing ------------------------------------------------------------------- */

typedef struct tg_client tg_client_t;

enum {
    TG_TIMEOUT_MS_DEFAULT = 1000,
    TG_TRY_TIMEOUT_MS_DEFAULT = 250,
    TG_IN_FLIGHT_DEFAULT = 65536,
    TG_TIMEOUT_MS_MAX = 3600000
};

/* What a call gives when there is no decision in time. */
typedef enum tg_on_failure {
    TG_FAIL_ERROR = 0, /* the error */
    TG_FAIL_OPEN = 1,  /* a decision: allowed, degraded, `error` set */
    TG_FAIL_CLOSED = 2 /* a decision: denied (status 503), degraded, `error` set */
} tg_on_failure_t;

/* Set up with tg_options(); every field left 0 or NULL means its default. Copied by tg_open. */
typedef struct tg_options {
    size_t struct_size;           /* set by tg_options(): newer libraries know older callers */
    int timeout_ms;               /* the deadline of a call: 1 .. TG_TIMEOUT_MS_MAX */
    int try_timeout_ms;           /* after this without an answer another endpoint is asked */
    tg_on_failure_t on_failure;   /* TG_FAIL_ERROR */
    unsigned in_flight_max;       /* requests without an answer; above: TG_EBUSY at once */
    const char *agent;            /* names the program in the nodes' lists; at most 100 bytes */
    const char *curve_server_key; /* Z85, 40 characters: CURVE on; all three or none */
    const char *curve_public_key;
    const char *curve_secret_key;
    char *error;       /* if not NULL: tg_open writes here why it returned NULL */
    size_t error_size; /* bytes at `error` */
    int no_leases;     /* not 0: hot keys are asked for as any other */
    int no_denials;    /* not 0: what was denied a moment ago is asked for again */
} tg_options_t;

/* Options with every default. */
TG_API tg_options_t tg_options(void);

/* Opens a handle on a cluster: `endpoints` is one or more "tcp://HOST:PORT" of any of its nodes,
 * separated by commas (at most 64); the other nodes are learned. `options` may be NULL.
 * Returns at once and without having connected. NULL if an argument is wrong or memory or
 * descriptors are short (see options->error). */
TG_API tg_client_t *tg_open(const char *endpoints, const tg_options_t *options);

/* Ends all calls that still wait with TG_ECLOSED, frees the handle and sets *client to NULL.
 * *client may be NULL. No call may be started during or after it; not from a callback. */
TG_API void tg_close(tg_client_t **client);

/* ---- asking ---------------------------------------------------------------------------------- */

/* Limits of the protocol; a request over one is TG_EINVALID. */
enum {
    TG_ATTRIBUTES_MAX = 32,
    TG_ATTRIBUTE_NAME_MAX = 64, /* bytes */
    TG_VALUE_MAX = 1024,        /* bytes of a value, or of an inline key */
    TG_EXPLAIN_MAX = 64         /* limits explained per request */
};
#define TG_COST_MAX UINT64_C(1000000000000000)

/* As a length: the string ends at its NUL. */
#define TG_STRLEN ((size_t)-1)

typedef struct tg_attribute {
    const char *name;
    const void *value;
    size_t value_len; /* bytes, or TG_STRLEN */
} tg_attribute_t;

typedef enum tg_algorithm {
    TG_TOKEN_BUCKET = 0,
    TG_FIXED_WINDOW = 1,
    TG_SLIDING_WINDOW = 2,
    TG_SLIDING_LOG = 3,
    TG_LEAKY_BUCKET = 4, /* decisions also tell delay_ms */
    TG_SLIDING_BUCKETS = 5,
    TG_CONCURRENCY = 6 /* count: in flight; window_ns: the time-out of a lease */
} tg_algorithm_t;

/* `count` events per `window_ns`; burst (of the buckets only) is the capacity, 0 = count. */
typedef struct tg_limit {
    tg_algorithm_t algorithm;
    uint64_t count;
    uint64_t window_ns;
    uint64_t burst;
    unsigned buckets; /* sliding_buckets: sub-windows of a window, 2 .. 240, 0 = 60; else 0 */
    int align_first;  /* fixed_window: a window begins with the first request after the last one */
} tg_limit_t;

/* Reads "5/60s", "30/24h", "100/minute" into count and window_ns; algorithm token_bucket, burst 0.
 * TG_EINVALID with a sentence in `error` (may be NULL) of `error_size` bytes. */
TG_API int tg_limit_parse(const char *rate, tg_limit_t *limit, char *error, size_t error_size);
/* "sliding_log" -> the algorithm; TG_EINVALID for another word. */
TG_API int tg_algorithm_parse(const char *name, tg_algorithm_t *algorithm);
TG_API const char *tg_algorithm_name(tg_algorithm_t algorithm);

typedef enum tg_operation {
    TG_CHECK = 0,   /* decide and, if allowed, consume */
    TG_PEEK = 1,    /* may a check pass now, and if not when; nothing is consumed, so used and
                       remaining are the state as it is */
    TG_HIT = 2,     /* consume without asking; may go into debt */
    TG_REFUND = 3,  /* give back */
    TG_RESET = 4,   /* as if the key were new */
    TG_LEASE = 5,   /* a check that must give a lease: an error where no limit has any */
    TG_RELEASE = 6, /* give the places, or unused tokens, of lease_id back; twice does no harm */
    TG_RENEW = 7,   /* let the time-out of lease_id begin anew; denied if it is over */
    TG_RESERVE = 8, /* hold an estimate of tokens until it is settled, or its time is over */
    TG_COMMIT = 9,  /* settle lease_id by what was really used; twice does no harm */
    TG_CANCEL = 10  /* give all that lease_id holds back; twice does no harm */
} tg_operation_t;

/* One limit that was met, for requests with `explain`. */
typedef struct tg_explain {
    const char *rule;
    const char *window;
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    int allowed;
    int64_t reset_after_ms;
    int64_t retry_after_ms; /* -1 never */
    const char *pool;      /* of an elastic limit, else ""; how that pool is doing, all 0 if nothing
                              was heard of it lately, in thousandths of a token a second: */
    uint64_t level;        /* what a key of weight 1 may borrow, in the rule's class */
    uint64_t guaranteed;   /* what the whole cluster admits inside limits */
    uint64_t borrowed;     /* and above them */
    int pool_global;       /* 1: the pool's rate is one for all regions (scope global), and */
    const char *pool_home; /* this is the one that lends; else "", or if it is not known */
} tg_explain_t;

/* Either attributes, which the cluster's rules turn into limits, or `key` and an inline limit.
 * Made by tg_request or tg_request_inline; fields may then be changed. */
typedef struct tg_request {
    const tg_attribute_t *attributes;
    size_t attribute_count; /* 1 .. TG_ATTRIBUTES_MAX, names distinct; 0 = inline */
    const void *key;
    size_t key_len; /* or TG_STRLEN */
    tg_limit_t limit;
    tg_operation_t operation;
    int at_most;           /* with check and peek: take what there is, up to the cost */
    uint64_t cost;         /* 0 .. TG_COST_MAX; 1 if not changed */
    tg_explain_t *explain; /* where every limit that was met is written, or NULL */
    size_t explain_max;    /* entries at `explain` */
    uint64_t lease_id; /* with release, renew, commit and cancel: of the decision that gave it */
    uint64_t used;     /* with release and renew of tokens: how many were used so far; with
                          commit: how many were used; with reserve: for how many ms, 0: 60 s */
} tg_request_t;

TG_API tg_request_t tg_request(const tg_attribute_t *attributes, size_t attribute_count);
TG_API tg_request_t tg_request_inline(const char *key, const tg_limit_t *limit);

typedef enum tg_outcome {
    TG_ALLOW = 0,
    TG_SOFT_EXCEEDED = 1,    /* allowed, above the limit but within its tolerance */
    TG_ELASTIC_BORROWED = 2, /* allowed, from the pool's spare capacity */
    TG_SHADOW_DENIED = 3,    /* allowed, but a rule on trial would have denied */
    TG_NO_RULE = 4,          /* no rule matched */
    TG_DENY = 5,
    TG_BLOCKED = 6,
    TG_BUSY = 7, /* the node is overloaded; allowed as its rule's on_failure says */
    TG_ERROR = 8 /* no decision could be made; allowed as on_failure says */
} tg_outcome_t;

/* "soft_exceeded". Static storage. */
TG_API const char *tg_outcome_name(tg_outcome_t outcome);

typedef struct tg_decision {
    int allowed;
    tg_outcome_t outcome;
    int degraded;        /* not confirmed by the key's replicas, or made by on_failure */
    int error;           /* 0, or the TG_E* that stands in this decision's way */
    int status;          /* as HTTP: 200, 429 ... */
    int local;           /* 1: made by this handle, without asking (tg_check) */
    const char *rule;    /* the rule and window that decided; "" if none */
    const char *window;  /* "5/h" */
    const char *message; /* of what is not allowed: the rule's, or why; never empty; else "" */
    const char *node;    /* who decided, or "" */
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    uint64_t granted;       /* what was consumed: the cost, less with at_most */
    int64_t reset_after_ms; /* until full; -1 never */
    int64_t retry_after_ms; /* until this cost can succeed; -1 never */
    int64_t delay_ms;       /* wait before going on, for an even flow */
    size_t explain_count;   /* entries written to request.explain */
    uint64_t lease_id;      /* what was admitted is in flight until this is released, or what was
                               reserved until this is settled; 0 none */
    int64_t lease_ms;       /* of tokens: how long that lasts (tg_lease, tg_reserve); else 0 */
} tg_decision_t;

/* Of a decision that the library filled, with outcome TG_SHADOW_DENIED: the rule on trial that
 * would have denied. "" of any other, and if the node does not tell. Lives as the decision's
 * strings. */
TG_API const char *tg_shadow_rule(const tg_decision_t *decision);

/* Each asks one request, with the operation of its name, and waits for the decision.
 * 0: *decision is filled. Negative: no decision (its `error` is set, `allowed` is 0).
 * TG_EINVALID a bad request; TG_EBUSY in_flight_max reached or a node is overloaded; TG_ETIMEOUT;
 * TG_EUNREACHABLE; TG_EUNAVAILABLE; TG_ECLOSED; TG_EVERSION; TG_EPROTOCOL. Any thread. */
/* Checks of 1 to 16 tokens of a key of which 64 were admitted within 200 ms are decided by tokens
 * that the handle holds, as long as it has some: unless options.no_leases is set, the request is
 * at_most, has `explain`, more than 8 attributes or some 500 bytes, or meets limits that give no
 * leases (several rules, leaky_bucket, soft, elastic ...; see PROTOCOL.md). Together all holders
 * and nodes admit what the limit admits, never more. Of such a decision (`local`), rule, window,
 * limit and node are those of the lease; `used` and `remaining` are what they were when it was
 * taken, plus and less what was taken of it here since. A block, a revoked key or a changed rule
 * acts on them within two seconds. tg_close gives back what is left; a process that dies with a
 * lease has spent it. What is held is missing elsewhere meanwhile: others may be denied up to a
 * second before the limit is used up.
 *
 * A denied check is denied again here, for the same cost or more, until the retry_after_ms that the
 * node computed, and for a second at most, unless options.no_denials is set; only where a node says
 * that nothing else changes it (not: concurrency, elastic, count_denied, users and keys with
 * totals; nor while tokens of the limit are leased to anybody). A refund, reset or release by this
 * handle makes it ask again at once. */
TG_API int tg_check(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_peek(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_hit(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_refund(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_reset(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
/* Of limits with the algorithm concurrency: an admission (by a check as well) takes a lease, which
 * is given back with the same attributes, or key and limit, and request.lease_id. What is not
 * released in time frees its place by itself.
 *
 * Of other limits, tg_lease takes `cost` tokens out (with at_most up to so many, and half of what
 * is left): whoever holds them may admit so many requests without asking, until lease_ms after the
 * moment before tg_lease was called, less 1/64 of it and 1 ms. Then they are all spent, unless they
 * were released before, with request.used saying how many were used; decision.granted says how many
 * came back. See PROTOCOL.md for which limits give leases. */
TG_API int tg_lease(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_release(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_renew(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
/* For a cost that is known only when the work is done. tg_reserve takes `cost` tokens, an estimate,
 * out of all limits that the request meets, or out of none, for request.used milliseconds (1 s to
 * 1 h; 0: 60 s). tg_commit, with the same attributes, or key and limit, request.lease_id and in
 * request.used what was really used, charges that and gives the rest back; what is more than was
 * reserved is charged as tg_hit does. tg_cancel gives all of it back. What is not settled in time
 * is given back by itself; a commit that comes later is charged as tg_hit does. Settled is settled:
 * a commit or cancel may be repeated for 30 s and changes nothing then. See PROTOCOL.md. */
TG_API int tg_reserve(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_commit(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
TG_API int tg_cancel(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);
/* The same with request->operation. */
TG_API int tg_call(tg_client_t *client, const tg_request_t *request, tg_decision_t *decision);

/* Asks `count` requests, each with its own operation, in few messages, and waits for all. The
 * fastest way: 64 to 1,000 at a time. Equal keys are decided in the given order as long as no node
 * fails in between. 0 if every decision is filled; else the first error, and each
 * decisions[i].error says which have none. With one bad request the whole call is TG_EINVALID, and
 * nothing is charged. count 1 .. in_flight_max. */
TG_API int tg_check_many(tg_client_t *client, const tg_request_t *requests, size_t count,
                         tg_decision_t *decisions);

/* Runs on the library's thread: it must not block nor make a waiting call on the same handle
 * (TG_EINVALID); it may start asynchronous ones. `code` as tg_check_many returns. */
typedef void (*tg_callback_t)(void *argument, int code, tg_decision_t *decisions, size_t count);

/* The same without waiting. If in_flight_max leaves no room it is TG_EBUSY at once, before anything
 * is looked at that `requests` points to, so that more than can be asked costs next to nothing; if
 * there is room, a bad request is TG_EINVALID. Everything that `requests` points to, and
 * `decisions`, must stay until the callback, which is called exactly once if 0 is returned, and
 * never otherwise. */
TG_API int tg_check_async(tg_client_t *client, const tg_request_t *requests, size_t count,
                          tg_decision_t *decisions, tg_callback_t callback, void *argument);

/* ---- administration ------------------------------------------------------------------------ */

typedef struct tg_reply {
    void *data; /* one msgpack value, or NULL */
    size_t len;
} tg_reply_t;

/* Sends an administrative command ("status", "members", "rules.list" ...; see PROTOCOL.md) with its
 * arguments, a msgpack map (NULL = an empty map), to the first endpoint given to tg_open that can
 * be reached, and waits. `timeout_ms` 0 = that of the options. 0, or a negative code: the node's
 * (then the reply's value is a sentence, a str) or the library's (then reply->data is NULL).
 * Asked once: a lost answer is TG_ETIMEOUT or TG_EUNREACHABLE. Free the reply in either case. */
TG_API int tg_admin(tg_client_t *client, const char *command, const void *arguments,
                    size_t arguments_len, int timeout_ms, tg_reply_t *reply);
TG_API void tg_reply_free(tg_reply_t *reply);

/* Tells how loaded the service is that the pool of elastic limits protects, from 0 to 1: believed
 * for 3 s, so report it every second or so. At the pool's load_max nobody borrows any more. 0, or
 * TG_EINVALID (another number, no name), TG_ENOTFOUND (the rules have no such pool), or as
 * tg_admin. Any thread. */
TG_API int tg_report_load(tg_client_t *client, const char *pool, double load);

/* A sentence on what went wrong last on this handle, such as which endpoints could not be
 * reached and why; "" if nothing did. Cut to `size` bytes with its NUL. Any thread. */
TG_API void tg_error_detail(tg_client_t *client, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif

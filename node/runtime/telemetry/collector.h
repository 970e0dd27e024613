/* collector.h - one message to a collector by HTTP, and what it says to that.
 *
 * libcurl carries it, so that names, TLS and proxies are those of the machine. What the collector
 * answers is bounded: COLLECTOR_ANSWER_MAX bytes of a body are taken, and a longer one ends the
 * connection. No redirect is followed.
 *
 * One thread; collector_wake may be called from any. */
#ifndef NODE_RUNTIME_TELEMETRY_COLLECTOR_H
#define NODE_RUNTIME_TELEMETRY_COLLECTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { COLLECTOR_ANSWER_MAX = 64 << 10, COLLECTOR_WHY_LEN = 256 };

struct collector;

struct collector_options {
    const char *headers; /* NAME=VALUE,NAME=VALUE, percent-encoded; "": none */
    const char *ca;      /* file of the authorities that are believed; "": the machine's */
    int64_t timeout_ns;  /* of one message */
    const char *agent;   /* User-Agent */
};

/* What became of a message. */
struct collector_answer {
    uint16_t status;             /* of HTTP; 0: none came */
    bool ended;                  /* it was given up, as the caller's time was over */
    int64_t retry_ns;            /* what Retry-After says; 0: nothing */
    uint64_t rejected;           /* spans or points that a partial success did not take */
    char why[COLLECTOR_WHY_LEN]; /* no status came: what happened, in words */
};

/* Before other threads of the process are there. Options are borrowed. 0, TG_ENOMEM, TG_EIO. */
MUST_USE int collector_new(const struct collector_options *options, struct collector **out);
void collector_free(struct collector **collector);

/* Sends a message of JSON, and waits for the answer, but not beyond `until_ns` of the monotonic
 * clock once *stopping is true. */
void collector_post(struct collector *collector, const char *url, const char *data, size_t len,
                    const _Atomic bool *stopping, const _Atomic int64_t *until_ns,
                    struct collector_answer *out);
/* Whoever waits in collector_post looks whether it is to end. Any thread. */
void collector_wake(struct collector *collector);

/* What a body says that was not taken, of a partial success; 0 if it says nothing. Pure. */
uint64_t collector_rejected(const char *body, size_t len);

#endif

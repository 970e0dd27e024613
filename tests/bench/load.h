/* load.h - what the parts of the load generator share; load.c tells what it is for.
 *
 *   arguments --> options --> keys drawn --> frames, built once --> a loop that sends them
 *                                                                        |
 *                          JSON on standard output <-- outcome <---------+
 *
 * BENCHLOAD-1  Nothing is built, allocated or looked up while it is measured: a frame gets its
 *              number, is sent, and its answer is decoded and counted.
 * BENCHLOAD-2  What is sent is what any program could send that follows PROTOCOL.md; what is
 *              answered is decoded by the codec that libtidegate uses.
 */
#ifndef TESTS_BENCH_LOAD_H
#define TESTS_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limit.h"
#include "client/protocol/wire.h"

enum {
    LOAD_ENDPOINTS_MAX = 16,
    LOAD_NAMES_MAX = 8,
    LOAD_PIDS_MAX = 8,
    LOAD_KEYS_MAX = 10000000,
    LOAD_WINDOW_MAX = 65536, /* messages without an answer; a power of two */
    LOAD_CONNECTIONS_MAX = 256,
    LOAD_KEY_LEN = 8,  /* bytes of a key: k and seven digits */
    LOAD_STEP_MS = 100 /* of the course that an open loop tells */
};

enum load_draw { LOAD_UNIFORM, LOAD_ZIPF, LOAD_ONE };

/* Where a frame goes: to the first endpoint, to the decider of its keys, or to another member. */
enum load_route { LOAD_FIRST, LOAD_DECIDER, LOAD_OTHER };

struct load_options {
    const char *mode;
    const char *endpoints[LOAD_ENDPOINTS_MAX]; /* tcp://HOST:PORT */
    uint32_t endpoint_count;
    double seconds; /* measured */
    double warm_s;  /* before that */
    uint32_t items; /* checks a message */
    uint32_t window;
    uint32_t connections; /* to each endpoint */
    uint32_t targets;     /* only the first so many endpoints are asked; 0: all */
    uint32_t keys;
    uint32_t first_key;
    uint32_t draws; /* checks in all frames together */
    enum load_draw draw;
    enum load_route route;
    struct limit limit;
    const char *names[LOAD_NAMES_MAX]; /* of attributes, in place of an inline limit */
    uint32_t name_count;
    double rate; /* messages a second, of an open loop */
    uint32_t timeout_ms;
    uint32_t bytes; /* of an echo */
    int pids[LOAD_PIDS_MAX];
    uint32_t pid_count;
};

/* Durations, kept to 1 part in 32. */
enum { LOAD_BUCKET_BITS = 5, LOAD_BUCKETS = (64 - LOAD_BUCKET_BITS) << LOAD_BUCKET_BITS };

struct load_histogram {
    uint64_t counts[LOAD_BUCKETS];
    uint64_t total;
};

void load_histogram_add(struct load_histogram *histogram, int64_t ns, uint64_t count);
/* The duration that `share` of all took at most, in us. */
double load_histogram_at(const struct load_histogram *histogram, double share);
/* The buckets that hold something, as a JSON array of [us, count]. */
void load_histogram_print(const struct load_histogram *histogram);

/* What came of the checks of one run. */
struct load_outcome {
    uint64_t messages; /* answered */
    uint64_t allowed;
    uint64_t denied;
    uint64_t degraded;
    uint64_t busy;   /* checks that were answered so, one by one or as a message */
    uint64_t errors; /* checks answered by any other error */
    uint64_t lost;   /* checks without an answer in time */
    uint64_t unsent; /* checks that the connection did not take */
    uint64_t asked;  /* checks, of an open loop */
    double seconds;
    double nodes_cpu_s; /* of the processes named */
    double own_cpu_s;
    struct load_histogram latency;      /* of checks that were decided */
    struct load_histogram busy_latency; /* of those that were not */
};

struct load_frame {
    uint8_t *data; /* LOAD_SEQ_AT: where its seq is */
    uint32_t len;
    uint32_t items;
    uint32_t target; /* index of an endpoint */
};

/* Frames by endpoint: those of endpoint e are frames[first[e]] .. frames[first[e + 1] - 1]. */
struct load_frames {
    struct load_frame *frames;
    uint32_t count;
    uint32_t first[LOAD_ENDPOINTS_MAX + 1];
};

/* Who decides what; filled from a node's WELCOME and RING. */
struct load_ring {
    struct hash_key route_key;
    uint32_t vnodes;
    uint16_t targets[WIRE_VNODES_MAX]; /* of each vnode: index of an endpoint */
};

int64_t load_now_ns(void);
/* A session that no other run has had: large, so that its length on the wire is always the same. */
uint64_t load_session(void);
/* Ends the program with a sentence. */
void load_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *load_memory(size_t count, size_t size);

/* A DEALER connected to `endpoint`; `queue`: messages that wait here before it takes no more, and a
 * small buffer of the kernel behind them; 0: what ZeroMQ does by itself. */
void *load_connect(void *context, const char *endpoint, uint32_t queue);
/* Asks the first endpoint for the ring. Ends the program if a decider is not among the endpoints
 * given. */
void load_ring_ask(void *context, const struct load_options *options, uint64_t session,
                   struct load_ring *ring);
/* Draws keys and builds all frames. `ring` may be NULL if all goes to the first endpoint. */
void load_frames_build(const struct load_options *options, const struct load_ring *ring,
                       uint64_t session, struct load_frames *out);
/* `options->draws` keys, drawn as asked. */
uint32_t *load_draw_keys(const struct load_options *options);
void load_key_text(uint32_t key, char text[LOAD_KEY_LEN + 1]);
void load_frame_number(struct load_frame *frame, uint64_t seq);

/* Counts the answer `frame`; false if it is none to a CHECKS. `seq` is what it answers. */
bool load_count_answer(const void *frame, size_t len, uint32_t items, int64_t took_ns,
                       struct load_outcome *outcome, uint64_t *seq);
/* The seq of an answer, 0 if it is none. */
uint64_t load_answer_seq(const void *frame, size_t len);

/* The modes. Each fills `outcome`, but for the echo server, which never ends by itself. */
void load_serve_echo(void *context, const struct load_options *options);
void load_run_echo(void *context, const struct load_options *options, struct load_outcome *outcome);
void load_run_closed(void *context, const struct load_options *options,
                     struct load_outcome *outcome);
void load_run_open(void *context, const struct load_options *options, struct load_outcome *outcome);
void load_run_client(const struct load_options *options, struct load_outcome *outcome);
void load_run_flood(const struct load_options *options, struct load_outcome *outcome);

/* Processor seconds that the processes have used so far. */
double load_cpu_s(const struct load_options *options);
/* To be called around what is measured: they bracket the processes' use of the processor. */
void load_measure_begin(const struct load_options *options, struct load_outcome *outcome);
void load_measure_end(const struct load_options *options, struct load_outcome *outcome);

#endif

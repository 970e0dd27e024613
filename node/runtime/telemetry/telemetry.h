/* telemetry.h - what the node tells of itself to a collector, and to the log of traced requests.
 *
 *   shard --tracer--> sink --> the log, if it is worth it
 *                      |  \--> ring of the shard --+
 *                      |                           v
 *   control --a page of metrics--> the newest --> exporter's thread --> collector
 *
 * Nothing here decides anything, and nothing that decides waits for it: a full ring drops, a page
 * that was not sent is replaced by the next one, and both are counted. Off unless an address is
 * given; then libcurl and one thread are there. */
#ifndef NODE_RUNTIME_TELEMETRY_TELEMETRY_H
#define NODE_RUNTIME_TELEMETRY_TELEMETRY_H

#include "node/runtime/config/config.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/system/log_output.h"

struct telemetry;

struct telemetry_options {
    const struct config *config;
    struct log_output *output;
    const struct clock *clock;
    const char *version;
    int64_t started_ns; /* of the process, Unix: what counters count from */
    uint64_t seed;      /* random */
};

/* Takes all memory, and starts the exporter's thread if there is something to push. Before the
 * shards' threads. Options are borrowed. 0, TG_ENOMEM, TG_EIO. */
MUST_USE int telemetry_new(const struct telemetry_options *options, struct telemetry **out);
/* The tracer of a shard's HTTP clients, for its thread alone; NULL: nothing is traced. */
struct tracer *telemetry_tracer(struct telemetry *telemetry, uint32_t shard);
/* Whether a page of metrics is to be given now. One thread, the same as gives it. */
bool telemetry_due(struct telemetry *telemetry);
/* Gives the page; it is copied. */
void telemetry_give(struct telemetry *telemetry, const char *page, size_t len);
/* The shards' threads have ended: what waits is sent within `flush_ns`, if the collector takes it.
 * Returns at once. `telemetry` may be NULL, here and below. */
void telemetry_end(struct telemetry *telemetry, int64_t flush_ns);
/* Waits for that, and frees all. */
void telemetry_free(struct telemetry **telemetry);

/* What is counted since the start. */
enum telemetry_figure {
    TELEMETRY_SPANS_SENT,     /* of traced requests: the collector took them, */
    TELEMETRY_SPANS_REJECTED, /* or took the message but not these, */
    TELEMETRY_SPANS_FAILED,   /* or refused, or could not be reached for too long, */
    TELEMETRY_SPANS_DROPPED,  /* or there was no room for them, or no time at the end; also where
                                 traces are not pushed, and one was not looked at for the log */
    TELEMETRY_PUSHES_SENT,    /* pages of metrics, likewise */
    TELEMETRY_PUSHES_FAILED,
    TELEMETRY_PUSHES_DROPPED, /* a newer one came before they were sent */
    TELEMETRY_LINES_WRITTEN,  /* of the log, on traced requests, */
    TELEMETRY_LINES_DROPPED,  /* and those that were too many in their second */
    TELEMETRY_FIGURES
};
extern const char *const telemetry_figure_names[TELEMETRY_FIGURES];
/* Any thread. */
uint64_t telemetry_figure(struct telemetry *telemetry, enum telemetry_figure figure);

#endif

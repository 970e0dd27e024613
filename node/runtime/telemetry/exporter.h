/* exporter.h - the thread that pushes: messages made, sent, sent again, given up.
 *
 * EXPORTER-1  Of each signal one message is on its way; it is sent EXPORTER_ATTEMPTS times at most.
 * EXPORTER-2  A status that says "not now", or none, is tried again after what Retry-After says, or
 *             a time that doubles; any other one ends the message.
 * EXPORTER-3  Each span and each page ends in one of the figures.
 */
#ifndef NODE_RUNTIME_TELEMETRY_EXPORTER_H
#define NODE_RUNTIME_TELEMETRY_EXPORTER_H

#include "base/error.h"
#include "base/log.h"
#include "node/runtime/config/config.h"
#include "node/runtime/system/clock.h"
#include "node/runtime/telemetry/span_json.h"
#include "node/runtime/telemetry/span_ring.h"
#include "node/runtime/telemetry/telemetry.h"

enum { EXPORTER_ATTEMPTS = 8 };

struct exporter;

struct exporter_options {
    const struct config *config;
    const struct clock *clock;
    const struct log *log;
    const char *version;
    int64_t started_ns;
    struct span_ring *const *rings; /* of each shard; borrowed */
    uint32_t ring_count;
    _Atomic uint64_t *figures; /* [TELEMETRY_FIGURES] */
    uint64_t seed;
};

/* Takes memory and starts the thread. 0, TG_ENOMEM, TG_EIO. */
MUST_USE int exporter_new(const struct exporter_options *options, struct exporter **out);
/* A page of metrics, in a malloc'ed block that is the exporter's from now on. */
void exporter_page(struct exporter *exporter, char *page, size_t len);
void exporter_end(struct exporter *exporter, int64_t flush_ns);
void exporter_free(struct exporter **exporter);

/* How long a message waits after its n-th failure, n > 0; `random` is any number. Pure. */
int64_t exporter_pause_ns(uint32_t failures, int64_t told_ns, uint64_t random);
/* Whether a message with that answer may be sent again: 0 is none. Pure. */
bool exporter_again(uint16_t status);

#endif

/* teller.h - sentences for the log that are events, too: `tidegate events`, the page.
 *
 *   log_printf(&teller->log, ...) --> the log, as any line
 *                                 \-> teller->events
 *
 * The main thread alone writes by it, and reads the events.
 */
#ifndef NODE_RUNTIME_CONTROL_TELLER_H
#define NODE_RUNTIME_CONTROL_TELLER_H

#include "base/log.h"
#include "node/cluster/model/event_log.h"
#include "node/runtime/system/clock.h"

struct teller {
    struct log log;
    const struct log *to;
    const struct clock *clock;
    struct event_log events;
};

/* `to` and `clock` are borrowed. */
void teller_init(struct teller *teller, const struct log *to, const struct clock *clock);
/* The time that events have: that of the wall clock, in ns since 1970. */
int64_t teller_now(const struct teller *teller);

#endif

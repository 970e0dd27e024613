/* signals.h - SIGTERM, SIGINT and SIGHUP as input that waits to be taken, instead of an
 * interruption.
 *
 * SIGNALS-1  Once held they end nothing any more: what comes before somebody takes them waits, and
 *            so does what comes after the last was taken, until the process has ended by itself.
 *            Two of a kind that nobody took in between are one.
 */
#ifndef NODE_RUNTIME_SYSTEM_SIGNALS_H
#define NODE_RUNTIME_SYSTEM_SIGNALS_H

#include "base/error.h"

/* From now on, in this thread and in all that it starts. */
void signals_hold(void);

/* A descriptor that is readable while one waits. 0 or TG_EIO. */
MUST_USE int signals_open(int *out);
/* The number of one that waited, or 0. */
int signals_take(int signals);
/* Closes it and sets it to -1; allowed for one that is. */
void signals_close(int *signals);

#endif

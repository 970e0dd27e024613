/* failure.h - ends this process at a failpoint, as a fault test asked in the environment.
 *
 *     TIDEGATE_FAILPOINT="pass-after-send:3"     SIGKILL at the third visit of that place
 *
 * Compiled into every build, so that what is tested is what is shipped. Without the variable there
 * is no struct failpoints anywhere and no place costs more than a comparison with NULL.
 *
 * What happens between shards is recognised here, in the shell, by looking into the frames that
 * leave and arrive: the cores know nothing of failing. Places "after-send" end the process
 * FAILURE_SENT_MS later, when ZeroMQ has handed the frame to the kernel, and the thread that sent
 * it does nothing more in between.
 */
#ifndef NODE_RUNTIME_SYSTEM_FAILURE_H
#define NODE_RUNTIME_SYSTEM_FAILURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failpoint.h"
#include "base/log.h"

#define FAILURE_VARIABLE "TIDEGATE_FAILPOINT"
enum { FAILURE_SENT_MS = 20 };

struct failure {
    struct failpoints failpoints;
    enum failpoint point;
    _Atomic uint64_t left;
    const struct log *log;
    void (*end)(void); /* SIGKILL; tests put something milder here */
};

/* Prepares to fail as `text` says; a warning says so. TG_EINVALID, with the names that there are
 * in the log, for a text that names no place. */
MUST_USE int failure_init(struct failure *failure, const char *text, const struct log *log);

/* Visits the point of a meta value that is about to be kept, or that has been. */
void failure_meta(const struct failpoints *failpoints, bool kept, const char *key);

enum failure_frame { FAILURE_SENDING, FAILURE_SENT, FAILURE_RECEIVED };

/* Visits the points of the records in a frame between shards, once each. `failpoints` may be NULL.
 * A frame that cannot be read visits none. */
void failure_frame(const struct failpoints *failpoints, enum failure_frame when, const void *frame,
                   size_t len);

#endif

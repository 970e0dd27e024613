/* member_log.h - what becomes of members, a line in the log for each change.
 * Pure but for the log. */
#ifndef NODE_RUNTIME_CONTROL_MEMBER_LOG_H
#define NODE_RUNTIME_CONTROL_MEMBER_LOG_H

#include "base/log.h"
#include "node/cluster/model/view.h"

enum { MEMBER_LOG_LINES_MAX = 16 }; /* of one change; the rest is told as a number */

/* Tells how `now` differs from `before`, which is NULL for a node that has just begun. */
void member_log_tell(const struct log *log, const struct view *before, const struct view *now);

#endif

/* ring_log.h - what becomes of the ring, a line in the log for each configuration. Pure but for the
 * log. */
#ifndef NODE_RUNTIME_CONTROL_RING_LOG_H
#define NODE_RUNTIME_CONTROL_RING_LOG_H

#include "base/log.h"
#include "node/cluster/control/control.h"
#include "node/cluster/model/view.h"

/* Tells the configuration, with who comes and who goes and why, as far as members say; `asked` is
 * whoever asked node `asked_of` to go or to be removed, as this node knows, or NULL. */
void ring_log_tell(const struct log *log, const struct ring_config *config, const struct view *view,
                   uint64_t asked_of, const char *asked);

#endif

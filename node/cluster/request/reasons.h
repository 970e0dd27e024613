/* reasons.h - what the source of a decision says. */
#ifndef NODE_CLUSTER_REQUEST_REASONS_H
#define NODE_CLUSTER_REQUEST_REASONS_H

#include <stdbool.h>
#include <stdint.h>

#include "node/cluster/request/requests.h"

struct shard;

/* The text of the deciding limit's window, valid until the reply is made; one that no rule has the
 * text of is written into the reply's scratch. */
struct wire_text reasons_window(struct shard *shard, const struct row *row);
/* What is said of a row that is not allowed: by whoever wrote the rule, or else why. Never empty.
 */
struct wire_text reasons_message(const struct row *row, uint8_t outcome);

#endif

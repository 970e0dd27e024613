/* pace.h - the times with which a shard paces itself. */
#ifndef NODE_CLUSTER_MODEL_PACE_H
#define NODE_CLUSTER_MODEL_PACE_H

#include <stdint.h>

#define MS ((int64_t)1000000)

#define SHARD_RESEND_NS         (100 * MS) /* a forward without an answer is sent again */
#define SHARD_REROUTE_NS        (5 * MS)   /* a part without a route looks for one */
#define SHARD_RESYNC_NS         (250 * MS) /* an unacknowledged stream is begun anew */
#define SHARD_RECOVER_NS        (150 * MS) /* a replica that nobody knows yet is waited for */
#define SHARD_TRANSFER_RETRY_NS (50 * MS)
#define SHARD_FORWARD_NS        (1000 * MS)  /* how long a peer's forward may wait here */
#define SHARD_DEADLINE_NS       (10000 * MS) /* no client's message waits longer */
#define SHARD_LEAVE_NS          (1500 * MS)  /* nor so long when the shard has resigned */
#define SHARD_UNDO_NS           (5000 * MS)  /* how long an undo is tried */
#define SHARD_UNDO_PENDING_MAX  (SHARD_PENDING_MAX / 2) /* with so many parts no doubt is undone */
#define SHARD_QUORUM_TIMEOUT_NS (300 * MS) /* for a majority; then checks are refused */
#define SHARD_QUORUM_REMIND_NS  (50 * MS)  /* a mark whose HELD does not come is sent again */
#define SHARD_JOURNAL_REST_NS   (50 * MS)  /* after a batch that could not be written */

#endif

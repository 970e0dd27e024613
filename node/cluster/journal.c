/* journal.c - what consistency `quorum` may not forget, on its way to the journal.
 *
 * Promises, accepted slots and the headers that say how far they go are gathered into batches. One
 * batch is at the journal's writer; what comes meanwhile gathers for the next one, so that many
 * changes share one sync (group commit). What waits for a batch - a promise's REPORT, a HELD, the
 * decider's own share of a majority - is released when the batch has been committed.
 *
 * J1  At most one batch is out. A failed one releases nothing; its records are gathered again.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

bool shard_journal_due(const struct shard *shard)
{
    (void)shard;
    return false; /* no vnode of the second plane exists */
}

void shard_journal_gather(struct shard *shard, int64_t now_ns, struct shard_journal *out)
{
    (void)now_ns;
    ASSERT(!shard->journal_out); /* J1 */
    out->count = 0;
    out->bytes_len = 0;
    shard->journal_out = true;
}

void shard_journaled(struct shard *shard, int64_t now_ns, bool ok, struct effects *effects)
{
    (void)now_ns;
    (void)effects;
    ASSERT(shard->journal_out);
    shard->journal_out = false;
    shard->stats.journal_batches += ok;
    shard->stats.journal_failures += !ok;
}

void shard_restore_promise(struct shard *shard, uint32_t vnode, const struct term *promised)
{
    (void)promised;
    ASSERT(vnode >= shard->options.vnodes);
}

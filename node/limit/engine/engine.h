/* engine.h - decides columns of requests against a slot table.
 *
 * A step takes a batch of rows and one time for all, and fills columns of decisions. Rows are
 * decided in order, so two rows of one key see each other's effect; adjacent rows of one group
 * are decided all or nothing. It never allocates, locks, blocks or asks for the time.
 *
 * Thread: that of the table.
 */
#ifndef NODE_LIMIT_ENGINE_ENGINE_H
#define NODE_LIMIT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/limit.h"
#include "node/limit/algorithms/decision.h"
#include "node/limit/table/table.h"

/* `count` rows. Columns stay the caller's and are only read, but for marks. operations NULL = all
 * checks, flags NULL = 0, groups NULL = every row on its own. A group is a run of equal numbers;
 * its rows are the limits that one request meets (distinct ids; LIMIT_GROUP_MAX rows at most). */
struct limit_batch {
    size_t count;
    const struct hash128 *ids;
    const uint32_t *vnodes;            /* each below the table's number of vnodes */
    const struct limit *const *limits; /* each valid by limit_validate */
    const uint64_t *costs;
    const uint8_t *operations; /* enum operation */
    const uint8_t *flags;      /* enum limit_flag */
    const uint32_t *groups;
    const uint32_t *classes;  /* whose budget of new keys a row's key is of (new_keys.h); NULL:
                               * there is none, but what memory holds */
    const uint64_t *leases;   /* of rows with a concurrency limit, or LIMIT_HOLD: which lease; NULL:
                               * there are no such rows */
    const uint32_t *ttls_ms;  /* of rows with LIMIT_HOLD: those that RESERVE tokens for how long,
                               * LIMIT_TTL_MIN_MS .. LIMIT_TTL_MAX_MS, others 0; NULL: all 0 */
    struct limit_mark *marks; /* read where LIMIT_UNDO, written where LIMIT_MARK and a check was
                               * allowed with a cost; NULL: no row has such a flag */
};

enum { LIMIT_GROUP_MAX = 32 };

/* How often a key of the vnode was reset in this table, modulo 2^32. */
uint32_t engine_resets(const struct table *table, uint32_t vnode);

/* The caller's columns, each of at least batch->count elements. */
struct limit_decisions {
    uint8_t *status;
    uint8_t *allowed;
    uint64_t *limit;
    uint64_t *used;
    uint64_t *remaining;
    uint64_t *granted;
    int64_t *reset_after_ns;
    int64_t *retry_after_ns;
    int64_t *delay_ns;
    uint8_t *notes; /* or NULL */
};

/* Decides all rows at `now_ns` (Unix epoch; a time that goes back never admits more). */
void engine_step(struct table *table, const struct limit_batch *batch, int64_t now_ns,
                 struct limit_decisions *out);

/* Decides one row on its own, which takes, gives back or renews lease `lease` (0: none). */
void engine_one_leased(struct table *table, struct hash128 id, uint32_t vnode,
                       const struct limit *limit, uint64_t cost, uint64_t lease,
                       enum operation operation, unsigned flags, int64_t now_ns,
                       struct limit_decision *out);
/* Decides one row on its own. */
void engine_one(struct table *table, struct hash128 id, uint32_t vnode, const struct limit *limit,
                uint64_t cost, enum operation operation, unsigned flags, int64_t now_ns,
                struct limit_decision *out);

#endif

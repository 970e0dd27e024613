/* borrow.c - requests above an elastic limit: after the engine has denied them, before they are
 * answered.
 *
 *   engine_step --> inside all limits: charged to their pools ----------------------> answer
 *               \-> denied by elastic limits alone: borrowed? --no------------------> deny
 *                        |yes
 *                        +--> engine_step once more, of the other limits alone ----> answer
 *
 * The engine knows nothing of it. A limit that is short takes part in the second step with a cost
 * of 0, so a borrowed request takes nothing from it, and what the other limits of the request take
 * is decided all or nothing as ever.
 *
 * BORROW-1  Nothing here can deny what the engine has allowed.
 * BORROW-2  Of several limits of one pool that are short only the first asks, and a request that is
 *           inside several limits of one pool is charged to it once: it is one request to what the
 *           pool protects.
 * BORROW-3  What was borrowed and not used, for another limit denies after all, goes back.
 * BORROW-4  So does what an undo gives back: a request that another owner denied is no load of a
 *           pool.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/shard_state.h"

/* What an item has borrowed, row by row. */
struct borrowing {
    uint64_t tokens[LIMIT_GROUP_MAX];     /* that the row's key was lent */
    bool short_of[LIMIT_GROUP_MAX];       /* the row denied */
    int64_t retry_after[LIMIT_GROUP_MAX]; /* as it was told by the denial */
    uint64_t granted;
    bool at_most;
};

static bool row_inside(const struct batch *batch, uint32_t row)
{
    return batch->allowed[row] != 0;
}

/* Whether a row before this one is of its pool: of those in `short_of`, if that is given. */
static bool pool_seen(const struct batch *batch, const struct batch_item *item, uint32_t row,
                      const bool *short_of)
{
    for (uint32_t i = item->first; i < row; i++)
        if (batch->limits[i].pool == batch->limits[row].pool &&
            (short_of == NULL || short_of[i - item->first]))
            return true;
    return false;
}

/* Charges a request that was admitted to the pools of its limits, but for those that lent
 * (BORROW-2). */
static void charge(struct shard *shard, const struct batch_item *item,
                   const struct borrowing *borrowing)
{
    const struct batch *batch = &shard->batch;
    for (uint32_t row = item->first; row < item->first + item->count; row++) {
        bool lent = false;
        for (uint32_t i = 0; borrowing != NULL && i < item->count; i++)
            lent = lent || (borrowing->short_of[i] &&
                            batch->limits[item->first + i].pool == batch->limits[row].pool);
        if (batch->limits[row].pool != 0 && batch->granted[row] > 0 && !lent &&
            !pool_seen(batch, item, row, NULL))
            elastic_admitted(shard->pools.elastic, &batch->limits[row], batch->granted[row],
                             shard->now_ns);
    }
}

static void give_back(struct shard *shard, const struct batch_item *item,
                      const struct borrowing *borrowing, uint64_t keep)
{
    const struct batch *batch = &shard->batch;
    for (uint32_t i = 0; i < item->count; i++)
        if (borrowing->tokens[i] > keep)
            elastic_give_back(shard->pools.elastic, &batch->limits[item->first + i],
                              batch->ids[item->first + i], borrowing->tokens[i] - keep,
                              shard->now_ns);
}

/* Asks the pools of all rows that are short. False, and nothing is borrowed, if one lends nothing.
 */
static bool borrow(struct shard *shard, const struct batch_item *item, struct borrowing *borrowing)
{
    ASSERT(!item->undo && !item->recalled && item->cost > 0); /* BORROW-1 */
    const struct batch *batch = &shard->batch;
    const bool peek = batch->operations[item->first] == OPERATION_PEEK;
    borrowing->granted = item->cost;
    for (uint32_t i = 0; i < item->count; i++) {
        const uint32_t row = item->first + i;
        borrowing->at_most = borrowing->at_most || (batch->flags[row] & LIMIT_AT_MOST) != 0;
        if (!borrowing->short_of[i] || pool_seen(batch, item, row, borrowing->short_of))
            continue;
        const unsigned flags =
            (peek ? ELASTIC_PEEK : 0u) | (borrowing->at_most ? ELASTIC_AT_MOST : 0u);
        const uint64_t tokens =
            elastic_lend(shard->pools.elastic, &batch->limits[row], batch->ids[row],
                         borrowing->granted, flags, shard->now_ns);
        borrowing->tokens[i] = peek ? 0 : tokens;
        if (tokens < borrowing->granted)
            borrowing->granted = tokens;
        if (tokens == 0) {
            give_back(shard, item, borrowing, 0);
            return false;
        }
    }
    return true;
}

/* Decides the rows that are not short for what was lent. */
static void decide_others(struct shard *shard, const struct batch_item *item,
                          const struct borrowing *borrowing)
{
    struct batch *batch = &shard->batch;
    const uint32_t first = item->first;
    ASSERT(first + item->count <= SHARD_BATCH_ROWS);
    for (uint32_t i = 0; i < item->count; i++) {
        batch->costs[first + i] = borrowing->short_of[i] ? 0 : borrowing->granted;
        if (borrowing->short_of[i])
            batch->flags[first + i] &= (uint8_t)~LIMIT_AT_MOST;
    }
    decide_step(shard, first, item->count);
}

/* The other limits took less than was lent, or deny by now (BORROW-3). */
static uint64_t granted_by_others(const struct batch *batch, const struct batch_item *item,
                                  const struct borrowing *borrowing)
{
    uint64_t granted = borrowing->granted;
    for (uint32_t i = 0; i < item->count; i++) {
        const uint32_t row = item->first + i;
        if (!batch->allowed[row] || batch->status[row] != LIMIT_DECIDED)
            return 0;
        if (!borrowing->short_of[i] && batch->granted[row] < granted)
            granted = batch->granted[row];
    }
    return granted;
}

static void finish(struct shard *shard, const struct batch_item *item, struct borrowing *borrowing)
{
    struct batch *batch = &shard->batch;
    const uint64_t granted = granted_by_others(batch, item, borrowing);
    ASSERT(granted <= borrowing->granted); /* BORROW-3 */
    give_back(shard, item, borrowing, granted);
    for (uint32_t i = 0; i < item->count; i++) {
        const uint32_t row = item->first + i;
        if (!borrowing->short_of[i])
            continue;
        batch->granted[row] = granted;
        batch->borrowed[row] = granted > 0;
        if ((batch->flags[row] & LIMIT_MARK) != 0) /* should it be undone */
            batch->marks[row] = (struct limit_mark){.given = LIMIT_GIVEN_NOTHING};
        if (granted > 0 || batch->status[row] != LIMIT_DECIDED)
            continue;
        batch->allowed[row] = 0;
        batch->retry_after_ns[row] = borrowing->retry_after[i];
    }
    if (granted > 0 && batch->operations[item->first] != OPERATION_PEEK)
        charge(shard, item, borrowing);
    shard->stats.borrowed += granted > 0;
}

/* Whether the item asks, and only elastic limits deny it. */
static bool may_borrow(const struct batch *batch, const struct batch_item *item,
                       struct borrowing *borrowing)
{
    const uint8_t operation = batch->operations[item->first];
    if (item->recalled || item->undo || item->revoked || item->cost == 0 ||
        (operation != OPERATION_CHECK && operation != OPERATION_PEEK))
        return false;
    for (uint32_t i = 0; i < item->count; i++) {
        const uint32_t row = item->first + i;
        borrowing->short_of[i] = !row_inside(batch, row);
        borrowing->retry_after[i] = batch->retry_after_ns[row];
        if (borrowing->short_of[i] && batch->limits[row].pool == 0)
            return false;
    }
    return true;
}

/* The row of that pool that borrowed when this was charged, or the first one of it. */
static uint32_t row_charged(const struct batch *batch, const struct batch_item *item, uint32_t pool)
{
    uint32_t found = item->first + item->count;
    for (uint32_t row = found; row-- > item->first;)
        if (batch->limits[row].pool == pool)
            found = row;
    for (uint32_t row = found; row < item->first + item->count; row++)
        if (batch->limits[row].pool == pool && batch->marks[row].given == LIMIT_GIVEN_NOTHING)
            return row;
    return found;
}

/* An undo: takes off what `charge` and `borrow` did (BORROW-4). */
static void take_off(struct shard *shard, const struct batch_item *item)
{
    const struct batch *batch = &shard->batch;
    struct elastic *elastic = shard->pools.elastic;
    for (uint32_t row = item->first; row < item->first + item->count; row++) {
        const uint32_t pool = batch->limits[row].pool;
        if (pool == 0 || pool_seen(batch, item, row, NULL))
            continue;
        const uint32_t at = row_charged(batch, item, pool);
        if (batch->marks[at].given == LIMIT_GIVEN_NOTHING)
            elastic_give_back(elastic, &batch->limits[at], batch->ids[at], item->gives,
                              shard->now_ns);
        else
            elastic_unadmitted(elastic, &batch->limits[at], item->gives, shard->now_ns);
    }
}

static void look_at(struct shard *shard, const struct batch_item *item)
{
    const struct batch *batch = &shard->batch;
    bool elastic = false;
    bool inside = true;
    for (uint32_t row = item->first; row < item->first + item->count; row++) {
        elastic = elastic || batch->limits[row].pool != 0;
        inside = inside && row_inside(batch, row);
    }
    if (!elastic || batch->status[item->first] != LIMIT_DECIDED)
        return;
    if (item->undo) {
        if (item->gives > 0 && !item->revoked)
            take_off(shard, item);
        return;
    }
    if (inside) {
        if (batch->operations[item->first] == OPERATION_CHECK ||
            batch->operations[item->first] == OPERATION_HIT)
            charge(shard, item, NULL);
        return;
    }
    struct borrowing borrowing;
    memset(&borrowing, 0, sizeof borrowing);
    if (may_borrow(batch, item, &borrowing) && borrow(shard, item, &borrowing)) {
        decide_others(shard, item, &borrowing);
        finish(shard, item, &borrowing);
    }
}

void borrow_batch(struct shard *shard)
{
    struct batch *batch = &shard->batch;
    memset(batch->borrowed, 0, batch->count);
    for (uint32_t i = 0; i < batch->item_count; i++)
        look_at(shard, &batch->items[i]);
}

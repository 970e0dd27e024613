/* support_limit.c - see support_limit.h. */
#include "tests/unit/support_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

enum {
    TABLE_BYTES = 4 << 20,
    VNODES = 64,
    KEY = 1,
    CHECKS = 5000,
    ADMITTED_MAX = 1 << 17,
    CHECK_EVERY = 4096, /* operations: a look at the whole table costs as much as hundreds */
};

#define AHEAD_NS    INT64_C(2000000000) /* by which clocks may differ */
#define TIME_MAX_NS INT64_C(3500000000000000000)

struct table *limit_table(void)
{
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_BYTES, VNODES), 0);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(table, vnode, TABLE_TARGET_BIT(TABLE_DISK) | TABLE_TARGET_BIT(1));
    return table;
}

struct hash128 limit_key(uint64_t number)
{
    return (struct hash128){hash_mix64(number + 1), hash_mix64(~number)};
}

struct limit_decision limit_do(struct table *table, uint64_t number, const struct limit *limit,
                               enum operation operation, uint64_t cost, unsigned flags,
                               int64_t now_ns)
{
    struct limit_decision decision;
    engine_one(table, limit_key(number), (uint32_t)(number % VNODES), limit, cost, operation,
               flags | LIMIT_LOADED, now_ns, &decision);
    return decision;
}

void limit_carry(struct table *from, struct table *to, uint64_t number, int64_t now_ns)
{
    static uint8_t bytes[TABLE_EXPORT_MAX];
    const struct hash128 id = limit_key(number);
    const uint32_t slot = table_lookup(from, id);
    const uint32_t old = table_lookup(to, id);
    if (old != TABLE_NONE)
        table_drop(to, old);
    if (slot == TABLE_NONE)
        return;
    const uint32_t vnode = table_slot_vnode(from, slot);
    const int len = table_export(from, slot, bytes, sizeof bytes);
    assert_true(len > 0 && (size_t)len == table_export_len(from, slot));
    assert_int_equal(table_import(to, vnode, id, bytes, (size_t)len, now_ns, 0), 0);
}

void limit_fill(struct table *table, struct hash128 id, uint32_t vnode, uint32_t slots,
                int64_t now_ns)
{
    uint8_t bytes[256];
    const int len = table_export(table, table_lookup(table, id), bytes, sizeof bytes);
    assert_true(len > 0);
    for (uint32_t i = 0; i < slots; i++) {
        const struct hash128 other = {(i + 1) * 0x9e3779b97f4a7c15u, i};
        assert_int_equal(table_import(table, vnode, other, bytes, (size_t)len, now_ns, 0), 0);
    }
}

bool limit_decisions_equal(const struct limit_decision *a, const struct limit_decision *b)
{
    return a->status == b->status && a->allowed == b->allowed && a->limit == b->limit &&
           a->used == b->used && a->remaining == b->remaining && a->granted == b->granted &&
           a->reset_after_ns == b->reset_after_ns && a->retry_after_ns == b->retry_after_ns &&
           a->delay_ns == b->delay_ns && a->notes == b->notes;
}

void limit_assert_peek(const struct limit_decision *peek, const struct limit_decision *before,
                       const struct limit_decision *check)
{
    assert_int_equal(peek->allowed, check->allowed);
    assert_int_equal(peek->granted, check->granted);
    assert_int_equal(peek->delay_ns, check->delay_ns);
    assert_int_equal(peek->notes, check->notes);
    assert_int_equal(peek->limit, before->limit);
    assert_int_equal(peek->used, before->used);
    assert_int_equal(peek->remaining, before->remaining);
    assert_int_equal(peek->reset_after_ns, before->reset_after_ns);
    if (check->used == before->used) /* it took nothing: what was denied did not count either */
        assert_int_equal(peek->retry_after_ns, check->retry_after_ns);
}

/* The semantics, said once more and plainly: how many tokens the operation adds, and its verdict.
 */
static uint64_t expected_charge(uint64_t used, uint64_t capacity, enum operation operation,
                                uint64_t cost, unsigned flags, bool *allowed, uint64_t *granted)
{
    const uint64_t left = used < capacity ? capacity - used : 0;
    const uint64_t debt_left = used < 2 * capacity ? 2 * capacity - used : 0;
    *allowed = true;
    *granted = 0;
    if (operation == OPERATION_REFUND || operation == OPERATION_RESET)
        return 0;
    if (operation == OPERATION_HIT)
        return *granted = cost < debt_left ? cost : debt_left;
    if (cost == 0)
        return 0;
    if (cost <= left)
        return *granted = cost;
    if ((flags & LIMIT_AT_MOST) != 0 && left > 0)
        return *granted = left;
    *allowed = false;
    if ((flags & LIMIT_COUNT_DENIED) != 0)
        return cost < debt_left ? cost : debt_left;
    return 0;
}

/* What is used, of which no more than one further limit counts. */
static uint64_t owed(const struct limit_model *model, int64_t now_ns, uint64_t capacity)
{
    const uint64_t used = model->used(model->state, now_ns);
    return used < 2 * capacity ? used : 2 * capacity;
}

static enum operation random_operation(struct random *random)
{
    const uint64_t dice = random_below(random, 100);
    return dice < 75   ? OPERATION_CHECK
           : dice < 83 ? OPERATION_PEEK
           : dice < 90 ? OPERATION_HIT
           : dice < 99 ? OPERATION_REFUND
                       : OPERATION_RESET;
}

static uint64_t random_cost(struct random *random, uint64_t capacity)
{
    switch (random_below(random, 8)) {
    case 0:
        return 0;
    case 1:
        return random_below(random, capacity + 2);
    case 2:
        return random_below(random, 100) == 0 ? UINT64_MAX : 2;
    default:
        return 1;
    }
}

static int64_t random_gap(struct random *random, const struct limit *limit)
{
    const int64_t window_ns = (int64_t)limit->window_ns;
    switch (random_below(random, 40)) {
    case 0:
        return random_between(random, 0, 3 * window_ns);
    case 1:
        return -random_between(random, 0, 2 * window_ns);
    case 2:
        return window_ns;
    case 3:
    case 4:
        return 0;
    default:
        return random_between(random, 0, 2 * (int64_t)(limit->window_ns / limit->count) + 1);
    }
}

/* Waiting exactly retry_after makes the same check succeed, and 1 ns less does not. */
static void assert_retry_exact(struct table *table, const struct limit *limit, uint64_t cost,
                               unsigned flags, int64_t now_ns, const struct limit_decision *denied)
{
    if (denied->retry_after_ns == LIMIT_RETRY_NEVER) {
        assert_true(cost > denied->limit);
        return;
    }
    assert_true(denied->retry_after_ns > 0);
    const int64_t then_ns = now_ns + denied->retry_after_ns;
    flags &= LIMIT_AT_MOST;
    assert_int_equal(limit_do(table, KEY, limit, OPERATION_PEEK, cost, flags, then_ns - 1).allowed,
                     0);
    assert_int_equal(limit_do(table, KEY, limit, OPERATION_PEEK, cost, flags, then_ns).allowed, 1);
}

/* At reset_after nothing is used any more; before that, something is. */
static void assert_reset_exact(struct table *table, const struct limit *limit, int64_t now_ns,
                               const struct limit_decision *decision)
{
    const int64_t then_ns = now_ns + decision->reset_after_ns;
    if (decision->used > 0)
        assert_true(limit_do(table, KEY, limit, OPERATION_PEEK, 0, 0, then_ns - 1).used > 0);
    assert_int_equal(limit_do(table, KEY, limit, OPERATION_PEEK, 0, 0, then_ns).used, 0);
}

/* What a check of some cost gets, one of less cost gets as well: peeked at, so nothing changes. */
static void assert_monotone(struct random *random, struct table *table, const struct limit *limit,
                            uint64_t cost, unsigned flags, int64_t now_ns)
{
    const struct limit_decision more =
        limit_do(table, KEY, limit, OPERATION_PEEK, cost, flags, now_ns);
    const struct limit_decision less =
        limit_do(table, KEY, limit, OPERATION_PEEK, random_below(random, cost + 1), flags, now_ns);
    assert_true(less.allowed >= more.allowed);
    if (less.allowed && more.allowed)
        assert_true(less.granted <= more.granted && less.used <= more.used &&
                    less.reset_after_ns <= more.reset_after_ns);
    else if (!less.allowed && more.retry_after_ns != LIMIT_RETRY_NEVER)
        assert_true(less.retry_after_ns <= more.retry_after_ns);
}

static void one_operation(struct random *random, struct table *table, struct table *copy,
                          const struct limit *limit, const struct limit_model *model,
                          int64_t now_ns)
{
    const uint64_t capacity = limit_capacity(limit);
    const enum operation operation = random_operation(random);
    const uint64_t cost = random_cost(random, capacity);
    const unsigned flags = (unsigned)random_below(random, 12) == 0 ? LIMIT_AT_MOST
                           : random_below(random, 12) == 0         ? LIMIT_COUNT_DENIED
                                                                   : 0;
    const bool ahead = model->begins(model->state) > now_ns + AHEAD_NS;
    void *kept = NULL;
    if (ahead) {
        kept = malloc(model->state_len);
        assert_non_null(kept);
        memcpy(kept, model->state, model->state_len);
        model->clear(model->state, limit);
        model->add(model->state, now_ns, capacity);
    }
    if (operation != OPERATION_PEEK && model->tidy != NULL)
        model->tidy(model->state, now_ns, 2 * capacity);
    const uint64_t used = owed(model, now_ns, capacity);
    bool allowed;
    uint64_t granted;
    const uint64_t charge =
        expected_charge(used, capacity, operation, cost, flags, &allowed, &granted);
    const struct limit_decision before = limit_do(table, KEY, limit, OPERATION_PEEK, 0, 0, now_ns);
    const struct limit_decision peeked =
        limit_do(table, KEY, limit, OPERATION_PEEK, cost, flags, now_ns);
    if (!peeked.allowed && charge > 0 &&
        !ahead) { /* what a counted denial would add is not there yet */
        limit_carry(table, copy, KEY, now_ns);
        assert_retry_exact(copy, limit, cost, flags, now_ns, &peeked);
    }
    const struct limit_decision got = limit_do(table, KEY, limit, operation, cost, flags, now_ns);

    assert_int_equal(got.status, LIMIT_DECIDED);
    assert_int_equal(got.allowed, allowed);
    assert_int_equal(got.granted, granted);
    assert_int_equal(got.limit, capacity);
    if (operation == OPERATION_CHECK || operation == OPERATION_PEEK)
        limit_assert_peek(&peeked, &before, &got);
    if (operation != OPERATION_PEEK) {
        if (operation == OPERATION_RESET || operation == OPERATION_REFUND)
            model->sub(model->state, now_ns, operation == OPERATION_RESET ? UINT64_MAX : cost);
        else if (charge > 0)
            model->add(model->state, now_ns, charge);
        assert_int_equal(got.used, owed(model, now_ns, capacity));
        const uint64_t left = got.used < capacity ? capacity - got.used : 0;
        assert_int_equal(got.remaining, left);
    } else if (ahead) {
        memcpy(model->state, kept, model->state_len);
    }
    free(kept);
    assert_true(got.remaining <= capacity); /* whatever was given back, no more than full */
    if (random_below(random, 8) == 0 && cost != UINT64_MAX)
        assert_monotone(random, table, limit, cost, flags & LIMIT_AT_MOST, now_ns);
    if (random_below(random, 4) != 0 || operation == OPERATION_PEEK)
        return;
    /* Looks at another time must not tidy up what an earlier one still needs: so at a copy. */
    limit_carry(table, copy, KEY, now_ns);
    if (!got.allowed)
        assert_retry_exact(copy, limit, cost, flags, now_ns, &got);
    limit_carry(table, copy, KEY, now_ns);
    const struct limit_decision state = limit_do(table, KEY, limit, OPERATION_PEEK, 0, 0, now_ns);
    const struct limit_decision same = limit_do(copy, KEY, limit, OPERATION_PEEK, 0, 0, now_ns);
    assert_true(limit_decisions_equal(&state, &same));
    if (state.used > 0)
        assert_true(table_expires_ns(copy, table_lookup(copy, limit_key(KEY))) >=
                    now_ns + state.reset_after_ns);
    assert_reset_exact(copy, limit, now_ns, &state);
}

void limit_history(struct random *random, const struct limit *limit,
                   const struct limit_model *model, unsigned operations)
{
    struct table *table = limit_table();
    struct table *copy = limit_table();
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    model->clear(model->state, limit);
    for (unsigned i = 0; i < operations; i++) {
        now_ns += random_gap(random, limit);
        if (now_ns > TIME_MAX_NS) { /* long windows: begin anew before the end of time */
            const uint32_t slot = table_lookup(table, limit_key(KEY));
            if (slot != TABLE_NONE)
                table_drop(table, slot);
            model->clear(model->state, limit);
            now_ns = LIMIT_TEST_EPOCH_NS;
        }
        one_operation(random, table, copy, limit, model, now_ns);
        if (i % CHECK_EVERY == 0) {
            table_check_invariants(table);
            table_check_invariants(copy);
        }
    }
    table_check_invariants(table);
    table_free(&table);
    table_free(&copy);
}

void limit_histories(uint64_t seed, const struct limit *limits, size_t count,
                     const struct limit_model *model)
{
    struct random random;
    random_init(&random, seed);
    for (size_t i = 0; i < count; i++)
        limit_history(&random, &limits[i], model, (unsigned)(HISTORY / count));
}

void limit_intervals(struct random *random, const struct limit *limit, bool hits,
                     int64_t longest_ns)
{
    static int64_t admitted_ns[ADMITTED_MAX];
    struct table *table = limit_table();
    const size_t count = limit->count;
    const int64_t gap_ns = 2 * (int64_t)limit->window_ns / 5 / (int64_t)count;
    size_t n = 0;
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    for (unsigned i = 0; i < CHECKS && n + count < ADMITTED_MAX; i++) {
        now_ns += random_between(random, 0, gap_ns);
        const uint64_t cost = random_below(random, count + 1);
        if (hits && random_below(random, 8) == 0) {
            (void)limit_do(table, KEY, limit, OPERATION_HIT, cost, 0, now_ns);
            continue;
        }
        const bool overdue = !hits && n >= count && /* what would be too much is long gone */
                             now_ns - admitted_ns[n - count + cost - (cost > 0)] >= longest_ns;
        const bool allowed = limit_do(table, KEY, limit, OPERATION_CHECK, cost, 0, now_ns).allowed;
        assert_true(allowed || !overdue);
        for (uint64_t k = 0; allowed && k < cost; k++)
            admitted_ns[n++] = now_ns;
    }
    assert_true(n > count);
    for (size_t i = count; i < n; i++)
        assert_true(admitted_ns[i] - admitted_ns[i - count] >= (int64_t)limit->window_ns);
    table_check_invariants(table);
    table_free(&table);
}

size_t limit_take_back(struct limit_entry *entries, size_t count, uint64_t tokens)
{
    while (tokens > 0 && count > 0) {
        uint64_t *newest = &entries[count - 1].tokens;
        const uint64_t part = tokens < *newest ? tokens : *newest;
        tokens -= part;
        *newest -= part;
        count -= *newest == 0;
    }
    return count;
}

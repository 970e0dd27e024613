/* test_reserved.c - tokens that are reserved, and settled by what was really used.
 *
 * The naive model beside the shipped code is a plain limit, which is charged what was settled, each
 * at its own time, and a list of what is reserved: used is the one plus the sum of the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/limit/algorithms/leased.h"
#include "tests/unit/support_limit.h"

#define MS     INT64_C(1000000)
#define S_NS   (1000 * MS)
#define MIN_NS (60 * S_NS)
#define NOW_NS LIMIT_TEST_EPOCH_NS

enum { KEY = 7, VNODE = 3, CASES = EFFORT(150000), KNOWN = 24, TTL_MS = 5000 };

static const struct limit bucket_limit = {
    .count = 100, .window_ns = S_NS, .burst = 100, .algorithm = ALGORITHM_TOKEN_BUCKET};
static const struct limit window_limit = {
    .count = 100, .window_ns = 3600 * (uint64_t)S_NS, .algorithm = ALGORITHM_SLIDING_LOG};

/* One row that is about the reservation `id`. */
static struct limit_decision hold(struct table *table, const struct limit *limit, uint64_t id,
                                  enum operation operation, uint64_t cost, uint32_t ttl_ms,
                                  int64_t now_ns)
{
    const struct hash128 key = limit_key(KEY);
    const uint32_t vnode = VNODE;
    const uint8_t number = (uint8_t)operation;
    const uint8_t flags = LIMIT_HOLD | LIMIT_LOADED;
    const struct limit_batch batch = {.count = 1,
                                      .ids = &key,
                                      .vnodes = &vnode,
                                      .limits = &limit,
                                      .costs = &cost,
                                      .operations = &number,
                                      .flags = &flags,
                                      .leases = &id,
                                      .ttls_ms = &ttl_ms};
    struct limit_decision got;
    struct limit_decisions out = {
        &got.status,  &got.allowed,        &got.limit,          &got.used,     &got.remaining,
        &got.granted, &got.reset_after_ns, &got.retry_after_ns, &got.delay_ns, &got.notes};
    engine_step(table, &batch, now_ns, &out);
    return got;
}

static struct limit_decision reserve(struct table *table, const struct limit *limit, uint64_t id,
                                     uint64_t cost, int64_t now_ns)
{
    return hold(table, limit, id, OPERATION_RESERVE, cost, TTL_MS, now_ns);
}

static struct limit_decision commit(struct table *table, const struct limit *limit, uint64_t id,
                                    uint64_t actual, int64_t now_ns)
{
    return hold(table, limit, id, OPERATION_COMMIT, actual, 0, now_ns);
}

static struct limit_decision cancel(struct table *table, const struct limit *limit, uint64_t id,
                                    int64_t now_ns)
{
    return hold(table, limit, id, OPERATION_CANCEL, 0, 0, now_ns);
}

static struct limit_decision undo(struct table *table, const struct limit *limit, uint64_t id,
                                  int64_t now_ns)
{
    return hold(table, limit, id, OPERATION_CANCEL, 1, 0, now_ns);
}

static struct limit_decision act(struct table *table, const struct limit *limit,
                                 enum operation operation, uint64_t cost, int64_t now_ns)
{
    struct limit_decision got;
    engine_one(table, limit_key(KEY), VNODE, limit, cost, operation, LIMIT_LOADED, now_ns, &got);
    assert_int_equal(got.status, LIMIT_DECIDED);
    return got;
}

static uint64_t used(struct table *table, const struct limit *limit, int64_t now_ns)
{
    return act(table, limit, OPERATION_PEEK, 0, now_ns).used;
}

/* ---- against the naive model ----------------------------------------------------------------- */

struct known {
    uint64_t id;
    uint64_t held; /* 0: none, or no more */
    bool settled;
    bool undone;
    uint64_t charged;
    int64_t until_ns; /* of what is held, or remembered */
};

struct world {
    struct random random;
    struct table *table;
    struct table *other; /* of who takes over */
    struct table *plain; /* charged what was settled */
    struct limit limit;
    struct known known[KNOWN];
    uint64_t next_id;
    int64_t now_ns;
    uint64_t given_back;
    uint64_t excess;
    uint64_t repeated;
    uint64_t late;
};

static uint64_t out_of(const struct world *world)
{
    uint64_t out = 0;
    for (uint32_t i = 0; i < KNOWN; i++)
        out += world->known[i].held;
    return out;
}

static uint64_t model_used(struct world *world)
{
    return used(world->plain, &world->limit, world->now_ns) + out_of(world);
}

/* What time ends: reservations, and the memory of those that are over. */
static void model_advance(struct world *world, int64_t gap_ns)
{
    world->now_ns += gap_ns;
    if (world->limit.align == LIMIT_ALIGN_MINUTE)
        world->limit.start_ns = world->now_ns / MIN_NS * MIN_NS;
    for (uint32_t i = 0; i < KNOWN; i++) {
        struct known *known = &world->known[i];
        if (known->id == 0 || world->now_ns < known->until_ns)
            continue;
        world->given_back += known->held > 0;
        known->held = 0;
        known->settled = known->undone = false;
        known->until_ns = INT64_MAX;
    }
}

static void compare(struct world *world, const struct limit_decision *got)
{
    const uint64_t expected = model_used(world);
    const uint64_t capacity = limit_capacity(&world->limit);
    assert_int_equal(got->status, LIMIT_DECIDED);
    assert_int_equal(got->used, expected);
    assert_int_equal(got->remaining, expected < capacity ? capacity - expected : 0);
    assert_int_equal((got->notes & LIMIT_HELD) != 0, out_of(world) > 0);
}

static void compare_reserve(struct world *world, struct known *known)
{
    const uint64_t capacity = limit_capacity(&world->limit);
    const uint64_t cost = random_below(&world->random, capacity / 2 + 2);
    const uint32_t ttl_ms =
        LIMIT_TTL_MIN_MS + (uint32_t)random_below(&world->random, 2 * LIMIT_TTL_MIN_MS);
    const bool fits = cost <= sat_subu(capacity, model_used(world));
    const struct limit_decision got = hold(world->table, &world->limit, ++world->next_id,
                                           OPERATION_RESERVE, cost, ttl_ms, world->now_ns);
    assert_int_equal(got.allowed, fits);
    assert_int_equal(got.granted, fits ? cost : 0);
    assert_int_equal(got.delay_ns, fits ? ttl_ms * MS : 0);
    if (!fits) {
        assert_true(got.retry_after_ns != 0);
        compare(world, &got);
        return;
    }
    *known = (struct known){
        .id = world->next_id,
        .held = cost,
        .until_ns = world->now_ns + ttl_ms * MS + LIMIT_LEASE_SLACK_NS,
    };
    compare(world, &got);
    assert_true(cost == 0 || got.used <= capacity); /* LEASED-1 */
}

/* LEASED-8: once, or never. */
static void compare_commit(struct world *world, struct known *known)
{
    const uint64_t capacity = limit_capacity(&world->limit);
    const uint64_t actual = random_below(&world->random, known->held * 3 / 2 + 3);
    const uint64_t within = actual < known->held ? actual : known->held;
    const uint64_t rest = model_used(world) - known->held + within;
    const uint64_t room = sat_subu(2 * capacity, rest);
    const uint64_t excess = actual - within < room ? actual - within : room;
    const struct limit_decision got =
        commit(world->table, &world->limit, known->id, actual, world->now_ns);
    assert_true(got.allowed);
    world->repeated += known->settled;
    world->late += !known->settled && known->until_ns == INT64_MAX;
    if (!known->settled) {
        world->excess += excess > 0 && known->held > 0;
        known->charged = within + excess;
        known->settled = true;
        known->undone = false;
        known->held = 0;
        known->until_ns = world->now_ns + LIMIT_SETTLED_NS;
        (void)act(world->plain, &world->limit, OPERATION_HIT, known->charged, world->now_ns);
    }
    assert_int_equal(got.granted, known->charged);
    compare(world, &got);
}

static void compare_cancel(struct world *world, struct known *known, bool undoes)
{
    const struct limit_decision got =
        undoes ? undo(world->table, &world->limit, known->id, world->now_ns)
               : cancel(world->table, &world->limit, known->id, world->now_ns);
    assert_true(got.allowed);
    assert_int_equal(got.granted, known->settled ? 0 : known->held);
    if (!known->settled && !(known->undone && undoes)) {
        known->charged = 0;
        known->settled = !undoes;
        known->undone = undoes;
        known->held = 0;
        known->until_ns = world->now_ns + LIMIT_SETTLED_NS;
    }
    compare(world, &got);
}

/* The same request again: it is told the same, or, of what is over, that there is nothing. */
static void compare_again(struct world *world, struct known *known)
{
    if (known->until_ns == INT64_MAX || (known->held == 0 && !known->settled && !known->undone))
        return;
    const struct limit_decision got =
        hold(world->table, &world->limit, known->id, OPERATION_RESERVE, 1 + known->held, TTL_MS,
             world->now_ns);
    assert_int_equal(got.allowed, known->held > 0);
    assert_int_equal(got.granted, known->held);
    compare(world, &got);
}

static void compare_plain(struct world *world)
{
    static const enum operation operations[] = {OPERATION_CHECK, OPERATION_CHECK, OPERATION_PEEK,
                                                OPERATION_HIT, OPERATION_RESET};
    const uint64_t capacity = limit_capacity(&world->limit);
    const bool resets = random_below(&world->random, 200) == 0;
    const enum operation operation = operations[resets ? 4 : random_below(&world->random, 4)];
    const uint64_t cost = random_below(&world->random, 4);
    const uint64_t before = model_used(world);
    const bool fits = cost <= sat_subu(capacity, before);
    const struct limit_decision got =
        act(world->table, &world->limit, operation, cost, world->now_ns);
    const uint64_t room = sat_subu(2 * capacity, before);
    if (operation == OPERATION_CHECK && fits)
        (void)act(world->plain, &world->limit, OPERATION_HIT, cost, world->now_ns);
    else if (operation == OPERATION_HIT)
        (void)act(world->plain, &world->limit, OPERATION_HIT, cost < room ? cost : room,
                  world->now_ns);
    else if (operation == OPERATION_RESET)
        (void)act(world->plain, &world->limit, OPERATION_RESET, 0, world->now_ns);
    if (operation <= OPERATION_PEEK)
        assert_int_equal(got.allowed, fits);
    compare(world, &got);
}

static void pass_on(struct world *world)
{
    limit_carry(world->table, world->other, KEY, world->now_ns);
    struct table *table = world->table;
    world->table = world->other;
    world->other = table;
}

static void one_step(struct world *world)
{
    struct known *known = &world->known[random_below(&world->random, KNOWN)];
    const int64_t token_ns = (int64_t)(world->limit.window_ns / world->limit.count);
    const uint64_t dice = random_below(&world->random, 60);
    model_advance(world, dice == 0   ? random_between(&world->random, 0, LIMIT_SETTLED_NS)
                         : dice < 5  ? random_between(&world->random, 0, 2 * S_NS)
                         : dice < 30 ? 0
                                     : random_between(&world->random, 0, 2 * token_ns));
    const uint64_t what = random_below(&world->random, 100);
    if (what < 25)
        compare_plain(world);
    else if (what < 28)
        pass_on(world);
    else if (what < 30)
        (void)table_step(world->table, world->now_ns);
    else if (known->id == 0 || (known->held == 0 && what < 55))
        compare_reserve(world, known);
    else if (what < 80)
        compare_commit(world, known);
    else if (what < 88)
        compare_cancel(world, known, false);
    else if (what < 93)
        compare_cancel(world, known, true);
    else
        compare_again(world, known);
}

static const struct limit holdable[] = {
    {.count = 100, .window_ns = S_NS, .burst = 20},
    {.count = 7, .window_ns = 3 * S_NS, .burst = 40},
    {.count = 50, .window_ns = S_NS, .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = 30, .window_ns = 5 * S_NS, .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = 200,
     .window_ns = MIN_NS,
     .before_s = 60,
     .align = LIMIT_ALIGN_MINUTE,
     .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = 20, .window_ns = 4 * S_NS, .algorithm = ALGORITHM_SLIDING_WINDOW},
    {.count = 40, .window_ns = 20 * S_NS, .algorithm = ALGORITHM_SLIDING_LOG},
    {.count = 60, .window_ns = 3 * S_NS, .algorithm = ALGORITHM_SLIDING_BUCKETS},
};

enum { HOLDABLE = sizeof holdable / sizeof *holdable };

/* Reservations that are committed, early, late, twice, for more or less than was held, cancelled,
 * undone, asked for again or never heard of again, and leaders that change: each decision is that
 * of a plain limit, charged what was settled, beside the sum of what is reserved. */
static void each_decision_is_that_of_a_plain_limit_and_a_list(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HOLDABLE; i++) {
        struct world world = {.limit = holdable[i], .now_ns = NOW_NS / MIN_NS * MIN_NS};
        random_init(&world.random, 40 + i);
        world.table = limit_table();
        world.other = limit_table();
        world.plain = limit_table();
        model_advance(&world, 0);
        for (int n = 0; n < CASES; n++)
            one_step(&world);
        assert_true(world.given_back > 0 && world.excess > 0 && world.repeated > 0 &&
                    world.late > 0);
        table_check_invariants(world.table);
        table_free(&world.table);
        table_free(&world.other);
        table_free(&world.plain);
    }
}

/* ---- one by one ------------------------------------------------------------------------------ */

/* An estimate holds; the commit charges what was used, as of then, and the rest was never charged.
 */
static void a_commit_charges_what_was_used(void **state)
{
    (void)state;
    struct table *table = limit_table();
    assert_int_equal(reserve(table, &window_limit, 1, 80, NOW_NS).used, 80);
    assert_false(act(table, &window_limit, OPERATION_CHECK, 21, NOW_NS).allowed);
    const struct limit_decision got = commit(table, &window_limit, 1, 30, NOW_NS + S_NS);
    assert_true(got.allowed && got.granted == 30 && got.used == 30);
    assert_int_equal(commit(table, &window_limit, 1, 30, NOW_NS + 2 * S_NS).used, 30);
    assert_int_equal(commit(table, &window_limit, 1, 99, NOW_NS + 2 * S_NS).granted, 30);
    table_free(&table);
}

/* More than the estimate is a hit: it may go above the limit, down to one further limit of debt. */
static void a_commit_of_more_is_a_hit(void **state)
{
    (void)state;
    struct table *table = limit_table();
    (void)reserve(table, &window_limit, 1, 80, NOW_NS);
    assert_int_equal(commit(table, &window_limit, 1, 130, NOW_NS).used, 130);
    assert_false(reserve(table, &window_limit, 2, 1, NOW_NS).allowed);
    (void)commit(table, &window_limit, 3, 1000, NOW_NS);
    assert_int_equal(used(table, &window_limit, NOW_NS), 200);
    table_free(&table);
}

/* What nobody settles in time is given back, at the very moment; a commit then is a hit, once. */
static void an_expired_reservation_is_given_back(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const int64_t end_ns = NOW_NS + TTL_MS * MS + LIMIT_LEASE_SLACK_NS;
    (void)reserve(table, &window_limit, 1, 80, NOW_NS);
    const struct limit_decision denied = act(table, &window_limit, OPERATION_CHECK, 30, NOW_NS);
    assert_int_equal(denied.retry_after_ns, end_ns - NOW_NS);
    assert_int_equal(used(table, &window_limit, end_ns - 1), 80);
    assert_int_equal(used(table, &window_limit, end_ns), 0);
    assert_int_equal(commit(table, &window_limit, 1, 12, end_ns + S_NS).used, 12);
    assert_int_equal(commit(table, &window_limit, 1, 12, end_ns + 2 * S_NS).used, 12);
    table_free(&table);
}

/* What comes first settles; the other one changes nothing, and is told so. */
static void a_commit_after_a_cancel_charges_nothing_and_the_other_way_round(void **state)
{
    (void)state;
    struct table *table = limit_table();
    (void)reserve(table, &window_limit, 1, 40, NOW_NS);
    assert_int_equal(cancel(table, &window_limit, 1, NOW_NS).granted, 40);
    assert_int_equal(commit(table, &window_limit, 1, 40, NOW_NS).granted, 0);
    (void)reserve(table, &window_limit, 2, 40, NOW_NS);
    (void)commit(table, &window_limit, 2, 10, NOW_NS);
    const struct limit_decision got = cancel(table, &window_limit, 2, NOW_NS);
    assert_true(got.allowed && got.granted == 0 && got.used == 10);
    assert_int_equal(cancel(table, &window_limit, 9, NOW_NS).granted, 0);
    assert_int_equal(commit(table, &window_limit, 9, 5, NOW_NS).used, 10);
    table_free(&table);
}

/* Settled is remembered so long; behind that an id is one that nobody knows. */
static void what_is_settled_is_remembered_for_its_time(void **state)
{
    (void)state;
    struct table *table = limit_table();
    (void)reserve(table, &window_limit, 1, 40, NOW_NS);
    (void)commit(table, &window_limit, 1, 10, NOW_NS);
    const int64_t end_ns = NOW_NS + LIMIT_SETTLED_NS;
    assert_int_equal(commit(table, &window_limit, 1, 10, end_ns - 1).used, 10);
    assert_int_equal(commit(table, &window_limit, 1, 10, end_ns).used, 20);
    table_free(&table);
}

/* A copy of the request that comes late gets nothing of what was undone; who was told of it all the
 * same, and used it, is charged. */
static void what_was_undone_is_not_given_again(void **state)
{
    (void)state;
    struct table *table = limit_table();
    assert_int_equal(undo(table, &window_limit, 1, NOW_NS).granted, 0);
    assert_false(reserve(table, &window_limit, 1, 40, NOW_NS).allowed);
    (void)reserve(table, &window_limit, 2, 40, NOW_NS);
    assert_int_equal(undo(table, &window_limit, 2, NOW_NS).granted, 40);
    assert_false(reserve(table, &window_limit, 2, 40, NOW_NS).allowed);
    assert_int_equal(commit(table, &window_limit, 2, 7, NOW_NS).used, 7);
    assert_int_equal(commit(table, &window_limit, 2, 7, NOW_NS).used, 7);
    table_free(&table);
}

/* A window that is over takes no reservation along: it counts in the next one until it is settled,
 * and its commit counts in the window of the commit. */
static void a_reservation_outlives_its_window(void **state)
{
    (void)state;
    const struct limit limit = {
        .count = 50, .window_ns = S_NS, .algorithm = ALGORITHM_FIXED_WINDOW};
    struct table *table = limit_table();
    const int64_t next_ns = NOW_NS / S_NS * S_NS + S_NS;
    (void)reserve(table, &limit, 1, 40, NOW_NS);
    assert_int_equal(used(table, &limit, next_ns), 40);
    assert_false(act(table, &limit, OPERATION_CHECK, 11, next_ns).allowed);
    assert_int_equal(commit(table, &limit, 1, 25, next_ns + MS).used, 25);
    assert_int_equal(used(table, &limit, next_ns + S_NS), 0);
    table_free(&table);
}

/* A lease is no reservation, and the other way round. */
static void leases_and_reservations_do_not_meet(void **state)
{
    (void)state;
    struct table *table = limit_table();
    (void)reserve(table, &window_limit, 1, 40, NOW_NS);
    assert_int_equal(hold(table, &window_limit, 2, OPERATION_LEASE, 20, 0, NOW_NS).granted, 20);
    assert_int_equal(hold(table, &window_limit, 1, OPERATION_RELEASE, 0, 0, NOW_NS).granted, 0);
    assert_false(hold(table, &window_limit, 1, OPERATION_RENEW, 0, 0, NOW_NS).allowed);
    assert_false(commit(table, &window_limit, 2, 5, NOW_NS).allowed);
    assert_int_equal(cancel(table, &window_limit, 2, NOW_NS).granted, 0);
    assert_int_equal(used(table, &window_limit, NOW_NS), 60);
    assert_int_equal(used(table, &window_limit, NOW_NS + 2 * S_NS), 60); /* the lease is spent */
    assert_int_equal(used(table, &window_limit, NOW_NS + 2 * TTL_MS * MS), 20);
    table_free(&table);
}

/* Who decides after a death may have a clock that is a little behind. */
static void what_is_asked_again_is_not_told_to_last_longer_than_was_asked(void **state)
{
    (void)state;
    struct table *table = limit_table();
    (void)reserve(table, &window_limit, 1, 40, NOW_NS);
    const struct limit_decision lease =
        hold(table, &window_limit, 2, OPERATION_LEASE, 20, 0, NOW_NS);
    for (int64_t behind_ns = -5 * MS; behind_ns <= 5 * MS; behind_ns += MS) {
        const int64_t now_ns = NOW_NS - behind_ns;
        const struct limit_decision again = reserve(table, &window_limit, 1, 40, now_ns);
        const int64_t asked_ns = TTL_MS * (int64_t)MS;
        assert_int_equal(again.granted, 40);
        assert_int_equal(again.delay_ns, behind_ns < 0 ? asked_ns + behind_ns : asked_ns);
        const struct limit_decision leased =
            hold(table, &window_limit, 2, OPERATION_LEASE, 20, 0, now_ns);
        assert_int_equal(leased.delay_ns,
                         behind_ns < 0 ? lease.delay_ns + behind_ns : lease.delay_ns);
    }
    table_free(&table);
}

/* So many are held and remembered of a key; then what was settled first is forgotten, and where
 * nothing is, who comes is told that there is no room. */
static void reservations_of_a_key_are_bounded(void **state)
{
    (void)state;
    const struct limit limit = {
        .count = 100000, .window_ns = 3600 * (uint64_t)S_NS, .algorithm = ALGORITHM_SLIDING_WINDOW};
    struct table *table = limit_table();
    for (uint64_t id = 1; id <= HOLDERS_MAX; id++)
        assert_int_equal(reserve(table, &limit, id, 2, NOW_NS).granted, 2);
    assert_int_equal(reserve(table, &limit, 5000, 2, NOW_NS).status, LIMIT_NO_ROOM);
    assert_int_equal(commit(table, &limit, 6000, 3, NOW_NS).granted, 3); /* not remembered */
    assert_int_equal(used(table, &limit, NOW_NS), 2 * HOLDERS_MAX + 3);
    (void)commit(table, &limit, 1, 1, NOW_NS);
    (void)commit(table, &limit, 2, 1, NOW_NS + 1);
    assert_int_equal(reserve(table, &limit, 5000, 2, NOW_NS + 2).granted, 2);
    assert_int_equal(commit(table, &limit, 2, 1, NOW_NS + 2).used, 2 * HOLDERS_MAX + 3);
    assert_int_equal(commit(table, &limit, 1, 1, NOW_NS + 2).used, 2 * HOLDERS_MAX + 4);
    assert_true(table_export_len(table, table_lookup(table, limit_key(KEY))) <=
                48 + TABLE_LEASES_LEN);
    table_check_invariants(table);
    table_free(&table);
}

/* Limits that a request meets together are reserved together, or not at all; and where there is no
 * room for one, nothing is remembered of the others. */
static void a_group_is_reserved_as_a_whole(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit day = {.count = 100000,
                              .window_ns = 86400 * (uint64_t)S_NS,
                              .algorithm = ALGORITHM_SLIDING_WINDOW};
    const struct hash128 ids[2] = {limit_key(8), limit_key(KEY)};
    const uint32_t vnodes[2] = {VNODE, VNODE};
    const struct limit *limits[2] = {&bucket_limit, &day};
    const uint64_t costs[2] = {40, 40};
    const uint8_t operations[2] = {OPERATION_RESERVE, OPERATION_RESERVE};
    const uint8_t flags[2] = {LIMIT_HOLD | LIMIT_LOADED, LIMIT_HOLD | LIMIT_LOADED};
    const uint32_t groups[2] = {1, 1};
    uint64_t leases[2] = {9001, 9001};
    const uint32_t ttls_ms[2] = {TTL_MS, TTL_MS};
    const struct limit_batch batch = {.count = 2,
                                      .ids = ids,
                                      .vnodes = vnodes,
                                      .limits = limits,
                                      .costs = costs,
                                      .operations = operations,
                                      .flags = flags,
                                      .groups = groups,
                                      .leases = leases,
                                      .ttls_ms = ttls_ms};
    uint8_t status[2], allowed[2];
    uint64_t limit[2], in_use[2], remaining[2], granted[2];
    int64_t reset[2], retry[2], delay[2];
    struct limit_decisions out = {status,  allowed, limit, in_use, remaining,
                                  granted, reset,   retry, delay,  NULL};
    engine_step(table, &batch, NOW_NS, &out);
    assert_true(allowed[0] && allowed[1] && granted[0] == 40 && granted[1] == 40);
    for (uint64_t id = 1; id < HOLDERS_MAX; id++)
        (void)reserve(table, &day, id, 1, NOW_NS);
    leases[0] = leases[1] = 9002;
    engine_step(table, &batch, NOW_NS, &out);
    assert_true(status[0] == LIMIT_NO_ROOM && status[1] == LIMIT_NO_ROOM);
    (void)cancel(table, &day, 1, NOW_NS);
    engine_step(table, &batch, NOW_NS, &out); /* the same id again: it was not remembered */
    assert_true(allowed[0] && in_use[0] == 80);
    leases[0] = leases[1] = 9003;
    engine_step(table, &batch, NOW_NS, &out);
    assert_true(!allowed[0] && allowed[1] && granted[1] == 0);
    assert_int_equal(in_use[0], 80);
    table_free(&table);
}

/* The end of a reservation that came with a wrong clock is brought in, and the order stays. */
static void an_end_far_ahead_is_brought_in(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const int64_t ahead_ns = 5 * 3600 * S_NS;
    for (uint64_t id = 1; id <= 3; id++)
        (void)reserve(table, &window_limit, id, 10, NOW_NS + ahead_ns);
    (void)hold(table, &window_limit, 5, OPERATION_LEASE, 10, 0, NOW_NS + ahead_ns);
    (void)reserve(table, &window_limit, 4, 10, NOW_NS + ahead_ns - 3 * 3600 * S_NS);
    (void)act(table, &window_limit, OPERATION_CHECK, 1, NOW_NS);
    table_check_invariants(table);
    const int64_t last_ns = NOW_NS + LIMIT_TTL_MAX_MS * MS + LIMIT_LEASE_SLACK_NS;
    assert_int_equal(act(table, &window_limit, OPERATION_CHECK, 0, last_ns - 1).used, 50);
    assert_int_equal(act(table, &window_limit, OPERATION_CHECK, 0, last_ns).used, 10);
    table_free(&table);
}

/* ---- two writers ----------------------------------------------------------------------------- */

static uint8_t base_bytes[TABLE_EXPORT_MAX];
static uint8_t other_bytes[TABLE_EXPORT_MAX];

static size_t export_to(struct table *table, uint8_t *bytes)
{
    const int len =
        table_export(table, table_lookup(table, limit_key(KEY)), bytes, TABLE_EXPORT_MAX);
    assert_true(len > 0);
    return (size_t)len;
}

static void merge(struct table *mine, size_t base_len, struct table *theirs, int64_t now_ns)
{
    const size_t len = export_to(theirs, other_bytes);
    for (int again = 0; again < 2; again++) { /* the second time adds nothing */
        const void *base = again == 0 ? base_bytes : other_bytes;
        assert_int_equal(table_merge(mine, VNODE, limit_key(KEY), base, again == 0 ? base_len : len,
                                     other_bytes, len, now_ns),
                         0);
        table_check_invariants(mine);
    }
}

/* Whoever settled, it is settled on both sides, and charged once. */
static void settled_wins_in_a_merge(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct table *sides[2] = {limit_table(), limit_table()};
        for (uint64_t id = 1; id <= 4; id++)
            (void)reserve(sides[0], &window_limit, id, 10, NOW_NS);
        limit_carry(sides[0], sides[1], KEY, NOW_NS);
        const size_t base_len = export_to(sides[0], base_bytes);
        (void)commit(sides[turn], &window_limit, 1, 4, NOW_NS);
        (void)cancel(sides[turn], &window_limit, 2, NOW_NS);
        (void)undo(sides[turn], &window_limit, 3, NOW_NS);
        (void)commit(sides[1 - turn], &window_limit, 3, 6, NOW_NS);
        (void)reserve(sides[1], &window_limit, 5, 20, NOW_NS);
        merge(sides[0], base_len, sides[1], NOW_NS);
        assert_int_equal(used(sides[0], &window_limit, NOW_NS), 4 + 6 + 10 + 20);
        assert_int_equal(commit(sides[0], &window_limit, 1, 4, NOW_NS).used, 40);
        assert_int_equal(commit(sides[0], &window_limit, 3, 6, NOW_NS).used, 40);
        assert_int_equal(commit(sides[0], &window_limit, 5, 3, NOW_NS).used, 23);
        table_free(&sides[0]);
        table_free(&sides[1]);
    }
}

/* What both sides were told to charge while they were apart is counted on both: too much, never too
 * little. */
static void a_commit_on_both_sides_counts_on_both(void **state)
{
    (void)state;
    struct table *sides[2] = {limit_table(), limit_table()};
    (void)reserve(sides[0], &window_limit, 1, 10, NOW_NS);
    limit_carry(sides[0], sides[1], KEY, NOW_NS);
    const size_t base_len = export_to(sides[0], base_bytes);
    (void)commit(sides[0], &window_limit, 1, 4, NOW_NS);
    (void)commit(sides[1], &window_limit, 1, 4, NOW_NS);
    merge(sides[0], base_len, sides[1], NOW_NS);
    assert_int_equal(used(sides[0], &window_limit, NOW_NS), 8);
    table_free(&sides[0]);
    table_free(&sides[1]);
}

/* More than a key can have, of both sides together: what was settled goes first, then what is
 * reserved becomes one, and all of it stays out. */
static void too_many_of_both_sides_become_one(void **state)
{
    (void)state;
    const struct limit limit = {
        .count = 100000, .window_ns = 3600 * (uint64_t)S_NS, .algorithm = ALGORITHM_SLIDING_WINDOW};
    struct table *sides[2] = {limit_table(), limit_table()};
    (void)reserve(sides[0], &limit, 1, 2, NOW_NS);
    limit_carry(sides[0], sides[1], KEY, NOW_NS);
    const size_t base_len = export_to(sides[0], base_bytes);
    for (uint64_t id = 2; id <= HOLDERS_MAX; id++) {
        (void)reserve(sides[0], &limit, id, 2, NOW_NS);
        (void)reserve(sides[1], &limit, HOLDERS_MAX + id, 3, NOW_NS);
    }
    for (uint64_t id = 2; id < 10; id++)
        (void)cancel(sides[0], &limit, id, NOW_NS);
    const size_t len = export_to(sides[1], other_bytes);
    assert_int_equal(table_merge(sides[0], VNODE, limit_key(KEY), base_bytes, base_len, other_bytes,
                                 len, NOW_NS),
                     0);
    table_check_invariants(sides[0]);
    const uint64_t expected = 2 + 2 * (HOLDERS_MAX - 9) + 3 * (HOLDERS_MAX - 1);
    assert_int_equal(used(sides[0], &limit, NOW_NS), expected);
    table_free(&sides[0]);
    table_free(&sides[1]);
}

/* Bytes of a node that knows leases alone have no other kind, and damaged ones change nothing. */
static void damaged_bytes_change_nothing(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 8);
    struct table *table = limit_table();
    struct table *to = limit_table();
    (void)reserve(table, &window_limit, 1, 40, NOW_NS);
    (void)reserve(table, &window_limit, 2, 10, NOW_NS);
    (void)commit(table, &window_limit, 2, 5, NOW_NS);
    (void)undo(table, &window_limit, 3, NOW_NS);
    const size_t len = export_to(table, base_bytes);
    for (int n = 0; n < CASES / 20; n++) {
        memcpy(other_bytes, base_bytes, len);
        for (uint64_t flips = random_below(&random, 3); flips > 0; flips--)
            other_bytes[random_below(&random, len)] ^= (uint8_t)(1u << random_below(&random, 8));
        const int rc = table_import(to, VNODE, limit_key(KEY), other_bytes, len, NOW_NS, 0);
        assert_true(rc == 0 || rc == TG_ECORRUPT || rc == TG_EVERSION || rc == TG_EFULL);
        table_check_invariants(to);
        (void)commit(to, &window_limit, 1 + random_below(&random, 4), 3, NOW_NS);
        table_check_invariants(to);
        if (table_lookup(to, limit_key(KEY)) != TABLE_NONE)
            table_drop(to, table_lookup(to, limit_key(KEY)));
    }
    table_free(&table);
    table_free(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_decision_is_that_of_a_plain_limit_and_a_list),
        cmocka_unit_test(a_commit_charges_what_was_used),
        cmocka_unit_test(a_commit_of_more_is_a_hit),
        cmocka_unit_test(an_expired_reservation_is_given_back),
        cmocka_unit_test(a_commit_after_a_cancel_charges_nothing_and_the_other_way_round),
        cmocka_unit_test(what_is_settled_is_remembered_for_its_time),
        cmocka_unit_test(what_was_undone_is_not_given_again),
        cmocka_unit_test(a_reservation_outlives_its_window),
        cmocka_unit_test(leases_and_reservations_do_not_meet),
        cmocka_unit_test(what_is_asked_again_is_not_told_to_last_longer_than_was_asked),
        cmocka_unit_test(reservations_of_a_key_are_bounded),
        cmocka_unit_test(a_group_is_reserved_as_a_whole),
        cmocka_unit_test(an_end_far_ahead_is_brought_in),
        cmocka_unit_test(settled_wins_in_a_merge),
        cmocka_unit_test(a_commit_on_both_sides_counts_on_both),
        cmocka_unit_test(too_many_of_both_sides_become_one),
        cmocka_unit_test(damaged_bytes_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_leased.c - tokens that are held elsewhere: whatever holders do, all uses together are within
 * the limit, as the algorithm itself defines it.
 *
 * That is judged by the algorithm itself: each use, of a holder or at the leader, is asked for at
 * its own time of a plain limit beside, which has to admit it (LEASED-2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "node/limit/algorithms/leased.h"
#include "tests/unit/support_limit.h"

#define MS      INT64_C(1000000)
#define S_NS    (1000 * MS)
#define MIN_NS  (60 * S_NS)
#define HOLDING (LIMIT_HOLD | LIMIT_LOADED)

enum { KEY = 7, VNODE = 3, HOLDERS = 8, CASES = EFFORT(250000), LIST_MAX = 64 };

static struct limit_decision hold(struct table *table, const struct limit *limit, uint64_t id,
                                  enum operation operation, uint64_t cost, unsigned flags,
                                  int64_t now_ns)
{
    struct limit_decision got;
    engine_one_leased(table, limit_key(KEY), VNODE, limit, cost, id, operation, HOLDING | flags,
                      now_ns, &got);
    return got;
}

static struct limit_decision act(struct table *table, const struct limit *limit,
                                 enum operation operation, uint64_t cost, unsigned flags,
                                 int64_t now_ns)
{
    struct limit_decision got;
    engine_one(table, limit_key(KEY), VNODE, limit, cost, operation, LIMIT_LOADED | flags, now_ns,
               &got);
    assert_int_equal(got.status, LIMIT_DECIDED);
    return got;
}

static struct limit_decision look(struct table *table, const struct limit *limit, int64_t now_ns)
{
    return act(table, limit, OPERATION_PEEK, 0, 0, now_ns);
}

static const struct limit bucket_limit = {
    .count = 100, .window_ns = S_NS, .burst = 100, .algorithm = ALGORITHM_TOKEN_BUCKET};

/* ---- all uses pass a plain limit ------------------------------------------------------------- */

struct holder_model {
    bool holds;
    uint64_t id;
    uint64_t granted;
    uint64_t used;
    int64_t until_ns; /* by the holder's own reckoning */
};

struct world {
    struct random random;
    struct table *table; /* the leader's */
    struct table *other; /* of one who may take over */
    struct table *plain; /* where uses are replayed */
    struct limit limit;
    struct holder_model holders[HOLDERS];
    uint64_t next_id;
    int64_t now_ns;
    uint64_t held_uses;
    uint64_t given_back;
    uint64_t died;
    uint64_t late;
};

static void world_init(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    random_init(&world->random, seed);
    world->table = limit_table();
    world->other = limit_table();
    world->plain = limit_table();
}

static void world_fini(struct world *world)
{
    table_check_invariants(world->table);
    table_check_invariants(world->other);
    table_free(&world->table);
    table_free(&world->other);
    table_free(&world->plain);
}

/* LEASED-2: at this moment, so many are used. */
static void use(struct world *world, uint64_t tokens)
{
    if (tokens == 0)
        return;
    const struct limit_decision got =
        act(world->plain, &world->limit, OPERATION_CHECK, tokens, 0, world->now_ns);
    assert_true(got.allowed);
}

static int64_t holder_until(int64_t asked_ns, int64_t told_ns)
{
    return asked_ns + told_ns - told_ns / 64 - MS;
}

static void take_lease(struct world *world, struct holder_model *holder)
{
    const uint64_t cost = 1 + random_below(&world->random, limit_capacity(&world->limit));
    const unsigned flags = random_below(&world->random, 3) == 0 ? 0 : LIMIT_AT_MOST;
    const uint64_t id = ++world->next_id;
    const int64_t asked_ns = world->now_ns - random_between(&world->random, 0, 5 * MS);
    const struct limit_decision got =
        hold(world->table, &world->limit, id, OPERATION_LEASE, cost, flags, world->now_ns);
    if (!got.allowed) {
        assert_true(got.retry_after_ns > 0 || got.retry_after_ns == LIMIT_RETRY_NEVER);
        return;
    }
    assert_true(got.granted > 0 && got.granted <= cost && got.used <= got.limit);
    *holder = (struct holder_model){true, id, got.granted, 0, holder_until(asked_ns, got.delay_ns)};
    if (random_below(&world->random, 4) == 0) { /* LEASED-4: asked again */
        const struct limit_decision again =
            hold(world->table, &world->limit, id, OPERATION_LEASE, cost, flags, world->now_ns);
        assert_true(again.allowed && again.granted == got.granted && again.used == got.used);
    }
}

static void use_lease(struct world *world, struct holder_model *holder)
{
    const uint64_t left = holder->granted - holder->used;
    const uint64_t tokens = left == 0 ? 0 : 1 + random_below(&world->random, left);
    if (world->now_ns >= holder->until_ns) {
        world->late++;
        return;
    }
    use(world, tokens);
    holder->used += tokens;
    world->held_uses += tokens > 0;
}

static void release_lease(struct world *world, struct holder_model *holder)
{
    const struct limit_decision got = hold(world->table, &world->limit, holder->id,
                                           OPERATION_RELEASE, holder->used, 0, world->now_ns);
    assert_true(got.allowed && got.granted <= holder->granted - holder->used);
    world->given_back += got.granted;
    if (random_below(&world->random, 4) == 0) { /* LEASED-4 */
        const struct limit_decision again =
            hold(world->table, &world->limit, holder->id, OPERATION_RELEASE, 0, 0, world->now_ns);
        assert_true(again.allowed && again.granted == 0 && again.used == got.used);
    }
    holder->holds = false;
}

static void renew_lease(struct world *world, struct holder_model *holder)
{
    const int64_t asked_ns = world->now_ns;
    struct limit_decision got = hold(world->table, &world->limit, holder->id, OPERATION_RENEW,
                                     holder->used, 0, world->now_ns);
    if (random_below(&world->random, 4) == 0)
        got = hold(world->table, &world->limit, holder->id, OPERATION_RENEW, holder->used, 0,
                   world->now_ns);
    if (!got.allowed || got.granted == 0) {
        holder->holds = false;
        return;
    }
    assert_int_equal(got.granted, holder->granted - holder->used);
    const int64_t until_ns = holder_until(asked_ns, got.delay_ns);
    if (until_ns > holder->until_ns)
        holder->until_ns = until_ns;
}

static void ask_directly(struct world *world)
{
    const uint64_t capacity = limit_capacity(&world->limit);
    const bool many = random_below(&world->random, 6) == 0;
    const uint64_t cost = many ? 1 + random_below(&world->random, capacity) : 1;
    const unsigned flags = random_below(&world->random, 4) == 0 ? LIMIT_AT_MOST : 0;
    const struct limit_decision got =
        act(world->table, &world->limit, OPERATION_CHECK, cost, flags, world->now_ns);
    use(world, got.granted);
}

/* Another one decides, who has the state as bytes. */
static void pass_on(struct world *world)
{
    limit_carry(world->table, world->other, KEY, world->now_ns);
    struct table *table = world->table;
    world->table = world->other;
    world->other = table;
}

static int64_t some_gap(struct world *world)
{
    const int64_t token_ns = (int64_t)(world->limit.window_ns / world->limit.count);
    switch (random_below(&world->random, 24)) {
    case 0:
        return random_between(&world->random, 0, 2 * (int64_t)world->limit.window_ns);
    case 1:
        return random_between(&world->random, 0, LIMIT_LEASE_NS + 2 * LIMIT_LEASE_SLACK_NS);
    case 2:
    case 3:
        return 0;
    default:
        return random_between(&world->random, 0, 2 * token_ns);
    }
}

static void one_step(struct world *world)
{
    struct holder_model *holder = &world->holders[random_below(&world->random, HOLDERS)];
    world->now_ns += some_gap(world);
    if (world->limit.align == LIMIT_ALIGN_MINUTE)
        world->limit.start_ns = world->now_ns / MIN_NS * MIN_NS;
    const uint64_t what = random_below(&world->random, 100);
    if (what < 25)
        ask_directly(world);
    else if (what < 27)
        pass_on(world);
    else if (what < 29)
        (void)table_step(world->table, world->now_ns); /* it drops what is as good as new */
    else if (what < 30)
        (void)look(world->table, &world->limit, world->now_ns);
    else if (!holder->holds)
        take_lease(world, holder);
    else if (what < 75)
        use_lease(world, holder);
    else if (what < 87)
        release_lease(world, holder);
    else if (what < 97)
        renew_lease(world, holder);
    else {
        holder->holds = false; /* it dies: what it holds counts as spent (LEASED-3) */
        world->died++;
    }
}

static const struct limit leasable[] = {
    {.count = 100, .window_ns = S_NS, .burst = 20},
    {.count = 7, .window_ns = 3 * S_NS, .burst = 40},
    {.count = 1000, .window_ns = 700 * MS},
    {.count = 50, .window_ns = S_NS, .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = 30, .window_ns = 5 * S_NS, .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = 200,
     .window_ns = MIN_NS,
     .before_s = 60,
     .align = LIMIT_ALIGN_MINUTE,
     .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = 50, .window_ns = S_NS, .algorithm = ALGORITHM_SLIDING_WINDOW},
    {.count = 20, .window_ns = 4 * S_NS, .algorithm = ALGORITHM_SLIDING_WINDOW},
    {.count = 40, .window_ns = 2 * S_NS, .algorithm = ALGORITHM_SLIDING_LOG},
    {.count = 60, .window_ns = 500 * MS, .algorithm = ALGORITHM_SLIDING_LOG},
    {.count = 60, .window_ns = 3 * S_NS, .algorithm = ALGORITHM_SLIDING_BUCKETS},
    {.count = 30, .window_ns = 400 * MS, .buckets = 4, .algorithm = ALGORITHM_SLIDING_BUCKETS},
};

enum { LEASABLE = sizeof leasable / sizeof *leasable };

/* Holders that use, renew, release, die or come too late, repeated messages and leaders that
 * change: no use is ever one that the limit itself, asked at that time, would not have admitted. */
static void all_uses_together_pass_the_limit_itself(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LEASABLE; i++) {
        struct world world;
        world_init(&world, 100 + i);
        world.limit = leasable[i];
        world.now_ns = LIMIT_TEST_EPOCH_NS;
        for (int n = 0; n < CASES; n++)
            one_step(&world);
        assert_true(world.held_uses > CASES / 100 && world.given_back > 0 && world.died > 0 &&
                    world.late > 0);
        world_fini(&world);
    }
}

/* ---- decision by decision -------------------------------------------------------------------- */

/* A bucket whose debt drains down to what is out, and no further: the other way to say it. */
struct floor_model {
    unsigned __int128 debt; /* in q-ths of ns, as of at_ns */
    uint64_t p;
    uint64_t q;
    int64_t at_ns;
    struct holder list[LIST_MAX];
    uint32_t count;
};

static uint64_t model_out(const struct floor_model *model)
{
    uint64_t out = 0;
    for (uint32_t i = 0; i < model->count; i++)
        out += holder_out(&model->list[i]);
    return out;
}

static void model_drain(struct floor_model *model, int64_t now_ns)
{
    const unsigned __int128 gone = (unsigned __int128)(now_ns - model->at_ns) * model->q;
    const unsigned __int128 floor = (unsigned __int128)model_out(model) * model->p;
    model->debt = model->debt > gone ? model->debt - gone : 0;
    model->debt = model->debt > floor ? model->debt : floor;
    model->at_ns = now_ns;
}

static void model_advance(struct floor_model *model, int64_t now_ns)
{
    for (;;) {
        uint32_t first = LIST_MAX;
        for (uint32_t i = 0; i < model->count; i++)
            if (model->list[i].until_ns <= now_ns &&
                (first == LIST_MAX || model->list[i].until_ns < model->list[first].until_ns))
                first = i;
        if (first == LIST_MAX)
            break;
        model_drain(model, model->list[first].until_ns);
        model->list[first] = model->list[--model->count];
    }
    model_drain(model, now_ns);
}

static uint64_t model_used(const struct floor_model *model)
{
    return (uint64_t)((model->debt + model->p - 1) / model->p);
}

static struct holder *model_find(struct floor_model *model, uint64_t id)
{
    for (uint32_t i = 0; i < model->count; i++)
        if (model->list[i].id == id)
            return &model->list[i];
    return NULL;
}

static void model_lower(struct floor_model *model, uint64_t tokens)
{
    const unsigned __int128 back = (unsigned __int128)tokens * model->p;
    const unsigned __int128 floor = (unsigned __int128)model_out(model) * model->p;
    model->debt = model->debt > back ? model->debt - back : 0;
    model->debt = model->debt > floor ? model->debt : floor;
}

/* An operation that is not about leases. */
static void compare_plain(struct random *random, struct table *table, struct floor_model *model,
                          const struct limit *limit)
{
    static const enum operation operations[] = {OPERATION_CHECK, OPERATION_CHECK,  OPERATION_PEEK,
                                                OPERATION_HIT,   OPERATION_REFUND, OPERATION_RESET};
    const uint64_t capacity = limit_capacity(limit);
    const enum operation operation =
        operations[random_below(random, 100) == 0  ? 5
                   : random_below(random, 10) == 0 ? 4
                                                   : random_below(random, 4)];
    const uint64_t cost =
        random_below(random, 8) == 0 ? random_below(random, capacity + 2) : random_below(random, 3);
    const unsigned flags = random_below(random, 6) == 0   ? LIMIT_AT_MOST
                           : random_below(random, 6) == 0 ? LIMIT_COUNT_DENIED
                                                          : 0;
    const struct limit_request request = {
        .cost = cost, .operation = (uint8_t)operation, .flags = (uint8_t)flags};
    const struct limit_verdict verdict = limit_judge(model_used(model), capacity, &request);
    const struct limit_decision got = act(table, limit, operation, cost, flags, model->at_ns);
    const unsigned __int128 before = model->debt;
    model->debt += (unsigned __int128)verdict.charge * model->p;
    if (verdict.refund != 0)
        model_lower(model, verdict.refund < 2 * capacity ? verdict.refund : 2 * capacity);
    assert_int_equal(got.allowed, verdict.allowed);
    assert_int_equal(got.granted, verdict.granted);
    assert_int_equal(got.used, model_used(model));
    assert_int_equal(got.limit, capacity);
    if (operation == OPERATION_PEEK)
        model->debt = before;
}

static void compare_lease(struct random *random, struct table *table, struct floor_model *model,
                          const struct limit *limit, uint64_t *next_id)
{
    const uint64_t capacity = limit_capacity(limit);
    const uint64_t cost = 1 + random_below(random, capacity);
    const bool at_most = random_below(random, 2) == 0;
    const uint64_t left = sat_subu(capacity, model_used(model));
    const uint64_t half = (left + 1) / 2;
    const uint64_t expected = at_most ? (cost < half ? cost : half) : cost <= left ? cost : 0;
    if (model->count == LIST_MAX)
        return;
    const struct limit_decision got = hold(table, limit, ++*next_id, OPERATION_LEASE, cost,
                                           at_most ? LIMIT_AT_MOST : 0, model->at_ns);
    assert_int_equal(got.status, LIMIT_DECIDED);
    assert_int_equal(got.granted, expected);
    assert_int_equal(got.allowed, expected > 0);
    if (expected == 0)
        return;
    assert_int_equal(got.delay_ns, LIMIT_LEASE_NS);
    model->list[model->count++] = (struct holder){
        *next_id, model->at_ns + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS, expected, 0, HOLDER_LEASE};
    model->debt += (unsigned __int128)expected * model->p;
    assert_int_equal(got.used, model_used(model));
}

/* Releases or renews a lease, which may be over, stating some use that is not less than before. */
static void compare_end(struct random *random, struct table *table, struct floor_model *model,
                        const struct limit *limit, uint64_t next_id)
{
    const bool renews = random_below(random, 2) == 0;
    const uint64_t id = next_id - random_below(random, 12);
    struct holder *own = model_find(model, id);
    const uint64_t used = own == NULL ? random_below(random, 5)
                                      : own->used + random_below(random, holder_out(own) + 2);
    const struct limit_decision got =
        hold(table, limit, id, renews ? OPERATION_RENEW : OPERATION_RELEASE, used, 0, model->at_ns);
    uint64_t granted = 0;
    if (own != NULL) {
        own->used = used < own->granted ? used : own->granted;
        granted = holder_out(own);
        if (renews)
            own->until_ns = model->at_ns + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS;
        if (!renews || granted == 0)
            *own = model->list[--model->count];
        if (!renews)
            model_lower(model, granted);
    }
    assert_int_equal(got.allowed, !renews || own != NULL);
    assert_int_equal(got.granted, granted);
    assert_int_equal(got.used, model_used(model));
}

/* Each decision about a bucket, with whatever is held of it, is that of a bucket whose debt drains
 * down to what is out and no further. */
static void a_bucket_drains_down_to_what_is_out(void **state)
{
    (void)state;
    static const struct limit limits[] = {{.count = 100, .window_ns = S_NS, .burst = 20},
                                          {.count = 3, .window_ns = 7 * S_NS, .burst = 50},
                                          {.count = 600, .window_ns = 700 * MS}};
    static const uint64_t rates[][2] = {{10000000, 1}, {7000000000, 3}, {3500000, 3}};
    for (uint32_t i = 0; i < 3; i++) {
        struct random random;
        random_init(&random, 7 + i);
        struct table *table = limit_table();
        struct table *other = limit_table();
        struct floor_model model = {
            .p = rates[i][0], .q = rates[i][1], .at_ns = LIMIT_TEST_EPOCH_NS};
        uint64_t next_id = 1000;
        for (int n = 0; n < CASES; n++) {
            const int64_t gap_ns = random_below(&random, 30) == 0
                                       ? random_between(&random, 0, 2 * S_NS)
                                       : random_between(&random, 0, 20 * MS);
            model_advance(&model, model.at_ns + gap_ns);
            if (random_below(&random, 10) == 0) {
                limit_carry(table, other, KEY, model.at_ns);
                (void)table_step(other, model.at_ns);
                limit_carry(other, table, KEY, model.at_ns);
            }
            const uint64_t what = random_below(&random, 10);
            if (what < 5)
                compare_plain(&random, table, &model, &limits[i]);
            else if (what < 7)
                compare_lease(&random, table, &model, &limits[i], &next_id);
            else
                compare_end(&random, table, &model, &limits[i], next_id);
        }
        table_check_invariants(table);
        table_free(&table);
        table_free(&other);
    }
}

/* A peek at a time when leases have ended leaves the very bytes that were there. */
static void a_peek_behind_a_lease_changes_nothing(void **state)
{
    (void)state;
    static uint8_t before[TABLE_EXPORT_MAX];
    static uint8_t after[TABLE_EXPORT_MAX];
    for (uint32_t i = 0; i < LEASABLE; i++) {
        struct limit limit = leasable[i];
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS / MIN_NS * MIN_NS + MS;
        limit.start_ns = limit.align == LIMIT_ALIGN_MINUTE ? now_ns - MS : 0;
        struct table *table = limit_table();
        (void)act(table, &limit, OPERATION_CHECK, 3, 0, now_ns);
        (void)hold(table, &limit, 1, OPERATION_LEASE, 4, 0, now_ns);
        const uint32_t slot = table_lookup(table, limit_key(KEY));
        const int len = table_export(table, slot, before, sizeof before);
        const uint64_t seq = table_vnode_seq(table, VNODE);
        (void)look(table, &limit, now_ns + 2 * LIMIT_LEASE_NS);
        assert_int_equal(table_export(table, slot, after, sizeof after), len);
        assert_memory_equal(before, after, (size_t)len);
        assert_int_equal(table_vnode_seq(table, VNODE), seq);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* How many tokens are out: what a reset leaves. */
static uint64_t out_of(struct table *table, struct table *copy, int64_t now_ns)
{
    limit_carry(table, copy, KEY, now_ns);
    return act(copy, &bucket_limit, OPERATION_RESET, 0, 0, now_ns).used;
}

/* While what is out does not stand in the way, retry_after of a bucket is exact; else it is not too
 * late. */
static void retry_after_is_exact_beside_what_is_out(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 5);
    struct table *table = limit_table();
    struct table *copy = limit_table();
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    uint64_t exact = 0;
    uint64_t held_up = 0;
    for (int n = 0; n < CASES / 4; n++) {
        const uint64_t cost = 1 + random_below(&random, 100);
        now_ns += random_between(&random, 0, 60 * MS);
        if (random_below(&random, 8) == 0)
            (void)hold(table, &bucket_limit, (uint64_t)n + 1, OPERATION_LEASE,
                       random_below(&random, 20), LIMIT_AT_MOST, now_ns);
        const struct limit_decision got =
            act(table, &bucket_limit, OPERATION_CHECK, cost, 0, now_ns);
        if (got.allowed)
            continue;
        const bool in_the_way = cost + out_of(table, copy, now_ns) > 100;
        const int64_t then_ns = now_ns + got.retry_after_ns;
        limit_carry(table, copy, KEY, now_ns);
        assert_false(act(copy, &bucket_limit, OPERATION_PEEK, cost, 0, then_ns - 1).allowed);
        if (!in_the_way)
            assert_true(act(copy, &bucket_limit, OPERATION_PEEK, cost, 0, then_ns).allowed);
        exact += !in_the_way;
        held_up += in_the_way;
    }
    assert_true(exact > CASES / 100 && held_up > CASES / 100);
    table_free(&table);
    table_free(&copy);
}

/* ---- what each end of a lease means ---------------------------------------------------------- */

/* Tokens of a holder that is never heard of again are spent: they drain from its deadline on, and
 * none of them comes back before. */
static void an_expired_lease_is_spent(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const int64_t end_ns = LIMIT_TEST_EPOCH_NS + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS;
    assert_int_equal(
        hold(table, &bucket_limit, 1, OPERATION_LEASE, 60, 0, LIMIT_TEST_EPOCH_NS).granted, 60);
    assert_int_equal(look(table, &bucket_limit, end_ns - 1).used, 60);
    assert_int_equal(look(table, &bucket_limit, end_ns).used, 60);
    assert_int_equal(look(table, &bucket_limit, end_ns + 100 * MS).used, 50);
    assert_int_equal(look(table, &bucket_limit, end_ns + 600 * MS).used, 0);
    const struct limit_decision late =
        hold(table, &bucket_limit, 1, OPERATION_RELEASE, 0, 0, end_ns);
    assert_int_equal(late.granted, 0);
    table_free(&table);
}

/* A bucket does not fill up behind a lease: burst - n is all that there is while n are out. */
static void a_bucket_does_not_refill_behind_a_lease(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    assert_int_equal(hold(table, &bucket_limit, 1, OPERATION_LEASE, 60, 0, now_ns).granted, 60);
    const struct limit_decision got =
        act(table, &bucket_limit, OPERATION_CHECK, 1000, LIMIT_AT_MOST, now_ns + 900 * MS);
    assert_int_equal(got.granted, 40);
    assert_int_equal(got.used, 100);
    assert_int_equal(got.remaining, 0);
    table_free(&table);
}

/* A release leaves the very state that a charge of what was used would have, byte for byte, and no
 * block of the arena. */
static void a_release_gives_back_exactly(void **state)
{
    (void)state;
    static uint8_t mine[TABLE_EXPORT_MAX];
    static uint8_t other[TABLE_EXPORT_MAX];
    for (uint32_t i = 0; i < LEASABLE; i++) {
        struct table *held = limit_table();
        struct table *plain = limit_table();
        struct limit limit = leasable[i];
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS / MIN_NS * MIN_NS + MS;
        limit.start_ns = limit.align == LIMIT_ALIGN_MINUTE ? now_ns - MS : 0;
        (void)act(held, &limit, OPERATION_CHECK, 3, 0, now_ns);
        (void)act(plain, &limit, OPERATION_CHECK, 3, 0, now_ns);
        assert_int_equal(hold(held, &limit, 9, OPERATION_LEASE, 10, 0, now_ns).granted, 10);
        const struct limit_decision back =
            hold(held, &limit, 9, OPERATION_RELEASE, 4, 0, now_ns + 20 * MS);
        assert_int_equal(back.granted, 6);
        (void)act(plain, &limit, OPERATION_HIT, 4, 0, now_ns + 20 * MS);
        const uint32_t a = table_lookup(held, limit_key(KEY));
        const uint32_t b = table_lookup(plain, limit_key(KEY));
        const int len = table_export(held, a, mine, sizeof mine);
        assert_int_equal(len, table_export(plain, b, other, sizeof other));
        assert_memory_equal(mine, other, (size_t)len);
        struct table_stats stats[2];
        table_stats(held, &stats[0]);
        table_stats(plain, &stats[1]);
        assert_int_equal(stats[0].arena_bytes, stats[1].arena_bytes);
        table_free(&held);
        table_free(&plain);
    }
}

/* Whoever asks for up to so many gets half of what is left at most: the next one finds some, too.
 */
static void a_lease_of_at_most_leaves_half(void **state)
{
    (void)state;
    struct table *table = limit_table();
    static const uint64_t expected[] = {50, 25, 13, 6, 3, 2, 1};
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct limit_decision peeked = hold(table, &bucket_limit, i + 1, OPERATION_PEEK, 1000,
                                                  LIMIT_AT_MOST, LIMIT_TEST_EPOCH_NS);
        const struct limit_decision got = hold(table, &bucket_limit, i + 1, OPERATION_LEASE, 1000,
                                               LIMIT_AT_MOST, LIMIT_TEST_EPOCH_NS);
        assert_int_equal(peeked.granted, expected[i]);
        assert_int_equal(got.granted, expected[i]);
    }
    const struct limit_decision none =
        hold(table, &bucket_limit, 99, OPERATION_LEASE, 1000, LIMIT_AT_MOST, LIMIT_TEST_EPOCH_NS);
    assert_false(none.allowed);
    assert_true(none.retry_after_ns > 0);
    table_free(&table);
}

/* A lease of a fixed window ends before the window does, for its holder too; the next window is
 * whole. */
static void a_lease_ends_with_its_window(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = {
        .count = 50, .window_ns = S_NS, .algorithm = ALGORITHM_FIXED_WINDOW};
    const int64_t begin_ns = LIMIT_TEST_EPOCH_NS / S_NS * S_NS;
    const struct limit_decision got =
        hold(table, &limit, 1, OPERATION_LEASE, 30, 0, begin_ns + 900 * MS);
    assert_int_equal(got.granted, 30);
    assert_true(got.delay_ns < 100 * MS && got.delay_ns > 99 * MS);
    assert_int_equal(look(table, &limit, begin_ns + S_NS - 1).used, 30);
    assert_int_equal(look(table, &limit, begin_ns + S_NS).used, 0);
    table_free(&table);
}

/* After a reset there is what is not out; a refund takes nothing of it either. */
static void what_is_out_stays_out_after_a_reset(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    (void)act(table, &bucket_limit, OPERATION_CHECK, 30, 0, now_ns);
    (void)hold(table, &bucket_limit, 1, OPERATION_LEASE, 60, 0, now_ns);
    assert_int_equal(act(table, &bucket_limit, OPERATION_REFUND, 1000, 0, now_ns).used, 60);
    (void)act(table, &bucket_limit, OPERATION_CHECK, 30, 0, now_ns);
    assert_int_equal(act(table, &bucket_limit, OPERATION_RESET, 0, 0, now_ns).used, 60);
    assert_int_equal(act(table, &bucket_limit, OPERATION_HIT, 1000, 0, now_ns).used, 200);
    table_free(&table);
}

/* One row that makes a mark, or undoes what it names. */
static struct limit_decision marked(struct table *table, struct limit_mark *mark, uint64_t cost,
                                    unsigned flag, int64_t now_ns)
{
    const struct hash128 id = limit_key(KEY);
    const uint32_t vnode = VNODE;
    const struct limit *limit = &bucket_limit;
    const uint8_t operation = flag == LIMIT_UNDO ? OPERATION_REFUND : OPERATION_CHECK;
    const uint8_t flags = (uint8_t)(LIMIT_LOADED | flag);
    const struct limit_batch batch = {.count = 1,
                                      .ids = &id,
                                      .vnodes = &vnode,
                                      .limits = &limit,
                                      .costs = &cost,
                                      .operations = &operation,
                                      .flags = &flags,
                                      .marks = mark};
    struct limit_decision got;
    struct limit_decisions out = {
        &got.status,  &got.allowed,        &got.limit,          &got.used,     &got.remaining,
        &got.granted, &got.reset_after_ns, &got.retry_after_ns, &got.delay_ns, NULL};
    engine_step(table, &batch, now_ns, &out);
    assert_int_equal(got.status, LIMIT_DECIDED);
    return got;
}

/* A charge that was marked is undone beside leases as without them: all of it at once, and later no
 * more than is left of it, whatever others gave back meanwhile. */
static void a_marked_charge_is_undone_beside_leases(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct limit_mark mark = {.place = 0};
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    (void)hold(table, &bucket_limit, 1, OPERATION_LEASE, 20, 0, now_ns);
    assert_int_equal(marked(table, &mark, 5, LIMIT_MARK, now_ns).used, 25);
    (void)act(table, &bucket_limit, OPERATION_CHECK, 7, 0, now_ns);
    const struct limit_decision undone = marked(table, &mark, 5, LIMIT_UNDO, now_ns);
    assert_int_equal(undone.used, 27);
    assert_int_equal(undone.limit, 100);
    (void)hold(table, &bucket_limit, 1, OPERATION_RELEASE, 0, 0, now_ns);
    (void)act(table, &bucket_limit, OPERATION_RESET, 0, 0, now_ns);

    (void)hold(table, &bucket_limit, 2, OPERATION_LEASE, 10, 0, now_ns);
    (void)act(table, &bucket_limit, OPERATION_CHECK, 30, 0, now_ns);
    assert_int_equal(marked(table, &mark, 50, LIMIT_MARK, now_ns).used, 90);
    (void)act(table, &bucket_limit, OPERATION_REFUND, 30, 0, now_ns);
    assert_int_equal(act(table, &bucket_limit, OPERATION_CHECK, 20, 0, now_ns + 100 * MS).used, 70);
    /* Without the charge 15 of those 20 would be used now, and 10 are out. */
    const uint64_t used = marked(table, &mark, 50, LIMIT_UNDO, now_ns + 150 * MS).used;
    assert_true(used >= 25 && used <= 30);
    table_free(&table);
}

/* ---- several limits, bounds, refusals -------------------------------------------------------- */

/* Limits that a request meets together are leased together, as much as the least of them has, or
 * not at all. */
static void a_group_is_leased_as_a_whole(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct hash128 ids[2] = {limit_key(1), limit_key(2)};
    const uint32_t vnodes[2] = {VNODE, VNODE};
    const struct limit hourly = {
        .count = 10, .window_ns = 3600 * S_NS, .algorithm = ALGORITHM_SLIDING_LOG};
    const struct limit *limits[2] = {&bucket_limit, &hourly};
    uint64_t costs[2] = {40, 40};
    const uint8_t operations[2] = {OPERATION_LEASE, OPERATION_LEASE};
    uint8_t flags[2] = {HOLDING | LIMIT_AT_MOST, HOLDING | LIMIT_AT_MOST};
    const uint32_t groups[2] = {1, 1};
    uint64_t leases[2] = {5, 5};
    const struct limit_batch batch = {.count = 2,
                                      .ids = ids,
                                      .vnodes = vnodes,
                                      .limits = limits,
                                      .costs = costs,
                                      .operations = operations,
                                      .flags = flags,
                                      .groups = groups,
                                      .leases = leases};
    uint8_t status[2], allowed[2];
    uint64_t limit[2], used[2], remaining[2], granted[2];
    int64_t reset[2], retry[2], delay[2];
    struct limit_decisions out = {status,  allowed, limit, used,  remaining,
                                  granted, reset,   retry, delay, NULL};
    engine_step(table, &batch, LIMIT_TEST_EPOCH_NS, &out);
    assert_true(allowed[0] && allowed[1]);
    assert_true(granted[0] == 5 && granted[1] == 5 && used[0] == 5 && used[1] == 5);
    leases[0] = leases[1] = 6;
    flags[0] = flags[1] = HOLDING;
    costs[0] = costs[1] = 6;
    engine_step(table, &batch, LIMIT_TEST_EPOCH_NS, &out);
    assert_true(allowed[0] && !allowed[1]);
    assert_true(granted[0] == 0 && granted[1] == 0 && used[0] == 5 && used[1] == 5);
    table_free(&table);
}

/* A key has so many holders at a time and no more; who comes then is told that there is no room,
 * and nothing is taken. */
static void holders_of_a_key_are_bounded(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = {.count = 1000, .window_ns = S_NS};
    for (uint64_t id = 1; id <= LEASES_MAX; id++)
        assert_int_equal(
            hold(table, &limit, id, OPERATION_LEASE, 2, 0, LIMIT_TEST_EPOCH_NS).granted, 2);
    assert_int_equal(hold(table, &limit, 9999, OPERATION_LEASE, 2, 0, LIMIT_TEST_EPOCH_NS).status,
                     LIMIT_NO_ROOM);
    assert_int_equal(look(table, &limit, LIMIT_TEST_EPOCH_NS).used, 2 * LEASES_MAX);
    assert_true(table_export_len(table, table_lookup(table, limit_key(KEY))) <=
                48 + TABLE_LEASES_LEN);
    table_free(&table);
}

/* What gives no leases says why; the rest gives some. */
static void what_is_not_leasable_says_why(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LEASABLE; i++)
        assert_null(limit_lease_refusal(&leasable[i]));
    const struct limit not [] = {
        {.algorithm = ALGORITHM_LEAKY_BUCKET},
        {.algorithm = ALGORITHM_CONCURRENCY},
        {.algorithm = ALGORITHM_FIXED_WINDOW, .align = LIMIT_ALIGN_FIRST},
        {.algorithm = ALGORITHM_TOKEN_BUCKET, .exceed_percent = 10},
        {.algorithm = ALGORITHM_TOKEN_BUCKET, .pool = 3},
    };
    for (uint32_t i = 0; i < sizeof not / sizeof *not ; i++)
        assert_non_null(limit_lease_refusal(&not [i]));
}

/* ---- bytes and merging ----------------------------------------------------------------------- */

static int export_to(struct table *table, uint8_t *bytes)
{
    return table_export(table, table_lookup(table, limit_key(KEY)), bytes, TABLE_EXPORT_MAX);
}

/* Bytes that are not an export are refused or say something sound, and never touch the table. */
static void damaged_bytes_change_nothing(void **state)
{
    (void)state;
    static uint8_t good[TABLE_EXPORT_MAX];
    static uint8_t bad[TABLE_EXPORT_MAX];
    struct random random;
    random_init(&random, 3);
    for (uint32_t i = 0; i < LEASABLE; i++) {
        struct limit limit = leasable[i];
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS / MIN_NS * MIN_NS + MS;
        limit.start_ns = limit.align == LIMIT_ALIGN_MINUTE ? now_ns - MS : 0;
        struct table *table = limit_table();
        struct table *to = limit_table();
        (void)act(table, &limit, OPERATION_CHECK, 3, 0, now_ns);
        for (uint64_t id = 1; id <= 3; id++)
            (void)hold(table, &limit, id, OPERATION_LEASE, 4, 0, now_ns);
        const int len = export_to(table, good);
        assert_true(len > 0);
        for (int n = 0; n < CASES / 100; n++) {
            memcpy(bad, good, (size_t)len);
            const size_t cut =
                random_below(&random, 4) == 0 ? random_below(&random, (uint64_t)len) : (size_t)len;
            const uint64_t flips = random_below(&random, 3);
            for (uint64_t k = 0; k < flips; k++)
                bad[random_below(&random, (uint64_t)len)] = (uint8_t)random_next(&random);
            const int rc = table_import(to, VNODE, limit_key(KEY), bad, cut, now_ns, 0);
            assert_true(rc == 0 || rc == TG_ECORRUPT || rc == TG_EVERSION || rc == TG_EFULL);
            assert_true(rc != 0 || cut == (size_t)len);
            if (table_lookup(to, limit_key(KEY)) != TABLE_NONE && random_below(&random, 2) == 0)
                table_drop(to, table_lookup(to, limit_key(KEY)));
            table_check_invariants(to);
        }
        table_free(&table);
        table_free(&to);
    }
}

/* Each side of a split leased within its own limit: what is out on either is out in the sum, what
 * both had before once, and nothing twice when it is merged again. */
static void leases_of_both_sides_are_out_after_a_merge(void **state)
{
    (void)state;
    static uint8_t base[TABLE_EXPORT_MAX];
    static uint8_t other[TABLE_EXPORT_MAX];
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    struct table *mine = limit_table();
    struct table *theirs = limit_table();
    (void)hold(mine, &bucket_limit, 1, OPERATION_LEASE, 10, 0, now_ns);
    (void)hold(mine, &bucket_limit, 2, OPERATION_LEASE, 20, 0, now_ns);
    limit_carry(mine, theirs, KEY, now_ns);
    const int base_len = export_to(mine, base);
    (void)hold(mine, &bucket_limit, 3, OPERATION_LEASE, 5, 0, now_ns);
    (void)hold(mine, &bucket_limit, 2, OPERATION_RELEASE, 20, 0, now_ns);
    (void)hold(theirs, &bucket_limit, 4, OPERATION_LEASE, 7, 0, now_ns);
    (void)act(theirs, &bucket_limit, OPERATION_CHECK, 2, 0, now_ns);
    const int other_len = export_to(theirs, other);
    for (int again = 0; again < 2; again++) {
        const void *from = again == 0 ? base : other;
        const int from_len = again == 0 ? base_len : other_len;
        assert_int_equal(table_merge(mine, VNODE, limit_key(KEY), from, (size_t)from_len, other,
                                     (size_t)other_len, now_ns),
                         0);
        /* leases 1, 3 and 4; 20 used of lease 2; 2 by a check */
        assert_int_equal(look(mine, &bucket_limit, now_ns).used, 10 + 5 + 7 + 20 + 2);
    }
    assert_int_equal(hold(mine, &bucket_limit, 4, OPERATION_RELEASE, 0, 0, now_ns).granted, 7);
    assert_int_equal(hold(mine, &bucket_limit, 1, OPERATION_RELEASE, 0, 0, now_ns).granted, 10);
    table_check_invariants(mine);
    table_free(&mine);
    table_free(&theirs);
}

/* Merges of random states, plain or leased, never leave less used than either side had, and all
 * that was out on either side is still out. */
static void a_merge_is_never_below_either_side(void **state)
{
    (void)state;
    static uint8_t base[TABLE_EXPORT_MAX];
    static uint8_t other[TABLE_EXPORT_MAX];
    struct random random;
    random_init(&random, 11);
    struct table *sides[2] = {limit_table(), limit_table()};
    struct table *none = limit_table();
    for (int n = 0; n < CASES / 6; n++) {
        struct limit limit = leasable[random_below(&random, LEASABLE)];
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS / MIN_NS * MIN_NS + MS;
        limit.start_ns = limit.align == LIMIT_ALIGN_MINUTE ? now_ns - MS : 0;
        limit_carry(none, sides[0], KEY, now_ns);
        (void)act(sides[0], &limit, OPERATION_CHECK, 1 + random_below(&random, 5), 0, now_ns);
        for (uint64_t id = 1; id <= random_below(&random, 4); id++)
            (void)hold(sides[0], &limit, id, OPERATION_LEASE, 1 + random_below(&random, 5), 0,
                       now_ns);
        limit_carry(sides[0], sides[1], KEY, now_ns);
        const int base_len = export_to(sides[0], base);
        uint64_t used[2];
        for (uint64_t side = 0; side < 2; side++) {
            const uint64_t news = random_below(&random, 4);
            for (uint64_t k = 0; k < news; k++) {
                const uint64_t id = random_below(&random, 3) == 0 ? 1 + random_below(&random, 4)
                                                                  : 100 * (side + 1) + k;
                const uint64_t cost = 1 + random_below(&random, 4);
                if (random_below(&random, 3) == 0)
                    (void)act(sides[side], &limit, OPERATION_CHECK, cost, 0, now_ns);
                else
                    (void)hold(sides[side], &limit, id, OPERATION_LEASE, cost, 0, now_ns);
            }
            used[side] = look(sides[side], &limit, now_ns).used;
        }
        const int other_len = export_to(sides[1], other);
        assert_int_equal(table_merge(sides[0], VNODE, limit_key(KEY), base, (size_t)base_len, other,
                                     (size_t)other_len, now_ns),
                         0);
        const uint64_t sum = look(sides[0], &limit, now_ns).used;
        assert_true(sum >= used[0] && sum >= used[1]);
    }
    table_check_invariants(sides[0]);
    table_free(&sides[0]);
    table_free(&sides[1]);
    table_free(&none);
}

/* A lease is out on an older copy of a disk, and charged by what went on without it. Nobody has the
 * base: it counts twice at most, and never less than once. */
static void without_a_base_a_lease_that_is_over_counts_twice_at_most(void **state)
{
    (void)state;
    static uint8_t present[TABLE_EXPORT_MAX];
    static uint8_t older[TABLE_EXPORT_MAX];
    const struct limit day = {
        .count = 100, .window_ns = 86400 * S_NS, .algorithm = ALGORITHM_SLIDING_LOG};
    const int64_t over_ns = LIMIT_TEST_EPOCH_NS + LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS;
    struct table *table = limit_table();
    (void)hold(table, &day, 1, OPERATION_LEASE, 8, 0, LIMIT_TEST_EPOCH_NS);
    const size_t older_len = (size_t)export_to(table, older);
    assert_int_equal(act(table, &day, OPERATION_CHECK, 1, 0, over_ns).used, 8 + 1);
    const size_t len = (size_t)export_to(table, present);
    assert_int_equal(
        table_merge(table, VNODE, limit_key(KEY), present, len, older, older_len, over_ns), 0);
    const uint64_t used = look(table, &day, over_ns).used;
    assert_true(used >= 8 + 1 && used <= 8 + 1 + 8);
    table_free(&table);
}

/* A slot of a leased key that a complete copy does not mention reads as new, and is a plain one. */
static void a_copy_without_the_key_ends_its_leases(void **state)
{
    (void)state;
    static uint8_t bytes[TABLE_EXPORT_MAX];
    struct table *table = limit_table();
    (void)hold(table, &bucket_limit, 1, OPERATION_LEASE, 10, 0, LIMIT_TEST_EPOCH_NS);
    table_copy_begin(table, VNODE);
    assert_int_equal(table_copy_end(table, VNODE), 0);
    const uint32_t slot = table_lookup(table, limit_key(KEY));
    assert_true(slot != TABLE_NONE);
    const int len = table_export(table, slot, bytes, sizeof bytes);
    assert_int_equal((size_t)len, table_export_len(table, slot));
    assert_int_equal(bytes[1], ALGORITHM_TOKEN_BUCKET);
    assert_int_equal(look(table, &bucket_limit, LIMIT_TEST_EPOCH_NS).used, 0);
    while (table_step(table, LIMIT_TEST_EPOCH_NS)) {
    }
    struct table_stats stats;
    table_stats(table, &stats);
    assert_int_equal(stats.arena_bytes, 0);
    table_check_invariants(table);
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_uses_together_pass_the_limit_itself),
        cmocka_unit_test(a_bucket_drains_down_to_what_is_out),
        cmocka_unit_test(retry_after_is_exact_beside_what_is_out),
        cmocka_unit_test(a_peek_behind_a_lease_changes_nothing),
        cmocka_unit_test(an_expired_lease_is_spent),
        cmocka_unit_test(a_bucket_does_not_refill_behind_a_lease),
        cmocka_unit_test(a_release_gives_back_exactly),
        cmocka_unit_test(a_lease_of_at_most_leaves_half),
        cmocka_unit_test(a_lease_ends_with_its_window),
        cmocka_unit_test(what_is_out_stays_out_after_a_reset),
        cmocka_unit_test(a_marked_charge_is_undone_beside_leases),
        cmocka_unit_test(a_group_is_leased_as_a_whole),
        cmocka_unit_test(holders_of_a_key_are_bounded),
        cmocka_unit_test(what_is_not_leasable_says_why),
        cmocka_unit_test(damaged_bytes_change_nothing),
        cmocka_unit_test(leases_of_both_sides_are_out_after_a_merge),
        cmocka_unit_test(a_merge_is_never_below_either_side),
        cmocka_unit_test(without_a_base_a_lease_that_is_over_counts_twice_at_most),
        cmocka_unit_test(a_copy_without_the_key_ends_its_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

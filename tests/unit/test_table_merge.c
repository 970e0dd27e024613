/* test_table_merge.c - what two leaders took apart, joined: against one leader that took it all.
 *
 * A case makes a base, lets two sides go on from it, and merges one into the other. For windows and
 * logs the result must be what a single slot says that saw all events; for buckets, whose debts
 * drain on each side, it must be the sum of the debts less the base's. All states are slots of one
 * table under ids of their own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_limit.h"

enum { CASES = EFFORT(100000), STATE_LEN = 4096, EVENTS_MAX = 8, VNODE = 3 };

/* The slots of a case. */
enum key { KEY_BASE, KEY_MINE, KEY_OTHER, KEY_THIRD, KEY_ALL, KEY_SPARE, KEYS };

struct state {
    uint8_t bytes[STATE_LEN];
    size_t len; /* 0: no slot */
};

struct event {
    int64_t at_ns;
    uint64_t cost;
    enum key side;
};

struct fixture {
    struct table *table;
    struct random random;
    struct limit limit;
    uint8_t align; /* of random limits */
    int64_t start_ns;
};

static struct fixture fixture_new(uint64_t seed)
{
    struct fixture fixture = {.table = limit_table()};
    random_init(&fixture.random, seed);
    return fixture;
}

static struct hash128 id_of(enum key key)
{
    return limit_key((uint64_t)key);
}

static struct state state_of(const struct fixture *fixture, enum key key)
{
    struct state state = {.len = 0};
    const uint32_t slot = table_lookup(fixture->table, id_of(key));
    if (slot == TABLE_NONE)
        return state;
    const int len = table_export(fixture->table, slot, state.bytes, sizeof state.bytes);
    assert_true(len > 0);
    state.len = (size_t)len;
    return state;
}

static void set_state(const struct fixture *fixture, enum key key, const struct state *state)
{
    const uint32_t slot = table_lookup(fixture->table, id_of(key));
    if (slot != TABLE_NONE)
        table_drop(fixture->table, slot);
    if (state->len > 0)
        assert_int_equal(
            table_import(fixture->table, VNODE, id_of(key), state->bytes, state->len, 0, 0), 0);
}

static void clear(const struct fixture *fixture)
{
    const struct state none = {.len = 0};
    for (enum key key = KEY_BASE; key < KEYS; key++)
        set_state(fixture, key, &none);
}

static int merge(const struct fixture *fixture, enum key into, const struct state *base,
                 const struct state *other, int64_t now_ns)
{
    return table_merge(fixture->table, VNODE, id_of(into), base->bytes, base->len, other->bytes,
                       other->len, now_ns);
}

static struct limit_decision take(const struct fixture *fixture, enum key key,
                                  const struct limit *limit, uint64_t cost, int64_t now_ns)
{
    struct limit_decision got;
    engine_one(fixture->table, id_of(key), VNODE, limit, cost,
               cost == 0 ? OPERATION_PEEK : OPERATION_HIT, LIMIT_LOADED, now_ns, &got);
    assert_int_equal(got.status, LIMIT_DECIDED);
    return got;
}

static uint64_t used(const struct fixture *fixture, enum key key, int64_t now_ns)
{
    return take(fixture, key, &fixture->limit, 0, now_ns).used;
}

/* The same where what lies ahead is not bounded (ALGORITHM-9): one who decides by older rules. */
static uint64_t as_it_is(const struct fixture *fixture, enum key key, const struct limit *limit,
                         int64_t now_ns)
{
    struct limit_decision got;
    engine_one(fixture->table, id_of(key), VNODE, limit, 0, OPERATION_PEEK,
               LIMIT_LOADED | LIMIT_OLDER, now_ns, &got);
    return got.used;
}

static bool states_equal(const struct state *a, const struct state *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Windows of all orders of magnitude, round ones and any. */
static uint64_t random_window(struct random *random)
{
    static const uint64_t round[] = {1,    2,     10,     250,     512,     1000,     1024,
                                     2000, 60000, 300000, 3600000, 1800000, 86400000, 604800000};
    if (random_below(random, 2) == 0)
        return round[random_below(random, sizeof round / sizeof *round)] * 1000000;
    return 1000000 + random_below(random, UINT64_C(1) << (20 + random_below(random, 30)));
}

static void random_limit(struct fixture *fixture, enum algorithm algorithm)
{
    fixture->limit = (struct limit){.count = 200 + random_below(&fixture->random, 1000),
                                    .window_ns = random_window(&fixture->random),
                                    .align = fixture->align,
                                    .algorithm = (uint8_t)algorithm};
    fixture->start_ns = LIMIT_TEST_EPOCH_NS + (int64_t)random_below(&fixture->random, 1u << 30);
}

/* Up to EVENTS_MAX events in the order of time, of random sides of `first` and the next ones. */
static unsigned random_events(struct fixture *fixture, struct event *events, enum key first,
                              unsigned sides, double windows)
{
    const unsigned count = (unsigned)random_below(&fixture->random, EVENTS_MAX) + 1;
    const int64_t step_ns = (int64_t)((double)fixture->limit.window_ns * windows / EVENTS_MAX);
    int64_t at_ns = fixture->start_ns;
    for (unsigned i = 0; i < count; i++) {
        if (random_below(&fixture->random, 4) != 0) /* else at the same moment */
            at_ns += random_between(&fixture->random, 0, 2 * step_ns + 1);
        events[i].at_ns = at_ns;
        events[i].cost = 1 + random_below(&fixture->random, 3);
        events[i].side = (enum key)(first + random_below(&fixture->random, sides));
    }
    fixture->start_ns = at_ns;
    return count;
}

/* Base, mine, other (and third) after random events; KEY_ALL has seen all. Returns the time. */
static int64_t random_sides(struct fixture *fixture, unsigned sides)
{
    struct event events[EVENTS_MAX];
    clear(fixture);
    unsigned count = 0;
    if (random_below(&fixture->random, 4) != 0)
        count = random_events(fixture, events, KEY_BASE, 1, 1.0);
    for (unsigned i = 0; i < count; i++) {
        (void)take(fixture, KEY_BASE, &fixture->limit, events[i].cost, events[i].at_ns);
        (void)take(fixture, KEY_ALL, &fixture->limit, events[i].cost, events[i].at_ns);
    }
    const struct state base = state_of(fixture, KEY_BASE);
    for (unsigned side = 0; side < sides; side++)
        set_state(fixture, (enum key)(KEY_MINE + side), &base);
    count = random_events(fixture, events, KEY_MINE, sides, 1.5);
    for (unsigned i = 0; i < count; i++) {
        (void)take(fixture, events[i].side, &fixture->limit, events[i].cost, events[i].at_ns);
        (void)take(fixture, KEY_ALL, &fixture->limit, events[i].cost, events[i].at_ns);
    }
    if (random_below(&fixture->random, 2) == 0)
        fixture->start_ns += (int64_t)random_below(&fixture->random, fixture->limit.window_ns);
    return fixture->start_ns;
}

/* Whether cells may be too coarse for the moment (window.h). Keys are in units of a ms, or of 256
 * ms: if the window is nearly a power of two ms, or half of one, they cannot always tell the next
 * from the one after it; and just after its beginning they cannot tell whether it has begun. */
static bool window_is_coarse(const struct fixture *fixture, int64_t now_ns)
{
    const uint64_t window_ns = fixture->limit.window_ns;
    uint64_t longest_ns = 1000000;
    while (longest_ns < window_ns)
        longest_ns *= 2;
    const uint64_t unit_ns = longest_ns >= 1024000000 ? 256000000 : 1000000;
    if ((uint64_t)now_ns % window_ns < unit_ns)
        return true;
    return fixture->limit.algorithm == ALGORITHM_SLIDING_WINDOW &&
           ((window_ns + unit_ns - 1) / unit_ns == longest_ns / unit_ns ||
            2 * window_ns / unit_ns == longest_ns / unit_ns);
}

/* Only windows are kept in so few bits. */
static bool cells_are_coarse(unsigned algorithm)
{
    return algorithm == ALGORITHM_FIXED_WINDOW || algorithm == ALGORITHM_SLIDING_WINDOW;
}

/* The next few times at which two states are compared. */
static int64_t later(const struct fixture *fixture, int64_t now_ns, unsigned step)
{
    return now_ns + (int64_t)(fixture->limit.window_ns / 4 * step);
}

static void as_one_leader(enum algorithm algorithm, uint64_t seed)
{
    struct fixture fixture = fixture_new(seed);
    unsigned exact = 0;
    for (unsigned n = 0; n < CASES; n++) {
        random_limit(&fixture, algorithm);
        const int64_t now_ns = random_sides(&fixture, 2);
        const struct state base = state_of(&fixture, KEY_BASE);
        const struct state other = state_of(&fixture, KEY_OTHER);
        if (other.len == 0)
            continue;
        assert_int_equal(merge(&fixture, KEY_MINE, &base, &other, now_ns), 0);
        const bool coarse = cells_are_coarse(algorithm) && window_is_coarse(&fixture, now_ns);
        exact += !coarse;
        for (unsigned step = 0; step < 8; step += 3) {
            const int64_t then_ns = later(&fixture, now_ns, step);
            const uint64_t mine = used(&fixture, KEY_MINE, then_ns);
            const uint64_t all = used(&fixture, KEY_ALL, then_ns);
            if (coarse)
                assert_true(mine >= all);
            else
                assert_int_equal(mine, all);
        }
    }
    assert_true(exact > CASES / 3);
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

/* A fixed window that was counted on two sides counts as if one had counted it. */
static void merged_fixed_windows_are_those_of_one_decider(void **unused)
{
    (void)unused;
    as_one_leader(ALGORITHM_FIXED_WINDOW, 101);
}

/* A sliding window merged is that of one leader; where keys are too coarse to tell, never less. */
static void merged_sliding_windows_are_those_of_one_decider(void **unused)
{
    (void)unused;
    as_one_leader(ALGORITHM_SLIDING_WINDOW, 102);
}

/* A merged log holds the events of both sides, and those of the base once. */
static void merged_logs_are_those_of_one_decider(void **unused)
{
    (void)unused;
    as_one_leader(ALGORITHM_SLIDING_LOG, 103);
}

/* Merged counts of sub-windows are those of one leader. */
static void merged_sub_windows_are_those_of_one_decider(void **unused)
{
    (void)unused;
    as_one_leader(ALGORITHM_SLIDING_BUCKETS, 116);
}

/* -- buckets ------------------------------------------------------------------------------ */

struct bucket {
    unsigned __int128 units; /* of 1/q ns */
    uint64_t p;
    uint64_t q;
};

static struct bucket bucket_of(const struct state *state, int64_t now_ns)
{
    if (state->len == 0)
        return (struct bucket){.p = 1, .q = 1};
    struct bytes_reader reader;
    bytes_reader_init(&reader, state->bytes + 2, state->len - 2);
    const uint64_t tat_ns = bytes_get_u64(&reader);
    const uint64_t fraction = bytes_get_u32(&reader);
    struct bucket bucket = {.p = bytes_get_u64(&reader)};
    bucket.q = bytes_get_u32(&reader);
    if (tat_ns >= (uint64_t)now_ns)
        bucket.units = (unsigned __int128)(tat_ns - (uint64_t)now_ns) * bucket.q + fraction;
    return bucket;
}

static long double tokens_of(const struct state *state, int64_t now_ns)
{
    const struct bucket bucket = bucket_of(state, now_ns);
    return (long double)bucket.units / (long double)bucket.p;
}

/* The debt of a merged bucket is the sum of the debts less that of the base, to the unit. */
static void merged_buckets_owe_both_debts(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(104);
    for (unsigned n = 0; n < CASES; n++) {
        random_limit(&fixture, ALGORITHM_TOKEN_BUCKET);
        const int64_t now_ns = random_sides(&fixture, 2);
        const struct state base = state_of(&fixture, KEY_BASE);
        const struct state mine = state_of(&fixture, KEY_MINE);
        const struct state other = state_of(&fixture, KEY_OTHER);
        if (other.len == 0)
            continue;
        assert_int_equal(merge(&fixture, KEY_MINE, &base, &other, now_ns), 0);
        const struct state merged = state_of(&fixture, KEY_MINE);
        const unsigned __int128 shared = bucket_of(&base, now_ns).units;
        const unsigned __int128 theirs = bucket_of(&other, now_ns).units;
        const unsigned __int128 gain = theirs > shared ? theirs - shared : 0;
        assert_true(bucket_of(&merged, now_ns).units == bucket_of(&mine, now_ns).units + gain);
    }
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

/* Debts at different rates are added as tokens; rounding adds less than a token's p-th each. What a
 * base at another rate than the other side's has become there is not known: it is not taken off. */
static void buckets_of_different_rates_are_added_as_tokens(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(105);
    unsigned gains = 0;
    for (unsigned n = 0; n < CASES; n++) {
        clear(&fixture);
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        for (enum key key = KEY_BASE; key <= KEY_OTHER; key++) {
            random_limit(&fixture, ALGORITHM_TOKEN_BUCKET);
            if (key != KEY_BASE && random_below(&fixture.random, 2) == 0) {
                const struct state base = state_of(&fixture, KEY_BASE);
                set_state(&fixture, key, &base);
            }
            const int64_t drained_ns =
                (int64_t)random_below(&fixture.random, fixture.limit.window_ns / 8);
            (void)take(&fixture, key, &fixture.limit, random_below(&fixture.random, 150),
                       now_ns - drained_ns);
        }
        const struct state base = state_of(&fixture, KEY_BASE);
        const struct state mine = state_of(&fixture, KEY_MINE);
        const struct state other = state_of(&fixture, KEY_OTHER);
        if (base.len == 0 || mine.len == 0 || other.len == 0)
            continue;
        assert_int_equal(merge(&fixture, KEY_MINE, &base, &other, now_ns), 0);
        const struct state merged = state_of(&fixture, KEY_MINE);
        const struct bucket shared = bucket_of(&base, now_ns);
        const struct bucket theirs = bucket_of(&other, now_ns);
        const bool grew = shared.p == theirs.p && shared.q == theirs.q;
        const long double gain = tokens_of(&other, now_ns) - (grew ? tokens_of(&base, now_ns) : 0);
        const long double least = tokens_of(&mine, now_ns) + (gain > 0 ? gain : 0);
        const long double got = tokens_of(&merged, now_ns);
        const long double unit = 1.0L / (long double)bucket_of(&merged, now_ns).p +
                                 1.0L / (long double)bucket_of(&other, now_ns).p;
        assert_true(got >= least - 1e-9L);
        assert_true(got <= least + unit + 1e-9L);
        gains += gain > 0;
    }
    assert_true(gains > CASES / 8);
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

/* -- laws --------------------------------------------------------------------------------- */

static void assert_never_below(const struct fixture *fixture, const struct limit *limit,
                               enum key low, enum key high, int64_t now_ns)
{
    for (unsigned step = 0; step < 8; step += 3) {
        const int64_t then_ns = now_ns + (int64_t)(limit->window_ns / 4 * step);
        const uint64_t less = take(fixture, low, limit, 0, then_ns).used;
        assert_true(take(fixture, high, limit, 0, then_ns).used >= less);
    }
}

/* What one side adds: nothing if it is the base, nothing twice, and never less than either side. */
static void laws_of_one_merge(struct fixture *fixture, int64_t now_ns)
{
    const struct state base = state_of(fixture, KEY_BASE);
    const struct state mine = state_of(fixture, KEY_MINE);
    const struct state other = state_of(fixture, KEY_OTHER);
    if (base.len > 0) {
        assert_int_equal(merge(fixture, KEY_MINE, &base, &base, now_ns), 0);
        const struct state same = state_of(fixture, KEY_MINE);
        assert_true(states_equal(&mine, &same));
    }
    if (other.len == 0)
        return;
    set_state(fixture, KEY_SPARE, &mine);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &other, now_ns), 0);
    const struct state once = state_of(fixture, KEY_SPARE);
    assert_int_equal(merge(fixture, KEY_SPARE, &other, &other, now_ns), 0);
    const struct state twice = state_of(fixture, KEY_SPARE);
    assert_true(states_equal(&once, &twice));
    assert_never_below(fixture, &fixture->limit, KEY_MINE, KEY_SPARE, now_ns);
    set_state(fixture, KEY_SPARE, &twice); /* a look from the future tidies a log up */
    assert_never_below(fixture, &fixture->limit, KEY_OTHER, KEY_SPARE, now_ns);
}

/* Three sides in any order, and in any grouping, give the same. */
static void laws_of_order(struct fixture *fixture, int64_t now_ns)
{
    const struct state base = state_of(fixture, KEY_BASE);
    const struct state mine = state_of(fixture, KEY_MINE);
    const struct state other = state_of(fixture, KEY_OTHER);
    const struct state third = state_of(fixture, KEY_THIRD);
    if (other.len == 0 || third.len == 0)
        return;
    struct state result[3];
    set_state(fixture, KEY_SPARE, &mine);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &other, now_ns), 0);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &third, now_ns), 0);
    result[0] = state_of(fixture, KEY_SPARE);
    set_state(fixture, KEY_SPARE, &mine);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &third, now_ns), 0);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &other, now_ns), 0);
    result[1] = state_of(fixture, KEY_SPARE);
    set_state(fixture, KEY_SPARE, &other);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &third, now_ns), 0);
    const struct state both = state_of(fixture, KEY_SPARE);
    set_state(fixture, KEY_SPARE, &mine);
    assert_int_equal(merge(fixture, KEY_SPARE, &base, &both, now_ns), 0);
    result[2] = state_of(fixture, KEY_SPARE);
    const bool coarse =
        cells_are_coarse(fixture->limit.algorithm) && window_is_coarse(fixture, now_ns);
    for (unsigned step = 0; step < 8; step += 3) {
        const int64_t then_ns = later(fixture, now_ns, step);
        set_state(fixture, KEY_SPARE, &result[0]);
        const uint64_t first = used(fixture, KEY_SPARE, then_ns);
        for (unsigned i = 1; i < 3; i++) {
            set_state(fixture, KEY_SPARE, &result[i]);
            const uint64_t again = used(fixture, KEY_SPARE, then_ns);
            /* Of windows that requests began the base is not found again once it was carried into
             * a later one: merged in groups it may count twice. */
            if (i == 2 && fixture->limit.align == LIMIT_ALIGN_FIRST)
                assert_true(again >= first);
            else if (!coarse)
                assert_int_equal(again, first);
        }
    }
}

static void check_laws_of(enum algorithm algorithm, enum limit_align align, uint64_t seed)
{
    struct fixture fixture = fixture_new(seed);
    fixture.align = (uint8_t)align;
    for (unsigned n = 0; n < CASES; n++) {
        random_limit(&fixture, algorithm);
        const int64_t now_ns = random_sides(&fixture, 3);
        if (n % 2 == 0)
            laws_of_one_merge(&fixture, now_ns);
        else
            laws_of_order(&fixture, now_ns);
    }
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

static void check_laws(enum algorithm algorithm, uint64_t seed)
{
    check_laws_of(algorithm, LIMIT_ALIGN_EPOCH, seed);
}

/* The laws of merging hold for windows that requests began, which may overlap. */
static void windows_begun_by_requests_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws_of(ALGORITHM_FIXED_WINDOW, LIMIT_ALIGN_FIRST, 119);
}

/* The laws of merging hold for buckets. */
static void buckets_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws(ALGORITHM_TOKEN_BUCKET, 106);
}

/* The laws of merging hold for fixed windows. */
static void fixed_windows_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws(ALGORITHM_FIXED_WINDOW, 107);
}

/* The laws of merging hold for sliding windows. */
static void sliding_windows_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws(ALGORITHM_SLIDING_WINDOW, 108);
}

/* The laws of merging hold for logs. */
static void logs_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws(ALGORITHM_SLIDING_LOG, 109);
}

/* The laws of merging hold for sub-windows. */
static void sub_windows_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws(ALGORITHM_SLIDING_BUCKETS, 117);
}

/* The laws of merging hold for queues. */
static void leaky_buckets_merge_by_the_laws(void **unused)
{
    (void)unused;
    check_laws(ALGORITHM_LEAKY_BUCKET, 118);
}

/* Whatever the two sides are - other rules, clocks that ran ahead, refunds - the result is never
 * below mine, and never below the other if the base is empty. */
static void no_merge_lowers_a_side(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(110);
    for (unsigned n = 0; n < CASES; n++) {
        const enum algorithm algorithm = (enum algorithm)(n % ALGORITHM_COUNT);
        struct limit limits[2];
        clear(&fixture);
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        for (unsigned side = 0; side < 2; side++) {
            fixture.align =
                algorithm == ALGORITHM_FIXED_WINDOW && random_below(&fixture.random, 2) == 0;
            random_limit(&fixture, algorithm);
            if (side == 1 && random_below(&fixture.random, 2) == 0)
                fixture.limit.window_ns = limits[0].window_ns;
            limits[side] = fixture.limit;
            const int64_t window_ns = (int64_t)fixture.limit.window_ns;
            int64_t at_ns = now_ns - random_between(&fixture.random, 0, window_ns);
            if (random_below(&fixture.random, 4) == 0)
                at_ns = now_ns + random_between(&fixture.random, 0, window_ns);
            const enum key key = side == 0 ? KEY_MINE : KEY_OTHER;
            (void)take(&fixture, key, &limits[side], 1 + random_below(&fixture.random, 90), at_ns);
        }
        const struct state mine = state_of(&fixture, KEY_MINE);
        const struct state other = state_of(&fixture, KEY_OTHER);
        const struct state none = {.len = 0};
        set_state(&fixture, KEY_SPARE, &mine);
        assert_int_equal(merge(&fixture, KEY_SPARE, &none, &other, now_ns), 0);
        const bool windows = cells_are_coarse(algorithm);
        /* A cell does not know its window's length: another rule's may seem to be its successor. */
        if (windows &&
            (limits[0].window_ns != limits[1].window_ns || limits[0].align != limits[1].align))
            continue;
        struct limit longest = limits[limits[1].window_ns > limits[0].window_ns];
        longest.count = 1000;
        for (enum key side = KEY_MINE; side <= KEY_OTHER; side++) {
            const uint64_t less = as_it_is(&fixture, side, &longest, now_ns);
            const uint64_t got = as_it_is(&fixture, KEY_SPARE, &longest, now_ns);
            assert_true(got >= less);
        }
    }
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

/* -- bounds ------------------------------------------------------------------------------- */

/* A merge is a change like a decided one, if it changes anything; else it leaves no trace. */
static void a_merge_counts_as_a_change_only_if_it_is_one(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(111);
    fixture.limit = (struct limit){.count = 100, .window_ns = 60000000000};
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    (void)take(&fixture, KEY_OTHER, &fixture.limit, 5, now_ns);
    const struct state other = state_of(&fixture, KEY_OTHER);
    const struct state none = {.len = 0};
    const uint64_t before = table_vnode_seq(fixture.table, VNODE);
    assert_int_equal(merge(&fixture, KEY_MINE, &none, &other, now_ns + 120000000000), 0);
    assert_int_equal(table_lookup(fixture.table, id_of(KEY_MINE)), TABLE_NONE);
    assert_int_equal(table_vnode_seq(fixture.table, VNODE), before);
    assert_int_equal(merge(&fixture, KEY_MINE, &none, &other, now_ns), 0);
    assert_int_equal(table_vnode_seq(fixture.table, VNODE), before + 1);
    assert_int_equal(used(&fixture, KEY_MINE, now_ns), 5);
    for (unsigned target = 0; target < 2; target++) {
        uint32_t slot;
        bool seen = false;
        while ((slot = table_next_dirty(fixture.table, target)) != TABLE_NONE) {
            seen = seen || hash128_equal(table_slot_id(fixture.table, slot), id_of(KEY_MINE));
            table_clear_dirty(fixture.table, slot, target);
        }
        assert_true(seen);
    }
    assert_int_equal(merge(&fixture, KEY_MINE, &other, &other, now_ns), 0);
    assert_int_equal(table_vnode_seq(fixture.table, VNODE), before + 1);
    assert_int_equal(table_next_dirty(fixture.table, 1), TABLE_NONE);
    table_free(&fixture.table);
}

/* States of different algorithms are not mixed. */
static void another_algorithm_is_refused(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(112);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    struct state states[ALGORITHM_COUNT];
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct limit limit = {
            .count = 10, .window_ns = 60000000000, .algorithm = (uint8_t)algorithm};
        (void)take(&fixture, (enum key)(KEYS + algorithm), &limit, 2, now_ns);
        states[algorithm] = state_of(&fixture, (enum key)(KEYS + algorithm));
    }
    const struct state none = {.len = 0};
    for (unsigned a = 0; a < ALGORITHM_COUNT; a++) {
        for (unsigned b = 0; b < ALGORITHM_COUNT; b++) {
            const int rc = a == b ? 0 : TG_ECORRUPT;
            assert_int_equal(merge(&fixture, (enum key)(KEYS + a), &none, &states[b], now_ns), rc);
            assert_int_equal(merge(&fixture, KEY_SPARE, &states[a], &states[b], now_ns), rc);
        }
    }
    states[0].bytes[0]++;
    assert_int_equal(merge(&fixture, KEY_BASE, &none, &states[0], now_ns), TG_EVERSION);
    table_free(&fixture.table);
}

/* Makes slots with blocks in the arena until it is full; being written, they cannot be dropped. */
static void fill_arena(const struct fixture *fixture, const struct limit *limit, uint64_t cost,
                       uint64_t *key, int64_t now_ns)
{
    struct limit_decision got = {.status = LIMIT_DECIDED};
    while (got.status == LIMIT_DECIDED) {
        for (int64_t i = 0; i < 60 && got.status == LIMIT_DECIDED; i++)
            got =
                limit_do(fixture->table, *key, limit, OPERATION_HIT, cost, 0, now_ns + i * 1000000);
        (*key)++;
        uint32_t slot;
        while ((slot = table_next_dirty(fixture->table, TABLE_DISK)) != TABLE_NONE)
            table_write_begin(fixture->table, slot);
    }
}

/* Counts too large for a slot go to the arena; when it is full, nothing has changed. */
static void wide_cells_merge_or_change_nothing(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(113);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    fixture.limit = (struct limit){
        .count = 1000000000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_SLIDING_WINDOW};
    const uint64_t narrow = 200000000; /* twice this does not fit 28 bits */
    (void)take(&fixture, KEY_OTHER, &fixture.limit, narrow, now_ns);
    (void)take(&fixture, KEY_MINE, &fixture.limit, narrow, now_ns);
    const struct state other = state_of(&fixture, KEY_OTHER);
    const struct state mine = state_of(&fixture, KEY_MINE);
    const struct state none = {.len = 0};
    const struct limit log = {
        .count = 1000, .window_ns = 86400000000000, .algorithm = ALGORITHM_SLIDING_LOG};
    uint64_t key = KEYS;
    fill_arena(&fixture, &log, 1, &key, now_ns);
    fill_arena(&fixture, &fixture.limit, 2 * narrow, &key, now_ns);
    const uint64_t seq = table_vnode_seq(fixture.table, VNODE);
    assert_int_equal(merge(&fixture, KEY_MINE, &none, &other, now_ns), TG_EFULL);
    const struct state after = state_of(&fixture, KEY_MINE);
    assert_true(states_equal(&mine, &after));
    assert_int_equal(table_vnode_seq(fixture.table, VNODE), seq);
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
    fixture.table = limit_table();
    set_state(&fixture, KEY_MINE, &mine);
    assert_int_equal(merge(&fixture, KEY_MINE, &none, &other, now_ns), 0);
    assert_int_equal(used(&fixture, KEY_MINE, now_ns), 2 * narrow);
    assert_int_equal(merge(&fixture, KEY_MINE, &none, &other, now_ns), 0);
    assert_int_equal(used(&fixture, KEY_MINE, now_ns), 3 * narrow);
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

/* Sums stop at what a decoder believes, so that a merged state can be read elsewhere. */
static void sums_saturate_at_what_can_be_read(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(114);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    const struct state none = {.len = 0};
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        if (algorithm == ALGORITHM_SLIDING_LOG || algorithm == ALGORITHM_CONCURRENCY)
            continue; /* these have bounds of their own */
        fixture.limit = (struct limit){.count = LIMIT_COUNT_MAX,
                                       .window_ns = LIMIT_WINDOW_MAX_NS,
                                       .algorithm = (uint8_t)algorithm};
        clear(&fixture);
        (void)take(&fixture, KEY_OTHER, &fixture.limit, UINT64_MAX, now_ns);
        const struct state other = state_of(&fixture, KEY_OTHER);
        for (unsigned i = 0; i < 5; i++)
            assert_int_equal(merge(&fixture, KEY_MINE, &none, &other, now_ns), 0);
        const struct state merged = state_of(&fixture, KEY_MINE);
        set_state(&fixture, KEY_SPARE, &merged); /* asserts that it is believed */
        assert_true(used(&fixture, KEY_SPARE, now_ns) >= used(&fixture, KEY_OTHER, now_ns));
    }
    table_free(&fixture.table);
}

/* Hostile bytes as base or other are refused, or believed within bounds: the books stay right. */
static void hostile_bytes_are_refused(void **unused)
{
    (void)unused;
    struct fixture fixture = fixture_new(115);
    struct state good[ALGORITHM_COUNT];
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    for (unsigned algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct limit limit = {
            .count = 50, .window_ns = 60000000000, .algorithm = (uint8_t)algorithm};
        for (unsigned i = 0; i < 9; i++)
            (void)take(&fixture, KEY_BASE, &limit, 1 + i % 3, now_ns + i * 1000);
        good[algorithm] = state_of(&fixture, KEY_BASE);
        clear(&fixture);
    }
    unsigned refused = 0;
    for (unsigned n = 0; n < 2 * CASES; n++) {
        struct state states[2] = {good[n % ALGORITHM_COUNT], good[n % ALGORITHM_COUNT]};
        for (unsigned i = 0; i < 2; i++) {
            for (uint64_t flips = random_below(&fixture.random, 3); flips > 0; flips--)
                states[i].bytes[random_below(&fixture.random, states[i].len)] =
                    (uint8_t)random_next(&fixture.random);
            if (random_below(&fixture.random, 8) == 0)
                states[i].len = random_below(&fixture.random, states[i].len + 4);
        }
        const struct hash128 id = limit_key(100 + random_below(&fixture.random, 300));
        const uint32_t slot = table_lookup(fixture.table, id);
        struct state before = {.len = 0};
        if (slot != TABLE_NONE)
            before.len = (size_t)table_export(fixture.table, slot, before.bytes, STATE_LEN);
        const int rc =
            table_merge(fixture.table, VNODE, id, states[0].bytes, states[0].len, states[1].bytes,
                        states[1].len, now_ns + (int64_t)random_below(&fixture.random, 1u << 30));
        assert_true(rc <= 0);
        refused += rc != 0;
        if (slot == TABLE_NONE || before.len > STATE_LEN)
            continue;
        struct state after;
        after.len = (size_t)table_export(fixture.table, slot, after.bytes, STATE_LEN);
        if (rc != 0)
            assert_true(states_equal(&before, &after));
    }
    assert_true(refused > 1000 && refused < 2 * CASES - 1000);
    table_check_invariants(fixture.table);
    table_free(&fixture.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_fixed_windows_are_those_of_one_decider),
        cmocka_unit_test(merged_sliding_windows_are_those_of_one_decider),
        cmocka_unit_test(merged_logs_are_those_of_one_decider),
        cmocka_unit_test(merged_sub_windows_are_those_of_one_decider),
        cmocka_unit_test(merged_buckets_owe_both_debts),
        cmocka_unit_test(buckets_of_different_rates_are_added_as_tokens),
        cmocka_unit_test(buckets_merge_by_the_laws),
        cmocka_unit_test(fixed_windows_merge_by_the_laws),
        cmocka_unit_test(sliding_windows_merge_by_the_laws),
        cmocka_unit_test(logs_merge_by_the_laws),
        cmocka_unit_test(windows_begun_by_requests_merge_by_the_laws),
        cmocka_unit_test(sub_windows_merge_by_the_laws),
        cmocka_unit_test(leaky_buckets_merge_by_the_laws),
        cmocka_unit_test(no_merge_lowers_a_side),
        cmocka_unit_test(a_merge_counts_as_a_change_only_if_it_is_one),
        cmocka_unit_test(another_algorithm_is_refused),
        cmocka_unit_test(wide_cells_merge_or_change_nothing),
        cmocka_unit_test(sums_saturate_at_what_can_be_read),
        cmocka_unit_test(hostile_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

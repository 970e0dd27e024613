/* test_limit_edits.c - what becomes of a count when its limit is edited, for every algorithm alike.
 *
 * A key is used up under one limit and asked for under another: what was consumed drains as the new
 * one says from the first request that saw it, also one that was denied; nothing is forgotten, and
 * what is owed is at most one further new limit. A peek and a request by older rules see the same
 * without touching what is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sat.h"
#include "node/limit/algorithms/algorithm.h"
#include "tests/unit/support_limit.h"

#define S_NS    UINT64_C(1000000000)
#define HOUR_NS (3600 * S_NS)
/* A second that begins no window of an hour, a minute or ten seconds. */
#define START_NS (LIMIT_TEST_EPOCH_NS + INT64_C(1234500000000))

enum { ASKED_MAX = 1000, EDITS = EFFORT(20000), KEY = 1 };

struct kind {
    enum algorithm algorithm;
    uint8_t align;
};

/* Those that drain with time; of concurrency a place is freed by its holder. */
static const struct kind kinds[] = {
    {ALGORITHM_TOKEN_BUCKET, 0},   {ALGORITHM_LEAKY_BUCKET, 0},
    {ALGORITHM_FIXED_WINDOW, 0},   {ALGORITHM_FIXED_WINDOW, LIMIT_ALIGN_FIRST},
    {ALGORITHM_SLIDING_WINDOW, 0}, {ALGORITHM_SLIDING_BUCKETS, 0},
    {ALGORITHM_SLIDING_LOG, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct limit limit_of(const struct kind *kind, uint64_t count, uint64_t window_ns)
{
    return (struct limit){.count = count,
                          .window_ns = window_ns,
                          .algorithm = (uint8_t)kind->algorithm,
                          .align = kind->align};
}

static struct limit_decision check(struct table *table, const struct limit *limit, int64_t now_ns)
{
    return limit_do(table, KEY, limit, OPERATION_CHECK, 1, 0, now_ns);
}

static void use_up(struct table *table, const struct limit *limit, int64_t now_ns)
{
    for (uint64_t i = 0; i < limit->count; i++)
        assert_int_equal(check(table, limit, now_ns).allowed, 1);
    assert_int_equal(check(table, limit, now_ns).allowed, 0);
}

/* How long a caller is denied who asks again after each wait that it is told. */
static int64_t denied_ns(struct table *table, const struct limit *limit, int64_t from_ns)
{
    int64_t now_ns = from_ns;
    for (unsigned asked = 0; asked < ASKED_MAX; asked++) {
        const struct limit_decision got = check(table, limit, now_ns);
        if (got.allowed)
            return now_ns - from_ns;
        assert_true(got.retry_after_ns > 0);
        now_ns += got.retry_after_ns;
    }
    return INT64_MAX;
}

/* Two an hour are used up, then the limit is two a second: the wait that the first denial tells is
 * kept, and is one of seconds. It was denied as often as it asked, at the old rate. */
static void a_denial_drains_at_the_new_rate(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct table *table = limit_table();
        struct table *copy = limit_table();
        const struct limit slow = limit_of(&kinds[i], 2, HOUR_NS);
        const struct limit fast = limit_of(&kinds[i], 2, S_NS);
        use_up(table, &slow, START_NS);
        const int64_t then_ns = START_NS + (int64_t)(10 * S_NS);
        const struct limit_decision first = check(table, &fast, then_ns);
        limit_carry(table, copy, KEY, then_ns); /* a replica knows it, too */
        if (!first.allowed)
            assert_int_equal(check(copy, &fast, then_ns + first.retry_after_ns).allowed, 1);
        assert_in_range(denied_ns(table, &fast, then_ns), 0, 2 * S_NS);
        table_check_invariants(table);
        table_free(&table);
        table_free(&copy);
    }
}

/* Two a second are used up, then the limit is two an hour: that a denial promised an hour's wait
 * keeps the count for so long, though by the old limit it would have gone after two seconds. */
static void a_denial_keeps_the_count_for_the_new_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct table *table = limit_table();
        const struct limit fast = limit_of(&kinds[i], 2, S_NS);
        const struct limit slow = limit_of(&kinds[i], 2, HOUR_NS);
        use_up(table, &fast, START_NS);
        const struct limit_decision first = check(table, &slow, START_NS);
        assert_int_equal(first.allowed, 0);
        assert_true(first.retry_after_ns > (int64_t)(60 * S_NS));
        assert_int_equal(check(table, &slow, START_NS + (int64_t)(10 * S_NS)).allowed, 0);
        assert_int_equal(check(table, &slow, START_NS + first.retry_after_ns - 1).allowed, 0);
        assert_int_equal(check(table, &slow, START_NS + first.retry_after_ns).allowed, 1);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* The bytes of the key's slot, as they go to disk and to replicas. */
static int bytes_of(struct table *table, uint8_t out[TABLE_EXPORT_MAX])
{
    const uint32_t slot = table_lookup(table, limit_key(KEY));
    assert_int_not_equal(slot, TABLE_NONE);
    return table_export(table, slot, out, TABLE_EXPORT_MAX);
}

/* Whoever only looks, by whatever limit, and whoever is denied by older rules, leaves every byte.
 */
static void a_peek_and_a_denial_by_older_rules_rewrite_nothing(void **state)
{
    static uint8_t before[TABLE_EXPORT_MAX];
    static uint8_t after[TABLE_EXPORT_MAX];
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const struct limit limit = limit_of(&kinds[i], 3, HOUR_NS);
        const struct limit others[] = {limit_of(&kinds[i], 3, S_NS),
                                       limit_of(&kinds[i], 1, HOUR_NS),
                                       limit_of(&kinds[i], 2, 24 * HOUR_NS)};
        struct table *table = limit_table();
        use_up(table, &limit, START_NS);
        const int len = bytes_of(table, before);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            const int64_t then_ns = START_NS + (int64_t)(5 * S_NS);
            (void)limit_do(table, KEY, &others[k], OPERATION_PEEK, 1, 0, then_ns);
            const struct limit_decision got =
                limit_do(table, KEY, &others[k], OPERATION_CHECK, 9, LIMIT_OLDER, then_ns);
            assert_int_equal(got.allowed, 0);
            assert_int_equal(bytes_of(table, after), len);
            assert_memory_equal(before, after, (size_t)len);
        }
        assert_int_equal(check(table, &limit, START_NS + (int64_t)(5 * S_NS)).allowed, 0);
        table_free(&table);
    }
}

/* Two nodes with two versions of the rules ask in turn: what the older one is granted counts, and
 * the count goes on draining as the newer version says. */
static void older_rules_charge_at_the_rate_that_is_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const struct limit older = limit_of(&kinds[i], 10, 24 * HOUR_NS);
        const struct limit newer = limit_of(&kinds[i], 4, 10 * S_NS);
        struct table *table = limit_table();
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(check(table, &newer, START_NS).allowed, 1);
            const struct limit_decision got =
                limit_do(table, KEY, &older, OPERATION_CHECK, 1, LIMIT_OLDER, START_NS);
            assert_int_equal(got.allowed, 1);
            assert_int_equal(got.used, 2 * k + 2);
            assert_int_equal(got.limit, 10);
        }
        assert_int_equal(check(table, &newer, START_NS).allowed, 0);
        assert_in_range(denied_ns(table, &newer, START_NS), 1, 20 * S_NS);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* Older rules with a shorter window find nothing in theirs: they charge what is there all the same,
 * and do not begin a state of their own in its place. */
static void older_rules_forget_nothing_of_a_longer_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const struct limit older = limit_of(&kinds[i], 10, 60 * S_NS);
        const struct limit newer = limit_of(&kinds[i], 100, HOUR_NS);
        struct table *table = limit_table();
        use_up(table, &newer, START_NS);
        const int64_t then_ns = START_NS + (int64_t)(130 * S_NS);
        const uint64_t used = limit_do(table, KEY, &newer, OPERATION_PEEK, 0, 0, then_ns).used;
        const bool took =
            limit_do(table, KEY, &older, OPERATION_CHECK, 1, LIMIT_OLDER, then_ns).allowed;
        const uint64_t after = limit_do(table, KEY, &newer, OPERATION_PEEK, 0, 0, then_ns).used;
        assert_int_equal(after, used + took);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* Whatever older rules do to a key that has nothing left of its window, the slot and its memory are
 * in order, and the key is as good as new: what is gone does not come back. */
static void older_rules_leave_a_state_in_order(void **state)
{
    const enum operation operations[] = {OPERATION_RESET, OPERATION_REFUND, OPERATION_CHECK,
                                         OPERATION_HIT};
    struct random random;
    (void)state;
    random_init(&random, 21);
    for (size_t i = 0; i < KINDS; i++) {
        struct table *table = limit_table();
        int64_t now_ns = START_NS;
        for (unsigned k = 0; k < EDITS / 4; k++) {
            const struct limit newer = limit_of(&kinds[i], 5, S_NS << random_below(&random, 3));
            const struct limit older = limit_of(&kinds[i], 5, S_NS << random_below(&random, 3));
            const struct limit *limit = random_below(&random, 2) == 0 ? &newer : &older;
            now_ns += random_between(&random, 0, (int64_t)(2 * S_NS));
            (void)limit_do(table, random_below(&random, 3), limit,
                           operations[random_below(&random, 4)], 1 + random_below(&random, 3),
                           limit == &older ? LIMIT_OLDER : 0, now_ns);
            table_check_invariants(table);
        }
        for (uint64_t key = 0; key < 3; key++) {
            const struct limit last = limit_of(&kinds[i], 5, 4 * S_NS);
            now_ns += (int64_t)(100 * S_NS);
            (void)limit_do(table, key, &last, OPERATION_RESET, 1, LIMIT_OLDER, now_ns);
            assert_int_equal(limit_do(table, key, &last, OPERATION_HIT, 5, 0, now_ns).used, 5);
        }
        table_check_invariants(table);
        table_free(&table);
    }
}

/* Three in any window by older rules, all the time: none of them is counted when it has left. */
static void older_rules_count_what_is_in_their_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct table *table = limit_table();
        const struct limit limit = limit_of(&kinds[i], 5, 60 * S_NS);
        for (int64_t n = 0; n < 100; n++)
            assert_int_equal(limit_do(table, KEY, &limit, OPERATION_CHECK, 1, LIMIT_OLDER,
                                      START_NS + n * 20 * (int64_t)S_NS)
                                 .allowed,
                             1);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* A hundred of a hundred an hour, then five an hour: ten are owed, and all is well after two hours,
 * not after twenty; also where the window stays and the count alone is lowered. */
static void debt_is_at_most_one_further_new_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct table *table = limit_table();
        const struct limit high = limit_of(&kinds[i], 100, HOUR_NS);
        const struct limit low = limit_of(&kinds[i], 5, HOUR_NS);
        use_up(table, &high, START_NS);
        struct limit_decision got = check(table, &low, START_NS);
        assert_int_equal(got.allowed, 0);
        assert_int_equal(got.used, 10);
        assert_int_equal(got.remaining, 0);
        assert_true(got.reset_after_ns <= (int64_t)(2 * HOUR_NS + HOUR_NS / 30));
        got = limit_do(table, KEY, &low, OPERATION_PEEK, 0, 0, START_NS + (int64_t)(3 * HOUR_NS));
        assert_int_equal(got.used, 0);
        /* Raised again, a window still has all of it, and a bucket what it kept. */
        got = limit_do(table, KEY, &high, OPERATION_PEEK, 0, 0, START_NS);
        assert_int_equal(got.used, limit_has_burst(kinds[i].algorithm) ? 10 : 100);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* The same of a bucket whose burst alone is lowered: the rate in the slot does not tell. */
static void a_lowered_burst_is_owed_no_more_than_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct table *table = limit_table();
        struct limit limit = limit_of(&kinds[i], 60, HOUR_NS);
        limit.burst = 600;
        for (unsigned k = 0; k < 600; k++)
            assert_int_equal(check(table, &limit, START_NS).allowed, 1);
        limit.burst = 5;
        const struct limit_decision got = check(table, &limit, START_NS);
        assert_int_equal(got.used, 10);
        assert_int_equal(got.retry_after_ns, 6 * 60 * S_NS);
        table_free(&table);
    }
}

/* A rule's limits are decided all or nothing: where one denies, the others are rewritten as well.
 */
static void a_denied_group_rewrites_all_its_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct table *table = limit_table();
        const struct limit slow = limit_of(&kinds[i], 2, HOUR_NS);
        const struct limit fast[] = {limit_of(&kinds[i], 2, S_NS), limit_of(&kinds[i], 3, S_NS)};
        const struct limit *limits[] = {&fast[0], &fast[1]};
        const struct hash128 ids[] = {limit_key(KEY), limit_key(KEY + 64)};
        const uint32_t vnodes[] = {KEY, KEY};
        const uint64_t costs[] = {1, 1};
        const uint32_t groups[] = {7, 7};
        const uint8_t flags[] = {LIMIT_LOADED, LIMIT_LOADED};
        const struct limit_batch batch = {.count = 2,
                                          .ids = ids,
                                          .vnodes = vnodes,
                                          .limits = limits,
                                          .costs = costs,
                                          .flags = flags,
                                          .groups = groups};
        uint8_t bytes[4][2];
        uint64_t numbers[4][2];
        int64_t times[3][2];
        struct limit_decisions out = {.status = bytes[0],
                                      .allowed = bytes[1],
                                      .notes = bytes[2],
                                      .limit = numbers[0],
                                      .used = numbers[1],
                                      .remaining = numbers[2],
                                      .granted = numbers[3],
                                      .reset_after_ns = times[0],
                                      .retry_after_ns = times[1],
                                      .delay_ns = times[2]};
        use_up(table, &slow, START_NS);
        int64_t now_ns = START_NS + (int64_t)(10 * S_NS);
        unsigned asked = 0;
        for (; asked < ASKED_MAX; asked++) {
            engine_step(table, &batch, now_ns, &out);
            if (bytes[1][0])
                break;
            now_ns += times[1][0];
        }
        assert_true(now_ns <= START_NS + (int64_t)(12 * S_NS));
        table_check_invariants(table);
        table_free(&table);
    }
}

/* Tokens of the limit are held while it is edited: what is inside the envelope is rewritten, too.
 */
static void a_state_with_leases_out_is_rewritten(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const struct limit slow = limit_of(&kinds[i], 4, HOUR_NS);
        const struct limit fast = limit_of(&kinds[i], 4, S_NS);
        struct limit_decision got;
        if (limit_lease_refusal(&slow) != NULL)
            continue;
        struct table *table = limit_table();
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(check(table, &slow, START_NS).allowed, 1);
        engine_one_leased(table, limit_key(KEY), KEY, &slow, 1, 77, OPERATION_LEASE,
                          LIMIT_HOLD | LIMIT_LOADED, START_NS, &got);
        assert_int_equal(got.granted, 1);
        (void)check(table, &fast, START_NS + 1000);
        /* The lease is spent at its end, 1.1 s later; the others had two seconds by then. */
        assert_int_equal(check(table, &fast, START_NS + (int64_t)(2 * S_NS + S_NS / 4)).allowed, 1);
        table_check_invariants(table);
        table_free(&table);
    }
}

/* Where rolling windows are exact, no edit ever lets more through than the largest count in force
 * within the smallest window in force. */
static void random_edits_never_admit_more_than_the_largest_limit(void **state)
{
    static int64_t admitted_ns[EDITS];
    const struct kind exact[] = {{ALGORITHM_SLIDING_LOG, 0}, {ALGORITHM_SLIDING_BUCKETS, 0}};
    struct random random;
    (void)state;
    random_init(&random, 20);
    for (size_t i = 0; i < 2; i++) {
        struct table *table = limit_table();
        const uint64_t most = 20;
        const uint64_t least_ns = S_NS;
        struct limit limit = limit_of(&exact[i], most, least_ns);
        int64_t now_ns = START_NS;
        size_t n = 0;
        for (unsigned k = 0; k < EDITS; k++) {
            now_ns += random_between(&random, 0, (int64_t)(S_NS / 20));
            if (random_below(&random, 10) == 0)
                limit = limit_of(&exact[i], 1 + random_below(&random, most),
                                 least_ns * (1 + random_below(&random, 5)));
            const unsigned older = random_below(&random, 4) == 0 ? LIMIT_OLDER : 0;
            if (limit_do(table, KEY, &limit, OPERATION_CHECK, 1, older, now_ns).allowed)
                admitted_ns[n++] = now_ns;
        }
        assert_true(n > most);
        for (size_t k = most; k < n; k++)
            assert_true(admitted_ns[k] - admitted_ns[k - most] >= (int64_t)least_ns);
        table_check_invariants(table);
        table_free(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_denial_drains_at_the_new_rate),
        cmocka_unit_test(a_denial_keeps_the_count_for_the_new_window),
        cmocka_unit_test(a_peek_and_a_denial_by_older_rules_rewrite_nothing),
        cmocka_unit_test(older_rules_charge_at_the_rate_that_is_there),
        cmocka_unit_test(older_rules_forget_nothing_of_a_longer_window),
        cmocka_unit_test(older_rules_leave_a_state_in_order),
        cmocka_unit_test(older_rules_count_what_is_in_their_window),
        cmocka_unit_test(debt_is_at_most_one_further_new_limit),
        cmocka_unit_test(a_lowered_burst_is_owed_no_more_than_twice),
        cmocka_unit_test(a_denied_group_rewrites_all_its_limits),
        cmocka_unit_test(a_state_with_leases_out_is_rewritten),
        cmocka_unit_test(random_edits_never_admit_more_than_the_largest_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

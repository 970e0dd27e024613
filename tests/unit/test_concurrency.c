/* test_concurrency.c - leases against a plain list of who is in flight until when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_limit.h"

enum { LIST_MAX = 256, IDS = 40, CASES = EFFORT(20000), VNODE = 3 };

struct held {
    uint64_t id;
    int64_t until_ns;
    uint64_t places;
    uint64_t window_ns; /* as it was granted here; 0: it came from elsewhere */
};

/* Who is in flight, in no order. */
struct list {
    size_t count;
    struct held held[LIST_MAX];
};

static void drop_ended(struct list *list, int64_t now_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->held[i].until_ns > now_ns)
            list->held[kept++] = list->held[i];
    list->count = kept;
}

static uint64_t in_flight(const struct list *list)
{
    uint64_t places = 0;
    for (size_t i = 0; i < list->count; i++)
        places += list->held[i].places;
    return places;
}

static struct held *find(struct list *list, uint64_t id)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->held[i].id == id)
            return &list->held[i];
    return NULL;
}

static void take_out(struct list *list, struct held *held)
{
    *held = list->held[--list->count];
}

/* A lease that ends later than the time-out from now, and than the one that it was granted by here,
 * by more than clocks differ, came with a wrong clock: it ends then. */
static void bring_in(struct list *list, const struct limit *limit, int64_t now_ns)
{
    for (size_t i = 0; i < list->count; i++) {
        const uint64_t own_ns = list->held[i].window_ns;
        const uint64_t window_ns = own_ns > limit->window_ns ? own_ns : limit->window_ns;
        const int64_t most_ns = now_ns + (int64_t)window_ns;
        if (list->held[i].until_ns > most_ns + INT64_C(2000000000))
            list->held[i].until_ns = most_ns;
    }
}

static struct limit flight_limit(uint64_t count, uint64_t timeout_ns)
{
    return (struct limit){
        .count = count, .window_ns = timeout_ns, .algorithm = ALGORITHM_CONCURRENCY};
}

static struct limit_decision act(struct table *table, const struct limit *limit, uint64_t id,
                                 enum operation operation, uint64_t cost, int64_t now_ns)
{
    struct limit_decision got;
    engine_one_leased(table, limit_key(1), VNODE, limit, cost, id, operation, LIMIT_LOADED, now_ns,
                      &got);
    assert_int_equal(got.status, LIMIT_DECIDED);
    return got;
}

/* What the operation does to the list, and what it grants; -1: it is denied. */
static int64_t expected(struct list *list, const struct limit *limit, uint64_t id,
                        enum operation operation, uint64_t cost, int64_t now_ns)
{
    struct held *own = find(list, id);
    const int64_t until_ns = now_ns + (int64_t)limit->window_ns;
    const uint64_t used = in_flight(list);
    const uint64_t places = own != NULL ? own->places : 0;
    uint64_t taken = cost;
    switch (operation) {
    case OPERATION_RESET:
        list->count = 0;
        return 0;
    case OPERATION_REFUND:
        if (own != NULL && cost < places)
            own->places -= cost;
        else if (own != NULL)
            take_out(list, own);
        return 0;
    case OPERATION_RELEASE:
        if (own != NULL)
            take_out(list, own);
        return (int64_t)places;
    case OPERATION_RENEW:
        if (own != NULL && own->until_ns < until_ns) {
            own->until_ns = until_ns;
            own->window_ns = limit->window_ns;
        }
        return own != NULL ? (int64_t)places : -1;
    case OPERATION_HIT:
        if (taken > (used < 2 * limit->count ? 2 * limit->count - used : 0))
            taken = used < 2 * limit->count ? 2 * limit->count - used : 0;
        break;
    default:
        break;
    }
    if (own != NULL)
        return (int64_t)places; /* repeated */
    if (operation != OPERATION_HIT && cost > 0 && used + cost > limit->count)
        return -1;
    if (operation != OPERATION_PEEK && taken > 0)
        list->held[list->count++] = (struct held){id, until_ns, taken, limit->window_ns};
    return (int64_t)taken;
}

/* Every decision of a long random history is that of the list, through exports and changes of the
 * rule; and never are more than `count` in flight that a check admitted. */
static void agrees_with_a_list_of_who_is_in_flight(void **state)
{
    (void)state;
    static const enum operation operations[] = {
        OPERATION_CHECK,   OPERATION_CHECK,   OPERATION_CHECK, OPERATION_CHECK,  OPERATION_PEEK,
        OPERATION_RELEASE, OPERATION_RELEASE, OPERATION_RENEW, OPERATION_REFUND, OPERATION_HIT};
    static uint8_t bytes[TABLE_EXPORT_MAX];
    static struct list list;
    struct random random;
    random_init(&random, 51);
    struct table *table = limit_table();
    struct limit limit = flight_limit(10, 1000000000);
    int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    list.count = 0;
    for (unsigned n = 0; n < HISTORY; n++) {
        if (random_below(&random, 5000) == 0)
            now_ns -= random_between(&random, 0, INT64_C(3600000000000));
        now_ns += random_below(&random, 30) == 0 ? random_between(&random, -500000000, 2000000000)
                                                 : random_between(&random, 0, 60000000);
        if (random_below(&random, 1000) == 0)
            limit = flight_limit(1 + random_below(&random, 30),
                                 1000000 * (1 + random_below(&random, 3000)));
        const uint64_t id = 1 + random_below(&random, IDS);
        const uint64_t cost = random_below(&random, 10) == 0 ? random_below(&random, 40) : 1;
        const enum operation operation = random_below(&random, 300) == 0
                                             ? OPERATION_RESET
                                             : operations[random_below(&random, 10)];
        if (operation != OPERATION_PEEK)
            bring_in(&list, &limit, now_ns);
        struct list seen = list;
        drop_ended(&seen, now_ns);
        const uint64_t before = in_flight(&seen);
        const int64_t granted = expected(&seen, &limit, id, operation, cost, now_ns);
        const struct limit_decision as_is = act(table, &limit, 0, OPERATION_PEEK, 0, now_ns);
        const struct limit_decision peeked = act(table, &limit, id, OPERATION_PEEK, cost, now_ns);
        if (peeked.allowed && cost > 0) /* whoever asks for less gets it too */
            assert_true(act(table, &limit, id, OPERATION_PEEK, cost - 1, now_ns).allowed);
        const struct limit_decision got = act(table, &limit, id, operation, cost, now_ns);
        if (operation == OPERATION_CHECK)
            limit_assert_peek(&peeked, &as_is, &got);
        assert_int_equal(got.allowed, granted >= 0);
        assert_int_equal(got.granted, granted > 0 ? granted : 0);
        if (operation != OPERATION_PEEK)
            assert_int_equal(got.used, in_flight(&seen));
        if (operation == OPERATION_CHECK && got.allowed && got.used > before)
            assert_true(got.used <= limit.count);
        /* What is over is forgotten when something changes, should time go back. */
        const bool charged = in_flight(&seen) > before;
        if (operation != OPERATION_PEEK && (in_flight(&seen) != before || granted > 0))
            list = charged ? seen : (expected(&list, &limit, id, operation, cost, now_ns), list);
        if (operation == OPERATION_RESET && before == 0)
            assert_int_equal(got.used, 0);
        if (!got.allowed && operation == OPERATION_CHECK && cost <= limit.count) {
            const int64_t then_ns = now_ns + got.retry_after_ns;
            assert_true(got.retry_after_ns > 0);
            assert_true(act(table, &limit, 99, OPERATION_PEEK, cost, then_ns).allowed);
            assert_false(act(table, &limit, 99, OPERATION_PEEK, cost, then_ns - 1).allowed);
        }
        if (n % 1000 == 0 && table_lookup(table, limit_key(1)) != TABLE_NONE) {
            const uint32_t slot = table_lookup(table, limit_key(1));
            const int len = table_export(table, slot, bytes, sizeof bytes);
            assert_true(len > 0);
            table_drop(table, slot);
            assert_int_equal(table_import(table, VNODE, limit_key(1), bytes, (size_t)len, 0, 0), 0);
            for (size_t i = 0; i < list.count; i++)
                list.held[i].window_ns = 0; /* nobody knows it of what came from elsewhere */
        }
    }
    table_check_invariants(table);
    table_free(&table);
}

/* A lease that was released is gone; a second release frees nobody else's place. */
static void releasing_twice_frees_once(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = flight_limit(2, 1000000000);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    assert_true(act(table, &limit, 1, OPERATION_CHECK, 1, now_ns).allowed);
    assert_true(act(table, &limit, 2, OPERATION_CHECK, 1, now_ns).allowed);
    assert_false(act(table, &limit, 3, OPERATION_CHECK, 1, now_ns).allowed);
    assert_int_equal(act(table, &limit, 1, OPERATION_RELEASE, 0, now_ns).granted, 1);
    assert_true(act(table, &limit, 3, OPERATION_CHECK, 1, now_ns).allowed);
    assert_int_equal(act(table, &limit, 1, OPERATION_RELEASE, 0, now_ns).granted, 0);
    assert_false(act(table, &limit, 4, OPERATION_CHECK, 1, now_ns).allowed);
    assert_true(act(table, &limit, 3, OPERATION_CHECK, 1, now_ns).allowed); /* repeated */
    assert_int_equal(act(table, &limit, 0, OPERATION_PEEK, 0, now_ns).used, 2);
    /* Renewed, it outlives its time-out; not renewed, it ends by itself. */
    assert_true(act(table, &limit, 3, OPERATION_RENEW, 0, now_ns + 900000000).allowed);
    assert_int_equal(act(table, &limit, 0, OPERATION_PEEK, 0, now_ns + 1000000000).used, 1);
    assert_false(act(table, &limit, 2, OPERATION_RENEW, 0, now_ns + 1000000000).allowed);
    assert_int_equal(act(table, &limit, 0, OPERATION_PEEK, 0, now_ns + 1900000000).used, 0);
    table_free(&table);
}

/* Whoever has a place keeps it for as long as it was told, though the time-out is lowered. */
static void a_shorter_time_out_takes_no_place_away(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const int64_t minute_ns = INT64_C(60000000000);
    const struct limit before = flight_limit(2, (uint64_t)(10 * minute_ns));
    const struct limit after = flight_limit(2, (uint64_t)minute_ns);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    assert_true(act(table, &before, 1, OPERATION_CHECK, 1, now_ns).allowed);
    assert_true(act(table, &before, 2, OPERATION_CHECK, 1, now_ns).allowed);
    assert_false(act(table, &after, 3, OPERATION_CHECK, 1, now_ns + 1).allowed);
    assert_false(act(table, &after, 3, OPERATION_CHECK, 1, now_ns + 5 * minute_ns).allowed);
    assert_true(act(table, &after, 1, OPERATION_RENEW, 0, now_ns + 5 * minute_ns).allowed);
    assert_true(act(table, &after, 3, OPERATION_CHECK, 1, now_ns + 10 * minute_ns).allowed);
    table_free(&table);
}

/* Who names no lease has none to find again: each admission takes a place of its own, which nobody
 * can give back, and which ends by itself. */
static void without_a_name_each_admission_takes_a_place(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = flight_limit(2, 1000);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    assert_true(act(table, &limit, 0, OPERATION_CHECK, 1, now_ns).allowed);
    assert_int_equal(act(table, &limit, 0, OPERATION_CHECK, 1, now_ns + 1).used, 2);
    assert_false(act(table, &limit, 0, OPERATION_CHECK, 1, now_ns + 2).allowed);
    assert_int_equal(act(table, &limit, 0, OPERATION_RELEASE, 1, now_ns + 3).used, 2);
    assert_int_equal(act(table, &limit, 0, OPERATION_REFUND, 1, now_ns + 3).used, 2);
    assert_false(act(table, &limit, 0, OPERATION_RENEW, 1, now_ns + 3).allowed);
    assert_true(act(table, &limit, 0, OPERATION_CHECK, 1, now_ns + 1000).allowed);
    table_free(&table);
}

/* Counting denied requests adds none to those in flight: who was denied is not. */
static void a_denied_request_is_not_in_flight_though_it_counts(void **state)
{
    (void)state;
    struct table *table = limit_table();
    const struct limit limit = flight_limit(1, 1000);
    assert_true(act(table, &limit, 1, OPERATION_CHECK, 1, LIMIT_TEST_EPOCH_NS).allowed);
    struct limit_decision got;
    engine_one_leased(table, limit_key(1), VNODE, &limit, 1, 2, OPERATION_CHECK,
                      LIMIT_LOADED | LIMIT_COUNT_DENIED, LIMIT_TEST_EPOCH_NS, &got);
    assert_false(got.allowed);
    assert_int_equal(got.used, 1);
    assert_int_equal(act(table, &limit, 2, OPERATION_RELEASE, 1, LIMIT_TEST_EPOCH_NS).granted, 0);
    table_free(&table);
}

/* As many leases as a limit may have, and their memory is given back. */
static void the_largest_limit_fits(void **state)
{
    (void)state;
    struct table *table = limit_table();
    struct table_stats stats;
    const struct limit limit = flight_limit(LIMIT_LEASES_MAX, 1000000000);
    for (uint64_t id = 1; id <= LIMIT_LEASES_MAX; id++)
        assert_true(act(table, &limit, id, OPERATION_CHECK, 1, LIMIT_TEST_EPOCH_NS).allowed);
    assert_false(act(table, &limit, 9999, OPERATION_CHECK, 1, LIMIT_TEST_EPOCH_NS).allowed);
    for (uint64_t id = 10001; id <= 10000 + LIMIT_LEASES_MAX; id++)
        (void)act(table, &limit, id, OPERATION_HIT, 1, LIMIT_TEST_EPOCH_NS);
    assert_int_equal(act(table, &limit, 9999, OPERATION_HIT, 5, LIMIT_TEST_EPOCH_NS).used,
                     2 * LIMIT_LEASES_MAX);
    assert_true(table_export_len(table, table_lookup(table, limit_key(1))) <= TABLE_EXPORT_MAX);
    for (uint64_t id = 1; id <= LIMIT_LEASES_MAX; id++)
        (void)act(table, &limit, id, OPERATION_RELEASE, 0, LIMIT_TEST_EPOCH_NS);
    (void)act(table, &limit, 1, OPERATION_RESET, 0, LIMIT_TEST_EPOCH_NS);
    table_stats(table, &stats);
    assert_int_equal(stats.arena_bytes, 0);
    table_check_invariants(table);
    table_free(&table);
}

/* ---- merge ----------------------------------------------------------------------------------- */

struct bytes {
    uint8_t at[4096];
    size_t len;
};

static struct bytes state_of(struct table *table, uint64_t key)
{
    struct bytes bytes = {.len = 0};
    const uint32_t slot = table_lookup(table, limit_key(key));
    if (slot != TABLE_NONE) {
        const int len = table_export(table, slot, bytes.at, sizeof bytes.at);
        assert_true(len > 0);
        bytes.len = (size_t)len;
    }
    return bytes;
}

static void set_state(struct table *table, uint64_t key, const struct bytes *bytes)
{
    const uint32_t slot = table_lookup(table, limit_key(key));
    if (slot != TABLE_NONE)
        table_drop(table, slot);
    if (bytes->len > 0)
        assert_int_equal(table_import(table, VNODE, limit_key(key), bytes->at, bytes->len, 0, 0),
                         0);
}

static uint64_t in_flight_of(struct table *table, uint64_t key, int64_t now_ns)
{
    struct limit_decision got;
    const struct limit limit = flight_limit(1000, 1000000000);
    engine_one(table, limit_key(key), VNODE, &limit, 0, OPERATION_PEEK, LIMIT_LOADED, now_ns, &got);
    return got.used;
}

/* Random takes, releases and renewals of one side; `ids` are those that only it gives out. */
static void one_side(struct random *random, struct table *table, uint64_t key, uint64_t ids,
                     bool releases, int64_t *now_ns)
{
    const struct limit limit = flight_limit(1000, 1000000000);
    for (uint64_t i = random_below(random, 8); i > 0; i--) {
        struct limit_decision got;
        const bool own = random_below(random, 2) == 0;
        const enum operation operation = own                            ? OPERATION_CHECK
                                         : !releases                    ? OPERATION_RENEW
                                         : random_below(random, 2) == 0 ? OPERATION_RELEASE
                                                                        : OPERATION_RENEW;
        *now_ns += random_between(random, 0, 200000000);
        engine_one_leased(table, limit_key(key), VNODE, &limit, 1 + random_below(random, 3),
                          (own ? ids : 100) + random_below(random, 6), operation, LIMIT_LOADED,
                          *now_ns, &got);
    }
}

/* The leases of both sides, each once: never below either side, nothing twice, in any order. */
static void leases_of_two_sides_are_joined(void **state)
{
    (void)state;
    enum { BASE = 1, MINE, OTHER, ONE, TWO };
    struct random random;
    random_init(&random, 52);
    struct table *table = limit_table();
    const struct bytes none = {.len = 0};
    for (unsigned n = 0; n < CASES; n++) {
        for (uint64_t key = BASE; key <= TWO; key++)
            set_state(table, key, &none);
        int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        one_side(&random, table, BASE, 100, true, &now_ns);
        const struct bytes base = state_of(table, BASE);
        set_state(table, MINE, &base);
        set_state(table, OTHER, &base);
        const bool releases = n % 2 == 0;
        int64_t mine_ns = now_ns;
        int64_t other_ns = now_ns;
        one_side(&random, table, MINE, 200, releases, &mine_ns);
        one_side(&random, table, OTHER, 300, releases, &other_ns);
        now_ns = (mine_ns > other_ns ? mine_ns : other_ns) + 1;
        const struct bytes mine = state_of(table, MINE);
        const struct bytes other = state_of(table, OTHER);
        if (other.len == 0)
            continue;
        set_state(table, ONE, &mine);
        assert_int_equal(table_merge(table, VNODE, limit_key(ONE), base.at, base.len, other.at,
                                     other.len, now_ns),
                         0);
        const struct bytes once = state_of(table, ONE);
        assert_int_equal(table_merge(table, VNODE, limit_key(ONE), other.at, other.len, other.at,
                                     other.len, now_ns),
                         0);
        const struct bytes twice = state_of(table, ONE);
        assert_int_equal(once.len, twice.len);
        assert_memory_equal(once.at, twice.at, once.len);
        for (unsigned step = 0; step < 4; step++) {
            const int64_t then_ns = now_ns + (int64_t)step * 300000000;
            assert_true(in_flight_of(table, ONE, then_ns) >= in_flight_of(table, MINE, then_ns));
            if (!releases)
                assert_true(in_flight_of(table, ONE, then_ns) >=
                            in_flight_of(table, OTHER, then_ns));
        }
        if (releases || mine.len == 0)
            continue;
        set_state(table, TWO, &other);
        assert_int_equal(
            table_merge(table, VNODE, limit_key(TWO), base.at, base.len, mine.at, mine.len, now_ns),
            0);
        assert_int_equal(in_flight_of(table, ONE, now_ns), in_flight_of(table, TWO, now_ns));
    }
    table_check_invariants(table);
    table_free(&table);
}

/* A lease that this side has released since the base, though the other side still has it, stays
 * released, be it the last one; what the other has taken meanwhile is in flight. Seen from the
 * other side it stays until it ends by itself: too much rather than too little. */
static void what_this_side_has_released_stays_released(void **state)
{
    (void)state;
    enum { BASE = 1, MINE, OTHER };
    const struct limit limit = flight_limit(1000, 1000000000);
    const int64_t now_ns = LIMIT_TEST_EPOCH_NS;
    for (uint64_t leases = 1; leases <= 2; leases++) {
        struct table *table = limit_table();
        struct limit_decision got;
        for (uint64_t id = 1; id <= leases; id++)
            engine_one_leased(table, limit_key(BASE), VNODE, &limit, 1, id, OPERATION_CHECK,
                              LIMIT_LOADED, now_ns, &got);
        const struct bytes base = state_of(table, BASE);
        set_state(table, MINE, &base);
        set_state(table, OTHER, &base);
        engine_one_leased(table, limit_key(MINE), VNODE, &limit, 1, 1, OPERATION_RELEASE,
                          LIMIT_LOADED, now_ns, &got);
        engine_one_leased(table, limit_key(OTHER), VNODE, &limit, 1, 9, OPERATION_CHECK,
                          LIMIT_LOADED, now_ns, &got);
        const struct bytes mine = state_of(table, MINE);
        const struct bytes other = state_of(table, OTHER);
        assert_int_equal(table_merge(table, VNODE, limit_key(MINE), base.at, base.len, other.at,
                                     other.len, now_ns + 1),
                         0);
        assert_int_equal(in_flight_of(table, MINE, now_ns + 1), leases);
        if (mine.len > 0)
            assert_int_equal(table_merge(table, VNODE, limit_key(OTHER), base.at, base.len, mine.at,
                                         mine.len, now_ns + 1),
                             0);
        assert_int_equal(in_flight_of(table, OTHER, now_ns + 1), leases + 1);
        assert_int_equal(in_flight_of(table, OTHER, now_ns + 1000000001), 0);
        table_free(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_list_of_who_is_in_flight),
        cmocka_unit_test(releasing_twice_frees_once),
        cmocka_unit_test(a_shorter_time_out_takes_no_place_away),
        cmocka_unit_test(without_a_name_each_admission_takes_a_place),
        cmocka_unit_test(a_denied_request_is_not_in_flight_though_it_counts),
        cmocka_unit_test(the_largest_limit_fits),
        cmocka_unit_test(leases_of_two_sides_are_joined),
        cmocka_unit_test(what_this_side_has_released_stays_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_denial.c - denials that are remembered: for what they were told, and no longer. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/lib/cache/denial.h"

enum { MS = 1000000, READERS = 3, WRITES = 30000, FINDS = 10000 };
static const int64_t start_ns = 5000000000;
static const tg_limit_t limit = {.count = 5, .window_ns = 60000000000};

static struct client_tag_key key;
static struct client_denial_table table;

static int set_up(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 29);
    for (size_t i = 0; i < sizeof key.word / sizeof key.word[0]; i++)
        key.word[i] = random_next(&random);
    return client_denial_init(&table, alloc_heap());
}

static int tear_down(void **state)
{
    (void)state;
    client_denial_fini(&table);
    return 0;
}

static struct client_tag tag_of(const char *name)
{
    const tg_request_t request = tg_request_inline(name, &limit);
    struct client_tag tag;

    assert_true(client_tag_of(&key, &request, &tag));
    return tag;
}

static void put(const char *name, uint64_t cost, int64_t retry_ms, int64_t asked_ns, int64_t now_ns)
{
    const struct client_tag tag = tag_of(name);
    const tg_decision_t decision = {.outcome = TG_DENY,
                                    .status = 429,
                                    .rule = "rule",
                                    .limit = 5,
                                    .used = 5,
                                    .reset_after_ms = 900,
                                    .lease_id = UINT64_MAX, /* which no node has to say of one */
                                    .lease_ms = 1000,
                                    .retry_after_ms = retry_ms};

    client_denial_put(&table, &tag, cost, &decision, asked_ns, now_ns);
}

static bool denied(const char *name, uint64_t cost, int64_t now_ns)
{
    const struct client_tag tag = tag_of(name);
    tg_decision_t decision;

    return client_denial_find(&table, &tag, cost, now_ns, &decision);
}

/* Until the time that was told, less the millisecond to which it was rounded, from when it was
 * asked: then it may be otherwise. */
static void a_denial_holds_until_it_can_change(void **state)
{
    const struct client_tag tag = tag_of("k");
    tg_decision_t decision;

    (void)state;
    assert_false(client_denial_any(&table));
    put("k", 1, 100, start_ns, start_ns + 10 * MS);
    assert_true(client_denial_any(&table));
    assert_true(denied("k", 1, start_ns + 99 * MS - 1));
    assert_false(denied("k", 1, start_ns + 99 * MS));
    assert_false(denied("other", 1, start_ns + 11 * MS));
    assert_true(client_denial_find(&table, &tag, 1, start_ns + 50 * MS, &decision));
    assert_int_equal(decision.outcome, TG_DENY);
    assert_int_equal(decision.allowed, 0);
    assert_int_equal(decision.status, 429);
    assert_string_equal(decision.rule, "rule");
    assert_int_equal(decision.lease_id, 0);
    assert_int_equal(decision.lease_ms, 0);
    assert_int_equal(decision.retry_after_ms, 60);
    assert_int_equal(decision.reset_after_ms, 860);
    client_denial_tick(&table, start_ns + 98 * MS);
    assert_true(client_denial_any(&table));
    client_denial_tick(&table, start_ns + 99 * MS);
    assert_false(client_denial_any(&table));
}

/* Whatever was told, a second later it is asked again. */
static void a_denial_holds_for_a_second_at_most(void **state)
{
    (void)state;
    put("long", 1, 3600000, start_ns, start_ns);
    put("never", 1, -1, start_ns, start_ns);
    assert_true(denied("long", 1, start_ns + 999 * MS));
    assert_true(denied("never", 1, start_ns + 999 * MS));
    assert_false(denied("long", 1, start_ns + 1000 * MS));
    assert_false(denied("never", 1, start_ns + 1000 * MS));
}

/* Who asks for less may get it; who asks for more may have to wait for longer, unless even less
 * than that never succeeds. */
static void another_cost_is_asked_for(void **state)
{
    (void)state;
    put("k", 5, 100, start_ns, start_ns);
    assert_false(denied("k", 4, start_ns + MS));
    assert_true(denied("k", 5, start_ns + MS));
    assert_false(denied("k", 6, start_ns + MS));
    put("n", 5, -1, start_ns, start_ns);
    assert_false(denied("n", 4, start_ns + MS));
    assert_true(denied("n", 5, start_ns + MS));
    assert_true(denied("n", 500, start_ns + MS));
    put("k", 2, 50, start_ns, start_ns + MS); /* that says more */
    assert_true(denied("k", 2, start_ns + 2 * MS));
    put("k", 9, 100, start_ns, start_ns + MS); /* and this less */
    assert_true(denied("k", 2, start_ns + 2 * MS));
    assert_false(denied("k", 9, start_ns + 49 * MS));
    put("k", 9, 100, start_ns, start_ns + 49 * MS); /* it has lapsed: this is all there is */
    assert_true(denied("k", 9, start_ns + 50 * MS));
}

/* What was given back counts at once, also against denials that were under way. */
static void what_is_given_back_forgets_all(void **state)
{
    (void)state;
    put("k", 1, 100, start_ns, start_ns);
    client_denial_forget(&table, start_ns + 10 * MS);
    assert_false(client_denial_any(&table));
    assert_false(denied("k", 1, start_ns + 11 * MS));
    put("k", 1, 100, start_ns + 9 * MS, start_ns + 12 * MS);
    assert_false(denied("k", 1, start_ns + 13 * MS));
    put("k", 1, 100, start_ns + 11 * MS, start_ns + 12 * MS);
    assert_true(denied("k", 1, start_ns + 13 * MS));
}

/* The table is bounded: with more keys than places those that end first are lost, and no other key
 * is ever called denied. */
static void of_too_many_the_shortest_are_forgotten(void **state)
{
    char name[32];
    int remembered = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof name, "key %d", i);
        put(name, 1, i % 2 == 0 ? 500 : 50, start_ns, start_ns);
    }
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof name, "key %d", i);
        const bool is_denied = denied(name, 1, start_ns + MS);

        remembered += is_denied;
        assert_true(!is_denied || i % 2 == 0 || i >= 1000);
    }
    assert_in_range(remembered, CLIENT_DENIALS_MAX / 2, CLIENT_DENIALS_MAX);
    assert_false(denied("nobody", 1, start_ns + MS));
}

/* What is being written at this moment is not read, though nothing else says so. */
static void a_denial_that_is_being_written_is_not_read(void **state)
{
    (void)state;
    put("k", 1, 500, start_ns, start_ns);
    assert_true(denied("k", 1, start_ns));
    for (int i = 0; i < CLIENT_DENIALS_MAX; i++)
        (void)atomic_fetch_add(&table.denials[i].version, 1);
    assert_false(denied("k", 1, start_ns));
}

/* Every allocation may fail, and leaves nothing behind. */
static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    struct client_denial_table other;
    struct alloc_failing failing;

    (void)state;
    for (size_t at = 1; at <= 2; at++) {
        alloc_failing_init(&failing, at);
        assert_int_equal(client_denial_init(&other, &failing.allocator), TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

struct reader {
    pthread_t thread;
    struct client_tag tags[2];
    atomic_bool *stop;
    atomic_uint *found; /* by all */
    uint64_t mixed;
};

static void *look_all_the_time(void *argument)
{
    struct reader *reader = argument;
    tg_decision_t decision;

    for (uint64_t i = 0; !atomic_load(reader->stop); i++) {
        if (!client_denial_find(&table, &reader->tags[i % 2], 1, start_ns, &decision))
            continue;
        (void)atomic_fetch_add(reader->found, 1);
        reader->mixed += decision.limit % 2 != i % 2 || decision.used != decision.limit ||
                         decision.remaining != decision.limit;
    }
    return NULL;
}

/* While one place is written over for two keys, again and again, readers find a whole denial of
 * their key, or none. */
static void readers_find_a_whole_denial_of_their_key(void **state)
{
    static struct reader readers[READERS];
    struct client_tag tags[2] = {tag_of("a"), tag_of("b")};
    atomic_bool stop = false;
    atomic_uint found = 0;

    (void)state;
    tags[1].place = tags[0].place;
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.tags = {tags[0], tags[1]}, .stop = &stop, .found = &found};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, look_all_the_time, &readers[i]),
                         0);
    }
    for (uint64_t i = 0; i < WRITES || atomic_load(&found) < FINDS; i++) {
        tg_decision_t decision = {.limit = i, .used = i, .remaining = i, .retry_after_ms = 500};
        struct client_denial *denial;

        client_denial_put(&table, &tags[i % 2], 1, &decision, start_ns, start_ns);
        /* The other key is to meet this very place: the next one's denial ends first. */
        denial = &table.denials[(tags[0].place & (CLIENT_DENIAL_SETS - 1)) * CLIENT_DENIAL_WAYS];
        for (int way = 0; way < CLIENT_DENIAL_WAYS; way++)
            atomic_store(&denial[way].until_ns, way == 0 ? start_ns + MS : INT64_MAX);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_int_equal(readers[i].mixed, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_denial_holds_until_it_can_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_denial_holds_for_a_second_at_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_cost_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_back_forgets_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_too_many_the_shortest_are_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_denial_that_is_being_written_is_not_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(running_out_of_memory_leaves_nothing_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(readers_find_a_whole_denial_of_their_key, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_hold.c - tokens held of hot keys: what is taken is what a release says was used, whoever
 * takes, whenever the block ends; and when the keeper asks, waits and gives back. */
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
#include "client/lib/cache/hold.h"

enum { MS = 1000000, THREADS = 3, ROUNDS = 20000, TAKES = 1000 };
static const int64_t start_ns = 5000000000;
static const tg_limit_t limit = {.count = 1000, .window_ns = 1000000000};

static struct client_tag_key key;
static struct client_hold_table table;

static int set_up(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 17);
    for (size_t i = 0; i < sizeof key.word / sizeof key.word[0]; i++)
        key.word[i] = random_next(&random);
    return client_hold_init(&table, alloc_heap());
}

static int tear_down(void **state)
{
    (void)state;
    client_hold_check_invariants(&table);
    client_hold_fini(&table);
    return 0;
}

static struct client_tag tag_of(const char *name)
{
    const tg_request_t request = tg_request_inline(name, &limit);
    struct client_tag tag;

    assert_true(client_tag_of(&key, &request, &tag));
    return tag;
}

static struct client_hold *claim(const char *name)
{
    const tg_request_t request = tg_request_inline(name, &limit);
    const struct client_tag tag = tag_of(name);

    return client_hold_claim(&table, &tag, &request);
}

/* A grant as a node tells it: `used` and `remaining` count what is out. */
static void grant(struct client_hold *hold, uint64_t lease, uint64_t tokens, int64_t now_ns)
{
    const tg_decision_t decision = {.allowed = 1,
                                    .status = 200,
                                    .rule = "rule",
                                    .limit = 1000,
                                    .used = 200 + tokens,
                                    .remaining = 800 - tokens,
                                    .granted = tokens,
                                    .reset_after_ms = 400,
                                    .lease_id = lease};

    client_hold_granted(hold, lease, 1000, &decision, now_ns);
}

static struct client_hold *hold_of(const char *name, uint64_t lease, uint64_t tokens)
{
    struct client_hold *hold = claim(name);

    assert_non_null(hold);
    assert_true(client_hold_ask_first(hold, tokens, start_ns) > 0);
    grant(hold, lease, tokens, start_ns + MS);
    return hold;
}

static bool take(const char *name, uint32_t cost, tg_decision_t *decision,
                 struct client_hold_taken *taken)
{
    const struct client_tag tag = tag_of(name);

    return client_hold_take(&table, &tag, cost, decision, taken);
}

static struct client_hold_step step(struct client_hold *hold, int64_t now_ns)
{
    struct client_hold_step out;

    client_hold_step(hold, now_ns, &out);
    return out;
}

/* A take says what the grant said, less what was taken: used and remaining add up to the limit. */
static void a_take_counts_on_from_the_grant(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;

    (void)state;
    assert_non_null(hold_of("k", 7, 100));
    assert_true(take("k", 3, &decision, &taken));
    assert_int_equal(decision.allowed, 1);
    assert_string_equal(decision.rule, "rule");
    assert_int_equal(decision.granted, 3);
    assert_int_equal(decision.used, 203);
    assert_int_equal(decision.remaining, 797);
    assert_int_equal(decision.limit, 1000);
    assert_int_equal(taken.told_ns, start_ns + MS);
    client_hold_finish(&decision, taken.told_ns, start_ns + 101 * MS);
    assert_int_equal(decision.reset_after_ms, 300);
    assert_true(take("k", 1, &decision, &taken));
    assert_int_equal(decision.used, 204);
    assert_false(take("other", 1, &decision, &taken));
}

/* What is given back is there again, of the block from which it was taken; and of no other one: of
 * one that has ended it is spent, for its release has said so. */
static void what_is_given_back_goes_where_it_came_from(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t first;
    tg_decision_t decision;
    struct client_hold_step now;
    struct client_hold *hold = hold_of("k", 7, 20);

    (void)state;
    assert_true(take("k", 15, &first, &taken));
    client_hold_return(&table, first.lease_id, 15);
    assert_true(take("k", 10, &first, &taken));
    assert_true(take("k", 9, &decision, &taken));
    assert_false(take("k", 2, &decision, &taken));
    assert_true(step(hold, start_ns + 100 * MS).ask > 0);
    grant(hold, 8, 50, start_ns + 101 * MS);
    client_hold_return(&table, first.lease_id, 4);
    now = step(hold, start_ns + 101 * MS);
    assert_int_equal(now.release_count, 1);
    assert_int_equal(now.releases[0].lease, 7);
    assert_int_equal(now.releases[0].used, 15);
    client_hold_return(&table, first.lease_id, 6); /* it has ended */
    assert_true(take("k", 15, &decision, &taken));
    assert_true(take("k", 15, &decision, &taken));
    assert_true(take("k", 10, &decision, &taken));
    assert_true(step(hold, start_ns + 400 * MS).ask > 0);
    grant(hold, 9, 3, start_ns + 401 * MS); /* in its place */
    client_hold_return(&table, first.lease_id, 6);
    now = step(hold, start_ns + 401 * MS);
    assert_int_equal(now.releases[0].used, 40);
    assert_true(take("k", 3, &decision, &taken));
    assert_false(take("k", 1, &decision, &taken));
}

/* A lease of a second that was asked for at t ends for its holder 16.625 ms before t + 1 s. */
static void a_lease_ends_before_its_decider_thinks_so(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;

    (void)state;
    assert_non_null(hold_of("k", 7, 100));
    assert_true(take("k", 1, &decision, &taken));
    assert_int_equal(taken.until_ns, start_ns + 1000 * MS - 1000 * MS / 64 - MS);
}

/* Not a token more than were granted can be taken, and a cost that does not fit takes nothing. */
static void no_more_is_taken_than_there_is(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold_step now;
    struct client_hold *hold = hold_of("k", 7, 20);

    (void)state;
    assert_true(take("k", 15, &decision, &taken));
    assert_false(take("k", 6, &decision, &taken));
    assert_true(take("k", 5, &decision, &taken));
    assert_false(take("k", 1, &decision, &taken));
    hold->quiet_ns = INT64_MAX;
    now = step(hold, start_ns + 2 * MS);
    assert_int_equal(now.release_count, 1);
    assert_int_equal(now.releases[0].lease, 7);
    assert_int_equal(now.releases[0].used, 20);
    assert_true(now.over);
    client_hold_drop(&table, hold);
}

/* Who takes the last of the first half says so, once; so does who takes the last of all. */
static void the_keeper_is_told_at_half_and_at_the_end(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold *hold = hold_of("k", 7, 40);

    (void)state;
    assert_null(client_hold_due(&table));
    for (int i = 1; i <= 40; i++) {
        assert_true(take("k", 1, &decision, &taken));
        assert_int_equal(taken.due, i == 20 || i == 40);
        assert_ptr_equal(client_hold_due(&table), taken.due ? hold : NULL);
        assert_null(client_hold_due(&table));
    }
}

/* At half of its tokens the next lease is asked for, sized by the pace; when it is there the old
 * one is released, and nobody was without tokens meanwhile. */
static void the_next_lease_comes_before_the_old_one_goes(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold_step now;
    struct client_hold *hold = hold_of("k", 7, 100);

    (void)state;
    for (int i = 0; i < 50; i++)
        assert_true(take("k", 1, &decision, &taken));
    now = step(hold, start_ns + 101 * MS); /* 50 in 100 ms: 100 in 200 ms */
    assert_int_equal(now.ask, 250);
    assert_int_equal(now.release_count, 0);
    assert_false(now.over);
    assert_int_equal(step(hold, start_ns + 102 * MS).ask, 0); /* it is asked already */
    assert_true(take("k", 1, &decision, &taken));
    grant(hold, 8, 250, start_ns + 103 * MS);
    assert_true(take("k", 2, &decision, &taken));
    assert_int_equal(decision.used, 202); /* of the new one */
    now = step(hold, start_ns + 103 * MS);
    assert_int_equal(now.release_count, 1);
    assert_int_equal(now.releases[0].lease, 7);
    assert_int_equal(now.releases[0].used, 51);
    assert_true(take("k", 1, &decision, &taken));
    assert_int_equal(decision.used, 203);
    assert_int_equal(taken.until_ns, start_ns + 101 * MS + 1000 * MS - 1000 * MS / 64 - MS);
}

/* A lease grows fourfold at most, whatever the pace. */
static void a_lease_grows_step_by_step(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold *hold = hold_of("k", 7, 64);

    (void)state;
    for (int i = 0; i < 64; i++)
        assert_true(take("k", 1, &decision, &taken));
    assert_int_equal(step(hold, start_ns + 2 * MS).ask, 256);
}

/* A key that is hot at half of its time is leased anew; one that is not gives everything back. */
static void half_of_the_time_is_the_time_to_look(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold_step now;
    struct client_hold *hot = hold_of("hot", 7, 1000);
    struct client_hold *cold = hold_of("cold", 9, 1000);

    (void)state;
    for (int i = 0; i < 400; i++)
        assert_true(take("hot", 1, &decision, &taken));
    for (int i = 0; i < 10; i++)
        assert_true(take("cold", 1, &decision, &taken));
    now = step(hot, start_ns + 499 * MS);
    assert_int_equal(now.ask, 0);
    assert_int_equal(now.next_ns, start_ns + 500 * MS);
    assert_int_equal(step(cold, start_ns + 499 * MS).release_count, 0);
    now = step(hot, start_ns + 501 * MS); /* 400 in 500 ms: 160 in 200 ms */
    assert_int_equal(now.ask, 400);
    assert_int_equal(now.release_count, 0);
    now = step(cold, start_ns + 501 * MS);
    assert_int_equal(now.ask, 0);
    assert_int_equal(now.release_count, 1);
    assert_int_equal(now.releases[0].used, 10);
    assert_true(now.over);
}

/* What nobody renewed is taken out at its end, with what was used of it. */
static void at_its_end_a_lease_is_given_back(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold_step now;
    struct client_hold *hold = hold_of("k", 7, 1000);
    int64_t end_ns;

    (void)state;
    for (int i = 0; i < 400; i++)
        assert_true(take("k", 1, &decision, &taken));
    end_ns = taken.until_ns;
    client_hold_refused(hold, INT64_MAX, false);
    now = step(hold, end_ns - 1);
    assert_int_equal(now.release_count, 0);
    assert_int_equal(now.next_ns, end_ns);
    now = step(hold, end_ns);
    assert_int_equal(now.release_count, 1);
    assert_int_equal(now.releases[0].used, 400);
    assert_false(take("k", 1, &decision, &taken));
}

/* After a refusal nothing is asked for until its time; what is held serves on. With `end`, as of a
 * blocked user, what is held goes at once. */
static void a_refusal_is_heeded(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold_step now;
    struct client_hold *hold = hold_of("k", 7, 100);

    (void)state;
    for (int i = 0; i < 60; i++)
        assert_true(take("k", 1, &decision, &taken));
    assert_true(step(hold, start_ns + 50 * MS).ask > 0);
    client_hold_refused(hold, start_ns + 80 * MS, false);
    now = step(hold, start_ns + 60 * MS);
    assert_int_equal(now.ask, 0);
    assert_int_equal(now.next_ns, start_ns + 80 * MS);
    assert_true(take("k", 1, &decision, &taken));
    assert_true(step(hold, start_ns + 80 * MS).ask > 0);
    client_hold_refused(hold, 0, true);
    now = step(hold, start_ns + 81 * MS);
    assert_int_equal(now.release_count, 1);
    assert_int_equal(now.releases[0].used, 61);
    assert_true(now.over);
    assert_false(take("k", 1, &decision, &taken));
}

/* Who gets an eighth of what was asked does not ask for more for 200 ms. */
static void a_meagre_grant_is_not_asked_for_again_soon(void **state)
{
    struct client_hold_taken taken;
    tg_decision_t decision;
    struct client_hold *hold = claim("k");

    (void)state;
    assert_int_equal(client_hold_ask_first(hold, 1000, start_ns), 2501);
    grant(hold, 7, 100, start_ns + MS);
    for (int i = 0; i < 60; i++)
        assert_true(take("k", 1, &decision, &taken));
    assert_int_equal(step(hold, start_ns + 100 * MS).ask, 0);
    assert_true(step(hold, start_ns + 201 * MS).ask > 0);
}

/* Two leases of one size in one place are told apart by the state alone: a taker who read it of the
 * first, and was held up, does not take of the second with the first one's decision. */
static void a_state_never_comes_again(void **state)
{
    struct client_hold_release releases[2];
    uint64_t seen[6];

    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        struct client_hold *hold = hold_of("k", 7 + i, 100);

        seen[i] = hold->blocks[hold->current].state;
        for (uint64_t k = i % 2; k < i; k += 2) /* they take turns */
            assert_int_not_equal(seen[k], seen[i]);
        assert_int_equal(client_hold_end(hold, releases), 1);
        client_hold_drop(&table, hold);
    }
}

/* A hold keeps a copy of what was asked, for the caller's memory is the caller's. */
static void the_request_is_kept(void **state)
{
    char name[] = "user";
    char value[] = "ada\0?";
    tg_attribute_t attributes[] = {{name, value, 5}, {"api", "/x", TG_STRLEN}};
    const tg_request_t request = tg_request(attributes, 2);
    struct client_hold *hold;
    struct client_tag again;
    struct client_tag tag;

    (void)state;
    assert_true(client_tag_of(&key, &request, &tag));
    hold = client_hold_claim(&table, &tag, &request);
    assert_non_null(hold);
    memset(name, 'x', 4);
    memset(value, 'x', 5);
    memset(attributes, 0, sizeof attributes);
    assert_true(client_tag_of(&key, &hold->request, &again));
    assert_memory_equal(tag.word, again.word, sizeof tag.word);
    assert_ptr_equal(client_hold_find(&table, &tag), hold);
}

/* The table is bounded, a hold that is over makes room, and one that something is on its way about
 * does not. */
static void a_full_table_has_no_room_until_a_hold_is_over(void **state)
{
    struct client_hold *last = NULL;
    uint32_t claimed = 0;
    char name[32];
    struct client_tag tag;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof name, "key %d", i);
        struct client_hold *hold = claim(name);

        claimed += hold != NULL;
        last = hold != NULL ? hold : last;
    }
    assert_int_equal(claimed, CLIENT_HOLDS_MAX);
    assert_int_equal(table.count, CLIENT_HOLDS_MAX);
    tag = last->tag;
    last->calls = 1;
    client_hold_drop(&table, last);
    assert_null(client_hold_find(&table, &tag));
    assert_null(client_hold_claim(&table, &tag, &last->request));
    last->calls = 0;
    assert_ptr_equal(client_hold_claim(&table, &tag, &last->request), last);
}

/* Every allocation may fail, and leaves nothing behind. */
static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    struct client_hold_table other;
    struct alloc_failing failing;

    (void)state;
    for (size_t at = 1; at <= 2; at++) {
        alloc_failing_init(&failing, at);
        assert_int_equal(client_hold_init(&other, &failing.allocator), TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

/* ---- threads ----------------------------------------------------------------------------- */

struct taker {
    pthread_t thread;
    struct client_tag tags[2];
    atomic_bool *stop;
    atomic_uint *takes; /* of all, that succeeded */
    uint64_t taken[2];  /* tokens of each key */
    uint64_t mixed;     /* decisions that are another key's */
};

static void *take_all_the_time(void *argument)
{
    struct taker *taker = argument;
    struct client_hold_taken taken;
    tg_decision_t decision;

    for (uint32_t i = 0; !atomic_load(taker->stop); i++) {
        const int which = i % 2 != 0;
        const uint32_t cost = 1 + i % 3;

        if (!client_hold_take(&table, &taker->tags[which], cost, &decision, &taken))
            continue;
        taker->taken[which] += cost;
        (void)atomic_fetch_add(taker->takes, 1);
        taker->mixed += decision.limit != (uint64_t)(1000 + which) ||
                        taken.until_ns - taken.told_ns != decision.reset_after_ms;
    }
    return NULL;
}

static void grant_of(struct client_hold *hold, int which, uint64_t lease, int64_t now_ns)
{
    const int64_t lasts_ms = 100 + (int64_t)(lease % 7);
    const tg_decision_t decision = {
        .allowed = 1,
        .limit = 1000 + (uint64_t)which,
        .granted = 50 + lease % 50,
        .reset_after_ms = lasts_ms * MS - lasts_ms * MS / 64 - MS, /* to be told apart by */
    };

    client_hold_granted(hold, lease, lasts_ms, &decision, now_ns);
}

/* One key has the hold, is granted leases and loses it to the other, thousands of times, while
 * threads take of both: what all releases say was used of a key is what was taken of it, to the
 * token, and no decision is another key's. */
static void threads_take_exactly_what_releases_say_was_used(void **state)
{
    static struct taker takers[THREADS];
    struct client_hold_release releases[2];
    tg_request_t requests[2];
    struct client_tag tags[2];
    uint64_t used[2] = {0, 0};
    uint64_t lease = 0;
    atomic_bool stop = false;
    atomic_uint takes = 0;

    (void)state;
    requests[0] = tg_request_inline("a", &limit);
    requests[1] = tg_request_inline("b", &limit);
    for (int i = 0; i < 2; i++)
        assert_true(client_tag_of(&key, &requests[i], &tags[i]));
    tags[1].place = tags[0].place; /* they share a hold; words tell them apart */
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){.tags = {tags[0], tags[1]}, .stop = &stop, .takes = &takes};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_all_the_time, &takers[i]), 0);
    }
    for (int64_t round = 0; round < ROUNDS || atomic_load(&takes) < TAKES; round++) {
        const int which = (int)(round & 1);
        struct client_hold *hold = client_hold_claim(&table, &tags[which], &requests[which]);
        uint32_t count;

        assert_non_null(hold);
        for (int i = 0; i < 2; i++) {
            (void)client_hold_ask_first(hold, 100, round * MS);
            grant_of(hold, which, ++lease, round * MS);
        }
        count = client_hold_end(hold, releases);
        assert_int_equal(count, 2);
        used[which] += releases[0].used + releases[1].used;
        client_hold_drop(&table, hold);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
        assert_int_equal(takers[i].mixed, 0);
        used[0] -= takers[i].taken[0];
        used[1] -= takers[i].taken[1];
    }
    assert_int_equal(used[0], 0);
    assert_int_equal(used[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_take_counts_on_from_the_grant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_given_back_goes_where_it_came_from, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lease_ends_before_its_decider_thinks_so, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_more_is_taken_than_there_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_keeper_is_told_at_half_and_at_the_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_next_lease_comes_before_the_old_one_goes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lease_grows_step_by_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_of_the_time_is_the_time_to_look, set_up, tear_down),
        cmocka_unit_test_setup_teardown(at_its_end_a_lease_is_given_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_is_heeded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_meagre_grant_is_not_asked_for_again_soon, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_state_never_comes_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_request_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_table_has_no_room_until_a_hold_is_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(running_out_of_memory_leaves_nothing_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(threads_take_exactly_what_releases_say_was_used, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

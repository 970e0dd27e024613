/* test_voters.c - who votes on the ring configuration; voters.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

/* Starts a node of `id` in `zone`, which seeds `seed`, or nobody if it is the first. */
static uint32_t join(struct net *net, uint64_t id, const char *zone)
{
    char name[8];
    (void)snprintf(name, sizeof name, "n%u", (unsigned)id);
    struct control_options options = net_options(net, id, name);
    (void)snprintf(options.zone, sizeof options.zone, "%s", zone);
    if (net->count > 0)
        net_seed(&options, 0);
    return net_start(net, &options);
}

/* One voter cannot be missed, so as soon as there are three members, there are three voters. */
static void voters_grow_with_the_ring(void **state)
{
    static const uint32_t expected[] = {0, 1, 1, 3, 3, 5, 5};
    struct net *net = net_new();
    (void)state;
    for (uint64_t id = 1; id <= 6; id++) {
        (void)join(net, id, "z");
        net_run(net, 5 * NET_SECOND);
        for (uint32_t i = 0; i < net->count; i++) {
            assert_true(net_has_ring(net, i, (1U << id) - 1));
            assert_int_equal(net_config(net, i)->voters_count, expected[id]);
        }
    }
    net_free(net);
}

/* A zone that fails as a whole may not take the majority with it, if that can be helped. */
static void voters_are_in_distinct_zones_where_there_are_enough(void **state)
{
    struct net *net = net_new();
    (void)state;
    (void)join(net, 1, "a");
    (void)join(net, 2, "a");
    (void)join(net, 3, "b");
    net_run(net, 10 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    (void)join(net, 4, "c");
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 15));
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    assert_true(net_votes(net, 0, 1) != net_votes(net, 0, 2));
    assert_true(net_votes(net, 0, 3) && net_votes(net, 0, 4));
    const uint64_t epoch = net_config(net, 0)->epoch;
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, epoch); /* VOTERS-1: it stays */
    net_free(net);
}

/* A minute of death is a restart that failed: one more such loss, and the majority is gone. */
static void a_voter_dead_for_a_minute_is_replaced_and_stays_a_member(void **state)
{
    struct net *net = net_cluster(4);
    (void)state;
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    uint32_t victim = 0;
    while (!net_votes(net, 0, victim + 1) || victim == 0)
        victim++;
    uint64_t fourth = 1;
    while (net_votes(net, 0, fourth))
        fourth++;
    net_stop(net, victim);
    net->step_ns = 50 * NET_MS;
    net_run(net, 50 * NET_SECOND);
    assert_true(net_votes(net, 0, victim + 1));
    net_run(net, 60 * NET_SECOND);
    assert_false(net_votes(net, 0, victim + 1));
    assert_true(net_votes(net, 0, fourth));
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    assert_true(net_has_ring(net, 0, 15));
    net_free(net);
}

/* With nobody to take its place, a dead voter stays: fewer voters would be no better. */
static void a_dead_voter_without_a_living_replacement_stays(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 2);
    net->step_ns = 50 * NET_MS;
    net_run(net, 200 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    assert_true(net_votes(net, 0, 3));
    assert_false(voters_frozen(net->nodes[0].control));
    net_free(net);
}

/* Frozen is what an operator must be told, and what keeps a minority from trying. */
static void the_ring_is_frozen_without_a_majority_of_voters(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 1);
    net_stop(net, 2);
    net->step_ns = 50 * NET_MS;
    net_run(net, 60 * NET_SECOND);
    assert_true(voters_frozen(net->nodes[0].control));
    const uint32_t asked = net->asked[REGISTER_PREPARE];
    net_run(net, 700 * NET_SECOND);
    assert_int_equal(net->asked[REGISTER_PREPARE], asked);
    assert_true(net_has_ring(net, 0, 7));
    net_restart(net, 1);
    net_run(net, 60 * NET_SECOND);
    assert_false(voters_frozen(net->nodes[0].control));
    net_free(net);
}

/* VOTERS-2: of two voters both would be needed, so one of two that are left goes on alone. */
static void the_number_of_living_voters_is_odd_as_well(void **state)
{
    struct net *net = net_cluster(5);
    uint64_t voters[RING_VOTERS_MAX];
    (void)state;
    assert_int_equal(net_config(net, 0)->voters_count, 5);
    for (uint32_t at = 2; at < 5; at++)
        net_stop(net, at);
    net->step_ns = 50 * NET_MS;
    net_run(net, 60 * NET_SECOND);
    const uint32_t count = voters_choose_living(net->nodes[0].control, 0, voters);
    assert_int_equal(count, 1);
    assert_true(voters[0] == 1 || voters[0] == 2);
    net_free(net);
}

/* When there are too many, one that is dead goes before one that lives, whoever is the newest. */
static void of_too_many_voters_a_dead_one_goes_first(void **state)
{
    struct net *net = net_cluster(5);
    uint64_t voters[RING_VOTERS_MAX];
    (void)state;
    net_stop(net, 1);
    net->step_ns = 50 * NET_MS;
    net_run(net, 40 * NET_SECOND); /* dead, and not for so long that it is replaced */
    assert_false(control_alive(net->nodes[0].control, 2));
    const uint32_t count = voters_choose(net->nodes[0].control, 5, voters); /* four are left */
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++)
        assert_true(voters[i] != 2 && voters[i] != 5);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(voters_grow_with_the_ring),
        cmocka_unit_test(voters_are_in_distinct_zones_where_there_are_enough),
        cmocka_unit_test(a_voter_dead_for_a_minute_is_replaced_and_stays_a_member),
        cmocka_unit_test(a_dead_voter_without_a_living_replacement_stays),
        cmocka_unit_test(the_ring_is_frozen_without_a_majority_of_voters),
        cmocka_unit_test(the_number_of_living_voters_is_odd_as_well),
        cmocka_unit_test(of_too_many_voters_a_dead_one_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

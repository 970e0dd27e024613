/* test_propose.c - who proposes the next ring configuration, and which; propose.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/swim.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_record.h"
#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

/* Starts the next node, which seeds node 0. */
static uint32_t join(struct net *net, uint64_t id, const char *name)
{
    struct control_options options = net_options(net, id, name);
    net_seed(&options, 0);
    return net_start(net, &options);
}

/* Two proposers could make two different configurations of one epoch. */
static void only_the_lowest_living_member_proposes(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 0);
    net->step_ns = 50 * NET_MS;
    net_run(net, 40 * NET_SECOND);
    assert_false(control_alive(net->nodes[1].control, 1));
    struct control_options options = net_options(net, 4, "n4");
    net_seed(&options, 2);
    (void)net_start(net, &options);
    uint32_t by_second = 0;
    for (uint32_t step = 0; step < 100; step++) {
        assert_false(propose_next(net->nodes[2].control));
        by_second += propose_next(net->nodes[1].control);
        net_run(net, net->step_ns);
    }
    assert_true(by_second > 0);
    assert_true(net_has_ring(net, 1, 15));
    assert_true(net_has_ring(net, 2, 15));
    net_free(net);
}

/* The smaller side of a split changes nothing, or two rings would grow apart. */
static void a_member_without_a_majority_proposes_nothing(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    const uint64_t epoch = net_config(net, 0)->epoch;
    net->nodes[0].cut = true;
    net->step_ns = 50 * NET_MS;
    net_run(net, 700 * NET_SECOND);
    assert_false(control_alive(net->nodes[0].control, 2));
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    assert_true(net_has_ring(net, 0, 7));
    assert_true(net_has_ring(net, 1, 6));
    net_free(net);
}

/* Who has just been heard of may be gone again; who stays is taken in without an operator. */
static void a_newcomer_is_added_after_it_has_lived_for_300_ms(void **state)
{
    struct net *net = net_cluster(1);
    (void)state;
    const uint32_t at = join(net, 2, "n2");
    for (uint32_t step = 0; step < 300 && !control_alive(net->nodes[0].control, 2); step++)
        net_run(net, net->step_ns);
    assert_true(control_alive(net->nodes[0].control, 2));
    const int64_t since_ns = swim_find(net->nodes[0].control->swim, 2)->since_ns;
    while (net->now_ns + net->step_ns < since_ns + 300 * NET_MS) {
        net_run(net, net->step_ns);
        assert_true(net_has_ring(net, 0, 1));
    }
    net_run(net, NET_SECOND);
    assert_true(net_has_ring(net, 0, 3));
    assert_true(net_has_ring(net, at, 3));
    net_free(net);
}

/* PROPOSE-6: what a node says of itself gives it no more of the ring than so many times its
 * share. */
static void a_newcomer_weighs_at_most_four_times_the_heaviest(void **state)
{
    static const uint32_t weights[][3] = {
        {100, 1000, 400}, {300, 1000, 1000}, {1, 1000, 400}, {100, 399, 399}};
    (void)state;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        struct net *net = net_new();
        for (uint64_t id = 1; id <= 2; id++) {
            struct control_options options = net_options(net, id, id == 1 ? "n1" : "n2");
            options.weight = weights[i][id - 1];
            if (id == 2)
                net_seed(&options, 0);
            (void)net_start(net, &options);
        }
        net_run(net, 5 * NET_SECOND);
        assert_true(net_has_ring(net, 0, 3));
        assert_int_equal(ring_config_find(net_config(net, 0), 2)->weight, weights[i][2]);
        net_free(net);
    }
}

/* PROPOSE-7: an operator who starts a member with another weight need not take it out and in again.
 * It weighs no more than as a newcomer, but may give weight away from where it is. */
static void a_member_weighs_what_it_was_started_with_last(void **state)
{
    static const uint32_t steps[][2] = {{300, 300}, {50, 50}, {1000, 400}, {399, 399}};
    struct net *net = net_cluster(3);
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const uint64_t epoch = net_config(net, 0)->epoch;
        net_stop(net, 2);
        net->nodes[2].options.weight = steps[i][0];
        net_restart(net, 2);
        net_run(net, 10 * NET_SECOND);
        for (uint32_t at = 0; at < 3; at++) {
            assert_true(net_has_ring(net, at, 7));
            assert_int_equal(ring_config_find(net_config(net, at), 3)->weight, steps[i][1]);
            assert_int_equal(net_config(net, at)->epoch, epoch + 2); /* a move, and its end */
        }
    }
    net_free(net);
}

/* PROPOSE-7: the bound is of what is taken: who weighs more than it since heavier ones left keeps
 * that, and nobody changes another's weight. */
static void nobody_is_weighed_anew_unasked(void **state)
{
    struct net *net = net_cluster(2);
    struct control *control = net->nodes[0].control;
    (void)state;
    control->config->to[0].weight = control->config->from[0].weight = 900; /* its own */
    control->options.weight = 1000;
    assert_false(propose_next(control));
    control->options.weight = 899;
    assert_true(propose_next(control));
    assert_int_equal(ring_config_find(control->next, 1)->weight, 899);
    control->options.weight = 900;
    control->config->to[1].weight = control->config->from[1].weight = 700;
    assert_false(propose_next(control));
    net_free(net);
}

/* PROPOSE-6: who answers nobody is in no ring, however many say that it lives. */
static void who_is_only_heard_of_is_not_added(void **state)
{
    struct net *net = net_cluster(2);
    uint8_t frame[SWIM_MESSAGE_MAX];
    (void)state;
    for (uint64_t fake = 0; fake < 20; fake++) {
        struct swim_slot slot = {.member.record = swim_self(net->nodes[1].control->swim)->record};
        struct mp_writer writer;
        slot.member.record.id = 1000 + fake;
        slot.member.record.incarnation = 1;
        slot.member.incarnation = 1;
        (void)snprintf(slot.member.record.name, sizeof slot.member.record.name, "f%u",
                       (unsigned)fake);
        (void)snprintf(slot.member.record.gossip, sizeof slot.member.record.gossip,
                       "10.0.1.%u:7002", (unsigned)fake);
        mp_writer_init(&writer, frame, sizeof frame);
        mp_put_array(&writer, 11);
        mp_put_uint(&writer, 1);
        mp_put_bin(&writer, net->nodes[0].identity.cluster_id, CONTROL_CLUSTER_ID_LEN);
        mp_put_uint(&writer, SWIM_GOSSIP);
        mp_put_uint(&writer, 0);
        mp_put_uint(&writer, 2);
        mp_put_uint(&writer, 1);
        mp_put_str(&writer, net->nodes[1].options.gossip);
        mp_put_int(&writer, net->now_ns);
        mp_put_uint(&writer, 1);
        mp_put_array(&writer, 0);
        mp_put_array(&writer, 1);
        swim_item_put(&writer, &slot, true, 0);
        net_tell(net, 0, frame, writer.len);
    }
    assert_true(control_alive(net->nodes[0].control, 1019));
    for (uint32_t step = 0; step < 1000; step++) {
        net_run(net, net->step_ns);
        assert_true(net_has_ring(net, 0, 3));
    }
    assert_int_equal(net_config(net, 0)->to_count, 2);
    net_free(net);
}

/* PROPOSE-4: a proposer that has just started does not know who lives: over the head of a member
 * that it has not heard of yet a change would be settled. */
static void who_was_not_heard_of_yet_is_not_dead(void **state)
{
    struct net *net = net_cluster(1);
    (void)state;
    net_stop(net, 0);
    net_restart(net, 0);
    net_run(net, net->step_ns);
    const struct control *control = net->nodes[0].control;
    const int64_t started_ns = control->started_ns;
    while (net->now_ns + net->step_ns < started_ns + CONTROL_HEAR_NS) {
        net_run(net, net->step_ns);
        assert_false(control_dead_for(control, 99, 0));
        assert_false(control_dead_for(control, 1, 0));
    }
    net_run(net, 2 * net->step_ns);
    assert_true(control_dead_for(control, 99, 0));
    assert_false(control_dead_for(control, 99, NET_SECOND)); /* not for so long */
    assert_false(control_dead_for(control, 1, 0));
    net_free(net);
}

/* Names are how operators and clients speak of nodes: two may not share one, and whoever tries
 * may not keep others out. */
static void a_newcomer_with_a_taken_name_is_left_out_and_blocks_nobody(void **state)
{
    struct net *net = net_cluster(2);
    (void)state;
    (void)join(net, 3, "n2");
    net_run(net, 5 * NET_SECOND);
    assert_true(control_alive(net->nodes[0].control, 3));
    assert_true(net_has_ring(net, 0, 3));
    (void)join(net, 4, "n4");
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 11));
    net_free(net);
}

/* A node that lost its disk comes back with a new id: it takes its old place at once. */
static void a_newcomer_with_the_name_of_a_dead_member_replaces_it(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 2);
    net->step_ns = 50 * NET_MS;
    net_run(net, 40 * NET_SECOND);
    assert_false(control_alive(net->nodes[0].control, 3));
    assert_true(net_has_ring(net, 0, 7));
    const uint32_t at = join(net, 4, "n3");
    net_run(net, 10 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 11));
    assert_true(net_has_ring(net, at, 11));
    net_free(net);
}

/* A reboot must not move keys; a node that is gone for good must not be waited for. */
static void a_member_is_removed_after_ten_minutes_of_death(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 2);
    net->step_ns = 50 * NET_MS;
    net_run(net, 40 * NET_SECOND);
    const struct swim_member *member = swim_find(net->nodes[0].control->swim, 3);
    assert_int_equal(member->state, SWIM_DEAD);
    const int64_t since_ns = member->since_ns;
    net_run(net, since_ns + 595 * NET_SECOND - net->now_ns);
    assert_true(net_has_ring(net, 0, 7));
    net_run(net, 15 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 3));
    assert_true(net_has_ring(net, 1, 3));
    net_free(net);
}

/* A dead voter counts against the majority for as long as it votes. */
static void a_voter_that_is_removed_is_replaced(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    assert_int_equal(net_config(net, 1)->voters_count, 3);
    net_stop(net, 0);
    net->step_ns = 50 * NET_MS;
    net_run(net, 660 * NET_SECOND);
    assert_true(net_has_ring(net, 1, 6));
    assert_true(net_has_ring(net, 2, 6));
    assert_int_equal(net_config(net, 1)->voters_count, 1);
    net_free(net);
}

/* Two that see nobody lower may both propose after a split; the register lets one of them win. */
static void who_is_cut_off_alone_changes_nothing_and_catches_up(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    const uint64_t epoch = net_config(net, 0)->epoch;
    net->nodes[0].cut = true;
    net->step_ns = 50 * NET_MS;
    net_run(net, 40 * NET_SECOND);
    struct control_options options = net_options(net, 4, "n4");
    net_seed(&options, 1);
    (void)net_start(net, &options);
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, 1, 15));
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    net->nodes[0].cut = false;
    net_run(net, 20 * NET_SECOND);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(ring_config_equal(net_config(net, 0), net_config(net, i)));
    net_free(net);
}

/* PROPOSE-1 in a transition: the lowest of all that take part in it, whether they go, come or stay;
 * and nobody who does not take part. */
static void only_the_lowest_of_both_sides_proposes_in_a_transition(void **state)
{
    struct net *net = net_cluster(3);
    struct control *lowest = net->nodes[0].control;
    struct control *second = net->nodes[1].control;
    struct ring_config *config = malloc(sizeof *config);
    (void)state;
    assert_non_null(config);
    assert_int_equal(ring_config_remove(config, second->config, 1), 0);
    *lowest->config = *second->config = *config; /* 1 goes; the voters are to be put right */
    assert_false(propose_next(second));
    assert_true(propose_next(lowest));
    memcpy(config->to, second->config->from, sizeof config->to);
    memcpy(config->from, second->config->to, sizeof config->from);
    config->to_count = second->config->from_count;
    config->from_count = second->config->to_count;
    *lowest->config = *second->config = *config; /* 1 comes */
    assert_false(propose_next(second));
    assert_true(propose_next(lowest));
    memcpy(config->to, config->from, sizeof config->to);
    config->to_count = config->from_count;
    *lowest->config = *second->config = *config; /* 1 is neither here nor there */
    assert_false(propose_next(lowest));
    assert_true(propose_next(second));
    free(config);
    net_free(net);
}

/* PROPOSE-3: a voter that is to go votes no more before it goes: else a majority of those who
 * decide on its going may be made of such as are not there any more. */
static void a_voter_stops_voting_before_it_is_removed(void **state)
{
    struct net *net = net_cluster(4);
    struct control *control = net->nodes[3].control;
    (void)state;
    assert_true(net_votes(net, 3, 2));
    control->request.remove = 2;
    control->request.until_ns = INT64_MAX;
    assert_true(propose_next(control));
    assert_true(ring_config_is_stable(control->next));
    assert_int_equal(control->next->to_count, 4);
    assert_int_equal(control->next->voters_count, 3);
    for (uint32_t i = 0; i < control->next->voters_count; i++)
        assert_int_not_equal(control->next->voters[i], 2);
    *control->config = *control->next;
    assert_true(propose_next(control));
    assert_false(ring_config_is_stable(control->next));
    assert_int_equal(control->next->to_count, 3);
    assert_int_equal(control->next->voters_count, 3);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_lowest_living_member_proposes),
        cmocka_unit_test(only_the_lowest_of_both_sides_proposes_in_a_transition),
        cmocka_unit_test(a_voter_stops_voting_before_it_is_removed),
        cmocka_unit_test(a_member_without_a_majority_proposes_nothing),
        cmocka_unit_test(a_newcomer_is_added_after_it_has_lived_for_300_ms),
        cmocka_unit_test(a_newcomer_weighs_at_most_four_times_the_heaviest),
        cmocka_unit_test(a_member_weighs_what_it_was_started_with_last),
        cmocka_unit_test(nobody_is_weighed_anew_unasked),
        cmocka_unit_test(who_is_only_heard_of_is_not_added),
        cmocka_unit_test(who_was_not_heard_of_yet_is_not_dead),
        cmocka_unit_test(a_newcomer_with_a_taken_name_is_left_out_and_blocks_nobody),
        cmocka_unit_test(a_newcomer_with_the_name_of_a_dead_member_replaces_it),
        cmocka_unit_test(a_member_is_removed_after_ten_minutes_of_death),
        cmocka_unit_test(a_voter_that_is_removed_is_replaced),
        cmocka_unit_test(who_is_cut_off_alone_changes_nothing_and_catches_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

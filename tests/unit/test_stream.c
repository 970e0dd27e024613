/* test_stream.c - replication: what a replica holds, claims and is sent again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

static const char KEY[] = "counted";

static int set_up(void **state)
{
    struct lab *lab = lab_new(3, 1, 3);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

static int tear_down(void **state)
{
    struct lab *lab = *state;
    lab_free(lab);
    return 0;
}

/* A change reaches both other replicas, as a slot and the mark that stands for it. */
static void a_change_is_sent_to_both_replicas_and_marked(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    lab_forget(lab);
    assert_true(lab_check(lab, decider, KEY, &limit, 3).allowed);
    lab_run(lab, 20 * LAB_MS);
    for (uint32_t rank = 1; rank < 3; rank++) {
        const uint32_t replica = lab_replica(lab, vnode, rank);
        assert_int_equal(lab_said(lab, decider, replica, PEER_SLOT, NULL), 1);
        assert_true(lab_said(lab, decider, replica, PEER_MARK, NULL) >= 1);
        assert_true(lab_said(lab, replica, decider, PEER_ACK, NULL) >= 1);
    }
    assert_int_equal(lab_stats(lab, decider).unconfirmed, 0);
}

/* What was lost on the way is sent again: after the decider's death its successor knows it. */
static void a_lost_frame_costs_work_and_no_count(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    lab->drop_type = PEER_SLOT;
    assert_true(lab_check(lab, decider, KEY, &limit, 3).allowed);
    lab_run(lab, 20 * LAB_MS);
    lab->drop_type = 0;
    lab_run(lab, 1000 * LAB_MS);
    assert_true(lab_stats(lab, decider).resyncs >= 1);
    lab_stop(lab, decider);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lab_used(lab, lab_replica(lab, vnode, 1), KEY, &limit), 3);
}

/* While nobody confirms, answers say so; they stop saying so when a majority holds the state. */
static void answers_are_degraded_until_a_majority_confirms(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    assert_false(lab_check(lab, decider, KEY, &limit, 1).degraded);
    lab_stop(lab, lab_replica(lab, vnode, 1));
    lab_stop(lab, lab_replica(lab, vnode, 2));
    lab_run(lab, 300 * LAB_MS);
    const struct wire_decision alone = lab_check(lab, decider, KEY, &limit, 1);
    assert_true(alone.allowed && alone.degraded);
    lab_start(lab, lab_replica(lab, vnode, 1));
    lab_run(lab, 1500 * LAB_MS);
    assert_false(lab_check(lab, decider, KEY, &limit, 1).degraded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_is_sent_to_both_replicas_and_marked, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lost_frame_costs_work_and_no_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_are_degraded_until_a_majority_confirms, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

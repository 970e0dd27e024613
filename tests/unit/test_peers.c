/* test_peers.c - evidence of life: silence, closed connections, pauses and leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_shard.h"

static const char KEY[] = "counted";

static void cut(struct lab *lab, uint32_t at, bool cut)
{
    for (uint32_t other = 0; other < 3; other++) {
        lab->cut[at][other] = cut;
        lab->cut[other][at] = cut;
    }
}

/* Silence counts after silence_ns and not before: a short gap makes nobody take over. */
static void a_gap_shorter_than_the_silence_changes_nothing(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    cut(lab, decider, true);
    lab_run(lab, 60 * LAB_MS);
    cut(lab, decider, false);
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), decider);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).takeovers, 0);
}

/* P3: a decider that a live replica has not echoed for lease_ns waits, and goes on once the replica
 * counts as gone. */
static void a_decider_waits_out_an_unheard_replica(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    cut(lab, lab_replica(lab, vnode, 2), true);
    lab_run(lab, 88 * LAB_MS);
    lab_ask(lab, &limit, KEY, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, decider, 1000);
    assert_false(lab_answered(lab, seq)); /* 70 < 88 < 100 ms */
    lab_run(lab, 40 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    assert_true(lab_answer(lab, seq, 0).allowed);
}

/* P2: a pause of everybody is nobody's silence. */
static void a_common_pause_makes_nobody_take_over(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    lab_pause(lab, 900 * LAB_MS);
    lab_run(lab, 200 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), lab_replica(lab, vnode, 0));
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).takeovers, 0);
    assert_true(lab_check(lab, 1, KEY, &limit, 1).allowed);
}

static void tell_closed(struct lab *lab, uint32_t gone, bool refused)
{
    for (uint32_t at = 0; at < 3; at++) {
        if (at == gone)
            continue;
        shard_peer_closed(lab->shards[at].shard, lab->now_ns, lab->shards[gone].node, 0, refused,
                          &lab->effects);
        lab_perform(lab, at);
    }
}

/* P7: a process whose host refuses connections is gone at once. */
static void a_refused_connection_is_evidence_at_once(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    lab_stop(lab, decider);
    tell_closed(lab, decider, true);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), lab_replica(lab, vnode, 1));
}

/* P7: one whose connection only ended may live: nobody takes over before its lease is over, and
 * nobody waits for the whole silence. */
static void a_closed_connection_is_evidence_when_the_lease_is_over(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    lab_stop(lab, decider);
    tell_closed(lab, decider, false);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_role(lab, next, vnode), SHARD_REPLICA);
    lab_run(lab, 40 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), next);
}

/* A reset of a connection between two that live deposes nobody. */
static void a_reset_between_the_living_changes_nothing(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    tell_closed(lab, decider, false);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), decider);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).takeovers, 0);
}

/* P6: who hears nobody finds all others silent and decides everything; the others hear its new
 * terms and follow none of them. When it hears them again, one decider is left. */
static void a_node_that_hears_nobody_deposes_nobody(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t deaf = lab_replica(lab, vnode, 2);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    const uint32_t other = lab_replica(lab, vnode, 1);
    const struct limit limit = lab_limit(10);
    const uint64_t stepped_down = lab_stats(lab, decider).stepped_down;
    lab->cut[decider][deaf] = true;
    lab->cut[other][deaf] = true;
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_role(lab, deaf, vnode), SHARD_DECIDING);
    assert_int_equal(lab_role(lab, decider, vnode), SHARD_DECIDING);
    assert_int_equal(lab_role(lab, other, vnode), SHARD_REPLICA);
    assert_int_equal(lab_stats(lab, decider).stepped_down, stepped_down);
    assert_true(lab_check(lab, other, KEY, &limit, 1).allowed);
    lab->cut[decider][deaf] = false;
    lab->cut[other][deaf] = false;
    lab_settle(lab);
}

/* P9: what a process said before it ended may arrive behind what its successor says. It does not
 * speak for the successor: not even its word that it hears nobody. */
static void a_former_process_does_not_speak_for_its_successor(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    const uint64_t former = lab->shards[decider].options.boot;
    lab_stop(lab, decider);
    lab_run(lab, 200 * LAB_MS);
    lab_start(lab, decider);
    lab_settle(lab);
    lab_run(lab, 200 * LAB_MS); /* none of them knows of a pause any more */
    assert_int_equal(lab_decider(lab, vnode), decider);
    const uint64_t takeovers = lab_stats(lab, next).takeovers;
    const uint64_t present = lab->shards[decider].options.boot;
    for (uint32_t ms = 0; ms < 20; ms++) {
        const struct peer_ping late = {
            .sent_ns = lab->now_ns,
            .deaf = true,
            .patience_ms = 100,
            .process = lab->shards[next].node ^ hash_mix64(lab->shards[next].options.boot),
        };
        lab->shards[decider].options.boot = former;
        peer_put_ping(&lab->records, &late);
        lab_speak(lab, decider, next);
        lab->shards[decider].options.boot = present;
        lab_run(lab, LAB_MS);
    }
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_decider(lab, vnode), decider);
    assert_int_equal(lab_stats(lab, next).takeovers, takeovers);
}

/* P9: a node whose data were put back to an older state starts with a lower number than before; it
 * is believed when the process of the higher one has been silent for long. */
static void a_process_with_a_lower_number_is_heard_in_the_end(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t decider = lab_replica(lab, vnode, 0);
    lab_stop(lab, decider);
    lab_run(lab, 200 * LAB_MS);
    lab->next_boot = 0;
    lab_start(lab, decider);
    assert_int_equal(lab->shards[decider].options.boot, 1);
    lab_settle(lab);
    assert_int_equal(lab_decider(lab, vnode), decider);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_gap_shorter_than_the_silence_changes_nothing),
        LAB_TEST_THREE(a_decider_waits_out_an_unheard_replica),
        LAB_TEST_THREE(a_common_pause_makes_nobody_take_over),
        LAB_TEST_THREE(a_refused_connection_is_evidence_at_once),
        LAB_TEST_THREE(a_closed_connection_is_evidence_when_the_lease_is_over),
        LAB_TEST_THREE(a_reset_between_the_living_changes_nothing),
        LAB_TEST_THREE(a_node_that_hears_nobody_deposes_nobody),
        LAB_TEST_THREE(a_former_process_does_not_speak_for_its_successor),
        LAB_TEST_THREE(a_process_with_a_lower_number_is_heard_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

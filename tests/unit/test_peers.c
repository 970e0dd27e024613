/* test_peers.c - evidence of life: silence, closed connections, pauses and leases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
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
    const uint32_t leader = lab_replica(lab, vnode, 0);
    cut(lab, leader, true);
    lab_run(lab, 60 * LAB_MS);
    cut(lab, leader, false);
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), leader);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).takeovers, 0);
}

/* Whether the leader answers a check within a millisecond, `ms` after a replica was last heard. */
static bool answers_after(struct lab *lab, int64_t ms)
{
    const struct limit limit = lab_limit(100);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    for (uint32_t i = 0; i < 9; i++) { /* the terms are known, and nobody is idle */
        (void)lab_check(lab, i % 3, KEY, &limit, 1);
        lab_run(lab, 30 * LAB_MS);
    }
    cut(lab, lab_replica(lab, vnode, 2), true);
    lab_run(lab, ms * LAB_MS);
    lab_ask(lab, &limit, KEY, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, leader, 1000);
    lab_run(lab, LAB_MS);
    const bool answered = lab_answered(lab, seq);
    lab_run(lab, 100 * LAB_MS);
    assert_true(lab_answer(lab, seq, 0).allowed);
    return answered;
}

/* PEERS-3: the lease is no shorter than it must be: a few lost keep-alives hold nobody up. What it
 * is counted from, the ping that was echoed last, may be ten milliseconds and a way old. */
static void a_lease_holds_for_some_lost_keep_alives(void **state)
{
    struct lab *lab = *state;
    assert_true(answers_after(lab, 46));
}

/* PEERS-3: and it ends before the replica may take over, by more than clocks and a turn may
 * take. */
static void a_lease_ends_well_before_the_silence(void **state)
{
    struct lab *lab = *state;
    const struct shard_options *options = &lab->shards[0].options;
    assert_true(options->lease_ns <= options->silence_ns - 2 * options->keepalive_ns);
    assert_false(answers_after(lab, 74));
}

/* PEERS-3: a leader that a live replica has not echoed for lease_ns waits, and goes on once the
 * replica counts as gone. */
static void a_decider_waits_out_an_unheard_replica(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    cut(lab, lab_replica(lab, vnode, 2), true);
    lab_run(lab, 88 * LAB_MS);
    lab_ask(lab, &limit, KEY, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, leader, 1000);
    lab_run(lab, LAB_MS);
    assert_false(lab_answered(lab, seq)); /* 70 < 88 < 100 ms */
    lab_run(lab, 40 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    assert_true(lab_answer(lab, seq, 0).allowed);
}

/* PEERS-2: a pause of everybody is nobody's silence. */
static void a_common_pause_makes_nobody_take_over(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    lab_pause(lab, 900 * LAB_MS);
    lab_run(lab, 200 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), lab_replica(lab, vnode, 0));
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).takeovers, 0);
    assert_true(lab_check(lab, 1, KEY, &limit, 1).allowed);
}

static void tell_closed(struct lab *lab, uint32_t gone, bool refused)
{
    for (uint32_t at = 0; at < lab->count; at++) {
        if (at == gone || lab->shards[at].shard == NULL)
            continue;
        shard_peer_closed(lab->shards[at].shard, lab->now_ns, lab->shards[gone].node, 0, refused,
                          &lab->effects);
        lab_perform(lab, at);
    }
}

/* PEERS-7: a process whose host refuses connections is gone at once. */
static void a_refused_connection_is_evidence_at_once(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    lab_stop(lab, leader);
    tell_closed(lab, leader, true);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), lab_replica(lab, vnode, 1));
}

/* PEERS-7: one whose connection only ended may live: nobody takes over before its lease is over,
 * and nobody waits for the whole silence. */
static void a_closed_connection_is_evidence_when_the_lease_is_over(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    lab_stop(lab, leader);
    tell_closed(lab, leader, false);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_role(lab, next, vnode), SHARD_REPLICA);
    lab_run(lab, 40 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), next);
}

/* A reset of a connection between two that live deposes nobody. */
static void a_reset_between_the_living_changes_nothing(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    tell_closed(lab, leader, false);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), leader);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).takeovers, 0);
}

/* PEERS-6: who hears nobody finds all others silent and decides everything; the others hear its new
 * terms and follow none of them. When it hears them again, one leader is left. */
static void a_node_that_hears_nobody_deposes_nobody(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t deaf = lab_replica(lab, vnode, 2);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t other = lab_replica(lab, vnode, 1);
    const struct limit limit = lab_limit(10);
    const uint64_t stepped_down = lab_stats(lab, leader).stepped_down;
    lab->cut[leader][deaf] = true;
    lab->cut[other][deaf] = true;
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_role(lab, deaf, vnode), SHARD_LEADING);
    assert_int_equal(lab_role(lab, leader, vnode), SHARD_LEADING);
    assert_int_equal(lab_role(lab, other, vnode), SHARD_REPLICA);
    assert_int_equal(lab_stats(lab, leader).stepped_down, stepped_down);
    assert_true(lab_check(lab, other, KEY, &limit, 1).allowed);
    lab->cut[leader][deaf] = false;
    lab->cut[other][deaf] = false;
    lab_settle(lab);
}

/* PEERS-9: what a process said before it ended may arrive behind what its successor says. It does
 * not speak for the successor: not even its word that it hears nobody. */
static void a_former_process_does_not_speak_for_its_successor(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    const uint64_t former = lab->shards[leader].options.boot;
    lab_stop(lab, leader);
    lab_run(lab, 200 * LAB_MS);
    lab_start(lab, leader);
    lab_settle(lab);
    lab_run(lab, 200 * LAB_MS); /* none of them knows of a pause any more */
    assert_int_equal(lab_leader(lab, vnode), leader);
    const uint64_t takeovers = lab_stats(lab, next).takeovers;
    const uint64_t present = lab->shards[leader].options.boot;
    for (uint32_t ms = 0; ms < 20; ms++) {
        const struct peer_ping late = {
            .sent_ns = lab->now_ns,
            .cannot_hear_you = true,
            .patience_ms = 100,
            .process = lab->shards[next].node ^ hash_mix64(lab->shards[next].options.boot),
        };
        lab->shards[leader].options.boot = former;
        peer_put_ping(&lab->records, &late);
        lab_speak(lab, leader, next);
        lab->shards[leader].options.boot = present;
        lab_run(lab, LAB_MS);
    }
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), leader);
    assert_int_equal(lab_stats(lab, next).takeovers, takeovers);
}

static void forge(struct lab *lab, uint32_t as, uint32_t to, uint64_t boot)
{
    const uint64_t present = lab->shards[as].options.boot;
    const struct peer_ping ping = {
        .sent_ns = lab->now_ns, .cannot_hear_you = true, .patience_ms = 100};
    lab->shards[as].options.boot = boot;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, as, to);
    lab->shards[as].options.boot = present;
}

/* PEERS-9: while a peer is heard over a connection that stands, nobody else speaks for it. */
static void a_process_of_the_future_does_not_silence_the_present_one(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    const uint64_t present = lab->shards[leader].options.boot;
    const uint64_t boots[] = {present + 1, present + 5, UINT64_C(1) << 60, UINT64_MAX};
    lab_run(lab, 200 * LAB_MS);
    const uint64_t takeovers = lab_stats(lab, next).takeovers;
    for (size_t i = 0; i < sizeof boots / sizeof *boots; i++) {
        forge(lab, leader, next, boots[i]);
        lab_run(lab, 300 * LAB_MS);
        assert_int_equal(lab_stats(lab, next).forged_frames, i + 1);
    }
    assert_int_equal(lab_leader(lab, vnode), leader);
    assert_int_equal(lab_stats(lab, next).takeovers, takeovers);
}

/* PEERS-9: nor of one that is not there does anybody speak whom gossip cannot have missed. */
static void a_process_far_above_its_incarnation_is_none(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    struct view *view = lab->shards[next].view;
    const struct shard *shard = lab->shards[next].shard;
    const uint16_t at = peers_find(shard, lab->shards[leader].node, 0);
    for (uint32_t i = 0; i < view->member_count; i++)
        view->members[i].incarnation = 7;
    lab_stop(lab, leader);
    lab_run(lab, 1500 * LAB_MS);
    forge(lab, leader, next, UINT64_MAX);
    forge(lab, leader, next, UINT64_C(1032) << 20);
    assert_int_equal(lab_stats(lab, next).forged_frames, 2);
    forge(lab, leader, next, UINT64_C(1031) << 20);
    assert_int_equal(shard->peers[at]->boot, UINT64_C(1031) << 20);
    shard->peers[at]->boot = UINT64_MAX; /* as was believed before gossip knew anything */
    forge(lab, leader, next, UINT64_C(8) << 20);
    assert_int_equal(shard->peers[at]->boot, UINT64_C(8) << 20);
}

/* PEERS-9: a node whose data were put back to an older state starts with a lower number than
 * before; it is believed when the process of the higher one has been silent for long. */
static void a_process_with_a_lower_number_is_heard_in_the_end(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    lab_stop(lab, leader);
    lab_run(lab, 200 * LAB_MS);
    lab->next_boot = 0;
    lab_start(lab, leader);
    assert_int_equal(lab->shards[leader].options.boot, 1);
    lab_settle(lab);
    assert_int_equal(lab_leader(lab, vnode), leader);
}

/* PEERS-8: the patience that is told with an older echo lengthens no lease of a newer one. */
static void a_late_keep_alive_lengthens_no_lease(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    struct peer_ping ping = {.patience_ms = 100};
    (void)state;
    lab_start(lab, 0);
    ping.sent_ns = lab->now_ns;
    ping.echo_ns = lab->now_ns;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    ping.sent_ns -= 30 * LAB_MS;
    ping.echo_ns -= 30 * LAB_MS;
    ping.patience_ms = 900;
    peer_put_ping(&lab->records, &ping); /* of a connection that was closed since, say */
    lab_speak(lab, 1, 0);
    const struct shard *shard = lab->shards[0].shard;
    assert_true(peers_lease_holds(shard, 0));
    lab->now_ns += 95 * LAB_MS;
    lab_tick(lab, 0);
    assert_false(peers_silent(shard, 0));
    assert_false(peers_lease_holds(shard, 0));
    lab_free(lab);
}

/* PEERS-9: what a former process said of its clock is not echoed to its successor, whose clock may
 * have been set back. */
static void a_successor_with_an_earlier_clock_is_echoed(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    struct peer_ping ping = {.patience_ms = 100};
    struct peer_record answer;
    (void)state;
    lab_start(lab, 0);
    lab->shards[1].options.boot = 5;
    ping.sent_ns = lab->now_ns + 3600000 * LAB_MS;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    lab_run(lab, 50 * LAB_MS);
    tell_closed(lab, 1, false);
    lab->shards[1].options.boot = 6;
    ping.sent_ns = lab->now_ns;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    lab_run(lab, 50 * LAB_MS);
    assert_true(lab_said(lab, 0, 1, PEER_PING, &answer) > 0);
    assert_int_equal(answer.ping.echo_ns, ping.sent_ns);
    lab_free(lab);
}

/* A node may be put back to an older release: which records it reads is known of a process when
 * that has said so. */
static void what_a_former_process_reads_is_not_sent_to_its_successor(void **state)
{
    struct lab *lab = lab_new(2, 1, 2);
    const struct peer_ping ping = {.sent_ns = 1, .patience_ms = 100, .changes = true};
    (void)state;
    lab_start(lab, 0);
    lab->shards[1].options.boot = 5;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    const struct shard *shard = lab->shards[0].shard;
    assert_true(shard->peers[0]->changes);
    tell_closed(lab, 1, false);
    lab->shards[1].options.boot = 6;
    peer_put_ack(&lab->records, 1, 1, false, false);
    lab_speak(lab, 1, 0);
    assert_false(shard->peers[0]->changes);
    lab_free(lab);
}

static void *give_nothing(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    return NULL;
}

/* A peer for which there is no room is counted, until there is. */
static void peers_without_room_are_counted(void **state)
{
    struct lab *lab = lab_new(3, 1, 3);
    struct allocator full = *alloc_heap();
    (void)state;
    lab_create(lab, 0);
    struct shard *shard = lab->shards[0].shard;
    const struct allocator *heap = shard->allocator;
    full.get = give_nothing;
    shard->allocator = &full;
    lab_view(lab, 0);
    assert_int_equal(lab_stats(lab, 0).peers_left_out, 2);
    shard->allocator = heap;
    lab_view(lab, 0);
    assert_int_equal(lab_stats(lab, 0).peers_left_out, 0);
    lab_free(lab);
}

/* How many keep-alives shard 0 sends to shard 1 meanwhile. */
static uint32_t pings_in(struct lab *lab, int64_t ns)
{
    lab_forget(lab);
    lab_run(lab, ns);
    return lab_said(lab, 0, 1, PEER_PING, NULL);
}

/* Until shard 0 has just sent one: the next is some 25 ms off. */
static void await_ping(struct lab *lab)
{
    while (pings_in(lab, LAB_MS) == 0)
        continue;
}

/* Keep-alives are nearly all that an idle node costs, so it sends fewer; and what the three send
 * comes together, so that it wakes each of them once. */
static void idle_shards_send_few_keepalives_and_all_at_once(void **state)
{
    struct lab *lab = *state;
    const uint32_t busy = pings_in(lab, 100 * LAB_MS);
    lab_run(lab, 1000 * LAB_MS);
    const uint32_t idle = pings_in(lab, 1000 * LAB_MS);
    assert_in_range(busy, 9, 11);
    assert_in_range(idle, 36, 41);
    for (uint32_t late = 3; late <= 15; late += 6) { /* one of them begins out of step */
        uint32_t longest = 0;
        uint32_t quiet = 0;
        lab_stop(lab, 2);
        lab_run(lab, (200 + late) * LAB_MS);
        lab_start(lab, 2);
        lab_settle(lab);
        lab_run(lab, 1000 * LAB_MS);
        for (uint32_t ms = 0; ms < 100; ms++) {
            lab_forget(lab);
            lab_run(lab, LAB_MS);
            quiet = lab_said(lab, LAB_NONE, LAB_NONE, PEER_PING, NULL) > 0 ? 0 : quiet + 1;
            longest = quiet > longest ? quiet : longest;
        }
        assert_in_range(longest, 20, 24);
    }
}

/* Work ends idleness: the first check is decided under leases that the next keep-alives renew. */
static void work_makes_an_idle_shard_send_a_keepalive_at_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    lab_run(lab, 1000 * LAB_MS);
    await_ping(lab);
    lab_run(lab, 2 * LAB_MS);
    lab_ask(lab, &limit, KEY, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_true(pings_in(lab, 2 * LAB_MS) > 0);
    assert_true(lab_answered(lab, seq));
    assert_in_range(pings_in(lab, 100 * LAB_MS), 9, 11);
}

/* PEERS-6 holds of idle nodes as well: one that hears nobody says so before it loses its
 * patience. */
static void an_idle_node_that_hears_nobody_says_so_in_time(void **state)
{
    struct lab *lab = *state;
    struct peer_record last;
    lab_run(lab, 1000 * LAB_MS);
    await_ping(lab);
    lab->cut[1][0] = true;
    lab->cut[2][0] = true;
    lab_run(lab, 72 * LAB_MS);
    assert_in_range(pings_in(lab, 25 * LAB_MS), 2, 3);
    assert_true(lab_said(lab, 0, 1, PEER_PING, &last) > 0);
    assert_true(last.ping.cannot_hear_you);
    lab->cut[1][0] = false;
    lab->cut[2][0] = false;
    lab_settle(lab);
}

/* Who takes over from an idle leader does so no later than from a busy one, though it is woken
 * less often: it wakes up when its patience is nearly lost, and is not idle from then on. */
static void the_silence_of_an_idle_decider_is_noticed_in_time(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    bool uneasy = false;
    lab_run(lab, 1000 * LAB_MS);
    await_ping(lab);
    lab_stop(lab, leader);
    const int64_t stopped_ns = lab->now_ns;
    while (lab_role(lab, next, vnode) == SHARD_REPLICA) {
        const int64_t due_ns = shard_next_deadline(lab->shards[next].shard);
        lab->now_ns = due_ns > lab->now_ns ? due_ns : lab->now_ns + LAB_MS;
        const int64_t since_ns = lab->now_ns - stopped_ns;
        uneasy = uneasy || (since_ns >= 68 * LAB_MS && since_ns <= 70 * LAB_MS);
        assert_true(since_ns <= 110 * LAB_MS); /* silence_ns and a keep-alive */
        lab_tick(lab, next);
        lab_deliver(lab);
    }
    assert_true(uneasy);
    lab_run(lab, 5 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), next);
}

/* ---- one node, whose peer is the test -------------------------------------------------------- */

static struct lab *lab_of_a_ghost(void)
{
    struct lab *lab = lab_new(2, 1, 2);
    lab_start(lab, 0);
    return lab;
}

/* A keep-alive of the ghost now, in answer to one that was sent `age_ms` ago. */
static void ghost_pings(struct lab *lab, int64_t age_ms, uint32_t patience_ms, uint64_t opened)
{
    const struct peer_ping ping = {
        .sent_ns = lab->now_ns,
        .echo_ns = lab->now_ns - age_ms * LAB_MS,
        .opened = opened,
        .patience_ms = patience_ms,
        .process = lab->shards[0].node ^ hash_mix64(lab->shards[0].options.boot),
    };
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
}

static int64_t patience_ms(const struct lab *lab)
{
    return peers_failure_timeout_ns(lab->shards[0].shard, 0) / LAB_MS;
}

/* PEERS-4: who opened a term that is not known here may have deposed this node: its echo is no
 * lease, until the OPENED of that term has come. */
static void an_echo_is_no_lease_while_a_term_of_its_sender_is_unknown(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct shard *shard = lab->shards[0].shard;
    struct peer_vnode opened = {.vnode = 3, .role = ROLE_LEADING, .sync = 1};
    (void)state;
    opened.term = (struct term){1, 5, lab->shards[1].node};
    opened.state = opened.term;
    ghost_pings(lab, 0, 100, 0);
    assert_true(peers_lease_holds(shard, 0));
    lab_run(lab, 60 * LAB_MS);
    ghost_pings(lab, 0, 100, 1);
    lab_run(lab, 30 * LAB_MS);
    assert_false(peers_silent(shard, 0));
    assert_false(peers_lease_holds(shard, 0));
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, 1, 0);
    assert_false(peers_lease_holds(shard, 0));
    ghost_pings(lab, 0, 100, 1);
    assert_true(peers_lease_holds(shard, 0));
    lab_free(lab);
}

/* PEERS-8: a patience that was told is kept for as long as it says: the peer decides under a lease
 * of it, whatever this node has measured since. */
static void patience_falls_only_after_it_was_kept_once_more(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    struct peer_record told;
    (void)state;
    ghost_pings(lab, 0, 100, 0);
    const int64_t usual_ms = patience_ms(lab);
    for (int64_t ms = 0; ms < 210; ms += 10) { /* a slow moment of the way */
        lab_run(lab, 10 * LAB_MS);
        ghost_pings(lab, ms < 200 ? ms + 10 : 200, 100, 0);
    }
    const int64_t longest_ms = patience_ms(lab);
    assert_true(longest_ms > 2 * usual_ms);
    for (int64_t ms = 0; ms + 10 < longest_ms; ms += 10) {
        lab_run(lab, 10 * LAB_MS);
        ghost_pings(lab, 1, 100, 0);
        assert_int_equal(patience_ms(lab), longest_ms);
    }
    assert_true(lab_said(lab, 0, 1, PEER_PING, &told) > 0);
    assert_true(told.ping.patience_ms < longest_ms); /* it is told as it will be */
    for (uint32_t i = 0; i < 600; i++) {
        lab_run(lab, 10 * LAB_MS);
        ghost_pings(lab, 1, 100, 0);
    }
    assert_int_equal(patience_ms(lab), usual_ms);
    lab_free(lab);
}

/* PEERS-8: no patience is longer than a second, neither this node's nor one that it believes: a
 * leader that dies behind a slow way is still replaced. */
static void patience_has_an_end_whatever_is_measured_or_told(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct shard *shard = lab->shards[0].shard;
    (void)state;
    ghost_pings(lab, 3000, 100, 0);
    assert_int_equal(patience_ms(lab), 1000);
    ghost_pings(lab, 0, 60000, 0);
    for (int64_t ms = 0; ms < 1020; ms += 20) {
        if (ms <= 900)
            assert_true(peers_lease_holds(shard, 0));
        lab_run(lab, 20 * LAB_MS);
        ghost_pings(lab, 5000, 60000, 0); /* it lives, and echoes nothing new */
    }
    assert_false(peers_silent(shard, 0));
    assert_false(peers_lease_holds(shard, 0));
    lab_free(lab);
}

/* For how long the ghost, which says nothing any more, is waited for: 30 s at most. */
static int64_t waited_ms(struct lab *lab)
{
    const int64_t begin_ns = lab->now_ns;
    while (!peers_silent(lab->shards[0].shard, 0) && lab->now_ns - begin_ns < 30000 * LAB_MS)
        lab_run(lab, LAB_MS);
    return (lab->now_ns - begin_ns) / LAB_MS;
}

/* The ghost is heard in time for `ms`. */
static void ghost_is_punctual(struct lab *lab, int64_t ms)
{
    for (int64_t passed = 0; passed < ms; passed += 10) {
        lab_run(lab, 10 * LAB_MS);
        ghost_pings(lab, 1, 100, 0);
    }
}

/* PEERS-11: late but coming is a starved machine, not a dead one; in time until it stopped is
 * neither a reason to wait for longer. */
static void a_peer_that_came_late_is_waited_for_a_second(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_is_punctual(lab, 100);
    assert_in_range(waited_ms(lab), 95, 105);
    ghost_is_punctual(lab, 100);
    lab_run(lab, 45 * LAB_MS);
    ghost_is_punctual(lab, 1000);
    assert_in_range(waited_ms(lab), 985, 1005);
    lab_free(lab);
}

/* PEERS-11: a false alarm is not raised twice: who was found silent and came, came late. */
static void a_peer_that_was_found_silent_and_came_is_waited_for_a_second(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_is_punctual(lab, 100);
    assert_in_range(waited_ms(lab), 95, 105);
    lab_run(lab, 60 * LAB_MS);
    ghost_is_punctual(lab, 1000);
    assert_in_range(waited_ms(lab), 985, 1005);
    lab_free(lab);
}

/* PEERS-11 is forgotten of a peer that has been in time for long, and never held against one that
 * was away. */
static void a_peer_that_is_in_time_again_is_waited_for_as_before(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_is_punctual(lab, 100);
    lab_run(lab, 45 * LAB_MS);
    ghost_is_punctual(lab, 11500);
    assert_in_range(waited_ms(lab), 95, 105);
    lab_run(lab, 5000 * LAB_MS);
    ghost_is_punctual(lab, 100);
    assert_in_range(waited_ms(lab), 95, 105);
    lab_free(lab);
}

/* PEERS-12: a shard that is often late itself, each time by less than a pause, takes that off the
 * silence of others, and no more. */
static void short_stalls_of_its_own_are_no_silence_of_others(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct shard *shard = lab->shards[0].shard;
    (void)state;
    ghost_is_punctual(lab, 100);
    for (uint32_t i = 0; i < 4; i++) {
        lab->now_ns += 40 * LAB_MS;
        lab_tick(lab, 0);
    }
    assert_false(peers_silent(shard, 0)); /* 160 ms after it was heard, of which 4 x 30 were late */
    assert_in_range(waited_ms(lab), 55, 65);
    lab_free(lab);
}

/* PEERS-10: a peer lags when it lives, and has echoed nothing that was sent in the last half
 * second. One that never echoed anything has only just been met. */
static void a_peer_without_recent_echoes_lags(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    const struct shard *shard = lab->shards[0].shard;
    (void)state;
    assert_false(peers_lag(shard, 0));
    ghost_pings(lab, 0, 100, 0);
    for (int64_t ms = 0; ms < 600; ms += 20) {
        assert_int_equal(peers_lag(shard, 0), ms > 500);
        lab_run(lab, 20 * LAB_MS);
        ghost_pings(lab, ms + 20, 100, 0); /* always of the same one */
    }
    assert_true(peers_lag(shard, 0));
    assert_false(peers_silent(shard, 0));
    ghost_pings(lab, 400, 100, 0);
    assert_false(peers_lag(shard, 0));
    lab_free(lab);
}

/* The ghost says that it opened a term of the vnode: the one of that ordinal, 0 in an announcement.
 */
static void ghost_opens(struct lab *lab, uint32_t vnode, uint32_t ordinal)
{
    struct peer_vnode opened = {.vnode = vnode, .role = ROLE_LEADING, .sync = ordinal};
    opened.term = (struct term){1, 5, lab->shards[1].node};
    opened.state = opened.term;
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, 1, 0);
}

/* Whether an echo of now is a lease, told by who has opened `opened` terms; with `announced` > 0 it
 * ends an announcement of so many. */
static bool leases(struct lab *lab, uint64_t opened, uint32_t announced)
{
    struct shard *shard = lab->shards[0].shard;
    const struct peer_ping ping = {
        .sent_ns = lab->now_ns,
        .echo_ns = lab->now_ns,
        .opened = opened,
        .announces = announced > 0,
        .announced = announced,
        .patience_ms = 100,
        .process = lab->shards[0].node ^ hash_mix64(lab->shards[0].options.boot),
    };
    shard->peers[0]->echo_ns = 0;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    return peers_lease_holds(shard, 0);
}

/* A time of the far future would be echoed for good, and the peer would never hold a lease. */
static void a_ping_of_the_far_future_is_not_echoed_for_long(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    struct peer_ping ping = {.sent_ns = INT64_MAX, .patience_ms = 100};
    struct peer_record answer;
    (void)state;
    lab->shards[1].options.boot = 5;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    ping.sent_ns = lab->now_ns;
    peer_put_ping(&lab->records, &ping);
    lab_speak(lab, 1, 0);
    lab_run(lab, 50 * LAB_MS);
    assert_true(lab_said(lab, 0, 1, PEER_PING, &answer) > 0);
    assert_int_equal(answer.ping.echo_ns, ping.sent_ns);
    lab_free(lab);
}

/* PEERS-4: of an announcement in which something is missing nothing counts, nor do parts of two
 * make one; and a term that is told twice is still one. What an earlier process opened says nothing
 * of this. */
static void terms_are_known_when_all_of_them_were_told(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    lab->shards[1].options.boot = 5;
    assert_true(leases(lab, 0, 0));
    ghost_opens(lab, 3, 2); /* the first was lost */
    ghost_opens(lab, 3, 2);
    assert_false(leases(lab, 2, 0));
    for (uint32_t i = 0; i < 2; i++) {
        ghost_opens(lab, 3, 0);
        assert_false(leases(lab, 2, 2));
    }
    ghost_opens(lab, 3, 0);
    ghost_opens(lab, 4, 0);
    assert_true(leases(lab, 2, 2));
    ghost_opens(lab, 5, 3);
    assert_true(leases(lab, 3, 0));
    tell_closed(lab, 1, false);
    lab->shards[1].options.boot++;
    assert_false(leases(lab, 3, 0));
    lab_free(lab);
}

/* What nobody sent yet cannot be echoed: after a clock was set back such an echo would be a lease
 * for as long as it was set. */
static void an_echo_of_the_future_is_no_lease(void **state)
{
    struct lab *lab = lab_of_a_ghost();
    (void)state;
    ghost_pings(lab, 0, 100, 0);
    ghost_pings(lab, -60000, 100, 0);
    for (uint32_t i = 0; i < 5; i++) {
        lab_run(lab, 20 * LAB_MS);
        ghost_pings(lab, 5000, 100, 0); /* it lives, and echoes nothing new */
    }
    assert_false(peers_silent(lab->shards[0].shard, 0));
    assert_false(peers_lease_holds(lab->shards[0].shard, 0));
    lab_free(lab);
}

/* Keep-alives every ten milliseconds are for who shares vnodes: a region is a ring of its own. */
static void members_of_other_regions_are_no_peers(void **state)
{
    struct lab *lab = *state;
    lab->remote = 2;
    lab_view_all(lab);
    for (uint32_t at = 0; at < lab->count; at++) {
        const struct shard *shard = lab->shards[at].shard;
        assert_int_equal(shard->view->member_count, 5);
        assert_int_equal(shard->peer_count, 2);
        assert_int_equal(peers_find(shard, LAB_REMOTE, 0), PEER_NONE);
        assert_int_equal(shard->stats.peers_left_out, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_gap_shorter_than_the_silence_changes_nothing),
        LAB_TEST_THREE(a_lease_holds_for_some_lost_keep_alives),
        LAB_TEST_THREE(a_lease_ends_well_before_the_silence),
        LAB_TEST_THREE(a_decider_waits_out_an_unheard_replica),
        LAB_TEST_THREE(a_common_pause_makes_nobody_take_over),
        LAB_TEST_THREE(a_refused_connection_is_evidence_at_once),
        LAB_TEST_THREE(a_closed_connection_is_evidence_when_the_lease_is_over),
        LAB_TEST_THREE(a_reset_between_the_living_changes_nothing),
        LAB_TEST_THREE(a_node_that_hears_nobody_deposes_nobody),
        LAB_TEST_THREE(idle_shards_send_few_keepalives_and_all_at_once),
        LAB_TEST_THREE(work_makes_an_idle_shard_send_a_keepalive_at_once),
        LAB_TEST_THREE(an_idle_node_that_hears_nobody_says_so_in_time),
        LAB_TEST_THREE(the_silence_of_an_idle_decider_is_noticed_in_time),
        LAB_TEST_THREE(a_former_process_does_not_speak_for_its_successor),
        LAB_TEST_THREE(a_process_of_the_future_does_not_silence_the_present_one),
        LAB_TEST_THREE(a_process_far_above_its_incarnation_is_none),
        LAB_TEST_THREE(a_process_with_a_lower_number_is_heard_in_the_end),
        LAB_TEST_THREE(members_of_other_regions_are_no_peers),
        cmocka_unit_test(a_ping_of_the_far_future_is_not_echoed_for_long),
        cmocka_unit_test(peers_without_room_are_counted),
        cmocka_unit_test(a_late_keep_alive_lengthens_no_lease),
        cmocka_unit_test(an_echo_is_no_lease_while_a_term_of_its_sender_is_unknown),
        cmocka_unit_test(patience_falls_only_after_it_was_kept_once_more),
        cmocka_unit_test(patience_has_an_end_whatever_is_measured_or_told),
        cmocka_unit_test(a_peer_that_came_late_is_waited_for_a_second),
        cmocka_unit_test(a_peer_that_was_found_silent_and_came_is_waited_for_a_second),
        cmocka_unit_test(a_peer_that_is_in_time_again_is_waited_for_as_before),
        cmocka_unit_test(short_stalls_of_its_own_are_no_silence_of_others),
        cmocka_unit_test(a_peer_without_recent_echoes_lags),
        cmocka_unit_test(terms_are_known_when_all_of_them_were_told),
        cmocka_unit_test(an_echo_of_the_future_is_no_lease),
        cmocka_unit_test(a_successor_with_an_earlier_clock_is_echoed),
        cmocka_unit_test(what_a_former_process_reads_is_not_sent_to_its_successor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_shard.c - a shard's life and its events: memory, time, frames, views, rules, an orderly end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

static const char KEY[] = "counted";

/* ---- life ------------------------------------------------------------------------------------ */

static struct shard_options some_options(void)
{
    struct shard_options options;
    shard_options_default(&options);
    options.node_id = 7;
    options.boot = 1;
    options.vnodes = LAB_VNODES;
    options.memory_bytes = 4 << 20;
    return options;
}

static int try_options(const struct shard_options *options)
{
    struct shard *shard = NULL;
    const int result = shard_new(alloc_heap(), options, LAB_START_NS, &shard);
    assert_true((result == 0) == (shard != NULL));
    shard_free(&shard);
    assert_null(shard);
    return result;
}

/* Options that would break a promise are refused at the start, not found out under load. */
static void options_that_cannot_work_are_refused(void **state)
{
    const struct shard_options good = some_options();
    struct shard_options bad = good;
    (void)state;
    assert_int_equal(try_options(&good), 0);
    bad.node_id = 0;
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad = good;
    bad.lease_ns = bad.silence_ns; /* a leader would outlive the patience of its replicas */
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad = good;
    bad.shards = 0;
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad = good;
    bad.shard = bad.shards;
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad = good;
    bad.handoff_rate = 0;
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad = good;
    bad.retry_sets = 3;
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad = good;
    bad.frames_max = 0;
    assert_int_equal(try_options(&bad), TG_EINVALID);
    bad.frames_max = good.frames_max + 1;
    assert_int_equal(try_options(&bad), TG_EINVALID);
}

/* Whichever request for memory fails, the start is refused whole and gives back what it had. */
static void a_start_without_memory_leaves_nothing_behind(void **state)
{
    const struct shard_options options = some_options();
    size_t requests = 0;
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        struct alloc_failing failing;
        struct shard *shard = NULL;
        alloc_failing_init(&failing, fail_at);
        const int result = shard_new(&failing.allocator, &options, LAB_START_NS, &shard);
        if (result == 0) {
            requests = failing.requests;
            shard_free(&shard);
            assert_int_equal(failing.bytes_live, 0);
            break;
        }
        assert_int_equal(result, TG_ENOMEM);
        assert_null(shard);
        assert_int_equal(failing.bytes_live, 0);
    }
    assert_true(requests > 10);
}

static bool is_confirmed(struct lab *lab, void *context)
{
    const uint32_t vnode = *(const uint32_t *)context;
    struct probe_vnode held;
    probe_vnode(lab->shards[lab_leader(lab, vnode)].shard, vnode, &held);
    return held.synced;
}

/* The hot path: whatever is asked of a running shard and its peers, no memory is asked for. */
static void a_running_shard_asks_for_no_memory(void **state)
{
    struct lab *lab = *state;
    struct alloc_failing counting;
    const struct limit limit = lab_limit(1000);
    const struct allocator *heap = lab->shards[0].shard->allocator;
    uint32_t vnode = lab_vnode_of(lab, KEY);
    alloc_failing_init(&counting, 0);
    for (uint32_t at = 0; at < 3; at++)
        lab->shards[at].shard->allocator = &counting.allocator;
    for (uint32_t i = 0; i < 30; i++)
        assert_true(lab_check(lab, i % 3, KEY, &limit, 1).allowed);
    lab_until(lab, is_confirmed, &vnode, 1000 * LAB_MS);
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(counting.requests, 0);
    for (uint32_t at = 0; at < 3; at++)
        lab->shards[at].shard->allocator = heap;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* A gap between two events in which it could have been deposed is known as its own pause. */
static void an_own_pause_is_told_from_the_silence_of_others(void **state)
{
    struct lab *lab = *state;
    const int64_t silence_ns = lab->shards[0].options.silence_ns;
    lab_pause(lab, silence_ns / 2 - LAB_MS);
    lab_tick(lab, 0);
    assert_int_equal(lab_stats(lab, 0).stalls, 0);
    lab_pause(lab, silence_ns / 2);
    lab_tick(lab, 0);
    assert_int_equal(lab_stats(lab, 0).stalls, 1);
}

/* A clock that is read a moment earlier than the last event's does not turn time back. */
static void time_never_goes_back(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = lab->shards[0].shard;
    const int64_t now_ns = shard->now_ns;
    shard_tick(shard, now_ns - 5000 * LAB_MS, &lab->effects);
    lab_perform(lab, 0);
    assert_int_equal(shard->now_ns, now_ns);
    assert_true(shard_next_deadline(shard) >= now_ns);
    assert_int_equal(lab_stats(lab, 0).stalls, 0);
}

/* Frames that lie unread are no silence: a shard that is behind with its input deposes nobody. */
static void unread_frames_keep_their_senders_alive(void **state)
{
    struct lab *lab = *state;
    for (uint32_t read = 0; read < 2; read++) {
        const uint64_t before = lab_stats(lab, 0).takeovers;
        for (uint32_t at = 1; at < 3; at++)
            lab->cut[at][0] = true;
        for (uint32_t i = 0; i < 30; i++) {
            lab_run(lab, 10 * LAB_MS);
            if (read == 0)
                shard_unread(lab->shards[0].shard, lab->now_ns);
        }
        if (read == 0)
            assert_int_equal(lab_stats(lab, 0).takeovers, before);
        else
            assert_int_equal(lab_leader(lab, lab_vnode_owned(lab, 1)), LAB_NONE);
        memset(lab->cut, 0, sizeof lab->cut);
        lab_settle(lab);
    }
}

/* An idle shard sleeps until the next keep-alive; one with a change to ship is due much sooner. */
static void the_deadline_is_that_of_the_most_urgent_work(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t leader = lab_replica(lab, lab_vnode_of(lab, KEY), 0);
    struct shard *shard = lab->shards[leader].shard;
    const struct shard_options *options = &lab->shards[leader].options;
    lab_run(lab, 100 * LAB_MS);
    assert_in_range(shard_next_deadline(shard), lab->now_ns, lab->now_ns + options->keepalive_ns);
    assert_true(lab_check(lab, leader, KEY, &limit, 1).allowed);
    assert_true(shard_next_deadline(shard) <= lab->now_ns + options->replicate_ns);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Says a promise to follow of ours in the name of shard `from`: something that has an effect. */
static void ask_for_vnode(struct lab *lab, uint32_t from, uint32_t to, uint32_t vnode)
{
    const struct peer_vnode query = {.vnode = vnode, .role = ROLE_RECOVERING};
    peer_put_vnode(&lab->records, PEER_QUERY, &query);
    lab_speak(lab, from, to);
}

static uint32_t reports(struct lab *lab, uint32_t from, uint32_t to)
{
    lab_tick(lab, from);
    lab_run(lab, 2 * LAB_MS);
    return lab_said(lab, from, to, PEER_REPORT, NULL);
}

/* Whose words come from a process that has ended speaks for nobody. */
static void a_frame_of_an_ended_process_has_no_effect(void **state)
{
    struct lab *lab = *state;
    const uint64_t boot = lab->shards[1].options.boot;
    lab_stop(lab, 1);
    lab_run(lab, 20 * LAB_MS);
    lab_start(lab, 1);
    lab_settle(lab);
    const uint64_t lives = lab->shards[1].options.boot;
    lab_forget(lab);
    lab->shards[1].options.boot = boot;
    ask_for_vnode(lab, 1, 0, 0);
    assert_int_equal(reports(lab, 0, 1), 0);
    lab->shards[1].options.boot = lives;
    ask_for_vnode(lab, 1, 0, 0);
    assert_true(reports(lab, 0, 1) > 0);
}

/* A copy that comes before the first live frame of its process is no sign of life: the process that
 * is known goes on to be heard. */
static void a_copy_of_an_unknown_process_has_no_effect(void **state)
{
    struct lab *lab = *state;
    const struct peer_vnode query = {.vnode = 0, .role = ROLE_RECOVERING};
    struct peer_envelope envelope = {
        .node = lab->shards[1].node,
        .boot = lab->shards[1].options.boot + 1,
        .bulk = true,
        .records = lab->record_bytes,
    };
    lab_forget(lab);
    peer_put_vnode(&lab->records, PEER_QUERY, &query);
    envelope.len = lab->records.len;
    const int len = peer_encode(&envelope, lab->frame, sizeof lab->frame);
    assert_true(len > 0);
    shard_peer(lab->shards[0].shard, lab->now_ns, lab->frame, (size_t)len, &lab->effects);
    lab_perform(lab, 0);
    bytes_writer_init(&lab->records, lab->record_bytes, sizeof lab->record_bytes);
    assert_int_equal(reports(lab, 0, 1), 0);
    ask_for_vnode(lab, 1, 0, 0);
    assert_true(reports(lab, 0, 1) > 0);
}

/* A node that is no member as far as this shard knows is not listened to. */
static void a_frame_of_a_stranger_has_no_effect(void **state)
{
    struct lab *lab = *state;
    const uint64_t node = lab->shards[1].node;
    lab_forget(lab);
    const size_t frames = lab->frame_count;
    lab->shards[1].node = 0x9999;
    ask_for_vnode(lab, 1, 0, 0);
    lab->shards[1].node = node;
    assert_int_equal(lab->frame_count, frames);
    assert_int_equal(reports(lab, 0, 1), 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, 0);
}

/* A frame that cannot be read is dropped and counted; a good one that goes wrong in the middle is
 * taken up to there. */
static void bad_frames_are_counted_and_change_nothing_behind_the_fault(void **state)
{
    struct lab *lab = *state;
    const uint64_t before = lab_stats(lab, 0).bad_frames;
    shard_peer(lab->shards[0].shard, lab->now_ns, "?", 1, &lab->effects);
    lab_perform(lab, 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, before + 1);
    lab_forget(lab);
    const struct peer_vnode query = {.vnode = 0, .role = ROLE_RECOVERING};
    const struct peer_vnode holds_newer = {.vnode = 2 * LAB_VNODES, .role = ROLE_RECOVERING};
    peer_put_vnode(&lab->records, PEER_QUERY, &query);
    peer_put_vnode(&lab->records, PEER_QUERY, &holds_newer);
    peer_put_vnode(&lab->records, PEER_QUERY, &query);
    lab_speak(lab, 1, 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, before + 2);
    assert_int_equal(reports(lab, 0, 1), 1);
}

/* What is merged after a split is of the plane of one: in the other plane it is refused. */
static void records_of_a_split_are_refused_in_the_plane_of_quorum(void **state)
{
    struct lab *lab = *state;
    const uint64_t before = lab_stats(lab, 0).bad_frames;
    const struct peer_vnode merged = {.vnode = 3, .role = ROLE_REPLICA};
    struct peer_vnode other = merged;
    other.vnode += LAB_VNODES;
    peer_put_vnode(&lab->records, PEER_MERGED, &merged);
    lab_speak(lab, 1, 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, before);
    peer_put_vnode(&lab->records, PEER_MERGED, &other);
    lab_speak(lab, 1, 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, before + 1);
}

/* A client that says good-bye wants no answer. */
static void a_good_bye_is_not_answered(void **state)
{
    struct lab *lab = *state;
    const size_t replies = lab->reply_count;
    lab_client(lab, 0, wire_encode_goodbye(LAB_SESSION, lab->frame, sizeof lab->frame));
    assert_int_equal(lab->reply_count, replies);
    assert_int_equal(lab_stats(lab, 0).bad_frames, 0);
}

/* What is refused for want of time is counted check by check and charges nothing; questions that
 * are no checks are answered nevertheless. */
static void a_message_that_is_refused_is_counted_and_charges_nothing(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    struct shard *shard = lab->shards[0].shard;
    for (int i = 0; i < 3; i++)
        lab_ask(lab, &limit, "shed", OPERATION_CHECK, 1);
    const int len = wire_checks_builder_encode(&lab->builder, LAB_SESSION, 4711, 0, 1000,
                                               lab->frame, sizeof lab->frame);
    wire_checks_builder_reset(&lab->builder);
    assert_true(len > 0);
    const size_t replies = lab->reply_count;
    shard_refuse(shard, lab->now_ns, LAB_CONNECTION, lab->frame, (size_t)len, &lab->effects);
    lab_perform(lab, 0);
    assert_int_equal(lab->reply_count, replies + 1);
    assert_int_equal(lab_last_error(lab).code, TG_EBUSY);
    assert_int_equal(lab_last_error(lab).seq, 4711);
    assert_int_equal(lab_stats(lab, 0).shed, 3);
    assert_int_equal(lab_stats(lab, 0).busy, 3);
    assert_int_equal(lab_used(lab, 0, "shed", &limit), 0);
    const struct wire_get_ring question = {.session = LAB_SESSION, .seq = 4712};
    const int asked = wire_encode_get_ring(&question, lab->frame, sizeof lab->frame);
    shard_refuse(shard, lab->now_ns, LAB_CONNECTION, lab->frame, (size_t)asked, &lab->effects);
    lab_perform(lab, 0);
    assert_int_equal(lab_stats(lab, 0).bad_frames, 0);
    assert_int_equal(lab_stats(lab, 0).shed, 3);
    const struct lab_reply *ring = lab_last_reply(lab);
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    assert_int_equal(wire_peek(ring->bytes, ring->len, &envelope, error), 0);
    assert_int_equal(envelope.type, WIRE_RING);
}

/* ---- views and rules ------------------------------------------------------------------------- */

/* An epoch counts as settled only when all that is owned here has arrived and is held. */
static void an_epoch_is_settled_when_everything_has_arrived(void **state)
{
    struct lab *lab = lab_new(3, 1, 3);
    (void)state;
    for (uint32_t at = 0; at < 3; at++) {
        lab_start(lab, at);
        assert_int_equal(shard_settled_epoch(lab->shards[at].shard), 0);
    }
    lab_settle(lab);
    lab_run(lab, 100 * LAB_MS);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(shard_settled_epoch(lab->shards[at].shard), lab->config->epoch);
    assert_int_equal(ring_config_remove(lab->config_next, lab->config, lab->shards[2].node), 0);
    const uint64_t before = lab->config->epoch;
    lab->cut[2][0] = lab->cut[2][1] = true; /* what shard 2 has cannot arrive */
    lab_adopt(lab);
    lab_run(lab, 50 * LAB_MS);
    const bool early = shard_settled_epoch(lab->shards[0].shard) > before &&
                       shard_settled_epoch(lab->shards[1].shard) > before;
    assert_false(early);
    memset(lab->cut, 0, sizeof lab->cut);
    lab_run(lab, 3000 * LAB_MS);
    for (uint32_t at = 0; at < 3; at++)
        assert_true(shard_settled_epoch(lab->shards[at].shard) > before);
    lab_free(lab);
}

/* What the ring wants of a node that is silent for a moment is not waived: only one that gossip has
 * given up is not waited for, or those that hold its vnodes now would drop them. */
static void a_silence_is_no_arrival(void **state)
{
    struct lab *lab = lab_new(3, 1, 2);
    (void)state;
    lab_start_all(lab);
    lab_run(lab, 100 * LAB_MS);
    const uint64_t before = lab->config->epoch;
    lab->cut[0][1] = lab->cut[1][0] = lab->cut[1][2] = lab->cut[2][1] = true;
    lab_run(lab, 200 * LAB_MS);
    assert_int_equal(ring_config_remove(lab->config_next, lab->config, lab->shards[2].node), 0);
    lab_adopt(lab);
    lab_run(lab, 2000 * LAB_MS);
    assert_int_equal(shard_settled_epoch(lab->shards[0].shard), before);
    memset(lab->cut, 0, sizeof lab->cut);
    lab_run(lab, 3000 * LAB_MS);
    for (uint32_t at = 0; at < 2; at++)
        assert_int_equal(shard_settled_epoch(lab->shards[at].shard), lab->config->epoch);
    lab_free(lab);
}

/* Roles are counted, and each vnode in one of them: three replicas of three nodes hold all. */
static void every_vnode_is_counted_in_one_role(void **state)
{
    struct lab *lab = *state;
    uint32_t deciding = 0;
    for (uint32_t at = 0; at < 3; at++) {
        const struct shard_stats stats = lab_stats(lab, at);
        assert_int_equal(stats.vnodes_leading + stats.vnodes_replica, LAB_VNODES);
        assert_int_equal(stats.vnodes_recovering + stats.quorum.vnodes, 0);
        deciding += stats.vnodes_leading;
    }
    assert_int_equal(deciding, LAB_VNODES);
    lab_stop(lab, 1);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab, 0).vnodes_leading + lab_stats(lab, 2).vnodes_leading,
                     LAB_VNODES);
}

/* At the end each policy that the shard was lent is given back, once. */
static void all_rules_are_given_back_at_the_end(void **state)
{
    struct lab *lab = *state;
    struct shard *shard = lab->shards[0].shard;
    const struct policy *first = lab_rules(lab, "rules: []\n");
    const struct policy *second =
        lab_rules(lab, "rules:\n- {name: r, key: [user], limits: [{rate: 1/h}]}\n");
    bool seen[3] = {false, false, false};
    const struct policy *policy;
    while ((policy = shard_policy_take(shard)) != NULL) {
        const size_t which = policy == first ? 0 : policy == second ? 1 : 2;
        assert_true(which < 2 || policy == policy_empty());
        assert_false(seen[which]);
        seen[which] = true;
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    assert_null(shard_policy_unused(shard));
    lab_stop(lab, 0); /* without rules it answers nothing any more */
}

/* ---- an orderly end -------------------------------------------------------------------------- */

static bool resign(struct lab *lab, uint32_t at)
{
    const bool done = shard_resign(lab->shards[at].shard, lab->now_ns, &lab->effects);
    lab_perform(lab, at);
    return done;
}

/* Who stops waits until the replicas decide, and for nobody when there is none. */
static void a_resigning_shard_waits_for_the_living_alone(void **state)
{
    struct lab *lab = *state;
    uint32_t turns = 0;
    assert_false(resign(lab, 0));
    while (!resign(lab, 0)) {
        assert_true(++turns < 1000);
        lab_run(lab, LAB_MS);
    }
    assert_int_equal(lab_stats(lab, 0).vnodes_leading, 0);
    lab_stop(lab, 0);
    lab_settle(lab);
    lab_stop(lab, 1);
    lab_settle(lab);
    assert_int_equal(lab_stats(lab, 2).vnodes_leading, LAB_VNODES);
    assert_true(resign(lab, 2)); /* there is nobody to pass to */
}

/* VNODES-10: who has passed everything on has its sockets closed while it writes. That it hears
 * nobody then is no reason to take anything over. */
static void who_has_passed_everything_on_takes_nothing_over(void **state)
{
    struct lab *lab = *state;
    uint32_t turns = 0;
    while (!resign(lab, 0)) {
        assert_true(++turns < 1000);
        lab_run(lab, LAB_MS);
    }
    lab->cut[1][0] = true;
    lab->cut[2][0] = true;
    for (turns = 0; turns < 500; turns++) {
        assert_true(resign(lab, 0));
        lab_run(lab, LAB_MS);
        assert_int_equal(lab_stats(lab, 0).vnodes_leading, 0);
    }
    assert_int_equal(lab_stats(lab, 1).vnodes_leading + lab_stats(lab, 2).vnodes_leading,
                     LAB_VNODES);
}

/* Its clients are left as soon as they have their answers, and not before: who would wait for long
 * is told sooner that nobody decides. */
static void who_has_resigned_answers_soon_whatever_it_waits_for(void **state)
{
    enum { PATIENCE_MS = 10000 };
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t decider = lab_vnode_owned(lab, 1);
    char key[LAB_KEY_LEN];
    lab_key(lab, decider, 0, key);
    lab->drop_type = PEER_ANSWER; /* the others live, and none is heard to decide */
    lab_ask(lab, &limit, key, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, 0, PATIENCE_MS);
    const int64_t asked_ns = lab->now_ns;
    int64_t resigned_ns = 0;
    while (!lab_answered(lab, seq)) {
        const bool done = resign(lab, 0);
        if (done && resigned_ns == 0)
            resigned_ns = lab->now_ns;
        lab_run(lab, LAB_MS);
        assert_true(lab->now_ns - asked_ns < PATIENCE_MS * LAB_MS / 2);
    }
    assert_true(resigned_ns != 0);
    assert_in_range(lab->now_ns - resigned_ns, SHARD_LEAVE_NS - 10 * LAB_MS,
                    SHARD_LEAVE_NS + 100 * LAB_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_cannot_work_are_refused),
        cmocka_unit_test(a_start_without_memory_leaves_nothing_behind),
        LAB_TEST_THREE(a_running_shard_asks_for_no_memory),
        LAB_TEST_THREE(an_own_pause_is_told_from_the_silence_of_others),
        LAB_TEST_THREE(time_never_goes_back),
        LAB_TEST_THREE(unread_frames_keep_their_senders_alive),
        LAB_TEST_THREE(the_deadline_is_that_of_the_most_urgent_work),
        LAB_TEST_THREE(a_frame_of_an_ended_process_has_no_effect),
        LAB_TEST_THREE(a_copy_of_an_unknown_process_has_no_effect),
        LAB_TEST_THREE(a_frame_of_a_stranger_has_no_effect),
        LAB_TEST_THREE(bad_frames_are_counted_and_change_nothing_behind_the_fault),
        LAB_TEST_THREE(records_of_a_split_are_refused_in_the_plane_of_quorum),
        LAB_TEST_THREE(a_good_bye_is_not_answered),
        LAB_TEST_THREE(a_message_that_is_refused_is_counted_and_charges_nothing),
        cmocka_unit_test(an_epoch_is_settled_when_everything_has_arrived),
        cmocka_unit_test(a_silence_is_no_arrival),
        LAB_TEST_THREE(every_vnode_is_counted_in_one_role),
        LAB_TEST_THREE(all_rules_are_given_back_at_the_end),
        LAB_TEST_THREE(a_resigning_shard_waits_for_the_living_alone),
        LAB_TEST_THREE(who_has_passed_everything_on_takes_nothing_over),
        LAB_TEST_THREE(who_has_resigned_answers_soon_whatever_it_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_route_pending.c - checks that wait for a peer, a term or the disk, and what is given back.
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

static int set_up_two(void **state)
{
    struct lab *lab = lab_new(2, 1, 1);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

/* Node 0 runs; nodes 1 and 2 are ghosts. */
static int set_up_ghosts(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    lab_start(lab, 0);
    lab_run(lab, 50 * LAB_MS);
    *state = lab;
    return 0;
}

static int set_up_shards(void **state)
{
    struct lab *lab = lab_new(1, 2, 1);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

/* A key of a vnode that shard `at` owns. */
static void key_of(const struct lab *lab, uint32_t at, char out[LAB_KEY_LEN])
{
    lab_key(lab, lab_vnode_owned(lab, at), 0, out);
}

/* A check goes to the one who decides, and the answer names that node. */
static void a_check_is_forwarded_to_its_decider(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[LAB_KEY_LEN];
    struct peer_record record;
    key_of(lab, 1, key);
    lab_forget(lab);
    const struct wire_decision decision = lab_check(lab, 0, key, &limit, 4);
    assert_true(decision.allowed && decision.used == 4 && decision.remaining == 6);
    assert_true(lab_text_is(decision.source->node, "n1"));
    assert_true(lab_text_is(decision.source->window, "10/h"));
    assert_int_equal(lab_stats(lab, 0).forwarded, 1);
    assert_int_equal(lab_stats(lab, 1).checks, 1);
    assert_int_equal(lab_said(lab, 0, 1, PEER_FORWARD, &record), 1);
    assert_int_equal(record.forward.flags & FORWARD_RETRY, 0);
    assert_int_equal(lab_used(lab, 1, key, &limit), 4);
}

/* The shards of one node forward to each other as nodes do. */
static void shards_of_one_node_forward_to_each_other(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++) {
        char key[LAB_KEY_LEN];
        lab_key(lab, vnode, 0, key);
        assert_int_equal(lab_check(lab, 0, key, &limit, 1).used, 1);
        assert_int_equal(lab_check(lab, 1, key, &limit, 1).used, 2);
    }
    assert_int_equal(lab_stats(lab, 0).forwarded, LAB_VNODES / 2);
    assert_int_equal(lab_stats(lab, 1).forwarded, LAB_VNODES / 2);
}

/* A forward whose answer was lost is repeated, and the leader charges it once. */
static void a_forward_without_an_answer_is_repeated_and_charged_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[LAB_KEY_LEN];
    struct peer_record record;
    key_of(lab, 1, key);
    lab_forget(lab);
    lab->drop_type = PEER_ANSWER;
    lab_ask(lab, &limit, key, OPERATION_CHECK, 3);
    const uint64_t seq = lab_send(lab, 0, 2000);
    lab_run(lab, 250 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    lab->drop_type = 0;
    assert_int_equal(lab_answer(lab, seq, 0).granted, 3);
    assert_true(lab_said(lab, 0, 1, PEER_FORWARD, &record) >= 3);
    assert_true((record.forward.flags & FORWARD_RETRY) != 0);
    assert_true(lab_stats(lab, 1).retries_recalled >= 1);
    assert_int_equal(lab_used(lab, 0, key, &limit), 3);
    assert_int_equal(lab_answers(lab, seq), 1);
}

/* A lost forward is repeated as well, and then it is the first that the leader sees. */
static void a_forward_that_was_lost_is_repeated(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    char key[LAB_KEY_LEN];
    key_of(lab, 1, key);
    lab->drop_type = PEER_FORWARD;
    lab_ask(lab, &limit, key, OPERATION_CHECK, 3);
    const uint64_t seq = lab_send(lab, 0, 2000);
    lab_run(lab, 150 * LAB_MS);
    lab->drop_type = 0;
    assert_int_equal(lab_answer(lab, seq, 0).used, 3);
    assert_int_equal(lab_stats(lab, 1).retries_recalled, 0);
}

/* Who is not the leader says so, with the term that tells who is. */
static void a_forward_to_the_wrong_node_is_answered_moved(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_owned(lab, 1);
    const struct limit limit = lab_limit(10);
    struct forward forward = {.ticket = 88, .limit_count = 1, .cost = 1, .vnode = vnode};
    struct peer_record record;
    forward.limits[0] = limit;
    lab_forget(lab);
    peer_put_forward(&lab->records, &forward);
    lab_speak(lab, 1, 0);
    lab_tick(lab, 0);
    assert_int_equal(lab_said(lab, 0, 1, PEER_MOVED, &record), 1);
    assert_int_equal(record.moved.ticket, 88);
    assert_int_equal(record.moved.vnode, vnode);
    assert_true(record.moved.term.writer == lab->shards[1].node && record.moved.term.number > 0);
    assert_int_equal(lab_stats(lab, 0).moved, 1);
}

/* ---- ghosts ---------------------------------------------------------------------------------- */

/* Asks node 0 for a key of ghost 1 and returns the forward's ticket. */
static uint64_t forward_to_ghost(struct lab *lab, const struct limit *limit, uint32_t timeout_ms,
                                 uint64_t *seq)
{
    char key[LAB_KEY_LEN];
    struct peer_record record;
    key_of(lab, 1, key);
    lab_forget(lab);
    lab_ask(lab, limit, key, OPERATION_CHECK, 1);
    *seq = lab_send(lab, 0, timeout_ms);
    lab_run(lab, 2 * LAB_MS);
    assert_int_equal(lab_said(lab, 0, 1, PEER_FORWARD, &record), 1);
    return record.forward.ticket;
}

static void answer_from(struct lab *lab, uint32_t ghost, uint64_t ticket, uint64_t used)
{
    const struct answer answer = {.status = ANSWER_DECIDED,
                                  .allowed = true,
                                  .limit = 10,
                                  .used = used,
                                  .remaining = 10 - used,
                                  .granted = 1};
    peer_put_answer(&lab->records, ticket, &answer);
    lab_speak(lab, ghost, 0);
}

/* A ticket names a part and its generation: what answers an older one meets nothing. */
static void an_answer_that_comes_too_late_meets_nothing(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    uint64_t first;
    uint64_t second;
    const uint64_t old = forward_to_ghost(lab, &limit, 50, &first);
    assert_int_equal(lab_answer(lab, first, 0).outcome, OUTCOME_ERROR);
    const uint64_t ticket = forward_to_ghost(lab, &limit, 500, &second);
    assert_int_equal((uint32_t)ticket, (uint32_t)old); /* the same place, used again */
    answer_from(lab, 1, old, 7);
    assert_false(lab_answered(lab, second));
    answer_from(lab, 1, ticket ^ 1, 7);
    answer_from(lab, 1, UINT64_MAX, 7);
    assert_false(lab_answered(lab, second));
    answer_from(lab, 1, ticket, 4);
    assert_true(lab_answered(lab, second));
    assert_int_equal(lab_answer(lab, second, 0).used, 4);
    answer_from(lab, 1, ticket, 5);
    assert_int_equal(lab_answers(lab, second), 1);
    assert_int_equal(lab_answers(lab, first), 1);
}

/* A limit that the answer names but the check did not have does no harm. */
static void an_answer_about_a_limit_that_was_not_asked_is_harmless(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const struct answer answer = {.status = ANSWER_DECIDED, .allowed = true, .limit_index = 7};
    uint64_t seq;
    const uint64_t ticket = forward_to_ghost(lab, &limit, 500, &seq);
    peer_put_answer(&lab->records, ticket, &answer);
    lab_speak(lab, 1, 0);
    assert_true(lab_answered(lab, seq));
}

/* MOVED names the newer term: the check follows it at once, as a retry. */
static void a_moved_check_follows_to_the_new_decider(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_owned(lab, 1);
    const struct term term = {1, 9, lab->shards[2].node};
    struct peer_record record;
    uint64_t seq;
    const uint64_t ticket = forward_to_ghost(lab, &limit, 500, &seq);
    peer_put_moved(&lab->records, ticket, vnode, &term);
    lab_speak(lab, 1, 0);
    lab_tick(lab, 0);
    assert_int_equal(lab_said(lab, 0, 2, PEER_FORWARD, &record), 1);
    assert_true((record.forward.flags & FORWARD_RETRY) != 0);
    answer_from(lab, 2, record.forward.ticket, 2);
    assert_true(lab_text_is(lab_answer(lab, seq, 0).source->node, "n2"));
}

/* A MOVED that tells nothing new does not make the two play ping-pong within one instant. */
static void a_moved_that_tells_nothing_new_waits_before_it_is_sent_again(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const uint32_t vnode = lab_vnode_owned(lab, 1);
    const struct term none = {0, 0, 0};
    uint64_t seq;
    peer_put_ping(&lab->records, &(struct peer_ping){.sent_ns = lab->now_ns});
    lab_speak(lab, 1, 0);
    const uint64_t ticket = forward_to_ghost(lab, &limit, 500, &seq);
    peer_put_moved(&lab->records, ticket, vnode, &none);
    lab_speak(lab, 1, 0);
    lab_tick(lab, 0);
    assert_int_equal(lab_said(lab, 0, 1, PEER_FORWARD, NULL), 1);
    lab_run(lab, 12 * LAB_MS);
    assert_int_equal(lab_said(lab, 0, 1, PEER_FORWARD, NULL), 2);
}

/* A leader that has no room says busy, and so does the node that was asked. */
static void a_busy_decider_makes_the_answer_busy(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    const struct answer busy = {.status = ANSWER_BUSY};
    uint64_t seq;
    const uint64_t ticket = forward_to_ghost(lab, &limit, 500, &seq);
    peer_put_answer(&lab->records, ticket, &busy);
    lab_speak(lab, 1, 0);
    assert_true(lab_answered(lab, seq));
    assert_int_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_BUSY);
}

/* ---- forwards that wait here ----------------------------------------------------------------- */

/* Node 0 and ghosts 1, 2 with two replicas each; node 0 waits for what the ghosts hold. */
static int set_up_recovering(void **state)
{
    struct lab *lab = lab_new(3, 1, 2);
    lab_start(lab, 0);
    lab_run(lab, 10 * LAB_MS);
    *state = lab;
    return 0;
}

/* A vnode that node 0 prefers to decide, with ghost 1 as its replica. */
static uint32_t shared_vnode(const struct lab *lab)
{
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        if (lab_replica(lab, vnode, 0) == 0 && lab_replica(lab, vnode, 1) == 1)
            return vnode;
    fail_msg("no vnode is shared by nodes 0 and 1");
    return 0;
}

static void put_forward(struct lab *lab, uint32_t vnode, uint64_t ticket)
{
    struct forward forward = {.ticket = ticket, .limit_count = 1, .cost = 2, .vnode = vnode};
    forward.retry.seq = ticket; /* another request, not a repetition of one */
    forward.limits[0] = lab_limit(10);
    forward.ids[0] = (struct hash128){ticket, 1};
    peer_put_forward(&lab->records, &forward);
    lab_speak(lab, 2, 0);
}

/* While nobody may decide, a peer's forward waits here and is answered once somebody may. */
static void a_peers_forward_waits_for_the_term(void **state)
{
    struct lab *lab = *state;
    struct peer_record record;
    const uint32_t vnode = shared_vnode(lab);
    put_forward(lab, vnode, 31);
    lab_run(lab, 900 * LAB_MS);
    assert_int_equal(lab_said(lab, 0, 2, PEER_ANSWER, NULL), 0);
    put_forward(lab, vnode, 32);
    lab_run(lab, 200 * LAB_MS); /* the grace for the ghosts has ended */
    assert_int_equal(lab_role(lab, 0, vnode), SHARD_LEADING);
    assert_true(lab_said(lab, 0, 2, PEER_ANSWER, &record) >= 1);
    assert_true(record.answer.ticket == 32 || record.answer.ticket == 31);
    assert_int_equal(record.answer.answer.status, ANSWER_DECIDED);
    assert_true(record.answer.answer.allowed && record.answer.answer.used == 2);
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
}

/* A peer's forward never travels on: when another decides, its sender is told so. */
static void a_peers_forward_that_waited_is_answered_moved(void **state)
{
    struct lab *lab = *state;
    struct peer_record record;
    const uint32_t vnode = shared_vnode(lab);
    const struct peer_vnode opened = {
        .vnode = vnode, .role = ROLE_LEADING, .term = {1, 5, lab->shards[1].node}};
    put_forward(lab, vnode, 31);
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, 1, 0);
    lab_tick(lab, 0);
    assert_int_equal(lab_said(lab, 0, LAB_NONE, PEER_FORWARD, NULL), 0);
    assert_int_equal(lab_said(lab, 0, 2, PEER_MOVED, &record), 1);
    assert_int_equal(record.moved.ticket, 31);
    assert_int_equal(record.moved.term.writer, lab->shards[1].node);
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
}

/* ---- giving back ----------------------------------------------------------------------------- */

/* Two rules whose counters are on different nodes: by-user on node 0, by-ip on node 1. */
struct apart {
    char user[LAB_KEY_LEN];
    char host[LAB_KEY_LEN];
};

static void make_apart(struct lab *lab, struct apart *apart)
{
    lab_rules(lab,
              "rules:\n"
              "- {name: by-user, key: [user], limits: [{rate: 1/h, algorithm: fixed_window}]}\n"
              "- {name: by-host, key: [host], limits: [{rate: 20/h, algorithm: fixed_window}]}\n");
    lab_attribute(lab, "by-user", "user", 0, apart->user);
    lab_attribute(lab, "by-host", "host", 1, apart->host);
}

static uint64_t ask_both(struct lab *lab, const struct apart *apart)
{
    const char *const attributes[] = {apart->user, apart->host, NULL};
    lab_ask_attributes(lab, 1, attributes);
    return lab_send(lab, 0, 2000);
}

static uint64_t host_used(struct lab *lab, const struct apart *apart)
{
    const char *const attributes[] = {apart->host, NULL};
    lab_ask_attributes(lab, 0, attributes);
    return lab_answer(lab, lab_send(lab, 1, 2000), 0).used;
}

/* A request that one owner denies keeps nothing of what another granted it. */
static void a_denial_gives_back_what_other_owners_granted(void **state)
{
    struct lab *lab = *state;
    struct apart apart;
    make_apart(lab, &apart);
    assert_true(lab_answer(lab, ask_both(lab, &apart), 0).allowed);
    assert_int_equal(host_used(lab, &apart), 1);
    for (int i = 0; i < 3; i++) {
        const struct wire_decision decision = lab_answer(lab, ask_both(lab, &apart), 0);
        assert_false(decision.allowed);
        assert_true(lab_text_is(decision.source->rule, "by-user"));
    }
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(host_used(lab, &apart), 1);
    assert_int_equal(lab_stats(lab, 0).undone, 3);
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
}

/* A forward that a node sent again is no attempt of somebody else: what it was told of is given
 * back. A client's repetition is one, and keeps what it was told of. */
static void a_forward_that_was_sent_again_claims_nothing(void **state)
{
    struct lab *lab = *state;
    struct apart apart;
    make_apart(lab, &apart);
    assert_true(lab_answer(lab, ask_both(lab, &apart), 0).allowed);
    assert_int_equal(host_used(lab, &apart), 1);
    lab->drop_type = PEER_ANSWER;
    const uint64_t seq = ask_both(lab, &apart);
    lab_run(lab, 250 * LAB_MS);
    assert_true(lab_stats(lab, 1).retries_recalled > 0);
    lab->drop_type = 0;
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 1);
    assert_int_equal(host_used(lab, &apart), 1);
}

/* A node's forward was lost, and its client asked again through another node: what the forward is
 * told when it is sent again belongs to that attempt, and is not given back by this one. */
static void a_forward_that_comes_late_does_not_give_back_what_another_attempt_holds(void **state)
{
    struct lab *lab = lab_new(3, 1, 1);
    struct apart apart;
    (void)state;
    lab_start_all(lab);
    make_apart(lab, &apart);
    lab_attribute(lab, "by-user", "user", 2, apart.user);
    lab->cut[0][2] = true; /* so this one finds no user, and says that it cannot tell */
    lab->drop_type = PEER_FORWARD;
    const char *const attributes[] = {apart.user, apart.host, NULL};
    lab_ask_attributes(lab, 1, attributes);
    const uint64_t seq = lab_send(lab, 0, 250);
    lab_run(lab, 10 * LAB_MS);
    lab->drop_type = 0;
    lab_ask_attributes(lab, 1, attributes);
    lab_send_again(lab, 1, seq, 2000);
    lab_run(lab, 10 * LAB_MS);
    assert_true(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 500 * LAB_MS);
    assert_true(lab_stats(lab, 1).retries_recalled > 0);
    assert_int_equal(lab_stats(lab, 0).undone, 1);
    assert_int_equal(host_used(lab, &apart), 1);
    lab_free(lab);
}

/* Says a forward of ghost 1 about one key, and gives what is used then. */
static uint64_t say(struct lab *lab, struct forward *forward)
{
    struct peer_record record;
    forward->limit_count = 1;
    forward->vnode = lab_vnode_owned(lab, 0);
    forward->limits[0] = lab_limit(100);
    forward->ids[0] = (struct hash128){77, 1};
    peer_put_forward(&lab->records, forward);
    lab_speak(lab, 1, 0);
    lab_run(lab, 10 * LAB_MS);
    assert_true(lab_said(lab, 0, 1, PEER_ANSWER, &record) >= 1);
    assert_int_equal(record.answer.ticket, forward->ticket);
    return record.answer.answer.used;
}

/* A request of its own. */
static uint64_t used_after(struct lab *lab, uint64_t ticket, uint8_t operation, uint8_t flags)
{
    struct forward forward = {.ticket = ticket, .cost = 2, .operation = operation, .flags = flags};
    forward.retry.seq = ticket;
    return say(lab, &forward);
}

/* A check of one token by rules of that version, under that limit. */
static struct answer answer_by_rules(struct lab *lab, uint64_t ticket, uint64_t rules,
                                     const struct limit *limit)
{
    struct peer_record record;
    struct forward forward = {.ticket = ticket, .cost = 1, .rules = rules, .limit_count = 1};
    forward.retry.seq = ticket;
    forward.vnode = lab_vnode_owned(lab, 0);
    forward.limits[0] = *limit;
    forward.ids[0] = (struct hash128){78, 1};
    peer_put_forward(&lab->records, &forward);
    lab_speak(lab, 1, 0);
    lab_run(lab, LAB_MS);
    assert_true(lab_said(lab, 0, 1, PEER_ANSWER, &record) >= 1);
    assert_int_equal(record.answer.ticket, ticket);
    return record.answer.answer;
}

/* A node that lacks an edit of the rules asks in turn with one that has it: what was consumed
 * drains as the newer rules say, and is not converted back and forth (DECIDE-15). */
static void a_forward_by_older_rules_converts_nothing(void **state)
{
    struct lab *lab = *state;
    const struct limit slow = {
        .count = 2, .window_ns = 3600000000000, .algorithm = ALGORITHM_FIXED_WINDOW};
    const struct limit fast = {
        .count = 2, .window_ns = 1000000000, .algorithm = ALGORITHM_FIXED_WINDOW};
    for (uint64_t ticket = 1; ticket <= 2; ticket++)
        assert_true(answer_by_rules(lab, ticket, 7, &slow).allowed);
    assert_false(answer_by_rules(lab, 3, 9, &fast).allowed); /* and converts */
    assert_false(answer_by_rules(lab, 4, 7, &slow).allowed); /* and does not convert back */
    lab_run(lab, 1000 * LAB_MS);
    assert_true(answer_by_rules(lab, 5, 9, &fast).allowed);
    assert_true(answer_by_rules(lab, 6, 11, &slow).allowed); /* newer still: it does */
    lab_run(lab, 1000 * LAB_MS);
    assert_false(answer_by_rules(lab, 7, 11, &slow).allowed);
}

/* An attempt at the part of a request of several, which takes 2 / its undo. */
static uint64_t used_after_part(struct lab *lab, uint64_t ticket, uint8_t flags)
{
    struct forward forward = {.ticket = ticket, .cost = 2, .flags = flags | FORWARD_SEVERAL};
    forward.retry.seq = 1000;
    forward.retry.part = 1;
    return say(lab, &forward);
}

static uint64_t used_after_undo(struct lab *lab, uint64_t ticket, uint64_t attempt, uint64_t keep,
                                uint8_t flags)
{
    struct forward forward = {.ticket = ticket,
                              .cost = keep,
                              .operation = OPERATION_REFUND,
                              .attempt = retry_attempt(lab->shards[1].node, attempt),
                              .flags = flags | FORWARD_SEVERAL};
    forward.retry.seq = 1000;
    forward.retry.part = 1 | RETRY_UNDO;
    return say(lab, &forward);
}

/* What gives back acts once, though its first copy comes behind the one that was sent again; and
 * once for each attempt, though another one has done the same. */
static void a_give_back_that_comes_behind_its_repetition_acts_once(void **state)
{
    struct lab *lab = *state;
    lab_run(lab, 1200 * LAB_MS);
    assert_int_equal(lab_role(lab, 0, lab_vnode_owned(lab, 0)), SHARD_LEADING);
    assert_int_equal(used_after(lab, 1, OPERATION_CHECK, 0), 2);
    assert_int_equal(used_after(lab, 2, OPERATION_CHECK, 0), 4);
    assert_int_equal(used_after(lab, 3, OPERATION_CHECK, 0), 6);
    assert_int_equal(used_after_part(lab, 4, 0), 8);
    assert_int_equal(used_after_undo(lab, 5, 4, 0, FORWARD_RETRY), 6);
    assert_int_equal(used_after_undo(lab, 5, 4, 0, 0), 6);
    assert_int_equal(used_after_part(lab, 6, FORWARD_RETRY), 8);
    assert_int_equal(used_after_undo(lab, 7, 6, 0, FORWARD_RETRY), 6);
    assert_int_equal(used_after_undo(lab, 7, 6, 0, 0), 6);
    assert_int_equal(used_after_undo(lab, 5, 4, 0, FORWARD_RETRY), 6);
    /* So does what a client gives back. */
    assert_int_equal(used_after(lab, 8, OPERATION_REFUND, FORWARD_RETRY), 4);
    assert_int_equal(used_after(lab, 8, OPERATION_REFUND, 0), 4);
}

/* An undo of nothing that is known is counted: once, and also when its first copy never came. One
 * that was done and comes again is not. */
static void an_undo_of_what_is_not_known_is_counted_once(void **state)
{
    struct lab *lab = *state;
    lab_run(lab, 1200 * LAB_MS);
    assert_int_equal(used_after_undo(lab, 1, 2, 0, FORWARD_RETRY), 0);
    assert_int_equal(lab_stats(lab, 0).undo_unknown, 1);
    assert_int_equal(used_after_undo(lab, 1, 2, 0, FORWARD_RETRY), 0);
    assert_int_equal(lab_stats(lab, 0).undo_unknown, 1);
    assert_int_equal(used_after_part(lab, 3, 0), 2);
    assert_int_equal(used_after_undo(lab, 4, 3, 0, 0), 0);
    assert_int_equal(used_after_undo(lab, 4, 3, 0, FORWARD_RETRY), 0);
    assert_int_equal(lab_stats(lab, 0).undo_unknown, 1);
}

/* An undo is for its own attempt: one that was never told of a grant takes nothing from those who
 * were, and what two hold goes back when both give it up. */
static void an_undo_takes_nothing_that_another_attempt_holds(void **state)
{
    struct lab *lab = *state;
    lab_run(lab, 1200 * LAB_MS);
    assert_int_equal(used_after_undo(lab, 1, 2, 0, 0), 0);
    assert_int_equal(used_after_part(lab, 3, 0), 2);
    assert_int_equal(used_after_undo(lab, 4, 2, 0, 0), 2);
    assert_int_equal(lab_stats(lab, 0).undo_unknown, 1);
    assert_int_equal(used_after_part(lab, 5, FORWARD_RETRY), 2);
    assert_int_equal(used_after_undo(lab, 6, 3, 0, 0), 2);
    assert_int_equal(used_after_undo(lab, 6, 3, 0, FORWARD_RETRY), 2);
    assert_int_equal(used_after_undo(lab, 7, 5, 0, 0), 0);
    assert_int_equal(used_after_undo(lab, 7, 5, 0, FORWARD_RETRY), 0);
}

/* What a request was granted too much of is given back once, however often that is said. */
static void an_undo_can_keep_a_part(void **state)
{
    struct lab *lab = *state;
    lab_run(lab, 1200 * LAB_MS);
    assert_int_equal(used_after_part(lab, 1, 0), 2);
    assert_int_equal(used_after_undo(lab, 2, 1, 1, 0), 1);
    assert_int_equal(used_after_undo(lab, 2, 1, 1, FORWARD_RETRY), 1);
    assert_int_equal(used_after_part(lab, 1, FORWARD_RETRY), 1);
    assert_int_equal(used_after_undo(lab, 3, 1, 0, 0), 0);
}

/* A give-back that is lost, or whose acknowledgement is, is repeated, and acts once. */
static void a_give_back_is_repeated_until_it_is_acknowledged(void **state)
{
    struct lab *lab = *state;
    struct apart apart;
    make_apart(lab, &apart);
    (void)lab_answer(lab, ask_both(lab, &apart), 0);
    const char *const host_only[] = {apart.host, NULL};
    lab_ask_attributes(lab, 5, host_only);
    assert_int_equal(lab_answer(lab, lab_send(lab, 1, 2000), 0).used, 6);
    assert_false(lab_answer(lab, ask_both(lab, &apart), 0).allowed);
    lab->drop_type = PEER_FORWARD;
    lab_run(lab, 250 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 0);
    lab->drop_type = PEER_ANSWER;
    lab_run(lab, 250 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 0);
    lab->drop_type = 0;
    lab_run(lab, 250 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undone, 1);
    assert_int_equal(host_used(lab, &apart), 6);
}

/* A give-back that finds nobody for five seconds is given up, and counted. */
static void a_give_back_that_finds_nobody_is_counted_as_lost(void **state)
{
    struct lab *lab = *state;
    struct apart apart;
    make_apart(lab, &apart);
    (void)lab_answer(lab, ask_both(lab, &apart), 0);
    assert_false(lab_answer(lab, ask_both(lab, &apart), 0).allowed);
    lab_stop(lab, 1);
    lab_run(lab, 4900 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undo_lost, 0);
    lab_run(lab, 200 * LAB_MS);
    assert_int_equal(lab_stats(lab, 0).undo_lost, 1);
    assert_int_equal(lab_stats(lab, 0).checks_pending, 0);
}

/* ---- the disk -------------------------------------------------------------------------------- */

/* What the disk holds of one key. */
struct stored {
    char key[LAB_KEY_LEN];
    uint32_t vnode;
    struct hash128 id;
    uint8_t state[256];
    size_t len;
};

static void export_key(struct lab *lab, const struct limit *limit, struct stored *stored)
{
    (void)snprintf(stored->key, sizeof stored->key, "k");
    stored->vnode = lab_vnode_of(lab, stored->key);
    stored->id = lab_slot_of(lab, stored->key, limit->algorithm);
    lab_start_all(lab);
    assert_int_equal(lab_check(lab, 0, stored->key, limit, 3).used, 3);
    const int len =
        probe_slot(lab->shards[0].shard, stored->id, stored->state, sizeof stored->state);
    assert_true(len > 0);
    stored->len = (size_t)len;
    lab_stop(lab, 0);
}

/* Restarts the node with so much on its disk that memory does not take the key as well. */
static void restart_full(struct lab *lab, const struct stored *stored)
{
    struct shard *shard;
    uint8_t none[1];
    lab->large = true;
    lab_create(lab, 0);
    shard = lab->shards[0].shard;
    for (uint64_t i = 1; i <= 120000; i++)
        assert_int_equal(shard_restore_slot(shard, (uint32_t)(i % LAB_VNODES),
                                            (struct hash128){hash_mix64(i), i}, stored->state,
                                            stored->len, lab->now_ns),
                         0);
    assert_int_equal(shard_restore_slot(shard, stored->vnode, stored->id, stored->state,
                                        stored->len, lab->now_ns),
                     0);
    assert_int_equal(probe_slot(shard, stored->id, none, sizeof none), 0);
    lab_view_all(lab);
    lab_settle(lab);
}

static int set_up_stored(void **state)
{
    static struct stored stored;
    const struct limit limit = lab_limit(10);
    struct lab *lab = lab_new(1, 1, 1);
    export_key(lab, &limit, &stored);
    restart_full(lab, &stored);
    lab->context = &stored;
    *state = lab;
    return 0;
}

static void loaded(struct lab *lab, int result)
{
    const struct stored *stored = lab->context;
    shard_loaded(lab->shards[0].shard, lab->now_ns, stored->vnode, stored->id, result,
                 result == 0 ? stored->state : NULL, result == 0 ? stored->len : 0, &lab->effects);
    lab_perform(lab, 0);
}

/* The slot leaves memory; it is on disk. */
static void evict(struct table *table, const struct stored *slot)
{
    table_drop(table, table_lookup(table, slot->id));
    table_filter_add(table, slot->vnode, slot->id);
}

static uint64_t ask_stored(struct lab *lab)
{
    const struct stored *stored = lab->context;
    const struct limit limit = lab_limit(10);
    lab_ask(lab, &limit, stored->key, OPERATION_CHECK, 1);
    return lab_send(lab, 0, 1000);
}

/* A key that may be on disk is fetched, once for all who ask, and then decided on what it was. */
static void a_check_waits_for_its_slot_from_disk(void **state)
{
    struct lab *lab = *state;
    const struct stored *stored = lab->context;
    const uint64_t first = ask_stored(lab);
    const uint64_t second = ask_stored(lab);
    assert_false(lab_answered(lab, first) || lab_answered(lab, second));
    assert_int_equal(lab->load_count, 1);
    assert_int_equal(lab->loads[0].vnode, stored->vnode);
    assert_true(hash128_equal(lab->loads[0].id, stored->id));
    loaded(lab, 0);
    assert_int_equal(lab_answer(lab, first, 0).used + lab_answer(lab, second, 0).used, 4 + 5);
    assert_int_equal(lab_answer(lab, ask_stored(lab), 0).used, 6);
    assert_int_equal(lab->load_count, 1);
    assert_int_equal(lab_stats(lab, 0).loads, 1);
}

/* The filter may be wrong: what the disk does not hold is a new key. */
static void a_key_that_is_not_on_disk_is_new(void **state)
{
    struct lab *lab = *state;
    const uint64_t seq = ask_stored(lab);
    loaded(lab, TG_ENOTFOUND);
    assert_int_equal(lab_answer(lab, seq, 0).used, 1);
}

/* A disk that fails makes the check an error, not a key without a past. */
static void a_disk_that_fails_decides_nothing(void **state)
{
    struct lab *lab = *state;
    const uint64_t seq = ask_stored(lab);
    loaded(lab, TG_EIO);
    assert_true(lab_answered(lab, seq));
    assert_int_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_ERROR);
    const uint64_t again = ask_stored(lab);
    assert_int_equal(lab->load_count, 2);
    loaded(lab, 0);
    assert_int_equal(lab_answer(lab, again, 0).used, 4);
}

/* Two nodes, and a key whose slot its leader has on disk alone: 60 are used of 100. */
struct away {
    uint32_t leader;
    uint32_t other;
    struct stored stored;
};

static struct lab *lab_with_key_away(struct away *away)
{
    struct lab *lab = lab_new(2, 1, 2);
    const struct limit limit = lab_limit(100);
    struct stored *stored = &away->stored;
    lab_start_all(lab);
    (void)snprintf(stored->key, sizeof stored->key, "k");
    stored->vnode = lab_vnode_of(lab, stored->key);
    stored->id = lab_slot_of(lab, stored->key, limit.algorithm);
    away->leader = lab_replica(lab, stored->vnode, 0);
    away->other = lab_replica(lab, stored->vnode, 1);
    (void)lab_check(lab, away->leader, stored->key, &limit, 60);
    lab_run(lab, 50 * LAB_MS);
    struct shard *shard = lab->shards[away->leader].shard;
    const int len = probe_slot(shard, stored->id, stored->state, sizeof stored->state);
    assert_true(len > 0);
    stored->len = (size_t)len;
    table_drop(shard->table, table_lookup(shard->table, stored->id));
    table_filter_add(shard->table, stored->vnode, stored->id);
    return lab;
}

static void disk_answers(struct lab *lab, const struct away *away, int result)
{
    const struct stored *stored = &away->stored;
    shard_loaded(lab->shards[away->leader].shard, lab->now_ns, stored->vnode, stored->id, result,
                 stored->state, stored->len, &lab->effects);
    lab_perform(lab, away->leader);
    lab_run(lab, 50 * LAB_MS);
}

/* A forward and its repetition wait for the same slot: they are one, whichever is decided first. */
static void copies_that_wait_for_the_disk_count_once(void **state)
{
    const struct limit limit = lab_limit(100);
    (void)state;
    for (int refund = 0; refund < 2; refund++) {
        struct away away;
        struct lab *lab = lab_with_key_away(&away);
        lab_ask(lab, &limit, away.stored.key, refund ? OPERATION_REFUND : OPERATION_CHECK, 10);
        const uint64_t seq = lab_send(lab, away.other, 1000);
        lab_run(lab, 150 * LAB_MS); /* it is sent again after 100 */
        assert_int_equal(lab_stats(lab, away.other).resent, 1);
        disk_answers(lab, &away, 0);
        assert_true(lab_answered(lab, seq));
        assert_int_equal(lab_used(lab, away.leader, away.stored.key, &limit), refund ? 50 : 70);
        lab_free(lab);
    }
}

/* ROUTEPENDING-6: what the disk has may be of the past, and is not taken into memory: then the key
 * is new, and is not asked for again and again. */
static void a_key_of_the_past_on_disk_is_new(void **state)
{
    struct lab *lab = lab_new(1, 1, 1);
    struct stored stored = {.key = "k"};
    struct limit brief = lab_limit(10);
    (void)state;
    brief.window_ns = 200 * LAB_MS;
    lab_start_all(lab);
    stored.vnode = lab_vnode_of(lab, stored.key);
    stored.id = lab_slot_of(lab, stored.key, brief.algorithm);
    assert_int_equal(lab_check(lab, 0, stored.key, &brief, 9).used, 9);
    struct shard *shard = lab->shards[0].shard;
    const int len = probe_slot(shard, stored.id, stored.state, sizeof stored.state);
    assert_true(len > 0);
    lab_run(lab, 500 * LAB_MS);
    const uint32_t slot = table_lookup(shard->table, stored.id);
    if (slot != TABLE_NONE)
        table_drop(shard->table, slot);
    table_filter_add(shard->table, stored.vnode, stored.id);
    lab_ask(lab, &brief, stored.key, OPERATION_CHECK, 5);
    const uint64_t seq = lab_send(lab, 0, 1000);
    assert_int_equal(lab->load_count, 1);
    shard_loaded(shard, lab->now_ns, stored.vnode, stored.id, 0, stored.state, (size_t)len,
                 &lab->effects);
    lab_perform(lab, 0);
    lab_run(lab, 20 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    assert_int_equal(lab_answer(lab, seq, 0).used, 5);
    assert_int_equal(lab->load_count, 1);
    lab_free(lab);
}

/* ROUTEPENDING-5: what the disk said of a key is not believed later, when the check was kept
 * waiting by something else meanwhile: the key may have come, and have left memory again. */
static void a_check_that_waits_for_more_asks_the_disk_anew(void **state)
{
    const struct limit limit = lab_limit(100);
    struct away away;
    struct lab *lab = lab_with_key_away(&away);
    (void)state;
    lab_ask(lab, &limit, away.stored.key, OPERATION_CHECK, 10);
    const uint64_t seq = lab_send(lab, away.leader, 1000);
    lab_run(lab, LAB_MS);
    assert_int_equal(lab->load_count, 1);
    lab->cut[away.leader][away.other] = true;
    lab->cut[away.other][away.leader] = true;
    lab_run(lab, 85 * LAB_MS); /* its leases end before it finds the other one silent */
    shard_loaded(lab->shards[away.leader].shard, lab->now_ns, away.stored.vnode, away.stored.id,
                 TG_ENOTFOUND, NULL, 0, &lab->effects);
    lab_perform(lab, away.leader);
    assert_false(lab_answered(lab, seq));
    lab_run(lab, 100 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    assert_int_equal(lab->load_count, 2);
    disk_answers(lab, &away, 0);
    assert_int_equal(lab_answer(lab, seq, 0).used, 70);
    lab_free(lab);
}

/* Both slots of a rule are on disk. The first comes, and leaves memory again while the second is
 * read: it is loaded anew, and not taken for a new one. */
static void a_slot_that_left_memory_again_is_no_new_one(void **state)
{
    static const char rules[] =
        "rules:\n"
        "  - {name: two, match: {api: /two}, key: [user], limits: [\n"
        "      {rate: 10/d, algorithm: fixed_window}, {rate: 100/d, algorithm: sliding_window}]}\n";
    const char *attributes[] = {"api=/two", "user=ada", NULL};
    struct stored slots[2];
    struct lab *lab = *state;
    struct table *table = lab->shards[0].shard->table;
    uint32_t count = 0;
    (void)lab_rules(lab, rules);
    lab_ask_attributes(lab, 9, attributes);
    assert_true(lab_answer(lab, lab_send(lab, 0, 1000), 0).allowed);
    for (uint32_t slot = 0; slot < table_slots_end(table) && count < 2; slot++) {
        if (!table_slot_used(table, slot))
            continue;
        slots[count].vnode = table_slot_vnode(table, slot);
        slots[count].id = table_slot_id(table, slot);
        const int len = table_export(table, slot, slots[count].state, sizeof slots[count].state);
        assert_true(len > 0);
        slots[count++].len = (size_t)len;
    }
    assert_int_equal(count, 2);
    for (uint32_t i = 0; i < 2; i++)
        evict(table, &slots[i]);
    lab_ask_attributes(lab, 5, attributes);
    const uint64_t seq = lab_send(lab, 0, 1000);
    for (size_t asked = 0; asked < 4 && !lab_answered(lab, seq); asked++) {
        lab_run(lab, LAB_MS);
        assert_true(lab->load_count > asked);
        const bool second = hash128_equal(lab->loads[asked].id, slots[1].id);
        if (asked == 1)
            evict(table, &slots[!second]);
        shard_loaded(lab->shards[0].shard, lab->now_ns, slots[second].vnode, slots[second].id, 0,
                     slots[second].state, slots[second].len, &lab->effects);
        lab_perform(lab, 0);
    }
    assert_false(lab_answer(lab, seq, 0).allowed);
}

/* An answer of the disk to a question that nobody asked changes nothing. */
static void an_unasked_answer_of_the_disk_is_harmless(void **state)
{
    struct lab *lab = *state;
    loaded(lab, TG_ENOTFOUND);
    const uint64_t seq = ask_stored(lab);
    assert_false(lab_answered(lab, seq));
    loaded(lab, 0);
    assert_int_equal(lab_answer(lab, seq, 0).used, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(a_check_is_forwarded_to_its_decider, set_up_two),
        LAB_TEST(shards_of_one_node_forward_to_each_other, set_up_shards),
        LAB_TEST(a_forward_without_an_answer_is_repeated_and_charged_once, set_up_two),
        LAB_TEST(a_forward_that_was_lost_is_repeated, set_up_two),
        LAB_TEST(a_forward_to_the_wrong_node_is_answered_moved, set_up_two),
        LAB_TEST(an_answer_that_comes_too_late_meets_nothing, set_up_ghosts),
        LAB_TEST(an_answer_about_a_limit_that_was_not_asked_is_harmless, set_up_ghosts),
        LAB_TEST(a_moved_check_follows_to_the_new_decider, set_up_ghosts),
        LAB_TEST(a_moved_that_tells_nothing_new_waits_before_it_is_sent_again, set_up_ghosts),
        LAB_TEST(a_busy_decider_makes_the_answer_busy, set_up_ghosts),
        LAB_TEST(a_peers_forward_waits_for_the_term, set_up_recovering),
        LAB_TEST(a_peers_forward_that_waited_is_answered_moved, set_up_recovering),
        LAB_TEST(a_denial_gives_back_what_other_owners_granted, set_up_two),
        LAB_TEST(a_forward_that_was_sent_again_claims_nothing, set_up_two),
        cmocka_unit_test(a_forward_that_comes_late_does_not_give_back_what_another_attempt_holds),
        LAB_TEST(a_forward_by_older_rules_converts_nothing, set_up_ghosts),
        LAB_TEST(a_give_back_that_comes_behind_its_repetition_acts_once, set_up_ghosts),
        LAB_TEST(an_undo_of_what_is_not_known_is_counted_once, set_up_ghosts),
        LAB_TEST(an_undo_takes_nothing_that_another_attempt_holds, set_up_ghosts),
        LAB_TEST(an_undo_can_keep_a_part, set_up_ghosts),
        LAB_TEST(a_give_back_is_repeated_until_it_is_acknowledged, set_up_two),
        LAB_TEST(a_give_back_that_finds_nobody_is_counted_as_lost, set_up_two),
        LAB_TEST(a_check_waits_for_its_slot_from_disk, set_up_stored),
        LAB_TEST(a_key_that_is_not_on_disk_is_new, set_up_stored),
        LAB_TEST(a_disk_that_fails_decides_nothing, set_up_stored),
        cmocka_unit_test(copies_that_wait_for_the_disk_count_once),
        cmocka_unit_test(a_key_of_the_past_on_disk_is_new),
        cmocka_unit_test(a_check_that_waits_for_more_asks_the_disk_anew),
        LAB_TEST_ONE(a_slot_that_left_memory_again_is_no_new_one),
        LAB_TEST(an_unasked_answer_of_the_disk_is_harmless, set_up_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

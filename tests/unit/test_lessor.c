/* test_lessor.c - leases of tokens at their leaders: told when replicas know them, known to
 * whoever decides next, and not granted while one might be out that nobody knows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

static const char KEY[] = "hot";

#define LEASE_NS (LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS)

/* Long enough after a start that nobody learns any more. */
static void learn(struct lab *lab)
{
    lab_run(lab, LEASE_NS + 10 * LAB_MS);
}

static uint64_t ask_lease(struct lab *lab, uint32_t at, const struct limit *limit, uint64_t tokens,
                          uint32_t timeout_ms)
{
    lab_ask(lab, limit, KEY, OPERATION_LEASE, tokens);
    return lab_send(lab, at, timeout_ms);
}

static struct wire_decision lease(struct lab *lab, uint32_t at, const struct limit *limit,
                                  uint64_t tokens)
{
    return lab_answer(lab, ask_lease(lab, at, limit, tokens, 1000), 0);
}

static struct wire_decision end(struct lab *lab, uint32_t at, const struct limit *limit,
                                enum operation operation, uint64_t id, uint64_t used)
{
    lab_ask_used(lab, limit, KEY, (uint8_t)operation, id, used);
    return lab_answer(lab, lab_send(lab, at, 1000), 0);
}

static uint32_t leader(struct lab *lab)
{
    return lab_leader(lab, lab_vnode_of(lab, KEY));
}

static void cut_off(struct lab *lab, uint32_t at, bool cut)
{
    for (uint32_t other = 0; other < lab->count; other++)
        lab->cut[at][other] = lab->cut[other][at] = cut && other != at;
}

/* A lease is taken through any node, named and timed in the answer; what is out is used, a renewal
 * states what was used and lasts anew, a release gives the rest back, once. */
static void a_lease_is_taken_renewed_and_released(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    const struct wire_decision plain = lab_check(lab, 0, KEY, &limit, 10);
    learn(lab);
    assert_true(plain.allowed && plain.lease == 0);
    for (uint32_t at = 0; at < 3; at++) {
        const struct wire_decision got = lease(lab, at, &limit, 40);
        assert_true(got.allowed && got.granted == 40 && got.lease != 0);
        assert_true(got.lease_ms == 1000 && got.delay_ms == 0);
        assert_int_equal(got.used, 50 + 7 * at);
        assert_int_equal(lab_used(lab, (at + 1) % 3, KEY, &limit), 50 + 7 * at);
        assert_false(lab_check(lab, 0, KEY, &limit, 60).allowed);
        const struct wire_decision renewed =
            end(lab, (at + 1) % 3, &limit, OPERATION_RENEW, got.lease, 5);
        assert_true(renewed.allowed && renewed.granted == 35 && renewed.lease == got.lease);
        assert_int_equal(renewed.lease_ms, 1000);
        const struct wire_decision back =
            end(lab, (at + 2) % 3, &limit, OPERATION_RELEASE, got.lease, 7);
        assert_true(back.allowed && back.granted == 33 && back.lease == 0);
        assert_int_equal(back.used, 17 + 7 * at);
        assert_int_equal(end(lab, at, &limit, OPERATION_RELEASE, got.lease, 0).granted, 0);
        assert_false(end(lab, at, &limit, OPERATION_RENEW, got.lease, 0).allowed);
    }
    assert_int_equal(lab_stats(lab, leader(lab)).leases_tokens, 120);
    assert_int_equal(lab_stats(lab, leader(lab)).leases_back, 99);
}

/* Nobody hears of the holder any more: its tokens are spent. */
static void the_lease_of_a_dead_holder_is_spent(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const struct wire_decision got = lease(lab, 1, &limit, 40);
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(lab_used(lab, 0, KEY, &limit), 40);
    assert_int_equal(end(lab, 0, &limit, OPERATION_RELEASE, got.lease, 0).granted, 0);
    assert_int_equal(lab_used(lab, 0, KEY, &limit), 40);
}

/* Who is denied for what another one holds may be admitted as soon as that comes back: no client
 * may remember it, whichever node it asked. What no release can change it may. */
static void a_denial_for_what_is_out_is_not_remembered(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const struct wire_decision got = lease(lab, 1, &limit, 40);
    for (uint32_t at = 0; at < 3; at++) {
        const struct wire_decision denied = lab_check(lab, at, KEY, &limit, 61);
        assert_true(!denied.allowed && denied.outcome == OUTCOME_DENY && !denied.steady);
        const struct wire_decision never = lab_check(lab, at, KEY, &limit, 101);
        assert_true(!never.allowed && never.retry_after_ms == -1 && never.steady);
    }
    assert_int_equal(end(lab, 0, &limit, OPERATION_RELEASE, got.lease, 0).granted, 40);
    assert_true(lab_check(lab, 0, KEY, &limit, 61).allowed);
    for (uint32_t at = 0; at < 3; at++) {
        const struct wire_decision denied = lab_check(lab, at, KEY, &limit, 61);
        assert_true(!denied.allowed && denied.steady);
    }
}

/* LESSOR-1: a lease that no replica acknowledged is not told. */
static void a_lease_is_told_when_a_replica_knows_it(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t at = leader(lab);
    cut_off(lab, at, true);
    const uint64_t seq = ask_lease(lab, at, &limit, 40, 1000);
    lab_run(lab, 25 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    cut_off(lab, at, false);
    lab_run(lab, 300 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    assert_true(lab_answer(lab, seq, 0).allowed);
    assert_int_equal(lab_used(lab, at, KEY, &limit), 40);
}

/* LESSOR-5: nor is more time of it: a successor that did not know would let the tokens drain too
 * early.
 */
static void a_renewal_is_told_when_a_replica_knows_it(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t at = leader(lab);
    const uint64_t id = lease(lab, at, &limit, 40).lease;
    cut_off(lab, at, true);
    lab_ask_used(lab, &limit, KEY, OPERATION_RENEW, id, 5);
    const uint64_t seq = lab_send(lab, at, 1000);
    lab_run(lab, 25 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    cut_off(lab, at, false);
    lab_run(lab, 300 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    const struct wire_decision renewed = lab_answer(lab, seq, 0);
    assert_true(renewed.allowed && renewed.granted == 35 && renewed.lease == id);
}

/* What could not be told in time is an error to who asked, and stays out until its end: spent. */
static void a_lease_that_was_not_told_is_spent(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t at = leader(lab);
    cut_off(lab, at, true);
    const uint64_t seq = ask_lease(lab, at, &limit, 40, 15);
    lab_run(lab, 40 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    const struct wire_decision told = lab_answer(lab, seq, 0);
    assert_true(!told.allowed && told.outcome == OUTCOME_ERROR && told.lease == 0);
    assert_int_equal(lab_stats(lab, at).leases_untold, 1);
    cut_off(lab, at, false);
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(lab_used(lab, at, KEY, &limit), 40);
}

/* The leader dies the moment after it told a lease: who takes over knows it, grants what is left,
 * and takes it back when it is released. */
static void a_successor_knows_the_lease(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t dead = leader(lab);
    const uint32_t at = (dead + 1) % 3;
    const struct wire_decision got = lease(lab, at, &limit, 90);
    assert_true(got.allowed);
    lab_stop(lab, dead);
    lab_run(lab, 400 * LAB_MS);
    assert_false(lab_check(lab, at, KEY, &limit, 11).allowed);
    assert_true(lab_check(lab, at, KEY, &limit, 10).allowed);
    assert_int_equal(end(lab, at, &limit, OPERATION_RELEASE, got.lease, 30).granted, 60);
    assert_int_equal(lab_used(lab, at, KEY, &limit), 40);
}

/* LESSOR-3: two nodes knew the lease, and a third one had missed it. One of the two restarts, the
 * other one dies: that two of three are there says nothing then, for one has lost its memory. */
static void who_restarted_is_no_witness_of_what_is_out(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t dead = leader(lab);
    const uint32_t late = (dead + 1) % 3;
    const uint32_t forgets = (dead + 2) % 3;
    lab->cut[dead][late] = true;
    assert_int_equal(lease(lab, dead, &limit, 90).granted, 90);
    lab_stop(lab, forgets);
    lab_stop(lab, dead);
    lab_start(lab, forgets);
    lab->cut[dead][late] = false;
    for (uint32_t at = 0; at < 3; at++) {
        if (at == dead)
            continue; /* its host refuses connections: it is gone for sure */
        shard_peer_closed(lab->shards[at].shard, lab->now_ns, lab->shards[dead].node, 0, true,
                          &lab->effects);
        lab_perform(lab, at);
    }
    lab_run(lab, 10 * LAB_MS);
    assert_true(leader(lab) != LAB_NONE && leader(lab) != dead);
    assert_int_equal(lease(lab, late, &limit, 90).outcome, OUTCOME_BUSY);
    learn(lab);
    assert_int_equal(lease(lab, late, &limit, 90).granted, 90);
}

/* The answer is lost and the question repeated, through another node and at another leader: there
 * is one lease. */
static void a_repeated_question_finds_its_lease(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t dead = leader(lab);
    const uint64_t seq = ask_lease(lab, (dead + 1) % 3, &limit, 30, 1000);
    const uint64_t id = lab_answer(lab, seq, 0).lease;
    lab_ask(lab, &limit, KEY, OPERATION_LEASE, 30);
    lab_send_again(lab, (dead + 2) % 3, seq, 1000);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_true(lab_answer(lab, seq, 0).lease == id);
    lab_stop(lab, dead);
    lab_run(lab, 400 * LAB_MS);
    lab_ask(lab, &limit, KEY, OPERATION_LEASE, 30);
    lab_send_again(lab, (dead + 2) % 3, seq, 1000);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 3);
    const struct wire_decision again = lab_answer(lab, seq, 0);
    assert_true(again.lease == id && again.granted == 30 && again.lease_ms < 700);
    assert_int_equal(lab_used(lab, (dead + 1) % 3, KEY, &limit), 30);
}

/* LESSOR-3: a node that lost its memory grants nothing for as long as a lease of before may
 * last. */
static void a_lone_node_that_restarts_learns(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    struct wire_decision got = lease(lab, 0, &limit, 40);
    assert_true(!got.allowed && got.outcome == OUTCOME_BUSY);
    assert_true(lab_check(lab, 0, KEY, &limit, 1).allowed);
    learn(lab);
    got = lease(lab, 0, &limit, 40);
    assert_true(got.allowed && got.granted == 40);
    lab_stop(lab, 0);
    lab_start_all(lab);
    assert_int_equal(lease(lab, 0, &limit, 40).outcome, OUTCOME_BUSY);
    assert_int_equal(lab_stats(lab, 0).leases_refused, 1);
}

/* LESSOR-3: deciding that is passed on in order brings the whole table along: nothing has to be
 * learnt, and nothing is forgotten. */
static void who_is_passed_the_vnode_grants_at_once(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t owner = leader(lab);
    lab_stop(lab, owner);
    lab_run(lab, 400 * LAB_MS);
    const uint32_t other = leader(lab);
    const struct wire_decision got = lease(lab, other, &limit, 40);
    assert_true(got.allowed);
    lab_start(lab, owner);
    lab_settle(lab);
    assert_int_equal(leader(lab), owner);
    const struct wire_decision next = lease(lab, owner, &limit, 50);
    assert_true(next.allowed && next.granted == 50);
    assert_int_equal(next.used, 90);
    assert_int_equal(lab_used(lab, other, KEY, &limit), 90);
}

/* LESSOR-3: who has taken over without knowing all leases passes the vnode on before the longest of
 * them is over. Who has it then knows no more, and grants none either. */
static void who_is_passed_the_vnode_by_one_that_learns_learns_too(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t owner = leader(lab);
    const uint32_t late = (owner + 1) % 3;
    const uint32_t dead = (owner + 2) % 3;
    lab->cut[owner][late] = true;
    assert_int_equal(lease(lab, owner, &limit, 90).granted, 90);
    lab_stop(lab, dead);
    lab_stop(lab, owner);
    lab->cut[owner][late] = false;
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(leader(lab), late);
    lab_start(lab, owner);
    lab_start(lab, dead);
    lab_settle(lab);
    assert_int_equal(leader(lab), owner);
    assert_int_equal(lease(lab, owner, &limit, 90).outcome, OUTCOME_BUSY);
    learn(lab);
    assert_int_equal(lease(lab, owner, &limit, 90).granted, 90);
}

/* LESSOR-2: a leader whose replicas are gone grants no lease; it decides. */
static void a_decider_alone_grants_no_lease(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(100);
    learn(lab);
    const uint32_t at = leader(lab);
    lab_stop(lab, (at + 1) % 3);
    lab_stop(lab, (at + 2) % 3);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(lease(lab, at, &limit, 40).outcome, OUTCOME_BUSY);
    assert_true(lab_check(lab, at, KEY, &limit, 10).allowed);
}

/* A rule's limits are leased together; of rules that are on trial, or of several, none is. */
static void limits_of_one_rule_are_leased_together(void **state)
{
    static const char *const ann[] = {"user=ann", NULL};
    static const char *const both[] = {"user=ann", "api=/x", NULL};
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: calls, key: [user], limits: [{rate: 50/h, algorithm: sliding_log},"
                   " {rate: 1000/h}]}\n"
                   "- {name: apis, match: {api: '*'}, key: [user, api], limits: [{rate: 50/h}]}\n");
    learn(lab);
    lab_ask_attributes_as(lab, OPERATION_LEASE | WIRE_AT_MOST, 500, ann);
    const struct wire_decision got = lab_answer(lab, lab_send(lab, 0, 1000), 0);
    assert_true(got.allowed && got.granted == 25 && got.limit == 50 && got.lease != 0);
    lab_ask_attributes_as(lab, OPERATION_LEASE, 1, both);
    const struct wire_decision none = lab_answer(lab, lab_send(lab, 0, 1000), 0);
    assert_true(!none.allowed && none.outcome == OUTCOME_ERROR && none.source->status == 400);
}

/* A key that majorities keep gives leases, too: the whole way of a lease is in their journals. */
static void a_key_that_majorities_keep_gives_leases(void **state)
{
    static const char *const ann[] = {"user=ann", NULL};
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: calls, key: [user], consistency: quorum,"
                   " limits: [{rate: 50/h, algorithm: sliding_log}]}\n");
    lab_run(lab, 2000 * LAB_MS);
    lab_ask_attributes_as(lab, OPERATION_LEASE, 20, ann);
    const struct wire_decision got = lab_answer(lab, lab_send(lab, 0, 3000), 0);
    assert_true(got.allowed && got.granted == 20 && got.lease != 0 && got.lease_ms == 1000);
    for (uint32_t at = 0; at < 3; at++) {
        lab_ask_attributes_as(lab, OPERATION_PEEK, 1, ann);
        assert_int_equal(lab_answer(lab, lab_send(lab, at, 1000), 0).used, 20);
    }
    lab_ask_attributes_used(lab, OPERATION_RELEASE, got.lease, 12, ann);
    assert_int_equal(lab_answer(lab, lab_send(lab, 1, 3000), 0).granted, 8);
    lab_ask_attributes_as(lab, OPERATION_PEEK, 0, ann);
    assert_int_equal(lab_answer(lab, lab_send(lab, 2, 1000), 0).used, 12);
}

/* So the round trip to a majority is paid once for a block, and not for each of its tokens. */
static void a_block_costs_one_round_to_the_majority(void **state)
{
    static const char *const ann[] = {"user=ann", NULL};
    struct lab *lab = *state;
    uint64_t records[2];
    lab_rules(lab, "rules:\n"
                   "- {name: calls, key: [user], consistency: quorum,"
                   " limits: [{rate: 50/h, algorithm: sliding_log}]}\n");
    lab_run(lab, 2000 * LAB_MS);
    for (uint32_t block = 0; block < 2; block++) {
        lab_run(lab, 200 * LAB_MS);
        const uint64_t before = lab_stats(lab, 0).journal_records;
        for (uint32_t i = 0; i < (block ? 1u : 10u); i++) {
            lab_ask_attributes_as(lab, block ? OPERATION_LEASE : OPERATION_CHECK, block ? 10 : 1,
                                  ann);
            assert_true(lab_answer(lab, lab_send(lab, 0, 3000), 0).allowed);
        }
        lab_run(lab, 200 * LAB_MS);
        records[block] = lab_stats(lab, 0).journal_records - before;
    }
    assert_true(records[1] > 0 && 5 * records[1] <= records[0]);
}

/* What is about a lease of tokens says how much of it was used; other operations, limits that
 * give none, and fallback leaders, are malformed. */
static void a_forward_about_tokens_reads_back_as_written(void **state)
{
    (void)state;
    static const uint8_t operations[] = {OPERATION_LEASE, OPERATION_RELEASE, OPERATION_RENEW,
                                         OPERATION_CHECK, OPERATION_LEASE,   OPERATION_LEASE};
    uint8_t bytes[PEER_RECORD_MAX];
    struct peer_record record;
    for (uint32_t i = 0; i < 6; i++) {
        struct forward sent = {.ticket = 5,
                               .retry = {.session = 1, .seq = 2},
                               .flags = i < 5 ? FORWARD_HOLD : FORWARD_HOLD | FORWARD_FALLBACK,
                               .operation = operations[i],
                               .limit_count = 1,
                               .vnode = 3,
                               .cost = UINT64_MAX,
                               .used = UINT64_MAX - i};
        sent.limits[0] = lab_limit(9);
        sent.limits[0].algorithm = i == 4 ? ALGORITHM_LEAKY_BUCKET : ALGORITHM_SLIDING_LOG;
        struct bytes_writer writer;
        struct bytes_reader reader;
        bytes_writer_init(&writer, bytes, sizeof bytes);
        peer_put_forward(&writer, &sent);
        assert_false(writer.failed);
        bytes_reader_init(&reader, bytes, writer.len);
        assert_int_equal(peer_next(&reader, LAB_VNODES, &record), i < 3 ? 1 : TG_EPROTOCOL);
        if (i >= 3)
            continue;
        assert_int_equal(record.forward.operation, sent.operation);
        assert_true(record.forward.used == sent.used && record.forward.cost == sent.cost);
        assert_int_equal(peer_next(&reader, LAB_VNODES, &record), 0);
        bytes_reader_init(&reader, bytes, writer.len - 1);
        assert_int_equal(peer_next(&reader, LAB_VNODES, &record), TG_EPROTOCOL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_lease_is_taken_renewed_and_released),
        LAB_TEST_THREE(the_lease_of_a_dead_holder_is_spent),
        LAB_TEST_THREE(a_denial_for_what_is_out_is_not_remembered),
        LAB_TEST_THREE(a_lease_is_told_when_a_replica_knows_it),
        LAB_TEST_THREE(a_renewal_is_told_when_a_replica_knows_it),
        LAB_TEST_THREE(a_lease_that_was_not_told_is_spent),
        LAB_TEST_THREE(a_successor_knows_the_lease),
        LAB_TEST_THREE(who_restarted_is_no_witness_of_what_is_out),
        LAB_TEST_THREE(a_repeated_question_finds_its_lease),
        LAB_TEST_ONE(a_lone_node_that_restarts_learns),
        LAB_TEST_THREE(who_is_passed_the_vnode_grants_at_once),
        LAB_TEST_THREE(who_is_passed_the_vnode_by_one_that_learns_learns_too),
        LAB_TEST_THREE(a_decider_alone_grants_no_lease),
        LAB_TEST_THREE(limits_of_one_rule_are_leased_together),
        LAB_TEST_THREE(a_key_that_majorities_keep_gives_leases),
        LAB_TEST_THREE(a_block_costs_one_round_to_the_majority),
        cmocka_unit_test(a_forward_about_tokens_reads_back_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

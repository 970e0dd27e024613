/* test_reservations.c - tokens that are reserved, in a cluster: all of several limits or none, told
 * and settled when replicas know it, once, whoever decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

static const char KEY[] = "hot";

enum { TTL_MS = 5000 };

/* Long enough after a start that nobody learns any more. */
static void learn(struct lab *lab)
{
    lab_run(lab, LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS + 10 * LAB_MS);
}

static uint64_t ask(struct lab *lab, uint32_t at, enum operation operation, uint64_t what,
                    uint64_t used, uint32_t timeout_ms)
{
    const struct limit limit = lab_limit(100);
    lab_ask_used(lab, &limit, KEY, (uint8_t)operation, what, used);
    return lab_send(lab, at, timeout_ms);
}

static struct wire_decision reserve(struct lab *lab, uint32_t at, uint64_t cost)
{
    return lab_answer(lab, ask(lab, at, OPERATION_RESERVE, cost, TTL_MS, 1000), 0);
}

static struct wire_decision commit(struct lab *lab, uint32_t at, uint64_t id, uint64_t actual)
{
    return lab_answer(lab, ask(lab, at, OPERATION_COMMIT, id, actual, 1000), 0);
}

static struct wire_decision cancel(struct lab *lab, uint32_t at, uint64_t id)
{
    return lab_answer(lab, ask(lab, at, OPERATION_CANCEL, id, 0, 1000), 0);
}

static uint64_t used(struct lab *lab, uint32_t at)
{
    const struct limit limit = lab_limit(100);
    return lab_used(lab, at, KEY, &limit);
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

/* Through any node: named and timed in the answer, settled by what was used, once. */
static void tokens_are_reserved_and_settled_through_any_node(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    for (uint32_t at = 0; at < 3; at++) {
        const struct wire_decision got = reserve(lab, at, 40);
        assert_true(got.allowed && got.granted == 40 && got.lease != 0);
        assert_true(got.lease_ms == TTL_MS && got.delay_ms == 0);
        assert_int_equal(got.used, 40 + 10 * at);
        const struct wire_decision done = commit(lab, (at + 1) % 3, got.lease, 10);
        assert_true(done.allowed && done.granted == 10 && done.lease == 0);
        assert_int_equal(done.used, 10 + 10 * at);
        assert_int_equal(commit(lab, (at + 2) % 3, got.lease, 10).used, 10 + 10 * at);
        assert_int_equal(cancel(lab, at, got.lease).granted, 0);
    }
    const struct wire_decision got = reserve(lab, 0, 70);
    assert_int_equal(cancel(lab, 1, got.lease).granted, 70);
    assert_int_equal(commit(lab, 2, got.lease, 70).granted, 0);
    assert_int_equal(used(lab, 0), 30);
    lab_ask_used(lab, &(struct limit){.count = 100, .window_ns = 3600000000000}, KEY,
                 OPERATION_RESERVE, 1, 0);
    assert_int_equal(lab_answer(lab, lab_send(lab, 0, 1000), 0).lease_ms, LIMIT_TTL_DEFAULT_MS);
}

/* Nobody settles it: it is given back; who commits it then has hit the limit. */
static void what_is_not_settled_in_time_is_given_back(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    const struct wire_decision got = reserve(lab, 1, 40);
    lab_run(lab, (TTL_MS + 200) * LAB_MS);
    assert_int_equal(used(lab, 0), 0);
    assert_int_equal(commit(lab, 0, got.lease, 15).used, 15);
    assert_int_equal(commit(lab, 2, got.lease, 15).used, 15);
}

/* LESSOR-1, LESSOR-8: neither a reservation nor its commit is told before a replica knows it. */
static void it_is_told_when_a_replica_knows_it(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    const uint32_t at = leader(lab);
    const uint64_t id = reserve(lab, at, 40).lease;
    cut_off(lab, at, true);
    const uint64_t reserved = ask(lab, at, OPERATION_RESERVE, 20, TTL_MS, 1000);
    const uint64_t committed = ask(lab, at, OPERATION_COMMIT, id, 10, 1000);
    lab_run(lab, 25 * LAB_MS);
    assert_false(lab_answered(lab, reserved));
    assert_false(lab_answered(lab, committed));
    cut_off(lab, at, false);
    lab_run(lab, 300 * LAB_MS);
    assert_true(lab_answered(lab, reserved) && lab_answered(lab, committed));
    assert_int_equal(used(lab, at), 30);
}

/* The decider dies the moment after it told: its successor knows what is reserved and what is
 * settled, and a repeated commit charges nothing. */
static void a_successor_knows_what_is_reserved_and_what_is_settled(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    const uint32_t dead = leader(lab);
    const uint32_t at = (dead + 1) % 3;
    const uint64_t first = reserve(lab, at, 50).lease;
    const uint64_t second = reserve(lab, at, 40).lease;
    assert_int_equal(commit(lab, at, first, 20).used, 60);
    lab_stop(lab, dead);
    lab_run(lab, 400 * LAB_MS);
    assert_int_equal(used(lab, at), 60);
    assert_int_equal(commit(lab, at, first, 20).used, 60);
    assert_int_equal(commit(lab, at, second, 5).used, 25);
}

/* The answers are lost and the questions repeated, through another node and at another decider: one
 * reservation, one charge. */
static void a_repeated_question_finds_what_was_done(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    const uint32_t dead = leader(lab);
    const uint64_t seq = ask(lab, (dead + 1) % 3, OPERATION_RESERVE, 30, TTL_MS, 1000);
    const uint64_t id = lab_answer(lab, seq, 0).lease;
    lab_stop(lab, dead);
    lab_run(lab, 400 * LAB_MS);
    const struct limit limit = lab_limit(100);
    lab_ask_used(lab, &limit, KEY, OPERATION_RESERVE, 30, TTL_MS);
    lab_send_again(lab, (dead + 2) % 3, seq, 1000);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    const struct wire_decision again = lab_answer(lab, seq, 0);
    assert_true(again.lease == id && again.granted == 30 && again.lease_ms < TTL_MS);
    assert_int_equal(used(lab, (dead + 1) % 3), 30);
    const uint64_t done = ask(lab, (dead + 1) % 3, OPERATION_COMMIT, id, 12, 1000);
    assert_int_equal(lab_answer(lab, done, 0).granted, 12);
    lab_ask_used(lab, &limit, KEY, OPERATION_COMMIT, id, 12);
    lab_send_again(lab, (dead + 2) % 3, done, 1000);
    assert_int_equal(lab_answer(lab, done, 0).granted, 12);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(used(lab, (dead + 1) % 3), 12);
}

/* A decider without a majority reserves nothing; what was reserved before can be settled. */
static void a_decider_alone_settles_and_reserves_nothing(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    const uint32_t at = leader(lab);
    const uint64_t id = reserve(lab, at, 40).lease;
    lab_stop(lab, (at + 1) % 3);
    lab_stop(lab, (at + 2) % 3);
    lab_run(lab, 400 * LAB_MS);
    const struct wire_decision busy = reserve(lab, at, 40);
    assert_int_equal(busy.outcome, OUTCOME_BUSY);
    assert_true(lab_text_is(busy.source->message,
                            "of this key nothing can be reserved or settled now: too few replicas "
                            "could know of it, one is of an older release, or too much is "
                            "reserved; ask again"));
    const struct wire_decision got = commit(lab, at, id, 10);
    assert_true(got.allowed && got.degraded && got.used == 10);
}

/* Who has just begun reserves at once: it would admit checks as well. */
static void a_node_that_has_just_begun_reserves(void **state)
{
    struct lab *lab = *state;
    const struct wire_decision got = reserve(lab, 0, 40);
    assert_true(got.allowed && got.lease != 0);
    assert_int_equal(commit(lab, 0, got.lease, 7).used, 7);
}

/* While some replica is of a release that does not read reservations, none is made: busy, and
 * counted; nor is one asked for at such a decider. */
static void beside_a_node_of_an_older_release_nothing_is_reserved(void **state)
{
    struct lab *lab = *state;
    learn(lab);
    const uint32_t at = leader(lab);
    struct shard *shard = lab->shards[at].shard;
    for (uint32_t i = 0; i < shard->peer_count; i++)
        shard->peers[i]->reads &= (uint8_t)~READS_RESERVATIONS;
    assert_int_equal(reserve(lab, at, 40).outcome, OUTCOME_BUSY);
    assert_int_equal(lab_stats(lab, at).leases_refused, 1);
    const uint32_t other = (at + 1) % 3;
    shard = lab->shards[other].shard;
    for (uint32_t i = 0; i < shard->peer_count; i++)
        shard->peers[i]->reads &= (uint8_t)~READS_RESERVATIONS;
    const uint32_t said = lab_said(lab, other, at, PEER_FORWARD, NULL);
    assert_int_equal(reserve(lab, other, 40).outcome, OUTCOME_BUSY);
    assert_int_equal(lab_said(lab, other, at, PEER_FORWARD, NULL), said);
    lab_run(lab, 1000 * LAB_MS); /* they say what they read */
    assert_true(reserve(lab, other, 40).allowed);
}

/* ---- several rules --------------------------------------------------------------------------- */

static const char *const both[] = {"user=ann", "team=red", NULL};
static const char *const ann[] = {"user=ann", NULL};
static const char *const red[] = {"team=red", NULL};

static uint64_t used_of(struct lab *lab, const char *const *attributes)
{
    lab_ask_attributes_as(lab, OPERATION_PEEK, 0, attributes);
    return lab_answer(lab, lab_send(lab, 0, 1000), 0).used;
}

static uint64_t ask_both(struct lab *lab, uint32_t at, enum operation operation, uint64_t what,
                         uint64_t value)
{
    lab_ask_attributes_used(lab, (uint8_t)operation, what, value, both);
    return lab_send(lab, at, 1000);
}

static const char rules[] = "rules:\n"
                            "- {name: users, match: {user: '*'}, key: [user],"
                            " limits: [{rate: 50/h, algorithm: sliding_log}, {rate: 1000/24h}]}\n"
                            "- {name: teams, match: {team: '*'}, key: [team],"
                            " limits: [{rate: 80/h, algorithm: sliding_window}]}\n";

/* All limits of all rules, wherever they are counted, or none; and one id settles them all. */
static void several_rules_are_reserved_together_or_not_at_all(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, rules);
    learn(lab);
    const struct wire_decision got =
        lab_answer(lab, ask_both(lab, 1, OPERATION_RESERVE, 45, TTL_MS), 0);
    assert_true(got.allowed && got.granted == 45 && got.lease != 0 && got.lease_ms == TTL_MS);
    assert_true(used_of(lab, ann) == 45 && used_of(lab, red) == 45);
    const struct wire_decision denied =
        lab_answer(lab, ask_both(lab, 2, OPERATION_RESERVE, 20, TTL_MS), 0);
    assert_true(!denied.allowed && denied.lease == 0 && lab_text_is(denied.source->rule, "users"));
    lab_run(lab, 100 * LAB_MS);
    assert_true(used_of(lab, ann) == 45 && used_of(lab, red) == 45);
    for (uint32_t at = 0; at < 3; at++) {
        const struct wire_decision done =
            lab_answer(lab, ask_both(lab, at, OPERATION_COMMIT, got.lease, 30), 0);
        assert_true(done.allowed && done.granted == 30);
    }
    assert_true(used_of(lab, ann) == 30 && used_of(lab, red) == 30);
    assert_int_equal(
        lab_stats(lab, 0).several + lab_stats(lab, 1).several + lab_stats(lab, 2).several > 0, 1);
}

/* LEASED-9: the answer of a denial is lost, and the question comes again when there would be room:
 * what was undone is not given to it. */
static void what_was_denied_is_not_reserved_by_a_late_copy(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, rules);
    learn(lab);
    (void)lab_answer(lab, ask_both(lab, 1, OPERATION_RESERVE, 45, TTL_MS), 0);
    const uint64_t seq = ask_both(lab, 1, OPERATION_RESERVE, 20, TTL_MS);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, (TTL_MS + 200) * LAB_MS);
    assert_true(used_of(lab, ann) == 0 && used_of(lab, red) == 0);
    lab_ask_attributes_used(lab, OPERATION_RESERVE, 20, TTL_MS, both);
    lab_send_again(lab, 2, seq, 1000);
    lab_run(lab, 100 * LAB_MS);
    assert_int_equal(used_of(lab, red), 0);
}

/* Limits of which tokens cannot be held are refused with a sentence, and nothing is charged. */
static void what_cannot_be_held_is_refused(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: flight, match: {user: '*'}, key: [user],"
                   " limits: [{rate: 9/h}, {rate: 3/m, algorithm: concurrency}]}\n"
                   "- {name: soft, match: {team: '*'}, key: [team], mode: {soft: {exceed: 10%}},"
                   " limits: [{rate: 9/h}]}\n");
    static const uint8_t operations[] = {OPERATION_RESERVE, OPERATION_COMMIT, OPERATION_CANCEL};
    for (uint32_t i = 0; i < 6; i++) {
        const uint8_t operation = operations[i % 3];
        lab_ask_attributes_used(lab, operation, 1, operation == OPERATION_CANCEL ? 0 : TTL_MS,
                                i < 3 ? ann : red);
        const struct wire_decision got = lab_answer(lab, lab_send(lab, 0, 1000), 0);
        assert_true(!got.allowed && got.outcome == OUTCOME_ERROR && got.source->status == 400);
        assert_true(got.source->message.len > 0 && got.lease == 0);
    }
    assert_true(used_of(lab, ann) == 0 && used_of(lab, red) == 0);
}

/* A key that majorities keep, and one whose rule has consistency any, are reserved of as others. */
static void keys_of_other_consistency_are_reserved_of_as_well(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: safe, match: {user: '*'}, key: [user], consistency: quorum,"
                   " limits: [{rate: 50/h, algorithm: sliding_log}]}\n"
                   "- {name: near, match: {team: '*'}, key: [team], consistency: any,"
                   " limits: [{rate: 50/h, algorithm: sliding_log}]}\n");
    lab_run(lab, 2000 * LAB_MS);
    for (uint32_t i = 0; i < 2; i++) {
        const char *const *attributes = i == 0 ? ann : red;
        lab_ask_attributes_used(lab, OPERATION_RESERVE, 40, TTL_MS, attributes);
        const struct wire_decision got = lab_answer(lab, lab_send(lab, 0, 3000), 0);
        assert_true(got.allowed && got.granted == 40 && got.lease_ms == TTL_MS);
        assert_int_equal(used_of(lab, attributes), 40);
        for (uint32_t at = 0; at < 3; at++) {
            lab_ask_attributes_used(lab, OPERATION_COMMIT, got.lease, 12, attributes);
            assert_int_equal(lab_answer(lab, lab_send(lab, at, 3000), 0).granted, 12);
        }
        assert_int_equal(used_of(lab, attributes), 12);
    }
}

/* A rule that lets by what cannot be decided lets a reservation by, with none held; a commit that
 * was not decided is told so: it has to come again. */
static void a_commit_that_is_not_decided_is_an_error_whatever_the_rule_says(void **state)
{
    struct lab *lab = *state;
    lab_rules(lab, "rules:\n"
                   "- {name: open, match: {user: '*'}, key: [user], on_failure: open,"
                   " limits: [{rate: 50/h, algorithm: sliding_log}]}\n");
    learn(lab);
    lab_ask_attributes_used(lab, OPERATION_RESERVE, 40, TTL_MS, ann);
    const struct wire_decision got = lab_answer(lab, lab_send(lab, 0, 1000), 0);
    const uint32_t at = lab->shards[0].shard != NULL ? 0 : 1;
    cut_off(lab, at, true);
    lab_ask_attributes_used(lab, OPERATION_COMMIT, got.lease, 9, ann);
    const uint64_t committed = lab_send(lab, at, 20);
    lab_ask_attributes_used(lab, OPERATION_RESERVE, 5, TTL_MS, ann);
    const uint64_t reserved = lab_send(lab, at, 20);
    lab_run(lab, 60 * LAB_MS);
    assert_true(lab_answered(lab, committed) && lab_answered(lab, reserved));
    const struct wire_decision told = lab_answer(lab, committed, 0);
    assert_true(!told.allowed && told.outcome == OUTCOME_ERROR && told.source->status == 503);
    const struct wire_decision open = lab_answer(lab, reserved, 0);
    assert_true(open.allowed && open.degraded && open.lease == 0);
    cut_off(lab, at, false);
    lab_run(lab, 400 * LAB_MS);
    lab_ask_attributes_used(lab, OPERATION_COMMIT, got.lease, 9, ann);
    assert_int_equal(lab_answer(lab, lab_send(lab, at, 1000), 0).granted, 9);
}

/* What is about a reservation reads back as it was written; a time beyond its bounds is malformed.
 */
static void a_forward_about_a_reservation_reads_back_as_written(void **state)
{
    (void)state;
    static const struct {
        enum operation operation;
        uint64_t used;
        bool valid;
    } cases[] = {
        {OPERATION_RESERVE, TTL_MS, true},
        {OPERATION_RESERVE, LIMIT_TTL_MIN_MS - 1, false},
        {OPERATION_RESERVE, LIMIT_TTL_MAX_MS + 1, false},
        {OPERATION_COMMIT, 0, true},
        {OPERATION_CANCEL, 1, true},
    };
    uint8_t bytes[PEER_RECORD_MAX];
    struct peer_record record;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forward sent = {.flags = FORWARD_HOLD,
                               .operation = (uint8_t)cases[i].operation,
                               .limit_count = 1,
                               .vnode = 3,
                               .cost = UINT64_MAX,
                               .used = cases[i].used};
        sent.limits[0] = lab_limit(9);
        struct bytes_writer writer;
        struct bytes_reader reader;
        bytes_writer_init(&writer, bytes, sizeof bytes);
        peer_put_forward(&writer, &sent);
        bytes_reader_init(&reader, bytes, writer.len);
        assert_int_equal(peer_next(&reader, LAB_VNODES, &record),
                         cases[i].valid ? 1 : TG_EPROTOCOL);
        if (cases[i].valid)
            assert_true(record.forward.operation == sent.operation &&
                        record.forward.used == sent.used && forward_reserves(&record.forward));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(tokens_are_reserved_and_settled_through_any_node),
        LAB_TEST_THREE(what_is_not_settled_in_time_is_given_back),
        LAB_TEST_THREE(it_is_told_when_a_replica_knows_it),
        LAB_TEST_THREE(a_successor_knows_what_is_reserved_and_what_is_settled),
        LAB_TEST_THREE(a_repeated_question_finds_what_was_done),
        LAB_TEST_THREE(a_decider_alone_settles_and_reserves_nothing),
        LAB_TEST_ONE(a_node_that_has_just_begun_reserves),
        LAB_TEST_THREE(beside_a_node_of_an_older_release_nothing_is_reserved),
        LAB_TEST_THREE(several_rules_are_reserved_together_or_not_at_all),
        LAB_TEST_THREE(what_was_denied_is_not_reserved_by_a_late_copy),
        LAB_TEST_THREE(what_cannot_be_held_is_refused),
        LAB_TEST_THREE(keys_of_other_consistency_are_reserved_of_as_well),
        LAB_TEST_THREE(a_commit_that_is_not_decided_is_an_error_whatever_the_rule_says),
        cmocka_unit_test(a_forward_about_a_reservation_reads_back_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

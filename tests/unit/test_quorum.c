/* test_quorum.c - consistency quorum: what a majority must hold before an answer, and after.
 *
 * What one node does with words that no other would say in that order: test_quorum_ghost.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

static const char RULES[] =
    "rules:\n"
    "  - {name: kept, match: {api: /kept}, key: [user], consistency: quorum, on_failure: closed,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n"
    "  - {name: open, match: {api: /open}, key: [user], consistency: quorum, on_failure: open,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n"
    "  - {name: mixed-quorum, match: {api: /mixed}, key: [user], consistency: quorum,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n"
    "  - {name: mixed-one, match: {api: /mixed}, key: [user],"
    " limits: [{rate: 4/d, algorithm: fixed_window}]}\n";

/* ---- help ------------------------------------------------------------------------------------ */

static uint32_t vnode_of_user(const struct lab *lab, const char *rule, const char *user)
{
    struct identity identity;
    const struct identity_value value = {user, strlen(user)};
    assert_int_equal(identity_rule(&identity, rule, strlen(rule), &value, 1), 0);
    return identity_vnode(&lab->shards[0].options.route_key, &identity, LAB_VNODES);
}

static void put_item(struct lab *lab, const char *api, const char *user, uint8_t operation,
                     uint64_t cost)
{
    struct wire_text names[2] = {wire_text_of("api"), wire_text_of("user")};
    struct wire_text values[2] = {wire_text_of(api), wire_text_of(user)};
    const int index = wire_checks_builder_attributes(&lab->builder, names, 2);
    assert_true(index >= 0);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)index, operation, cost, values,
                                           2) >= 0);
}

static uint64_t send(struct lab *lab, uint32_t at, const char *api, const char *user,
                     uint8_t operation, uint64_t cost, uint32_t timeout_ms)
{
    put_item(lab, api, user, operation, cost);
    return lab_send(lab, at, timeout_ms);
}

static struct wire_decision check(struct lab *lab, uint32_t at, const char *api, const char *user,
                                  uint64_t cost)
{
    return lab_answer(lab, send(lab, at, api, user, OPERATION_CHECK, cost, 5000), 0);
}

static uint64_t used(struct lab *lab, uint32_t at, const char *api, const char *user)
{
    const struct wire_decision peek =
        lab_answer(lab, send(lab, at, api, user, OPERATION_PEEK, 0, 5000), 0);
    assert_int_not_equal(peek.outcome, OUTCOME_ERROR);
    return peek.used;
}

/* The shard that decides the vnode in the plane of quorum, LAB_NONE when none or several say so. */
static uint32_t leader_of(const struct lab *lab, uint32_t vnode)
{
    return lab_leader(lab, LAB_VNODES + vnode);
}

/* Every vnode is decided by the first of its replicas that runs, and held by all that run. */
static bool all_settled(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++) {
        uint32_t rank = 0;
        while (lab->shards[lab_replica(lab, vnode, rank)].shard == NULL)
            rank++;
        const uint32_t at = leader_of(lab, vnode);
        struct inspect_vnode held;
        if (at == LAB_NONE || at != lab_replica(lab, vnode, rank))
            return false;
        inspect_vnode(lab->shards[at].shard, LAB_VNODES + vnode, &held);
        uint32_t running = 0;
        for (uint32_t i = 0; i < held.replicas; i++)
            running += lab->shards[lab_replica(lab, vnode, i)].shard != NULL;
        if (held.confirmed + 1u < running)
            return false;
    }
    return true;
}

static void start(struct lab *lab, uint32_t at)
{
    lab_start(lab, at);
    shard_policy(lab->shards[at].shard, lab->policies[0]);
}

static struct lab *quorum_lab(uint32_t nodes, uint32_t shards_each, uint32_t replicas)
{
    struct lab *lab = lab_new(nodes, shards_each, replicas);
    lab_start_all(lab);
    lab_rules(lab, RULES);
    lab_until(lab, all_settled, NULL, 5000 * LAB_MS);
    return lab;
}

static int set_up(void **state)
{
    *state = quorum_lab(3, 1, 3);
    return 0;
}

static uint32_t rank_of(const struct lab *lab, const char *rule, const char *user, uint32_t rank)
{
    return lab_replica(lab, vnode_of_user(lab, rule, user), rank);
}

/* ---- in order -------------------------------------------------------------------------------- */

/* Without a rule that wants it, the plane of quorum costs and says nothing. */
static void without_a_rule_nothing_of_the_plane_exists(void **state)
{
    (void)state;
    struct lab *lab = lab_new(3, 1, 3);
    lab_start_all(lab);
    assert_int_equal(lab_stats(lab, 0).quorum.vnodes, 0);
    assert_false(shard_journal_due(lab->shards[0].shard));
    assert_int_equal(lab_stats(lab, 0).journal_batches, 0);
    lab_free(lab);
}

/* A limit is exact through every node, and no answer is degraded. */
static void a_limit_is_exact_through_every_node(void **state)
{
    struct lab *lab = *state;
    for (uint32_t i = 0; i < 15; i++) {
        const struct wire_decision got = check(lab, i % 3, "/kept", "ada", 1);
        assert_int_equal(got.allowed, i < 10);
        assert_false(got.degraded);
    }
    assert_int_equal(used(lab, 1, "/kept", "ada"), 10);
    assert_int_equal(lab_stats(lab, rank_of(lab, "kept", "ada", 0)).quorum.checks, 16);
}

/* The leader's own journal is not enough: the answer waits for that of one replica more. */
static void a_decision_waits_for_a_majority_of_journals(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    for (uint32_t rank = 1; rank < 3; rank++)
        lab->shards[rank_of(lab, "kept", "ada", rank)].journal_ns = -1;
    const uint64_t seq = send(lab, leader, "/kept", "ada", OPERATION_CHECK, 1, 250);
    lab_run(lab, 100 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    assert_int_equal(lab_stats(lab, leader).quorum.uncommitted, 1);
    lab_journal_end(lab, rank_of(lab, "kept", "ada", 2), true);
    lab_run(lab, 20 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    assert_true(lab_answer(lab, seq, 0).allowed);
    lab->shards[rank_of(lab, "kept", "ada", 1)].journal_ns = 0;
}

/* A check that another node forwards waits for its commit as long as one that is asked here. */
static void a_forwarded_check_waits_for_its_commit_as_well(void **state)
{
    struct lab *lab = *state;
    const uint32_t other = rank_of(lab, "kept", "ada", 1);
    for (uint32_t rank = 1; rank < 3; rank++)
        lab->shards[rank_of(lab, "kept", "ada", rank)].journal_ns = -1;
    const uint64_t seq = send(lab, other, "/kept", "ada", OPERATION_CHECK, 1, 1000);
    lab_run(lab, 220 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    for (uint32_t rank = 1; rank < 3; rank++) {
        lab->shards[rank_of(lab, "kept", "ada", rank)].journal_ns = 0;
        lab_journal_end(lab, rank_of(lab, "kept", "ada", rank), true);
    }
    lab_run(lab, 150 * LAB_MS);
    assert_true(lab_answer(lab, seq, 0).allowed);
}

/* A replica whose journal refuses says nothing; one that follows says it when it is true. */
static void a_batch_that_was_not_written_releases_nothing(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    for (uint32_t rank = 1; rank < 3; rank++)
        lab->shards[rank_of(lab, "kept", "ada", rank)].journal_fails = true;
    const uint64_t seq = send(lab, leader, "/kept", "ada", OPERATION_CHECK, 1, 1000);
    lab_run(lab, 200 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    assert_true(lab_stats(lab, rank_of(lab, "kept", "ada", 1)).journal_failures > 0);
    lab->shards[rank_of(lab, "kept", "ada", 1)].journal_fails = false;
    lab_run(lab, 80 * LAB_MS);
    assert_true(lab_answer(lab, seq, 0).allowed);
}

/* A read is confirmed as a change is, or it might show what others have left behind. */
static void a_peek_waits_for_a_majority_too(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    assert_true(check(lab, leader, "/kept", "ada", 1).allowed);
    lab_run(lab, 50 * LAB_MS);
    for (uint32_t rank = 1; rank < 3; rank++)
        lab->cut[rank_of(lab, "kept", "ada", rank)][leader] = true;
    const uint64_t seq = send(lab, leader, "/kept", "ada", OPERATION_PEEK, 0, 5000);
    lab_run(lab, 60 * LAB_MS);
    assert_false(lab_answered(lab, seq));
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* What was answered as allowed is known to whoever decides next, whichever node that is. */
static void a_dead_decider_is_replaced_and_nothing_is_forgotten(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    const uint32_t other = rank_of(lab, "kept", "ada", 1);
    for (uint32_t i = 0; i < 7; i++)
        assert_true(check(lab, leader, "/kept", "ada", 1).allowed);
    lab_stop(lab, leader);
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 8; i++)
        allowed += check(lab, other, "/kept", "ada", 1).allowed;
    assert_int_equal(allowed, 3);
}

/* Three processes end at once: the journals know what was answered. */
static void a_whole_restart_forgets_nothing(void **state)
{
    struct lab *lab = *state;
    for (uint32_t i = 0; i < 7; i++)
        assert_true(check(lab, 0, "/kept", "ada", 1).allowed);
    for (uint32_t at = 0; at < 3; at++)
        lab_stop(lab, at);
    for (uint32_t at = 0; at < 3; at++)
        start(lab, at);
    lab_until(lab, all_settled, NULL, 5000 * LAB_MS);
    assert_int_equal(used(lab, 2, "/kept", "ada"), 7);
}

/* Only a majority decides: two of three are gone, and checks are refused fast, as on_failure says.
 */
static void without_a_majority_on_failure_answers_fast(void **state)
{
    struct lab *lab = *state;
    const uint32_t alone = rank_of(lab, "kept", "ada", 0);
    assert_true(check(lab, alone, "/kept", "ada", 1).allowed);
    for (uint32_t at = 0; at < 3; at++)
        if (at != alone)
            lab_stop(lab, at);
    lab_run(lab, 500 * LAB_MS);
    const int64_t asked_ns = lab->now_ns;
    const struct wire_decision closed = check(lab, alone, "/kept", "ada", 1);
    assert_false(closed.allowed);
    assert_int_equal(closed.outcome, OUTCOME_ERROR);
    const struct wire_decision open = check(lab, alone, "/open", "ada", 1);
    assert_true(open.allowed && open.degraded);
    assert_true(lab->now_ns - asked_ns <= 20 * LAB_MS);
    assert_true(lab_stats(lab, alone).quorum.unavailable >= 2);
    assert_true(lab_stats(lab, alone).quorum.vnodes_undecided > 0);
}

/* A leader that hears nobody cannot answer on its own, and the others go on without it. */
static void a_cut_off_decider_answers_nothing(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    const uint32_t other = rank_of(lab, "kept", "ada", 1);
    for (uint32_t at = 0; at < 3; at++)
        lab->cut[at][leader] = lab->cut[leader][at] = at != leader;
    uint64_t alone[6];
    for (uint32_t i = 0; i < 6; i++)
        alone[i] = send(lab, leader, "/kept", "ada", OPERATION_CHECK, 1, 2000);
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 12; i++)
        allowed += check(lab, other, "/kept", "ada", 1).allowed;
    assert_int_equal(allowed, 10);
    memset(lab->cut, 0, sizeof lab->cut);
    lab_run(lab, 3000 * LAB_MS);
    for (uint32_t i = 0; i < 6; i++)
        assert_false(lab_answer(lab, alone[i], 0).allowed);
    assert_true(lab_stats(lab, leader).quorum.in_doubt >= 1);
}

/* A leader that is heard but hears nobody gives way as well. */
static void a_deaf_leader_gives_way(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = vnode_of_user(lab, "kept", "ada");
    const uint32_t leader = lab_replica(lab, vnode, 0);
    for (uint32_t at = 0; at < 3; at++)
        lab->cut[at][leader] = at != leader;
    lab_run(lab, 1500 * LAB_MS);
    assert_true(leader_of(lab, vnode) != LAB_NONE);
    assert_true(leader_of(lab, vnode) != leader);
    assert_true(check(lab, lab_replica(lab, vnode, 1), "/kept", "ada", 1).allowed);
}

/* One replica that alone lost sight of the leader deposes nobody: the other is bound to it. */
static void who_alone_lost_the_decider_disturbs_nobody(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = vnode_of_user(lab, "kept", "ada");
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t blind = lab_replica(lab, vnode, 1);
    struct term before;
    struct term after;
    (void)shard_vnode(lab->shards[leader].shard, LAB_VNODES + vnode, &before);
    lab->cut[leader][blind] = lab->cut[blind][leader] = true;
    lab_run(lab, 2000 * LAB_MS);
    (void)shard_vnode(lab->shards[leader].shard, LAB_VNODES + vnode, &after);
    assert_int_equal(term_compare(&before, &after), 0);
    assert_int_equal(lab_role(lab, leader, LAB_VNODES + vnode), SHARD_LEADING);
}

/* ---- ballots --------------------------------------------------------------------------------- */

/* A replica that asks for a ballot, and one that is asked; the ballot is far above all so far, and
 * what the asked one promises waits in its journal until lab_journal_end. */
struct candidacy {
    uint32_t vnode;
    uint32_t candidate;
    uint32_t asked;
    struct term ballot;
};

static struct candidacy candidacy_of(struct lab *lab)
{
    const uint32_t vnode = vnode_of_user(lab, "kept", "ada");
    struct candidacy new = {
        .vnode = vnode,
        .candidate = lab_replica(lab, vnode, 1),
        .asked = lab_replica(lab, vnode, 2),
    };
    (void)shard_vnode(lab->shards[new.asked].shard, LAB_VNODES + vnode, &new.ballot);
    new.ballot.number += UINT64_C(100) << TERM_INCARNATION_BITS;
    new.ballot.writer = lab->shards[new.candidate].node;
    lab_run(lab, 20 * LAB_MS);
    lab->shards[new.asked].journal_ns = -1;
    return new;
}

static void query_of(struct lab *lab, uint32_t from, uint32_t to, uint32_t vnode,
                     const struct term *ballot)
{
    const struct peer_vnode query = {
        .vnode = LAB_VNODES + vnode,
        .role = ROLE_RECOVERING,
        .term = *ballot,
        .flags = ENTRY_BALLOT | ENTRY_INVITED,
    };
    peer_put_vnode(&lab->records, PEER_QUERY, &query);
    lab_speak(lab, from, to);
}

/* A promise is spoken of only when it is in the journal. */
static void a_report_waits_for_the_promise_to_be_durable(void **state)
{
    struct lab *lab = *state;
    const struct candidacy new = candidacy_of(lab);
    struct peer_record last;
    lab_forget(lab);
    query_of(lab, new.candidate, new.asked, new.vnode, &new.ballot);
    lab_run(lab, 20 * LAB_MS);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t said = lab_said(lab, new.asked, new.candidate, PEER_REPORT, &last);
        assert_true(said == 0 || term_compare(&last.vnode.term, &new.ballot) != 0 || i > 0);
        if (i == 0)
            lab_journal_end(lab, new.asked, true);
        lab_run(lab, 5 * LAB_MS);
    }
    assert_true(lab_said(lab, new.asked, new.candidate, PEER_REPORT, &last) > 0);
    assert_int_equal(term_compare(&last.vnode.term, &new.ballot), 0);
    /* The process ends and another begins: the promise still holds. */
    lab_stop(lab, new.asked);
    start(lab, new.asked);
    struct term known;
    (void)shard_vnode(lab->shards[new.asked].shard, LAB_VNODES + new.vnode, &known);
    assert_true(term_compare(&known, &new.ballot) >= 0);
    lab->shards[new.asked].journal_ns = 0;
}

/* Before the promise is durable a report that was asked for otherwise does not speak of it. */
static void a_report_before_the_promise_is_durable_is_none_of_it(void **state)
{
    struct lab *lab = *state;
    const struct candidacy new = candidacy_of(lab);
    const struct peer_vnode question = {.vnode = LAB_VNODES + new.vnode, .role = ROLE_RECOVERING};
    struct peer_record last;
    lab->cut[new.asked][new.candidate] = true; /* it did not ask, and is not to wonder */
    query_of(lab, new.candidate, new.asked, new.vnode, &new.ballot);
    for (uint32_t i = 0; i < 2; i++) {
        lab_forget(lab);
        peer_put_vnode(&lab->records, PEER_QUERY, &question);
        lab_speak(lab, new.candidate, new.asked);
        lab_run(lab, 2 * LAB_MS);
        assert_true(lab_said(lab, new.asked, new.candidate, PEER_REPORT, &last) > 0);
        assert_int_equal(term_compare(&last.vnode.term, &new.ballot), 0);
        assert_int_equal((last.vnode.flags & ENTRY_PROMISED) != 0, i == 1);
        lab_journal_end(lab, new.asked, true);
    }
    lab->shards[new.asked].journal_ns = 0;
}

/* A ballot below the promised one is answered with that one. */
static void a_lower_ballot_is_refused_with_the_higher_one(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = vnode_of_user(lab, "kept", "ada");
    const uint32_t candidate = lab_replica(lab, vnode, 1);
    const uint32_t asked = lab_replica(lab, vnode, 2);
    struct term before;
    struct peer_record last;
    (void)shard_vnode(lab->shards[asked].shard, LAB_VNODES + vnode, &before);
    const struct term lower = {before.epoch, 1, lab->shards[candidate].node};
    lab_forget(lab);
    query_of(lab, candidate, asked, vnode, &lower);
    lab_run(lab, 5 * LAB_MS);
    assert_true(lab_said(lab, asked, candidate, PEER_REPORT, &last) > 0);
    assert_true(term_compare(&last.vnode.term, &lower) > 0);
}

/* ---- several rules, undo --------------------------------------------------------------------- */

/* A rule of each kind on one request: a denial by one gives back what the other took. */
static void a_denial_by_another_rule_gives_back(void **state)
{
    struct lab *lab = *state;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(check(lab, i % 3, "/mixed", "ada", 1).allowed);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(check(lab, i % 3, "/mixed", "ada", 1).allowed);
    lab_run(lab, 200 * LAB_MS);
    const struct wire_decision peek =
        lab_answer(lab, send(lab, 0, "/mixed", "ada", OPERATION_PEEK, 0, 5000), 0);
    assert_int_equal(peek.used, 4);
    /* Eight times four were not charged to the rule of quorum: six are left of its ten. */
    struct shard_stats stats = lab_stats(lab, 0);
    for (uint32_t at = 1; at < 3; at++)
        stats.undone += lab_stats(lab, at).undone;
    assert_true(stats.undone >= 3);
}

/* The one slot that the journal of shard `at` has of the vnode. */
static const struct lab_slot *journaled(const struct lab *lab, uint32_t at, uint32_t vnode)
{
    const struct lab_journal *journal = lab->shards[at].journal;
    for (size_t i = 0; i < journal->slot_count; i++)
        if (journal->slots[i].vnode == LAB_VNODES + vnode)
            return &journal->slots[i];
    fail();
    return NULL;
}

/* A user whose counter under mixed-one is of one node's vnode and under mixed-quorum of another's.
 */
static void find_parted_user(const struct lab *lab, char user[16], uint32_t *one, uint32_t *quorum)
{
    for (uint32_t i = 0;; i++) {
        (void)snprintf(user, 16, "user-%u", i);
        *one = rank_of(lab, "mixed-one", user, 0);
        *quorum = rank_of(lab, "mixed-quorum", user, 0);
        if (*one != *quorum)
            return;
    }
}

/* Takes the user's counter under mixed-one out of memory, as if only the disk had it. */
static void put_away(struct lab *lab, uint32_t at, const char *user, struct hash128 *id, void *out,
                     int *len)
{
    struct identity identity;
    const struct identity_value value = {user, strlen(user)};
    struct table *table = lab->shards[at].shard->table;
    assert_int_equal(identity_rule(&identity, "mixed-one", 9, &value, 1), 0);
    *id = identity_slot(&lab->shards[at].options.secret, &identity, ALGORITHM_FIXED_WINDOW, 0);
    *len = inspect_slot(lab->shards[at].shard, *id, out, 256);
    assert_true(*len > 0);
    table_drop(table, table_lookup(table, *id));
    table_filter_add(table, vnode_of_user(lab, "mixed-one", user), *id);
}

struct succession {
    uint32_t vnode;
    uint32_t former;
};

static bool another_decides(struct lab *lab, void *context)
{
    const struct succession *it = context;
    const uint32_t at = leader_of(lab, it->vnode);
    return at != LAB_NONE && at != it->former;
}

/* What was granted in a term that is over is not given back: a later attempt may have been told of
 * it then, and who decides now does not know. */
static void a_grant_of_an_earlier_term_is_not_given_back(void **state)
{
    struct lab *lab = *state;
    char user[16];
    uint32_t one;
    struct succession it;
    struct hash128 id;
    uint8_t state_of_one[256];
    uint8_t before[256];
    int len;
    find_parted_user(lab, user, &one, &it.former);
    it.vnode = vnode_of_user(lab, "mixed-quorum", user);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(check(lab, i % 3, "/mixed", user, 1).allowed);
    lab_run(lab, 100 * LAB_MS);
    put_away(lab, one, user, &id, state_of_one, &len);
    const uint64_t seq = send(lab, one, "/mixed", user, OPERATION_CHECK, 1, 5000);
    lab_run(lab, 50 * LAB_MS); /* the rule of quorum has answered, the other one waits */
    const struct lab_slot *slot = journaled(lab, it.former, it.vnode);
    assert_true(slot->len <= sizeof before);
    memcpy(before, slot->bytes, slot->len);
    lab_stop(lab, it.former);
    lab_until(lab, another_decides, &it, 2000 * LAB_MS);
    shard_loaded(lab->shards[one].shard, lab->now_ns, vnode_of_user(lab, "mixed-one", user), id, 0,
                 state_of_one, (size_t)len, &lab->effects);
    lab_perform(lab, one);
    assert_false(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 500 * LAB_MS);
    assert_int_equal(lab_stats(lab, one).undone, 1);
    slot = journaled(lab, leader_of(lab, it.vnode), it.vnode);
    assert_memory_equal(slot->bytes, before, slot->len);
}

/* Refund, reset, hit: each counts once. */
static void refund_reset_and_hit_count_once(void **state)
{
    struct lab *lab = *state;
    assert_true(check(lab, 0, "/kept", "ada", 6).allowed);
    (void)lab_answer(lab, send(lab, 1, "/kept", "ada", OPERATION_REFUND, 2, 5000), 0);
    assert_int_equal(used(lab, 2, "/kept", "ada"), 4);
    (void)lab_answer(lab, send(lab, 1, "/kept", "ada", OPERATION_HIT, 5, 5000), 0);
    assert_int_equal(used(lab, 2, "/kept", "ada"), 9);
    (void)lab_answer(lab, send(lab, 2, "/kept", "ada", OPERATION_RESET, 0, 5000), 0);
    assert_int_equal(used(lab, 0, "/kept", "ada"), 0);
}

/* A refund whose outcome is unknown is not done a second time by the next leader. */
static void a_refund_in_doubt_is_not_repeated(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    const uint32_t asked = rank_of(lab, "kept", "ada", 1);
    assert_true(check(lab, asked, "/kept", "ada", 8).allowed);
    lab_run(lab, 50 * LAB_MS);
    lab->cut[leader][asked] = true; /* the answer is lost, and the leader with it */
    const uint64_t seq = send(lab, asked, "/kept", "ada", OPERATION_REFUND, 3, 3000);
    lab_run(lab, 30 * LAB_MS);
    lab_stop(lab, leader);
    memset(lab->cut, 0, sizeof lab->cut);
    const struct wire_decision refund = lab_answer(lab, seq, 0);
    const uint64_t left = used(lab, asked, "/kept", "ada");
    assert_true(left == 8 || left == 5);
    assert_true(refund.outcome == OUTCOME_ERROR || left == 5);
}

/* A refund that its caller repeats is done once, even if the repeated one first meets a node that
 * says it does not decide: that copy was not done there, but an earlier one was elsewhere. */
static void a_repeated_refund_that_is_sent_on_is_done_once(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = vnode_of_user(lab, "kept", "ada");
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t asked = lab_replica(lab, vnode, 1);
    struct peer_record forward;
    struct term term;
    assert_true(check(lab, asked, "/kept", "ada", 8).allowed);
    const uint64_t seq = send(lab, asked, "/kept", "ada", OPERATION_REFUND, 3, 5000);
    assert_int_not_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_ERROR);
    lab_forget(lab);
    lab->cut[asked][leader] = true;
    put_item(lab, "/kept", "ada", OPERATION_REFUND, 3);
    lab_send_again(lab, asked, seq, 5000);
    lab_run(lab, 2 * LAB_MS);
    assert_int_equal(lab_said(lab, asked, leader, PEER_FORWARD, &forward), 1);
    lab->cut[asked][leader] = false;
    (void)shard_vnode(lab->shards[leader].shard, LAB_VNODES + vnode, &term);
    peer_put_moved(&lab->records, forward.forward.ticket, LAB_VNODES + vnode, &term);
    lab_speak(lab, leader, asked);
    lab_run(lab, 50 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_int_equal(used(lab, asked, "/kept", "ada"), 5);
}

/* A frame that comes twice holds the first copy of a refund twice: it is done once. */
static void a_refund_that_comes_twice_is_done_once(void **state)
{
    struct lab *lab = *state;
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    const uint32_t asked = rank_of(lab, "kept", "ada", 1);
    struct peer_record copy;
    assert_true(check(lab, asked, "/kept", "ada", 8).allowed);
    lab_forget(lab);
    const uint64_t seq = send(lab, asked, "/kept", "ada", OPERATION_REFUND, 3, 5000);
    assert_int_not_equal(lab_answer(lab, seq, 0).outcome, OUTCOME_ERROR);
    assert_int_equal(lab_said(lab, asked, leader, PEER_FORWARD, &copy), 1);
    peer_put_forward(&lab->records, &copy.forward);
    lab_speak(lab, asked, leader);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(used(lab, asked, "/kept", "ada"), 5);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Replica sets of one and of two, and nodes of two shards. */
static void it_works_for_any_number_of_replicas_and_shards(void **state)
{
    static const uint32_t shapes[][3] = {{1, 1, 1}, {2, 1, 2}, {3, 1, 1}, {3, 2, 3}};
    (void)state;
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct lab *lab = quorum_lab(shapes[i][0], shapes[i][1], shapes[i][2]);
        for (uint32_t n = 0; n < 12; n++)
            assert_int_equal(check(lab, n % lab->count, "/kept", "ada", 1).allowed, n < 10);
        lab_free(lab);
    }
}

/* Of two replicas both are needed. */
static void two_replicas_decide_only_together(void **state)
{
    (void)state;
    struct lab *lab = quorum_lab(2, 1, 2);
    const uint32_t leader = rank_of(lab, "kept", "ada", 0);
    lab_stop(lab, 1 - leader);
    lab_run(lab, 500 * LAB_MS);
    assert_false(check(lab, leader, "/kept", "ada", 1).allowed);
    start(lab, 1 - leader);
    lab_until(lab, all_settled, NULL, 5000 * LAB_MS);
    assert_true(check(lab, leader, "/kept", "ada", 1).allowed);
    lab_free(lab);
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void settle_config(struct lab *lab)
{
    assert_int_equal(ring_config_settle(lab->config_next, lab->config), 0);
    lab_adopt(lab);
}

static bool all_arrived(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t at = 0; at < lab->count; at++)
        if (shard_settled_epoch(lab->shards[at].shard) < lab->config->epoch)
            return false;
    return true;
}

static bool owner_decides_all(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        if (leader_of(lab, vnode) != lab_replica(lab, vnode, 0))
            return false;
    return true;
}

static void take_out(struct lab *lab, uint32_t node)
{
    assert_int_equal(ring_config_remove(lab->config_next, lab->config, lab->shards[node].node), 0);
    assert_int_equal(ring_config_settle(lab->config, lab->config_next), 0);
}

static void bring_in(struct lab *lab, uint32_t node)
{
    struct ring_member member;
    lab_member(&member, node);
    assert_int_equal(ring_config_add(lab->config_next, lab->config, &member), 0);
    lab_adopt(lab);
}

/* A user of a vnode in whose new replica set `newcomer` is, behind the owner that it had before;
 * gives that owner, and the replicas that stay and go. */
static void find_moving_user(const struct lab *lab, uint32_t newcomer, char user[16],
                             uint32_t *owner, uint32_t *stays, uint32_t *goes)
{
    for (uint32_t i = 0; i < 1000; i++) {
        (void)snprintf(user, 16, "user-%u", i);
        uint64_t ids[VIEW_REPLICAS_MAX];
        const uint32_t vnode = vnode_of_user(lab, "kept", user);
        if (view_replica_set(lab->shards[0].view, vnode, ids) != 4)
            continue;
        *owner = lab_replica(lab, vnode, 0);
        *goes = lab_replica(lab, vnode, 3); /* of `from` alone */
        const bool second = lab_replica(lab, vnode, 1) == newcomer;
        *stays = lab_replica(lab, vnode, second ? 2 : 1);
        if (*owner != newcomer && *goes != newcomer && *stays != newcomer)
            return;
    }
    fail_msg("no vnode moves as wanted");
}

/* While the ring changes the old majority is not enough: the newcomer's set must hold it too. */
static void in_a_transition_both_majorities_are_needed(void **state)
{
    (void)state;
    struct lab *lab = lab_new(4, 1, 3);
    char user[16];
    uint32_t owner = 0;
    uint32_t stays = 0;
    uint32_t goes = 0;
    take_out(lab, 3);
    for (uint32_t at = 0; at < 4; at++)
        lab_start(lab, at);
    lab_rules(lab, RULES);
    lab_until(lab, owner_decides_all, NULL, 5000 * LAB_MS);
    bring_in(lab, 3);
    lab_until(lab, all_arrived, NULL, 5000 * LAB_MS); /* and the transition is left open */
    find_moving_user(lab, 3, user, &owner, &stays, &goes);
    assert_true(check(lab, owner, "/kept", user, 1).allowed);
    lab_run(lab, 50 * LAB_MS);
    lab->shards[3].journal_ns = -1;
    lab->shards[stays].journal_ns = -1;
    const uint64_t seq = send(lab, owner, "/kept", user, OPERATION_CHECK, 1, 2000);
    lab_run(lab, 100 * LAB_MS); /* the owner and the one that goes hold it */
    assert_false(lab_answered(lab, seq));
    lab->shards[3].journal_ns = 0;
    lab_journal_end(lab, 3, true);
    lab_run(lab, 50 * LAB_MS);
    assert_true(lab_answered(lab, seq));
    lab->shards[stays].journal_ns = 0;
    lab_free(lab);
}

/* A cluster grows from one node to three under rules of quorum: each transition ends, and what was
 * counted by the one node is known to the three. */
static void a_ring_that_grows_from_one_node_arrives(void **state)
{
    (void)state;
    struct lab *lab = lab_new(3, 1, 3);
    take_out(lab, 2);
    take_out(lab, 1);
    for (uint32_t at = 0; at < 3; at++)
        lab_start(lab, at);
    lab_rules(lab, RULES);
    lab_until(lab, owner_decides_all, NULL, 5000 * LAB_MS);
    assert_true(check(lab, 1, "/kept", "ada", 7).allowed);
    for (uint32_t node = 1; node < 3; node++) {
        bring_in(lab, node);
        lab_until(lab, all_arrived, NULL, 5000 * LAB_MS);
        settle_config(lab);
        assert_int_equal(used(lab, 2, "/kept", "ada"), 7);
    }
    lab_until(lab, all_settled, NULL, 5000 * LAB_MS);
    lab_free(lab);
}

static bool both_arrived(struct lab *lab, void *context)
{
    (void)context;
    return shard_settled_epoch(lab->shards[0].shard) == lab->config->epoch &&
           shard_settled_epoch(lab->shards[1].shard) == lab->config->epoch;
}

/* A newcomer and an old member are lost while the newcomer's transition is under way: of some
 * vnodes the majority of the new set, not that of the old one. Forced, the transition ends, for the
 * lost ones cannot be removed before. */
static void a_forced_transition_waits_for_no_set_that_is_lost(void **state)
{
    (void)state;
    struct lab *lab = lab_new(4, 1, 3);
    struct ring_member member;
    take_out(lab, 3);
    for (uint32_t at = 0; at < 3; at++)
        lab_start(lab, at);
    lab_rules(lab, RULES);
    lab_until(lab, owner_decides_all, NULL, 5000 * LAB_MS);
    assert_true(check(lab, 0, "/kept", "ada", 7).allowed);
    lab_stop(lab, 2);
    lab->dead[2] = lab->dead[3] = true;
    lab_member(&member, 3);
    assert_int_equal(ring_config_add(lab->config_next, lab->config, &member), 0);
    assert_int_equal(ring_config_force(lab->config, lab->config_next, 0, &lab->shards[0].node, 1,
                                       lab->shards[0].node),
                     0);
    lab_view(lab, 0);
    lab_view(lab, 1);
    lab_until(lab, both_arrived, NULL, 5000 * LAB_MS);
    assert_int_equal(used(lab, 1, "/kept", "ada"), 7);
    lab_free(lab);
}

int main(void)
{
#define TEST(name) LAB_TEST(name, set_up)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_rule_nothing_of_the_plane_exists),
        TEST(a_limit_is_exact_through_every_node),
        TEST(a_decision_waits_for_a_majority_of_journals),
        TEST(a_forwarded_check_waits_for_its_commit_as_well),
        TEST(a_batch_that_was_not_written_releases_nothing),
        TEST(a_peek_waits_for_a_majority_too),
        TEST(a_dead_decider_is_replaced_and_nothing_is_forgotten),
        TEST(a_whole_restart_forgets_nothing),
        TEST(without_a_majority_on_failure_answers_fast),
        TEST(a_cut_off_decider_answers_nothing),
        TEST(a_deaf_leader_gives_way),
        TEST(who_alone_lost_the_decider_disturbs_nobody),
        TEST(a_report_waits_for_the_promise_to_be_durable),
        TEST(a_report_before_the_promise_is_durable_is_none_of_it),
        TEST(a_lower_ballot_is_refused_with_the_higher_one),
        TEST(a_denial_by_another_rule_gives_back),
        TEST(a_grant_of_an_earlier_term_is_not_given_back),
        TEST(refund_reset_and_hit_count_once),
        TEST(a_refund_in_doubt_is_not_repeated),
        TEST(a_repeated_refund_that_is_sent_on_is_done_once),
        TEST(a_refund_that_comes_twice_is_done_once),
        cmocka_unit_test(it_works_for_any_number_of_replicas_and_shards),
        cmocka_unit_test(two_replicas_decide_only_together),
        cmocka_unit_test(in_a_transition_both_majorities_are_needed),
        cmocka_unit_test(a_ring_that_grows_from_one_node_arrives),
        cmocka_unit_test(a_forced_transition_waits_for_no_set_that_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

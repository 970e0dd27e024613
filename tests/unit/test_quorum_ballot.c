/* test_quorum_ballot.c - consistency quorum in long random histories of faults.
 *
 * Clients ask, repeat and peek through all nodes while processes end and begin, links are cut in
 * one direction or both, journals stall, refuse and lose their last batch, and the ring changes
 * with views that reach the nodes one by one. What must hold all the time:
 *
 *   - no more is answered as allowed than the limit;
 *   - an answer knows of every allowed one that came before it was asked (linearizability of a
 *     count that only rises);
 *   - no node's term for a vnode goes back, whatever crashes.
 *
 * QUORUM_SEED=n tells one story again, QUORUM_SEEDS=n tells so many of each kind.
 *
 * In the end everything heals, and every node tells the same count, not below what was allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/unit/support_disk.h"
#include "tests/unit/support_effort.h"
#include "tests/unit/support_shard.h"

enum { USERS = 4, LIMIT = 150, OPS_MAX = 4096, NODES_MAX = 5, CONFIGS_MAX = 64 };

static const char RULES[] =
    "rules:\n"
    "  - {name: kept, match: {api: /kept}, key: [user], consistency: quorum, on_failure: closed,"
    " limits: [{rate: 150/d, algorithm: fixed_window}]}\n";

struct op {
    uint32_t user;
    bool peek;
    bool answered;
    bool decided;
    bool allowed;
    uint32_t at;
    uint64_t used;
    int64_t asked_ns;
    int64_t answered_ns;
    int64_t again_ns;
};

/* The history of one seed. */
struct story {
    struct lab *lab;
    struct random random;
    uint32_t faults;        /* kinds that happen, a bit each */
    struct op ops[OPS_MAX]; /* by seq */
    uint32_t allowed[USERS];
    struct ring_config *configs[CONFIGS_MAX]; /* every one that was agreed on */
    uint32_t config_count;
    uint32_t known[NODES_MAX]; /* the newest that a node has */
    struct term terms[NODES_MAX][LAB_VNODES];
    uint32_t moved; /* transitions that ended */
};

enum fault { FAULT_CRASH = 1, FAULT_CUT = 2, FAULT_JOURNAL = 4, FAULT_RING = 8 };

static uint32_t below(struct story *story, uint32_t bound)
{
    return (uint32_t)random_below(&story->random, bound);
}

static bool runs(const struct story *story, uint32_t at)
{
    return story->lab->shards[at].shard != NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void give_config(struct story *story, uint32_t at, uint32_t number)
{
    struct ring_config *newest = story->lab->config;
    story->known[at] = number;
    story->lab->config = story->configs[number];
    if (!runs(story, at)) {
        lab_start(story->lab, at);
        shard_policy(story->lab->shards[at].shard, story->lab->policies[0]);
    } else {
        lab_view(story->lab, at);
    }
    story->lab->config = newest;
}

static void crash(struct story *story, uint32_t at)
{
    struct lab *lab = story->lab;
    lab_stop(lab, at);
    lab->shards[at].journal_ns = 0;
    lab->shards[at].journal_fails = false;
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        story->terms[at][vnode] = lab->shards[at].journal->promised[LAB_VNODES + vnode];
}

static void watch_terms(struct story *story)
{
    for (uint32_t at = 0; at < story->lab->count; at++) {
        if (!runs(story, at))
            continue;
        for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++) {
            struct term term;
            if (shard_vnode(story->lab->shards[at].shard, LAB_VNODES + vnode, &term) ==
                SHARD_ABSENT)
                continue;
            assert_true(term_compare(&term, &story->terms[at][vnode]) >= 0);
            story->terms[at][vnode] = term;
        }
        shard_check_invariants(story->lab->shards[at].shard);
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

static void put_item(struct story *story, const struct op *op)
{
    char user[16];
    const struct wire_text names[2] = {wire_text_of("api"), wire_text_of("user")};
    (void)snprintf(user, sizeof user, "user-%u", op->user);
    const struct wire_text values[2] = {wire_text_of("/kept"), wire_text_of(user)};
    const int index = wire_checks_builder_attributes(&story->lab->builder, names, 2);
    assert_true(index >= 0);
    assert_true(wire_checks_builder_append(&story->lab->builder, (uint32_t)index,
                                           op->peek ? OPERATION_PEEK : OPERATION_CHECK,
                                           op->peek ? 0 : 1, values, 2) >= 0);
}

static void ask(struct story *story, uint32_t at, uint32_t user, bool peek, uint32_t timeout_ms)
{
    struct op op = {.user = user, .peek = peek, .at = at, .asked_ns = story->lab->now_ns};
    op.again_ns = op.asked_ns + (200 + below(story, 800)) * LAB_MS;
    put_item(story, &op);
    const uint64_t seq = story->lab->seq + 1;
    assert_true(seq < OPS_MAX);
    story->ops[seq] = op;
    assert_int_equal(lab_send(story->lab, at, timeout_ms), seq);
}

/* Some who got no answer ask again, through another node. */
static void ask_again(struct story *story)
{
    struct lab *lab = story->lab;
    for (uint64_t seq = 1; seq <= lab->seq; seq++) {
        struct op *op = &story->ops[seq];
        const uint32_t at = below(story, lab->count);
        if (op->answered || op->again_ns == 0 || lab->now_ns < op->again_ns || !runs(story, at))
            continue;
        op->again_ns = 0;
        if (below(story, 2) == 0)
            continue;
        put_item(story, op);
        lab_send_again(lab, at, seq, 1000);
    }
}

/* What an answer must know of: the allowed ones that were answered before it was asked. */
static void judge(const struct story *story, uint64_t seq)
{
    const struct op *op = &story->ops[seq];
    uint32_t before = op->allowed && !op->peek;
    for (uint64_t other = 1; other <= story->lab->seq; other++) {
        const struct op *earlier = &story->ops[other];
        before += other != seq && earlier->user == op->user && earlier->allowed && !earlier->peek &&
                  earlier->answered_ns <= op->asked_ns;
    }
    if (op->used < before)
        fail_msg("op %llu of user %u through node %u tells %llu used, %u were allowed before",
                 (unsigned long long)seq, op->user, op->at, (unsigned long long)op->used, before);
}

static void take_reply(struct story *story, const struct lab_reply *reply)
{
    char error[WIRE_ERROR_LEN];
    struct lab *lab = story->lab;
    struct wire_decision decision;
    assert_int_equal(
        wire_decode_decisions(reply->bytes, reply->len, &lab->space, &lab->decisions, error), 0);
    struct op *op = &story->ops[lab->decisions.head.seq];
    wire_decision_at(&lab->decisions, 0, &decision);
    if (op->answered && (op->decided || decision.outcome == OUTCOME_ERROR))
        return; /* asked twice, answered twice */
    op->answered = true;
    op->decided = decision.outcome == OUTCOME_ALLOW || decision.outcome == OUTCOME_DENY;
    op->allowed = op->decided && decision.allowed;
    op->used = decision.used;
    op->answered_ns = lab->now_ns;
    assert_false(op->decided && decision.degraded);
    if (op->allowed && !op->peek) {
        story->allowed[op->user]++;
        assert_true(story->allowed[op->user] <= LIMIT);
    }
    if (op->decided)
        judge(story, lab->decisions.head.seq);
}

static void take_replies(struct story *story)
{
    struct lab *lab = story->lab;
    for (size_t i = 0; i < lab->reply_count; i++) {
        take_reply(story, &lab->replies[i]);
        free(lab->replies[i].bytes);
    }
    lab->reply_count = 0;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void agree(struct story *story)
{
    assert_true(story->config_count < CONFIGS_MAX);
    struct ring_config *copy = malloc(sizeof *copy);
    assert_non_null(copy);
    *copy = *story->lab->config_next;
    story->configs[story->config_count++] = copy;
    story->lab->config = copy;
}

/* As the control core: every living member must have arrived, and a majority must live. */
static bool arrived(const struct story *story)
{
    const struct lab *lab = story->lab;
    uint32_t living = 0;
    for (uint32_t at = 0; at < lab->count; at++) {
        if (!runs(story, at))
            continue;
        living++;
        if (ring_config_find(lab->config, lab->shards[at].node) != NULL &&
            shard_settled_epoch(lab->shards[at].shard) < lab->config->epoch)
            return false;
    }
    return living > lab->count / 2;
}

static void change_ring(struct story *story)
{
    struct lab *lab = story->lab;
    if (!ring_config_is_stable(lab->config)) {
        if (arrived(story) && ring_config_settle(lab->config_next, lab->config) == 0) {
            agree(story);
            story->moved++;
        }
        return;
    }
    if (below(story, 300) != 0)
        return;
    for (uint32_t at = 0; at < lab->count; at++) { /* whoever is out comes in again */
        struct ring_member member;
        if (ring_config_find(lab->config, lab->shards[at].node) != NULL)
            continue;
        lab_member(&member, at);
        assert_int_equal(ring_config_add(lab->config_next, lab->config, &member), 0);
        agree(story);
        return;
    }
    const uint64_t leaves = lab->shards[1 + below(story, lab->count - 1)].node;
    if (ring_config_remove(lab->config_next, lab->config, leaves) == 0)
        agree(story);
}

static void spread_configs(struct story *story, uint32_t one_in)
{
    for (uint32_t at = 0; at < story->lab->count; at++)
        if (runs(story, at) && story->known[at] + 1 < story->config_count &&
            below(story, one_in) == 0)
            give_config(story, at,
                        story->known[at] + 1 +
                            below(story, story->config_count - story->known[at] - 1));
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void crash_some(struct story *story)
{
    const uint32_t at = below(story, story->lab->count);
    if (runs(story, at) && below(story, 400) == 0)
        crash(story, at);
    else if (!runs(story, at) && below(story, 80) == 0)
        give_config(story, at, story->known[at]);
    if (below(story, 4000) == 0) /* all at once */
        for (uint32_t each = 0; each < story->lab->count; each++)
            if (runs(story, each))
                crash(story, each);
}

static void cut_some(struct story *story)
{
    struct lab *lab = story->lab;
    const uint32_t from = below(story, lab->count);
    const uint32_t to = below(story, lab->count);
    if (below(story, 250) == 0)
        lab->cut[from][to] = from != to;
    if (below(story, 500) == 0)
        for (uint32_t each = 0; each < lab->count; each++)
            lab->cut[from][each] = lab->cut[each][from] = each != from;
    if (below(story, 300) == 0)
        memset(lab->cut, 0, sizeof lab->cut);
}

static void disturb_journals(struct story *story)
{
    struct lab_shard *it = &story->lab->shards[below(story, story->lab->count)];
    if (below(story, 100) == 0)
        it->journal_ns = below(story, 40) * LAB_MS;
    if (below(story, 400) == 0)
        it->journal_ns = -1;
    if (below(story, 200) == 0)
        it->journal_fails = !it->journal_fails;
    if (below(story, 50) == 0) {
        it->journal_fails = false;
        it->journal_ns = 0;
    }
}

/* Batches that were held up for ever end when their journal is well again. */
static void wake_journals(struct story *story)
{
    for (uint32_t at = 0; at < story->lab->count; at++)
        if (runs(story, at) && story->lab->shards[at].journal_ns == 0 &&
            story->lab->shards[at].journal->out)
            lab_journal_end(story->lab, at, true);
}

static void step(struct story *story)
{
    struct lab *lab = story->lab;
    const uint32_t at = below(story, lab->count);
    if (runs(story, at) && below(story, 3) == 0 && lab->seq + 2 < OPS_MAX)
        ask(story, at, below(story, USERS), below(story, 4) == 0, 100 + below(story, 1400));
    ask_again(story);
    if ((story->faults & FAULT_CRASH) != 0)
        crash_some(story);
    if ((story->faults & FAULT_CUT) != 0)
        cut_some(story);
    if ((story->faults & FAULT_JOURNAL) != 0)
        disturb_journals(story);
    if ((story->faults & FAULT_RING) != 0) {
        change_ring(story);
        spread_configs(story, 30);
    }
    wake_journals(story);
    lab_run(lab, LAB_MS);
    take_replies(story);
    if (below(story, 20) == 0) {
        watch_terms(story);
        lab_forget(lab);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void heal(struct story *story)
{
    struct lab *lab = story->lab;
    memset(lab->cut, 0, sizeof lab->cut);
    for (uint32_t at = 0; at < lab->count; at++) {
        lab->shards[at].journal_ns = 0;
        lab->shards[at].journal_fails = false;
        if (!runs(story, at))
            give_config(story, at, story->config_count - 1);
    }
    for (uint32_t i = 0; i < 4000; i++) {
        if (!ring_config_is_stable(lab->config))
            change_ring(story);
        spread_configs(story, 1);
        wake_journals(story);
        lab_run(lab, LAB_MS);
        take_replies(story);
        if (i % 20 == 0)
            lab_forget(lab);
    }
    assert_true(ring_config_is_stable(lab->config));
}

/* Every node tells the same, and no less than was allowed. */
static void compare_counts(struct story *story)
{
    struct lab *lab = story->lab;
    for (uint32_t user = 0; user < USERS; user++) {
        uint64_t first = 0;
        for (uint32_t at = 0; at < lab->count; at++) {
            ask(story, at, user, true, 3000);
            const uint64_t seq = lab->seq;
            for (uint32_t i = 0; i < 3000 && !story->ops[seq].answered; i++) {
                lab_run(lab, LAB_MS);
                take_replies(story);
            }
            assert_true(story->ops[seq].decided);
            first = at == 0 ? story->ops[seq].used : first;
            assert_int_equal(story->ops[seq].used, first);
        }
        assert_true(first >= story->allowed[user] && first <= LIMIT);
    }
}

/* Tells one story; the number of decided operations. */
static uint32_t tell(uint64_t seed, uint32_t nodes, uint32_t faults, uint32_t *moved)
{
    struct story *story = calloc(1, sizeof *story);
    assert_non_null(story);
    random_init(&story->random, seed);
    story->faults = faults;
    story->lab = lab_new(nodes, 1, 3);
    /* without any, a branch of the plane of one is never merged (MERGE-6) */
    disks_init(story->lab);
    struct ring_config *own = story->lab->config;
    *story->lab->config_next = *own;
    agree(story);
    for (uint32_t at = 0; at < nodes; at++)
        lab_start(story->lab, at);
    lab_rules(story->lab, RULES);
    story->lab->large = true; /* invariants are looked at now and then */
    for (uint32_t i = 0; i < 5000; i++)
        step(story);
    heal(story);
    watch_terms(story);
    compare_counts(story);
    uint32_t decided = 0;
    for (uint64_t seq = 1; seq <= story->lab->seq; seq++)
        decided += story->ops[seq].decided;
    *moved += story->moved;
    story->lab->config = own;
    for (uint32_t i = 0; i < story->config_count; i++)
        free(story->configs[i]);
    disks_fini(story->lab);
    lab_free(story->lab);
    free(story);
    return decided;
}

static void tell_many(uint32_t nodes, uint32_t faults, uint32_t seeds)
{
    uint32_t decided = 0;
    uint32_t moved = 0;
    const char *chosen = getenv("QUORUM_SEED"); /* one seed, or how many */
    const char *count = getenv("QUORUM_SEEDS");
    const uint64_t first = chosen != NULL ? strtoull(chosen, NULL, 10) : 1;
    const uint64_t last = chosen != NULL  ? first
                          : count != NULL ? strtoull(count, NULL, 10)
                                          : EFFORT(seeds);
    for (uint64_t seed = first; seed <= last; seed++) {
        (void)fprintf(stderr, "\r  seed %llu ", (unsigned long long)seed);
        decided += tell(seed, nodes, faults, &moved);
    }
    (void)fprintf(stderr, "\r  %u decided, %u transitions\n", decided, moved);
    assert_true(decided > 0);
    assert_true(chosen != NULL || (faults & FAULT_RING) == 0 || moved > EFFORT(seeds) / 2);
}

static void crashes_and_lost_batches_forget_nothing(void **state)
{
    (void)state;
    tell_many(3, FAULT_CRASH | FAULT_JOURNAL, 12);
}

static void cuts_in_one_direction_or_both_admit_nothing_more(void **state)
{
    (void)state;
    tell_many(3, FAULT_CUT, 12);
}

static void a_ring_that_changes_never_splits_a_count(void **state)
{
    (void)state;
    tell_many(5, FAULT_RING, 8);
}

static void all_faults_together_keep_every_promise(void **state)
{
    (void)state;
    tell_many(5, FAULT_CRASH | FAULT_CUT | FAULT_JOURNAL | FAULT_RING, 20);
}

/* ---- ballots, one by one --------------------------------------------------------------------- */

enum { ASKED = 0, BALLOT_VNODE = LAB_VNODES + 3 };

static bool all_decided(struct lab *lab, void *context)
{
    (void)context;
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        if (lab_leader(lab, LAB_VNODES + vnode) == LAB_NONE)
            return false;
    return true;
}

static struct term above(const struct term *term, uint64_t writer)
{
    return (struct term){term->epoch, term->number + (UINT64_C(4) << TERM_INCARNATION_BITS),
                         writer};
}

/* A replica that promised a ballot which came to nothing deposes nobody with it: the leader goes
 * above it, and decides on. */
static void a_ballot_that_lost_deposes_nobody(void **state)
{
    (void)state;
    struct lab *lab = lab_new(3, 1, 3);
    lab_start_all(lab);
    lab_rules(lab, RULES);
    lab_until(lab, all_decided, NULL, 5000 * LAB_MS);
    lab_run(lab, 1000 * LAB_MS);
    const uint32_t leader = lab_leader(lab, BALLOT_VNODE);
    const uint32_t loser = (leader + 1) % 3;
    const uint64_t opened = lab_stats(lab, loser).quorum.terms;
    struct term term;
    struct peer_vnode stale = {.vnode = BALLOT_VNODE, .role = ROLE_RECOVERING};
    (void)shard_vnode(lab->shards[leader].shard, BALLOT_VNODE, &term);
    stale.term = above(&term, lab->shards[loser].node);
    peer_put_vnode(&lab->records, PEER_STALE, &stale);
    lab_speak(lab, loser, leader);
    lab_run(lab, 1000 * LAB_MS);
    assert_int_equal(lab_leader(lab, BALLOT_VNODE), leader);
    assert_int_equal(lab_stats(lab, loser).quorum.terms, opened);
    assert_int_equal(lab_stats(lab, leader).stepped_down, 0);
    (void)shard_vnode(lab->shards[leader].shard, BALLOT_VNODE, &term);
    assert_true(term_compare(&term, &stale.term) > 0);
    lab_free(lab);
}

/* Journals that take longer than a candidate waits at first delay the opening, and no more. */
static void slow_journals_delay_an_opening_and_no_more(void **state)
{
    (void)state;
    struct lab *lab = lab_new(3, 1, 3);
    for (uint32_t at = 0; at < 3; at++)
        lab->shards[at].journal_ns = 700 * LAB_MS;
    lab_start_all(lab);
    lab_rules(lab, RULES);
    lab_until(lab, all_decided, NULL, 10000 * LAB_MS);
    lab_free(lab);
}

/* One node of three runs; the test speaks for the others. */
static void ghost_asks(struct lab *lab, uint32_t ghost, const struct term *ballot)
{
    const struct peer_vnode query = {
        .vnode = BALLOT_VNODE, .role = ROLE_RECOVERING, .term = *ballot, .flags = ENTRY_BALLOT};
    peer_put_vnode(&lab->records, PEER_QUERY, &query);
    lab_speak(lab, ghost, ASKED);
}

static struct lab *lab_of_ghosts(void)
{
    struct lab *lab = lab_new(3, 1, 3);
    lab_start(lab, ASKED);
    lab_rules(lab, RULES);
    for (uint32_t at = 1; at < 3; at++)
        lab->shards[at].options.boot = 1000 + at;
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 20);
    return lab;
}

/* Who promised a ballot leaves its candidate time: another one is refused until the first has given
 * no sign for a while. */
static void a_promise_binds_while_its_candidate_is_at_it(void **state)
{
    (void)state;
    struct lab *lab = lab_of_ghosts();
    const struct term none = {lab->config->epoch, UINT64_C(90) << TERM_INCARNATION_BITS, 0};
    const struct term first = above(&none, lab->shards[1].node);
    const struct term second = above(&first, lab->shards[2].node);
    struct peer_record report;
    ghost_asks(lab, 1, &first);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 5);
    lab_forget(lab);
    ghost_asks(lab, 2, &second);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 2);
    assert_true(lab_said(lab, ASKED, 2, PEER_REPORT, &report) > 0);
    assert_int_equal(term_compare(&report.vnode.term, &first), 0);
    assert_true((report.vnode.flags & ENTRY_BOUND) != 0);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 320);
    ghost_asks(lab, 2, &second);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 5);
    lab_forget(lab);
    ghost_asks(lab, 2, &second);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 2);
    assert_true(lab_said(lab, ASKED, 2, PEER_REPORT, &report) > 0);
    assert_int_equal(term_compare(&report.vnode.term, &second), 0);
    assert_true((report.vnode.flags & ENTRY_PROMISED) != 0);
    lab_free(lab);
}

/* A candidate that asks again while its promise is at the journal does not have it written twice.
 */
static void a_promise_is_written_once(void **state)
{
    (void)state;
    struct lab *lab = lab_of_ghosts();
    const struct term none = {lab->config->epoch, UINT64_C(90) << TERM_INCARNATION_BITS, 0};
    const struct term ballot = above(&none, lab->shards[1].node);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 20);
    lab->shards[ASKED].journal_ns = -1;
    const uint64_t before = lab_stats(lab, ASKED).journal_records;
    for (uint32_t i = 0; i < 3; i++) {
        ghost_asks(lab, 1, &ballot);
        lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 5);
    }
    lab_journal_end(lab, ASKED, true);
    lab_ghosts_live(lab, ASKED, BALLOT_VNODE + 1, 5);
    lab_journal_end(lab, ASKED, true);
    assert_int_equal(lab_stats(lab, ASKED).journal_records, before + 1);
    assert_int_equal(term_compare(&lab->shards[ASKED].journal->promised[BALLOT_VNODE], &ballot), 0);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ballot_that_lost_deposes_nobody),
        cmocka_unit_test(slow_journals_delay_an_opening_and_no_more),
        cmocka_unit_test(a_promise_binds_while_its_candidate_is_at_it),
        cmocka_unit_test(a_promise_is_written_once),
        cmocka_unit_test(crashes_and_lost_batches_forget_nothing),
        cmocka_unit_test(cuts_in_one_direction_or_both_admit_nothing_more),
        cmocka_unit_test(a_ring_that_changes_never_splits_a_count),
        cmocka_unit_test(all_faults_together_keep_every_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

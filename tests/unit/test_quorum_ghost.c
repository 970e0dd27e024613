/* test_quorum_ghost.c - consistency quorum at one node whose peers are the test: frames that come
 * late, reports of processes that have ended, ballots that stand still half-way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/election/election.h"
#include "node/cluster/partition/majority.h"
#include "tests/unit/support_shard.h"

static const char RULES[] =
    "rules:\n"
    "  - {name: kept, match: {api: /kept}, key: [user], consistency: quorum, on_failure: closed,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n";

enum { ASKED = 0, GHOST = 1, RIVAL = 2, GHOST_VNODE = LAB_VNODES + 3, GHOST_STATE_MAX = 256 };

/* One node of three runs; the test speaks for the others. */
static struct lab *lab_of_ghosts(void)
{
    struct lab *lab = lab_new(3, 1, 3);
    lab_start(lab, ASKED);
    lab_rules(lab, RULES);
    for (uint32_t at = 1; at < 3; at++)
        lab->shards[at].options.boot = 1000 + at;
    return lab;
}

/* What the ghost holds, or writes. */
static struct peer_vnode ghost_entry(const struct lab *lab, uint64_t number, uint64_t seq)
{
    const struct term term = {1, number, lab->shards[GHOST].node};
    return (struct peer_vnode){.vnode = GHOST_VNODE,
                               .role = ROLE_LEADING,
                               .term = term,
                               .state = term,
                               .seq = seq,
                               .sync = 1};
}

/* The ghost sends a frame of its stream: a slot, or a mark, or both. */
static void ghost_sends(struct lab *lab, uint64_t frame, bool slot, uint64_t watermark_seq)
{
    const struct hash128 id = {1, 1};
    const struct limit limit = lab_limit(100);
    const struct peer_vnode mark = ghost_entry(lab, 5, watermark_seq);
    uint8_t state[GHOST_STATE_MAX];
    struct limit_decision decision;
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 1), 0);
    engine_one(table, id, 0, &limit, frame, OPERATION_CHECK, 0, lab->now_ns, &decision);
    const int len = table_export(table, table_lookup(table, id), state, sizeof state);
    table_free(&table);
    assert_true(len > 0);
    peer_put_stream(&lab->records, 1, frame, lab->shards[ASKED].options.boot);
    peer_put_term(&lab->records, GHOST_VNODE, &mark.term, mark.sync, true, frame == 1);
    if (slot)
        peer_put_slot(&lab->records, GHOST_VNODE, id, state, (uint32_t)len);
    if (watermark_seq > 0)
        peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, ASKED);
}

/* The ghost opens a term and sends a first slot, which the running node takes and holds. */
static void ghost_decides(struct lab *lab)
{
    const struct peer_vnode opened = ghost_entry(lab, 5, 1);
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, GHOST, ASKED);
    ghost_sends(lab, 1, true, 10);
    lab_run(lab, 5 * LAB_MS);
}

/* Slots that reached the journal before their mark came are not said to be held while the header
 * there is older: after a crash the replica would claim no more than that one does. */
static void slots_are_held_only_with_their_header(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct peer_record held;
    (void)state;
    ghost_decides(lab);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_HELD, &held) > 0);
    assert_int_equal(lab->shards[ASKED].journal->seq[GHOST_VNODE], 10);
    ghost_sends(lab, 2, true, 0);
    lab_run(lab, 5 * LAB_MS); /* the slot is in the journal now */
    lab->shards[ASKED].journal_ns = -1;
    lab_forget(lab);
    ghost_sends(lab, 3, false, 20);
    lab_run(lab, 5 * LAB_MS);
    assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_HELD, &held), 0);
    lab_journal_end(lab, ASKED, true);
    lab_run(lab, 5 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_HELD, &held) > 0);
    assert_int_equal(held.vnode.seq, 20);
    assert_int_equal(lab->shards[ASKED].journal->seq[GHOST_VNODE], 20);
    lab_free(lab);
}

/* JOURNAL-5 after a restart: which of the slots in the journal its header tells of is not known any
 * more, so the first mark asks for a new header. */
static void after_a_restart_slots_are_held_only_with_a_new_header(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct lab_shard *asked = &lab->shards[ASKED];
    const struct peer_vnode mark = ghost_entry(lab, 5, 20);
    (void)state;
    ghost_decides(lab);
    ghost_sends(lab, 2, true, 0);
    lab_run(lab, 5 * LAB_MS);
    lab_stop(lab, ASKED);
    lab_start(lab, ASKED);
    shard_policy(asked->shard, lab->policies[0]);
    peer_put_vnode(&lab->records, PEER_OPENED, &mark);
    lab_speak(lab, GHOST, ASKED);
    lab_run(lab, 5 * LAB_MS);
    asked->journal_ns = -1;
    lab_forget(lab);
    peer_put_stream(&lab->records, 1, 1, asked->options.boot);
    peer_put_term(&lab->records, GHOST_VNODE, &mark.term, mark.sync, false, true);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, ASKED);
    lab_run(lab, 5 * LAB_MS);
    assert_int_equal(asked->journal->seq[GHOST_VNODE], 10);
    assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_HELD, NULL), 0);
    lab_journal_end(lab, ASKED, true);
    lab_run(lab, 5 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_HELD, NULL) > 0);
    assert_int_equal(asked->journal->seq[GHOST_VNODE], 20);
    lab_free(lab);
}

/* JOURNAL-1: the header of a batch that was refused goes with a later one, and HELD with it: the
 * leader waits for that word, and does not ask for it for ever. */
static void the_header_of_a_refused_batch_is_written_later(void **state)
{
    (void)state;
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct lab *lab = lab_of_ghosts();
        struct lab_shard *asked = &lab->shards[ASKED];
        struct peer_record held;
        uint8_t before[GHOST_STATE_MAX];
        ghost_decides(lab);
        ghost_sends(lab, 2, true, 0); /* so that the mark needs a header */
        lab_run(lab, 5 * LAB_MS);
        lab_forget(lab);
        const size_t len = asked->journal->slots[0].len;
        assert_true(asked->journal->slot_count == 1 && len <= sizeof before);
        memcpy(before, asked->journal->slots[0].bytes, len);
        asked->journal_ns = -1;
        ghost_sends(lab, 3, slot != 0, 20);
        lab_run(lab, 2 * LAB_MS);
        assert_true(asked->journal->out);
        lab_journal_end(lab, ASKED, false);
        assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_HELD, &held), 0);
        asked->journal_ns = 0;
        lab_run(lab, 60 * LAB_MS); /* longer than the rest after a refused batch */
        assert_int_equal(asked->journal->seq[GHOST_VNODE], 20);
        assert_true(lab_said(lab, ASKED, GHOST, PEER_HELD, &held) > 0);
        assert_int_equal(held.vnode.seq, 20);
        assert_int_equal(memcmp(before, asked->journal->slots[0].bytes, len) != 0, slot);
        lab_free(lab);
    }
}

/* A copy that began before the one ahead of it was tidied up may leave slots over that the leader
 * lacks: another one is asked for. */
static void a_copy_that_may_leave_something_over_is_repeated(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct peer_record lack;
    (void)state;
    const struct peer_vnode opened = ghost_entry(lab, 5, 1);
    struct peer_vnode mark;
    ghost_decides(lab);
    for (uint32_t sync = 2; sync < 4; sync++) {
        mark = ghost_entry(lab, 5, 10 + sync);
        mark.sync = sync;
        peer_put_stream(&lab->records, 1, sync, lab->shards[ASKED].options.boot);
        peer_put_term(&lab->records, GHOST_VNODE, &mark.term, sync, true, true);
        if (sync == 2)
            peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
        lab_speak(lab, GHOST, ASKED);
    }
    for (uint32_t i = 0; i < 5; i++) { /* the vnode falls calm before the copy ends */
        lab_run(lab, 10 * LAB_MS);
        peer_put_vnode(&lab->records, PEER_OPENED, &opened);
        lab_speak(lab, GHOST, ASKED);
    }
    peer_put_stream(&lab->records, 1, 4, lab->shards[ASKED].options.boot);
    peer_put_term(&lab->records, GHOST_VNODE, &mark.term, mark.sync, true, false);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, ASKED);
    lab_run(lab, 120 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_LACK, &lack) > 0);
    assert_int_equal(lack.vnode.sync, 3);
    lab_free(lab);
}

/* What a complete copy does not have is taken out of the journal before the header that says so: a
 * restart between the two would find the old slot under the new claim. */
static void a_header_waits_for_what_a_copy_left_over(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct peer_record held;
    (void)state;
    ghost_decides(lab);
    const struct lab_journal *journal = lab->shards[ASKED].journal;
    assert_int_equal(journal->slot_count, 1);
    uint8_t before[GHOST_STATE_MAX];
    const size_t len = journal->slots[0].len;
    assert_true(len <= sizeof before);
    memcpy(before, journal->slots[0].bytes, len);
    lab_forget(lab);
    struct peer_vnode mark = ghost_entry(lab, 5, 20);
    mark.sync = 2;
    peer_put_stream(&lab->records, 1, 2, lab->shards[ASKED].options.boot);
    peer_put_term(&lab->records, GHOST_VNODE, &mark.term, mark.sync, true, true);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, ASKED);
    lab_run(lab, 2 * LAB_MS); /* the table was not looked through since */
    assert_memory_equal(journal->slots[0].bytes, before, len);
    assert_int_equal(journal->seq[GHOST_VNODE], 10);
    assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_HELD, &held), 0);
    assert_false(shard_journal_due(lab->shards[ASKED].shard)); /* no batch for it meanwhile */
    lab_run(lab, 20 * LAB_MS);
    assert_memory_not_equal(journal->slots[0].bytes, before, len); /* as new */
    assert_int_equal(journal->seq[GHOST_VNODE], 20);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_HELD, &held) > 0);
    assert_int_equal(held.vnode.seq, 20);
    lab_free(lab);
}

/* A promise whose batch was refused is not written any more for a vnode that was dropped meanwhile:
 * nobody waits for it, and the term of a vnode that is not held here is hearsay. */
static void a_dropped_vnode_promises_nothing(void **state)
{
    (void)state;
    for (uint32_t dropped = 0; dropped < 2; dropped++) {
        struct lab *lab = lab_of_ghosts();
        struct lab_shard *asked = &lab->shards[ASKED];
        struct peer_vnode ballot = ghost_entry(lab, 7, 0);
        ballot.role = ROLE_RECOVERING;
        ballot.flags = ENTRY_BALLOT;
        ballot.term.epoch = lab->config->epoch;
        asked->journal_ns = -1;
        lab_run(lab, 5 * LAB_MS);
        lab_journal_end(lab, ASKED, true);
        peer_put_vnode(&lab->records, PEER_QUERY, &ballot);
        lab_speak(lab, GHOST, ASKED);
        lab_tick(lab, ASKED);
        lab_run(lab, LAB_MS);
        assert_true(asked->journal->out);
        if (dropped != 0)
            vnodes_drop(asked->shard, GHOST_VNODE);
        lab_journal_end(lab, ASKED, false);
        asked->journal_ns = 0;
        lab_run(lab, 60 * LAB_MS); /* longer than the rest after a refused batch */
        const bool promised =
            term_compare(&asked->journal->promised[GHOST_VNODE], &ballot.term) >= 0;
        assert_int_equal(promised, dropped == 0);
        lab_free(lab);
    }
}

/* Two ghosts say that they follow nobody until the running node asks them for a ballot, which is
 * given. Its journal stands still. */
static struct term ghosts_let_campaign(struct lab *lab)
{
    struct term ballot = {0};
    lab->shards[ASKED].journal_ns = -1;
    struct peer_record query;
    for (uint32_t i = 0; i < 400; i++) {
        lab_run(lab, LAB_MS);
        for (uint32_t ghost = 1; ghost < 3; ghost++) { /* signs of life */
            const struct peer_vnode free = {.vnode = GHOST_VNODE, .role = ROLE_REPLICA};
            peer_put_vnode(&lab->records, PEER_REPORT, &free);
            lab_speak(lab, ghost, ASKED);
        }
        if (lab_said(lab, ASKED, GHOST, PEER_QUERY, &query) > 0 &&
            query.vnode.vnode == GHOST_VNODE && (query.vnode.flags & ENTRY_BALLOT) != 0)
            return query.vnode.term;
    }
    fail();
    return ballot;
}

static void journal_goes_on(struct lab *lab)
{
    lab_journal_end(lab, ASKED, true);
    lab->shards[ASKED].journal_ns = 0;
}

static void ghost_reports(struct lab *lab, const struct term *ballot, uint64_t seq, uint8_t flags)
{
    const struct peer_vnode report = {.vnode = GHOST_VNODE,
                                      .role = ROLE_REPLICA,
                                      .term = *ballot,
                                      .state = {seq > 0, seq > 0, seq > 0},
                                      .seq = seq,
                                      .flags = flags};
    peer_put_vnode(&lab->records, PEER_REPORT, &report);
    lab_speak(lab, GHOST, ASKED);
}

/* A report of that term with those flags does not open the ballot; a promise of it does. */
static void assert_no_promise(struct lab *lab, const struct term *ballot,
                              const struct term *reported, uint8_t flags)
{
    ghost_reports(lab, reported, 0, flags);
    journal_goes_on(lab);
    lab_run(lab, 5 * LAB_MS);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_RECOVERING);
    ghost_reports(lab, ballot, 0, ENTRY_PROMISED);
    lab_run(lab, 5 * LAB_MS);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_LEADING);
}

/* Who only has heard of a ballot has not promised it: a report of its term does not count. */
static void a_report_of_a_term_is_no_promise_of_it(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    const struct term ballot = ghosts_let_campaign(lab);
    assert_no_promise(lab, &ballot, &ballot, 0);
    lab_free(lab);
}

/* The promise of an earlier ballot is none of this one: whoever gave it may have promised another
 * candidate more meanwhile. */
static void a_promise_of_an_earlier_ballot_does_not_count(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    const struct term ballot = ghosts_let_campaign(lab);
    struct term earlier = ballot;
    earlier.number--;
    assert_no_promise(lab, &ballot, &earlier, ENTRY_PROMISED);
    lab_free(lab);
}

/* A replica that restarts between its report and the opening may hold less than it said: it is sent
 * a complete copy, not just the mark of a term. */
static void who_restarted_since_its_report_is_sent_all(void **state)
{
    (void)state;
    for (uint32_t restarts = 0; restarts < 2; restarts++) {
        struct lab *lab = lab_of_ghosts();
        const struct term ballot = ghosts_let_campaign(lab);
        struct peer_record term;
        ghost_reports(lab, &ballot, 0, ENTRY_PROMISED);
        if (restarts > 0)
            lab_closed(lab, GHOST);
        lab->shards[GHOST].options.boot += restarts;
        ghost_reports(lab, &ballot, 0, ENTRY_PROMISED);
        journal_goes_on(lab);
        lab_run(lab, 20 * LAB_MS);
        assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_LEADING);
        assert_true(lab_said(lab, ASKED, GHOST, PEER_TERM, &term) > 0);
        assert_int_equal(term.term.vnode, GHOST_VNODE);
        assert_int_equal(term.term.copy, restarts);
        lab_free(lab);
    }
}

/* The ghost hands over the state of `seq` in its frame of that number: one slot, and its mark. */
static void ghost_sends_state(struct lab *lab, uint32_t frame, uint32_t vnode,
                              const struct term *term, const struct term *state, uint64_t seq)
{
    const struct hash128 id = {1, 1};
    const struct limit limit = lab_limit(100);
    const struct peer_vnode mark = {.vnode = vnode,
                                    .role = ROLE_REPLICA,
                                    .term = *term,
                                    .state = *state,
                                    .seq = seq,
                                    .sync = 8 + frame};
    uint8_t bytes[GHOST_STATE_MAX];
    struct limit_decision decision;
    struct table *table;
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 1), 0);
    engine_one(table, id, 0, &limit, 7, OPERATION_CHECK, 0, lab->now_ns, &decision);
    const int len = table_export(table, table_lookup(table, id), bytes, sizeof bytes);
    table_free(&table);
    assert_true(len > 0);
    peer_put_stream(&lab->records, 1, frame, lab->shards[ASKED].options.boot);
    peer_put_term(&lab->records, vnode, state, mark.sync, true, true);
    peer_put_slot(&lab->records, vnode, id, bytes, (uint32_t)len);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, GHOST, ASKED);
}

static void ghost_is_pulled(struct lab *lab, uint32_t vnode, const struct term *term,
                            const struct term *state, uint64_t seq)
{
    ghost_sends_state(lab, 1, vnode, term, state, seq);
}

/* Both ghosts report the same state, the first of them with parts of a newer one beside it. */
static void ghosts_report_seq(struct lab *lab, uint32_t vnode, const struct term *term,
                              const struct term *state, uint64_t seq, bool holds_newer)
{
    for (uint32_t ghost = 1; ghost < 3; ghost++) {
        const struct peer_vnode report = {.vnode = vnode,
                                          .role = ROLE_REPLICA,
                                          .term = *term,
                                          .state = *state,
                                          .seq = seq,
                                          .flags = vnode < LAB_VNODES ? 0 : ENTRY_PROMISED,
                                          .holds_newer = ghost == GHOST && holds_newer};
        peer_put_vnode(&lab->records, PEER_REPORT, &report);
        lab_speak(lab, ghost, ASKED);
    }
}

static void ghosts_report(struct lab *lab, uint32_t vnode, const struct term *term,
                          const struct term *state, bool holds_newer)
{
    ghosts_report_seq(lab, vnode, term, state, 50, holds_newer);
}

/* The best state of a vnode is pulled from one ghost; the other one, which reported the same state,
 * is sent all of it iff there were parts of a newer one beside it where it was pulled. */
static void assert_rival_is_sent_all_iff_beyond(struct lab *lab, uint32_t vnode,
                                                const struct term *ballot, bool holds_newer)
{
    const struct term best = {1, 1, lab->shards[GHOST].node};
    struct peer_record term;
    ghosts_report(lab, vnode, ballot != NULL ? ballot : &best, &best, holds_newer);
    if (ballot != NULL)
        journal_goes_on(lab);
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL) > 0);
    lab_forget(lab);
    ghost_is_pulled(lab, vnode, ballot != NULL ? ballot : &best, &best, 50);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_role(lab, ASKED, vnode), SHARD_LEADING);
    assert_true(lab_said(lab, ASKED, RIVAL, PEER_TERM, &term) > 0);
    assert_int_equal(term.term.vnode, vnode);
    assert_int_equal(term.term.copy, holds_newer);
}

/* What is pulled from a node that has parts of a newer state beside the best one is such a mixture:
 * another that holds the best one does not hold that, and is sent all of it. */
static void who_holds_the_best_without_what_is_beside_it_is_sent_all(void **state)
{
    (void)state;
    for (uint32_t holds_newer = 0; holds_newer < 2; holds_newer++) {
        struct lab *lab = lab_of_ghosts();
        const struct term ballot = ghosts_let_campaign(lab);
        assert_rival_is_sent_all_iff_beyond(lab, GHOST_VNODE, &ballot, holds_newer != 0);
        lab_free(lab);
    }
}

/* The same in the plane of one: replicas that count as confirmed would stay unequal. */
static void who_holds_the_best_alone_is_sent_all_without_a_majority_too(void **state)
{
    (void)state;
    for (uint32_t holds_newer = 0; holds_newer < 2; holds_newer++) {
        struct lab *lab = lab_of_ghosts();
        lab_run(lab, 2 * LAB_MS);
        assert_rival_is_sent_all_iff_beyond(lab, lab_vnode_owned(lab, ASKED), NULL,
                                            holds_newer != 0);
        lab_free(lab);
    }
}

/* A copy that the pulled node had begun long before, and that arrives only now, is not the state
 * that it reported: who took it would decide without what a majority had acknowledged since. */
static void a_copy_that_claims_less_than_was_reported_ends_no_pull(void **state)
{
    (void)state;
    struct lab *lab = lab_of_ghosts();
    const struct term ballot = ghosts_let_campaign(lab);
    const struct term best = {1, 1, lab->shards[GHOST].node};
    ghosts_report(lab, GHOST_VNODE, &ballot, &best, false);
    journal_goes_on(lab);
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL) > 0);
    ghost_is_pulled(lab, GHOST_VNODE, &ballot, &best, 3);
    lab_run(lab, 5 * LAB_MS);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_RECOVERING);
    ghost_sends_state(lab, 2, GHOST_VNODE, &ballot, &best, 50);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_LEADING);
    lab_free(lab);
}

/* What was reported is not there any more: the ghost that is pulled has restarted since, or its
 * claim has fallen. All are asked again, and the best of what there is now is taken. */
static void assert_asked_again(bool restarts)
{
    struct lab *lab = lab_of_ghosts();
    lab_run(lab, 2 * LAB_MS);
    const uint32_t vnode = lab_vnode_owned(lab, ASKED);
    const struct term best = {1, 1, lab->shards[GHOST].node};
    ghosts_report(lab, vnode, &best, &best, false);
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL) > 0);
    lab_forget(lab);
    if (restarts)
        lab_closed(lab, GHOST);
    lab->shards[GHOST].options.boot += restarts;
    for (uint32_t frame = 1; !restarts && frame <= VNODES_SHORT_SNAPSHOTS_MAX; frame++) {
        assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_QUERY, NULL), 0);
        ghost_sends_state(lab, frame, vnode, &best, &best, 3);
    }
    ghosts_report_seq(lab, vnode, &best, &best, 3, false);
    ghosts_report_seq(lab, vnode, &best, &best, 3, false); /* what it says after its restart */
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_QUERY, NULL) > 0);
    ghost_sends_state(lab, restarts ? 1 : VNODES_SHORT_SNAPSHOTS_MAX + 1, vnode, &best, &best, 3);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_role(lab, ASKED, vnode), SHARD_LEADING);
    lab_free(lab);
}

static void a_pull_from_one_that_restarted_begins_anew(void **state)
{
    (void)state;
    assert_asked_again(true);
}

static void a_pull_that_keeps_falling_short_begins_anew(void **state)
{
    (void)state;
    assert_asked_again(false);
}

/* Slots that were on disk without a header, which came to be written after them, are parts of a
 * state that is not claimed: whoever asks is told so. */
static void slots_without_a_header_are_beyond_what_is_claimed(void **state)
{
    (void)state;
    for (uint32_t restored = 0; restored < 2; restored++) {
        struct lab *lab = lab_of_ghosts();
        const uint32_t vnode = lab_vnode_owned(lab, ASKED);
        const struct peer_vnode query = {.vnode = vnode, .role = ROLE_RECOVERING};
        const struct limit limit = lab_limit(100);
        const struct hash128 id = {1, 1};
        uint8_t bytes[GHOST_STATE_MAX];
        struct limit_decision decision;
        struct table *table;
        struct peer_record report;
        assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 1), 0);
        engine_one(table, id, 0, &limit, 7, OPERATION_CHECK, 0, lab->now_ns, &decision);
        const int len = table_export(table, table_lookup(table, id), bytes, sizeof bytes);
        table_free(&table);
        assert_true(len > 0);
        if (restored != 0)
            assert_int_equal(shard_restore_slot(lab->shards[ASKED].shard, vnode, id, bytes,
                                                (size_t)len, lab->now_ns),
                             0);
        lab_run(lab, 2 * LAB_MS);
        peer_put_vnode(&lab->records, PEER_QUERY, &query);
        lab_speak(lab, GHOST, ASKED);
        lab_run(lab, 2 * LAB_MS);
        assert_true(lab_said(lab, ASKED, GHOST, PEER_REPORT, &report) > 0);
        assert_int_equal(report.vnode.vnode, vnode);
        assert_int_equal(report.vnode.holds_newer, restored);
        lab_free(lab);
    }
}

/* A state that was to be pulled from a process that has ended is looked for again. */
static void who_restarted_is_not_pulled_from_unasked(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct peer_record query;
    (void)state;
    const struct term ballot = ghosts_let_campaign(lab);
    ghost_reports(lab, &ballot, 50, ENTRY_PROMISED);
    journal_goes_on(lab);
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL) > 0);
    lab_forget(lab);
    lab_closed(lab, GHOST);
    lab->shards[GHOST].options.boot++;
    ghost_reports(lab, &ballot, 40, ENTRY_PROMISED);
    lab_run(lab, 5 * LAB_MS);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_QUERY, &query) > 0);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_RECOVERING);
    lab_free(lab);
}

/* A PULL may be lost: it is asked again, well before another source is looked for. */
static void a_pull_of_which_nothing_comes_is_repeated(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    const struct term ballot = ghosts_let_campaign(lab);
    ghost_reports(lab, &ballot, 50, ENTRY_PROMISED);
    journal_goes_on(lab);
    lab_ghosts_live(lab, ASKED, GHOST_VNODE + 1, 2);
    assert_true(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL) > 0);
    lab_forget(lab);
    lab_ghosts_live(lab, ASKED, GHOST_VNODE + 1, 60);
    assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL), 0);
    lab_ghosts_live(lab, ASKED, GHOST_VNODE + 1, 60);
    assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL), 1);
    lab_ghosts_live(lab, ASKED, GHOST_VNODE + 1, 100);
    assert_int_equal(lab_said(lab, ASKED, GHOST, PEER_PULL, NULL), 2);
    lab_free(lab);
}

/* Who has promised a higher ballot gives its state to nobody of a lower one, and says so; the
 * ballot is let go at once. */
static void a_pull_that_is_refused_ends_its_ballot(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    const struct term ballot = ghosts_let_campaign(lab);
    ghost_reports(lab, &ballot, 50, ENTRY_PROMISED);
    journal_goes_on(lab);
    lab_ghosts_live(lab, ASKED, GHOST_VNODE + 1, 2);
    assert_true(lab->shards[ASKED].shard->vnodes[GHOST_VNODE].catching_up);
    const struct term higher = {ballot.epoch, ballot.number + 1000, lab->shards[2].node};
    ghost_reports(lab, &higher, 50, 0);
    lab_ghosts_live(lab, ASKED, GHOST_VNODE + 1, 10);
    assert_false(lab->shards[ASKED].shard->vnodes[GHOST_VNODE].catching_up);
    lab_free(lab);
}

/* The same, seen from the one that is asked for its state. */
static void a_pull_of_a_lower_ballot_is_refused(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct peer_record report;
    struct peer_vnode pull = {.vnode = GHOST_VNODE, .role = ROLE_RECOVERING};
    (void)state;
    ghost_decides(lab);
    lab_forget(lab);
    pull.term = (struct term){0, 1, lab->shards[2].node};
    peer_put_vnode(&lab->records, PEER_PULL, &pull);
    lab_speak(lab, 2, ASKED);
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab_said(lab, ASKED, 2, PEER_REPORT, &report) > 0);
    assert_true(term_compare(&report.vnode.term, &pull.term) > 0);
    assert_int_equal(lab->shards[ASKED].shard->vnodes[GHOST_VNODE].snapshot_to, PEER_NONE);
    lab_free(lab);
}

enum { RIVAL_NUMBER = 9 };

/* The ballot of `from`: nothing so high was heard of before. */
static struct term ghost_asks(struct lab *lab, uint32_t from, uint64_t number, uint8_t flags)
{
    struct peer_vnode ballot = {.vnode = GHOST_VNODE, .role = ROLE_RECOVERING};
    ballot.term = (struct term){lab->config->epoch, number, lab->shards[from].node};
    ballot.flags = ENTRY_BALLOT | flags;
    peer_put_vnode(&lab->records, PEER_QUERY, &ballot);
    lab_speak(lab, from, ASKED);
    lab_run(lab, 5 * LAB_MS);
    return ballot.term;
}

static bool has_promised(const struct lab *lab, const struct term *ballot)
{
    return term_compare(&lab->shards[ASKED].journal->promised[GHOST_VNODE], ballot) == 0;
}

/* BALLOT-2: who follows a living leader promises nothing to another candidate, unless that leader
 * wants it so; else each replica that alone lost sight of the leader would depose it. */
static void who_is_bound_to_a_decider_promises_to_the_invited_alone(void **state)
{
    struct lab *lab = lab_of_ghosts();
    struct peer_record report;
    (void)state;
    ghost_decides(lab);
    lab_forget(lab);
    struct term ballot = ghost_asks(lab, RIVAL, RIVAL_NUMBER, 0);
    assert_false(has_promised(lab, &ballot));
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_REPLICA);
    assert_true(lab_said(lab, ASKED, RIVAL, PEER_REPORT, &report) > 0);
    assert_true((report.vnode.flags & ENTRY_BOUND) != 0);
    assert_int_equal(report.vnode.term.writer, lab->shards[GHOST].node);
    ballot = ghost_asks(lab, RIVAL, RIVAL_NUMBER + 1, ENTRY_INVITED);
    assert_true(has_promised(lab, &ballot));
    lab_free(lab);
}

/* BALLOT-2 of candidates: a ballot under way is left time, or two candidates would outbid each
 * other for ever. */
static void who_has_promised_is_bound_to_its_candidate_for_a_while(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    const struct term first = ghost_asks(lab, GHOST, RIVAL_NUMBER, 0);
    assert_true(has_promised(lab, &first));
    const struct term second = ghost_asks(lab, RIVAL, RIVAL_NUMBER + 1, 0);
    assert_true(has_promised(lab, &first));
    assert_false(has_promised(lab, &second));
    lab_run(lab, 400 * LAB_MS); /* nothing is heard of it any more */
    const struct term third = ghost_asks(lab, RIVAL, RIVAL_NUMBER + 2, 0);
    assert_true(has_promised(lab, &third));
    lab_free(lab);
}

/* BALLOT-3: the sets of an older configuration may lack a majority of the newest one's. */
static void a_ballot_of_an_older_configuration_is_not_promised(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    lab->config->epoch++;
    lab_view(lab, ASKED);
    lab->config->epoch--;
    const struct term older = ghost_asks(lab, GHOST, RIVAL_NUMBER, 0);
    assert_false(has_promised(lab, &older));
    lab->config->epoch++;
    const struct term present = ghost_asks(lab, GHOST, 1, 0);
    assert_true(has_promised(lab, &present));
    lab_free(lab);
}

/* BALLOT-5: a ballot that gets on is kept, and a promise that is told again is no getting on: one
 * replica that repeats itself would keep a ballot alive that never finds a majority. */
static void a_promise_that_is_repeated_counts_once(void **state)
{
    (void)state;
    for (uint32_t repeats = 0; repeats < 2; repeats++) {
        struct lab *lab = lab_of_ghosts();
        const struct term ballot = ghosts_let_campaign(lab);
        const struct quorum *quorum = quorum_of(lab->shards[ASKED].shard, GHOST_VNODE);
        const int64_t began_ns = lab->now_ns;
        ghost_reports(lab, &ballot, 0, ENTRY_PROMISED);
        while (quorum->campaigning && lab->now_ns - began_ns < 1500 * LAB_MS) {
            const struct lab_shard *asked = &lab->shards[ASKED];
            const struct peer_ping alive = {
                .sent_ns = lab->now_ns,
                .process = asked->node ^ hash_mix64(asked->options.boot),
            };
            peer_put_ping(&lab->records, &alive);
            lab_speak(lab, RIVAL, ASKED);
            peer_put_ping(&lab->records, &alive);
            lab_speak(lab, GHOST, ASKED);
            if (repeats != 0)
                ghost_reports(lab, &ballot, 0, ENTRY_PROMISED);
            lab_run(lab, 10 * LAB_MS);
        }
        assert_true(lab->now_ns - began_ns > 200 * LAB_MS);
        assert_false(quorum->campaigning);
        lab_free(lab);
    }
}

/* `from` sends a state of `term` without slots, and its mark. */
static void ghost_gives(struct lab *lab, uint32_t from, struct term term, uint32_t sync, bool copy)
{
    const struct peer_vnode mark = {
        .vnode = GHOST_VNODE, .term = term, .state = term, .seq = 50, .sync = sync};
    peer_put_stream(&lab->records, 1, sync, lab->shards[ASKED].options.boot);
    peer_put_term(&lab->records, GHOST_VNODE, &term, sync, copy, true);
    peer_put_vnode(&lab->records, PEER_WATERMARK, &mark);
    lab_speak(lab, from, ASKED);
}

/* A term is opened on the state that the majority reported as the newest: all of it, from whom it
 * was asked, and when it was asked. */
static void a_term_is_opened_on_nothing_but_the_state_that_was_pulled(void **state)
{
    struct lab *lab = lab_of_ghosts();
    const struct term best = {1, 1, 1}; /* as ghost_reports says */
    const struct term other = {1, 1, 2};
    (void)state;
    const struct term ballot = ghosts_let_campaign(lab);
    ghost_reports(lab, &ballot, 50, ENTRY_PROMISED);
    ghost_gives(lab, GHOST, best, 1, true); /* its own promise is not durable yet */
    assert_int_equal(probe_seq(lab->shards[ASKED].shard, GHOST_VNODE), 0);
    journal_goes_on(lab);
    lab_run(lab, 2 * LAB_MS);
    assert_true(lab->shards[ASKED].shard->vnodes[GHOST_VNODE].catching_up);
    ghost_gives(lab, GHOST, other, 2, true);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_RECOVERING);
    ghost_gives(lab, GHOST, best, 3, false);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_RECOVERING);
    ghost_gives(lab, 2, best, 1, true);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_RECOVERING);
    ghost_gives(lab, GHOST, best, 4, true);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_LEADING);
    lab_free(lab);
}

/* BALLOT-4: a ballot is promised to its writer alone. Of one that another speaks of it is kept in
 * mind that the next one must be above it. */
static void a_ballot_that_another_speaks_of_is_noted_and_not_promised(void **state)
{
    struct lab *lab = lab_of_ghosts();
    const struct term spoken = {lab->config->epoch, UINT64_C(100) << TERM_INCARNATION_BITS,
                                lab->shards[RIVAL].node};
    const struct peer_vnode ballot = {
        .vnode = GHOST_VNODE, .role = ROLE_RECOVERING, .term = spoken, .flags = ENTRY_BALLOT};
    (void)state;
    peer_put_vnode(&lab->records, PEER_QUERY, &ballot);
    lab_speak(lab, GHOST, ASKED);
    lab_run(lab, 5 * LAB_MS);
    assert_false(has_promised(lab, &spoken));
    const struct term own = ghosts_let_campaign(lab);
    assert_true(term_compare(&own, &spoken) > 0);
    lab_free(lab);
}

/* BALLOT-3: who is no replica has no vote, whatever it is asked. */
static void who_dropped_the_vnode_promises_nothing_of_it(void **state)
{
    struct lab *lab = lab_of_ghosts();
    (void)state;
    lab_run(lab, 5 * LAB_MS);
    vnodes_drop(lab->shards[ASKED].shard, GHOST_VNODE);
    struct vnode *vnode = &lab->shards[ASKED].shard->vnodes[GHOST_VNODE]; /* nor is it one again */
    vnode->ids[vnode->rank] = vnode->ids[--vnode->id_count];
    vnode->rank = UINT8_MAX;
    const struct term ballot = ghost_asks(lab, GHOST, RIVAL_NUMBER, 0);
    assert_false(has_promised(lab, &ballot));
    lab_free(lab);
}

/* BALLOT-3: who has an older view than its leader is no candidate, though that one invites it. */
static void who_is_passed_a_vnode_of_a_newer_configuration_declines(void **state)
{
    (void)state;
    for (uint32_t newer = 0; newer < 2; newer++) {
        struct lab *lab = lab_of_ghosts();
        struct peer_vnode pass = ghost_entry(lab, 5, 50);
        pass.term.epoch = pass.state.epoch = lab->config->epoch + newer;
        pass.sync = 0; /* no reservation goes along */
        peer_put_vnode(&lab->records, PEER_OPENED, &pass);
        lab_speak(lab, GHOST, ASKED);
        ghost_gives(lab, GHOST, pass.term, 1, true);
        peer_put_vnode(&lab->records, PEER_TRANSFER, &pass);
        lab_speak(lab, GHOST, ASKED);
        const bool asks = quorum_of(lab->shards[ASKED].shard, GHOST_VNODE)->campaigning;
        assert_int_equal(asks, newer == 0);
        lab_free(lab);
    }
}

/* What a replica accepted in a term of a later configuration, before it knew of that, outlives the
 * configurations between, in which it is no replica: the leader counts on it. */
static void what_was_accepted_for_a_later_ring_outlives_the_rings_between(void **state)
{
    (void)state;
    struct lab *lab = lab_of_ghosts();
    struct ring_config *rings = calloc(4, sizeof *rings);
    struct ring_member self;
    assert_non_null(rings);
    lab_member(&self, ASKED);
    assert_int_equal(ring_config_set_voters(&rings[0], lab->config, &lab->shards[GHOST].node, 1),
                     0);
    assert_int_equal(ring_config_remove(&rings[1], &rings[0], lab->shards[ASKED].node), 0);
    assert_int_equal(ring_config_settle(&rings[2], &rings[1]), 0);
    assert_int_equal(ring_config_add(&rings[3], &rings[2], &self), 0);
    struct peer_vnode opened = ghost_entry(lab, 7, 1);
    opened.term.epoch = opened.state.epoch = rings[3].epoch;
    peer_put_vnode(&lab->records, PEER_OPENED, &opened);
    lab_speak(lab, GHOST, ASKED);
    ghost_gives(lab, GHOST, opened.term, 1, true);
    lab_run(lab, 5 * LAB_MS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(lab->shards[ASKED].journal->seq[GHOST_VNODE], 50);
        assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_REPLICA);
        ring_config_copy(lab->config_next, &rings[i]);
        lab_adopt(lab);
        for (uint32_t ms = 0; ms < 20; ms++) {
            const struct peer_ping alive = {.sent_ns = lab->now_ns, .opened = 1};
            lab_run(lab, LAB_MS);
            peer_put_ping(&lab->records, &alive);
            lab_speak(lab, GHOST, ASKED);
        }
    }
    assert_int_equal(lab->shards[ASKED].journal->seq[GHOST_VNODE], 50);
    assert_int_equal(lab_role(lab, ASKED, GHOST_VNODE), SHARD_REPLICA);
    free(rings);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_held_only_with_their_header),
        cmocka_unit_test(after_a_restart_slots_are_held_only_with_a_new_header),
        cmocka_unit_test(the_header_of_a_refused_batch_is_written_later),
        cmocka_unit_test(a_copy_that_may_leave_something_over_is_repeated),
        cmocka_unit_test(a_header_waits_for_what_a_copy_left_over),
        cmocka_unit_test(a_dropped_vnode_promises_nothing),
        cmocka_unit_test(what_was_accepted_for_a_later_ring_outlives_the_rings_between),
        cmocka_unit_test(a_report_of_a_term_is_no_promise_of_it),
        cmocka_unit_test(who_restarted_since_its_report_is_sent_all),
        cmocka_unit_test(who_holds_the_best_without_what_is_beside_it_is_sent_all),
        cmocka_unit_test(who_holds_the_best_alone_is_sent_all_without_a_majority_too),
        cmocka_unit_test(a_copy_that_claims_less_than_was_reported_ends_no_pull),
        cmocka_unit_test(a_pull_from_one_that_restarted_begins_anew),
        cmocka_unit_test(a_pull_that_keeps_falling_short_begins_anew),
        cmocka_unit_test(slots_without_a_header_are_beyond_what_is_claimed),
        cmocka_unit_test(who_restarted_is_not_pulled_from_unasked),
        cmocka_unit_test(a_pull_of_which_nothing_comes_is_repeated),
        cmocka_unit_test(a_pull_that_is_refused_ends_its_ballot),
        cmocka_unit_test(a_pull_of_a_lower_ballot_is_refused),
        cmocka_unit_test(who_is_bound_to_a_decider_promises_to_the_invited_alone),
        cmocka_unit_test(who_has_promised_is_bound_to_its_candidate_for_a_while),
        cmocka_unit_test(a_ballot_of_an_older_configuration_is_not_promised),
        cmocka_unit_test(a_promise_that_is_repeated_counts_once),
        cmocka_unit_test(a_ballot_that_another_speaks_of_is_noted_and_not_promised),
        cmocka_unit_test(who_dropped_the_vnode_promises_nothing_of_it),
        cmocka_unit_test(who_is_passed_a_vnode_of_a_newer_configuration_declines),
        cmocka_unit_test(a_promise_of_an_earlier_ballot_does_not_count),
        cmocka_unit_test(a_term_is_opened_on_nothing_but_the_state_that_was_pulled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

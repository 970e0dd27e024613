/* test_reserve.c - the memory of what parts of requests were granted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "node/cluster/dedup/reserve.h"
#include "tests/unit/support_peer_wire.h"

enum { SETS = 64, ENTRIES = SETS * RETRY_WAYS, VNODES = 4, VNODE = 1 };

#define NOW_NS INT64_C(1700000000000000000)
#define MS_NS  INT64_C(1000000)

static const struct hash_key hash_key = {{3, 1, 4, 1, 5}};

static int set_up(void **state)
{
    static struct reserve reserve;
    *state = &reserve;
    return reserve_init(&reserve, alloc_heap(), &hash_key, SETS, VNODES);
}

static int tear_down(void **state)
{
    reserve_fini(*state);
    return 0;
}

static struct retry_key key_of(uint64_t seq)
{
    return (struct retry_key){.session = 8, .seq = seq};
}

/* Notes that `attempt` was granted 5 at `count` limits; each mark tells whose it is. */
static void note(struct reserve *reserve, uint64_t seq, uint16_t attempt, uint8_t count)
{
    struct limit_mark marks[4];
    const struct retry_key key = key_of(seq);
    for (uint32_t i = 0; i < 4; i++)
        marks[i] = (struct limit_mark){.place = seq * 10 + i, .part = i};
    const struct reservation what = {.vnode = VNODE,
                                     .term = {1, 2, 3},
                                     .seq = seq,
                                     .granted = 5,
                                     .count = count,
                                     .marks = marks};
    reserve_note(reserve, &key, attempt, true, 0, NOW_NS + (int64_t)seq * MS_NS, &what);
}

static enum reserve_hold find(struct reserve *reserve, uint64_t seq, uint16_t attempt,
                              struct reservation *out)
{
    const struct retry_key key = key_of(seq);
    return reserve_find(reserve, &key, attempt, NOW_NS + 1000 * MS_NS, out);
}

static void undone(struct reserve *reserve, uint64_t seq, uint16_t attempt, uint64_t keep)
{
    const struct retry_key key = key_of(seq);
    reserve_undone(reserve, &key, attempt, keep, NOW_NS + 1000 * MS_NS);
}

/* RESERVE-1: what was noted is found with all that is needed, until it was undone; then it is
 * not. */
static void a_reservation_is_found_until_it_is_undone(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
    note(reserve, 7, 1, 3);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_ALONE);
    assert_true(what.granted == 5 && what.count == 3 && what.seq == 7 && what.term.number == 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(what.marks[i].place == 70 + i && what.marks[i].part == i);
    undone(reserve, 7, 1, 0);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
}

/* RESERVE-1: what is kept of it can still be undone later, and no more than that. */
static void what_is_kept_can_be_undone_later(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    note(reserve, 7, 1, 1);
    undone(reserve, 7, 1, 2);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_ALONE);
    assert_true(what.granted == 2 && what.marks[0].place == 70);
}

/* RESERVE-2, RESERVE-3: it belongs to those who were told of it, and goes when the last of them
 * gives it up. */
static void it_belongs_to_those_who_were_told(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    struct retry_memory_entry entry;
    const struct retry_key key = key_of(7);
    note(reserve, 7, 1, 1);
    assert_int_equal(find(reserve, 7, 2, &what), RESERVE_UNKNOWN);
    assert_true(retry_recall(&reserve->answers, &key, 2, NOW_NS + 1000 * MS_NS, &entry));
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_SHARED);
    assert_int_equal(find(reserve, 7, 2, &what), RESERVE_SHARED);
    undone(reserve, 7, 1, 0);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
    assert_int_equal(find(reserve, 7, 2, &what), RESERVE_ALONE);
}

/* RESERVE-4: a denial, and what was decided without marks, leave nothing to undo. */
static void without_a_charge_or_marks_nothing_is_undone(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what = {.granted = 5, .count = 1};
    const struct retry_key key = key_of(7);
    reserve_note(reserve, &key, 1, true, 0, NOW_NS, &what);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
    what = (struct reservation){.granted = 0, .count = 0};
    reserve_note(reserve, &key, 1, false, 0, NOW_NS, &what);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
}

/* RESERVE-5: an undo that met nothing is remembered for its own attempt alone, and beside a
 * reservation.
 */
static void a_word_that_was_left_is_for_its_own_attempt(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    const struct retry_key key = key_of(7);
    note(reserve, 7, 2, 1);
    reserve_call_off(reserve, &key, 1, NOW_NS);
    assert_true(reserve_called_off(reserve, &key, 1, NOW_NS + 1000 * MS_NS));
    assert_false(reserve_called_off(reserve, &key, 2, NOW_NS + 1000 * MS_NS));
    const struct retry_key other = key_of(8);
    assert_false(reserve_called_off(reserve, &other, 1, NOW_NS + 1000 * MS_NS));
    assert_int_equal(find(reserve, 7, 2, &what), RESERVE_ALONE);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
}

/* A reservation is known for as long as its request may wait and be undone, and no longer. */
static void a_reservation_is_known_while_its_request_may_wait(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    const struct retry_key key = key_of(0);
    note(reserve, 0, 1, 1);
    assert_int_equal(reserve_find(reserve, &key, 1, NOW_NS + RESERVE_KEEP_NS, &what),
                     RESERVE_ALONE);
    assert_int_equal(reserve_find(reserve, &key, 1, NOW_NS + RESERVE_KEEP_NS + MS_NS, &what),
                     RESERVE_UNKNOWN);
}

/* With two sets to choose from, three quarters of the memory hold what was noted, all but one or
 * two, which are counted; with one set to go to, it would be one in ten. */
static void hardly_any_is_lost_before_it_is_nearly_full(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    uint64_t known = 0;
    for (uint64_t seq = 0; seq < ENTRIES * 3 / 4; seq++)
        note(reserve, seq, 1, 1);
    assert_in_range(reserve->answers.dropped, 0, 3);
    for (uint64_t seq = 0; seq < ENTRIES * 3 / 4; seq++) {
        if (find(reserve, seq, 1, &what) == RESERVE_UNKNOWN)
            continue;
        assert_true(what.marks[0].place == seq * 10);
        known++;
    }
    assert_int_equal(known + reserve->answers.dropped, ENTRIES * 3 / 4);
}

/* RESERVE-4: marks that were overwritten are not taken for those of another; nor are they cut by
 * the end of their ring. */
static void overwritten_marks_are_not_taken_for_others(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    uint32_t known = 0;
    for (uint64_t seq = 0; seq < 1000; seq++) {
        note(reserve, seq, 1, (uint8_t)(1 + seq % 3));
        assert_int_equal(find(reserve, seq, 1, &what), RESERVE_ALONE);
        for (uint32_t i = 0; i < 1 + seq % 3; i++)
            assert_true(what.marks[i].place == seq * 10 + i);
    }
    for (uint64_t seq = 0; seq < 1000; seq++) {
        if (find(reserve, seq, 1, &what) != RESERVE_ALONE)
            continue;
        for (uint32_t i = 0; i < what.count; i++)
            assert_true(what.marks[i].place == seq * 10 + i);
        known++;
    }
    assert_true(known > 100 && known <= ENTRIES);
}

/* It is by what a part charges that it is remembered, not by its number. */
static void parts_are_told_apart_by_what_they_charge(void **state)
{
    (void)state;
    const struct hash128 a = {1, 2};
    const struct hash128 b = {2, 1};
    struct retry_key first = {.session = 5, .seq = 6, .item = 7, .part = 1};
    struct retry_key second = first;
    second.part = 2;
    const struct retry_key first_a = reserve_key(&first, a);
    const struct retry_key second_a = reserve_key(&second, a);
    const struct retry_key first_b = reserve_key(&first, b);
    assert_true(first_a.session == second_a.session && first_a.part == second_a.part);
    assert_true(first_a.session != first_b.session);
    first.part |= RETRY_UNDO;
    assert_int_equal(reserve_key(&first, a).part, RETRY_UNDO);
}

/* ---- from leader to leader ----------------------------------------------------------------- */

/* RESERVE-6: what one memory gives another takes: newest first, without what was undone; and there
 * it can be undone once, by the attempt that was told. */
static void what_is_known_goes_along(void **state)
{
    struct reserve *a = *state;
    struct reserve b;
    struct reservation what;
    struct peer_reservation passed;
    uint64_t expected = 9;
    assert_int_equal(reserve_init(&b, alloc_heap(), &hash_key, SETS, VNODES), 0);
    for (uint64_t seq = 1; seq <= 9; seq++)
        note(a, seq, 1, 2);
    undone(a, 5, 1, 0);
    undone(a, 6, 1, 2);
    uint32_t at = reserve_first(a, VNODE);
    while (reserve_next(a, &at, 0, NOW_NS + 1000 * MS_NS, &passed)) {
        expected -= expected == 5;
        assert_int_equal(passed.seq, expected--);
        reserve_take(&b, VNODE, &(struct term){1, 2, 3}, &passed, 0, NOW_NS + 1000 * MS_NS);
    }
    assert_int_equal(expected, 0);
    assert_int_equal(reserve_first(a, VNODE + 1), RESERVE_NONE);
    assert_int_equal(find(&b, 5, 1, &what), RESERVE_UNKNOWN);
    assert_int_equal(find(&b, 7, 2, &what), RESERVE_UNKNOWN);
    assert_int_equal(find(&b, 7, 1, &what), RESERVE_ALONE);
    assert_true(what.granted == 5 && what.count == 2 && what.seq == 7 && what.term.number == 2);
    assert_true(what.marks[1].place == 71 && what.marks[1].given == LIMIT_GIVEN_UNKNOWN);
    undone(&b, 7, 1, 0);
    assert_int_equal(find(&b, 7, 1, &what), RESERVE_UNKNOWN);
    assert_int_equal(find(&b, 6, 1, &what), RESERVE_ALONE);
    assert_int_equal(what.granted, 2);
    reserve_fini(&b);
}

/* RESERVE-6: behind a reset there is nothing to give back, on either side of the pass: who passes
 * on says so of what came before, and who takes over counts resets from then on, by its own
 * table. */
static void what_a_reset_took_goes_along_as_nothing(void **state)
{
    struct reserve *a = *state;
    struct reserve b;
    struct reservation what;
    struct peer_reservation passed;
    for (uint32_t resets = 0; resets <= 1; resets++) {
        uint32_t at;
        assert_int_equal(reserve_init(&b, alloc_heap(), &hash_key, SETS, VNODES), 0);
        note(a, 7, 1, 2); /* when no key had been reset */
        at = reserve_first(a, VNODE);
        assert_true(reserve_next(a, &at, resets, NOW_NS + 1000 * MS_NS, &passed));
        assert_true(passed.marks[0].nothing == (resets > 0) &&
                    passed.marks[1].nothing == (resets > 0));
        reserve_take(&b, VNODE, &(struct term){1, 2, 3}, &passed, 40, NOW_NS + 1000 * MS_NS);
        assert_int_equal(find(&b, 7, 1, &what), RESERVE_ALONE);
        assert_true(what.marks[1].resets == 40 &&
                    what.marks[1].given ==
                        (resets > 0 ? LIMIT_GIVEN_NOTHING : LIMIT_GIVEN_UNKNOWN));
        reserve_fini(&b);
    }
}

/* RESERVE-6: who opens a term keeps what belongs to the state it is opened on, and nothing else:
 * what was charged after that, or in a term that somebody else has followed, may have been undone
 * there. */
static void a_term_keeps_what_its_state_contains(void **state)
{
    struct reserve *reserve = *state;
    struct reservation what;
    struct retry_memory_entry entry;
    const struct retry_key lost = key_of(8);
    const struct term base = {1, 2, 3};
    const struct term term = {1, 4, 5};
    note(reserve, 7, 1, 2);
    note(reserve, 8, 1, 2);
    reserve_opened(reserve, VNODE, &base, 7, &term);
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_ALONE);
    assert_int_equal(term_compare(&what.term, &term), 0);
    assert_int_equal(what.marks[0].given, LIMIT_GIVEN_UNKNOWN);
    assert_int_equal(find(reserve, 8, 1, &what), RESERVE_UNKNOWN);
    assert_false(retry_look(&reserve->answers, &lost, NOW_NS + 1000 * MS_NS, &entry));
    reserve_opened(reserve, VNODE, &base, 100, &(struct term){1, 6, 5});
    assert_int_equal(find(reserve, 7, 1, &what), RESERVE_UNKNOWN);
    assert_int_equal(reserve_first(reserve, VNODE), RESERVE_NONE);
}

/* The chains of vnodes hold together however their places are taken over: by others of the same
 * vnode or of another, by answers without marks, and by words. */
static void chains_hold_when_places_are_taken_over(void **state)
{
    struct reserve *reserve = *state;
    struct peer_reservation passed;
    for (uint64_t seq = 1; seq <= 20 * ENTRIES; seq++) {
        const struct limit_mark marks[1] = {{.place = seq % VNODES}};
        const struct retry_key key = key_of(seq);
        const struct reservation what = {.vnode = (uint32_t)(seq % VNODES),
                                         .term = {1, 2, 3},
                                         .seq = seq,
                                         .granted = 1,
                                         .count = 1,
                                         .marks = seq % 5 == 0 ? NULL : marks};
        reserve_note(reserve, &key, 1, true, 0, NOW_NS, &what);
        if (seq % 7 == 0)
            reserve_call_off(reserve, &key, 2, NOW_NS);
        if (seq % 3 == 0)
            reserve_undone(reserve, &key, 1, 0, NOW_NS);
    }
    uint32_t count = 0;
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        uint64_t last = UINT64_MAX;
        uint32_t at = reserve_first(reserve, vnode);
        while (reserve_next(reserve, &at, 0, NOW_NS, &passed)) {
            assert_true(passed.marks[0].place == vnode && passed.seq % VNODES == vnode);
            assert_true(passed.seq < last && passed.seq % 3 != 0 && passed.seq % 5 != 0);
            last = passed.seq;
            count++;
        }
    }
    assert_true(count > ENTRIES / 10 && count <= ENTRIES);
}

/* What goes along with a TRANSFER: every field arrives, and counts that do not fit are refused. */
static void a_reservation_arrives_as_it_was_put(void **state)
{
    const struct peer_reservation *put = &peer_wire_reservation;
    const struct term term = {1, 2, 3};
    const struct term line = {4, 5, 6};
    uint8_t data[PEER_RESERVED_MAX];
    struct bytes_writer writer;
    struct peer_record record;

    (void)state;
    bytes_writer_init(&writer, data, sizeof data);
    peer_put_reserved(&writer, VNODE, &term, &line, put);
    assert_false(writer.failed);
    assert_int_equal(peer_wire_next(data, writer.len, VNODES, &record), 1);
    assert_int_equal(record.reserved.vnode, VNODE);
    assert_int_equal(term_compare(&record.reserved.term, &term), 0);
    assert_int_equal(term_compare(&record.reserved.line, &line), 0);
    const struct peer_reservation *got = &record.reserved.what;
    assert_true(got->tag == put->tag && got->age_ms == put->age_ms);
    assert_true(got->limit_index == put->limit_index && got->claims == put->claims);
    assert_true(got->attempts == put->attempts && got->granted == put->granted);
    assert_memory_equal(got->names, put->names, sizeof put->names);
    assert_true(got->seq == put->seq && got->fold == put->fold && got->count == put->count);
    for (uint32_t i = 0; i < PEER_LIMITS_MAX; i++) {
        assert_true(got->marks[i].place == put->marks[i].place);
        assert_true(got->marks[i].at_ns == put->marks[i].at_ns);
        assert_true(got->marks[i].part == put->marks[i].part);
        assert_true(got->marks[i].nothing == put->marks[i].nothing);
    }
    const size_t attempts = 1 + 4 + 2 * TERM_LEN + 8 + 4 + 2;
    data[attempts] = RETRY_ATTEMPTS_MAX + 1;
    assert_int_equal(peer_wire_next(data, writer.len, VNODES, &record), TG_EPROTOCOL);
    data[attempts] = put->attempts;
    data[attempts + 1 + 2 * 2 + 16 + 2] = 0; /* no limits */
    assert_int_equal(peer_wire_next(data, writer.len, VNODES, &record), TG_EPROTOCOL);
}

/* Each allocation may fail; then it says so, and leaves nothing behind. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    for (uint32_t fail = 1; fail <= 4; fail++) {
        struct reserve reserve;
        struct alloc_failing failing;
        alloc_failing_init(&failing, fail);
        assert_int_equal(reserve_init(&reserve, &failing.allocator, &hash_key, SETS, VNODES),
                         TG_ENOMEM);
        reserve_fini(&reserve);
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reservation_is_found_until_it_is_undone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_can_be_undone_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_belongs_to_those_who_were_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_charge_or_marks_nothing_is_undone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_word_that_was_left_is_for_its_own_attempt, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_reservation_is_known_while_its_request_may_wait, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(hardly_any_is_lost_before_it_is_nearly_full, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(overwritten_marks_are_not_taken_for_others, set_up,
                                        tear_down),
        cmocka_unit_test(parts_are_told_apart_by_what_they_charge),
        cmocka_unit_test_setup_teardown(what_is_known_goes_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_reset_took_goes_along_as_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_term_keeps_what_its_state_contains, set_up, tear_down),
        cmocka_unit_test_setup_teardown(chains_hold_when_places_are_taken_over, set_up, tear_down),
        cmocka_unit_test(a_reservation_arrives_as_it_was_put),
        cmocka_unit_test(a_failing_allocator_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

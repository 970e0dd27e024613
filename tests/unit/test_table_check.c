/* test_table_check.c - a slot table with one wrong field is seen by table_check_invariants, which
 * names the invariant that is broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "node/limit/table/table_slot.h"
#include "tests/unit/support_death.h"
#include "tests/unit/support_limit.h"

enum { VNODES = 64, JOURNALED = 2, KEYS = 200, LOGGED = KEYS, LEASED, QUORUM };
#define NOW_NS LIMIT_TEST_EPOCH_NS

static const struct limit counting = {
    .count = 1000000, .window_ns = 86400000000000, .algorithm = ALGORITHM_FIXED_WINDOW};
static const struct limit bucket = {
    .count = 100, .window_ns = 3600000000000, .algorithm = ALGORITHM_TOKEN_BUCKET};
static const struct limit logging = {
    .count = 100, .window_ns = 3600000000000, .algorithm = ALGORITHM_SLIDING_LOG};

static struct table *table; /* of the test at hand */

/* ---- a whole one ----------------------------------------------------------------------------- */

static void act(uint64_t key, uint32_t vnode, const struct limit *limit, enum operation operation,
                uint64_t lease, unsigned flags)
{
    struct limit_decision decision;
    engine_one_leased(table, limit_key(key), vnode, limit, 1, lease, operation,
                      flags | LIMIT_LOADED, NOW_NS, &decision);
    assert_int_equal(decision.status, LIMIT_DECIDED);
    assert_true(decision.allowed);
}

static void write_all(void)
{
    for (uint32_t slot; (slot = table_next_dirty(table, TABLE_DISK)) != TABLE_NONE;) {
        const struct table_write write = table_write_begin(table, slot);
        table_write_done(table, &write, 1, true);
    }
}

/* Counts and buckets on disk, and all of these, a log in the arena, leases of a key, and a key of a
 * journaled vnode, still to be sent to replica 1. */
static void whole(void)
{
    assert_int_equal(table_new_journaled(&table, alloc_heap(), TABLE_MEMORY_MIN, VNODES, JOURNALED),
                     0);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        table_set_targets(table, vnode, TABLE_TARGET_BIT(TABLE_DISK) | TABLE_TARGET_BIT(1));
    for (uint64_t key = 0; key < KEYS; key++)
        act(key, (uint32_t)key % (VNODES - JOURNALED), key % 2 == 0 ? &counting : &bucket,
            OPERATION_CHECK, 0, 0);
    write_all();
    for (int i = 0; i < 40; i++)
        act(LOGGED, 1, &logging, OPERATION_CHECK, 0, 0);
    for (uint64_t lease = 1; lease <= 3; lease++)
        act(LEASED, 1, &counting, OPERATION_LEASE, lease, LIMIT_HOLD);
    act(QUORUM, VNODES - 1, &counting, OPERATION_CHECK, 0, 0);
    table_check_invariants(table);
}

static struct slot *slot_of(uint64_t key)
{
    const uint32_t number = table_lookup(table, limit_key(key));
    assert_int_not_equal(number, TABLE_NONE);
    return &table->slots[number];
}

static struct leased *envelope(void)
{
    const struct limit_cell cell = slot_cell(slot_of(LEASED));
    return leased_of(&table->memory, &cell);
}

static struct bucket_head *head_of(uint64_t key)
{
    return &table->buckets.heads[table_lookup(table, limit_key(key)) / BUCKET_SLOTS];
}

/* A place that nobody has taken. */
static struct slot *free_slot(void)
{
    for (uint32_t number = 0; number < table->slots_end; number++)
        if (table->buckets.heads[number / BUCKET_SLOTS].tag[number % BUCKET_SLOTS] == 0)
            return &table->slots[number];
    fail();
    return NULL;
}

/* The one list that has free blocks. */
static uint32_t *free_list(void)
{
    for (uint32_t i = 0; i < ARENA_LISTS; i++)
        if (table->memory.arena.list[i] != ARENA_NONE)
            return &table->memory.arena.list[i];
    fail();
    return NULL;
}

static void check(void *checked)
{
    table_check_invariants(checked);
}

static void assert_broken(void (*corrupt)(void), const char *id)
{
    char text[256];

    whole();
    corrupt();
    assert_true(death_by_assert(check, table, text, sizeof text));
    assert_non_null(strstr(text, id));
    table_free(&table);
}

/* ---- one wrong field ------------------------------------------------------------------------- */

CORRUPTION(a_change_that_no_reader_will_meet_is_seen, "TABLE-1",
           table->cursor[TABLE_REPLICA_1] = table->ring_head)
CORRUPTION(a_change_of_a_journaled_key_that_the_journal_will_not_meet_is_seen, "TABLE-1",
           table->cursor[TABLE_JOURNAL] = table->ring_head)
CORRUPTION(a_key_that_is_not_found_is_seen, "BUCKETS-2", slot_of(7)->id.lo ^= 1)
CORRUPTION(a_slot_that_is_gone_and_still_to_be_told_is_seen, "TABLE-3",
           struct slot *const slot = slot_of(4);
           slot->kind &= (uint8_t)~KIND_LIVE; slot->dirty = DIRTY_TARGETS)
CORRUPTION(a_slot_of_no_vnode_is_seen, "TABLE-3", slot_of(7)->vnode = VNODES)
CORRUPTION(a_slot_that_is_clean_and_not_counted_so_is_seen, "TABLE-8", table->clean--)
CORRUPTION(a_live_slot_that_is_not_counted_is_seen, "TABLE-8", table->slots_used--)
CORRUPTION(a_vnode_that_counts_its_slots_wrong_is_seen, "TABLE-8", table->vnodes[5].count++)
CORRUPTION(a_dirty_bit_that_is_not_counted_is_seen, "TABLE-8",
           *dirty_count(table, VNODES - 1, TABLE_REPLICA_1) = 0)
CORRUPTION(a_target_with_too_few_vnodes_is_seen, "TABLE-8", table->target_vnodes[TABLE_REPLICA_1]--)
CORRUPTION(an_empty_vnode_that_is_still_being_removed_is_seen, "TABLE-9",
           table->vnodes[5].removing = true)
CORRUPTION(slots_beyond_the_buckets_are_seen, "TABLE-9", table->slots_end += BUCKET_SLOTS)
CORRUPTION(an_arena_that_may_grow_into_slots_is_seen, "TABLE-9", table->memory.arena.floor = 1)
CORRUPTION(a_reader_ahead_of_the_ring_is_seen, "TABLE-9",
           table->cursor[TABLE_REPLICA_1] = table->ring_head + 1)
CORRUPTION(a_pass_that_goes_on_behind_the_slots_is_seen, "TABLE-9",
           table->removal.end = table->slots_end + 1)
CORRUPTION(a_replica_that_a_vnode_does_not_have_and_is_owed_something_is_seen, "TABLE-10",
           table->vnodes[3].missed = TABLE_TARGET_BIT(2))
CORRUPTION(slots_of_another_colour_that_nobody_counts_are_seen, "TABLECOPY-1",
           slot_of(7)->kind ^= KIND_COLOUR)
CORRUPTION(a_bucket_that_hides_what_lies_behind_it_is_seen, "BUCKETS-1", head_of(7)->over++)
CORRUPTION(a_free_place_that_is_not_empty_is_seen, "BUCKETS-4", free_slot()->word[1] = 1)
CORRUPTION(places_that_are_taken_and_not_counted_are_seen, "BUCKETS-6", table->buckets.used++)
CORRUPTION(a_table_that_grows_from_nowhere_is_seen, "BUCKETS-6", table->buckets.frontier = 1)
CORRUPTION(a_block_that_a_cell_says_is_elsewhere_is_seen, "ARENA-1", slot_of(LOGGED)->word[2] = 1)
CORRUPTION(a_free_block_that_no_list_has_is_seen, "ARENA-2", *free_list() = ARENA_NONE)
CORRUPTION(blocks_that_take_more_than_is_said_are_seen, "ARENA-3",
           table->memory.arena.used_bytes -= ARENA_GRANULE)
CORRUPTION(a_rate_that_no_number_has_is_seen, "RATES-3", table->memory.rates.index[9] = 77)
CORRUPTION(a_rate_whose_number_was_lost_is_seen, "RATES-3", table->memory.rates.first_free = 0)
CORRUPTION(a_slice_that_is_not_counted_as_used_is_seen, "FILTER-3", table->filter.slices_used = 1)
CORRUPTION(new_keys_that_no_class_added_are_seen, "NEWKEYS-3", table->new_keys.added += 5)
CORRUPTION(leases_that_hold_more_than_is_out_are_seen, "LEASED-7", envelope()->out--)
CORRUPTION(a_lease_with_nothing_left_is_seen, "LEASED-7",
           envelope()->holder[1].used = envelope()->holder[1].granted)
CORRUPTION(leases_that_are_not_by_their_ends_are_seen, "LEASED-7",
           envelope()->holder[2].until_ns = 1)
CORRUPTION(an_envelope_of_no_algorithm_is_seen, "LEASED-7", envelope()->algorithm = LIMIT_LEASED)

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_change_that_no_reader_will_meet_is_seen),
        TEST(a_change_of_a_journaled_key_that_the_journal_will_not_meet_is_seen),
        TEST(a_key_that_is_not_found_is_seen),
        TEST(a_slot_that_is_gone_and_still_to_be_told_is_seen),
        TEST(a_slot_of_no_vnode_is_seen),
        TEST(a_slot_that_is_clean_and_not_counted_so_is_seen),
        TEST(a_live_slot_that_is_not_counted_is_seen),
        TEST(a_vnode_that_counts_its_slots_wrong_is_seen),
        TEST(a_dirty_bit_that_is_not_counted_is_seen),
        TEST(a_target_with_too_few_vnodes_is_seen),
        TEST(an_empty_vnode_that_is_still_being_removed_is_seen),
        TEST(slots_beyond_the_buckets_are_seen),
        TEST(an_arena_that_may_grow_into_slots_is_seen),
        TEST(a_reader_ahead_of_the_ring_is_seen),
        TEST(a_pass_that_goes_on_behind_the_slots_is_seen),
        TEST(a_replica_that_a_vnode_does_not_have_and_is_owed_something_is_seen),
        TEST(slots_of_another_colour_that_nobody_counts_are_seen),
        TEST(a_bucket_that_hides_what_lies_behind_it_is_seen),
        TEST(a_free_place_that_is_not_empty_is_seen),
        TEST(places_that_are_taken_and_not_counted_are_seen),
        TEST(a_table_that_grows_from_nowhere_is_seen),
        TEST(a_block_that_a_cell_says_is_elsewhere_is_seen),
        TEST(a_free_block_that_no_list_has_is_seen),
        TEST(blocks_that_take_more_than_is_said_are_seen),
        TEST(a_rate_that_no_number_has_is_seen),
        TEST(a_rate_whose_number_was_lost_is_seen),
        TEST(a_slice_that_is_not_counted_as_used_is_seen),
        TEST(new_keys_that_no_class_added_are_seen),
        TEST(leases_that_hold_more_than_is_out_are_seen),
        TEST(a_lease_with_nothing_left_is_seen),
        TEST(leases_that_are_not_by_their_ends_are_seen),
        TEST(an_envelope_of_no_algorithm_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

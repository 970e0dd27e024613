/* test_core_check.c - a view, clocks, tallies, a ledger, records, a ballot and a control core with
 * one wrong field are seen by their x_check_invariants, which name the invariant that is broken. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/clock/first_time.h"
#include "node/cluster/configstore/settings_table.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/dedup/retry.h"
#include "node/cluster/model/usage_tally.h"
#include "node/cluster/reconcile/merge_base.h"
#include "node/cluster/usage/usage_ledger.h"
#include "node/cluster/writeback/sort_buffer.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_death.h"

/* Whether looking at what is corrupt ends in an assertion that begins with the invariant's id. */
static void assert_broken(void (*check)(void *whole), void *whole, const char *id)
{
    char text[512] = "";

    assert_true(death_by_assert(check, whole, text, sizeof text));
    if (strstr(text, id) == NULL)
        fail_msg("not %s, but %s", id, text);
}

/* ---- model, usage ---------------------------------------------------------------------------- */

static void tally_check(void *tally)
{
    usage_tally_check_invariants(tally);
}

static void a_user_that_a_tally_counts_twice_is_seen(void **state)
{
    struct usage_tally *tally = usage_tally_new(alloc_heap());

    (void)state;
    for (uint64_t hash = 1; hash <= 3; hash++)
        usage_tally_add(tally, hash, false, 1000);
    usage_tally_check_invariants(tally);
    tally->entries[2].hash = tally->entries[0].hash;
    assert_broken(tally_check, tally, "TALLY-3: ");
    tally->entries[2].hash = 3;
    tally->entries[1].exceeded = 9; /* of one request */
    assert_broken(tally_check, tally, "TALLY-3: ");
    tally->entries[1].exceeded = 0;
    tally->dropped = 1; /* with room for more */
    assert_broken(tally_check, tally, "TALLY-1: ");
    usage_tally_free(&tally);
}

/* What a lease was said to be used is no more than can be counted, and counting goes on from it. */
static void a_count_of_one_second_stays_at_its_end(void **state)
{
    struct usage_tally *tally = usage_tally_new(alloc_heap());

    (void)state;
    usage_tally_add_used(tally, 7, UINT64_MAX, 1000);
    usage_tally_add(tally, 7, true, 1000);
    assert_int_equal(tally->entries[0].requests, UINT32_MAX);
    usage_tally_check_invariants(tally);
    usage_tally_free(&tally);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static void first_time_check(void *first)
{
    first_time_check_invariants(first);
}

static void an_answer_that_counts_twice_is_seen(void **state)
{
    static struct first_time first;

    (void)state;
    first_time_init(&first, 1);
    first.asked = 3;
    for (uint32_t i = 0; i < 2; i++) {
        const struct first_time_answer answer = {
            .id = 2 + i, .place = i, .time_ns = 1000, .asked_ns = 900, .now_ns = 1100};
        first_time_heard(&first, &answer);
    }
    assert_int_equal(first.count, 2);
    first_time_check_invariants(&first);
    first.members[1].id = first.members[0].id;
    assert_broken(first_time_check, &first, "FIRSTTIME-1: ");
    first.members[1].id = 1; /* this node's own word */
    assert_broken(first_time_check, &first, "FIRSTTIME-3: ");
    first.members[1].id = 3;
    first.members[1].low_ns = first.members[1].high_ns + 1;
    assert_broken(first_time_check, &first, "FIRSTTIME-3: ");
}

/* ---- dedup, reconcile, write-back ------------------------------------------------------------ */

static void retry_check(void *memory)
{
    retry_check_invariants(memory, 0, UINT32_MAX);
}

static void an_answer_that_is_remembered_twice_is_seen(void **state)
{
    static const struct hash_key key = {{5}};
    const struct retry_key asked = {1, 2, 3, 0};
    struct retry_memory memory;

    (void)state;
    assert_int_equal(retry_init(&memory, alloc_heap(), &key, 16), 0);
    const uint32_t at = retry_remember(&memory, &asked, 7, true, 0, 1, 1000000000);
    retry_check(&memory);
    memory.entries[at ^ 1] = memory.entries[at];
    assert_broken(retry_check, &memory, "RETRY-4: ");
    memory.entries[at ^ 1].tag = 0;
    memory.entries[at].attempts = RETRY_ATTEMPTS_MAX + 1;
    assert_broken(retry_check, &memory, "RETRY-3: ");
    retry_fini(&memory);
}

static void bases_check(void *bases)
{
    merge_base_check_invariants(bases);
}

static void a_merge_base_whose_lists_disagree_is_seen(void **state)
{
    static const uint8_t bytes[100] = {1};
    const struct merge_base_blob blob = {.kind = MERGE_BASE_STATE, .term = {1, 1, 1}, .len = 100};
    struct merge_base bases;

    (void)state;
    assert_int_equal(merge_base_init(&bases, alloc_heap(), 1 << 16, 4), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        const uint32_t entry = merge_base_add(&bases, 1, (struct hash128){i, i});
        assert_int_equal(merge_base_put(&bases, entry, &blob, bytes), 0);
    }
    merge_base_check_invariants(&bases);
    bases.waiting++;
    assert_broken(bases_check, &bases, "MERGEBASE-4: ");
    bases.waiting--;
    bases.vnodes[2] = bases.vnodes[1]; /* the chain of another vnode */
    assert_broken(bases_check, &bases, "MERGEBASE-1: ");
    bases.vnodes[2] = MERGE_BASE_NONE;
    bases.buckets[1] = MERGE_BASE_NONE; /* the id is not found any more */
    assert_broken(bases_check, &bases, "MERGEBASE-1: ");
    merge_base_fini(&bases);
}

static void buffer_check(void *buffer)
{
    sort_buffer_check_invariants(buffer);
}

static void slots_that_were_taken_before_they_were_in_order_are_seen(void **state)
{
    static const struct table_write writes[4];
    static const uint16_t vnodes[4] = {3, 1, 2, 0};
    struct sort_buffer buffer;

    (void)state;
    assert_int_equal(sort_buffer_init(&buffer, alloc_heap(), 8, 4), 0);
    sort_buffer_put(&buffer, writes, vnodes, 4);
    sort_buffer_check_invariants(&buffer);
    buffer.left = 3;
    assert_broken(buffer_check, &buffer, "SORTBUFFER-1: ");
    buffer.left = 4;
    assert_true(sort_buffer_order(&buffer, 4));
    sort_buffer_check_invariants(&buffer);
    buffer.at[0] = 5; /* beyond where the next group begins */
    assert_broken(buffer_check, &buffer, "SORTBUFFER-2: ");
    sort_buffer_fini(&buffer);
}

/* ---- configstore ----------------------------------------------------------------------------- */

static void table_check(void *table)
{
    settings_table_check_invariants(table);
}

static void records_out_of_order_are_seen(void **state)
{
    struct settings_table table;

    (void)state;
    settings_table_init(&table, alloc_heap());
    for (uint32_t i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        const struct settings_entry entry = {
            .kind = 2, .version = i + 1, .name = {name, 1}, .value = {"x", 1}};
        assert_int_equal(settings_table_put(&table, &entry), 0);
    }
    settings_table_check_invariants(&table);
    struct settings_record *first = table.records[0];
    table.records[0] = table.records[1];
    table.records[1] = first;
    assert_broken(table_check, &table, "SETTINGSTABLE-1: ");
    table.records[1] = table.records[0];
    table.records[0] = first;
    table.bytes++;
    assert_broken(table_check, &table, "SETTINGSTABLE-4: ");
    table.bytes--;
    settings_table_fini(&table);
}

/* ---- control --------------------------------------------------------------------------------- */

static void control_check(void *control)
{
    control_check_invariants(control);
}

static void a_control_core_with_one_wrong_field_is_seen(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    struct control *control = net->nodes[0].control;
    control_check_invariants(control);
    control->creating = control->joined = true;
    assert_broken(control_check, control, "CONTROL-6: ");
    control->creating = false;
    control->proof.said_count = CONTROL_PROOF_MAX + 1;
    assert_broken(control_check, control, "CONTROL-7: ");
    control->proof.said_count = 0;
    control->health.told = 1u << HEALTH_TROUBLES;
    assert_broken(control_check, control, "HEALTH-4: ");
    control->health.told = 0;
    struct view *view = control_view(control);
    assert_ptr_not_equal(view, NULL);
    control_check_invariants(control);
    control->known->self = control->known->member_count;
    assert_broken(control_check, control, "VIEW-1: ");
    view_free(&view);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_that_a_tally_counts_twice_is_seen),
        cmocka_unit_test(a_count_of_one_second_stays_at_its_end),
        cmocka_unit_test(an_answer_that_counts_twice_is_seen),
        cmocka_unit_test(an_answer_that_is_remembered_twice_is_seen),
        cmocka_unit_test(a_merge_base_whose_lists_disagree_is_seen),
        cmocka_unit_test(slots_that_were_taken_before_they_were_in_order_are_seen),
        cmocka_unit_test(records_out_of_order_are_seen),
        cmocka_unit_test(a_control_core_with_one_wrong_field_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

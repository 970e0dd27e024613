/* test_copy_quorum.c - keys that only the journal holds go to replicas as well: copy.c.
 *
 * Three nodes and one of their replicas that comes back. The filter of the leader says that a key
 * more is on disk; the listing and the reading are answered by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

static const char RULES[] =
    "rules:\n"
    "  - {name: kept, match: {api: /kept}, key: [user], consistency: quorum, on_failure: closed,"
    " limits: [{rate: 10/d, algorithm: fixed_window}]}\n";

enum { RING_VNODE = 3, STATE_MAX = 256 };

struct spilled {
    uint32_t vnode;
    struct hash128 id;
    uint8_t state[STATE_MAX];
    size_t len;
};

static void make_spilled(const struct lab *lab, uint32_t vnode, struct spilled *out)
{
    const struct limit limit = lab_limit(100);
    struct limit_decision decision;
    struct table *table;
    *out = (struct spilled){.vnode = vnode, .id = {77, 78}};
    assert_int_equal(table_new(&table, alloc_heap(), TABLE_MEMORY_MIN, 1), 0);
    engine_one(table, out->id, 0, &limit, 7, OPERATION_CHECK, 0, lab->now_ns, &decision);
    const int len =
        table_export(table, table_lookup(table, out->id), out->state, sizeof out->state);
    table_free(&table);
    assert_true(len > 0);
    out->len = (size_t)len;
}

static bool decided(struct lab *lab, void *context)
{
    const struct spilled *spilled = context;
    return lab_leader(lab, spilled->vnode) != LAB_NONE;
}

static bool listing(struct lab *lab, void *context)
{
    (void)context;
    return lab->list_count > 0;
}

static bool loading(struct lab *lab, void *context)
{
    (void)context;
    return lab->load_count > 0;
}

static bool confirmed(struct lab *lab, void *context)
{
    const struct spilled *spilled = context;
    struct inspect_vnode held;
    inspect_vnode(lab->shards[lab_leader(lab, spilled->vnode)].shard, spilled->vnode, &held);
    return held.confirmed == 2;
}

/* A copy that is never given the journal's keys would leave the vnode without a mark, and a
 * majority without that replica, for ever. */
static void a_key_in_the_journal_alone_is_copied(void **state)
{
    const uint32_t vnode = LAB_VNODES + RING_VNODE;
    struct lab *lab = lab_new(3, 1, 3);
    struct spilled spilled;
    uint8_t got[STATE_MAX];
    (void)state;
    lab_start_all(lab);
    lab_rules(lab, RULES);
    make_spilled(lab, vnode, &spilled);
    lab_until(lab, decided, &spilled, 5000 * LAB_MS);
    lab_until(lab, confirmed, &spilled, 5000 * LAB_MS);
    const uint32_t leader = lab_leader(lab, vnode);
    const uint32_t replica = (leader + 1) % 3;
    struct shard *shard = lab->shards[leader].shard;
    table_filter_add(shard->table, vnode, spilled.id);
    lab_stop(lab, replica);
    lab_run(lab, 300 * LAB_MS);
    lab_start(lab, replica);
    lab_until(lab, listing, NULL, 2000 * LAB_MS);
    shard_listed(shard, lab->now_ns, vnode, &spilled.id, 1, true, 0);
    lab_until(lab, loading, NULL, 1000 * LAB_MS);
    assert_int_equal(lab->loads[0].vnode, vnode);
    assert_int_equal(lab->loads[0].at, leader);
    assert_true(hash128_equal(lab->loads[0].id, spilled.id));
    shard_loaded(shard, lab->now_ns, vnode, spilled.id, 0, spilled.state, spilled.len,
                 &lab->effects);
    lab_perform(lab, leader);
    lab_until(lab, confirmed, &spilled, 2000 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), leader);
    assert_int_equal(inspect_slot(lab->shards[replica].shard, spilled.id, got, sizeof got),
                     (int)spilled.len);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_in_the_journal_alone_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

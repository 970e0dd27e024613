/* test_pools.c - elastic limits across three nodes: what keys decided on each borrow of one pool.
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
#include "node/cluster/admission/pools.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_flows.h"
#include "tests/unit/support_shard.h"

#define S (1000 * LAB_MS)

/* A flow of requests to the rule of that kind, whose key is decided by shard `leader`. */
static struct flow *add_flow(struct lab *lab, const char *kind, uint32_t leader, uint64_t rate)
{
    struct flow *flow = flow_add(kind, flow_count % 3, rate);
    lab_attribute(lab, kind, "user", leader, flow->user);
    return flow;
}

#define RULE(name, more)                                                                           \
    "- {name: " name ", match: {kind: " name "}, key: [user], limits: [{rate: 10/s}], " more "}\n"

/* Spare 120, asking 1000/60/10 above their limits: 55/55/10; asking 1000/50/10: 60/50/10. Decided
 * on three nodes, over ten seconds, to within 2%; and what is inside the limits is untouched. */
static void the_spare_is_shared_by_max_min_fairness(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab,
                    "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    flows_begin(lab);
    const struct flow *a = add_flow(lab, "n", 0, 1010);
    struct flow *b = add_flow(lab, "n", 1, 70);
    const struct flow *c = add_flow(lab, "n", 2, 20);
    flows_run(lab, 3 * S);
    flows_run(lab, 10 * S);
    flow_assert_share(a, 550);
    flow_assert_share(b, 550);
    flow_assert_share(c, 100);
    for (uint32_t i = 0; i < flow_count; i++)
        assert_in_range(flows[i].counts[OUTCOME_ALLOW], 99, 102);
    b->rate = 60;
    flows_run(lab, 2 * S);
    flows_run(lab, 10 * S);
    flow_assert_share(a, 600);
    flow_assert_share(b, 500);
    flow_assert_share(c, 100);
    struct shard_pool known;
    for (uint32_t at = 0; at < 3; at++) { /* whoever is asked knows how the pool is doing */
        struct shard_stats stats = lab_stats(lab, at);
        assert_int_equal(stats.pool_count, 1);
        known = stats.pools[0];
        assert_in_range(known.guaranteed / 1000000000, 28, 32);
        assert_in_range(known.borrowed / 1000000000, 112, 128);
        assert_in_range(known.level[1] / 1000000000, 58, 62);
        assert_true(known.load_ppm == PEER_LOAD_UNKNOWN);
    }
}

/* Whoever explains a request through `entry` is told of the pool about these rates, in thousandths
 * of a token a second. */
static void assert_explained(struct lab *lab, const struct flow *flow, uint32_t entry,
                             uint64_t level, uint64_t guaranteed, uint64_t lent)
{
    const char *attributes[] = {flow->user, flow->kind, NULL};
    lab_ask_attributes(lab, 1, attributes);
    (void)lab_answer(lab, lab_send_explained(lab, entry, 1000), 0);
    const struct wire_explain_row *row = &lab->decisions.explain->rows[0];
    assert_true(lab_text_is(row->pool, "p"));
    assert_in_range(row->level, level - level / 20, level + level / 20);
    assert_in_range(row->guaranteed, guaranteed - guaranteed / 20, guaranteed + guaranteed / 20);
    assert_in_range(row->borrowed, lent - lent / 20, lent + lent / 20);
}

/* Twice the weight borrows twice as much; a ceiling of 3 x holds a key at three times its limit;
 * and every node tells how that pool is doing, wherever the key is decided. */
static void weights_and_ceilings_hold_across_nodes(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(
        lab,
        "pools: {p: {rate: 150/s}}\nrules:\n" RULE("heavy", "mode: {elastic: {pool: p, weight: 2}}")
            RULE("light", "mode: {elastic: {pool: p}}")
                RULE("low", "mode: {elastic: {pool: p, ceiling: 2x, weight: 10}}"));
    flows_begin(lab);
    const struct flow *heavy = add_flow(lab, "heavy", 0, 300);
    const struct flow *light = add_flow(lab, "light", 1, 300);
    const struct flow *low = add_flow(lab, "low", 2, 300);
    flows_run(lab, 3 * S);
    flows_run(lab, 10 * S);
    flow_assert_share(low, 100);
    flow_assert_share(heavy, 733);
    flow_assert_share(light, 367);
    for (uint32_t entry = 0; entry < 3; entry++)
        assert_explained(lab, heavy, entry, 36650, 30000, 120000);
}

/* Batch stops borrowing before normal does, and the reserve is for critical alone. */
static void classes_lose_their_borrowing_in_order(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab, "pools: {p: {rate: 200/s, reserve: 10%}}\nrules:\n" RULE(
                             "c", "class: critical, mode: {elastic: {pool: p}}")
                             RULE("n", "mode: {elastic: {pool: p}}")
                                 RULE("b", "class: batch, mode: {elastic: {pool: p}}"));
    flows_begin(lab);
    struct flow *critical = add_flow(lab, "c", 0, 10);
    struct flow *normal = add_flow(lab, "n", 1, 60);
    const struct flow *batch = add_flow(lab, "b", 2, 500);
    flows_run(lab, 3 * S);
    flows_run(lab,
              5 * S); /* 170 spare, of which 20 are reserved: normal has its 50, batch the rest */
    flow_assert_share(normal, 250);
    flow_assert_share(batch, 500);
    normal->rate = 500;
    flows_run(lab, 2 * S);
    flows_run(lab, 5 * S);
    flow_assert_share(normal, 750);
    flow_assert_share(batch, 0);
    critical->rate = 110;
    flows_run(lab, 2 * S);
    flows_run(lab, 5 * S); /* the first 20 of its 100 come out of the reserve */
    flow_assert_share(critical, 500);
    flow_assert_share(normal, 350);
    flow_assert_share(batch, 0);
}

/* Guaranteed traffic is never denied for the borrowers' sake, whatever they ask for; and when it
 * comes back to fill the pool, borrowing is over within a second. */
static void borrowing_ends_when_guaranteed_traffic_is_back(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab,
                    "pools: {p: {rate: 150/s}}\nrules:\n" RULE(
                        "n", "mode: {elastic: {pool: p}}") "- {name: big, match: {kind: big}, key: "
                                                           "[user], limits: [{rate: 200/s}], mode: "
                                                           "{elastic: {pool: p}}}\n");
    flows_begin(lab);
    const struct flow *borrower = add_flow(lab, "n", 0, 500);
    struct flow *owner = add_flow(lab, "big", 1, 0);
    flows_run(lab, 4 * S);
    assert_true(borrower->borrowed_at[3] > 130);
    owner->rate = 190; /* inside its limit, and more than the pool has */
    flows_run(lab, S);
    const uint64_t within = flow_borrowed(borrower);
    flows_run(lab, 4 * S);
    assert_in_range(within, 1, 140);
    assert_int_equal(flow_borrowed(borrower), 0);
    assert_int_equal(owner->counts[OUTCOME_DENY], 0);
    assert_in_range(owner->counts[OUTCOME_ALLOW], 755, 765);
    assert_in_range(borrower->counts[OUTCOME_ALLOW], 39, 41);
    owner->rate = 0;
    flows_run(lab, S);
    flows_run(lab, 2 * S);
    flow_assert_share(borrower, 280);
}

/* A load that the protected service reports stops borrowing at load_max, wherever it is told, and
 * is forgotten after three seconds. */
static void a_reported_load_stops_borrowing(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy =
        lab_rules(lab, "pools: {p: {rate: 150/s, load_max: 0.8}}\nrules:\n" RULE(
                           "n", "mode: {elastic: {pool: p}}"));
    const uint32_t pool = policy_pool_find(policy, "p", 1)->id;
    flows_begin(lab);
    const struct flow *flow = add_flow(lab, "n", 0, 500);
    flows_run(lab, 4 * S);
    for (uint32_t at = 0; at < 3; at++) {
        assert_true(flow->borrowed_at[3] > 130);
        lab_report_load(lab, at, pool, 790000);
        flows_run(lab, S);
        assert_in_range(flow_borrowed(flow), 130, 150);
        lab_report_load(lab, at, pool, 800000);
        flows_run(lab, S);
        assert_in_range(flow_borrowed(flow), 0, 60);
        assert_int_equal(lab_stats(lab, (at + 1) % 3).pools[0].load_ppm, 800000);
        flows_run(lab, 1800 * LAB_MS);
        assert_int_equal(flow_borrowed(flow), 0);
        flows_run(lab, 700 * LAB_MS);
        flows_run(lab, S);
        assert_in_range(flow_borrowed(flow), 130, 150);
    }
}

/* The load is believed for its three seconds though the node that it was told dies meanwhile. */
static void a_load_outlives_the_node_that_was_told(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy = lab_rules(
        lab, "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    const uint32_t pool = policy_pool_find(policy, "p", 1)->id;
    const uint32_t owner = lab_leader(lab, pools_vnode(pool, LAB_VNODES));
    const uint32_t told = (owner + 1) % 3;
    flows_begin(lab);
    struct flow *flow = add_flow(lab, "n", owner, 500);
    flow->entry = owner;
    flows_run(lab, 2 * S);
    assert_true(flow_borrowed(flow) > 100);
    lab_report_load(lab, told, pool, 1000000);
    flows_run(lab, 200 * LAB_MS);
    lab_stop(lab, told);
    flows_run(lab, 500 * LAB_MS);
    flows_run(lab, 2 * S);
    assert_int_equal(flow_borrowed(flow), 0);
    flows_run(lab, S);
    flows_run(lab, S);
    assert_true(flow_borrowed(flow) > 100);
}

/* A load is told to the owner at once, but whoever tells one all the time keeps nobody busy. */
static void a_flood_of_loads_is_told_in_a_few_words(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy = lab_rules(
        lab, "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    const uint32_t pool = policy_pool_find(policy, "p", 1)->id;
    const uint32_t owner = lab_leader(lab, pools_vnode(pool, LAB_VNODES));
    const uint32_t told = (owner + 1) % 3;
    lab_forget(lab);
    for (uint32_t i = 0; i < 100; i++) {
        lab_report_load(lab, told, pool, 500000 + i);
        lab_run(lab, LAB_MS);
        if (i == 22)
            assert_in_range(lab_said(lab, told, owner, PEER_POOL_REPORT, NULL), 1, 2);
    }
    assert_in_range(lab_said(lab, told, owner, PEER_POOL_REPORT, NULL), 2, 6);
    lab_run(lab, 200 * LAB_MS);
    assert_int_equal(lab_stats(lab, owner).pools[0].load_ppm, 500099);
}

/* An owner that is new to a pool says nothing until it must have heard of everybody. */
static void a_new_owner_lends_nothing_for_half_a_second(void **state)
{
    struct lab *lab = *state;
    (void)lab_rules(lab,
                    "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    flows_begin(lab);
    for (uint32_t at = 0; at < 3; at++)
        (void)add_flow(lab, "n", at, 200);
    flows_run(lab, 500 * LAB_MS);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(flow_borrowed(&flows[at]), 0);
    flows_run(lab, 500 * LAB_MS);
    for (uint32_t at = 0; at < 3; at++)
        assert_in_range(flow_borrowed(&flows[at]), 5, 30);
}

/* Eighteen keys that asked for little begin to ask for much at the same moment, on three nodes: all
 * together they borrow what is spare, though none of the nodes knows of the others' yet. */
static void a_surge_everywhere_stays_within_the_spare(void **state)
{
    struct lab *lab = *state;
    const char *kinds[] = {"n0", "n1", "n2", "n3", "n4", "n5"};
    (void)lab_rules(
        lab,
        "pools: {p: {rate: 300/s}}\nrules:\n" RULE("n0", "mode: {elastic: {pool: p}}")
            RULE("n1", "mode: {elastic: {pool: p}}") RULE("n2", "mode: {elastic: {pool: p}}")
                RULE("n3", "mode: {elastic: {pool: p}}") RULE("n4", "mode: {elastic: {pool: p}}")
                    RULE("n5", "mode: {elastic: {pool: p}}"));
    flows_begin(lab);
    for (uint32_t i = 0; i < 18; i++)
        (void)add_flow(lab, kinds[i / 3], i % 3, 11);
    flows_run(lab, 3 * S);
    for (uint32_t i = 0; i < 18; i++)
        flows[i].rate = 200;
    flows_run(lab, S);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 18; i++)
        sum += flow_borrowed(&flows[i]);
    assert_in_range(sum, 100, 120 + 3 * 5);
}

static bool nobody_decides_it_there(struct lab *lab, void *context)
{
    const uint32_t *wanted = context;
    const uint32_t leader = lab_leader(lab, wanted[0]);
    return leader != LAB_NONE && leader != wanted[1];
}

/* The pool's owner dies: levels expire, the next one learns from the reports that come, and shares
 * the spare again. At no time is more lent than there is. */
static void a_new_owner_learns_and_goes_on(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy = lab_rules(
        lab, "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    const uint32_t pool = policy_pool_find(policy, "p", 1)->id;
    const uint32_t vnode = (uint32_t)hash_mix64(pool) & (LAB_VNODES - 1);
    uint32_t owner[] = {vnode, lab_leader(lab, vnode)};
    flows_begin(lab);
    for (uint32_t at = 0; at < 3; at++)
        if (at != owner[1])
            add_flow(lab, "n", at, 500)->entry = at;
    flows_run(lab, 3 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(&flows[0], 130);
    flow_assert_share(&flows[1], 130);
    lab_stop(lab, owner[1]);
    lab->dead[owner[1]] = true;
    flows_run(lab, 600 * LAB_MS);
    lab_until(lab, nobody_decides_it_there, owner, 5 * S);
    lab_view_all(lab);
    flows_run(lab, 2 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(&flows[0], 130);
    flow_assert_share(&flows[1], 130);
    for (uint32_t second = 0; second < 9; second++) { /* 500 ms of the spare may be saved up */
        const uint32_t sum = flows[0].borrowed_at[second] + flows[1].borrowed_at[second];
        assert_true(sum <= 130 + 65 + 2 * 5);
    }
}

/* Without rules that know the pool, with a lost report or level, and in a lasting silence of the
 * owner, nothing is lent that was not told. */
static void without_a_level_nothing_is_lent(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy = lab_rules(
        lab, "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    const uint32_t vnode =
        (uint32_t)hash_mix64(policy_pool_find(policy, "p", 1)->id) & (LAB_VNODES - 1);
    const uint32_t owner = lab_leader(lab, vnode);
    flows_begin(lab);
    struct flow *flow = add_flow(lab, "n", (owner + 1) % 3, 500);
    flow->entry = (owner + 1) % 3;
    flows_run(lab, 2 * S);
    lab->drop_type = PEER_POOL_LEVEL;
    flows_run(lab, 500 * LAB_MS);
    flows_run(lab, S);
    assert_int_equal(flow_borrowed(flow), 0);
    lab->drop_type = PEER_POOL_REPORT;
    flows_run(lab, S);
    flows_run(lab, S);
    assert_int_equal(flow_borrowed(flow), 0);
    lab->drop_type = 0;
    flows_run(lab, 2 * S);
    assert_true(flow_borrowed(flow) > 100);
    shard_policy(lab->shards[owner].shard, policy_empty());
    flows_run(lab, S);
    flows_run(lab, S);
    assert_int_equal(flow_borrowed(flow), 0);
    assert_int_equal(flow->counts[OUTCOME_ALLOW], 10);
}

/* POOLS-5: a level is the owner's to tell. What another node says of a pool lends nothing. */
static void a_level_of_another_node_lends_nothing(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy = lab_rules(
        lab, "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    const uint32_t pool = policy_pool_find(policy, "p", 1)->id;
    const uint32_t owner = lab_leader(lab, pools_vnode(pool, LAB_VNODES));
    const uint64_t rate = UINT64_C(100000000000);
    const struct peer_pool_level told = {
        .pool = pool,
        .level = {.level = {rate, rate, rate}, .budget = rate, .budget_open = rate, .spare = rate}};
    flows_begin(lab);
    struct flow *flow = add_flow(lab, "n", (owner + 1) % 3, 500);
    flow->entry = (owner + 1) % 3;
    lab->drop_type = PEER_POOL_LEVEL;
    for (uint32_t i = 0; i < 10; i++) {
        flows_run(lab, 100 * LAB_MS);
        assert_int_equal(flow_borrowed(flow), 0);
        peer_put_pool_level(&lab->records, &told);
        lab_speak(lab, (owner + 2) % 3, (owner + 1) % 3);
    }
    peer_put_pool_level(&lab->records, &told);
    lab_speak(lab, owner, (owner + 1) % 3);
    flows_run(lab, 100 * LAB_MS);
    assert_true(flow_borrowed(flow) > 5);
}

/* POOLS-3: when the owner has no room for somebody's report nothing is lent, for that may have said
 * that nothing is spare. */
static void a_report_without_room_ends_lending(void **state)
{
    struct lab *lab = *state;
    const struct policy *policy = lab_rules(
        lab, "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", "mode: {elastic: {pool: p}}"));
    const uint32_t pool = policy_pool_find(policy, "p", 1)->id;
    const uint32_t owner = lab_leader(lab, pools_vnode(pool, LAB_VNODES));
    flows_begin(lab);
    struct flow *first = add_flow(lab, "n", (owner + 1) % 3, 500);
    struct flow *second = add_flow(lab, "n", (owner + 2) % 3, 0);
    first->entry = (owner + 1) % 3;
    second->entry = (owner + 2) % 3;
    flows_run(lab, 2 * S);
    assert_true(flow_borrowed(first) > 100);
    struct pools *pools = &lab->shards[owner].shard->pools;
    assert_int_equal(pools->entry_count, 1);
    for (; pools->entry_count < POOLS_REPORTS_MAX; pools->entry_count++)
        pools->entries[pools->entry_count] =
            (struct pool_entry){.source = {.peer = (uint16_t)pools->entry_count},
                                .at_ns = lab->now_ns + 2 * S,
                                .report = {.pool = 1}};
    flows_run(lab, S);
    assert_true(flow_borrowed(first) > 100);
    second->rate = 500;
    flows_run(lab, 500 * LAB_MS);
    flows_run(lab, S);
    assert_int_equal(flow_borrowed(first) + flow_borrowed(second), 0);
    assert_true(pools->reports_dropped > 0);
    flows_run(lab, S);
    flows_run(lab, 2 * S);
    assert_true(flow_borrowed(first) > 50 && flow_borrowed(second) > 50);
}

/* Over random demand that comes and goes on three nodes, no second sees more than the pool's rate,
 * or what is guaranteed, and what may be saved up. */
static void the_pool_is_never_overfilled_by_borrowers(void **state)
{
    struct lab *lab = *state;
    struct random random;
    random_init(&random, 17);
    (void)lab_rules(
        lab, "pools: {p: {rate: 300/s, reserve: 20%}}\nrules:\n" RULE(
                 "c", "class: critical, mode: {elastic: {pool: p, weight: 3}}")
                 RULE("n", "mode: {elastic: {pool: p}}") "- {name: big, match: {kind: big}, key: "
                                                         "[user], limits: [{rate: 90/s}], class: "
                                                         "batch, mode: {elastic: {pool: p}}}\n");
    flows_begin(lab);
    const char *kinds[] = {"c", "n", "big", "n", "big", "c"};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        (void)add_flow(lab, kinds[i], i % 3, 0);
    uint64_t lent = 0;
    for (uint32_t second = 0; second < 40; second++) {
        for (uint32_t i = 0; i < FLOWS_MAX; i++)
            if (random_below(&random, 3) == 0)
                flows[i].rate = random_below(&random, 4) == 0 ? 0 : random_below(&random, 200);
        flows_run(lab, S);
        uint32_t borrowed_now = 0, allowed = 0, allowed_before = 0;
        for (uint32_t i = 0; i < FLOWS_MAX; i++) {
            borrowed_now += flows[i].borrowed_at[second];
            allowed += flows[i].allowed_at[second];
            allowed_before += second == 0 ? 0 : flows[i].allowed_at[second - 1];
        }
        /* Spare is of up to 800 ms ago, when less may have been guaranteed. */
        const uint32_t guaranteed = allowed < allowed_before ? allowed : allowed_before;
        const uint32_t spare = guaranteed >= 300 ? 0 : 300 - guaranteed;
        lent += borrowed_now;
        if (borrowed_now > spare + (spare + 1) / 2 + 3 * 5 + 90)
            fail_msg("second %u: %u borrowed, %u and %u guaranteed", second, borrowed_now,
                     allowed_before, allowed);
        assert_true(borrowed_now <= 300 + 150 + 3 * 5);
    }
    assert_true(lent > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(the_spare_is_shared_by_max_min_fairness),
        LAB_TEST_THREE(weights_and_ceilings_hold_across_nodes),
        LAB_TEST_THREE(classes_lose_their_borrowing_in_order),
        LAB_TEST_THREE(borrowing_ends_when_guaranteed_traffic_is_back),
        LAB_TEST_THREE(a_reported_load_stops_borrowing),
        LAB_TEST_THREE(a_load_outlives_the_node_that_was_told),
        LAB_TEST_THREE(a_flood_of_loads_is_told_in_a_few_words),
        LAB_TEST_THREE(a_new_owner_lends_nothing_for_half_a_second),
        LAB_TEST_THREE(a_surge_everywhere_stays_within_the_spare),
        LAB_TEST_THREE(a_new_owner_learns_and_goes_on),
        LAB_TEST_THREE(without_a_level_nothing_is_lent),
        LAB_TEST_THREE(a_level_of_another_node_lends_nothing),
        LAB_TEST_THREE(a_report_without_room_ends_lending),
        LAB_TEST_THREE(the_pool_is_never_overfilled_by_borrowers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

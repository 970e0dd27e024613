/* test_pools_global.c - elastic limits whose pool is of all regions: one rate, lent by its home.
 *
 * Region r0 is home, unless a test says otherwise; the way to another region takes WAN_MS.
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
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/unit/support_flows.h"
#include "tests/unit/support_shard.h"

#define S (1000 * LAB_MS)

enum { WAN_MS = 60, NANO = 1000000000 };

#define RULE(name, more)                                                                           \
    "- {name: " name ", match: {kind: " name "}, key: [user], limits: [{rate: 10/s}], " more "}\n"
#define POOL(more) "pools: {p: {rate: 150/s, scope: global" more "}}\nrules:\n"
#define ELASTIC    "mode: {elastic: {pool: p}}"
/* Of a limit that fills most of the pool by itself. */
#define BIG   "- {name: big, match: {kind: big}, key: [user], limits: [{rate: 200/s}], " ELASTIC "}\n"
#define RULES POOL(", home: r0") RULE("n", ELASTIC) BIG

/* Regions of so many nodes each, as far apart as that, under these rules. */
static struct lab *begin(uint32_t regions, uint32_t nodes, int64_t wan_ms, const char *rules)
{
    struct lab *lab = lab_new(regions * nodes, 1, nodes);
    lab_regions(lab, nodes, nodes, wan_ms * LAB_MS);
    lab->large = true;
    for (uint32_t at = 0; at < lab->count; at++)
        lab_start(lab, at);
    (void)lab_rules(lab, rules);
    lab_run(lab, S);
    lab_forget(lab);
    flows_begin(lab);
    return lab;
}

static void end(struct lab *lab)
{
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL)
            shard_check_invariants(lab->shards[at].shard);
    lab_free(lab);
}

static struct flow *add_flow(const char *kind, uint32_t entry, uint64_t rate)
{
    struct flow *flow = flow_add(kind, entry, rate);
    (void)snprintf(flow->user, sizeof flow->user, "user=u%u", flow_count - 1);
    return flow;
}

static void cut_off(struct lab *lab, uint32_t at, bool cut)
{
    for (uint32_t other = 0; other < lab->count; other++)
        lab->cut[at][other] = lab->cut[other][at] = cut && other != at;
}

static uint32_t pool_id(const struct lab *lab)
{
    return policy_pool_find(lab->policies[0], "p", 1)->id;
}

/* The node of the region whose first one is `first` that owns the pool. */
static uint32_t owner_in(const struct lab *lab, uint32_t first)
{
    const uint32_t vnode = pools_vnode(pool_id(lab), LAB_VNODES);
    for (uint32_t at = first; at < first + lab->region_nodes; at++)
        if (lab->shards[at].shard != NULL && lab_role(lab, at, vnode) == SHARD_LEADING)
            return at;
    return LAB_NONE;
}

/* Spare 120 of all regions, asking 1000/60/10 above their limits in one each: 55/55/10; with twice
 * the weight of who asks for 300: 73/37/10. And whoever is asked, wherever, knows of the whole. */
static void the_spare_is_shared_by_max_min_fairness_over_regions(void **state)
{
    struct lab *lab = begin(3, 1, WAN_MS,
                            POOL(", home: r0") RULE("n", ELASTIC)
                                RULE("heavy", "mode: {elastic: {pool: p, weight: 2}}"));
    (void)state;
    struct flow *a = add_flow("n", 0, 1010);
    struct flow *b = add_flow("n", 1, 70);
    struct flow *c = add_flow("n", 2, 20);
    flows_run(lab, 3 * S);
    flows_run(lab, 5 * S);
    flow_assert_share(a, 275);
    flow_assert_share(b, 275);
    flow_assert_share(c, 50);
    for (uint32_t at = 0; at < 3; at++) {
        const struct shard_pool known = lab_stats(lab, at).pools[0];
        assert_in_range(flows[at].counts[OUTCOME_ALLOW], 49, 52);
        assert_in_range(known.guaranteed / NANO, 28, 32);
        assert_in_range(known.borrowed / NANO, 112, 128);
        assert_in_range(known.level[1] / NANO, 53, 57);
        assert_string_equal(known.home, "r0");
    }
    a->rate = b->rate = 300;
    (void)snprintf(b->kind, sizeof b->kind, "kind=heavy");
    flows_run(lab, 3 * S);
    flows_run(lab, 5 * S);
    flow_assert_share(a, 183);
    flow_assert_share(b, 367);
    flow_assert_share(c, 50);
    end(lab);
}

/* In a region of several nodes each gets a part of what the region was given; the node that the
 * region asks in the home is not the one that lends there; and each key has its share. */
static void the_nodes_of_a_region_share_what_it_is_given(void **state)
{
    struct lab *lab = begin(2, 3, WAN_MS, RULES);
    (void)state;
    for (uint32_t at = 0; at < 6; at++)
        (void)add_flow("n", at, 200);
    flows_run(lab, 3 * S);
    flows_run(lab, 5 * S);
    for (uint32_t i = 0; i < 6; i++)
        flow_assert_share(&flows[i], 75);
    end(lab);
}

/* A region where nobody asks for anything knows how the pool is doing, and which one lends. */
static void an_idle_region_knows_how_the_pool_is_doing(void **state)
{
    struct lab *lab = begin(2, 3, WAN_MS, RULES);
    (void)state;
    (void)add_flow("n", 0, 500);
    flows_run(lab, 4 * S);
    for (uint32_t at = 0; at < 6; at++) {
        const struct shard_pool known = lab_stats(lab, at).pools[0];
        assert_true(known.at_ns > 0);
        assert_in_range(known.borrowed / NANO, 130, 150);
        assert_string_equal(known.home, "r0");
    }
    end(lab);
}

/* What a node tells of the pool to who wants a request explained. */
static const struct wire_explain_row *explained_by(struct lab *lab, uint32_t entry,
                                                   const char *kind)
{
    const char *const attributes[] = {"user=u", kind, NULL};
    lab_ask_attributes(lab, 1, attributes);
    (void)lab_answer(lab, lab_send_explained(lab, entry, 1000), 0);
    return &lab->decisions.explain->rows[0];
}

/* In whichever region it is asked for; by hash each says the same. A pool that each region has for
 * itself has no home. */
static void an_explained_limit_tells_which_region_lends(void **state)
{
    struct lab *lab = begin(
        2, 1, WAN_MS,
        "pools: {p: {rate: 150/s, scope: global, home: r0}, h: {rate: 150/s, scope: global}, "
        "own: {rate: 150/s}}\nrules:\n" RULE("n", ELASTIC)
            RULE("hash", "mode: {elastic: {pool: h}}") RULE("own", "mode: {elastic: {pool: own}}"));
    const struct policy_pool *by_hash = policy_pool_find(lab->policies[0], "h", 1);
    (void)state;
    for (uint32_t at = 0; at < 2; at++) {
        const struct wire_explain_row *row = explained_by(lab, at, "kind=n");
        assert_true(row->pool_global && lab_text_is(row->pool_home, "r0"));
        row = explained_by(lab, at, "kind=hash");
        const uint64_t home = policy_region_id(row->pool_home.data, row->pool_home.len);
        assert_true(row->pool_global);
        assert_true(home == remote_pool_home(lab->shards[at].shard, by_hash));
        row = explained_by(lab, at, "kind=own");
        assert_true(lab_text_is(row->pool, "own"));
        assert_true(!row->pool_global && row->pool_home.len == 0);
    }
    end(lab);
}

/* Keys that asked for little begin to ask for much at the same moment in all regions, or in one
 * after the other: all together they borrow what is spare, and what half a second may save up. */
static void a_surge_everywhere_stays_within_the_spare(void **state)
{
    struct lab *lab = begin(3, 1, WAN_MS, RULES);
    (void)state;
    for (uint32_t i = 0; i < 9; i++)
        (void)add_flow("n", i % 3, 11);
    flows_run(lab, 3 * S);
    for (uint32_t i = 0; i < 9; i++)
        flows[i].rate = 200;
    flows_run(lab, S);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 9; i++)
        sum += flow_borrowed(&flows[i]);
    assert_in_range(sum, 40, 60 + 30 + 3 * 5);  /* 60 are spare */
    for (uint32_t turn = 0; turn < 6; turn++) { /* each region in turn wants all there is */
        for (uint32_t i = 0; i < 9; i++)
            flows[i].rate = i % 3 == turn % 3 ? 200 : 10;
        flows_run(lab, S);
        sum = 0;
        for (uint32_t i = 0; i < 9; i++)
            sum += flow_borrowed(&flows[i]);
        assert_true(sum <= 60 + 30 + 3 * 5);
    }
    end(lab);
}

/* Over random demand in three regions no second sees more than the pool's rate, or what is
 * guaranteed, and what may be saved up. */
static void the_pool_is_never_overfilled_by_regions(void **state)
{
    struct lab *lab = begin(3, 1, WAN_MS,
                            "pools: {p: {rate: 300/s, reserve: 20%, scope: global}}\nrules:\n" RULE(
                                "c", "class: critical, mode: {elastic: {pool: p, weight: 3}}")
                                RULE("n", ELASTIC) BIG);
    const char *const kinds[] = {"c", "n", "big", "n", "big", "c"};
    struct random random;
    uint64_t lent = 0;
    (void)state;
    random_init(&random, 23);
    for (uint32_t i = 0; i < 6; i++)
        (void)add_flow(kinds[i], i % 3, 0);
    for (uint32_t second = 0; second < 30; second++) {
        for (uint32_t i = 0; i < 6; i++)
            if (random_below(&random, 3) == 0)
                flows[i].rate = random_below(&random, 4) == 0 ? 0 : random_below(&random, 200);
        flows_run(lab, S);
        uint32_t now = 0, allowed = 0, before = 0;
        for (uint32_t i = 0; i < 6; i++) {
            now += flows[i].borrowed_at[second];
            allowed += flows[i].allowed_at[second];
            before += second == 0 ? 0 : flows[i].allowed_at[second - 1];
        }
        /* Spare is of up to a second ago, when less may have been guaranteed. */
        const uint32_t guaranteed = allowed < before ? allowed : before;
        const uint32_t spare = guaranteed >= 300 ? 0 : 300 - guaranteed;
        lent += now;
        if (now > spare + (spare + 1) / 2 + 3 * 5 + 90)
            fail_msg("second %u: %u borrowed, %u and %u guaranteed", second, now, before, allowed);
        assert_true(now <= 300 + 150 + 3 * 5);
    }
    assert_true(lent > 1000);
    end(lab);
}

/* POOLS-6, POOLS-8: a region that is cut off borrows nothing from half a second on, and what is
 * inside its limits goes on; so long the home does not lend what it takes for needed there. When
 * the region is back it borrows again. */
static void a_region_that_is_cut_off_borrows_nothing(void **state)
{
    struct lab *lab = begin(2, 1, WAN_MS, RULES);
    (void)state;
    const struct flow *near = add_flow("n", 0, 500);
    const struct flow *far = add_flow("n", 1, 500);
    const struct flow *inside = add_flow("big", 1, 60);
    flows_run(lab, 4 * S);
    flows_run(lab, 2 * S); /* 70 are spare */
    flow_assert_share(near, 70);
    flow_assert_share(far, 70);
    cut_off(lab, 1, true);
    flows_run(lab, (500 + WAN_MS + 10) * LAB_MS);
    flows_run(lab, 2 * S);
    assert_int_equal(flow_borrowed(far), 0);
    assert_in_range(inside->counts[OUTCOME_ALLOW], 118, 122);
    flows_run(lab, 5 * S);
    assert_int_equal(flow_borrowed(far), 0);
    flow_assert_share(near, 350); /* of 150: 10 its own, 70 in the region that is silent */
    flows_run(lab, 3 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 280);
    cut_off(lab, 1, false);
    flows_run(lab, 2 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 70);
    flow_assert_share(far, 70);
    end(lab);
}

/* POOLS-7: what a region may lend still, though nothing is heard of it, is lent to nobody else. */
static void what_a_silent_region_may_lend_is_not_lent_twice(void **state)
{
    struct lab *lab = begin(2, 1, WAN_MS, RULES);
    (void)state;
    struct flow *near = add_flow("n", 0, 10);
    const struct flow *far = add_flow("n", 1, 500);
    flows_run(lab, 4 * S);
    assert_true(far->borrowed_at[3] > 100);
    const struct shard_pool before = lab_stats(lab, 0).pools[0];
    assert_in_range(before.borrowed / NANO, 120, 140);
    near->rate = 500;
    lab->drop_type = PEER_REMOTE_POOL_REPORT;
    flows_run(lab,
              800 * LAB_MS); /* it is silent by now, and its last level may still be in force */
    assert_in_range(lab_stats(lab, 0).pools[0].level[1] / NANO, 55, 80);
    flows_run(lab, S);
    flows_run(lab, S);
    assert_true(flow_borrowed(near) > 100);
    end(lab);
}

/* A load that is told anywhere stops borrowing everywhere, and is forgotten after three seconds. */
static void a_load_that_one_region_reports_stops_all(void **state)
{
    struct lab *lab = begin(3, 1, WAN_MS, RULES);
    (void)state;
    for (uint32_t at = 0; at < 3; at++)
        (void)add_flow("n", at, 500);
    flows_run(lab, 4 * S);
    for (uint32_t told = 0; told < 3; told++) {
        for (uint32_t at = 0; at < 3; at++)
            assert_true(flow_borrowed(&flows[at]) > 20);
        lab_report_load(lab, told, pool_id(lab), 1000000);
        flows_run(lab, 500 * LAB_MS);
        flows_run(lab, 2300 * LAB_MS);
        for (uint32_t at = 0; at < 3; at++) {
            assert_int_equal(flow_borrowed(&flows[at]), 0);
            assert_int_equal(lab_stats(lab, at).pools[0].load_ppm, 1000000);
        }
        flows_run(lab, 700 * LAB_MS);
        flows_run(lab, S);
    }
    end(lab);
}

/* POOLS-9: the home's owner dies. The next one does not know what the other regions need before
 * they have told it, so it lends nothing until they have; then it lends what they leave. */
static void a_new_owner_at_home_waits_for_the_other_regions(void **state)
{
    struct lab *lab = begin(2, 3, WAN_MS, RULES);
    (void)state;
    const uint32_t owner = owner_in(lab, 0);
    struct flow *near = add_flow("n", (owner + 1) % 3, 500);
    (void)add_flow("big", 3, 100);
    flows_run(lab, 4 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 80);
    lab_stop(lab, owner);
    lab->dead[owner] = true;
    lab->drop_type = PEER_REMOTE_POOL_REPORT;
    flows_run(lab, 600 * LAB_MS);
    lab_view_all(lab);
    assert_true(owner_in(lab, 0) != LAB_NONE);
    flows_run(lab, 6 * S); /* much longer than anything else is learnt in */
    assert_int_equal(flow_borrowed(near), 0);
    lab->drop_type = 0;
    flows_run(lab, 2 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 80);
    end(lab);
}

/* POOLS-9: a region that is gone is waited for no longer than what it needed would be counted. */
static void a_new_owner_at_home_does_not_wait_for_ever(void **state)
{
    struct lab *lab = begin(2, 1, WAN_MS, RULES);
    (void)state;
    const struct flow *near = add_flow("n", 0, 500);
    cut_off(lab, 1, true);
    lab_stop(lab, 0);
    lab_start(lab, 0);
    shard_policy(lab->shards[0].shard, lab->policies[0]);
    flows_run(lab, 9 * S);
    assert_int_equal(flow_borrowed(near), 0);
    flows_run(lab, 2 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 280);
    end(lab);
}

/* POOLS-8: the owner in a region that is not the home dies. The next one tells the home nothing
 * before it has heard of all leaders of its region, and then what they need. */
static void a_new_owner_in_a_region_learns_before_it_speaks(void **state)
{
    struct lab *lab = begin(2, 3, WAN_MS, RULES);
    (void)state;
    const uint32_t owner = owner_in(lab, 3);
    const struct flow *near = add_flow("n", 0, 500);
    for (uint32_t i = 0; i < 3; i++)
        (void)add_flow("big", 3 + (owner - 3 + 1) % 3, 40);
    flows_run(lab, 4 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 40);
    lab_stop(lab, owner);
    lab->dead[owner] = true;
    while (owner_in(lab, 3) == LAB_NONE)
        flows_run(lab, 10 * LAB_MS);
    const uint32_t next = owner_in(lab, 3);
    uint32_t said = 0;
    lab_view_all(lab);
    for (uint32_t i = 0; i < 45; i++) {
        flows_run(lab, 9 * LAB_MS);
        lab_run(lab, LAB_MS);
        said += lab_said(lab, next, LAB_NONE, PEER_REMOTE_POOL_REPORT, NULL);
        assert_true(flow_borrowed(near) <= 5);
    }
    assert_int_equal(said, 0);
    flows_run(lab, 2 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 40);
    end(lab);
}

/* POOLS-5, POOLS-7: a level of a region that is not the home, one that answers no report of this
 * owner, or one that was too long under way, lends nothing. */
static void only_a_fresh_level_of_the_home_lends(void **state)
{
    struct lab *lab = begin(3, 1, WAN_MS, RULES);
    const uint64_t rate = UINT64_C(100000000000);
    struct peer_pool_level told = {
        .pool = pool_id(lab),
        .level = {.level = {rate, rate, rate}, .budget = rate, .budget_open = rate, .spare = rate}};
    const struct flow *far = add_flow("n", 1, 500);
    struct pool_owned *owned = &lab->shards[1].shard->pools.owned[0];
    const int64_t since_ns = owned->since_ns;
    (void)state;
    assert_true(owned->id == told.pool && since_ns < lab->now_ns - 500 * LAB_MS);
    lab->drop_type = PEER_REMOTE_POOL_LEVEL;
    flows_run(lab, 2 * S);
    for (uint32_t i = 0; i < 10; i++) {
        owned->since_ns = lab->now_ns - 199 * LAB_MS; /* as if it owned it anew since */
        const struct {
            uint32_t from;
            int64_t echo_ns;
        } wrong[] = {{2, lab->now_ns},
                     {0, lab->now_ns - 500 * LAB_MS},
                     {0, lab->now_ns + LAB_MS},
                     {0, lab->now_ns - 200 * LAB_MS}};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            told.echo_ns = wrong[k].echo_ns;
            peer_put_pool_level(&lab->records, &told);
            lab_speak(lab, wrong[k].from, 1);
        }
        flows_run(lab, 100 * LAB_MS);
        assert_int_equal(flow_borrowed(far), 0);
    }
    owned->since_ns = since_ns;
    told.echo_ns = lab->now_ns - 499 * LAB_MS;
    peer_put_pool_level(&lab->records, &told);
    lab_speak(lab, 0, 1);
    flows_run(lab, 100 * LAB_MS);
    assert_true(flow_borrowed(far) > 5);
    end(lab);
}

/* POOLS-6: what a region's leaders may lend together is what the region was given, though their
 * keys ask for more by now than at the time of the level; and all of it is theirs. */
static void a_region_hands_out_what_it_was_given(void **state)
{
    struct lab *lab = begin(2, 3, WAN_MS, RULES);
    const uint32_t owner = owner_in(lab, 3);
    struct peer_pool_level told = {.pool = pool_id(lab)};
    (void)state;
    for (uint32_t i = 0; i < 9; i++)
        (void)add_flow("n", 3 + i % 3, 200);
    flows_run(lab, 2 * S);
    lab->drop_type = PEER_REMOTE_POOL_LEVEL;
    flows_run(lab, S);
    for (uint64_t budget = 60; budget <= 6000; budget *= 10) {
        uint32_t deciders = 0;
        uint64_t sum = 0;
        uint64_t open = 0;
        for (uint32_t class = 0; class < LIMIT_CLASSES; class ++)
            told.level.level[class] = UINT64_C(100) * NANO; /* each of nine keys takes that */
        told.level.budget = told.level.spare = budget * NANO;
        told.level.budget_open = budget * NANO / 2;
        told.echo_ns = lab->now_ns;
        peer_put_pool_level(&lab->records, &told);
        lab_speak(lab, 0, owner);
        lab_run(lab, LAB_MS);
        for (uint32_t at = 3; at < 6; at++) {
            struct elastic_level level;
            deciders +=
                elastic_level(lab->shards[at].shard->pools.elastic, told.pool, lab->now_ns, &level);
            sum += level.budget;
            open += level.budget_open;
        }
        assert_true(deciders > 1);
        assert_in_range(sum, told.level.budget - 9, told.level.budget);
        assert_in_range(open, told.level.budget_open - 9, told.level.budget_open);
    }
    end(lab);
}

/* A report is for its home alone, tells of who sent it, and is passed on once: what comes so is
 * taken or left. */
static void a_report_of_somebody_else_is_not_taken(void **state)
{
    struct lab *lab = begin(3, 2, WAN_MS, RULES);
    const uint32_t owner = owner_in(lab, 0);
    const uint32_t other = 1 - owner;
    const struct elastic_report report = {.pool = pool_id(lab), .guaranteed = NANO};
    struct peer_pool_origin origin = {
        .home = policy_region_id("r0", 2), .node = lab->shards[2].node, .sent_ns = lab->now_ns};
    struct pools *pools = &lab->shards[owner].shard->pools;
    (void)state;
    lab->drop_type = PEER_REMOTE_POOL_REPORT;
    lab_run(lab, 11 * S); /* what was told before is forgotten */
    assert_int_equal(pools->entry_count, 0);
    const struct {
        uint32_t from;
        uint32_t to;
        uint64_t home;
        uint32_t named;
        uint32_t taken;
    } rows[] = {
        {2, owner, policy_region_id("r1", 2), 2, 0},         /* for another region */
        {2, owner, policy_region_id("r0", 2), 3, 0},         /* in another's name */
        {other, owner, policy_region_id("r0", 2), other, 0}, /* of this region */
        {owner, other, policy_region_id("r0", 2), 2, 0},     /* passed on to who does not own it */
        {other, owner, policy_region_id("r0", 2), 2, 1},
        {4, owner, policy_region_id("r0", 2), 4, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        origin.home = rows[i].home;
        origin.node = lab->shards[rows[i].named].node;
        peer_put_pool_report(&lab->records, &origin, &report, 0, 0);
        lab_speak(lab, rows[i].from, rows[i].to);
        assert_int_equal(pools->entry_count, rows[i].taken);
        assert_int_equal(lab->shards[other].shard->pools.entry_count, 0);
    }
    lab_forget(lab);
    end(lab);
}

/* POOLS-10: while nodes have different rules, a region whose rules call the pool its own lends its
 * own rate and tells nobody; the home takes no report for a pool that it does not call global, and
 * so gives nothing. When all have the new rules there is one rate. */
static void rules_on_their_way_lend_no_more_than_either(void **state)
{
    static const char older[] = "pools: {p: {rate: 150/s}}\nrules:\n" RULE("n", ELASTIC);
    struct lab *lab = begin(2, 1, WAN_MS, older);
    (void)state;
    const struct flow *near = add_flow("n", 0, 500);
    const struct flow *far = add_flow("n", 1, 500);
    struct policy *policy;
    struct policy_error error;
    flows_run(lab, 3 * S);
    flows_run(lab, S);
    flow_assert_share(near, 140);
    flow_assert_share(far, 140);
    assert_int_equal(policy_compile(RULES, strlen(RULES), alloc_heap(), &policy, &error), 0);
    lab_policy(lab, policy);
    shard_policy(lab->shards[0].shard, lab->policies[0]); /* the home has the older rules yet */
    flows_run(lab, 600 * LAB_MS);
    flows_run(lab, S);
    flow_assert_share(near, 140);
    assert_int_equal(flow_borrowed(far), 0);
    shard_policy(lab->shards[0].shard, policy);
    flows_run(lab, 900 * LAB_MS); /* it learns anew */
    assert_true(flow_borrowed(near) <= 75);
    flows_run(lab, 2 * S);
    flows_run(lab, 2 * S);
    flow_assert_share(near, 130);
    flow_assert_share(far, 130);
    shard_policy(lab->shards[1].shard, lab->policies[0]); /* and back */
    flows_run(lab, S);
    flows_run(lab, 2 * S);
    flow_assert_share(far, 280);
    flow_assert_share(near, 260); /* 20 a second are still held for a region that fell silent */
    end(lab);
}

/* A home that is none of the regions lends nothing, wherever it is asked, and says that nothing is
 * heard of it. */
static void a_home_that_does_not_exist_lends_nothing(void **state)
{
    struct lab *lab = begin(2, 1, WAN_MS, POOL(", home: nowhere") RULE("n", ELASTIC));
    (void)state;
    for (uint32_t at = 0; at < 2; at++)
        (void)add_flow("n", at, 500);
    flows_run(lab, 4 * S);
    for (uint32_t at = 0; at < 2; at++) {
        const struct shard_pool known = lab_stats(lab, at).pools[0];
        assert_int_equal(flow_borrowed(&flows[at]), 0);
        assert_in_range(flows[at].counts[OUTCOME_ALLOW], 39, 52);
        assert_int_equal(known.at_ns, 0);
        assert_string_equal(known.home, "nowhere");
    }
    end(lab);
}

/* Where no home is named the hash of the pool's vnode says which, the same everywhere. */
static void a_home_is_chosen_by_hash(void **state)
{
    struct lab *lab = begin(3, 1, WAN_MS, POOL("") RULE("n", ELASTIC));
    char home[POLICY_REGION_LEN_MAX + 1];
    (void)state;
    for (uint32_t at = 0; at < 3; at++)
        (void)add_flow("n", at, 500);
    flows_run(lab, 4 * S);
    flows_run(lab, 2 * S);
    memcpy(home, lab_stats(lab, 0).pools[0].home, sizeof home);
    assert_true(home[0] == 'r');
    for (uint32_t at = 0; at < 3; at++) {
        assert_string_equal(lab_stats(lab, at).pools[0].home, home);
        flow_assert_share(&flows[at], 80);
    }
    end(lab);
}

/* Two regions so far apart that a level comes too late: the far one borrows nothing, and what its
 * keys need is never lent to others. A way of 320 ms there and back does. */
static void a_home_that_is_too_far_away_lends_nothing(void **state)
{
    (void)state;
    for (uint32_t too_far = 0; too_far < 2; too_far++) {
        struct lab *lab = begin(2, 1, too_far ? 260 : 160, RULES);
        const struct flow *near = add_flow("n", 0, 500);
        const struct flow *far = add_flow("n", 1, 500);
        flows_run(lab, 4 * S);
        flows_run(lab, 2 * S);
        if (too_far)
            assert_int_equal(flow_borrowed(far), 0);
        else
            flow_assert_share(far, 130);
        flow_assert_share(near, 130);
        end(lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_spare_is_shared_by_max_min_fairness_over_regions),
        cmocka_unit_test(the_nodes_of_a_region_share_what_it_is_given),
        cmocka_unit_test(an_idle_region_knows_how_the_pool_is_doing),
        cmocka_unit_test(an_explained_limit_tells_which_region_lends),
        cmocka_unit_test(a_surge_everywhere_stays_within_the_spare),
        cmocka_unit_test(the_pool_is_never_overfilled_by_regions),
        cmocka_unit_test(a_region_that_is_cut_off_borrows_nothing),
        cmocka_unit_test(what_a_silent_region_may_lend_is_not_lent_twice),
        cmocka_unit_test(a_load_that_one_region_reports_stops_all),
        cmocka_unit_test(a_new_owner_at_home_waits_for_the_other_regions),
        cmocka_unit_test(a_new_owner_at_home_does_not_wait_for_ever),
        cmocka_unit_test(a_new_owner_in_a_region_learns_before_it_speaks),
        cmocka_unit_test(only_a_fresh_level_of_the_home_lends),
        cmocka_unit_test(a_region_hands_out_what_it_was_given),
        cmocka_unit_test(a_report_of_somebody_else_is_not_taken),
        cmocka_unit_test(rules_on_their_way_lend_no_more_than_either),
        cmocka_unit_test(a_home_that_does_not_exist_lends_nothing),
        cmocka_unit_test(a_home_is_chosen_by_hash),
        cmocka_unit_test(a_home_that_is_too_far_away_lends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

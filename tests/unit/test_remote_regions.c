/* test_remote_regions.c - scope global: a key is counted in its home region, and other regions
 * admit checks with tokens that they hold of it.
 *
 * Time passes in steps of a millisecond. Region r0 is home, unless a rule says otherwise.
 */
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

enum { HOME = 0, NEAR = 1, FAR = 2, WAN_MS = 40 };

#define LEASE_NS (LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS)

static const char *const attributes[] = {"user=a", NULL};

static void give_rules(struct lab *lab, const char *limits, const char *more)
{
    char text[512];
    const int len = snprintf(text, sizeof text,
                             "rules: [{name: calls, key: [user], scope: global, home: r0, "
                             "limits: [%s]%s}]\n",
                             limits, more);
    assert_true(len > 0 && (size_t)len < sizeof text);
    lab_rules(lab, text);
}

/* Regions of so many nodes each, for so long that leases are given. */
static struct lab *begin(uint32_t regions, uint32_t nodes, const char *limits, const char *more)
{
    struct lab *lab = lab_new(regions * nodes, 1, nodes);
    lab_regions(lab, nodes, nodes, WAN_MS * LAB_MS);
    for (uint32_t at = 0; at < lab->count; at++)
        lab_start(lab, at);
    give_rules(lab, limits, more);
    lab_run(lab, LEASE_NS + 300 * LAB_MS);
    lab_forget(lab);
    return lab;
}

static struct wire_decision ask_as(struct lab *lab, uint32_t at, uint8_t operation, uint64_t cost)
{
    lab_ask_attributes_as(lab, operation, cost, attributes);
    return lab_answer(lab, lab_send(lab, at, 2000), 0);
}

static struct wire_decision ask(struct lab *lab, uint32_t at)
{
    return ask_as(lab, at, OPERATION_CHECK, 1);
}

/* What the home has counted. */
static uint64_t used(struct lab *lab)
{
    return ask_as(lab, HOME, OPERATION_PEEK, 0).used;
}

static void cut_off(struct lab *lab, uint32_t at, bool cut)
{
    for (uint32_t other = 0; other < lab->count; other++)
        lab->cut[at][other] = lab->cut[other][at] = cut && other != at;
}

/* The first check of a key waits for the home and back, and no longer; those behind it are decided
 * at once, with what came. */
static void the_first_check_waits_for_the_home_and_the_next_does_not(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 1000/s}", "");
    (void)state;
    const int64_t before_ns = lab->now_ns;
    const struct wire_decision first = ask(lab, NEAR);
    const int64_t waited_ns = lab->now_ns - before_ns;
    assert_true(first.allowed && first.limit == 1000 && !first.degraded);
    assert_true(waited_ns >= 2 * WAN_MS * LAB_MS && waited_ns < (2 * WAN_MS + 20) * LAB_MS);
    const int64_t then_ns = lab->now_ns;
    for (uint32_t i = 0; i < 20; i++)
        assert_true(ask(lab, NEAR).allowed);
    assert_true(lab->now_ns == then_ns);
    lab_free(lab);
}

/* In its home a global rule is as any other. */
static void a_key_is_decided_at_once_in_its_home(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 2/h}", "");
    (void)state;
    assert_true(ask(lab, HOME).allowed);
    assert_true(ask(lab, HOME).allowed);
    assert_false(ask(lab, HOME).allowed);
    assert_int_equal(lab_said(lab, HOME, NEAR, PEER_REMOTE_ASK, NULL), 0);
    lab_free(lab);
}

/* Without global rules regions say nothing to each other. */
static void without_global_rules_nothing_is_said(void **state)
{
    struct lab *lab = lab_new(2, 1, 1);
    (void)state;
    lab_regions(lab, 1, 1, WAN_MS * LAB_MS);
    lab_start(lab, HOME);
    lab_start(lab, NEAR);
    lab_rules(lab, "rules: [{name: calls, key: [user], limits: [{rate: 1/h}]}]");
    lab_run(lab, 3000 * LAB_MS);
    assert_int_equal(lab->frame_count, 0);
    assert_true(ask(lab, HOME).allowed && ask(lab, NEAR).allowed); /* each counts for itself */
    lab_free(lab);
}

/* Each region asks all the time: together they admit the limit, no more and no less. */
static void all_regions_together_admit_the_limit(void **state)
{
    struct lab *lab = begin(3, 1, "{rate: 100/h, algorithm: sliding_log}", "");
    uint32_t admitted = 0;
    (void)state;
    for (uint32_t round = 0; round < 500; round++) {
        for (uint32_t at = 0; at < 3; at++)
            admitted += ask(lab, at).allowed;
        lab_run(lab, 7 * LAB_MS);
        lab_forget(lab);
    }
    assert_int_equal(admitted, 100);
    lab_run(lab, LEASE_NS);
    assert_int_equal(used(lab), 100);
    lab_free(lab);
}

/* Of several limits each gives tokens; the scarcest says how many. */
static void every_limit_of_a_rule_holds(void **state)
{
    struct lab *lab =
        begin(2, 1, "{rate: 5/h, algorithm: sliding_log}, {rate: 30/24h, burst: 30}", "");
    uint32_t admitted = 0;
    (void)state;
    for (uint32_t round = 0; round < 100; round++) {
        admitted += ask(lab, NEAR).allowed;
        lab_run(lab, 50 * LAB_MS);
    }
    assert_int_equal(admitted, 5);
    lab_free(lab);
}

/* Checks that need more than the half of what is left, which a lease is at most, get it. */
static void a_check_gets_all_that_is_left_if_it_needs_it(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 10/h}", "");
    (void)state;
    assert_true(ask_as(lab, NEAR, OPERATION_CHECK, 9).allowed);
    assert_false(ask_as(lab, NEAR, OPERATION_CHECK, 2).allowed);
    lab_run(lab, LEASE_NS);
    assert_int_equal(used(lab), 9);
    assert_true(ask_as(lab, NEAR, OPERATION_CHECK, 1).allowed);
    assert_int_equal(ask_as(lab, NEAR, OPERATION_CHECK, 0).allowed, true);
    lab_free(lab);
}

/* What is not asked for any more goes home before its lease ends; a region that dies has spent what
 * it held. */
static void tokens_that_are_not_used_go_home(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 1000/h, algorithm: sliding_log}", "");
    uint32_t admitted = 0;
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        admitted += ask(lab, NEAR).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    assert_int_equal(admitted, 100);
    assert_true(used(lab) > admitted && lab_stats(lab, NEAR).global_held > 0);
    assert_int_equal(lab_stats(lab, NEAR).holding_count, 1);
    assert_true(lab_stats(lab, NEAR).holding[0].region == policy_region_id("r0", 2));
    assert_int_equal(lab_stats(lab, NEAR).holding[0].tokens, lab_stats(lab, NEAR).global_held);
    assert_int_equal(lab_stats(lab, NEAR).holding[0].keys, 1);
    lab_run(lab, LIMIT_LEASE_NS + 2 * WAN_MS * LAB_MS);
    assert_int_equal(used(lab), admitted);
    const struct shard_stats stats = lab_stats(lab, NEAR);
    assert_int_equal(stats.global_tokens - stats.global_back, stats.global_allowed);
    assert_int_equal(stats.global_held, 0);
    assert_true(ask(lab, NEAR).allowed);
    const uint64_t out = used(lab);
    lab_stop(lab, NEAR);
    lab_run(lab, 2 * LEASE_NS);
    assert_true(out > admitted);
    assert_int_equal(used(lab), out);
    lab_free(lab);
}

/* Counts what is admitted of `checks` asked every 5 ms. */
static uint32_t admit(struct lab *lab, uint32_t at, uint32_t checks)
{
    uint32_t admitted = 0;
    for (uint32_t i = 0; i < checks; i++) {
        admitted += ask(lab, at).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    return admitted;
}

/* A region that is cut off admits what it holds; then on_failure decides. What was out is spent,
 * and after healing all is as before. */
static void a_region_that_is_cut_off_admits_what_it_holds(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 1000/h, algorithm: sliding_log}", ", on_failure: closed");
    (void)state;
    const uint32_t before = admit(lab, NEAR, 40);
    const uint64_t out = used(lab) - before;
    cut_off(lab, NEAR, true);
    const uint32_t cut = admit(lab, NEAR, 600);
    assert_true(cut > 0 && cut <= out);
    const struct wire_decision late = ask(lab, NEAR);
    assert_true(!late.allowed && late.outcome == OUTCOME_ERROR && late.degraded);
    const uint64_t charged = used(lab);
    assert_true(charged >= before + cut && charged <= before + out);
    cut_off(lab, NEAR, false);
    lab_run(lab, 1000 * LAB_MS);
    assert_int_equal(admit(lab, NEAR, 20), 20);
    lab_free(lab);
}

/* Tokens that are left when their time is over are spent: the home may have given them to others.
 */
static void tokens_end_with_their_lease(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 1000/h, algorithm: sliding_log}", "");
    (void)state;
    (void)admit(lab, NEAR, 40);
    cut_off(lab, NEAR, true);
    assert_true(lab_stats(lab, NEAR).global_held > 5);
    assert_true(ask(lab, NEAR).allowed);
    lab_run(lab, LIMIT_LEASE_NS);
    assert_int_equal(ask(lab, NEAR).outcome, OUTCOME_ERROR);
    lab_free(lab);
}

/* With `local` the region decides by its share of the limit, in a slot of its own. */
static void a_region_that_is_cut_off_has_its_share(void **state)
{
    struct lab *lab =
        begin(2, 1, "{rate: 1000/h, algorithm: sliding_log}", ", on_failure: {local: {share: 5%}}");
    (void)state;
    cut_off(lab, NEAR, true);
    lab_run(lab, 2000 * LAB_MS);
    const struct wire_decision first = ask(lab, NEAR);
    assert_true(first.allowed && first.degraded && first.limit == 50);
    assert_int_equal(admit(lab, NEAR, 200), 49);
    assert_int_equal(used(lab), 0);
    lab_free(lab);
}

/* With `open` it admits. */
static void a_region_that_is_cut_off_may_be_open(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 1/h}", ", on_failure: open");
    (void)state;
    cut_off(lab, NEAR, true);
    for (uint32_t i = 0; i < 5; i++) {
        const struct wire_decision decision = ask(lab, NEAR);
        assert_true(decision.allowed && decision.degraded);
        lab_run(lab, 200 * LAB_MS);
    }
    lab_free(lab);
}

/* Once it is known that the home does not answer, nobody waits for it. */
static void nobody_waits_for_a_home_that_is_lost(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 1/h}", "");
    (void)state;
    cut_off(lab, NEAR, true);
    lab_run(lab, 2000 * LAB_MS);
    const int64_t before_ns = lab->now_ns;
    assert_int_equal(ask(lab, NEAR).outcome, OUTCOME_ERROR);
    assert_true(lab->now_ns == before_ns);
    lab_free(lab);
}

/* A home that lives, but is farther away than a check may wait, denies it; the tokens come for the
 * next one. */
static void a_check_waits_no_longer_than_its_rule_says(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 100/s}", ", wan_wait: 50ms");
    (void)state;
    const int64_t before_ns = lab->now_ns;
    const struct wire_decision first = ask(lab, NEAR);
    assert_true(!first.allowed && first.outcome != OUTCOME_ALLOW);
    assert_true(lab->now_ns - before_ns <= 60 * LAB_MS);
    lab_run(lab, 40 * LAB_MS);
    assert_true(ask(lab, NEAR).allowed);
    lab_free(lab);
}

/* What is not a check is done where the key is counted. */
static void hits_refunds_and_resets_go_home(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 10/h, algorithm: sliding_log}", "");
    (void)state;
    assert_true(ask_as(lab, NEAR, OPERATION_HIT, 4).allowed);
    assert_int_equal(used(lab), 4);
    assert_int_equal(ask_as(lab, NEAR, OPERATION_PEEK, 0).used, 4);
    assert_true(ask_as(lab, NEAR, OPERATION_REFUND, 1).allowed);
    assert_int_equal(used(lab), 3);
    assert_true(ask_as(lab, NEAR, OPERATION_RESET, 0).allowed);
    assert_int_equal(used(lab), 0);
    lab_free(lab);
}

/* Answers that are lost cost time, and no tokens: what is asked again is granted once. */
static void a_lost_answer_costs_no_tokens(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 100/h, algorithm: sliding_log}", ", wan_wait: 1s");
    (void)state;
    lab->drop_type = PEER_REMOTE_ANSWER;
    lab_ask_attributes(lab, 1, attributes);
    const uint64_t seq = lab_send(lab, NEAR, 2000);
    lab_run(lab, (2 * WAN_MS + 20) * LAB_MS);
    lab->drop_type = 0;
    const uint64_t out = used(lab);
    assert_true(out > 0);
    assert_true(lab_answer(lab, seq, 0).allowed);
    assert_int_equal(used(lab), out);
    lab_free(lab);
}

/* A client's lease of a key of another region is taken at home, and given back there. */
static void a_client_holds_tokens_of_another_region(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 10/h, algorithm: sliding_log}", "");
    (void)state;
    const struct wire_decision lease = ask_as(lab, NEAR, OPERATION_LEASE, 6);
    assert_true(lease.allowed && lease.granted == 6 && lease.lease != 0);
    assert_int_equal(used(lab), 6);
    lab_ask_attributes_used(lab, OPERATION_RELEASE, lease.lease, 2, attributes);
    assert_true(lab_answer(lab, lab_send(lab, NEAR, 1000), 0).allowed);
    assert_int_equal(used(lab), 2);
    lab_free(lab);
}

/* A reservation of a key of another region is made at home, and settled there, once. */
static void a_client_reserves_tokens_of_another_region(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 10/h, algorithm: sliding_log}", "");
    (void)state;
    lab_ask_attributes_used(lab, OPERATION_RESERVE, 6, 5000, attributes);
    const struct wire_decision held = lab_answer(lab, lab_send(lab, NEAR, 1000), 0);
    assert_true(held.allowed && held.granted == 6 && held.lease != 0 && held.lease_ms == 5000);
    assert_int_equal(used(lab), 6);
    for (uint32_t at = 0; at < 2; at++) {
        lab_ask_attributes_used(lab, OPERATION_COMMIT, held.lease, 2, attributes);
        assert_int_equal(lab_answer(lab, lab_send(lab, NEAR - at, 1000), 0).granted, 2);
    }
    assert_int_equal(used(lab), 2);
    lab_free(lab);
}

/* Who is asked in another region may be of a release that does not know of reservations. */
static void a_region_of_an_older_release_is_not_asked_to_reserve(void **state)
{
    struct lab *lab = begin(2, 1, "{rate: 10/h, algorithm: sliding_log}", "");
    (void)state;
    struct remote_regions *remote = &lab->shards[NEAR].shard->remote;
    for (uint32_t i = 0; i < remote->count; i++)
        remote->regions[i].reads &= (uint8_t)~READS_RESERVATIONS;
    lab_ask_attributes_used(lab, OPERATION_RESERVE, 6, 5000, attributes);
    assert_int_equal(lab_answer(lab, lab_send(lab, NEAR, 1000), 0).outcome, OUTCOME_BUSY);
    assert_int_equal(used(lab), 0);
    lab_free(lab);
}

/* In a region of several nodes the leader of the key holds the tokens, whoever is asked; when it
 * dies, what it held is spent and its successor asks anew. */
static void one_node_of_a_region_holds_its_tokens(void **state)
{
    struct lab *lab = begin(2, 3, "{rate: 200/h, algorithm: sliding_log}", "");
    uint32_t admitted = 0;
    uint32_t holders = 0;
    uint32_t holder = LAB_NONE;
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        admitted += ask(lab, 3 + i % 3).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    assert_int_equal(admitted, 60);
    for (uint32_t at = 3; at < 6; at++)
        if (lab_stats(lab, at).global_leases > 0) {
            holders++;
            holder = at;
        }
    assert_int_equal(holders, 1);
    lab_stop(lab, holder);
    lab_run(lab, 200 * LAB_MS);
    for (uint32_t i = 0; i < 400; i++) {
        admitted += ask(lab, 3 + (holder - 3 + 1 + i % 2) % 3).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    lab_run(lab, LEASE_NS);
    assert_true(admitted > 100 && admitted <= 200);
    assert_int_equal(used(lab), 200);
    lab_free(lab);
}

/* When the home's leader dies its successor knows what is out. */
static void the_homes_leader_may_change(void **state)
{
    struct lab *lab = begin(2, 3, "{rate: 200/h, algorithm: sliding_log}", "");
    uint32_t admitted = 0;
    (void)state;
    for (uint32_t i = 0; i < 900; i++) {
        admitted += ask(lab, 3).allowed;
        lab_run(lab, 5 * LAB_MS);
        if (i == 60)
            for (uint32_t at = 0; at < 3; at++)
                if (lab_stats(lab, at).leases_granted > 0 &&
                    lab->shards[1 - (at == 1)].shard != NULL)
                    lab_stop(lab, at);
        if (i % 50 == 0)
            lab_forget(lab);
    }
    assert_true(admitted > 150 && admitted <= 200);
    lab_free(lab);
}

/* ---- where keys are at home -------------------------------------------------------------------
 */

enum { USERS = 16 };

/* What becomes of a check of user `number` there. */
static struct wire_decision ask_of_user(struct lab *lab, uint32_t at, uint32_t number)
{
    char user[8];
    const char *const theirs[] = {user, NULL};
    (void)snprintf(user, sizeof user, "user=%c", (char)('a' + number));
    lab_ask_attributes(lab, 1, theirs);
    return lab_answer(lab, lab_send(lab, at, 2000), 0);
}

/* So many regions whose rule names no home, and as many of them as have a ring. */
static struct lab *begin_by_hash(uint32_t regions, uint32_t known)
{
    struct lab *lab = lab_new(regions, 1, 1);
    lab_regions(lab, 1, 1, WAN_MS * LAB_MS);
    lab->regions_known = known;
    for (uint32_t at = 0; at < lab->count; at++)
        lab_start(lab, at);
    lab_rules(lab, "rules: [{name: calls, key: [user], scope: global, limits: [{rate: 1000/h}]}]");
    lab_run(lab, LEASE_NS + 300 * LAB_MS);
    lab_forget(lab);
    return lab;
}

/* REMOTE-5: a region that has no ring yet, or none any more, counts nothing. */
static void keys_are_at_home_in_regions_that_have_a_ring(void **state)
{
    struct lab *lab = begin_by_hash(3, 2);
    uint32_t at_home[2] = {0, 0};
    (void)state;
    cut_off(lab, FAR, true);
    for (uint32_t user = 0; user < USERS; user++)
        for (uint32_t at = HOME; at <= NEAR; at++)
            assert_true(ask_of_user(lab, at, user).allowed);
    for (uint32_t vnode = 0; vnode < lab->shards[HOME].options.vnodes; vnode++) {
        const uint64_t home = lab->shards[HOME].shard->remote.homes[vnode];
        assert_true(home == lab->shards[FAR].shard->remote.homes[vnode]);
        for (uint32_t region = 0; region < 2; region++)
            at_home[region] += home == lab->shards[region].shard->remote.own;
    }
    assert_true(at_home[0] > 0 && at_home[1] > 0);
    assert_int_equal(at_home[0] + at_home[1], lab->shards[HOME].options.vnodes);
    lab_free(lab);
}

/* REMOTE-5: who has just started may know regions from its disk before it has heard of their
 * members. */
static void a_home_has_its_name_before_its_members_are_known(void **state)
{
    struct lab *lab = begin_by_hash(2, 3);
    const struct shard *shard = lab->shards[HOME].shard;
    const struct policy_rule rule = {.scope = POLICY_SCOPE_GLOBAL};
    uint32_t at_home[3] = {0, 0, 0};
    (void)state;
    for (uint32_t vnode = 0; vnode < shard->options.vnodes; vnode++) {
        const char *name = remote_home_name(shard, &rule, vnode);
        assert_string_equal(remote_home_name(shard, &rule, shard->options.vnodes + vnode), name);
        assert_true(policy_region_id(name, strlen(name)) == shard->remote.homes[vnode]);
        at_home[name[1] - '0']++;
    }
    assert_true(at_home[HOME] > 0 && at_home[NEAR] > 0 && at_home[FAR] > 0);
    lab_free(lab);
}

/* REMOTE-6: leases of the home that a key had may be out still, so that its new one, and whoever
 * would ask that, wait for their end. Keys that stay where they were do not. */
static void a_key_whose_home_moves_waits_for_the_end_of_its_leases(void **state)
{
    struct lab *lab = begin_by_hash(3, 3);
    bool moved[USERS];
    uint32_t count = 0;
    (void)state;
    lab->regions_known = 2;
    lab_view_all(lab);
    const int64_t since_ns = lab->now_ns;
    for (uint32_t user = 0; user < USERS; user++) {
        moved[user] = !ask_of_user(lab, HOME, user).allowed;
        assert_int_equal(ask_of_user(lab, NEAR, user).allowed, !moved[user]);
        count += moved[user];
    }
    assert_in_range(count, 1, USERS - 1);
    assert_true(since_ns + REMOTE_MOVED_NS > lab->now_ns + LEASE_NS);
    lab_run(lab, since_ns + REMOTE_MOVED_NS - 10 * LAB_MS - lab->now_ns);
    for (uint32_t user = 0; user < USERS; user++)
        assert_true(!moved[user] || ask_of_user(lab, FAR, user).outcome == OUTCOME_ERROR);
    lab_run(lab, 20 * LAB_MS);
    for (uint32_t user = 0; user < USERS; user++)
        for (uint32_t at = HOME; at <= FAR; at++)
            assert_true(ask_of_user(lab, at, user).allowed);
    lab_free(lab);
}

/* REMOTE-6: what is known for the first time is no change. */
static void a_node_that_starts_waits_for_no_leases(void **state)
{
    struct lab *lab = begin_by_hash(3, 0);
    (void)state;
    lab->regions_known = 2;
    lab_view_all(lab);
    for (uint32_t user = 0; user < USERS; user++)
        assert_true(ask_of_user(lab, HOME, user).allowed);
    lab_free(lab);
}

/* ---- with other rules, and as rules change ----------------------------------------------------
 */

static struct wire_decision ask_of(struct lab *lab, uint32_t at, uint8_t operation, uint64_t cost,
                                   const char *const *list)
{
    lab_ask_attributes_as(lab, operation, cost, list);
    return lab_answer(lab, lab_send(lab, at, 2000), 0);
}

/* A request that meets a global rule and another one is allowed by both or charged by none, whoever
 * denies: what was taken of tokens held here is there again. */
static void a_request_of_several_rules_takes_all_or_nothing(void **state)
{
    static const char *const both[] = {"user=a", "door=d", NULL};
    static const char *const door[] = {"door=d", NULL};
    static const uint32_t limits[][2] = {{100, 3}, {3, 100}}; /* global, of the door */
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct lab *lab = begin(2, 3, "{rate: 1/h}", "");
        char text[512];
        uint32_t admitted = 0;
        (void)snprintf(text, sizeof text,
                       "rules: [{name: calls, key: [user], scope: global, home: r0, limits: "
                       "[{rate: %u/h, algorithm: sliding_log}]}, {name: doors, key: [door], "
                       "limits: [{rate: %u/h, algorithm: sliding_log}]}]\n",
                       limits[i][0], limits[i][1]);
        lab_rules(lab, text);
        lab_run(lab, 10 * LAB_MS);
        for (uint32_t k = 0; k < 60; k++) {
            admitted += ask_of(lab, 3 + k % 3, OPERATION_CHECK, 1, both).allowed;
            lab_run(lab, 20 * LAB_MS);
        }
        assert_int_equal(admitted, 3);
        lab_run(lab, LEASE_NS + 500 * LAB_MS);
        assert_int_equal(used(lab), 3);
        assert_int_equal(ask_of(lab, 3, OPERATION_PEEK, 0, door).used, 3);
        for (uint32_t at = 3; at < 6; at++)
            assert_int_equal(lab_stats(lab, at).undo_lost + lab_stats(lab, at).undo_unknown, 0);
        lab_free(lab);
    }
}

/* A check is sent twice, through two nodes. The one that gets no word of another rule gives up, and
 * undoes what it took; the tokens stay for the one that was admitted by them. */
static void tokens_stay_for_another_attempt_that_was_told(void **state)
{
    char door[] = "door=0";
    const char *const both[] = {"user=a", door, NULL};
    struct lab *lab = begin(2, 3, "{rate: 1/h}", "");
    uint32_t admitted = 0;
    uint32_t holder = 3;
    uint64_t seq = 0;
    (void)state;
    lab_rules(lab, "rules: [{name: calls, key: [user], scope: global, home: r0, limits: "
                   "[{rate: 1000/h, algorithm: sliding_log}]}, "
                   "{name: doors, key: [door], limits: [{rate: 100/h}]}]");
    lab_run(lab, 10 * LAB_MS);
    admitted += ask(lab, holder).allowed;
    while (lab_stats(lab, holder).global_held == 0)
        holder++;
    const uint32_t asked = holder == 3 ? 4 : 3;
    const uint32_t other = 3 + 4 + 5 - holder - asked;
    lab->cut[asked][other] = lab->cut[other][asked] = true;
    for (; seq == 0 || lab_answered(lab, seq); door[5]++) { /* until `other` decides the door */
        admitted += seq != 0;
        lab_ask_attributes(lab, 1, both);
        seq = lab_send(lab, asked, 150);
        lab_run(lab, 20 * LAB_MS);
    }
    door[5]--;
    lab_ask_attributes(lab, 1, both);
    lab_send_again(lab, other, seq, 150);
    lab_run(lab, 20 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 1);
    assert_true(lab_answer(lab, seq, 0).allowed);
    lab_run(lab, 200 * LAB_MS); /* the first one gives up */
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_true(lab_stats(lab, asked).undone + lab_stats(lab, holder).undone > 0);
    lab->cut[asked][other] = lab->cut[other][asked] = false;
    lab_run(lab, 2 * LEASE_NS);
    assert_int_equal(used(lab), admitted + 1);
    lab_free(lab);
}

static void give_home(struct lab *lab, const char *home, const char *more)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "rules: [{name: calls, key: [user], scope: global, home: %s, limits: [{rate: "
                   "100/h, algorithm: sliding_log}]%s}]\n",
                   home, more);
    lab_rules(lab, text);
}

/* When an edit gives a key another home it is counted there, anew; no token of the old home is
 * taken any more, and all go back. */
static void tokens_of_a_home_that_was_go_back_there(void **state)
{
    struct lab *lab = begin(3, 1, "{rate: 100/h, algorithm: sliding_log}", "");
    uint32_t before = 0;
    uint32_t after = 0;
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        before += ask(lab, NEAR).allowed + ask(lab, FAR).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    assert_true(lab_stats(lab, NEAR).global_held > 0 && lab_stats(lab, FAR).global_held > 0);
    const uint64_t spent[] = {lab_stats(lab, NEAR).global_allowed,
                              lab_stats(lab, FAR).global_allowed};
    give_home(lab, "r1", "");
    for (uint32_t i = 0; i < 400; i++) {
        for (uint32_t at = 0; at < 3; at++)
            after += ask(lab, at).allowed;
        lab_run(lab, 5 * LAB_MS);
    }
    assert_int_equal(after, 100);
    lab_run(lab, LEASE_NS);
    const struct shard_stats near = lab_stats(lab, NEAR);
    assert_int_equal(near.global_tokens - near.global_back, spent[0]);
    assert_int_equal(near.global_allowed, spent[0]);
    for (uint32_t at = 0; at < 3; at++)
        assert_int_equal(lab_stats(lab, at).global_held, 0);
    assert_int_equal(ask_as(lab, FAR, OPERATION_PEEK, 0).used, 100);
    give_home(lab, "r0", "");
    lab_run(lab, 10 * LAB_MS);
    assert_int_equal(used(lab), before); /* all else that was out is there again */
    lab_free(lab);
}

/* The count of a global rule may be one of consistency quorum: then each lease is committed by a
 * majority at home before it is told, and no crash there forgets one. */
static void a_global_rule_may_be_one_of_quorum(void **state)
{
    struct lab *lab = begin(2, 3, "{rate: 1/h}", "");
    uint32_t admitted = 0;
    (void)state;
    give_home(lab, "r0", ", consistency: quorum");
    lab_run(lab, 2 * LEASE_NS);
    for (uint32_t i = 0; i < 900; i++) {
        admitted += ask(lab, 3 + i % 3).allowed;
        lab_run(lab, 5 * LAB_MS);
        if (i % 50 == 0)
            lab_forget(lab);
        if (i == 20)
            for (uint32_t at = 0; at < 3; at++)
                if (lab_stats(lab, at).quorum.checks > 0 && lab->shards[0].shard != NULL &&
                    lab->shards[1].shard != NULL && lab->shards[2].shard != NULL)
                    lab_stop(lab, at);
    }
    assert_true(admitted >= 50 && admitted <= 100);
    uint32_t at = 0;
    while (lab->shards[at].shard == NULL)
        at++;
    lab_run(lab, LEASE_NS);
    assert_int_equal(ask_as(lab, at, OPERATION_PEEK, 0).used, 100);
    lab_free(lab);
}

/* ---- a busy limit ---------------------------------------------------------------------------- */

enum { BUSY_REGIONS = 3, BUSY_RATE = 1000, BUSY_ACTS_MAX = 3 };

/* What is asked: so many acts of so many milliseconds, in each of them `demand` checks a second,
 * these parts of which in each region. */
struct plan {
    uint32_t demand;
    uint32_t acts;
    uint32_t act_ms;
    uint32_t warm_ms; /* of an act, before its numbers count */
    bool bucket;      /* the limit is a token_bucket of BUSY_RATE a second */
    uint32_t percents[BUSY_ACTS_MAX][BUSY_REGIONS];
};

/* Checks under way, by the number of their message. */
struct busy {
    struct lab *lab;
    const struct plan *plan;
    uint64_t first; /* message */
    int64_t *sent_ns;
    uint8_t *from;
    int64_t warm_ns;                 /* of the act at hand */
    uint32_t admitted[BUSY_REGIONS]; /* since then */
    uint32_t all;                    /* since the beginning */
    int64_t last_ns;                 /* when the last one was admitted */
    uint32_t told;                   /* answers */
    uint32_t slow;                   /* of these: took 5 ms or more */
    int64_t tat_ns;                  /* a bucket that all that is admitted goes through */
};

/* Whatever was admitted anywhere would have been by one bucket for all. */
static void admit_one(struct busy *busy, uint32_t region)
{
    const int64_t each_ns = 1000 * LAB_MS / BUSY_RATE;
    const int64_t now_ns = busy->lab->now_ns;
    busy->all++;
    busy->admitted[region] += now_ns >= busy->warm_ns;
    busy->last_ns = now_ns;
    busy->tat_ns = (busy->tat_ns > now_ns ? busy->tat_ns : now_ns) + each_ns;
    assert_true(!busy->plan->bucket || busy->tat_ns - now_ns <= BUSY_RATE * each_ns);
}

/* Takes the answers that have come, and forgets them. */
static void gather(struct busy *busy)
{
    struct lab *lab = busy->lab;
    for (size_t i = 0; i < lab->reply_count; i++) {
        char error[WIRE_ERROR_LEN];
        struct wire_decision decision;
        assert_int_equal(wire_decode_decisions(lab->replies[i].bytes, lab->replies[i].len,
                                               &lab->space, &lab->decisions, error),
                         0);
        wire_decision_at(&lab->decisions, 0, &decision);
        const uint64_t number = lab->decisions.head.seq - busy->first;
        busy->told++;
        busy->slow += lab->now_ns - busy->sent_ns[number] >= 5 * LAB_MS;
        if (decision.allowed)
            admit_one(busy, busy->from[number]);
        free(lab->replies[i].bytes);
    }
    lab->reply_count = 0;
}

static struct busy *busy_new(struct lab *lab, const struct plan *plan)
{
    const size_t most = (size_t)plan->acts * plan->act_ms * plan->demand / 1000 + BUSY_REGIONS;
    struct busy *busy = calloc(1, sizeof *busy);
    assert_non_null(busy);
    *busy = (struct busy){.lab = lab,
                          .plan = plan,
                          .first = lab->seq,
                          .sent_ns = calloc(most, sizeof(int64_t)),
                          .from = calloc(most, 1)};
    assert_true(busy->sent_ns != NULL && busy->from != NULL);
    lab->large = true;
    for (size_t i = 0; i < lab->reply_count; i++)
        free(lab->replies[i].bytes);
    lab->reply_count = 0;
    return busy;
}

static void busy_free(struct busy *busy)
{
    free(busy->from);
    free(busy->sent_ns);
    free(busy);
}

static void send_one(struct busy *busy, uint32_t region)
{
    lab_ask_attributes(busy->lab, 1, attributes);
    const uint64_t number = lab_send(busy->lab, region, 2000) - busy->first;
    busy->sent_ns[number] = busy->lab->now_ns;
    busy->from[number] = (uint8_t)region;
}

/* One act: regions send in turns, each its part of what is asked in a millisecond. */
static void play(struct busy *busy, uint32_t act)
{
    const struct plan *plan = busy->plan;
    uint64_t owed[BUSY_REGIONS] = {0};
    busy->warm_ns = busy->lab->now_ns + plan->warm_ms * LAB_MS;
    memset(busy->admitted, 0, sizeof busy->admitted);
    for (uint32_t ms = 0; ms < plan->act_ms; ms++) {
        for (uint32_t region = 0; region < BUSY_REGIONS; region++) {
            owed[region] += (uint64_t)plan->percents[act][region] * plan->demand;
            for (; owed[region] >= 100000; owed[region] -= 100000)
                send_one(busy, region);
        }
        lab_run(busy->lab, LAB_MS);
        gather(busy);
        if (ms % 100 == 0)
            lab_forget(busy->lab);
    }
}

/* Twice the limit is asked for, in parts of 80, 15 and 5 per cent that move from region to region.
 * All regions together admit at least 95 per cent of the limit, and never more than it; of that
 * each gets its part of what is asked for; and once it has begun no check waits. */
static void a_busy_limit_is_used_up_shared_out_and_never_exceeded(void **state)
{
    static const struct plan plan = {.demand = 2 * BUSY_RATE,
                                     .acts = 3,
                                     .act_ms = 4000,
                                     .warm_ms = 1000,
                                     .bucket = true,
                                     .percents = {{80, 15, 5}, {5, 80, 15}, {15, 5, 80}}};
    const uint32_t limit = BUSY_RATE * (plan.act_ms - plan.warm_ms) / 1000;
    uint32_t slow = 0;
    struct lab *lab = begin(BUSY_REGIONS, 1, "{rate: 1000/s}", "");
    struct busy *busy = busy_new(lab, &plan);
    (void)state;
    for (uint32_t act = 0; act < plan.acts; act++) {
        play(busy, act);
        const uint32_t *got = busy->admitted;
        print_message("busy: %u, %u, %u of %u used, %u of %u slow\n", got[0], got[1], got[2], limit,
                      busy->slow, busy->told);
        assert_true(got[0] + got[1] + got[2] >= limit / 100 * 95);
        for (uint32_t region = 0; region < BUSY_REGIONS; region++)
            assert_true(got[region] >= limit / 100 * plan.percents[act][region] / 10 * 9);
        assert_true(act == 0 || busy->slow == slow);
        slow = busy->slow;
    }
    assert_true(slow <= 100);
    busy_free(busy);
    lab_free(lab);
}

/* Of a limit that is not used up hardly any check is denied, though what is asked for moves from
 * region to region and none that has tokens waits for the next. */
static void a_limit_with_room_denies_hardly_anybody(void **state)
{
    static const struct plan plan = {.demand = 800,
                                     .acts = 3,
                                     .act_ms = 2000,
                                     .bucket = true,
                                     .percents = {{80, 15, 5}, {5, 80, 15}, {15, 5, 80}}};
    struct lab *lab = begin(BUSY_REGIONS, 1, "{rate: 1000/s}", "");
    struct busy *busy = busy_new(lab, &plan);
    (void)state;
    for (uint32_t act = 0; act < plan.acts; act++)
        play(busy, act);
    assert_true(busy->all >= busy->told / 1000 * 990);
    assert_true(busy->slow <= 50);
    busy_free(busy);
    lab_free(lab);
}

/* Who asks now and then gets what he asks for, however much others want. */
static void a_home_that_asks_seldom_is_not_left_out(void **state)
{
    static const struct plan plan = {
        .demand = 2 * BUSY_RATE, .acts = 1, .act_ms = 1500, .percents = {{0, 80, 20}}};
    struct lab *lab = begin(BUSY_REGIONS, 1, "{rate: 1000/s}", "");
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct busy *busy = busy_new(lab, &plan);
        play(busy, 0);
        assert_true(i == 0 || ask(lab, HOME).allowed);
        busy_free(busy);
    }
    lab_free(lab);
}

/* 10,000 for a whole day, and 2,000 a second are asked for: all are used and no more, and none lies
 * in one region while another is denied for longer than it takes to move it. */
static void a_window_is_used_up_to_its_last_token(void **state)
{
    static const struct plan plan = {.demand = 2000,
                                     .acts = 3,
                                     .act_ms = 4000,
                                     .percents = {{80, 15, 5}, {5, 80, 15}, {15, 5, 80}}};
    const uint32_t limit = 10000;
    struct lab *lab = begin(BUSY_REGIONS, 1, "{rate: 10000/day, algorithm: fixed_window}", "");
    struct busy *busy = busy_new(lab, &plan);
    (void)state;
    const int64_t ideal_ns = lab->now_ns + limit * 1000 / plan.demand * LAB_MS;
    for (uint32_t act = 0; act < plan.acts; act++)
        play(busy, act);
    print_message("window: %u used, the last %d ms late, %u of %u slow\n", busy->all,
                  (int)((busy->last_ns - ideal_ns) / LAB_MS), busy->slow, busy->told);
    assert_int_equal(busy->all, limit);
    assert_true(busy->last_ns - ideal_ns <= LIMIT_LEASE_NS);
    assert_true(busy->slow <= 100);
    busy_free(busy);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_check_waits_for_the_home_and_the_next_does_not),
        cmocka_unit_test(a_key_is_decided_at_once_in_its_home),
        cmocka_unit_test(without_global_rules_nothing_is_said),
        cmocka_unit_test(all_regions_together_admit_the_limit),
        cmocka_unit_test(every_limit_of_a_rule_holds),
        cmocka_unit_test(a_check_gets_all_that_is_left_if_it_needs_it),
        cmocka_unit_test(tokens_that_are_not_used_go_home),
        cmocka_unit_test(a_region_that_is_cut_off_admits_what_it_holds),
        cmocka_unit_test(tokens_end_with_their_lease),
        cmocka_unit_test(a_region_that_is_cut_off_has_its_share),
        cmocka_unit_test(a_region_that_is_cut_off_may_be_open),
        cmocka_unit_test(nobody_waits_for_a_home_that_is_lost),
        cmocka_unit_test(a_check_waits_no_longer_than_its_rule_says),
        cmocka_unit_test(hits_refunds_and_resets_go_home),
        cmocka_unit_test(a_lost_answer_costs_no_tokens),
        cmocka_unit_test(a_client_holds_tokens_of_another_region),
        cmocka_unit_test(a_client_reserves_tokens_of_another_region),
        cmocka_unit_test(a_region_of_an_older_release_is_not_asked_to_reserve),
        cmocka_unit_test(one_node_of_a_region_holds_its_tokens),
        cmocka_unit_test(the_homes_leader_may_change),
        cmocka_unit_test(keys_are_at_home_in_regions_that_have_a_ring),
        cmocka_unit_test(a_home_has_its_name_before_its_members_are_known),
        cmocka_unit_test(a_key_whose_home_moves_waits_for_the_end_of_its_leases),
        cmocka_unit_test(a_node_that_starts_waits_for_no_leases),
        cmocka_unit_test(a_request_of_several_rules_takes_all_or_nothing),
        cmocka_unit_test(tokens_stay_for_another_attempt_that_was_told),
        cmocka_unit_test(tokens_of_a_home_that_was_go_back_there),
        cmocka_unit_test(a_global_rule_may_be_one_of_quorum),
        cmocka_unit_test(a_busy_limit_is_used_up_shared_out_and_never_exceeded),
        cmocka_unit_test(a_limit_with_room_denies_hardly_anybody),
        cmocka_unit_test(a_home_that_asks_seldom_is_not_left_out),
        cmocka_unit_test(a_window_is_used_up_to_its_last_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

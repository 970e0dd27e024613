/* test_remote_wait.c - scope global: checks that wait in one region for another, at the node that
 * decides the key there, for a node that may have given them up.
 *
 * Of the region that asks there are two nodes, one of which decides. Time passes in steps of a
 * millisecond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

#define LEASE_NS (LIMIT_LEASE_NS + LIMIT_LEASE_SLACK_NS)

enum { HOME = 0, NEAR = 2, ALL = 4 }; /* nodes: the first of each region; how many there are */

static const char *const attributes[] = {"user=a", NULL};

/* Two regions, for so long that leases are given, and from then on so far apart. */
static struct lab *begin(int64_t wan_ns, const char *more)
{
    char text[256];
    const int len = snprintf(text, sizeof text,
                             "rules: [{name: calls, key: [user], scope: global, home: r0, limits: "
                             "[{rate: 100/h, algorithm: sliding_log}]%s}]\n",
                             more);
    assert_true(len > 0 && (size_t)len < sizeof text);
    struct lab *lab = lab_new(ALL, 1, NEAR);
    lab_regions(lab, NEAR, NEAR, 40 * LAB_MS);
    for (uint32_t at = 0; at < ALL; at++)
        lab_start(lab, at);
    lab_rules(lab, text);
    lab_run(lab, LEASE_NS + 300 * LAB_MS);
    lab_forget(lab);
    lab->wan_ns = wan_ns;
    return lab;
}

static uint64_t send(struct lab *lab, uint32_t at, uint32_t timeout_ms)
{
    lab_ask_attributes(lab, 1, attributes);
    return lab_send(lab, at, timeout_ms);
}

/* What the home has counted. */
static uint64_t used(struct lab *lab)
{
    lab_ask_attributes_as(lab, OPERATION_PEEK, 0, attributes);
    return lab_answer(lab, lab_send(lab, HOME, 2000), 0).used;
}

/* Who asked the key's leader for another node asks again while the check waits. When the first one
 * is denied, as the tokens come too late, none of them is for the second. */
static void a_check_that_was_denied_takes_no_tokens_later(void **state)
{
    struct lab *lab = begin(90 * LAB_MS, ""); /* there and back it is more than wan_wait */
    (void)state;
    for (uint32_t at = NEAR; at < ALL; at++) {
        lab_ask_attributes_as(lab, OPERATION_PEEK, 0, attributes);
        (void)lab_send(lab, at, 2000); /* so that the home is heard of meanwhile */
        lab_run(lab, 100 * LAB_MS);
        const struct wire_decision got = lab_answer(lab, send(lab, at, 2000), 0);
        assert_true(!got.allowed && got.outcome == OUTCOME_DENY);
        lab_run(lab, 2 * LEASE_NS);
    }
    assert_int_equal(used(lab), 0);
    lab_free(lab);
}

/* A check waits no longer than its client, whatever the rule allows: tokens that come later are not
 * charged for it. */
static void a_check_waits_no_longer_than_its_client(void **state)
{
    struct lab *lab = begin(90 * LAB_MS, ", wan_wait: 1s");
    (void)state;
    for (uint32_t at = NEAR; at < ALL; at++) {
        const uint64_t seq = send(lab, at, 100);
        lab_run(lab, 150 * LAB_MS);
        assert_true(lab_answered(lab, seq));
        assert_false(lab_answer(lab, seq, 0).allowed);
        lab_run(lab, 2 * LEASE_NS);
        assert_int_equal(used(lab), 0);
    }
    lab_free(lab);
}

/* What the home says does not come, or does again. */
static void silence_home(struct lab *lab, bool silent)
{
    for (uint32_t from = HOME; from < NEAR; from++)
        for (uint32_t to = NEAR; to < ALL; to++)
            lab->cut[from][to] = silent;
}

static uint32_t parts_at_all(const struct lab *lab)
{
    return lab->shards[2].shard->pending.used + lab->shards[3].shard->pending.used;
}

/* When the first one is told that the home is out of reach its rule falls back. Then tokens that
 * come later are charged to neither: not to the copy that waits, nor to one that is sent because
 * the answer was lost. That one is told the same, at once. */
static void a_check_that_fell_back_takes_no_tokens_later(void **state)
{
    (void)state;
    for (uint32_t lost = 0; lost < 2; lost++) {
        struct lab *lab = begin(5 * LAB_MS, ", on_failure: {local: {share: 5%}}");
        for (uint32_t at = NEAR; at < ALL; at++) {
            silence_home(lab, true);
            const uint64_t seq = send(lab, at, 2000);
            lab->drop_type = lost != 0 ? PEER_ANSWER : 0;
            lab_run(lab, 155 * LAB_MS); /* longer than wan_wait */
            lab->drop_type = 0;
            silence_home(lab, false);
            lab_run(lab, 60 * LAB_MS); /* less than the copy has waited for as long */
            assert_true(lab_answered(lab, seq));
            const struct wire_decision got = lab_answer(lab, seq, 0);
            assert_true(got.allowed && got.degraded && got.limit == 5);
            lab_run(lab, 2 * LEASE_NS);
            assert_int_equal(lab_stats(lab, 2).global_leases + lab_stats(lab, 3).global_leases,
                             at - 1);
        }
        assert_int_equal(used(lab), 0);
        lab_free(lab);
    }
}

/* However often it is sent again, it takes one place at the key's leader. */
static void a_check_that_waits_is_one_part_however_often_it_is_sent(void **state)
{
    struct lab *lab = begin(190 * LAB_MS, ", wan_wait: 1s"); /* three copies come meanwhile */
    (void)state;
    for (uint32_t at = NEAR; at < ALL; at++) {
        const uint64_t seq = send(lab, at, 2000);
        lab_run(lab, 350 * LAB_MS);
        assert_false(lab_answered(lab, seq));
        assert_in_range(parts_at_all(lab), 2, 3); /* with what asks the home, and what was asked */
        assert_true(lab_answer(lab, seq, 0).allowed);
        lab_run(lab, 2 * LEASE_NS);
    }
    assert_int_equal(used(lab), 2);
    lab_free(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_that_was_denied_takes_no_tokens_later),
        cmocka_unit_test(a_check_waits_no_longer_than_its_client),
        cmocka_unit_test(a_check_that_fell_back_takes_no_tokens_later),
        cmocka_unit_test(a_check_that_waits_is_one_part_however_often_it_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

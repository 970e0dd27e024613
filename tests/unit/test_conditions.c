/* test_conditions.c - what is told first of a cluster, by whichever node is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/conditions/conditions.h"
#include "tests/unit/support_control.h"

static struct conditions found;
static const struct shard_stats stats = {.checks = 1};

static const struct conditions *look(struct net *net, uint32_t at)
{
    const struct control_report report = {.shards = &stats, .shard_count = 1, .storage_ok = true};
    conditions_look(net->nodes[at].control, &report, &found);
    return &found;
}

static void assert_condition(uint32_t at, const char *code, const char *node)
{
    assert_true(at < found.count);
    assert_string_equal(found.list[at].code, code);
    assert_string_equal(found.list[at].node, node);
}

static void tell(struct net *net, uint32_t at, uint32_t troubles)
{
    control_trouble(net->nodes[at].control, net->now_ns, troubles);
}

static void a_healthy_cluster_has_none(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(look(net, i)->count, 0);
        assert_false(found.grave || !found.rules_agree);
    }
    net_free(net);
}

/* Dead, disk, clock: in this order at every node, whoever has them. */
static void every_node_tells_the_same_and_the_gravest_first(void **state)
{
    struct net *net = net_cluster(5);
    (void)state;
    tell(net, 1, HEALTH_BIT(HEALTH_CLOCK));
    tell(net, 2, HEALTH_BIT(HEALTH_DISK_FULL));
    net_stop(net, 4);
    for (int i = 0; i < 12; i++) {
        net_run(net, NET_SECOND);
        tell(net, 1, HEALTH_BIT(HEALTH_CLOCK));
        tell(net, 2, HEALTH_BIT(HEALTH_DISK_FULL));
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(look(net, i)->count, 3);
        assert_condition(0, "not_alive", "n5");
        assert_condition(1, "disk_full", "n3");
        assert_condition(2, "clock_off", "n2");
        assert_true(found.grave && found.list[0].since_ns > 0);
        for (uint32_t k = 0; k < 3; k++)
            assert_non_null(strstr(found.list[k].says, found.list[k].node));
    }
    net_free(net);
}

static void warnings_are_told_and_leave_the_cluster_healthy(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    tell(net, 2, HEALTH_BIT(HEALTH_DISK_NEAR) | HEALTH_BIT(HEALTH_MEMORY));
    net_run(net, NET_SECOND);
    assert_int_equal(look(net, 0)->count, 2);
    assert_false(found.grave || found.list[0].grave || found.list[1].grave);
    assert_condition(0, "disk_80", "n3");
    net_free(net);
}

/* Windows of a calendar are wrong then, at every node, and no single one is to be mended. */
static void a_time_that_is_off_all_wall_clocks_is_told_and_is_of_nobody(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        control_wall(net->nodes[i].control, 90 * NET_SECOND);
    net_run(net, 40 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(look(net, i)->count, 1);
        assert_condition(0, "cluster_time_off", "");
        assert_non_null(strstr(found.list[0].says, "90.000 s behind that of its wall clocks"));
        assert_false(found.grave);
    }
    net_free(net);
}

/* Who is stopped in order is expected back, and nobody is to look for a crash. */
static void a_node_that_was_stopped_in_order_is_told_apart_from_a_dead_one(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    for (int i = 0; i < 100 && !control_stop(net->nodes[2].control); i++)
        net_run(net, 10 * NET_MS);
    assert_int_equal(look(net, 0)->count, 1);
    assert_condition(0, "stopping", "n3");
    net_stop(net, 2);
    net_run(net, 15 * NET_SECOND);
    assert_int_equal(look(net, 0)->count, 1);
    assert_condition(0, "stopped", "n3");
    assert_true(found.grave && strstr(found.list[0].says, "expected to start again") != NULL);
    net_restart(net, 2);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(look(net, 0)->count, 0);
    net_free(net);
}

/* All that are left of a frozen ring know it of themselves: that is one thing, not so many. */
static void a_frozen_ring_is_told_once(void **state)
{
    struct net *net = net_cluster(5);
    uint32_t frozen = 0;
    (void)state;
    for (uint32_t i = 2; i < 5; i++)
        net_stop(net, i);
    net_run(net, 30 * NET_SECOND);
    (void)look(net, 0);
    for (uint32_t i = 0; i < found.count; i++)
        frozen += strcmp(found.list[i].code, "ring_frozen") == 0;
    assert_int_equal(frozen, 1);
    assert_condition(0, "not_alive", "n3");
    assert_condition(3, "ring_frozen", "n1");
    assert_non_null(strstr(found.list[3].says, "the ring is frozen"));
    net_free(net);
}

/* CONDITIONS-3: those that precede the others are told, however many there are. */
static void of_too_many_the_first_ones_are_told_and_all_are_counted(void **state)
{
    const uint32_t all = HEALTH_BIT(HEALTH_TROUBLES) - 1;
    struct net *net = net_cluster(5);
    (void)state;
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 5; k++)
            tell(net, k, all);
        net_run(net, 2 * NET_SECOND);
    }
    (void)look(net, 0);
    assert_int_equal(found.count, CONDITIONS_MAX);
    assert_true(found.more > 10);
    for (uint32_t i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%u", i + 1);
        assert_condition(i, "disk_full", name);
    }
    for (uint32_t i = 1; i < found.count; i++)
        assert_true(found.list[i - 1].rank <= found.list[i].rank);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_cluster_has_none),
        cmocka_unit_test(every_node_tells_the_same_and_the_gravest_first),
        cmocka_unit_test(warnings_are_told_and_leave_the_cluster_healthy),
        cmocka_unit_test(a_time_that_is_off_all_wall_clocks_is_told_and_is_of_nobody),
        cmocka_unit_test(a_node_that_was_stopped_in_order_is_told_apart_from_a_dead_one),
        cmocka_unit_test(a_frozen_ring_is_told_once),
        cmocka_unit_test(of_too_many_the_first_ones_are_told_and_all_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_control_news.c - what the log is told of the cluster, once each and never too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/configstore/settings.h"
#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

enum { LINES_MAX = 32, MANY = 30 };

static struct news {
    uint32_t count;
    uint32_t warnings;
    char lines[LINES_MAX][CONTROL_SENTENCE_LEN];
} news;

static void take(struct net *net, uint32_t at)
{
    bool warns;
    news.count = news.warnings = 0;
    while (control_news(net->nodes[at].control, news.lines[news.count], CONTROL_SENTENCE_LEN,
                        &warns)) {
        news.warnings += warns;
        assert_true(++news.count < LINES_MAX);
    }
}

static void assert_line(uint32_t at, const char *part)
{
    assert_true(at < news.count);
    if (strstr(news.lines[at], part) == NULL)
        fail_msg("'%s' does not say '%s'", news.lines[at], part);
}

static void edit(struct net *net, uint32_t number, uint32_t kind, const char *name,
                 const char *value, size_t len)
{
    struct control_edit_request request = {
        .id = {number, 1},
        .kind = kind,
        .removes = value == NULL,
        .based_on = SETTINGS_ANY,
        .name = {name, strlen(name)},
        .value = {value, len},
        .author = {"root@vm", 7},
    };
    assert_int_equal(control_edit(net->nodes[0].control, net->now_ns, &request), 0);
    net_run(net, NET_SECOND / 2);
}

/* Every node tells what was changed and by whom, and nobody's name. */
static void changes_of_the_configuration_are_told_by_every_node(void **state)
{
    static const char forever[8] = {0};
    struct net *net = net_cluster(2);
    (void)state;
    take(net, 0);
    take(net, 1);
    assert_int_equal(news.count, 0); /* what was before this node began is no news */
    edit(net, 1, SETTINGS_BLOCK, "attr user=mallory", forever, sizeof forever);
    edit(net, 2, SETTINGS_BLOCK, "cidr 10.0.0.0/8", forever, sizeof forever);
    edit(net, 3, SETTINGS_BLOCK, "attr user=mallory", NULL, 0);
    edit(net, 4, SETTINGS_QUOTA, "mallory", "x", 1);
    net_run(net, 2 * NET_SECOND);
    for (uint32_t at = 0; at < 2; at++) {
        take(net, at);
        assert_int_equal(news.count, 4);
        assert_line(0, " by root@vm: a block by the attribute user is in force");
        assert_line(1, " by root@vm: a block of addresses is in force");
        assert_line(2, " by root@vm: a block by the attribute user was lifted");
        assert_line(3, " by root@vm: what is set for a user was changed");
        for (uint32_t i = 0; i < news.count; i++)
            assert_null(strstr(news.lines[i], "mallory"));
        take(net, at);
        assert_int_equal(news.count, 0);
    }
    net_free(net);
}

/* An import is a few lines and a number. */
static void many_changes_are_told_as_a_number(void **state)
{
    char name[16];
    struct net *net = net_cluster(1);
    (void)state;
    take(net, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "u%u", i);
        edit(net, i + 1, SETTINGS_QUOTA, name, "x", 1);
    }
    take(net, 0);
    assert_int_equal(news.count, 8);
    net_run(net, 2 * NET_SECOND);
    take(net, 0);
    assert_int_equal(news.count, 1);
    assert_line(0, "and 22 changes more of blocks, API keys and quotas");
    net_run(net, 2 * NET_SECOND);
    take(net, 0);
    assert_int_equal(news.count, 0);
    net_free(net);
}

/* Nor is a majority told of that is back before it was gone for long. */
static void a_ring_that_is_frozen_for_a_moment_leaves_no_line(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    take(net, 0);
    net_stop(net, 1);
    net_stop(net, 2);
    for (int i = 0; i < 3000 && !voters_frozen(net->nodes[0].control); i++)
        net_run(net, 10 * NET_MS);
    assert_true(voters_frozen(net->nodes[0].control));
    for (int i = 0; i < 95; i++) {
        take(net, 0);
        assert_int_equal(news.warnings, 0);
        net_run(net, 10 * NET_MS);
    }
    net_run(net, NET_SECOND);
    take(net, 0);
    assert_true(news.warnings > 0);
    net_free(net);
}

/* A majority that is gone for longer than a moment, and is back. */
static void a_frozen_ring_and_configuration_are_told_and_when_they_thaw(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    take(net, 0);
    net_stop(net, 1);
    net_stop(net, 2);
    for (int i = 0; i < 60 && news.count < 2; i++) {
        net_run(net, NET_SECOND / 2);
        struct news before = news;
        take(net, 0);
        if (before.count == 1) { /* they come one after the other */
            memmove(news.lines[1], news.lines[0], sizeof news.lines[0]);
            memcpy(news.lines[0], before.lines[0], sizeof news.lines[0]);
            news.count += before.count;
            news.warnings += before.warnings;
        }
    }
    assert_int_equal(news.count, 2);
    assert_int_equal(news.warnings, 2);
    assert_line(0, "the ring is frozen: of its 3 voters n2, n3 cannot be reached");
    assert_line(1, "the configuration cannot be changed now: of its 3 voters ");
    net_restart_seeded(net, 1, 0);
    uint32_t thawed = 0;
    for (int i = 0; i < 60 && thawed < 2; i++) {
        net_run(net, NET_SECOND / 2);
        take(net, 0);
        for (uint32_t k = 0; k < news.count; k++)
            thawed += strstr(news.lines[k], " again: a majority of its voters is in reach") != NULL;
    }
    assert_int_equal(thawed, 2);
    net_free(net);
}

static void set_walls(struct net *net, int64_t ns)
{
    for (uint32_t i = 0; i < net->count; i++)
        control_wall(net->nodes[i].control, ns);
}

/* A fleet whose wall clocks are stepped as one decides on evenly, and its log says what is off; so
 * does that of a node alone. */
static void a_time_that_is_off_the_wall_clocks_is_told_and_when_it_is_right(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= 3; size += 2) {
        struct net *net = net_cluster(size);
        net_run(net, 30 * NET_SECOND);
        take(net, 0);
        set_walls(net, -3600 * NET_SECOND);
        net_run(net, 40 * NET_SECOND);
        take(net, 0);
        net_run(net, 2 * NET_SECOND);
        if (news.count == 0)
            take(net, 0);
        assert_int_equal(news.count, 1);
        assert_int_equal(news.warnings, 1);
        assert_line(0, "the time of the cluster is 3600.000 s ahead of that of its wall clocks");
        set_walls(net, 0);
        news.count = 0;
        for (uint32_t i = 0; i < 60 && news.count == 0; i++) {
            net_run(net, NET_SECOND);
            take(net, 0);
        }
        assert_line(0, "the time of the cluster is that of its wall clocks again");
        net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_the_configuration_are_told_by_every_node),
        cmocka_unit_test(many_changes_are_told_as_a_number),
        cmocka_unit_test(a_ring_that_is_frozen_for_a_moment_leaves_no_line),
        cmocka_unit_test(a_frozen_ring_and_configuration_are_told_and_when_they_thaw),
        cmocka_unit_test(a_time_that_is_off_the_wall_clocks_is_told_and_when_it_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

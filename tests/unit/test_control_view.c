/* test_control_view.c - gossip and ring configuration put together for the shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support_control.h"

/* After a restart nobody has been heard of yet, and still the shards must know every replica. */
static void members_of_the_ring_that_were_not_heard_of_are_listed_as_dead(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 2);
    net_restart(net, 2);
    struct view *view = control_view(net->nodes[2].control);
    assert_non_null(view);
    assert_int_equal(view->member_count, 3);
    for (uint64_t id = 1; id <= 2; id++) {
        const struct view_member *member = view_find(view, id);
        assert_non_null(member);
        assert_int_equal(member->state, VIEW_DEAD);
        assert_string_equal(member->name, id == 1 ? "n1" : "n2");
        assert_string_equal(member->zone, id == 1 ? "z0" : "z1");
        assert_string_equal(member->peer, "");
    }
    assert_int_equal(view->members[view->self].id, 3);
    assert_int_equal(view_find(view, 3)->state, VIEW_ALIVE);
    view_free(&view);
    net_free(net);
}

/* Shards reach their peers by the addresses in the view, and say what they are from it. */
static void a_view_shows_what_each_member_says_of_itself(void **state)
{
    struct net *net = net_cluster(2);
    (void)state;
    control_rules(net->nodes[1].control, 0, 0xabc);
    net_run(net, 2 * NET_SECOND);
    struct view *view = control_view(net->nodes[0].control);
    assert_non_null(view);
    const struct view_member *member = view_find(view, 2);
    assert_non_null(member);
    assert_int_equal(member->state, VIEW_ALIVE);
    assert_int_equal(member->rules_digest, 0xabc);
    assert_int_equal(member->shards, 1);
    assert_int_equal(member->ring_epoch, net_config(net, 1)->epoch);
    assert_string_equal(member->name, "n2");
    assert_string_equal(member->region, "r1");
    assert_string_equal(member->zone, "z1");
    assert_string_equal(member->client, "10.0.0.2:7000");
    assert_string_equal(member->peer, "10.0.0.2:7001");
    assert_string_equal(member->gossip, "10.0.0.2:7946");
    assert_string_equal(member->version, "0.1.0");
    assert_true(view->stable);
    assert_int_equal(view_owned(view, 1) + view_owned(view, 2), NET_VNODES);
    view_free(&view);
    net_free(net);
}

/* Shards tell a newer view from an older one by its version, even over a restart. */
static void the_version_of_views_rises_over_a_restart(void **state)
{
    struct net *net = net_cluster(1);
    uint64_t last = 0;
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct view *view = control_view(net->nodes[0].control);
        assert_non_null(view);
        assert_true(view->version > last);
        last = view->version;
        view_free(&view);
        if (i == 1) {
            net_stop(net, 0);
            net_run(net, net->step_ns);
            net_restart(net, 0);
        }
    }
    net_free(net);
}

/* A change is reported once: each report costs a table for every shard. */
static void a_view_is_due_once_after_a_change(void **state)
{
    struct net *net = net_cluster(1);
    (void)state;
    assert_false(control_view_due(net->nodes[0].control));
    control_rules(net->nodes[0].control, 0, 7);
    assert_true(control_view_due(net->nodes[0].control));
    assert_false(control_view_due(net->nodes[0].control));
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_the_ring_that_were_not_heard_of_are_listed_as_dead),
        cmocka_unit_test(a_view_shows_what_each_member_says_of_itself),
        cmocka_unit_test(the_version_of_views_rises_over_a_restart),
        cmocka_unit_test(a_view_is_due_once_after_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

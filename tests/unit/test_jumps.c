/* test_jumps.c - a node whose own time jumps takes nothing out of what all share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

enum { HALF_AN_HOUR_MS = 1800000 };

/* A node whose own time jumps has not seen anybody dead for so long: it takes nobody out, and lets
 * nobody vote instead, before as much time has passed since. */
static void a_jump_is_no_time_that_a_member_was_dead(void **state)
{
    (void)state;
    struct net *net = net_cluster(4);
    const uint32_t victim = net_votes(net, 0, 2) ? 1 : 2;
    assert_true(net_votes(net, 0, victim + 1));
    net_stop(net, victim);
    net_run(net, 10 * NET_SECOND);
    assert_true(control_dead_for(net->nodes[0].control, victim + 1, 0));
    for (uint32_t i = 0; i < 4; i++) /* all at once: none of them is found to be off */
        net->nodes[i].ahead_ns = 2 * CONTROL_FORGET_NS;
    net_run(net, 20 * NET_SECOND);
    assert_true(net_votes(net, 0, victim + 1));
    assert_int_equal(net_config(net, 0)->to_count, 4);
    net->step_ns = 50 * NET_MS;
    net_run(net, 60 * NET_SECOND);
    assert_false(net_votes(net, 0, victim + 1));
    assert_int_equal(net_config(net, 0)->to_count, 4);
    net_free(net);
}

static void put_block(struct net *net, uint32_t at, uint64_t until_ms)
{
    uint8_t value[9] = {0};
    struct settings *settings = net->nodes[at].control->settings;
    for (uint32_t i = 0; i < 8; i++)
        value[i] = (uint8_t)(until_ms >> 8 * i);
    const struct settings_entry entry = {
        .kind = SETTINGS_BLOCK,
        .name = {"attr user=ada", 13},
        .version = settings->version,
        .author = {"bob", 3},
        .value = {(const char *)value, sizeof value},
    };
    assert_int_equal(settings_table_put(&settings->table, &entry), 0);
}

/* What is over by a wrong clock is not over: neither the node that has it, nor the others, let go
 * of a block for which there is half an hour left. */
static void a_clock_an_hour_ahead_ends_no_block(void **state)
{
    (void)state;
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
        struct net *net = net_cluster(3);
        net_run(net, 40 * NET_SECOND);
        for (uint32_t i = 0; i < 3; i++)
            put_block(net, i, (uint64_t)(net->now_ns / NET_MS) + HALF_AN_HOUR_MS);
        net->nodes[wrong].ahead_ns = 3600 * NET_SECOND;
        net_run(net, 60 * NET_SECOND);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(net->nodes[i].control->settings->table.count, 1);
        net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jump_is_no_time_that_a_member_was_dead),
        cmocka_unit_test(a_clock_an_hour_ahead_ends_no_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

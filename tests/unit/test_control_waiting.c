/* test_control_waiting.c - a node that does not serve yet says what it waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

static void assert_waits(struct net *net, uint32_t at, const char *part)
{
    char sentence[CONTROL_SENTENCE_LEN] = "";
    assert_int_equal(control_waiting(net->nodes[at].control, sentence, sizeof sentence),
                     part != NULL);
    if (part != NULL && strstr(sentence, part) == NULL)
        fail_msg("'%s' does not say '%s'", sentence, part);
}

/* Of each seed what came of asking it: silence, or somebody without a cluster as well. */
static void each_seed_is_named_with_what_it_answered(void **state)
{
    struct net *net = net_new();
    char part[256];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct control_options options = net_options(net, i + 1, i == 0 ? "n1" : "n2");
        net_seed(&options, 0);
        net_seed(&options, 1);
        net_seed(&options, 2);
        (void)net_start(net, &options);
    }
    net_run(net, 3 * NET_SECOND);
    const char *seeds[3];
    for (uint32_t i = 0; i < 3; i++)
        seeds[i] = net->nodes[0].options.seeds[i];
    (void)snprintf(
        part, sizeof part,
        "waiting for a cluster: seed %s is this node itself; %s (n2) answers, and has no "
        "cluster either; %s does not answer",
        seeds[0], seeds[1], seeds[2]);
    assert_waits(net, 0, part);
    net_stop(net, 1);
    net_run(net, 10 * NET_SECOND); /* it does not answer for long */
    (void)snprintf(part, sizeof part, "; %s does not answer; %s does not answer", seeds[1],
                   seeds[2]);
    assert_waits(net, 0, part);
    net_free(net);
}

/* Whoever serves waits for nothing; a seed that was resolved later is one as well. */
static void a_node_that_serves_waits_for_nothing(void **state)
{
    struct net *net = net_cluster(2);
    (void)state;
    assert_waits(net, 0, NULL);
    assert_waits(net, 1, NULL);
    struct control_options options = net_options(net, 3, "n3");
    options.seeds_pending = true;
    const uint32_t at = net_start(net, &options);
    net_run(net, NET_SECOND);
    assert_waits(net, at, "waiting for a cluster: no name of a seed can be resolved");
    control_add_seed(net->nodes[at].control, "10.99.0.1:7602");
    assert_waits(net, at, "waiting for a cluster: seed 10.99.0.1:7602 does not answer");
    control_add_seed(net->nodes[at].control, net->nodes[0].options.gossip);
    net_run(net, 10 * NET_SECOND);
    assert_waits(net, at, NULL);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_seed_is_named_with_what_it_answered),
        cmocka_unit_test(a_node_that_serves_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

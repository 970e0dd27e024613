/* test_control_twin.c - two living nodes of one name: both say so, and the one outside is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control/control.h"
#include "tests/unit/support_control.h"

/* n1, n2 and n3, and another n2, of id 9 and the last number, which has been there for `ns`. */
static struct net *with_twin(int64_t ns)
{
    struct net *net = net_cluster(3);
    struct control_options options = net_options(net, 9, "n2");
    net_seed(&options, 0);
    (void)net_start(net, &options);
    net_run(net, ns);
    return net;
}

static void assert_says(struct net *net, uint32_t at, uint64_t id, const char *part)
{
    char sentence[CONTROL_SENTENCE_LEN] = "";
    assert_int_equal(control_twin_say(net->nodes[at].control, sentence, sizeof sentence), id);
    if (strstr(sentence, part) == NULL)
        fail_msg("'%s' does not say '%s'", sentence, part);
}

/* Nobody else has anything to say: it is not about them. */
static void both_nodes_of_one_name_say_which_is_outside(void **state)
{
    struct net *net = with_twin(10 * NET_SECOND);
    (void)state;
    assert_true(net_has_ring(net, 3, 7));
    assert_says(net, 3, 2, "another living node is called n2 too (0000000000000002");
    assert_says(net, 3, 2, "this one is kept out of the ring");
    assert_says(net, 1, 9, "that one is kept out of the ring");
    assert_says(net, 0, 0, "");
    for (uint32_t at = 0; at < 4; at++)
        assert_false(control_twin_ends(net->nodes[at].control));
    net_run(net, 10 * NET_SECOND);
    for (uint32_t at = 0; at < 4; at++)
        assert_int_equal(control_twin_ends(net->nodes[at].control), at == 3);
    net_free(net);
}

/* What lost its disk comes back under its name while its old self is not known to be dead: it takes
 * that one's place, and is not ended for it. */
static void a_node_that_lost_its_disk_is_no_twin_of_itself(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 1);
    struct control_options options = net_options(net, 9, "n2");
    net_seed(&options, 0);
    (void)net_start(net, &options);
    for (int i = 0; i < 600; i++) {
        net_run(net, NET_SECOND / 10);
        assert_false(control_twin_ends(net->nodes[3].control));
    }
    assert_true(ring_config_find(net_config(net, 0), 9) != NULL);
    assert_says(net, 3, 0, "");
    net_free(net);
}

/* When the first one has ended, there is a place for the second. */
static void the_one_outside_takes_the_place_of_one_that_ends(void **state)
{
    struct net *net = with_twin(10 * NET_SECOND);
    (void)state;
    net_stop(net, 1);
    net_run(net, 30 * NET_SECOND);
    assert_says(net, 3, 0, "");
    assert_true(ring_config_find(net_config(net, 0), 9) != NULL);
    assert_true(ring_config_find(net_config(net, 0), 2) == NULL);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_nodes_of_one_name_say_which_is_outside),
        cmocka_unit_test(a_node_that_lost_its_disk_is_no_twin_of_itself),
        cmocka_unit_test(the_one_outside_takes_the_place_of_one_that_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

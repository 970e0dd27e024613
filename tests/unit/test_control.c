/* test_control.c - how a node gets its cluster, and how the configuration moves; control.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

static bool same_cluster(const struct net *net, uint32_t a, uint32_t b)
{
    const struct control_identity *one = control_identity(net->nodes[a].control);
    const struct control_identity *other = control_identity(net->nodes[b].control);
    return one != NULL && other != NULL && memcmp(one, other, sizeof *one) == 0;
}

/* A configuration of this ring one epoch on, as CONFIG of `cluster_id`; returns its bytes. */
static uint8_t *later_config(const struct net *net, uint32_t at, struct join_message *message)
{
    struct ring_config *next = calloc(1, sizeof *next);
    uint8_t *bytes = malloc(CONTROL_CONFIG_LEN_MAX);
    assert_true(next != NULL && bytes != NULL);
    assert_int_equal(ring_config_reweigh(next, net_config(net, at), 1, 300), 0);
    const int len = ring_config_encode(next, bytes, CONTROL_CONFIG_LEN_MAX);
    assert_true(len > 0);
    memset(message, 0, sizeof *message);
    message->type = JOIN_CONFIG;
    message->sender = 99;
    message->config = bytes;
    message->config_len = (size_t)len;
    memcpy(message->cluster_id, net->nodes[at].identity.cluster_id, CONTROL_CLUSTER_ID_LEN);
    free(next);
    return bytes;
}

/* Makes the message the answer of `sender` to a question of node `at`. */
static void answer_of(struct net *net, uint32_t at, uint64_t sender, struct join_message *message)
{
    struct control_proof *proof = &net->nodes[at].control->proof;
    proof->begun_ns = net->now_ns;
    memset(&proof->nonce, 7, sizeof proof->nonce);
    message->sender = sender;
    message->identity.secret = proof->nonce;
}

/* The first node of all waits for nobody: there is nobody to wait for. */
static void a_node_without_seeds_creates_a_cluster_at_once(void **state)
{
    struct net *net = net_new();
    const struct control_options options = net_options(net, 5, "n5");
    (void)state;
    (void)net_start(net, &options);
    assert_null(control_identity(net->nodes[0].control));
    assert_null(control_view(net->nodes[0].control));
    net_run(net, net->step_ns);
    assert_int_equal(net->nodes[0].joined, 1);
    assert_memory_equal(control_identity(net->nodes[0].control), &options.identity,
                        sizeof options.identity);
    assert_int_equal(net_config(net, 0)->epoch, 1);
    assert_int_equal(net_config(net, 0)->vnodes, NET_VNODES);
    assert_int_equal(net_config(net, 0)->replicas, 2);
    assert_true(net_has_ring(net, 0, 1));
    assert_true(net->nodes[0].config_len > 0);
    net_free(net);
}

/* Starts a first node; the options of a second one that has it for its seed. */
static struct control_options seeded_by_first(struct net *net, uint64_t first, uint64_t second)
{
    struct control_options options = net_options(net, first, "n1");
    (void)net_start(net, &options);
    options = net_options(net, second, "n2");
    net_seed(&options, 0);
    return options;
}

/* A joiner takes everything from the cluster, although its own options name other values. */
static void a_joiner_gets_identity_and_configuration(void **state)
{
    struct net *net = net_new();
    struct control_options options = seeded_by_first(net, 9, 3);
    (void)state;
    options.identity.vnodes = 2 * NET_VNODES;
    options.identity.replicas = 1;
    (void)net_start(net, &options);
    net_run(net, 5 * NET_SECOND);
    assert_true(net->told[JOIN_JOIN] >= 1);
    assert_true(net->told[JOIN_ADMIT] >= 1);
    assert_int_equal(net->nodes[1].joined, 1);
    assert_true(same_cluster(net, 0, 1));
    assert_int_equal(net->nodes[1].identity.vnodes, NET_VNODES);
    assert_true(net_has_ring(net, 0, 3) && net_has_ring(net, 1, 3));
    assert_true(ring_config_equal(net_config(net, 0), net_config(net, 1)));
    net_free(net);
}

/* Three nodes are started by one command: they may not end as three clusters. */
static void bootstrapping_nodes_that_seed_each_other_end_in_the_cluster_of_the_lowest(void **state)
{
    static const uint64_t ids[] = {30, 10, 20};
    static const char *const names[] = {"n1", "n2", "n3"};
    struct net *net = net_new();
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct control_options options = net_options(net, ids[i], names[i]);
        options.bootstrap = true;
        for (uint32_t seed = 0; seed < 3; seed++)
            net_seed(&options, seed);
        (void)net_start(net, &options);
    }
    net_run(net, NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_null(control_identity(net->nodes[i].control));
    net_run(net, 9 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(net->nodes[i].joined, 1);
        assert_int_equal(net->nodes[i].identity.cluster_id[0], 0xa1);
        assert_true(same_cluster(net, 0, i));
        assert_true(net_has_ring(net, i, 7));
    }
    net_free(net);
}

/* A joiner whose seeds are down has to wait: a cluster of its own would split the counters. */
static void a_node_with_seeds_that_may_not_bootstrap_never_creates(void **state)
{
    struct net *net = net_new();
    struct control_options options = net_options(net, 2, "n2");
    (void)state;
    net_seed(&options, 3);
    (void)net_start(net, &options);
    net->step_ns = 50 * NET_MS;
    net_run(net, 120 * NET_SECOND);
    assert_null(control_identity(net->nodes[0].control));
    assert_int_equal(net->nodes[0].joined, 0);
    assert_int_equal(net->nodes[0].config_len, 0);
    assert_true(net->sent > 0);
    net_free(net);
}

/* CONTROL-1: what is late on its way must not undo what came after it. */
static void an_older_or_equal_configuration_changes_nothing(void **state)
{
    struct net *net = net_cluster(2);
    struct join_message message;
    (void)state;
    net->settles = false;
    uint8_t *bytes = later_config(net, 1, &message);
    const uint64_t epoch = net_config(net, 1)->epoch;
    uint8_t old[4096];
    const size_t old_len = net->nodes[1].config_len;
    assert_true(old_len <= sizeof old);
    memcpy(old, net->nodes[1].config, old_len);
    answer_of(net, 1, 1, &message);
    net_tell_join(net, 1, &message);
    assert_int_equal(net_config(net, 1)->epoch, epoch + 1);
    assert_memory_equal(net->nodes[1].config, bytes, net->nodes[1].config_len);
    message.config = old;
    message.config_len = old_len;
    net_tell_join(net, 1, &message);
    assert_int_equal(net_config(net, 1)->epoch, epoch + 1);
    assert_int_equal(ring_config_find(net_config(net, 1), 1)->weight, 300);
    assert_memory_equal(net->nodes[1].config, bytes, net->nodes[1].config_len);
    free(bytes);
    net_free(net);
}

/* A node that missed the telling asks the one whose record names the higher epoch. */
static void a_configuration_that_was_missed_is_fetched(void **state)
{
    struct net *net = net_cluster(2);
    struct join_message message;
    (void)state;
    net->settles = false;
    uint8_t *bytes = later_config(net, 1, &message);
    answer_of(net, 1, 1, &message);
    net_tell_join(net, 1, &message);
    free(bytes);
    const uint32_t fetches = net->told[JOIN_FETCH];
    net_run(net, 2 * NET_SECOND);
    assert_true(net->told[JOIN_FETCH] > fetches);
    assert_true(ring_config_equal(net_config(net, 0), net_config(net, 1)));
    assert_int_equal(ring_config_find(net_config(net, 0), 1)->weight, 300);
    net_free(net);
}

/* A frame that says so is no vote, whoever it is from; nor is one voter of three. */
static void a_configuration_is_adopted_only_with_proof_of_its_vote(void **state)
{
    struct net *net = net_cluster(3);
    struct join_message message;
    (void)state;
    net->settles = false;
    const uint64_t epoch = net_config(net, 0)->epoch;
    uint8_t *bytes = later_config(net, 0, &message);
    const uint32_t fetches = net->told[JOIN_FETCH];
    for (uint64_t sender = 1; sender <= 4; sender++) {
        message.sender = sender;
        net_tell_join(net, 0, &message);
    }
    net_run(net, NET_SECOND);
    assert_true(net->told[JOIN_FETCH] > fetches); /* it was reason to ask */
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    for (uint64_t sender = 1; sender <= 4; sender++) { /* 1 is itself, 4 nobody */
        if (sender == 3)
            continue;
        answer_of(net, 0, sender, &message);
        net_tell_join(net, 0, &message);
    }
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    net_run(net, 10 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(net_config(net, i)->epoch, epoch);
    answer_of(net, 0, 2, &message);
    net_tell_join(net, 0, &message);
    answer_of(net, 0, 3, &message);
    net_tell_join(net, 0, &message);
    assert_int_equal(net_config(net, 0)->epoch, epoch + 1);
    free(bytes);
    net_free(net);
}

/* A lineage near the highest would leave none for an operator to begin. */
static void a_lineage_far_above_is_not_adopted_whoever_says_so(void **state)
{
    struct net *net = net_cluster(3);
    struct join_message message;
    struct ring_config *next = calloc(1, sizeof *next);
    uint8_t *bytes = malloc(CONTROL_CONFIG_LEN_MAX);
    const uint64_t generations[] = {1025, (1 << 24) - 1, 1};
    (void)state;
    assert_true(next != NULL && bytes != NULL);
    free(later_config(net, 0, &message));
    const uint64_t epoch = net_config(net, 0)->epoch;
    for (size_t i = 0; i < 3; i++) {
        ring_config_copy(next, net_config(net, 0));
        next->epoch = generations[i] << 40 | 1;
        message.config = bytes;
        message.config_len = (size_t)ring_config_encode(next, bytes, CONTROL_CONFIG_LEN_MAX);
        for (uint64_t sender = 2; sender <= 3; sender++) {
            answer_of(net, 0, sender, &message);
            net_tell_join(net, 0, &message);
        }
        assert_int_equal(net_config(net, 0)->epoch, i < 2 ? epoch : next->epoch);
    }
    free(bytes);
    free(next);
    net_free(net);
}

/* CONTROL-3: addresses are given to others; a stray frame of another cluster has no effect, nor
 * answer. */
static void frames_of_another_cluster_change_nothing(void **state)
{
    static const enum join_type types[] = {JOIN_ADMIT, JOIN_FETCH, JOIN_CONFIG};
    struct net *net = net_cluster(2);
    struct join_message message;
    (void)state;
    uint8_t *bytes = later_config(net, 1, &message);
    const uint64_t epoch = net_config(net, 1)->epoch;
    const struct control_identity before = net->nodes[1].identity;
    memset(message.cluster_id, 0x77, sizeof message.cluster_id);
    message.identity = before;
    memcpy(message.address, net->nodes[0].options.gossip, sizeof message.address);
    const uint32_t told = net->told[JOIN_CONFIG] + net->told[JOIN_ADMIT];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        message.type = types[i];
        net_tell_join(net, 1, &message);
    }
    assert_int_equal(net_config(net, 1)->epoch, epoch);
    assert_memory_equal(control_identity(net->nodes[1].control), &before, sizeof before);
    assert_int_equal(net->nodes[1].joined, 1);
    assert_int_equal(net->told[JOIN_CONFIG] + net->told[JOIN_ADMIT], told);
    free(bytes);
    net_free(net);
}

/* CONTROL-3: two clusters that seed one another by mistake stay two. */
static void clusters_that_gossip_to_each_other_stay_apart(void **state)
{
    struct net *net = net_new();
    struct control_options options = seeded_by_first(net, 1, 2);
    (void)state;
    options.has_identity = true;
    (void)net_start(net, &options);
    net_run(net, 10 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 1));
    assert_false(same_cluster(net, 0, 1));
    assert_false(control_alive(net->nodes[0].control, 2));
    assert_false(control_alive(net->nodes[1].control, 1));
    assert_int_equal(net_config(net, 1)->epoch, 0);
    net_free(net);
}

/* A node that comes up with what it keeps of one cluster among the seeds of another says so, and
 * that it should stop; the other cluster's node neither says nor does anything. */
static void a_node_among_the_seeds_of_another_cluster_says_so(void **state)
{
    char sentence[CONTROL_SENTENCE_LEN];
    struct net *net = net_new();
    struct control_options options = seeded_by_first(net, 1, 2);
    (void)state;
    options.has_identity = true;
    (void)net_start(net, &options);
    net_run(net, 3 * NET_SECOND);
    assert_true(control_foreign_say(net->nodes[1].control, sentence, sizeof sentence));
    assert_non_null(strstr(sentence, net->nodes[0].options.gossip));
    assert_non_null(strstr(sentence, "is of cluster a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0, this node of "
                                     "cluster a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"));
    assert_false(control_misplaced(net->nodes[1].control)); /* its own may come up late */
    net_run(net, 7 * NET_SECOND);
    assert_true(control_misplaced(net->nodes[1].control));
    assert_false(control_foreign_say(net->nodes[0].control, sentence, sizeof sentence));
    assert_false(control_misplaced(net->nodes[0].control));
    net_free(net);
}

/* Where one of its own is heard as well, a node says what is wrong with its seeds and goes on. */
static void a_node_that_hears_its_own_cluster_goes_on_beside_a_seed_of_another(void **state)
{
    char sentence[CONTROL_SENTENCE_LEN];
    struct net *net = net_cluster(2);
    struct control_options other = net_options(net, 9, "other");
    (void)state;
    (void)net_start(net, &other);
    net_run(net, 5 * NET_SECOND);
    net_stop(net, 1);
    net_restart_seeded(net, 1, 2);
    net_run(net, 30 * NET_SECOND);
    assert_true(control_foreign_say(net->nodes[1].control, sentence, sizeof sentence));
    assert_false(control_misplaced(net->nodes[1].control));
    assert_true(control_alive(net->nodes[1].control, net->nodes[0].options.node_id));
    net_free(net);
}

/* CONTROL-2: after a crash between the two, others would know a configuration that this node lost.
 * The network compares every configuration that is told with the disk of the teller
 * (LABCONTROL-2). */
static void the_configuration_is_durable_before_it_is_told(void **state)
{
    struct net *net = net_cluster(3);
    struct join_message message;
    uint8_t frame[4096];
    (void)state;
    assert_true(net->told[JOIN_ADMIT] >= 2);
    assert_true(net->told[JOIN_CONFIG] >= 4); /* n2 and n3 were added, and both settled */
    net->settles = false;
    uint8_t *bytes = later_config(net, 0, &message);
    answer_of(net, 0, 2, &message);
    net_tell_join(net, 0, &message);
    answer_of(net, 0, 3, &message);
    const int len = join_encode(&message, frame, sizeof frame);
    assert_true(len > 0);
    control_receive(net->nodes[0].control, net->now_ns, frame, (size_t)len, &net->effects);
    assert_true(net->effects.count > 0);
    assert_int_equal(net->effects.items[0].kind, EFFECT_META);
    assert_string_equal(net->effects.items[0].address, "ring.config");
    assert_int_equal(net->effects.items[0].len, message.config_len);
    assert_memory_equal(net->effects.items[0].bytes, bytes, message.config_len);
    effects_clear(&net->effects);
    free(bytes);
    net_free(net);
}

/* A restart is no join: the node goes on as the member it was, without its seeds. */
static void a_restarted_node_is_joined_at_once_and_finds_the_others(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    net_stop(net, 2);
    net_run(net, NET_SECOND);
    const uint64_t epoch = net_config(net, 0)->epoch;
    const uint32_t joins = net->told[JOIN_JOIN];
    net_restart(net, 2);
    assert_non_null(control_identity(net->nodes[2].control));
    assert_true(same_cluster(net, 0, 2));
    assert_true(net_has_ring(net, 2, 7));
    assert_true(control_view_due(net->nodes[2].control));
    assert_false(control_alive(net->nodes[2].control, 1));
    net_run(net, 5 * NET_SECOND);
    assert_true(control_alive(net->nodes[2].control, 1));
    assert_true(control_alive(net->nodes[2].control, 2));
    assert_true(control_alive(net->nodes[0].control, 3));
    assert_int_equal(net->told[JOIN_JOIN], joins);
    assert_int_equal(net->nodes[2].joined, 0);
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    net_free(net);
}

/* When all stop at once, the stored addresses are all there is: they must lead back together. */
static void a_cluster_that_was_stopped_as_a_whole_finds_itself_again(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        net_stop(net, i);
    net_run(net, NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        net_restart(net, i);
    net_run(net, 5 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(net_has_ring(net, i, 7));
        for (uint64_t id = 1; id <= 3; id++)
            assert_true(control_alive(net->nodes[i].control, id));
    }
    net_free(net);
}

/* A second node has joined, and the shards of neither have taken over yet. */
static struct net *changing_pair(void)
{
    struct net *net = net_new();
    net->settles = false;
    const struct control_options options = seeded_by_first(net, 1, 2);
    (void)net_start(net, &options);
    net_run(net, 5 * NET_SECOND);
    return net;
}

/* A transition lasts until the shards of every living member have taken over. */
static void a_transition_ends_when_every_member_has_settled(void **state)
{
    struct net *net = changing_pair();
    (void)state;
    assert_int_equal(net_config(net, 0)->epoch, 2);
    assert_int_equal(net_config(net, 1)->epoch, 2);
    assert_false(ring_config_is_stable(net_config(net, 0)));
    control_settled(net->nodes[0].control, 2);
    net_run(net, 2 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, 2);
    control_settled(net->nodes[1].control, 1); /* of an epoch before */
    net_run(net, 2 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, 2);
    control_settled(net->nodes[1].control, 2);
    net_run(net, 2 * NET_SECOND);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(net_config(net, i)->epoch, 3);
        assert_true(net_has_ring(net, i, 3));
    }
    net_free(net);
}

/* Who proposes is a member as any other: what it has yet to take over is waited for, too. */
static void a_transition_waits_for_its_proposer(void **state)
{
    struct net *net = changing_pair();
    (void)state;
    control_settled(net->nodes[1].control, 2);
    net_run(net, 2 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, 2);
    assert_false(ring_config_is_stable(net_config(net, 0)));
    control_settled(net->nodes[0].control, 2);
    net_run(net, 2 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, 3);
    net_free(net);
}

/* Frames of any kind that are sent within three seconds. */
static uint32_t sent_in_three_seconds(struct net *net)
{
    const uint32_t before = net->sent;
    net_run(net, 3 * NET_SECOND);
    return net->sent - before;
}

/* Rumours reach everyone only very likely; a change of the ring must not wait for the next
 * push/pull because one was missed. */
static void members_tell_how_far_they_are_until_the_transition_ends(void **state)
{
    struct net *net = changing_pair();
    (void)state;
    const uint32_t changing = sent_in_three_seconds(net);
    control_settled(net->nodes[0].control, 2);
    control_settled(net->nodes[1].control, 2);
    net_run(net, 2 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 3));
    assert_true(changing > sent_in_three_seconds(net) + 2 * 4);
    net_free(net);
}

/* A good-bye is told to the others, and the leaver proposes nothing any more. */
static void a_member_that_leaves_is_known_as_left(void **state)
{
    struct net *net = net_cluster(3);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    assert_int_equal(control_depart(net->nodes[2].control, CONTROL_LEAVES, sentence), 0);
    for (uint32_t step = 0; !control_departed(net->nodes[2].control, net->now_ns); step++) {
        net_run(net, net->step_ns);
        assert_true(step < 3000);
    }
    for (uint32_t step = 0; step < 300; step++) {
        const bool done = control_leave(net->nodes[2].control, net->now_ns, &net->effects);
        net_run(net, net->step_ns);
        if (done)
            break;
        assert_true(step < 299);
    }
    const struct swim_member *member = swim_find(net->nodes[0].control->swim, 3);
    assert_non_null(member);
    assert_int_equal(member->state, SWIM_LEFT);
    net_free(net);
}

/* What it was about to propose, or had promised to carry on, it does not wake up for any more: a
 * deadline in the past would keep its loop from ever sleeping. */
static void a_member_that_leaves_has_nothing_left_to_propose(void **state)
{
    struct net *net = net_cluster(3);
    struct control *control = net->nodes[2].control;
    (void)state;
    net->nodes[2].cut = true;
    assert_int_equal(ring_config_reweigh(control->next, control->config, 1, 300), 0);
    assert_true(register_propose(control->ballots, net->now_ns, control->next, &control->wants));
    (void)control_leave(control, net->now_ns, &net->effects);
    effects_clear(&net->effects);
    net_run(net, 2 * NET_SECOND);
    assert_true(register_next_deadline(control->ballots) < net->now_ns);
    assert_true(control_next_deadline(control) > net->now_ns);
    net_free(net);
}

/* What cannot work is refused at the start, and a broken disk is not mistaken for an empty one. */
static void impossible_options_are_refused(void **state)
{
    struct net *net = net_new();
    struct control_options options = net_options(net, 1, "n1");
    struct control *control = NULL;
    const struct allocator *heap = alloc_heap();
    (void)state;
    options.node_id = 0;
    assert_int_equal(control_new(heap, &options, net->now_ns, &control), TG_EINVALID);
    options.node_id = 1;
    options.identity.vnodes = 63;
    assert_int_equal(control_new(heap, &options, net->now_ns, &control), TG_EINVALID);
    options.identity.vnodes = 64;
    options.identity.replicas = VIEW_REPLICATION_MAX + 1;
    assert_int_equal(control_new(heap, &options, net->now_ns, &control), TG_EINVALID);
    options.identity.replicas = 1;
    options.config = (const uint8_t *)"\xc1";
    options.config_len = 1;
    assert_int_equal(control_new(heap, &options, net->now_ns, &control), TG_ECORRUPT);
    assert_null(control);
    net_free(net);
}

/* Without memory a node does not start, and what it had taken is given back. */
static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    struct net *net = net_new();
    const struct control_options options = net_options(net, 1, "n1");
    struct control *control = NULL;
    int result = TG_ENOMEM;
    (void)state;
    for (size_t fail_at = 1; fail_at < 100 && result != 0; fail_at++) {
        struct alloc_failing failing;
        alloc_failing_init(&failing, fail_at);
        result = control_new(&failing.allocator, &options, net->now_ns, &control);
        assert_true(result == 0 || (result == TG_ENOMEM && control == NULL));
        control_free(&control);
        assert_int_equal(failing.bytes_live, 0);
    }
    assert_int_equal(result, 0);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_without_seeds_creates_a_cluster_at_once),
        cmocka_unit_test(a_joiner_gets_identity_and_configuration),
        cmocka_unit_test(bootstrapping_nodes_that_seed_each_other_end_in_the_cluster_of_the_lowest),
        cmocka_unit_test(a_node_with_seeds_that_may_not_bootstrap_never_creates),
        cmocka_unit_test(an_older_or_equal_configuration_changes_nothing),
        cmocka_unit_test(a_configuration_that_was_missed_is_fetched),
        cmocka_unit_test(a_configuration_is_adopted_only_with_proof_of_its_vote),
        cmocka_unit_test(a_lineage_far_above_is_not_adopted_whoever_says_so),
        cmocka_unit_test(frames_of_another_cluster_change_nothing),
        cmocka_unit_test(clusters_that_gossip_to_each_other_stay_apart),
        cmocka_unit_test(a_node_among_the_seeds_of_another_cluster_says_so),
        cmocka_unit_test(a_node_that_hears_its_own_cluster_goes_on_beside_a_seed_of_another),
        cmocka_unit_test(the_configuration_is_durable_before_it_is_told),
        cmocka_unit_test(a_restarted_node_is_joined_at_once_and_finds_the_others),
        cmocka_unit_test(a_cluster_that_was_stopped_as_a_whole_finds_itself_again),
        cmocka_unit_test(a_transition_ends_when_every_member_has_settled),
        cmocka_unit_test(a_transition_waits_for_its_proposer),
        cmocka_unit_test(members_tell_how_far_they_are_until_the_transition_ends),
        cmocka_unit_test(a_member_that_leaves_is_known_as_left),
        cmocka_unit_test(a_member_that_leaves_has_nothing_left_to_propose),
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_fallback.c - on_failure: local, when all who could decide a key are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

enum { NODES = 5, REPLICAS = 3 };

static const char rules[] =
    "rules:\n"
    "- {name: lent, match: {kind: lent}, key: [user], on_failure: {local: {share: 50%}},\n"
    "   limits: [{rate: 10/h, algorithm: fixed_window}]}\n"
    "- {name: twice, match: {kind: twice}, key: [user], on_failure: local,\n"
    "   limits: [{rate: 4/h, algorithm: fixed_window}, {rate: 6/d, algorithm: fixed_window}]}\n"
    "- {name: soft, match: {kind: soft}, key: [user], on_failure: {local: {share: 50%}},\n"
    "   mode: {soft: {exceed: 50%}}, limits: [{rate: 8/h, algorithm: fixed_window},\n"
    "   {rate: 12/d, algorithm: fixed_window, mode: hard}]}\n"
    "- {name: tiny, match: {kind: tiny}, key: [user], on_failure: {local: {share: 1%}},\n"
    "   limits: [{rate: 3/h, algorithm: fixed_window}]}\n"
    "- {name: burst, match: {kind: burst}, key: [user], on_failure: {local: {share: 50%}},\n"
    "   limits: [{rate: 10/h, burst: 40}]}\n"
    "- {name: kept, match: {kind: kept}, key: [user], on_failure: local, consistency: quorum,\n"
    "   limits: [{rate: 8/h, algorithm: fixed_window}]}\n"
    "- {name: firm, match: {kind: firm}, key: [user],\n"
    "   limits: [{rate: 10/h, algorithm: fixed_window}]}\n";

struct scene {
    struct lab *lab;
    uint32_t vnode;
    uint32_t left[NODES]; /* shards that are no replica of the vnode */
    uint32_t left_count;
    char user[LAB_KEY_LEN];
};

static int set_up(void **state)
{
    struct lab *lab = lab_new(NODES, 1, REPLICAS);
    lab->large = true;
    lab_start_all(lab);
    (void)lab_rules(lab, rules);
    *state = lab;
    return 0;
}

static struct wire_decision ask(struct lab *lab, uint32_t at, const char *kind, const char *user,
                                uint32_t timeout_ms)
{
    char attribute[32];
    (void)snprintf(attribute, sizeof attribute, "kind=%s", kind);
    const char *const attributes[] = {attribute, user, NULL};
    lab_ask_attributes(lab, 1, attributes);
    return lab_answer(lab, lab_send(lab, at, timeout_ms), 0);
}

/* A user whose counter under `rule` has all its replicas among the nodes 0 .. 2, which then stop.
 */
static struct scene scene_without_replicas(struct lab *lab, const char *rule)
{
    struct scene scene = {.lab = lab};
    lab_attribute(lab, rule, "user", 0, scene.user);
    const struct wire_decision first = ask(lab, 3, rule, scene.user, 1000);
    assert_true(first.allowed && !first.degraded);
    scene.vnode = first.vnode;
    for (uint32_t at = 0; at < NODES; at++) {
        bool replica = false;
        for (uint32_t rank = 0; rank < REPLICAS; rank++)
            replica = replica || lab_replica(lab, scene.vnode, rank) == at;
        if (!replica)
            scene.left[scene.left_count++] = at;
    }
    assert_int_equal(scene.left_count, NODES - REPLICAS);
    for (uint32_t rank = 0; rank < REPLICAS; rank++)
        lab_stop(lab, lab_replica(lab, scene.vnode, rank));
    lab_run(lab, 300 * LAB_MS);
    return scene;
}

/* Asked through all nodes that are left, in turn, a key gets its share once: they agree on one
 * fallback leader. Nobody waits for it, and its answers are degraded. */
static void one_stand_in_gives_a_share_of_the_limit(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "lent");
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 12; i++) {
        const int64_t before_ns = lab->now_ns;
        const struct wire_decision got =
            ask(lab, scene.left[i % scene.left_count], "lent", scene.user, 1000);
        assert_true(got.degraded);
        assert_int_equal(got.limit, 5);
        assert_true(lab->now_ns - before_ns < 20 * LAB_MS);
        allowed += got.allowed;
        assert_int_equal(got.allowed, i < 5);
        assert_int_equal(got.outcome, got.allowed ? OUTCOME_ALLOW : OUTCOME_DENY);
    }
    assert_int_equal(allowed, 5);
    uint64_t decided = 0;
    uint32_t fallbacks = 0;
    for (uint32_t i = 0; i < scene.left_count; i++) {
        decided += lab_stats(lab, scene.left[i]).fallbacks;
        fallbacks += lab_stats(lab, scene.left[i]).fallbacks > 0;
    }
    assert_int_equal(decided, 12);
    assert_int_equal(fallbacks, 1);
}

/* What a fallback leader counts is its own: not replicated, not written, and gone when it expires.
 */
static void a_stand_in_keeps_its_counts_to_itself(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "lent");
    uint64_t slots = 0;
    for (uint32_t i = 0; i < scene.left_count; i++)
        slots += lab_stats(lab, scene.left[i]).slots;
    lab_forget(lab);
    assert_true(ask(lab, scene.left[0], "lent", scene.user, 1000).allowed);
    lab_run(lab, 1000 * LAB_MS);
    struct table_stats stats;
    uint64_t held = 0;
    for (uint32_t i = 0; i < scene.left_count; i++) {
        const struct shard *shard = lab->shards[scene.left[i]].shard;
        slots -= lab_stats(lab, scene.left[i]).slots;
        table_stats(shard->fallbacks, &stats);
        held += stats.used;
        assert_false(shard_write_due(shard, lab->now_ns));
    }
    assert_int_equal(slots, 0);
    assert_int_equal(held, 1);
    assert_int_equal(lab_said(lab, LAB_NONE, LAB_NONE, PEER_SLOT, NULL), 0);
    for (uint32_t i = 0; i < 5; i++) { /* the clock goes on by more than an hour */
        lab_pause(lab, INT64_C(1800) * 1000 * LAB_MS);
        lab_run(lab, 100 * LAB_MS);
    }
    held = 0;
    for (uint32_t i = 0; i < scene.left_count; i++) {
        table_stats(lab->shards[scene.left[i]].shard->fallbacks, &stats);
        held += stats.used;
    }
    assert_int_equal(held, 0);
}

/* When somebody is back who may decide, checks go there again, and only there. */
static void the_decider_decides_again_when_it_is_back(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "lent");
    for (uint32_t i = 0; i < 6; i++)
        (void)ask(lab, scene.left[0], "lent", scene.user, 1000);
    const uint32_t back = lab_replica(lab, scene.vnode, 1);
    lab_start(lab, back);
    lab_run(lab, 3000 * LAB_MS);
    const struct wire_decision got = ask(lab, scene.left[0], "lent", scene.user, 1000);
    assert_true(got.allowed);
    assert_int_equal(got.limit, 10);
    assert_int_equal(got.used,
                     1); /* it lost its state; a fallback leader's counts are not merged */
}

/* While a replica lives nobody stands in: the check waits until it has taken over. */
static void a_take_over_needs_no_stand_in(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    lab_attribute(lab, "lent", "user", 0, user);
    const struct wire_decision first = ask(lab, 3, "lent", user, 1000);
    lab_run(lab, 50 * LAB_MS);
    lab_stop(lab, lab_replica(lab, first.vnode, 0));
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t at = i == 0 ? lab_replica(lab, first.vnode, 1) : i % NODES;
        while (lab->shards[at].shard == NULL)
            at = (at + 1) % NODES;
        const struct wire_decision got = ask(lab, at, "lent", user, 2000);
        assert_true(got.allowed);
        assert_int_equal(got.limit, 10);
        assert_int_equal(got.used, i + 2);
    }
    for (uint32_t at = 0; at < NODES; at++)
        if (lab->shards[at].shard != NULL)
            assert_int_equal(lab_stats(lab, at).fallbacks, 0);
}

/* Other rules wait for the deadline as ever, and so do limits without a rule. */
static void only_rules_that_say_local_have_stand_ins(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "firm");
    const int64_t before_ns = lab->now_ns;
    const struct wire_decision got = ask(lab, scene.left[0], "firm", scene.user, 400);
    assert_false(got.allowed);
    assert_int_equal(got.outcome, OUTCOME_ERROR);
    assert_true(got.degraded);
    assert_true(lab->now_ns - before_ns >= 400 * LAB_MS);
    char key[LAB_KEY_LEN];
    lab_key(lab, scene.vnode, 0, key);
    const struct limit limit = lab_limit(5);
    lab_ask(lab, &limit, key, OPERATION_CHECK, 1);
    assert_int_equal(lab_answer(lab, lab_send(lab, scene.left[0], 300), 0).outcome, OUTCOME_ERROR);
    for (uint32_t i = 0; i < scene.left_count; i++)
        assert_int_equal(lab_stats(lab, scene.left[i]).fallbacks, 0);
}

/* Several limits are charged all or none by a fallback leader as well: after the 4 of an hour the
 * day has 2 left, and an hour later gives them. */
static void a_stand_in_charges_all_limits_or_none(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "twice");
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 9; i++)
        allowed += ask(lab, scene.left[i % 2], "twice", scene.user, 1000).allowed;
    assert_int_equal(allowed, 4);
    lab_pause(lab, INT64_C(3600) * 1000 * LAB_MS);
    lab_run(lab, 1000 * LAB_MS);
    for (uint32_t i = 0; i < 9; i++)
        allowed += ask(lab, scene.left[i % 2], "twice", scene.user, 1000).allowed;
    assert_int_equal(allowed, 6);
}

/* A soft limit may be exceeded by its part of the share, and the answer is about the limit that is;
 * a denial tells of the limit that denies longest, and never is longest. */
static void a_share_of_a_soft_limit_may_be_exceeded(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "soft");
    for (uint32_t i = 1; i <= 7; i++) { /* 4 an hour and half as many, 6 a day */
        const struct wire_decision got = ask(lab, scene.left[0], "soft", scene.user, 1000);
        assert_int_equal(got.outcome, i <= 4   ? OUTCOME_ALLOW
                                      : i <= 6 ? OUTCOME_SOFT_EXCEEDED
                                               : OUTCOME_DENY);
        if (i < 7)
            assert_true(got.limit == 4 && got.used == i);
    }
    const char *const attributes[] = {"kind=soft", scene.user, NULL};
    lab_ask_attributes(lab, 7, attributes); /* more than either holds */
    const struct wire_decision never = lab_answer(lab, lab_send(lab, scene.left[0], 1000), 0);
    assert_int_equal(never.retry_after_ms, -1);
}

/* A bucket is lent in part as well: its burst, not only its rate. */
static void a_share_of_a_bucket_is_a_share_of_its_burst(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "burst");
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 30; i++)
        allowed += ask(lab, scene.left[i % 2], "burst", scene.user, 1000).allowed;
    assert_int_equal(allowed, 20);
}

/* The smallest share of the smallest limit is one, not none. */
static void a_share_is_never_nothing(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "tiny");
    assert_true(ask(lab, scene.left[0], "tiny", scene.user, 1000).allowed);
    assert_false(ask(lab, scene.left[1], "tiny", scene.user, 1000).allowed);
}

/* A message that is asked again gets the first answer from the fallback leader too. */
static void a_repeated_check_is_charged_once_by_a_stand_in(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "lent");
    const char *const attributes[] = {"kind=lent", scene.user, NULL};
    for (uint32_t i = 0; i < 2; i++) {
        lab_ask_attributes(lab, 1, attributes);
        const uint64_t seq = lab_send(lab, scene.left[i], 1000);
        assert_int_equal(lab_answer(lab, seq, 0).used, i + 1);
        lab_ask_attributes(lab, 1, attributes);
        lab_send_again(lab, scene.left[i], seq, 1000);
        lab_run(lab, 50 * LAB_MS);
        assert_int_equal(lab_answers(lab, seq), 2);
        assert_int_equal(lab_answer(lab, seq, 0).used, i + 1);
    }
}

/* Without a majority a quorum rule has a fallback leader too, though a replica is left. */
static void a_quorum_rule_has_a_stand_in_without_a_majority(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    lab_attribute(lab, "kept", "user", 0, user);
    lab_run(lab, 3000 * LAB_MS); /* the plane of quorum begins with the first such rule */
    const struct wire_decision first = ask(lab, 3, "kept", user, 1000);
    assert_true(first.allowed && !first.degraded);
    lab_stop(lab, lab_replica(lab, first.vnode, 0));
    lab_stop(lab, lab_replica(lab, first.vnode, 1));
    lab_run(lab, 1000 * LAB_MS);
    const uint32_t last = lab_replica(lab, first.vnode, 2);
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t at = i % NODES;
        while (lab->shards[at].shard == NULL)
            at = (at + 1) % NODES;
        const struct wire_decision got = ask(lab, i % 3 == 0 ? last : at, "kept", user, 1000);
        assert_true(got.degraded);
        allowed += got.allowed;
    }
    assert_int_equal(allowed, 8);
}

/* Who hears a replica stands in for nobody, though others hear none and ask for it: they would get
 * a share from each in turn while a split heals. */
static void who_hears_a_replica_stands_in_for_nobody(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    uint32_t left[NODES];
    uint32_t left_count = 0;
    lab_attribute(lab, "lent", "user", 0, user);
    const struct wire_decision first = ask(lab, 3, "lent", user, 1000);
    for (uint32_t at = 0; at < NODES; at++) {
        bool replica = false;
        for (uint32_t rank = 0; rank < REPLICAS; rank++)
            replica = replica || lab_replica(lab, first.vnode, rank) == at;
        if (!replica)
            left[left_count++] = at;
    }
    assert_int_equal(left_count, 2);
    uint32_t waited = 0;
    for (uint32_t i = 0; i < 2; i++) { /* one of them is the first in the order */
        for (uint32_t cut = 0; cut < 2; cut++) {
            for (uint32_t rank = 0; rank < REPLICAS; rank++) {
                const uint32_t replica = lab_replica(lab, first.vnode, rank);
                lab->cut[left[i]][replica] = cut == 0;
                lab->cut[replica][left[i]] = cut == 0;
            }
            lab_run(lab, 500 * LAB_MS);
            const struct wire_decision got = ask(lab, left[i], "lent", user, 400);
            if (cut == 1)
                assert_int_equal(got.limit, 10);
            waited += got.outcome == OUTCOME_ERROR;
        }
        assert_int_equal(lab_stats(lab, left[1 - i]).fallbacks, 0);
        lab_stop(lab, left[i]); /* and forgets what it counted */
        lab_start(lab, left[i]);
        lab_run(lab, 500 * LAB_MS);
    }
    assert_int_equal(waited, 1);
}

/* The first in the vnode's order that is no replica of it, and the other one that is none. */
static void find_fallback(const struct lab *lab, uint32_t vnode, uint32_t replicas, uint32_t *first,
                          uint32_t *other)
{
    struct shard *shard = lab->shards[0].shard;
    const struct ring_table *ring = &shard->view->to;
    const uint32_t count =
        ring_order(ring, vnodes_ring(shard, vnode), shard->ring_order, RING_MEMBERS_MAX);
    *first = *other = LAB_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t node = ring_member_id(ring, shard->ring_order[i]);
        uint32_t at = 0;
        while (lab->shards[at].node != node)
            at++;
        bool replica = false;
        for (uint32_t rank = 0; rank < replicas; rank++)
            replica = replica || lab_replica(lab, vnode, rank) == at;
        if (!replica && *first == LAB_NONE)
            *first = at;
        else if (!replica)
            *other = at;
    }
}

/* FALLBACK-3: a check that waited for its leader when that one fell silent is the fallback
 * leader's. What the leader says of it after all is not taken for the fallback leader's word. */
static void a_late_answer_of_the_decider_is_not_the_stand_ins(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    uint32_t fallback;
    uint32_t asker;
    struct peer_record first;
    struct peer_record second;
    lab_attribute(lab, "lent", "user", 0, user);
    const uint32_t vnode = ask(lab, 3, "lent", user, 1000).vnode;
    const uint32_t leader = lab_replica(lab, vnode, 0);
    find_fallback(lab, vnode, REPLICAS, &fallback, &asker);
    lab->drop_type = PEER_ANSWER;
    lab_forget(lab);
    const char *const attributes[] = {"kind=lent", user, NULL};
    lab_ask_attributes(lab, 1, attributes);
    const uint64_t seq = lab_send(lab, asker, 5000);
    lab_run(lab, LAB_MS);
    assert_int_equal(lab_said(lab, asker, leader, PEER_FORWARD, &first), 1);
    for (uint32_t rank = 0; rank < REPLICAS; rank++)
        lab_stop(lab, lab_replica(lab, vnode, rank));
    for (uint32_t ms = 0; lab_said(lab, asker, fallback, PEER_FORWARD, NULL) == 0; ms++) {
        assert_true(ms < 500);
        lab_run(lab, LAB_MS);
    }
    lab->drop_type = 0;
    (void)lab_said(lab, asker, fallback, PEER_FORWARD, &second);
    const struct answer late = {.allowed = true, .limit = 10, .used = 9, .granted = 1};
    const struct answer word = {.allowed = true, .degraded = true, .limit = 5, .used = 1};
    peer_put_answer(&lab->records, first.forward.ticket, &late);
    lab_speak(lab, leader, asker);
    assert_false(lab_answered(lab, seq));
    peer_put_answer(&lab->records, second.forward.ticket, &word);
    lab_speak(lab, fallback, asker);
    assert_true(lab_answered(lab, seq));
    assert_int_equal(lab_answer(lab, seq, 0).limit, 5);
}

/* FALLBACK-3: a check whose leader charged it, and then fell silent before that was heard, is one
 * attempt still: whether a fallback leader answers it or the leader after all, what was charged is
 * undone when another rule denies. */
static void what_a_decider_charged_is_undone_though_another_stood_in(void **state)
{
    static const char two_rules[] =
        "rules:\n"
        "- {name: by-user, key: [user], limits: [{rate: 1/h, algorithm: fixed_window}]}\n"
        "- {name: by-host, key: [host], on_failure: local,\n"
        "   limits: [{rate: 20/h, algorithm: fixed_window}]}\n";
    uint32_t at_fallback = 0;
    (void)state;
    for (uint32_t asker = 0; asker <= 2; asker += 2) {
        struct lab *lab = lab_new(3, 1, 1);
        char user[LAB_KEY_LEN];
        char host[LAB_KEY_LEN];
        lab_start_all(lab);
        (void)lab_rules(lab, two_rules);
        lab_attribute(lab, "by-user", "user", 2 - asker, user);
        lab_attribute(lab, "by-host", "host", 1, host);
        const char *const both[] = {user, host, NULL};
        lab_ask_attributes(lab, 1, both);
        assert_true(lab_answer(lab, lab_send(lab, asker, 1000), 0).allowed);
        lab->cut[1][asker] = true;
        lab_ask_attributes(lab, 1, both);
        const uint64_t seq = lab_send(lab, asker, 5000);
        lab_run(lab, 500 * LAB_MS);
        lab->cut[1][asker] = false;
        lab_run(lab, 500 * LAB_MS);
        assert_false(lab_answer(lab, seq, 0).allowed);
        assert_int_equal(lab_stats(lab, asker).undone, 1);
        assert_int_equal(lab_stats(lab, 1).undo_unknown, 0);
        at_fallback += lab_stats(lab, asker).fallbacks > 0;
        lab_ask_attributes(lab, 0, &both[1]);
        assert_int_equal(lab_answer(lab, lab_send(lab, 1, 1000), 0).used, 1);
        lab_free(lab);
    }
    assert_int_equal(at_fallback, 1); /* the other one refuses, for it hears the leader */
}

static bool is_answered(struct lab *lab, void *seq)
{
    return lab_answered(lab, *(const uint64_t *)seq);
}

/* FALLBACK-3: nor is it kept when the node that waits for a fallback leader becomes leader itself:
 * what it charges then is a leader's charge. */
static void what_is_charged_here_after_a_stand_in_was_asked_is_undone(void **state)
{
    static const char two_rules[] =
        "rules:\n"
        "- {name: by-user, key: [user], limits: [{rate: 1/h, algorithm: fixed_window}]}\n"
        "- {name: by-host, key: [host], on_failure: local,\n"
        "   limits: [{rate: 20/h, algorithm: fixed_window}]}\n";
    struct lab *lab = lab_new(3, 1, 1);
    char user[LAB_KEY_LEN];
    char host[LAB_KEY_LEN];
    (void)state;
    lab_start_all(lab);
    (void)lab_rules(lab, two_rules);
    lab_attribute(lab, "by-host", "host", 1, host);
    const char *const of_host[] = {host, NULL};
    lab_ask_attributes(lab, 1, of_host);
    const uint32_t vnode = lab_answer(lab, lab_send(lab, 0, 1000), 0).vnode;
    uint32_t asker;
    uint32_t other;
    find_fallback(lab, vnode, 1, &other, &asker);
    lab_stop(lab, 1);
    lab_run(lab, 300 * LAB_MS);
    lab_attribute(lab, "by-user", "user", asker, user);
    const char *const both[] = {user, host, NULL};
    lab_ask_attributes(lab, 1, both);
    assert_true(lab_answer(lab, lab_send(lab, asker, 1000), 0).allowed);
    lab->drop_type = PEER_ANSWER;
    lab_ask_attributes(lab, 1, both);
    uint64_t seq = lab_send(lab, asker, 20000);
    lab_run(lab, 10 * LAB_MS);
    assert_false(lab_answered(lab, seq));
    lab->dead[1] = lab->dead[other] = true;
    const uint64_t voter = lab->shards[asker].node;
    assert_int_equal(ring_config_set_voters(lab->config_next, lab->config, &voter, 1), 0);
    lab_adopt(lab);
    for (uint32_t at = 1; at != asker; at = at == 1 ? other : asker) {
        assert_int_equal(ring_config_remove(lab->config_next, lab->config, lab->shards[at].node),
                         0);
        lab_adopt(lab);
        assert_int_equal(ring_config_settle(lab->config_next, lab->config), 0);
        lab_adopt(lab);
    }
    lab_until(lab, is_answered, &seq, 10000 * LAB_MS);
    assert_false(lab_answer(lab, seq, 0).allowed);
    assert_int_equal(lab_role(lab, asker, vnode), SHARD_LEADING);
    lab_ask_attributes(lab, 0, of_host);
    assert_int_equal(lab_answer(lab, lab_send(lab, asker, 1000), 0).used, 0);
    lab_free(lab);
}

/* FALLBACK-1: who decides may be none of those that should: it did before the ring changed, say.
 * While it is heard nobody stands in. */
static void a_decider_that_is_no_replica_needs_no_stand_in(void **state)
{
    struct lab *lab = *state;
    const struct scene scene = scene_without_replicas(lab, "lent");
    struct shard *shard = lab->shards[scene.left[0]].shard;
    struct vnode *vnode = &shard->vnodes[scene.vnode];
    const uint64_t other = lab->shards[scene.left[1]].node;
    vnode->hint = PEER_NONE;
    assert_true(fallback_needed(shard, scene.vnode));
    vnode->hint = peers_for(shard, lab->shards[lab_replica(lab, scene.vnode, 0)].node, scene.vnode);
    assert_true(fallback_needed(shard, scene.vnode));
    vnode->hint = peers_for(shard, other, scene.vnode);
    assert_false(fallback_needed(shard, scene.vnode));
    lab_stop(lab, scene.left[1]);
    lab_run(lab, 300 * LAB_MS);
    assert_true(fallback_needed(shard, scene.vnode));
}

int main(void)
{
#define TEST(name) LAB_TEST(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(one_stand_in_gives_a_share_of_the_limit),
        TEST(a_stand_in_keeps_its_counts_to_itself),
        TEST(the_decider_decides_again_when_it_is_back),
        TEST(a_take_over_needs_no_stand_in),
        TEST(only_rules_that_say_local_have_stand_ins),
        TEST(a_stand_in_charges_all_limits_or_none),
        TEST(a_share_of_a_soft_limit_may_be_exceeded),
        TEST(a_share_of_a_bucket_is_a_share_of_its_burst),
        TEST(a_share_is_never_nothing),
        TEST(a_repeated_check_is_charged_once_by_a_stand_in),
        TEST(a_quorum_rule_has_a_stand_in_without_a_majority),
        TEST(who_hears_a_replica_stands_in_for_nobody),
        TEST(a_late_answer_of_the_decider_is_not_the_stand_ins),
        TEST(what_a_decider_charged_is_undone_though_another_stood_in),
        TEST(what_is_charged_here_after_a_stand_in_was_asked_is_undone),
        TEST(a_decider_that_is_no_replica_needs_no_stand_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_credible.c - numbers near the end of their range, in records of peers: nothing of them
 * lasts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/peer/credible.h"
#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

static const char KEY[] = "key";

/* A record in which the vnode's term, the state's and the place are what is given. */
static bool said(struct lab *lab, uint32_t at, uint32_t vnode, struct term term, uint64_t seq)
{
    struct peer_record record = {.type = PEER_OPENED};
    record.vnode.vnode = vnode;
    record.vnode.term = term;
    record.vnode.state = term;
    record.vnode.seq = seq;
    return credible_record(lab->shards[at].shard, vnode, &record);
}

static void numbers_rise_by_what_a_node_may_have_missed(void **state)
{
    struct lab *lab = *state;
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t at = lab_replica(lab, vnode, 1);
    const struct term known = lab->shards[at].shard->vnodes[vnode].term;
    const uint64_t round = UINT64_C(1) << TERM_INCARNATION_BITS;
    struct term term = known;
    assert_true(said(lab, at, vnode, term, 0));
    term.number = known.number + (round << 20);
    assert_true(said(lab, at, vnode, term, 0));
    term.number += round;
    assert_false(said(lab, at, vnode, term, 0));
    term.number = UINT64_MAX;
    assert_false(said(lab, at, vnode, term, 0));
    term = known;
    term.epoch += 1 << 20;
    assert_true(said(lab, at, vnode, term, 0));
    term.epoch++;
    assert_false(said(lab, at, vnode, term, 0));
    term.epoch = UINT64_C(1024) << 40 | 1;
    assert_true(said(lab, at, vnode, term, 0));
    term.epoch = UINT64_C(1025) << 40 | 1;
    assert_false(said(lab, at, vnode, term, 0));
    term.epoch = UINT64_MAX;
    assert_false(said(lab, at, vnode, term, 0));
    assert_true(said(lab, at, vnode, known, UINT64_C(1) << 48));
    assert_false(said(lab, at, vnode, known, UINT64_C(1) << 50));
    assert_false(said(lab, at, vnode, known, UINT64_MAX));
}

/* After any of them the vnode is decided, and a replica can take over from its leader. */
static void no_record_takes_the_last_term_of_a_vnode(void **state)
{
    static const enum peer_record_type types[] = {PEER_STALE, PEER_OPENED, PEER_REPORT, PEER_QUERY};
    struct lab *lab = *state;
    const struct limit limit = lab_limit(1000);
    const uint32_t vnode = lab_vnode_of(lab, KEY);
    const uint32_t leader = lab_replica(lab, vnode, 0);
    const uint32_t next = lab_replica(lab, vnode, 1);
    const uint32_t last = lab_replica(lab, vnode, 2);
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
        const struct peer_vnode entry = {
            .vnode = vnode,
            .role = ROLE_LEADING,
            .term = {i % 2 == 0 ? UINT64_MAX >> 2 : 1, UINT64_MAX >> 2, lab->shards[last].node},
            .state = {1, UINT64_MAX >> 2, lab->shards[last].node},
            .seq = UINT64_MAX,
        };
        for (uint32_t to = 0; to < 3; to++) {
            if (to == last)
                continue;
            peer_put_vnode(&lab->records, types[i / 2], &entry);
            lab_speak(lab, last, to);
        }
        lab_run(lab, 10 * LAB_MS);
    }
    assert_int_equal(lab_stats(lab, leader).forged_frames, 8);
    assert_int_equal(lab_leader(lab, vnode), leader);
    lab_stop(lab, leader);
    lab_run(lab, 300 * LAB_MS);
    assert_int_equal(lab_leader(lab, vnode), next);
    assert_true(lab_check(lab, next, KEY, &limit, 1).allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(numbers_rise_by_what_a_node_may_have_missed),
        LAB_TEST_THREE(no_record_takes_the_last_term_of_a_vnode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

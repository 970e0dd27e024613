/* test_firsts.c - first answers that replicas know: a request that is asked again when its leader
 * has died is charged once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/shard_state.h"
#include "tests/unit/support_shard.h"

enum { DEAD = 1, ASKED = 0, OTHER = 2, KEYS = 40 };

static char keys[KEYS][LAB_KEY_LEN];

/* Keys of different vnodes, decided by DEAD as a whole only if `one_vnode`. */
static void name_keys(struct lab *lab, bool one_vnode)
{
    const uint32_t vnode = lab_vnode_owned(lab, DEAD);
    for (uint32_t i = 0; i < KEYS; i++)
        lab_key(lab, one_vnode ? vnode : i % LAB_VNODES, i + (one_vnode ? KEYS : 0), keys[i]);
}

static void put_all(struct lab *lab, const struct limit *limit, uint8_t operation, uint64_t cost)
{
    for (uint32_t i = 0; i < KEYS; i++)
        lab_ask(lab, limit, keys[i], operation, cost);
}

static uint64_t ask_all(struct lab *lab, const struct limit *limit)
{
    put_all(lab, limit, OPERATION_CHECK, 1);
    const uint64_t seq = lab_send(lab, ASKED, 1000);
    assert_true(lab_answer(lab, seq, 0).allowed);
    return seq;
}

static void ask_again(struct lab *lab, const struct limit *limit, uint32_t at, uint64_t seq)
{
    const uint32_t answers = lab_answers(lab, seq);
    put_all(lab, limit, OPERATION_CHECK, 1);
    lab_send_again(lab, at, seq, 1000);
    while (lab_answers(lab, seq) == answers)
        lab_run(lab, LAB_MS);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_true(lab_answer(lab, seq, i).allowed);
}

static void assert_all_used(struct lab *lab, const struct limit *limit, uint64_t used)
{
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(lab_used(lab, OTHER, keys[i], limit), used);
}

static uint64_t lost(struct lab *lab)
{
    uint64_t sum = 0;
    for (uint32_t at = 0; at < 3; at++)
        if (lab->shards[at].shard != NULL)
            sum += lab_stats(lab, at).retry_lost;
    return sum;
}

/* The leader dies milliseconds after it has answered: what it answered is not charged again by
 * whoever decides next, for keys of all vnodes and for many of one. */
static void a_repeat_is_charged_once_though_its_decider_died(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    for (uint32_t one_vnode = 0; one_vnode < 2; one_vnode++) {
        name_keys(lab, one_vnode != 0);
        const uint64_t seq = ask_all(lab, &limit);
        lab_run(lab, 6 * LAB_MS);
        lab_stop(lab, DEAD);
        ask_again(lab, &limit, OTHER, seq);
        assert_all_used(lab, &limit, 1);
        assert_int_equal(lost(lab), 0);
        lab_start(lab, DEAD);
        lab_settle(lab);
    }
}

/* A replica that came back has all that its leader knows, with its copy. */
static void a_complete_copy_brings_the_answers(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    name_keys(lab, false);
    lab_stop(lab, OTHER);
    lab_run(lab, 20 * LAB_MS);
    const uint64_t seq = ask_all(lab, &limit);
    lab_start(lab, OTHER);
    lab_run(lab, 400 * LAB_MS);
    lab_stop(lab, DEAD);
    lab_stop(lab, ASKED);
    lab_run(lab, 200 * LAB_MS);
    ask_again(lab, &limit, OTHER, seq);
    assert_all_used(lab, &limit, 1);
}

/* A leader that stops in order passes them on. */
static void a_decider_that_stops_leaves_the_answers(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    bool done = false;
    name_keys(lab, false);
    const uint64_t seq = ask_all(lab, &limit);
    for (uint32_t i = 0; i < 200 && !done; i++) {
        done = shard_resign(lab->shards[DEAD].shard, lab->now_ns, &lab->effects);
        lab_perform(lab, DEAD);
        lab_run(lab, LAB_MS);
    }
    assert_true(done);
    lab_stop(lab, DEAD);
    ask_again(lab, &limit, OTHER, seq);
    assert_all_used(lab, &limit, 1);
}

/* After two seconds it is a new request. */
static void an_answer_is_known_for_two_seconds(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    name_keys(lab, false);
    const uint64_t seq = ask_all(lab, &limit);
    lab_run(lab, RETRY_KEEP_NS + 20 * LAB_MS);
    lab_stop(lab, DEAD);
    ask_again(lab, &limit, OTHER, seq);
    assert_all_used(lab, &limit, 2);
}

/* Denials are not told: they charged nothing. Nor is what will not be asked again. */
static void only_what_charged_something_is_told(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(10);
    name_keys(lab, true);
    put_all(lab, &limit, OPERATION_CHECK, 11);
    assert_false(lab_answer(lab, lab_send(lab, DEAD, 1000), 0).allowed);
    put_all(lab, &limit, OPERATION_PEEK, 1);
    assert_true(lab_answer(lab, lab_send(lab, DEAD, 1000), 0).allowed);
    put_all(lab, &limit, OPERATION_CHECK, 1);
    assert_true(lab_answer(lab, lab_send_flagged(lab, DEAD, WIRE_FLAG_ONCE, 1000), 0).allowed);
    lab_run(lab, 10 * LAB_MS);
    assert_int_equal(lab_said(lab, DEAD, LAB_NONE, PEER_FIRSTS, NULL), 0);
    put_all(lab, &limit, OPERATION_CHECK, 1);
    assert_true(lab_answer(lab, lab_send(lab, DEAD, 1000), 0).allowed);
    lab_run(lab, 10 * LAB_MS);
    assert_true(lab_said(lab, DEAD, LAB_NONE, PEER_FIRSTS, NULL) >= 2);
}

/* More than are noted at once are counted, and so are those that make room for others. */
static void what_is_not_told_is_counted(void **state)
{
    struct lab *lab = *state;
    const struct limit limit = lab_limit(1000000);
    const uint32_t messages = FIRSTS_BURST / KEYS + 100;
    name_keys(lab, true);
    for (uint32_t i = 0; i < messages; i++) {
        put_all(lab, &limit, OPERATION_CHECK, 1);
        (void)lab_answer(lab, lab_send(lab, DEAD, 1000), 0);
    }
    lab_run(lab, LAB_MS);
    assert_in_range(lost(lab), 1, (uint64_t)messages * KEYS);
    assert_true(lab_stats(lab, DEAD).retry_lost > 0);
}

/* Three of a limit that a majority keeps, whose leader is DEAD; names the user that asks. */
static uint64_t ask_a_majority(struct lab *lab, char user[LAB_KEY_LEN])
{
    const char *const attributes[] = {user, NULL};
    lab_rules(lab, "rules: [{name: kept, key: [user], consistency: quorum, "
                   "limits: [{rate: 10/d, algorithm: fixed_window}]}]\n");
    lab_attribute(lab, "kept", "user", DEAD, user);
    lab_run(lab, 500 * LAB_MS);
    lab_ask_attributes(lab, 3, attributes);
    const uint64_t seq = lab_send(lab, ASKED, 1000);
    assert_true(lab_answer(lab, seq, 0).allowed);
    return seq;
}

/* What a majority holds is charged once, too: the answer goes with what is accepted. */
static void a_repeat_to_a_majority_is_charged_once(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    const char *const attributes[] = {user, NULL};
    const uint64_t seq = ask_a_majority(lab, user);
    lab_stop(lab, DEAD);
    lab_ask_attributes(lab, 3, attributes);
    lab_send_again(lab, OTHER, seq, 1000);
    lab_run(lab, 900 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    assert_true(lab_answer(lab, seq, 0).allowed);
    lab_ask_attributes_as(lab, OPERATION_PEEK, 0, attributes);
    assert_int_equal(lab_answer(lab, lab_send(lab, OTHER, 1000), 0).used, 3);
}

/* A leader of a majority's state that is killed and back at once has that in its journal, and the
 * answers of those who hold the same. */
static void a_decider_that_is_back_at_once_is_told_the_answers(void **state)
{
    struct lab *lab = *state;
    char user[LAB_KEY_LEN];
    const char *const attributes[] = {user, NULL};
    const uint64_t seq = ask_a_majority(lab, user);
    lab_run(lab, 5 * LAB_MS);
    lab_stop(lab, DEAD);
    lab_start(lab, DEAD);
    lab_run(lab, 300 * LAB_MS);
    lab_ask_attributes(lab, 3, attributes);
    lab_send_again(lab, DEAD, seq, 1000);
    lab_run(lab, 600 * LAB_MS);
    assert_int_equal(lab_answers(lab, seq), 2);
    lab_ask_attributes_as(lab, OPERATION_PEEK, 0, attributes);
    assert_int_equal(lab_answer(lab, lab_send(lab, OTHER, 1000), 0).used, 3);
}

/* Tells the replica all answers of the vnode, as a complete copy does. */
static void copy_answers(struct lab *lab, uint32_t vnode)
{
    static uint8_t bytes[4096];
    struct shard *from = lab->shards[DEAD].shard;
    struct bytes_writer writer;
    struct bytes_reader reader;
    struct peer_record record;
    bytes_writer_init(&writer, bytes, sizeof bytes);
    firsts_restart(from, vnode, 0);
    firsts_put(from, vnode, 0, &writer);
    bytes_reader_init(&reader, bytes, writer.len);
    while (peer_next(&reader, 2 * LAB_VNODES, &record) > 0)
        firsts_take(lab->shards[ASKED].shard, vnode, &record.firsts, &from->vnodes[vnode].term,
                    false);
}

/* FIRSTS-4, FIRSTS-5: of several answers to one request the newest counts, and none that was given
 * back; also for who is told them again. */
static void the_newest_answer_counts_and_none_that_was_given_back(void **state)
{
    struct lab *lab = *state;
    struct shard *from = lab->shards[DEAD].shard;
    struct shard *to = lab->shards[ASKED].shard;
    const uint32_t vnode = lab_vnode_owned(lab, DEAD);
    const struct retry_key key = {.session = 5, .seq = 6};
    const uint64_t tag = retry_tag(&from->reserves.answers, &key);
    struct retry_memory_entry found;
    lab_run(lab, 100 * LAB_MS);
    firsts_note(from, vnode, tag, 1, 0, 3, FIRST_ALLOWED | FIRST_SEVERAL);
    firsts_undone(from, vnode, tag, NULL);
    for (uint32_t again = 0; again < 3; again++) {
        copy_answers(lab, vnode);
        assert_false(firsts_recall(to, vnode, &key, &key, true));
        lab->now_ns += 50 * LAB_MS;
        lab_tick(lab, ASKED);
        lab_tick(lab, DEAD);
    }
    firsts_note(from, vnode, tag, 2, 0, 4, FIRST_ALLOWED | FIRST_SEVERAL);
    for (uint32_t again = 0; again < 3; again++) {
        copy_answers(lab, vnode);
        assert_true(firsts_recall(to, vnode, &key, &key, true));
        assert_true(retry_look(&to->reserves.answers, &key, lab->now_ns, &found));
        assert_int_equal(found.granted, 4);
        lab->now_ns += 50 * LAB_MS;
        lab_tick(lab, ASKED);
        lab_tick(lab, DEAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST_THREE(a_repeat_is_charged_once_though_its_decider_died),
        LAB_TEST_THREE(a_complete_copy_brings_the_answers),
        LAB_TEST_THREE(a_decider_that_stops_leaves_the_answers),
        LAB_TEST_THREE(an_answer_is_known_for_two_seconds),
        LAB_TEST_THREE(only_what_charged_something_is_told),
        LAB_TEST_THREE(what_is_not_told_is_counted),
        LAB_TEST_THREE(the_newest_answer_counts_and_none_that_was_given_back),
        LAB_TEST_THREE(a_repeat_to_a_majority_is_charged_once),
        LAB_TEST_THREE(a_decider_that_is_back_at_once_is_told_the_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

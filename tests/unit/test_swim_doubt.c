/* test_swim_doubt.c - claims that are too much to believe: nothing that one frame says lasts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/swim.h"
#include "gossip/swim_doubt.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_record.h"
#include "gossip/swim_rumour.h"
#include "gossip/swim_table.h"
#include "tests/unit/support_swim.h"

#define START_NS INT64_C(1700000000000000000)
#define WILD     (SWIM_INCARNATION_MAX - 1)

static const uint8_t cluster[SWIM_CLUSTER_ID_LEN] = {7};
static struct swim_effects out;

static struct swim_record record_of(uint64_t id, uint64_t incarnation)
{
    struct swim_record record = {.id = id, .incarnation = incarnation, .version = 1};
    (void)snprintf(record.name, sizeof record.name, "n%u", (unsigned)id);
    (void)snprintf(record.gossip, sizeof record.gossip, "127.0.0.1:%u", (unsigned)id);
    return record;
}

static struct swim *node_new(uint32_t members_max)
{
    struct swim *swim;
    struct swim_options options;
    const struct swim_record record = record_of(1, 5);
    swim_options_default(&options);
    options.members_max = members_max;
    assert_int_equal(swim_new(&swim, alloc_heap(), &options, &record, cluster, 1), 0);
    swim_effects_clear(&out);
    swim_tick(swim, START_NS, &out);
    swim_effects_clear(&out);
    return swim;
}

static struct swim_item item_of(uint64_t id, enum swim_state state, uint64_t incarnation)
{
    struct swim_item item = {.id = id, .state = state, .incarnation = incarnation};
    item.has_record = true;
    item.record = record_of(id, incarnation);
    item.accusers[0] = 9;
    item.accusers_count = state == SWIM_SUSPECT ? 1 : 0;
    return item;
}

static void claim(struct swim *swim, uint64_t id, enum swim_state state, uint64_t incarnation)
{
    const struct swim_item item = item_of(id, state, incarnation);
    swim->out = &out;
    const char *owner = swim_apply(swim, &item, false, 9);
    if (owner != NULL)
        swim_doubt(swim, id, owner);
    swim_events_flush(swim);
    swim->out = NULL;
    swim_check_invariants(swim);
}

/* A frame of `sender` with a body that is already written. */
static size_t frame_begin(struct mp_writer *writer, uint8_t *bytes, enum swim_kind kind,
                          uint64_t seq, const struct swim_record *sender)
{
    mp_writer_init(writer, bytes, SWIM_MESSAGE_MAX);
    mp_put_array(writer, 11);
    mp_put_uint(writer, 1);
    mp_put_bin(writer, cluster, sizeof cluster);
    mp_put_uint(writer, kind);
    mp_put_uint(writer, seq);
    mp_put_uint(writer, sender->id);
    mp_put_uint(writer, sender->incarnation);
    mp_put_str(writer, sender->gossip);
    mp_put_int(writer, START_NS);
    mp_put_uint(writer, 0);
    return writer->len;
}

static void receive_welcome(struct swim *swim, uint64_t seq, const struct swim_record *record)
{
    uint8_t bytes[SWIM_MESSAGE_MAX];
    struct mp_writer writer;
    (void)frame_begin(&writer, bytes, SWIM_WELCOME, seq, record);
    mp_put_array(&writer, 1);
    swim_record_put(&writer, record);
    mp_put_array(&writer, 0);
    assert_false(writer.failed);
    assert_int_equal(swim_receive(swim, swim->now_ns, bytes, writer.len, &out), 0);
    swim_check_invariants(swim);
}

/* News of one member in the name of another. */
static size_t rumour_put(uint8_t *bytes, const struct swim_record *sender,
                         const struct swim_record *about, enum swim_state state,
                         uint64_t incarnation)
{
    struct mp_writer writer;
    struct swim_slot slot = {.used = true};
    slot.member.record = *about;
    slot.member.record.incarnation = incarnation;
    slot.member.incarnation = incarnation;
    slot.member.state = state;
    slot.accusers_count = state == SWIM_SUSPECT ? 1 : 0;
    slot.accusers[0] = sender->id;
    (void)frame_begin(&writer, bytes, SWIM_GOSSIP, 0, sender);
    mp_put_array(&writer, 0);
    mp_put_array(&writer, 1);
    swim_item_put(&writer, &slot, true, 0);
    assert_false(writer.failed);
    return writer.len;
}

static uint64_t asked_seq(const struct swim *swim, uint64_t id)
{
    for (int i = 0; i < SWIM_DOUBTS_MAX; i++)
        if (swim->doubts[i].id == id)
            return swim->doubts[i].seq;
    return 0;
}

/* ---- one node -------------------------------------------------------------------------------- */

static void a_claim_far_above_what_is_known_changes_nothing_and_its_owner_is_asked(void **state)
{
    (void)state;
    for (int claimed = SWIM_ALIVE; claimed <= SWIM_LEFT; claimed++) {
        struct swim *swim = node_new(8);
        struct swim_stats stats;
        claim(swim, 2, SWIM_ALIVE, 3);
        swim_effects_clear(&out);
        claim(swim, 2, (enum swim_state)claimed, 3 + SWIM_INCARNATION_STEP + 1);
        claim(swim, 2, (enum swim_state)claimed, WILD);
        assert_int_equal(swim_find(swim, 2)->state, SWIM_ALIVE);
        assert_int_equal(swim_find(swim, 2)->incarnation, 3);
        assert_int_equal(out.sends_count, 1); /* not once a claim */
        assert_string_equal(out.sends[0].address, "127.0.0.1:2");
        swim_stats(swim, &stats);
        assert_int_equal(stats.doubts, 2);
        claim(swim, 2, (enum swim_state)claimed, 3 + SWIM_INCARNATION_STEP);
        assert_int_equal(swim_find(swim, 2)->state, claimed);
        swim_free(&swim);
    }
}

static void what_the_owner_answers_counts_up_and_down(void **state)
{
    (void)state;
    const uint64_t said[] = {1 << 20, 4};
    for (int i = 0; i < 2; i++) {
        struct swim *swim = node_new(8);
        const uint64_t known = i == 0 ? 3 : SWIM_INCARNATION_MAX;
        const struct swim_record record = record_of(2, said[i]);
        claim(swim, 2, i == 0 ? SWIM_ALIVE : SWIM_LEFT, known);
        if (i == 0)
            claim(swim, 2, SWIM_ALIVE, said[i]);
        else
            receive_welcome(swim, 1, &record); /* nobody asked for it */
        assert_int_equal(swim_find(swim, 2)->incarnation, known);
        if (i == 1) { /* that it speaks, and as of long ago, is reason to ask */
            uint8_t bytes[SWIM_MESSAGE_MAX];
            const size_t len = rumour_put(bytes, &record, &record, SWIM_ALIVE, 4);
            assert_int_equal(swim_receive(swim, START_NS, bytes, len, &out), 0);
        }
        const uint64_t seq = asked_seq(swim, 2);
        assert_true(seq != 0);
        receive_welcome(swim, seq + 2, &record); /* a guess */
        assert_int_equal(swim_find(swim, 2)->incarnation, known);
        receive_welcome(swim, seq, &record);
        assert_int_equal(swim_find(swim, 2)->incarnation, said[i]);
        assert_int_equal(swim_find(swim, 2)->state, SWIM_ALIVE);
        swim_free(&swim);
    }
}

static void nobody_leaves_by_a_rumour_whom_the_ring_has(void **state)
{
    (void)state;
    const uint64_t ring[] = {1, 2};
    struct swim *swim = node_new(8);
    swim_ring(swim, ring, 2);
    claim(swim, 2, SWIM_ALIVE, 3);
    claim(swim, 3, SWIM_ALIVE, 3);
    claim(swim, 2, SWIM_LEFT, 3);
    claim(swim, 3, SWIM_LEFT, 3);
    assert_int_equal(swim_find(swim, 2)->state, SWIM_SUSPECT);
    assert_int_equal(swim_find(swim, 3)->state, SWIM_LEFT);
    claim(swim, 2, SWIM_ALIVE, 4);
    assert_int_equal(swim_find(swim, 2)->state, SWIM_ALIVE);
    swim_ring(swim, ring, 1);
    claim(swim, 2, SWIM_LEFT, 4);
    assert_int_equal(swim_find(swim, 2)->state, SWIM_LEFT);
    swim_free(&swim);
}

static void a_node_refutes_what_is_said_of_it_but_follows_no_wild_number(void **state)
{
    (void)state;
    struct swim *swim = node_new(8);
    claim(swim, 1, SWIM_SUSPECT, 5);
    assert_int_equal(swim_self(swim)->incarnation, 6);
    claim(swim, 1, SWIM_LEFT, 6 + SWIM_INCARNATION_STEP);
    assert_int_equal(swim_self(swim)->incarnation, 7 + SWIM_INCARNATION_STEP);
    for (int said = SWIM_ALIVE; said <= SWIM_LEFT; said++) {
        claim(swim, 1, (enum swim_state)said, WILD);
        claim(swim, 1, (enum swim_state)said, SWIM_INCARNATION_START_MAX + 1);
    }
    assert_int_equal(swim_self(swim)->incarnation, 7 + SWIM_INCARNATION_STEP);
    assert_int_equal(out.persist_incarnation, 7 + SWIM_INCARNATION_STEP);
    claim(swim, 1, SWIM_LEFT, SWIM_INCARNATION_START_MAX); /* as an older release would believe */
    assert_int_equal(swim_self(swim)->incarnation, SWIM_INCARNATION_START_MAX + 1);
    swim_free(&swim);
}

/* DOUBT-4: whoever is suspect here and does not know is told, however long ago the rumour ran
 * out. */
static void who_is_suspect_and_speaks_is_told_of_it_again(void **state)
{
    struct swim *swim = node_new(64);
    struct swim_record other = record_of(2, 7);
    uint8_t bytes[SWIM_MESSAGE_MAX];
    (void)state;
    claim(swim, 2, SWIM_ALIVE, 7);
    claim(swim, 2, SWIM_SUSPECT, 8);
    const uint32_t at = swim_lookup(swim, 2);
    swim_rumour_stop(swim, at);
    const struct swim_record third = record_of(3, 1);
    for (uint64_t says = 7; says < 10; says++) {
        other.incarnation = says;
        const size_t len = rumour_put(bytes, &other, &third, SWIM_ALIVE, 1);
        swim_effects_clear(&out);
        assert_int_equal(swim_receive(swim, swim->now_ns, bytes, len, &out), 0);
        assert_int_equal(swim->slots[at].rumour, says <= 8);
        swim_rumour_stop(swim, at);
    }
    swim_free(&swim);
}

static void a_process_starts_though_its_incarnation_was_driven_up(void **state)
{
    (void)state;
    const uint64_t now_ms = START_NS / 1000000;
    assert_int_equal(swim_incarnation_start(1, now_ms), 1);
    assert_int_equal(swim_incarnation_start(SWIM_INCARNATION_START_MAX, now_ms),
                     SWIM_INCARNATION_START_MAX);
    assert_int_equal(swim_incarnation_start(SWIM_INCARNATION_START_MAX + 1, now_ms), now_ms);
    assert_int_equal(swim_incarnation_start(UINT64_MAX, now_ms), now_ms);
    assert_int_equal(swim_incarnation_start(UINT64_MAX, UINT64_MAX), SWIM_INCARNATION_START_MAX);
}

static void members_that_only_gossip_knows_are_bounded_and_make_room_for_the_ring(void **state)
{
    (void)state;
    uint64_t ring[100] = {1};
    struct swim *swim = node_new(100);
    struct swim_stats stats;
    for (uint64_t i = 1; i < 100; i++)
        ring[i] = 1000 + i;
    swim_ring(swim, ring, 100);
    for (uint64_t id = 2; id < 3002; id++) {
        claim(swim, id < 1000 ? id : id + 1000, SWIM_ALIVE, 1);
        swim_effects_clear(&out);
    }
    swim_stats(swim, &stats);
    assert_int_equal(stats.alive, 1 + SWIM_STRANGERS_MAX);
    assert_int_equal(stats.strangers_refused, 3000 - SWIM_STRANGERS_MAX);
    for (uint64_t i = 1; i < 100; i++) {
        claim(swim, ring[i], SWIM_ALIVE, 1);
        swim_effects_clear(&out);
    }
    for (uint64_t i = 1; i < 100; i++)
        assert_non_null(swim_find(swim, ring[i]));
    swim_free(&swim);
}

static void messages_from_where_nobody_is_known_are_answered_at_a_bounded_rate(void **state)
{
    (void)state;
    struct swim *swim = node_new(8);
    uint64_t sent = 0;
    struct swim_stats stats;
    uint8_t bytes[SWIM_MESSAGE_MAX];
    struct mp_writer writer;
    struct swim_record stranger = record_of(77, 1);
    for (int i = 0; i < 20000; i++) { /* within two seconds */
        (void)snprintf(stranger.gossip, sizeof stranger.gossip, "10.0.0.1:%d", 1 + i);
        (void)frame_begin(&writer, bytes, SWIM_PING, 1, &stranger);
        mp_put_array(&writer, 0);
        mp_put_array(&writer, 0);
        swim_effects_clear(&out);
        assert_int_equal(
            swim_receive(swim, START_NS + (int64_t)i * 100000, bytes, writer.len, &out), 0);
        for (size_t n = 0; n < out.sends_count; n++)
            sent += strncmp(out.sends[n].address, "10.0.0.1:", 9) == 0;
    }
    swim_stats(swim, &stats);
    assert_in_range(sent, 1000, SWIM_MEMBERS_MAX + 2 * 250 + 100);
    assert_in_range(stats.strangers_refused, 20000 - SWIM_MEMBERS_MAX - 2 * 250 - 10, 20000);
    swim_free(&swim);
}

/* ---- several --------------------------------------------------------------------------------- */

static void tell_of(struct swarm *swarm, uint32_t at, const struct swim_record *about,
                    enum swim_state state, uint64_t incarnation)
{
    uint8_t bytes[SWIM_MESSAGE_MAX];
    struct swarm_node *node = &swarm->nodes[at];
    const struct swim_record sender = swarm->nodes[(at + 1) % swarm->nodes_count].record;
    uint8_t id[SWIM_CLUSTER_ID_LEN];
    memcpy(id, node->swim->cluster_id, sizeof id);
    const size_t len = rumour_put(bytes, &sender, about, state, incarnation);
    memcpy(bytes + 4, id, sizeof id); /* behind the heads of array, number and bin */
    assert_int_equal(swim_receive(node->swim, swarm->now_ns, bytes, len, &swarm->effects), 0);
    swarm_do(swarm, at);
    swarm_schedule(swarm, at);
}

static void tell(struct swarm *swarm, uint32_t at, uint32_t about, enum swim_state state,
                 uint64_t incarnation)
{
    tell_of(swarm, at, &swarm->nodes[about].record, state, incarnation);
}

/* The ring is the first three nodes, and each of them knows. */
static void ring_of_three(struct swarm *swarm)
{
    uint64_t ids[3] = {swarm_id(0), swarm_id(1), swarm_id(2)};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = i + 1; j < 3; j++)
            if (ids[j] < ids[i]) {
                const uint64_t id = ids[i];
                ids[i] = ids[j];
                ids[j] = id;
            }
    for (uint32_t i = 0; i < 3; i++)
        swim_ring(swarm->nodes[i].swim, ids, 3);
}

/* However many are made up, those of the ring are probed as before, nearly. */
static void a_death_is_noticed_though_many_are_made_up(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(3, 11);
    assert_in_range(swarm_settle(swarm, 60 * SWARM_SECOND), 0, 60 * SWARM_SECOND);
    ring_of_three(swarm);
    for (uint32_t i = 0; i < 3000; i++) {
        struct swim_record fake = record_of(1 << 20 | i, 1);
        (void)snprintf(fake.gossip, sizeof fake.gossip, "10.9.9.9:%u", 100 + i % 800);
        tell_of(swarm, i % 2, &fake, SWIM_ALIVE, 1);
    }
    swarm_kill(swarm, 2);
    swarm_run(swarm, 8 * SWARM_SECOND);
    for (uint32_t i = 0; i < 2; i++) {
        struct swim_stats stats;
        swim_stats(swarm->nodes[i].swim, &stats);
        assert_int_equal(swim_find(swarm->nodes[i].swim, swarm_id(2))->state, SWIM_DEAD);
        assert_true(stats.local_health <= 2);
    }
    swarm_free(swarm);
}

static void three_nodes_stay_one_cluster_whatever_is_said_of_them(void **state)
{
    (void)state;
    const uint64_t numbers[] = {1, 2, 1000, 1025, 100000, WILD, SWIM_INCARNATION_MAX};
    for (int said = SWIM_ALIVE; said <= SWIM_LEFT; said++) {
        struct swarm *swarm = swarm_new(3, 17 + (uint64_t)said);
        assert_in_range(swarm_settle(swarm, 60 * SWARM_SECOND), 0, 60 * SWARM_SECOND);
        ring_of_three(swarm);
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
            for (uint32_t i = 0; i < 9; i++)
                tell(swarm, i / 3, i % 3, (enum swim_state)said, numbers[n]);
            assert_in_range(swarm_settle(swarm, 10 * SWARM_SECOND), 0, 10 * SWARM_SECOND);
        }
        for (uint32_t i = 0; i < 3; i++)
            assert_true(swim_self(swarm->nodes[i].swim)->incarnation < SWIM_INCARNATION_START_MAX);
        swarm_free(swarm);
    }
}

/* After a restart a node knows nobody: the first it hears of others is that they are gone. */
static void a_tombstone_told_first_does_not_lock_out_who_lives(void **state)
{
    (void)state;
    struct swarm *swarm = swarm_new(3, 5);
    assert_in_range(swarm_settle(swarm, 60 * SWARM_SECOND), 0, 60 * SWARM_SECOND);
    swarm_kill(swarm, 0);
    swarm->nodes[0].record.incarnation += 1000;
    swarm_start(swarm, 0, 1);
    tell(swarm, 0, 1, SWIM_LEFT, SWIM_INCARNATION_MAX);
    tell(swarm, 0, 2, SWIM_LEFT, SWIM_INCARNATION_MAX);
    assert_in_range(swarm_settle(swarm, 30 * SWARM_SECOND), 0, 30 * SWARM_SECOND);
    swarm_free(swarm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_far_above_what_is_known_changes_nothing_and_its_owner_is_asked),
        cmocka_unit_test(what_the_owner_answers_counts_up_and_down),
        cmocka_unit_test(nobody_leaves_by_a_rumour_whom_the_ring_has),
        cmocka_unit_test(a_node_refutes_what_is_said_of_it_but_follows_no_wild_number),
        cmocka_unit_test(who_is_suspect_and_speaks_is_told_of_it_again),
        cmocka_unit_test(a_process_starts_though_its_incarnation_was_driven_up),
        cmocka_unit_test(members_that_only_gossip_knows_are_bounded_and_make_room_for_the_ring),
        cmocka_unit_test(messages_from_where_nobody_is_known_are_answered_at_a_bounded_rate),
        cmocka_unit_test(three_nodes_stay_one_cluster_whatever_is_said_of_them),
        cmocka_unit_test(a_death_is_noticed_though_many_are_made_up),
        cmocka_unit_test(a_tombstone_told_first_does_not_lock_out_who_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

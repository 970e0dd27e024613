/* test_swim.c - the rules of membership one by one, on single nodes with hand-carried messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/swim.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_piggyback.h"
#include "gossip/swim_record.h"
#include "gossip/swim_rumour.h"
#include "gossip/swim_table.h"

#define MS       INT64_C(1000000)
#define SECOND   (1000 * MS)
#define START_NS (INT64_C(1700000000) * SECOND)

static const uint8_t cluster_a[SWIM_CLUSTER_ID_LEN] = "aaaaaaaaaaaaaaa";
static const uint8_t cluster_b[SWIM_CLUSTER_ID_LEN] = "bbbbbbbbbbbbbbb";
static const uint8_t cluster_none[SWIM_CLUSTER_ID_LEN];

static struct swim_effects out; /* cleared by each fixture */

static struct swim_record record_of(uint64_t id, uint64_t incarnation)
{
    struct swim_record record = {.id = id, .incarnation = incarnation, .version = 1};
    (void)snprintf(record.name, sizeof record.name, "n%u", (unsigned)id);
    (void)snprintf(record.gossip, sizeof record.gossip, "127.0.0.1:%u", (unsigned)id);
    return record;
}

static struct swim *node_new(uint64_t id, const uint8_t *cluster_id)
{
    struct swim *swim;
    struct swim_options options;
    const struct swim_record record = record_of(id, 1);
    swim_options_default(&options);
    options.members_max = 8;
    assert_int_equal(swim_new(&swim, alloc_heap(), &options, &record, cluster_id, id), 0);
    swim_effects_clear(&out);
    return swim;
}

/* One claim, as if a message had brought it at `now_ns`. */
static void claim(struct swim *swim, int64_t now_ns, uint64_t id, enum swim_state state,
                  uint64_t incarnation, uint64_t accuser, bool from_sync)
{
    struct swim_item item = {.id = id, .state = state, .incarnation = incarnation};
    if (state == SWIM_ALIVE) {
        item.has_record = true;
        item.record = record_of(id, incarnation);
    }
    if (state == SWIM_SUSPECT) {
        item.accusers[0] = accuser;
        item.accusers_count = 1;
    }
    swim->now_ns = now_ns;
    swim->out = &out;
    swim_apply(swim, &item, from_sync, accuser);
    swim_events_flush(swim);
    swim->out = NULL;
    swim_check_invariants(swim);
}

static struct swim *node_with_members(uint64_t members)
{
    struct swim *swim = node_new(1, cluster_a);
    swim_tick(swim, START_NS, &out);
    for (uint64_t id = 2; id <= members; id++)
        claim(swim, START_NS, id, SWIM_ALIVE, 1, 0, false);
    swim_effects_clear(&out);
    return swim;
}

/* A tick that comes when it was due, however many were left out before it. */
static void tick_on_time(struct swim *swim, int64_t now_ns)
{
    swim->deadline_ns = now_ns;
    swim_tick(swim, now_ns, &out);
}

static bool told(enum swim_event_kind kind, uint64_t id)
{
    for (size_t i = 0; i < out.events_count; i++) {
        if (out.events[i].kind == kind && out.events[i].id == id)
            return true;
    }
    return false;
}

static enum swim_state state_of(const struct swim *swim, uint64_t id)
{
    return swim_find(swim, id)->state;
}

/* Hands every message that is for `to` over; returns how many. */
static int carry(struct swim *to, int64_t now_ns, const struct swim_effects *from,
                 struct swim_effects *into)
{
    int count = 0;
    for (size_t i = 0; i < from->sends_count; i++) {
        const struct swim_send *send = &from->sends[i];
        if (strcmp(send->address, swim_self(to)->record.gossip) != 0)
            continue;
        (void)swim_receive(to, now_ns, from->bytes + send->offset, send->len, into);
        count++;
    }
    return count;
}

/* Within one incarnation the worse claim wins; a higher incarnation wins always. */
static void incarnation_then_severity_decides(void **state)
{
    (void)state;
    for (int before = SWIM_ALIVE; before <= SWIM_LEFT; before++) {
        for (int claimed = SWIM_ALIVE; claimed <= SWIM_LEFT; claimed++) {
            for (uint64_t incarnation = 4; incarnation <= 6; incarnation++) {
                struct swim *swim = node_with_members(5);
                claim(swim, START_NS, 2, SWIM_ALIVE, 5, 0, false);
                if (before != SWIM_ALIVE)
                    claim(swim, START_NS, 2, (enum swim_state)before, 5, 3, false);
                assert_int_equal(state_of(swim, 2), before);
                claim(swim, START_NS, 2, (enum swim_state)claimed, incarnation, 3, false);
                const bool wins = incarnation > 5 || (incarnation == 5 && claimed > before);
                assert_int_equal(state_of(swim, 2), wins ? claimed : before);
                swim_free(&swim);
            }
        }
    }
}

/* A death heard by push/pull only makes suspect; heard as a rumour it is believed. */
static void a_death_heard_by_push_pull_makes_suspect(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(5);
    claim(swim, START_NS, 2, SWIM_DEAD, 1, 4, true);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    assert_true(told(SWIM_EVENT_SUSPECT, 2));
    claim(swim, START_NS, 3, SWIM_DEAD, 1, 4, false);
    assert_int_equal(state_of(swim, 3), SWIM_DEAD);
    claim(swim, START_NS, 5, SWIM_LEFT, 1, 4, true);
    assert_int_equal(state_of(swim, 5), SWIM_LEFT);
    swim_free(&swim);
}

/* Suspicion is 6 intervals x log10 n with two confirmations, and up to six times that without. */
static void confirmations_shorten_suspicion(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(6);
    assert_int_equal(swim_suspicion_ns(swim, 1, 1), 18 * SECOND);
    assert_int_equal(swim_suspicion_ns(swim, 3, 1), 3 * SECOND);
    const int64_t one_ns = swim_suspicion_ns(swim, 2, 1);
    assert_in_range(one_ns, 8500 * MS, 8600 * MS); /* 18 - 15 log 2 / log 3 */
    assert_int_equal(swim_suspicion_ns(swim, 1, 3), 54 * SECOND);
    claim(swim, START_NS, 2, SWIM_SUSPECT, 1, 3, false);
    claim(swim, START_NS, 2, SWIM_SUSPECT, 1, 3, false); /* the same accuser confirms nothing */
    assert_int_equal(swim->slots[swim_lookup(swim, 2)].deadline_ns, START_NS + 18 * SECOND);
    claim(swim, START_NS, 2, SWIM_SUSPECT, 1, 4, false);
    claim(swim, START_NS, 2, SWIM_SUSPECT, 1, 5, false);
    assert_int_equal(swim->slots[swim_lookup(swim, 2)].deadline_ns, START_NS + 3 * SECOND);
    swim_free(&swim);
}

/* With three nodes nobody is left to confirm twice, so the minimum holds at once. */
static void few_members_use_the_minimum(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    assert_int_equal(swim_suspicion_ns(swim, 1, 1), 3 * SECOND);
    claim(swim, START_NS, 2, SWIM_SUSPECT, 1, 3, false);
    tick_on_time(swim, START_NS + 3 * SECOND - 1);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    swim_effects_clear(&out);
    tick_on_time(swim, START_NS + 3 * SECOND);
    assert_int_equal(state_of(swim, 2), SWIM_DEAD);
    assert_true(told(SWIM_EVENT_DEAD, 2));
    swim_free(&swim);
}

/* An accused node raises its incarnation above the claim's and asks for it to be kept. */
static void an_accusation_is_refuted_and_persisted(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    claim(swim, START_NS, 1, SWIM_SUSPECT, 7, 2, false);
    assert_int_equal(swim_self(swim)->incarnation, 8);
    assert_int_equal(out.persist_incarnation, 8);
    assert_int_equal(swim->health, 1);
    swim_effects_clear(&out);
    claim(swim, START_NS, 1, SWIM_DEAD, 7, 2, false); /* old news */
    assert_int_equal(out.persist_incarnation, 0);
    claim(swim, START_NS, 1, SWIM_ALIVE, 9, 2, false); /* an earlier life that outranks us */
    assert_int_equal(swim_self(swim)->incarnation, 10);
    swim_free(&swim);
}

/* A returning member is alive at once, whatever is remembered, and told as such. */
static void a_higher_incarnation_revives(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    claim(swim, START_NS, 2, SWIM_DEAD, 1, 3, false);
    claim(swim, START_NS, 2, SWIM_ALIVE, 2, 3, false);
    assert_int_equal(state_of(swim, 2), SWIM_ALIVE);
    assert_true(told(SWIM_EVENT_ALIVE, 2));
    swim_free(&swim);
}

/* Each rumour rides 4 x ceil(log10(n + 1)) times, then there is silence. */
static void rumours_end_after_the_retransmit_limit(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    assert_int_equal(swim_retransmit_limit(swim), 4);
    assert_int_equal(swim->rumours_len, 3);
    for (int i = 0; i < 10; i++) {
        swim->now_ns += SECOND;
        swim->out = &out;
        swim_gossip_tick(swim);
        swim->out = NULL;
        swim_effects_clear(&out);
    }
    assert_int_equal(swim->rumours_len, 0);
    swim_free(&swim);
    swim = node_with_members(8);
    swim->regions[SWIM_HOME].members[SWIM_ALIVE] = 10; /* ceil(log10(11)) = 2 */
    assert_int_equal(swim_retransmit_limit(swim), 8);
    swim->regions[SWIM_HOME].members[SWIM_ALIVE] = 9;
    assert_int_equal(swim_retransmit_limit(swim), 4);
    swim_free(&swim);
}

/* A silent member: ping, then helpers at 200 ms, then an accusation at 500 ms. */
static void a_probe_goes_direct_then_indirect_then_accuses(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct swim *swim = node_with_members(4);
    swim->probe.next_ns = START_NS + 60 * SECOND; /* only the hint probes */
    swim_probe_now(swim, 2);
    assert_true(swim_next_deadline(swim) <= START_NS);
    swim_tick(swim, START_NS, &out);
    swim_stats(swim, &stats);
    assert_int_equal(stats.probes, 1);
    tick_on_time(swim, START_NS + 200 * MS);
    swim_stats(swim, &stats);
    assert_int_equal(stats.probes_indirect, 1);
    assert_int_equal(state_of(swim, 2), SWIM_ALIVE);
    tick_on_time(swim, START_NS + 500 * MS);
    assert_int_equal(state_of(swim, 2), SWIM_SUSPECT);
    swim_stats(swim, &stats);
    assert_int_equal(stats.local_health, 2); /* neither of the two helpers sent a nack */
    swim_free(&swim);
}

/* A late tick is this node's own fault: health falls, and the waiting probe is not failed. */
static void a_late_tick_blames_nobody_else(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct swim *swim = node_with_members(4);
    swim_probe_now(swim, 2);
    swim_tick(swim, START_NS, &out);
    swim_effects_clear(&out);
    swim_tick(swim, START_NS + 10 * SECOND, &out);
    swim_stats(swim, &stats);
    assert_int_equal(stats.stalls, 1);
    assert_int_equal(stats.local_health, 1);
    assert_int_equal(stats.probes_failed, 0);
    assert_int_equal(state_of(swim, 2), SWIM_ALIVE);
    swim_free(&swim);
}

/* Two nodes meet by a seed, and each then knows the other's record. */
static void a_seed_leads_to_each_other(void **state)
{
    static struct swim_effects b_out;
    (void)state;
    struct swim *a = node_new(1, cluster_a);
    struct swim *b = node_new(2, cluster_a);
    assert_int_equal(swim_add_seed(b, "127.0.0.1:1"), 0);
    assert_int_equal(swim_add_seed(b, "nonsense"), TG_EINVALID);
    for (int i = 0; i < 3; i++) {
        swim_effects_clear(&b_out);
        swim_tick(b, START_NS + i * 100 * MS, &b_out);
        (void)carry(b, START_NS + i * 100 * MS, &out, &b_out);
        swim_effects_clear(&out);
        (void)carry(a, START_NS + i * 100 * MS, &b_out, &out);
    }
    assert_non_null(swim_find(a, 2));
    assert_non_null(swim_find(b, 1));
    swim_free(&a);
    swim_free(&b);
}

/* SYNC-3: all rumours about a member missed this node. Its probe is enough to ask it who it is. */
static void a_member_that_no_rumour_told_of_is_asked(void **state)
{
    static struct swim_effects b_out;
    (void)state;
    struct swim *a = node_new(1, cluster_a);
    struct swim *b = node_new(2, cluster_a);
    swim_tick(a, START_NS, &out);
    swim_tick(b, START_NS, &b_out);
    claim(b, START_NS, 1, SWIM_ALIVE, 1, 0, false);
    swim_rumour_stop(b, SWIM_SELF);
    for (int i = 1; i < 12; i++) {
        swim_effects_clear(&b_out);
        b->deadline_ns = START_NS + i * 100 * MS; /* on time */
        swim_tick(b, START_NS + i * 100 * MS, &b_out);
        (void)carry(b, START_NS + i * 100 * MS, &out, &b_out);
        swim_effects_clear(&out);
        (void)carry(a, START_NS + i * 100 * MS, &b_out, &out);
    }
    assert_non_null(swim_find(a, 2));
    assert_int_equal(state_of(a, 2), SWIM_ALIVE);
    swim_free(&a);
    swim_free(&b);
}

/* Messages of another cluster change nothing and are counted. */
static void another_cluster_is_kept_out(void **state)
{
    static struct swim_effects b_out;
    struct swim_stats stats;
    (void)state;
    struct swim *a = node_new(1, cluster_a);
    struct swim *b = node_new(2, cluster_b);
    swim_effects_clear(&b_out);
    assert_int_equal(swim_add_seed(b, "127.0.0.1:1"), 0);
    swim_tick(b, START_NS, &b_out);
    assert_int_equal(carry(a, START_NS, &b_out, &out), 1);
    swim_stats(a, &stats);
    assert_int_equal(stats.foreign, 1);
    assert_null(swim_find(a, 2));
    assert_int_equal(out.sends_count, 0);
    assert_int_equal(swim_set_cluster(b, cluster_a), TG_ECONFLICT);
    swim_free(&a);
    swim_free(&b);
}

/* A node without a cluster greets its seed, learns the cluster and is no member meanwhile. */
static void a_stranger_learns_the_cluster(void **state)
{
    static struct swim_effects b_out;
    (void)state;
    struct swim *a = node_new(1, cluster_a);
    struct swim *b = node_new(2, cluster_none);
    swim_effects_clear(&b_out);
    assert_int_equal(swim_add_seed(b, "127.0.0.1:1"), 0);
    swim_tick(b, START_NS, &b_out);
    assert_int_equal(carry(a, START_NS, &b_out, &out), 1);
    assert_null(swim_find(a, 2));
    assert_int_equal(carry(b, START_NS, &out, &b_out), 1);
    assert_int_equal(b_out.met_count, 1);
    assert_memory_equal(b_out.met[0].cluster_id, cluster_a, SWIM_CLUSTER_ID_LEN);
    assert_int_equal(b_out.met[0].record.id, 1);
    assert_int_equal(swim_set_cluster(b, b_out.met[0].cluster_id), 0);
    swim_effects_clear(&b_out);
    swim_effects_clear(&out);
    swim_tick(b, START_NS + MS, &b_out);
    (void)carry(a, START_NS + MS, &b_out, &out);
    assert_non_null(swim_find(a, 2));
    swim_free(&a);
    swim_free(&b);
}

/* A seed that did not answer is greeted as well. One of another cluster says whose it is, one of
 * the own says nothing new, and one without a cluster does not learn it from the greeting. */
static void a_silent_seed_is_greeted_and_says_whose_it_is(void **state)
{
    static struct swim_effects a_out;
    const uint8_t *const clusters[] = {cluster_b, cluster_a, cluster_none};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct swim *a = node_new(1, cluster_a);
        struct swim *b = node_new(2, clusters[i]);
        assert_int_equal(swim_add_seed(a, "127.0.0.1:2"), 0);
        swim_effects_clear(&a_out);
        swim_effects_clear(&out);
        swim_tick(a, START_NS, &a_out);
        assert_int_equal(a_out.sends_count, 1);
        swim_effects_clear(&a_out); /* lost */
        swim_tick(a, START_NS + 3000 * MS, &a_out);
        assert_true(carry(b, START_NS + 3000 * MS, &a_out, &out) >= 2);
        assert_true(out.sends_count >= 1);
        if (out.met_count > 0)
            assert_memory_equal(out.met[0].cluster_id, cluster_none, SWIM_CLUSTER_ID_LEN);
        swim_effects_clear(&a_out);
        (void)carry(a, START_NS + 3001 * MS, &out, &a_out);
        assert_int_equal(a_out.met_count, i == 0 ? 1 : 0);
        if (i == 0) {
            assert_memory_equal(a_out.met[0].cluster_id, cluster_b, SWIM_CLUSTER_ID_LEN);
            assert_string_equal(a_out.met[0].seed, "127.0.0.1:2");
            assert_null(swim_find(a, 2));
        }
        swim_free(&a);
        swim_free(&b);
    }
}

/* An answer that nobody asked for says nothing. One that somebody did counts once, and tells when
 * its own question left, not the newest one. */
static void only_the_answer_to_a_greeting_counts_and_only_once(void **state)
{
    static struct swim_effects first;
    static struct swim_effects second;
    static struct swim_effects answers;
    static struct swim_effects b_out;
    (void)state;
    struct swim *a = node_new(1, cluster_a);
    struct swim *b = node_new(2, cluster_none);
    struct swim *asker = node_new(2, cluster_none); /* another process: other numbers */
    asker->frame.seq_count = 100;
    assert_int_equal(swim_add_seed(b, "127.0.0.1:1"), 0);
    assert_int_equal(swim_add_seed(asker, "127.0.0.1:1"), 0);
    swim_effects_clear(&first);
    swim_effects_clear(&answers);
    swim_tick(asker, START_NS, &first);
    assert_int_equal(carry(a, START_NS, &first, &answers), 1);
    swim_effects_clear(&first);
    swim_effects_clear(&second);
    swim_effects_clear(&b_out);
    swim_tick(b, START_NS, &first);
    swim_tick(b, START_NS + 500 * MS, &second);
    assert_int_equal(second.sends_count, 1);
    assert_int_equal(carry(b, START_NS + 510 * MS, &answers, &b_out), 1);
    assert_int_equal(b_out.met_count, 0);
    swim_effects_clear(&answers);
    swim_wall(a, 7 * SECOND, false);
    assert_int_equal(carry(a, START_NS + 520 * MS, &first, &answers), 1);
    assert_int_equal(carry(b, START_NS + 530 * MS, &answers, &b_out), 1);
    assert_int_equal(b_out.met_count, 1);
    assert_true(b_out.met[0].answers);
    assert_int_equal(b_out.met[0].asked_ns, START_NS);
    assert_int_equal(b_out.met[0].wall_ns, 7 * SECOND);
    assert_string_equal(b_out.met[0].seed, "127.0.0.1:1");
    swim_effects_clear(&b_out);
    assert_int_equal(carry(b, START_NS + 540 * MS, &answers, &b_out), 1);
    assert_int_equal(b_out.met_count, 0);
    swim_effects_clear(&answers);
    assert_int_equal(carry(a, START_NS + 550 * MS, &second, &answers), 1);
    assert_int_equal(carry(b, START_NS + 560 * MS, &answers, &b_out), 1);
    assert_int_equal(b_out.met_count, 1);
    assert_int_equal(b_out.met[0].asked_ns, START_NS + 500 * MS);
    swim_free(&a);
    swim_free(&b);
    swim_free(&asker);
}

/* Whoever is asked learns no number but its own: nobody answers in the name of another. */
static void no_number_of_a_question_tells_the_next_one(void **state)
{
    (void)state;
    struct swim *swim = node_new(1, cluster_a);
    uint64_t seqs[64];
    for (int i = 0; i < 64; i++) {
        seqs[i] = swim_seq(swim);
        assert_int_not_equal(seqs[i], 0);
        for (int k = 0; k < i; k++)
            assert_true(seqs[i] - seqs[k] > 1000 && seqs[k] - seqs[i] > 1000);
    }
    swim_free(&swim);
}

/* A tombstone is forgotten after a day, told so, and its address stays as a seed. */
static void tombstones_expire_but_their_addresses_stay(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    claim(swim, START_NS, 2, SWIM_DEAD, 1, 3, false);
    swim_effects_clear(&out);
    swim_tick(swim, START_NS + 23 * 3600 * SECOND, &out);
    assert_non_null(swim_find(swim, 2));
    swim_effects_clear(&out);
    swim_tick(swim, START_NS + 25 * 3600 * SECOND, &out);
    assert_null(swim_find(swim, 2));
    assert_true(told(SWIM_EVENT_FORGOTTEN, 2));
    assert_int_equal(swim->seeds.len, 1);
    assert_string_equal(swim->seeds.all[0].address, "127.0.0.1:2");
    swim_check_invariants(swim);
    swim_free(&swim);
}

/* A full table gives up its oldest tombstone, never a living member. */
static void a_full_table_gives_up_tombstones_only(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct swim *swim = node_with_members(8);
    claim(swim, START_NS, 9, SWIM_ALIVE, 1, 0, false);
    assert_null(swim_find(swim, 9));
    swim_stats(swim, &stats);
    assert_int_equal(stats.members_refused, 1);
    claim(swim, START_NS, 4, SWIM_DEAD, 1, 3, false);
    claim(swim, START_NS, 9, SWIM_ALIVE, 1, 0, false);
    assert_non_null(swim_find(swim, 9));
    assert_null(swim_find(swim, 4));
    swim_free(&swim);
}

/* With the effects full, events wait and the next deadline is at once; none is lost. */
static void events_wait_for_room(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    swim_tick(swim, START_NS, &out);
    out.events_count = SWIM_EVENTS_MAX;
    claim(swim, START_NS, 2, SWIM_DEAD, 1, 3, false);
    swim_tick(swim, START_NS, &out);
    assert_int_equal(swim_next_deadline(swim), START_NS);
    swim_effects_clear(&out);
    swim_tick(swim, START_NS, &out);
    assert_true(told(SWIM_EVENT_DEAD, 2));
    swim_free(&swim);
}

/* With no room for messages nothing breaks, and what is owed goes out later. */
static void sends_wait_for_room(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    out.sends_count = SWIM_SENDS_MAX;
    tick_on_time(swim, START_NS + 100 * MS);
    assert_int_equal(out.sends_count, SWIM_SENDS_MAX);
    assert_true(swim_next_deadline(swim) <= START_NS + 100 * MS);
    swim_effects_clear(&out);
    tick_on_time(swim, START_NS + 100 * MS);
    assert_true(out.sends_count > 0);
    swim_free(&swim);
}

/* A record with every field at its longest survives the wire, and one with more fields, too. */
static void records_survive_the_wire(void **state)
{
    uint8_t bytes[SWIM_ITEM_MAX];
    struct mp_token tokens[64];
    struct mp_writer writer;
    struct mp_cursor cursor;
    struct swim_item item;
    struct swim_slot slot = {.used = true};
    struct swim_record *record = &slot.member.record;
    (void)state;
    memset(record, 0xff, sizeof *record);
    record->incarnation = SWIM_INCARNATION_MAX;
    record->version = SWIM_INCARNATION_MAX;
    memset(record->name, 'n', sizeof record->name - 1);
    memset(record->region, 'r', sizeof record->region - 1);
    memset(record->zone, 'z', sizeof record->zone - 1);
    memset(record->software, 's', sizeof record->software - 1);
    (void)snprintf(record->gossip, sizeof record->gossip, "%057d:65535", 0);
    (void)snprintf(record->peer, sizeof record->peer, "%057d:65535", 0);
    (void)snprintf(record->client, sizeof record->client, "%057d:65535", 0);
    record->name[sizeof record->name - 1] = '\0';
    record->region[sizeof record->region - 1] = '\0';
    record->zone[sizeof record->zone - 1] = '\0';
    record->software[sizeof record->software - 1] = '\0';
    slot.member.incarnation = SWIM_INCARNATION_MAX;
    slot.member.state = SWIM_SUSPECT;
    slot.accusers_count = SWIM_ACCUSERS_MAX;
    memset(slot.accusers, 0xfe, sizeof slot.accusers);
    mp_writer_init(&writer, bytes, sizeof bytes);
    swim_item_put(&writer, &slot, true, START_NS);
    assert_false(writer.failed);
    const int count = mp_parse(bytes, writer.len, tokens, 64);
    assert_true(count > 0);
    mp_cursor_init(&cursor, tokens, (size_t)count);
    swim_item_get(&cursor, &item);
    assert_false(cursor.failed);
    assert_int_equal(item.record.settled_epoch, UINT64_MAX);
    assert_int_equal(item.record.shards, UINT16_MAX);
    assert_string_equal(item.record.client, record->client);
    assert_int_equal(item.accusers_count, SWIM_ACCUSERS_MAX);
    assert_int_equal(item.state, SWIM_SUSPECT);

    tokens[0].count++; /* as a newer release would send it: one element more in the item */
    tokens[count] = (struct mp_token){.type = MP_UINT, .uint = 1};
    mp_cursor_init(&cursor, tokens, (size_t)count + 1);
    swim_item_get(&cursor, &item);
    assert_false(cursor.failed);
    assert_int_equal(cursor.at, (size_t)count + 1);
}

/* Records that could harm a log, an address book or the order of incarnations are refused. */
static void bad_records_are_refused(void **state)
{
    struct swim *swim;
    struct swim_options options;
    (void)state;
    swim_options_default(&options);
    for (int what = 0; what < 7; what++) {
        struct swim_record record = record_of(1, 1);
        if (what == 0)
            record.id = 0;
        else if (what == 1)
            record.incarnation = SWIM_INCARNATION_MAX + 1;
        else if (what == 2)
            memcpy(record.name, "a\x1b[31m", 6);
        else if (what == 3)
            record.gossip[0] = '\0';
        else if (what == 4)
            memcpy(record.peer, "host:65536", 11);
        else if (what == 5)
            memset(record.zone, 'z', sizeof record.zone);
        else
            memcpy(record.client, "no-port:", 9);
        assert_int_equal(swim_new(&swim, alloc_heap(), &options, &record, cluster_a, 1),
                         TG_EINVALID);
    }
}

/* Without memory swim_new fails cleanly, wherever it runs out. */
static void lack_of_memory_is_reported(void **state)
{
    struct alloc_failing failing;
    struct swim *swim = NULL;
    struct swim_options options;
    const struct swim_record record = record_of(1, 1);
    int failures = 0;
    (void)state;
    swim_options_default(&options);
    for (size_t fail_at = 1; swim == NULL; fail_at++) {
        alloc_failing_init(&failing, fail_at);
        const int error = swim_new(&swim, &failing.allocator, &options, &record, cluster_a, 1);
        if (swim != NULL)
            break;
        assert_int_equal(error, TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
        failures++;
    }
    assert_int_equal(failures, 6);
    swim_free(&swim);
    assert_int_equal(failing.bytes_live, 0);
}

/* An update spreads under a new version; one that changes nothing does not. */
static void only_changes_of_the_own_record_spread(void **state)
{
    (void)state;
    struct swim *swim = node_with_members(3);
    struct swim_record record = swim_self(swim)->record;
    assert_int_equal(swim_update_self(swim, &record), 0);
    assert_int_equal(swim_self(swim)->record.version, 1);
    record.ring_epoch = 9;
    assert_int_equal(swim_update_self(swim, &record), 0);
    assert_int_equal(swim_self(swim)->record.version, 2);
    assert_int_equal(swim_self(swim)->record.ring_epoch, 9);
    record.gossip[0] = '\0';
    assert_int_equal(swim_update_self(swim, &record), TG_EINVALID);
    swim_free(&swim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incarnation_then_severity_decides),
        cmocka_unit_test(a_death_heard_by_push_pull_makes_suspect),
        cmocka_unit_test(confirmations_shorten_suspicion),
        cmocka_unit_test(few_members_use_the_minimum),
        cmocka_unit_test(an_accusation_is_refuted_and_persisted),
        cmocka_unit_test(a_higher_incarnation_revives),
        cmocka_unit_test(rumours_end_after_the_retransmit_limit),
        cmocka_unit_test(a_probe_goes_direct_then_indirect_then_accuses),
        cmocka_unit_test(a_late_tick_blames_nobody_else),
        cmocka_unit_test(a_seed_leads_to_each_other),
        cmocka_unit_test(a_member_that_no_rumour_told_of_is_asked),
        cmocka_unit_test(another_cluster_is_kept_out),
        cmocka_unit_test(a_stranger_learns_the_cluster),
        cmocka_unit_test(a_silent_seed_is_greeted_and_says_whose_it_is),
        cmocka_unit_test(only_the_answer_to_a_greeting_counts_and_only_once),
        cmocka_unit_test(no_number_of_a_question_tells_the_next_one),
        cmocka_unit_test(tombstones_expire_but_their_addresses_stay),
        cmocka_unit_test(a_full_table_gives_up_tombstones_only),
        cmocka_unit_test(events_wait_for_room),
        cmocka_unit_test(sends_wait_for_room),
        cmocka_unit_test(records_survive_the_wire),
        cmocka_unit_test(bad_records_are_refused),
        cmocka_unit_test(lack_of_memory_is_reported),
        cmocka_unit_test(only_changes_of_the_own_record_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

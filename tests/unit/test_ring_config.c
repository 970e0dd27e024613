/* test_ring_config.c - changes of a configuration keep every rule; broken ones are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "ring/config.h"

/* Static, since a configuration is too large for a stack. */
static struct ring_config one;
static struct ring_config two;
static struct ring_config three;

static struct ring_member make(uint64_t id, const char *name, uint32_t weight)
{
    struct ring_member member;

    assert_int_equal(ring_member_init(&member, id, name, "zone", weight), 0);
    return member;
}

/* Three members a, b, c with ids 10, 20, 30, stable, in `one`. */
static void make_three(void)
{
    const struct ring_member a = make(10, "a", 100);
    const struct ring_member b = make(20, "b", 100);
    const struct ring_member c = make(30, "c", 200);

    assert_int_equal(ring_config_init(&one, &a, 4096, 3), 0);
    assert_int_equal(ring_config_add(&two, &one, &c), 0);
    assert_int_equal(ring_config_settle(&one, &two), 0);
    assert_int_equal(ring_config_add(&two, &one, &b), 0);
    assert_int_equal(ring_config_settle(&one, &two), 0);
}

/* A join is a transition from the old members to the new, sorted, seated, one epoch up. */
static void adding_a_member_starts_a_transition(void **state)
{
    const struct ring_member d = make(15, "d", 100);

    (void)state;
    make_three();
    assert_int_equal(one.epoch, 5);
    assert_true(ring_config_is_stable(&one));
    assert_int_equal(ring_config_add(&two, &one, &d), 0);
    assert_int_equal(two.epoch, 6);
    assert_false(ring_config_is_stable(&two));
    assert_int_equal(two.from_count, 3);
    assert_int_equal(two.to_count, 4);
    assert_int_equal(two.to[1].id, 15);
    assert_int_equal(two.to[1].seats_count, 2);
    assert_int_equal(two.to[1].seats[0], 9); /* a 1-2, c 3-6, b 7-8 */
    assert_int_equal(ring_config_validate(&two, NULL), 0);
    assert_int_equal(one.epoch, 5);
    assert_int_equal(one.to_count, 3);
}

/* While a transition is under way no other may start; when none is, none can be settled. */
static void one_transition_at_a_time(void **state)
{
    const struct ring_member d = make(40, "d", 100);
    const struct ring_member e = make(50, "e", 100);

    (void)state;
    make_three();
    assert_int_equal(ring_config_settle(&two, &one), TG_ECONFLICT);
    assert_int_equal(ring_config_add(&two, &one, &d), 0);
    assert_int_equal(ring_config_add(&three, &two, &e), TG_ECONFLICT);
    assert_int_equal(ring_config_remove(&three, &two, 10), TG_ECONFLICT);
    assert_int_equal(ring_config_reweigh(&three, &two, 10, 50), TG_ECONFLICT);
    assert_int_equal(ring_config_settle(&three, &two), 0);
    assert_true(ring_config_is_stable(&three));
    assert_int_equal(three.epoch, two.epoch + 1);
    assert_int_equal(three.from_count, 4);
}

/* Whoever votes can tell a change of the ring from any other value. */
static void only_one_change_follows_another(void **state)
{
    const struct ring_member d = make(40, "d", 100);
    const struct ring_member e = make(50, "e", 100);
    const uint64_t voters[] = {10};
    (void)state;
    make_three();
    assert_false(ring_config_follows(&one, &one));
    assert_int_equal(ring_config_set_voters(&two, &one, voters, 1), 0);
    assert_true(ring_config_follows(&two, &one));
    assert_int_equal(ring_config_remove(&two, &one, 30), 0);
    assert_true(ring_config_follows(&two, &one));
    assert_int_equal(ring_config_reweigh(&two, &one, 10, 300), 0);
    assert_true(ring_config_follows(&two, &one));
    two.vnodes *= 2;
    assert_false(ring_config_follows(&two, &one));
    assert_int_equal(ring_config_add(&two, &one, &d), 0);
    assert_true(ring_config_follows(&two, &one));
    two.epoch++;
    assert_false(ring_config_follows(&two, &one));
    two.epoch--;
    assert_int_equal(ring_config_settle(&three, &two), 0);
    assert_true(ring_config_follows(&three, &two));
    three.epoch--;
    assert_false(ring_config_follows(&three, &one)); /* a transition was left out */
    assert_int_equal(ring_config_add(&two, &three, &e), 0);
    two.epoch = one.epoch + 1;
    ring_config_copy(&three, &two);
    memcpy(three.from, one.from, sizeof one.from[0] * one.from_count);
    three.from_count = one.from_count;
    assert_false(ring_config_follows(&three, &one)); /* two newcomers at once */
}

/* A leave frees the seats, which the next join takes. */
static void a_newcomer_takes_the_vacant_seats(void **state)
{
    const struct ring_member d = make(5, "d", 150);

    (void)state;
    make_three();
    assert_int_equal(ring_config_remove(&two, &one, 20), 0);
    assert_int_equal(ring_config_validate(&two, NULL), 0);
    assert_int_equal(ring_config_settle(&three, &two), 0);
    assert_int_equal(ring_config_add(&two, &three, &d), 0);
    assert_int_equal(two.to[0].seats_count, 3);
    assert_int_equal(two.to[0].seats[0], 7);
    assert_int_equal(two.to[0].seats[1], 8);
    assert_int_equal(two.to[0].seats[2], 9);
}

/* More weight adds seats, less gives the highest back, and the rest stay. */
static void reweighing_keeps_the_seats_it_can(void **state)
{
    (void)state;
    make_three();
    assert_int_equal(ring_config_reweigh(&two, &one, 10, 200), 0);
    assert_int_equal(two.to[0].seats_count, 4);
    assert_int_equal(two.to[0].seats[1], 2);
    assert_int_equal(two.to[0].seats[2], 9);
    assert_int_equal(ring_config_settle(&three, &two), 0);
    assert_int_equal(ring_config_reweigh(&two, &three, 10, 50), 0);
    assert_int_equal(two.to[0].seats_count, 1);
    assert_int_equal(two.to[0].seats[0], 1);
    assert_int_equal(ring_config_validate(&two, NULL), 0);
    assert_int_equal(ring_config_reweigh(&two, &three, 10, 0), TG_EINVALID);
    assert_int_equal(ring_config_reweigh(&two, &three, 11, 50), TG_ENOTFOUND);
}

/* What a change may not do: repeat an id or a name, remove nobody, the last, or the only voter. */
static void impossible_changes_are_refused(void **state)
{
    const struct ring_member same_id = make(10, "x", 100);
    const struct ring_member same_name = make(77, "b", 100);
    struct ring_member bad = make(78, "y", 100);

    (void)state;
    make_three();
    assert_int_equal(ring_config_add(&two, &one, &same_id), TG_EEXISTS);
    assert_int_equal(ring_config_add(&two, &one, &same_name), TG_EEXISTS);
    bad.zone++;
    assert_int_equal(ring_config_add(&two, &one, &bad), TG_EINVALID);
    assert_int_equal(ring_config_remove(&two, &one, 11), TG_ENOTFOUND);
    assert_int_equal(ring_config_remove(&two, &one, 10), TG_EINVALID); /* the only voter */
    assert_int_equal(ring_config_init(&two, &bad, 4096, 3), TG_EINVALID);
    assert_int_equal(ring_config_init(&two, &same_id, 1000, 3), TG_EINVALID);
    assert_int_equal(ring_config_init(&two, &same_id, 4096, 0), TG_EINVALID);
    assert_int_equal(ring_config_init(&two, &same_id, 4096, 3), 0);
    assert_int_equal(ring_config_remove(&three, &two, 10), TG_EINVALID);
}

/* Voters are sorted, distinct members; removing a member removes its vote. */
static void voters_are_members(void **state)
{
    const uint64_t voters[] = {30, 10, 20};
    const uint64_t stranger[] = {10, 99};
    const uint64_t twice[] = {10, 10};

    (void)state;
    make_three();
    assert_int_equal(ring_config_set_voters(&two, &one, voters, 3), 0);
    assert_int_equal(two.voters[0], 10);
    assert_int_equal(two.voters[2], 30);
    assert_int_equal(two.epoch, one.epoch + 1);
    assert_int_equal(ring_config_set_voters(&three, &one, stranger, 2), TG_ENOTFOUND);
    assert_int_equal(ring_config_set_voters(&three, &one, twice, 2), TG_EINVALID);
    assert_int_equal(ring_config_set_voters(&three, &one, voters, 0), TG_EINVALID);
    assert_int_equal(ring_config_remove(&three, &two, 20), 0);
    assert_int_equal(three.voters_count, 2);
    assert_int_equal(three.voters[1], 30);
    assert_int_equal(ring_config_validate(&three, NULL), 0);
}

/* Breaks a valid configuration with `statement` and expects a sentence that begins as given. */
#define EXPECT_REFUSED(statement, beginning)                                                       \
    do {                                                                                           \
        char sentence[RING_SENTENCE_LEN] = "";                                                     \
        make_three();                                                                              \
        statement;                                                                                 \
        assert_int_equal(ring_config_validate(&one, sentence), TG_EINVALID);                       \
        assert_memory_equal(sentence, beginning, strlen(beginning));                               \
    } while (0)

/* Every rule, broken alone, is refused with a sentence that names the place. */
static void each_broken_rule_is_named(void **state)
{
    (void)state;
    EXPECT_REFUSED(one.epoch = 0, "epoch: 0");
    EXPECT_REFUSED(one.vnodes = 4095, "vnodes: 4095");
    EXPECT_REFUSED(one.vnodes = 131072, "vnodes: 131072");
    EXPECT_REFUSED(one.replicas = 8, "replicas: 8");
    EXPECT_REFUSED(one.from_count = 0, "from: 0 members");
    EXPECT_REFUSED(one.to_count = RING_MEMBERS_MAX + 1, "to: 1025 members");
    EXPECT_REFUSED(one.to[0].id = 0, "to[0]: id 0");
    EXPECT_REFUSED(one.from[1].weight = 1001, "from[1]: weight 1001");
    EXPECT_REFUSED(one.from[1].zone ^= 1, "from[1]: zone number");
    EXPECT_REFUSED(memset(one.to[2].name, 'n', RING_NAME_LEN), "to[2]: name or zone too long");
    EXPECT_REFUSED(one.to[1].id = 10, "to[1]: id not above");
    EXPECT_REFUSED(one.to[1].name[0] = 'a', "to[1]: name \"a\" repeats");
    EXPECT_REFUSED(one.to[1].seats[0] = 1, "to[1]: seat 1 is taken");
    EXPECT_REFUSED(one.to[1].seats[1] = 7, "to[1]: seat 7, expected ascending");
    EXPECT_REFUSED(one.to[1].seats[1] = RING_SEATS_MAX + 1, "to[1]: seat 8193");
    EXPECT_REFUSED(one.to[1].seats_count = 1, "to[1]: 1 seats, expected 2");
    EXPECT_REFUSED(one.voters_count = 6, "voters: 6");
    EXPECT_REFUSED(one.voters[0] = 11, "voters[0]: not a member");
    EXPECT_REFUSED((one.voters_count = 2, one.voters[1] = 10), "voters[1]: not above");
}

/* A copy is equal, and stops being so with any field. */
static void copies_are_equal_until_changed(void **state)
{
    (void)state;
    make_three();
    ring_config_copy(&two, &one);
    assert_true(ring_config_equal(&one, &two));
    two.to[2].name[0] = 'z';
    assert_false(ring_config_equal(&one, &two));
    assert_false(ring_config_is_stable(&two));
    ring_config_copy(&two, &one);
    two.epoch++;
    assert_false(ring_config_equal(&one, &two));
    assert_int_equal(ring_config_find(&one, 20)->id, 20);
    assert_null(ring_config_find(&one, 21));
}

/* Filled to the bound: the last member is seated, and one more is TG_EFULL. */
static void the_member_bound_is_reached_cleanly(void **state)
{
    struct ring_member member = make(1, "", 100);
    struct ring_config *now = &one;
    struct ring_config *next = &two;

    (void)state;
    assert_int_equal(ring_config_init(now, &member, 64, 1), 0);
    for (uint32_t i = 1; i < RING_MEMBERS_MAX; i++) {
        /* Seated by hand: 1,023 changes, validated each, are no faster truth. */
        now->to[i] = make(i + 1, "", 100);
        now->to[i].seats[0] = (uint16_t)(2 * i + 1);
        now->to[i].seats[1] = (uint16_t)(2 * i + 2);
        now->to[i].seats_count = 2;
        now->from[i] = now->to[i];
    }
    now->from_count = now->to_count = RING_MEMBERS_MAX - 1;
    assert_int_equal(ring_config_validate(now, NULL), 0);
    member = make(5000, "", 100);
    assert_int_equal(ring_config_add(next, now, &member), 0);
    assert_int_equal(next->to_count, RING_MEMBERS_MAX);
    assert_int_equal(next->to[RING_MEMBERS_MAX - 1].seats[1], 2 * RING_MEMBERS_MAX);
    assert_int_equal(ring_config_settle(now, next), 0);
    member = make(6000, "", 100);
    assert_int_equal(ring_config_add(next, now, &member), TG_EFULL);
}

/* Forced configurations outrank all of their lineage, and those that two nodes force at once are
 * not of one epoch. */
static void forcing_begins_a_lineage_above_all_epochs_before(void **state)
{
    const uint64_t voters[] = {20, 30};
    (void)state;
    make_three();
    const uint64_t before = one.epoch;
    assert_int_equal(ring_config_force(&two, &one, 10, voters + 1, 1, 0xaa20), 0);
    assert_int_equal(two.epoch, UINT64_C(1) << 40 | UINT64_C(0x20) << 32 | 1);
    assert_int_equal(ring_config_lineage(two.epoch), 0x120);
    assert_int_equal(ring_config_lineage(before), 0);
    assert_int_equal(two.to_count, 2);
    assert_int_equal(two.from_count, 3); /* it is a transition: what 10 held moves */
    assert_int_equal(two.voters_count, 1);
    assert_int_equal(two.voters[0], 30);
    assert_int_equal(ring_config_force(&three, &one, 10, voters, 1, 0xaa30), 0);
    assert_true(three.epoch > two.epoch);
    two.epoch = (UINT64_C(0x120) << 32) | UINT32_MAX;
    assert_int_equal(ring_config_force(&three, &two, 0, voters, 2, 0x00), 0); /* in transition */
    assert_int_equal(three.epoch, UINT64_C(2) << 40 | 1);
    assert_int_equal(three.to_count, 2);
    assert_int_equal(three.from_count, 3);
    assert_int_equal(ring_config_force(&three, &one, 10, voters, 0, 1), TG_EINVALID);
    const uint64_t stranger = 77;
    assert_int_equal(ring_config_force(&three, &one, 10, &stranger, 1, 1), TG_ENOTFOUND);
    two.to_count = 1;
    assert_int_equal(ring_config_force(&three, &two, 20, voters, 1, 1), TG_EINVALID);
}

/* An epoch that wrapped around would be below all those that are in force. */
static void no_lineage_begins_after_the_last_generation(void **state)
{
    const uint64_t voter = 20;
    (void)state;
    make_three();
    one.epoch = UINT64_MAX >> 40 << 40 | 7;
    assert_int_equal(ring_config_force(&two, &one, 10, &voter, 1, 1), TG_EINVALID);
    one.epoch -= UINT64_C(1) << 40;
    assert_int_equal(ring_config_force(&two, &one, 10, &voter, 1, 1), 0);
    assert_int_equal(ring_config_generation(two.epoch), UINT64_MAX >> 40);
}

/* What follows a forced transition is told from it by the epoch alone, also when who is forced out
 * was on its way out already. */
static void an_epoch_tells_whether_its_transition_was_forced(void **state)
{
    const uint64_t voters[] = {20, 30};
    (void)state;
    make_three();
    assert_false(ring_config_epoch_forced(one.epoch));
    assert_int_equal(ring_config_force(&two, &one, 10, voters, 2, 0x20), 0);
    assert_true(ring_config_epoch_forced(two.epoch));
    assert_int_equal(ring_config_set_voters(&three, &two, voters, 1), TG_ECONFLICT);
    assert_int_equal(ring_config_settle(&three, &two), 0);
    assert_false(ring_config_epoch_forced(three.epoch));
    assert_int_equal(ring_config_set_voters(&two, &three, voters, 1), 0);
    assert_int_equal(ring_config_force(&two, &one, 0, voters, 2, 0x20), 0);
    assert_true(ring_config_is_stable(&two)); /* no transition at all */
    assert_int_equal(ring_config_set_voters(&three, &two, voters, 1), 0);
    assert_false(ring_config_epoch_forced(three.epoch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adding_a_member_starts_a_transition),
        cmocka_unit_test(one_transition_at_a_time),
        cmocka_unit_test(only_one_change_follows_another),
        cmocka_unit_test(a_newcomer_takes_the_vacant_seats),
        cmocka_unit_test(reweighing_keeps_the_seats_it_can),
        cmocka_unit_test(impossible_changes_are_refused),
        cmocka_unit_test(voters_are_members),
        cmocka_unit_test(each_broken_rule_is_named),
        cmocka_unit_test(copies_are_equal_until_changed),
        cmocka_unit_test(forcing_begins_a_lineage_above_all_epochs_before),
        cmocka_unit_test(no_lineage_begins_after_the_last_generation),
        cmocka_unit_test(an_epoch_tells_whether_its_transition_was_forced),
        cmocka_unit_test(the_member_bound_is_reached_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

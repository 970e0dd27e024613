/* test_intake.c - messages that wait to be decided: turns, refusals, bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/runtime/shard/intake.h"

enum { SMALL = 100, LARGE = 100 * 1000, ROUNDS = 20000 };

static int set_up(void **state)
{
    struct intake *intake;
    assert_int_equal(intake_new(&intake), 0);
    *state = intake;
    return 0;
}

static int tear_down(void **state)
{
    struct intake *intake = *state;
    intake_check_invariants(intake);
    intake_free(&intake);
    assert_null(intake);
    return 0;
}

/* Puts until one is refused; how many were kept. */
static uint32_t fill(struct intake *intake, uint64_t connection, size_t len)
{
    uint32_t kept = 0;
    while (intake_room(intake) && intake_put(intake, connection, len) != INTAKE_NONE)
        kept++;
    return kept;
}

static uint64_t take(struct intake *intake)
{
    uint64_t connection = 0;
    return intake_take(intake, &connection) == INTAKE_NONE ? 0 : connection;
}

/* INTAKE-1: whatever the turns are, what one connection said first is decided first. */
static void messages_of_a_connection_keep_their_order(void **state)
{
    struct intake *intake = *state;
    static uint16_t waiting[4][64];
    uint32_t first[4] = {0};
    uint32_t last[4] = {0};
    struct random random;
    random_init(&random, 7);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t who = random_below(&random, 4);
        if (random_below(&random, 2) == 0 && last[who] - first[who] < 64) {
            const uint16_t at = intake_put(intake, who, random_below(&random, LARGE));
            if (at != INTAKE_NONE)
                waiting[who][last[who]++ % 64] = at;
            continue;
        }
        if (i % 64 == 0)
            intake_check_invariants(intake);
        const uint16_t at = intake_take(intake, &who);
        if (at != INTAKE_NONE)
            assert_int_equal(at, waiting[who][first[who]++ % 64]);
    }
}

/* A place is one message's until it is taken. */
static void no_two_messages_have_the_same_place(void **state)
{
    struct intake *intake = *state;
    static bool used[INTAKE_MESSAGES_MAX];
    struct random random;
    uint64_t who;
    random_init(&random, 11);
    for (int i = 0; i < 10 * ROUNDS; i++) {
        const bool in = random_below(&random, 100) < 60 && intake_room(intake);
        const uint16_t at =
            in ? intake_put(intake, random_below(&random, 5000), SMALL) : intake_take(intake, &who);
        if (at == INTAKE_NONE)
            continue;
        assert_int_equal(used[at], !in);
        used[at] = in;
        if (i % 1024 == 0)
            intake_check_invariants(intake);
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < INTAKE_MESSAGES_MAX; i++)
        left += used[i];
    assert_int_equal(left, intake_count(intake));
}

/* Who sends one message behind thousands of others' is answered after one turn of each of them. */
static void one_that_asks_little_waits_for_one_turn_of_the_others(void **state)
{
    struct intake *intake = *state;
    for (uint64_t greedy = 1; greedy <= 8; greedy++)
        (void)fill(intake, greedy, SMALL);
    assert_true(intake_count(intake) > 1000);
    assert_int_not_equal(intake_put(intake, 99, SMALL), INTAKE_NONE);
    uint32_t before = 0;
    while (take(intake) != 99)
        before++;
    assert_in_range(before, 1, 8 * 8192 / SMALL);
}

/* Turns are by bytes: a connection gets no more because its messages are large, or small. */
static void connections_share_by_bytes(void **state)
{
    struct intake *intake = *state;
    uint64_t bytes[3] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        (void)intake_put(intake, 1, SMALL);
        if (i % 100 == 0)
            (void)intake_put(intake, 2, LARGE);
        const uint64_t who = take(intake);
        bytes[who] += who == 2 ? LARGE : SMALL + 128;
        intake_decided(intake, 1000);
    }
    assert_true(bytes[1] > 0 && bytes[2] > 0);
    assert_in_range(bytes[1] * 100 / bytes[2], 50, 200);
}

/* INTAKE-2: what waits is what can be decided soon, at the pace of late. */
static void what_cannot_be_decided_soon_is_refused(void **state)
{
    struct intake *intake = *state;
    uint32_t kept[2];
    for (uint32_t slow = 0; slow < 2; slow++) {
        for (int i = 0; i < 200; i++) { /* 1 us, or 10 us, a message */
            assert_int_not_equal(intake_put(intake, 1, SMALL), INTAKE_NONE);
            (void)take(intake);
            intake_decided(intake, slow == 0 ? 10000 : 100000);
        }
        kept[slow] = fill(intake, 1, SMALL);
        const int64_t wait_ns = (int64_t)kept[slow] * (slow == 0 ? 10000 : 100000);
        assert_in_range(wait_ns, INTAKE_WAIT_NS / 10 * 9, INTAKE_WAIT_NS / 10 * 11);
        while (take(intake) != 0)
            continue;
    }
    assert_true(kept[0] > 5 * kept[1]);
}

/* Only who has more than its share waiting is refused: others find room whoever came first. */
static void who_has_nothing_waiting_is_never_refused(void **state)
{
    struct intake *intake = *state;
    (void)fill(intake, 1, SMALL);
    for (uint64_t who = 2; who < INTAKE_CONNECTIONS_MAX && intake_room(intake); who++)
        assert_int_not_equal(intake_put(intake, who, LARGE / 100), INTAKE_NONE);
    assert_int_equal(intake_put(intake, 1, SMALL), INTAKE_NONE);
}

/* INTAKE-3: many connections with large messages are bounded in bytes: then nothing more is
 * read. */
static void without_room_nothing_more_is_read(void **state)
{
    struct intake *intake = *state;
    uint64_t who = 1;
    uint64_t bytes = 0;
    while (intake_room(intake)) {
        assert_int_not_equal(intake_put(intake, who++, 1 << 20), INTAKE_NONE);
        bytes += 1 << 20;
    }
    assert_in_range(bytes, INTAKE_BYTES_MAX / 2, INTAKE_BYTES_MAX);
    while (take(intake) != 0)
        continue;
    for (who = 1; intake_room(intake); who++)
        assert_int_not_equal(intake_put(intake, who, SMALL), INTAKE_NONE);
    assert_int_equal(who - 1, INTAKE_CONNECTIONS_MAX);
    assert_int_equal(intake_count(intake), INTAKE_CONNECTIONS_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(messages_of_a_connection_keep_their_order),
        TEST(no_two_messages_have_the_same_place),
        TEST(one_that_asks_little_waits_for_one_turn_of_the_others),
        TEST(connections_share_by_bytes),
        TEST(what_cannot_be_decided_soon_is_refused),
        TEST(who_has_nothing_waiting_is_never_refused),
        TEST(without_room_nothing_more_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

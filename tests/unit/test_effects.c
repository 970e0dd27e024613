/* test_effects.c - effects keep their order and their bytes, and the buffer keeps its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/model/effects.h"
#include "tests/unit/support_death.h"

static int set_up(void **state)
{
    static struct effects effects;

    *state = &effects;
    return effects_init(&effects, alloc_heap());
}

static int tear_down(void **state)
{
    effects_fini(*state);
    return 0;
}

static struct effect *add_message(struct effects *effects, const void *bytes, size_t len)
{
    struct effect *effect = effects_add(effects, EFFECT_SEND_PEER);
    uint8_t *place = effects_reserve(effects, len);

    memcpy(place, bytes, len);
    effects_commit(effects, effect, len);
    return effect;
}

/* The shell performs effects in the order of the array, so it must be that of the calls. */
static void effects_stay_in_the_order_in_which_they_were_added(void **state)
{
    struct effects *effects = *state;

    for (uint32_t i = 0; i < 1000; i++)
        effects_add(effects, i % 2 == 0 ? EFFECT_LOAD : EFFECT_META)->vnode = i;
    assert_int_equal(effects->count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(effects->items[i].vnode, i);
        assert_int_equal(effects->items[i].kind, i % 2 == 0 ? EFFECT_LOAD : EFFECT_META);
    }
}

/* A step fills only the fields it needs; the others must not be those of an earlier step. */
static void an_effect_is_zeroed_though_its_place_was_used_before(void **state)
{
    struct effects *effects = *state;
    struct effect *effect = add_message(effects, "abc", 3);

    effect->target = 7;
    effect->shard = 3;
    effect->id.hi = 1;
    (void)snprintf(effect->address, sizeof effect->address, "%s", "one");
    effects_clear(effects);
    effect = effects_add(effects, EFFECT_LIST);
    assert_int_equal(effect->kind, EFFECT_LIST);
    assert_int_equal(effect->target, 0);
    assert_int_equal(effect->shard, 0);
    assert_int_equal(effect->id.hi, 0);
    assert_null(effect->bytes);
    assert_int_equal(effect->len, 0);
    assert_string_equal(effect->address, "");
}

/* A message must not change when the next one is written. */
static void messages_lie_side_by_side_in_the_arena(void **state)
{
    struct effects *effects = *state;
    char text[16];

    for (int i = 0; i < 100; i++) {
        const int len = snprintf(text, sizeof text, "message %d", i);
        add_message(effects, text, (size_t)len);
    }
    for (int i = 0; i < 100; i++) {
        const int len = snprintf(text, sizeof text, "message %d", i);
        assert_int_equal(effects->items[i].len, len);
        assert_memory_equal(effects->items[i].bytes, text, (size_t)len);
    }
}

/* A writer reserves an upper bound; what it does not use is for the next message. */
static void only_what_is_committed_is_used_up(void **state)
{
    struct effects *effects = *state;
    uint8_t *place = effects_reserve(effects, 1000);

    effects_commit(effects, effects_add(effects, EFFECT_META), 10);
    assert_int_equal(effects->used, 10);
    assert_ptr_equal(effects_reserve(effects, 1000), place + 10);
    assert_ptr_equal(effects_reserve(effects, 1000), place + 10);
}

/* Each step starts with the whole buffer. */
static void clearing_gives_all_room_back(void **state)
{
    struct effects *effects = *state;
    const uint8_t *start = effects_reserve(effects, EFFECTS_ARENA_LEN);

    effects_commit(effects, effects_add(effects, EFFECT_META), EFFECTS_ARENA_LEN);
    effects_clear(effects);
    assert_int_equal(effects->count, 0);
    assert_ptr_equal(effects_reserve(effects, EFFECTS_ARENA_LEN), start);
}

/* EFFECTS-1: a frame is refused while there is still room for what may not be dropped. */
static void frames_leave_room_for_effects_that_are_kept(void **state)
{
    struct effects *effects = *state;

    assert_true(effects_fit(effects, EFFECTS_ARENA_LEN));
    assert_false(effects_fit(effects, (size_t)EFFECTS_ARENA_LEN + 1));
    assert_false(effects_fit(effects, SIZE_MAX));
    add_message(effects, "abc", 3);
    assert_true(effects_fit(effects, EFFECTS_ARENA_LEN - 3));
    assert_false(effects_fit(effects, EFFECTS_ARENA_LEN - 2));
    while (effects_fit(effects, 0) && effects->count < EFFECTS_MAX)
        add_message(effects, "", 0);
    assert_int_equal(effects->count, EFFECTS_MAX - EFFECTS_KEPT);
    effects_clear(effects);
    assert_true(effects_fit(effects, EFFECTS_ARENA_LEN));
}

static void add_one(void *effects)
{
    (void)effects_add(effects, EFFECT_META);
}

static void reserve_one(void *effects)
{
    (void)effects_reserve(effects, 1);
}

static void commit_one(void *context)
{
    struct effects *effects = context;
    effects_commit(effects, &effects->items[0], 1);
}

static void reserve_huge(void *effects)
{
    (void)effects_reserve(effects, SIZE_MAX);
}

/* EFFECTS-1: a step that exceeds the bound is a bug, to be stopped before it writes elsewhere. */
static void one_effect_too_many_asserts(void **state)
{
    struct effects *effects = *state;

    for (uint32_t i = 0; i < EFFECTS_MAX - 1; i++)
        add_one(effects);
    assert_false(death_by_assert(add_one, effects, NULL, 0));
    add_one(effects);
    assert_true(death_by_assert(add_one, effects, NULL, 0));
}

/* EFFECTS-1: nor may a message reach beyond the arena, whatever its length. */
static void one_byte_beyond_the_arena_asserts(void **state)
{
    struct effects *effects = *state;

    assert_true(death_by_assert(reserve_huge, effects, NULL, 0));
    effects_commit(effects, effects_add(effects, EFFECT_META), EFFECTS_ARENA_LEN - 1);
    assert_false(death_by_assert(reserve_one, effects, NULL, 0));
    assert_false(death_by_assert(commit_one, effects, NULL, 0));
    effects_commit(effects, effects_add(effects, EFFECT_META), 1);
    assert_true(death_by_assert(reserve_one, effects, NULL, 0));
    assert_true(death_by_assert(commit_one, effects, NULL, 0));
}

/* A node that starts with too little memory says so, and leaks nothing. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        struct alloc_failing failing;
        struct effects effects;
        alloc_failing_init(&failing, fail_at);
        const int error = effects_init(&effects, &failing.allocator);
        assert_int_equal(error, fail_at <= 2 ? TG_ENOMEM : 0);
        if (error == 0)
            assert_true(failing.bytes_live >= EFFECTS_ARENA_LEN);
        effects_fini(&effects);
        effects_fini(&effects); /* giving back twice is harmless */
        assert_int_equal(failing.bytes_live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(effects_stay_in_the_order_in_which_they_were_added, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_effect_is_zeroed_though_its_place_was_used_before,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_lie_side_by_side_in_the_arena, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_what_is_committed_is_used_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clearing_gives_all_room_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_leave_room_for_effects_that_are_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_effect_too_many_asserts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_byte_beyond_the_arena_asserts, set_up, tear_down),
        cmocka_unit_test(a_failing_allocator_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

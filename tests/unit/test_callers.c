/* test_callers.c - who was counted, how often, and by how much a count may be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/replay/callers.h"
#include "tests/unit/support_effort.h"

enum { KEYS = 20000, ROOM = 1024, TEXTS = 64 * 1024 };

static struct hash128 hash_of(uint64_t key)
{
    return (struct hash128){hash_mix64(key + 1), hash_mix64(key + 77777)};
}

/* The number of the key, made if it is not there; texts are the key itself. */
static uint32_t get(struct callers *callers, uint64_t key, bool *dropped)
{
    uint32_t number = callers_find(callers, hash_of(key));
    if (number != CALLERS_NONE)
        return number;
    number = callers_add(callers, hash_of(key), (uint32_t)(key % 7), &key, sizeof key);
    if (number == CALLERS_NONE) {
        *dropped = true;
        assert_true(callers_drop(callers));
        callers_check_invariants(callers);
        number = callers_add(callers, hash_of(key), (uint32_t)(key % 7), &key, sizeof key);
    }
    return number;
}

static void check_text(struct callers *callers, uint32_t number, uint64_t key)
{
    const struct caller *caller = callers_at(callers, number);
    uint64_t text;
    assert_int_equal(caller->text_len, sizeof text);
    memcpy(&text, callers_text(callers, caller), sizeof text);
    assert_true(text == key);
    assert_int_equal(caller->rule, key % 7);
}

/* While the keys fit, every count is exact. */
static void counts_are_exact_while_keys_fit(void **state)
{
    (void)state;
    struct callers callers;
    struct random random;
    static uint64_t model[ROOM];
    bool dropped = false;
    random_init(&random, 21);
    memset(model, 0, sizeof model);
    assert_int_equal(callers_init(&callers, alloc_heap(), ROOM, TEXTS), 0);
    for (int i = 0; i < 100000; i++) {
        const uint64_t key = random_below(&random, ROOM);
        callers_at(&callers, get(&callers, key, &dropped))->requests++;
        model[key]++;
    }
    assert_false(dropped);
    for (uint64_t key = 0; key < ROOM; key++) {
        const uint32_t number = callers_find(&callers, hash_of(key));
        assert_int_not_equal(number, CALLERS_NONE);
        assert_true(callers_at(&callers, number)->requests == model[key]);
        assert_true(callers_at(&callers, number)->error == 0);
        check_text(&callers, number, key);
    }
    callers_fini(&callers);
}

/* When they do not fit, each count is low by no more than its error (CALLERS-2), a key that is not
 * there was seen no more than `floor` times (CALLERS-3), and the busiest key is there. */
static void counts_of_too_many_keys_are_within_their_error(void **state)
{
    (void)state;
    struct random random;
    static uint64_t model[KEYS];
    random_init(&random, 22);
    for (int round = 0; round < EFFORT(10); round++) {
        struct callers callers;
        bool dropped = false;
        memset(model, 0, sizeof model);
        assert_int_equal(callers_init(&callers, alloc_heap(), ROOM, TEXTS), 0);
        for (int i = 0; i < 100000; i++) {
            const double unit = (double)random_below(&random, 1 << 30) / (1 << 30);
            const uint64_t key = (uint64_t)(unit * unit * unit * unit * KEYS); /* a few are busy */
            callers_at(&callers, get(&callers, key, &dropped))->requests++;
            model[key]++;
        }
        assert_true(dropped);
        uint64_t found = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            const uint32_t number = callers_find(&callers, hash_of(key));
            if (number == CALLERS_NONE) {
                assert_true(model[key] <= callers.floor);
                continue;
            }
            const struct caller *caller = callers_at(&callers, number);
            assert_true(caller->requests <= model[key]);
            assert_true(model[key] <= caller->requests + caller->error);
            check_text(&callers, number, key);
            found++;
        }
        assert_int_equal(found, callers.count);
        assert_true(callers_find(&callers, hash_of(0)) != CALLERS_NONE);
        assert_true(callers.floor < model[0] / 4);
        callers_fini(&callers);
    }
}

/* A held key keeps its number and its text through drops; when all are held nothing can go. */
static void held_keys_are_never_dropped(void **state)
{
    (void)state;
    struct callers callers;
    bool dropped = false;
    assert_int_equal(callers_init(&callers, alloc_heap(), ROOM, TEXTS), 0);
    uint32_t held[10];
    for (uint64_t key = 0; key < 10; key++) {
        held[key] = get(&callers, key, &dropped);
        callers_at(&callers, held[key])->held++;
    }
    for (uint64_t key = 10; key < 5 * ROOM; key++)
        callers_at(&callers, get(&callers, key, &dropped))->requests += 2;
    assert_true(dropped);
    for (uint64_t key = 0; key < 10; key++) {
        assert_int_equal(callers_find(&callers, hash_of(key)), held[key]);
        check_text(&callers, held[key], key);
    }
    for (uint32_t i = 0; i < callers.end; i++)
        callers_at(&callers, i)->held += callers_at(&callers, i)->used;
    assert_false(callers_drop(&callers));
    callers_fini(&callers);
}

/* Texts are bounded as keys are: too many bytes make room the same way. */
static void texts_are_bounded(void **state)
{
    (void)state;
    static const char text[1000] = "a";
    struct callers callers;
    assert_int_equal(callers_init(&callers, alloc_heap(), ROOM, TEXTS), 0);
    uint64_t key = 0;
    while (callers_add(&callers, hash_of(key), 0, text, sizeof text) != CALLERS_NONE)
        key++;
    assert_int_equal(key, TEXTS / sizeof text);
    assert_true(callers_drop(&callers));
    assert_int_not_equal(callers_add(&callers, hash_of(key), 0, text, sizeof text), CALLERS_NONE);
    callers_fini(&callers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_exact_while_keys_fit),
        cmocka_unit_test(counts_of_too_many_keys_are_within_their_error),
        cmocka_unit_test(held_keys_are_never_dropped),
        cmocka_unit_test(texts_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

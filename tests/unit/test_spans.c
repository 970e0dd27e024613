/* test_spans.c - what is accounted for once is not missing any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/limit/algorithms/spans.h"

enum { TIME = 64, ROUNDS = 20000 };

static unsigned unmarked(const bool *marked, int64_t from_ns, int64_t to_ns)
{
    unsigned count = 0;
    for (int64_t at = from_ns; at < to_ns; at++)
        count += !marked[at];
    return count;
}

/* Stretches of marked time. */
static unsigned stretches(const bool *marked)
{
    unsigned count = 0;
    for (unsigned at = 0; at < TIME; at++)
        count += marked[at] && (at == 0 || !marked[at - 1]);
    return count;
}

/* A plain row of moments is marked beside: as long as it never held more stretches than there is
 * room for, both say the same; afterwards no more is known than was said. */
static void what_was_noted_is_not_missing(void **state)
{
    (void)state;
    struct random random;
    unsigned exact_rounds = 0;
    random_init(&random, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool marked[TIME] = {false};
        struct spans spans;
        bool exact = true;
        memset(&spans, 0, sizeof spans);
        for (unsigned i = 0; i < 8; i++) {
            const int64_t from_ns = 1 + (int64_t)random_below(&random, TIME - 2);
            const int64_t to_ns =
                from_ns + (int64_t)random_below(&random, (uint64_t)(TIME - from_ns));
            const uint64_t missing = spans_missing(&spans, from_ns, to_ns);
            if (exact)
                assert_int_equal(missing, unmarked(marked, from_ns, to_ns));
            assert_true(missing >= unmarked(marked, from_ns, to_ns));
            assert_true(missing <= (uint64_t)(to_ns - from_ns));
            spans_add(&spans, from_ns, to_ns);
            memset(&marked[from_ns], true, (size_t)(to_ns - from_ns));
            assert_int_equal(spans_missing(&spans, from_ns, to_ns), 0);
            exact = exact && stretches(marked) <= SPANS_MAX;
        }
        exact_rounds += exact;
    }
    assert_true(exact_rounds > ROUNDS / 10);
}

/* Time that runs backwards, or does not pass, is no time. */
static void an_empty_stretch_is_neither_missing_nor_noted(void **state)
{
    (void)state;
    struct spans spans;
    struct spans empty;
    memset(&spans, 0, sizeof spans);
    memset(&empty, 0, sizeof empty);
    assert_int_equal(spans_missing(&spans, 5, 5), 0);
    assert_int_equal(spans_missing(&spans, 7, 5), 0);
    spans_add(&spans, 7, 5);
    spans_add(&spans, 5, 5);
    assert_memory_equal(&spans, &empty, sizeof spans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_noted_is_not_missing),
        cmocka_unit_test(an_empty_stretch_is_neither_missing_nor_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

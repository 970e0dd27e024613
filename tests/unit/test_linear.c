/* test_linear.c - the judge of histories must reject what no order of operations explains.
 *
 * Small histories whose verdict is plain, then random ones: what a real counter answered to
 * overlapping operations is accepted, and the same with one answer falsified is compared with a
 * naive search through all orders.
 */
#include "tests/sim/linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/unit/support_effort.h"

enum { LIMIT = 3, OPS_MAX = 7 };

static struct linear_op check(int64_t call_ns, int64_t return_ns, bool allowed)
{
    return (struct linear_op){
        .call_ns = call_ns, .return_ns = return_ns, .cost = 1, .allowed = allowed, .used = -1};
}

static enum linear_verdict judge(const struct linear_op *ops, size_t count)
{
    return linear_check(ops, count, LIMIT, NULL);
}

/* What one client does, one after the other, has one order only. */
static void checks_in_a_row_are_allowed_up_to_the_limit(void **state)
{
    struct linear_op ops[] = {check(0, 1, true), check(2, 3, true), check(4, 5, true),
                              check(6, 7, false)};
    (void)state;
    assert_int_equal(judge(ops, 4), LINEAR_OK);
    ops[3].allowed = true;
    assert_int_equal(judge(ops, 4), LINEAR_BROKEN);
}

/* Over-admission is what quorum exists to prevent. */
static void one_more_than_the_limit_is_rejected_however_they_overlap(void **state)
{
    struct linear_op ops[LIMIT + 1];
    size_t at = 99;
    (void)state;
    for (int i = 0; i <= LIMIT; i++)
        ops[i] = check(0, 10 + i, true);
    assert_int_equal(linear_check(ops, LIMIT + 1, LIMIT, &at), LINEAR_BROKEN);
    assert_int_equal(at, LIMIT); /* the first that cannot be explained */
    assert_int_equal(judge(ops, LIMIT), LINEAR_OK);
}

/* A denial needs a reason that had begun before the denial was told. */
static void a_denial_before_the_limit_is_used_up_is_rejected(void **state)
{
    struct linear_op ops[] = {check(0, 1, true), check(2, 3, false), check(4, 5, true),
                              check(4, 5, true)};
    (void)state;
    assert_int_equal(judge(ops, 4), LINEAR_BROKEN);
    ops[1].return_ns = 6; /* now it overlaps the two that use the rest up */
    assert_int_equal(judge(ops, 4), LINEAR_OK);
}

/* A read that misses what was told before is the sign of a stale leader. */
static void a_peek_that_tells_an_old_count_is_rejected(void **state)
{
    struct linear_op ops[] = {check(0, 1, true), check(2, 3, true), check(4, 5, true)};
    (void)state;
    ops[2].kind = LINEAR_PEEK;
    ops[2].cost = 0;
    ops[2].used = 1;
    assert_int_equal(judge(ops, 3), LINEAR_BROKEN);
    ops[2].used = 2;
    assert_int_equal(judge(ops, 3), LINEAR_OK);
    ops[1].return_ns = 5; /* the second check may come after the peek */
    ops[2].used = 1;
    assert_int_equal(judge(ops, 3), LINEAR_OK);
}

/* Nobody knows whether a check without an answer was charged. */
static void a_check_without_an_answer_may_have_happened_or_not(void **state)
{
    struct linear_op ops[] = {check(0, LINEAR_NEVER, false), check(0, 1, true), check(2, 3, true),
                              check(4, 5, true), check(6, 7, false)};
    (void)state;
    assert_int_equal(judge(ops, 5), LINEAR_OK); /* it did not, or last of all */
    ops[3].allowed = false;
    assert_int_equal(judge(ops, 5), LINEAR_OK); /* it did */
    ops[2].allowed = false;
    assert_int_equal(judge(ops, 5), LINEAR_BROKEN); /* but once only */
}

/* A check that was sent again may be charged for each time. */
static void a_repeated_check_may_be_charged_as_often_as_it_was_sent(void **state)
{
    struct linear_op ops[] = {check(0, 1, true), check(2, 3, false)};
    (void)state;
    assert_int_equal(judge(ops, 2), LINEAR_BROKEN);
    ops[0].extra = 1;
    assert_int_equal(judge(ops, 2), LINEAR_BROKEN);
    ops[0].extra = 2;
    assert_int_equal(judge(ops, 2), LINEAR_OK);
}

/* Who decides by an earlier clock finds a token used that has drained, and admits less for it. */
static void with_slack_a_counter_may_seem_fuller_than_it_is_but_never_emptier(void **state)
{
    struct linear_op ops[] = {check(0, 1, true), check(2, 3, true), check(4, 5, false),
                              check(6, 7, true), check(8, 9, false)};
    (void)state;
    ops[4].used = LIMIT + 1;
    assert_int_equal(judge(ops, 5), LINEAR_BROKEN);
    for (int i = 0; i < 5; i++)
        ops[i].slack = 1;
    assert_int_equal(judge(ops, 5), LINEAR_OK);
    ops[4].kind = LINEAR_PEEK; /* what costs nothing is allowed however full it seems */
    ops[4].cost = 0;
    ops[4].allowed = true;
    assert_int_equal(judge(ops, 5), LINEAR_OK);
    ops[4] = check(8, 9, false);
    ops[4].slack = 1;
    ops[4].used = LIMIT + 2;
    assert_int_equal(judge(ops, 5), LINEAR_BROKEN);
    ops[4].used = LIMIT;
    ops[2].allowed = true; /* three were allowed before: none is free for the fourth */
    assert_int_equal(judge(ops, 5), LINEAR_BROKEN);
    ops[3].allowed = false;
    assert_int_equal(judge(ops, 5), LINEAR_OK);
}

/* What is given back may be taken again, but not before it was given back. */
static void a_refund_makes_room_once_it_has_begun(void **state)
{
    struct linear_op ops[] = {check(0, 1, true), check(0, 1, true), check(0, 1, true),
                              check(4, 5, false), check(6, 7, true)};
    (void)state;
    ops[3].kind = LINEAR_REFUND;
    assert_int_equal(judge(ops, 5), LINEAR_OK);
    ops[4].call_ns = 2;
    ops[4].return_ns = 3;
    assert_int_equal(judge(ops, 5), LINEAR_BROKEN);
}

/* ---- random histories ------------------------------------------------------------------------ */

/* Whether `used` after operation `op` at state `used_before` is what was answered. */
static bool explains(const struct linear_op *op, uint64_t *used)
{
    const uint64_t before = *used;
    const bool fits = before + op->cost <= LIMIT;
    uint64_t after = before;
    if (op->kind == LINEAR_REFUND)
        after = before > op->cost ? before - op->cost : 0;
    else if (op->allowed != fits)
        return false;
    else
        after = fits ? before + op->cost : before;
    if (op->used >= 0 && (uint64_t)op->used != after)
        return false;
    *used = op->kind == LINEAR_PEEK ? before : after;
    return true;
}

static bool before_in_time(const struct linear_op *ops, const uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            if (ops[order[j]].return_ns < ops[order[i]].call_ns)
                return false;
    return true;
}

/* The next permutation in lexical order; false after the last. */
static bool permute(uint32_t *order, uint32_t count)
{
    uint32_t i = count - 1;
    while (i > 0 && order[i - 1] >= order[i])
        i--;
    if (i == 0)
        return false;
    uint32_t j = count - 1;
    while (order[j] <= order[i - 1])
        j--;
    const uint32_t swapped = order[j];
    order[j] = order[i - 1];
    order[i - 1] = swapped;
    for (uint32_t low = i, high = count - 1; low < high; low++, high--) {
        const uint32_t other = order[low];
        order[low] = order[high];
        order[high] = other;
    }
    return true;
}

/* All orders of all operations, answered ones only: the definition itself. */
static bool naive(const struct linear_op *ops, uint32_t count)
{
    uint32_t order[OPS_MAX];
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    do {
        uint64_t used = 0;
        bool good = before_in_time(ops, order, count);
        for (uint32_t i = 0; good && i < count; i++)
            good = explains(&ops[order[i]], &used);
        if (good)
            return true;
    } while (permute(order, count));
    return false;
}

/* Operations at random times; each is answered by a counter at a moment between call and return. */
static void make_history(struct random *random, struct linear_op *ops, uint32_t count)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct linear_op *op = &ops[i];
        const int64_t moment_ns = 10 * (int64_t)i; /* moments in the order of the array */
        *op = check(moment_ns - (int64_t)random_below(random, 30),
                    moment_ns + (int64_t)random_below(random, 30), false);
        op->kind = (enum linear_kind)random_below(random, 3);
        op->cost = (uint32_t)random_below(random, 3) + (op->kind != LINEAR_PEEK);
        op->allowed = used + op->cost <= LIMIT;
        const bool told = random_below(random, 2) == 0;
        const bool ok = explains(op, &used);
        assert_true(ok);
        if (told && op->kind == LINEAR_PEEK)
            op->used = (int64_t)(op->allowed ? used + op->cost : used);
        else if (told)
            op->used = (int64_t)used;
    }
}

/* What a counter really answered is always accepted. */
static void answers_of_a_counter_are_accepted(void **state)
{
    struct random random;
    (void)state;
    random_init(&random, 7);
    for (uint32_t run = 0; run < EFFORT(3000); run++) {
        struct linear_op ops[64];
        const uint32_t count = 1 + (uint32_t)random_below(&random, 64);
        make_history(&random, ops, count);
        assert_int_equal(judge(ops, count), LINEAR_OK);
    }
}

/* With one answer falsified, the verdict is that of a search through all orders. */
static void the_verdict_is_that_of_a_search_through_all_orders(void **state)
{
    struct random random;
    uint32_t rejected = 0;
    (void)state;
    random_init(&random, 8);
    for (uint32_t run = 0; run < EFFORT(1500); run++) {
        struct linear_op ops[OPS_MAX];
        const uint32_t count = 2 + (uint32_t)random_below(&random, OPS_MAX - 1);
        make_history(&random, ops, count);
        struct linear_op *op = &ops[random_below(&random, count)];
        if (random_below(&random, 2) == 0)
            op->allowed = !op->allowed;
        else
            op->used = (int64_t)random_below(&random, LIMIT + 1);
        const bool good = naive(ops, count);
        rejected += !good;
        assert_int_equal(judge(ops, count), good ? LINEAR_OK : LINEAR_BROKEN);
    }
    assert_in_range(rejected, EFFORT(200), EFFORT(1300)); /* both verdicts were met often */
}

/* What is too much to be followed is said, not judged. */
static void too_many_open_operations_are_not_judged(void **state)
{
    struct linear_op ops[LINEAR_OPEN_MAX + 1];
    (void)state;
    for (int i = 0; i <= LINEAR_OPEN_MAX; i++)
        ops[i] = check(0, 10, true);
    assert_int_equal(judge(ops, LINEAR_OPEN_MAX + 1), LINEAR_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_in_a_row_are_allowed_up_to_the_limit),
        cmocka_unit_test(one_more_than_the_limit_is_rejected_however_they_overlap),
        cmocka_unit_test(a_denial_before_the_limit_is_used_up_is_rejected),
        cmocka_unit_test(a_peek_that_tells_an_old_count_is_rejected),
        cmocka_unit_test(a_check_without_an_answer_may_have_happened_or_not),
        cmocka_unit_test(a_repeated_check_may_be_charged_as_often_as_it_was_sent),
        cmocka_unit_test(with_slack_a_counter_may_seem_fuller_than_it_is_but_never_emptier),
        cmocka_unit_test(a_refund_makes_room_once_it_has_begun),
        cmocka_unit_test(answers_of_a_counter_are_accepted),
        cmocka_unit_test(the_verdict_is_that_of_a_search_through_all_orders),
        cmocka_unit_test(too_many_open_operations_are_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

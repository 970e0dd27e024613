/* test_term.c - terms are totally ordered, and a newly opened one is above all that were seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/model/term.h"

static struct term make(uint64_t epoch, uint64_t number, uint64_t writer)
{
    return (struct term){.epoch = epoch, .number = number, .writer = writer};
}

static int sign(int value)
{
    return (value > 0) - (value < 0);
}

/* A term of few values, so that equal fields are frequent, or of the largest ones. */
static struct term draw(struct random *random)
{
    const uint64_t base = random_below(random, 2) == 0 ? 0 : UINT64_MAX - 2;
    return make(base + random_below(random, 3), base + random_below(random, 3),
                base + random_below(random, 3));
}

/* A node that missed a change of the ring must not outrank one that knows it. */
static void the_epoch_counts_before_the_number_and_the_number_before_the_writer(void **state)
{
    const struct term ascending[] = {
        make(0, 0, 0),
        make(1, 1, 1),
        make(1, 1, UINT64_MAX),
        make(1, 2, 1),
        make(1, UINT64_MAX, UINT64_MAX),
        make(2, 1, 1),
        make(UINT64_MAX, 0, 0),
    };
    const size_t count = sizeof ascending / sizeof *ascending;

    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            assert_int_equal(sign(term_compare(&ascending[i], &ascending[j])), (i > j) - (i < j));
}

/* Two nodes that compare the same two terms must not both think that they are ahead. */
static void the_order_is_total(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 41);
    for (int i = 0; i < 20000; i++) {
        const struct term a = draw(&random);
        const struct term b = draw(&random);
        const struct term c = draw(&random);
        const int ab = sign(term_compare(&a, &b));
        assert_int_equal(ab, -sign(term_compare(&b, &a)));
        assert_int_equal(ab == 0, memcmp(&a, &b, sizeof a) == 0);
        if (ab <= 0 && term_compare(&b, &c) <= 0)
            assert_true(term_compare(&a, &c) <= 0);
    }
}

/* TERM-2: whoever opens a term is its writer, and it is newer than what that node had seen. */
static void an_opened_term_is_above_the_one_seen_and_names_its_writer(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 42);
    for (int i = 0; i < 10000; i++) {
        const struct term seen =
            make(random_below(&random, 5), random_below(&random, 1 << 30), random_next(&random));
        const uint64_t epoch = random_below(&random, 5);
        const uint64_t writer = 1 + random_below(&random, 3);
        const struct term next = term_above(&seen, epoch, writer, random_below(&random, 1 << 22));
        assert_true(term_compare(&next, &seen) > 0);
        assert_true(next.writer == writer);
        assert_true(next.epoch >= epoch);
        assert_false(term_is_none(&next));
    }
}

/* A node whose configuration is behind opens above a term of a newer configuration as well. */
static void opening_under_an_older_configuration_keeps_the_newer_epoch(void **state)
{
    const struct term seen = make(9, 4, 7);
    const struct term next = term_above(&seen, 3, 2, 1);

    (void)state;
    assert_int_equal(next.epoch, 9);
    assert_true(next.number > seen.number);
    assert_int_equal(next.writer, 2);
}

/* Two nodes that open at once above the same term open different ones (TERM-1 needs one leader). */
static void two_nodes_never_open_the_same_term(void **state)
{
    const struct term seen = make(2, 4, 7);
    const struct term one = term_above(&seen, 3, 10, 1);
    const struct term two = term_above(&seen, 3, 11, 1);

    (void)state;
    assert_true(term_compare(&one, &two) < 0);
}

/* A process that has forgotten the newest terms of its node may open above an older one; were it
 * the same term again, two histories would count as one. */
static void two_processes_of_a_node_never_open_the_same_term(void **state)
{
    const struct term seen = make(2, 4, 7);
    const struct term further = term_above(&seen, 3, 11, 9);
    const struct term first = term_above(&further, 3, 10, 1);
    const struct term again = term_above(&seen, 3, 10, 2);
    const struct term later = term_above(&further, 3, 10, 2);

    (void)state;
    assert_true(term_compare(&first, &again) != 0);
    assert_true(term_compare(&first, &later) != 0);
    assert_true(first.number != again.number && first.number != later.number);
}

/* A vnode that nobody ever decided for is told from one that somebody did. */
static void only_number_zero_means_no_term(void **state)
{
    const struct term none = make(5, 0, 9);
    const struct term first = term_above(&(struct term){0}, 0, 9, 0);

    (void)state;
    assert_true(term_is_none(&none));
    assert_false(term_is_none(&first));
}

/* Terms travel in records of fixed layout, so their length and order of fields are fixed. */
static void a_term_is_24_bytes_and_reads_back_as_written(void **state)
{
    const struct term term = make(0x0102030405060708, UINT64_MAX, 0x1112131415161718);
    uint8_t data[TERM_LEN];
    struct bytes_writer writer;
    struct bytes_reader reader;

    (void)state;
    bytes_writer_init(&writer, data, sizeof data);
    term_put(&writer, &term);
    assert_false(writer.failed);
    assert_int_equal(writer.len, TERM_LEN);
    assert_int_equal(data[0], 0x08); /* the epoch comes first, little-endian */
    assert_int_equal(data[8], 0xff);
    assert_int_equal(data[16], 0x18);
    bytes_reader_init(&reader, data, sizeof data);
    const struct term back = term_get(&reader);
    assert_int_equal(term_compare(&term, &back), 0);
    assert_int_equal(bytes_left(&reader), 0);
    assert_false(reader.failed);
}

/* A cut message must not yield a term that was never opened. */
static void every_prefix_of_a_term_fails(void **state)
{
    const uint8_t data[TERM_LEN] = {1};

    (void)state;
    for (size_t len = 0; len < TERM_LEN; len++) {
        struct bytes_reader reader;
        bytes_reader_init(&reader, data, len);
        (void)term_get(&reader);
        assert_true(reader.failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_epoch_counts_before_the_number_and_the_number_before_the_writer),
        cmocka_unit_test(the_order_is_total),
        cmocka_unit_test(an_opened_term_is_above_the_one_seen_and_names_its_writer),
        cmocka_unit_test(opening_under_an_older_configuration_keeps_the_newer_epoch),
        cmocka_unit_test(two_nodes_never_open_the_same_term),
        cmocka_unit_test(two_processes_of_a_node_never_open_the_same_term),
        cmocka_unit_test(only_number_zero_means_no_term),
        cmocka_unit_test(a_term_is_24_bytes_and_reads_back_as_written),
        cmocka_unit_test(every_prefix_of_a_term_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

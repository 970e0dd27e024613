/* test_wire_build.c - what a client builds is what a node reads, item by item, up to every bound.
 */
#include "client/protocol/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

struct bench {
    struct wire_checks_builder builder;
    struct wire_checks_space space;
    uint8_t values[WIRE_MESSAGE_MAX];
    uint8_t frame[WIRE_MESSAGE_MAX];
    uint8_t again[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
};

static const struct limit some_limit = {.count = 5, .window_ns = 60000000000ULL};
static const struct limit other_limit = {.count = 6, .window_ns = 60000000000ULL};

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    wire_checks_builder_init(&b->builder, b->values, sizeof b->values);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* What the naive model keeps of one appended item. */
struct model_item {
    int template; /* 0, 1 inline; 2 one name; 3 three names */
    uint8_t operation;
    uint64_t cost;
    char values[3][24];
    size_t len[3];
};

static const struct wire_text names[] = {{"api", 3}, {"ip", 2}, {"user", 4}};

static uint32_t model_values(const struct model_item *item)
{
    return item->template == 3 ? 3 : 1;
}

static struct model_item random_item(struct random *random)
{
    struct model_item item = {.template = (int)random_below(random, 4)};

    item.operation = (uint8_t)random_below(random, OPERATION_COUNT);
    if (item.operation <= OPERATION_PEEK && random_below(random, 2) == 0)
        item.operation |= WIRE_AT_MOST;
    item.cost = random_below(random, 2) == 0 ? random_below(random, 5)
                                             : random_below(random, WIRE_COST_MAX + 1);
    for (uint32_t k = 0; k < 3; k++) {
        item.len[k] = random_below(random, sizeof item.values[k] + 1);
        for (size_t i = 0; i < item.len[k]; i++)
            item.values[k][i] = (char)random_next(random);
    }
    return item;
}

static void append(struct bench *b, const struct model_item *item, uint32_t expected)
{
    struct wire_text values[3];
    int index = item->template == 0   ? wire_checks_builder_inline(&b->builder, &some_limit)
                : item->template == 1 ? wire_checks_builder_inline(&b->builder, &other_limit)
                                      : wire_checks_builder_attributes(&b->builder, names,
                                                                       item->template == 2 ? 1 : 3);

    assert_true(index >= 0);
    for (int k = 0; k < 3; k++)
        values[k] = (struct wire_text){item->values[k], item->len[k]};
    assert_int_equal(wire_checks_builder_append(&b->builder, (uint32_t)index, item->operation,
                                                item->cost, values, model_values(item)),
                     (int)expected);
}

static void compare(const struct wire_checks *checks, uint32_t i, const struct model_item *item)
{
    const struct wire_template *template = wire_checks_template(checks, i);
    struct wire_text values[WIRE_ATTRIBUTES_MAX];

    assert_int_equal(checks->operations[i], item->operation);
    assert_int_equal(wire_checks_operation(checks, i), item->operation & WIRE_OPERATION_MASK);
    assert_int_equal(wire_checks_at_most(checks, i), (item->operation & WIRE_AT_MOST) != 0);
    assert_true(wire_checks_cost(checks, i) == item->cost);
    assert_int_equal(template->kind,
                     item->template <2 ? WIRE_TEMPLATE_INLINE : WIRE_TEMPLATE_ATTRIBUTES);
    if (item->template <2)
        assert_int_equal(template->limit.count, item->template == 0 ? 5 : 6);
    else
        assert_memory_equal(template->names[0].data, "api", 3);
    assert_int_equal(wire_checks_values(checks, i, values), model_values(item));
    for (uint32_t k = 0; k < model_values(item); k++) {
        assert_int_equal(values[k].len, item->len[k]);
        if (values[k].len != 0)
            assert_memory_equal(values[k].data, item->values[k], values[k].len);
    }
}

/* Random batches against a naive model; four templates at most, however they are mixed. */
static void random_batches_round_trip(void **state)
{
    struct bench *b = *state;
    struct model_item model[300];
    struct random random;

    random_init(&random, 3);
    for (int round = 0; round < 60; round++) {
        const uint32_t count = 1 + (uint32_t)random_below(&random, 300);
        struct wire_checks checks;
        int len;

        wire_checks_builder_reset(&b->builder);
        for (uint32_t i = 0; i < count; i++) {
            model[i] = random_item(&random);
            append(b, &model[i], i);
        }
        assert_true(b->builder.template_count <= 4);
        len = wire_checks_builder_encode(&b->builder, 1 + random_next(&random) / 2,
                                         random_next(&random), 0, 1000, b->frame, sizeof b->frame);
        assert_true(len > 0 && (size_t)len <= wire_checks_builder_len(&b->builder));
        assert_int_equal(wire_decode_checks(b->frame, (size_t)len, &b->space, &checks, b->error),
                         0);
        assert_int_equal(checks.count, count);
        for (uint32_t i = 0; i < count; i++)
            compare(&checks, i, &model[i]);
    }
}

/* Filled until it refuses, by number or by bytes, the frame is still within the protocol. */
static void a_full_builder_still_makes_a_valid_message(void **state)
{
    struct bench *b = *state;
    static char big[WIRE_VALUE_MAX];
    const size_t lens[] = {0, 16, 200, WIRE_VALUE_MAX};

    for (size_t k = 0; k < sizeof lens / sizeof lens[0]; k++) {
        const struct wire_text value = {big, lens[k]};
        struct wire_checks checks;
        int items = 0;
        int status = 0;
        int len;

        wire_checks_builder_reset(&b->builder);
        assert_int_equal(wire_checks_builder_inline(&b->builder, &some_limit), 0);
        while (status >= 0) {
            status = wire_checks_builder_append(&b->builder, 0, 0, 1, &value, 1);
            items += status >= 0;
        }
        assert_int_equal(status, TG_EFULL);
        assert_int_equal(b->builder.count, items);
        assert_true(items == WIRE_CHECKS_MAX || lens[k] > 200);
        len = wire_checks_builder_encode(&b->builder, UINT64_MAX, UINT64_MAX, 0,
                                         WIRE_TIMEOUT_MS_MAX, b->frame, sizeof b->frame);
        assert_true(len > 0);
        assert_int_equal(wire_decode_checks(b->frame, (size_t)len, &b->space, &checks, b->error),
                         0);
    }
}

/* A node that takes less is given less. */
static void a_lowered_bound_is_kept(void **state)
{
    struct bench *b = *state;
    const struct wire_text value = {"0123456789", 10};
    int status = 0;

    b->builder.len_max = 1024;
    assert_int_equal(wire_checks_builder_inline(&b->builder, &some_limit), 0);
    while (status >= 0)
        status = wire_checks_builder_append(&b->builder, 0, 0, 1, &value, 1);
    assert_in_range(b->builder.count, 20, 60);
    status = wire_checks_builder_encode(&b->builder, UINT64_MAX, UINT64_MAX, 0, 1000, b->frame,
                                        sizeof b->frame);
    assert_in_range(status, 900, 1024);
}

/* The table of templates has a bound in number and in bytes; being full changes nothing. */
static void templates_are_bounded(void **state)
{
    struct bench *b = *state;
    static char text[WIRE_ATTRIBUTES_MAX][WIRE_ATTRIBUTE_LEN_MAX];
    struct wire_text long_names[WIRE_ATTRIBUTES_MAX];
    struct limit limit = some_limit;
    int status = 0;

    for (uint64_t i = 1; i <= WIRE_TEMPLATES_MAX; i++) {
        limit.count = i;
        assert_int_equal(wire_checks_builder_inline(&b->builder, &limit), (int)i - 1);
    }
    limit.count = WIRE_TEMPLATES_MAX + 1;
    assert_int_equal(wire_checks_builder_inline(&b->builder, &limit), TG_EFULL);
    limit.count = 7;
    assert_int_equal(wire_checks_builder_inline(&b->builder, &limit), 6);
    wire_checks_builder_reset(&b->builder);
    for (uint32_t i = 0; i < WIRE_ATTRIBUTES_MAX; i++) {
        memset(text[i], 'a' + (int)i % 26, sizeof text[i]);
        text[i][1] = (char)('0' + i);
        long_names[i] = (struct wire_text){text[i], sizeof text[i]};
    }
    for (int i = 0; status >= 0; i++) {
        text[0][2] = (char)('A' + i);
        status = wire_checks_builder_attributes(&b->builder, long_names, WIRE_ATTRIBUTES_MAX);
    }
    assert_int_equal(status, TG_EFULL);
    assert_in_range(b->builder.template_count, 20, 40);
}

/* Each field over its bound is refused and leaves the builder as it was. */
static void bad_fields_are_refused(void **state)
{
    struct bench *b = *state;
    static char big[WIRE_VALUE_MAX + 1];
    struct wire_text value = {"v", 1};
    const struct wire_text twice[] = {{"ip", 2}, {"ip", 2}};
    const struct wire_text empty[] = {{"", 0}};
    const struct wire_text with_nul[] = {{"a\0b", 3}};
    const struct limit no_window = {.count = 1};

    assert_int_equal(wire_checks_builder_inline(&b->builder, &no_window), TG_EINVALID);
    assert_int_equal(wire_checks_builder_attributes(&b->builder, twice, 2), TG_EINVALID);
    assert_int_equal(wire_checks_builder_attributes(&b->builder, empty, 1), TG_EINVALID);
    assert_int_equal(wire_checks_builder_attributes(&b->builder, with_nul, 1), TG_EINVALID);
    assert_int_equal(wire_checks_builder_attributes(&b->builder, names, 0), TG_EINVALID);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, 0, 1, &value, 1), TG_EINVALID);
    assert_int_equal(wire_checks_builder_inline(&b->builder, &some_limit), 0);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, 0, 1, &value, 0), TG_EINVALID);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, OPERATION_COUNT, 1, &value, 1),
                     TG_EINVALID);
    assert_int_equal(
        wire_checks_builder_append(&b->builder, 0, OPERATION_HIT | WIRE_AT_MOST, 1, &value, 1),
        TG_EINVALID);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, 0, WIRE_COST_MAX + 1, &value, 1),
                     TG_EINVALID);
    value = (struct wire_text){big, WIRE_VALUE_MAX + 1};
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, 0, 1, &value, 1), TG_EINVALID);
    assert_int_equal(b->builder.count, 0);
    assert_int_equal(b->builder.values_len, 0);
    assert_int_equal(
        wire_checks_builder_encode(&b->builder, 1, 1, 0, 1000, b->frame, sizeof b->frame),
        TG_EINVALID); /* no items */
}

/* How much of a lease was used goes along, for the items that say so, and in a retry; a message in
 * which none does has no such column. */
static void uses_of_leases_go_along(void **state)
{
    struct bench *b = *state;
    const struct wire_text value = {"user:42", 7};
    struct wire_checks checks;

    assert_int_equal(wire_checks_builder_inline(&b->builder, &some_limit), 0);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, OPERATION_CHECK, 3, &value, 1), 0);
    int len = wire_checks_builder_encode(&b->builder, 77, 1, 0, 1000, b->frame, sizeof b->frame);
    assert_int_equal(wire_decode_checks(b->frame, (size_t)len, &b->space, &checks, b->error), 0);
    assert_null(checks.uses);
    assert_int_equal(wire_checks_used(&checks, 0), 0);
    assert_int_equal(wire_checks_builder_append_used(&b->builder, 0, OPERATION_RELEASE, UINT64_MAX,
                                                     12, &value, 1),
                     1);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, OPERATION_HIT, 5, &value, 1), 2);
    assert_int_equal(
        wire_checks_builder_append_used(&b->builder, 0, OPERATION_RENEW, 9, 0, &value, 1), 3);
    assert_int_equal(
        wire_checks_builder_append_used(&b->builder, 0, OPERATION_CHECK, 9, 1, &value, 1),
        TG_EINVALID);
    assert_int_equal(wire_checks_builder_append_used(&b->builder, 0, OPERATION_RENEW, 9,
                                                     WIRE_COST_MAX + UINT64_C(1), &value, 1),
                     TG_EINVALID);
    len = wire_checks_builder_encode(&b->builder, 77, 2, 0, 1000, b->frame, sizeof b->frame);
    assert_true(len > 0 && (size_t)len <= wire_checks_builder_len(&b->builder));
    len = wire_checks_retry(b->frame, (size_t)len, 5, b->again, sizeof b->again);
    assert_true(len > 0);
    assert_int_equal(wire_decode_checks(b->again, (size_t)len, &b->space, &checks, b->error), 0);
    static const uint64_t expected[] = {0, 12, 0, 0};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(wire_checks_used(&checks, i), expected[i]);
    assert_true(wire_checks_cost(&checks, 1) == UINT64_MAX);
    assert_int_equal(wire_checks_cost(&checks, 2), 5);
}

/* Bytes that end before the message does give no retry, and nothing behind them is read. */
static void windows_go_along_by_where_they_begin_and_others_are_refused(void **state)
{
    struct bench *b = *state;
    const struct wire_text key = {"key", 3};
    struct wire_checks checks;
    struct limit limit = {
        .algorithm = ALGORITHM_FIXED_WINDOW, .count = 5, .window_ns = 60000000000ULL};
    for (unsigned align = 0; align < LIMIT_ALIGN_COUNT; align++) {
        limit.align = (uint8_t)align;
        const int index = wire_checks_builder_inline(&b->builder, &limit);
        assert_int_equal(index, align);
        assert_int_equal(
            wire_checks_builder_append(&b->builder, (uint32_t)index, OPERATION_CHECK, 1, &key, 1),
            align);
    }
    limit.align = LIMIT_ALIGN_COUNT;
    assert_int_equal(wire_checks_builder_inline(&b->builder, &limit), TG_EINVALID);
    const int len =
        wire_checks_builder_encode(&b->builder, 1, 1, 0, 1000, b->frame, sizeof b->frame);
    assert_true(len > 0);
    assert_int_equal(wire_decode_checks(b->frame, (size_t)len, &b->space, &checks, b->error), 0);
    for (unsigned align = 0; align < LIMIT_ALIGN_COUNT; align++)
        assert_int_equal(wire_checks_template(&checks, align)->limit.align, align);
    static const uint8_t year[] = {0, LIMIT_ALIGN_YEAR}; /* the last template's buckets and align */
    uint8_t *at = memmem(b->frame, (size_t)len, year, sizeof year);
    assert_non_null(at);
    at[1] = LIMIT_ALIGN_COUNT;
    assert_int_equal(wire_decode_checks(b->frame, (size_t)len, &b->space, &checks, b->error),
                     TG_EPROTOCOL);
    assert_non_null(strstr(b->error, "template.align"));
}

static void a_message_cut_short_gives_no_retry(void **state)
{
    /* [1, 5, 7, 9, 0, 250: an array of CHECKS' length that ends after its time-out, byte by byte.
     */
    static const uint8_t head[] = {0x9c, 1, 5, 7, 9, 0, 0xcc, 250};
    struct bench *b = *state;
    for (size_t len = 0; len < sizeof head; len++) {
        uint8_t *cut = malloc(len + 1); /* ends where the message ends, for the sanitizers */
        assert_non_null(cut);
        memmove(cut + 1, head, len);
        assert_int_equal(wire_checks_retry(cut + 1, len, 5, b->again, sizeof b->again),
                         TG_EINVALID);
        free(cut);
    }
}

/* The same bytes but for flags and time: a node recognises the items by (session, seq). */
static void a_retry_is_the_same_message_with_its_flag(void **state)
{
    struct bench *b = *state;
    const uint64_t seqs[] = {1, 200, 70000, UINT64_MAX};
    const struct wire_text value = {"user:42", 7};

    assert_int_equal(wire_checks_builder_inline(&b->builder, &some_limit), 0);
    assert_int_equal(wire_checks_builder_append(&b->builder, 0, 0, 3, &value, 1), 0);
    for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++) {
        struct wire_checks checks;
        int len = wire_checks_builder_encode(&b->builder, 77, seqs[i],
                                             WIRE_FLAG_EXPLAIN | WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE,
                                             1000, b->frame, sizeof b->frame);
        int again = wire_checks_retry(b->frame, (size_t)len, 5, b->again, sizeof b->again);

        assert_true(again > 0);
        assert_int_equal(wire_decode_checks(b->again, (size_t)again, &b->space, &checks, b->error),
                         0);
        assert_int_equal(checks.flags, WIRE_FLAG_RETRY | WIRE_FLAG_EXPLAIN | WIRE_FLAG_PARTLY);
        assert_int_equal(checks.timeout_ms, 5);
        assert_int_equal(checks.session, 77);
        assert_true(checks.seq == seqs[i]);
        assert_int_equal(wire_checks_cost(&checks, 0), 3);
        assert_memory_equal(wire_checks_key(&checks, 0).data, "user:42", 7);
        for (int capacity = 0; capacity < again; capacity++)
            assert_int_equal(
                wire_checks_retry(b->frame, (size_t)len, 5, b->again, (size_t)capacity),
                TG_ETOOBIG);
    }
    b->frame[2] = WIRE_GOODBYE;
    assert_int_equal(wire_checks_retry(b->frame, 40, 5, b->again, sizeof b->again), TG_EINVALID);
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_bench(random_batches_round_trip),
        with_bench(a_full_builder_still_makes_a_valid_message),
        with_bench(a_lowered_bound_is_kept),
        with_bench(templates_are_bounded),
        with_bench(bad_fields_are_refused),
        with_bench(uses_of_leases_go_along),
        with_bench(windows_go_along_by_where_they_begin_and_others_are_refused),
        with_bench(a_message_cut_short_gives_no_retry),
        with_bench(a_retry_is_the_same_message_with_its_flag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

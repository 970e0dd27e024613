/* test_throttle.c - CL.THROTTLE beside a model of redis-cell, and what both refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/gateway/throttle.h"
#include "node/limit/table/table.h"
#include "tests/unit/support_limit.h"

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

static char error[THROTTLE_ERROR_LEN];

/* The command of these words behind its name. */
static int read_words(struct throttle *out, const char *const *words, uint32_t count)
{
    static struct resp_request request;
    request.count = count + 1;
    request.arguments[0] = wire_text_of("cl.throttle");
    for (uint32_t i = 0; i < count; i++)
        request.arguments[i + 1] = wire_text_of(words[i]);
    return throttle_read(&request, out, error);
}

#define READ(out, ...)                                                                             \
    read_words(out, (const char *const[]){__VA_ARGS__},                                            \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void expect_refused(int result, const char *sentence)
{
    assert_int_equal(result, TG_EINVALID);
    if (strstr(error, sentence) == NULL)
        fail_msg("found \"%s\", expected \"%s\"", error, sentence);
}

/* The words become the limit that redis-cell would keep. */
static void the_words_become_a_limit(void **state)
{
    struct throttle throttle;
    (void)state;
    assert_int_equal(READ(&throttle, "key", "15", "30", "60"), 0);
    assert_int_equal(throttle.limit.algorithm, ALGORITHM_TOKEN_BUCKET);
    assert_int_equal(throttle.limit.burst, 16);
    assert_int_equal(throttle.limit.count, 30);
    assert_true(throttle.limit.window_ns == 60 * (uint64_t)NS_PER_S);
    assert_int_equal(throttle.cost, 1);
    assert_int_equal(throttle.operation, OPERATION_CHECK);
    assert_int_equal(READ(&throttle, "key", "+0", "1", "60", "0"), 0);
    assert_int_equal(throttle.limit.burst, 1);
    assert_int_equal(throttle.operation, OPERATION_PEEK);
    assert_int_equal(READ(&throttle, "key", "0", "1", "60", "-3"), 0);
    assert_int_equal(throttle.operation, OPERATION_REFUND);
    assert_int_equal(throttle.cost, 3);
    assert_int_equal(READ(&throttle, "key", "0", "1", "60", "9223372036854775807"), 0);
    assert_true(throttle.cost == WIRE_COST_MAX);
    assert_int_equal(READ(&throttle, "key", "0", "1", "60", "-9223372036854775808"), 0);
    assert_true(throttle.cost == WIRE_COST_MAX);
    assert_int_equal(READ(&throttle, "", "0", "1000000000", "1"), 0);
}

/* Mistakes are errors, in redis-cell's words where it has some. */
static void mistakes_are_told_as_redis_cell_tells_them(void **state)
{
    struct throttle throttle;
    char key[WIRE_VALUE_MAX + 2];
    (void)state;
    const char *usage = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> "
                        "<period> [<quantity>]";
    expect_refused(READ(&throttle, "key", "1", "1"), usage);
    expect_refused(READ(&throttle, "key", "1", "1", "1", "1", "1"), usage);
    const char *wrong[] = {
        "", "x", "1.5", " 1", "1 ", "-", "+", "--1", "9223372036854775808", "-9223372036854775809"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char sentence[128];
        (void)snprintf(sentence, sizeof sentence, "Cell error: Couldn't parse as integer: %s",
                       wrong[i]);
        expect_refused(READ(&throttle, "key", wrong[i], "1", "1"), sentence);
        expect_refused(READ(&throttle, "key", "1", wrong[i], "1"), sentence);
        expect_refused(READ(&throttle, "key", "1", "1", wrong[i]), sentence);
        expect_refused(READ(&throttle, "key", "1", "1", "1", wrong[i]), sentence);
    }
    const char *zero = "Cell error: Zero rates are not supported";
    expect_refused(READ(&throttle, "key", "1", "0", "1"), zero);
    expect_refused(READ(&throttle, "key", "1", "1", "0"), zero);
    expect_refused(READ(&throttle, "key", "1", "1000000001", "1"), zero);
    expect_refused(READ(&throttle, "key", "-1", "1", "1"), "Cell error: max_burst: found -1");
    expect_refused(READ(&throttle, "key", "1", "-1", "1"), "Cell error: count per period: found");
    expect_refused(READ(&throttle, "key", "1", "1", "-1"), "Cell error: period: found -1");
    expect_refused(READ(&throttle, "key", "1", "1", "9223372036854775807"),
                   "Cell error: period: found 9223372036854775807, expected 1 to 316224000");
    expect_refused(READ(&throttle, "key", "1", "1", "316224001"), "Cell error: period: found 3162");
    assert_int_equal(READ(&throttle, "key", "1", "1", "316224000"), 0);
    expect_refused(READ(&throttle, "key", "999999999999998", "1", "86400"), "Cell error: burst");
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    expect_refused(READ(&throttle, key, "1", "1", "1"), "Cell error: key: found 1025 bytes");
}

/* ---- beside a model -------------------------------------------------------------------------- */

/* A key of redis-cell, in whole ns; it is removed when its time has come. */
struct cell {
    int64_t tat_ns;
};

struct five {
    int64_t numbers[5];
};

static int64_t cell_seconds(int64_t ns)
{
    return ns / NS_PER_S + (ns % NS_PER_S / NS_PER_MS > 0);
}

/* The one difference: redis-cell sends whoever is limited for less than a millisecond away for 0 s.
 */
static int64_t wait_seconds(int64_t ns)
{
    return ns < NS_PER_MS ? 1 : cell_seconds(ns);
}

static struct five cell_throttle(struct cell *cell, const struct throttle *throttle,
                                 int64_t quantity, int64_t now_ns)
{
    const int64_t burst = (int64_t)throttle->limit.burst;
    const int64_t interval_ns = (int64_t)(throttle->limit.window_ns / throttle->limit.count);
    const int64_t tat_ns = cell->tat_ns > now_ns ? cell->tat_ns : now_ns;
    const int64_t tolerance_ns = burst * interval_ns;
    const int64_t wanted_ns = tat_ns + quantity * interval_ns;
    const int64_t wait_ns = wanted_ns - tolerance_ns - now_ns;
    const bool limited = wait_ns > 0;
    const bool fits = quantity * interval_ns <= tolerance_ns;
    const int64_t left_ns = limited ? tat_ns - now_ns : wanted_ns - now_ns;
    if (!limited)
        cell->tat_ns = wanted_ns;
    const int64_t next_ns = tolerance_ns - left_ns;
    return (struct five){{limited, burst, next_ns > -interval_ns ? next_ns / interval_ns : 0,
                          limited && fits ? wait_seconds(wait_ns) : -1, cell_seconds(left_ns)}};
}

static int64_t ms_up(int64_t ns)
{
    return ns < 0 ? -1 : (ns + NS_PER_MS - 1) / NS_PER_MS;
}

static struct five our_throttle(struct table *table, const struct throttle *throttle,
                                int64_t now_ns)
{
    char bytes[256];
    struct gateway_out writer = {.data = bytes, .capacity = sizeof bytes, .protocol = 2};
    const struct throttle_asked asked = throttle_asked(throttle);
    const struct limit_decision decided = limit_do(
        table, 1, &throttle->limit, (enum operation)throttle->operation, throttle->cost, 0, now_ns);
    const struct wire_decision decision = {
        .outcome = decided.allowed ? OUTCOME_ALLOW : OUTCOME_DENY,
        .allowed = decided.allowed,
        .limit = decided.limit,
        .used = decided.used,
        .remaining = decided.remaining,
        .reset_after_ms = ms_up(decided.reset_after_ns),
        .retry_after_ms = decided.allowed ? 0 : ms_up(decided.retry_after_ns),
    };
    struct five five;
    throttle_answer(&asked, &decision, &writer);
    bytes[writer.len] = '\0';
    assert_memory_equal(bytes, "*5\r\n", 4);
    char *at = bytes + 4;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(*at, ':');
        five.numbers[i] = strtoll(at + 1, &at, 10);
        at += 2;
    }
    return five;
}

/* Times that are whole milliseconds and a bit, as they are in life: exactly one ms is not. */
static int64_t random_gap_ns(struct random *random)
{
    return (int64_t)random_below(random, 4000) * NS_PER_MS + 7;
}

/* Whatever is asked in whatever order: the five integers are those of redis-cell. */
static void the_five_integers_are_those_of_redis_cell(void **state)
{
    static const char *const rates[][3] = {
        {"15", "30", "60"}, {"0", "1", "2"}, {"4", "1", "1"}, {"99", "100", "1"}, {"2", "5", "1"},
    };
    struct random random;
    (void)state;
    random_init(&random, 5);
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct table *table = limit_table();
        struct throttle first;
        struct cell cell = {0};
        int64_t now_ns = LIMIT_TEST_EPOCH_NS;
        assert_int_equal(READ(&first, "k", rates[r][0], rates[r][1], rates[r][2]), 0);
        const int64_t interval_ns = (int64_t)(first.limit.window_ns / first.limit.count);
        for (unsigned i = 0; i < EFFORT(40000); i++) {
            struct throttle throttle;
            char text[24];
            int64_t quantity = (int64_t)random_below(&random, 6);
            if (random_below(&random, 16) == 0)
                quantity = 1000;
            if (random_below(&random, 8) == 0 &&
                cell.tat_ns > now_ns) { /* back, never above full */
                quantity = -(int64_t)random_below(
                    &random, (uint64_t)((cell.tat_ns - now_ns) / interval_ns) + 1);
            }
            (void)snprintf(text, sizeof text, "%lld", (long long)quantity);
            assert_int_equal(READ(&throttle, "k", rates[r][0], rates[r][1], rates[r][2], text), 0);
            const struct five theirs = cell_throttle(&cell, &throttle, quantity, now_ns);
            const struct five ours = our_throttle(table, &throttle, now_ns);
            for (int k = 0; k < 5; k++)
                if (theirs.numbers[k] != ours.numbers[k])
                    fail_msg(
                        "rate %zu, operation %u, quantity %s, number %d: found %lld, redis-cell "
                        "gives %lld",
                        r, i, text, k, (long long)ours.numbers[k], (long long)theirs.numbers[k]);
            if (random_below(&random, 3) == 0)
                now_ns += random_gap_ns(&random);
        }
        table_free(&table);
    }
}

/* A look with a smaller burst than the key is in debt with says so, as redis-cell does; but what is
 * owed is at most one further limit, here of eight. */
static void a_look_sees_a_debt_beyond_the_burst(void **state)
{
    struct throttle wide;
    struct throttle narrow;
    (void)state;
    struct table *table = limit_table();
    struct cell cell = {0};
    assert_int_equal(READ(&wide, "k", "9", "1", "1", "7"), 0);
    assert_int_equal(READ(&narrow, "k", "3", "1", "1", "0"), 0);
    (void)our_throttle(table, &wide, LIMIT_TEST_EPOCH_NS);
    (void)cell_throttle(&cell, &wide, 7, LIMIT_TEST_EPOCH_NS);
    for (int64_t s = 0; s < 9; s++) {
        const int64_t now_ns = LIMIT_TEST_EPOCH_NS + s * NS_PER_S + 250 * NS_PER_MS;
        const struct five theirs = cell_throttle(&cell, &narrow, 0, now_ns);
        const struct five ours = our_throttle(table, &narrow, now_ns);
        assert_memory_equal(&ours, &theirs, sizeof ours);
        assert_int_equal(ours.numbers[0], s < 3);
    }
    assert_int_equal(READ(&wide, "k", "9", "1", "1", "10"), 0);
    const int64_t later_ns = LIMIT_TEST_EPOCH_NS + 20 * NS_PER_S;
    (void)our_throttle(table, &wide, later_ns);
    assert_int_equal(our_throttle(table, &narrow, later_ns).numbers[4], 8);
    table_free(&table);
}

/* A millisecond of a full key's first token counts, and so does that of the first one too many. */
static void a_whole_millisecond_counts(void **state)
{
    struct throttle throttle;
    (void)state;
    struct table *table = limit_table();
    struct cell cell = {0};
    assert_int_equal(READ(&throttle, "k", "1", "1000", "1"), 0);
    for (int i = 0; i < 3; i++) {
        const struct five theirs = cell_throttle(&cell, &throttle, 1, LIMIT_TEST_EPOCH_NS);
        const struct five ours = our_throttle(table, &throttle, LIMIT_TEST_EPOCH_NS);
        assert_memory_equal(&ours, &theirs, sizeof ours);
        assert_int_equal(ours.numbers[4], 1);
        assert_int_equal(ours.numbers[3], i < 2 ? -1 : 1);
    }
    table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_become_a_limit),
        cmocka_unit_test(mistakes_are_told_as_redis_cell_tells_them),
        cmocka_unit_test(the_five_integers_are_those_of_redis_cell),
        cmocka_unit_test(a_whole_millisecond_counts),
        cmocka_unit_test(a_look_sees_a_debt_beyond_the_burst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

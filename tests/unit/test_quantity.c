/* test_quantity.c - durations, sizes and rates: what is accepted, refused, and printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limit.h"
#include "base/quantity.h"
#include "base/random.h"

#define MS_NS   1000000ULL
#define S_NS    1000000000ULL
#define MIN_NS  (60 * S_NS)
#define HOUR_NS (3600 * S_NS)
#define DAY_NS  (24 * HOUR_NS)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A sentence for people: ended, of one line, and containing `words`. */
static void sentence_says(const char *error, const char *words)
{
    const size_t len = strnlen(error, QUANTITY_ERROR_LEN);

    assert_in_range(len, 1, QUANTITY_ERROR_LEN - 1);
    for (size_t i = 0; i < len; i++)
        assert_in_range(error[i], 0x20, 0x7e);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error, words);
}

/* ---- durations ---- */

/* Every unit that the documentation lists, in each of its spellings. */
static void every_unit_of_time_is_understood(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } known[] = {
        {"7ns", 7},
        {"7us", 7000},
        {"250ms", 250 * MS_NS},
        {"1millisecond", MS_NS},
        {"2milliseconds", 2 * MS_NS},
        {"25s", 25 * S_NS},
        {"1second", S_NS},
        {"2seconds", 2 * S_NS},
        {"5m", 5 * MIN_NS},
        {"5min", 5 * MIN_NS},
        {"1minute", MIN_NS},
        {"2minutes", 2 * MIN_NS},
        {"1h", HOUR_NS},
        {"1hour", HOUR_NS},
        {"2hours", 2 * HOUR_NS},
        {"1d", DAY_NS},
        {"1day", DAY_NS},
        {"2days", 2 * DAY_NS},
        {"1w", 7 * DAY_NS},
        {"1week", 7 * DAY_NS},
        {"2weeks", 14 * DAY_NS},
        {"1month", 30 * DAY_NS},
        {"2months", 60 * DAY_NS},
        {"1year", 365 * DAY_NS},
        {"2years", 730 * DAY_NS},
        {"007s", 7 * S_NS},
        {"9223372036854775807ns", INT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        char error[QUANTITY_ERROR_LEN] = "";
        uint64_t ns = 1;
        assert_int_equal(quantity_parse_duration(known[i].text, &ns, error), 0);
        assert_true(ns == known[i].ns);
        assert_string_equal(error, "");
    }
}

/* Everything else is refused and told why; above all a bare number, whose unit would be a guess. */
static void other_durations_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *text, *words;
    } refused[] = {
        {"10", "duration \"10\": no unit; expected ns us ms s m min h d w month year"},
        {"0", "no unit"},
        {"", "duration \"\": expected a whole number and a unit"},
        {"m", "expected a whole number and a unit"},
        {"-5m", "expected a whole number"},
        {"+5m", "expected a whole number"},
        {" 5m", "expected a whole number"},
        {".5s", "expected a whole number"},
        {"5 m", "unknown unit \" m\""},
        {"5m ", "unknown unit \"m \""},
        {"1.5h", "unknown unit \".5h\""},
        {"1h30m", "unknown unit \"h30m\""},
        {"5M", "unknown unit \"M\""},
        {"5parsec", "unknown unit \"parsec\"; expected ns us ms s m min h d w month year"},
        {"5/s", "unknown unit \"/s\""},
        {"0x10s", "unknown unit \"x10s\""},
        {"9223372036854775808ns", "too long"},
        {"18446744073709551616ns", "too long"},
        {"300years", "duration \"300years\": too long; expected at most 292 years"},
        {"99999999999999999999999999s", "too long"},
        {"0s", "duration \"0s\": is 0; expected more than 0, such as 250ms or 5m"},
        {"000years", "is 0; expected more than 0"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char error[QUANTITY_ERROR_LEN];
        uint64_t ns;
        assert_int_equal(quantity_parse_duration(refused[i].text, &ns, error), TG_EINVALID);
        sentence_says(error, refused[i].words);
    }
}

/* Where a duration says how long something waits, it may be not at all. */
static void a_wait_may_be_0(void **state)
{
    char error[QUANTITY_ERROR_LEN] = "";
    uint64_t ns = 1;

    (void)state;
    assert_int_equal(quantity_parse_wait("0s", &ns, error), 0);
    assert_true(ns == 0);
    assert_int_equal(quantity_parse_wait("250ms", &ns, error), 0);
    assert_true(ns == 250 * MS_NS);
    assert_int_equal(quantity_parse_wait("0", &ns, error), TG_EINVALID);
    sentence_says(error, "no unit");
}

/* ---- sizes ---- */

/* Letters are powers of 1024, and bytes need none. */
static void sizes_are_powers_of_1024(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } known[] = {
        {"65536", 65536},
        {"0", 0},
        {"1K", 1024},
        {"32M", 32ULL << 20},
        {"4G", 4ULL << 30},
        {"2T", 2ULL << 40},
        {"18446744073709551615", UINT64_MAX},
        {"16777215T", 16777215ULL << 40},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        char error[QUANTITY_ERROR_LEN];
        uint64_t bytes;
        assert_int_equal(quantity_parse_size(known[i].text, &bytes, error), 0);
        assert_true(bytes == known[i].bytes);
    }
}

/* A size that wraps would be a small one; it and every other letter are refused. */
static void other_sizes_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *text, *words;
    } refused[] = {
        {"", "size \"\": expected a whole number"},
        {"M", "expected a whole number"},
        {"-1", "expected a whole number"},
        {" 1", "expected a whole number"},
        {"1m", "size \"1m\": unknown unit \"m\"; expected K M G T or none"},
        {"1KB", "unknown unit \"KB\""},
        {"1 K", "unknown unit \" K\""},
        {"1.5G", "unknown unit \".5G\""},
        {"18446744073709551616", "too large; expected less than 2^64 bytes"},
        {"16777216T", "too large"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char error[QUANTITY_ERROR_LEN];
        uint64_t bytes;
        assert_int_equal(quantity_parse_size(refused[i].text, &bytes, error), TG_EINVALID);
        sentence_says(error, refused[i].words);
    }
}

/* ---- rates ---- */

/* The forms people write, with and without a number before the unit. */
static void rates_are_a_count_per_window(void **state)
{
    static const struct {
        const char *text;
        uint64_t count, window_ns;
    } known[] = {
        {"5/60s", 5, 60 * S_NS},
        {"30/24h", 30, DAY_NS},
        {"100/minute", 100, MIN_NS},
        {"600000000/s", 600000000, S_NS},
        {"60/5m", 60, 5 * MIN_NS},
        {"1/1ms", 1, MS_NS},
        {"1/ms", 1, MS_NS},
        {"1/1000000ns", 1, MS_NS},
        {"1000000000000000/10years", LIMIT_COUNT_MAX, 3650 * DAY_NS},
        {"1/month", 1, 30 * DAY_NS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        char error[QUANTITY_ERROR_LEN];
        struct quantity_rate rate;
        if (quantity_parse_rate(known[i].text, &rate, error) != 0)
            fail_msg("%s", error);
        assert_true(rate.count == known[i].count);
        assert_true(rate.window_ns == known[i].window_ns);
    }
}

/* A refusal names the part of the rate that is wrong and what could stand there. */
static void other_rates_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *text, *words;
    } refused[] = {
        {"5/parsec", "rate \"5/parsec\": unknown unit \"parsec\"; "
                     "expected ns us ms s m min h d w month year"},
        {"", "rate \"\": no count; expected COUNT/[N]UNIT, such as 5/60s"},
        {"5", "no slash"},
        {"5s", "no slash"},
        {"/s", "no count"},
        {"/", "no count"},
        {"5/", "no unit"},
        {"5/60", "rate \"5/60\": no unit; expected ns"},
        {"5//s", "unknown unit \"/s\""},
        {"5/s/s", "unknown unit \"s/s\""},
        {"0/s", "count is 0; expected at least 1"},
        {"-5/s", "no count"},
        {"5/-1s", "unknown unit \"-1s\""},
        {"1.5/s", "no slash"},
        {" 5/s", "no count"},
        {"5 /s", "no slash"},
        {"5/ s", "unknown unit \" s\""},
        {"5/s ", "unknown unit \"s \""},
        {"5/0s", "window too short; expected at least 1 ms"},
        {"5/us", "window too short"},
        {"5/999999ns", "window too short"},
        {"5/3661d", "window too long; expected at most 10 years"},
        {"5/99999999999year", "window too long"},
        {"5/18446744073709551616ns", "window too long"},
        {"1000000000000001/s", "count too large; expected at most 1000000000000000"},
        {"18446744073709551617/s", "count too large"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char error[QUANTITY_ERROR_LEN];
        struct quantity_rate rate;
        assert_int_equal(quantity_parse_rate(refused[i].text, &rate, error), TG_EINVALID);
        sentence_says(error, refused[i].words);
    }
}

/* ---- numbers ---- */

/* A number is accepted up to its bound, and only if it is nothing but digits. */
static void numbers_are_digits_up_to_the_bound(void **state)
{
    static const char *const refused[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "0x1", "65536", "18446744073709551616"};
    char error[QUANTITY_ERROR_LEN];
    uint64_t value;

    (void)state;
    assert_int_equal(quantity_parse_uint("65535", 65535, &value, error), 0);
    assert_true(value == 65535);
    assert_int_equal(quantity_parse_uint("0", 0, &value, error), 0);
    assert_true(value == 0);
    assert_int_equal(quantity_parse_uint("18446744073709551615", UINT64_MAX, &value, error), 0);
    assert_true(value == UINT64_MAX);
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(quantity_parse_uint(refused[i], 65535, &value, error), TG_EINVALID);
        sentence_says(error, "expected a whole number from 0 to 65535");
    }
}

/* ---- printing ---- */

/* The shortest exact form: the largest unit up to weeks that divides the duration. */
static void durations_print_in_their_shortest_exact_form(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } printed[] = {
        {0, "0s"},
        {1, "1ns"},
        {1500, "1500ns"},
        {7000, "7us"},
        {250 * MS_NS, "250ms"},
        {S_NS, "1s"},
        {60 * S_NS, "1m"},
        {90 * S_NS, "90s"},
        {5 * MIN_NS, "5m"},
        {HOUR_NS, "1h"},
        {36 * HOUR_NS, "36h"},
        {24 * HOUR_NS, "1d"},
        {7 * DAY_NS, "1w"},
        {30 * DAY_NS, "30d"},
        {365 * DAY_NS, "365d"},
        {UINT64_MAX, "18446744073709551615ns"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(printed); i++) {
        char text[QUANTITY_TEXT_LEN];
        quantity_format_duration(printed[i].ns, text);
        assert_string_equal(text, printed[i].text);
    }
}

/* A rate prints as people write it: a window of one unit is the unit. */
static void rates_print_without_a_number_of_one(void **state)
{
    static const struct {
        struct quantity_rate rate;
        const char *text;
    } printed[] = {
        {{5, HOUR_NS}, "5/h"},
        {{30, 24 * HOUR_NS}, "30/d"},
        {{5, 60 * S_NS}, "5/m"},
        {{5, 90 * S_NS}, "5/90s"},
        {{5, 10 * S_NS}, "5/10s"},
        {{5, 11 * S_NS}, "5/11s"},
        {{5, 36 * HOUR_NS}, "5/36h"},
        {{600000000, S_NS}, "600000000/s"},
        {{LIMIT_COUNT_MAX, LIMIT_WINDOW_MAX_NS}, "1000000000000000/3660d"},
        {{UINT64_MAX, UINT64_MAX}, "18446744073709551615/18446744073709551615ns"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(printed); i++) {
        char text[QUANTITY_TEXT_LEN];
        quantity_format_rate(&printed[i].rate, text);
        assert_string_equal(text, printed[i].text);
    }
}

/* Whatever can be printed is read back as the same value. */
static void printed_forms_parse_to_the_same_value(void **state)
{
    static const uint64_t scales[] = {1, 1000, MS_NS, S_NS, MIN_NS, HOUR_NS, DAY_NS, 7 * DAY_NS};
    struct random random;

    (void)state;
    random_init(&random, 9);
    for (int i = 0; i < 20000; i++) {
        const uint64_t scale = scales[random_below(&random, COUNT_OF(scales))];
        const uint64_t count_max = LIMIT_WINDOW_MAX_NS / scale;
        const struct quantity_rate rate = {
            .count = 1 + (random_below(&random, LIMIT_COUNT_MAX) >> random_below(&random, 50)),
            .window_ns = scale * (1 + random_below(&random, count_max)),
        };
        char text[QUANTITY_TEXT_LEN], error[QUANTITY_ERROR_LEN];
        struct quantity_rate rate_back;
        uint64_t ns_back;
        quantity_format_duration(rate.window_ns, text);
        assert_int_equal(quantity_parse_duration(text, &ns_back, error), 0);
        assert_true(ns_back == rate.window_ns);
        quantity_format_rate(&rate, text);
        if (rate.window_ns < LIMIT_WINDOW_MIN_NS)
            continue;
        assert_int_equal(quantity_parse_rate(text, &rate_back, error), 0);
        assert_true(rate_back.count == rate.count && rate_back.window_ns == rate.window_ns);
    }
}

/* ---- hostile text ---- */

/* However long the text or the unit in it, the sentence fits and still says what is expected. */
static void sentences_fit_whatever_was_written(void **state)
{
    char text[1001], error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;
    uint64_t value;

    (void)state;
    for (size_t len = 3; len < sizeof(text); len += 7) {
        memset(text, 'x', len);
        text[len] = '\0';
        text[0] = '5';
        assert_int_equal(quantity_parse_duration(text, &value, error), TG_EINVALID);
        sentence_says(error, "expected ns us ms s m min h d w month year");
        assert_int_equal(quantity_parse_size(text, &value, error), TG_EINVALID);
        sentence_says(error, "expected K M G T or none");
        text[1] = '/';
        assert_int_equal(quantity_parse_rate(text, &rate, error), TG_EINVALID);
        sentence_says(error, "expected ns us ms s m min h d w month year");
        memset(text, '9', len);
        assert_int_equal(quantity_parse_uint(text, 5, &value, error), TG_EINVALID);
        sentence_says(error, "from 0 to 5");
    }
}

/* What is quoted is cut and made printable, so that a sentence may go into a log or a page. */
static void quoted_text_is_cut_and_printable(void **state)
{
    char error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;

    (void)state;
    assert_int_equal(quantity_parse_rate("5/\n\x1b\"\xff", &rate, error), TG_EINVALID);
    sentence_says(error, "rate \"5/????\": unknown unit \"????\"");
    assert_int_equal(quantity_parse_rate("5/abcdefghijklmnopqrstuvwxyzabcdefghijkl", &rate, error),
                     TG_EINVALID);
    sentence_says(error, "unknown unit \"abcdefghijklmnopqrst...\"");
}

/* Random text of the grammar's own characters is parsed to a value in range or refused. */
static void random_text_is_refused_or_in_range(void **state)
{
    static const char letters[] = "0159//mshdMT n";
    struct random random;
    int accepted = 0;

    (void)state;
    random_init(&random, 10);
    for (int round = 0; round < 50000; round++) {
        char text[12], error[QUANTITY_ERROR_LEN];
        struct quantity_rate rate;
        uint64_t value;
        const size_t len =
            (size_t)random_below(&random, random_below(&random, 2) ? 6 : sizeof(text));
        for (size_t i = 0; i < len; i++)
            text[i] = letters[random_below(&random, sizeof(letters) - 1)];
        text[len] = '\0';
        if (quantity_parse_rate(text, &rate, error) == 0) {
            accepted++;
            assert_true(rate.count >= 1 && rate.count <= LIMIT_COUNT_MAX);
            assert_true(rate.window_ns >= LIMIT_WINDOW_MIN_NS);
            assert_true(rate.window_ns <= LIMIT_WINDOW_MAX_NS);
        } else {
            sentence_says(error, "rate \"");
        }
        if (quantity_parse_duration(text, &value, error) == 0)
            assert_true(value <= INT64_MAX);
        if (quantity_parse_size(text, &value, error) != 0)
            sentence_says(error, "size \"");
    }
    assert_true(accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unit_of_time_is_understood),
        cmocka_unit_test(other_durations_are_refused_with_a_reason),
        cmocka_unit_test(a_wait_may_be_0),
        cmocka_unit_test(sizes_are_powers_of_1024),
        cmocka_unit_test(other_sizes_are_refused_with_a_reason),
        cmocka_unit_test(rates_are_a_count_per_window),
        cmocka_unit_test(other_rates_are_refused_with_a_reason),
        cmocka_unit_test(numbers_are_digits_up_to_the_bound),
        cmocka_unit_test(durations_print_in_their_shortest_exact_form),
        cmocka_unit_test(rates_print_without_a_number_of_one),
        cmocka_unit_test(printed_forms_parse_to_the_same_value),
        cmocka_unit_test(sentences_fit_whatever_was_written),
        cmocka_unit_test(quoted_text_is_cut_and_printable),
        cmocka_unit_test(random_text_is_refused_or_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_usage_ledger.c - totals of people and API keys: of the day, the month, ever, and kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/usage/usage_ledger.h"

#define DAY_MS UINT64_C(86400000)
#define MAY_31 (UINT64_C(20604) * DAY_MS) /* of 2026 */

enum { ADA = 77, WRITTEN = 3000 };

/* Notes `requests` of `hash`, one of which exceeded a limit. */
static void note(struct usage_ledger *book, uint64_t hash, uint32_t requests, uint64_t now_ms)
{
    struct usage_tally *tally = usage_tally_new(alloc_heap());
    for (uint32_t i = 0; i < requests; i++)
        usage_tally_add(tally, hash, i == 0, now_ms);
    usage_ledger_add(book, tally);
    usage_tally_free(&tally);
}

static void assert_totals(const struct usage_ledger *book, uint64_t hash, uint64_t now_ms,
                          uint64_t today, uint64_t month, uint64_t ever)
{
    const struct usage_totals totals = usage_ledger_find(book, hash, now_ms);
    assert_int_equal(totals.today.requests, today);
    assert_int_equal(totals.month.requests, month);
    assert_int_equal(totals.ever.requests, ever);
}

/* A day and a month begin anew at their first moment in UTC, whether or not anybody asks then; what
 * was ever counted stays. */
static void days_and_months_begin_anew(void **state)
{
    struct usage_ledger *book = usage_ledger_new(alloc_heap());
    (void)state;
    assert_totals(book, ADA, MAY_31, 0, 0, 0);
    assert_totals(NULL, ADA, MAY_31, 0, 0, 0);
    note(book, ADA, 2, MAY_31 - 1);
    note(book, ADA, 3, MAY_31);
    note(book, ADA, 4, MAY_31 + DAY_MS - 1);
    assert_totals(book, ADA, MAY_31 + DAY_MS - 1, 7, 9, 9);
    assert_int_equal(usage_ledger_find(book, ADA, MAY_31).month.exceeded, 3);
    assert_int_equal(usage_ledger_find(book, ADA, MAY_31).today.exceeded, 2);
    assert_int_equal(usage_ledger_find(book, ADA, MAY_31).last_ms, MAY_31 + DAY_MS - 1);
    assert_totals(book, ADA, MAY_31 + DAY_MS, 0, 0, 9); /* the first of June */
    note(book, ADA, 1, MAY_31 + DAY_MS);
    assert_totals(book, ADA, MAY_31 + DAY_MS, 1, 1, 10);
    note(book, ADA, 1, MAY_31 + DAY_MS - 1); /* a clock was set back: it is still today's */
    assert_totals(book, ADA, MAY_31 + DAY_MS, 2, 2, 11);
    assert_totals(book, ADA + 1, MAY_31 + DAY_MS, 0, 0, 0);
    usage_ledger_free(&book);
    usage_ledger_free(&book);
}

/* A node that ran a while with a clock years ahead does not go on with that day for years: what it
 * counted then is told of no day or month of now, and the next request begins both. */
static void a_clock_that_was_far_ahead_leaves_no_day_behind(void **state)
{
    struct usage_ledger *book = usage_ledger_new(alloc_heap());
    const uint64_t ahead = MAY_31 + 5000 * DAY_MS;
    (void)state;
    note(book, ADA, 4, ahead);
    assert_totals(book, ADA, ahead, 4, 4, 4);
    assert_totals(book, ADA, MAY_31, 0, 0, 4);
    note(book, ADA, 3, MAY_31);
    assert_totals(book, ADA, MAY_31, 3, 3, 7);
    assert_int_equal(usage_ledger_find(book, ADA, MAY_31).last_ms, MAY_31);
    note(book, ADA, 1, MAY_31 + DAY_MS);
    assert_totals(book, ADA, MAY_31 + DAY_MS, 1, 1, 8);
    usage_ledger_free(&book);
}

/* Months have their own lengths: of each day from 1999 to 2101 the month is that of the civil
 * calendar, counted day by day. */
static void months_are_those_of_the_calendar(void **state)
{
    static const uint32_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct usage_ledger *book = usage_ledger_new(alloc_heap());
    uint64_t day = 10592; /* 1999-01-01 */
    uint64_t ever = 0;
    (void)state;
    for (uint32_t year = 1999; year <= 2101; year++)
        for (uint32_t month = 0; month < 12; month++) {
            const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            const uint32_t len = days[month] + (month == 1 && leap);
            note(book, ADA, 1, day * DAY_MS);
            assert_totals(book, ADA, day * DAY_MS, 1, 1, ++ever);
            note(book, ADA, 1, (day + len - 1) * DAY_MS);
            assert_totals(book, ADA, (day + len - 1) * DAY_MS, 1, 2, ++ever);
            day += len;
        }
    usage_ledger_free(&book);
}

/* What was stored is there after a start, of many, chunk by chunk; only what has changed is stored
 * again; what cannot be read is an empty chunk. */
static void totals_are_kept(void **state)
{
    static uint8_t bytes[USAGE_CHUNK_LEN_MAX];
    struct usage_ledger *book = usage_ledger_new(alloc_heap());
    struct usage_ledger *after = usage_ledger_new(alloc_heap());
    (void)state;
    for (uint32_t i = 0; i < WRITTEN; i++)
        note(book, (uint64_t)(i * 7 % 400) << 9 | 5, 2, MAY_31 + i);
    for (uint32_t chunk = 0; chunk < USAGE_CHUNKS; chunk++) {
        assert_int_equal(usage_ledger_dirty(book, chunk), chunk == 5 || chunk == 512 + 5);
        const size_t len = usage_ledger_encode(book, chunk, bytes);
        assert_false(usage_ledger_dirty(book, chunk));
        if (chunk == 5) {
            assert_true(len > 1 + 4 + USAGE_ENTRY_LEN);
            assert_int_equal(usage_ledger_restore(after, 4, bytes, len), TG_ECORRUPT);
            assert_int_equal(usage_ledger_restore(after, 5, bytes, len - 1), TG_ECORRUPT);
            bytes[0]++;
            assert_int_equal(usage_ledger_restore(after, 5, bytes, len), TG_ECORRUPT);
            bytes[0]--;
        }
        assert_int_equal(usage_ledger_restore(after, chunk, bytes, len), 0);
        assert_false(usage_ledger_dirty(after, chunk));
    }
    for (uint64_t i = 0; i < 400; i++) {
        const struct usage_totals one = usage_ledger_find(book, i << 9 | 5, MAY_31);
        const struct usage_totals two = usage_ledger_find(after, i << 9 | 5, MAY_31);
        assert_true(one.ever.requests > 0);
        assert_memory_equal(&one, &two, sizeof one);
    }
    usage_ledger_retry(after, 512 + 5); /* it could not be written */
    assert_true(usage_ledger_dirty(after, 512 + 5));
    note(after, 5, 1, MAY_31);
    assert_true(usage_ledger_dirty(after, 5));
    usage_ledger_free(&book);
    usage_ledger_free(&after);
}

/* A full chunk forgets who asked least lately, and says so. */
static void a_full_chunk_forgets_the_longest_idle(void **state)
{
    struct usage_ledger *book = usage_ledger_new(alloc_heap());
    (void)state;
    for (uint64_t i = 0; i < USAGE_CHUNK_MAX; i++)
        note(book, (i + 1) * USAGE_CHUNKS, 1, MAY_31 + (i == 98 ? 0 : 1 + i));
    assert_int_equal(usage_ledger_lost(book), 0);
    note(book, UINT64_C(7000) * USAGE_CHUNKS, 1, MAY_31 + DAY_MS);
    assert_int_equal(usage_ledger_lost(book), 1);
    assert_totals(book, 99 * USAGE_CHUNKS, MAY_31, 0, 0, 0);
    assert_totals(book, 100 * USAGE_CHUNKS, MAY_31, 1, 1, 1);
    assert_totals(book, UINT64_C(7000) * USAGE_CHUNKS, MAY_31 + DAY_MS, 1, 1, 1);
    usage_ledger_free(&book);
}

/* What finds no memory is left out and counted, and takes nothing along that was there. */
static void without_memory_requests_are_left_out(void **state)
{
    struct alloc_failing failing;
    (void)state;
    alloc_failing_init(&failing, 1);
    assert_null(usage_ledger_new(&failing.allocator));
    alloc_failing_init(&failing, 3);
    struct usage_ledger *book = usage_ledger_new(&failing.allocator);
    note(book, 1024, 2, MAY_31);
    note(book, 1, 2, MAY_31);
    assert_totals(book, 1024, MAY_31, 2, 2, 2);
    assert_totals(book, 1, MAY_31, 0, 0, 0);
    assert_int_equal(usage_ledger_lost(book), 2);
    usage_ledger_free(&book);
    assert_int_equal(failing.bytes_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_and_months_begin_anew),
        cmocka_unit_test(a_clock_that_was_far_ahead_leaves_no_day_behind),
        cmocka_unit_test(months_are_those_of_the_calendar),
        cmocka_unit_test(totals_are_kept),
        cmocka_unit_test(a_full_chunk_forgets_the_longest_idle),
        cmocka_unit_test(without_memory_requests_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

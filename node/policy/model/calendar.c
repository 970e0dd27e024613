/* calendar.c - the civil calendar on a table of offsets; calendar.h says what a window is.
 *
 * Days, weeks, months and years are numbered; the number of now's gives the local beginning, and
 * the table the moment at which the local clock first shows it. All in whole seconds: offsets are.
 *
 * CALENDAR-4  first_moment never goes down as its local time goes up, which is why windows tile
 *             (CALENDAR-1).
 */
#include "node/policy/model/calendar.h"

#include "base/assert.h"
#include "base/sat.h"

#define NS_PER_S INT64_C(1000000000)

enum { DAY_S = 86400, HOUR_S = 3600, MINUTE_S = 60, DAYS_PER_WEEK = 7, MONTHS_PER_YEAR = 12 };

/* 1970-01-01 was a Thursday: its week had begun three days before. */
enum { WEEK_SHIFT = 3 };

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days from 1970-01-01 to the first of a month (1..12). Years begin in March here, so that the day
 * that a leap year adds is their last. */
static int64_t days_to_month(int64_t year, int64_t month)
{
    const int64_t march_year = month <= 2 ? year - 1 : year;
    const int64_t months = month <= 2 ? month + 9 : month - 3; /* since March */
    const int64_t leap_days =
        floor_div(march_year, 4) - floor_div(march_year, 100) + floor_div(march_year, 400);
    const int64_t days_before = 719468; /* from the first of March of year 0 to 1970-01-01 */
    return march_year * 365 + leap_days + (153 * months + 2) / 5 - days_before;
}

/* The number of the month that a day is in: year * 12 + month - 1. */
static int64_t month_of(int64_t day)
{
    /* An estimate from the mean length of a month, 146097 / 4800 days, is off by one at most. */
    int64_t number = 1970 * MONTHS_PER_YEAR + floor_div(day * 4800, 146097);
    while (days_to_month(number / MONTHS_PER_YEAR, number % MONTHS_PER_YEAR + 1) > day)
        number--;
    while (days_to_month((number + 1) / MONTHS_PER_YEAR, (number + 1) % MONTHS_PER_YEAR + 1) <= day)
        number++;
    return number;
}

/* The number of the unit that a local time is in, and the local beginning of a number. */
static int64_t unit_of(unsigned align, int64_t local_s)
{
    const int64_t day = floor_div(local_s, DAY_S);
    if (align == LIMIT_ALIGN_DAY)
        return day;
    if (align == LIMIT_ALIGN_WEEK)
        return floor_div(day + WEEK_SHIFT, DAYS_PER_WEEK);
    return align == LIMIT_ALIGN_MONTH ? month_of(day) : month_of(day) / MONTHS_PER_YEAR;
}

static int64_t unit_begins(unsigned align, int64_t number)
{
    if (align == LIMIT_ALIGN_DAY)
        return number * DAY_S;
    if (align == LIMIT_ALIGN_WEEK)
        return (number * DAYS_PER_WEEK - WEEK_SHIFT) * DAY_S;
    if (align == LIMIT_ALIGN_MONTH)
        return days_to_month(number / MONTHS_PER_YEAR, number % MONTHS_PER_YEAR + 1) * DAY_S;
    return days_to_month(number, 1) * DAY_S;
}

/* The span that a moment is in. */
static uint32_t span_at(const struct calendar_zone *zone, int64_t utc_s)
{
    uint32_t low = 0;
    uint32_t high = zone->span_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (zone->spans[middle].from_s <= utc_s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first moment at which the local clock shows `local_s` or more, at or after span `from`. */
static int64_t first_moment(const struct calendar_zone *zone, uint32_t from, int64_t local_s)
{
    for (uint32_t i = from; i + 1 < zone->span_count; i++) {
        const int64_t utc_s = local_s - zone->spans[i].offset_s;
        if (utc_s >= zone->spans[i + 1].from_s)
            continue;
        return i > from && utc_s < zone->spans[i].from_s ? zone->spans[i].from_s : utc_s;
    }
    const struct calendar_span *last = &zone->spans[zone->span_count - 1];
    const int64_t utc_s = local_s - last->offset_s;
    return zone->span_count - 1 > from && utc_s < last->from_s ? last->from_s : utc_s;
}

/* Where a search for a moment near `utc_s` may begin: a year and more before it. */
static uint32_t span_before(const struct calendar_zone *zone, int64_t utc_s)
{
    return span_at(zone, utc_s - INT64_C(800) * DAY_S);
}

/* Beginning and end of the window of days or more that a moment is in. */
static void long_window(const struct calendar_zone *zone, unsigned align, int64_t utc_s,
                        int64_t *start_s, int64_t *end_s)
{
    const uint32_t from = span_before(zone, utc_s);
    int64_t number = unit_of(align, utc_s + zone->spans[span_at(zone, utc_s)].offset_s);
    *start_s = first_moment(zone, from, unit_begins(align, number));
    *end_s = first_moment(zone, from, unit_begins(align, number + 1));
    while (*end_s <= utc_s) { /* the clock was put back over a boundary, or a day left out */
        number++;
        *start_s = *end_s;
        *end_s = first_moment(zone, from, unit_begins(align, number + 1));
    }
}

/* Of the hour or minute (CALENDAR-3). */
static void short_window(const struct calendar_zone *zone, unsigned align, int64_t utc_s,
                         int64_t *start_s, int64_t *end_s)
{
    const int64_t unit_s = align == LIMIT_ALIGN_HOUR ? HOUR_S : MINUTE_S;
    const uint32_t at = span_at(zone, utc_s);
    const struct calendar_span *span = &zone->spans[at];
    *start_s = floor_div(utc_s + span->offset_s, unit_s) * unit_s - span->offset_s;
    *end_s = *start_s + unit_s;
    if (at > 0 && *start_s < span->from_s)
        *start_s = span->from_s;
    if (at + 1 < zone->span_count && *end_s > zone->spans[at + 1].from_s)
        *end_s = zone->spans[at + 1].from_s;
}

static void window_at(const struct calendar_zone *zone, unsigned align, int64_t utc_s,
                      int64_t *start_s, int64_t *end_s)
{
    if (align == LIMIT_ALIGN_MINUTE || align == LIMIT_ALIGN_HOUR)
        short_window(zone, align, utc_s, start_s, end_s);
    else
        long_window(zone, align, utc_s, start_s, end_s);
}

void calendar_place(const struct calendar_zone *zone, int64_t now_ns, struct limit *limit)
{
    const int64_t longest_s = (INT64_C(1) << limit_calendar_exponent(limit->align)) / 1000;
    int64_t start_s;
    int64_t end_s;
    int64_t before_s;
    ASSERT(limit_is_calendar(limit->align) && zone->span_count > 0);
    window_at(zone, limit->align, floor_div(now_ns, NS_PER_S), &start_s, &end_s);
    if (start_s < 0) {
        start_s = before_s = 0;
    } else {
        int64_t ends_s;
        window_at(zone, limit->align, start_s - 1, &before_s, &ends_s);
        before_s = before_s < 0 ? 0 : before_s;
    }
    const int64_t len_s = end_s - start_s < longest_s ? end_s - start_s : longest_s;
    const int64_t behind_s = start_s - before_s < longest_s ? start_s - before_s : longest_s;
    limit->start_ns = start_s * NS_PER_S;
    limit->window_ns = (uint64_t)(len_s * NS_PER_S);
    limit->before_s = (uint32_t)behind_s;
}

/* log_time.c - the ways in which logs write a moment; see log_time.h.
 *
 * A date becomes a day number by the proleptic Gregorian calendar counted in years that begin in
 * March, so that the leap day is the last of its year and needs no case of its own.
 *
 * LOGTIME-1  What is accepted is a moment between 1970 and LOG_TIME_MAX, to the nanosecond; what
 *            people write (log_time_date) may be up to the end of the year 9999.
 * LOGTIME-2  A second of 60 (a leap second) is the first of the next day, as POSIX counts. There is
 *            none but at the end of a day in UTC.
 * LOGTIME-3  A date that does not exist is refused, never moved to one that does.
 *
 * Must not know the zone of the machine: only that which is written counts.
 */
#include "client/replay/log_time.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DAY_S = 86400, HOUR_S = 3600, MINUTE_S = 60, FRACTION_DIGITS = 9, INT_DIGITS_MAX = 19 };
#define SECOND_NS INT64_C(1000000000)

struct moment {
    unsigned year;
    unsigned month; /* from 1 */
    unsigned day;   /* from 1 */
    unsigned hour;
    unsigned minute;
    unsigned second;
    int64_t fraction_ns;
    int64_t zone_s; /* east of Greenwich */
};

/* Two digits; false if they are none. */
static bool two(const char *text, unsigned *out)
{
    const unsigned tens = (unsigned)(uint8_t)text[0] - '0';
    const unsigned ones = (unsigned)(uint8_t)text[1] - '0';
    *out = tens * 10 + ones;
    return tens <= 9 && ones <= 9;
}

static bool four(const char *text, unsigned *out)
{
    unsigned high;
    unsigned low;
    if (!two(text, &high) || !two(text + 2, &low))
        return false;
    *out = high * 100 + low;
    return true;
}

static int64_t day_number(unsigned year, unsigned month, unsigned day)
{
    const unsigned y = month <= 2 ? year - 1 : year;
    const unsigned shifted = (month + 9) % 12; /* March is 0 */
    const int64_t era_days = (int64_t)y * 365 + y / 4 - y / 100 + y / 400;
    return era_days + (shifted * 153 + 2) / 5 + day - 1 - 719468;
}

static unsigned days_in(unsigned year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

/* The seconds since 1970, without the fraction; NULL, or what is wrong (LOGTIME-3). */
static const char *moment_s(const struct moment *moment, int64_t *out)
{
    if (moment->year < 1970)
        return "it is before 1970";
    if (moment->month < 1 || moment->month > 12)
        return "there is no such month";
    if (moment->day < 1 || moment->day > days_in(moment->year, moment->month))
        return "there is no such day";
    if (moment->hour > 23 || moment->minute > 59 || moment->second > 60)
        return "there is no such time of day";
    *out = day_number(moment->year, moment->month, moment->day) * DAY_S + moment->hour * HOUR_S +
           moment->minute * MINUTE_S + moment->second - moment->zone_s;
    if (moment->second == 60 && *out % DAY_S != 0)
        return "there is no such time of day"; /* LOGTIME-2 */
    return *out < 0 ? "it is before 1970" : NULL;
}

static int moment_ns(const struct moment *moment, int64_t *ns)
{
    int64_t seconds;
    if (moment_s(moment, &seconds) != NULL || seconds >= LOG_TIME_MAX / SECOND_NS)
        return TG_EINVALID; /* LOGTIME-1 */
    *ns = seconds * SECOND_NS + moment->fraction_ns;
    return TG_OK;
}

/* "+0100", "-07:30": 5 or 6 bytes. */
static bool read_zone(const char *text, size_t len, int64_t *zone_s)
{
    unsigned hours;
    unsigned minutes;
    const size_t colon = len == 6 && text[3] == ':' ? 1 : 0;
    if (len != 5 + colon || (text[0] != '+' && text[0] != '-') || !two(text + 1, &hours) ||
        !two(text + 3 + colon, &minutes) || hours > 23 || minutes > 59)
        return false;
    *zone_s = (int64_t)hours * HOUR_S + (int64_t)minutes * MINUTE_S;
    if (text[0] == '-')
        *zone_s = -*zone_s;
    return true;
}

/* The digits behind a point as billionths; how many bytes they take, 0 if there is none. Digits
 * beyond the ninth are read and dropped. */
static size_t read_fraction(const char *text, size_t len, int64_t *out)
{
    size_t at = 0;
    *out = 0;
    for (; at < len && text[at] >= '0' && text[at] <= '9'; at++) {
        if (at < FRACTION_DIGITS)
            *out = *out * 10 + (text[at] - '0');
    }
    for (size_t i = at; i < FRACTION_DIGITS; i++)
        *out *= 10;
    return at;
}

static unsigned month_of(const char *text)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (unsigned i = 0; i < 12; i++)
        if (memcmp(text, names + 3 * (size_t)i, 3) == 0)
            return i + 1;
    return 0;
}

int log_time_clf(const char *text, size_t len, int64_t *ns)
{
    struct moment moment = {.fraction_ns = 0};
    size_t zone = 20;
    if (len < LOG_CLF_LEN || text[2] != '/' || text[6] != '/' || text[11] != ':' ||
        text[14] != ':' || text[17] != ':' || !two(text, &moment.day) ||
        !four(text + 7, &moment.year) || !two(text + 12, &moment.hour) ||
        !two(text + 15, &moment.minute) || !two(text + 18, &moment.second))
        return TG_EINVALID;
    moment.month = month_of(text + 3);
    if (text[20] == '.')
        zone += 1 + read_fraction(text + 21, len - 21, &moment.fraction_ns);
    if (zone >= len || text[zone] != ' ' ||
        !read_zone(text + zone + 1, len - zone - 1, &moment.zone_s))
        return TG_EINVALID;
    return moment_ns(&moment, ns);
}

/* "2026-11-21": exactly LOG_DATE_LEN bytes. */
static bool read_date(const char *text, struct moment *moment)
{
    return text[4] == '-' && text[7] == '-' && four(text, &moment->year) &&
           two(text + 5, &moment->month) && two(text + 8, &moment->day);
}

static bool read_rfc3339(const char *text, size_t len, struct moment *moment)
{
    size_t at = 19;
    if (len < at || !read_date(text, moment) ||
        (text[10] != 'T' && text[10] != 't' && text[10] != ' ') || text[13] != ':' ||
        text[16] != ':' || !two(text + 11, &moment->hour) || !two(text + 14, &moment->minute) ||
        !two(text + 17, &moment->second))
        return false;
    if (at < len && (text[at] == '.' || text[at] == ',')) {
        const size_t digits = read_fraction(text + at + 1, len - at - 1, &moment->fraction_ns);
        if (digits == 0)
            return false;
        at += 1 + digits;
    }
    const bool utc = at == len || (at + 1 == len && (text[at] == 'Z' || text[at] == 'z'));
    return utc || read_zone(text + at, len - at, &moment->zone_s);
}

/* The nanoseconds of one unit of a number with so many digits before its point. */
static int64_t unit_of(size_t digits)
{
    return digits < 12 ? SECOND_NS : digits < 15 ? 1000000 : digits < 18 ? 1000 : 1;
}

static int read_epoch(const char *text, size_t len, int64_t *ns)
{
    size_t digits = 0;
    int64_t whole = 0;
    int64_t fraction = 0;
    for (; digits < len && text[digits] >= '0' && text[digits] <= '9'; digits++) {
        if (digits == INT_DIGITS_MAX || whole > LOG_TIME_MAX / 10)
            return TG_EINVALID;
        whole = whole * 10 + (text[digits] - '0');
    }
    if (digits == 0)
        return TG_EINVALID;
    if (digits < len) {
        const size_t read =
            text[digits] == '.' ? read_fraction(text + digits + 1, len - digits - 1, &fraction) : 0;
        if (read == 0 || digits + 1 + read != len)
            return TG_EINVALID;
    }
    const int64_t unit = unit_of(digits);
    if (whole > LOG_TIME_MAX / unit)
        return TG_EINVALID; /* LOGTIME-1 */
    const int64_t result = whole * unit + fraction / (SECOND_NS / unit);
    if (result > LOG_TIME_MAX)
        return TG_EINVALID;
    *ns = result;
    return TG_OK;
}

int log_time_any(const char *text, size_t len, int64_t *ns)
{
    if (len >= LOG_CLF_LEN && text[2] == '/')
        return log_time_clf(text, len, ns);
    if (len >= 19 && text[4] == '-') {
        struct moment moment = {.fraction_ns = 0};
        return read_rfc3339(text, len, &moment) ? moment_ns(&moment, ns) : TG_EINVALID;
    }
    return read_epoch(text, len, ns);
}

const char *log_time_date(const char *text, size_t len, uint64_t *ms)
{
    enum { MS_NS = 1000000, MS = 1000 };
    static const char other[] = "it is none";
    struct moment moment = {.fraction_ns = 0};
    int64_t seconds;
    if (len < LOG_DATE_LEN || text[4] != '-') {
        int64_t ns;
        if (read_epoch(text, len, &ns) != TG_OK)
            return other;
        if (ns < MS_NS)
            return "it is long over";
        *ms = (uint64_t)(ns / MS_NS);
        return NULL;
    }
    if (!(len == LOG_DATE_LEN ? read_date(text, &moment) : read_rfc3339(text, len, &moment)))
        return other;
    const char *wrong = moment_s(&moment, &seconds);
    if (wrong == NULL && (seconds == 0 || seconds >= LOG_DATE_MAX_S))
        wrong = seconds == 0 ? "it is long over" : "it is behind the year 9999";
    if (wrong == NULL)
        *ms = (uint64_t)(seconds * MS + moment.fraction_ns / MS_NS);
    return wrong;
}

void log_date_format(uint64_t ms, char *out)
{
    const uint64_t seconds = ms / 1000;
    const unsigned rest = (unsigned)(seconds % DAY_S);
    if (seconds >= LOG_DATE_MAX_S) {
        (void)snprintf(out, LOG_TIME_LEN, "after 9999");
        return;
    }
    /* The inverse of day_number: years that begin in March, cut from eras of 400 of them. */
    const unsigned days = (unsigned)(seconds / DAY_S) + 719468;
    const unsigned era = days / 146097;
    const unsigned in_era = days % 146097;
    const unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    const unsigned in_year = in_era - (365 * year + year / 4 - year / 100);
    const unsigned shifted = (5 * in_year + 2) / 153;
    const unsigned day = in_year - (153 * shifted + 2) / 5 + 1;
    const unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
    /* The moduli say to the compiler what is true anyway: the text fits. */
    (void)snprintf(out, LOG_TIME_LEN, "%04u-%02u-%02uT%02u:%02u:%02uZ",
                   (year + era * 400 + (month <= 2 ? 1 : 0)) % 10000, month % 100, day % 100,
                   rest / HOUR_S % 24, rest / MINUTE_S % 60, rest % 60);
}

void log_time_format(int64_t ns, char *out)
{
    log_date_format((uint64_t)ns / 1000000, out);
}

/* quantity.c - durations, sizes and rates, as people write them.
 *
 *   rate      5 / 60 s        number  := digit+                     (no sign, space, fraction)
 *             | |  | |        duration:= number unit
 *             | |  | unit     size    := number [K|M|G|T]
 *             | |  N (1)      rate    := number "/" [number] unit
 *             | slash
 *             count
 *
 * All three forms are a number and a word, split by the same scanner; a refusal quotes what
 * was written, shortened and made printable, and says what would have been accepted.
 *
 * QUANTITY-1  What is parsed was written exactly: overflow, signs, spaces, fractions and trailing
 *             characters are refused, never rounded or skipped.
 * QUANTITY-2  Formatting is exact and shortest in whole units up to weeks; parsing the printed form
 *             gives the value back. Months and years are not printed, for their length is a
 *             convention.
 * QUANTITY-3  An error sentence fits QUANTITY_ERROR_LEN, whatever the input was, and is one
 *             printable ASCII line.
 */
#include "base/quantity.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/limit_bounds.h"

#define NS_PER_US    1000ULL
#define NS_PER_MS    (1000 * NS_PER_US)
#define NS_PER_S     (1000 * NS_PER_MS)
#define NS_PER_MIN   (60 * NS_PER_S)
#define NS_PER_H     (60 * NS_PER_MIN)
#define NS_PER_D     (24 * NS_PER_H)
#define NS_PER_W     (7 * NS_PER_D)
#define NS_PER_MONTH (30 * NS_PER_D)
#define NS_PER_YEAR  (365 * NS_PER_D)

#define UNITS_EXPECTED    "expected ns us ms s m min h d w month year"
#define DURATION_TOO_LONG "too long; expected at most 292 years"
#define WINDOW_TOO_LONG   "window too long; expected at most 10 years"

struct unit {
    const char *name;
    uint64_t scale;
};

static const struct unit time_units[] = {
    {"ns", 1},
    {"us", NS_PER_US},
    {"ms", NS_PER_MS},
    {"s", NS_PER_S},
    {"m", NS_PER_MIN},
    {"min", NS_PER_MIN},
    {"h", NS_PER_H},
    {"d", NS_PER_D},
    {"w", NS_PER_W},
    {"month", NS_PER_MONTH},
    {"year", NS_PER_YEAR},
    {"millisecond", NS_PER_MS},
    {"milliseconds", NS_PER_MS},
    {"second", NS_PER_S},
    {"seconds", NS_PER_S},
    {"minute", NS_PER_MIN},
    {"minutes", NS_PER_MIN},
    {"hour", NS_PER_H},
    {"hours", NS_PER_H},
    {"day", NS_PER_D},
    {"days", NS_PER_D},
    {"week", NS_PER_W},
    {"weeks", NS_PER_W},
    {"months", NS_PER_MONTH},
    {"years", NS_PER_YEAR},
};

static const struct unit size_units[] = {
    {"", 1}, {"K", 1ULL << 10}, {"M", 1ULL << 20}, {"G", 1ULL << 30}, {"T", 1ULL << 40},
};

/* From the largest down: the first that divides a duration gives its shortest form. */
static const struct unit printed_units[] = {
    {"w", NS_PER_W}, {"d", NS_PER_D},   {"h", NS_PER_H},   {"m", NS_PER_MIN},
    {"s", NS_PER_S}, {"ms", NS_PER_MS}, {"us", NS_PER_US}, {"ns", 1},
};

enum {
    TIME_UNITS = sizeof(time_units) / sizeof(time_units[0]),
    SIZE_UNITS = sizeof(size_units) / sizeof(size_units[0]),
    QUOTE_TEXT_MAX = 36, /* characters of the whole input in a sentence */
    QUOTE_UNIT_MAX = 20, /* and of the unit in it */
    QUOTE_LEN = QUOTE_TEXT_MAX + sizeof("...")
};
/* The longest sentence names a text and a unit around these fixed words (QUANTITY-3). */
static_assert(sizeof("duration \"\": unknown unit \"\"; " UNITS_EXPECTED) + QUOTE_TEXT_MAX +
                      QUOTE_UNIT_MAX + 6 <=
                  QUANTITY_ERROR_LEN,
              "the sentence on an unknown unit fits");

const char *quantity_unit(size_t index)
{
    return index < TIME_UNITS ? time_units[index].name : NULL;
}

/* What is being parsed: the kind and the whole text start every sentence. */
struct subject {
    const char *kind;
    const char *text;
    char *error;
};

/* Copies at most `max` printable characters of `text`, with "..." where it was cut. */
static const char *quote(const char *text, size_t max, char out[QUOTE_LEN])
{
    ASSERT(max + sizeof("...") <= QUOTE_LEN);
    size_t i;

    for (i = 0; i < max && text[i] != '\0'; i++)
        out[i] = text[i] >= 0x20 && text[i] < 0x7f && text[i] != '"' ? text[i] : '?';
    (void)snprintf(out + i, QUOTE_LEN - i, "%s", text[i] == '\0' ? "" : "...");
    return out;
}

/* Writes `kind "text": sentence` and gives TG_EINVALID. */
__attribute__((format(printf, 2, 3))) static int refuse(const struct subject *subject,
                                                        const char *format, ...)
{
    char quoted[QUOTE_LEN];
    va_list arguments;

    const int start = snprintf(subject->error, QUANTITY_ERROR_LEN, "%s \"%s\": ", subject->kind,
                               quote(subject->text, QUOTE_TEXT_MAX, quoted));
    ASSERT(start > 0 && start < QUANTITY_ERROR_LEN); /* QUANTITY-3 */
    va_start(arguments, format);
    (void)vsnprintf(subject->error + start, QUANTITY_ERROR_LEN - (size_t)start, format, arguments);
    va_end(arguments);
    return TG_EINVALID;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the digits at *at and steps over them. False if they exceed 64 bits; none read as 0. */
static bool scan_number(const char **at, uint64_t *value)
{
    *value = 0;
    for (; is_digit(**at); (*at)++) {
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
            return false;
    }
    return true;
}

static const struct unit *find_unit(const struct unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    }
    return NULL;
}

/* The unit of time that `name` is, or NULL and a sentence. */
static const struct unit *time_unit(const struct subject *subject, const char *name)
{
    char quoted[QUOTE_LEN];

    const struct unit *unit = find_unit(time_units, TIME_UNITS, name);
    if (unit != NULL)
        return unit;
    if (name[0] == '\0')
        (void)refuse(subject, "no unit; " UNITS_EXPECTED);
    else
        (void)refuse(subject, "unknown unit \"%s\"; " UNITS_EXPECTED,
                     quote(name, QUOTE_UNIT_MAX, quoted));
    return NULL;
}

/* Reads a duration; 0 is one. */
static int parse_duration(const struct subject *subject, uint64_t *ns)
{
    const char *at = subject->text;
    uint64_t number;

    if (!is_digit(*at))
        return refuse(subject, "expected a whole number and a unit, such as 250ms or 5m");
    if (!scan_number(&at, &number))
        return refuse(subject, DURATION_TOO_LONG);
    const struct unit *unit = time_unit(subject, at);
    if (unit == NULL)
        return TG_EINVALID;
    if (__builtin_mul_overflow(number, unit->scale, ns) || *ns > INT64_MAX)
        return refuse(subject, DURATION_TOO_LONG);
    return TG_OK;
}

int quantity_parse_duration(const char *text, uint64_t *ns, char *error)
{
    const struct subject subject = {.kind = "duration", .text = text, .error = error};
    const int result = parse_duration(&subject, ns);

    if (result == TG_OK && *ns == 0)
        return refuse(&subject, "is 0; expected more than 0, such as 250ms or 5m");
    return result;
}

int quantity_parse_wait(const char *text, uint64_t *ns, char *error)
{
    const struct subject subject = {.kind = "duration", .text = text, .error = error};

    return parse_duration(&subject, ns);
}

int quantity_parse_size(const char *text, uint64_t *bytes, char *error)
{
    const struct subject subject = {.kind = "size", .text = text, .error = error};
    const char *at = text;
    uint64_t number;

    if (!is_digit(*at))
        return refuse(&subject, "expected a whole number, such as 65536, 32M or 4G");
    if (!scan_number(&at, &number))
        return refuse(&subject, "too large; expected less than 2^64 bytes");
    const struct unit *unit = find_unit(size_units, SIZE_UNITS, at);
    if (unit == NULL) {
        char quoted[QUOTE_LEN];
        return refuse(&subject, "unknown unit \"%s\"; expected K M G T or none",
                      quote(at, QUOTE_UNIT_MAX, quoted));
    }
    if (__builtin_mul_overflow(number, unit->scale, bytes))
        return refuse(&subject, "too large; expected less than 2^64 bytes");
    return TG_OK;
}

/* The part of a rate before its slash; leaves *at behind the slash. */
static int parse_count(const struct subject *subject, const char **at, uint64_t *count)
{
    const char *start = *at;
    const bool fits = scan_number(at, count);

    if (*at == start)
        return refuse(subject, "no count; expected COUNT/[N]UNIT, such as 5/60s");
    if (!fits || *count > LIMIT_COUNT_MAX)
        return refuse(subject, "count too large; expected at most %llu", LIMIT_COUNT_MAX);
    if (**at != '/')
        return refuse(subject, "no slash after the count; expected COUNT/[N]UNIT, such as 5/60s");
    if (*count == 0)
        return refuse(subject, "count is 0; expected at least 1");
    (*at)++;
    return TG_OK;
}

/* The part of a rate behind its slash. */
static int parse_window(const struct subject *subject, const char *at, uint64_t *window_ns)
{
    uint64_t number = 1; /* "5/h" is "5/1h" */

    if (is_digit(*at) && !scan_number(&at, &number))
        return refuse(subject, WINDOW_TOO_LONG);
    const struct unit *unit = time_unit(subject, at);
    if (unit == NULL)
        return TG_EINVALID;
    if (__builtin_mul_overflow(number, unit->scale, window_ns) || *window_ns > LIMIT_WINDOW_MAX_NS)
        return refuse(subject, WINDOW_TOO_LONG);
    if (*window_ns < LIMIT_WINDOW_MIN_NS)
        return refuse(subject, "window too short; expected at least 1 ms");
    return TG_OK;
}

int quantity_parse_rate(const char *text, struct quantity_rate *rate, char *error)
{
    const struct subject subject = {.kind = "rate", .text = text, .error = error};
    const char *at = text;

    const int result = parse_count(&subject, &at, &rate->count);
    if (result != TG_OK)
        return result;
    ASSERT(rate->count >= 1 && rate->count <= LIMIT_COUNT_MAX && at[-1] == '/');
    return parse_window(&subject, at, &rate->window_ns);
}

void quantity_rate_window(const char *text, uint64_t *number, uint64_t *unit_ns)
{
    const char *at = strchr(text, '/') + 1;

    *number = 1;
    if (is_digit(*at))
        (void)scan_number(&at, number);
    *unit_ns = find_unit(time_units, TIME_UNITS, at)->scale;
}

int quantity_parse_uint(const char *text, uint64_t max, uint64_t *value, char *error)
{
    const struct subject subject = {.kind = "number", .text = text, .error = error};
    const char *at = text;

    if (!is_digit(*at) || !scan_number(&at, value) || *at != '\0' || *value > max)
        return refuse(&subject, "expected a whole number from 0 to %" PRIu64, max);
    return TG_OK;
}

/* The largest unit that divides `ns`; the last one divides everything. */
static const struct unit *shortest_unit(uint64_t ns)
{
    ASSERT(ns > 0);
    const struct unit *unit = printed_units;

    while (ns % unit->scale != 0)
        unit++;
    return unit;
}

enum { DIGITS_MAX = 20 }; /* of 64 bits */
static_assert(2 * DIGITS_MAX + sizeof "/month" <= QUANTITY_TEXT_LEN, "any rate has room");

/* Writes `number` in decimals; returns where they end. A reply shows the rate of its limit, and
 * printf takes longer for that than it takes to decide. */
static char *put_number(uint64_t number, char *out)
{
    char digits[DIGITS_MAX];
    size_t count = 0;

    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    ASSERT(count >= 1 && count <= DIGITS_MAX);
    while (count > 0)
        *out++ = digits[--count];
    return out;
}

void quantity_format_duration(uint64_t ns, char *out)
{
    const char *unit = "s";

    if (ns != 0) {
        const struct unit *shortest = shortest_unit(ns);
        ns /= shortest->scale;
        unit = shortest->name;
    }
    memcpy(put_number(ns, out), unit, strlen(unit) + 1);
}

void quantity_format_rate(const struct quantity_rate *rate, char *out)
{
    char window[QUANTITY_TEXT_LEN];

    quantity_format_duration(rate->window_ns, window);
    /* "5/h", not "5/1h": only a number of exactly 1 has a letter behind its leading 1. */
    const char *shown = window[0] == '1' && !is_digit(window[1]) ? window + 1 : window;
    char *at = put_number(rate->count, out);
    *at = '/';
    memcpy(at + 1, shown, strlen(shown) + 1);
}

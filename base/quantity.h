/* quantity.h - the written forms of durations, sizes and rates, parsed and printed in one place.
 *
 *   duration  5m  250ms  1h  25s  (a bare number is an error: units prevent mistakes)
 *   size      32M  4G  65536      (K, M, G, T are powers of 1024; a bare number is bytes)
 *   rate      COUNT/[N]UNIT: 5/60s  30/24h  100/minute  600000000/s  60/5m
 *
 * Units: ns us ms s m min h d w month year and second(s) minute(s) hour(s) day(s) week(s)
 * months years, millisecond(s). Outside calendar alignment w, month, year are 7, 30, 365 days.
 */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct quantity_rate {
    uint64_t count;     /* >= 1 */
    uint64_t window_ns; /* >= 1 ms, <= 10 years */
};

enum { QUANTITY_ERROR_LEN = 160, QUANTITY_TEXT_LEN = 48 };

/* Each returns 0, or TG_EINVALID with a sentence in `error` (QUANTITY_ERROR_LEN bytes) that says
 * what was found and what was expected; the value is then unspecified. `text` is NUL-terminated.
 * A duration is more than 0, so that nobody takes 0 for "for ever", and at most INT64_MAX ns (292
 * years), so that it fits any time. */
MUST_USE int quantity_parse_duration(const char *text, uint64_t *ns, char *error);
/* The same where 0 is a duration like others: how long something waits, at most not at all. */
MUST_USE int quantity_parse_wait(const char *text, uint64_t *ns, char *error);
/* The units of time that texts may have, for documents: the one at `index`, NULL behind the last.
 */
const char *quantity_unit(size_t index);
MUST_USE int quantity_parse_size(const char *text, uint64_t *bytes, char *error);
MUST_USE int quantity_parse_rate(const char *text, struct quantity_rate *rate, char *error);
/* Of a text that quantity_parse_rate takes: how many of which unit its window is, as 2 and 1 h of
 * "5/2h". */
void quantity_rate_window(const char *text, uint64_t *number, uint64_t *unit_ns);
/* A whole unsigned decimal number without sign or spaces, at most `max`. */
MUST_USE int quantity_parse_uint(const char *text, uint64_t max, uint64_t *value, char *error);

/* The shortest exact form, "5/h", "30/24h" -> "30/d", "250ms"; `out` has QUANTITY_TEXT_LEN bytes.
 */
void quantity_format_duration(uint64_t ns, char *out);
void quantity_format_rate(const struct quantity_rate *rate, char *out);

#endif

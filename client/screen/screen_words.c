/* screen_words.c - numbers as people read them at a glance: short, and rounded down. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/screen/screen.h"

enum { S_MS = 1000, MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400, MS_US = 1000, TEN = 10 };

const char *screen_span(uint64_t ms, char out[SCREEN_WORD_LEN])
{
    const uint64_t s = ms / S_MS;
    if (ms < 10 * S_MS)
        (void)snprintf(out, SCREEN_WORD_LEN, "%" PRIu64 ".%" PRIu64 "s", s, ms % S_MS / 100);
    else if (s < MINUTE_S)
        (void)snprintf(out, SCREEN_WORD_LEN, "%" PRIu64 "s", s);
    else if (s < HOUR_S)
        (void)snprintf(out, SCREEN_WORD_LEN, "%" PRIu64 "m%" PRIu64 "s", s / MINUTE_S,
                       s % MINUTE_S);
    else if (s < DAY_S)
        (void)snprintf(out, SCREEN_WORD_LEN, "%" PRIu64 "h%" PRIu64 "m", s / HOUR_S,
                       s % HOUR_S / MINUTE_S);
    else
        (void)snprintf(out, SCREEN_WORD_LEN, "%" PRIu64 "d%" PRIu64 "h", s / DAY_S,
                       s % DAY_S / HOUR_S);
    return out;
}

const char *screen_count(uint64_t number, char out[SCREEN_WORD_LEN])
{
    char digits[SCREEN_WORD_LEN];
    const size_t len = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number);
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    ASSERT(at < SCREEN_WORD_LEN);
    out[at] = '\0';
    return out;
}

const char *screen_rate(double rate, char out[SCREEN_WORD_LEN])
{
    if (rate <= 0)
        (void)snprintf(out, SCREEN_WORD_LEN, "0");
    else if (rate < TEN)
        (void)snprintf(out, SCREEN_WORD_LEN, "%.1f", rate);
    else
        (void)screen_count((uint64_t)(rate + 0.5), out);
    return out;
}

const char *screen_bytes(uint64_t bytes, char out[SCREEN_WORD_LEN])
{
    static const char units[] = "BKMGTPE";
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 2 < sizeof units) {
        value /= 1024;
        unit++;
    }
    ASSERT(unit + 1 < sizeof units);
    const bool whole = value >= TEN || value == (double)(uint64_t)value;
    (void)snprintf(out, SCREEN_WORD_LEN, "%.*f%c", whole ? 0 : 1, value, units[unit]);
    return out;
}

const char *screen_us(uint64_t us, char out[SCREEN_WORD_LEN])
{
    if (us < 100 * MS_US)
        (void)snprintf(out, SCREEN_WORD_LEN, "%.1fms", (double)us / MS_US);
    else
        (void)screen_span(us / MS_US, out);
    return out;
}

const char *screen_skew(int64_t us, char out[SCREEN_WORD_LEN])
{
    const uint64_t size = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    char word[SCREEN_WORD_LEN];
    if (size < MS_US) {
        (void)snprintf(out, SCREEN_WORD_LEN, "0ms");
        return out;
    }
    if (size < S_MS * (uint64_t)MS_US)
        (void)snprintf(word, sizeof word, "%" PRIu64 "ms", size / MS_US);
    else
        (void)screen_span(size / MS_US, word);
    (void)snprintf(out, SCREEN_WORD_LEN, "%c%.*s", us < 0 ? '-' : '+', SCREEN_WORD_LEN - 2, word);
    return out;
}

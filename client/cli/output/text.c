/* text.c - a string that grows; see text.h for its invariants TEXT-1 and TEXT-2.
 *
 * Growth doubles, so that adding n bytes copies O(n). UTF-8 is checked as RFC 3629 says: no
 * overlong forms, no surrogates, nothing above U+10FFFF.
 */
#include "client/cli/output/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/utf8.h"

enum { TEXT_CAPACITY_MIN = 1024, TEXT_FORMAT_LEN = 256 };

void cli_text_init(struct cli_text *text)
{
    *text = (struct cli_text){.data = NULL};
}

void cli_text_fini(struct cli_text *text)
{
    if (text->data != NULL)
        alloc_put(alloc_heap(), text->data, text->capacity);
    cli_text_init(text);
}

void cli_text_clear(struct cli_text *text)
{
    text->len = 0;
    text->failed = false;
    if (text->data != NULL)
        text->data[0] = '\0';
}

void cli_text_check_invariants(const struct cli_text *text)
{
    INVARIANT("TEXT-3", (text->data == NULL) == (text->capacity == 0));
    INVARIANT("TEXT-3", text->data != NULL ? text->len < text->capacity : text->len == 0);
    INVARIANT("TEXT-1", text->data == NULL || text->data[text->len] == '\0');
}

/* Makes room for `more` bytes and the NUL. */
static bool make_room(struct cli_text *text, size_t more)
{
    if (text->failed || more >= SIZE_MAX / 4 - text->len) {
        text->failed = true;
        return false;
    }
    size_t capacity = text->capacity == 0 ? TEXT_CAPACITY_MIN : text->capacity;
    while (capacity <= text->len + more)
        capacity *= 2;
    if (capacity == text->capacity)
        return true;
    char *data = alloc_get(alloc_heap(), capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    if (text->data != NULL) {
        memcpy(data, text->data, text->len);
        alloc_put(alloc_heap(), text->data, text->capacity);
    }
    text->data = data;
    text->capacity = capacity;
    ASSERT(text->len + more < text->capacity); /* TEXT-3 */
    return true;
}

void cli_text_add(struct cli_text *text, const char *data, size_t len)
{
    if (!make_room(text, len))
        return;
    if (len > 0)
        memcpy(text->data + text->len, data, len);
    text->len += len;
    ASSERT(text->len < text->capacity); /* TEXT-3 */
    text->data[text->len] = '\0';
}

void cli_text_str(struct cli_text *text, const char *string)
{
    cli_text_add(text, string, strlen(string));
}

void cli_text_fill(struct cli_text *text, char character, size_t count)
{
    if (!make_room(text, count))
        return;
    memset(text->data + text->len, character, count);
    text->len += count;
    ASSERT(text->len < text->capacity); /* TEXT-3 */
    text->data[text->len] = '\0';
}

void cli_text_format(struct cli_text *text, const char *format, ...)
{
    char line[TEXT_FORMAT_LEN];
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (len > 0)
        cli_text_add(text, line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1);
}

void cli_text_wrap(struct cli_text *text, const char *words, size_t len, size_t at, size_t indent,
                   size_t width)
{
    bool first = true;
    for (size_t next = 0; next < len;) {
        const size_t word = strcspn(words + next, " \n");
        const size_t taken = next + word > len ? len - next : word;
        const size_t columns = cli_utf8_count(words + next, taken);
        if (!first && at + 1 + columns > width) {
            cli_text_str(text, "\n");
            cli_text_fill(text, ' ', indent);
            at = indent;
        } else if (!first) {
            cli_text_str(text, " ");
            at++;
        }
        cli_text_add(text, words + next, taken);
        at += columns;
        first = false;
        next += taken + 1;
    }
    cli_text_str(text, "\n");
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

size_t cli_utf8_count(const char *data, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += ((uint8_t)data[i] & 0xc0) != 0x80;
    ASSERT(count <= len);
    return count;
}

static bool is_control(const char *data, size_t len)
{
    ASSERT(len >= 1 && len <= 4); /* one character */
    const uint8_t first = (uint8_t)data[0];
    if (len == 1)
        return first < 0x20 || first == 0x7f;
    return len == 2 && first == 0xc2 && (uint8_t)data[1] < 0xa0; /* U+0080 .. U+009F */
}

void cli_text_shown(struct cli_text *text, const char *data, size_t len)
{
    for (size_t i = 0; i < len;) {
        const size_t step = utf8_len(data + i, len - i);
        if (step == 0)
            cli_text_str(text, "\xef\xbf\xbd");
        else if (is_control(data + i, step))
            cli_text_str(text, "?");
        else
            cli_text_add(text, data + i, step);
        i += step == 0 ? 1 : step;
    }
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* Appends "N" and the unit unless N is 0. */
static size_t add_part(char *out, size_t len, long long number, char unit)
{
    const int more =
        number != 0 ? snprintf(out + len, CLI_SPAN_LEN - len, "%lld%c", number, unit) : 0;
    ASSERT(more >= 0 && len + (size_t)more < CLI_SPAN_LEN);
    return len + (size_t)more;
}

/* Appends a number of thousandths as one with a fraction: 1500 is "1.5". */
static size_t add_fraction(char *out, size_t len, long long thousandths)
{
    len += (size_t)snprintf(out + len, CLI_SPAN_LEN - len, "%lld.%03lld", thousandths / 1000,
                            thousandths % 1000);
    ASSERT(len > 1 && len < CLI_SPAN_LEN);
    while (out[len - 1] == '0')
        len--;
    return out[len - 1] == '.' ? len - 1 : len;
}

/* Exact: a time that is cut is told too short to whoever waits for it, and one that is rounded up
 * longer than any window of its limit. */
void cli_span(long long span_ms, char *out)
{
    enum { MINUTE = 60 * 1000, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    size_t len = 0;
    if (span_ms < 0) {
        (void)snprintf(out, CLI_SPAN_LEN, "never");
        return;
    }
    if (span_ms < 1000) {
        (void)snprintf(out, CLI_SPAN_LEN, "%lldms", span_ms);
        return;
    }
    len = add_part(out, len, span_ms / DAY, 'd');
    len = add_part(out, len, span_ms % DAY / HOUR, 'h');
    len = add_part(out, len, span_ms % HOUR / MINUTE, 'm');
    if (span_ms % MINUTE != 0) {
        len = add_fraction(out, len, span_ms % MINUTE);
        out[len++] = 's';
    }
    ASSERT(len > 0 && len < CLI_SPAN_LEN);
    out[len] = '\0';
}

void cli_span_us(unsigned long long span_us, char *out)
{
    if (span_us < 1000) {
        (void)snprintf(out, CLI_SPAN_LEN, "%lluus", span_us);
    } else if (span_us < 1000000) {
        const size_t len = add_fraction(out, 0, (long long)span_us);
        (void)snprintf(out + len, CLI_SPAN_LEN - len, "ms");
    } else {
        cli_span((long long)(span_us / 1000 + (span_us % 1000 != 0)), out);
    }
}

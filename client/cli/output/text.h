/* text.h - a string that grows, and what may be shown of bytes that others wrote.
 *
 * All output is put together in one of these and written at once, so that a line is never torn.
 * Running out of memory is sticky: `failed` is set, nothing more is added, and who prints looks
 * at it once at the end.
 *
 * TEXT-1  data[len] is NUL as soon as anything was added.
 * TEXT-2  What cli_text_shown adds is valid UTF-8 without control characters: neither a key nor a
 *         node can move the cursor of the terminal that shows it.
 * TEXT-3  What is added lies in `capacity` bytes, the NUL included; there are none before.
 */
#ifndef CLIENT_CLI_OUTPUT_TEXT_H
#define CLIENT_CLI_OUTPUT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_text {
    char *data; /* NULL until something is added */
    size_t len;
    size_t capacity;
    bool failed;
};

/* An empty text on the caller's memory; nothing is allocated yet. */
void cli_text_init(struct cli_text *text);
void cli_text_fini(struct cli_text *text);
/* Empties it and keeps its memory. */
void cli_text_clear(struct cli_text *text);
/* Asserts TEXT-1 and TEXT-3. */
void cli_text_check_invariants(const struct cli_text *text);

void cli_text_add(struct cli_text *text, const char *data, size_t len);
void cli_text_str(struct cli_text *text, const char *string);
/* `count` times the character. */
void cli_text_fill(struct cli_text *text, char character, size_t count);
/* As printf; at most 255 bytes a call. */
void cli_text_format(struct cli_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds words, broken where a line would be longer than `width`, and ends the line. The first line
 * goes on at column `at`, the others begin at `indent`. */
void cli_text_wrap(struct cli_text *text, const char *words, size_t len, size_t at, size_t indent,
                   size_t width);
/* Adds bytes for people to see (TEXT-2): a control character becomes '?', what is no UTF-8
 * U+FFFD. */
void cli_text_shown(struct cli_text *text, const char *data, size_t len);

/* Characters, which is what columns are aligned by. */
size_t cli_utf8_count(const char *data, size_t len);

/* A span of time for people, exact: "250ms", "59.5s", "12m30s", "59m59.982s", "3d4h"; "never" for a
 * negative one. `out` has CLI_SPAN_LEN bytes. */
enum { CLI_SPAN_LEN = 32 };
void cli_span(long long span_ms, char *out);
/* The same of microseconds, above a second rounded up to ms: "90us", "1.25ms". */
void cli_span_us(unsigned long long span_us, char *out);

#endif

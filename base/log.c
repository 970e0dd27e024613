/* log.c - one formatted, bounded, printable line at a time.
 *
 * The sink (a stream, the journal, a test's array) belongs to the edge; this file never
 * writes anywhere. Lines below the level are dropped before they are formatted.
 *
 * LOG-1  A line has at most LOG_LINE_LEN - 1 bytes and no newline or other control character: an
 *        argument that came from outside cannot forge a second line or move a cursor.
 * LOG-2  A line that was cut ends with "...", and never within a UTF-8 character.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

enum { LOG_LINE_LEN = 1024, LOG_LEVELS = LOG_LEVEL_ERROR + 1 };

static const char *const level_names[LOG_LEVELS] = {
    [LOG_LEVEL_DEBUG] = "debug",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_ERROR] = "error",
};

static bool utf8_continues(char byte)
{
    return ((uint8_t)byte & 0xc0) == 0x80;
}

/* Ends a full buffer with "...", dropping the character that the dots would split (LOG-2). */
static void line_cut(char line[LOG_LINE_LEN])
{
    size_t at = LOG_LINE_LEN - sizeof("...");

    while (at > 0 && utf8_continues(line[at]))
        at--;
    ASSERT(at + sizeof("...") <= LOG_LINE_LEN); /* LOG-2 */
    memcpy(line + at, "...", sizeof("..."));
}

/* LOG-1 */
static void line_clean(char *line)
{
    for (char *at = line; *at != '\0'; at++) {
        if ((uint8_t)*at < 0x20 || *at == 0x7f)
            *at = ' ';
    }
}

void log_printf(const struct log *log, enum log_level level, const char *format, ...)
{
    ASSERT((unsigned)level < LOG_LEVELS);
    char line[LOG_LINE_LEN];
    va_list arguments;

    if (!log_enabled(log, level))
        return;
    va_start(arguments, format);
    const int len = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (len < 0)
        return; /* only an unrepresentable wide character gets here, and we print none */
    if (len >= LOG_LINE_LEN)
        line_cut(line);
    line_clean(line);
    log->write(log->context, level, line);
}

int log_level_parse(const char *text, enum log_level *level)
{
    for (int i = 0; i < LOG_LEVELS; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return TG_OK;
        }
    }
    return TG_EINVALID;
}

const char *log_level_name(enum log_level level)
{
    return (unsigned)level < LOG_LEVELS ? level_names[level] : "unknown";
}

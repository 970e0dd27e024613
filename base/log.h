/* log.h - the logging interface. The core formats nothing it will not show; the edge writes.
 *
 * Log once, where it is decided. Never a key, phone number, address of a caller or token.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

struct log {
    enum log_level level; /* lines below it are dropped before formatting */
    /* Writes one complete line; must be callable from any thread. NULL drops all. */
    void (*write)(void *context, enum log_level level, const char *line);
    void *context;
};

static inline bool log_enabled(const struct log *log, enum log_level level)
{
    return log != (void *)0 && log->write != (void *)0 && level >= log->level;
}

/* Formats (at most 1 KiB, cut with "...") and hands one line on. `log` may be NULL. */
void log_printf(const struct log *log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "debug", "info", "warn", "error" -> level; TG_EINVALID for anything else. */
int log_level_parse(const char *text, enum log_level *level);
const char *log_level_name(enum log_level level);

#endif

/* log_output.c - formats a log line and hands it to the descriptor, or counts it as lost.
 *
 *   message --> escaped, cut at the bound --> poll(0): takes a line? --> write(2)
 *                                                  | no
 *                                                  +--> dropped + 1, said with the next line
 *
 * LOGOUTPUT-3  The lock is held over poll and write, so that between "takes one line" and the line
 *              no other thread of this process fills the pipe; neither call waits.
 * LOGOUTPUT-4  An escape or a UTF-8 character is written whole or not at all, and there is always
 *              room for the line's end (TAIL_LEN).
 *
 * Must not: allocate, log, or fail: there is nobody to tell.
 */
#include "node/runtime/system/log_output.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/utf8.h"

enum {
    TIME_LEN = 25, /* 2026-01-02T03:04:05.678Z and NUL */
    TAIL_LEN = 8,  /* ..."} and newline */
    BODY_LEN_MAX = LOG_OUTPUT_LINE_LEN - TAIL_LEN,
    NOTICE_LEN = 96,
};
static_assert(TAIL_LEN >= sizeof("...\"}\n"), "the end of a cut JSON line has its room");

struct line {
    char *out;
    size_t len;
    bool cut;
};

/* Appends whole or marks the line as cut (LOGOUTPUT-4). */
static void line_add(struct line *line, const char *bytes, size_t len)
{
    ASSERT(line->len <= BODY_LEN_MAX); /* LOGOUTPUT-4 */
    if (line->cut || BODY_LEN_MAX - line->len < len) {
        line->cut = true;
        return;
    }
    memcpy(line->out + line->len, bytes, len);
    line->len += len;
}

static void line_add_text(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

/* Appends the character at `at` and returns how many bytes of the input it was (LOGOUTPUT-2). */
static size_t line_add_character(struct line *line, enum log_output_format format, const char *at)
{
    const uint8_t byte = (uint8_t)*at;
    char escaped[8];

    if (byte >= 0x80) {
        const size_t len = utf8_len(at, strnlen(at, UTF8_MAX));
        line_add(line, len > 0 ? at : "\xef\xbf\xbd", len > 0 ? len : 3);
        return len > 0 ? len : 1;
    }
    if (byte < 0x20 || byte == 0x7f) {
        const char *form = format == LOG_OUTPUT_JSON ? "\\u%04x" : "\\x%02x";
        (void)snprintf(escaped, sizeof(escaped), form, (unsigned)byte);
        line_add_text(line, escaped);
    } else if (format == LOG_OUTPUT_JSON && (byte == '"' || byte == '\\')) {
        line_add(line, (const char[]){'\\', (char)byte}, 2);
    } else {
        line_add(line, at, 1);
    }
    return 1;
}

/* The time as RFC 3339 in UTC, to the millisecond. */
static void format_time(int64_t unix_ms, char out[TIME_LEN])
{
    const int64_t first_ms = INT64_C(-62167219200000); /* year 0 */
    const int64_t last_ms = INT64_C(253402300799999);  /* year 9999 */
    const int64_t shown_ms =
        unix_ms < first_ms ? first_ms : (unix_ms > last_ms ? last_ms : unix_ms);
    const int64_t millis = (shown_ms % 1000 + 1000) % 1000;
    ASSERT(millis >= 0 && millis < 1000);
    const time_t seconds = (time_t)((shown_ms - millis) / 1000);
    struct tm parts;
    char date[TIME_LEN];

    (void)gmtime_r(&seconds, &parts);
    (void)strftime(date, sizeof(date), "T%H:%M:%S", &parts);
    (void)snprintf(out, TIME_LEN, "%04u-%02u-%02u%.9s.%03uZ",
                   (unsigned)(parts.tm_year + 1900) % 10000, (unsigned)(parts.tm_mon + 1) % 100,
                   (unsigned)parts.tm_mday % 100, date, (unsigned)millis % 1000);
}

static void add_trace(struct line *line, bool json, const struct log_output_trace *trace)
{
    char head[96];
    (void)snprintf(head, sizeof(head),
                   json ? "\"trace_id\":\"%s\",\"span_id\":\"%s\"," : "trace_id=%s span_id=%s ",
                   trace->trace_id, trace->span_id);
    line_add_text(line, head);
}

size_t log_output_line(enum log_output_format format, int64_t unix_ms, enum log_level level,
                       const char *message, char out[LOG_OUTPUT_LINE_LEN])
{
    return log_output_traced_line(format, unix_ms, level, NULL, message, out);
}

size_t log_output_traced_line(enum log_output_format format, int64_t unix_ms, enum log_level level,
                              const struct log_output_trace *trace, const char *message,
                              char out[LOG_OUTPUT_LINE_LEN])
{
    const bool json = format == LOG_OUTPUT_JSON;
    struct line line = {.out = out};
    char head[96];
    char when[TIME_LEN];

    format_time(unix_ms, when);
    (void)snprintf(head, sizeof(head), json ? "{\"time\":\"%s\",\"level\":\"%s\"," : "%s %-5s ",
                   when, log_level_name(level));
    line_add_text(&line, head);
    if (trace != NULL)
        add_trace(&line, json, trace);
    if (json)
        line_add_text(&line, "\"message\":\"");
    for (const char *at = message; *at != '\0' && !line.cut;)
        at += line_add_character(&line, format, at);
    const int tail =
        snprintf(out + line.len, TAIL_LEN, "%s%s", line.cut ? "..." : "", json ? "\"}\n" : "\n");
    ASSERT(tail > 0 && tail < TAIL_LEN && line.len <= BODY_LEN_MAX); /* LOGOUTPUT-1 */
    return line.len + (size_t)tail;
}

/* One line if the descriptor takes it at once. */
static bool write_now(int fd, const char *bytes, size_t len)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    ssize_t written;

    if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0)
        return false;
    do
        written = write(fd, bytes, len);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)len;
}

static int64_t wall_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Says how many lines were lost, if any were. False: they still have to be said. */
static bool write_notice(struct log_output *output, int64_t unix_ms)
{
    char message[NOTICE_LEN];
    char bytes[LOG_OUTPUT_LINE_LEN];

    if (output->dropped_unsaid == 0)
        return true;
    (void)snprintf(message, sizeof(message),
                   "%" PRIu64 " log lines were dropped: nobody read the log fast enough",
                   output->dropped_unsaid);
    const size_t len = log_output_line(output->format, unix_ms, LOG_LEVEL_WARN, message, bytes);
    if (!write_now(output->fd, bytes, len))
        return false;
    output->dropped_unsaid = 0;
    return true;
}

static void output_write(void *context, enum log_level level, const char *message)
{
    log_output_traced(context, level, NULL, message);
}

void log_output_traced(struct log_output *output, enum log_level level,
                       const struct log_output_trace *trace, const char *message)
{
    char bytes[LOG_OUTPUT_LINE_LEN];
    const int64_t unix_ms = wall_ms();
    const size_t len =
        log_output_traced_line(output->format, unix_ms, level, trace, message, bytes);

    (void)pthread_mutex_lock(&output->lock); /* LOGOUTPUT-3 */
    const bool written = write_notice(output, unix_ms) && write_now(output->fd, bytes, len);
    output->dropped_unsaid += !written;
    (void)pthread_mutex_unlock(&output->lock);
    if (written)
        atomic_fetch_add_explicit(&output->lines, 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&output->dropped, 1, memory_order_relaxed);
}

int log_output_init(struct log_output *output, int fd, enum log_level level,
                    enum log_output_format format)
{
    *output = (struct log_output){
        .log = {.level = level, .write = output_write, .context = output},
        .fd = fd,
        .format = format,
    };
    return pthread_mutex_init(&output->lock, NULL) == 0 ? TG_OK : TG_ENOMEM;
}

void log_output_fini(struct log_output *output)
{
    (void)pthread_mutex_destroy(&output->lock);
    output->log.write = NULL;
}

uint64_t log_output_dropped(struct log_output *output)
{
    return atomic_load_explicit(&output->dropped, memory_order_relaxed);
}

/* log_output.h - log lines on their way out: text or JSON, one write(2) each, never waiting.
 *
 *   text   2026-01-02T03:04:05.678Z info  message
 *   json   {"time":"2026-01-02T03:04:05.678Z","level":"info","message":"..."}
 *
 * A log that is not read must not stop the leaders. Before each write the descriptor is asked
 * whether it takes one line now (a pipe that does has room for PIPE_BUF bytes, and no line is
 * longer); if not, the line is dropped and counted, and the next line that gets through is
 * preceded by one that says how many were lost. The descriptor's flags are left alone: it is
 * often shared with the terminal.
 *
 * LOGOUTPUT-1  A line is one write of at most LOG_OUTPUT_LINE_LEN bytes and ends with the only
 *              newline in it.
 * LOGOUTPUT-2  Every byte written is printable ASCII or part of valid UTF-8; others are escaped
 *              (controls as \xNN, in JSON \u00NN) or replaced by U+FFFD.
 */
#ifndef NODE_RUNTIME_SYSTEM_LOG_OUTPUT_H
#define NODE_RUNTIME_SYSTEM_LOG_OUTPUT_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

enum { LOG_OUTPUT_LINE_LEN = 4096 };
_Static_assert(LOG_OUTPUT_LINE_LEN <= PIPE_BUF, "a line fits what a ready pipe takes at once");

enum log_output_format { LOG_OUTPUT_TEXT, LOG_OUTPUT_JSON };

struct log_output {
    struct log log; /* hand &output->log to everyone */
    int fd;
    enum log_output_format format;
    pthread_mutex_t lock;     /* one asks and writes at a time */
    uint64_t dropped_unsaid;  /* under lock: lost since the last line that got through */
    _Atomic uint64_t dropped; /* lost since init */
    _Atomic uint64_t lines;   /* written since init */
};

/* Lines of `level` and above go to `fd` (borrowed, not closed). The struct must not move while it
 * is in use. 0 or TG_ENOMEM. */
MUST_USE int log_output_init(struct log_output *output, int fd, enum log_level level,
                             enum log_output_format format);
/* No other thread may be using output->log any more. */
void log_output_fini(struct log_output *output);
/* Lines lost since init. Any thread. */
uint64_t log_output_dropped(struct log_output *output);

/* Formats one line with its newline into `out`, cut with "..." at LOG_OUTPUT_LINE_LEN bytes; no NUL
 * is written. Returns its length. Pure. `unix_ms` may be any value (years 0..9999 are shown). */
size_t log_output_line(enum log_output_format format, int64_t unix_ms, enum log_level level,
                       const char *message, char out[LOG_OUTPUT_LINE_LEN]);

/* Of which trace a line is: ids as digits, each with its NUL. */
struct log_output_trace {
    char trace_id[33];
    char span_id[17];
};
/* A line of `output` with its trace: fields of their own in JSON, and the first words of the text:
 * "trace_id=... span_id=... message". Any thread. */
void log_output_traced(struct log_output *output, enum log_level level,
                       const struct log_output_trace *trace, const char *message);
/* As log_output_line, with a trace; NULL: none. */
size_t log_output_traced_line(enum log_output_format format, int64_t unix_ms, enum log_level level,
                              const struct log_output_trace *trace, const char *message,
                              char out[LOG_OUTPUT_LINE_LEN]);

#endif

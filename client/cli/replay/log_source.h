/* log_source.h - the lines of a log file: plain or compressed by gzip, or standard input.
 *
 *   file --zlib (which passes plain bytes through)--> buffer --> one line after the other
 *
 * LOGSOURCE-1  A line of more than LOG_LINE_MAX bytes is given cut to LOG_LINE_MAX + 1 and passed
 *              over whole, so memory is one buffer a file.
 * LOGSOURCE-2  What was read before an error is given; the error ends the lines.
 */
#ifndef CLIENT_CLI_REPLAY_LOG_SOURCE_H
#define CLIENT_CLI_REPLAY_LOG_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/error.h"

enum { LOG_SOURCE_SENTENCE_LEN = 160 };

struct log_source {
    const char *path; /* as given; "-" is standard input */
    gzFile file;
    char *buffer;
    size_t start; /* of what was not given yet */
    size_t end;
    bool ended;
    bool failed;
    uint64_t line; /* number of the line given last, from 1 */
    uint64_t bytes;
    char sentence[LOG_SOURCE_SENTENCE_LEN]; /* why it failed */
};

/* Opens the file. 0, or TG_EINVALID / TG_ENOMEM with the sentence; nothing is held then. */
MUST_USE int log_source_open(struct log_source *source, const char *path);
void log_source_close(struct log_source *source);
/* The next line without its end, valid until the next call. False at the end, or on an error. */
bool log_source_line(struct log_source *source, const char **text, size_t *len);

#endif

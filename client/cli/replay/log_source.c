/* log_source.c - the lines of a log file; see log_source.h for LOGSOURCE-1 and LOGSOURCE-2. */
#include "client/cli/replay/log_source.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/replay/log_line.h"

enum { BUFFER_LEN = 256 * 1024, ZLIB_BUFFER_LEN = 64 * 1024 };

static_assert(BUFFER_LEN > 2 * LOG_LINE_MAX, "a line is seen whole, or is too long");
static_assert(ZLIB_BUFFER_LEN * 2 <= BUFFER_LEN - LOG_LINE_MAX, "plain files are not copied twice");

static int fail(struct log_source *source, int code, const char *what)
{
    (void)snprintf(source->sentence, sizeof source->sentence, "%s", what);
    source->failed = true;
    return code;
}

/* The descriptor to read from, or -1 with the sentence. */
static int open_path(struct log_source *source, const char *path)
{
    struct stat status;
    const int descriptor =
        strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        (void)fail(source, TG_EINVALID, strerror(errno));
        return -1;
    }
    if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
        (void)fail(source, TG_EINVALID, "it is a directory");
        (void)close(descriptor);
        return -1;
    }
    return descriptor;
}

int log_source_open(struct log_source *source, const char *path)
{
    *source = (struct log_source){.path = path};
    const int descriptor = open_path(source, path);
    if (descriptor < 0)
        return TG_EINVALID;
    source->file = gzdopen(descriptor, "rb");
    if (source->file == NULL) {
        (void)close(descriptor);
        return fail(source, TG_ENOMEM, "out of memory");
    }
    source->buffer = alloc_get(alloc_heap(), BUFFER_LEN);
    if (source->buffer == NULL || gzbuffer(source->file, ZLIB_BUFFER_LEN) != 0) {
        log_source_close(source);
        return fail(source, TG_ENOMEM, "out of memory");
    }
    return TG_OK;
}

void log_source_close(struct log_source *source)
{
    if (source->file != NULL)
        (void)gzclose_r(source->file);
    alloc_put(alloc_heap(), source->buffer, BUFFER_LEN);
    source->file = NULL;
    source->buffer = NULL;
}

/* Moves the rest to the front and reads more behind it. False when nothing more comes. */
static bool read_more(struct log_source *source)
{
    if (source->ended)
        return false;
    memmove(source->buffer, source->buffer + source->start, source->end - source->start);
    source->end -= source->start;
    source->start = 0;
    ASSERT(source->end < BUFFER_LEN); /* LOGSOURCE-1: a longer line is cut before */
    const unsigned room = (unsigned)(BUFFER_LEN - source->end);
    const int got = gzread(source->file, source->buffer + source->end, room);
    if (got > 0) {
        source->end += (size_t)got;
        source->bytes += (uint64_t)got;
    }
    if (got <= 0)
        source->ended = true;
    int code = Z_OK;
    const char *said = gzerror(source->file, &code);
    if (source->ended && code == Z_BUF_ERROR)
        (void)fail(source, TG_EINVALID, "the compressed data are cut off");
    else if (source->ended && code == Z_ERRNO)
        (void)fail(source, TG_EINVALID, strerror(errno));
    else if (source->ended && code != Z_OK && code != Z_STREAM_END)
        (void)fail(source, TG_EINVALID, said);
    return got > 0;
}

static bool give(struct log_source *source, size_t len, size_t step, const char **text, size_t *out)
{
    ASSERT(len <= step && step <= source->end - source->start);
    *text = source->buffer + source->start;
    source->start += step;
    source->line++;
    if (len > 0 && (*text)[len - 1] == '\r')
        len--;
    *out = len;
    return true;
}

/* Passes over the rest of a line that is too long; its beginning stays in front of the buffer. */
static bool give_cut(struct log_source *source, const char **text, size_t *len)
{
    enum { KEPT = LOG_LINE_MAX + 1 };
    ASSERT(source->end - source->start >= KEPT); /* LOGSOURCE-1 */
    memmove(source->buffer, source->buffer + source->start, KEPT);
    source->start = source->end = KEPT;
    for (;;) {
        const int got = gzread(source->file, source->buffer + KEPT, BUFFER_LEN - KEPT);
        if (got <= 0) {
            source->ended = true;
            break;
        }
        source->bytes += (uint64_t)got;
        const char *const end = memchr(source->buffer + KEPT, '\n', (size_t)got);
        if (end != NULL) {
            source->start = (size_t)(end - source->buffer) + 1;
            source->end = KEPT + (size_t)got;
            break;
        }
    }
    source->line++;
    *text = source->buffer;
    *len = KEPT;
    return true;
}

bool log_source_line(struct log_source *source, const char **text, size_t *len)
{
    size_t seen = 0; /* bytes without a line's end */
    for (;;) {
        const char *const from = source->buffer + source->start;
        const char *const end = memchr(from + seen, '\n', source->end - source->start - seen);
        if (end != NULL)
            return give(source, (size_t)(end - from), (size_t)(end - from) + 1, text, len);
        seen = source->end - source->start;
        if (seen > LOG_LINE_MAX)
            return give_cut(source, text, len);
        if (!read_more(source))
            break;
    }
    if (seen == 0)
        return false;
    return give(source, seen, seen, text, len);
}

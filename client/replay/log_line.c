/* log_line.c - a line of the combined log format and its relatives; see log_line.h.
 *
 *   [vhost] address ident user [time] "request" status bytes ["referer" ["agent" [.. "xff"]]]
 *
 * The time's bracket is found first, since a user's name may hold spaces and brackets. In quoted
 * fields nginx writes \xHH, and Apache \" and C's letters; a line without a backslash, as nearly
 * all are, is not copied at all.
 *
 * LOGLINE-4  LOGLINE-1 to LOGLINE-3.
 * LOGLINE-5  Nothing is read at or behind text + len.
 */
#include "client/replay/log_line.h"

#include <string.h>

#include "base/hex.h"
#include "client/replay/log_time.h"

enum { QUOTED_MAX = 64 /* fields behind the bytes that are looked at */ };

struct cursor {
    const char *start;
    const char *at;
    const char *end;
    bool escapes; /* the line holds a backslash somewhere */
    struct log_scratch *scratch;
};

int log_refuse(struct log_problem *problem, size_t column, const char *expected)
{
    *problem = (struct log_problem){column, expected};
    return TG_EINVALID;
}

static int refuse_at(const struct cursor *cursor, struct log_problem *problem, const char *expected)
{
    return log_refuse(problem, (size_t)(cursor->at - cursor->start) + 1, expected);
}

static struct policy_text between(const char *from, const char *to)
{
    const struct policy_text text = {from, (size_t)(to - from)};
    if (text.len == 1 && from[0] == '-')
        return (struct policy_text){from, 0}; /* LOGLINE-2 */
    return text;
}

/* ---- escapes --------------------------------------------------------------------------------- */

/* The byte that the escape at `at` (behind its backslash) stands for; *taken bytes were read. */
static char unescape_one(const char *at, const char *end, size_t *taken)
{
    *taken = 1;
    if (at[0] == 'x' && end - at >= 3 && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0) {
        *taken = 3;
        return (char)(hex_digit(at[1]) << 4 | hex_digit(at[2]));
    }
    switch (at[0]) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    default:
        return at[0]; /* a quote, a backslash, and what nobody writes */
    }
}

/* The text with its escapes resolved, in place of it if it has none. */
static struct policy_text unescape(struct cursor *cursor, struct policy_text text)
{
    struct log_scratch *scratch = cursor->scratch;
    if (!cursor->escapes || text.len == 0 || memchr(text.data, '\\', text.len) == NULL ||
        text.len > sizeof scratch->bytes - scratch->used)
        return text;
    char *const start = scratch->bytes + scratch->used;
    char *out = start;
    const char *const end = text.data + text.len;
    for (const char *at = text.data; at < end;) {
        size_t taken = 1;
        if (*at == '\\' && at + 1 < end) {
            *out++ = unescape_one(at + 1, end, &taken);
            at++;
        } else {
            *out++ = *at;
        }
        at += taken;
    }
    scratch->used += (size_t)(out - start);
    return (struct policy_text){start, (size_t)(out - start)};
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The quote that ends a field whose first byte is `at`, or NULL. */
static const char *closing_quote(const struct cursor *cursor, const char *at)
{
    if (!cursor->escapes)
        return memchr(at, '"', (size_t)(cursor->end - at));
    for (; at < cursor->end; at++) {
        if (*at == '"')
            return at;
        if (*at == '\\')
            at++;
    }
    return NULL;
}

/* The quoted field at the cursor; false if there is none. */
static bool read_quoted(struct cursor *cursor, struct policy_text *out)
{
    if (cursor->at == cursor->end || *cursor->at != '"')
        return false;
    const char *const from = cursor->at + 1;
    const char *const to = closing_quote(cursor, from);
    if (to == NULL)
        return false;
    *out = between(from, to);
    cursor->at = to + 1;
    return true;
}

/* The word at the cursor, up to a space or the end. */
static struct policy_text read_word(struct cursor *cursor)
{
    const char *const from = cursor->at;
    while (cursor->at < cursor->end && *cursor->at != ' ')
        cursor->at++;
    return between(from, cursor->at);
}

static void skip_spaces(struct cursor *cursor)
{
    while (cursor->at < cursor->end && *cursor->at == ' ')
        cursor->at++;
}

/* The bracket that begins the time, or NULL: the last one before the request's quote, for a caller
 * may write brackets into its name, but quotes there are escaped. Without such a quote it is the
 * first one behind a space. */
static const char *find_bracket(const struct cursor *cursor)
{
    const char *at = cursor->at;
    for (const char *quote = at; quote != NULL && quote < cursor->end; quote++) {
        quote = memchr(quote, '"', (size_t)(cursor->end - quote));
        if (quote == NULL)
            break;
        const char *close = quote;
        while (close > at && close[-1] == ' ')
            close--;
        const char *const open =
            close > at && close[-1] == ']' ? memrchr(at, '[', (size_t)(close - at)) : NULL;
        if (close < quote && open != NULL && open > at && open[-1] == ' ')
            return open;
    }
    for (; at < cursor->end; at++) {
        at = memchr(at, '[', (size_t)(cursor->end - at));
        if (at == NULL || (at > cursor->start && at[-1] == ' '))
            return at;
    }
    return NULL;
}

/* `[vhost] address ident user` up to `bracket`. */
static int read_caller(struct cursor *cursor, const char *bracket, struct log_line *out,
                       struct log_problem *problem)
{
    struct cursor part = *cursor;
    part.end = bracket - 1; /* the space before it */
    const char *words[3] = {NULL};
    size_t lens[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        words[i] = part.at;
        (void)read_word(&part);
        lens[i] = (size_t)(part.at - words[i]);
        if (lens[i] == 0)
            return refuse_at(&part, problem, "ADDRESS IDENT USER before the time");
        part.at += part.at < part.end ? 1 : 0;
    }
    const bool four = part.at < part.end;
    const bool vhost = four && !(lens[1] == 1 && words[1][0] == '-');
    const char *const user = vhost ? part.at : words[2];
    if (vhost)
        out->fields[LOG_HOST] = between(words[0], words[0] + lens[0]);
    out->fields[LOG_REMOTE] =
        vhost ? between(words[1], words[1] + lens[1]) : between(words[0], words[0] + lens[0]);
    out->fields[LOG_USER] = unescape(cursor, between(user, part.end));
    return TG_OK;
}

static int read_time(struct cursor *cursor, struct log_line *out, struct log_problem *problem)
{
    cursor->at++;
    const char *const close = memchr(cursor->at, ']', (size_t)(cursor->end - cursor->at));
    if (close == NULL || log_time_clf(cursor->at, (size_t)(close - cursor->at), &out->time_ns) != 0)
        return refuse_at(cursor, problem, "a time such as [21/Nov/2026:12:44:22 +0100]");
    cursor->at = close + 1;
    skip_spaces(cursor);
    return TG_OK;
}

void log_line_request(const char *text, size_t len, struct log_line *out)
{
    const char *const end = text + len;
    const char *const space = memchr(text, ' ', len);
    if (space == NULL || space == text)
        return;
    const char *const target = space + 1;
    const char *last = memrchr(target, ' ', (size_t)(end - target));
    if (last == NULL || end - last < 6 || memcmp(last + 1, "HTTP/", 5) != 0)
        last = NULL; /* HTTP/0.9 has no version */
    out->fields[LOG_METHOD] = between(text, space);
    out->fields[LOG_TARGET] = between(target, last != NULL ? last : end);
    if (last != NULL)
        out->fields[LOG_PROTOCOL] = between(last + 1, end);
}

static bool is_status(struct policy_text text)
{
    return text.len == 3 && text.data[0] >= '1' && text.data[0] <= '9' && text.data[1] >= '0' &&
           text.data[1] <= '9' && text.data[2] >= '0' && text.data[2] <= '9';
}

/* `"request" status bytes`. */
static int read_request(struct cursor *cursor, struct log_line *out, struct log_problem *problem)
{
    struct policy_text request;
    if (!read_quoted(cursor, &request))
        return refuse_at(cursor, problem, "a quoted request such as \"GET / HTTP/1.1\"");
    request = unescape(cursor, request);
    if (request.len > 0)
        log_line_request(request.data, request.len, out);
    skip_spaces(cursor);
    struct cursor before = *cursor;
    out->fields[LOG_STATUS] = read_word(cursor);
    if (!is_status(out->fields[LOG_STATUS]))
        return refuse_at(&before, problem, "a status such as 200 behind the request");
    skip_spaces(cursor);
    out->fields[LOG_BYTES] = read_word(cursor);
    return TG_OK;
}

/* What stands behind the bytes: quoted fields, and words that nothing is known of. */
static int read_rest(struct cursor *cursor, bool want_forwarded, struct log_line *out,
                     struct log_problem *problem)
{
    struct policy_text last = {NULL, 0};
    size_t count = 0;
    for (skip_spaces(cursor); cursor->at < cursor->end && count < QUOTED_MAX; skip_spaces(cursor)) {
        struct policy_text text;
        if (*cursor->at != '"') {
            (void)read_word(cursor);
            continue;
        }
        if (!read_quoted(cursor, &text))
            return refuse_at(cursor, problem, "a quote that ends this field");
        if (count < 2)
            out->fields[count == 0 ? LOG_REFERER : LOG_AGENT] = unescape(cursor, text);
        last = text;
        count++;
    }
    if (count > 2)
        out->fields[LOG_FORWARDED] = unescape(cursor, last);
    if (want_forwarded && count < 3)
        return refuse_at(cursor, problem,
                         "a third quoted field with the addresses of X-Forwarded-For");
    return TG_OK;
}

int log_line_read(const char *text, size_t len, bool want_forwarded, struct log_scratch *scratch,
                  struct log_line *out, struct log_problem *problem)
{
    struct cursor cursor = {text, text, text + len, false, scratch};
    memset(out, 0, sizeof *out);
    if (len == 0)
        return refuse_at(&cursor, problem, "a line");
    cursor.escapes = memchr(text, '\\', len) != NULL;
    const char *const bracket = find_bracket(&cursor);
    if (bracket == NULL)
        return refuse_at(&cursor, problem,
                         "ADDRESS IDENT USER [TIME] \"REQUEST\" STATUS BYTES, or a JSON object");
    if (read_caller(&cursor, bracket, out, problem) != TG_OK)
        return TG_EINVALID;
    cursor.at = bracket;
    if (read_time(&cursor, out, problem) != TG_OK || read_request(&cursor, out, problem) != TG_OK)
        return TG_EINVALID;
    return read_rest(&cursor, want_forwarded, out, problem);
}

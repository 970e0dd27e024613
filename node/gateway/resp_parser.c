/* resp_parser.c - requests by Redis' protocol; resp_parser.h has its two forms and the bounds.
 *
 * The parser keeps nothing between two calls: a request that is not complete is looked at from its
 * beginning when more has come. That costs little, for lengths are announced and what they announce
 * is skipped, not read: some hundred steps for the longest request, whatever its bytes; a line is
 * searched for its end, and is short. In return there is no state that hostile bytes could bring
 * out of step, no allocation, and no copy: arguments are places in the caller's buffer. (Words of a
 * line are copied, for they may be quoted.)
 *
 * hiredis has a reader as well. It reads replies rather than requests: it takes no lines, keeps a
 * buffer of its own and allocates an object for each argument unless told otherwise, and has no
 * bounds on either; what would be left of it is the loop below.
 *
 * RESPPARSER-1  What is returned is at most `len`; nothing behind it was looked at, but for finding
 *               out that the request is not complete.
 * RESPPARSER-2  The same bytes give the same requests, however they are cut into pieces.
 * RESPPARSER-3  An incomplete request has at most RESP_PENDING_MAX bytes: a longer one is refused
 *               before.
 */
#include "node/gateway/resp_parser.h"

#include <stdbool.h>
#include <string.h>

#include "base/hex.h"

enum { TAKEN = 1, INCOMPLETE = 0, WRONG = -1 };
enum { TLS_HANDSHAKE = 0x16 }; /* with which a client that wants TLS begins */

/* As the sentences say. */
static_assert(RESP_ARGUMENTS_MAX == 128 && RESP_COMMAND_LEN_MAX == 65536, "bounds");

/* Reads "NUMBER\r\n" at *at, and moves *at behind it. No sign but '-', no leading zero, few
 * digits. */
static int read_number(const char *data, size_t len, size_t *at, int64_t *value)
{
    size_t i = *at;
    int64_t number = 0;
    const bool negative = i < len && data[i] == '-';
    i += negative;
    const size_t first = i;
    for (; i < len && data[i] >= '0' && data[i] <= '9'; i++) {
        if (i - first == RESP_NUMBER_DIGITS_MAX || (i > first && number == 0))
            return WRONG;
        number = number * 10 + (data[i] - '0');
    }
    if (i == len)
        return INCOMPLETE;
    if (data[i] != '\r' || i == first)
        return WRONG;
    if (i + 1 == len)
        return INCOMPLETE;
    if (data[i + 1] != '\n')
        return WRONG;
    *value = negative ? -number : number;
    *at = i + 2;
    return TAKEN;
}

static int refuse(const char *sentence, const char **error)
{
    *error = sentence;
    return TG_EPROTOCOL;
}

/* One "$LENGTH\r\nBYTES\r\n" at *at. 1, 0, or TG_EPROTOCOL. */
static int read_bulk(const char *data, size_t len, size_t *at, struct wire_text *out,
                     const char **error)
{
    size_t i = *at;
    int64_t bytes;
    if (i == len)
        return INCOMPLETE;
    if (data[i] != '$')
        return refuse("Protocol error: expected '$' before each argument", error);
    i++;
    const int taken = read_number(data, len, &i, &bytes);
    if (taken == INCOMPLETE)
        return INCOMPLETE;
    /* RESPPARSER-3 */
    if (taken == WRONG || bytes < 0 || i + (size_t)bytes + 2 > RESP_COMMAND_LEN_MAX)
        return refuse("Protocol error: invalid bulk length; expected at most 65536 bytes in a "
                      "request",
                      error);
    if (len - i < (size_t)bytes + 2)
        return INCOMPLETE;
    if (data[i + (size_t)bytes] != '\r' || data[i + (size_t)bytes + 1] != '\n')
        return refuse("Protocol error: expected CRLF behind each argument", error);
    *out = (struct wire_text){data + i, (size_t)bytes};
    *at = i + (size_t)bytes + 2;
    return TAKEN;
}

static int parse_array(const char *data, size_t len, struct resp_request *out, const char **error)
{
    size_t at = 1;
    int64_t count;
    const int taken = read_number(data, len, &at, &count);
    if (taken == INCOMPLETE)
        return 0;
    if (taken == WRONG || count > RESP_ARGUMENTS_MAX)
        return refuse("Protocol error: invalid multibulk length; expected at most 128 arguments",
                      error);
    for (uint32_t i = 0; (int64_t)i < count; i++) {
        const int result = read_bulk(data, len, &at, &out->arguments[i], error);
        if (result != TAKEN)
            return result;
    }
    out->count = count > 0 ? (uint32_t)count : 0;
    return (int)at;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A line that is taken apart: words are written without their quotes. */
struct line {
    const char *data;
    size_t len;
    size_t at; /* read up to here */
    char *out;
    size_t used; /* of `out`; never more than was read */
};

static void put(struct line *line, char c)
{
    line->out[line->used++] = c;
}

/* Takes the escape behind a backslash in double quotes. */
static void take_escape(struct line *line)
{
    static const char letters[] = "nrtba";
    static const char meanings[] = "\n\r\t\b\a";
    const char *text = line->data + line->at;
    if (text[0] == 'x' && line->len - line->at > 2 && hex_digit(text[1]) >= 0 &&
        hex_digit(text[2]) >= 0) {
        put(line, (char)(hex_digit(text[1]) * 16 + hex_digit(text[2])));
        line->at += 3;
        return;
    }
    const char *found = text[0] != '\0' ? strchr(letters, text[0]) : NULL;
    put(line, found != NULL ? meanings[found - letters] : text[0]);
    line->at++;
}

/* Takes the rest of a quoted piece, behind its opening `quote`. False if it does not end, or
 * something other than a blank follows its end. */
static bool take_quoted(struct line *line, char quote)
{
    while (line->at < line->len) {
        const char c = line->data[line->at++];
        if (c == quote)
            return line->at == line->len || is_blank(line->data[line->at]);
        if (c != '\\' || line->at == line->len)
            put(line, c);
        else if (quote == '"')
            take_escape(line);
        else if (line->data[line->at] == '\'')
            put(line, line->data[line->at++]);
        else
            put(line, c);
    }
    return false;
}

/* Takes one word, which begins at line->at. */
static bool take_word(struct line *line)
{
    while (line->at < line->len && !is_blank(line->data[line->at])) {
        const char c = line->data[line->at++];
        if (c == '"' || c == '\'')
            return take_quoted(line, c);
        put(line, c);
    }
    return true;
}

/* Whether the line is of a POST, or of its head: a web page can make its reader's browser send one
 * here, with requests in its body. */
static bool is_http(const char *data, size_t len)
{
    static const char *const begins[] = {"POST ", "Host:", "host:"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (len >= 5 && memcmp(data, begins[i], 5) == 0)
            return true;
    return false;
}

static int parse_line(const char *data, size_t len, struct resp_request *out, const char **error)
{
    if (data[0] == TLS_HANDSHAKE) /* there may never be a newline */
        return refuse("Protocol error: TLS is not spoken here", error);
    const size_t searched = len < RESP_INLINE_MAX ? len : RESP_INLINE_MAX;
    const char *newline = memchr(data, '\n', searched);
    if (newline == NULL)
        return len < RESP_INLINE_MAX ? 0 : refuse("Protocol error: too big inline request", error);
    if (is_http(data, (size_t)(newline - data)))
        return refuse("Protocol error: HTTP is not spoken here", error);
    struct line line = {.data = data, .len = (size_t)(newline - data), .out = out->words};
    out->count = 0;
    while (true) {
        while (line.at < line.len && is_blank(data[line.at]))
            line.at++;
        if (line.at == line.len)
            return (int)line.len + 1;
        if (out->count == RESP_ARGUMENTS_MAX)
            return refuse("Protocol error: too many words in an inline request", error);
        const size_t first = line.used;
        if (!take_word(&line))
            return refuse("Protocol error: unbalanced quotes in request", error);
        out->arguments[out->count++] = (struct wire_text){out->words + first, line.used - first};
    }
}

int resp_parse(const char *data, size_t len, struct resp_request *out, const char **error)
{
    if (len == 0)
        return 0;
    return data[0] == '*' ? parse_array(data, len, out, error) : parse_line(data, len, out, error);
}

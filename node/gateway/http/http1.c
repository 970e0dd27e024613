/* http1.c - requests of HTTP/1.1; http1.h has the grammar and the bounds.
 *
 * The parser reads a head line by line, from its beginning whenever a line more has come; for the
 * views it gives are not kept between two calls, and a head is short. What is long, a body, is not
 * read again: progress tells where it goes on.
 *
 *   INCOMPLETE head --"\r\n\r\n"--> head_len --Content-Length bytes, or the last chunk--> taken
 *
 * Rules are looked at in the order of the bytes, so that the first one that is broken decides the
 * status, however the bytes are cut. What a head means as a whole comes when it is complete.
 *
 * HTTP1-1  What is returned is at most `len`; nothing behind it was looked at, but for finding out
 *          that the request is not complete.
 * HTTP1-2  The same bytes give the same requests, and the same refusal, however they are cut.
 * HTTP1-3  An incomplete request has at most HTTP1_PENDING_MAX bytes: a longer one is refused
 *          before.
 * HTTP1-4  A request has one reading: its length is told in one way, once, and its host as well.
 */
#include "node/gateway/http/http1.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"

enum { TAKEN = 1, INCOMPLETE = 0 };
enum { SIZE_DIGITS_MAX = 8, PORT_DIGITS_MAX = 5, CRLF = 2 };

/* As the sentences say. */
static_assert(HTTP1_HEAD_MAX == 16384 && HTTP1_HEADERS_MAX == 100 && HTTP1_TARGET_MAX == 8192 &&
                  HTTP1_METHOD_MAX == 32 && HTTP1_BODY_MAX == 1048576 &&
                  HTTP1_FRAMING_MAX == 131072 && HTTP1_TRAILER_MAX == 8192,
              "bounds");

static const char *const method_names[HTTP1_METHODS] = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", ""};

const char *http1_method_name(enum http1_method method)
{
    ASSERT(method < HTTP1_METHODS);
    return method_names[method];
}

static int refuse(struct http1_refusal *refusal, uint16_t status, const char *detail)
{
    *refusal = (struct http1_refusal){status, detail};
    return TG_EPROTOCOL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

/* The characters of a word: letters, digits and "!#$%&'*+-.^_`|~", a bit for each. */
static const uint64_t token_bits[4] = {UINT64_C(0x3ff6cfa00000000), UINT64_C(0x57ffffffc7fffffe)};

static bool is_token(struct wire_text text)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        if ((token_bits[c >> 6] >> (c & 63) & 1) == 0)
            return false;
    }
    return text.len > 0;
}

/* Whether the text has no control character but tabs. */
static bool is_value(struct wire_text text)
{
    unsigned bad = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        bad |= (unsigned)(c < 0x20) & (unsigned)(c != '\t');
        bad |= (unsigned)(c == 0x7f);
    }
    return bad == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct wire_text trim(struct wire_text text)
{
    while (text.len > 0 && is_blank(text.data[0]))
        text = (struct wire_text){text.data + 1, text.len - 1};
    while (text.len > 0 && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

bool http1_same(struct wire_text a, struct wire_text b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    return true;
}

/* A constant as a text. */
#define LITERAL(literal)                                                                           \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }
#define IS_WORD(text, literal) http1_same((text), (struct wire_text)LITERAL(literal))

uint32_t http1_count(const struct http1_request *request, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < request->header_count; i++)
        count += http1_same(request->headers[i].name, wire_text_of(name));
    return count;
}

const struct wire_text *http1_header(const struct http1_request *request, const char *name)
{
    const struct wire_text wanted = wire_text_of(name);
    for (uint32_t i = 0; i < request->header_count; i++)
        if (http1_same(request->headers[i].name, wanted))
            return &request->headers[i].value;
    return NULL;
}

/* The line that begins at *at, without its end, behind which *at is moved. */
static int take_line(const char *data, size_t len, size_t *at, struct wire_text *line,
                     struct http1_refusal *refusal)
{
    const char *newline = memchr(data + *at, '\n', len - *at);
    if (newline == NULL)
        return INCOMPLETE;
    const size_t end = (size_t)(newline - data);
    if (end == *at || data[end - 1] != '\r')
        return refuse(refusal, 400, "a line ends with LF alone; expected CRLF");
    *line = (struct wire_text){data + *at, end - 1 - *at};
    *at = end + 1;
    return TAKEN;
}

/* ---- the request line ------------------------------------------------------------------------ */

static const uint8_t method_lens[HTTP1_METHODS] = {3, 4, 4, 3, 5, 6, 7, 5, 7, 0};

static enum http1_method find_method(struct wire_text name)
{
    for (unsigned i = 0; i < HTTP1_EXTENSION; i++)
        if (name.len == method_lens[i] && memcmp(name.data, method_names[i], name.len) == 0)
            return (enum http1_method)i;
    return HTTP1_EXTENSION;
}

static int parse_version(struct wire_text version, uint8_t *minor, struct http1_refusal *refusal)
{
    if (version.len != 8 || memcmp(version.data, "HTTP/", 5) != 0 || !is_digit(version.data[5]) ||
        version.data[6] != '.' || !is_digit(version.data[7]))
        return refuse(refusal, 400, "the first line ends with no version; expected HTTP/1.1");
    if (version.data[5] != '1' || version.data[7] > '1')
        return refuse(refusal, 505, "expected HTTP/1.1 or HTTP/1.0");
    *minor = (uint8_t)(version.data[7] - '0');
    return TAKEN;
}

static bool is_target(struct wire_text text)
{
    unsigned bad = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        bad |= (unsigned)(c <= 0x20) | (unsigned)(c >= 0x7f) | (unsigned)(c == '#');
    }
    return bad == 0 && text.len > 0;
}

static int parse_first_line(struct wire_text line, struct http1_request *out,
                            struct http1_refusal *refusal)
{
    const char *end = line.data + line.len;
    const char *first = memchr(line.data, ' ', line.len);
    if (first == NULL)
        return refuse(refusal, 400, "the first line has no blank; expected METHOD TARGET HTTP/1.1");
    out->method_name = (struct wire_text){line.data, (size_t)(first - line.data)};
    if (!is_token(out->method_name))
        return refuse(refusal, 400, "the method is no word");
    const char *second = memchr(first + 1, ' ', (size_t)(end - first) - 1);
    const char *behind = second != NULL ? second : end;
    out->target = (struct wire_text){first + 1, (size_t)(behind - first) - 1};
    if (out->target.len > HTTP1_TARGET_MAX)
        return refuse(refusal, 414, "the target has more than 8192 bytes");
    if (!is_target(out->target))
        return refuse(refusal, 400,
                      "the target is empty, or has a byte that is not printable ASCII, or a '#'");
    if (second == NULL)
        return refuse(refusal, 505, "found HTTP/0.9; expected HTTP/1.1 or HTTP/1.0");
    const struct wire_text version = {second + 1, (size_t)(end - second) - 1};
    const int result = parse_version(version, &out->minor, refusal);
    if (result == TAKEN && out->method_name.len > HTTP1_METHOD_MAX)
        return refuse(refusal, 501, "the method has more than 32 bytes");
    out->method = find_method(out->method_name);
    return result;
}

/* ---- header lines ---------------------------------------------------------------------------- */

/* Headers of which there is one at most. */
static const struct single {
    struct wire_text name;
    size_t offset; /* in struct http1_request, of a text */
} singles[] = {
    {LITERAL("host"), offsetof(struct http1_request, host)},
    {LITERAL("origin"), offsetof(struct http1_request, origin)},
    {LITERAL("expect"), offsetof(struct http1_request, expect)},
    {LITERAL("content-type"), offsetof(struct http1_request, content_type)},
    {LITERAL("content-length"), offsetof(struct http1_request, content_length)},
    {LITERAL("sec-fetch-site"), offsetof(struct http1_request, fetch_site)},
    {LITERAL("content-encoding"), offsetof(struct http1_request, encoding)},
    {LITERAL("transfer-encoding"), offsetof(struct http1_request, transfer)},
};

/* Words of Connection: of others than these two nothing is known here. */
static void note_connection(struct wire_text value, struct http1_request *out)
{
    while (value.len > 0) {
        const char *comma = memchr(value.data, ',', value.len);
        const size_t len = comma != NULL ? (size_t)(comma - value.data) : value.len;
        const struct wire_text word = trim((struct wire_text){value.data, len});
        out->closes = out->closes || IS_WORD(word, "close");
        out->keeps = out->keeps || IS_WORD(word, "keep-alive");
        const size_t used = len + (comma != NULL);
        value = (struct wire_text){value.data + used, value.len - used};
    }
}

static int note_header(const struct http1_header *header, struct http1_request *out,
                       struct http1_refusal *refusal)
{
    if (IS_WORD(header->name, "connection")) {
        note_connection(header->value, out);
        return TAKEN;
    }
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        if (!http1_same(header->name, singles[i].name))
            continue;
        struct wire_text *text = (void *)((char *)out + singles[i].offset);
        if (text->data != NULL) /* HTTP1-4 */
            return refuse(refusal, 400, "found a header twice that can be there once only");
        *text = header->value;
        break;
    }
    return TAKEN;
}

static int parse_header(struct wire_text line, struct http1_request *out,
                        struct http1_refusal *refusal)
{
    if (is_blank(line.data[0]))
        return refuse(refusal, 400, "a header begins with a blank: folded lines are not taken");
    const char *colon = memchr(line.data, ':', line.len);
    if (colon == NULL)
        return refuse(refusal, 400, "a header has no colon");
    const struct wire_text name = {line.data, (size_t)(colon - line.data)};
    const struct wire_text rest = {colon + 1, line.len - name.len - 1};
    if (!is_token(name))
        return refuse(refusal, 400, "a header's name is no word, or there is a blank behind it");
    if (!is_value(rest))
        return refuse(refusal, 400, "a header's value has a control character");
    if (out->header_count == HTTP1_HEADERS_MAX)
        return refuse(refusal, 431, "more than 100 headers");
    struct http1_header *header = &out->headers[out->header_count++];
    *header = (struct http1_header){name, trim(rest)};
    return note_header(header, out, refusal);
}

/* ---- what a head means ----------------------------------------------------------------------- */

/* Whether the text is a host, of letters, digits and "-._", or an IPv6 address in brackets, with or
 * without a port. */
static bool is_host(struct wire_text text)
{
    size_t at = 0;
    if (text.len > 0 && text.data[0] == '[') {
        for (at = 1; at < text.len && text.data[at] != ']'; at++)
            if (hex_digit(text.data[at]) < 0 && text.data[at] != ':' && text.data[at] != '.')
                return false;
        if (at < 3 || at == text.len)
            return false;
        at++;
    } else {
        while (at < text.len &&
               (is_letter(text.data[at]) || is_digit(text.data[at]) || text.data[at] == '-' ||
                text.data[at] == '.' || text.data[at] == '_'))
            at++;
    }
    if (at == 0 || at == text.len)
        return at > 0;
    const struct wire_text port = {text.data + at + 1, text.len - at - 1};
    uint32_t number = 0;
    for (size_t i = 0; i < port.len && i <= PORT_DIGITS_MAX; i++) {
        if (!is_digit(port.data[i]))
            return false;
        number = number * 10 + (uint32_t)(port.data[i] - '0');
    }
    return text.data[at] == ':' && port.len > 0 && port.len <= PORT_DIGITS_MAX &&
           number <= UINT16_MAX;
}

/* The length of "http://" or "https://" that the text begins with, or 0. */
static size_t scheme_of(struct wire_text text)
{
    static const struct wire_text schemes[] = {LITERAL("http://"), LITERAL("https://")};
    for (size_t i = 0; i < 2; i++) {
        const size_t len = schemes[i].len;
        if (text.len > len && http1_same((struct wire_text){text.data, len}, schemes[i]))
            return len;
    }
    return 0;
}

static void split(struct wire_text target, struct http1_request *out)
{
    const char *mark = memchr(target.data, '?', target.len);
    out->path = target;
    if (mark == NULL)
        return;
    out->path.len = (size_t)(mark - target.data);
    out->query = (struct wire_text){mark + 1, target.len - out->path.len - 1};
    if (out->path.len == 0)
        out->path = wire_text_of("/"); /* of "http://host?query" */
}

/* "http://host/path", as clients of proxies write it. Its host and the header's are the same. */
static int read_absolute(struct wire_text target, size_t scheme, struct http1_request *out,
                         struct http1_refusal *refusal)
{
    size_t end = scheme;
    while (end < target.len && target.data[end] != '/' && target.data[end] != '?')
        end++;
    const struct wire_text host = {target.data + scheme, end - scheme};
    if (!is_host(host) || (out->host.data != NULL && !http1_same(host, out->host)))
        return refuse(refusal, 400, "the target's host is none, or another one than Host says");
    out->host = host;
    if (end == target.len)
        out->path = wire_text_of("/");
    else
        split((struct wire_text){target.data + end, target.len - end}, out);
    return TAKEN;
}

static int read_target(struct http1_request *out, struct http1_refusal *refusal)
{
    const struct wire_text target = out->target;
    const bool star = target.len == 1 && target.data[0] == '*';
    out->path = target;
    if (out->method == HTTP1_CONNECT)
        return is_host(target)
                   ? TAKEN
                   : refuse(refusal, 400, "expected HOST:PORT as the target of CONNECT");
    if (target.data[0] == '/') {
        split(target, out);
        return TAKEN;
    }
    if (star && out->method == HTTP1_OPTIONS)
        return TAKEN;
    const size_t scheme = scheme_of(target);
    if (scheme > 0)
        return read_absolute(target, scheme, out, refusal);
    return refuse(refusal, 400, "the target has no form that its method takes; expected /PATH");
}

/* HTTP1-4: how long the body is, in *length unless it is chunked. */
static int read_framing(const struct http1_request *out, size_t *length, bool *chunked,
                        struct http1_refusal *refusal)
{
    const struct wire_text digits = out->content_length;
    size_t number = 0;
    *chunked = out->transfer.data != NULL;
    *length = 0;
    if (*chunked && digits.data != NULL)
        return refuse(refusal, 400, "found Content-Length and Transfer-Encoding; expected one");
    if (*chunked && out->minor == 0)
        return refuse(refusal, 400, "found Transfer-Encoding in HTTP/1.0");
    if (*chunked)
        return IS_WORD(out->transfer, "chunked")
                   ? TAKEN
                   : refuse(refusal, 400, "expected Transfer-Encoding: chunked, and no other one");
    if (digits.data == NULL)
        return TAKEN;
    for (size_t i = 0; i < digits.len; i++) {
        if (!is_digit(digits.data[i]))
            return refuse(refusal, 400, "expected digits alone as Content-Length");
        number = number * 10 + (size_t)(digits.data[i] - '0');
        number = number < HTTP1_BODY_MAX + 1 ? number : HTTP1_BODY_MAX + 1;
    }
    if (digits.len == 0)
        return refuse(refusal, 400, "expected digits alone as Content-Length");
    if (number > HTTP1_BODY_MAX)
        return refuse(refusal, 413, "the body has more than 1048576 bytes");
    *length = number;
    return TAKEN;
}

static int read_meaning(struct http1_request *out, size_t *length, bool *chunked,
                        struct http1_refusal *refusal)
{
    if (out->host.data == NULL && out->minor > 0)
        return refuse(refusal, 400, "found no Host");
    if (out->host.data != NULL && !is_host(out->host))
        return refuse(refusal, 400, "Host is none; expected a name or address, with :PORT or not");
    if (out->expect.data != NULL && out->minor > 0) {
        if (!IS_WORD(out->expect, "100-continue"))
            return refuse(refusal, 417, "expected no other expectation than 100-continue");
        out->continues = true;
    }
    out->keep_alive = !out->closes && (out->minor > 0 || out->keeps);
    const int result = read_target(out, refusal);
    return result == TAKEN ? read_framing(out, length, chunked, refusal) : result;
}

/* ---- the head -------------------------------------------------------------------------------- */

static void clear(struct http1_request *out)
{
    memset(out, 0, offsetof(struct http1_request, headers));
}

/* All lines of the head; *at is behind them then. */
static int parse_lines(const char *data, size_t len, size_t *at, struct http1_request *out,
                       struct http1_refusal *refusal)
{
    struct wire_text line;
    int result = take_line(data, len, at, &line, refusal);
    if (result == INCOMPLETE && len == HTTP1_HEAD_MAX)
        return refuse(refusal, 414, "the target has more than 8192 bytes");
    if (result == TAKEN)
        result = parse_first_line(line, out, refusal);
    while (result == TAKEN) {
        result = take_line(data, len, at, &line, refusal);
        if (result == INCOMPLETE && len == HTTP1_HEAD_MAX)
            return refuse(refusal, 431, "the head has more than 16384 bytes");
        if (result == TAKEN && line.len == 0)
            return TAKEN;
        if (result == TAKEN)
            result = parse_header(line, out, refusal);
    }
    return result;
}

/* The head; the length of the body in *length unless it is *chunked. */
static int parse_head(const char *data, size_t len, struct http1_request *out, size_t *length,
                      bool *chunked, struct http1_refusal *refusal)
{
    const size_t window = len < HTTP1_HEAD_MAX ? len : HTTP1_HEAD_MAX;
    size_t at = 0;
    clear(out);
    if (window >= CRLF && memcmp(data, "\r\n", CRLF) == 0)
        at = CRLF; /* some send it behind a body */
    else if (window == 1 && data[0] == '\r')
        return INCOMPLETE;
    if (at < window && !is_token((struct wire_text){data + at, 1}))
        return refuse(refusal, 400, "the first line begins with no method");
    int result = parse_lines(data, window, &at, out, refusal);
    if (result == TAKEN)
        result = read_meaning(out, length, chunked, refusal);
    if (result == TAKEN)
        out->head_len = (uint32_t)at;
    return result;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* "SIZE" or "SIZE;extensions" */
static int parse_size(struct wire_text line, size_t *size, struct http1_refusal *refusal)
{
    size_t digits = 0;
    size_t number = 0;
    while (digits < line.len && digits < SIZE_DIGITS_MAX && hex_digit(line.data[digits]) >= 0)
        number = number << 4 | (size_t)hex_digit(line.data[digits++]);
    if (digits == 0 || (digits < line.len && line.data[digits] != ';'))
        return refuse(refusal, 400, "a chunk's size is not 1 to 8 hexadecimal digits");
    if (!is_value((struct wire_text){line.data + digits, line.len - digits}))
        return refuse(refusal, 400, "a chunk's extension has a control character");
    *size = number;
    return TAKEN;
}

/* The line of a chunk's size at *at. */
static int take_size(const char *data, size_t len, size_t *at, size_t *size,
                     struct http1_refusal *refusal)
{
    struct wire_text line;
    const size_t most = *at + HTTP1_CHUNK_LINE_MAX + CRLF;
    const int result = take_line(data, len < most ? len : most, at, &line, refusal);
    if (result == INCOMPLETE && len >= most)
        return refuse(refusal, 400, "a chunk's extensions have more than 256 bytes");
    return result == TAKEN ? parse_size(line, size, refusal) : result;
}

/* Goes behind the chunk at progress->at. */
static int skip_chunk(struct http1_progress *progress, const char *data, size_t len,
                      struct http1_refusal *refusal)
{
    size_t at = progress->at;
    size_t size = 0;
    const int result = take_size(data, len, &at, &size, refusal);
    if (result != TAKEN)
        return result;
    const size_t framing = at - progress->at + (size > 0 ? CRLF : 0);
    if (progress->framing + framing > HTTP1_FRAMING_MAX - HTTP1_TRAILER_MAX)
        return refuse(refusal, 400, "the chunks have more than 122880 bytes beside their content");
    if (size > HTTP1_BODY_MAX - progress->content)
        return refuse(refusal, 413, "the body has more than 1048576 bytes");
    if (size > 0) {
        if (len - at < size + CRLF)
            return INCOMPLETE;
        if (memcmp(data + at + size, "\r\n", CRLF) != 0)
            return refuse(refusal, 400, "a chunk does not end where its size says");
        at += size + CRLF;
        progress->chunks++;
    }
    progress->ended = size == 0;
    progress->framing += (uint32_t)framing;
    progress->content += (uint32_t)size;
    progress->at = (uint32_t)at;
    return TAKEN;
}

/* Goes behind the lines that follow the last chunk, of which nothing is used. */
static int skip_trailer(struct http1_progress *progress, const char *data, size_t len,
                        struct http1_refusal *refusal)
{
    static const char too_long[] = "the lines behind the last chunk have more than 8192 bytes";
    while (true) {
        struct wire_text line;
        size_t at = progress->at;
        const size_t left = HTTP1_TRAILER_MAX - progress->trailer;
        const size_t most = at + left;
        const int result = take_line(data, len < most ? len : most, &at, &line, refusal);
        if (result == INCOMPLETE && len >= most)
            return refuse(refusal, 431, too_long);
        if (result != TAKEN)
            return result;
        progress->trailer += (uint32_t)(at - progress->at);
        progress->at = (uint32_t)at;
        if (line.len == 0)
            return TAKEN;
        if (is_blank(line.data[0]) || memchr(line.data, ':', line.len) == NULL || !is_value(line))
            return refuse(refusal, 400, "a line behind the last chunk is no header");
    }
}

static int skip_chunks(struct http1_progress *progress, const char *data, size_t len,
                       struct http1_refusal *refusal)
{
    int result = TAKEN;
    while (result == TAKEN && !progress->ended)
        result = skip_chunk(progress, data, len, refusal);
    return result == TAKEN ? skip_trailer(progress, data, len, refusal) : result;
}

/* The content of chunks that skip_chunks has seen: where it is, if there is one, else in `room`. */
static struct wire_text join_chunks(const struct http1_progress *progress, const char *data,
                                    char *room)
{
    struct http1_refusal ignored;
    struct wire_text body = {room, 0};
    size_t at = progress->head_len;
    for (uint32_t i = 0; i < progress->chunks; i++) {
        size_t size = 0;
        const int result = take_size(data, progress->at, &at, &size, &ignored);
        ASSERT(result == TAKEN && size <= HTTP1_BODY_MAX - body.len);
        if (progress->chunks == 1)
            return (struct wire_text){data + at, size};
        memcpy(room + body.len, data + at, size);
        body.len += size;
        at += size + CRLF;
    }
    return body;
}

/* ---- a request ------------------------------------------------------------------------------- */

/* Whether nothing has come that ends a line of the head, since it was looked at, its first byte
 * included, which may be behind an empty line. */
static bool nothing_new(const struct http1_progress *progress, const char *data, size_t len)
{
    return progress->searched > CRLF && progress->searched <= len && len < HTTP1_HEAD_MAX &&
           memchr(data + progress->searched, '\n', len - progress->searched) == NULL;
}

/* Looks at the head if it was not complete so far. */
static int look_at_head(struct http1_progress *progress, const char *data, size_t len,
                        struct http1_request *out, struct http1_refusal *refusal)
{
    size_t length;
    bool chunked;
    if (progress->head_len > 0)
        return TAKEN;
    const int result = nothing_new(progress, data, len)
                           ? INCOMPLETE
                           : parse_head(data, len, out, &length, &chunked, refusal);
    progress->searched = result == INCOMPLETE ? (uint32_t)len : 0; /* HTTP1-2 */
    if (result != TAKEN)
        return result;
    progress->head_len = out->head_len;
    progress->chunked = chunked;
    progress->at = out->head_len + (chunked ? 0 : (uint32_t)length);
    return TAKEN;
}

int http1_parse(struct http1_progress *progress, const char *data, size_t len, char *room,
                struct http1_request *out, struct http1_refusal *refusal)
{
    const bool looked = progress->head_len > 0;
    size_t length;
    bool chunked;
    out->head_len = 0;
    out->need = 0;
    if (len == 0)
        return 0;
    int result = look_at_head(progress, data, len, out, refusal);
    if (result != TAKEN) {
        out->head_len = 0;
        return result;
    }
    if (progress->chunked)
        result = skip_chunks(progress, data, len, refusal);
    else
        result = len >= progress->at ? TAKEN : INCOMPLETE;
    if (result == INCOMPLETE)
        out->need = progress->chunked ? 0 : progress->at;
    if (result != TAKEN)
        return result;
    if (looked) {
        result = parse_head(data, progress->head_len, out, &length, &chunked, refusal);
        ASSERT(result == TAKEN); /* HTTP1-2 */
    }
    out->body = progress->chunked ? join_chunks(progress, data, room)
                                  : (struct wire_text){data + progress->head_len,
                                                       progress->at - progress->head_len};
    out->continues = false;
    out->need = progress->at;
    *progress = (struct http1_progress){.searched = 0};
    ASSERT(out->need <= len && out->need <= HTTP1_PENDING_MAX); /* HTTP1-1, HTTP1-3 */
    return (int)out->need;
}

/* http_reply.c - responses as bytes; http_reply.h has the order of calls.
 *
 *   HTTP/1.1 429 Too Many Requests | Date | Cache-Control | headers ... | Connection | Content-Type
 *   | Content-Length: ------- | CRLF CRLF | body
 *
 * The length is known at the end. Its digits are written then, into room for LENGTH_DIGITS of them,
 * and the body moves up to them; so nothing is written twice.
 *
 * HTTPREPLY-1  Nothing is written beyond `limit`.
 * HTTPREPLY-2  No byte of a caller's text ends a line of the head, or a string of JSON.
 * HTTPREPLY-3  A response has exactly the bytes that its Content-Length tells; to HEAD, none.
 */
#include "node/gateway/http/http_reply.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { LENGTH_DIGITS = 8, DIGITS_MAX = 20, S_PER_DAY = 86400 };

static const struct phrase {
    uint16_t status;
    const char *text; /* as the status line has it */
} phrases[] = {
    {200, "200 OK"},
    {201, "201 Created"},
    {202, "202 Accepted"},
    {204, "204 No Content"},
    {304, "304 Not Modified"},
    {307, "307 Temporary Redirect"},
    {400, "400 Bad Request"},
    {401, "401 Unauthorized"},
    {403, "403 Forbidden"},
    {404, "404 Not Found"},
    {405, "405 Method Not Allowed"},
    {406, "406 Not Acceptable"},
    {408, "408 Request Timeout"},
    {409, "409 Conflict"},
    {412, "412 Precondition Failed"},
    {413, "413 Content Too Large"},
    {414, "414 URI Too Long"},
    {415, "415 Unsupported Media Type"},
    {417, "417 Expectation Failed"},
    {421, "421 Misdirected Request"},
    {422, "422 Unprocessable Content"},
    {428, "428 Precondition Required"},
    {429, "429 Too Many Requests"},
    {431, "431 Request Header Fields Too Large"},
    {500, "500 Internal Server Error"},
    {501, "501 Not Implemented"},
    {503, "503 Service Unavailable"},
    {504, "504 Gateway Timeout"},
    {505, "505 HTTP Version Not Supported"},
};

/* "404 Not Found"; a status that is not known has no phrase. */
static const char *line_of(unsigned status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status)
            return phrases[i].text;
    return NULL;
}

const char *http_phrase(unsigned status)
{
    const char *line = line_of(status);
    return line != NULL ? line + 4 : "";
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Room for `need` bytes, or NULL (HTTPREPLY-1). */
static char *reserve(struct http_reply *reply, size_t need)
{
    struct gateway_out *out = reply->out;
    if (reply->failed || reply->limit - out->len < need) {
        reply->failed = true;
        return NULL;
    }
    return out->data + out->len;
}

#define PUT(reply, literal) http_put((reply), (literal), sizeof(literal) - 1)

void http_put_unsigned(struct http_reply *reply, uint64_t value)
{
    char digits[DIGITS_MAX];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    http_put(reply, digits + at, sizeof digits - at);
}

void http_put_integer(struct http_reply *reply, int64_t value)
{
    if (value < 0)
        PUT(reply, "-");
    http_put_unsigned(reply, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* One byte that a string of JSON cannot have as it is (HTTPREPLY-2). */
static void put_escaped(struct http_reply *reply, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    if (c == '"' || c == '\\') {
        text[1] = (char)c;
        http_put(reply, text, 2);
    } else {
        http_put(reply, text, sizeof text);
    }
}

void http_put_string(struct http_reply *reply, struct wire_text text)
{
    const unsigned char *bytes = (const unsigned char *)text.data;
    size_t at = 0;
    PUT(reply, "\"");
    while (at < text.len) {
        size_t end = at;
        while (end < text.len && bytes[end] >= 0x20 && bytes[end] < 0x7f && bytes[end] != '"' &&
               bytes[end] != '\\')
            end++;
        http_put(reply, bytes + at, end - at);
        at = end;
        if (at == text.len)
            break;
        if (bytes[at] < 0x80) {
            put_escaped(reply, bytes[at++]);
            continue;
        }
        const size_t len = utf8_len(text.data + at, text.len - at);
        if (len > 0)
            http_put(reply, bytes + at, len);
        else
            PUT(reply, "\xef\xbf\xbd");
        at += len > 0 ? len : 1;
    }
    PUT(reply, "\"");
}

/* ---- the head -------------------------------------------------------------------------------- */

void http_reply_init(struct http_reply *reply, struct gateway_out *out, size_t room,
                     struct http_form form, const char *date)
{
    ASSERT(room <= out->capacity - out->len);
    *reply = (struct http_reply){
        .out = out, .date = date, .start = out->len, .limit = out->len + room, .form = form};
}

void http_reply_undo(struct http_reply *reply)
{
    reply->out->len = reply->start;
    reply->status = 0;
    reply->body_at = 0;
    reply->done = reply->failed = false;
}

void http_reply_begin(struct http_reply *reply, unsigned status)
{
    http_reply_undo(reply);
    ASSERT(status >= 200 && status <= 599);
    reply->status = (uint16_t)status;
    const char *line = line_of(status);
    PUT(reply, "HTTP/1.1 ");
    if (line != NULL) {
        http_put_text(reply, line);
    } else { /* one of a rule: it may be any */
        http_put_unsigned(reply, status);
        PUT(reply, " ");
    }
    PUT(reply, "\r\nDate: ");
    http_put(reply, reply->date, HTTP_DATE_LEN - 1);
    PUT(reply, "\r\nCache-Control: no-store\r\n");
    if (reply->form.closes)
        PUT(reply, "Connection: close\r\n");
    else if (reply->form.keeps)
        PUT(reply, "Connection: keep-alive\r\n");
}

void http_reply_header_text(struct http_reply *reply, const char *name, struct wire_text value)
{
    http_reply_header_open(reply, name);
    char *to = reserve(reply, value.len + 2);
    if (to == NULL)
        return;
    for (size_t i = 0; i < value.len; i++) { /* HTTPREPLY-2 */
        const unsigned char c = (unsigned char)value.data[i];
        to[i] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    memcpy(to + value.len, "\r\n", 2);
    reply->out->len += value.len + 2;
}

void http_reply_header(struct http_reply *reply, const char *name, const char *value)
{
    http_reply_header_text(reply, name, wire_text_of(value));
}

void http_reply_header_open(struct http_reply *reply, const char *name)
{
    ASSERT(reply->status != 0 && reply->body_at == 0);
    http_put_text(reply, name);
    PUT(reply, ": ");
}

void http_reply_header_close(struct http_reply *reply)
{
    PUT(reply, "\r\n");
}

void http_reply_header_integer(struct http_reply *reply, const char *name, uint64_t value)
{
    http_reply_header_open(reply, name);
    http_put_unsigned(reply, value);
    http_reply_header_close(reply);
}

void http_reply_body(struct http_reply *reply, const char *type)
{
    ASSERT(reply->status != 0 && reply->body_at == 0);
    PUT(reply, "Content-Type: ");
    http_put_text(reply, type);
    PUT(reply, "\r\nContent-Length: ");
    reply->length_at = reply->out->len;
    PUT(reply, "00000000\r\n\r\n");
    reply->body_at = reply->out->len;
}

/* Writes the length of the body, and moves the body up to it. */
static void put_length(struct http_reply *reply)
{
    struct gateway_out *out = reply->out;
    const size_t len = out->len - reply->body_at;
    const size_t body_at = reply->body_at;
    out->len = reply->length_at;
    http_put_unsigned(reply, len);
    PUT(reply, "\r\n\r\n");
    ASSERT(out->len <= body_at);
    if (reply->form.head)
        return; /* HTTPREPLY-3 */
    if (out->len < body_at)
        memmove(out->data + out->len, out->data + body_at, len);
    out->len += len;
}

void http_reply_end(struct http_reply *reply)
{
    ASSERT(reply->status != 0 && !reply->done);
    if (reply->failed)
        return;
    if (reply->body_at != 0)
        put_length(reply);
    else if (reply->status == 204 || reply->status == 304)
        PUT(reply, "\r\n"); /* these have no length */
    else
        PUT(reply, "Content-Length: 0\r\n\r\n");
    reply->done = !reply->failed;
}

/* ---- what is wrong --------------------------------------------------------------------------- */

void http_problem_body(struct http_reply *reply, const char *type, struct wire_text detail)
{
    http_reply_body(reply, "application/problem+json");
    PUT(reply, "{\"type\":");
    http_put_string(reply, wire_text_of(type != NULL ? type : "about:blank"));
    PUT(reply, ",\"title\":");
    http_put_string(reply, wire_text_of(http_phrase(reply->status)));
    PUT(reply, ",\"status\":");
    http_put_unsigned(reply, reply->status);
    PUT(reply, ",\"detail\":");
    http_put_string(reply, detail);
}

void http_problem_end(struct http_reply *reply)
{
    PUT(reply, "}\n");
    http_reply_end(reply);
}

void http_problem(struct http_reply *reply, unsigned status, const char *detail)
{
    http_reply_begin(reply, status);
    http_problem_body(reply, NULL, wire_text_of(detail));
    http_problem_end(reply);
}

void http_problem_busy(struct http_reply *reply, const char *detail)
{
    http_reply_begin(reply, 503);
    http_reply_header(reply, "Retry-After", "1");
    http_problem_body(reply,
                      "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                      wire_text_of(detail));
    http_problem_end(reply);
}

unsigned http_status_of(int code)
{
    switch (code) {
    case TG_EINVALID:
    case TG_EPROTOCOL:
    case TG_EVERSION:
        return 400;
    case TG_ENOTFOUND:
        return 404;
    case TG_EEXISTS:
    case TG_ECONFLICT:
        return 409;
    case TG_ETOOBIG:
        return 413;
    case TG_EUNSUPPORTED:
        return 501;
    case TG_ETIMEOUT:
        return 504;
    case TG_EBUSY:
    case TG_EUNAVAILABLE:
    case TG_EFULL:
    case TG_ENOMEM:
        return 503;
    default:
        return 500;
    }
}

/* ---- the date -------------------------------------------------------------------------------- */

static void put_two(char *out, int64_t number)
{
    out[0] = (char)('0' + number / 10);
    out[1] = (char)('0' + number % 10);
}

/* Days are counted from the 1st of March of year 0, so that the leap day is a year's last. */
void http_date(int64_t unix_s, char out[HTTP_DATE_LEN])
{
    static const char days[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
    const int64_t most_s = INT64_C(253402300799); /* the end of the year 9999 */
    const int64_t at_s = unix_s < 0 ? 0 : unix_s < most_s ? unix_s : most_s;
    const int64_t second = at_s % S_PER_DAY;
    const int64_t day = at_s / S_PER_DAY;
    const int64_t since = day + 719468;
    const int64_t era = since / 146097;
    const int64_t of_era = since % 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * of_year + 2) / 153;
    const int64_t full = era * 400 + year + (month >= 10);
    memcpy(out, "Thu, 01 Jan 1970 00:00:00 GMT", HTTP_DATE_LEN);
    memcpy(out, days + 3 * (day % 7), 3);
    put_two(out + 5, of_year - (153 * month + 2) / 5 + 1);
    memcpy(out + 8, months + 3 * month, 3);
    put_two(out + 12, full / 100);
    put_two(out + 14, full % 100);
    put_two(out + 17, second / 3600);
    put_two(out + 20, second / 60 % 60);
    put_two(out + 23, second % 60);
}

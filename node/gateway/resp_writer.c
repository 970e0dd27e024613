/* resp_writer.c - replies to Redis clients; resp_writer.h tells how the versions differ.
 *
 * RESPWRITER-1  Nothing is written beyond `capacity`; a reply that did not fit leaves `failed` set,
 *               and its caller takes it back by the length it had before.
 * RESPWRITER-2  No byte of a caller's text ends a line of the protocol.
 */
#include "node/gateway/resp_writer.h"

#include <string.h>

/* `need` bytes to write to, or NULL. */
static char *reserve(struct gateway_out *writer, size_t need)
{
    if (writer->failed || writer->capacity - writer->len < need) {
        writer->failed = true;
        return NULL;
    }
    return writer->data + writer->len;
}

/* `type`, a number, CRLF. */
static void put_head(struct gateway_out *writer, char type, uint64_t number, bool negative)
{
    char digits[20];
    size_t count = 0;
    char *out = reserve(writer, RESP_INTEGER_LEN);
    if (out == NULL)
        return;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    *out++ = type;
    if (negative)
        *out++ = '-';
    while (count > 0)
        *out++ = digits[--count];
    *out++ = '\r';
    *out++ = '\n';
    writer->len = (size_t)(out - writer->data);
}

static void put_bytes(struct gateway_out *writer, const void *data, size_t len)
{
    char *out = reserve(writer, len);
    if (out == NULL || len == 0)
        return;
    memcpy(out, data, len);
    writer->len += len;
}

void resp_put_integer(struct gateway_out *writer, int64_t value)
{
    put_head(writer, ':', value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void resp_put_bulk(struct gateway_out *writer, const void *data, size_t len)
{
    put_head(writer, '$', len, false);
    put_bytes(writer, data, len);
    put_bytes(writer, "\r\n", 2);
}

void resp_put_text(struct gateway_out *writer, const char *text)
{
    resp_put_bulk(writer, text, strlen(text));
}

/* One line: `type`, the text with line ends as blanks (RESPWRITER-2), CRLF. */
static void put_line(struct gateway_out *writer, char type, const char *text)
{
    const size_t whole = strlen(text);
    const size_t len = whole < RESP_ERROR_LEN_MAX ? whole : RESP_ERROR_LEN_MAX;
    char *out = reserve(writer, len + 3);
    if (out == NULL)
        return;
    out[0] = type;
    for (size_t i = 0; i < len; i++)
        out[1 + i] = text[i] == '\r' || text[i] == '\n' ? ' ' : text[i];
    out[1 + len] = '\r';
    out[2 + len] = '\n';
    writer->len += len + 3;
}

void resp_put_simple(struct gateway_out *writer, const char *text)
{
    put_line(writer, '+', text);
}

void resp_put_error(struct gateway_out *writer, const char *text)
{
    put_line(writer, '-', text);
}

void resp_put_null(struct gateway_out *writer)
{
    if (writer->protocol >= 3)
        put_bytes(writer, "_\r\n", 3);
    else
        put_bytes(writer, "$-1\r\n", 5);
}

void resp_put_array(struct gateway_out *writer, size_t count)
{
    put_head(writer, '*', count, false);
}

void resp_put_push(struct gateway_out *writer, size_t count)
{
    put_head(writer, writer->protocol >= 3 ? '>' : '*', count, false);
}

void resp_put_set(struct gateway_out *writer, size_t count)
{
    put_head(writer, writer->protocol >= 3 ? '~' : '*', count, false);
}

void resp_put_map(struct gateway_out *writer, size_t pairs)
{
    if (writer->protocol >= 3)
        put_head(writer, '%', pairs, false);
    else
        put_head(writer, '*', 2 * pairs, false);
}

void resp_put_verbatim(struct gateway_out *writer, const char *text, size_t len)
{
    if (writer->protocol < 3) {
        resp_put_bulk(writer, text, len);
        return;
    }
    put_head(writer, '=', len + 4, false);
    put_bytes(writer, "txt:", 4);
    put_bytes(writer, text, len);
    put_bytes(writer, "\r\n", 2);
}

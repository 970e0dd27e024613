/* mp_json.c - see mp_json.h.
 *
 * MPJSON-1  What is written of whole values is JSON (RFC 8259).
 */
#include "base/mp_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp_walk.h"
#include "base/utf8.h"

enum { PIECE_LEN = 48 };

/* ---- scalars --------------------------------------------------------------------------------- */

static void put(const struct mp_sink *sink, const char *text)
{
    sink->put(sink->context, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void put_format(const struct mp_sink *sink,
                                                             const char *format, ...)
{
    char piece[PIECE_LEN];
    va_list list;
    va_start(list, format);
    const int len = vsnprintf(piece, sizeof piece, format, list);
    va_end(list);
    ASSERT(len > 0 && len < PIECE_LEN);
    sink->put(sink->context, piece, (size_t)len);
}

/* A character by its number: as quick as any, for a text may be full of them. */
static void put_escape(const struct mp_sink *sink, unsigned number)
{
    static const char digits[] = "0123456789abcdef";
    const char text[] = {'\\',
                         'u',
                         digits[number >> 12 & 15],
                         digits[number >> 8 & 15],
                         digits[number >> 4 & 15],
                         digits[number & 15]};
    sink->put(sink->context, text, sizeof text);
}

/* Bytes at the front that stand for themselves. */
static size_t plain_len(const char *data, size_t len)
{
    size_t at = 0;
    while (at < len && data[at] >= 0x20 && data[at] != 0x7f && data[at] != '"' && data[at] != '\\')
        at++;
    return at;
}

void mp_json_string(const struct mp_sink *sink, const char *data, size_t len)
{
    put(sink, "\"");
    for (size_t i = 0; i < len;) {
        const size_t plain = plain_len(data + i, len - i);
        if (plain > 0)
            sink->put(sink->context, data + i, plain);
        i += plain;
        if (i == len)
            break;
        const size_t step = utf8_len(data + i, len - i);
        const char *at = data + i;
        i += step == 0 ? 1 : step;
        if (step == 0)
            put(sink, "\xef\xbf\xbd");
        else if (*at == '"')
            put(sink, "\\\"");
        else if (*at == '\\')
            put(sink, "\\\\");
        else if (*at == '\n')
            put(sink, "\\n");
        else if (*at == '\t')
            put(sink, "\\t");
        else if (step == 1 && ((uint8_t)*at < 0x20 || *at == 0x7f))
            put_escape(sink, (uint8_t)*at);
        else if (step == 2 && (uint8_t)at[0] == 0xc2 && (uint8_t)at[1] < 0xa0)
            put_escape(sink, (uint8_t)at[1]);
        else if (step == 3 && (uint8_t)at[0] == 0xef && (uint8_t)at[1] == 0xbf &&
                 (uint8_t)at[2] >= 0xbe) /* YAML does not have them as they are */
            put_escape(sink, 0xff00 | ((uint8_t)at[2] + 0x40U));
        else
            sink->put(sink->context, at, step);
    }
    put(sink, "\"");
}

void mp_json_hex(const struct mp_sink *sink, const struct mp_token *token)
{
    for (uint32_t i = 0; i < token->count; i++)
        put_format(sink, "%02x", token->data[i]);
}

/* The shortest of the two usual precisions that reads back as the same number. */
static void add_real(const struct mp_sink *sink, double value)
{
    enum { REAL_LEN = 40 };
    char out[REAL_LEN];
    double again = 0;
    if (!isfinite(value)) {
        put(sink, "null");
        return;
    }
    (void)snprintf(out, sizeof out, "%.15g", value);
    if (sscanf(out, "%lf", &again) != 1 || again < value || again > value)
        (void)snprintf(out, sizeof out, "%.17g", value);
    put(sink, out);
}

/* Every scalar but strings looks the same in JSON and YAML. */
void mp_json_scalar(const struct mp_sink *sink, const struct mp_token *token)
{
    switch (token->type) {
    case MP_BOOL:
        put(sink, token->uint != 0 ? "true" : "false");
        break;
    case MP_UINT:
        put_format(sink, "%llu", (unsigned long long)token->uint);
        break;
    case MP_INT:
        put_format(sink, "%lld", (long long)token->sint);
        break;
    case MP_FLOAT:
        add_real(sink, token->real);
        break;
    case MP_STR:
        mp_json_string(sink, (const char *)token->data, token->count);
        break;
    case MP_BIN:
        put(sink, "\"");
        mp_json_hex(sink, token);
        put(sink, "\"");
        break;
    case MP_NIL:
    case MP_EXT:
    case MP_ARRAY:
    case MP_MAP:
    default:
        put(sink, "null");
        break;
    }
}

/* A key is a string, whatever it was (MPJSON-1). */
void mp_json_key(const struct mp_sink *sink, const struct mp_token *token)
{
    const bool quoted = token->type == MP_STR || token->type == MP_BIN;
    if (!quoted)
        put(sink, "\"");
    mp_json_scalar(sink, token);
    if (!quoted)
        put(sink, "\"");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void close_json(const struct mp_sink *sink, struct mp_walk *walk)
{
    while (walk->depth > 0 && mp_walk_top(walk)->left == 0) {
        put(sink, mp_walk_top(walk)->map ? "}" : "]");
        walk->depth--;
    }
}

void mp_json(const struct mp_sink *sink, const struct mp_token *tokens, size_t count)
{
    struct mp_walk walk = {.depth = 0};
    const size_t used = mp_value_len(tokens, count);
    for (size_t i = 0; i < used; i++) {
        struct mp_frame *frame = mp_walk_top(&walk);
        const bool key = mp_walk_at_key(frame);
        ASSERT(frame == NULL || frame->left > 0); /* MPJSON-1 */
        if (frame != NULL) {
            if (!frame->first && (key || !frame->map))
                put(sink, ",");
            frame->first = false;
            frame->left--;
        }
        if (key) {
            /* Containers as keys cannot be said in JSON; no node sends them. */
            mp_json_key(sink, &tokens[i]);
            put(sink, ":");
            if (mp_is_container(&tokens[i]))
                i += mp_value_len(&tokens[i], used - i) - 1;
            continue;
        }
        if (mp_is_container(&tokens[i]) && walk.depth < MP_WALK_MAX) {
            put(sink, tokens[i].type == MP_MAP ? "{" : "[");
            mp_walk_push(&walk, &tokens[i]);
        } else {
            mp_json_scalar(sink, &tokens[i]);
        }
        close_json(sink, &walk);
    }
    ASSERT(walk.depth == 0 || used == count); /* MPJSON-1: all is closed, but of a part */
}

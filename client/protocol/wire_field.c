/* wire_field.c - one field after the other, each refusal with a sentence.
 *
 * Every read looks at the token's type and range before it takes the value, so that the sentence
 * can say what was found. The base cursor's sticky failure is a second net, never the first.
 *
 * FIELD-1  status changes once, from 0 to the first failure; the sentence belongs to that failure.
 * FIELD-2  After a failure reads return zero, NULL or "" and move nothing.
 * FIELD-3  A sentence names fields and numbers, never a value's bytes: keys are nobody's business.
 *
 * Must not know what messages mean; that is wire_session.c and its siblings.
 */
#include "client/protocol/wire_field.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "client/protocol/wire_envelope.h"

static const char *type_name(enum mp_type type)
{
    static const char *const names[] = {
        [MP_NIL] = "nothing",     [MP_BOOL] = "a boolean",
        [MP_UINT] = "an integer", [MP_INT] = "a negative integer",
        [MP_FLOAT] = "a float",   [MP_STR] = "a string",
        [MP_BIN] = "binary",      [MP_EXT] = "an extension",
        [MP_ARRAY] = "an array",  [MP_MAP] = "a map",
    };
    return names[type];
}

static const char *message_name(uint32_t type)
{
    static const char *const names[WIRE_TYPE_END] = {
        [WIRE_HELLO] = "HELLO",       [WIRE_WELCOME] = "WELCOME",
        [WIRE_GET_RING] = "GET_RING", [WIRE_RING] = "RING",
        [WIRE_CHECKS] = "CHECKS",     [WIRE_DECISIONS] = "DECISIONS",
        [WIRE_ERROR] = "ERROR",       [WIRE_ADMIN] = "ADMIN",
        [WIRE_GOODBYE] = "GOODBYE",   [WIRE_ADMIN_REPLY] = "ADMIN_REPLY",
    };
    return type > 0 && type < WIRE_TYPE_END ? names[type] : "no known type";
}

void wire_reader_fail(struct wire_reader *reader, int code, const char *format, ...)
{
    ASSERT(code < 0);
    va_list arguments;

    if (reader->status != 0)
        return; /* FIELD-1 */
    reader->status = code;
    va_start(arguments, format);
    (void)vsnprintf(reader->error, WIRE_ERROR_LEN, format, arguments);
    va_end(arguments);
}

int wire_reader_open(struct wire_reader *reader, const void *frame, size_t len, enum wire_type type,
                     uint32_t elements, struct mp_token *tokens, size_t tokens_max, char *error)
{
    ASSERT(tokens_max > 0 && elements >= 2);
    struct wire_envelope envelope;
    int count;
    uint32_t found;

    *reader = (struct wire_reader){.error = error};
    mp_cursor_init(&reader->cursor, tokens, 0);
    reader->status = wire_peek(frame, len, &envelope, error);
    if (reader->status != 0)
        return reader->status;
    if (envelope.type != type) {
        wire_reader_fail(reader, TG_EPROTOCOL, "type: found %" PRIu32 " (%s), expected %u (%s)",
                         envelope.type, message_name(envelope.type), (unsigned)type,
                         message_name(type));
        return reader->status;
    }
    count = mp_parse(frame, len, tokens, tokens_max);
    if (count == TG_ETOOBIG)
        wire_reader_fail(reader, TG_ETOOBIG,
                         "message: more than %zu values or nested too deep for a %s", tokens_max,
                         message_name(type));
    else if (count < 0)
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "message: found malformed, cut or trailing bytes, expected exactly one "
                         "msgpack array");
    if (reader->status != 0)
        return reader->status;
    mp_cursor_init(&reader->cursor, tokens, (size_t)count);
    found = mp_get_array(&reader->cursor);
    if (found < elements)
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "message: found %" PRIu32 " elements, expected at least %" PRIu32
                         " in a %s",
                         found, elements, message_name(type));
    mp_skip(&reader->cursor);
    mp_skip(&reader->cursor);
    return reader->status;
}

/* Whether the next token is a `type`; if not, fails with what was expected. */
static bool expect(struct wire_reader *reader, const char *field, enum mp_type type,
                   const char *expected)
{
    const enum mp_type found = mp_peek_type(&reader->cursor);

    if (reader->status != 0)
        return false;
    if (found == type)
        return true;
    wire_reader_fail(reader, TG_EPROTOCOL, "%s: found %s, expected %s", field, type_name(found),
                     expected);
    return false;
}

uint64_t wire_read_uint(struct wire_reader *reader, const char *field, uint64_t min, uint64_t max)
{
    ASSERT(min <= max);
    uint64_t value;

    if (!expect(reader, field, MP_UINT, "an unsigned integer"))
        return 0;
    value = mp_get_uint(&reader->cursor);
    if (value >= min && value <= max)
        return value;
    wire_reader_fail(reader, TG_EPROTOCOL,
                     "%s: found %" PRIu64 ", expected %" PRIu64 " to %" PRIu64, field, value, min,
                     max);
    return 0;
}

int64_t wire_read_int(struct wire_reader *reader, const char *field, int64_t min, int64_t max)
{
    ASSERT(min <= max);
    int64_t value;

    if (mp_peek_type(&reader->cursor) != MP_INT && !expect(reader, field, MP_UINT, "an integer"))
        return 0;
    if (reader->status != 0)
        return 0;
    value = mp_get_int(&reader->cursor);
    if (!reader->cursor.failed && value >= min && value <= max)
        return value;
    wire_reader_fail(reader, TG_EPROTOCOL,
                     "%s: found %" PRId64 " or a number above, expected %" PRId64 " to %" PRId64,
                     field, value, min, max);
    return 0;
}

bool wire_read_bool(struct wire_reader *reader, const char *field)
{
    return expect(reader, field, MP_BOOL, "a boolean") && mp_get_bool(&reader->cursor);
}

struct wire_text wire_read_text(struct wire_reader *reader, const char *field, size_t min,
                                size_t max)
{
    ASSERT(min <= max);
    struct wire_text text = {.data = "", .len = 0};

    if (!expect(reader, field, MP_STR, "a string"))
        return text;
    text.data = mp_get_str(&reader->cursor, &text.len);
    if (wire_text_valid(text, min, max))
        return text;
    if (text.len >= min && text.len <= max)
        wire_reader_fail(reader, TG_EPROTOCOL, "%s: found a NUL byte, expected text", field);
    else
        wire_reader_fail(reader, TG_EPROTOCOL, "%s: found %zu bytes, expected %zu to %zu", field,
                         text.len, min, max);
    return (struct wire_text){.data = "", .len = 0};
}

const uint8_t *wire_read_blob(struct wire_reader *reader, const char *field, size_t *len)
{
    *len = 0;
    return expect(reader, field, MP_BIN, "binary") ? mp_get_bin(&reader->cursor, len) : NULL;
}

const uint8_t *wire_read_bin(struct wire_reader *reader, const char *field, size_t len)
{
    size_t found;
    const uint8_t *data = wire_read_blob(reader, field, &found);

    if (reader->status != 0)
        return NULL;
    if (found == len)
        return data;
    wire_reader_fail(reader, TG_EPROTOCOL, "%s: found %zu bytes, expected %zu", field, found, len);
    return NULL;
}

uint32_t wire_read_array(struct wire_reader *reader, const char *field, uint32_t min, uint32_t max)
{
    ASSERT(min <= max);
    uint32_t count;

    if (!expect(reader, field, MP_ARRAY, "an array"))
        return 0;
    count = mp_get_array(&reader->cursor);
    if (count >= min && count <= max)
        return count;
    wire_reader_fail(reader, TG_EPROTOCOL,
                     "%s: found %" PRIu32 " elements, expected %" PRIu32 " to %" PRIu32, field,
                     count, min, max);
    return 0;
}

void wire_read_extra(struct wire_reader *reader, uint32_t count)
{
    for (uint32_t i = 0; i < count && reader->status == 0; i++)
        mp_skip(&reader->cursor);
}

void wire_put_head(struct mp_writer *writer, enum wire_type type, size_t elements)
{
    ASSERT(elements >= 2 && writer->len == 0);
    mp_put_array(writer, elements);
    mp_put_uint(writer, WIRE_VERSION);
    mp_put_uint(writer, (uint64_t)type);
}

void wire_put_text(struct mp_writer *writer, struct wire_text text)
{
    mp_put_strn(writer, text.len != 0 ? text.data : "", text.len);
}

int wire_put_end(const struct mp_writer *writer)
{
    ASSERT(writer->len <= writer->capacity);
    return writer->failed || writer->len > WIRE_MESSAGE_MAX ? TG_ETOOBIG : (int)writer->len;
}

bool wire_text_valid(struct wire_text text, size_t min, size_t max)
{
    return text.len >= min && text.len <= max &&
           (text.len == 0 || memchr(text.data, 0, text.len) == NULL);
}

struct wire_text wire_text_of(const char *string)
{
    return (struct wire_text){.data = string != NULL ? string : "",
                              .len = string != NULL ? strlen(string) : 0};
}

/* What one head byte announces: bytes of the length field behind it, fixed bytes of body, and
 * how many values follow (1 for an array's element, 2 for a map's pair). */
struct span_head {
    uint8_t length_len;
    uint8_t body;
    uint8_t values_each;
};

static struct span_head span_head_of(uint8_t byte)
{
    static const struct span_head table[32] = {
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0},             /* c0 nil c1 - c2 c3 bool */
        {1, 0, 0}, {2, 0, 0}, {4, 0, 0},                        /* c4..c6 bin */
        {1, 1, 0}, {2, 1, 0}, {4, 1, 0},                        /* c7..c9 ext: and a type */
        {0, 4, 0}, {0, 8, 0},                                   /* ca cb float */
        {0, 1, 0}, {0, 2, 0}, {0, 4, 0}, {0, 8, 0},             /* cc..cf unsigned */
        {0, 1, 0}, {0, 2, 0}, {0, 4, 0}, {0, 8, 0},             /* d0..d3 signed */
        {0, 2, 0}, {0, 3, 0}, {0, 5, 0}, {0, 9, 0}, {0, 17, 0}, /* d4..d8 fixed ext */
        {1, 0, 0}, {2, 0, 0}, {4, 0, 0},                        /* d9..db str */
        {2, 0, 1}, {4, 0, 1}, {2, 0, 2}, {4, 0, 2},             /* dc dd array de df map */
    };

    if (byte >= 0xc0 && byte <= 0xdf)
        return table[byte - 0xc0];
    return (struct span_head){0, 0, 0};
}

size_t wire_span(const uint8_t *data, size_t len)
{
    size_t at = 0;
    uint64_t pending = 1;

    while (pending > 0) {
        struct span_head head;
        uint64_t count = 0;
        uint64_t body;
        uint8_t byte;

        if (at >= len)
            return 0;
        byte = data[at++];
        pending--;
        head = span_head_of(byte);
        if (head.length_len > len - at || byte == 0xc1)
            return 0;
        for (unsigned i = 0; i < head.length_len; i++)
            count = count << 8 | data[at++];
        body = head.body;
        if (head.values_each != 0)
            pending += count * head.values_each;
        else
            body += count;
        if ((byte & 0xe0) == 0xa0)
            body = byte & 0x1fu; /* short string */
        else if ((byte & 0xf0) == 0x90)
            pending += byte & 0x0fu; /* short array */
        else if ((byte & 0xf0) == 0x80)
            pending += 2 * (byte & 0x0fu); /* short map */
        if (body > len - at || pending > len - at - body)
            return 0; /* every pending value takes a byte at least */
        ASSERT(body <= len - at);
        at += body;
    }
    return at;
}

/* Functions of their own, with pointers that do not overlap: of such a loop compilers make a copy.
 */
void wire_set_u16s(uint8_t *restrict column, const uint16_t *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wire_set_u16(column, i, values[i]);
}

void wire_set_u32s(uint8_t *restrict column, const uint32_t *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wire_set_u32(column, i, values[i]);
}

void wire_set_u64s(uint8_t *restrict column, const uint64_t *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        wire_set_u64(column, i, values[i]);
}

/* json_reader.c - JSON, piece by piece; json_reader.h has the contract.
 *
 *   json_open_object --> json_next_member --> value --> json_next_member --> ... --> (closed)
 *                       ^                        |
 *                       +------ key, colon ------+ comma
 */
#include "node/gateway/api/json_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
#include "base/utf8.h"

enum {
    PLACE_LEN = 160, /* of a place in a sentence; a longer one is cut */
    KEY_SHOWN = 48,
    DIGITS_MAX = 20, /* of a number below 2^64 */
    SHARE_LEN = 40,  /* of a number from 0 to 1, as it is written */
    ESCAPE_MAX = 6   /* bytes of an escape by number: \u and four digits */
};

/* ---- places and mistakes --------------------------------------------------------------------- */

/* Adds to `out`; what does not fit is cut. */
static void add(char out[PLACE_LEN], const char *text, size_t len)
{
    const size_t used = strlen(out);
    const size_t fits = len < PLACE_LEN - 1 - used ? len : PLACE_LEN - 1 - used;
    memcpy(out + used, text, fits);
    out[used + fits] = '\0';
}

/* "checks[3].rate". A key whose letters could be mistaken for more than a key is shown without
 * them. */
static void place_of(const struct json_reader *reader, char out[PLACE_LEN])
{
    out[0] = '\0';
    for (uint32_t i = 0; i < reader->depth; i++) {
        const struct json_level *level = &reader->levels[i];
        char piece[KEY_SHOWN + 2];
        size_t len = 0;
        if (!level->begun)
            return;
        if (level->list) {
            (void)snprintf(piece, sizeof piece, "[%" PRIu32 "]", level->index);
            add(out, piece, strlen(piece));
            continue;
        }
        if (i > 0)
            piece[len++] = '.';
        for (size_t k = 0; k < level->key.len && k < KEY_SHOWN; k++) {
            const char c = level->key.data[k];
            piece[len++] = (unsigned char)c < ' ' || c == 0x7f ? '?' : c;
        }
        add(out, piece, len);
    }
}

void json_refuse(struct json_reader *reader, const char *format, ...)
{
    char place[PLACE_LEN];
    va_list arguments;
    if (reader->failed)
        return; /* JSONREADER-2: the first one is told */
    reader->failed = true;
    place_of(reader, place);
    const size_t len =
        place[0] == '\0' ? 0 : (size_t)snprintf(reader->error, sizeof reader->error, "%s: ", place);
    va_start(arguments, format);
    (void)vsnprintf(reader->error + len, sizeof reader->error - len, format, arguments);
    va_end(arguments);
}

const char *json_kind_name(enum json_kind type)
{
    static const char *const names[] = {
        [JSON_KIND_NOTHING] = "no value", [JSON_KIND_OBJECT] = "an object",
        [JSON_KIND_LIST] = "a list",      [JSON_KIND_STRING] = "a string",
        [JSON_KIND_NUMBER] = "a number",  [JSON_KIND_FLAG] = "true or false",
        [JSON_KIND_NULL] = "null"};
    return names[type];
}

/* The byte at hand is not what the grammar has there. */
static bool refuse_byte(struct json_reader *reader, const char *expected)
{
    const size_t byte = reader->at + 1;
    if (reader->at >= reader->len) {
        json_refuse(reader, "found the end of the body at byte %zu, expected %s", byte, expected);
        return false;
    }
    const unsigned char c = (unsigned char)reader->text[reader->at];
    if (c >= ' ' && c < 0x7f)
        json_refuse(reader, "found '%c' at byte %zu, expected %s", c, byte, expected);
    else
        json_refuse(reader, "found the byte 0x%02x at byte %zu, expected %s", c, byte, expected);
    return false;
}

static bool refuse_type(struct json_reader *reader, const char *expected)
{
    const enum json_kind found = json_next_kind(reader);
    if (found == JSON_KIND_NOTHING)
        return refuse_byte(reader, expected);
    json_refuse(reader, "found %s, expected %s", json_kind_name(found), expected);
    return false;
}

/* ---- what is between values ------------------------------------------------------------------ */

void json_reader_begin(struct json_reader *reader, const char *text, size_t len, char *room,
                       size_t room_len)
{
    reader->text = text;
    reader->len = len;
    reader->at = 0;
    reader->room = room;
    reader->room_len = room_len;
    reader->room_used = 0;
    reader->depth = 0;
    reader->failed = false;
    reader->error[0] = '\0';
}

static void skip_blanks(struct json_reader *reader)
{
    while (reader->at < reader->len) {
        const char c = reader->text[reader->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
        reader->at++;
    }
}

/* Takes the byte if it is the next one. */
static bool take(struct json_reader *reader, char wanted)
{
    skip_blanks(reader);
    if (reader->at >= reader->len || reader->text[reader->at] != wanted)
        return false;
    reader->at++;
    return true;
}

bool json_reader_end(struct json_reader *reader)
{
    skip_blanks(reader);
    if (reader->failed)
        return false;
    ASSERT(reader->depth == 0);
    return reader->at == reader->len || refuse_byte(reader, "the end of the body");
}

enum json_kind json_next_kind(struct json_reader *reader)
{
    skip_blanks(reader);
    if (reader->at >= reader->len)
        return JSON_KIND_NOTHING;
    const char c = reader->text[reader->at];
    return c == '{'                             ? JSON_KIND_OBJECT
           : c == '['                           ? JSON_KIND_LIST
           : c == '"'                           ? JSON_KIND_STRING
           : c == 't' || c == 'f'               ? JSON_KIND_FLAG
           : c == 'n'                           ? JSON_KIND_NULL
           : c == '-' || (c >= '0' && c <= '9') ? JSON_KIND_NUMBER
                                                : JSON_KIND_NOTHING;
}

static bool open_level(struct json_reader *reader, bool list)
{
    if (reader->failed)
        return false;
    if (!take(reader, list ? '[' : '{'))
        return refuse_type(reader, list ? "a list" : "an object");
    if (reader->depth == JSON_DEPTH_MAX) {
        json_refuse(reader, "found more than %d objects and lists inside each other",
                    (int)JSON_DEPTH_MAX);
        return false;
    }
    reader->levels[reader->depth++] = (struct json_level){.list = list};
    return true;
}

bool json_open_object(struct json_reader *reader)
{
    return open_level(reader, false);
}

bool json_open_list(struct json_reader *reader)
{
    return open_level(reader, true);
}

/* Goes to what comes next in the innermost level, by its comma; false: it is closed, or failed. */
static bool advance(struct json_reader *reader, char closing)
{
    if (reader->failed)
        return false;
    ASSERT(reader->depth > 0);
    struct json_level *level = &reader->levels[reader->depth - 1];
    const bool first = !level->begun;
    if (take(reader, closing)) {
        reader->depth--;
        return false;
    }
    if (!first && !take(reader, ','))
        return refuse_byte(reader, closing == ']' ? "a comma or ]" : "a comma or }");
    level->index += !first;
    level->begun = true;
    return true;
}

bool json_next_member(struct json_reader *reader, struct wire_text *key)
{
    if (!advance(reader, '}'))
        return false;
    struct json_level *level = &reader->levels[reader->depth - 1];
    skip_blanks(reader);
    level->begun = false; /* the place is that of the object, until there is a key */
    if (reader->at >= reader->len || reader->text[reader->at] != '"')
        return refuse_byte(reader, "a key in quotes");
    if (!json_take_text(reader, key))
        return false;
    level->begun = true;
    level->key = *key;
    return take(reader, ':') || refuse_byte(reader, "a colon behind the key");
}

bool json_next_element(struct json_reader *reader)
{
    return advance(reader, ']');
}

/* ---- strings --------------------------------------------------------------------------------- */

static size_t put_utf8(char out[UTF8_MAX], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* An escape by number at the cursor; false: there is none. */
static bool take_unit(struct json_reader *reader, uint32_t *out)
{
    *out = 0;
    if (reader->len - reader->at < ESCAPE_MAX || reader->text[reader->at] != '\\' ||
        reader->text[reader->at + 1] != 'u')
        return refuse_byte(reader, "\\u and four hexadecimal digits");
    for (size_t i = 2; i < ESCAPE_MAX; i++) {
        const char c = reader->text[reader->at + i];
        const int digit = hex_digit(c);
        if (digit < 0)
            return refuse_byte(reader, "\\u and four hexadecimal digits");
        *out = *out << 4 | (uint32_t)digit;
    }
    reader->at += ESCAPE_MAX;
    return true;
}

/* An escape by number, or a pair of them. */
static bool take_code(struct json_reader *reader, uint32_t *code)
{
    uint32_t low;
    if (!take_unit(reader, code))
        return false;
    if (*code < 0xd800 || *code > 0xdfff)
        return true;
    if (*code >= 0xdc00 || reader->at >= reader->len || reader->text[reader->at] != '\\') {
        json_refuse(reader, "found half of a surrogate pair before byte %zu, expected both",
                    reader->at + 1);
        return false;
    }
    if (!take_unit(reader, &low))
        return false;
    if (low < 0xdc00 || low > 0xdfff) {
        json_refuse(reader, "found half of a surrogate pair before byte %zu, expected both",
                    reader->at + 1);
        return false;
    }
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* The escape at the cursor, as bytes. 0: it is none. */
static size_t take_escape(struct json_reader *reader, char out[UTF8_MAX])
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint32_t code;
    if (reader->at + 1 < reader->len && reader->text[reader->at + 1] == 'u')
        return take_code(reader, &code) ? put_utf8(out, code) : 0;
    const char *letter = reader->at + 1 < reader->len
                             ? memchr(letters, reader->text[reader->at + 1], sizeof letters - 1)
                             : NULL;
    if (letter == NULL) {
        reader->at++;
        (void)refuse_byte(reader, "one of \" \\ / b f n r t u behind a backslash");
        return 0;
    }
    out[0] = meanings[letter - letters];
    reader->at += 2;
    return 1;
}

/* Goes over bytes that mean themselves. False: they are no text. */
static bool skip_plain(struct json_reader *reader)
{
    while (reader->at < reader->len) {
        const char *at = reader->text + reader->at;
        if (*at == '"' || *at == '\\')
            return true;
        if ((unsigned char)*at < ' ')
            return refuse_byte(reader, "no control character within a string");
        const size_t len = utf8_len(at, reader->len - reader->at);
        if (len == 0)
            return refuse_byte(reader, "UTF-8");
        reader->at += len;
    }
    return refuse_byte(reader, "the end of this string");
}

/* Copies bytes into the room. */
static bool keep(struct json_reader *reader, const char *data, size_t len)
{
    if (len > reader->room_len - reader->room_used) {
        json_refuse(reader,
                    "found a string with escapes that is too long, expected at most %zu "
                    "bytes of such",
                    reader->room_len);
        return false;
    }
    memcpy(reader->room + reader->room_used, data, len);
    reader->room_used += len;
    return true;
}

/* The rest of a string from its first escape on; what was before it, from `from` on, as well. */
static bool unescape(struct json_reader *reader, size_t from, struct wire_text *out)
{
    const size_t start = reader->room_used;
    for (;;) {
        if (!keep(reader, reader->text + from, reader->at - from))
            return false;
        if (reader->text[reader->at] == '"')
            break;
        char bytes[UTF8_MAX];
        const size_t len = take_escape(reader, bytes);
        if (len == 0 || !keep(reader, bytes, len))
            return false;
        from = reader->at;
        if (!skip_plain(reader))
            return false;
    }
    reader->at++;
    *out = (struct wire_text){reader->room + start, reader->room_used - start};
    return true;
}

bool json_take_text(struct json_reader *reader, struct wire_text *out)
{
    if (reader->failed)
        return false;
    if (!take(reader, '"'))
        return refuse_type(reader, "a string");
    const size_t from = reader->at;
    if (!skip_plain(reader))
        return false;
    if (reader->text[reader->at] == '\\')
        return unescape(reader, from, out);
    *out = (struct wire_text){reader->text + from, reader->at - from};
    reader->at++;
    return true;
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static bool is_digit(const struct json_reader *reader, size_t at)
{
    return at < reader->len && reader->text[at] >= '0' && reader->text[at] <= '9';
}

/* A whole number as it is written, by the grammar of JSON: no sign but a minus, no leading zero. */
static bool take_integer(struct json_reader *reader, struct wire_text *out)
{
    const size_t from = reader->at;
    size_t at = from + (reader->text[from] == '-');
    const size_t first = at;
    while (is_digit(reader, at))
        at++;
    const char after = at < reader->len ? reader->text[at] : ' ';
    if (at == first || (at > first + 1 && reader->text[first] == '0') || after == '.' ||
        after == 'e' || after == 'E') {
        json_refuse(reader,
                    "found a number that is not whole, or not written as JSON has it, at "
                    "byte %zu, expected a whole one",
                    from + 1);
        return false;
    }
    reader->at = at;
    *out = (struct wire_text){reader->text + from, at - from};
    return true;
}

bool json_take_unsigned(struct json_reader *reader, uint64_t max, uint64_t *out)
{
    struct wire_text digits;
    if (reader->failed)
        return false;
    if (json_next_kind(reader) != JSON_KIND_NUMBER)
        return refuse_type(reader, "a whole number");
    if (!take_integer(reader, &digits))
        return false;
    bool fits = digits.data[0] != '-' && digits.len < DIGITS_MAX;
    *out = 0;
    for (size_t i = 0; fits && i < digits.len; i++)
        *out = *out * 10 + (uint64_t)(digits.data[i] - '0');
    fits = fits && *out <= max;
    if (!fits)
        json_refuse(reader, "found %.*s, expected a whole number from 0 to %" PRIu64,
                    digits.len < KEY_SHOWN ? (int)digits.len : KEY_SHOWN, digits.data, max);
    return fits;
}

/* Reads a number of 64 bits as it is written. */
static bool read_signed(struct wire_text text, int64_t *out)
{
    const bool minus = text.len > 0 && text.data[0] == '-';
    uint64_t value = 0;
    for (size_t i = minus; i < text.len; i++) {
        const uint64_t digit = (uint64_t)(unsigned char)text.data[i] - '0';
        if (digit > 9 || value > (uint64_t)INT64_MAX / 10)
            return false;
        value = value * 10 + digit;
    }
    if (text.len == (size_t)minus || value > (uint64_t)INT64_MAX + minus)
        return false;
    *out = minus ? (int64_t)(UINT64_C(0) - value) : (int64_t)value;
    return true;
}

bool json_take_signed(struct json_reader *reader, int64_t *out)
{
    struct wire_text text;
    if (reader->failed)
        return false;
    const enum json_kind kind = json_next_kind(reader);
    if (kind != JSON_KIND_NUMBER && kind != JSON_KIND_STRING)
        return refuse_type(reader, "a whole number, or one in quotes");
    if (!(kind == JSON_KIND_NUMBER ? take_integer(reader, &text) : json_take_text(reader, &text)))
        return false;
    if (!read_signed(text, out))
        json_refuse(reader, "found %.*s, expected a whole number of 64 bits",
                    text.len < KEY_SHOWN ? (int)text.len : KEY_SHOWN, text.data);
    return !reader->failed;
}

/* Steps over digits; whether there was one. */
static bool skip_digits(struct json_reader *reader)
{
    const size_t from = reader->at;
    while (is_digit(reader, reader->at))
        reader->at++;
    return reader->at > from;
}

/* Steps over the next byte, if it is one of these. */
static bool skip_one_of(struct json_reader *reader, const char *bytes)
{
    if (reader->at == reader->len || reader->text[reader->at] == '\0' ||
        strchr(bytes, reader->text[reader->at]) == NULL)
        return false;
    reader->at++;
    return true;
}

bool json_take_share(struct json_reader *reader, double *out)
{
    char copy[SHARE_LEN] = "";
    if (reader->failed)
        return false;
    if (json_next_kind(reader) != JSON_KIND_NUMBER)
        return refuse_type(reader, "a number from 0 to 1");
    const size_t from = reader->at;
    const bool zero = reader->text[from] == '0';
    bool good = skip_digits(reader) && (!zero || reader->at == from + 1);
    if (good && skip_one_of(reader, "."))
        good = skip_digits(reader);
    if (good && skip_one_of(reader, "eE")) {
        (void)skip_one_of(reader, "+-");
        good = skip_digits(reader);
    }
    const size_t len = reader->at - from;
    good = good && len < sizeof copy;
    memcpy(copy, reader->text + from, good ? len : 0);
    if (good && sscanf(copy, "%lf", out) == 1 && *out >= 0 && *out <= 1)
        return true;
    json_refuse(reader, "found a number at byte %zu, expected one from 0 to 1", from + 1);
    return false;
}

/* The word, if it is the next one. */
static bool take_word(struct json_reader *reader, const char *word)
{
    const size_t len = strlen(word);
    if (reader->len - reader->at < len || memcmp(reader->text + reader->at, word, len) != 0)
        return false;
    reader->at += len;
    return true;
}

bool json_take_flag(struct json_reader *reader, bool *out)
{
    if (reader->failed)
        return false;
    if (json_next_kind(reader) != JSON_KIND_FLAG)
        return refuse_type(reader, "true or false");
    *out = take_word(reader, "true");
    return *out || take_word(reader, "false") || refuse_byte(reader, "true or false");
}

bool json_take_null(struct json_reader *reader)
{
    return !reader->failed && json_next_kind(reader) == JSON_KIND_NULL && take_word(reader, "null");
}

bool json_take_scalar(struct json_reader *reader, struct wire_text *out)
{
    bool flag;
    if (reader->failed)
        return false;
    const enum json_kind type = json_next_kind(reader);
    if (type == JSON_KIND_STRING)
        return json_take_text(reader, out);
    if (type == JSON_KIND_NUMBER)
        return take_integer(reader, out);
    if (type != JSON_KIND_FLAG)
        return refuse_type(reader, "a string, a whole number, true or false");
    if (!json_take_flag(reader, &flag))
        return false;
    *out = wire_text_of(flag ? "true" : "false");
    return true;
}

/* Steps over a number of any form. */
static bool skip_number(struct json_reader *reader)
{
    (void)skip_one_of(reader, "-");
    const bool zero = reader->at < reader->len && reader->text[reader->at] == '0';
    const size_t from = reader->at;
    bool good = skip_digits(reader) && (!zero || reader->at == from + 1);
    if (good && skip_one_of(reader, "."))
        good = skip_digits(reader);
    if (good && skip_one_of(reader, "eE")) {
        (void)skip_one_of(reader, "+-");
        good = skip_digits(reader);
    }
    return good || refuse_byte(reader, "a number");
}

/* Steps over a value that has no parts, or opens one that has. */
static bool skip_begin(struct json_reader *reader)
{
    struct wire_text text;
    bool flag;
    switch (json_next_kind(reader)) {
    case JSON_KIND_OBJECT:
        return json_open_object(reader);
    case JSON_KIND_LIST:
        return json_open_list(reader);
    case JSON_KIND_STRING:
        return json_take_text(reader, &text);
    case JSON_KIND_NUMBER:
        return skip_number(reader);
    case JSON_KIND_FLAG:
        return json_take_flag(reader, &flag);
    case JSON_KIND_NULL:
        return json_take_null(reader) || refuse_byte(reader, "null");
    case JSON_KIND_NOTHING:
        break;
    }
    return refuse_byte(reader, "a value");
}

bool json_skip(struct json_reader *reader)
{
    const uint32_t depth = reader->depth;
    const size_t room_used = reader->room_used;
    struct wire_text key;
    if (reader->failed || !skip_begin(reader))
        return false;
    while (reader->depth > depth) { /* each turn closes one, or goes on to what is in it */
        const bool list = reader->levels[reader->depth - 1].list;
        reader->room_used = room_used;
        if ((list ? json_next_element(reader) : json_next_member(reader, &key)) &&
            !skip_begin(reader))
            return false;
        if (reader->failed)
            return false;
    }
    reader->room_used = room_used;
    return true;
}

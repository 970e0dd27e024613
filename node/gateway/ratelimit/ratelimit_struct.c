/* ratelimit_struct.c - see ratelimit_struct.h.
 *
 * The length of a message stands before it and is known behind it. So three bytes are left for
 * each, a varint that need not be the shortest, and filled in when the message is closed.
 */
#include "node/gateway/ratelimit/ratelimit_struct.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum {
    DEPTH_MAX = 20,
    LENGTH_LEN = 3,
    NUMBER_LEN = 40,
    /* Tags: the number of a field, and whether bytes or eight bytes follow. */
    FIELDS = 1 << 3 | 2, /* of Struct: entries */
    KEY = 1 << 3 | 2,    /* of an entry */
    VALUE = 2 << 3 | 2,
    VALUES = 1 << 3 | 2, /* of ListValue */
    NULL_VALUE = 1 << 3, /* of Value */
    NUMBER_VALUE = 2 << 3 | 1,
    STRING_VALUE = 3 << 3 | 2,
    BOOL_VALUE = 4 << 3,
    STRUCT_VALUE = 5 << 3 | 2,
    LIST_VALUE = 6 << 3 | 2
};

struct level {
    bool map;
    size_t body;  /* where its length stands; 0: it is the outermost */
    size_t value; /* that of the value that it is */
    size_t entry; /* and of the entry with that; 0: it is in a list */
};

struct writer {
    const char *json;
    size_t json_len;
    size_t at;
    uint8_t *out;
    size_t capacity;
    size_t len;
    bool failed;
    uint32_t depth;
    struct level levels[DEPTH_MAX];
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put_byte(struct writer *writer, unsigned byte)
{
    if (writer->len == writer->capacity)
        writer->failed = true;
    else
        writer->out[writer->len++] = (uint8_t)byte;
}

/* Begins a message or text; returns where its length stands. */
static size_t open_bytes(struct writer *writer, unsigned tag)
{
    put_byte(writer, tag);
    const size_t at = writer->len;
    for (int i = 0; i < LENGTH_LEN; i++)
        put_byte(writer, 0);
    return at;
}

static void close_bytes(struct writer *writer, size_t at)
{
    if (writer->failed)
        return;
    const size_t len = writer->len - at - LENGTH_LEN;
    ASSERT(len < 1U << (7 * LENGTH_LEN));
    for (unsigned i = 0; i < LENGTH_LEN; i++)
        writer->out[at + i] = (uint8_t)((len >> (7 * i) & 0x7f) | (i + 1 < LENGTH_LEN ? 0x80 : 0));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static char peek(const struct writer *writer)
{
    return writer->at < writer->json_len ? writer->json[writer->at] : '\0';
}

static bool take(struct writer *writer, char letter)
{
    if (peek(writer) != letter)
        return false;
    writer->at++;
    return true;
}

static unsigned hex(char digit)
{
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)((digit | 0x20) - 'a') + 10;
}

/* What compilation escapes: quote, backslash, and letters that are not seen, by four digits. */
static void put_escaped(struct writer *writer)
{
    const char letter = peek(writer);
    const size_t left = writer->json_len - writer->at;
    writer->at += left > 0;
    if (letter != 'u') {
        writer->failed = writer->failed || left == 0;
        put_byte(writer, (unsigned char)letter);
        return;
    }
    if (left < 5) {
        writer->failed = true;
        return;
    }
    unsigned code = 0;
    for (int i = 0; i < 4; i++)
        code = code << 4 | hex(writer->json[writer->at++]);
    if (code >= 0x800) {
        put_byte(writer, 0xe0 | code >> 12);
        put_byte(writer, 0x80 | (code >> 6 & 0x3f));
    } else if (code >= 0x80) {
        put_byte(writer, 0xc0 | code >> 6);
    }
    put_byte(writer, code < 0x80 ? code : 0x80 | (code & 0x3f));
}

/* A text, its quotes around it. */
static void put_text(struct writer *writer, unsigned tag)
{
    const size_t at = open_bytes(writer, tag);
    writer->failed = writer->failed || !take(writer, '"');
    while (!writer->failed && peek(writer) != '"') {
        if (writer->at >= writer->json_len)
            writer->failed = true;
        else if (take(writer, '\\'))
            put_escaped(writer);
        else
            put_byte(writer, (unsigned char)writer->json[writer->at++]);
    }
    writer->failed = writer->failed || !take(writer, '"');
    close_bytes(writer, at);
}

static void put_number(struct writer *writer)
{
    char text[NUMBER_LEN];
    size_t len = 0;
    uint64_t bits;
    while (len + 1 < sizeof text && strchr("+-.eE0123456789", peek(writer)) != NULL &&
           peek(writer) != '\0')
        text[len++] = writer->json[writer->at++];
    text[len] = '\0';
    writer->failed = writer->failed || len == 0;
    const double number = strtod(text, NULL);
    memcpy(&bits, &number, sizeof bits);
    put_byte(writer, NUMBER_VALUE);
    for (unsigned i = 0; i < sizeof bits; i++)
        put_byte(writer, (unsigned)(bits >> (8 * i) & 0xff));
}

static bool take_word(struct writer *writer, const char *word, unsigned tag, unsigned value)
{
    const size_t len = strlen(word);
    if (writer->json_len - writer->at < len || memcmp(writer->json + writer->at, word, len) != 0)
        return false;
    writer->at += len;
    put_byte(writer, tag);
    put_byte(writer, value);
    return true;
}

static void close_value(struct writer *writer, size_t value, size_t entry)
{
    close_bytes(writer, value);
    if (entry != 0)
        close_bytes(writer, entry);
}

/* The content of a Value whose length stands at `value`. A list or an object stays open. */
static void put_value(struct writer *writer, size_t value, size_t entry)
{
    const char letter = peek(writer);
    ASSERT(writer->at <= writer->json_len);
    if (letter == '{' || letter == '[') {
        if (writer->depth == DEPTH_MAX) {
            writer->failed = true;
            return;
        }
        writer->at++;
        const size_t body = open_bytes(writer, letter == '{' ? STRUCT_VALUE : LIST_VALUE);
        writer->levels[writer->depth++] = (struct level){letter == '{', body, value, entry};
        return;
    }
    if (letter == '"')
        put_text(writer, STRING_VALUE);
    else if (!take_word(writer, "true", BOOL_VALUE, 1) &&
             !take_word(writer, "false", BOOL_VALUE, 0) &&
             !take_word(writer, "null", NULL_VALUE, 0))
        put_number(writer);
    close_value(writer, value, entry);
}

/* The next thing within the innermost level, or its end. */
static void step(struct writer *writer)
{
    const struct level level = writer->levels[writer->depth - 1];
    if (take(writer, level.map ? '}' : ']')) {
        writer->depth--;
        if (level.body != 0) {
            close_bytes(writer, level.body);
            close_value(writer, level.value, level.entry);
        }
        return;
    }
    (void)take(writer, ',');
    if (!level.map) {
        put_value(writer, open_bytes(writer, VALUES), 0);
        return;
    }
    const size_t entry = open_bytes(writer, FIELDS);
    put_text(writer, KEY);
    writer->failed = writer->failed || !take(writer, ':');
    put_value(writer, open_bytes(writer, VALUE), entry);
}

size_t ratelimit_struct_put(const char *json, size_t len, uint8_t *out, size_t capacity)
{
    struct writer writer = {.json = json, .json_len = len, .out = out, .capacity = capacity};
    if (!take(&writer, '{'))
        return 0;
    writer.levels[writer.depth++] = (struct level){.map = true};
    while (writer.depth > 0 && !writer.failed)
        step(&writer);
    return writer.failed || writer.at != len ? 0 : writer.len;
}

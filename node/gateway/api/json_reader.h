/* json_reader.h - JSON read piece by piece, without a tree and without memory.
 *
 * Whoever reads says what is expected next; what is found instead ends the reading at once, with a
 * sentence that names the place:
 *
 *   {"checks": [{"key": "a", "rate": 5}]}      checks[0].rate: found a number, expected a string
 *
 * So a stranger's body of a million brackets costs what its first wrong byte costs. A tree of such
 * a body costs a decider a tenth of a second, and of a small one a fifth of its request.
 *
 * Strict (RFC 8259): UTF-8, no number but those of its grammar, no lone halves of a pair.
 *
 * JSONREADER-1  Nothing is read at or behind text + len.
 * JSONREADER-2  Behind the first mistake nothing is read any more: each function gives false.
 * JSONREADER-3  No recursion: what is open is a stack of JSON_DEPTH_MAX.
 *
 * Pure. Any thread, on the caller's memory.
 */
#ifndef NODE_GATEWAY_API_JSON_READER_H
#define NODE_GATEWAY_API_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire_base.h"

enum {
    JSON_DEPTH_MAX = 8,
    JSON_ERROR_LEN = 320 /* a sentence with its NUL */
};

enum json_kind {
    JSON_KIND_NOTHING, /* the end of the text, or what begins no value */
    JSON_KIND_OBJECT,
    JSON_KIND_LIST,
    JSON_KIND_STRING,
    JSON_KIND_NUMBER,
    JSON_KIND_FLAG, /* true, false */
    JSON_KIND_NULL
};

/* An object or a list that is open, and where in it the reader is. */
struct json_level {
    bool list;
    bool begun;           /* its first member or element was asked for */
    uint32_t index;       /* of the element */
    struct wire_text key; /* of the member */
};

struct json_reader {
    const char *text;
    size_t len;
    size_t at;
    char *room; /* for strings that are written with escapes */
    size_t room_len;
    size_t room_used; /* may be set back, when what was read is not needed any more */
    uint32_t depth;
    bool failed;
    struct json_level levels[JSON_DEPTH_MAX];
    char error[JSON_ERROR_LEN]; /* if it has failed */
};

void json_reader_begin(struct json_reader *reader, const char *text, size_t len, char *room,
                       size_t room_len);
/* Whether nothing but blanks is left. */
bool json_reader_end(struct json_reader *reader);

/* What comes next. */
enum json_kind json_next_kind(struct json_reader *reader);
/* A word for it in a sentence: "a string". */
const char *json_kind_name(enum json_kind type);

/* Opens the object, or list, that is expected next. */
bool json_open_object(struct json_reader *reader);
bool json_open_list(struct json_reader *reader);
/* The next member of the innermost object, whose value is to be read then. False: there is none,
 * and the object is closed, or it has failed. */
bool json_next_member(struct json_reader *reader, struct wire_text *key);
/* The next element of the innermost list, likewise. */
bool json_next_element(struct json_reader *reader);

/* Values. A text lies in what is read, or in the room. */
bool json_take_text(struct json_reader *reader, struct wire_text *out);
bool json_take_unsigned(struct json_reader *reader, uint64_t max, uint64_t *out);
/* A whole number of 64 bits; also in quotes. */
bool json_take_signed(struct json_reader *reader, int64_t *out);
/* A number from 0 to 1. */
bool json_take_share(struct json_reader *reader, double *out);
bool json_take_flag(struct json_reader *reader, bool *out);
/* A string, or a whole number, true or false as they are written. */
bool json_take_scalar(struct json_reader *reader, struct wire_text *out);

/* Takes null, if that comes next. */
bool json_take_null(struct json_reader *reader);

/* Steps over whatever value comes next. */
bool json_skip(struct json_reader *reader);

/* Ends the reading for what the caller has found wrong at this place. */
void json_refuse(struct json_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

/* mp.h - bounded msgpack: a writer over caller memory and a token reader without allocation.
 *
 * Writing uses msgpack-c's packer with a callback that stops at the bound. Reading drives
 * msgpack-c's own parser template, whose callbacks fill a flat array of tokens in document
 * order. Nothing is allocated, no declared count is trusted, and nesting is
 * limited by the parser's fixed stack; so hostile bytes cost at most one pass.
 *
 *   [1, {"a": "xy"}]  ->  ARRAY(2) UINT(1) MAP(1) STR("a") STR("xy")
 *
 * A cursor then walks the tokens. Its errors are sticky: after a token of another type than
 * the one asked for, `failed` is set and all later reads give zero or empty values.
 */
#ifndef BASE_MP_H
#define BASE_MP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum mp_type {
    MP_NIL,
    MP_BOOL,
    MP_UINT,
    MP_INT,
    MP_FLOAT,
    MP_STR,
    MP_BIN,
    MP_EXT,
    MP_ARRAY,
    MP_MAP
};

/* Containers within containers; msgpack-c's parser has this much stack. */
enum { MP_DEPTH_MAX = 32 };

struct mp_token {
    enum mp_type type;
    uint32_t count; /* ARRAY: elements, MAP: pairs, STR/BIN/EXT: bytes */
    union {
        uint64_t uint; /* UINT, BOOL (0 or 1) */
        int64_t sint;  /* INT: negative values only */
        double real;
        const uint8_t *data; /* STR, BIN, EXT: in place in the input */
    };
};

/* Parses exactly one msgpack value that must span all `len` bytes into at most `tokens_max`
 * tokens. Returns the number of tokens, TG_EPROTOCOL (malformed, truncated or trailing bytes)
 * or TG_ETOOBIG (more tokens than fit, or nested too deep). Tokens point into `data`. */
MUST_USE int mp_parse(const void *data, size_t len, struct mp_token *tokens, size_t tokens_max);

struct mp_cursor {
    const struct mp_token *tokens;
    size_t count;
    size_t at;
    bool failed;
};

void mp_cursor_init(struct mp_cursor *cursor, const struct mp_token *tokens, size_t count);
enum mp_type mp_peek_type(const struct mp_cursor *cursor); /* MP_NIL at the end */
uint32_t mp_get_array(struct mp_cursor *cursor);           /* number of elements that follow */
uint32_t mp_get_map(struct mp_cursor *cursor);             /* number of pairs that follow */
uint64_t mp_get_uint(struct mp_cursor *cursor);
int64_t mp_get_int(struct mp_cursor *cursor); /* UINT up to INT64_MAX, or INT */
bool mp_get_bool(struct mp_cursor *cursor);
double mp_get_real(struct mp_cursor *cursor); /* FLOAT, UINT or INT */
const char *mp_get_str(struct mp_cursor *cursor, size_t *len);
const uint8_t *mp_get_bin(struct mp_cursor *cursor, size_t *len);
/* A BIN of exactly `len` bytes, else NULL (and failed): test for it before reading there. */
const uint8_t *mp_get_bin_exact(struct mp_cursor *cursor, size_t len);
/* Copies a STR into a NUL-terminated buffer; fails if it does not fit or holds a NUL. */
void mp_copy_str(struct mp_cursor *cursor, char *out, size_t capacity);
/* Steps over one whole value, whatever its type. */
void mp_skip(struct mp_cursor *cursor);

struct mp_writer {
    uint8_t *data;
    size_t len;
    size_t capacity;
    size_t tokens; /* values that were put: what mp_parse makes of it */
    bool failed;   /* sticky: the bound was reached, and what was written is of no use */
};

void mp_writer_init(struct mp_writer *writer, void *data, size_t capacity);
void mp_put_nil(struct mp_writer *writer);
void mp_put_bool(struct mp_writer *writer, bool value);
void mp_put_uint(struct mp_writer *writer, uint64_t value);
void mp_put_int(struct mp_writer *writer, int64_t value);
void mp_put_real(struct mp_writer *writer, double value);
void mp_put_str(struct mp_writer *writer, const char *text); /* NUL-terminated */
void mp_put_strn(struct mp_writer *writer, const char *text, size_t len);
void mp_put_bin(struct mp_writer *writer, const void *data, size_t len);
void mp_put_array(struct mp_writer *writer, size_t count);
void mp_put_map(struct mp_writer *writer, size_t pairs);
/* Starts a BIN of `len` bytes and returns where to write them, NULL when it does not fit. */
uint8_t *mp_reserve_bin(struct mp_writer *writer, size_t len);

#endif

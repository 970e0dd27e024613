/* wire_field.h - reading one field after the other, each refusal with a sentence. Internal.
 *
 * The decoders of wire_*.c share it. A reader walks the tokens of one message; its first
 * failure is kept and every later read gives zero, so a decoder reads straight through and looks
 * at the status once, before it uses anything as an index.
 *
 * Only client/protocol/wire*.c may include this.
 */
#ifndef CLIENT_PROTOCOL_WIRE_FIELD_H
#define CLIENT_PROTOCOL_WIRE_FIELD_H

#include <endian.h>
#include <string.h>

#include "base/mp.h"
#include "client/protocol/wire_base.h"

struct wire_reader {
    struct mp_cursor cursor;
    char *error; /* WIRE_ERROR_LEN bytes */
    int status;  /* 0 or the first failure */
};

/* Peeks, parses and checks that the message is a `type` with at least `elements` elements; then
 * the cursor stands behind [version, type]. Returns the status. */
MUST_USE int wire_reader_open(struct wire_reader *reader, const void *frame, size_t len,
                              enum wire_type type, uint32_t elements, struct mp_token *tokens,
                              size_t tokens_max, char *error);

/* Keeps the first failure: `code` and a sentence. */
void wire_reader_fail(struct wire_reader *reader, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint64_t wire_read_uint(struct wire_reader *reader, const char *field, uint64_t min, uint64_t max);
int64_t wire_read_int(struct wire_reader *reader, const char *field, int64_t min, int64_t max);
bool wire_read_bool(struct wire_reader *reader, const char *field);
struct wire_text wire_read_text(struct wire_reader *reader, const char *field, size_t min,
                                size_t max);
/* A bin of exactly `len` bytes; NULL when the reader has failed. */
const uint8_t *wire_read_bin(struct wire_reader *reader, const char *field, size_t len);
/* A bin of any length. */
const uint8_t *wire_read_blob(struct wire_reader *reader, const char *field, size_t *len);
/* An array of min to max elements; returns their number, 0 when the reader has failed. */
uint32_t wire_read_array(struct wire_reader *reader, const char *field, uint32_t min, uint32_t max);
/* Steps over `count` values that only a newer release knows. */
void wire_read_extra(struct wire_reader *reader, uint32_t count);

/* Starts a message: the array head, version and type. */
void wire_put_head(struct mp_writer *writer, enum wire_type type, size_t elements);
void wire_put_text(struct mp_writer *writer, struct wire_text text);
/* The frame's length, or TG_ETOOBIG if the writer failed or the frame is over WIRE_MESSAGE_MAX. */
MUST_USE int wire_put_end(const struct mp_writer *writer);
/* min <= len <= max and no NUL inside. */
bool wire_text_valid(struct wire_text text, size_t min, size_t max);

/* Bytes of the one msgpack value at `data`, or 0 if it is cut short or ill-formed. */
size_t wire_span(const uint8_t *data, size_t len);

/* Columns are little-endian whatever the machine. */
static inline void wire_set_u16(uint8_t *column, size_t index, uint16_t value)
{
    const uint16_t little = htole16(value);
    memcpy(column + index * sizeof little, &little, sizeof little);
}
static inline void wire_set_u32(uint8_t *column, size_t index, uint32_t value)
{
    const uint32_t little = htole32(value);
    memcpy(column + index * sizeof little, &little, sizeof little);
}
static inline void wire_set_u64(uint8_t *column, size_t index, uint64_t value)
{
    const uint64_t little = htole64(value);
    memcpy(column + index * sizeof little, &little, sizeof little);
}

/* Whole columns of `count` elements, each in one copy where the machine is little-endian. */
void wire_set_u16s(uint8_t *restrict column, const uint16_t *restrict values, size_t count);
void wire_set_u32s(uint8_t *restrict column, const uint32_t *restrict values, size_t count);
void wire_set_u64s(uint8_t *restrict column, const uint64_t *restrict values, size_t count);

#endif

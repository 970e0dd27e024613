/* bytes.h - bounded little-endian readers and writers over caller memory.
 *
 *   str16   | len u16 | bytes ... |
 *
 * Errors are sticky: after the first read past the end or write past the bound, `failed`
 * is set, reads give 0 and writes do nothing, so a codec checks once at its end.
 *
 * Each value is composed byte by byte: no struct is ever copied to the wire and no alignment or
 * byte order of the machine shows. Fields of fixed length are inline, for a record has a dozen of
 * them; the compiler makes one store or load of each.
 *
 * BYTES-1  writer: len <= capacity; reader: at <= len. Both hold whatever the input was.
 * BYTES-2  Once failed, nothing moves: a writer's len and a reader's at stay where they were.
 * BYTES-3  A field is put or got whole or not at all.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct bytes_writer {
    uint8_t *data;
    size_t len;      /* written so far */
    size_t capacity; /* bound */
    bool failed;
};

struct bytes_reader {
    const uint8_t *data;
    size_t len;
    size_t at;
    bool failed;
};

/* ---- columns: element `index` of a little-endian array, unchecked: its length was -------------
 */

static inline uint16_t bytes_u16_at(const uint8_t *column, size_t index)
{
    const uint8_t *p = column + index * 2;
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t bytes_u32_at(const uint8_t *column, size_t index)
{
    const uint8_t *p = column + index * 4;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t bytes_u64_at(const uint8_t *column, size_t index)
{
    const uint8_t *p = column + index * 8;
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

static inline void bytes_set_u16(uint8_t *place, uint16_t value)
{
    place[0] = (uint8_t)value;
    place[1] = (uint8_t)(value >> 8);
}

static inline void bytes_set_u32(uint8_t *place, uint32_t value)
{
    place[0] = (uint8_t)value;
    place[1] = (uint8_t)(value >> 8);
    place[2] = (uint8_t)(value >> 16);
    place[3] = (uint8_t)(value >> 24);
}

static inline void bytes_set_u64(uint8_t *place, uint64_t value)
{
    bytes_set_u32(place, (uint32_t)value);
    bytes_set_u32(place + 4, (uint32_t)(value >> 32));
}

/* ---- writing --------------------------------------------------------------------------------- */

void bytes_writer_init(struct bytes_writer *writer, void *data, size_t capacity);

/* The place of the next `len` bytes, which are to be written there, or NULL (and failed) when the
 * bound is reached. */
static inline uint8_t *bytes_claim(struct bytes_writer *writer, size_t len)
{
    if (writer->failed || len > writer->capacity - writer->len) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *place = writer->data + writer->len;
    writer->len += len;
    return place;
}

void bytes_put(struct bytes_writer *writer, const void *data, size_t len);

static inline void bytes_put_u8(struct bytes_writer *writer, uint8_t value)
{
    uint8_t *place = bytes_claim(writer, sizeof(value));
    if (place != NULL)
        *place = value;
}

static inline void bytes_put_u16(struct bytes_writer *writer, uint16_t value)
{
    uint8_t *place = bytes_claim(writer, sizeof(value));
    if (place != NULL)
        bytes_set_u16(place, value);
}

static inline void bytes_put_u32(struct bytes_writer *writer, uint32_t value)
{
    uint8_t *place = bytes_claim(writer, sizeof(value));
    if (place != NULL)
        bytes_set_u32(place, value);
}

static inline void bytes_put_u64(struct bytes_writer *writer, uint64_t value)
{
    uint8_t *place = bytes_claim(writer, sizeof(value));
    if (place != NULL)
        bytes_set_u64(place, value);
}

static inline void bytes_put_i64(struct bytes_writer *writer, int64_t value)
{
    bytes_put_u64(writer, (uint64_t)value); /* two's complement on the wire */
}

static inline void bytes_put_hash128(struct bytes_writer *writer, struct hash128 value)
{
    uint8_t *place = bytes_claim(writer, 16);
    if (place == NULL)
        return;
    bytes_set_u64(place, value.lo);
    bytes_set_u64(place + 8, value.hi);
}

/* A 16-bit length and then the bytes; fails if len > 65535. */
void bytes_put_str16(struct bytes_writer *writer, const void *data, size_t len);

/* ---- reading --------------------------------------------------------------------------------- */

void bytes_reader_init(struct bytes_reader *reader, const void *data, size_t len);

static inline size_t bytes_left(const struct bytes_reader *reader)
{
    return reader->len - reader->at;
}

/* `len` bytes in place, or NULL (and failed) if there are fewer. Lives as long as the input. */
static inline const uint8_t *bytes_take(struct bytes_reader *reader, size_t len)
{
    if (reader->failed || len > reader->len - reader->at) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *place = reader->data + reader->at;
    reader->at += len;
    return place;
}

static inline uint8_t bytes_get_u8(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 1);
    return place == NULL ? 0 : *place;
}

static inline uint16_t bytes_get_u16(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 2);
    return place == NULL ? 0 : bytes_u16_at(place, 0);
}

static inline uint32_t bytes_get_u32(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 4);
    return place == NULL ? 0 : bytes_u32_at(place, 0);
}

static inline uint64_t bytes_get_u64(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 8);
    return place == NULL ? 0 : bytes_u64_at(place, 0);
}

static inline int64_t bytes_get_i64(struct bytes_reader *reader)
{
    return (int64_t)bytes_get_u64(reader);
}

static inline struct hash128 bytes_get_hash128(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 16);
    if (place == NULL)
        return (struct hash128){0};
    return (struct hash128){.lo = bytes_u64_at(place, 0), .hi = bytes_u64_at(place, 1)};
}

/* A str16: returns its bytes in place, sets *len. */
const uint8_t *bytes_get_str16(struct bytes_reader *reader, size_t *len);

#endif

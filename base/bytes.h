/* bytes.h - bounded little-endian readers and writers over caller memory.
 *
 * Errors are sticky: after the first read past the end or write past the bound, `failed`
 * is set, reads give 0 and writes do nothing, so a codec checks once at its end.
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

void bytes_writer_init(struct bytes_writer *writer, void *data, size_t capacity);
void bytes_put(struct bytes_writer *writer, const void *data, size_t len);
void bytes_put_u8(struct bytes_writer *writer, uint8_t value);
void bytes_put_u16(struct bytes_writer *writer, uint16_t value);
void bytes_put_u32(struct bytes_writer *writer, uint32_t value);
void bytes_put_u64(struct bytes_writer *writer, uint64_t value);
void bytes_put_i64(struct bytes_writer *writer, int64_t value);
void bytes_put_hash128(struct bytes_writer *writer, struct hash128 value);
/* A 16-bit length and then the bytes; fails if len > 65535. */
void bytes_put_str16(struct bytes_writer *writer, const void *data, size_t len);
/* Overwrites an already written u32 at offset `at` (for counts known only at the end). */
void bytes_patch_u32(struct bytes_writer *writer, size_t at, uint32_t value);

void bytes_reader_init(struct bytes_reader *reader, const void *data, size_t len);
/* `len` bytes in place, or NULL (and failed) if there are fewer. Lives as long as the input. */
const uint8_t *bytes_take(struct bytes_reader *reader, size_t len);
uint8_t bytes_get_u8(struct bytes_reader *reader);
uint16_t bytes_get_u16(struct bytes_reader *reader);
uint32_t bytes_get_u32(struct bytes_reader *reader);
uint64_t bytes_get_u64(struct bytes_reader *reader);
int64_t bytes_get_i64(struct bytes_reader *reader);
struct hash128 bytes_get_hash128(struct bytes_reader *reader);
/* A str16: returns its bytes in place, sets *len. */
const uint8_t *bytes_get_str16(struct bytes_reader *reader, size_t *len);
static inline size_t bytes_left(const struct bytes_reader *reader)
{
    return reader->len - reader->at;
}

/* Unchecked columns: element `index` of a little-endian array whose length was checked. */
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
    return (uint64_t)bytes_u32_at(column, index * 2) | (uint64_t)bytes_u32_at(column, index * 2 + 1)
                                                           << 32;
}

#endif

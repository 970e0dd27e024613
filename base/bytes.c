/* bytes.c - little-endian fields written to and read from bounded memory.
 *
 *   str16   | len u16 | bytes ... |
 *
 * Each value is composed byte by byte: no struct is ever copied to the wire and no
 * alignment or byte order of the machine shows. Errors stick, so that a codec is a straight
 * line of puts or gets with one test at its end.
 *
 * I1  writer: len <= capacity; reader: at <= len. Both hold whatever the input was.
 * I2  Once failed, nothing moves: a writer's len and a reader's at stay where they were.
 * I3  A field is put or got whole or not at all.
 */
#include "base/bytes.h"

#include <string.h>

#include "base/assert.h"

void bytes_writer_init(struct bytes_writer *writer, void *data, size_t capacity)
{
    ASSERT(data != NULL || capacity == 0);
    *writer = (struct bytes_writer){.data = data, .capacity = capacity};
}

/* The place of the next `len` bytes, or NULL (and failed) when the bound is reached. */
static uint8_t *writer_claim(struct bytes_writer *writer, size_t len)
{
    if (writer->failed || len > writer->capacity - writer->len) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *place = writer->data + writer->len;
    writer->len += len;
    return place;
}

void bytes_put(struct bytes_writer *writer, const void *data, size_t len)
{
    if (len == 0)
        return; /* memcpy may not be handed NULL, not even for nothing */
    uint8_t *place = writer_claim(writer, len);
    if (place != NULL)
        memcpy(place, data, len);
}

static void store_u16(uint8_t *place, uint16_t value)
{
    place[0] = (uint8_t)value;
    place[1] = (uint8_t)(value >> 8);
}

static void store_u32(uint8_t *place, uint32_t value)
{
    store_u16(place, (uint16_t)value);
    store_u16(place + 2, (uint16_t)(value >> 16));
}

static void store_u64(uint8_t *place, uint64_t value)
{
    store_u32(place, (uint32_t)value);
    store_u32(place + 4, (uint32_t)(value >> 32));
}

void bytes_put_u8(struct bytes_writer *writer, uint8_t value)
{
    uint8_t *place = writer_claim(writer, sizeof(value));
    if (place != NULL)
        *place = value;
}

void bytes_put_u16(struct bytes_writer *writer, uint16_t value)
{
    uint8_t *place = writer_claim(writer, sizeof(value));
    if (place != NULL)
        store_u16(place, value);
}

void bytes_put_u32(struct bytes_writer *writer, uint32_t value)
{
    uint8_t *place = writer_claim(writer, sizeof(value));
    if (place != NULL)
        store_u32(place, value);
}

void bytes_put_u64(struct bytes_writer *writer, uint64_t value)
{
    uint8_t *place = writer_claim(writer, sizeof(value));
    if (place != NULL)
        store_u64(place, value);
}

void bytes_put_i64(struct bytes_writer *writer, int64_t value)
{
    bytes_put_u64(writer, (uint64_t)value); /* two's complement on the wire */
}

void bytes_put_hash128(struct bytes_writer *writer, struct hash128 value)
{
    uint8_t *place = writer_claim(writer, 16);
    if (place == NULL)
        return;
    store_u64(place, value.lo);
    store_u64(place + 8, value.hi);
}

void bytes_put_str16(struct bytes_writer *writer, const void *data, size_t len)
{
    if (len > UINT16_MAX) {
        writer->failed = true;
        return;
    }
    uint8_t *place = writer_claim(writer, 2 + len);
    if (place == NULL)
        return;
    store_u16(place, (uint16_t)len);
    if (len != 0)
        memcpy(place + 2, data, len);
}

void bytes_patch_u32(struct bytes_writer *writer, size_t at, uint32_t value)
{
    if (writer->failed)
        return; /* the field to patch may itself not have fitted */
    ASSERT(writer->len >= 4 && at <= writer->len - 4);
    store_u32(writer->data + at, value);
}

void bytes_reader_init(struct bytes_reader *reader, const void *data, size_t len)
{
    static const uint8_t nothing[1];

    ASSERT(data != NULL || len == 0);
    *reader = (struct bytes_reader){.data = data == NULL ? nothing : data, .len = len};
}

const uint8_t *bytes_take(struct bytes_reader *reader, size_t len)
{
    if (reader->failed || len > reader->len - reader->at) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *place = reader->data + reader->at;
    reader->at += len;
    return place;
}

uint8_t bytes_get_u8(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 1);
    return place == NULL ? 0 : *place;
}

uint16_t bytes_get_u16(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 2);
    return place == NULL ? 0 : bytes_u16_at(place, 0);
}

uint32_t bytes_get_u32(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 4);
    return place == NULL ? 0 : bytes_u32_at(place, 0);
}

uint64_t bytes_get_u64(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 8);
    return place == NULL ? 0 : bytes_u64_at(place, 0);
}

int64_t bytes_get_i64(struct bytes_reader *reader)
{
    return (int64_t)bytes_get_u64(reader);
}

struct hash128 bytes_get_hash128(struct bytes_reader *reader)
{
    const uint8_t *place = bytes_take(reader, 16);
    if (place == NULL)
        return (struct hash128){0};
    return (struct hash128){.lo = bytes_u64_at(place, 0), .hi = bytes_u64_at(place, 1)};
}

const uint8_t *bytes_get_str16(struct bytes_reader *reader, size_t *len)
{
    const size_t start = reader->at;
    const size_t wanted = bytes_get_u16(reader);
    const uint8_t *place = bytes_take(reader, wanted);

    if (place == NULL)
        reader->at = start; /* I3 */
    *len = place == NULL ? 0 : wanted;
    return place;
}

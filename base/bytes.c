/* bytes.c - the fields of bytes.h that have a length of their own. */
#include "base/bytes.h"

#include <string.h>

#include "base/assert.h"

void bytes_writer_init(struct bytes_writer *writer, void *data, size_t capacity)
{
    ASSERT(data != NULL || capacity == 0);
    *writer = (struct bytes_writer){.data = data, .capacity = capacity};
}

void bytes_put(struct bytes_writer *writer, const void *data, size_t len)
{
    ASSERT(writer->len <= writer->capacity);
    if (len == 0)
        return; /* memcpy may not be handed NULL, not even for nothing */
    uint8_t *place = bytes_claim(writer, len);
    if (place != NULL)
        memcpy(place, data, len);
}

void bytes_put_str16(struct bytes_writer *writer, const void *data, size_t len)
{
    ASSERT(data != NULL || len == 0);
    if (len > UINT16_MAX) {
        writer->failed = true;
        return;
    }
    uint8_t *place = bytes_claim(writer, 2 + len);
    if (place == NULL)
        return;
    bytes_set_u16(place, (uint16_t)len);
    if (len != 0)
        memcpy(place + 2, data, len);
}

void bytes_reader_init(struct bytes_reader *reader, const void *data, size_t len)
{
    static const uint8_t nothing[1];

    ASSERT(data != NULL || len == 0);
    *reader = (struct bytes_reader){.data = data == NULL ? nothing : data, .len = len};
}

const uint8_t *bytes_get_str16(struct bytes_reader *reader, size_t *len)
{
    ASSERT(reader->at <= reader->len);
    const size_t start = reader->at;
    const size_t wanted = bytes_get_u16(reader);
    const uint8_t *place = bytes_take(reader, wanted);

    if (place == NULL)
        reader->at = start; /* BYTES-3 */
    *len = place == NULL ? 0 : wanted;
    return place;
}

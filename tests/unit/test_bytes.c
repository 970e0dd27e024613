/* test_bytes.c - little-endian fields: layout, bounds, stickiness, hostile input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "tests/unit/support_death.h"

/* One field of each kind, in the order in which the tests below put and get them. */
static void put_one_of_each(struct bytes_writer *writer)
{
    bytes_put_u8(writer, 0x01);
    bytes_put_u16(writer, 0x0203);
    bytes_put_u32(writer, 0x04050607);
    bytes_put_u64(writer, 0x08090a0b0c0d0e0fULL);
    bytes_put_i64(writer, -2);
    bytes_put_hash128(writer, (struct hash128){.lo = 0x11, .hi = 0x22});
    bytes_put_str16(writer, "key", 3);
    bytes_put(writer, "\xaa\xbb", 2);
}

static const uint8_t one_of_each[] = {
    0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0xfe,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x11, 0,    0,    0,    0,    0,    0,    0,    0x22,
    0,    0,    0,    0,    0,    0,    0,    3,    0,    'k',  'e',  'y',  0xaa, 0xbb};

/* The bytes are little-endian whatever the machine is, because peers and disks outlive it. */
static void fields_are_laid_out_little_endian(void **state)
{
    struct bytes_writer writer;
    uint8_t data[100];

    (void)state;
    bytes_writer_init(&writer, data, sizeof(data));
    put_one_of_each(&writer);
    assert_false(writer.failed);
    assert_int_equal(writer.len, sizeof(one_of_each));
    assert_memory_equal(data, one_of_each, sizeof(one_of_each));
}

/* What was put is got again, and then nothing is left. */
static void fields_read_back_as_written(void **state)
{
    struct bytes_reader reader;
    size_t len;

    (void)state;
    bytes_reader_init(&reader, one_of_each, sizeof(one_of_each));
    assert_int_equal(bytes_get_u8(&reader), 0x01);
    assert_int_equal(bytes_get_u16(&reader), 0x0203);
    assert_int_equal(bytes_get_u32(&reader), 0x04050607);
    assert_true(bytes_get_u64(&reader) == 0x08090a0b0c0d0e0fULL);
    assert_int_equal(bytes_get_i64(&reader), -2);
    assert_true(hash128_equal(bytes_get_hash128(&reader), (struct hash128){0x11, 0x22}));
    const uint8_t *text = bytes_get_str16(&reader, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "key", 3);
    assert_memory_equal(bytes_take(&reader, 2), "\xaa\xbb", 2);
    assert_int_equal(bytes_left(&reader), 0);
    assert_false(reader.failed);
}

/* Under every smaller bound the writer fails, stays within it and does not move after that. */
static void a_writer_stops_at_every_bound(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity < sizeof(one_of_each); capacity++) {
        uint8_t *data = malloc(capacity + 1); /* of exact size, so that a sanitizer sees it */
        struct bytes_writer writer;
        data[capacity] = 0x5a;
        bytes_writer_init(&writer, data, capacity);
        put_one_of_each(&writer);
        assert_true(writer.failed);
        assert_true(writer.len <= capacity);
        assert_memory_equal(data, one_of_each, writer.len);
        assert_int_equal(data[capacity], 0x5a);
        const size_t len = writer.len;
        bytes_put(&writer, "", 0);
        bytes_put_u8(&writer, 1);
        assert_int_equal(writer.len, len);
        free(data);
    }
}

/* A small field after a failed large one is not written, or a gap would look like a message. */
static void failure_sticks_though_a_smaller_field_would_fit(void **state)
{
    struct bytes_writer writer;
    struct bytes_reader reader;
    uint8_t data[4] = {1, 2, 3, 4};

    (void)state;
    bytes_writer_init(&writer, data, sizeof(data));
    bytes_put_u64(&writer, 0);
    bytes_put_u8(&writer, 9);
    assert_true(writer.failed);
    assert_int_equal(writer.len, 0);
    assert_int_equal(data[0], 1);

    bytes_reader_init(&reader, data, sizeof(data));
    assert_true(bytes_get_u64(&reader) == 0);
    assert_true(reader.failed);
    assert_int_equal(bytes_get_u8(&reader), 0);
    assert_null(bytes_take(&reader, 0));
    assert_int_equal(bytes_left(&reader), 4);
}

/* Every truncation of a message is noticed, and no byte behind it is read. */
static void every_truncated_message_fails(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(one_of_each); len++) {
        uint8_t *data = malloc(len == 0 ? 1 : len);
        struct bytes_reader reader;
        size_t text_len;
        memcpy(data, one_of_each, len);
        bytes_reader_init(&reader, data, len);
        (void)bytes_get_u8(&reader);
        (void)bytes_get_u16(&reader);
        (void)bytes_get_u32(&reader);
        (void)bytes_get_u64(&reader);
        (void)bytes_get_i64(&reader);
        (void)bytes_get_hash128(&reader);
        (void)bytes_get_str16(&reader, &text_len);
        assert_null(bytes_take(&reader, 2));
        assert_true(reader.failed);
        free(data);
    }
}

/* A str16 whose length points past the end is refused whole, length included. */
static void a_string_longer_than_the_message_fails(void **state)
{
    const uint8_t data[] = {5, 0, 'a', 'b', 'c', 'd'};
    struct bytes_reader reader;
    size_t len = 99;

    (void)state;
    bytes_reader_init(&reader, data, sizeof(data));
    assert_null(bytes_get_str16(&reader, &len));
    assert_int_equal(len, 0);
    assert_true(reader.failed);
    assert_int_equal(reader.at, 0);
}

/* The length of a str16 has 16 bits: 65,535 bytes fit, one more is refused and not cut. */
static void a_string_of_more_than_16_bits_of_length_is_refused(void **state)
{
    static uint8_t text[65536], data[65538];
    struct bytes_writer writer;

    (void)state;
    bytes_writer_init(&writer, data, sizeof(data));
    bytes_put_str16(&writer, text, 65535);
    assert_false(writer.failed);
    assert_int_equal(writer.len, 65537);
    bytes_writer_init(&writer, data, sizeof(data));
    bytes_put_str16(&writer, text, 65536);
    assert_true(writer.failed);
    assert_int_equal(writer.len, 0);
}

/* Nothing at all is a valid thing to write and to read. */
static void empty_fields_and_empty_inputs_are_fine(void **state)
{
    struct bytes_writer writer;
    struct bytes_reader reader;
    uint8_t data[2];
    size_t len;

    (void)state;
    bytes_writer_init(&writer, NULL, 0);
    bytes_put(&writer, NULL, 0);
    assert_false(writer.failed);
    bytes_writer_init(&writer, data, sizeof(data));
    bytes_put_str16(&writer, NULL, 0);
    assert_false(writer.failed);
    bytes_reader_init(&reader, data, writer.len);
    assert_non_null(bytes_get_str16(&reader, &len));
    assert_int_equal(len, 0);
    bytes_reader_init(&reader, NULL, 0);
    assert_non_null(bytes_take(&reader, 0));
    assert_false(reader.failed);
}

/* Columns are read by index as if they were arrays. */
static void columns_are_indexed_by_element(void **state)
{
    const uint8_t column[16] = {1, 2, 3, 4, 5, 6, 7, 0x88, 9, 10, 11, 12, 13, 14, 15, 0xff};

    (void)state;
    assert_int_equal(bytes_u16_at(column, 1), 0x0403);
    assert_true(bytes_u32_at(column, 3) == 0xff0f0e0dU);
    assert_true(bytes_u64_at(column, 0) == 0x8807060504030201ULL);
    assert_true(bytes_u64_at(column, 1) == 0xff0f0e0d0c0b0a09ULL);
}

static void get_something(struct bytes_reader *reader, struct random *random)
{
    size_t len;

    switch (random_below(random, 6)) {
    case 0:
        (void)bytes_get_u8(reader);
        break;
    case 1:
        (void)bytes_get_u32(reader);
        break;
    case 2:
        (void)bytes_get_i64(reader);
        break;
    case 3:
        (void)bytes_get_hash128(reader);
        break;
    case 4:
        (void)bytes_take(reader, (size_t)random_next(random)); /* absurd lengths, mostly */
        break;
    default: {
        const uint8_t *text = bytes_get_str16(reader, &len);
        if (len > 0)
            assert_true(text >= reader->data && text + len <= reader->data + reader->len);
    }
    }
}

/* Any sequence of gets over any bytes stays within them and keeps at <= len. */
static void hostile_bytes_never_lead_outside(void **state)
{
    struct random random;

    (void)state;
    random_init(&random, 21);
    for (int round = 0; round < 20000; round++) {
        const size_t len = (size_t)random_below(&random, 40);
        uint8_t *data = malloc(len + (len == 0));
        struct bytes_reader reader;
        for (size_t i = 0; i < len; i++) /* small bytes make lengths that sometimes fit */
            data[i] = (uint8_t)random_below(&random, random_below(&random, 2) == 0 ? 4 : 256);
        bytes_reader_init(&reader, data, len);
        for (int i = 0; i < 12; i++) {
            get_something(&reader, &random);
            assert_true(reader.at <= len);
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_laid_out_little_endian),
        cmocka_unit_test(fields_read_back_as_written),
        cmocka_unit_test(a_writer_stops_at_every_bound),
        cmocka_unit_test(failure_sticks_though_a_smaller_field_would_fit),
        cmocka_unit_test(every_truncated_message_fails),
        cmocka_unit_test(a_string_longer_than_the_message_fails),
        cmocka_unit_test(a_string_of_more_than_16_bits_of_length_is_refused),
        cmocka_unit_test(empty_fields_and_empty_inputs_are_fine),
        cmocka_unit_test(columns_are_indexed_by_element),
        cmocka_unit_test(hostile_bytes_never_lead_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

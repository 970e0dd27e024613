/* test_resp_writer.c - replies to Redis clients, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/resp_writer.h"

static char bytes[1024];

static struct gateway_out writer_of(uint8_t protocol, size_t capacity)
{
    return (struct gateway_out){.data = bytes, .capacity = capacity, .protocol = protocol};
}

static void expect(const struct gateway_out *writer, const char *wanted)
{
    assert_false(writer->failed);
    assert_int_equal(writer->len, strlen(wanted));
    assert_memory_equal(bytes, wanted, writer->len);
}

static void put_all(struct gateway_out *writer)
{
    resp_put_array(writer, 8);
    resp_put_integer(writer, 0);
    resp_put_integer(writer, INT64_MIN);
    resp_put_text(writer, "hi");
    resp_put_simple(writer, "OK");
    resp_put_null(writer);
    resp_put_map(writer, 1);
    resp_put_text(writer, "k");
    resp_put_set(writer, 1);
    resp_put_bulk(writer, "\r\n", 2);
    resp_put_verbatim(writer, "text", 4);
}

/* A client of version 2 gets no type that it does not know. */
static void version_2_knows_few_types(void **state)
{
    (void)state;
    struct gateway_out writer = writer_of(2, sizeof bytes);
    put_all(&writer);
    expect(&writer, "*8\r\n:0\r\n:-9223372036854775808\r\n$2\r\nhi\r\n+OK\r\n$-1\r\n*2\r\n"
                    "$1\r\nk\r\n*1\r\n$2\r\n\r\n\r\n$4\r\ntext\r\n");
}

/* One of version 3 gets maps, sets, null and texts. */
static void version_3_has_more_types(void **state)
{
    (void)state;
    struct gateway_out writer = writer_of(3, sizeof bytes);
    put_all(&writer);
    expect(&writer, "*8\r\n:0\r\n:-9223372036854775808\r\n$2\r\nhi\r\n+OK\r\n_\r\n%1\r\n"
                    "$1\r\nk\r\n~1\r\n$2\r\n\r\n\r\n=8\r\ntxt:text\r\n");
}

/* What a client sent may be in an error: it cannot end the line, nor make it long. */
static void an_error_is_one_line(void **state)
{
    char text[RESP_ERROR_LEN_MAX + 100];
    (void)state;
    struct gateway_out writer = writer_of(2, sizeof bytes);
    resp_put_error(&writer, "ERR a\r\n+OK\r\n");
    expect(&writer, "-ERR a  +OK  \r\n");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    writer = writer_of(2, sizeof bytes);
    resp_put_error(&writer, text);
    assert_int_equal(writer.len, 1 + RESP_ERROR_LEN_MAX + 2);
}

/* With too little room nothing is written behind it, and it shows. */
static void nothing_is_written_behind_the_end(void **state)
{
    (void)state;
    struct gateway_out whole = writer_of(3, sizeof bytes);
    put_all(&whole);
    for (size_t capacity = 0; capacity < whole.len; capacity++) {
        struct gateway_out writer = writer_of(3, capacity);
        memset(bytes, '#', sizeof bytes);
        put_all(&writer);
        assert_true(writer.failed);
        assert_true(writer.len <= capacity);
        for (size_t i = capacity; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2_knows_few_types),
        cmocka_unit_test(version_3_has_more_types),
        cmocka_unit_test(an_error_is_one_line),
        cmocka_unit_test(nothing_is_written_behind_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

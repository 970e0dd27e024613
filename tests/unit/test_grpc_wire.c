/* test_grpc_wire.c - prefixes, time-outs and texts of gRPC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/grpc/grpc_arena.h"
#include "node/gateway/grpc/grpc_wire.h"

static void prefixes_are_a_flag_and_a_length(void **state)
{
    uint8_t bytes[GRPC_PREFIX_LEN];
    (void)state;
    grpc_prefix_write(bytes, 0x01020304);
    assert_memory_equal(bytes, "\0\1\2\3\4", 5);
    assert_int_equal(grpc_prefix_read(bytes).len, 0x01020304);
    assert_int_equal(grpc_prefix_read((const uint8_t *)"\1\xff\xff\xff\xff").len, UINT32_MAX);
    assert_int_equal(grpc_prefix_read((const uint8_t *)"\1\0\0\0\0").flag, 1);
}

static void timeouts_have_eight_digits_and_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } timeouts[] = {
        {"0n", 0},
        {"1n", 1},
        {"2u", 2000},
        {"500m", 500000000},
        {"1S", 1000000000},
        {"1M", 60000000000},
        {"1H", 3600000000000},
        {"99999999H", INT64_MAX},
        {"99999999S", INT64_C(99999999000000000)},
        {"", -1},
        {"S", -1},
        {"1", -1},
        {"1s", -1},
        {"-1S", -1},
        {"1SS", -1},
        {"123456789S", -1},
        {" 1S", -1},
        {"1.5S", -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++)
        assert_true(grpc_timeout_read(timeouts[i].text) == timeouts[i].ns);
}

static void what_is_said_is_printable_and_bounded(void **state)
{
    char out[GRPC_ESCAPED_LEN];
    char longest[2 * GRPC_ESCAPED_LEN];
    (void)state;
    grpc_message_escape("50% of caf\xc3\xa9\r\n\x7f~ ", out);
    assert_string_equal(out, "50%25 of caf%C3%A9%0D%0A%7F~ ");
    memset(longest, '\n', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    grpc_message_escape(longest, out);
    assert_true(strlen(out) % 3 == 0 && strlen(out) < sizeof out);
}

/* What has no name is not told where statuses are counted. */
static void each_status_that_is_given_has_its_name(void **state)
{
    static const struct {
        enum grpc_status status;
        const char *name;
    } all[] = {{GRPC_OK, "OK"},
               {GRPC_CANCELLED, "CANCELLED"},
               {GRPC_UNKNOWN, "UNKNOWN"},
               {GRPC_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
               {GRPC_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"},
               {GRPC_NOT_FOUND, "NOT_FOUND"},
               {GRPC_PERMISSION_DENIED, "PERMISSION_DENIED"},
               {GRPC_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"},
               {GRPC_OUT_OF_RANGE, "OUT_OF_RANGE"},
               {GRPC_UNIMPLEMENTED, "UNIMPLEMENTED"},
               {GRPC_INTERNAL, "INTERNAL"},
               {GRPC_UNAVAILABLE, "UNAVAILABLE"},
               {GRPC_UNAUTHENTICATED, "UNAUTHENTICATED"}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_string_equal(grpc_status_name(all[i].status), all[i].name);
}

static void types_are_those_of_protobuf(void **state)
{
    (void)state;
    assert_true(grpc_type_fits("application/grpc"));
    assert_true(grpc_type_fits("application/grpc+proto"));
    assert_true(grpc_type_fits("application/grpc;charset=x"));
    assert_false(grpc_type_fits("application/grpc+json"));
    assert_false(grpc_type_fits("application/grpc-web"));
    assert_false(grpc_type_fits("application/grp"));
    assert_false(grpc_type_fits(""));
}

static void an_arena_gives_what_it_has_and_no_more(void **state)
{
    static struct grpc_arena arena;
    (void)state;
    grpc_arena_reset(&arena);
    uint8_t *first = arena.allocator.alloc(&arena, 1);
    uint8_t *second = arena.allocator.alloc(&arena, GRPC_ARENA_LEN - 16);
    assert_non_null(first);
    assert_ptr_equal(second, first + 16);
    assert_false(arena.full);
    assert_null(arena.allocator.alloc(&arena, 1));
    assert_true(arena.full);
    grpc_arena_reset(&arena);
    assert_null(arena.allocator.alloc(&arena, SIZE_MAX));
    assert_ptr_equal(arena.allocator.alloc(&arena, 5), first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_a_flag_and_a_length),
        cmocka_unit_test(timeouts_have_eight_digits_and_a_unit),
        cmocka_unit_test(what_is_said_is_printable_and_bounded),
        cmocka_unit_test(each_status_that_is_given_has_its_name),
        cmocka_unit_test(types_are_those_of_protobuf),
        cmocka_unit_test(an_arena_gives_what_it_has_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

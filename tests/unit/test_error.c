/* test_error.c - the error map: numbers, names, messages and retryability. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"

struct known_error {
    int code;
    const char *name;
    int retryable;
};

static const struct known_error known[] = {
#define KNOWN(name, value, message, retryable) {value, "TG_E" #name, retryable},
    TG_ERROR_MAP(KNOWN)
#undef KNOWN
};
enum { KNOWN_COUNT = sizeof(known) / sizeof(known[0]) };

/* Each code of the map answers with its own name, a message of its own and its retryability. */
static void every_code_has_its_name_message_and_retryability(void **state)
{
    (void)state;
    for (int i = 0; i < KNOWN_COUNT; i++) {
        assert_string_equal(error_name(known[i].code), known[i].name);
        assert_string_not_equal(error_message(known[i].code), "unknown error");
        assert_int_equal(error_retryable(known[i].code), known[i].retryable);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(error_message(known[i].code), error_message(known[j].code));
    }
}

/* The numbers are wire protocol: these must never change. */
static void the_numbers_are_those_of_the_protocol(void **state)
{
    (void)state;
    assert_int_equal(TG_OK, 0);
    assert_int_equal(TG_EINVALID, -1);
    assert_int_equal(TG_ETIMEOUT, -3);
    assert_int_equal(TG_EPROTOCOL, -5);
    assert_int_equal(TG_EUNAVAILABLE, -15);
    assert_int_equal(TG_ECONFLICT, -18);
    for (int i = 0; i < KNOWN_COUNT; i++)
        assert_int_equal(known[i].code, -1 - i);
}

/* A number from a newer peer is no error of ours, and must still be printable. */
static void an_unknown_number_is_printable_and_not_retryable(void **state)
{
    const int unknown[] = {1, 99, -KNOWN_COUNT - 1, INT_MIN, INT_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_string_equal(error_message(unknown[i]), "unknown error");
        assert_string_equal(error_name(unknown[i]), "unknown");
        assert_int_equal(error_retryable(unknown[i]), 0);
    }
}

/* Success is not an error and is named as what it is. */
static void zero_is_success(void **state)
{
    (void)state;
    assert_string_equal(error_name(0), "TG_OK");
    assert_string_equal(error_message(0), "success");
    assert_int_equal(error_retryable(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_name_message_and_retryability),
        cmocka_unit_test(the_numbers_are_those_of_the_protocol),
        cmocka_unit_test(an_unknown_number_is_printable_and_not_retryable),
        cmocka_unit_test(zero_is_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

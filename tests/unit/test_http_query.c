/* test_http_query.c - pairs of a query, decoded once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/http/http_query.h"

/* All pairs as "[name|value]", then "." at the end or "!" where it is bad. */
static const char *read_all(const char *text, size_t room_len)
{
    static char out[512];
    char room[256];
    struct wire_text name;
    struct wire_text value;
    const size_t text_len = strlen(text);
    char *copy = malloc(text_len + 1); /* a sanitizer sees reading behind it */
    assert_non_null(copy);
    memcpy(copy + 1, text, text_len);
    struct http_query query = {{copy + 1, text_len}};
    enum http_query_found found;
    size_t len = 0;
    while ((found = http_query_next(&query, room, room_len, &name, &value)) == HTTP_QUERY_PAIR)
        len += (size_t)snprintf(out + len, sizeof out - len, "[%.*s|%.*s]", (int)name.len,
                                name.data, (int)value.len, value.data);
    (void)snprintf(out + len, sizeof out - len, "%s", found == HTTP_QUERY_END ? "." : "!");
    free(copy);
    return out;
}

static void pairs_are_decoded_once(void **state)
{
    (void)state;
    assert_string_equal(read_all("", 256), ".");
    assert_string_equal(read_all("a=b&c=d", 256), "[a|b][c|d].");
    assert_string_equal(read_all("a&&b=&=c&", 256), "[a|][b|][|c].");
    assert_string_equal(read_all("a%20b=c+d&e=f%3D%26=%2B", 256), "[a b|c d][e|f=&=+].");
    assert_string_equal(read_all("a=%2541", 256), "[a|%41].");
}

static void what_is_no_escape_is_bad(void **state)
{
    static const char *const bad[] = {"a=%", "a=%4", "a=%4x", "%zz=1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_string_equal(read_all(bad[i], 256), "!");
    assert_string_equal(read_all("a=b&c=%", 256), "[a|b]!");
}

static void a_pair_has_its_room(void **state)
{
    (void)state;
    assert_string_equal(read_all("ab=cd&ef=gh", 4), "[ab|cd][ef|gh].");
    assert_string_equal(read_all("ab=cde", 4), "!");
    assert_string_equal(read_all("ab=c%64", 4), "[ab|cd].");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_decoded_once),
        cmocka_unit_test(what_is_no_escape_is_bad),
        cmocka_unit_test(a_pair_has_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

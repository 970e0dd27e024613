/* test_digest.c - digests of secrets, against the published BLAKE2b-256 vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"

/* Digests are kept on disk for years: they must be those of the standard (RFC 7693), not of this
 * machine. */
static void digests_are_blake2b_of_32_bytes(void **state)
{
    static const struct {
        const char *text;
        const char *digest;
    } cases[] = {
        {"", "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
        {"abc", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct digest digest;
        char text[DIGEST_TEXT_LEN + 1];
        digest_make(cases[i].text, strlen(cases[i].text), &digest);
        digest_format(&digest, text);
        assert_string_equal(text, cases[i].digest);
    }
}

/* What is written is read back, and nothing else is taken for a digest. */
static void a_digest_is_read_as_it_is_written(void **state)
{
    struct digest digest;
    struct digest read;
    char text[DIGEST_TEXT_LEN + 1];
    (void)state;
    digest_make("a key", 5, &digest);
    digest_format(&digest, text);
    assert_true(digest_parse(text, DIGEST_TEXT_LEN, &read) && digest_equal(&digest, &read));
    assert_true(digest_word(&digest) == digest_word(&read));
    read.bytes[DIGEST_LEN - 1] ^= 1;
    assert_false(digest_equal(&digest, &read));
    assert_false(digest_parse(text, DIGEST_TEXT_LEN - 1, &read));
    text[5] = 'G';
    assert_false(digest_parse(text, DIGEST_TEXT_LEN, &read));
    text[5] = 'A';
    assert_false(digest_parse(text, DIGEST_TEXT_LEN, &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_blake2b_of_32_bytes),
        cmocka_unit_test(a_digest_is_read_as_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

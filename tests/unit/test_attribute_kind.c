/* test_attribute_kind.c - one spelling of addresses and paths: the tables of tests/conformance,
 * then random texts against naive models, then what a request's values become.
 *
 * The naive path is a list of segments that is written anew; the naive address is what the C
 * library makes of it.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_path.h"

enum { LINE_LEN = 4096, PATH_LEN = 256 };

/* The one spelling, in `out` (which has room), and its length; 0: absent. */
static size_t spell(enum attribute_kind kind, const char *text, size_t len, char *out)
{
    static char room[POLICY_VALUE_LEN_MAX];
    struct policy_text value = {text, len};
    struct policy_ip ip;

    if (len > 0)
        attribute_kind_apply(kind, &value, &ip, room);
    memmove(out, value.data, value.len);
    return value.len;
}

/* --- the tables -------------------------------------------------------------------------- */

/* Decodes a field of the tables in place; its length. */
static size_t unescape(char *text)
{
    size_t to = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        if (text[i] != '\\') {
            text[to++] = text[i];
        } else if (text[++i] == 'x') {
            const char digits[] = {text[i + 1], text[i + 2], '\0'};
            text[to++] = (char)strtol(digits, NULL, 16);
            i += 2;
        } else {
            text[to++] = text[i] == 's' ? ' ' : text[i] == 't' ? '\t' : text[i];
        }
    }
    return to;
}

static void check_table(const char *path, enum attribute_kind kind)
{
    char line[LINE_LEN];
    char spelt[LINE_LEN];
    unsigned number = 0;
    unsigned rows = 0;
    unsigned wrong = 0;
    FILE *file = fopen(path, "r");

    assert_non_null(file); /* tests run in the root of the repository */
    while (fgets(line, sizeof line, file) != NULL) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        char *tab = strchr(line, '\t');
        if (line[0] == '\0' || strcmp(line, "#") == 0 || strncmp(line, "# ", 2) == 0)
            continue;
        assert_non_null(tab);
        *tab = '\0';
        const size_t len = unescape(line);
        const bool absent = strcmp(tab + 1, "absent") == 0;
        const size_t wanted_len = absent ? 0 : unescape(tab + 1);
        const size_t spelt_len = spell(kind, line, len, spelt);
        if (spelt_len != wanted_len || memcmp(spelt, tab + 1, wanted_len) != 0) {
            print_message("%s:%u: got %.*s, expected %.*s\n", path, number, (int)spelt_len, spelt,
                          (int)wanted_len, tab + 1);
            wrong++;
        }
        rows++;
    }
    (void)fclose(file);
    assert_int_equal(wrong, 0);
    assert_true(rows >= 200);
}

/* 200 spellings of addresses, each to the one that it is counted under. */
static void addresses_have_the_spelling_of_the_table(void **state)
{
    (void)state;
    check_table("tests/conformance/addresses.tsv", ATTRIBUTE_ADDRESS);
}

/* 200 spellings of paths. */
static void paths_have_the_spelling_of_the_table(void **state)
{
    (void)state;
    check_table("tests/conformance/paths.tsv", ATTRIBUTE_PATH);
}

/* --- paths against a naive model --------------------------------------------------------- */

/* Decodes one escape of an unreserved character, or writes one in upper case. False if there is
 * nothing to do. */
static bool naive_decode(char *text)
{
    static const char unreserved[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (char *at = text; (at = strchr(at, '%')) != NULL; at++) {
        if (strspn(at + 1, "0123456789abcdefABCDEF") < 2)
            continue;
        const char digits[] = {at[1], at[2], '\0'};
        const char c = (char)strtol(digits, NULL, 16);
        char upper[3];
        (void)snprintf(upper, sizeof upper, "%02X", (unsigned)(uint8_t)c);
        if (c != '\0' && strchr(unreserved, c) != NULL) {
            *at = c;
            memmove(at + 1, at + 3, strlen(at + 3) + 1);
            return true;
        }
        if (memcmp(at + 1, upper, 2) != 0) {
            memcpy(at + 1, upper, 2);
            return true;
        }
    }
    return false;
}

/* Takes `text` (a string) apart at its slashes and writes what is left of them. */
static void naive_path(char *text, char out[LINE_LEN])
{
    char *segments[LINE_LEN];
    size_t count = 0;
    bool rooted = text[0] == '/';

    text[strcspn(text, "?#")] = '\0';
    while (naive_decode(text)) {
    }
    while (!rooted && (strcmp(text, ".") == 0 || strcmp(text, "..") == 0 ||
                       strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0)) {
        text += strcspn(text, "/");
        text += *text == '/';
        rooted = text[0] == '/';
    }
    char *rest = text + rooted;
    for (bool more = *text != '\0'; more;) {
        char *segment = rest;
        rest += strcspn(rest, "/");
        more = *rest == '/';
        *rest++ = '\0';
        if (strcmp(segment, "..") == 0) {
            rooted = rooted || count < 2; /* a/../b is /b */
            count -= count > 0;
        } else if (strcmp(segment, ".") != 0) {
            segments[count++] = segment;
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (*segments[i] == '\0')
            rooted = rooted || i == 0;
        else
            at += (size_t)snprintf(out + at, LINE_LEN - at, "%s%s", rooted || at > 0 ? "/" : "",
                                   segments[i]);
    }
    if (at == 0)
        (void)snprintf(out, LINE_LEN, "/");
}

/* A text of few pieces, so that they meet in every order. */
static size_t random_path(struct random *random, char out[PATH_LEN])
{
    static const char *const pieces[] = {"/",   "/",   "//",  ".",   "..", "/./", "/../", "a",
                                         "b",   "%",   "%2",  "%2e", "4",  "1",   "%41",  "%2F",
                                         "%2f", "%7E", "%25", "%zz", "?",  "#",   "e",    "~"};
    const uint64_t count = 1 + random_below(random, 9);
    size_t len = 0;

    for (uint64_t i = 0; i < count; i++)
        len += (size_t)snprintf(out + len, PATH_LEN - len, "%s",
                                pieces[random_below(random, sizeof pieces / sizeof pieces[0])]);
    return len;
}

/* Paths are spelt as a naive model spells them, never longer than they came, each spelling is its
 * own, and what is called plain stays. */
static void random_paths_are_spelt_as_a_naive_model_spells_them(void **state)
{
    struct random random;
    char text[PATH_LEN];
    char copy[PATH_LEN];
    char spelt[PATH_LEN];
    char again[PATH_LEN];
    char wanted[LINE_LEN];

    (void)state;
    random_init(&random, 2026);
    for (int i = 0; i < 200000; i++) {
        const size_t len = random_path(&random, text);
        memcpy(copy, text, len + 1);
        naive_path(copy, wanted);
        const size_t spelt_len = policy_path_put(text, len, spelt);
        if (spelt_len != strlen(wanted) || memcmp(spelt, wanted, spelt_len) != 0)
            fail_msg("%s: got %.*s, expected %s", text, (int)spelt_len, spelt, wanted);
        assert_true(spelt_len >= 1 && spelt_len <= len);
        if (policy_path_put(spelt, spelt_len, again) != spelt_len ||
            memcmp(again, spelt, spelt_len) != 0)
            fail_msg("%s: %.*s is not its own spelling", text, (int)spelt_len, spelt);
        memcpy(again, text, len);
        assert_int_equal(policy_path_put(again, len, again), spelt_len); /* in its own place */
        assert_memory_equal(again, spelt, spelt_len);
        if (policy_path_is_plain(text, len))
            assert_int_equal(spelt_len, len);
        if (memchr(spelt, '%', spelt_len) == NULL && spelt[0] != '.' &&
            memmem(spelt, spelt_len, "/.", 2) == NULL)
            assert_true(policy_path_is_plain(spelt, spelt_len));
    }
}

/* What makes a path another spelling is seen wherever it stands, however long the path is. */
static void what_is_special_is_seen_at_every_place(void **state)
{
    static const char *const special[] = {"?", "#", "%", "//", "/."};
    char text[PATH_LEN];

    (void)state;
    for (size_t len = 1; len <= 70; len++) {
        memset(text, 'a', len);
        assert_true(policy_path_is_plain(text, len));
        for (size_t at = 0; at < len; at++) {
            text[at] = '/';
            assert_int_equal(policy_path_is_plain(text, len), at + 1 < len || len == 1);
            for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
                const size_t token_len = strlen(special[i]);
                if (at + token_len > len)
                    continue;
                memcpy(text + at, special[i], token_len);
                if (policy_path_is_plain(text, len))
                    fail_msg("%.*s is plain", (int)len, text);
                memset(text + at, 'a', token_len);
            }
            text[at] = 'a';
        }
    }
}

/* --- addresses ---------------------------------------------------------------------------- */

/* What stands around an address, and how its letters are written, changes nothing. */
static void an_address_is_one_whatever_stands_around_it(void **state)
{
    static const char *const around[] = {"%s",    " %s",      "%s\t",        "[%s]",
                                         "[%s]:", "[%s]:443", " [%s]:65535 "};
    struct random random;

    (void)state;
    random_init(&random, 7);
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[POLICY_IPV6_LEN];
        char plain[INET6_ADDRSTRLEN];
        char text[128];
        char spelt[128];
        const bool ipv6 = i % 2 == 0;
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = random_below(&random, 3) == 0 ? 0 : (uint8_t)random_next(&random);
        bytes[0] |= 0x20; /* neither mapped nor NAT64 */
        assert_non_null(inet_ntop(ipv6 ? AF_INET6 : AF_INET, bytes, plain, sizeof plain));
        int len = snprintf(text, sizeof text, around[random_below(&random, 7)], plain);
        if (!ipv6 && random_below(&random, 2) == 0)
            len =
                snprintf(text, sizeof text, "%s:%u", plain, (unsigned)random_below(&random, 65536));
        for (int c = 0; c < len; c++) {
            if (text[c] >= 'a' && text[c] <= 'f' && random_below(&random, 2) == 0)
                text[c] = (char)(text[c] - 'a' + 'A');
        }
        const size_t spelt_len = spell(ATTRIBUTE_ADDRESS, text, (size_t)len, spelt);
        if (spelt_len != strlen(plain) || memcmp(spelt, plain, spelt_len) != 0)
            fail_msg("%s: got %.*s, expected %s", text, (int)spelt_len, spelt, plain);
    }
}

/* Random texts of an address's characters are an address or not, and what they are is its own. */
static void the_spelling_of_an_address_is_its_own(void **state)
{
    static const char letters[] = "0123456789abcdefABCDEF::::....[]% /-x";
    struct random random;
    unsigned addresses = 0;

    (void)state;
    random_init(&random, 8);
    for (int i = 0; i < 300000; i++) {
        char text[32];
        char spelt[64];
        char again[64];
        const size_t len = 1 + random_below(&random, 12);
        for (size_t k = 0; k < len; k++)
            text[k] = letters[random_below(&random, sizeof letters - 1)];
        const size_t spelt_len = spell(ATTRIBUTE_ADDRESS, text, len, spelt);
        if (spelt_len == 0)
            continue;
        addresses++;
        assert_int_equal(spell(ATTRIBUTE_ADDRESS, spelt, spelt_len, again), spelt_len);
        assert_memory_equal(again, spelt, spelt_len);
    }
    assert_true(addresses > 100);
}

/* --- requests ----------------------------------------------------------------------------- */

static struct policy_attribute attribute(const char *name, const char *value)
{
    return (struct policy_attribute){name, strlen(name), value, strlen(value)};
}

/* A value in its one spelling stays where it is; another is written once; the rest is not touched.
 */
static void what_is_spelt_already_is_not_copied(void **state)
{
    struct policy_attribute given[] = {attribute("ip", "2001:db8::1"), attribute("api", "/a/b"),
                                       attribute("method", "GET"), attribute("user", "A//b?c"),
                                       attribute("path", "/x/")};
    struct policy_attribute before[sizeof given / sizeof given[0]];
    struct policy_spelling spelling;

    (void)state;
    memcpy(before, given, sizeof given);
    policy_spelling_begin(&spelling);
    assert_int_equal(attribute_kinds_apply(attribute_kinds_default(), given, 5, &spelling), 0);
    assert_memory_equal(given, before, 4 * sizeof given[0]);
    assert_ptr_equal(given[4].value, spelling.bytes);
    assert_int_equal(given[4].value_len, 2);
    assert_int_equal(spelling.used, 2);
    assert_int_equal(spelling.absent, 0);
}

/* What is no address is absent, and is counted. */
static void what_is_no_address_is_absent(void **state)
{
    struct policy_attribute given[] = {attribute("ip", "unknown"), attribute("ip", ""),
                                       attribute("ip", "-"), attribute("ip", "[::1]:80")};
    struct policy_spelling spelling;

    (void)state;
    policy_spelling_begin(&spelling);
    assert_int_equal(attribute_kinds_apply(attribute_kinds_default(), given, 4, &spelling), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(given[i].value_len, 0);
    assert_int_equal(given[3].value_len, 3);
    assert_memory_equal(given[3].value, "::1", 3);
    assert_int_equal(spelling.absent, 2); /* an empty value was absent before */
}

/* More than there is room for is refused, never cut; one value of each kind always has room. */
static void more_than_may_be_copied_is_refused(void **state)
{
    static char path[POLICY_VALUE_LEN_MAX + 2];
    struct policy_attribute given[5];
    struct policy_spelling spelling;

    (void)state;
    memset(path, 'x', sizeof path - 1);
    path[POLICY_VALUE_LEN_MAX - 1] = '/';
    for (size_t i = 0; i < 4; i++)
        given[i] = (struct policy_attribute){"api", 3, path, POLICY_VALUE_LEN_MAX};
    policy_spelling_begin(&spelling);
    assert_int_equal(attribute_kinds_apply(attribute_kinds_default(), given, 4, &spelling), 0);
    assert_int_equal(given[3].value_len, POLICY_VALUE_LEN_MAX - 1);
    for (size_t i = 0; i < 5; i++)
        given[i] = (struct policy_attribute){"api", 3, path, POLICY_VALUE_LEN_MAX};
    policy_spelling_begin(&spelling);
    assert_int_equal(attribute_kinds_apply(attribute_kinds_default(), given, 5, &spelling),
                     TG_EINVALID);
    given[0] = (struct policy_attribute){"api", 3, path, POLICY_VALUE_LEN_MAX + 1};
    policy_spelling_begin(&spelling);
    assert_int_equal(attribute_kinds_apply(attribute_kinds_default(), given, 1, &spelling), 0);
    assert_ptr_equal(given[0].value, path); /* longer than a value may be: to be refused */
}

/* The kinds of a file are the defaults but for what it says, in any order. */
static void a_file_says_which_attributes_have_which_kind(void **state)
{
    static const char *const texts[] = {
        "attributes: {api: verbatim, url: path, client: address, region: upper}\nrules: []",
        "attributes: {region: upper, client: address, url: path, api: verbatim}\nrules: []",
        "attributes: {}\nrules: []", "attributes: {api: path, ip: address, x: verbatim}\nrules: []",
        "rules: []"};
    struct policy *policies[5];
    struct policy_error error;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(
            policy_compile(texts[i], strlen(texts[i]), alloc_heap(), &policies[i], &error), 0);
    const struct attribute_kinds *kinds = policy_kinds(policies[0]);
    assert_int_equal(attribute_kinds_of(kinds, "api", 3), ATTRIBUTE_VERBATIM);
    assert_int_equal(attribute_kinds_of(kinds, "url", 3), ATTRIBUTE_PATH);
    assert_int_equal(attribute_kinds_of(kinds, "client", 6), ATTRIBUTE_ADDRESS);
    assert_int_equal(attribute_kinds_of(kinds, "region", 6), ATTRIBUTE_UPPER);
    assert_int_equal(attribute_kinds_of(kinds, "path", 4), ATTRIBUTE_PATH);
    assert_int_equal(attribute_kinds_of(kinds, "ip", 2), ATTRIBUTE_ADDRESS);
    assert_int_equal(attribute_kinds_of(kinds, "method", 6), ATTRIBUTE_UPPER);
    assert_int_equal(attribute_kinds_of(kinds, "user", 4), ATTRIBUTE_VERBATIM);
    assert_int_equal(attribute_kinds_of(policy_kinds(policy_empty()), "api", 3), ATTRIBUTE_PATH);
    assert_true(policy_digest(policies[0]) == policy_digest(policies[1]));
    assert_true(policy_digest(policies[0]) != policy_digest(policies[4]));
    assert_true(policy_digest(policies[2]) == policy_digest(policies[4]));
    assert_true(policy_digest(policies[3]) == policy_digest(policies[4]));
    for (size_t i = 0; i < 5; i++)
        policy_free(&policies[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_the_spelling_of_the_table),
        cmocka_unit_test(paths_have_the_spelling_of_the_table),
        cmocka_unit_test(random_paths_are_spelt_as_a_naive_model_spells_them),
        cmocka_unit_test(what_is_special_is_seen_at_every_place),
        cmocka_unit_test(an_address_is_one_whatever_stands_around_it),
        cmocka_unit_test(the_spelling_of_an_address_is_its_own),
        cmocka_unit_test(what_is_spelt_already_is_not_copied),
        cmocka_unit_test(what_is_no_address_is_absent),
        cmocka_unit_test(more_than_may_be_copied_is_refused),
        cmocka_unit_test(a_file_says_which_attributes_have_which_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

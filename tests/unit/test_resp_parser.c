/* test_resp_parser.c - requests of Redis clients: what is one, what is not, and any cut of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/gateway/resp_parser.h"
#include "tests/unit/support_effort.h"

static struct resp_request request;
static const char *problem;

/* Parses a copy that ends where its block ends, so that a sanitizer sees reading behind it. */
static int parse(const char *data, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    memcpy(copy, data, len);
    const int used = resp_parse(copy, len, &request, &problem);
    for (uint32_t i = 0; used > 0 && i < request.count; i++)
        if (request.arguments[i].data >= copy && request.arguments[i].data < copy + len)
            request.arguments[i].data = data + (request.arguments[i].data - copy);
    free(copy);
    return used;
}

static int parse_text(const char *text)
{
    return parse(text, strlen(text));
}

static void expect_word(uint32_t at, const char *word)
{
    assert_true(at < request.count);
    assert_int_equal(request.arguments[at].len, strlen(word));
    assert_memory_equal(request.arguments[at].data, word, strlen(word));
}

static void expect_refused(const char *text, const char *sentence)
{
    assert_int_equal(parse_text(text), TG_EPROTOCOL);
    assert_non_null(strstr(problem, sentence));
}

/* What client libraries send is taken from the front, and nothing behind it. */
static void arrays_of_bulk_strings_are_requests(void **state)
{
    (void)state;
    const char *two = "*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\n*1\r\n$4\r\nPING\r\n";
    assert_int_equal(parse_text(two), 25);
    assert_int_equal(request.count, 2);
    expect_word(0, "ECHO");
    expect_word(1, "a\r\nbc");
    assert_int_equal(parse_text(two + 25), 14);
    expect_word(0, "PING");
    assert_int_equal(parse_text("*1\r\n$0\r\n\r\n"), 10);
    assert_int_equal(request.arguments[0].len, 0);
    assert_int_equal(parse_text("*0\r\nx"), 4);
    assert_int_equal(request.count, 0);
    assert_int_equal(parse_text("*-1\r\n"), 5);
    assert_int_equal(request.count, 0);
}

/* What people type is taken as Redis takes it, quotes included. */
static void lines_are_requests(void **state)
{
    (void)state;
    assert_int_equal(parse_text("PING\r\nPING\r\n"), 6);
    assert_int_equal(request.count, 1);
    assert_int_equal(parse_text("  echo \t hi \n"), 13);
    expect_word(0, "echo");
    expect_word(1, "hi");
    assert_true(parse_text("\"a b\" 'c\\'d' \"\\x41\\n\\\"\\q\" a\"b c\"\r\n") > 0);
    assert_int_equal(request.count, 4);
    expect_word(0, "a b");
    expect_word(1, "c'd");
    expect_word(2, "A\n\"q");
    expect_word(3, "ab c");
    assert_true(parse_text("\"\" ''\n") > 0);
    assert_int_equal(request.count, 2);
    expect_word(0, "");
    assert_int_equal(parse_text("\r\n"), 2);
    assert_int_equal(request.count, 0);
}

/* Every beginning of a request waits for more. */
static void what_is_not_complete_waits(void **state)
{
    (void)state;
    const char *texts[] = {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n",
                           "say \"a b\" 'c' \\x\r\n"};
    for (size_t t = 0; t < 2; t++) {
        const size_t len = strlen(texts[t]);
        for (size_t cut = 0; cut < len; cut++)
            assert_int_equal(parse(texts[t], cut), 0);
        assert_int_equal(parse(texts[t], len), len);
    }
}

/* What is not the protocol is refused with what was expected. */
static void what_is_not_the_protocol_is_refused(void **state)
{
    (void)state;
    expect_refused("*x\r\n", "invalid multibulk length");
    expect_refused("*+1\r\n", "invalid multibulk length");
    expect_refused("*01\r\n", "invalid multibulk length");
    expect_refused("*\r\n", "invalid multibulk length");
    expect_refused("*1\rx", "invalid multibulk length");
    expect_refused("*1234567890", "invalid multibulk length");
    expect_refused("*1\r\nPING\r\n", "expected '$'");
    expect_refused("*1\r\n$-1\r\n", "invalid bulk length");
    expect_refused("*1\r\n$x\r\n", "invalid bulk length");
    expect_refused("*1\r\n$4\r\nPINGxx", "expected CRLF");
    expect_refused("*1\r\n$4\r\nPING\rx", "expected CRLF");
    expect_refused("\"a\n", "unbalanced quotes");
    expect_refused("'a\n", "unbalanced quotes");
    expect_refused("\"a\"b\n", "unbalanced quotes");
    expect_refused("POST / HTTP/1.1\r\n", "HTTP is not spoken here");
    expect_refused("Host: localhost\r\n", "HTTP is not spoken here");
    expect_refused("\x16\x03\x01", "TLS is not spoken here");
}

/* The bounds hold to the one, and before the bytes have come. */
static void bounds_are_kept(void **state)
{
    static char text[RESP_COMMAND_LEN_MAX + 64];
    (void)state;
    size_t len = (size_t)snprintf(text, sizeof text, "*%d\r\n", RESP_ARGUMENTS_MAX);
    for (int i = 0; i < RESP_ARGUMENTS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "$1\r\nx\r\n");
    assert_int_equal(parse(text, len), len);
    assert_int_equal(request.count, RESP_ARGUMENTS_MAX);
    expect_refused("*129\r\n", "invalid multibulk length; expected at most 128 arguments");
    len = (size_t)snprintf(text, sizeof text, "*1\r\n$%d\r\n", RESP_COMMAND_LEN_MAX - 14);
    memset(text + len, 'x', RESP_COMMAND_LEN_MAX - 14);
    memcpy(text + RESP_COMMAND_LEN_MAX - 2, "\r\n", 2);
    assert_int_equal(len, 12);
    assert_int_equal(parse(text, RESP_COMMAND_LEN_MAX - 1), 0);
    assert_int_equal(parse(text, RESP_COMMAND_LEN_MAX), RESP_COMMAND_LEN_MAX);
    expect_refused("*1\r\n$65523\r\n",
                   "invalid bulk length; expected at most 65536 bytes in a request");
    memset(text, 'x', sizeof text);
    assert_int_equal(parse(text, RESP_INLINE_MAX - 1), 0);
    assert_int_equal(parse(text, RESP_INLINE_MAX), TG_EPROTOCOL);
    text[RESP_INLINE_MAX] = '\n';
    assert_int_equal(parse(text, RESP_INLINE_MAX + 1), TG_EPROTOCOL);
    text[RESP_INLINE_MAX - 1] = '\n';
    assert_int_equal(parse(text, RESP_INLINE_MAX), RESP_INLINE_MAX);
    for (size_t i = 0; i < RESP_INLINE_MAX - 1; i += 2)
        text[i] = ' ';
    assert_int_equal(parse(text, RESP_INLINE_MAX), TG_EPROTOCOL);
}

/* ---- any cut --------------------------------------------------------------------------------- */

/* A digest of what was parsed, and where it ended. */
struct taken {
    uint64_t digest;
    size_t used;
    int result;
};

static void note(struct taken *outcome)
{
    outcome->digest = hash_mix64(outcome->digest ^ request.count);
    for (uint32_t i = 0; i < request.count; i++) {
        outcome->digest = hash_mix64(outcome->digest ^ request.arguments[i].len);
        for (size_t k = 0; k < request.arguments[i].len; k++)
            outcome->digest =
                hash_mix64(outcome->digest ^ (unsigned char)request.arguments[i].data[k]);
    }
}

static void take_all(const char *data, size_t len, struct taken *outcome)
{
    while (outcome->result >= 0) {
        outcome->result = resp_parse(data + outcome->used, len - outcome->used, &request, &problem);
        if (outcome->result <= 0)
            return;
        note(outcome);
        outcome->used += (size_t)outcome->result;
    }
}

static size_t put_random_request(struct random *random, char *out, size_t capacity)
{
    size_t len;
    const unsigned words = (unsigned)random_below(random, 6);
    if (random_below(random, 3) == 0) {
        len = (size_t)snprintf(out, capacity, "say %u \"a %u\" 'b'\r\n", words, words);
    } else {
        len = (size_t)snprintf(out, capacity, "*%u\r\n", words);
        for (unsigned i = 0; i < words; i++)
            len += (size_t)snprintf(out + len, capacity - len, "$%u\r\n%.*s\r\n", i * 3, (int)i * 3,
                                    "*1\r\n$2\r\nabcdefgh");
    }
    if (random_below(random, 8) == 0) /* now and then a byte is wrong */
        out[random_below(random, len)] = (char)random_below(random, 256);
    return len;
}

/* The same bytes give the same requests, and the same refusal, however they are cut. */
static void pieces_change_nothing(void **state)
{
    static char text[4096];
    struct random random;
    (void)state;
    random_init(&random, 11);
    for (unsigned round = 0; round < EFFORT(20000); round++) {
        size_t len = 0;
        const uint64_t requests = 1 + random_below(&random, 8);
        for (uint64_t i = 0; i < requests; i++)
            len += put_random_request(&random, text + len, sizeof text - len);
        struct taken whole = {.result = 0};
        take_all(text, len, &whole);
        struct taken pieces = {.result = 0};
        for (size_t come = 0; come < len && pieces.result >= 0;) {
            come += 1 + random_below(&random, len - come);
            take_all(text, come, &pieces);
        }
        assert_int_equal(whole.result, pieces.result);
        assert_int_equal(whole.used, pieces.used);
        assert_true(whole.digest == pieces.digest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_bulk_strings_are_requests),
        cmocka_unit_test(lines_are_requests),
        cmocka_unit_test(what_is_not_complete_waits),
        cmocka_unit_test(what_is_not_the_protocol_is_refused),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(pieces_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

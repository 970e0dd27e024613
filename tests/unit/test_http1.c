/* test_http1.c - requests of HTTP/1.1: what is one, what is not, with which status, and any cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "node/gateway/http/http1.h"
#include "tests/unit/support_effort.h"

#define H "Host: a\r\n"

enum { BIG = HTTP1_PENDING_MAX + 4096 };

static struct http1_request request;
static struct http1_refusal refusal;
static struct http1_progress progress;
static char room[HTTP1_BODY_MAX];
static char big[BIG];

/* Parses a copy that ends where its block ends, so that a sanitizer sees reading behind it. What is
 * found is moved to where the text is. */
static struct wire_text moved(struct wire_text text, const char *copy, const char *data, size_t len)
{
    if (text.data >= copy && text.data <= copy + len)
        text.data = data + (text.data - copy);
    return text;
}

static int parse(const char *data, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    memcpy(copy, data, len);
    const int used = http1_parse(&progress, copy, len, room, &request, &refusal);
    struct wire_text *texts[] = {&request.method_name, &request.target, &request.path,
                                 &request.query,       &request.host,   &request.body,
                                 &request.content_type};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = moved(*texts[i], copy, data, len);
    for (uint32_t i = 0; i < request.header_count; i++) {
        request.headers[i].name = moved(request.headers[i].name, copy, data, len);
        request.headers[i].value = moved(request.headers[i].value, copy, data, len);
    }
    free(copy);
    return used;
}

/* Of the whole text. */
static int parse_text(const char *text)
{
    memset(&progress, 0, sizeof progress);
    return parse(text, strlen(text));
}

static void expect_text(struct wire_text text, const char *expected)
{
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.data, expected, text.len);
}

static void expect_taken(const char *text)
{
    const int used = parse_text(text);
    if (used != (int)strlen(text))
        print_error("%s\n", used < 0 ? refusal.detail : text);
    assert_int_equal(used, strlen(text));
}

static void expect_refused_bytes(unsigned status, const char *text, size_t len)
{
    memset(&progress, 0, sizeof progress);
    const int used = parse(text, len);
    if (used != TG_EPROTOCOL || refusal.status != status)
        print_error("%d, status %u instead of %u: %s\n", used, refusal.status, status, text);
    assert_int_equal(used, TG_EPROTOCOL);
    assert_int_equal(refusal.status, status);
    assert_true(refusal.detail[0] != '\0');
}

static void expect_refused(unsigned status, const char *text)
{
    expect_refused_bytes(status, text, strlen(text));
}

/* A request with these header lines. */
static void expect_headers_refused(unsigned status, const char *lines)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "POST /x HTTP/1.1\r\n%s\r\n", lines);
    expect_refused(status, text);
}

/* ---- what is one ----------------------------------------------------------------------------- */

static void a_request_is_taken_apart(void **state)
{
    (void)state;
    expect_taken("POST /v1/check?status=200&x HTTP/1.1\r\nHost: localhost:7604\r\n"
                 "content-TYPE:\t application/json \r\nX-Empty:\r\nContent-Length: 5\r\n\r\nhello");
    assert_int_equal(request.method, HTTP1_POST);
    expect_text(request.path, "/v1/check");
    expect_text(request.query, "status=200&x");
    expect_text(request.host, "localhost:7604");
    expect_text(request.content_type, "application/json");
    expect_text(request.body, "hello");
    assert_int_equal(request.minor, 1);
    assert_true(request.keep_alive && !request.continues);
    assert_int_equal(request.header_count, 4);
    expect_text(*http1_header(&request, "x-empty"), "");
    assert_null(http1_header(&request, "X-Empt"));
}

static void requests_follow_one_another(void **state)
{
    const char *text = "GET /a HTTP/1.1\r\n" H "\r\nPOST /b HTTP/1.1\r\n" H
                       "Content-Length: 2\r\n\r\nhiGET /c HTTP/1.1\r\n" H "\r\n";
    static const char *const paths[] = {"/a", "/b", "/c"};
    size_t at = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        const int used = parse(text + at, strlen(text) - at);
        assert_true(used > 0);
        expect_text(request.path, paths[i]);
        at += (size_t)used;
    }
    assert_int_equal(at, strlen(text));
}

static void methods_are_told_apart(void **state)
{
    char text[64];
    (void)state;
    for (unsigned i = 0; i < HTTP1_TRACE; i++) {
        (void)snprintf(text, sizeof text, "%s /x HTTP/1.1\r\n" H "\r\n", http1_method_name(i));
        expect_taken(text);
        assert_int_equal(request.method, i);
    }
    expect_taken("get /x HTTP/1.1\r\n" H "\r\n"); /* methods have a case */
    assert_int_equal(request.method, HTTP1_EXTENSION);
    expect_taken("PROPFIND /x HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(request.method, HTTP1_EXTENSION);
    expect_text(request.method_name, "PROPFIND");
}

static void targets_have_the_forms_of_their_methods(void **state)
{
    (void)state;
    expect_taken("OPTIONS * HTTP/1.1\r\n" H "\r\n");
    expect_text(request.path, "*");
    expect_taken("GET http://A:80/p?q HTTP/1.1\r\nHost: a:80\r\n\r\n");
    expect_text(request.path, "/p");
    expect_text(request.query, "q");
    expect_taken("GET http://a HTTP/1.1\r\n" H "\r\n");
    expect_text(request.path, "/");
    expect_taken("GET https://a?q HTTP/1.1\r\n" H "\r\n");
    expect_text(request.path, "/");
    expect_taken("CONNECT a:443 HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET * HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET x HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET a:443 HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "CONNECT /x HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET http://b/ HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET http://u:p@a/ HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET http:///x HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET ftp://a/ HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET /x#y HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET /\x80 HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET  HTTP/1.1\r\n" H "\r\n");
}

static void connections_are_kept_by_the_rules_of_their_version(void **state)
{
    static const struct {
        const char *version;
        const char *header;
        bool keeps;
    } cases[] = {
        {"1.1", "", true},
        {"1.1", "Connection: close\r\n", false},
        {"1.1", "Connection: CLOSE\r\n", false},
        {"1.1", "Connection: x, close\r\n", false},
        {"1.1", "Connection: keep-alive\r\nConnection: close\r\n", false},
        {"1.1", "Connection: closed\r\n", true},
        {"1.0", "", false},
        {"1.0", "Connection: Keep-Alive\r\n", true},
        {"1.0", "Connection: keep-alive, close\r\n", false},
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "GET / HTTP/%s\r\n" H "%s\r\n", cases[i].version,
                       cases[i].header);
        expect_taken(text);
        assert_int_equal(request.keep_alive, cases[i].keeps);
    }
    expect_taken("GET / HTTP/1.0\r\n\r\n"); /* it needs no Host */
}

/* ---- what is none ---------------------------------------------------------------------------- */

static void lines_end_with_cr_and_lf(void **state)
{
    (void)state;
    expect_refused(400, "GET / HTTP/1.1\nHost: a\n\n");
    expect_refused(400, "GET / HTTP/1.1\r\nHost: a\n\r\n");
    expect_refused(400, "GET / HTTP/1.1\r\n" H "\n");
    expect_refused(400, "GET / HTTP/1.1\rHost: a\r\n\r\n");
    expect_refused(400, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n");
    expect_refused(400, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n");
    expect_refused(400, "\nGET / HTTP/1.1\r\n" H "\r\n");
}

static void one_empty_line_may_come_before_a_request(void **state)
{
    (void)state;
    expect_taken("\r\nGET / HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "\rGET / HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, " GET / HTTP/1.1\r\n" H "\r\n");
    memset(&progress, 0, sizeof progress);
    for (size_t len = 1; len < 3; len++)
        assert_int_equal(parse("\r\n\xff", len), 0);
    assert_int_equal(parse("\r\n\xff", 3), TG_EPROTOCOL); /* as soon as it is seen */
    assert_int_equal(parse_text("\r"), 0);
    assert_int_equal(parse_text("\r\n"), 0);
    assert_int_equal(parse_text(""), 0);
}

static void control_characters_are_refused_anywhere(void **state)
{
    (void)state;
    expect_refused_bytes(400, "GET /\0 HTTP/1.1\r\n" H "\r\n", 28);
    expect_refused_bytes(400, "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29);
    expect_refused_bytes(400, "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n", 28);
    expect_refused_bytes(400, "\0", 1);
    expect_headers_refused(400, H "X: \x01\r\n");
    expect_headers_refused(400, H "X: \x7f\r\n");
    expect_headers_refused(400, H "X: a\x0b\r\n");
    expect_taken("GET / HTTP/1.1\r\n" H "X: \t\xc3\xa4\r\n\r\n");
    expect_refused(400, "\x16\x03\x01"); /* TLS, at its first byte */
}

static void names_of_headers_are_words_before_a_colon(void **state)
{
    (void)state;
    expect_headers_refused(400, "Host : a\r\n");
    expect_headers_refused(400, "Host\t: a\r\n");
    expect_headers_refused(400, H ": b\r\n");
    expect_headers_refused(400, H "no colon\r\n");
    expect_headers_refused(400, H "a/b: c\r\n");
    expect_headers_refused(400, H " folded: b\r\n");
    expect_headers_refused(400, H "X: b\r\n\tfolded\r\n");
    expect_headers_refused(400, " Host: a\r\n");
    assert_non_null(strstr(refusal.detail, "folded"));
}

/* The gate may have to look again, when requests before it are answered. */
static void what_is_refused_is_refused_again(void **state)
{
    static const char *const bad[] = {"GET / HTTP/1.1\r\n" H H "\r\n",
                                      "GET / HTTP/1.1\r\nX : y\r\n" H "\r\n"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        expect_refused(400, bad[i]);
        assert_int_equal(parse(bad[i], strlen(bad[i])), TG_EPROTOCOL);
        assert_int_equal(refusal.status, 400);
    }
}

static void a_request_has_one_host(void **state)
{
    static const char *const bad[] = {"",         "a b", "a,b",  "a:",     "a:b",     "a:65536",
                                      "a:080808", ":80", "[::1", "[::1]x", "[x]",     "[]",
                                      "u@a",      "a/b", "a%41", "a?b",    "a:80:80", "\xc3\xa4"};
    static const char *const good[] = {"a",         "a.b-c_d",  "127.0.0.1:7604",
                                       "[::1]",     "[::1]:80", "[::ffff:1.2.3.4]:65535",
                                       "LOCALHOST."};
    char text[256];
    (void)state;
    expect_headers_refused(400, "");
    expect_headers_refused(400, H H);
    expect_headers_refused(400, H "hOST: b\r\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, "Host: %s\r\n", bad[i]);
        expect_headers_refused(400, text);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
        expect_taken(text);
    }
    expect_refused(400, "GET / HTTP/1.0\r\n" H H "\r\n");
}

/* What a proxy could take for another length. */
static void a_body_has_one_length(void **state)
{
    static const char *const bad[] = {
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5.0\r\n",
        "Content-Length:\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding:\r\n",
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, H "%s", bad[i]);
        expect_headers_refused(400, text);
    }
    expect_refused(400, "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
    expect_headers_refused(413, H "Content-Length: 1048577\r\n");
    expect_headers_refused(413, H "Content-Length: 18446744073709551617\r\n");
    expect_headers_refused(413, H "Content-Length: 99999999999999999999999999999999999999\r\n");
    expect_taken("POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n");
    expect_taken("POST / HTTP/1.1\r\n" H "Content-Length: 0002\r\n\r\nab");
    expect_taken("POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n");
}

static void what_means_one_thing_is_said_once(void **state)
{
    static const char *const names[] = {"Content-Type", "Origin", "Sec-Fetch-Site", "Expect",
                                        "Content-Encoding"};
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(text, sizeof text, H "%s: 100-continue\r\n%s: 100-continue\r\n", names[i],
                       names[i]);
        expect_headers_refused(400, text);
    }
}

static void other_versions_are_refused_as_such(void **state)
{
    (void)state;
    expect_refused(505, "GET /\r\n");
    expect_refused(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    expect_refused(505, "GET / HTTP/1.2\r\n" H "\r\n");
    expect_refused(505, "GET / HTTP/0.9\r\n" H "\r\n");
    expect_refused(505, "GET / HTTP/3.1\r\n" H "\r\n");
    expect_refused(400, "GET / http/1.1\r\n" H "\r\n");
    expect_refused(400, "GET / HTTP/1.10\r\n" H "\r\n");
    expect_refused(400, "GET / HTTP/1.1 \r\n" H "\r\n");
    expect_refused(400, "GET / x HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET /  HTTP/1.1\r\n" H "\r\n");
    expect_refused(400, "GET\r\n");
    expect_refused(400, "GET\t/ HTTP/1.1\r\n" H "\r\n");
}

static void expectations_other_than_continue_are_refused(void **state)
{
    (void)state;
    expect_headers_refused(417, H "Expect: 200-ok\r\n");
    expect_headers_refused(417, H "Expect:\r\n");
    const char *text = "POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
    assert_int_equal(parse_text(text), 0);
    assert_true(request.head_len == strlen(text) && request.continues);
    assert_int_equal(parse(text, strlen(text)), 0);
    assert_int_equal(request.head_len, 0); /* it is told once */
    expect_taken("POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab");
    assert_false(request.continues); /* the body is there */
    assert_int_equal(parse_text("POST / HTTP/1.0\r\nExpect: x\r\nContent-Length: 2\r\n\r\n"), 0);
    assert_false(request.continues);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* A request line with a target of so many bytes. */
static size_t put_target(size_t len)
{
    size_t at = (size_t)snprintf(big, sizeof big, "GET /");
    memset(big + at, 'x', len - 1);
    at += len - 1;
    return at + (size_t)snprintf(big + at, sizeof big - at, " HTTP/1.1\r\n" H "\r\n");
}

static void expect_status(unsigned status, size_t len)
{
    memset(&progress, 0, sizeof progress);
    assert_int_equal(parse(big, len), TG_EPROTOCOL);
    assert_int_equal(refusal.status, status);
}

static void heads_are_bounded(void **state)
{
    (void)state;
    size_t len = put_target(HTTP1_TARGET_MAX);
    expect_taken(big);
    len = put_target(HTTP1_TARGET_MAX + 1);
    expect_status(414, len);
    memset(big, 'x', HTTP1_HEAD_MAX);
    memcpy(big, "GET /", 5);
    memset(&progress, 0, sizeof progress);
    assert_int_equal(parse(big, HTTP1_HEAD_MAX - 1), 0);
    expect_status(414, HTTP1_HEAD_MAX);
    len = (size_t)snprintf(big, sizeof big, "GET / HTTP/1.1\r\n" H "X: ");
    memset(big + len, 'x', HTTP1_HEAD_MAX);
    memcpy(big + HTTP1_HEAD_MAX - 4, "\r\n\r\n", 5);
    expect_taken(big);
    memcpy(big + HTTP1_HEAD_MAX - 4, "x\r\n\r\n", 6);
    expect_status(431, HTTP1_HEAD_MAX + 1);
    expect_status(431, HTTP1_HEAD_MAX);
    len = (size_t)snprintf(big, sizeof big, "GET / HTTP/1.1\r\n" H);
    for (int i = 1; i < HTTP1_HEADERS_MAX; i++)
        len += (size_t)snprintf(big + len, sizeof big - len, "X: y\r\n");
    memcpy(big + len, "\r\n", 3);
    expect_taken(big);
    memcpy(big + len, "X: y\r\n\r\n", 9);
    expect_status(431, len + 8);
    memset(big, 'X', HTTP1_METHOD_MAX + 1);
    memcpy(big + HTTP1_METHOD_MAX + 1, " / HTTP/1.1\r\n", 14);
    expect_status(501, strlen(big));
}

static void bodies_are_bounded(void **state)
{
    (void)state;
    const size_t len = (size_t)snprintf(
        big, sizeof big, "POST / HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n", HTTP1_BODY_MAX);
    memset(&progress, 0, sizeof progress);
    assert_int_equal(parse(big, len), 0);
    assert_int_equal(request.need, len + HTTP1_BODY_MAX);
    assert_int_equal(parse(big, len + HTTP1_BODY_MAX - 1), 0);
    assert_int_equal(parse(big, len + HTTP1_BODY_MAX), len + HTTP1_BODY_MAX);
    assert_int_equal(request.body.len, HTTP1_BODY_MAX);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

static void chunks_are_put_together(void **state)
{
    (void)state;
    expect_taken(CHUNKED "5\r\nhello\r\n6;a=\"b\"\r\n world\r\n0\r\n\r\n");
    expect_text(request.body, "hello world");
    expect_taken(CHUNKED "0000000a\r\n0123456789\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n");
    expect_text(request.body, "0123456789");
    expect_text(request.host, "a"); /* what follows the last chunk is not looked at */
    assert_int_equal(request.header_count, 2);
    expect_taken(CHUNKED "0\r\n\r\n");
    assert_int_equal(request.body.len, 0);
}

static void chunks_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "+5\r\nhello\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "0x5\r\nhello\r\n",
        "5\nhello\r\n",
        "5\r\nhelloo\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "5\r\nhello\n\n",
        "000000005\r\n",
        "ffffffffffffffff5\r\n",
        "5;\x01\r\n",
        "5;a\rb\r\n",
        "0\r\nno colon\r\n",
        "0\r\n folded: x\r\n",
        "0\r\nX: \x01\r\n",
        "0\r\nX: y\n",
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, CHUNKED "%s", bad[i]);
        expect_refused(400, text);
    }
    expect_refused(413, CHUNKED "100001\r\n");
    expect_refused(413, CHUNKED "ffffffff\r\n");
}

static void what_is_between_chunks_is_bounded(void **state)
{
    (void)state;
    const size_t head = (size_t)snprintf(big, sizeof big, CHUNKED);
    size_t len = head + (size_t)snprintf(big + head, sizeof big - head, "1;");
    memset(big + len, 'x', 300);
    expect_status(400, len + 300); /* one extension that is long */
    len = head;
    while (len - head < HTTP1_FRAMING_MAX) /* many that are short */
        len += (size_t)snprintf(big + len, sizeof big - len, "1;xxxxxxxxxxxxxxxx\r\na\r\n");
    expect_status(400, len);
    len = head;
    for (int i = 0; i < 20000; i++) /* small chunks are no attack by themselves */
        len += (size_t)snprintf(big + len, sizeof big - len, "1\r\na\r\n");
    (void)snprintf(big + len, sizeof big - len, "0\r\n\r\n");
    expect_taken(big);
    assert_int_equal(request.body.len, 20000);
    len = head + (size_t)snprintf(big + head, sizeof big - head, "0\r\n");
    while (len - head < HTTP1_TRAILER_MAX + 64)
        len += (size_t)snprintf(big + len, sizeof big - len, "X: y\r\n");
    expect_status(431, len);
    len = head;
    for (int i = 0; i < 17; i++) { /* 17 chunks of 64 KiB */
        len += (size_t)snprintf(big + len, sizeof big - len, "10000\r\n");
        memset(big + len, 'a', 0x10000);
        memcpy(big + len + 0x10000, "\r\n", 2);
        len += 0x10000 + 2;
    }
    expect_status(413, len);
}

/* ---- any cut --------------------------------------------------------------------------------- */

/* A digest of what was parsed, and where it ended. */
struct taken {
    struct http1_progress progress;
    uint64_t digest;
    size_t used;
    int result;
    unsigned status;
};

static void note_text(struct taken *outcome, struct wire_text text)
{
    outcome->digest = hash_mix64(outcome->digest ^ text.len);
    for (size_t i = 0; i < text.len; i++)
        outcome->digest = hash_mix64(outcome->digest ^ (unsigned char)text.data[i]);
}

static void take_all(const char *data, size_t len, struct taken *outcome)
{
    while (outcome->result >= 0) {
        outcome->result = http1_parse(&outcome->progress, data + outcome->used, len - outcome->used,
                                      room, &request, &refusal);
        if (outcome->result < 0)
            outcome->status = refusal.status;
        if (outcome->result <= 0)
            return;
        note_text(outcome, request.method_name);
        note_text(outcome, request.path);
        note_text(outcome, request.query);
        note_text(outcome, request.body);
        for (uint32_t i = 0; i < request.header_count; i++) {
            note_text(outcome, request.headers[i].name);
            note_text(outcome, request.headers[i].value);
        }
        outcome->used += (size_t)outcome->result;
    }
}

static size_t put_random_request(struct random *random, char *out, size_t capacity)
{
    const unsigned form = (unsigned)random_below(random, 4);
    size_t len = 0;
    if (form == 0)
        len = (size_t)snprintf(out, capacity, "GET /x?y HTTP/1.1\r\n" H "X: a b\r\n\r\n");
    else if (form == 1)
        len = (size_t)snprintf(out, capacity,
                               "\r\nPOST /y HTTP/1.1\r\n" H
                               "Content-Length: 12\r\n\r\n0\r\n\r\nGET / H");
    else if (form == 2)
        len =
            (size_t)snprintf(out, capacity, CHUNKED "3\r\na\r\n\r\n1;x\r\n0\r\n0\r\nX: y\r\n\r\n");
    else
        len = (size_t)snprintf(out, capacity, "PUT /z HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
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
        assert_int_equal(whole.status, pieces.status);
        assert_true(whole.digest == pieces.digest);
    }
}

/* Byte by byte, with its bounds in the way. */
static void a_long_head_is_refused_alike_byte_by_byte(void **state)
{
    (void)state;
    size_t len = (size_t)snprintf(big, sizeof big, "GET / HTTP/1.1\r\n" H);
    while (len < HTTP1_HEAD_MAX + 100)
        len += (size_t)snprintf(
            big + len, sizeof big - len, "X: %s\r\n",
            "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
            "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
            "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy");
    struct taken pieces = {.result = 0};
    size_t come = 0;
    while (pieces.result == 0 && come < len)
        take_all(big, ++come, &pieces);
    assert_int_equal(pieces.status, 431);
    assert_int_equal(come, HTTP1_HEAD_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_taken_apart),
        cmocka_unit_test(requests_follow_one_another),
        cmocka_unit_test(methods_are_told_apart),
        cmocka_unit_test(targets_have_the_forms_of_their_methods),
        cmocka_unit_test(connections_are_kept_by_the_rules_of_their_version),
        cmocka_unit_test(lines_end_with_cr_and_lf),
        cmocka_unit_test(one_empty_line_may_come_before_a_request),
        cmocka_unit_test(control_characters_are_refused_anywhere),
        cmocka_unit_test(names_of_headers_are_words_before_a_colon),
        cmocka_unit_test(what_is_refused_is_refused_again),
        cmocka_unit_test(a_request_has_one_host),
        cmocka_unit_test(a_body_has_one_length),
        cmocka_unit_test(what_means_one_thing_is_said_once),
        cmocka_unit_test(other_versions_are_refused_as_such),
        cmocka_unit_test(expectations_other_than_continue_are_refused),
        cmocka_unit_test(heads_are_bounded),
        cmocka_unit_test(bodies_are_bounded),
        cmocka_unit_test(chunks_are_put_together),
        cmocka_unit_test(chunks_that_are_none_are_refused),
        cmocka_unit_test(what_is_between_chunks_is_bounded),
        cmocka_unit_test(pieces_change_nothing),
        cmocka_unit_test(a_long_head_is_refused_alike_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

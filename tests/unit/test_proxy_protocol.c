/* test_proxy_protocol.c - headers of proxies, field by field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "node/gateway/proxy_protocol.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4        "\xc0\x00\x02\x01\xc6\x33\x64\x02\xdc\x04\x18\xeb" /* 192.0.2.1:56324, ...:6379 */

enum { HEADER_MAX = 1 << 17 };

static struct proxy_protocol told;
static const char *fault;
static size_t used;

/* In memory of just that length. */
static enum proxy_protocol_found read_exactly(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    const enum proxy_protocol_found found = proxy_protocol_read(copy, len, &told, &used, &fault);
    free(copy);
    return found;
}

static void assert_address(const uint8_t found[PROXY_PROTOCOL_ADDRESS_LEN], const char *wanted)
{
    char text[INET6_ADDRSTRLEN];
    assert_non_null(inet_ntop(AF_INET6, found, text, sizeof text));
    assert_string_equal(text, wanted);
}

static void assert_ip(const char *source, uint16_t source_port, const char *destination,
                      uint16_t destination_port)
{
    assert_int_equal(told.kind, PROXY_PROTOCOL_IP);
    assert_address(told.source, source);
    assert_address(told.destination, destination);
    assert_int_equal(told.source_port, source_port);
    assert_int_equal(told.destination_port, destination_port);
}

/* A header with what follows it: each prefix is not enough, and what follows is not used. */
static void assert_good(const void *header, size_t len, const char *more)
{
    static uint8_t whole[HEADER_MAX];
    memcpy(whole, header, len);
    for (size_t i = 0; i < len; i++)
        if (read_exactly(whole, i) != PROXY_PROTOCOL_MORE)
            fail_msg("%zu bytes of %zu were enough", i, len);
    assert_int_equal(read_exactly(whole, len), PROXY_PROTOCOL_GOOD);
    assert_int_equal(used, len);
    memcpy(whole + len, more, strlen(more));
    assert_int_equal(read_exactly(whole, len + strlen(more)), PROXY_PROTOCOL_GOOD);
    assert_int_equal(used, len);
    assert_null(fault);
}

static void assert_good_line(const char *line)
{
    assert_good(line, strlen(line), "PING\r\n");
    assert_int_equal(told.version, 1);
}

static void assert_bad(const void *header, size_t len, const char *wanted)
{
    assert_int_equal(read_exactly(header, len), PROXY_PROTOCOL_BAD);
    assert_string_equal(fault, wanted);
    for (size_t i = 0; i < len; i++) { /* it may be known sooner, and never turns out good */
        const enum proxy_protocol_found found = read_exactly(header, i);
        assert_true(found == PROXY_PROTOCOL_MORE || found == PROXY_PROTOCOL_BAD);
    }
}

static void assert_bad_line(const char *line, const char *wanted)
{
    assert_bad(line, strlen(line), wanted);
}

/* A header of version 2; its length is counted unless it is told. Returns its length. */
static size_t make(uint8_t *out, uint8_t command, uint8_t family, const void *rest, size_t len)
{
    memcpy(out, SIGNATURE, 12);
    out[12] = command;
    out[13] = family;
    out[14] = (uint8_t)(len >> 8);
    out[15] = (uint8_t)len;
    memcpy(out + PROXY_PROTOCOL_HEAD, rest, len);
    return PROXY_PROTOCOL_HEAD + len;
}

static void assert_good_binary(uint8_t command, uint8_t family, const void *rest, size_t len)
{
    static uint8_t header[HEADER_MAX];
    assert_good(header, make(header, command, family, rest, len), "\xff\0\0");
    assert_int_equal(told.version, 2);
}

static void assert_bad_binary(uint8_t command, uint8_t family, const void *rest, size_t len,
                              const char *wanted)
{
    static uint8_t header[HEADER_MAX];
    assert_bad(header, make(header, command, family, rest, len), wanted);
}

/* ---- neither --------------------------------------------------------------------------------- */

static void what_clients_begin_with_is_no_header(void **state)
{
    static const char *const texts[] = {
        "*1\r\n$4\r\nPING\r\n", "PING\r\n", "PROXIED",  "POST / HTTP/1.1\r\n", "PRI * HTTP/2.0",
        "proxy TCP4 ",          "\xff",     "\r\nPING", "\r\n\r\n\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(read_exactly(texts[i], strlen(texts[i])), PROXY_PROTOCOL_NONE);
    assert_int_equal(read_exactly("\x16\x03\x01", 3), PROXY_PROTOCOL_NONE);
    assert_int_equal(read_exactly(SIGNATURE "x", 11), PROXY_PROTOCOL_MORE);
    assert_int_equal(read_exactly("\r\n\r\n\0\r\nQUIT\r", 12), PROXY_PROTOCOL_NONE);
    assert_int_equal(read_exactly("", 0), PROXY_PROTOCOL_MORE);
}

/* ---- version 1 ------------------------------------------------------------------------------- */

static void a_line_tells_both_ends_of_either_family(void **state)
{
    (void)state;
    assert_good_line("PROXY TCP4 192.0.2.1 198.51.100.2 56324 6379\r\n");
    assert_ip("::ffff:192.0.2.1", 56324, "::ffff:198.51.100.2", 6379);
    assert_good_line("PROXY TCP6 2001:db8::1 2001:DB8:0:0:0:0:0:2 0 65535\r\n");
    assert_ip("2001:db8::1", 0, "2001:db8::2", 65535);
    assert_good_line("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n");
}

static void a_line_of_the_unknown_leaves_the_socket_s_own_address(void **state)
{
    char line[PROXY_PROTOCOL_V1_MAX + 1];
    (void)state;
    assert_good_line("PROXY UNKNOWN\r\n");
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
    assert_good_line("PROXY UNKNOWN anything  at all\r\n");
    (void)snprintf(line, sizeof line, "PROXY UNKNOWN %*s\r\n", PROXY_PROTOCOL_V1_MAX - 16, "x");
    assert_int_equal(strlen(line), PROXY_PROTOCOL_V1_MAX);
    assert_good_line(line);
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
}

static void a_line_without_an_end_is_not_waited_for(void **state)
{
    char line[PROXY_PROTOCOL_V1_MAX + 8];
    (void)state;
    memset(line, 'x', sizeof line);
    memcpy(line, "PROXY UNKNOWN ", 14);
    assert_int_equal(read_exactly(line, PROXY_PROTOCOL_V1_MAX - 1), PROXY_PROTOCOL_MORE);
    memcpy(line + PROXY_PROTOCOL_V1_MAX - 1, "\r\n", 2); /* one too long */
    assert_bad(line, PROXY_PROTOCOL_V1_MAX + 1,
               "expected a line of at most 107 bytes behind PROXY");
}

static void a_line_that_is_not_as_it_must_be_is_bad(void **state)
{
    static const char family[] = "expected TCP4, TCP6 or UNKNOWN behind PROXY";
    static const char fields[] = "expected two addresses and two ports, each behind one blank";
    static const char addresses[] = "expected addresses of the family that is told";
    static const char ports[] = "expected ports from 0 to 65535";
    static const char end[] = "expected CR and LF at the end of the line";
    static const char nul[] = "PROXY TCP4 192.0.2.1\0 198.51.100.2 1 2\r\n";
    (void)state;
    assert_bad_line("PROXY \r\n", family);
    assert_bad_line("PROXY tcp4 192.0.2.1 198.51.100.2 1 2\r\n", family);
    assert_bad_line("PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n", family);
    assert_bad_line("PROXY UNKNOWNS\r\n", family);
    assert_bad_line("PROXY  TCP4 192.0.2.1 198.51.100.2 1 2\r\n", family);
    assert_bad_line("PROXY TCP4 \r\n", family);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1\r\n", fields);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1 2 3\r\n", fields);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1 2 \r\n", fields);
    assert_bad_line("PROXY TCP4 192.0.2.1  198.51.100.2 1 2\r\n", fields);
    assert_bad_line("PROXY TCP4 192.0.2 198.51.100.2 1 2\r\n", addresses);
    assert_bad_line("PROXY TCP4 192.0.2.01 198.51.100.2 1 2\r\n", addresses);
    assert_bad_line("PROXY TCP4 2001:db8::1 198.51.100.2 1 2\r\n", addresses);
    assert_bad_line("PROXY TCP6 192.0.2.1 2001:db8::1 1 2\r\n", addresses);
    assert_bad_line("PROXY TCP6 2001:db8::1%eth0 2001:db8::1 1 2\r\n", addresses);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 65536 2\r\n", ports);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1 02\r\n", ports);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 -1 2\r\n", ports);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1 999999\r\n", ports);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1 2\n", end);
    assert_bad_line("PROXY \n", end);
    assert_bad(nul, sizeof nul - 1, addresses);
    assert_bad_line("PROXY TCP4 192.0.2.1 198.51.100.2 1 2\r\r\n", ports);
}

/* ---- version 2 ------------------------------------------------------------------------------- */

static void a_header_tells_both_ends_of_ipv4(void **state)
{
    (void)state;
    assert_good_binary(0x21, 0x11, V4, 12);
    assert_ip("::ffff:192.0.2.1", 56324, "::ffff:198.51.100.2", 6379);
}

static void a_header_tells_both_ends_of_ipv6(void **state)
{
    static const uint8_t rest[] = "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                                  "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02"
                                  "\xff\xff\x18\xeb";
    (void)state;
    assert_good_binary(0x21, 0x21, rest, 36);
    assert_ip("2001:db8::1", 65535, "2001:db8::2", 6379);
}

static void a_header_of_a_socket_of_the_file_system_has_no_address(void **state)
{
    static const uint8_t rest[216] = "/run/client.sock";
    (void)state;
    assert_good_binary(0x21, 0x31, rest, sizeof rest);
    assert_int_equal(told.kind, PROXY_PROTOCOL_UNIX);
    assert_bad_binary(0x21, 0x31, rest, 215,
                      "expected as many bytes as addresses of the family have");
}

/* A health check of the proxy's own. Its family and what follows are ignored. */
static void a_header_of_the_proxy_itself_leaves_the_socket_s_own_address(void **state)
{
    (void)state;
    assert_good_binary(0x20, 0x00, "", 0);
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
    assert_good_binary(0x20, 0x11, V4, 12);
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
    assert_good_binary(0x20, 0xff, "\x03\x00", 2);
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
}

static void a_header_of_the_unknown_or_of_datagrams_leaves_the_socket_s_own_address(void **state)
{
    (void)state;
    assert_good_binary(0x21, 0x00, "", 0);
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
    assert_good_binary(0x21, 0x00, "\x01\x02\x03", 3);
    assert_good_binary(0x21, 0x12, V4, 12);
    assert_int_equal(told.kind, PROXY_PROTOCOL_ITSELF);
}

static void another_version_command_or_family_is_bad(void **state)
{
    static const char command[] = "expected version 2 and the command PROXY or LOCAL";
    static const char family[] = "expected a family and a transport of version 2";
    (void)state;
    assert_bad_binary(0x11, 0x11, V4, 12, command);
    assert_bad_binary(0x31, 0x11, V4, 12, command);
    assert_bad_binary(0x22, 0x11, V4, 12, command);
    assert_bad_binary(0x21, 0x41, V4, 12, family);
    assert_bad_binary(0x21, 0x10, V4, 12, family);
    assert_bad_binary(0x21, 0x13, V4, 12, family);
    assert_bad_binary(0x21, 0x01, V4, 12, family);
}

static void addresses_that_are_cut_short_are_bad(void **state)
{
    static const char length[] = "expected as many bytes as addresses of the family have";
    (void)state;
    assert_bad_binary(0x21, 0x11, V4, 11, length);
    assert_bad_binary(0x21, 0x11, V4, 0, length);
    assert_bad_binary(0x21, 0x21, V4 V4 V4, 35, length);
}

/* Longer ones are refused by their head, before they are waited for. */
static void a_header_is_bounded(void **state)
{
    enum { REST = PROXY_PROTOCOL_MAX - PROXY_PROTOCOL_HEAD, VALUE = REST - 12 - 3 };
    static uint8_t rest[UINT16_MAX];
    (void)state;
    memcpy(rest, V4, 12);
    memcpy(rest + 12, (const uint8_t[]){0xe0, VALUE >> 8, VALUE & 255}, 3);
    assert_good_binary(0x21, 0x11, rest, REST);
    assert_ip("::ffff:192.0.2.1", 56324, "::ffff:198.51.100.2", 6379);
    static uint8_t header[HEADER_MAX];
    (void)make(header, 0x21, 0x11, rest, REST + 1);
    assert_bad(header, PROXY_PROTOCOL_HEAD, "expected a header of at most 4096 bytes");
    (void)make(header, 0x20, 0x00, rest, 65535);
    assert_bad(header, PROXY_PROTOCOL_HEAD, "expected a header of at most 4096 bytes");
}

/* As a load balancer of AWS puts its endpoint's name there. */
static void values_behind_the_addresses_are_skipped(void **state)
{
    static const char endpoint[] =
        V4 "\xea\x00\x17\x01vpce-08d2bf15fac5001c9\x04\x00\x00\x01\x00\x02h2";
    (void)state;
    assert_good_binary(0x21, 0x11, endpoint, sizeof endpoint - 1);
    assert_ip("::ffff:192.0.2.1", 56324, "::ffff:198.51.100.2", 6379);
}

static void values_that_do_not_end_with_the_header_are_bad(void **state)
{
    static const char values[] = "expected values that end with the header";
    (void)state;
    assert_bad_binary(0x21, 0x11, V4 "\xea", 13, values);
    assert_bad_binary(0x21, 0x11, V4 "\xea\x00", 14, values);
    assert_bad_binary(0x21, 0x11, V4 "\xea\x00\x01", 15, values);
    assert_bad_binary(0x21, 0x11, V4 "\xea\xff\xff\x01", 16, values);
    assert_bad_binary(0x21, 0x11, V4 "\x04\x00\x00\x01", 16, values);
}

/* CRC-32C of the whole header, with four zeros in its place: made by another implementation. */
static void a_checksum_is_verified(void **state)
{
    static const char sum[] = "the checksum of the header is wrong";
    static const char one[] = "expected one checksum, of four bytes";
    static const uint8_t rest[] = V4 "\x04\x00\x01z\x03\x00\x04"
                                     "\x59\x87\xaa\xdc"
                                     "\xe0\x00\x01y";
    static uint8_t header[HEADER_MAX];
    (void)state;
    assert_good_binary(0x21, 0x11, rest, sizeof rest - 1);
    const size_t len = make(header, 0x21, 0x11, rest, sizeof rest - 1);
    for (size_t i = 0; i < len; i++) {
        const bool told_there = i >= 16 && i < 28;
        const bool summed = i >= 35 && i < 39;
        if (!told_there && !summed && i != 31 && i != 42)
            continue; /* another form, not another sum */
        header[i] ^= 1;
        assert_bad(header, len, sum);
        header[i] ^= 1;
    }
    assert_bad_binary(0x21, 0x11, V4 "\x03\x00\x03zzz", 18, one);
    assert_bad_binary(0x21, 0x11, V4 "\x03\x00\x04zzzz\x03\x00\x04zzzz", 26, one);
    assert_bad_binary(0x21, 0x11, V4 "\x03\x00\x04zzzz", 19, sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clients_begin_with_is_no_header),
        cmocka_unit_test(a_line_tells_both_ends_of_either_family),
        cmocka_unit_test(a_line_of_the_unknown_leaves_the_socket_s_own_address),
        cmocka_unit_test(a_line_without_an_end_is_not_waited_for),
        cmocka_unit_test(a_line_that_is_not_as_it_must_be_is_bad),
        cmocka_unit_test(a_header_tells_both_ends_of_ipv4),
        cmocka_unit_test(a_header_tells_both_ends_of_ipv6),
        cmocka_unit_test(a_header_of_a_socket_of_the_file_system_has_no_address),
        cmocka_unit_test(a_header_of_the_proxy_itself_leaves_the_socket_s_own_address),
        cmocka_unit_test(a_header_of_the_unknown_or_of_datagrams_leaves_the_socket_s_own_address),
        cmocka_unit_test(another_version_command_or_family_is_bad),
        cmocka_unit_test(addresses_that_are_cut_short_are_bad),
        cmocka_unit_test(a_header_is_bounded),
        cmocka_unit_test(values_behind_the_addresses_are_skipped),
        cmocka_unit_test(values_that_do_not_end_with_the_header_are_bad),
        cmocka_unit_test(a_checksum_is_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

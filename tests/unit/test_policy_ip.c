/* test_policy_ip.c - addresses have one text, whatever way they were spelt. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/model/policy_ip.h"

static void check_text(const uint8_t *bytes, int family)
{
    char wanted[INET6_ADDRSTRLEN];
    char text[POLICY_IP_TEXT_LEN];
    struct policy_ip ip;
    assert_non_null(inet_ntop(family, bytes, wanted, sizeof wanted));
    assert_true(policy_ip_parse(wanted, strlen(wanted), &ip));
    assert_int_equal(ip.len, family == AF_INET ? POLICY_IPV4_LEN : POLICY_IPV6_LEN);
    assert_memory_equal(ip.bytes, bytes, ip.len);
    memset(text, 'x', sizeof text);
    assert_int_equal(policy_ip_put(&ip, text), strlen(wanted));
    assert_string_equal(text, wanted);
}

/* Addresses are written as the C library writes them: every byte at every place of IPv4, and random
 * ones of both kinds. */
static void addresses_are_written_as_inet_ntop_does(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 61);
    for (int value = 0; value < 256; value++)
        for (int place = 0; place < 4; place++) {
            uint8_t bytes[4] = {9, 10, 99, 100};
            bytes[place] = (uint8_t)value;
            check_text(bytes, AF_INET);
        }
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[POLICY_IPV6_LEN];
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = random_below(&random, 3) == 0 ? 0 : (uint8_t)random_next(&random);
        bytes[0] |= 0x20; /* no IPv4-mapped one: those are written as IPv4 */
        check_text(bytes, AF_INET6);
        check_text(bytes, AF_INET);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_written_as_inet_ntop_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_networks.c - which networks are trusted, and how they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "node/gateway/networks.h"

static struct networks networks;

static int setup(void **state)
{
    (void)state;
    networks = (struct networks){.count = 0};
    return 0;
}

static void add(const char *text)
{
    char expected[NETWORKS_EXPECTED_LEN];
    if (networks_add(&networks, text, expected) != 0)
        fail_msg("%s: expected %s", text, expected);
}

/* By the address as a socket has it. */
static bool held(const char *text)
{
    uint8_t bytes[POLICY_IPV6_LEN] = {[10] = 0xff, [11] = 0xff};
    const bool v6 = strchr(text, ':') != NULL;
    assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, text, v6 ? bytes : bytes + 12), 1);
    const struct policy_ip ip = networks_ip(bytes);
    return networks_hold(&networks, &ip);
}

static void nobody_is_trusted_who_was_not_named(void **state)
{
    (void)state;
    assert_false(held("127.0.0.1"));
    assert_false(held("::1"));
    assert_false(networks.local);
}

static void a_network_holds_its_addresses_of_either_family_and_no_others(void **state)
{
    (void)state;
    add("10.0.0.0/8");
    add("192.0.2.128/25");
    add("2001:db8::/33");
    assert_true(held("10.255.0.1") && held("10.0.0.0"));
    assert_false(held("11.0.0.0") || held("9.255.255.255"));
    assert_true(held("192.0.2.128"));
    assert_false(held("192.0.2.127"));
    assert_true(held("2001:db8:7fff::1"));
    assert_false(held("2001:db8:8000::1") || held("::a00:1"));
}

static void an_address_alone_is_a_network_of_one(void **state)
{
    (void)state;
    add("192.0.2.7");
    add("2001:db8::7");
    assert_true(held("192.0.2.7") && held("2001:db8::7"));
    assert_false(held("192.0.2.6") || held("2001:db8::6"));
}

/* A socket that listens for both families has such addresses. */
static void a_mapped_address_is_one_of_ipv4(void **state)
{
    (void)state;
    add("10.0.0.0/8");
    assert_true(held("::ffff:10.1.2.3"));
    assert_false(held("::ffff:11.1.2.3") || held("64:ff9b::10.1.2.3"));
}

static void all_of_one_family_is_nothing_of_the_other(void **state)
{
    (void)state;
    add("::/0");
    assert_true(held("2001:db8::1"));
    assert_false(held("192.0.2.1"));
    add("0.0.0.0/0");
    assert_true(held("192.0.2.1"));
}

static void sockets_of_the_file_system_are_trusted_by_name(void **state)
{
    (void)state;
    add("unix");
    assert_true(networks.local);
    assert_int_equal(networks.count, 0);
}

static void a_network_that_is_there_is_there_once(void **state)
{
    (void)state;
    add("10.0.0.0/8");
    add("10.0.0.0/8");
    add("10.0.0.0/9");
    assert_int_equal(networks.count, 2);
}

static void assert_refused(const char *text, const char *wanted)
{
    char expected[NETWORKS_EXPECTED_LEN] = "";
    const uint32_t before = networks.count;
    assert_int_equal(networks_add(&networks, text, expected), TG_EINVALID);
    if (strcmp(expected, wanted) != 0)
        fail_msg("%s: found \"%s\", expected \"%s\"", text, expected, wanted);
    assert_int_equal(networks.count, before);
    assert_false(networks.local);
}

static void what_is_no_network_is_refused(void **state)
{
    static const char *const texts[] = {
        "",           "10.0.0.0/33",   "10.0.0/8",          "10.0.0.0/",    "10.0.0.0/08",
        "10.0.0.0 ",  "010.0.0.0/8",   "2001:db8::/129",    "[2001:db8::]", "fe80::1%eth0",
        "proxy.test", "10.0.0.1:6379", "10.0.0.0/8,::1",    "unix:/run/x",  "::ffff:0:0/95",
        "/8",         "-10.0.0.0/8",   "10.0.0.0/255.0.0.0"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_refused(texts[i],
                       "a network such as 10.0.0.0/8 or 2001:db8::/32, an address, or unix");
    char many[200];
    memset(many, '1', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    assert_refused(many, "a network such as 10.0.0.0/8 or 2001:db8::/32, an address, or unix");
}

/* Bits behind the prefix are a mistake, as they are in rules: which was meant is a guess. */
static void host_bits_are_refused_with_what_may_have_been_meant(void **state)
{
    (void)state;
    assert_refused("10.0.0.1/8", "10.0.0.0/8: no bits behind the prefix");
    assert_refused("2001:db8::1/32", "2001:db8::/32: no bits behind the prefix");
}

/* Written as IPv6 it is easily all of IPv4 by mistake. */
static void ipv4_is_written_as_ipv4(void **state)
{
    (void)state;
    assert_refused("::ffff:10.0.0.0/104", "10.0.0.0/8, as IPv4 is written");
    assert_refused("64:ff9b::/96", "0.0.0.0/0, as IPv4 is written");
    assert_refused("::ffff:192.0.2.1", "192.0.2.1, as IPv4 is written");
}

static void there_are_so_many_networks_at_most(void **state)
{
    char text[32];
    (void)state;
    for (int i = 0; i < NETWORKS_MAX; i++) {
        (void)snprintf(text, sizeof text, "10.%d.0.0/16", i);
        add(text);
    }
    assert_refused("192.0.2.0/24", "at most 64 networks");
    add("10.5.0.0/16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nobody_is_trusted_who_was_not_named, setup),
        cmocka_unit_test_setup(a_network_holds_its_addresses_of_either_family_and_no_others, setup),
        cmocka_unit_test_setup(an_address_alone_is_a_network_of_one, setup),
        cmocka_unit_test_setup(a_mapped_address_is_one_of_ipv4, setup),
        cmocka_unit_test_setup(all_of_one_family_is_nothing_of_the_other, setup),
        cmocka_unit_test_setup(sockets_of_the_file_system_are_trusted_by_name, setup),
        cmocka_unit_test_setup(a_network_that_is_there_is_there_once, setup),
        cmocka_unit_test_setup(what_is_no_network_is_refused, setup),
        cmocka_unit_test_setup(host_bits_are_refused_with_what_may_have_been_meant, setup),
        cmocka_unit_test_setup(ipv4_is_written_as_ipv4, setup),
        cmocka_unit_test_setup(there_are_so_many_networks_at_most, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

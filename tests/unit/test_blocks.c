/* test_blocks.c - who is blocked: by attribute, by address, by key, until when. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/policy_join.h"

enum { RANDOM_BLOCKS = 300, RANDOM_LOOKS = 20000 };

static struct policy_attribute attribute(const char *name, const char *value)
{
    return (struct policy_attribute){name, strlen(name), value, strlen(value)};
}

/* What the operator wrote as it is kept; NULL if it is refused. */
static const char *name_of(const char *written, bool is_key)
{
    static char name[BLOCKS_NAME_LEN_MAX + 1];
    char error[BLOCKS_ERROR_LEN];
    const int len =
        blocks_name(attribute_kinds_default(), written, strlen(written), is_key, name, error);
    if (len < 0) {
        assert_true(strlen(error) > 10);
        return NULL;
    }
    name[len] = '\0';
    return name;
}

static struct blocks *make(const struct block *blocks, size_t count)
{
    struct blocks *made;
    assert_int_equal(blocks_new(alloc_heap(), attribute_kinds_default(), blocks, count, &made), 0);
    blocks_check_invariants(made);
    return made;
}

static struct block block(const char *name, uint64_t until_ms, const char *reason)
{
    return (struct block){{name, strlen(name)}, {reason, strlen(reason)}, until_ms};
}

static bool denied(const struct blocks *blocks, const char *name, const char *value,
                   uint64_t now_ms)
{
    const struct policy_attribute asked = attribute(name, value);
    return blocks_find(blocks, &asked, 1, now_ms) != NULL;
}

/* Each thing that can be blocked has one name, however it is written; the rest is refused. */
static void what_is_blocked_has_one_name(void **state)
{
    (void)state;
    assert_string_equal(name_of("user=ada", false), "attr user=ada");
    assert_string_equal(name_of("query=a=b c", false), "attr query=a=b c");
    assert_string_equal(name_of("10.0.0.0/8", false), "cidr 10.0.0.0/8");
    assert_string_equal(name_of("192.0.2.7", false), "cidr 192.0.2.7/32");
    assert_string_equal(name_of("ip=192.0.2.7", false), "cidr 192.0.2.7/32");
    assert_string_equal(name_of("::ffff:192.0.2.7", false), "cidr 192.0.2.7/32");
    assert_string_equal(name_of("::ffff:c000:207", false), "cidr 192.0.2.7/32");
    assert_string_equal(name_of("::ffff:c000:200/120", false), "cidr 192.0.2.0/24");
    assert_string_equal(name_of("2001:DB8::/32", false), "cidr 2001:db8::/32");
    assert_string_equal(name_of("::/0", false), "cidr ::/0");
    assert_string_equal(name_of("a b=c", true), "key a b=c");
    const char *const refused[] = {
        "",        "ada",       "=x",          "user=",     "User=x",  "ip=ada", "10.0.0.0/33",
        "::1/129", "10.0.0.0/", "10.0.0.0/1x", "u=\033[2J", "10.0.0/8"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(name_of(refused[i], false));
    assert_string_equal(name_of("", true), "key ");
}

/* A value or a key longer than a request may have is refused, with what was found and expected. */
static void what_is_longer_than_a_request_may_have_is_refused(void **state)
{
    static char text[POLICY_VALUE_LEN_MAX + 16] = "user=";
    char name[BLOCKS_NAME_LEN_MAX];
    char error[BLOCKS_ERROR_LEN];
    (void)state;
    memset(text + 5, 'v', POLICY_VALUE_LEN_MAX + 1);
    assert_true(blocks_name(attribute_kinds_default(), text, strlen(text) - 1, false, name, error) >
                0);
    assert_int_equal(blocks_name(attribute_kinds_default(), text, strlen(text), false, name, error),
                     TG_EINVALID);
    assert_string_equal(error, "value behind the '=': found 1025 bytes; expected 1 to 1024");
    assert_int_equal(
        blocks_name(attribute_kinds_default(), text + 5, strlen(text + 5), true, name, error),
        TG_EINVALID);
    assert_string_equal(error, "key: found 1025 bytes; expected 1 to 1024");
}

/* A network is never made wider than it was written: bits behind the prefix are refused, and what
 * was probably meant is named. */
static void a_network_with_bits_behind_its_prefix_is_refused(void **state)
{
    static const struct {
        const char *text;
        const char *part;
    } wide[] = {
        {"10.0.0.1/8", "found 10.0.0.1/8, which sets bits behind its prefix; expected 10.0.0.0/8"},
        {"ip=10.1.2.3/8", "found 10.1.2.3/8"},
        {"1.2.3.4/0", "expected 0.0.0.0/0 or one address"},
        {"2001:db8::1/32", "expected 2001:db8::/32 or one address"},
        {"::ffff:c000:207/120", "expected 192.0.2.0/24 or one address"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        char name[BLOCKS_NAME_LEN_MAX];
        char error[BLOCKS_ERROR_LEN] = "";
        assert_int_equal(blocks_name(attribute_kinds_default(), wide[i].text, strlen(wide[i].text),
                                     false, name, error),
                         TG_EINVALID);
        assert_non_null(strstr(error, wide[i].part));
    }
}

/* An attribute's value is blocked in the one spelling of its kind; what no request can have is
 * refused, for its one spelling would block more. */
static void a_value_is_blocked_in_its_one_spelling(void **state)
{
    (void)state;
    assert_string_equal(name_of("api=/x/", false), "attr api=/x");
    assert_string_equal(name_of("api=//a/./%7Eb", false), "attr api=/a/~b");
    assert_string_equal(name_of("method=post", false), "attr method=POST");
    assert_string_equal(name_of("user=A//b/", false), "attr user=A//b/");
    assert_string_equal(name_of("10.1.2.3:5000", false), "cidr 10.1.2.3/32");
    assert_string_equal(name_of("ip= [::1]:80", false), "cidr ::1/128");
    assert_string_equal(name_of("64:ff9b::a00:0/104", false), "cidr 10.0.0.0/8");
    assert_string_equal(name_of("64:ff9b::/32", false), "cidr 64:ff9b::/32");
    assert_null(name_of("api=/x?y=1", false));
    assert_null(name_of("path=/x#y", false));
    assert_null(name_of("api=http://shop.example/x", false));
    assert_null(name_of("10.0.0.0:80/8", false));
}

/* A set is made with the kinds of the rules in force, whatever they were when its blocks were made:
 * none is lost that a request can meet, and none blocks more than it says. Of two that have become
 * one the longer lasts. */
static void blocks_follow_the_kinds_of_the_rules_in_force(void **state)
{
    static const char text[] = "attributes: {api: verbatim, client: address}\nrules: []";
    const struct block list[] = {block("attr api=/x/", 5, "slash"), block("attr api=/x", 9, "none"),
                                 block("attr api=/q?y", 0, "query"),
                                 block("attr client=010.0.0.1", 0, "no address"),
                                 block("attr client=::ffff:10.0.0.2", 0, "mapped")};
    struct policy *verbatim;
    struct policy_error error;
    struct blocks *blocks = make(list, 5);

    (void)state;
    assert_int_equal(policy_compile(text, sizeof text - 1, alloc_heap(), &verbatim, &error), 0);
    for (uint64_t now = 1; now < 9; now++)
        assert_true(denied(blocks, "api", "/x", now));
    assert_false(denied(blocks, "api", "/x", 9));
    assert_false(denied(blocks, "api", "/q", 1));
    assert_true(denied(blocks, "client", "::ffff:10.0.0.2", 1));
    blocks_free(&blocks);
    assert_int_equal(blocks_new(alloc_heap(), policy_kinds(verbatim), list, 5, &blocks), 0);
    blocks_check_invariants(blocks);
    assert_true(denied(blocks, "api", "/x/", 1) && !denied(blocks, "api", "/x/", 5));
    assert_true(denied(blocks, "api", "/q?y", 1));
    assert_true(denied(blocks, "client", "10.0.0.2", 1));
    assert_false(denied(blocks, "client", "010.0.0.1", 1));
    blocks_free(&blocks);
    policy_free(&verbatim);
}

/* An attribute value, an address in a network and a key are denied with their reason; others are
 * not. */
static void what_is_blocked_is_denied_with_its_reason(void **state)
{
    (void)state;
    const struct block list[] = {block("attr user=ada", 0, "no ada"),
                                 block("cidr 10.0.0.0/8", 0, "net"),
                                 block("cidr 10.9.0.1/32", 0, "one"),
                                 block("cidr 2001:db8::/32", 0, "six"), block("key k", 0, "key")};
    struct blocks *blocks = make(list, 5);
    const struct policy_attribute asked[] = {attribute("api", "/x"), attribute("user", "ada")};
    const struct policy_rule *rule = blocks_find(blocks, asked, 2, 1);
    assert_non_null(rule);
    assert_int_equal(rule->status, 403);
    assert_string_equal(rule->message.data, "no ada");
    assert_int_equal(rule->name.len, 0);
    assert_null(blocks_find(blocks, asked, 1, 1));
    assert_true(denied(blocks, "ip", "10.200.0.1", 1) && !denied(blocks, "ip", "11.0.0.1", 1));
    assert_true(denied(blocks, "ip", "::ffff:10.0.0.1", 1));
    assert_true(denied(blocks, "ip", "2001:db8:ffff::1", 1) &&
                !denied(blocks, "ip", "2001:db9::", 1));
    assert_false(denied(blocks, "ip", "no address", 1) || denied(blocks, "other", "10.0.0.1", 1));
    const struct policy_attribute one = attribute("ip", "10.9.0.1");
    assert_string_equal(blocks_find(blocks, &one, 1, 1)->message.data, "one"); /* the longest */
    assert_non_null(blocks_find_key(blocks, "k", 1, 1));
    assert_null(blocks_find_key(blocks, "user=ada", 8, 1));
    assert_false(denied(blocks, "k", "", 1) || denied(blocks, "use", "r=ada", 1));
    blocks_free(&blocks);
    assert_null(blocks_find(NULL, asked, 2, 1));
}

/* A block with an end denies up to it and not from then on, without anybody's doing. */
static void a_block_lifts_itself_at_its_end(void **state)
{
    (void)state;
    const struct block list[] = {block("attr user=ada", 1000, ""), block("cidr ::/0", 2000, ""),
                                 block("key k", 3000, "")};
    struct blocks *blocks = make(list, 3);
    assert_true(denied(blocks, "user", "ada", 999) && !denied(blocks, "user", "ada", 1000));
    assert_true(denied(blocks, "ip", "1.2.3.4", 1999) && !denied(blocks, "ip", "1.2.3.4", 2000));
    assert_non_null(blocks_find_key(blocks, "k", 1, 2999));
    assert_null(blocks_find_key(blocks, "k", 1, 3000));
    blocks_free(&blocks);
}

/* Whether the address is in the network, by bits. */
static bool in_network(const uint8_t *address, const uint8_t *network, unsigned prefix)
{
    for (unsigned bit = 0; bit < prefix; bit++)
        if (((address[bit / 8] ^ network[bit / 8]) >> (7 - bit % 8) & 1) != 0)
            return false;
    return true;
}

/* Random networks deny exactly the addresses that a bit-by-bit comparison with each finds in them.
 */
static void networks_deny_what_lies_in_them(void **state)
{
    (void)state;
    static char names[RANDOM_BLOCKS][64];
    static uint8_t networks[RANDOM_BLOCKS][4];
    static unsigned prefixes[RANDOM_BLOCKS];
    static struct block list[RANDOM_BLOCKS];
    struct random random;
    uint32_t hits = 0;
    random_init(&random, 5);
    for (uint32_t i = 0; i < RANDOM_BLOCKS; i++) {
        char written[64];
        prefixes[i] = 6 + (unsigned)random_below(&random, 27);
        const uint32_t mask = UINT32_MAX << (32 - prefixes[i]);
        for (uint32_t b = 0; b < 4; b++)
            networks[i][b] = (uint8_t)(random_next(&random) & mask >> (24 - 8 * b));
        (void)snprintf(written, sizeof written, "%u.%u.%u.%u/%u", networks[i][0], networks[i][1],
                       networks[i][2], networks[i][3], prefixes[i]);
        (void)snprintf(names[i], sizeof names[i], "%s", name_of(written, false));
        list[i] = block(names[i], 0, "");
    }
    struct blocks *blocks = make(list, RANDOM_BLOCKS);
    for (uint32_t n = 0; n < RANDOM_LOOKS; n++) {
        uint8_t address[4];
        char shown[64];
        bool expected = false;
        const uint32_t near = (uint32_t)random_below(&random, RANDOM_BLOCKS);
        memcpy(address, networks[near], sizeof address);
        for (uint32_t flips = 0; flips < 3; flips++) {
            const uint64_t bit = random_below(&random, 32);
            address[bit / 8] = (uint8_t)(address[bit / 8] ^ 0x80 >> bit % 8);
        }
        for (uint32_t i = 0; i < RANDOM_BLOCKS && !expected; i++)
            expected = in_network(address, networks[i], prefixes[i]);
        (void)snprintf(shown, sizeof shown, "%u.%u.%u.%u", address[0], address[1], address[2],
                       address[3]);
        assert_int_equal(denied(blocks, "ip", shown, 1), expected);
        hits += expected;
    }
    assert_true(hits > RANDOM_LOOKS / 10 && hits < RANDOM_LOOKS * 9 / 10);
    blocks_free(&blocks);
}

/* Names that are none are left out, too many are refused, and missing memory leaks nothing. */
static void what_is_no_block_is_left_out(void **state)
{
    (void)state;
    struct alloc_failing failing;
    const struct block list[] = {block("cidr nonsense", 0, "x"), block("", 0, "x"),
                                 block("attr x", 0, "x"), block("key k", 0, "x")};
    struct blocks *blocks = make(list, 4);
    assert_non_null(blocks_find_key(blocks, "k", 1, 1));
    assert_false(denied(blocks, "ip", "1.1.1.1", 1));
    blocks_free(&blocks);
    assert_int_equal(
        blocks_new(alloc_heap(), attribute_kinds_default(), list, BLOCKS_MAX + 1, &blocks),
        TG_ETOOBIG);
    for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
        alloc_failing_init(&failing, fail_at);
        assert_int_equal(
            blocks_new(&failing.allocator, attribute_kinds_default(), list, 4, &blocks), TG_ENOMEM);
        assert_int_equal(failing.bytes_live, 0);
    }
}

static int join(const struct policy *base, struct blocks *blocks, struct policy **out)
{
    return policy_join(alloc_heap(), base, &(struct policy_joined){.blocks = blocks}, out);
}

/* Rules with blocks are the same rules; they outlive the policy they were made from. */
static void rules_stay_the_same_beside_blocks(void **state)
{
    (void)state;
    static const char rules[] = "rules:\n  - {name: a, key: [user], limits: [{rate: 5/h}]}\n";
    const struct block list[] = {block("attr user=ada", 0, "no")};
    struct policy_error error;
    struct policy_result result;
    struct policy *base;
    struct policy *policy;
    assert_int_equal(policy_compile(rules, strlen(rules), alloc_heap(), &base, &error), 0);
    assert_int_equal(join(base, make(list, 1), &policy), 0);
    struct policy *shared = policy_share(policy);
    policy_free(&base);
    policy_free(&policy);
    const struct policy_attribute bob = attribute("user", "bob");
    assert_int_equal(policy_resolve(shared, &bob, 1, &result), 0);
    assert_int_equal(result.action, POLICY_LIMITS);
    assert_true(denied(policy_joined(shared)->blocks, "user", "ada", 1));
    policy_free(&shared);
    assert_int_equal(join(policy_empty(), make(list, 1), &policy), 0);
    assert_int_equal(policy_rule_count(policy), 0);
    policy_free(&policy);
    assert_null(policy_joined(policy_empty())->blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_blocked_has_one_name),
        cmocka_unit_test(what_is_longer_than_a_request_may_have_is_refused),
        cmocka_unit_test(a_network_with_bits_behind_its_prefix_is_refused),
        cmocka_unit_test(a_value_is_blocked_in_its_one_spelling),
        cmocka_unit_test(blocks_follow_the_kinds_of_the_rules_in_force),
        cmocka_unit_test(what_is_blocked_is_denied_with_its_reason),
        cmocka_unit_test(a_block_lifts_itself_at_its_end),
        cmocka_unit_test(networks_deny_what_lies_in_them),
        cmocka_unit_test(what_is_no_block_is_left_out),
        cmocka_unit_test(rules_stay_the_same_beside_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_access.c - what a request asks of the shard needs these rights; who has them; and which
 * right each of operators' commands needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/vocabulary.h"
#include "node/gateway/access.h"
#include "node/policy/people/policy_join.h"
#include "node/policy/rights/commands.h"
#include "node/policy/rights/token.h"

static struct wire_checks_builder builder;
static uint8_t values[4096];

static struct wire_text text_of(const char *text)
{
    return (struct wire_text){text, strlen(text)};
}

static int setup(void **state)
{
    (void)state;
    wire_checks_builder_init(&builder, values, sizeof values);
    return 0;
}

static void append(int template, uint8_t operation)
{
    const struct wire_text value = text_of("v");
    assert_true(template >= 0);
    assert_true(
        wire_checks_builder_append(&builder, (uint32_t) template, operation, 1, &value, 1) >= 0);
}

static int attributes(void)
{
    const struct wire_text name = text_of("user");
    return wire_checks_builder_attributes(&builder, &name, 1);
}

static int inline_limit(void)
{
    const struct limit limit = {.count = 5, .window_ns = UINT64_C(60000000000), .burst = 5};
    return wire_checks_builder_inline(&builder, &limit);
}

static int rule(uint64_t count)
{
    const struct wire_rule named = {
        .name = text_of("shop"), .count = count, .window_s = count > 0 ? 60 : 0};
    return wire_checks_builder_rules(&builder, &named, 1);
}

static void operations_need_the_right_of_what_they_change(void **state)
{
    static const uint8_t needs[] = {
        [OPERATION_CHECK] = RIGHT_CHECK,    [OPERATION_PEEK] = RIGHT_CHECK,
        [OPERATION_HIT] = RIGHT_ADJUST,     [OPERATION_REFUND] = RIGHT_ADJUST,
        [OPERATION_RESET] = RIGHT_ADJUST,   [OPERATION_LEASE] = RIGHT_CHECK,
        [OPERATION_RELEASE] = RIGHT_CHECK,  [OPERATION_RENEW] = RIGHT_CHECK,
        [OPERATION_RESERVE] = RIGHT_ADJUST, [OPERATION_COMMIT] = RIGHT_ADJUST,
        [OPERATION_CANCEL] = RIGHT_ADJUST};
    (void)state;
    for (uint8_t operation = 0; operation < OPERATION_COUNT; operation++) {
        const uint32_t from = builder.count;
        append(attributes(), operation);
        assert_int_equal(access_needs(&builder, from), needs[operation]);
    }
    assert_int_equal(access_needs(&builder, 0), RIGHT_CHECK | RIGHT_ADJUST);
    assert_int_equal(access_needs(&builder, builder.count), 0);
    append(attributes(), OPERATION_CHECK | WIRE_AT_MOST);
    assert_int_equal(access_needs(&builder, builder.count - 1), RIGHT_CHECK);
}

static void whoever_names_the_limit_needs_inline(void **state)
{
    (void)state;
    append(attributes(), OPERATION_CHECK);
    append(rule(0), OPERATION_CHECK);
    assert_int_equal(access_needs(&builder, 0), RIGHT_CHECK);
    append(inline_limit(), OPERATION_PEEK);
    append(rule(0), OPERATION_CHECK);
    assert_int_equal(access_needs(&builder, 2), RIGHT_CHECK | RIGHT_INLINE);
    assert_int_equal(access_needs(&builder, 3), RIGHT_CHECK);
    append(rule(5), OPERATION_REFUND);
    assert_int_equal(access_needs(&builder, 4), RIGHT_ADJUST | RIGHT_INLINE);
}

static void whoever_shows_nothing_has_the_anonymous_rights(void **state)
{
    struct access access;
    char text[ACCESS_SENTENCE_LEN];
    (void)state;
    access_judge(NULL, RIGHT_ADJUST, text_of(""), "127.0.0.1", 0, &access);
    assert_int_equal(access.rights, RIGHT_ADJUST | RIGHT_CHECK);
    assert_false(access.shown);
    assert_string_equal(access_missing(&access, RIGHT_CHECK), "");
    assert_string_equal(access_missing(&access, RIGHT_CHECK | RIGHT_INLINE), "inline");
    access_sentence(&access, RIGHT_INLINE, text);
    assert_non_null(strstr(text, "token create NAME --role inline"));
    access_judge(NULL, RIGHT_ADJUST, text_of("tgt_x"), "127.0.0.1", 0, &access);
    assert_int_equal(access.rights, 0); /* what is shown counts, good or not */
    access_sentence(&access, RIGHT_CHECK, text);
    assert_non_null(strstr(text, "cut or mistyped"));
}

static void whoever_shows_a_token_has_its_rights_alone(void **state)
{
    uint8_t random[TOKEN_RANDOM_LEN] = {1, 2, 3};
    uint8_t bytes[CREDENTIAL_RECORD_LEN_MAX];
    char token[TOKEN_LEN + 1];
    char text[ACCESS_SENTENCE_LEN];
    struct credential_record record = {
        .name = {"web", 3}, .roles = RIGHT_OBSERVE, .digest_count = 1};
    struct policy_joined with = {.version = 1};
    struct policy *policy;
    struct access access;
    (void)state;
    token_write(random, NULL, token);
    digest_make(token, TOKEN_LEN, &record.digests[0].digest);
    const int len = credential_encode(&record, bytes, sizeof bytes);
    const struct credential_entry entry = {{token + 4, TOKEN_ID_LEN}, {(char *)bytes, (size_t)len}};
    assert_int_equal(credentials_new(alloc_heap(), &entry, 1, &with.credentials), 0);
    assert_int_equal(policy_join(alloc_heap(), policy_empty(), &with, &policy), 0);
    access_judge(policy, ACCESS_ANONYMOUS, text_of(token), "unix", 0, &access);
    assert_int_equal(access.rights, RIGHT_OBSERVE);
    assert_memory_equal(access.credential->name.data, "web", 3);
    access_sentence(&access, RIGHT_CHECK, text);
    assert_string_equal(text, "the credential web has not the role check, which this needs");
    access_judge(policy_empty(), ACCESS_ANONYMOUS, text_of(token), "unix", 0, &access);
    assert_int_equal(access.rights, 0);
    policy_free(&policy);
}

static void a_command_that_nobody_thought_of_needs_admin(void **state)
{
    (void)state;
    assert_int_equal(command_right("status", 6), RIGHT_OBSERVE);
    assert_int_equal(command_right("block", 5), RIGHT_OPERATE);
    assert_int_equal(command_right("rules.apply", 11), RIGHT_ADMIN);
    assert_int_equal(command_right("credential.create", 17), RIGHT_ADMIN);
    assert_int_equal(command_right("stat", 4), RIGHT_ADMIN);
    assert_int_equal(command_right("", 0), RIGHT_ADMIN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(operations_need_the_right_of_what_they_change),
        TEST(whoever_names_the_limit_needs_inline),
        TEST(whoever_shows_nothing_has_the_anonymous_rights),
        TEST(whoever_shows_a_token_has_its_rights_alone),
        TEST(a_command_that_nobody_thought_of_needs_admin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

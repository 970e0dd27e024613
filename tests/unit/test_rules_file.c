/* test_rules_file.c - loading the rules file: what is taken, what is refused, what stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/policy/compile/packed.h"
#include "node/runtime/control/daemon_state.h"
#include "tests/unit/support_scratch.h"

enum { ERROR_LEN = 1024 };

struct fixture {
    struct daemon *daemon;
    struct config config;
    char error[ERROR_LEN];
};

static int setup(void **state)
{
    static struct fixture fixture;

    memset(&fixture, 0, sizeof(fixture));
    *state = &fixture;
    fixture.daemon = calloc(1, sizeof(*fixture.daemon));
    if (scratch_file(fixture.config.rules, "tidegate-rules") != 0 || fixture.daemon == NULL)
        return -1;
    fixture.daemon->config = &fixture.config;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    policy_free(&f->daemon->rules.alone);
    policy_free(&f->daemon->rules.joined);
    policy_free(&f->daemon->rules.file.policy);
    free(f->daemon->rules.file.text);
    free(f->daemon);
    (void)unlink(f->config.rules);
    return 0;
}

static void write_rules(const struct fixture *f, const char *text)
{
    FILE *file = fopen(f->config.rules, "wb");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int load(struct fixture *f)
{
    return rules_load(f->daemon, f->error, sizeof(f->error));
}

static const char one_rule[] = "rules:\n"
                               "  - name: per-user\n"
                               "    key: [user_id]\n"
                               "    limits: [{rate: 10/min}]\n";

/* A node without a rules file has no rules and no complaint. */
static void no_file_is_no_rules(void **state)
{
    struct fixture *f = *state;
    char path[sizeof(f->config.rules)];

    memcpy(path, f->config.rules, sizeof(path));
    f->config.rules[0] = '\0';
    assert_int_equal(load(f), 0);
    assert_null(f->daemon->rules.joined);
    memcpy(f->config.rules, path, sizeof(path));
}

/* A good file is compiled, and its text kept for the shards' copies. */
static void a_good_file_is_taken(void **state)
{
    struct fixture *f = *state;

    write_rules(f, one_rule);
    if (load(f) != 0)
        fail_msg("%s", f->error);
    assert_int_equal(policy_rule_count(f->daemon->rules.joined), 1);
    assert_int_equal(f->daemon->rules.file.len, strlen(one_rule));
    assert_memory_equal(f->daemon->rules.file.text, one_rule, strlen(one_rule));
}

/* A file that does not compile is refused with its place, and the rules before it stay. */
static void a_bad_file_changes_nothing_and_tells_the_place(void **state)
{
    struct fixture *f = *state;
    char place[sizeof(f->config.rules) + 8];

    write_rules(f, one_rule);
    assert_int_equal(load(f), 0);
    const struct policy *before = f->daemon->rules.joined;
    write_rules(
        f,
        "rules:\n  - name: broken\n    key: [user_id]\n    limits: [{rate: ten per blue moon}]\n");
    assert_true(load(f) != 0);
    (void)snprintf(place, sizeof(place), "%s:", f->config.rules);
    assert_int_equal(strncmp(f->error, place, strlen(place)), 0);
    assert_int_equal(f->error[strlen(place)], '4'); /* the line */
    assert_ptr_equal(f->daemon->rules.joined, before);
    assert_int_equal(f->daemon->rules.file.len, strlen(one_rule));
}

/* A file that is missing, and one above the bound, are refused by name. */
static void a_file_that_cannot_be_read_is_named(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(truncate(f->config.rules, POLICY_FILE_LEN_MAX + 1), 0);
    assert_int_equal(load(f), TG_EINVALID);
    assert_non_null(strstr(f->error, f->config.rules));
    assert_non_null(strstr(f->error, "larger than 16777216 bytes"));
    assert_int_equal(unlink(f->config.rules), 0);
    assert_int_equal(load(f), TG_EINVALID);
    assert_non_null(strstr(f->error, f->config.rules));
    assert_null(f->daemon->rules.joined);
}

/* A rule behind so many bytes of comment, all alike or all different. */
static void write_large(const struct fixture *f, size_t len, bool alike)
{
    FILE *file = fopen(f->config.rules, "wb");
    struct random random;
    random_init(&random, 4);
    assert_non_null(file);
    for (size_t i = 0; i < len; i++) {
        const char *sign = i % 100 == 0 ? "\n#" : "x";
        const char noise[] = {(char)(' ' + random_below(&random, 95)), '\0'};
        assert_true(fputs(i % 100 == 0 || alike ? sign : noise, file) >= 0);
    }
    assert_true(fprintf(file, "\n%s", one_rule) > 0);
    assert_int_equal(fclose(file), 0);
}

/* A large file is kept packed, as the settings keep it; one that does not pack well enough is
 * refused with its lengths. */
static void a_large_file_is_kept_packed(void **state)
{
    struct fixture *f = *state;

    write_large(f, 3 << 20, true);
    if (load(f) != 0)
        fail_msg("%s", f->error);
    assert_int_equal(policy_rule_count(f->daemon->rules.joined), 1);
    assert_true(packed_is(f->daemon->rules.file.text, f->daemon->rules.file.len));
    assert_true(f->daemon->rules.file.len < 1 << 16);
    assert_in_range(packed_text_len(f->daemon->rules.file.text, f->daemon->rules.file.len), 3 << 20,
                    4 << 20);
    write_large(f, 3 << 19, false);
    assert_int_equal(load(f), TG_ETOOBIG);
    assert_int_equal(strncmp(f->error, f->config.rules, strlen(f->config.rules)), 0);
    assert_non_null(strstr(f->error, "more than the 1036288 that a cluster keeps"));
    assert_true(f->daemon->rules.file.len < 1 << 16);
}

/* In place of a shard's loop there is its mailbox alone. */
struct mailbox *shard_loop_mailbox(struct shard_loop *loop)
{
    return (struct mailbox *)(void *)loop;
}

/* Which takes nothing up. */
uint64_t shard_loop_policies(const struct shard_loop *loop)
{
    (void)loop;
    return 0;
}

/* A shard whose mailbox is full is given the rules in force when it has room again. */
static void a_full_mailbox_is_owed_the_rules(void **state)
{
    struct fixture *f = *state;
    struct mailbox mailbox;
    struct mailbox_message message;
    uv_loop_t loop;
    uv_async_t wake;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_async_init(&loop, &wake, NULL), 0);
    assert_int_equal(mailbox_init(&mailbox, &wake), 0);
    write_rules(f, one_rule);
    assert_int_equal(load(f), 0);
    f->daemon->shards[0] = (struct shard_loop *)(void *)&mailbox;
    f->daemon->shard_count = 1;
    mailbox.count = MAILBOX_MESSAGES_MAX;
    rules_spread(f->daemon);
    assert_true(f->daemon->rules.owed == 1);
    mailbox.count = 0;
    rules_spread(f->daemon);
    assert_false(f->daemon->rules.owed);
    assert_true(mailbox_take(&mailbox, &message));
    assert_int_equal(message.kind, MESSAGE_POLICY);
    assert_ptr_equal(message.pointer, f->daemon->rules.joined);
    assert_false(mailbox_take(&mailbox, &message));
    policy_free(&(struct policy *){message.pointer});
    mailbox_fini(&mailbox);
    uv_close((uv_handle_t *)&wake, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_file_is_no_rules),
        TEST(a_good_file_is_taken),
        TEST(a_bad_file_changes_nothing_and_tells_the_place),
        TEST(a_file_that_cannot_be_read_is_named),
        TEST(a_large_file_is_kept_packed),
        TEST(a_full_mailbox_is_owed_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

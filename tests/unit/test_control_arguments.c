/* test_control_arguments.c - what is wrong with an operator's command is said, and nothing of it is
 * done: an argument that cannot be what it should is never as if it were not given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/protocol/wire.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/control/control_state.h"
#include "node/policy/compile/packed.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { ARGUMENTS_MAX = 4, FRAME_LEN = 8192, TOKENS_MAX = 256, LONG_LEN = 300 };

struct argument {
    const char *name; /* NULL: no more */
    const char *text; /* NULL: the number */
    uint64_t number;
};

struct wrong {
    const char *command;
    struct argument arguments[ARGUMENTS_MAX];
    int code;
    const char *says;
};

static char long_text[LONG_LEN + 1];

static size_t write_question(const struct wrong *asked, uint8_t frame[FRAME_LEN])
{
    static unsigned number;
    char id[33];
    bool named = strcmp(asked->command, "drain") == 0 || strcmp(asked->command, "leave") == 0;
    bool signs = named;
    uint32_t count = 0;
    struct mp_writer writer;
    for (; count < ARGUMENTS_MAX && asked->arguments[count].name != NULL; count++)
        signs = signs || strcmp(asked->arguments[count].name, "author") == 0;
    (void)snprintf(id, sizeof id, "%032x", ++number);
    mp_writer_init(&writer, frame, FRAME_LEN);
    wire_begin_admin(&writer, 7, 1, asked->command);
    mp_put_map(&writer, count + !named + !signs);
    if (!named) {
        mp_put_str(&writer, "id");
        mp_put_str(&writer, id);
    }
    if (!signs) {
        mp_put_str(&writer, "author");
        mp_put_str(&writer, "ada");
    }
    for (uint32_t i = 0; i < count; i++) {
        mp_put_str(&writer, asked->arguments[i].name);
        if (asked->arguments[i].text != NULL)
            mp_put_str(&writer, asked->arguments[i].text);
        else
            mp_put_uint(&writer, asked->arguments[i].number);
    }
    assert_false(writer.failed);
    return writer.len;
}

/* Asks node 0; the code. `said`: the sentence of an error, or the state. */
static int ask(struct net *net, const struct wrong *asked, char said[WIRE_ERROR_LEN])
{
    static uint8_t reply[1 << 20];
    static struct mp_token tokens[TOKENS_MAX];
    const struct control_report report = {
        .policy = policy_empty(), .storage = "lmdb", .storage_ok = true};
    uint8_t frame[FRAME_LEN];
    char error[WIRE_ERROR_LEN];
    struct wire_admin_reply answer;
    struct mp_cursor cursor;
    const size_t len = control_admin(net->nodes[0].control, net->now_ns, frame,
                                     write_question(asked, frame), &report, reply, sizeof reply);
    assert_int_equal(wire_decode_admin_reply(reply, len, tokens, TOKENS_MAX, &answer, error), 0);
    said[0] = '\0';
    cursor = tokens_open(answer.value.tokens, answer.value.token_count);
    if (answer.code != 0)
        mp_copy_str(&cursor, said, WIRE_ERROR_LEN);
    return answer.code;
}

static void assert_refused(struct net *net, const struct wrong *asked)
{
    char said[WIRE_ERROR_LEN];
    const int code = ask(net, asked, said);
    if (code != asked->code || strstr(said, asked->says) == NULL)
        fail_msg("%s: %d '%s' does not say '%s'", asked->command, code, said, asked->says);
}

static void what_is_wrong_with_an_edit_is_named(void **state)
{
    const struct wrong all[] = {
        {"block",
         {{"what", "user=a", 0}, {"note", "a\nb", 0}},
         TG_EINVALID,
         "note: found a control character"},
        {"block",
         {{"what", "user=a", 0}, {"note", long_text, 0}},
         TG_EINVALID,
         "note: found 300 bytes; expected at most "},
        {"block",
         {{"what", "user=a", 0}, {"author", long_text, 0}},
         TG_EINVALID,
         "author: found 300 bytes; expected at most "},
        {"block", {{"what", "user=a", 0}, {"note", NULL, 7}}, TG_EINVALID, "note: found no text"},
        {"block", {{"what", "user=a", 0}, {"key", "k", 0}}, TG_EINVALID, "found what and key"},
        {"unblock", {{"what", "user=a", 0}, {"key", "k", 0}}, TG_EINVALID, "found what and key"},
        {"block", {{"what", "user=a", 0}, {"base", "7", 0}}, TG_EINVALID, "base: expected"},
        {"block",
         {{"what", "user=a", 0}, {"for_ms", NULL, 9}, {"until_ms", NULL, 0}},
         TG_EINVALID,
         "found until_ms and for_ms"},
        {"quota.set", {{"user", "a", 0}, {"for_ms", NULL, 9}}, TG_EINVALID, "expected block"},
        {"quota.set", {{"user", "a", 0}, {"until_ms", NULL, 9}}, TG_EINVALID, "expected block"},
        {"quota.set",
         {{"user", "a", 0}, {"block", "b", 0}, {"unblock", NULL, 1}},
         TG_EINVALID,
         "found block and unblock"},
        {"rules.apply",
         {{"text", "rules: []", 0}, {"version", NULL, 1}},
         TG_EINVALID,
         "rules.apply: found more than one"},
        {"rules.diff",
         {{"text", "rules: []", 0}, {"version", NULL, 1}},
         TG_EINVALID,
         "rules.diff: found more than one"},
    };
    struct net *net = net_cluster(1);
    const uint64_t version = net->nodes[0].control->settings->version;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_refused(net, &all[i]);
    net_run(net, NET_SECOND);
    assert_int_equal(net->nodes[0].control->settings->version, version);
    net_free(net);
}

/* No number that an operator gives is as if he had given none. */
static void an_edit_on_a_version_that_cannot_be_is_in_conflict(void **state)
{
    static const struct wrong asked = {
        "block", {{"what", "user=a", 0}, {"base", NULL, UINT64_MAX}}, 0, ""};
    struct net *net = net_cluster(1);
    const uint64_t version = net->nodes[0].control->settings->version;
    char said[WIRE_ERROR_LEN];
    (void)state;
    assert_int_equal(ask(net, &asked, said), 0);
    net_run(net, NET_SECOND);
    assert_int_equal(net->nodes[0].control->settings->version, version);
    net_free(net);
}

/* Whoever asks the wrong node is not obeyed, however the id is wrong. */
static void a_node_that_is_not_meant_stays(void **state)
{
    static const struct wrong all[] = {
        {"drain", {{"id", "00000000000000010", 0}}, TG_ECONFLICT, "not the node that was asked"},
        {"leave", {{"id", long_text, 0}}, TG_ECONFLICT, "not the node that was asked"},
        {"leave", {{"id", "", 0}}, TG_ECONFLICT, "not the node that was asked"},
        {"leave", {{"id", NULL, 1}}, TG_ECONFLICT, "not the node that was asked"},
        {"drain", {{"id", "0000000000000002", 0}}, TG_ECONFLICT, "not the node that was asked"},
    };
    static const struct wrong meant = {"drain", {{"id", "0000000000000001", 0}}, 0, ""};
    struct net *net = net_cluster(2);
    char said[WIRE_ERROR_LEN];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_refused(net, &all[i]);
        assert_int_equal(net->nodes[0].control->departure, CONTROL_STAYS);
    }
    assert_int_equal(ask(net, &meant, said), 0);
    assert_int_equal(net->nodes[0].control->departure, CONTROL_DRAINS);
    net_free(net);
}

static void a_removal_names_one_member_or_one_region(void **state)
{
    static const struct wrong all[] = {
        {"remove", {{"node", long_text, 0}}, TG_EINVALID, "node is no name"},
        {"remove", {{"region", long_text, 0}}, TG_EINVALID, "region is no name"},
        {"remove", {{"region", long_text, 0}, {"node", "n2", 0}}, TG_EINVALID, "region is no"},
        {"remove",
         {{"region", "default", 0}, {"node", "n2", 0}},
         TG_EINVALID,
         "found node and region"},
        {"remove", {{NULL, NULL, 0}}, TG_EINVALID, "expected {\"node\""},
    };
    struct net *net = net_cluster(2);
    const struct wrong own = {"remove",
                              {{"region", net->nodes[0].options.region, 0}},
                              TG_ECONFLICT,
                              "is the region of the node that was asked"};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_refused(net, &all[i]);
    assert_refused(net, &own);
    net_free(net);
}

/* ---- lists ----------------------------------------------------------------------------------- */

enum { BLOCKS = 2500, RULES = 1500, ROWS_TEXT_LEN = 1 << 18 };

/* Asks for a list behind `after` (NULL: from its beginning) and reads it; how many rows. *last:
 * what follows goes on behind. */
static uint32_t list(struct net *net, const char *command, const struct policy *policy,
                     const char *after, char last[WIRE_NAME_MAX * 4])
{
    static uint8_t reply[1 << 20];
    static struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    const struct control_report report = {.policy = policy, .storage = "lmdb", .storage_ok = true};
    uint8_t frame[FRAME_LEN];
    char error[WIRE_ERROR_LEN];
    struct wire_admin_reply answer;
    struct mp_writer writer;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, 7, 1, command);
    mp_put_map(&writer, after != NULL);
    if (after != NULL) {
        mp_put_str(&writer, "after");
        mp_put_str(&writer, after);
    }
    const size_t len = control_admin(net->nodes[0].control, net->now_ns, frame, writer.len, &report,
                                     reply, sizeof reply);
    assert_int_equal(
        wire_decode_admin_reply(reply, len, tokens, WIRE_ADMIN_TOKENS_MAX, &answer, error), 0);
    assert_int_equal(answer.code, 0);
    struct mp_cursor row = tokens_open(answer.value.tokens, answer.value.token_count);
    const uint32_t rows = mp_get_array(&row);
    for (uint32_t i = 0; i < rows; i++) {
        const bool blocks = strcmp(command, "blocks") == 0;
        char what[WIRE_NAME_MAX * 2];
        struct mp_cursor cursor = tokens_field(row, blocks                            ? "what"
                                                    : strcmp(command, "members") == 0 ? "id"
                                                                                      : "name");
        mp_copy_str(&cursor, what, sizeof what);
        (void)snprintf(last, WIRE_NAME_MAX * 4, "%s%s", blocks ? "attr " : "", what);
        mp_skip(&row);
    }
    assert_false(row.failed);
    return rows;
}

static uint32_t list_all(struct net *net, const char *command, const struct policy *policy,
                         uint32_t *parts)
{
    char last[WIRE_NAME_MAX * 4];
    char after[WIRE_NAME_MAX * 4];
    uint32_t rows = list(net, command, policy, NULL, last);
    uint32_t more = rows;
    for (*parts = 1; more > 0; ++*parts) {
        memcpy(after, last, sizeof after);
        more = list(net, command, policy, after, last);
        rows += more;
    }
    return rows;
}

/* Of many rules that do not act a part is told, and how many more there are. */
static void assert_explained(struct net *net, const struct policy *policy)
{
    static uint8_t reply[1 << 20];
    static struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    const struct control_report report = {.policy = policy, .storage = "lmdb", .storage_ok = true};
    uint8_t frame[FRAME_LEN];
    char error[WIRE_ERROR_LEN];
    struct wire_admin_reply answer;
    struct mp_writer writer;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, 7, 1, "rules.explain");
    mp_put_map(&writer, 1);
    mp_put_str(&writer, "attributes");
    mp_put_map(&writer, 1);
    mp_put_str(&writer, "ip");
    mp_put_str(&writer, "10.0.0.1");
    const size_t len = control_admin(net->nodes[0].control, net->now_ns, frame, writer.len, &report,
                                     reply, sizeof reply);
    assert_int_equal(
        wire_decode_admin_reply(reply, len, tokens, WIRE_ADMIN_TOKENS_MAX, &answer, error), 0);
    assert_int_equal(answer.code, 0);
    const struct mp_cursor map = tokens_open(answer.value.tokens, answer.value.token_count);
    struct mp_cursor rules = tokens_field(map, "rules");
    struct mp_cursor more = tokens_field(map, "rules_more");
    const uint32_t told = mp_get_array(&rules);
    assert_true(told > 0 && told < RULES);
    assert_int_equal(mp_get_uint(&more) + told, RULES);
}

/* No answer has more values than a reader takes, and none is left out. */
static void lists_come_in_parts_that_can_be_read(void **state)
{
    static char text[ROWS_TEXT_LEN];
    struct net *net = net_cluster(3);
    struct settings *settings = net->nodes[0].control->settings;
    struct policy *policy = NULL;
    struct policy_error error;
    uint32_t parts;
    (void)state;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        char name[64];
        const int len = snprintf(name, sizeof name, "attr user=u%05u", i);
        const struct settings_entry entry = {.kind = SETTINGS_BLOCK,
                                             .name = {name, (size_t)len},
                                             .value = {"\0\0\0\0\0\0\0\0why", 11},
                                             .author = {"ada", 3},
                                             .note = {"", 0},
                                             .version = 1};
        assert_int_equal(settings_table_put(&settings->table, &entry), 0);
    }
    assert_int_equal(list_all(net, "blocks", policy_empty(), &parts), BLOCKS);
    assert_true(parts > 3);
    size_t len = (size_t)snprintf(text, sizeof text, "rules:\n");
    for (uint32_t i = 0; i < RULES; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "  - {name: r%u, key: [user], limits: [{rate: 5/h}]}\n", i);
    assert_int_equal(packed_compile(text, len, alloc_heap(), NULL, &policy, &error), 0);
    assert_int_equal(list_all(net, "rules.list", policy, &parts), RULES);
    assert_true(parts > 2);
    assert_explained(net, policy);
    policy_free(&policy);
    assert_int_equal(list_all(net, "members", policy_empty(), &parts), 3);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_an_edit_is_named),
        cmocka_unit_test(an_edit_on_a_version_that_cannot_be_is_in_conflict),
        cmocka_unit_test(a_node_that_is_not_meant_stays),
        cmocka_unit_test(a_removal_names_one_member_or_one_region),
        cmocka_unit_test(lists_come_in_parts_that_can_be_read),
    };
    memset(long_text, 'x', LONG_LEN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

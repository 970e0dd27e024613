/* test_control_settings_answer.c - what operators ask of the configuration store, field by field of
 * PROTOCOL.md, and what is refused with which sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "client/protocol/wire.h"
#include "node/cluster/configstore/block_record.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/usage/usage_ledger.h"
#include "node/policy/compile/packed.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/people/people.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { TOKENS_MAX = 2048, FRAME_LEN = 16384, LARGE_LEN = 1 << 21 };

#define IS_TRUE UINT64_MAX /* a number that is sent as true */
#define ID_A    "00000000000000000000000000000001"
#define ID_B    "0000000000000000000000000000000b"
#define ID_C    "0000000000000000000000000000000c"

static const char rules_a[] = "rules:\n"
                              "  - name: a\n"
                              "    key: [user]\n"
                              "    limits: [{rate: 5/h}]\n"
                              "  - name: b\n"
                              "    key: [user]\n"
                              "    limits: [{rate: 6/h}]\n";
static const char rules_b[] = "rules:\n"
                              "  - name: b\n"
                              "    key: [user]\n"
                              "    limits: [{rate: 7/h}]\n"
                              "  - name: c\n"
                              "    key: [user]\n"
                              "    limits: [{rate: 8/h}]\n";
static const char rules_c[] = "rules: [{name: c, key: [user], limits: [{rate: 5/h}]}]";
struct answer {
    uint8_t frame[FRAME_LEN];
    struct mp_token tokens[TOKENS_MAX];
    struct wire_admin_reply reply;
    const struct policy *policy;
    struct usage_ledger *usage;              /* NULL: no totals */
    const struct control_compiled *compiled; /* of the next questions, or NULL */
    const char *to_compile;                  /* of the last one, as control_admin_compiles said */
    size_t to_compile_len;
};

/* An argument: a text, bytes (a text with its length as `number`), or a number where it is NULL. */
struct pair {
    const char *name;
    const char *text;
    uint64_t number;
};

static void ask(struct net *net, const char *command, const struct pair *pairs,
                struct answer *answer)
{
    struct control *const control = net->nodes[0].control;
    uint8_t frame[FRAME_LEN];
    char error[WIRE_ERROR_LEN];
    struct mp_writer writer;
    uint32_t count = 0;
    const struct shard_stats stats = {.checks = 3};
    const struct control_report report = {
        .shards = &stats,
        .shard_count = 1,
        .policy = answer->policy != NULL ? answer->policy : policy_empty(),
        .storage = "lmdb",
        .storage_ok = true,
        .usage = answer->usage,
        .compiled = answer->compiled,
    };
    while (pairs != NULL && pairs[count].name != NULL)
        count++;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, 7, 1, command);
    mp_put_map(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        mp_put_str(&writer, pairs[i].name);
        if (pairs[i].text != NULL && pairs[i].number > 0)
            mp_put_bin(&writer, pairs[i].text, pairs[i].number);
        else if (pairs[i].text != NULL)
            mp_put_str(&writer, pairs[i].text);
        else if (pairs[i].number == IS_TRUE)
            mp_put_bool(&writer, true);
        else
            mp_put_uint(&writer, pairs[i].number);
    }
    assert_false(writer.failed);
    answer->to_compile = NULL;
    if (!control_admin_compiles(control, frame, writer.len, &answer->to_compile,
                                &answer->to_compile_len))
        answer->to_compile_len = 0;
    const size_t len = control_admin(control, net->now_ns, frame, writer.len, &report,
                                     answer->frame, sizeof answer->frame);
    assert_int_equal(wire_decode_admin_reply(answer->frame, len, answer->tokens, TOKENS_MAX,
                                             &answer->reply, error),
                     0);
}

static struct mp_cursor value_of(const struct answer *answer)
{
    return tokens_open(answer->reply.value.tokens, answer->reply.value.token_count);
}

static void assert_refused(const struct answer *answer, int code, const char *part)
{
    char sentence[512];
    struct mp_cursor cursor = value_of(answer);
    assert_int_equal(answer->reply.code, code);
    mp_copy_str(&cursor, sentence, sizeof sentence);
    assert_false(cursor.failed);
    if (strstr(sentence, part) == NULL)
        fail_msg("'%s' does not say '%s'", sentence, part);
}

static uint64_t number_of(const struct answer *answer, const char *name)
{
    struct mp_cursor cursor = tokens_field(value_of(answer), name);
    const uint64_t number = mp_get_uint(&cursor);
    assert_false(cursor.failed);
    return number;
}

static bool true_of(const struct answer *answer, const char *name)
{
    struct mp_cursor cursor = tokens_field(value_of(answer), name);
    return mp_get_bool(&cursor);
}

/* Makes an edit and lets it end; the answer is its state. */
static void make(struct net *net, const char *command, const struct pair *pairs,
                 struct answer *answer)
{
    ask(net, command, pairs, answer);
    assert_int_equal(answer->reply.code, 0);
    net_run(net, NET_SECOND);
    const struct pair id[] = {pairs[0], {NULL, NULL, 0}};
    ask(net, "edit.state", id, answer);
    assert_int_equal(answer->reply.code, 0);
}

static void apply(struct net *net, const char *id, const char *text, struct answer *answer)
{
    const struct pair pairs[] = {{"id", id, 0},
                                 {"author", "ada", 0},
                                 {"note", "why", 0},
                                 {"text", text, 0},
                                 {NULL, NULL, 0}};
    make(net, "rules.apply", pairs, answer);
    tokens_assert_text(value_of(answer), "state", "done");
}

/* What is applied is shown with author, time and note, listed in the history, and compared with. */
static void what_is_applied_is_shown_listed_and_compared(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    struct policy_error error;
    struct policy *policy;
    answer.policy = NULL;
    ask(net, "rules.show", NULL, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "no rules have been applied");
    apply(net, ID_A, rules_a, &answer);
    tokens_assert_text(value_of(&answer), "id", ID_A);
    const uint64_t first = number_of(&answer, "version");
    assert_true(true_of(&answer, "changed"));
    ask(net, "rules.show", NULL, &answer);
    tokens_assert_text(value_of(&answer), "text", rules_a);
    tokens_assert_text(value_of(&answer), "author", "ada");
    tokens_assert_text(value_of(&answer), "note", "why");
    tokens_assert_text(value_of(&answer), "time", "2023-11-14T22:13:25Z");
    assert_int_equal(policy_compile(rules_a, strlen(rules_a), alloc_heap(), &policy, &error), 0);
    control_rules(net->nodes[0].control, first, policy_digest(policy));
    answer.policy = policy;
    const struct pair other[] = {{"text", rules_b, 0}, {NULL, NULL, 0}};
    ask(net, "rules.diff", other, &answer);
    assert_true(true_of(&answer, "ok") && !true_of(&answer, "same_text"));
    assert_int_equal(number_of(&answer, "version"), first);
    static const char *const lists[] = {"added", "removed", "changed"};
    static const char *const names[] = {"c", "a", "b"};
    for (size_t i = 0; i < 3; i++) {
        char name[8];
        struct mp_cursor cursor = tokens_field(value_of(&answer), lists[i]);
        assert_int_equal(mp_get_array(&cursor), 1);
        mp_copy_str(&cursor, name, sizeof name);
        assert_string_equal(name, names[i]);
    }
    assert_false(true_of(&answer, "order_changed"));
    assert_false(true_of(&answer, "attributes_changed"));
    const struct pair verbatim[] = {{"text", "attributes: {api: verbatim}\nrules: []", 0},
                                    {NULL, NULL, 0}};
    ask(net, "rules.diff", verbatim, &answer);
    assert_true(true_of(&answer, "attributes_changed") && !true_of(&answer, "same_meaning"));
    apply(net, ID_B, rules_b, &answer);
    ask(net, "rules.history", NULL, &answer);
    struct mp_cursor cursor = value_of(&answer);
    assert_int_equal(mp_get_array(&cursor), 2);
    struct mp_cursor newest = tokens_field(cursor, "version");
    assert_true(mp_get_uint(&newest) > first);
    const struct pair old[] = {{"version", NULL, first}, {NULL, NULL, 0}};
    ask(net, "rules.show", old, &answer);
    tokens_assert_text(value_of(&answer), "text", rules_a);
    const struct pair none[] = {{"version", NULL, 1000}, {NULL, NULL, 0}};
    ask(net, "rules.show", none, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "no such version");
    policy_free(&policy);
    net_free(net);
}

/* Rules that do not compile are answered with their place, and begin no edit; nor does one that is
 * based on something else, or lacks its id or its author. */
static void what_cannot_be_applied_is_refused(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    apply(net, ID_A, rules_a, &answer);
    const struct pair bad[] = {{"id", ID_B, 0},
                               {"author", "ada", 0},
                               {"text", "rules:\n  - nonsense\n", 0},
                               {NULL, NULL, 0}};
    ask(net, "rules.apply", bad, &answer);
    assert_int_equal(answer.reply.code, 0);
    assert_false(true_of(&answer, "ok"));
    assert_int_equal(number_of(&answer, "line"), 2);
    const struct pair state_of[] = {{"id", ID_B, 0}, {NULL, NULL, 0}};
    ask(net, "edit.state", state_of, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "does not know");
    const struct pair based[] = {{"id", ID_B, 0},
                                 {"author", "bob", 0},
                                 {"text", rules_b, 0},
                                 {"base", NULL, 1},
                                 {NULL, NULL, 0}};
    make(net, "rules.apply", based, &answer);
    tokens_assert_text(value_of(&answer), "state", "conflict");
    const struct pair no_id[] = {{"author", "ada", 0}, {"text", rules_b, 0}, {NULL, NULL, 0}};
    ask(net, "rules.apply", no_id, &answer);
    assert_refused(&answer, TG_EINVALID, "32 hex digits");
    const struct pair no_author[] = {{"id", ID_C, 0}, {"text", rules_b, 0}, {NULL, NULL, 0}};
    ask(net, "rules.apply", no_author, &answer);
    assert_refused(&answer, TG_EINVALID, "author");
    const struct pair nobody[] = {
        {"id", ID_C, 0}, {"author", "", 0}, {"text", rules_b, 0}, {NULL, NULL, 0}};
    ask(net, "rules.apply", nobody, &answer);
    assert_refused(&answer, TG_EINVALID, "author");
    const struct pair odd[] = {
        {"id", ID_C, 0}, {"author", "a\033b", 0}, {"text", rules_b, 0}, {NULL, NULL, 0}};
    ask(net, "rules.apply", odd, &answer);
    assert_int_equal(answer.reply.code, TG_EINVALID);
    ask(net, "rules.apply", NULL, &answer);
    assert_refused(&answer, TG_EINVALID, "text");
    net_free(net);
}

/* The bytes of the answer's field `packed` are these. */
static void assert_packed(const struct answer *answer, const struct packed *expected)
{
    size_t len = 0;
    struct mp_cursor cursor = tokens_field(value_of(answer), "packed");
    const uint8_t *bytes = mp_get_bin(&cursor, &len);
    assert_non_null(bytes);
    assert_int_equal(len, expected->len);
    assert_memory_equal(bytes, expected->data, len);
}

/* A document that is longer than a message is applied, shown, compared and listed packed; who
 * cannot take it so is told its length, and what is damaged begins no edit. */
static void a_large_document_goes_packed(void **state)
{
    (void)state;
    static struct answer answer;
    static char text[LARGE_LEN];
    struct net *net = net_cluster(1);
    struct packed packed;
    answer.policy = NULL;
    memset(text, '#', sizeof text);
    for (size_t i = 99; i < sizeof text; i += 100)
        text[i] = '\n';
    memcpy(text, rules_a, sizeof rules_a - 1);
    assert_int_equal(packed_make(text, sizeof text, alloc_heap(), &packed), 0);
    struct pair pairs[] = {{"id", ID_A, 0},
                           {"author", "ada", 0},
                           {"packed", packed.data, packed.len - 1},
                           {NULL, NULL, 0}};
    ask(net, "rules.apply", pairs, &answer);
    assert_false(true_of(&answer, "ok"));
    pairs[2].number = packed.len;
    make(net, "rules.apply", pairs, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    ask(net, "rules.show", NULL, &answer);
    assert_refused(&answer, TG_ETOOBIG, "has 2097152 bytes");
    const struct pair take[] = {{"packed", NULL, IS_TRUE}, {NULL, NULL, 0}};
    ask(net, "rules.show", take, &answer);
    assert_packed(&answer, &packed);
    ask(net, "rules.history", NULL, &answer);
    struct mp_cursor list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 1);
    list = tokens_field(list, "bytes");
    assert_int_equal(mp_get_uint(&list), sizeof text);
    ask(net, "rules.diff", pairs + 2, &answer);
    assert_true(true_of(&answer, "ok") && true_of(&answer, "same_text"));
    assert_int_equal(number_of(&answer, "rules"), 2);
    assert_int_equal(answer.to_compile_len, packed.len);
    const struct pair other[] = {{"text", rules_b, 0}, {NULL, NULL, 0}};
    ask(net, "rules.diff", other, &answer);
    assert_true(true_of(&answer, "ok") && !true_of(&answer, "same_text"));
    packed_fini(&packed, alloc_heap());
    net_free(net);
}

/* A short document that somebody sent packed is shown as text to who does not ask otherwise. */
static void a_short_document_is_unpacked_for_whoever_wants_text(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    uint8_t bytes[512];
    z_stream stream = {.zalloc = NULL};
    answer.policy = NULL;
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (z_const Bytef *)(uintptr_t)rules_a;
    stream.avail_in = sizeof rules_a - 1;
    stream.next_out = bytes;
    stream.avail_out = sizeof bytes;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const struct packed packed = {.data = (const char *)bytes, .len = stream.total_out};
    assert_int_equal(deflateEnd(&stream), Z_OK);
    const struct pair pairs[] = {{"id", ID_A, 0},
                                 {"author", "ada", 0},
                                 {"packed", packed.data, packed.len},
                                 {NULL, NULL, 0}};
    make(net, "rules.apply", pairs, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    ask(net, "rules.show", NULL, &answer);
    tokens_assert_text(value_of(&answer), "text", rules_a);
    const struct pair take[] = {{"packed", NULL, IS_TRUE}, {NULL, NULL, 0}};
    ask(net, "rules.show", take, &answer);
    assert_packed(&answer, &packed);
    net_free(net);
}

/* Blocks are kept under one name, listed while they last, lifted by the same words; nonsense is
 * refused with what was expected. */
static void blocks_are_made_listed_and_lifted(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    const struct pair block[] = {{"id", ID_A, 0},           {"author", "ada", 0},
                                 {"what", "10.0.0.0/8", 0}, {"reason", "noise", 0},
                                 {"for_ms", NULL, 5000},    {NULL, NULL, 0}};
    make(net, "block", block, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_BLOCK));
    assert_false(control_kind_due(net->nodes[0].control, SETTINGS_BLOCK));
    control_kind_missed(net->nodes[0].control, SETTINGS_BLOCK);
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_BLOCK));
    assert_false(control_kind_due(net->nodes[0].control, SETTINGS_BLOCK));
    ask(net, "blocks", NULL, &answer);
    struct mp_cursor list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 1);
    tokens_assert_text(list, "kind", "cidr");
    tokens_assert_text(list, "what", "10.0.0.0/8");
    tokens_assert_text(list, "reason", "noise");
    struct block kept;
    size_t cursor = 0;
    const struct settings_entry *entry =
        control_setting_next(net->nodes[0].control, SETTINGS_BLOCK, &cursor);
    assert_true(entry != NULL && control_block_of(entry, &kept) && kept.until_ms > 0);
    net_run(net, 5 * NET_SECOND);
    ask(net, "blocks", NULL, &answer);
    list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 0);
    net_run(net, 120 * NET_SECOND); /* and upkeep removes what has ended */
    cursor = 0;
    assert_null(control_setting_next(net->nodes[0].control, SETTINGS_BLOCK, &cursor));
    const struct pair key[] = {
        {"id", ID_B, 0}, {"author", "ada", 0}, {"key", "k", 0}, {NULL, NULL, 0}};
    make(net, "block", key, &answer);
    const struct pair lift[] = {
        {"id", ID_C, 0}, {"author", "ada", 0}, {"key", "k", 0}, {NULL, NULL, 0}};
    make(net, "unblock", lift, &answer);
    assert_true(true_of(&answer, "changed"));
    const struct pair nonsense[] = {
        {"id", ID_C, 0}, {"author", "ada", 0}, {"what", "nonsense", 0}, {NULL, NULL, 0}};
    ask(net, "block", nonsense, &answer);
    assert_refused(&answer, TG_EINVALID, "expected like user=ada");
    const struct pair past[] = {{"id", ID_C, 0},
                                {"author", "ada", 0},
                                {"what", "user=ada", 0},
                                {"until_ms", NULL, 1},
                                {NULL, NULL, 0}};
    ask(net, "block", past, &answer);
    assert_refused(&answer, TG_EINVALID, "ended already");
    ask(net, "block", NULL, &answer);
    assert_refused(&answer, TG_EINVALID, "expected {");
    static const char *const changes[] = {"block", "unblock"};
    for (size_t i = 0; i < 2; i++) {
        const struct pair wide[] = {
            {"id", ID_C, 0}, {"author", "ada", 0}, {"what", "10.0.0.1/8", 0}, {NULL, NULL, 0}};
        ask(net, changes[i], wide, &answer);
        assert_refused(&answer, TG_EINVALID,
                       "found 10.0.0.1/8, which sets bits behind its prefix; expected 10.0.0.0/8");
    }
    net_free(net);
}

#define EDIT(id)                                                                                   \
    {"id", id, 0},                                                                                 \
    {                                                                                              \
        "author", "ada", 0                                                                         \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, 0                                                                              \
    }

/* A quota record is made of what is named, and what is not named later stays. */
static void quotas_are_set_and_shown(void **state)
{
    (void)state;
    static struct answer answer;
    static const char tiers[] = "{tiers: {free: {limits: [{rate: 1/h}]}}, rules: []}";
    struct net *net = net_cluster(1);
    struct policy_error error;
    struct policy *policy;
    assert_int_equal(policy_compile(tiers, strlen(tiers), alloc_heap(), &policy, &error), 0);
    answer = (struct answer){.policy = policy};
    const struct pair set[] = {EDIT(ID_A),
                               {"user", "bob", 0},
                               {"tier", "free", 0},
                               {"limits", "500/h 9/day", 0},
                               {"burst", NULL, 7},
                               {"block", "unpaid", 0},
                               {"for_ms", NULL, 5000},
                               {"notes", "since May", 0},
                               END};
    assert_false(control_kind_due(net->nodes[0].control, SETTINGS_QUOTA));
    make(net, "quota.set", set, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_QUOTA));
    assert_false(control_kind_due(net->nodes[0].control, SETTINGS_QUOTA));
    const struct pair more[] = {EDIT(ID_B), {"user", "bob", 0}, {"limits", "8/day 1/s", 0}, END};
    make(net, "quota.set", more, &answer);
    assert_true(true_of(&answer, "changed"));
    const struct pair bob[] = {{"user", "bob", 0}, END};
    ask(net, "quota.show", bob, &answer);
    tokens_assert_text(value_of(&answer), "user", "bob");
    tokens_assert_text(value_of(&answer), "tier", "free");
    struct mp_cursor limits = tokens_field(value_of(&answer), "limits");
    assert_int_equal(mp_get_array(&limits), 3);
    const char *const windows[] = {"1/s", "500/h", "8/d"};
    for (size_t i = 0; i < 3; i++) {
        char window[32];
        mp_copy_str(&limits, window, sizeof window);
        assert_string_equal(window, windows[i]);
    }
    assert_int_equal(number_of(&answer, "burst"), 7);
    assert_true(true_of(&answer, "blocked"));
    tokens_assert_text(value_of(&answer), "reason", "unpaid");
    tokens_assert_text(value_of(&answer), "notes", "since May");
    tokens_assert_text(value_of(&answer), "author", "ada");
    assert_true(number_of(&answer, "until_ms") > 0);
    net_run(net, 5 * NET_SECOND);
    ask(net, "quota.show", bob, &answer);
    assert_false(true_of(&answer, "blocked")); /* it has ended, and is still told */
    tokens_assert_text(value_of(&answer), "reason", "unpaid");
    const struct pair clear[] = {EDIT(ID_C), {"user", "bob", 0}, {"clear", NULL, 1}, END};
    make(net, "quota.set", clear, &answer);
    ask(net, "quota.show", bob, &answer);
    tokens_assert_text(value_of(&answer), "tier", "");
    tokens_assert_text(value_of(&answer), "reason", "");
    net_free(net);
    policy_free(&policy);
}

/* Totals of two requests of now, one of which exceeded a limit. */
static struct usage_ledger *note_usage(const struct net *net, uint64_t hash)
{
    const uint64_t now_ms = (uint64_t)net->now_ns / 1000000;
    struct usage_ledger *book = usage_ledger_new(alloc_heap());
    struct usage_tally *tally = usage_tally_new(alloc_heap());
    usage_tally_add(tally, hash, true, now_ms - 1);
    usage_tally_add(tally, hash, false, now_ms);
    usage_ledger_add(book, tally);
    usage_tally_free(&tally);
    return book;
}

/* Quota records are listed by name, page by page, and gone when they are deleted. */
static void quotas_are_listed_and_deleted(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    const struct pair bob[] = {{"user", "bob", 0}, END};
    const struct pair set[] = {EDIT(ID_A), {"user", "bob", 0}, END};
    answer = (struct answer){.usage = note_usage(net, people_hash("bob", 3))};
    make(net, "quota.set", set, &answer);
    ask(net, "quota.show", bob, &answer);
    assert_int_equal(number_of(&answer, "requests_today"), 2);
    assert_int_equal(number_of(&answer, "exceeded_month"), 1);
    assert_int_equal(number_of(&answer, "requests_total"), 2);
    assert_true(number_of(&answer, "last_seen_ms") > 0);
    const struct pair cid[] = {EDIT("0000000000000000000000000000000d"), {"user", "cid", 0}, END};
    make(net, "quota.set", cid, &answer);
    ask(net, "quota.list", NULL, &answer);
    struct mp_cursor list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 2);
    tokens_assert_text(list, "user", "bob");
    const struct pair after[] = {{"after", "bob", 0}, END};
    ask(net, "quota.list", after, &answer);
    list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 1);
    tokens_assert_text(list, "user", "cid");
    const struct pair gone[] = {EDIT("0000000000000000000000000000000e"), {"user", "bob", 0}, END};
    make(net, "quota.delete", gone, &answer);
    assert_true(true_of(&answer, "changed"));
    ask(net, "quota.show", bob, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "no quota record");
    (void)control_kind_due(net->nodes[0].control, SETTINGS_QUOTA);
    (void)control_kind_due(net->nodes[0].control, SETTINGS_API_KEY);
    settings_forget(net->nodes[0].control->settings); /* then nothing of before is in force */
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_QUOTA));
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_API_KEY));
    usage_ledger_free(&answer.usage);
    net_free(net);
}

/* What does not fit into a message comes in parts, each behind the one before, nothing twice. */
static void a_list_too_long_for_a_message_comes_in_parts(void **state)
{
    (void)state;
    enum { USERS = 40 };
    static struct answer answer;
    struct net *net = net_cluster(1);
    char notes[256];
    char last[16] = "";
    uint32_t seen = 0;
    uint32_t parts = 0;
    memset(notes, 'x', sizeof notes - 1);
    notes[sizeof notes - 1] = '\0';
    for (unsigned i = 0; i < USERS; i++) {
        char id[33];
        char user[16];
        (void)snprintf(id, sizeof id, "%032x", i + 1);
        (void)snprintf(user, sizeof user, "u%02u", i);
        const struct pair set[] = {EDIT(id), {"user", user, 0}, {"notes", notes, 0}, END};
        make(net, "quota.set", set, &answer);
    }
    for (uint32_t rows = 1; rows > 0; parts++) {
        const struct pair after[] = {{"after", last, 0}, END};
        ask(net, "quota.list", after, &answer);
        struct mp_cursor list = value_of(&answer);
        rows = mp_get_array(&list);
        for (uint32_t i = 0; i < rows; i++, seen++) {
            (void)snprintf(last, sizeof last, "u%02u", (unsigned)seen);
            tokens_assert_text(list, "user", last);
            mp_skip(&list);
        }
        assert_false(list.failed);
    }
    assert_int_equal(seen, USERS);
    assert_true(parts > 2); /* the last one is empty */
    net_free(net);
}

/* A dry run tells the record as it would be, of what is there and what is given, and changes
 * nothing; it refuses what a change would be refused for. */
static void a_quota_is_tried_without_a_change(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    const struct pair bob[] = {{"user", "bob", 0}, END};
    const struct pair trial[] = {{"user", "bob", 0}, {"dry_run", NULL, 1}, {"burst", NULL, 7}, END};
    const struct pair set[] = {EDIT(ID_A), {"user", "bob", 0}, {"notes", "since May", 0}, END};
    const struct pair bad[] = {
        {"user", "bob", 0}, {"dry_run", NULL, 1}, {"limits", "5/3h", 0}, END};
    answer = (struct answer){.policy = NULL};
    ask(net, "quota.set", trial, &answer);
    assert_int_equal(number_of(&answer, "burst"), 7);
    tokens_assert_text(value_of(&answer), "notes", "");
    ask(net, "quota.show", bob, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "no quota record");
    make(net, "quota.set", set, &answer);
    ask(net, "quota.set", trial, &answer);
    assert_int_equal(number_of(&answer, "burst"), 7);
    tokens_assert_text(value_of(&answer), "notes", "since May");
    ask(net, "quota.show", bob, &answer);
    assert_int_equal(number_of(&answer, "burst"), 0);
    ask(net, "quota.set", bad, &answer);
    assert_refused(&answer, TG_EINVALID, "expected a window of one second");
    net_free(net);
}

#define KEY_DIGEST "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* A block and a key that would end at once, or later than any clock shows, are refused: neither is
 * taken for one without an end. */
static void an_end_is_never_taken_for_none(void **state)
{
    static const struct {
        struct pair pair;
        const char *part;
    } bad[] = {
        {{"for_ms", NULL, 0}, "for_ms: expected a whole number of milliseconds from 1 to"},
        {{"for_ms", "soon", 0}, "for_ms: expected a whole number"},
        {{"for_ms", NULL, UINT64_MAX}, "from 1 to 9223372036854"},
        {{"until_ms", NULL, 253402300800000}, "until_ms: expected a whole number"},
    };
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct pair block[] = {EDIT(ID_A), {"what", "user=z", 0}, bad[i].pair, END};
        const struct pair quota[] = {
            EDIT(ID_A), {"user", "z", 0}, {"block", "x", 0}, bad[i].pair, END};
        const struct pair key[] = {
            EDIT(ID_A), {"key", "abcdefghijkl", 0}, {"digest", KEY_DIGEST, 0}, bad[i].pair, END};
        ask(net, "block", block, &answer);
        assert_refused(&answer, TG_EINVALID, bad[i].part);
        ask(net, "quota.set", quota, &answer);
        assert_refused(&answer, TG_EINVALID, bad[i].part);
        ask(net, "apikey.create", key, &answer);
        assert_refused(&answer, TG_EINVALID, bad[i].part);
    }
    net_free(net);
}

/* What is no user, tier, limit, block or note is refused with what was expected; of two edits that
 * were worked out from one record the second is told. */
static void quotas_that_cannot_be_are_refused(void **state)
{
    static const struct {
        struct pair pair;
        const char *part;
    } bad[] = {
        {{"tier", "gold", 0}, "tier gold: the rules in force have no tier of that name"},
        {{"tier", "a b", 0}, "tier: expected 1 to 64 letters"},
        {{"limits", "5/2h", 0}, "limit 5/2h: expected a window of one second"},
        {{"limits", "5/h 6/h", 0}, "limit 6/h: expected one limit of a window"},
        {{"limits", "soon", 0}, "limit: rate \"soon\""},
        {{"burst", NULL, 0}, "burst 0: expected 1"},
        {{"block", "", 0}, "block: expected a reason"},
        {{"notes", "a\nb", 0}, "notes: expected at most 256"},
    };
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct pair pairs[] = {EDIT(ID_A), {"user", "bob", 0}, bad[i].pair, END};
        ask(net, "quota.set", pairs, &answer);
        assert_refused(&answer, TG_EINVALID, bad[i].part);
    }
    const struct pair past[] = {
        EDIT(ID_A), {"user", "bob", 0}, {"block", "x", 0}, {"until_ms", NULL, 1}, END};
    ask(net, "quota.set", past, &answer);
    assert_refused(&answer, TG_EINVALID, "ended already");
    const struct pair nobody[] = {EDIT(ID_A), {"user", "", 0}, END};
    ask(net, "quota.set", nobody, &answer);
    assert_refused(&answer, TG_EINVALID, "expected {\"user\"");
    ask(net, "quota.show", NULL, &answer);
    assert_refused(&answer, TG_EINVALID, "expected {\"user\"");
    const struct pair first[] = {EDIT(ID_A), {"user", "bob", 0}, {"limits", "5/h", 0}, END};
    const struct pair second[] = {EDIT(ID_B), {"user", "bob", 0}, {"limits", "6/d", 0}, END};
    ask(net, "quota.set", first, &answer);
    make(net, "quota.set", second, &answer);
    tokens_assert_text(value_of(&answer), "state", "conflict");
    net_free(net);
}

/* Rules that this node cannot put in force are shown by status, with the reason, beside those that
 * it has; the cluster does not count as healthy. */
static void rules_that_are_not_in_force_are_shown(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    apply(net, ID_A, rules_a, &answer);
    const uint64_t newest = number_of(&answer, "version");
    control_rules_refused(net->nodes[0].control, newest, "line 1, column 1: a word of tomorrow");
    ask(net, "status", NULL, &answer);
    assert_false(true_of(&answer, "healthy"));
    const struct mp_cursor rules = tokens_field(value_of(&answer), "rules");
    struct mp_cursor at = tokens_field(rules, "version");
    assert_int_equal(mp_get_uint(&at), 0);
    at = tokens_field(rules, "newest");
    assert_int_equal(mp_get_uint(&at), newest);
    char error[128];
    at = tokens_field(rules, "error");
    mp_copy_str(&at, error, sizeof error);
    assert_non_null(strstr(error, "a word of tomorrow"));
    const struct mp_cursor settings = tokens_field(value_of(&answer), "settings");
    static const char *const names[] = {"version", "lineage", "digest", "catching_up",
                                        "frozen",  "records", "bytes",  "voters"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)tokens_field(settings, names[i]);
    control_rules(net->nodes[0].control, newest, 5);
    ask(net, "status", NULL, &answer);
    assert_true(true_of(&answer, "healthy"));
    net_free(net);
}

/* Rules that found no memory are due again, until they are in force. */
static void rules_that_found_no_memory_are_due_again(void **state)
{
    (void)state;
    static struct answer answer;
    struct settings_entry due;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    apply(net, ID_A, rules_a, &answer);
    struct control *control = net->nodes[0].control;
    assert_true(control_rules_due(control, &due));
    assert_false(control_rules_due(control, &due));
    control_rules_missed(control);
    assert_true(control_rules_due(control, &due));
    assert_false(control_rules_due(control, &due));
    control_rules(control, due.version, 5);
    control_rules_missed(control);
    assert_false(control_rules_due(control, &due));
    net_free(net);
}

/* Whoever runs the node may compile a command's rules before it is answered: it is told which text,
 * and its result is what the answer says, an error with its place and a want of time included. */
static void rules_compiled_beforehand_are_taken(void **state)
{
    static const char *const commands[] = {"rules.validate", "rules.diff", "rules.apply"};
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    struct policy_error error;
    struct control_compiled compiled = {.error = TG_EBUSY};
    const struct pair pairs[] = {
        {"id", ID_A, 0}, {"author", "ada", 0}, {"text", rules_a, 0}, {NULL, NULL, 0}};
    answer.compiled = &compiled;
    for (size_t i = 0; i < 3; i++) {
        compiled = (struct control_compiled){.error = TG_EBUSY};
        ask(net, commands[i], pairs, &answer);
        assert_refused(&answer, TG_EBUSY, "ask again");
        assert_int_equal(answer.to_compile_len, strlen(rules_a));
        compiled = (struct control_compiled){.error = TG_EINVALID,
                                             .place = {.line = 3, .column = 9, .message = "no"}};
        ask(net, commands[i], pairs, &answer);
        assert_true(!true_of(&answer, "ok") && number_of(&answer, "column") == 9);
    }
    compiled = (struct control_compiled){.error = 0};
    assert_int_equal(
        policy_compile(rules_c, strlen(rules_c), alloc_heap(), &compiled.policy, &error), 0);
    ask(net, "rules.validate", pairs, &answer);
    assert_int_equal(number_of(&answer, "rules"), 1); /* of what was compiled, as if it were that */
    ask(net, "rules.history", pairs, &answer);
    assert_null(answer.to_compile);
    policy_free(&compiled.policy);
    answer.compiled = NULL;
    net_free(net);
}

/* A key as an operator's tool makes one: the node is told its id and its digest. */
#define KEY_ID "abcdefgh2345"

static void create_key(struct net *net, const char *id, const char *key, const char *name,
                       struct answer *answer)
{
    const struct pair pairs[] = {
        {"id", id, 0},       {"author", "ada", 0},      {"note", "for ci", 0},
        {"key", key, 0},     {"digest", KEY_DIGEST, 0}, {"name", name, 0},
        {"owner", "bob", 0}, {"tier", "gold", 0},       {"for_ms", NULL, 5000},
        {NULL, NULL, 0}};
    static const char tiers[] = "{tiers: {gold: {limits: [{rate: 1/h}]}}, rules: []}";
    struct policy_error error;
    struct policy *policy;
    assert_int_equal(policy_compile(tiers, strlen(tiers), alloc_heap(), &policy, &error), 0);
    answer->policy = policy;
    make(net, "apikey.create", pairs, answer);
    tokens_assert_text(value_of(answer), "state", "done");
    answer->policy = NULL;
    policy_free(&policy);
}

/* A flag is true or 1, and a time is a number of milliseconds: what is neither is refused, and not
 * taken for what was not said: the trial of a record as the record, or a key for one without end.
 */
static void flags_and_times_of_another_kind_are_refused(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    const struct pair bob[] = {{"user", "bob", 0}, END};
    const struct pair words[] = {
        EDIT(ID_A), {"user", "bob", 0}, {"limits", "5/h", 0}, {"dry_run", "yes", 0}, END};
    ask(net, "quota.set", words, &answer);
    assert_refused(&answer, TG_EINVALID, "dry_run: expected true or false");
    ask(net, "quota.show", bob, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "no quota record");
    const struct pair end[] = {
        EDIT(ID_A), {"user", "bob", 0}, {"block", "x", 0}, {"for_ms", "7d", 0}, END};
    ask(net, "quota.set", end, &answer);
    assert_refused(&answer, TG_EINVALID, "expected a whole number of milliseconds");
    const struct pair key[] = {EDIT(ID_B),
                               {"key", KEY_ID, 0},
                               {"digest", KEY_DIGEST, 0},
                               {"until_ms", "tomorrow", 0},
                               END};
    ask(net, "apikey.create", key, &answer);
    assert_refused(&answer, TG_EINVALID, "expected a whole number of milliseconds");
    net_free(net);
}

/* A key of a tier that no rule knows would be a key without limits: it is refused, as that of a
 * user is; and a key is never put over another one, a revoked one least of all. */
static void a_key_of_no_tier_or_of_a_taken_id_is_refused(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    const struct pair typo[] = {
        EDIT(ID_A), {"key", KEY_ID, 0}, {"digest", KEY_DIGEST, 0}, {"tier", "gould", 0}, END};
    ask(net, "apikey.create", typo, &answer);
    assert_refused(&answer, TG_EINVALID, "tier gould: the rules in force have no tier");
    create_key(net, ID_A, KEY_ID, "ci", &answer);
    const struct pair same[] = {
        EDIT(ID_B), {"key", KEY_ID, 0}, {"digest", KEY_DIGEST, 0}, {"name", "new", 0}, END};
    make(net, "apikey.create", same, &answer);
    tokens_assert_text(value_of(&answer), "state", "conflict");
    net_free(net);
}

/* A key is kept by its digest, shown by id or name, and says who revoked it; it ends by time. */
static void api_keys_are_made_shown_and_revoked(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    create_key(net, ID_A, KEY_ID, "ci", &answer);
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_API_KEY));
    const struct pair by_name[] = {{"key", "ci", 0}, {NULL, NULL, 0}};
    ask(net, "apikey.show", by_name, &answer);
    static const char *const texts[][2] = {
        {"id", KEY_ID},      {"name", "ci"},        {"owner", "bob"},   {"tier", "gold"},
        {"state", "active"}, {"created_by", "ada"}, {"note", "for ci"}, {"revoked_by", ""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        tokens_assert_text(value_of(&answer), texts[i][0], texts[i][1]);
    assert_int_equal(number_of(&answer, "keys"), 1);
    assert_int_equal(number_of(&answer, "expires_ms") - number_of(&answer, "created_ms"), 5000);
    net_run(net, 5 * NET_SECOND);
    ask(net, "apikey.show", by_name, &answer);
    tokens_assert_text(value_of(&answer), "state", "expired");
    const struct pair revoke[] = {
        {"id", ID_B, 0}, {"author", "eve", 0}, {"key", KEY_ID, 0}, {NULL, NULL, 0}};
    make(net, "apikey.revoke", revoke, &answer);
    assert_false(control_kind_due(net->nodes[0].control, SETTINGS_BLOCK));
    assert_false(control_kind_due(net->nodes[0].control, SETTINGS_QUOTA));
    assert_true(control_kind_due(net->nodes[0].control, SETTINGS_API_KEY));
    const struct pair again[] = {
        {"id", ID_C, 0}, {"author", "mallory", 0}, {"key", KEY_ID, 0}, {NULL, NULL, 0}};
    make(net, "apikey.revoke", again, &answer);
    assert_false(true_of(&answer, "changed"));
    ask(net, "apikey.list", NULL, &answer);
    struct mp_cursor list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 1);
    tokens_assert_text(list, "state", "revoked");
    tokens_assert_text(list, "revoked_by", "eve");
    tokens_assert_text(list, "created_by", "ada");
    net_free(net);
}

/* What names no key, or more than one, is refused, and so is a key that is none; the last record is
 * removed by force only. */
static void what_is_no_api_key_is_refused(void **state)
{
    (void)state;
    static struct answer answer;
    struct net *net = net_cluster(1);
    answer.policy = NULL;
    const struct pair unknown[] = {{"key", "ci", 0}, {NULL, NULL, 0}};
    ask(net, "apikey.show", unknown, &answer);
    assert_refused(&answer, TG_ENOTFOUND, "there is no such key");
    ask(net, "apikey.revoke", NULL, &answer);
    assert_refused(&answer, TG_EINVALID, "the id or the name");
    const struct pair odd[] = {{"key", "ABC", 0}, {"digest", KEY_DIGEST, 0}, {NULL, NULL, 0}};
    ask(net, "apikey.create", odd, &answer);
    assert_refused(&answer, TG_EINVALID, "12 of a-z 2-7");
    const struct pair no_digest[] = {{"key", KEY_ID, 0}, {"digest", "00", 0}, {NULL, NULL, 0}};
    ask(net, "apikey.create", no_digest, &answer);
    assert_refused(&answer, TG_EINVALID, "64 hex digits");
    const struct pair odd_owner[] = {
        {"key", KEY_ID, 0}, {"digest", KEY_DIGEST, 0}, {"owner", "a\tb", 0}, {NULL, NULL, 0}};
    ask(net, "apikey.create", odd_owner, &answer);
    assert_refused(&answer, TG_EINVALID, "owner");
    const struct pair odd_limit[] = {
        {"key", KEY_ID, 0}, {"digest", KEY_DIGEST, 0}, {"limits", "5/3h", 0}, {NULL, NULL, 0}};
    ask(net, "apikey.create", odd_limit, &answer);
    assert_refused(&answer, TG_EINVALID, "expected a window of one second");
    const struct pair burst[] = {
        {"key", KEY_ID, 0}, {"digest", KEY_DIGEST, 0}, {"burst", NULL, 5}, {NULL, NULL, 0}};
    ask(net, "apikey.create", burst, &answer);
    assert_refused(&answer, TG_EINVALID, "expected a limit of the key itself");
    const struct pair late[] = {
        {"key", KEY_ID, 0}, {"digest", KEY_DIGEST, 0}, {"until_ms", NULL, 1}, {NULL, NULL, 0}};
    ask(net, "apikey.create", late, &answer);
    assert_refused(&answer, TG_EINVALID, "expired already");
    create_key(net, ID_A, KEY_ID, "ci", &answer);
    create_key(net, ID_B, "bcdefgh23457", "ci", &answer);
    ask(net, "apikey.show", unknown, &answer);
    assert_refused(&answer, TG_EINVALID, "several keys");
    const struct pair first[] = {
        {"id", ID_C, 0}, {"author", "ada", 0}, {"key", KEY_ID, 0}, {NULL, NULL, 0}};
    make(net, "apikey.delete", first, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    struct pair last[] = {{"id", "00000000000000000000000000000004", 0},
                          {"author", "ada", 0},
                          {"key", "ci", 0},
                          {NULL, NULL, 0},
                          {NULL, NULL, 0}};
    make(net, "apikey.delete", last, &answer);
    tokens_assert_text(value_of(&answer), "state", "conflict");
    last[0].text = "00000000000000000000000000000005";
    last[3] = (struct pair){"force", NULL, 1};
    make(net, "apikey.delete", last, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    ask(net, "apikey.list", NULL, &answer);
    struct mp_cursor list = value_of(&answer);
    assert_int_equal(mp_get_array(&list), 0);
    net_free(net);
}

/* Ordinals follow the rules that they were worked out from. Where others come in between they are
 * left out: else what is new in both would have one count. */
static void an_edit_that_others_overtook_leaves_their_ordinals(void **state)
{
    static const char *const rules[] = {
        "rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]",
        "rules: [{name: r, key: [user], limits: [{rate: 10/d}, {rate: 3/h}]}]",
        "rules: [{name: r, key: [user], limits: [{rate: 10/d}, {rate: 4/m}]}]"};
    static struct answer answer;
    uint8_t kept[2][256] = {{0}, {0}};
    (void)state;
    for (uint32_t both = 0; both < 2; both++) {
        struct net *net = net_cluster(1);
        apply(net, ID_A, rules[0], &answer);
        for (uint32_t i = 1; i < 2 + both; i++) { /* both in one moment */
            const struct pair pairs[] = {
                {"id", i == 1 ? ID_B : ID_C, 0}, {"author", "ada", 0}, {"text", rules[i], 0}, {0}};
            ask(net, "rules.apply", pairs, &answer);
        }
        net_run(net, NET_SECOND);
        const struct settings_text known = control_ordinals_known(net->nodes[0].control);
        assert_in_range(known.len, 1, sizeof kept[0]);
        memcpy(kept[both], known.data, known.len);
        net_free(net);
    }
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_applied_is_shown_listed_and_compared),
        cmocka_unit_test(an_edit_that_others_overtook_leaves_their_ordinals),
        cmocka_unit_test(what_cannot_be_applied_is_refused),
        cmocka_unit_test(rules_compiled_beforehand_are_taken),
        cmocka_unit_test(a_large_document_goes_packed),
        cmocka_unit_test(a_short_document_is_unpacked_for_whoever_wants_text),
        cmocka_unit_test(blocks_are_made_listed_and_lifted),
        cmocka_unit_test(quotas_are_set_and_shown),
        cmocka_unit_test(quotas_are_listed_and_deleted),
        cmocka_unit_test(a_list_too_long_for_a_message_comes_in_parts),
        cmocka_unit_test(a_quota_is_tried_without_a_change),
        cmocka_unit_test(an_end_is_never_taken_for_none),
        cmocka_unit_test(quotas_that_cannot_be_are_refused),
        cmocka_unit_test(rules_that_are_not_in_force_are_shown),
        cmocka_unit_test(rules_that_found_no_memory_are_due_again),
        cmocka_unit_test(api_keys_are_made_shown_and_revoked),
        cmocka_unit_test(flags_and_times_of_another_kind_are_refused),
        cmocka_unit_test(a_key_of_no_tier_or_of_a_taken_id_is_refused),
        cmocka_unit_test(what_is_no_api_key_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

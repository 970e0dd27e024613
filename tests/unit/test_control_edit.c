/* test_control_edit.c - how edits of the configuration end, as whoever has asked for them is told.
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
#include "node/cluster/model/edit_wait.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { TOKENS_MAX = 64, FRAME_LEN = 4096, NUMBERS = 32, UNKNOWN = 1000 };

struct answer {
    uint8_t frame[FRAME_LEN];
    struct mp_token tokens[TOKENS_MAX];
    struct wire_admin_reply reply;
};

/* Asks node 0 for the edit `number`: of that user's block, or how it stands where `what` is NULL.
 */
static void ask(struct net *net, const char *command, unsigned number, const char *what,
                struct answer *answer)
{
    const struct control_report report = {
        .policy = policy_empty(), .storage = "lmdb", .storage_ok = true};
    uint8_t frame[FRAME_LEN];
    char error[WIRE_ERROR_LEN];
    char id[NUMBERS + 1];
    struct mp_writer writer;
    (void)snprintf(id, sizeof id, "%032x", number);
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, 7, 1, command);
    mp_put_map(&writer, what != NULL ? 3 : 1);
    mp_put_str(&writer, "id");
    mp_put_str(&writer, id);
    if (what != NULL) {
        mp_put_str(&writer, "author");
        mp_put_str(&writer, "ada");
        mp_put_str(&writer, strcmp(command, "quota.delete") == 0 ? "user" : "what");
        mp_put_str(&writer, what);
    }
    const size_t len = control_admin(net->nodes[0].control, net->now_ns, frame, writer.len, &report,
                                     answer->frame, sizeof answer->frame);
    assert_int_equal(wire_decode_admin_reply(answer->frame, len, answer->tokens, TOKENS_MAX,
                                             &answer->reply, error),
                     0);
}

static struct mp_cursor value_of(const struct answer *answer)
{
    return tokens_open(answer->reply.value.tokens, answer->reply.value.token_count);
}

static void assert_state(struct net *net, unsigned number, const char *state)
{
    struct answer answer;
    ask(net, "edit.state", number, NULL, &answer);
    tokens_assert_text(value_of(&answer), "state", state);
}

/* Whoever lifts a block that is none has probably named something else. */
static void an_edit_that_removes_nothing_says_so(void **state)
{
    struct net *net = net_cluster(1);
    struct answer answer;
    (void)state;
    ask(net, "unblock", 1, "user=ada", &answer);
    net_run(net, NET_SECOND);
    ask(net, "edit.state", 1, NULL, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    tokens_assert_text(value_of(&answer), "message",
                       "nothing was blocked by that name: `tidegate blocks` lists what is");
    ask(net, "block", 2, "user=ada", &answer);
    net_run(net, NET_SECOND);
    ask(net, "unblock", 3, "user=ada", &answer);
    net_run(net, NET_SECOND);
    ask(net, "edit.state", 3, NULL, &answer);
    tokens_assert_text(value_of(&answer), "state", "done");
    tokens_assert_text(value_of(&answer), "message", "");
    net_free(net);
}

/* To whoever has asked a node for a change it is done when that node decides by it; not for ever,
 * where it cannot. */
static void an_edit_is_done_when_the_shards_decide_by_it(void **state)
{
    struct net *net = net_cluster(1);
    struct control *control = net->nodes[0].control;
    struct answer answer;
    (void)state;
    control_spread(control, 0);
    ask(net, "block", 1, "user=ada", &answer);
    net_run(net, NET_SECOND / 2);
    assert_state(net, 1, "waiting");
    control_spread(control, 0); /* nobody has taken the block yet */
    assert_state(net, 1, "waiting");
    assert_true(control_kind_due(control, SETTINGS_BLOCK));
    assert_state(net, 1, "waiting");
    control_spread(control, 0);
    assert_state(net, 1, "done");
    ask(net, "block", 2, "user=bob", &answer);
    net_run(net, NET_SECOND / 2);
    assert_state(net, 2, "waiting");
    net_run(net, NET_SECOND);
    assert_state(net, 2, "done");
    net_free(net);
}

/* Applies rules, of a text or, where that is NULL, of a version that is kept; *answer tells how
 * that stands. */
static void apply(struct net *net, unsigned number, const char *text, uint64_t version,
                  struct answer *answer)
{
    const struct control_report report = {
        .policy = policy_empty(), .storage = "lmdb", .storage_ok = true};
    uint8_t frame[FRAME_LEN];
    char error[WIRE_ERROR_LEN];
    char id[NUMBERS + 1];
    struct mp_writer writer;
    (void)snprintf(id, sizeof id, "%032x", number);
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, 7, 1, "rules.apply");
    mp_put_map(&writer, 3);
    mp_put_str(&writer, "id");
    mp_put_str(&writer, id);
    mp_put_str(&writer, "author");
    mp_put_str(&writer, "ada");
    mp_put_str(&writer, text != NULL ? "text" : "version");
    if (text != NULL)
        mp_put_str(&writer, text);
    else
        mp_put_uint(&writer, version);
    const char *found = NULL;
    size_t found_len = 0;
    const bool compiles =
        control_admin_compiles(net->nodes[0].control, frame, writer.len, &found, &found_len);
    assert_true(compiles == (text != NULL || version != UNKNOWN));
    if (text != NULL) {
        assert_int_equal(found_len, strlen(text));
        assert_memory_equal(found, text, found_len);
    }
    const size_t len = control_admin(net->nodes[0].control, net->now_ns, frame, writer.len, &report,
                                     answer->frame, sizeof answer->frame);
    assert_int_equal(wire_decode_admin_reply(answer->frame, len, answer->tokens, TOKENS_MAX,
                                             &answer->reply, error),
                     0);
    net_run(net, NET_SECOND);
}

/* A version that is kept is applied by its number: whoever goes back need not send what was. */
static void a_version_that_is_kept_is_applied_again(void **state)
{
    static const char first[] = "rules: [{name: a, key: [user], limits: [{rate: 5/h}]}]";
    static const char second[] = "rules: [{name: b, key: [user], limits: [{rate: 5/h}]}]";
    struct net *net = net_cluster(1);
    struct answer answer;
    (void)state;
    apply(net, 1, first, 0, &answer);
    ask(net, "edit.state", 1, NULL, &answer);
    struct mp_cursor cursor = tokens_field(value_of(&answer), "version");
    const uint64_t version = mp_get_uint(&cursor);
    cursor = tokens_field(value_of(&answer), "base");
    assert_true(mp_get_uint(&cursor) >= version && !cursor.failed);
    apply(net, 2, second, 0, &answer);
    apply(net, 3, NULL, version, &answer);
    assert_state(net, 3, "done");
    const struct settings_entry *newest =
        settings_table_last(&net->nodes[0].control->settings->table, SETTINGS_RULES);
    assert_int_equal(newest->value.len, sizeof first - 1);
    assert_memory_equal(newest->value.data, first, sizeof first - 1);
    apply(net, 4, NULL, UNKNOWN, &answer);
    assert_int_equal(answer.reply.code, TG_ENOTFOUND);
    net_free(net);
}

/* Whoever would wait is not told that an edit is under way; what asks in his place names it. */
static void a_question_that_waits_is_asked_again_until_the_edit_is_decided(void **state)
{
    static const char id_a[] = "0000000000000000000000000000000a";
    static const char id_b[] = "0000000000000000000000000000000b";
    (void)state;
    struct answer answer;
    struct net *net = net_cluster(1);
    uint8_t frame[1024];
    uint8_t again[EDIT_WAIT_LEN];
    uint8_t reply[1024];
    struct mp_writer writer;
    for (unsigned waits = 0; waits < 2; waits++) {
        mp_writer_init(&writer, frame, sizeof frame);
        wire_begin_admin(&writer, 7, 9, "block");
        mp_put_map(&writer, 4);
        mp_put_str(&writer, "id");
        mp_put_str(&writer, waits != 0 ? id_b : id_a);
        mp_put_str(&writer, "author");
        mp_put_str(&writer, "ada");
        mp_put_str(&writer, "what");
        mp_put_str(&writer, waits != 0 ? "user=bob" : "user=eve");
        mp_put_str(&writer, "wait");
        mp_put_bool(&writer, waits != 0);
        const struct control_report report = {.policy = policy_empty()};
        const size_t len = control_admin(net->nodes[0].control, net->now_ns, frame, writer.len,
                                         &report, reply, sizeof reply);
        const size_t again_len = edit_wait_again(frame, writer.len, reply, len, again);
        assert_int_equal(again_len > 0, waits != 0);
        const struct control *control = net->nodes[0].control;
        assert_int_equal(control_admin_waits(control, again, again_len), waits != 0);
        net_run(net, NET_SECOND);
        if (again_len == 0)
            continue;
        assert_false(control_admin_waits(control, again, again_len));
        const size_t end = control_admin(net->nodes[0].control, net->now_ns, again, again_len,
                                         &report, reply, sizeof reply);
        char error[WIRE_ERROR_LEN];
        assert_int_equal(
            wire_decode_admin_reply(reply, end, answer.tokens, TOKENS_MAX, &answer.reply, error),
            0);
        tokens_assert_text(value_of(&answer), "state", "done");
        tokens_assert_text(value_of(&answer), "id", id_b);
        assert_true(answer.reply.session == 7 && answer.reply.seq == 9);
        assert_int_equal(edit_wait_again(again, again_len, reply, end, again), 0);
    }
    net_free(net);
}

/* ---- how edits end ----------------------------------------------------------------------------
 */

enum { EDITOR = 77 };

static struct hash128 id_of(uint64_t number)
{
    return (struct hash128){.hi = EDITOR, .lo = number};
}

/* Has node 0 put a pool called `name` that was of version `based_on`; what control_edit says. */
static int put(struct net *net, uint64_t number, const char *name, const char *value,
               uint64_t based_on)
{
    const struct control_edit_request request = {
        .id = id_of(number),
        .kind = SETTINGS_POOL,
        .based_on = based_on,
        .name = {name, strlen(name)},
        .value = {value, strlen(value)},
        .author = {"ada", 3},
        .note = {"", 0},
    };
    return control_edit(net->nodes[0].control, net->now_ns, &request);
}

static enum settings_edit_state end_of(const struct net *net, uint64_t number)
{
    const struct settings_edit *edit = control_edit_find(net->nodes[0].control, id_of(number));
    assert_non_null(edit);
    return edit->state;
}

static void run_to_end(struct net *net, uint64_t number)
{
    for (uint32_t i = 0; i < 1000 && end_of(net, number) == SETTINGS_EDIT_WAITS; i++)
        net_run(net, net->step_ns);
    assert_true(end_of(net, number) != SETTINGS_EDIT_WAITS);
}

static void cut_others(struct net *net, bool cut)
{
    for (uint32_t i = 1; i < net->count; i++)
        net->nodes[i].cut = cut;
}

static bool is_made(const struct net *net, uint64_t number)
{
    bool made = false;
    for (uint32_t i = 0; i < net->count; i++)
        made = made || settings_log_find(&net->nodes[i].control->settings->log, id_of(number)) != 0;
    return made;
}

/* Voters that come back when their answer was given up find no proposal that goes on without its
 * edit. */
static void an_edit_that_was_told_as_unavailable_is_never_made(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    for (uint64_t number = 1; number <= 8; number++) {
        cut_others(net, true);
        assert_int_equal(put(net, number, "api", "never", SETTINGS_ANY), 0);
        run_to_end(net, number);
        assert_int_equal(end_of(net, number), SETTINGS_EDIT_UNAVAILABLE);
        cut_others(net, false);
        net_run(net, 5 * NET_SECOND);
        assert_false(is_made(net, number));
    }
    assert_int_equal(put(net, 9, "api", "now", SETTINGS_ANY), 0);
    run_to_end(net, 9);
    assert_int_equal(end_of(net, 9), SETTINGS_EDIT_DONE);
    net_free(net);
}

/* Promises may come with the very event by which the attempt, or the edit, is too old: what is
 * offered to voters in it may come about. */
static void what_is_offered_as_an_edit_is_given_up_is_in_doubt(void **state)
{
    struct net *net = net_cluster(3);
    const int64_t step_ns = net->step_ns;
    (void)state;
    assert_int_equal(put(net, 1, "api", "late", SETTINGS_ANY), 0);
    net_run(net, step_ns); /* it is proposed, */
    net_run(net, step_ns); /* and promises are on the way */
    net->step_ns = 3100 * NET_MS;
    net_run(net, net->step_ns);
    net->step_ns = step_ns;
    const enum settings_edit_state end = end_of(net, 1);
    net_run(net, 10 * NET_SECOND);
    assert_true(is_made(net, 1));
    assert_int_equal(end, SETTINGS_EDIT_DOUBT);
    net_free(net);
}

/* One that ended without a change is begun anew when it is asked for again, whatever kept it from
 * being made then; one that was made is not. */
static void an_edit_that_changed_nothing_is_begun_anew(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    cut_others(net, true);
    assert_int_equal(put(net, 1, "api", "a", SETTINGS_ANY), 0);
    run_to_end(net, 1);
    assert_int_equal(end_of(net, 1), SETTINGS_EDIT_UNAVAILABLE);
    cut_others(net, false);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(put(net, 1, "api", "a", SETTINGS_ANY), 0);
    assert_int_equal(end_of(net, 1), SETTINGS_EDIT_WAITS);
    run_to_end(net, 1);
    assert_int_equal(end_of(net, 1), SETTINGS_EDIT_DONE);
    const uint64_t version = control_edit_find(net->nodes[0].control, id_of(1))->version;
    assert_int_equal(put(net, 2, "web", "b", version), 0); /* there is none yet */
    run_to_end(net, 2);
    assert_int_equal(end_of(net, 2), SETTINGS_EDIT_CONFLICT);
    assert_int_equal(put(net, 2, "web", "b", 0), 0);
    run_to_end(net, 2);
    assert_int_equal(end_of(net, 2), SETTINGS_EDIT_DONE);
    assert_int_equal(put(net, 2, "web", "c", SETTINGS_ANY), 0); /* it was made */
    assert_int_equal(end_of(net, 2), SETTINGS_EDIT_DONE);
    net_free(net);
}

/* An edit in doubt is not: it may have been made. */
static void an_edit_in_doubt_is_not_begun_anew(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    assert_int_equal(put(net, 1, "api", "a", SETTINGS_ANY), 0);
    const struct settings_edit *edit = control_edit_find(net->nodes[0].control, id_of(1));
    for (uint32_t i = 0; i < 100 && edit->offering == 0; i++)
        net_run(net, net->step_ns);
    assert_true(edit->offering != 0 && edit->state == SETTINGS_EDIT_WAITS);
    net_stop(net, 1); /* what was sent to them is lost */
    net_stop(net, 2);
    run_to_end(net, 1);
    assert_int_equal(end_of(net, 1), SETTINGS_EDIT_DOUBT);
    assert_int_equal(put(net, 1, "api", "b", SETTINGS_ANY), 0);
    assert_int_equal(end_of(net, 1), SETTINGS_EDIT_DOUBT);
    net_free(net);
}

/* What came of an edit that the log does not know stays for whoever waits for it, though others
 * want its place; the place of one that was made is given away. */
static void what_came_of_an_edit_stays_for_whoever_waits(void **state)
{
    struct net *net = net_cluster(1);
    (void)state;
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++)
        assert_int_equal(put(net, i + 1, "api", "same", SETTINGS_ANY), 0);
    net_run(net, 100 * NET_MS);
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++)
        assert_int_equal(end_of(net, i + 1), SETTINGS_EDIT_DONE);
    assert_int_equal(put(net, 1001, "web", "x", SETTINGS_ANY), 0); /* in place of the one made */
    assert_int_equal(put(net, 1002, "web", "y", SETTINGS_ANY), TG_EBUSY);
    for (uint32_t i = 1; i < SETTINGS_EDITS_MAX; i++)
        assert_int_equal(end_of(net, i + 1), SETTINGS_EDIT_DONE);
    net_run(net, NET_SECOND);
    assert_int_equal(put(net, 1002, "web", "y", SETTINGS_ANY), 0);
    net_free(net);
}

/* Edits that wait are bounded in bytes as well. */
static void edits_of_too_many_bytes_at_once_are_refused(void **state)
{
    enum {
        LEN = SETTINGS_VALUE_LEN_MAX - 1,
        FIT = SETTINGS_EDITS_BYTES_MAX / SETTINGS_VALUE_LEN_MAX
    };
    static char value[SETTINGS_VALUE_LEN_MAX];
    struct net *net = net_cluster(1);
    (void)state;
    memset(value, 'x', LEN);
    for (uint32_t i = 0; i < FIT; i++)
        assert_int_equal(put(net, i + 1, "api", value, SETTINGS_ANY), 0);
    assert_int_equal(put(net, 1001, "api", value, SETTINGS_ANY), TG_EBUSY);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_that_removes_nothing_says_so),
        cmocka_unit_test(an_edit_is_done_when_the_shards_decide_by_it),
        cmocka_unit_test(a_version_that_is_kept_is_applied_again),
        cmocka_unit_test(a_question_that_waits_is_asked_again_until_the_edit_is_decided),
        cmocka_unit_test(an_edit_that_was_told_as_unavailable_is_never_made),
        cmocka_unit_test(what_is_offered_as_an_edit_is_given_up_is_in_doubt),
        cmocka_unit_test(an_edit_that_changed_nothing_is_begun_anew),
        cmocka_unit_test(an_edit_in_doubt_is_not_begun_anew),
        cmocka_unit_test(what_came_of_an_edit_stays_for_whoever_waits),
        cmocka_unit_test(edits_of_too_many_bytes_at_once_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { TOKENS_MAX = 64, FRAME_LEN = 4096, NUMBERS = 32 };

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_edit_that_removes_nothing_says_so),
        cmocka_unit_test(an_edit_is_done_when_the_shards_decide_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

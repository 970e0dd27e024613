/* test_control_change.c - drain, leave and remove, as operators ask for them; control_change.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/protocol/wire.h"
#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"
#include "tests/unit/support_tokens.h"

enum { TOKENS_MAX = 4096, FRAME_LEN = 65536, TEXT_LEN = 512 };

struct answer {
    uint8_t frame[FRAME_LEN];
    struct mp_token tokens[TOKENS_MAX];
    struct wire_admin_reply reply;
    char said[TEXT_LEN]; /* the sentence of an error, else "" */
};

/* Asks node `at`, which holds `held` vnodes; `node` and `id` are arguments, or NULL; of remove,
 * `id` is a region; of members, `force` is all. */
static int ask(struct net *net, uint32_t at, const char *command, const char *node, bool force,
               const char *id, uint32_t held, struct answer *answer)
{
    const struct shard_stats stats = {.vnodes_leading = held};
    const struct control_report report = {.shards = &stats,
                                          .shard_count = 1,
                                          .policy = policy_empty(),
                                          .storage = "lmdb",
                                          .storage_ok = true};
    char error[WIRE_ERROR_LEN];
    uint8_t frame[1024];
    struct mp_writer writer;
    mp_writer_init(&writer, frame, sizeof frame);
    wire_begin_admin(&writer, 1, 2, command);
    mp_put_map(&writer, 1u + (node != NULL) + (id != NULL));
    mp_put_str(&writer, strcmp(command, "members") == 0 ? "all" : "force");
    mp_put_bool(&writer, force);
    if (node != NULL) {
        mp_put_str(&writer, "node");
        mp_put_str(&writer, node);
    }
    if (id != NULL) {
        mp_put_str(&writer, strcmp(command, "remove") == 0 ? "region" : "id");
        mp_put_str(&writer, id);
    }
    assert_false(writer.failed);
    const size_t len = control_admin(net->nodes[at].control, net->now_ns, frame, writer.len,
                                     &report, answer->frame, sizeof answer->frame);
    assert_int_equal(wire_decode_admin_reply(answer->frame, len, answer->tokens, TOKENS_MAX,
                                             &answer->reply, error),
                     0);
    answer->said[0] = '\0';
    if (answer->reply.code != 0) {
        struct mp_cursor cursor;
        mp_cursor_init(&cursor, answer->reply.value.tokens, answer->reply.value.token_count);
        mp_copy_str(&cursor, answer->said, sizeof answer->said);
        assert_false(cursor.failed);
    }
    return answer->reply.code;
}

static struct mp_cursor value_of(const struct answer *answer)
{
    return tokens_open(answer->reply.value.tokens, answer->reply.value.token_count);
}

static bool done(const struct answer *answer)
{
    struct mp_cursor cursor = tokens_field(value_of(answer), "done");
    return mp_get_bool(&cursor);
}

static void assert_text(const struct answer *answer, const char *name, const char *expected)
{
    tokens_assert_text(value_of(answer), name, expected);
}

static void assert_said(const struct answer *answer, const char *part)
{
    if (strstr(answer->said, part) == NULL)
        fail_msg("'%s' does not say '%s'", answer->said, part);
}

/* Stops node `at` and lets the others find it dead. */
static void bury(struct net *net, uint32_t at)
{
    net_stop(net, at);
    net->step_ns = 50 * NET_MS;
    net_run(net, 40 * NET_SECOND);
}

/* ---- drain and leave ------------------------------------------------------------------------- */

/* What `members` of node 0 says of the ring and the node called `name`. */
static void assert_place(struct net *net, const char *name, const char *place)
{
    struct answer answer;
    assert_int_equal(ask(net, 0, "members", NULL, true, NULL, 0, &answer), 0);
    struct mp_cursor row = value_of(&answer);
    for (uint32_t rows = mp_get_array(&row); rows > 0; rows--) {
        struct mp_cursor at = tokens_field(row, "name");
        char found[TEXT_LEN];
        mp_copy_str(&at, found, sizeof found);
        if (strcmp(found, name) == 0) {
            tokens_assert_text(row, "ring", place);
            return;
        }
        mp_skip(&row);
    }
    fail_msg("no member %s", name);
}

/* The names in `members` of node `at`, in their order, and how many are dead in its totals. */
static void assert_listed(struct net *net, uint32_t at, const char *names, uint64_t dead)
{
    struct answer answer;
    char listed[TEXT_LEN] = "";
    assert_int_equal(ask(net, at, "members", NULL, false, NULL, 0, &answer), 0);
    struct mp_cursor row = value_of(&answer);
    for (uint32_t rows = mp_get_array(&row); rows > 0; rows--) {
        struct mp_cursor name = tokens_field(row, "name");
        const size_t len = strlen(listed);
        char found[TEXT_LEN / 2];
        mp_copy_str(&name, found, sizeof found);
        (void)snprintf(listed + len, sizeof listed - len, "%s%s", len > 0 ? " " : "", found);
        mp_skip(&row);
    }
    assert_string_equal(listed, names);
    assert_int_equal(ask(net, at, "status", NULL, false, NULL, 0, &answer), 0);
    struct mp_cursor count = tokens_field(tokens_field(value_of(&answer), "members"), "dead");
    assert_int_equal(mp_get_uint(&count), dead);
}

/* People look for names: by the numbers in them, not in the order of ids. */
static void members_are_sorted_by_name(void **state)
{
    static const char *const names[] = {"n10", "n2", "a1", "n1"};
    struct net *net = net_new();
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct control_options options = net_options(net, i + 1, names[i]);
        if (i > 0)
            net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 15));
    assert_listed(net, 0, "a1 n1 n2 n10", 0);
    net_free(net);
}

/* A dead member of the ring is missed; one that has left, or was removed, is not, but for whoever
 * wants to see all. */
static void members_that_are_gone_vanish_at_once(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    bury(net, 3);
    assert_listed(net, 0, "n1 n2 n3 n4", 1);
    assert_int_equal(ask(net, 0, "remove", "n4", false, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    for (uint32_t at = 0; at < 3; at++)
        assert_listed(net, at, "n1 n2 n3", 0);
    assert_place(net, "n4", "outside");
    net_free(net);
}

/* Nothing is removed then, and the answer says who could be. */
static void removing_who_is_not_in_the_ring_says_so(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    bury(net, 3);
    assert_int_equal(ask(net, 0, "remove", "n4", false, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(ask(net, 1, "remove", "n4", false, NULL, 0, &answer), 0); /* another node */
    assert_true(done(&answer));
    assert_text(&answer, "message", "n4 is not in the ring; in it are n1, n2, n3");
    assert_int_equal(ask(net, 1, "remove", "n9", false, NULL, 0, &answer), TG_ENOTFOUND);
    assert_said(&answer, "no member is called 'n9': it is not in the ring; in it are n1, n2, n3");
    struct control_options options = net_options(net, 9, "n2");
    net_seed(&options, 0);
    (void)net_start(net, &options); /* of that name there is one: it stays outside */
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(ask(net, 1, "remove", "0000000000000009", false, NULL, 0, &answer),
                     TG_ECONFLICT);
    assert_said(&answer, "n2 is not in the ring; in it are n1, n2, n3. It is alive");
    net_free(net);
}

/* Until the transition that takes it out has ended, members tell that a node is going. */
static void a_node_that_drains_is_told_from_one_that_has(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    net->settles = false;
    assert_place(net, "n2", "member");
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_false(ring_config_is_stable(net_config(net, 0)));
    assert_place(net, "n2", "draining");
    net_free(net);
}

/* Who goes may be the last one to hold a vnode whose new replicas are all dead. */
static void a_change_waits_for_the_word_of_members_that_go(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    net->settles = false;
    assert_int_equal(ask(net, 2, "drain", NULL, false, NULL, 7, &answer), 0);
    net_run(net, 3 * NET_SECOND);
    const uint64_t epoch = net_config(net, 0)->epoch;
    assert_false(ring_config_is_stable(net_config(net, 0)));
    for (uint32_t i = 0; i < 2; i++)
        control_settled(net->nodes[i].control, epoch);
    net_run(net, 3 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    control_settled(net->nodes[2].control, epoch);
    net_run(net, 3 * NET_SECOND);
    assert_true(ring_config_is_stable(net_config(net, 0)));
    net_free(net);
}

/* Out of the ring, alive, and not taken in again; its vote goes to another first. */
static void a_drained_node_leaves_the_ring_and_stays_alive(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    assert_true(net_votes(net, 0, 2));
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    assert_text(&answer, "state", "draining");
    assert_text(&answer, "id", "0000000000000002");
    struct mp_cursor left = tokens_field(value_of(&answer), "vnodes_left");
    assert_int_equal(mp_get_uint(&left), 7);
    assert_false(done(&answer));
    net_run(net, 5 * NET_SECOND);
    assert_place(net, "n2", "drained");
    assert_place(net, "n3", "member");
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(net_has_ring(net, i, 13));
        assert_false(net_votes(net, i, 2));
        assert_true(control_alive(net->nodes[i].control, 2));
    }
    assert_int_equal(ask(net, 1, "drain", NULL, false, "0000000000000002", 1, &answer), 0);
    assert_false(done(&answer)); /* it holds a vnode yet */
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 0, &answer), 0);
    assert_true(done(&answer));
    assert_text(&answer, "state", "drained");
    net_run(net, 10 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 13));
    assert_false(control_departed(net->nodes[1].control, net->now_ns));
    net_free(net);
}

/* The flag belongs to the process: who starts a drained node wants it back. */
static void a_drained_node_joins_again_when_it_is_restarted(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    assert_int_equal(ask(net, 2, "drain", NULL, false, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 3));
    assert_int_equal(net_config(net, 0)->voters_count, 1);
    net_stop(net, 2);
    net_run(net, NET_SECOND);
    net_restart(net, 2);
    net_run(net, 10 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(net_has_ring(net, i, 7));
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    net_free(net);
}

/* leave goes on where drain ends: when nothing is left, and whoever waits has heard, it may end. */
static void a_leaving_node_departs_when_it_is_out_of_the_ring(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    net->settles = false;
    assert_int_equal(ask(net, 0, "leave", NULL, false, NULL, 3, &answer), 0);
    assert_text(&answer, "state", "leaving");
    net_run(net, 5 * NET_SECOND);
    assert_false(ring_config_is_stable(net_config(net, 0)));
    assert_false(control_departed(net->nodes[0].control, net->now_ns));
    for (uint32_t i = 0; i < 3; i++)
        control_settled(net->nodes[i].control, net_config(net, i)->epoch);
    net_run(net, NET_SECOND);
    assert_true(net_has_ring(net, 0, 6));
    assert_false(control_departed(net->nodes[0].control, net->now_ns));
    assert_int_equal(ask(net, 0, "leave", NULL, false, NULL, 0, &answer), 0);
    assert_true(done(&answer));
    assert_text(&answer, "state", "left");
    net_run(net, 2 * NET_SECOND);
    assert_true(control_departed(net->nodes[0].control, net->now_ns));
    net_free(net);
}

/* What cannot be done is refused at once, by name: an operator would wait for ever. */
static void a_node_that_nobody_could_follow_is_not_drained(void **state)
{
    struct net *net = net_cluster(1);
    struct answer answer;
    (void)state;
    assert_int_equal(ask(net, 0, "drain", NULL, false, NULL, 1, &answer), TG_ECONFLICT);
    assert_said(&answer, "n1 is the last member of the ring");
    net_free(net);
    net = net_cluster(2);
    bury(net, 1);
    assert_int_equal(ask(net, 0, "leave", NULL, false, NULL, 1, &answer), TG_ECONFLICT);
    assert_said(&answer, "the last member of the ring that lives");
    net_free(net);
    net = net_cluster(4);
    uint32_t gone = 0;
    for (uint32_t i = 3; gone < 2; i--) {
        if (!net_votes(net, 0, i + 1))
            continue;
        net_stop(net, i);
        gone++;
    }
    net->step_ns = 50 * NET_MS;
    net_run(net, 50 * NET_SECOND);
    assert_int_equal(ask(net, 0, "drain", NULL, false, NULL, 1, &answer), TG_ECONFLICT);
    assert_said(&answer, "the ring is frozen: of its 3 voters ");
    assert_int_equal(net->nodes[0].control->departure, CONTROL_STAYS);
    net_free(net);
}

/* Whoever waits for a drain that does not end is told whom it waits for, and what to do. */
static void a_drain_says_what_it_waits_for(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    net->settles = false;
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    assert_text(&answer, "waits_for", "the voters have not decided yet that it goes");
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    assert_text(&answer, "waits_for", "n1 has not taken over its part yet");
    bury(net, 0);
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    assert_text(&answer, "waits_for",
                "n1 does not answer, and is to take over some of it: start it again, or "
                "`tidegate remove n1`");
    bury(net, 2);
    assert_int_equal(ask(net, 1, "leave", NULL, false, NULL, 7, &answer), 0);
    assert_text(&answer, "waits_for",
                "the ring is frozen: of its 3 voters n1, n3 cannot be reached");
    net_free(net);
    net = net_cluster(3);
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 7, &answer), 0);
    assert_text(&answer, "waits_for", "the others are still being given copies of what it holds");
    assert_int_equal(ask(net, 1, "drain", NULL, false, NULL, 0, &answer), 0);
    assert_text(&answer, "waits_for", "");
    net_free(net);
}

/* A question that went astray may not drain another node than the first. */
static void only_the_node_that_is_meant_drains(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    assert_int_equal(ask(net, 0, "drain", NULL, false, "0000000000000002", 1, &answer),
                     TG_ECONFLICT);
    assert_said(&answer, "this is n1, not the node that was asked first");
    assert_int_equal(net->nodes[0].control->departure, CONTROL_STAYS);
    net_free(net);
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* Any node may be asked, also one that proposes nothing by itself. */
static void a_dead_member_is_removed_by_name_or_id(void **state)
{
    static const char *const texts[] = {"n4", "0000000000000004"};
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        struct net *net = net_cluster(4);
        struct answer answer;
        bury(net, 3);
        assert_int_equal(ask(net, 2, "remove", texts[which], false, NULL, 0, &answer), 0);
        assert_text(&answer, "node", "n4");
        assert_text(&answer, "state", "removing");
        assert_false(done(&answer));
        net_run(net, 5 * NET_SECOND);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(net_has_ring(net, i, 7));
        assert_int_equal(ask(net, 2, "remove", texts[which], false, NULL, 0, &answer), 0);
        assert_true(done(&answer));
        assert_text(&answer, "state", "removed");
        assert_text(&answer, "message", "");
        assert_place(net, "n4", "outside");
        assert_listed(net, 2, "n1 n2 n3", 0);
        net_free(net);
    }
}

/* A voter is dead weight in each majority: it is replaced, then removed. */
static void a_dead_voter_is_replaced_and_removed(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    uint32_t victim = 3;
    (void)state;
    while (!net_votes(net, 0, victim + 1))
        victim--;
    bury(net, victim);
    char name[] = {'n', (char)('1' + victim), '\0'};
    assert_int_equal(ask(net, 0, "remove", name, false, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 15U & ~(1U << victim)));
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    assert_false(net_votes(net, 0, victim + 1));
    net_free(net);
}

/* Removing a living member would lose what only it knows. */
static void living_and_unknown_members_are_not_removed(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    assert_int_equal(ask(net, 0, "remove", "n2", true, NULL, 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "n2 is alive: ask itself, by `tidegate drain` or `tidegate leave`");
    assert_int_equal(ask(net, 0, "remove", "n1", false, NULL, 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "n1 is alive");
    assert_int_equal(ask(net, 0, "remove", "n9", false, NULL, 0, &answer), TG_ENOTFOUND);
    assert_said(&answer, "no member is called 'n9'");
    assert_int_equal(ask(net, 0, "remove", NULL, false, NULL, 0, &answer), TG_EINVALID);
    net_free(net);
}

/* The transition that runs comes first; the request is kept, and dropped when nobody asks any more.
 */
static void a_removal_waits_for_the_transition_that_runs(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    bury(net, 2);
    net->settles = false;
    struct control_options options = net_options(net, 4, "n4");
    net_seed(&options, 0);
    (void)net_start(net, &options);
    net_run(net, 3 * NET_SECOND);
    assert_false(ring_config_is_stable(net_config(net, 0)));
    const uint64_t epoch = net_config(net, 0)->epoch;
    assert_int_equal(ask(net, 0, "remove", "n3", false, NULL, 0, &answer), 0);
    assert_text(&answer, "waits_for", "the ring configuration is changing");
    net_run(net, NET_SECOND);
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    net->settles = true;
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            control_settled(net->nodes[i].control, epoch);
    net_run(net, 10 * NET_SECOND); /* too late for the request: it was asked for only once */
    assert_true(ring_config_is_stable(net_config(net, 0)));
    assert_int_equal(ask(net, 0, "remove", "n3", false, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 11));
    net_free(net);
}

/* ---- force ----------------------------------------------------------------------------------- */

/* Two of three are gone for good. The last goes on alone; when they come back after all, what it
 * has decided wins, and they join it. */
static void a_forced_removal_begins_a_lineage_that_wins(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    (void)state;
    net_stop(net, 1);
    bury(net, 2);
    assert_int_equal(ask(net, 0, "remove", "n2", false, NULL, 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "of its 3 voters n2, n3 cannot be reached");
    assert_said(&answer, "--force");
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 7));
    const uint64_t before = net_config(net, 0)->epoch;
    assert_int_equal(ask(net, 0, "remove", "n2", true, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 5));
    assert_int_equal(net_config(net, 0)->epoch >> 40, 1);
    assert_int_equal(net_config(net, 0)->epoch >> 32 & 0xff, 1); /* made by node 1 */
    assert_true(net_config(net, 0)->epoch > before);
    assert_true(net_votes(net, 0, 1));
    assert_false(voters_frozen(net->nodes[0].control));
    net_restart(net, 1);
    net_restart(net, 2);
    net_run(net, 60 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(net_has_ring(net, i, 7));
        assert_int_equal(ring_config_lineage(net_config(net, i)->epoch), 0x101);
        assert_true(ring_config_equal(net_config(net, 0), net_config(net, i)));
    }
    assert_int_equal(net_config(net, 0)->voters_count, 3);
    net_free(net);
}

/* Even the mistake that the help warns of ends in one ring: forced on both sides of a split. */
static void of_two_lineages_begun_at_once_one_wins(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        net->nodes[i].side = i / 2;
    net->step_ns = 50 * NET_MS;
    net_run(net, 60 * NET_SECOND);
    const uint32_t frozen = voters_frozen(net->nodes[0].control) ? 0 : 2;
    assert_true(voters_frozen(net->nodes[frozen].control));
    const char *name = frozen == 0 ? "n3" : "n1";
    assert_int_equal(ask(net, frozen, "remove", name, true, NULL, 0, &answer), 0);
    assert_int_equal(ask(net, frozen + 1, "remove", name, true, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_true(ring_config_lineage(net_config(net, frozen)->epoch) > 0);
    for (uint32_t i = 0; i < 4; i++)
        net->nodes[i].side = 0;
    net_run(net, 120 * NET_SECOND);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(net_has_ring(net, i, 15));
        assert_true(ring_config_equal(net_config(net, 0), net_config(net, i)));
    }
    net_free(net);
}

/* Forcing what can be agreed on would throw history away for nothing. */
static void force_changes_nothing_on_a_ring_that_is_not_frozen(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    bury(net, 3);
    assert_int_equal(ask(net, 0, "remove", "n4", true, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 7));
    assert_int_equal(ring_config_lineage(net_config(net, 0)->epoch), 0);
    net_free(net);
}

/* A vnode that has lost most of its old replicas for good arrives nowhere, though the voters agree:
 * its operator is told what ends the transition that waits for it, and then that is what ends. */
static void force_ends_a_transition_that_stands_still(void **state)
{
    struct net *net = net_cluster(4);
    struct answer answer;
    (void)state;
    bury(net, 3);
    net->settles = false;
    assert_int_equal(ask(net, 0, "remove", "n4", true, NULL, 0, &answer), 0);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(ask(net, 0, "remove", "n4", true, NULL, 0, &answer), 0);
    assert_text(&answer, "waits_for", "the ring configuration is changing");
    net_run(net, NET_SECOND);
    assert_int_equal(ring_config_lineage(net_config(net, 0)->epoch), 0); /* it may end yet */
    net_run(net, 10 * NET_SECOND);
    assert_int_equal(ask(net, 0, "remove", "n4", false, NULL, 0, &answer), 0);
    assert_text(&answer, "waits_for",
                "the ring configuration is changing, and that does not end yet. If most replicas "
                "of a vnode of consistency quorum are gone for good, --force goes on without them");
    net_run(net, NET_SECOND);
    assert_int_equal(ring_config_lineage(net_config(net, 0)->epoch), 0);
    assert_int_equal(ask(net, 0, "remove", "n4", true, NULL, 0, &answer), 0);
    net_run(net, 2 * NET_SECOND);
    const uint64_t epoch = net_config(net, 1)->epoch;
    assert_true(ring_config_epoch_forced(epoch));
    assert_false(ring_config_is_stable(net_config(net, 1)));
    net_run(net, 12 * NET_SECOND);
    assert_int_equal(ask(net, 0, "remove", "n4", true, NULL, 0, &answer), 0);
    net_run(net, 2 * NET_SECOND);
    assert_int_equal(net_config(net, 1)->epoch, epoch); /* once is enough */
    for (uint32_t i = 0; i < 3; i++)
        control_settled(net->nodes[i].control, epoch);
    net_run(net, 3 * NET_SECOND);
    assert_true(ring_config_is_stable(net_config(net, 1)));
    assert_true(net_has_ring(net, 1, 7));
    net_free(net);
}

/* ---- status ---------------------------------------------------------------------------------- */

/* An operator sees who votes, and why nothing moves. */
static void status_tells_how_the_register_is_doing(void **state)
{
    struct net *net = net_cluster(3);
    struct answer answer;
    char text[TEXT_LEN];
    (void)state;
    net_stop(net, 1);
    bury(net, 2);
    assert_int_equal(ask(net, 0, "status", NULL, false, NULL, 0, &answer), 0);
    struct mp_cursor at = tokens_field(value_of(&answer), "register");
    assert_int_equal(mp_get_map(&at), 6);
    mp_skip(&at);
    assert_int_equal(mp_get_array(&at), 3);
    mp_copy_str(&at, text, sizeof text);
    assert_string_equal(text, "n1");
    mp_skip(&at);
    mp_skip(&at);
    mp_skip(&at);
    assert_true(mp_get_bool(&at)); /* frozen */
    mp_skip(&at);
    mp_copy_str(&at, text, sizeof text);
    assert_string_equal(text, "the ring is frozen: of its 3 voters n2, n3 cannot be reached");
    mp_skip(&at);
    assert_int_equal(mp_get_uint(&at), 0); /* lineage */
    assert_false(at.failed);
    net_free(net);
}

/* ---- several regions ------------------------------------------------------------------------- */

/* n1 and n2 are of region eu; n3, n4 and another n2, of id 5, of us. */
static struct net *two_regions(void)
{
    static const char *const names[] = {"n1", "n2", "n3", "n4", "n2"};
    struct net *net = net_new();
    for (uint32_t i = 0; i < 5; i++) {
        struct control_options options = net_options(net, i + 1, names[i]);
        (void)snprintf(options.region, sizeof options.region, "%s", i < 2 ? "eu" : "us");
        if (i > 0)
            net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 3) && net_has_ring(net, 2, 28));
    return net;
}

/* The asked node knows who can do it. */
static void a_member_of_another_region_is_for_its_nodes_to_remove(void **state)
{
    struct net *net = two_regions();
    struct answer answer;
    char client[64];
    (void)state;
    bury(net, 3);
    assert_int_equal(ask(net, 0, "remove", "n4", false, NULL, 0, &answer), 0);
    assert_text(&answer, "state", "elsewhere");
    assert_text(&answer, "region", "us");
    assert_text(&answer, "id", "0000000000000004");
    assert_false(done(&answer));
    struct mp_cursor asked = tokens_field(value_of(&answer), "ask");
    assert_int_equal(mp_get_array(&asked), 2);
    mp_copy_str(&asked, client, sizeof client);
    assert_true(strcmp(client, net->nodes[2].options.client) == 0 ||
                strcmp(client, net->nodes[4].options.client) == 0);
    assert_int_equal(ask(net, 2, "remove", "0000000000000004", false, NULL, 0, &answer), 0);
    net_run(net, 3 * NET_SECOND);
    assert_int_equal(ask(net, 2, "remove", "0000000000000004", false, NULL, 0, &answer), 0);
    assert_true(done(&answer) && net_has_ring(net, 2, 4 | 16));
    net_free(net);
}

static void nobody_is_named_to_ask_in_a_region_out_of_reach(void **state)
{
    struct net *net = two_regions();
    struct answer answer;
    (void)state;
    for (uint32_t at = 2; at < 5; at++)
        net_stop(net, at);
    net_run(net, 15 * NET_SECOND);
    assert_int_equal(ask(net, 0, "remove", "n4", false, NULL, 0, &answer), TG_ECONFLICT);
    assert_said(&answer,
                "n4 is of region us, of which no other node is in reach: ask one there; if "
                "the region is gone for good, `tidegate remove --region us`");
    net_free(net);
}

/* A name may be given in each region, and is told apart by its region. */
static void a_name_of_two_regions_is_told_apart(void **state)
{
    struct net *net = two_regions();
    struct answer answer;
    (void)state;
    bury(net, 4);
    for (uint32_t at = 0; at < 3; at += 2) {
        assert_int_equal(ask(net, at, "remove", "n2", false, NULL, 0, &answer), TG_ECONFLICT);
        assert_said(&answer, "'n2' may be ");
        assert_said(&answer, "eu/n2");
        assert_said(&answer, "us/n2");
    }
    assert_int_equal(ask(net, 0, "remove", "eu/n2", false, NULL, 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "n2 is alive");
    assert_int_equal(ask(net, 0, "remove", "us/n2", false, NULL, 0, &answer), 0);
    assert_text(&answer, "state", "elsewhere");
    assert_int_equal(ask(net, 2, "remove", "us/n2", false, NULL, 0, &answer), 0);
    assert_text(&answer, "id", "0000000000000005");
    net_run(net, 3 * NET_SECOND);
    assert_true(net_has_ring(net, 2, 4 | 8));
    assert_int_equal(ask(net, 0, "remove", "us/n9", false, NULL, 0, &answer), TG_ENOTFOUND);
    net_free(net);
}

/* What gossip says of it for ever is shown with the time of which it is, until it is removed. */
static void a_region_out_of_reach_is_shown_and_removed(void **state)
{
    struct net *net = two_regions();
    struct answer answer;
    char since[2][32];
    (void)state;
    assert_int_equal(ask(net, 0, "remove", NULL, false, "us", 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "of region us answered less than ten seconds ago");
    assert_int_equal(ask(net, 0, "remove", NULL, true, "mars", 0, &answer), TG_ENOTFOUND);
    assert_said(&answer, "no region is called 'mars'");
    for (uint32_t at = 2; at < 5; at++)
        net_stop(net, at);
    net_run(net, 15 * NET_SECOND);
    assert_int_equal(ask(net, 0, "regions", NULL, false, NULL, 0, &answer), 0);
    struct mp_cursor row = tokens_field(value_of(&answer), "regions");
    assert_int_equal(mp_get_array(&row), 2);
    tokens_assert_text(row, "unreachable_since", "");
    mp_skip(&row);
    tokens_assert_text(row, "name", "us");
    tokens_assert_text(row, "ring", "yes");
    struct mp_cursor field = tokens_field(row, "unreachable_since");
    mp_copy_str(&field, since[0], sizeof since[0]);
    assert_int_equal(strlen(since[0]), strlen("2026-01-01T00:00:00Z"));
    assert_int_equal(ask(net, 0, "members", NULL, false, NULL, 0, &answer), 0);
    struct mp_cursor member = value_of(&answer);
    assert_int_equal(mp_get_array(&member), 5);
    mp_skip(&member);
    mp_skip(&member);
    tokens_assert_text(member, "state", "alive");
    field = tokens_field(member, "unreachable_since");
    mp_copy_str(&field, since[1], sizeof since[1]);
    assert_string_equal(since[0], since[1]);
    assert_int_equal(ask(net, 0, "remove", NULL, false, "us", 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "go on alone with --force"); /* most voters were of us */
    for (uint32_t i = 0; i < 3; i++) {                /* asked on: a new lineage, then the record */
        assert_int_equal(ask(net, 0, "remove", NULL, true, "us", 0, &answer), 0);
        assert_text(&answer, "state", i < 2 ? "removing" : "removed");
        assert_int_equal(done(&answer), i == 2);
        net_run(net, 5 * NET_SECOND);
    }
    assert_int_equal(ask(net, 1, "regions", NULL, false, NULL, 0, &answer), 0);
    row = tokens_field(value_of(&answer), "regions");
    assert_int_equal(mp_get_array(&row), 1);
    net_free(net);
}

/* Whoever is told that a member stays is not surprised by what was asked for before it came back.
 */
static void a_removal_that_is_refused_is_not_pursued(void **state)
{
    struct net *net = net_cluster(3);
    struct control *control = net->nodes[0].control;
    const uint64_t epoch = control->config->epoch;
    struct answer answer;
    (void)state;
    control->request = (struct control_request){.remove = net->nodes[2].options.node_id,
                                                .until_ns = net->now_ns + CONTROL_REQUEST_NS};
    assert_int_equal(ask(net, 0, "remove", "n3", false, NULL, 0, &answer), TG_ECONFLICT);
    assert_said(&answer, "n3 is alive");
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(control->config->epoch, epoch);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_sorted_by_name),
        cmocka_unit_test(members_that_are_gone_vanish_at_once),
        cmocka_unit_test(removing_who_is_not_in_the_ring_says_so),
        cmocka_unit_test(a_node_that_drains_is_told_from_one_that_has),
        cmocka_unit_test(a_change_waits_for_the_word_of_members_that_go),
        cmocka_unit_test(a_drained_node_leaves_the_ring_and_stays_alive),
        cmocka_unit_test(a_drained_node_joins_again_when_it_is_restarted),
        cmocka_unit_test(a_leaving_node_departs_when_it_is_out_of_the_ring),
        cmocka_unit_test(a_node_that_nobody_could_follow_is_not_drained),
        cmocka_unit_test(a_drain_says_what_it_waits_for),
        cmocka_unit_test(only_the_node_that_is_meant_drains),
        cmocka_unit_test(a_dead_member_is_removed_by_name_or_id),
        cmocka_unit_test(a_dead_voter_is_replaced_and_removed),
        cmocka_unit_test(living_and_unknown_members_are_not_removed),
        cmocka_unit_test(a_removal_waits_for_the_transition_that_runs),
        cmocka_unit_test(a_forced_removal_begins_a_lineage_that_wins),
        cmocka_unit_test(of_two_lineages_begun_at_once_one_wins),
        cmocka_unit_test(force_changes_nothing_on_a_ring_that_is_not_frozen),
        cmocka_unit_test(force_ends_a_transition_that_stands_still),
        cmocka_unit_test(status_tells_how_the_register_is_doing),
        cmocka_unit_test(a_member_of_another_region_is_for_its_nodes_to_remove),
        cmocka_unit_test(nobody_is_named_to_ask_in_a_region_out_of_reach),
        cmocka_unit_test(a_name_of_two_regions_is_told_apart),
        cmocka_unit_test(a_region_out_of_reach_is_shown_and_removed),
        cmocka_unit_test(a_removal_that_is_refused_is_not_pursued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

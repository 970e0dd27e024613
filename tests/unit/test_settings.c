/* test_settings.c - the configuration store on the control cores of a small cluster: edits, who
 * wins, who is told, what is kept, and how nodes that were away catch up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"
#include "node/policy/people/blocks.h"
#include "tests/unit/support_control.h"

static struct settings *settings_of(const struct net *net, uint32_t at)
{
    return net->nodes[at].control->settings;
}

static struct settings_text text(const char *bytes)
{
    return (struct settings_text){.data = bytes, .len = strlen(bytes)};
}

static struct control_edit_request request(uint64_t id, const char *name, const char *value,
                                           uint64_t based_on)
{
    return (struct control_edit_request){
        .id = {.lo = id, .hi = 77},
        .kind = SETTINGS_POOL,
        .removes = value == NULL,
        .based_on = based_on,
        .name = text(name),
        .value = text(value != NULL ? value : ""),
        .author = text("ada@host"),
        .note = text("because"),
    };
}

static void edit(struct net *net, uint32_t at, const struct control_edit_request *wanted)
{
    assert_int_equal(control_edit(net->nodes[at].control, net->now_ns, wanted), 0);
}

static const struct settings_edit *outcome(const struct net *net, uint32_t at, uint64_t id)
{
    const struct settings_edit *found =
        control_edit_find(net->nodes[at].control, (struct hash128){.lo = id, .hi = 77});
    assert_non_null(found);
    return found;
}

/* Has node `at` make an edit that succeeds; the version. */
static uint64_t make(struct net *net, uint32_t at, uint64_t id, const char *name, const char *value)
{
    const struct control_edit_request wanted = request(id, name, value, SETTINGS_ANY);
    edit(net, at, &wanted);
    net_run(net, NET_SECOND);
    const struct settings_edit *done = outcome(net, at, id);
    if (done->state != SETTINGS_EDIT_DONE)
        fail_msg("state %d: %s", (int)done->state, done->sentence);
    return done->version;
}

static bool has(const struct net *net, uint32_t at, const char *name, const char *value)
{
    const struct settings_text wanted = text(name);
    const struct settings_entry *entry =
        settings_table_find(&settings_of(net, at)->table, SETTINGS_POOL, &wanted);
    return entry != NULL && entry->value.len == strlen(value) &&
           memcmp(entry->value.data, value, strlen(value)) == 0;
}

/* Whether all running nodes have one history and the same records. */
static void assert_equal(const struct net *net, uint32_t mask)
{
    const struct settings *first = NULL;
    for (uint32_t i = 0; i < net->count; i++) {
        if ((mask >> i & 1) == 0)
            continue;
        const struct settings *other = settings_of(net, i);
        first = first == NULL ? other : first;
        assert_int_equal(other->version, first->version);
        assert_true(hash128_equal(other->digest, first->digest));
        assert_int_equal(other->table.count, first->table.count);
        for (size_t r = 0; r < first->table.count; r++) {
            const struct settings_entry *a = &first->table.records[r]->entry;
            const struct settings_entry *b = &other->table.records[r]->entry;
            assert_int_equal(a->version, b->version);
            assert_int_equal(settings_compare(a->kind, &a->name, b->kind, &b->name), 0);
            assert_int_equal(a->value.len, b->value.len);
            assert_memory_equal(a->value.data, b->value.data, a->value.len);
        }
    }
}

/* A new cluster has a first version on every node, decided by the voters of its ring. */
static void a_cluster_begins_with_a_first_version(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    assert_equal(net, 7);
    assert_true(settings_of(net, 0)->version >= 1);
    assert_int_equal(settings_of(net, 0)->voters.count, 3);
    net_free(net);
}

/* An edit made at any node is on every node within a fraction of a second, with author and time. */
static void an_edit_reaches_every_node(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    const struct control_edit_request wanted = request(1, "api", "10000/s", 0);
    edit(net, 2, &wanted);
    net_run(net, 300 * NET_MS);
    assert_int_equal(outcome(net, 2, 1)->state, SETTINGS_EDIT_DONE);
    assert_null(outcome(net, 2, 1)->bytes); /* what is remembered of it is small */
    for (uint32_t i = 0; i < 3; i++)
        assert_true(has(net, i, "api", "10000/s"));
    assert_equal(net, 7);
    const struct settings_text name = text("api");
    const struct settings_entry *entry =
        settings_table_find(&settings_of(net, 0)->table, SETTINGS_POOL, &name);
    assert_int_equal(entry->author.len, strlen("ada@host"));
    assert_true(entry->time_ms > 0);
    net_free(net);
}

/* Of two edits of one record that are based on the same version, one wins and the other is told. */
static void of_two_concurrent_edits_one_wins_and_the_other_is_told(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    const uint64_t base = make(net, 0, 1, "api", "old");
    const struct control_edit_request mine = request(2, "api", "mine", base);
    const struct control_edit_request theirs = request(3, "api", "theirs", base);
    edit(net, 0, &mine);
    edit(net, 1, &theirs);
    net_run(net, 3 * NET_SECOND);
    const enum settings_edit_state a = outcome(net, 0, 2)->state;
    const enum settings_edit_state b = outcome(net, 1, 3)->state;
    assert_true((a == SETTINGS_EDIT_DONE && b == SETTINGS_EDIT_CONFLICT) ||
                (b == SETTINGS_EDIT_DONE && a == SETTINGS_EDIT_CONFLICT));
    const struct settings_edit *told =
        outcome(net, a == SETTINGS_EDIT_DONE ? 1 : 0, a == SETTINGS_EDIT_DONE ? 3 : 2);
    assert_non_null(strstr(told->sentence, "ada@host"));
    for (uint32_t i = 0; i < 3; i++)
        assert_true(has(net, i, "api", a == SETTINGS_EDIT_DONE ? "mine" : "theirs"));
    assert_equal(net, 7);
    net_free(net);
}

/* Edits of different records do not meet: both are made, in whatever order. */
static void edits_of_different_records_both_succeed(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    for (uint32_t i = 0; i < 3; i++) {
        const char name[] = {'p', (char)('a' + i), '\0'};
        const struct control_edit_request wanted = request(10 + i, name, "x", 0);
        edit(net, i, &wanted);
    }
    net_run(net, 3 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(outcome(net, i, 10 + i)->state, SETTINGS_EDIT_DONE);
        assert_true(has(net, i, "pa", "x") && has(net, i, "pb", "x") && has(net, i, "pc", "x"));
    }
    assert_equal(net, 7);
    net_free(net);
}

/* Asked for twice, by its id, an edit is made once, also by another node; one that changes nothing
 * makes no version. */
static void an_edit_is_made_once(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    const uint64_t version = make(net, 0, 1, "api", "a");
    assert_int_equal(make(net, 1, 1, "api", "a"), version);
    assert_int_equal(make(net, 0, 2, "api", "a"), version); /* the same content */
    assert_false(outcome(net, 0, 2)->changed);
    const struct control_edit_request wanted = request(3, "api", NULL, version);
    edit(net, 2, &wanted);
    net_run(net, NET_SECOND);
    assert_int_equal(outcome(net, 2, 3)->state, SETTINGS_EDIT_DONE);
    assert_int_equal(make(net, 0, 4, "api", NULL), 0); /* there is nothing to remove any more */
    assert_int_equal(make(net, 2, 1, "api", "a"), version); /* it was made, and is not made again */
    for (uint32_t i = 0; i < 3; i++)
        assert_false(has(net, i, "api", "a"));
    assert_equal(net, 7);
    net_free(net);
}

/* After all processes have ended at once, every node has what was acknowledged. */
static void what_was_acknowledged_survives_a_kill_of_all(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    const uint64_t version = make(net, 1, 1, "api", "kept");
    for (uint32_t i = 0; i < 3; i++)
        net_stop(net, i);
    for (uint32_t i = 0; i < 3; i++)
        net_restart(net, i);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(settings_of(net, i)->version, version);
        assert_true(has(net, i, "api", "kept"));
    }
    net_run(net, 3 * NET_SECOND);
    assert_true(make(net, 2, 2, "api", "changed") > version);
    assert_equal(net, 7);
    net_free(net);
}

/* A node that was away takes the changes it lacks. */
static void a_node_that_was_away_catches_up(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    net_stop(net, 2);
    net_run(net, 10 * NET_SECOND);
    (void)make(net, 0, 1, "a", "1");
    (void)make(net, 0, 2, "b", "2");
    (void)make(net, 0, 3, "a", NULL);
    net_restart(net, 2);
    net_run(net, 3 * NET_SECOND);
    assert_true(has(net, 2, "b", "2"));
    assert_equal(net, 7);
    assert_int_equal(settings_of(net, 2)->copied, 0);
    net_free(net);
}

/* Applies a change of version `by` after its head to node `at` alone, as if it had been decided. */
static void decide(struct net *net, uint32_t at, uint64_t by, const char *name, const char *value)
{
    struct control *control = net->nodes[at].control;
    struct settings *settings = settings_of(net, at);
    struct effects effects;
    static struct settings_change change;
    change = (struct settings_change){
        .version = settings->version + by,
        .voters = settings->voters,
        .before = settings->digest,
        .id = {.lo = 1, .hi = (uint64_t)value[0]},
        .time_ms = 1,
        .author = text("ada@host"),
        .op_count = 1,
        .ops = {{.kind = SETTINGS_POOL, .name = text(name), .value = text(value)}},
    };
    uint8_t *bytes = malloc(SETTINGS_CHANGE_LEN_MAX);
    assert_non_null(bytes);
    const int len = settings_change_encode(&change, bytes, SETTINGS_CHANGE_LEN_MAX);
    assert_true(len > 0);
    assert_int_equal(effects_init(&effects, alloc_heap()), 0);
    assert_int_equal(settings_apply(settings, bytes, (size_t)len, false, &effects), 0);
    control_settings_changed(control, &effects);
    effects_fini(&effects);
    free(bytes);
}

/* Disks that were put back leave nodes of one version with other contents, even of one record. The
 * next change makes them alike, as the majority has it, though the lowest id is of the minority. */
static void nodes_of_one_version_and_other_histories_become_alike(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    const uint64_t before = make(net, 0, 1, "api", "old");
    decide(net, 0, 1, "api", "mine");
    decide(net, 1, 1, "api", "theirs");
    decide(net, 2, 1, "api", "theirs");
    assert_int_equal(settings_of(net, 0)->version, settings_of(net, 1)->version);
    net_run(net, 3 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(has(net, i, "api", "theirs"));
    assert_equal(net, 7);
    assert_true(settings_of(net, 0)->version >= before + 2);
    (void)make(net, 0, 2, "api", "new");
    assert_equal(net, 7);
    net_free(net);
}

/* A node that joins waits for the settings, which come as fast as it is admitted; and not for long,
 * if nobody answers. */
static void a_node_that_joins_waits_for_the_settings(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)make(net, 0, 1, "api", "x");
    assert_false(control_settings_awaited(net->nodes[0].control, net->now_ns));
    for (uint32_t i = 3; i < 5; i++) {
        const char name[] = {'n', (char)('1' + i), '\0'};
        struct control_options options = net_options(net, i + 1, name);
        net_seed(&options, 0);
        (void)net_start(net, &options);
        for (uint32_t step = 0; step < 300 && net->nodes[i].joined == 0; step++)
            net_run(net, net->step_ns);
        assert_int_equal(net->nodes[i].joined, 1);
        assert_true(control_settings_awaited(net->nodes[i].control, net->now_ns));
        if (i == 4)
            break;
        net_run(net, 3 * net->step_ns);
        assert_false(control_settings_awaited(net->nodes[i].control, net->now_ns));
        assert_true(has(net, i, "api", "x"));
    }
    net->nodes[4].cut = true;
    net_run(net, 2900 * NET_MS);
    assert_int_equal(settings_of(net, 4)->version, 0);
    assert_true(control_settings_awaited(net->nodes[4].control, net->now_ns));
    net_run(net, 100 * NET_MS);
    assert_false(control_settings_awaited(net->nodes[4].control, net->now_ns));
    net_free(net);
}

/* Changes of many records while node 2 is away; more than the log keeps. */
static void change_much(struct net *net)
{
    char name[32];
    for (uint32_t i = 0; i < 400; i++) {
        (void)snprintf(name, sizeof name, "p%03u", i * 7 % 300);
        const struct control_edit_request wanted =
            request(100 + i, name, i % 5 == 0 ? NULL : "value", SETTINGS_ANY);
        edit(net, i % 2, &wanted);
        net_run(net, 60 * NET_MS);
    }
    net_run(net, 2 * NET_SECOND);
}

/* Where the changes are not kept any more it copies all records, and forgets what was removed. */
static void a_node_that_was_away_for_long_copies_all(void **state)
{
    (void)state;
    struct net *net = net_new();
    for (uint32_t i = 0; i < 3; i++) {
        const char name[] = {'n', (char)('1' + i), '\0'};
        struct control_options options = net_options(net, i + 1, name);
        options.settings_log_max = 8;
        if (i > 0)
            net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, 5 * NET_SECOND);
    (void)make(net, 0, 1, "old", "1");
    (void)make(net, 0, 2, "p005", "older");
    net_stop(net, 2);
    net_run(net, 10 * NET_SECOND);
    (void)make(net, 0, 3, "old", NULL);
    change_much(net);
    net_restart(net, 2);
    for (uint32_t i = 0; i < 40; i++) { /* it copies while changes go on */
        char name[32];
        (void)snprintf(name, sizeof name, "p%03u", i * 7);
        const struct control_edit_request wanted =
            request(900 + i, name, i % 3 == 0 ? NULL : "meanwhile", SETTINGS_ANY);
        edit(net, i % 2, &wanted);
        net_run(net, 2 * net->step_ns);
    }
    net_run(net, 4 * NET_SECOND);
    assert_false(has(net, 2, "old", "1"));
    assert_true(settings_of(net, 2)->copied >= 1);
    assert_true(settings_of(net, 0)->table.count > 200);
    assert_equal(net, 7);
    net_stop(net, 2); /* and its disk says the same */
    net_restart(net, 2);
    assert_equal(net, 7);
    net_free(net);
}

/* Applies forty versions of the rules while node 2 is away, and looks what it puts in force. */
static void look_at_one_that_was_away(uint32_t log_max, uint32_t items_max)
{
    struct net *net = net_new();
    struct settings_entry rules = {.version = 0};
    char body[32];
    uint32_t between = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const char name[] = {'n', (char)('1' + i), '\0'};
        struct control_options options = net_options(net, i + 1, name);
        options.settings_log_max = log_max;
        options.settings_items_max = items_max;
        if (i > 0)
            net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, 5 * NET_SECOND);
    net_stop(net, 2);
    net_run(net, 10 * NET_SECOND);
    for (uint32_t i = 0; i < 40; i++) {
        (void)snprintf(body, sizeof body, "rules: [] # %u", i);
        struct control_edit_request wanted = request(100 + i, "rules", body, SETTINGS_ANY);
        wanted.kind = SETTINGS_RULES;
        edit(net, 0, &wanted);
        net_run(net, 100 * NET_MS);
    }
    net_restart(net, 2);
    for (uint32_t i = 0; i < 300 && rules.version == 0; i++) {
        net_run(net, net->step_ns);
        const struct settings *settings = settings_of(net, 2);
        between += settings->table.count > 0 && settings->version < settings_of(net, 0)->version;
        (void)control_rules_due(net->nodes[2].control, &rules);
    }
    assert_true(between >= 1);
    assert_int_equal(rules.value.len, strlen(body));
    assert_memory_equal(rules.value.data, body, strlen(body));
    assert_equal(net, 7);
    net_free(net);
}

/* No rules come into force before all has come that a node lacks: until then the newest that are
 * there may be old ones. */
static void rules_come_into_force_when_all_has_come(void **state)
{
    (void)state;
    look_at_one_that_was_away(4, 3); /* all records, in several frames */
    look_at_one_that_was_away(0, 0); /* the changes, in two frames */
}

/* A copy that began and cannot end, for its source is gone with what it had, leaves nothing behind:
 * the next change finds the node to have no part of any history, and it copies what others have. */
static void a_copy_that_cannot_end_leaves_nothing_behind(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    struct effects effects;
    static struct settings_frame frame;
    uint8_t bytes[256];
    struct settings *settings = settings_of(net, 2);
    (void)make(net, 0, 1, "api", "x");
    const struct settings_entry ghost = {
        .kind = SETTINGS_POOL,
        .name = text("api"),
        .version = settings->version + (UINT64_C(1) << 40),
        .author = text("nobody"),
        .value = text("ghost"),
    };
    const int len = settings_entry_encode(&ghost, bytes, sizeof bytes);
    assert_true(len > 0);
    frame = (struct settings_frame){
        .type = SETTINGS_RECORDS,
        .sender = 99,
        .version = ghost.version,
        .voters = settings->voters,
        .to = {SETTINGS_POOL, text("m")},
        .item_count = 1,
        .items = {{bytes, (size_t)len}},
    };
    assert_int_equal(effects_init(&effects, alloc_heap()), 0);
    assert_true(settings_take_records(settings, net->now_ns, &frame, &effects));
    effects_fini(&effects);
    assert_true(has(net, 2, "api", "ghost"));
    (void)make(net, 0, 2, "api", "new");
    net_run(net, 3 * NET_SECOND);
    assert_true(has(net, 2, "api", "new"));
    assert_equal(net, 7);
    assert_false(settings->mixed);
    net_free(net);
}

/* Has node `at` begin to copy from one that nobody will ever hear of again: all that comes is the
 * record "api". */
static void begin_copy(struct net *net, uint32_t at, const char *value)
{
    static struct settings_frame frame;
    uint8_t bytes[256];
    uint8_t *sent = malloc(JOIN_LARGE_FRAME_MAX);
    const struct settings *settings = settings_of(net, at);
    const struct settings_entry ghost = {
        .kind = SETTINGS_POOL,
        .name = text("api"),
        .version = settings->version + (UINT64_C(1) << 40),
        .author = text("nobody"),
        .value = text(value),
    };
    const int entry_len = settings_entry_encode(&ghost, bytes, sizeof bytes);
    assert_non_null(sent);
    assert_true(entry_len > 0);
    frame = (struct settings_frame){
        .type = SETTINGS_RECORDS,
        .sender = 99,
        .address = "10.0.0.99:7946",
        .version = ghost.version,
        .voters = settings->voters,
        .to = {SETTINGS_POOL, text("m")},
        .item_count = 1,
        .items = {{bytes, (size_t)entry_len}},
    };
    memcpy(frame.cluster_id, control_identity(net->nodes[at].control)->cluster_id,
           sizeof frame.cluster_id);
    for (uint64_t nonce = 0; nonce < 2; nonce++) { /* what nobody asked for changes nothing */
        net->nodes[at].control->settings->nonce = 1;
        frame.nonce = nonce;
        const int len = settings_wire_encode(&frame, sent, JOIN_LARGE_FRAME_MAX);
        assert_true(len > 0);
        net_tell(net, at, sent, (size_t)len);
        assert_int_equal(settings->mixed, nonce == 1);
    }
    free(sent);
    assert_true(has(net, at, "api", value));
}

/* Nobody has to change anything for such a node to get back into step: it tells that it has no
 * history, and whoever has one of its version goes on by it. */
static void whose_records_are_mixed_gets_a_history_by_itself(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)make(net, 0, 1, "api", "x");
    begin_copy(net, 2, "ghost");
    net_run(net, 6 * NET_SECOND);
    assert_true(has(net, 2, "api", "x"));
    assert_false(settings_of(net, 2)->mixed);
    assert_equal(net, 7);
    net_free(net);
}

/* Where its vote is needed it does not stand in the way of those who have a history, and what it is
 * asked for waits until it has one, or is refused: it is not judged by records of nobody. */
static void whose_records_are_mixed_proposes_nothing_beside_a_history(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)make(net, 0, 1, "api", "x");
    net_stop(net, 0);
    net_run(net, 10 * NET_SECOND);
    begin_copy(net, 2, "ghost");
    const struct control_edit_request wanted = request(2, "api", "ghost", SETTINGS_ANY);
    edit(net, 2, &wanted);
    net_run(net, net->step_ns);
    assert_int_equal(outcome(net, 2, 2)->state, SETTINGS_EDIT_WAITS);
    net_run(net, 6 * NET_SECOND);
    assert_false(settings_of(net, 2)->mixed);
    assert_equal(net, 6);
    const bool done = outcome(net, 2, 2)->state == SETTINGS_EDIT_DONE;
    assert_int_equal(has(net, 1, "api", "ghost"), done);
    (void)make(net, 1, 3, "api", "new");
    assert_equal(net, 6);
    net_free(net);
}

/* Two that were copying when their source was lost have not got the same of it. With nobody left
 * who has a history, one of them makes one of what it has, and the other copies that. */
static void two_whose_records_are_mixed_become_alike(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)make(net, 0, 1, "api", "x");
    net_stop(net, 0);
    net_run(net, 10 * NET_SECOND);
    begin_copy(net, 1, "one");
    begin_copy(net, 2, "two");
    assert_false(hash128_equal(settings_of(net, 1)->digest, settings_of(net, 2)->digest));
    net_run(net, 8 * NET_SECOND);
    assert_false(settings_of(net, 1)->mixed);
    assert_false(settings_of(net, 2)->mixed);
    assert_equal(net, 6);
    (void)make(net, 1, 2, "other", "y");
    assert_equal(net, 6);
    net_free(net);
}

/* A node whose process ended in the midst of a copy knows that its records are mixed, and copies;
 * who has less yet gets nothing of them. */
static void a_copy_that_a_restart_ended_begins_anew(void **state)
{
    static const struct settings_frame asked = {.type = SETTINGS_FETCH};
    static struct settings_frame answer;
    (void)state;
    struct net *net = net_new();
    bool mixed = false;
    for (uint32_t i = 0; i < 3; i++) {
        const char name[] = {'n', (char)('1' + i), '\0'};
        struct control_options options = net_options(net, i + 1, name);
        options.settings_log_max = 4;
        options.settings_items_max = 1;
        if (i > 0)
            net_seed(&options, 0);
        (void)net_start(net, &options);
    }
    net_run(net, 5 * NET_SECOND);
    net_stop(net, 2);
    net_run(net, 10 * NET_SECOND);
    for (uint32_t i = 0; i < 8; i++) {
        const char name[] = {'p', (char)('a' + i), '\0'};
        (void)make(net, 0, 10 + i, name, "value");
    }
    net_restart(net, 2);
    for (uint32_t i = 0; i < 300 && !mixed; i++) {
        net_run(net, net->step_ns);
        mixed = settings_of(net, 2)->copying.active && settings_of(net, 2)->table.count > 2;
    }
    assert_true(mixed);
    assert_true(settings_of(net, 2)->version > 0);
    assert_false(settings_answer(settings_of(net, 2), &asked, &answer));
    net_stop(net, 2);
    net_restart(net, 2);
    assert_true(settings_of(net, 2)->mixed);
    net_run(net, 3 * NET_SECOND);
    assert_false(settings_of(net, 2)->mixed);
    assert_int_equal(settings_of(net, 2)->copied, 1);
    assert_equal(net, 7);
    net_free(net);
}

/* What does not follow the own history is not applied, though its version is the next. */
static void a_change_of_another_history_is_not_applied(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    struct settings *settings = settings_of(net, 0);
    struct effects effects;
    static struct settings_change change;
    uint8_t bytes[256];
    const uint64_t version = make(net, 0, 1, "api", "x");
    assert_int_equal(effects_init(&effects, alloc_heap()), 0);
    for (uint32_t i = 0; i < 3; i++) { /* another digest, the same version, and as it should be */
        change = (struct settings_change){
            .version = i == 1 ? version : version + 1,
            .voters = settings->voters,
            .before = {.lo = settings->digest.lo + (i == 0), .hi = settings->digest.hi},
            .op_count = 1,
            .ops = {{.kind = SETTINGS_POOL, .name = text("api"), .value = text("other")}},
        };
        const int len = settings_change_encode(&change, bytes, sizeof bytes);
        assert_true(len > 0);
        assert_int_equal(settings_apply(settings, bytes, (size_t)len, false, &effects),
                         i == 2 ? 0 : TG_ECONFLICT);
        assert_int_equal(settings->version, i == 2 ? version + 1 : version);
        assert_true(has(net, 0, "api", i == 2 ? "other" : "x"));
    }
    effects_fini(&effects);
    net_free(net);
}

/* A node that is forced on while it copies keeps its new version: what is left of the copy is not
 * taken any more. */
static void a_change_that_is_applied_ends_a_copy(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    struct settings *settings = settings_of(net, 0);
    struct effects effects;
    static struct settings_frame frame;
    (void)make(net, 0, 1, "api", "x");
    frame = (struct settings_frame){
        .type = SETTINGS_RECORDS,
        .sender = 2,
        .version = settings->version + 10,
        .voters = settings->voters,
        .to = {SETTINGS_POOL, text("m")},
    };
    assert_int_equal(effects_init(&effects, alloc_heap()), 0);
    assert_true(settings_take_records(settings, net->now_ns, &frame, &effects));
    assert_true(settings->copying.active);
    decide(net, 0, UINT64_C(1) << 40, "api", "forced");
    const uint64_t forced = settings->version;
    frame.from = frame.to;
    frame.to = (struct settings_place){0, {"", 0}};
    assert_false(settings_take_records(settings, net->now_ns, &frame, &effects));
    assert_int_equal(settings->version, forced);
    assert_true(has(net, 0, "api", "forced"));
    effects_fini(&effects);
    net_free(net);
}

/* Puts block number `number` where it is, without a change. */
static void put_block(struct net *net, uint32_t number, uint64_t until_ms)
{
    char name[32];
    uint8_t value[9] = {0};
    (void)snprintf(name, sizeof name, "attr user=%06u", number);
    for (uint32_t i = 0; i < 8; i++)
        value[i] = (uint8_t)(until_ms >> 8 * i);
    const struct settings_entry entry = {
        .kind = SETTINGS_BLOCK,
        .name = text(name),
        .version = settings_of(net, 0)->version,
        .author = text("ada"),
        .value = {(const char *)value, sizeof value},
    };
    assert_int_equal(settings_table_put(&settings_of(net, 0)->table, &entry), 0);
}

/* There are never more blocks than can be put in force; one that is there can still be changed. */
static void no_more_blocks_are_made_than_can_be_in_force(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    for (uint32_t i = 0; i + 1 < BLOCKS_MAX; i++)
        put_block(net, i, 0);
    for (uint32_t i = 0; i < 3; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "attr user=%06u", i == 2 ? 7 : BLOCKS_MAX + i);
        struct control_edit_request wanted = request(i + 1, name, "12345678why", SETTINGS_ANY);
        wanted.kind = SETTINGS_BLOCK;
        edit(net, 0, &wanted);
    }
    net_run(net, NET_SECOND);
    assert_int_equal(outcome(net, 0, 1)->state, SETTINGS_EDIT_DONE);
    assert_int_equal(outcome(net, 0, 2)->state, SETTINGS_EDIT_UNAVAILABLE);
    assert_non_null(strstr(outcome(net, 0, 2)->sentence, "65536"));
    assert_int_equal(outcome(net, 0, 3)->state, SETTINGS_EDIT_DONE);
    net_free(net);
}

/* Blocks that ended are removed as fast as they end, and none that lasts, however long. */
static void blocks_that_ended_are_removed(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    const uint64_t now_ms = (uint64_t)(net->now_ns / NET_MS);
    const uint32_t ended = 3 * SETTINGS_OPS_MAX;
    for (uint32_t i = 0; i < ended; i++)
        put_block(net, i, now_ms - 70000);
    put_block(net, ended, now_ms - 1000); /* the clocks of nodes differ */
    put_block(net, ended + 1, UINT64_MAX - 1);
    put_block(net, ended + 2, 0);
    net_run(net, 35 * NET_SECOND);
    assert_int_equal(settings_of(net, 0)->table.count, 3);
    net_free(net);
}

/* Without a majority a node keeps what it has, refuses edits and names who is missing. */
static void without_a_majority_edits_are_refused(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)make(net, 0, 1, "api", "kept");
    net_stop(net, 1);
    net_stop(net, 2);
    net_run(net, 20 * NET_SECOND);
    const struct control_edit_request wanted = request(2, "api", "never", SETTINGS_ANY);
    edit(net, 0, &wanted);
    net_run(net, 3 * NET_SECOND);
    const struct settings_edit *refused = outcome(net, 0, 2);
    assert_int_equal(refused->state, SETTINGS_EDIT_UNAVAILABLE);
    assert_non_null(strstr(refused->sentence, "n2, n3 cannot be reached"));
    assert_true(has(net, 0, "api", "kept"));
    net_restart(net, 1);
    net_run(net, 5 * NET_SECOND);
    (void)make(net, 0, 3, "api", "again");
    net_free(net);
}

/* An operator's force goes on with the living; who comes back takes over what they decided. */
static void force_begins_a_new_lineage(void **state)
{
    (void)state;
    char sentence[CONTROL_SENTENCE_LEN];
    struct net *net = net_cluster(3);
    const uint64_t before = make(net, 0, 1, "api", "old");
    net_stop(net, 1);
    net_stop(net, 2);
    net_run(net, 20 * NET_SECOND);
    assert_int_equal(control_remove(net->nodes[0].control, net->now_ns, 2, "n2", true, sentence),
                     0);
    net_run(net, 2 * NET_SECOND);
    const uint64_t forced = make(net, 0, 2, "api", "new");
    assert_true(forced > before && forced >> 32 > before >> 32);
    net_restart(net, 1);
    net_restart(net, 2);
    net_run(net, 10 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(has(net, i, "api", "new"));
    assert_equal(net, 7);
    net_free(net);
}

/* Voters of the settings that died and left the ring, before the settings could follow it, are made
 * up for by force, though the ring is not frozen and has nothing to remove. */
static void force_helps_settings_whose_voters_have_left_the_ring(void **state)
{
    (void)state;
    char sentence[CONTROL_SENTENCE_LEN];
    struct net *net = net_cluster(5);
    (void)make(net, 0, 1, "api", "old");
    for (uint32_t i = 0; i < 5; i++) { /* all have three voters, of whom two end at once */
        settings_of(net, i)->voters = (struct register_voters){3, {1, 4, 5}};
        decide(net, i, 1, "api", "decided");
    }
    net_stop(net, 3);
    net_stop(net, 4);
    for (uint32_t i = 0; i < 30; i++) {
        const uint64_t gone = i < 20 ? 4 : 5;
        const int error = control_remove(net->nodes[0].control, net->now_ns, gone,
                                         gone == 4 ? "n4" : "n5", false, sentence);
        assert_true(error == 0 || i < 10); /* it is not known to be dead at once */
        net_run(net, NET_SECOND);
    }
    assert_true(net_has_ring(net, 0, 7));
    const struct control_edit_request wanted = request(2, "api", "never", SETTINGS_ANY);
    edit(net, 0, &wanted);
    net_run(net, 3 * NET_SECOND);
    assert_int_equal(outcome(net, 0, 2)->state, SETTINGS_EDIT_UNAVAILABLE);
    assert_non_null(strstr(outcome(net, 0, 2)->sentence, "n4, n5 cannot be reached"));
    const uint64_t epoch = net_config(net, 0)->epoch;
    assert_int_equal(control_remove(net->nodes[0].control, net->now_ns, 4, "n4", true, sentence),
                     0);
    net_run(net, 3 * NET_SECOND);
    (void)make(net, 1, 3, "api", "new");
    assert_int_equal(settings_of(net, 0)->voters.count, 3);
    assert_int_equal(net_config(net, 0)->epoch, epoch); /* of the ring nothing is forced */
    assert_equal(net, 7);
    net_free(net);
}

/* Versions of the rules are kept up to their bound, and the newest is in force. */
static void old_versions_of_the_rules_are_forgotten_in_order(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    struct settings_entry rules;
    char body[32];
    for (uint32_t i = 0; i < SETTINGS_RULES_KEPT + 10; i++) {
        (void)snprintf(body, sizeof body, "rules: [] # %u", i);
        struct control_edit_request wanted = request(100 + i, "rules", body, SETTINGS_ANY);
        wanted.kind = SETTINGS_RULES;
        edit(net, 0, &wanted);
        net_run(net, 100 * NET_MS);
    }
    assert_int_equal(settings_of(net, 0)->table.count, SETTINGS_RULES_KEPT);
    assert_true(control_rules_due(net->nodes[0].control, &rules));
    assert_memory_equal(rules.value.data, body, strlen(body));
    assert_false(control_rules_due(net->nodes[0].control, &rules));
    net_free(net);
}

/* The same up to their bytes. */
static void large_versions_of_the_rules_are_kept_up_to_their_bytes(void **state)
{
    (void)state;
    enum { BODY = SETTINGS_RULES_KEPT_BYTES / 10, VERSIONS = 14 };
    static char body[BODY + 1];
    struct net *net = net_cluster(1);
    for (uint32_t i = 0; i < VERSIONS; i++) {
        memset(body, (int)('a' + i), BODY);
        struct control_edit_request wanted = request(100 + i, "rules", body, SETTINGS_ANY);
        wanted.kind = SETTINGS_RULES;
        edit(net, 0, &wanted);
        net_run(net, 100 * NET_MS);
        assert_true(settings_of(net, 0)->table.bytes <= SETTINGS_RULES_KEPT_BYTES);
    }
    const struct settings_table *table = &settings_of(net, 0)->table;
    assert_true(table->count >= 8 && table->count <= 10);
    assert_int_equal(table->records[table->count - 1]->entry.value.data[0], 'a' + VERSIONS - 1);
    net_free(net);
}

/* Rules that came with a copy which goes on are not put in force: newer ones may be about to come.
 */
static void rules_wait_for_the_end_of_a_copy(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    struct settings_entry rules;
    struct control_edit_request wanted = request(1, "rules", "rules: []", SETTINGS_ANY);
    wanted.kind = SETTINGS_RULES;
    edit(net, 0, &wanted);
    net_run(net, 100 * NET_MS);
    settings_of(net, 0)->copying.active = true;
    assert_false(control_rules_due(net->nodes[0].control, &rules));
    settings_of(net, 0)->copying.active = false;
    assert_true(control_rules_due(net->nodes[0].control, &rules));
    net_free(net);
}

/* A node accepts no value that does not follow its own history, however it is asked. */
static void no_vote_is_given_for_another_history(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    struct settings *settings = settings_of(net, 1);
    static struct settings_change change;
    uint8_t value[256];
    uint8_t bytes[1024];
    (void)make(net, 0, 1, "api", "x");
    for (uint32_t i = 0; i < 2; i++) {
        change = (struct settings_change){
            .version = settings->version + 1,
            .voters = settings->voters,
            .before = {settings->digest.lo + (i == 0), settings->digest.hi},
            .op_count = 1,
            .ops = {{.kind = SETTINGS_POOL, .name = text("api"), .value = text("other")}},
        };
        const int len = settings_change_encode(&change, value, sizeof value);
        assert_true(len > 0);
        struct register_frame frame = {
            .settings = true,
            .message = {.type = REGISTER_ACCEPT,
                        .sender = 1,
                        .epoch = settings->version + 1,
                        .ballot = {.number = 1000, .node = 1, .boot = 1},
                        .value = value,
                        .value_len = (size_t)len},
        };
        memcpy(frame.cluster_id, net->nodes[1].identity.cluster_id, sizeof frame.cluster_id);
        memcpy(frame.address, net->nodes[0].options.gossip, sizeof frame.address);
        const int frame_len = register_wire_encode(&frame, bytes, sizeof bytes);
        assert_true(frame_len > 0);
        net_tell(net, 1, bytes, (size_t)frame_len);
        assert_int_equal(register_in_doubt(settings->ballots), i == 1);
    }
    net_free(net);
}

/* The voters of the settings follow those of the ring as members come. */
static void voters_follow_the_ring(void **state)
{
    (void)state;
    struct net *net = net_cluster(5);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(net_config(net, 0)->voters_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(settings_of(net, i)->voters.count, 5);
        for (uint32_t v = 0; v < 5; v++)
            assert_true(net_votes(net, 0, settings_of(net, i)->voters.ids[v]));
    }
    assert_equal(net, 31);
    net_free(net);
}

/* More edits than are remembered are refused as busy, and none of them is half taken. */
static void too_many_edits_at_once_are_refused(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    for (uint32_t i = 0; i < SETTINGS_EDITS_MAX; i++) {
        const struct control_edit_request wanted = request(i + 1, "x", "y", SETTINGS_ANY);
        edit(net, 0, &wanted);
    }
    const struct control_edit_request wanted =
        request(SETTINGS_EDITS_MAX + 1, "x", "y", SETTINGS_ANY);
    assert_int_equal(control_edit(net->nodes[0].control, net->now_ns, &wanted), TG_EBUSY);
    net_run(net, NET_SECOND);
    assert_int_equal(control_edit(net->nodes[0].control, net->now_ns, &wanted), 0);
    net_free(net);
}

/* What is damaged on disk is refused, not served. */
static void a_damaged_store_is_refused(void **state)
{
    (void)state;
    struct net *net = net_cluster(1);
    (void)make(net, 0, 1, "api", "x");
    net_stop(net, 0);
    struct net_node *node = &net->nodes[0];
    struct control *control;
    assert_int_equal(control_new(alloc_heap(), &node->options, net->now_ns, &control), 0);
    for (uint32_t i = 0; i < node->value_count; i++)
        if (strncmp(node->values[i].key, SETTINGS_PREFIX "log.", 13) != 0)
            assert_int_equal(control_restore_settings(control, node->values[i].key,
                                                      node->values[i].bytes, node->values[i].len),
                             0);
    assert_int_equal(control_settings_restored(control), TG_ECORRUPT);
    assert_int_equal(control_restore_settings(control, SETTINGS_PREFIX "head", "\xc1", 1),
                     TG_ECORRUPT);
    control_free(&control);
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_begins_with_a_first_version),
        cmocka_unit_test(an_edit_reaches_every_node),
        cmocka_unit_test(of_two_concurrent_edits_one_wins_and_the_other_is_told),
        cmocka_unit_test(edits_of_different_records_both_succeed),
        cmocka_unit_test(an_edit_is_made_once),
        cmocka_unit_test(what_was_acknowledged_survives_a_kill_of_all),
        cmocka_unit_test(a_node_that_was_away_catches_up),
        cmocka_unit_test(a_node_that_was_away_for_long_copies_all),
        cmocka_unit_test(nodes_of_one_version_and_other_histories_become_alike),
        cmocka_unit_test(a_node_that_joins_waits_for_the_settings),
        cmocka_unit_test(rules_come_into_force_when_all_has_come),
        cmocka_unit_test(a_copy_that_cannot_end_leaves_nothing_behind),
        cmocka_unit_test(whose_records_are_mixed_gets_a_history_by_itself),
        cmocka_unit_test(whose_records_are_mixed_proposes_nothing_beside_a_history),
        cmocka_unit_test(two_whose_records_are_mixed_become_alike),
        cmocka_unit_test(a_copy_that_a_restart_ended_begins_anew),
        cmocka_unit_test(a_change_of_another_history_is_not_applied),
        cmocka_unit_test(a_change_that_is_applied_ends_a_copy),
        cmocka_unit_test(no_more_blocks_are_made_than_can_be_in_force),
        cmocka_unit_test(blocks_that_ended_are_removed),
        cmocka_unit_test(without_a_majority_edits_are_refused),
        cmocka_unit_test(force_begins_a_new_lineage),
        cmocka_unit_test(force_helps_settings_whose_voters_have_left_the_ring),
        cmocka_unit_test(old_versions_of_the_rules_are_forgotten_in_order),
        cmocka_unit_test(large_versions_of_the_rules_are_kept_up_to_their_bytes),
        cmocka_unit_test(rules_wait_for_the_end_of_a_copy),
        cmocka_unit_test(no_vote_is_given_for_another_history),
        cmocka_unit_test(voters_follow_the_ring),
        cmocka_unit_test(too_many_edits_at_once_are_refused),
        cmocka_unit_test(a_damaged_store_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_control_disk.c - disks without room under the control cores of a small cluster: what is
 * refused, what goes on, what is said, and that no promise is made that is not on disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/cluster/control/control_state.h"
#include "tests/unit/support_control.h"

enum { TURNS = 60 };

static struct settings *settings_of(const struct net *net, uint32_t at)
{
    return net->nodes[at].control->settings;
}

static struct settings_text text(const char *bytes)
{
    return (struct settings_text){.data = bytes, .len = strlen(bytes)};
}

static const struct settings_edit *outcome(const struct net *net, uint32_t at, uint64_t id)
{
    const struct settings_edit *found =
        control_edit_find(net->nodes[at].control, (struct hash128){.lo = id});
    assert_non_null(found);
    return found;
}

static void ask(struct net *net, uint32_t at, uint64_t id, const char *name, const char *value)
{
    const struct control_edit_request wanted = {
        .id = {.lo = id},
        .kind = SETTINGS_POOL,
        .based_on = SETTINGS_ANY,
        .name = text(name),
        .value = text(value),
        .author = text("ada"),
        .note = text(""),
    };
    assert_int_equal(control_edit(net->nodes[at].control, net->now_ns, &wanted), 0);
}

/* Asks node `at` for an edit, and waits until it has ended. */
static const struct settings_edit *edit(struct net *net, uint32_t at, uint64_t id, const char *name,
                                        const char *value)
{
    ask(net, at, id, name, value);
    for (uint32_t i = 0; i < 500 && outcome(net, at, id)->state == SETTINGS_EDIT_WAITS; i++)
        net_run(net, net->step_ns);
    return outcome(net, at, id);
}

static bool has(const struct net *net, uint32_t at, const char *name, const char *value)
{
    const struct settings_text wanted = text(name);
    const struct settings_entry *entry =
        settings_table_find(&settings_of(net, at)->table, SETTINGS_POOL, &wanted);
    return entry != NULL && entry->value.len == strlen(value) &&
           memcmp(entry->value.data, value, strlen(value)) == 0;
}

/* What node `at` believes is what it finds on its disk when it is restarted. */
static void assert_like_restarted(struct net *net, uint32_t at)
{
    static uint8_t bytes[2][2][REGISTER_RECORD_LEN_MAX];
    int lens[2][2];
    uint64_t epochs[2];
    struct hash128 digests[2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct control *control = net->nodes[at].control;
        lens[i][0] = register_encode(control->ballots, bytes[i][0], sizeof bytes[i][0]);
        lens[i][1] = register_encode(control->settings->ballots, bytes[i][1], sizeof bytes[i][1]);
        epochs[i] = control->config->epoch;
        digests[i] = control->settings->digest;
        if (i == 0) {
            net_stop(net, at);
            net_restart(net, at);
        }
    }
    assert_int_equal(epochs[0], epochs[1]);
    assert_true(hash128_equal(digests[0], digests[1]));
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(lens[0][r], lens[1][r]);
        assert_memory_equal(bytes[0][r], bytes[1][r], (size_t)lens[0][r]);
    }
}

/* A node that decides alone refuses an edit that its disk refuses, at whichever of its writes, and
 * is what it was; with room it is made. What was accepted before the disk was full comes about. */
static void alone_a_full_disk_refuses_edits_in_words(void **state)
{
    (void)state;
    for (uint32_t spare = 0; spare < 3; spare++) {
        struct net *net = net_cluster(1);
        (void)edit(net, 0, 1, "api", "old");
        const uint64_t version = settings_of(net, 0)->version;
        net_fill(net, 0, spare);
        const struct settings_edit *refused = edit(net, 0, 2, "api", "new");
        assert_int_equal(net->nodes[0].refused, spare < 2 ? 1 : 0);
        assert_int_equal(refused->state, spare == 0   ? SETTINGS_EDIT_UNAVAILABLE
                                         : spare == 1 ? SETTINGS_EDIT_DOUBT
                                                      : SETTINGS_EDIT_DONE);
        if (spare < 2) {
            assert_non_null(strstr(refused->sentence, "the disk of n1 has no room (/srv/n1)"));
            assert_int_equal(strstr(refused->sentence, "not known yet") != NULL, spare == 1);
            assert_int_equal(settings_of(net, 0)->version, version);
            assert_true(has(net, 0, "api", "old"));
            assert_true(control_disk_full(net->nodes[0].control));
            assert_int_equal(edit(net, 0, 3, "api", "new")->state,
                             spare == 0 ? SETTINGS_EDIT_UNAVAILABLE : SETTINGS_EDIT_DOUBT);
            assert_int_equal(net->nodes[0].refused, 1); /* nothing is tried while it is full */
            assert_like_restarted(net, 0);
        }
        net_empty(net, 0);
        net_run(net, 5 * NET_SECOND);
        assert_true(has(net, 0, "api", spare == 0 ? "old" : "new"));
        assert_int_equal(edit(net, 0, 4, "api", "newest")->state, SETTINGS_EDIT_DONE);
        net_stop(net, 0);
        net_restart(net, 0);
        assert_true(has(net, 0, "api", "newest"));
        net_free(net);
    }
}

/* One full disk of three is in nobody's way: others are asked for edits, the full node refuses
 * them and keeps what it has, tells that its disk is full, and catches up by itself. */
static void one_full_disk_is_in_nobodys_way(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)edit(net, 0, 1, "api", "old");
    net_run(net, NET_SECOND);
    net_fill(net, 2, 0);
    assert_int_equal(edit(net, 0, 2, "api", "new")->state, SETTINGS_EDIT_DONE);
    net_run(net, NET_SECOND);
    assert_true(has(net, 0, "api", "new") && has(net, 1, "api", "new") &&
                has(net, 2, "api", "old"));
    assert_true((control_flags(net->nodes[0].control, 3) & CONTROL_FLAG_FULL) != 0);
    assert_int_equal(edit(net, 2, 3, "api", "mine")->state, SETTINGS_EDIT_UNAVAILABLE);
    assert_true(control_settings_behind(net->nodes[2].control));
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, 0, 7)); /* it is not held for dead */
    assert_int_equal(net->nodes[2].refused, 1);
    net_empty(net, 2);
    net_run(net, 2 * NET_SECOND);
    assert_true(has(net, 2, "api", "new"));
    assert_true((control_flags(net->nodes[0].control, 3) & CONTROL_FLAG_FULL) == 0);
    net_stop(net, 2);
    net_restart(net, 2);
    assert_true(has(net, 2, "api", "new"));
    net_free(net);
}

/* Where most voters have no room an edit is refused by name, through whichever node, and is not
 * made later. */
static void full_voters_are_named(void **state)
{
    (void)state;
    struct net *net = net_cluster(3);
    (void)edit(net, 0, 1, "api", "old");
    net_run(net, NET_SECOND);
    net_fill(net, 1, 0);
    net_fill(net, 2, 0);
    const struct settings_edit *refused = edit(net, 0, 2, "api", "first");
    assert_int_equal(refused->state, SETTINGS_EDIT_UNAVAILABLE);
    assert_non_null(strstr(refused->sentence, "no room on the disks of voters n2, n3"));
    assert_int_equal(edit(net, 0, 3, "api", "second")->state, SETTINGS_EDIT_UNAVAILABLE);
    assert_non_null(strstr(edit(net, 1, 4, "api", "third")->sentence, "n2 has no room (/srv/n2)"));
    net_empty(net, 1);
    net_empty(net, 2);
    net_run(net, 3 * NET_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(has(net, i, "api", "old"));
    assert_int_equal(edit(net, 0, 5, "api", "new")->state, SETTINGS_EDIT_DONE);
    net_free(net);
}

/* An edit that voters may have accepted is not called refused when the disk of the node that was
 * asked fills up then, whether that node votes itself or not. */
static void what_was_offered_is_in_doubt(void **state)
{
    (void)state;
    struct net *net = net_cluster(4);
    uint32_t others = 0;
    for (uint32_t at = 0; at < 4; at++) {
        others += !net_votes(net, 0, at + 1);
        ask(net, at, 10 + at, "api", (const char[]){(char)('a' + at), '\0'});
        for (uint32_t i = 0; i < 50 && !register_offers(settings_of(net, at)->ballots); i++)
            net_run(net, net->step_ns);
        assert_true(register_offers(settings_of(net, at)->ballots));
        net_fill(net, at, 0);
        net_run(net, NET_SECOND);
        assert_int_equal(outcome(net, at, 10 + at)->state, SETTINGS_EDIT_DOUBT);
        net_empty(net, at);
        net_run(net, 5 * NET_SECOND);
        for (uint32_t i = 0; i < 4; i++)
            assert_true(has(net, i, "api", (const char[]){(char)('a' + at), '\0'}));
    }
    assert_int_equal(others, 1);
    net_free(net);
}

/* A node without room keeps its ring until it has some, and then takes the one of the others; it
 * can neither remove members nor count as one who votes. */
static void a_full_disk_takes_no_newer_ring(void **state)
{
    (void)state;
    char sentence[CONTROL_SENTENCE_LEN];
    struct net *net = net_cluster(3);
    net_stop(net, 2);
    net_run(net, 20 * NET_SECOND);
    net_fill(net, 1, 0);
    const uint64_t epoch = net_config(net, 1)->epoch;
    for (uint32_t i = 0; i < 4; i++) { /* the voters n1 and n2 are all that is left of three */
        assert_int_equal(
            control_remove(net->nodes[0].control, net->now_ns, 3, "n3", false, sentence), 0);
        net_run(net, NET_SECOND);
    }
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    assert_int_equal(net_config(net, 1)->epoch, epoch);
    assert_int_equal(control_remove(net->nodes[1].control, net->now_ns, 3, "n3", true, sentence),
                     TG_ECONFLICT);
    assert_non_null(strstr(sentence, "the disk of n2 has no room"));
    assert_like_restarted(net, 1);
    net_empty(net, 1);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(
            control_remove(net->nodes[0].control, net->now_ns, 3, "n3", false, sentence), 0);
        net_run(net, NET_SECOND);
    }
    assert_true(net_has_ring(net, 0, 3) && net_has_ring(net, 1, 3));
    net_free(net);
}

/* The lowest id proposes for all, but not while its disk is full: then the next one does. */
static void a_full_disk_of_the_lowest_id_stops_no_proposals(void **state)
{
    (void)state;
    struct net *net = net_cluster(4);
    net_fill(net, 0, 0);
    assert_int_equal(edit(net, 0, 1, "api", "mine")->state, SETTINGS_EDIT_UNAVAILABLE);
    struct control_options options = net_options(net, 5, "n5");
    net_seed(&options, 1);
    (void)net_start(net, &options);
    net_run(net, 10 * NET_SECOND);
    assert_non_null(ring_config_find(net_config(net, 1), 5));
    assert_null(ring_config_find(net_config(net, 0), 5));
    net_empty(net, 0);
    net_run(net, 10 * NET_SECOND);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(net_has_ring(net, i, 31));
    net_free(net);
}

/* Disks that fill up and have room again at any moment, and processes that end, lose no edit that
 * was told as done, and leave one history. */
static void disks_that_come_and_go_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct random random;
        struct net *net = net_cluster(3);
        uint64_t done[TURNS + 1] = {0}; /* the version that was told for the edit of a turn */
        uint32_t done_count = 0;
        random_init(&random, seed);
        for (uint64_t turn = 1; turn <= TURNS; turn++) {
            char value[24];
            const uint32_t at = (uint32_t)random_below(&random, 3);
            const uint32_t other = (uint32_t)random_below(&random, 3);
            (void)snprintf(value, sizeof value, "%llu", (unsigned long long)turn);
            if (net->nodes[other].full)
                net_empty(net, other);
            else
                net_fill(net, other, (uint32_t)random_below(&random, 4));
            if (random_below(&random, 8) == 0) {
                net_stop(net, other);
                net_restart(net, other);
            }
            ask(net, at, turn, "api", value);
            net_run(net, (int64_t)random_below(&random, 400) * NET_MS);
            const struct settings_edit *edited =
                control_edit_find(net->nodes[at].control, (struct hash128){.lo = turn});
            if (edited != NULL && edited->state == SETTINGS_EDIT_DONE && edited->changed)
                done[turn] = edited->version;
        }
        for (uint32_t i = 0; i < 3; i++)
            net_empty(net, i);
        net_run(net, 8 * NET_SECOND);
        assert_int_equal(edit(net, 0, 1000, "api", "last")->state, SETTINGS_EDIT_DONE);
        net_run(net, 2 * NET_SECOND);
        for (uint64_t turn = 1; turn <= TURNS; turn++) {
            const struct settings_log *log = &settings_of(net, 0)->log;
            done_count += done[turn] != 0;
            if (done[turn] > log->floor_version)
                assert_int_equal(settings_log_find(log, (struct hash128){.lo = turn}), done[turn]);
        }
        assert_true(done_count > 5 && settings_of(net, 0)->log.count > done_count);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(hash128_equal(settings_of(net, i)->digest, settings_of(net, 0)->digest));
            assert_true(has(net, i, "api", "last"));
        }
        net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_a_full_disk_refuses_edits_in_words),
        cmocka_unit_test(one_full_disk_is_in_nobodys_way),
        cmocka_unit_test(full_voters_are_named),
        cmocka_unit_test(what_was_offered_is_in_doubt),
        cmocka_unit_test(a_full_disk_takes_no_newer_ring),
        cmocka_unit_test(a_full_disk_of_the_lowest_id_stops_no_proposals),
        cmocka_unit_test(disks_that_come_and_go_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

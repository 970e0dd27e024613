/* test_control_region.c - several regions: a ring each, one membership and one configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/control/control_state.h"
#include "node/policy/compile/policy_compile.h"
#include "tests/unit/support_control.h"

/* Starts node `id` in `region`, which seeds `seed`, or nobody if it is the first. */
static uint32_t start(struct net *net, uint64_t id, const char *region, uint32_t seed)
{
    char name[8];
    (void)snprintf(name, sizeof name, "n%u", (unsigned)id);
    struct control_options options = net_options(net, id, name);
    (void)snprintf(options.region, sizeof options.region, "%s", region);
    if (net->count > 0)
        net_seed(&options, seed);
    return net_start(net, &options);
}

/* Three regions of so many nodes each, whose ids go round, so that none has the lowest ones. */
static struct net *three_regions(uint32_t each)
{
    static const char *const regions[] = {"eu", "us", "ap"};
    struct net *net = net_new();
    for (uint32_t i = 0; i < 3 * each; i++)
        (void)start(net, i + 1, regions[i % 3], 0);
    net_run(net, 20 * NET_SECOND);
    return net;
}

static struct settings_text text(const char *literal)
{
    return (struct settings_text){.data = literal, .len = strlen(literal)};
}

static struct hash128 edit_id(uint64_t id)
{
    return (struct hash128){.lo = id, .hi = 77};
}

static void edit(struct net *net, uint32_t at, uint64_t id, const char *name)
{
    const struct control_edit_request request = {
        .id = edit_id(id),
        .kind = SETTINGS_POOL,
        .based_on = SETTINGS_ANY,
        .name = text(name),
        .value = text("x"),
        .author = text("ada"),
        .note = text(""),
    };
    assert_int_equal(control_edit(net->nodes[at].control, net->now_ns, &request), 0);
}

static enum settings_edit_state outcome(const struct net *net, uint32_t at, uint64_t id)
{
    const struct settings_edit *found = control_edit_find(net->nodes[at].control, edit_id(id));
    assert_non_null(found);
    return found->state;
}

static const struct settings_entry *record(const struct net *net, uint32_t at, uint32_t kind,
                                           const char *name)
{
    const struct settings_text wanted = text(name);
    return settings_current(net->nodes[at].control->settings, kind, &wanted);
}

/* How many voters of the settings are of the region. */
static uint32_t voters_of(const struct net *net, const char *region)
{
    const struct register_voters *voters = &net->nodes[0].control->settings->voters;
    uint32_t count = 0;
    for (uint32_t i = 0; i < voters->count; i++)
        for (uint32_t at = 0; at < net->count; at++)
            count += net->nodes[at].options.node_id == voters->ids[i] &&
                     strcmp(net->nodes[at].options.region, region) == 0;
    return count;
}

/* Nothing of it is to be seen before there is a second one. */
static void a_cluster_of_one_region_has_no_record_of_it(void **state)
{
    struct net *net = net_cluster(3);
    (void)state;
    assert_null(record(net, 0, SETTINGS_REGION, "r1"));
    assert_int_equal(net->nodes[0].control->settings->table.count, 0);
    net_free(net);
}

/* FOUNDING-1, FOUNDING-2: each region has a ring of its own members, and all know each other. */
static void each_region_has_a_ring_of_its_own(void **state)
{
    struct net *net = three_regions(2);
    (void)state;
    for (uint32_t at = 0; at < 6; at++) {
        assert_true(net_has_ring(net, at, 9U << at % 3));
        assert_memory_equal(net->nodes[at].identity.cluster_id, net->nodes[0].identity.cluster_id,
                            CONTROL_CLUSTER_ID_LEN);
        struct view *view = control_view(net->nodes[at].control);
        assert_non_null(view);
        assert_int_equal(view->member_count, 6);
        for (uint32_t i = 0; i < 6; i++)
            assert_int_equal(view_is_remote(view, &view->members[i]), i % 3 != at % 3);
        view_free(&view);
    }
    net_free(net);
}

/* FOUNDING-2, FOUNDING-3: every region has a record, which names nobody as its founder when there
 * is a ring; FOUNDING-7: it is known then that there is. */
static void every_region_is_in_the_settings(void **state)
{
    static const uint8_t nobody[] = {0x92, 1, 0};
    static const char *const names[] = {"ap", "eu", "us"};
    struct net *net = three_regions(1);
    (void)state;
    for (uint32_t at = 0; at < 3; at++) {
        struct view *view = control_view(net->nodes[at].control);
        assert_int_equal(view->regions.count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_non_null(record(net, at, SETTINGS_REGION, names[i]));
            assert_memory_equal(record(net, at, SETTINGS_REGION, names[i])->value.data, nobody, 3);
            assert_string_equal(view->regions.names[i], names[i]);
        }
        view_free(&view);
    }
    net_free(net);
}

/* Nodes of a new region that are started at once, each by another seed, found one ring. */
static void nodes_started_at_once_found_one_ring(void **state)
{
    struct net *net = net_new();
    (void)state;
    (void)start(net, 50, "eu", 0);
    (void)start(net, 51, "eu", 0);
    net_run(net, 5 * NET_SECOND);
    for (uint32_t i = 0; i < 5; i++)
        (void)start(net, 10 + i, "us", i % 2);
    net_run(net, 15 * NET_SECOND);
    for (uint32_t at = 0; at < net->count; at++)
        assert_true(net_has_ring(net, at, at < 2 ? 3 : 124));
    net_free(net);
}

/* FOUNDING-2: the founder may end between its record and its ring; nobody else founds in its
 * place. */
static void a_founder_that_restarts_founds_the_ring(void **state)
{
    struct net *net = net_new();
    (void)state;
    (void)start(net, 1, "eu", 0);
    net_run(net, 2 * NET_SECOND);
    const uint32_t founder = start(net, 5, "us", 0);
    for (uint32_t i = 0; i < 1000 && record(net, founder, SETTINGS_REGION, "us") == NULL; i++)
        net_run(net, net->step_ns);
    assert_non_null(record(net, founder, SETTINGS_REGION, "us"));
    assert_int_equal(net_config(net, founder)->epoch, 0);
    net_stop(net, founder);
    const uint32_t other = start(net, 3, "us", 0);
    net_run(net, 20 * NET_SECOND);
    assert_int_equal(net_config(net, other)->epoch, 0);
    net_restart(net, founder);
    net_run(net, 10 * NET_SECOND);
    assert_true(net_has_ring(net, founder, 6) && net_has_ring(net, other, 6));
    assert_true(net_has_ring(net, 0, 1));
    net_free(net);
}

/* FOUNDING-3: a node whose region is out of reach waits for it, whatever seeds it has. */
static void nobody_founds_a_region_that_is_out_of_reach(void **state)
{
    struct net *net = three_regions(2);
    char waits[200];
    (void)state;
    net_stop(net, 0);
    net_stop(net, 3);
    net_run(net, 40 * NET_SECOND);
    const uint32_t newcomer = start(net, 70, "eu", 1);
    net_run(net, 20 * NET_SECOND);
    assert_true(net->nodes[newcomer].control->joined);
    assert_int_equal(net_config(net, newcomer)->epoch, 0);
    control_region_say(net->nodes[newcomer].control, waits, sizeof waits);
    assert_string_equal(waits, "region eu has no ring here yet: none of its members is known to "
                               "live");
    net_restart(net, 0);
    net_restart(net, 3);
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, newcomer, 1 | 8 | 64));
    net_free(net);
}

/* FOUNDING-1: what another region says of its ring changes nothing, and is counted. */
static void what_is_said_of_another_ring_is_ignored(void **state)
{
    struct net *net = three_regions(1);
    const uint64_t epoch = net_config(net, 0)->epoch;
    struct join_message message = {.type = JOIN_CONFIG, .sender = 2};
    (void)state;
    net->nodes[1].config_len = 0; /* told by the test, not by the node */
    ring_config_copy(net->nodes[1].control->next, net_config(net, 1));
    net->nodes[1].control->next->epoch = epoch + 9;
    uint8_t *bytes = net->nodes[1].control->bytes;
    const int len = ring_config_encode(net->nodes[1].control->next, bytes, CONTROL_CONFIG_LEN_MAX);
    assert_true(len > 0);
    message.config = bytes;
    message.config_len = (size_t)len;
    memcpy(message.cluster_id, net->nodes[0].identity.cluster_id, CONTROL_CLUSTER_ID_LEN);
    (void)snprintf(message.region, sizeof message.region, "us");
    net_tell_join(net, 0, &message);
    message.region[0] = '\0'; /* as gossip knows the sender */
    net_tell_join(net, 0, &message);
    assert_int_equal(net_config(net, 0)->epoch, epoch);
    assert_int_equal(net->nodes[0].control->strays, 2);
    (void)snprintf(message.region, sizeof message.region, "eu");
    net_tell_join(net, 0, &message); /* of this one it is heard, though it proves nothing alone */
    assert_int_equal(net->nodes[0].control->strays, 2);
    assert_true(net->nodes[0].control->proof.until_ns > net->now_ns);
    net_free(net);
}

/* A node that joined through another region has no ring until it founds one, or hears of it. */
static void who_has_no_ring_yet_tells_none(void **state)
{
    struct net *net = net_new();
    struct join_message message = {.type = JOIN_FETCH, .sender = 9};
    (void)state;
    (void)start(net, 1, "eu", 0);
    net_run(net, 20 * NET_SECOND);
    const uint32_t newcomer = start(net, 2, "us", 0);
    for (uint32_t i = 0; i < 2000 && !net->nodes[newcomer].joined; i++)
        net_run(net, NET_SECOND / 100);
    assert_int_equal(net->nodes[newcomer].joined, 1);
    assert_int_equal(net_config(net, newcomer)->epoch, 0);
    memcpy(message.cluster_id, net->nodes[newcomer].identity.cluster_id, CONTROL_CLUSTER_ID_LEN);
    memcpy(message.address, net->nodes[0].options.gossip, sizeof message.address);
    (void)snprintf(message.region, sizeof message.region, "us");
    const uint32_t told = net->told[JOIN_CONFIG];
    net_tell_join(net, newcomer, &message);
    assert_int_equal(net->told[JOIN_CONFIG], told);
    net_free(net);
}

/* VOTERS-3: no region that is lost takes the majority with it. */
static void voters_of_the_settings_are_spread_over_regions(void **state)
{
    struct net *net = net_new();
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        (void)start(net, i + 1, "eu", 0);
    net_run(net, 10 * NET_SECOND);
    assert_int_equal(voters_of(net, "eu"), 3);
    for (uint32_t i = 3; i < 9; i++)
        (void)start(net, i + 1, i < 6 ? "us" : "ap", 0);
    net_run(net, 30 * NET_SECOND);
    assert_int_equal(net->nodes[0].control->settings->voters.count, 5);
    assert_in_range(voters_of(net, "eu"), 1, 2);
    assert_in_range(voters_of(net, "us"), 1, 2);
    assert_in_range(voters_of(net, "ap"), 1, 2);
    const uint64_t version = net->nodes[0].control->settings->version;
    net_run(net, 60 * NET_SECOND);
    assert_int_equal(net->nodes[0].control->settings->version, version); /* VOTERS-1: it stays */
    net_free(net);
}

/* One history: an edit at one region is decided once and is there in all. */
static void an_edit_at_one_region_reaches_all(void **state)
{
    struct net *net = three_regions(2);
    (void)state;
    for (uint32_t at = 0; at < 6; at++) {
        const char name[] = {(char)('a' + at), '\0'};
        edit(net, at, at + 1, name);
    }
    net_run(net, 3 * NET_SECOND);
    for (uint32_t at = 0; at < 6; at++) {
        assert_int_equal(outcome(net, at, at + 1), SETTINGS_EDIT_DONE);
        for (uint32_t other = 0; other < 6; other++) {
            const char name[] = {(char)('a' + other), '\0'};
            assert_non_null(record(net, at, SETTINGS_POOL, name));
        }
    }
    net_free(net);
}

/* The side without a majority is read-only and says so; its ring goes on changing all the same. */
static void a_region_that_is_cut_off_keeps_its_ring_and_catches_up(void **state)
{
    struct net *net = three_regions(2);
    (void)state;
    net->nodes[1].side = 1;
    net->nodes[4].side = 1;
    net_run(net, 30 * NET_SECOND);
    edit(net, 0, 1, "there");
    edit(net, 1, 2, "here");
    (void)start(net, 40, "us", 1);
    net->nodes[6].side = 1;
    net_run(net, 20 * NET_SECOND);
    assert_int_equal(outcome(net, 0, 1), SETTINGS_EDIT_DONE);
    assert_int_equal(outcome(net, 1, 2), SETTINGS_EDIT_UNAVAILABLE);
    assert_non_null(strstr(control_edit_find(net->nodes[1].control, edit_id(2))->sentence,
                           "cannot be reached"));
    assert_null(record(net, 1, SETTINGS_POOL, "there"));
    assert_true(net_has_ring(net, 1, 2 | 16 | 64));
    for (uint32_t at = 0; at < net->count; at++)
        net->nodes[at].side = 0;
    net_run(net, 10 * NET_SECOND);
    for (uint32_t at = 0; at < net->count; at++) {
        assert_non_null(record(net, at, SETTINGS_POOL, "there"));
        assert_null(record(net, at, SETTINGS_POOL, "here"));
    }
    net_free(net);
}

/* Each region removes its own: elsewhere nobody knows who would take over. */
static void a_member_is_removed_by_its_own_region(void **state)
{
    struct net *net = three_regions(2);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    net_stop(net, 4);
    net_run(net, 30 * NET_SECOND);
    for (uint32_t force = 0; force < 2; force++) {
        assert_int_equal(
            control_remove(net->nodes[0].control, net->now_ns, 5, "n5", force == 1, sentence),
            TG_ECONFLICT);
        assert_string_equal(sentence, "n5 is of region us: ask a node of that region to remove it");
    }
    assert_int_equal(control_remove(net->nodes[1].control, net->now_ns, 5, "n5", false, sentence),
                     0);
    net_run(net, 3 * NET_SECOND);
    assert_true(net_has_ring(net, 1, 2));
    net_free(net);
}

/* SETTINGS-7: an operator may go on without regions that are lost for good. */
static void force_goes_on_without_regions_that_are_lost(void **state)
{
    struct net *net = three_regions(2);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    for (uint32_t at = 0; at < 6; at++)
        if (at % 3 != 1)
            net_stop(net, at);
    net_run(net, 40 * NET_SECOND);
    struct control *control = net->nodes[1].control;
    assert_true(control_settings_frozen(control));
    assert_false(voters_frozen(control));
    const uint64_t epoch = control->config->epoch;
    assert_int_equal(control_remove(control, net->now_ns, 1, "n1", true, sentence), 0);
    net_run(net, 3 * NET_SECOND);
    edit(net, 4, 1, "on");
    net_run(net, 3 * NET_SECOND);
    assert_int_equal(outcome(net, 4, 1), SETTINGS_EDIT_DONE);
    assert_int_equal(control->config->epoch, epoch); /* its ring was not frozen */
    net_restart(net, 0);
    net_run(net, 10 * NET_SECOND);
    assert_non_null(record(net, 0, SETTINGS_POOL, "on"));
    net_free(net);
}

/* The member says, as a release without regions would, that it knows of none. */
static void pretend_older(struct net *net, uint32_t at, int64_t ns)
{
    struct swim *swim = net->nodes[at].control->swim;
    for (const int64_t end_ns = net->now_ns + ns; net->now_ns < end_ns;) {
        struct swim_record record = swim_self(swim)->record;
        record.flags &= ~(uint32_t)CONTROL_FLAG_REGIONS;
        assert_int_equal(swim_update_self(swim, &record), 0);
        net_run(net, net->step_ns);
    }
}

/* FOUNDING-4: an older release would take members of any region into its ring. */
static void no_region_is_founded_beside_an_older_release(void **state)
{
    struct net *net = net_new();
    (void)state;
    (void)start(net, 1, "eu", 0);
    (void)start(net, 2, "eu", 0);
    net_run(net, 5 * NET_SECOND);
    pretend_older(net, 1, 5 * NET_SECOND);
    const uint32_t by_newer = start(net, 3, "us", 0);
    const uint32_t by_older = start(net, 4, "us", 1);
    pretend_older(net, 1, 10 * NET_SECOND);
    assert_false(net->nodes[by_newer].control->joined);
    assert_false(net->nodes[by_older].control->joined);
    control_tell_self(net->nodes[1].control); /* it is upgraded */
    net_run(net, 15 * NET_SECOND);
    assert_true(net_has_ring(net, by_newer, 12) && net_has_ring(net, by_older, 12));
    assert_true(net_has_ring(net, 0, 3) && net_has_ring(net, 1, 3));
    net_free(net);
}

/* How many members of the region the node takes for there, whatever became of them. */
static uint32_t members_of(const struct net *net, uint32_t at, const char *region)
{
    const struct swim_region *known = control_region_find(net->nodes[at].control, region);
    return known == NULL ? 0
                         : known->members[SWIM_ALIVE] + known->members[SWIM_SUSPECT] +
                               known->members[SWIM_DEAD];
}

static int remove_region(struct net *net, uint32_t at, const char *name, bool force,
                         char sentence[CONTROL_SENTENCE_LEN])
{
    return control_region_remove(net->nodes[at].control, net->now_ns, name, NULL, force, sentence);
}

/* Nodes 2 and 5 end, and are out of reach for the others. */
static void lose_us(struct net *net)
{
    net_stop(net, 1);
    net_stop(net, 4);
    net_run(net, 15 * NET_SECOND);
}

/* FOUNDING-6: its record goes, and with it what gossip says of it for ever. */
static void a_region_that_is_gone_is_removed(void **state)
{
    static const uint32_t others[] = {0, 2, 3, 5};
    struct net *net = three_regions(2);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    lose_us(net);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(members_of(net, others[i], "us"), 2);
    assert_int_equal(remove_region(net, 0, "us", false, sentence), 0);
    assert_false(control_region_gone(net->nodes[0].control, "us"));
    net_run(net, 3 * NET_SECOND);
    assert_true(control_region_gone(net->nodes[0].control, "us"));
    assert_int_equal(remove_region(net, 0, "us", false, sentence), 0); /* asked again */
    for (uint32_t i = 0; i < 4; i++) {
        struct view *view = control_view(net->nodes[others[i]].control);
        assert_null(record(net, others[i], SETTINGS_REGION, "us"));
        assert_int_equal(members_of(net, others[i], "us"), 0);
        assert_int_equal(view->regions.count, 2);
        view_free(&view);
    }
    assert_int_equal(voters_of(net, "us"), 0);
    net_free(net);
}

/* FOUNDING-6: a region that lives would come back by itself; and nobody removes his own. */
static void a_region_that_answers_is_not_removed(void **state)
{
    struct net *net = three_regions(2);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    net_stop(net, 1);
    net_run(net, 30 * NET_SECOND);
    for (uint32_t force = 0; force < 2; force++) {
        assert_int_equal(remove_region(net, 0, "us", force == 1, sentence), TG_ECONFLICT);
        assert_string_equal(sentence, "n5 of region us answered less than ten seconds ago: end all "
                                      "of its nodes first; a region that lives would come back by "
                                      "itself");
        assert_int_equal(remove_region(net, 0, "eu", force == 1, sentence), TG_ECONFLICT);
        assert_string_equal(sentence, "eu is the region of the node that was asked: another region "
                                      "removes it");
    }
    net_run(net, 3 * NET_SECOND);
    assert_non_null(record(net, 0, SETTINGS_REGION, "us"));
    net_free(net);
}

/* A rule or a pool that names it would have no home. */
static void a_region_that_rules_name_is_removed_by_force_alone(void **state)
{
    static const char *const texts[] = {
        "rules: [{name: pay, key: [user], scope: global, home: us, limits: [{rate: 1/h}]}]",
        "{pools: {spare: {rate: 1/s, scope: global, home: us}}, rules: []}"};
    static const char *const said[] = {"rule pay names us as the home of its keys",
                                       "pool spare names us as the home"};
    struct net *net = three_regions(2);
    struct control *control = net->nodes[0].control;
    struct policy *policy;
    struct policy_error place;
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    lose_us(net);
    for (size_t i = 0; i < 2; i++) {
        const char *text = texts[1 - i];
        assert_int_equal(policy_compile(text, strlen(text), alloc_heap(), &policy, &place), 0);
        assert_int_equal(control_region_remove(control, net->now_ns, "us", policy, false, sentence),
                         TG_ECONFLICT);
        assert_non_null(strstr(sentence, said[1 - i]));
        if (i == 0)
            policy_free(&policy);
    }
    assert_int_equal(control_region_remove(control, net->now_ns, "us", policy, true, sentence), 0);
    net_run(net, 3 * NET_SECOND);
    assert_true(control_region_gone(control, "us"));
    policy_free(&policy);
    net_free(net);
}

/* SETTINGS-7, FOUNDING-6: whose voters are lost with it is removed by those that live, if an
 * operator says so. */
static void force_removes_a_region_that_the_majority_was_lost_with(void **state)
{
    struct net *net = three_regions(2);
    struct control *control = net->nodes[1].control;
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    for (uint32_t at = 0; at < 6; at++)
        if (at % 3 != 1)
            net_stop(net, at);
    net_run(net, 15 * NET_SECOND);
    const uint64_t epoch = control->config->epoch;
    assert_int_equal(remove_region(net, 1, "eu", false, sentence), TG_ECONFLICT);
    assert_non_null(strstr(sentence, "go on alone with --force"));
    for (uint32_t i = 0; i < 2; i++) { /* a new lineage, and then the record */
        assert_int_equal(remove_region(net, 1, "eu", true, sentence), 0);
        net_run(net, 3 * NET_SECOND);
    }
    assert_true(control_region_gone(control, "eu"));
    assert_int_equal(remove_region(net, 4, "ap", false, sentence), 0); /* not frozen any more */
    net_run(net, 3 * NET_SECOND);
    assert_true(control_region_gone(control, "ap"));
    assert_int_equal(control->config->epoch, epoch); /* nor was its ring */
    net_free(net);
}

/* FOUNDING-3, FOUNDING-6: a region that was only cut off has its ring still, and is there again. */
static void a_removed_region_that_comes_back_goes_on(void **state)
{
    struct net *net = three_regions(2);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    const uint64_t epoch = net_config(net, 1)->epoch;
    net->nodes[1].side = 1;
    net->nodes[4].side = 1;
    net_run(net, 15 * NET_SECOND);
    assert_int_equal(remove_region(net, 0, "us", false, sentence), 0);
    net_run(net, 5 * NET_SECOND);
    assert_int_equal(members_of(net, 0, "us"), 0);
    net->nodes[1].side = 0;
    net->nodes[4].side = 0;
    net_run(net, 20 * NET_SECOND);
    for (uint32_t at = 0; at < 6; at++) {
        assert_non_null(record(net, at, SETTINGS_REGION, "us"));
        assert_int_equal(members_of(net, at, "us"), 2);
    }
    assert_true(net_has_ring(net, 1, 2 | 16));
    assert_int_equal(net_config(net, 1)->epoch, epoch);
    net_free(net);
}

/* FOUNDING-2: and one that has lost all of its disks begins anew under its name; what is left of
 * the old one is taken in. */
static void a_region_begins_anew_under_its_old_name(void **state)
{
    struct net *net = three_regions(2);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    lose_us(net);
    const uint32_t fresh = start(net, 40, "us", 0);
    net_run(net, 20 * NET_SECOND);
    assert_int_equal(net_config(net, fresh)->epoch, 0);                /* FOUNDING-3 */
    assert_int_equal(remove_region(net, 0, "us", false, sentence), 0); /* it has no ring */
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, fresh, 64));
    net_restart(net, 1);
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, fresh, 64 | 2) && net_has_ring(net, 1, 64 | 2));
    net_free(net);
}

/* Region us has a record that names n5, which ended before it had a ring, and n3, n4 wait for it.
 */
static struct net *without_founder(uint32_t *founder, uint32_t waiting[2])
{
    struct net *net = net_new();
    (void)start(net, 1, "eu", 0);
    net_run(net, 2 * NET_SECOND);
    *founder = start(net, 5, "us", 0);
    for (uint32_t i = 0; i < 1000 && record(net, *founder, SETTINGS_REGION, "us") == NULL; i++)
        net_run(net, net->step_ns);
    net_stop(net, *founder);
    waiting[0] = start(net, 3, "us", 0);
    waiting[1] = start(net, 4, "us", 0);
    net_run(net, 40 * NET_SECOND);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(net_config(net, waiting[i])->epoch, 0);
    return net;
}

/* FOUNDING-2: after as long as a dead member stays in a ring. */
static void a_founder_that_is_lost_is_replaced(void **state)
{
    uint32_t founder;
    uint32_t waiting[2];
    struct net *net = without_founder(&founder, waiting);
    (void)state;
    net_run(net, CONTROL_FORGET_NS - 45 * NET_SECOND);
    assert_int_equal(net_config(net, waiting[0])->epoch, 0);
    net_run(net, 30 * NET_SECOND);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(net_has_ring(net, waiting[i], 4 | 8));
    net_restart(net, founder);
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, founder, 2 | 4 | 8));
    net_free(net);
}

/* FOUNDING-2: or at once, if an operator removes it; by any node that waits. */
static void an_operator_replaces_a_founder(void **state)
{
    uint32_t founder;
    uint32_t waiting[2];
    struct net *net = without_founder(&founder, waiting);
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    struct control *control = net->nodes[waiting[1]].control;
    assert_int_equal(control_remove(control, net->now_ns, 3, "n3", false, sentence),
                     TG_EUNAVAILABLE); /* it founds nothing */
    assert_int_equal(control_remove(control, net->now_ns, 5, "n5", false, sentence), 0);
    net_run(net, 10 * NET_SECOND);
    assert_int_equal(control_remove(control, net->now_ns, 5, "n5", false, sentence), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(net_has_ring(net, waiting[i], 4 | 8));
    net_free(net);
}

/* FOUNDING-2: a ring that had come about unheard of gives way to the newer one. */
static void a_ring_that_nobody_heard_of_gives_way(void **state)
{
    struct net *net = net_new();
    char sentence[CONTROL_SENTENCE_LEN];
    (void)state;
    (void)start(net, 1, "eu", 0);
    net_run(net, 2 * NET_SECOND);
    const uint32_t founder = start(net, 5, "us", 0);
    for (uint32_t i = 0; i < 1000 && record(net, founder, SETTINGS_REGION, "us") == NULL; i++)
        net_run(net, net->step_ns);
    net->nodes[founder].side = 1;
    net_run(net, 2 * NET_SECOND);
    assert_true(net_has_ring(net, founder, 2));
    net_stop(net, founder);
    const uint32_t other = start(net, 3, "us", 0);
    net_run(net, 40 * NET_SECOND);
    struct control *control = net->nodes[other].control;
    assert_int_equal(control_remove(control, net->now_ns, 5, "n5", false, sentence), 0);
    net_run(net, 10 * NET_SECOND);
    assert_true(net_has_ring(net, other, 4));
    net_restart(net, founder);
    net->nodes[founder].side = 0;
    net_run(net, 20 * NET_SECOND);
    assert_true(net_has_ring(net, other, 2 | 4) && net_has_ring(net, founder, 2 | 4));
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_of_one_region_has_no_record_of_it),
        cmocka_unit_test(each_region_has_a_ring_of_its_own),
        cmocka_unit_test(every_region_is_in_the_settings),
        cmocka_unit_test(nodes_started_at_once_found_one_ring),
        cmocka_unit_test(a_founder_that_restarts_founds_the_ring),
        cmocka_unit_test(nobody_founds_a_region_that_is_out_of_reach),
        cmocka_unit_test(what_is_said_of_another_ring_is_ignored),
        cmocka_unit_test(voters_of_the_settings_are_spread_over_regions),
        cmocka_unit_test(an_edit_at_one_region_reaches_all),
        cmocka_unit_test(a_region_that_is_cut_off_keeps_its_ring_and_catches_up),
        cmocka_unit_test(a_member_is_removed_by_its_own_region),
        cmocka_unit_test(force_goes_on_without_regions_that_are_lost),
        cmocka_unit_test(no_region_is_founded_beside_an_older_release),
        cmocka_unit_test(a_region_that_is_gone_is_removed),
        cmocka_unit_test(a_region_that_answers_is_not_removed),
        cmocka_unit_test(a_region_that_rules_name_is_removed_by_force_alone),
        cmocka_unit_test(force_removes_a_region_that_the_majority_was_lost_with),
        cmocka_unit_test(a_removed_region_that_comes_back_goes_on),
        cmocka_unit_test(a_region_begins_anew_under_its_old_name),
        cmocka_unit_test(a_founder_that_is_lost_is_replaced),
        cmocka_unit_test(an_operator_replaces_a_founder),
        cmocka_unit_test(a_ring_that_nobody_heard_of_gives_way),
        cmocka_unit_test(who_has_no_ring_yet_tells_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

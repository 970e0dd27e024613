/* test_view.c - a view sorts its members, merges both rings of a transition and finds by id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cluster/model/view.h"

enum { VNODES = 64, MEMBERS = 4 };

/* Static, since a configuration is too large for a stack. */
static struct ring_config stable;   /* nodes 10, 20, 30, 40 */
static struct ring_config changing; /* node 50 comes */
static struct ring_config replaced; /* from 10, 20, 30, 40 to 50, 60, 70 */

static struct ring_member make(uint64_t id)
{
    struct ring_member member;
    char name[RING_NAME_LEN];

    (void)snprintf(name, sizeof name, "node%u", (unsigned)id);
    assert_int_equal(ring_member_init(&member, id, name, "", 100), 0);
    return member;
}

static int make_configurations(void **state)
{
    static struct ring_config scratch;
    const struct ring_member first = make(10);

    (void)state;
    assert_int_equal(ring_config_init(&stable, &first, VNODES, 3), 0);
    for (uint64_t id = 20; id <= 40; id += 10) {
        const struct ring_member next = make(id);
        assert_int_equal(ring_config_add(&scratch, &stable, &next), 0);
        assert_int_equal(ring_config_settle(&stable, &scratch), 0);
    }
    const struct ring_member fifth = make(50);
    assert_int_equal(ring_config_add(&changing, &stable, &fifth), 0);
    ring_config_copy(&replaced, &stable);
    replaced.to_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        replaced.to[i] = make(50 + 10 * i);
    return 0;
}

/* Nodes 10, 20, 30, 40, 50 as gossip lists them: in no order. */
static void make_members(struct view_member members[5])
{
    static const uint64_t ids[5] = {30, 10, 50, 20, 40};

    memset(members, 0, 5 * sizeof *members);
    for (uint32_t i = 0; i < 5; i++) {
        members[i].id = ids[i];
        (void)snprintf(members[i].name, sizeof members[i].name, "node%u", (unsigned)ids[i]);
    }
}

static struct view *make_view(const struct ring_config *config, uint64_t self)
{
    struct view_member members[5];
    struct view *view;

    make_members(members);
    assert_int_equal(view_new(alloc_heap(), 7, members, 5, self, config, &view), 0);
    return view;
}

/* VIEW-1: readers search by halves, and find this node by its index. */
static void members_are_sorted_by_id_and_self_is_this_node(void **state)
{
    struct view *view = make_view(&stable, 30);

    (void)state;
    assert_int_equal(view->member_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(view->members[i].id, 10 * (i + 1));
        assert_int_equal(strtol(view->members[i].name + 4, NULL, 10), 10 * (i + 1));
    }
    assert_int_equal(view->self, 2);
    assert_int_equal(view->version, 7);
    assert_int_equal(view->epoch, stable.epoch);
    assert_int_equal(view->vnodes, VNODES);
    assert_int_equal(view->replicas, 3);
    assert_true(view->stable);
    view_free(&view);
    assert_null(view);
    view_free(&view); /* a shard that has no view yet may free it as well */
}

/* A view owns its members: gossip goes on changing its own. */
static void a_view_copies_its_members(void **state)
{
    struct view_member members[5];
    struct view *view;

    (void)state;
    make_members(members);
    assert_int_equal(view_new(alloc_heap(), 1, members, 5, 10, &stable, &view), 0);
    memset(members, 0xff, sizeof members);
    assert_int_equal(view->members[4].id, 50);
    assert_string_equal(view->members[4].name, "node50");
    view_free(&view);
}

/* Members come and go under one configuration: the ring of the view before serves again, also when
 * that one is gone, and in a transition as well. */
static void a_view_of_other_members_keeps_the_ring(void **state)
{
    const struct ring_config *const configs[] = {&stable, &changing};
    struct view_member members[5];

    (void)state;
    make_members(members);
    for (uint32_t c = 0; c < 2; c++) {
        struct view *before = make_view(configs[c], 10);
        struct view *same = make_view(configs[c], 10);
        struct view *view;
        members[0].state = VIEW_DEAD;
        assert_int_equal(view_again(alloc_heap(), 8, members, 4, 50, before, &view), 0);
        view_free(&before);
        assert_int_equal(view->version, 8);
        assert_int_equal(view->epoch, configs[c]->epoch);
        assert_int_equal(view->vnodes, VNODES);
        assert_int_equal(view->replicas, 3);
        assert_int_equal(view->stable, same->stable);
        assert_int_equal(view->member_count, 4);
        assert_int_equal(view->members[view->self].id, 50);
        assert_int_equal(view_find(view, 30)->state, VIEW_DEAD);
        for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
            uint64_t expected[VIEW_REPLICAS_MAX];
            uint64_t found[VIEW_REPLICAS_MAX];
            const uint32_t count = view_replica_set(same, vnode, expected);
            assert_int_equal(view_replica_set(view, vnode, found), count);
            assert_memory_equal(found, expected, count * sizeof *found);
        }
        view_free(&view);
        assert_int_equal(view_again(alloc_heap(), 9, members, 4, 99, same, &view), TG_EINVALID);
        assert_null(view);
        view_free(&same);
    }
}

/* VIEW-1: a view without this node would make `self` point at another one. */
static void a_view_without_this_node_is_refused(void **state)
{
    struct view_member members[5];
    struct alloc_failing failing;
    struct view *view = (struct view *)members;

    (void)state;
    alloc_failing_init(&failing, 0);
    make_members(members);
    assert_int_equal(view_new(&failing.allocator, 1, members, 5, 99, &stable, &view), TG_EINVALID);
    assert_null(view);
    assert_int_equal(view_new(&failing.allocator, 1, members, 0, 10, &stable, &view), TG_EINVALID);
    assert_null(view);
    assert_int_equal(failing.bytes_live, 0);
}

/* Every member is found, the first and the last too, and nothing between or beyond them. */
static void a_member_is_found_by_its_id_and_no_other_id_is(void **state)
{
    struct view *view = make_view(&stable, 10);

    (void)state;
    for (uint64_t id = 0; id <= 60; id++) {
        const struct view_member *member = view_find(view, id);
        if (id == 0 || id == 60 || id % 10 != 0)
            assert_null(member);
        else
            assert_int_equal(member->id, id);
    }
    assert_null(view_find(view, UINT64_MAX));
    view_free(&view);
}

/* When nothing moves, the replica set is the ring's list, owner first. */
static void a_stable_replica_set_is_the_list_of_the_ring(void **state)
{
    struct view *view = make_view(&stable, 10);
    uint64_t ids[VIEW_REPLICAS_MAX];

    (void)state;
    for (uint32_t vnode = 0; vnode < VNODES; vnode++) {
        uint32_t count;
        const uint16_t *list = ring_replicas(&view->to, vnode, &count);
        assert_int_equal(count, 3);
        assert_int_equal(view_replica_set(view, vnode, ids), count);
        for (uint32_t i = 0; i < count; i++)
            assert_true(ids[i] == ring_member_id(&view->to, list[i]));
        assert_true(ids[0] == ring_owner_id(&view->to, vnode));
    }
    view_free(&view);
}

static int position_of(const uint64_t *ids, uint32_t count, uint64_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return (int)i;
    return -1;
}

/* Compares the replica set of `vnode` with the sentence of VIEW-2; returns its size. */
static uint32_t assert_merged(const struct view *view, uint32_t vnode)
{
    uint64_t ids[VIEW_REPLICAS_MAX];
    uint32_t to_count;
    uint32_t from_count;
    const uint32_t count = view_replica_set(view, vnode, ids);
    const uint16_t *to = ring_replicas(&view->to, vnode, &to_count);
    const uint16_t *from = ring_replicas(&view->from, vnode, &from_count);
    int last = (int)to_count - 1;

    assert_in_range(count, to_count, VIEW_REPLICAS_MAX);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(position_of(ids, count, ids[i]), i); /* no repeats */
    for (uint32_t i = 0; i < to_count; i++)
        assert_true(ids[i] == ring_member_id(&view->to, to[i]));
    for (uint32_t i = 0; i < from_count; i++) {
        const int at = position_of(ids, count, ring_member_id(&view->from, from[i]));
        assert_true(at >= 0);
        if (at >= (int)to_count) {
            assert_int_equal(at, last + 1); /* those of `from` follow in their order */
            last = at;
        }
    }
    assert_int_equal(last + 1, (int)count); /* and nobody else */
    return count;
}

/* VIEW-2: while a node comes, the new replicas are preferred and the old ones still counted. */
static void a_replica_set_in_a_transition_lists_the_new_and_then_the_old_ones(void **state)
{
    struct view *view = make_view(&changing, 50);
    uint32_t grown = 0;

    (void)state;
    assert_false(view->stable);
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        grown += assert_merged(view, vnode) > 3;
    assert_in_range(grown, 1, VNODES - 1); /* some move, some stay */
    view_free(&view);
}

/* VIEW-2: with no node in common the set is as large as it can be, and still bounded. */
static void a_replica_set_of_two_disjoint_rings_is_full(void **state)
{
    struct view *view = make_view(&replaced, 10);

    (void)state;
    for (uint32_t vnode = 0; vnode < VNODES; vnode++)
        assert_int_equal(assert_merged(view, vnode), VIEW_REPLICAS_MAX);
    view_free(&view);
}

/* The shares shown to operators add up to the whole ring, of the newest configuration. */
static void owned_vnodes_add_up_to_all_of_them(void **state)
{
    struct view *view = make_view(&replaced, 10);
    uint32_t sum = 0;

    (void)state;
    for (uint64_t id = 50; id <= 70; id += 10) {
        uint32_t owned = 0;
        for (uint32_t vnode = 0; vnode < VNODES; vnode++)
            owned += ring_owner_id(&view->to, vnode) == id;
        assert_int_equal(view_owned(view, id), owned);
        sum += owned;
    }
    assert_int_equal(sum, VNODES);
    assert_int_equal(view_owned(view, 10), 0); /* a member of `from` alone */
    assert_int_equal(view_owned(view, 99), 0);
    view_free(&view);
}

/* Makes a view, of its own or like another one, while the first request for memory fails, then the
 * second and so on; which request was the first that no view needed. */
static size_t fail_each_request(const struct view *like)
{
    struct view_member members[5];
    size_t fail_at = 0;
    int error = TG_ENOMEM;

    make_members(members);
    while (error == TG_ENOMEM) {
        struct alloc_failing failing;
        struct view *view;
        alloc_failing_init(&failing, ++fail_at);
        error = like == NULL ? view_new(&failing.allocator, 1, members, 5, 10, &changing, &view)
                             : view_again(&failing.allocator, 1, members, 5, 10, like, &view);
        assert_true((view != NULL) == (error == 0));
        view_free(&view);
        assert_int_equal(failing.bytes_live, 0);
    }
    assert_int_equal(error, 0);
    return fail_at;
}

/* Views are made while nodes run, so lack of memory is an error and never a leak. */
static void a_failing_allocator_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    /* the view, its members, two tables of four arrays, the last */
    assert_true(fail_each_request(NULL) > 10);
}

/* The same of views that take the ring of another. */
static void lack_of_memory_for_a_view_like_another_leaks_nothing(void **state)
{
    struct view *before = make_view(&changing, 10);

    (void)state;
    assert_int_equal(fail_each_request(before),
                     11); /* the view, its members, two tables of four arrays */
    view_free(&before);
}

/* Every shard has a port of its own, computed alike by all nodes; an IPv6 host keeps brackets. */
static void the_endpoint_of_a_shard_is_some_ports_further_on(void **state)
{
    char out[VIEW_TEXT_LEN];

    (void)state;
    assert_int_equal(view_shard_endpoint("10.0.0.1:7000", 0, out), 0);
    assert_string_equal(out, "10.0.0.1:7000");
    assert_int_equal(view_shard_endpoint("host.example:7001", 3, out), 0);
    assert_string_equal(out, "host.example:7031");
    assert_int_equal(view_shard_endpoint("[fe80::1:2]:7000", 15, out), 0);
    assert_string_equal(out, "[fe80::1:2]:7150");
    assert_int_equal(view_shard_endpoint("a:65525", 1, out), 0);
    assert_string_equal(out, "a:65535");
}

/* A port beyond 65535 or a text without one must not become some other address. */
static void an_endpoint_without_a_possible_port_is_refused(void **state)
{
    static const char *const bad[] = {"",        "host",       "host:",    "host:x",
                                      "host:-1", "host:70000", "host:70 ", "[::1]"};
    char out[VIEW_TEXT_LEN];
    char text[VIEW_TEXT_LEN + 8];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(view_shard_endpoint(bad[i], 0, out), TG_EINVALID);
    assert_int_equal(view_shard_endpoint("a:65526", 1, out), TG_EINVALID);
    assert_int_equal(view_shard_endpoint("a:65535", UINT16_MAX, out), TG_EINVALID);
    for (int host_len = 50; host_len < 66; host_len++) {
        (void)snprintf(text, sizeof text, "%0*d:9990", host_len, 7);
        const bool fits = host_len + 6 < VIEW_TEXT_LEN; /* ":10000" and the closing NUL */
        assert_int_equal(view_shard_endpoint(text, 1, out), fits ? 0 : TG_EINVALID);
    }
}

/* A ring is of one region: who is of another one has no part in it. */
static void members_of_other_regions_are_abroad(void **state)
{
    struct view_member members[5];
    struct view *view;

    (void)state;
    make_members(members);
    for (uint32_t i = 0; i < 5; i++)
        (void)snprintf(members[i].region, sizeof members[i].region, "%s",
                       members[i].id == 50 ? "us" : "eu");
    assert_int_equal(view_new(alloc_heap(), 1, members, 5, 10, &stable, &view), 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(view_is_remote(view, &view->members[i]), view->members[i].id == 50);
    view_free(&view);
}

/* A suspect may only be slow; who looks is up, whatever others think. */
static void members_that_are_dead_or_have_left_are_not_up(void **state)
{
    struct view_member members[5];
    struct view *view;

    (void)state;
    make_members(members);
    members[0].state = VIEW_DEAD;
    members[1].state = VIEW_SUSPECT; /* this node, of id 10 */
    members[2].state = VIEW_LEFT;
    members[3].state = VIEW_SUSPECT;
    (void)snprintf(members[4].region, sizeof members[4].region, "us");
    assert_int_equal(view_new(alloc_heap(), 1, members, 5, 10, &stable, &view), 0);
    assert_int_equal(view_up(view), 3);
    view_free(&view);
    members[1].state = VIEW_DEAD;
    assert_int_equal(view_new(alloc_heap(), 1, members, 5, 10, &stable, &view), 0);
    assert_int_equal(view_up(view), 3);
    view_free(&view);
}

/* Operators read these words, and scripts compare them. */
static void every_state_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(view_state_name(VIEW_ALIVE), "alive");
    assert_string_equal(view_state_name(VIEW_SUSPECT), "suspect");
    assert_string_equal(view_state_name(VIEW_DEAD), "dead");
    assert_string_equal(view_state_name(VIEW_LEFT), "left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_sorted_by_id_and_self_is_this_node),
        cmocka_unit_test(a_view_copies_its_members),
        cmocka_unit_test(a_view_of_other_members_keeps_the_ring),
        cmocka_unit_test(a_view_without_this_node_is_refused),
        cmocka_unit_test(a_member_is_found_by_its_id_and_no_other_id_is),
        cmocka_unit_test(a_stable_replica_set_is_the_list_of_the_ring),
        cmocka_unit_test(a_replica_set_in_a_transition_lists_the_new_and_then_the_old_ones),
        cmocka_unit_test(a_replica_set_of_two_disjoint_rings_is_full),
        cmocka_unit_test(owned_vnodes_add_up_to_all_of_them),
        cmocka_unit_test(a_failing_allocator_is_reported_and_nothing_leaks),
        cmocka_unit_test(lack_of_memory_for_a_view_like_another_leaks_nothing),
        cmocka_unit_test(the_endpoint_of_a_shard_is_some_ports_further_on),
        cmocka_unit_test(an_endpoint_without_a_possible_port_is_refused),
        cmocka_unit_test(members_of_other_regions_are_abroad),
        cmocka_unit_test(members_that_are_dead_or_have_left_are_not_up),
        cmocka_unit_test(every_state_has_its_name),
    };
    return cmocka_run_group_tests(tests, make_configurations, NULL);
}

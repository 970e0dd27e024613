/* test_swim_cluster.c - whole clusters of the real membership code on a network made of memory.
 *
 * Virtual time, one heap of events, everything drawn from one seed:
 *
 *   heap: (time, deliver bytes to node) | (time, tick node)
 *
 * Messages may be lost, delayed, duplicated (hence reordered) or cut off by a split. The soak of
 * 24 virtual hours runs when SWIM_SOAK_HOURS is set (SWIM_NODES changes the number of nodes).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "gossip/swim.h"

#define MS       INT64_C(1000000)
#define SECOND   (1000 * MS)
#define START_NS (INT64_C(1700000000) * SECOND)

enum { NODES_MAX = 1000, PPM = 1000000 };

struct node {
    struct swim *swim;
    struct swim_record record;
    bool up;
    bool paused;
    uint32_t side; /* only nodes of one side hear each other */
    int64_t skew_ns;
    int64_t tick_ns; /* the tick that counts; older ones in the heap are stale */
    uint64_t sent_bytes;
};

struct event {
    int64_t at_ns;
    uint64_t order;
    uint32_t node;
    uint32_t len; /* 0 = a tick */
    uint8_t *bytes;
};

struct net {
    struct random random;
    struct swim_options options;
    struct swim_effects effects;
    struct node nodes[NODES_MAX];
    uint32_t nodes_count;
    struct event *heap;
    size_t heap_len;
    size_t heap_capacity;
    uint64_t events;
    int64_t now_ns;
    uint64_t loss_ppm;
    uint64_t duplicate_ppm;
    int64_t delay_min_ns;
    int64_t delay_max_ns;
    uint64_t deaths;     /* events that told of a death */
    int64_t *dead_at_ns; /* per observer, of the member `watched` */
    uint64_t watched;
};

static const uint8_t cluster_id[SWIM_CLUSTER_ID_LEN] = "cluster-of-test";

/* ---- the heap ---- */

static bool event_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_push(struct net *net, struct event event)
{
    if (net->heap_len == net->heap_capacity) {
        net->heap_capacity = net->heap_capacity * 2 + 64;
        net->heap = realloc(net->heap, net->heap_capacity * sizeof *net->heap);
        assert_non_null(net->heap);
    }
    event.order = net->events++;
    size_t at = net->heap_len++;
    while (at > 0 && event_before(&event, &net->heap[(at - 1) / 2])) {
        net->heap[at] = net->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    net->heap[at] = event;
}

static struct event heap_pop(struct net *net)
{
    const struct event top = net->heap[0];
    const struct event last = net->heap[--net->heap_len];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= net->heap_len)
            break;
        if (child + 1 < net->heap_len && event_before(&net->heap[child + 1], &net->heap[child]))
            child++;
        if (!event_before(&net->heap[child], &last))
            break;
        net->heap[at] = net->heap[child];
        at = child;
    }
    if (net->heap_len > 0)
        net->heap[at] = last;
    return top;
}

/* ---- the network ---- */

static uint64_t id_of(uint32_t node)
{
    return UINT64_C(0x9e3779b97f4a7c15) * (node + 1);
}

static void deliver(struct net *net, uint32_t to, const uint8_t *bytes, uint32_t len)
{
    struct event event = {.node = to, .len = len, .bytes = malloc(len)};
    assert_non_null(event.bytes);
    memcpy(event.bytes, bytes, len);
    event.at_ns = net->now_ns + random_between(&net->random, net->delay_min_ns, net->delay_max_ns);
    heap_push(net, event);
}

static void send_one(struct net *net, uint32_t from, const struct swim_send *send)
{
    const char *colon = strrchr(send->address, ':');
    const uint32_t to = (uint32_t)strtoul(colon + 1, NULL, 10) - 1;
    assert_true(send->len <= SWIM_MESSAGE_MAX);
    net->nodes[from].sent_bytes += send->len;
    if (to >= net->nodes_count || !net->nodes[to].up ||
        net->nodes[to].side != net->nodes[from].side)
        return;
    if (random_below(&net->random, PPM) < net->loss_ppm)
        return;
    deliver(net, to, net->effects.bytes + send->offset, send->len);
    if (random_below(&net->random, PPM) < net->duplicate_ppm)
        deliver(net, to, net->effects.bytes + send->offset, send->len);
}

static void node_schedule(struct net *net, uint32_t at)
{
    struct node *node = &net->nodes[at];
    int64_t due_ns = swim_next_deadline(node->swim) - node->skew_ns;
    if (due_ns < net->now_ns)
        due_ns = net->now_ns;
    if (node->paused || (node->tick_ns > net->now_ns && node->tick_ns <= due_ns))
        return;
    node->tick_ns = due_ns;
    heap_push(net, (struct event){.at_ns = due_ns, .node = at});
}

static void effects_do(struct net *net, uint32_t at)
{
    for (size_t i = 0; i < net->effects.sends_count; i++)
        send_one(net, at, &net->effects.sends[i]);
    for (size_t i = 0; i < net->effects.events_count; i++) {
        const struct swim_event *event = &net->effects.events[i];
        net->deaths += event->kind == SWIM_EVENT_DEAD;
        if (event->kind == SWIM_EVENT_DEAD && event->id == net->watched)
            net->dead_at_ns[at] = net->now_ns;
    }
    if (net->effects.persist_incarnation > 0)
        net->nodes[at].record.incarnation = net->effects.persist_incarnation;
    swim_effects_clear(&net->effects);
    node_schedule(net, at);
}

static void net_step(struct net *net, const struct event *event)
{
    struct node *node = &net->nodes[event->node];
    const int64_t local_ns = net->now_ns + node->skew_ns;
    if (!node->up || (event->len == 0 && (node->paused || node->tick_ns != event->at_ns)))
        return;
    if (node->paused)
        return;
    if (event->len == 0) {
        node->tick_ns = 0;
        swim_tick(node->swim, local_ns, &net->effects);
    } else {
        (void)swim_receive(node->swim, local_ns, event->bytes, event->len, &net->effects);
    }
    effects_do(net, event->node);
}

static void net_run(struct net *net, int64_t for_ns)
{
    const int64_t until_ns = net->now_ns + for_ns;
    while (net->heap_len > 0 && net->heap[0].at_ns <= until_ns) {
        const struct event event = heap_pop(net);
        if (event.at_ns > net->now_ns)
            net->now_ns = event.at_ns;
        net_step(net, &event);
        free(event.bytes);
    }
    net->now_ns = until_ns;
}

static void node_start(struct net *net, uint32_t at, uint32_t seed_node)
{
    struct node *node = &net->nodes[at];
    char address[SWIM_ADDRESS_LEN];
    struct swim_record *record = &node->record;
    if (record->id == 0) {
        record->id = id_of(at);
        (void)snprintf(record->name, sizeof record->name, "node-%u", at);
        (void)snprintf(record->region, sizeof record->region, "eu-west-1");
        (void)snprintf(record->zone, sizeof record->zone, "zone-%u", at % 3);
        (void)snprintf(record->gossip, sizeof record->gossip, "10.20.30.40:%u", at + 1);
        (void)snprintf(record->peer, sizeof record->peer, "10.20.30.40:%u", at + 20001);
        (void)snprintf(record->client, sizeof record->client, "10.20.30.40:%u", at + 40001);
        (void)snprintf(record->software, sizeof record->software, "0.1.0");
        record->weight = 100;
        record->shards = 1;
    }
    record->incarnation++;
    assert_int_equal(swim_new(&node->swim, alloc_heap(), &net->options, record, cluster_id,
                              random_next(&net->random)),
                     0);
    (void)snprintf(address, sizeof address, "10.20.30.40:%u", seed_node + 1);
    assert_int_equal(swim_add_seed(node->swim, address), 0);
    node->up = true;
    node->paused = false;
    node->tick_ns = 0;
    node_schedule(net, at);
}

static void node_kill(struct net *net, uint32_t at)
{
    net->nodes[at].up = false;
    swim_free(&net->nodes[at].swim);
}

static void node_pause(struct net *net, uint32_t at)
{
    net->nodes[at].paused = true;
}

static struct net *net_new(uint32_t nodes, uint64_t seed)
{
    struct net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    random_init(&net->random, seed);
    swim_options_default(&net->options);
    net->options.members_max = nodes + 28;
    net->now_ns = START_NS;
    net->delay_min_ns = MS / 10;
    net->delay_max_ns = MS;
    net->nodes_count = nodes;
    net->dead_at_ns = calloc(NODES_MAX, sizeof *net->dead_at_ns);
    assert_non_null(net->dead_at_ns);
    for (uint32_t i = 0; i < nodes; i++)
        node_start(net, i, 0);
    return net;
}

static void net_free(struct net *net)
{
    for (uint32_t i = 0; i < net->nodes_count; i++) {
        if (net->nodes[i].swim != NULL)
            swim_check_invariants(net->nodes[i].swim);
        swim_free(&net->nodes[i].swim);
    }
    while (net->heap_len > 0) {
        const struct event event = heap_pop(net);
        free(event.bytes);
    }
    free(net->heap);
    free(net->dead_at_ns);
    free(net);
}

/* Whether every running node sees exactly the running ones as alive. */
static bool net_agrees(const struct net *net)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < net->nodes_count; i++)
        up += net->nodes[i].up;
    for (uint32_t i = 0; i < net->nodes_count; i++) {
        struct swim_stats stats;
        if (!net->nodes[i].up)
            continue;
        swim_stats(net->nodes[i].swim, &stats);
        if (stats.alive != up || stats.suspect != 0)
            return false;
        for (uint32_t j = 0; j < net->nodes_count; j++) {
            const struct swim_member *member = swim_find(net->nodes[i].swim, id_of(j));
            if (net->nodes[j].up && (member == NULL || member->state != SWIM_ALIVE))
                return false;
        }
    }
    return true;
}

/* Runs until all agree; returns how long it took, -1 if not within `within_ns`. */
static int64_t net_settle(struct net *net, int64_t within_ns)
{
    const int64_t start_ns = net->now_ns;
    while (net->now_ns - start_ns < within_ns) {
        net_run(net, 100 * MS);
        if (net_agrees(net))
            return net->now_ns - start_ns;
    }
    return -1;
}

static uint64_t net_sent_bytes(const struct net *net)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < net->nodes_count; i++)
        bytes += net->nodes[i].sent_bytes;
    return bytes;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Kills `victim`, waits, and appends to `times_ns` when each other node marked it dead. */
static size_t measure_death(struct net *net, uint32_t victim, int64_t *times_ns, bool last_only)
{
    const int64_t killed_ns = net->now_ns;
    size_t count = 0;
    int64_t last_ns = 0;
    net->watched = id_of(victim);
    memset(net->dead_at_ns, 0, NODES_MAX * sizeof *net->dead_at_ns);
    node_kill(net, victim);
    for (int i = 0; i < 150 && !net_agrees(net); i++)
        net_run(net, 100 * MS);
    for (uint32_t i = 0; i < net->nodes_count; i++) {
        if (!net->nodes[i].up)
            continue;
        assert_true(net->dead_at_ns[i] > 0);
        times_ns[count++] = net->dead_at_ns[i] - killed_ns;
        if (times_ns[count - 1] > last_ns)
            last_ns = times_ns[count - 1];
    }
    if (!last_only)
        return count;
    times_ns[0] = last_ns;
    return 1;
}

/* ---- tests ---- */

/* R1 for three nodes: the last node to notice does so within 4 s typically and 5 s nearly always.
 */
static void three_nodes_notice_a_death_in_time(void **state)
{
    enum { TRIALS = 300 };
    int64_t times_ns[TRIALS + 2];
    size_t count = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct net *net = net_new(3, seed);
        assert_true(net_settle(net, 10 * SECOND) >= 0);
        net_run(net, random_between(&net->random, 0, 2 * SECOND));
        count += measure_death(net, (uint32_t)(seed % 3), times_ns + count, true);
        net_free(net);
    }
    qsort(times_ns, count, sizeof *times_ns, compare_times);
    const int64_t p50_ns = times_ns[count / 2];
    const int64_t p99_ns = times_ns[count * 99 / 100];
    print_message("3 nodes, %zu deaths, last to notice: p50 %lld ms, p99 %lld ms\n", count,
                  (long long)(p50_ns / MS), (long long)(p99_ns / MS));
    assert_true(p50_ns <= 4 * SECOND);
    assert_true(p99_ns <= 5 * SECOND);
}

/* R1 for a hundred nodes: nearly every node has noticed within 10 s. */
static void hundred_nodes_notice_a_death_in_time(void **state)
{
    enum { NODES = 100, TRIALS = 12 };
    static int64_t times_ns[NODES * TRIALS];
    size_t count = 0;
    (void)state;
    struct net *net = net_new(NODES, 7);
    assert_true(net_settle(net, 30 * SECOND) >= 0);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        const uint32_t victim = 1 + trial * 8;
        count += measure_death(net, victim, times_ns + count, false);
        node_start(net, victim, 0);
        assert_true(net_settle(net, 5 * SECOND) >= 0);
    }
    qsort(times_ns, count, sizeof *times_ns, compare_times);
    const int64_t p99_ns = times_ns[count * 99 / 100];
    print_message("100 nodes, %u deaths: p50 %lld ms, p99 %lld ms\n", TRIALS,
                  (long long)(times_ns[count / 2] / MS), (long long)(p99_ns / MS));
    assert_true(p99_ns <= 10 * SECOND);
    net_free(net);
}

static int64_t environment(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? strtoll(value, NULL, 10) : otherwise;
}

/* R6: at 1% loss nobody who lives is ever declared dead (ten minutes; the soak runs longer). */
static void loss_of_one_percent_kills_nobody(void **state)
{
    const int64_t hours = environment("SWIM_SOAK_HOURS", 0);
    const uint32_t nodes = (uint32_t)environment("SWIM_NODES", 100);
    const int64_t run_ns = hours > 0 ? hours * 3600 * SECOND : 600 * SECOND;
    uint64_t suspicions = 0;
    uint64_t indirect = 0;
    (void)state;
    struct net *net = net_new(nodes, 11);
    net->loss_ppm = PPM / 100;
    assert_true(net_settle(net, 60 * SECOND) >= 0);
    net_run(net, run_ns);
    for (uint32_t i = 0; i < nodes; i++) {
        struct swim_stats stats;
        swim_stats(net->nodes[i].swim, &stats);
        suspicions += stats.suspicions;
        indirect += stats.probes_indirect;
    }
    print_message("%u nodes, 1%% loss, %lld s: %llu suspicions, %llu deaths\n", nodes,
                  (long long)(run_ns / SECOND), (unsigned long long)suspicions,
                  (unsigned long long)net->deaths);
    assert_int_equal(net->deaths, 0);
    assert_true(indirect > nodes); /* the loss was felt */
    net_free(net);
}

/* S10: a quiet cluster costs each node the same, whatever its size. */
static void bytes_per_node_stay_flat_as_the_cluster_grows(void **state)
{
    static const uint32_t sizes[] = {10, 30, 100};
    const uint32_t extra = (uint32_t)environment("SWIM_NODES", 0);
    double least = 0;
    double most = 0;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const uint32_t nodes = i < 3 ? sizes[i] : extra;
        if (nodes == 0)
            continue;
        struct net *net = net_new(nodes, 21 + i);
        assert_true(net_settle(net, 60 * SECOND) >= 0);
        net_run(net, 15 * SECOND); /* the news of the joins die down */
        const uint64_t before = net_sent_bytes(net);
        net_run(net, 60 * SECOND);
        const double rate = (double)(net_sent_bytes(net) - before) / 60 / nodes;
        print_message("%u nodes: %.0f bytes of gossip per node and second\n", nodes, rate);
        least = i == 0 || rate < least ? rate : least;
        most = rate > most ? rate : most;
        net_free(net);
    }
    assert_true(most <= 1.2 * least);
}

/* After a split both sides find each other again although each held the other for dead. */
static void a_healed_split_rejoins(void **state)
{
    (void)state;
    struct net *net = net_new(10, 31);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    for (uint32_t i = 5; i < 10; i++)
        net->nodes[i].side = 1;
    net_run(net, 120 * SECOND);
    struct swim_stats stats;
    swim_stats(net->nodes[0].swim, &stats);
    assert_int_equal(stats.alive, 5);
    assert_int_equal(stats.dead, 5);
    for (uint32_t i = 5; i < 10; i++)
        net->nodes[i].side = 0;
    const int64_t took_ns = net_settle(net, 60 * SECOND);
    print_message("10 nodes, split of 2 min healed after %lld ms\n", (long long)(took_ns / MS));
    assert_true(took_ns >= 0 && took_ns <= 10 * SECOND);
    net_free(net);
}

/* Two nodes of three whose only seed is dead still find each other again. */
static void a_split_heals_without_living_seeds(void **state)
{
    (void)state;
    struct net *net = net_new(3, 32);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    node_kill(net, 0);
    net->nodes[2].side = 1;
    net_run(net, 60 * SECOND);
    net->nodes[2].side = 0;
    assert_true(net_settle(net, 20 * SECOND) >= 0);
    net_free(net);
}

/* A node back with a higher incarnation replaces its dead record at once. */
static void a_restart_replaces_the_dead_record_at_once(void **state)
{
    (void)state;
    struct net *net = net_new(10, 41);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    node_kill(net, 4);
    assert_true(net_settle(net, 20 * SECOND) >= 0);
    assert_int_equal(swim_find(net->nodes[0].swim, id_of(4))->state, SWIM_DEAD);
    node_start(net, 4, 0);
    assert_true(net_settle(net, SECOND) >= 0);
    assert_int_equal(swim_find(net->nodes[9].swim, id_of(4))->incarnation, 2);
    net_free(net);
}

/* A restart faster than the detection is never a death. */
static void a_quick_restart_is_no_death(void **state)
{
    (void)state;
    struct net *net = net_new(10, 42);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    node_kill(net, 4);
    net_run(net, 2 * SECOND);
    node_start(net, 4, 0);
    net_run(net, 60 * SECOND);
    assert_true(net_agrees(net));
    assert_int_equal(net->deaths, 0);
    net_free(net);
}

/* A restart that lost its incarnation refutes what is remembered of its earlier life. */
static void a_restart_with_an_old_incarnation_outgrows_it(void **state)
{
    (void)state;
    struct net *net = net_new(5, 43);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    node_kill(net, 4);
    assert_true(net_settle(net, 20 * SECOND) >= 0);
    net->nodes[4].record.incarnation = 0;
    node_start(net, 4, 0);
    assert_true(net_settle(net, 5 * SECOND) >= 0);
    assert_true(swim_self(net->nodes[4].swim)->incarnation >= 2);
    net_free(net);
}

/* What a node says about itself reaches everybody within a second, and the last word holds. */
static void updates_of_records_converge(void **state)
{
    (void)state;
    struct net *net = net_new(30, 51);
    net->loss_ppm = PPM / 20;
    net->duplicate_ppm = PPM / 10;
    net->delay_max_ns = 50 * MS;
    assert_true(net_settle(net, 20 * SECOND) >= 0);
    for (uint64_t epoch = 1; epoch <= 5; epoch++) {
        for (uint32_t i = 0; i < 30; i++) {
            struct swim_record record = swim_self(net->nodes[i].swim)->record;
            record.ring_epoch = epoch * 100 + i;
            assert_int_equal(swim_update_self(net->nodes[i].swim, &record), 0);
            node_schedule(net, i);
        }
        net_run(net, 50 * MS);
    }
    net_run(net, 2 * SECOND);
    for (uint32_t i = 0; i < 30; i++) {
        for (uint32_t j = 0; j < 30; j++) {
            const struct swim_member *member = swim_find(net->nodes[i].swim, id_of(j));
            assert_int_equal(member->record.ring_epoch, 500 + j);
        }
    }
    net_free(net);
}

/* A good-bye is recorded as such by all, without suspicion or death. */
static void a_good_bye_is_not_a_death(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct net *net = net_new(10, 61);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    swim_leave(net->nodes[3].swim, net->now_ns, &net->effects);
    effects_do(net, 3);
    net_run(net, 2 * SECOND);
    assert_true(swim_leave_done(net->nodes[3].swim));
    node_kill(net, 3);
    net_run(net, 60 * SECOND);
    for (uint32_t i = 0; i < 10; i++) {
        if (i == 3)
            continue;
        assert_int_equal(swim_find(net->nodes[i].swim, id_of(3))->state, SWIM_LEFT);
        swim_stats(net->nodes[i].swim, &stats);
        assert_int_equal(stats.suspicions, 0);
    }
    assert_int_equal(net->deaths, 0);
    net_free(net);
}

/* A machine paused for 20 s blames itself: it declares nobody dead and is alive again soon. */
static void a_paused_node_blames_itself(void **state)
{
    struct swim_stats stats;
    (void)state;
    struct net *net = net_new(10, 71);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    node_pause(net, 6);
    net->nodes[6].side = 1; /* its buffers overflow meanwhile */
    net_run(net, 20 * SECOND);
    assert_int_equal(swim_find(net->nodes[0].swim, id_of(6))->state, SWIM_DEAD);
    net->nodes[6].side = 0;
    net->nodes[6].paused = false;
    net->nodes[6].tick_ns = 0;
    node_schedule(net, 6);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    swim_stats(net->nodes[6].swim, &stats);
    assert_int_equal(stats.deaths, 0);
    assert_true(stats.stalls >= 1);
    net_free(net);
}

/* Nodes whose clocks differ measure by how much, and are not disturbed by it. */
static void skew_of_clocks_is_measured(void **state)
{
    (void)state;
    struct net *net = net_new(3, 81);
    net_run(net, 2 * SECOND);
    node_kill(net, 2);
    net->nodes[2].skew_ns = 300 * MS;
    node_start(net, 2, 0);
    net_run(net, 10 * SECOND);
    const struct swim_member *member = swim_find(net->nodes[0].swim, id_of(2));
    assert_in_range(member->skew_ns, 299 * MS, 301 * MS);
    assert_in_range(member->rtt_ns, MS / 10, 2 * MS);
    assert_in_range(swim_skew_max_ns(net->nodes[0].swim), 299 * MS, 301 * MS);
    net_free(net);
}

/* Mutated copies of real messages neither break invariants nor keep the cluster from settling. */
static void hostile_bytes_break_nothing(void **state)
{
    (void)state;
    struct net *net = net_new(5, 91);
    assert_true(net_settle(net, 10 * SECOND) >= 0);
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[SWIM_MESSAGE_MAX + 16];
        uint32_t len = (uint32_t)random_below(&net->random, 200);
        const size_t source = (size_t)random_below(&net->random, net->heap_len);
        if (net->heap[source].len > 0) {
            len = net->heap[source].len;
            memcpy(bytes, net->heap[source].bytes, len);
            for (uint64_t flips = random_below(&net->random, 4) + 1; flips > 0; flips--)
                bytes[random_below(&net->random, len)] = (uint8_t)random_next(&net->random);
            len -= (uint32_t)(random_below(&net->random, 4) == 0 ? random_below(&net->random, len)
                                                                 : 0);
        } else {
            for (uint32_t j = 0; j < len; j++)
                bytes[j] = (uint8_t)random_next(&net->random);
        }
        (void)swim_receive(net->nodes[i % 5].swim, net->now_ns, bytes, len, &net->effects);
        effects_do(net, (uint32_t)i % 5);
        swim_check_invariants(net->nodes[i % 5].swim);
        if (i % 10 == 0)
            net_run(net, 10 * MS);
    }
    net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_nodes_notice_a_death_in_time),
        cmocka_unit_test(hundred_nodes_notice_a_death_in_time),
        cmocka_unit_test(loss_of_one_percent_kills_nobody),
        cmocka_unit_test(bytes_per_node_stay_flat_as_the_cluster_grows),
        cmocka_unit_test(a_healed_split_rejoins),
        cmocka_unit_test(a_split_heals_without_living_seeds),
        cmocka_unit_test(a_restart_replaces_the_dead_record_at_once),
        cmocka_unit_test(a_quick_restart_is_no_death),
        cmocka_unit_test(a_restart_with_an_old_incarnation_outgrows_it),
        cmocka_unit_test(updates_of_records_converge),
        cmocka_unit_test(a_good_bye_is_not_a_death),
        cmocka_unit_test(a_paused_node_blames_itself),
        cmocka_unit_test(skew_of_clocks_is_measured),
        cmocka_unit_test(hostile_bytes_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

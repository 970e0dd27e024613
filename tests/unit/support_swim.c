/* support_swim.c - see support_swim.h. */
#include "tests/unit/support_swim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static const uint8_t cluster_id[SWIM_CLUSTER_ID_LEN] = "cluster-of-test";

/* ---- the heap ---- */

static bool event_before(const struct swarm_event *a, const struct swarm_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_push(struct swarm *swarm, struct swarm_event event)
{
    if (swarm->heap_len == swarm->heap_capacity) {
        swarm->heap_capacity = swarm->heap_capacity * 2 + 64;
        swarm->heap = realloc(swarm->heap, swarm->heap_capacity * sizeof *swarm->heap);
        ASSERT(swarm->heap != NULL);
    }
    event.order = swarm->events++;
    size_t at = swarm->heap_len++;
    while (at > 0 && event_before(&event, &swarm->heap[(at - 1) / 2])) {
        swarm->heap[at] = swarm->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    swarm->heap[at] = event;
}

static struct swarm_event heap_pop(struct swarm *swarm)
{
    const struct swarm_event top = swarm->heap[0];
    const struct swarm_event last = swarm->heap[--swarm->heap_len];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= swarm->heap_len)
            break;
        if (child + 1 < swarm->heap_len &&
            event_before(&swarm->heap[child + 1], &swarm->heap[child]))
            child++;
        if (!event_before(&swarm->heap[child], &last))
            break;
        swarm->heap[at] = swarm->heap[child];
        at = child;
    }
    if (swarm->heap_len > 0)
        swarm->heap[at] = last;
    return top;
}

/* ---- the network ---- */

uint64_t swarm_id(uint32_t node)
{
    return UINT64_C(0x9e3779b97f4a7c15) * (node + 1);
}

uint32_t swarm_region(const struct swarm *swarm, uint32_t node)
{
    return node / swarm->region_nodes;
}

void swarm_cut(struct swarm *swarm, uint32_t a, uint32_t b, bool cut)
{
    swarm->cut[a][b] = cut;
    swarm->cut[b][a] = cut;
}

static void deliver(struct swarm *swarm, uint32_t to, int64_t wan_ns, const uint8_t *bytes,
                    uint32_t len)
{
    struct swarm_event event = {.node = to, .len = len, .bytes = malloc(len)};
    ASSERT(event.bytes != NULL);
    memcpy(event.bytes, bytes, len);
    event.at_ns = swarm->now_ns + wan_ns +
                  random_between(&swarm->random, swarm->delay_min_ns, swarm->delay_max_ns);
    heap_push(swarm, event);
}

/* Counts what crosses regions; returns by how much the way is longer. */
static int64_t cross(struct swarm *swarm, uint32_t from, const struct swim_send *send)
{
    enum { KIND_AT = 20 /* behind the format and the cluster id */ };
    const uint8_t kind = swarm->effects.bytes[send->offset + KIND_AT];
    ASSERT(kind < SWARM_KINDS);
    swarm->wan_sent[swarm_region(swarm, from)][kind]++;
    swarm->nodes[from].wan_bytes += send->len;
    return swarm->wan_ns;
}

static void send_one(struct swarm *swarm, uint32_t from, const struct swim_send *send)
{
    const char *colon = strrchr(send->address, ':');
    const uint32_t to = (uint32_t)strtoul(colon + 1, NULL, 10) - 1;
    ASSERT(send->len <= SWIM_MESSAGE_MAX);
    swarm->nodes[from].sent_bytes += send->len;
    if (to >= swarm->nodes_count)
        return; /* of somebody who was made up */
    const uint32_t here = swarm_region(swarm, from);
    const uint32_t there = swarm_region(swarm, to);
    const int64_t wan_ns = here != there ? cross(swarm, from, send) : 0;
    if (!swarm->nodes[to].up || swarm->nodes[to].side != swarm->nodes[from].side ||
        swarm->cut[here][there])
        return;
    if (random_below(&swarm->random, SWARM_PPM) < swarm->loss_ppm)
        return;
    deliver(swarm, to, wan_ns, swarm->effects.bytes + send->offset, send->len);
    if (random_below(&swarm->random, SWARM_PPM) < swarm->duplicate_ppm)
        deliver(swarm, to, wan_ns, swarm->effects.bytes + send->offset, send->len);
}

void swarm_schedule(struct swarm *swarm, uint32_t at)
{
    struct swarm_node *node = &swarm->nodes[at];
    int64_t due_ns = swim_next_deadline(node->swim) - node->skew_ns;
    if (due_ns < swarm->now_ns)
        due_ns = swarm->now_ns;
    if (node->paused || (node->tick_ns > swarm->now_ns && node->tick_ns <= due_ns))
        return;
    node->tick_ns = due_ns;
    heap_push(swarm, (struct swarm_event){.at_ns = due_ns, .node = at});
}

void swarm_do(struct swarm *swarm, uint32_t at)
{
    for (size_t i = 0; i < swarm->effects.sends_count; i++)
        send_one(swarm, at, &swarm->effects.sends[i]);
    for (size_t i = 0; i < swarm->effects.events_count; i++) {
        const struct swim_event *event = &swarm->effects.events[i];
        swarm->deaths += event->kind == SWIM_EVENT_DEAD;
        if (event->kind == SWIM_EVENT_DEAD && event->id == swarm->watched)
            swarm->dead_at_ns[at] = swarm->now_ns;
    }
    if (swarm->effects.persist_incarnation > 0)
        swarm->nodes[at].record.incarnation = swarm->effects.persist_incarnation;
    swim_effects_clear(&swarm->effects);
    swarm_schedule(swarm, at);
}

static void swarm_step(struct swarm *swarm, const struct swarm_event *event)
{
    struct swarm_node *node = &swarm->nodes[event->node];
    const int64_t local_ns = swarm->now_ns + node->skew_ns;
    if (!node->up || (event->len == 0 && (node->paused || node->tick_ns != event->at_ns)))
        return;
    if (node->paused)
        return;
    if (event->len == 0) {
        node->tick_ns = 0;
        swim_tick(node->swim, local_ns, &swarm->effects);
    } else {
        (void)swim_receive(node->swim, local_ns, event->bytes, event->len, &swarm->effects);
    }
    swarm_do(swarm, event->node);
}

void swarm_run(struct swarm *swarm, int64_t for_ns)
{
    const int64_t until_ns = swarm->now_ns + for_ns;
    while (swarm->heap_len > 0 && swarm->heap[0].at_ns <= until_ns) {
        const struct swarm_event event = heap_pop(swarm);
        if (event.at_ns > swarm->now_ns)
            swarm->now_ns = event.at_ns;
        swarm_step(swarm, &event);
        free(event.bytes);
    }
    swarm->now_ns = until_ns;
}

void swarm_start(struct swarm *swarm, uint32_t at, uint32_t seed_node)
{
    struct swarm_node *node = &swarm->nodes[at];
    char address[SWIM_ADDRESS_LEN];
    struct swim_record *record = &node->record;
    if (record->id == 0) {
        record->id = swarm_id(at);
        (void)snprintf(record->name, sizeof record->name, "node-%u", at);
        (void)snprintf(record->region, sizeof record->region, "eu-west-%u",
                       swarm_region(swarm, at) + 1);
        (void)snprintf(record->zone, sizeof record->zone, "zone-%u", at % 3);
        (void)snprintf(record->gossip, sizeof record->gossip, "10.20.30.40:%u", at + 1);
        (void)snprintf(record->peer, sizeof record->peer, "10.20.30.40:%u", at + 20001);
        (void)snprintf(record->client, sizeof record->client, "10.20.30.40:%u", at + 40001);
        (void)snprintf(record->software, sizeof record->software, "0.1.0");
        record->weight = 100;
        record->shards = 1;
    }
    record->incarnation++;
    const int made = swim_new(&node->swim, alloc_heap(), &swarm->options, record, cluster_id,
                              random_next(&swarm->random));
    ASSERT(made == 0);
    (void)snprintf(address, sizeof address, "10.20.30.40:%u", seed_node + 1);
    ASSERT((swim_add_seed(node->swim, address)) == 0);
    node->up = true;
    node->paused = false;
    node->tick_ns = 0;
    swarm_schedule(swarm, at);
}

void swarm_kill(struct swarm *swarm, uint32_t at)
{
    swarm->nodes[at].up = false;
    swim_free(&swarm->nodes[at].swim);
}

void swarm_pause(struct swarm *swarm, uint32_t at)
{
    swarm->nodes[at].paused = true;
}

struct swarm *swarm_new(uint32_t nodes, uint64_t seed)
{
    return swarm_new_regions(1, nodes, 0, seed);
}

struct swarm *swarm_new_regions(uint32_t regions, uint32_t region_nodes, int64_t wan_ns,
                                uint64_t seed)
{
    const uint32_t nodes = regions * region_nodes;
    struct swarm *swarm = calloc(1, sizeof *swarm);
    ASSERT(swarm != NULL);
    random_init(&swarm->random, seed);
    swim_options_default(&swarm->options);
    swarm->options.members_max = nodes + 28;
    swarm->now_ns = SWARM_START_NS;
    swarm->delay_min_ns = SWARM_MS / 10;
    swarm->delay_max_ns = SWARM_MS;
    swarm->nodes_count = nodes;
    swarm->region_nodes = region_nodes;
    swarm->wan_ns = wan_ns;
    swarm->dead_at_ns = calloc(SWARM_NODES_MAX, sizeof *swarm->dead_at_ns);
    ASSERT(swarm->dead_at_ns != NULL);
    for (uint32_t i = 0; i < nodes; i++)
        swarm_start(swarm, i, 0);
    return swarm;
}

void swarm_free(struct swarm *swarm)
{
    for (uint32_t i = 0; i < swarm->nodes_count; i++) {
        if (swarm->nodes[i].swim != NULL)
            swim_check_invariants(swarm->nodes[i].swim);
        swim_free(&swarm->nodes[i].swim);
    }
    while (swarm->heap_len > 0) {
        const struct swarm_event event = heap_pop(swarm);
        free(event.bytes);
    }
    free(swarm->heap);
    free(swarm->dead_at_ns);
    free(swarm);
}

bool swarm_agrees(const struct swarm *swarm)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < swarm->nodes_count; i++)
        up += swarm->nodes[i].up;
    for (uint32_t i = 0; i < swarm->nodes_count; i++) {
        struct swim_stats stats;
        if (!swarm->nodes[i].up)
            continue;
        swim_stats(swarm->nodes[i].swim, &stats);
        if (stats.alive != up || stats.suspect != 0)
            return false;
        for (uint32_t j = 0; j < swarm->nodes_count; j++) {
            const struct swim_member *member = swim_find(swarm->nodes[i].swim, swarm_id(j));
            if (swarm->nodes[j].up && (member == NULL || member->state != SWIM_ALIVE))
                return false;
        }
    }
    return true;
}

int64_t swarm_settle(struct swarm *swarm, int64_t within_ns)
{
    const int64_t start_ns = swarm->now_ns;
    while (swarm->now_ns - start_ns < within_ns) {
        swarm_run(swarm, 100 * SWARM_MS);
        if (swarm_agrees(swarm))
            return swarm->now_ns - start_ns;
    }
    return -1;
}

uint64_t swarm_sent_bytes(const struct swarm *swarm)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < swarm->nodes_count; i++)
        bytes += swarm->nodes[i].sent_bytes;
    return bytes;
}

uint64_t swarm_wan_bytes(const struct swarm *swarm)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < swarm->nodes_count; i++)
        bytes += swarm->nodes[i].wan_bytes;
    return bytes;
}

size_t swarm_death(struct swarm *swarm, uint32_t victim, int64_t *times_ns, bool last_only)
{
    const int64_t killed_ns = swarm->now_ns;
    size_t count = 0;
    int64_t last_ns = 0;
    swarm->watched = swarm_id(victim);
    memset(swarm->dead_at_ns, 0, SWARM_NODES_MAX * sizeof *swarm->dead_at_ns);
    swarm_kill(swarm, victim);
    for (int i = 0; i < 150 && !swarm_agrees(swarm); i++)
        swarm_run(swarm, 100 * SWARM_MS);
    for (uint32_t i = 0; i < swarm->nodes_count; i++) {
        if (!swarm->nodes[i].up)
            continue;
        ASSERT(swarm->dead_at_ns[i] > 0);
        times_ns[count++] = swarm->dead_at_ns[i] - killed_ns;
        if (times_ns[count - 1] > last_ns)
            last_ns = times_ns[count - 1];
    }
    if (!last_only)
        return count;
    times_ns[0] = last_ns;
    return 1;
}

/* net.c - the network of the simulation: delay, order, loss, repetition, cuts, bounded queues.
 *
 * Frames of one link arrive in order, as they do over one connection, unless a fault is in force:
 * then some are lost, come twice, come late, or overtake others. Each link holds a bounded
 * number of frames; what comes on top is lost, as a full socket loses it.
 *
 * Clients are near: their frames take a short time, and only a crash loses them.
 */
#include <stdlib.h>

#include "tests/sim/sim.h"

void net_init(struct sim *sim)
{
    struct random *random = sim_stream(sim, STREAM_NETWORK);
    for (uint32_t a = 0; a < sim->node_count; a++) {
        for (uint32_t b = 0; b < sim->node_count; b++) {
            struct net_link *link = &sim->net.links[a][b];
            link->delay_ns = random_between(random, SIM_MS / 20, 2 * SIM_MS);
            link->jitter_ns = random_between(random, SIM_MS / 50, 3 * SIM_MS);
            if (a == b) {
                link->delay_ns = SIM_MS / 50;
                link->jitter_ns = SIM_MS / 50;
            }
        }
    }
}

static int64_t jitter(struct sim *sim, int64_t max_ns)
{
    return (int64_t)random_below(sim_stream(sim, STREAM_NETWORK), (uint64_t)max_ns);
}

static void deliver(struct sim *sim, struct net_link *link, const struct event *pattern,
                    const uint8_t *bytes)
{
    const struct net_faults *faults = &sim->net.faults;
    struct event event = *pattern;
    event.at_ns = sim->now_ns + link->delay_ns + jitter(sim, link->jitter_ns);
    const bool late = sim_chance(sim, STREAM_NETWORK, faults->late_ppm);
    const bool reorder = sim_chance(sim, STREAM_NETWORK, faults->reorder_ppm);
    if (late)
        event.at_ns += jitter(sim, 300 * SIM_MS);
    if (!late && !reorder && event.at_ns <= link->arrives_ns)
        event.at_ns = link->arrives_ns + 1;
    if (!late && !reorder)
        link->arrives_ns = event.at_ns;
    sim->net.late += late;
    sim->net.reordered += reorder;
    event.bytes = sim_copy(bytes, event.len);
    link->under_way++;
    queue_push(&sim->queue, &event);
}

void net_send(struct sim *sim, uint8_t from, uint8_t to, enum event_kind kind, uint8_t shard,
              const uint8_t *bytes, size_t len)
{
    struct net_link *link = &sim->net.links[from][to];
    const struct event event = {
        .kind = kind, .node = to, .shard = shard, .from = from, .len = (uint32_t)len};
    sim->net.sent++;
    if (link->cut) {
        sim->net.cut++;
    } else if (link->under_way >= SIM_LINK_FRAMES_MAX) {
        sim->net.full++;
    } else if (from != to && sim_chance(sim, STREAM_NETWORK, sim->net.faults.lose_ppm)) {
        sim->net.lost++;
    } else {
        deliver(sim, link, &event, bytes);
        if (from != to && sim_chance(sim, STREAM_NETWORK, sim->net.faults.repeat_ppm)) {
            sim->net.repeated++;
            deliver(sim, link, &event, bytes);
        }
    }
}

void net_arrived(struct sim *sim, const struct event *event)
{
    sim->net.links[event->from][event->node].under_way--;
}

void net_ask(struct sim *sim, uint8_t client, uint8_t node, uint8_t shard, const uint8_t *bytes,
             size_t len)
{
    const struct event event = {
        .at_ns = sim->now_ns + SIM_MS / 20 + jitter(sim, SIM_MS / 5),
        .kind = EVENT_CLIENT,
        .node = node,
        .shard = shard,
        .from = client,
        .len = (uint32_t)len,
        .bytes = sim_copy(bytes, len),
    };
    queue_push(&sim->queue, &event);
}

void net_reply(struct sim *sim, uint8_t client, const uint8_t *bytes, size_t len)
{
    const struct event event = {
        .at_ns = sim->now_ns + SIM_MS / 20 + jitter(sim, SIM_MS / 5),
        .kind = EVENT_REPLY,
        .node = client,
        .len = (uint32_t)len,
        .bytes = sim_copy(bytes, len),
    };
    queue_push(&sim->queue, &event);
}

void net_cut(struct sim *sim, uint32_t side, bool one_way)
{
    for (uint32_t a = 0; a < sim->node_count; a++) {
        for (uint32_t b = 0; b < sim->node_count; b++) {
            const bool inside_a = (side >> a & 1) != 0;
            const bool inside_b = (side >> b & 1) != 0;
            if (inside_a != inside_b && (inside_a || !one_way))
                sim->net.links[a][b].cut = true;
        }
    }
}

void net_heal(struct sim *sim)
{
    for (uint32_t a = 0; a < sim->node_count; a++)
        for (uint32_t b = 0; b < sim->node_count; b++)
            sim->net.links[a][b].cut = false;
    sim->net.faults = (struct net_faults){0};
}

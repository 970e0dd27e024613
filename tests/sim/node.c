/* node.c - one simulated process: its start, its end, and the events that reach its cores.
 *
 * A paused node gets its events when it goes on again; a dead one gets none. What it stored is
 * given to its next process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/sim.h"

static void address_of(char out[VIEW_TEXT_LEN], unsigned index, unsigned port)
{
    snprintf(out, VIEW_TEXT_LEN, "10.0.0.%u:%u", index + 1, port);
}

int node_by_id(const struct sim *sim, uint64_t id)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].id == id)
            return (int)i;
    return -1;
}

/* ---- shards ---------------------------------------------------------------------------------- */

void node_start_shard(struct sim *sim, struct node *node, uint8_t shard)
{
    struct shard_options options;
    shard_options_default(&options);
    options.node_id = node->id;
    options.boot = node->disk.incarnation;
    options.term_floor = node->disk.incarnation << 20;
    options.shard = shard;
    options.shards = node->shard_count;
    options.vnodes = node->disk.identity.vnodes;
    options.memory_bytes = 4 << 20;
    options.secret = node->disk.identity.secret;
    options.route_key = node->disk.identity.route_key;
    memcpy(options.cluster_id, node->disk.identity.cluster_id, sizeof options.cluster_id);
    snprintf(options.name, sizeof options.name, "n%u", node->index);
    snprintf(options.version, sizeof options.version, "sim");
    const int error =
        shard_new(sim->allocator, &options, shell_clock(sim, node), &node->shards[shard]);
    ASSERT(error == 0);
    shard_policy(node->shards[shard], sim->policy);
    (void)shard_policy_unused(node->shards[shard]);
    node->tick_at_ns[shard] = SIM_NEVER;
    disk_restore(sim, node, shard);
    shell_tick_at(sim, node, shard, sim->now_ns + 1);
}

/* ---- orderly stop ---------------------------------------------------------------------------- */

bool node_flushed(const struct node *node)
{
    for (uint8_t i = 0; i < node->shard_count; i++) {
        struct shard_stats stats;
        if (node->shards[i] == NULL)
            continue;
        shard_stats(node->shards[i], &stats);
        if (stats.flush_lag_ns > 0 || node->disk.batches[i].out)
            return false;
    }
    return true;
}

void node_stop(struct sim *sim, struct node *node)
{
    sim_tell(sim, 1, "n%u is to stop", node->index);
    node->stopping = true;
    sim->coverage->stops++;
}

/* A tick of a node that stops: true when nothing is left to do. */
static bool resigned(struct sim *sim, struct node *node, uint8_t shard)
{
    bool done = shard_resign(node->shards[shard], shell_clock(sim, node), &sim->effects);
    shell_shard_done(sim, node, shard, false);
    for (uint8_t i = 0; i < node->shard_count; i++) {
        struct shard_stats stats;
        shard_stats(node->shards[i], &stats);
        done = done && stats.vnodes_deciding == 0 && shard_flushed(node->shards[i]);
    }
    return done;
}

/* ---- life ------------------------------------------------------------------------------------ */

void node_init(struct sim *sim, uint8_t index, uint64_t id)
{
    struct node *node = &sim->nodes[index];
    struct random *random = sim_stream(sim, STREAM_PLAN);
    memset(node, 0, sizeof *node);
    node->index = index;
    node->id = id;
    node->bootstrap = index == 0;
    node->shard_count = (uint16_t)(random_below(random, 6) == 0 ? SIM_SHARDS_MAX : 1);
    node->offset_ns = SIM_EPOCH + random_between(random, -20 * SIM_MS, 20 * SIM_MS);
}

static void fill_options(struct sim *sim, const struct node *node, struct control_options *options)
{
    const struct disk *disk = &node->disk;
    memset(options, 0, sizeof *options);
    options->node_id = node->id;
    options->incarnation = disk->incarnation;
    options->seed = random_next(sim_stream(sim, STREAM_PLAN));
    snprintf(options->name, sizeof options->name, "n%u", node->index);
    snprintf(options->region, sizeof options->region, "r");
    snprintf(options->zone, sizeof options->zone, "z%u", node->index % 3);
    snprintf(options->version, sizeof options->version, "sim");
    address_of(options->gossip, node->index, 7000);
    address_of(options->peer, node->index, 7100);
    address_of(options->client, node->index, 7200);
    options->weight = RING_WEIGHT_DEFAULT;
    options->shards = node->shard_count;
    options->bootstrap = node->bootstrap;
    for (uint32_t i = 0; !node->bootstrap && i < 2; i++)
        address_of(options->seeds[options->seed_count++], i, 7000);
    options->has_identity = disk->has_identity;
    options->identity = disk->has_identity ? disk->identity : sim->identity;
    const struct disk_meta config = disk_get_meta(disk, "ring.config");
    const struct disk_meta peers = disk_get_meta(disk, "gossip.peers");
    const struct disk_meta ballots = disk_get_meta(disk, "ring.register");
    options->ballots = ballots.bytes;
    options->ballots_len = ballots.len;
    options->config = config.bytes;
    options->config_len = config.len;
    options->peers = peers.bytes;
    options->peers_len = peers.len;
}

void node_start(struct sim *sim, struct node *node)
{
    struct control_options *options = malloc(sizeof *options);
    ASSERT(options != NULL && !node->up);
    node->up = true;
    node->boots++;
    node->disk.incarnation++;
    node->settled = 0;
    node->control_tick_at_ns = SIM_NEVER;
    memset(node->terms, 0, sizeof node->terms);
    fill_options(sim, node, options);
    const int error = control_new(sim->allocator, options, shell_clock(sim, node), &node->control);
    free(options);
    ASSERT(error == 0);
    sim_tell(sim, 1, "n%u starts, incarnation %llu, %u shards, %llu records", node->index,
             (unsigned long long)node->disk.incarnation, node->shard_count,
             (unsigned long long)node->disk.records);
    if (node->disk.has_identity)
        for (uint8_t i = 0; i < node->shard_count; i++)
            node_start_shard(sim, node, i);
    shell_control_tick_at(sim, node, sim->now_ns + 1);
}

static void end_process(struct sim *sim, struct node *node)
{
    node_count_stats(sim, node);
    for (uint8_t i = 0; i < node->shard_count; i++) {
        struct shard *shard = node->shards[i];
        shard_free(&shard);
        node->shards[i] = NULL;
    }
    view_free(&node->view);
    control_free(&node->control);
    disk_crash(&node->disk);
    node->up = false;
    node->stopping = false;
    memset(node->roles, 0, sizeof node->roles);
    node->paused_until_ns = 0;
    for (uint32_t vnode = 0; vnode < sim->vnodes; vnode++)
        sim->deciders[vnode] &= (uint8_t) ~(1u << node->index);
}

static void tell_closed(struct sim *sim, const struct node *node)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (i == node->index || !sim->nodes[i].up)
            continue;
        const int64_t at_ns =
            sim->now_ns + SIM_MS / 20 +
            (int64_t)random_below(sim_stream(sim, STREAM_NETWORK), (uint64_t)(3 * SIM_MS));
        for (uint8_t s = 0; s < node->shard_count; s++) {
            const struct event event = {.at_ns = at_ns,
                                        .kind = EVENT_CLOSED,
                                        .node = (uint8_t)i,
                                        .shard = s,
                                        .from = node->index};
            queue_push(&sim->queue, &event);
        }
    }
}

void node_crash(struct sim *sim, struct node *node, bool told)
{
    sim_tell(sim, 1, "n%u crashes%s, unconfirmed %llu", node->index, told ? "" : " silently",
             (unsigned long long)node_unconfirmed(node));
    end_process(sim, node);
    sim->coverage->crashes++;
    if (told)
        tell_closed(sim, node);
}

void node_fini(struct sim *sim, struct node *node)
{
    if (node->up)
        end_process(sim, node);
    disk_fini(&node->disk);
}

uint64_t node_unconfirmed(const struct node *node)
{
    uint64_t unconfirmed = 0;
    for (uint8_t i = 0; i < node->shard_count; i++) {
        if (node->shards[i] == NULL)
            continue;
        struct shard_stats stats;
        shard_stats(node->shards[i], &stats);
        unconfirmed += stats.unconfirmed;
    }
    return unconfirmed;
}

void node_count_stats(struct sim *sim, const struct node *node)
{
    struct coverage *coverage = sim->coverage;
    for (uint8_t i = 0; i < node->shard_count; i++) {
        if (node->shards[i] == NULL)
            continue;
        struct shard_stats stats;
        shard_stats(node->shards[i], &stats);
        coverage->takeovers += stats.takeovers;
        coverage->terms += stats.terms_opened;
        coverage->stepped_down += stats.stepped_down;
        coverage->resyncs += stats.resyncs;
        coverage->disk_copies += stats.disk_copies;
        coverage->forwarded += stats.forwarded;
        coverage->moved += stats.moved;
        coverage->recalled += stats.retries_recalled;
        coverage->undone += stats.undone;
        coverage->loads += stats.loads;
        coverage->evicted += stats.evicted;
        coverage->forgotten += stats.forgotten;
        coverage->stalls += stats.stalls;
        coverage->checks += stats.checks;
        if (stats.bad_frames > 0)
            sim_fail(sim, "node %u met %llu bad frames", node->index,
                     (unsigned long long)stats.bad_frames);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void shard_event(struct sim *sim, struct node *node, const struct event *event)
{
    struct shard *shard = node->shards[event->shard];
    const int64_t now_ns = shell_clock(sim, node);
    if (shard == NULL) /* not in a cluster yet: the runtime has no such socket open */
        return;
    switch (event->kind) {
    case EVENT_PEER:
        shard_peer(shard, now_ns, event->bytes, event->len, &sim->effects);
        break;
    case EVENT_CLIENT:
        shard_client(shard, now_ns, event->from, event->bytes, event->len, &sim->effects);
        break;
    case EVENT_TICK:
        if (node->stopping && resigned(sim, node, event->shard)) {
            sim_tell(sim, 1, "n%u stops", node->index);
            end_process(sim, node);
            tell_closed(sim, node);
            return;
        }
        shard_tick(shard, now_ns, &sim->effects);
        break;
    case EVENT_COMMIT:
        disk_commit(sim, node, event->shard);
        break;
    case EVENT_LISTED:
        disk_listed(sim, node, event->shard, event->vnode);
        break;
    default: {
        const struct disk_record *record = disk_find(&node->disk, event->vnode, event->id);
        shard_loaded(shard, now_ns, event->vnode, event->id, record == NULL ? TG_ENOTFOUND : 0,
                     record == NULL ? NULL : record->state, record == NULL ? 0 : record->len,
                     &sim->effects);
        break;
    }
    }
    shell_shard_done(sim, node, event->shard, event->kind != EVENT_TICK);
    if (event->kind == EVENT_TICK)
        shell_next_tick(sim, node, event->shard);
}

static void closed_event(struct sim *sim, struct node *node, const struct event *event)
{
    const struct node *other = &sim->nodes[event->from];
    control_suspect(node->control, other->id);
    shell_control_tick_at(sim, node, sim->now_ns + 1);
    for (uint8_t i = 0; i < node->shard_count; i++) {
        if (node->shards[i] == NULL)
            continue;
        shard_peer_closed(node->shards[i], shell_clock(sim, node), other->id, event->shard,
                          &sim->effects);
        shell_shard_done(sim, node, i, true);
    }
}

/* Whether the event is for a process that has ended, or a tick that was set anew. */
static bool stale(struct node *node, const struct event *event)
{
    const bool own = event->kind == EVENT_TICK || event->kind == EVENT_CONTROL_TICK ||
                     event->kind == EVENT_COMMIT || event->kind == EVENT_LOADED ||
                     event->kind == EVENT_LISTED;
    if (!node->up || (own && event->tag != node->boots))
        return true;
    if (event->kind == EVENT_TICK) {
        if (event->at_ns != node->tick_at_ns[event->shard])
            return true;
        node->tick_at_ns[event->shard] = SIM_NEVER;
    }
    if (event->kind == EVENT_CONTROL_TICK) {
        if (event->at_ns != node->control_tick_at_ns)
            return true;
        node->control_tick_at_ns = SIM_NEVER;
    }
    return false;
}

/* Lets a paused node meet the event when it goes on. */
static bool postpone(struct sim *sim, struct node *node, const struct event *event)
{
    if (!node->up || sim->now_ns >= node->paused_until_ns)
        return false;
    struct event later = *event;
    later.at_ns = node->paused_until_ns;
    if (event->kind == EVENT_TICK && event->at_ns == node->tick_at_ns[event->shard])
        node->tick_at_ns[event->shard] = later.at_ns;
    if (event->kind == EVENT_CONTROL_TICK && event->at_ns == node->control_tick_at_ns)
        node->control_tick_at_ns = later.at_ns;
    if (event->bytes != NULL)
        later.bytes = sim_copy(event->bytes, event->len);
    queue_push(&sim->queue, &later);
    return true;
}

void node_event(struct sim *sim, const struct event *event)
{
    struct node *node = &sim->nodes[event->node];
    if (event->kind == EVENT_START) {
        node_start(sim, node);
        sim->coverage->restarts += node->boots > 1;
        return;
    }
    if (postpone(sim, node, event))
        return;
    if (event->kind == EVENT_PEER || event->kind == EVENT_GOSSIP)
        net_arrived(sim, event);
    if (stale(node, event))
        return;
    if (event->kind == EVENT_GOSSIP) {
        control_receive(node->control, shell_clock(sim, node), event->bytes, event->len,
                        &sim->effects);
        shell_control_done(sim, node);
    } else if (event->kind == EVENT_CONTROL_TICK) {
        control_tick(node->control, shell_clock(sim, node), &sim->effects);
        shell_control_done(sim, node);
    } else if (event->kind == EVENT_CLOSED) {
        closed_event(sim, node, event);
    } else {
        shard_event(sim, node, event);
    }
    if (node->up)
        check_event(sim, node);
}

/* node.c - one simulated process: its start, its end, and the events that reach its cores.
 *
 * A paused node gets its events when it goes on again; a dead one gets none. What it stored is
 * given to its next process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/dedup/retry.h"
#include "tests/sim/clocks.h"
#include "tests/sim/sim.h"

enum {
    MEMORY_BYTES = 4 << 20,
    RETRY_SETS_HERE = 1 << 12, /* ample for clients that ask some hundred times a second */
    CROWD_SMALL = 2000,        /* and for a crowd of so many */
    NARROW_FRAMES = 4,
    SLICE_WORK = 500, /* rules of a few items */
    DRIFT_MAX_PPB = 100000,
    SETTINGS_LOG_HERE = 6,   /* few, so that nodes that were away copy all records */
    SETTINGS_ITEMS_HERE = 2, /* of a frame, so that changes go on in the midst of a copy */
};

static void address_of(char out[VIEW_TEXT_LEN], unsigned index, unsigned port)
{
    snprintf(out, VIEW_TEXT_LEN, "10.0.0.%u:%u", index + 1, port);
}

static bool was(const struct node *node, uint64_t id)
{
    for (uint32_t i = 0; i < node->former_count; i++)
        if (node->former_ids[i] == id)
            return true;
    return false;
}

int node_by_id(const struct sim *sim, uint64_t id)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].id == id || was(&sim->nodes[i], id))
            return (int)i;
    return -1;
}

uint32_t node_up_count(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->node_count; i++)
        count += sim->nodes[i].up;
    return count;
}

uint32_t node_members(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->node_count; i++)
        count += sim->nodes[i].member;
    return count;
}

struct node *node_some_up(struct sim *sim)
{
    for (;;) {
        struct node *node =
            &sim->nodes[random_below(sim_stream(sim, STREAM_FAULTS), sim->node_count)];
        if (node->up && node->member)
            return node;
    }
}

/* ---- shards ---------------------------------------------------------------------------------- */

void node_start_shard(struct sim *sim, struct node *node, uint8_t shard)
{
    struct shard_options options;
    shard_options_default(&options);
    options.node_id = node->id;
    options.boot = node->disk.now.incarnation << 20 | node->boots; /* as in node/runtime */
    options.incarnation = node->disk.now.incarnation;
    options.shard = shard;
    options.shards = node->shard_count;
    options.vnodes = node->disk.now.identity.vnodes;
    options.memory_bytes = MEMORY_BYTES;
    options.retry_sets = sim->options.crowd > CROWD_SMALL ? RETRY_SETS : RETRY_SETS_HERE;
    if (sim->options.slices)
        options.turn_work = SLICE_WORK;
    if (sim->options.narrow)
        options.frames_max = NARROW_FRAMES;
    options.keepalive_ns = sim->options.keepalive_ms * SIM_MS;
    options.idle_ns = options.keepalive_ns * (sim->options.lazy ? 5 : 2) / 2;
    options.idle_after_ns = options.keepalive_ns / 2; /* clients hardly ever rest */
    options.silence_ns = 10 * options.keepalive_ns;
    options.lease_ns = 7 * options.keepalive_ns;
    options.secret = node->disk.now.identity.secret;
    options.route_key = node->disk.now.identity.route_key;
    memcpy(options.cluster_id, node->disk.now.identity.cluster_id, sizeof options.cluster_id);
    snprintf(options.name, sizeof options.name, "n%u", node->index);
    snprintf(options.version, sizeof options.version, "sim");
    const int error =
        shard_new(sim->allocator, &options, shell_clock(sim, node), &node->shards[shard]);
    ASSERT(error == 0);
    clocks_tell(sim, node);
    shard_policy(node->shards[shard], sim->policies[node->policy]);
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
        if (stats.flush_lag_ns > 0 || node->disk.batches[i].out || node->disk.journals[i].out)
            return false;
    }
    return true;
}

void node_stop(struct sim *sim, struct node *node)
{
    sim_tell(sim, 1, "n%u is to stop", node->index);
    node->stopping = true;
    sim->coverage.stops++;
}

/* A tick of a node that stops: true when nothing is left to do. As in node/runtime, a shard that
 * has passed all it decided listens to nobody any more, so that what it has to write comes to an
 * end, and one that has written it waits for the others. */
static bool resigned(struct sim *sim, struct node *node, uint8_t shard)
{
    if (shard_resign(node->shards[shard], shell_clock(sim, node), &sim->effects))
        node->closed[shard] = true;
    shell_shard_done(sim, node, shard, false);
    if (node->closed[shard] && shard_flushed(node->shards[shard]))
        node->idle[shard] = true;
    bool done = true;
    for (uint8_t i = 0; i < node->shard_count; i++)
        done = done && node->idle[i];
    return done;
}

void node_rules(struct sim *sim, struct node *node)
{
    node->policy = sim->policy_count - 1;
    for (uint8_t i = 0; i < node->shard_count; i++) {
        if (node->shards[i] == NULL)
            continue;
        shard_policy(node->shards[i], sim->policies[node->policy]);
        (void)shard_policy_unused(node->shards[i]); /* all of them live as long as the run */
    }
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
    node->member = index < sim->options.nodes;
    node->shard_count = (uint16_t)(1 + random_below(random, sim->options.shards));
    node->wall_offset_ns =
        random_between(random, -SIM_OFFSET_MAX_MS * SIM_MS, SIM_OFFSET_MAX_MS * SIM_MS);
    node->drift_ppb = (int32_t)random_between(random, -DRIFT_MAX_PPB, DRIFT_MAX_PPB);
}

void node_init_remote(struct sim *sim, uint8_t index)
{
    struct node *node = &sim->nodes[index];
    memset(node, 0, sizeof *node);
    node->index = index;
    node->id = hash_mix64(sim->options.seed ^ (uint64_t)index << 32) | 1;
    node->shard_count = 1;
}

uint32_t region_first(const struct sim *sim, uint32_t region)
{
    return region == 0 ? 0 : sim->node_count + (region - 1) * SIM_REMOTE;
}

uint32_t region_nodes(const struct sim *sim, uint32_t region)
{
    return (1u << region_first(sim, region + 1)) - (1u << region_first(sim, region));
}

uint32_t node_region(const struct sim *sim, const struct node *node)
{
    return node_remote(sim, node) ? 1 + (node->index - sim->node_count) / SIM_REMOTE : 0;
}

const char *region_name(uint32_t region)
{
    static const char *const names[SIM_REGIONS_MAX] = {"r", "q", "s"};
    return names[region];
}

bool node_remote(const struct sim *sim, const struct node *node)
{
    return node->index >= sim->node_count;
}

uint32_t nodes_remote(const struct sim *sim)
{
    return (1u << sim->all_count) - (1u << sim->node_count);
}

static void zone_of(char out[SWIM_PLACE_LEN], uint8_t index)
{
    snprintf(out, SWIM_PLACE_LEN, "z%u", index % 3);
}

/* The configuration of a ring of all members. */
static void make_ring(const struct sim *sim, struct ring_config *config, struct ring_config *next)
{
    for (uint8_t i = 0; i < sim->options.nodes; i++) {
        char name[SIM_TEXT_LEN];
        char zone[SWIM_PLACE_LEN];
        struct ring_member member;
        snprintf(name, sizeof name, "n%u", i);
        zone_of(zone, i);
        int error = ring_member_init(&member, sim->nodes[i].id, name, zone, RING_WEIGHT_DEFAULT);
        if (error == 0 && i == 0)
            error = ring_config_init(config, &member, sim->vnodes, sim->options.replicas);
        else if (error == 0)
            error = ring_config_add(next, config, &member);
        if (error == 0 && i > 0)
            error = ring_config_settle(config, next);
        ASSERT(error == 0);
    }
}

void node_form(struct sim *sim)
{
    struct ring_config *config = calloc(1, sizeof *config);
    struct ring_config *next = calloc(1, sizeof *next);
    uint8_t *bytes = malloc(RING_CONFIG_BYTES_MAX);
    ASSERT(config != NULL && next != NULL && bytes != NULL);
    make_ring(sim, config, next);
    const int len = ring_config_encode(config, bytes, RING_CONFIG_BYTES_MAX);
    ASSERT(len > 0);
    for (uint8_t i = 0; i < sim->options.nodes; i++) {
        struct disk *disk = &sim->nodes[i].disk;
        disk->now.has_identity = true;
        disk->now.identity = sim->identity;
        disk_put_meta(disk, "ring.config", bytes, (size_t)len);
    }
    free(bytes);
    free(next);
    free(config);
}

static void fill_options(struct sim *sim, const struct node *node, struct control_options *options)
{
    const struct disk *disk = &node->disk;
    memset(options, 0, sizeof *options);
    options->node_id = node->id;
    options->incarnation = disk->now.incarnation;
    options->seed = random_next(sim_stream(sim, STREAM_PLAN));
    snprintf(options->name, sizeof options->name, "n%u", node->index);
    snprintf(options->region, sizeof options->region, "%s", region_name(node_region(sim, node)));
    zone_of(options->zone, node->index);
    snprintf(options->version, sizeof options->version, "sim");
    address_of(options->gossip, node->index, 7000);
    address_of(options->peer, node->index, 7100);
    address_of(options->client, node->index, 7200);
    options->weight = RING_WEIGHT_DEFAULT;
    options->shards = node->shard_count;
    options->bootstrap = node->bootstrap;
    for (uint32_t i = 0; !node->bootstrap && i < 2; i++)
        address_of(options->seeds[options->seed_count++], i, 7000);
    options->has_identity = disk->now.has_identity;
    options->identity = disk->now.has_identity ? disk->now.identity : sim->identity;
    const struct disk_meta config = disk_get_meta(disk, "ring.config");
    const struct disk_meta peers = disk_get_meta(disk, "gossip.peers");
    const struct disk_meta ballots = disk_get_meta(disk, "ring.register");
    options->config = config.bytes;
    options->config_len = config.len;
    options->peers = peers.bytes;
    options->peers_len = peers.len;
    options->ballots = ballots.bytes;
    options->ballots_len = ballots.len;
    options->settings_log_max = SETTINGS_LOG_HERE;
    options->settings_items_max = SETTINGS_ITEMS_HERE;
}

void node_restore_settings(struct node *node)
{
    struct disk *disk = &node->disk;
    int error = 0;
    disk_sort_metas(disk);
    for (uint32_t i = 0; error == 0 && i < disk->now.meta_count; i++) {
        const struct disk_meta *meta = &disk->now.metas[i];
        if (strncmp(meta->key, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) == 0)
            error = control_restore_settings(node->control, meta->key, meta->bytes, meta->len);
    }
    if (error == 0)
        error = control_settings_restored(node->control);
    ASSERT(error == 0);
}

void node_start(struct sim *sim, struct node *node)
{
    struct control_options *options = malloc(sizeof *options);
    ASSERT(options != NULL && !node->up);
    node->up = true;
    node->boots++;
    node->disk.now.incarnation++;
    node->settled = 0;
    node->settings_copied = 0;
    memset(node->settings_seen, 0, sizeof node->settings_seen);
    node->control_tick_at_ns = SIM_NEVER;
    memset(node->held, 0, sizeof node->held);
    memset(node->pulling, 0, sizeof node->pulling);
    clocks_start(sim, node);
    net_started(sim, node->index);
    fill_options(sim, node, options);
    const int error = control_new(sim->allocator, options, shell_clock(sim, node), &node->control);
    free(options);
    ASSERT(error == 0);
    clocks_tell(sim, node);
    node_restore_settings(node);
    sim_tell(sim, 1, "n%u starts, incarnation %llu, %u shards, %llu records", node->index,
             (unsigned long long)node->disk.now.incarnation, node->shard_count,
             (unsigned long long)node->disk.now.records);
    if (node->disk.now.has_identity)
        for (uint8_t i = 0; i < node->shard_count; i++)
            node_start_shard(sim, node, i);
    shell_control_tick_at(sim, node, sim->now_ns + 1);
}

static void count_stats(struct sim *sim, const struct node *node)
{
    struct coverage *coverage = &sim->coverage;
    for (uint8_t i = 0; i < node->shard_count; i++) {
        if (node->shards[i] == NULL)
            continue;
        struct shard_stats stats;
        shard_stats(node->shards[i], &stats);
        coverage->takeovers += stats.takeovers;
        coverage->terms += stats.terms_opened;
        coverage->stepped_down += stats.stepped_down;
        coverage->merges += stats.merges;
        coverage->merged_slots += stats.merged_slots;
        coverage->handed_over += stats.handed_over;
        coverage->stand_ins += stats.stand_ins;
        coverage->any_allowed += stats.any_allowed;
        coverage->any_denied += stats.any_denied;
        coverage->any_leases += stats.any_leases;
        coverage->any_back += stats.any_back;
        coverage->global_leases += stats.global_leases;
        coverage->global_back += stats.global_back;
        coverage->global_allowed += stats.global_allowed;
        coverage->global_denied += stats.global_denied;
        coverage->global_late += stats.global_late;
        coverage->global_local += stats.global_local;
        coverage->quorum_terms += stats.quorum.terms;
        coverage->quorum_in_doubt += stats.quorum.in_doubt;
        coverage->quorum_unavailable += stats.quorum.unavailable;
        coverage->resyncs += stats.resyncs;
        coverage->disk_copies += stats.disk_copies;
        coverage->forwarded += stats.forwarded;
        coverage->resent += stats.resent;
        coverage->moved += stats.moved;
        coverage->recalled += stats.retries_recalled;
        coverage->several += stats.several;
        coverage->unfinished += stats.unfinished;
        coverage->undone += stats.undone;
        coverage->undo_resent += stats.undo_resent;
        coverage->undo_lost += stats.undo_lost;
        coverage->undo_unknown += stats.undo_unknown;
        coverage->loads += stats.loads;
        coverage->evicted += stats.evicted;
        coverage->forgotten += stats.forgotten;
        coverage->turned_away += stats.turned_away;
        coverage->stalls += stats.stalls;
        coverage->checks += stats.checks;
        if (stats.bad_frames > 0)
            sim_fail(sim, "node %u met %llu bad frames", node->index,
                     (unsigned long long)stats.bad_frames);
    }
}

void node_start_later(struct sim *sim, uint8_t node, int64_t delay_ns)
{
    const struct event event = {.at_ns = sim->now_ns + delay_ns, .kind = EVENT_START, .node = node};
    sim->nodes[node].starts_ns = event.at_ns;
    queue_push(&sim->queue, &event);
}

static void end_process(struct sim *sim, struct node *node)
{
    count_stats(sim, node);
    check_ended(sim, node);
    for (uint8_t i = 0; i < node->shard_count; i++) {
        struct shard *shard = node->shards[i];
        shard_free(&shard);
        node->shards[i] = NULL;
    }
    view_free(&node->view);
    control_free(&node->control);
    disk_crash(sim, node);
    node->up = false;
    node->stopping = false;
    memset(node->closed, 0, sizeof node->closed);
    memset(node->idle, 0, sizeof node->idle);
    node->drains = false;
    node->leaves = false;
    node->paused_until_ns = 0;
    clocks_ended(sim, node);
}

void node_crash(struct sim *sim, struct node *node, bool told)
{
    sim_tell(sim, 1, "n%u crashes%s, unconfirmed %llu", node->index, told ? "" : " silently",
             (unsigned long long)node_unconfirmed(node));
    end_process(sim, node);
    sim->coverage.crashes++;
    net_ended(sim, node->index, told);
}

void node_replace(struct sim *sim, struct node *node)
{
    ASSERT(!node->up && node->former_count < SIM_FORMERS_MAX);
    disk_fini(&node->disk);
    node->former_ids[node->former_count++] = node->id;
    node->id = random_next(sim_stream(sim, STREAM_FAULTS)) | 1;
    node->bootstrap = false;
    node->settings_version = 0;
    sim->coverage.replacements++;
    sim_tell(sim, 1, "n%u has lost its disk", node->index);
}

void node_fini(struct sim *sim, struct node *node)
{
    if (node->up)
        end_process(sim, node);
    disk_fini(&node->disk);
}

uint64_t nodes_undo_lost(const struct sim *sim)
{
    uint64_t sum = sim->coverage.undo_lost + sim->coverage.undo_unknown;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *node = &sim->nodes[i];
        for (uint8_t k = 0; k < node->shard_count; k++) {
            struct shard_stats stats;
            if (!node->up || node->shards[k] == NULL)
                continue;
            shard_stats(node->shards[k], &stats);
            sum += stats.undo_lost + stats.undo_unknown;
        }
    }
    return sum;
}

uint32_t node_parts(const struct node *node)
{
    uint32_t sum = 0;
    for (uint8_t i = 0; node->up && i < node->shard_count; i++) {
        struct shard_stats stats;
        if (node->shards[i] == NULL)
            continue;
        shard_stats(node->shards[i], &stats);
        sum += stats.checks_pending;
    }
    return sum;
}

uint64_t nodes_takeovers(const struct sim *sim)
{
    uint64_t takeovers = sim->coverage.takeovers;
    for (uint32_t i = 0; i < sim->node_count; i++)
        for (uint8_t s = 0; s < sim->nodes[i].shard_count; s++) {
            struct shard_stats stats = {.takeovers = 0};
            if (sim->nodes[i].shards[s] != NULL)
                shard_stats(sim->nodes[i].shards[s], &stats);
            takeovers += stats.takeovers;
        }
    return takeovers;
}

uint64_t nodes_resent(const struct sim *sim)
{
    uint64_t resent = sim->coverage.resent;
    for (uint32_t i = 0; i < sim->node_count; i++)
        for (uint8_t s = 0; s < sim->nodes[i].shard_count; s++) {
            struct shard_stats stats = {.resent = 0};
            if (sim->nodes[i].shards[s] != NULL)
                shard_stats(sim->nodes[i].shards[s], &stats);
            resent += stats.resent;
        }
    return resent;
}

uint64_t nodes_repeated(const struct sim *sim)
{
    uint64_t repeated = sim->coverage.resent + sim->coverage.quorum_in_doubt;
    for (uint32_t i = 0; i < sim->node_count; i++)
        for (uint8_t s = 0; s < sim->nodes[i].shard_count; s++) {
            struct shard_stats stats = {.resent = 0};
            if (sim->nodes[i].shards[s] != NULL)
                shard_stats(sim->nodes[i].shards[s], &stats);
            repeated += stats.resent + stats.quorum.in_doubt;
        }
    return repeated;
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

/* As in node/runtime, good-bye is said when nothing is left to do: who has heard it does not answer
 * any more. True when there is nothing left to say. */
static bool said_farewell(struct sim *sim, struct node *node)
{
    if (!node->leaves)
        return true;
    const bool told = control_leave(node->control, shell_clock(sim, node), &sim->effects);
    shell_control_done(sim, node);
    return told;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void shard_event(struct sim *sim, struct node *node, const struct event *event)
{
    struct shard *shard = node->shards[event->shard];
    const int64_t now_ns = shell_clock(sim, node);
    struct clocks_seen seen;
    if (shard == NULL) /* not in a cluster yet: the runtime has no such socket open */
        return;
    if (node->closed[event->shard] && (event->kind == EVENT_PEER || event->kind == EVENT_CLIENT))
        return;
    clocks_see(sim, node, event->shard, &seen);
    switch (event->kind) {
    case EVENT_PEER:
        shard_peer(shard, now_ns, event->bytes, event->len, &sim->effects);
        break;
    case EVENT_CLIENT:
        shard_client(shard, now_ns, event->from, event->bytes, event->len, &sim->effects);
        break;
    case EVENT_TICK:
        if (node->stopping && resigned(sim, node, event->shard) && said_farewell(sim, node)) {
            sim_tell(sim, 1, "n%u stops", node->index);
            end_process(sim, node);
            net_ended(sim, node->index, true);
            return;
        }
        shard_tick(shard, now_ns, &sim->effects);
        break;
    case EVENT_COMMIT:
        disk_commit(sim, node, event->shard);
        break;
    case EVENT_JOURNALED:
        disk_journaled(sim, node, event->shard);
        break;
    case EVENT_LISTED:
        disk_listed(sim, node, event->shard, event->vnode);
        break;
    default:
        disk_loaded(sim, node, event);
        break;
    }
    shell_shard_done(sim, node, event->shard, event->kind != EVENT_TICK);
    clocks_check(sim, node, event, &seen);
    if (event->kind == EVENT_TICK)
        shell_next_tick(sim, node, event->shard);
}

static void closed_event(struct sim *sim, struct node *node, const struct event *event)
{
    const uint64_t other = sim->nodes[event->from].id;
    control_suspect(node->control, other);
    shell_control_tick_at(sim, node, sim->now_ns + 1);
    if (event->lane >= node->shard_count || node->shards[event->lane] == NULL)
        return;
    const bool refused =
        !sim->nodes[event->from].up && !sim->net.links[node->index][event->from].cut;
    shard_peer_closed(node->shards[event->lane], shell_clock(sim, node), other, event->shard,
                      refused, &sim->effects);
    shell_shard_done(sim, node, event->lane, true);
}

/* Whether the event is for a process that has ended, or a tick that was set anew. */
static bool stale(struct node *node, const struct event *event)
{
    const bool own = event->kind == EVENT_TICK || event->kind == EVENT_CONTROL_TICK ||
                     event->kind == EVENT_COMMIT || event->kind == EVENT_JOURNALED ||
                     event->kind == EVENT_LOADED || event->kind == EVENT_LISTED ||
                     event->kind == EVENT_CLOSED;
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

static void carry_out(struct sim *sim, struct node *node, const struct event *event)
{
    switch (event->kind) {
    case EVENT_GOSSIP:
        control_receive(node->control, shell_clock(sim, node), event->bytes, event->len,
                        &sim->effects);
        shell_control_done(sim, node);
        break;
    case EVENT_CONTROL_TICK:
        clocks_look(sim, node);
        control_tick(node->control, shell_clock(sim, node), &sim->effects);
        shell_control_done(sim, node);
        break;
    case EVENT_CLOSED:
        closed_event(sim, node, event);
        break;
    default:
        shard_event(sim, node, event);
        break;
    }
}

bool node_event(struct sim *sim, const struct event *event)
{
    struct node *node = &sim->nodes[event->node];
    if (event->kind == EVENT_START) {
        if (node->up)
            return false;
        node_start(sim, node);
        sim->coverage.restarts += node->boots > 1;
        return true;
    }
    if (postpone(sim, node, event))
        return false;
    const bool frame = event->kind == EVENT_PEER || event->kind == EVENT_GOSSIP;
    if ((frame && !net_arrived(sim, event)) || stale(node, event))
        return false;
    sim->acting = node->index;
    if (clocks_set_back(sim, node)) {
        node_crash(sim, node, true);
        return true;
    }
    carry_out(sim, node, event);
    if (node->up)
        check_event(sim, node); /* of one that ends now too: it has answered some of its step */
    if (sim->crash_due && node->up) {
        sim->coverage.mid_steps++;
        node_crash(sim, node, true);
    } else if (node->up && clocks_judge(sim, node)) {
        node_crash(sim, node, true);
    }
    sim->crash_due = false;
    return true;
}

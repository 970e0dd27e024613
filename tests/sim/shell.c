/* shell.c - carries out what the cores of a simulated node want, and decides when they are ticked.
 *
 * It does what node/runtime does, in virtual time: a shard is ticked after each burst of input and
 * at its deadlines, gets the views that control makes, and what all shards have settled is
 * told to control. What is durable is written before the next event.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/control/control_state.h"
#include "tests/sim/global.h"
#include "tests/sim/phase.h"

#define BURST_NS (SIM_MS / 10)

enum { EFFECT_END_PPM = 40, DURABLE_END_PPM = 50000 };

/* ---- when to tick ---------------------------------------------------------------------------- */

/* The true time of a moment that is near by the node's clock. */
static int64_t true_time(struct sim *sim, struct node *node, int64_t at_ns)
{
    return sim->now_ns + (at_ns - shell_clock(sim, node));
}

void shell_tick_at(struct sim *sim, struct node *node, uint8_t shard, int64_t at_ns)
{
    if (at_ns >= node->tick_at_ns[shard])
        return;
    node->tick_at_ns[shard] = at_ns;
    const struct event event = {.at_ns = at_ns,
                                .kind = EVENT_TICK,
                                .node = node->index,
                                .shard = shard,
                                .tag = node->boots};
    queue_push(&sim->queue, &event);
}

void shell_control_tick_at(struct sim *sim, struct node *node, int64_t at_ns)
{
    const int64_t soon_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns + 1;
    if (soon_ns >= node->control_tick_at_ns)
        return;
    node->control_tick_at_ns = soon_ns;
    const struct event event = {
        .at_ns = soon_ns, .kind = EVENT_CONTROL_TICK, .node = node->index, .tag = node->boots};
    queue_push(&sim->queue, &event);
}

void shell_next_tick(struct sim *sim, struct node *node, uint8_t shard)
{
    const int64_t due_ns = true_time(sim, node, shard_next_deadline(node->shards[shard]));
    shell_tick_at(sim, node, shard, due_ns > sim->now_ns ? due_ns : sim->now_ns + SIM_MS / 20);
}

static void next_control_tick(struct sim *sim, struct node *node)
{
    shell_control_tick_at(sim, node, true_time(sim, node, control_next_deadline(node->control)));
}

/* ---- effects --------------------------------------------------------------------------------- */

static void send_gossip(struct sim *sim, struct node *node, const struct effect *effect)
{
    unsigned a, b, c, d, port;
    if (strncmp(effect->address, WILD_ADDRESS, strlen(WILD_ADDRESS)) == 0)
        return; /* of somebody who was made up: nobody is there */
    if (sscanf(effect->address, "%u.%u.%u.%u:%u", &a, &b, &c, &d, &port) != 5 || d == 0 ||
        d > sim->all_count) {
        sim_fail(sim, "node %u sends gossip to no address: '%s'", node->index, effect->address);
        return;
    }
    check_vote(sim, node, effect->bytes, effect->len);
    net_send(sim, node->index, 0, (uint8_t)(d - 1), EVENT_GOSSIP, 0, false, effect->bytes,
             effect->len);
}

static void send_peer(struct sim *sim, struct node *node, uint8_t shard,
                      const struct effect *effect)
{
    const int to = node_by_id(sim, effect->target);
    if (to < 0 && effect->target >> 32 == WILD_ID)
        return;
    if (sim->options.quorum)
        check_word(sim, node, effect->bytes, effect->len);
    if (sim->global.watching && to >= 0)
        check_global_asks(sim, node, &sim->nodes[to], effect->bytes, effect->len);
    if (to < 0 || effect->shard >= sim->nodes[to].shard_count)
        sim_fail(sim, "node %u sends to no peer: %016llx/%u", node->index,
                 (unsigned long long)effect->target, effect->shard);
    else
        net_send(sim, node->index, shard, (uint8_t)to, EVENT_PEER, (uint8_t)effect->shard,
                 effect->bulk, effect->bytes, effect->len);
}

/* The disk will answer a load or a listing. */
static void ask_disk(struct sim *sim, struct node *node, uint8_t shard, const struct effect *effect)
{
    const struct event event = {
        .at_ns =
            sim->now_ns + random_between(sim_stream(sim, STREAM_DISK), SIM_MS / 20, 8 * SIM_MS),
        .kind = effect->kind == EFFECT_LIST ? EVENT_LISTED : EVENT_LOADED,
        .node = node->index,
        .shard = shard,
        .tag = node->boots,
        .vnode = effect->vnode,
        .id = effect->id,
    };
    queue_push(&sim->queue, &event);
}

static void carry_out_one(struct sim *sim, struct node *node, uint8_t shard,
                          const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_SEND_CLIENT:
        net_reply(sim, (uint8_t)effect->target, effect->bytes, effect->len);
        break;
    case EFFECT_SEND_PEER:
        send_peer(sim, node, shard, effect);
        break;
    case EFFECT_META:
        disk_put_meta(&node->disk, effect->address, effect->bytes, effect->len);
        break;
    case EFFECT_JOINED:
        node->disk.now.identity = *control_identity(node->control);
        node->disk.now.has_identity = true;
        break;
    case EFFECT_INCARNATION:
        if (node->disk.now.incarnation < effect->target)
            node->disk.now.incarnation = effect->target;
        break;
    case EFFECT_SEND_GOSSIP:
        send_gossip(sim, node, effect);
        break;
    case EFFECT_LOAD:
    case EFFECT_LIST:
        ask_disk(sim, node, shard, effect);
        break;
    case EFFECT_ADMIN:
        break;
    case EFFECT_DROP_VNODE:
        disk_drop(sim, node, effect->vnode);
        break;
    }
}

/* Whether the disk has no room for what a core wants kept; then control goes back to what is there.
 */
static bool disk_refuses(struct sim *sim, struct node *node, const struct effect *effect)
{
    if (effect->kind != EFFECT_META || sim->now_ns >= node->disk.full_until_ns ||
        !node->disk.now.has_identity)
        return false;
    const struct disk_meta config = disk_get_meta(&node->disk, CONTROL_CONFIG_KEY);
    const struct disk_meta ballots = disk_get_meta(&node->disk, CONTROL_BALLOTS_KEY);
    const struct control_stored stored = {config.bytes, config.len, ballots.bytes, ballots.len};
    const int error = control_disk_refused(node->control, shell_clock(sim, node), &stored);
    ASSERT(error == 0);
    node_restore_settings(node);
    sim->coverage.refused_values++;
    sim_tell(sim, 2, "n%u has no room for %s", node->index, effect->address);
    return true;
}

/* Whether the process ends after this effect: more often after one that made something durable, and
 * not in the middle of a transaction; and after an answer that a phase finds deadly. */
static bool ends_after(struct sim *sim, struct node *node, const struct effect *effect)
{
    const bool durable = effect->kind == EFFECT_META || effect->kind == EFFECT_INCARNATION;
    if (sim->mid_step && !effect->more &&
        sim_chance(sim, STREAM_MID_STEP, durable ? DURABLE_END_PPM : EFFECT_END_PPM))
        return true;
    return effect->kind == EFFECT_SEND_CLIENT &&
           (hold_ends(sim, node, effect) || reserve_ends(sim, node, effect));
}

/* Carries out what a core wanted. Returns whether the node has got its cluster. */
static bool carry_out(struct sim *sim, struct node *node, uint8_t shard)
{
    bool joined = false;
    for (size_t i = 0; i < sim->effects.count && !sim->crash_due; i++) {
        const struct effect *effect = &sim->effects.items[i];
        if (disk_refuses(sim, node, effect))
            break;
        carry_out_one(sim, node, shard, effect);
        joined = joined || effect->kind == EFFECT_JOINED;
        sim->crash_due = ends_after(sim, node, effect);
    }
    effects_clear(&sim->effects);
    return joined;
}

/* ---- after events ---------------------------------------------------------------------------- */

/* After an event of a shard. */
void shell_shard_done(struct sim *sim, struct node *node, uint8_t shard, bool input)
{
    (void)carry_out(sim, node, shard);
    disk_gather(sim, node, shard);
    if (disk_journal(sim, node, shard))
        (void)carry_out(sim, node, shard);
    if (input)
        shell_tick_at(sim, node, shard,
                      sim->now_ns + 1 +
                          (int64_t)random_below(sim_stream(sim, STREAM_NETWORK), BURST_NS));
    uint64_t settled = UINT64_MAX;
    for (uint8_t i = 0; i < node->shard_count; i++) {
        const uint64_t epoch = shard_settled_epoch(node->shards[i]);
        settled = epoch < settled ? epoch : settled;
    }
    if (settled > node->settled) {
        node->settled = settled;
        control_settled(node->control, settled);
        shell_control_tick_at(sim, node, sim->now_ns + 1);
    }
}

static void give_view(struct sim *sim, struct node *node)
{
    struct view *view = control_view(node->control);
    ASSERT(view != NULL);
    struct view *old = node->view;
    node->view = view;
    sim_tell(sim, 3, "n%u view %llu epoch %llu members %u %s", node->index,
             (unsigned long long)view->version, (unsigned long long)view->epoch, view->member_count,
             view->stable ? "stable" : "in transition");
    for (uint8_t i = 0; i < node->shard_count; i++) {
        shard_view(node->shards[i], shell_clock(sim, node), view, &sim->effects);
        shell_shard_done(sim, node, i, true);
    }
    view_free(&old);
}

/* After an event of the control core. */
void shell_control_done(struct sim *sim, struct node *node)
{
    if (carry_out(sim, node, 0)) {
        sim_tell(sim, 1, "n%u has its cluster", node->index);
        sim->coverage.joins++;
        for (uint8_t i = 0; i < node->shard_count; i++)
            node_start_shard(sim, node, i);
    }
    if (sim->now_ns >= node->disk.full_until_ns)
        control_disk_has_room(node->control);
    if (control_view_due(node->control))
        give_view(sim, node);
    next_control_tick(sim, node);
}

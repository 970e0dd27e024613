/* net.c - the network of the simulation: connections, delay, order, loss, splits, bounded queues.
 *
 * Nodes talk as ZeroMQ sockets over TCP do. Each pair of sockets has a connection of its own that
 * one side makes:
 *
 *            connect, answered           ended, reset, or nothing heard for too long
 *     down --------------------> up  -----------------------------------------------> down
 *       ^ |                                 the side that made it is told; what was under way
 *       +-+ in vain: again after 50 ms,     is lost; it connects again after 50 ms
 *           doubled up to 500 ms
 *
 * SIMNET-1  Nothing is queued for a connection that is down, but gossip, of which a few frames
 *           wait.
 * SIMNET-2  Frames of one connection arrive in order, unless a fault says otherwise; those of a
 *           broken one never arrive, those that a process sent before it ended do.
 * SIMNET-3  A split holds frames back, as TCP does: they arrive when it heals, late and in order,
 *           unless the connection was given up meanwhile.
 * SIMNET-4  Each connection holds a bounded number of frames; what comes on top is lost, as a full
 *           socket loses it.
 *
 * Complete copies have connections of their own between the same sockets, often slower ones; nobody
 * is told when they end. Beyond what TCP does, faults may lose, repeat, delay and reorder single
 * frames. Clients are near: their frames take a short time, and are lost by a fault of their own,
 * or by a crash.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/wire/peer_wire.h"
#include "tests/sim/sim.h"

enum {
    RETRY_MS = 50,
    RETRY_MAX_MS = 500,
    RESEND_MAX_MS = 1000, /* TCP sends again after a split, at the latest */
    LATE_MS = 300,
    COPIES_PPM = 20000, /* a connection for copies is held up now and then */
    COPIES_MS = 40,
    PAIRS = SIM_SHARDS_MAX * SIM_SHARDS_MAX,
};

#define REMOTE_SALT UINT64_C(0x61627264)

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_NETWORK);
}

static int64_t jitter(struct sim *sim, int64_t max_ns)
{
    return (int64_t)random_below(stream(sim), (uint64_t)max_ns);
}

/* A wide area lies between regions. */
static void init_remote(struct sim *sim)
{
    struct random random;
    random_init(&random, hash_mix64(sim->options.seed) ^ REMOTE_SALT);
    for (uint32_t a = 0; a < sim->all_count; a++) {
        for (uint32_t b = 0; b < sim->all_count; b++) {
            struct net_link *link = &sim->net.links[a][b];
            if (a < sim->node_count && b < sim->node_count)
                continue;
            const bool near = a >= sim->node_count && b >= sim->node_count;
            link->delay_ns = near ? SIM_MS / 5 : random_between(&random, 20 * SIM_MS, 80 * SIM_MS);
            link->jitter_ns = SIM_MS;
        }
    }
}

void net_init(struct sim *sim)
{
    struct random *random = stream(sim);
    init_remote(sim);
    for (uint32_t a = 0; a < sim->node_count; a++) {
        for (uint32_t b = 0; b < sim->node_count; b++) {
            struct net_link *link = &sim->net.links[a][b];
            const int64_t most_ns = sim->options.far ? 12 * SIM_MS : 2 * SIM_MS;
            link->delay_ns = random_between(random, SIM_MS / 20, most_ns);
            link->jitter_ns = random_between(random, SIM_MS / 50, most_ns * 3 / 2);
        }
    }
}

static void drop_held(struct net_connection *connection)
{
    for (uint32_t i = 0; i < connection->held_count; i++)
        free(connection->held[i].bytes);
    connection->held_count = 0;
}

void net_fini(struct sim *sim)
{
    for (uint32_t a = 0; a < SIM_ALL_MAX; a++) {
        for (uint32_t b = 0; b < SIM_ALL_MAX; b++) {
            for (uint32_t lane = 0; lane < NET_LANES; lane++) {
                drop_held(&sim->net.links[a][b].lanes[lane]);
                free(sim->net.links[a][b].lanes[lane].held);
            }
        }
    }
}

static uint8_t lane_of(uint8_t from_shard, uint8_t to_shard, bool bulk)
{
    return (uint8_t)(1 + (bulk ? PAIRS : 0) + from_shard * SIM_SHARDS_MAX + to_shard);
}

static bool is_bulk(uint8_t lane)
{
    return lane > PAIRS;
}

static uint8_t from_shard_of(uint8_t lane)
{
    return (uint8_t)((lane - 1) % PAIRS / SIM_SHARDS_MAX);
}

static uint8_t to_shard_of(uint8_t lane)
{
    return (uint8_t)((lane - 1) % SIM_SHARDS_MAX);
}

/* Whether a conversation between the two is impossible. */
static bool cut_between(const struct sim *sim, uint8_t a, uint8_t b)
{
    return sim->net.links[a][b].cut || sim->net.links[b][a].cut;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Lets a frame travel; `patience_ns` more than the link takes. */
static void travel(struct sim *sim, struct net_link *link, const struct event *pattern,
                   int64_t more_ns)
{
    const struct net_faults *faults = &sim->net.faults;
    struct net_connection *connection = &link->lanes[pattern->lane];
    struct event event = *pattern;
    event.at_ns = sim->now_ns + link->delay_ns + link->slow_ns + jitter(sim, link->jitter_ns);
    const bool late = sim_chance(sim, STREAM_NETWORK, faults->late_ppm);
    const bool reorder = sim_chance(sim, STREAM_NETWORK, faults->reorder_ppm);
    event.at_ns += more_ns + (late ? jitter(sim, LATE_MS * SIM_MS) : 0);
    if (is_bulk(pattern->lane) && sim_chance(sim, STREAM_NETWORK, COPIES_PPM))
        event.at_ns += jitter(sim, COPIES_MS * SIM_MS);
    if (!late && !reorder) {
        if (event.at_ns <= connection->arrives_ns)
            event.at_ns = connection->arrives_ns + 1; /* SIMNET-2 */
        connection->arrives_ns = event.at_ns;
    }
    sim->coverage.late += late;
    sim->coverage.reordered += reorder;
    connection->under_way++;
    queue_push(&sim->queue, &event);
}

static void hold(struct sim *sim, struct net_connection *connection, const struct event *event)
{
    const uint32_t most = event->lane == NET_GOSSIP ? NET_GOSSIP_QUEUE_MAX : NET_QUEUE_MAX;
    if (connection->held_count == most) { /* SIMNET-4 */
        sim->coverage.full++;
        free(event->bytes);
        return;
    }
    if (connection->held_count == connection->held_capacity) {
        connection->held_capacity =
            connection->held_capacity == 0 ? 16 : connection->held_count * 2;
        connection->held =
            realloc(connection->held, connection->held_capacity * sizeof *connection->held);
        ASSERT(connection->held != NULL);
    }
    connection->held[connection->held_count++] = *event;
    sim->coverage.held++;
}

/* What was held back goes on its way, in order. */
static void release(struct sim *sim, struct net_link *link, uint8_t lane, int64_t more_ns)
{
    struct net_connection *connection = &link->lanes[lane];
    for (uint32_t i = 0; i < connection->held_count; i++) {
        connection->held[i].tag = connection->number;
        travel(sim, link, &connection->held[i], more_ns);
    }
    connection->held_count = 0;
}

static void connect_later(struct sim *sim, uint8_t from, uint8_t to, uint8_t lane)
{
    struct net_connection *connection = &sim->net.links[from][to].lanes[lane];
    int64_t wait_ms = connection->attempts == 0 ? 0 : RETRY_MS;
    for (uint32_t i = 1; i < connection->attempts && wait_ms < RETRY_MAX_MS; i++)
        wait_ms *= 2;
    if (wait_ms > RETRY_MAX_MS)
        wait_ms = RETRY_MAX_MS;
    connection->connecting = true;
    const struct event event = {
        .at_ns = sim->now_ns + wait_ms * SIM_MS + jitter(sim, (wait_ms + 2) * SIM_MS),
        .kind = EVENT_CONNECT,
        .node = from,
        .from = to,
        .lane = lane,
        .tag = sim->nodes[from].boots,
    };
    queue_push(&sim->queue, &event);
}

static void send_on(struct sim *sim, uint8_t from, uint8_t to, const struct event *event)
{
    struct net_link *link = &sim->net.links[from][to];
    struct net_connection *connection = &link->lanes[event->lane];
    if (link->cut) {
        hold(sim, connection, event); /* SIMNET-3 */
    } else if (connection->under_way >= NET_QUEUE_MAX) {
        sim->coverage.full++;
        free(event->bytes);
    } else if (sim_chance(sim, STREAM_NETWORK, sim->net.faults.lose_ppm)) {
        sim->coverage.lost++;
        free(event->bytes);
    } else {
        travel(sim, link, event, 0);
        if (!sim_chance(sim, STREAM_NETWORK, sim->net.faults.repeat_ppm))
            return;
        struct event again = *event;
        again.bytes = sim_copy(event->bytes, event->len);
        sim->coverage.repeated++;
        travel(sim, link, &again, 0);
    }
}

/* Whether the frame says something about checks. */
static bool of_checks(struct sim *sim, enum event_kind kind, const uint8_t *bytes, size_t len)
{
    struct peer_envelope envelope;
    struct peer_record record;
    struct bytes_reader reader;
    if (kind != EVENT_PEER || peer_decode(bytes, len, &envelope) != 0)
        return false;
    bool speaks = false;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (!speaks && peer_next(&reader, 2 * sim->vnodes, &record) == 1)
        speaks = record.type == PEER_FORWARD || record.type == PEER_ANSWER ||
                 record.type == PEER_REMOTE_ASK || record.type == PEER_REMOTE_ANSWER;
    return speaks;
}

void net_send(struct sim *sim, uint8_t from, uint8_t from_shard, uint8_t to, enum event_kind kind,
              uint8_t shard, bool bulk, const uint8_t *bytes, size_t len)
{
    const uint8_t lane = kind == EVENT_GOSSIP ? NET_GOSSIP : lane_of(from_shard, shard, bulk);
    struct net_connection *connection = &sim->net.links[from][to].lanes[lane];
    sim->coverage.sent++;
    if (!connection->up && !connection->connecting)
        connect_later(sim, from, to, lane);
    if (!connection->up && lane != NET_GOSSIP) { /* SIMNET-1 */
        if (sim->global.calm && of_checks(sim, kind, bytes, len))
            sim->global.calm = false; /* an answer with tokens may be among it: they are spent */
        sim->coverage.unconnected++;
        return;
    }
    if (sim->net.mute_ppm > 0 && of_checks(sim, kind, bytes, len) &&
        sim_chance(sim, STREAM_NETWORK, sim->net.mute_ppm)) {
        sim->coverage.lost++;
        return;
    }
    const struct event event = {
        .kind = kind,
        .node = to,
        .shard = shard,
        .from = from,
        .lane = lane,
        .tag = connection->number,
        .len = (uint32_t)len,
        .bytes = sim_copy(bytes, len),
    };
    if (!connection->up)
        hold(sim, connection, &event);
    else
        send_on(sim, from, to, &event);
}

bool net_arrived(struct sim *sim, const struct event *event)
{
    struct net_connection *connection =
        &sim->net.links[event->from][event->node].lanes[event->lane];
    if (connection->under_way > 0)
        connection->under_way--;
    sim->coverage.broken += event->tag < connection->valid_from;
    return event->tag >= connection->valid_from;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void connect_now(struct sim *sim, uint8_t from, uint8_t to, uint8_t lane)
{
    struct net_connection *connection = &sim->net.links[from][to].lanes[lane];
    connection->connecting = false;
    if (!sim->nodes[to].up || cut_between(sim, from, to)) {
        connection->attempts++;
        connect_later(sim, from, to, lane);
        return;
    }
    connection->up = true;
    connection->attempts = 0;
    connection->number++;
    connection->arrives_ns = sim->now_ns;
    release(sim, &sim->net.links[from][to], lane, 0);
}

/* Ends a connection; `told`: the side that made it sees it. */
static void end(struct sim *sim, uint8_t from, uint8_t to, uint8_t lane, bool told)
{
    struct net_connection *connection = &sim->net.links[from][to].lanes[lane];
    connection->up = false;
    connection->valid_from = connection->number + 1; /* SIMNET-2 */
    connection->attempts = 1;
    drop_held(connection);
    sim->coverage.breaks++;
    connect_later(sim, from, to, lane);
    if (!told || lane == NET_GOSSIP || is_bulk(lane))
        return;
    const struct event event = {
        .at_ns = sim->now_ns + SIM_MS / 20 + jitter(sim, 3 * SIM_MS),
        .kind = EVENT_CLOSED,
        .node = from,
        .from = to,
        .shard = to_shard_of(lane),
        .lane = from_shard_of(lane),
        .tag = sim->nodes[from].boots,
    };
    queue_push(&sim->queue, &event);
}

/* The connection will be given up unless something is heard again. */
static void doubt(struct sim *sim, uint8_t from, uint8_t to, uint8_t lane)
{
    const struct net_connection *connection = &sim->net.links[from][to].lanes[lane];
    const int64_t patience_ns = sim->options.heartbeat_ms * SIM_MS;
    if (!connection->up || lane == NET_GOSSIP)
        return;
    const struct event event = {
        .at_ns = sim->now_ns + patience_ns + jitter(sim, patience_ns / 3),
        .kind = EVENT_BREAK,
        .node = from,
        .from = to,
        .lane = lane,
        .tag = connection->number,
    };
    queue_push(&sim->queue, &event);
}

void net_event(struct sim *sim, const struct event *event)
{
    const struct net_connection *connection =
        &sim->net.links[event->node][event->from].lanes[event->lane];
    const int64_t patience_ns = sim->options.heartbeat_ms * SIM_MS;
    if (event->kind == EVENT_CONNECT) {
        if (sim->nodes[event->node].up && event->tag == sim->nodes[event->node].boots)
            connect_now(sim, event->node, event->from, event->lane);
        return;
    }
    if (!connection->up || connection->number != event->tag)
        return;
    const struct net_link *there = &sim->net.links[event->node][event->from];
    const struct net_link *back = &sim->net.links[event->from][event->node];
    const bool silent = !sim->nodes[event->from].up ||
                        (there->cut && sim->now_ns - there->cut_ns >= patience_ns) ||
                        (back->cut && sim->now_ns - back->cut_ns >= patience_ns);
    if (silent)
        end(sim, event->node, event->from, event->lane, true);
}

void net_ended(struct sim *sim, uint8_t node, bool told)
{
    for (uint8_t other = 0; other < sim->all_count; other++) {
        for (uint8_t lane = 0; lane < NET_LANES; lane++) {
            struct net_connection *own = &sim->net.links[node][other].lanes[lane];
            own->up = false;
            own->connecting = false;
            own->attempts = 0;
            drop_held(own);
            if (other == node || !sim->net.links[other][node].lanes[lane].up)
                continue;
            if (told && !cut_between(sim, node, other))
                end(sim, other, node, lane, true);
            else
                doubt(sim, other, node, lane);
        }
    }
}

void net_started(struct sim *sim, uint8_t node)
{
    for (uint8_t other = 0; other < sim->all_count; other++) {
        for (uint8_t lane = 0; lane < NET_LANES; lane++) {
            struct net_connection *connection = &sim->net.links[other][node].lanes[lane];
            if (other != node && connection->up)
                end(sim, other, node, lane, true);
            connection->valid_from = connection->number + 1;
        }
    }
}

bool net_reset(struct sim *sim)
{
    enum { TRIES = 64 };
    for (uint32_t i = 0; i < TRIES; i++) {
        const uint8_t from = (uint8_t)random_below(stream(sim), sim->node_count);
        const uint8_t to = (uint8_t)random_below(stream(sim), sim->node_count);
        const uint8_t lane = (uint8_t)random_below(stream(sim), NET_LANES);
        if (from == to || !sim->nodes[from].up || !sim->nodes[to].up ||
            !sim->net.links[from][to].lanes[lane].up)
            continue;
        sim_tell(sim, 1, "the connection of n%u to n%u is reset (lane %u)", from, to, lane);
        sim->coverage.resets++;
        end(sim, from, to, lane, true);
        return true;
    }
    return false;
}

/* ---- splits ---------------------------------------------------------------------------------- */

static void cut_one(struct sim *sim, uint8_t a, uint8_t b, bool at_once)
{
    sim->net.links[a][b].cut = true;
    sim->net.links[a][b].cut_ns = sim->now_ns;
    for (uint8_t lane = 1; lane < NET_LANES; lane++) {
        if (at_once && sim->net.links[a][b].lanes[lane].up)
            end(sim, a, b, lane, true);
        if (at_once && sim->net.links[b][a].lanes[lane].up)
            end(sim, b, a, lane, true);
        doubt(sim, a, b, lane);
        doubt(sim, b, a, lane);
    }
}

void net_cut_between(struct sim *sim, uint32_t from, uint32_t to, bool one_way, bool at_once)
{
    for (uint8_t a = 0; a < sim->all_count; a++) {
        for (uint8_t b = 0; b < sim->all_count; b++) {
            const bool there = (from >> a & 1) != 0 && (to >> b & 1) != 0;
            const bool back = (to >> a & 1) != 0 && (from >> b & 1) != 0;
            if ((there || (back && !one_way)) && !sim->net.links[a][b].cut)
                cut_one(sim, a, b, at_once);
        }
    }
}

void net_cut(struct sim *sim, uint32_t side, bool one_way, bool at_once)
{
    net_cut_between(sim, side, ~side, one_way, at_once);
}

void net_heal(struct sim *sim)
{
    for (uint8_t a = 0; a < sim->all_count; a++) {
        for (uint8_t b = 0; b < sim->all_count; b++) {
            struct net_link *link = &sim->net.links[a][b];
            link->slow_ns = 0;
            if (!link->cut)
                continue;
            link->cut = false;
            const int64_t blocked_ns = sim->now_ns - link->cut_ns;
            for (uint8_t lane = 0; lane < NET_LANES; lane++) {
                if (!link->lanes[lane].up || link->lanes[lane].held_count == 0)
                    continue;
                const int64_t most_ns =
                    blocked_ns < RESEND_MAX_MS * SIM_MS ? blocked_ns : RESEND_MAX_MS * SIM_MS;
                release(sim, link, lane, jitter(sim, most_ns + 1));
            }
        }
    }
    sim->net.faults = (struct net_faults){0};
}

/* ---- clients --------------------------------------------------------------------------------- */

static void near(struct sim *sim, struct event *event, const uint8_t *bytes, size_t len)
{
    event->at_ns = sim->now_ns + SIM_MS / 20 + jitter(sim, SIM_MS / 5);
    if (sim_chance(sim, STREAM_NETWORK, sim->net.deaf_ppm))
        return;
    event->len = (uint32_t)len;
    event->bytes = sim_copy(bytes, len);
    queue_push(&sim->queue, event);
}

void net_ask(struct sim *sim, uint8_t client, uint8_t node, uint8_t shard, const uint8_t *bytes,
             size_t len)
{
    struct event event = {.kind = EVENT_CLIENT, .node = node, .shard = shard, .from = client};
    near(sim, &event, bytes, len);
}

void net_reply(struct sim *sim, uint8_t client, const uint8_t *bytes, size_t len)
{
    struct event event = {.kind = EVENT_REPLY, .node = client};
    near(sim, &event, bytes, len);
}

/* shard_loop.c - the event loop of one shard; shard_loop.h draws it.
 *
 * ZMQ_FD tells that a socket has commands, which only a call on the socket takes away. So a socket
 * is *due* from the moment its descriptor is readable, or something was sent through it (which may
 * have taken the commands that told of messages), until it was read empty; one that is still due at
 * the end of a turn (its budget was used up) keeps the loop from sleeping by an idle handle.
 * A look at a socket costs several system calls, so one that is not due is left alone.
 *
 * SHARDLOOP-1  Only this thread touches the shard core, its sockets and its links.
 * SHARDLOOP-2  After a turn no socket is due, or the idle handle is active, or they are closed.
 * SHARDLOOP-3  Nothing is decided after the last write: the shard has resigned, and peers are heard
 *              no more before it is asked for. Clients are left in order meanwhile.
 * SHARDLOOP-4  The shard never holds more than POLICIES_HELD_MAX sets of rules, however long
 *              requests wait that refer to old ones; newer ones wait here.
 */
#include "node/runtime/shard/shard_loop.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/assert.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/model/usage_tally.h"
#include "node/gateway/http/http_gate.h"
#include "node/gateway/resp_gate.h"
#include "node/gateway/zmtp.h"
#include "node/runtime/shard/clients.h"
#include "node/runtime/shard/connections.h"
#include "node/runtime/shard/front.h"
#include "node/runtime/shard/links.h"
#include "node/runtime/system/failure.h"
#include "node/runtime/system/listener.h"
#include "node/runtime/system/socket.h"

enum {
    PEERS_BURST_US = 8000, /* of peers: at least, and at least as long as the rest of a turn */
    PEERS_BURST_MAX_US = 200 * 1000,
    STATS_EVERY_MS = 1000, /* nobody asked */
    STATS_ASKED_MS = 100,  /* somebody asked not long ago */
    STATS_LONG_MS = 5000,  /* how long "not long ago" is */
    TIMER_REPEAT_MS = 1,
    WRITES_BYTES = 12 << 20,
    WRITE_SLOT_NS = 50, /* about: of a slot that is found, put in order, or copied */
    WRITE_EFFORT_MIN = 1024,
    JOURNAL_BYTES = 4 << 20,
    POLICIES_HELD_MAX = 6, /* less than a shard keeps (SHARD_POLICIES_MAX) */
};

#define LOG_ROOM_NS INT64_C(60000000000)

static_assert((int)STATS_ASKED_MS < (int)STATS_EVERY_MS, "who asks is told newer figures");
static_assert((int)JOURNAL_BYTES >= (int)SHARD_JOURNAL_BYTES_MIN, "any slot fits a batch");

/* What other threads are told: a copy, under the loop's lock. */
struct told_figures {
    struct shard_stats stats;
    struct shard_told more;
    int64_t asked_ns; /* when one of them wanted to know */
};

struct http_clients {
    struct front front;
    struct http_gate *gate;
    struct http_stats told; /* a copy, under stats_lock */
};

/* What peers' clocks were seen to tell. */
struct told_clocks {
    struct cluster_time_sample samples[SHARD_LOOP_CLOCKS_MAX];
    uint32_t count;
    int64_t told_ns; /* when they were left there; the loop's own */
};

struct shard_loop {
    struct shard_loop_options options;
    struct disk *disk;
    struct effects effects;
    struct links *links;
    struct front native;
    struct zmtp_gate zmtp; /* of these */
    struct clients *clients;
    struct front redis;
    struct resp_gate *resp; /* of these */
    struct http_clients http;
    struct policy *policy_next; /* rules that the shard has no room for yet, or NULL */
    uint32_t policies_held;     /* by the shard */
    uint64_t policies_got;      /* messages so far */
    _Atomic uint64_t policies;  /* of these, up to which one the shard has what they brought */
    const struct view *view;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    uv_idle_t idle;
    uv_poll_t poll_peers;
    uv_poll_t poll_links;
    bool peers_due;
    bool links_due;
    struct mailbox mailbox;
    struct socket_holder holder; /* of peers' frames */
    struct shard_writes writes;
    struct shard_journal journal;
    pthread_t thread;
    bool opened; /* `loop` is there to be closed */
    bool started;
    bool resigning;
    bool closed; /* nothing is read any more: what is decided from here on would not be written */
    bool idle_told;
    bool stopping;
    uint64_t settled_told;
    uint64_t keys_told;             /* as it is part of *options.keys */
    struct usage_tally *usage_seen; /* to be given to control, if `usage_due` */
    bool usage_due;
    int64_t stats_ns;
    struct shard_stats told;    /* as the log told last of keys without room, */
    int64_t told_ns;            /* and when; 0: never */
    int64_t rest_ns;            /* how long the last turn took, beside reading */
    pthread_mutex_t stats_lock; /* of what is below */
    struct told_figures figures;
    struct told_clocks clocks;
};

static int64_t now_of(const struct shard_loop *loop)
{
    return clock_now_ns(loop->options.clock);
}

/* ---- effects --------------------------------------------------------------------------------- */

/* What is more than the disk takes at a time has an answer as well: it is refused. */
static void load(struct shard_loop *loop, const struct effect *effect)
{
    const int error = disk_load(loop->disk, loop->options.number, effect->vnode, effect->id);
    ASSERT(error == 0);
}

static void reply(struct shard_loop *loop, uint64_t connection, const void *data, size_t len)
{
    if (connection == ANSWERED_REDIS_CONNECTION)
        connections_answer(loop->redis.connections, data, len);
    else if (connection == ANSWERED_HTTP_CONNECTION)
        connections_answer(loop->http.front.connections, data, len);
    else
        (void)connections_put(loop->native.connections, connection, data, len);
}

/* Keys that found no room, and what became of that: told when it begins, and once a minute. */
static void log_room(struct shard_loop *loop, const struct shard_stats *stats)
{
    const struct shard_stats *told = &loop->told;
    if (stats->turned_away == told->turned_away && stats->uncounted == told->uncounted &&
        stats->forgotten == told->forgotten)
        return;
    if (loop->told_ns != 0 && loop->stats_ns - loop->told_ns < LOG_ROOM_NS)
        return;
    log_printf(loop->options.log, LOG_LEVEL_WARN,
               "shard %" PRIu32 ": no room for new keys: %" PRIu64 " checks refused, %" PRIu64
               " tokens allowed uncounted by on_failure: open, %" PRIu64
               " slots lost to a bad disk, since this was told last",
               loop->options.number, stats->turned_away - told->turned_away,
               stats->uncounted - told->uncounted, stats->forgotten - told->forgotten);
    loop->told = *stats;
    loop->told_ns = loop->stats_ns;
}

/* Leaves a copy of the counters where other threads find it. */
static void tell_stats(struct shard_loop *loop)
{
    struct shard_stats stats;
    loop->stats_ns = now_of(loop);
    shard_stats(loop->options.shard, &stats);
    log_room(loop, &stats);
    atomic_fetch_add(loop->options.keys, stats.slots - loop->keys_told);
    loop->keys_told = stats.slots;
    (void)pthread_mutex_lock(&loop->stats_lock);
    loop->figures.stats = stats;
    shard_told(loop->options.shard, &loop->figures.more);
    loop->native.told = loop->native.stats;
    loop->redis.told = loop->redis.stats;
    loop->http.front.told = loop->http.front.stats;
    if (loop->http.gate != NULL)
        http_gate_stats(loop->http.gate, &loop->http.told);
    (void)pthread_mutex_unlock(&loop->stats_lock);
}

/* An operator asks through this shard: what it is answered with is to be new. */
static void ask_control(struct shard_loop *loop, const struct effect *effect)
{
    tell_stats(loop);
    if (mailbox_put_copy(loop->options.control, MESSAGE_ADMIN, loop->options.number, effect->target,
                         effect->bytes, effect->len))
        connections_asked(loop->native.connections, effect->target);
}

static void carry_out_one(struct shard_loop *loop, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_SEND_CLIENT:
        reply(loop, effect->target, effect->bytes, effect->len);
        break;
    case EFFECT_SEND_PEER:
        links_send(loop->links, effect->target, effect->shard, effect->bulk, effect->bytes,
                   effect->len);
        break;
    case EFFECT_LOAD:
        load(loop, effect);
        break;
    case EFFECT_LIST:
        disk_list(loop->disk, loop->options.number, effect->vnode);
        break;
    case EFFECT_DROP_VNODE:
        disk_drop(loop->disk, loop->options.number, effect->vnode);
        break;
    case EFFECT_ADMIN:
        ask_control(loop, effect);
        break;
    case EFFECT_SEND_GOSSIP:
    case EFFECT_META:
    case EFFECT_JOINED:
    case EFFECT_INCARNATION:
        ASSERT(false); /* the control core's */
    }
}

static void carry_out(struct shard_loop *loop)
{
    for (size_t i = 0; i < loop->effects.count; i++)
        carry_out_one(loop, &loop->effects.items[i]);
    effects_clear(&loop->effects);
}

/* ---- input ----------------------------------------------------------------------------------- */

/* What can be answered at once is, before this returns. */
static void decide(void *context, uint64_t connection, const void *data, size_t len)
{
    struct shard_loop *loop = context;
    const int64_t began_ns = now_of(loop);
    shard_client(loop->options.shard, began_ns, connection, data, len, &loop->effects);
    carry_out(loop);
    shard_took(loop->options.shard, now_of(loop) - began_ns);
}

static void refuse_client(void *context, uint64_t connection, const void *data, size_t len)
{
    struct shard_loop *loop = context;
    shard_refuse(loop->options.shard, now_of(loop), connection, data, len, &loop->effects);
    carry_out(loop);
}

static void submit_redis(void *context, const void *frame, size_t len)
{
    decide(context, ANSWERED_REDIS_CONNECTION, frame, len);
}

static void submit_http(void *context, const void *frame, size_t len)
{
    decide(context, ANSWERED_HTTP_CONNECTION, frame, len);
}

static bool take_native(void *context, uint64_t connection, const void *data, size_t len)
{
    struct shard_loop *loop = context;
    return clients_take(loop->clients, connection, data, len);
}

static void owe_native(void *context, uint64_t connection)
{
    connections_owe(context, connection);
}

/* What native clients have asked and the shard has not answered. */
static void tell_owed(void *context, struct connections *connections)
{
    struct shard_loop *loop = context;
    clients_each_waiting(loop->clients, owe_native, connections);
    shard_each_waiting(loop->options.shard, owe_native, connections);
}

static void end_native(void *context, bool empty)
{
    struct shard_loop *loop = context;
    clients_end(loop->clients, empty);
}

/* Those that were taken and wait are decided also where nothing more is to be read. */
static void read_native(struct shard_loop *loop)
{
    if (!front_has_work(&loop->native, now_of(loop)) && !clients_waiting(loop->clients))
        return;
    clients_begin(loop->clients);
    front_turn(&loop->native);
}

static void read_redis(struct shard_loop *loop)
{
    if (front_has_work(&loop->redis, now_of(loop)))
        front_turn(&loop->redis);
}

/* Why the node is not ready to be asked, or NULL. */
static const char *waits_for(const struct shard_loop *loop)
{
    if (loop->view == NULL)
        return "the node has no place in the cluster yet";
    const struct view_member *self = &loop->view->members[loop->view->self];
    if (loop->resigning || self->stops)
        return "the node stops";
    return self->drains ? "the node leaves the cluster" : NULL;
}

static void read_http(struct shard_loop *loop)
{
    const enum http_stage stage = loop->resigning ? HTTP_ENDS : HTTP_SERVES;
    if (!front_has_work(&loop->http.front, now_of(loop)))
        return;
    http_gate_stage(loop->http.gate, stage, waits_for(loop), shard_policy_now(loop->options.shard));
    front_turn(&loop->http.front);
}

/* Where a turn's other work takes long, reading may take as long: else frames would come faster
 * than they are read, and wait longer and longer. */
static int64_t peers_burst_ns(const struct shard_loop *loop)
{
    const int64_t least_ns = (int64_t)PEERS_BURST_US * 1000;
    const int64_t most_ns = (int64_t)PEERS_BURST_MAX_US * 1000;
    const int64_t rest_ns = loop->rest_ns < most_ns ? loop->rest_ns : most_ns;
    return rest_ns > least_ns ? rest_ns : least_ns;
}

/* Reads what peers sent. If more is left, nobody may be judged silent meanwhile. */
static void read_peers(struct shard_loop *loop)
{
    const int64_t until_ns = now_of(loop) + peers_burst_ns(loop);
    struct socket_message message;
    while (socket_receive(loop->options.peers, &loop->holder, &message) > 0) {
        shard_peer(loop->options.shard, now_of(loop), message.data, message.odd ? 0 : message.len,
                   &loop->effects);
        carry_out(loop);
        failure_frame(loop->options.failpoints, FAILURE_RECEIVED, message.data, message.len);
        if (now_of(loop) < until_ns)
            continue;
        loop->peers_due = socket_readable(loop->options.peers);
        if (loop->peers_due)
            shard_unread(loop->options.shard, now_of(loop));
        return;
    }
    loop->peers_due = false;
}

static void lost(void *context, uint64_t node, uint16_t shard, bool refused)
{
    struct shard_loop *loop = context;
    shard_peer_closed(loop->options.shard, now_of(loop), node, shard, refused, &loop->effects);
    carry_out(loop);
    const struct mailbox_message message = {
        .kind = MESSAGE_CLOSED, .shard = loop->options.number, .number = node};
    (void)mailbox_put(loop->options.control, &message);
}

static void read_disk(struct shard_loop *loop)
{
    struct disk_result result;
    while (disk_poll(loop->disk, loop->options.number, &result)) {
        if (result.kind == DISK_JOURNALED)
            shard_journaled(loop->options.shard, now_of(loop), result.ok, &loop->effects);
        else if (result.kind == DISK_WRITTEN)
            shard_written(loop->options.shard, now_of(loop), result.ok);
        else if (result.kind == DISK_LISTED)
            shard_listed(loop->options.shard, now_of(loop), result.vnode, result.ids, result.count,
                         result.last, result.result);
        else
            shard_loaded(loop->options.shard, now_of(loop), result.vnode, result.id, result.result,
                         result.bytes, result.len, &loop->effects);
        carry_out(loop);
    }
}

static void take_view(struct shard_loop *loop, struct view *view)
{
    struct view *old = (struct view *)(uintptr_t)loop->view;
    loop->view = view;
    http_gate_members(loop->http.gate, view_up(view));
    links_follow(loop->links, view);
    shard_view(loop->options.shard, now_of(loop), view, &loop->effects);
    carry_out(loop);
    view_free(&old);
}

/* Only the newest rules wait; ones that were overtaken are never put in force (SHARDLOOP-4). */
static void take_policy(struct shard_loop *loop, struct policy *policy)
{
    policy_free(&loop->policy_next);
    loop->policy_next = policy;
    loop->policies_got++;
}

/* Takes back what no waiting request refers to any more, and gives the newest rules if the shard
 * has room for them. */
static void exchange_policies(struct shard_loop *loop)
{
    const struct policy *unused;
    while ((unused = shard_policy_unused(loop->options.shard)) != NULL) {
        struct policy *old = (struct policy *)(uintptr_t)unused;
        ASSERT(loop->policies_held > 1); /* the newest one is never unused */
        policy_free(&old);
        loop->policies_held--;
    }
    if (loop->policy_next == NULL || loop->policies_held == POLICIES_HELD_MAX)
        return;
    shard_policy(loop->options.shard, loop->policy_next);
    resp_gate_policy(loop->resp, loop->policy_next);
    atomic_store(&loop->policies, loop->policies_got);
    loop->policy_next = NULL;
    loop->policies_held++;
    ASSERT(loop->policies_held <= POLICIES_HELD_MAX); /* SHARDLOOP-4 */
}

static void read_messages(struct shard_loop *loop)
{
    struct mailbox_message message;
    while (mailbox_take(&loop->mailbox, &message)) {
        switch (message.kind) {
        case MESSAGE_VIEW:
            take_view(loop, message.pointer);
            break;
        case MESSAGE_POLICY:
            take_policy(loop, message.pointer);
            break;
        case MESSAGE_REPLY:
            reply(loop, message.number, message.pointer, message.len);
            free(message.pointer);
            break;
        case MESSAGE_RESIGN:
            loop->resigning = true;
            break;
        case MESSAGE_USAGE:
            ASSERT(!loop->usage_due && loop->usage_seen == NULL); /* USAGE-1 */
            loop->usage_seen = shard_usage(loop->options.shard, message.pointer);
            loop->usage_due = true;
            break;
        case MESSAGE_STOP:
            loop->stopping = true;
            break;
        case MESSAGE_ADMIN:
        case MESSAGE_CLOSED:
        case MESSAGE_SETTLED:
        case MESSAGE_IDLE:
            ASSERT(false); /* the control loop's */
        }
    }
}

/* ---- a turn ---------------------------------------------------------------------------------- */

/* How many slots write-back may handle now: as many as take about as long as reading has taken in
 * this turn. So nobody waits for much longer than for others, and where turns are long a round is
 * not made longer by there being few of them. (To note that a batch is written is not divided.) */
static uint32_t write_effort(int64_t read_ns)
{
    const int64_t slots = read_ns / WRITE_SLOT_NS;
    if (slots < WRITE_EFFORT_MIN)
        return WRITE_EFFORT_MIN;
    return slots < DISK_WRITES_MAX ? (uint32_t)slots : DISK_WRITES_MAX;
}

static void write_back(struct shard_loop *loop, int64_t read_ns)
{
    const int64_t now_ns = now_of(loop);
    shard_close(loop->options.shard, disk_closed(loop->disk));
    if (!shard_write_due(loop->options.shard, now_ns))
        return;
    loop->writes.effort = write_effort(read_ns);
    shard_gather(loop->options.shard, now_ns, &loop->writes);
    ASSERT(loop->writes.count <= loop->writes.capacity);
    if (loop->writes.count > 0)
        disk_write(loop->disk, loop->options.number, &loop->writes);
}

/* Hands over what may not be forgotten. Without a disk it is as durable as it will ever be: such a
 * node has a new id after each start, so nobody takes it for the one that promised. */
static void journal(struct shard_loop *loop)
{
    const int64_t now_ns = now_of(loop);
    if (!shard_journal_due(loop->options.shard))
        return;
    shard_journal_gather(loop->options.shard, now_ns, &loop->journal);
    ASSERT(loop->journal.count <= loop->journal.capacity);
    if (loop->journal.count > 0 && disk_journal(loop->disk, loop->options.number, &loop->journal))
        return;
    shard_journaled(loop->options.shard, now_ns, true, &loop->effects);
    carry_out(loop);
}

/* To count everything takes a walk over all vnodes: seldom, while nobody wants to know. */
static bool stats_due(struct shard_loop *loop)
{
    const int64_t now_ns = now_of(loop);
    if (now_ns - loop->stats_ns < (int64_t)STATS_ASKED_MS * 1000000)
        return false;
    (void)pthread_mutex_lock(&loop->stats_lock);
    const int64_t asked_ns = loop->figures.asked_ns;
    (void)pthread_mutex_unlock(&loop->stats_lock);
    return now_ns - asked_ns < (int64_t)STATS_LONG_MS * 1000000 ||
           now_ns - loop->stats_ns >= (int64_t)STATS_EVERY_MS * 1000000;
}

/* Leaves what peers' keep-alives say of their clocks where control finds it. */
static void tell_clocks(struct shard_loop *loop)
{
    const int64_t now_ns = now_of(loop);
    shard_wall(loop->options.shard, clock_wall_ns(loop->options.clock));
    if (now_ns - loop->clocks.told_ns < CLOCK_WALL_EVERY_NS / 2)
        return;
    loop->clocks.told_ns = now_ns;
    (void)pthread_mutex_lock(&loop->stats_lock);
    loop->clocks.count +=
        shard_clocks(loop->options.shard, loop->clocks.samples + loop->clocks.count,
                     (uint32_t)SHARD_LOOP_CLOCKS_MAX - loop->clocks.count);
    ASSERT(loop->clocks.count <= SHARD_LOOP_CLOCKS_MAX);
    (void)pthread_mutex_unlock(&loop->stats_lock);
}

uint32_t shard_loop_clocks(struct shard_loop *loop,
                           struct cluster_time_sample out[SHARD_LOOP_CLOCKS_MAX])
{
    (void)pthread_mutex_lock(&loop->stats_lock);
    const uint32_t count = loop->clocks.count;
    memcpy(out, loop->clocks.samples, count * sizeof *out);
    loop->clocks.count = 0;
    (void)pthread_mutex_unlock(&loop->stats_lock);
    return count;
}

static void tell_control(struct shard_loop *loop)
{
    const uint64_t settled = shard_settled_epoch(loop->options.shard);
    struct mailbox_message message = {.kind = MESSAGE_SETTLED, .shard = loop->options.number};
    if (settled > loop->settled_told) {
        message.number = settled;
        if (mailbox_put(loop->options.control, &message))
            loop->settled_told = settled;
    }
    message = (struct mailbox_message){
        .kind = MESSAGE_USAGE, .shard = loop->options.number, .pointer = loop->usage_seen};
    if (loop->usage_due && mailbox_put(loop->options.control, &message)) {
        loop->usage_due = false;
        loop->usage_seen = NULL;
    }
    if (stats_due(loop))
        tell_stats(loop);
}

static void resign(struct shard_loop *loop)
{
    ASSERT(loop->resigning);
    const bool passed = shard_resign(loop->options.shard, now_of(loop), &loop->effects);
    carry_out(loop);
    if (passed) {
        clients_finish(loop->clients);
        front_leave(&loop->native);
        front_leave(&loop->redis);
        front_leave(&loop->http.front);
    }
    if (passed && !loop->closed && !front_waits(&loop->native) && !front_waits(&loop->redis) &&
        !front_waits(&loop->http.front) && !clients_waiting(loop->clients)) {
        loop->closed = true; /* SHARDLOOP-3 */
        (void)uv_poll_stop(&loop->poll_peers);
    }
    if (!passed || !loop->closed || !front_has_left(&loop->native) ||
        !front_has_left(&loop->redis) || !front_has_left(&loop->http.front) || loop->idle_told ||
        !shard_flushed(loop->options.shard))
        return;
    const struct mailbox_message message = {.kind = MESSAGE_IDLE, .shard = loop->options.number};
    loop->idle_told = mailbox_put(loop->options.control, &message);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* only keeps the loop from sleeping */
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* only wakes the loop */
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    bool *due = poll->data;
    (void)status;
    (void)events;
    *due = true;
}

/* Looks for lost connections, when one of their monitors has something to tell. */
static void poll_links(struct shard_loop *loop)
{
    const int64_t now_ns = now_of(loop);
    const bool news = loop->links_due;
    links_retry(loop->links, now_ns);
    if (!news && now_ns < links_deadline(loop->links))
        return;
    loop->links_due = false;
    links_poll(loop->links, news, now_ns, lost, loop);
}

/* Lets the loop sleep until the core has something to do, or not at all if input is left
 * (SHARDLOOP-2), or a step of write-back. */
static void set_timer(struct shard_loop *loop)
{
    const bool due = front_is_pending(&loop->native) || front_is_pending(&loop->redis) ||
                     front_is_pending(&loop->http.front) || clients_waiting(loop->clients) ||
                     (!loop->closed && loop->peers_due) ||
                     shard_write_due(loop->options.shard, now_of(loop));
    if (due)
        (void)uv_idle_start(&loop->idle, on_idle);
    else
        (void)uv_idle_stop(&loop->idle);
    const int64_t core_ns = shard_next_deadline(loop->options.shard);
    const int64_t links_ns = links_deadline(loop->links);
    int64_t wait_ns = (core_ns < links_ns ? core_ns : links_ns) - now_of(loop);
    if (wait_ns < 0)
        wait_ns = 0;
    /* uv_run looks at timers before it sleeps. One that is due by then must not leave the sleep
     * without an end: it repeats. */
    uv_update_time(&loop->loop);
    (void)uv_timer_start(&loop->timer, on_timer, (uint64_t)(wait_ns + 999999) / 1000000,
                         TIMER_REPEAT_MS);
}

/* Whether there is something to do that no client has asked for. */
static bool has_other_work(struct shard_loop *loop)
{
    return (!loop->closed && loop->peers_due) || clients_waiting(loop->clients) ||
           shard_write_due(loop->options.shard, now_of(loop)) ||
           shard_journal_due(loop->options.shard);
}

/* Who is busy for others does not wait for clients that are about to ask: neither for peers, nor
 * for those of one protocol while there is something of another's. */
static void note_other_work(struct shard_loop *loop)
{
    struct front *fronts[] = {&loop->native, &loop->redis, &loop->http.front};
    const bool other = has_other_work(loop);
    for (size_t i = 0; i < 3; i++) {
        const struct front *next = fronts[(i + 1) % 3];
        const struct front *last = fronts[(i + 2) % 3];
        if (other || front_is_busy(next) || front_is_busy(last))
            front_hurry(fronts[i]);
    }
}

static void turn(struct shard_loop *loop)
{
    read_messages(loop);
    exchange_policies(loop);
    read_disk(loop);
    poll_links(loop);
    const int64_t before_ns = now_of(loop);
    note_other_work(loop);
    if (!loop->closed && loop->peers_due)
        read_peers(loop);
    read_native(loop);
    read_redis(loop);
    read_http(loop);
    const int64_t began_ns = now_of(loop);
    if (loop->resigning)
        resign(loop);
    shard_tick(loop->options.shard, now_of(loop), &loop->effects);
    carry_out(loop);
    journal(loop);
    write_back(loop, began_ns - before_ns);
    tell_control(loop);
    tell_clocks(loop);
    loop->rest_ns = now_of(loop) - began_ns;
    set_timer(loop);
}

static void *run(void *argument)
{
    struct shard_loop *loop = argument;
    while (!loop->stopping) {
        turn(loop);
        if (!loop->stopping)
            (void)uv_run(&loop->loop, UV_RUN_ONCE);
    }
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void close_listeners(struct shard_loop_front *front)
{
    while (front->listener_count > 0)
        listener_close(&front->listeners[--front->listener_count]);
}

static int open_loop(struct shard_loop *loop)
{
    const int peers_fd = socket_fd(loop->options.peers);
    const int links_fd = links_descriptor(loop->links);
    loop->peers_due = true;
    loop->poll_peers.data = &loop->peers_due;
    loop->poll_links.data = &loop->links_due;
    if (uv_loop_init(&loop->loop) != 0)
        return TG_EIO;
    loop->opened = true;
    const bool ok = uv_async_init(&loop->loop, &loop->wake, NULL) == 0 &&
                    uv_timer_init(&loop->loop, &loop->timer) == 0 &&
                    uv_idle_init(&loop->loop, &loop->idle) == 0 &&
                    uv_poll_init(&loop->loop, &loop->poll_peers, peers_fd) == 0 &&
                    uv_poll_init(&loop->loop, &loop->poll_links, links_fd) == 0 &&
                    uv_poll_start(&loop->poll_peers, UV_READABLE, on_poll) == 0 &&
                    uv_poll_start(&loop->poll_links, UV_READABLE, on_poll) == 0;
    return ok ? 0 : TG_EIO;
}

static int open_front(struct shard_loop *loop, struct front *front,
                      struct shard_loop_front *options, struct connections_options *more)
{
    ASSERT(options->listener_count <= CONNECTIONS_LISTENERS_MAX);
    memcpy(more->listeners, options->listeners, sizeof more->listeners);
    more->listener_count = options->listener_count;
    options->listener_count = 0; /* taken */
    more->aside = options->aside;
    more->max = options->max;
    more->key = options->key;
    more->stats = &front->stats;
    more->crowded = loop->options.crowded;
    more->trusted = loop->options.trusted;
    more->proxies_tell = loop->options.proxies_tell;
    more->polls = loop->options.polls;
    more->waiting_max = loop->options.waiting_max;
    more->all = uv_backend_fd(&loop->loop);
    more->slow_ns = CONNECTIONS_SLOW_NS;
    more->begin_ns = more->begin_ns != 0 ? more->begin_ns : CONNECTIONS_BEGIN_NS;
    more->request_ns = CONNECTIONS_REQUEST_NS;
    more->quiet_ns = CONNECTIONS_QUIET_NS;
    more->clock = loop->options.clock;
    more->log = loop->options.log;
    more->context = loop;
    return front_open(front, more, &loop->loop);
}

static int open_native(struct shard_loop *loop)
{
    struct connections_options options = {
        .codec = &zmtp_codec, .gate = &loop->zmtp, .read = end_native, .owes = tell_owed};
    loop->zmtp =
        (struct zmtp_gate){.message = take_native, .context = loop, .stats = &loop->native.stats};
    return open_front(loop, &loop->native, &loop->options.native, &options);
}

/* Redis clients, and then HTTP clients, if there is a listener for them. */
static int open_redis(struct shard_loop *loop)
{
    if (loop->options.redis.listener_count == 0)
        return 0;
    const int error = resp_gate_new(alloc_heap(), loop->options.redis_session,
                                    &loop->options.redis_facts, &loop->redis.stats, &loop->resp);
    if (error != 0)
        return error;
    struct connections_options options = {.codec = &resp_codec, .submit = submit_redis};
    options.gate = loop->resp;
    options.batches = resp_gate_batches(loop->resp);
    return open_front(loop, &loop->redis, &loop->options.redis, &options);
}

static int open_http(struct shard_loop *loop)
{
    if (loop->options.http.listener_count == 0)
        return 0;
    const int error =
        http_gate_new(alloc_heap(), loop->options.http_session, &loop->options.http_facts,
                      &loop->http.front.stats, &loop->http.gate);
    if (error != 0)
        return error;
    struct connections_options options = {.codec = &http_codec,
                                          .gate = loop->http.gate,
                                          .batches = http_gate_batches(loop->http.gate),
                                          .submit = submit_http,
                                          .begin_ns = HTTP_HEAD_NS,
                                          .idle_ns = HTTP_IDLE_NS};
    static_assert(HTTP_BODY_NS == CONNECTIONS_REQUEST_NS, "a body has as long as any request");
    return open_front(loop, &loop->http.front, &loop->options.http, &options);
}

static int take_memory(struct shard_loop *loop, uint32_t vnodes)
{
    loop->writes.capacity = DISK_WRITES_MAX;
    loop->writes.bytes_capacity = WRITES_BYTES;
    loop->writes.writes = calloc(DISK_WRITES_MAX, sizeof *loop->writes.writes);
    loop->writes.headers = calloc(vnodes, sizeof *loop->writes.headers);
    loop->writes.bytes = malloc(WRITES_BYTES);
    loop->journal.capacity = DISK_JOURNAL_RECORDS;
    loop->journal.bytes_capacity = JOURNAL_BYTES;
    loop->journal.records = calloc(DISK_JOURNAL_RECORDS, sizeof *loop->journal.records);
    loop->journal.bytes = malloc(JOURNAL_BYTES);
    if (loop->writes.writes == NULL || loop->writes.headers == NULL || loop->writes.bytes == NULL ||
        loop->journal.records == NULL || loop->journal.bytes == NULL)
        return TG_ENOMEM;
    return effects_init(&loop->effects, alloc_heap());
}

int shard_loop_new(const struct shard_loop_options *options, uint32_t vnodes,
                   struct shard_loop **out)
{
    *out = NULL;
    struct shard_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        struct shard_loop_options lost = *options;
        close_listeners(&lost.native);
        close_listeners(&lost.redis);
        close_listeners(&lost.http);
        return TG_ENOMEM;
    }
    loop->options = *options;
    loop->policies_held = 1; /* a shard begins with the empty one */
    (void)pthread_mutex_init(&loop->stats_lock, NULL);
    const struct links_options links = {.context = options->context,
                                        .log = options->log,
                                        .self = options->node_id,
                                        .shard = (uint16_t)options->number,
                                        .failpoints = options->failpoints};
    const struct clients_options clients = {
        .clock = options->clock, .decide = decide, .refuse = refuse_client, .context = loop};
    int error = take_memory(loop, vnodes);
    if (error == 0)
        error = links_new(&links, &loop->links);
    if (error == 0)
        error = clients_new(&clients, &loop->clients);
    if (error == 0)
        error = open_loop(loop);
    if (error == 0)
        error = mailbox_init(&loop->mailbox, &loop->wake);
    if (error == 0)
        error = open_native(loop);
    if (error == 0)
        error = open_redis(loop);
    if (error == 0)
        error = open_http(loop);
    *out = loop;
    if (error == 0)
        return 0;
    loop->options.shard = NULL; /* stays the caller's, as does the socket */
    loop->options.peers = NULL;
    shard_loop_free(out);
    return error;
}

int shard_loop_start(struct shard_loop *loop, struct disk *disk)
{
    loop->disk = disk;
    ASSERT(!loop->started);
    if (pthread_create(&loop->thread, NULL, run, loop) != 0)
        return TG_EIO;
    loop->started = true;
    return 0;
}

struct mailbox *shard_loop_mailbox(struct shard_loop *loop)
{
    return &loop->mailbox;
}

void shard_loop_wake(struct shard_loop *loop)
{
    (void)uv_async_send(&loop->wake);
}

void shard_loop_stats(struct shard_loop *loop, bool asked, struct shard_stats *out)
{
    const int64_t now_ns = now_of(loop);
    (void)pthread_mutex_lock(&loop->stats_lock);
    *out = loop->figures.stats;
    if (asked)
        loop->figures.asked_ns = now_ns;
    (void)pthread_mutex_unlock(&loop->stats_lock);
}

void shard_loop_told(struct shard_loop *loop, struct shard_told *sum)
{
    (void)pthread_mutex_lock(&loop->stats_lock);
    shard_told_join(sum, &loop->figures.more);
    (void)pthread_mutex_unlock(&loop->stats_lock);
}

void shard_loop_clients(struct shard_loop *loop, struct shard_loop_fronts *out)
{
    (void)pthread_mutex_lock(&loop->stats_lock);
    *out = (struct shard_loop_fronts){.native = loop->native.told,
                                      .redis = loop->redis.told,
                                      .http = loop->http.front.told,
                                      .http_more = loop->http.told};
    (void)pthread_mutex_unlock(&loop->stats_lock);
}

uint64_t shard_loop_links_dropped(const struct shard_loop *loop)
{
    return links_dropped(loop->links);
}

uint64_t shard_loop_policies(const struct shard_loop *loop)
{
    return atomic_load(&loop->policies);
}

void shard_loop_join(struct shard_loop *loop)
{
    if (loop->started)
        (void)pthread_join(loop->thread, NULL);
    loop->started = false;
}

struct usage_tally *shard_loop_usage(struct shard_loop *loop)
{
    struct usage_tally *seen = loop->usage_seen;
    loop->usage_seen = NULL;
    return seen != NULL ? seen : shard_usage(loop->options.shard, NULL);
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Messages that were never taken. */
static void drop_messages(struct shard_loop *loop)
{
    struct mailbox_message message;
    while (loop->mailbox.messages != NULL && mailbox_take(&loop->mailbox, &message)) {
        if (message.kind == MESSAGE_VIEW)
            view_free((struct view **)&message.pointer);
        else if (message.kind == MESSAGE_POLICY)
            policy_free((struct policy **)&message.pointer);
        else if (message.kind == MESSAGE_USAGE)
            usage_tally_free((struct usage_tally **)&message.pointer);
        else
            free(message.pointer);
    }
}

static void free_policies(struct shard *shard)
{
    const struct policy *held;
    while (shard != NULL && (held = shard_policy_take(shard)) != NULL) {
        struct policy *policy = (struct policy *)(uintptr_t)held;
        policy_free(&policy);
    }
}

void shard_loop_free(struct shard_loop **pointer)
{
    struct shard_loop *loop = *pointer;
    *pointer = NULL;
    if (loop == NULL)
        return;
    if (loop->opened) {
        uv_walk(&loop->loop, close_handle, NULL);
        (void)uv_run(&loop->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&loop->loop);
    }
    close_listeners(&loop->options.native);
    close_listeners(&loop->options.redis);
    close_listeners(&loop->options.http);
    connections_free(&loop->native.connections);
    connections_free(&loop->redis.connections);
    connections_free(&loop->http.front.connections);
    resp_gate_free(&loop->resp);
    http_gate_free(&loop->http.gate);
    drop_messages(loop);
    mailbox_fini(&loop->mailbox);
    links_free(&loop->links);
    clients_free(&loop->clients);
    socket_release(&loop->holder);
    socket_close(&loop->options.peers);
    policy_free(&loop->policy_next);
    free_policies(loop->options.shard);
    shard_free(&loop->options.shard);
    struct view *view = (struct view *)(uintptr_t)loop->view;
    view_free(&view);
    effects_fini(&loop->effects);
    free(loop->writes.writes);
    free(loop->writes.headers);
    free(loop->writes.bytes);
    free(loop->journal.records);
    free(loop->journal.bytes);
    (void)pthread_mutex_destroy(&loop->stats_lock);
    free(loop);
}

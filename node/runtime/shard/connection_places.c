/* connection_places.c - which connections there are, in which order they said something, and what
 * they wait for.
 *
 * PLACES-1  A connection in `dirty` or `deferred` is there once, and in one of them.
 * PLACES-2  A token names one connection of one moment: its place, and how often that was used.
 * PLACES-3  A place is free, or in the order by use, once.
 * PLACES-4  An address has a place among addresses exactly while it has connections.
 * PLACES-5  What waits is in the order of what it waits for, what is blocked in that of the
 *           blocked, each once, and by the time at which that began. So what is late is in front.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/runtime/shard/connections_state.h"

enum { ALIGNMENT = 16 };

static uint32_t at_of(const struct connections *connections, const struct connection *connection)
{
    return (uint32_t)(connection - connections->places);
}

int connection_places_new(struct connections *connections)
{
    const struct connection_order none = {CONNECTIONS_NONE, CONNECTIONS_NONE};
    const uint32_t max = connections->options.max;
    uint32_t buckets = 2;
    while (buckets < 2 * max)
        buckets *= 2;
    connections->peer_stride =
        (connections->options.codec->peer_len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    connections->first_free = connections->quiet_at = CONNECTIONS_NONE;
    connections->used = connections->stuck = none;
    for (uint32_t i = 0; i < CONNECTION_WAITS; i++)
        connections->waits[i] = none;
    connections->dirty = connections->deferred =
        (struct connection_list){CONNECTIONS_NONE, CONNECTIONS_NONE};
    connections->places = calloc(max, sizeof *connections->places);
    connections->peers = calloc(max, connections->peer_stride);
    connections->addresses = calloc(buckets, sizeof *connections->addresses);
    connections->address_mask = buckets - 1;
    connections->address_max = max - max / 4;
    return connections->places != NULL && connections->peers != NULL &&
                   connections->addresses != NULL
               ? 0
               : TG_ENOMEM;
}

void connection_places_free(struct connections *connections)
{
    free(connections->places);
    free(connections->peers);
    free(connections->addresses);
}

struct gateway_peer *connection_peer(const struct connections *connections,
                                     const struct connection *connection)
{
    return (void *)(connections->peers + at_of(connections, connection) * connections->peer_stride);
}

uint64_t connection_token(const struct connections *connections,
                          const struct connection *connection)
{
    return (uint64_t)connection->generation << 32 | at_of(connections, connection); /* PLACES-2 */
}

struct connection *connection_of(struct connections *connections, uint64_t token)
{
    if ((uint32_t)token >= connections->used_max)
        return NULL;
    struct connection *connection = &connections->places[(uint32_t)token];
    return connection->fd >= 0 && connection->generation == token >> 32 ? connection : NULL;
}

struct connection *connection_take_place(struct connections *connections)
{
    if (connections->first_free != CONNECTIONS_NONE) {
        struct connection *connection = &connections->places[connections->first_free];
        connections->first_free = connection->next;
        return connection;
    }
    if (connections->used_max == connections->options.max)
        return NULL;
    struct connection *connection = &connections->places[connections->used_max++];
    connection->fd = -1;
    return connection;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static uint32_t home_of(const struct connections *connections, const struct in6_addr *address)
{
    return (uint32_t)hash64(&connections->options.key, address, sizeof *address) &
           connections->address_mask;
}

/* The place of the address, or the free one where it would be. Half of the places are free. */
static uint32_t address_place(const struct connections *connections, const struct in6_addr *address)
{
    uint32_t at = home_of(connections, address);
    while (connections->addresses[at].count > 0 &&
           memcmp(&connections->addresses[at].address, address, sizeof *address) != 0)
        at = (at + 1) & connections->address_mask;
    return at;
}

uint32_t connection_count_of(const struct connections *connections, const struct in6_addr *address)
{
    return connections->addresses[address_place(connections, address)].count;
}

static void count_address(struct connections *connections, struct connection *connection)
{
    struct connection_address *place =
        &connections->addresses[address_place(connections, &connection->address)];
    place->address = connection->address;
    place->count++; /* PLACES-4 */
}

/* The place that has become free is filled by who would be found there first. */
static void forget_address(struct connections *connections, const struct in6_addr *address)
{
    const uint32_t mask = connections->address_mask;
    uint32_t hole = address_place(connections, address);
    struct connection_address *all = connections->addresses;
    ASSERT(all[hole].count > 0); /* PLACES-4 */
    if (--all[hole].count > 0)
        return;
    for (uint32_t at = (hole + 1) & mask; all[at].count > 0; at = (at + 1) & mask) {
        const uint32_t home = home_of(connections, &all[at].address);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* it would not be found from its home */
        all[hole] = all[at];
        all[at].count = 0;
        hole = at;
    }
}

void connection_readdress(struct connections *connections, struct connection *connection,
                          const struct in6_addr *address)
{
    forget_address(connections, &connection->address);
    connection->address = *address;
    count_address(connections, connection);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static struct connection *at_place(const struct connections *connections, uint32_t at)
{
    return at != CONNECTIONS_NONE ? &connections->places[at] : NULL;
}

struct connection *connection_newer(const struct connections *connections,
                                    const struct connection *connection, enum connection_by by)
{
    return at_place(connections, connection->links[by].newer);
}

struct connection *connection_oldest(const struct connections *connections,
                                     const struct connection_order *order)
{
    return at_place(connections, order->oldest);
}

static void put_newest(struct connections *connections, struct connection_order *order,
                       struct connection *connection, enum connection_by by)
{
    const uint32_t at = at_of(connections, connection);
    connection->links[by] = (struct connection_link){order->newest, CONNECTIONS_NONE};
    if (order->newest == CONNECTIONS_NONE)
        order->oldest = at;
    else
        connections->places[order->newest].links[by].newer = at;
    order->newest = at;
}

static void take_out(struct connections *connections, struct connection_order *order,
                     const struct connection *connection, enum connection_by by)
{
    const struct connection_link link = connection->links[by];
    if (link.older == CONNECTIONS_NONE)
        order->oldest = link.newer;
    else
        connections->places[link.older].links[by].newer = link.newer;
    if (link.newer == CONNECTIONS_NONE)
        order->newest = link.older;
    else
        connections->places[link.newer].links[by].older = link.older;
}

void connection_heard(struct connections *connections, struct connection *connection)
{
    connection->heard_ns = connections->now_ns;
    if (connection->links[CONNECTION_BY_USE].newer == CONNECTIONS_NONE)
        return;
    take_out(connections, &connections->used, connection, CONNECTION_BY_USE);
    put_newest(connections, &connections->used, connection, CONNECTION_BY_USE); /* PLACES-3 */
}

/* ---- life ------------------------------------------------------------------------------------ */

void connection_open(struct connections *connections, struct connection *connection, int fd,
                     const struct in6_addr *address)
{
    const uint32_t generation = connection->generation;
    struct gateway_peer *peer = connection_peer(connections, connection);
    *connection = (struct connection){
        .fd = fd, .generation = generation, .address = *address, .heard_ns = connections->now_ns};
    memset(peer, 0, connections->peer_stride);
    peer->id = ++connections->ids;
    count_address(connections, connection);
    put_newest(connections, &connections->used, connection, CONNECTION_BY_USE);
    connections->stats->accepted++;
    connections->stats->connections++;
}

void connection_free_place(struct connections *connections, struct connection *connection)
{
    ASSERT(!connection->dirty && !connection->deferred); /* PLACES-1 */
    connection_set_wait(connections, connection, CONNECTION_SETTLED);
    if (connection->blocked)
        take_out(connections, &connections->stuck, connection, CONNECTION_BY_BLOCK);
    forget_address(connections, &connection->address);
    take_out(connections, &connections->used, connection, CONNECTION_BY_USE);
    (void)close(connection->fd);
    connection->fd = -1;
    if (++connection->generation == UINT32_MAX) /* that of listeners */
        connection->generation = 0;
    connection->next = connections->first_free;
    connections->first_free = at_of(connections, connection);
    connections->stats->connections--;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void append(struct connections *connections, struct connection_list *list,
                   struct connection *connection)
{
    const uint32_t at = at_of(connections, connection);
    connection->next = CONNECTIONS_NONE;
    if (list->first == CONNECTIONS_NONE)
        list->first = at;
    else
        connections->places[list->last].next = at;
    list->last = at;
}

void connection_mark_dirty(struct connections *connections, struct connection *connection)
{
    if (connection->dirty || connection->deferred)
        return;
    connection->dirty = true; /* PLACES-1 */
    append(connections, &connections->dirty, connection);
}

void connection_break(struct connections *connections, struct connection *connection)
{
    connection->broken = true;
    connection_mark_dirty(connections, connection);
}

struct connection *connection_take_dirty(struct connections *connections)
{
    if (connections->dirty.first == CONNECTIONS_NONE)
        return NULL;
    struct connection *connection = &connections->places[connections->dirty.first];
    ASSERT(connection->dirty && connection->fd >= 0); /* PLACES-1 */
    connections->dirty.first = connection->next;
    connection->dirty = false;
    return connection;
}

void connection_defer(struct connections *connections, struct connection *connection)
{
    ASSERT(!connection->dirty && !connection->deferred); /* PLACES-1 */
    connection->deferred = true;
    append(connections, &connections->deferred, connection);
}

void connection_resume(struct connections *connections)
{
    while (connections->deferred.first != CONNECTIONS_NONE) {
        struct connection *connection = &connections->places[connections->deferred.first];
        connections->deferred.first = connection->next;
        connection->deferred = false;
        connection_mark_dirty(connections, connection);
    }
}

/* ---- states ---------------------------------------------------------------------------------- */

/* What the socket is to tell of. */
static void watch(const struct connections *connections, const struct connection *connection)
{
    struct epoll_event event = {
        .events = (connection->muted ? 0 : (uint32_t)EPOLLIN) |
                  (connection->blocked ? (uint32_t)EPOLLOUT : 0),
        .data = {.u64 = connection_token(connections, connection)},
    };
    (void)epoll_ctl(connections->epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

void connection_set_muted(struct connections *connections, struct connection *connection,
                          bool muted)
{
    if (connection->muted == muted)
        return;
    connection->muted = muted;
    watch(connections, connection);
}

void connection_moved(struct connections *connections, struct connection *connection)
{
    connection->moved_ns = connections->now_ns;
    connection->moved = 0;
    if (!connection->blocked)
        return;
    take_out(connections, &connections->stuck, connection, CONNECTION_BY_BLOCK);
    put_newest(connections, &connections->stuck, connection, CONNECTION_BY_BLOCK); /* PLACES-5 */
}

void connection_set_blocked(struct connections *connections, struct connection *connection,
                            bool blocked)
{
    if (connection->blocked == blocked)
        return;
    if (blocked)
        put_newest(connections, &connections->stuck, connection, CONNECTION_BY_BLOCK);
    else
        take_out(connections, &connections->stuck, connection, CONNECTION_BY_BLOCK);
    connection->blocked = blocked;
    connection_moved(connections, connection);
    watch(connections, connection);
}

void connection_set_wait(struct connections *connections, struct connection *connection,
                         enum connection_wait wait)
{
    if (connection->wait == wait)
        return;
    if (connection->wait != CONNECTION_SETTLED)
        take_out(connections, &connections->waits[connection->wait], connection,
                 CONNECTION_BY_WAIT);
    connection->wait = (uint8_t)wait;
    connection->since_ns = connections->now_ns;
    if (wait != CONNECTION_SETTLED)
        put_newest(connections, &connections->waits[wait], connection, CONNECTION_BY_WAIT);
}

/* ---- what the shard owes --------------------------------------------------------------------- */

void connections_owe(struct connections *connections, uint64_t token)
{
    struct connection *connection = connection_of(connections, token);
    if (connection == NULL || connection->owed == connections->owed_at)
        return;
    connection->owed = connections->owed_at;
    connections->owed_count++;
}

void connections_asked(struct connections *connections, uint64_t token)
{
    struct connection *connection = connection_of(connections, token);
    if (connection != NULL)
        connection->asked_ns = connections->now_ns;
}

void connection_look_owed(struct connections *connections)
{
    connections->owed_known = true;
    connections->owed_at++;
    connections->owed_count = 0;
    if (connections->options.owes != NULL)
        connections->options.owes(connections->options.context, connections);
}

bool connection_owed(struct connections *connections, const struct connection *connection)
{
    if (!connections->owed_known)
        connection_look_owed(connections);
    return connection->owed == connections->owed_at ||
           (connection->asked_ns != 0 &&
            connections->now_ns - connection->asked_ns < connections->options.request_ns);
}

/* connections_check.c - what always holds of a loop of connections, looked at between two turns.
 */
#include "base/assert.h"
#include "node/runtime/shard/connections_state.h"

/* What is summed up of all connections. */
struct sums {
    uint64_t open;
    uint32_t blocked;
    uint32_t waits[CONNECTION_WAITS];
    uint32_t dirty;
    uint32_t deferred;
    size_t kept;
    size_t unsent;
};

static void check_connection(const struct connections *connections,
                             const struct connection *connection)
{
    const struct gateway_peer *peer = connection_peer(connections, connection);
    const struct gateway_out *out = &peer->out;
    INVARIANT("CONNBYTES-1", connection->kept_len <= connection->kept_capacity);
    INVARIANT("CONNBYTES-1", (connection->kept == NULL) == (connection->kept_capacity == 0));
    INVARIANT("CONNBYTES-1", (connection->kept == NULL) == (connection->kept_len == 0));
    INVARIANT("CONNBYTES-3", (out->data == NULL) == (out->capacity == 0));
    INVARIANT("CONNBYTES-3", out->capacity == 0 || out->capacity >= GATEWAY_OUT_LEN);
    INVARIANT("CONNBYTES-3", connection->sent <= out->len && out->len <= out->capacity);
    INVARIANT("PLACES-1", !connection->dirty || !connection->deferred);
    INVARIANT("CONNECTIONS-1", connection->dirty || connection->deferred || connection->blocked ||
                                   peer->waiting > 0 || out->len == 0);
}

static void add(const struct connections *connections, const struct connection *connection,
                struct sums *sums)
{
    sums->open++;
    sums->blocked += connection->blocked;
    sums->waits[connection->wait]++;
    sums->dirty += connection->dirty;
    sums->deferred += connection->deferred;
    sums->kept += connection->kept_capacity;
    sums->unsent += connection_peer(connections, connection)->out.capacity;
}

/* The length of a list by `next`. */
static uint32_t length(const struct connections *connections, uint32_t first)
{
    uint32_t count = 0;
    for (uint32_t at = first; at != CONNECTIONS_NONE; at = connections->places[at].next) {
        INVARIANT("PLACES-1", at < connections->used_max && count < connections->used_max);
        count++;
    }
    return count;
}

/* When the connection came into that order. */
static int64_t came_ns(const struct connection *connection, enum connection_by by)
{
    switch (by) {
    case CONNECTION_BY_WAIT:
        return connection->since_ns;
    case CONNECTION_BY_BLOCK:
        return connection->moved_ns;
    default:
        return connection->heard_ns;
    }
}

/* The order goes from its oldest to its newest, by time, and has that many. */
static bool is_order(const struct connections *connections, const struct connection_order *order,
                     enum connection_by by, uint64_t open)
{
    uint64_t count = 0;
    uint32_t before = CONNECTIONS_NONE;
    int64_t before_ns = INT64_MIN;
    for (uint32_t at = order->oldest; at != CONNECTIONS_NONE;) {
        const struct connection *connection = &connections->places[at];
        if (at >= connections->used_max || ++count > open || connection->fd < 0 ||
            connection->links[by].older != before || came_ns(connection, by) < before_ns)
            return false;
        before_ns = came_ns(connection, by);
        before = at;
        at = connection->links[by].newer;
    }
    return before == order->newest && count == open;
}

static void check_orders(const struct connections *connections, const struct sums *sums)
{
    INVARIANT("PLACES-3", is_order(connections, &connections->used, CONNECTION_BY_USE, sums->open));
    INVARIANT("PLACES-5",
              is_order(connections, &connections->stuck, CONNECTION_BY_BLOCK, sums->blocked));
    for (uint32_t i = CONNECTION_BEGINS; i < CONNECTION_WAITS; i++)
        INVARIANT("PLACES-5", is_order(connections, &connections->waits[i], CONNECTION_BY_WAIT,
                                       sums->waits[i]));
}

static void check_addresses(const struct connections *connections, uint64_t open)
{
    uint64_t count = 0;
    for (uint32_t at = 0; at <= connections->address_mask; at++)
        count += connections->addresses[at].count;
    INVARIANT("PLACES-4", count == open);
    for (uint32_t at = 0; at < connections->used_max; at++) {
        const struct connection *connection = &connections->places[at];
        INVARIANT("PLACES-4",
                  connection->fd < 0 || connection_count_of(connections, &connection->address) > 0);
    }
}

void connections_check_invariants(const struct connections *connections)
{
    struct sums sums = {.open = 0};
    for (uint32_t at = 0; at < connections->used_max; at++) {
        const struct connection *connection = &connections->places[at];
        if (connection->fd < 0)
            continue;
        check_connection(connections, connection);
        add(connections, connection, &sums);
    }
    INVARIANT("PLACES-1", length(connections, connections->dirty.first) == sums.dirty);
    INVARIANT("PLACES-1", length(connections, connections->deferred.first) == sums.deferred);
    INVARIANT("PLACES-3",
              sums.open + length(connections, connections->first_free) == connections->used_max);
    INVARIANT("PLACES-3", sums.open == connections->stats->connections);
    INVARIANT("CONNBYTES-2", sums.kept == connections->kept_total);
    INVARIANT("CONNBYTES-2", sums.unsent == connections->unsent_total);
    for (uint32_t k = 0; k < CONNECTIONS_BLOCK_SIZES; k++)
        INVARIANT("CONNBYTES-2", connections->blocks[k].count <= CONNECTIONS_BLOCKS);
    INVARIANT("CONNECTIONS-3", connections->event_at <= connections->event_count);
    check_orders(connections, &sums);
    check_addresses(connections, sums.open);
}

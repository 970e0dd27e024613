/* connection_bytes.c - bytes that came and cannot be taken yet, and bytes that are to be sent.
 *
 * A connection's memory is borrowed. What a client has sent of a request that is not complete is in
 * `kept`, which grows as bytes come, never by what they promise. Replies are in `out`, from the
 * first one until all are sent: a block of GATEWAY_OUT_LEN, or more where one answer is longer. A
 * connection that is idle has neither.
 *
 * CONNBYTES-1  kept_len <= kept_capacity, and there is memory exactly while something is kept.
 * CONNBYTES-2  kept_total and unsent_total are the sums of the capacities of all connections.
 * CONNBYTES-3  sent <= len <= capacity of `out`, which has a block, or more, while it has memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "node/runtime/shard/connections_state.h"

enum {
    /* What a connection may keep whatever others do: a split request of usual length. */
    KEPT_ALWAYS = 2 << 10,
    KEPT_BLOCKS_MAX = 2 << 20, /* bytes of free blocks of one length */
    PROGRESS = GATEWAY_OUT_LEN /* a client that takes less in slow_ns does not read */
};

/* ---- out ------------------------------------------------------------------------------------- */

static struct gateway_out *out_of(const struct connections *connections,
                                  const struct connection *connection)
{
    return &connection_peer(connections, connection)->out;
}

/* Free blocks are kept by their length, GATEWAY_OUT_LEN times a power of two, for turns need them
 * again and again: what goes back to the system has to be cleared by it when it is wanted again. */
static struct connection_blocks *blocks_of(struct connections *connections, size_t len)
{
    for (uint32_t k = 0; k < CONNECTIONS_BLOCK_SIZES; k++)
        if (len == (size_t)GATEWAY_OUT_LEN << k)
            return &connections->blocks[k];
    return NULL;
}

/* So many bytes at most are kept of each length. */
static bool may_keep(const struct connection_blocks *blocks, size_t len)
{
    return blocks != NULL && blocks->count < CONNECTIONS_BLOCKS &&
           (blocks->count + 1) * len <= KEPT_BLOCKS_MAX;
}

static char *take_block(struct connections *connections, size_t len)
{
    struct connection_blocks *blocks = blocks_of(connections, len);
    return blocks != NULL && blocks->count > 0 ? blocks->free[--blocks->count] : malloc(len);
}

static void give_block(struct connections *connections, char *block, size_t len)
{
    struct connection_blocks *blocks = blocks_of(connections, len);
    if (may_keep(blocks, len))
        blocks->free[blocks->count++] = block;
    else
        free(block);
}

bool connection_ensure_out(struct connections *connections, struct connection *connection)
{
    struct gateway_out *out = out_of(connections, connection);
    if (out->data == NULL) {
        out->data = take_block(connections, GATEWAY_OUT_LEN);
        out->capacity = out->data != NULL ? GATEWAY_OUT_LEN : 0;
        connections->unsent_total += out->capacity;
    }
    return out->data != NULL;
}

void connection_drop_out(struct connections *connections, struct connection *connection)
{
    struct gateway_out *out = out_of(connections, connection);
    connections->unsent_total -= out->capacity;
    give_block(connections, out->data, out->capacity);
    out->data = NULL;
    out->capacity = out->len = connection->sent = 0;
}

/* Moves what is not sent yet to memory of its own for so much, and more. */
static bool grow_out(struct connections *connections, struct connection *connection, size_t need)
{
    struct gateway_out *out = out_of(connections, connection);
    const size_t left = out->len - connection->sent;
    const size_t free_total = connections->unsent_total < connections->options.waiting_max
                                  ? connections->options.waiting_max - connections->unsent_total
                                  : 0;
    size_t capacity = CONNECTIONS_FLUSH_LEN;
    while (capacity < left + need)
        capacity *= 2;
    /* The fuller it is, the less one may have: a few do not take it all. */
    if (left + need > CONNECTIONS_UNSENT_EACH || left + need > free_total / 4)
        return false;
    char *data = take_block(connections, capacity);
    if (data == NULL)
        return false;
    memcpy(data, out->data + connection->sent, left);
    connection_drop_out(connections, connection);
    out->data = data;
    out->capacity = capacity;
    out->len = left;
    connections->unsent_total += capacity;
    return true;
}

bool connection_room(struct connections *connections, struct connection *connection, size_t more)
{
    struct gateway_out *out = out_of(connections, connection);
    if (!connection_ensure_out(connections, connection))
        return false;
    if (out->capacity - out->len >= more)
        return true;
    if (!connection->blocked && out->len + more > CONNECTIONS_FLUSH_LEN)
        connection_flush(connections, connection);
    if (connection->broken || !connection_ensure_out(connections, connection))
        return false;
    return out->capacity - out->len >= more || grow_out(connections, connection, more);
}

void connection_flush(struct connections *connections, struct connection *connection)
{
    struct gateway_peer *peer = connection_peer(connections, connection);
    struct gateway_out *out = &peer->out;
    ASSERT(!out->failed); /* the codec took no more than it has room for answers to */
    while (connection->sent < out->len) {
        const ssize_t sent = send(connection->fd, out->data + connection->sent,
                                  out->len - connection->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!connection->blocked)
                connection_set_blocked(connections, connection, true);
            return;
        }
        if (sent < 0) {
            connection_break(connections, connection);
            return;
        }
        connection->sent += (size_t)sent;
        connection->moved += (size_t)sent;
        if (connection->moved >= PROGRESS)
            connection_moved(connections, connection);
    }
    connection->sent = out->len = 0;
    if (connection->blocked)
        connection_set_blocked(connections, connection, false);
    if (peer->waiting == 0)
        connection_drop_out(connections, connection);
}

/* ---- kept ------------------------------------------------------------------------------------ */

void connection_drop_kept(struct connections *connections, struct connection *connection)
{
    connections->kept_total -= connection->kept_capacity;
    free(connection->kept);
    connection->kept = NULL;
    connection->kept_len = connection->kept_capacity = 0;
}

/* Gives `kept` room for `capacity` bytes in all. */
static bool grow_kept(struct connections *connections, struct connection *connection,
                      size_t capacity)
{
    const size_t more = capacity - connection->kept_capacity;
    const bool granted = capacity <= KEPT_ALWAYS ||
                         connections->kept_total + more <= connections->options.waiting_max;
    char *kept = granted ? realloc(connection->kept, capacity) : NULL;
    if (kept == NULL) {
        connections->stats->crowded++;
        return false;
    }
    connection->kept = kept;
    connection->kept_capacity = capacity;
    connections->kept_total += more; /* CONNBYTES-2 */
    return true;
}

/* What a long request has needed is not kept with the beginning of a short one. */
static void shrink_kept(struct connections *connections, struct connection *connection)
{
    const size_t capacity =
        connection->kept_len > KEPT_ALWAYS ? connection->kept_len : (size_t)KEPT_ALWAYS;
    if (connection->kept_capacity <= 2 * capacity)
        return;
    char *kept = realloc(connection->kept, capacity);
    if (kept == NULL)
        return; /* it stays as it is */
    connection->kept = kept;
    connections->kept_total -= connection->kept_capacity - capacity;
    connection->kept_capacity = capacity;
}

bool connection_keep(struct connections *connections, struct connection *connection,
                     const char *data, size_t len, size_t used)
{
    const size_t left = len - used;
    ASSERT(used <= len);
    if (left == 0) {
        connection_drop_kept(connections, connection); /* CONNBYTES-1 */
        return true;
    }
    if (left > connection->kept_capacity && !grow_kept(connections, connection, left))
        return false;
    memmove(connection->kept, data + used, left);
    connection->kept_len = left;
    shrink_kept(connections, connection);
    return true;
}

char *connection_input(struct connections *connections, struct connection *connection, size_t *len)
{
    const struct gateway_codec *codec = connections->options.codec;
    const size_t most = codec->pending_max + codec->read_len;
    const size_t kept = connection->kept_len;
    ASSERT(kept <= codec->pending_max);
    *len = codec->read_len;
    if (kept <= CONNECTIONS_COPY_MAX) {
        if (kept > 0)
            memcpy(connections->input, connection->kept, kept);
        return connections->input + kept;
    }
    const size_t capacity = 2 * kept < most ? 2 * kept : most;
    if (connection->kept_capacity - kept < CONNECTIONS_COPY_MAX &&
        !grow_kept(connections, connection, capacity))
        return NULL;
    const size_t room = connection->kept_capacity - kept;
    *len = room < codec->read_len ? room : codec->read_len;
    return connection->kept + kept;
}

void connection_close(struct connections *connections, struct connection *connection)
{
    const struct gateway_codec *codec = connections->options.codec;
    if (codec->close != NULL)
        codec->close(connections->options.gate, connection_peer(connections, connection));
    connection_drop_out(connections, connection);
    connection_drop_kept(connections, connection);
    connection_free_place(connections, connection);
}

void connection_bytes_free(struct connections *connections)
{
    for (uint32_t k = 0; k < CONNECTIONS_BLOCK_SIZES; k++)
        while (connections->blocks[k].count > 0)
            free(connections->blocks[k].free[--connections->blocks[k].count]);
}

/* connection_proxy.c - of whom a connection is, where a proxy stands between.
 *
 *   trusted   fresh --header--> told: the client's address is named and counted
 *               |---something else--> the proxy's own, or, where proxies have to tell, closed
 *   others    fresh --something else--> as it came
 *               |---header--> closed: whoever is not trusted could be anybody
 *
 * A header comes before everything else, and is looked for once. What a client's protocol begins
 * with is known from a header by its first bytes, so that a health check, or a client that came
 * without the proxy, need not send one. That has a price: a trusted proxy that passes bytes on and
 * adds no header lets its clients write one. `proxies_tell` is for such networks.
 *
 * The destination that is told is where the client thinks that this node is: Redis clients that ask
 * for a cluster are sent there again.
 *
 * CONNPROXY-1  Only a fresh connection of a trusted end changes its address, once.
 * CONNPROXY-2  Connections are counted by the address that is told; who has too many is refused,
 *              as if he had come without the proxy. The proxy itself is not bounded.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "node/gateway/proxy_protocol.h"
#include "node/runtime/shard/connections_state.h"

enum { KNOWN_LEN = 12 /* so many bytes are a header's, or none's */ };

#define COMPLAIN_NS INT64_C(10000000000) /* from one complaint to the next */

/* The connection ends. The proxy is told nothing, which nobody would read: the operator is. */
static bool end(struct connections *connections, struct connection *connection, const char *why)
{
    struct gateway_peer *peer = connection_peer(connections, connection);
    connections->stats->protocol_errors++;
    peer->closing = true;
    if (connections->complained_ns != 0 &&
        connections->now_ns - connections->complained_ns < COMPLAIN_NS)
        return false;
    connections->complained_ns = connections->now_ns;
    log_printf(connections->options.log, LOG_LEVEL_WARN, "%s: a connection of %s was closed: %s",
               connections->options.codec->name, peer->address, why);
    return false;
}

static bool refuse(struct connections *connections, struct connection *connection)
{
    const char *sentence = connections->options.codec->refusal;
    connections->stats->refused++;
    (void)!send(connection->fd, sentence, strlen(sentence), MSG_NOSIGNAL | MSG_DONTWAIT);
    connection_peer(connections, connection)->closing = true;
    return false;
}

/* The client that the proxy speaks for. False: it has too many connections. */
static bool take_client(struct connections *connections, struct connection *connection,
                        const struct proxy_protocol *told)
{
    struct gateway_peer *peer = connection_peer(connections, connection);
    struct connection_end from = {.port = told->source_port};
    struct connection_end to = {.port = told->destination_port};
    memcpy(&from.ip, told->source, sizeof from.ip);
    memcpy(&to.ip, told->destination, sizeof to.ip);
    const struct in6_addr address = connection_end_counted(&from);
    connection_end_text(&from, peer->address);
    peer->trusted = connection_proxy_trusted(connections, &from);
    if (to.port != 0)
        connection_end_text(&to, peer->local);
    if (memcmp(&address, &connection->address, sizeof address) == 0)
        return true;
    if (!acceptor_has_room_of(connections, &address)) /* CONNPROXY-2 */
        return refuse(connections, connection);
    connection_readdress(connections, connection, &address);
    return true;
}

static bool take_told(struct connections *connections, struct connection *connection,
                      const struct proxy_protocol *told)
{
    struct gateway_peer *peer = connection_peer(connections, connection);
    if (told->kind == PROXY_PROTOCOL_ITSELF)
        return true;
    connections->stats->proxied++;
    if (told->kind == PROXY_PROTOCOL_IP)
        return take_client(connections, connection, told);
    peer->trusted = false;
    (void)snprintf(peer->address, sizeof peer->address, NETWORKS_UNIX_TOLD);
    return true;
}

bool connection_proxy_take(struct connections *connections, struct connection *connection,
                           const char *data, size_t len, size_t *used)
{
    const bool trusted = connection_peer(connections, connection)->trusted;
    struct proxy_protocol told;
    const char *fault;
    const enum proxy_protocol_found found = proxy_protocol_read(data, len, &told, used, &fault);
    ASSERT(connection->fresh); /* CONNPROXY-1 */
    if (found == PROXY_PROTOCOL_MORE && (trusted || len < KNOWN_LEN))
        return false;
    connection->fresh = false;
    if (found == PROXY_PROTOCOL_NONE)
        return !trusted || !connections->options.proxies_tell ||
               end(connections, connection, "a PROXY header is required of this proxy");
    if (!trusted)
        return end(connections, connection, "it sent a PROXY header, and is no trusted proxy");
    if (found == PROXY_PROTOCOL_BAD)
        return end(connections, connection, fault);
    return take_told(connections, connection, &told);
}

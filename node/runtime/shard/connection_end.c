/* connection_end.c - who is at the ends of a connection: how they are called, by what they are
 * counted, and whether the other one is a proxy whose word is taken.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "node/runtime/shard/connections_state.h"

enum { NETWORK_LEN = 8 };

void connection_end_text(const struct connection_end *end, char out[GATEWAY_ADDRESS_LEN])
{
    char host[INET6_ADDRSTRLEN] = "";
    if (end->local) {
        (void)snprintf(out, GATEWAY_ADDRESS_LEN, NETWORKS_UNIX);
        return;
    }
    if (IN6_IS_ADDR_V4MAPPED(&end->ip)) {
        (void)inet_ntop(AF_INET, &end->ip.s6_addr[12], host, sizeof host);
        (void)snprintf(out, GATEWAY_ADDRESS_LEN, "%s:%u", host, (unsigned)end->port);
        return;
    }
    (void)inet_ntop(AF_INET6, &end->ip, host, sizeof host);
    (void)snprintf(out, GATEWAY_ADDRESS_LEN, "[%s]:%u", host, (unsigned)end->port);
}

/* Of IPv6 the network of 64 bits, which one host may have to itself. */
struct in6_addr connection_end_counted(const struct connection_end *end)
{
    struct in6_addr address = end->ip;
    if (end->local)
        return (struct in6_addr)IN6ADDR_LOOPBACK_INIT;
    if (!IN6_IS_ADDR_V4MAPPED(&address) && !IN6_IS_ADDR_LOOPBACK(&address))
        memset(&address.s6_addr[NETWORK_LEN], 0, sizeof address.s6_addr - NETWORK_LEN);
    return address;
}

bool connection_proxy_trusted(const struct connections *connections,
                              const struct connection_end *end)
{
    const struct networks *trusted = connections->options.trusted;
    if (trusted == NULL)
        return false;
    const struct policy_ip ip = networks_ip(end->ip.s6_addr);
    return end->local ? trusted->local : networks_hold(trusted, &ip);
}

bool connection_proxy_waits(const struct connections *connections,
                            const struct connection *connection)
{
    return connection->fresh && connection_peer(connections, connection)->trusted &&
           (connections->options.proxies_tell || connection->kept_len > 0);
}

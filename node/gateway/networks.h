/* networks.h - the networks of proxies that a node believes: what they say of their clients.
 *
 *   10.0.0.0/8   192.0.2.7   2001:db8::/32   unix
 *
 * A proxy tells its clients' addresses by a PROXY header (proxy_protocol.h) before the bytes of a
 * connection, or by X-Forwarded-For in a request of HTTP. Of everybody else that is a lie.
 *
 * NETWORKS-1  A network is written in one way: without host bits, and one of IPv4 as IPv4. The
 *             mapped and translated forms are read as IPv4 elsewhere; ::/0 in disguise is no trust.
 *
 * Pure.
 */
#ifndef NODE_GATEWAY_NETWORKS_H
#define NODE_GATEWAY_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "node/policy/model/policy_ip.h"

#define NETWORKS_TEXT "a network such as 10.0.0.0/8 or 2001:db8::/32, an address, or unix"

/* GATEWAY_ADDRESS of who has come by a socket of the file system here, and of whom a proxy says so
 * of a socket there: nobody knows who may connect to that. */
#define NETWORKS_UNIX      "unix"
#define NETWORKS_UNIX_TOLD "unix-there"

enum { NETWORKS_MAX = 64, NETWORKS_EXPECTED_LEN = 96 };

struct networks {
    bool local; /* sockets of the file system, whose rights say who may connect */
    uint32_t count;
    struct policy_block at[NETWORKS_MAX];
};

/* Adds the network of the text, or the one address. 0, or TG_EINVALID with what was expected in
 * `expected`, and nothing added. A network that is there stays there once. */
MUST_USE int networks_add(struct networks *networks, const char *text,
                          char expected[NETWORKS_EXPECTED_LEN]);
/* Whether the address lies in one of them. */
bool networks_hold(const struct networks *networks, const struct policy_ip *ip);
/* Whether the other end of a connection, as GATEWAY_ADDRESS has it, is in one of them; *ip is its
 * address, if it has one. `networks` may be NULL: none. */
bool networks_trust(const struct networks *networks, const char *address, struct policy_ip *ip);
/* The address that a socket has: one of IPv4 is mapped in it. */
struct policy_ip networks_ip(const uint8_t address[POLICY_IPV6_LEN]);

#endif

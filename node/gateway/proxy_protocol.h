/* proxy_protocol.h - what a proxy says of a connection before its first byte (HAProxy's PROXY
 * protocol, versions 1 and 2).
 *
 *   v1   "PROXY TCP4 192.0.2.1 198.51.100.1 56324 6379\r\n"; TCP6 likewise; "PROXY UNKNOWN ...\r\n"
 *   v2   signature 12 | version 4 bits, command 4 bits | family 4, transport 4 | length 2 | rest
 *
 *        rest of IPv4   source 4 | destination 4 | source port 2 | destination port 2
 *        rest of IPv6   source 16 | destination 16 | source port 2 | destination port 2
 *        rest of unix   source 108 | destination 108
 *        behind these   type 1 | length 2 | value ...       numbers are big-endian
 *
 * A header is read for connections of trusted proxies alone (networks.h); the loop says so. No
 * protocol of a client begins as a header does: ZMTP with ff, HTTP with another method, Redis with
 * '*', and no inline command of it is called PROXY.
 *
 * PROXYPROTOCOL-1  What is found does not depend on how the bytes are cut: a prefix of a header is
 *                  PROXY_PROTOCOL_MORE, and of anything else is told as soon as it differs.
 * PROXYPROTOCOL-2  Nothing is waited for beyond PROXY_PROTOCOL_MAX bytes; a longer header is
 *                  refused by its head.
 *
 * Pure.
 */
#ifndef NODE_GATEWAY_PROXY_PROTOCOL_H
#define NODE_GATEWAY_PROXY_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROXY_PROTOCOL_V1_MAX = 107, /* bytes, with the end of the line */
    PROXY_PROTOCOL_HEAD = 16,    /* of version 2 */
    /* A header of version 2: the addresses, and what load balancers put behind them. */
    PROXY_PROTOCOL_MAX = 4096,
    PROXY_PROTOCOL_ADDRESS_LEN = 16
};

/* What the first bytes of a connection are. */
enum proxy_protocol_found {
    PROXY_PROTOCOL_NONE, /* no header: they are the client's */
    PROXY_PROTOCOL_MORE, /* the beginning of one, or of something that begins as one */
    PROXY_PROTOCOL_GOOD, /* a header */
    PROXY_PROTOCOL_BAD   /* a header, with something wrong */
};

/* Whom the proxy speaks of. */
enum proxy_protocol_kind {
    PROXY_PROTOCOL_ITSELF, /* the proxy itself (LOCAL), or it does not know: the socket tells */
    PROXY_PROTOCOL_IP,
    PROXY_PROTOCOL_UNIX /* a client on the proxy's machine, of no address */
};

struct proxy_protocol {
    enum proxy_protocol_kind kind;
    uint8_t version;
    /* Of IP: one of IPv4 is mapped, as sockets have it. */
    uint8_t source[PROXY_PROTOCOL_ADDRESS_LEN];
    uint8_t destination[PROXY_PROTOCOL_ADDRESS_LEN];
    uint16_t source_port;
    uint16_t destination_port;
};

/* Reads the front of what a connection has sent. GOOD: *out is set, and *used is the length of the
 * header. BAD: *fault is a sentence. */
enum proxy_protocol_found proxy_protocol_read(const void *data, size_t len,
                                              struct proxy_protocol *out, size_t *used,
                                              const char **fault);

#endif

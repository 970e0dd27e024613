/* config_endpoint.c - HOST:PORT as people write it, and what a host reaches.
 *
 *   127.0.0.1:7600   node-1.example.org:7602   [2001:db8::1]:7600   *:7600
 *
 * CONFIGENDPOINT-1  An IPv6 address is in brackets wherever a port follows, and never in `host`.
 * CONFIGENDPOINT-2  Text --> endpoint --> text gives the same endpoint.
 *
 * Must not: resolve names. A name counts as reachable from outside unless it is "localhost".
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/runtime/config/config_option.h"

enum { PORT_DIGITS_MAX = 5 };

static bool is_ipv6(const char *host)
{
    struct in6_addr address;

    return inet_pton(AF_INET6, host, &address) == 1;
}

static bool name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

bool config_host_valid(const char *text, size_t len)
{
    char host[CONFIG_HOST_LEN];

    if (len == 0 || len >= sizeof(host))
        return false;
    memcpy(host, text, len);
    host[len] = '\0';
    if (strlen(host) != len)
        return false;
    if (strcmp(host, "*") == 0 || is_ipv6(host))
        return true;
    for (size_t i = 0; i < len; i++) {
        if (!name_character(host[i]))
            return false;
    }
    return host[0] != '-' && host[0] != '.';
}

/* A port without sign, spaces or leading zeros, or 0. */
static uint16_t parse_port(const char *text)
{
    const size_t len = strlen(text);
    uint32_t port = 0;

    if (len == 0 || len > PORT_DIGITS_MAX || text[0] == '0')
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

int config_endpoint_parse(const char *text, struct config_endpoint *out)
{
    const bool bracketed = text[0] == '[';
    const char *colon = strrchr(text, ':');
    const char *host = bracketed ? text + 1 : text;

    *out = (struct config_endpoint){.off = false};
    if (colon == NULL || (bracketed && (colon < text + 2 || colon[-1] != ']')))
        return TG_EINVALID;
    const size_t len = (size_t)(colon - host) - (bracketed ? 1 : 0);
    out->port = parse_port(colon + 1);
    if (out->port == 0 || !config_host_valid(host, len))
        return TG_EINVALID;
    memcpy(out->host, host, len);
    return is_ipv6(out->host) == bracketed ? TG_OK : TG_EINVALID; /* CONFIGENDPOINT-1 */
}

const char *config_endpoint_text(const struct config_endpoint *endpoint,
                                 char out[CONFIG_ENDPOINT_LEN])
{
    const char *form = is_ipv6(endpoint->host) ? "[%s]:%u" : "%s:%u";

    if (endpoint->off)
        (void)snprintf(out, CONFIG_ENDPOINT_LEN, "off");
    else
        (void)snprintf(out, CONFIG_ENDPOINT_LEN, form, endpoint->host, (unsigned)endpoint->port);
    return out;
}

struct config_endpoint config_shard_endpoint(const struct config_endpoint *base, uint32_t shard)
{
    struct config_endpoint endpoint = *base;
    const uint32_t port = base->port + shard * CONFIG_SHARD_PORT_STEP;

    ASSERT(shard < CONFIG_SHARDS_MAX && port <= UINT16_MAX); /* config_check saw to it */
    if (!base->off)
        endpoint.port = (uint16_t)port;
    return endpoint;
}

bool config_host_is_loopback(const char *host)
{
    static const uint8_t mapped[13] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    struct in6_addr v6;
    uint8_t v4[4];

    if (inet_pton(AF_INET, host, v4) == 1)
        return v4[0] == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || memcmp(v6.s6_addr, mapped, sizeof(mapped)) == 0;
    return strcmp(host, "localhost") == 0;
}

bool config_host_is_wildcard(const char *host)
{
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff};
    struct in6_addr v6;
    uint8_t v4[4];

    if (inet_pton(AF_INET, host, v4) == 1)
        return memcmp(v4, (const uint8_t[4]){0}, sizeof(v4)) == 0;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_UNSPECIFIED(&v6) || memcmp(v6.s6_addr, mapped, sizeof(mapped)) == 0;
    return strcmp(host, "*") == 0;
}

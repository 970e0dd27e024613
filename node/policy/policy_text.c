/* policy_text.c - comparing texts, matching patterns, and the one text of an IP address.
 *
 * A pattern is matched left to right. At a `*` the shortest run is tried first, and on a mismatch
 * the latest `*` takes one byte more. Going back to an earlier `*` can never help: giving it more
 * bytes leaves the later one fewer, and both stop at the same '/'.
 *
 *   /user/{*}/posts/{*}        pattern /user/{*}/posts/{*} with {} around the runs
 *   /user/{42}/posts/{7/edit}  the inner run holds no '/', the trailing one may
 *
 * An address is counted under one text, whatever way it was spelt: inet_ntop's, with IPv4-mapped
 * IPv6 as IPv4, so that one client on a dual-stack socket is one client.
 *
 * Must not: allocate, or interpret what is not an address (it is then used as written).
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/policy_internal.h"

enum { IPV4_LEN = 4, IPV6_LEN = 16, IPV6_BITS = 128, MAPPED_LEN = 12 };
static_assert(POLICY_IP_TEXT_LEN >= INET6_ADDRSTRLEN + sizeof("/128") - 1,
              "an address and its prefix fit");

int policy_text_compare(const struct policy_text *a, const struct policy_text *b)
{
    const size_t len = a->len < b->len ? a->len : b->len;
    const int order = len == 0 ? 0 : memcmp(a->data, b->data, len);

    if (order != 0)
        return order;
    return (a->len > b->len) - (a->len < b->len);
}

bool policy_pattern_match(const struct policy_text *pattern, const struct policy_text *text)
{
    size_t p = 0;
    size_t t = 0;
    size_t star_p = SIZE_MAX; /* just behind the latest inner * */
    size_t star_t = 0;        /* the first byte behind its run */

    for (;;) {
        if (p + 1 == pattern->len && pattern->data[p] == '*')
            return true; /* a trailing * takes any rest */
        if (p == pattern->len && t == text->len)
            return true;
        const bool star = p < pattern->len && pattern->data[p] == '*';
        if (star && t < text->len && text->data[t] != '/') {
            star_p = ++p;
            star_t = ++t;
            continue;
        }
        if (!star && p < pattern->len && t < text->len && pattern->data[p] == text->data[t]) {
            p++;
            t++;
            continue;
        }
        if (star_p == SIZE_MAX || star_t == text->len || text->data[star_t] == '/')
            return false;
        p = star_p;
        t = ++star_t;
    }
}

static bool is_mapped(const uint8_t address[IPV6_LEN])
{
    static const uint8_t mapped[MAPPED_LEN] = {[10] = 0xff, [11] = 0xff};

    return memcmp(address, mapped, MAPPED_LEN) == 0;
}

/* Clears all bits behind the first `prefix`. */
static void cut(uint8_t address[IPV6_LEN], unsigned prefix)
{
    for (unsigned i = 0; i < IPV6_LEN; i++) {
        const unsigned kept = prefix > i * 8 ? prefix - i * 8 : 0;
        if (kept < 8)
            address[i] = (uint8_t)(address[i] & (0xff00 >> kept));
    }
}

size_t policy_ip_format(const char *text, size_t len, unsigned ipv6_prefix, char *out)
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t address[IPV6_LEN];
    const uint8_t *ipv4 = NULL;

    ASSERT(ipv6_prefix >= 1 && ipv6_prefix <= IPV6_BITS);
    if (len == 0 || len >= sizeof(copy) || memchr(text, '\0', len) != NULL)
        return 0;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (inet_pton(AF_INET, copy, address) == 1)
        ipv4 = address;
    else if (inet_pton(AF_INET6, copy, address) != 1)
        return 0;
    else if (is_mapped(address))
        ipv4 = address + MAPPED_LEN;
    if (ipv4 != NULL)
        return (size_t)snprintf(out, POLICY_IP_TEXT_LEN, "%u.%u.%u.%u", ipv4[0], ipv4[1], ipv4[2],
                                ipv4[3]);
    cut(address, ipv6_prefix);
    if (inet_ntop(AF_INET6, address, copy, sizeof(copy)) == NULL)
        return 0;
    if (ipv6_prefix == IPV6_BITS)
        return (size_t)snprintf(out, POLICY_IP_TEXT_LEN, "%s", copy);
    return (size_t)snprintf(out, POLICY_IP_TEXT_LEN, "%s/%u", copy, ipv6_prefix);
}

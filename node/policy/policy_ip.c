/* policy_ip.c - addresses: parsed, cut, compared with blocks, and written in one way.
 *
 * An address is counted under one text, whatever way it was spelt: inet_ntop's, with IPv4-mapped
 * IPv6 as IPv4. The same holds for blocks: ::ffff:10.0.0.0/104 is 10.0.0.0/8. A block of IPv6 with
 * fewer than 96 bits holds no IPv4 address.
 *
 * Must not: allocate, or interpret what is not an address (it is then used as written).
 */
#include "node/policy/policy_ip.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { IPV6_BITS = 128, MAPPED_LEN = 12, MAPPED_BITS = 96, PREFIX_DIGITS_MAX = 3 };
static_assert(POLICY_IP_TEXT_LEN >= INET6_ADDRSTRLEN + sizeof("/128") - 1,
              "an address and its prefix fit");

static bool is_mapped(const uint8_t address[POLICY_IPV6_LEN])
{
    static const uint8_t mapped[MAPPED_LEN] = {[10] = 0xff, [11] = 0xff};

    return memcmp(address, mapped, MAPPED_LEN) == 0;
}

bool policy_ip_parse(const char *text, size_t len, struct policy_ip *out)
{
    char copy[INET6_ADDRSTRLEN];

    memset(out, 0, sizeof(*out));
    if (len == 0 || len >= sizeof(copy) || memchr(text, '\0', len) != NULL)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (inet_pton(AF_INET, copy, out->bytes) == 1) {
        out->len = POLICY_IPV4_LEN;
    } else if (inet_pton(AF_INET6, copy, out->bytes) == 1) {
        out->len = POLICY_IPV6_LEN;
        if (is_mapped(out->bytes)) {
            memmove(out->bytes, out->bytes + MAPPED_LEN, POLICY_IPV4_LEN);
            memset(out->bytes + POLICY_IPV4_LEN, 0, MAPPED_LEN);
            out->len = POLICY_IPV4_LEN;
        }
    }
    return out->len != 0;
}

void policy_ip_cut(struct policy_ip *ip, unsigned prefix)
{
    for (unsigned i = 0; i < ip->len; i++) {
        const unsigned kept = prefix > i * 8 ? prefix - i * 8 : 0;
        if (kept < 8)
            ip->bytes[i] = (uint8_t)(ip->bytes[i] & (0xff00 >> kept));
    }
}

/* By hand: it is on the way of nearly every request, and printf takes longer than the rest of it.
 */
static size_t put_ipv4(const uint8_t *bytes, char *out)
{
    char *at = out;

    for (unsigned i = 0; i < POLICY_IPV4_LEN; i++) {
        const unsigned byte = bytes[i];
        if (i > 0)
            *at++ = '.';
        if (byte >= 100)
            *at++ = (char)('0' + byte / 100);
        if (byte >= 10)
            *at++ = (char)('0' + byte / 10 % 10);
        *at++ = (char)('0' + byte % 10);
    }
    *at = '\0';
    return (size_t)(at - out);
}

size_t policy_ip_put(const struct policy_ip *ip, char *out)
{
    ASSERT(ip->len != 0);
    if (ip->len == POLICY_IPV4_LEN)
        return put_ipv4(ip->bytes, out);
    const char *text = inet_ntop(AF_INET6, ip->bytes, out, POLICY_IP_TEXT_LEN);
    ASSERT(text != NULL);
    return strlen(text);
}

size_t policy_ip_format(const char *text, size_t len, unsigned ipv6_prefix, char *out)
{
    struct policy_ip ip;

    ASSERT(ipv6_prefix >= 1 && ipv6_prefix <= IPV6_BITS);
    if (!policy_ip_parse(text, len, &ip))
        return 0;
    if (ip.len == POLICY_IPV4_LEN || ipv6_prefix == IPV6_BITS)
        return policy_ip_put(&ip, out);
    policy_ip_cut(&ip, ipv6_prefix);
    const size_t written = policy_ip_put(&ip, out);
    return written +
           (size_t)snprintf(out + written, POLICY_IP_TEXT_LEN - written, "/%u", ipv6_prefix);
}

/* Reads decimal digits up to the end: 0 .. 999, or -1. */
static int parse_prefix(const char *text, size_t len)
{
    int prefix = 0;

    if (len == 0 || len > PREFIX_DIGITS_MAX || (len > 1 && text[0] == '0'))
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        prefix = prefix * 10 + (text[i] - '0');
    }
    return prefix;
}

enum policy_block_result policy_block_parse(const char *text, size_t len, struct policy_block *out)
{
    const char *slash = memchr(text, '/', len);

    memset(out, 0, sizeof(*out));
    if (slash == NULL)
        return POLICY_BLOCK_MALFORMED;
    const size_t address_len = (size_t)(slash - text);
    int prefix = parse_prefix(slash + 1, len - address_len - 1);
    if (prefix < 0 || !policy_ip_parse(text, address_len, &out->ip))
        return POLICY_BLOCK_MALFORMED;
    if (out->ip.len == POLICY_IPV4_LEN && memchr(text, ':', address_len) != NULL)
        prefix -= MAPPED_BITS;
    if (prefix < 0 || prefix > 8 * out->ip.len)
        return POLICY_BLOCK_MALFORMED;
    const struct policy_ip whole = out->ip;
    out->prefix = (uint8_t)prefix;
    policy_ip_cut(&out->ip, out->prefix);
    return memcmp(whole.bytes, out->ip.bytes, sizeof(whole.bytes)) == 0 ? POLICY_BLOCK_GOOD
                                                                        : POLICY_BLOCK_HOST_BITS;
}

size_t policy_block_put(const struct policy_block *block, char *out)
{
    const size_t len = policy_ip_put(&block->ip, out);

    if (block->prefix == 8 * block->ip.len)
        return len;
    return len + (size_t)snprintf(out + len, POLICY_IP_TEXT_LEN - len, "/%u", block->prefix);
}

bool policy_block_holds(const struct policy_block *block, const struct policy_ip *ip)
{
    struct policy_ip cut = *ip;

    if (ip->len != block->ip.len)
        return false;
    policy_ip_cut(&cut, block->prefix);
    return memcmp(cut.bytes, block->ip.bytes, cut.len) == 0;
}

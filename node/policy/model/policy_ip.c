/* policy_ip.c - addresses: parsed, cut, compared with blocks, and written in one way.
 *
 * An address is counted under one text, whatever way it was spelt: inet_ntop's. What proxies and
 * logs put around it is taken off, and IPv4 that is written as IPv6 is IPv4:
 *
 *   10.1.2.3:5000   [2001:db8::1]:443   fe80::1%eth0   ::ffff:10.1.2.3   64:ff9b::a01:203
 *   10.1.2.3        2001:db8::1         fe80::1        10.1.2.3          10.1.2.3
 *
 * The same holds for blocks: ::ffff:10.0.0.0/104 is 10.0.0.0/8. A block of IPv6 with fewer than 96
 * bits holds no IPv4 address.
 *
 * IP-1  A text that may be read in two ways is no address: IPv4 with leading zeros, lists,
 *       networks, numbers of another base.
 * IP-2  The text of an address is read as that address.
 *
 * Must not: allocate.
 */
#include "node/policy/model/policy_ip.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum {
    IPV6_BITS = 128,
    IPV4_AT = 12, /* where an IPv6 address holds one of IPv4 */
    IPV4_AT_BITS = 96,
    IPV6_GROUPS = 8,
    PREFIX_DIGITS_MAX = 3,
    PORT_DIGITS_MAX = 5,
    PORT_MAX = 65535
};
static_assert(POLICY_IP_TEXT_LEN >= INET6_ADDRSTRLEN + sizeof("/128") - 1,
              "an address and its prefix fit");

static const uint8_t mapped_prefix[IPV4_AT] = {[10] = 0xff, [11] = 0xff};
static const uint8_t nat64_prefix[IPV4_AT] = {0x00, 0x64, 0xff, 0x9b}; /* RFC 6052 */

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads four decimal numbers with dots between, to the end, none with a leading zero. By hand: it
 * is on the way of nearly every request. */
static bool parse_ipv4(const char *text, size_t len, uint8_t out[POLICY_IPV4_LEN])
{
    const char *const end = text + len;

    for (unsigned i = 0; i < POLICY_IPV4_LEN; i++) {
        const char *const begin = text;
        unsigned value = 0;
        while (text < end && is_digit(*text) && text - begin < 3)
            value = value * 10 + (unsigned)(*text++ - '0');
        if (text == begin || value > UINT8_MAX || (*begin == '0' && text - begin > 1))
            return false;
        out[i] = (uint8_t)value;
        if (i + 1 < POLICY_IPV4_LEN && (text == end || *text++ != '.'))
            return false;
    }
    return text == end;
}

/* Reads an address with nothing around it, and leaves what IPv6 holds of IPv4 as it is. */
static bool parse_bare(const char *text, size_t len, struct policy_ip *out)
{
    char copy[INET6_ADDRSTRLEN];

    *out = (struct policy_ip){.len = 0};
    if (parse_ipv4(text, len, out->bytes)) {
        out->len = POLICY_IPV4_LEN;
        return true;
    }
    if (len == 0 || len >= sizeof(copy) || memchr(text, '\0', len) != NULL ||
        memchr(text, ':', len) == NULL)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (inet_pton(AF_INET6, copy, out->bytes) == 1)
        out->len = POLICY_IPV6_LEN;
    return out->len != 0;
}

static bool holds_ipv4(const struct policy_ip *ip)
{
    return ip->len == POLICY_IPV6_LEN && (memcmp(ip->bytes, mapped_prefix, IPV4_AT) == 0 ||
                                          memcmp(ip->bytes, nat64_prefix, IPV4_AT) == 0);
}

/* Makes an IPv4 address of the one in an IPv6 address that holds one. */
static void take_ipv4(struct policy_ip *ip)
{
    memmove(ip->bytes, ip->bytes + IPV4_AT, POLICY_IPV4_LEN);
    memset(ip->bytes + POLICY_IPV4_LEN, 0, IPV4_AT);
    ip->len = POLICY_IPV4_LEN;
}

/* Whether it is empty, or a colon with a port behind it, which may be empty (RFC 3986 3.2.3). */
static bool is_port(const char *text, size_t len)
{
    unsigned port = 0;

    if (len > 0 && text[0] != ':')
        return false;
    if (len > 1 + PORT_DIGITS_MAX)
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!is_digit(text[i]))
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port <= PORT_MAX;
}

/* The length without the zone of an IPv6 address (RFC 4007), which is one byte or more; a text with
 * a zone that is none is left whole, and is no address then. */
static size_t cut_zone(const char *text, size_t len)
{
    const char *percent = memchr(text, '%', len);
    const size_t address_len = percent != NULL ? (size_t)(percent - text) : len;

    if (percent == NULL || len - address_len < 2 || memchr(text, ':', address_len) == NULL)
        return len;
    for (size_t i = address_len + 1; i < len; i++) {
        const char c = text[i];
        if (c <= ' ' || c > '~' || strchr("%/[],\"", c) != NULL)
            return len;
    }
    return address_len;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cuts [*from, *from + *len) down to an address, without blanks, brackets, port and zone. False if
 * what is there is not of that form. */
static bool strip(const char **from, size_t *len)
{
    const char *text = *from;
    size_t left = *len;

    for (; left > 0 && is_blank(text[0]); text++)
        left--;
    while (left > 0 && is_blank(text[left - 1]))
        left--;
    if (left > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', left);
        const size_t inner = close != NULL ? (size_t)(close - text) - 1 : 0;
        if (close == NULL || !is_port(close + 1, left - inner - 2))
            return false;
        text++;
        left = inner;
    } else {
        const char *colon = left > 0 ? memchr(text, ':', left) : NULL;
        const size_t before = colon != NULL ? (size_t)(colon - text) : 0;
        if (colon != NULL && memchr(colon + 1, ':', left - before - 1) == NULL) {
            if (!is_port(colon, left - before)) /* IPv6 has two colons at least */
                return false;
            left = before;
        }
    }
    *from = text;
    *len = left > 0 ? cut_zone(text, left) : 0;
    return true;
}

bool policy_ip_parse(const char *text, size_t len, struct policy_ip *out)
{
    *out = (struct policy_ip){.len = 0};
    if (len == 0)
        return false; /* of nothing there may be no place either */
    if (parse_ipv4(text, len, out->bytes)) {
        out->len = POLICY_IPV4_LEN;
        return true;
    }
    if (!strip(&text, &len) || !parse_bare(text, len, out))
        return false;
    if (holds_ipv4(out))
        take_ipv4(out);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

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

/* Writes a group without leading zeros. */
static char *put_group(unsigned group, char *at)
{
    static const char digits[] = "0123456789abcdef";

    for (int shift = 12; shift >= 0; shift -= 4) {
        if (shift == 0 || group >> shift != 0)
            *at++ = digits[group >> shift & 15];
    }
    return at;
}

/* The longest run of two or more groups of zero, the first of those: *from and the length. */
static unsigned zero_run(const unsigned groups[IPV6_GROUPS], unsigned *from)
{
    unsigned longest = 1;

    *from = IPV6_GROUPS;
    for (unsigned i = 0, run = 0; i < IPV6_GROUPS; i++) {
        run = groups[i] == 0 ? run + 1 : 0;
        if (run > longest) {
            longest = run;
            *from = i + 1 - run;
        }
    }
    return *from == IPV6_GROUPS ? 0 : longest;
}

/* As inet_ntop: RFC 5952, the last four bytes of ::/96 and ::ffff:0:0/96 as IPv4. */
static size_t put_ipv6(const uint8_t *bytes, char *out)
{
    unsigned groups[IPV6_GROUPS];
    unsigned from;
    char *at = out;

    for (unsigned i = 0; i < IPV6_GROUPS; i++)
        groups[i] = (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
    const unsigned run = zero_run(groups, &from);
    for (unsigned i = 0; i < IPV6_GROUPS; i++) {
        if (i == from) {
            *at++ = ':';
            i += run - 1;
            if (i + 1 == IPV6_GROUPS)
                *at++ = ':';
            continue;
        }
        if (i > 0)
            *at++ = ':';
        if (i == 6 && from == 0 && (run == 6 || (run == 5 && groups[5] == 0xffff)))
            return (size_t)(at - out) + put_ipv4(bytes + IPV4_AT, at);
        at = put_group(groups[i], at);
    }
    *at = '\0';
    return (size_t)(at - out);
}

size_t policy_ip_put(const struct policy_ip *ip, char *out)
{
    ASSERT(ip->len != 0);
    return ip->len == POLICY_IPV4_LEN ? put_ipv4(ip->bytes, out) : put_ipv6(ip->bytes, out);
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
    if (prefix < 0 || !parse_bare(text, address_len, &out->ip) || prefix > 8 * out->ip.len)
        return POLICY_BLOCK_MALFORMED;
    if (memcmp(out->ip.bytes, mapped_prefix, IPV4_AT) == 0 && prefix < IPV4_AT_BITS)
        return POLICY_BLOCK_MALFORMED; /* half of the bits that make it IPv4 */
    if (holds_ipv4(&out->ip) && prefix >= IPV4_AT_BITS) {
        take_ipv4(&out->ip);
        prefix -= IPV4_AT_BITS;
    }
    const struct policy_ip whole = out->ip;
    out->prefix = (uint8_t)prefix;
    policy_ip_cut(&out->ip, out->prefix);
    return memcmp(whole.bytes, out->ip.bytes, sizeof(whole.bytes)) == 0 ? POLICY_BLOCK_GOOD
                                                                        : POLICY_BLOCK_HOST_BITS;
}

size_t policy_block_put(const struct policy_block *block, char *out)
{
    ASSERT(block->prefix <= 8 * block->ip.len);
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

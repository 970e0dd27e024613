/* networks.c - see networks.h. Addresses and blocks are read by node/policy, as rules read them.
 */
#include "node/gateway/networks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 64, IPV4_AT = 12 };

/* expected ... */
__attribute__((format(printf, 2, 3))) static int refuse(char expected[NETWORKS_EXPECTED_LEN],
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(expected, NETWORKS_EXPECTED_LEN, format, arguments);
    va_end(arguments);
    return TG_EINVALID;
}

/* The text as a block: an address alone is the block of all its bits. */
static enum policy_block_result read_block(const char *text, struct policy_block *out)
{
    char whole[TEXT_MAX];
    const bool v6 = strchr(text, ':') != NULL;
    const char *bits = strchr(text, '/') != NULL ? "" : v6 ? "/128" : "/32";
    const int len = snprintf(whole, sizeof whole, "%s%s", text, bits);
    if (len < 0 || (size_t)len >= sizeof whole)
        return POLICY_BLOCK_MALFORMED;
    return policy_block_parse(whole, (size_t)len, out);
}

static bool is_there(const struct networks *networks, const struct policy_block *block)
{
    for (uint32_t i = 0; i < networks->count; i++)
        if (networks->at[i].prefix == block->prefix && networks->at[i].ip.len == block->ip.len &&
            policy_block_holds(&networks->at[i], &block->ip))
            return true;
    return false;
}

int networks_add(struct networks *networks, const char *text, char expected[NETWORKS_EXPECTED_LEN])
{
    char written[POLICY_IP_TEXT_LEN];
    struct policy_block block;
    if (strcmp(text, NETWORKS_UNIX) == 0) {
        networks->local = true;
        return 0;
    }
    const enum policy_block_result result = read_block(text, &block);
    if (result == POLICY_BLOCK_MALFORMED)
        return refuse(expected, NETWORKS_TEXT);
    (void)policy_block_put(&block, written);
    if (block.ip.len == POLICY_IPV4_LEN && strchr(text, ':') != NULL) /* NETWORKS-1 */
        return refuse(expected, "%s, as IPv4 is written", written);
    if (result == POLICY_BLOCK_HOST_BITS)
        return refuse(expected, "%s: no bits behind the prefix", written);
    if (is_there(networks, &block))
        return 0;
    if (networks->count == NETWORKS_MAX)
        return refuse(expected, "at most %d networks", NETWORKS_MAX);
    networks->at[networks->count++] = block;
    return 0;
}

bool networks_hold(const struct networks *networks, const struct policy_ip *ip)
{
    for (uint32_t i = 0; i < networks->count; i++)
        if (policy_block_holds(&networks->at[i], ip))
            return true;
    return false;
}

struct policy_ip networks_ip(const uint8_t address[POLICY_IPV6_LEN])
{
    static const uint8_t mapped[IPV4_AT] = {[10] = 0xff, [11] = 0xff};
    struct policy_ip ip = {.len = POLICY_IPV6_LEN};
    if (memcmp(address, mapped, sizeof mapped) == 0) {
        ip.len = POLICY_IPV4_LEN;
        memcpy(ip.bytes, address + IPV4_AT, POLICY_IPV4_LEN);
        return ip;
    }
    memcpy(ip.bytes, address, POLICY_IPV6_LEN);
    return ip;
}

bool networks_trust(const struct networks *networks, const char *address, struct policy_ip *ip)
{
    const bool has_address = policy_ip_parse(address, strlen(address), ip);
    if (networks == NULL)
        return false;
    if (has_address)
        return networks_hold(networks, ip);
    return networks->local && strcmp(address, NETWORKS_UNIX) == 0;
}

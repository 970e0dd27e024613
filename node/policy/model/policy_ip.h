/* policy_ip.h - addresses and blocks of addresses, for the files of this folder.
 *
 * IPv4-mapped IPv6 is IPv4 everywhere, so that one client on a dual-stack socket is one client.
 */
#ifndef NODE_POLICY_MODEL_POLICY_IP_H
#define NODE_POLICY_MODEL_POLICY_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/policy/model/policy.h"

enum { POLICY_IPV4_LEN = 4, POLICY_IPV6_LEN = 16 };

struct policy_ip {
    uint8_t len; /* of bytes: 4, 16, or 0 for no address */
    uint8_t bytes[POLICY_IPV6_LEN];
};

/* All addresses of one family whose first `prefix` bits are those of `ip`; its others are 0. */
struct policy_block {
    struct policy_ip ip;
    uint8_t prefix;
};

/* What policy_block_parse found. */
enum policy_block_result {
    POLICY_BLOCK_GOOD,
    POLICY_BLOCK_MALFORMED, /* not ADDRESS/BITS, or more bits than the address has */
    POLICY_BLOCK_HOST_BITS  /* bits behind the prefix are set; *out is the block without them */
};

/* Reads an address. False, and out->len 0, if `text` is none. */
bool policy_ip_parse(const char *text, size_t len, struct policy_ip *out);
/* Clears all bits behind the first `prefix`. */
void policy_ip_cut(struct policy_ip *ip, unsigned prefix);
/* The canonical text of an address, into POLICY_IP_TEXT_LEN bytes. Returns its length. */
size_t policy_ip_put(const struct policy_ip *ip, char *out);

/* Reads "10.0.0.0/8". */
enum policy_block_result policy_block_parse(const char *text, size_t len, struct policy_block *out);
/* Its canonical text, into POLICY_IP_TEXT_LEN bytes: that of the address alone if the block holds
 * only one. Returns the length. */
size_t policy_block_put(const struct policy_block *block, char *out);
bool policy_block_holds(const struct policy_block *block, const struct policy_ip *ip);

#endif

/* fuzz_proxy_protocol.c - whatever a proxy, or who would be one, sends first.
 *
 *   input   the first bytes of a connection
 *
 * Properties: what is found does not depend on how the bytes are cut (PROXYPROTOCOL-1), nor on what
 * follows a header; nothing is waited for beyond PROXY_PROTOCOL_MAX (PROXYPROTOCOL-2); what is told
 * of a client, written anew in either version, is read as the same.
 */
#include "node/gateway/proxy_protocol.h"
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { WHOLE_MAX = 300, IPV6_REST = 36 };

struct seen {
    enum proxy_protocol_found found;
    struct proxy_protocol told;
    size_t used;
    const char *fault;
};

static struct seen look(const void *data, size_t len)
{
    struct seen seen;
    char *const copy = (char *)fuzz_copy(data, len);
    seen.found = proxy_protocol_read(copy, len, &seen.told, &seen.used, &seen.fault);
    free(copy);
    ASSERT(seen.used <= len && seen.used <= PROXY_PROTOCOL_MAX);
    ASSERT((seen.fault != NULL) == (seen.found == PROXY_PROTOCOL_BAD));
    ASSERT(seen.found != PROXY_PROTOCOL_GOOD || seen.told.version == 1 || seen.told.version == 2);
    return seen;
}

static bool is_same(const struct seen *a, const struct seen *b)
{
    return a->found == b->found &&
           (a->found != PROXY_PROTOCOL_GOOD ||
            (a->used == b->used && a->told.kind == b->told.kind &&
             memcmp(a->told.source, b->told.source, sizeof a->told.source) == 0 &&
             memcmp(a->told.destination, b->told.destination, sizeof a->told.destination) == 0 &&
             a->told.source_port == b->told.source_port &&
             a->told.destination_port == b->told.destination_port));
}

/* A header of version 2 that tells the same, as IPv6. */
static void check_binary(const struct seen *seen)
{
    uint8_t header[PROXY_PROTOCOL_HEAD + IPV6_REST] = {0x0d, 0x0a, 0x0d, 0x0a,     0x00, 0x0d,
                                                       0x0a, 0x51, 0x55, 0x49,     0x54, 0x0a,
                                                       0x21, 0x21, 0x00, IPV6_REST};
    const struct proxy_protocol *told = &seen->told;
    uint8_t *const rest = header + PROXY_PROTOCOL_HEAD;
    memcpy(rest, told->source, 16);
    memcpy(rest + 16, told->destination, 16);
    rest[32] = (uint8_t)(told->source_port >> 8);
    rest[33] = (uint8_t)told->source_port;
    rest[34] = (uint8_t)(told->destination_port >> 8);
    rest[35] = (uint8_t)told->destination_port;
    struct seen again = look(header, sizeof header);
    again.used = seen->used;
    ASSERT(is_same(seen, &again));
}

static void check_line(const struct seen *seen)
{
    char from[INET6_ADDRSTRLEN];
    char to[INET6_ADDRSTRLEN];
    char line[PROXY_PROTOCOL_V1_MAX + 1];
    ASSERT(inet_ntop(AF_INET6, seen->told.source, from, sizeof from) != NULL);
    ASSERT(inet_ntop(AF_INET6, seen->told.destination, to, sizeof to) != NULL);
    const int len = snprintf(line, sizeof line, "PROXY TCP6 %s %s %u %u\r\n", from, to,
                             seen->told.source_port, seen->told.destination_port);
    struct seen again = look(line, (size_t)len);
    ASSERT(again.used == (size_t)len);
    again.used = seen->used;
    ASSERT(is_same(seen, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct seen whole = look(data, len);
    const size_t step = len <= WHOLE_MAX ? 1 : len / WHOLE_MAX;
    ASSERT(whole.found != PROXY_PROTOCOL_MORE || len < PROXY_PROTOCOL_MAX); /* PROXYPROTOCOL-2 */
    for (size_t i = 0; i < len; i += step) {                                /* PROXYPROTOCOL-1 */
        const struct seen part = look(data, i);
        ASSERT(part.found == PROXY_PROTOCOL_MORE || is_same(&part, &whole));
        ASSERT(whole.found != PROXY_PROTOCOL_GOOD ||
               (part.found == PROXY_PROTOCOL_GOOD) == (i >= whole.used));
    }
    if (whole.found == PROXY_PROTOCOL_GOOD && whole.told.kind == PROXY_PROTOCOL_IP) {
        check_binary(&whole);
        check_line(&whole);
    }
    return 0;
}

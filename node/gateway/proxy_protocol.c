/* proxy_protocol.c - see proxy_protocol.h, which draws both versions.
 *
 * Strict: what the specification leaves to the receiver is refused, but for addresses of a kind
 * that no client of this node has (datagrams), and values behind the addresses, which are skipped.
 * A checksum among these is verified.
 */
#include "node/gateway/proxy_protocol.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

enum {
    SIGNATURE_LEN = 12,
    COMMAND_AT = 12,
    FAMILY_AT = 13,
    LENGTH_AT = 14,
    VERSION = 0x20,
    LOCAL = 0,
    PROXY = 1,
    UNSPECIFIED = 0x00,
    STREAM = 1,
    DATAGRAM = 2,
    IPV4 = 1,
    IPV6 = 2,
    UNIX = 3,
    IPV4_LEN = 4,
    IPV4_AT = 12, /* in an address of 16 bytes */
    PORTS_LEN = 4,
    UNIX_LEN = 216,
    VALUE_HEAD = 3,
    CHECKSUM = 0x03, /* the type of a value */
    CHECKSUM_LEN = 4,
    PORT_DIGITS_MAX = 5,
    FIELDS = 4 /* of a line, behind the word for the family */
};

#define WORD "PROXY "

static const uint8_t signature[SIGNATURE_LEN] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                                 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

static_assert(sizeof WORD - 1 < (size_t)PROXY_PROTOCOL_HEAD, "both are known by their first bytes");

static uint16_t get_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static enum proxy_protocol_found bad(const char **fault, const char *sentence)
{
    *fault = sentence;
    return PROXY_PROTOCOL_BAD;
}

/* Four bytes as sixteen, as sockets have them. */
static void put_mapped(const uint8_t from[IPV4_LEN], uint8_t out[PROXY_PROTOCOL_ADDRESS_LEN])
{
    memset(out, 0, PROXY_PROTOCOL_ADDRESS_LEN);
    out[10] = out[11] = 0xff;
    memcpy(out + IPV4_AT, from, IPV4_LEN);
}

/* ---- version 1 ------------------------------------------------------------------------------- */

struct field {
    const char *text;
    size_t len;
};

/* Cuts the line at single blanks. False: there are not as many fields as that. */
static bool cut(const char *line, size_t len, struct field fields[FIELDS])
{
    for (uint32_t i = 0; i < FIELDS; i++) {
        const char *blank = len > 0 ? memchr(line, ' ', len) : NULL;
        const size_t field_len = blank != NULL ? (size_t)(blank - line) : len;
        if (field_len == 0 || (blank == NULL) != (i + 1 == FIELDS))
            return false;
        fields[i] = (struct field){line, field_len};
        line += field_len + 1;
        len -= blank != NULL ? field_len + 1 : field_len;
    }
    return true;
}

static bool read_address(const struct field *field, int family,
                         uint8_t out[PROXY_PROTOCOL_ADDRESS_LEN])
{
    char text[INET6_ADDRSTRLEN];
    uint8_t bytes[PROXY_PROTOCOL_ADDRESS_LEN];
    if (field->len >= sizeof text || memchr(field->text, '\0', field->len) != NULL)
        return false;
    memcpy(text, field->text, field->len);
    text[field->len] = '\0';
    if (inet_pton(family, text, bytes) != 1)
        return false;
    if (family == AF_INET)
        put_mapped(bytes, out);
    else
        memcpy(out, bytes, sizeof bytes);
    return true;
}

static bool read_port(const struct field *field, uint16_t *out)
{
    uint32_t port = 0;
    if (field->len > PORT_DIGITS_MAX || (field->len > 1 && field->text[0] == '0'))
        return false;
    for (size_t i = 0; i < field->len; i++) {
        if (field->text[i] < '0' || field->text[i] > '9')
            return false;
        port = port * 10 + (uint32_t)(field->text[i] - '0');
    }
    *out = (uint16_t)port;
    return port <= UINT16_MAX;
}

/* What stands between the word and the end of the line. */
static enum proxy_protocol_found read_words(const char *line, size_t len,
                                            struct proxy_protocol *out, const char **fault)
{
    static const char unknown[] = "UNKNOWN";
    struct field fields[FIELDS];
    const size_t unknown_len = sizeof unknown - 1;
    if (len >= unknown_len && memcmp(line, unknown, unknown_len) == 0 &&
        (len == unknown_len || line[unknown_len] == ' '))
        return PROXY_PROTOCOL_GOOD; /* whatever follows is to be ignored */
    const bool v4 = len > 5 && memcmp(line, "TCP4 ", 5) == 0;
    const bool v6 = len > 5 && memcmp(line, "TCP6 ", 5) == 0;
    const int family = v4 ? AF_INET : AF_INET6;
    if (!v4 && !v6)
        return bad(fault, "expected TCP4, TCP6 or UNKNOWN behind PROXY");
    if (!cut(line + 5, len - 5, fields))
        return bad(fault, "expected two addresses and two ports, each behind one blank");
    if (!read_address(&fields[0], family, out->source) ||
        !read_address(&fields[1], family, out->destination))
        return bad(fault, "expected addresses of the family that is told");
    if (!read_port(&fields[2], &out->source_port) || !read_port(&fields[3], &out->destination_port))
        return bad(fault, "expected ports from 0 to 65535");
    out->kind = PROXY_PROTOCOL_IP;
    return PROXY_PROTOCOL_GOOD;
}

static enum proxy_protocol_found read_v1(const char *data, size_t len, struct proxy_protocol *out,
                                         size_t *used, const char **fault)
{
    const size_t word_len = sizeof WORD - 1;
    const size_t seen = len < PROXY_PROTOCOL_V1_MAX ? len : PROXY_PROTOCOL_V1_MAX;
    const char *end = memchr(data, '\n', seen);
    if (end == NULL)
        return seen == PROXY_PROTOCOL_V1_MAX
                   ? bad(fault, "expected a line of at most 107 bytes behind PROXY")
                   : PROXY_PROTOCOL_MORE;
    const size_t line_len = (size_t)(end - data);
    if (line_len <= word_len || end[-1] != '\r')
        return bad(fault, "expected CR and LF at the end of the line");
    out->version = 1;
    *used = line_len + 1;
    return read_words(data + word_len, line_len - 1 - word_len, out, fault);
}

/* ---- version 2 ------------------------------------------------------------------------------- */

/* CRC-32C goes on over some bytes; it begins and ends inverted. */
static uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return crc;
}

/* Whether the checksum at `at` is that of the header, in which it counts as zeros. */
static bool is_sum(const uint8_t *header, size_t len, size_t at)
{
    static const uint8_t zeros[CHECKSUM_LEN];
    const uint32_t told = (uint32_t)get_u16(header + at) << 16 | (uint32_t)get_u16(header + at + 2);
    uint32_t crc = crc32c(UINT32_MAX, header, at);
    crc = crc32c(crc, zeros, sizeof zeros);
    crc = crc32c(crc, header + at + CHECKSUM_LEN, len - at - CHECKSUM_LEN);
    return ~crc == told;
}

/* The values behind the addresses, from `at` on: well-formed, and a checksum is true. */
static enum proxy_protocol_found check_values(const uint8_t *header, size_t len, size_t at,
                                              const char **fault)
{
    size_t sum_at = 0;
    while (at < len) {
        if (len - at < VALUE_HEAD || len - at - VALUE_HEAD < get_u16(header + at + 1))
            return bad(fault, "expected values that end with the header");
        const size_t value_len = get_u16(header + at + 1);
        if (header[at] == CHECKSUM && (value_len != CHECKSUM_LEN || sum_at != 0))
            return bad(fault, "expected one checksum, of four bytes");
        if (header[at] == CHECKSUM)
            sum_at = at + VALUE_HEAD;
        at += VALUE_HEAD + value_len;
    }
    if (sum_at != 0 && !is_sum(header, len, sum_at))
        return bad(fault, "the checksum of the header is wrong");
    return PROXY_PROTOCOL_GOOD;
}

/* The length that the addresses of a family have; 0: it has none, or is unknown. */
static size_t addresses_len(uint8_t family)
{
    switch (family) {
    case IPV4:
        return 2 * IPV4_LEN + PORTS_LEN;
    case IPV6:
        return 2 * PROXY_PROTOCOL_ADDRESS_LEN + PORTS_LEN;
    case UNIX:
        return UNIX_LEN;
    default:
        return 0;
    }
}

static void take_addresses(const uint8_t *bytes, uint8_t family, struct proxy_protocol *out)
{
    const size_t each = family == IPV4 ? IPV4_LEN : PROXY_PROTOCOL_ADDRESS_LEN;
    if (family == UNIX) {
        out->kind = PROXY_PROTOCOL_UNIX;
        return;
    }
    out->kind = PROXY_PROTOCOL_IP;
    if (family == IPV4) {
        put_mapped(bytes, out->source);
        put_mapped(bytes + each, out->destination);
    } else {
        memcpy(out->source, bytes, each);
        memcpy(out->destination, bytes + each, each);
    }
    out->source_port = get_u16(bytes + 2 * each);
    out->destination_port = get_u16(bytes + 2 * each + 2);
}

/* A whole header of command PROXY. */
static enum proxy_protocol_found read_told(const uint8_t *header, size_t len,
                                           struct proxy_protocol *out, const char **fault)
{
    const uint8_t family = header[FAMILY_AT] >> 4;
    const uint8_t transport = header[FAMILY_AT] & 15;
    const size_t own = addresses_len(family);
    if (header[FAMILY_AT] == UNSPECIFIED)
        return PROXY_PROTOCOL_GOOD; /* what follows has no form */
    if (own == 0 || transport < STREAM || transport > DATAGRAM)
        return bad(fault, "expected a family and a transport of version 2");
    if (len - PROXY_PROTOCOL_HEAD < own)
        return bad(fault, "expected as many bytes as addresses of the family have");
    if (transport == STREAM)
        take_addresses(header + PROXY_PROTOCOL_HEAD, family, out);
    return check_values(header, len, PROXY_PROTOCOL_HEAD + own, fault);
}

static enum proxy_protocol_found read_v2(const uint8_t *data, size_t len,
                                         struct proxy_protocol *out, size_t *used,
                                         const char **fault)
{
    if (len < PROXY_PROTOCOL_HEAD)
        return PROXY_PROTOCOL_MORE;
    const uint8_t command = data[COMMAND_AT] & 15;
    const size_t whole = PROXY_PROTOCOL_HEAD + (size_t)get_u16(data + LENGTH_AT);
    if ((data[COMMAND_AT] & 0xf0) != VERSION || command > PROXY)
        return bad(fault, "expected version 2 and the command PROXY or LOCAL");
    if (whole > PROXY_PROTOCOL_MAX)
        return bad(fault, "expected a header of at most 4096 bytes");
    if (len < whole)
        return PROXY_PROTOCOL_MORE;
    out->version = 2;
    *used = whole;
    return command == LOCAL ? PROXY_PROTOCOL_GOOD : read_told(data, whole, out, fault);
}

/* ---- either ---------------------------------------------------------------------------------- */

/* Whether the first bytes are those of `prefix`, as far as there are any. */
static bool begins(const void *data, size_t len, const void *prefix, size_t prefix_len)
{
    return memcmp(data, prefix, len < prefix_len ? len : prefix_len) == 0;
}

enum proxy_protocol_found proxy_protocol_read(const void *data, size_t len,
                                              struct proxy_protocol *out, size_t *used,
                                              const char **fault)
{
    const size_t word_len = sizeof WORD - 1;
    *out = (struct proxy_protocol){.kind = PROXY_PROTOCOL_ITSELF};
    *used = 0;
    *fault = NULL;
    if (len == 0)
        return PROXY_PROTOCOL_MORE;
    if (begins(data, len, WORD, word_len))
        return len < word_len ? PROXY_PROTOCOL_MORE : read_v1(data, len, out, used, fault);
    if (begins(data, len, signature, SIGNATURE_LEN))
        return read_v2(data, len, out, used, fault);
    return PROXY_PROTOCOL_NONE;
}

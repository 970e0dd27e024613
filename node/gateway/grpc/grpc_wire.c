/* grpc_wire.c - bytes and texts of gRPC over HTTP/2. */
#include "node/gateway/grpc/grpc_wire.h"

#include <string.h>

enum { TIMEOUT_DIGITS = 8 };

const char *grpc_status_name(enum grpc_status status)
{
    static const char *const names[GRPC_STATUSES] = {[GRPC_OK] = "OK",
                                                     [GRPC_CANCELLED] = "CANCELLED",
                                                     [GRPC_UNKNOWN] = "UNKNOWN",
                                                     [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
                                                     [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
                                                     [GRPC_NOT_FOUND] = "NOT_FOUND",
                                                     [GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
                                                     [GRPC_RESOURCE_EXHAUSTED] =
                                                         "RESOURCE_EXHAUSTED",
                                                     [GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
                                                     [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
                                                     [GRPC_INTERNAL] = "INTERNAL",
                                                     [GRPC_UNAVAILABLE] = "UNAVAILABLE",
                                                     [GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED"};
    return (unsigned)status < GRPC_STATUSES ? names[status] : NULL;
}

struct grpc_prefix grpc_prefix_read(const uint8_t bytes[GRPC_PREFIX_LEN])
{
    return (struct grpc_prefix){.flag = bytes[0],
                                .len = (uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 |
                                       (uint32_t)bytes[3] << 8 | bytes[4]};
}

void grpc_prefix_write(uint8_t bytes[GRPC_PREFIX_LEN], uint32_t len)
{
    bytes[0] = 0;
    bytes[1] = (uint8_t)(len >> 24);
    bytes[2] = (uint8_t)(len >> 16);
    bytes[3] = (uint8_t)(len >> 8);
    bytes[4] = (uint8_t)len;
}

static int64_t unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return INT64_C(3600000000000);
    case 'M':
        return INT64_C(60000000000);
    case 'S':
        return INT64_C(1000000000);
    case 'm':
        return INT64_C(1000000);
    case 'u':
        return INT64_C(1000);
    case 'n':
        return 1;
    default:
        return -1;
    }
}

int64_t grpc_timeout_read(const char *text)
{
    int64_t value = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9'; digits++) {
        if (digits == TIMEOUT_DIGITS)
            return -1;
        value = value * 10 + (text[digits] - '0');
    }
    const int64_t unit = unit_ns(text[digits]);
    if (digits == 0 || unit < 0 || text[digits + 1] != '\0')
        return -1;
    return value > INT64_MAX / unit ? INT64_MAX : value * unit;
}

void grpc_message_escape(const char *text, char out[GRPC_ESCAPED_LEN])
{
    static const char hex[] = "0123456789ABCDEF";
    size_t at = 0;
    for (; *text != '\0' && at + 3 < GRPC_ESCAPED_LEN; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte >= ' ' && byte <= '~' && byte != '%') {
            out[at++] = *text;
            continue;
        }
        out[at++] = '%';
        out[at++] = hex[byte >> 4];
        out[at++] = hex[byte & 15];
    }
    out[at] = '\0';
}

bool grpc_type_fits(const char *type)
{
    static const char name[] = "application/grpc";
    const size_t len = sizeof name - 1;
    if (strncmp(type, name, len) != 0)
        return false;
    const char *rest = type + len;
    if (strncmp(rest, "+proto", 6) == 0)
        rest += 6;
    return *rest == '\0' || *rest == ';';
}

/* ---- fields ---------------------------------------------------------------------------------- */

static bool take_long(struct grpc_piece *piece, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; piece->len > 0 && shift < 64; shift += 7) {
        const uint8_t byte = *piece->data++;
        piece->len--;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return shift < 63 || byte < 2; /* 64 bits */
    }
    return false;
}

/* Most are a byte. */
static inline bool take_number(struct grpc_piece *piece, uint64_t *out)
{
    if (piece->len == 0 || *piece->data > 127)
        return take_long(piece, out);
    *out = *piece->data++;
    piece->len--;
    return true;
}

static bool take_bytes(struct grpc_piece *piece, uint64_t len, struct grpc_piece *out)
{
    if (len > piece->len)
        return false;
    *out = (struct grpc_piece){piece->data, (size_t)len};
    piece->data += len;
    piece->len -= (size_t)len;
    return true;
}

static bool take_value(struct grpc_piece *message, struct grpc_field *field)
{
    uint64_t len;
    switch (field->kind) {
    case GRPC_NUMBER:
        return take_number(message, &field->value);
    case GRPC_BYTES:
        return take_number(message, &len) && take_bytes(message, len, &field->bytes);
    case GRPC_64:
        return take_bytes(message, 8, &field->bytes);
    case GRPC_32:
        return take_bytes(message, 4, &field->bytes);
    }
    return false;
}

int grpc_field_next(struct grpc_piece *message, struct grpc_field *out)
{
    uint64_t key;
    if (message->len == 0)
        return 0;
    if (!take_number(message, &key) || key > UINT32_MAX || key >> 3 == 0)
        return -1;
    out->number = (uint32_t)(key >> 3);
    out->kind = (enum grpc_kind)(key & 7);
    return take_value(message, out) ? 1 : -1;
}

uint32_t grpc_piece_next(struct grpc_piece *message, struct grpc_piece *out)
{
    struct grpc_field field;
    while (grpc_field_next(message, &field) > 0) {
        if (field.kind == GRPC_BYTES) {
            *out = field.bytes;
            return field.number;
        }
    }
    return 0;
}

uint8_t *grpc_put_varint(uint8_t *out, uint64_t value)
{
    for (; value > 127; value >>= 7)
        *out++ = (uint8_t)(value | 128);
    *out++ = (uint8_t)value;
    return out;
}

/* traceparent.c - see traceparent.h. */
#include "node/gateway/trace/traceparent.h"

enum {
    TRACE_AT = 3,
    SPAN_AT = 36,
    FLAGS_AT = 53,
    FLAG_SAMPLED = 1,
    VERSION_KNOWN = 0,
    VERSION_NONE = 0xff
};

/* The value of a lower-case digit, or -1. */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads `count` bytes of two digits each; *any: one of them is not zero. */
static bool read_bytes(const char *text, size_t count, uint8_t *out, bool *any)
{
    *any = false;
    for (size_t i = 0; i < count; i++) {
        const int high = digit(text[2 * i]);
        const int low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
        *any = *any || out[i] != 0;
    }
    return true;
}

bool traceparent_read(const char *text, size_t len, struct traceparent *out)
{
    uint8_t version;
    uint8_t flags;
    bool any;
    if (len < TRACEPARENT_LEN || text[TRACE_AT - 1] != '-' || text[SPAN_AT - 1] != '-' ||
        text[FLAGS_AT - 1] != '-')
        return false;
    if (!read_bytes(text, 1, &version, &any) || version == VERSION_NONE)
        return false;
    if (len > TRACEPARENT_LEN && (version == VERSION_KNOWN || text[TRACEPARENT_LEN] != '-'))
        return false;
    if (!read_bytes(text + TRACE_AT, TRACE_ID_BYTES, out->trace, &any) || !any)
        return false;
    if (!read_bytes(text + SPAN_AT, TRACE_SPAN_BYTES, out->span, &any) || !any)
        return false;
    if (!read_bytes(text + FLAGS_AT, 1, &flags, &any))
        return false;
    out->sampled = (flags & FLAG_SAMPLED) != 0;
    return true;
}

const char *trace_digits(const uint8_t *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * count] = '\0';
    return out;
}

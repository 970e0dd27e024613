/* grpc_gubernator_wire.c - see grpc_gubernator_wire.h. */
#include "node/gateway/grpc/grpc_gubernator_wire.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"

/* ---- requests -------------------------------------------------------------------------------- */

enum { REQUESTS = 1 };

/* Of a RateLimitReq. */
enum {
    NAME = 1,
    UNIQUE_KEY,
    HITS,
    LIMIT,
    DURATION,
    ALGORITHM,
    BEHAVIOR,
    BURST,
    METADATA,
    CREATED_AT,
    ITEM_FIELDS
};

static void set_number(struct gubernator_item *item, uint32_t number, uint64_t value)
{
    switch (number) {
    case HITS:
        item->hits = (int64_t)value;
        break;
    case LIMIT:
        item->limit = (int64_t)value;
        break;
    case DURATION:
        item->duration = (int64_t)value;
        break;
    case ALGORITHM:
        item->algorithm = (int32_t)(uint32_t)value;
        break;
    case BEHAVIOR:
        item->behavior = (int32_t)(uint32_t)value;
        break;
    case BURST:
        item->burst = (int64_t)value;
        break;
    default: /* not looked at */
        break;
    }
}

/* Whether the field is of the kind that it is to be. */
static bool fits(const struct grpc_field *field)
{
    const bool bytes =
        field->number == NAME || field->number == UNIQUE_KEY || field->number == METADATA;
    return field->number >= ITEM_FIELDS || field->kind == (bytes ? GRPC_BYTES : GRPC_NUMBER);
}

static int read_item(struct grpc_piece message, struct gubernator_item *out)
{
    struct grpc_field field;
    int found;
    *out = (struct gubernator_item){.name = {"", 0}, .unique_key = {"", 0}};
    while ((found = grpc_field_next(&message, &field)) > 0) {
        if (!fits(&field))
            return -1;
        if (field.number == NAME)
            out->name = (struct wire_text){(const char *)field.bytes.data, field.bytes.len};
        else if (field.number == UNIQUE_KEY)
            out->unique_key = (struct wire_text){(const char *)field.bytes.data, field.bytes.len};
        else
            set_number(out, field.number, field.value);
    }
    return found;
}

int grpc_gubernator_read(struct grpc_piece *request, struct gubernator_item *out)
{
    struct grpc_field field;
    int found;
    while ((found = grpc_field_next(request, &field)) > 0) {
        if (field.number != REQUESTS)
            continue;
        if (field.kind != GRPC_BYTES)
            return -1;
        return read_item(field.bytes, out) == 0 ? 1 : -1;
    }
    return found;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Keys of fields: number and kind. Of a GetRateLimitsResp, a RateLimitResp, and a MetadataEntry. */
enum { RESPONSES = 1 << 3 | GRPC_BYTES };
enum {
    STATUS = 1 << 3 | GRPC_NUMBER,
    TOLD_LIMIT = 2 << 3 | GRPC_NUMBER,
    REMAINING = 3 << 3 | GRPC_NUMBER,
    RESET_TIME = 4 << 3 | GRPC_NUMBER,
    ERROR = 5 << 3 | GRPC_BYTES,
    ENTRY = 6 << 3 | GRPC_BYTES
};
enum { ENTRY_KEY = 1 << 3 | GRPC_BYTES, ENTRY_VALUE = 2 << 3 | GRPC_BYTES };

enum {
    VALUE_MAX = 64, /* of an entry: a node's name, or a sentence of gubernator.c */
    ENTRY_MAX = 2 + 2 + sizeof GUBERNATOR_REGION_KEY + 2 + VALUE_MAX,
    NUMBER_MAX = 1 + GRPC_VARINT_MAX,
    BODY_MAX = 4 * NUMBER_MAX + 3 + GUBERNATOR_ERROR_MAX + 2 * ENTRY_MAX
};
static_assert((int)VALUE_MAX >= (int)WIRE_NAME_MAX && (int)ENTRY_MAX < 128, "its length is a byte");
static_assert((int)BODY_MAX + 3 <= (int)GUBERNATOR_RESPONSE_MAX, "a response has room");

static uint8_t *put_number(uint8_t *out, uint8_t key, int64_t value)
{
    if (value == 0)
        return out;
    *out++ = key;
    return grpc_put_varint(out, (uint64_t)value);
}

static uint8_t *put_bytes(uint8_t *out, uint8_t key, const void *data, size_t len)
{
    *out++ = key;
    out = grpc_put_varint(out, len);
    memcpy(out, data, len);
    return out + len;
}

static uint8_t *put_entry(uint8_t *out, const char *key, size_t key_len, struct wire_text value)
{
    if (value.len == 0)
        return out;
    ASSERT(value.len <= VALUE_MAX);
    *out++ = ENTRY;
    *out++ = (uint8_t)(2 + key_len + 2 + value.len);
    out = put_bytes(out, ENTRY_KEY, key, key_len);
    return put_bytes(out, ENTRY_VALUE, value.data, value.len);
}

uint8_t *grpc_gubernator_write(const struct gubernator_answer *answer, uint8_t *out)
{
    static const char owner[] = "owner";
    uint8_t body[BODY_MAX];
    uint8_t *end = put_number(body, STATUS, answer->over ? 1 : 0);
    end = put_number(end, TOLD_LIMIT, answer->limit);
    end = put_number(end, REMAINING, answer->remaining);
    end = put_number(end, RESET_TIME, answer->reset_ms);
    if (answer->error.len > 0) {
        ASSERT(answer->error.len <= GUBERNATOR_ERROR_MAX);
        end = put_bytes(end, ERROR, answer->error.data, answer->error.len);
    }
    end = put_entry(end, owner, sizeof owner - 1, answer->owner);
    end = put_entry(end, GUBERNATOR_REGION_KEY, sizeof GUBERNATOR_REGION_KEY - 1, answer->region);
    return put_bytes(out, RESPONSES, body, (size_t)(end - body));
}

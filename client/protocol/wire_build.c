/* wire_build.c - CHECKS as a client writes it, item by item.
 *
 * The columns grow in the builder, since a msgpack `bin` states its length before its bytes;
 * encode then copies each column once. Templates are kept in their encoded form, so that "is this
 * template here already?" is a comparison of bytes.
 *
 *   EMPTY --append--> FILLING --append: TG_EFULL--> encode, reset --> EMPTY
 *
 * BUILDER-1  Whatever was appended fits: wire_checks_builder_len() <= len_max at all times.
 * BUILDER-2  A refused append or template leaves the builder as it was.
 * BUILDER-3  What the builder accepts, wire_decode_checks accepts.
 */
#include "client/protocol/wire_checks.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "client/protocol/wire_envelope.h"
#include "client/protocol/wire_field.h"

enum {
    CHECKS_FIELDS = 12,
    INLINE_KNOWN = 7,
    INLINE_FIELDS = 5, /* that every inline template has */
    RULE_FIELDS = 4,
    ITEM_COLUMNS_LEN = 1 + 8 + 2, /* operation, cost, template index */
    /* Heads: array, version, type, three u64, timeout, n, five bins and the templates' array. */
    OVERHEAD_LEN = 5 + 1 + 1 + 9 + 9 + 5 + 5 + 3 + 3 + 5 * 5,
    TEMPLATE_LEN_MAX = WIRE_ATTRIBUTES_MAX * (WIRE_ATTRIBUTE_LEN_MAX + 2) + 8
};
#define SECOND_NS UINT64_C(1000000000)
static_assert((int)TEMPLATE_LEN_MAX > WIRE_RULES_MAX * (WIRE_RULE_MAX + 32), "any template fits");

void wire_checks_builder_init(struct wire_checks_builder *builder, void *values, size_t capacity)
{
    ASSERT(values != NULL || capacity == 0);
    builder->values = values;
    builder->values_capacity = capacity;
    builder->len_max = WIRE_MESSAGE_MAX;
    wire_checks_builder_reset(builder);
}

void wire_checks_builder_reset(struct wire_checks_builder *builder)
{
    builder->count = 0;
    builder->states_uses = false;
    builder->template_count = 0;
    builder->template_last = 0;
    builder->templates_len = 0;
    builder->values_len = 0;
    builder->template_offset[0] = 0;
}

size_t wire_checks_builder_len(const struct wire_checks_builder *builder)
{
    return OVERHEAD_LEN + builder->templates_len +
           (size_t)builder->count * (size_t)(ITEM_COLUMNS_LEN + (builder->states_uses ? 8 : 0)) +
           builder->values_len;
}

static bool template_equal(const struct wire_checks_builder *builder, uint32_t index,
                           const uint8_t *encoded, size_t len)
{
    ASSERT(index < builder->template_count);
    const uint32_t at = builder->template_offset[index];

    return builder->template_offset[index + 1] - at == len &&
           memcmp(builder->templates + at, encoded, len) == 0;
}

static uint32_t hash_of(const uint8_t *encoded, size_t len)
{
    uint64_t hash = len;
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        const size_t left = len - at;
        memcpy(&word, encoded + at, left < sizeof word ? left : sizeof word);
        hash = hash_mix64(hash ^ word);
    }
    return (uint32_t)hash;
}

/* The index of the template with these encoded bytes, adding it if it is new. `limits`: whether it
 * names a limit. */
static int template_index(struct wire_checks_builder *builder, const uint8_t *encoded, size_t len,
                          uint32_t value_count, bool limits)
{
    const uint32_t count = builder->template_count;

    if (count != 0 && template_equal(builder, builder->template_last, encoded, len))
        return (int)builder->template_last;
    const uint32_t hash = hash_of(encoded, len);
    for (uint32_t i = 0; i < count; i++) {
        if (builder->template_hash[i] == hash && template_equal(builder, i, encoded, len)) {
            builder->template_last = i;
            return (int)i;
        }
    }
    if (count == WIRE_TEMPLATES_MAX || len > WIRE_TEMPLATES_LEN_MAX - builder->templates_len ||
        wire_checks_builder_len(builder) + len > builder->len_max)
        return TG_EFULL;
    ASSERT(builder->templates_len + len <= sizeof builder->templates);
    memcpy(builder->templates + builder->templates_len, encoded, len);
    builder->templates_len += len;
    builder->template_offset[count + 1] = (uint32_t)builder->templates_len;
    builder->template_values[count] = value_count;
    builder->template_hash[count] = hash;
    builder->template_limits[count] = limits;
    builder->template_count = count + 1;
    builder->template_last = count;
    return (int)count;
}

int wire_checks_builder_inline(struct wire_checks_builder *builder, const struct limit *limit)
{
    uint8_t encoded[TEMPLATE_LEN_MAX];
    char sentence[QUANTITY_ERROR_LEN];
    struct mp_writer writer;

    if (limit_validate(limit, sentence) != 0)
        return TG_EINVALID;
    mp_writer_init(&writer, encoded, sizeof encoded);
    const bool more = limit->buckets != 0 || limit->align != 0;
    mp_put_array(&writer, more ? INLINE_KNOWN : INLINE_FIELDS);
    mp_put_uint(&writer, WIRE_TEMPLATE_INLINE);
    mp_put_uint(&writer, limit->algorithm);
    mp_put_uint(&writer, limit->count);
    mp_put_uint(&writer, limit->window_ns);
    mp_put_uint(&writer, limit->burst);
    if (more) {
        mp_put_uint(&writer, limit->buckets);
        mp_put_uint(&writer, limit->align);
    }
    ASSERT(!writer.failed);
    return template_index(builder, encoded, writer.len, 1, true);
}

static bool names_valid(const struct wire_text *names, uint32_t name_count)
{
    for (uint32_t i = 0; i < name_count; i++) {
        if (!wire_text_valid(names[i], 1, WIRE_ATTRIBUTE_LEN_MAX))
            return false;
        for (uint32_t k = 0; k < i; k++) {
            if (names[k].len == names[i].len &&
                memcmp(names[k].data, names[i].data, names[i].len) == 0)
                return false;
        }
    }
    return true;
}

int wire_checks_builder_attributes(struct wire_checks_builder *builder,
                                   const struct wire_text *names, uint32_t name_count)
{
    uint8_t encoded[TEMPLATE_LEN_MAX];
    struct mp_writer writer;

    if (name_count == 0 || name_count > WIRE_ATTRIBUTES_MAX || !names_valid(names, name_count))
        return TG_EINVALID;
    mp_writer_init(&writer, encoded, sizeof encoded);
    mp_put_array(&writer, name_count + 1);
    mp_put_uint(&writer, WIRE_TEMPLATE_ATTRIBUTES);
    for (uint32_t i = 0; i < name_count; i++)
        wire_put_text(&writer, names[i]);
    ASSERT(!writer.failed);
    return template_index(builder, encoded, writer.len, name_count, false);
}

static bool rules_valid(const struct wire_rule *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!wire_text_valid(rules[i].name, 1, WIRE_RULE_MAX) || rules[i].count > UINT32_MAX ||
            rules[i].window_s > LIMIT_WINDOW_MAX_NS / SECOND_NS ||
            (rules[i].count == 0) != (rules[i].window_s == 0))
            return false;
    return true;
}

int wire_checks_builder_rules(struct wire_checks_builder *builder, const struct wire_rule *rules,
                              uint32_t rule_count)
{
    uint8_t encoded[TEMPLATE_LEN_MAX];
    struct mp_writer writer;
    bool limits = false;

    if (rule_count == 0 || rule_count > WIRE_RULES_MAX || !rules_valid(rules, rule_count))
        return TG_EINVALID;
    mp_writer_init(&writer, encoded, sizeof encoded);
    mp_put_array(&writer, rule_count + 1);
    mp_put_uint(&writer, WIRE_TEMPLATE_RULES);
    for (uint32_t i = 0; i < rule_count; i++) {
        mp_put_array(&writer, RULE_FIELDS);
        wire_put_text(&writer, rules[i].name);
        mp_put_uint(&writer, rules[i].node);
        mp_put_uint(&writer, rules[i].count);
        mp_put_uint(&writer, rules[i].window_s);
        limits = limits || rules[i].count > 0;
    }
    ASSERT(!writer.failed);
    return template_index(builder, encoded, writer.len, rule_count, limits);
}

static bool operation_valid(uint8_t operation)
{
    const unsigned number = operation & WIRE_OPERATION_MASK;

    if (number >= OPERATION_COUNT ||
        (operation & ~(unsigned)(WIRE_OPERATION_MASK | WIRE_AT_MOST)) != 0)
        return false;
    return (operation & WIRE_AT_MOST) == 0 || number == OPERATION_CHECK ||
           number == OPERATION_PEEK || number == OPERATION_LEASE;
}

static int append(struct wire_checks_builder *builder, uint32_t index, uint8_t operation,
                  uint64_t cost, uint64_t used, const struct wire_text *values,
                  uint32_t value_count)
{
    const uint32_t item = builder->count;
    const bool states = builder->states_uses || used > 0;
    size_t need = states ? 8 : 0;

    if (index >= builder->template_count || value_count != builder->template_values[index] ||
        !operation_valid(operation) || (cost > WIRE_COST_MAX && !wire_names_lease(operation)))
        return TG_EINVALID;
    for (uint32_t i = 0; i < value_count; i++) {
        if (values[i].len > WIRE_VALUE_MAX)
            return TG_EINVALID;
        need += 2 + values[i].len;
    }
    if (states && !builder->states_uses)
        need += (size_t)item * 8; /* of those before it */
    if (item == WIRE_CHECKS_MAX || need > builder->values_capacity - builder->values_len ||
        wire_checks_builder_len(builder) + ITEM_COLUMNS_LEN + need > builder->len_max)
        return TG_EFULL;
    if (states && !builder->states_uses)
        memset(builder->uses, 0, (size_t)item * 8);
    builder->states_uses = states;
    if (states)
        wire_set_u64(builder->uses, item, used);
    builder->operations[item] = operation;
    wire_set_u64(builder->costs, item, cost);
    wire_set_u16(builder->template_index, item, (uint16_t)index);
    for (uint32_t i = 0; i < value_count; i++) {
        uint8_t *out = builder->values + builder->values_len;

        wire_set_u16(out, 0, (uint16_t)values[i].len);
        if (values[i].len != 0)
            memcpy(out + 2, values[i].data, values[i].len);
        builder->values_len += 2 + values[i].len;
    }
    ASSERT(builder->values_len <= builder->values_capacity && item < WIRE_CHECKS_MAX);
    builder->count = item + 1;
    return (int)item;
}

bool wire_checks_builder_names_limit(const struct wire_checks_builder *builder, uint32_t item)
{
    ASSERT(item < builder->count);
    return builder->template_limits[bytes_u16_at(builder->template_index, item)];
}

int wire_checks_builder_append(struct wire_checks_builder *builder, uint32_t index,
                               uint8_t operation, uint64_t cost, const struct wire_text *values,
                               uint32_t value_count)
{
    return append(builder, index, operation, cost, 0, values, value_count);
}

int wire_checks_builder_append_used(struct wire_checks_builder *builder, uint32_t index,
                                    uint8_t operation, uint64_t lease, uint64_t used,
                                    const struct wire_text *values, uint32_t value_count)
{
    const bool fits = operation == OPERATION_RESERVE
                          ? wire_ttl_valid(used)
                          : wire_names_lease(operation) && used <= WIRE_COST_MAX;

    if (!fits)
        return TG_EINVALID;
    return append(builder, index, operation, lease, used, values, value_count);
}

int wire_checks_builder_encode(const struct wire_checks_builder *builder, uint64_t session,
                               uint64_t seq, uint32_t flags, uint32_t timeout_ms, void *out,
                               size_t capacity)
{
    struct mp_writer writer;

    if (session == 0 || builder->count == 0 || timeout_ms == 0 ||
        timeout_ms > WIRE_TIMEOUT_MS_MAX ||
        ((flags & WIRE_FLAG_EXPLAIN) != 0 && builder->count > WIRE_EXPLAIN_ITEMS_MAX))
        return TG_EINVALID;
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_CHECKS, CHECKS_FIELDS + (builder->states_uses ? 1 : 0));
    mp_put_uint(&writer, session);
    mp_put_uint(&writer, seq);
    mp_put_uint(&writer, flags);
    mp_put_uint(&writer, timeout_ms);
    ASSERT(builder->template_count >= 1 && builder->count <= WIRE_CHECKS_MAX);
    mp_put_array(&writer, builder->template_count);
    if (writer.failed || builder->templates_len > writer.capacity - writer.len)
        return TG_ETOOBIG;
    memcpy(writer.data + writer.len, builder->templates, builder->templates_len);
    writer.len += builder->templates_len;
    mp_put_uint(&writer, builder->count);
    mp_put_bin(&writer, builder->operations, builder->count);
    mp_put_bin(&writer, builder->costs, (size_t)builder->count * 8);
    mp_put_bin(&writer, builder->template_index, (size_t)builder->count * 2);
    mp_put_bin(&writer, builder->values, builder->values_len);
    if (builder->states_uses)
        mp_put_bin(&writer, builder->uses, (size_t)builder->count * 8);
    return wire_put_end(&writer);
}

int wire_checks_retry(const void *frame, size_t len, uint32_t timeout_ms, void *out,
                      size_t capacity)
{
    const uint8_t *bytes = frame;
    struct wire_envelope envelope;
    struct mp_writer writer;
    char error[WIRE_ERROR_LEN];
    uint32_t flags = 0;
    size_t at = 1; /* an array of so many fields has a head of one byte */

    static_assert(CHECKS_FIELDS + 1 <= 15, "the array's head is one byte");
    if (wire_peek(frame, len, &envelope, error) != 0 || envelope.type != WIRE_CHECKS ||
        (bytes[0] != (0x90 | CHECKS_FIELDS) && bytes[0] != (0x90 | (CHECKS_FIELDS + 1))) ||
        timeout_ms == 0 || timeout_ms > WIRE_TIMEOUT_MS_MAX)
        return TG_EINVALID;
    for (int i = 0; i < 6; i++) { /* version, type, session, seq, flags, timeout_ms */
        const size_t span = wire_span(bytes + at, len - at);
        if (span == 0)
            return TG_EINVALID;
        if (i == 4)
            flags = bytes[at]; /* as encode wrote it: below 128 is one byte */
        at += span;
    }
    mp_writer_init(&writer, out, capacity);
    wire_put_head(&writer, WIRE_CHECKS, bytes[0] & 0x0fU);
    mp_put_uint(&writer, envelope.session);
    mp_put_uint(&writer, envelope.seq);
    mp_put_uint(&writer, (flags | WIRE_FLAG_RETRY) & (uint32_t)(WIRE_FLAGS & ~WIRE_FLAG_ONCE));
    mp_put_uint(&writer, timeout_ms);
    if (writer.failed || at > len || len - at > writer.capacity - writer.len)
        return TG_ETOOBIG;
    memcpy(writer.data + writer.len, bytes + at, len - at);
    writer.len += len - at;
    return wire_put_end(&writer);
}

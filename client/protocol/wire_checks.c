/* wire_checks.c - CHECKS as a node reads it: validated once, then used unchecked.
 *
 *   item      0          1          2
 *   operations|u8        |u8        |u8        |        enum operation, bit 7 = at_most
 *   costs     |u64       |u64       |u64       |
 *   template  |u16       |u16       |u16       | --> templates[...]: what the values mean
 *   values    |len|bytes |len|bytes|len|bytes |len|bytes |
 *             ^offset[0] ^offset[1]           ^offset[2] ^offset[3] = values_len
 *                         (a template with two names: two values)
 *
 * CHECKS-1  Each column has exactly `count` elements, and the values column ends where the last
 *           item's last value ends: offset[count] == values_len.
 * CHECKS-2  Every template index is below template_count; every operation is known; every cost is
 *           at most WIRE_COST_MAX; every inline limit passed limit_validate.
 * CHECKS-3  The cost of a decode is one pass over each column and some twenty tokens.
 */
#include "client/protocol/wire_checks.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/quantity.h"
#include "client/protocol/wire_field.h"

/* An inline template has five elements at least; more of them are known here. */
enum { CHECKS_FIELDS = 12, INLINE_FIELDS = 5, INLINE_KNOWN = 7, RULE_FIELDS = 4 };
#define SECOND_NS UINT64_C(1000000000)
/* session, seq, flags, timeout_ms, templates */
enum { FIELDS_BEFORE_COUNT = 5 };

static_assert((int)QUANTITY_ERROR_LEN + 64 <= (int)WIRE_ERROR_LEN, "a limit's sentence fits");

static void read_inline(struct wire_reader *reader, uint32_t index, uint32_t fields,
                        struct wire_template *template)
{
    char sentence[QUANTITY_ERROR_LEN];

    if (fields < INLINE_FIELDS) {
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "templates[%" PRIu32 "]: found %" PRIu32 " elements, expected at least %d",
                         index, fields, INLINE_FIELDS);
        return;
    }
    template->kind = WIRE_TEMPLATE_INLINE;
    template->value_count = 1;
    template->limit = (struct limit){
        .algorithm = (uint8_t)wire_read_uint(reader, "template.algorithm", 0, UINT8_MAX),
    };
    template->limit.count = wire_read_uint(reader, "template.count", 0, UINT64_MAX);
    template->limit.window_ns = wire_read_uint(reader, "template.window_ns", 0, UINT64_MAX);
    template->limit.burst = wire_read_uint(reader, "template.burst", 0, UINT64_MAX);
    if (fields > INLINE_FIELDS)
        template->limit.buckets =
            (uint8_t)wire_read_uint(reader, "template.buckets", 0, LIMIT_BUCKETS_MAX);
    if (fields > INLINE_FIELDS + 1)
        template->limit.align =
            (uint8_t)wire_read_uint(reader, "template.align", 0, LIMIT_ALIGN_FIRST);
    if (reader->status == 0 && limit_validate(&template->limit, sentence) != 0)
        wire_reader_fail(reader, TG_EINVALID, "templates[%" PRIu32 "]: %s", index, sentence);
    if (reader->status == 0)
        wire_read_extra(reader, fields < INLINE_KNOWN ? 0 : fields - INLINE_KNOWN);
}

static bool name_repeated(const struct wire_template *template, uint32_t at)
{
    const struct wire_text name = template->names[at];

    for (uint32_t i = 0; i < at; i++) {
        if (template->names[i].len == name.len &&
            memcmp(template->names[i].data, name.data, name.len) == 0)
            return true;
    }
    return false;
}

static void read_attributes(struct wire_reader *reader, uint32_t index, uint32_t fields,
                            struct wire_template *template)
{
    const uint32_t names = fields - 1;

    if (fields < 2 || names > WIRE_ATTRIBUTES_MAX) {
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "templates[%" PRIu32 "]: found %" PRIu32 " attribute names, expected 1 to "
                         "%d",
                         index, fields - 1, WIRE_ATTRIBUTES_MAX);
        return;
    }
    template->kind = WIRE_TEMPLATE_ATTRIBUTES;
    template->value_count = names;
    for (uint32_t i = 0; i < names && reader->status == 0; i++) {
        template->names[i] =
            wire_read_text(reader, "template.attribute", 1, WIRE_ATTRIBUTE_LEN_MAX);
        if (reader->status == 0 && name_repeated(template, i))
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "templates[%" PRIu32 "]: attribute %" PRIu32
                             " repeats a name, expected distinct names",
                             index, i);
    }
}

/* [2, [rule, node, count, window_s], ...] */
static void read_rules(struct wire_reader *reader, uint32_t index, uint32_t fields,
                       struct wire_template *template)
{
    const uint32_t rules = fields - 1;

    if (fields < 2 || rules > WIRE_RULES_MAX) {
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "templates[%" PRIu32 "]: found %" PRIu32 " rules, expected 1 to %d", index,
                         rules, WIRE_RULES_MAX);
        return;
    }
    template->kind = WIRE_TEMPLATE_RULES;
    template->value_count = rules;
    for (uint32_t i = 0; i < rules && reader->status == 0; i++) {
        struct wire_rule *rule = &template->rules[i];
        const uint32_t parts = wire_read_array(reader, "template.rule", RULE_FIELDS, UINT32_MAX);
        rule->name = wire_read_text(reader, "template.rule.name", 1, WIRE_RULE_MAX);
        rule->node = (uint32_t)wire_read_uint(reader, "template.rule.node", 0, UINT32_MAX);
        rule->count = wire_read_uint(reader, "template.rule.count", 0, UINT32_MAX);
        rule->window_s =
            wire_read_uint(reader, "template.rule.window_s", 0, LIMIT_WINDOW_MAX_NS / SECOND_NS);
        if (reader->status == 0 && (rule->count == 0) != (rule->window_s == 0))
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "templates[%" PRIu32 "]: found %" PRIu64 " in %" PRIu64
                             " s, expected both or neither",
                             index, rule->count, rule->window_s);
        if (reader->status == 0)
            wire_read_extra(reader, parts - RULE_FIELDS);
    }
}

static void read_templates(struct wire_reader *reader, struct wire_checks_space *space,
                           struct wire_checks *checks)
{
    checks->template_count = wire_read_array(reader, "templates", 1, WIRE_TEMPLATES_MAX);
    checks->templates = space->templates;
    for (uint32_t i = 0; i < checks->template_count && reader->status == 0; i++) {
        const uint32_t fields = wire_read_array(reader, "template", 1, UINT32_MAX);
        const uint64_t kind =
            wire_read_uint(reader, "template.kind", WIRE_TEMPLATE_INLINE, WIRE_TEMPLATE_RULES);

        if (reader->status != 0)
            return;
        if (kind == WIRE_TEMPLATE_INLINE)
            read_inline(reader, i, fields, &space->templates[i]);
        else if (kind == WIRE_TEMPLATE_RULES)
            read_rules(reader, i, fields, &space->templates[i]);
        else
            read_attributes(reader, i, fields, &space->templates[i]);
    }
}

static void check_operations(struct wire_reader *reader, const struct wire_checks *checks)
{
    for (uint32_t i = 0; i < checks->count; i++) {
        const uint32_t byte = checks->operations[i];
        const uint32_t operation = byte & WIRE_OPERATION_MASK;

        if (operation >= OPERATION_COUNT ||
            (byte & ~(uint32_t)(WIRE_OPERATION_MASK | WIRE_AT_MOST)) != 0) {
            wire_reader_fail(reader, TG_EUNSUPPORTED,
                             "operations[%" PRIu32 "]: found %" PRIu32
                             ", expected an operation 0 to %d, with or without 128 (at_most)",
                             i, byte, OPERATION_COUNT - 1);
            return;
        }
        if ((byte & WIRE_AT_MOST) != 0 && operation != OPERATION_CHECK &&
            operation != OPERATION_PEEK && operation != OPERATION_LEASE) {
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "operations[%" PRIu32 "]: found at_most with %s, expected it only "
                             "with check, peek and lease",
                             i, operation_name(operation));
            return;
        }
    }
}

static void check_costs(struct wire_reader *reader, const struct wire_checks *checks)
{
    for (uint32_t i = 0; i < checks->count; i++) {
        const uint64_t cost = bytes_u64_at(checks->costs, i);

        if (cost > WIRE_COST_MAX && !wire_names_lease(checks->operations[i])) {
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "costs[%" PRIu32 "]: found %" PRIu64 ", expected at most %" PRIu64, i,
                             cost, (uint64_t)WIRE_COST_MAX);
            return;
        }
    }
}

static void check_template_index(struct wire_reader *reader, const struct wire_checks *checks)
{
    for (uint32_t i = 0; i < checks->count; i++) {
        const uint32_t index = bytes_u16_at(checks->template_index, i);

        if (index >= checks->template_count) {
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "template_index[%" PRIu32 "]: found %" PRIu32
                             ", expected below the %" PRIu32 " templates",
                             i, index, checks->template_count);
            return;
        }
    }
}

/* Walks the values column once, noting where each item starts (CHECKS-1). */
static void walk_values(struct wire_reader *reader, const struct wire_checks *checks,
                        uint32_t *offset)
{
    size_t at = 0;

    for (uint32_t i = 0; i < checks->count; i++) {
        const uint32_t values =
            checks->templates[bytes_u16_at(checks->template_index, i)].value_count;

        offset[i] = (uint32_t)at;
        for (uint32_t k = 0; k < values; k++) {
            size_t value_len;

            if (checks->values_len - at < 2) {
                wire_reader_fail(reader, TG_EPROTOCOL,
                                 "values: found %zu bytes, expected more for item %" PRIu32,
                                 checks->values_len, i);
                return;
            }
            value_len = bytes_u16_at(checks->values + at, 0);
            at += 2;
            if (value_len > WIRE_VALUE_MAX || value_len > checks->values_len - at) {
                wire_reader_fail(reader, TG_EPROTOCOL,
                                 "values: item %" PRIu32 " has a value of %zu bytes, expected at "
                                 "most %d and inside the column",
                                 i, value_len, WIRE_VALUE_MAX);
                return;
            }
            at += value_len;
        }
    }
    offset[checks->count] = (uint32_t)at;
    if (at != checks->values_len)
        wire_reader_fail(reader, TG_EPROTOCOL,
                         "values: found %zu bytes, expected %zu for %" PRIu32 " items",
                         checks->values_len, at, checks->count);
}

/* More items than fit are no mistake in the bytes: their sender can split them. */
static uint32_t read_item_count(struct wire_reader *reader)
{
    const uint64_t count = wire_read_uint(reader, "n", 0, UINT64_MAX);

    if (count >= 1 && count <= WIRE_CHECKS_MAX)
        return (uint32_t)count;
    wire_reader_fail(reader, count == 0 ? TG_EPROTOCOL : TG_ETOOBIG,
                     "n: found %" PRIu64 ", expected 1 to %d", count, WIRE_CHECKS_MAX);
    return 0;
}

static void read_columns(struct wire_reader *reader, struct wire_checks_space *space,
                         struct wire_checks *checks)
{
    checks->count = read_item_count(reader);
    if ((checks->flags & WIRE_FLAG_EXPLAIN) != 0 && checks->count > WIRE_EXPLAIN_ITEMS_MAX)
        wire_reader_fail(reader, TG_ETOOBIG,
                         "n: found %" PRIu32 ", expected at most %d with the explain flag",
                         checks->count, WIRE_EXPLAIN_ITEMS_MAX);
    checks->operations = wire_read_bin(reader, "operations", checks->count);
    checks->costs = wire_read_bin(reader, "costs", (size_t)checks->count * 8);
    checks->template_index = wire_read_bin(reader, "template_index", (size_t)checks->count * 2);
    checks->values = wire_read_blob(reader, "values", &checks->values_len);
    checks->value_offset = space->value_offset;
    if (reader->status == 0)
        check_operations(reader, checks);
    if (reader->status == 0)
        check_costs(reader, checks);
    if (reader->status == 0)
        check_template_index(reader, checks);
    if (reader->status == 0)
        walk_values(reader, checks, space->value_offset);
}

/* The column is left out, or nil, when nobody states a use. */
static void read_uses(struct wire_reader *reader, uint32_t fields, struct wire_checks *checks)
{
    checks->uses = NULL;
    if (reader->status != 0 || fields <= CHECKS_FIELDS || mp_peek_type(&reader->cursor) == MP_NIL)
        return;
    checks->uses = wire_read_bin(reader, "uses", (size_t)checks->count * 8);
    for (uint32_t i = 0; reader->status == 0 && i < checks->count; i++) {
        const uint64_t used = bytes_u64_at(checks->uses, i);
        if (used > WIRE_COST_MAX)
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "uses[%" PRIu32 "]: found %" PRIu64 ", expected at most %" PRIu64, i,
                             used, (uint64_t)WIRE_COST_MAX);
        else if (wire_checks_operation(checks, i) == OPERATION_RESERVE && !wire_ttl_valid(used))
            wire_reader_fail(reader, TG_EPROTOCOL,
                             "uses[%" PRIu32 "]: found %" PRIu64
                             ", expected how many ms to reserve for, %d to %d, or 0",
                             i, used, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS);
    }
}

int wire_decode_checks(const void *frame, size_t len, struct wire_checks_space *space,
                       struct wire_checks *checks, char *error)
{
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_CHECKS, CHECKS_FIELDS, space->tokens,
                         WIRE_CHECKS_TOKENS_MAX, error) != 0)
        return reader.status;
    checks->session = wire_read_uint(&reader, "session", 1, UINT64_MAX);
    checks->seq = wire_read_uint(&reader, "seq", 0, UINT64_MAX);
    checks->flags = (uint32_t)wire_read_uint(&reader, "flags", 0, UINT32_MAX) & WIRE_FLAGS;
    checks->timeout_ms = (uint32_t)wire_read_uint(&reader, "timeout_ms", 1, WIRE_TIMEOUT_MS_MAX);
    read_templates(&reader, space, checks);
    read_columns(&reader, space, checks);
    read_uses(&reader, space->tokens[0].count, checks);
    return reader.status;
}

uint32_t wire_checks_count(const void *frame, size_t len, struct wire_checks_space *space)
{
    char error[WIRE_ERROR_LEN];
    struct wire_reader reader;

    if (wire_reader_open(&reader, frame, len, WIRE_CHECKS, CHECKS_FIELDS, space->tokens,
                         WIRE_CHECKS_TOKENS_MAX, error) != 0)
        return 0;
    for (uint32_t i = 0; i < FIELDS_BEFORE_COUNT; i++)
        mp_skip(&reader.cursor);
    return (uint32_t)wire_read_uint(&reader, "n", 0, WIRE_CHECKS_MAX);
}

uint32_t wire_checks_values(const struct wire_checks *checks, uint32_t i, struct wire_text *values)
{
    ASSERT(i < checks->count);
    const uint32_t count = wire_checks_template(checks, i)->value_count;
    const uint8_t *at = checks->values + checks->value_offset[i];

    for (uint32_t k = 0; k < count; k++) {
        values[k].len = bytes_u16_at(at, 0);
        values[k].data = (const char *)at + 2;
        at += 2 + values[k].len;
    }
    return count;
}

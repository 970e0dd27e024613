/* check_item.c - one check out of JSON; check_item.h has its form. */
#include "node/gateway/api/check_item.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/quantity.h"
#include "base/vocabulary.h"

enum field {
    ATTRIBUTES = 1,
    KEY = 2,
    RATE = 4,
    BURST = 8,
    ALGORITHM = 16,
    COST = 32,
    AT_MOST = 64,
    LEASE_ID = 128,
    USED = 256,
    EXPLAIN = 512,
    TTL = 1024,
    HOLD_ID = 2048,
    ACTUAL = 4096
};

#define NS_PER_MS     UINT64_C(1000000)
#define OF(operation) (1U << OPERATION_##operation)

enum {
    LEASE_DIGITS = 16,
    SHOWN = 64, /* of a text in a sentence */
    NAMES_LEN = 160,
    ANY = (1 << OPERATION_COUNT) - 1
};

/* The fields, in the order in which a mistake lists them, and the operations that take them. */
static const struct {
    const char *name;
    enum field field;
    unsigned operations;
} fields[] = {
    {"attributes", ATTRIBUTES, ANY},
    {"key", KEY, ANY},
    {"rate", RATE, ANY},
    {"burst", BURST, ANY},
    {"algorithm", ALGORITHM, ANY},
    {"cost", COST, OF(CHECK) | OF(PEEK) | OF(HIT) | OF(REFUND) | OF(LEASE) | OF(RESERVE)},
    {"at_most", AT_MOST, OF(CHECK) | OF(PEEK) | OF(LEASE)},
    {"lease_id", LEASE_ID, OF(RELEASE) | OF(RENEW)},
    {"used", USED, OF(RELEASE) | OF(RENEW)},
    {"explain", EXPLAIN, OF(CHECK) | OF(PEEK)},
    {"ttl", TTL, OF(RESERVE)},
    {"hold_id", HOLD_ID, OF(COMMIT) | OF(CANCEL)},
    {"actual", ACTUAL, OF(COMMIT)},
};

enum { FIELDS = sizeof fields / sizeof *fields };

static bool same(struct wire_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static int shown(struct wire_text text)
{
    return text.len < SHOWN ? (int)text.len : SHOWN;
}

void check_item_begin(struct check_item *item, enum operation operation)
{
    item->operation = (uint8_t)operation;
    item->seen = 0;
    item->cost = 1;
    item->used = 0;
    item->explain = false;
    item->limit = (struct limit){.algorithm = ALGORITHM_TOKEN_BUCKET};
    item->count = 0;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static bool refuse_unknown(const struct check_item *item, struct json_reader *reader)
{
    char names[NAMES_LEN] = "";
    for (size_t i = 0; i < FIELDS; i++) {
        const size_t len = strlen(names);
        if ((fields[i].operations >> item->operation & 1) != 0)
            (void)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                           fields[i].name);
    }
    json_refuse(reader, "no field of %s; expected %s", operation_name(item->operation), names);
    return false;
}

static bool has_name(const struct check_item *item, struct wire_text name)
{
    for (uint32_t i = 0; i < item->count; i++)
        if (item->names[i].len == name.len && memcmp(item->names[i].data, name.data, name.len) == 0)
            return true;
    return false;
}

static bool read_attributes(struct check_item *item, struct json_reader *reader)
{
    struct wire_text name;
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &name)) {
        if (name.len == 0 || name.len > WIRE_ATTRIBUTE_LEN_MAX) {
            json_refuse(reader, "found a name of %zu bytes, expected 1 to %d", name.len,
                        (int)WIRE_ATTRIBUTE_LEN_MAX);
        } else if (has_name(item, name)) {
            json_refuse(reader, "found this attribute twice, expected it once");
        } else if (item->count == WIRE_ATTRIBUTES_MAX) {
            json_refuse(reader, "found more than %d attributes", (int)WIRE_ATTRIBUTES_MAX);
        } else if (json_take_scalar(reader, &item->values[item->count])) {
            if (item->values[item->count].len > WIRE_VALUE_MAX)
                json_refuse(reader, "found a value of %zu bytes, expected at most %d",
                            item->values[item->count].len, (int)WIRE_VALUE_MAX);
            item->names[item->count++] = name;
        }
    }
    return !reader->failed;
}

static bool read_key(struct check_item *item, struct json_reader *reader)
{
    struct wire_text key;
    if (!json_take_scalar(reader, &key))
        return false;
    if (key.len > WIRE_VALUE_MAX)
        json_refuse(reader, "found %zu bytes, expected at most %d", key.len, (int)WIRE_VALUE_MAX);
    item->values[0] = key;
    return !reader->failed;
}

static bool read_rate(struct check_item *item, struct json_reader *reader)
{
    static const char subject[] = "rate ";
    char copy[QUANTITY_TEXT_LEN];
    char error[QUANTITY_ERROR_LEN];
    struct quantity_rate rate;
    struct wire_text text;
    if (!json_take_text(reader, &text))
        return false;
    if (text.len >= sizeof copy || memchr(text.data, '\0', text.len) != NULL) {
        json_refuse(reader, "found %zu bytes, expected COUNT/[N]UNIT, such as 5/60s", text.len);
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (quantity_parse_rate(copy, &rate, error) != 0) {
        const bool named = strncmp(error, subject, sizeof subject - 1) == 0;
        json_refuse(reader, "%s", named ? error + sizeof subject - 1 : error);
        return false;
    }
    item->limit.count = rate.count;
    item->limit.window_ns = rate.window_ns;
    return true;
}

static bool read_algorithm(struct check_item *item, struct json_reader *reader)
{
    struct wire_text text;
    if (!json_take_text(reader, &text))
        return false;
    const int number = algorithm_parse(text.data, text.len);
    if (number < 0) {
        json_refuse(reader,
                    "found \"%.*s\", expected token_bucket, leaky_bucket, fixed_window, "
                    "sliding_window, sliding_buckets, sliding_log or concurrency",
                    shown(text), text.data);
        return false;
    }
    item->limit.algorithm = (uint8_t)number;
    return true;
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The id of a lease or a reservation. */
static bool read_id(struct check_item *item, struct json_reader *reader, const char *name)
{
    struct wire_text text;
    uint64_t lease = 0;
    if (!json_take_text(reader, &text))
        return false;
    bool fits = text.len > 0 && text.len <= LEASE_DIGITS;
    for (size_t i = 0; fits && i < text.len; i++) {
        fits = hex_of(text.data[i]) >= 0;
        lease = lease << 4 | (uint64_t)(hex_of(text.data[i]) & 15);
    }
    if (!fits || lease == 0) {
        json_refuse(reader, "found \"%.*s\", expected the %s of a decision, of 16 digits",
                    shown(text), text.data, name);
        return false;
    }
    item->cost = lease;
    return true;
}

static bool read_ttl(struct check_item *item, struct json_reader *reader)
{
    char copy[QUANTITY_TEXT_LEN] = "";
    char error[QUANTITY_ERROR_LEN];
    struct wire_text text;
    uint64_t ns;
    if (!json_take_text(reader, &text))
        return false;
    const bool fits = text.len < sizeof copy && memchr(text.data, '\0', text.len) == NULL;
    if (fits)
        memcpy(copy, text.data, text.len);
    item->used = fits && quantity_parse_duration(copy, &ns, error) == 0 ? (ns - 1) / NS_PER_MS + 1
                                                                        : UINT64_MAX;
    if (!wire_ttl_valid(item->used))
        json_refuse(reader, "found \"%.*s\", expected for how long, 1s to 1h", shown(text),
                    text.data);
    return !reader->failed;
}

static bool read_at_most(struct check_item *item, struct json_reader *reader)
{
    bool at_most;
    if (!json_take_flag(reader, &at_most))
        return false;
    item->operation |= at_most ? WIRE_AT_MOST : 0;
    return true;
}

static bool read_value(struct check_item *item, struct json_reader *reader, enum field field)
{
    switch (field) {
    case ATTRIBUTES:
        return read_attributes(item, reader);
    case KEY:
        return read_key(item, reader);
    case RATE:
        return read_rate(item, reader);
    case BURST:
        return json_take_unsigned(reader, LIMIT_COUNT_MAX, &item->limit.burst);
    case ALGORITHM:
        return read_algorithm(item, reader);
    case COST:
        return json_take_unsigned(reader, WIRE_COST_MAX, &item->cost);
    case AT_MOST:
        return read_at_most(item, reader);
    case LEASE_ID:
        return read_id(item, reader, "lease_id");
    case HOLD_ID:
        return read_id(item, reader, "hold_id");
    case TTL:
        return read_ttl(item, reader);
    case USED:
    case ACTUAL:
        return json_take_unsigned(reader, WIRE_COST_MAX, &item->used);
    case EXPLAIN:
        return json_take_flag(reader, &item->explain);
    }
    return false;
}

bool check_item_field(struct check_item *item, struct json_reader *reader, struct wire_text key)
{
    const enum operation operation = item->operation & WIRE_OPERATION_MASK;
    size_t i = 0;
    while (i < FIELDS && !same(key, fields[i].name))
        i++;
    if (i == FIELDS || (fields[i].operations >> operation & 1) == 0)
        return refuse_unknown(item, reader);
    if ((item->seen & fields[i].field) != 0) {
        json_refuse(reader, "found this field twice, expected it once");
        return false;
    }
    if (json_take_null(reader))
        return true;
    item->seen |= fields[i].field;
    return read_value(item, reader, fields[i].field);
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool check_item_end(struct check_item *item, struct json_reader *reader)
{
    char error[QUANTITY_ERROR_LEN];
    const unsigned seen = item->seen;
    const enum operation operation = item->operation & WIRE_OPERATION_MASK;
    if (reader->failed)
        return false;
    if ((seen & ATTRIBUTES) != 0 && (seen & (KEY | RATE | BURST | ALGORITHM)) != 0)
        json_refuse(reader, "found attributes beside an own limit, expected one of both");
    else if ((seen & ATTRIBUTES) != 0 && item->count == 0)
        json_refuse(reader, "found no attribute, expected at least one");
    else if ((seen & ATTRIBUTES) == 0 && (seen & (KEY | RATE)) != (KEY | RATE))
        json_refuse(reader, "found %s, expected attributes, or key and rate",
                    (seen & KEY) != 0    ? "no rate"
                    : (seen & RATE) != 0 ? "no key"
                                         : "neither");
    else if ((operation == OPERATION_RELEASE || operation == OPERATION_RENEW) &&
             (seen & LEASE_ID) == 0)
        json_refuse(reader, "found no lease_id, expected that of the decision that gave the lease");
    else if ((operation == OPERATION_COMMIT || operation == OPERATION_CANCEL) &&
             (seen & HOLD_ID) == 0)
        json_refuse(reader, "found no hold_id, expected that of the decision that reserved");
    else if (operation == OPERATION_COMMIT && (seen & ACTUAL) == 0)
        json_refuse(reader, "found no actual, expected how many tokens were used");
    else if ((seen & ATTRIBUTES) == 0 && limit_validate(&item->limit, error) != 0)
        json_refuse(reader, "%s", error);
    if ((seen & ATTRIBUTES) == 0)
        item->count = 1;
    return !reader->failed;
}

bool check_item_read(struct check_item *item, struct json_reader *reader, enum operation operation)
{
    struct wire_text key;
    check_item_begin(item, operation);
    if (!json_open_object(reader))
        return false;
    while (json_next_member(reader, &key) && check_item_field(item, reader, key))
        ;
    return check_item_end(item, reader);
}

int check_item_append(const struct check_item *item, struct wire_checks_builder *builder)
{
    const int template = (item->seen & ATTRIBUTES) != 0
                             ? wire_checks_builder_attributes(builder, item->names, item->count)
                             : wire_checks_builder_inline(builder, &item->limit);
    if (template <0)
        return template;
    if (item->used > 0)
        return wire_checks_builder_append_used(builder, (uint32_t) template, item->operation,
                                               item->cost, item->used, item->values, item->count);
    return wire_checks_builder_append(builder, (uint32_t) template, item->operation, item->cost,
                                      item->values, item->count);
}

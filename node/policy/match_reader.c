/* match_reader.c - the `match:` of a rule: attributes and the values or patterns they may have.
 *
 * The order in which conditions are written means nothing, so they are kept sorted: two files that
 * say the same give the same rules and the same digest.
 *
 * I1  No attribute twice in one rule, no value twice under one attribute.
 * I2  A pattern has no two adjacent `*`; an `ip` that is no pattern is an address or a block of
 *     them, kept in its canonical text.
 */
#include <stdlib.h>
#include <string.h>

#include "node/policy/policy_internal.h"
#include "node/policy/policy_ip.h"

static int compare_texts(const void *a, const void *b)
{
    return policy_text_compare(a, b);
}

static int compare_matches(const void *a, const void *b)
{
    const struct policy_match *left = a;
    const struct policy_match *right = b;

    return policy_text_compare(&left->attribute, &right->attribute);
}

/* Reads a block of addresses; the one text of it goes to `text`. */
static int canonical_block(const struct yaml_reader *reader, uint32_t node,
                           struct policy_text *value, char text[POLICY_IP_TEXT_LEN])
{
    char shown[YAML_READER_SHOWN_LEN];
    struct policy_block block;

    (void)yaml_reader_shown(reader, node, shown);
    const enum policy_block_result result = policy_block_parse(value->data, value->len, &block);
    if (result == POLICY_BLOCK_MALFORMED)
        return yaml_reader_fail(reader, node,
                                "match.ip: found %s; expected a block such as 10.0.0.0/8 or "
                                "2001:db8::/32",
                                shown);
    value->len = policy_block_put(&block, text);
    if (result == POLICY_BLOCK_HOST_BITS)
        return yaml_reader_fail(reader, node,
                                "match.ip: found %s, which sets bits behind its prefix; expected "
                                "%s or one address",
                                shown, text);
    return TG_OK;
}

/* Puts the one canonical text in place of an exact ip or a block; patterns stay as written. */
static int canonical_ip(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                        struct policy_text *value)
{
    char shown[YAML_READER_SHOWN_LEN];
    char text[POLICY_IP_TEXT_LEN];

    if (memchr(value->data, '*', value->len) != NULL)
        return TG_OK;
    if (memchr(value->data, '/', value->len) != NULL) {
        const int result = canonical_block(reader, node, value, text);
        if (result != TG_OK)
            return result;
    } else {
        value->len = policy_ip_format(value->data, value->len, 128, text);
        if (value->len == 0)
            return yaml_reader_fail(reader, node,
                                    "match.ip: found %s; expected an IPv4 or IPv6 address, a block "
                                    "such as 10.0.0.0/8, or a pattern",
                                    yaml_reader_shown(reader, node, shown));
    }
    value->data = chunks_copy(chunks, text, value->len);
    return value->data == NULL ? TG_ENOMEM : TG_OK;
}

static int read_value(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                      const struct policy_text *attribute, struct policy_text *value)
{
    char shown[YAML_READER_SHOWN_LEN];

    int result =
        policy_read_text(chunks, reader, node, "match value", 1, POLICY_VALUE_LEN_MAX, value);
    if (result != TG_OK)
        return result;
    if (strstr(value->data, "**") != NULL)
        return yaml_reader_fail(reader, node,
                                "match value: found %s with two adjacent *; expected one (a "
                                "trailing * is any rest, an inner * is one segment)",
                                yaml_reader_shown(reader, node, shown));
    return policy_text_is(attribute, "ip") ? canonical_ip(chunks, reader, node, value) : TG_OK;
}

/* Reads the alternatives of one attribute: a value, or a list of them. */
static int read_values(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                       struct policy_match *match)
{
    const bool is_list = yaml_reader_at(reader, node)->kind == YAML_READER_LIST;
    int result = TG_OK;

    if (is_list)
        result = yaml_reader_list(reader, node, "match value", 1, POLICY_MATCH_VALUES_MAX);
    if (result != TG_OK)
        return result;
    const uint32_t count = is_list ? yaml_reader_at(reader, node)->len : 1;
    struct policy_text *values = chunks_get(chunks, count, sizeof(*values));
    if (values == NULL)
        return TG_ENOMEM;
    uint32_t element = is_list ? yaml_reader_at(reader, node)->first : node;
    for (uint32_t i = 0; i < count; i++) {
        result = read_value(chunks, reader, element, &match->attribute, &values[i]);
        if (result != TG_OK)
            return result;
        element = yaml_reader_at(reader, element)->next;
    }
    qsort(values, count, sizeof(*values), compare_texts);
    for (uint32_t i = 1; i < count; i++) {
        if (policy_text_equal(&values[i - 1], &values[i]))
            return yaml_reader_fail(reader, node,
                                    "match value: found \"%.40s\" twice; expected "
                                    "it once",
                                    values[i].data);
    }
    match->values = values;
    match->value_count = count;
    return TG_OK;
}

int policy_read_match(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                      struct policy_rule *rule)
{
    int result = yaml_reader_mapping(reader, node, "match", 0, POLICY_MATCH_MAX);
    if (result != TG_OK)
        return result;
    const uint32_t count = yaml_reader_at(reader, node)->len;
    struct policy_match *matches = chunks_get(chunks, count, sizeof(*matches));
    if (matches == NULL)
        return TG_ENOMEM;
    uint32_t key = yaml_reader_at(reader, node)->first;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t value = yaml_reader_at(reader, key)->next;
        result = policy_check_attribute(reader, key, "match");
        if (result == TG_OK)
            result = policy_read_text(chunks, reader, key, "match", 1,
                                      POLICY_ATTRIBUTE_NAME_LEN_MAX, &matches[i].attribute);
        if (result == TG_OK)
            result = read_values(chunks, reader, value, &matches[i]);
        if (result != TG_OK)
            return result;
        key = yaml_reader_at(reader, value)->next;
    }
    qsort(matches, count, sizeof(*matches), compare_matches);
    rule->matches = matches;
    rule->match_count = (uint8_t)count;
    return TG_OK;
}

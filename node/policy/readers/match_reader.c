/* match_reader.c - the `match:` of a rule: attributes and the values or patterns they may have.
 *
 * The order in which conditions are written means nothing, so they are kept sorted: two files that
 * say the same give the same rules and the same digest.
 *
 * MATCHREADER-1  No attribute twice in one rule, no value twice under one attribute.
 * MATCHREADER-2  A pattern has no two adjacent `*`.
 * MATCHREADER-3  Values and patterns are in the one spelling of their attribute's kind, in which
 *                requests come to be compared. One that no request can have is refused: its one
 *                spelling would mean more than it says. Spellings of one path are one value; of one
 *                address they are it twice.
 */
#include <stdlib.h>
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_ip.h"
#include "node/policy/model/policy_path.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

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
static int canonical_block(const struct yaml_reader *reader, uint32_t node, const char *attribute,
                           struct policy_text *value, char *text)
{
    char shown[YAML_READER_SHOWN_LEN];
    struct policy_block block;

    (void)yaml_reader_shown(reader, node, shown);
    const enum policy_block_result result = policy_block_parse(value->data, value->len, &block);
    if (result == POLICY_BLOCK_MALFORMED)
        return yaml_reader_fail(reader, node,
                                "match.%s: found %s; expected a block such as 10.0.0.0/8 or "
                                "2001:db8::/32",
                                attribute, shown);
    value->len = policy_block_put(&block, text);
    if (result == POLICY_BLOCK_HOST_BITS)
        return yaml_reader_fail(reader, node,
                                "match.%s: found %s, which sets bits behind its prefix; expected "
                                "%s or one address",
                                attribute, shown, text);
    return TG_OK;
}

/* A pattern of addresses, in lower case as their texts are. */
static int spell_address_pattern(const struct yaml_reader *reader, uint32_t node,
                                 const char *attribute, struct policy_text *value, char *text)
{
    char shown[YAML_READER_SHOWN_LEN];

    for (size_t i = 0; i < value->len; i++) {
        const char c = value->data[i];
        text[i] = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
        if (strchr("0123456789abcdef.:*", text[i]) == NULL)
            return yaml_reader_fail(
                reader, node,
                "match.%s: found %s, which matches no address; expected digits, "
                "a-f . : and *, or a block such as 10.0.0.0/8",
                attribute, yaml_reader_shown(reader, node, shown));
    }
    return TG_OK;
}

/* The one canonical text of an exact address, a block or a pattern. */
static int spell_address(const struct yaml_reader *reader, uint32_t node, const char *attribute,
                         struct policy_text *value, char *text)
{
    char shown[YAML_READER_SHOWN_LEN];

    if (memchr(value->data, '*', value->len) != NULL)
        return spell_address_pattern(reader, node, attribute, value, text);
    if (memchr(value->data, '/', value->len) != NULL)
        return canonical_block(reader, node, attribute, value, text);
    value->len = policy_ip_format(value->data, value->len, 128, text);
    if (value->len == 0)
        return yaml_reader_fail(
            reader, node,
            "match.%s: found %s; expected an IPv4 or IPv6 address, a block such "
            "as 10.0.0.0/8, or a pattern",
            attribute, yaml_reader_shown(reader, node, shown));
    return TG_OK;
}

/* The one spelling of a path or a pattern of paths. A star at the end is any rest, any other is one
 * segment: so it must not come to the end because what is behind it goes. */
static int spell_path(const struct yaml_reader *reader, uint32_t node, const char *attribute,
                      struct policy_text *value, char *text)
{
    char shown[YAML_READER_SHOWN_LEN];
    const char *refusal = attribute_kind_refusal(ATTRIBUTE_PATH, value);

    (void)yaml_reader_shown(reader, node, shown);
    if (refusal != NULL)
        return yaml_reader_fail(reader, node, "match.%s: found %s, %s", attribute, shown, refusal);
    const size_t len = policy_path_put(value->data, value->len, text);
    if (text[len - 1] == '*' && value->data[value->len - 1] != '*')
        return yaml_reader_fail(
            reader, node,
            "match.%s: found %s, which matches no path, for a path has no slash "
            "at its end; expected a pattern that ends otherwise",
            attribute, shown);
    value->len = len;
    return TG_OK;
}

int policy_spell_match(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                       const char *attribute, enum attribute_kind kind, struct policy_text *value)
{
    char text[POLICY_VALUE_LEN_MAX];
    int result = TG_OK;

    if (kind == ATTRIBUTE_VERBATIM)
        return TG_OK;
    if (kind == ATTRIBUTE_ADDRESS) {
        result = spell_address(reader, node, attribute, value, text);
    } else if (kind == ATTRIBUTE_PATH) {
        result = spell_path(reader, node, attribute, value, text);
    } else {
        struct policy_text spelt = *value;
        struct policy_ip ip;
        attribute_kind_apply(kind, &spelt, &ip, text);
        memmove(text, spelt.data, spelt.len);
    }
    if (result != TG_OK)
        return result;
    value->data = chunks_copy(chunks, text, value->len);
    return value->data == NULL ? TG_ENOMEM : TG_OK;
}

static int read_value(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                      struct policy_text *value)
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
    return TG_OK;
}

/* Refuses a value that is there twice (MATCHREADER-1). Sorts them. */
static int refuse_twice(const struct yaml_reader *reader, uint32_t node, struct policy_text *values,
                        uint32_t count)
{
    qsort(values, count, sizeof(*values), compare_texts);
    for (uint32_t i = 1; i < count; i++) {
        if (policy_text_equal(&values[i - 1], &values[i]))
            return yaml_reader_fail(reader, node,
                                    "match value: found \"%.40s\" twice; expected "
                                    "it once",
                                    values[i].data);
    }
    return TG_OK;
}

/* Leaves one of those that are equal. Sorts them. */
static uint32_t fold_equal(struct policy_text *values, uint32_t count)
{
    uint32_t kept = 1;

    qsort(values, count, sizeof(*values), compare_texts);
    for (uint32_t i = 1; i < count; i++) {
        if (!policy_text_equal(&values[kept - 1], &values[i]))
            values[kept++] = values[i];
    }
    return kept;
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
    struct policy_text *written = chunks_get(chunks, count, sizeof(*written));
    if (values == NULL || written == NULL)
        return TG_ENOMEM;
    uint32_t element = is_list ? yaml_reader_at(reader, node)->first : node;
    for (uint32_t i = 0; i < count; i++) {
        result = read_value(chunks, reader, element, &written[i]);
        values[i] = written[i];
        if (result == TG_OK)
            result = policy_spell_match(chunks, reader, element, match->attribute.data,
                                        (enum attribute_kind)match->kind, &values[i]);
        if (result != TG_OK)
            return result;
        element = yaml_reader_at(reader, element)->next;
    }
    result = refuse_twice(reader, node, match->kind == ATTRIBUTE_ADDRESS ? values : written, count);
    match->values = values;
    match->value_count = fold_equal(values, count);
    return result;
}

int policy_read_match(struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                      struct policy_rule *rule)
{
    struct chunks *chunks = &policy->chunks;

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
        if (result == TG_OK) {
            matches[i].kind = (uint8_t)attribute_kinds_of(
                policy_kinds(policy), matches[i].attribute.data, matches[i].attribute.len);
            result = read_values(chunks, reader, value, &matches[i]);
        }
        if (result != TG_OK)
            return result;
        key = yaml_reader_at(reader, value)->next;
    }
    qsort(matches, count, sizeof(*matches), compare_matches);
    rule->matches = matches;
    rule->match_count = (uint8_t)count;
    return TG_OK;
}

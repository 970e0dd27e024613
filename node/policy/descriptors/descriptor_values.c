/* descriptor_values.c - the values of a file of envoyproxy/ratelimit, which is YAML 1.1.
 *
 *   shadow_mode: yes       true      y, yes, true, on, in lower, upper or title case
 *   value: 10              "10"      whole numbers and booleans are texts as they are written
 *   value: 1.5             refused   a number with a fraction has no one spelling
 *   requests_per_unit: 1_000, 0x10   whole numbers as Go reads them
 *   unit: Minute           minute
 *
 * In a document of our own the same keys are read as rule_keys.h says, without all of that.
 */
#include "node/policy/descriptors/descriptor_values.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "node/policy/readers/yaml_reader.h"

/* ---- scalars --------------------------------------------------------------------------------- */

static bool is_plain(const struct yaml_reader_node *node)
{
    return node->kind == YAML_READER_SCALAR && node->plain;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789_");
}

/* Whether YAML 1.1 reads the text as a number with a fraction, an exponent, or as none. */
static bool is_fraction(const char *text)
{
    const char *at = text + (text[0] == '-' || text[0] == '+');
    if (strcasecmp(at, ".inf") == 0 || strcasecmp(text, ".nan") == 0)
        return true;
    const size_t before = digits(at);
    const bool point = at[before] == '.';
    const size_t after = point ? digits(at + before + 1) : 0;
    const char *rest = at + before + point + after;
    if (before + after == 0)
        return false;
    if ((*rest == 'e' || *rest == 'E') && rest[1] != '\0') {
        rest += 1 + (rest[1] == '-' || rest[1] == '+');
        const size_t exponent = digits(rest);
        return exponent > 0 && rest[exponent] == '\0';
    }
    return point && *rest == '\0';
}

int descriptor_text(const struct rule_place *place, unsigned key, struct policy_text *out)
{
    const struct rule_key *row = rule_key(place->map, key);
    const uint32_t node = place->fields[key].node;
    char what[RULE_WHAT_LEN];
    char shown[YAML_READER_SHOWN_LEN];
    *out = (struct policy_text){"", 0};
    if (node == YAML_READER_NONE)
        return TG_OK;
    const struct yaml_reader_node *at = yaml_reader_at(place->reader, node);
    if (is_plain(at) && is_fraction(at->text))
        return yaml_reader_fail(
            place->reader, node, "%s: found %s, a number with a fraction; expected it in quotes",
            rule_what(place, key, what), yaml_reader_shown(place->reader, node, shown));
    return yaml_reader_text(place->reader, node, rule_what(place, key, what), (size_t)row->min,
                            (size_t)row->max, &out->data, &out->len);
}

/* 1: true, 0: false, -1: neither. */
static int truth(const char *text)
{
    static const char *const words[][2] = {
        {"n", "y"}, {"no", "yes"}, {"false", "true"}, {"off", "on"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int value = 0; value < 2; value++) {
            const char *word = words[i][value];
            const size_t len = strlen(word);
            if (strcasecmp(text, word) != 0)
                continue;
            const bool first = text[0] >= 'A' && text[0] <= 'Z';
            bool same = true; /* yes, Yes and YES, but no yES */
            bool lower = true;
            for (size_t k = 1; k < len; k++) {
                const bool upper = text[k] >= 'A' && text[k] <= 'Z';
                lower &= !upper;
                same &= upper == first;
            }
            return lower || same ? value : -1;
        }
    }
    return -1;
}

int descriptor_switch(const struct rule_place *place, unsigned key, bool theirs, bool *value)
{
    const uint32_t node = place->fields[key].node;
    if (!theirs || node == YAML_READER_NONE)
        return rule_switch(place, key, value);
    const struct yaml_reader_node *at = yaml_reader_at(place->reader, node);
    const int number = is_plain(at) ? truth(at->text) : -1;
    if (number < 0)
        return rule_switch(place, key, value); /* it says what was expected */
    *value = number == 1;
    return TG_OK;
}

/* A whole number as Go's ParseInt has it with base 0, without the underscores. */
static bool parse_whole(const char *text, uint64_t *value)
{
    unsigned base = 10;
    bool any = false;
    if (*text == '+')
        text++;
    if (text[0] == '0' && text[1] != '\0') {
        const char mark = (char)(text[1] | 0x20);
        base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
        text += mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1;
    }
    *value = 0;
    for (; *text != '\0'; text++) {
        const char low = (char)(*text | 0x20);
        const unsigned digit = *text >= '0' && *text <= '9' ? (unsigned)(*text - '0')
                               : low >= 'a' && low <= 'f'   ? (unsigned)(low - 'a') + 10
                                                            : 16;
        if (*text == '_')
            continue;
        if (digit >= base || *value > UINT64_MAX / 32)
            return false;
        *value = *value * base + digit;
        any = true;
    }
    return any;
}

int descriptor_number(const struct rule_place *place, unsigned key, bool theirs, int64_t *value)
{
    const uint32_t node = place->fields[key].node;
    uint64_t number;
    if (theirs && node != YAML_READER_NONE) {
        const struct yaml_reader_node *at = yaml_reader_at(place->reader, node);
        if (is_plain(at) && parse_whole(at->text, &number) &&
            number <= (uint64_t)rule_key(place->map, key)->max) {
            *value = (int64_t)number;
            return TG_OK;
        }
    }
    return rule_number(place, key, value);
}

int descriptor_unit(const struct rule_place *place, unsigned key, bool theirs, bool unlimited,
                    int *seconds)
{
    const struct rule_key *row = rule_key(place->map, key);
    const uint32_t node = place->fields[key].node;
    *seconds = 0;
    if (!theirs || node == YAML_READER_NONE)
        return rule_word(place, key, seconds);
    const struct yaml_reader_node *at = yaml_reader_at(place->reader, node);
    for (uint32_t i = 0; at->kind == YAML_READER_SCALAR && i < row->word_count; i++) {
        if (strcasecmp(row->words[i].text, at->text) == 0)
            *seconds = row->words[i].number;
    }
    /* An unlimited one may have whatever is no unit. */
    return *seconds != 0 || (unlimited && at->kind == YAML_READER_SCALAR)
               ? TG_OK
               : rule_word(place, key, seconds);
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Whether it is a number of JSON that has one spelling. */
static bool is_number(const char *text)
{
    const char *at = text + (text[0] == '-');
    const size_t whole = strspn(at, "0123456789");
    if (whole == 0 || whole > 15 || (at[0] == '0' && whole > 1))
        return false;
    if (at[whole] != '.')
        return at[whole] == '\0';
    const size_t fraction = strspn(at + whole + 1, "0123456789");
    return fraction > 0 && fraction <= 15 && at[whole + 1 + fraction] == '\0';
}

static void put_scalar(struct descriptor_writer *json, const struct yaml_reader *reader,
                       uint32_t node)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    const int value = at->plain ? truth(at->text) : -1;
    if (yaml_reader_is_nothing(reader, node))
        descriptor_write(json, "null", 4);
    else if (value >= 0)
        descriptor_write(json, value == 1 ? "true" : "false", value == 1 ? 4 : 5);
    else if (at->plain && is_number(at->text))
        descriptor_write(json, at->text, at->len);
    else
        descriptor_write_quoted(json, &(struct policy_text){at->text, at->len});
}

/* A list or mapping that is being written. */
struct level {
    uint32_t next; /* the next child, or NONE */
    uint32_t count;
    bool map;
};

/* Begins the node. True if it is a list or mapping, which `level` then is. */
static bool begin(struct descriptor_writer *json, const struct yaml_reader *reader, uint32_t node,
                  struct level *level)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    if (at->kind == YAML_READER_SCALAR) {
        put_scalar(json, reader, node);
        return false;
    }
    *level = (struct level){at->first, 0, at->kind == YAML_READER_MAPPING};
    descriptor_write(json, level->map ? "{" : "[", 1);
    return true;
}

/* False: it is nested too deep. */
static bool write_tree(struct descriptor_writer *json, const struct yaml_reader *reader,
                       uint32_t node)
{
    struct level levels[DESCRIPTOR_METADATA_DEPTH_MAX + 1];
    uint32_t depth = 0;
    depth += begin(json, reader, node, &levels[0]);
    while (depth > 0 && json->len < json->capacity) {
        struct level *level = &levels[depth - 1];
        uint32_t child = level->next;
        if (child == YAML_READER_NONE) {
            descriptor_write(json, level->map ? "}" : "]", 1);
            depth--;
            continue;
        }
        if (level->count++ > 0)
            descriptor_write(json, ",", 1);
        if (level->map) {
            const struct yaml_reader_node *key = yaml_reader_at(reader, child);
            descriptor_write_quoted(json, &(struct policy_text){key->text, key->len});
            descriptor_write(json, ":", 1);
            child = key->next;
        }
        level->next = yaml_reader_at(reader, child)->next;
        depth += begin(json, reader, child, &levels[depth]);
        if (depth > DESCRIPTOR_METADATA_DEPTH_MAX)
            return false;
    }
    return true;
}

int descriptor_metadata(struct chunks *chunks, const struct rule_place *place, unsigned key,
                        struct policy_text *out)
{
    char text[DESCRIPTOR_METADATA_LEN_MAX + 1];
    struct descriptor_writer json = {text, sizeof text, 0};
    const uint32_t node = place->fields[key].node;
    *out = (struct policy_text){"", 0};
    if (node == YAML_READER_NONE)
        return TG_OK;
    if (!write_tree(&json, place->reader, node))
        return yaml_reader_fail(place->reader, node,
                                "descriptor.metadata: found nested too deep; expected at most %d "
                                "lists and mappings inside each other",
                                DESCRIPTOR_METADATA_DEPTH_MAX);
    if (json.len > DESCRIPTOR_METADATA_LEN_MAX)
        return yaml_reader_fail(place->reader, node,
                                "descriptor.metadata: found more than %d bytes as JSON; expected "
                                "at most so many",
                                DESCRIPTOR_METADATA_LEN_MAX);
    *out = (struct policy_text){chunks_copy(chunks, text, json.len), json.len};
    return out->data == NULL ? TG_ENOMEM : TG_OK;
}

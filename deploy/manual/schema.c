/* schema.c - a JSON Schema of rules files, for editors, from the table of keys.
 *
 *   one definition a mapping: its keys, each with its type, range and meaning, and no others
 *
 * SCHEMA-1  Every file that nodes accept is valid: a schema that refuses one would be turned off.
 * SCHEMA-2  An unknown key, a value of another type and a number out of its range are not valid.
 *           What two keys may say together only the readers know.
 *
 * A text may be any scalar: what YAML takes for a number is a name, too.
 */
#include <inttypes.h>
#include <string.h>

#include "base/quantity.h"
#include "deploy/manual/manual.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/policy.h"
#include "node/policy/readers/rule_keys.h"

#define SCALAR    "\"type\": [\"string\", \"number\", \"boolean\"]"
#define ATTRIBUTE "\"pattern\": \"^[a-z0-9_.-]{1,64}$\""

static const char *const definitions[RULE_MAPS] = {
    [RULE_MAP_FILE] = "file",
    [RULE_MAP_RULE] = "rule",
    [RULE_MAP_LIMIT] = "limit",
    [RULE_MAP_RESPONSE] = "response",
    [RULE_MAP_SOFT] = "soft",
    [RULE_MAP_ELASTIC] = "elastic",
    [RULE_MAP_LOCAL] = "local",
    [RULE_MAP_POOL] = "pool",
    [RULE_MAP_TIER] = "tier",
    [RULE_MAP_OLDER_FILE] = "older_file",
    [RULE_MAP_OLDER_LIMIT] = "older_limit",
    [RULE_MAP_DOMAIN] = "domain",
    [RULE_MAP_DESCRIPTOR] = "descriptor",
    [RULE_MAP_RATE_LIMIT] = "rate_limit",
    [RULE_MAP_REPLACES] = "replaces",
};

/* Adds a string of JSON. */
static void add_string(struct cli_text *text, const char *string)
{
    cli_text_str(text, "\"");
    for (const char *at = string; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            cli_text_str(text, "\\");
        cli_text_add(text, at, 1);
    }
    cli_text_str(text, "\"");
}

static void add_reference(struct cli_text *text, enum rule_map map)
{
    cli_text_format(text, "{\"$ref\": \"#/definitions/%s\"}", definitions[map]);
}

/* "(ns|us|...)": the units of time, as part of a pattern. */
static void add_units(struct cli_text *text)
{
    for (size_t i = 0; quantity_unit(i) != NULL; i++)
        cli_text_format(text, "%s%s", i == 0 ? "(" : "|", quantity_unit(i));
    cli_text_str(text, ")");
}

/* The digits of a number up to `max`, a power of ten, without leading zeros. */
static void add_digits(struct cli_text *text, int64_t max)
{
    int digits = 0;
    for (int64_t left = max; left > 1; left /= 10)
        digits++;
    cli_text_format(text, "([1-9][0-9]{0,%d}|%" PRId64 ")", digits - 1, max);
}

static void add_words(struct cli_text *text, const struct rule_key *key)
{
    const char *separator = "";
    cli_text_str(text, "\"enum\": [");
    for (uint32_t i = 0; i < key->word_count; i++) {
        if (key->choices != NULL && !key->choices[i].bare)
            continue;
        cli_text_format(text, "%s\"%s\"", separator, key->words[i].text);
        separator = ", ";
    }
    cli_text_str(text, "]");
}

/* A word alone, or {WORD: mapping}. */
static void add_choice(struct cli_text *text, const struct rule_key *key)
{
    cli_text_str(text, "\"anyOf\": [{");
    add_words(text, key);
    cli_text_str(text, "}");
    for (uint32_t i = 0; i < key->word_count; i++) {
        const char *word = key->words[i].text;
        if (key->choices[i].map == RULE_MAP_NONE)
            continue;
        cli_text_format(text, ", {\"type\": \"object\", \"required\": [\"%s\"], ", word);
        cli_text_format(text, "\"additionalProperties\": false, \"properties\": {\"%s\": ", word);
        add_reference(text, key->choices[i].map);
        cli_text_str(text, "}}");
    }
    cli_text_str(text, "]");
}

/* A mapping whose keys are free: `names` bounds them, and ends before the type of the values. */
static void open_free(struct cli_text *text, const struct rule_key *key, const char *names)
{
    cli_text_str(text, "\"type\": \"object\", ");
    if (key->type != RULE_TYPE_OLDER)
        cli_text_format(text, "\"maxProperties\": %" PRId64 ", ", key->max);
    cli_text_format(text, "\"propertyNames\": {%s}, \"additionalProperties\": ", names);
}

static void add_free(struct cli_text *text, const struct rule_key *key)
{
    static const char names[] = "\"minLength\": 1";
    open_free(text, key,
              key->type == RULE_TYPE_NAMED || key->type == RULE_TYPE_OLDER ? names : ATTRIBUTE);
    if (key->type == RULE_TYPE_NAMED) {
        add_reference(text, key->of);
    } else if (key->type == RULE_TYPE_OLDER) {
        cli_text_format(text, "{\"type\": \"array\", \"minItems\": %" PRId64, key->min);
        cli_text_format(text, ", \"maxItems\": %" PRId64 ", \"items\": ", key->max);
        add_reference(text, key->of);
        cli_text_str(text, "}");
    } else if (key->type == RULE_TYPE_KINDS) {
        for (int i = 0; i < ATTRIBUTE_KINDS; i++)
            cli_text_format(text, "%s\"%s\"", i == 0 ? "{\"enum\": [" : ", ",
                            attribute_kind_name((enum attribute_kind)i));
        cli_text_str(text, "]}");
    } else {
        cli_text_format(text, "{\"anyOf\": [{" SCALAR ", \"minLength\": 1, \"maxLength\": %d}, ",
                        POLICY_VALUE_LEN_MAX);
        cli_text_format(text, "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": %d, ",
                        POLICY_MATCH_VALUES_MAX);
        cli_text_format(text, "\"items\": {" SCALAR ", \"minLength\": 1, \"maxLength\": %d}}]}",
                        POLICY_VALUE_LEN_MAX);
    }
}

static void add_list(struct cli_text *text, const struct rule_key *key)
{
    cli_text_format(text, "\"type\": \"array\", \"minItems\": %" PRId64, key->min);
    cli_text_format(text, ", \"maxItems\": %" PRId64 ", \"items\": ", key->max);
    if (key->type == RULE_TYPE_LIST)
        add_reference(text, key->of);
    else
        cli_text_str(text, "{" SCALAR ", " ATTRIBUTE "}, \"uniqueItems\": true");
}

/* A factor above 1 and up to `max`, with at most two places behind the point. */
static void add_factor(struct cli_text *text, int64_t max)
{
    int digits = 0;
    for (int64_t left = max; left > 1; left /= 10)
        digits++;
    cli_text_str(text, "0*(1\\\\.(0[1-9]|[1-9][0-9]?)|");
    cli_text_format(text, "([2-9]|[1-9][0-9]{1,%d})(\\\\.[0-9]{1,2})?|", digits - 1);
    cli_text_format(text, "%" PRId64 "(\\\\.0{1,2})?)x", max);
}

/* What is written as a text of its own form. */
static void add_quantity(struct cli_text *text, const struct rule_key *key)
{
    static const char number[] = "0*[1-9][0-9]*";
    cli_text_str(text, "\"type\": \"string\", \"pattern\": \"^");
    if (key->type == RULE_TYPE_PERCENT) {
        add_digits(text, key->max);
        cli_text_str(text, "%");
    } else if (key->type == RULE_TYPE_FACTOR) {
        add_factor(text, key->max);
    } else if (key->type == RULE_TYPE_RATE) {
        cli_text_format(text, "%s/(%s)?", number, number);
        add_units(text);
    } else {
        cli_text_str(text, key->min == 0 ? "[0-9]+" : number);
        add_units(text);
    }
    cli_text_str(text, "$\"");
}

static void add_type(struct cli_text *text, const struct rule_key *key)
{
    switch (key->type) {
    case RULE_TYPE_TEXT:
        cli_text_format(text, SCALAR ", \"minLength\": %" PRId64 ", \"maxLength\": %" PRId64,
                        key->min, key->max);
        break;
    case RULE_TYPE_NAME:
        cli_text_str(text, SCALAR ", " ATTRIBUTE);
        break;
    case RULE_TYPE_NUMBER:
        cli_text_format(text, "\"type\": \"integer\", \"minimum\": %" PRId64, key->min);
        cli_text_format(text, ", \"maximum\": %" PRId64, key->max);
        break;
    case RULE_TYPE_SWITCH:
        cli_text_str(text, "\"type\": \"boolean\"");
        break;
    case RULE_TYPE_WORD:
        add_words(text, key);
        break;
    case RULE_TYPE_CHOICE:
        add_choice(text, key);
        break;
    case RULE_TYPE_RATE:
    case RULE_TYPE_DURATION:
    case RULE_TYPE_PERCENT:
    case RULE_TYPE_FACTOR:
        add_quantity(text, key);
        break;
    case RULE_TYPE_LOAD:
        cli_text_str(text, "\"type\": [\"number\", \"string\"], \"exclusiveMinimum\": 0, "
                           "\"maximum\": 1, \"pattern\": \"^(0\\\\.[0-9]{1,6}|1(\\\\.0{0,6})?)$\"");
        break;
    case RULE_TYPE_MAP:
        cli_text_str(text, "\"allOf\": [");
        add_reference(text, key->of);
        cli_text_str(text, "]");
        break;
    case RULE_TYPE_LIST:
    case RULE_TYPE_NAMES:
        add_list(text, key);
        break;
    case RULE_TYPE_TREE:
        cli_text_str(text, "\"not\": false");
        break;
    case RULE_TYPE_NAMED:
    case RULE_TYPE_MATCH:
    case RULE_TYPE_KINDS:
    case RULE_TYPE_OLDER:
        add_free(text, key);
        break;
    }
}

static void add_key(struct cli_text *text, const struct rule_key *key)
{
    cli_text_str(text, "        ");
    add_string(text, key->name);
    cli_text_str(text, ": {");
    add_type(text, key);
    cli_text_str(text, ", \"description\": ");
    add_string(text, key->help);
    cli_text_str(text, "}");
}

static void add_map(struct cli_text *text, enum rule_map map)
{
    const struct rule_map_row *row = rule_map(map);
    const char *separator = "";
    cli_text_format(text, "    \"%s\": {\n", definitions[map]);
    cli_text_str(text, "      \"type\": \"object\",\n      \"title\": ");
    add_string(text, row->title);
    cli_text_str(text, ",\n      \"additionalProperties\": false,\n      \"required\": [");
    for (uint32_t i = 0; i < row->count; i++) {
        if (!row->keys[i].required)
            continue;
        cli_text_format(text, "%s\"%s\"", separator, row->keys[i].name);
        separator = ", ";
    }
    cli_text_str(text, "],\n      \"properties\": {\n");
    for (uint32_t i = 0; i < row->count; i++) {
        add_key(text, &row->keys[i]);
        cli_text_str(text, i + 1 < row->count ? ",\n" : "\n");
    }
    cli_text_str(text, "      }\n    }");
}

void manual_schema(struct cli_text *text)
{
    cli_text_str(text, "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"
                       "  \"title\": \"rules of a Tidegate cluster\",\n"
                       "  \"if\": {\"type\": \"object\", \"required\": [\"api\"], "
                       "\"not\": {\"required\": [\"rules\"]}},\n"
                       "  \"then\": {\"$ref\": \"#/definitions/older_file\"},\n"
                       "  \"else\": {\"if\": {\"type\": \"object\", \"anyOf\": [{\"required\": "
                       "[\"domain\"]}, {\"required\": [\"descriptors\"]}], "
                       "\"not\": {\"required\": [\"rules\"]}},\n"
                       "  \"then\": {\"required\": [\"domain\"]},\n"
                       "  \"else\": {\"$ref\": \"#/definitions/file\"}},\n"
                       "  \"definitions\": {\n");
    for (enum rule_map map = 0; map < RULE_MAPS; map++) {
        add_map(text, map);
        cli_text_str(text, map + 1 < RULE_MAPS ? ",\n" : "\n");
    }
    cli_text_str(text, "  }\n}\n");
}

/* kind_reader.c - the `attributes:` of a rules file: which attributes have which kind.
 *
 *   attributes: {api: verbatim, url: path}      attribute_kind.h says what kinds are
 *
 * KINDREADER-1  The order in which they are written means nothing: further names are kept sorted.
 * KINDREADER-2  What records are found by has no kind but verbatim.
 */
#include <assert.h>
#include <stdlib.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

static int compare_names(const void *a, const void *b)
{
    const struct attribute_named *left = a;
    const struct attribute_named *right = b;

    return policy_text_compare(&left->name, &right->name);
}

/* Refuses a kind for what users and API keys are found by (KINDREADER-2). */
static int check_records(const struct yaml_reader *reader, uint32_t key,
                         const struct attribute_named *named)
{
    static const char *const records[] = {"user", "tier", "api_key"};

    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (named->kind != ATTRIBUTE_VERBATIM && policy_text_is(&named->name, records[i]))
            return yaml_reader_fail(reader, key,
                                    "attributes: found kind %s for %s, whose records are found "
                                    "byte by byte; expected verbatim",
                                    attribute_kind_name((enum attribute_kind)named->kind),
                                    records[i]);
    }
    return TG_OK;
}

/* Reads NAME: KIND at `key`. */
static int read_named(struct chunks *chunks, const struct yaml_reader *reader, uint32_t key,
                      struct attribute_named *out)
{
    struct yaml_reader_word words[ATTRIBUTE_KINDS];
    int kind = ATTRIBUTE_VERBATIM;

    for (int i = 0; i < ATTRIBUTE_KINDS; i++)
        words[i] = (struct yaml_reader_word){attribute_kind_name((enum attribute_kind)i), i};
    int result = policy_check_attribute(reader, key, "attributes");
    if (result == TG_OK)
        result = policy_read_text(chunks, reader, key, "attributes", 1,
                                  POLICY_ATTRIBUTE_NAME_LEN_MAX, &out->name);
    if (result == TG_OK)
        result = yaml_reader_word(reader, yaml_reader_at(reader, key)->next, "attributes", words,
                                  ATTRIBUTE_KINDS, &kind);
    out->kind = (uint8_t)kind;
    return result == TG_OK ? check_records(reader, key, out) : result;
}

int policy_read_attributes(struct policy *policy, const struct yaml_reader *reader, uint32_t node)
{
    struct attribute_named named[ATTRIBUTE_NAMED_MAX];
    struct attribute_kinds *kinds = chunks_get(&policy->chunks, 1, sizeof *kinds);

    if (kinds == NULL)
        return TG_ENOMEM;
    int result = yaml_reader_mapping(reader, node, "attributes", 0, ATTRIBUTE_NAMED_MAX);
    if (result != TG_OK)
        return result;
    const uint32_t count = yaml_reader_at(reader, node)->len;
    uint32_t key = yaml_reader_at(reader, node)->first;
    for (uint32_t i = 0; i < count; i++) {
        if (!yaml_reader_goes_on(reader, read_named(&policy->chunks, reader, key, &named[i]),
                                 &result))
            return result;
        key = yaml_reader_at(reader, yaml_reader_at(reader, key)->next)->next;
    }
    if (result != TG_OK)
        return result;
    if (count > 1)
        qsort(named, count, sizeof named[0], compare_names);
    *kinds = *attribute_kinds_default();
    for (uint32_t i = 0; i < count; i++)
        attribute_kinds_set(kinds, &named[i].name, (enum attribute_kind)named[i].kind);
    policy->kinds = kinds;
    return TG_OK;
}

/* envoy_form.c - a text of files of envoyproxy/ratelimit: known by its shape, and read whole.
 *
 *   {charge: all, merge_domains: true}     the first document may say so, or be absent
 *   ---
 *   domain: shop                           one file, one document, one domain
 *   descriptors: [...]
 *   ---
 *   domain: search
 */
#include <string.h>

#include "node/policy/descriptors/descriptor_reader.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/document.h"
#include "node/policy/readers/readers.h"

bool policy_is_envoy_form(const struct yaml_reader *reader)
{
    bool domains = false;
    for (uint32_t node = reader->root; node != YAML_READER_NONE;
         node = yaml_reader_at(reader, node)->next) {
        if (document_value(reader, node, "rules") != YAML_READER_NONE)
            return false;
        domains |= document_value(reader, node, "domain") != YAML_READER_NONE ||
                   document_value(reader, node, "descriptors") != YAML_READER_NONE;
    }
    return domains;
}

/* Reads what is said of all files, if the first document says it. */
static int read_settings(const struct yaml_reader *reader, struct descriptor_source *source)
{
    struct yaml_reader_field read[] = {
        {rule_key(RULE_MAP_FILE, FILE_CHARGE)->name, YAML_READER_OPTIONAL, 0},
        {rule_key(RULE_MAP_FILE, FILE_MERGE)->name, YAML_READER_OPTIONAL, 0}};
    struct yaml_reader_field fields[FILE_KEYS];
    const struct rule_place place = {reader, RULE_MAP_FILE, NULL, fields};
    int charge = RULE_CHARGE_EACH;
    if (document_value(reader, source->first, read[0].name) == YAML_READER_NONE &&
        document_value(reader, source->first, read[1].name) == YAML_READER_NONE)
        return TG_OK;
    int result = yaml_reader_fields(reader, source->first, "file", read, 2);
    fields[FILE_CHARGE].node = read[0].node;
    fields[FILE_MERGE].node = read[1].node;
    if (result == TG_OK)
        result = rule_word(&place, FILE_CHARGE, &charge);
    if (result == TG_OK)
        result = rule_switch(&place, FILE_MERGE, &source->merge);
    source->all_or_nothing = charge == RULE_CHARGE_ALL;
    source->first = yaml_reader_at(reader, source->first)->next;
    return result;
}

int policy_read_envoy_form(struct policy *policy, const struct yaml_reader *reader)
{
    struct descriptor_source source = {.first = reader->root, .theirs = true};
    const int result = read_settings(reader, &source);
    if (result != TG_OK)
        return result;
    const uint32_t count = policy_count_domains(reader, source.first);
    policy->listed_max = count < POLICY_RULES_MAX ? count : POLICY_RULES_MAX;
    policy->listed = chunks_get(&policy->chunks, policy->listed_max, sizeof(*policy->listed));
    return policy->listed == NULL ? TG_ENOMEM : policy_read_domains(policy, reader, &source);
}

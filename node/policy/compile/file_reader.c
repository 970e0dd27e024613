/* file_reader.c - the top of a rules file: `unmatched`, the kinds of attributes, the pools, the
 * tiers and the list of rules.
 *
 * FILEREADER-1  No two rules have one name: the name is part of what is counted, so two rules would
 *               share their counts without anybody having said so.
 * FILEREADER-2  A file without `rules` is refused, empty ones included: a file cut short by a full
 *               disk must not switch all limits off.
 *
 * A file with `api` instead of `rules` is of an older form: older_reader.c; one with `domain` is
 * envoyproxy/ratelimit's: envoy_form.c.
 */
#include <string.h>

#include "base/hash.h"

#include "node/policy/descriptors/descriptor_reader.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/own_limits.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

/* The rules read so far, by name: open addressing, at most half full; 0 = free, else index + 1. */
struct names {
    uint32_t *slots;
    uint32_t mask;
};

static int names_init(struct names *names, struct chunks *chunks, uint32_t count)
{
    uint32_t len = 8;

    while (len < 2 * count)
        len *= 2;
    names->mask = len - 1;
    names->slots = chunks_get(chunks, len, sizeof(*names->slots));
    return names->slots == NULL ? TG_ENOMEM : TG_OK;
}

/* The slot of a name, or the free one where it belongs. */
static uint32_t *names_find(const struct names *names, const struct policy_rule *rules,
                            const struct policy_text *name)
{
    static const struct hash_key key = {{0}}; /* names come from the operator: no secret needed */
    uint32_t at = (uint32_t)hash64(&key, name->data, name->len) & names->mask;

    while (names->slots[at] != 0 && !policy_text_equal(&rules[names->slots[at] - 1].name, name))
        at = (at + 1) & names->mask;
    return &names->slots[at];
}

/* Adds rules[index]. False if its name is there already. */
static bool names_add(struct names *names, const struct policy_rule *rules, uint32_t index)
{
    uint32_t *slot = names_find(names, rules, &rules[index].name);
    if (*slot != 0)
        return false;
    *slot = index + 1;
    return true;
}

/* Where a rule's name stands in the file. */
static uint32_t name_node(const struct yaml_reader *reader, uint32_t rule)
{
    uint32_t key = yaml_reader_at(reader, rule)->first;

    while (strcmp(yaml_reader_at(reader, key)->text, "name") != 0)
        key = yaml_reader_at(reader, yaml_reader_at(reader, key)->next)->next;
    return yaml_reader_at(reader, key)->next;
}

/* Whether the rule is a user's plan. */
static bool is_plan(const struct policy_rule *rule)
{
    return rule->act == POLICY_ACT_THROTTLE && !rule->shadow &&
           policy_text_is(&rule->group, POLICY_PLAN_GROUP) && rule->key_count == 1 &&
           policy_text_is(&rule->key[0], "user");
}

/* Whether the name is that of limits that users or API keys have of their own: they would share
 * their counts (FILEREADER-1). */
static bool is_taken(const struct policy_text *name)
{
    return policy_text_equal(name, &own_limits_user_rule()->name) ||
           policy_text_equal(name, &own_limits_key_rule()->name);
}

/* Whether the rule that was read last has a name of its own (FILEREADER-1). */
static int check_name(const struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                      struct names *names)
{
    char shown[YAML_READER_SHOWN_LEN];
    const uint32_t last = (uint32_t)policy->rule_count - 1;

    if (is_taken(&policy->listed[last].name))
        return yaml_reader_fail(reader, name_node(reader, node),
                                "name: found %s, which limits of users and keys have; expected "
                                "another one",
                                yaml_reader_shown(reader, name_node(reader, node), shown));
    if (!names_add(names, policy->listed, last))
        return yaml_reader_fail(reader, name_node(reader, node),
                                "name: found a second rule %s; expected unique names",
                                yaml_reader_shown(reader, name_node(reader, node), shown));
    return TG_OK;
}

/* Reads the list of rules into policy->listed. */
static int read_rules(struct policy *policy, const struct yaml_reader *reader, uint32_t list,
                      struct names *names)
{
    uint32_t node = yaml_reader_at(reader, list)->first;
    int result = TG_OK;

    for (; node != YAML_READER_NONE; node = yaml_reader_at(reader, node)->next) {
        const uint32_t i = (uint32_t)policy->rule_count;
        if (!yaml_reader_goes_on(reader, policy_read_rule(policy, reader, node, &policy->listed[i]),
                                 &result))
            return result;
        policy->listed[i].plan = is_plan(&policy->listed[i]);
        policy->rule_count++;
        if (policy->listed[i].name.data != NULL &&
            !yaml_reader_goes_on(reader, check_name(policy, reader, node, names), &result))
            return result;
    }
    return result;
}

/* Reads the tiers, each as a rule behind the others. */
static int read_tiers(struct policy *policy, const struct yaml_reader *reader, uint32_t mapping,
                      struct names *names)
{
    char shown[YAML_READER_SHOWN_LEN];
    uint32_t name = yaml_reader_at(reader, mapping)->first;
    int result = TG_OK;

    while (name != YAML_READER_NONE) {
        const uint32_t i = (uint32_t)policy->rule_count;
        if (!yaml_reader_goes_on(reader, policy_read_tier(policy, reader, name, &policy->listed[i]),
                                 &result))
            return result;
        policy->rule_count++;
        if (policy->listed[i].name.data != NULL && !names_add(names, policy->listed, i) &&
            !yaml_reader_goes_on(
                reader,
                yaml_reader_fail(reader, name,
                                 "tiers: found %s beside a rule named \"%s\"; expected that "
                                 "name for the tier alone",
                                 yaml_reader_shown(reader, name, shown),
                                 policy->listed[i].name.data),
                &result))
            return result;
        name = yaml_reader_at(reader, yaml_reader_at(reader, name)->next)->next;
    }
    return result;
}

/* Whether no rule of a domain has the name of one that was read before, and none its counts
 * (FILEREADER-1). */
static int check_domains(const struct policy *policy, const struct yaml_reader *reader,
                         uint32_t node, size_t first, struct names *names)
{
    const struct descriptors *descriptors = policy->descriptors;
    const struct policy_text *twice = NULL;
    for (size_t i = first; i < policy->rule_count && twice == NULL; i++)
        if (!names_add(names, policy->listed, (uint32_t)i))
            twice = &policy->listed[i].name;
    for (uint32_t i = 0; i < descriptors->domain_count && twice == NULL; i++) {
        const struct policy_rule *given = &descriptors->domains[i].given;
        if (*names_find(names, policy->listed, &given->counted) != 0)
            twice = &given->counted;
    }
    return twice == NULL
               ? TG_OK
               : yaml_reader_fail(reader, node,
                                  "domains: found a rule named \"%.100s\", which a domain has; "
                                  "expected another name for the rule",
                                  twice->data);
}

/* Reads `domains`, behind everything else. */
static int read_domains(struct policy *policy, const struct rule_place *place, struct names *names)
{
    const struct yaml_reader *reader = place->reader;
    const uint32_t list = place->fields[FILE_DOMAINS].node;
    const size_t first = policy->rule_count;
    struct descriptor_source source = {.first = yaml_reader_at(reader, list)->first};
    int charge = RULE_CHARGE_EACH;
    int result = rule_word(place, FILE_CHARGE, &charge);
    if (result == TG_OK)
        result = rule_switch(place, FILE_MERGE, &source.merge);
    source.all_or_nothing = charge == RULE_CHARGE_ALL;
    if (result == TG_OK)
        result = policy_read_domains(policy, reader, &source);
    return result == TG_OK ? check_domains(policy, reader, list, first, names) : result;
}

/* How many rules the file may come to. */
static uint32_t count_acting(const struct rule_place *place)
{
    const struct yaml_reader *reader = place->reader;
    const struct yaml_reader_field *fields = place->fields;
    uint32_t count = yaml_reader_at(reader, fields[FILE_RULES].node)->len;
    if (fields[FILE_DOMAINS].node != YAML_READER_NONE)
        count +=
            policy_count_domains(reader, yaml_reader_at(reader, fields[FILE_DOMAINS].node)->first);
    count = count < POLICY_RULES_MAX ? count : POLICY_RULES_MAX;
    if (fields[FILE_TIERS].node != YAML_READER_NONE)
        count += yaml_reader_at(reader, fields[FILE_TIERS].node)->len;
    return count;
}

/* What of domains alone has an effect is refused without them. */
static int check_lists(const struct rule_place *place)
{
    static const uint8_t domains_only[] = {FILE_CHARGE, FILE_MERGE};
    const struct yaml_reader *reader = place->reader;
    const struct yaml_reader_field *fields = place->fields;
    int result = yaml_reader_list(reader, fields[FILE_RULES].node, "rules", 0,
                                  (uint32_t)rule_key(RULE_MAP_FILE, FILE_RULES)->max);
    if (result == TG_OK && fields[FILE_TIERS].node != YAML_READER_NONE)
        result = yaml_reader_mapping(reader, fields[FILE_TIERS].node, "tiers", 0,
                                     (uint32_t)rule_key(RULE_MAP_FILE, FILE_TIERS)->max);
    if (result == TG_OK && fields[FILE_DOMAINS].node != YAML_READER_NONE)
        return yaml_reader_list(reader, fields[FILE_DOMAINS].node, "domains", 0,
                                (uint32_t)rule_key(RULE_MAP_FILE, FILE_DOMAINS)->max);
    for (size_t i = 0; result == TG_OK && i < sizeof domains_only; i++) {
        const struct yaml_reader_field *field = &fields[domains_only[i]];
        if (field->node != YAML_READER_NONE)
            return yaml_reader_fail(reader, field->node,
                                    "%s: found without domains; expected it with them only",
                                    field->name);
    }
    return result;
}

/* Reads what acts on requests: rules, tiers and domains. */
static int read_acting(struct policy *policy, const struct rule_place *place)
{
    const struct yaml_reader *reader = place->reader;
    const uint32_t tiers = place->fields[FILE_TIERS].node;
    struct names names;

    int result = check_lists(place);
    if (result != TG_OK)
        return result;
    policy->listed_max = count_acting(place);
    policy->listed = chunks_get(&policy->chunks, policy->listed_max, sizeof(*policy->listed));
    if (policy->listed == NULL ||
        names_init(&names, &policy->chunks, (uint32_t)policy->listed_max) != TG_OK)
        return TG_ENOMEM;
    if (!yaml_reader_goes_on(
            reader, read_rules(policy, reader, place->fields[FILE_RULES].node, &names), &result))
        return result;
    if (tiers != YAML_READER_NONE &&
        !yaml_reader_goes_on(reader, read_tiers(policy, reader, tiers, &names), &result))
        return result;
    if (place->fields[FILE_DOMAINS].node != YAML_READER_NONE)
        (void)yaml_reader_goes_on(reader, read_domains(policy, place, &names), &result);
    return result;
}

int policy_read_file(struct policy *policy, const struct yaml_reader *reader)
{
    struct yaml_reader_field fields[FILE_KEYS];
    const struct rule_place place = {reader, RULE_MAP_FILE, NULL, fields};
    int deny = 0;

    if (reader->root == YAML_READER_NONE)
        return yaml_reader_fail(
            reader, YAML_READER_NONE,
            "file: found nothing; expected a mapping with \"rules\""); /* FILEREADER-2 */
    if (policy_is_envoy_form(reader))
        return policy_read_envoy_form(policy, reader);
    const uint32_t second = yaml_reader_at(reader, reader->root)->next;
    if (second != YAML_READER_NONE)
        return yaml_reader_fail(reader, second,
                                "a second document; expected one document in a file");
    if (policy_is_older_form(reader))
        return policy_read_older_file(policy, reader);
    int result = TG_OK;
    const bool more =
        yaml_reader_goes_on(reader, rule_fields(reader, reader->root, RULE_MAP_FILE, NULL, fields),
                            &result) &&
        yaml_reader_goes_on(reader, rule_word(&place, FILE_UNMATCHED, &deny), &result) &&
        (fields[FILE_ATTRIBUTES].node == YAML_READER_NONE ||
         yaml_reader_goes_on(reader,
                             policy_read_attributes(policy, reader, fields[FILE_ATTRIBUTES].node),
                             &result)) &&
        (fields[FILE_POOLS].node == YAML_READER_NONE ||
         yaml_reader_goes_on(reader, policy_read_pools(policy, reader, fields[FILE_POOLS].node),
                             &result));
    policy->unmatched_deny = deny != 0;
    if (more && fields[FILE_RULES].node != YAML_READER_NONE)
        (void)yaml_reader_goes_on(reader, read_acting(policy, &place), &result);
    return result;
}

/* file_reader.c - the top of a rules file: `unmatched`, the kinds of attributes, the pools, the
 * tiers and the list of rules.
 *
 * FILEREADER-1  No two rules have one name: the name is part of what is counted, so two rules would
 *               share their counts without anybody having said so.
 * FILEREADER-2  A file without `rules` is refused, empty ones included: a file cut short by a full
 *               disk must not switch all limits off.
 *
 * A file with `api` instead of `rules` is of an older form: older_reader.c.
 */
#include <string.h>

#include "base/hash.h"

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

/* Adds rules[index]. False if its name is there already. */
static bool names_add(struct names *names, const struct policy_rule *rules, uint32_t index)
{
    static const struct hash_key key = {{0}}; /* names come from the operator: no secret needed */
    const struct policy_text *name = &rules[index].name;
    uint32_t at = (uint32_t)hash64(&key, name->data, name->len) & names->mask;

    for (; names->slots[at] != 0; at = (at + 1) & names->mask) {
        if (policy_text_equal(&rules[names->slots[at] - 1].name, name))
            return false;
    }
    names->slots[at] = index + 1;
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

/* Reads what acts on requests: the rules, and the tiers unless `tiers` is NONE. */
static int read_acting(struct policy *policy, const struct yaml_reader *reader, uint32_t rules,
                       uint32_t tiers)
{
    struct names names;
    const bool tiered = tiers != YAML_READER_NONE;

    int result = yaml_reader_list(reader, rules, "rules", 0,
                                  (uint32_t)rule_key(RULE_MAP_FILE, FILE_RULES)->max);
    if (result == TG_OK && tiered)
        result = yaml_reader_mapping(reader, tiers, "tiers", 0,
                                     (uint32_t)rule_key(RULE_MAP_FILE, FILE_TIERS)->max);
    if (result != TG_OK)
        return result;
    const uint32_t count =
        yaml_reader_at(reader, rules)->len + (tiered ? yaml_reader_at(reader, tiers)->len : 0);
    policy->listed = chunks_get(&policy->chunks, count, sizeof(*policy->listed));
    if (policy->listed == NULL || names_init(&names, &policy->chunks, count) != TG_OK)
        return TG_ENOMEM;
    if (yaml_reader_goes_on(reader, read_rules(policy, reader, rules, &names), &result) && tiered)
        (void)yaml_reader_goes_on(reader, read_tiers(policy, reader, tiers, &names), &result);
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
        (void)yaml_reader_goes_on(
            reader, read_acting(policy, reader, fields[FILE_RULES].node, fields[FILE_TIERS].node),
            &result);
    return result;
}

/* tier_reader.c - the `tiers:` of a rules file: what the users of a tier may do, each for himself.
 *
 *   tiers:
 *     free: {limits: [{rate: 100/h}]}
 *     premium: {limits: [{rate: 5000/h}]}
 *
 * A tier is a rule, named "tier free": it matches the attribute `tier`, counts by [user], and is of
 * group `tier`, so that a rule of that group with a lower priority is the default of users without
 * a tier. All else is as a rule has it that does not say otherwise.
 *
 * TIERREADER-1  Tiers stand behind the rules of the file: among equal priorities (theirs is 0) an
 *               allow or block rule of the file acts first.
 * TIERREADER-2  A tier's name is plain, so it matches itself alone, and is safe to show.
 */
#include <stdio.h>
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

enum { STATUS = 429 };

static const struct policy_text user_key[] = {{"user", 4}};

/* Checks the name: 1..64 letters, digits and _ . - (TIERREADER-2). */
static int check_name(const struct yaml_reader *reader, uint32_t node)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    char shown[YAML_READER_SHOWN_LEN];

    if (at->kind == YAML_READER_SCALAR && at->len >= 1 && at->len <= POLICY_TIER_LEN_MAX &&
        strspn(at->text, allowed) == at->len)
        return TG_OK;
    return yaml_reader_fail(reader, node,
                            "tiers: found %s; expected the name of a tier, 1 to %d letters, "
                            "digits and _ . -",
                            yaml_reader_shown(reader, node, shown), POLICY_TIER_LEN_MAX);
}

/* What the rule is called, and what it matches. */
static int name_rule(struct chunks *chunks, const struct yaml_reader_node *name,
                     struct policy_rule *rule)
{
    char text[sizeof POLICY_TIER_PREFIX + POLICY_TIER_LEN_MAX];
    struct policy_match *match = chunks_get(chunks, 1, sizeof *match);
    struct policy_text *value = chunks_get(chunks, 1, sizeof *value);

    const int len = snprintf(text, sizeof text, POLICY_TIER_PREFIX "%s", name->text);
    rule->name = (struct policy_text){chunks_copy(chunks, text, (size_t)len), (size_t)len};
    if (match == NULL || value == NULL || rule->name.data == NULL)
        return TG_ENOMEM;
    *value = (struct policy_text){rule->name.data + sizeof POLICY_TIER_PREFIX - 1, name->len};
    *match = (struct policy_match){.attribute = {"tier", 4}, .values = value, .value_count = 1};
    rule->matches = match;
    rule->match_count = 1;
    return TG_OK;
}

int policy_read_tier(struct policy *policy, const struct yaml_reader *reader, uint32_t name,
                     struct policy_rule *rule)
{
    struct yaml_reader_field fields[TIER_KEYS];
    const struct yaml_reader_node *at = yaml_reader_at(reader, name);

    *rule = (struct policy_rule){
        .group = {POLICY_PLAN_GROUP, sizeof POLICY_PLAN_GROUP - 1},
        .key = user_key,
        .key_count = 1,
        .message = {"", 0},
        .line = at->line,
        .status = STATUS,
        .act = POLICY_ACT_THROTTLE,
        .class = POLICY_CLASS_NORMAL,
        .on_failure = POLICY_FAILURE_CLOSED,
        .consistency = POLICY_CONSISTENCY_ONE,
        .ipv6_prefix = POLICY_IPV6_PREFIX_DEFAULT,
        .enabled = true,
        .plan = true,
    };
    int result = TG_OK;
    if (!yaml_reader_goes_on(reader, check_name(reader, name), &result) ||
        !yaml_reader_goes_on(reader, name_rule(&policy->chunks, at, rule), &result) ||
        !yaml_reader_goes_on(reader, rule_fields(reader, at->next, RULE_MAP_TIER, NULL, fields),
                             &result) ||
        fields[TIER_LIMITS].node == YAML_READER_NONE)
        return result;
    (void)yaml_reader_goes_on(
        reader, policy_read_limits(policy, reader, fields[TIER_LIMITS].node, rule), &result);
    return result;
}

/* policy_report.c - writes the value that policy_report.h describes. */
#include "node/policy/compile/policy_report.h"
#include "node/policy/index/policy_resolve.h"

#include <stdio.h>

#include "node/policy/readers/own_limits.h"

enum { SENTENCE_LEN = 512, PAIR_LEN = 160, VALUE_SHOWN_LEN = 64, FIELDS = 6 };

static void put_text(struct mp_writer *writer, const char *name, const char *value)
{
    mp_put_str(writer, name);
    mp_put_str(writer, value);
}

static const char *action_name(enum policy_action action)
{
    static const char *const names[] = {
        [POLICY_UNMATCHED] = "unmatched", [POLICY_LIMITS] = "limits",
        [POLICY_ALLOW] = "allow",         [POLICY_BLOCK] = "block",
        [POLICY_MISSING] = "missing",     [POLICY_OVERFLOW] = "overflow",
    };
    return names[action];
}

static void put_limit(struct mp_writer *writer, const struct policy_part *part,
                      const struct limit *limit)
{
    const struct policy_rule *rule = part->rule;
    char pair[PAIR_LEN];
    char window[QUANTITY_TEXT_LEN];

    own_limits_window(rule, limit, window);
    mp_put_map(writer, FIELDS);
    put_text(writer, "rule", rule->name.data);
    put_text(writer, "window", window);
    put_text(writer, "algorithm", algorithm_name(limit->algorithm));
    mp_put_str(writer, "exceed_percent");
    mp_put_uint(writer, limit->exceed_percent);
    mp_put_str(writer, "shadow");
    mp_put_bool(writer, rule->shadow);
    mp_put_str(writer, "key");
    mp_put_array(writer, rule->key_count);
    for (size_t k = 0; k < rule->key_count; k++) {
        const struct policy_text *value = &part->values[k];
        const int len = value->len < VALUE_SHOWN_LEN ? (int)value->len : VALUE_SHOWN_LEN;
        const int written =
            snprintf(pair, sizeof(pair), "%s=%.*s", rule->key[k].data, len, value->data);
        mp_put_strn(writer, pair, written > 0 ? (size_t)written : 0);
    }
}

static void put_limits(struct mp_writer *writer, const struct policy_result *result)
{
    struct limit limits[OWN_MERGED_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < result->part_count; i++)
        count += own_limits_of(&result->parts[i], limits);
    mp_put_str(writer, "limits");
    mp_put_array(writer, count);
    for (uint32_t i = 0; i < result->part_count; i++) {
        const uint32_t own = own_limits_of(&result->parts[i], limits);
        for (uint32_t l = 0; l < own; l++)
            put_limit(writer, &result->parts[i], &limits[l]);
    }
}

static void put_rule(struct mp_writer *writer, const struct policy_rule *rule,
                     const struct policy_reason *reason)
{
    char sentence[SENTENCE_LEN];

    mp_put_map(writer, FIELDS);
    put_text(writer, "name", rule->name.data);
    mp_put_str(writer, "priority");
    mp_put_int(writer, rule->priority);
    put_text(writer, "action", policy_act_name(rule->act));
    mp_put_str(writer, "acts");
    mp_put_bool(writer, reason->why == POLICY_WHY_ACTS);
    put_text(writer, "why", policy_why_name(reason->why));
    policy_reason_format(rule, reason, sentence, sizeof(sentence));
    put_text(writer, "because", sentence);
}

/* Fields `rules` and `rules_more`: all that act, and of the others the first ones. */
static void put_rules(struct mp_writer *writer, const struct policy *policy,
                      const struct policy_reason *reasons, size_t rules_max)
{
    const size_t count = policy_rule_count(policy);
    size_t acting = 0;
    for (size_t i = 0; i < count; i++)
        acting += reasons[i].why == POLICY_WHY_ACTS;
    const size_t room = rules_max > acting ? rules_max - acting : 0;
    size_t others = count - acting < room ? count - acting : room;
    mp_put_str(writer, "rules_more");
    mp_put_uint(writer, count - acting - others);
    mp_put_str(writer, "rules");
    mp_put_array(writer, acting + others);
    for (size_t i = 0; i < count; i++) {
        const bool acts = reasons[i].why == POLICY_WHY_ACTS;
        if (!acts && others == 0)
            continue;
        others -= !acts;
        put_rule(writer, policy_rule_at(policy, i), &reasons[i]);
    }
}

void policy_report_put(struct mp_writer *writer, const struct policy *policy,
                       const struct policy_result *result, const struct policy_reason *reasons,
                       bool blocked, size_t rules_max)
{
    mp_put_map(writer, FIELDS + 3);
    put_text(writer, "action", action_name(result->action));

    mp_put_str(writer, "allowed");
    mp_put_bool(writer, result->allowed && !blocked);
    put_text(writer, "rule", result->rule != NULL ? result->rule->name.data : "");
    mp_put_str(writer, "missing");
    mp_put_strn(writer, result->missing.len != 0 ? result->missing.data : "", result->missing.len);
    put_text(writer, "message", result->action == POLICY_OVERFLOW ? POLICY_CROWD_SENTENCE : "");
    put_limits(writer, result);
    put_rules(writer, policy, reasons, rules_max);
    mp_put_str(writer, "blocked");
}

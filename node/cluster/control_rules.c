/* control_rules.c - what operators ask about rules: those in force, and whether new ones compile.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/control_answer.h"

enum { RULE_TEXT_LEN = 8192 };

static void put_rule(const struct policy_rule *rule, struct mp_writer *writer)
{
    char text[RULE_TEXT_LEN];
    mp_put_map(writer, 7);
    put_field_str(writer, "name", rule->name.data);
    mp_put_str(writer, "priority");
    mp_put_int(writer, rule->priority);
    put_field_str(writer, "action", policy_act_name(rule->act));
    mp_put_str(writer, "key");
    mp_put_array(writer, rule->key_count);
    for (uint32_t i = 0; i < rule->key_count; i++)
        mp_put_str(writer, rule->key[i].data);
    mp_put_str(writer, "limits");
    mp_put_array(writer, rule->limit_count);
    for (uint32_t i = 0; i < rule->limit_count; i++) {
        (void)snprintf(text, sizeof text, "%s %s", rule->windows[i],
                       algorithm_name(rule->limits[i].algorithm));
        mp_put_str(writer, text);
    }
    put_field_bool(writer, "enabled", rule->enabled);
    const int len = policy_format_rule(rule, text, sizeof text);
    put_field_str(writer, "rule", len > 0 ? text : "");
}

void answer_rules(struct answer_context *context)
{
    const struct policy *policy = context->report->policy;
    answer_begin(context);
    mp_put_array(context->writer, policy_rule_count(policy));
    for (size_t i = 0; i < policy_rule_count(policy); i++)
        put_rule(policy_rule_at(policy, i), context->writer);
}

void answer_validate(struct answer_context *context)
{
    struct policy_error error;
    struct policy *policy;
    size_t len = 0;
    struct mp_cursor cursor;
    const char *text = answer_argument(context, "text", &cursor) ? mp_get_str(&cursor, &len) : NULL;
    if (text == NULL) {
        answer_error(context, TG_EINVALID, "rules.validate: expected {\"text\": rules as YAML}");
        return;
    }
    const int result = policy_compile_zoned(text, len, context->control->allocator,
                                            context->control->options.zones, &policy, &error);
    struct mp_writer *writer = context->writer;
    answer_begin(context);
    if (result == 0) {
        mp_put_map(writer, 3);
        put_field_bool(writer, "ok", true);
        put_field_uint(writer, "rules", policy_rule_count(policy));
        put_field_hex(writer, "digest", policy_digest(policy));
        policy_free(&policy);
        return;
    }
    mp_put_map(writer, 4);
    put_field_bool(writer, "ok", false);
    put_field_uint(writer, "line", error.line);
    put_field_uint(writer, "column", error.column);
    put_field_str(writer, "message", error.message);
}

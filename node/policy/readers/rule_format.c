/* rule_format.c - a compiled rule, written as JSON on one line that compiles to the same rule.
 *
 * JSON is YAML, so one form serves `rules show`, the API and tests: everything the rule holds is
 * written, defaults included, except what compilation would refuse beside the rule's action.
 *
 * RULEFORMAT-1  Compiling the written form gives a rule with the same digest.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/descriptor_format.h"

struct writer {
    char *data;
    size_t len;
    size_t capacity;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format,
                                                      ...)
{
    va_list arguments;

    if (writer->failed)
        return;
    const size_t room = writer->capacity - writer->len;
    va_start(arguments, format);
    const int written = vsnprintf(writer->data + writer->len, room, format, arguments);
    va_end(arguments);
    writer->failed = written < 0 || (size_t)written >= room;
    writer->len += writer->failed ? 0 : (size_t)written;
}

/* Rules hold printable text only, so quotes and backslashes are all there is to escape. */
static void put_text(struct writer *writer, const struct policy_text *text)
{
    put(writer, "\"");
    for (size_t i = 0; i < text->len; i++) {
        const char c = text->data[i];
        put(writer, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    put(writer, "\"");
}

static void put_texts(struct writer *writer, const struct policy_text *texts, size_t count)
{
    put(writer, "[");
    for (size_t i = 0; i < count; i++) {
        put(writer, "%s", i == 0 ? "" : ",");
        put_text(writer, &texts[i]);
    }
    put(writer, "]");
}

static void put_match(struct writer *writer, const struct policy_rule *rule)
{
    put(writer, ",\"match\":{");
    for (size_t i = 0; i < rule->match_count; i++) {
        put(writer, "%s", i == 0 ? "" : ",");
        put_text(writer, &rule->matches[i].attribute);
        put(writer, ":");
        put_texts(writer, rule->matches[i].values, rule->matches[i].value_count);
    }
    put(writer, "}");
}

static void put_elastic(struct writer *writer, const struct policy_mode *mode)
{
    put(writer, ",\"mode\":{\"elastic\":{\"pool\":");
    put_text(writer, &mode->pool->name);
    if (mode->ceiling_percent != 0)
        put(writer, ",\"ceiling\":\"%u.%02ux\"", mode->ceiling_percent / 100,
            mode->ceiling_percent % 100);
    put(writer, ",\"weight\":%u}}", mode->weight);
}

static void put_mode(struct writer *writer, const struct policy_mode *mode)
{
    if (mode->pool != NULL)
        put_elastic(writer, mode);
    else if (mode->exceed_percent == 0)
        put(writer, ",\"mode\":\"hard\"");
    else
        put(writer, ",\"mode\":{\"soft\":{\"exceed\":\"%u%%\"}}", mode->exceed_percent);
}

static bool mode_differs(const struct policy_mode *a, const struct policy_mode *b)
{
    return a->exceed_percent != b->exceed_percent || a->pool != b->pool || a->weight != b->weight ||
           a->ceiling_percent != b->ceiling_percent;
}

static void put_limits(struct writer *writer, const struct policy_rule *rule)
{
    put(writer, ",\"limits\":[");
    for (size_t i = 0; i < rule->limit_count; i++) {
        const struct limit *limit = &rule->limits[i];
        put(writer, "%s{\"rate\":\"%s\",\"algorithm\":\"%s\"", i == 0 ? "" : ",", rule->windows[i],
            algorithm_name(limit->algorithm));
        if (limit->burst != 0)
            put(writer, ",\"burst\":%" PRIu64, limit->burst);
        if (limit->buckets != 0)
            put(writer, ",\"buckets\":%u", limit->buckets);
        if (limit->align == LIMIT_ALIGN_FIRST)
            put(writer, ",\"align\":\"first\"");
        if (limit_is_calendar(limit->align))
            put(writer, ",\"align\":\"calendar\",\"timezone\":\"%s\"",
                rule->calendars[i].name.data);
        if (mode_differs(&rule->modes[i], &rule->mode))
            put_mode(writer, &rule->modes[i]);
        put(writer, "}");
    }
    put(writer, "]");
}

static void put_throttle(struct writer *writer, const struct policy_rule *rule)
{
    put(writer, ",\"key\":");
    put_texts(writer, rule->key, rule->key_count);
    put_limits(writer, rule);
    put_mode(writer, &rule->mode);
    if (rule->on_failure == POLICY_FAILURE_LOCAL)
        put(writer, ",\"on_failure\":{\"local\":{\"share\":\"%u%%\"}}", rule->local_share);
    else
        put(writer, ",\"on_failure\":\"%s\"", policy_failure_name(rule->on_failure));
    put(writer, ",\"count_denied\":%s,\"missing\":\"%s\"", rule->count_denied ? "true" : "false",
        rule->missing_deny ? "deny" : "skip");
    if (rule->key_addresses != 0)
        put(writer, ",\"ipv6_prefix\":%u", rule->ipv6_prefix);
}

static void put_response(struct writer *writer, const struct policy_rule *rule)
{
    char duration[QUANTITY_TEXT_LEN];

    put(writer, ",\"response\":{\"status\":%u,\"message\":", rule->status);
    put_text(writer, &rule->message);
    if (rule->retry_after_ns != 0) {
        quantity_format_duration(rule->retry_after_ns, duration);
        put(writer, ",\"retry_after\":\"%s\"", duration);
    }
    put(writer, "}");
}

static void put_global(struct writer *writer, const struct policy_rule *rule)
{
    char duration[QUANTITY_TEXT_LEN];

    if (rule->home.len != 0) {
        put(writer, ",\"home\":");
        put_text(writer, &rule->home);
    }
    quantity_format_duration(rule->wan_wait_ns, duration);
    put(writer, ",\"wan_wait\":\"%s\"", duration);
}

int policy_format_rule(const struct policy_rule *rule, char *out, size_t capacity)
{
    if (rule->descriptor != NULL)
        return policy_format_descriptor(rule, out, capacity);
    struct writer writer = {.data = out, .capacity = capacity, .failed = capacity == 0};

    put(&writer, "{\"name\":");
    put_text(&writer, &rule->name);
    put(&writer, ",\"enabled\":%s,\"priority\":%" PRId32, rule->enabled ? "true" : "false",
        rule->priority);
    if (rule->group.len != 0) {
        put(&writer, ",\"group\":");
        put_text(&writer, &rule->group);
    }
    put_match(&writer, rule);
    put(&writer, ",\"action\":\"%s\",\"class\":\"%s\"", policy_act_name(rule->act),
        policy_class_name(rule->class));
    put(&writer, ",\"consistency\":\"%s\",\"scope\":\"%s\",\"shadow\":%s",
        policy_consistency_name(rule->consistency), policy_scope_name(rule->scope),
        rule->shadow ? "true" : "false");
    if (rule->scope == POLICY_SCOPE_GLOBAL)
        put_global(&writer, rule);
    if (rule->act == POLICY_ACT_THROTTLE)
        put_throttle(&writer, rule);
    if (rule->act != POLICY_ACT_ALLOW)
        put_response(&writer, rule);
    put(&writer, "}");
    return writer.failed || writer.len > INT32_MAX ? TG_ETOOBIG : (int)writer.len;
}

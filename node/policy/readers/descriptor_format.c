/* descriptor_format.c - domains, written as a document of ours.
 *
 * DESCRIPTORFORMAT-1  The document of one descriptor has a rule of the same meaning, and that of
 *                     all domains has all of them.
 */
#include "node/policy/readers/descriptor_format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"

enum { SECONDS_UNITS = 7, PIECE_LEN = 256, LEVEL_INDENT = 4 };

__attribute__((format(printf, 2, 3))) static void say(struct descriptor_writer *writer,
                                                      const char *format, ...)
{
    char text[PIECE_LEN];
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ASSERT(len >= 0 && len < PIECE_LEN);
    descriptor_write(writer, text, (size_t)len);
}

static const char *unit_name(uint32_t seconds)
{
    static const struct {
        uint32_t seconds;
        const char *name;
    } units[SECONDS_UNITS] = {{1, "second"},        {60, "minute"},      {3600, "hour"},
                              {86400, "day"},       {7 * 86400, "week"}, {30 * 86400, "month"},
                              {365 * 86400, "year"}};
    for (size_t i = 0; i < SECONDS_UNITS; i++)
        if (units[i].seconds == seconds)
            return units[i].name;
    return "";
}

/* How the pairs of a mapping are parted. */
struct style {
    uint32_t indent; /* a line each, so far behind its beginning; 0: on one line */
};

static void next_pair(struct descriptor_writer *writer, const struct style *style)
{
    if (style->indent == 0)
        say(writer, ", ");
    else
        say(writer, "\n%*s", (int)style->indent, "");
}

static void put_switch(struct descriptor_writer *writer, const struct style *style,
                       const char *name, bool value)
{
    if (!value)
        return;
    next_pair(writer, style);
    say(writer, style->indent == 0 ? "\"%s\": true" : "%s: true", name);
}

static void put_name(struct descriptor_writer *writer, const struct style *style, const char *name)
{
    say(writer, style->indent == 0 ? "\"%s\": " : "%s: ", name);
}

/* JSON has its names in quotes; a file for people need not. */
static void put_rate_limit(struct descriptor_writer *writer, const struct style *style,
                           const struct descriptor *limit)
{
    const char *quote = style->indent == 0 ? "\"" : "";
    if (limit->unit_s == 0)
        say(writer, "{%sunlimited%s: true", quote, quote);
    else
        say(writer, "{%sunit%s: %s%s%s, %srequests_per_unit%s: %u", quote, quote, quote,
            unit_name(limit->unit_s), quote, quote, quote, limit->requests_per_unit);
    if (limit->name.len > 0) {
        say(writer, ", %sname%s: ", quote, quote);
        descriptor_write_quoted(writer, &limit->name);
    }
    for (uint32_t i = 0; i < limit->replace_count; i++) {
        if (i == 0)
            say(writer, ", %sreplaces%s: [", quote, quote);
        say(writer, "%s{%sname%s: ", i == 0 ? "" : ", ", quote, quote);
        descriptor_write_quoted(writer, &limit->replaces[i]);
        say(writer, "}");
    }
    say(writer, limit->replace_count > 0 ? "]}" : "}");
}

/* All that a descriptor has but those below it. */
static void put_node(struct descriptor_writer *writer, const struct style *style,
                     const struct descriptor_node *node, const struct policy_rule *rule,
                     const struct policy_rule *common)
{
    const struct policy_text key = {node->composite.data, node->key_len};
    const struct policy_text value = descriptor_value(node);
    put_name(writer, style, "key");
    descriptor_write_quoted(writer, &key);
    if (value.len > 0) {
        next_pair(writer, style);
        put_name(writer, style, "value");
        descriptor_write_quoted(writer, &value);
    }
    if (rule != NULL) {
        next_pair(writer, style);
        put_name(writer, style, "rate_limit");
        put_rate_limit(writer, style, rule->descriptor);
        put_switch(writer, style, "shadow_mode", rule->descriptor->shadow);
        put_switch(writer, style, "quota_mode", rule->descriptor->quota);
    }
    put_switch(writer, style, "share_threshold", node->share_threshold);
    put_switch(writer, style, "value_to_metric", node->value_to_metric);
    put_switch(writer, style, "detailed_metric", node->detailed_metric);
    if (node->metadata.len > 0) {
        next_pair(writer, style);
        put_name(writer, style, "metadata");
        descriptor_write(writer, node->metadata.data, node->metadata.len);
    }
    if (rule != NULL && !policy_text_equal(&rule->message, &common->message)) {
        next_pair(writer, style);
        put_name(writer, style, "message");
        descriptor_write_quoted(writer, &rule->message);
    }
}

static void put_domain(struct descriptor_writer *writer, const struct style *style,
                       const struct descriptors *all, const struct descriptor_domain *domain)
{
    const struct policy_rule *given = &domain->given;
    put_name(writer, style, "domain");
    descriptor_write_quoted(writer, &all->nodes[domain->node].composite);
    next_pair(writer, style);
    put_name(writer, style, "on_failure");
    if (given->on_failure == POLICY_FAILURE_LOCAL && given->local_share < 100)
        say(writer, "{\"local\": {\"share\": \"%u%%\"}}", given->local_share);
    else
        say(writer, "\"%s\"", policy_failure_name(given->on_failure));
    if (given->message.len > 0) {
        next_pair(writer, style);
        put_name(writer, style, "message");
        descriptor_write_quoted(writer, &given->message);
    }
}

int policy_format_descriptor(const struct policy_rule *rule, char *out, size_t capacity)
{
    struct descriptor_writer writer = {out, capacity, 0};
    const struct style style = {0};
    const struct descriptors *all = rule->descriptor->all;
    uint32_t path[DESCRIPTOR_DEPTH_MAX];
    uint32_t node = rule->descriptor->node;
    const uint32_t depth = all->nodes[node].depth;
    ASSERT(depth > 0 && depth <= DESCRIPTOR_DEPTH_MAX);
    for (uint32_t i = depth; i-- > 0; node = all->nodes[node].parent)
        path[i] = node;
    say(&writer, "{\"rules\": [], \"charge\": \"%s\", \"domains\": [{",
        all->all_or_nothing ? "all" : "each");
    put_domain(&writer, &style, all, &all->domains[all->nodes[node].domain]);
    for (uint32_t i = 0; i < depth; i++) {
        say(&writer, ", \"descriptors\": [{");
        put_node(&writer, &style, &all->nodes[path[i]], i + 1 == depth ? rule : NULL,
                 &all->domains[all->nodes[node].domain].given);
    }
    for (uint32_t i = 0; i < depth; i++)
        say(&writer, "}]");
    say(&writer, "}]}");
    const size_t len = writer.len;
    descriptor_write(&writer, "", 1);
    return len >= capacity || len > INT32_MAX ? TG_ETOOBIG : (int)len;
}

/* The next node in the order of the file, below `domain`; NONE: there is no other. */
static uint32_t next_node(const struct descriptors *all, uint32_t node, uint32_t domain)
{
    if (all->nodes[node].first != DESCRIPTOR_NONE)
        return all->nodes[node].first;
    while (node != domain && all->nodes[node].next == DESCRIPTOR_NONE)
        node = all->nodes[node].parent;
    return node == domain ? DESCRIPTOR_NONE : all->nodes[node].next;
}

static void put_tree(struct descriptor_writer *writer, const struct descriptors *all,
                     const struct descriptor_domain *domain)
{
    uint32_t node = next_node(all, domain->node, domain->node);
    for (; node != DESCRIPTOR_NONE; node = next_node(all, node, domain->node)) {
        const struct descriptor_node *at = &all->nodes[node];
        const struct style style = {at->depth * LEVEL_INDENT + 4U};
        if (all->nodes[at->parent].first == node)
            say(writer, "\n%*sdescriptors:", (int)style.indent - LEVEL_INDENT, "");
        say(writer, "\n%*s- ", (int)style.indent - 2, "");
        put_node(writer, &style, at, at->rule, &domain->given);
    }
}

size_t policy_format_domains(const struct policy *policy, char *out, size_t capacity)
{
    const struct descriptors *all = policy_descriptors(policy);
    struct descriptor_writer writer = {out, capacity, 0};
    const struct style style = {LEVEL_INDENT};
    say(&writer, "rules: []\n");
    if (all == NULL)
        return writer.len;
    say(&writer, "charge: %s\ndomains:", all->all_or_nothing ? "all" : "each");
    for (uint32_t i = 0; i < all->domain_count; i++) {
        say(&writer, "\n  - ");
        put_domain(&writer, &style, all, &all->domains[i]);
        put_tree(&writer, all, &all->domains[i]);
    }
    say(&writer, all->domain_count == 0 ? " []\n" : "\n");
    return writer.len;
}

/* descriptor_report.c - see descriptor_report.h. */
#include "node/policy/descriptors/descriptor_report.h"

#include <string.h>

#include "node/policy/model/policy_internal.h"

enum { SHOWN_LEN = 128, STAT_LEN = 512, FIELDS = 10, LEVEL_FIELDS = 3 };

static void put_text(struct mp_writer *writer, const char *name, const char *text)
{
    mp_put_str(writer, name);
    mp_put_str(writer, text);
}

/* An entry as it is written in paths, cut. */
static void put_entry(struct mp_writer *writer, const char *name, const struct policy_text *key,
                      const struct policy_text *value)
{
    char text[SHOWN_LEN];
    struct descriptor_writer path = {text, sizeof text, 0};
    descriptor_write_entry(&path, key, value, true);
    mp_put_str(writer, name);
    mp_put_strn(writer, text, path.len < sizeof text ? path.len : sizeof text);
}

static const char *match_name(enum descriptor_match match)
{
    static const char *const names[] = {
        [DESCRIPTOR_NO_DOMAIN] = "no_domain", [DESCRIPTOR_NO_LIMIT] = "no_limit",
        [DESCRIPTOR_UNLIMITED] = "unlimited", [DESCRIPTOR_NOTHING] = "nothing",
        [DESCRIPTOR_REPLACED] = "replaced",   [DESCRIPTOR_LIMITED] = "limited",
    };
    return names[match];
}

/* How the node was met. */
static const char *way_of(const struct descriptor_node *node, const struct descriptor_entry *entry)
{
    const struct policy_text value = descriptor_value(node);
    if (node->wild &&
        !(node->key_len == entry->key.len && policy_text_equal(&value, &entry->value)))
        return "wildcard";
    return node->composite.len == entry->key.len ? "key" : "exact";
}

static void put_level(struct mp_writer *writer, const struct descriptor_entry *entry,
                      const struct descriptor_node *node)
{
    const struct policy_text none = {"", 0};
    mp_put_map(writer, LEVEL_FIELDS);
    put_entry(writer, "entry", &entry->key, &entry->value);
    if (node == NULL) {
        put_entry(writer, "met", &none, NULL);
    } else {
        const struct policy_text key = {node->composite.data, node->key_len};
        const struct policy_text value = descriptor_value(node);
        put_entry(writer, "met", &key, value.len > 0 ? &value : NULL);
    }
    put_text(writer, "by", node == NULL ? "nothing" : way_of(node, entry));
}

void policy_descriptor_report(struct mp_writer *writer, const struct policy *policy,
                              const struct descriptor_request *request,
                              const struct descriptor_found *found)
{
    const struct descriptor *descriptor = found->descriptor;
    const struct policy_rule *rule = found->rule;
    char stat[STAT_LEN];
    (void)policy_descriptor_stat(policy, request, found, stat, sizeof stat);
    mp_put_map(writer, FIELDS);
    mp_put_str(writer, "domain");
    mp_put_strn(writer, request->domain.data, request->domain.len);
    put_text(writer, "match", match_name(found->match));
    put_text(writer, "rule", rule != NULL ? rule->name.data : "");
    put_text(writer, "limit", rule != NULL && rule->limit_count > 0 ? rule->windows[0] : "");
    put_text(writer, "name", descriptor != NULL ? descriptor->name.data : "");
    mp_put_str(writer, "shadow");
    mp_put_bool(writer, rule != NULL && rule->shadow);
    mp_put_str(writer, "quota");
    mp_put_bool(writer, descriptor != NULL && descriptor->quota);
    put_text(writer, "counted_by", found->match == DESCRIPTOR_LIMITED ? found->path.data : "");
    put_text(writer, "counter", stat);
    mp_put_str(writer, "levels");
    mp_put_array(writer, request->entry_count);
    for (uint32_t i = 0; i < request->entry_count; i++) {
        const bool met = i < found->depth;
        put_level(writer, &request->entries[i],
                  met ? &policy_descriptors(policy)->nodes[found->nodes[i]] : NULL);
    }
}

/* older_reader.c - rules in the form that an older limiter had, as JSON.
 *
 *   {"api": {"/user/v1/create": [{"caller": "phone", "request-count": 20, "time": 60},
 *                                {"caller": "phone", "request-count": 100, "time": 1440}]}}
 *
 * Each api is matched exactly, `caller` is the attribute that is counted, `time` is in minutes. All
 * entries of one caller under one api become one rule, so that they hold together:
 *
 *   - name: "/user/v1/create:phone"
 *     match: {api: /user/v1/create}
 *     key: [phone]
 *     limits: [{rate: 20/60m, algorithm: sliding_log}, {rate: 100/1440m, algorithm: sliding_log}]
 *     response: {message: REQUEST_LIMIT_REACHED}
 *
 * OLDERREADER-1  The name is API:CALLER. Names are part of what is counted, so this never changes;
 *                and since no attribute's name holds a colon, no two rules share one.
 * OLDERREADER-2  Entries are limits in the order of the file.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

enum {
    ENTRIES_MAX = 256, /* of one api; the table of keys says so, too */
    STATUS_THROTTLE = 429,
    ON_FAILURE = POLICY_FAILURE_CLOSED
};
#define MINUTE_NS         UINT64_C(60000000000)
#define MESSAGE           "REQUEST_LIMIT_REACHED"
#define API_LEN_MAX       (POLICY_NAME_LEN_MAX - 2) /* beside a colon and a caller */
#define MAPPING_PAIRS_MAX POLICY_RULES_MAX

bool policy_is_older_form(const struct yaml_reader *reader)
{
    bool api = false;

    if (reader->root == YAML_READER_NONE ||
        yaml_reader_at(reader, reader->root)->kind != YAML_READER_MAPPING)
        return false;
    uint32_t key = yaml_reader_at(reader, reader->root)->first;
    while (key != YAML_READER_NONE) {
        const struct yaml_reader_node *at = yaml_reader_at(reader, key);
        if (strcmp(at->text, "rules") == 0)
            return false;
        api = api || strcmp(at->text, "api") == 0;
        key = yaml_reader_at(reader, at->next)->next;
    }
    return api;
}

/* One element of an api's list. */
struct entry {
    uint32_t caller; /* node */
    struct limit limit;
};

static int read_entry(const struct yaml_reader *reader, uint32_t node, struct entry *entry)
{
    struct yaml_reader_field fields[OLDER_LIMIT_KEYS];
    const struct rule_place place = {reader, RULE_MAP_OLDER_LIMIT, NULL, fields};
    char sentence[QUANTITY_ERROR_LEN];
    int64_t count = 0;
    int64_t minutes = 0;

    int result = rule_fields(reader, node, RULE_MAP_OLDER_LIMIT, NULL, fields);
    if (result == TG_OK)
        result = policy_check_attribute(reader, fields[OLDER_CALLER].node, "caller");
    if (result == TG_OK)
        result = rule_number(&place, OLDER_COUNT, &count);
    if (result == TG_OK)
        result = rule_number(&place, OLDER_TIME, &minutes);
    if (result != TG_OK)
        return result;
    entry->caller = fields[OLDER_CALLER].node;
    entry->limit = (struct limit){.count = (uint64_t)count,
                                  .window_ns = (uint64_t)minutes * MINUTE_NS,
                                  .algorithm = ALGORITHM_SLIDING_LOG};
    if (limit_validate(&entry->limit, sentence) != TG_OK)
        return yaml_reader_fail(reader, fields[OLDER_COUNT].node, "request-count: %s", sentence);
    return TG_OK;
}

static bool same_caller(const struct yaml_reader *reader, const struct entry *a,
                        const struct entry *b)
{
    return strcmp(yaml_reader_at(reader, a->caller)->text,
                  yaml_reader_at(reader, b->caller)->text) == 0;
}

/* What all rules of one api share: an exact match, and the api in the spelling of the file, which
 * names them. */
struct api {
    const struct policy_match *match;
    struct policy_text written;
};

static int read_api(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                    struct api *out)
{
    char shown[YAML_READER_SHOWN_LEN];
    struct policy_match *match = chunks_get(chunks, 1, sizeof(*match));
    struct policy_text *value = chunks_get(chunks, 1, sizeof(*value));

    if (match == NULL || value == NULL)
        return TG_ENOMEM;
    const int result = policy_read_text(chunks, reader, node, "api", 1, API_LEN_MAX, value);
    if (result != TG_OK)
        return result;
    if (memchr(value->data, '*', value->len) != NULL)
        return yaml_reader_fail(reader, node,
                                "api: found %s with *; expected an exact api (patterns belong to "
                                "the form with \"rules\")",
                                yaml_reader_shown(reader, node, shown));
    *match = (struct policy_match){
        .attribute = {"api", 3}, .values = value, .value_count = 1, .kind = ATTRIBUTE_PATH};
    *out = (struct api){match, *value};
    return policy_spell_match(chunks, reader, node, "api", ATTRIBUTE_PATH, value);
}

/* Names the rule API:CALLER (OLDERREADER-1). */
static int name_rule(struct chunks *chunks, const struct yaml_reader *reader, uint32_t caller,
                     const struct policy_text *api, struct policy_rule *rule)
{
    char name[POLICY_NAME_LEN_MAX + POLICY_ATTRIBUTE_NAME_LEN_MAX + 1];
    const int len = snprintf(name, sizeof(name), "%s:%s", api->data, rule->key[0].data);

    ASSERT(len > 0 && (size_t)len < sizeof(name));
    if (len > POLICY_NAME_LEN_MAX)
        return yaml_reader_fail(reader, caller,
                                "caller: found %d bytes with its api; expected at most %d of both, "
                                "which name the rule",
                                len - 1, POLICY_NAME_LEN_MAX - 1);
    rule->name.len = (size_t)len;
    rule->name.data = chunks_copy(chunks, name, rule->name.len);
    return rule->name.data == NULL ? TG_ENOMEM : TG_OK;
}

/* Gathers the limits of the caller of entries[first] (OLDERREADER-2). */
static int gather_limits(struct chunks *chunks, const struct yaml_reader *reader,
                         const struct entry *entries, uint32_t count, uint32_t first,
                         struct policy_rule *rule)
{
    struct limit *limits = chunks_get(chunks, POLICY_LIMITS_MAX, sizeof(*limits));
    char(*windows)[QUANTITY_TEXT_LEN] = chunks_get(chunks, POLICY_LIMITS_MAX, sizeof(*windows));
    struct policy_mode *modes = chunks_get(chunks, POLICY_LIMITS_MAX, sizeof(*modes));

    if (limits == NULL || windows == NULL || modes == NULL)
        return TG_ENOMEM;
    for (uint32_t i = first; i < count; i++) {
        if (!same_caller(reader, &entries[i], &entries[first]))
            continue;
        if (rule->limit_count == POLICY_LIMITS_MAX)
            return yaml_reader_fail(reader, entries[i].caller,
                                    "caller: found more than %d limits of one caller under one "
                                    "api; expected at most %d",
                                    POLICY_LIMITS_MAX, POLICY_LIMITS_MAX);
        struct limit *limit = &limits[rule->limit_count];
        *limit = entries[i].limit;
        modes[rule->limit_count] = rule->mode;
        const struct quantity_rate rate = {limit->count, limit->window_ns};
        quantity_format_rate(&rate, windows[rule->limit_count++]);
    }
    rule->limits = limits;
    rule->windows = (const char(*)[QUANTITY_TEXT_LEN])windows;
    rule->modes = modes;
    return TG_OK;
}

/* Makes the rule of the caller that entries[first] names first. */
static int make_rule(struct chunks *chunks, const struct yaml_reader *reader, const struct api *api,
                     const struct entry *entries, uint32_t count, uint32_t first,
                     struct policy_rule *rule)
{
    struct policy_text *key = chunks_get(chunks, 1, sizeof(*key));

    if (key == NULL)
        return TG_ENOMEM;
    *rule = (struct policy_rule){.group = {"", 0},
                                 .matches = api->match,
                                 .match_count = 1,
                                 .key = key,
                                 .key_count = 1,
                                 .message = {MESSAGE, sizeof(MESSAGE) - 1},
                                 .line = yaml_reader_at(reader, entries[first].caller)->line,
                                 .status = STATUS_THROTTLE,
                                 .act = POLICY_ACT_THROTTLE,
                                 .class = POLICY_CLASS_NORMAL,
                                 .on_failure = ON_FAILURE,
                                 .consistency = POLICY_CONSISTENCY_ONE,
                                 .ipv6_prefix = POLICY_IPV6_PREFIX_DEFAULT,
                                 .enabled = true};
    int result = policy_read_text(chunks, reader, entries[first].caller, "caller", 1,
                                  POLICY_ATTRIBUTE_NAME_LEN_MAX, key);
    if (result == TG_OK)
        result = name_rule(chunks, reader, entries[first].caller, &api->written, rule);
    rule->key_addresses = result == TG_OK && policy_text_is(key, "ip");
    return result == TG_OK ? gather_limits(chunks, reader, entries, count, first, rule) : result;
}

/* Appends the rules of one api. */
static int read_limits(struct policy *policy, const struct yaml_reader *reader, uint32_t api)
{
    struct entry entries[ENTRIES_MAX];
    struct api shared = {.match = NULL};
    const uint32_t list = yaml_reader_at(reader, api)->next;

    int result = read_api(&policy->chunks, reader, api, &shared);
    if (result == TG_OK)
        result = yaml_reader_list(reader, list, "api", 1, ENTRIES_MAX);
    if (result != TG_OK)
        return result;
    const uint32_t count = yaml_reader_at(reader, list)->len;
    uint32_t node = yaml_reader_at(reader, list)->first;
    for (uint32_t i = 0; i < count && result == TG_OK; i++) {
        result = read_entry(reader, node, &entries[i]);
        node = yaml_reader_at(reader, node)->next;
    }
    for (uint32_t i = 0; i < count && result == TG_OK; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < i; j++)
            seen = seen || same_caller(reader, &entries[j], &entries[i]);
        if (seen)
            continue;
        if (policy->rule_count == POLICY_RULES_MAX)
            return yaml_reader_fail(reader, entries[i].caller,
                                    "api: found more than %d pairs of api and caller; expected at "
                                    "most %d",
                                    POLICY_RULES_MAX, POLICY_RULES_MAX);
        result = make_rule(&policy->chunks, reader, &shared, entries, count, i,
                           &policy->listed[policy->rule_count++]);
    }
    return result;
}

int policy_read_older_file(struct policy *policy, const struct yaml_reader *reader)
{
    struct yaml_reader_field fields[OLDER_FILE_KEYS];

    int result = rule_fields(reader, reader->root, RULE_MAP_OLDER_FILE, NULL, fields);
    if (result == TG_OK)
        result = yaml_reader_mapping(reader, fields[OLDER_API].node, "api", 0, MAPPING_PAIRS_MAX);
    if (result != TG_OK)
        return result;
    policy->listed = chunks_get(&policy->chunks, POLICY_RULES_MAX, sizeof(*policy->listed));
    if (policy->listed == NULL)
        return TG_ENOMEM;
    uint32_t api = yaml_reader_at(reader, fields[OLDER_API].node)->first;
    while (api != YAML_READER_NONE && result == TG_OK) {
        result = read_limits(policy, reader, api);
        api = yaml_reader_at(reader, yaml_reader_at(reader, api)->next)->next;
    }
    return result;
}

/* descriptor_reader.c - domains and their descriptors: the list `domains` of a document of ours, or
 * files of envoyproxy/ratelimit, each a document of the text.
 *
 *   elements --counted--> room for all nodes --read one by one--> nodes, and a rule for each limit
 *
 * DESCRIPTORREADER-1  What the reference refuses is refused, with its place: an empty domain, one
 *                     that stands twice (unless they are merged), an empty key, a composite that
 *                     stands twice at one level, a unit that is none, one beside `unlimited`, a
 *                     limit that replaces itself or something without a name, share_threshold
 *                     without a wildcard, a key that nothing has, a number with a fraction.
 * DESCRIPTORREADER-2  What it takes, but without an effect, a key that belongs to another mapping,
 *                     is taken here, too, and noted for a warning. In a document of ours it is
 *                     refused.
 * DESCRIPTORREADER-3  Nothing recurses: open levels are a stack of DESCRIPTOR_DEPTH_MAX.
 */
#include "node/policy/descriptors/descriptor_reader.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/descriptors/descriptor_values.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/document.h"
#include "node/policy/readers/readers.h"

enum {
    STATUS_THROTTLE = 429,
    NAME_CUT = POLICY_NAME_LEN_MAX - 33,
    ORDINAL_OTHER = 7,
    FIRST_LEN = 32,
    SEEN = 1
};
#define SECOND_NS UINT64_C(1000000000)

struct reading {
    struct policy *policy;
    const struct yaml_reader *reader;
    struct descriptors *out;
    bool theirs;
    bool merge;
    uint32_t domain;           /* that is being read, in out->domains */
    uint32_t room;             /* for nodes */
    struct policy_rule common; /* what its rules have: on_failure and message */
};

/* ---- keys ------------------------------------------------------------------------------------ */

/* Keys that only our own form has. */
static bool is_ours(enum rule_map map, uint32_t key)
{
    return (map == RULE_MAP_DOMAIN && (key == DOMAIN_ON_FAILURE || key == DOMAIN_MESSAGE)) ||
           (map == RULE_MAP_DESCRIPTOR && key == DESCRIPTOR_MESSAGE);
}

/* The keys that the reference knows, wherever they stand. */
static const char *known_elsewhere(const char *key)
{
    static const enum rule_map maps[] = {RULE_MAP_DOMAIN, RULE_MAP_DESCRIPTOR, RULE_MAP_RATE_LIMIT};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        const struct rule_map_row *row = rule_map(maps[i]);
        for (uint32_t k = 0; k < row->count; k++)
            if (strcmp(row->keys[k].name, key) == 0 && !is_ours(maps[i], k))
                return row->keys[k].name;
    }
    return NULL;
}

static uint32_t find_field(const struct rule_map_row *row, const char *key)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (strcmp(row->keys[i].name, key) == 0)
            return i;
    return row->count;
}

static int unknown_key(const struct reading *reading, uint32_t key, const struct rule_map_row *row)
{
    char shown[YAML_READER_SHOWN_LEN];
    return yaml_reader_fail(reading->reader, key,
                            "%s: found unknown key %s; expected keys of envoyproxy/ratelimit, such "
                            "as \"%s\"",
                            row->what, yaml_reader_shown(reading->reader, key, shown),
                            row->keys[0].name);
}

/* DESCRIPTORREADER-2 */
static void note_key(struct reading *reading, uint32_t key, const char *name,
                     const struct rule_map_row *row)
{
    const struct yaml_reader_node *at = yaml_reader_at(reading->reader, key);
    struct descriptors *out = reading->out;
    if (out->note_count < DESCRIPTOR_NOTES_MAX)
        out->notes[out->note_count++] = (struct descriptor_note){
            .line = at->line, .column = at->column, .key = name, .where = row->what};
}

/* Puts one pair into the table, as the reference does: nothing is as if the key were absent. */
static int take_pair(struct reading *reading, uint32_t key, enum rule_map map,
                     struct yaml_reader_field *fields)
{
    const struct yaml_reader *reader = reading->reader;
    const struct yaml_reader_node *node = yaml_reader_at(reader, key);
    const struct rule_map_row *row = rule_map(map);
    const uint32_t field = find_field(row, node->text);
    const char *elsewhere = known_elsewhere(node->text);
    const bool given = field < row->count && elsewhere != NULL;
    if (elsewhere == NULL)
        return unknown_key(reading, key, row);
    if (!given) {
        note_key(reading, key, elsewhere, row);
        return TG_OK;
    }
    if (fields[field].need == SEEN)
        return yaml_reader_fail(reader, key, "%s: found key \"%s\" twice; expected it once",
                                row->what, elsewhere);
    fields[field].need = SEEN; /* without a value, too: the first of a name is the one counted */
    if (!yaml_reader_is_nothing(reader, node->next))
        fields[field].node = node->next;
    return TG_OK;
}

static int take_pairs(struct reading *reading, uint32_t node, enum rule_map map,
                      struct yaml_reader_field *fields)
{
    const struct yaml_reader *reader = reading->reader;
    const struct rule_map_row *row = rule_map(map);
    char shown[YAML_READER_SHOWN_LEN];
    int result = TG_OK;
    for (uint32_t i = 0; i < row->count; i++)
        fields[i] = (struct yaml_reader_field){row->keys[i].name, 0, YAML_READER_NONE};
    if (yaml_reader_at(reader, node)->kind != YAML_READER_MAPPING)
        return yaml_reader_fail(reader, node, "%s: found %s; expected a mapping", row->what,
                                yaml_reader_shown(reader, node, shown));
    uint32_t key = yaml_reader_at(reader, node)->first;
    while (key != YAML_READER_NONE) {
        if (!yaml_reader_goes_on(reader, take_pair(reading, key, map, fields), &result))
            return result;
        key = yaml_reader_at(reader, yaml_reader_at(reader, key)->next)->next;
    }
    for (uint32_t i = 0; i < row->count && result == TG_OK; i++) {
        if (row->keys[i].required && fields[i].node == YAML_READER_NONE)
            return yaml_reader_fail(reader, node, "%s: found no key \"%s\"; expected one",
                                    row->what, row->keys[i].name);
    }
    return result;
}

static int take_fields(struct reading *reading, uint32_t node, enum rule_map map,
                       struct yaml_reader_field *fields)
{
    return reading->theirs ? take_pairs(reading, node, map, fields)
                           : rule_fields(reading->reader, node, map, NULL, fields);
}

/* ---- a limit --------------------------------------------------------------------------------- */

static int read_replaces(struct reading *reading, const struct rule_place *place,
                         struct descriptor *out)
{
    const struct yaml_reader *reader = reading->reader;
    const struct rule_key *row = rule_key(RULE_MAP_RATE_LIMIT, RATE_LIMIT_REPLACES);
    const uint32_t list = place->fields[RATE_LIMIT_REPLACES].node;
    if (list == YAML_READER_NONE)
        return TG_OK;
    int result = yaml_reader_list(reader, list, "rate_limit.replaces", 0, (uint32_t)row->max);
    if (result != TG_OK)
        return result;
    struct policy_text *names =
        chunks_get(&reading->policy->chunks, yaml_reader_at(reader, list)->len, sizeof *names);
    if (names == NULL)
        return TG_ENOMEM;
    out->replaces = names;
    uint32_t node = yaml_reader_at(reader, list)->first;
    for (; node != YAML_READER_NONE; node = yaml_reader_at(reader, node)->next) {
        struct yaml_reader_field fields[REPLACES_KEYS];
        const struct rule_place own = {reader, RULE_MAP_REPLACES, NULL, fields};
        struct policy_text name;
        result = take_fields(reading, node, RULE_MAP_REPLACES, fields);
        if (result == TG_OK)
            result = descriptor_text(&own, REPLACES_NAME, &name);
        if (result != TG_OK)
            return result;
        if (policy_text_equal(&name, &out->name))
            return yaml_reader_fail(reader, node,
                                    "rate_limit.replaces: found the limit's own name; expected "
                                    "those of others");
        names[out->replace_count].data = chunks_copy(&reading->policy->chunks, name.data, name.len);
        names[out->replace_count].len = name.len;
        if (names[out->replace_count++].data == NULL)
            return TG_ENOMEM;
    }
    return TG_OK;
}

static int read_unit(const struct reading *reading, const struct rule_place *place, uint32_t node,
                     struct descriptor *out)
{
    bool unlimited = false;
    int64_t requests = 0;
    int seconds = 0;
    int result = descriptor_switch(place, RATE_LIMIT_UNLIMITED, reading->theirs, &unlimited);
    if (result == TG_OK)
        result = descriptor_number(place, RATE_LIMIT_REQUESTS, reading->theirs, &requests);
    if (result == TG_OK)
        result = descriptor_unit(place, RATE_LIMIT_UNIT, reading->theirs, unlimited, &seconds);
    if (result != TG_OK)
        return result;
    if (unlimited && seconds != 0)
        return yaml_reader_fail(reading->reader, place->fields[RATE_LIMIT_UNIT].node,
                                "rate_limit.unit: found with unlimited; expected one of the two");
    if (!unlimited && seconds == 0)
        return yaml_reader_fail(reading->reader, node,
                                "rate_limit: found no key \"unit\"; expected one, or unlimited");
    out->unit_s = (uint32_t)seconds;
    out->requests_per_unit = (uint32_t)requests;
    return TG_OK;
}

static int read_rate_limit(struct reading *reading, uint32_t node, struct descriptor *out)
{
    struct yaml_reader_field fields[RATE_LIMIT_KEYS];
    const struct rule_place place = {reading->reader, RULE_MAP_RATE_LIMIT, NULL, fields};
    struct policy_text name;
    int result = take_fields(reading, node, RULE_MAP_RATE_LIMIT, fields);
    if (result == TG_OK)
        result = read_unit(reading, &place, node, out);
    if (result == TG_OK)
        result = descriptor_text(&place, RATE_LIMIT_NAME, &name);
    if (result != TG_OK)
        return result;
    out->name.data = chunks_copy(&reading->policy->chunks, name.data, name.len);
    out->name.len = name.len;
    return out->name.data == NULL ? TG_ENOMEM : read_replaces(reading, &place, out);
}

/* ---- a rule ---------------------------------------------------------------------------------- */

struct limit descriptor_limit(uint64_t requests, uint64_t window_s)
{
    static const uint32_t units[] = {1, 60, 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400};
    struct limit limit = {.count = requests,
                          .window_ns = window_s * SECOND_NS,
                          .algorithm = ALGORITHM_FIXED_WINDOW,
                          .align = LIMIT_ALIGN_EPOCH,
                          .ordinal = ORDINAL_OTHER};
    for (uint8_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (window_s == units[i])
            limit.ordinal = i;
    if (limit.count > LIMIT_RATE_MAX * window_s)
        limit.count = LIMIT_RATE_MAX * window_s;
    return limit;
}

/* The nodes from the domain down to `node`; their number. */
static uint32_t path_of(const struct descriptors *descriptors, uint32_t node,
                        const struct descriptor_node *path[DESCRIPTOR_DEPTH_MAX + 1])
{
    const uint32_t count = descriptors->nodes[node].depth + 1U;
    for (uint32_t i = count; i-- > 0; node = descriptors->nodes[node].parent)
        path[i] = &descriptors->nodes[node];
    return count;
}

static bool is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool second = i + 1 < len && c == 0xc2 && (unsigned char)text[i + 1] < 0xa0;
        if (c < 0x20 || c == 0x7f || second || c == 0xe2 || c == 0xef)
            return false; /* all that begins like separators and marks, for short */
    }
    return true;
}

/* A path of its own name that is too long, or has what no name has (DESCRIPTORS-2). */
static size_t shorten(const struct descriptor_node *const *path, uint32_t count,
                      char name[POLICY_NAME_LEN_MAX + 1], size_t len)
{
    struct hash_key key = {{0}}; /* of the file alone, which is the operator's */
    struct hash128 hash = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        hash = hash128(&key, path[i]->composite.data, path[i]->composite.len);
        memcpy(key.bytes, &hash.lo, sizeof hash.lo);
        memcpy(key.bytes + sizeof hash.lo, &hash.hi, sizeof hash.hi);
        key.bytes[0] ^= (uint8_t)path[i]->key_len;
        key.bytes[1] ^= (uint8_t)(path[i]->key_len >> 8);
    }
    hash = hash128(&key, "", 0);
    len = len < NAME_CUT ? len : NAME_CUT;
    for (size_t i = 0; i < len; i++)
        name[i] = (unsigned char)name[i] < 0x20 || (unsigned char)name[i] >= 0x7f ? '?' : name[i];
    return len + (size_t)snprintf(name + len, POLICY_NAME_LEN_MAX + 1 - len, "#%016llx%016llx",
                                  (unsigned long long)hash.hi, (unsigned long long)hash.lo);
}

static int name_rule(struct reading *reading, uint32_t node, struct policy_rule *rule)
{
    const struct descriptor_node *path[DESCRIPTOR_DEPTH_MAX + 1];
    const uint32_t count = path_of(reading->out, node, path);
    char name[POLICY_NAME_LEN_MAX + 1];
    struct descriptor_writer writer = {name, POLICY_NAME_LEN_MAX, 0};
    descriptor_write_entry(&writer, &path[0]->composite, NULL, true);
    if (writer.len < writer.capacity)
        name[writer.len] = ':';
    writer.len++;
    for (uint32_t i = 1; i < count; i++) {
        const struct policy_text key = {path[i]->composite.data, path[i]->key_len};
        const struct policy_text value = descriptor_value(path[i]);
        descriptor_write_entry(&writer, &key, value.len > 0 ? &value : NULL, i == 1);
    }
    size_t len = writer.len;
    if (len > POLICY_NAME_LEN_MAX || !is_printable(name, len))
        len = shorten(path, count, name, len);
    rule->name.data = chunks_copy(&reading->policy->chunks, name, len);
    rule->name.len = len;
    return rule->name.data == NULL ? TG_ENOMEM : TG_OK;
}

static const struct policy_text descriptor_key = {DESCRIPTOR_ATTRIBUTE,
                                                  sizeof DESCRIPTOR_ATTRIBUTE - 1};
static const struct policy_mode hard;

/* What all rules of a domain have. */
static struct policy_rule blank_rule(const struct reading *reading, uint32_t line)
{
    return (struct policy_rule){.group = {"", 0},
                                .message = reading->common.message,
                                .key = &descriptor_key,
                                .key_count = 1,
                                .modes = &hard,
                                .line = line,
                                .status = STATUS_THROTTLE,
                                .act = POLICY_ACT_THROTTLE,
                                .class = POLICY_CLASS_NORMAL,
                                .on_failure = reading->common.on_failure,
                                .local_share = reading->common.local_share,
                                .consistency = POLICY_CONSISTENCY_ONE,
                                .ipv6_prefix = POLICY_IPV6_PREFIX_DEFAULT,
                                .enabled = true,
                                .count_denied = !reading->out->all_or_nothing};
}

static int give_limit(struct reading *reading, const struct descriptor *descriptor,
                      struct policy_rule *rule)
{
    struct chunks *chunks = &reading->policy->chunks;
    struct limit *limit = chunks_get(chunks, 1, sizeof *limit);
    char(*window)[QUANTITY_TEXT_LEN] = chunks_get(chunks, 1, sizeof *window);
    if (limit == NULL || window == NULL)
        return TG_ENOMEM;
    *limit = descriptor_limit(descriptor->requests_per_unit, descriptor->unit_s);
    const struct quantity_rate rate = {limit->count, limit->window_ns};
    quantity_format_rate(&rate, *window);
    rule->limits = limit;
    rule->windows = (const char(*)[QUANTITY_TEXT_LEN])window;
    rule->limit_count = 1;
    return TG_OK;
}

/* Appends the rule of the newest node. Without a limit nothing is counted: it allows, or blocks. */
static int add_rule(struct reading *reading, const struct rule_place *place, uint32_t at,
                    struct descriptor *descriptor, bool shadow)
{
    struct policy *policy = reading->policy;
    const uint32_t node = reading->out->node_count - 1;
    char shown[YAML_READER_SHOWN_LEN];
    if (policy->rule_count >= policy->listed_max)
        return yaml_reader_fail(reading->reader, at,
                                "descriptor: found %s behind %d rules and limits; expected at most "
                                "so many",
                                yaml_reader_shown(reading->reader, at, shown), POLICY_RULES_MAX);
    struct policy_rule *rule = &policy->listed[policy->rule_count];
    *rule = blank_rule(reading, reading->out->nodes[node].line);
    descriptor->all = reading->out;
    descriptor->node = node;
    rule->descriptor = descriptor;
    rule->shadow = shadow;
    descriptor->shadow = shadow;
    int result = policy_read_key_text(&policy->chunks, place, DESCRIPTOR_MESSAGE, &rule->message);
    if (result == TG_OK)
        result = name_rule(reading, node, rule);
    if (descriptor->unit_s == 0 || descriptor->requests_per_unit == 0) {
        rule->act = descriptor->unit_s == 0 ? POLICY_ACT_ALLOW : POLICY_ACT_BLOCK;
        rule->key_count = 0;
        rule->shadow = shadow && rule->act == POLICY_ACT_BLOCK;
        rule->count_denied = false;
    } else if (result == TG_OK) {
        result = give_limit(reading, descriptor, rule);
    }
    policy->rule_count += result == TG_OK;
    reading->out->nodes[node].rule = rule;
    return result;
}

/* Where the first of two stands. Of several files the lines of a document are none's. */
static const char *said_first(const struct reading *reading, uint32_t node, char out[FIRST_LEN])
{
    const bool one =
        yaml_reader_at(reading->reader, reading->reader->root)->next == YAML_READER_NONE;
    out[0] = '\0';
    if (one)
        (void)snprintf(out, FIRST_LEN, ", first at line %u", reading->out->nodes[node].line);
    return out;
}

/* ---- a descriptor ---------------------------------------------------------------------------- */

static int read_composite(struct reading *reading, const struct rule_place *place, uint32_t node,
                          struct descriptor_node *out)
{
    struct policy_text key;
    struct policy_text value;
    char first[FIRST_LEN];
    char shown[YAML_READER_SHOWN_LEN];
    int result = descriptor_text(place, DESCRIPTOR_KEY, &key);
    if (result == TG_OK)
        result = descriptor_text(place, DESCRIPTOR_VALUE, &value);
    if (result != TG_OK)
        return result;
    const size_t len = key.len + (value.len > 0 ? 1 + value.len : 0);
    char *text = chunks_get(&reading->policy->chunks, len + 1, 1);
    if (text == NULL)
        return TG_ENOMEM;
    memcpy(text, key.data, key.len);
    if (value.len > 0) {
        text[key.len] = '_';
        memcpy(text + key.len + 1, value.data, value.len);
    }
    out->composite = (struct policy_text){text, len};
    out->key_len = (uint16_t)key.len;
    const struct descriptor_wanted wanted = {out->parent, text, len, NULL};
    const uint32_t before = descriptors_find(reading->out, &wanted);
    if (before == DESCRIPTOR_NONE)
        return TG_OK;
    return yaml_reader_fail(
        reading->reader, node,
        "descriptor: found %s a second time at this level%s; expected each key and value once",
        yaml_reader_shown(reading->reader,
                          place->fields[value.len > 0 ? DESCRIPTOR_VALUE : DESCRIPTOR_KEY].node,
                          shown),
        said_first(reading, before, first));
}

static int read_switches(const struct reading *reading, const struct rule_place *place,
                         struct descriptor_node *out, struct descriptor *descriptor, bool *shadow)
{
    const bool theirs = reading->theirs;
    int result = descriptor_switch(place, DESCRIPTOR_SHADOW_MODE, theirs, shadow);
    if (result == TG_OK)
        result = descriptor_switch(place, DESCRIPTOR_QUOTA_MODE, theirs, &descriptor->quota);
    if (result == TG_OK)
        result =
            descriptor_switch(place, DESCRIPTOR_SHARE_THRESHOLD, theirs, &out->share_threshold);
    if (result == TG_OK)
        result =
            descriptor_switch(place, DESCRIPTOR_VALUE_TO_METRIC, theirs, &out->value_to_metric);
    if (result == TG_OK)
        result =
            descriptor_switch(place, DESCRIPTOR_DETAILED_METRIC, theirs, &out->detailed_metric);
    if (result != TG_OK || !out->share_threshold ||
        memchr(out->composite.data, '*', out->composite.len) != NULL)
        return result;
    return yaml_reader_fail(reading->reader, place->fields[DESCRIPTOR_SHARE_THRESHOLD].node,
                            "descriptor.share_threshold: found without a `*` in key or value; "
                            "expected it with a wildcard only");
}

/* Reads one element into the newest node, without what is below it: the list of that is in *below,
 * or NONE. */
static int read_descriptor(struct reading *reading, uint32_t element, uint32_t parent,
                           uint32_t *below)
{
    struct yaml_reader_field fields[DESCRIPTOR_KEYS];
    const struct rule_place place = {reading->reader, RULE_MAP_DESCRIPTOR, NULL, fields};
    struct descriptors *out = reading->out;
    struct descriptor_node *node = &out->nodes[out->node_count];
    struct descriptor *limit = chunks_get(&reading->policy->chunks, 1, sizeof *limit);
    bool shadow = false;
    ASSERT(out->nodes[parent].depth < DESCRIPTOR_DEPTH_MAX && out->node_count < reading->room);
    if (limit == NULL)
        return TG_ENOMEM;
    *node = (struct descriptor_node){.parent = parent,
                                     .domain = reading->domain,
                                     .depth = (uint8_t)(out->nodes[parent].depth + 1),
                                     .line = yaml_reader_at(reading->reader, element)->line};
    int result = take_fields(reading, element, RULE_MAP_DESCRIPTOR, fields);
    if (result == TG_OK)
        result = read_composite(reading, &place, element, node);
    if (result == TG_OK)
        result = read_switches(reading, &place, node, limit, &shadow);
    if (result == TG_OK)
        result = descriptor_metadata(&reading->policy->chunks, &place, DESCRIPTOR_METADATA,
                                     &node->metadata);
    const uint32_t rate = result == TG_OK ? fields[DESCRIPTOR_RATE_LIMIT].node : YAML_READER_NONE;
    if (rate != YAML_READER_NONE)
        result = read_rate_limit(reading, rate, limit);
    if (result != TG_OK)
        return result;
    descriptors_add(out);
    *below = fields[DESCRIPTOR_DESCRIPTORS].node;
    if (*below != YAML_READER_NONE)
        result =
            yaml_reader_list(reading->reader, *below, "descriptor.descriptors", 0, DESCRIPTORS_MAX);
    if (result == TG_OK && rate != YAML_READER_NONE)
        return add_rule(reading, &place, element, limit, shadow);
    if (result == TG_OK && fields[DESCRIPTOR_MESSAGE].node != YAML_READER_NONE)
        return yaml_reader_fail(reading->reader, fields[DESCRIPTOR_MESSAGE].node,
                                "descriptor.message: found without a rate_limit; expected it with "
                                "one only");
    return result;
}

/* ---- levels ---------------------------------------------------------------------------------- */

struct level {
    uint32_t element; /* the next one of the list, or NONE */
    uint32_t parent;  /* the node that they hang below */
};

static int too_deep(const struct reading *reading, uint32_t list)
{
    return yaml_reader_fail(reading->reader, list,
                            "descriptor.descriptors: found nested too deep; expected at most %d "
                            "levels",
                            DESCRIPTOR_DEPTH_MAX);
}

/* Reads the list, and all that is below it. */
static int read_levels(struct reading *reading, uint32_t list, uint32_t parent)
{
    const struct yaml_reader *reader = reading->reader;
    struct level levels[DESCRIPTOR_DEPTH_MAX];
    uint32_t depth = 1;
    int result = TG_OK;
    levels[0] = (struct level){yaml_reader_at(reader, list)->first, parent};
    while (depth > 0) {
        struct level *level = &levels[depth - 1];
        const uint32_t element = level->element;
        uint32_t below = YAML_READER_NONE;
        if (element == YAML_READER_NONE) {
            depth--;
            continue;
        }
        level->element = yaml_reader_at(reader, element)->next;
        const int part = read_descriptor(reading, element, level->parent, &below);
        if (!yaml_reader_goes_on(reader, part, &result))
            return result;
        if (part != TG_OK || below == YAML_READER_NONE)
            continue;
        if (depth < DESCRIPTOR_DEPTH_MAX)
            levels[depth++] =
                (struct level){yaml_reader_at(reader, below)->first, reading->out->node_count - 1};
        else if (!yaml_reader_goes_on(reader, too_deep(reading, below), &result))
            return result;
    }
    return result;
}

uint32_t policy_count_domains(const struct yaml_reader *reader, uint32_t element)
{
    uint32_t open[DESCRIPTOR_DEPTH_MAX + 1] = {element};
    uint32_t depth = 1;
    uint32_t count = 0;
    while (depth > 0 && count <= DESCRIPTORS_MAX) {
        const uint32_t node = open[depth - 1];
        if (node == YAML_READER_NONE) {
            depth--;
            continue;
        }
        open[depth - 1] = yaml_reader_at(reader, node)->next;
        count++;
        const uint32_t list = document_value(reader, node, "descriptors");
        if (list != YAML_READER_NONE && yaml_reader_at(reader, list)->kind == YAML_READER_LIST &&
            depth <= DESCRIPTOR_DEPTH_MAX)
            open[depth++] = yaml_reader_at(reader, list)->first;
    }
    return count;
}

/* ---- a domain -------------------------------------------------------------------------------- */

/* The rule of limits that come with requests: of none in particular. */
static int add_domain(struct reading *reading, const struct policy_text *name, uint32_t line)
{
    struct descriptors *out = reading->out;
    struct chunks *chunks = &reading->policy->chunks;
    char counted[sizeof DESCRIPTOR_COUNTED_PREFIX + DESCRIPTOR_DOMAIN_LEN_MAX];
    static_assert(sizeof counted <= POLICY_NAME_LEN_MAX + 1, "it is the name of a rule");
    const size_t len = (size_t)snprintf(counted, sizeof counted, DESCRIPTOR_COUNTED_PREFIX "%.*s",
                                        (int)name->len, name->data);
    ASSERT(out->node_count < reading->room);
    struct descriptor_domain *domain = &out->domains[out->domain_count];
    reading->domain = out->domain_count++;
    domain->node = out->node_count;
    out->nodes[out->node_count] = (struct descriptor_node){.composite = *name,
                                                           .parent = DESCRIPTOR_NONE,
                                                           .domain = reading->domain,
                                                           .key_len = (uint16_t)name->len,
                                                           .line = line};
    descriptors_add(out);
    domain->given = blank_rule(reading, line);
    domain->given.rank = UINT16_MAX;
    domain->given.counted = (struct policy_text){chunks_copy(chunks, counted, len), len};
    return domain->given.counted.data == NULL ? TG_ENOMEM
                                              : name_rule(reading, domain->node, &domain->given);
}

/* Finds the domain that is read, or makes it. */
static int open_domain(struct reading *reading, const struct rule_place *place, uint32_t *node)
{
    const struct yaml_reader *reader = reading->reader;
    const uint32_t at = place->fields[DOMAIN_NAME].node;
    char first[FIRST_LEN];
    char shown[YAML_READER_SHOWN_LEN];
    struct policy_text name;
    int result = descriptor_text(place, DOMAIN_NAME, &name);
    if (result == TG_OK)
        result = policy_read_text(&reading->policy->chunks, reader, at, "domain", 1,
                                  DESCRIPTOR_DOMAIN_LEN_MAX, &name);
    if (result != TG_OK)
        return result;
    const struct descriptor_domain *before = descriptors_domain(reading->out, &name);
    if (before != NULL && !reading->merge)
        return yaml_reader_fail(reader, at,
                                "domain: found %s a second time%s; expected each domain once, or "
                                "merge_domains: true",
                                yaml_reader_shown(reader, at, shown),
                                said_first(reading, before->node, first));
    if (before != NULL) {
        *node = before->node;
        reading->domain = reading->out->nodes[before->node].domain;
        return TG_OK;
    }
    if (reading->out->domain_count == DESCRIPTOR_DOMAINS_MAX)
        return yaml_reader_fail(reader, at, "domain: found more than %d; expected at most so many",
                                DESCRIPTOR_DOMAINS_MAX);
    *node = reading->out->node_count;
    return add_domain(reading, &name, yaml_reader_at(reader, at)->line);
}

static int read_domain(struct reading *reading, uint32_t element)
{
    struct yaml_reader_field fields[DOMAIN_KEYS];
    const struct rule_place place = {reading->reader, RULE_MAP_DOMAIN, NULL, fields};
    uint32_t node = DESCRIPTOR_NONE;
    int result = take_fields(reading, element, RULE_MAP_DOMAIN, fields);
    reading->common = (struct policy_rule){
        .on_failure = POLICY_FAILURE_LOCAL, .local_share = 100, .message = {"", 0}};
    if (result == TG_OK && fields[DOMAIN_ON_FAILURE].node != YAML_READER_NONE)
        result = policy_read_failure(&place, DOMAIN_ON_FAILURE, &reading->common);
    if (result == TG_OK)
        result = policy_read_key_text(&reading->policy->chunks, &place, DOMAIN_MESSAGE,
                                      &reading->common.message);
    const uint32_t list = result == TG_OK ? fields[DOMAIN_DESCRIPTORS].node : YAML_READER_NONE;
    if (list != YAML_READER_NONE)
        result = yaml_reader_list(reading->reader, list, "descriptors", 0, DESCRIPTORS_MAX);
    if (result == TG_OK)
        result = open_domain(reading, &place, &node);
    return result == TG_OK && list != YAML_READER_NONE ? read_levels(reading, list, node) : result;
}

static int make_room(struct reading *reading, uint32_t first)
{
    struct chunks *chunks = &reading->policy->chunks;
    const uint32_t count = policy_count_domains(reading->reader, first);
    if (count > DESCRIPTORS_MAX)
        return yaml_reader_fail(reading->reader, first,
                                "domains: found more than %d descriptors; expected at most so many",
                                DESCRIPTORS_MAX);
    const uint32_t places = descriptors_places(count);
    struct descriptors *out = reading->out;
    reading->room = count;
    out->mask = places - 1;
    out->nodes = chunks_get(chunks, count, sizeof *out->nodes);
    out->domains =
        chunks_get(chunks, count < DESCRIPTOR_DOMAINS_MAX ? count : DESCRIPTOR_DOMAINS_MAX,
                   sizeof *out->domains);
    out->places = chunks_get(chunks, places, sizeof *out->places);
    return out->nodes == NULL || out->domains == NULL || out->places == NULL ? TG_ENOMEM : TG_OK;
}

int policy_read_domains(struct policy *policy, const struct yaml_reader *reader,
                        const struct descriptor_source *source)
{
    struct descriptors *out = chunks_get(&policy->chunks, 1, sizeof *out);
    struct reading reading = {.policy = policy,
                              .reader = reader,
                              .out = out,
                              .theirs = source->theirs,
                              .merge = source->merge};
    if (out == NULL)
        return TG_ENOMEM;
    out->all_or_nothing = source->all_or_nothing;
    int result = make_room(&reading, source->first);
    uint32_t element = result == TG_OK ? source->first : YAML_READER_NONE;
    for (; element != YAML_READER_NONE; element = yaml_reader_at(reader, element)->next) {
        if (reading.theirs && yaml_reader_is_nothing(reader, element))
            continue; /* an empty document */
        if (!yaml_reader_goes_on(reader, read_domain(&reading, element), &result))
            return result;
    }
    policy->descriptors = out;
    return result;
}

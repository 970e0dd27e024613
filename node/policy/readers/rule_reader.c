/* rule_reader.c - from the tree of a rules file to rules: names, key, actions, responses.
 *
 * Reading is strict: whatever is not understood exactly is refused with its place. What limits of
 * other kinds will once be called is known by name, so that a file written for them is told "not
 * supported by this version" and never enforced as something weaker.
 *
 * RULEREADER-1  A rule that was read is complete: all defaults are set, all texts copied.
 * RULEREADER-2  A field that could have no effect (limits of a block rule, ipv6_prefix without ip)
 *               is an error: its author expects something that would not happen.
 *
 * match: is in match_reader.c, limits: in limit_reader.c, mode: in mode_reader.c, the file around
 * them in file_reader.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/limit/engine/engine.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/rule_keys.h"
#include "node/policy/readers/yaml_reader.h"

enum {
    STATUS_THROTTLE = 429,
    STATUS_BLOCK = 403,
    SHARE_MAX = 100,
    ABSENT_LEN = POLICY_ATTRIBUTE_NAME_LEN_MAX + 128
};

const char *policy_act_name(unsigned act)
{
    return act <= POLICY_ACT_BLOCK ? rule_key(RULE_MAP_RULE, RULE_ACTION)->words[act].text : NULL;
}

const char *policy_class_name(unsigned class)
{
    return class <= POLICY_CLASS_BATCH ? rule_key(RULE_MAP_RULE, RULE_CLASS)->words[class].text
                                       : NULL;
}

const char *policy_failure_name(unsigned failure)
{
    return failure <= POLICY_FAILURE_LOCAL
               ? rule_key(RULE_MAP_RULE, RULE_ON_FAILURE)->words[failure].text
               : NULL;
}

const char *policy_consistency_name(unsigned consistency)
{
    static const char *const names[] = {
        [POLICY_CONSISTENCY_ONE] = "one",
        [POLICY_CONSISTENCY_QUORUM] = "quorum",
        [POLICY_CONSISTENCY_ANY] = "any",
    };
    return consistency <= POLICY_CONSISTENCY_ANY ? names[consistency] : NULL;
}

const char *policy_scope_name(unsigned scope)
{
    return scope <= POLICY_SCOPE_GLOBAL ? rule_key(RULE_MAP_RULE, RULE_SCOPE)->words[scope].text
                                        : NULL;
}

/* Whether `text` is UTF-8 without control characters and line separators (U+0000-1F, 7F-9F,
 * 2028, 2029, FEFF), so that it can stand in a header, a log line or a file. libyaml has
 * checked the encoding. */
static bool is_printable(const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;

    for (size_t i = 0; i < len; i++) {
        if (at[i] < 0x20 || at[i] == 0x7f)
            return false;
        if (at[i] == 0xc2 && at[i + 1] < 0xa0)
            return false;
        if (at[i] == 0xe2 && at[i + 1] == 0x80 && (at[i + 2] == 0xa8 || at[i + 2] == 0xa9))
            return false;
        if (at[i] == 0xef && at[i + 1] == 0xbb && at[i + 2] == 0xbf)
            return false;
        if (at[i] == 0xef && at[i + 1] == 0xbf && at[i + 2] >= 0xbe)
            return false;
    }
    return true;
}

int policy_read_text(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                     const char *what, size_t len_min, size_t len_max, struct policy_text *out)
{
    char shown[YAML_READER_SHOWN_LEN];
    const char *text;

    int result = yaml_reader_text(reader, node, what, len_min, len_max, &text, &out->len);
    if (result != TG_OK)
        return result;
    if (!is_printable(text, out->len))
        return yaml_reader_fail(reader, node,
                                "%s: found %s with control characters; expected printable text",
                                what, yaml_reader_shown(reader, node, shown));
    out->data = chunks_copy(chunks, text, out->len);
    return out->data == NULL ? TG_ENOMEM : TG_OK;
}

int policy_check_attribute(const struct yaml_reader *reader, uint32_t node, const char *what)
{
    const struct yaml_reader_node *at = yaml_reader_at(reader, node);
    const char *const allowed = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
    char shown[YAML_READER_SHOWN_LEN];

    if (at->kind == YAML_READER_SCALAR && at->len >= 1 &&
        at->len <= POLICY_ATTRIBUTE_NAME_LEN_MAX && strspn(at->text, allowed) == at->len)
        return TG_OK;
    return yaml_reader_fail(
        reader, node,
        "%s: found %s; expected an attribute name, 1 to 64 characters of a-z 0-9 _ . -", what,
        yaml_reader_shown(reader, node, shown));
}

static int read_key(struct policy *policy, const struct yaml_reader *reader, uint32_t list,
                    struct policy_rule *rule)
{
    const struct rule_key *row = rule_key(RULE_MAP_RULE, RULE_KEY);
    struct chunks *chunks = &policy->chunks;
    char shown[YAML_READER_SHOWN_LEN];

    int result = yaml_reader_list(reader, list, "key", (uint32_t)row->min, (uint32_t)row->max);
    if (result != TG_OK)
        return result;
    struct policy_text *key =
        chunks_get(chunks, yaml_reader_at(reader, list)->len, sizeof(struct policy_text));
    if (key == NULL)
        return TG_ENOMEM;
    rule->key = key;
    uint32_t node = yaml_reader_at(reader, list)->first;
    for (; node != YAML_READER_NONE; node = yaml_reader_at(reader, node)->next) {
        result = policy_check_attribute(reader, node, "key");
        if (result == TG_OK)
            result = policy_read_text(chunks, reader, node, "key", 1, POLICY_ATTRIBUTE_NAME_LEN_MAX,
                                      &key[rule->key_count]);
        if (result != TG_OK)
            return result;
        for (size_t i = 0; i < rule->key_count; i++) {
            if (policy_text_equal(&key[i], &key[rule->key_count]))
                return yaml_reader_fail(reader, node,
                                        "key: found attribute %s twice; expected it once",
                                        yaml_reader_shown(reader, node, shown));
        }
        ASSERT(rule->key_count < POLICY_KEY_ATTRIBUTES_MAX); /* the table of keys bounds it */
        if (attribute_kinds_of(policy_kinds(policy), key[rule->key_count].data,
                               key[rule->key_count].len) == ATTRIBUTE_ADDRESS)
            rule->key_addresses |= (uint8_t)(1u << rule->key_count);
        rule->key_count++;
    }
    return TG_OK;
}

static int read_response(struct chunks *chunks, const struct yaml_reader *reader, uint32_t node,
                         struct policy_rule *rule)
{
    struct yaml_reader_field fields[RESPONSE_KEYS];
    const struct rule_place place = {reader, RULE_MAP_RESPONSE, NULL, fields};
    int64_t status = rule->status;

    int result = rule_fields(reader, node, RULE_MAP_RESPONSE, NULL, fields);
    if (result == TG_OK)
        result = rule_number(&place, RESPONSE_STATUS, &status);
    rule->status = (uint16_t)status;
    if (result == TG_OK)
        result = policy_read_key_text(chunks, &place, RESPONSE_MESSAGE, &rule->message);
    return result == TG_OK ? rule_duration(&place, RESPONSE_RETRY_AFTER, &rule->retry_after_ns)
                           : result;
}

/* The share of {local: {share: 50%}}. */
static int read_share(const struct yaml_reader *reader, uint32_t node, struct policy_rule *rule)
{
    struct yaml_reader_field fields[LOCAL_KEYS];
    const struct rule_place place = {reader, RULE_MAP_LOCAL, NULL, fields};
    uint16_t share = 0;

    int result = rule_fields(reader, node, RULE_MAP_LOCAL, NULL, fields);
    if (result == TG_OK)
        result = rule_percent(&place, LOCAL_SHARE, &share);
    rule->local_share = (uint8_t)share;
    return result;
}

int policy_read_failure(const struct rule_place *place, unsigned key, struct policy_rule *rule)
{
    int failure = POLICY_FAILURE_CLOSED;
    uint32_t map;
    const int result = rule_choice(place, key, &failure, &map);
    const uint32_t node = place->fields[key].node;
    rule->on_failure = (uint8_t)failure;
    if (result != TG_OK || node == YAML_READER_NONE)
        return result;
    if (failure != POLICY_FAILURE_LOCAL && map != YAML_READER_NONE)
        return yaml_reader_fail(place->reader, node,
                                "on_failure: found a mapping; expected only local to have one");
    if (failure != POLICY_FAILURE_LOCAL)
        return TG_OK;
    rule->local_share = SHARE_MAX;
    return map != YAML_READER_NONE ? read_share(place->reader, map, rule) : TG_OK;
}

int policy_read_scope(const struct rule_place *place, unsigned key, uint8_t *scope)
{
    int number = *scope;
    const int result = rule_word(place, key, &number);
    *scope = (uint8_t)number;
    return result;
}

int policy_read_key_text(struct chunks *chunks, const struct rule_place *place, unsigned key,
                         struct policy_text *out)
{
    const struct rule_key *row = rule_key(place->map, key);
    char what[RULE_WHAT_LEN];
    return place->fields[key].node == YAML_READER_NONE
               ? TG_OK
               : policy_read_text(chunks, place->reader, place->fields[key].node,
                                  rule_what(place, key, what), (size_t)row->min, (size_t)row->max,
                                  out);
}

/* What the next part of a rule comes to, in a function with `place` and `result`:
 * whether to go on; and whether a key is there. */
#define NEXT(part) yaml_reader_goes_on(place->reader, (part), &result)
#define HAS(key)   (place->fields[key].node != YAML_READER_NONE)

static int read_words(const struct policy *policy, const struct rule_place *place,
                      struct policy_rule *rule)
{
    int act = POLICY_ACT_THROTTLE;
    int class = POLICY_CLASS_NORMAL;
    int consistency = POLICY_CONSISTENCY_ONE;
    int missing = 0;

    int result = TG_OK;
    if (NEXT(rule_word(place, RULE_ACTION, &act)) && NEXT(rule_word(place, RULE_CLASS, &class)) &&
        NEXT(rule_word(place, RULE_MISSING, &missing)) &&
        NEXT(rule_word(place, RULE_CONSISTENCY, &consistency)) &&
        NEXT(policy_read_scope(place, RULE_SCOPE, &rule->scope)) &&
        NEXT(HAS(RULE_MODE) ? policy_read_mode(policy, place, RULE_MODE, &rule->mode) : TG_OK))
        (void)NEXT(policy_read_failure(place, RULE_ON_FAILURE, rule));
    rule->act = (uint8_t)act;
    rule->class = (uint8_t) class;
    rule->consistency = (uint8_t)consistency;
    rule->missing_deny = missing != 0;
    rule->status = act == POLICY_ACT_BLOCK ? STATUS_BLOCK : STATUS_THROTTLE;
    return result;
}

static int read_numbers(const struct rule_place *place, struct policy_rule *rule)
{
    int64_t priority = 0;
    int64_t prefix = POLICY_IPV6_PREFIX_DEFAULT;
    int result = TG_OK;

    rule->enabled = true;
    if (NEXT(rule_number(place, RULE_PRIORITY, &priority)) &&
        NEXT(rule_number(place, RULE_IPV6_PREFIX, &prefix)) &&
        NEXT(rule_switch(place, RULE_ENABLED, &rule->enabled)) &&
        NEXT(rule_switch(place, RULE_COUNT_DENIED, &rule->count_denied)))
        (void)NEXT(rule_switch(place, RULE_SHADOW, &rule->shadow));
    rule->priority = (int32_t)priority;
    rule->ipv6_prefix = (uint8_t)prefix;
    return result;
}

/* Refuses what would have no effect (RULEREADER-2) and what is needed but absent. */
static int check_together(const struct yaml_reader *reader, uint32_t node,
                          const struct yaml_reader_field *fields, const struct policy_rule *rule)
{
    static const uint8_t throttle_only[] = {RULE_KEY,        RULE_LIMITS,  RULE_MODE,
                                            RULE_ON_FAILURE, RULE_MISSING, RULE_COUNT_DENIED,
                                            RULE_IPV6_PREFIX};
    const bool throttle = rule->act == POLICY_ACT_THROTTLE;

    for (size_t i = 0; i < sizeof(throttle_only) && !throttle; i++) {
        const struct yaml_reader_field *field = &fields[throttle_only[i]];
        if (field->node != YAML_READER_NONE)
            return yaml_reader_fail(reader, field->node,
                                    "%s: found with action %s, where it has no effect; expected "
                                    "it with action throttle only",
                                    field->name, policy_act_name(rule->act));
    }
    if (!throttle && rule->consistency != POLICY_CONSISTENCY_ONE)
        return yaml_reader_fail(reader, fields[RULE_CONSISTENCY].node,
                                "consistency: found %s with action %s, which counts nothing; "
                                "expected it with action throttle only",
                                policy_consistency_name(rule->consistency),
                                policy_act_name(rule->act));
    if (rule->act == POLICY_ACT_ALLOW && fields[RULE_RESPONSE].node != YAML_READER_NONE)
        return yaml_reader_fail(reader, fields[RULE_RESPONSE].node,
                                "response: found with action allow, which never denies; expected "
                                "it with action throttle or block");
    if (rule->act == POLICY_ACT_ALLOW && rule->shadow)
        return yaml_reader_fail(reader, fields[RULE_SHADOW].node,
                                "shadow: found true with action allow, which never denies; "
                                "expected it with action throttle or block");
    if (throttle && fields[RULE_KEY].node == YAML_READER_NONE)
        return yaml_reader_fail(reader, node,
                                "rule: found no key \"key\"; expected the list of "
                                "attributes that are counted together");
    if (throttle && fields[RULE_LIMITS].node == YAML_READER_NONE)
        return yaml_reader_fail(reader, node,
                                "rule: found no key \"limits\"; expected a list of 1 to 8 limits");
    return TG_OK;
}

static int check_prefix(const struct yaml_reader *reader, const struct yaml_reader_field *field,
                        const struct policy_rule *rule)
{
    if (field->node == YAML_READER_NONE || rule->key_addresses != 0)
        return TG_OK;
    return yaml_reader_fail(reader, field->node,
                            "ipv6_prefix: found without ip in key, where it has no effect; "
                            "expected it with ip in key only");
}

/* A denied request of an elastic limit asks the pool: it cannot be charged to the limit as well. */
static int check_elastic(const struct yaml_reader *reader, const struct yaml_reader_field *field,
                         const struct policy_rule *rule)
{
    for (size_t i = 0; i < rule->limit_count && rule->count_denied; i++) {
        if (rule->modes[i].pool != NULL)
            return yaml_reader_fail(reader, field->node,
                                    "count_denied: found true with mode elastic, which lends what "
                                    "would be denied; expected false");
    }
    return TG_OK;
}

/* Why the rule's limit gives no leases of tokens, NULL if it does. */
static const char *lease_refusal(const struct policy_rule *rule, size_t i)
{
    struct limit limit = rule->limits[i];
    limit.exceed_percent = rule->modes[i].exceed_percent;
    limit.pool = rule->modes[i].pool != NULL;
    return limit_lease_refusal(&limit);
}

/* Of what consistency any counts, tokens are held by whoever is asked: so they must be to be had.
 */
static int check_any(const struct yaml_reader *reader, const struct yaml_reader_field *fields,
                     const struct policy_rule *rule)
{
    if (rule->consistency != POLICY_CONSISTENCY_ANY)
        return TG_OK;
    if (rule->count_denied)
        return yaml_reader_fail(reader, fields[RULE_COUNT_DENIED].node,
                                "count_denied: found true with consistency any, where who denies "
                                "does not ask who counts; expected false");
    for (size_t i = 0; i < rule->limit_count; i++) {
        const char *why = lease_refusal(rule, i);
        if (why != NULL)
            return yaml_reader_fail(reader, fields[RULE_CONSISTENCY].node,
                                    "consistency: found any, where nodes hold tokens of a limit, "
                                    "with one that gives none (%s); expected one or quorum",
                                    why);
    }
    return TG_OK;
}

/* A rule of scope global: its limits are held as tokens abroad, so they must be to be had; and what
 * is denied there is not told to who counts. */
static int check_global(const struct yaml_reader *reader, const struct yaml_reader_field *fields,
                        const struct policy_rule *rule)
{
    if (rule->act != POLICY_ACT_THROTTLE)
        return yaml_reader_fail(reader, fields[RULE_SCOPE].node,
                                "scope: found global with action %s, which counts nothing; "
                                "expected it with action throttle only",
                                policy_act_name(rule->act));
    if (rule->count_denied)
        return yaml_reader_fail(reader, fields[RULE_COUNT_DENIED].node,
                                "count_denied: found true with scope global, where who denies does "
                                "not ask who counts; expected false");
    if (rule->consistency == POLICY_CONSISTENCY_ANY)
        return yaml_reader_fail(reader, fields[RULE_CONSISTENCY].node,
                                "consistency: found any with scope global, where one node of a "
                                "region holds its tokens; expected one or quorum");
    for (size_t i = 0; i < rule->limit_count; i++) {
        const char *why = lease_refusal(rule, i);
        if (why != NULL)
            return yaml_reader_fail(reader, fields[RULE_SCOPE].node,
                                    "scope: rule %s: found global, where regions hold tokens of a "
                                    "limit, with one that gives none (%s); expected region",
                                    rule->name.data, why);
    }
    return TG_OK;
}

int policy_read_home(struct chunks *chunks, const struct rule_place *place, unsigned key,
                     struct policy_text *home, uint64_t *region)
{
    home->data = "";
    if (place->fields[key].node == YAML_READER_NONE)
        return TG_OK;
    const int result = policy_read_key_text(chunks, place, key, home);
    if (result == TG_OK)
        *region = policy_region_id(home->data, home->len);
    return result;
}

int policy_refuse_local(const struct rule_place *place, unsigned key)
{
    char what[RULE_WHAT_LEN];
    if (place->fields[key].node == YAML_READER_NONE)
        return TG_OK;
    return yaml_reader_fail(place->reader, place->fields[key].node,
                            "%s: found without scope global, where it has no effect; expected it "
                            "with scope global only",
                            rule_what(place, key, what));
}

/* What is said of other regions, where there are any. */
static int read_global(struct chunks *chunks, const struct rule_place *place,
                       struct policy_rule *rule)
{
    int result = TG_OK;

    rule->home.data = "";
    if (rule->scope == POLICY_SCOPE_GLOBAL) {
        rule->wan_wait_ns = POLICY_WAN_WAIT_NS;
        result = policy_read_home(chunks, place, RULE_HOME, &rule->home, &rule->home_region);
        if (result == TG_OK)
            result = rule_duration(place, RULE_WAN_WAIT, &rule->wan_wait_ns);
        return result == TG_OK ? check_global(place->reader, place->fields, rule) : result;
    }
    result = policy_refuse_local(place, RULE_HOME);
    return result == TG_OK ? policy_refuse_local(place, RULE_WAN_WAIT) : result;
}

/* A request that is denied is told why, also by a rule without a message. */
static int write_absent(struct chunks *chunks, struct policy_rule *rule)
{
    char sentence[ABSENT_LEN];

    if (!rule->missing_deny)
        return TG_OK;
    struct policy_text *absent = chunks_get(chunks, rule->key_count, sizeof(*absent));
    if (absent == NULL)
        return TG_ENOMEM;
    for (uint8_t i = 0; i < rule->key_count; i++) {
        const int len = snprintf(sentence, sizeof(sentence),
                                 "attribute %.*s is missing: the rule counts by it, and denies "
                                 "what is without it",
                                 (int)rule->key[i].len, rule->key[i].data);
        ASSERT(len > 0 && len < ABSENT_LEN);
        absent[i] = (struct policy_text){chunks_copy(chunks, sentence, (size_t)len), (size_t)len};
        if (absent[i].data == NULL)
            return TG_ENOMEM;
    }
    rule->absent = absent;
    return TG_OK;
}

/* What each part of a rule says by itself, and then what they say together, which nobody can tell
 * of parts that are wrong. In this order errors are found. */
static int read_parts(struct policy *policy, const struct rule_place *place, uint32_t node,
                      struct policy_rule *rule, int result)
{
    const struct yaml_reader *reader = place->reader;
    const struct yaml_reader_field *fields = place->fields;
    struct chunks *chunks = &policy->chunks;

    if (NEXT(policy_read_key_text(chunks, place, RULE_NAME, &rule->name)) &&
        NEXT(read_words(policy, place, rule)) && NEXT(read_numbers(place, rule)) &&
        NEXT(result == TG_OK ? check_together(reader, node, fields, rule) : TG_OK) &&
        NEXT(policy_read_key_text(chunks, place, RULE_GROUP, &rule->group)) &&
        NEXT(HAS(RULE_MATCH) ? policy_read_match(policy, reader, fields[RULE_MATCH].node, rule)
                             : TG_OK) &&
        NEXT(HAS(RULE_KEY) ? read_key(policy, reader, fields[RULE_KEY].node, rule) : TG_OK) &&
        NEXT(result == TG_OK ? check_prefix(reader, &fields[RULE_IPV6_PREFIX], rule) : TG_OK) &&
        NEXT(HAS(RULE_LIMITS) ? policy_read_limits(policy, reader, fields[RULE_LIMITS].node, rule)
                              : TG_OK) &&
        NEXT(result == TG_OK ? check_elastic(reader, &fields[RULE_COUNT_DENIED], rule) : TG_OK) &&
        NEXT(result == TG_OK ? check_any(reader, fields, rule) : TG_OK) &&
        NEXT(result == TG_OK ? read_global(chunks, place, rule) : TG_OK))
        (void)NEXT(HAS(RULE_RESPONSE)
                       ? read_response(chunks, reader, fields[RULE_RESPONSE].node, rule)
                       : TG_OK);
    return result;
}

int policy_read_rule(struct policy *policy, const struct yaml_reader *reader, uint32_t node,
                     struct policy_rule *rule)
{
    struct yaml_reader_field fields[RULE_KEYS];
    const struct rule_place rule_place = {reader, RULE_MAP_RULE, NULL, fields};
    const struct rule_place *place = &rule_place;
    struct chunks *chunks = &policy->chunks;

    rule->line = yaml_reader_at(reader, node)->line;
    rule->group.data = rule->message.data = "";
    int result = TG_OK;
    if (NEXT(rule_fields(reader, node, RULE_MAP_RULE, NULL, fields)))
        result = read_parts(policy, place, node, rule, result);
    return result == TG_OK ? write_absent(chunks, rule) : result;
}

/* control_rules.c - what operators ask about rules: those in force, why they act on a request or do
 * not, and whether new ones compile.
 */
#include <stdio.h>
#include <string.h>

#include "node/cluster/operator/control_answer.h"
#include "node/policy/compile/packed.h"
#include "node/policy/compile/policy_errors.h"
#include "node/policy/compile/policy_report.h"
#include "node/policy/compile/policy_warnings.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"

enum { RULE_TEXT_LEN = 8192, SENTENCE_LEN = 512 };

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

static bool is_called(const struct policy_rule *rule, const struct settings_text *name)
{
    return rule->name.len == name->len && memcmp(rule->name.data, name->data, name->len) == 0;
}

void answer_rules(struct answer_context *context)
{
    const struct policy *policy = context->report->policy;
    const size_t count = policy_rule_count(policy);
    const struct settings_text after = control_read_text(context, "after");
    size_t first = 0;
    if (after.data != NULL) {
        while (first < count && !is_called(policy_rule_at(policy, first), &after))
            first++;
        first += first < count; /* behind one that is none any more there is nothing */
    }
    const uint32_t rows = answer_rows(context, count - first);
    for (uint32_t i = 0; i < rows; i++)
        put_rule(policy_rule_at(policy, first + i), context->writer);
}

static int compile(const struct answer_context *context, const struct settings_text *text,
                   struct policy **policy, struct policy_error *error)
{
    const struct control_compiled *compiled = context->report->compiled;
    if (compiled == NULL)
        return packed_compile(text->data, text->len, context->control->allocator,
                              context->control->options.zones, policy, error);
    *error = compiled->place;
    if (compiled->error == 0)
        *policy = policy_share(compiled->policy);
    return compiled->error;
}

/* All that is wrong with a text that was refused, found here or where it was compiled. */
static void put_errors(struct answer_context *context, const struct settings_text *text)
{
    const struct control_compiled *compiled = context->report->compiled;
    const struct allocator *allocator = context->control->allocator;
    if (compiled != NULL) {
        policy_errors_put(context->writer, compiled->errors);
        return;
    }
    struct policy_errors *found = alloc_get(allocator, sizeof *found);
    if (found != NULL)
        packed_errors_find(text->data, text->len, allocator, context->control->options.zones,
                           found);
    policy_errors_put(context->writer, found);
    alloc_put(allocator, found, sizeof *found);
}

struct policy *control_compile_argument(struct answer_context *context, const char *command,
                                        struct settings_text *text)
{
    struct policy_error error;
    struct policy *policy = NULL;
    char sentence[WIRE_NAME_MAX + 128];
    struct mp_cursor cursor;
    if (answer_argument(context, "text", &cursor) + answer_argument(context, "packed", &cursor) +
            answer_argument(context, "version", &cursor) >
        1) {
        (void)snprintf(sentence, sizeof sentence,
                       "%s: found more than one of text, packed and version; expected one of them",
                       command);
        answer_error(context, TG_EINVALID, sentence);
        return NULL;
    }
    *text = control_read_document(context);
    if (text->data == NULL) {
        uint64_t version;
        const bool named = control_read_uint(context, "version", &version);
        (void)snprintf(sentence, sizeof sentence,
                       named ? "%s: no such version of the rules is kept"
                             : "%s: expected {\"text\": rules as YAML}, {\"packed\": their gzip} "
                               "or {\"version\": of rules that are kept}",
                       command);
        answer_error(context, named ? TG_ENOTFOUND : TG_EINVALID, sentence);
        return NULL;
    }
    const int result = compile(context, text, &policy, &error);
    if (result == 0)
        return policy;
    if (result == TG_EBUSY) {
        answer_error(context, TG_EBUSY, "other rules are being looked at; ask again");
        return NULL;
    }
    answer_begin(context);
    mp_put_map(context->writer, 6);
    put_field_bool(context->writer, "ok", false);
    put_field_uint(context->writer, "line", error.line);
    put_field_uint(context->writer, "column", error.column);
    put_field_str(context->writer, "message", error.message);
    put_errors(context, text);
    return NULL;
}

/* What the rules probably do not mean, found here or where they were compiled. */
static void put_warnings(struct answer_context *context, const struct policy *policy)
{
    const struct control_compiled *compiled = context->report->compiled;
    const struct allocator *allocator = context->control->allocator;
    if (compiled != NULL) {
        policy_warnings_put(context->writer, compiled->warnings, compiled->warning_count);
        return;
    }
    struct policy_warning *found = alloc_array(allocator, POLICY_WARNINGS_MAX, sizeof *found);
    const int count =
        found != NULL ? policy_warnings(policy, allocator, found, POLICY_WARNINGS_MAX) : 0;
    policy_warnings_put(context->writer, found, count > 0 ? (size_t)count : 0);
    alloc_put(allocator, found, POLICY_WARNINGS_MAX * sizeof *found);
}

void answer_validate(struct answer_context *context)
{
    struct settings_text text;
    struct policy *policy = control_compile_argument(context, "rules.validate", &text);
    if (policy == NULL)
        return;
    answer_begin(context);
    mp_put_map(context->writer, 4);
    put_field_bool(context->writer, "ok", true);
    put_field_uint(context->writer, "rules", policy_rule_count(policy));
    put_field_hex(context->writer, "digest", policy_digest(policy));
    put_warnings(context, policy);
    policy_free(&policy);
}

/* The attributes of the question; false if it is not a map of texts within the bounds. */
static bool read_attributes(const struct answer_context *context,
                            struct policy_attribute *attributes, size_t *count)
{
    struct mp_cursor cursor;
    if (!answer_argument(context, "attributes", &cursor) || mp_peek_type(&cursor) != MP_MAP)
        return false;
    *count = mp_get_map(&cursor);
    if (*count > POLICY_ATTRIBUTES_GIVEN_MAX)
        return false;
    for (size_t i = 0; i < *count; i++) {
        attributes[i].name = mp_get_str(&cursor, &attributes[i].name_len);
        attributes[i].value = mp_get_str(&cursor, &attributes[i].value_len);
    }
    return !cursor.failed;
}

/* Puts what the request's API key and its user stand for in their place, and notes what denies it
 * at once, in the order of the shards (resolve.c). */
static void resolve_people(const struct answer_context *context,
                           struct policy_attribute *attributes, struct control_denial *denial,
                           struct person *person, struct policy_spelling *spelling)
{
    const struct policy_joined *joined = policy_joined(context->report->policy);
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    const struct api_key *key = NULL;
    if (joined->api_keys != NULL)
        denial->refusal =
            api_keys_resolve(joined->api_keys, NULL, attributes, &denial->count, now_ms, &key);
    people_begin(denial->refusal == NULL ? key : NULL, person);
    if (denial->refusal != NULL)
        return;
    people_find(joined->people, attributes, &denial->count, now_ms, person);
    policy_spelling_begin(spelling);
    if (attribute_kinds_apply(policy_kinds(context->report->policy), attributes, denial->count,
                              spelling) != 0)
        return; /* policy_explain says what is too much */
    denial->block = control_find_denial(context, attributes, denial->count, NULL);
}

static void answer_bounds(struct answer_context *context, const struct policy_attribute *attributes,
                          size_t count)
{
    char bounds[SENTENCE_LEN];
    char sentence[SENTENCE_LEN + 16];
    policy_bounds_format(attributes, count, bounds, sizeof bounds);
    (void)snprintf(sentence, sizeof sentence, "rules.explain: %s", bounds);
    answer_error(context, TG_EINVALID, sentence);
}

/* Of an inline key there is nothing to tell but whether it is blocked. */
static void answer_key(struct answer_context *context, const struct settings_text *key)
{
    const struct control_denial denial = {.key = key,
                                          .block = control_find_denial(context, NULL, 0, key)};
    answer_begin(context);
    mp_put_map(context->writer, 2);
    mp_put_str(context->writer, "key");
    mp_put_strn(context->writer, key->data, key->len);
    mp_put_str(context->writer, "blocked");
    control_put_denial(context, &denial);
}

/* Puts the report on attributes that were resolved, or why it cannot be had. */
static void put_explained(struct answer_context *context, const struct control_denial *denial,
                          struct person *person, struct policy_reason *reasons)
{
    const struct policy *policy = context->report->policy;
    const struct mp_writer begin = *context->writer;
    struct policy_result result;
    if (policy_explain(policy, denial->attributes, denial->count, &result, reasons) != 0) {
        answer_bounds(context, denial->attributes, denial->count);
        return;
    }
    if (denial->refusal == NULL)
        people_apply(person, denial->attributes, denial->count, &result);
    const bool denied = denial->refusal != NULL || denial->block != NULL || person->denied != NULL;
    for (size_t rules_max = policy_rule_count(policy) + 1; rules_max > 0; rules_max /= 2) {
        *context->writer = begin;
        answer_begin(context);
        policy_report_put(context->writer, policy, &result, reasons, denied, rules_max);
        control_put_denial(context, denial);
        if (!answer_too_large(context))
            return;
    }
    *context->writer = begin;
    answer_error(context, TG_ETOOBIG,
                 "rules.explain: these are more rules than fit into one message; expected "
                 "their file to be explained: tidegate rules explain --rules FILE");
}

void answer_explain(struct answer_context *context)
{
    const struct allocator *allocator = context->control->allocator;
    const size_t rules = policy_rule_count(context->report->policy) + 1;
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX];
    struct policy_spelling spelling;
    struct person person = {.denied = NULL};
    struct control_denial denial = {.attributes = attributes, .person = &person};
    const struct settings_text key = control_read_text(context, "key");
    if (key.data != NULL) {
        answer_key(context, &key);
        return;
    }
    if (!read_attributes(context, attributes, &denial.count)) {
        answer_error(context, TG_EINVALID,
                     "rules.explain: expected {\"attributes\": {name: value}} with at most 32 "
                     "attributes, values of at most 1024 bytes, or {\"key\": an inline key}");
        return;
    }
    struct policy_reason *reasons = alloc_array(allocator, rules, sizeof *reasons);
    if (reasons == NULL) {
        answer_error(context, TG_ENOMEM, "rules.explain: out of memory");
        return;
    }
    resolve_people(context, attributes, &denial, &person, &spelling);
    put_explained(context, &denial, &person, reasons);
    alloc_put(allocator, reasons, rules * sizeof *reasons);
}

/* control_denied.c - what denies a request before any rule is looked at: a block, what is set for a
 * user, an API key; by whom, until when and why, for whoever asks for an explanation.
 *
 * Shards know a block as a rule with its reason; who set it is in its record. Which record it is,
 * is found by trying each of them on the request, one after the other: only where something denies.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/configstore/block_record.h"
#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"
#include "node/policy/people/policy_join.h"

enum { DENIED_FIELDS = 12 };

/* What is asked about: attributes in their one spelling, or an inline key. */
struct question {
    const struct policy_attribute *attributes;
    size_t count;
    const struct settings_text *key; /* NULL: attributes */
};

static const struct policy_rule *find(const struct blocks *blocks, const struct question *question,
                                      uint64_t now_ms)
{
    return question->key != NULL
               ? blocks_find_key(blocks, question->key->data, question->key->len, now_ms)
               : blocks_find(blocks, question->attributes, question->count, now_ms);
}

/* The record of the block that denies until `until_ms`; NULL: it has gone meanwhile, or there is no
 * memory to look for it. */
static const struct settings_entry *find_record(const struct answer_context *context,
                                                const struct question *question, uint64_t until_ms,
                                                struct block *block)
{
    const struct control *control = context->control;
    const struct attribute_kinds *kinds = policy_kinds(context->report->policy);
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    const struct settings_entry *entry;
    size_t cursor = 0;
    while ((entry = control_setting_next(control, SETTINGS_BLOCK, &cursor)) != NULL) {
        struct blocks *one = NULL;
        if (!control_block_of(entry, block) || block->until_ms != until_ms ||
            blocks_new(control->allocator, kinds, block, 1, &one) != 0)
            continue;
        const bool denies = find(one, question, now_ms) != NULL;
        blocks_free(&one);
        if (denies)
            return entry;
    }
    return NULL;
}

static void put_texts(struct mp_writer *writer, const char *by, const char *kind, size_t kind_len,
                      const char *what, size_t what_len)
{
    put_field_str(writer, "by", by);
    mp_put_str(writer, "kind");
    mp_put_strn(writer, kind, kind_len);
    mp_put_str(writer, "what");
    mp_put_strn(writer, what, what_len);
}

/* The rest of the map, which ends with who has said so; `entry`: NULL if that is not known. */
static void put_rest(const struct answer_context *context, const struct policy_rule *rule,
                     const struct settings_entry *entry)
{
    struct mp_writer *writer = context->writer;
    const uint64_t now_ms = (uint64_t)(context->now_ns / CONTROL_MS);
    const uint64_t left_ms = rule->until_ms > now_ms ? rule->until_ms - now_ms : 0;
    mp_put_str(writer, "reason");
    mp_put_strn(writer, rule->message.data, rule->message.len);
    put_field_uint(writer, "status", rule->status);
    put_field_uint(writer, "until_ms", rule->until_ms);
    control_put_time(writer, "until", rule->until_ms);
    put_field_uint(writer, "left_ms", left_ms);
    mp_put_str(writer, "author");
    mp_put_strn(writer, entry != NULL ? entry->author.data : "",
                entry != NULL ? entry->author.len : 0);
    put_field_uint(writer, "time_ms", entry != NULL ? (uint64_t)entry->time_ms : 0);
    control_put_time(writer, "time", entry != NULL ? (uint64_t)entry->time_ms : 0);
    put_field_uint(writer, "version", entry != NULL ? settings_version_shown(entry->version) : 0);
}

static void put_block(const struct answer_context *context, const struct question *question,
                      const struct policy_rule *rule)
{
    struct block block = {.until_ms = 0};
    const struct settings_entry *entry = find_record(context, question, rule->until_ms, &block);
    const char *name = entry != NULL ? block.name.data : "";
    const size_t len = entry != NULL ? block.name.len : 0;
    const char *space = memchr(name, ' ', len);
    const size_t kind_len = space != NULL ? (size_t)(space - name) : 0;
    const size_t skipped = space != NULL ? kind_len + 1 : 0;
    mp_put_map(context->writer, DENIED_FIELDS);
    put_texts(context->writer, "block", name, kind_len, name + skipped, len - skipped);
    put_rest(context, rule, entry);
}

static void put_user(const struct answer_context *context, const struct person *person)
{
    const struct settings_text user = {person->user.data, person->user.len};
    mp_put_map(context->writer, DENIED_FIELDS);
    put_texts(context->writer, "quota", "user", strlen("user"), user.data, user.len);
    put_rest(context, person->denied,
             settings_table_find(&context->control->settings->table, SETTINGS_QUOTA, &user));
}

const struct policy_rule *control_find_denial(const struct answer_context *context,
                                              const struct policy_attribute *attributes,
                                              size_t count, const struct settings_text *key)
{
    const struct question question = {attributes, count, key};
    return find(policy_joined(context->report->policy)->blocks, &question,
                (uint64_t)(context->now_ns / CONTROL_MS));
}

void control_put_denial(const struct answer_context *context, const struct control_denial *denial)
{
    const struct question question = {denial->attributes, denial->count, denial->key};
    const struct policy_rule *user = denial->person != NULL ? denial->person->denied : NULL;
    if (denial->refusal != NULL) { /* of an API key, whose record says more to who may ask for it */
        mp_put_map(context->writer, DENIED_FIELDS);
        put_texts(context->writer, "api_key", "api_key", strlen("api_key"), "", 0);
        put_rest(context, denial->refusal, NULL);
    } else if (denial->block != NULL && policy_longer(denial->block, user) == denial->block) {
        put_block(context, &question, denial->block);
    } else if (user != NULL) {
        put_user(context, denial->person);
    } else {
        mp_put_nil(context->writer);
    }
}

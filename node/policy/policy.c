/* policy.c - compiling a rules file into an immutable policy, and listing what it holds.
 *
 *   text --yaml_reader--> tree --file_reader--> rules --sort--> ranks --policy_index--> index
 *                                                          '--> digest
 *
 * I1  A policy is complete or not there: every failure gives all memory back.
 * I2  Rules are in acting order: higher priority first, equal ones in file order.
 * I3  The digest covers what the rules mean, each field with its length, in acting order.
 *
 * Must not: read files, or be called on the check path (but for the accessors).
 */
#include "node/policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/ordinals.h"
#include "node/policy/own_limits.h"
#include "node/policy/policy_internal.h"

static const struct policy empty_policy = {.kinds = NULL};

const struct policy *policy_empty(void)
{
    return &empty_policy;
}

/* The rules of a file are one array in file order, so their addresses tell equal priorities apart:
 * qsort alone is not stable. */
static int compare_rules(const void *a, const void *b)
{
    const struct policy_rule *left = *(const struct policy_rule *const *)a;
    const struct policy_rule *right = *(const struct policy_rule *const *)b;

    if (left->priority != right->priority)
        return left->priority > right->priority ? -1 : 1;
    return left < right ? -1 : 1;
}

/* Puts the rules in acting order (I2). */
static int sort_rules(struct policy *policy)
{
    const size_t count = policy->rule_count;
    struct policy_rule **order = chunks_get(&policy->chunks, count, sizeof(struct policy_rule *));

    if (order == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < count; i++)
        order[i] = &policy->listed[i];
    if (count > 1)
        qsort(order, count, sizeof(struct policy_rule *), compare_rules);
    for (size_t i = 0; i < count; i++)
        order[i]->rank = (uint16_t)i;
    policy->rules = order;
    return TG_OK;
}

/* --- digest ------------------------------------------------------------------------------ */

/* Each field is hashed under the digest of all before it and its own length, so that no two
 * different sequences of fields meet by moving bytes from one to the next. */
static void digest_bytes(uint64_t *digest, const void *data, size_t len)
{
    struct hash_key key;
    const uint64_t length = len;

    for (size_t i = 0; i < 8; i++) {
        key.bytes[i] = (uint8_t)(*digest >> (8 * i));
        key.bytes[8 + i] = (uint8_t)(length >> (8 * i));
    }
    *digest = hash64(&key, data, len);
}

static void digest_text(uint64_t *digest, const struct policy_text *text)
{
    digest_bytes(digest, text->data, text->len);
}

static void digest_number(uint64_t *digest, uint64_t number)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    digest_bytes(digest, bytes, sizeof(bytes));
}

static void digest_lists(uint64_t *digest, const struct policy_rule *rule)
{
    digest_number(digest, rule->match_count);
    for (size_t i = 0; i < rule->match_count; i++) {
        const struct policy_match *match = &rule->matches[i];
        digest_text(digest, &match->attribute);
        digest_number(digest, match->value_count);
        for (size_t v = 0; v < match->value_count; v++)
            digest_text(digest, &match->values[v]);
    }
    digest_number(digest, rule->key_count);
    for (size_t i = 0; i < rule->key_count; i++)
        digest_text(digest, &rule->key[i]);
    digest_number(digest, rule->limit_count);
    for (size_t i = 0; i < rule->limit_count; i++) {
        digest_number(digest, rule->limits[i].count);
        digest_number(digest, rule->limits[i].window_ns);
        digest_number(digest, rule->limits[i].burst);
        digest_number(digest, rule->limits[i].algorithm);
        digest_number(digest, rule->limits[i].buckets);
        digest_number(digest, rule->limits[i].align);
        if (rule->calendars != NULL)
            digest_text(digest, &rule->calendars[i].name);
        digest_number(digest, rule->limits[i].exceed_percent);
        digest_number(digest, rule->limits[i].pool);
        digest_number(digest, rule->limits[i].weight);
        digest_number(digest, rule->limits[i].ceiling_percent);
    }
}

static void digest_rule(uint64_t *digest, const struct policy_rule *rule)
{
    digest_text(digest, &rule->name);
    digest_text(digest, &rule->group);
    digest_text(digest, &rule->message);
    digest_lists(digest, rule);
    digest_number(digest, rule->retry_after_ns);
    digest_number(digest, (uint64_t)(int64_t)rule->priority);
    digest_number(digest, rule->status);
    digest_number(digest, rule->act);
    digest_number(digest, rule->class);
    digest_number(digest, rule->on_failure + 256u * rule->local_share);
    digest_number(digest, rule->consistency);
    if (rule->scope == POLICY_SCOPE_GLOBAL) {
        digest_text(digest, &rule->home);
        digest_number(digest, rule->wan_wait_ns);
    }
    digest_number(digest, rule->ipv6_prefix);
    digest_number(digest, rule->enabled);
    digest_number(digest, rule->shadow);
    digest_number(digest, rule->count_denied);
    digest_number(digest, rule->missing_deny);
}

uint64_t policy_rule_digest(const struct policy_rule *rule)
{
    uint64_t digest = 1;

    digest_rule(&digest, rule);
    return digest;
}

static void digest_pool(uint64_t *digest, const struct policy_pool *pool)
{
    digest_text(digest, &pool->name);
    digest_number(digest, pool->rate.count);
    digest_number(digest, pool->rate.window_ns);
    digest_number(digest, pool->load_max_ppm);
    digest_number(digest, pool->reserve_percent);
    if (pool->scope == POLICY_SCOPE_GLOBAL) {
        digest_number(digest, pool->scope);
        digest_text(digest, &pool->home);
    }
}

/* Only what differs from a file that says nothing: most say nothing, and mean what they meant. */
static void digest_kinds(uint64_t *digest, const struct attribute_kinds *kinds)
{
    for (uint32_t i = 0; i < kinds->count; i++) {
        const struct attribute_named *at = &kinds->named[i];
        if (attribute_kinds_of(attribute_kinds_default(), at->name.data, at->name.len) == at->kind)
            continue;
        digest_text(digest, &at->name);
        digest_number(digest, at->kind);
    }
}

static uint64_t digest_all(const struct policy *policy)
{
    uint64_t digest = 1; /* so that no rules and unmatched: allow is not the empty policy's 0 */

    digest_number(&digest, policy->unmatched_deny);
    for (size_t i = 0; i < policy->pool_count; i++)
        digest_pool(&digest, &policy->pools[i]);
    digest_kinds(&digest, policy_kinds(policy));
    digest_number(&digest, policy->rule_count);
    for (size_t i = 0; i < policy->rule_count; i++)
        digest_rule(&digest, policy->rules[i]);
    return digest;
}

/* --- compiling --------------------------------------------------------------------------- */

/* A policy that lives in its own chunks, or NULL. */
static struct policy *new_policy(const struct allocator *allocator)
{
    struct chunks chunks;

    chunks_init(&chunks, allocator, POLICY_MEMORY_MAX);
    struct policy *policy = chunks_get(&chunks, 1, sizeof(*policy));
    if (policy != NULL)
        policy->chunks = chunks;
    return policy;
}

/* Under which name each rule is counted: all plans of users under one. */
static void name_counts(struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        struct policy_rule *rule = policy->rules[i];
        rule->counted = rule->plan ? own_limits_user_rule()->name : rule->name;
    }
}

static int build(struct policy *policy, const struct yaml_reader *reader,
                 const struct policy_zones *zones)
{
    int result = policy_read_file(policy, reader);
    if (result == TG_OK)
        result = policy_bind_zones(policy, zones, reader->error);
    if (result == TG_OK)
        result = sort_rules(policy);
    if (result == TG_OK)
        result = policy_index_init(&policy->index, &policy->chunks, policy_kinds(policy),
                                   policy->rules, policy->rule_count);
    if (result == TG_OK) {
        name_counts(policy);
        ordinals_place(policy);
        policy->digest = digest_all(policy);
    }
    return result;
}

/* Tells the caller what the reader found, or that memory ran out. */
static void report(struct policy_error *error, int result, const struct yaml_reader_error *found)
{
    *error = (struct policy_error){0};
    if (result == TG_ENOMEM) {
        (void)snprintf(error->message, sizeof(error->message),
                       "out of memory while compiling the rules");
        return;
    }
    error->line = found->line;
    error->column = found->column;
    (void)snprintf(error->message, sizeof(error->message), "%s", found->message);
}

int policy_compile(const char *text, size_t len, const struct allocator *allocator,
                   struct policy **out, struct policy_error *error)
{
    return policy_compile_zoned(text, len, allocator, NULL, out, error);
}

int policy_compile_zoned(const char *text, size_t len, const struct allocator *allocator,
                         const struct policy_zones *zones, struct policy **out,
                         struct policy_error *error)
{
    return policy_compile_collecting(text, len, allocator, zones, out, error, NULL);
}

int policy_compile_collecting(const char *text, size_t len, const struct allocator *allocator,
                              const struct policy_zones *zones, struct policy **out,
                              struct policy_error *error, struct yaml_reader_errors *all)
{
    struct yaml_reader_error found;
    struct yaml_reader reader;

    ASSERT(out != NULL && error != NULL);
    *out = NULL;
    *error = (struct policy_error){0};
    int result = yaml_reader_init(&reader, text, len, allocator, &found);
    if (result == TG_OK) {
        reader.all = all;
        struct policy *policy = new_policy(allocator);
        result = policy == NULL ? TG_ENOMEM : build(policy, &reader, zones);
        yaml_reader_fini(&reader);
        if (result == TG_OK)
            *out = policy;
        else
            policy_free(&policy);
    }
    if (result != TG_OK)
        report(error, result, &found);
    return result;
}

struct policy *policy_share(struct policy *policy)
{
    atomic_fetch_add(&policy->shares, 1);
    return policy;
}

void policy_free(struct policy **pointer)
{
    struct policy *policy = *pointer;

    *pointer = NULL;
    if (policy == NULL || policy == &empty_policy || atomic_fetch_sub(&policy->shares, 1) != 0)
        return;
    if (policy->joiner != NULL) {
        policy_free_joined(policy);
        return;
    }
    struct chunks chunks = policy->chunks; /* the policy itself is in there */
    chunks_fini(&chunks);
}

/* --- listing ----------------------------------------------------------------------------- */

uint64_t policy_digest(const struct policy *policy)
{
    return policy->digest;
}

bool policy_unmatched_deny(const struct policy *policy)
{
    return policy->unmatched_deny;
}

size_t policy_rule_count(const struct policy *policy)
{
    return policy->rule_count;
}

const struct attribute_kinds *policy_kinds(const struct policy *policy)
{
    return policy->kinds != NULL ? policy->kinds : attribute_kinds_default();
}

size_t policy_pool_count(const struct policy *policy)
{
    return policy->pool_count;
}

const struct policy_pool *policy_pool_at(const struct policy *policy, size_t index)
{
    ASSERT(index < policy->pool_count);
    return &policy->pools[index];
}

const struct policy_pool *policy_pool_find(const struct policy *policy, const char *name,
                                           size_t len)
{
    const struct policy_text wanted = {name, len};

    for (size_t i = 0; i < policy->pool_count; i++) {
        if (policy_text_equal(&policy->pools[i].name, &wanted))
            return &policy->pools[i];
    }
    return NULL;
}

const struct policy_pool *policy_pool_by_id(const struct policy *policy, uint32_t id)
{
    for (size_t i = 0; i < policy->pool_count; i++) {
        if (policy->pools[i].id == id)
            return &policy->pools[i];
    }
    return NULL;
}

bool policy_has_quorum(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy->rules[i]->enabled && policy->rules[i]->consistency == POLICY_CONSISTENCY_QUORUM)
            return true;
    }
    return false;
}

bool policy_has_global(const struct policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy->rules[i]->enabled && policy->rules[i]->scope == POLICY_SCOPE_GLOBAL)
            return true;
    }
    for (size_t i = 0; i < policy->pool_count; i++) {
        if (policy->pools[i].scope == POLICY_SCOPE_GLOBAL)
            return true;
    }
    return false;
}

uint64_t policy_region_id(const char *name, size_t len)
{
    const struct policy_text text = {name, len};
    uint64_t id = 1;

    digest_text(&id, &text);
    return id != 0 ? id : 1;
}

const struct policy_rule *policy_rule_at(const struct policy *policy, size_t index)
{
    ASSERT(index < policy->rule_count);
    return policy->rules[index];
}

const struct policy_rule *policy_rule_find(const struct policy *policy, const char *name,
                                           size_t len)
{
    const struct policy_text wanted = {name, len};

    for (size_t i = 0; i < policy->rule_count; i++) {
        if (policy_text_equal(&policy->rules[i]->name, &wanted))
            return policy->rules[i];
    }
    return NULL;
}

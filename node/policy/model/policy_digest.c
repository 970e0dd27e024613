/* policy_digest.c - what rules mean, as one number.
 *
 * POLICYDIGEST-1  The digest covers what the rules mean, each field with its length, in acting
 *                 order.
 */
#include <assert.h>

#include "base/hash.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/policy.h"
#include "node/policy/model/policy_internal.h"

/* Nodes of two releases compare digests: a word has the same number in both. */
static_assert(POLICY_ACT_BLOCK == 2 && POLICY_CLASS_BATCH == 2 && POLICY_CONSISTENCY_ANY == 2 &&
                  POLICY_SCOPE_GLOBAL == 1 && POLICY_FAILURE_LOCAL == 2 && ATTRIBUTE_KINDS == 4 &&
                  LIMIT_ALIGN_COUNT == 8,
              "one more has the next number");

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

static void digest_descriptor(uint64_t *digest, const struct descriptor *descriptor)
{
    digest_text(digest, &descriptor->name);
    digest_number(digest, descriptor->requests_per_unit);
    digest_number(digest, descriptor->unit_s);
    digest_number(digest, descriptor->quota);
    digest_number(digest, descriptor->replace_count);
    for (uint32_t i = 0; i < descriptor->replace_count; i++)
        digest_text(digest, &descriptor->replaces[i]);
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
    if (rule->descriptor != NULL)
        digest_descriptor(digest, rule->descriptor);
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

/* How the domains are matched; their limits are rules. */
static void digest_domains(uint64_t *digest, const struct descriptors *descriptors)
{
    digest_number(digest, descriptors->all_or_nothing);
    for (uint32_t i = 0; i < descriptors->domain_count; i++) { /* of limits that requests bring */
        digest_number(digest, descriptors->domains[i].given.on_failure);
        digest_number(digest, descriptors->domains[i].given.local_share);
        digest_text(digest, &descriptors->domains[i].given.message);
    }
    for (uint32_t i = 0; i < descriptors->node_count; i++) {
        const struct descriptor_node *node = &descriptors->nodes[i];
        digest_number(digest, node->parent);
        digest_number(digest, node->key_len);
        digest_text(digest, &node->composite);
        digest_text(digest, &node->metadata);
        digest_number(digest, node->share_threshold + 2u * node->value_to_metric +
                                  4u * node->detailed_metric + 8u * (node->rule != NULL));
    }
}

uint64_t policy_digest_all(const struct policy *policy)
{
    uint64_t digest = 1; /* so that no rules and unmatched: allow is not the empty policy's 0 */

    digest_number(&digest, policy->unmatched_deny);
    for (size_t i = 0; i < policy->pool_count; i++)
        digest_pool(&digest, &policy->pools[i]);
    digest_kinds(&digest, policy_kinds(policy));
    digest_number(&digest, policy->rule_count);
    for (size_t i = 0; i < policy->rule_count; i++)
        digest_rule(&digest, policy->rules[i]);
    if (policy->descriptors != NULL)
        digest_domains(&digest, policy->descriptors);
    return digest;
}

uint64_t policy_region_id(const char *name, size_t len)
{
    const struct policy_text text = {name, len};
    uint64_t id = 1;

    digest_text(&id, &text);
    return id != 0 ? id : 1;
}

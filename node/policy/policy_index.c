/* policy_index.c - building and asking the index of policy_index.h.
 *
 * One open-addressing table holds exact values and prefixes alike; the kind is part of what is
 * hashed. The hash of a prefix is an intermediate state of the hash of the value (FNV-1a), so a
 * request's value is read once, however many prefix lengths are asked for:
 *
 *   value   / u s e r / v 1 / m e
 *   hash    ----------^----^------^   asked at lengths 6 and 9 (prefix) and at the end (exact)
 *
 * Building: count how often every (attribute, text) occurs; file each rule under its rarest match;
 * then lay the rank lists out one behind the other.
 *
 * An attribute files at most POLICY_PREFIX_LENGTHS_MAX lengths. A prefix of another length is cut
 * to the next shorter filed one, which selects more rules, never fewer (I1).
 *
 * Must not: decide whether a rule matches; that is verified with the rule itself.
 */
#include "node/policy/policy_index.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/policy_internal.h"

#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME  0x100000001b3ULL

enum bucket_kind { BUCKET_FREE, BUCKET_EXACT, BUCKET_PREFIX };

struct policy_bucket {
    struct policy_text text;
    uint32_t *ranks;
    uint32_t count;    /* rules filed here */
    uint32_t mentions; /* rules' values that fall here, filed or not */
    uint32_t attribute;
    uint8_t kind; /* enum bucket_kind */
};

static uint64_t hash_start(uint32_t attribute)
{
    return FNV_OFFSET ^ hash_mix64(attribute + 1);
}

static uint64_t hash_add(uint64_t hash, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)data[i]) * FNV_PRIME;
    return hash;
}

/* The bucket of (attribute, kind, text), or the free one where it belongs. */
static struct policy_bucket *find_bucket(const struct policy_index *index, uint32_t attribute,
                                         enum bucket_kind kind, const struct policy_text *text,
                                         uint64_t hash)
{
    uint32_t at = (uint32_t)hash_mix64(hash + (uint64_t)kind) & index->bucket_mask;

    for (;;) {
        struct policy_bucket *bucket = &index->buckets[at];
        if (bucket->kind == BUCKET_FREE)
            return bucket;
        if (bucket->kind == kind && bucket->attribute == attribute &&
            bucket->text.len == text->len && memcmp(bucket->text.data, text->data, text->len) == 0)
            return bucket;
        at = (at + 1) & index->bucket_mask;
    }
}

/* A power of two of at least twice `count`, so that tables stay half empty. */
static uint32_t table_len(size_t count)
{
    uint32_t len = 8;

    while (len < 2 * count)
        len *= 2;
    return len;
}

/* --- attributes ------------------------------------------------------------------------ */

static uint32_t *find_name(const struct policy_index *index, const char *name, size_t len)
{
    uint32_t at = (uint32_t)hash_mix64(hash_add(FNV_OFFSET, name, len)) & index->name_mask;

    while (index->name_table[at] != POLICY_INDEX_NONE) {
        const struct policy_text *other = &index->attributes[index->name_table[at]].name;
        if (other->len == len && memcmp(other->data, name, len) == 0)
            break;
        at = (at + 1) & index->name_mask;
    }
    return &index->name_table[at];
}

uint32_t policy_index_attribute(const struct policy_index *index, const char *name, size_t len)
{
    return index->attribute_count == 0 ? POLICY_INDEX_NONE : *find_name(index, name, len);
}

static uint32_t intern(struct policy_index *index, const struct policy_text *name)
{
    uint32_t *slot = find_name(index, name->data, name->len);

    if (*slot == POLICY_INDEX_NONE) {
        *slot = index->attribute_count++;
        index->attributes[*slot].name = *name;
    }
    return *slot;
}

/* Gives every attribute of every rule a number, and every rule its plan. */
static int build_plans(struct policy_index *index, struct chunks *chunks,
                       const struct policy_rule *rules, size_t rule_count)
{
    size_t names = 0;

    for (size_t i = 0; i < rule_count; i++)
        names += (size_t)rules[i].match_count + rules[i].key_count;
    index->name_mask = table_len(names) - 1;
    index->name_table = chunks_get(chunks, (size_t)index->name_mask + 1, sizeof(uint32_t));
    index->attributes = chunks_get(chunks, names, sizeof(*index->attributes));
    index->plans = chunks_get(chunks, rule_count, sizeof(*index->plans));
    uint32_t *numbers = chunks_get(chunks, names, sizeof(uint32_t));
    if (index->name_table == NULL || index->attributes == NULL || index->plans == NULL ||
        numbers == NULL)
        return TG_ENOMEM;
    memset(index->name_table, 0xff, ((size_t)index->name_mask + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < rule_count; i++) {
        struct policy_plan *plan = &index->plans[i];
        *plan = (struct policy_plan){&rules[i], numbers, numbers + rules[i].match_count};
        for (size_t m = 0; m < rules[i].match_count; m++)
            *numbers++ = intern(index, &rules[i].matches[m].attribute);
        for (size_t k = 0; k < rules[i].key_count; k++)
            *numbers++ = intern(index, &rules[i].key[k]);
    }
    index->ip = policy_index_attribute(index, "ip", 2);
    return TG_OK;
}

/* --- filing ---------------------------------------------------------------------------- */

/* The position of the greatest filed length <= len, or -1. */
static int floor_length(const struct policy_index_attribute *attribute, size_t len)
{
    int at = (int)attribute->length_count - 1;

    while (at >= 0 && attribute->lengths[at] > len)
        at--;
    return at;
}

/* Files a prefix length unless there are too many; one place is kept for length 0, to which any
 * prefix can be cut. */
static void add_length(struct policy_index_attribute *attribute, size_t len)
{
    int at = floor_length(attribute, len);

    if (at >= 0 && attribute->lengths[at] == len)
        return;
    const bool has_zero = attribute->length_count > 0 && attribute->lengths[0] == 0;
    if (attribute->length_count + (has_zero || len == 0 ? 0 : 1) >= POLICY_PREFIX_LENGTHS_MAX) {
        if (has_zero)
            return;
        len = 0;
        at = -1;
    }
    const size_t behind = (size_t)(attribute->length_count - (at + 1));
    memmove(&attribute->lengths[at + 2], &attribute->lengths[at + 1], behind * sizeof(uint16_t));
    attribute->lengths[at + 1] = (uint16_t)len;
    attribute->length_count++;
}

/* What a match value is filed under. */
static enum bucket_kind filed_under(const struct policy_index *index, uint32_t attribute,
                                    const struct policy_text *value, struct policy_text *text)
{
    const char *star = memchr(value->data, '*', value->len);

    *text = *value;
    if (star == NULL)
        return BUCKET_EXACT;
    const struct policy_index_attribute *of = &index->attributes[attribute];
    const int at = floor_length(of, (size_t)(star - value->data));
    ASSERT(at >= 0);
    text->len = of->lengths[at];
    return BUCKET_PREFIX;
}

static struct policy_bucket *bucket_of(const struct policy_index *index, uint32_t attribute,
                                       const struct policy_text *value)
{
    struct policy_text text;
    const enum bucket_kind kind = filed_under(index, attribute, value, &text);
    const uint64_t hash = hash_add(hash_start(attribute), text.data, text.len);
    struct policy_bucket *bucket = find_bucket(index, attribute, kind, &text, hash);

    if (bucket->kind == BUCKET_FREE)
        *bucket =
            (struct policy_bucket){.text = text, .attribute = attribute, .kind = (uint8_t)kind};
    return bucket;
}

/* Learns which prefix lengths occur. Returns the number of values. */
static size_t collect_lengths(struct policy_index *index, size_t rule_count)
{
    size_t values = 0;

    for (size_t i = 0; i < rule_count; i++) {
        const struct policy_plan *plan = &index->plans[i];
        for (size_t m = 0; plan->rule->enabled && m < plan->rule->match_count; m++) {
            const struct policy_match *match = &plan->rule->matches[m];
            struct policy_index_attribute *of = &index->attributes[plan->match_attributes[m]];
            for (size_t v = 0; v < match->value_count; v++) {
                const char *star = memchr(match->values[v].data, '*', match->values[v].len);
                if (star != NULL)
                    add_length(of, (size_t)(star - match->values[v].data));
                else
                    of->has_exact = true;
            }
            values += match->value_count;
        }
    }
    return values;
}

static void count_mentions(const struct policy_index *index, size_t rule_count)
{
    for (size_t i = 0; i < rule_count; i++) {
        const struct policy_plan *plan = &index->plans[i];
        for (size_t m = 0; plan->rule->enabled && m < plan->rule->match_count; m++) {
            const struct policy_match *match = &plan->rule->matches[m];
            for (size_t v = 0; v < match->value_count; v++)
                bucket_of(index, plan->match_attributes[m], &match->values[v])->mentions++;
        }
    }
}

/* The match under whose values the fewest rules fall; a prefix counts double, for its list is
 * followed by more requests than an exact one. */
static size_t rarest_match(const struct policy_index *index, const struct policy_plan *plan)
{
    size_t best = 0;
    uint64_t best_cost = UINT64_MAX;

    for (size_t m = 0; m < plan->rule->match_count; m++) {
        const struct policy_match *match = &plan->rule->matches[m];
        uint64_t cost = 0;
        for (size_t v = 0; v < match->value_count; v++) {
            const struct policy_bucket *bucket =
                bucket_of(index, plan->match_attributes[m], &match->values[v]);
            const uint64_t mentions = bucket->mentions;
            const uint64_t weighed = bucket->kind == BUCKET_EXACT ? mentions : 2 * mentions;
            cost = cost > weighed ? cost : weighed;
        }
        if (cost < best_cost) {
            best_cost = cost;
            best = m;
        }
    }
    return best;
}

/* Files the rules. The first pass counts (ranks == NULL in every bucket), the second writes. */
static void file_rules(const struct policy_index *index, size_t rule_count, const uint32_t *chosen)
{
    for (size_t i = 0; i < rule_count; i++) {
        const struct policy_plan *plan = &index->plans[i];
        if (!plan->rule->enabled || plan->rule->match_count == 0)
            continue;
        const struct policy_match *match = &plan->rule->matches[chosen[i]];
        for (size_t v = 0; v < match->value_count; v++) {
            struct policy_bucket *bucket =
                bucket_of(index, plan->match_attributes[chosen[i]], &match->values[v]);
            if (bucket->ranks != NULL) {
                /* Two values of one rule may share a prefix: the rank is listed once (I2). */
                if (bucket->count > 0 && bucket->ranks[bucket->count - 1] == i)
                    continue;
                bucket->ranks[bucket->count] = (uint32_t)i;
            }
            bucket->count++;
        }
    }
}

/* Gives every bucket its part of one array, and starts its count anew. */
static int lay_out(const struct policy_index *index, struct chunks *chunks)
{
    const size_t buckets = (size_t)index->bucket_mask + 1;
    size_t total = 0;

    for (size_t i = 0; i < buckets; i++)
        total += index->buckets[i].count;
    uint32_t *ranks = chunks_get(chunks, total + 1, sizeof(*ranks));
    if (ranks == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < buckets; i++) {
        index->buckets[i].ranks = ranks;
        ranks += index->buckets[i].count;
        index->buckets[i].count = 0;
    }
    return TG_OK;
}

/* Lists the enabled rules that match whatever comes. */
static int list_always(struct policy_index *index, struct chunks *chunks, size_t rule_count)
{
    uint32_t *ranks = chunks_get(chunks, rule_count, sizeof(*ranks));

    if (ranks == NULL)
        return TG_ENOMEM;
    index->always.ranks = ranks;
    for (size_t i = 0; i < rule_count; i++) {
        if (index->plans[i].rule->enabled && index->plans[i].rule->match_count == 0)
            ranks[index->always.count++] = (uint32_t)i;
    }
    return TG_OK;
}

int policy_index_init(struct policy_index *index, struct chunks *chunks,
                      const struct policy_rule *rules, size_t rule_count)
{
    *index = (struct policy_index){.ip = POLICY_INDEX_NONE};
    if (build_plans(index, chunks, rules, rule_count) != TG_OK ||
        list_always(index, chunks, rule_count) != TG_OK)
        return TG_ENOMEM;
    index->bucket_mask = table_len(collect_lengths(index, rule_count)) - 1;
    index->buckets = chunks_get(chunks, (size_t)index->bucket_mask + 1, sizeof(*index->buckets));
    uint32_t *chosen = chunks_get(chunks, rule_count, sizeof(*chosen));
    if (index->buckets == NULL || chosen == NULL)
        return TG_ENOMEM;
    count_mentions(index, rule_count);
    for (size_t i = 0; i < rule_count; i++) {
        if (rules[i].enabled)
            chosen[i] = (uint32_t)rarest_match(index, &index->plans[i]);
    }
    file_rules(index, rule_count, chosen);
    if (lay_out(index, chunks) != TG_OK)
        return TG_ENOMEM;
    file_rules(index, rule_count, chosen);
    return TG_OK;
}

/* --- asking ---------------------------------------------------------------------------- */

static size_t append_list(const struct policy_index *index, uint32_t attribute,
                          enum bucket_kind kind, const struct policy_text *text, uint64_t hash,
                          struct policy_ranks *list)
{
    const struct policy_bucket *bucket = find_bucket(index, attribute, kind, text, hash);

    if (bucket->kind == BUCKET_FREE || bucket->count == 0)
        return 0;
    *list = (struct policy_ranks){bucket->ranks, bucket->count};
    return 1;
}

size_t policy_index_lists(const struct policy_index *index, uint32_t attribute,
                          const struct policy_text *value, struct policy_ranks *lists)
{
    const struct policy_index_attribute *of = &index->attributes[attribute];
    uint64_t hash = hash_start(attribute);
    size_t count = 0;
    size_t at = 0;

    for (size_t i = 0; i < of->length_count && of->lengths[i] <= value->len; i++) {
        const struct policy_text prefix = {value->data, of->lengths[i]};
        hash = hash_add(hash, value->data + at, prefix.len - at);
        at = prefix.len;
        count += append_list(index, attribute, BUCKET_PREFIX, &prefix, hash, lists + count);
    }
    if (of->has_exact) {
        hash = hash_add(hash, value->data + at, value->len - at);
        count += append_list(index, attribute, BUCKET_EXACT, value, hash, lists + count);
    }
    return count;
}

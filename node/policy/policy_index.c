/* policy_index.c - building and asking the index of policy_index.h.
 *
 * One open-addressing table holds exact values and prefixes alike; the kind is part of what is
 * hashed. The hash of a prefix is an intermediate state of the hash of the value (FNV-1a), so a
 * request's value is read once, however many prefix lengths are asked for:
 *
 *   value   / u s e r / v 1 / m e
 *   hash    ----------^----^------^   asked at lengths 6 and 9 (prefix) and at the end (exact)
 *
 * Building: a draft table counts how often every (attribute, text) occurs; each rule is filed under
 * its rarest match; the draft's buckets in use then go to a table a quarter of the size, which is
 * all that a request ever reads.
 *
 * An attribute files at most POLICY_PREFIX_LENGTHS_MAX lengths. A prefix of another length is cut
 * to the next shorter filed one, which selects more rules, never fewer (I1). Blocks of addresses
 * are prefixes of bits, and treated alike.
 *
 * Must not: decide whether a rule matches; that is verified with the rule itself.
 */
#include "node/policy/policy_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "node/policy/policy_internal.h"

#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME  0x100000001b3ULL

enum bucket_kind { BUCKET_EXACT = 1, BUCKET_PREFIX, BUCKET_BLOCK };

/* Where rules are counted while the index is built. */
struct draft_bucket {
    uint64_t hash;
    uint32_t mentions; /* rules' values that fall here, filed or not; 0 = free */
    uint32_t filed;    /* rules filed here */
    uint32_t newest;   /* the rank filed last, + 1 */
    uint32_t slot;     /* its bucket in the final table */
    uint8_t kind;      /* enum bucket_kind */
};

struct draft {
    struct chunks chunks; /* of everything here: gone when the index is built */
    const struct policy_rule *rules;
    size_t rule_count;
    uint32_t **attributes; /* by rank: the numbers of its match and then key attributes */
    uint32_t *chosen;      /* by rank: the match it is filed under */
    struct draft_bucket *buckets;
    uint32_t mask;
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

static uint64_t hash_end(uint64_t hash, enum bucket_kind kind)
{
    return hash_mix64(hash + (uint64_t)kind);
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

/* Gives every attribute of every rule a number. */
static int number_attributes(struct policy_index *index, struct chunks *chunks, struct draft *draft)
{
    size_t names = 0;

    for (size_t i = 0; i < draft->rule_count; i++)
        names += (size_t)draft->rules[i].match_count + draft->rules[i].key_count;
    index->name_mask = table_len(names) - 1;
    index->name_table = chunks_get(chunks, (size_t)index->name_mask + 1, sizeof(uint32_t));
    index->attributes = chunks_get(chunks, names, sizeof(*index->attributes));
    uint32_t *numbers = chunks_get(&draft->chunks, names, sizeof(uint32_t));
    draft->attributes = chunks_get(&draft->chunks, draft->rule_count, sizeof(uint32_t *));
    if (index->name_table == NULL || index->attributes == NULL || numbers == NULL ||
        draft->attributes == NULL)
        return TG_ENOMEM;
    memset(index->name_table, 0xff, ((size_t)index->name_mask + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < draft->rule_count; i++) {
        const struct policy_rule *rule = &draft->rules[i];
        draft->attributes[i] = numbers;
        for (size_t m = 0; m < rule->match_count; m++)
            *numbers++ = intern(index, &rule->matches[m].attribute);
        for (size_t k = 0; k < rule->key_count; k++)
            *numbers++ = intern(index, &rule->key[k]);
    }
    index->ip = policy_index_attribute(index, "ip", 2);
    return TG_OK;
}

static int compare_groups(const void *a, const void *b)
{
    const struct policy_rule *left = *(const struct policy_rule *const *)a;
    const struct policy_rule *right = *(const struct policy_rule *const *)b;

    return policy_text_compare(&left->group, &right->group);
}

/* Packs every rule; equal groups get equal numbers, no group 0. */
static int pack_rules(struct policy_index *index, struct chunks *chunks, struct draft *draft)
{
    const size_t count = draft->rule_count;
    const struct policy_rule **order =
        chunks_get(&draft->chunks, count, sizeof(const struct policy_rule *));
    uint32_t *groups = chunks_get(&draft->chunks, count, sizeof(*groups));
    uint32_t group = 0;

    index->plans = chunks_get(chunks, count, sizeof(struct policy_plan *));
    if (order == NULL || groups == NULL || index->plans == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < count; i++)
        order[i] = &draft->rules[i];
    if (count > 1)
        qsort(order, count, sizeof(const struct policy_rule *), compare_groups);
    for (size_t i = 0; i < count; i++) {
        if (order[i]->group.len == 0)
            continue; /* the empty text sorts first and keeps 0 */
        if (i == 0 || !policy_text_equal(&order[i]->group, &order[i - 1]->group))
            group++;
        groups[order[i] - draft->rules] = group;
    }
    for (size_t i = 0; i < count; i++) {
        index->plans[i] =
            policy_plan_new(chunks, &draft->rules[i], draft->attributes[i], groups[i]);
        if (index->plans[i] == NULL)
            return TG_ENOMEM;
    }
    return TG_OK;
}

/* --- filing ---------------------------------------------------------------------------- */

/* The position of the greatest filed length <= len, or -1. */
static int floor_length(const struct policy_index_lengths *filed, size_t len)
{
    int at = (int)filed->count - 1;

    while (at >= 0 && filed->lengths[at] > len)
        at--;
    return at;
}

/* Files a prefix length unless there are too many; one place is kept for length 0, to which any
 * prefix can be cut. */
static void add_length(struct policy_index_lengths *filed, size_t len)
{
    int at = floor_length(filed, len);

    if (at >= 0 && filed->lengths[at] == len)
        return;
    const bool has_zero = filed->count > 0 && filed->lengths[0] == 0;
    if (filed->count + (has_zero || len == 0 ? 0 : 1) >= POLICY_PREFIX_LENGTHS_MAX) {
        if (has_zero)
            return;
        len = 0;
        at = -1;
    }
    const size_t behind = (size_t)(filed->count - (at + 1));
    memmove(&filed->lengths[at + 2], &filed->lengths[at + 1], behind * sizeof(uint16_t));
    filed->lengths[at + 1] = (uint16_t)len;
    filed->count++;
}

static uint64_t hash_block(uint32_t attribute, const struct policy_ip *ip, unsigned bits)
{
    struct policy_ip cut = *ip;

    policy_ip_cut(&cut, bits);
    const uint8_t shape[2] = {cut.len, (uint8_t)bits};
    uint64_t hash = hash_add(hash_start(attribute), (const char *)shape, sizeof(shape));
    hash = hash_add(hash, (const char *)cut.bytes, (bits + 7) / 8);
    return hash_end(hash, BUCKET_BLOCK);
}

/* A match value as it is filed. */
struct filing {
    enum bucket_kind kind;
    size_t len; /* of the literal text, or prefix; bits of a block */
    struct policy_block block;
};

static struct filing filing_of(const struct policy_match *match, const struct policy_text *value)
{
    struct filing filing = {.kind = BUCKET_EXACT, .len = value->len};
    const char *star = memchr(value->data, '*', value->len);

    if (star != NULL) {
        filing.kind = BUCKET_PREFIX;
        filing.len = (size_t)(star - value->data);
    } else if (policy_plan_is_block(match, value)) {
        filing.kind = BUCKET_BLOCK;
        const enum policy_block_result result =
            policy_block_parse(value->data, value->len, &filing.block);
        ASSERT(result == POLICY_BLOCK_GOOD);
        filing.len = filing.block.prefix;
    }
    return filing;
}

static struct policy_index_lengths *lengths_of(struct policy_index *index, uint32_t attribute,
                                               const struct filing *filing)
{
    if (filing->kind == BUCKET_PREFIX)
        return &index->attributes[attribute].prefixes;
    return filing->block.ip.len == POLICY_IPV4_LEN ? &index->ipv4_blocks : &index->ipv6_blocks;
}

/* The hash under which a match value is filed. */
static uint64_t filing_hash(struct policy_index *index, uint32_t attribute,
                            const struct policy_match *match, const struct policy_text *value,
                            enum bucket_kind *kind)
{
    struct filing filing = filing_of(match, value);

    if (filing.kind != BUCKET_EXACT) {
        const struct policy_index_lengths *filed = lengths_of(index, attribute, &filing);
        const int at = floor_length(filed, filing.len);
        ASSERT(at >= 0);
        filing.len = filed->lengths[at];
    }
    *kind = filing.kind;
    if (filing.kind == BUCKET_BLOCK)
        return hash_block(attribute, &filing.block.ip, (unsigned)filing.len);
    return hash_end(hash_add(hash_start(attribute), value->data, filing.len), filing.kind);
}

/* The draft's bucket of a match value, made if it is not there. */
static struct draft_bucket *bucket_of(struct policy_index *index, const struct draft *draft,
                                      uint32_t attribute, const struct policy_match *match,
                                      const struct policy_text *value)
{
    enum bucket_kind kind;
    const uint64_t hash = filing_hash(index, attribute, match, value, &kind);
    uint32_t at = (uint32_t)hash & draft->mask;

    while (draft->buckets[at].mentions != 0 && draft->buckets[at].hash != hash)
        at = (at + 1) & draft->mask;
    draft->buckets[at].hash = hash;
    draft->buckets[at].kind = (uint8_t)kind;
    return &draft->buckets[at];
}

/* Learns which prefix lengths occur. Returns the number of values. */
static size_t collect_lengths(struct policy_index *index, const struct draft *draft)
{
    size_t values = 0;

    for (size_t i = 0; i < draft->rule_count; i++) {
        const struct policy_rule *rule = &draft->rules[i];
        for (size_t m = 0; rule->enabled && m < rule->match_count; m++) {
            const struct policy_match *match = &rule->matches[m];
            const uint32_t attribute = draft->attributes[i][m];
            for (size_t v = 0; v < match->value_count; v++) {
                const struct filing filing = filing_of(match, &match->values[v]);
                if (filing.kind == BUCKET_EXACT)
                    index->attributes[attribute].has_exact = true;
                else
                    add_length(lengths_of(index, attribute, &filing), filing.len);
            }
            values += match->value_count;
        }
    }
    return values;
}

static void count_mentions(struct policy_index *index, const struct draft *draft)
{
    for (size_t i = 0; i < draft->rule_count; i++) {
        const struct policy_rule *rule = &draft->rules[i];
        for (size_t m = 0; rule->enabled && m < rule->match_count; m++) {
            const struct policy_match *match = &rule->matches[m];
            for (size_t v = 0; v < match->value_count; v++)
                bucket_of(index, draft, draft->attributes[i][m], match, &match->values[v])
                    ->mentions++;
        }
    }
}

/* The match under whose values the fewest rules fall; a prefix counts double, for its list is
 * followed by more requests than an exact one. */
static uint32_t rarest_match(struct policy_index *index, const struct draft *draft, size_t rank)
{
    const struct policy_rule *rule = &draft->rules[rank];
    uint32_t best = 0;
    uint64_t best_cost = UINT64_MAX;

    for (uint32_t m = 0; m < rule->match_count; m++) {
        const struct policy_match *match = &rule->matches[m];
        uint64_t cost = 0;
        for (size_t v = 0; v < match->value_count; v++) {
            const struct draft_bucket *bucket =
                bucket_of(index, draft, draft->attributes[rank][m], match, &match->values[v]);
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

/* Counts the rule in the buckets of its chosen match, or writes its rank there; once each (I2). */
static void file_rule(struct policy_index *index, struct draft *draft, size_t rank, bool write)
{
    const uint32_t chosen = draft->chosen[rank];
    const struct policy_match *match = &draft->rules[rank].matches[chosen];

    for (size_t v = 0; v < match->value_count; v++) {
        struct draft_bucket *from =
            bucket_of(index, draft, draft->attributes[rank][chosen], match, &match->values[v]);
        if (from->newest == rank + 1)
            continue;
        from->newest = (uint32_t)rank + 1;
        if (!write) {
            from->filed++;
            continue;
        }
        struct policy_bucket *bucket = &index->buckets[from->slot];
        if (from->filed == 1)
            bucket->first = (uint32_t)rank;
        else
            index->ranks[bucket->first + bucket->count] = (uint32_t)rank;
        bucket->count++;
    }
}

/* Files all enabled rules that match something: counts them, or writes their ranks. */
static void file_rules(struct policy_index *index, struct draft *draft, bool write)
{
    for (size_t i = 0; i <= draft->mask; i++)
        draft->buckets[i].newest = 0;
    for (size_t i = 0; i < draft->rule_count; i++) {
        if (draft->rules[i].enabled && draft->rules[i].match_count > 0)
            file_rule(index, draft, i, write);
    }
}

/* Makes the final table of the draft's buckets in use, with room for their ranks. */
static int lay_out(struct policy_index *index, struct chunks *chunks, struct draft *draft)
{
    size_t used = 0;
    uint32_t listed = 0;

    for (size_t i = 0; i <= draft->mask; i++)
        used += draft->buckets[i].filed > 0;
    index->bucket_mask = table_len(used) - 1;
    index->buckets = chunks_get(chunks, (size_t)index->bucket_mask + 1, sizeof(*index->buckets));
    if (index->buckets == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i <= draft->mask; i++) {
        struct draft_bucket *from = &draft->buckets[i];
        if (from->filed == 0)
            continue;
        from->slot = (uint32_t)from->hash & index->bucket_mask;
        while (index->buckets[from->slot].count != 0)
            from->slot = (from->slot + 1) & index->bucket_mask;
        index->buckets[from->slot] = (struct policy_bucket){from->hash, from->filed, listed};
        listed += from->filed > 1 ? from->filed : 0;
    }
    for (size_t i = 0; i <= index->bucket_mask; i++)
        index->buckets[i].count = 0; /* counted again as ranks are written */
    index->ranks = chunks_get(chunks, listed, sizeof(*index->ranks));
    return index->ranks == NULL ? TG_ENOMEM : TG_OK;
}

/* Lists the enabled rules that match whatever comes. */
static int list_always(struct policy_index *index, struct chunks *chunks, const struct draft *draft)
{
    uint32_t *ranks = chunks_get(chunks, draft->rule_count, sizeof(*ranks));

    if (ranks == NULL)
        return TG_ENOMEM;
    index->always.ranks = ranks;
    for (size_t i = 0; i < draft->rule_count; i++) {
        if (draft->rules[i].enabled && draft->rules[i].match_count == 0)
            ranks[index->always.count++] = (uint32_t)i;
    }
    return TG_OK;
}

static int build(struct policy_index *index, struct chunks *chunks, struct draft *draft)
{
    if (number_attributes(index, chunks, draft) != TG_OK ||
        pack_rules(index, chunks, draft) != TG_OK || list_always(index, chunks, draft) != TG_OK)
        return TG_ENOMEM;
    draft->mask = table_len(collect_lengths(index, draft)) - 1;
    draft->buckets = chunks_get(&draft->chunks, (size_t)draft->mask + 1, sizeof(*draft->buckets));
    draft->chosen = chunks_get(&draft->chunks, draft->rule_count, sizeof(*draft->chosen));
    if (draft->buckets == NULL || draft->chosen == NULL)
        return TG_ENOMEM;
    count_mentions(index, draft);
    for (size_t i = 0; i < draft->rule_count; i++) {
        if (draft->rules[i].enabled)
            draft->chosen[i] = rarest_match(index, draft, i);
    }
    file_rules(index, draft, false);
    if (lay_out(index, chunks, draft) != TG_OK)
        return TG_ENOMEM;
    file_rules(index, draft, true);
    return TG_OK;
}

int policy_index_init(struct policy_index *index, struct chunks *chunks,
                      const struct policy_rule *rules, size_t rule_count)
{
    struct draft draft = {.rules = rules, .rule_count = rule_count};

    *index = (struct policy_index){.ip = POLICY_INDEX_NONE};
    chunks_init(&draft.chunks, chunks->allocator, POLICY_MEMORY_MAX);
    const int result = build(index, chunks, &draft);
    chunks_fini(&draft.chunks);
    return result;
}

/* --- asking ---------------------------------------------------------------------------- */

size_t policy_index_hashes(const struct policy_index *index, uint32_t attribute,
                           const struct policy_text *value, uint64_t *hashes)
{
    const struct policy_index_attribute *of = &index->attributes[attribute];
    const struct policy_index_lengths *filed = &of->prefixes;
    uint64_t hash = hash_start(attribute);
    size_t count = 0;
    size_t at = 0;

    for (size_t i = 0; i < filed->count && filed->lengths[i] <= value->len; i++) {
        hash = hash_add(hash, value->data + at, filed->lengths[i] - at);
        at = filed->lengths[i];
        hashes[count++] = hash_end(hash, BUCKET_PREFIX);
    }
    if (of->has_exact) {
        hash = hash_add(hash, value->data + at, value->len - at);
        hashes[count++] = hash_end(hash, BUCKET_EXACT);
    }
    return count;
}

size_t policy_index_block_hashes(const struct policy_index *index, const struct policy_ip *ip,
                                 uint64_t *hashes)
{
    const struct policy_index_lengths *filed =
        ip->len == POLICY_IPV4_LEN ? &index->ipv4_blocks : &index->ipv6_blocks;
    const size_t count = ip->len == 0 ? 0 : filed->count;

    for (size_t i = 0; i < count; i++)
        hashes[i] = hash_block(index->ip, ip, filed->lengths[i]);
    return count;
}

static const struct policy_bucket *find_bucket(const struct policy_index *index, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & index->bucket_mask;

    while (index->buckets[at].count != 0 && index->buckets[at].hash != hash)
        at = (at + 1) & index->bucket_mask;
    return &index->buckets[at];
}

/* What is asked for may lie anywhere in memory: asking for all before reading one hides most of the
 * wait, here and in the next step. */
size_t policy_index_lists(const struct policy_index *index, const uint64_t *hashes, size_t count,
                          struct policy_ranks *lists)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&index->buckets[(uint32_t)hashes[i] & index->bucket_mask]);
    for (size_t i = 0; i < count; i++) {
        const struct policy_bucket *bucket = find_bucket(index, hashes[i]);
        if (bucket->count == 0)
            continue;
        lists[found].ranks = bucket->count == 1 ? &bucket->first : index->ranks + bucket->first;
        lists[found].count = bucket->count;
        __builtin_prefetch(lists[found++].ranks);
    }
    return found;
}

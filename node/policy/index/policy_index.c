/* policy_index.c - building and asking the index of policy_index.h.
 *
 * One open-addressing table holds whatever rules are filed under; the kind and the attribute are
 * part of what is hashed (policy_filing.c).
 *
 * Building: a draft table counts how often every possible filing of every value occurs; each rule
 * is filed under its rarest match, each value of that under its rarest filing; the draft's buckets
 * in use then go to a table a fraction of the size, which is all that a request ever reads.
 *
 * Must not: decide whether a rule matches; that is verified with the rule itself.
 */
#include "node/policy/index/policy_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/prefetch.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/model/policy_internal.h"

enum { CACHE_LINE = 64 };
static_assert((uint64_t)POLICY_MEMORY_MAX / POLICY_PLAN_ALIGN < POLICY_BUCKET_LIST,
              "a place is told from a list");

/* Where rules are counted while the index is built. */
struct draft_bucket {
    uint32_t hash;
    uint32_t mentions; /* rules' values that fall here, filed or not; 0 = free */
    uint32_t filed;    /* rules filed here */
    uint32_t newest;   /* the rank filed last, + 1 */
    uint32_t slot;     /* its bucket in the final table */
};

struct draft {
    struct chunks chunks; /* of everything here: gone when the index is built */
    const struct attribute_kinds *kinds;
    struct policy_rule **rules;
    size_t rule_count;
    uint32_t **attributes; /* by rank: the numbers of its match and then key attributes */
    uint32_t *chosen;      /* by rank: the match it is filed under */
    struct draft_bucket *buckets;
    uint32_t mask;
};

/* A power of two of at least one and a half times `count`: full enough to stay small, for misses of
 * the cache cost more than a few steps within a line. */
static uint32_t table_len(size_t count)
{
    uint32_t len = 8;

    while (len < count + count / 2)
        len *= 2;
    return len;
}

/* --- attributes ------------------------------------------------------------------------ */

static uint32_t *find_name(const struct policy_index *index, const char *name, size_t len)
{
    static const struct hash_key key = {{0}}; /* names come from the operator: no secret needed */
    uint32_t at = (uint32_t)hash64(&key, name, len) & index->name_mask;

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
        ASSERT(index->attribute_count < index->name_mask); /* INDEX-4 */
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
        names += (size_t)draft->rules[i]->match_count + draft->rules[i]->key_count;
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
        const struct policy_rule *rule = draft->rules[i];
        draft->attributes[i] = numbers;
        for (size_t m = 0; m < rule->match_count; m++)
            *numbers++ = intern(index, &rule->matches[m].attribute);
        for (size_t k = 0; k < rule->key_count; k++)
            *numbers++ = intern(index, &rule->key[k]);
    }
    for (uint32_t i = 0; i < index->attribute_count; i++) {
        struct policy_index_attribute *at = &index->attributes[i];
        at->kind = (uint8_t)attribute_kinds_of(draft->kinds, at->name.data, at->name.len);
    }
    return TG_OK;
}

static int compare_groups(const void *a, const void *b)
{
    const struct policy_rule *left = *(const struct policy_rule *const *)a;
    const struct policy_rule *right = *(const struct policy_rule *const *)b;

    return policy_text_compare(&left->group, &right->group);
}

/* Gives equal groups equal numbers, no group 0. */
static uint32_t *number_groups(struct draft *draft)
{
    const size_t count = draft->rule_count;
    const struct policy_rule **order =
        chunks_get(&draft->chunks, count, sizeof(const struct policy_rule *));
    uint32_t *groups = chunks_get(&draft->chunks, count, sizeof(*groups));
    uint32_t group = 0;

    if (order == NULL || groups == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        order[i] = draft->rules[i];
    if (count > 1)
        qsort(order, count, sizeof(const struct policy_rule *), compare_groups);
    for (size_t i = 0; i < count; i++) {
        if (order[i]->group.len == 0)
            continue; /* the empty text sorts first and keeps 0 */
        if (i == 0 || !policy_text_equal(&order[i]->group, &order[i - 1]->group))
            group++;
        groups[order[i]->rank] = group;
    }
    return groups;
}

/* Where a plan of `len` bytes goes that may begin at `at`: not over the end of a cache line if it
 * fits into one. */
static size_t place_plan(size_t at, size_t len)
{
    const size_t line_at = at % CACHE_LINE;

    return line_at != 0 && line_at + len > CACHE_LINE ? at + CACHE_LINE - line_at : at;
}

/* A rule and what naming and deciding its counters reads of it, behind its plan: a request that
 * meets it waits for all of it at once. */
static size_t beside_len(const struct policy_rule *rule)
{
    const size_t len = sizeof(*rule) +
                       rule->limit_count * (sizeof(struct limit) + sizeof(*rule->windows)) +
                       rule->name.len + 1;

    return (len + POLICY_PLAN_ALIGN - 1) / POLICY_PLAN_ALIGN * POLICY_PLAN_ALIGN;
}

/* Copies it there, the windows last: only the answer reads them. Returns the rule's copy. */
static struct policy_rule *move_beside(char *to, const struct policy_rule *from)
{
    struct policy_rule *rule = (void *)to;
    struct limit *limits = (void *)(to + sizeof(*rule));
    char *name = (char *)(limits + from->limit_count);
    char(*windows)[QUANTITY_TEXT_LEN] = (void *)(name + from->name.len + 1);

    *rule = *from;
    if (rule->limit_count > 0) {
        memcpy(limits, from->limits, rule->limit_count * sizeof(*limits));
        memcpy(windows, from->windows, rule->limit_count * sizeof(*windows));
        rule->limits = limits;
        rule->windows = windows;
    }
    memcpy(name, from->name.data, rule->name.len);
    name[rule->name.len] = '\0';
    ASSERT(name + rule->name.len + 1 <= to + beside_len(from));
    rule->name.data = name;
    return rule;
}

/* Packs every rule, all plans into one piece of memory. */
static int pack_rules(struct policy_index *index, struct chunks *chunks, struct draft *draft)
{
    const uint32_t *groups = number_groups(draft);
    uint32_t *plan_at = chunks_get(chunks, draft->rule_count, sizeof(*plan_at));
    size_t len = 0;

    if (groups == NULL || plan_at == NULL)
        return TG_ENOMEM;
    for (size_t i = 0; i < draft->rule_count; i++) {
        const size_t plan_len = policy_plan_len(draft->rules[i]);
        len = place_plan(len, plan_len);
        plan_at[i] = (uint32_t)(len / POLICY_PLAN_ALIGN);
        len += plan_len + beside_len(draft->rules[i]);
    }
    char *plans = chunks_get(chunks, 1, len + CACHE_LINE);
    if (plans == NULL)
        return TG_ENOMEM;
    plans += CACHE_LINE - (uintptr_t)plans % CACHE_LINE;
    for (size_t i = 0; i < draft->rule_count; i++) {
        char *plan = plans + (size_t)POLICY_PLAN_ALIGN * plan_at[i];
        draft->rules[i] = move_beside(plan + policy_plan_len(draft->rules[i]), draft->rules[i]);
        ASSERT(draft->rules[i]->rank == i); /* COMPILE-2 */
        policy_plan_put((void *)plan, draft->rules[i], draft->attributes[i], groups[i]);
    }
    index->plans = plans;
    index->plan_at = plan_at;
    return TG_OK;
}

/* --- filing ---------------------------------------------------------------------------- */

/* The draft's bucket of a filing, made if it is not there. */
static struct draft_bucket *bucket_of(const struct draft *draft, const struct policy_filing *filing)
{
    uint32_t at = filing->hash & draft->mask;

    while (draft->buckets[at].mentions != 0 && draft->buckets[at].hash != filing->hash)
        at = (at + 1) & draft->mask;
    draft->buckets[at].hash = filing->hash;
    return &draft->buckets[at];
}

/* A match of a rule with the number of its attribute. */
struct condition {
    const struct policy_match *match;
    uint32_t attribute;
};

static struct condition condition_of(const struct draft *draft, size_t rank, uint32_t match)
{
    ASSERT(match < draft->rules[rank]->match_count);
    return (struct condition){&draft->rules[rank]->matches[match], draft->attributes[rank][match]};
}

static size_t filings_of(const struct policy_index *index, const struct condition *condition,
                         uint32_t value, struct policy_filing *out)
{
    return policy_filings_of(&index->attributes[condition->attribute].filed, condition->attribute,
                             condition->match, &condition->match->values[value], out);
}

/* Learns which lengths occur, then counts the places where values may be filed. */
static size_t learn(struct policy_index *index, const struct draft *draft)
{
    struct policy_filing filings[POLICY_FILINGS_MAX];
    size_t places = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < draft->rule_count; i++) {
            const struct policy_rule *rule = draft->rules[i];
            for (uint32_t m = 0; policy_acts(rule) && m < rule->match_count; m++) {
                const struct condition condition = condition_of(draft, i, m);
                for (uint32_t v = 0; v < condition.match->value_count; v++) {
                    if (pass == 0)
                        policy_filed_learn(&index->attributes[condition.attribute].filed,
                                           condition.match, &condition.match->values[v]);
                    else
                        places += filings_of(index, &condition, v, filings);
                }
            }
        }
    }
    return places;
}

static void count_mentions(const struct policy_index *index, const struct draft *draft)
{
    struct policy_filing filings[POLICY_FILINGS_MAX];

    for (size_t i = 0; i < draft->rule_count; i++) {
        const struct policy_rule *rule = draft->rules[i];
        for (uint32_t m = 0; policy_acts(rule) && m < rule->match_count; m++) {
            const struct condition condition = condition_of(draft, i, m);
            for (uint32_t v = 0; v < condition.match->value_count; v++) {
                const size_t count = filings_of(index, &condition, v, filings);
                for (size_t f = 0; f < count; f++)
                    bucket_of(draft, &filings[f])->mentions++;
            }
        }
    }
}

/* The rarest filing of a value, and how often it is mentioned. What is not exact counts double, for
 * its list is followed by more requests. */
static struct policy_filing rarest_filing(const struct policy_index *index,
                                          const struct draft *draft,
                                          const struct condition *condition, uint32_t value,
                                          uint64_t *cost)
{
    struct policy_filing filings[POLICY_FILINGS_MAX];
    const size_t count = filings_of(index, condition, value, filings);
    size_t best = 0;

    *cost = UINT64_MAX;
    for (size_t f = 0; f < count; f++) {
        const uint64_t mentions = bucket_of(draft, &filings[f])->mentions;
        const uint64_t weighed = filings[f].kind == POLICY_FILED_EXACT ? mentions : 2 * mentions;
        if (weighed < *cost) {
            *cost = weighed;
            best = f;
        }
    }
    ASSERT(count >= 1 && count <= POLICY_FILINGS_MAX);
    return filings[best];
}

/* The match under whose values the fewest rules fall. */
static uint32_t rarest_match(const struct policy_index *index, const struct draft *draft,
                             size_t rank)
{
    uint32_t best = 0;
    uint64_t best_cost = UINT64_MAX;

    for (uint32_t m = 0; m < draft->rules[rank]->match_count; m++) {
        const struct condition condition = condition_of(draft, rank, m);
        uint64_t worst = 0;
        for (uint32_t v = 0; v < condition.match->value_count; v++) {
            uint64_t cost;
            (void)rarest_filing(index, draft, &condition, v, &cost);
            worst = worst > cost ? worst : cost;
        }
        if (worst < best_cost) {
            best_cost = worst;
            best = m;
        }
    }
    return best;
}

/* Counts the rule in the buckets of its chosen match, or writes its place there; once each
 * (INDEX-2). */
static void file_rule(struct policy_index *index, struct draft *draft, size_t rank, bool write)
{
    const struct condition condition = condition_of(draft, rank, draft->chosen[rank]);

    for (uint32_t v = 0; v < condition.match->value_count; v++) {
        uint64_t cost;
        const struct policy_filing filing = rarest_filing(index, draft, &condition, v, &cost);
        struct draft_bucket *from = bucket_of(draft, &filing);
        if (from->newest == rank + 1)
            continue;
        from->newest = (uint32_t)rank + 1;
        if (!write) {
            policy_filed_use(&index->attributes[condition.attribute].filed, &filing);
            from->filed++;
            continue;
        }
        struct policy_bucket *bucket = &index->buckets[from->slot];
        ASSERT(bucket->hash == filing.hash && from->filed >= 1); /* INDEX-1 */
        if (from->filed == 1) {
            bucket->at = index->plan_at[rank];
        } else {
            uint32_t *list = index->places + (bucket->at & ~POLICY_BUCKET_LIST);
            ASSERT(list[0] < from->filed); /* INDEX-2 */
            list[++list[0]] = index->plan_at[rank];
        }
    }
}

/* Files all enabled rules that match something: counts them, or writes their places. */
static void file_rules(struct policy_index *index, struct draft *draft, bool write)
{
    for (size_t i = 0; i <= draft->mask; i++)
        draft->buckets[i].newest = 0;
    for (size_t i = 0; i < draft->rule_count; i++) {
        if (policy_acts(draft->rules[i]) && draft->rules[i]->match_count > 0)
            file_rule(index, draft, i, write);
    }
}

/* Makes the final table of the draft's buckets in use, with room for their places. */
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
    memset(index->buckets, 0xff, ((size_t)index->bucket_mask + 1) * sizeof(*index->buckets));
    for (size_t i = 0; i <= draft->mask; i++) {
        struct draft_bucket *from = &draft->buckets[i];
        if (from->filed == 0)
            continue;
        from->slot = from->hash & index->bucket_mask;
        while (index->buckets[from->slot].at != POLICY_INDEX_NONE)
            from->slot = (from->slot + 1) & index->bucket_mask;
        index->buckets[from->slot] =
            (struct policy_bucket){from->hash, from->filed > 1 ? POLICY_BUCKET_LIST | listed : 0};
        listed += from->filed > 1 ? from->filed + 1 : 0;
    }
    if (listed >= POLICY_BUCKET_LIST)
        return TG_ENOMEM;
    index->places = chunks_get(chunks, listed, sizeof(*index->places));
    return index->places == NULL ? TG_ENOMEM : TG_OK;
}

/* Lists the enabled rules that match whatever comes. */
static int list_always(struct policy_index *index, struct chunks *chunks, const struct draft *draft)
{
    uint32_t *places = chunks_get(chunks, draft->rule_count, sizeof(*places));

    if (places == NULL)
        return TG_ENOMEM;
    index->always.places = places;
    for (size_t i = 0; i < draft->rule_count; i++) {
        if (policy_acts(draft->rules[i]) && draft->rules[i]->match_count == 0)
            places[index->always.count++] = index->plan_at[i];
    }
    return TG_OK;
}

static int build(struct policy_index *index, struct chunks *chunks, struct draft *draft)
{
    if (number_attributes(index, chunks, draft) != TG_OK ||
        pack_rules(index, chunks, draft) != TG_OK || list_always(index, chunks, draft) != TG_OK)
        return TG_ENOMEM;
    draft->mask = table_len(learn(index, draft)) - 1;
    draft->buckets = chunks_get(&draft->chunks, (size_t)draft->mask + 1, sizeof(*draft->buckets));
    draft->chosen = chunks_get(&draft->chunks, draft->rule_count, sizeof(*draft->chosen));
    if (draft->buckets == NULL || draft->chosen == NULL)
        return TG_ENOMEM;
    count_mentions(index, draft);
    for (size_t i = 0; i < draft->rule_count; i++) {
        if (policy_acts(draft->rules[i]))
            draft->chosen[i] = rarest_match(index, draft, i);
    }
    file_rules(index, draft, false);
    if (lay_out(index, chunks, draft) != TG_OK)
        return TG_ENOMEM;
    file_rules(index, draft, true);
    for (uint32_t i = 0; i < index->attribute_count; i++)
        policy_filed_end(&index->attributes[i].filed);
    return TG_OK;
}

int policy_index_init(struct policy_index *index, struct chunks *chunks,
                      const struct attribute_kinds *kinds, struct policy_rule **rules,
                      size_t rule_count)
{
    struct draft draft = {.kinds = kinds, .rules = rules, .rule_count = rule_count};

    ASSERT(rule_count <= POLICY_RULES_MAX + POLICY_TIERS_MAX);
    *index = (struct policy_index){.plans = NULL};
    chunks_init(&draft.chunks, chunks->allocator, POLICY_MEMORY_MAX);
    const int result = build(index, chunks, &draft);
    chunks_fini(&draft.chunks);
    return result;
}

/* --- asking ---------------------------------------------------------------------------- */

size_t policy_index_hashes(const struct policy_index *index, uint32_t attribute,
                           const struct policy_text *value, const struct policy_ip *ip,
                           uint32_t *hashes)
{
    ASSERT(attribute < index->attribute_count);
    const struct policy_filed *filed = &index->attributes[attribute].filed;
    size_t count = policy_filed_hashes(filed, attribute, value, hashes);

    if (ip->len != 0)
        count += policy_filed_block_hashes(filed, attribute, ip, hashes + count);
    return count;
}

static const struct policy_bucket *find_bucket(const struct policy_index *index, uint32_t hash)
{
    uint32_t at = hash & index->bucket_mask;

    while (index->buckets[at].at != POLICY_INDEX_NONE && index->buckets[at].hash != hash)
        at = (at + 1) & index->bucket_mask;
    return &index->buckets[at];
}

void policy_index_prefetch(const struct policy_index *index, const uint32_t *hashes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        prefetch(&index->buckets[hashes[i] & index->bucket_mask]);
}

size_t policy_index_find(const struct policy_index *index, uint32_t *hashes, size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        const uint32_t at = find_bucket(index, hashes[i])->at;
        if (at != POLICY_INDEX_NONE)
            hashes[found++] = at;
    }
    return found;
}

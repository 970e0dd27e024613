/* people.c - quota records as one table by the user's name; see people.h.
 *
 *   table    lookup.h, by a hash of the user; entry: user and tier (one text behind the other),
 *            own limits, verdict
 *
 *   encoded  u8 version | u8 flags | [str16 tier] | own limits | [u64 until | str16 reason] |
 *            str16 notes
 *
 * Must not: allocate while looking, or trust a record that comes from elsewhere.
 */
#include "node/policy/people/people.h"

#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "node/policy/index/lookup.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_pattern.h"

enum { ENCODING = 1, FLAG_TIER = 1, FLAG_BLOCKED = 2, FLAGS = 3, STATUS_BLOCKED = 403 };

#define NOTHING UINT32_MAX

struct entry {
    const char *user; /* the tier lies behind its NUL */
    uint16_t user_len;
    uint16_t tier_len; /* 0: none */
    uint32_t own;      /* index, or NOTHING */
    uint32_t verdict;  /* index, or NOTHING */
};

struct verdict {
    struct policy_rule rule;
};

struct people {
    struct lookup table;     /* of struct entry */
    _Atomic uint32_t shares; /* how often people_free leaves it in place */
    struct own_limits *owns;
    size_t own_count;
    size_t own_capacity;
    struct verdict *verdicts;
    size_t verdict_count;
    size_t verdict_capacity;
};

/* ---- records --------------------------------------------------------------------------------- */

bool people_tier_ok(const char *text, size_t len)
{
    if (len == 0 || len > POLICY_TIER_LEN_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
        if (!ok)
            return false;
    }
    return true;
}

bool people_tier_known(const struct policy *policy, const char *text, size_t len)
{
    const struct policy_text tier = {text, len};
    struct policy_pattern_space space;

    policy_pattern_begin(&space);
    for (size_t i = 0; i < policy_rule_count(policy); i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);
        for (uint32_t m = 0; m < rule->match_count; m++)
            for (uint32_t v = 0; policy_text_is(&rule->matches[m].attribute, "tier") &&
                                 v < rule->matches[m].value_count;
                 v++)
                if (policy_pattern_match(&rule->matches[m].values[v], &tier, false, &space))
                    return true;
    }
    return false;
}

size_t quota_encode(const struct quota *quota, uint8_t out[PEOPLE_ENCODED_MAX])
{
    struct bytes_writer writer;

    bytes_writer_init(&writer, out, PEOPLE_ENCODED_MAX);
    bytes_put_u8(&writer, ENCODING);
    bytes_put_u8(&writer, (uint8_t)((quota->tier.len != 0 ? FLAG_TIER : 0) |
                                    (quota->blocked ? FLAG_BLOCKED : 0)));
    if (quota->tier.len != 0)
        bytes_put_str16(&writer, quota->tier.data, quota->tier.len);
    own_limits_put(&quota->own, &writer);
    if (quota->blocked) {
        bytes_put_u64(&writer, quota->until_ms);
        bytes_put_str16(&writer, quota->reason.data, quota->reason.len);
    }
    bytes_put_str16(&writer, quota->notes.data, quota->notes.len);
    ASSERT(!writer.failed);
    return writer.len;
}

static struct policy_text get_text(struct bytes_reader *reader, size_t len_max)
{
    size_t len = 0;
    const uint8_t *data = bytes_get_str16(reader, &len);

    reader->failed = reader->failed || len > len_max;
    return (struct policy_text){data == NULL ? "" : (const char *)data, data == NULL ? 0 : len};
}

int quota_decode(const void *bytes, size_t len, struct quota *quota)
{
    struct bytes_reader reader;

    bytes_reader_init(&reader, bytes, len);
    const uint8_t version = bytes_get_u8(&reader);
    const uint8_t flags = bytes_get_u8(&reader);
    *quota = (struct quota){.tier = {"", 0}, .reason = {"", 0}, .notes = {"", 0}};
    if (reader.failed)
        return TG_EPROTOCOL;
    if (version != ENCODING || (flags & ~FLAGS) != 0)
        return TG_EVERSION;
    if ((flags & FLAG_TIER) != 0) {
        quota->tier = get_text(&reader, POLICY_TIER_LEN_MAX);
        reader.failed = reader.failed || !people_tier_ok(quota->tier.data, quota->tier.len);
    }
    const int result = own_limits_get(&reader, &quota->own);
    quota->blocked = (flags & FLAG_BLOCKED) != 0;
    if (quota->blocked) {
        quota->until_ms = bytes_get_u64(&reader);
        quota->reason = get_text(&reader, POLICY_MESSAGE_LEN_MAX);
    }
    quota->notes = get_text(&reader, PEOPLE_NOTES_LEN_MAX);
    return result == TG_OK && !reader.failed && bytes_left(&reader) == 0 ? TG_OK : TG_EPROTOCOL;
}

uint64_t people_hash(const char *user, size_t len)
{
    static const struct hash_key key = {{0}}; /* operators choose what is in here, not callers */
    const uint64_t hash = hash64(&key, user, len);
    return hash != 0 ? hash : 1;
}

/* ---- the table ------------------------------------------------------------------------------- */

static uint32_t add_own(struct people *people, const struct own_limits *own)
{
    if (own_limits_empty(own))
        return NOTHING;
    ASSERT(people->own_count < people->own_capacity); /* PEOPLE-4 */
    people->owns[people->own_count] = *own;
    return (uint32_t)people->own_count++;
}

static uint32_t add_verdict(struct people *people, const struct quota *quota)
{
    if (!quota->blocked)
        return NOTHING;
    ASSERT(people->verdict_count < people->verdict_capacity); /* PEOPLE-4 */
    struct verdict *verdict = &people->verdicts[people->verdict_count];
    *verdict = (struct verdict){
        .rule = {.name = {"", 0},
                 .group = {"", 0},
                 .message = lookup_keep(&people->table, quota->reason.data, quota->reason.len),
                 .until_ms = quota->until_ms,
                 .act = POLICY_ACT_BLOCK,
                 .status = STATUS_BLOCKED,
                 .enabled = true},
    };
    return (uint32_t)people->verdict_count++;
}

static void add(struct people *people, const struct quota *quota)
{
    struct lookup *table = &people->table;
    struct entry *entry = lookup_add(table);
    entry->user = lookup_keep(table, quota->user.data, quota->user.len).data;
    entry->user_len = (uint16_t)quota->user.len;
    (void)lookup_keep(table, quota->tier.data, quota->tier.len);
    entry->tier_len = (uint16_t)quota->tier.len;
    entry->own = add_own(people, &quota->own);
    entry->verdict = add_verdict(people, quota);
    lookup_file(table, people_hash(quota->user.data, quota->user.len));
}

static const struct entry *look_up(const struct people *people, const struct policy_text *user,
                                   uint64_t hash)
{
    const struct lookup *table = &people->table;
    const struct entry *entry;
    uint32_t at = lookup_home(table, hash);
    while ((entry = lookup_at(table, at)) != NULL &&
           (entry->user_len != user->len || memcmp(entry->user, user->data, user->len) != 0))
        at = lookup_next(table, at);
    return entry;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Takes the memory for `count` records; all or nothing. */
static bool reserve(struct people *people, const struct allocator *allocator,
                    const struct quota *quotas, size_t count)
{
    size_t bytes = 0;
    people->own_capacity = people->verdict_capacity = 1;
    for (size_t i = 0; i < count; i++) {
        bytes += quotas[i].user.len + quotas[i].tier.len + quotas[i].reason.len + 3;
        people->own_capacity += !own_limits_empty(&quotas[i].own);
        people->verdict_capacity += quotas[i].blocked;
    }
    const int error = lookup_init(&people->table, allocator, count, sizeof(struct entry), bytes);
    people->owns = alloc_array(allocator, people->own_capacity, sizeof *people->owns);
    people->verdicts = alloc_array(allocator, people->verdict_capacity, sizeof *people->verdicts);
    return error == 0 && people->owns != NULL && people->verdicts != NULL;
}

int people_new(const struct allocator *allocator, const struct quota *quotas, size_t count,
               struct people **out)
{
    *out = NULL;
    if (count > PEOPLE_MAX)
        return TG_ETOOBIG;
    struct people *people = alloc_get(allocator, sizeof *people);
    if (people == NULL)
        return TG_ENOMEM;
    if (!reserve(people, allocator, quotas, count)) {
        people_free(&people);
        return TG_ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        if (quotas[i].user.len > 0 && quotas[i].user.len <= POLICY_VALUE_LEN_MAX)
            add(people, &quotas[i]);
    *out = people;
    return TG_OK;
}

struct people *people_share(struct people *people)
{
    atomic_fetch_add(&people->shares, 1);
    return people;
}

void people_free(struct people **pointer)
{
    struct people *people = *pointer;

    *pointer = NULL;
    if (people == NULL || atomic_fetch_sub(&people->shares, 1) != 0)
        return;
    const struct allocator *allocator = people->table.allocator;
    lookup_fini(&people->table);
    alloc_put(allocator, people->owns, people->own_capacity * sizeof *people->owns);
    alloc_put(allocator, people->verdicts, people->verdict_capacity * sizeof *people->verdicts);
    alloc_put(allocator, people, sizeof *people);
}

size_t people_count(const struct people *people)
{
    return people == NULL ? 0 : people->table.count;
}

static uint64_t hash_of(const void *entry)
{
    const struct entry *record = entry;
    return people_hash(record->user, record->user_len);
}

void people_check_invariants(const struct people *people)
{
    uint32_t owns = 0;
    uint32_t verdicts = 0;
    if (people == NULL)
        return;
    lookup_check(&people->table, hash_of);
    for (size_t i = 0; i < people->table.count; i++) {
        const struct entry *entry = (const void *)(people->table.entries + i * sizeof *entry);
        const char *tier = entry->user + entry->user_len + 1;
        INVARIANT("PEOPLE-4", entry->user_len >= 1 && entry->user_len <= POLICY_VALUE_LEN_MAX);
        INVARIANT("PEOPLE-4", entry->user[entry->user_len] == '\0');
        INVARIANT("PEOPLE-4", entry->tier_len == 0 || people_tier_ok(tier, entry->tier_len));
        INVARIANT("PEOPLE-4", entry->own == NOTHING || entry->own == owns);
        INVARIANT("PEOPLE-4", entry->verdict == NOTHING || entry->verdict == verdicts);
        owns += entry->own != NOTHING;
        verdicts += entry->verdict != NOTHING;
    }
    INVARIANT("PEOPLE-4", owns == people->own_count && owns < people->own_capacity);
    INVARIANT("PEOPLE-4", verdicts == people->verdict_count && verdicts < people->verdict_capacity);
    for (uint32_t i = 0; i < owns; i++)
        INVARIANT("PEOPLE-4", !own_limits_empty(&people->owns[i]));
    for (uint32_t i = 0; i < verdicts; i++)
        INVARIANT("PEOPLE-4", people->verdicts[i].rule.act == POLICY_ACT_BLOCK);
}

/* ---- a request ------------------------------------------------------------------------------- */

static bool is_named(const struct policy_attribute *attribute, const char *name, size_t len)
{
    return attribute->name_len == len && memcmp(attribute->name, name, len) == 0;
}

/* The request's attribute of that name, as rules see it: the first that is not empty; or NULL. */
static const struct policy_attribute *value_of(const struct policy_attribute *attributes,
                                               size_t count, const char *name)
{
    const size_t len = strlen(name);

    for (size_t i = 0; i < count; i++)
        if (attributes[i].value_len > 0 && is_named(&attributes[i], name, len))
            return &attributes[i];
    return NULL;
}

/* Makes the tier that of the record (PEOPLE-1): the first attribute of a name counts. */
static void set_tier(struct policy_attribute *attributes, size_t *count, const char *tier,
                     size_t len)
{
    size_t at = 0;

    while (at < *count && !is_named(&attributes[at], "tier", 4))
        at++;
    ASSERT(at < POLICY_ATTRIBUTES_MAX);
    attributes[at] = (struct policy_attribute){"tier", 4, tier, len};
    *count += at == *count;
}

void people_find(const struct people *people, struct policy_attribute *attributes, size_t *count,
                 uint64_t now_ms, struct person *person)
{
    const struct policy_attribute *user = NULL;

    if (people != NULL)
        user = value_of(attributes, *count, "user");
    if (user == NULL)
        return;
    person->user = (struct policy_text){user->value, user->value_len};
    const uint64_t hash = people_hash(user->value, user->value_len);
    const struct entry *entry = look_up(people, &person->user, hash);
    if (entry == NULL)
        return;
    person->user_hash = hash;
    ASSERT(entry->verdict == NOTHING || entry->verdict < people->verdict_count);
    ASSERT(entry->own == NOTHING || entry->own < people->own_count); /* PEOPLE-4 */
    if (entry->verdict != NOTHING) {
        const struct verdict *verdict = &people->verdicts[entry->verdict];
        if (verdict->rule.until_ms == 0 || now_ms < verdict->rule.until_ms)
            person->denied = &verdict->rule;
    }
    if (entry->own != NOTHING)
        person->own = &people->owns[entry->own];
    if (entry->tier_len > 0 && !person->tiered)
        set_tier(attributes, count, entry->user + entry->user_len + 1, entry->tier_len);
}

/* Drops the last part of a rule on trial, which gives way (POLICYRESOLVE-2). */
static bool drop_trial(struct policy_result *result)
{
    for (uint32_t i = result->part_count; i-- > 0;) {
        if (!result->parts[i].rule->shadow)
            continue;
        memmove(&result->parts[i], &result->parts[i + 1],
                (result->part_count - i - 1) * sizeof *result->parts);
        result->part_count--;
        return true;
    }
    return false;
}

/* Adds a part with own limits alone. */
static void add_part(struct policy_result *result, const struct policy_rule *rule,
                     const struct policy_text *value, const struct own_limits *own)
{
    if (result->part_count == POLICY_PARTS_MAX && !drop_trial(result)) {
        /* a limit is never lost in silence */
        result->action = POLICY_OVERFLOW;
        result->part_count = 0;
        return;
    }
    ASSERT(result->part_count < POLICY_PARTS_MAX);
    struct policy_part *part = &result->parts[result->part_count++];
    part->rule = rule;
    part->values[0] = *value;
    part->own = own;
    result->action = POLICY_LIMITS;
    result->allowed = true;
}

/* Whether rules below all others act: no rule ended the search. */
static bool may_act(const struct policy_result *result)
{
    return result->rule == NULL && result->action != POLICY_OVERFLOW;
}

void people_apply(const struct person *person, const struct policy_attribute *attributes,
                  size_t count, struct policy_result *result)
{
    if (person->own != NULL) {
        uint32_t at = 0;
        while (at < result->part_count && !result->parts[at].rule->plan)
            at++;
        if (at < result->part_count)
            result->parts[at].own = person->own;
        else if (may_act(result) && own_limits_limit(person->own))
            add_part(result, own_limits_user_rule(), &person->user, person->own);
    }
    if (person->key_own != NULL && may_act(result) && result->allowed) {
        const struct policy_attribute *key = value_of(attributes, count, "api_key");
        if (key != NULL)
            add_part(result, own_limits_key_rule(),
                     &(struct policy_text){key->value, key->value_len}, person->key_own);
    }
}

/* pool_reader.c - the `pools:` of a rules file: rates that elastic limits share.
 *
 *   pools:
 *     api: {rate: 10000/s, load_max: 0.8, reserve: 5%}
 *     all: {rate: 9000/s, scope: global, home: eu}       one rate for all regions
 *
 * POOLREADER-1  The pools are sorted by name: their order in the file means nothing.
 * POOLREADER-2  No two pools have one id. Ids are hashes of names, so two names that meet are
 *               refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/sat.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/readers/readers.h"
#include "node/policy/readers/yaml_reader.h"

enum { PPM = 1000000, PPM_PLACES = 6, NS_PER_S = 1000000000 };

static uint32_t id_of(const struct policy_text *name)
{
    static const struct hash_key key = {{0}}; /* names come from the operator: no secret needed */
    const uint32_t id = (uint32_t)hash64(&key, name->data, name->len);
    return id == 0 ? 1 : id;
}

/* Reads a decimal number above 0 and at most 1 as millionths. */
static int read_load(const struct rule_place *place, uint32_t *ppm)
{
    char what[RULE_WHAT_LEN];
    const char *text;
    size_t len;

    const int result = rule_scalar(place, POOL_LOAD_MAX, &text, &len);
    if (result != TG_OK || text == NULL)
        return result;
    if (policy_parse_load(text, len, ppm) != TG_OK || *ppm == 0)
        return yaml_reader_fail(place->reader, place->fields[POOL_LOAD_MAX].node,
                                "%s: found \"%s\"; expected a number above 0 and at most 1, such "
                                "as 0.8",
                                rule_what(place, POOL_LOAD_MAX, what), text);
    return TG_OK;
}

int policy_parse_load(const char *text, size_t len, uint32_t *ppm)
{
    uint32_t number = 0;
    size_t places = 0;

    if (len == 0 || (text[0] != '0' && text[0] != '1'))
        return TG_EINVALID;
    number = text[0] == '1' ? PPM : 0;
    if (len == 2 || (len > 1 && text[1] != '.'))
        return TG_EINVALID;
    uint32_t unit = PPM;
    for (size_t i = 2; i < len; i++, places++) {
        if (text[i] < '0' || text[i] > '9' || places == PPM_PLACES)
            return TG_EINVALID;
        unit /= 10;
        number += unit * (uint32_t)(text[i] - '0');
    }
    if (number > PPM)
        return TG_EINVALID;
    *ppm = number;
    return TG_OK;
}

static int read_rate(const struct rule_place *place, struct quantity_rate *rate)
{
    const uint32_t node = place->fields[POOL_RATE].node;
    char sentence[QUANTITY_ERROR_LEN];
    const char *text;
    size_t len;

    const int result = rule_scalar(place, POOL_RATE, &text, &len);
    if (result != TG_OK)
        return result;
    if (quantity_parse_rate(text, rate, sentence) != TG_OK)
        return yaml_reader_fail(place->reader, node, "pools.%s", sentence);
    if (sat_muldiv_up(rate->count, NS_PER_S, rate->window_ns) > LIMIT_RATE_MAX)
        return yaml_reader_fail(place->reader, node,
                                "pools.rate: found \"%s\"; expected at most %llu per second", text,
                                LIMIT_RATE_MAX);
    return TG_OK;
}

/* Which regions lend of it. */
static int read_scope(struct policy *policy, const struct rule_place *place,
                      struct policy_pool *pool)
{
    int result = policy_read_scope(place, POOL_SCOPE, &pool->scope);
    if (result == TG_OK && pool->scope != POLICY_SCOPE_GLOBAL)
        result = policy_refuse_local(place, POOL_HOME);
    if (result == TG_OK)
        result =
            policy_read_home(&policy->chunks, place, POOL_HOME, &pool->home, &pool->home_region);
    return result;
}

static int read_pool(struct policy *policy, const struct yaml_reader *reader, uint32_t name,
                     struct policy_pool *pool)
{
    struct yaml_reader_field fields[POOL_KEYS];
    const struct rule_place place = {reader, RULE_MAP_POOL, NULL, fields};

    pool->load_max_ppm = PPM;
    int result = policy_read_text(&policy->chunks, reader, name, "pools", 1, POLICY_NAME_LEN_MAX,
                                  &pool->name);
    if (result == TG_OK)
        pool->id = id_of(&pool->name);
    if (result == TG_OK)
        result =
            rule_fields(reader, yaml_reader_at(reader, name)->next, RULE_MAP_POOL, NULL, fields);
    if (result == TG_OK)
        result = read_rate(&place, &pool->rate);
    if (result == TG_OK)
        result = read_load(&place, &pool->load_max_ppm);
    if (result == TG_OK)
        result = rule_percent(&place, POOL_RESERVE, &pool->reserve_percent);
    if (result == TG_OK)
        result = read_scope(policy, &place, pool);
    if (result != TG_OK)
        return result;
    const struct policy_pool *other = policy_pool_by_id(policy, pool->id);
    if (other != NULL) /* POOLREADER-2 */
        return yaml_reader_fail(reader, name,
                                "pools: found a name that cannot be told from \"%.64s\"; expected "
                                "another one",
                                other->name.data);
    return TG_OK;
}

/* Puts the pool read last in its place (POOLREADER-1). */
static void sort_in(struct policy *policy)
{
    size_t at = policy->pool_count - 1;
    for (; at > 0 && policy_text_compare(&policy->pools[at].name, &policy->pools[at - 1].name) < 0;
         at--) {
        const struct policy_pool pool = policy->pools[at];
        policy->pools[at] = policy->pools[at - 1];
        policy->pools[at - 1] = pool;
    }
}

int policy_read_pools(struct policy *policy, const struct yaml_reader *reader, uint32_t node)
{
    int result = yaml_reader_mapping(reader, node, "pools", 0,
                                     (uint32_t)rule_key(RULE_MAP_FILE, FILE_POOLS)->max);
    if (result != TG_OK)
        return result;
    policy->pools =
        chunks_get(&policy->chunks, yaml_reader_at(reader, node)->len, sizeof(*policy->pools));
    if (policy->pools == NULL)
        return TG_ENOMEM;
    uint32_t name = yaml_reader_at(reader, node)->first;
    while (name != YAML_READER_NONE) {
        struct policy_pool pool = {.id = 0};
        const int read = read_pool(policy, reader, name, &pool);
        if (!yaml_reader_goes_on(reader, read, &result))
            return result;
        if (read == TG_OK || pool.name.data != NULL) { /* who borrows from it is not to blame */
            policy->pools[policy->pool_count++] = pool;
            sort_in(policy);
        }
        name = yaml_reader_at(reader, yaml_reader_at(reader, name)->next)->next;
    }
    return result;
}

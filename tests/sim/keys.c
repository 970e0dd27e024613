/* keys.c - what clients ask for: keys with a limit of their own, and attributes that rules limit.
 *
 * Every phase has a set of keys of its own: exact ones of every algorithm with SIM_LIMIT a day,
 * then users and addresses, which two rules limit together, on different vnodes, and last those
 * that majorities keep, of which the whole history is judged. Windows are a day, so within a run
 * nothing is given back by time.
 *
 * Rules come in generations. A later one raises the limits; the keys stay the same, because a
 * changed rate keeps its count.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/people/policy_join.h"
#include "tests/sim/global.h"

enum {
    USER_LIMIT = 15,
    ADDRESS_LIMIT = 25,
    VAULT_LIMIT = 12,
    LENT_LIMIT = 2 * KEYS_LENT_SHARE,
    LENT_EACH = 4,
    MEMBER_LIMIT = 40,
    HOST_LIMIT = 60,
    TEAM_LIMIT = 200,
    GENERATION_STEP = 10,
    KEYS_EACH = 4,
    RULES_LEN = 1 << 14,
};

#define DAY_NS (24ull * 3600 * 1000000000)

static const char rules_text[] =
    "pools: {spare: {rate: %u/s}}\n"
    "domains:\n"
    "  - {domain: lent, on_failure: {local: {share: 50%%}}, descriptors: [\n"
    "      {key: guest, rate_limit: {unit: day, requests_per_unit: %u}}]}\n"
    "rules:\n"
    "  - name: per-user\n"
    "    match: {api: /pay}\n"
    "    key: [user]\n"
    "    on_failure: closed\n"
    "    limits:\n"
    "      - {rate: %u/24h, algorithm: token_bucket}\n"
    "      - {rate: %u/24h, algorithm: fixed_window}\n"
    "  - name: per-ip\n"
    "    match: {api: /pay}\n"
    "    key: [host]\n"
    "    on_failure: closed\n"
    "    limits:\n"
    "      - {rate: %u/24h, algorithm: sliding_log}\n"
    "  - name: vault\n"
    "    match: {api: /vault}\n"
    "    key: [account]\n"
    "    consistency: %s\n"
    "    on_failure: closed\n"
    "    limits:\n"
    "      - {rate: %u/24h, algorithm: token_bucket}\n"
    "  - name: safe\n"
    "    match: {api: /safe}\n"
    "    key: [account]\n"
    "    consistency: %s\n"
    "    on_failure: closed\n"
    "    limits:\n"
    "      - {rate: %u/24h, algorithm: sliding_log}\n"
    "  - {name: lent-local, match: {api: /local}, key: [guest],\n"
    "     on_failure: {local: {share: 50%%}},\n"
    "     limits: [{rate: %u/24h, algorithm: token_bucket}]}\n"
    "  - {name: lent-open, match: {api: /open}, key: [guest],\n"
    "     on_failure: open,\n"
    "     limits: [{rate: %u/24h, algorithm: token_bucket}]}\n"
    "  - {name: lent-closed, match: {api: /closed}, key: [guest],\n"
    "     on_failure: closed,\n"
    "     limits: [{rate: %u/24h, algorithm: token_bucket}]}\n"
    "  - {name: member, match: {api: /several}, key: [member],\n"
    "     limits: [{rate: %u/24h, algorithm: token_bucket},\n"
    "              {rate: %u/24h, algorithm: fixed_window}]}\n"
    "  - {name: host, match: {api: /several}, key: [host],\n"
    "     limits: [{rate: %u/24h, algorithm: sliding_log}]}\n"
    "  - {name: team, match: {api: /several}, key: [team],\n"
    "     consistency: %s,\n"
    "     limits: [{rate: %u/24h, algorithm: sliding_window}]}\n"
    "  - {name: flight, match: {api: /flight}, key: [guest], on_failure: closed,\n"
    "     limits: [{count: %u, algorithm: concurrency, timeout: 24h}]}\n"
    "  - {name: brief, match: {api: /brief}, key: [guest], on_failure: closed,\n"
    "     limits: [{count: %u, algorithm: concurrency, timeout: %ums}]}\n"
    "  - {name: borrow, match: {api: /borrow}, key: [guest],\n"
    "     mode: {elastic: {pool: spare}}, limits: [{rate: 2/s}]}\n"
    "  - {name: owner, match: {api: /owner}, key: [guest],\n"
    "     mode: {elastic: {pool: spare}}, limits: [{rate: 100000/s}]}\n"
    "  - {name: near, match: {api: /near}, key: [guest], consistency: any,\n"
    "     on_failure: closed, limits: [{rate: %u/24h, algorithm: sliding_log}]}\n"
    "  - {name: brisk, match: {api: /brisk}, key: [guest], consistency: any,\n"
    "     on_failure: closed, limits: [{rate: %u/s, burst: %u}]}\n"
    "  - {name: block, match: {api: /block}, key: [guest], consistency: %s,\n"
    "     on_failure: closed, limits: [{rate: %u/24h, algorithm: sliding_log}]}\n";

static void place_key(struct sim *sim, struct key *key, struct identity *identity)
{
    key->vnode = identity_vnode(&sim->identity.route_key, identity, sim->vnodes);
    key->id = identity_slot(&sim->identity.secret, identity, key->limit.algorithm, 0);
}

static struct key *add_key(struct sim *sim, enum key_kind kind, uint8_t algorithm, uint64_t count)
{
    ASSERT(sim->key_count < SIM_KEYS_MAX);
    struct key *key = &sim->keys[sim->key_count++];
    memset(key, 0, sizeof *key);
    key->kind = kind;
    key->limit.algorithm = algorithm;
    key->limit.count = count;
    key->limit.window_ns = DAY_NS;
    return key;
}

static void add_rule_key(struct sim *sim, enum key_kind kind, const char *text, const char *rule,
                         uint8_t algorithm, uint64_t count)
{
    struct identity identity;
    struct key *key = add_key(sim, kind, algorithm, count);
    if (kind == KEY_RULE)
        key->limit.count += GENERATION_STEP * sim->generation;
    snprintf(key->text, sizeof key->text, "%s", text);
    const struct identity_value value = {key->text, strlen(key->text)};
    const int error = identity_rule(&identity, rule, strlen(rule), &value, 1);
    ASSERT(error == 0);
    place_key(sim, key, &identity);
}

struct key_set keys_new(struct sim *sim, const char *name, uint32_t each)
{
    const uint32_t first = sim->key_count;
    struct identity identity;
    char text[SIM_TEXT_LEN];
    for (uint32_t i = 0; i < each * KEYS_EACH; i++) {
        const uint8_t algorithm = (uint8_t)((first + i) % ALGORITHM_COUNT);
        struct key *key = add_key(sim, KEY_EXACT, algorithm, SIM_LIMIT);
        snprintf(key->text, sizeof key->text, "%s-%u-%u", name, first, i);
        const int error = identity_inline(&identity, key->text, strlen(key->text));
        ASSERT(error == 0);
        place_key(sim, key, &identity);
    }
    for (uint32_t i = 0; i < KEYS_USERS; i++) {
        snprintf(text, sizeof text, "%s-%u-user-%u", name, first, i);
        add_rule_key(sim, KEY_RULE, text, "per-user", ALGORITHM_TOKEN_BUCKET, USER_LIMIT);
    }
    for (uint32_t i = 0; i < KEYS_ADDRESSES; i++) {
        snprintf(text, sizeof text, "%s-%u-ip-%u", name, first, i);
        add_rule_key(sim, KEY_RULE, text, "per-ip", ALGORITHM_SLIDING_LOG, ADDRESS_LIMIT);
    }
    const uint32_t count = sim->key_count - first;
    for (uint32_t i = 0; i < KEYS_VAULTS; i++) {
        snprintf(text, sizeof text, "%s-%u-vault-%u", name, first, i);
        add_rule_key(sim, KEY_QUORUM, text, i % 2 == 0 ? "vault" : "safe",
                     i % 2 == 0 ? ALGORITHM_TOKEN_BUCKET : ALGORITHM_SLIDING_LOG, VAULT_LIMIT);
    }
    return (struct key_set){first, count};
}

const char *keys_lent_name(enum lent lent)
{
    static const char *const names[] = {"local", "open", "closed", "named"};
    return names[lent];
}

struct key_set keys_lent(struct sim *sim, const char *name)
{
    const uint32_t first = sim->key_count;
    for (uint32_t i = 0; i < LENT_EACH * LENT_COUNT; i++) {
        const enum lent lent = (enum lent)(i % LENT_COUNT);
        char text[SIM_TEXT_LEN];
        char rule[SIM_TEXT_LEN];
        snprintf(text, sizeof text, "%s-%u-guest-%u", name, first, i);
        snprintf(rule, sizeof rule, "lent-%s", keys_lent_name(lent));
        if (lent == LENT_NAMED) {
            snprintf(text, sizeof text, "guest=%s-%u-%u", name, first, i);
            add_rule_key(sim, KEY_LENT, text, "domain lent", ALGORITHM_FIXED_WINDOW, LENT_LIMIT);
        } else {
            add_rule_key(sim, KEY_LENT, text, rule, ALGORITHM_TOKEN_BUCKET, LENT_LIMIT);
        }
        sim->keys[sim->key_count - 1].lent = lent;
    }
    return (struct key_set){first, sim->key_count - first};
}

struct key_set keys_several(struct sim *sim, const char *name)
{
    static const struct {
        const char *rule;
        uint8_t algorithm;
        uint32_t count;
        uint64_t limit;
    } kinds[SIM_ITEM_KEYS] = {
        {"member", ALGORITHM_TOKEN_BUCKET, KEYS_MEMBERS, MEMBER_LIMIT},
        {"host", ALGORITHM_SLIDING_LOG, KEYS_HOSTS, HOST_LIMIT},
        {"team", ALGORITHM_SLIDING_WINDOW, KEYS_TEAMS, TEAM_LIMIT},
    };
    const uint32_t first = sim->key_count;
    for (uint32_t kind = 0; kind < SIM_ITEM_KEYS; kind++) {
        for (uint32_t i = 0; i < kinds[kind].count; i++) {
            char text[SIM_TEXT_LEN];
            snprintf(text, sizeof text, "%s-%u-%s-%u", name, first, kinds[kind].rule, i);
            add_rule_key(sim, KEY_SEVERAL, text, kinds[kind].rule, kinds[kind].algorithm,
                         kinds[kind].limit);
        }
    }
    return (struct key_set){first, sim->key_count - first};
}

struct key_set keys_flight(struct sim *sim, const char *name)
{
    const uint32_t first = sim->key_count;
    for (uint32_t i = 0; i < LEASE_KEYS; i++) {
        char text[SIM_TEXT_LEN];
        snprintf(text, sizeof text, "%s-%u-%u", name, first, i);
        add_rule_key(sim, KEY_FLIGHT, text, i % 2 == 0 ? "flight" : "brief", ALGORITHM_CONCURRENCY,
                     LEASE_LIMIT);
    }
    return (struct key_set){first, LEASE_KEYS};
}

uint32_t keys_exact(struct key_set set)
{
    return set.count - KEYS_USERS - KEYS_ADDRESSES;
}

uint64_t keys_attempts(const struct sim *sim, struct key_set set)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = set.first; i < set.first + keys_exact(set); i++)
        if (sim->keys[i].attempts < least)
            least = sim->keys[i].attempts;
    return least;
}

void keys_rules(struct sim *sim, uint32_t generation)
{
    char text[RULES_LEN];
    struct policy_error error;
    const unsigned more = generation * GENERATION_STEP;
    ASSERT(sim->policy_count < SIM_POLICIES_MAX);
    const int len = snprintf(
        text, sizeof text, rules_text, BORROW_POOL_RATE, LENT_LIMIT, USER_LIMIT + more,
        USER_LIMIT + more + 5, ADDRESS_LIMIT + more, sim->options.quorum ? "quorum" : "one",
        VAULT_LIMIT, sim->options.quorum ? "quorum" : "one", VAULT_LIMIT, LENT_LIMIT, LENT_LIMIT,
        LENT_LIMIT, MEMBER_LIMIT, MEMBER_LIMIT + 5, HOST_LIMIT,
        sim->options.quorum ? "quorum" : "one", TEAM_LIMIT, LEASE_LIMIT, LEASE_LIMIT, KEYS_BRIEF_MS,
        HOLD_LIMIT, HOLD_RATE, HOLD_BURST, sim->options.quorum ? "quorum" : "one", HOLD_LIMIT);
    ASSERT(len > 0 && (size_t)len < sizeof text);
    const size_t all = (size_t)len + global_rules_text(sim, text + len, sizeof text - (size_t)len);
    struct policy *rules;
    int result = policy_compile(text, all, sim->allocator, &rules, &error);
    ASSERT(result == 0);
    const struct policy_joined with = {.version = sim->policy_count + 1};
    result = policy_join(sim->allocator, rules, &with, &sim->policies[sim->policy_count++]);
    ASSERT(result == 0);
    policy_free(&rules);
    if (generation == sim->generation)
        return;
    sim->generation = generation;
    for (uint32_t i = 0; i < sim->key_count; i++)
        if (sim->keys[i].kind == KEY_RULE)
            sim->keys[i].limit.count += GENERATION_STEP;
}

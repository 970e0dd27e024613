/* global_keys.c - the limits of phase global: their rules, where their keys are counted, and how
 * both change while they are used.
 *
 * Rules are what sim->global_rules says of them: so many percent of their numbers, and a home. A
 * change of some of them is a new set of rules, which reaches the nodes one after another, those of
 * a region that is far away later. Until all have had it for a while (check_global.c) either may
 * count.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/vocabulary.h"
#include "node/policy/model/policy.h"
#include "tests/sim/global.h"

enum {
    HERE = 0,
    REMOTE = 1,
    FAR = 2, /* the third region, or the second where there are but two */
    BY_HASH = SIM_REGIONS_MAX,
    ALL_PERCENT = 100,
    LOW_PERCENT = 60,
    HIGH_PERCENT = 140,
    REGION_LATE_MS = 500, /* a change comes to a region so late, at most, */
    NODE_LATE_MS = 200,   /* and then to its nodes */
    MOVED_MAX = 2,
};

static const struct kind {
    const char *rule;
    const char *api;
    uint32_t home;
    const char *failure;
    struct limit limit;
} kinds[GLOBAL_KEYS] = {
#define DAY   .count = GLOBAL_LIMIT, .window_ns = UINT64_C(86400000000000)
#define SHORT .count = GLOBAL_WINDOW_LIMIT, .window_ns = GLOBAL_WINDOW_S * UINT64_C(1000000000)
#define BUCKET                                                                                     \
    .count = GLOBAL_RATE, .window_ns = 1000000000, .burst = GLOBAL_BURST,                          \
    .algorithm = ALGORITHM_TOKEN_BUCKET
    {"log", "log", HERE, "closed", {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"day", "day", REMOTE, "closed", {DAY, .algorithm = ALGORITHM_FIXED_WINDOW}},
    {"slide", "slide", BY_HASH, "closed", {DAY, .algorithm = ALGORITHM_SLIDING_WINDOW}},
    {"steps", "steps", FAR, "closed", {DAY, .algorithm = ALGORITHM_SLIDING_BUCKETS}},
    {"share", "share", HERE, NULL, {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"ajar", "ajar", REMOTE, "open", {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"turn", "turn", HERE, "closed", {SHORT, .algorithm = ALGORITHM_FIXED_WINDOW}},
    {"turn-q", "turn-q", FAR, "closed", {SHORT, .algorithm = ALGORITHM_FIXED_WINDOW}},
    {"brook", "brook", HERE, "closed", {BUCKET}},
    {"brook-q", "brook-q", REMOTE, "closed", {BUCKET}},
    {"pair", "pair", HERE, "closed", {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"pair-q", "pair", FAR, "closed", {DAY, .algorithm = ALGORITHM_FIXED_WINDOW}},
#undef DAY
#undef SHORT
#undef BUCKET
};

_Static_assert(GLOBAL_KEYS == GLOBAL_PAIR + 2, "the last two are one request's");

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_WIDE);
}

const char *global_api(uint32_t number)
{
    return kinds[number].api;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* As the phase begins. */
static struct global_rule first_of(const struct sim *sim, uint32_t number)
{
    const uint32_t home = kinds[number].home;
    return (struct global_rule){ALL_PERCENT, home == FAR ? sim->options.regions - 1 : home};
}

static bool is_first(const struct sim *sim, uint32_t number)
{
    const struct global_rule rule = first_of(sim, number);
    return sim->global_rules[number].percent == rule.percent &&
           sim->global_rules[number].home == rule.home;
}

static struct limit limit_of(const struct sim *sim, uint32_t number)
{
    struct limit limit = kinds[number].limit;
    limit.count = limit.count * sim->global_rules[number].percent / ALL_PERCENT;
    limit.burst = limit.burst * sim->global_rules[number].percent / ALL_PERCENT;
    return limit;
}

static int put_rule(const struct sim *sim, uint32_t number, char *text, size_t room)
{
    const struct kind *kind = &kinds[number];
    const struct limit limit = limit_of(sim, number);
    const uint32_t home = sim->global_rules[number].home;
    char failure[SIM_TEXT_LEN];
    char numbers[SIM_TEXT_LEN];
    snprintf(failure, sizeof failure, "{local: {share: %u%%}}", GLOBAL_SHARE_PERCENT);
    if (limit_has_burst(limit.algorithm))
        snprintf(numbers, sizeof numbers, "%llu/s, burst: %llu", (unsigned long long)limit.count,
                 (unsigned long long)limit.burst);
    else
        snprintf(numbers, sizeof numbers, "%llu/%llus, algorithm: %s",
                 (unsigned long long)limit.count,
                 (unsigned long long)(limit.window_ns / (uint64_t)SIM_SEC),
                 algorithm_name(limit.algorithm));
    return snprintf(text, room,
                    "  - {name: %s, match: {api: /%s}, key: [guest], scope: global%s%s,\n"
                    "     on_failure: %s, limits: [{rate: %s}]}\n",
                    kind->rule, kind->api,
                    home == BY_HASH ? "" : ", home: ", home == BY_HASH ? "" : region_name(home),
                    kind->failure != NULL ? kind->failure : failure, numbers);
}

size_t global_rules_text(struct sim *sim, char *text, size_t room)
{
    size_t len = 0;
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        if (sim->policy_count == 0)
            sim->global_rules[i] = first_of(sim, i);
        const int more = put_rule(sim, i, text + len, room - len);
        ASSERT(more > 0 && (size_t)more < room - len);
        len += (size_t)more;
    }
    return len;
}

static void give_rules(struct sim *sim, struct node *node)
{
    if (node->up)
        node_rules(sim, node);
    node->policy = sim->policy_count - 1; /* the next process has them as well */
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Where a key of a rule that names no home is counted, as all nodes say: they are at rest. */
static uint32_t home_by_hash(const struct sim *sim, uint32_t vnode)
{
    const uint64_t id = inspect_home(sim->nodes[sim->node_count].shards[0], vnode);
    uint32_t region = 0;
    while (policy_region_id(region_name(region), strlen(region_name(region))) != id)
        region++;
    ASSERT(region < sim->options.regions);
    return region;
}

static struct limit share_of(struct limit limit)
{
    limit.count = limit.count * GLOBAL_SHARE_PERCENT / ALL_PERCENT;
    return limit;
}

static void place_key(struct sim *sim, uint32_t number)
{
    struct global_key *key = &sim->global.keys[number];
    const uint32_t home = sim->global_rules[number].home;
    struct identity identity;
    char text[SIM_TEXT_LEN];
    global_text(sim, number, text);
    const struct identity_value value = {text, strlen(text)};
    const int error =
        identity_rule(&identity, kinds[number].rule, strlen(kinds[number].rule), &value, 1);
    ASSERT(error == 0);
    key->limit = limit_of(sim, number);
    key->vnode = identity_vnode(&sim->identity.route_key, &identity, sim->vnodes);
    key->id = identity_slot(&sim->identity.secret, &identity, key->limit.algorithm, 0);
    key->home = home == BY_HASH ? home_by_hash(sim, key->vnode) : home;
    key->strict = true;
    key->counts[key->home] =
        (struct global_count){.kind = GLOBAL_HOME, .id = key->id, .limit = key->limit};
    for (uint32_t region = 0; number == GLOBAL_SHARE && region < sim->options.regions; region++)
        if (region != key->home)
            key->counts[region] = (struct global_count){.kind = GLOBAL_LOCAL,
                                                        .id = inspect_local_id(key->id),
                                                        .limit = share_of(key->limit)};
}

void global_text(const struct sim *sim, uint32_t number, char out[SIM_TEXT_LEN])
{
    /* Two rules meet one value. */
    const uint32_t value = number > GLOBAL_PAIR ? GLOBAL_PAIR : number;
    snprintf(out, SIM_TEXT_LEN, "global-%u-%u", sim->global.name, value);
}

void global_place(struct sim *sim)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++)
        place_key(sim, i);
}

void global_rules_reset(struct sim *sim)
{
    bool changed = false;
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        changed = changed || !is_first(sim, i);
        sim->global_rules[i] = first_of(sim, i);
    }
    if (!changed)
        return;
    keys_rules(sim, sim->generation);
    for (uint32_t i = 0; i < sim->all_count; i++)
        give_rules(sim, &sim->nodes[i]);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* From now on either limit may be in force, and none where it was not (check_global.c). */
static void unsettle(struct global_key *key)
{
    for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++)
        key->counts[region].before = key->counts[region].limit;
    key->strict = false;
    key->strict_ns = SIM_NEVER;
}

static void change_numbers(struct sim *sim, uint32_t percent)
{
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        struct global_key *key = &sim->global.keys[i];
        if (random_below(stream(sim), 2) == 0 || i == GLOBAL_SHARE)
            continue;
        sim->global_rules[i].percent = percent;
        unsettle(key);
        key->limit = key->counts[key->home].limit = limit_of(sim, i);
    }
    sim->coverage.global_lowered += percent < ALL_PERCENT;
    sim->coverage.global_raised += percent > ALL_PERCENT;
}

/* The key is counted anew in another region; what it was held for goes back or is spent. */
static void move_key(struct sim *sim, uint32_t number)
{
    struct global_key *key = &sim->global.keys[number];
    const uint32_t to =
        (key->home + 1 + (uint32_t)random_below(stream(sim), sim->options.regions - 1)) %
        sim->options.regions;
    if (number == GLOBAL_SHARE || key->moved)
        return;
    sim_tell(sim, 1, "key %u is to be counted in region %s", number, region_name(to));
    unsettle(key);
    key->counts[key->home].limit.count = key->counts[key->home].limit.burst = 0;
    key->counts[to] =
        (struct global_count){.kind = GLOBAL_HOME, .id = key->id, .limit = key->limit};
    key->moved = true;
    key->home = to;
    sim->global_rules[number].home = to;
    sim->coverage.global_moved++;
}

void global_rules_change(struct sim *sim)
{
    const uint64_t dice = random_below(stream(sim), 4);
    if (sim->global.changes > 0 || sim->policy_count + 2 > SIM_POLICIES_MAX)
        return;
    if (dice < 2)
        change_numbers(sim, dice == 0 ? LOW_PERCENT : HIGH_PERCENT);
    for (uint32_t i = 0; dice >= 2 && i < MOVED_MAX; i++)
        move_key(sim, (uint32_t)random_below(stream(sim), GLOBAL_KEYS));
    keys_rules(sim, sim->generation);
    sim_tell(sim, 1, "rules %u begin to be in force", sim->policy_count - 1);
    for (uint32_t region = 0; region < sim->options.regions; region++) {
        const int64_t late_ns = random_between(stream(sim), 0, REGION_LATE_MS) * SIM_MS;
        for (uint32_t i = region_first(sim, region); i < region_first(sim, region + 1); i++)
            sim->global.rules_ns[i] =
                sim->now_ns + late_ns + random_between(stream(sim), 0, NODE_LATE_MS) * SIM_MS;
    }
    sim->global.changes++;
    sim->coverage.rule_changes++;
}

bool global_rules_spread(struct sim *sim, bool at_once)
{
    bool all = true;
    for (uint32_t i = 0; sim->global.changes > 0 && i < sim->all_count; i++) {
        if (sim->nodes[i].policy == sim->policy_count - 1)
            continue;
        if (at_once || sim->now_ns >= sim->global.rules_ns[i])
            give_rules(sim, &sim->nodes[i]);
        else
            all = false;
    }
    return all;
}

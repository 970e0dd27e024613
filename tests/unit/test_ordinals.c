/* test_ordinals.c - which count is whose when limits are edited, and that no edit lets more
 * through.
 *
 * A store is a list of versions, each with its rules and the bytes that are kept beside them;
 * `edit` does what the node does that is asked for an edit, and `take` what every node does then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "client/protocol/identity.h"
#include "node/limit/engine/engine.h"
#include "node/policy/compile/ordinals.h"
#include "node/policy/compile/policy_check.h"
#include "node/policy/compile/policy_compile.h"
#include "node/policy/readers/own_limits.h"
#include "tests/unit/support_effort.h"

enum {
    TEXT_LEN = 2048,
    VERSIONS_MAX = 4096,
    KEPT = 64,
    BYTES_MAX = 8192,
    WINDOWS = 6,
    HISTORIES = EFFORT(60),
    EDITS = 120,
    ASKED = 60, /* between two edits */
    ADMITTED_MAX = EDITS * ASKED + 1,
};

#define S_NS     INT64_C(1000000000)
#define START_NS (INT64_C(1700000000) * S_NS)

/* ---- a store --------------------------------------------------------------------------------- */

struct version {
    char text[TEXT_LEN];
    uint8_t bytes[BYTES_MAX];
    size_t len;
};

struct store {
    struct version versions[VERSIONS_MAX]; /* number n at n - 1 */
    uint32_t count;
};

static struct store store;

static struct policy *compile(const char *text)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile(text, strlen(text), alloc_heap(), &policy, &error) != 0)
        fail_msg("line %u: %s in\n%s", error.line, error.message, text);
    policy_check_invariants(policy);
    return policy;
}

/* The rules of a version as every node has them. */
static struct policy *take(uint32_t number)
{
    const struct version *version = &store.versions[number - 1];
    struct policy *policy = compile(version->text);
    assert_int_equal(ordinals_give(policy, version->bytes, version->len, alloc_heap()), 0);
    policy_check_invariants(policy);
    return policy;
}

static void begin(const char *text)
{
    store.count = 1;
    store.versions[0].len = 0;
    (void)snprintf(store.versions[0].text, TEXT_LEN, "%s", text);
}

/* Applies new rules; what becomes of the counts is in `out`, if that is wanted. */
static void edit_room(const char *text, size_t room, struct ordinals *out)
{
    struct ordinals ordinals;
    struct policy *old = take(store.count);
    struct policy *new = compile(text);
    const struct version *before = &store.versions[store.count - 1];
    const struct ordinals_edit edit = {.old = old,
                                       .new = new,
                                       .known = before->bytes,
                                       .known_len = before->len,
                                       .version = store.count,
                                       .oldest = store.count > KEPT ? store.count - KEPT : 1,
                                       .len_max = room};
    assert_int_equal(ordinals_edit(&edit, alloc_heap(), &ordinals), 0);
    struct version *version = &store.versions[store.count++];
    assert_true(store.count < VERSIONS_MAX && ordinals.len <= BYTES_MAX);
    (void)snprintf(version->text, TEXT_LEN, "%s", text);
    memcpy(version->bytes, ordinals.bytes, ordinals.len);
    version->len = ordinals.len;
    /* ORDINALS-7: what every node gives is what was decided. */
    struct policy *taken = take(store.count);
    for (size_t i = 0; i < policy_rule_count(taken); i++) {
        const struct policy_rule *rule = policy_rule_at(taken, i);
        for (uint32_t k = 0; k < rule->limit_count; k++)
            assert_int_equal(rule->limits[k].ordinal, ordinals.given[i * POLICY_LIMITS_MAX + k]);
    }
    policy_free(&taken);
    policy_free(&old);
    policy_free(&new);
    if (out != NULL)
        *out = ordinals;
    else
        ordinals_fini(&ordinals);
}

static void edit(const char *text)
{
    edit_room(text, BYTES_MAX, NULL);
}

static void edit_limits(const char *limits)
{
    char text[TEXT_LEN];
    (void)snprintf(text, sizeof text, "rules: [{name: r, key: [user], limits: [%s]}]", limits);
    edit(text);
}

/* The ordinals of the newest version's rule, in order: "0 1 2". */
static void assert_ordinals(const char *name, const char *expected)
{
    char got[64] = "";
    struct policy *policy = take(store.count);
    const struct policy_rule *rule = policy_rule_find(policy, name, strlen(name));
    assert_non_null(rule);
    for (uint32_t i = 0; i < rule->limit_count; i++)
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u", i > 0 ? " " : "",
                       rule->limits[i].ordinal);
    assert_string_equal(got, expected);
    policy_free(&policy);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* First versions have positions, so that counts of an older release stay. */
static void first_versions_have_positions(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 9/h, algorithm: "
          "sliding_log}, {rate: 10/d}, {rate: 3/h, algorithm: sliding_log}]}]");
    assert_ordinals("r", "0 0 1 1");
    assert_int_equal(store.versions[0].len, 0);
}

/* Ten a day that are used up stay so when five a second are taken out in front of them. */
static void a_limit_keeps_its_count_when_one_before_it_goes(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]");
    edit_limits("{rate: 10/d}");
    assert_ordinals("r", "1");
    edit_limits("{rate: 20/d}"); /* another count is the same limit */
    assert_ordinals("r", "1");
    edit_limits("{rate: 20/d}, {rate: 5/s}"); /* and what comes back has its own again */
    assert_ordinals("r", "1 0");
    edit_limits("{rate: 7/m}, {rate: 5/s}, {rate: 20/d}"); /* what is new takes nobody's */
    assert_ordinals("r", "2 0 1");
}

/* A limit whose window alone was changed is the same limit, if it is clear which. */
static void a_changed_window_keeps_the_count_if_one_went_and_one_came(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]");
    edit_limits("{rate: 10/w}, {rate: 5/s}");
    assert_ordinals("r", "1 0");
    edit_limits("{rate: 10/month}, {rate: 7/h}"); /* two went and two came: nobody knows */
    assert_ordinals("r", "2 3");
    edit_limits("{rate: 10/d}, {rate: 5/s}"); /* they had these */
    assert_ordinals("r", "1 0");
}

/* Another algorithm counts in another way: it begins anew, and takes nothing from the others. */
static void another_algorithm_begins_anew(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]");
    edit_limits("{rate: 10/d, algorithm: sliding_log}, {rate: 5/s}");
    assert_ordinals("r", "0 0");
    edit_limits("{rate: 10/d}, {rate: 5/s}");
    assert_ordinals("r", "1 0");
    edit_limits("{rate: 10/d, algorithm: fixed_window}, {rate: 5/d, algorithm: fixed_window, "
                "align: calendar}");
    assert_ordinals("r", "0 1");
}

/* Two limits of one window are told apart by their counts, and else by their order. */
static void two_limits_of_one_window_stay_apart(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/h}, {rate: 100/h, burst: 500}]}]");
    edit_limits("{rate: 100/h, burst: 500}, {rate: 5/h}");
    assert_ordinals("r", "1 0");
    edit_limits("{rate: 100/h, burst: 500}");
    assert_ordinals("r", "1");
    edit_limits("{rate: 6/h}, {rate: 100/h, burst: 500}");
    assert_ordinals("r", "0 1");
}

/* A rule that was deleted and comes back goes on with what its limits counted. */
static void a_rule_that_comes_back_has_its_counts(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]");
    edit("rules: []");
    edit("rules: [{name: q, key: [user], limits: [{rate: 5/s}]}]");
    edit("rules: [{name: r, key: [user], limits: [{rate: 10/d}, {rate: 1/h}]}]");
    assert_ordinals("r", "1 2");
}

/* An ordinal is used again when no version that is kept has it, and not before. */
static void an_ordinal_is_free_when_no_kept_version_has_it(void **state)
{
    char text[TEXT_LEN];
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]");
    edit_limits("{rate: 10/d}");
    for (unsigned i = 0; i < KEPT; i++) {
        (void)snprintf(text, sizeof text, "{rate: %u/d}, {rate: 3/h}, {rate: 4/m}", 11 + i);
        if (i == 0)
            edit_limits(text);
        else
            edit_limits(i % 2 == 0 ? "{rate: 10/d}" : "{rate: 11/d}");
        if (i == 0)
            assert_ordinals("r", "1 2 3");
    }
    edit_limits("{rate: 10/d}, {rate: 1/year}");
    assert_ordinals("r", "1 0"); /* five a second are not known any more */
}

/* Where there is no room for what is gone it is forgotten; what is in force never is. */
static void without_room_only_what_is_gone_is_forgotten(void **state)
{
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}, {rate: 7/h}]}]");
    edit_room("rules: [{name: r, key: [user], limits: [{rate: 7/h}]}]", 40, NULL);
    assert_ordinals("r", "2");
    edit_limits("{rate: 7/h}, {rate: 10/d}");
    assert_ordinals("r", "2 0");
    /* Beside rules that leave no room at all, positions are what there is. */
    edit_room("rules: [{name: r, key: [user], limits: [{rate: 10/d}]}]", 8, NULL);
    assert_ordinals("r", "0");
    edit_limits("{rate: 1/w}, {rate: 10/d}");
    assert_ordinals("r", "1 0");
}

/* Bytes that nobody wrote change nothing: positions stay. */
static void damaged_bytes_leave_positions(void **state)
{
    struct random random;
    uint8_t bytes[BYTES_MAX];
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]}]");
    edit_limits("{rate: 10/d}, {rate: 5/s}");
    const struct version *version = &store.versions[1];
    random_init(&random, 4);
    for (unsigned i = 0; i < EFFORT(20000); i++) {
        struct policy *policy = compile(version->text);
        memcpy(bytes, version->bytes, version->len);
        bytes[random_below(&random, version->len)] ^= (uint8_t)(1 + random_below(&random, 255));
        const size_t len =
            random_below(&random, 4) == 0 ? random_below(&random, version->len) : version->len;
        (void)!ordinals_give(policy, bytes, len, alloc_heap());
        const struct limit *limits = policy_rule_at(policy, 0)->limits;
        assert_true(limits[0].ordinal != limits[1].ordinal);
        policy_free(&policy);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Whatever plan a user has, an hour of it is the hour of all plans, and of own limits. */
static void all_plans_share_one_count_of_a_unit(void **state)
{
    (void)state;
    begin(
        "tiers: {free: {limits: [{rate: 5/h}, {rate: 50/d}]},\n"
        "        premium: {limits: [{rate: 900/d}, {rate: 20/h}]}}\n"
        "rules: [{name: default, group: tier, priority: -1, key: [user], limits: [{rate: 2/h}]}]");
    struct policy *policy = take(1);
    for (size_t i = 0; i < policy_rule_count(policy); i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);
        assert_string_equal(rule->counted.data, own_limits_user_rule()->name.data);
        for (uint32_t k = 0; k < rule->limit_count; k++) {
            const bool hour = rule->limits[k].window_ns == (uint64_t)(3600 * S_NS);
            assert_int_equal(rule->limits[k].ordinal, OWN_ORDINAL + (hour ? OWN_HOUR : OWN_DAY));
        }
    }
    struct own_limits own = {.counts = {[OWN_MINUTE] = 9}};
    struct limit merged[OWN_MERGED_MAX];
    assert_int_equal(own_limits_merge(&own, policy_rule_at(policy, 0), merged), 3);
    assert_int_equal(merged[2].ordinal, OWN_ORDINAL + OWN_MINUTE);
    policy_free(&policy);
}

/* Windows of no unit are told apart over all plans together. */
static void windows_of_no_unit_are_one_in_all_plans(void **state)
{
    (void)state;
    begin(
        "tiers: {free: {limits: [{rate: 5/30m}, {rate: 6/2h}]}, gold: {limits: [{rate: 90/2h}]}}\n"
        "rules: []");
    assert_ordinals("tier free", "0 1");
    assert_ordinals("tier gold", "1");
    edit("tiers: {free: {limits: [{rate: 6/2h}]}, gold: {limits: [{rate: 90/2h}, {rate: 9/5m}]}}\n"
         "rules: []");
    assert_ordinals("tier free", "1");
    assert_ordinals("tier gold", "1 0"); /* one went and one came */
}

/* Two limits of one unit and algorithm in a plan do not share a count. */
static void two_limits_of_a_unit_are_two(void **state)
{
    (void)state;
    begin("tiers: {free: {limits: [{rate: 5/h}, {rate: 50/h, burst: 90}]}}\nrules: []");
    char expected[32];
    (void)snprintf(expected, sizeof expected, "%d %d", OWN_ORDINAL + OWN_HOUR,
                   OWN_ORDINAL + OWN_HOUR + 8);
    assert_ordinals("tier free", expected);
    begin("tiers: {free: {limits: [{rate: 5/d, algorithm: fixed_window}, {rate: 50/d, algorithm: "
          "fixed_window, align: calendar}]}}\nrules: []");
    (void)snprintf(expected, sizeof expected, "%d %d", OWN_ORDINAL + OWN_DAY,
                   OWN_ORDINAL + OWN_DAY + 8);
    assert_ordinals("tier free", expected);
}

/* What is told of an edit is what happens. */
static void what_is_told_is_what_happens(void **state)
{
    struct ordinals ordinals;
    (void)state;
    begin("rules: [{name: r, key: [user], limits: [{rate: 5/s}, {rate: 10/d}]},\n"
          "        {name: k, key: [user], limits: [{rate: 5/s}]}]");
    struct policy *old = take(1);
    edit_room("rules: [{name: r, key: [user], limits: [{rate: 9/d}, {rate: 1/m}, {rate: 2/h}]},\n"
              "        {name: k, key: [ip], limits: [{rate: 5/s}]}]",
              BYTES_MAX, &ordinals);
    struct policy *new = take(2);
    const struct policy_rule *r = policy_rule_find(new, "r", 1);
    const struct policy_rule *was = policy_rule_find(old, "r", 1);
    const struct policy_rule *other = policy_rule_find(new, "k", 1);
    assert_int_equal(ordinals_fate(&ordinals, old, was, r, 0), ORDINALS_STAYS);
    assert_int_equal(ordinals_fate(&ordinals, old, was, r, 1), ORDINALS_ANEW);
    assert_int_equal(ordinals_fate(&ordinals, old, was, r, 2), ORDINALS_ANEW);
    assert_int_equal(ordinals_fate(&ordinals, old, policy_rule_find(old, "k", 1), other, 0),
                     ORDINALS_ANEW); /* it has other keys */
    assert_true(ordinals_ends(&ordinals, was, 0, new, r));
    assert_false(ordinals_ends(&ordinals, was, 1, new, r));
    policy_free(&old);
    policy_free(&new);
    ordinals_fini(&ordinals);
}

/* ---- random histories ------------------------------------------------------------------------ */

/* A limit as the random rules have it: at most one of each algorithm and window. */
struct drawn {
    uint8_t algorithm; /* of `algorithms` */
    uint8_t window;    /* of `windows_s` */
    uint32_t count;
};

struct list {
    struct drawn limits[POLICY_LIMITS_MAX];
    uint32_t count;
};

static const enum algorithm algorithms[] = {ALGORITHM_SLIDING_LOG, ALGORITHM_SLIDING_BUCKETS,
                                            ALGORITHM_FIXED_WINDOW};
static const uint32_t windows_s[WINDOWS] = {1, 2, 3, 5, 7, 11};

enum { KINDS = 3, COUNT_MAX = 12 };

static bool has(const struct list *list, unsigned algorithm, unsigned window)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->limits[i].algorithm == algorithm && list->limits[i].window == window)
            return true;
    return false;
}

static void add(struct random *random, struct list *list)
{
    const struct drawn drawn = {(uint8_t)random_below(random, KINDS),
                                (uint8_t)random_below(random, WINDOWS),
                                1 + (uint32_t)random_below(random, COUNT_MAX)};
    if (list->count == POLICY_LIMITS_MAX || has(list, drawn.algorithm, drawn.window))
        return;
    const uint32_t at = (uint32_t)random_below(random, list->count + 1);
    memmove(&list->limits[at + 1], &list->limits[at], (list->count - at) * sizeof drawn);
    list->limits[at] = drawn;
    list->count++;
}

static void change(struct random *random, struct list *list)
{
    const uint32_t at = (uint32_t)random_below(random, list->count);
    struct drawn *drawn = &list->limits[at];
    const uint8_t window = (uint8_t)random_below(random, WINDOWS);
    switch (random_below(random, 5)) {
    case 0:
        drawn->count = 1 + (uint32_t)random_below(random, COUNT_MAX);
        break;
    case 1:
        if (!has(list, drawn->algorithm, window))
            drawn->window = window;
        break;
    case 2: {
        struct drawn *other = &list->limits[random_below(random, list->count)];
        const struct drawn kept = *other;
        *other = *drawn;
        *drawn = kept;
        break;
    }
    case 3:
        if (list->count > 1) {
            memmove(drawn, drawn + 1, (list->count - at - 1) * sizeof *drawn);
            list->count--;
        }
        break;
    default:
        add(random, list);
    }
}

static void write_list(const struct list *list, char text[TEXT_LEN])
{
    size_t len = (size_t)snprintf(text, TEXT_LEN, "rules: [{name: r, key: [user], limits: [");
    for (uint32_t i = 0; i < list->count; i++)
        len += (size_t)snprintf(text + len, TEXT_LEN - len, "{rate: %u/%us, algorithm: %s}, ",
                                list->limits[i].count, windows_s[list->limits[i].window],
                                algorithm_name(algorithms[list->limits[i].algorithm]));
    (void)snprintf(text + len, TEXT_LEN - len, "]}]");
}

/* What the model knows of a kind of limit: since when some node has had it in force without a
 * break, and the largest count since then. */
struct known {
    bool in_force;
    int64_t since_ns;
    uint32_t most;
};

struct world {
    struct table *table;
    struct list lists[EDITS + 1];
    struct policy *policies[2]; /* of two nodes */
    uint32_t versions[2];
    struct known known[KINDS][WINDOWS];
    int64_t admitted_ns[ADMITTED_MAX];
    uint32_t admitted;
    int64_t now_ns;
};

static void note_versions(struct world *world)
{
    for (unsigned a = 0; a < KINDS; a++)
        for (unsigned w = 0; w < WINDOWS; w++) {
            struct known *known = &world->known[a][w];
            const bool every = has(&world->lists[world->versions[0] - 1], a, w) &&
                               has(&world->lists[world->versions[1] - 1], a, w);
            if (every && !known->in_force)
                *known = (struct known){.since_ns = world->now_ns};
            known->in_force = every;
            for (unsigned n = 0; n < 2; n++) {
                const struct list *list = &world->lists[world->versions[n] - 1];
                for (uint32_t i = 0; i < list->count; i++)
                    if (list->limits[i].algorithm == a && list->limits[i].window == w &&
                        list->limits[i].count > known->most)
                        known->most = list->limits[i].count;
            }
        }
}

static void give_version(struct world *world, unsigned node, uint32_t version)
{
    policy_free(&world->policies[node]);
    world->policies[node] = take(version);
    world->versions[node] = version;
    note_versions(world);
}

/* One check at a node, decided by the one table that all share. */
static bool ask(struct world *world, unsigned node)
{
    static const struct hash_key secret = {{1, 2, 3}};
    const struct policy_rule *rule = policy_rule_at(world->policies[node], 0);
    const uint32_t newest =
        world->versions[0] > world->versions[1] ? world->versions[0] : world->versions[1];
    const struct identity_value value = {"ada", 3};
    struct identity identity;
    struct hash128 ids[POLICY_LIMITS_MAX];
    const struct limit *limits[POLICY_LIMITS_MAX];
    uint32_t vnodes[POLICY_LIMITS_MAX] = {0};
    uint32_t groups[POLICY_LIMITS_MAX] = {0};
    uint64_t costs[POLICY_LIMITS_MAX];
    uint8_t flags[POLICY_LIMITS_MAX];
    uint8_t bytes[3][POLICY_LIMITS_MAX];
    uint64_t numbers[4][POLICY_LIMITS_MAX];
    int64_t times[3][POLICY_LIMITS_MAX];
    struct limit_decisions out = {.status = bytes[0],
                                  .allowed = bytes[1],
                                  .notes = bytes[2],
                                  .limit = numbers[0],
                                  .used = numbers[1],
                                  .remaining = numbers[2],
                                  .granted = numbers[3],
                                  .reset_after_ns = times[0],
                                  .retry_after_ns = times[1],
                                  .delay_ns = times[2]};
    assert_int_equal(identity_rule(&identity, rule->counted.data, rule->counted.len, &value, 1), 0);
    for (uint32_t i = 0; i < rule->limit_count; i++) {
        ids[i] =
            identity_slot(&secret, &identity, rule->limits[i].algorithm, rule->limits[i].ordinal);
        limits[i] = &rule->limits[i];
        costs[i] = 1;
        flags[i] = LIMIT_LOADED | (world->versions[node] < newest ? LIMIT_OLDER : 0);
    }
    const struct limit_batch batch = {.count = rule->limit_count,
                                      .ids = ids,
                                      .vnodes = vnodes,
                                      .limits = limits,
                                      .costs = costs,
                                      .flags = flags,
                                      .groups = groups};
    engine_step(world->table, &batch, world->now_ns, &out);
    bool allowed = true;
    for (uint32_t i = 0; i < rule->limit_count; i++)
        allowed = allowed && bytes[1][i];
    return allowed;
}

/* No limit that has stayed has let more through in its window than it ever counted meanwhile. */
static void assert_within(const struct world *world, uint64_t seed)
{
    for (unsigned a = 0; a < KINDS; a++)
        for (unsigned w = 0; w < WINDOWS; w++) {
            const struct known *known = &world->known[a][w];
            const int64_t window_ns = windows_s[w] * S_NS;
            const bool fixed = algorithms[a] == ALGORITHM_FIXED_WINDOW;
            const int64_t from_ns =
                fixed ? world->now_ns / window_ns * window_ns - 1 : world->now_ns - window_ns;
            uint32_t count = 0;
            if (!known->in_force)
                continue;
            for (uint32_t i = world->admitted; i-- > 0 && world->admitted_ns[i] > from_ns;)
                count += world->admitted_ns[i] >= known->since_ns;
            if (count > known->most)
                fail_msg("seed %llu, version %u: %u of %u in %u s of %s", (unsigned long long)seed,
                         store.count, count, known->most, windows_s[w],
                         algorithm_name(algorithms[a]));
        }
}

static void one_history(uint64_t seed)
{
    static struct world world;
    struct random random;
    char text[TEXT_LEN];
    memset(&world, 0, sizeof world);
    random_init(&random, seed);
    assert_int_equal(table_new(&world.table, alloc_heap(), 4 << 20, 64), 0);
    world.now_ns = START_NS;
    add(&random, &world.lists[0]);
    add(&random, &world.lists[0]);
    write_list(&world.lists[0], text);
    begin(text);
    world.versions[0] = world.versions[1] = 1;
    give_version(&world, 0, 1);
    give_version(&world, 1, 1);
    for (uint32_t n = 1; n <= EDITS; n++) {
        for (unsigned i = 0; i < ASKED; i++) {
            world.now_ns += random_between(&random, 0, S_NS / 8);
            if (i == ASKED / 4)
                give_version(&world, 1, world.versions[0]); /* it has heard of the edit as well */
            if (!ask(&world, (unsigned)random_below(&random, 2)))
                continue;
            world.admitted_ns[world.admitted++] = world.now_ns;
            assert_within(&world, seed);
        }
        world.lists[n] =
            world.lists[random_below(&random, 8) == 0 ? random_below(&random, n) : n - 1];
        for (uint64_t more = random_below(&random, 4); more > 0; more--)
            change(&random, &world.lists[n]);
        write_list(&world.lists[n], text);
        edit(text);
        give_version(&world, 0, store.count);
    }
    assert_true(world.admitted > EDITS);
    table_check_invariants(world.table);
    table_free(&world.table);
    policy_free(&world.policies[0]);
    policy_free(&world.policies[1]);
}

/* Lists of limits are edited at random - counts, windows, order, limits that come and go, versions
 * that come back - while two nodes ask by two versions: a limit whose window and algorithm stayed
 * never admits more than its limit in any of its windows. */
static void no_history_of_edits_lets_more_through_than_a_limit_that_stayed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        one_history(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_versions_have_positions),
        cmocka_unit_test(a_limit_keeps_its_count_when_one_before_it_goes),
        cmocka_unit_test(a_changed_window_keeps_the_count_if_one_went_and_one_came),
        cmocka_unit_test(another_algorithm_begins_anew),
        cmocka_unit_test(two_limits_of_one_window_stay_apart),
        cmocka_unit_test(a_rule_that_comes_back_has_its_counts),
        cmocka_unit_test(an_ordinal_is_free_when_no_kept_version_has_it),
        cmocka_unit_test(without_room_only_what_is_gone_is_forgotten),
        cmocka_unit_test(damaged_bytes_leave_positions),
        cmocka_unit_test(all_plans_share_one_count_of_a_unit),
        cmocka_unit_test(windows_of_no_unit_are_one_in_all_plans),
        cmocka_unit_test(two_limits_of_a_unit_are_two),
        cmocka_unit_test(what_is_told_is_what_happens),
        cmocka_unit_test(no_history_of_edits_lets_more_through_than_a_limit_that_stayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* replay_log.c - lines to records, records in order, keys ranked; see replay.h.
 *
 * A record is small and of fixed size: what its request is counted by has been looked up, and its
 * keys are numbers in `callers`. So the lines themselves need not be kept while requests wait.
 *
 *   identity  'r' rule values  --hash128--> caller    (values are the caller's text)
 *   a request that an allow or block rule ends, or that lacks a key, is counted under its address:
 *             'r' rule "" address
 *
 * REPLAY-7  REPLAY-1 to REPLAY-4, REPLAY-9 and REPLAY-10.
 * REPLAY-8  The hash's key is a constant: two runs over one log print the same.
 */
#include "client/replay/replay.h"

#include <string.h>

#include "base/assert.h"
#include "client/replay/replay_state.h"
#include "node/policy/index/policy_resolve.h"

#define SECOND_NS INT64_C(1000000000)

static const struct hash_key caller_key = {{'r', 'e', 'p', 'l', 'a', 'y'}}; /* REPLAY-8 */

struct replay_options replay_options(void)
{
    return (struct replay_options){.reorder_ns = REPLAY_REORDER_NS,
                                   .top = 5,
                                   .keys_max = REPLAY_KEYS_MAX,
                                   .text_max = REPLAY_TEXT_LEN,
                                   .waiting_max = REPLAY_WAITING_MAX,
                                   .engine_bytes = REPLAY_ENGINE_BYTES};
}

/* ---- life ------------------------------------------------------------------------------------ */

int replay_new(struct replay **out, const struct replay_options *options)
{
    const struct allocator *allocator = options->allocator;
    ASSERT(options->top >= 1 && options->top <= REPLAY_TOP_MAX);
    *out = NULL;
    struct replay *replay = alloc_get(allocator, sizeof *replay);
    if (replay == NULL)
        return TG_ENOMEM;
    replay->options = *options;
    replay->rule_count = policy_rule_count(options->policy);
    replay->rules = alloc_array(allocator, replay->rule_count + 1, sizeof *replay->rules);
    int result = replay->rules == NULL ? TG_ENOMEM : TG_OK;
    if (result == TG_OK)
        result = log_plan_init(&replay->plan, options->policy, &options->log);
    if (result == TG_OK)
        result = table_new(&replay->table, allocator, options->engine_bytes, 1);
    if (result == TG_OK)
        result = callers_init(&replay->callers, allocator, options->keys_max, options->text_max);
    if (result == TG_OK)
        result = order_init(&replay->order, allocator, options->waiting_max,
                            sizeof(struct replay_record), options->reorder_ns);
    if (result == TG_OK && options->suggest)
        result = suggest_init(&replay->suggest, allocator, SUGGEST_EVENTS_MAX);
    for (size_t i = 0; result == TG_OK && i < replay->rule_count; i++)
        replay->rules[i].rule = policy_rule_at(options->policy, i);
    *out = replay;
    if (result != TG_OK)
        replay_free(out);
    return result;
}

void replay_free(struct replay **out)
{
    struct replay *replay = *out;
    *out = NULL;
    if (replay == NULL)
        return;
    const struct allocator *allocator = replay->options.allocator;
    for (size_t i = 0; replay->rules != NULL && i <= replay->rule_count; i++) {
        struct replay_rule *rule = &replay->rules[i];
        alloc_put(allocator, rule->timeline, sizeof *rule->timeline);
        alloc_put(allocator, rule->sketch, sizeof *rule->sketch);
        alloc_put(allocator, rule->top, replay->options.top * sizeof *rule->top);
    }
    alloc_put(allocator, replay->rules, (replay->rule_count + 1) * sizeof *replay->rules);
    table_free(&replay->table);
    if (replay->callers.allocator != NULL)
        callers_fini(&replay->callers);
    if (replay->order.allocator != NULL)
        order_fini(&replay->order);
    suggest_fini(&replay->suggest);
    alloc_put(allocator, replay, sizeof *replay);
}

/* ---- order ----------------------------------------------------------------------------------- */

static struct replay_second *second_of(struct replay *replay, int64_t time_ns)
{
    const int64_t second = time_ns / SECOND_NS;
    struct replay_second *slot = &replay->seconds[(uint64_t)second % REPLAY_SECONDS];
    if (slot->second != second)
        *slot = (struct replay_second){.second = second};
    return slot;
}

/* The place of the next request of a whole second: evenly among those known of it. */
static int64_t spread(struct replay *replay, int64_t time_ns)
{
    struct replay_second *slot = second_of(replay, time_ns);
    const uint64_t come = slot->come > slot->gone ? slot->come : slot->gone + 1;
    return time_ns + (int64_t)((unsigned __int128)slot->gone++ * SECOND_NS / come);
}

/* Decides those that are due; with `all`, all that wait. */
static int decide_due(struct replay *replay, bool all)
{
    int result = TG_OK;
    while (result == TG_OK && order_due(&replay->order, all)) {
        int64_t time_ns;
        struct replay_record record;
        memcpy(&record, order_take(&replay->order, &time_ns), sizeof record);
        if (replay->options.spread && record.whole_second)
            time_ns = spread(replay, time_ns);
        result = replay_judge(replay, &record, time_ns);
    }
    return result;
}

int replay_take(struct replay *replay, const struct replay_record *record)
{
    const int result = decide_due(replay, false);
    if (result != TG_OK)
        return result;
    if (replay->options.spread && record->whole_second)
        second_of(replay, record->time_ns)->come++;
    if (order_add(&replay->order, record->time_ns, record))
        replay->totals.late++;
    return decide_due(replay, false);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* From now on numbers of keys are estimated: what was exact goes into the sketches. */
static int begin_estimates(struct replay *replay)
{
    for (size_t i = 0; i <= replay->rule_count && !replay->estimates; i++) {
        struct replay_rule *rule = &replay->rules[i];
        rule->sketch = alloc_get(replay->options.allocator, sizeof *rule->sketch);
        if (rule->sketch == NULL)
            return TG_ENOMEM;
    }
    for (uint32_t i = 0; i < replay->callers.end && !replay->estimates; i++) {
        const struct caller *caller = callers_at(&replay->callers, i);
        if (!caller->used)
            continue;
        distinct_add(&replay->rules[caller->rule].sketch->seen, caller->hash.hi);
        if (caller->denied > 0)
            distinct_add(&replay->rules[caller->rule].sketch->denied, caller->hash.hi);
    }
    replay->estimates = true;
    return TG_OK;
}

/* Makes room for a new key: by dropping rare ones, if need be after deciding all that wait, which
 * holds theirs. */
static int make_room(struct replay *replay, struct hash128 hash, uint32_t rule, const void *text,
                     uint32_t len, uint32_t *number)
{
    int result = begin_estimates(replay);
    for (unsigned round = 0; round < 2 && result == TG_OK; round++) {
        if (round == 1)
            result = decide_due(replay, true);
        if (result == TG_OK && callers_drop(&replay->callers))
            *number = callers_add(&replay->callers, hash, rule, text, len);
        if (*number != CALLERS_NONE)
            return TG_OK;
    }
    return TG_ENOMEM;
}

/* A key of the request at hand that is to be held. */
struct named {
    const struct policy_rule *rule; /* NULL: the sum of all */
    const struct policy_part *part; /* NULL: the address, whatever the rule counts by */
    uint32_t *number;               /* out */
    struct hash128 hash;
};

struct names {
    size_t count;
    struct named keys[POLICY_PARTS_MAX + 3];
    char address[POLICY_IP_TEXT_LEN];
    struct policy_text ip; /* in its one text, cut as keys are; len 0: none */
};

static uint32_t rule_index(const struct replay *replay, const struct policy_rule *rule)
{
    return rule == NULL ? (uint32_t)replay->rule_count : rule->rank;
}

/* Writes the identity of a key. Returns where in it the values begin. */
static size_t name_key(struct replay *replay, const struct names *names, const struct named *key)
{
    struct identity_value values[POLICY_KEY_ATTRIBUTES_MAX] = {
        {"", 0}, {names->ip.data, names->ip.len}}; /* no part has an empty value */
    size_t count = 2;
    const struct policy_text name =
        key->rule != NULL ? key->rule->name : (struct policy_text){"", 0};
    if (key->part != NULL) {
        count = key->rule->key_count;
        for (size_t k = 0; k < count; k++)
            values[k] =
                (struct identity_value){key->part->values[k].data, key->part->values[k].len};
    }
    const int error = identity_rule(&replay->identity, name.data, name.len, values, count);
    ASSERT(error == 0); /* policy bounds names and values at least as tightly */
    return 3 + name.len;
}

/* The key is a new one: makes its entry. */
static int add_key(struct replay *replay, const struct names *names, const struct named *key)
{
    const uint32_t rule = rule_index(replay, key->rule);
    const size_t from = name_key(replay, names, key);
    const uint8_t *text = replay->identity.bytes + from;
    const uint32_t len = (uint32_t)(replay->identity.len - from);
    *key->number = callers_add(&replay->callers, key->hash, rule, text, len);
    const int result = *key->number == CALLERS_NONE
                           ? make_room(replay, key->hash, rule, text, len, key->number)
                           : TG_OK;
    if (result != TG_OK)
        return result;
    if (replay->estimates)
        distinct_add(&replay->rules[rule].sketch->seen, key->hash.hi);
    else
        replay->rules[rule].callers++;
    return TG_OK;
}

/* Finds or makes the entries, and holds them for the record (REPLAY-9). They lie anywhere in
 * memory: all are asked for before the first one is read. */
static int hold_keys(struct replay *replay, struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        (void)name_key(replay, names, &names->keys[i]);
        names->keys[i].hash = hash128(&caller_key, replay->identity.bytes, replay->identity.len);
        callers_fetch_index(&replay->callers, names->keys[i].hash);
    }
    for (size_t i = 0; i < names->count; i++)
        callers_fetch_entry(&replay->callers, names->keys[i].hash);
    for (size_t i = 0; i < names->count; i++) {
        const struct named *key = &names->keys[i];
        *key->number = callers_find(&replay->callers, key->hash);
        const int result = *key->number == CALLERS_NONE ? add_key(replay, names, key) : TG_OK;
        if (result != TG_OK)
            return result;
        callers_at(&replay->callers, *key->number)->held++;
    }
    return TG_OK;
}

static void want_address(struct names *names, const struct policy_rule *rule, uint32_t *number)
{
    if (names->ip.len > 0)
        names->keys[names->count++] = (struct named){.rule = rule, .number = number};
}

/* The request's address in the text under which it is counted. */
static void name_address(struct names *names, struct policy_text ip)
{
    const size_t len =
        policy_ip_format(ip.data, ip.len, POLICY_IPV6_PREFIX_DEFAULT, names->address);
    const size_t cut = ip.len < IDENTITY_VALUE_MAX ? ip.len : IDENTITY_VALUE_MAX;
    names->ip = (struct policy_text){len > 0 ? names->address : ip.data, len > 0 ? len : cut};
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int resolve(struct replay *replay, const struct log_request *request,
                   struct replay_record *record)
{
    struct policy_result found;
    struct names names = {.count = 0};
    name_address(&names, request->ip);
    want_address(&names, NULL, &record->caller);
    record->invalid = policy_resolve(replay->options.policy, request->attributes, request->count,
                                     &found) != TG_OK;
    record->action = (uint8_t)found.action;
    record->allowed = found.allowed && !record->invalid;
    record->part_count = record->invalid ? 0 : (uint8_t)found.part_count;
    for (uint32_t i = 0; i < record->part_count; i++)
        names.keys[names.count++] = (struct named){
            .rule = found.parts[i].rule, .part = &found.parts[i], .number = &record->parts[i]};
    if (found.rule != NULL) {
        record->end_rule = rule_index(replay, found.rule);
        want_address(&names, found.rule, &record->end_key);
    }
    if (found.shadow != NULL) {
        record->shadow_rule = rule_index(replay, found.shadow);
        want_address(&names, found.shadow, &record->shadow_key);
    }
    return hold_keys(replay, &names);
}

int replay_read(struct replay *replay, const char *text, size_t len, struct replay_record *record,
                struct log_problem *problem)
{
    struct log_request request;
    replay->totals.lines++;
    if (log_plan_read(&replay->plan, text, len, &replay->scratch, &request, problem) != TG_OK) {
        replay->totals.refused++;
        return TG_EINVALID;
    }
    for (size_t i = 0; i < request.count; i++)
        replay->attribute_lines[request.places[i]]++;
    replay->totals.forwarded += request.forwarded;
    replay->totals.whole_second += request.whole_second;
    *record = (struct replay_record){.time_ns = request.time_ns,
                                     .cost = request.cost,
                                     .end_rule = CALLERS_NONE,
                                     .end_key = CALLERS_NONE,
                                     .shadow_rule = CALLERS_NONE,
                                     .shadow_key = CALLERS_NONE,
                                     .caller = CALLERS_NONE,
                                     .whole_second = request.whole_second};
    return resolve(replay, &request, record);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Whether key `a` stands before `b`: more denials, more requests, then by its text. */
static bool ranks_before(const struct replay *replay, uint32_t a, uint32_t b)
{
    const struct caller *x = replay_caller(replay, a);
    const struct caller *y = replay_caller(replay, b);
    if (x->denied != y->denied)
        return x->denied > y->denied;
    if (x->requests != y->requests)
        return x->requests > y->requests;
    const uint32_t len = x->text_len < y->text_len ? x->text_len : y->text_len;
    const int order =
        memcmp(callers_text(&replay->callers, x), callers_text(&replay->callers, y), len);
    return order != 0 ? order < 0 : x->text_len < y->text_len;
}

static int rank(struct replay *replay, uint32_t number)
{
    const uint32_t top = replay->options.top;
    struct replay_rule *rule = &replay->rules[replay_caller(replay, number)->rule];
    if (rule->top == NULL)
        rule->top = alloc_array(replay->options.allocator, top, sizeof *rule->top);
    if (rule->top == NULL)
        return TG_ENOMEM;
    if (rule->top_count == top && !ranks_before(replay, number, rule->top[top - 1]))
        return TG_OK;
    uint32_t at = rule->top_count < top ? rule->top_count++ : top - 1;
    for (; at > 0 && ranks_before(replay, number, rule->top[at - 1]); at--)
        rule->top[at] = rule->top[at - 1];
    rule->top[at] = number;
    return TG_OK;
}

static int suggest_all(struct replay *replay)
{
    int result = TG_OK;
    for (uint32_t i = 0; i < replay->rule_count; i++) {
        struct replay_rule *rule = &replay->rules[i];
        if (rule->requests == 0)
            continue;
        for (uint8_t k = 0; k < rule->rule->limit_count && result == TG_OK; k++) {
            const struct limit *limit = &rule->rule->limits[k];
            if (!replay_can_judge(limit))
                continue;
            const struct policy_calendar *calendars = rule->rule->calendars;
            const struct calendar_zone *zone = calendars != NULL ? calendars[k].zone : NULL;
            result = suggest_find(&replay->suggest, i, limit, zone, replay->options.suggest_ppm,
                                  &rule->limits[k].few);
            if (result == TG_OK)
                result = suggest_find(&replay->suggest, i, limit, zone, 0, &rule->limits[k].none);
        }
    }
    return result;
}

int replay_finish(struct replay *replay)
{
    int result = decide_due(replay, true);
    for (uint32_t i = 0; i < replay->callers.end && result == TG_OK; i++) {
        const struct caller *caller = replay_caller(replay, i);
        if (caller->used && caller->requests > 0)
            result = rank(replay, i);
    }
    for (size_t i = 0; i <= replay->rule_count && replay->estimates; i++) {
        struct replay_rule *rule = &replay->rules[i];
        rule->callers = distinct_estimate(&rule->sketch->seen);
        rule->callers_denied = distinct_estimate(&rule->sketch->denied);
        if (rule->callers_denied > rule->callers)
            rule->callers_denied = rule->callers;
    }
    if (result == TG_OK && replay->options.suggest)
        result = suggest_all(replay);
    return result;
}

const struct replay_totals *replay_totals(const struct replay *replay)
{
    return &replay->totals;
}

const struct replay_rule *replay_rule(const struct replay *replay, size_t index)
{
    ASSERT(index < replay->rule_count);
    return &replay->rules[index];
}

const struct replay_rule *replay_all(const struct replay *replay)
{
    return &replay->rules[replay->rule_count];
}

bool replay_exact(const struct replay *replay)
{
    return !replay->estimates;
}

const struct caller *replay_caller(const struct replay *replay, uint32_t number)
{
    return &replay->callers.entries[number];
}

bool replay_by_address(const struct replay *replay, const struct caller *caller)
{
    const uint8_t *text = callers_text(&replay->callers, caller);
    return caller->text_len >= 3 && text[1] == 0 && text[2] == 0; /* the first value is empty */
}

struct policy_text replay_value(const struct replay *replay, const struct caller *caller,
                                size_t place)
{
    const uint8_t *at = callers_text(&replay->callers, caller);
    const uint8_t *const end = at + caller->text_len;
    const size_t count = at[0];
    if (replay_by_address(replay, caller))
        place++;
    at++;
    for (size_t i = 0; i < count && end - at >= 2; i++) {
        const size_t len = (size_t)(at[0] | at[1] << 8);
        if (i == place)
            return (struct policy_text){(const char *)at + 2, len};
        at += 2 + len;
    }
    return (struct policy_text){NULL, 0};
}

const struct timeline_axis *replay_axis(const struct replay *replay)
{
    return &replay->axis;
}

bool replay_suggest_cut(const struct replay *replay)
{
    return replay->suggest.cut;
}

size_t replay_attribute_count(const struct replay *replay)
{
    return replay->plan.count;
}

struct policy_text replay_attribute(const struct replay *replay, size_t index, uint64_t *lines)
{
    ASSERT(index < replay->plan.count);
    *lines = replay->attribute_lines[index];
    return replay->plan.attributes[index].name;
}

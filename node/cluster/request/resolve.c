/* resolve.c - which limits an item of a client's message meets, and where they are counted.
 *
 *   key and limit -------------------------> identity --> vnode, slot --> part
 *   attributes --> key, block, quota, tier --> rules ---> the same for each rule that matches
 *   names of rules, and a path for each ----------------> the same for each of them
 *
 * Blocks and rules compare values in the one spelling of their kinds (attribute_kind.h).
 *
 * Nothing is charged here, and nothing that is decided changes what is found: so the items of a
 * message may be resolved some at a time before the first of them is decided. While it goes on with
 * one, memory comes for others: for their rules (policy_search.h), and for their vnodes.
 *
 * RESOLVE-1  What needs no limit fixes the item's row at once: a block, a bypass, no rule, a lease
 *            that nothing gives. Such an item has no part; of others the row is left to their
 *            answers.
 * RESOLVE-2  All parts of an item carry its operation, cost and sequence; so each of them is known
 *            again when the client repeats the item, wherever it goes then.
 * RESOLVE-3  A message's items cost at most RESOLVE_WORK_MAX together to find their rules, some 0.5
 *            s of a processor, and what the last one begun costs beyond. Those left are `busy` and
 *            counted, before anything of them is charged. What items cost is a matter of rules and
 *            values alone, so a message that is repeated is cut at the same item, and those before
 *            it are told their first answers.
 * RESOLVE-4  All messages of a turn cost `turn_work`, some 10 ms, and what the last item begun
 *            costs beyond: then peers have to hear of this node. What is left waits for later turns
 *            (unfinished.c).
 */
#include "base/assert.h"
#include "node/cluster/admission/decide.h"
#include "node/cluster/dedup/lease_id.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"
#include "node/policy/descriptors/descriptor_reader.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/index/policy_search.h"
#include "node/policy/model/attribute_kind.h"
#include "node/policy/model/calendar.h"
#include "node/policy/model/descriptors.h"
#include "node/policy/people/api_keys.h"
#include "node/policy/people/blocks.h"
#include "node/policy/people/people.h"

static_assert((int)POLICY_LIMITS_MAX <= (int)PEER_LIMITS_MAX, "a rule's limits fit a forward");
static_assert((int)WIRE_ATTRIBUTES_MAX <= (int)POLICY_ATTRIBUTES_GIVEN_MAX,
              "what is added to a request's attributes has room");

/* A rule compared costs about as much as so many steps of comparing patterns. 1,000 rules that
 * nothing keeps apart are looked at for all items of the longest message. */
enum { WORK_RULE = 64 };
static_assert(RESOLVE_WORK_MAX > (uint64_t)1000 * WORK_RULE * WIRE_CHECKS_MAX, "as said");

#define QUORUM_ID UINT64_C(0x51756f72756d4944) /* makes slot ids of that plane different */

static inline void start_forward(const struct shard *shard, uint32_t item, uint32_t part,
                                 struct forward *forward)
{
    const struct wire_checks *checks = &shard->message.checks;
    forward->retry =
        (struct retry_key){checks->session, checks->seq, (uint16_t)item, (uint8_t)part};
    forward->flags = shard->message.flags;
    if (wire_checks_at_most(checks, item))
        forward->flags |= FORWARD_AT_MOST;
    forward->operation = (uint8_t)wire_checks_operation(checks, item);
    if (forward->operation == OPERATION_LEASE)
        forward->operation = OPERATION_CHECK; /* of a concurrency limit; else note_hold knows */
    forward->cost = wire_checks_cost(checks, item);
    forward->used = 0;
    forward->ticket = 0;
    forward->rules = 0;
    forward->class = 0;
    forward->home = 0;
    forward->wait_ms = 0;
    forward->sure = false;
}

/* A rule with consistency quorum is counted in the other plane, in slots of their own: should the
 * rule have been one of the other kind before, its old count stays where it is. */
static void place_in_quorum(const struct shard *shard, struct forward *forward)
{
    forward->vnode += shard->options.vnodes;
    for (uint32_t i = 0; i < forward->limit_count; i++)
        forward->ids[i].hi ^= QUORUM_ID;
}

/* Names vnode and slots of the part from the identity in shard->identity. */
static inline void place(struct shard *shard, const struct limit *limits, uint32_t count,
                         struct resolved *out, uint32_t part)
{
    const bool trial = out->rules[part] != NULL && out->rules[part]->shadow;
    bool leases = false;
    struct forward *forward = &out->parts[part];
    forward->vnode =
        identity_vnode(&shard->options.route_key, &shard->identity, shard->options.vnodes);
    vnodes_prefetch(shard, forward->vnode);
    forward->limit_count = (uint8_t)count;
    for (uint32_t i = 0; i < count; i++) {
        forward->limits[i] = limits[i];
        leases |= limits[i].algorithm == ALGORITHM_CONCURRENCY;
        forward->ids[i] = identity_slot(&shard->options.secret, &shard->identity,
                                        limits[i].algorithm, limits[i].ordinal);
    }
    out->leases |= leases && !trial;
    out->trials |= trial;
    out->trial_leases |= leases && trial;
}

/* What a part of a rule is charged by, but for where. */
static void start_rule(const struct shard *shard, uint32_t item, uint32_t part,
                       const struct policy_rule *rule, struct forward *forward)
{
    start_forward(shard, item, part, forward);
    forward->rules = shard->policies[shard->policy].version;
    forward->class = (uint16_t)(rule->rank + 1);
    if (rule->count_denied)
        forward->flags |= FORWARD_COUNT_DENIED;
}

/* The same for the limits of a rule, with own ones on top where the part has any. */
static void place_part(struct shard *shard, const struct policy_part *found, struct resolved *out,
                       uint32_t part)
{
    struct limit merged[OWN_MERGED_MAX];
    if (found->own == NULL)
        place(shard, found->rule->limits, found->rule->limit_count, out, part);
    else
        place(shard, merged, own_limits_of(found, merged), out, part);
}

/* Whether the rule has a limit of leases. */
static bool gives_leases(const struct policy_rule *rule)
{
    for (uint32_t i = 0; i < rule->limit_count; i++)
        if (rule->limits[i].algorithm == ALGORITHM_CONCURRENCY)
            return true;
    return false;
}

/* How long the part may wait for another region: as the rule says, and as its client waits. */
static uint32_t wait_ms_of(const struct shard *shard, const struct policy_rule *rule)
{
    const uint64_t wait_ms = rule->wan_wait_ns / MS;
    const uint32_t timeout_ms = shard->message.checks.timeout_ms;
    return wait_ms < timeout_ms ? (uint32_t)wait_ms : timeout_ms;
}

/* Parts of a request that is denied because rules on trial alone match it are each for themselves,
 * and take no leases: nobody would give them back. */
static void resolve_rules(struct shard *shard, uint32_t item, const struct policy_result *result,
                          struct resolved *out)
{
    uint32_t enforced = 0;
    for (uint32_t k = 0; k < result->part_count; k++)
        enforced += !result->parts[k].rule->shadow;
    for (uint32_t k = 0; k < result->part_count; k++) {
        const struct policy_part *found = &result->parts[k];
        const struct policy_rule *rule = found->rule;
        const uint32_t i = out->count;
        if (!result->allowed && gives_leases(rule))
            continue;
        out->count++;
        struct identity_value values[POLICY_KEY_ATTRIBUTES_MAX];
        for (uint32_t j = 0; j < rule->key_count; j++)
            values[j] = (struct identity_value){found->values[j].data, found->values[j].len};
        const int error = identity_rule(&shard->identity, rule->counted.data, rule->counted.len,
                                        values, rule->key_count);
        ASSERT(error == 0); /* policy bounds names and values at least as tightly */
        out->rules[i] = rule;
        start_rule(shard, item, i, rule, &out->parts[i]);
        /* What is on trial denies nothing: beside such alone a rule is charged for itself. */
        if (result->allowed && (rule->shadow ? result->part_count : enforced) > 1)
            out->parts[i].flags |= FORWARD_SEVERAL;
        place_part(shard, found, out, i);
        policy_place_calendars(rule, shard->now_ns, out->parts[i].limits);
        for (uint32_t j = 0; rule->shadow && j < rule->limit_count; j++)
            out->parts[i].limits[j].pool = 0; /* on trial: it takes nothing of what others share */
        if (rule->consistency == POLICY_CONSISTENCY_QUORUM)
            place_in_quorum(shard, &out->parts[i]);
        out->parts[i].sure = rule->consistency == POLICY_CONSISTENCY_ANY && !rule->shadow &&
                             (out->parts[i].operation == OPERATION_CHECK ||
                              out->parts[i].operation == OPERATION_HIT);
        out->parts[i].home = remote_home(shard, rule, out->parts[i].vnode);
        out->parts[i].wait_ms = wait_ms_of(shard, rule);
    }
}

static void fix_row(struct row *row, uint8_t outcome, bool allowed, const struct policy_rule *rule)
{
    row->outcome = outcome;
    row->allowed = allowed;
    row->rule = rule;
    row->told_ns = row->retry_after_ns = allowed ? 0 : -1;
}

/* The same of a row that an operator's block or an API key denies: it may end by itself. */
static void fix_blocked(const struct shard *shard, struct row *row, const struct policy_rule *block)
{
    fix_row(row, OUTCOME_BLOCKED, false, block);
    if (block->until_ms != 0 && block->until_ms <= (uint64_t)(INT64_MAX / MS))
        row->told_ns = row->retry_after_ns = (int64_t)block->until_ms * MS - shard->now_ns;
}

/* What denies the request before rules are looked at: its API key, a block, or the user's quota
 * record; NULL: nothing. The key is replaced by what it stands for, first of all: nothing else sees
 * it. Then the tier of the user's record becomes that of the request. */
static const struct policy_rule *refuse_at_once(struct shard *shard,
                                                struct policy_attribute *attributes, size_t *count,
                                                struct person *person)
{
    const struct policy_slot *slot = &shard->policies[shard->policy];
    const uint64_t now_ms = (uint64_t)(shard->now_ns / MS);
    const struct api_key *key = NULL;
    const struct policy_rule *refusal =
        slot->api_keys != NULL ? api_keys_resolve(slot->api_keys, &shard->api_keys_cache,
                                                  attributes, count, now_ms, &key)
                               : NULL;
    people_begin(refusal == NULL ? key : NULL, person);
    if (refusal != NULL)
        return refusal;
    if (slot->people != NULL)
        people_find(slot->people, attributes, count, now_ms, person);
    return policy_longer(blocks_find(slot->denied, attributes, *count, now_ms), person->denied);
}

/* Notes in whose totals the item will be: one that asks for something, or tells what was taken of a
 * lease, not one that looks. */
static void note_usage(struct shard *shard, uint32_t item, const struct person *person)
{
    const enum operation operation = wire_checks_operation(&shard->message.checks, item);
    struct row *row = &shard->rows[item];
    if (operation == OPERATION_RELEASE)
        row->lease_used = wire_checks_used(&shard->message.checks, item);
    const bool asks = (operation == OPERATION_CHECK || operation == OPERATION_HIT ||
                       operation == OPERATION_LEASE || operation == OPERATION_RESERVE) &&
                      wire_checks_cost(&shard->message.checks, item) != 0;
    if (!asks && row->lease_used == 0)
        return;
    row->user_hash = person->user_hash;
    row->key_hash = person->key_hash;
}

/* An item with attributes, on its way to its rules. */
struct asking {
    uint32_t item;
    struct resolved *out;
    size_t count;
    uint64_t no_address; /* values of addresses that are none */
    struct policy_attribute attributes[POLICY_ATTRIBUTES_MAX];
    struct policy_spelling spelling; /* where blocks have to see their values */
    struct person person;
    struct policy_search search;
    struct policy_result result;
};

/* ---- leases ---------------------------------------------------------------------------------- */

/* What is said of an operation on leases where none is given; NULL: it is about none. */
static const char *lease_refusal(enum operation operation)
{
    switch (operation) {
    case OPERATION_LEASE:
        return "lease: expected limits of one rule that give leases: concurrency; token_bucket, "
               "fixed_window without align first, sliding_window, sliding_buckets or sliding_log, "
               "not soft, elastic, on trial, or counting what is denied";
    case OPERATION_RELEASE:
        return "release: expected limits that give leases; those that this request meets do not "
               "(refund gives back what they charged)";
    case OPERATION_RESERVE:
        return "reserve: expected limits of which tokens can be held: token_bucket, fixed_window "
               "without align first, sliding_window, sliding_buckets or sliding_log, not soft, "
               "elastic, or counting what is denied";
    case OPERATION_COMMIT:
        return "commit: expected limits of which tokens can be held; those that this request meets "
               "give none (hit charges them)";
    case OPERATION_CANCEL:
        return "cancel: expected limits of which tokens can be held; those that this request meets "
               "give none";
    case OPERATION_RENEW:
        return "renew: expected limits that give leases; those that this request meets do not";
    default:
        return NULL;
    }
}

bool resolve_gives_holds(const struct resolved *resolved)
{
    return resolved->count == 1 && resolve_part_holds(resolved, 0);
}

bool resolve_part_holds(const struct resolved *resolved, uint32_t part)
{
    const struct forward *forward = &resolved->parts[part];
    const struct policy_rule *rule = resolved->rules[part];
    if (rule != NULL && (rule->shadow || (rule->count_denied && !policy_is_of_domain(rule))))
        return false;
    for (uint32_t i = 0; i < forward->limit_count; i++)
        if (limit_lease_refusal(&forward->limits[i]) != NULL)
            return false;
    return true;
}

/* Whether tokens of all that the item meets can be reserved. */
static bool gives_reservations(const struct resolved *resolved)
{
    for (uint32_t i = 0; i < resolved->count; i++)
        if (!resolve_part_holds(resolved, i))
            return false;
    return true;
}

/* The item is about a reservation, of one id for all its parts. */
static void note_reservation(struct shard *shard, uint32_t item, struct resolved *resolved)
{
    struct row *row = &shard->rows[item];
    const enum operation operation = wire_checks_operation(&shard->message.checks, item);
    const uint64_t used = wire_checks_used(&shard->message.checks, item);
    row->held = true;
    row->reserves = operation == OPERATION_RESERVE;
    row->settles = !row->reserves;
    row->lease = row->reserves ? decide_lease_of(shard, &resolved->parts[0].retry) : 0;
    for (uint32_t i = 0; i < resolved->count; i++) {
        struct forward *forward = &resolved->parts[i];
        forward->flags |= FORWARD_HOLD;
        forward->flags &= (uint8_t)~FORWARD_COUNT_DENIED; /* what is not held was not used */
        forward->used = operation == OPERATION_CANCEL ? 0 : used;
        if (row->reserves && used == 0)
            forward->used = LIMIT_TTL_DEFAULT_MS;
        forward->sure = operation == OPERATION_COMMIT; /* LESSOR-8 */
    }
}

/* The item is about a lease of tokens: its part says so. */
static void note_hold(struct shard *shard, uint32_t item, struct forward *forward)
{
    struct row *row = &shard->rows[item];
    const enum operation operation = wire_checks_operation(&shard->message.checks, item);
    forward->flags |= FORWARD_HOLD;
    forward->operation = (uint8_t)operation;
    forward->used =
        operation != OPERATION_LEASE ? wire_checks_used(&shard->message.checks, item) : 0;
    row->held = true;
    row->lease = operation == OPERATION_LEASE   ? decide_lease_of(shard, &forward->retry)
                 : operation == OPERATION_RENEW ? forward->cost
                                                : 0;
}

/* Leaves the rules in force alone. */
static void drop_trials(struct resolved *resolved)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < resolved->count; i++) {
        if (resolved->rules[i] != NULL && resolved->rules[i]->shadow)
            continue;
        if (count != i) {
            resolved->parts[count] = resolved->parts[i];
            resolved->parts[count].retry.part = (uint8_t)count;
            resolved->rules[count] = resolved->rules[i];
        }
        count++;
    }
    resolved->count = count;
}

/* The item is about a lease, and no limit in force that it meets has any. If tokens of the limit
 * can be held it is about those. Else nothing of it is charged, and that is told. A rule on trial
 * sees nothing of what is admitted with tokens that are held. It is not to keep anybody from having
 * some; but who takes what there is, as a library does of its own accord for a hot key, gets none:
 * asking for each instead, it is told the same, and the trial sees it. */
static void want_hold(struct shard *shard, uint32_t item, struct resolved *resolved)
{
    const enum operation operation = wire_checks_operation(&shard->message.checks, item);
    struct row *row = &shard->rows[item];
    const bool watched = resolved->trials && operation == OPERATION_LEASE &&
                         wire_checks_at_most(&shard->message.checks, item);
    drop_trials(resolved);
    if (resolved->count == 0 || row->outcome != OUTCOME_COUNT) {
        resolved->count = 0; /* decided already, and on trial it is not about these rules */
    } else if (operation >= OPERATION_RESERVE && gives_reservations(resolved)) {
        note_reservation(shard, item, resolved);
    } else if (operation < OPERATION_RESERVE && !watched && resolve_gives_holds(resolved)) {
        note_hold(shard, item, &resolved->parts[0]);
    } else {
        fix_row(row, OUTCOME_ERROR, false, resolved->rules[0]);
        row->refusal = lease_refusal(operation);
        resolved->count = 0;
    }
}

static bool all_trials(const struct resolved *resolved)
{
    for (uint32_t i = 0; i < resolved->count; i++)
        if (resolved->rules[i] == NULL || !resolved->rules[i]->shadow)
            return false;
    return true;
}

/* The item has been placed: notes whether it takes a lease. The trial of a rule that gives leases
 * needs to know when they end: so such a rule gives its own. */
static inline void note_lease(struct shard *shard, uint32_t item, struct resolved *resolved)
{
    const enum operation operation = wire_checks_operation(&shard->message.checks, item);
    const bool asks = lease_refusal(operation) != NULL;
    if (operation == OPERATION_RENEW && shard->rows[item].outcome == OUTCOME_COUNT)
        shard->rows[item].why = WHY_LEASE;
    const bool reserves = operation >= OPERATION_RESERVE;
    if (!reserves &&
        (resolved->leases || (resolved->trial_leases && (!asks || all_trials(resolved)))))
        shard->rows[item].leased = operation == OPERATION_CHECK || operation == OPERATION_LEASE ||
                                   operation == OPERATION_HIT;
    else if (asks && resolved->count > 0)
        want_hold(shard, item, resolved);
}

/* Whether there is work left for the item (RESOLVE-3). If not its row is fixed. */
static bool may_work(struct shard *shard, uint32_t item)
{
    struct row *row = &shard->rows[item];
    if (shard->message.work < RESOLVE_WORK_MAX)
        return true;
    fix_row(row, OUTCOME_BUSY, false, NULL);
    row->failure = ANSWER_BUSY;
    row->why = WHY_WORK;
    shard->stats.busy++;
    return false;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Spells values as blocks do; rules take them up so, too. False if there is no room for it. */
static bool spell(struct shard *shard, struct policy_attribute *attributes, size_t count,
                  struct policy_spelling *spelling)
{
    const struct policy *policy = shard->policies[shard->policy].policy;
    policy_spelling_begin(spelling);
    const int error = attribute_kinds_apply(policy_kinds(policy), attributes, count, spelling);
    shard->stats.no_address += spelling->absent;
    return error == 0;
}

/* Begins to look for the rules that the attributes of the item meet. False if its row is fixed
 * without them. */
static bool ask_rules(struct shard *shard, const struct wire_template *template, uint32_t item,
                      struct resolved *out, struct asking *asking)
{
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    struct policy_attribute *attributes = asking->attributes;
    const struct policy_slot *slot = &shard->policies[shard->policy];
    struct row *row = &shard->rows[item];
    size_t count = wire_checks_values(&shard->message.checks, item, values);
    for (size_t i = 0; i < count; i++)
        attributes[i] = (struct policy_attribute){template->names[i].data, template->names[i].len,
                                                  values[i].data, values[i].len};
    if (slot->denied != NULL && !spell(shard, attributes, count, &asking->spelling)) {
        fix_row(row, OUTCOME_ERROR, false, NULL);
        row->why = WHY_BOUNDS;
        return false;
    }
    const struct policy_rule *refusal = refuse_at_once(shard, attributes, &count, &asking->person);
    if ((asking->person.user_hash | asking->person.key_hash) != 0)
        note_usage(shard, item, &asking->person);
    asking->item = item;
    asking->out = out;
    asking->count = count;
    if (refusal != NULL) {
        fix_blocked(shard, row, refusal);
        return false;
    }
    const int error =
        policy_search_ask(&asking->search, slot->policy, attributes, count, &asking->result);
    asking->no_address = asking->result.spelling.absent;
    asking->no_address += slot->denied != NULL ? asking->spelling.absent : 0;
    shard->stats.no_address += asking->result.spelling.absent;
    if (error != 0) {
        fix_row(row, OUTCOME_ERROR, false, NULL);
        row->why = WHY_BOUNDS;
    }
    return error == 0;
}

/* Which attribute of the key is missing. */
static uint8_t why_absent(const struct policy_result *result)
{
    uint8_t place = 0;
    while (place + 1 < result->rule->key_count &&
           result->rule->key[place].data != result->missing.data)
        place++;
    return (uint8_t)(WHY_ABSENT + place);
}

/* Applies the rules that the item meets. What needs no limit fixes the row at once. */
static void apply_rules(struct shard *shard, struct asking *asking)
{
    const uint32_t item = asking->item;
    struct resolved *out = asking->out;
    struct policy_result *result = &asking->result;
    struct row *row = &shard->rows[item];
    if (!may_work(shard, item))
        return;
    policy_search_run(&asking->search);
    const uint64_t work = WORK_RULE * (uint64_t)result->compared + result->steps;
    shard->message.work += work;
    shard->turn_work += work;
    if (asking->person.own != NULL || asking->person.key_own != NULL)
        people_apply(&asking->person, asking->attributes, asking->count, result);
    if (result->shadow != NULL)
        requests_shadow(row, result->shadow);
    switch (result->action) {
    case POLICY_LIMITS:
        row->rule = result->rule; /* that lets by, behind rules on trial alone; else a limit's is */
        resolve_rules(shard, item, result, out);
        break;
    case POLICY_UNMATCHED:
        fix_row(row, OUTCOME_NO_RULE, result->allowed, NULL);
        resolve_rules(shard, item, result, out); /* those on trial */
        break;
    case POLICY_ALLOW:
        fix_row(row, OUTCOME_ALLOW, true, result->rule);
        break;
    case POLICY_BLOCK:
        fix_row(row, OUTCOME_BLOCKED, false, result->rule);
        break;
    case POLICY_MISSING:
        fix_row(row, OUTCOME_DENY, false, result->rule);
        row->why = why_absent(result);
        break;
    case POLICY_OVERFLOW:
        fix_row(row, OUTCOME_ERROR, false, NULL);
        row->why = WHY_CROWD;
        break;
    }
    note_lease(shard, item, out);
}

static const struct calendar_span utc_span = {.from_s = 0, .offset_s = 0};
static const struct calendar_zone utc = {.spans = &utc_span, .span_count = 1};

static void resolve_inline(struct shard *shard, uint32_t item, const struct wire_template *template,
                           struct resolved *out)
{
    const struct wire_text key = wire_checks_key(&shard->message.checks, item);
    const struct blocks *denied = shard->policies[shard->policy].denied;
    const struct policy_rule *block =
        denied == NULL ? NULL
                       : blocks_find_key(denied, key.data, key.len, (uint64_t)(shard->now_ns / MS));
    if (block != NULL) {
        fix_blocked(shard, &shard->rows[item], block);
        return;
    }
    if (identity_inline(&shard->identity, key.data, key.len) != 0) {
        fix_row(&shard->rows[item], OUTCOME_ERROR, false, NULL);
        shard->rows[item].why = WHY_BOUNDS;
        return;
    }
    struct limit limit = template->limit;
    if (limit_is_calendar(limit.align)) /* it says of which unit; who receives it, of which one */
        calendar_place(&utc, shard->now_ns, &limit);
    out->count = 1;
    out->rules[0] = NULL;
    start_forward(shard, item, 0, &out->parts[0]);
    place(shard, &limit, 1, out, 0);
    note_lease(shard, item, out);
}

/* The limit that a rule of a template is about; NULL: nothing limits it any more. */
static const struct policy_rule *named_rule(struct shard *shard, const struct wire_rule *named,
                                            struct limit *limit)
{
    const struct descriptors *descriptors =
        policy_descriptors(shard->policies[shard->policy].policy);
    const struct policy_text name = {named->name.data, named->name.len};
    uint32_t compared = 0;
    if (descriptors == NULL)
        return NULL;
    if (named->count > 0) {
        const struct descriptor_domain *domain = descriptors_domain(descriptors, &name);
        *limit = descriptor_limit(named->count, named->window_s);
        return domain != NULL ? &domain->given : NULL;
    }
    const struct policy_rule *rule = descriptors_rule(descriptors, &name, named->node, &compared);
    shard->message.work += compared;
    shard->turn_work += compared;
    if (rule == NULL || rule->limit_count == 0)
        return NULL;
    *limit = rule->limits[0];
    return rule;
}

/* An item that names its rules. They are of one domain, and were found by descriptors: what matches
 * is known, and what they are counted by. */
static void resolve_named(struct shard *shard, uint32_t item, const struct wire_template *template,
                          struct resolved *out)
{
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    const uint32_t count = wire_checks_values(&shard->message.checks, item, values);
    if (!may_work(shard, item))
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct identity_value path = {values[i].data, values[i].len};
        const uint32_t part = out->count;
        struct limit limit;
        const struct policy_rule *rule = named_rule(shard, &template->rules[i], &limit);
        if (rule == NULL || path.len > IDENTITY_VALUE_MAX)
            continue;
        const int error =
            identity_rule(&shard->identity, rule->counted.data, rule->counted.len, &path, 1);
        ASSERT(error == 0);
        out->rules[part] = rule;
        out->count++;
        start_rule(shard, item, part, rule, &out->parts[part]);
        if (count > 1)
            out->parts[part].flags |= FORWARD_SEVERAL;
        place(shard, &limit, 1, out, part);
    }
    if (out->count == 0)
        fix_row(&shard->rows[item], OUTCOME_NO_RULE, true, NULL);
    note_lease(shard, item, out);
}

bool resolve_waits(const struct shard *shard)
{
    if (shard->turn_work < shard->options.turn_work || shard->message.work >= RESOLVE_WORK_MAX)
        return false;
    for (uint32_t i = 0; i < shard->message.checks.template_count; i++)
        if (shard->message.checks.templates[i].kind != WIRE_TEMPLATE_INLINE)
            return true;
    return false;
}

/* The items from this one on are left to a later turn, and looked at anew then. */
static uint32_t leave(struct shard *shard, const struct asking *asking, uint32_t count,
                      uint32_t first)
{
    for (uint32_t i = 0; i < count; i++)
        shard->stats.no_address -= asking[i].no_address;
    return asking[0].item - first;
}

uint32_t resolve_items(struct shard *shard, uint32_t first, uint32_t count, struct resolved *out)
{
    struct asking asking[RESOLVED_MAX];
    uint32_t asked = 0;
    ASSERT(count <= RESOLVED_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_template *template =
            wire_checks_template(&shard->message.checks, first + i);
        out[i].count = 0;
        out[i].leases = out[i].trials = out[i].trial_leases = false;
        if (template->kind == WIRE_TEMPLATE_INLINE)
            resolve_inline(shard, first + i, template, &out[i]);
        else if (template->kind == WIRE_TEMPLATE_RULES)
            resolve_named(shard, first + i, template, &out[i]);
        else if (ask_rules(shard, template, first + i, &out[i], &asking[asked]))
            asked++;
    }
    for (uint32_t i = 0; i < asked; i++)
        policy_search_look(&asking[i].search);
    for (uint32_t i = 0; i < asked; i++) {
        if (i > 0 && shard->turn_work >= shard->options.turn_work) /* RESOLVE-4 */
            return leave(shard, &asking[i], asked - i, first);
        apply_rules(shard, &asking[i]);
    }
    return count;
}

/* policy_resolve.c - from the attributes of one request to the rules that act on it.
 *
 *   known attributes -> candidate lists -> merged by rank -> verified -> acts or not
 *
 *   for each matching rule, in rank order:
 *     closed group      -> skip it
 *     allow             -> end: bypass, or the parts found so far
 *     block             -> end: blocked
 *     key incomplete    -> missing: skip -> skip it;  deny -> end: missing
 *     otherwise         -> one more part
 *   at the end: parts -> charge them;  none -> unmatched
 *
 * POLICYRESOLVE-1  The result depends on the rules and the attributes alone, never on the index: it
 *                  is what testing every rule in rank order would give.
 * POLICYRESOLVE-2  A shadow rule changes nothing for enforced ones: it ends no search, closes no
 *                  group to them, gives way when the parts are full, and does not make a request
 *                  matched under `unmatched: deny`; it is a part of that all the same, for it is on
 *                  trial.
 * POLICYRESOLVE-3  No more than POLICY_PARTS_MAX parts, and never a silently lost limit: what does
 *                  not fit makes the result POLICY_OVERFLOW, unless a block rule decides anyway.
 *
 * Must not: allocate, charge anything, or keep what it was given.
 */
#include <string.h>

#include "base/assert.h"
#include "base/prefetch.h"
#include "node/policy/index/policy_index.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/index/policy_search.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_path.h"
#include "node/policy/model/policy_pattern.h"

/* A plan and its rule behind it, up to the windows, are seldom more than so many lines. */
enum { PLAN_LINES = 6 };

static const struct policy_index no_index; /* of a policy without rules */

/* Whether the value needs no other spelling, as far as can be told at once. */
static inline bool is_spelt(enum attribute_kind kind, const struct policy_text *value)
{
    return kind == ATTRIBUTE_VERBATIM ||
           (kind == ATTRIBUTE_PATH && policy_path_is_plain(value->data, value->len));
}

/* Notes an attribute if a rule mentions it, in the one spelling of its kind. The first of a name
 * that is not empty, then, counts. */
static int note(struct policy_search *request, const struct policy_attribute *given)
{
    const struct policy_index *index = request->index;
    const uint32_t attribute = policy_index_attribute(index, given->name, given->name_len);

    if (attribute == POLICY_INDEX_NONE || given->value_len == 0 ||
        policy_search_known(request, attribute) != NULL)
        return TG_OK;
    struct policy_known *known = &request->known[request->count];
    known->attribute = attribute;
    known->value = (struct policy_text){given->value, given->value_len};
    known->ip.len = 0;
    const enum attribute_kind kind = (enum attribute_kind)index->attributes[attribute].kind;
    if (!is_spelt(kind, &known->value) &&
        attribute_kind_spell(kind, &known->value, &known->ip, &request->out->spelling) != TG_OK)
        return TG_EINVALID;
    request->count += known->value.len > 0;
    return TG_OK;
}

static int note_all(struct policy_search *request, const struct policy_attribute *attributes,
                    size_t count)
{
    if (count > POLICY_ATTRIBUTES_MAX)
        return TG_EINVALID;
    for (size_t i = 0; i < count; i++) {
        if (attributes[i].name_len > POLICY_ATTRIBUTE_NAME_LEN_MAX ||
            attributes[i].value_len > POLICY_VALUE_LEN_MAX)
            return TG_EINVALID;
    }
    for (size_t i = 0; i < count; i++) {
        if (note(request, &attributes[i]) != TG_OK)
            return TG_EINVALID;
    }
    return TG_OK;
}

static bool rule_matches(const struct policy_search *request, const struct policy_plan *plan)
{
    const uint32_t *condition = policy_plan_conditions(plan);

    for (size_t i = 0; i < plan->match_count; i++) {
        const struct policy_known *known = policy_search_known(request, condition[0]);
        if (known == NULL ||
            !policy_plan_holds(condition, &known->value, &known->ip, request->space))
            return false;
        condition = policy_plan_next(condition);
    }
    return true;
}

const struct policy_plan *policy_search_closed(const struct policy_search *request,
                                               const struct policy_plan *plan)
{
    for (size_t i = 0; plan->group != 0 && i < request->out->part_count; i++) {
        const struct policy_plan *earlier = request->parts[i];
        if (earlier->group == plan->group && (!earlier->shadow || plan->shadow))
            return earlier;
    }
    return NULL;
}

bool policy_search_lacks(const struct policy_search *request, const struct policy_plan *plan,
                         size_t *place)
{
    for (*place = 0; *place < plan->key_count; (*place)++) {
        if (policy_search_known(request, policy_plan_key(plan)[*place]) == NULL)
            return true;
    }
    return false;
}

/* Drops the last shadow part to make room (POLICYRESOLVE-2). False if all parts are enforced. */
static bool drop_shadow_part(struct policy_search *request)
{
    for (size_t i = request->out->part_count; i-- > 0;) {
        if (!request->parts[i]->shadow)
            continue;
        memmove(&request->parts[i], &request->parts[i + 1],
                (request->out->part_count - i - 1) * sizeof(request->parts[0]));
        request->out->part_count--;
        return true;
    }
    return false;
}

static void add_part(struct policy_search *request, const struct policy_plan *plan)
{
    struct policy_result *out = request->out;

    if (out->part_count == POLICY_PARTS_MAX && (plan->shadow || !drop_shadow_part(request))) {
        request->overflow |= !plan->shadow; /* POLICYRESOLVE-3 */
        return;
    }
    ASSERT(out->part_count < POLICY_PARTS_MAX); /* POLICYRESOLVE-3 */
    request->parts[out->part_count++] = plan;
}

static bool end_search(struct policy_result *out, enum policy_action action,
                       const struct policy_plan *plan)
{
    ASSERT(out->rule == NULL && !plan->shadow); /* POLICYRESOLVE-2 */
    out->action = action;
    out->rule = plan->rule;
    return true;
}

bool policy_search_act(struct policy_search *request, const struct policy_plan *plan)
{
    struct policy_result *out = request->out;
    size_t place;

    if (!rule_matches(request, plan) || policy_search_closed(request, plan) != NULL)
        return false;
    if (plan->act == POLICY_ACT_ALLOW)
        return end_search(out, POLICY_ALLOW, plan);
    const bool missing = policy_search_lacks(request, plan, &place);
    const bool denies = plan->act == POLICY_ACT_BLOCK || (missing && plan->missing_deny);
    if (denies && plan->shadow) {
        out->shadow = out->shadow == NULL ? plan->rule : out->shadow;
        return false;
    }
    if (plan->act == POLICY_ACT_BLOCK)
        return end_search(out, POLICY_BLOCK, plan);
    if (!missing) {
        add_part(request, plan);
        return false;
    }
    if (plan->missing_deny) {
        out->missing = plan->rule->key[place];
        return end_search(out, POLICY_MISSING, plan);
    }
    return false;
}

/* Follows all lists at once, in rank order, which is that of the places; a rule that is in two of
 * them is looked at once. */
static void merge(struct policy_search *request, struct policy_places *lists, size_t count)
{
    uint64_t next = 0; /* the least place not looked at yet */

    while (count > 0) {
        size_t least = 0;
        for (size_t i = 1; i < count; i++) {
            if (lists[i].places[0] < lists[least].places[0])
                least = i;
        }
        const uint32_t place = lists[least].places[0];
        lists[least].places++;
        if (--lists[least].count == 0)
            lists[least] = lists[--count];
        if (place < next)
            continue;
        next = (uint64_t)place + 1;
        request->out->compared++;
        if (policy_search_act(request, policy_index_plan(request->index, place)))
            return;
    }
}

/* A plan lies anywhere in memory: asking for the first of each list hides most of the wait. */
static void prefetch_plans(const struct policy_index *index, const uint32_t *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct policy_places list = policy_index_places(index, &found[i]);
        const char *plan = (const char *)policy_index_plan(index, list.places[0]);
        for (size_t line = 0; line < PLAN_LINES; line++)
            prefetch(plan + line * PREFETCH_LINE);
    }
}

/* Puts what each known attribute asks for into `hashes`, as long as there is room for what one of
 * them may ask for. Returns how many they are, and in *asking of how many attributes. */
static size_t put_hashes(const struct policy_search *request, uint32_t *hashes, size_t room,
                         size_t *asking)
{
    const struct policy_index *index = request->index;
    size_t count = 0;
    size_t i = 0;

    for (; i < request->count && room - count >= POLICY_HASHES_MAX + POLICY_LENGTHS_MAX; i++)
        count += policy_index_hashes(index, request->known[i].attribute, &request->known[i].value,
                                     &request->known[i].ip, hashes + count);
    *asking = i;
    return count;
}

/* Merges what was found with the rules that are always looked at; `lists` has room for all. */
static void merge_found(struct policy_search *request, const uint32_t *found, size_t found_count,
                        struct policy_places *lists)
{
    const struct policy_index *index = request->index;
    size_t count = 0;

    if (index->always.count != 0)
        lists[count++] = index->always;
    for (size_t i = 0; i < found_count; i++)
        lists[count++] = policy_index_places(index, &found[i]);
    merge(request, lists, count);
}

/* Everything at once, for a request that asks for so much that it is not kept between steps. Not
 * inlined: others need not have so large a frame. */
__attribute__((noinline)) static void search_at_once(struct policy_search *request)
{
    const struct policy_index *index = request->index;
    uint32_t hashes[POLICY_CURSORS_MAX + POLICY_LENGTHS_MAX];
    struct policy_places lists[POLICY_CURSORS_MAX];
    size_t asking;
    size_t count = put_hashes(request, hashes, sizeof hashes / sizeof hashes[0], &asking);

    ASSERT(asking == request->count && count < POLICY_CURSORS_MAX);
    request->out->asked = (uint32_t)count;
    policy_index_prefetch(index, hashes, count);
    count = policy_index_find(index, hashes, count);
    prefetch_plans(index, hashes, count);
    merge_found(request, hashes, count, lists);
}

/* Writes the parts with their key values; an IPv6 address is cut to the rule's prefix. */
static void fill_parts(const struct policy_search *request)
{
    struct policy_result *out = request->out;

    for (size_t i = 0; i < out->part_count; i++) {
        const struct policy_plan *plan = request->parts[i];
        struct policy_part *part = &out->parts[i];
        part->rule = plan->rule;
        part->own = NULL;
        for (size_t k = 0; k < plan->key_count; k++) {
            const struct policy_known *known =
                policy_search_known(request, policy_plan_key(plan)[k]);
            ASSERT(known != NULL && known->value.len > 0); /* policy_search_lacks saw to it */
            part->values[k] = known->value;
            if (known->ip.len == POLICY_IPV6_LEN) {
                part->values[k].len = policy_ip_format(known->value.data, known->value.len,
                                                       plan->ipv6_prefix, out->ip_key[i][k]);
                part->values[k].data = out->ip_key[i][k];
            }
        }
    }
}

/* Whether an enforced part is among the parts. */
static bool any_enforced(const struct policy_search *request)
{
    for (size_t i = 0; i < request->out->part_count; i++) {
        if (!request->parts[i]->shadow)
            return true;
    }
    return false;
}

void policy_search_end(struct policy_search *request)
{
    struct policy_result *out = request->out;
    const bool deny = request->policy->unmatched_deny;
    const bool bypass = out->action == POLICY_ALLOW;
    ASSERT(out->part_count <= POLICY_PARTS_MAX); /* POLICYRESOLVE-3 */

    if (out->action == POLICY_BLOCK || out->action == POLICY_MISSING) {
        out->part_count = 0;
        return;
    }
    if (request->overflow) {
        out->action = POLICY_OVERFLOW;
        out->rule = NULL;
        out->shadow = NULL;
        out->part_count = 0;
        return;
    }
    out->allowed = bypass || !deny || any_enforced(request);
    if (out->part_count > 0) {
        if (out->allowed)
            out->action = POLICY_LIMITS;
        fill_parts(request);
    }
}

int policy_search_begin(struct policy_search *request, const struct policy *policy,
                        const struct policy_attribute *attributes, size_t count,
                        struct policy_result *out)
{
    request->policy = policy;
    request->index = policy->index != NULL ? policy->index : &no_index;
    request->out = out;
    request->space = NULL;
    request->count = 0;
    request->overflow = false;
    out->action = POLICY_UNMATCHED;
    out->allowed = false;
    out->rule = NULL;
    out->shadow = NULL;
    out->missing = (struct policy_text){NULL, 0};
    out->part_count = 0;
    out->asked = 0;
    out->compared = 0;
    out->steps = 0;
    policy_spelling_begin(&out->spelling);
    return note_all(request, attributes, count);
}

int policy_search_ask(struct policy_search *request, const struct policy *policy,
                      const struct policy_attribute *attributes, size_t count,
                      struct policy_result *out)
{
    size_t asking;

    if (policy_search_begin(request, policy, attributes, count, out) != TG_OK)
        return TG_EINVALID;
    request->asked_count = (uint32_t)put_hashes(request, request->asked, POLICY_ASKED_MAX, &asking);
    request->ahead = asking == request->count;
    out->asked = request->asked_count;
    policy_index_prefetch(request->index, request->asked, request->asked_count);
    return TG_OK;
}

void policy_search_look(struct policy_search *request)
{
    const struct policy_index *index = request->index;

    if (!request->ahead)
        return;
    ASSERT(request->asked_count <= POLICY_ASKED_MAX);
    request->asked_count = (uint32_t)policy_index_find(index, request->asked, request->asked_count);
    prefetch_plans(index, request->asked, request->asked_count);
}

void policy_search_run(struct policy_search *request)
{
    struct policy_places lists[1 + POLICY_ASKED_MAX];
    struct policy_pattern_space space;

    ASSERT(request->space == NULL); /* SEARCH-1 */
    policy_pattern_begin(&space);
    request->space = &space;
    if (request->ahead)
        merge_found(request, request->asked, request->asked_count, lists);
    else
        search_at_once(request);
    request->space = NULL;
    request->out->steps = space.steps;
    policy_search_end(request);
}

int policy_resolve(const struct policy *policy, const struct policy_attribute *attributes,
                   size_t count, struct policy_result *out)
{
    struct policy_search request;

    if (policy_search_ask(&request, policy, attributes, count, out) != TG_OK)
        return TG_EINVALID;
    policy_search_look(&request);
    policy_search_run(&request);
    return TG_OK;
}

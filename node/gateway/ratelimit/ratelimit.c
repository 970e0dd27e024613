/* ratelimit.c - see ratelimit.h. */
#include "node/gateway/ratelimit/ratelimit.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/gateway/ratelimit/ratelimit_struct.h"

/* ---- what is asked --------------------------------------------------------------------------- */

void ratelimit_begin(struct ratelimit_asking *asking, enum ratelimit_manner manner)
{
    asking->entry_count = 0;
    asking->request = (struct ratelimit_request){
        .domain = {"", 0}, .descriptors = asking->descriptors, .manner = manner};
}

struct ratelimit_descriptor *ratelimit_descriptor(struct ratelimit_asking *asking)
{
    const uint32_t at = asking->request.count++;
    struct ratelimit_descriptor *out =
        &asking->descriptors[at < RATELIMIT_DESCRIPTORS_MAX ? at : RATELIMIT_DESCRIPTORS_MAX - 1];
    *out = (struct ratelimit_descriptor){.entries = &asking->entries[asking->entry_count]};
    return out;
}

static struct ratelimit_descriptor *last_of(struct ratelimit_asking *asking)
{
    const uint32_t count = asking->request.count;
    ASSERT(count > 0);
    return &asking->descriptors[(count < RATELIMIT_DESCRIPTORS_MAX ? count
                                                                   : RATELIMIT_DESCRIPTORS_MAX) -
                                1];
}

bool ratelimit_entry(struct ratelimit_asking *asking, struct policy_text key,
                     struct policy_text value)
{
    struct ratelimit_descriptor *descriptor = last_of(asking);
    if (asking->entry_count == RATELIMIT_ENTRIES_MAX) {
        (void)snprintf(asking->error, sizeof asking->error,
                       "descriptors: found more than %d entries; expected at most so many",
                       (int)RATELIMIT_ENTRIES_MAX);
        return false;
    }
    asking->entries[asking->entry_count++] = (struct descriptor_entry){key, value};
    descriptor->entry_count++;
    return true;
}

bool ratelimit_limit(struct ratelimit_asking *asking, uint32_t requests, uint32_t unit,
                     uint32_t multiplier)
{
    static const uint32_t seconds[] = {0, 1, 60, 3600, 86400, 30 * 86400, 365 * 86400};
    struct ratelimit_descriptor *descriptor = last_of(asking);
    if (unit == 0 || unit >= sizeof seconds / sizeof *seconds) {
        (void)snprintf(asking->error, sizeof asking->error,
                       "descriptors[%u].limit.unit: found %u; expected 1 (second) to 6 (year)",
                       (unsigned)asking->request.count - 1, (unsigned)unit);
        return false;
    }
    descriptor->has_given = true;
    descriptor->given = (struct descriptor_given){(uint64_t)seconds[unit] * multiplier, requests};
    return true;
}

/* ---- what is found --------------------------------------------------------------------------- */

/* Keeps a text, or what of it has room. */
static uint16_t keep_text(struct ratelimit_found *out, const struct policy_text *text, size_t most,
                          size_t *len)
{
    const uint16_t at = out->state.texts_len;
    const size_t left = sizeof out->texts - at;
    *len = text->len < most ? text->len : most;
    *len = *len < left ? *len : left;
    memcpy(out->texts + at, text->data, *len);
    out->state.texts_len = (uint16_t)(at + *len);
    return at;
}

/* Metadata that have no room are left out. */
static void keep_metadata(struct ratelimit_found *out, const struct descriptors *descriptors,
                          const struct policy_text *domain)
{
    size_t len;
    for (uint32_t i = 0; i < out->state.count; i++) {
        const struct descriptor_found *found = &out->found[i];
        if (found->descriptor == NULL || found->match == DESCRIPTOR_REPLACED)
            continue;
        const struct policy_text *text = &descriptors->nodes[found->descriptor->node].metadata;
        const size_t left = sizeof out->texts - out->state.texts_len;
        if (text->len == 0 || text->data[0] != '{' || text->len + domain->len > left)
            continue;
        out->kept[i].metadata_at = keep_text(out, text, left, &len);
        out->kept[i].metadata_len = (uint16_t)len;
        if (out->state.domain_len > 0)
            continue;
        out->state.domain_at = keep_text(out, domain, left, &len);
        out->state.domain_len = (uint16_t)len;
    }
}

static void keep(struct ratelimit_found *out, uint32_t i, const struct descriptor_hits *hits)
{
    const struct descriptor_found *found = &out->found[i];
    struct ratelimit_kept *kept = &out->kept[i];
    const bool limited = found->match == DESCRIPTOR_LIMITED || found->match == DESCRIPTOR_NOTHING;
    *kept = (struct ratelimit_kept){
        .cost = hits->cost < WIRE_COST_MAX ? hits->cost : WIRE_COST_MAX,
        .limit = found->match == DESCRIPTOR_LIMITED ? found->limit.count : 0,
        .window_s = (uint32_t)found->window_s,
        .requests_per_unit = found->requests_per_unit,
        .match = (uint8_t)found->match,
        .use = (uint8_t)hits->use,
        .item = RATELIMIT_NO_ITEM,
        .quota = found->descriptor != NULL && found->descriptor->quota,
        .shadow = limited && found->rule->shadow,
    };
    if (!limited || found->descriptor == NULL)
        return;
    size_t len;
    kept->name_at = keep_text(out, &found->descriptor->name, RATELIMIT_NAME_LEN_MAX, &len);
    kept->name_len = (uint8_t)len;
}

/* What denials tell; one that has no room is left out. A text that has been kept is kept once. */
static void keep_messages(struct ratelimit_found *out)
{
    const char *last = NULL;
    const struct ratelimit_kept *before = NULL;
    size_t len;
    for (uint32_t i = 0; i < out->state.count; i++) {
        struct ratelimit_kept *kept = &out->kept[i];
        if (kept->match != DESCRIPTOR_LIMITED && kept->match != DESCRIPTOR_NOTHING)
            continue;
        const struct policy_text *text = &out->found[i].rule->message;
        if (text->data == last && before != NULL && before->message_len == text->len) {
            kept->message_at = before->message_at;
            kept->message_len = before->message_len;
        } else if (text->len > 0 && text->len <= sizeof out->texts - out->state.texts_len) {
            kept->message_at = keep_text(out, text, text->len, &len);
            kept->message_len = (uint16_t)len;
            last = text->data;
            before = kept;
        }
    }
}

/* Those that cost the same, and do the same, are of one item. */
static uint8_t item_of(const struct ratelimit_found *out, uint32_t count,
                       struct ratelimit_kept *kept)
{
    for (uint32_t i = 0; out->state.all && i < count; i++) {
        const struct ratelimit_kept *other = &out->kept[i];
        if (other->item == RATELIMIT_NO_ITEM || other->use != kept->use ||
            other->cost != kept->cost)
            continue;
        kept->row = (uint8_t)(other->row + 1 > kept->row ? other->row + 1 : kept->row);
        kept->item = other->item;
    }
    return kept->item;
}

static int place(struct ratelimit_found *out, char *error)
{
    for (uint32_t i = 0; i < out->state.count; i++) {
        struct ratelimit_kept *kept = &out->kept[i];
        if (kept->match != DESCRIPTOR_LIMITED)
            continue;
        if (item_of(out, i, kept) == RATELIMIT_NO_ITEM)
            kept->item = out->state.items++;
        if (kept->row < WIRE_RULES_MAX)
            continue;
        (void)snprintf(error, RATELIMIT_ERROR_LEN,
                       "descriptors: found more than %d with limits; expected at most so many "
                       "where the rules say charge: all",
                       (int)WIRE_RULES_MAX);
        return TG_EINVALID;
    }
    if (!out->state.all || out->state.items <= WIRE_EXPLAIN_ITEMS_MAX)
        return TG_OK;
    (void)snprintf(
        error, RATELIMIT_ERROR_LEN,
        "descriptors: found more than %d different hits_addend; expected at most so many "
        "where the rules say charge: all",
        (int)WIRE_EXPLAIN_ITEMS_MAX);
    return TG_EINVALID;
}

static int find_one(const struct policy *policy, const struct ratelimit_request *request,
                    uint32_t i, const struct hash_key *secret, struct ratelimit_found *out,
                    char *error)
{
    char why[DESCRIPTOR_ERROR_LEN];
    const struct ratelimit_descriptor *asked = &request->descriptors[i];
    const struct descriptor_request one = {
        .domain = request->domain,
        .entries = asked->entries,
        .entry_count = asked->entry_count,
        .given = asked->has_given ? &asked->given : NULL,
    };
    if (policy_descriptor_find(policy, &one, secret, &out->found[i], why) == TG_OK)
        return TG_OK;
    if (request->domain.len == 0)
        (void)snprintf(error, RATELIMIT_ERROR_LEN, "%s", why);
    else
        (void)snprintf(error, RATELIMIT_ERROR_LEN, "descriptors[%u].%s", (unsigned)i, why);
    return TG_EINVALID;
}

int ratelimit_find(const struct policy *policy, const struct ratelimit_request *request,
                   const struct hash_key *secret, struct ratelimit_found *out,
                   char error[RATELIMIT_ERROR_LEN])
{
    const struct policy *rules = policy != NULL ? policy : policy_empty();
    const struct descriptors *descriptors = policy_descriptors(rules);
    static const struct descriptor_hits alike = {DESCRIPTOR_CHARGE, 1};
    out->state = (struct ratelimit_state){
        .manner = (uint8_t)request->manner,
        .all = (descriptors != NULL && descriptors->all_or_nothing) ||
               request->manner >= RATELIMIT_RESERVE,
    };
    if (request->count == 0 || request->count > RATELIMIT_DESCRIPTORS_MAX) {
        (void)snprintf(error, RATELIMIT_ERROR_LEN, "descriptors: found %u; expected 1 to %d",
                       (unsigned)request->count, (int)RATELIMIT_DESCRIPTORS_MAX);
        return TG_EINVALID;
    }
    out->state.count = (uint8_t)request->count;
    for (uint32_t i = 0; i < request->count; i++)
        if (find_one(rules, request, i, secret, out, error) != TG_OK)
            return TG_EINVALID;
    policy_descriptors_replace(out->found, request->count);
    for (uint32_t i = 0; i < request->count; i++)
        keep(out, i, request->manner < RATELIMIT_RESERVE ? &request->descriptors[i].hits : &alike);
    keep_messages(out);
    if (descriptors != NULL)
        keep_metadata(out, descriptors, &request->domain);
    return place(out, error);
}

size_t ratelimit_state_len(const struct ratelimit_found *found)
{
    return sizeof found->state + found->state.count * sizeof found->kept[0] +
           found->state.texts_len;
}

void ratelimit_state_put(const struct ratelimit_found *found, void *out)
{
    const size_t kept_len = found->state.count * sizeof found->kept[0];
    char *at = out;
    memcpy(at, &found->state, sizeof found->state);
    memcpy(at + sizeof found->state, found->kept, kept_len);
    memcpy(at + sizeof found->state + kept_len, found->texts, found->state.texts_len);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static uint8_t operation_of(const struct ratelimit_kept *kept, enum ratelimit_manner manner)
{
    if (kept->use == DESCRIPTOR_REFUND)
        return manner == RATELIMIT_LOOK ? OPERATION_PEEK : OPERATION_REFUND;
    if (kept->use == DESCRIPTOR_LOOK || manner == RATELIMIT_LOOK)
        return OPERATION_PEEK;
    return manner == RATELIMIT_REPORT ? OPERATION_HIT : OPERATION_CHECK;
}

static struct wire_rule rule_of(const struct descriptor_found *found,
                                const struct ratelimit_request *request)
{
    struct wire_rule rule = {.name = {request->domain.data, request->domain.len}};
    if (found->descriptor != NULL) {
        rule.name = (struct wire_text){found->rule->name.data, found->rule->name.len};
        rule.node = found->descriptor->node;
    } else {
        rule.count = found->requests_per_unit;
        rule.window_s = found->window_s;
    }
    return rule;
}

static int append(const struct ratelimit_found *found, const struct ratelimit_request *request,
                  uint8_t item, struct wire_checks_builder *builder)
{
    struct wire_rule rules[WIRE_RULES_MAX];
    struct wire_text paths[WIRE_RULES_MAX];
    const struct ratelimit_kept *kept = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->state.count; i++) {
        if (found->kept[i].item != item)
            continue;
        ASSERT(count < WIRE_RULES_MAX && found->kept[i].row == count);
        kept = &found->kept[i];
        rules[count] = rule_of(&found->found[i], request);
        paths[count++] = (struct wire_text){found->found[i].path.data, found->found[i].path.len};
    }
    ASSERT(kept != NULL);
    const int shape = wire_checks_builder_rules(builder, rules, count);
    if (shape < 0)
        return shape;
    if (request->manner >= RATELIMIT_RESERVE)
        return wire_checks_builder_append_used(
            builder, (uint32_t)shape,
            request->manner == RATELIMIT_RESERVE ? OPERATION_RESERVE : OPERATION_COMMIT,
            request->cost, request->used, paths, count);
    return wire_checks_builder_append(builder, (uint32_t)shape, operation_of(kept, request->manner),
                                      kept->use == DESCRIPTOR_LOOK ? 0 : kept->cost, paths, count);
}

int ratelimit_append(const struct ratelimit_found *found, const struct ratelimit_request *request,
                     struct wire_checks_builder *builder)
{
    for (uint8_t item = 0; item < found->state.items; item++) {
        const int number = append(found, request, item, builder);
        ASSERT(number >= 0 || number == TG_EFULL); /* what was found is in bounds */
        if (number < 0)
            return number;
    }
    return TG_OK;
}

/* ---- statuses -------------------------------------------------------------------------------- */

static const struct ratelimit_kept *kept_of(const struct ratelimit_state *state)
{
    return (const struct ratelimit_kept *)(state + 1);
}

static bool is_failure(const struct wire_decision *decision)
{
    return !decision->allowed &&
           (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY);
}

/* What was decided of the limit, whose row it is where several decide together. A row that is
 * missing was not asked: nothing was counted. */
static struct descriptor_decision decision_of(const struct ratelimit_state *state,
                                              const struct ratelimit_kept *kept,
                                              const struct wire_decisions *decisions,
                                              const struct wire_decision *decision)
{
    const struct wire_explain *explain = decisions->explain;
    struct descriptor_decision out = {
        .allowed = decision->allowed && decision->outcome != OUTCOME_SHADOW_DENIED,
        .used = decision->used,
        .remaining = decision->remaining,
    };
    if (!state->all)
        return out;
    const uint32_t begin = explain == NULL || kept->item == 0 ? 0 : explain->end[kept->item - 1];
    const uint32_t end = explain == NULL ? 0 : explain->end[kept->item];
    if (begin + kept->row >= end)
        return (struct descriptor_decision){decision->allowed, 0, kept->limit};
    const struct wire_explain_row *row = &explain->rows[begin + kept->row];
    return (struct descriptor_decision){row->allowed, row->used, row->remaining};
}

static const char *texts_of(const struct ratelimit_state *state)
{
    return (const char *)(kept_of(state) + state->count);
}

/* In a map of Protocol Buffers the last one of a key counts: so the first descriptor comes last. */
static void tell_metadata(const struct ratelimit_state *state, struct ratelimit_answer *answer)
{
    static const char begin[] = "{\"domain\":";
    static const char middle[] = ",\"metadata\":{";
    char json[2 * RATELIMIT_TEXTS_LEN];
    struct descriptor_writer writer = {json, sizeof json, 0};
    const struct policy_text domain = {texts_of(state) + state->domain_at, state->domain_len};
    bool any = false;
    descriptor_write(&writer, begin, sizeof begin - 1);
    descriptor_write_quoted(&writer, &domain);
    descriptor_write(&writer, middle, sizeof middle - 1);
    for (uint32_t i = state->count; i-- > 0;) {
        const struct ratelimit_kept *kept = &kept_of(state)[i];
        if (kept->metadata_len <= 2 || answer->statuses[i].over)
            continue;
        if (any)
            descriptor_write(&writer, ",", 1);
        any = true;
        descriptor_write(&writer, texts_of(state) + kept->metadata_at + 1, kept->metadata_len - 2U);
    }
    descriptor_write(&writer, "}}", 2);
    if (any && writer.len <= writer.capacity)
        answer->metadata_len =
            ratelimit_struct_put(json, writer.len, answer->metadata, sizeof answer->metadata);
}

static void settle_one(const struct ratelimit_state *state, const struct ratelimit_kept *kept,
                       const struct descriptor_decision *decision, uint64_t now_s,
                       struct descriptor_status *status)
{
    const struct policy_rule rule = {.shadow = kept->shadow};
    const struct descriptor descriptor = {.name = {texts_of(state) + kept->name_at, kept->name_len},
                                          .quota = kept->quota};
    const struct descriptor_hits hits = {(enum descriptor_use)kept->use, kept->cost};
    struct descriptor_found found;
    found.match = (enum descriptor_match)kept->match;
    found.rule = &rule;
    found.descriptor = &descriptor;
    found.limit.count = kept->limit;
    found.window_s = kept->window_s;
    found.requests_per_unit = kept->requests_per_unit;
    *status = descriptor_status_of(&found, &hits, decision, now_s);
    status->over = status->over && state->manner != RATELIMIT_REPORT;
}

static struct policy_text message_of(const struct ratelimit_state *state,
                                     const struct ratelimit_answer *answer)
{
    const struct ratelimit_kept *kept = kept_of(state);
    for (uint32_t i = 0; answer->over && i < state->count; i++)
        if (answer->statuses[i].over && kept[i].message_len > 0)
            return (struct policy_text){texts_of(state) + kept[i].message_at, kept[i].message_len};
    return (struct policy_text){"", 0};
}

void ratelimit_settle(const struct ratelimit_state *state, const struct wire_decisions *decisions,
                      uint32_t first, uint64_t now_s, struct ratelimit_answer *answer)
{
    answer->count = state->count;
    answer->failed = NULL;
    answer->metadata_len = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        struct ratelimit_kept kept = kept_of(state)[i];
        struct descriptor_decision told = {true, 0, 0};
        if (kept.item != RATELIMIT_NO_ITEM) {
            struct wire_decision decision;
            wire_decision_at(decisions, first + kept.item, &decision);
            if (is_failure(&decision)) {
                answer->failure = decision;
                answer->failed = &answer->failure;
                return;
            }
            if (decision.outcome == OUTCOME_NO_RULE) /* the limit has gone meanwhile */
                kept.match = DESCRIPTOR_NO_LIMIT;
            told = decision_of(state, &kept, decisions, &decision);
        }
        settle_one(state, &kept, &told, now_s, &answer->statuses[i]);
    }
    answer->over = state->manner != RATELIMIT_REPORT &&
                   descriptor_statuses_over(answer->statuses, answer->count, false);
    answer->message = message_of(state, answer);
    if (state->domain_len > 0 && state->manner == RATELIMIT_CHECK)
        tell_metadata(state, answer);
}

/* ---- header fields --------------------------------------------------------------------------- */

const char *const ratelimit_fields_words[] = {[RATELIMIT_FIELDS_OFF] = "off",
                                              [RATELIMIT_FIELDS_DRAFT] = "draft",
                                              [RATELIMIT_FIELDS_LEGACY] = "legacy",
                                              NULL};

/* As envoyproxy/ratelimit chooses it (service/ratelimit.go, shouldRateLimitWorker). */
static const struct descriptor_status *nearest(const struct ratelimit_answer *answer)
{
    const struct descriptor_status *best = NULL;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct descriptor_status *status = &answer->statuses[i];
        if (!status->limited || !(status->over || status->limit_remaining < least))
            continue;
        best = status;
        least = status->over ? 0 : status->limit_remaining;
    }
    return best;
}

uint32_t ratelimit_fields_of(const struct ratelimit_answer *answer, enum ratelimit_fields kind,
                             struct ratelimit_field out[RATELIMIT_FIELDS_COUNT])
{
    static const char *const names[][RATELIMIT_FIELDS_COUNT] = {
        [RATELIMIT_FIELDS_DRAFT] = {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"},
        [RATELIMIT_FIELDS_LEGACY] = {"X-RateLimit-Limit", "X-RateLimit-Remaining",
                                     "X-RateLimit-Reset"}};
    const struct descriptor_status *status = nearest(answer);
    if (kind == RATELIMIT_FIELDS_OFF || status == NULL)
        return 0;
    const uint32_t values[] = {status->requests_per_unit, status->limit_remaining, status->reset_s};
    for (uint32_t i = 0; i < RATELIMIT_FIELDS_COUNT; i++) {
        out[i].name = names[kind][i];
        (void)snprintf(out[i].value, sizeof out[i].value, "%u", (unsigned)values[i]);
    }
    return RATELIMIT_FIELDS_COUNT;
}

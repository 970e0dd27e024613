/* policy_explain.c - why each rule acts on a request, or does not.
 *
 * Every rule is looked at in acting order, and its first obstacle noted:
 *
 *   disabled? --> search ended before? --> a condition that fails? --> group closed?
 *       --> key incomplete (missing: skip)? --> acts
 *
 * POLICYEXPLAIN-1  The result is that of policy_resolve: a rule acts by the same function, and
 *                  obstacles are only looked for. What is found to have none does act.
 *
 * Must not: be called for each request; it is for people who ask.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "node/policy/index/policy_index.h"
#include "node/policy/index/policy_plan.h"
#include "node/policy/index/policy_resolve.h"
#include "node/policy/index/policy_search.h"
#include "node/policy/model/policy_internal.h"
#include "node/policy/model/policy_pattern.h"

enum { SHOWN_LEN_MAX = 40, EXPECTED_SHOWN_MAX = 4 };

/* Notes the first condition that does not hold. False if all do. */
static bool fails_condition(const struct policy_search *search, const struct policy_plan *plan,
                            struct policy_reason *reason)
{
    const uint32_t *condition = policy_plan_conditions(plan);

    for (size_t i = 0; i < plan->match_count; i++) {
        const struct policy_known *known = policy_search_known(search, condition[0]);
        if (known == NULL ||
            !policy_plan_holds(condition, &known->value, &known->ip, search->space)) {
            reason->why = known == NULL ? POLICY_WHY_ABSENT : POLICY_WHY_VALUE;
            reason->expected = &plan->rule->matches[i];
            reason->attribute = reason->expected->attribute;
            if (known != NULL)
                reason->found = known->value;
            return true;
        }
        condition = policy_plan_next(condition);
    }
    return false;
}

/* Notes what keeps an enabled rule from acting. False if nothing does. */
static bool is_kept(const struct policy_search *search, const struct policy_plan *plan,
                    struct policy_reason *reason)
{
    size_t place;

    if (fails_condition(search, plan, reason))
        return true;
    const struct policy_plan *earlier = policy_search_closed(search, plan);
    if (earlier != NULL) {
        reason->why = POLICY_WHY_GROUP;
        reason->by = earlier->rule;
        return true;
    }
    if (plan->act != POLICY_ACT_THROTTLE || plan->missing_deny ||
        !policy_search_lacks(search, plan, &place))
        return false;
    reason->why = POLICY_WHY_NOT_COUNTED;
    reason->attribute = plan->rule->key[place];
    return true;
}

int policy_explain(const struct policy *policy, const struct policy_attribute *attributes,
                   size_t count, struct policy_result *out, struct policy_reason *reasons)
{
    struct policy_search search;
    struct policy_pattern_space space;
    const struct policy_rule *ended = NULL;

    if (policy_search_begin(&search, policy, attributes, count, out) != TG_OK)
        return TG_EINVALID;
    policy_pattern_begin(&space);
    search.space = &space;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct policy_plan *plan =
            policy_index_plan(policy->index, policy->index->plan_at[i]);
        struct policy_reason *reason = &reasons[i];
        *reason = (struct policy_reason){.why = POLICY_WHY_ACTS};
        if (!plan->rule->enabled) {
            reason->why = POLICY_WHY_DISABLED;
        } else if (plan->rule->descriptor != NULL) {
            reason->why = POLICY_WHY_DOMAIN;
        } else if (ended != NULL) {
            reason->why = POLICY_WHY_ENDED;
            reason->by = ended;
        } else if (!is_kept(&search, plan, reason) && policy_search_act(&search, plan)) {
            ended = plan->rule;
        }
    }
    out->compared = (uint32_t)policy->rule_count;
    policy_search_end(&search);
    return TG_OK;
}

const char *policy_why_name(enum policy_why why)
{
    static const char *const names[POLICY_WHY_COUNT] = {
        [POLICY_WHY_ACTS] = "acts",     [POLICY_WHY_DISABLED] = "disabled",
        [POLICY_WHY_ABSENT] = "absent", [POLICY_WHY_VALUE] = "value",
        [POLICY_WHY_GROUP] = "group",   [POLICY_WHY_NOT_COUNTED] = "not_counted",
        [POLICY_WHY_ENDED] = "ended",   [POLICY_WHY_DOMAIN] = "domain",
    };
    ASSERT(why < POLICY_WHY_COUNT);
    return names[why];
}

/* --- sentences --------------------------------------------------------------------------- */

struct sentence {
    char *out;
    size_t len;
    size_t capacity;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *sentence, const char *format,
                                                      ...)
{
    va_list arguments;
    const size_t room = sentence->capacity - sentence->len;
    ASSERT(sentence->len < sentence->capacity);

    va_start(arguments, format);
    const int written = vsnprintf(sentence->out + sentence->len, room, format, arguments);
    va_end(arguments);
    if (written > 0)
        sentence->len += (size_t)written < room ? (size_t)written : room - 1;
}

/* A text in quotation marks, shortened between two characters; what is not printable becomes a
 * question mark. */
static void say_text(struct sentence *sentence, const struct policy_text *text)
{
    size_t len = text->len < SHOWN_LEN_MAX ? text->len : SHOWN_LEN_MAX;

    while (len > 0 && len < text->len && ((unsigned char)text->data[len] & 0xc0) == 0x80)
        len--;
    say(sentence, "\"");
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text->data[i];
        say(sentence, "%c", c < 0x20 || c == 0x7f ? '?' : c);
    }
    say(sentence, text->len > len ? "...\"" : "\"");
}

static void say_expected(struct sentence *sentence, const struct policy_match *match)
{
    for (uint32_t i = 0; i < match->value_count && i < EXPECTED_SHOWN_MAX; i++) {
        say(sentence, i == 0 ? "" : " or ");
        say_text(sentence, &match->values[i]);
    }
    if (match->value_count > EXPECTED_SHOWN_MAX)
        say(sentence, " or %u more", match->value_count - EXPECTED_SHOWN_MAX);
}

void policy_bounds_format(const struct policy_attribute *attributes, size_t count, char *out,
                          size_t capacity)
{
    struct sentence sentence = {.out = out, .capacity = capacity};

    ASSERT(capacity > 0);
    out[0] = '\0';
    if (count > POLICY_ATTRIBUTES_MAX) {
        say(&sentence, "found %zu attributes; expected at most %d", count,
            POLICY_ATTRIBUTES_GIVEN_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct policy_text name = {attributes[i].name, attributes[i].name_len};
        if (name.len <= POLICY_ATTRIBUTE_NAME_LEN_MAX &&
            attributes[i].value_len <= POLICY_VALUE_LEN_MAX)
            continue;
        say(&sentence, "attribute ");
        say_text(&sentence, &name);
        if (name.len > POLICY_ATTRIBUTE_NAME_LEN_MAX)
            say(&sentence, ": found a name of %zu bytes; expected at most %d", name.len,
                POLICY_ATTRIBUTE_NAME_LEN_MAX);
        else
            say(&sentence, ": found a value of %zu bytes; expected at most %d",
                attributes[i].value_len, POLICY_VALUE_LEN_MAX);
        return;
    }
    say(&sentence, "%s", POLICY_SPELLING_SENTENCE);
}

void policy_reason_format(const struct policy_rule *rule, const struct policy_reason *reason,
                          char *out, size_t capacity)
{
    struct sentence sentence = {.out = out, .capacity = capacity};

    ASSERT(capacity > 0);
    out[0] = '\0';
    switch (reason->why) {
    case POLICY_WHY_ACTS:
        say(&sentence, "every condition holds%s",
            rule->shadow ? "; on trial, it never denies" : "");
        break;
    case POLICY_WHY_DISABLED:
        say(&sentence, "it is disabled");
        break;
    case POLICY_WHY_ABSENT:
        say(&sentence, "the request has no %s; expected ", reason->attribute.data);
        say_expected(&sentence, reason->expected);
        break;
    case POLICY_WHY_VALUE:
        say(&sentence, "%s is ", reason->attribute.data);
        say_text(&sentence, &reason->found);
        say(&sentence, "; expected ");
        say_expected(&sentence, reason->expected);
        break;
    case POLICY_WHY_GROUP:
        say(&sentence, "rule %s applies first in group %s", reason->by->name.data,
            rule->group.data);
        break;
    case POLICY_WHY_NOT_COUNTED:
        say(&sentence, "its key counts by %s, which the request lacks", reason->attribute.data);
        break;
    case POLICY_WHY_ENDED:
        say(&sentence, "rule %s ended the search", reason->by->name.data);
        break;
    case POLICY_WHY_DOMAIN:
        say(&sentence, "it counts descriptors of its domain, never attributes");
        break;
    case POLICY_WHY_COUNT:
        break;
    }
}

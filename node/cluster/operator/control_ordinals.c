/* control_ordinals.c - an edit of the rules goes with which counts stay whose
 * (node/policy/compile/ordinals.h).
 *
 *   rules in force, and what is kept beside them
 *   new rules, as compiled                         --> ordinals --> one change: rules, ordinals
 *
 * The node that an operator asks decides it, once for all: what it gives is a record beside the
 * rules, in the same change, and every node gives its limits those ordinals when it has compiled
 * them. Rules that an older release changed have no such record of their own; then each node
 * matches them with the last one, and all come to the same.
 */
#include <stdio.h>

#include "node/cluster/configstore/settings.h"
#include "node/cluster/operator/control_answer.h"
#include "node/policy/compile/ordinals.h"
#include "node/policy/compile/packed.h"
#include "node/policy/compile/policy_diff.h"

static const struct settings_text record_name = {.data = "rules", .len = 5};

struct settings_text control_ordinals_known(const struct control *control)
{
    const struct settings_entry *entry =
        settings_table_find(&control->settings->table, SETTINGS_ORDINALS, &record_name);
    return entry != NULL ? entry->value : (struct settings_text){.data = NULL, .len = 0};
}

/* The oldest version of the rules that is kept; 0: there is none. */
static uint64_t oldest_version(const struct control *control)
{
    static const struct settings_text none = {.data = "", .len = 0};
    const struct settings_table *table = &control->settings->table;
    const size_t first = settings_table_at(table, SETTINGS_RULES, &none);
    const bool any = first < table->count && table->records[first]->entry.kind == SETTINGS_RULES;
    return any ? table->records[first]->entry.version : 0;
}

/* The newest rules that this node has not put in force yet, or (NULL) those that it has. */
static struct policy *compile_newest(const struct control *control)
{
    struct settings_entry newest;
    struct policy_error error;
    struct policy *policy = NULL;
    const struct settings_text known = control_ordinals_known(control);
    if (!control_rules_known(control, &newest) || newest.version == control->rules_version ||
        packed_compile(newest.value.data, newest.value.len, control->allocator,
                       control->options.zones, &policy, &error) != 0)
        return NULL;
    if (ordinals_give(policy, known.data, known.len, control->allocator) != 0)
        policy_free(&policy);
    return policy;
}

/* As ordinals_edit, if `new`, a document of that length, followed the newest rules; `mine` are
 * those in force here. */
static int control_ordinals(const struct control *control, const struct policy *mine,
                            const struct policy *new, size_t new_len, struct ordinals *out)
{
    struct settings_entry newest = {.version = 0};
    const struct settings_text known = control_ordinals_known(control);
    struct policy *compiled = compile_newest(control);
    (void)control_rules_known(control, &newest);
    const struct ordinals_edit edit = {
        .old = compiled != NULL ? compiled : mine,
        .new = new,
        .known = known.data,
        .known_len = known.len,
        .version = newest.version != 0 ? newest.version : 1,
        .oldest = oldest_version(control),
        .len_max = SETTINGS_VALUE_LEN_MAX - new_len + SETTINGS_BESIDE_LEN,
    };
    const int result = ordinals_edit(&edit, control->allocator, out);
    policy_free(&compiled);
    return result;
}

/* ---- telling --------------------------------------------------------------------------------- */

enum { COUNTS_MAX = 256, LIMIT_TEXT_LEN = QUANTITY_TEXT_LEN + 32 };

/* Which counts an edit keeps, on their way into an answer; or (writer NULL) they are counted. */
struct telling {
    const struct ordinals *ordinals;
    const struct policy *old;
    const struct policy *new;
    struct mp_writer *writer;
    uint32_t count;
};

static void tell(struct telling *telling, const struct policy_rule *rule, uint32_t i,
                 const char *what)
{
    char text[LIMIT_TEXT_LEN];
    if (telling->count == COUNTS_MAX)
        return;
    telling->count++;
    if (telling->writer == NULL)
        return;
    (void)snprintf(text, sizeof text, "%s %s", rule->windows[i],
                   algorithm_name(rule->limits[i].algorithm));
    mp_put_map(telling->writer, 3);
    put_field_str(telling->writer, "rule", rule->name.data);
    put_field_str(telling->writer, "limit", text);
    put_field_str(telling->writer, "count", what);
}

/* A rule that has changed, or (old NULL) has come. */
static void tell_rule(struct telling *telling, const struct policy_rule *old,
                      const struct policy_rule *new)
{
    static const char *const words[] = {
        [ORDINALS_ANEW] = "begins anew", [ORDINALS_STAYS] = "stays", [ORDINALS_BACK] = "is back"};
    for (uint32_t i = 0; i < new->limit_count; i++) {
        const enum ordinals_fate fate = ordinals_fate(telling->ordinals, telling->old, old, new, i);
        if (fate != ORDINALS_ANEW || old != NULL)
            tell(telling, new, i, words[fate]);
    }
    for (uint32_t i = 0; old != NULL && i < old->limit_count; i++)
        if (ordinals_ends(telling->ordinals, old, i, telling->new, new))
            tell(telling, old, i, "ends");
}

static void tell_all(struct telling *telling, const struct policy_diff *diff)
{
    for (uint32_t i = 0; i < diff->listed[POLICY_CHANGED] && telling->count < COUNTS_MAX; i++) {
        const struct policy_rule *new = diff->rules[POLICY_CHANGED][i];
        tell_rule(telling, policy_rule_find(telling->old, new->name.data, new->name.len), new);
    }
    for (uint32_t i = 0; i < diff->listed[POLICY_ADDED] && telling->count < COUNTS_MAX; i++)
        tell_rule(telling, NULL, diff->rules[POLICY_ADDED][i]);
}

void control_put_counts(const struct answer_context *context, const struct policy *new,
                        size_t new_len, const struct policy_diff *diff)
{
    const struct policy *mine = context->report->policy;
    struct ordinals ordinals;
    mp_put_str(context->writer, "counts");
    if (control_ordinals(context->control, mine, new, new_len, &ordinals) != 0) {
        mp_put_array(context->writer, 0); /* applying tells why */
        return;
    }
    struct telling telling = {.ordinals = &ordinals, .old = mine, .new = new};
    tell_all(&telling, diff);
    mp_put_array(context->writer, telling.count);
    telling.count = 0;
    telling.writer = context->writer;
    tell_all(&telling, diff);
    ordinals_fini(&ordinals);
}

/* ---- edits ----------------------------------------------------------------------------------- */

int control_edit_rules(struct control *control, int64_t now_ns, const struct policy *mine,
                       struct control_edit_request *request)
{
    struct ordinals ordinals;
    struct settings_entry newest = {.version = 0};
    if (request->value.len > SETTINGS_VALUE_LEN_MAX)
        return TG_ETOOBIG;
    if (control_edit_known(control, request->id))
        return 0;
    int result = control_ordinals(control, mine, request->rules, request->value.len, &ordinals);
    if (result != 0)
        return result;
    (void)control_rules_known(control, &newest);
    request->beside = (struct settings_text){(const char *)ordinals.bytes, ordinals.len};
    request->beside_of = newest.version;
    result = control_edit(control, now_ns, request);
    request->beside = (struct settings_text){.data = NULL, .len = 0};
    ordinals_fini(&ordinals);
    return result;
}

/* replay_notes.c - sentences that a reader of the report should know: what was assumed, what is
 * missing, and what to do about it. Each is a function that writes its sentence or says that there
 * is nothing to say. */
#include <stdio.h>
#include <string.h>

#include "client/cli/replay/replay_report.h"

enum { SHORT_WINDOW_S = 10 };
#define SECOND_NS UINT64_C(1000000000)

static unsigned long long number(uint64_t value)
{
    return (unsigned long long)value;
}

static bool text_equal(struct policy_text a, struct policy_text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static bool counts_by(const struct policy_rule *rule, struct policy_text name)
{
    for (uint8_t k = 0; k < rule->key_count; k++)
        if (text_equal(rule->key[k], name))
            return true;
    return false;
}

static bool matches(const struct policy_rule *rule, struct policy_text name)
{
    for (uint8_t k = 0; k < rule->match_count; k++)
        if (text_equal(rule->matches[k].attribute, name))
            return true;
    return false;
}

/* The rule in force that mentions the attribute first. */
static const struct policy_rule *mentioned_by(const struct replay_run *run, struct policy_text name)
{
    for (size_t i = 0; i < policy_rule_count(run->policy); i++) {
        const struct policy_rule *rule = policy_rule_at(run->policy, i);
        if (rule->enabled && (counts_by(rule, name) || matches(rule, name)))
            return rule;
    }
    return NULL;
}

/* The attributes that are on no line at all; `index` counts them. */
static bool missing_attribute(const struct replay_run *run, size_t index, char *note)
{
    for (size_t i = 0; i < replay_attribute_count(run->replay); i++) {
        uint64_t lines;
        const struct policy_text name = replay_attribute(run->replay, i, &lines);
        const struct policy_rule *rule = lines == 0 ? mentioned_by(run, name) : NULL;
        if (rule == NULL || index-- > 0)
            continue;
        (void)snprintf(note, REPLAY_NOTE_LEN,
                       "no line has '%.*s', which rule %.64s %s; name its field (--map "
                       "%.*s=FIELD) or give it a value (--set %.*s=VALUE)",
                       (int)name.len, name.data, rule->name.data,
                       counts_by(rule, name) ? "counts by" : "matches", (int)name.len, name.data,
                       (int)name.len, name.data);
        return true;
    }
    return false;
}

static bool note_forwarded(const struct replay_run *run, char *note)
{
    const uint64_t count = replay_totals(run->replay)->forwarded;
    char which[64] = "the first of the list; --proxies N takes the Nth from the right";
    if (run->asked->log.proxies > 0)
        (void)snprintf(which, sizeof which, "number %u from the right", run->asked->log.proxies);
    (void)snprintf(note, REPLAY_NOTE_LEN,
                   "addresses of %llu requests are from X-Forwarded-For (%s)", number(count),
                   which);
    return count > 0;
}

static bool has_short_window(const struct replay_run *run)
{
    for (size_t i = 0; i < policy_rule_count(run->policy); i++) {
        const struct policy_rule *rule = policy_rule_at(run->policy, i);
        for (uint8_t k = 0; rule->enabled && k < rule->limit_count; k++)
            if (rule->limits[k].window_ns < SHORT_WINDOW_S * SECOND_NS)
                return true;
    }
    return false;
}

static bool note_whole_seconds(const struct replay_run *run, char *note)
{
    const struct replay_totals *totals = replay_totals(run->replay);
    (void)snprintf(note, REPLAY_NOTE_LEN,
                   "the log's times are whole seconds, and some limits are shorter than %ds: "
                   "requests of one second count as if they came at once; --spread sets them "
                   "evenly over it",
                   (int)SHORT_WINDOW_S);
    return totals->requests > 0 && totals->whole_second * 2 > totals->requests &&
           !run->asked->spread && has_short_window(run);
}

static bool note_late(const struct replay_run *run, char *note)
{
    const uint64_t late = replay_totals(run->replay)->late;
    (void)snprintf(
        note, REPLAY_NOTE_LEN,
        "%llu %s came later than could be put in order (--reorder, and at most %d requests "
        "wait), decided at the time reached",
        number(late), late == 1 ? "line" : "lines", (int)REPLAY_WAITING_MAX);
    return late > 0;
}

static bool note_estimates(const struct replay_run *run, char *note)
{
    (void)snprintf(note, REPLAY_NOTE_LEN,
                   "there are more than %d different keys: numbers of callers are estimates (about "
                   "2%%), and a count marked ~ may be low by as much as is said beside it",
                   (int)REPLAY_KEYS_MAX);
    return !replay_exact(run->replay);
}

static bool note_memory(const struct replay_run *run, char *note)
{
    const struct replay_totals *totals = replay_totals(run->replay);
    (void)snprintf(note, REPLAY_NOTE_LEN,
                   "the limits' state did not fit into memory: %llu limits of new callers were not "
                   "decided, so denials may be too few",
                   number(totals->no_room));
    return totals->no_room > 0;
}

static bool note_left_out(const struct replay_run *run, char *note)
{
    for (size_t i = 0; i < policy_rule_count(run->policy); i++) {
        const struct policy_rule *rule = policy_rule_at(run->policy, i);
        for (uint8_t k = 0; rule->enabled && k < rule->limit_count; k++) {
            if (replay_can_judge(&rule->limits[k]))
                continue;
            (void)snprintf(note, REPLAY_NOTE_LEN,
                           "limits of algorithm %s are left out, such as that of rule %.64s: a log "
                           "does not tell how long requests were in flight",
                           algorithm_name(rule->limits[k].algorithm), rule->name.data);
            return true;
        }
    }
    return false;
}

static bool note_elastic(const struct replay_run *run, char *note)
{
    for (size_t i = 0; i < policy_rule_count(run->policy); i++) {
        const struct policy_rule *rule = policy_rule_at(run->policy, i);
        for (uint8_t k = 0; rule->enabled && k < rule->limit_count; k++) {
            if (rule->limits[k].pool == 0)
                continue;
            (void)snprintf(note, REPLAY_NOTE_LEN,
                           "limits of mode elastic deny here whatever is above them, such as that "
                           "of rule %.64s: a log does not tell what their pools had to spare",
                           rule->name.data);
            return true;
        }
    }
    return false;
}

static bool note_errors(const struct replay_run *run, char *note)
{
    const uint64_t errors = replay_totals(run->replay)->outcomes[OUTCOME_ERROR];
    (void)snprintf(note, REPLAY_NOTE_LEN,
                   "%llu %s an error: more than %d rules with limits meet on it (`tidegate rules "
                   "validate` tells which), or it has too many attributes, or too long ones",
                   number(errors), errors == 1 ? "request is" : "requests are each",
                   (int)POLICY_PARTS_MAX);
    return errors > 0;
}

static bool note_suggest_cut(const struct replay_run *run, char *note)
{
    (void)snprintf(note, REPLAY_NOTE_LEN,
                   "suggestions are worked out from the first %d decisions of the log",
                   (int)SUGGEST_EVENTS_MAX);
    return replay_suggest_cut(run->replay);
}

static bool note_broken(const struct replay_run *run, char *note)
{
    (void)snprintf(note, REPLAY_NOTE_LEN, "%.128s could not be read to its end: %.128s",
                   run->broken_path != NULL ? run->broken_path : "",
                   run->broken_path != NULL ? run->broken_why : "");
    return run->broken_path != NULL;
}

bool cli_replay_note(const struct replay_run *run, size_t index, char *note)
{
    static bool (*const writers[])(const struct replay_run *, char *) = {
        note_broken,    note_errors,        note_memory,      note_estimates, note_late,
        note_forwarded, note_whole_seconds, note_suggest_cut, note_left_out,  note_elastic};
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        if (!writers[i](run, note))
            continue;
        if (index == 0)
            return true;
        index--;
    }
    return replay_totals(run->replay)->requests > 0 && missing_attribute(run, index, note);
}

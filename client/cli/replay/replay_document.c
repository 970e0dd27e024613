/* replay_document.c - the report of `tidegate replay` as JSON or YAML; its fields only grow.
 *
 * The report is first put into msgpack and then printed by document.c, as every answer is, so it
 * is valid whatever the log holds. Its size is not known before: the buffer is doubled until it
 * fits.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/output/document.h"
#include "client/cli/replay/replay_report.h"
#include "client/replay/log_time.h"

enum { DOCUMENT_MIN = 64 * 1024, DOCUMENT_MAX = 1 << 30, MS_NS = 1000000 };

static void put_text(struct mp_writer *out, const char *name, const char *data, size_t len)
{
    mp_put_str(out, name);
    mp_put_strn(out, data != NULL ? data : "", len);
}

static void put_uint(struct mp_writer *out, const char *name, uint64_t value)
{
    mp_put_str(out, name);
    mp_put_uint(out, value);
}

static void put_bool(struct mp_writer *out, const char *name, bool value)
{
    mp_put_str(out, name);
    mp_put_bool(out, value);
}

static void put_time(struct mp_writer *out, const char *name, int64_t ns)
{
    char text[LOG_TIME_LEN];
    log_time_format(ns, text);
    put_text(out, name, text, strlen(text));
}

static void put_problems(struct mp_writer *out, const struct replay_run *run)
{
    mp_put_str(out, "problems");
    ASSERT(run->problem_count <= REPLAY_PROBLEMS_MAX);
    mp_put_array(out, run->problem_count);
    for (size_t i = 0; i < run->problem_count; i++) {
        const struct replay_problem *problem = &run->problems[i];
        mp_put_map(out, 5);
        put_text(out, "file", problem->path, strlen(problem->path));
        put_uint(out, "line", problem->line);
        put_uint(out, "column", problem->what.column);
        put_text(out, "expected", problem->what.expected, strlen(problem->what.expected));
        put_text(out, "found", problem->shown, strlen(problem->shown));
    }
}

static void put_log(struct mp_writer *out, const struct replay_run *run)
{
    const struct replay_totals *totals = replay_totals(run->replay);
    const bool some = totals->requests > 0;
    mp_put_str(out, "log");
    mp_put_map(out, some ? 11 : 8);
    mp_put_str(out, "files");
    mp_put_array(out, run->asked->file_count);
    for (size_t i = 0; i < run->asked->file_count; i++)
        mp_put_strn(out, run->asked->files[i], strlen(run->asked->files[i]));
    put_uint(out, "bytes", run->bytes);
    put_uint(out, "lines", totals->lines);
    put_uint(out, "unreadable", totals->refused);
    put_uint(out, "late", totals->late);
    put_uint(out, "forwarded", totals->forwarded);
    put_problems(out, run);
    if (some) {
        put_time(out, "from", totals->first_ns);
        put_time(out, "to", totals->last_ns);
        put_uint(out, "span_ms", (uint64_t)(totals->last_ns - totals->first_ns) / MS_NS);
    }
    mp_put_str(out, "attributes");
    mp_put_map(out, replay_attribute_count(run->replay));
    for (size_t i = 0; i < replay_attribute_count(run->replay); i++) {
        uint64_t lines;
        const struct policy_text name = replay_attribute(run->replay, i, &lines);
        mp_put_strn(out, name.data, name.len);
        mp_put_uint(out, lines);
    }
}

static void put_suggestion(struct mp_writer *out, const char *name,
                           const struct suggestion *suggestion)
{
    mp_put_str(out, name);
    if (suggestion->count == 0) {
        mp_put_nil(out);
        return;
    }
    ASSERT(suggestion->denied <= suggestion->keys); /* SUGGEST-1 */
    mp_put_map(out, 3);
    put_uint(out, "count", suggestion->count);
    put_uint(out, "burst", suggestion->burst);
    put_uint(out, "callers_denied", suggestion->denied);
}

static void put_limits(struct mp_writer *out, const struct replay_run *run,
                       const struct replay_rule *found)
{
    const struct policy_rule *rule = found->rule;
    mp_put_str(out, "limits");
    ASSERT(rule->limit_count <= POLICY_LIMITS_MAX);
    mp_put_array(out, rule->limit_count);
    for (uint8_t i = 0; i < rule->limit_count; i++) {
        mp_put_map(out, run->asked->suggest ? 8 : 6);
        put_text(out, "window", rule->windows[i], strlen(rule->windows[i]));
        const char *algorithm = algorithm_name(rule->limits[i].algorithm);
        put_text(out, "algorithm", algorithm, strlen(algorithm));
        put_uint(out, "limit", limit_capacity(&rule->limits[i]));
        put_uint(out, "denied", found->limits[i].denied);
        put_uint(out, "soft_exceeded", found->limits[i].soft);
        put_uint(out, "peak_used", found->limits[i].peak);
        if (run->asked->suggest) {
            put_suggestion(out, "suggested", &found->limits[i].few);
            put_suggestion(out, "denies_nobody", &found->limits[i].none);
        }
    }
}

static void put_keys(struct mp_writer *out, const struct replay_run *run,
                     const struct replay_rule *found)
{
    mp_put_str(out, "keys");
    mp_put_array(out, found->top_count);
    for (uint32_t i = 0; i < found->top_count; i++) {
        const struct caller *caller = replay_caller(run->replay, found->top[i]);
        const bool address = found->rule == NULL || replay_by_address(run->replay, caller);
        const size_t count = address ? 1 : found->rule->key_count;
        mp_put_map(out, 4);
        mp_put_str(out, "key");
        mp_put_map(out, count);
        for (size_t k = 0; k < count; k++) {
            const struct policy_text value = replay_value(run->replay, caller, k);
            if (address)
                mp_put_str(out, "ip");
            else
                mp_put_strn(out, found->rule->key[k].data, found->rule->key[k].len);
            mp_put_strn(out, value.data != NULL ? value.data : "", value.len);
        }
        put_uint(out, "requests", caller->requests);
        put_uint(out, "denied", caller->denied);
        put_uint(out, "error", caller->error);
    }
}

static void put_columns(struct mp_writer *out, const char *name, const uint32_t *columns,
                        uint32_t count)
{
    mp_put_str(out, name);
    ASSERT(count <= TIMELINE_COLUMNS);
    mp_put_array(out, count);
    for (uint32_t i = 0; i < count; i++)
        mp_put_uint(out, columns[i]);
}

static void put_timeline(struct mp_writer *out, const struct replay_run *run,
                         const struct timeline *timeline)
{
    const struct timeline_axis *axis = replay_axis(run->replay);
    mp_put_str(out, "timeline");
    mp_put_map(out, 4);
    put_time(out, "from", axis->origin_ns);
    put_uint(out, "column_ms", (uint64_t)axis->width_ns / MS_NS);
    put_columns(out, "requests", timeline->requests, axis->used);
    put_columns(out, "denied", timeline->denied, axis->used);
}

/* What rules and the sum of all have in common: 4 fields; keys and timeline come later. */
static void put_sums(struct mp_writer *out, const struct replay_rule *found)
{
    put_uint(out, "requests", found->requests);
    put_uint(out, "denied", found->denied);
    put_uint(out, "callers", found->callers);
    put_uint(out, "callers_denied", found->callers_denied);
}

static void put_rule(struct mp_writer *out, const struct replay_run *run,
                     const struct replay_rule *found)
{
    const struct policy_rule *rule = found->rule;
    const char *act = policy_act_name(rule->act);
    const bool met = found->timeline != NULL;
    mp_put_map(out, met ? 13 : 12);
    put_text(out, "rule", rule->name.data, rule->name.len);
    put_text(out, "action", act, strlen(act));
    put_bool(out, "shadow", rule->shadow);
    put_bool(out, "enabled", rule->enabled);
    mp_put_str(out, "key");
    mp_put_array(out, rule->key_count);
    for (uint8_t i = 0; i < rule->key_count; i++)
        mp_put_strn(out, rule->key[i].data, rule->key[i].len);
    put_sums(out, found);
    put_uint(out, "soft_exceeded", found->soft);
    put_limits(out, run, found);
    put_keys(out, run, found);
    if (met)
        put_timeline(out, run, found->timeline);
}

static void put_all(struct mp_writer *out, const struct replay_run *run)
{
    const struct replay_totals *totals = replay_totals(run->replay);
    const struct replay_rule *all = replay_all(run->replay);
    mp_put_str(out, "all");
    mp_put_map(out, all->timeline != NULL ? 8 : 7);
    put_sums(out, all);
    put_uint(out, "allowed", totals->allowed);
    mp_put_str(out, "outcomes");
    mp_put_map(out, OUTCOME_COUNT);
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        put_uint(out, outcome_name(i), totals->outcomes[i]);
    put_keys(out, run, all);
    if (all->timeline != NULL)
        put_timeline(out, run, all->timeline);
}

static void put_notes(struct mp_writer *out, const struct replay_run *run)
{
    char note[REPLAY_NOTE_LEN];
    size_t count = 0;
    while (cli_replay_note(run, count, note))
        count++;
    mp_put_str(out, "notes");
    mp_put_array(out, count);
    for (size_t i = 0; i < count && cli_replay_note(run, i, note); i++)
        mp_put_str(out, note);
}

static void put_report(struct mp_writer *out, const struct replay_run *run)
{
    const size_t count = policy_rule_count(run->policy);
    mp_put_map(out, 5);
    put_log(out, run);
    put_bool(out, "exact", replay_exact(run->replay));
    put_all(out, run);
    mp_put_str(out, "rules");
    mp_put_array(out, count);
    for (size_t i = 0; i < count; i++)
        put_rule(out, run, replay_rule(run->replay, i));
    put_notes(out, run);
}

/* Prints the msgpack; false if there is no memory for its tokens. Each token takes a byte at
 * least. */
static bool add_document(struct cli_text *text, const struct mp_writer *written, bool yaml)
{
    struct mp_token *tokens = alloc_array(alloc_heap(), written->len, sizeof *tokens);
    const int count =
        tokens != NULL ? mp_parse(written->data, written->len, tokens, written->len) : TG_ENOMEM;
    if (count >= 0 && yaml)
        cli_yaml(text, tokens, (size_t)count, false);
    if (count >= 0 && !yaml) {
        cli_json(text, tokens, (size_t)count);
        cli_text_str(text, "\n");
    }
    alloc_put(alloc_heap(), tokens, written->len * sizeof *tokens);
    return count >= 0;
}

void cli_replay_document(struct cli *cli, const struct replay_run *run, bool yaml)
{
    bool done = false;
    for (size_t len = DOCUMENT_MIN; !done && len <= DOCUMENT_MAX; len *= 2) {
        struct mp_writer writer;
        uint8_t *bytes = alloc_get(alloc_heap(), len);
        if (bytes == NULL)
            break;
        mp_writer_init(&writer, bytes, len);
        put_report(&writer, run);
        const bool fits = !writer.failed;
        if (fits)
            done = add_document(&cli->text, &writer, yaml);
        alloc_put(alloc_heap(), bytes, len);
        if (fits)
            break;
    }
    if (!done)
        cli->text.failed = true;
}

/* replay_table.c - the report of `tidegate replay` for people.
 *
 *   what was read | what happened to the requests | rules | a rule's limits, keys, plot | notes
 *
 * The rules' table shows all that met a request; details are shown of those that deny most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/assert.h"
#include "client/cli/output/grid.h"
#include "client/cli/replay/replay_report.h"
#include "client/replay/log_time.h"

enum { DETAILS_MAX = 12, KEY_SHOWN = 60, MS_NS = 1000000, DIGITS_LEN = 32 };

/* ---- cells ----------------------------------------------------------------------------------- */

void cli_replay_number(struct cli_text *text, uint64_t number)
{
    char digits[DIGITS_LEN];
    const int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            cli_text_str(text, ",");
        cli_text_add(text, digits + i, 1);
    }
}

static void add_cell(struct cli_grid *grid, const struct cli_text *cell)
{
    if (cell->failed)
        grid->cells.failed = true;
    cli_grid_add(grid, cell->data != NULL ? cell->data : "");
}

static void add_number(struct cli_grid *grid, uint64_t number, bool estimate)
{
    struct cli_text cell;
    cli_text_init(&cell);
    if (estimate)
        cli_text_str(&cell, "~");
    cli_replay_number(&cell, number);
    add_cell(grid, &cell);
    cli_text_fini(&cell);
}

/* Two digits at most behind the point; what is not nothing is never shown as 0%. */
static void add_share(struct cli_grid *grid, uint64_t part, uint64_t whole)
{
    char cell[DIGITS_LEN];
    const double share = whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
    if (part == 0)
        (void)snprintf(cell, sizeof cell, "0%%");
    else if (part == whole)
        (void)snprintf(cell, sizeof cell, "100%%");
    else if (share >= 10)
        (void)snprintf(cell, sizeof cell, "%.1f%%", share > 99.9 ? 99.9 : share);
    else
        (void)snprintf(cell, sizeof cell, "%.2f%%", share < 0.01 ? 0.01 : share);
    cli_grid_add(grid, cell);
}

static void add_shown(struct cli_grid *grid, const char *data, size_t len)
{
    struct cli_text cell;
    cli_text_init(&cell);
    cli_text_shown(&cell, data, len);
    add_cell(grid, &cell);
    cli_text_fini(&cell);
}

static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL ||
                   strstr(value, "UTF8") != NULL || strstr(value, "utf-8") != NULL;
    }
    return false;
}

/* What plots are drawn on: as wide as they get, unless the terminal is narrower. */
static struct replay_canvas make_canvas(const struct cli *cli)
{
    struct winsize size = {0};
    struct replay_canvas canvas = {REPLAY_PLOT_COLUMNS, is_utf8(), cli->colour};
    if (!cli->terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return canvas;
    const int left = (int)size.ws_col - REPLAY_PLOT_MARGIN;
    if (left < (int)canvas.columns)
        canvas.columns =
            (uint32_t)(left > REPLAY_PLOT_COLUMNS_MIN ? left : REPLAY_PLOT_COLUMNS_MIN);
    ASSERT(canvas.columns <= REPLAY_PLOT_COLUMNS && canvas.columns >= REPLAY_PLOT_COLUMNS_MIN);
    return canvas;
}

/* ---- what was read --------------------------------------------------------------------------- */

static void add_counted(struct cli_text *text, uint64_t count, const char *one, const char *many)
{
    cli_replay_number(text, count);
    cli_text_str(text, " ");
    cli_text_str(text, count == 1 ? one : many);
}

static void add_problems(struct cli_text *text, const struct replay_run *run)
{
    const uint64_t refused = replay_totals(run->replay)->refused;
    if (refused == 0)
        return;
    add_counted(text, refused, "line", "lines");
    cli_text_str(text, " could not be read");
    ASSERT(run->problem_count <= refused && run->problem_count <= REPLAY_PROBLEMS_MAX);
    cli_text_str(text, refused > run->problem_count ? "; the first:\n" : ":\n");
    for (size_t i = 0; i < run->problem_count; i++) {
        const struct replay_problem *problem = &run->problems[i];
        cli_text_str(text, "  ");
        cli_text_shown(text, problem->path, strlen(problem->path));
        cli_text_format(text, ":%llu:%zu: expected %s", (unsigned long long)problem->line,
                        problem->what.column, problem->what.expected);
        cli_text_str(text, problem->shown[0] != '\0' ? ", found '" : ", found the end");
        cli_text_shown(text, problem->shown, strlen(problem->shown));
        cli_text_str(text, problem->shown[0] != '\0' ? "'\n" : "\n");
    }
}

static void add_log(struct cli_text *text, const struct replay_run *run)
{
    const struct replay_totals *totals = replay_totals(run->replay);
    add_counted(text, totals->requests, "request", "requests");
    cli_text_str(text, " in ");
    if (run->asked->file_count == 1)
        cli_text_shown(text, run->asked->files[0], strlen(run->asked->files[0]));
    else
        add_counted(text, run->asked->file_count, "file", "files");
    if (totals->requests > 0) {
        char from[LOG_TIME_LEN];
        char to[LOG_TIME_LEN];
        char span[CLI_SPAN_LEN];
        log_time_format(totals->first_ns, from);
        log_time_format(totals->last_ns, to);
        cli_span((totals->last_ns - totals->first_ns) / MS_NS, span);
        cli_text_format(text, ", %s to %s (%s)", from, to, span);
    }
    cli_text_str(text, "\n");
    add_problems(text, run);
}

/* ---- what happened --------------------------------------------------------------------------- */

static void add_outcomes(struct cli *cli, const struct replay_run *run)
{
    static const char *const headers[] = {"OUTCOME", "REQUESTS", "SHARE"};
    const struct replay_totals *totals = replay_totals(run->replay);
    struct cli_grid grid;
    cli_grid_init(&grid, headers, sizeof headers / sizeof *headers, cli->colour);
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        if (totals->outcomes[i] == 0)
            continue;
        cli_grid_add(&grid, outcome_name(i));
        add_number(&grid, totals->outcomes[i], false);
        add_share(&grid, totals->outcomes[i], totals->requests);
    }
    cli_text_str(&cli->text, "\n");
    cli_grid_write(&grid, &cli->text);
    cli_grid_fini(&grid);
}

/* "throttle", and "shadow" for a rule that only watches. */
static const char *kind_of(const struct policy_rule *rule)
{
    return rule->shadow ? "shadow" : policy_act_name(rule->act);
}

static void add_rule_row(struct cli_grid *grid, const struct replay_run *run,
                         const struct replay_rule *found)
{
    const bool estimate = !replay_exact(run->replay);
    if (found->rule != NULL) {
        add_shown(grid, found->rule->name.data, found->rule->name.len);
        cli_grid_add(grid, kind_of(found->rule));
    } else {
        cli_grid_add(grid, "(all, by ip)");
        cli_grid_add(grid, "-");
    }
    add_number(grid, found->requests, false);
    add_number(grid, found->denied, false);
    add_share(grid, found->denied, found->requests);
    add_number(grid, found->callers, estimate);
    add_number(grid, found->callers_denied, estimate);
    add_share(grid, found->callers_denied, found->callers);
}

static void add_idle(struct cli_text *text, const struct replay_run *run)
{
    enum { NAMED_MAX = 8 };
    const size_t count = policy_rule_count(run->policy);
    size_t idle = 0;
    for (size_t i = 0; i < count; i++) {
        const struct replay_rule *found = replay_rule(run->replay, i);
        if (found->requests > 0)
            continue;
        if (idle < NAMED_MAX) {
            cli_text_str(text, idle == 0 ? "No request met: " : ", ");
            cli_text_shown(text, found->rule->name.data, found->rule->name.len);
            cli_text_str(text, found->rule->enabled ? "" : " (disabled)");
        }
        idle++;
    }
    if (idle > NAMED_MAX)
        cli_text_format(text, " and %zu more rules", idle - NAMED_MAX);
    if (idle > 0)
        cli_text_str(text, "\n");
}

static void add_rules(struct cli *cli, const struct replay_run *run)
{
    static const char *const headers[] = {"RULE",  "ACTION",  "REQUESTS", "DENIED",
                                          "SHARE", "CALLERS", "DENIED",   "SHARE"};
    struct cli_grid grid;
    cli_grid_init(&grid, headers, sizeof headers / sizeof *headers, cli->colour);
    for (size_t i = 0; i < policy_rule_count(run->policy); i++)
        if (replay_rule(run->replay, i)->requests > 0)
            add_rule_row(&grid, run, replay_rule(run->replay, i));
    add_rule_row(&grid, run, replay_all(run->replay));
    cli_text_str(&cli->text, "\n");
    cli_grid_write(&grid, &cli->text);
    cli_grid_fini(&grid);
    add_idle(&cli->text, run);
}

/* ---- one rule -------------------------------------------------------------------------------- */

/* "137/min", with its burst where the limit has one of its own. */
static void add_suggestion(struct cli_grid *grid, const struct replay_rule *found, uint8_t place,
                           const struct suggestion *suggestion, bool share)
{
    ASSERT(place < found->rule->limit_count && suggestion->denied <= suggestion->keys);
    const char *window = strchr(found->rule->windows[place], '/');
    struct cli_text cell;
    cli_text_init(&cell);
    if (suggestion->count == 0)
        cli_text_str(&cell, "-");
    else
        cli_text_format(&cell, "%llu%s", (unsigned long long)suggestion->count,
                        window != NULL ? window : "");
    if (suggestion->burst > 0)
        cli_text_format(&cell, " burst %llu", (unsigned long long)suggestion->burst);
    if (share && suggestion->count > 0) {
        cli_text_str(&cell, " denies ");
        cli_replay_number(&cell, suggestion->denied);
        cli_text_str(&cell, " of ");
        cli_replay_number(&cell, suggestion->keys);
    }
    add_cell(grid, &cell);
    cli_text_fini(&cell);
}

/* What one limit did, and with --suggest what it might be. */
static void add_limit_row(struct cli_grid *grid, const struct replay_run *run,
                          const struct replay_rule *found, uint8_t place)
{
    const struct limit *limit = &found->rule->limits[place];
    const struct replay_limit *sums = &found->limits[place];
    struct cli_text cell;
    cli_text_init(&cell);
    cli_text_format(&cell, "  %s", found->rule->windows[place]);
    add_cell(grid, &cell);
    cli_grid_add(grid, algorithm_name(limit->algorithm));
    add_number(grid, sums->denied, false);
    add_share(grid, sums->denied, found->requests);
    add_number(grid, sums->soft, false);
    cli_text_clear(&cell);
    if (!replay_can_judge(limit)) {
        cli_text_str(&cell, "left out");
    } else {
        cli_replay_number(&cell, sums->peak);
        cli_text_str(&cell, " of ");
        cli_replay_number(&cell, limit_capacity(limit));
    }
    add_cell(grid, &cell);
    cli_text_fini(&cell);
    if (run->asked->suggest) {
        add_suggestion(grid, found, place, &sums->few, true);
        add_suggestion(grid, found, place, &sums->none, false);
    }
}

static void add_limits(struct cli *cli, const struct replay_run *run,
                       const struct replay_rule *found)
{
    static const char *const headers[] = {"  LIMIT", "ALGORITHM", "DENIED",    "SHARE",
                                          "SOFT",    "PEAK USED", "SUGGESTED", "DENIES NOBODY"};
    struct cli_grid grid;
    if (found->rule->limit_count == 0)
        return;
    cli_grid_init(&grid, headers, run->asked->suggest ? 8 : 6, false);
    for (uint8_t i = 0; i < found->rule->limit_count; i++)
        add_limit_row(&grid, run, found, i);
    cli_grid_write(&grid, &cli->text);
    cli_grid_fini(&grid);
}

/* A key's values, shortened. */
static void add_key(struct cli_grid *grid, const struct replay_run *run,
                    const struct replay_rule *found, const struct caller *caller)
{
    struct cli_text cell;
    const bool address = found->rule == NULL || replay_by_address(run->replay, caller);
    const size_t count = address ? 1 : found->rule->key_count;
    cli_text_init(&cell);
    cli_text_str(&cell, "  ");
    for (size_t i = 0; i < count; i++) {
        const struct policy_text value = replay_value(run->replay, caller, i);
        const size_t shown = value.len > KEY_SHOWN ? KEY_SHOWN : value.len;
        cli_text_str(&cell, i > 0 ? " " : "");
        if (count > 1) {
            cli_text_shown(&cell, found->rule->key[i].data, found->rule->key[i].len);
            cli_text_str(&cell, "=");
        }
        cli_text_shown(&cell, value.data, shown);
        cli_text_str(&cell, shown < value.len ? "..." : "");
    }
    add_cell(grid, &cell);
    cli_text_fini(&cell);
}

static void add_keys(struct cli *cli, const struct replay_run *run, const struct replay_rule *found)
{
    static const char *const headers[] = {"  BUSIEST KEYS", "REQUESTS", "DENIED", "SHARE"};
    static const char *const estimated[] = {"  BUSIEST KEYS", "REQUESTS", "DENIED", "SHARE",
                                            "MORE BY AT MOST"};
    const bool exact = replay_exact(run->replay);
    struct cli_grid grid;
    if (found->top_count == 0)
        return;
    cli_grid_init(&grid, exact ? headers : estimated, exact ? 4 : 5, false);
    for (uint32_t i = 0; i < found->top_count; i++) {
        const struct caller *caller = replay_caller(run->replay, found->top[i]);
        add_key(&grid, run, found, caller);
        add_number(&grid, caller->requests, caller->error > 0);
        add_number(&grid, caller->denied, caller->error > 0);
        add_share(&grid, caller->denied, caller->requests);
        if (!exact)
            add_number(&grid, caller->error, false);
    }
    cli_grid_write(&grid, &cli->text);
    cli_grid_fini(&grid);
}

static void add_details(struct cli *cli, const struct replay_run *run,
                        const struct replay_rule *found)
{
    const struct policy_rule *rule = found->rule;
    struct cli_text *text = &cli->text;
    const struct replay_canvas canvas = make_canvas(cli);
    cli_text_str(text, cli->colour ? "\n\033[1m" : "\n");
    cli_text_shown(text, rule->name.data, rule->name.len);
    cli_text_str(text, cli->colour ? "\033[0m" : "");
    for (uint8_t i = 0; i < rule->key_count; i++) {
        cli_text_str(text, i == 0 ? ", by " : " and ");
        cli_text_shown(text, rule->key[i].data, rule->key[i].len);
    }
    cli_text_str(text, rule->shadow ? " (shadow: nothing is denied in earnest)\n" : "\n");
    add_limits(cli, run, found);
    add_keys(cli, run, found);
    cli_replay_plot(text, replay_axis(run->replay), found->timeline, &canvas);
}

static bool comes_before(const struct replay_rule *a, const struct replay_rule *b)
{
    return a->denied != b->denied ? a->denied > b->denied : a->requests > b->requests;
}

/* The rules that deny most, with their limits, keys and plot. */
static void add_all_details(struct cli *cli, const struct replay_run *run)
{
    const struct replay_rule *chosen[DETAILS_MAX];
    size_t count = 0;
    size_t left_out = 0;
    for (size_t i = 0; i < policy_rule_count(run->policy); i++) {
        const struct replay_rule *found = replay_rule(run->replay, i);
        if (found->requests == 0)
            continue;
        size_t at = count;
        while (at > 0 && comes_before(found, chosen[at - 1]))
            at--;
        left_out += count == DETAILS_MAX;
        if (at == DETAILS_MAX)
            continue;
        count += count < DETAILS_MAX;
        ASSERT(at < count && count <= DETAILS_MAX);
        memmove(&chosen[at + 1], &chosen[at], (count - at - 1) * sizeof *chosen);
        chosen[at] = found;
    }
    for (size_t i = 0; i < count; i++)
        add_details(cli, run, chosen[i]);
    if (left_out > 0)
        cli_text_format(&cli->text, "\n%zu more rules: see -o json\n", left_out);
}

void cli_replay_table(struct cli *cli, const struct replay_run *run)
{
    char note[REPLAY_NOTE_LEN];
    add_log(&cli->text, run);
    if (replay_totals(run->replay)->requests > 0) {
        add_outcomes(cli, run);
        add_rules(cli, run);
        add_all_details(cli, run);
    }
    for (size_t i = 0; cli_replay_note(run, i, note); i++) {
        cli_text_str(&cli->text, i == 0 ? "\nnote: " : "note: ");
        cli_text_shown(&cli->text, note, strlen(note));
        cli_text_str(&cli->text, "\n");
    }
}

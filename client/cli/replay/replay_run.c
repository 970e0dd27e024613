/* replay_run.c - `tidegate replay`: rules and logs in, one report out; nothing is sent anywhere.
 *
 * Several logs are read at once and merged by the time of their next request, so rotated files may
 * be named in any order and logs of several servers side by side:
 *
 *   files --log_source--> lines --replay_read--> next record of each --earliest--> replay_take
 *
 * REPLAYRUN-1  Each file's lines keep their order; what is out of order within a file is replay's
 *              to mend.
 * REPLAYRUN-2  A line that cannot be read is counted and passed over; the first few are shown.
 * REPLAYRUN-3  A file that breaks off ends there; the rest is reported, and the exit status says
 *              so.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/cli/replay/log_source.h"
#include "client/cli/replay/replay_report.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/rules_errors.h"
#include "client/cli/session/rules_file.h"
#include "node/policy/compile/policy_compile.h"
#include "node/zones/zones.h"

enum { PROGRESS_EVERY = 1 << 16, PROGRESS_PAUSE_MS = 250, MIB = 1 << 20 };

/* One log, and its next request. */
struct feed {
    struct log_source source;
    bool open;
    bool has_record;
    struct replay_record record;
};

struct merge {
    struct cli *cli;
    struct replay_run *run;
    struct feed *feeds;
    size_t count;
    bool progress; /* standard error is a terminal */
    int64_t shown_ms;
    uint64_t requests;
};

/* ---- rules ----------------------------------------------------------------------------------- */

/* The compiled rules, or NULL after complaining. */
static struct policy *load_rules(const char *path)
{
    struct policy_error first;
    struct policy *policy = NULL;
    struct cli_rules_file file;
    if (!cli_rules_read(path, POLICY_FILE_LEN_MAX, &file))
        return NULL;
    if (policy_compile_zoned(file.source.text, file.source.len, alloc_heap(), zones_system(),
                             &policy, &first) != 0)
        (void)cli_refuse_text(&file);
    cli_rules_fini(&file);
    return policy;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Keeps the first few lines that could not be read (REPLAYRUN-2). */
static void note_problem(struct replay_run *run, const struct log_source *source, const char *text,
                         size_t len, const struct log_problem *problem)
{
    ASSERT(run->problem_count <= REPLAY_PROBLEMS_MAX);
    if (run->problem_count == REPLAY_PROBLEMS_MAX)
        return;
    struct replay_problem *kept = &run->problems[run->problem_count++];
    const size_t at = problem->column > 0 ? problem->column - 1 : 0;
    const size_t left = at < len ? len - at : 0;
    const size_t shown = left < REPLAY_SHOWN_LEN ? left : REPLAY_SHOWN_LEN;
    *kept = (struct replay_problem){.path = source->path, .line = source->line, .what = *problem};
    if (shown > 0)
        memcpy(kept->shown, text + at, shown);
}

/* Reads on until the feed has a request, or is over. 0 or TG_ENOMEM. */
static int advance(struct merge *merge, struct feed *feed)
{
    const char *text;
    size_t len;
    feed->has_record = false;
    while (feed->open && log_source_line(&feed->source, &text, &len)) {
        struct log_problem problem;
        if (len == 0)
            continue;
        const int result = replay_read(merge->run->replay, text, len, &feed->record, &problem);
        if (result == TG_OK) {
            feed->has_record = true;
            return TG_OK;
        }
        if (result != TG_EINVALID)
            return result;
        note_problem(merge->run, &feed->source, text, len, &problem);
    }
    if (feed->open) {
        merge->run->bytes += feed->source.bytes;
        if (feed->source.failed && merge->run->broken_path == NULL) {
            merge->run->broken_path = feed->source.path;
            merge->run->broken_why = feed->source.sentence;
        }
        log_source_close(&feed->source);
        feed->open = false;
    }
    ASSERT(!feed->open && !feed->has_record);
    return TG_OK;
}

/* The feed whose next request is the earliest, the first of equals, or NULL; *limit_ns is the time
 * up to which it stays that. */
static struct feed *earliest(struct merge *merge, int64_t *limit_ns)
{
    struct feed *best = NULL;
    *limit_ns = INT64_MAX;
    for (size_t i = 0; i < merge->count; i++) {
        struct feed *feed = &merge->feeds[i];
        if (!feed->has_record)
            continue;
        if (best == NULL) {
            best = feed;
        } else if (feed->record.time_ns < best->record.time_ns) {
            *limit_ns = best->record.time_ns - 1; /* the other one came first in the list */
            best = feed;
        } else if (feed->record.time_ns < *limit_ns) {
            *limit_ns = feed->record.time_ns;
        }
    }
    ASSERT(best == NULL || best->record.time_ns <= *limit_ns); /* else nothing would be taken */
    return best;
}

static void show_progress(struct merge *merge)
{
    const int64_t now_ms = cli_now_ms();
    if (!merge->progress || now_ms - merge->shown_ms < PROGRESS_PAUSE_MS)
        return;
    uint64_t bytes = merge->run->bytes;
    for (size_t i = 0; i < merge->count; i++)
        bytes += merge->feeds[i].open ? merge->feeds[i].source.bytes : 0;
    merge->shown_ms = now_ms;
    (void)fprintf(stderr, "\rread %llu requests, %llu MiB ", (unsigned long long)merge->requests,
                  (unsigned long long)(bytes / MIB));
}

/* Gives every request of every log to the replay. 0 or TG_ENOMEM. */
static int merge_all(struct merge *merge)
{
    int result = TG_OK;
    for (size_t i = 0; i < merge->count && result == TG_OK; i++)
        result = advance(merge, &merge->feeds[i]);
    while (result == TG_OK) {
        int64_t limit_ns;
        struct feed *feed = earliest(merge, &limit_ns);
        if (feed == NULL)
            break;
        while (result == TG_OK && feed->has_record && feed->record.time_ns <= limit_ns) {
            result = replay_take(merge->run->replay, &feed->record);
            if (result == TG_OK)
                result = advance(merge, feed);
            if (++merge->requests % PROGRESS_EVERY == 0)
                show_progress(merge);
        }
    }
    if (merge->shown_ms != 0)
        (void)fprintf(stderr, "\r\033[K");
    return result == TG_OK ? replay_finish(merge->run->replay) : result;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Opens every log, or complains about the first that cannot be. */
static bool open_all(struct merge *merge)
{
    ASSERT(merge->count <= CLI_LOGS_MAX);
    const struct cli_replay *asked = merge->run->asked;
    for (size_t i = 0; i < merge->count; i++) {
        struct feed *feed = &merge->feeds[i];
        feed->open = log_source_open(&feed->source, asked->files[i]) == TG_OK;
        if (!feed->open) {
            cli_complain("cannot open %s: %s", asked->files[i], feed->source.sentence);
            return false;
        }
    }
    return true;
}

static void close_all(struct merge *merge)
{
    for (size_t i = 0; i < merge->count; i++)
        if (merge->feeds[i].open)
            log_source_close(&merge->feeds[i].source);
}

/* Prints the report, and complains of what makes it less than the whole. */
static int report(struct cli *cli, const struct replay_run *run)
{
    const struct replay_totals *totals = replay_totals(run->replay);
    if (totals->requests == 0 && totals->refused > 0) {
        ASSERT(run->problem_count > 0); /* REPLAYRUN-2 */
        const struct replay_problem *first = &run->problems[0];
        cli_complain("no line of the log could be read; %s:%llu:%zu: expected %s, found '%s'",
                     first->path, (unsigned long long)first->line, first->what.column,
                     first->what.expected, first->shown);
        return CLI_EXIT_INVALID;
    }
    if (cli->arguments->output == CLI_TABLE)
        cli_replay_table(cli, run);
    else
        cli_replay_document(cli, run, cli->arguments->output == CLI_YAML);
    const int status = cli_flush(cli);
    if (status != CLI_EXIT_OK || run->broken_path == NULL)
        return status;
    cli_complain("%s could not be read to its end: %s", run->broken_path, run->broken_why);
    return CLI_EXIT_INVALID; /* REPLAYRUN-3 */
}

static int run_merge(struct merge *merge)
{
    struct replay_run *run = merge->run;
    const struct cli_replay *asked = run->asked;
    struct replay_options options = replay_options();
    options.policy = run->policy;
    options.allocator = alloc_heap();
    options.log = asked->log;
    options.reorder_ns = asked->reorder_ns;
    options.spread = asked->spread;
    options.suggest = asked->suggest;
    options.suggest_ppm = asked->suggest_ppm;
    options.top = asked->top;
    if (!open_all(merge))
        return CLI_EXIT_INVALID;
    int result = replay_new(&run->replay, &options);
    if (result == TG_ETOOBIG) {
        cli_complain("the rules of %s mention more than %d attributes", asked->rules,
                     (int)LOG_ATTRIBUTES_MAX);
        return CLI_EXIT_INVALID;
    }
    if (result == TG_OK)
        result = merge_all(merge);
    if (result == TG_OK)
        return report(merge->cli, run);
    cli_complain("out of memory after %llu requests", (unsigned long long)merge->requests);
    return CLI_EXIT_INVALID;
}

int cli_replay_run(struct cli *cli)
{
    const struct cli_replay *asked = &cli->arguments->replay;
    struct policy *policy = load_rules(asked->rules);
    struct replay_run run = {.asked = asked, .policy = policy};
    struct merge merge = {.cli = cli,
                          .run = &run,
                          .count = asked->file_count,
                          .progress = isatty(STDERR_FILENO) == 1};
    if (policy == NULL)
        return CLI_EXIT_INVALID;
    merge.feeds = alloc_array(alloc_heap(), merge.count, sizeof *merge.feeds);
    int status = CLI_EXIT_INVALID;
    if (merge.feeds == NULL)
        cli_complain("out of memory for %zu files", merge.count);
    else
        status = run_merge(&merge);
    if (merge.feeds != NULL)
        close_all(&merge);
    alloc_put(alloc_heap(), merge.feeds, merge.count * sizeof *merge.feeds);
    replay_free(&run.replay);
    policy_free(&policy);
    return status;
}

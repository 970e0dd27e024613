/* replay_report.h - what `tidegate replay` found, and the ways in which it is shown.
 *
 *   replay_run.c --struct replay_run--> replay_table.c (with replay_plot.c)   for people
 *                                       replay_document.c                     JSON, YAML
 *                                       replay_notes.c                        sentences, for both
 */
#ifndef CLIENT_CLI_REPLAY_REPLAY_REPORT_H
#define CLIENT_CLI_REPLAY_REPLAY_REPORT_H

#include "client/cli/session/cli.h"
#include "client/replay/replay.h"

enum {
    REPLAY_PROBLEMS_MAX = 5, /* lines that are shown of those that could not be read */
    REPLAY_SHOWN_LEN = 48,
    REPLAY_NOTE_LEN = 400
};

/* A line that could not be read. */
struct replay_problem {
    const char *path;
    uint64_t line;
    struct log_problem what;
    char shown[REPLAY_SHOWN_LEN + 1]; /* what was found there, cut */
};

struct replay_run {
    const struct cli_replay *asked;
    const struct policy *policy;
    struct replay *replay;
    uint64_t bytes;
    size_t problem_count;
    struct replay_problem problems[REPLAY_PROBLEMS_MAX];
    const char *broken_path; /* a file that ended with an error, or NULL */
    const char *broken_why;
};

/* ---- replay_run.c ---- */

/* replay: needs no node. Returns the exit status. */
MUST_USE int cli_replay_run(struct cli *cli);

/* ---- replay_table.c ---- */

void cli_replay_table(struct cli *cli, const struct replay_run *run);
/* Adds "1,234,567". */
void cli_replay_number(struct cli_text *text, uint64_t number);

/* ---- replay_plot.c ---- */

enum { REPLAY_PLOT_COLUMNS = 72, REPLAY_PLOT_COLUMNS_MIN = 16, REPLAY_PLOT_MARGIN = 23 };

struct replay_canvas {
    uint32_t columns; /* of the plot itself, beside its margin: MIN .. REPLAY_PLOT_COLUMNS */
    bool unicode;     /* block characters may be used */
    bool colour;
};

/* Adds a plot of requests and denials over the log's time. */
void cli_replay_plot(struct cli_text *text, const struct timeline_axis *axis,
                     const struct timeline *timeline, const struct replay_canvas *canvas);

/* ---- replay_document.c ---- */

/* Adds the report as JSON, or YAML. */
void cli_replay_document(struct cli *cli, const struct replay_run *run, bool yaml);

/* ---- replay_notes.c ---- */

/* The `index`-th sentence that a reader of the report should know, into `note` (REPLAY_NOTE_LEN
 * bytes). False when there are no more. */
bool cli_replay_note(const struct replay_run *run, size_t index, char *note);

#endif

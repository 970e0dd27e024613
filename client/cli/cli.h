/* cli.h - one run of `tidegate`: what it was asked, its connection, and where it prints.
 *
 *   main.c --arguments.c--> struct cli --ask.c------> tg_check ...   check peek hit refund reset
 *                                      --inspect.c--> tg_admin       status members ring owner
 *                                                                     rules list
 *                                      --judge.c----> policy_compile rules validate, explain
 *                                      --pools.c----> tg_admin       pools list, report
 *                                      --change.c---> tg_admin       drain leave remove
 *                                      --replay_run.c> client/replay replay (asks nobody)
 *                                      --rules.c----> tg_admin       rules show .. rollback
 *                                      --block.c----> tg_admin       block unblock blocks
 *                                      --api_key.c--> tg_admin       apikey create .. delete
 *                                      --quota.c----> tg_admin       quota set show list delete
 *                                         both with the totals of all members (totals.c)
 *
 * C1  Answers go to standard output, everything else as `tidegate: sentence` to standard error.
 * C2  Every way out returns an enum cli_exit; only main ends the process.
 * C3  Nothing waits without a deadline, but --watch, which people end.
 */
#ifndef CLIENT_CLI_CLI_H
#define CLIENT_CLI_CLI_H

#include <stdbool.h>

#include "client/cli/arguments.h"
#include "client/cli/text.h"

struct cli {
    const struct cli_arguments *arguments;
    const char *endpoints;
    tg_client_t *client;
    int timeout_ms; /* of one question */
    bool terminal;  /* standard output is one */
    bool colour;
    struct cli_text text; /* what is being put together */
};

/* ---- ask.c ---- */

/* check, peek, hit, refund, reset: asks and prints each decision. Returns the exit status. */
MUST_USE int cli_ask(struct cli *cli);
/* Adds a decision's JSON, the interface that scripts read, without a line's end; with `explain`
 * (decision->explain_count rows, or NULL) it has one field more, of that name. Pure. */
void cli_decision_json(struct cli_text *text, const tg_decision_t *decision,
                       const tg_explain_t *explain);
/* The same as one element of a YAML sequence. Pure. */
void cli_decision_yaml(struct cli_text *text, const tg_decision_t *decision,
                       const tg_explain_t *explain);

/* ---- inspect.c ---- */

/* status, members, ring, owner, rules list. Returns the exit status. */
MUST_USE int cli_inspect(struct cli *cli);
struct mp_writer;
/* One field of a question's map: `attributes`. */
void cli_put_attributes(struct mp_writer *writer, const struct cli_arguments *arguments);

/* ---- status.c ---- */

/* status, but for --wait and --regions. Returns the exit status. */
MUST_USE int cli_status(struct cli *cli);

/* ---- judge.c ---- */

/* Whether the command needs no node. Pure. */
bool cli_judges_offline(const struct cli_arguments *arguments);
/* rules validate, rules explain. Returns the exit status. */
MUST_USE int cli_judge(struct cli *cli);
/* Says, as warnings, what good rules probably do not mean; of others nothing. */
void cli_warn_rules(const char *path, const char *text, size_t len);
/* Says what a refused text needs, a line an error, as compilers do, so that editors jump there.
 * Returns the exit status. */
int cli_refuse_text(const char *path, const char *text, size_t len);

/* ---- rules.c ---- */

/* rules show, diff, apply, delete, history, rollback. Returns the exit status. */
MUST_USE int cli_rules(struct cli *cli);

/* ---- block.c ---- */

/* block, unblock, blocks. Returns the exit status. */
MUST_USE int cli_block(struct cli *cli);

/* ---- api_key.c ---- */

/* apikey create, list, show, revoke, delete. Returns the exit status. */
MUST_USE int cli_api_key(struct cli *cli);

/* ---- quota.c ---- */

/* quota set, show, list, delete. Returns the exit status. */
MUST_USE int cli_quota(struct cli *cli);

/* ---- change.c ---- */

/* drain, leave, remove. Returns the exit status. */
MUST_USE int cli_change(struct cli *cli);

/* ---- replay_run.c ---- */

/* replay: needs no node. Returns the exit status. */
MUST_USE int cli_replay_run(struct cli *cli);

/* ---- pools.c ---- */

/* pools list, pools report. Returns the exit status. */
MUST_USE int cli_pools(struct cli *cli);

/* ---- output.c ---- */

/* Writes cli->text to standard output and empties it. 0 or CLI_EXIT_OUTPUT. */
MUST_USE int cli_flush(struct cli *cli);
/* Prints `tidegate: sentence`, safe to show whatever it holds. */
__attribute__((format(printf, 1, 2))) void cli_complain(const char *format, ...);
/* Asks whether a change is wanted, unless --yes says so; `instead`: what else may be given where
 * there is no terminal to ask, "" for nothing. CLI_EXIT_OK, or the exit status. */
MUST_USE int cli_confirm(const struct cli *cli, const char *question, const char *instead);
/* Says why a call returned `code`: `said` is the node's own sentence, "" for none. Returns the
 * exit status for it. */
MUST_USE int cli_fail(struct cli *cli, int code, const char *said);
/* The exit status for an error. Pure. */
int cli_exit_of(int code);

#endif

/* cli.h - one run of `tidegate`: what it was asked, its connection, and where it prints.
 *
 * CLI-1  Answers go to standard output, everything else as `tidegate: sentence` to standard error.
 * CLI-2  Every way out returns an enum cli_exit; only main ends the process.
 * CLI-3  Nothing waits without a deadline, but --watch, which people end.
 */
#ifndef CLIENT_CLI_SESSION_CLI_H
#define CLIENT_CLI_SESSION_CLI_H

#include <stdbool.h>

#include "client/cli/arguments/arguments.h"
#include "client/cli/output/text.h"

struct cli {
    const struct cli_arguments *arguments;
    const char *endpoints;
    tg_client_t *client;
    int timeout_ms; /* of one question */
    bool terminal;  /* standard output is one */
    bool colour;
    struct cli_text text; /* what is being put together */
};

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
/* Fills `out` with bytes that nobody can guess. False where the machine gives none, after saying
 * so. */
MUST_USE bool cli_random(void *out, size_t len);
/* The exit status for an error. Pure. */
int cli_exit_of(int code);

#endif

/* status.h - how the cluster is doing, and each of its regions; what came about lately. */
#ifndef CLIENT_CLI_STATUS_STATUS_H
#define CLIENT_CLI_STATUS_STATUS_H

#include "client/cli/session/answer.h"

/* status, but for --wait and --regions. Returns the exit status. */
MUST_USE int cli_status(struct cli *cli);
/* Prints an answer to `status`. The exit status says whether all is well. */
MUST_USE int cli_status_show(struct cli *cli, const struct cli_answer *answer);
/* Prints an answer to `regions` (regions.c). Returns the exit status. */
MUST_USE int cli_regions_show(struct cli *cli, const struct cli_answer *answer);
/* events. Returns the exit status. */
MUST_USE int cli_events(struct cli *cli);

#endif

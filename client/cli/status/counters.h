/* counters.h - status --all: every counter of the node that was asked, in groups, zeros left out.
 *
 *   answers   checks          1,234,567   items decided here
 *             denied             12,345   of them denied
 *
 * Counters of all shards are added up. One that this release does not know stands at the end.
 */
#ifndef CLIENT_CLI_STATUS_COUNTERS_H
#define CLIENT_CLI_STATUS_COUNTERS_H

#include "client/cli/session/answer.h"

/* Adds the counters of an answer to `status`. Pure. */
void counters_write(struct cli_text *out, const struct cli_answer *answer);

#endif

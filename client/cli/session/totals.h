/* totals.h - an answer whose totals are those of the whole cluster.
 *
 * Each node counts what it was asked itself (requests_today, last_seen ...). What the first node
 * answers is asked of every member once more, and shown with the sums:
 *
 *   first node  --> rows, shown ----------------------+
 *   members     --> n1: rows --+                      v
 *                   n2: rows --+--> sums, latest --> rows with these in their places
 *                   n3: none -----> "not_counted": its name, and a complaint
 *
 * Members of all regions are asked. An answer of one row, in a cluster of several regions, has the
 * sums of each in "regions". Of a region that is out of reach nobody is asked: "unreachable_since".
 */
#ifndef CLIENT_CLI_SESSION_TOTALS_H
#define CLIENT_CLI_SESSION_TOTALS_H

#include "client/cli/session/answer.h"

/* Shows the answer to `command`, asked with `question` (NULL: with nothing), whose
 * rows are known by their field `key`: a map, or an array of maps. Returns the exit status. */
MUST_USE int cli_totals_show(struct cli *cli, const char *command, const char *key,
                             const struct mp_writer *question, const struct cli_answer *answer);

#endif

/* rules_errors.h - what is wrong, or odd, in a text of rules, on standard error. */
#ifndef CLIENT_CLI_SESSION_RULES_ERRORS_H
#define CLIENT_CLI_SESSION_RULES_ERRORS_H

#include "client/cli/session/answer.h"
#include "client/cli/session/rules_file.h"

/* Says what a refused text needs, a line an error, so that editors jump there. Returns the exit
 * status. */
int cli_refuse_text(const struct cli_rules_file *file);
/* Says all that a node has against a text of rules, in the same way. Returns the exit status. */
int cli_refuse_answer(const struct cli_rules_file *file, const struct cli_answer *answer);
/* Says, as warnings, what good rules probably do not mean; of others nothing. */
void cli_warn_rules(const struct cli_rules_file *file);
/* Says the warnings of an answer to `rules.validate`. */
void cli_warn_answer(const struct cli_rules_file *file, const struct cli_answer *answer);

#endif

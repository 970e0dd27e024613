/* help.h - what `tidegate help` says, and the hint behind a usage error. */
#ifndef CLIENT_CLI_ARGUMENTS_HELP_H
#define CLIENT_CLI_ARGUMENTS_HELP_H

#include "client/cli/arguments/arguments.h"
#include "client/cli/output/text.h"

/* Adds the help on a command; on CLI_COMMAND_NONE the overview. */
void cli_help(struct cli_text *text, enum cli_command topic);

/* Adds one or two lines: how the command is used, and where to read more. */
void cli_hint(struct cli_text *text, enum cli_command topic);

struct cli_flag_row;
/* "-e, --endpoint tcp://HOST:PORT": how the flag is written. */
void cli_flag_term(const struct cli_flag_row *row, char *out, size_t capacity);

#endif

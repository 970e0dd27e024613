/* commands.h - the names of commands: found, grouped, and refused with what was probably meant.
 * Pure. */
#ifndef CLIENT_CLI_ARGUMENTS_COMMANDS_H
#define CLIENT_CLI_ARGUMENTS_COMMANDS_H

#include <stddef.h>

#include "client/cli/arguments/arguments.h"

/* The command that the first words name, and how many they are; 0 if none. */
size_t cli_command_match(const char *const *words, size_t count, enum cli_command *out);
/* What help on words that name no command is about. */
enum cli_command cli_command_group(const char *const *words, size_t count);
/* What stands behind the word of the group in the name of the command; NULL: it is not of it. */
const char *cli_command_behind(enum cli_command command, const char *group);
/* Says why the words name no command. */
void cli_command_refuse(const char *const *words, size_t count, char sentence[CLI_SENTENCE_LEN]);

#endif

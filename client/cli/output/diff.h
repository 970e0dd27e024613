/* diff.h - how two texts differ, line by line, with a few lines around each difference.
 *
 * Pure. The longest common sequence is looked for where the texts differ, after equal lines at both
 * ends were set aside; where too much differs for that, all of the old goes and all of the new
 * comes.
 */
#ifndef CLIENT_CLI_OUTPUT_DIFF_H
#define CLIENT_CLI_OUTPUT_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/output/text.h"

/* Adds the differences, "-" before lines of `old` and "+" before those of `new`; nothing if the
 * texts are equal. */
void cli_diff(struct cli_text *text, const char *old, size_t old_len, const char *new,
              size_t new_len, bool colour);

#endif

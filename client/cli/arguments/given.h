/* given.h - the command line cut in words and flags; for the files of this room that read it.
 *
 *   argv --arguments.c--> struct cli_given --values.c, operands.c--> struct cli_arguments
 */
#ifndef CLIENT_CLI_ARGUMENTS_GIVEN_H
#define CLIENT_CLI_ARGUMENTS_GIVEN_H

#include "client/cli/arguments/command_table.h"

enum { CLI_WORDS_MAX = 300, CLI_REPEATED_MAX = 80 };

struct cli_given {
    const char *words[CLI_WORDS_MAX];
    size_t word_count;
    const char *values[CLI_FLAG_COUNT];     /* NULL: not given; of a flag without value: "" */
    const char *repeated[CLI_REPEATED_MAX]; /* values of the flags that repeat, in their order */
    enum cli_flag repeated_flag[CLI_REPEATED_MAX];
    size_t repeated_count;
    char *sentence;
};

/* The words behind the command. */
struct cli_words {
    const char *const *list;
    size_t count;
    size_t taken; /* those that the reader has understood */
};

/* Says why; returns `status`. */
__attribute__((format(printf, 3, 4))) int cli_refuse(const struct cli_given *given, int status,
                                                     const char *format, ...);
/* The values of a flag that repeats, gathered into `out` (CLI_REPEATED_MAX); how many. */
size_t cli_gather(const struct cli_given *given, enum cli_flag flag, const char **out);

/* ---- values.c ---- */

/* Reads all flags whose rows say how, and those that are more than one row tells, but for the
 * next. Returns an exit status. */
MUST_USE int cli_take_values(struct cli_arguments *out, const struct cli_given *given);
/* Reads times, and limits of users: after the operands, for what is missing is told first. */
MUST_USE int cli_take_times_and_limits(struct cli_arguments *out, const struct cli_given *given);
/* Reads --output alone. */
MUST_USE int cli_take_output(struct cli_arguments *out, const struct cli_given *given);
/* The inline limit of --rate, --burst and --algorithm. Returns an exit status. */
MUST_USE int cli_take_limit(struct cli_arguments *out, const struct cli_given *given);

/* ---- operands.c ---- */

/* Reads what stands behind the command. Returns an exit status. */
MUST_USE int cli_take_operands(struct cli_arguments *out, const struct cli_given *given,
                               struct cli_words *words);

#endif

/* command_table.h - the one table of the command line: commands, what stands behind them, flags.
 *
 *   command_table.c  --+--> commands.c     which command the words name
 *   flag_table.c     --+--> arguments.c    argv, understood or refused
 *                      +--> help.c         `tidegate help`
 *                      +--> deploy/manual  man page, reference page, completion of bash and zsh
 *
 * Texts are Markdown's plain words: a paragraph ends with '\n', and `term TAB text` is an item of a
 * list. They are broken into lines where they are shown.
 *
 * COMMANDS-1  The rows of a flag have different commands, and agree in name, letter and whether
 *             they take a value.
 * COMMANDS-2  A command's usage names no flag that it does not take.
 */
#ifndef CLIENT_CLI_ARGUMENTS_COMMAND_TABLE_H
#define CLIENT_CLI_ARGUMENTS_COMMAND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/arguments/arguments.h"

#define CLI_SET(command) (UINT64_C(1) << (command))

/* ---- commands -------------------------------------------------------------------------------- */

/* What stands behind a command. */
enum cli_operand {
    CLI_OPERAND_NONE,
    CLI_OPERAND_TARGET,     /* attributes, or --key */
    CLI_OPERAND_ATTRIBUTES, /* attributes alone, or --domain */
    CLI_OPERAND_IMPORTED,   /* a form, and files of it */
    CLI_OPERAND_TOPIC,
    CLI_OPERAND_LOGS,
    CLI_OPERAND_FILE,
    CLI_OPERAND_MEMBER, /* or --region */
    CLI_OPERAND_RULE_IF_ANY,
    CLI_OPERAND_RULE,
    CLI_OPERAND_VERSION,
    CLI_OPERAND_BLOCKED, /* an attribute, a CIDR, or --key */
    CLI_OPERAND_API_KEY,
    CLI_OPERAND_CREDENTIAL,
    CLI_OPERAND_USER,
    CLI_OPERAND_POOL,
    CLI_OPERAND_COUNT
};

struct cli_command_row {
    const char *name;
    const char *usage; /* what stands behind the name */
    const char *summary;
    const char *notes;
    const char *examples; /* each `tidegate ...` and a line's end */
    enum cli_operand operand;
};

struct cli_operand_row {
    const char *term; /* NULL: there is nothing behind the command */
    const char *help;
    bool file;    /* completed with the names of files */
    bool command; /* completed with commands */
};

/* First words that need a second one. */
struct cli_group_row {
    const char *word;
    const char *summary;
};

struct cli_exit_row {
    enum cli_exit status;
    const char *meaning;
};

struct cli_variable_row {
    const char *name;
    const char *meaning;
};

/* Each is static storage. */
const struct cli_command_row *cli_command_row(enum cli_command command);
const struct cli_operand_row *cli_operand_row(enum cli_operand operand);
const struct cli_group_row *cli_group_rows(size_t *count);
const struct cli_exit_row *cli_exit_rows(size_t *count);
const struct cli_variable_row *cli_variable_rows(size_t *count);
/* What the program is, in a few words. */
extern const char cli_program_summary[];

/* ---- flags ----------------------------------------------------------------------------------- */

enum cli_flag {
    CLI_FLAG_ENDPOINT,
    CLI_FLAG_OUTPUT,
    CLI_FLAG_TIMEOUT,
    CLI_FLAG_HELP,
    CLI_FLAG_VERSION,
    CLI_FLAG_WATCH,
    CLI_FLAG_FOLLOW,
    CLI_FLAG_WAIT,
    CLI_FLAG_MEMBERS,
    CLI_FLAG_REGIONS,
    CLI_FLAG_ALL,
    CLI_FLAG_NODE,
    CLI_FLAG_KEY,
    CLI_FLAG_RATE,
    CLI_FLAG_BURST,
    CLI_FLAG_ALGORITHM,
    CLI_FLAG_COST,
    CLI_FLAG_AT_MOST,
    CLI_FLAG_REPEAT,
    CLI_FLAG_LEASE,
    CLI_FLAG_USED,
    CLI_FLAG_TTL,
    CLI_FLAG_HOLD,
    CLI_FLAG_ACTUAL,
    CLI_FLAG_EXPLAIN,
    CLI_FLAG_RULES,
    CLI_FLAG_DOMAIN,
    CLI_FLAG_DESCRIPTOR,
    CLI_FLAG_MERGE,
    CLI_FLAG_CHARGE,
    CLI_FLAG_LOAD,
    CLI_FLAG_LOAD_MAX,
    CLI_FLAG_RESERVE,
    CLI_FLAG_SCOPE,
    CLI_FLAG_HOME,
    CLI_FLAG_FORCE,
    CLI_FLAG_REGION,
    CLI_FLAG_NO_WAIT,
    CLI_FLAG_FORMAT,
    CLI_FLAG_MAP,
    CLI_FLAG_SET,
    CLI_FLAG_TIME_FIELD,
    CLI_FLAG_COST_FIELD,
    CLI_FLAG_PROXIES,
    CLI_FLAG_REORDER,
    CLI_FLAG_SPREAD,
    CLI_FLAG_TOP,
    CLI_FLAG_SUGGEST,
    CLI_FLAG_DRY_RUN,
    CLI_FLAG_YES,
    CLI_FLAG_AUTHOR,
    CLI_FLAG_NOTE,
    CLI_FLAG_OF_VERSION,
    CLI_FLAG_FOR,
    CLI_FLAG_UNTIL,
    CLI_FLAG_REASON,
    CLI_FLAG_NAME,
    CLI_FLAG_OWNER,
    CLI_FLAG_ROLE,
    CLI_FLAG_NETWORK,
    CLI_FLAG_TIER,
    CLI_FLAG_LIMIT,
    CLI_FLAG_BLOCK,
    CLI_FLAG_UNBLOCK,
    CLI_FLAG_NOTES,
    CLI_FLAG_CLEAR,
    CLI_FLAG_AFTER,
    CLI_FLAG_COUNT
};

/* How its value is read into struct cli_arguments. */
enum cli_value {
    CLI_VALUE_OTHER,  /* by arguments.c, together with other things */
    CLI_VALUE_SWITCH, /* bool: it takes no value */
    CLI_VALUE_TEXT,   /* const char *; with max > 0 of min..max bytes */
    CLI_VALUE_NUMBER, /* uint64_t, min..max */
    CLI_VALUE_CHOICE, /* an enum: the place in `choices` */
};

struct cli_flag_row {
    enum cli_flag flag;
    const char *name;
    char letter;          /* or 0 */
    bool repeats;         /* may be given several times */
    bool file;            /* completed with the names of files */
    uint64_t commands;    /* that take it, a bit each */
    const char *value;    /* what help calls its value; NULL: it takes none */
    const char *choices;  /* the values that there are, apart by spaces; NULL: any */
    const char *proposal; /* a value to complete with; NULL: none */
    const char *help;
    enum cli_value kind;
    size_t offset; /* in struct cli_arguments, but of CLI_VALUE_OTHER */
    uint64_t min;
    uint64_t max;
};

/* All rows, in the order in which help shows them. */
const struct cli_flag_row *cli_flag_rows(size_t *count);
/* The row of the flag for the command; NULL: it does not take it. */
const struct cli_flag_row *cli_flag_row(enum cli_flag flag, enum cli_command command);
/* Its name, without the dashes. Static storage. */
const char *cli_flag_name(enum cli_flag flag);
/* Whether every command takes it. */
bool cli_flag_common(const struct cli_flag_row *row);
/* Commands that change the ring, and can wait until that is done. */
bool cli_command_changes(enum cli_command command);

#endif

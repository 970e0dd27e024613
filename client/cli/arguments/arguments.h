/* arguments.h - the command line, understood or refused with a sentence.
 *
 * Pure: argv in, struct out; nothing is opened, sent or printed.
 *
 *   tidegate [flags] COMMAND [SUBCOMMAND] [flags and operands, in any order]
 *
 * ARGUMENTS-1  What is refused for its shape (unknown or misplaced word or flag, missing argument)
 *              is CLI_EXIT_USAGE; what is refused for a value is CLI_EXIT_INVALID.
 * ARGUMENTS-2  A refusal names what was found and what was expected.
 */
#ifndef CLIENT_CLI_ARGUMENTS_ARGUMENTS_H
#define CLIENT_CLI_ARGUMENTS_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "client/cli/arguments/replay_arguments.h"
#include "client/include/tidegate.h"
#include "node/policy/compile/pool_edit.h"

enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_DENIED = 1, /* a request was denied; or what was waited for did not come in time */
    CLI_EXIT_UNREACHABLE = 2,
    CLI_EXIT_INVALID = 3,
    CLI_EXIT_USAGE = 64,
    CLI_EXIT_OUTPUT = 74 /* the answer could not be written */
};

enum cli_output { CLI_TABLE, CLI_JSON, CLI_YAML };

enum cli_command {
    CLI_CHECK,
    CLI_PEEK,
    CLI_HIT,
    CLI_REFUND,
    CLI_RESET,
    CLI_LEASE,
    CLI_RELEASE,
    CLI_RENEW,
    CLI_RESERVE,
    CLI_COMMIT,
    CLI_CANCEL,
    CLI_STATUS,
    CLI_MEMBERS,
    CLI_RING,
    CLI_EVENTS,
    CLI_OWNER,
    CLI_RULES_LIST,
    CLI_RULES_SHOW,
    CLI_RULES_VALIDATE,
    CLI_RULES_EXPLAIN,
    CLI_RULES_IMPORT,
    CLI_RULES_DIFF,
    CLI_RULES_APPLY,
    CLI_RULES_DELETE,
    CLI_RULES_HISTORY,
    CLI_RULES_ROLLBACK,
    CLI_BLOCK,
    CLI_UNBLOCK,
    CLI_BLOCKS,
    CLI_APIKEY_CREATE,
    CLI_APIKEY_LIST,
    CLI_APIKEY_SHOW,
    CLI_APIKEY_REVOKE,
    CLI_APIKEY_DELETE,
    CLI_TOKEN_CREATE,
    CLI_CREDENTIAL_LIST,
    CLI_CREDENTIAL_SHOW,
    CLI_CREDENTIAL_ROTATE,
    CLI_CREDENTIAL_REVOKE,
    CLI_QUOTA_SET,
    CLI_QUOTA_SHOW,
    CLI_QUOTA_LIST,
    CLI_QUOTA_DELETE,
    CLI_QUOTA_RESET,
    CLI_POOLS_LIST,
    CLI_POOLS_SET,
    CLI_POOLS_REPORT,
    CLI_DRAIN,
    CLI_LEAVE,
    CLI_REMOVE,
    CLI_REPLAY,
    CLI_VERSION,
    CLI_HELP,
    CLI_COMMAND_COUNT,
    CLI_COMMAND_NONE = CLI_COMMAND_COUNT /* for help: about everything */
};

enum { CLI_SENTENCE_LEN = 512, CLI_ENDPOINTS_LEN = 8192, CLI_MEMBER_LEN = 128, CLI_POOL_LEN = 129 };

enum { CLI_LIMITS_LEN = 512 };

/* What is to be set for a user; of an API key, its limits and burst. NULL, 0, "": not given. */
struct cli_quota {
    const char *user;
    const char *tier;
    char limits[CLI_LIMITS_LEN]; /* apart by spaces */
    uint64_t burst;
    const char *block; /* the reason */
    const char *notes;
    bool unblock;
    bool clear;
};

/* Who holds an API key or a token, and what he may. NULL: it is not said. */
struct cli_holder {
    const char *owner; /* of CLI_APIKEY_CREATE, CLI_APIKEY_LIST */
    const char *tier;  /* of CLI_APIKEY_CREATE */
    const char *roles; /* of CLI_TOKEN_CREATE */
    const char *networks;
};

enum { CLI_IMPORTED_MAX = 64 };

/* What is said of domains and descriptors. NULL, 0: not given. */
struct cli_domains {
    const char *domain; /* of CLI_RULES_EXPLAIN */
    const char *descriptor;
    const char *files[CLI_IMPORTED_MAX]; /* of CLI_RULES_IMPORT */
    size_t file_count;
    bool merge;
    enum { CLI_CHARGE_EACH, CLI_CHARGE_ALL } charge;
};

struct cli_report {
    const char *pool;
    double load; /* 0 .. 1 */
};

struct cli_arguments {
    enum cli_command command;
    enum cli_command topic; /* of CLI_HELP */
    const char *endpoints;  /* NULL: not given */
    enum cli_output output;
    int timeout_ms; /* 0: not given */
    bool watch;
    bool regions;     /* status: of each region */
    bool all;         /* members: those that are gone, too; status: all counters */
    bool all_members; /* status: a line for each node */
    const char *node; /* status: of this one alone; NULL: of all */
    bool wait_healthy;
    uint64_t members; /* the same: so many at least; 0: not given */
    tg_attribute_t attributes[TG_ATTRIBUTES_MAX];
    size_t attribute_count;
    const char *key;  /* NULL: by attributes */
    tg_limit_t limit; /* with a key; count 0: no rate was given */
    uint64_t cost;
    bool at_most;
    uint64_t lease_id; /* of CLI_RELEASE and CLI_RENEW; of CLI_COMMIT and CLI_CANCEL the
                        * reservation */
    uint64_t used;     /* tokens that were used; of CLI_RESERVE: for how many ms */
    uint64_t repeat;
    bool explain;
    const char *file;           /* of rules; NULL: not given */
    const char *member;         /* of CLI_REMOVE: a name or an id; NULL: a region */
    const char *region;         /* of CLI_REMOVE; NULL: not given */
    struct cli_report report;   /* of CLI_POOLS_REPORT */
    struct pool_edit pool_edit; /* of CLI_POOLS_SET */
    bool force;
    bool no_wait;
    struct cli_replay replay;
    const char *name; /* of CLI_RULES_SHOW (or NULL), CLI_RULES_DELETE: a rule; of an API key */
    size_t name_len;  /* of an API key */
    uint64_t version; /* of CLI_RULES_ROLLBACK, CLI_RULES_SHOW (0: the newest) */
    bool dry_run;
    bool yes;
    const char *author; /* of a change; NULL: user@host */
    const char *note;   /* NULL: none */
    const char *target; /* of CLI_BLOCK, CLI_UNBLOCK: attr=value or CIDR; NULL: by key */
    const char *reason; /* of CLI_BLOCK; NULL: none */
    const char *after;  /* of CLI_APIKEY_LIST, CLI_QUOTA_LIST: rows behind this one; NULL: all */
    struct cli_holder holder;
    struct cli_quota quota;
    struct cli_domains domains;
    uint64_t for_ms;   /* of CLI_BLOCK, CLI_APIKEY_CREATE, CLI_QUOTA_SET, CLI_TOKEN_CREATE and
                          CLI_CREDENTIAL_ROTATE; 0: not given */
    uint64_t until_ms; /* Unix time, 0: not given */
    char names[TG_ATTRIBUTES_MAX][TG_ATTRIBUTE_NAME_MAX + 1]; /* what attributes[].name point to */
};

/* Reads argv[1..]. Returns CLI_EXIT_OK, or the status to end with and a sentence without a final
 * stop in `sentence` (CLI_SENTENCE_LEN bytes); out->command is then what had been recognised, or
 * CLI_COMMAND_NONE. Strings in `out` are argv's, or its own: it must not be moved. */
MUST_USE int cli_arguments_parse(struct cli_arguments *out, int argc, const char *const *argv,
                                 char *sentence);

/* Whether --timeout is the time for all of it, not for one answer. Pure. */
bool cli_waits(const struct cli_arguments *arguments);

/* "rules list". Static storage. */
const char *cli_command_name(enum cli_command command);

#endif

/* edit.h - a change of the cluster's configuration store, asked for until it is decided.
 *
 *   COMMAND {id, author, note, base, fields} --> {state: waiting} --> edit.state {id} ... --> done
 *                                                                     conflict, unavailable, doubt
 */
#ifndef CLIENT_CLI_SESSION_EDIT_H
#define CLIENT_CLI_SESSION_EDIT_H

#include "client/cli/session/cli.h"

enum { CLI_EDIT_FIELDS_MAX = 12, CLI_AUTHOR_LEN = 128 };

/* A text, or a number where `text` is NULL. */
struct cli_edit_field {
    const char *name;
    const char *text;
    size_t len;
    uint64_t number;
};

struct packed;

struct cli_edit {
    const char *command;
    const char *note;
    bool based; /* on the version `base` of what it changes */
    uint64_t base;
    bool quiet; /* nothing is printed when it is done */
    uint32_t field_count;
    struct cli_edit_field fields[CLI_EDIT_FIELDS_MAX];
    const struct packed *document; /* a document of rules that is sent along, or NULL */
};

/* Adds an argument, borrowed: a text, or its first `len` bytes; a number. NULL and 0 are not said.
 */
void cli_edit_text(struct cli_edit *edit, const char *name, const char *text);
void cli_edit_bytes(struct cli_edit *edit, const char *name, const char *text, size_t len);
void cli_edit_number(struct cli_edit *edit, const char *name, uint64_t number);
/* Who makes a change: `given`, or if that is NULL the user and the host of this process. */
void cli_author(const char *given, char out[CLI_AUTHOR_LEN]);
/* Asks, waits, prints what became of it. Returns the exit status: 3 where somebody else was first,
 * 2 where it cannot be decided. */
MUST_USE int cli_edit(struct cli *cli, const struct cli_edit *edit);

#endif

/* rules_file.h - rules of a file or directory, read whole, and a document of rules as it is sent.
 */
#ifndef CLIENT_CLI_SESSION_RULES_FILE_H
#define CLIENT_CLI_SESSION_RULES_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mp.h"
#include "node/policy/compile/packed.h"
#include "node/sources/rules_source.h"

struct cli_rules_file {
    const char *path; /* as it was given */
    struct rules_source source;
};

/* Reads `path`, a file, "-" (standard input) or a directory, at most `len_max` bytes. False after
 * complaining; then nothing is held. */
bool cli_rules_read(const char *path, size_t len_max, struct cli_rules_file *out);
void cli_rules_fini(struct cli_rules_file *file);

/* Packs the document, which `out` may point to then, if it is too long to be kept as it is. False
 * after complaining of `path`, also where it is too long even so; then nothing is held. */
bool cli_rules_pack(const char *path, const char *text, size_t len, struct packed *out);
/* How long to wait for what a node says of the document: compiling a large one takes it a while,
 * and longer while it has much to do. `given_ms`: what --timeout says, 0: nothing. */
int cli_rules_timeout(const struct packed *document, int usual_ms, int given_ms);
/* The argument of a question that is a document: its name, and the value. */
void cli_rules_put(struct mp_writer *question, const struct packed *document);

#endif

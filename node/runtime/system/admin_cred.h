/* admin_cred.h - the token that operators' calls over HTTP need: DATA/admin.cred.
 *
 * Whoever can read the file may do everything. It is made at the first start, for the node's user
 * alone. One line, whose text is the token; the node keeps its digest.
 *
 * Main thread, before any other.
 */
#ifndef NODE_RUNTIME_SYSTEM_ADMIN_CRED_H
#define NODE_RUNTIME_SYSTEM_ADMIN_CRED_H

#include <stdbool.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"

struct admin_cred {
    bool given; /* there is a token */
    struct digest digest;
};

/* Reads the file, which is made if there is none. 0, or TG_EINVALID after a line of the log: it
 * cannot be read or made, or has no token. */
MUST_USE int admin_cred_open(const char *path, const struct log *log, struct admin_cred *out);

#endif

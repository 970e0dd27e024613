/* intern.h - each distinct text of decisions once, as a string that lives as long as the handle.
 *
 * Decisions name rules, windows, messages and nodes. Those are few, the decisions many: so a
 * decision holds pointers into this table and no buffers, and costs nothing to copy.
 *
 * Not thread-safe: one thread adds; strings, once given out, may be read anywhere.
 */
#ifndef CLIENT_LIB_INTERN_H
#define CLIENT_LIB_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "client/protocol/wire.h"

enum {
    CLIENT_INTERN_MAX = 65536,        /* distinct texts; above, "" is given */
    CLIENT_INTERN_BUCKETS = 4096,     /* power of two */
    CLIENT_INTERN_BYTES_MAX = 1 << 24 /* of all texts */
};

struct client_intern_entry;

struct client_intern {
    const struct allocator *allocator;
    struct client_intern_entry **buckets;
    size_t count;
    size_t bytes;
};

MUST_USE int client_intern_init(struct client_intern *intern, const struct allocator *allocator);
void client_intern_fini(struct client_intern *intern);
/* The one NUL-terminated string equal to `text`; "" when memory or a bound is reached. */
const char *client_intern_get(struct client_intern *intern, struct wire_text text);

#endif

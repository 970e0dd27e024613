/* listener.h - a TCP port of this node's that is not ZeroMQ's.
 */
#ifndef NODE_RUNTIME_SYSTEM_LISTENER_H
#define NODE_RUNTIME_SYSTEM_LISTENER_H

#include <stdint.h>

#include "base/error.h"

/* Listens at host:port ("*": every address of IPv4), without blocking. 0, TG_EADDRINUSE,
 * TG_EINVALID (the address is not this machine's) or TG_EIO. */
MUST_USE int listener_open(const char *host, uint16_t port, int *out);
/* Opens `count` listeners at one address, among which the kernel divides who comes. Nobody else
 * listens there: another process of the same user could share the address otherwise, and would not
 * be told. As above; on failure all of `out` are -1. */
MUST_USE int listener_open_group(const char *host, uint16_t port, uint32_t count, int *out);
/* Listens at a socket of the file system, for its owner and group. One that a process left behind
 * is replaced. 0, TG_EADDRINUSE (somebody listens there), TG_EINVALID (it cannot be made there: its
 * folder is missing, or something else has its name) or TG_EIO. */
MUST_USE int listener_open_path(const char *path, int *out);
/* Closes it and sets it to -1; allowed for one that is. */
void listener_close(int *listener);

#endif

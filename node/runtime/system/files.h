/* files.h - open files when clients have taken nearly all that there may be.
 *
 * libzmq accepts peers by itself, and turns round without end at a connection that it has no
 * descriptor for. So a part of them is held back by spares, which nothing else can take. When the
 * rest is used up, clients are no longer accepted, and the spares are given free: for peers, gossip
 * and the disk.
 *
 *     OPEN, spares held --all others used--> PAUSED, spares free --enough free again--> OPEN
 *
 * One thread calls all functions; files_paused may be read by any.
 */
#ifndef NODE_RUNTIME_SYSTEM_FILES_H
#define NODE_RUNTIME_SYSTEM_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum { FILES_SPARES_MAX = 2048 };

struct files {
    uint32_t max;  /* that the process may open */
    uint32_t kept; /* of these, not for clients */
    int spares[FILES_SPARES_MAX];
    uint32_t spare_count;
    _Atomic bool paused;
    uint64_t pauses;
    int64_t logged_ns;
};

void files_init(struct files *files, uint32_t max);
void files_fini(struct files *files);
/* Holds the spares back; the ports are bound by now. */
void files_hold(struct files *files);
/* Looks whether clients are to be let in. */
void files_look(struct files *files, int64_t now_ns, const struct log *log);

#endif

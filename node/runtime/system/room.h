/* room.h - how full the store is: told before it is, and closed to further keys when it is.
 *
 *     used of most:  ROOMY --80%--> NEAR --95%--> TIGHT --100%, where --store-max says so--> FULL
 *
 * `most` is what --store-max says, or without it what the store has and its file system could still
 * give it. A store that is FULL by --store-max is still written, but for no key that it does not
 * have (table_close in node/limit/table/table.h); a full file system says so itself.
 *
 * The control thread calls all functions.
 */
#ifndef NODE_RUNTIME_SYSTEM_ROOM_H
#define NODE_RUNTIME_SYSTEM_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "storage/store.h"

enum room_level { ROOM_ROOMY, ROOM_NEAR, ROOM_TIGHT, ROOM_FULL };

struct room {
    uint64_t max;    /* --store-max; 0: none */
    uint64_t used;   /* bytes that hold something, when it was looked at last */
    uint64_t most;   /* that it may be */
    uint8_t level;   /* enum room_level */
    int64_t next_ns; /* when to look again */
};

void room_init(struct room *room, uint64_t max);
/* Which level that is. From where it was, it falls only some way below; pure. */
enum room_level room_level(enum room_level before, uint64_t used, uint64_t most, bool bound);
/* The highest of the levels' per cents that is reached; 0: none. */
unsigned room_percent(const struct room *room);
/* Looks at the store in that directory, if it is time to, and says in the log what has changed.
 * True if it looked. */
bool room_look(struct room *room, struct store *store, const char *path, int64_t now_ns,
               const struct log *log);

#endif

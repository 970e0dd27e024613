/* room.c - see room.h. */
#include "node/runtime/system/room.h"

#include <inttypes.h>
#include <sys/statvfs.h>

#include "base/assert.h"

#define LOOK_NS  INT64_C(500000000)
#define CLOSE_NS INT64_C(100000000) /* while it is near its bound */

enum {
    NEAR_PERCENT = 80,
    TIGHT_PERCENT = 95,
    FULL_PERCENT = 100,
    BACK_PERCENT = 2, /* below a level by so much, it is over: else each write would tell */
    MIB = 20,
};

void room_init(struct room *room, uint64_t max)
{
    *room = (struct room){.max = max};
}

static const uint8_t from[] = {
    [ROOM_NEAR] = NEAR_PERCENT, [ROOM_TIGHT] = TIGHT_PERCENT, [ROOM_FULL] = FULL_PERCENT};

unsigned room_percent(const struct room *room)
{
    ASSERT(room->level <= ROOM_FULL);
    return from[room->level];
}

enum room_level room_level(enum room_level before, uint64_t used, uint64_t most, bool bound)
{
    const double percent = most == 0 ? 0 : (double)used * 100 / (double)most;
    enum room_level level = ROOM_ROOMY;
    for (unsigned at = ROOM_NEAR; at <= (bound ? ROOM_FULL : ROOM_TIGHT); at++)
        if (percent >= from[at] - (at <= before ? BACK_PERCENT : 0))
            level = (enum room_level)at;
    ASSERT(level <= ROOM_FULL && (bound || level != ROOM_FULL));
    return level;
}

static void tell(const struct room *room, enum room_level before, const struct log *log)
{
    const char *of = room->max != 0 ? "--store-max" : "what its disk has room for";
    if (room->level == ROOM_FULL)
        log_printf(log, LOG_LEVEL_ERROR,
                   "the store has reached --store-max (%" PRIu64 " of %" PRIu64
                   " MiB): new keys are refused, on_failure decides; those that exist are counted "
                   "as ever",
                   room->used >> MIB, room->most >> MIB);
    else if (room->level > before)
        log_printf(log, LOG_LEVEL_WARN,
                   "the store is %" PRIu64 " MiB, more than %d%% of %s (%" PRIu64 " MiB)%s",
                   room->used >> MIB, from[room->level], of, room->most >> MIB,
                   room->max != 0 ? ": new keys are refused when it is reached" : "");
    else if (before == ROOM_FULL || room->level == ROOM_ROOMY)
        log_printf(log, LOG_LEVEL_INFO, "the store has room again: %" PRIu64 " of %" PRIu64 " MiB",
                   room->used >> MIB, room->most >> MIB);
}

bool room_look(struct room *room, struct store *store, const char *path, int64_t now_ns,
               const struct log *log)
{
    const enum room_level before = (enum room_level)room->level;
    struct store_stats stats;
    struct statvfs disk;

    if (store == NULL || now_ns < room->next_ns)
        return false;
    room->next_ns = now_ns + (before == ROOM_ROOMY ? LOOK_NS : CLOSE_NS);
    store_stats(store, &stats);
    room->used = stats.state_used_bytes - stats.state_free_bytes + stats.meta_used_bytes;
    room->most = room->max;
    if (room->max == 0 && statvfs(path, &disk) == 0)
        room->most =
            room->used + stats.state_free_bytes + (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize;
    room->level = (uint8_t)room_level(before, room->used, room->most, room->max != 0);
    if (room->level != before)
        tell(room, before, log);
    return true;
}

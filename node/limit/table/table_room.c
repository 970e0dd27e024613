/* table_room.c - whether memory takes in one more key, which then stays until it is on disk.
 *
 * What may leave at any moment is counted (`clean`): slots that are on disk as they are. All others
 * are kept until they are written or as good as new, so the room is what the rest of memory has
 * places for. See new_keys.h for how it is shared out.
 *
 * A key that will be as good as new before write-back comes round needs no memory for longer than
 * that, nor a disk: it is not budgeted. What has expired meanwhile is looked for before a key is
 * refused, a little for each, so that a flood of them costs no more than it must.
 *
 * States in the arena are not told apart by whether they may leave: a new one needs a part of it
 * free, or to be made free, that keys which exist may still grow into.
 */
#include "base/assert.h"
#include "node/limit/table/table_slot.h"

enum {
    EASY_SHARE = 4,     /* with less than one part of so many kept, nobody's share is used up */
    EXPIRE_BUCKETS = 2, /* looked at before a key is refused */
    ARENA_RESERVE = 16, /* one part of so many of the arena is for states that are there */
};

_Static_assert(NEW_KEYS_SHARE *(EASY_SHARE *NEW_KEYS_RESERVE - NEW_KEYS_RESERVE - EASY_SHARE) >
                   NEW_KEYS_RESERVE,
               "what is kept where there is room to spare is within the share of one class");

void table_set_write_period(struct table *table, int64_t period_ns)
{
    ASSERT(period_ns >= 0);
    table->write_period_ns = period_ns;
}

void table_close(struct table *table, bool closed)
{
    table->new_keys.closed = closed;
}

void table_round_written(struct table *table)
{
    new_keys_written(&table->new_keys);
}

static uint64_t kept(const struct table *table)
{
    ASSERT(table->clean <= table->buckets.used);
    return table->buckets.used - table->clean;
}

uint64_t table_room(const struct table *table)
{
    const uint64_t places = table_places(table);
    return places > kept(table) ? places - kept(table) : 0;
}

bool table_pressed(const struct table *table)
{
    return table_room(table) < table_places(table) / 2;
}

bool table_takes_imports(const struct table *table)
{
    return table_room(table) > table_places(table) / NEW_KEYS_LOADS;
}

void table_settle_new(struct table *table)
{
    new_keys_settle(&table->new_keys, kept(table));
}

/* Without the reserve. */
static uint64_t room_for_new(const struct table *table)
{
    const uint64_t room = table_room(table);
    const uint64_t reserve = table_places(table) / NEW_KEYS_RESERVE;
    return room > reserve ? room - reserve : 0;
}

void table_mark_new(struct table *table)
{
    new_keys_mark(&table->new_keys, room_for_new(table));
}

static bool arena_has_spare(const struct table *table)
{
    const struct arena *arena = &table->memory.arena;
    const uint64_t all = (uint64_t)(arena->end - arena->floor) * ARENA_GRANULE;
    return all > arena->used_bytes && all - arena->used_bytes >= all / ARENA_RESERVE;
}

static bool has_room(struct table *table, const struct limit_cell *cell, uint32_t class,
                     int64_t now_ns)
{
    if (!new_keys_allow(&table->new_keys, class, room_for_new(table)))
        return false;
    return !cell->wide || arena_has_spare(table) ||
           table_make_arena_room(table, TABLE_NONE, now_ns);
}

bool table_admit(struct table *table, unsigned kind, const struct limit_cell *cell, uint32_t class,
                 int64_t now_ns)
{
    if (class == NEW_KEYS_FREE)
        return true;
    if (__builtin_expect(kept(table) >= table_places(table) / EASY_SHARE || cell->wide ||
                             table->new_keys.closed,
                         0)) {
        const int64_t expires_ns = algorithm_ops(kind)->expires(&table->memory, cell);
        if (expires_ns <= now_ns + table->write_period_ns)
            return true;
        if (!has_room(table, cell, class, now_ns)) {
            table_expire_buckets(table, EXPIRE_BUCKETS, now_ns);
            if (!has_room(table, cell, class, now_ns)) {
                new_keys_refuse(&table->new_keys, class);
                table->turned_away++;
                table->turned_away_ns = now_ns;
                return false;
            }
        }
    }
    new_keys_add(&table->new_keys, class);
    return true;
}

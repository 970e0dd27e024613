/* new_keys.c - see new_keys.h for the idea and its terms. */
#include "node/limit/table/new_keys.h"

#include "base/assert.h"

enum {
    SLACK = 8,   /* one part of so many: what NEWKEYS-2 allows too much of */
    PASSES = 16, /* in search of the level; fewer are too few only to find all of it */
};

/* Numbers of rules may be close together, or hashes. */
static uint32_t place_of(uint32_t class)
{
    return (uint32_t)((class * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % NEW_KEYS_PLACES;
}

bool new_keys_allow(const struct new_keys *keys, uint32_t class, uint64_t room)
{
    const uint32_t place = place_of(class);
    const uint64_t added = (uint64_t)keys->since[place] + keys->marked[place];
    return !keys->closed && added < NEW_KEYS_SHARE * room &&
           (keys->level == 0 || keys->since[place] < keys->level);
}

void new_keys_add(struct new_keys *keys, uint32_t class)
{
    keys->since[place_of(class)]++;
    keys->added++;
}

void new_keys_refuse(struct new_keys *keys, uint32_t class)
{
    uint32_t *refused = &keys->refused[place_of(class)];
    *refused += *refused < UINT32_MAX;
}

/* At which all together get `most`, if each again wants what it asked for; 0: all get all of it.
 * Those that want less than the level give what they leave to the others, pass by pass. */
static uint32_t fair_level(const struct new_keys *keys, uint64_t most)
{
    uint64_t level = 0;
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        uint64_t left = most;
        uint32_t above = 0;
        for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
            const uint64_t asked = (uint64_t)keys->since[place] + keys->refused[place];
            if (asked <= level)
                left -= asked;
            else
                above++;
        }
        if (above == 0)
            return 0;
        if (left / above <= level)
            break;
        level = left / above;
    }
    return level == 0 ? 1 : level > UINT32_MAX ? UINT32_MAX : (uint32_t)level;
}

/* What was added before the last mark and since it may both be there at once: half of all for each.
 */
void new_keys_mark(struct new_keys *keys, uint64_t room)
{
    keys->level = fair_level(keys, (room + keys->added) / 2);
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
        keys->marked[place] += keys->since[place];
        keys->since[place] = keys->refused[place] = 0;
    }
}

void new_keys_written(struct new_keys *keys)
{
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
        ASSERT(keys->marked[place] <= keys->added); /* NEWKEYS-3 */
        keys->added -= keys->marked[place];
        keys->marked[place] = 0;
    }
}

/* Some have expired, or were given away, and nobody knows whose they were: so each class has so
 * many the less. */
void new_keys_settle(struct new_keys *keys, uint64_t kept)
{
    if (keys->added <= kept + kept / SLACK + 1)
        return;
    const uint64_t all = keys->added;
    ASSERT(kept < all);
    keys->added = 0;
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
        keys->since[place] = (uint32_t)(keys->since[place] * kept / all);
        keys->marked[place] = (uint32_t)(keys->marked[place] * kept / all);
        keys->added += (uint64_t)keys->since[place] + keys->marked[place];
    }
}

void new_keys_check(const struct new_keys *keys)
{
    uint64_t added = 0;
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++)
        added += (uint64_t)keys->since[place] + keys->marked[place];
    INVARIANT("NEWKEYS-3", added == keys->added);
}

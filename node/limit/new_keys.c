/* new_keys.c - see new_keys.h for the idea and its terms. */
#include "node/limit/new_keys.h"

enum { SLACK = 8 }; /* one part of so many: what K2 allows too much of */

/* Numbers of rules may be close together, or hashes. */
static uint32_t place_of(uint32_t class)
{
    return (uint32_t)((class * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % NEW_KEYS_PLACES;
}

bool new_keys_allow(const struct new_keys *keys, uint32_t class, uint64_t room)
{
    const uint32_t place = place_of(class);
    const uint64_t added = (uint64_t)keys->since[place] + keys->marked[place];
    return !keys->closed && added < NEW_KEYS_SHARE * room;
}

void new_keys_add(struct new_keys *keys, uint32_t class)
{
    keys->since[place_of(class)]++;
    keys->added++;
}

void new_keys_mark(struct new_keys *keys)
{
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
        keys->marked[place] += keys->since[place];
        keys->since[place] = 0;
    }
}

void new_keys_written(struct new_keys *keys)
{
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
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
    keys->added = 0;
    for (uint32_t place = 0; place < NEW_KEYS_PLACES; place++) {
        keys->since[place] = (uint32_t)(keys->since[place] * kept / all);
        keys->marked[place] = (uint32_t)(keys->marked[place] * kept / all);
        keys->added += (uint64_t)keys->since[place] + keys->marked[place];
    }
}

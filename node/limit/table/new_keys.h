/* new_keys.h - how many new keys a full memory takes in: a budget, shared fairly by class.
 *
 * Nothing that was charged leaves memory before it is on disk or as good as new. So where new keys
 * come faster than they can be written, some have to be turned away, or memory would be full of
 * slots that may not leave, and nobody could add another one. What may be added is the room that is
 * left beside those:
 *
 *     | slots that may not leave yet        | room                      | reserve |
 *     | class 1 | class 2 |   old keys      |                           |         |
 *
 *     a class may add a key while what it added and is still to be written < SHARE x room,
 *     and what it added since the last mark < level
 *
 * So one class alone gets SHARE of SHARE + 1 parts of the room and leaves the rest, however fast it
 * comes, to those that it would else be ahead of. The level is the max-min fair one: at each mark
 * it is set by what all asked for since the one before, so that of those that want more than there
 * is all get the same, and who wants less than that gets it all. The reserve is for keys that
 * exist: those that come back from disk, and those of other leaders.
 *
 * Who added what is counted from one mark of write-back to the next, for a slot does not say it:
 *
 *     added --> since --mark--> marked --all that was dirty at the mark is written--> gone
 *
 * NEWKEYS-1  A class that added nothing is refused only where there is no room at all.
 * NEWKEYS-2  What all classes are said to have added is not much more than what may not leave.
 * NEWKEYS-3  `added` is the sum of what each place added, before the last mark and since.
 *
 * A class is any number: that of a rule, 0 for inline limits. Many numbers share a place. Pure.
 */
#ifndef NODE_LIMIT_TABLE_NEW_KEYS_H
#define NODE_LIMIT_TABLE_NEW_KEYS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NEW_KEYS_PLACES = 1024,
    NEW_KEYS_SHARE = 2,   /* a class has up to so many times what it leaves */
    NEW_KEYS_RESERVE = 8, /* one part of so many is for keys that exist, */
    NEW_KEYS_LOADS = 32,  /* and of so many for those alone that come back from disk */
};

/* The class of what is not budgeted. */
#define NEW_KEYS_FREE UINT32_MAX

struct new_keys {
    uint64_t added;                    /* by all classes, and still to be written */
    uint32_t level;                    /* that a class may add from mark to mark; 0: no bound */
    uint32_t refused[NEW_KEYS_PLACES]; /* since the last mark */
    uint32_t since[NEW_KEYS_PLACES];
    uint32_t marked[NEW_KEYS_PLACES];
    bool closed; /* there is no room on disk for more keys, whatever memory has */
};

/* Whether a key of the class may be added where there is room for so many slots, reserve apart. */
bool new_keys_allow(const struct new_keys *keys, uint32_t class, uint64_t room);
void new_keys_add(struct new_keys *keys, uint32_t class);
void new_keys_refuse(struct new_keys *keys, uint32_t class);
/* A write-back begins of all that is dirty now, while there is room for so many more; it has ended,
 * and all of that is written. */
void new_keys_mark(struct new_keys *keys, uint64_t room);
void new_keys_written(struct new_keys *keys);
/* NEWKEYS-2: so many slots may not leave now. */
void new_keys_settle(struct new_keys *keys, uint64_t kept);
/* Asserts NEWKEYS-3. */
void new_keys_check(const struct new_keys *keys);

#endif

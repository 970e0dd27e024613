/* table.h - the bounded table of limiter states of one shard: all that a leader remembers.
 *
 * All memory is taken at init inside one byte budget and touched only as keys come. A key costs a
 * 32-byte slot and a byte of its bucket's head, of which a sixth at most is free (buckets.h);
 * states too big for a slot (logs, huge counts) live in an arena of the same budget. What must be
 * written or replicated is a set of dirty bits in the slots plus a short ring of recently changed
 * slots with one cursor per target: a slow target costs nothing, it only has to sweep the table
 * when it comes back.
 *
 *   region   | slots 0 .. n, growing up -->            <-- arena, growing down |
 *   slot     | id 16 | state 12 | vnode 2 | kind 1 | dirty 1 |
 *
 *   life of a slot on disk (bits of `dirty`):
 *
 *     change --> DISK ------ table_write_begin ----> WRITING
 *                 ^                                     |
 *                 |  (change, or write failed)          | table_write_done(ok)
 *                 +-------------------------------------+--> ON_DISK: may leave for the filter
 *
 * TABLE-1  A slot with dirty bit t, of the vnode's targets, has an entry ahead of t's cursor in the
 *          ring, or t sweeps, or the vnode is behind for t, or the slot is with the disk's writer.
 * TABLE-2  A slot leaves memory only if it is expired, or on disk as it is and not being written.
 *          Where none may leave, no key is added.
 * TABLE-3  Every id is that of one live slot at most, and found there. A slot's number is its
 *          place: it may rise when a key is added, and else stays. Its ref stays.
 * TABLE-4  A key that left for the disk is a "maybe" of its vnode's filter.
 * TABLE-5  A slot of a journaled vnode leaves memory only if it is expired, or journaled and clean
 *          for every target: what a majority is to hold is never forgotten for want of room.
 * TABLE-6  A target that did not get a slot before it left memory for the disk has missed something
 *          of its vnode, and the table says so until the target is given a complete copy.
 * TABLE-7  A slot that is gone before a replica got it leaves the replica with nothing to get, and
 *          with an older sequence number: the table says of which vnodes that is so.
 *
 * Journaled vnodes are the last ones of a table that was made with some. Their disk is a journal
 * with a writer of its own, so their slots are read as target TABLE_JOURNAL and never as
 * TABLE_DISK; they have exact counts of dirty slots instead of waiting for a whole target to be
 * idle, and one "something has left memory" a vnode instead of a filter.
 *
 * One thread, no clock: the time is an argument. Bytes of exports are versioned and little-endian.
 */
#ifndef NODE_LIMIT_TABLE_TABLE_H
#define NODE_LIMIT_TABLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/vocabulary.h"

struct table; /* opaque; table_private.h is for node/limit alone */

#define TABLE_NONE UINT32_MAX

/* A slot that is with a writer. Packed: there are many. */
struct table_write {
    uint64_t ref;  /* names the slot for as long as its key is in memory, wherever it moves */
    uint32_t hint; /* where it was, or any number below table_slots_end */
} __attribute__((packed, aligned(4)));

/* What of a slot is written beside its bytes. */
struct table_state {
    struct hash128 id;
    int64_t expires_ns; /* table_expires_ns */
    uint32_t vnode;
    uint32_t len; /* of the export */
};

/* Targets of a change: the disk and up to five replica positions. */
enum {
    TABLE_DISK = 0,
    TABLE_REPLICA_1 = 1, /* replica position p is target p */
    TABLE_TARGETS = 6,
    TABLE_REPLICAS_MAX = TABLE_TARGETS - 1,
    TABLE_JOURNAL = TABLE_TARGETS, /* the disk of journaled vnodes, to those who read changes */
    TABLE_READERS,
    TABLE_VNODES_MAX = 65536,
    TABLE_LEASES_LEN =
        16 + 1024 * 32, /* bytes that holders of a key add to its export (leased.h) */
    /* Bytes of the largest export: a full sliding_log, with leases. */
    TABLE_EXPORT_MAX = 48 + 4 * 65536 + TABLE_LEASES_LEN,
    TABLE_PREFETCH_MAX = 64,  /* keys one call asks memory for */
    TABLE_SWEEP_SLOTS = 2048, /* slots one call looks at while a target sweeps */
};
#define TABLE_MEMORY_MIN         ((size_t)4 << 20)
#define TABLE_TARGET_BIT(target) ((uint8_t)(1u << (target)))

struct table_stats {
    uint64_t used;          /* live slots */
    uint64_t capacity;      /* slots, if no arena were needed */
    uint64_t evicted;       /* left memory for the disk */
    int64_t turned_away_ns; /* when one was last */
    uint64_t turned_away;   /* new keys that were over the budget of their class (new_keys.h) */
    uint64_t room;        /* slots that memory has place for beside those that may not leave now */
    uint64_t expired;     /* dropped because they were as good as new */
    uint64_t refused;     /* changes that found no room */
    uint64_t bytes;       /* of memory in use, everything included */
    uint64_t bytes_max;   /* the budget */
    uint64_t arena_bytes; /* of which in blocks of the arena */
};

/* A table within `memory_bytes` (>= TABLE_MEMORY_MIN) for vnodes 0 .. vnodes - 1 (<=
 * TABLE_VNODES_MAX). *table is NULL on failure. 0, TG_EINVALID or TG_ENOMEM. */
MUST_USE int table_new(struct table **table, const struct allocator *allocator, size_t memory_bytes,
                       uint32_t vnodes);
/* The same, of which the last `journaled` vnodes are journaled. */
MUST_USE int table_new_journaled(struct table **table, const struct allocator *allocator,
                                 size_t memory_bytes, uint32_t vnodes, uint32_t journaled);
/* Before the first key: where keys lie depends on it. Each table that takes in keys of others in
 * the order of their slots needs one of its own. */
void table_seed(struct table *table, uint64_t seed);
void table_free(struct table **table);
void table_stats(const struct table *table, struct table_stats *stats);

/* -- vnodes ------------------------------------------------------------------------------ */

/* Which targets a change in `vnode` concerns from now on (bits TABLE_TARGET_BIT). Starts as 0.
 * Dirty bits of targets that are not in the mask are void. Does not mark old slots: see mark. */
void table_set_targets(struct table *table, uint32_t vnode, uint8_t mask);
uint8_t table_targets(const struct table *table, uint32_t vnode);
/* The vnode's sequence: +1 per change decided here; imports leave it. */
uint64_t table_vnode_seq(const struct table *table, uint32_t vnode);
void table_set_vnode_seq(struct table *table, uint32_t vnode, uint64_t seq);
/* Live slots of the vnode. */
uint32_t table_count(const struct table *table, uint32_t vnode);
/* Starts dropping all slots of `vnode` and empties its filter slice; the slots are out of every
 * lookup by the time table_step has done it. Do not decide for the vnode before
 * table_count(vnode) == 0. Marks, deferrals and targets of the vnode are cleared at once. */
void table_remove_vnode(struct table *table, uint32_t vnode);
/* Whether slots of a removal of the vnode are still there. */
bool table_vnode_removing(const struct table *table, uint32_t vnode);
/* One bounded portion of background work: removals, slots that copies left over, expired slots.
 * Call once a turn. Returns true while any of the first two is unfinished. */
bool table_step(struct table *table, int64_t now_ns);

/* -- complete copies ---------------------------------------------------------------------- */

/* A complete copy of the vnode begins to arrive: what is imported from now on belongs to it. */
void table_copy_begin(struct table *table, uint32_t vnode);
/* It has arrived whole: each slot of the vnode that was not imported since the beginning reads as
 * new from now on, and leaves memory, and the disk if it is there too (written as new), in portions
 * of table_step. 0; or TG_EBUSY if the copy before this one was broken off, or was still being
 * cleaned up after, when this one began: then some of its slots may have stayed, and only another
 * copy, begun when table_copy_settled, is sure to leave nothing over.
 * A key that is on disk and not in memory, and not in the copy, stays there until it expires. */
MUST_USE int table_copy_end(struct table *table, uint32_t vnode);
/* It is broken off: what was imported stays, and so does the rest. */
void table_copy_abort(struct table *table, uint32_t vnode);
/* Whether a copy that begins now is sure to leave nothing over. */
bool table_copy_settled(const struct table *table, uint32_t vnode);
/* True while slots left over are still to be written as new: what is on disk is not yet the copy.
 */
bool table_copy_fading(const struct table *table, uint32_t vnode);

/* -- changes, one reader per target ------------------------------------------------------- */

/* The next slot that is dirty for `target`, or TABLE_NONE: then nothing is pending, or (not
 * table_target_idle) a bounded portion of a sweep found none yet: ask again next turn. The caller
 * handles the slot at once: table_export and then table_clear_dirty (for TABLE_DISK and
 * TABLE_JOURNAL: table_write_begin), or table_defer. */
uint32_t table_next_dirty(struct table *table, unsigned target);
/* Those of `targets` (replica positions, bits) whose readers stand in the ring where the first that
 * has one does, and the next slot there that is dirty for any of them: one walk for all.
 * TABLE_NONE: the ring is read, or a portion of it; each goes on with table_next_dirty. */
uint8_t table_abreast(const struct table *table, uint8_t targets);
uint32_t table_next_abreast(struct table *table, uint8_t abreast);
/* Whether a replica position is to get the slot now, as if table_next_dirty had given it. */
bool table_slot_due(const struct table *table, uint32_t slot, unsigned target);
/* The disk's reader takes what is dirty by rounds: all that is dirty at the begin of one is handed
 * out before it is over, whatever changes meanwhile (which may be handed out as well). */
void table_round_begin(struct table *table);
/* Up to `most` more slots of the round, of which a write has begun as by table_write_begin, and the
 * vnode of each. How many; 0: ask again, or the round is over. Looks at `most` places at most, or
 * at a bounded number of changes for each slot. */
MUST_USE uint32_t table_round_take(struct table *table, struct table_write *writes,
                                   uint16_t *vnodes, uint32_t most);
bool table_round_over(const struct table *table);
/* All that was dirty at the begin of the last round is written. */
void table_round_written(struct table *table);
/* Asks memory for what is held of ids that are looked at soon, at most TABLE_PREFETCH_MAX. */
void table_prefetch_ids(const struct table *table, const uint32_t *vnodes,
                        const struct hash128 *ids, size_t count);
/* The slot's state has been handed to the target. */
void table_clear_dirty(struct table *table, uint32_t slot, unsigned target);
/* The target cannot take it now: the bit stays and the slot's vnode is behind for the target;
 * its slots are passed over until table_resume_vnode. */
void table_defer(struct table *table, uint32_t slot, unsigned target);
/* The vnode is no longer behind: a sweep brings up what is still dirty. */
void table_resume_vnode(struct table *table, uint32_t vnode, unsigned target);
bool table_vnode_behind(const struct table *table, uint32_t vnode, unsigned target);
/* TABLE-6: a slot of the vnode is on disk that the target was to get and did not. It holds until
 * the caller, who from then on sends the whole vnode, what is on disk included, says so. */
bool table_vnode_missed(const struct table *table, uint32_t vnode, unsigned target);
void table_forgive_missed(struct table *table, uint32_t vnode, unsigned target);
/* Whether some vnode has come to be missed by a target since this was last asked. */
bool table_missed_news(struct table *table);
/* Whether a slot of some vnode has gone that a replica was to get, since this was last asked. */
bool table_vanished_news(struct table *table);
/* TABLE-7: the replicas that were to get such a slot of the vnode, as a mask, since last asked. */
uint8_t table_take_vanished(struct table *table, uint32_t vnode);
/* Slots of a journaled vnode with the dirty bit of `target` (TABLE_DISK: to be journaled), not
 * counting those being written. */
uint32_t table_vnode_dirty(const struct table *table, uint32_t vnode, unsigned target);
/* True if the replica position has nothing more to get of this vnode, as far as this table knows of
 * changes: a sweep on behalf of other vnodes does not count. */
bool table_vnode_idle(const struct table *table, uint32_t vnode, unsigned target);
/* True if table_next_dirty has nothing more: ring drained and no sweep pending. */
bool table_target_idle(const struct table *table, unsigned target);

/* The state is copied for the disk writer (table_export): DISK -> WRITING. Returns what names the
 * slot until that is done with. */
struct table_write table_write_begin(struct table *table, uint32_t slot);
/* Between begin and done: exports the first of `count` writes once more, so that what changed since
 * its begin is written with it, and notes where the slot is now. Memory is asked for the others, of
 * which the next are exported soon. There is room for TABLE_EXPORT_MAX bytes. False if the key is
 * gone meanwhile: its write is only to be done with. */
MUST_USE bool table_write_again(struct table *table, struct table_write *writes, uint32_t count,
                                void *buffer, struct table_state *out);
/* The writer's answer, once per begin: on success the slots are on disk, else dirty again. */
void table_write_done(struct table *table, const struct table_write *writes, uint32_t count,
                      bool ok);

/* -- new keys (new_keys.h) ---------------------------------------------------------------- */

/* Keys that are as good as new in so long are not budgeted; 0 at first. */
void table_set_write_period(struct table *table, int64_t period_ns);
/* Whether the disk has no room for further keys: then none is added but such ones. */
void table_close(struct table *table, bool closed);
/* Slots that memory has place for beside those that may not leave now. */
uint64_t table_room(const struct table *table);
/* Whether less than half of memory is left so: write-back is not to pause. */
bool table_pressed(const struct table *table);

/* -- slots -------------------------------------------------------------------------------- */

/* Slots are numbered 0 .. table_slots_end - 1, not all of which are in use. For walks over all of
 * them, upwards to the end as it is by then: none that was there at the beginning is missed, though
 * one that rises may be met twice. A key that is added behind the walker is a change, which it is
 * told of. */
uint32_t table_slots_end(const struct table *table);
bool table_slot_used(const struct table *table, uint32_t slot);

/* The slot of `id`, or TABLE_NONE. */
uint32_t table_lookup(const struct table *table, struct hash128 id);
struct hash128 table_slot_id(const struct table *table, uint32_t slot);
uint32_t table_slot_vnode(const struct table *table, uint32_t slot);
/* From this time on the slot is equal to a new one (never too early). */
int64_t table_expires_ns(const struct table *table, uint32_t slot);
/* Forgets the slot (it was handed to another owner, say), disk copy and all. */
void table_drop(struct table *table, uint32_t slot);

/* Bytes that table_export will write for the slot. */
size_t table_export_len(const struct table *table, uint32_t slot);
/* Writes the slot's algorithm and state. Returns the length, or TG_ETOOBIG. */
MUST_USE int table_export(const struct table *table, uint32_t slot, void *buffer, size_t capacity);

enum table_import_flag {
    TABLE_FROM_DISK = 1, /* the bytes are what the disk holds: clean; a slot in memory wins */
};
/* Creates or overwrites the slot of `id` from exported bytes. From a stream (no flag) it marks the
 * vnode's targets dirty. A state that is expired at `now_ns` and has no slot is not stored.
 * 0, TG_ECORRUPT (malformed, or another algorithm than the slot's), TG_EVERSION, TG_EFULL. */
MUST_USE int table_import(struct table *table, uint32_t vnode, struct hash128 id, const void *bytes,
                          size_t len, int64_t now_ns, unsigned flags);
/* Adds to the slot of `id` what another writer took since both had the state `base` (base_len 0:
 * the key was new): slot := slot + (other - base), as of `now_ns`; a key without a slot gets one.
 * The change is one like those decided here: it raises the vnode's sequence and marks its targets.
 * Never lowers the slot; leaves it no less than `other`, unless tokens were given back here since
 * the base. Merging an `other` again changes nothing if `base` is what was merged of it last. A key
 * that may be on disk (table_filter_maybe) has to be loaded before. 0, TG_ECORRUPT (malformed, or
 * another algorithm), TG_EVERSION, TG_EFULL: then nothing changed. */
MUST_USE int table_merge(struct table *table, uint32_t vnode, struct hash128 id, const void *base,
                         size_t base_len, const void *other, size_t other_len, int64_t now_ns);
/* When an exported state expires, without storing it (a purge of the disk): 0, or as import. */
MUST_USE int table_export_expires_ns(const void *bytes, size_t len, int64_t *expires_ns);

/* -- what may be on disk ------------------------------------------------------------------ */

/* The key is on disk and not in memory (found when listing the disk). */
void table_filter_add(struct table *table, uint32_t vnode, struct hash128 id);
int table_filter_maybe(const struct table *table, uint32_t vnode, struct hash128 id);
/* Nothing of the vnode is on disk. */
void table_filter_reset(struct table *table, uint32_t vnode);
uint32_t table_filter_fill_permille(const struct table *table, uint32_t vnode);
/* Rebuild beside the live slice; see filter.h. begin: 0 or TG_EBUSY. */
MUST_USE int table_filter_rebuild_begin(struct table *table, uint32_t vnode);
void table_filter_rebuild_add(struct table *table, struct hash128 id);
void table_filter_rebuild_end(struct table *table);
void table_filter_rebuild_abort(struct table *table);
/* Walks everything and asserts TABLE-1 to TABLE-4 and the books. O(slots): for tests and the
 * simulator. */
void table_check_invariants(const struct table *table);

#endif

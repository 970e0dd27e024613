/* table_private.h - what the files of node/limit share of the slot table; see table.h.
 *
 *   table.c        memory, slots, eviction, disk life-cycle      table_dirty.c  changes and sweeps
 *   table_codec.c  export, import     table_copy.c   complete copies     table_merge.c  merge
 *   table_room.c   new keys           table_check.c  the invariants
 *
 * TABLE-8   What is counted is so: live slots and clean ones, those of each vnode, vnodes that are
 *           fading, vnodes of each target, slots of journaled vnodes by what they have to tell.
 * TABLE-9   Slots end where the buckets do, below the arena, which grows no further down. Hands and
 *           passes stay below that end; no cursor is ahead of the ring.
 * TABLE-10  A vnode owes nothing to a target that it does not have.
 */
#ifndef NODE_LIMIT_TABLE_TABLE_PRIVATE_H
#define NODE_LIMIT_TABLE_TABLE_PRIVATE_H

#include "node/limit/algorithms/algorithm.h"
#include "node/limit/algorithms/leased.h"
#include "node/limit/table/buckets.h"
#include "node/limit/table/filter.h"
#include "node/limit/table/new_keys.h"
#include "node/limit/table/table.h"

/* Bits of slot.kind: the algorithm in the lower three. */
enum {
    KIND_ALGORITHM = 0x07,
    KIND_COLOUR = 0x08,     /* tells slots of the newest copy of a vnode; table_copy.c */
    KIND_REFERENCED = 0x10, /* used since the CLOCK hand last passed */
    KIND_WIDE = 0x20,       /* the state refers to a block of the arena */
    KIND_LOWERED = 0x40, /* copies elsewhere may say more: must not vanish before it is shipped */
    KIND_LIVE = 0x80, /* else nothing; or, being written, gone: it waits for the writer's answer */
};

/* Bits of slot.dirty above the targets. */
enum {
    DIRTY_TARGETS = 0x3f,
    DIRTY_ON_DISK = 0x40,
    DIRTY_WRITING = 0x80,
};

struct slot {
    struct hash128 id;
    uint32_t word[3];
    uint16_t vnode;
    uint8_t kind;
    uint8_t dirty;
};

_Static_assert((size_t)LEASED_HEADER_LEN + (size_t)HOLDERS_MAX * HOLDER_LEN <= TABLE_LEASES_LEN,
               "exports leave room for leases");
_Static_assert(sizeof(struct slot) == 32, "a slot is 32 bytes");
/* The last number is that of envelopes. */
_Static_assert((int)LIMIT_LEASED <= (int)KIND_ALGORITHM, "an algorithm fits its bits");

enum {
    TABLE_PLANS_LOG2 = 9,
    TABLE_PLANS = 1 << TABLE_PLANS_LOG2, /* cached plans, direct-mapped by content */
    TABLE_EVICT_SCAN = 256,              /* slots one insertion looks at for a victim */
    TABLE_EVICT_BUCKETS = 1 << 12,       /* buckets, slots being written included */
    TABLE_WAY = 2, /* buckets to a free place; where they are more, what has expired goes */
    TABLE_ARENA_SCAN = 512,    /* slots a full arena looks at, */
    TABLE_ARENA_STEPS = 8192,  /* free places included */
    TABLE_ARENA_VICTIMS = 8,   /* wide slots it drops at most */
    TABLE_EXPIRE_BUCKETS = 8,  /* buckets a step looks at for expiry */
    TABLE_REMOVE_SLOTS = 4096, /* slots a step looks at for removal */
    TABLE_FADE_SLOTS = 4096,   /* slots a step looks at for fading */
    TABLE_RING_MIN = 1024,
    RING_SLOTS_AHEAD = 16,      /* entries of the ring whose slots memory is asked for */
    TABLE_DRAIN_ENTRIES = 4096, /* stale ring entries one call passes over */
    TABLE_SLOTS_MAX = 1 << 28,
};

_Static_assert(TABLE_PLANS < RATES_MAX / 2, "plans alone must not use up the rates");

enum fading {
    FADING_NOT,
    FADING_PASS, /* slots of the other colour read as new; the running pass takes them out */
    FADING_NEXT, /* the same, but the running pass may have gone by some */
};

struct vnode_state {
    uint64_t seq;
    uint32_t count;
    uint32_t old;    /* of these, slots of the other colour; table_copy.c */
    uint32_t resets; /* how often a key of it was reset; engine.c */
    uint8_t targets;
    uint8_t behind;
    uint8_t resume;      /* replicas whose running sweep looks for what is dirty here */
    uint8_t resume_next; /* and whose next sweep will */
    uint8_t missed;      /* replicas that did not get a slot which left for the disk (TABLE-6) */
    uint8_t vanished;    /* replicas that did not get a slot which is gone (TABLE-7) */
    uint8_t colour;      /* KIND_COLOUR or 0: that of slots that are imported or made now */
    uint8_t fading;      /* enum fading */
    bool spilled;        /* journaled: some key left memory since the last reset */
    bool removing : 1;
    bool copying : 1;  /* a copy arrives */
    bool doubtful : 1; /* the copy began when slots of both colours were about */
};

/* They lie so that none is in two lines of memory (table_lay_out): each slot that is met in no
 * order reads one. */
_Static_assert(sizeof(struct vnode_state) == 32, "two states fill a line");

/* A pass over the slots 0 .. end - 1. Idle when at == end and not again. */
struct sweep {
    uint32_t at;
    uint32_t end;
    bool again;   /* something was asked for that this pass may have passed already */
    bool resumed; /* some vnode was, for this pass or the next */
    uint8_t all;  /* passes until it has found what is dirty in all vnodes: its ring was full */
};

/* What the disk reads from one mark to the next; table_round_begin. */
struct round {
    uint64_t until; /* entries of the ring before this one are of it */
    bool sweeps;    /* a pass over all slots stands for entries, and is not over */
};

enum {
    TABLE_GIVEN = 256,    /* keys share the sums of what was given back, so many there are */
    TABLE_SETTLED = 1024, /* keys of which it is known what undos have settled, at most */
};

/* What undos have settled of one key: the newest of those whose place it is. */
struct settled {
    struct hash128 id;
    struct spans spans;
};

struct table {
    const struct allocator *allocator;
    size_t bytes_max;
    uint32_t vnodes_count;
    uint32_t journaled_first; /* vnodes from here on are journaled */

    void *vnodes_block; /* as allocated */
    struct vnode_state *vnodes;
    uint32_t *dirty_counts; /* [journaled vnodes][TABLE_TARGETS]: slots with that bit */
    struct limit_memory memory;
    struct filter filter;
    struct buckets buckets;
    struct limit_plan *plans;

    void *region; /* as allocated */
    size_t region_bytes;
    struct slot *slots;   /* the region, aligned */
    uint32_t buckets_max; /* there is memory for, the pad included */
    uint32_t slots_end;   /* buckets_end */
    uint32_t slots_used;  /* live ones */
    uint32_t hand;        /* buckets: of eviction, */
    uint32_t expire_hand; /* and of the look for what has expired */

    void *heads; /* as allocated: [buckets_max] */
    size_t heads_bytes;

    uint64_t *ring;    /* refs */
    uint32_t ring_len; /* a power of two */
    uint64_t ring_head;
    uint64_t cursor[TABLE_READERS];
    uint32_t hints[TABLE_READERS][RING_SLOTS_AHEAD]; /* where slots of entries ahead may be, */
    uint64_t hinted[TABLE_READERS];                  /* up to these */
    uint64_t cursor_oldest;                          /* at most each cursor in use */
    uint32_t target_vnodes[TABLE_READERS];
    struct sweep sweep[TABLE_READERS];
    struct round round;
    struct sweep removal;
    struct sweep fade;
    uint32_t fading;  /* vnodes that are */
    bool missed_news; /* some vnode's `missed` has grown */
    bool vanished_news;

    uint64_t given_ns[TABLE_GIVEN]; /* by keys: debt that was given back, at least; engine.c */
    struct settled settled[TABLE_SETTLED];

    struct new_keys new_keys;
    int64_t write_period_ns;
    uint64_t settled_writes; /* slots whose write ended, or that went: then more may leave */
    uint64_t arena_writes;   /* so many there were when no state in the arena could go, */
    int64_t arena_ns;        /* and when that was */
    uint32_t clean;          /* live slots that are on disk as they are, and not being written */

    uint64_t evicted;
    uint64_t expired;
    uint64_t refused;
    uint64_t turned_away;
    int64_t turned_away_ns;
};

/* The slot with that ref which is live, or is not; TABLE_NONE. */
uint32_t table_find_ref(const struct table *table, uint64_t ref, bool live);

/* A fresh slot for an id that has none, evicting if need be; its cell is all zero, nothing is
 * dirty. `keep` (or TABLE_NONE) is not evicted. TABLE_NONE if there is no room. */
uint32_t table_insert(struct table *table, struct hash128 id, uint32_t vnode, unsigned algorithm,
                      uint32_t keep, int64_t now_ns);
/* Whether memory takes in a new key of that kind and state, by the budget of its class; then it is
 * counted in it. */
bool table_admit(struct table *table, unsigned kind, const struct limit_cell *cell, uint32_t class,
                 int64_t now_ns);
/* How many slots there is memory for, beside the arena as it is. */
uint64_t table_places(const struct table *table);
/* Whether there is room for keys of other leaders: what is left is for those on disk. */
bool table_takes_imports(const struct table *table);
/* The budget follows what has left; and the mark of a round. */
void table_settle_new(struct table *table);
void table_mark_new(struct table *table);
/* Takes out what has expired in so many buckets. */
void table_expire_buckets(struct table *table, uint32_t count, int64_t now_ns);
/* Lets wide slots other than `keep` so that the arena may serve again. False if none may go. */
bool table_make_arena_room(struct table *table, uint32_t keep, int64_t now_ns);
/* Takes a slot out of the table for good; a slot being written waits as a zombie. */
void table_discard(struct table *table, uint32_t slot);
/* If the slot was left over by a copy, makes it as new: its number, or TABLE_NONE if it is gone. */
uint32_t table_fade_slot(struct table *table, uint32_t slot);
/* A slot of the other colour goes, or takes the vnode's. */
void table_old_gone(struct table *table, uint32_t vnode);
/* A bounded portion of the pass over slots that copies left over. */
void table_fade_some(struct table *table);
/* Notes a change of the slot for all targets of its vnode. */
void table_changed(struct table *table, uint32_t slot, bool lowered);
/* The same without counting it in the vnode's sequence (imports). */
void table_mark_dirty(struct table *table, uint32_t slot, uint8_t targets);
/* Called when a dirty or writing bit went: a clean slot is no longer LOWERED. */
void table_settle(struct table *table, uint32_t slot);
/* Checks an export whole: 0, TG_ECORRUPT or TG_EVERSION. `reader` is left at the algorithm's own
 * fields. */
int table_check_export(struct bytes_reader *reader, const void *bytes, size_t len,
                       const struct limit_ops **ops, uint8_t *algorithm, int64_t *expires_ns);
/* As table_export, with table_expires_ns: of a live slot, where there is room. */
uint32_t table_export_dated(const struct table *table, const struct slot *slot, void *buffer,
                            int64_t *expires_ns);
/* The algorithm of an export of that kind, whose reader is at its own fields. */
unsigned table_export_algorithm(const struct bytes_reader *reader, unsigned kind);
/* The floor of the arena follows the slots. */
void table_update_floor(struct table *table);

#endif

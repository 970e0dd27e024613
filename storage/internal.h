/* internal.h - the store's inside, shared by the files of this folder only.
 *
 *     open.c   open, close, statistics           meta.c   identity, incarnation, values
 *     write.c  batches -> chunks                 read.c   slots, headers, scans
 *     purge.c  expired records, joining chunks   keys.c   (vnode, id) -> chunk
 *     aside.c  set aside, backup                 dir.h    paths, lock
 *     fail.c   what a failure says
 *     journal.c  what is durable at once: promises, headers, slots (in meta/)
 *
 * Keys of state/, byte order = vnode, then header before chunks, then id:
 *
 *     0                4      5               13              21
 *     | vnode (be u32) | kind | id.hi (be u64)| id.lo (be u64)|
 *
 * A chunk holds the ids from its key's id up to the next chunk's key of the vnode; ids below a
 * vnode's first chunk belong to a chunk of id 0, made when it is needed. So removing an empty chunk
 * widens its neighbour, and no index has to be kept in step.
 *
 * STORE-6  Scratch memory is there exactly if it has a capacity.
 * STORE-7  An environment that is open has a map.
 * STORE-8  Chunks count at least their heads, and records are written in chunks.
 */
#ifndef STORAGE_INTERNAL_H
#define STORAGE_INTERNAL_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "storage/chunk.h"
#include "storage/env.h"
#include "storage/store.h"

enum {
    STATE_KEY_LEN = 21,
    STATE_HEADER = 0,
    STATE_CHUNK = 1,
    STATE_VNODES_MAX = 65536,
    STATE_RELIEF_CHUNKS = 256, /* purged before a full map is enlarged */
};

struct state_key {
    uint8_t bytes[STATE_KEY_LEN];
};

/* A key of the journal; all zero: its beginning. */
struct journal_key {
    uint8_t bytes[1 + STATE_KEY_LEN];
};

/* Writer's memory that grows and stays. */
struct scratch {
    uint8_t *data;
    size_t capacity;
};

struct store {
    const struct allocator *allocator;
    char dir[PATH_MAX];
    int lock_file;
    struct env state;
    struct env meta;
    pthread_mutex_t error_lock;
    char error[STORE_ERROR_LEN];
    /* Writer thread only. */
    struct scratch merged;     /* a chunk's body after its merge */
    struct scratch refs;       /* a batch's order */
    struct state_key purge_at; /* where the next store_purge begins */
    struct state_key relief_at;
    bool touch_due; /* a purge freed pages that one more commit makes usable */
    /* Journal thread only. */
    struct journal_key journal_at; /* where the next store_journal_expire begins */
    bool journal_touch_due;        /* as touch_due */
    _Atomic uint64_t chunks_written;
    _Atomic uint64_t bytes_written;
    _Atomic uint64_t records_written;
    _Atomic uint64_t records_expired;
};

/* A chunk and its neighbourhood; the value lives until the next change of the transaction. */
struct state_place {
    bool found;
    bool bounded; /* there is a chunk behind it */
    struct state_key key;
    struct hash128 upper; /* first id of that chunk */
    MDB_val value;
};

/* What a write transaction did; counted only if it commits. */
struct state_tally {
    struct chunk_tally records;
    uint64_t chunks;
    uint64_t bytes;
};

/* Keeps the text for store_last_error, with the directory in front, and returns `code`. */
int store_fail(struct store *store, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The end of every call: a raw result as TG_E*, with a text unless the worker already gave one. */
int store_result(struct store *store, int result, const char *operation);

/* Creates the state's environment of a store whose own was taken away. TG_E* with a text. */
int store_begin_state(const char *dir, char error[STORE_ERROR_LEN]) MUST_USE;

/* Room for `bytes` bytes; 0 or TG_ENOMEM. What was in it is gone. */
int scratch_reserve(struct store *store, struct scratch *scratch, size_t bytes) MUST_USE;

/* Asserts what the members say of each other; for tests, while no other call runs. */
void store_check_invariants(const struct store *store);

/* meta.c: looks at format and identity when the store opens. */
int meta_check(struct store *store, bool state_empty, char error[STORE_ERROR_LEN]) MUST_USE;

/* keys.c */
struct state_key state_key_make(uint32_t vnode, uint8_t kind, struct hash128 id);
uint32_t state_key_vnode(const struct state_key *key);
struct hash128 state_key_id(const struct state_key *key);
/* The first key at or after `from`. MDB_NOTFOUND at the end, MDB_CORRUPTED for a key of another
 * shape. */
int state_seek(MDB_cursor *cursor, const struct state_key *from, struct state_key *key,
               MDB_val *value) MUST_USE;
int state_next(MDB_cursor *cursor, struct state_key *key, MDB_val *value) MUST_USE;
/* The chunk that holds `id`, if there is one; the upper bound only if `want_bound`. Raw result. */
int state_locate(MDB_cursor *cursor, uint32_t vnode, struct hash128 id, bool want_bound,
                 struct state_place *out) MUST_USE;
/* A chunk's records; TG_ECORRUPT with a text that names the vnode. */
int state_open_chunk(struct store *store, const struct state_key *key, const MDB_val *value,
                     const uint8_t **body, size_t *body_len) MUST_USE;
int state_open_header(struct store *store, uint32_t vnode, const MDB_val *value,
                      struct store_vnode_header *out) MUST_USE;
int state_put_header(MDB_txn *txn, MDB_dbi dbi, uint32_t vnode,
                     const struct store_vnode_header *header) MUST_USE;
/* Stores `body` in as many chunks as it needs, the first under `key`; `key` is removed if body_len
 * is 0. */
int state_put_body(MDB_txn *txn, MDB_dbi dbi, struct state_key key, const uint8_t *body,
                   size_t body_len, struct state_tally *tally) MUST_USE;
void state_count(struct store *store, const struct state_tally *tally);

/* read.c: slots that are asked for, and the caller's memory for their states. */
struct slot_reads {
    struct store *store;
    struct store_slot_read *reads;
    size_t count;
    uint8_t *buffer;
    size_t capacity;
    size_t used;
};
/* Copies the state of the record found out of the transaction; TG_ETOOBIG when it has no room. */
void slot_keep(struct slot_reads *reads, struct store_slot_read *read);
/* A read of one slot as a call of its own, by `read_slots` of many. */
int slot_read_one(struct store *store, uint32_t vnode, struct hash128 id, void *buffer,
                  size_t capacity, struct store_record *out,
                  int (*read_slots)(struct store *store, struct store_slot_read *reads,
                                    size_t count, void *buffer, size_t capacity)) MUST_USE;

/* read.c: the listing goes on behind the `count` ids found; fewer than `capacity` were the last. */
void listing_advance(struct store_listing *listing, const struct hash128 *ids, size_t count,
                     size_t capacity);

/* purge.c: what env_write runs when the map is full. */
struct purge_relief {
    struct store *store;
    uint64_t now_ms;
};
int purge_relieve(void *context);

#endif

/* store_values.h - what goes in and out of a store: options, identity, records, headers, journal.
 *
 * Values only: nothing here has a function. store.h is what one does with them.
 */
#ifndef STORAGE_STORE_VALUES_H
#define STORAGE_STORE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/hash.h"

enum {
    STORE_ERROR_LEN = 512, /* an error text with its NUL */
    STORE_FORMAT = 1,      /* the on-disk format that this release writes and reads */
    STORE_CLUSTER_ID_LEN = 16,
    STORE_META_KEY_MAX = 256,        /* bytes of a meta key, without NUL */
    STORE_META_VALUE_MAX = 16 << 20, /* bytes of a meta value */
    STORE_STATE_MAX = 1 << 19,       /* bytes of one record's state (a large log: ~300 KB) */
    STORE_IDS_MAX = 1024,            /* ids of one call of store_purge's callback */
};

/* store_scan: every vnode of the store. */
#define STORE_VNODE_ALL UINT32_MAX
/* expires_ms of a record that never expires. Times from 2^44 - 1 ms (year 2527) on mean the same.
 */
#define STORE_EXPIRES_NEVER UINT64_MAX

struct store_options {
    const struct allocator *allocator;   /* NULL: the heap */
    uint64_t state_map_bytes;            /* address space of state/ at open (sparse); 0: 16 GiB */
    uint64_t state_map_bytes_max;        /* growth ends here with TG_EFULL; 0: no bound */
    uint64_t meta_map_bytes;             /* the same for meta/; 0: 1 GiB */
    const struct failpoints *failpoints; /* borrowed; NULL outside fault tests */
};

struct store_identity {
    uint8_t cluster_id[STORE_CLUSTER_ID_LEN];
    uint64_t node_id;          /* non-zero */
    struct hash_key secret;    /* of slot ids; never leaves the nodes */
    struct hash_key route_key; /* of vnodes; clients learn it */
    uint32_t vnodes;           /* V: power of two, 1..65536 */
    uint32_t replicas;         /* R: 1.. */
};

struct store_meta_item {
    const char *key;  /* 1..STORE_META_KEY_MAX bytes */
    const void *data; /* NULL removes the key */
    size_t len;
};

struct store_record {
    struct hash128 id;
    uint64_t expires_ms;  /* Unix ms; at or before now_ms of a write or purge it is dropped */
    const uint8_t *state; /* opaque here */
    uint32_t len;         /* bytes of state, 0..STORE_STATE_MAX */
};

/* Whose stream the vnode's records are: the term (epoch, number, writer) and the place in it. */
struct store_vnode_header {
    uint64_t epoch;
    uint64_t number;
    uint64_t writer;
    uint64_t seq;
};

struct store_vnode_batch {
    uint32_t vnode;                          /* < 65536 */
    bool drop_all;                           /* first forget header and records of the vnode */
    const struct store_vnode_header *header; /* NULL: leave the header as it is */
    const struct store_record *records;      /* any order; of one id twice the last counts */
    size_t count;
};

struct store_slot_read {
    uint32_t vnode; /* in */
    struct hash128 id;
    int result; /* out: 0, TG_ENOTFOUND, TG_ETOOBIG (no room left in the buffer), TG_ECORRUPT */
    struct store_record record; /* valid if result is 0; state points into the buffer */
};

/* Where a listing is. Begin with `next` zero. */
struct store_listing {
    uint32_t vnode;
    struct hash128 next; /* the lowest id not listed yet */
    bool complete;       /* out: nothing is left */
};

struct store_purge_result {
    uint32_t chunks;     /* looked at by this call */
    uint64_t removed;    /* expired records removed */
    bool round_complete; /* the end was reached: the next call begins at the first vnode */
};

enum store_journal_kind {
    STORE_JOURNAL_PROMISE = 0, /* the highest term this node promised for the vnode */
    STORE_JOURNAL_HEADER = 1,  /* whose stream its slots are, and how far */
    STORE_JOURNAL_SLOT = 2,
};

struct store_journal_record {
    uint32_t vnode; /* < 65536 */
    enum store_journal_kind kind;
    struct store_vnode_header header; /* HEADER; PROMISE without seq */
    struct store_record slot;         /* SLOT; len 0 removes it */
};

struct store_journal_expiry {
    uint32_t looked; /* records looked at by this call */
    uint32_t removed;
    bool round_complete; /* the end was reached: the next call begins at the first vnode */
};

struct store_stats {
    uint64_t state_map_bytes;
    uint64_t state_used_bytes; /* pages ever used x page size: the file's extent */
    uint64_t state_free_bytes; /* of those, free for reuse */
    uint64_t meta_map_bytes;
    uint64_t meta_used_bytes;
    uint64_t commits;        /* successful state commits since open */
    uint64_t commit_fails;   /* failed ones */
    uint64_t chunks_written; /* since open */
    uint64_t bytes_written;  /* of chunks, since open */
    uint64_t records_written;
    uint64_t records_expired; /* dropped by writes and purges */
    uint64_t growths;         /* times the map was enlarged */
    int64_t last_commit_ns;   /* monotonic duration of the last state commit, sync included */
    uint64_t meta_commits;
};

#endif

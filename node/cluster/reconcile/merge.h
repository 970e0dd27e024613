/* merge.h - what a shard keeps in order to merge after a split; merge.c tells how.
 *
 * Part of the private state of a shard (shard_state.h).
 */
#ifndef NODE_CLUSTER_RECONCILE_MERGE_H
#define NODE_CLUSTER_RECONCILE_MERGE_H

#include "node/cluster/model/lineage.h"
#include "node/cluster/reconcile/merge_base.h"
#include "node/cluster/wire/peer_wire.h"

enum {
    MERGE_BASE_SHARE = 16, /* the store of merge bases may take 1/16 of the slot table's memory */
    MERGE_BASE_MIN = 64 << 10,
    MERGE_WAITS_MAX = 4096, /* slots that are fetched from disk to be merged */
    MERGE_LOADS_MAX = 64,   /* of those, asked for at a time */
    MERGE_REFUSALS_MAX = 16,
};

/* What the frame at hand has said so far; valid within one event. */
struct merge_frame {
    bool lineage_set;
    uint32_t lineage_vnode;
    struct lineage lineage;
    bool merge_base_set;
    struct peer_merge_base side; /* of the SLOT or DIVERGED that comes next */
    bool taking;                 /* the DIVERGED records of `apart` are taken */
    bool nothing;                /* but there is nothing to merge: the state is on our line */
    uint16_t from;               /* who says `apart` */
    struct peer_apart apart;
};

/* Bytes somewhere, or none. */
struct bytes_view {
    const uint8_t *data;
    size_t len;
};

struct merge_wait {
    uint32_t vnode;
    struct hash128 id;
    int64_t asked_ns; /* 0: not yet */
    bool bare; /* the store of merge bases had no room: it is only read, to be merged next time */
};

struct merge {
    struct merge_base bases;
    uint32_t guarded; /* vnodes with a lineage */
    struct merge_frame frame;
    struct merge_wait waits[MERGE_WAITS_MAX];
    uint32_t wait_count;
    uint8_t base[MERGE_BASE_ENTRY_BYTES_MAX];
    uint8_t other[MERGE_BASE_ENTRY_BYTES_MAX];
};

struct effects;
struct shard;
struct vnode;

/* What of a branch's state of a slot is in ours already. */
enum merge_previous {
    MERGE_KNOWN,      /* the bytes found */
    MERGE_IS_PRESENT, /* our present state of the slot: it did not change since */
    MERGE_IS_ALL,     /* all of it: nothing is new */
    MERGE_LOST        /* not known any more */
};

/* merge_previous.c: finds it for the branch of the frame at hand. `entry` of our store of merge
 * bases may be MERGE_BASE_NONE. The bytes live in the frame or in merge.base. */
enum merge_previous merge_find_previous(struct shard *shard, uint32_t vnode, uint32_t entry,
                                        struct bytes_view *found);
/* Notes what else came with the branch that was merged, `state` being its state. */
void merge_absorb(struct shard *shard, uint32_t vnode, uint32_t entry, struct bytes_view state);
/* A short name of a term. */
uint64_t merge_line(const struct term *term);
/* The name of merges in the vnode's present term (struct merge_base_blob). */
uint32_t merge_event(const struct shard *shard, uint32_t vnode);

/* 0 or TG_ENOMEM. */
MUST_USE int merge_init(struct shard *shard);
void merge_fini(struct shard *shard);
/* A frame of a peer begins: nothing was said yet. */
void merge_frame_begin(struct shard *shard);
/* A term begins: notes where its line was cut, if somebody may be apart. */
void merge_cut(struct shard *shard, uint32_t vnode);
/* Keeps the bases of the slots that the batch may change. */
void merge_before(struct shard *shard);
/* Looks whether guarding may end. */
void merge_watch(struct shard *shard, uint32_t vnode);
void merge_tick(struct shard *shard, struct effects *effects);
/* Whether something is to be merged into the slot when it was read. */
bool merge_awaits(const struct shard *shard, struct hash128 id);
/* The slot was read from disk, or is not there, or cannot be read. */
void merge_loaded(struct shard *shard, uint32_t vnode, struct hash128 id, int result);
void merge_set_lineage(struct shard *shard, uint32_t vnode, const struct lineage *lineage);
/* Guards no more. */
void merge_forget(struct shard *shard, uint32_t vnode);
void merge_in_diverged(struct shard *shard, const struct peer_record *record);

/* What is remembered of a slot, put before its state: bytes it needs at most, and the record. */
size_t merge_base_room(const struct shard *shard, uint32_t vnode, struct hash128 id);
void merge_put_base(struct shard *shard, uint32_t vnode, struct hash128 id,
                    struct bytes_writer *outbox);
/* Whether it puts one. */
bool merge_tells(const struct vnode *vnode);
void merge_put_lineage(const struct shard *shard, uint32_t vnode, struct bytes_writer *outbox);
/* A vnode entry of `type` with the lineage that it is to be read with. */
void merge_put_report(struct shard *shard, uint16_t peer, uint32_t vnode,
                      enum peer_record_type type, struct effects *effects);
void merge_in_base(struct shard *shard, const struct peer_record *record);
/* A state of the slot was taken from the leader / a mark was, after a complete copy or not. */
void merge_in_slot(struct shard *shard, uint32_t vnode, struct hash128 id);
void merge_in_watermark(struct shard *shard, uint32_t vnode, bool copied);
/* Asserts what merge.c and merge_base.h say. */
void merge_check_invariants(const struct shard *shard);

#endif

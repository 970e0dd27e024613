/* effects.h - what a pure core wants done, in a bounded buffer of the caller's.
 *
 * A step of the core appends effects; the shell (the runtime, or the simulator) performs them in
 * order and clears the buffer before the next step. Bytes of messages lie in the buffer's arena
 * and live until effects_clear.
 *
 * EFFECTS-1  Frames are added only where they fit (effects_fit); all other effects of one step are
 *            fewer than EFFECTS_KEPT, by the bounds of what causes them (asserted).
 */
#ifndef NODE_CLUSTER_MODEL_EFFECTS_H
#define NODE_CLUSTER_MODEL_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

enum effect_kind {
    EFFECT_SEND_CLIENT, /* `bytes` to client connection `target` */
    EFFECT_SEND_PEER, /* `bytes` to shard `shard` of node `target`, on its `bulk` connection or not
                       */
    EFFECT_META,      /* make meta value `address` = `bytes` durable before going on; NULL: remove
                         it. `more`: in one transaction with the effect that follows */
    EFFECT_JOINED,    /* this node has a cluster now: keep control_identity, start shards */
    EFFECT_INCARNATION, /* make the stored incarnation at least `target` before going on */
    EFFECT_SEND_GOSSIP, /* `bytes` to the gossip address in `address` */
    EFFECT_LOAD,        /* read slot `id` of `vnode` from disk (a vnode of the second plane: from
                           the journal, see shard.h; so for LIST and DROP_VNODE); answer by
                           shard_loaded */
    EFFECT_ADMIN,      /* the ADMIN frame in `bytes` of connection `target`: for the control core */
    EFFECT_DROP_VNODE, /* forget `vnode` on disk: its state lives elsewhere now */
    EFFECT_LIST,       /* list the ids of `vnode` on disk; answer by shard_listed, in pieces */
};

struct effect {
    enum effect_kind kind;
    uint16_t shard;
    bool bulk;
    bool more;
    uint32_t vnode;
    uint64_t target;
    struct hash128 id;
    const uint8_t *bytes;
    size_t len;
    char address[64];
};

enum {
    EFFECTS_MAX = 16384,
    EFFECTS_KEPT = 4096, /* of those: for effects that may not be dropped */
    EFFECTS_ARENA_LEN = 32 << 20,
};

struct effects {
    struct effect *items;
    uint8_t *arena;
    size_t count;
    size_t used;
    const struct allocator *allocator;
};

/* Takes the buffer's memory once. 0 or TG_ENOMEM. */
MUST_USE int effects_init(struct effects *effects, const struct allocator *allocator);
void effects_fini(struct effects *effects);
void effects_clear(struct effects *effects);

/* Whether one more frame of `len` bytes may be added. What does not fit is dropped by its sender,
 * and counted: to its receiver it is a frame lost on the way, which every protocol here repairs. */
bool effects_fit(const struct effects *effects, size_t len);
/* The next effect, zeroed, of `kind`. Never NULL: the bound is an invariant (EFFECTS-1). */
struct effect *effects_add(struct effects *effects, enum effect_kind kind);
/* `capacity` bytes of arena to write a message into; then effects_commit with what was used. */
uint8_t *effects_reserve(struct effects *effects, size_t capacity);
/* Fixes the first `len` reserved bytes as the message of `effect`. */
void effects_commit(struct effects *effects, struct effect *effect, size_t len);

#endif

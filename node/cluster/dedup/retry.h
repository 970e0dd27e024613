/* retry.h - the first answers of the last two seconds, for callers that ask again.
 *
 * A caller that got no answer sends the same (session, sequence) again, perhaps through another
 * node. The leader must not charge it twice, so it remembers what it decided: the verdict and
 * what was granted. The other numbers of an answer are read afresh.
 *
 * A request whose parts are decided in several places gives back what was granted when another
 * part was denied (reserve.h). Then the first answer is void: a later attempt is decided afresh. If
 * another attempt had been told of it before, the tokens stay for that one, and the giving back is
 * void. What a node sends again because no answer came is no other attempt, but the same; and a
 * copy that nobody sent before may be told what another attempt was granted while it waited. So an
 * attempt has a name, and the memory knows which ones it told.
 *
 * The memory is a fixed table of 4-way sets: bounded, no allocation, and the items of a message
 * are in neighbouring sets.
 *
 * RETRY-1  An entry younger than the memory keeps them is found, unless its set (or both its sets,
 *          where there is a choice) took more than four newer ones in that time; such losses are
 *          counted.
 * RETRY-2  Tokens granted once and given back by n attempts are given back when the last of them
 *          does.
 * RETRY-3  An attempt claims an answer once, however often it is told of it. Where there is no room
 *          for its name, the tokens stay: too much is charged rather than too little.
 * RETRY-4  An entry is in a set of its tag, and no other of its sets has the same one.
 */
#ifndef NODE_CLUSTER_DEDUP_RETRY_H
#define NODE_CLUSTER_DEDUP_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/prefetch.h"
#include "node/cluster/wire/peer_wire.h"

#define RETRY_KEEP_NS       INT64_C(2000000000)
#define RETRY_TICKET_STANDS (UINT64_C(0xffff) << 16)

enum {
    RETRY_BORROWED = 0x80, /* in limit_index: that limit was not charged, it borrowed (borrow.c) */
    RETRY_WAYS = 4,
    RETRY_SETS = 1 << 15, /* unless told otherwise */
    RETRY_RUN_BITS = 20,  /* of a tag: in which set it is */
};
#define RETRY_PART_STEP                                                                            \
    UINT64_C(0x3779b9) /* odd: the parts of an item are far from one another                       \
                        */

struct retry_memory_entry {
    uint64_t tag; /* 0 = empty */
    uint32_t at_ms;
    bool allowed;
    uint8_t limit_index;
    uint8_t claims; /* attempts that were told of this answer beside one; max: for ever (RETRY-3) */
    uint8_t attempts; /* that were told, of whom this many are known by name */
    uint64_t granted;
    uint16_t names[RETRY_ATTEMPTS_MAX];
};

struct retry_memory {
    const struct allocator *allocator;
    struct retry_memory_entry *entries; /* [sets][RETRY_WAYS] */
    uint32_t sets;
    uint32_t choices; /* sets that an entry may be in: 1, or 2 where none may be lost early */
    uint32_t
        keep_ms; /* how long entries are believed: RETRY_KEEP_NS, unless set after retry_init */
    struct hash_key key;
    uint64_t dropped; /* entries that made room while still young */
};

/* `sets` is a power of two. */
MUST_USE int retry_init(struct retry_memory *memory, const struct allocator *allocator,
                        const struct hash_key *key, uint32_t sets);
void retry_fini(struct retry_memory *memory);
/* The tag by which the answer to `key` is remembered; not 0. */
uint64_t retry_tag(const struct retry_memory *memory, const struct retry_key *key);
/* The same in two steps: what all keys of a session and sequence have in common, and the tag. */
uint64_t retry_message(const struct retry_memory *memory, uint64_t session, uint64_t seq);
static inline uint64_t retry_item_tag(uint64_t message, uint16_t item, uint8_t part)
{
    const uint64_t run = (UINT64_C(1) << RETRY_RUN_BITS) - 1;
    const uint64_t mixed = hash_mix64(message ^ ((uint64_t)item << 8 | part));
    const uint64_t place = message + item + part * RETRY_PART_STEP;
    const uint64_t tag = (mixed & ~run) | (place & run);
    return tag == 0 ? 1 : tag;
}
/* Asks memory for the place of the tag, so that remembering its answer soon costs no wait. */
static inline void retry_prefetch(const struct retry_memory *memory, uint64_t tag)
{
    const struct retry_memory_entry *set =
        &memory->entries[(tag & (memory->sets - 1)) * RETRY_WAYS];
    prefetch_to_write(set);
    prefetch_to_write((const char *)set + PREFETCH_LINE);
}
/* The name of the attempt that node `node` sends under `ticket`, however often, and to whomever:
 * the bits of RETRY_TICKET_STANDS say how often it has changed between its leader and one that
 * stands in (route_pending.c), and name no other attempt. */
uint16_t retry_attempt(uint64_t node, uint64_t ticket);
/* Notes the answer to `key`, which `attempt` is told. If there was one already, those who were told
 * of that one claim this one. Returns the index of its entry. */
uint32_t retry_remember(struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                        bool allowed, uint8_t limit_index, uint64_t granted, int64_t now_ns);
/* The same for the key of that tag. */
uint32_t retry_remember_tag(struct retry_memory *memory, uint64_t tag, uint16_t attempt,
                            bool allowed, uint8_t limit_index, uint64_t granted, int64_t now_ns);
/* True, and the entry, if `key` was answered and that is still known: `attempt` claims it. */
bool retry_recall(struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                  int64_t now_ns, struct retry_memory_entry *out);
/* The same, without a claim: nobody is told. */
bool retry_look(const struct retry_memory *memory, const struct retry_key *key, int64_t now_ns,
                struct retry_memory_entry *out);
/* What `attempt` has of the answer to `key`. */
enum retry_hold {
    RETRY_HELD_NOT,    /* there is none, or it was not told of it */
    RETRY_HELD_SHARED, /* it, and others too, or perhaps (RETRY-3) */
    RETRY_HELD_ALONE,
};
/* Sets the entry and its index, unless it is HELD_NOT. */
enum retry_hold retry_held(const struct retry_memory *memory, const struct retry_key *key,
                           uint16_t attempt, int64_t now_ns, struct retry_memory_entry *out,
                           uint32_t *index);
/* `attempt` gives up what it was told of. If it held that alone, the answer is void, and forgotten;
 * or, if `keep` tokens stay, it is an answer that granted those. If others hold it as well it stays
 * theirs as it is, and so does the attempt's own part if any is to be kept. */
void retry_let_go(struct retry_memory *memory, const struct retry_key *key, uint16_t attempt,
                  uint64_t keep, int64_t now_ns);

/* Takes an answer that was given elsewhere, in place of one that is known; at_ms is of this node's
 * time. Returns its index. */
uint32_t retry_take(struct retry_memory *memory, const struct retry_memory_entry *entry,
                    int64_t now_ns);
/* How long ago the entry was noted, in ms; not for the empty. */
uint32_t retry_age_ms(const struct retry_memory_entry *entry, int64_t now_ns);
/* Notes when an entry was made that is `age_ms` old. */
uint32_t retry_made_ms(uint32_t age_ms, int64_t now_ns);
/* Asserts the above of `count` entries from `from` on, round and round: there are many. */
void retry_check_invariants(const struct retry_memory *memory, uint32_t from, uint32_t count);

#endif

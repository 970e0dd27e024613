/* ring.h - who owns a key: virtual nodes, their owner and replicas, and what moves on a change.
 *
 *   hash of an identity --ring_vnode_of--> vnode --ring_table--> owner, replica, replica ...
 *
 * A table is computed from a member set and from nothing else: every node of the cluster that
 * holds the same configuration (ring/config.h) computes the same table, to the bit, on any
 * machine. Who happens to answer pings plays no part.
 *
 * Positions: position 0 of a vnode's list is its owner, the others are its replicas in order of
 * preference. "replicas" R counts all positions, the owner included (R = 3: owner + 2).
 *
 * Threads: a table is read-only after init, so any thread may read them.
 */
#ifndef RING_RING_H
#define RING_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    RING_MEMBERS_MAX = 1024,
    RING_NAME_LEN = 64, /* bytes of a member's or zone's name, the closing NUL included */
    RING_WEIGHT_MIN = 1,
    RING_WEIGHT_MAX = 1000,
    RING_WEIGHT_DEFAULT = 100,
    RING_SEAT_WEIGHT = 50, /* the weight that one seat stands for */
    RING_SEATS_EACH_MAX = RING_WEIGHT_MAX / RING_SEAT_WEIGHT,
    RING_SEATS_MAX = 8192, /* of all members and vacancies together */
    RING_VNODES_MIN = 16,
    RING_VNODES_MAX = 32768, /* two planes of vnodes (node/cluster) share 16 bits */
    RING_VNODES_DEFAULT = 4096,
    RING_REPLICAS_MAX = 7
};

/* One node as the ring sees it. `zone` is always ring_zone_hash(zone_name).
 *
 * `seats` are the member's places at the table: numbers 1..RING_SEATS_MAX, ascending, distinct
 * within a set, ring_seats_of_weight(weight) of them. They are given when the member joins
 * (ring_config_add: the lowest free ones) and kept until it leaves; that is what lets a join move
 * no more than the newcomer's share (ring/seats.c says how). seats_count 0 means none yet:
 * such members are seated on the lowest free ones in order of id, which is good for a fixed
 * set but lets a later join reseat, and so move, everybody. */
struct ring_member {
    uint64_t id;     /* random, never 0 */
    uint32_t zone;   /* members of equal zone fail together */
    uint32_t weight; /* RING_WEIGHT_MIN..MAX; twice the weight owns twice the vnodes */
    uint16_t
        seats_count; /* see above; ring_member_init sets 0, ring_config_init and _add fill in */
    uint16_t seats[RING_SEATS_EACH_MAX];
    char name[RING_NAME_LEN];
    char zone_name[RING_NAME_LEN];
};

/* How many seats a weight is worth: one for each RING_SEAT_WEIGHT, rounded, at least one. So
 * weights above it act in steps of that size; a member that its seats give too much gives the
 * excess away (ring/place.c's cap). */
static inline uint32_t ring_seats_of_weight(uint32_t weight)
{
    const uint32_t seats = (weight + RING_SEAT_WEIGHT / 2) / RING_SEAT_WEIGHT;
    return seats == 0 ? 1 : seats;
}

/* Finds the lowest seats that none of `members` has and gives them to `member`, as many as its
 * weight is worth; seats it has already stay, surplus ones (the highest) go. `members` may contain
 * `member` itself (by id), which does not count. Returns 0 or TG_EFULL. */
MUST_USE int ring_member_seat(struct ring_member *member, const struct ring_member *members,
                              uint32_t count);

/* Fills a member. `name` and `zone_name` may be "" but not NULL. Returns 0, TG_EINVALID (id 0 or a
 * weight out of range) or TG_ETOOBIG (a name of RING_NAME_LEN bytes or more). */
MUST_USE int ring_member_init(struct ring_member *member, uint64_t id, const char *name,
                              const char *zone_name, uint32_t weight);

/* The number that stands for a zone's name; the same on every machine. */
uint32_t ring_zone_hash(const char *zone_name);

/* True for a power of two within RING_VNODES_MIN..RING_VNODES_MAX. */
bool ring_vnodes_valid(uint64_t vnodes);

/* The vnode of a 64-bit hash: its top log2(vnodes) bits, so that all arcs are equal.
 * `vnodes` must satisfy ring_vnodes_valid. */
static inline uint32_t ring_vnode_of(uint64_t hash, uint32_t vnodes)
{
    return (uint32_t)(hash >> (64 - __builtin_ctz(vnodes)));
}

/* The table. Fields are for the ring; read it with the functions below. */
struct ring_table {
    const struct allocator *allocator;
    uint32_t vnodes;
    uint32_t replicas;      /* positions a vnode has: min(asked, members) */
    uint32_t members_count; /* 0: an empty table, which no reader may ask */
    uint64_t *ids;          /* [members_count], in the caller's order */
    uint32_t *weights;      /* [members_count], likewise */
    uint16_t *by_id;        /* [members_count] indices in ascending order of id */
    uint16_t *positions;    /* [vnodes * replicas], indices into ids */
};

/* Computes the table of `count` members (1..RING_MEMBERS_MAX, ids distinct and not 0, weights in
 * range, seats none or distinct) for `vnodes` arcs and `replicas` positions
 * (1..RING_REPLICAS_MAX). The order of `members` does not matter to who owns what; indices handed
 * out by the readers refer to that order. Returns 0, TG_EINVALID or TG_ENOMEM; on failure nothing
 * is kept and the table is empty. The table keeps `allocator` but not `members`. Cost: see
 * ring/README.md (ms, not us). */
MUST_USE int ring_table_init(struct ring_table *table, const struct allocator *allocator,
                             const struct ring_member *members, uint32_t count, uint32_t vnodes,
                             uint32_t replicas);

/* The same table again: 0 or TG_ENOMEM. Far cheaper than to compute it. */
MUST_USE int ring_table_copy(struct ring_table *table, const struct allocator *allocator,
                             const struct ring_table *from);

/* Asserts that the table is whole; for tests and the simulator, O(vnodes). */
void ring_table_check_invariants(const struct ring_table *table);

/* Gives the memory back and empties the table; an already empty (zeroed) one is allowed. */
void ring_table_fini(struct ring_table *table);

/* Index of the owner of `vnode` (< table->vnodes) in the members array given at init. */
uint16_t ring_owner(const struct ring_table *table, uint32_t vnode);
/* Id of the owner of `vnode`. */
uint64_t ring_owner_id(const struct ring_table *table, uint32_t vnode);
/* All positions of `vnode`, owner first; sets *count. Lives as long as the table. */
const uint16_t *ring_replicas(const struct ring_table *table, uint32_t vnode, uint32_t *count);
/* Id of the member at `index` (< members_count). */
uint64_t ring_member_id(const struct ring_table *table, uint32_t index);
/* Position of member `id` in the list of `vnode` (0 = owner), or -1 if it is not in it. */
int ring_position_of(const struct ring_table *table, uint32_t vnode, uint64_t id);
/* Index of member `id`, or -1. Linear in the members; not for the check path. */
int ring_index_of(const struct ring_table *table, uint64_t id);
/* Number of vnodes that the member at `index` owns (position 0). Linear in vnodes. */
uint32_t ring_owned_count(const struct ring_table *table, uint32_t index);

/* The whole rendezvous order of `vnode`: writes up to `max` member indices, highest score first,
 * over all members (loads and zones play no part, so out[0] need not be the owner). Returns how
 * many were written, min(max, members). Linear-logarithmic in the members; allocates nothing. */
uint32_t ring_order(const struct ring_table *table, uint32_t vnode, uint16_t *out, uint32_t max);

#endif

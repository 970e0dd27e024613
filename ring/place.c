/* place.c - bounded rendezvous: the cheapest offers first, nobody above its cap.
 *
 * Every open entry (a vnode whose seat is vacant or trimmed, or any vnode at a replica position)
 * makes an offer to the member that it likes best. Offers are accepted in ascending order of key
 * (score.h); a member that is full refuses, and the vnode offers to its next candidate:
 *
 *      heap of offers           member full, same zone, or listed already?
 *   (key, vnode, next) --pop--> yes: push the vnode's next candidate
 *                               no:  accept
 *
 * Both sides rank a pair by the same key, so this is the one stable matching: no vnode and
 * member would both rather have each other. That makes it independent of the order of the input,
 * and a change of the member set disturbs only the chains that start at it.
 *
 * PLACE-1  A vnode's members are distinct.
 * PLACE-2  While a vnode's list covers fewer zones than exist, its next member is of a new zone.
 *          Zones come before caps: a small zone among big ones is asked for more than its share.
 * PLACE-3  Otherwise no member is given more than its cap.
 * PLACE-4  Keys popped never decrease, so an accepted offer is never withdrawn.
 */
#include "ring/place.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "ring/ring.h"
#include "ring/score.h"

enum {
    CACHED_MAX = 24,
    CAP_FEW_PERMILLE = 1040,  /* up to NODES_FEW members */
    CAP_MANY_PERMILLE = 1110, /* from NODES_MANY members on; in between linear */
    NODES_FEW = 10,
    NODES_MANY = 100
};

static_assert(RING_VNODES_MAX <= 1 << RING_RANK_BITS, "a vnode fits a key's lower bits");

static void sift_down_key(uint64_t *keys, uint32_t root, uint32_t count)
{
    for (uint32_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && keys[child + 1] > keys[child]) {
            child++;
        }
        if (keys[root] >= keys[child]) {
            return;
        }
        const uint64_t held = keys[root];
        keys[root] = keys[child];
        keys[child] = held;
        root = child;
    }
}

void ring_sort_keys(uint64_t *keys, uint32_t count)
{
    for (uint32_t root = count / 2; root > 0; root--) {
        sift_down_key(keys, root - 1, count);
    }
    for (uint32_t last = count; last > 1; last--) {
        const uint64_t largest = keys[0];
        keys[0] = keys[last - 1];
        keys[last - 1] = largest;
        sift_down_key(keys, 0, last - 1);
    }
}

/* ---- candidates ---- */

static uint64_t key_of(const struct ring_place *place, uint32_t vnode, uint32_t rank)
{
    return ring_score_key(vnode, place->members[rank].id, place->members[rank].weight, rank);
}

/* Keeps the `cached` smallest keys of a vnode, ascending, by insertion. */
static void cache_fill(struct ring_place *place, uint32_t vnode)
{
    uint64_t *best = place->cache + (size_t)vnode * place->cached;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < place->members_count; rank++) {
        const uint64_t key = key_of(place, vnode, rank);
        if (count == place->cached && key > best[count - 1]) {
            continue;
        }
        uint32_t at = count < place->cached ? count++ : count - 1;
        for (; at > 0 && best[at - 1] > key; at--) {
            best[at] = best[at - 1];
        }
        best[at] = key;
    }
}

/* The key of a vnode's candidate number `number` (0 = best). Beyond the cache the whole order is
 * computed anew: rare, since it takes a vnode that so many members refuse. */
static uint64_t candidate(struct ring_place *place, uint32_t vnode, uint32_t number)
{
    ASSERT(number < place->members_count);
    if (number < place->cached) {
        return place->cache[(size_t)vnode * place->cached + number];
    }
    for (uint32_t rank = 0; rank < place->members_count; rank++) {
        place->order[rank] = key_of(place, vnode, rank);
    }
    ring_sort_keys(place->order, place->members_count);
    return place->order[number];
}

/* ---- offers ---- */

static void heap_set(struct ring_place *place, uint32_t at, uint64_t key, uint32_t vnode,
                     uint32_t next)
{
    place->heap_keys[at] = key;
    place->heap_vnodes[at] = vnode;
    place->heap_next[at] = next;
}

static bool heap_before(const struct ring_place *place, uint64_t key, uint32_t vnode, uint32_t at)
{
    return key < place->heap_keys[at] ||
           (key == place->heap_keys[at] && vnode < place->heap_vnodes[at]);
}

static void heap_push(struct ring_place *place, uint64_t key, uint32_t vnode, uint32_t next)
{
    ASSERT(place->heap_count < place->vnodes); /* one offer a vnode */
    uint32_t at = place->heap_count++;

    while (at > 0 && heap_before(place, key, vnode, (at - 1) / 2)) {
        const uint32_t parent = (at - 1) / 2;
        heap_set(place, at, place->heap_keys[parent], place->heap_vnodes[parent],
                 place->heap_next[parent]);
        at = parent;
    }
    heap_set(place, at, key, vnode, next);
}

static void heap_drop_first(struct ring_place *place)
{
    ASSERT(place->heap_count > 0);
    const uint32_t count = --place->heap_count;
    const uint64_t key = place->heap_keys[count];
    const uint32_t vnode = place->heap_vnodes[count];
    const uint32_t next = place->heap_next[count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            heap_before(place, place->heap_keys[child + 1], place->heap_vnodes[child + 1], child)) {
            child++;
        }
        if (heap_before(place, key, vnode, child)) {
            break;
        }
        heap_set(place, at, place->heap_keys[child], place->heap_vnodes[child],
                 place->heap_next[child]);
        at = child;
    }
    heap_set(place, at, key, vnode, next);
}

/* ---- acceptance ---- */

/* True if PLACE-1 and PLACE-2 let `rank` stand at `position` of `vnode`. */
static bool is_allowed(const struct ring_place *place, uint32_t vnode, uint32_t position,
                       uint32_t rank)
{
    ASSERT(position < place->replicas);
    const uint16_t *list = place->positions + (size_t)vnode * place->replicas;
    const bool zone_must_be_new = position < place->zones_count;

    for (uint32_t i = 0; i < position; i++) {
        if (list[i] == rank) {
            return false;
        }
        if (zone_must_be_new && place->members[list[i]].zone == place->members[rank].zone) {
            return false;
        }
    }
    return true;
}

static void accept_offer(struct ring_place *place, uint32_t vnode, uint32_t position, uint32_t rank)
{
    ASSERT(position < place->replicas && rank < place->members_count);
    place->positions[(size_t)vnode * place->replicas + position] = (uint16_t)rank;
    place->loads[rank]++;
}

/* All members that may stand here are full: take the one with the least load for its weight;
 * of equal ones the one that the vnode likes best. */
static void accept_least_loaded(struct ring_place *place, uint32_t vnode, uint32_t position)
{
    uint32_t best = RING_UNPLACED;
    uint64_t best_key = 0;

    for (uint32_t rank = 0; rank < place->members_count; rank++) {
        if (!is_allowed(place, vnode, position, rank)) {
            continue;
        }
        const uint64_t key = key_of(place, vnode, rank);
        if (best != RING_UNPLACED) {
            const uint64_t here = (uint64_t)place->loads[rank] * place->members[best].weight;
            const uint64_t there = (uint64_t)place->loads[best] * place->members[rank].weight;
            if (here > there || (here == there && key > best_key)) {
                continue;
            }
        }
        best = rank;
        best_key = key;
    }
    ASSERT(best != RING_UNPLACED); /* replicas <= members, and a new zone exists when asked for */
    accept_offer(place, vnode, position, best);
}

uint32_t ring_place_cap(uint32_t members_count, uint64_t weight_sum, uint32_t weight,
                        uint32_t vnodes, uint32_t position)
{
    ASSERT(weight >= 1 && weight <= weight_sum);
    uint64_t permille = CAP_FEW_PERMILLE;

    if (members_count >= NODES_MANY || position > 0) {
        permille = CAP_MANY_PERMILLE; /* replicas: less movement is worth more than balance */
    } else if (members_count > NODES_FEW) {
        permille += (uint64_t)(CAP_MANY_PERMILLE - CAP_FEW_PERMILLE) * (members_count - NODES_FEW) /
                    (NODES_MANY - NODES_FEW);
    }
    const uint64_t share = (uint64_t)vnodes * (position + 1) * weight;
    const uint64_t bounded = share * permille / (1000 * weight_sum);
    const uint64_t ceil = (share + weight_sum - 1) / weight_sum;
    ASSERT(ceil <= UINT32_MAX && bounded <= UINT32_MAX);
    return (uint32_t)(bounded > ceil ? bounded : ceil);
}

static void set_caps(struct ring_place *place, uint32_t position)
{
    for (uint32_t rank = 0; rank < place->members_count; rank++) {
        place->caps[rank] = ring_place_cap(place->members_count, place->weight_sum,
                                           place->members[rank].weight, place->vnodes, position);
    }
}

/* Opens the owner entries of `rank` with the largest keys until its cap is kept. */
static void trim_member(struct ring_place *place, uint32_t rank)
{
    uint32_t held = 0;

    /* heap_keys is free as scratch until offers are made. */
    for (uint32_t vnode = 0; vnode < place->vnodes; vnode++) {
        if (place->positions[(size_t)vnode * place->replicas] == rank) {
            const uint64_t cost = key_of(place, vnode, rank) >> RING_RANK_BITS;
            place->heap_keys[held++] = cost << RING_RANK_BITS | vnode;
        }
    }
    ring_sort_keys(place->heap_keys, held);
    for (uint32_t i = place->caps[rank]; i < held; i++) {
        const uint32_t vnode = ring_score_rank(place->heap_keys[i]);
        place->positions[(size_t)vnode * place->replicas] = RING_UNPLACED;
    }
}

void ring_place_trim(struct ring_place *place)
{
    set_caps(place, 0);
    memset(place->loads, 0, place->members_count * sizeof *place->loads);
    for (uint32_t vnode = 0; vnode < place->vnodes; vnode++) {
        const uint16_t held = place->positions[(size_t)vnode * place->replicas];
        if (held != RING_UNPLACED) {
            place->loads[held]++;
        }
    }
    for (uint32_t rank = 0; rank < place->members_count; rank++) {
        if (place->loads[rank] > place->caps[rank]) {
            trim_member(place, rank);
        }
    }
}

/* Lets the offer at the top of the heap go to its member or on to the next candidate. */
static void settle_first(struct ring_place *place, uint32_t position)
{
    const uint32_t vnode = place->heap_vnodes[0];
    const uint32_t rank = ring_score_rank(place->heap_keys[0]);
    const uint32_t next = place->heap_next[0];

    heap_drop_first(place);
    if (place->loads[rank] < place->caps[rank] && is_allowed(place, vnode, position, rank)) {
        accept_offer(place, vnode, position, rank);
    } else if (next < place->members_count) {
        heap_push(place, candidate(place, vnode, next), vnode, next + 1);
    } else {
        accept_least_loaded(place, vnode, position);
    }
}

void ring_place_position(struct ring_place *place, uint32_t position)
{
    ASSERT(position < place->replicas);
    set_caps(place, position);
    if (position == 0) {
        memset(place->loads, 0, place->members_count * sizeof *place->loads);
    }
    place->heap_count = 0;
    for (uint32_t vnode = 0; vnode < place->vnodes; vnode++) {
        const uint16_t held = place->positions[(size_t)vnode * place->replicas + position];
        if (held == RING_UNPLACED) {
            heap_push(place, candidate(place, vnode, 0), vnode, 1);
        } else {
            place->loads[held]++;
        }
    }
    while (place->heap_count > 0) {
        settle_first(place, position);
    }
}

/* ---- lifecycle ---- */

static uint32_t count_zones(const struct ring_ranked *members, uint32_t count)
{
    uint32_t zones = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t earlier = 0;
        while (earlier < i && members[earlier].zone != members[i].zone) {
            earlier++;
        }
        zones += earlier == i ? 1 : 0;
    }
    return zones;
}

int ring_place_init(struct ring_place *place, const struct allocator *allocator,
                    const struct ring_ranked *members, uint32_t members_count, uint32_t vnodes,
                    uint32_t replicas, uint16_t *positions)
{
    ASSERT(members_count >= 1 && replicas >= 1 && replicas <= members_count);
    const uint32_t cached = members_count < CACHED_MAX ? members_count : CACHED_MAX;

    memset(place, 0, sizeof *place);
    place->allocator = allocator;
    place->members = members;
    place->members_count = members_count;
    place->zones_count = count_zones(members, members_count);
    place->vnodes = vnodes;
    place->replicas = replicas;
    place->cached = cached;
    place->positions = positions;
    for (uint32_t rank = 0; rank < members_count; rank++) {
        place->weight_sum += members[rank].weight;
    }
    place->cache = alloc_array(allocator, (size_t)vnodes * cached, sizeof *place->cache);
    place->order = alloc_array(allocator, members_count, sizeof *place->order);
    place->heap_keys = alloc_array(allocator, vnodes, sizeof *place->heap_keys);
    place->heap_vnodes = alloc_array(allocator, vnodes, sizeof *place->heap_vnodes);
    place->heap_next = alloc_array(allocator, vnodes, sizeof *place->heap_next);
    place->loads = alloc_array(allocator, members_count, sizeof *place->loads);
    place->caps = alloc_array(allocator, members_count, sizeof *place->caps);
    if (place->cache == NULL || place->order == NULL || place->heap_keys == NULL ||
        place->heap_vnodes == NULL || place->heap_next == NULL || place->loads == NULL ||
        place->caps == NULL) {
        ring_place_fini(place);
        return TG_ENOMEM;
    }
    for (uint32_t vnode = 0; vnode < vnodes; vnode++) {
        cache_fill(place, vnode);
    }
    return 0;
}

void ring_place_fini(struct ring_place *place)
{
    const struct allocator *allocator = place->allocator;
    const size_t vnodes = place->vnodes;
    const size_t count = place->members_count;

    alloc_put(allocator, place->cache, vnodes * place->cached * sizeof *place->cache);
    alloc_put(allocator, place->order, count * sizeof *place->order);
    alloc_put(allocator, place->heap_keys, vnodes * sizeof *place->heap_keys);
    alloc_put(allocator, place->heap_vnodes, vnodes * sizeof *place->heap_vnodes);
    alloc_put(allocator, place->heap_next, vnodes * sizeof *place->heap_next);
    alloc_put(allocator, place->loads, count * sizeof *place->loads);
    alloc_put(allocator, place->caps, count * sizeof *place->caps);
    memset(place, 0, sizeof *place);
}

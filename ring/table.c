/* table.c - joins the two halves: seats decide where a seat is taken, rendezvous elsewhere.
 *
 *   members --by id--> ranks --seats--> seats.c: vnode -> seat
 *                                          | taken             | vacant
 *                                          v                   v
 *                       position 0:     that member      place.c, bounded rendezvous
 *                       position 1..R-1:     place.c, in zones not yet covered
 *
 * RING-1  The table is a function of the *set* of members: the input is sorted by id first.
 * RING-2  A member keeps the vnodes dealt to its seats, but for what exceeds its cap, so that
 *         vacancies elsewhere never move them.
 * RING-3  Lists hold min(replicas, members) distinct members.
 * RING-4  A table is empty, or its counts and weights are within their bounds.
 *
 * It must not: read a clock, draw random numbers, or use floating point.
 */
#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "ring/place.h"
#include "ring/ring.h"
#include "ring/score.h"
#include "ring/seats.h"

static_assert(RING_MEMBERS_MAX < (int)RING_UNPLACED, "a rank is never mistaken for an open entry");
static_assert((int)RING_SEATS_MAX <= UINT16_MAX, "a seat fits 16 bits");
static_assert((int)RING_SEATS_MAX >= 2 * RING_MEMBERS_MAX * RING_WEIGHT_DEFAULT / RING_SEAT_WEIGHT,
              "the most members of default weight find seats, whatever is vacant between them");
static_assert(RING_WEIGHT_MAX % RING_SEAT_WEIGHT == 0, "the largest weight fills its seats");

/* Scratch of one computation. */
struct draft {
    struct ring_ranked *members;             /* [count] ascending by id */
    uint16_t *seat_owners;                   /* [vnodes] */
    uint32_t seat_loads[RING_SEATS_MAX + 1]; /* by seat */
    uint16_t seat_ranks[RING_SEATS_MAX + 1]; /* by seat, RING_UNPLACED if vacant */
    uint32_t seats_count;                    /* the highest seat taken */
};

bool ring_vnodes_valid(uint64_t vnodes)
{
    return vnodes >= RING_VNODES_MIN && vnodes <= RING_VNODES_MAX && (vnodes & (vnodes - 1)) == 0;
}

uint32_t ring_zone_hash(const char *zone_name)
{
    /* FNV-1a over the bytes, then mixed; collisions would only cost a little spread. */
    uint64_t hash = 0xcbf29ce484222325ULL;

    for (const char *at = zone_name; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * 0x100000001b3ULL;
    }
    return (uint32_t)(hash_mix64(hash) >> 32);
}

int ring_member_init(struct ring_member *member, uint64_t id, const char *name,
                     const char *zone_name, uint32_t weight)
{
    if (id == 0 || weight < RING_WEIGHT_MIN || weight > RING_WEIGHT_MAX) {
        return TG_EINVALID;
    }
    if (strlen(name) >= RING_NAME_LEN || strlen(zone_name) >= RING_NAME_LEN) {
        return TG_ETOOBIG;
    }
    memset(member, 0, sizeof *member);
    member->id = id;
    member->zone = ring_zone_hash(zone_name);
    member->weight = weight;
    memcpy(member->name, name, strlen(name));
    memcpy(member->zone_name, zone_name, strlen(zone_name));
    return 0;
}

static bool seat_taken(const struct ring_member *members, uint32_t count, uint64_t but_id,
                       uint32_t seat)
{
    ASSERT(seat >= 1 && seat <= RING_SEATS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < members[i].seats_count; k++) {
            if (members[i].id != but_id && members[i].seats[k] == seat) {
                return true;
            }
        }
    }
    return false;
}

/* Inserts a seat in ascending order; false if the member has it already. */
static bool seat_insert(struct ring_member *member, uint16_t seat)
{
    ASSERT(member->seats_count < RING_SEATS_EACH_MAX);
    uint32_t at = member->seats_count;

    while (at > 0 && member->seats[at - 1] > seat) {
        at--;
    }
    if (at > 0 && member->seats[at - 1] == seat) {
        return false;
    }
    memmove(&member->seats[at + 1], &member->seats[at],
            (member->seats_count - at) * sizeof member->seats[0]);
    member->seats[at] = seat;
    member->seats_count++;
    return true;
}

int ring_member_seat(struct ring_member *member, const struct ring_member *members, uint32_t count)
{
    const uint32_t wanted = ring_seats_of_weight(member->weight);
    ASSERT(wanted >= 1 && wanted <= RING_SEATS_EACH_MAX);

    if (member->seats_count > wanted) {
        member->seats_count = (uint16_t)wanted;
    }
    for (uint32_t seat = 1; seat <= RING_SEATS_MAX && member->seats_count < wanted; seat++) {
        if (!seat_taken(members, count, member->id, seat)) {
            (void)seat_insert(member, (uint16_t)seat);
        }
    }
    for (uint32_t i = member->seats_count; i < RING_SEATS_EACH_MAX; i++) {
        member->seats[i] = 0;
    }
    return member->seats_count == wanted ? 0 : TG_EFULL;
}

/* Sorts by id; insertion, because the input is nearly always sorted already. */
static void rank_members(struct ring_ranked *ranked, const struct ring_member *members,
                         uint32_t count)
{
    ASSERT(count >= 1 && count <= RING_MEMBERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && ranked[at - 1].id > members[i].id; at--) {
            ranked[at] = ranked[at - 1];
        }
        ranked[at] = (struct ring_ranked){.id = members[i].id,
                                          .weight = members[i].weight,
                                          .zone = members[i].zone,
                                          .index = (uint16_t)i};
    }
}

static int seat_at(struct draft *draft, uint32_t seat, uint32_t rank)
{
    ASSERT(rank < RING_MEMBERS_MAX);
    if (seat == 0 || seat > RING_SEATS_MAX || draft->seat_ranks[seat] != RING_UNPLACED) {
        return TG_EINVALID;
    }
    draft->seat_ranks[seat] = (uint16_t)rank;
    if (seat > draft->seats_count) {
        draft->seats_count = seat;
    }
    return 0;
}

/* Members that have seats sit there. */
static int seat_settled(struct draft *draft, const struct ring_member *members, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct ring_member *member = &members[draft->members[rank].index];

        if (member->seats_count > RING_SEATS_EACH_MAX) {
            return TG_EINVALID;
        }
        for (uint32_t i = 0; i < member->seats_count; i++) {
            if (seat_at(draft, member->seats[i], rank) < 0) {
                return TG_EINVALID;
            }
        }
    }
    return 0;
}

/* The others, in order of id, take the lowest free ones. */
static int seat_members(struct draft *draft, const struct ring_member *members, uint32_t count)
{
    uint32_t seat = 1;

    memset(draft->seat_ranks, 0xff, sizeof draft->seat_ranks);
    if (seat_settled(draft, members, count) < 0) {
        return TG_EINVALID;
    }
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct ring_member *member = &members[draft->members[rank].index];
        uint32_t wanted = member->seats_count > 0 ? 0 : ring_seats_of_weight(member->weight);

        for (; wanted > 0; wanted--) {
            while (seat <= RING_SEATS_MAX && draft->seat_ranks[seat] != RING_UNPLACED) {
                seat++;
            }
            if (seat_at(draft, seat, rank) < 0) {
                return TG_EINVALID;
            }
        }
    }
    return 0;
}

static bool ranked_valid(const struct ring_ranked *ranked, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++) {
        const struct ring_ranked *member = &ranked[rank];
        if (member->id == 0 || member->weight < RING_WEIGHT_MIN ||
            member->weight > RING_WEIGHT_MAX || (rank > 0 && ranked[rank - 1].id == member->id)) {
            return false;
        }
    }
    return true;
}

/* Owners from the seats, everything else by placing; then ranks become the caller's indices. */
static int fill_positions(struct ring_table *table, struct draft *draft)
{
    struct ring_place place;
    const size_t entries = (size_t)table->vnodes * table->replicas;

    ASSERT(table->replicas <= table->members_count); /* RING-3 */
    ring_seats_deal(draft->seat_owners, draft->seat_loads, draft->seats_count, table->vnodes);
    for (size_t entry = 0; entry < entries; entry++) {
        table->positions[entry] = RING_UNPLACED;
    }
    for (uint32_t vnode = 0; vnode < table->vnodes; vnode++) {
        table->positions[(size_t)vnode * table->replicas] =
            draft->seat_ranks[draft->seat_owners[vnode]];
    }
    const int error =
        ring_place_init(&place, table->allocator, draft->members, table->members_count,
                        table->vnodes, table->replicas, table->positions);
    if (error < 0) {
        return error;
    }
    ring_place_trim(&place);
    for (uint32_t position = 0; position < table->replicas; position++) {
        ring_place_position(&place, position);
    }
    ring_place_fini(&place);
    for (size_t entry = 0; entry < entries; entry++) {
        ASSERT(table->positions[entry] < table->members_count);
        table->positions[entry] = draft->members[table->positions[entry]].index;
    }
    return 0;
}

static int table_compute(struct ring_table *table, struct draft *draft,
                         const struct ring_member *members)
{
    rank_members(draft->members, members, table->members_count);
    if (!ranked_valid(draft->members, table->members_count)) {
        return TG_EINVALID;
    }
    const int error = seat_members(draft, members, table->members_count);
    if (error < 0) {
        return error;
    }
    for (uint32_t i = 0; i < table->members_count; i++) {
        table->ids[i] = members[i].id;
        table->weights[i] = members[i].weight;
        table->by_id[i] = draft->members[i].index;
    }
    return fill_positions(table, draft);
}

/* The draft lives only here; its arrays are freed whatever happens. */
static int table_draft(struct ring_table *table, const struct ring_member *members)
{
    const struct allocator *allocator = table->allocator;
    const size_t ranked_bytes = table->members_count * sizeof(struct ring_ranked);
    const size_t owners_bytes = table->vnodes * sizeof(uint16_t);
    struct draft *draft = alloc_get(allocator, sizeof *draft);
    int error = TG_ENOMEM;

    if (draft == NULL) {
        return TG_ENOMEM;
    }
    draft->members = alloc_get(allocator, ranked_bytes);
    draft->seat_owners = alloc_get(allocator, owners_bytes);
    if (draft->members != NULL && draft->seat_owners != NULL) {
        error = table_compute(table, draft, members);
    }
    alloc_put(allocator, draft->members, ranked_bytes);
    alloc_put(allocator, draft->seat_owners, owners_bytes);
    alloc_put(allocator, draft, sizeof *draft);
    return error;
}

/* Takes the arrays of a table whose sizes are set; false if there is no memory for them. */
static bool table_memory(struct ring_table *table)
{
    const struct allocator *allocator = table->allocator;
    const size_t count = table->members_count;
    const size_t entries = (size_t)table->vnodes * table->replicas;

    table->ids = alloc_array(allocator, count, sizeof *table->ids);
    table->weights = alloc_array(allocator, count, sizeof *table->weights);
    table->by_id = alloc_array(allocator, count, sizeof *table->by_id);
    table->positions = alloc_array(allocator, entries, sizeof *table->positions);
    return table->ids != NULL && table->weights != NULL && table->by_id != NULL &&
           table->positions != NULL;
}

int ring_table_init(struct ring_table *table, const struct allocator *allocator,
                    const struct ring_member *members, uint32_t count, uint32_t vnodes,
                    uint32_t replicas)
{
    int error = TG_ENOMEM;

    memset(table, 0, sizeof *table);
    if (count == 0 || count > RING_MEMBERS_MAX || !ring_vnodes_valid(vnodes) || replicas == 0 ||
        replicas > RING_REPLICAS_MAX) {
        return TG_EINVALID;
    }
    table->allocator = allocator;
    table->vnodes = vnodes;
    table->replicas = replicas < count ? replicas : count;
    table->members_count = count;
    if (table_memory(table)) {
        error = table_draft(table, members);
    }
    if (error < 0) {
        ring_table_fini(table);
    }
    return error;
}

int ring_table_copy(struct ring_table *table, const struct allocator *allocator,
                    const struct ring_table *from)
{
    ASSERT(table != from && from->members_count > 0);
    const size_t count = from->members_count;
    const size_t entries = (size_t)from->vnodes * from->replicas;

    *table = *from;
    table->allocator = allocator;
    if (!table_memory(table)) {
        ring_table_fini(table);
        return TG_ENOMEM;
    }
    memcpy(table->ids, from->ids, count * sizeof *table->ids);
    memcpy(table->weights, from->weights, count * sizeof *table->weights);
    memcpy(table->by_id, from->by_id, count * sizeof *table->by_id);
    memcpy(table->positions, from->positions, entries * sizeof *table->positions);
    return 0;
}

void ring_table_fini(struct ring_table *table)
{
    if (table->allocator != NULL) {
        const size_t entries = (size_t)table->vnodes * table->replicas;
        alloc_put(table->allocator, table->ids, table->members_count * sizeof *table->ids);
        alloc_put(table->allocator, table->weights, table->members_count * sizeof *table->weights);
        alloc_put(table->allocator, table->by_id, table->members_count * sizeof *table->by_id);
        alloc_put(table->allocator, table->positions, entries * sizeof *table->positions);
    }
    memset(table, 0, sizeof *table);
}

/* ---- readers ---- */

const uint16_t *ring_replicas(const struct ring_table *table, uint32_t vnode, uint32_t *count)
{
    ASSERT(vnode < table->vnodes);
    *count = table->replicas;
    return table->positions + (size_t)vnode * table->replicas;
}

uint16_t ring_owner(const struct ring_table *table, uint32_t vnode)
{
    ASSERT(vnode < table->vnodes);
    return table->positions[(size_t)vnode * table->replicas];
}

uint64_t ring_owner_id(const struct ring_table *table, uint32_t vnode)
{
    return table->ids[ring_owner(table, vnode)];
}

uint64_t ring_member_id(const struct ring_table *table, uint32_t index)
{
    ASSERT(index < table->members_count);
    return table->ids[index];
}

int ring_position_of(const struct ring_table *table, uint32_t vnode, uint64_t id)
{
    uint32_t count;
    const uint16_t *list = ring_replicas(table, vnode, &count);

    for (uint32_t position = 0; position < count; position++) {
        if (table->ids[list[position]] == id) {
            return (int)position;
        }
    }
    return -1;
}

int ring_index_of(const struct ring_table *table, uint64_t id)
{
    for (uint32_t index = 0; index < table->members_count; index++) {
        if (table->ids[index] == id) {
            return (int)index;
        }
    }
    return -1;
}

uint32_t ring_owned_count(const struct ring_table *table, uint32_t index)
{
    uint32_t owned = 0;

    ASSERT(index < table->members_count);
    for (uint32_t vnode = 0; vnode < table->vnodes; vnode++) {
        owned += ring_owner(table, vnode) == index ? 1 : 0;
    }
    return owned;
}

uint32_t ring_order(const struct ring_table *table, uint32_t vnode, uint16_t *out, uint32_t max)
{
    uint64_t keys[RING_MEMBERS_MAX];
    const uint32_t count = table->members_count;

    ASSERT(vnode < table->vnodes);
    for (uint32_t rank = 0; rank < count; rank++) {
        const uint16_t index = table->by_id[rank];
        keys[rank] = ring_score_key(vnode, table->ids[index], table->weights[index], rank);
    }
    ring_sort_keys(keys, count);
    const uint32_t written = max < count ? max : count;
    for (uint32_t i = 0; i < written; i++) {
        out[i] = table->by_id[ring_score_rank(keys[i])];
    }
    return written;
}

/* ---- invariants ---- */

static void check_list(const struct ring_table *table, uint32_t vnode)
{
    uint32_t count;
    const uint16_t *list = ring_replicas(table, vnode, &count);

    for (uint32_t i = 0; i < count; i++) {
        INVARIANT("RING-3", list[i] < table->members_count);
        for (uint32_t k = 0; k < i; k++) {
            INVARIANT("RING-3", list[k] != list[i]);
        }
    }
}

void ring_table_check_invariants(const struct ring_table *table)
{
    INVARIANT("RING-4", table->members_count <= RING_MEMBERS_MAX);
    if (table->members_count == 0) {
        INVARIANT("RING-4", table->positions == NULL && table->ids == NULL);
        return;
    }
    INVARIANT("RING-4", ring_vnodes_valid(table->vnodes) && table->replicas >= 1 &&
                            table->replicas <= RING_REPLICAS_MAX);
    INVARIANT("RING-3", table->replicas <= table->members_count);
    for (uint32_t rank = 0; rank < table->members_count; rank++) {
        INVARIANT("RING-1", table->by_id[rank] < table->members_count);
        INVARIANT("RING-1",
                  rank == 0 || table->ids[table->by_id[rank - 1]] < table->ids[table->by_id[rank]]);
        INVARIANT("RING-4", table->weights[rank] >= RING_WEIGHT_MIN &&
                                table->weights[rank] <= RING_WEIGHT_MAX);
    }
    for (uint32_t vnode = 0; vnode < table->vnodes; vnode++) {
        check_list(table, vnode);
    }
}

/* swim_region.c - the regions: who is in them, and what this node knows of each.
 *
 * A member is in the region its record names. Region 0 is this node's own, where SWIM does its
 * work; every other is abroad, where another such crowd of nodes does the same. Between them there
 * are two ways, both of them slow or rare, so that a node's share of wide-area traffic does not
 * depend on how many nodes or regions there are:
 *
 *   contact   a node compares itself with one random member of the next region, one region after
 *             the other (push/pull, swim_sync.c): repairs everything, measures the round trip
 *   news      while there are rumours about members of a region, about `abroad_peers` of its nodes
 *             a turn tell them to a random member of each other region (swim_rumour.c)
 *
 * A region speaks for itself: its news are rumours about its own members alone, and what it hears
 * of others travels on only by contacts. So nothing echoes between regions, and one that is cut
 * off from another still hears of it through a third.
 *
 * How fresh the knowledge of a region is cannot be seen from what is known, since a quiet region
 * has no news. So messages carry ages, of three regions in turn, once there is more than one:
 *
 *   age = hash of the region's name u32, tenths of a second since it was last heard of u16 (LE)
 *
 * REGION-1  Ages inform people; nothing in this folder decides by them.
 * REGION-2  An age is told as more than it is, by more than a message takes, so that nodes which
 *           tell it to each other do not keep it young.
 * REGION-3  The table is bounded: a claim that needs one region too many is refused, and counted.
 *
 * It must not send anything itself.
 */
#include "gossip/swim_region.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/sat.h"
#include "gossip/swim_internal.h"

#define AGE_UNIT_NS   INT64_C(100000000)
#define AGE_ABROAD_NS (10 * AGE_UNIT_NS) /* a message between regions takes less */

enum { AGE_WAY = 2 /* units: one for rounding, one for the way */ };

const char *swim_region_of(const struct swim_record *record)
{
    return record->region[0] != '\0' ? record->region : SWIM_REGION_DEFAULT;
}

/* ---- the table ---- */

bool swim_region_used(const struct swim_region *region)
{
    return region->name[0] != '\0';
}

uint32_t swim_region_living(const struct swim_region *region)
{
    return region->members[SWIM_ALIVE] + region->members[SWIM_SUSPECT];
}

/* The place of the region of that name, else a free one, else none. */
static uint32_t place_of(const struct swim *swim, const char *name)
{
    uint32_t spare = SWIM_REGION_NONE;
    for (uint32_t at = 0; at < SWIM_REGIONS_MAX; at++) {
        const struct swim_region *region = &swim->regions[at];
        if (!swim_region_used(region))
            spare = spare == SWIM_REGION_NONE ? at : spare;
        else if (strcmp(region->name, name) == 0)
            return at;
    }
    return spare;
}

bool swim_region_fits(const struct swim *swim, const struct swim_record *record)
{
    return place_of(swim, swim_region_of(record)) != SWIM_REGION_NONE;
}

/* The first region abroad starts the contacts, at a random moment and with a random region. */
static void region_add(struct swim *swim, uint32_t at, const char *name)
{
    ASSERT(!swim_region_used(&swim->regions[at]) && name[0] != '\0');
    memset(&swim->regions[at], 0, sizeof swim->regions[at]);
    memcpy(swim->regions[at].name, name, strlen(name) + 1);
    if (at == SWIM_HOME)
        return;
    if (swim->regions_abroad++ > 0)
        return;
    swim->sync.contact_ns =
        sat_add(swim->now_ns, random_between(&swim->random, 0, swim->options.contact_ns));
    swim->sync.contact_at = (uint32_t)random_below(&swim->random, SWIM_REGIONS_MAX);
}

void swim_region_enter(struct swim *swim, uint32_t slot)
{
    struct swim_slot *entered = &swim->slots[slot];
    const char *name = swim_region_of(&entered->member.record);
    const uint32_t at = place_of(swim, name);
    ASSERT(at != SWIM_REGION_NONE); /* swim_region_fits */
    if (!swim_region_used(&swim->regions[at]))
        region_add(swim, at, name);
    swim->regions[at].members[entered->member.state]++;
    entered->region = at;
}

void swim_region_leave(struct swim *swim, uint32_t slot)
{
    static const uint32_t nobody[SWIM_STATES];
    const struct swim_slot *left = &swim->slots[slot];
    struct swim_region *region = &swim->regions[left->region];
    ASSERT(region->members[left->member.state] > 0); /* GOSSIP-5 */
    region->members[left->member.state]--;
    if (left->region == SWIM_HOME || memcmp(region->members, nobody, sizeof nobody) != 0)
        return;
    memset(region, 0, sizeof *region);
    ASSERT(swim->regions_abroad > 0); /* GOSSIP-5 */
    swim->regions_abroad--;
}

bool swim_slot_abroad(const struct swim *swim, uint32_t slot)
{
    return slot != SWIM_SLOT_NONE && swim->slots[slot].region != SWIM_HOME;
}

/* ---- who lives ---- */

uint32_t swim_others(const struct swim *swim)
{
    const uint32_t living = swim_region_living(&swim->regions[SWIM_HOME]);
    ASSERT(living > 0 ||
           swim->slots[SWIM_SELF].member.state != SWIM_ALIVE); /* GOSSIP-1, GOSSIP-5 */
    return swim->slots[SWIM_SELF].member.state == SWIM_ALIVE ? living - 1 : living;
}

uint32_t swim_others_anywhere(const struct swim *swim)
{
    uint32_t others = swim_others(swim);
    for (uint32_t at = SWIM_HOME + 1; at < SWIM_REGIONS_MAX; at++)
        others += swim_region_living(&swim->regions[at]);
    return others;
}

/* ---- what is known of them ---- */

void swim_region_contact(struct swim *swim, uint32_t at)
{
    ASSERT(at < SWIM_REGIONS_MAX && swim_region_used(&swim->regions[at]));
    swim->regions[at].last_contact_ns = swim->now_ns;
    swim->regions[at].heard_ns = swim->now_ns;
}

/* ---- ages ---- */

static uint32_t name_hash(const char *name)
{
    uint64_t hash = 0;
    for (; *name != '\0'; name++)
        hash = hash_mix64(hash + (unsigned char)*name + 1);
    return (uint32_t)hash;
}

/* The age of a region in tenths of a second; more than UINT16_MAX if it is not worth telling. */
static uint64_t age_of(const struct swim *swim, const struct swim_region *region)
{
    if (region->heard_ns == 0)
        return UINT64_MAX;
    return (uint64_t)sat_sub(swim->now_ns, region->heard_ns) / AGE_UNIT_NS + AGE_WAY; /* REGION-2 */
}

void swim_ages_put(struct swim *swim, struct mp_writer *writer)
{
    uint8_t ages[SWIM_AGES_MAX * SWIM_AGE_LEN];
    struct bytes_writer bytes;
    bytes_writer_init(&bytes, ages, sizeof ages);
    uint32_t told = 0;
    for (uint32_t tries = 0; tries < SWIM_REGIONS_MAX && told < SWIM_AGES_MAX; tries++) {
        swim->age_at = (swim->age_at + 1) % SWIM_REGIONS_MAX;
        const struct swim_region *region = &swim->regions[swim->age_at];
        const uint64_t age = age_of(swim, region);
        if (swim->age_at == SWIM_HOME || !swim_region_used(region) || age > UINT16_MAX)
            continue;
        bytes_put_u32(&bytes, name_hash(region->name));
        bytes_put_u16(&bytes, (uint16_t)age);
        told++;
    }
    ASSERT(told <= SWIM_AGES_MAX && !bytes.failed);
    mp_put_bin(writer, ages, told * SWIM_AGE_LEN);
}

static void age_take(struct swim *swim, uint32_t hash, int64_t age_ns)
{
    ASSERT(age_ns >= 0);
    const int64_t heard_ns = sat_sub(swim->now_ns, age_ns);
    for (uint32_t at = SWIM_HOME + 1; at < SWIM_REGIONS_MAX; at++) {
        struct swim_region *region = &swim->regions[at];
        if (swim_region_used(region) && name_hash(region->name) == hash &&
            heard_ns > region->heard_ns)
            region->heard_ns = heard_ns;
    }
}

void swim_ages_take(struct swim *swim, uint32_t sender, const uint8_t *ages, size_t ages_len)
{
    const int64_t way_ns = swim_slot_abroad(swim, sender) ? AGE_ABROAD_NS : 0; /* REGION-2 */
    struct bytes_reader bytes;
    bytes_reader_init(&bytes, ages, ages_len);
    for (int i = 0; i < SWIM_AGES_MAX && bytes_left(&bytes) >= SWIM_AGE_LEN; i++) {
        const uint32_t hash = bytes_get_u32(&bytes);
        age_take(swim, hash, bytes_get_u16(&bytes) * AGE_UNIT_NS + way_ns);
    }
}

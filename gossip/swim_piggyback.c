/* swim_piggyback.c - what rides along with messages, and how often.
 *
 * News about a member spread like an epidemic: each node that learns them passes them on a
 * limited number of times, 4 x ceil(log10(n + 1)), on pings, acks and, every 100 ms while there
 * are any, on messages of their own to 3 random members. A member has at most one rumour, its
 * current state, so newer news replace older and the memory is one flag a member.
 *
 * RUMOUR-1  Seldom told news go first; equals in the order they came.
 * RUMOUR-2  A message carries at most SWIM_ITEMS_MAX items, and none twice.
 * RUMOUR-3  To other regions go rumours about members of this one only (swim_region.c says why).
 *           They do not count as told, unless nobody else of this region is there to be told.
 * RUMOUR-4  A rumour counts as told only when its message is in the effects: callers check the room
 *           before they write.
 *
 * With no rumours there is no traffic here: a quiet cluster only probes.
 */
#include "gossip/swim_piggyback.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_record.h"
#include "gossip/swim_region.h"
#include "gossip/swim_rumour.h"
#include "gossip/swim_table.h"

enum { ITEMS_HEAD = 3 /* bytes of a msgpack array header for up to 65535 elements */ };

bool swim_item_append(struct swim *swim, struct mp_writer *items, uint32_t at, bool with_record)
{
    const size_t len = items->len;
    ASSERT(!items->failed && swim->slots[at].used);
    swim_item_put(items, &swim->slots[at], with_record, swim->now_ns);
    if (!items->failed)
        return true;
    items->len = len;
    items->failed = false;
    return false;
}

/* Adds the rumours that were told `level` times; false when the message is full. */
static bool level_append(struct swim *swim, struct mp_writer *items, uint32_t level,
                         uint32_t *count)
{
    for (uint32_t i = 0; i < swim->rumours_len; i++) {
        struct swim_slot *slot = &swim->slots[swim->rumours[i]];
        if (slot->transmits != level || slot->sent_in == swim->frame.written)
            continue;
        if (swim->frame.abroad && slot->region != SWIM_HOME)
            continue; /* RUMOUR-3 */
        if (*count == SWIM_ITEMS_MAX)
            return false;
        if (!swim_item_append(swim, items, swim->rumours[i],
                              slot->rumour_record || slot->member.state == SWIM_ALIVE))
            return false;
        slot->sent_in = swim->frame.written;
        slot->transmits += swim->frame.abroad ? 0 : 1;
        (*count)++;
    }
    return true;
}

void swim_items_begin(struct swim *swim, const struct mp_writer *writer, size_t budget,
                      struct mp_writer *items)
{
    const size_t left = writer->failed ? 0 : writer->capacity - writer->len;
    const size_t room = left > ITEMS_HEAD ? left - ITEMS_HEAD : 0;
    mp_writer_init(items, swim->frame.scratch, budget > 0 && budget < room ? budget : room);
    swim->frame.written++;
}

void swim_items_end(struct mp_writer *writer, const struct mp_writer *items, uint32_t count)
{
    mp_put_array(writer, count);
    ASSERT(!writer->failed && writer->capacity - writer->len >= items->len);
    memcpy(writer->data + writer->len, items->data, items->len);
    writer->len += items->len;
}

void swim_rumours_put(struct swim *swim, struct mp_writer *writer, size_t budget, uint32_t forced)
{
    struct mp_writer items;
    uint32_t count = 0;

    swim_items_begin(swim, writer, budget, &items);
    if (forced != SWIM_SLOT_NONE && swim_item_append(swim, &items, forced, true)) {
        swim->slots[forced].sent_in = swim->frame.written;
        count++;
    }
    if (budget > 0 && swim->rumours_len > 0) {
        const uint32_t limit = swim_retransmit_limit(swim);
        bool more = true;
        for (uint32_t level = 0; level < limit && more; level++)
            more = level_append(swim, &items, level, &count);
        swim_rumours_retire(swim);
    }
    ASSERT(count <= SWIM_ITEMS_MAX); /* RUMOUR-2 */
    swim_items_end(writer, &items, count);
}

/* false when there is no room. */
static bool gossip_send(struct swim *swim, uint32_t at)
{
    struct mp_writer writer;
    const struct swim_member *peer = &swim->slots[at].member;
    if (!swim_message_begin(swim, &writer, SWIM_GOSSIP, 0, peer->record.id))
        return false;
    mp_put_array(&writer, 0);
    swim_rumours_put(swim, &writer, SWIM_MESSAGE_MAX, SWIM_SLOT_NONE);
    swim_message_end(swim, &writer, peer->record.gossip);
    return true;
}

static bool news_of_home(const struct swim *swim)
{
    for (uint32_t i = 0; i < swim->rumours_len; i++) {
        if (swim->slots[swim->rumours[i]].region == SWIM_HOME)
            return true;
    }
    return false;
}

/* Tells each other region the news of this one with such a chance that, together, `abroad_peers`
 * nodes of this region do so in a turn. */
static bool gossip_abroad(struct swim *swim)
{
    const uint32_t nodes = swim_others(swim) + 1;
    uint32_t at;
    if (swim->regions_abroad == 0 || !news_of_home(swim))
        return true;
    for (uint32_t region = SWIM_HOME + 1; region < SWIM_REGIONS_MAX; region++) {
        if (swim_region_living(&swim->regions[region]) == 0 ||
            random_below(&swim->random, nodes) >= swim->options.abroad_peers)
            continue;
        if (swim_pick(swim, region, 1, SWIM_SLOT_NONE, &at) == 1 && !gossip_send(swim, at))
            return false;
    }
    return true;
}

/* Without a neighbour a turn counts for all rumours, since nothing else would end them. */
static void rumours_age_alone(struct swim *swim)
{
    for (uint32_t i = 0; i < swim->rumours_len; i++)
        swim->slots[swim->rumours[i]].transmits++;
    swim_rumours_retire(swim);
}

void swim_gossip_tick(struct swim *swim)
{
    uint32_t picked[SWIM_HELPERS_MAX];
    if (swim->rumours_len == 0 || swim->now_ns < swim->gossip_ns)
        return;
    if (!gossip_abroad(swim)) {
        swim->at_once = true;
        return;
    }
    const uint32_t count =
        swim_pick(swim, SWIM_HOME, swim->options.gossip_peers, SWIM_SLOT_NONE, picked);
    for (uint32_t i = 0; i < count && swim->rumours_len > 0; i++) {
        if (!gossip_send(swim, picked[i])) {
            swim->at_once = true;
            return;
        }
    }
    if (count == 0 && swim_others_anywhere(swim) > 0)
        rumours_age_alone(swim);
    swim->gossip_ns = sat_add(swim->now_ns, swim->options.gossip_interval_ns);
}

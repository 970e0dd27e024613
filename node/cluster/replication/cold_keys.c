/* cold_keys.c - gives replicas the keys of a vnode that are on disk and not in memory.
 *
 * A complete copy of a vnode (handoff.c) is made of its slots in memory. When memory
 * overflows there are more: their ids are listed from disk, each is read, and its state goes into
 * the same stream, before the mark. Without spilled keys nothing of this happens.
 *
 *   link restarted, ---> wait until ---> EFFECT_LIST --> ids --> EFFECT_LOAD each --> SLOT
 *   filter not empty     memory is        ^                 |      (or from memory)      |
 *                        sent             +--- cut short ---+     links: WATERMARK may go <---+
 *
 * One vnode is copied at a time, for all its links that wait; at most COLD_KEYS_WINDOW reads are
 * out, and each answer makes room for another. A disk that refuses is left alone for a moment,
 * which grows as long as it refuses everything.
 *
 * Vnodes of both planes are served; those of the plane of quorum have the journal for their disk.
 *
 * COLDKEYS-1  The listing begins after the last slot in memory was sent: what is evicted later was
 *             sent.
 * COLDKEYS-2  What memory holds is newer than what the disk gives, so memory is asked first, last
 *             of all when the answer of the disk has come.
 * COLDKEYS-3  A link whose copy begins anew meanwhile is not served any more, and waits for the
 *             next round.
 * COLDKEYS-4  What can never be read (damaged, or of another release) is passed over and counted:
 *             the replica is to have the rest, and its leader cannot answer for it either. Not so
 *             in the plane of quorum: there a replica that is told it has everything counts in
 *             majorities.
 */
#include <string.h>

#include "base/assert.h"
#include "node/cluster/partition/vnodes.h"
#include "node/cluster/shard_state.h"

enum { COLD_KEYS_LOOKS = 1024 /* vnodes looked at by one tick */ };
#define COLD_KEYS_REST_NS     (100 * MS) /* after the disk refused to list, or refused for long */
#define COLD_KEYS_REST_MIN_NS (5 * MS)   /* after it refused one read: others may succeed */

bool cold_keys_unreadable(int result)
{
    return result == TG_ECORRUPT || result == TG_EVERSION;
}

/* Whether what is missing is passed over (COLDKEYS-4). */
static bool is_damaged(const struct shard *shard, int result)
{
    return cold_keys_unreadable(result) && !vnodes_quorum(shard, shard->cold_keys.vnode);
}

static uint8_t bit_of(uint32_t link)
{
    return (uint8_t)(1u << link);
}

void cold_keys_restarted(struct shard *shard, uint32_t number, uint32_t link)
{
    ASSERT(link < SHARD_REPLICAS_OTHER);
    if (shard->options.ephemeral || table_filter_fill_permille(shard->table, number) == 0)
        return;
    shard->vnodes[number].links[link].copy_due = true;
    shard->cold_keys.asked = true;
    shard->cold_keys.later = true;
    if (shard->cold_keys.active && shard->cold_keys.vnode == number)
        shard->cold_keys.links &= (uint8_t)~bit_of(link); /* COLDKEYS-3 */
}

/* ---- which vnode ----------------------------------------------------------------------------- */

static void list(struct shard *shard, struct effects *effects)
{
    ASSERT(!shard->cold_keys.listing && shard->cold_keys.out_count == 0); /* COLDKEYS-5 */
    shard->cold_keys.listing = true;
    shard->cold_keys.listed = 0;
    shard->cold_keys.count = 0;
    shard->cold_keys.next = 0;
    effects_add(effects, EFFECT_LIST)->vnode = shard->cold_keys.vnode;
}

/* The links of the vnode that wait for its disk and may be served now (COLDKEYS-1). */
static uint8_t waiting_links(struct shard *shard, uint32_t number, bool *later)
{
    struct vnode *vnode = &shard->vnodes[number];
    uint8_t links = 0;
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++) {
        if (!vnode->links[link].copy_due)
            continue;
        if (stream_receiver(shard, number, link) == PEER_NONE)
            vnode->links[link].copy_due = false;
        else if (!stream_hears(shard, number, link) || stream_copying(shard, number, link))
            *later = true;
        else
            links |= bit_of(link);
    }
    return links;
}

static void choose(struct shard *shard, struct effects *effects)
{
    struct cold_keys *copy = &shard->cold_keys;
    for (uint32_t i = 0; i < COLD_KEYS_LOOKS && copy->asked; i++) {
        if (copy->cursor >= shard->vnode_end) {
            copy->cursor = 0;
            copy->asked = copy->later;
            copy->later = false;
            return;
        }
        const uint32_t number = copy->cursor++;
        copy->links = waiting_links(shard, number, &copy->later);
        if (copy->links == 0)
            continue;
        copy->later = true; /* another look follows this copy */
        copy->active = true;
        copy->vnode = number;
        copy->skip = 0;
        list(shard, effects);
        return;
    }
}

/* ---- its ids --------------------------------------------------------------------------------- */

bool cold_keys_listed(struct shard *shard, uint32_t number, const struct hash128 *ids, size_t count,
                      bool last, int result)
{
    struct cold_keys *copy = &shard->cold_keys;
    if (!copy->listing || copy->vnode != number)
        return false;
    ASSERT(copy->active && copy->next == 0);        /* ids are asked for when all were listed */
    const bool damaged = is_damaged(shard, result); /* what was listed before it is all there is */
    for (size_t i = 0; i < count && result == 0; i++)
        if (copy->listed++ >= copy->skip && copy->count < COLD_KEYS_IDS_MAX)
            copy->ids[copy->count++] = ids[i];
    shard->stats.unreadable += damaged;
    if (result != 0 && !damaged) {
        copy->active = false; /* the links still wait: another round */
        copy->asked = true;
        copy->next_ns = shard->now_ns + COLD_KEYS_REST_NS;
    }
    copy->listing = result == 0 && !last;
    return true;
}

/* ---- their states ---------------------------------------------------------------------------- */

/* Links whose replica is gone are left out; if it comes back, it waits for another round. */
static void drop_links(struct shard *shard)
{
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if (!stream_hears(shard, shard->cold_keys.vnode, link))
            shard->cold_keys.links &= (uint8_t)~bit_of(link);
}

static bool all_have_room(const struct shard *shard, const struct effects *effects)
{
    if (!handoff_allowed(shard))
        return false;
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if ((shard->cold_keys.links & bit_of(link)) != 0 &&
            !stream_has_room(shard, shard->cold_keys.vnode, link, effects))
            return false;
    return true;
}

static void send_state(struct shard *shard, struct hash128 id, const uint8_t *state, size_t len,
                       struct effects *effects)
{
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if ((shard->cold_keys.links & bit_of(link)) != 0)
            stream_put_state(shard, shard->cold_keys.vnode, link, id, state, len, effects);
}

/* Sends the slot if it is in memory (COLDKEYS-2). */
static bool send_from_memory(struct shard *shard, struct hash128 id, struct effects *effects)
{
    const uint32_t slot = table_lookup(shard->table, id);
    if (slot == TABLE_NONE)
        return false;
    const int len = table_export(shard->table, slot, shard->state, sizeof shard->state);
    ASSERT(len >= 0);
    send_state(shard, id, shard->state, (size_t)len, effects);
    return true;
}

static void take_next(struct shard *shard, struct effects *effects)
{
    struct cold_keys *copy = &shard->cold_keys;
    ASSERT(copy->next < copy->count && copy->out_count < COLD_KEYS_WINDOW); /* COLDKEYS-5 */
    const struct hash128 id = copy->ids[copy->next++];
    if (send_from_memory(shard, id, effects))
        return;
    copy->out[copy->out_count++] = id;
    struct effect *effect = effects_add(effects, EFFECT_LOAD);
    effect->vnode = copy->vnode;
    effect->id = id;
}

/* Asks for as many as may be out. */
static void take_more(struct shard *shard, struct effects *effects)
{
    struct cold_keys *copy = &shard->cold_keys;
    while (copy->next < copy->count && copy->out_count < COLD_KEYS_WINDOW &&
           shard->now_ns >= copy->next_ns && all_have_room(shard, effects))
        take_next(shard, effects);
}

/* The disk refused a read, or nothing of what was read can be sent now: it is read again. */
static void again(struct shard *shard, struct hash128 id, bool refused)
{
    struct cold_keys *copy = &shard->cold_keys;
    ASSERT(copy->next > 0); /* it was taken from there */
    copy->ids[--copy->next] = id;
    if (!refused || shard->now_ns < copy->next_ns)
        return;
    copy->rest_ns = copy->rest_ns == 0 ? COLD_KEYS_REST_MIN_NS : 2 * copy->rest_ns;
    if (copy->rest_ns > COLD_KEYS_REST_NS)
        copy->rest_ns = COLD_KEYS_REST_NS;
    copy->next_ns = shard->now_ns + copy->rest_ns;
}

bool cold_keys_loaded(struct shard *shard, struct hash128 id, int result, const uint8_t *state,
                      size_t len, struct effects *effects)
{
    struct cold_keys *copy = &shard->cold_keys;
    uint32_t at = 0;
    while (at < copy->out_count && !hash128_equal(copy->out[at], id))
        at++;
    if (at == copy->out_count)
        return false;
    copy->out[at] = copy->out[--copy->out_count];
    if (!copy->active)
        return true;
    drop_links(shard);
    const bool damaged = is_damaged(shard, result);
    const bool refused = result != 0 && result != TG_ENOTFOUND && !damaged;
    shard->stats.unreadable += damaged;
    if (!refused)
        copy->rest_ns = 0;
    if (refused || !all_have_room(shard, effects))
        again(shard, id, refused);
    else if (!send_from_memory(shard, id, effects) && result == 0)
        send_state(shard, id, state, len, effects);
    take_more(shard, effects);
    return true;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void finish(struct shard *shard)
{
    struct cold_keys *copy = &shard->cold_keys;
    ASSERT(copy->active && copy->next == copy->count); /* COLDKEYS-1 */
    for (uint32_t link = 0; link < SHARD_REPLICAS_OTHER; link++)
        if ((copy->links & bit_of(link)) != 0)
            shard->vnodes[copy->vnode].links[link].copy_due = false;
    copy->active = false;
    shard->stats.disk_copies++;
}

void cold_keys_tick(struct shard *shard, struct effects *effects)
{
    struct cold_keys *copy = &shard->cold_keys;
    if (copy->listing || shard->now_ns < copy->next_ns)
        return;
    if (!copy->active) {
        if (copy->asked && copy->out_count == 0 && !shard->filter_rebuild.listing)
            choose(shard, effects);
        return;
    }
    drop_links(shard);
    if (copy->links == 0) {
        copy->active = false;
        return;
    }
    take_more(shard, effects);
    if (copy->next < copy->count || copy->out_count > 0)
        return;
    copy->skip += copy->count;
    if (copy->listed > copy->skip && !shard->filter_rebuild.listing)
        list(shard, effects); /* it was cut short */
    else if (copy->listed <= copy->skip)
        finish(shard);
}

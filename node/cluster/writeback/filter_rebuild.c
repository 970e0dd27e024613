/* filter_rebuild.c - keeps the filters of what may be on disk sharp, one vnode at a time.
 *
 * A filter (node/limit/table/filter.h) only ever gains keys, so in a long run it fills up with keys
 * whose records have expired, until every new key costs a load that finds nothing. Now and then the
 * slice of a vnode is therefore made anew from what the disk really holds:
 *
 *      tick: fill >= bar --> rebuild begins --> EFFECT_LIST --> (disk lists the vnode's ids)
 *                                                                    |
 *      next vnode <-- rest <-- new slice in place <-- last piece <-- shard_listed, piece by piece
 *                       \----- old slice kept <------ an error <----/
 *
 * The bar of a vnode starts at FILTER_REBUILD_FILL_MIN. After a refresh it lies a quarter of the
 * way from what was left to a full slice: a slice full of keys that do live on disk is not listed
 * over and over. Each look that finds the slice below its bar lowers the bar by one, so that in the
 * end records that expired meanwhile are noticed though nothing was added. A round of looks over
 * all vnodes takes FILTER_REBUILD_ROUND_NS at least.
 *
 * REBUILD-1  The rebuild begins before the disk is read. What was evicted before was committed
 *            before, so the listing has it; what is evicted from then on goes to both slices
 *            (FILTER-2).
 * REBUILD-2  One listing is out at a time; its pieces are counted on to come, the last one or an
 *            error ends it. If the vnode is removed meanwhile, the rebuild is off and the rest is
 *            ignored.
 * REBUILD-4  The cursor goes round this shard's vnodes of the first plane alone.
 * REBUILD-3  A key that is in memory when its id is listed is left out: it goes to the filter when
 *            it is evicted. So a slice holds the keys that are on disk alone.
 *
 * Must not read the disk or keep an id.
 */
#include "base/assert.h"
#include "node/cluster/shard_state.h"

enum {
    FILTER_REBUILD_FILL_MIN = 300, /* permille: below it, fewer than 1 in 100 questions are wrong */
    FILTER_REBUILD_FILL_FULL = 1000,
    FILTER_REBUILD_LOOKS = 4, /* vnodes looked at by one tick */
};
#define FILTER_REBUILD_REST_NS  (50 * MS)   /* between two listings */
#define FILTER_REBUILD_ROUND_NS (5000 * MS) /* between two looks at one vnode, at least */

/* The next vnode of this shard, round and round; false while the next round is not due. */
static bool next_vnode(struct shard *shard, uint32_t *number)
{
    if (shard->filter_rebuild.cursor == shard->options.shard) {
        if (shard->now_ns < shard->filter_rebuild.round_ns)
            return false;
        shard->filter_rebuild.round_ns = shard->now_ns + FILTER_REBUILD_ROUND_NS;
    }
    *number = shard->filter_rebuild.cursor;
    shard->filter_rebuild.cursor += shard->options.shards;
    if (shard->filter_rebuild.cursor >= shard->options.vnodes)
        shard->filter_rebuild.cursor = shard->options.shard;
    return true;
}

static bool worth_it(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    if (vnode->filter_rebuild_bar < FILTER_REBUILD_FILL_MIN)
        vnode->filter_rebuild_bar = FILTER_REBUILD_FILL_MIN;
    if (table_filter_fill_permille(shard->table, number) >= vnode->filter_rebuild_bar)
        return true;
    vnode->filter_rebuild_bar--;
    return false;
}

void filter_rebuild_tick(struct shard *shard, struct effects *effects)
{
    if (shard->options.ephemeral || shard->filter_rebuild.listing || shard->cold_keys.listing ||
        shard->now_ns < shard->filter_rebuild.next_ns ||
        shard->options.shard >= shard->options.vnodes)
        return;
    uint32_t number;
    for (uint32_t i = 0; i < FILTER_REBUILD_LOOKS && next_vnode(shard, &number); i++) {
        if (!worth_it(shard, number))
            continue;
        const int begun = table_filter_rebuild_begin(shard->table, number); /* REBUILD-1 */
        ASSERT(begun == 0);                                                 /* REBUILD-2 */
        shard->filter_rebuild.listing = true;
        shard->filter_rebuild.vnode = number;
        effects_add(effects, EFFECT_LIST)->vnode = number;
        return;
    }
}

/* The listing is over; sets the bar from what the new slice holds. */
static void end(struct shard *shard, int64_t now_ns)
{
    const uint32_t number = shard->filter_rebuild.vnode;
    table_filter_rebuild_end(shard->table);
    const uint32_t fill = table_filter_fill_permille(shard->table, number);
    shard->vnodes[number].filter_rebuild_bar =
        (uint16_t)(fill + (FILTER_REBUILD_FILL_FULL - fill) / 4);
    shard->filter_rebuild.listing = false;
    shard->filter_rebuild.next_ns = now_ns + FILTER_REBUILD_REST_NS;
    shard->stats.filter_refreshes++;
}

void shard_listed(struct shard *shard, int64_t now_ns, uint32_t vnode, const struct hash128 *ids,
                  size_t count, bool last, int result)
{
    if (cold_keys_listed(shard, vnode, ids, count, last, result))
        return;
    ASSERT(shard->filter_rebuild.listing && shard->filter_rebuild.vnode == vnode); /* REBUILD-2 */
    if (result != 0) {
        table_filter_rebuild_abort(shard->table);
        shard->filter_rebuild.listing = false;
        shard->filter_rebuild.next_ns = now_ns + FILTER_REBUILD_REST_NS;
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (table_lookup(shard->table, ids[i]) == TABLE_NONE) /* REBUILD-3 */
            table_filter_rebuild_add(shard->table, ids[i]);
    if (last)
        end(shard, now_ns);
}

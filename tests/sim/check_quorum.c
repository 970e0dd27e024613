/* check_quorum.c - what a node says about keys that majorities keep, against its disk.
 *
 * A majority is only as good as the journals behind it. Whether one of them lied shows in a history
 * only when just the wrong nodes crash at just the wrong moment; so each word is held to the disk
 * at the moment it is given.
 *
 * SIMQUORUM-1  A ballot that a node says is promised is on its disk, as a promise or as the term of
 *              what it accepted. What it says it holds is on its disk: a header of that term and as
 *              far, or, when nothing but the seq differs, the slots that are in memory.
 * SIMQUORUM-2  When a ballot is opened, a majority of the vnode's replicas has promised it on disk,
 *              or a higher one; while the ring changes, of those by the old configuration and of
 *              those by the new one. Where an operator forced the change, those by the new one are
 *              enough (QUORUM-11). A disk of which an old copy was restored has forgotten promises:
 *              after that this is not judged, as SIMHISTORY-1 is not.
 */
#include <string.h>

#include "node/cluster/shard/test_probe.h"
#include "node/cluster/wire/peer_wire.h"
#include "ring/config.h"
#include "tests/sim/sim.h"

enum { STATE_MAX = 4096 };

/* Whether the node's disk has promised that ballot, or a higher one. */
static bool has_promised(const struct node *node, uint32_t vnode, const struct term *ballot)
{
    const struct disk_content *now = &node->disk.now;
    return term_compare(&now->promises[vnode], ballot) >= 0 ||
           (now->has_header[vnode] && term_compare(&now->headers[vnode].state, ballot) >= 0);
}

static bool majority_promised(const struct sim *sim, const struct ring_table *ring, uint32_t vnode,
                              const struct term *ballot)
{
    uint32_t count;
    uint32_t have = 0;
    const uint16_t *list = ring_replicas(ring, vnode - sim->vnodes, &count);
    for (uint32_t i = 0; i < count; i++) {
        const int at = node_by_id(sim, ring_member_id(ring, list[i]));
        have += at >= 0 && has_promised(&sim->nodes[at], vnode, ballot);
    }
    return have > count / 2;
}

/* The sets of a ballot are those of the configuration whose epoch it carries (QUORUM-9). */
static void check_opened(struct sim *sim, const struct node *node, uint32_t vnode,
                         const struct term *ballot)
{
    const struct view *view = node->view;
    if (view == NULL || ballot->epoch != view->epoch || sim->coverage.snapshots > 0)
        return;
    const bool joint = !view->stable && !ring_config_epoch_forced(view->epoch);
    if (!majority_promised(sim, &view->to, vnode, ballot) ||
        (joint && !majority_promised(sim, &view->from, vnode, ballot)))
        sim_fail(sim, "node %u opens a ballot of vnode %u without a majority of promises on disk",
                 node->index, vnode); /* SIMQUORUM-2 */
}

void check_ballots(struct sim *sim, struct node *node, uint8_t shard)
{
    for (uint32_t place = shard; place < sim->vnodes; place += node->shard_count) {
        struct term term;
        const uint32_t vnode = sim->vnodes + place;
        if (shard_vnode(node->shards[shard], vnode, &term) != SHARD_LEADING ||
            term_compare(&term, &node->ballots[place]) == 0)
            continue;
        node->ballots[place] = term;
        sim->ballots_ns[place] = sim->now_ns;
        check_opened(sim, node, vnode, &term);
    }
}

static void check_promise(struct sim *sim, const struct node *node, const struct peer_vnode *entry)
{
    if (!has_promised(node, entry->vnode, &entry->term)) {
        sim_fail(sim,
                 "node %u says that it promised a ballot of vnode %u, and its disk does not know",
                 node->index, entry->vnode); /* SIMQUORUM-1 */
    }
}

/* Whether the disk has the slots of that vnode that are in memory, those of counted keys. */
static bool slots_kept(const struct sim *sim, const struct node *node, uint32_t vnode)
{
    uint8_t state[STATE_MAX];
    const struct shard *shard = node->shards[vnode % sim->vnodes % node->shard_count];
    for (uint32_t i = 0; i < sim->key_count; i++) {
        const struct key *key = &sim->keys[i];
        if (key->kind != KEY_QUORUM || key->vnode + sim->vnodes != vnode)
            continue;
        const int len = probe_slot(shard, key->id, state, sizeof state);
        const struct disk_record *record = disk_find(&node->disk, vnode, key->id);
        if (len > 0 && (record == NULL || record->len != (uint32_t)len ||
                        memcmp(record->state, state, record->len) != 0))
            return false;
    }
    return true;
}

static void check_held(struct sim *sim, const struct node *node, const struct peer_vnode *entry)
{
    const struct disk_content *now = &node->disk.now;
    const struct shard_write_header *header = &now->headers[entry->vnode];
    if (!now->has_header[entry->vnode] || term_compare(&header->state, &entry->state) != 0 ||
        (header->seq < entry->seq && !slots_kept(sim, node, entry->vnode)))
        sim_fail(sim, "node %u says that it holds vnode %u up to %llu, and its disk does not",
                 node->index, entry->vnode, (unsigned long long)entry->seq); /* SIMQUORUM-1 */
}

void check_word(struct sim *sim, const struct node *node, const uint8_t *bytes, size_t len)
{
    struct peer_envelope envelope;
    struct peer_record record;
    struct bytes_reader reader;
    if (peer_decode(bytes, len, &envelope) != 0)
        return;
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (peer_next(&reader, 2 * sim->vnodes, &record) == 1) {
        if (record.type == PEER_REPORT && record.vnode.vnode >= sim->vnodes &&
            (record.vnode.flags & ENTRY_PROMISED) != 0)
            check_promise(sim, node, &record.vnode);
        if (record.type == PEER_HELD && record.vnode.vnode >= sim->vnodes)
            check_held(sim, node, &record.vnode);
    }
}

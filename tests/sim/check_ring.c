/* check_ring.c - what must hold of the ring configuration of each region, whoever proposes it.
 *
 * SIMRING-1  Agreement: two nodes that are at one epoch are of one configuration, for ever. Epochs
 *            of a lineage rise by one: nobody is at an epoch of which the one before was never in
 *            force.
 * SIMRING-2  When an epoch is first in force anywhere, a majority of its own voters has it on disk,
 *            as the configuration or as what was accepted for it; but for the first of a lineage,
 *            which is forced.
 *
 * SIMRING-3  What a voter promises or accepts is on its disk before it says so.
 *
 * A disk of which an old copy was restored breaks its promises: after that SIMRING-2 is not judged.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mp.h"
#include "node/cluster/consensus/register_wire.h"
#include "tests/sim/sim.h"

enum { CONFIG_LEN_MAX = 1 << 16, RECORD_TOKENS = 16 };

/* What a voter has on disk of a register: all zero if there is nothing. */
struct record {
    uint64_t epoch;
    struct register_ballot promised;
    struct register_ballot accepted;
};

static void read_ballot(struct mp_cursor *cursor, struct register_ballot *ballot)
{
    ballot->number = mp_get_uint(cursor);
    ballot->node = mp_get_uint(cursor);
    ballot->boot = mp_get_uint(cursor);
}

static struct record read_record(const struct node *node, bool settings)
{
    const struct disk_meta stored =
        disk_get_meta(&node->disk, settings ? "settings.register" : "ring.register");
    struct record record = {.epoch = 0};
    struct mp_token tokens[RECORD_TOKENS];
    struct mp_cursor cursor;
    if (stored.bytes == NULL)
        return record;
    const int count = mp_parse(stored.bytes, stored.len, tokens, RECORD_TOKENS);
    ASSERT(count > 0);
    mp_cursor_init(&cursor, tokens, (size_t)count);
    (void)mp_get_array(&cursor);
    (void)mp_get_uint(&cursor);
    record.epoch = mp_get_uint(&cursor);
    read_ballot(&cursor, &record.promised);
    read_ballot(&cursor, &record.accepted);
    ASSERT(!cursor.failed);
    return record;
}

/* Whether the node has accepted a value for `epoch`. */
static bool has_accepted(const struct node *node, uint64_t epoch)
{
    const struct record record = read_record(node, false);
    return record.epoch == epoch && record.accepted.number != 0;
}

void check_vote(struct sim *sim, const struct node *node, const uint8_t *bytes, size_t len)
{
    struct register_frame frame;
    if (register_wire_decode(bytes, len, &frame) != 0 ||
        (frame.message.type != REGISTER_PROMISE && frame.message.type != REGISTER_ACCEPTED))
        return;
    const bool promises = frame.message.type == REGISTER_PROMISE;
    const struct record record = read_record(node, frame.settings);
    const struct register_ballot *kept = promises ? &record.promised : &record.accepted;
    if (record.epoch != frame.message.epoch ||
        register_ballot_compare(kept, &frame.message.ballot) < 0)
        sim_fail(sim, "node %u says that it %s for epoch %llu, and its disk does not know",
                 node->index, promises ? "promises" : "accepts",
                 (unsigned long long)frame.message.epoch); /* SIMRING-3 */
}

/* The epoch of a stored configuration. */
static uint64_t stored_epoch(const struct disk_meta *config)
{
    struct mp_cursor cursor;
    struct mp_token *tokens;
    if (config->bytes == NULL)
        return 0;
    tokens = calloc(config->len, sizeof *tokens); /* a value takes a byte at least */
    ASSERT(tokens != NULL);
    const int count = mp_parse(config->bytes, config->len, tokens, config->len);
    ASSERT(count > 0);
    mp_cursor_init(&cursor, tokens, (size_t)count);
    (void)mp_get_array(&cursor);
    (void)mp_get_uint(&cursor);
    const uint64_t epoch = mp_get_uint(&cursor);
    ASSERT(!cursor.failed);
    free(tokens);
    return epoch;
}

static bool any_rewound(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].rewound)
            return true;
    return false;
}

/* SIMRING-2. */
static void check_durable(struct sim *sim, const struct node *node,
                          const struct ring_config *config)
{
    uint32_t holders = 0;
    for (uint32_t v = 0; v < config->voters_count; v++) {
        const int at = node_by_id(sim, config->voters[v]);
        if (at < 0)
            continue;
        const struct disk_meta stored = disk_get_meta(&sim->nodes[at].disk, "ring.config");
        holders +=
            stored_epoch(&stored) >= config->epoch || has_accepted(&sim->nodes[at], config->epoch);
    }
    if (holders < config->voters_count / 2 + 1)
        sim_fail(sim, "node %u is at epoch %llu, which %u of its %u voters have on disk",
                 node->index, (unsigned long long)config->epoch, holders, config->voters_count);
}

static uint64_t digest_of(const struct ring_config *config)
{
    static uint8_t bytes[CONFIG_LEN_MAX];
    const int len = ring_config_encode(config, bytes, sizeof bytes);
    ASSERT(len > 0);
    uint64_t digest = (uint64_t)len;
    for (int i = 0; i < len; i++)
        digest = hash_mix64(digest ^ bytes[i]);
    return digest;
}

static const struct ring_past *past_of(const struct sim *sim, uint32_t region, uint64_t epoch)
{
    for (uint32_t i = 0; i < sim->past_count; i++)
        if (sim->past[i].region == region && sim->past[i].epoch == epoch)
            return &sim->past[i];
    return NULL;
}

void check_ring(struct sim *sim, struct node *node)
{
    const struct ring_config *config = control_config(node->control);
    if (config->epoch == node->ring_epoch || config->epoch == 0)
        return;
    node->ring_epoch = config->epoch;
    const uint64_t digest = digest_of(config);
    const uint32_t region = node_region(sim, node);
    const struct ring_past *past = past_of(sim, region, config->epoch);
    if (past != NULL && past->digest != digest)
        sim_fail(sim, "node %u is at epoch %llu with another configuration than others were",
                 node->index, (unsigned long long)config->epoch);
    if (past != NULL)
        return;
    const bool first = (uint32_t)config->epoch == 1;
    if (!first && sim->past_count > 0 && past_of(sim, region, config->epoch - 1) == NULL)
        sim_fail(sim, "node %u is at epoch %llu, and nobody was at the one before", node->index,
                 (unsigned long long)config->epoch);
    if (!first && !any_rewound(sim))
        check_durable(sim, node, config);
    ASSERT(sim->past_count < SIM_PAST_MAX);
    sim->past[sim->past_count++] = (struct ring_past){region, config->epoch, digest};
    sim->coverage.ring_changes++;
    sim->coverage.lineages += first && config->epoch > 1;
}

/* support_shard.c - the laboratory of shards; support_shard.h tells how it works. */
#include "tests/unit/support_shard.h"
#include "node/cluster/shard_state.h"
#include "node/policy/compile/policy_compile.h"
#include "node/zones/zones.h"
#include "tests/unit/support_effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support_disk.h"

enum { FRAMES_MAX = 1 << 16, REPLIES_MAX = 1 << 14, RETRY_LIMIT_MS = 20000 };

/* Tests read tokens and names in order, so ids grow with the node's number. */
static uint64_t node_id(uint32_t node)
{
    return 0x1000 + node;
}

static void *copy_of(const void *bytes, size_t len)
{
    void *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    return copy;
}

/* ---- making one ------------------------------------------------------------------------------ */

static struct lab_journal *journal_new(void)
{
    struct lab_journal *journal = calloc(1, sizeof *journal);
    assert_non_null(journal);
    journal->batch = (struct shard_journal){
        .records = journal->records,
        .capacity = sizeof journal->records / sizeof *journal->records,
        .bytes = journal->bytes,
        .bytes_capacity = sizeof journal->bytes,
    };
    return journal;
}

static void journal_free(struct lab_journal *journal)
{
    for (size_t i = 0; i < journal->slot_count; i++)
        free(journal->slots[i].bytes);
    free(journal->slots);
    free(journal);
}

void lab_member(struct ring_member *member, uint32_t node)
{
    char name[16];
    char zone[16];
    (void)snprintf(name, sizeof name, "n%u", node);
    (void)snprintf(zone, sizeof zone, "z%u", node);
    assert_int_equal(ring_member_init(member, node_id(node), name, zone, RING_WEIGHT_DEFAULT), 0);
}

/* Of nodes first .. end - 1. */
static void make_config(struct lab *lab, uint32_t first, uint32_t end, uint32_t replicas,
                        struct ring_config *config)
{
    struct ring_member member;
    lab_member(&member, first);
    assert_int_equal(ring_config_init(config, &member, LAB_VNODES, replicas), 0);
    for (uint32_t node = first + 1; node < end; node++) {
        lab_member(&member, node);
        assert_int_equal(ring_config_add(lab->config_next, config, &member), 0);
        assert_int_equal(ring_config_settle(config, lab->config_next), 0);
    }
}

void lab_regions(struct lab *lab, uint32_t region_nodes, uint32_t replicas, int64_t wan_ns)
{
    assert_int_equal(lab->nodes % region_nodes, 0);
    lab->region_nodes = region_nodes;
    lab->wan_ns = wan_ns;
    for (uint32_t first = 0; first < lab->nodes; first += region_nodes) {
        struct ring_config **config = &lab->region_configs[first / region_nodes];
        *config = calloc(1, sizeof **config);
        assert_non_null(*config);
        make_config(lab, first, first + region_nodes, replicas, *config);
    }
}

static uint32_t region_of(const struct lab *lab, uint32_t node)
{
    return lab->region_nodes == 0 ? 0 : node / lab->region_nodes;
}

struct lab *lab_new(uint32_t nodes, uint32_t shards_each, uint32_t replicas)
{
    struct lab *lab = calloc(1, sizeof *lab);
    assert_non_null(lab);
    assert_true(nodes * shards_each <= LAB_SHARDS_MAX);
    lab->now_ns = LAB_START_NS;
    lab->nodes = nodes;
    lab->shards_each = shards_each;
    lab->count = nodes * shards_each;
    lab->config = calloc(1, sizeof *lab->config);
    lab->config_next = calloc(1, sizeof *lab->config_next);
    lab->frames = calloc(FRAMES_MAX, sizeof *lab->frames);
    lab->replies = calloc(REPLIES_MAX, sizeof *lab->replies);
    assert_true(lab->config != NULL && lab->config_next != NULL);
    assert_true(lab->frames != NULL && lab->replies != NULL);
    assert_int_equal(effects_init(&lab->effects, alloc_heap()), 0);
    make_config(lab, 0, lab->nodes, replicas, lab->config);
    for (uint32_t at = 0; at < lab->count; at++) {
        struct shard_options *options = &lab->shards[at].options;
        shard_options_default(options);
        lab->shards[at].node = node_id(at / shards_each);
        lab->shards[at].journal = journal_new();
        options->node_id = lab->shards[at].node;
        options->shard = (uint16_t)(at % shards_each);
        options->shards = (uint16_t)shards_each;
        options->vnodes = LAB_VNODES;
        options->memory_bytes = 4 << 20;
        memset(options->secret.bytes, 3, sizeof options->secret.bytes);
        memset(options->route_key.bytes, 5, sizeof options->route_key.bytes);
        memset(options->cluster_id, 9, sizeof options->cluster_id);
        (void)snprintf(options->name, sizeof options->name, "n%u", at / shards_each);
        (void)snprintf(options->version, sizeof options->version, "1.2.3");
    }
    wire_checks_builder_init(&lab->builder, lab->values, sizeof lab->values);
    bytes_writer_init(&lab->records, lab->record_bytes, sizeof lab->record_bytes);
    return lab;
}

void lab_free(struct lab *lab)
{
    for (uint32_t at = 0; at < lab->count; at++) {
        lab_stop(lab, at);
        journal_free(lab->shards[at].journal);
    }
    for (size_t i = 0; i < lab->frame_count; i++)
        free(lab->frames[i].bytes);
    for (size_t i = 0; i < lab->reply_count; i++)
        free(lab->replies[i].bytes);
    for (uint32_t i = 0; i < lab->policy_count; i++)
        policy_free(&lab->policies[i]);
    effects_fini(&lab->effects);
    free(lab->replies);
    free(lab->frames);
    free(lab->config_next);
    free(lab->config);
    for (uint32_t i = 0; i < LAB_SHARDS_MAX; i++)
        free(lab->region_configs[i]);
    free(lab);
}

/* ---- effects --------------------------------------------------------------------------------- */

static uint32_t shard_at(const struct lab *lab, uint64_t node, uint16_t shard)
{
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].node == node && lab->shards[at].options.shard == shard)
            return at;
    fail_msg("no shard %u of node %llx", shard, (unsigned long long)node);
    return LAB_NONE;
}

/* ---- journals -------------------------------------------------------------------------------- */

static void journal_drop(struct lab_journal *journal, uint32_t vnode)
{
    if (term_compare(&journal->state[vnode], &journal->promised[vnode]) > 0)
        journal->promised[vnode] = journal->state[vnode];
    memset(&journal->state[vnode], 0, sizeof journal->state[vnode]);
    journal->seq[vnode] = 0; /* its promise stays */
    for (size_t i = journal->slot_count; i-- > 0;)
        if (journal->slots[i].vnode == vnode) {
            free(journal->slots[i].bytes);
            journal->slots[i] = journal->slots[--journal->slot_count];
        }
}

static void journal_put_slot(struct lab_journal *journal, const struct shard_journal_record *record)
{
    size_t i = 0;
    while (i < journal->slot_count && (journal->slots[i].vnode != record->vnode ||
                                       !hash128_equal(journal->slots[i].id, record->id)))
        i++;
    if (i == journal->slot_count) {
        journal->slots = realloc(journal->slots, ++journal->slot_count * sizeof *journal->slots);
        assert_non_null(journal->slots);
        journal->slots[i] = (struct lab_slot){.vnode = record->vnode, .id = record->id};
    }
    free(journal->slots[i].bytes);
    journal->slots[i].bytes = copy_of(journal->bytes + record->offset, record->len);
    journal->slots[i].len = record->len;
}

static void journal_write(struct lab_journal *journal)
{
    for (uint32_t i = 0; i < journal->batch.count; i++) {
        const struct shard_journal_record *record = &journal->records[i];
        if (record->kind == JOURNAL_SLOT) {
            journal_put_slot(journal, record);
        } else if (record->kind == JOURNAL_HEADER) {
            journal->state[record->vnode] = record->term;
            journal->seq[record->vnode] = record->seq;
        } else if (term_compare(&record->term, &journal->promised[record->vnode]) > 0) {
            journal->promised[record->vnode] = record->term;
        }
    }
}

void lab_journal_end(struct lab *lab, uint32_t at, bool ok)
{
    struct lab_journal *journal = lab->shards[at].journal;
    if (!journal->out)
        return;
    journal->out = false;
    if (ok)
        journal_write(journal);
    shard_journaled(lab->shards[at].shard, lab->now_ns, ok, &lab->effects);
    lab_perform(lab, at);
}

static void journal_step(struct lab *lab, uint32_t at)
{
    struct lab_shard *it = &lab->shards[at];
    struct lab_journal *journal = it->journal;
    if (journal->out && it->journal_ns >= 0 && lab->now_ns >= journal->done_ns)
        lab_journal_end(lab, at, !it->journal_fails);
    if (journal->out || !shard_journal_due(it->shard))
        return;
    shard_journal_gather(it->shard, lab->now_ns, &journal->batch);
    journal->out = true;
    journal->done_ns = lab->now_ns + it->journal_ns;
    if (it->journal_ns == 0)
        lab_journal_end(lab, at, !it->journal_fails);
}

static void journal_restore(struct lab *lab, uint32_t at)
{
    const struct lab_journal *journal = lab->shards[at].journal;
    struct shard *shard = lab->shards[at].shard;
    for (uint32_t vnode = LAB_VNODES; vnode < 2 * LAB_VNODES; vnode++) {
        if (!term_is_none(&journal->promised[vnode]))
            shard_restore_promise(shard, vnode, &journal->promised[vnode]);
        if (!term_is_none(&journal->state[vnode]))
            shard_restore_vnode(shard, vnode, &journal->state[vnode], journal->seq[vnode]);
    }
    for (size_t i = 0; i < journal->slot_count; i++)
        assert_int_equal(shard_restore_slot(shard, journal->slots[i].vnode, journal->slots[i].id,
                                            journal->slots[i].bytes, journal->slots[i].len,
                                            lab->now_ns),
                         0);
}

/* ---- effects --------------------------------------------------------------------------------- */

/* A frame leaves shard `at`. */
static void post_frame(struct lab *lab, uint32_t at, const struct effect *effect)
{
    const uint32_t to = shard_at(lab, effect->target, effect->shard);
    const bool far = region_of(lab, at / lab->shards_each) != region_of(lab, to / lab->shards_each);
    assert_true(lab->frame_count < FRAMES_MAX);
    lab->frames[lab->frame_count++] = (struct lab_frame){
        .from = at,
        .to = to,
        .due_ns = lab->now_ns + (far ? lab->wan_ns : 0),
        .len = effect->len,
        .bytes = copy_of(effect->bytes, effect->len),
    };
}

/* Shard `at` answers a client. */
static void take_reply(struct lab *lab, uint32_t at, const struct effect *effect)
{
    char error[WIRE_ERROR_LEN];
    struct wire_envelope envelope;
    assert_true(lab->reply_count < REPLIES_MAX);
    assert_int_equal(effect->target, LAB_CONNECTION + at);
    assert_int_equal(wire_peek(effect->bytes, effect->len, &envelope, error), 0);
    lab->replies[lab->reply_count++] = (struct lab_reply){
        .at = at,
        .seq = envelope.seq,
        .type = envelope.type,
        .len = effect->len,
        .bytes = copy_of(effect->bytes, effect->len),
    };
}

static void take_effect(struct lab *lab, uint32_t at, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_SEND_PEER:
        post_frame(lab, at, effect);
        break;
    case EFFECT_SEND_CLIENT:
        take_reply(lab, at, effect);
        break;
    case EFFECT_LOAD:
        if (lab->disks != NULL) {
            disks_load(lab, at, effect->vnode, effect->id);
            break;
        }
        assert_true(lab->load_count < sizeof lab->loads / sizeof *lab->loads);
        lab->loads[lab->load_count++] = (struct lab_load){at, effect->vnode, effect->id};
        break;
    case EFFECT_LIST:
        if (lab->disks != NULL) {
            disks_list(lab, at, effect->vnode);
            break;
        }
        assert_true(lab->list_count < sizeof lab->lists / sizeof *lab->lists);
        lab->lists[lab->list_count++] = (struct lab_load){.at = at, .vnode = effect->vnode};
        break;
    case EFFECT_ADMIN:
        lab->admin_count++;
        break;
    case EFFECT_DROP_VNODE:
        lab->dropped_vnodes++;
        if (effect->vnode >= LAB_VNODES)
            journal_drop(lab->shards[at].journal, effect->vnode);
        else if (lab->disks != NULL)
            disks_drop(lab, at, effect->vnode);
        break;
    case EFFECT_META:
    case EFFECT_JOINED:
    case EFFECT_INCARNATION:
    case EFFECT_SEND_GOSSIP:
        fail_msg("a shard has no such effect: %d", effect->kind);
    }
}

void lab_perform(struct lab *lab, uint32_t at)
{
    for (size_t i = 0; i < lab->effects.count; i++)
        take_effect(lab, at, &lab->effects.items[i]);
    effects_clear(&lab->effects);
    if (!lab->large && lab->performed++ % EFFORT_STRIDE == 0)
        shard_check_invariants(lab->shards[at].shard); /* LABSHARD-2 */
}

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_member(struct view_member *member, uint32_t node, uint16_t shards)
{
    member->state = VIEW_ALIVE;
    member->shards = shards;
    (void)snprintf(member->name, sizeof member->name, "n%u", node);
    (void)snprintf(member->client, sizeof member->client, "10.0.0.%u:7410", node + 1);
}

static struct view *make_view(struct lab *lab, uint32_t at)
{
    struct view_member members[LAB_SHARDS_MAX + LAB_REMOTE_MAX];
    struct view *view;
    memset(members, 0, sizeof members);
    for (uint32_t node = 0; node < lab->nodes; node++) {
        members[node].id = node_id(node);
        fill_member(&members[node], node, (uint16_t)lab->shards_each);
        members[node].state = lab->dead[node] ? VIEW_DEAD : VIEW_ALIVE;
        if (lab->region_nodes != 0)
            (void)snprintf(members[node].region, sizeof members[node].region, "r%u",
                           region_of(lab, node));
    }
    for (uint32_t i = 0; i < lab->remote; i++) {
        struct view_member *member = &members[lab->nodes + i];
        member->id = LAB_REMOTE + i;
        fill_member(member, lab->nodes + i, (uint16_t)lab->shards_each);
        (void)snprintf(member->region, sizeof member->region, "abroad");
    }
    const struct ring_config *own = lab->region_configs[region_of(lab, at / lab->shards_each)];
    assert_int_equal(view_new(alloc_heap(), ++lab->view_version, members, lab->nodes + lab->remote,
                              lab->shards[at].node, own != NULL ? own : lab->config, &view),
                     0);
    view->regions.count = lab->regions_known;
    for (uint32_t i = 0; i < lab->regions_known; i++)
        (void)snprintf(view->regions.names[i], sizeof view->regions.names[i], "r%u", i);
    return view;
}

void lab_create(struct lab *lab, uint32_t at)
{
    struct lab_shard *it = &lab->shards[at];
    assert_null(it->shard);
    it->options.boot = ++lab->next_boot;
    it->options.incarnation = it->options.boot;
    assert_int_equal(shard_new(alloc_heap(), &it->options, lab->now_ns, &it->shard), 0);
    journal_restore(lab, at);
    if (lab->disks != NULL)
        disks_restore(lab, at);
}

static void give_view(struct lab *lab, uint32_t at)
{
    struct lab_shard *it = &lab->shards[at];
    struct view *old = it->view;
    it->view = make_view(lab, at);
    shard_view(it->shard, lab->now_ns, it->view, &lab->effects);
    lab_perform(lab, at);
    view_free(&old);
}

void lab_view(struct lab *lab, uint32_t at)
{
    give_view(lab, at);
}

void lab_closed(struct lab *lab, uint32_t gone)
{
    const struct lab_shard *it = &lab->shards[gone];
    for (uint32_t at = 0; at < lab->count; at++) {
        if (at == gone || lab->shards[at].shard == NULL || lab->shards[at].view == NULL)
            continue;
        shard_peer_closed(lab->shards[at].shard, lab->now_ns, it->node, it->options.shard, false,
                          &lab->effects);
        lab_perform(lab, at);
    }
}

void lab_start(struct lab *lab, uint32_t at)
{
    if (lab->shards[at].options.boot != 0)
        lab_closed(lab, at); /* those of the process before are, when another one is there */
    lab_create(lab, at);
    give_view(lab, at);
}

void lab_start_all(struct lab *lab)
{
    for (uint32_t at = 0; at < lab->count; at++)
        lab_start(lab, at);
    lab_settle(lab);
}

static int set_up(void **state, uint32_t nodes, uint32_t replicas)
{
    struct lab *lab = lab_new(nodes, 1, replicas);
    lab_start_all(lab);
    *state = lab;
    return 0;
}

int lab_set_up_one(void **state)
{
    return set_up(state, 1, 1);
}

int lab_set_up_three(void **state)
{
    return set_up(state, 3, 3);
}

int lab_tear_down(void **state)
{
    struct lab *lab = *state;
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL)
            shard_check_invariants(lab->shards[at].shard);
    lab_free(lab);
    return 0;
}

void lab_stop(struct lab *lab, uint32_t at)
{
    lab->shards[at].journal->out = false; /* all of a batch or nothing: here nothing */
    shard_free(&lab->shards[at].shard);
    view_free(&lab->shards[at].view);
}

void lab_view_all(struct lab *lab)
{
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL)
            give_view(lab, at);
}

void lab_adopt(struct lab *lab)
{
    struct ring_config *old = lab->config;
    lab->config = lab->config_next;
    lab->config_next = old;
    lab_view_all(lab);
}

void lab_policy(struct lab *lab, struct policy *policy)
{
    assert_true(lab->policy_count < LAB_POLICIES_MAX);
    lab->policies[lab->policy_count++] = policy;
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL)
            shard_policy(lab->shards[at].shard, policy);
}

const struct policy *lab_rules(struct lab *lab, const char *text)
{
    struct policy_error error;
    struct policy *policy;
    if (policy_compile_zoned(text, strlen(text), alloc_heap(), zones_system(), &policy, &error) !=
        0)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    lab_policy(lab, policy);
    return policy;
}

/* ---- time and the network -------------------------------------------------------------------- */

static bool holds_type(const struct lab_frame *frame, unsigned type)
{
    struct peer_envelope envelope;
    struct bytes_reader reader;
    struct peer_record record;
    assert_int_equal(peer_decode(frame->bytes, frame->len, &envelope), 0);
    bytes_reader_init(&reader, envelope.records, envelope.len);
    while (peer_next(&reader, 2 * LAB_VNODES, &record) > 0)
        if (peer_says(&record, (enum peer_record_type)type))
            return true;
    return false;
}

void lab_deliver(struct lab *lab)
{
    for (size_t i = lab->frame_next; i < lab->frame_count; i++) {
        struct lab_frame *frame = &lab->frames[i];
        struct shard *shard = lab->shards[frame->to].shard;
        if (frame->done || frame->due_ns > lab->now_ns)
            continue;
        frame->done = true;
        if (shard == NULL || lab->cut[frame->from][frame->to] ||
            (lab->drop_type != 0 && holds_type(frame, lab->drop_type)))
            continue;
        frame->delivered = true;
        shard_peer(shard, lab->now_ns, frame->bytes, frame->len, &lab->effects);
        lab_perform(lab, lab->frames[i].to);
    }
    while (lab->frame_next < lab->frame_count && lab->frames[lab->frame_next].done)
        lab->frame_next++;
}

void lab_tick(struct lab *lab, uint32_t at)
{
    shard_tick(lab->shards[at].shard, lab->now_ns, &lab->effects);
    lab_perform(lab, at);
}

void lab_pause(struct lab *lab, int64_t ns)
{
    lab->now_ns += ns;
}

static void step(struct lab *lab)
{
    lab->now_ns += LAB_MS;
    for (uint32_t at = 0; at < lab->count; at++)
        if (lab->shards[at].shard != NULL) {
            lab_tick(lab, at);
            journal_step(lab, at);
            if (lab->disks != NULL)
                disks_step(lab, at);
        }
    lab_deliver(lab);
}

void lab_run(struct lab *lab, int64_t ns)
{
    lab_deliver(lab);
    for (int64_t passed_ns = 0; passed_ns < ns; passed_ns += LAB_MS)
        step(lab);
}

void lab_until(struct lab *lab, bool (*done)(struct lab *lab, void *context), void *context,
               int64_t limit_ns)
{
    lab_deliver(lab);
    for (int64_t passed_ns = 0; !done(lab, context); passed_ns += LAB_MS) {
        if (passed_ns >= limit_ns)
            fail_msg("waited %lld ms in vain", (long long)(limit_ns / LAB_MS));
        step(lab);
    }
}

static bool settled(struct lab *lab, void *context)
{
    (void)context;
    bool all_run = true;
    for (uint32_t at = 0; at < lab->count; at++)
        all_run = all_run && lab->shards[at].shard != NULL;
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++) {
        uint32_t first = lab_replica(lab, vnode, 0);
        for (uint32_t rank = 1; lab->shards[first].shard == NULL; rank++)
            first = lab_replica(lab, vnode, rank);
        struct probe_vnode held;
        if (lab_leader(lab, vnode) != first)
            return false;
        probe_vnode(lab->shards[first].shard, vnode, &held);
        if (all_run && !held.synced)
            return false;
    }
    return true;
}

void lab_settle(struct lab *lab)
{
    lab_until(lab, settled, NULL, RETRY_LIMIT_MS * LAB_MS);
}

/* ---- what was said --------------------------------------------------------------------------- */

/* What of the record is of that type. */
static struct peer_record part_of(const struct peer_record *record, enum peer_record_type type)
{
    struct peer_record part = *record;
    const struct peer_change *change = &record->change;
    if (record->type != PEER_CHANGE)
        return part;
    part.type = type;
    if (type == PEER_TERM)
        part.term = change->term;
    else if (type == PEER_SLOT)
        part.slot = change->slot;
    else
        part.vnode = (struct peer_vnode){.vnode = change->term.vnode,
                                         .role = ROLE_LEADING,
                                         .term = change->term.term,
                                         .state = change->term.term,
                                         .seq = change->seq,
                                         .sync = change->term.sync};
    return part;
}

uint32_t lab_said(const struct lab *lab, uint32_t from, uint32_t to, enum peer_record_type type,
                  struct peer_record *last)
{
    uint32_t found = 0;
    for (size_t i = 0; i < lab->frame_count; i++) {
        const struct lab_frame *frame = &lab->frames[i];
        struct peer_envelope envelope;
        struct bytes_reader reader;
        struct peer_record record;
        if ((from != LAB_NONE && frame->from != from) || (to != LAB_NONE && frame->to != to))
            continue;
        assert_int_equal(peer_decode(frame->bytes, frame->len, &envelope), 0);
        bytes_reader_init(&reader, envelope.records, envelope.len);
        while (peer_next(&reader, 2 * LAB_VNODES, &record) > 0) {
            if (!peer_says(&record, type))
                continue;
            found++;
            if (last != NULL)
                *last = part_of(&record, type);
        }
    }
    return found;
}

void lab_forget(struct lab *lab)
{
    size_t kept = 0;
    lab_deliver(lab);
    for (size_t i = 0; i < lab->frame_count; i++)
        if (lab->frames[i].done)
            free(lab->frames[i].bytes);
        else
            lab->frames[kept++] = lab->frames[i];
    lab->frame_count = kept;
    lab->frame_next = 0;
}

void lab_speak(struct lab *lab, uint32_t from, uint32_t to)
{
    const struct peer_envelope envelope = {
        .node = lab->shards[from].node,
        .shard = lab->shards[from].options.shard,
        .boot = lab->shards[from].options.boot,
        .records = lab->records.data,
        .len = lab->records.len,
    };
    assert_false(lab->records.failed);
    const int len = peer_encode(&envelope, lab->frame, sizeof lab->frame);
    assert_true(len > 0);
    shard_peer(lab->shards[to].shard, lab->now_ns, lab->frame, (size_t)len, &lab->effects);
    lab_perform(lab, to);
    bytes_writer_init(&lab->records, lab->record_bytes, sizeof lab->record_bytes);
}

void lab_ghosts_live(struct lab *lab, uint32_t to, uint32_t vnode, uint32_t ms)
{
    const struct peer_vnode sign = {.vnode = vnode, .role = ROLE_REPLICA};
    for (uint32_t i = 0; i < ms; i++) {
        for (uint32_t ghost = 0; ghost < lab->count; ghost++) {
            if (lab->shards[ghost].shard != NULL)
                continue;
            peer_put_vnode(&lab->records, PEER_REPORT, &sign);
            lab_speak(lab, ghost, to);
        }
        lab_run(lab, LAB_MS);
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

uint32_t lab_vnode_of(const struct lab *lab, const char *key)
{
    struct identity identity;
    assert_int_equal(identity_inline(&identity, key, strlen(key)), 0);
    return identity_vnode(&lab->shards[0].options.route_key, &identity, LAB_VNODES);
}

struct hash128 lab_slot_of(const struct lab *lab, const char *key, uint8_t algorithm)
{
    struct identity identity;
    assert_int_equal(identity_inline(&identity, key, strlen(key)), 0);
    return identity_slot(&lab->shards[0].options.secret, &identity, algorithm, 0);
}

void lab_key(const struct lab *lab, uint32_t vnode, uint32_t number, char out[LAB_KEY_LEN])
{
    for (uint32_t i = 0;; i++) {
        (void)snprintf(out, LAB_KEY_LEN, "key-%u-%u", number, i);
        if (lab_vnode_of(lab, out) == vnode)
            return;
    }
}

uint32_t lab_replica(const struct lab *lab, uint32_t vnode, uint32_t rank)
{
    const struct view *view = NULL;
    uint64_t ids[VIEW_REPLICAS_MAX];
    for (uint32_t at = 0; view == NULL && at < lab->count; at++)
        view = lab->shards[at].view;
    assert_non_null(view);
    assert_true(rank < view_replica_set(view, vnode, ids));
    return shard_at(lab, ids[rank], (uint16_t)(vnode % lab->shards_each));
}

void lab_attribute(const struct lab *lab, const char *rule, const char *name, uint32_t at,
                   char out[LAB_KEY_LEN])
{
    for (uint32_t i = 0;; i++) {
        struct identity identity;
        struct identity_value value;
        (void)snprintf(out, LAB_KEY_LEN, "%s=v%u", name, i);
        value.data = strchr(out, '=') + 1;
        value.len = strlen(value.data);
        assert_int_equal(identity_rule(&identity, rule, strlen(rule), &value, 1), 0);
        const uint32_t vnode =
            identity_vnode(&lab->shards[0].options.route_key, &identity, LAB_VNODES);
        if (lab_replica(lab, vnode, 0) == at)
            return;
    }
}

uint32_t lab_vnode_owned(const struct lab *lab, uint32_t at)
{
    for (uint32_t vnode = 0; vnode < LAB_VNODES; vnode++)
        if (lab_replica(lab, vnode, 0) == at)
            return vnode;
    fail_msg("shard %u owns nothing", at);
    return LAB_NONE;
}

enum shard_role lab_role(const struct lab *lab, uint32_t at, uint32_t vnode)
{
    struct term term;
    return shard_vnode(lab->shards[at].shard, vnode, &term);
}

uint32_t lab_leader(const struct lab *lab, uint32_t vnode)
{
    uint32_t found = LAB_NONE;
    for (uint32_t at = 0; at < lab->count; at++) {
        if (lab->shards[at].shard == NULL || lab_role(lab, at, vnode) != SHARD_LEADING)
            continue;
        if (found != LAB_NONE)
            return LAB_NONE;
        found = at;
    }
    return found;
}

struct shard_stats lab_stats(const struct lab *lab, uint32_t at)
{
    struct shard_stats stats;
    shard_stats(lab->shards[at].shard, &stats);
    return stats;
}

/* ---- checks ---------------------------------------------------------------------------------- */

void lab_ask(struct lab *lab, const struct limit *limit, const char *key, uint8_t operation,
             uint64_t cost)
{
    const struct wire_text value = wire_text_of(key);
    const int index = wire_checks_builder_inline(&lab->builder, limit);
    assert_true(index >= 0);
    assert_true(wire_checks_builder_append(&lab->builder, (uint32_t)index, operation, cost, &value,
                                           1) >= 0);
}

void lab_ask_used(struct lab *lab, const struct limit *limit, const char *key, uint8_t operation,
                  uint64_t lease, uint64_t used)
{
    const struct wire_text value = wire_text_of(key);
    const int index = wire_checks_builder_inline(&lab->builder, limit);
    assert_true(index >= 0);
    assert_true(wire_checks_builder_append_used(&lab->builder, (uint32_t)index, operation, lease,
                                                used, &value, 1) >= 0);
}

/* Adds a template of the names, and puts the values. Returns its index. */
static uint32_t put_attributes(struct lab *lab, const char *const *attributes,
                               struct wire_text *values, uint32_t *count)
{
    struct wire_text names[WIRE_ATTRIBUTES_MAX];
    for (*count = 0; attributes[*count] != NULL; (*count)++) {
        const char *attribute = attributes[*count];
        const char *equals = strchr(attribute, '=');
        assert_non_null(equals);
        names[*count] = (struct wire_text){attribute, (size_t)(equals - attribute)};
        values[*count] = wire_text_of(equals + 1);
    }
    const int index = wire_checks_builder_attributes(&lab->builder, names, *count);
    assert_true(index >= 0);
    return (uint32_t)index;
}

void lab_ask_attributes_as(struct lab *lab, uint8_t operation, uint64_t cost,
                           const char *const *attributes)
{
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    uint32_t count;
    const uint32_t index = put_attributes(lab, attributes, values, &count);
    assert_true(wire_checks_builder_append(&lab->builder, index, operation, cost, values, count) >=
                0);
}

void lab_ask_attributes_used(struct lab *lab, uint8_t operation, uint64_t lease, uint64_t used,
                             const char *const *attributes)
{
    struct wire_text values[WIRE_ATTRIBUTES_MAX];
    uint32_t count;
    const uint32_t index = put_attributes(lab, attributes, values, &count);
    assert_true(wire_checks_builder_append_used(&lab->builder, index, operation, lease, used,
                                                values, count) >= 0);
}

void lab_ask_attributes(struct lab *lab, uint64_t cost, const char *const *attributes)
{
    lab_ask_attributes_as(lab, OPERATION_CHECK, cost, attributes);
}

void lab_client(struct lab *lab, uint32_t at, int len)
{
    assert_true(len > 0);
    shard_client(lab->shards[at].shard, lab->now_ns, LAB_CONNECTION + at, lab->frame, (size_t)len,
                 &lab->effects);
    lab_perform(lab, at);
}

static void send_frame(struct lab *lab, uint32_t at, uint64_t seq, uint32_t flags,
                       uint32_t timeout_ms)
{
    const int len = wire_checks_builder_encode(&lab->builder, LAB_SESSION, seq, flags, timeout_ms,
                                               lab->frame, sizeof lab->frame);
    lab_client(lab, at, len);
}

uint64_t lab_send_flagged(struct lab *lab, uint32_t at, uint32_t flags, uint32_t timeout_ms)
{
    send_frame(lab, at, ++lab->seq, flags, timeout_ms);
    wire_checks_builder_reset(&lab->builder);
    return lab->seq;
}

uint64_t lab_send(struct lab *lab, uint32_t at, uint32_t timeout_ms)
{
    return lab_send_flagged(lab, at, 0, timeout_ms);
}

uint64_t lab_send_explained(struct lab *lab, uint32_t at, uint32_t timeout_ms)
{
    return lab_send_flagged(lab, at, WIRE_FLAG_EXPLAIN, timeout_ms);
}

void lab_send_again(struct lab *lab, uint32_t at, uint64_t seq, uint32_t timeout_ms)
{
    send_frame(lab, at, seq, WIRE_FLAG_RETRY, timeout_ms);
    wire_checks_builder_reset(&lab->builder);
}

uint32_t lab_answers(struct lab *lab, uint64_t seq)
{
    char error[WIRE_ERROR_LEN];
    uint32_t found = 0;
    for (size_t i = 0; i < lab->reply_count; i++) {
        const struct lab_reply *reply = &lab->replies[i];
        if (reply->seq != seq || reply->type != WIRE_DECISIONS)
            continue;
        assert_int_equal(
            wire_decode_decisions(reply->bytes, reply->len, &lab->space, &lab->decisions, error),
            0);
        assert_int_equal(lab->decisions.head.session, LAB_SESSION);
        found++;
    }
    return found;
}

bool lab_answered(struct lab *lab, uint64_t seq)
{
    return lab_answers(lab, seq) > 0;
}

static bool answer_is_there(struct lab *lab, void *context)
{
    return lab_answered(lab, *(const uint64_t *)context);
}

struct wire_decision lab_answer(struct lab *lab, uint64_t seq, uint32_t item)
{
    struct wire_decision decision;
    lab_until(lab, answer_is_there, &seq, RETRY_LIMIT_MS * LAB_MS);
    assert_true(item < lab->decisions.head.count);
    wire_decision_at(&lab->decisions, item, &decision);
    return decision;
}

const struct lab_reply *lab_last_reply(const struct lab *lab)
{
    assert_true(lab->reply_count > 0);
    return &lab->replies[lab->reply_count - 1];
}

struct wire_error lab_last_error(const struct lab *lab)
{
    char error[WIRE_ERROR_LEN];
    struct wire_error message;
    const struct lab_reply *reply = lab_last_reply(lab);
    assert_int_equal(wire_decode_error(reply->bytes, reply->len, &message, error), 0);
    return message;
}

struct wire_decision lab_check(struct lab *lab, uint32_t at, const char *key,
                               const struct limit *limit, uint64_t cost)
{
    lab_ask(lab, limit, key, OPERATION_CHECK, cost);
    return lab_answer(lab, lab_send(lab, at, 5000), 0);
}

uint64_t lab_used(struct lab *lab, uint32_t at, const char *key, const struct limit *limit)
{
    lab_ask(lab, limit, key, OPERATION_PEEK, 0);
    return lab_answer(lab, lab_send(lab, at, 5000), 0).used;
}

struct limit lab_limit(uint64_t count)
{
    return (struct limit){
        .count = count,
        .window_ns = UINT64_C(3600) * 1000000000,
        .burst = 0,
        .algorithm = ALGORITHM_FIXED_WINDOW,
    };
}

bool lab_text_is(struct wire_text text, const char *expected)
{
    return text.len == strlen(expected) && memcmp(text.data, expected, text.len) == 0;
}

void lab_report_load(struct lab *lab, uint32_t at, uint32_t pool, uint32_t load_ppm)
{
    struct shard *shard = lab->shards[at].shard;
    shard_enter(shard, lab->now_ns);
    pools_load(shard, pool, load_ppm);
}

/* phase_wild.c - a member that has gone wrong sends what it must not, and then is mended.
 *
 *   wild   for a while a member sends valid frames of each kind with wild numbers, in its own name
 *          and in those of others, under load                 SIMWILD-1 to SIMWILD-4, and as form
 *
 * Numbers are near the end of their range, or just beyond what may be believed. Frames of gossip,
 * of the ring's and the settings' registers, of configurations and settings are in anybody's name;
 * frames of peers in its own, or of processes that others never had.
 *
 * SIMWILD-1  No vnode has two leaders, and no count is lost: the phase is strict.
 * SIMWILD-2  Whatever was said, nobody knows a configuration or settings that were not decided:
 *            SIMCHECK-1, SIMRING-2 and SIMSETTINGS-1 of the files that judge them hold all the
 *            time.
 * SIMWILD-3  When it is mended, everybody holds everybody for alive within so many seconds, and the
 *            ring is that of before.
 * SIMWILD-4  It lies about what is wrong with others, too, and nobody believes it for long:
 *            SIMHEALTH-2.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gossip/swim.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_record.h"
#include "node/cluster/configstore/settings_wire.h"
#include "node/cluster/consensus/register_wire.h"
#include "node/cluster/control/control_state.h"
#include "node/cluster/wire/peer_wire.h"
#include "tests/sim/phase.h"

enum { TURNS_MIN = 40, TURNS_MORE = 200, PAUSE_MS = 20, FRAME_LEN = 64 << 10, ALIVE_MS = 20000 };

struct wild {
    struct node *from; /* the faulty one */
    struct node *as;   /* in whose name; itself at times */
    struct node *to;
    struct node *about;
    uint8_t bytes[FRAME_LEN];
};

static struct wild wild;

static uint64_t pick(struct sim *sim, uint64_t below)
{
    return random_below(phase_stream(sim), below);
}

static uint64_t number_above(struct sim *sim, uint64_t known)
{
    const uint64_t numbers[] = {known + 1,  known + 1025,      known + (UINT64_C(1) << 21),
                                1u << 31,   UINT64_C(1) << 43, (UINT64_C(1) << 62) - 1,
                                known + 24, UINT64_C(1) << 60, UINT64_MAX >> 2};
    return numbers[pick(sim, sizeof numbers / sizeof *numbers)];
}

static void send(struct sim *sim, enum event_kind kind, uint8_t shard, const void *bytes, int len)
{
    ASSERT(len > 0);
    sim->coverage.wild++;
    net_send(sim, wild.from->index, 0, wild.to->index, kind, shard, false, bytes, (size_t)len);
}

static const uint8_t *cluster_id(void)
{
    return control_identity(wild.from->control)->cluster_id;
}

static const struct swim_record *record_of(const struct node *node)
{
    return &swim_self(node->control->swim)->record;
}

/* ---- gossip ---------------------------------------------------------------------------------- */

static void gossip(struct sim *sim, const struct swim_slot *slot, uint64_t incarnation)
{
    struct mp_writer writer;
    mp_writer_init(&writer, wild.bytes, SWIM_MESSAGE_MAX);
    mp_put_array(&writer, 11);
    mp_put_uint(&writer, 1);
    mp_put_bin(&writer, cluster_id(), CONTROL_CLUSTER_ID_LEN);
    mp_put_uint(&writer, pick(sim, 2) == 0 ? SWIM_GOSSIP : SWIM_PING);
    mp_put_uint(&writer, pick(sim, 1000));
    mp_put_uint(&writer, wild.as->id);
    mp_put_uint(&writer, incarnation);
    mp_put_str(&writer, record_of(wild.as)->gossip);
    mp_put_int(&writer, pick(sim, 4) == 0 ? INT64_MAX : sim->now_ns);
    mp_put_uint(&writer, 0);
    mp_put_array(&writer, 0);
    mp_put_array(&writer, 1);
    swim_item_put(&writer, slot, true, 0);
    ASSERT(!writer.failed);
    send(sim, EVENT_GOSSIP, 0, wild.bytes, (int)writer.len);
}

static void rumour(struct sim *sim)
{
    struct swim_slot slot = {.used = true, .member.record = *record_of(wild.about)};
    const uint64_t known = slot.member.record.incarnation;
    slot.member.incarnation = number_above(sim, known);
    slot.member.record.incarnation = slot.member.incarnation;
    slot.member.state = (enum swim_state)pick(sim, SWIM_STATES);
    if (slot.member.state == SWIM_SUSPECT)
        slot.accusers[slot.accusers_count++] = wild.as->id;
    gossip(sim, &slot, number_above(sim, record_of(wild.as)->incarnation));
}

static void make_up(struct sim *sim)
{
    struct swim_slot slot = {.used = true, .member.record = *record_of(wild.from)};
    struct swim_record *record = &slot.member.record;
    record->id = WILD_ID << 32 | (1 + pick(sim, UINT32_MAX));
    record->incarnation = number_above(sim, 0);
    record->weight = 1000;
    record->ring_epoch = number_above(sim, record->ring_epoch);
    record->settings_version = number_above(sim, record->settings_version);
    slot.member.incarnation = record->incarnation;
    (void)snprintf(record->name, sizeof record->name, "w%016" PRIx64, record->id);
    (void)snprintf(record->gossip, sizeof record->gossip, WILD_ADDRESS "%u:7946",
                   (unsigned)pick(sim, 250));
    gossip(sim, &slot, record_of(wild.as)->incarnation);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Another configuration than the one in force; `legal`: that a single change may lead to. Negative
 * if none can be made of it now. */
static int another_config(struct sim *sim, bool legal, uint64_t epoch, uint8_t *bytes,
                          size_t capacity)
{
    static struct ring_config next;
    static struct ring_config then;
    const struct ring_config *config = control_config(wild.to->control);
    const uint64_t voter = config->to[pick(sim, config->to_count)].id;
    int error = ring_config_set_voters(&next, config, &voter, 1);
    if (pick(sim, 2) == 0)
        error = ring_config_reweigh(&next, config, voter, 700);
    if (error == 0 && !legal)
        error = ring_config_set_voters(&then, &next, &voter, 1);
    if (error == 0 && !legal)
        error = ring_config_remove(&next, &then, then.to[then.to[0].id == voter].id);
    if (error != 0)
        return -1;
    next.epoch = epoch;
    return ring_config_encode(&next, bytes, capacity);
}

static uint64_t epoch_above(struct sim *sim)
{
    const uint64_t epoch = control_config(wild.to->control)->epoch;
    const uint64_t epochs[] = {
        epoch + 1, epoch + 2, epoch + 1000, epoch + (UINT64_C(1) << 40), (UINT64_C(1) << 62) + 1,
        UINT64_MAX};
    return epochs[pick(sim, sizeof epochs / sizeof *epochs)];
}

static void config(struct sim *sim)
{
    uint8_t bytes[FRAME_LEN / 2];
    struct join_message message = {.type = pick(sim, 4) == 0 ? JOIN_ADMIT : JOIN_CONFIG,
                                   .sender = wild.as->id,
                                   .config = bytes};
    const int len = another_config(sim, true, epoch_above(sim), bytes, sizeof bytes);
    if (len < 0)
        return;
    message.config_len = (size_t)len;
    message.identity = *control_identity(wild.from->control);
    memset(message.identity.secret.bytes, (int)pick(sim, 256), HASH_KEY_LEN);
    memcpy(message.cluster_id, cluster_id(), sizeof message.cluster_id);
    memcpy(message.address, record_of(wild.as)->gossip, sizeof message.address);
    memcpy(message.region, record_of(wild.as)->region, sizeof message.region);
    send(sim, EVENT_GOSSIP, 0, wild.bytes, join_encode(&message, wild.bytes, sizeof wild.bytes));
}

/* A ballot of a number that nobody can have, or a value that no change of the ring leads to. */
static void vote(struct sim *sim)
{
    uint8_t bytes[FRAME_LEN / 2];
    const uint64_t high = (UINT64_C(1) << 21) << pick(sim, 41);
    struct register_frame frame = {.settings = pick(sim, 2) == 0};
    struct register_message *message = &frame.message;
    const uint64_t version = record_of(wild.to)->settings_version;
    const uint64_t epoch = control_config(wild.to->control)->epoch;
    message->type = (enum register_type)(REGISTER_PREPARE + pick(sim, REGISTER_TYPE_END - 1));
    message->sender = wild.as->id;
    message->epoch = (frame.settings ? version : epoch) + 1;
    if (pick(sim, 4) == 0)
        message->epoch = epoch_above(sim);
    message->ballot = (struct register_ballot){high, wild.as->id, number_above(sim, 1)};
    message->other = message->ballot;
    if (!frame.settings && pick(sim, 2) == 0) {
        const int len = another_config(sim, false, message->epoch, bytes, sizeof bytes);
        message->value = len > 0 ? bytes : NULL;
        message->value_len = len > 0 ? (size_t)len : 0;
        message->ballot.number = len > 0 ? 1 + pick(sim, 1000) : high;
    }
    memcpy(frame.cluster_id, cluster_id(), sizeof frame.cluster_id);
    memcpy(frame.address, record_of(wild.as)->gossip, sizeof frame.address);
    memcpy(frame.region, record_of(wild.as)->region, sizeof frame.region);
    send(sim, EVENT_GOSSIP, 0, wild.bytes,
         register_wire_encode(&frame, wild.bytes, sizeof wild.bytes));
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Among them a complete copy, of the highest version, in which there is nothing. */
static void settings(struct sim *sim)
{
    static struct settings_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.type = (enum settings_type)(SETTINGS_NEWS + pick(sim, SETTINGS_TYPE_END - SETTINGS_NEWS));
    frame.sender = wild.as->id;
    frame.version = number_above(sim, record_of(wild.to)->settings_version);
    frame.digest = (struct hash128){pick(sim, 1000), 7};
    frame.voters = (struct register_voters){1, {wild.as->id}};
    frame.nonce = pick(sim, 3);
    memcpy(frame.cluster_id, cluster_id(), sizeof frame.cluster_id);
    memcpy(frame.address, record_of(wild.as)->gossip, sizeof frame.address);
    send(sim, EVENT_GOSSIP, 0, wild.bytes,
         settings_wire_encode(&frame, wild.bytes, sizeof wild.bytes));
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void to_peer(struct sim *sim, const struct node *as, uint64_t boot,
                    const struct bytes_writer *records)
{
    const struct peer_envelope envelope = {
        .node = as->id, .boot = boot, .records = records->data, .len = records->len};
    send(sim, EVENT_PEER, 0, wild.bytes, peer_encode(&envelope, wild.bytes, sizeof wild.bytes));
}

/* A process that nobody ever was. */
static void process(struct sim *sim)
{
    uint8_t bytes[PEER_RECORD_MAX];
    struct bytes_writer records;
    const uint64_t boots[] = {UINT64_MAX, UINT64_C(1) << 60, UINT64_C(5000) << 20};
    const struct peer_ping ping = {
        .sent_ns = INT64_MAX,
        .opened = UINT64_MAX,
        .patience_ms = UINT32_MAX,
        .cannot_hear_you = pick(sim, 2) == 0,
        .resigning = pick(sim, 2) == 0,
    };
    bytes_writer_init(&records, bytes, sizeof bytes);
    peer_put_ping(&records, &ping);
    to_peer(sim, wild.as, boots[pick(sim, sizeof boots / sizeof *boots)], &records);
}

/* Terms and places near the end, in the faulty member's own name. */
static void term(struct sim *sim)
{
    static const enum peer_record_type types[] = {PEER_STALE, PEER_QUERY,    PEER_REPORT,
                                                  PEER_PULL,  PEER_TRANSFER, PEER_OPENED,
                                                  PEER_HELD,  PEER_LACK};
    uint8_t bytes[2 * PEER_RECORD_MAX];
    struct bytes_writer records;
    const struct peer_vnode entry = {
        .vnode = (uint32_t)pick(sim, sim->vnodes),
        .role = ROLE_LEADING,
        .term = {control_config(wild.to->control)->epoch, (UINT64_C(1) << 62) - 1, wild.from->id},
        .state = {1, 1, wild.from->id},
        .seq = UINT64_MAX,
    };
    bytes_writer_init(&records, bytes, sizeof bytes);
    if (pick(sim, 4) == 0)
        peer_put_moved(&records, pick(sim, 100), entry.vnode, &entry.term);
    peer_put_vnode(&records, types[pick(sim, sizeof types / sizeof *types)], &entry);
    to_peer(sim, wild.from, wild.from->disk.now.incarnation << 20 | wild.from->boots, &records);
}

/* ---- the phase ------------------------------------------------------------------------------- */

static void act(struct sim *sim)
{
    static void (*const acts[])(struct sim * sim) = {rumour, rumour,   make_up, config, vote,
                                                     vote,   settings, process, term};
    wild.from = &sim->nodes[sim->plan.victim];
    wild.to = node_some_up(sim);
    wild.as = pick(sim, 2) == 0 ? wild.from : node_some_up(sim);
    wild.about = node_some_up(sim);
    if (wild.to == wild.from || wild.from->view == NULL || wild.to->view == NULL ||
        wild.as->view == NULL || wild.about->view == NULL)
        return;
    acts[pick(sim, sizeof acts / sizeof *acts)](sim);
}

/* Somebody falls ill, and the faulty member says something else of it, as if it said so itself. */
static void lie(struct sim *sim)
{
    struct node *ill = &sim->nodes[sim->plan.left / 8 % sim->node_count];
    wild.from = &sim->nodes[sim->plan.victim];
    if (!ill->up || !ill->member)
        return;
    health_trouble(sim, ill, health_draw(sim, sim->plan.left));
    wild.as = wild.from;
    for (uint32_t i = 0; i < sim->node_count && ill != wild.from; i++) {
        struct swim_slot slot = {.used = true, .member.record = *record_of(ill)};
        wild.to = &sim->nodes[i];
        if (!wild.to->up || !wild.to->member || wild.to == wild.from)
            continue;
        slot.member.incarnation = slot.member.record.incarnation;
        slot.member.record.version += 1 + sim->plan.left;
        slot.member.record.flags ^= health_flags(health_draw(sim, sim->plan.left + i + 1));
        gossip(sim, &slot, record_of(wild.as)->incarnation);
    }
}

static bool go_wild(struct sim *sim)
{
    struct plan *plan = &sim->plan;
    if (phase_first(sim)) {
        plan->victim = node_some_up(sim)->index;
        plan->left = TURNS_MIN + (uint32_t)pick(sim, TURNS_MORE);
        sim_tell(sim, 1, "n%u goes wrong", plan->victim);
    }
    if (plan->left == 0)
        return true;
    plan->left--;
    if (plan->left % 8 == 0)
        lie(sim);
    act(sim);
    phase_wait(sim, (int64_t)pick(sim, PAUSE_MS));
    return false;
}

static bool all_alive(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct node *one = &sim->nodes[i];
        for (uint32_t other = 0; one->up && one->member && other < sim->node_count; other++) {
            const struct node *seen = &sim->nodes[other];
            if (other == i || !seen->up || !seen->member)
                continue;
            const struct swim_member *member = swim_find(one->control->swim, seen->id);
            if (member != NULL && member->state == SWIM_ALIVE)
                continue;
            if (sim->now_ns - sim->plan.entered_ns > ALIVE_MS * SIM_MS)
                sim_fail(sim, "SIMWILD-3: n%u holds n%u for %s", i, other,
                         member == NULL ? "unknown" : swim_state_name(member->state));
            return phase_not_yet(sim, "somebody is not known to be alive");
        }
    }
    return true;
}

const struct phase_step phase_wild[] = {
    {"some", step_some},   {"wild", go_wild},     {"alive", all_alive},    {"told", step_told},
    {"owned", step_owned}, {"rest", step_rest},   {"enough", step_enough}, {"drain", step_drain},
    {"rest", step_rest},   {"equal", step_equal}, {"audit", step_audit},   {"judge", step_kept},
    {NULL, NULL},
};

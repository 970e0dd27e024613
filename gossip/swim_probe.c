/* swim_probe.c - asking members whether they live, and judging one's own ability to ask.
 *
 *   0 ms          200 ms                               500 ms
 *   |-- ping ------|-- ping-req to 3 helpers ------------|  no ack: accuse
 *                      helper: ping, ack or nack back
 *
 * Members are probed in a shuffled order, each once a round, so that the time to the first
 * probe of a dead one is bounded. A hint from the data plane gets its own probe at once.
 *
 * A node that is slow itself sees everybody else fail. The local health multiplier guards
 * against that (Lifeguard): failed probes, nacks that a living helper would have sent but did
 * not, being suspected, and calls that come late raise it; successful probes lower it; all
 * time-outs are multiplied by 1 + health.
 *
 * PROBE-1  At most one probe per member is under way.
 * PROBE-2  Only the member itself, or a helper that heard it, ends a probe well: the subject must
 *          match.
 * PROBE-3  Round trip and skew are taken from direct acks alone; abroad, from answers to contacts.
 * PROBE-4  Only members of this node's region are probed, and asked to help.
 * PROBE-5  No more helpers say nack than were asked, and no more are asked than there may be.
 */
#include "gossip/swim_probe.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "gossip/swim_health.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_piggyback.h"
#include "gossip/swim_stranger.h"
#include "gossip/swim_table.h"

enum { RTT_FACTOR = 3 };

static int64_t scaled(const struct swim *swim, int64_t time_ns)
{
    ASSERT(time_ns >= 0);
    return time_ns * (int64_t)(swim->health + 1);
}

static int64_t ack_timeout_ns(const struct swim *swim, const struct swim_member *member)
{
    const int64_t least_ns = swim->options.ack_timeout_ns;
    const int64_t wanted_ns = RTT_FACTOR * member->rtt_ns;
    return scaled(swim, wanted_ns > least_ns ? wanted_ns : least_ns);
}

/* ---- probing ---- */

static bool probe_running(const struct swim *swim, uint64_t id)
{
    for (int i = 0; i < SWIM_PROBES_MAX; i++) {
        if (swim->probe.probes[i].used && swim->probe.probes[i].id == id)
            return true;
    }
    return false;
}

static struct swim_probe *probe_free(struct swim *swim)
{
    for (int i = 0; i < SWIM_PROBES_MAX; i++) {
        if (!swim->probe.probes[i].used)
            return &swim->probe.probes[i];
    }
    return NULL;
}

/* A ping of a suspect tells it so, which gives it the chance to refute at once. */
static bool ping_send(struct swim *swim, uint64_t seq, uint64_t target, const char *address)
{
    struct mp_writer writer;
    const uint32_t at = swim_lookup(swim, target);
    const bool accused = at != SWIM_SLOT_NONE && swim->slots[at].member.state == SWIM_SUSPECT;
    if (!swim_message_begin(swim, &writer, SWIM_PING, seq, target))
        return false;
    mp_put_array(&writer, 0);
    swim_rumours_put(swim, &writer, SWIM_PIGGYBACK_MAX, accused ? at : SWIM_SLOT_NONE);
    swim_message_end(swim, &writer, address);
    return true;
}

/* false if it has to wait for room. */
static bool probe_start(struct swim *swim, uint32_t at)
{
    ASSERT(at != SWIM_SELF && swim->slots[at].region == SWIM_HOME); /* PROBE-4 */
    const struct swim_member *member = &swim->slots[at].member;
    struct swim_probe *probe = probe_free(swim);
    if (probe_running(swim, member->record.id))
        return true; /* PROBE-1 */
    const uint64_t seq = swim_seq(swim);
    if (probe == NULL || !ping_send(swim, seq, member->record.id, member->record.gossip))
        return false;
    const int64_t timeout_ns = ack_timeout_ns(swim, member);
    const int64_t interval_ns = scaled(swim, swim->options.probe_interval_ns);
    const int64_t least_ns = timeout_ns / 2 * 5; /* helpers need one and a half round trips */
    *probe = (struct swim_probe){
        .used = true,
        .slot = at,
        .id = member->record.id,
        .seq = seq,
        .sent_ns = swim->now_ns,
        .indirect_ns = sat_add(swim->now_ns, timeout_ns),
        .deadline_ns = sat_add(swim->now_ns, interval_ns > least_ns ? interval_ns : least_ns)};
    swim->stats.probes++;
    return true;
}

static void probe_ask_helpers(struct swim *swim, struct swim_probe *probe)
{
    ASSERT(probe->used && !probe->indirect && probe->helpers == 0);
    uint32_t picked[SWIM_HELPERS_MAX];
    const uint32_t count =
        swim_pick(swim, SWIM_HOME, swim->options.indirect_peers, probe->slot, picked);
    const struct swim_member *subject = &swim->slots[probe->slot].member;

    probe->indirect = true;
    swim->stats.probes_indirect++;
    for (uint32_t i = 0; i < count; i++) {
        const struct swim_member *helper = &swim->slots[picked[i]].member;
        struct mp_writer writer;
        if (!swim_message_begin(swim, &writer, SWIM_PING_REQ, probe->seq, helper->record.id))
            return; /* fewer helpers were asked, and fewer nacks will be missed */
        mp_put_array(&writer, 2);
        mp_put_uint(&writer, subject->record.id);
        mp_put_str(&writer, subject->record.gossip);
        swim_rumours_put(swim, &writer, SWIM_PIGGYBACK_MAX, SWIM_SLOT_NONE);
        swim_message_end(swim, &writer, helper->record.gossip);
        probe->helpers++;
    }
}

/* A helper that sent neither ack nor nack says something about the way from here to it. */
static void probe_fail(struct swim *swim, struct swim_probe *probe)
{
    ASSERT(probe->used && probe->nacks <= probe->helpers); /* PROBE-5 */
    const uint32_t missed = probe->helpers - probe->nacks;
    probe->used = false;
    swim->stats.probes_failed++;
    if (!swim_unheard(swim, probe->slot))
        swim_health_add(swim, probe->helpers > 0 ? (int)missed : 1);
    swim_accuse(swim, probe->slot);
}

static void probe_step(struct swim *swim, struct swim_probe *probe)
{
    const struct swim_slot *slot = &swim->slots[probe->slot];
    if (!slot->used || slot->member.record.id != probe->id || slot->member.state >= SWIM_DEAD ||
        slot->region != SWIM_HOME)
        probe->used = false;
    else if (swim->now_ns >= probe->deadline_ns)
        probe_fail(swim, probe);
    else if (!probe->indirect && swim->now_ns >= probe->indirect_ns)
        probe_ask_helpers(swim, probe);
}

static void order_shuffle(struct swim *swim)
{
    for (uint32_t i = swim->order_len; i > 1; i--) {
        const uint32_t j = (uint32_t)random_below(&swim->random, i);
        const uint32_t slot = swim->order[i - 1];
        swim->order[i - 1] = swim->order[j];
        swim->order[j] = slot;
    }
}

/* The next living member of the round, or none; `any`: strangers, too. */
static uint32_t order_next(struct swim *swim, bool any)
{
    for (uint32_t tries = 0; tries <= swim->order_len; tries++) {
        if (swim->probe.order_at >= swim->order_len) {
            order_shuffle(swim);
            swim->probe.order_at = 0;
        }
        if (swim->order_len == 0)
            break;
        ASSERT(swim->probe.order_at < swim->order_len); /* GOSSIP-4 */
        const uint32_t at = swim->order[swim->probe.order_at++];
        if (swim->slots[at].member.state <= SWIM_SUSPECT && swim->slots[at].region == SWIM_HOME &&
            (any || !swim_unheard(swim, at)))
            return at; /* PROBE-4 */
    }
    return SWIM_SLOT_NONE;
}

static void hints_run(struct swim *swim)
{
    while (swim->probe.hints_len > 0) {
        const uint32_t at = swim_lookup(swim, swim->probe.hints[swim->probe.hints_len - 1]);
        if (at != SWIM_SLOT_NONE && swim->slots[at].member.state <= SWIM_SUSPECT &&
            swim->slots[at].region == SWIM_HOME && !probe_start(swim, at)) {
            return; /* the running probes end within a second, then this one has its turn */
        }
        ASSERT(swim->probe.hints_len <= SWIM_HINTS_MAX); /* GOSSIP-8 */
        swim->probe.hints_len--;
    }
}

static void round_step(struct swim *swim)
{
    if (swim->now_ns < swim->probe.next_ns)
        return;
    swim->probe.order_any = !swim->probe.order_any;
    uint32_t at = order_next(swim, swim->probe.order_any);
    if (at == SWIM_SLOT_NONE)
        at = order_next(swim, true);
    if (at != SWIM_SLOT_NONE && !probe_start(swim, at))
        swim->stats.replies_dropped++;
    swim->probe.next_ns = sat_add(swim->now_ns, scaled(swim, swim->options.probe_interval_ns));
}

/* ---- helping others ---- */

static struct swim_relay *relay_free(struct swim *swim)
{
    for (int i = 0; i < SWIM_RELAYS_MAX; i++) {
        if (!swim->probe.relays[i].used)
            return &swim->probe.relays[i];
    }
    return NULL;
}

static void help(struct swim *swim, const struct swim_message *message)
{
    ASSERT(message->kind == SWIM_PING_REQ && swim->out != NULL);
    struct swim_relay *relay = relay_free(swim);
    const int64_t timeout_ns = swim->options.ack_timeout_ns;
    if (relay == NULL || !swim_room(swim)) {
        swim->stats.jobs_dropped++;
        return;
    }
    *relay = (struct swim_relay){.used = true,
                                 .subject = message->number,
                                 .seq = swim_seq(swim),
                                 .asker_id = message->sender,
                                 .asker_seq = message->seq,
                                 .nack_ns = sat_add(swim->now_ns, timeout_ns / 5 * 4),
                                 .deadline_ns = sat_add(swim->now_ns, timeout_ns * 3)};
    memcpy(relay->asker, message->address, sizeof relay->asker);
    (void)ping_send(swim, relay->seq, relay->subject, message->subject);
}

/* An ack or a nack about `subject`. */
static bool answer(struct swim *swim, enum swim_kind kind, uint64_t seq, uint64_t subject,
                   uint64_t target, const char *address, uint32_t forced)
{
    struct mp_writer writer;
    if (!swim_message_begin(swim, &writer, kind, seq, target))
        return false;
    mp_put_array(&writer, 1);
    mp_put_uint(&writer, subject);
    swim_rumours_put(swim, &writer, SWIM_PIGGYBACK_MAX, forced);
    swim_message_end(swim, &writer, address);
    return true;
}

static void relay_step(struct swim *swim, struct swim_relay *relay)
{
    ASSERT(relay->used && relay->nack_ns <= relay->deadline_ns);
    if (!relay->nacked && swim->now_ns >= relay->nack_ns) {
        relay->nacked = true;
        if (!answer(swim, SWIM_NACK, relay->asker_seq, relay->subject, relay->asker_id,
                    relay->asker, SWIM_SLOT_NONE))
            swim->stats.replies_dropped++;
    }
    if (swim->now_ns >= relay->deadline_ns)
        relay->used = false;
}

static void relay_ack(struct swim *swim, const struct swim_message *message)
{
    for (int i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_relay *relay = &swim->probe.relays[i];
        if (!relay->used || relay->seq != message->seq || relay->subject != message->number)
            continue;
        relay->used = false;
        if (!answer(swim, SWIM_ACK, relay->asker_seq, relay->subject, relay->asker_id, relay->asker,
                    SWIM_SLOT_NONE))
            swim->stats.replies_dropped++;
        return;
    }
}

/* ---- answers ---- */

static struct swim_probe *probe_of(struct swim *swim, const struct swim_message *message)
{
    for (int i = 0; i < SWIM_PROBES_MAX; i++) {
        struct swim_probe *probe = &swim->probe.probes[i];
        if (probe->used && probe->seq == message->seq && probe->id == message->number)
            return probe;
    }
    return NULL;
}

static void receive_ack(struct swim *swim, const struct swim_message *message)
{
    struct swim_probe *probe = probe_of(swim, message);
    const bool direct = message->number == message->sender;
    if (probe == NULL) {
        if (direct)
            relay_ack(swim, message);
        return;
    }
    const struct swim_slot *slot = &swim->slots[probe->slot];
    if (direct && slot->used && slot->member.record.id == probe->id)
        swim_measure(swim, probe->slot, probe->sent_ns, message); /* PROBE-3 */
    ASSERT(probe->used && probe->sent_ns <= swim->now_ns);
    probe->used = false;
    swim_health_add(swim, -1);
}

void swim_probe_receive(struct swim *swim, const struct swim_message *message)
{
    struct swim_probe *probe = NULL;
    switch (message->kind) {
    case SWIM_PING:
        if (!answer(swim, SWIM_ACK, message->seq, swim->slots[SWIM_SELF].member.record.id,
                    message->sender, message->address, swim_accused_sender(swim, message)))
            swim->stats.replies_dropped++;
        break;
    case SWIM_PING_REQ:
        help(swim, message);
        break;
    case SWIM_ACK:
        receive_ack(swim, message);
        break;
    case SWIM_NACK:
        probe = probe_of(swim, message);
        if (probe != NULL && probe->nacks < probe->helpers)
            probe->nacks++;
        break;
    default:
        break;
    }
}

/* ---- time ---- */

void swim_probe_tick(struct swim *swim)
{
    for (int i = 0; i < SWIM_PROBES_MAX; i++) {
        if (swim->probe.probes[i].used)
            probe_step(swim, &swim->probe.probes[i]);
    }
    for (int i = 0; i < SWIM_RELAYS_MAX; i++) {
        if (swim->probe.relays[i].used)
            relay_step(swim, &swim->probe.relays[i]);
    }
    if (swim->slots[SWIM_SELF].member.state == SWIM_LEFT)
        return; /* who has left does not judge others */
    hints_run(swim);
    round_step(swim);
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

int64_t swim_probe_deadline(const struct swim *swim)
{
    int64_t deadline_ns =
        swim->slots[SWIM_SELF].member.state == SWIM_LEFT ? INT64_MAX : swim->probe.next_ns;
    for (int i = 0; i < SWIM_PROBES_MAX; i++) {
        const struct swim_probe *probe = &swim->probe.probes[i];
        if (probe->used)
            deadline_ns =
                earlier(deadline_ns, probe->indirect ? probe->deadline_ns : probe->indirect_ns);
    }
    for (int i = 0; i < SWIM_RELAYS_MAX; i++) {
        const struct swim_relay *relay = &swim->probe.relays[i];
        if (relay->used)
            deadline_ns = earlier(deadline_ns, relay->nacked ? relay->deadline_ns : relay->nack_ns);
    }
    return deadline_ns;
}

void swim_probe_delay(struct swim *swim, int64_t by_ns)
{
    ASSERT(by_ns > 0);
    for (int i = 0; i < SWIM_PROBES_MAX; i++) {
        struct swim_probe *probe = &swim->probe.probes[i];
        probe->indirect_ns = sat_add(probe->indirect_ns, by_ns);
        probe->deadline_ns = sat_add(probe->deadline_ns, by_ns);
    }
    for (int i = 0; i < SWIM_RELAYS_MAX; i++) {
        swim->probe.relays[i].nack_ns = sat_add(swim->probe.relays[i].nack_ns, by_ns);
        swim->probe.relays[i].deadline_ns = sat_add(swim->probe.relays[i].deadline_ns, by_ns);
    }
}

/* swim_table.c - the members, and the rules that decide between two claims about one.
 *
 * A claim is (state, incarnation). Only the member itself raises its incarnation, so a higher
 * one always wins; within one incarnation the worse state wins:
 *
 *                 alive, higher incarnation (refuted or restarted)
 *        +-------------------------------+------------------------+
 *        v                               |                        |
 *     ALIVE ---- suspect, >= -----> SUSPECT ---- time-out ----> DEAD
 *        |                               |       or dead, >=      |
 *        |                               |                        |
 *        +-------------- left, >= (said by the member) -----------+--> LEFT
 *
 *   start_suspicion, confirm    alive -> suspect, and shorter suspicion
 *   apply_alive                 any -> alive
 *   apply_dead, table_tick      suspect -> dead
 *   apply_left, swim_dismiss    any -> left
 *
 * A death heard by push/pull is old news of unknown origin (after a split, each side holds the
 * other's members dead), so it only makes a member suspect: the living refute, the dead time out.
 *
 * A suspicion lasts `min` once k = 2 others confirmed it, and up to 6 x min when nobody does,
 * since an accusation nobody shares says more about the accuser:
 *
 *   min = factor x max(1, log10 n) x probe interval,  timeout = max - (max - min) log(c+1)/log(k+1)
 *
 * All this is the work of a member's own region. In another region its states change as that one
 * says: nobody there is accused or declared dead here, and a death is believed however it came.
 * Only an operator may say of a region that nobody there is left to say anything (swim_dismiss).
 *
 * No claim is believed that is more than SWIM_INCARNATION_STEP above what is known: a member rises
 * by one with each start and each refutation, so somebody has gone wrong, and it is asked itself
 * (swim_doubt.c). Nor does anybody leave by a rumour whom the ring still has: that is a suspicion.
 *
 * Invariants GOSSIP-1 to GOSSIP-5 are in swim_internal.h. It must not send anything itself.
 */
#include "gossip/swim_table.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/sat.h"
#include "gossip/swim_health.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_record.h"
#include "gossip/swim_region.h"
#include "gossip/swim_rumour.h"
#include "gossip/swim_seed.h"
#include "gossip/swim_stranger.h"

enum {
    STATE_EVENTS = 1 << SWIM_EVENT_ALIVE | 1 << SWIM_EVENT_SUSPECT | 1 << SWIM_EVENT_DEAD |
                   1 << SWIM_EVENT_LEFT,
    TOMBSTONE_CHECKS = 64, /* looks per life of a tombstone */
    LOG2_BITS = 16,
    LOG2_TEN = 217706 /* log2(10) in 1/65536ths */
};

static_assert(SWIM_EVENT_FORGOTTEN < 8, "event kinds fit the bits of swim_slot.events");

/* ---- events ---- */

static void event_raise(struct swim *swim, uint32_t slot, enum swim_event_kind kind)
{
    uint8_t *events = &swim->slots[slot].events;
    if (slot == SWIM_SELF)
        return;
    if (kind == SWIM_EVENT_ALIVE && (*events & 1 << SWIM_EVENT_JOINED) != 0) {
        *events &= (uint8_t)~STATE_EVENTS; /* joining already says that it lives */
        return;
    }
    if (*events == 0)
        swim->events_waiting++;
    if ((STATE_EVENTS & 1 << kind) != 0)
        *events &= (uint8_t)~STATE_EVENTS;
    *events |= (uint8_t)(1 << kind);
}

static bool event_room(const struct swim *swim)
{
    return swim->out->events_count < SWIM_EVENTS_MAX;
}

static void event_tell(struct swim *swim, enum swim_event_kind kind, uint64_t id)
{
    ASSERT(event_room(swim));
    swim->out->events[swim->out->events_count++] = (struct swim_event){.kind = kind, .id = id};
}

static void slot_events_flush(struct swim *swim, struct swim_slot *slot)
{
    for (uint32_t kind = 0; kind <= SWIM_EVENT_FORGOTTEN && event_room(swim); kind++) {
        if ((slot->events & 1 << kind) == 0)
            continue;
        event_tell(swim, (enum swim_event_kind)kind, slot->member.record.id);
        slot->events &= (uint8_t) ~(1 << kind);
    }
    ASSERT(swim->events_waiting > 0); /* GOSSIP-7 */
    if (slot->events == 0)
        swim->events_waiting--;
}

void swim_events_flush(struct swim *swim)
{
    for (uint32_t i = 0; i < swim->slots_len && swim->events_waiting > 0 && event_room(swim); i++) {
        struct swim_slot *slot = &swim->slots[i];
        if (slot->used && slot->events != 0)
            slot_events_flush(swim, slot);
    }
}

/* ---- how long a suspicion lasts ---- */

/* log2(x) in 1/65536ths, x > 0: squaring a mantissa in [1, 2) yields one bit a turn. In
 * integers, so that every machine and the simulator agree. */
static uint32_t log2_fixed(uint32_t x)
{
    ASSERT(x > 0);
    const uint32_t whole = 31 - (uint32_t)__builtin_clz(x);
    uint64_t mantissa = (uint64_t)x << (31 - whole);
    uint32_t fraction = 0;
    for (int bit = 0; bit < LOG2_BITS; bit++) {
        mantissa = mantissa * mantissa >> 31;
        fraction <<= 1;
        if (mantissa >> 32 != 0) {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    return whole << LOG2_BITS | fraction;
}

/* Those who could confirm a suspicion: who was never heard could not (STRANGER-1). */
static uint32_t witnesses(const struct swim *swim)
{
    ASSERT(swim->slots_len >= 1);
    uint32_t unheard = 0;
    for (uint32_t at = 1; at < swim->slots_len && swim->strangers.ring_len > 0; at++)
        unheard += swim->slots[at].used && swim->slots[at].member.state <= SWIM_SUSPECT &&
                   swim_unheard(swim, at);
    ASSERT(unheard <= swim_others(swim));
    return swim_others(swim) - unheard;
}

int64_t swim_suspicion_min_ns(const struct swim *swim)
{
    const uint32_t log_n = log2_fixed(witnesses(swim) + 1);
    const int64_t unit_ns =
        (int64_t)swim->options.suspicion_factor * swim->options.probe_interval_ns;
    if (log_n <= LOG2_TEN)
        return unit_ns;
    return (int64_t)sat_muldiv((uint64_t)unit_ns, log_n, LOG2_TEN);
}

int64_t swim_suspicion_ns(const struct swim *swim, uint32_t accusers, uint32_t patience)
{
    ASSERT(patience >= 1 && accusers <= SWIM_ACCUSERS_MAX);
    const int64_t min_ns = swim_suspicion_min_ns(swim);
    const uint32_t others = witnesses(swim);
    const uint32_t k = swim->options.confirmations;
    const bool alone = others < k + 1; /* not counting the suspect: nobody there to confirm */
    const uint32_t confirmed = accusers > 0 ? accusers - 1 : 0;
    int64_t timeout_ns = min_ns;

    if (!alone && confirmed < k) {
        const int64_t max_ns = min_ns * (int64_t)swim->options.suspicion_max_ratio;
        const uint64_t span_ns = (uint64_t)(max_ns - min_ns);
        timeout_ns =
            max_ns - (int64_t)sat_muldiv(span_ns, log2_fixed(confirmed + 1), log2_fixed(k + 1));
    }
    ASSERT(timeout_ns >= min_ns);
    return timeout_ns * (int64_t)patience;
}

/* ---- slots ---- */

static uint32_t slot_take(struct swim *swim)
{
    for (uint32_t slot = 1; slot < swim->slots_len; slot++) {
        if (!swim->slots[slot].used)
            return slot;
    }
    if (swim->slots_len < swim->options.members_max)
        return swim->slots_len++;
    return SWIM_SLOT_NONE;
}

static void slot_free(struct swim *swim, uint32_t slot)
{
    struct swim_slot *gone = &swim->slots[slot];
    ASSERT(slot != SWIM_SELF && gone->used && gone->events == 0);
    swim_rumour_stop(swim, slot);
    swim_region_leave(swim, slot);
    for (uint32_t i = 0; i < swim->order_len; i++) {
        if (swim->order[i] == slot) {
            swim->order[i] = swim->order[--swim->order_len];
            break;
        }
    }
    memset(gone, 0, sizeof *gone);
    swim_index_rebuild(swim);
}

/* Forgets a member whose events have all been told; the caller saw that there is room. The
 * address of a dead one is kept as a seed, so that even an old split can heal. */
static void slot_forget(struct swim *swim, uint32_t slot)
{
    ASSERT(slot != SWIM_SELF && swim->slots[slot].events == 0); /* GOSSIP-7 */
    const struct swim_member *member = &swim->slots[slot].member;
    event_tell(swim, SWIM_EVENT_FORGOTTEN, member->record.id);
    if (member->state == SWIM_DEAD)
        swim_seed_remember(swim, member->record.gossip);
    slot_free(swim, slot);
}

/* A full table makes room by giving up its oldest tombstone, but none of the ring's; for a member
 * of the ring, also somebody alive who is not in it. */
static uint32_t slot_evict(struct swim *swim, bool for_ring)
{
    uint32_t oldest = SWIM_SLOT_NONE;
    for (uint32_t slot = 1; slot < swim->slots_len; slot++) {
        const struct swim_slot *candidate = &swim->slots[slot];
        if (candidate->events != 0 || candidate->in_ring ||
            (candidate->member.state < SWIM_DEAD && !for_ring))
            continue;
        if (oldest == SWIM_SLOT_NONE ||
            candidate->member.since_ns < swim->slots[oldest].member.since_ns)
            oldest = slot;
    }
    if (oldest == SWIM_SLOT_NONE || !event_room(swim))
        return SWIM_SLOT_NONE;
    slot_forget(swim, oldest);
    return oldest;
}

static uint32_t slot_insert(struct swim *swim, const struct swim_item *item)
{
    const bool in_ring = swim_in_ring(swim, item->id);
    const bool home = strcmp(swim_region_of(&item->record), swim->regions[SWIM_HOME].name) == 0;
    if (home && !in_ring && item->state < SWIM_DEAD && !swim_stranger_fits(swim)) {
        swim->stats.strangers_refused++;
        return SWIM_SLOT_NONE;
    }
    uint32_t slot = slot_take(swim);
    if (slot == SWIM_SLOT_NONE)
        slot = slot_evict(swim, in_ring);
    if (slot == SWIM_SLOT_NONE) {
        swim->stats.members_refused++;
        return slot;
    }
    struct swim_slot *fresh = &swim->slots[slot];
    ASSERT(slot != SWIM_SELF && !fresh->used);
    memset(fresh, 0, sizeof *fresh);
    fresh->used = true;
    fresh->in_ring = in_ring;
    fresh->patience = 1;
    fresh->member.record = item->record;
    fresh->member.incarnation = item->incarnation;
    fresh->member.state = item->state == SWIM_SUSPECT ? SWIM_ALIVE : item->state;
    fresh->member.since_ns = swim->now_ns;
    swim_region_enter(swim, slot);
    swim_index_put(swim, item->id, slot);
    const uint32_t place = (uint32_t)random_below(&swim->random, swim->order_len + 1);
    ASSERT(swim->order_len + 1 < swim->options.members_max + 1 &&
           place <= swim->order_len); /* GOSSIP-4 */
    swim->order[swim->order_len++] = slot;
    swim->order[swim->order_len - 1] = swim->order[place];
    swim->order[place] = slot;
    return slot;
}

/* ---- transitions ---- */

static void set_state(struct swim *swim, uint32_t at, enum swim_state state)
{
    ASSERT(swim->regions[swim->slots[at].region].members[swim->slots[at].member.state] >
           0); /* GOSSIP-5 */
    struct swim_slot *slot = &swim->slots[at];
    swim->regions[slot->region].members[slot->member.state]--;
    swim->regions[slot->region].members[state]++;
    slot->member.state = state;
    slot->member.since_ns = swim->now_ns;
    slot->accusers_count = 0;
    slot->patience = 1;
    slot->deadline_ns = 0;
}

static bool add_accuser(struct swim_slot *slot, uint64_t accuser, uint32_t accusers_max)
{
    ASSERT(accusers_max <= SWIM_ACCUSERS_MAX); /* GOSSIP-3 */
    if (slot->accusers_count == accusers_max || accuser == slot->member.record.id)
        return false;
    for (uint32_t i = 0; i < slot->accusers_count; i++) {
        if (slot->accusers[i] == accuser)
            return false;
    }
    slot->accusers[slot->accusers_count++] = accuser;
    return true;
}

/* GOSSIP-3 */
static void deadline_set(struct swim *swim, struct swim_slot *slot)
{
    ASSERT(slot->member.state == SWIM_SUSPECT && slot->accusers_count >= 1); /* GOSSIP-3 */
    const int64_t wait_ns = swim_suspicion_ns(swim, slot->accusers_count, slot->patience);
    slot->deadline_ns =
        slot->region == SWIM_HOME ? sat_add(slot->member.since_ns, wait_ns) : INT64_MAX;
}

/* Takes the accusers of a claim; only the first k + 1 distinct ones are news worth passing on. */
static bool confirm(struct swim *swim, uint32_t at, const uint64_t *accusers, uint32_t count)
{
    ASSERT(swim->slots[at].member.state == SWIM_SUSPECT); /* GOSSIP-3 */
    struct swim_slot *slot = &swim->slots[at];
    bool news = false;
    for (uint32_t i = 0; i < count; i++)
        news |= add_accuser(slot, accusers[i], swim->options.confirmations + 1);
    if (news) {
        deadline_set(swim, slot);
        swim_rumour_start(swim, at, slot->rumour_record, 0);
    }
    return news;
}

static void start_suspicion(struct swim *swim, uint32_t at, uint64_t incarnation,
                            const uint64_t *accusers, uint32_t count, uint32_t patience)
{
    ASSERT(at != SWIM_SELF && patience >= 1); /* GOSSIP-1 */
    struct swim_slot *slot = &swim->slots[at];
    set_state(swim, at, SWIM_SUSPECT);
    slot->member.incarnation = incarnation;
    slot->patience = patience;
    swim->stats.suspicions++;
    if (!confirm(swim, at, accusers, count)) {
        const bool added = add_accuser(slot, swim->slots[SWIM_SELF].member.record.id, 1);
        ASSERT(added); /* GOSSIP-3: a claim without a usable accuser is held against ourselves */
        deadline_set(swim, slot);
        swim_rumour_start(swim, at, slot->rumour_record, 0);
    }
    event_raise(swim, at, SWIM_EVENT_SUSPECT);
}

static void apply_suspect(struct swim *swim, uint32_t at, uint64_t incarnation,
                          const uint64_t *accusers, uint32_t count)
{
    const struct swim_member *member = &swim->slots[at].member;
    if (incarnation < member->incarnation)
        return;
    if (member->state == SWIM_ALIVE || incarnation > member->incarnation)
        start_suspicion(swim, at, incarnation, accusers, count, 1);
    else if (member->state == SWIM_SUSPECT)
        (void)confirm(swim, at, accusers, count);
}

static void apply_alive(struct swim *swim, uint32_t at, uint64_t incarnation)
{
    ASSERT(at != SWIM_SELF);
    struct swim_member *member = &swim->slots[at].member;
    if (incarnation <= member->incarnation)
        return;
    if (member->state != SWIM_ALIVE)
        set_state(swim, at, SWIM_ALIVE);
    ASSERT(incarnation > member->incarnation);
    member->incarnation = incarnation;
    member->rtt_ns = 0; /* perhaps another machine, or another clock */
    member->skew_ns = 0;
    member->clock.at_ns = 0;
    swim_rumour_start(swim, at, true, 0);
    event_raise(swim, at, SWIM_EVENT_ALIVE);
}

/* Dead or left, whichever `state` says. */
static void apply_gone(struct swim *swim, uint32_t at, enum swim_state state, uint64_t incarnation)
{
    ASSERT(at != SWIM_SELF && state >= SWIM_DEAD); /* GOSSIP-1 */
    struct swim_member *member = &swim->slots[at].member;
    if (incarnation < member->incarnation)
        return;
    if (incarnation == member->incarnation && member->state >= state)
        return;
    if (member->state < SWIM_DEAD && state == SWIM_DEAD)
        swim->stats.deaths++;
    if (member->state != state) {
        set_state(swim, at, state);
        event_raise(swim, at, state == SWIM_DEAD ? SWIM_EVENT_DEAD : SWIM_EVENT_LEFT);
    }
    member->incarnation = incarnation;
    swim_rumour_start(swim, at, swim->slots[at].rumour_record, 0);
}

/* ---- claims about this node ---- */

static void refute(struct swim *swim, uint64_t incarnation)
{
    struct swim_member *self = &swim->slots[SWIM_SELF].member;
    const uint64_t highest = incarnation > self->incarnation ? incarnation : self->incarnation;
    swim->refuted = true;
    if (highest >= SWIM_INCARNATION_MAX || (swim_too_far(self->incarnation, incarnation) &&
                                            incarnation > SWIM_INCARNATION_START_MAX)) {
        swim->stats.doubts++; /* nobody of this release believes it: to be asked is enough */
        return;
    }
    self->incarnation = highest + 1;
    self->record.incarnation = self->incarnation;
    self->record.version = 1;
    swim->out->persist_incarnation = self->incarnation;
    ASSERT(self->incarnation <= SWIM_INCARNATION_MAX); /* RECORD-1 */
    swim->stats.refutations++;
    swim_rumour_start(swim, SWIM_SELF, true, 0);
}

/* Also a claim of life is refuted if it knows more about us than we do: it is of an earlier life
 * whose incarnation was not kept, and would otherwise shadow what we say now. */
static void apply_self(struct swim *swim, const struct swim_item *item)
{
    const struct swim_member *self = &swim->slots[SWIM_SELF].member;
    if (self->state == SWIM_LEFT)
        return;
    const bool accused = item->state != SWIM_ALIVE && item->incarnation >= self->incarnation;
    if (item->state != SWIM_ALIVE && !accused)
        swim->refuted = true; /* long ago, but the sender has not heard of it: tell it again */
    const bool shadowed = item->incarnation > self->incarnation ||
                          (item->has_record && swim_record_newer(&item->record, &self->record));
    if (!accused && !shadowed)
        return;
    if (item->state == SWIM_SUSPECT)
        swim_health_add(swim, 1); /* whoever is suspected may well be slow */
    refute(swim, item->incarnation);
}

/* ---- claims about others ---- */

/* Where a member is asked for its own word: where it was heard last, or if it is gone, where it is
 * said to be now. */
static const char *doubt_address(const struct swim *swim, uint32_t at, const struct swim_item *item)
{
    const struct swim_member *member = &swim->slots[at].member;
    return member->state >= SWIM_DEAD && item->has_record ? item->record.gossip
                                                          : member->record.gossip;
}

/* Who heard it by push/pull tells fewer others: most of them know. */
static uint32_t transmits_at_start(const struct swim *swim, bool from_sync)
{
    return from_sync ? swim_retransmit_limit(swim) * 3 / 4 : 0;
}

/* A member not known so far; returns its slot, or none if the claim is not worth one. */
static uint32_t apply_unknown(struct swim *swim, const struct swim_item *item, bool from_sync)
{
    const bool gone = item->state >= SWIM_DEAD;
    if (!item->has_record || (gone && item->age_ns >= swim->options.tombstone_ns))
        return SWIM_SLOT_NONE;
    const uint32_t at = slot_insert(swim, item);
    if (at == SWIM_SLOT_NONE)
        return at;
    swim_rumour_start(swim, at, true, transmits_at_start(swim, from_sync));
    if (!gone) {
        event_raise(swim, at, SWIM_EVENT_JOINED);
        return at;
    }
    /* The tombstone keeps its age, so that two nodes cannot hand it to each other for ever. */
    swim->slots[at].member.since_ns = sat_sub(swim->now_ns, item->age_ns);
    event_raise(swim, at, item->state == SWIM_DEAD ? SWIM_EVENT_DEAD : SWIM_EVENT_LEFT);
    return at;
}

static void apply_record(struct swim *swim, uint32_t at, const struct swim_item *item,
                         bool from_sync)
{
    struct swim_slot *slot = &swim->slots[at];
    if (!item->has_record || !swim_record_newer(&item->record, &slot->member.record))
        return;
    const bool abroad = swim_slot_abroad(swim, at);
    swim_region_leave(swim, at);
    slot->member.record = item->record;
    swim_region_enter(swim, at);
    if (slot->member.state == SWIM_SUSPECT && abroad != swim_slot_abroad(swim, at)) {
        slot->member.since_ns = swim->now_ns; /* others judge it from now on */
        deadline_set(swim, slot);
    }
    swim_rumour_start(swim, at, true, transmits_at_start(swim, from_sync));
    event_raise(swim, at, SWIM_EVENT_UPDATED);
}

static void apply_state(struct swim *swim, uint32_t at, const struct swim_item *item,
                        bool from_sync, uint64_t sender)
{
    switch (item->state) {
    case SWIM_ALIVE:
        apply_alive(swim, at, item->incarnation);
        break;
    case SWIM_SUSPECT:
        apply_suspect(swim, at, item->incarnation, item->accusers, item->accusers_count);
        break;
    case SWIM_DEAD:
        if (from_sync && swim->slots[at].member.state < SWIM_DEAD && !swim_slot_abroad(swim, at))
            apply_suspect(swim, at, item->incarnation, &sender, 1);
        else
            apply_gone(swim, at, SWIM_DEAD, item->incarnation);
        break;
    case SWIM_LEFT:
        apply_gone(swim, at, SWIM_LEFT, item->incarnation);
        break;
    }
}

/* A claim that may be believed as it stands, or the part of it that may be. */
static void apply_other(struct swim *swim, uint32_t at, const struct swim_item *item,
                        bool from_sync, uint64_t sender)
{
    if (at == SWIM_SLOT_NONE)
        at = apply_unknown(swim, item, from_sync);
    else
        apply_record(swim, at, item, from_sync);
    if (at != SWIM_SLOT_NONE)
        apply_state(swim, at, item, from_sync, sender);
}

const char *swim_apply(struct swim *swim, const struct swim_item *item, bool from_sync,
                       uint64_t sender)
{
    const uint32_t at = swim_lookup(swim, item->id);
    if (at == SWIM_SELF) {
        apply_self(swim, item);
    } else if (item->has_record && !swim_region_fits(swim, &item->record)) {
        swim->stats.regions_refused++;
    } else if (at != SWIM_SLOT_NONE &&
               swim_too_far(swim->slots[at].member.incarnation, item->incarnation)) {
        swim->stats.doubts++;
        return doubt_address(swim, at, item);
    } else if (item->state == SWIM_LEFT && swim_in_ring(swim, item->id)) {
        struct swim_item suspicion = *item; /* who leaves is out of the ring before it says so */
        suspicion.state = SWIM_SUSPECT;
        suspicion.accusers[0] = sender;
        suspicion.accusers_count = 1;
        apply_other(swim, at, &suspicion, from_sync, sender);
    } else {
        apply_other(swim, at, item, from_sync, sender);
    }
    return NULL;
}

void swim_owner_said(struct swim *swim, uint32_t at, const struct swim_record *record)
{
    struct swim_slot *slot = &swim->slots[at];
    if (!swim_region_fits(swim, record) ||
        (!swim_too_far(slot->member.incarnation, record->incarnation) &&
         !swim_too_far(record->incarnation, slot->member.incarnation)))
        return; /* small steps go their way */
    set_state(swim, at, SWIM_ALIVE);
    swim_region_leave(swim, at);
    slot->member.record = *record;
    slot->member.incarnation = record->incarnation;
    slot->member.rtt_ns = 0;
    slot->member.skew_ns = 0;
    slot->member.clock.at_ns = 0;
    swim_region_enter(swim, at);
    swim_rumour_start(swim, at, true, 0);
    event_raise(swim, at, SWIM_EVENT_ALIVE);
    event_raise(swim, at, SWIM_EVENT_UPDATED);
}

void swim_accuse(struct swim *swim, uint32_t at)
{
    ASSERT(at != SWIM_SELF && swim->slots[at].region == SWIM_HOME); /* PROBE-4 */
    const struct swim_member *member = &swim->slots[at].member;
    const uint64_t self = swim->slots[SWIM_SELF].member.record.id;
    const bool stalled = swim->now_ns < swim->stalled_until_ns;
    if (member->state == SWIM_ALIVE)
        start_suspicion(swim, at, member->incarnation, &self, 1, stalled ? swim->health + 1 : 1);
    else if (member->state == SWIM_SUSPECT)
        (void)confirm(swim, at, &self, 1);
}

void swim_table_dismiss(struct swim *swim, uint64_t id)
{
    const uint32_t at = swim_lookup(swim, id);
    if (swim_slot_abroad(swim, at))
        apply_gone(swim, at, SWIM_LEFT, swim->slots[at].member.incarnation);
}

uint32_t swim_accused_sender(const struct swim *swim, const struct swim_message *message)
{
    const uint32_t at = swim_lookup(swim, message->sender);
    if (at == SWIM_SLOT_NONE || at == SWIM_SELF)
        return SWIM_SLOT_NONE;
    const struct swim_member *member = &swim->slots[at].member;
    const bool accused = member->state != SWIM_ALIVE; /* also of having left: it speaks */
    return accused && member->incarnation >= message->incarnation ? at : SWIM_SLOT_NONE;
}

/* ---- time ---- */

static void reap(struct swim *swim)
{
    if (swim->now_ns < swim->reap_ns)
        return;
    for (uint32_t at = 1; at < swim->slots_len && event_room(swim); at++) {
        const struct swim_slot *slot = &swim->slots[at];
        const int64_t age_ns = sat_sub(swim->now_ns, slot->member.since_ns);
        if (slot->used && slot->events == 0 && slot->member.state >= SWIM_DEAD &&
            age_ns >= swim->options.tombstone_ns)
            slot_forget(swim, at);
    }
    swim->reap_ns = sat_add(swim->now_ns, swim->options.tombstone_ns / TOMBSTONE_CHECKS + 1);
}

void swim_table_tick(struct swim *swim)
{
    const struct swim_region *home = &swim->regions[SWIM_HOME];
    for (uint32_t at = 1; at < swim->slots_len && home->members[SWIM_SUSPECT] > 0; at++) {
        const struct swim_slot *slot = &swim->slots[at];
        if (slot->used && slot->member.state == SWIM_SUSPECT && slot->deadline_ns <= swim->now_ns)
            apply_gone(swim, at, SWIM_DEAD, slot->member.incarnation);
    }
    reap(swim);
}

int64_t swim_table_deadline(const struct swim *swim)
{
    int64_t deadline_ns = swim->reap_ns;
    if (swim->regions[SWIM_HOME].members[SWIM_SUSPECT] == 0)
        return deadline_ns;
    for (uint32_t at = 1; at < swim->slots_len; at++) {
        const struct swim_slot *slot = &swim->slots[at];
        if (slot->used && slot->member.state == SWIM_SUSPECT && slot->deadline_ns < deadline_ns)
            deadline_ns = slot->deadline_ns;
    }
    return deadline_ns;
}

/* ---- choosing members ---- */

/* Reservoir sampling: one pass, every member equally likely. */
uint32_t swim_pick(struct swim *swim, uint32_t region, uint32_t wanted, uint32_t except,
                   uint32_t *picked)
{
    uint32_t seen = 0;
    ASSERT(wanted <= SWIM_HELPERS_MAX);
    for (uint32_t i = 0; i < swim->order_len; i++) {
        const uint32_t at = swim->order[i];
        if (at == except || swim->slots[at].region != region ||
            swim->slots[at].member.state > SWIM_SUSPECT || swim_unheard(swim, at))
            continue;
        if (seen < wanted) {
            picked[seen] = at;
        } else {
            const uint64_t place = random_below(&swim->random, seen + 1);
            if (place < wanted)
                picked[place] = at;
        }
        seen++;
    }
    ASSERT(seen <= swim->order_len);
    return seen < wanted ? seen : wanted;
}

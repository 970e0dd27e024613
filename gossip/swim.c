/* swim.c - the entry points: time and bytes in, effects out.
 *
 *   swim_receive --> frame --> items (swim_table) --> probe / sync answers --+
 *   swim_tick -----> suspicions, probes, gossip, push/pull ------------------+--> effects
 *
 * Both begin alike: they take the time, and if it is much later than the last deadline the delay
 * was this node's own (a stalled process, a paused machine). Then nobody else is to blame: waits
 * are prolonged by the delay, local health falls, and suspicions of the next second are given
 * more time. The answers that came meanwhile are still in the socket's buffer.
 *
 * And they end alike: pages, then events go out while there is room; the rest makes the next
 * deadline "at once". So nothing is lost in a full effects buffer but replies, which are counted.
 *
 * The invariants are in swim_internal.h and checked by swim_check.c.
 */
#include "gossip/swim.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "gossip/swim_doubt.h"
#include "gossip/swim_health.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_piggyback.h"
#include "gossip/swim_probe.h"
#include "gossip/swim_record.h"
#include "gossip/swim_region.h"
#include "gossip/swim_rumour.h"
#include "gossip/swim_seed.h"
#include "gossip/swim_stranger.h"
#include "gossip/swim_sync.h"
#include "gossip/swim_table.h"

#define MS               INT64_C(1000000)
#define INTERVAL_MAX_NS  (60000 * MS)
#define TOMBSTONE_MAX_NS (INT64_C(365) * 86400000 * MS)

enum { FACTOR_MAX = 100, HEALTH_MAX = 64 };

void swim_options_default(struct swim_options *options)
{
    *options = (struct swim_options){.probe_interval_ns = 500 * MS,
                                     .ack_timeout_ns = 200 * MS,
                                     .gossip_interval_ns = 100 * MS,
                                     .push_pull_ns = 30000 * MS,
                                     .join_retry_ns = 500 * MS,
                                     .rejoin_ns = 2000 * MS,
                                     .contact_ns = 1000 * MS,
                                     .tombstone_ns = 86400000 * MS,
                                     .stall_ns = 100 * MS,
                                     .gossip_peers = 3,
                                     .abroad_peers = 2,
                                     .indirect_peers = 3,
                                     .retransmit_factor = 4,
                                     .suspicion_factor = 6,
                                     .suspicion_max_ratio = 6,
                                     .confirmations = 2,
                                     .health_max = 8,
                                     .members_max = SWIM_MEMBERS_MAX};
}

uint64_t swim_incarnation_start(uint64_t stored, uint64_t now_ms)
{
    if (stored <= SWIM_INCARNATION_START_MAX)
        return stored;
    return now_ms < SWIM_INCARNATION_START_MAX ? now_ms : SWIM_INCARNATION_START_MAX;
}

static bool interval_ok(int64_t interval_ns)
{
    return interval_ns > 0 && interval_ns <= INTERVAL_MAX_NS;
}

static bool options_ok(const struct swim_options *options)
{
    const bool times_ok =
        interval_ok(options->probe_interval_ns) && interval_ok(options->ack_timeout_ns) &&
        options->ack_timeout_ns < options->probe_interval_ns &&
        interval_ok(options->gossip_interval_ns) && interval_ok(options->push_pull_ns) &&
        interval_ok(options->join_retry_ns) && interval_ok(options->rejoin_ns) &&
        interval_ok(options->contact_ns) && interval_ok(options->stall_ns) &&
        options->tombstone_ns > 0 && options->tombstone_ns <= TOMBSTONE_MAX_NS;
    const bool counts_ok =
        options->gossip_peers >= 1 && options->gossip_peers <= SWIM_HELPERS_MAX &&
        options->indirect_peers <= SWIM_HELPERS_MAX && options->abroad_peers >= 1 &&
        options->confirmations < SWIM_ACCUSERS_MAX && options->health_max <= HEALTH_MAX &&
        options->members_max >= 1 && options->members_max <= SWIM_MEMBERS_MAX;
    const bool factors_ok =
        options->retransmit_factor >= 1 && options->retransmit_factor <= FACTOR_MAX &&
        options->suspicion_factor >= 1 && options->suspicion_factor <= FACTOR_MAX &&
        options->suspicion_max_ratio >= 1 && options->suspicion_max_ratio <= FACTOR_MAX;
    return times_ok && counts_ok && factors_ok;
}

/* ---- life ---- */

static bool memory_get(struct swim *swim)
{
    const size_t members = swim->options.members_max;
    swim->index_len = 4;
    while (swim->index_len < 2 * members)
        swim->index_len *= 2;
    ASSERT(swim->index_len >= 2 * members); /* GOSSIP-6: half of it stays empty */
    swim->slots = alloc_array(swim->allocator, members, sizeof *swim->slots);
    swim->order = alloc_array(swim->allocator, members, sizeof *swim->order);
    swim->rumours = alloc_array(swim->allocator, members, sizeof *swim->rumours);
    swim->index = alloc_array(swim->allocator, swim->index_len, sizeof *swim->index);
    swim->strangers.ring = alloc_array(swim->allocator, members, sizeof *swim->strangers.ring);
    return swim->strangers.ring != NULL && swim->slots != NULL && swim->order != NULL &&
           swim->rumours != NULL && swim->index != NULL;
}

void swim_free(struct swim **swim)
{
    struct swim *gone = *swim;
    if (gone == NULL)
        return;
    const size_t members = gone->options.members_max;
    alloc_put(gone->allocator, gone->slots, members * sizeof *gone->slots);
    alloc_put(gone->allocator, gone->order, members * sizeof *gone->order);
    alloc_put(gone->allocator, gone->rumours, members * sizeof *gone->rumours);
    alloc_put(gone->allocator, gone->index, gone->index_len * sizeof *gone->index);
    alloc_put(gone->allocator, gone->strangers.ring, members * sizeof *gone->strangers.ring);
    alloc_put(gone->allocator, gone, sizeof *gone);
    *swim = NULL;
}

static void self_init(struct swim *swim, const struct swim_record *record)
{
    struct swim_slot *self = &swim->slots[SWIM_SELF];
    self->used = true;
    self->patience = 1;
    self->member.record = *record;
    self->member.record.version = 1;
    self->member.incarnation = record->incarnation;
    swim->slots_len = 1;
    swim_region_enter(swim, SWIM_SELF);
    swim_rumour_start(swim, SWIM_SELF, true, 0);
}

static bool id_is_zero(const uint8_t *cluster_id)
{
    static const uint8_t zero[SWIM_CLUSTER_ID_LEN];
    return memcmp(cluster_id, zero, sizeof zero) == 0;
}

int swim_new(struct swim **out, const struct allocator *allocator,
             const struct swim_options *options, const struct swim_record *self,
             const uint8_t *cluster_id, uint64_t seed)
{
    struct swim_record record = *self;
    *out = NULL;
    record.version = 1;
    if (!options_ok(options) || swim_record_check(&record) != 0)
        return TG_EINVALID;
    struct swim *swim = alloc_get(allocator, sizeof *swim);
    if (swim == NULL)
        return TG_ENOMEM;
    swim->allocator = allocator;
    swim->options = *options;
    if (!memory_get(swim)) {
        swim_free(&swim);
        return TG_ENOMEM;
    }
    random_init(&swim->random, seed);
    memcpy(swim->cluster_id, cluster_id, SWIM_CLUSTER_ID_LEN);
    swim->joined = !id_is_zero(cluster_id);
    swim_seq_init(swim, seed);
    self_init(swim, &record);
    swim_index_put(swim, record.id, SWIM_SELF);
    *out = swim;
    return 0;
}

int swim_set_cluster(struct swim *swim, const uint8_t *cluster_id)
{
    if (swim->joined)
        return memcmp(swim->cluster_id, cluster_id, SWIM_CLUSTER_ID_LEN) == 0 ? 0 : TG_ECONFLICT;
    ASSERT(!swim->joined);
    memcpy(swim->cluster_id, cluster_id, SWIM_CLUSTER_ID_LEN);
    swim->joined = !id_is_zero(cluster_id);
    swim->seeds.join_ns = swim->now_ns;
    swim->at_once = true;
    return 0;
}

void swim_effects_clear(struct swim_effects *effects)
{
    effects->persist_incarnation = 0;
    effects->sends_count = 0;
    effects->events_count = 0;
    effects->met_count = 0;
    effects->bytes_len = 0;
}

/* ---- the frame of every call ---- */

/* First turns at random moments, so that nodes started together do not stay in step. */
static void timers_start(struct swim *swim)
{
    const struct swim_options *options = &swim->options;
    const int64_t now_ns = swim->now_ns;
    swim->started = true;
    swim->slots[SWIM_SELF].member.since_ns = now_ns;
    swim->probe.next_ns = now_ns + random_between(&swim->random, 0, options->probe_interval_ns);
    swim->sync.push_pull_ns = now_ns + random_between(&swim->random, 0, options->push_pull_ns);
    swim->sync.rejoin_ns = now_ns + random_between(&swim->random, 0, options->rejoin_ns);
    swim->gossip_ns = now_ns;
    swim->seeds.join_ns = now_ns;
    swim->reap_ns = now_ns;
}

static void timer_catch_up(int64_t *timer_ns, int64_t now_ns)
{
    if (*timer_ns < now_ns)
        *timer_ns = now_ns;
}

/* This node was away for `late_ns`: it blames itself. */
static void stall(struct swim *swim, int64_t late_ns)
{
    ASSERT(late_ns > swim->options.stall_ns);
    const int64_t grace_max_ns = swim_suspicion_min_ns(swim);
    const int64_t grace_ns = late_ns < grace_max_ns ? late_ns : grace_max_ns;
    swim->stats.stalls++;
    swim_health_add(swim, 1);
    swim->stalled_until_ns = sat_add(swim->now_ns, 2 * swim->options.probe_interval_ns);
    swim_probe_delay(swim, late_ns);
    for (uint32_t at = 1; at < swim->slots_len; at++) {
        struct swim_slot *slot = &swim->slots[at];
        if (slot->used && slot->member.state == SWIM_SUSPECT) {
            slot->member.since_ns = sat_add(slot->member.since_ns, grace_ns);
            slot->deadline_ns = sat_add(slot->deadline_ns, grace_ns);
        }
    }
    timer_catch_up(&swim->probe.next_ns, swim->now_ns);
    timer_catch_up(&swim->gossip_ns, swim->now_ns);
    timer_catch_up(&swim->sync.push_pull_ns, swim->now_ns);
    timer_catch_up(&swim->sync.rejoin_ns, swim->now_ns);
    timer_catch_up(&swim->seeds.join_ns, swim->now_ns);
    timer_catch_up(&swim->sync.contact_ns, swim->now_ns);
    timer_catch_up(&swim->reap_ns, swim->now_ns);
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t timers_earliest(const struct swim *swim)
{
    int64_t deadline_ns = earlier(swim_probe_deadline(swim), swim_table_deadline(swim));
    deadline_ns = earlier(deadline_ns, swim_sync_deadline(swim));
    if (swim->rumours_len > 0 && swim_others_anywhere(swim) > 0)
        deadline_ns = earlier(deadline_ns, swim->gossip_ns);
    return deadline_ns;
}

static void enter(struct swim *swim, int64_t now_ns, struct swim_effects *out)
{
    ASSERT(out != NULL && swim->out == NULL);
    swim->out = out;
    if (now_ns > swim->now_ns)
        swim->now_ns = now_ns;
    if (!swim->started)
        timers_start(swim);
    else if (sat_sub(swim->now_ns, swim->deadline_ns) > swim->options.stall_ns)
        stall(swim, sat_sub(swim->now_ns, swim->deadline_ns));
}

static void leave(struct swim *swim)
{
    ASSERT(swim->out != NULL); /* GOSSIP-9 */
    swim_jobs_run(swim);
    swim_events_flush(swim);
    if (swim_jobs_waiting(swim) || swim->events_waiting > 0)
        swim->at_once = true;
    swim->deadline_ns = timers_earliest(swim);
    timer_catch_up(&swim->deadline_ns, swim->now_ns); /* lateness counts from now on */
    swim->out = NULL;
}

/* ---- receiving ---- */

static int frame_check(struct swim *swim, const struct swim_message *message)
{
    const bool greeting = message->kind == SWIM_HELLO || message->kind == SWIM_WELCOME;
    const bool ours =
        swim->joined && memcmp(message->cluster_id, swim->cluster_id, SWIM_CLUSTER_ID_LEN) == 0;
    if (ours || greeting)
        return 0;
    swim->stats.foreign++;
    return TG_ECONFLICT;
}

static void items_apply(struct swim *swim, const struct swim_message *message)
{
    struct mp_cursor cursor = message->items;
    struct swim_item item;
    for (uint32_t i = 0; i < message->items_count; i++) {
        swim_item_get(&cursor, &item);
        ASSERT(!cursor.failed); /* MESSAGE-1 */
        const char *owner = swim_apply(swim, &item, message->kind == SWIM_RECORDS, message->sender);
        if (owner != NULL)
            swim_doubt(swim, item.id, owner);
    }
}

/* Who believed us dead hears at once, and from ourselves, that we are not. */
static void refutation_answer(struct swim *swim, const struct swim_message *message)
{
    struct mp_writer writer;
    if (!swim->refuted)
        return;
    if (!swim_message_begin(swim, &writer, SWIM_GOSSIP, 0, message->sender)) {
        swim->stats.replies_dropped++;
        return;
    }
    mp_put_array(&writer, 0);
    swim_rumours_put(swim, &writer, SWIM_PIGGYBACK_MAX, SWIM_SELF);
    swim_message_end(swim, &writer, message->address);
}

static void message_apply(struct swim *swim, const struct swim_message *message)
{
    ASSERT(swim->out != NULL && message->sender != 0);
    const uint64_t self = swim->slots[SWIM_SELF].member.record.id;
    if (message->sender == self) {
        swim_seed_answered(swim, message->seq, self); /* a seed that leads to ourselves */
        return;
    }
    if (message->target != 0 && message->target != self) {
        swim->stats.misdirected++;
        return;
    }
    if (!swim_stranger_heard(swim, message))
        return;
    swim->refuted = false;
    if (message->kind != SWIM_HELLO && message->kind != SWIM_WELCOME) {
        items_apply(swim, message);
        swim_doubt_known(swim, message);
    }
    swim_probe_receive(swim, message);
    swim_sync_receive(swim, message);
    refutation_answer(swim, message);
}

/* What the message as such says of its sender's region, and of others. */
static void sender_heard(struct swim *swim, const struct swim_message *message, size_t len)
{
    const uint32_t at = swim_lookup(swim, message->sender);
    if (at == SWIM_SLOT_NONE)
        return;
    swim_region_contact(swim, swim->slots[at].region);
    swim_ages_take(swim, at, message->ages, message->ages_len);
    if (!swim_slot_abroad(swim, at))
        return;
    swim->stats.abroad_received++;
    swim->stats.abroad_received_bytes += len;
}

int swim_receive(struct swim *swim, int64_t now_ns, const void *bytes, size_t len,
                 struct swim_effects *out)
{
    struct swim_message message;
    swim->stats.received++;
    swim->stats.received_bytes += len;
    int error = swim_message_parse(swim, bytes, len, &message);
    if (error != 0)
        swim->stats.malformed++;
    else
        error = frame_check(swim, &message);
    if (error != 0)
        return error;
    enter(swim, now_ns, out);
    message_apply(swim, &message);
    sender_heard(swim, &message, len);
    leave(swim);
    return 0;
}

/* ---- time ---- */

void swim_tick(struct swim *swim, int64_t now_ns, struct swim_effects *out)
{
    enter(swim, now_ns, out);
    swim->at_once = false;
    swim_jobs_run(swim); /* what waited longest goes first */
    swim_probe_tick(swim);
    swim_table_tick(swim);
    swim_sync_tick(swim);
    swim_gossip_tick(swim);
    leave(swim);
}

int64_t swim_next_deadline(const struct swim *swim)
{
    if (!swim->started)
        return 0;
    return swim->at_once ? earlier(swim->now_ns, swim->deadline_ns) : swim->deadline_ns;
}

/* ---- what this node does of its own accord ---- */

void swim_wall(struct swim *swim, int64_t wall_ns, bool timeless)
{
    swim->wall_ns = wall_ns;
    swim->timeless = timeless;
}

/* Two records say the same if their bytes are the same. */
static bool record_same(const struct swim_record *a, const struct swim_record *b)
{
    uint8_t bytes_a[SWIM_ITEM_MAX];
    uint8_t bytes_b[SWIM_ITEM_MAX];
    struct mp_writer writer_a;
    struct mp_writer writer_b;
    mp_writer_init(&writer_a, bytes_a, sizeof bytes_a);
    mp_writer_init(&writer_b, bytes_b, sizeof bytes_b);
    swim_record_put(&writer_a, a);
    swim_record_put(&writer_b, b);
    ASSERT(!writer_a.failed && !writer_b.failed);
    return writer_a.len == writer_b.len && memcmp(bytes_a, bytes_b, writer_a.len) == 0;
}

int swim_update_self(struct swim *swim, const struct swim_record *record)
{
    struct swim_record *self = &swim->slots[SWIM_SELF].member.record;
    struct swim_record fresh = *record;
    fresh.id = self->id;
    fresh.incarnation = self->incarnation;
    fresh.version = self->version;
    if (swim_record_check(&fresh) != 0 || strcmp(swim_region_of(&fresh), swim_region_of(self)) != 0)
        return TG_EINVALID;
    if (record_same(&fresh, self))
        return 0;
    ASSERT(fresh.id == self->id && fresh.incarnation == self->incarnation); /* GOSSIP-2 */
    fresh.version++;
    *self = fresh;
    swim_rumour_start(swim, SWIM_SELF, true, 0);
    swim->at_once = true;
    return 0;
}

void swim_retell_self(struct swim *swim)
{
    swim_rumour_start(swim, SWIM_SELF, true, 0);
    swim->at_once = true;
}

void swim_leave(struct swim *swim, int64_t now_ns, struct swim_effects *out)
{
    struct swim_member *self = &swim->slots[SWIM_SELF].member;
    enter(swim, now_ns, out);
    if (self->state != SWIM_LEFT) {
        ASSERT(self->state == SWIM_ALIVE &&
               swim->regions[SWIM_HOME].members[SWIM_ALIVE] > 0); /* GOSSIP-1 */
        swim->regions[SWIM_HOME].members[self->state]--;
        swim->regions[SWIM_HOME].members[SWIM_LEFT]++;
        self->state = SWIM_LEFT;
        self->since_ns = swim->now_ns;
        swim_rumour_start(swim, SWIM_SELF, true, 0);
        swim->gossip_ns = swim->now_ns;
    }
    swim_gossip_tick(swim);
    leave(swim);
}

bool swim_told(const struct swim *swim)
{
    return !swim->slots[SWIM_SELF].rumour || swim_others_anywhere(swim) == 0;
}

bool swim_leave_done(const struct swim *swim)
{
    return swim->slots[SWIM_SELF].member.state == SWIM_LEFT && swim_told(swim);
}

void swim_probe_now(struct swim *swim, uint64_t id)
{
    const uint32_t at = swim_lookup(swim, id);
    if (at == SWIM_SLOT_NONE || at == SWIM_SELF || swim->slots[at].member.state > SWIM_SUSPECT ||
        swim_slot_abroad(swim, at))
        return;
    for (uint32_t i = 0; i < swim->probe.hints_len; i++) {
        if (swim->probe.hints[i] == id)
            return;
    }
    if (swim->probe.hints_len == SWIM_HINTS_MAX)
        return;                                     /* the round comes to it anyway */
    ASSERT(swim->probe.hints_len < SWIM_HINTS_MAX); /* GOSSIP-8 */
    swim->probe.hints[swim->probe.hints_len++] = id;
    swim->at_once = true;
}

void swim_dismiss(struct swim *swim, uint64_t id)
{
    swim_table_dismiss(swim, id);
}

int swim_add_seed(struct swim *swim, const char *address)
{
    return swim_seed_add(swim, address);
}

void swim_ring(struct swim *swim, const uint64_t *ids, uint32_t count)
{
    swim_stranger_ring(swim, ids, count);
}

/* ---- looking ---- */

const char *swim_region_name(const struct swim_record *record)
{
    return swim_region_of(record);
}

const struct swim_region *swim_region_next(const struct swim *swim, size_t *cursor)
{
    while (*cursor < SWIM_REGIONS_MAX) {
        const struct swim_region *region = &swim->regions[(*cursor)++];
        if (swim_region_used(region))
            return region;
    }
    return NULL;
}

const struct swim_member *swim_self(const struct swim *swim)
{
    return &swim->slots[SWIM_SELF].member;
}

const struct swim_member *swim_find(const struct swim *swim, uint64_t id)
{
    const uint32_t at = swim_lookup(swim, id);
    return at == SWIM_SLOT_NONE ? NULL : &swim->slots[at].member;
}

const struct swim_member *swim_next(const struct swim *swim, size_t *cursor)
{
    while (*cursor < swim->slots_len) {
        const struct swim_slot *slot = &swim->slots[(*cursor)++];
        if (slot->used)
            return &slot->member;
    }
    return NULL;
}

static uint32_t counted(const struct swim *swim, enum swim_state state)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < SWIM_REGIONS_MAX; at++)
        count += swim->regions[at].members[state];
    return count;
}

void swim_stats(const struct swim *swim, struct swim_stats *out)
{
    *out = swim->stats;
    out->local_health = swim->health;
    out->alive = counted(swim, SWIM_ALIVE);
    out->suspect = counted(swim, SWIM_SUSPECT);
    out->dead = counted(swim, SWIM_DEAD);
    out->left = counted(swim, SWIM_LEFT);
}

const char *swim_state_name(enum swim_state state)
{
    switch (state) {
    case SWIM_ALIVE:
        return "alive";
    case SWIM_SUSPECT:
        return "suspect";
    case SWIM_DEAD:
        return "dead";
    case SWIM_LEFT:
        return "left";
    }
    return "unknown";
}

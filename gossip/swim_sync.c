/* swim_sync.c - push/pull: finding out what two nodes know differently, and seeds.
 *
 * Rumours may miss a node, and none crosses a split. So every 30 s a node compares itself with a
 * random member; every 2 s with an address where a dead member or a seed may live again; and
 * while it is alone, twice a second with its seeds. With other regions each node keeps in contact
 * at a slow pace: it compares itself with a random member of one after the other, for ever.
 *
 *   A                                         B
 *   |-- SYNC: 64 hashes, A's own item ------->|   equal hashes: nothing else is sent
 *   |<- DIGEST: stamps of differing buckets --|   pages of whole buckets
 *   |-- RECORDS: what B lacks --------------->|   pages
 *   |-- WANT: ids that A lacks -------------->|
 *   |<- RECORDS ------------------------------|
 *
 * A member's bucket is fixed by its id; the hash of a bucket is the sum of its members' hashes,
 * salted anew in each exchange, so that a collision does not last. In a quiet cluster an exchange
 * therefore costs the same for 10 members and for 2,000.
 *
 * A node without a cluster only greets: HELLO to its seeds, WELCOME back, each with a record.
 *
 * SYNC-1  Pages that find no room wait in a job and go out with the next ticks.
 * SYNC-2  A DIGEST page names the buckets it covers wholly; what it does not list there, its sender
 *         does not have.
 * SYNC-3  Who says something and is not known was missed by the rumours about it. It is asked at
 *         once, not with the next exchange of 30 s: it may hold keys together with this node.
 * SYNC-4  A seed that did not answer may be of another cluster, which drops what is not its own. It
 *         is greeted as well, as by a node without a cluster: whoever is there says whose it is.
 */
#include "gossip/swim_sync.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/sat.h"
#include "gossip/swim_doubt.h"
#include "gossip/swim_health.h"
#include "gossip/swim_index.h"
#include "gossip/swim_internal.h"
#include "gossip/swim_message.h"
#include "gossip/swim_piggyback.h"
#include "gossip/swim_record.h"
#include "gossip/swim_region.h"
#include "gossip/swim_seed.h"
#include "gossip/swim_table.h"

enum {
    WANTS_MAX = SWIM_MESSAGE_MAX / SWIM_ENTRY_LEN,
    BUCKET_SHIFT = 58,
    CONTACT_NODES_MAX = 5 /* beyond, more nodes of a region make more contacts */
};

static_assert(SWIM_BUCKETS == 1 << (64 - BUCKET_SHIFT), "the top bits of a hash are the bucket");
static_assert(SWIM_BUCKETS == 64, "a summary has so many, at every node");

/* ---- stamps ---- */

struct stamp {
    uint64_t id;
    uint64_t incarnation;
    uint64_t record_incarnation;
    uint64_t record_version;
    uint8_t state;
};

static struct stamp stamp_of(const struct swim_member *member)
{
    return (struct stamp){.id = member->record.id,
                          .incarnation = member->incarnation,
                          .record_incarnation = member->record.incarnation,
                          .record_version = member->record.version,
                          .state = (uint8_t)member->state};
}

/* Whether `a` knows something that `b` does not; both may hold at once. */
static bool stamp_newer(const struct stamp *a, const struct stamp *b)
{
    if (a->incarnation != b->incarnation && a->incarnation > b->incarnation)
        return true;
    if (a->incarnation == b->incarnation && a->state > b->state)
        return true;
    if (a->record_incarnation != b->record_incarnation)
        return a->record_incarnation > b->record_incarnation;
    return a->record_version > b->record_version;
}

static uint32_t bucket_of(uint64_t id)
{
    return (uint32_t)(hash_mix64(id) >> BUCKET_SHIFT);
}

static uint32_t stamp_hash(const struct stamp *stamp, uint64_t salt)
{
    uint64_t hash = hash_mix64(stamp->id ^ salt);
    hash = hash_mix64(hash + stamp->incarnation * 4 + stamp->state);
    hash = hash_mix64(hash + stamp->record_incarnation);
    return (uint32_t)hash_mix64(hash + stamp->record_version);
}

static void summarise(const struct swim *swim, uint64_t salt, uint32_t *hashes)
{
    memset(hashes, 0, SWIM_BUCKETS * sizeof *hashes);
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        if (!swim->slots[at].used)
            continue;
        const struct stamp stamp = stamp_of(&swim->slots[at].member);
        hashes[bucket_of(stamp.id)] += stamp_hash(&stamp, salt);
    }
}

/* ---- starting an exchange ---- */

/* Returns its number, 0 if there is no room. */
static uint64_t sync_start(struct swim *swim, const char *address, bool abroad)
{
    struct mp_writer writer;
    uint32_t hashes[SWIM_BUCKETS];
    struct bytes_writer bytes;
    const uint64_t salt = random_next(&swim->random);
    const uint64_t seq = swim_seq(swim);

    if (!swim_message_begin(swim, &writer, SWIM_SYNC, seq, 0))
        return 0;
    swim->frame.abroad = abroad;
    summarise(swim, salt, hashes);
    mp_put_array(&writer, 2);
    mp_put_uint(&writer, salt);
    bytes_writer_init(&bytes, mp_reserve_bin(&writer, SWIM_SUMMARY_LEN), SWIM_SUMMARY_LEN);
    for (int i = 0; i < SWIM_BUCKETS; i++)
        bytes_put_u32(&bytes, hashes[i]);
    swim_rumours_put(swim, &writer, 0, SWIM_SELF);
    swim_message_end(swim, &writer, address);
    swim->stats.push_pulls++;
    return seq;
}

/* Greets a seed. Returns the greeting's number, 0 if there is no room. */
static uint64_t hello_start(struct swim *swim, struct swim_seed *seed)
{
    const uint64_t seq = swim_seq(swim);
    if (!swim_hello(swim, seed->address, seq))
        return 0;
    memmove(&seed->greetings[1], &seed->greetings[0],
            (SWIM_GREETINGS_MAX - 1) * sizeof seed->greetings[0]);
    seed->greetings[0] = (struct swim_greeting){.seq = seq, .sent_ns = swim->now_ns};
    return seq;
}

/* Tries the next few seeds, all of them over a few rounds. */
static void seeds_try(struct swim *swim, uint32_t tries_max)
{
    uint32_t tries = 0;
    for (uint32_t i = 0; i < swim->seeds.len && tries < tries_max; i++) {
        struct swim_seed *seed = &swim->seeds.all[swim->seeds.at++ % swim->seeds.len];
        if (swim_seed_settled(swim, seed))
            continue;
        if (swim->joined && seed->seq != 0)
            (void)hello_start(swim, seed); /* SYNC-4 */
        const uint64_t seq =
            swim->joined ? sync_start(swim, seed->address, false) : hello_start(swim, seed);
        if (seq == 0)
            return;
        seed->seq = seq;
        tries++;
    }
}

static void join_step(struct swim *swim)
{
    if (swim->now_ns < swim->seeds.join_ns || (swim->joined && swim_others(swim) > 0))
        return;
    seeds_try(swim, SWIM_SEEDS_PER_ROUND_MAX);
    swim->seeds.join_ns = sat_add(swim->now_ns, swim->options.join_retry_ns);
}

static void push_pull_step(struct swim *swim)
{
    uint32_t at;
    if (swim->now_ns < swim->sync.push_pull_ns)
        return;
    if (swim_pick(swim, SWIM_HOME, 1, SWIM_SLOT_NONE, &at) == 1)
        (void)sync_start(swim, swim->slots[at].member.record.gossip, false);
    swim->sync.push_pull_ns = sat_add(swim->now_ns, swim->options.push_pull_ns);
}

/* A random dead member of a region, or none. */
static uint32_t pick_dead(struct swim *swim, uint32_t region)
{
    uint32_t chosen = SWIM_SLOT_NONE;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < swim->order_len && swim->regions[region].members[SWIM_DEAD] > 0; i++) {
        const struct swim_slot *slot = &swim->slots[swim->order[i]];
        if (slot->member.state != SWIM_DEAD || slot->region != region)
            continue;
        if (random_below(&swim->random, ++seen) == 0)
            chosen = swim->order[i];
    }
    return chosen;
}

/* One dead member or one seed a turn; which of the two kinds is a matter of chance. */
static void rejoin_step(struct swim *swim)
{
    if (swim->now_ns < swim->sync.rejoin_ns)
        return;
    swim->sync.rejoin_ns = sat_add(swim->now_ns, swim->options.rejoin_ns);
    const uint32_t chosen = pick_dead(swim, SWIM_HOME);
    if (chosen == SWIM_SLOT_NONE || random_below(&swim->random, 2) == 0)
        seeds_try(swim, 1);
    if (chosen != SWIM_SLOT_NONE)
        (void)sync_start(swim, swim->slots[chosen].member.record.gossip, false);
}

/* The next region after the one asked last that has members who did not leave; or none. */
static uint32_t contact_next(struct swim *swim)
{
    for (int tries = 0; tries < SWIM_REGIONS_MAX; tries++) {
        swim->sync.contact_at = (swim->sync.contact_at + 1) % SWIM_REGIONS_MAX;
        const struct swim_region *region = &swim->regions[swim->sync.contact_at];
        ASSERT(swim->sync.contact_at < SWIM_REGIONS_MAX);
        if (swim->sync.contact_at != SWIM_HOME &&
            swim_region_living(region) + region->members[SWIM_DEAD] > 0)
            return swim->sync.contact_at;
    }
    return SWIM_REGION_NONE;
}

/* A region makes about one contact a second, however few its nodes; a node not more than one in
 * five seconds when they are enough. The pauses vary, so that nodes which learned of a region
 * together do not stay in step. Where all are dead, the dead are asked. */
static void contact_step(struct swim *swim)
{
    int64_t nodes = (int64_t)swim_others(swim) + 1;
    uint32_t at = SWIM_SLOT_NONE;
    if (swim->regions_abroad == 0 || swim->now_ns < swim->sync.contact_ns)
        return;
    nodes = nodes < CONTACT_NODES_MAX ? nodes : CONTACT_NODES_MAX;
    const int64_t pause_ns = nodes * swim->options.contact_ns;
    swim->sync.contact_ns =
        sat_add(swim->now_ns, random_between(&swim->random, pause_ns / 2, pause_ns / 2 + pause_ns));
    const uint32_t region = contact_next(swim);
    if (region == SWIM_REGION_NONE)
        return;
    if (swim_pick(swim, region, 1, SWIM_SLOT_NONE, &at) == 0)
        at = pick_dead(swim, region);
    ASSERT(at != SWIM_SLOT_NONE && swim_slot_abroad(swim, at));
    swim->sync.contact.seq = sync_start(swim, swim->slots[at].member.record.gossip, true);
    swim->sync.contact.sent_ns = swim->now_ns;
}

static void contact_answered(struct swim *swim, const struct swim_message *message)
{
    const uint32_t at = swim_lookup(swim, message->sender);
    if (swim->sync.contact.seq == 0 || message->seq != swim->sync.contact.seq)
        return;
    swim->sync.contact.seq = 0;
    if (swim_slot_abroad(swim, at))
        swim_measure(swim, at, swim->sync.contact.sent_ns, message);
}

void swim_sync_tick(struct swim *swim)
{
    if (swim->slots[SWIM_SELF].member.state == SWIM_LEFT)
        return;
    join_step(swim);
    if (!swim->joined)
        return;
    push_pull_step(swim);
    rejoin_step(swim);
    contact_step(swim);
}

int64_t swim_sync_deadline(const struct swim *swim)
{
    int64_t deadline_ns = INT64_MAX;
    if (swim->slots[SWIM_SELF].member.state == SWIM_LEFT)
        return deadline_ns;
    if (!swim->joined || swim_others(swim) == 0)
        deadline_ns = swim->seeds.join_ns;
    if (!swim->joined)
        return deadline_ns;
    if (swim->sync.push_pull_ns < deadline_ns)
        deadline_ns = swim->sync.push_pull_ns;
    if (swim->regions_abroad > 0 && swim->sync.contact_ns < deadline_ns)
        deadline_ns = swim->sync.contact_ns;
    return swim->sync.rejoin_ns < deadline_ns ? swim->sync.rejoin_ns : deadline_ns;
}

/* ---- jobs: pages owed ---- */

static bool slots_has(const uint64_t *slots, uint32_t at)
{
    return (slots[at / 64] >> (at % 64) & 1) != 0;
}

static void slots_set(uint64_t *slots, uint32_t at, bool value)
{
    ASSERT(at < SWIM_MEMBERS_MAX);
    const uint64_t bit = UINT64_C(1) << (at % 64);
    slots[at / 64] = value ? slots[at / 64] | bit : slots[at / 64] & ~bit;
}

/* The job for this address, an unfinished one of the same kind if there is one. */
static struct swim_job *job_get(struct swim *swim, const struct swim_message *message, bool digest)
{
    struct swim_job *spare = NULL;
    for (int i = 0; i < SWIM_JOBS_MAX; i++) {
        struct swim_job *job = &swim->sync.jobs[i];
        if (!job->used)
            spare = job;
        else if (job->digest == digest && job->target == message->sender &&
                 strcmp(job->address, message->address) == 0)
            return job;
    }
    if (spare == NULL) {
        swim->stats.jobs_dropped++;
        return NULL;
    }
    memset(spare, 0, sizeof *spare);
    spare->used = true;
    spare->digest = digest;
    spare->target = message->sender;
    memcpy(spare->address, message->address, sizeof spare->address);
    return spare;
}

/* Chooses the buckets of the next page; returns how many entries they have. */
static uint32_t page_choose(const struct swim *swim, uint64_t mask, uint64_t *page)
{
    uint32_t sizes[SWIM_BUCKETS] = {0};
    uint32_t entries = 0;
    *page = 0;
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        if (swim->slots[at].used)
            sizes[bucket_of(swim->slots[at].member.record.id)]++;
    }
    for (uint32_t bucket = 0; bucket < SWIM_BUCKETS; bucket++) {
        if ((mask >> bucket & 1) == 0 || entries + sizes[bucket] > SWIM_ENTRIES_MAX)
            continue;
        entries += sizes[bucket];
        *page |= UINT64_C(1) << bucket;
    }
    ASSERT(entries <= SWIM_ENTRIES_MAX && (*page & ~mask) == 0); /* SYNC-2 */
    return entries;
}

static void page_fill(const struct swim *swim, uint64_t page, struct bytes_writer *bytes)
{
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        const struct swim_slot *slot = &swim->slots[at];
        if (!slot->used || (page >> bucket_of(slot->member.record.id) & 1) == 0)
            continue;
        const struct stamp stamp = stamp_of(&slot->member);
        bytes_put_u64(bytes, stamp.id);
        bytes_put_u64(bytes, stamp.incarnation);
        bytes_put_u64(bytes, stamp.record_incarnation);
        bytes_put_u64(bytes, stamp.record_version);
        bytes_put_u8(bytes, stamp.state);
    }
    ASSERT(!bytes->failed);
}

/* One page; a job without differences still sends an empty one, which says "equal". */
static void job_send_digest(struct swim *swim, struct swim_job *job)
{
    ASSERT(job->used && job->digest);
    struct mp_writer writer;
    struct bytes_writer bytes;
    uint64_t page;
    const uint32_t sender = swim_lookup(swim, job->target);
    const bool accused = sender != SWIM_SLOT_NONE && sender != SWIM_SELF &&
                         swim->slots[sender].member.state != SWIM_ALIVE;
    const uint32_t entries = page_choose(swim, job->mask, &page);

    if (job->mask != 0 && page == 0)
        page = job->mask; /* buckets too large for any page: give up on them */
    const size_t len = (size_t)entries * SWIM_ENTRY_LEN;
    if (!swim_message_begin(swim, &writer, SWIM_DIGEST, job->seq, job->target))
        return;
    mp_put_array(&writer, 2);
    mp_put_uint(&writer, entries > 0 ? page : 0);
    bytes_writer_init(&bytes, mp_reserve_bin(&writer, len), len);
    if (entries > 0)
        page_fill(swim, page, &bytes);
    swim_rumours_put(swim, &writer, 0, accused ? sender : SWIM_SLOT_NONE);
    swim_message_end(swim, &writer, job->address);
    job->mask &= ~page;
    job->used = job->mask != 0;
}

static void job_send_records(struct swim *swim, struct swim_job *job)
{
    ASSERT(job->used && !job->digest);
    struct mp_writer writer;
    struct mp_writer items;
    uint32_t count = 0;
    uint32_t at = 0;
    if (!swim_message_begin(swim, &writer, SWIM_RECORDS, 0, job->target))
        return;
    mp_put_array(&writer, 0);
    swim_items_begin(swim, &writer, 0, &items);
    for (at = 0; at < swim->slots_len && count < SWIM_ITEMS_MAX; at++) {
        if (!slots_has(job->slots, at))
            continue;
        if (swim->slots[at].used) {
            if (!swim_item_append(swim, &items, at, true))
                break;
            count++;
        }
        slots_set(job->slots, at, false);
    }
    swim_items_end(&writer, &items, count);
    if (count > 0)
        swim_message_end(swim, &writer, job->address);
    job->used = at < swim->slots_len;
}

void swim_jobs_run(struct swim *swim)
{
    for (int i = 0; i < SWIM_JOBS_MAX; i++) {
        struct swim_job *job = &swim->sync.jobs[i];
        while (job->used && swim_room(swim)) {
            if (job->digest)
                job_send_digest(swim, job);
            else
                job_send_records(swim, job);
        }
    }
}

bool swim_jobs_waiting(const struct swim *swim)
{
    for (int i = 0; i < SWIM_JOBS_MAX; i++) {
        if (swim->sync.jobs[i].used)
            return true;
    }
    return false;
}

/* ---- receiving ---- */

static void receive_sync(struct swim *swim, const struct swim_message *message)
{
    uint32_t hashes[SWIM_BUCKETS];
    struct swim_job *job = job_get(swim, message, true);
    if (job == NULL)
        return;
    summarise(swim, message->number, hashes);
    job->seq = message->seq;
    for (uint32_t i = 0; i < SWIM_BUCKETS; i++) {
        if (hashes[i] != bytes_u32_at(message->bytes, i))
            job->mask |= UINT64_C(1) << i;
    }
}

static struct stamp entry_get(struct bytes_reader *reader)
{
    struct stamp stamp;
    stamp.id = bytes_get_u64(reader);
    stamp.incarnation = bytes_get_u64(reader);
    stamp.record_incarnation = bytes_get_u64(reader);
    stamp.record_version = bytes_get_u64(reader);
    stamp.state = bytes_get_u8(reader);
    return stamp;
}

static void want_send(struct swim *swim, const struct swim_message *message, const uint64_t *ids,
                      uint32_t count)
{
    struct mp_writer writer;
    struct bytes_writer bytes;
    const size_t len = count * sizeof(uint64_t);
    if (count == 0)
        return;
    if (!swim_message_begin(swim, &writer, SWIM_WANT, message->seq, message->sender)) {
        swim->stats.replies_dropped++; /* the next exchange asks again */
        return;
    }
    mp_put_array(&writer, 2);
    mp_put_uint(&writer, 0);
    bytes_writer_init(&bytes, mp_reserve_bin(&writer, len), len);
    for (uint32_t i = 0; i < count; i++)
        bytes_put_u64(&bytes, ids[i]);
    mp_put_array(&writer, 0);
    swim_message_end(swim, &writer, message->address);
}

/* Marks in `push` what the other side lacks of the buckets it covered (SYNC-2). */
static void push_unlisted(const struct swim *swim, uint64_t mask, const uint64_t *listed,
                          uint64_t *push)
{
    for (uint32_t at = 0; at < swim->slots_len; at++) {
        if (!swim->slots[at].used || slots_has(listed, at))
            continue;
        if ((mask >> bucket_of(swim->slots[at].member.record.id) & 1) != 0)
            slots_set(push, at, true);
    }
}

static void receive_digest(struct swim *swim, const struct swim_message *message)
{
    uint64_t listed[SWIM_JOB_WORDS] = {0};
    uint64_t push[SWIM_JOB_WORDS] = {0};
    uint64_t wants[WANTS_MAX];
    uint32_t wants_count = 0;
    uint64_t any = 0;
    struct bytes_reader reader;

    swim_seed_answered(swim, message->seq, message->sender);
    contact_answered(swim, message);
    bytes_reader_init(&reader, message->bytes, message->bytes_len);
    while (bytes_left(&reader) >= SWIM_ENTRY_LEN) {
        const struct stamp theirs = entry_get(&reader);
        const uint32_t at = swim_lookup(swim, theirs.id);
        bool want = at == SWIM_SLOT_NONE;
        if (at != SWIM_SLOT_NONE) {
            const struct stamp ours = stamp_of(&swim->slots[at].member);
            want = stamp_newer(&theirs, &ours);
            slots_set(listed, at, true);
            slots_set(push, at, stamp_newer(&ours, &theirs));
        }
        ASSERT(wants_count < WANTS_MAX); /* a message has no more entries */
        if (want)
            wants[wants_count++] = theirs.id;
    }
    want_send(swim, message, wants, wants_count);
    push_unlisted(swim, message->number, listed, push);
    for (int i = 0; i < SWIM_JOB_WORDS; i++)
        any |= push[i];
    struct swim_job *job = any != 0 ? job_get(swim, message, false) : NULL;
    for (int i = 0; job != NULL && i < SWIM_JOB_WORDS; i++)
        job->slots[i] |= push[i];
}

static void receive_want(struct swim *swim, const struct swim_message *message)
{
    struct swim_job *job = NULL;
    for (size_t i = 0; i < message->bytes_len / sizeof(uint64_t); i++) {
        const uint32_t at = swim_lookup(swim, bytes_u64_at(message->bytes, i));
        if (at == SWIM_SLOT_NONE)
            continue;
        if (job == NULL)
            job = job_get(swim, message, false);
        if (job == NULL)
            return;
        slots_set(job->slots, at, true);
    }
}

static bool of_another_cluster(const struct swim *swim, const struct swim_message *message)
{
    static const uint8_t none[SWIM_CLUSTER_ID_LEN];
    return memcmp(message->cluster_id, none, sizeof none) != 0 &&
           memcmp(message->cluster_id, swim->cluster_id, sizeof none) != 0;
}

static void meet(struct swim *swim, const struct swim_message *message)
{
    ASSERT(swim->out != NULL && swim->out->met_count <= SWIM_MET_MAX);
    struct swim_effects *out = swim->out;
    int64_t asked_ns = 0;
    if (message->record.id != message->sender)
        return;
    const struct swim_seed *seed = swim_seed_welcomed(swim, message, &asked_ns);
    if (seed == NULL && (swim->joined || message->kind == SWIM_WELCOME))
        return;
    if (swim->joined && !of_another_cluster(swim, message))
        return;
    size_t place = 0;
    while (place < out->met_count && out->met[place].record.id != message->sender)
        place++;
    if (place == SWIM_MET_MAX) {
        swim->stats.jobs_dropped++; /* we go on greeting, so it comes again */
        return;
    }
    if (place == out->met_count)
        out->met_count++;
    memcpy(out->met[place].cluster_id, message->cluster_id, SWIM_CLUSTER_ID_LEN);
    out->met[place].record = message->record;
    out->met[place].time_ns = message->time_ns;
    out->met[place].wall_ns = message->wall_ns;
    out->met[place].timeless = message->timeless;
    out->met[place].answers = seed != NULL;
    out->met[place].asked_ns = asked_ns;
    memset(out->met[place].seed, 0, sizeof out->met[place].seed);
    if (seed != NULL)
        memcpy(out->met[place].seed, seed->address, sizeof seed->address);
}

static void receive_hello(struct swim *swim, const struct swim_message *message)
{
    struct mp_writer writer;
    meet(swim, message);
    if (!swim_message_begin(swim, &writer, SWIM_WELCOME, message->seq, message->sender)) {
        swim->stats.replies_dropped++;
        return;
    }
    mp_put_array(&writer, 1);
    swim_record_put(&writer, &swim->slots[SWIM_SELF].member.record);
    mp_put_array(&writer, 0);
    swim_message_end(swim, &writer, message->address);
}

/* SYNC-3 */
static void greet_stranger(struct swim *swim, const struct swim_message *message)
{
    if (message->kind > SWIM_GOSSIP || swim->now_ns < swim->sync.greet_ns ||
        swim_lookup(swim, message->sender) != SWIM_SLOT_NONE ||
        sync_start(swim, message->address, false) == 0)
        return;
    swim->sync.greet_ns = sat_add(swim->now_ns, swim->options.gossip_interval_ns);
}

void swim_sync_receive(struct swim *swim, const struct swim_message *message)
{
    greet_stranger(swim, message);
    switch (message->kind) {
    case SWIM_SYNC:
        receive_sync(swim, message);
        break;
    case SWIM_DIGEST:
        receive_digest(swim, message);
        break;
    case SWIM_WANT:
        receive_want(swim, message);
        break;
    case SWIM_HELLO:
        receive_hello(swim, message);
        break;
    case SWIM_WELCOME:
        if (!swim_doubt_answered(swim, message))
            meet(swim, message);
        break;
    default:
        break;
    }
}

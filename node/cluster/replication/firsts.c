/* firsts.c - first answers that replicas know; firsts.h tells the idea. Pure. */
#include "node/cluster/replication/firsts.h"
#include "node/cluster/partition/vnodes.h"

#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

enum {
    FIRSTS_HEAD_LEN = 7,
    FIRSTS_A_RECORD = 2048, /* so that a record's length fits its field */
    AGED_MS = 20,
    LOOK_MAX = 64, /* of a bucket: it has four, unless a caller repeats what it must not */
};

int firsts_init(struct shard *shard)
{
    struct firsts *firsts = &shard->firsts;
    firsts->max = shard->options.retry_sets * RETRY_WAYS;
    firsts->bucket_count = shard->options.retry_sets;
    firsts->vnodes = 2 * shard->options.vnodes;
    firsts->end = firsts->strung = 1;
    firsts->list = alloc_array(shard->allocator, firsts->max, sizeof *firsts->list);
    firsts->own = alloc_array(shard->allocator, firsts->vnodes, sizeof *firsts->own);
    firsts->all = alloc_array(shard->allocator, firsts->vnodes, sizeof *firsts->all);
    firsts->buckets = alloc_array(shard->allocator, firsts->bucket_count, sizeof *firsts->buckets);
    firsts->due = alloc_array(shard->allocator, FIRSTS_PUT_MAX + 1, sizeof *firsts->due);
    const bool failed = firsts->list == NULL || firsts->own == NULL || firsts->all == NULL ||
                        firsts->buckets == NULL || firsts->due == NULL;
    return failed ? TG_ENOMEM : 0;
}

static void put_back(const struct shard *shard, void *list, size_t len)
{
    if (list != NULL)
        alloc_put(shard->allocator, list, len);
}

void firsts_fini(struct shard *shard)
{
    const struct firsts *firsts = &shard->firsts;
    put_back(shard, firsts->list, (size_t)firsts->max * sizeof *firsts->list);
    put_back(shard, firsts->own, (size_t)firsts->vnodes * sizeof *firsts->own);
    put_back(shard, firsts->all, (size_t)firsts->vnodes * sizeof *firsts->all);
    put_back(shard, firsts->buckets, (size_t)firsts->bucket_count * sizeof *firsts->buckets);
    put_back(shard, firsts->due, (FIRSTS_PUT_MAX + 1) * sizeof *firsts->due);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* The answer of that number, NULL if there is none or it was overwritten. */
static inline struct first *at(const struct firsts *firsts, uint64_t number)
{
    return number != 0 && number + firsts->max >= firsts->end
               ? &firsts->list[number & (firsts->max - 1)]
               : NULL;
}

static inline uint64_t next_of(uint64_t number, uint32_t back)
{
    return back == 0 ? 0 : number - back;
}

/* The distance from one number to the one before it in a chain, 0 if that is no more. */
static inline uint32_t back_to(const struct firsts *firsts, uint64_t from, uint64_t number)
{
    return number != 0 && from - number < firsts->max ? (uint32_t)(from - number) : 0;
}

static uint32_t age_ms(const struct shard *shard, const struct first *first)
{
    return retry_made_ms(0, shard->now_ns) - first->at_ms;
}

static bool is_young(const struct shard *shard, const struct first *first)
{
    return age_ms(shard, first) <= RETRY_KEEP_NS / MS;
}

static uint64_t *bucket_of(const struct firsts *firsts, uint64_t tag)
{
    return &firsts->buckets[tag & (firsts->bucket_count - 1)];
}

/* Strings together what was noted since that was last done. */
static void string_all(struct firsts *firsts)
{
    ASSERT(firsts->strung <= firsts->end); /* FIRSTS-6 */
    if (firsts->strung + firsts->max < firsts->end)
        firsts->strung = firsts->end - firsts->max;
    for (; firsts->strung < firsts->end; firsts->strung++) {
        struct first *first = at(firsts, firsts->strung);
        uint64_t *head = &firsts->all[first->vnode];
        uint64_t *bucket = bucket_of(firsts, first->tag);
        first->next = back_to(firsts, firsts->strung, *head);
        first->behind = back_to(firsts, firsts->strung, *bucket);
        *head = *bucket = firsts->strung;
    }
}

static struct first *find(struct firsts *firsts, uint32_t vnode, uint64_t tag)
{
    string_all(firsts);
    uint64_t number = *bucket_of(firsts, tag);
    struct first *first;
    for (uint32_t n = 0; n < LOOK_MAX && (first = at(firsts, number)) != NULL;
         n++, number = next_of(number, first->behind))
        if (first->tag == tag && first->vnode == vnode)
            return first;
    return NULL;
}

/* The next place, which is to be written. */
static struct first *append(struct shard *shard)
{
    struct firsts *firsts = &shard->firsts;
    ASSERT(firsts->strung <= firsts->end && firsts->end != 0); /* FIRSTS-6 */
    struct first *first = &firsts->list[firsts->end++ & (firsts->max - 1)];
    firsts->lost += first->tag != 0 && (first->flags & FIRST_VOID) == 0 && is_young(shard, first);
    return first;
}

/* ---- noting ---------------------------------------------------------------------------------- */

/* FIRSTS-3: what has come together since it was filled last. */
static bool refill(struct shard *shard)
{
    struct firsts *firsts = &shard->firsts;
    const int64_t ms = (shard->now_ns - firsts->budget_ns) / MS;
    if (ms <= 0)
        return false;
    firsts->budget = ms > FIRSTS_BURST / FIRSTS_A_MS ? FIRSTS_BURST : (uint32_t)ms * FIRSTS_A_MS;
    ASSERT(firsts->budget <= FIRSTS_BURST); /* FIRSTS-3 */
    firsts->budget_ns = shard->now_ns;
    return true;
}

/* Which term counts it, of all that there are but one in 2^32. */
static uint32_t hash_of(const struct term *term)
{
    return (uint32_t)hash_mix64(term->number ^ hash_mix64(term->epoch ^ hash_mix64(term->writer)));
}

/* The vnode was quiet for so long that no link has anything of it left to send. */
static void wake(struct shard *shard, uint32_t number)
{
    struct vnode *vnode = &shard->vnodes[number];
    for (uint32_t link = 0; link < vnode->link_count; link++)
        vnode->links[link].firsts = (uint32_t)(shard->firsts.end - 1);
}

/* `must`: it corrects what was noted before (FIRSTS-4). */
static void note(struct shard *shard, uint32_t number, const struct first *what, bool must)
{
    struct firsts *firsts = &shard->firsts;
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->link_count == 0)
        return; /* there is nobody to tell */
    if (firsts->budget == 0 && !refill(shard) && !must) {
        firsts->lost++;
        return;
    }
    firsts->budget -= firsts->budget > 0;
    if (at(firsts, firsts->own[number]) == NULL)
        wake(shard, number);
    const uint32_t older = back_to(firsts, firsts->end, firsts->own[number]);
    firsts->own[number] = firsts->end;
    struct first *first = append(shard);
    *first = *what;
    first->vnode = number;
    first->at_ms = retry_made_ms(0, shard->now_ns);
    first->seq = (uint32_t)table_vnode_seq(shard->table, number);
    first->term = vnodes_quorum(shard, number) ? hash_of(&vnode->term) : 0;
    first->older = older;
}

void firsts_note(struct shard *shard, uint32_t number, uint64_t tag, uint16_t attempt,
                 uint8_t limit_index, uint64_t granted, uint8_t flags)
{
    if (granted > UINT32_MAX) {
        shard->firsts.lost++;
        return;
    }
    const struct first first = {.tag = tag,
                                .granted = (uint32_t)granted,
                                .attempt = attempt,
                                .limit_index = limit_index,
                                .flags = flags};
    note(shard, number, &first, false);
}

void firsts_undone(struct shard *shard, uint32_t number, uint64_t tag,
                   const struct retry_memory_entry *left)
{
    const struct first *known = find(&shard->firsts, number, tag);
    if (known == NULL || !is_young(shard, known) ||
        (known->flags & (FIRST_VOID | FIRST_BACK)) != 0 ||
        (left != NULL && left->granted >= known->granted))
        return;
    struct first first = *known;
    first.granted = left != NULL ? (uint32_t)left->granted : 0;
    first.flags = FIRST_SEVERAL | (left != NULL ? FIRST_ALLOWED : FIRST_BACK);
    note(shard, number, &first, true);
}

bool firsts_recall(struct shard *shard, uint32_t number, const struct retry_key *plain,
                   const struct retry_key *key, bool several)
{
    struct retry_memory *memory = several ? &shard->reserves.answers : &shard->retries;
    const struct first *first = find(&shard->firsts, number, retry_tag(memory, plain));
    if (first == NULL || !is_young(shard, first) ||
        (first->flags & (FIRST_VOID | FIRST_BACK)) != 0 ||
        ((first->flags & FIRST_SEVERAL) != 0) != several)
        return false;
    const struct retry_memory_entry entry = {.tag = retry_tag(memory, key),
                                             .at_ms = first->at_ms,
                                             .allowed = (first->flags & FIRST_ALLOWED) != 0,
                                             .limit_index = first->limit_index,
                                             .attempts = 1,
                                             .names = {first->attempt},
                                             .granted = first->granted};
    if (several)
        reserve_learn(&shard->reserves, &entry, shard->now_ns);
    else
        (void)retry_take(memory, &entry, shard->now_ns);
    return true;
}

/* ---- to replicas ----------------------------------------------------------------------------- */

/* Whether the answer of that number was not sent on the link yet. */
static bool is_due(const struct replica_link *state, uint64_t number)
{
    return state->firsts_all || (int32_t)((uint32_t)number - state->firsts) > 0;
}

/* Where what is due to the link begins: its newest. It is told oldest first (FIRSTS-5). */
static uint64_t head_of(struct shard *shard, uint32_t number, const struct replica_link *state)
{
    struct firsts *firsts = &shard->firsts;
    if (!state->firsts_all)
        return firsts->own[number];
    string_all(firsts);
    return firsts->all[number];
}

static uint64_t after(const struct replica_link *state, uint64_t number, const struct first *first)
{
    return next_of(number, state->firsts_all ? first->next : first->older);
}

/* The first that is due from `number` on, which moves on to it; NULL: no more. */
static const struct first *due_from(const struct shard *shard, const struct replica_link *state,
                                    uint64_t *number)
{
    const struct firsts *firsts = &shard->firsts;
    for (const struct first *first; (first = at(firsts, *number)) != NULL;
         *number = after(state, *number, first)) {
        /* What was noted before one so old was old then, or is now. */
        if (!is_due(state, *number) || age_ms(shard, first) > 2 * RETRY_KEEP_NS / MS)
            return NULL;
        if (is_young(shard, first) && (first->flags & FIRST_VOID) == 0)
            return first;
    }
    return NULL;
}

/* Whether something may be due, and to one who reads it. A branch that is handed over is not what
 * its receiver decides by. */
static bool may_tell(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const struct replica_link *state = &vnode->links[link];
    const uint64_t newest = shard->firsts.own[number];
    if (!state->firsts_all && (newest == 0 || !is_due(state, newest)))
        return false;
    const uint16_t peer = stream_receiver(shard, number, link);
    const bool branch = vnode->merge.begun && vnode->role != ROLE_LEADING;
    return peer != PEER_NONE && (shard->peers[peer]->reads & READS_FIRSTS) != 0 && !branch;
}

/* Lists the newest that are due, `most` at most; how many they are. */
static uint32_t list_due(const struct shard *shard, const struct replica_link *state, uint64_t from,
                         uint32_t most)
{
    const struct firsts *firsts = &shard->firsts;
    uint32_t count = 0;
    const struct first *first;
    while (count < most && (first = due_from(shard, state, &from)) != NULL) {
        firsts->due[count++] = from;
        from = after(state, from, first);
    }
    if (count == most && due_from(shard, state, &from) != NULL)
        firsts->due[count++] = 0;
    return count;
}

/* The length of an answer of the vnode in a frame. */
static size_t len_of(const struct shard *shard, uint32_t number)
{
    return PEER_FIRST_LEN + (vnodes_quorum(shard, number) ? PEER_FIRST_SEQ_LEN : 0);
}

size_t firsts_room(struct shard *shard, uint32_t number, uint32_t link)
{
    const struct replica_link *state = &shard->vnodes[number].links[link];
    if (!may_tell(shard, number, link))
        return 0;
    const size_t count = list_due(shard, state, head_of(shard, number, state), FIRSTS_PUT_MAX);
    return count * len_of(shard, number) +
           (count + FIRSTS_A_RECORD - 1) / FIRSTS_A_RECORD * FIRSTS_HEAD_LEN;
}

static void put(const struct shard *shard, const struct first *first, uint8_t more,
                struct bytes_writer *outbox)
{
    const uint32_t age = age_ms(shard, first);
    const bool quorum = vnodes_quorum(shard, first->vnode);
    const struct peer_first what = {.tag = first->tag,
                                    .granted = first->granted,
                                    .age_ms = (uint16_t)(age < UINT16_MAX ? age : UINT16_MAX),
                                    .seq = quorum ? first->seq : 0,
                                    .attempt = first->attempt,
                                    .limit_index = first->limit_index,
                                    .flags =
                                        (uint8_t)(first->flags | more | (quorum ? FIRST_SEQ : 0))};
    peer_put_first(outbox, &what);
}

void firsts_put(struct shard *shard, uint32_t number, uint32_t link, struct bytes_writer *outbox)
{
    struct replica_link *state = &shard->vnodes[number].links[link];
    if (!may_tell(shard, number, link))
        return;
    uint32_t count = list_due(shard, state, head_of(shard, number, state), FIRSTS_PUT_MAX);
    if (count > FIRSTS_PUT_MAX) /* FIRSTS-3: more than go with a slot */
        shard->firsts.lost++, count--;
    size_t record = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i % FIRSTS_A_RECORD == 0)
            record = peer_put_firsts(outbox, number);
        put(shard, at(&shard->firsts, shard->firsts.due[count - 1 - i]), 0, outbox);
        peer_end_firsts(outbox, record);
    }
    firsts_skip(shard, number, link);
}

void firsts_restart(struct shard *shard, uint32_t number, uint32_t link)
{
    shard->vnodes[number].links[link].firsts_all = true;
}

void firsts_skip(struct shard *shard, uint32_t number, uint32_t link)
{
    struct replica_link *state = &shard->vnodes[number].links[link];
    state->firsts_all = false;
    state->firsts = (uint32_t)(shard->firsts.end - 1);
}

void firsts_report(struct shard *shard, uint16_t at_peer, const struct peer_vnode *asked,
                   struct effects *effects)
{
    const struct replica_link all = {.firsts_all = true};
    const struct vnode *vnode = &shard->vnodes[asked->vnode];
    const struct peer *peer = shard->peers[at_peer];
    if ((peer->reads & READS_FIRSTS) == 0 || shard->now_ns - peer->met_ns > RETRY_KEEP_NS ||
        term_is_none(&asked->state) || term_compare(&asked->state, &vnode->state) != 0 ||
        asked->seq != table_vnode_seq(shard->table, asked->vnode) || vnode->holds_newer)
        return;
    uint32_t count = list_due(shard, &all, head_of(shard, asked->vnode, &all), FIRSTS_A_RECORD);
    if (count == 0)
        return;
    if (count > FIRSTS_A_RECORD)
        shard->firsts.lost++, count--;
    const size_t room = FIRSTS_HEAD_LEN + count * len_of(shard, asked->vnode);
    struct bytes_writer *outbox = peers_outbox(shard, at_peer, room, effects);
    const size_t record = peer_put_firsts(outbox, asked->vnode);
    for (uint32_t i = count; i > 0; i--)
        put(shard, at(&shard->firsts, shard->firsts.due[i - 1]), FIRST_REPORTED, outbox);
    peer_end_firsts(outbox, record);
}

void firsts_take(struct shard *shard, uint32_t number, const struct peer_firsts *told,
                 const struct term *written, bool reported)
{
    const uint32_t term = vnodes_quorum(shard, number) ? hash_of(written) : 0;
    struct bytes_reader bytes = told->bytes;
    struct peer_first what;
    while (peer_first_next(&bytes, &what)) {
        if (((what.flags & FIRST_REPORTED) != 0) != reported)
            continue;
        /* One that is told again is not noted again; of what has just been given none is. */
        const bool look = what.age_ms >= AGED_MS || (what.flags & FIRST_SEVERAL) != 0;
        struct first *first = look ? find(&shard->firsts, number, what.tag) : NULL;
        if (first != NULL && first->attempt == what.attempt && (first->flags & FIRST_BACK) != 0 &&
            (what.flags & FIRST_BACK) == 0)
            continue; /* FIRSTS-4 */
        if (first == NULL) {
            first = append(shard);
            first->older = 0;
        }
        first->tag = what.tag;
        first->vnode = number;
        first->granted = what.granted;
        first->at_ms = retry_made_ms(what.age_ms, shard->now_ns);
        first->seq = what.seq;
        first->term = term;
        first->attempt = what.attempt;
        first->limit_index = what.limit_index;
        first->flags = what.flags & (FIRST_ALLOWED | FIRST_SEVERAL | FIRST_BACK);
    }
}

/* ---- FIRSTS-2
 * -------------------------------------------------------------------------------------- */

static void call_void(struct shard *shard, struct first *first)
{
    shard->firsts.lost += (first->flags & FIRST_VOID) == 0 && is_young(shard, first);
    first->flags |= FIRST_VOID;
}

/* Whether it was given in that term, and later than the state goes, or in another one. */
static bool is_holding_newer(const struct first *first, const struct term *state, uint64_t seq)
{
    return first->term != hash_of(state) || (int32_t)(first->seq - (uint32_t)seq) > 0;
}

void firsts_opened(struct shard *shard, uint32_t number, const struct term *base, uint64_t base_seq,
                   const struct term *term)
{
    struct firsts *firsts = &shard->firsts;
    if (!vnodes_quorum(shard, number))
        return;
    string_all(firsts);
    uint64_t place = firsts->all[number];
    for (struct first *first; (first = at(firsts, place)) != NULL;
         place = next_of(place, first->next)) {
        if (is_holding_newer(first, base, base_seq))
            call_void(shard, first);
        first->term = hash_of(term);
        first->seq = (uint32_t)base_seq;
    }
}

void firsts_marked(struct shard *shard, uint32_t number, const struct term *was, uint64_t was_seq,
                   const struct term *term, bool copy)
{
    struct firsts *firsts = &shard->firsts;
    string_all(firsts);
    uint64_t place = firsts->all[number];
    for (struct first *first; (first = at(firsts, place)) != NULL;
         place = next_of(place, first->next)) {
        if (first->term == hash_of(term))
            continue; /* it came with that state */
        if (copy || is_holding_newer(first, was, was_seq))
            call_void(shard, first);
        first->term = hash_of(term);
        first->seq = (uint32_t)table_vnode_seq(shard->table, number);
    }
}

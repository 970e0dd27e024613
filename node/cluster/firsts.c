/* firsts.c - first answers that replicas know; firsts.h tells the idea. Pure. */
#include "node/cluster/firsts.h"

#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard_state.h"

enum {
    FIRSTS_HEAD_LEN = 7,
    FIRSTS_A_RECORD = 2048,
    LOOK_MAX = 64, /* of a bucket: it has four, unless a caller repeats what it must not */
};

int firsts_init(struct shard *shard)
{
    struct firsts *firsts = &shard->firsts;
    firsts->max = shard->options.retry_sets * RETRY_WAYS;
    firsts->bucket_count = shard->options.retry_sets;
    firsts->vnodes = 2 * shard->options.vnodes;
    firsts->end = 1;
    firsts->list = alloc_array(shard->allocator, firsts->max, sizeof *firsts->list);
    firsts->heads = alloc_array(shard->allocator, firsts->vnodes, sizeof *firsts->heads);
    firsts->buckets = alloc_array(shard->allocator, firsts->bucket_count, sizeof *firsts->buckets);
    return firsts->list == NULL || firsts->heads == NULL || firsts->buckets == NULL ? TG_ENOMEM : 0;
}

void firsts_fini(struct shard *shard)
{
    struct firsts *firsts = &shard->firsts;
    if (firsts->list != NULL)
        alloc_put(shard->allocator, firsts->list, (size_t)firsts->max * sizeof *firsts->list);
    if (firsts->heads != NULL)
        alloc_put(shard->allocator, firsts->heads, (size_t)firsts->vnodes * sizeof *firsts->heads);
    if (firsts->buckets != NULL)
        alloc_put(shard->allocator, firsts->buckets,
                  (size_t)firsts->bucket_count * sizeof *firsts->buckets);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* The answer of that number, NULL if there is none or it was overwritten. */
static inline struct first *at(const struct firsts *firsts, uint64_t number)
{
    return number != 0 && number + firsts->max >= firsts->end ? &firsts->list[number % firsts->max]
                                                              : NULL;
}

static inline uint64_t next_of(uint64_t number, uint32_t back)
{
    return back == 0 ? 0 : number - back;
}

/* The distance from the number being noted to one before it, 0 if that is no more. */
static inline uint32_t back_to(const struct firsts *firsts, uint64_t number)
{
    return at(firsts, number) == NULL ? 0 : (uint32_t)(firsts->end - number);
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

static struct first *find(const struct firsts *firsts, uint32_t vnode, uint64_t tag)
{
    uint64_t number = *bucket_of(firsts, tag);
    struct first *first;
    for (uint32_t n = 0; n < LOOK_MAX && (first = at(firsts, number)) != NULL;
         n++, number = next_of(number, first->behind))
        if (first->tag == tag && first->vnode == vnode)
            return first;
    return NULL;
}

static void append(struct shard *shard, const struct first *what)
{
    struct firsts *firsts = &shard->firsts;
    struct first *first = &firsts->list[firsts->end % firsts->max];
    uint64_t *head = &firsts->heads[what->vnode];
    uint64_t *bucket = bucket_of(firsts, what->tag);
    firsts->lost += first->tag != 0 && (first->flags & FIRST_VOID) == 0 && is_young(shard, first);
    /* The place is this one's from here on: what was there ends the chains that lead to it. */
    const uint32_t older = back_to(firsts, *head);
    const uint32_t behind = back_to(firsts, *bucket);
    *first = *what;
    first->older = older < firsts->max ? older : 0;
    first->behind = behind < firsts->max ? behind : 0;
    *head = *bucket = firsts->end++;
}

/* ---- noting ---------------------------------------------------------------------------------- */

/* F3: what has come together since it was filled last. */
static bool refill(struct shard *shard)
{
    struct firsts *firsts = &shard->firsts;
    const int64_t ms = (shard->now_ns - firsts->budget_ns) / MS;
    if (ms <= 0)
        return false;
    firsts->budget = ms > FIRSTS_BURST / FIRSTS_A_MS ? FIRSTS_BURST : (uint32_t)ms * FIRSTS_A_MS;
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

/* `must`: it corrects what was noted before (F4). */
static void note(struct shard *shard, uint32_t number, uint64_t tag, uint16_t attempt,
                 uint8_t limit_index, uint64_t granted, uint8_t flags, bool must)
{
    struct firsts *firsts = &shard->firsts;
    const struct vnode *vnode = &shard->vnodes[number];
    if (vnode->link_count == 0)
        return; /* there is nobody to tell */
    if (granted > UINT32_MAX || (firsts->budget == 0 && !refill(shard) && !must)) {
        firsts->lost++;
        return;
    }
    firsts->budget -= firsts->budget > 0;
    if (at(firsts, firsts->heads[number]) == NULL)
        wake(shard, number);
    const bool quorum = vnodes_quorum(shard, number);
    const struct first first = {.tag = tag,
                                .vnode = number,
                                .granted = (uint32_t)granted,
                                .at_ms = retry_made_ms(0, shard->now_ns),
                                .seq = (uint32_t)table_vnode_seq(shard->table, number),
                                .term = quorum ? hash_of(&vnode->term) : 0,
                                .attempt = attempt,
                                .limit_index = limit_index,
                                .flags = flags};
    append(shard, &first);
}

void firsts_note(struct shard *shard, uint32_t number, uint64_t tag, uint16_t attempt,
                 uint8_t limit_index, uint64_t granted, uint8_t flags)
{
    note(shard, number, tag, attempt, limit_index, granted, flags, false);
}

void firsts_undone(struct shard *shard, uint32_t number, uint64_t tag,
                   const struct retry_memory_entry *left)
{
    const struct first *first = find(&shard->firsts, number, tag);
    const uint64_t granted = left != NULL ? left->granted : 0;
    if (first == NULL || !is_young(shard, first) ||
        (first->flags & (FIRST_VOID | FIRST_BACK)) != 0 ||
        (left != NULL && granted == first->granted))
        return;
    const uint8_t what = left != NULL ? FIRST_ALLOWED : FIRST_BACK;
    note(shard, number, tag, first->attempt, first->limit_index, granted, FIRST_SEVERAL | what,
         true);
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

/* The first that is due from `number` on, which moves on to it; NULL: no more. */
static const struct first *due_from(const struct shard *shard, const struct replica_link *state,
                                    uint64_t *number)
{
    const struct firsts *firsts = &shard->firsts;
    for (const struct first *first; (first = at(firsts, *number)) != NULL;
         *number = next_of(*number, first->older)) {
        /* What was noted before one so old was old then, or is now. */
        if (!is_due(state, *number) || age_ms(shard, first) > 2 * RETRY_KEEP_NS / MS)
            return NULL;
        if (is_young(shard, first) && (first->flags & FIRST_VOID) == 0)
            return first;
    }
    return NULL;
}

static bool may_tell(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    const uint16_t peer = stream_receiver(shard, number, link);
    const bool branch = vnode->merge.begun && vnode->role != ROLE_DECIDING;
    return peer != PEER_NONE && (shard->peers[peer]->reads & READS_FIRSTS) != 0 && !branch;
}

static uint32_t count_due(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct replica_link *state = &shard->vnodes[number].links[link];
    uint64_t from = shard->firsts.heads[number];
    uint32_t count = 0;
    const struct first *first;
    while (count < FIRSTS_PUT_MAX && (first = due_from(shard, state, &from)) != NULL) {
        from = next_of(from, first->older);
        count++;
    }
    return count;
}

/* The length of an answer of the vnode in a frame. */
static size_t len_of(const struct shard *shard, uint32_t number)
{
    return PEER_FIRST_LEN + (vnodes_quorum(shard, number) ? PEER_FIRST_SEQ_LEN : 0);
}

size_t firsts_room(const struct shard *shard, uint32_t number, uint32_t link)
{
    const struct vnode *vnode = &shard->vnodes[number];
    if (shard->firsts.heads[number] == 0 ||
        !is_due(&vnode->links[link], shard->firsts.heads[number]) || !may_tell(shard, number, link))
        return 0;
    const size_t count = count_due(shard, number, link);
    return count * len_of(shard, number) +
           (count + FIRSTS_A_RECORD - 1) / FIRSTS_A_RECORD * FIRSTS_HEAD_LEN;
}

static void put(const struct shard *shard, const struct first *first, struct bytes_writer *outbox)
{
    const uint32_t age = age_ms(shard, first);
    const bool quorum = vnodes_quorum(shard, first->vnode);
    const struct peer_first what = {.tag = first->tag,
                                    .granted = first->granted,
                                    .age_ms = (uint16_t)(age < UINT16_MAX ? age : UINT16_MAX),
                                    .seq = quorum ? first->seq : 0,
                                    .attempt = first->attempt,
                                    .limit_index = first->limit_index,
                                    .flags = (uint8_t)(first->flags | (quorum ? FIRST_SEQ : 0))};
    peer_put_first(outbox, &what);
}

void firsts_put(struct shard *shard, uint32_t number, uint32_t link, struct bytes_writer *outbox)
{
    struct replica_link *state = &shard->vnodes[number].links[link];
    const uint64_t newest = shard->firsts.heads[number];
    if (newest == 0 || !is_due(state, newest) || !may_tell(shard, number, link))
        return;
    uint64_t from = newest;
    uint32_t left = count_due(shard, number, link);
    while (left > 0) {
        const uint32_t count = left < FIRSTS_A_RECORD ? left : FIRSTS_A_RECORD;
        peer_put_firsts(outbox, number, (uint16_t)(count * len_of(shard, number)));
        for (uint32_t i = 0; i < count; i++) {
            const struct first *first = due_from(shard, state, &from);
            ASSERT(first != NULL);
            put(shard, first, outbox);
            from = next_of(from, first->older);
        }
        left -= count;
    }
    shard->firsts.lost += due_from(shard, state, &from) != NULL; /* F3: more than go with a slot */
    state->firsts = (uint32_t)newest;
    state->firsts_all = false;
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

void firsts_take(struct shard *shard, uint32_t number, const struct peer_firsts *told)
{
    struct bytes_reader bytes = told->bytes;
    struct peer_first what;
    while (peer_first_next(&bytes, &what)) {
        const struct first first = {
            .tag = what.tag,
            .vnode = number,
            .granted = what.granted,
            .at_ms = retry_made_ms(what.age_ms, shard->now_ns),
            .seq = what.seq,
            .term = vnodes_quorum(shard, number) ? hash_of(&shard->vnodes[number].in_term) : 0,
            .attempt = what.attempt,
            .limit_index = what.limit_index,
            .flags = what.flags & (FIRST_ALLOWED | FIRST_SEVERAL | FIRST_BACK)};
        struct first *known = find(&shard->firsts, number, what.tag);
        if (known == NULL) {
            append(shard, &first);
            continue;
        }
        const uint32_t older = known->older;
        const uint32_t behind = known->behind;
        *known = first;
        known->older = older;
        known->behind = behind;
    }
}

/* ---- F2 -------------------------------------------------------------------------------------- */

static void call_void(struct shard *shard, struct first *first)
{
    shard->firsts.lost += (first->flags & FIRST_VOID) == 0 && is_young(shard, first);
    first->flags |= FIRST_VOID;
}

void firsts_opened(struct shard *shard, uint32_t number, const struct term *base, uint64_t base_seq,
                   const struct term *term)
{
    const struct firsts *firsts = &shard->firsts;
    uint64_t place = firsts->heads[number];
    if (!vnodes_quorum(shard, number))
        return;
    for (struct first *first; (first = at(firsts, place)) != NULL;
         place = next_of(place, first->older)) {
        if (first->term != hash_of(base) || (int32_t)(first->seq - (uint32_t)base_seq) > 0)
            call_void(shard, first);
        first->term = hash_of(term);
        first->seq = (uint32_t)base_seq;
    }
}

void firsts_marked(struct shard *shard, uint32_t number, const struct term *was, uint64_t was_seq,
                   const struct term *term, bool copy)
{
    const struct firsts *firsts = &shard->firsts;
    uint64_t place = firsts->heads[number];
    for (struct first *first; (first = at(firsts, place)) != NULL;
         place = next_of(place, first->older)) {
        if (first->term == hash_of(term))
            continue; /* it came with that state */
        if (copy || first->term != hash_of(was) || (int32_t)(first->seq - (uint32_t)was_seq) > 0)
            call_void(shard, first);
        first->term = hash_of(term);
        first->seq = (uint32_t)table_vnode_seq(shard->table, number);
    }
}

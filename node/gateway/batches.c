/* batches.c - many connections' requests in few messages to the shard; batches.h draws the way.
 *
 * The shard knows nothing of HTTP, Redis or gRPC. To it a gate is one client more, with a session
 * of its own, that sends CHECKS and operators' commands by the client protocol; so rules,
 * forwarding to other deciders, undos and totals are those of every other check, and cannot differ.
 * What the message costs is small beside a decision, for it is made of columns: some 60 ns a check
 * both ways.
 *
 * A batch is filled by whatever the connections have sent that were found ready at once, and leaves
 * when it has BATCH_MAX checks, or when these have been read. Most are answered before the call
 * that submits them returns. One in which some checks are decided by other nodes is answered in
 * parts (PARTLY), each of which tells all that is decided by then. So nothing is kept of a
 * decision: the answer that decides the last check of a request tells the others of it again. And a
 * request never waits for others but those before it on its own connection, and for these
 * `timeout_ms` at most.
 *
 *      batch    FREE --open--> OPEN --submit--> SUBMITTED --last answer, expire--> FREE
 *                                                 |   ^
 *                                                 +---+ answer with something pending
 *
 *      seq      | serial 53 bits | place 11 bits |    what an answer names it by
 *
 * Order. Where answers have to come in the order of requests, connections have no queue of answers.
 * They need none, by two rules: while requests of a peer are in a batch, more of it are taken into
 * that same batch only, which answers them in order; and whatever is answered at once waits until
 * nothing of the peer is waited for. What is decided of a peer behind a pending request is left to
 * the answer that decides that one. What cannot be taken stays where it came from, with the caller,
 * and so in the end with the client: that is the bound on what one may send ahead. A peer whose
 * answers name their requests (`by_stream`) needs no such rule; its protocol bounds it.
 *
 * What a request has to note until its answer, beyond what its call keeps, is in places of calls
 * behind its own: a batch has as many as it may have checks, and few calls have one check alone.
 *
 * A request that is a retry has a name of its own, chosen by its protocol (session, seq), and a
 * batch of its own, which is found by that name.
 *
 * BATCHES-1  The `waiting` requests of a peer whose answers come in order are all in one batch,
 *            `batch`.
 * BATCHES-2  `out` always has room for the answers that a peer waits for (`reserved`), so none is
 *            lost or grows a buffer.
 * BATCHES-3  Every request that was taken is answered once: by its decisions, or with what went
 *            wrong when the shard refuses its batch or does not answer.
 * BATCHES-4  What the batch's builder accepts the shard accepts: nobody's mistake is in another's
 *            batch.
 * BATCHES-5  A batch is in the list of free ones, or open, or submitted; `waiting` counts the last
 *            ones, and each of them has a request that is not answered.
 */
#include "node/gateway/batches.h"

#include <assert.h>

#include "base/assert.h"
#include "base/mp.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    PLACE_BITS = 11,
    FLAGS = WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE /* of batches that are asked once */
};

static_assert(BATCHES_MAX == 1 << PLACE_BITS, "a place fits a seq");
static_assert((int)BATCH_MAX <= (int)WIRE_CHECKS_MAX && (int)BATCH_MAX <= (int)WIRE_TEMPLATES_MAX,
              "a shared batch is one message, whatever limits are in it");
static_assert((int)WIRE_MESSAGE_MAX > (int)WIRE_ATTRIBUTES_MAX * (WIRE_VALUE_MAX + 2),
              "a batch takes any single check");

int batches_new(const struct allocator *allocator, uint64_t session, size_t call_len,
                struct gateway_stats *stats, struct batches **out)
{
    struct batches *batches = alloc_get(allocator, sizeof *batches);
    *out = batches;
    if (batches == NULL)
        return TG_ENOMEM;
    ASSERT(session != 0 && call_len >= sizeof(struct batch_call));
    batches->allocator = allocator;
    batches->call_len = call_len;
    batches->stats = stats;
    batches->session = session;
    batches->open = BATCHES_NONE;
    for (uint16_t i = 0; i < BATCHES_MAX; i++)
        batches->batches[i].next_free = (uint16_t)(i + 1 < BATCHES_MAX ? i + 1 : BATCHES_NONE);
    wire_checks_builder_init(&batches->builder, batches->values, sizeof batches->values);
    batches->calls = alloc_get(allocator, call_len * BATCHES_MAX * BATCH_MAX);
    if (batches->calls != NULL)
        return 0;
    batches_free(out);
    return TG_ENOMEM;
}

void batches_free(struct batches **pointer)
{
    struct batches *batches = *pointer;
    *pointer = NULL;
    if (batches == NULL)
        return;
    if (batches->calls != NULL)
        alloc_put(batches->allocator, batches->calls, batches->call_len * BATCHES_MAX * BATCH_MAX);
    alloc_put(batches->allocator, batches, sizeof *batches);
}

static inline uint16_t place_of(const struct batches *batches, const struct batch *batch)
{
    return (uint16_t)(batch - batches->batches);
}

static struct batch_call *call_at(const struct batches *batches, const struct batch *batch,
                                  uint32_t i)
{
    const size_t index = (size_t)place_of(batches, batch) * BATCH_MAX + i;
    return (struct batch_call *)(void *)(batches->calls + index * batches->call_len);
}

static struct batch_call *next_of(const struct batches *batches, struct batch_call *call)
{
    return (struct batch_call *)(void *)((uint8_t *)call +
                                         (1 + (size_t)call->extra) * batches->call_len);
}

/* ---- requests -------------------------------------------------------------------------------- */

struct batch *batches_open(struct batches *batches)
{
    if (batches->open != BATCHES_NONE)
        return &batches->batches[batches->open];
    const uint16_t place = batches->first_free;
    if (place == BATCHES_NONE)
        return NULL;
    struct batch *batch = &batches->batches[place];
    ASSERT(batch->seq == 0 && place < BATCHES_MAX); /* BATCHES-5 */
    batches->first_free = batch->next_free;
    batches->open = place;
    *batch = (struct batch){.seq = ++batches->serial << PLACE_BITS | place,
                            .session = batches->session,
                            .kind = BATCH_SHARED,
                            .timeout_ms = BATCH_TIMEOUT_MS,
                            .patience_ms = BATCH_TIMEOUT_MS + BATCH_GRACE_MS};
    batch->name = batch->seq;
    wire_checks_builder_reset(&batches->builder);
    return batch;
}

bool batches_full(const struct batches *batches)
{
    if (batches->open == BATCHES_NONE || batches->batches[batches->open].count == 0)
        return false;
    return batches->batches[batches->open].kind != BATCH_SHARED ||
           batches->batches[batches->open].places >= BATCH_MAX ||
           batches->builder.count >= BATCH_MAX;
}

void batches_add(struct batches *batches, struct gateway_peer *peer, const struct batch_call *call)
{
    struct batch *batch = &batches->batches[batches->open];
    ASSERT(!batches_elsewhere(batches, peer)); /* BATCHES-1 */
    batch->last = batch->places;
    batch->places = (uint16_t)(batch->places + 1 + call->extra);
    batch->count++;
    ASSERT(batch->places <= BATCH_MAX);
    peer->batch = batch->seq;
    peer->waiting++;
    peer->reserved += call->room;
    ASSERT(peer->out.len + peer->reserved <= peer->out.capacity); /* BATCHES-2 */
    batches->stats->checks += call->count;
}

struct mp_writer *batches_command(struct batches *batches, const char *command,
                                  uint32_t patience_ms)
{
    struct batch *batch = &batches->batches[batches->open];
    ASSERT(batch->count == 0);
    batch->kind = BATCH_ADMIN;
    batch->patience_ms = patience_ms;
    mp_writer_init(&batches->admin, batches->frame, sizeof batches->frame);
    wire_begin_admin(&batches->admin, batches->session, batch->seq, command);
    return &batches->admin;
}

static void set_mark(struct batches *batches)
{
    const struct wire_checks_builder *builder = &batches->builder;
    batches->mark = (struct batch_mark){.count = builder->count,
                                        .template_count = builder->template_count,
                                        .template_last = builder->template_last,
                                        .templates_len = builder->templates_len,
                                        .values_len = builder->values_len,
                                        .states_uses = builder->states_uses};
}

enum batch_begun batches_begin(struct batches *batches, const struct batch_ask *ask,
                               struct batch_call **call)
{
    struct batch *batch = batches_open(batches);
    const bool named = ask->kind == BATCH_RETRY;
    const size_t extra = (ask->notes_len + batches->call_len - 1) / batches->call_len;
    ASSERT(!batches->asking && ask->count <= WIRE_CHECKS_MAX && extra < BATCH_MAX);
    if (batch == NULL)
        return BATCH_BUSY;
    if (batch->count > 0 &&
        (ask->kind != BATCH_SHARED || batches_full(batches) ||
         batch->timeout_ms != ask->timeout_ms || batches->builder.count + ask->count > BATCH_MAX ||
         batch->places + 1 + extra > BATCH_MAX))
        return BATCH_SUBMIT;
    batch->kind = (uint8_t)ask->kind;
    batch->explain = ask->explain;
    batch->session = named ? ask->session : batches->session;
    batch->name = named ? ask->seq : batch->seq;
    batch->timeout_ms = ask->timeout_ms;
    batch->patience_ms = ask->timeout_ms + BATCH_GRACE_MS;
    *call = batches_next(batches);
    (*call)->first = batches->builder.count;
    (*call)->count = ask->count;
    (*call)->extra = (uint8_t)extra;
    batches->asking = true;
    batches->asked = ask->count;
    set_mark(batches);
    return BATCH_BEGUN;
}

void batches_cancel(struct batches *batches)
{
    struct wire_checks_builder *builder = &batches->builder;
    const struct batch_mark *mark = &batches->mark;
    ASSERT(batches->asking);
    builder->count = mark->count;
    builder->template_count = mark->template_count;
    builder->template_last = mark->template_last;
    builder->templates_len = mark->templates_len;
    builder->values_len = mark->values_len;
    builder->states_uses = mark->states_uses;
    batches->asking = false;
}

void batches_commit(struct batches *batches, struct gateway_peer *peer)
{
    const struct batch *batch = &batches->batches[batches->open];
    ASSERT(batches->asking && batches->builder.count - batches->mark.count == batches->asked);
    ASSERT(batch->kind != BATCH_ADMIN || !batches->admin.failed);
    batches->asking = false;
    batches_add(batches, peer, call_at(batches, batch, batch->places));
}

size_t batches_submit(struct batches *batches, const uint8_t **frame)
{
    struct batch *batch = batches_at_hand(batches);
    if (batch == NULL || batch->count == 0)
        return 0;
    ASSERT(!batches->asking);
    batches->open = BATCHES_NONE;
    batches->waiting++;
    batches->retries += batch->kind == BATCH_RETRY;
    ASSERT(batches->waiting <= BATCHES_MAX); /* BATCHES-5 */
    batches->stats->batches++;
    batch->submitted_ns = batches->now_ns;
    *frame = batches->frame;
    if (batch->kind == BATCH_ADMIN)
        return batches->admin.len;
    const uint32_t flags =
        (batch->kind == BATCH_RETRY ? WIRE_FLAG_RETRY | WIRE_FLAG_PARTLY : FLAGS) |
        (batch->explain ? WIRE_FLAG_EXPLAIN : 0U);
    const int len =
        wire_checks_builder_encode(&batches->builder, batch->session, batch->name, flags,
                                   batch->timeout_ms, batches->frame, sizeof batches->frame);
    ASSERT(len > 0); /* BATCHES-4 */
    return (size_t)len;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The call is answered now; `peer` is whose it is, NULL: it is gone. */
static inline void settle(struct gateway_peer *peer, struct batch_call *call)
{
    ASSERT(!call->answered); /* BATCHES-3 */
    call->answered = true;
    if (peer == NULL) {
        if (call->user->gone != NULL)
            call->user->gone(call->user->gate, call);
        return;
    }
    ASSERT(peer->waiting > 0 && peer->reserved >= call->room);
    peer->waiting--;
    peer->reserved -= call->room;
}

static void release(struct batches *batches, struct batch *batch)
{
    ASSERT(batch->seq != 0 && batches->waiting > 0); /* BATCHES-5 */
    batches->retries -= batch->kind == BATCH_RETRY;
    batch->seq = 0;
    batch->next_free = batches->first_free;
    batches->first_free = place_of(batches, batch);
    batches->waiting--;
}

/* All of the batch that are not answered yet are told the same. */
static void fail(struct batches *batches, struct batch *batch, const struct gateway_finder *finder,
                 const struct batch_failure *failure)
{
    struct batch_call *call = call_at(batches, batch, 0);
    for (uint32_t i = 0; i < batch->count; i++, call = next_of(batches, call)) {
        if (call->answered)
            continue;
        struct gateway_peer *peer = finder->find(finder->context, call->token);
        settle(peer, call);
        if (peer != NULL)
            call->user->failed(call->user->gate, peer, call, failure);
    }
    release(batches, batch);
}

static inline bool is_pending(const struct wire_decisions *decisions, const struct batch_call *call)
{
    const uint8_t *flags = decisions->flags + call->first;
    uint8_t any = flags[0]; /* most have one check */
    for (uint32_t i = 1; i < call->count; i++)
        any |= flags[i];
    return (any & WIRE_PENDING) != 0;
}

static void answer_decisions(struct batches *batches, struct batch *batch, const void *frame,
                             size_t len, const struct gateway_finder *finder)
{
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];
    const int result = wire_decode_decisions(frame, len, &batches->space, &decisions, error);
    ASSERT(result == 0 && batch->count > 0); /* by our own shard */
    const struct batch_call *end = call_at(batches, batch, batch->last);
    ASSERT(decisions.head.count == end->first + end->count);
    batches->answers++;
    bool last = true;
    struct batch_call *call = call_at(batches, batch, 0);
    for (uint32_t i = 0; i < batch->count; i++, call = next_of(batches, call)) {
        if (call->answered)
            continue;
        struct gateway_peer *peer = finder->find(finder->context, call->token);
        const bool pending = is_pending(&decisions, call);
        const bool held = peer != NULL && peer->held == batches->answers;
        last = last && !pending;
        if (pending && peer != NULL && !peer->by_stream)
            peer->held = batches->answers;
        if (pending || held)
            continue; /* a later answer tells again */
        settle(peer, call);
        if (peer != NULL)
            call->user->decided(call->user->gate, peer, call, &decisions);
    }
    if (last)
        release(batches, batch);
}

static void answer_error(struct batches *batches, struct batch *batch, const void *frame,
                         size_t len, const struct gateway_finder *finder)
{
    struct wire_error message;
    char error[WIRE_ERROR_LEN];
    const int result = wire_decode_error(frame, len, &message, error);
    ASSERT(result == 0);
    const struct batch_failure failure = {.code = message.code, .text = message.text};
    fail(batches, batch, finder, &failure);
}

static void answer_admin(struct batches *batches, struct batch *batch, const void *frame,
                         size_t len, const struct gateway_finder *finder)
{
    ASSERT(batch->kind == BATCH_ADMIN && batch->count == 1);
    struct batch_call *call = call_at(batches, batch, 0);
    struct gateway_peer *peer = finder->find(finder->context, call->token);
    settle(peer, call);
    if (peer != NULL)
        call->user->replied(call->user->gate, peer, call, frame, len);
    release(batches, batch);
}

/* The submitted batch that is called so, or NULL. */
static struct batch *find_batch(struct batches *batches, uint64_t session, uint64_t name)
{
    const uint16_t place = name & (BATCHES_MAX - 1);
    struct batch *batch = &batches->batches[place];
    if (session == batches->session)
        return name != 0 && batch->seq == name && place != batches->open ? batch : NULL;
    uint32_t left = batches->retries;
    for (uint16_t i = 0; left > 0 && i < BATCHES_MAX; i++) {
        batch = &batches->batches[i];
        if (batch->seq == 0 || i == batches->open || batch->kind != BATCH_RETRY)
            continue;
        if (batch->session == session && batch->name == name)
            return batch;
        left--;
    }
    return NULL;
}

void batches_answer(struct batches *batches, const void *frame, size_t len,
                    const struct gateway_finder *finder)
{
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(frame, len, &envelope, error) != 0)
        return;
    struct batch *batch = find_batch(batches, envelope.session, envelope.seq);
    if (batch == NULL)
        return; /* it was given up */
    if (envelope.type == WIRE_DECISIONS)
        answer_decisions(batches, batch, frame, len, finder);
    else if (envelope.type == WIRE_ERROR)
        answer_error(batches, batch, frame, len, finder);
    else
        answer_admin(batches, batch, frame, len, finder);
}

void batches_expire(struct batches *batches, const struct gateway_finder *finder)
{
    static const struct batch_failure late = {.late = true, .code = TG_ETIMEOUT};
    for (uint16_t i = 0; batches->waiting > 0 && i < BATCHES_MAX; i++) {
        struct batch *batch = &batches->batches[i];
        if (batch->seq == 0 || i == batches->open ||
            batches->now_ns - batch->submitted_ns < batch->patience_ms * NS_PER_MS)
            continue;
        batches->stats->late++;
        fail(batches, batch, finder, &late);
    }
}

/* ---- the invariants -------------------------------------------------------------------------- */

static uint32_t unanswered(const struct batches *batches, const struct batch *batch)
{
    uint32_t count = 0;
    struct batch_call *call = call_at(batches, batch, 0);
    for (uint32_t i = 0; i < batch->count; i++, call = next_of(batches, call))
        count += !call->answered;
    return count;
}

static uint32_t count_free(const struct batches *batches)
{
    uint32_t count = 0;
    for (uint16_t at = batches->first_free; at != BATCHES_NONE;
         at = batches->batches[at].next_free) {
        INVARIANT("BATCHES-5", at < BATCHES_MAX && count < BATCHES_MAX);
        INVARIANT("BATCHES-5", batches->batches[at].seq == 0 && at != batches->open);
        count++;
    }
    return count;
}

void batches_check_invariants(const struct batches *batches)
{
    uint32_t used = 0;
    uint32_t retries = 0;
    INVARIANT("BATCHES-5",
              batches->open == BATCHES_NONE || batches->batches[batches->open].seq != 0);
    INVARIANT("BATCHES-5", !batches->asking);
    for (uint16_t i = 0; i < BATCHES_MAX; i++) {
        const struct batch *batch = &batches->batches[i];
        if (batch->seq == 0)
            continue;
        INVARIANT("BATCHES-5", (batch->seq & (BATCHES_MAX - 1)) == i);
        INVARIANT("BATCHES-5", batch->seq >> PLACE_BITS <= batches->serial);
        INVARIANT("BATCHES-5", batch->count <= batch->places && batch->places <= BATCH_MAX);
        INVARIANT("BATCHES-3", i == batches->open || unanswered(batches, batch) > 0);
        retries += i != batches->open && batch->kind == BATCH_RETRY;
        used++;
    }
    INVARIANT("BATCHES-5", used == batches->waiting + (batches->open != BATCHES_NONE));
    INVARIANT("BATCHES-5", used + count_free(batches) == BATCHES_MAX);
    INVARIANT("BATCHES-5", retries == batches->retries);
}

/* What the batch has for the peer is counted. */
static void count_waiting(const struct batches *batches, const struct batch *batch, uint64_t token,
                          uint32_t *waiting, uint32_t *reserved)
{
    struct batch_call *call = call_at(batches, batch, 0);
    for (uint32_t i = 0; batch->seq != 0 && i < batch->count; i++, call = next_of(batches, call)) {
        if (call->answered || call->token != token)
            continue;
        ++*waiting;
        *reserved += call->room;
    }
}

void batches_check_peer(const struct batches *batches, const struct gateway_peer *peer,
                        uint64_t token)
{
    const struct batch *batch = &batches->batches[peer->batch & (BATCHES_MAX - 1)];
    uint32_t waiting = 0;
    uint32_t reserved = 0;
    INVARIANT("BATCHES-1", peer->waiting == 0 || peer->by_stream || batch->seq == peer->batch);
    if (peer->by_stream)
        for (uint16_t i = 0; i < BATCHES_MAX; i++)
            count_waiting(batches, &batches->batches[i], token, &waiting, &reserved);
    else if (peer->waiting > 0)
        count_waiting(batches, batch, token, &waiting, &reserved);
    INVARIANT("BATCHES-1", waiting == peer->waiting);
    INVARIANT("BATCHES-2", reserved == peer->reserved);
    INVARIANT("BATCHES-2", !peer->out.failed);
    INVARIANT("BATCHES-2", peer->out.len + reserved <= peer->out.capacity);
}

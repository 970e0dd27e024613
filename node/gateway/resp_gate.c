/* resp_gate.c - many connections' checks in few messages to the shard; resp_gate.h draws the way.
 *
 * The shard knows nothing of Redis. To it the gate is one client more, with a session of its own,
 * that sends CHECKS and is sent DECISIONS by the client protocol; so rules, forwarding to other
 * deciders, undos and totals are those of every other check, and cannot differ. What the message
 * costs is small beside a decision, for it is made of columns: some 60 ns a check both ways.
 *
 * A batch is filled by whatever the connections have sent that were found ready at once, and leaves
 * when it has RESP_BATCH_MAX checks, or when these have been read. Most are answered before the
 * call that submits them returns. One in which some checks are decided by other nodes is answered
 * in parts (PARTLY), each of which tells all that is decided by then: so a check never waits for
 * others but those before it on its own connection, and for these RESP_TIMEOUT_MS at most.
 *
 *      batch    FREE --take--> OPEN --submit--> SUBMITTED --last answer, expire--> FREE
 *                                                 |   ^
 *                                                 +---+ answer with something pending
 *
 *      seq      | serial 53 bits | place 11 bits |    what an answer names it by
 *
 * Order. Replies have to come in the order of requests, and connections have no queue of replies.
 * They need none, by two rules: while checks of a peer are in a batch, more checks of it are taken
 * into that same batch only, which answers them in order; and whatever is answered at once waits
 * until nothing of the peer is waited for. What is decided of a peer behind a pending check is left
 * to the answer that decides that one. What cannot be taken stays where it came from, with the
 * caller, and so in the end with the client: that is the bound on what one may send ahead.
 *
 * RESPGATE-1  A peer's `waiting` checks are all in one batch, `batch`.
 * RESPGATE-2  `out` always has room for the replies that a peer waits for (`reserved`), so no reply
 *             is lost or grows a buffer.
 * RESPGATE-3  Every check that was taken is answered once: by a decision, by BUSY when there was no
 *             batch for it, or when its batch is given up.
 * RESPGATE-4  What the batch's builder accepts the shard accepts: nobody's mistake is in another's
 *             batch.
 * RESPGATE-5  A batch is in the list of free ones, or open, or submitted; `waiting` counts the last
 *             ones, and each of them has a check that is not answered.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "node/gateway/resp_gate_state.h"

#define NS_PER_MS INT64_C(1000000)

#define BUSY_SENTENCE        "BUSY the node has more requests than it can decide; try again later"
#define UNAVAILABLE_SENTENCE "UNAVAILABLE no node that holds this key can be reached"
#define FAILED_SENTENCE      "UNAVAILABLE the node did not decide; what became of the keys is not known"
#define HTTP_SENTENCE                                                                              \
    "Protocol error: found HTTP; expected a client of Redis: this is the port of --resp"

enum {
    EXPIRE_MS = 2 * RESP_TIMEOUT_MS,
    ERROR_LEN = 256,
    LOAD_LEN_MAX = 32, /* of a reported load as text */
    LOAD_FRAME_LEN = 512,
    FLAGS = WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE, /* of all batches */
    ERROR_SHOWN = RESP_THROTTLE_MAX - 4        /* of an error of the shard's */
};

static_assert(RESP_BATCHES_MAX == 1 << RESP_PLACE_BITS, "a place fits a seq");
static_assert((int)RESP_BATCH_MAX <= (int)WIRE_CHECKS_MAX &&
                  (int)RESP_BATCH_MAX <= (int)WIRE_TEMPLATES_MAX,
              "a batch is one message, whatever limits are in it");
static_assert((int)RESP_VALUES_LEN > (int)WIRE_ATTRIBUTES_MAX * (WIRE_VALUE_MAX + 2),
              "a batch takes any single check");
static_assert((int)RESP_CHECK_MAX > 9 * (int)RESP_INTEGER_LEN + 48 + (int)WIRE_RULE_MAX &&
                  (int)RESP_CHECK_MAX > (int)RESP_ERROR_LEN_MAX + 3 &&
                  (int)RESP_ANSWER_MAX >=
                      (int)RESP_CHECK_MAX + (int)RESP_INTEGER_LEN + (int)WIRE_TEXT_MAX &&
                  (int)RESP_THROTTLE_MAX > 6 * (int)RESP_INTEGER_LEN,
              "RESPGATE-2");
static_assert((int)GATEWAY_OUT_LEN >= (int)RESP_BATCH_MAX * (int)RESP_THROTTLE_MAX,
              "one connection can fill a batch");
static_assert((int)GATEWAY_OUT_LEN >= (int)RESP_LOCAL_MAX + (int)RESP_ANSWER_MAX,
              "one always fits");

int resp_gate_new(const struct allocator *allocator, uint64_t session,
                  const struct resp_facts *facts, struct gateway_stats *stats,
                  struct resp_gate **out)
{
    struct resp_gate *gate = alloc_get(allocator, sizeof *gate);
    *out = gate;
    if (gate == NULL)
        return TG_ENOMEM;
    ASSERT(session != 0);
    gate->allocator = allocator;
    gate->session = session;
    gate->facts = *facts;
    gate->queues.allocator = allocator;
    gate->stats = stats;
    gate->facts.stats = stats;
    gate->open = RESP_NO_BATCH;
    for (uint16_t i = 0; i < RESP_BATCHES_MAX; i++) {
        gate->batches[i].next_free = (uint16_t)(i + 1 < RESP_BATCHES_MAX ? i + 1 : RESP_NO_BATCH);
        gate->batches[i].items = &gate->items[(size_t)i * RESP_BATCH_MAX];
    }
    wire_checks_builder_init(&gate->builder, gate->values, sizeof gate->values);
    return 0;
}

void resp_gate_free(struct resp_gate **gate)
{
    if (*gate != NULL)
        alloc_put((*gate)->allocator, *gate, sizeof **gate);
    *gate = NULL;
}

void resp_gate_now(struct resp_gate *gate, int64_t now_ns)
{
    gate->facts.now_ns = now_ns;
}

uint32_t resp_gate_waiting(const struct resp_gate *gate)
{
    return gate->waiting;
}

static void put_busy(struct resp_gate *gate, struct gateway_out *out)
{
    gate->stats->busy++;
    resp_put_error(out, BUSY_SENTENCE);
}

static enum took take_throttle(struct resp_gate *gate, struct resp_peer *peer, uint64_t token)
{
    struct throttle throttle;
    char error[THROTTLE_ERROR_LEN];
    if (throttle_read(&gate->request, &throttle, error) != 0) {
        if (peer->base.waiting > 0)
            return TOOK_NOT;
        resp_put_error(&peer->base.out, error);
        return TOOK;
    }
    struct wire_text key;
    const char *fault = resp_key_of(gate, peer, gate->request.arguments[1], &key);
    if (fault != NULL) {
        if (peer->base.waiting > 0)
            return TOOK_NOT;
        resp_put_error(&peer->base.out, fault);
        return TOOK;
    }
    const int template = resp_batch_template(gate, &throttle.limit);
    ASSERT(template >= 0 || template == TG_EFULL); /* RESPGATE-4 */
    if (template <0 || wire_checks_builder_append(&gate->builder, (uint32_t) template,
                                                  throttle.operation, throttle.cost, &key, 1) < 0)
        return TOOK_NOT;
    const struct item item = {
        .token = token, .ask = ASK_THROTTLE, .throttle = throttle_asked(&throttle)};
    resp_batch_add(gate, peer, &item);
    return TOOK;
}

static enum operation operation_of(enum resp_command_id id)
{
    switch ((int)id) {
    case RESP_TG_PEEK:
        return OPERATION_PEEK;
    case RESP_TG_HIT:
        return OPERATION_HIT;
    case RESP_TG_REFUND:
        return OPERATION_REFUND;
    case RESP_TG_RESET:
        return OPERATION_RESET;
    default:
        return OPERATION_CHECK;
    }
}

static enum took take_check(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                            enum resp_command_id id)
{
    struct resp_check *check = &gate->check;
    char error[RESP_CHECK_ERROR_LEN];
    if (resp_check_read(&gate->request, operation_of(id), check, error) != 0) {
        if (peer->base.waiting > 0)
            return TOOK_NOT;
        resp_put_error(&peer->base.out, error);
        return TOOK;
    }
    const int template = wire_checks_builder_attributes(&gate->builder, check->names, check->count);
    ASSERT(template >= 0 || template == TG_EFULL); /* RESPGATE-4 */
    if (template <0 ||
                  wire_checks_builder_append(&gate->builder, (uint32_t) template, check->operation,
                                             check->cost, check->values, check->count) < 0)
        return TOOK_NOT;
    const struct item item = {
        .token = token, .ask = ASK_CHECK, .says = check->says, .tells = check->tells};
    resp_batch_add(gate, peer, &item);
    return TOOK;
}

/* A load as people write it, or less than 0. */
static double read_load(struct wire_text text)
{
    char copy[LOAD_LEN_MAX + 1] = "";
    char *end;
    if (text.len == 0 || text.len > LOAD_LEN_MAX)
        return -1;
    memcpy(copy, text.data, text.len);
    const double value = strtod(copy, &end);
    return end == copy + text.len ? value : -1;
}

/* TG.LOAD pool x: a batch of its own, which is a message of another kind. */
static enum took take_load(struct resp_gate *gate, struct resp_peer *peer, uint64_t token)
{
    const struct wire_text pool = gate->request.arguments[1];
    const double value = read_load(gate->request.arguments[2]);
    if (peer->base.waiting > 0 || gate->batches[gate->open].count > 0)
        return TOOK_NOT;
    if (!(value >= 0 && value <= 1) || pool.len > WIRE_RULE_MAX) {
        resp_put_error(&peer->base.out, "ERR expected TG.LOAD pool load, with a load from 0 to 1");
        return TOOK;
    }
    struct mp_writer writer;
    mp_writer_init(&writer, gate->frame, LOAD_FRAME_LEN);
    wire_begin_admin(&writer, gate->session, gate->batches[gate->open].seq, "pools.report");
    mp_put_map(&writer, 2);
    mp_put_str(&writer, "pool");
    mp_put_strn(&writer, pool.data, pool.len);
    mp_put_str(&writer, "load");
    mp_put_real(&writer, value);
    ASSERT(!writer.failed);
    gate->load_len = writer.len;
    gate->loads = true;
    const struct item item = {.token = token, .ask = ASK_LOAD};
    resp_batch_add(gate, peer, &item);
    return TOOK;
}

/* ---- the batch, closed ----------------------------------------------------------------------- */

/* Takes the request at hand into the open batch, of which there is one. */
static enum took take_into_batch(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                                 enum resp_command_id id)
{
    if (gate->loads)
        return TOOK_NOT;
    if (id == RESP_CL_THROTTLE)
        return take_throttle(gate, peer, token);
    if (id == RESP_TG_LOAD)
        return take_load(gate, peer, token);
    return id > RESP_TG_LOAD ? resp_keys_take(gate, peer, token, id)
                             : take_check(gate, peer, token, id);
}

size_t resp_gate_submit(struct resp_gate *gate, const uint8_t **frame)
{
    if (gate->open == RESP_NO_BATCH || gate->batches[gate->open].count == 0)
        return 0;
    struct batch *batch = &gate->batches[gate->open];
    gate->open = RESP_NO_BATCH;
    gate->waiting++;
    ASSERT(gate->waiting <= RESP_BATCHES_MAX); /* RESPGATE-5 */
    gate->stats->batches++;
    batch->submitted_ns = gate->facts.now_ns;
    *frame = gate->frame;
    if (gate->loads)
        return gate->load_len;
    const int len = wire_checks_builder_encode(&gate->builder, gate->session, batch->seq, FLAGS,
                                               RESP_TIMEOUT_MS, gate->frame, sizeof gate->frame);
    ASSERT(len > 0);
    return (size_t)len;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A request for the shard. TOOK_NOT: *stop tells what it waits for. */
static enum took take_asked(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                            enum resp_command_id id, enum gateway_stop *stop)
{
    const bool elsewhere = peer->base.waiting > 0 && (gate->open == RESP_NO_BATCH ||
                                                      gate->batches[gate->open].seq != peer->batch);
    *stop = GATEWAY_NEED_ANSWER;
    if (elsewhere) /* RESPGATE-1 */
        return TOOK_NOT;
    if (resp_batch_open(gate) == NULL) {
        put_busy(gate, &peer->base.out);
        return TOOK;
    }
    *stop = GATEWAY_NEED_SUBMIT;
    if (gate->batches[gate->open].count == RESP_BATCH_MAX)
        return TOOK_NOT;
    const enum took took = take_into_batch(gate, peer, token, id);
    ASSERT(took == TOOK || gate->batches[gate->open].count > 0); /* submitting will help */
    return took;
}

void resp_gate_close(struct resp_gate *gate, struct resp_peer *peer)
{
    resp_transaction_end(gate, peer);
}

/* ---- requests, one by one -------------------------------------------------------------------- */

static void answer_here(struct resp_gate *gate, struct resp_peer *peer,
                        const struct resp_command *command)
{
    if (command->id == RESP_RESET)
        resp_transaction_end(gate, peer);
    resp_local(&gate->facts, peer, command, &gate->request);
}

/* A request that is answered here: when all before it are. */
static enum took take_here(struct resp_gate *gate, struct resp_peer *peer,
                           const struct resp_command *command)
{
    if (peer->base.waiting > 0)
        return TOOK_NOT;
    if (command == NULL)
        resp_command_unknown(&gate->request, &peer->base.out);
    else if (!resp_command_fits(command, &gate->request))
        resp_command_unfit(command, &peer->base.out);
    else if (command->id <= RESP_MULTI)
        resp_transaction_take(gate, peer, command->id);
    else
        answer_here(gate, peer, command);
    return TOOK;
}

/* Takes the request at hand, which came as `data`. TOOK_NOT: *stop tells why not. */
static enum took take_request(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                              const char *data, size_t len, enum gateway_stop *stop)
{
    const struct resp_command *command = resp_command_find(gate->request.arguments[0]);
    const bool asks =
        command != NULL && command->id <= RESP_UNLINK && resp_command_fits(command, &gate->request);
    const size_t room = asks ? RESP_ANSWER_MAX : RESP_LOCAL_MAX;
    *stop = GATEWAY_NEED_ROOM;
    if (peer->base.out.capacity - peer->base.out.len < peer->base.reserved + room)
        return TOOK_NOT; /* RESPGATE-2 */
    if (resp_transaction_keeps(peer, command)) {
        *stop = GATEWAY_NEED_ANSWER;
        return resp_transaction_keep(gate, peer, command, data, len);
    }
    if (asks)
        return take_asked(gate, peer, token, command->id, stop);
    *stop = GATEWAY_NEED_ANSWER;
    return take_here(gate, peer, command);
}

/* The connection ends with what is wrong, when all before it is answered. */
static enum gateway_stop end_with(struct resp_gate *gate, struct resp_peer *peer, const char *error)
{
    char text[ERROR_LEN];
    if (peer->base.waiting > 0)
        return GATEWAY_NEED_ANSWER;
    if (peer->base.out.capacity - peer->base.out.len < RESP_ANSWER_MAX)
        return GATEWAY_NEED_ROOM;
    (void)snprintf(text, sizeof text, "ERR %s", error);
    resp_put_error(&peer->base.out, text);
    gate->stats->protocol_errors++;
    peer->base.closing = true;
    return GATEWAY_AT_END;
}

/* Where the next request is: among those that EXEC has let go, or in what the peer sends. */
struct source {
    const char *data;
    size_t len;
    bool queued;
};

static struct source source_of(const struct resp_peer *peer, const char *data, size_t len)
{
    const struct resp_queue *queue = &peer->queue;
    const bool queued = !peer->queues && queue->at < queue->len;
    return (struct source){.data = queued ? queue->bytes + queue->at : data,
                           .len = queued ? queue->len - queue->at : len,
                           .queued = queued};
}

static void advance(struct resp_gate *gate, struct resp_peer *peer, bool queued, size_t bytes,
                    size_t *used)
{
    if (!queued) {
        *used += bytes;
        return;
    }
    peer->queue.at += (uint32_t)bytes;
    if (peer->queue.at == peer->queue.len)
        resp_queue_drop(&gate->queues, &peer->queue);
}

/* Whether the request is a line of HTTP: its words may be anything, its end tells. */
static bool is_http(const struct resp_request *request, char first)
{
    static const char version[] = "HTTP/";
    const struct wire_text *last = &request->arguments[request->count - 1];
    return first != '*' && last->len > sizeof version - 1 &&
           memcmp(last->data, version, sizeof version - 1) == 0;
}

enum gateway_stop resp_gate_take(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                                 const char *data, size_t len, size_t *used)
{
    enum gateway_stop stop;
    *used = 0;
    while (!peer->base.closing) {
        const struct source source = source_of(peer, data + *used, len - *used);
        const char *error;
        const int bytes = resp_parse(source.data, source.len, &gate->request, &error);
        if (bytes == 0)
            return GATEWAY_NEED_BYTES;
        if (bytes < 0)
            return end_with(gate, peer, error);
        if (gate->request.count > 0) {
            if (is_http(&gate->request, source.data[0]))
                return end_with(gate, peer, HTTP_SENTENCE);
            if (take_request(gate, peer, token, source.data, (size_t)bytes, &stop) == TOOK_NOT)
                return stop;
            gate->stats->commands++;
        }
        advance(gate, peer, source.queued, (size_t)bytes, used);
        ASSERT(*used <= len); /* RESPPARSER-1 */
    }
    return GATEWAY_AT_END;
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct resp_peer *find_peer(const struct gateway_finder *finder, uint64_t token)
{
    return (struct resp_peer *)finder->find(finder->context, token); /* begins with its base */
}

/* All of the batch that are not answered yet get the same error. */
static void answer_all(struct resp_gate *gate, struct batch *batch,
                       const struct gateway_finder *finder, const char *error)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct item *item = &batch->items[i];
        if (item->answered)
            continue;
        struct resp_peer *peer = find_peer(finder, item->token);
        resp_batch_settle(peer, item);
        if (peer != NULL && item->ask >= ASK_KEY)
            resp_keys_answer(peer, item, NULL, error != NULL ? FAILED_SENTENCE : BUSY_SENTENCE);
        else if (peer != NULL && error != NULL)
            resp_put_error(&peer->base.out, error);
        else if (peer != NULL)
            put_busy(gate, &peer->base.out);
    }
    resp_batch_release(gate, batch);
}

/* What went wrong with a decision on a key, or NULL. */
static const char *fault_of_decision(const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_BUSY)
        return BUSY_SENTENCE;
    return decision->outcome == OUTCOME_ERROR ? UNAVAILABLE_SENTENCE : NULL;
}

static void answer_one(struct resp_gate *gate, const struct item *item,
                       const struct wire_decision *decision, struct resp_peer *peer)
{
    struct gateway_out *out = &peer->base.out;
    if (item->ask >= ASK_KEY)
        resp_keys_answer(peer, item, decision, fault_of_decision(decision));
    else if (!decision->allowed && decision->outcome == OUTCOME_BUSY)
        put_busy(gate, out);
    else if (item->ask == ASK_CHECK)
        resp_check_answer(decision, item->says, item->tells, out);
    else if (!decision->allowed && decision->outcome == OUTCOME_ERROR)
        resp_put_error(out, UNAVAILABLE_SENTENCE);
    else
        throttle_answer(&item->throttle, decision, out);
}

static void answer_decisions(struct resp_gate *gate, struct batch *batch, const void *frame,
                             size_t len, const struct gateway_finder *finder)
{
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];
    const int result = wire_decode_decisions(frame, len, &gate->space, &decisions, error);
    ASSERT(result == 0 && decisions.head.count == batch->count); /* by our own shard */
    gate->answers++;
    bool last = true;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct wire_decision decision;
        struct item *item = &batch->items[i];
        if (item->answered)
            continue;
        struct resp_peer *peer = find_peer(finder, item->token);
        wire_decision_at(&decisions, i, &decision);
        const bool held = peer != NULL && peer->held == gate->answers;
        last = last && !decision.pending;
        if (decision.pending && peer != NULL)
            peer->held = gate->answers;
        if (decision.pending || held)
            continue; /* a later answer tells again */
        resp_batch_settle(peer, item);
        if (peer != NULL)
            answer_one(gate, item, &decision, peer);
    }
    if (last)
        resp_batch_release(gate, batch);
}

static void answer_error(struct resp_gate *gate, struct batch *batch, const void *frame, size_t len,
                         const struct gateway_finder *finder)
{
    struct wire_error message;
    char error[WIRE_ERROR_LEN];
    char text[ERROR_SHOWN];
    const int result = wire_decode_error(frame, len, &message, error);
    ASSERT(result == 0);
    (void)snprintf(text, sizeof text, "%s %.*s",
                   message.code == TG_EUNAVAILABLE ? "UNAVAILABLE" : "ERR", (int)message.text.len,
                   message.text.data);
    answer_all(gate, batch, finder, message.code == TG_EBUSY ? NULL : text);
}

static void answer_load(struct resp_gate *gate, struct batch *batch,
                        const struct gateway_finder *finder)
{
    ASSERT(batch->count == 1 && batch->items[0].ask == ASK_LOAD);
    struct item *item = &batch->items[0];
    struct resp_peer *peer = find_peer(finder, item->token);
    resp_batch_settle(peer, item);
    if (peer != NULL)
        resp_put_simple(&peer->base.out, "OK");
    resp_batch_release(gate, batch);
}

void resp_gate_answer(struct resp_gate *gate, const void *frame, size_t len,
                      const struct gateway_finder *finder)
{
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(frame, len, &envelope, error) != 0)
        return;
    struct batch *batch = resp_batch_find(gate, envelope.seq);
    if (batch == NULL)
        return; /* it was given up */
    if (envelope.type == WIRE_DECISIONS)
        answer_decisions(gate, batch, frame, len, finder);
    else if (envelope.type == WIRE_ERROR)
        answer_error(gate, batch, frame, len, finder);
    else
        answer_load(gate, batch, finder);
}

void resp_gate_expire(struct resp_gate *gate, const struct gateway_finder *finder)
{
    const int64_t before_ns = gate->facts.now_ns - EXPIRE_MS * NS_PER_MS;
    for (uint16_t i = 0; gate->waiting > 0 && i < RESP_BATCHES_MAX; i++) {
        struct batch *batch = &gate->batches[i];
        if (batch->seq == 0 || i == gate->open || batch->submitted_ns > before_ns)
            continue;
        gate->stats->late++;
        answer_all(gate, batch, finder,
                   "TIMEOUT the node did not decide in time; whether it counted is not known");
    }
}

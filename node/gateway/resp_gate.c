/* resp_gate.c - Redis clients' requests in, their replies out, in order; resp_gate.h draws the way.
 *
 * What asks the shard goes into the open batch (batches.h), whose user this is; all else is
 * answered here, once nothing of its connection is waited for.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "node/gateway/resp_gate_state.h"
#include "node/policy/rights/commands.h"

#define FAILED_SENTENCE  "UNAVAILABLE the node did not decide; what became of the keys is not known"
#define LATE_SENTENCE    "TIMEOUT the node did not decide in time; whether it counted is not known"
#define UNKNOWN_SENTENCE "NOAUTH Authentication required."
#define HTTP_SENTENCE                                                                              \
    "Protocol error: found HTTP; expected a client of Redis: this is the port of --resp"

enum {
    ERROR_LEN = 256,
    LOAD_LEN_MAX = 32, /* of a reported load as text */
    LOAD_PATIENCE_MS = BATCH_TIMEOUT_MS + BATCH_GRACE_MS,
    ERROR_SHOWN = RESP_THROTTLE_MAX - 4 /* of an error of the shard's */
};

static_assert((int)RESP_CHECK_MAX > 9 * (int)RESP_INTEGER_LEN + 48 + (int)WIRE_RULE_MAX &&
                  (int)RESP_CHECK_MAX > (int)RESP_ERROR_LEN_MAX + 3 &&
                  (int)RESP_ANSWER_MAX >=
                      (int)RESP_CHECK_MAX + (int)RESP_INTEGER_LEN + (int)WIRE_TEXT_MAX &&
                  (int)RESP_THROTTLE_MAX > 6 * (int)RESP_INTEGER_LEN,
              "BATCHES-2");
static_assert((int)GATEWAY_OUT_LEN >= (int)BATCH_MAX * (int)RESP_THROTTLE_MAX,
              "one connection can fill a batch");
static_assert((int)GATEWAY_OUT_LEN >= (int)RESP_LOCAL_MAX + (int)RESP_ANSWER_MAX,
              "one always fits");

static void put_busy(struct resp_gate *gate, struct gateway_out *out)
{
    gate->stats->busy++;
    resp_put_error(out, RESP_BUSY);
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

/* What the request at hand asks of the shard, and by how many checks; nothing is appended yet.
 * NULL, or the text of the error in `error` or elsewhere. */
static const char *read_asked(struct resp_gate *gate, const struct resp_peer *peer,
                              enum resp_command_id id, struct item *item, uint32_t *checks,
                              char error[ERROR_LEN])
{
    struct wire_text ignored;
    const struct wire_text *words = gate->request.arguments;
    *checks = 1;
    if (id > RESP_TG_LOAD)
        return resp_keys_read(gate, peer, id, item, checks);
    if (id == RESP_TG_LOAD) {
        const double load = read_load(words[2]);
        item->ask = ASK_LOAD;
        *checks = 0;
        return load >= 0 && load <= 1 && words[1].len <= WIRE_RULE_MAX
                   ? NULL
                   : "ERR expected TG.LOAD pool load, with a load from 0 to 1";
    }
    if (id == RESP_CL_THROTTLE) {
        item->ask = ASK_THROTTLE;
        if (throttle_read(&gate->request, &gate->throttle, error) != 0)
            return error;
        item->throttle = throttle_asked(&gate->throttle);
        return resp_key_of(gate, peer, words[1], &ignored);
    }
    item->ask = ASK_CHECK;
    if (resp_check_read(&gate->request, operation_of(id), &gate->check, error) != 0)
        return error;
    item->says = gate->check.says;
    item->tells = gate->check.tells;
    return NULL;
}

static int append_throttle(struct resp_gate *gate, const struct resp_peer *peer)
{
    const struct throttle *throttle = &gate->throttle;
    struct wire_text key;
    const char *fault = resp_key_of(gate, peer, gate->request.arguments[1], &key);
    const int template = resp_batch_template(gate, &throttle->limit);
    ASSERT(fault == NULL); /* read_asked looked */
    if (template <0)
        return template;
    return wire_checks_builder_append(&gate->batches->builder, (uint32_t) template,
                                      throttle->operation, throttle->cost, &key, 1);
}

static int append_check(struct resp_gate *gate)
{
    const struct resp_check *check = &gate->check;
    struct wire_checks_builder *builder = &gate->batches->builder;
    const int template = wire_checks_builder_attributes(builder, check->names, check->count);
    if (template <0)
        return template;
    return wire_checks_builder_append(builder, (uint32_t) template, check->operation, check->cost,
                                      check->values, check->count);
}

/* TG.LOAD pool x: a batch of its own, which is a message of another kind. */
static int append_load(struct resp_gate *gate)
{
    const struct wire_text *words = gate->request.arguments;
    struct mp_writer *writer = batches_command(gate->batches, "pools.report", LOAD_PATIENCE_MS);
    mp_put_map(writer, 2);
    mp_put_str(writer, "pool");
    mp_put_strn(writer, words[1].data, words[1].len);
    mp_put_str(writer, "load");
    mp_put_real(writer, read_load(words[2]));
    ASSERT(!writer->failed);
    return 0;
}

static int append(struct resp_gate *gate, const struct resp_peer *peer, const struct item *item)
{
    if (item->ask == ASK_THROTTLE)
        return append_throttle(gate, peer);
    if (item->ask == ASK_CHECK)
        return append_check(gate);
    return item->ask == ASK_LOAD ? append_load(gate) : resp_keys_append(gate, peer, item);
}

/* The first right that is missing for what is appended, or "" (ACCESS-1). */
static const char *missing_for(const struct resp_gate *gate, const struct item *item,
                               uint32_t first)
{
    static const char load[] = "pools.report";
    const uint8_t needed = item->ask == ASK_LOAD ? (uint8_t)command_right(load, sizeof load - 1)
                                                 : access_needs(&gate->batches->builder, first);
    return access_missing(&gate->access, needed);
}

enum asked {
    ASKED,           /* it has begun in the open batch: commit or cancel it */
    ASKED_WRONG,     /* what is wrong is in *fault */
    ASKED_FORBIDDEN, /* the right that is missing is in *fault */
    ASKED_BUSY,
    ASKED_SUBMIT /* once the open batch is submitted */
};

/* Begins the request at hand in the open batch; where it has not begun, the batch is as it was. */
static enum asked ask(struct resp_gate *gate, const struct resp_peer *peer, enum resp_command_id id,
                      struct item *item, struct batch_call **call, const char **fault,
                      char error[ERROR_LEN])
{
    struct batch_ask ask = {.timeout_ms = BATCH_TIMEOUT_MS};
    *fault = read_asked(gate, peer, id, item, &ask.count, error);
    if (*fault != NULL)
        return ASKED_WRONG;
    ask.kind = item->ask == ASK_LOAD ? BATCH_ADMIN : BATCH_SHARED;
    const enum batch_begun begun = batches_begin(gate->batches, &ask, call);
    if (begun != BATCH_BEGUN)
        return begun == BATCH_BUSY ? ASKED_BUSY : ASKED_SUBMIT;
    const int appended = append(gate, peer, item);
    ASSERT(appended >= 0 || appended == TG_EFULL); /* BATCHES-4 */
    if (appended < 0) {
        ASSERT(batches_at_hand(gate->batches)->count > 0); /* submitting will help */
        resp_batch_cancel(gate);
        return ASKED_SUBMIT;
    }
    *fault = missing_for(gate, item, (*call)->first);
    if (**fault == '\0')
        return ASKED;
    resp_batch_cancel(gate);
    return ASKED_FORBIDDEN;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* What a reply may take of `out`. */
static uint32_t room_of(const struct item *item)
{
    if (item->ask == ASK_THROTTLE || item->ask >= ASK_KEY)
        return RESP_THROTTLE_MAX;
    return item->says ? RESP_ANSWER_MAX : RESP_CHECK_MAX;
}

static void commit(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                   struct item *item, struct batch_call *call)
{
    item->call = *call;
    item->call.token = token;
    item->call.user = &gate->user;
    item->call.answered = false;
    item->call.room = room_of(item);
    *(struct item *)call = *item; /* it begins with its call */
    batches_commit(gate->batches, &peer->base);
}

/* A request for the shard. TOOK_NOT: *stop tells what it waits for. */
static enum took take_asked(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                            const struct resp_command *command, enum gateway_stop *stop)
{
    struct gateway_out *out = &peer->base.out;
    struct item item = {.says = false};
    struct batch_call *call = NULL;
    const char *fault = NULL;
    char error[ERROR_LEN];
    *stop = GATEWAY_NEED_ANSWER;
    if (batches_elsewhere(gate->batches, &peer->base))
        return TOOK_NOT;
    const enum asked asked = ask(gate, peer, command->id, &item, &call, &fault, error);
    if (asked == ASKED) {
        commit(gate, peer, token, &item, call);
        return TOOK;
    }
    if (asked == ASKED_SUBMIT)
        *stop = GATEWAY_NEED_SUBMIT;
    if (asked == ASKED_SUBMIT || peer->base.waiting > 0)
        return TOOK_NOT;
    if (asked == ASKED_BUSY)
        put_busy(gate, out);
    else if (asked == ASKED_WRONG)
        resp_put_error(out, fault);
    else
        resp_command_forbidden(command, resp_user_name(&gate->access), fault, out);
    return TOOK;
}

/* A request for the shard that is kept for EXEC: who may not ask it is told now. What else is wrong
 * EXEC tells, and looks at rights anew. */
static enum took look_asked(struct resp_gate *gate, struct resp_peer *peer,
                            const struct resp_command *command, enum gateway_stop *stop,
                            bool *forbidden)
{
    struct item item = {.says = false};
    struct batch_call *call;
    const char *fault;
    char error[ERROR_LEN];
    *stop = GATEWAY_NEED_ANSWER;
    if (peer->base.waiting > 0)
        return TOOK_NOT;
    const enum asked asked = ask(gate, peer, command->id, &item, &call, &fault, error);
    *forbidden = asked == ASKED_FORBIDDEN;
    *stop = GATEWAY_NEED_SUBMIT;
    if (asked == ASKED_SUBMIT)
        return TOOK_NOT;
    if (asked == ASKED)
        resp_batch_cancel(gate);
    if (asked == ASKED_FORBIDDEN)
        resp_command_forbidden(command, resp_user_name(&gate->access), fault, &peer->base.out);
    return TOOK;
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

static bool asks_shard(const struct resp_command *command, const struct resp_request *request)
{
    return command != NULL && command->id <= RESP_UNLINK && resp_command_fits(command, request);
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

/* Keeps the request at hand for EXEC, or says why not. */
static enum took take_kept(struct resp_gate *gate, struct resp_peer *peer,
                           const struct resp_command *command, const char *data, size_t len,
                           enum gateway_stop *stop)
{
    bool forbidden = false;
    if (asks_shard(command, &gate->request) &&
        look_asked(gate, peer, command, stop, &forbidden) == TOOK_NOT)
        return TOOK_NOT;
    if (forbidden) {
        peer->spoiled = true;
        return TOOK;
    }
    *stop = GATEWAY_NEED_ANSWER;
    return resp_transaction_keep(gate, peer, command, data, len);
}

/* Whether the command may come before AUTH. */
static bool is_for_all(const struct resp_command *command)
{
    return command != NULL && (command->id == RESP_AUTH || command->id == RESP_HELLO ||
                               command->id == RESP_QUIT || command->id == RESP_RESET);
}

/* AUTH has to come first. */
static enum took refuse_unknown(struct resp_gate *gate, struct resp_peer *peer,
                                const struct resp_command *command)
{
    if (peer->base.waiting > 0)
        return TOOK_NOT;
    if (peer->queues && command != NULL && command->id == RESP_EXEC) {
        resp_transaction_end(gate, peer);
        resp_put_error(&peer->base.out,
                       "EXECABORT Transaction discarded because of: " UNKNOWN_SENTENCE);
        return TOOK;
    }
    peer->spoiled = peer->queues;
    resp_put_error(&peer->base.out, UNKNOWN_SENTENCE);
    return TOOK;
}

/* Takes the request at hand, which came as `data`. TOOK_NOT: *stop tells why not. */
static enum took take_request(struct resp_gate *gate, struct resp_peer *peer, uint64_t token,
                              const char *data, size_t len, enum gateway_stop *stop)
{
    const struct resp_command *command = resp_command_find(gate->request.arguments[0]);
    const struct resp_users users = resp_local_users(&gate->facts);
    const bool asks = asks_shard(command, &gate->request);
    const size_t room = asks ? RESP_ANSWER_MAX : RESP_LOCAL_MAX;
    *stop = GATEWAY_NEED_ROOM;
    if (peer->base.out.capacity - peer->base.out.len < peer->base.reserved + room)
        return TOOK_NOT; /* BATCHES-2 */
    *stop = GATEWAY_NEED_ANSWER;
    resp_user_look(&users, &peer->user, &gate->access); /* RESPUSER-1 */
    if (resp_user_unknown(&gate->access) && !is_for_all(command))
        return refuse_unknown(gate, peer, command);
    if (resp_transaction_keeps(peer, command))
        return take_kept(gate, peer, command, data, len, stop);
    return asks ? take_asked(gate, peer, token, command, stop) : take_here(gate, peer, command);
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

static void decided(void *context, struct gateway_peer *base, struct batch_call *call,
                    const struct wire_decisions *decisions)
{
    struct resp_gate *gate = context;
    const struct item *item = (const struct item *)call;
    struct gateway_out *out = &base->out;
    struct wire_decision decision;
    wire_decision_at(decisions, call->first, &decision);
    if (item->ask >= ASK_KEY)
        resp_keys_answer(item, decisions, out);
    else if (!decision.allowed && decision.outcome == OUTCOME_BUSY)
        put_busy(gate, out);
    else if (item->ask == ASK_CHECK)
        resp_check_answer(&decision, item->says, item->tells, out);
    else if (!decision.allowed && decision.outcome == OUTCOME_ERROR)
        resp_put_error(out, resp_batch_fault(&decision));
    else
        throttle_answer(&item->throttle, &decision, out);
}

/* The load has come to the shard. */
static void replied(void *context, struct gateway_peer *base, struct batch_call *call,
                    const void *frame, size_t len)
{
    (void)context;
    (void)frame;
    (void)len;
    ASSERT(((const struct item *)call)->ask == ASK_LOAD);
    resp_put_simple(&base->out, "OK");
}

/* The shard's own words. */
static void put_refusal(const struct batch_failure *failure, struct gateway_out *out)
{
    char text[ERROR_SHOWN];
    (void)snprintf(text, sizeof text, "%s %.*s",
                   failure->code == TG_EUNAVAILABLE ? "UNAVAILABLE" : "ERR", (int)failure->text.len,
                   failure->text.data);
    resp_put_error(out, text);
}

static void failed(void *context, struct gateway_peer *base, struct batch_call *call,
                   const struct batch_failure *failure)
{
    struct resp_gate *gate = context;
    const struct item *item = (const struct item *)call;
    const bool busy = failure->code == TG_EBUSY;
    if (item->ask >= ASK_KEY)
        resp_put_error(&base->out, busy ? RESP_BUSY : FAILED_SENTENCE);
    else if (busy)
        put_busy(gate, &base->out);
    else if (failure->late)
        resp_put_error(&base->out, LATE_SENTENCE);
    else
        put_refusal(failure, &base->out);
}

static_assert(offsetof(struct item, call) == 0, "an item is a call of a batch");

/* ---- the gate -------------------------------------------------------------------------------- */

int resp_gate_new(const struct allocator *allocator, uint64_t session,
                  const struct resp_facts *facts, struct gateway_stats *stats,
                  struct resp_gate **out)
{
    struct resp_gate *gate = alloc_get(allocator, sizeof *gate);
    *out = gate;
    if (gate == NULL)
        return TG_ENOMEM;
    gate->allocator = allocator;
    gate->facts = *facts;
    gate->queues.allocator = allocator;
    gate->stats = stats;
    gate->facts.stats = stats;
    gate->user = (struct batch_user){gate, decided, replied, failed, NULL};
    if (batches_new(allocator, session, sizeof(struct item), stats, &gate->batches) == 0)
        return 0;
    resp_gate_free(out);
    return TG_ENOMEM;
}

void resp_gate_free(struct resp_gate **pointer)
{
    struct resp_gate *gate = *pointer;
    *pointer = NULL;
    if (gate == NULL)
        return;
    batches_free(&gate->batches);
    alloc_put(gate->allocator, gate, sizeof *gate);
}

void resp_gate_now(struct resp_gate *gate, int64_t now_ns)
{
    gate->facts.now_ns = now_ns;
    gate->batches->now_ns = now_ns;
}

void resp_gate_policy(struct resp_gate *gate, const struct policy *policy)
{
    if (gate != NULL)
        gate->facts.policy = policy;
}

struct batches *resp_gate_batches(struct resp_gate *gate)
{
    return gate->batches;
}

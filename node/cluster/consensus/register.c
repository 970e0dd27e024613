/* register.c - acceptor and proposer of register.h.
 *
 *   proposer:   IDLE --propose--> PREPARING --majority--> ACCEPTING --majorities--> decided, IDLE
 *                ^                    |                        |
 *                +---- refused, or too late: back off at random, then whoever asks begins anew
 *
 *   acceptor:   promised <= what it answers; accepted <= promised; both for instance `epoch` alone
 *
 * A proposer that votes itself asks its own acceptor directly; `persist` then precedes the sends.
 * Nothing here knows what a value means but its instance and its voters.
 */
#include "node/cluster/consensus/register.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/mp.h"
#include "base/random.h"

#define REGISTER_MS          INT64_C(1000000)
#define REGISTER_RESEND_NS   (150 * REGISTER_MS)
#define REGISTER_ATTEMPT_NS  (1500 * REGISTER_MS)
#define REGISTER_BACK_OFF_NS (30 * REGISTER_MS) /* doubles with each failure in a row */
/* A proposer leaves the way to another that its acceptor has just promised to. */
#define REGISTER_YIELD_NS (300 * REGISTER_MS)
/* An accepted value that nobody ends for so long is carried on by its acceptor. */
#define REGISTER_DOUBT_NS (1000 * REGISTER_MS)

enum { REGISTER_RECORD_VERSION = 1, REGISTER_TRIES_MAX = 6 };

static_assert(REGISTER_SENDS_MAX >= 2 * RING_VOTERS_MAX, "old and new voters are asked at once");

enum phase { PHASE_IDLE, PHASE_PREPARING, PHASE_ACCEPTING };

struct value {
    uint8_t *bytes; /* options.value_len_max */
    size_t len;
};

struct register_core {
    const struct allocator *allocator;
    struct register_options options;
    struct random random;
    uint64_t epoch;                /* the instance: committed epoch + 1 */
    struct register_voters voters; /* who decides it */

    /* acceptor; durable */
    struct register_ballot promised;
    struct register_ballot accepted;
    struct value accepted_value;
    int64_t promised_ns;
    int64_t doubt_ns; /* when an accepted value is to be carried on */

    /* proposer; volatile */
    enum phase phase;
    struct register_ballot ballot;
    struct register_ballot best; /* of the value that is carried on; none: it is an own wish */
    struct value proposal;
    struct register_voters successors; /* voters of `proposal` */
    uint32_t promises;                 /* bits of `voters` */
    uint32_t accepts;                  /* bits of `voters` */
    uint32_t accepts_next;             /* bits of `successors` */
    uint64_t number_seen;
    uint64_t number_used;  /* the highest of an own ballot, whatever the instance */
    uint64_t number_least; /* no own ballot is of this number, or a lower one: they may be told */
    uint32_t tries;
    int64_t started_ns;
    int64_t sent_ns;
    int64_t back_off_ns; /* no attempt before */

    struct ring_config *scratch; /* NULL where options.read reads */
    struct mp_token *tokens;
};

/* ---- small parts ----------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int register_ballot_compare(const struct register_ballot *a, const struct register_ballot *b)
{
    if (a->number != b->number)
        return compare_numbers(a->number, b->number);
    if (a->node != b->node)
        return compare_numbers(a->node, b->node);
    return compare_numbers(a->boot, b->boot);
}

static void take_voters(struct register_voters *voters, const struct ring_config *config)
{
    voters->count = config->voters_count;
    memcpy(voters->ids, config->voters, config->voters_count * sizeof *config->voters);
}

/* The place of `id` among the voters, or -1. */
static int place_of(const struct register_voters *voters, uint64_t id)
{
    for (uint32_t i = 0; i < voters->count; i++)
        if (voters->ids[i] == id)
            return (int)i;
    return -1;
}

static bool majority(const struct register_voters *voters, uint32_t bits)
{
    return (uint32_t)__builtin_popcount(bits) >= voters->count / 2 + 1;
}

static void set_value(struct value *value, const uint8_t *bytes, size_t len)
{
    memcpy(value->bytes, bytes, len);
    value->len = len;
}

static bool read_config(struct register_core *core, const uint8_t *bytes, size_t len,
                        uint64_t *instance, struct register_voters *voters)
{
    if (ring_config_decode(core->scratch, bytes, len, core->tokens, RING_CONFIG_TOKENS_MAX) != 0)
        return false;
    *instance = core->scratch->epoch;
    take_voters(voters, core->scratch);
    return true;
}

/* Reads the voters of an encoded value; false unless it is one for this instance. */
static bool read_voters(struct register_core *core, const uint8_t *bytes, size_t len,
                        struct register_voters *voters)
{
    uint64_t instance = 0;
    if (bytes == NULL || len == 0 || len > core->options.value_len_max)
        return false;
    const bool read = core->options.read != NULL ? core->options.read(bytes, len, &instance, voters)
                                                 : read_config(core, bytes, len, &instance, voters);
    return read && instance == core->epoch;
}

static void clear(struct register_out *out)
{
    memset(out, 0, offsetof(struct register_out, sends));
}

static struct register_message *add_send(struct register_core *core, struct register_out *out,
                                         uint64_t to, enum register_type type)
{
    ASSERT(out->send_count < REGISTER_SENDS_MAX);
    struct register_send *send = &out->sends[out->send_count++];
    memset(send, 0, sizeof *send);
    send->to = to;
    send->message.type = type;
    send->message.sender = core->options.node_id;
    send->message.epoch = core->epoch;
    return &send->message;
}

/* ---- acceptor -------------------------------------------------------------------------------- */

static bool promise(struct register_core *core, int64_t now_ns,
                    const struct register_ballot *ballot, struct register_out *out)
{
    const int order = register_ballot_compare(ballot, &core->promised);
    if (order < 0)
        return false;
    core->promised_ns = now_ns;
    if (order == 0)
        return true; /* asked twice */
    core->promised = *ballot;
    out->persist = true; /* REGISTER-2: the promise */
    return true;
}

static bool accept(struct register_core *core, int64_t now_ns, const struct register_ballot *ballot,
                   const uint8_t *bytes, size_t len, struct register_out *out)
{
    if (register_ballot_compare(ballot, &core->promised) < 0)
        return false;
    if (register_ballot_compare(ballot, &core->accepted) == 0)
        return true; /* told twice; REGISTER-3: the same value */
    core->promised = *ballot;
    core->accepted = *ballot;
    set_value(&core->accepted_value, bytes, len);
    core->promised_ns = now_ns;
    core->doubt_ns = now_ns + REGISTER_DOUBT_NS +
                     (int64_t)random_below(&core->random, (uint64_t)REGISTER_DOUBT_NS);
    out->persist = true; /* REGISTER-2: the acceptance */
    return true;
}

static void answer(struct register_core *core, const struct register_message *asked,
                   enum register_type type, struct register_out *out)
{
    struct register_message *message = add_send(core, out, asked->sender, type);
    message->ballot = asked->ballot;
    if (type == REGISTER_REFUSED)
        message->other = core->promised;
    if (type != REGISTER_PROMISE || core->accepted.number == 0)
        return;
    message->other = core->accepted;
    message->value = core->accepted_value.bytes;
    message->value_len = core->accepted_value.len;
}

static void receive_prepare(struct register_core *core, int64_t now_ns,
                            const struct register_message *message, struct register_out *out)
{
    if (place_of(&core->voters, core->options.node_id) < 0)
        return;
    const bool promised = promise(core, now_ns, &message->ballot, out);
    answer(core, message, promised ? REGISTER_PROMISE : REGISTER_REFUSED, out);
}

static void receive_accept(struct register_core *core, int64_t now_ns,
                           const struct register_message *message, struct register_out *out)
{
    struct register_voters successors;
    if (!read_voters(core, message->value, message->value_len, &successors) ||
        (place_of(&core->voters, core->options.node_id) < 0 &&
         place_of(&successors, core->options.node_id) < 0))
        return;
    const bool accepted =
        accept(core, now_ns, &message->ballot, message->value, message->value_len, out);
    answer(core, message, accepted ? REGISTER_ACCEPTED : REGISTER_REFUSED, out);
}

/* ---- proposer -------------------------------------------------------------------------------- */

static void back_off(struct register_core *core, int64_t now_ns)
{
    const uint64_t most = (uint64_t)REGISTER_BACK_OFF_NS << core->tries;
    core->phase = PHASE_IDLE;
    core->back_off_ns = now_ns + REGISTER_BACK_OFF_NS + (int64_t)random_below(&core->random, most);
    if (core->tries < REGISTER_TRIES_MAX)
        core->tries++;
}

/* REGISTER-5. */
static void look_for_decision(struct register_core *core, struct register_out *out)
{
    if (!majority(&core->voters, core->accepts) || !majority(&core->successors, core->accepts_next))
        return;
    core->phase = PHASE_IDLE;
    out->decided = true;
}

static void note_accept(struct register_core *core, uint64_t from)
{
    const int place = place_of(&core->voters, from);
    const int next = place_of(&core->successors, from);
    core->accepts |= place < 0 ? 0 : 1U << place;
    core->accepts_next |= next < 0 ? 0 : 1U << next;
}

static void send_accept(struct register_core *core, uint64_t to, struct register_out *out)
{
    struct register_message *message = add_send(core, out, to, REGISTER_ACCEPT);
    message->ballot = core->ballot;
    message->value = core->proposal.bytes;
    message->value_len = core->proposal.len;
}

/* Asks everybody who has not accepted yet, old voters and new. */
static void send_accepts(struct register_core *core, struct register_out *out)
{
    const uint64_t self = core->options.node_id;
    for (uint32_t i = 0; i < core->voters.count; i++)
        if ((core->accepts & 1U << i) == 0 && core->voters.ids[i] != self)
            send_accept(core, core->voters.ids[i], out);
    for (uint32_t i = 0; i < core->successors.count; i++)
        if ((core->accepts_next & 1U << i) == 0 && core->successors.ids[i] != self &&
            place_of(&core->voters, core->successors.ids[i]) < 0)
            send_accept(core, core->successors.ids[i], out);
}

static void begin_accepting(struct register_core *core, int64_t now_ns, struct register_out *out)
{
    ASSERT(majority(&core->voters, core->promises)); /* REGISTER-4 */
    const uint64_t self = core->options.node_id;
    const bool readable =
        read_voters(core, core->proposal.bytes, core->proposal.len, &core->successors);
    ASSERT(readable); /* it was read when it came in */
    core->phase = PHASE_ACCEPTING;
    core->accepts = 0;
    core->accepts_next = 0;
    core->sent_ns = now_ns;
    if (place_of(&core->voters, self) >= 0 || place_of(&core->successors, self) >= 0) {
        if (accept(core, now_ns, &core->ballot, core->proposal.bytes, core->proposal.len, out)) {
            note_accept(core, self);
        } else {
            back_off(core, now_ns); /* promised to another meanwhile */
            return;
        }
    }
    send_accepts(core, out);
    look_for_decision(core, out);
}

/* REGISTER-4. False if what the acceptor reports cannot be read. */
static bool note_promise(struct register_core *core, uint64_t from,
                         const struct register_ballot *accepted, const uint8_t *bytes, size_t len)
{
    const int place = place_of(&core->voters, from);
    ASSERT(place < 0 || (uint32_t)place < core->voters.count); /* REGISTER-5 */
    struct register_voters ignored;
    if (place < 0)
        return false;
    if (accepted->number != 0 && register_ballot_compare(accepted, &core->best) > 0) {
        if (!read_voters(core, bytes, len, &ignored))
            return false;
        set_value(&core->proposal, bytes, len);
        core->best = *accepted;
    }
    core->promises |= 1U << place;
    return true;
}

static void send_prepares(struct register_core *core, struct register_out *out)
{
    for (uint32_t i = 0; i < core->voters.count; i++)
        if ((core->promises & 1U << i) == 0 && core->voters.ids[i] != core->options.node_id)
            add_send(core, out, core->voters.ids[i], REGISTER_PREPARE)->ballot = core->ballot;
}

static void begin(struct register_core *core, int64_t now_ns, struct register_out *out)
{
    const uint64_t self = core->options.node_id;
    if (core->promised.number > core->number_seen)
        core->number_seen = core->promised.number;
    if (core->number_least > core->number_seen)
        core->number_seen = core->number_least;
    core->ballot = (struct register_ballot){++core->number_seen, self, core->options.boot};
    if (core->number_seen > core->number_used)
        core->number_used = core->number_seen;
    ASSERT(core->ballot.number > 0 && core->number_used >= core->ballot.number); /* REGISTER-3 */
    core->best = (struct register_ballot){0};
    core->phase = PHASE_PREPARING;
    core->promises = 0;
    core->started_ns = now_ns;
    core->sent_ns = now_ns;
    if (place_of(&core->voters, self) >= 0 && promise(core, now_ns, &core->ballot, out)) {
        const bool noted = note_promise(core, self, &core->accepted, core->accepted_value.bytes,
                                        core->accepted_value.len);
        ASSERT(noted);
    }
    send_prepares(core, out);
    if (majority(&core->voters, core->promises)) /* the only voter needs nobody's promise */
        begin_accepting(core, now_ns, out);
}

/* Whether an attempt may begin: not too soon after the last, and not in another's way. */
static bool may_begin(const struct register_core *core, int64_t now_ns)
{
    const bool others = core->promised.number != 0 && core->promised.node != core->options.node_id;
    return core->epoch > 1 && core->phase == PHASE_IDLE && now_ns >= core->back_off_ns &&
           !(others && now_ns - core->promised_ns < REGISTER_YIELD_NS);
}

bool register_propose(struct register_core *core, int64_t now_ns, const struct ring_config *next,
                      struct register_out *out)
{
    clear(out);
    if (!may_begin(core, now_ns))
        return false;
    const int len = ring_config_encode(next, core->proposal.bytes, core->options.value_len_max);
    if (len < 0 || next->epoch != core->epoch)
        return false;
    core->proposal.len = (size_t)len;
    begin(core, now_ns, out);
    return true;
}

bool register_propose_value(struct register_core *core, int64_t now_ns, const void *value,
                            size_t len, struct register_out *out)
{
    struct register_voters ignored;
    clear(out);
    if (!may_begin(core, now_ns) || !read_voters(core, value, len, &ignored))
        return false;
    set_value(&core->proposal, value, len);
    begin(core, now_ns, out);
    return true;
}

static void receive_promise(struct register_core *core, int64_t now_ns,
                            const struct register_message *message, struct register_out *out)
{
    if (core->phase != PHASE_PREPARING ||
        register_ballot_compare(&message->ballot, &core->ballot) != 0)
        return;
    if (note_promise(core, message->sender, &message->other, message->value, message->value_len) &&
        majority(&core->voters, core->promises))
        begin_accepting(core, now_ns, out);
}

static void receive_accepted(struct register_core *core, const struct register_message *message,
                             struct register_out *out)
{
    if (core->phase != PHASE_ACCEPTING ||
        register_ballot_compare(&message->ballot, &core->ballot) != 0)
        return;
    note_accept(core, message->sender);
    look_for_decision(core, out);
}

static void receive_refused(struct register_core *core, int64_t now_ns,
                            const struct register_message *message)
{
    if (message->other.number > core->number_seen)
        core->number_seen = message->other.number;
    if (core->phase != PHASE_IDLE && register_ballot_compare(&message->ballot, &core->ballot) == 0)
        back_off(core, now_ns);
}

/* ---- input ----------------------------------------------------------------------------------- */

/* Whether the number leads on from those that are known here. */
static bool credible(const struct register_core *core, const struct register_ballot *ballot)
{
    uint64_t known = core->promised.number;
    known = core->number_seen > known ? core->number_seen : known;
    known = core->number_least > known ? core->number_least : known;
    return ballot->number <= known || ballot->number - known <= REGISTER_NUMBER_STEP;
}

void register_receive(struct register_core *core, int64_t now_ns,
                      const struct register_message *message, struct register_out *out)
{
    const bool asks = message->type == REGISTER_PREPARE || message->type == REGISTER_ACCEPT;
    clear(out);
    if (message->epoch != core->epoch) { /* REGISTER-1 */
        if (message->epoch > core->epoch)
            out->fetch_from = message->sender;
        else if (asks)
            out->tell = message->sender;
        return;
    }
    if (!credible(core, asks ? &message->ballot : &message->other))
        return;
    switch (message->type) {
    case REGISTER_PREPARE:
        receive_prepare(core, now_ns, message, out);
        break;
    case REGISTER_PROMISE:
        receive_promise(core, now_ns, message, out);
        break;
    case REGISTER_ACCEPT:
        receive_accept(core, now_ns, message, out);
        break;
    case REGISTER_ACCEPTED:
        receive_accepted(core, message, out);
        break;
    case REGISTER_REFUSED:
        receive_refused(core, now_ns, message);
        break;
    case REGISTER_TYPE_END:
        ASSERT(false);
    }
}

/* When the own acceptor's value is to be carried on; INT64_MAX if there is none. */
static int64_t doubt_due(const struct register_core *core)
{
    if (core->phase != PHASE_IDLE || core->accepted.number == 0)
        return INT64_MAX;
    const int64_t yields_ns = core->promised_ns + REGISTER_YIELD_NS;
    const int64_t free_ns = core->back_off_ns > yields_ns ? core->back_off_ns : yields_ns;
    return core->doubt_ns > free_ns ? core->doubt_ns : free_ns;
}

void register_tick(struct register_core *core, int64_t now_ns, struct register_out *out)
{
    clear(out);
    if (core->phase == PHASE_IDLE) {
        if (now_ns < doubt_due(core) || !may_begin(core, now_ns))
            return;
        set_value(&core->proposal, core->accepted_value.bytes, core->accepted_value.len);
        begin(core, now_ns, out);
    } else if (now_ns - core->started_ns >= REGISTER_ATTEMPT_NS) {
        back_off(core, now_ns);
    } else if (now_ns - core->sent_ns >= REGISTER_RESEND_NS) {
        core->sent_ns = now_ns;
        if (core->phase == PHASE_PREPARING)
            send_prepares(core, out);
        else
            send_accepts(core, out);
    }
}

int64_t register_next_deadline(const struct register_core *core)
{
    if (core->phase == PHASE_IDLE)
        return doubt_due(core);
    return core->sent_ns + REGISTER_RESEND_NS;
}

void register_follow(struct register_core *core, const struct ring_config *committed)
{
    struct register_voters voters;
    take_voters(&voters, committed);
    register_follow_value(core, committed->epoch, &voters);
}

void register_follow_value(struct register_core *core, uint64_t committed,
                           const struct register_voters *voters)
{
    if (committed + 1 <= core->epoch)
        return;
    core->epoch = committed + 1;
    core->voters = *voters;
    core->promised = (struct register_ballot){0};
    core->accepted = (struct register_ballot){0};
    core->accepted_value.len = 0;
    core->phase = PHASE_IDLE;
    core->number_seen = 0;
    core->tries = 0;
    core->back_off_ns = 0;
}

void register_forget(struct register_core *core)
{
    core->number_least = core->number_used;
    core->epoch = 0;
    core->voters.count = 0;
    core->promised = (struct register_ballot){0};
    core->accepted = (struct register_ballot){0};
    core->accepted_value.len = 0;
    core->phase = PHASE_IDLE;
}

void register_withdraw(struct register_core *core)
{
    if (core->phase == PHASE_PREPARING && core->best.number == 0)
        core->phase = PHASE_IDLE; /* REGISTER-3: promises that come are of a ballot of the past */
}

bool register_busy(const struct register_core *core)
{
    return core->phase != PHASE_IDLE;
}

bool register_offers(const struct register_core *core)
{
    return core->phase == PHASE_ACCEPTING;
}

bool register_in_doubt(const struct register_core *core)
{
    return core->accepted.number != 0;
}

bool register_accepted(const struct register_core *core, const uint8_t *bytes, size_t len)
{
    return core->accepted.number != 0 && core->accepted_value.len == len &&
           memcmp(core->accepted_value.bytes, bytes, len) == 0;
}

const uint8_t *register_accepted_value(const struct register_core *core, size_t *len)
{
    *len = core->accepted.number != 0 ? core->accepted_value.len : 0;
    return core->accepted_value.bytes;
}

const uint8_t *register_value(const struct register_core *core, size_t *len)
{
    *len = core->proposal.len;
    return core->proposal.bytes;
}

/* ---- durable record -------------------------------------------------------------------------- */

void register_put_ballot(struct mp_writer *writer, const struct register_ballot *ballot)
{
    mp_put_uint(writer, ballot->number);
    mp_put_uint(writer, ballot->node);
    mp_put_uint(writer, ballot->boot);
}

void register_get_ballot(struct mp_cursor *cursor, struct register_ballot *ballot)
{
    ballot->number = mp_get_uint(cursor);
    ballot->node = mp_get_uint(cursor);
    ballot->boot = mp_get_uint(cursor);
}

int register_encode(const struct register_core *core, void *out, size_t capacity)
{
    struct mp_writer writer;
    mp_writer_init(&writer, out, capacity);
    mp_put_array(&writer, 9);
    mp_put_uint(&writer, REGISTER_RECORD_VERSION);
    mp_put_uint(&writer, core->epoch);
    register_put_ballot(&writer, &core->promised);
    register_put_ballot(&writer, &core->accepted);
    mp_put_bin(&writer, core->accepted_value.bytes, core->accepted_value.len);
    return writer.failed ? TG_ETOOBIG : (int)writer.len;
}

int register_restore(struct register_core *core, int64_t now_ns, const void *record, size_t len)
{
    struct mp_token tokens[16];
    struct mp_cursor cursor;
    struct register_ballot promised;
    struct register_ballot accepted;
    struct register_voters ignored;
    size_t value_len = 0;
    const int count = mp_parse(record, len, tokens, sizeof tokens / sizeof *tokens);
    if (count < 0)
        return TG_ECORRUPT;
    mp_cursor_init(&cursor, tokens, (size_t)count);
    const bool whole = mp_get_array(&cursor) == 9;
    const bool known = mp_get_uint(&cursor) == REGISTER_RECORD_VERSION;
    const uint64_t epoch = mp_get_uint(&cursor);
    register_get_ballot(&cursor, &promised);
    register_get_ballot(&cursor, &accepted);
    const uint8_t *value = mp_get_bin(&cursor, &value_len);
    if (cursor.failed || !whole || !known || register_ballot_compare(&accepted, &promised) > 0)
        return TG_ECORRUPT;
    if (epoch != core->epoch) /* older: of an instance that was decided meanwhile */
        return epoch < core->epoch ? 0 : TG_ECORRUPT;
    if (accepted.number != 0 && !read_voters(core, value, value_len, &ignored))
        return TG_ECORRUPT;
    core->promised = promised;
    core->accepted = accepted;
    if (accepted.number != 0)
        set_value(&core->accepted_value, value, value_len);
    core->doubt_ns = now_ns + REGISTER_DOUBT_NS;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int register_new(const struct allocator *allocator, const struct register_options *options,
                 struct register_core **out)
{
    *out = NULL;
    struct register_core *core = alloc_get(allocator, sizeof *core);
    if (core == NULL)
        return TG_ENOMEM;
    core->allocator = allocator;
    core->options = *options;
    random_init(&core->random, options->seed);
    const bool configs = options->read == NULL;
    if (configs)
        core->options.value_len_max = REGISTER_VALUE_LEN_MAX;
    core->accepted_value.bytes = alloc_get(allocator, core->options.value_len_max);
    core->proposal.bytes = alloc_get(allocator, core->options.value_len_max);
    if (configs) {
        core->scratch = alloc_get(allocator, sizeof *core->scratch);
        core->tokens = alloc_array(allocator, RING_CONFIG_TOKENS_MAX, sizeof *core->tokens);
    }
    *out = core;
    if (core->accepted_value.bytes != NULL && core->proposal.bytes != NULL &&
        (!configs || (core->scratch != NULL && core->tokens != NULL)))
        return 0;
    register_free(out);
    return TG_ENOMEM;
}

void register_free(struct register_core **pointer)
{
    struct register_core *core = *pointer;
    *pointer = NULL;
    if (core == NULL)
        return;
    const struct allocator *allocator = core->allocator;
    alloc_put(allocator, core->accepted_value.bytes, core->options.value_len_max);
    alloc_put(allocator, core->proposal.bytes, core->options.value_len_max);
    alloc_put(allocator, core->scratch, sizeof *core->scratch);
    alloc_put(allocator, core->tokens, RING_CONFIG_TOKENS_MAX * sizeof *core->tokens);
    alloc_put(allocator, core, sizeof *core);
}

static void check_sets(const struct register_core *core)
{
    const uint32_t beyond = core->voters.count < 32 ? UINT32_MAX << core->voters.count : 0;
    INVARIANT("REGISTER-5", core->voters.count <= RING_VOTERS_MAX);
    for (uint32_t i = 0; i < core->voters.count; i++)
        for (uint32_t k = 0; k < i; k++)
            INVARIANT("REGISTER-5", core->voters.ids[k] != core->voters.ids[i]);
    INVARIANT("REGISTER-5", core->phase == PHASE_IDLE || (core->promises & beyond) == 0);
}

void register_check_invariants(const struct register_core *core)
{
    const bool idle = core->phase == PHASE_IDLE;
    INVARIANT("REGISTER-2", register_ballot_compare(&core->accepted, &core->promised) <= 0);
    INVARIANT("REGISTER-2", (core->accepted.number != 0) == (core->accepted_value.len != 0));
    INVARIANT("REGISTER-3", idle || core->ballot.node == core->options.node_id);
    INVARIANT("REGISTER-3", idle || core->ballot.number <= REGISTER_NUMBER_MAX);
    INVARIANT("REGISTER-1", idle || core->epoch > 1);
    INVARIANT("REGISTER-4",
              core->phase != PHASE_ACCEPTING || majority(&core->voters, core->promises));
    INVARIANT("REGISTER-1", core->promised.number == 0 || core->epoch > 1);
    INVARIANT("REGISTER-2", core->accepted_value.len <= core->options.value_len_max);
    check_sets(core);
}

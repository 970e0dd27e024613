/* phase_hold.c - holders of tokens: leases of ordinary limits while leaders change.
 *
 *   hold    workers take leases of tokens, use them, renew, release, or are    SIMHOLD-1 and
 *           never heard of again; others ask directly; answers are lost; a     SIMHOLD-2 always,
 *           node dies, stops, drains or joins, or a side is cut off, or        SIMHOLD-3 at rest
 *           nothing happens
 *
 *              answer            release sent
 *   IDLE --> ASKING --> HOLDING --> ENDING --> IDLE         a holder uses its tokens at any time
 *     ^                 |     ^                             before its lease ends by its own clock,
 *     +--- died, over --+     | answer                      from when it first asked (PROTOCOL.md)
 *                       +---> RENEWING
 *
 * Of the keys of rules with consistency any it is nodes that hold the tokens (lessee.c); of these
 * workers only ask, all nodes alike.
 *
 * One key is kept by majorities, in seeds that have those.
 *
 * SIMHOLD-1  What holders and leaders admit together of a window is its limit at most; for each
 *            side of a split that much, and beside that what nobody had confirmed of a node that
 *            died. No lease is among that: it was told when a majority knew it. Of a key that
 *            majorities keep it is the limit; and so it is of a key whose rule has consistency any,
 *            but for what was said to be degraded.
 * SIMHOLD-2  Of a bucket: in any interval no more than its burst and what was refilled.
 * SIMHOLD-3  What was admitted is charged, when all leases are over.
 *
 * A worker is a session of its own with one message under way, as in phase_lease.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/phase.h"

enum state { IDLE, ASKING, CHECKING, HOLDING, RENEWING, ENDING, LOOKING };

enum {
    SESSION_FIRST = 64,
    PACE_MS = 5,
    PLAY_MS = 700,
    OVER_MS = 1400, /* until any lease is over, by any clock that was not stepped */
    DEAF_MAX_PPM = 100000,
    TIMEOUT_MS = 250,
    FRAME_MAX = 1 << 12,
    TOKENS_MAX = 16, /* of one lease */
    CLOCKS_MS = 200, /* by which two leaders' clocks, and what they forgot to drain, may differ */
    /* In parts of a million, each time that workers are looked at. */
    ASK_PPM = 100000,
    CHECK_PPM = 300000, /* of those who ask */
    USE_PPM = 300000,
    RELEASE_PPM = 20000,
    RENEW_PPM = 20000,
    DIE_PPM = 6000,
    DEADLY_PPM = 100000, /* of checks that nodes answer by tokens, while an answer is deadly */
};

#define DAY_NS INT64_C(86400000000000)

static const struct limit limits[HOLD_KEYS] = {
    {.count = HOLD_LIMIT, .window_ns = 100 * (uint64_t)DAY_NS, .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = HOLD_LIMIT, .window_ns = (uint64_t)DAY_NS, .algorithm = ALGORITHM_SLIDING_LOG},
    {.count = HOLD_RATE,
     .window_ns = 1000000000,
     .burst = HOLD_BURST,
     .algorithm = ALGORITHM_TOKEN_BUCKET},
    /* these as the rules say it: near, brisk and block */
    {.count = HOLD_LIMIT, .window_ns = (uint64_t)DAY_NS, .algorithm = ALGORITHM_SLIDING_LOG},
    {.count = HOLD_RATE,
     .window_ns = 1000000000,
     .burst = HOLD_BURST,
     .algorithm = ALGORITHM_TOKEN_BUCKET},
    {.count = HOLD_LIMIT, .window_ns = (uint64_t)DAY_NS, .algorithm = ALGORITHM_SLIDING_LOG},
};

/* What requests of a key that a rule limits say they ask for. */
static const char *const apis[HOLD_KEYS] = {NULL, NULL, NULL, "/near", "/brisk", "/block"};

static bool is_bucket(uint32_t key)
{
    return limits[key].algorithm == ALGORITHM_TOKEN_BUCKET;
}

/* Whether nodes hold the tokens of the key: its rule has consistency any. */
static bool is_near(uint32_t key)
{
    return key == 3 || key == 4;
}

/* Whether majorities keep the key: then a split or a crash gives nothing away. */
static bool is_safe(const struct sim *sim, uint32_t key)
{
    return key == 5 && sim->options.quorum;
}

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_LENT);
}

static bool chance(struct sim *sim, uint32_t ppm)
{
    return sim_chance(sim, STREAM_LENT, ppm);
}

static uint32_t number_of(const struct sim *sim, const struct hold_worker *worker)
{
    return (uint32_t)(worker - sim->tokens.workers);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Appends what the worker asks: of the rules, or of a limit of its own. */
static void append(struct sim *sim, const struct hold_worker *worker, struct wire_text key)
{
    const char *api = apis[worker->key];
    const struct wire_text names[2] = {wire_text_of("guest"), wire_text_of("api")};
    const struct wire_text values[2] = {key, wire_text_of(api == NULL ? "" : api)};
    const size_t count = api == NULL ? 1 : 2;
    const int template =
        api == NULL ? wire_checks_builder_inline(&sim->builder, &limits[worker->key])
                    : wire_checks_builder_attributes(&sim->builder, names, (uint32_t)count);
    ASSERT(template >= 0);
    const int added =
        wire_names_lease(worker->operation & WIRE_OPERATION_MASK)
            ? wire_checks_builder_append_used(&sim->builder, (uint32_t) template, worker->operation,
                                              worker->lease, worker->stated, values,
                                              (uint32_t)count)
            : wire_checks_builder_append(&sim->builder, (uint32_t) template, worker->operation,
                                         worker->cost, values, (uint32_t)count);
    ASSERT(added >= 0);
}

/* Sends the worker's message, for the first time or again. */
static void send(struct sim *sim, struct hold_worker *worker)
{
    static uint8_t frame[FRAME_MAX];
    char text[SIM_TEXT_LEN];
    snprintf(text, sizeof text, "hold-%u-%u", sim->tokens.name, worker->key);
    const struct wire_text value = wire_text_of(text);
    const uint8_t at = (uint8_t)random_below(stream(sim), sim->node_count);
    wire_checks_builder_reset(&sim->builder);
    append(sim, worker, value);
    const int len = wire_checks_builder_encode(
        &sim->builder, SESSION_FIRST + number_of(sim, worker), worker->seq,
        worker->tries > 0 ? WIRE_FLAG_RETRY : 0, TIMEOUT_MS, frame, sizeof frame);
    ASSERT(len > 0);
    worker->tries++;
    worker->resend_ns = sim->now_ns + TIMEOUT_MS * SIM_MS;
    if (sim->nodes[at].up)
        net_ask(sim, SIM_CLIENTS_MAX, at,
                (uint8_t)random_below(stream(sim), sim->nodes[at].shard_count), frame, (size_t)len);
}

static void begin_message(struct sim *sim, struct hold_worker *worker, enum state state,
                          unsigned operation, uint64_t cost)
{
    worker->state = (uint8_t)state;
    worker->operation = (uint8_t)operation;
    worker->cost = cost;
    worker->stated = worker->used;
    worker->seq++;
    worker->tries = 0;
    worker->asked_ns = sim->now_ns;
    send(sim, worker);
}

/* ---- what is admitted ------------------------------------------------------------------------ */

/* What of the key may be forgotten when a leader dies. */
static uint64_t bound_of(const struct sim *sim, uint32_t key)
{
    return is_safe(sim, key) ? 0 : is_near(key) ? sim->tokens.loose[key] : sim->plan.bound;
}

/* So many were admitted between the two moments. */
static void admit(struct sim *sim, uint32_t key, uint64_t tokens, int64_t from_ns, int64_t to_ns)
{
    struct tokens_held *held = &sim->tokens;
    held->admitted[key] += tokens;
    if (is_bucket(key) && held->uses_count[key] < HOLD_USES)
        held->uses[key][held->uses_count[key]++] = (struct hold_use){from_ns, to_ns, tokens};
    const uint64_t sides = is_safe(sim, key) ? 1 : 1 + sim->plan.splits;
    const uint64_t bound = bound_of(sim, key);
    if (!is_bucket(key) && held->admitted[key] > limits[key].count * sides + bound)
        sim_fail(sim, "SIMHOLD-1: %llu admitted of key hold-%u-%u, %llu were unconfirmed",
                 (unsigned long long)held->admitted[key], held->name, key,
                 (unsigned long long)bound);
}

/* SIMHOLD-2: over each interval between two uses. */
static void judge_bucket(struct sim *sim, uint32_t key)
{
    const struct tokens_held *held = &sim->tokens;
    const struct limit *limit = &limits[key];
    for (uint32_t first = 0; first < held->uses_count[key]; first++) {
        const int64_t from_ns = held->uses[key][first].from_ns;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < held->uses_count[key]; i++) { /* in the order of to_ns */
            const struct hold_use *use = &held->uses[key][i];
            sum += use->from_ns >= from_ns ? use->tokens : 0;
            const uint64_t ms =
                (uint64_t)(use->to_ns > from_ns ? (use->to_ns - from_ns) / SIM_MS : 0);
            const uint64_t refilled = limit->count * (ms + CLOCKS_MS) / 1000;
            const uint64_t most =
                (limit->burst + refilled) * (1 + sim->plan.splits) + bound_of(sim, key);
            if (use->from_ns >= from_ns && sum > most) {
                sim_fail(sim,
                         "SIMHOLD-2: %llu admitted of key hold-%u-%u in %llu ms, %llu expected",
                         (unsigned long long)sum, held->name, key, (unsigned long long)ms,
                         (unsigned long long)most);
                return;
            }
        }
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static int64_t until_ns(const struct hold_worker *worker, uint32_t lease_ms)
{
    const int64_t told_ns = (int64_t)lease_ms * SIM_MS;
    return worker->asked_ns + told_ns - told_ns / 64 - SIM_MS;
}

static bool is_of(const struct node *node, struct wire_text name)
{
    char text[SIM_TEXT_LEN];
    const int len = snprintf(text, sizeof text, "n%u", node->index);
    return name.len == (size_t)len && memcmp(name.data, text, name.len) == 0;
}

/* The moment at which a lease, or a check that is to be sure, has just been told is the worst one
 * for its leader to die. */
static void die_of_it(struct sim *sim, const struct wire_decision *decision)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (!is_of(&sim->nodes[i], decision->source->node) || !sim->nodes[i].up)
            continue;
        sim->tokens.deadly = false;
        sim->plan.bound += node_unconfirmed(&sim->nodes[i]);
        faults_crash(sim, &sim->nodes[i]);
        sim->coverage.holds_deadly++;
        return;
    }
}

/* What is worse: to die before anything else is sent than the answer, if nobody knows yet what it
 * admits. */
bool hold_ends(struct sim *sim, struct node *node, const struct effect *effect)
{
    const struct event event = {.bytes = (uint8_t *)(uintptr_t)effect->bytes,
                                .len = (uint32_t)effect->len};
    struct wire_decision decision;
    if (!sim->tokens.deadly || effect->target != SIM_CLIENTS_MAX)
        return false;
    const int at = worker_of_reply(&event, SESSION_FIRST, HOLD_WORKERS);
    if (at < 0)
        return false;
    const struct hold_worker *worker = &sim->tokens.workers[at];
    if (worker->state != CHECKING || !is_near(worker->key) ||
        !worker_decision(sim, &event, worker->seq, &decision) || !decision.allowed ||
        !is_of(node, decision.source->node) || !chance(sim, DEADLY_PPM))
        return false;
    sim->tokens.deadly = false;
    sim->plan.bound += node_unconfirmed(node);
    sim->coverage.holds_deadly++;
    return true;
}

static void answered(struct sim *sim, struct hold_worker *worker,
                     const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_ERROR ||
        (decision->outcome == OUTCOME_BUSY && worker->state != ASKING)) {
        worker->resend_ns = sim->now_ns + 4 * PACE_MS * SIM_MS; /* the same question again */
        return;
    }
    switch (worker->state) {
    case ASKING:
        worker->state = decision->allowed && decision->granted > 0 ? HOLDING : IDLE;
        worker->lease = decision->lease;
        worker->granted = decision->granted;
        worker->used = 0;
        worker->until_ns = until_ns(worker, decision->lease_ms);
        sim->coverage.holds += worker->state == HOLDING;
        sim->coverage.holds_refused += decision->outcome == OUTCOME_BUSY;
        if (worker->state == HOLDING && sim->tokens.deadly && !is_bucket(worker->key))
            die_of_it(sim, decision);
        break;
    case CHECKING:
        worker->state = IDLE;
        if (decision->allowed && decision->degraded)
            sim->tokens.loose[worker->key] += decision->granted;
        if (decision->allowed && is_near(worker->key) && sim->tokens.deadly &&
            chance(sim, DEADLY_PPM))
            die_of_it(sim, decision);
        if (decision->allowed)
            admit(sim, worker->key, decision->granted, worker->asked_ns, sim->now_ns);
        break;
    case RENEWING:
        worker->state = decision->allowed && decision->granted > 0 ? HOLDING : IDLE;
        if (decision->allowed && until_ns(worker, decision->lease_ms) > worker->until_ns)
            worker->until_ns = until_ns(worker, decision->lease_ms);
        break;
    case ENDING:
        worker->state = IDLE;
        sim->coverage.holds_back += decision->granted;
        break;
    case LOOKING:
        worker->state = IDLE;
        sim->tokens.charged[worker->key] = decision->used;
        break;
    default:
        break; /* an answer to what was asked twice */
    }
}

bool hold_reply(struct sim *sim, const struct event *event)
{
    struct wire_decision decision;
    const int at = worker_of_reply(event, SESSION_FIRST, HOLD_WORKERS);
    if (at < 0)
        return false;
    struct hold_worker *worker = &sim->tokens.workers[at];
    if (worker_decision(sim, event, worker->seq, &decision))
        answered(sim, worker, &decision);
    return true;
}

/* ---- what workers do ------------------------------------------------------------------------- */

static void use_some(struct sim *sim, struct hold_worker *worker, uint64_t most)
{
    const uint64_t left = worker->granted - worker->used;
    const uint64_t tokens = left < most ? left : most;
    if (tokens == 0 || sim->now_ns >= worker->until_ns)
        return;
    worker->used += tokens;
    sim->coverage.holds_used += tokens;
    admit(sim, worker->key, tokens, sim->now_ns, sim->now_ns);
}

static void act_holding(struct sim *sim, struct hold_worker *worker)
{
    const bool over = sim->now_ns >= worker->until_ns;
    if (over && chance(sim, 500000)) {
        worker->state = IDLE; /* it lets it expire */
    } else if (over || sim->tokens.leaving || chance(sim, RELEASE_PPM)) {
        begin_message(sim, worker, ENDING, OPERATION_RELEASE, 0);
    } else if (chance(sim, RENEW_PPM)) {
        begin_message(sim, worker, RENEWING, OPERATION_RENEW, 0);
    } else if (chance(sim, DIE_PPM)) {
        use_some(sim, worker, TOKENS_MAX);
        worker->state = IDLE;
        sim->coverage.holds_left++;
    } else if (chance(sim, USE_PPM)) {
        use_some(sim, worker, 1 + random_below(stream(sim), 3));
    }
}

static void act(struct sim *sim, struct hold_worker *worker)
{
    const bool waits = worker->state != IDLE && worker->state != HOLDING;
    if (worker->state == RENEWING && chance(sim, USE_PPM))
        use_some(sim, worker, 1); /* of the time that it has already */
    if (waits && sim->now_ns >= worker->resend_ns)
        send(sim, worker);
    if (worker->state == HOLDING)
        act_holding(sim, worker);
    if (worker->state != IDLE || !sim->tokens.asking || !chance(sim, ASK_PPM))
        return;
    worker->used = 0;
    if (is_near(worker->key) || chance(sim, CHECK_PPM))
        begin_message(sim, worker, CHECKING, OPERATION_CHECK, 1);
    else
        begin_message(sim, worker, ASKING,
                      OPERATION_LEASE | (chance(sim, 500000) ? WIRE_AT_MOST : 0),
                      1 + random_below(stream(sim), TOKENS_MAX));
}

static void act_all(struct sim *sim)
{
    for (uint32_t i = 0; i < HOLD_WORKERS; i++)
        act(sim, &sim->tokens.workers[i]);
    phase_wait(sim, PACE_MS);
}

static bool all_idle(const struct sim *sim)
{
    for (uint32_t i = 0; i < HOLD_WORKERS; i++)
        if (sim->tokens.workers[i].state != IDLE)
            return false;
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool begin(struct sim *sim)
{
    struct tokens_held *held = &sim->tokens;
    uint64_t seqs[HOLD_WORKERS]; /* sessions go on from phase to phase */
    const uint32_t name = held->name + 1;
    for (uint32_t i = 0; i < HOLD_WORKERS; i++)
        seqs[i] = held->workers[i].seq;
    memset(held, 0, sizeof *held);
    held->name = name;
    for (uint32_t i = 0; i < HOLD_WORKERS; i++)
        held->workers[i] = (struct hold_worker){.key = i % HOLD_KEYS, .seq = seqs[i]};
    held->asking = true;
    sim->net.deaf_ppm = (uint32_t)random_below(stream(sim), DEAF_MAX_PPM);
    return true;
}

static bool play(struct sim *sim)
{
    if (phase_first(sim))
        sim->tokens.until_ns = sim->now_ns + PLAY_MS * SIM_MS;
    act_all(sim);
    return sim->now_ns >= sim->tokens.until_ns;
}

static void cut_off_a_side(struct sim *sim)
{
    const uint32_t side = 1 + (uint32_t)random_below(stream(sim), (1u << sim->node_count) - 2);
    if (!options_fault(&sim->options, FAULT_CUT))
        return;
    sim_tell(sim, 1, "cut %02x off", side);
    net_cut(sim, side, false, random_below(stream(sim), 2) == 0);
    sim->coverage.splits++;
    sim->plan.splits++;
}

/* With the tokens that it holds, or after it has given them back. */
static void lose_a_node(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    if (random_below(stream(sim), 2) == 0) {
        node_stop(sim, node);
        return;
    }
    sim->plan.bound += node_unconfirmed(node);
    faults_crash(sim, node);
}

/* A node gives all its vnodes away, leases and all, or another one joins and is given some. */
static void move_vnodes(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    char sentence[CONTROL_SENTENCE_LEN];
    for (uint8_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i].member)
            continue;
        sim->nodes[i].member = true;
        node_start_later(sim, i, 0);
        return;
    }
    node->drains = control_depart(node->control, CONTROL_DRAINS, sentence) == 0;
    sim->coverage.departures += node->drains;
}

static bool go_wrong(struct sim *sim)
{
    if (!phase_first(sim)) { /* it waits for a lease to be told */
        act_all(sim);
        return !sim->tokens.deadly || sim->now_ns >= sim->tokens.until_ns;
    }
    const uint64_t dice = random_below(stream(sim), 6);
    if (dice <= 1) {
        sim->tokens.deadly = true;
        sim->tokens.until_ns = sim->now_ns + PLAY_MS * SIM_MS;
        return false;
    }
    if (dice == 2)
        cut_off_a_side(sim);
    else if (dice == 3)
        lose_a_node(sim);
    else if (dice == 4)
        move_vnodes(sim);
    return true;
}

/* A node that drains is started anew, wherever it has got to. */
static void end_drains(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->nodes[i].up && sim->nodes[i].drains)
            sim->plan.bound += node_unconfirmed(&sim->nodes[i]);
}

static bool mend(struct sim *sim)
{
    if (phase_first(sim)) {
        net_heal(sim);
        end_drains(sim);
        sim->net.deaf_ppm = 0;
        sim->tokens.deadly = false;
    }
    act_all(sim);
    return step_back(sim);
}

/* Everybody gives back what it does not need, and what is out has its time to end. */
static bool leave(struct sim *sim)
{
    if (phase_first(sim)) {
        sim->tokens.asking = false;
        sim->tokens.leaving = true;
    }
    act_all(sim);
    if (!all_idle(sim))
        return phase_not_yet(sim, "somebody holds tokens");
    phase_wait(sim, OVER_MS);
    return true;
}

static bool look(struct sim *sim)
{
    for (uint32_t key = 0; phase_first(sim) && key < HOLD_KEYS; key++)
        begin_message(sim, &sim->tokens.workers[key], LOOKING, OPERATION_PEEK, 0);
    act_all(sim);
    return all_idle(sim) || phase_not_yet(sim, "a key could not be looked at");
}

static bool judge(struct sim *sim)
{
    const struct tokens_held *held = &sim->tokens;
    for (uint32_t key = 0; key < HOLD_KEYS; key++) {
        sim_tell(sim, 1, "key %u: %llu admitted, %llu charged", key,
                 (unsigned long long)held->admitted[key], (unsigned long long)held->charged[key]);
        if (is_bucket(key) && !sim->stepped)
            judge_bucket(sim, key);
        const uint64_t bound = bound_of(sim, key);
        if (!is_bucket(key) && (sim->plan.splits == 0 || is_safe(sim, key)) &&
            held->charged[key] + bound < held->admitted[key])
            sim_fail(sim, "SIMHOLD-3: %llu admitted of key hold-%u-%u, and %llu charged",
                     (unsigned long long)held->admitted[key], held->name, key,
                     (unsigned long long)held->charged[key]);
    }
    return true;
}

const struct phase_step phase_hold[] = {
    {"begin", begin},    {"play", play},        {"wrong", go_wrong}, {"on", play},
    {"mend", mend},      {"leave", leave},      {"look", look},      {"judge", judge},
    {"rest", step_rest}, {"equal", step_equal}, {NULL, NULL},
};

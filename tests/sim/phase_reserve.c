/* phase_reserve.c - tokens that are reserved, and settled by what was used, while deciders change.
 *
 *   reserve   workers reserve tokens, commit what they used, in time or late,   SIMRESERVE-1 and
 *             cancel, commit again, or are never heard of again; answers are    SIMRESERVE-3
 * always, lost; a node dies, stops, drains or joins, or a side is cut off,   SIMRESERVE-2 at rest
 *             or nothing happens
 *
 *              granted          used, and sent        answered
 *   IDLE --> RESERVING --> HELD --> COMMITTING --> DONE --> IDLE
 *     ^                     | |                      \-> AGAIN: settled already, says something
 * else
 *     +--- left to its end -+ +--> CANCELLING --> DONE
 *
 * Nothing else is asked of these keys, and their windows are long: so what is charged in the end is
 * what was committed.
 *
 * SIMRESERVE-1  What is settled and what is held are the limit at most, but for what a commit was
 *               told that came late or was said to be degraded; whatever dies. A reservation counts
 *               as held from the moment at which its worker heard of it until its time is over.
 * SIMRESERVE-2  When all is settled or over, what was committed is charged, and nothing else: no
 *               commit twice, no reservation that expired, or was cancelled. (A commit that was
 *               sent again while who decides changed may be charged by both; in a split no more is
 *               said than that nothing is forgotten.)
 * SIMRESERVE-3  Who settles again is told what was charged before.
 *
 * A worker is a session of its own with one message under way, as in phase_lease.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "tests/sim/phase.h"

enum state { IDLE, RESERVING, HELD, COMMITTING, CANCELLING, DONE, AGAIN, LOOKING };

enum {
    SESSION_FIRST = 128,
    WORKERS = 36,
    KEYS = 3,
    LIMIT = 300,
    COST_MAX = 40,
    PACE_MS = 5,
    PLAY_MS = 900,
    TTL_MS = LIMIT_TTL_MIN_MS,
    CLOCKS_MS = 150, /* by which clocks of deciders and workers may differ */
    OVER_MS = TTL_MS + 600,
    TIMEOUT_MS = 250,
    DEAF_MAX_PPM = 100000,
    FRAME_MAX = 1 << 12,
    /* In parts of a million, each time that workers are looked at. */
    ASK_PPM = 60000,
    SETTLE_PPM = 25000,  /* seldom enough that some are left to their end */
    CANCEL_PPM = 250000, /* of those who settle */
    LEAVE_PPM = 4000,
    LATE_PPM = 300000,  /* of those whose time is over */
    AGAIN_PPM = 400000, /* of those who are done */
};

#define DAY_NS INT64_C(86400000000000)

struct worker {
    uint8_t state; /* enum state */
    uint8_t operation;
    bool cancelled;
    bool overtaken; /* what it committed may be charged by two */
    uint64_t seq;
    uint64_t hold;
    uint64_t held;
    uint64_t charged;
    uint64_t what; /* of the message under way: the cost, or the reservation */
    uint64_t used;
    uint32_t tries;
    int64_t asked_ns;
    int64_t resend_ns;
    int64_t until_ns; /* it surely holds until then */
};

/* The simulator runs one seed at a time in a process. */
static struct {
    struct worker workers[WORKERS];
    uint32_t name; /* of the phase's keys */
    uint64_t settled[KEYS];
    uint64_t loose[KEYS];  /* of these: late, or said to be degraded */
    uint64_t doubts[KEYS]; /* charged twice, perhaps */
    uint64_t charged[KEYS];
    bool asking;
    bool leaving;
    bool wrong;  /* something is, or was */
    bool deadly; /* who tells of the next commit dies before it has sent anything else */
    int64_t until_ns;
} play;

static const struct limit limits[KEYS] = {
    {.count = LIMIT, .window_ns = 100 * (uint64_t)DAY_NS, .algorithm = ALGORITHM_FIXED_WINDOW},
    {.count = LIMIT, .window_ns = (uint64_t)DAY_NS, .algorithm = ALGORITHM_SLIDING_LOG},
    /* as the rule says it: block */
    {.count = HOLD_LIMIT, .window_ns = (uint64_t)DAY_NS, .algorithm = ALGORITHM_SLIDING_LOG},
};

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_LENT);
}

static bool chance(struct sim *sim, uint32_t ppm)
{
    return sim_chance(sim, STREAM_LENT, ppm);
}

static uint32_t key_of(const struct worker *worker)
{
    return (uint32_t)(worker - play.workers) % KEYS;
}

/* Whether majorities keep the key: then a split gives nothing away. */
static bool is_safe(const struct sim *sim, uint32_t key)
{
    return key == 2 && sim->options.quorum;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void append(struct sim *sim, const struct worker *worker)
{
    char text[SIM_TEXT_LEN];
    const uint32_t key = key_of(worker);
    snprintf(text, sizeof text, "reserve-%u-%u", play.name, key);
    const struct wire_text names[2] = {wire_text_of("guest"), wire_text_of("api")};
    const struct wire_text values[2] = {wire_text_of(text), wire_text_of("/block")};
    const bool by_rule = key == 2;
    const int template = by_rule ? wire_checks_builder_attributes(&sim->builder, names, 2)
                                 : wire_checks_builder_inline(&sim->builder, &limits[key]);
    ASSERT(template >= 0);
    const uint32_t count = by_rule ? 2 : 1;
    const int added =
        worker->operation == OPERATION_PEEK
            ? wire_checks_builder_append(&sim->builder, (uint32_t) template, worker->operation, 0,
                                         values, count)
            : wire_checks_builder_append_used(&sim->builder, (uint32_t) template, worker->operation,
                                              worker->what, worker->used, values, count);
    ASSERT(added >= 0);
}

static void send(struct sim *sim, struct worker *worker)
{
    static uint8_t frame[FRAME_MAX];
    const uint8_t at = (uint8_t)random_below(stream(sim), sim->node_count);
    wire_checks_builder_reset(&sim->builder);
    append(sim, worker);
    const int len = wire_checks_builder_encode(
        &sim->builder, SESSION_FIRST + (uint64_t)(worker - play.workers), worker->seq,
        worker->tries > 0 ? WIRE_FLAG_RETRY : 0, TIMEOUT_MS, frame, sizeof frame);
    ASSERT(len > 0);
    worker->tries++;
    worker->resend_ns = sim->now_ns + TIMEOUT_MS * SIM_MS;
    if (sim->nodes[at].up)
        net_ask(sim, SIM_CLIENTS_MAX, at,
                (uint8_t)random_below(stream(sim), sim->nodes[at].shard_count), frame, (size_t)len);
}

static void begin_message(struct sim *sim, struct worker *worker, enum state state,
                          enum operation operation, uint64_t what, uint64_t used)
{
    worker->state = (uint8_t)state;
    worker->operation = (uint8_t)operation;
    worker->what = what;
    worker->used = used;
    worker->seq++;
    worker->tries = 0;
    worker->asked_ns = sim->now_ns;
    send(sim, worker);
}

/* ---- what is settled and held ---------------------------------------------------------------- */

static uint64_t held(const struct sim *sim, uint32_t key)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        const struct worker *worker = &play.workers[i];
        if (key_of(worker) == key && worker->state == HELD && sim->now_ns < worker->until_ns)
            sum += worker->held;
    }
    return sum;
}

/* SIMRESERVE-1 */
static void judge_bound(struct sim *sim, uint32_t key)
{
    const uint64_t sum = play.settled[key] + held(sim, key);
    if (!sim->stepped && sum > limits[key].count + play.loose[key])
        sim_fail(sim, "SIMRESERVE-1: %llu settled and %llu held of key reserve-%u-%u, %llu loose",
                 (unsigned long long)play.settled[key], (unsigned long long)held(sim, key),
                 play.name, key, (unsigned long long)play.loose[key]);
}

static void settle(struct sim *sim, struct worker *worker, const struct wire_decision *decision)
{
    const uint32_t key = key_of(worker);
    const bool late = worker->asked_ns >= worker->until_ns || sim->now_ns >= worker->until_ns;
    const bool cancels = worker->operation == OPERATION_CANCEL;
    worker->state = DONE;
    worker->cancelled = cancels;
    worker->charged = cancels ? 0 : decision->granted;
    worker->overtaken = play.wrong && worker->tries > 1;
    sim->coverage.reservations_cancelled += cancels;
    sim->coverage.reservations_late += late && !cancels;
    if (cancels)
        return;
    if (decision->granted != worker->used && !worker->overtaken && sim->plan.splits == 0)
        sim_fail(sim, "SIMRESERVE-2: a commit of %llu charged %llu",
                 (unsigned long long)worker->used, (unsigned long long)decision->granted);
    play.settled[key] += decision->granted;
    if (late || decision->degraded)
        play.loose[key] += decision->granted;
    if (worker->overtaken)
        play.doubts[key] += decision->granted;
    sim->coverage.reservations_settled++;
    judge_bound(sim, key);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void reserved(struct sim *sim, struct worker *worker, const struct wire_decision *decision)
{
    worker->state = decision->allowed && decision->lease != 0 ? HELD : IDLE;
    sim->coverage.reservations_refused += decision->outcome == OUTCOME_BUSY;
    if (worker->state != HELD)
        return;
    worker->hold = decision->lease;
    worker->held = decision->granted;
    worker->until_ns = worker->asked_ns + (TTL_MS - CLOCKS_MS) * SIM_MS;
    sim->coverage.reservations++;
    judge_bound(sim, key_of(worker));
}

static void told_again(struct sim *sim, struct worker *worker, const struct wire_decision *decision)
{
    const bool cancels = worker->operation == OPERATION_CANCEL;
    const uint64_t expected = cancels ? 0 : worker->charged;
    worker->state = IDLE;
    sim->coverage.reservations_again++;
    if (decision->granted != expected && sim->plan.splits == 0 && !worker->overtaken)
        sim_fail(sim, "SIMRESERVE-3: settled by %llu, and again by %llu of key reserve-%u-%u",
                 (unsigned long long)expected, (unsigned long long)decision->granted, play.name,
                 key_of(worker));
    if (decision->granted != expected) { /* it was another one's first */
        play.settled[key_of(worker)] += decision->granted;
        play.loose[key_of(worker)] += decision->granted;
    }
}

static void answered(struct sim *sim, struct worker *worker, const struct wire_decision *decision)
{
    const bool undecided = decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY;
    if (undecided && worker->state != RESERVING) {
        worker->resend_ns = sim->now_ns + 4 * PACE_MS * SIM_MS; /* the same question again */
        return;
    }
    switch (worker->state) {
    case RESERVING:
        reserved(sim, worker, decision); /* undecided, it may be held, and nobody knows */
        break;
    case COMMITTING:
    case CANCELLING:
        settle(sim, worker, decision);
        break;
    case AGAIN:
        told_again(sim, worker, decision);
        break;
    case LOOKING:
        worker->state = IDLE;
        play.charged[key_of(worker)] = decision->used;
        break;
    default:
        break; /* an answer to what was asked twice */
    }
}

/* The moment at which a commit is told is the worst one for its decider to die: before anything
 * else is sent than the answer, if nobody knows yet what was charged. */
bool reserve_ends(struct sim *sim, struct node *node, const struct effect *effect)
{
    const struct event event = {.bytes = (uint8_t *)(uintptr_t)effect->bytes,
                                .len = (uint32_t)effect->len};
    struct wire_decision decision;
    char name[SIM_TEXT_LEN];
    if (!play.deadly || effect->target != SIM_CLIENTS_MAX)
        return false;
    const int at = worker_of_reply(&event, SESSION_FIRST, WORKERS);
    if (at < 0 || play.workers[at].state != COMMITTING ||
        !worker_decision(sim, &event, play.workers[at].seq, &decision) || !decision.allowed ||
        decision.degraded)
        return false;
    const int len = snprintf(name, sizeof name, "n%u", node->index);
    if (decision.source->node.len != (size_t)len ||
        memcmp(decision.source->node.data, name, (size_t)len) != 0)
        return false;
    play.deadly = false;
    sim->coverage.reservations_deadly++;
    return true;
}

bool reserve_reply(struct sim *sim, const struct event *event)
{
    struct wire_decision decision;
    const int at = worker_of_reply(event, SESSION_FIRST, WORKERS);
    if (at < 0)
        return false;
    struct worker *worker = &play.workers[at];
    if (worker_decision(sim, event, worker->seq, &decision))
        answered(sim, worker, &decision);
    return true;
}

/* ---- what workers do ------------------------------------------------------------------------- */

static void act_held(struct sim *sim, struct worker *worker)
{
    const bool over = sim->now_ns >= worker->until_ns + 2 * CLOCKS_MS * SIM_MS;
    const bool late = over && chance(sim, LATE_PPM);
    if ((over && !late) || chance(sim, LEAVE_PPM)) {
        worker->state = IDLE; /* nobody hears of it any more */
        sim->coverage.reservations_expired += over;
    } else if (late || play.leaving || chance(sim, SETTLE_PPM)) {
        const bool cancels = !late && chance(sim, CANCEL_PPM);
        begin_message(sim, worker, cancels ? CANCELLING : COMMITTING,
                      cancels ? OPERATION_CANCEL : OPERATION_COMMIT, worker->hold,
                      cancels ? 0 : 1 + random_below(stream(sim), worker->held));
    }
}

static void act_done(struct sim *sim, struct worker *worker)
{
    if (!chance(sim, AGAIN_PPM)) {
        worker->state = IDLE;
        return;
    }
    const bool cancels = random_below(stream(sim), 4) == 0;
    begin_message(sim, worker, AGAIN, cancels ? OPERATION_CANCEL : OPERATION_COMMIT, worker->hold,
                  cancels ? 0 : 1 + random_below(stream(sim), COST_MAX));
}

static void act(struct sim *sim, struct worker *worker)
{
    const bool waits = worker->state != IDLE && worker->state != HELD && worker->state != DONE;
    if (waits && sim->now_ns >= worker->resend_ns)
        send(sim, worker);
    if (worker->state == HELD)
        act_held(sim, worker);
    else if (worker->state == DONE)
        act_done(sim, worker);
    if (worker->state == IDLE && play.asking && chance(sim, ASK_PPM))
        begin_message(sim, worker, RESERVING, OPERATION_RESERVE,
                      1 + random_below(stream(sim), COST_MAX), TTL_MS);
}

static void act_all(struct sim *sim)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        act(sim, &play.workers[i]);
    phase_wait(sim, PACE_MS);
}

static bool all_idle(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (play.workers[i].state != IDLE)
            return false;
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool begin(struct sim *sim)
{
    memset(&play, 0, sizeof play);
    play.name = sim->key_count + (uint32_t)(sim->now_ns / SIM_MS); /* another one each time */
    for (uint32_t i = 0; i < WORKERS; i++)
        play.workers[i].seq = (uint64_t)sim->now_ns; /* sessions go on from phase to phase */
    play.asking = true;
    sim->net.deaf_ppm = (uint32_t)random_below(stream(sim), DEAF_MAX_PPM);
    return true;
}

static bool go_on(struct sim *sim)
{
    if (phase_first(sim))
        play.until_ns = sim->now_ns + PLAY_MS * SIM_MS;
    act_all(sim);
    return sim->now_ns >= play.until_ns;
}

static void cut_off_a_side(struct sim *sim)
{
    const uint32_t side = 1 + (uint32_t)random_below(stream(sim), (1u << sim->node_count) - 2);
    if (!options_fault(&sim->options, FAULT_CUT))
        return;
    net_cut(sim, side, false, random_below(stream(sim), 2) == 0);
    sim->coverage.splits++;
    sim->plan.splits++;
}

static void lose_a_node(struct sim *sim)
{
    struct node *node = node_some_up(sim);
    if (random_below(stream(sim), 3) == 0)
        node_stop(sim, node);
    else
        faults_crash(sim, node);
}

/* A node gives all its vnodes away, reservations and all, or another one joins and is given some.
 */
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
    if (!phase_first(sim)) { /* it waits for a commit to be told */
        act_all(sim);
        return !play.deadly || sim->now_ns >= play.until_ns;
    }
    const uint64_t dice = random_below(stream(sim), 8);
    play.wrong = dice < 7;
    play.until_ns = sim->now_ns + PLAY_MS * SIM_MS;
    sim_tell(sim, 1, "reserve goes wrong by %llu", (unsigned long long)dice);
    if (dice == 0)
        cut_off_a_side(sim);
    else if (dice <= 3)
        lose_a_node(sim);
    else if (dice == 4)
        move_vnodes(sim);
    else if (dice < 7)
        play.deadly = true;
    return !play.deadly;
}

static bool mend(struct sim *sim)
{
    if (phase_first(sim)) {
        net_heal(sim);
        play.deadly = false;
        sim->net.deaf_ppm = 0;
    }
    act_all(sim);
    return step_back(sim);
}

/* Everybody settles what it holds, and what is left has its time to end. */
static bool leave(struct sim *sim)
{
    if (phase_first(sim)) {
        play.asking = false;
        play.leaving = true;
    }
    act_all(sim);
    if (!all_idle())
        return phase_not_yet(sim, "somebody holds tokens");
    phase_wait(sim, OVER_MS);
    return true;
}

static bool look(struct sim *sim)
{
    for (uint32_t key = 0; phase_first(sim) && key < KEYS; key++)
        begin_message(sim, &play.workers[key], LOOKING, OPERATION_PEEK, 0, 0);
    act_all(sim);
    return all_idle() || phase_not_yet(sim, "a key could not be looked at");
}

/* SIMRESERVE-2 */
static bool judge(struct sim *sim)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        const uint64_t settled = play.settled[key];
        const uint64_t charged = play.charged[key];
        const bool apart = sim->plan.splits > 0 && !is_safe(sim, key);
        sim_tell(sim, 1, "key %u: %llu settled, %llu charged", key, (unsigned long long)settled,
                 (unsigned long long)charged);
        const uint64_t least = settled > play.loose[key] ? settled - play.loose[key] : 0;
        if ((!apart && charged < least) || (!apart && charged > settled + play.doubts[key]))
            sim_fail(sim, "SIMRESERVE-2: %llu settled of key reserve-%u-%u, and %llu charged",
                     (unsigned long long)settled, play.name, key, (unsigned long long)charged);
    }
    return true;
}

const struct phase_step phase_reserve[] = {
    {"begin", begin},    {"play", go_on},       {"wrong", go_wrong}, {"on", go_on},
    {"mend", mend},      {"leave", leave},      {"look", look},      {"judge", judge},
    {"rest", step_rest}, {"equal", step_equal}, {NULL, NULL},
};

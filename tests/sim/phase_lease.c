/* phase_lease.c - workers that hold leases: concurrency limits while leaders change.
 *
 *   lease   workers take leases, renew and release them, or leave     SIMLEASE-1 always, SIMLEASE-2
 *           them to end by themselves; answers are lost; a node       while no leader changed,
 *           dies, or a side is cut off, or nothing happens; then      SIMLEASE-3 and SIMLEASE-4
 *           all is well again                                         at rest
 *
 *              answer            release sent
 *   IDLE --> ASKING --> HOLDING --> RELEASING --> IDLE      a lease is held for sure from its
 *     ^                 |     ^                             answer until its release is sent, or
 *     |     its end     |     | answer                      its time may be over by any clock
 *     +---- LEFT <------+---> RENEWING
 *
 * SIMLEASE-1  Of each key no more leases are held for sure than its limit; for each side of a split
 *             that many, and beside that what nobody had confirmed of a node that died.
 * SIMLEASE-2  A lease that is held for sure is released once and may be renewed, whoever is asked.
 * SIMLEASE-3  When all have been released, or have had the time to end, all places are free, but
 *             those of questions that were asked again while leaders changed, and what a dead node
 *             had released.
 * SIMLEASE-4  What is free can be taken: of more who ask than there are places, so many get one.
 *
 * A worker is a session of its own with one message under way, which is sent again, to any node,
 * until it is decided. The answers come in at a client's place that is nobody's.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/dedup/retry.h"
#include "tests/sim/phase.h"

enum state { IDLE, ASKING, HOLDING, RENEWING, RELEASING, LEFT, LOOKING };

enum {
    SESSION_FIRST = 16,
    PACE_MS = 5,
    PLAY_MS = 1200,
    DEAF_MAX_PPM = 100000,
    TIMEOUT_MS = 250,
    FRAME_MAX = 1 << 12,
    /* By how much two nodes' clocks may differ, and as much again. */
    SLACK_MS = 4 * SIM_OFFSET_MAX_MS,
    LATE_MS = 500, /* and a message that is still under way */
    /* In parts of a million, each time that workers are looked at. */
    ASK_PPM = 60000,
    RELEASE_PPM = 15000,
    RENEW_PPM = 10000,
    LEAVE_PPM = 4000,
};

static bool is_brief(uint32_t key)
{
    return key % 2 == 1;
}

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_LENT);
}

static bool chance(struct sim *sim, uint32_t ppm)
{
    return sim_chance(sim, STREAM_LENT, ppm);
}

static uint32_t number_of(const struct sim *sim, const struct lease_worker *worker)
{
    return (uint32_t)(worker - sim->leases.workers);
}

static uint32_t vnode_of(const struct sim *sim, uint32_t key)
{
    return sim->keys[sim->leases.keys.first + key].vnode;
}

/* Whether one who decided on the key in this phase may not know what another was told. */
static bool changed(const struct sim *sim, uint32_t key)
{
    return sim->openings[vnode_of(sim, key)] > 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Sends the worker's message, for the first time or again. */
static void send(struct sim *sim, struct lease_worker *worker)
{
    static uint8_t frame[FRAME_MAX];
    static const struct wire_text names[] = {{"api", 3}, {"guest", 5}};
    const struct key *key = &sim->keys[sim->leases.keys.first + worker->key];
    const struct wire_text values[] = {wire_text_of(is_brief(worker->key) ? "/brief" : "/flight"),
                                       wire_text_of(key->text)};
    const uint8_t at = (uint8_t)random_below(stream(sim), sim->node_count);
    const uint64_t cost = wire_names_lease(worker->operation) ? worker->lease
                          : worker->state == LOOKING          ? 0
                                                              : 1;
    wire_checks_builder_reset(&sim->builder);
    const int template = wire_checks_builder_attributes(&sim->builder, names, 2);
    ASSERT(template >= 0);
    const int added = wire_checks_builder_append(&sim->builder, (uint32_t) template,
                                                 worker->operation, cost, values, 2);
    ASSERT(added >= 0);
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

static void begin_message(struct sim *sim, struct lease_worker *worker, enum state state,
                          enum operation operation)
{
    worker->state = (uint8_t)state;
    worker->operation = (uint8_t)operation;
    worker->seq++;
    worker->tries = 0;
    worker->asked_ns = sim->now_ns;
    send(sim, worker);
}

/* ---- what is held ---------------------------------------------------------------------------- */

static bool holds(const struct sim *sim, const struct lease_worker *worker)
{
    return (worker->state == HOLDING || worker->state == RENEWING || worker->state == LEFT) &&
           sim->now_ns < worker->until_ns;
}

static uint64_t held(const struct sim *sim, uint32_t key)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LEASE_WORKERS; i++)
        sum += sim->leases.workers[i].key == key && holds(sim, &sim->leases.workers[i]);
    return sum;
}

static void judge_held(struct sim *sim)
{
    uint64_t excess = 0;
    for (uint32_t key = 0; key < LEASE_KEYS; key++) {
        const uint64_t limit = LEASE_LIMIT * (changed(sim, key) ? 1 + sim->plan.splits : 1);
        excess += held(sim, key) > limit ? held(sim, key) - limit : 0;
    }
    if (excess > sim->plan.bound)
        sim_fail(sim, "SIMLEASE-1: %llu leases too many are held, %llu were unconfirmed",
                 (unsigned long long)excess, (unsigned long long)sim->plan.bound);
}

/* From its question on the lease lasts so long at least. */
static int64_t sure_until_ns(const struct sim *sim, const struct lease_worker *worker)
{
    if (!is_brief(worker->key))
        return SIM_NEVER;
    return sim->stepped ? sim->now_ns : worker->asked_ns + (KEYS_BRIEF_MS - SLACK_MS) * SIM_MS;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* All of them are remembered: RETRY-1 and RETRY-3. */
static bool recalled(const struct sim *sim, const struct lease_worker *worker)
{
    return worker->tries <= RETRY_ATTEMPTS_MAX &&
           sim->now_ns - worker->asked_ns < RETRY_KEEP_NS - SIM_SEC / 10;
}

static void answered_ask(struct sim *sim, struct lease_worker *worker,
                         const struct wire_decision *decision)
{
    /* A split keeps frames: the first copy of a question may be decided long after the second. */
    const bool overtaken =
        worker->tries > 1 && sim->plan.splits > 0 && worker->asked_ns < sim->leases.mended_ns;
    sim->leases.repeated[worker->key] += worker->tries > 1;
    sim->leases.doubts[worker->key] += overtaken || !recalled(sim, worker);
    worker->state = decision->allowed ? HOLDING : IDLE;
    worker->lease = decision->lease;
    worker->until_ns = sure_until_ns(sim, worker);
    sim->coverage.leases += decision->allowed;
    if (decision->allowed && decision->lease == 0)
        sim_fail(sim, "a lease of %s has no name", sim->keys[sim->leases.keys.first].text);
    judge_held(sim);
}

static void answered_renewal(struct sim *sim, struct lease_worker *worker,
                             const struct wire_decision *decision)
{
    const bool was_sure = !is_brief(worker->key);
    if (was_sure && !decision->allowed && !changed(sim, worker->key))
        sim_fail(sim, "SIMLEASE-2: worker %u cannot renew the lease that it holds",
                 number_of(sim, worker));
    sim->leases.doubts[worker->key] += !decision->allowed; /* another may know of it */
    worker->state = decision->allowed ? HOLDING : IDLE;
    worker->until_ns = sure_until_ns(sim, worker);
    sim->coverage.leases_renewed += decision->allowed;
    judge_held(sim);
}

static void answered_release(struct sim *sim, struct lease_worker *worker,
                             const struct wire_decision *decision)
{
    if (!is_brief(worker->key) && decision->granted != 1 && !changed(sim, worker->key) &&
        recalled(sim, worker))
        sim_fail(sim, "SIMLEASE-2: worker %u frees %llu places by its release",
                 number_of(sim, worker), (unsigned long long)decision->granted);
    /* The other side of a split may know of it still. */
    sim->leases.doubts[worker->key] +=
        decision->granted == 0 ||
        (changed(sim, worker->key) && worker->asked_ns < sim->leases.mended_ns);
    worker->state = IDLE;
    sim->coverage.leases_released += decision->granted;
}

static void answered(struct sim *sim, struct lease_worker *worker,
                     const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY) {
        worker->resend_ns = sim->now_ns + 4 * PACE_MS * SIM_MS; /* the same question again */
        return;
    }
    switch (worker->state) {
    case ASKING:
        answered_ask(sim, worker, decision);
        break;
    case RENEWING:
        answered_renewal(sim, worker, decision);
        break;
    case RELEASING:
        answered_release(sim, worker, decision);
        break;
    case LOOKING:
        sim->leases.free[worker->key] = decision->remaining;
        sim->leases.looked[worker->key] = true;
        worker->state = IDLE;
        break;
    default:
        break; /* an answer to what was asked twice */
    }
}

bool lease_reply(struct sim *sim, const struct event *event)
{
    struct wire_decision decision;
    const int at = worker_of_reply(event, SESSION_FIRST, LEASE_WORKERS);
    if (at < 0)
        return false;
    struct lease_worker *worker = &sim->leases.workers[at];
    if (worker_decision(sim, event, worker->seq, &decision))
        answered(sim, worker, &decision);
    return true;
}

/* ---- what workers do ------------------------------------------------------------------------- */

static void act_holding(struct sim *sim, struct lease_worker *worker)
{
    const bool leaving = sim->leases.leaving;
    if (leaving || chance(sim, RELEASE_PPM)) {
        begin_message(sim, worker, RELEASING, OPERATION_RELEASE);
    } else if (chance(sim, RENEW_PPM)) {
        begin_message(sim, worker, RENEWING, OPERATION_RENEW);
    } else if (is_brief(worker->key) && chance(sim, LEAVE_PPM)) {
        worker->state = LEFT;
        sim->coverage.leases_left++;
    }
}

static void act(struct sim *sim, struct lease_worker *worker)
{
    switch (worker->state) {
    case IDLE:
        if (sim->leases.asking && chance(sim, ASK_PPM))
            begin_message(sim, worker, ASKING,
                          chance(sim, 500000) ? OPERATION_LEASE : OPERATION_CHECK);
        break;
    case HOLDING:
        act_holding(sim, worker);
        break;
    case LEFT:
        if (sim->now_ns >= worker->until_ns)
            worker->state = IDLE;
        break;
    default: /* it waits */
        if (sim->now_ns >= worker->resend_ns)
            send(sim, worker);
        break;
    }
}

static void act_all(struct sim *sim)
{
    for (uint32_t i = 0; i < LEASE_WORKERS; i++)
        act(sim, &sim->leases.workers[i]);
    judge_held(sim);
    phase_wait(sim, PACE_MS);
}

static bool all_in(const struct sim *sim, enum state state)
{
    for (uint32_t i = 0; i < LEASE_WORKERS; i++)
        if (sim->leases.workers[i].state != state)
            return false;
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool begin(struct sim *sim)
{
    struct leases_held *leases = &sim->leases;
    uint64_t seqs[LEASE_WORKERS]; /* sessions go on from phase to phase */
    for (uint32_t i = 0; i < LEASE_WORKERS; i++)
        seqs[i] = leases->workers[i].seq;
    memset(leases, 0, sizeof *leases);
    leases->keys = keys_flight(sim, sim_phase(sim));
    for (uint32_t i = 0; i < LEASE_WORKERS; i++)
        leases->workers[i] = (struct lease_worker){.key = i % LEASE_KEYS, .seq = seqs[i]};
    leases->asking = true;
    leases->mended_ns = SIM_NEVER;
    sim->net.deaf_ppm = (uint32_t)random_below(stream(sim), DEAF_MAX_PPM);
    return true;
}

static bool play(struct sim *sim)
{
    if (phase_first(sim))
        sim->leases.until_ns = sim->now_ns + PLAY_MS * SIM_MS;
    act_all(sim);
    return sim->now_ns >= sim->leases.until_ns;
}

static bool go_wrong(struct sim *sim)
{
    const uint64_t dice = random_below(stream(sim), 3);
    if (dice == 0) {
        struct node *node = node_some_up(sim);
        sim->plan.bound += node_unconfirmed(node);
        faults_crash(sim, node);
    } else if (dice == 1 && options_fault(&sim->options, FAULT_CUT)) {
        const uint32_t side = 1 + (uint32_t)random_below(stream(sim), (1u << sim->node_count) - 2);
        sim_tell(sim, 1, "cut %02x off", side);
        for (uint32_t i = 0; i < sim->node_count; i++)
            sim->leases.unconfirmed += node_unconfirmed(&sim->nodes[i]);
        net_cut(sim, side, false, random_below(stream(sim), 2) == 0);
        sim->coverage.splits++;
        sim->plan.splits++;
    }
    return true;
}

static bool mend(struct sim *sim)
{
    if (phase_first(sim)) {
        net_heal(sim);
        sim->net.deaf_ppm = 0;
    }
    if (!step_back(sim))
        return false;
    sim->leases.mended_ns = sim->now_ns;
    return true;
}

/* Everybody gives back what it holds, and what was left has its time to end. */
static bool leave(struct sim *sim)
{
    struct leases_held *leases = &sim->leases;
    if (phase_first(sim)) {
        leases->asking = false;
        leases->leaving = true;
    }
    act_all(sim);
    if (!all_in(sim, IDLE))
        return phase_not_yet(sim, "somebody has a lease");
    phase_wait(sim, KEYS_BRIEF_MS + LATE_MS);
    return true;
}

static bool look(struct sim *sim)
{
    struct leases_held *leases = &sim->leases;
    for (uint32_t key = 0; phase_first(sim) && key < LEASE_KEYS; key++) {
        leases->looked[key] = false;
        begin_message(sim, &leases->workers[key], LOOKING, OPERATION_PEEK);
    }
    act_all(sim);
    return all_in(sim, IDLE) || phase_not_yet(sim, "a key could not be looked at");
}

static bool judge(struct sim *sim)
{
    const struct leases_held *leases = &sim->leases;
    for (uint32_t key = 0; key < LEASE_KEYS; key++) {
        const uint64_t taken = LEASE_LIMIT - leases->free[key];
        const uint64_t doubts =
            leases->doubts[key] +
            (changed(sim, key) ? leases->repeated[key] + leases->unconfirmed + sim->plan.bound : 0);
        sim_tell(sim, 1, "key %u: %llu taken, %llu in doubt, %u terms", key,
                 (unsigned long long)taken, (unsigned long long)doubts,
                 sim->openings[vnode_of(sim, key)]);
        if (taken > (is_brief(key) && !sim->stepped ? 0 : doubts))
            sim_fail(
                sim,
                "SIMLEASE-3: nobody has a lease of key %u (vnode %u); taken %llu, in doubt %llu",
                key, vnode_of(sim, key), (unsigned long long)taken, (unsigned long long)doubts);
    }
    return true;
}

/* Leases that this step was given may have ended already. */
static bool soon_over(const struct sim *sim, uint32_t key)
{
    return is_brief(key) && (sim->stepped || sim->now_ns - sim->plan.entered_ns > LATE_MS * SIM_MS);
}

/* One question of each: those who get a lease keep it. */
static bool again(struct sim *sim)
{
    bool waits = false;
    for (uint32_t i = 0; i < LEASE_WORKERS; i++) {
        struct lease_worker *worker = &sim->leases.workers[i];
        if (phase_first(sim))
            begin_message(sim, worker, ASKING, OPERATION_CHECK);
        else if (worker->state == ASKING)
            act(sim, worker);
        waits = waits || worker->state == ASKING;
    }
    phase_wait(sim, PACE_MS);
    if (waits)
        return phase_not_yet(sim, "somebody waits for a lease");
    for (uint32_t key = 0; key < LEASE_KEYS; key++)
        if (held(sim, key) < sim->leases.free[key] && !soon_over(sim, key))
            sim_fail(sim, "SIMLEASE-4: of %llu free places of key %u (vnode %u) %llu can be taken",
                     (unsigned long long)sim->leases.free[key], key, vnode_of(sim, key),
                     (unsigned long long)held(sim, key));
    return true;
}

const struct phase_step phase_lease[] = {
    {"begin", begin},    {"play", play},        {"wrong", go_wrong}, {"on", play},
    {"mend", mend},      {"leave", leave},      {"look", look},      {"judge", judge},
    {"again", again},    {"leave", leave},      {"look", look},      {"judge", judge},
    {"rest", step_rest}, {"equal", step_equal}, {NULL, NULL},
};

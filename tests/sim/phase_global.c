/* phase_global.c - one limit in several regions, while regions, nodes, rules and what lies between
 * them fail or change.
 *
 *   clocks   those of a region that is still to be founded may be off
 *   found    the other regions are founded, if they are not yet
 *   play     workers in all regions ask for keys whose home is here or there (REMOTE-5), as much as
 *            the drawn pace wants; some keys are not asked for in one of the regions
 *   wrong    regions are cut off, one way or both, or far apart; one is lost wholly and comes back;
 *            a node dies, stops in order or stands still, in a home or where tokens are held;
 *            messages of workers and about checks are lost; limits get other numbers, or another
 *            home; a node's clock is stepped; or nothing goes wrong. Twice.
 *   new      where rules have changed they are played by alone
 *   leave    nobody asks, until all leases are over
 *   look     what is charged is asked for
 *   rest     what is left of each limit of a day is asked for
 *
 * SIMGLOBAL-1 to SIMGLOBAL-4, SIMGLOBAL-7 and SIMGLOBAL-8; and
 *
 * SIMGLOBAL-5  When all leases are over nobody holds anything, and what was admitted is charged. If
 *              nothing has gone wrong, no more than that is: what was not used has come back, and
 *              what a share decided was charged to nothing else (REMOTE-7).
 * SIMGLOBAL-6  What is left of a limit then is admitted, 95 % of it and more, in whichever region
 *              it is asked for: by its home, for what a share decides is not taken from it.
 *
 * A worker is a session of its own with one message under way, as in phase_hold.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/policy/model/policy.h"
#include "tests/sim/global.h"
#include "tests/sim/phase.h"

enum state { IDLE, ASKING, LOOKING };

enum {
    SESSION_FIRST = 256,
    PACE_MS = 5,
    PLAY_MIN_MS = 400,
    PLAY_MAX_MS = 1600,
    PLAY_NEW_MS = 800,
    OVER_MS = 1400, /* until any lease is over, by any clock */
    TIMEOUT_MS = 400,
    GIVE_UP_MS = 1500, /* less than nodes remember what they answered */
    FRAME_MAX = 1 << 12,
    EAGER_PPM = 300000,
    LARGE_PPM = 200000, /* ask for more than one token */
    AT_MOST_PPM = 300000,
    DEAF_PPM = 50000,
    MUTE_MAX_PPM = 100000,
    REST_MAX_MS = 15000,
    REST_PERCENT = 95,
    ONE_REGION_IN = 4, /* keys that one region alone asks for: each way */
};

/* How many workers of a million ask, each time that they are looked at. */
static const uint32_t paces[] = {3000, 10000, 10000, 30000, 100000};

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_GLOBAL);
}

static bool chance(struct sim *sim, uint32_t ppm)
{
    return sim_chance(sim, STREAM_GLOBAL, ppm);
}

/* ---- messages -------------------------------------------------------------------------------- */

static uint8_t some_node(struct sim *sim, uint32_t region)
{
    const uint32_t first = region_first(sim, region);
    return (uint8_t)(first + random_below(stream(sim), region_first(sim, region + 1) - first));
}

/* Sends the worker's message, for the first time or again. */
static void send(struct sim *sim, struct global_worker *worker)
{
    static uint8_t frame[FRAME_MAX];
    char text[SIM_TEXT_LEN];
    char api[SIM_TEXT_LEN];
    const uint8_t at = some_node(sim, worker->region);
    global_text(sim, worker->key, text);
    snprintf(api, sizeof api, "/%s", global_api(worker->key));
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of("guest")};
    const struct wire_text values[] = {wire_text_of(api), wire_text_of(text)};
    wire_checks_builder_reset(&sim->builder);
    const int template = wire_checks_builder_attributes(&sim->builder, names, 2);
    ASSERT(template >= 0);
    const int added = wire_checks_builder_append(&sim->builder, (uint32_t) template,
                                                 worker->operation, worker->cost, values, 2);
    ASSERT(added >= 0);
    const int len = wire_checks_builder_encode(
        &sim->builder, SESSION_FIRST + (uint64_t)(worker - sim->global.workers), worker->seq,
        worker->tries > 0 ? WIRE_FLAG_RETRY : 0, TIMEOUT_MS, frame, sizeof frame);
    ASSERT(len > 0);
    worker->tries++;
    worker->resend_ns = sim->now_ns + TIMEOUT_MS * SIM_MS;
    if (sim->nodes[at].up)
        net_ask(sim, SIM_CLIENTS_MAX, at,
                (uint8_t)random_below(stream(sim), sim->nodes[at].shard_count), frame, (size_t)len);
}

static void begin_message(struct sim *sim, struct global_worker *worker, enum state state,
                          unsigned operation, uint64_t cost)
{
    worker->state = (uint8_t)state;
    worker->operation = (uint8_t)operation;
    worker->cost = cost;
    worker->seq++;
    worker->tries = 0;
    worker->asked_ns = sim->now_ns;
    send(sim, worker);
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool is_pair(uint32_t number)
{
    return number >= GLOBAL_PAIR;
}

/* The keys that the worker's requests count on: [first, end). */
static uint32_t first_key(const struct global_worker *worker)
{
    return is_pair(worker->key) ? GLOBAL_PAIR : worker->key;
}

static uint32_t end_key(const struct global_worker *worker)
{
    return is_pair(worker->key) ? GLOBAL_PAIR + 2 : worker->key + 1;
}

/* Of a rule that is closed it is the leader who says that it has no majority behind it. */
static bool is_guess(const struct global_worker *worker, const struct wire_decision *decision)
{
    return decision->degraded && (worker->key == GLOBAL_SHARE || worker->key == GLOBAL_AJAR);
}

static void note_unsure(struct sim *sim, const struct global_worker *worker)
{
    for (uint32_t i = first_key(worker); i < end_key(worker); i++)
        sim->global.keys[i].unsure += worker->cost;
}

static void admit(struct sim *sim, const struct global_worker *worker,
                  const struct wire_decision *decision)
{
    const bool counted = !is_guess(worker, decision);
    for (uint32_t i = first_key(worker); counted && i < end_key(worker); i++)
        check_global_admitted(sim, i, decision->granted, worker->asked_ns, sim->now_ns);
    sim->coverage.global_both += is_pair(worker->key);
    if (counted)
        return;
    sim->global.keys[worker->key].degraded[worker->region] += decision->granted;
    sim->coverage.global_open += worker->key == GLOBAL_AJAR;
}

static void answered(struct sim *sim, struct global_worker *worker,
                     const struct wire_decision *decision)
{
    if (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY) {
        worker->resend_ns = sim->now_ns + 4 * PACE_MS * SIM_MS; /* the same question again */
        return;
    }
    if (worker->state == LOOKING)
        sim->global.keys[worker->key].told = decision->used;
    else if (decision->allowed)
        admit(sim, worker, decision);
    if (worker->state == ASKING && is_guess(worker, decision) && worker->tries > 1)
        note_unsure(sim, worker); /* the other attempt may have been charged */
    worker->state = IDLE;
}

bool global_reply(struct sim *sim, const struct event *event)
{
    struct wire_decision decision;
    const int at = worker_of_reply(event, SESSION_FIRST, GLOBAL_WORKERS);
    if (at < 0)
        return false;
    struct global_worker *worker = &sim->global.workers[at];
    if (worker->state != IDLE && worker_decision(sim, event, worker->seq, &decision))
        answered(sim, worker, &decision);
    return true;
}

/* ---- what workers do ------------------------------------------------------------------------- */

/* What was admitted of the key, and what may have been charged beside. What was admitted by a share
 * is not among it. */
static uint64_t used_of(const struct global_key *key)
{
    return key->admitted + key->unsure;
}

static bool asks(const struct sim *sim, const struct global_worker *worker)
{
    const struct global_key *key = &sim->global.keys[worker->key];
    if (sim->global.eager && (worker->key >= GLOBAL_DAYS || used_of(key) >= key->wanted))
        return false; /* it has enough */
    return (key->silent & 1u << worker->region) == 0;
}

static void ask_some(struct sim *sim, struct global_worker *worker)
{
    const bool eager = sim->global.eager;
    const bool large = eager || chance(sim, LARGE_PPM);
    const bool at_most = eager || (large && chance(sim, AT_MOST_PPM) && !is_pair(worker->key));
    begin_message(sim, worker, ASKING, OPERATION_CHECK | (at_most ? WIRE_AT_MOST : 0),
                  large ? 1 + random_below(stream(sim), GLOBAL_COST_MAX) : 1);
}

static void act(struct sim *sim, struct global_worker *worker)
{
    struct global *global = &sim->global;
    const bool late = sim->now_ns - worker->asked_ns >= GIVE_UP_MS * SIM_MS;
    if (worker->state == ASKING && late) {
        note_unsure(sim, worker);
        worker->state = IDLE;
    }
    if (worker->state != IDLE && sim->now_ns >= worker->resend_ns)
        send(sim, worker);
    if (worker->state == IDLE && global->asking && asks(sim, worker) &&
        chance(sim, global->eager ? EAGER_PPM : global->ask_ppm))
        ask_some(sim, worker);
}

static void act_all(struct sim *sim)
{
    for (uint32_t i = 0; i < GLOBAL_WORKERS; i++)
        act(sim, &sim->global.workers[i]);
    check_global_time(sim);
    phase_wait(sim, PACE_MS);
}

static bool all_idle(const struct sim *sim)
{
    for (uint32_t i = 0; i < GLOBAL_WORKERS; i++)
        if (sim->global.workers[i].state != IDLE)
            return false;
    return true;
}

/* ---- the world ------------------------------------------------------------------------------- */

/* Before that keys without a home of their own may get another one (REMOTE-6). */
static bool know_regions(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].member && sim->nodes[i].view->regions.count != sim->options.regions)
            return phase_not_yet(sim, "a node does not know that all regions have a ring");
    return true;
}

/* Some keys are not asked for in one of the regions. */
static uint32_t draw_silent(struct sim *sim)
{
    const uint64_t region = random_below(stream(sim), ONE_REGION_IN);
    return region < sim->options.regions ? 1u << region : 0;
}

/* How long it takes until any lease is over, by any clock. */
static int64_t over_ms(const struct sim *sim)
{
    return OVER_MS + (sim->clocks_ns < 0 ? -sim->clocks_ns : sim->clocks_ns) / SIM_MS;
}

static bool begin(struct sim *sim)
{
    struct global *global = &sim->global;
    uint64_t seqs[GLOBAL_WORKERS]; /* sessions go on from phase to phase */
    const uint32_t name = global->name + 1;
    for (uint32_t i = 0; i < GLOBAL_WORKERS; i++)
        seqs[i] = global->workers[i].seq;
    memset(global, 0, sizeof *global);
    global->name = name;
    for (uint32_t i = 0; i < GLOBAL_WORKERS; i++)
        global->workers[i] =
            (struct global_worker){.key = i % GLOBAL_KEYS,
                                   .region = (uint8_t)(i / GLOBAL_KEYS % sim->options.regions),
                                   .seq = seqs[i]};
    global_rules_reset(sim);
    global_place(sim);
    check_global_begin(sim);
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++)
        global->keys[i].silent = draw_silent(sim);
    global->ask_ppm = paces[random_below(stream(sim), sizeof paces / sizeof *paces)];
    global->asking = true;
    global->watching = true;
    global->calm = random_below(stream(sim), 8) == 0;
    sim->net.deaf_ppm = global->calm || random_below(stream(sim), 2) == 0 ? 0 : DEAF_PPM;
    sim->net.mute_ppm = global->calm || random_below(stream(sim), 2) == 0
                            ? 0
                            : (uint32_t)random_below(stream(sim), MUTE_MAX_PPM);
    global_move_apart(sim, random_between(stream(sim), 0, 40));
    sim->coverage.global_thirds += sim->options.regions > 2;
    phase_wait(sim, over_ms(sim)); /* leaders grant leases by then */
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool set_clocks(struct sim *sim)
{
    global_clocks(sim);
    return true;
}

static bool go_wrong(struct sim *sim)
{
    if (!sim->global.calm)
        global_faults_act(sim);
    return true;
}

static void spread_rules(struct sim *sim, bool at_once)
{
    if (global_rules_spread(sim, at_once))
        check_global_spread(sim);
}

static bool play(struct sim *sim)
{
    if (phase_first(sim))
        sim->global.until_ns =
            sim->now_ns + random_between(stream(sim), PLAY_MIN_MS, PLAY_MAX_MS) * SIM_MS;
    act_all(sim);
    global_faults_meet(sim);
    spread_rules(sim, false);
    return sim->now_ns >= sim->global.until_ns;
}

static bool mend(struct sim *sim)
{
    if (phase_first(sim)) {
        net_heal(sim);
        sim->net.deaf_ppm = sim->net.mute_ppm = 0;
        sim->global.doom_ns = 0;
        spread_rules(sim, true);
    }
    act_all(sim);
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].member && !sim->nodes[i].up)
            node_start(sim, &sim->nodes[i]);
        else
            sim->nodes[i].disk.full_until_ns = 0;
    return step_regions(sim);
}

/* Where rules have changed, until nothing is left of the old ones, and then for a while. */
static bool play_by_new_rules(struct sim *sim)
{
    if (sim->global.changes == 0)
        return true;
    if (phase_first(sim) || check_global_unsettled(sim))
        sim->global.until_ns = sim->now_ns + PLAY_NEW_MS * SIM_MS;
    act_all(sim);
    return sim->now_ns >= sim->global.until_ns;
}

/* What is out has its time to come back, or to end. */
static bool leave(struct sim *sim)
{
    if (phase_first(sim))
        sim->global.asking = false;
    act_all(sim);
    if (!all_idle(sim))
        return phase_not_yet(sim, "a worker waits for an answer");
    phase_wait(sim, over_ms(sim));
    return true;
}

static bool look(struct sim *sim)
{
    for (uint32_t key = 0; phase_first(sim) && key < GLOBAL_KEYS; key++) {
        if (check_global_out(sim, key) > 0)
            sim_fail(sim, "SIMGLOBAL-5: somebody holds tokens of key %u still", key);
        begin_message(sim, &sim->global.workers[key], LOOKING, OPERATION_PEEK, 0);
    }
    act_all(sim);
    return all_idle(sim) || phase_not_yet(sim, "a key could not be looked at");
}

/* What all homes of the key have counted. */
static uint64_t charged(const struct global_key *key, uint32_t number)
{
    uint64_t sum = is_pair(number) ? 0 : key->told; /* one look tells of one of the two */
    for (uint32_t region = 0; region < SIM_REGIONS_MAX; region++)
        if (key->counts[region].kind == GLOBAL_HOME && (is_pair(number) || region != key->home))
            sum += key->counts[region].sum;
    return sum;
}

static void judge_charged(struct sim *sim, uint32_t number)
{
    const struct global_key *key = &sim->global.keys[number];
    const uint64_t told = charged(key, number);
    const uint64_t lost = check_global_lost(key);
    sim_tell(sim, 1, "key %u: %llu admitted, %llu charged, %llu lost, %llu unsure", number,
             (unsigned long long)key->admitted, (unsigned long long)told, (unsigned long long)lost,
             (unsigned long long)key->unsure);
    if (told + lost < key->admitted)
        sim_fail(sim, "SIMGLOBAL-5: %llu admitted of key %u, and %llu charged, %llu were lost",
                 (unsigned long long)key->admitted, number, (unsigned long long)told,
                 (unsigned long long)lost);
    if (sim->global.calm && !is_pair(number) && told > key->admitted + key->unsure)
        sim_fail(sim, "SIMGLOBAL-5: %llu charged of key %u, %llu admitted, %llu unsure",
                 (unsigned long long)told, number, (unsigned long long)key->admitted,
                 (unsigned long long)key->unsure);
}

static bool judge(struct sim *sim)
{
    for (uint32_t number = 0; number < GLOBAL_KEYS; number++) {
        struct global_key *key = &sim->global.keys[number];
        if (number < GLOBAL_DAYS || is_pair(number))
            judge_charged(sim, number);
        const uint64_t left = sat_subu(key->limit.count, key->told);
        key->wanted = used_of(key) + left * REST_PERCENT / 100;
        if (limit_has_burst(key->limit.algorithm))
            check_global_bucket(sim, number);
    }
    check_global_share(sim);
    return true;
}

/* SIMGLOBAL-6 */
static bool ask_rest(struct sim *sim)
{
    struct global *global = &sim->global;
    if (phase_first(sim)) {
        global->asking = global->eager = true;
        global->until_ns = sim->now_ns + REST_MAX_MS * SIM_MS;
    }
    act_all(sim);
    bool enough = true;
    for (uint32_t number = 0; number < GLOBAL_DAYS; number++) {
        const struct global_key *key = &global->keys[number];
        enough = enough && used_of(key) >= key->wanted;
        if (used_of(key) < key->wanted && sim->now_ns >= global->until_ns)
            sim_fail(sim, "SIMGLOBAL-6: %llu of key %u are used, %llu could be",
                     (unsigned long long)used_of(key), number, (unsigned long long)key->wanted);
    }
    if (!enough)
        return false;
    sim->coverage.global_kept++;
    global->asking = global->eager = false;
    return true;
}

static bool end_all(struct sim *sim)
{
    act_all(sim);
    if (!all_idle(sim))
        return phase_not_yet(sim, "a worker waits for an answer");
    sim->global.watching = false;
    return true;
}

const struct phase_step phase_global[] = {
    {"clocks", set_clocks},
    {"found", step_found},
    {"know", know_regions},
    {"begin", begin},
    {"play", play},
    {"wrong", go_wrong},
    {"on", play},
    {"wrong", go_wrong},
    {"on", play},
    {"mend", mend},
    {"new", play_by_new_rules},
    {"leave", leave},
    {"look", look},
    {"judge", judge},
    {"rest", ask_rest},
    {"end", end_all},
    {"rest", step_regions},
    {"equal", step_equal},
    {NULL, NULL},
};

/* phase_global.c - one limit in two regions, while regions, nodes and what lies between them fail.
 *
 *   found    a second region is founded, if there is none yet
 *   play     workers in both regions ask for keys whose home is here or there (A5 of abroad.c), as
 *            much as the drawn pace wants; some keys are asked for in one of the regions alone
 *   wrong    regions are cut off, one way or both, or far apart; one is lost wholly and comes back;
 *            a node dies, stops in order or stands still, in a home or where tokens are held;
 *            messages of workers and about checks are lost; or nothing goes wrong. Twice.
 *   leave    nobody asks, until all leases are over
 *   look     what is charged is asked for
 *   rest     what is left of each limit of a day is asked for
 *
 * G1 - G4 of check_global.c always; and
 *
 * G5  When all leases are over nobody holds anything, and what was admitted is charged. If nothing
 *     has gone wrong, no more than that is: what was not used has come back.
 * G6  What is left of a limit then is admitted, 95 % of it and more, in whichever region it is
 *     asked for.
 * G7  Where a region that is cut off decides by a share, it admits that much in each at most.
 *
 * A worker is a session of its own with one message under way, as in phase_hold.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/sat.h"
#include "node/policy/policy.h"
#include "tests/sim/phase.h"

enum state { IDLE, ASKING, LOOKING };

enum {
    SESSION_FIRST = 256,
    PACE_MS = 5,
    PLAY_MIN_MS = 400,
    PLAY_MAX_MS = 1600,
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

/* As the rules of keys.c say it. */
static const struct {
    const char *rule;
    const char *home; /* NULL: by hash */
    struct limit limit;
} kinds[GLOBAL_KEYS] = {
#define DAY   .count = GLOBAL_LIMIT, .window_ns = UINT64_C(86400000000000)
#define SHORT .count = GLOBAL_WINDOW_LIMIT, .window_ns = GLOBAL_WINDOW_S * UINT64_C(1000000000)
#define BUCKET                                                                                     \
    .count = GLOBAL_RATE, .window_ns = 1000000000, .burst = GLOBAL_BURST,                          \
    .algorithm = ALGORITHM_TOKEN_BUCKET
    {"log", "r", {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"day", "q", {DAY, .algorithm = ALGORITHM_FIXED_WINDOW}},
    {"slide", NULL, {DAY, .algorithm = ALGORITHM_SLIDING_WINDOW}},
    {"steps", "q", {DAY, .algorithm = ALGORITHM_SLIDING_BUCKETS}},
    {"share", "r", {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"ajar", "q", {DAY, .algorithm = ALGORITHM_SLIDING_LOG}},
    {"turn", "r", {SHORT, .algorithm = ALGORITHM_FIXED_WINDOW}},
    {"turn-q", "q", {SHORT, .algorithm = ALGORITHM_FIXED_WINDOW}},
    {"brook", "r", {BUCKET}},
    {"brook-q", "q", {BUCKET}},
#undef DAY
#undef SHORT
#undef BUCKET
};

/* How many workers of a million ask, each time that they are looked at. */
static const uint32_t paces[] = {3000, 10000, 10000, 30000, 100000};

enum { KEY_SHARE = 4, KEY_AJAR = 5, KEYS_OF_A_DAY = 6 };

static struct random *stream(struct sim *sim)
{
    return sim_stream(sim, STREAM_GLOBAL);
}

static bool chance(struct sim *sim, uint32_t ppm)
{
    return sim_chance(sim, STREAM_GLOBAL, ppm);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void text_of(const struct sim *sim, uint32_t key, char out[SIM_TEXT_LEN])
{
    snprintf(out, SIM_TEXT_LEN, "global-%u-%u", sim->global.name, key);
}

static uint8_t some_node(struct sim *sim, bool abroad)
{
    return (uint8_t)(abroad ? sim->node_count + random_below(stream(sim), SIM_ABROAD)
                            : random_below(stream(sim), sim->node_count));
}

/* Sends the worker's message, for the first time or again. */
static void send(struct sim *sim, struct global_worker *worker)
{
    static uint8_t frame[FRAME_MAX];
    char text[SIM_TEXT_LEN];
    char api[SIM_TEXT_LEN];
    const uint8_t at = some_node(sim, worker->abroad);
    text_of(sim, worker->key, text);
    snprintf(api, sizeof api, "/%s", kinds[worker->key].rule);
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

static void admit(struct sim *sim, const struct global_worker *worker,
                  const struct wire_decision *decision)
{
    struct global_key *key = &sim->global.keys[worker->key];
    /* Of a rule that is closed it is the decider who says that it has no majority behind it. */
    const bool counted =
        !decision->degraded || (worker->key != KEY_SHARE && worker->key != KEY_AJAR);
    if (counted)
        check_global_admitted(sim, worker->key, decision->granted, worker->asked_ns, sim->now_ns);
    else
        key->degraded += decision->granted;
    key->unsure += counted ? 0 : worker->cost; /* it may have been charged all the same */
    sim->coverage.global_open += !counted && worker->key == KEY_AJAR;
}

static void answered(struct sim *sim, struct global_worker *worker,
                     const struct wire_decision *decision)
{
    struct global_key *key = &sim->global.keys[worker->key];
    if (decision->outcome == OUTCOME_ERROR || decision->outcome == OUTCOME_BUSY) {
        worker->resend_ns = sim->now_ns + 4 * PACE_MS * SIM_MS; /* the same question again */
        return;
    }
    if (worker->state == LOOKING)
        key->told = decision->used;
    else if (worker->state == ASKING && decision->allowed)
        admit(sim, worker, decision);
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

/* What was admitted of the key, and what may have been charged beside. */
static uint64_t used_of(const struct global_key *key)
{
    return key->admitted + key->degraded + key->unsure;
}

static bool asks(const struct sim *sim, const struct global_worker *worker)
{
    const struct global_key *key = &sim->global.keys[worker->key];
    if (sim->global.eager && (worker->key >= KEYS_OF_A_DAY || used_of(key) >= key->wanted))
        return false; /* it has enough */
    return worker->abroad ? !key->not_abroad : !key->not_here;
}

static void ask_some(struct sim *sim, struct global_worker *worker)
{
    const bool eager = sim->global.eager;
    const bool large = eager || chance(sim, LARGE_PPM);
    const bool at_most = eager || (large && chance(sim, AT_MOST_PPM));
    begin_message(sim, worker, ASKING, OPERATION_CHECK | (at_most ? WIRE_AT_MOST : 0),
                  large ? 1 + random_below(stream(sim), GLOBAL_COST_MAX) : 1);
}

static void act(struct sim *sim, struct global_worker *worker)
{
    struct global *global = &sim->global;
    const bool late = sim->now_ns - worker->asked_ns >= GIVE_UP_MS * SIM_MS;
    if (worker->state == ASKING && late) {
        global->keys[worker->key].unsure += worker->cost;
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

static void place_key(struct sim *sim, uint32_t number)
{
    struct global_key *key = &sim->global.keys[number];
    const struct node *node = &sim->nodes[sim->node_count]; /* both regions are at rest */
    const char *home = kinds[number].home;
    struct identity identity;
    char text[SIM_TEXT_LEN];
    text_of(sim, number, text);
    const struct identity_value value = {text, strlen(text)};
    const int error =
        identity_rule(&identity, kinds[number].rule, strlen(kinds[number].rule), &value, 1);
    ASSERT(error == 0);
    key->limit = kinds[number].limit;
    key->vnode = identity_vnode(&sim->identity.route_key, &identity, sim->vnodes);
    key->id = identity_slot(&sim->identity.secret, &identity, key->limit.algorithm, 0);
    key->abroad = home != NULL
                      ? home[0] == 'q'
                      : inspect_home(node->shards[0], key->vnode) == policy_region_id("q", 1);
}

/* How far apart the regions are, beside what net.c has drawn. */
static void move_apart(struct sim *sim, int64_t ms)
{
    for (uint32_t here = 0; here < sim->node_count; here++)
        for (uint32_t there = sim->node_count; there < sim->all_count; there++) {
            sim->net.links[here][there].slow_ns = ms * SIM_MS;
            sim->net.links[there][here].slow_ns = ms * SIM_MS;
        }
}

/* Before that keys without a home of their own may get another one (A6 of abroad.c). */
static bool know_regions(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].member && sim->nodes[i].view->regions.count != 2)
            return phase_not_yet(sim, "a node does not know that both regions have a ring");
    return true;
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
        global->workers[i] = (struct global_worker){
            .key = i % GLOBAL_KEYS, .abroad = i / GLOBAL_KEYS % 2 == 1, .seq = seqs[i]};
    for (uint32_t i = 0; i < GLOBAL_KEYS; i++) {
        const uint64_t dice = random_below(stream(sim), ONE_REGION_IN);
        place_key(sim, i);
        global->keys[i].not_here = dice == 0;
        global->keys[i].not_abroad = dice == 1;
    }
    global->ask_ppm = paces[random_below(stream(sim), sizeof paces / sizeof *paces)];
    global->asking = true;
    global->watching = true;
    global->calm = random_below(stream(sim), 8) == 0;
    sim->net.deaf_ppm = global->calm || random_below(stream(sim), 2) == 0 ? 0 : DEAF_PPM;
    sim->net.mute_ppm = global->calm || random_below(stream(sim), 2) == 0
                            ? 0
                            : (uint32_t)random_below(stream(sim), MUTE_MAX_PPM);
    move_apart(sim, random_between(stream(sim), 0, 40));
    phase_wait(sim, OVER_MS); /* deciders grant leases by then */
    return true;
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static uint32_t first_of(const struct sim *sim, bool abroad)
{
    return abroad ? sim->node_count : 0;
}

static uint32_t end_of(const struct sim *sim, bool abroad)
{
    return abroad ? sim->all_count : sim->node_count;
}

/* One of the region that runs, or NULL. */
static struct node *some_up(struct sim *sim, bool abroad)
{
    struct node *found = NULL;
    uint64_t count = 0;
    for (uint32_t i = first_of(sim, abroad); i < end_of(sim, abroad); i++)
        if (sim->nodes[i].up && sim->nodes[i].member && random_below(stream(sim), ++count) == 0)
            found = &sim->nodes[i];
    return found;
}

/* The decider of one of the keys, in its home or where it is held; else one of a region. */
static struct node *some_decider(struct sim *sim)
{
    const struct global_key *key = &sim->global.keys[random_below(stream(sim), GLOBAL_KEYS)];
    const bool abroad = random_below(stream(sim), 3) == 0 ? !key->abroad : key->abroad;
    for (uint32_t i = first_of(sim, abroad); i < end_of(sim, abroad); i++) {
        struct node *node = &sim->nodes[i];
        struct term term;
        const struct shard *shard = node->shards[key->vnode % node->shard_count];
        if (node->up && shard != NULL && shard_vnode(shard, key->vnode, &term) == SHARD_DECIDING)
            return node;
    }
    return some_up(sim, abroad);
}

static void cut_off(struct sim *sim)
{
    const bool one_way = random_below(stream(sim), 3) == 0;
    const bool from_here = random_below(stream(sim), 2) == 0;
    const bool at_once = random_below(stream(sim), 2) == 0;
    if (!options_fault(&sim->options, one_way ? FAULT_ONE_WAY : FAULT_CUT))
        return;
    sim_tell(sim, 1, "the regions do not reach each other%s", one_way ? ", one way" : "");
    net_cut(sim, from_here ? (1u << sim->node_count) - 1 : nodes_abroad(sim), one_way, at_once);
    sim->coverage.global_cuts++;
}

static void rejoin(struct sim *sim)
{
    sim_tell(sim, 1, "the regions reach each other");
    net_heal(sim);
}

static void slow(struct sim *sim)
{
    const int64_t ms = random_between(stream(sim), 50, 400);
    if (!options_fault(&sim->options, FAULT_SLOW))
        return;
    sim_tell(sim, 1, "the regions are %lld ms farther apart", (long long)ms);
    move_apart(sim, ms);
    sim->coverage.slow_links++;
}

static void crash(struct sim *sim)
{
    struct node *node = some_decider(sim);
    if (node == NULL || !options_fault(&sim->options, FAULT_CRASH))
        return;
    faults_crash(sim, node);
    if (random_below(stream(sim), 2) == 0)
        node_start_later(sim, node->index, random_between(stream(sim), 0, 900) * SIM_MS);
}

/* All of a region die, and what was not on a disk is gone. */
static void lose_region(struct sim *sim, bool abroad)
{
    const int64_t most_ms = random_between(stream(sim), 1, 900);
    sim_tell(sim, 1, "the region %s is lost", abroad ? "abroad" : "here");
    sim->coverage.global_lost++;
    for (uint32_t i = first_of(sim, abroad); i < end_of(sim, abroad); i++) {
        struct node *node = &sim->nodes[i];
        node->disk.full_until_ns = 0;
        if (node->up)
            faults_crash(sim, node);
        if (node->member)
            node_start_later(sim, node->index, random_between(stream(sim), 0, most_ms) * SIM_MS);
    }
}

/* Soon; its disks are full until then, most times: so what it grants now is known to nobody who
 * comes back. */
static void doom_region(struct sim *sim)
{
    struct global *global = &sim->global;
    const bool abroad = random_below(stream(sim), 2) == 0;
    const bool full = random_below(stream(sim), 4) != 0;
    const int64_t ms = random_between(stream(sim), 0, 600);
    if (!options_fault(&sim->options, FAULT_CRASH) || global->doom_ns != 0)
        return;
    global->doom_ns = sim->now_ns + ms * SIM_MS;
    global->doom_abroad = abroad;
    for (uint32_t i = first_of(sim, abroad); full && i < end_of(sim, abroad); i++)
        if (options_fault(&sim->options, FAULT_DISK_FULL))
            sim->nodes[i].disk.full_until_ns = global->doom_ns;
}

static void meet_doom(struct sim *sim)
{
    struct global *global = &sim->global;
    if (global->doom_ns == 0 || sim->now_ns < global->doom_ns)
        return;
    global->doom_ns = 0;
    lose_region(sim, global->doom_abroad);
}

/* With what it decides and what it holds. */
static void stop(struct sim *sim)
{
    struct node *node = some_decider(sim);
    if (node == NULL || node->stopping)
        return;
    node_stop(sim, node);
}

/* What it holds may be over when it goes on. */
static void stand_still(struct sim *sim)
{
    struct node *node = some_decider(sim);
    const int64_t ms = random_between(stream(sim), 50, 1500);
    if (node == NULL || !options_fault(&sim->options, FAULT_PAUSE))
        return;
    sim_tell(sim, 1, "n%u pauses for %lld ms", node->index, (long long)ms);
    node->paused_until_ns = sim->now_ns + ms * SIM_MS;
    sim->coverage.pauses++;
}

static bool go_wrong(struct sim *sim)
{
    static void (*const acts[])(struct sim * sim) = {
        cut_off, cut_off,     cut_off,     rejoin,      slow, crash, crash,
        crash,   doom_region, doom_region, doom_region, stop, stop,  stand_still,
    };
    if (sim->global.calm)
        return true;
    const uint64_t count = 1 + random_below(stream(sim), 2);
    for (uint64_t i = 0; i < count; i++)
        acts[random_below(stream(sim), sizeof acts / sizeof *acts)](sim);
    sim->global.faults += (uint32_t)count;
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool play(struct sim *sim)
{
    if (phase_first(sim))
        sim->global.until_ns =
            sim->now_ns + random_between(stream(sim), PLAY_MIN_MS, PLAY_MAX_MS) * SIM_MS;
    act_all(sim);
    meet_doom(sim);
    return sim->now_ns >= sim->global.until_ns;
}

static bool mend(struct sim *sim)
{
    if (phase_first(sim)) {
        net_heal(sim);
        sim->net.deaf_ppm = sim->net.mute_ppm = 0;
        sim->global.doom_ns = 0;
    }
    act_all(sim);
    for (uint32_t i = 0; i < sim->all_count; i++)
        if (sim->nodes[i].member && !sim->nodes[i].up)
            node_start(sim, &sim->nodes[i]);
        else
            sim->nodes[i].disk.full_until_ns = 0;
    return step_regions(sim);
}

/* What is out has its time to come back, or to end. */
static bool leave(struct sim *sim)
{
    if (phase_first(sim))
        sim->global.asking = false;
    act_all(sim);
    if (!all_idle(sim))
        return phase_not_yet(sim, "a worker waits for an answer");
    phase_wait(sim, OVER_MS);
    return true;
}

static bool look(struct sim *sim)
{
    for (uint32_t key = 0; phase_first(sim) && key < GLOBAL_KEYS; key++) {
        if (check_global_out(sim, key) > 0)
            sim_fail(sim, "G5: somebody holds tokens of key %u still", key);
        begin_message(sim, &sim->global.workers[key], LOOKING, OPERATION_PEEK, 0);
    }
    act_all(sim);
    return all_idle(sim) || phase_not_yet(sim, "a key could not be looked at");
}

static void judge_charged(struct sim *sim, uint32_t number)
{
    const struct global_key *key = &sim->global.keys[number];
    sim_tell(sim, 1, "key %u: %llu admitted, %llu degraded, %llu charged, %llu lost", number,
             (unsigned long long)key->admitted, (unsigned long long)key->degraded,
             (unsigned long long)key->told, (unsigned long long)key->forgotten);
    if (key->told + key->forgotten < key->admitted)
        sim_fail(sim, "G5: %llu admitted of key %u, and %llu charged, %llu were lost",
                 (unsigned long long)key->admitted, number, (unsigned long long)key->told,
                 (unsigned long long)key->forgotten);
    if (sim->global.calm && key->told > key->admitted + key->unsure)
        sim_fail(sim, "G5: %llu charged of key %u, %llu admitted, %llu unsure",
                 (unsigned long long)key->told, number, (unsigned long long)key->admitted,
                 (unsigned long long)key->unsure);
}

static bool judge(struct sim *sim)
{
    const uint64_t share = GLOBAL_LIMIT * GLOBAL_SHARE_PERCENT / 100;
    for (uint32_t number = 0; number < GLOBAL_KEYS; number++) {
        struct global_key *key = &sim->global.keys[number];
        if (number < KEYS_OF_A_DAY)
            judge_charged(sim, number);
        const uint64_t left = sat_subu(key->limit.count, key->told);
        key->wanted = used_of(key) + left * REST_PERCENT / 100;
        if (limit_has_burst(key->limit.algorithm))
            check_global_bucket(sim, number);
    }
    if (sim->global.keys[KEY_SHARE].degraded > share * (2 + sim->global.faults))
        sim_fail(sim, "G7: %llu admitted by a share of %llu",
                 (unsigned long long)sim->global.keys[KEY_SHARE].degraded,
                 (unsigned long long)share);
    return true;
}

/* G6 */
static bool ask_rest(struct sim *sim)
{
    struct global *global = &sim->global;
    if (phase_first(sim)) {
        global->asking = global->eager = true;
        global->until_ns = sim->now_ns + REST_MAX_MS * SIM_MS;
    }
    act_all(sim);
    bool enough = true;
    for (uint32_t number = 0; number < KEYS_OF_A_DAY; number++) {
        const struct global_key *key = &global->keys[number];
        enough = enough && used_of(key) >= key->wanted;
        if (used_of(key) < key->wanted && sim->now_ns >= global->until_ns)
            sim_fail(sim, "G6: %llu of key %u are used, %llu could be",
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
    {"found", step_found}, {"know", know_regions}, {"begin", begin},       {"play", play},
    {"wrong", go_wrong},   {"on", play},           {"wrong", go_wrong},    {"on", play},
    {"mend", mend},        {"leave", leave},       {"look", look},         {"judge", judge},
    {"rest", ask_rest},    {"end", end_all},       {"rest", step_regions}, {"equal", step_equal},
    {NULL, NULL},
};

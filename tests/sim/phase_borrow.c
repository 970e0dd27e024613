/* phase_borrow.c - elastic limits: what is borrowed of a pool while leaders and its owner die.
 *
 *   borrow   more is asked for than a pool can spare; its owner or    SIMBORROW-1, SIMBORROW-3
 *            another node dies, or is cut off; then all is well       always; SIMBORROW-2 when the
 *            again, and guaranteed traffic fills the pool             pool is full
 *
 * SIMBORROW-1  In no second more is borrowed than the pool's rate, what may be saved up of it and,
 *              for a leader may still lend by its last level while another has the next one, that
 *              much again; a rate for each side of a split.
 * SIMBORROW-2  When guaranteed traffic has filled the pool for a second, nothing is borrowed any
 *              more.
 * SIMBORROW-3  What is inside its limit is not denied.
 *
 * The messages are sent by nobody in particular and not repeated; only their answers are looked at.
 * Borrowing is counted where it happens, in true time.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "node/cluster/shard/test_probe.h"
#include "tests/sim/phase.h"

enum {
    RATE = BORROW_POOL_RATE,
    ITEMS = 16,
    GUESTS = 12,
    PACE_MS = 9,
    ROOM = 2,        /* x the rate: SIMBORROW-1 */
    EACH_LEADER = 5, /* tokens that it may have saved up whatever its budget is */
    BORROW_MS = 2000,
    FAULT_MS = 1500,
    WARM_MS = 2500,
    FILL_MS = 2600,
    FULL_MS = 1200, /* of these: from then on nothing may be borrowed, SIMBORROW-2 */
    TIMEOUT_MS = 1000,
    FRAME_MAX = 1 << 13,
    SESSION_BORROWERS = 2,
    SESSION_OWNER = 3,
};
#define SECOND_NS (1000 * SIM_MS)

/* ---- traffic --------------------------------------------------------------------------------- */

/* One message: of keys that ask for far more than their limits, or of one far inside its own. */
static void ask(struct sim *sim, bool owner)
{
    static uint8_t frame[FRAME_MAX];
    struct random *random = sim_stream(sim, STREAM_LENT);
    const struct wire_text names[] = {wire_text_of("api"), wire_text_of("guest")};
    const uint8_t at = (uint8_t)random_below(random, sim->node_count);
    wire_checks_builder_reset(&sim->builder);
    const int template = wire_checks_builder_attributes(&sim->builder, names, 2);
    ASSERT(template >= 0);
    for (uint32_t item = 0; item < ITEMS; item++) {
        char guest[SIM_TEXT_LEN];
        snprintf(guest, sizeof guest, "g%u", (unsigned)random_below(random, owner ? 2 : GUESTS));
        const struct wire_text values[] = {wire_text_of(owner ? "/owner" : "/borrow"),
                                           wire_text_of(guest)};
        const int added = wire_checks_builder_append(&sim->builder, (uint32_t) template,
                                                     OPERATION_CHECK, 1, values, 2);
        ASSERT(added >= 0);
    }
    const int len =
        wire_checks_builder_encode(&sim->builder, owner ? SESSION_OWNER : SESSION_BORROWERS,
                                   ++sim->borrow.seq, 0, TIMEOUT_MS, frame, sizeof frame);
    ASSERT(len > 0);
    if (sim->nodes[at].up)
        net_ask(sim, SIM_CLIENTS_MAX, at, (uint8_t)random_below(random, sim->nodes[at].shard_count),
                frame, (size_t)len);
}

void borrow_reply(struct sim *sim, const struct event *event)
{
    struct wire_envelope envelope;
    struct wire_decisions decisions;
    char error[WIRE_ERROR_LEN];
    if (wire_peek(event->bytes, event->len, &envelope, error) != 0 ||
        envelope.type != WIRE_DECISIONS || envelope.session != SESSION_OWNER ||
        wire_decode_decisions(event->bytes, event->len, &sim->space, &decisions, error) != 0)
        return;
    for (uint32_t i = 0; i < decisions.head.count; i++) {
        struct wire_decision decision;
        wire_decision_at(&decisions, i, &decision);
        if (decision.outcome == OUTCOME_DENY)
            sim_fail(sim, "SIMBORROW-3: what is inside its limit was denied");
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Adds what the shards have lent since they were looked at last. */
static void look(struct sim *sim)
{
    struct borrow *borrow = &sim->borrow;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        for (uint8_t s = 0; s < sim->nodes[i].shard_count; s++) {
            const struct shard *shard = sim->nodes[i].shards[s];
            const uint64_t lent = shard == NULL ? 0 : probe_lent(shard);
            uint64_t *seen = &borrow->seen[i][s];
            if (lent < *seen)
                *seen = 0; /* another process */
            borrow->lent += lent - *seen;
            sim->coverage.borrowed += lent - *seen;
            *seen = lent;
        }
    }
    borrow->samples[borrow->count++ % BORROW_SAMPLES] =
        (struct borrow_sample){sim->now_ns, borrow->lent};
}

/* What was lent in the second that ends now. */
static uint64_t last_second(const struct sim *sim)
{
    const struct borrow *borrow = &sim->borrow;
    const uint32_t kept = borrow->count < BORROW_SAMPLES ? borrow->count : BORROW_SAMPLES;
    uint64_t before = borrow->lent;
    for (uint32_t back = 1; back <= kept; back++) {
        const struct borrow_sample *sample =
            &borrow->samples[(borrow->count - back) % BORROW_SAMPLES];
        if (sample->at_ns < sim->now_ns - SECOND_NS)
            break;
        before = sample->lent;
    }
    return borrow->lent - before;
}

static void judge_second(struct sim *sim)
{
    uint64_t deciders = 0;
    for (uint32_t i = 0; i < sim->node_count; i++)
        deciders += sim->nodes[i].shard_count;
    const uint64_t bound = (1 + sim->plan.splits) * ROOM * RATE + EACH_LEADER * deciders;
    if (last_second(sim) > bound)
        sim_fail(sim, "SIMBORROW-1: %llu were borrowed within a second, of a pool of %u",
                 (unsigned long long)last_second(sim), (unsigned)RATE);
}

/* Traffic for so long: true when it is over. */
static bool traffic(struct sim *sim, int64_t span_ms, bool owner)
{
    if (phase_first(sim))
        sim->borrow.until_ns = sim->now_ns + span_ms * SIM_MS;
    look(sim);
    judge_second(sim);
    ask(sim, false);
    for (uint32_t i = 0; owner && i < 2; i++)
        ask(sim, true);
    phase_wait(sim, PACE_MS);
    return sim->now_ns >= sim->borrow.until_ns;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool begin(struct sim *sim)
{
    struct borrow *borrow = &sim->borrow;
    memset(borrow, 0, sizeof *borrow);
    for (uint32_t i = 0; i < sim->node_count; i++)
        for (uint8_t s = 0; s < sim->nodes[i].shard_count; s++)
            if (sim->nodes[i].shards[s] != NULL)
                borrow->seen[i][s] = probe_lent(sim->nodes[i].shards[s]);
    return true;
}

static bool learn(struct sim *sim)
{
    return traffic(sim, BORROW_MS, false);
}

/* Who decides the vnode of the pool, if one does. */
static int owner_of(const struct sim *sim)
{
    const struct policy *policy = sim->policies[sim->policy_count - 1];
    const uint32_t vnode = probe_pool_vnode(policy_pool_find(policy, "spare", 5)->id, sim->vnodes);
    for (uint32_t i = 0; i < sim->node_count; i++)
        if (sim->deciders[0][vnode] == 1u << i)
            return (int)i;
    return -1;
}

static bool go_wrong(struct sim *sim)
{
    struct random *random = phase_stream(sim);
    const uint64_t dice = random_below(random, 4);
    const int owner = owner_of(sim);
    if (dice == 0 && owner >= 0 && sim->nodes[owner].up) {
        sim_tell(sim, 1, "the pool's owner %d dies", owner);
        sim->coverage.pool_owners++;
        faults_crash(sim, &sim->nodes[owner]);
    } else if (dice == 1) {
        faults_crash(sim, node_some_up(sim));
    } else if (dice == 2 && options_fault(&sim->options, FAULT_CUT)) {
        const uint32_t side = 1 + (uint32_t)random_below(random, (1u << sim->node_count) - 2);
        sim_tell(sim, 1, "cut %02x off", side);
        net_cut(sim, side, false, random_below(random, 2) == 0);
        sim->coverage.splits++;
        sim->plan.splits++;
    }
    return true;
}

static bool go_on(struct sim *sim)
{
    return traffic(sim, FAULT_MS, false);
}

static bool mend(struct sim *sim)
{
    if (phase_first(sim))
        net_heal(sim);
    return step_back(sim);
}

static bool warm(struct sim *sim)
{
    const uint64_t before = sim->borrow.lent;
    if (phase_first(sim))
        sim->borrow.warm_from = before;
    if (!traffic(sim, WARM_MS, false))
        return false;
    if (sim->borrow.lent - sim->borrow.warm_from < RATE / 2)
        sim_fail(sim, "only %llu were borrowed of a pool at rest",
                 (unsigned long long)(sim->borrow.lent - sim->borrow.warm_from));
    return true;
}

static bool fill(struct sim *sim)
{
    const bool over = traffic(sim, FILL_MS, true);
    const int64_t full_ns = sim->borrow.until_ns - (FILL_MS - FULL_MS) * SIM_MS;
    if (sim->now_ns < full_ns)
        sim->borrow.full_from = sim->borrow.lent;
    else if (sim->borrow.lent != sim->borrow.full_from)
        sim_fail(sim, "SIMBORROW-2: borrowed of a pool that is full");
    sim->coverage.pools_filled += over;
    return over;
}

const struct phase_step phase_borrow[] = {
    {"begin", begin}, {"learn", learn}, {"wrong", go_wrong}, {"on", go_on},         {"mend", mend},
    {"warm", warm},   {"fill", fill},   {"rest", step_rest}, {"equal", step_equal}, {NULL, NULL},
};

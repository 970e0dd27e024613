/* shrink.c - tries a failing seed with less of everything, one thing after another.
 *
 *   phases     only those that were gone through; each of them left out
 *   faults     each kind switched off
 *   cluster    fewer nodes, vnodes, shards, clients; smaller messages
 *   end        no event after the failure
 *
 * A try that still fails, for whatever reason, is kept. It goes round until nothing can be left out
 * any more, or TRIES_MAX tries were made.
 */
#include "tests/sim/shrink.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/runner.h"

enum { TRIES_MAX = 120, ROUNDS_MAX = 3, VNODES_MIN = 16 };

struct shrinking {
    uint64_t seed;
    struct overrides best;
    struct sim_result result; /* of the best */
    uint32_t tries;
};

/* Keeps `given` if it still fails. */
static bool attempt(struct shrinking *it, const struct overrides *given)
{
    struct sim_result result;
    if (it->tries == TRIES_MAX)
        return false;
    it->tries++;
    runner_one(it->seed, given, &result);
    if (result.failure[0] == '\0')
        return false;
    it->best = *given;
    it->result = result;
    return true;
}

static bool fix_phases(struct shrinking *it)
{
    struct options drawn;
    struct overrides given = it->best;
    options_draw(it->seed, &it->best, &drawn);
    given.phases = true;
    given.values.phase_count =
        it->result.phases < drawn.phase_count ? it->result.phases : drawn.phase_count;
    memcpy(given.values.phases, drawn.phases, sizeof drawn.phases);
    return attempt(it, &given);
}

static bool drop_phases(struct shrinking *it)
{
    bool better = false;
    for (uint32_t at = it->best.values.phase_count; it->best.phases && at > 0; at--) {
        struct overrides given = it->best;
        struct options *values = &given.values;
        memmove(&values->phases[at - 1], &values->phases[at], values->phase_count - at);
        values->phase_count--;
        better = attempt(it, &given) || better;
    }
    return better;
}

static bool drop_faults(struct shrinking *it)
{
    bool better = false;
    for (uint32_t fault = 0; fault < FAULT_END; fault++) {
        struct overrides given = it->best;
        given.values.faults_off |= 1u << fault;
        if (given.values.faults_off != it->best.values.faults_off)
            better = attempt(it, &given) || better;
    }
    return better;
}

static bool drop_number(struct shrinking *it, size_t value, size_t flag, uint32_t low, bool halves)
{
    bool better = false;
    for (;;) {
        struct options drawn;
        struct overrides given = it->best;
        uint32_t number;
        options_draw(it->seed, &it->best, &drawn);
        memcpy(&number, (const char *)&drawn + value, sizeof number);
        if (number <= low)
            return better;
        number = halves ? number / 2 : low + (number - low) / 2;
        memcpy((char *)&given.values + value, &number, sizeof number);
        *((bool *)(void *)((char *)&given + flag)) = true;
        if (!attempt(it, &given))
            return better;
        better = true;
    }
}

static bool make_small(struct shrinking *it)
{
#define SMALLER(field, low)                                                                        \
    drop_number(it, offsetof(struct options, field), offsetof(struct overrides, field), low, false)
    bool better = SMALLER(spare, 0);
    better = SMALLER(nodes, OPTIONS_NODES_MIN) || better;
    better = drop_number(it, offsetof(struct options, vnodes), offsetof(struct overrides, vnodes),
                         VNODES_MIN, true) ||
             better;
    better = SMALLER(shards, 1) || better;
    better = SMALLER(clients, 1) || better;
    better = SMALLER(items, 1) || better;
#undef SMALLER
    return better;
}

bool shrink(uint64_t seed, struct overrides *given, char *why)
{
    struct shrinking it = {.seed = seed, .best = *given};
    bool better = attempt(&it, given);
    if (!better)
        return false;
    (void)fix_phases(&it);
    for (uint32_t round = 0; better && round < ROUNDS_MAX; round++) {
        better = drop_phases(&it);
        better = drop_faults(&it) || better;
        better = make_small(&it) || better;
    }
    if (it.result.events > 0)
        it.best.values.until = (uint32_t)it.result.events;
    *given = it.best;
    memcpy(why, it.result.failure, SIM_FAILURE_LEN);
    return true;
}

/* health.c - the troubles of a node; health.h is the contract. */
#include "node/cluster/model/health.h"

#include "base/assert.h"

#define LASTED_NS INT64_C(1000000000) /* a passing trouble is told when it has lasted */

static const struct health_kind kinds[HEALTH_TROUBLES] = {
    [HEALTH_DISK_FULL] = {.code = "disk_full",
                          .short_form = "disk full",
                          .says = "has no room on its disk, or has reached --store-max",
                          .means = "keys that exist are counted; new ones are refused there",
                          .advice = "make room in its data directory, or raise --store-max",
                          .grave = true},
    [HEALTH_DISK_FAILING] = {.code = "disk_failing",
                             .short_form = "disk failing",
                             .says = "cannot write to its disk",
                             .means = "what it counts is kept by its replicas alone",
                             .advice = "look at its log and its disk",
                             .grave = true},
    [HEALTH_DISK_NEAR] = {.code = "disk_80",
                          .short_form = "disk 80%",
                          .says = "uses more than 80% of the disk that it may have",
                          .means = "at 100% new keys are refused there",
                          .advice = "plan for more room, or raise --store-max"},
    [HEALTH_DISK_TIGHT] = {.code = "disk_95",
                           .short_form = "disk 95%",
                           .says = "uses more than 95% of the disk that it may have",
                           .means = "at 100% new keys are refused there",
                           .advice = "make room now, or raise --store-max"},
    [HEALTH_MEMORY] = {.code = "memory_full",
                       .short_form = "memory full",
                       .says = "turns new keys away: they come faster than they can be written",
                       .means = "keys that exist are counted; on_failure decides the others",
                       .advice = "look for a flood of keys, raise --memory, or add a node"},
    [HEALTH_CLOCK] = {.code = "clock_off",
                      .short_form = "clock off",
                      .says = "has a clock that differs from the cluster's",
                      .means = "its windows would begin and end at other times",
                      .advice = "mend its time service (chronyc tracking)",
                      .grave = true},
    [HEALTH_NAME] = {.code = "name_taken",
                     .short_form = "name taken",
                     .says = "has the name of another living node",
                     .means = "it stays outside the ring",
                     .advice = "give it a --name of its own",
                     .grave = true},
    [HEALTH_FROZEN] = {.code = "ring_frozen",
                       .short_form = "ring frozen",
                       .says = "sees no majority of the voters",
                       .means = "keys are answered; the ring and the configuration cannot change",
                       .advice = "start the voters that are missing, or remove --force one of them",
                       .grave = true,
                       .transferring = true},
    [HEALTH_MAJORITY] = {.code = "no_majority",
                         .short_form = "no majority",
                         .says = "sees no majority for keys of consistency quorum",
                         .means = "on_failure decides these keys",
                         .advice = "start the replicas that are missing",
                         .grave = true,
                         .transferring = true},
    [HEALTH_RULES] = {.code = "rules_refused",
                      .short_form = "old rules",
                      .says = "cannot put the newest rules in force",
                      .means = "it decides by the rules before them",
                      .advice = "upgrade it, or apply rules that it understands",
                      .grave = true},
    [HEALTH_RECOVERING] = {.code = "recovering",
                           .short_form = "recovering",
                           .says = "waits for what its vnodes held",
                           .means = "keys of these vnodes are answered by others, or late",
                           .advice = "wait; start the nodes that are missing",
                           .grave = true,
                           .transferring = true},
    [HEALTH_INCOMPLETE] = {.code = "copies_missing",
                           .short_form = "copying",
                           .says = "decides vnodes that not every replica holds",
                           .means =
                               "every key is answered; a copy of some is missing, or on its way",
                           .advice = "wait, start what is missing, and restart no other node yet",
                           .grave = true,
                           .transferring = true},
    [HEALTH_CROWDED] = {.code = "peers_left_out",
                        .short_form = "crowded",
                        .says = "has no room for all nodes that it has known: restart it",
                        .means = "keys of some nodes are not reached through it",
                        .advice = "restart it",
                        .grave = true},
    [HEALTH_STOPPING] = {.code = "stopping",
                         .short_form = "stopping",
                         .says = "is being stopped",
                         .means = "others decide its keys until it is back",
                         .advice = "wait for its restart",
                         .grave = true,
                         .transferring = true},
};

const struct health_kind *health_kind(enum health_trouble trouble)
{
    ASSERT(trouble < HEALTH_TROUBLES);
    return &kinds[trouble];
}

/* Whether a trouble is to be told, that was or was not so far. */
static bool tells(const struct health *health, int trouble, bool there, bool told, int64_t now_ns)
{
    const bool transferring = kinds[trouble].transferring;
    const int64_t back_ns = health->back_ns[trouble];
    if (there)
        return told || !transferring ||
               (now_ns - health->since_ns[trouble] >= LASTED_NS &&
                (back_ns == 0 || now_ns - back_ns >= HEALTH_CLEAR_NS)); /* HEALTH-1 */
    return told && !kinds[trouble].transferring &&
           now_ns - health->last_ns[trouble] < HEALTH_CLEAR_NS;
}

bool health_step(struct health *health, uint32_t troubles, int64_t now_ns)
{
    ASSERT(troubles >> HEALTH_TROUBLES == 0); /* HEALTH-4 */
    uint32_t told = 0;
    for (int i = 0; i < HEALTH_TROUBLES; i++) {
        const bool there = (troubles & HEALTH_BIT(i)) != 0;
        const bool was_told = (health->told & HEALTH_BIT(i)) != 0;
        if ((there && (health->there & HEALTH_BIT(i)) == 0 && !was_told) ||
            now_ns < health->since_ns[i])
            health->since_ns[i] = now_ns;
        if (there || now_ns < health->last_ns[i])
            health->last_ns[i] = now_ns;
        if (now_ns < health->back_ns[i])
            health->back_ns[i] = 0;
        if (tells(health, i, there, was_told, now_ns))
            told |= HEALTH_BIT(i);
        else if (was_told)
            health->back_ns[i] = now_ns;
    }
    const bool changed = told != health->told;
    health->there = troubles;
    health->told = told;
    return changed;
}

uint32_t health_of_flags(uint32_t flags)
{
    return flags >> HEALTH_SHIFT & (HEALTH_BIT(HEALTH_TROUBLES) - 1);
}

uint32_t health_flags(uint32_t troubles)
{
    ASSERT(troubles >> HEALTH_TROUBLES == 0); /* HEALTH-4 */
    return troubles << HEALTH_SHIFT;
}

uint32_t health_grave(uint32_t troubles)
{
    uint32_t grave = 0;
    for (int i = 0; i < HEALTH_TROUBLES; i++)
        grave |= kinds[i].grave ? troubles & HEALTH_BIT(i) : 0;
    return grave;
}

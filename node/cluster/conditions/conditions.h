/* conditions.h - what is wrong with the cluster as one node sees it: what to tell first, and how.
 *
 *   rank 0     this node is not in a cluster, or of another one
 *        1     members that do not answer
 *        2..   troubles that members tell of themselves, in the order of health.h
 *        last  what waits to happen: the ring changes, vnodes are taken over
 *
 * CONDITIONS-1  A condition of a rank stands before those of a higher one; of one rank, members go
 *               by name.
 * CONDITIONS-2  Only grave ones make a cluster unhealthy; the others are warnings.
 * CONDITIONS-3  At most CONDITIONS_MAX are told; how many there are is counted.
 *
 * What lasts is an event when it begins and when it is over (conditions_tell), but for what waits
 * to happen: a change of the ring is an event of its own.
 */
#ifndef NODE_CLUSTER_CONDITIONS_CONDITIONS_H
#define NODE_CLUSTER_CONDITIONS_CONDITIONS_H

#include "node/cluster/control/control_state.h"
#include "node/cluster/model/event_log.h"

enum { CONDITION_LEN = 400, CONDITIONS_MAX = 32 };

struct condition {
    unsigned rank;
    const char *code;       /* static */
    const char *short_form; /* static: a few words, of a node */
    const char *means;      /* static; "" where the sentence says it */
    const char *advice;     /* static; likewise */
    bool grave;
    int64_t since_ns;         /* 0: not known */
    char node[SWIM_NAME_LEN]; /* "": of nobody alone */
    char region[SWIM_PLACE_LEN];
    char says[CONDITION_LEN];
};

struct conditions {
    uint32_t count;
    uint32_t more; /* that found no place */
    bool grave;    /* one of all was */
    bool rules_agree;
    struct condition list[CONDITIONS_MAX];
};

/* Fills `out` with all that is known of. */
void conditions_look(const struct control *control, const struct control_report *report,
                     struct conditions *out);
/* Takes what is wrong at `unix_ns` into report->events: once or a few times a second. */
void conditions_tell(const struct control *control, const struct control_report *report,
                     int64_t unix_ns);

/* Whether a member is nothing that anybody waits for any more: it has left, or it is dead and not
 * in the ring of its region, which is known of the own one alone. */
bool control_gone(const struct control *control, enum view_state state, const char *region,
                  uint64_t id);

/* How many of the dead of the own region that is: they were removed, or never in the ring. */
uint32_t control_count_removed(const struct control *control);

#endif

/* replay_state.h - what a replay consists of; for the files of this folder only.
 *
 *   replay_log.c    lines to records, records in order
 *   replay_judge.c  one record decided and summed up
 *
 * REPLAY-9  A key that a record refers to is held in `callers` until the record is decided.
 * REPLAY-10  `clock_ns` never falls.
 */
#ifndef CLIENT_REPLAY_REPLAY_STATE_H
#define CLIENT_REPLAY_REPLAY_STATE_H

#include "client/protocol/identity.h"
#include "client/replay/distinct.h"
#include "client/replay/order.h"
#include "client/replay/replay.h"
#include "node/limit/table/table.h"

enum { REPLAY_SECONDS = 1024 /* whole seconds that may wait at once */ };

/* Keys of a rule, estimated. */
struct replay_sketch {
    struct distinct seen;
    struct distinct denied;
};

/* How many requests of one whole second have come, and how many have been decided. */
struct replay_second {
    int64_t second;
    uint64_t come;
    uint64_t gone;
};

struct replay {
    struct replay_options options;
    struct log_plan plan;
    struct table *table;
    struct callers callers;
    struct order order;
    struct timeline_axis axis;
    struct suggest suggest;    /* no events unless options.suggest */
    struct replay_rule *rules; /* rule_count, and behind them the sum of all */
    size_t rule_count;
    bool estimates; /* keys have been dropped */
    int64_t clock_ns;
    struct replay_totals totals;
    uint64_t attribute_lines[LOG_ATTRIBUTES_MAX];
    struct replay_second seconds[REPLAY_SECONDS];
    struct identity identity;
    struct log_scratch scratch;
};

/* Decides the record at `time_ns`, or at the clock if that is later. 0 or TG_ENOMEM. */
MUST_USE int replay_judge(struct replay *replay, const struct replay_record *record,
                          int64_t time_ns);

#endif

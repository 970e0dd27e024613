/* replay.h - what a set of rules would have done to the requests of a log.
 *
 *   line --log_fields--> attributes --policy--> record --order--> engine --> sums by rule
 *         replay_read                           replay_take
 *
 * The policy and the limit engine are those of the daemon; the clock is the log's. Nothing is sent
 * anywhere, and nothing here reads files or clocks. What one request does:
 *
 * REPLAY-1  It is decided as a healthy node would: all enforced limits together, all or nothing; a
 *           shadow rule by itself, and it keeps what it took only if the request was allowed.
 * REPLAY-2  A rule's `denied` counts the requests that the rule itself refuses, also where another
 *           one does too; of a shadow rule, those that it would refuse.
 * REPLAY-3  The clock never goes back: a line that comes too late is decided at the time reached.
 * REPLAY-4  Memory is bounded whatever the log: counts are exact while the keys fit, and say so.
 *
 * One thread. Memory is taken at the start, and a bounded amount for each rule that acts.
 */
#ifndef CLIENT_REPLAY_REPLAY_H
#define CLIENT_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/vocabulary.h"
#include "client/replay/callers.h"
#include "client/replay/log_fields.h"
#include "client/replay/suggest.h"
#include "client/replay/timeline.h"

enum {
    REPLAY_KEYS_MAX = 1024 * 1024,  /* keys whose counts are exact */
    REPLAY_TEXT_LEN = 64 << 20,     /* bytes of their values */
    REPLAY_WAITING_MAX = 64 * 1024, /* requests held back to bring them into order */
    REPLAY_TOP_MAX = 100,           /* busiest keys of a rule */
    REPLAY_REORDER_MAX_S = 600
};
#define REPLAY_REORDER_NS   INT64_C(10000000000)
#define REPLAY_ENGINE_BYTES ((size_t)512 << 20) /* of limiter state; touched only as keys come */

struct replay_options {
    const struct policy *policy; /* must outlive the replay */
    const struct allocator *allocator;
    struct log_options log;
    int64_t reorder_ns;
    bool spread;          /* the requests of one whole second stand evenly in it */
    bool suggest;         /* work out limits that deny few */
    uint32_t suggest_ppm; /* callers in a million that one may deny */
    uint32_t top;
    uint32_t keys_max;
    uint32_t text_max; /* bytes of their values */
    uint32_t waiting_max;
    size_t engine_bytes;
};

/* The usual options; policy and allocator are still to be set. */
struct replay_options replay_options(void);

/* One request, resolved and not yet decided. Belongs to the replay that made it. */
struct replay_record {
    int64_t time_ns;
    uint64_t cost;
    uint32_t parts[POLICY_PARTS_MAX]; /* keys of the throttle rules that act */
    uint32_t end_rule;                /* the rule that ended the search, or CALLERS_NONE */
    uint32_t end_key;
    uint32_t shadow_rule; /* the shadow rule that would have blocked, or CALLERS_NONE */
    uint32_t shadow_key;
    uint32_t caller; /* the address, among all callers */
    uint8_t part_count;
    uint8_t action;
    bool allowed;
    bool invalid;
    bool whole_second;
};

struct replay_limit {
    uint64_t denied;        /* requests that this limit refuses */
    uint64_t peak;          /* the most that one key had used of it */
    uint64_t soft;          /* requests that it allows above itself, being a soft one */
    struct suggestion few;  /* the smallest that denies the share that was asked for, */
    struct suggestion none; /* and that denies nobody; zero unless options.suggest */
};

struct replay_rule {
    const struct policy_rule *rule; /* NULL for the sum of all requests */
    uint64_t requests;
    uint64_t denied;
    uint64_t soft;           /* allowed by it above a soft limit of it */
    uint64_t callers;        /* different keys; see replay_exact */
    uint64_t callers_denied; /* of those, denied at least once */
    struct replay_limit limits[POLICY_LIMITS_MAX];
    struct timeline *timeline; /* NULL: no request */
    uint32_t *top;             /* the busiest keys, the most denied first */
    uint32_t top_count;
    struct replay_sketch *sketch; /* NULL while exact */
};

struct replay_totals {
    uint64_t lines; /* without empty ones */
    uint64_t refused;
    uint64_t requests;
    uint64_t allowed;
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t late;         /* came after others more than the horizon newer */
    uint64_t forwarded;    /* whose address is from X-Forwarded-For */
    uint64_t whole_second; /* whose time has no fraction */
    uint64_t no_room;      /* limits that were not decided for want of memory */
    int64_t first_ns;
    int64_t last_ns;
};

struct replay;

/* 0, TG_ENOMEM, or TG_ETOOBIG when the rules mention more than LOG_ATTRIBUTES_MAX attributes. */
MUST_USE int replay_new(struct replay **out, const struct replay_options *options);
void replay_free(struct replay **replay);

/* Reads a line without its line's end. 0: the record is to be given to replay_take once.
 * TG_EINVALID: the line is refused, counted, and the problem filled. TG_ENOMEM. */
MUST_USE int replay_read(struct replay *replay, const char *text, size_t len,
                         struct replay_record *record, struct log_problem *problem);
/* Puts the record in order, and decides those that are due. 0 or TG_ENOMEM. */
MUST_USE int replay_take(struct replay *replay, const struct replay_record *record);
/* The log is over: decides what still waits, and ranks the keys. 0 or TG_ENOMEM. */
MUST_USE int replay_finish(struct replay *replay);

/* ---- what came out, after replay_finish ---- */

const struct replay_totals *replay_totals(const struct replay *replay);
/* Rules in acting order, 0 .. policy_rule_count - 1. */
const struct replay_rule *replay_rule(const struct replay *replay, size_t index);
/* All requests as if they were one rule's, keyed by address. */
const struct replay_rule *replay_all(const struct replay *replay);
/* Whether all keys fitted, so that every count is exact; else numbers of keys are estimates, and
 * so are the counts of keys whose `error` is not 0. */
bool replay_exact(const struct replay *replay);
const struct caller *replay_caller(const struct replay *replay, uint32_t number);
/* The value at `place` of the key's attributes; len 0 when there is none. */
struct policy_text replay_value(const struct replay *replay, const struct caller *caller,
                                size_t place);
/* Whether the key is an address, whatever the rule counts by (allow and block rules, missing). */
bool replay_by_address(const struct replay *replay, const struct caller *caller);
const struct timeline_axis *replay_axis(const struct replay *replay);
/* Whether a limit can be replayed: a log does not tell how long a request was in flight. */
bool replay_can_judge(const struct limit *limit);
/* Whether suggestions are of the log's beginning alone, since there were too many requests. */
bool replay_suggest_cut(const struct replay *replay);
/* Attributes that rules mention, and on how many lines each was. */
size_t replay_attribute_count(const struct replay *replay);
struct policy_text replay_attribute(const struct replay *replay, size_t index, uint64_t *lines);

#endif

/* gubernator.h - what clients of Gubernator ask, as checks with limits of their own; and what is
 * decided, as they are told it.
 *
 *   item --gubernator_add--> plan --gubernator_append--> the open batch ... decisions
 *                              |                                               |
 *                              +--gubernator_note--> notes --gubernator_next---+--> answer
 *
 *   theirs                            here
 *   TOKEN_BUCKET                      fixed_window, align first
 *     with DURATION_IS_GREGORIAN      fixed_window, align minute to year, in UTC
 *   LEAKY_BUCKET                      token_bucket, burst
 *   hits above 0; 0; less             check; peek; refund
 *     with DRAIN_OVER_LIMIT           check, at_most
 *     with RESET_REMAINING            reset
 *
 * GUBERNATOR-1  An item is charged by its own fields alone; what is wrong with one is its own
 *               error, and the others are decided.
 * GUBERNATOR-2  What is counted is named by name and unique_key, and by nothing else that anybody
 *               may ask for (gubernator_key).
 * GUBERNATOR-3  Nothing is admitted that the limit does not allow, whatever the bounds of what is
 *               counted here make of it: they round to fewer.
 *
 * Pure. Any thread, on the caller's memory.
 */
#ifndef NODE_GATEWAY_GUBERNATOR_GUBERNATOR_H
#define NODE_GATEWAY_GUBERNATOR_GUBERNATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/protocol/wire.h"

enum {
    GUBERNATOR_ITEMS_MAX = 1000,
    GUBERNATOR_LIMITS_MAX = 128, /* different ones of one request */
    GUBERNATOR_TABLE_LEN = 256,  /* a power of two, beyond that */
    GUBERNATOR_BODY_MAX = 1 << 20
};

enum gubernator_algorithm { GUBERNATOR_TOKEN_BUCKET = 0, GUBERNATOR_LEAKY_BUCKET = 1 };

enum gubernator_behavior {
    GUBERNATOR_NO_BATCHING = 1,
    GUBERNATOR_GLOBAL = 2,
    GUBERNATOR_GREGORIAN = 4,
    GUBERNATOR_RESET = 8,
    GUBERNATOR_MULTI_REGION = 16,
    GUBERNATOR_DRAIN = 32
};

/* One RateLimitReq; texts are borrowed. */
struct gubernator_item {
    struct wire_text name;
    struct wire_text unique_key;
    int64_t hits;
    int64_t limit;
    int64_t duration; /* ms, or the number of a unit of the calendar */
    int64_t burst;
    int32_t algorithm;
    int32_t behavior;
};

/* What is told of a limit whatever is decided. */
struct gubernator_told {
    int64_t limit;
    int64_t reset_ms; /* reset_time, where nothing is used */
};

/* What is known of an item until its answer. */
struct gubernator_note {
    uint64_t hits : 50;  /* of one that drains */
    uint64_t about : 7;  /* which limit, or which error */
    uint64_t global : 1; /* it is asked with GLOBAL */
    uint64_t failed : 1; /* it has no check */
    uint64_t drains : 1;
    uint64_t over : 1;  /* more than can be counted */
    uint64_t empty : 1; /* a limit that lets nothing through */
    uint64_t regions : 1;
    uint64_t unit : 1; /* its window ends with one of the calendar */
};

/* The notes of a request: so many limits, and items behind them. */
struct gubernator_asked {
    uint32_t count;
    uint32_t limit_count;
};

/* What a call keeps in its context: all notes, if they are few. */
enum { GUBERNATOR_KEPT = 14 }; /* words of them */
struct gubernator_kept {
    struct gubernator_asked asked;
    uint64_t notes[GUBERNATOR_KEPT];
};

/* What of an item makes its limit; what has no say is 0. */
struct gubernator_shape {
    int64_t limit;
    int64_t duration;
    int64_t burst;
    int32_t algorithm;
    int32_t behavior;
};

/* How the items of a request are asked; some 40 KiB. */
struct gubernator_plan {
    int64_t now_ns;
    struct gubernator_asked asked;
    uint32_t checks;                          /* of the items, those that are asked */
    uint32_t last;                            /* the limit of the item before */
    uint8_t table[GUBERNATOR_TABLE_LEN];      /* number of a limit and 1, by its shape; 0: none */
    int16_t templates[GUBERNATOR_LIMITS_MAX]; /* of the builder; less than 0: not appended yet */
    struct gubernator_shape shapes[GUBERNATOR_LIMITS_MAX];
    struct limit limits[GUBERNATOR_LIMITS_MAX];
    struct gubernator_told told[GUBERNATOR_LIMITS_MAX];
    struct gubernator_note notes[GUBERNATOR_ITEMS_MAX];
    uint64_t costs[GUBERNATOR_ITEMS_MAX];
    uint8_t operations[GUBERNATOR_ITEMS_MAX];
};

/* `now_ns` is Unix time. */
void gubernator_begin(struct gubernator_plan *plan, int64_t now_ns);
/* Plans the next of at most GUBERNATOR_ITEMS_MAX items. */
void gubernator_add(struct gubernator_plan *plan, const struct gubernator_item *item);
/* Appends the check of item `i` of the plan, which these texts name, if it has one; all of a plan
 * are appended to one builder, which keeps its templates meanwhile. 0, or as
 * wire_checks_builder_append. */
MUST_USE int gubernator_append(struct gubernator_plan *plan, uint32_t i, struct wire_text name,
                               struct wire_text unique_key, struct wire_checks_builder *builder);
/* The key by which an item is counted, in `room`. */
struct wire_text gubernator_key(struct wire_text name, struct wire_text unique_key,
                                char room[WIRE_VALUE_MAX]);
/* Bytes of the plan's notes, where they are more than is kept, else 0; and what is needed of a plan
 * until the answer: `more` has so many bytes. */
size_t gubernator_more_len(const struct gubernator_plan *plan);
void gubernator_note(const struct gubernator_plan *plan, struct gubernator_kept *kept, void *more);

enum { GUBERNATOR_ERROR_MAX = 200 };

/* One RateLimitResp; texts are borrowed. */
struct gubernator_answer {
    bool over;
    int64_t limit;
    int64_t remaining;
    int64_t reset_ms;
    struct wire_text error;  /* at most GUBERNATOR_ERROR_MAX; empty: none */
    struct wire_text owner;  /* the node that decided; empty: it is not known */
    struct wire_text region; /* what there is to say of MULTI_REGION, or empty */
};

#define GUBERNATOR_REGION_KEY "multi_region"

/* Counted since the start: each item once, as it is answered by the node that was asked. */
struct gubernator_stats {
    uint64_t local;     /* decided by this node, */
    uint64_t forward;   /* by another one, or one that is not told; */
    uint64_t global;    /* with GLOBAL, by whichever */
    uint64_t over;      /* of all these: over the limit */
    uint64_t invalid;   /* not decided: what is wrong with the item, */
    uint64_t algorithm; /* that is, its algorithm; */
    uint64_t timeout;   /* nobody could decide in time, */
    uint64_t busy;      /* or had room to */
    uint64_t too_large; /* requests of more than GUBERNATOR_ITEMS_MAX items */
};

/* Goes through the answers of a request. */
struct gubernator_reader {
    struct gubernator_asked asked;
    const void *notes;
    const struct wire_decisions *decisions; /* NULL: no item has a check */
    uint32_t check;                         /* the next one of them */
    uint32_t item;                          /* the next one */
    int64_t now_ns;                         /* Unix time */
    struct gubernator_stats *stats;         /* where answers are counted; NULL: nowhere */
    const char *self;                       /* this node's name, then */
};
/* The reader of what gubernator_note has noted, where check `first` of the decisions is that of the
 * first item which has one. */
struct gubernator_reader gubernator_answers(const struct gubernator_kept *kept, const void *more,
                                            const struct wire_decisions *decisions, uint32_t first,
                                            int64_t now_ns);
/* The next answer; false: that was all. */
bool gubernator_next(struct gubernator_reader *reader, struct gubernator_answer *out);

#endif

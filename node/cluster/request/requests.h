/* requests.h - a client's message, from its checks to the reply. */
#ifndef NODE_CLUSTER_REQUEST_REQUESTS_H
#define NODE_CLUSTER_REQUEST_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "client/protocol/wire.h"
#include "node/cluster/model/effects.h"
#include "node/cluster/wire/peer_wire.h"
#include "node/policy/model/policy.h"

struct shard;

enum { SHARD_ROW_BLOCK = 64 };

/* What tells one limit of a rule from another, and the text of its window. */
struct limit_shown {
    uint64_t count;
    uint64_t window_ns;
    uint8_t algorithm;
    uint8_t ordinal;
};

/* Why an item is not allowed, where neither its outcome nor a rule tells. From WHY_ABSENT on: the
 * attribute of the rule's key with that place, counted from there, is missing. */
enum row_why {
    WHY_NOTHING,
    WHY_CROWD,
    WHY_BOUNDS,
    WHY_LEASE,
    WHY_WORK,
    WHY_FULL,
    WHY_HELD,
    WHY_ABSENT
};
#define WHY_FULL_SENTENCE "new keys come faster than they can be written: no room for this one"

/* The decision of one item as it takes shape. */
struct row {
    bool allowed;
    bool degraded;
    bool granted_set;
    bool shown;             /* some limit's numbers are in it */
    bool looks;             /* it is a peek: nothing is granted */
    bool trial_granted;     /* a rule on trial took something */
    bool leased;            /* admitted, it holds a lease */
    bool held;              /* the lease is one of tokens: delay_ns is how long it lasts */
    bool reserves;          /* what is held is reserved: nobody may admit with it */
    bool settles;           /* ends a reservation: it has to be asked again until it is decided */
    bool soft;              /* an enforced limit is exceeded, within what mode soft allows */
    bool borrowed;          /* an enforced limit is exceeded, by what a pool has lent */
    bool counted;           /* it is in the tallies */
    bool unsteady;          /* if denied, more than time may change it, or it is to be counted */
    uint8_t failure;        /* enum answer_status when a part could not be decided */
    uint8_t outcome;        /* fixed by policy (no_rule, blocked ...), or OUTCOME_COUNT */
    uint8_t why;            /* enum row_why */
    uint16_t pending_left;  /* answers still to come */
    uint32_t first_pending; /* of an item whose parts are decided apart, else POOL_NONE */
    uint32_t vnode;
    const struct policy_rule *rule;   /* of what is shown; NULL: inline */
    const struct policy_rule *shadow; /* the first rule on trial that would have denied, or NULL */
    const char *refusal;              /* why what was asked cannot be done; NULL: it can */
    uint64_t node;                    /* who decided */
    uint64_t limit;
    uint64_t used;
    uint64_t remaining;
    uint64_t granted;
    int64_t reset_after_ns;
    int64_t retry_after_ns; /* until the cost can succeed, as its leader reckons */
    int64_t soft_over;      /* soft: by how much more than it granted a limit would be exceeded */
    int64_t told_ns;        /* the same as it is told: a rule may have one of its own */
    int64_t delay_ns;
    uint64_t lease;      /* held: its id */
    uint64_t lease_used; /* of a lease of tokens that is released: so many were */
    uint64_t user_hash;  /* whose totals it is in, 0: nobody's; people.h */
    uint64_t key_hash;
    struct limit_shown limit_shown; /* the deciding limit, for its window's text; else all 0 */
};

struct request {
    uint64_t connection;
    uint64_t session;
    uint64_t seq;
    uint32_t count;
    uint32_t pending;    /* parts not yet answered */
    uint32_t next_ready; /* news: the next one in shard.news */
    bool partly;         /* what is decided is answered before all is */
    bool news;           /* partly: some item was decided that no answer has told yet */
    uint32_t policy;     /* index into policies */
    uint32_t explained;  /* its block, or POOL_NONE */
    int64_t begun_ns;
    int64_t deadline_ns;
    uint32_t blocks[WIRE_CHECKS_MAX / SHARD_ROW_BLOCK];
};

/* What the source of a row was made of, and which one it is (source_of of requests.c). */
struct source_seen {
    uint8_t outcome; /* OUTCOME_COUNT: of none yet */
    uint8_t why;
    bool never; /* no retry can succeed */
    uint16_t index;
    const struct policy_rule *rule;
    const struct policy_rule *shadow;
    const char *refusal;
    uint64_t node;
    struct limit_shown limit;
};

/* The reply that is being written (requests.c): scratch. */
struct reply {
    struct wire_decision_columns columns;
    struct wire_sources sources;
    struct wire_explain explain;
    char windows[WIRE_SOURCES_MAX + 1][QUANTITY_TEXT_LEN]; /* one a source, and the one at hand */
    uint32_t window_count;
    struct quantity_rate window_last;
    struct source_seen seen[2]; /* of the last row that was denied, and allowed */
};

/* A client's message at hand. */
struct message {
    struct wire_checks checks;
    uint64_t connection;
    uint32_t request;   /* POOL_NONE if it needed none yet */
    uint32_t explained; /* its block, or POOL_NONE */
    uint8_t flags;      /* of the forwards of each item */
    uint64_t retries;   /* what the tags of its answers have in common (retry.h) */
    uint64_t work;      /* that looking for its rules has cost (RESOLVE-3) */
    const void *frame;
    uint32_t len;
};

void requests_checks(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     struct effects *effects);
/* Goes on with the message at hand from an item on: to its end, or until the turn is over. */
void requests_work(struct shard *shard, uint32_t item, struct effects *effects);
/* Takes up what the flags of the message at hand say. */
void requests_flags(struct shard *shard);
/* The request of the message at hand, made when there is none yet; POOL_NONE without room. */
uint32_t requests_current(struct shard *shard);
/* The answer of a part of a waiting request has come. */
void requests_pending_done(struct shard *shard, uint32_t part, uint64_t node,
                           struct effects *effects);
/* The answer to one part of the item of the message at hand that has this row. */
void requests_row_done(struct shard *shard, struct row *row, const struct policy_rule *rule,
                       const struct limit *limit, uint32_t vnode, const struct answer *answer,
                       struct effects *effects);
/* The rule, which is on trial, would have denied the item of this row. */
void requests_shadow(struct row *row, const struct policy_rule *rule);
/* Answers what has been decided of messages that are answered in parts; at the end of events. */
void requests_send_ready(struct shard *shard, struct effects *effects);
/* A part of item `item` of the message at hand has to wait: its part, POOL_NONE without room. */
uint32_t requests_new_pending(struct shard *shard, uint16_t item, const struct policy_rule *rule,
                              const struct forward *forward);
void requests_error(struct shard *shard, uint64_t connection, uint64_t session, uint64_t seq,
                    int code, const char *text, struct effects *effects);

/* Answers a frame with an ERROR of its own session and sequence, as far as they can be read. */
void requests_refuse(struct shard *shard, uint64_t connection, const void *frame, size_t len,
                     int code, const char *text, struct effects *effects);
/* Asserts what requests_check.c says, between two events. */
void requests_check_invariants(const struct shard *shard);

#endif

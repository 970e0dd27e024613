/* support_flows.h - keys that are asked for at even rates, in virtual time, and what they got: for
 * tests of elastic limits.
 *
 *   flows_begin, flow_add, flow_add, flows_run, (a change,) flows_run, flow_assert_share ...
 */
#ifndef TESTS_UNIT_SUPPORT_FLOWS_H
#define TESTS_UNIT_SUPPORT_FLOWS_H

#include <stdint.h>

#include "tests/unit/support_shard.h"

enum { FLOWS_MAX = 18, FLOWS_SECONDS_MAX = 64 };

struct flow {
    char user[LAB_KEY_LEN]; /* the attributes that it asks with, as "name=value" */
    char kind[LAB_KEY_LEN];
    uint32_t entry;                          /* the node that it asks */
    uint64_t rate;                           /* a second */
    uint64_t due;                            /* thousandths of a request */
    uint64_t counts[OUTCOME_COUNT];          /* since the last flows_run began */
    uint32_t borrowed_at[FLOWS_SECONDS_MAX]; /* of each second since flows_begin */
    uint32_t allowed_at[FLOWS_SECONDS_MAX];
};

extern struct flow flows[FLOWS_MAX];
extern uint32_t flow_count;

/* From now on, and without flows. */
void flows_begin(struct lab *lab);
/* One of requests to the rule whose `kind` that is; its user is the caller's to fill in. */
struct flow *flow_add(const char *kind, uint32_t entry, uint64_t rate);
/* Lets all flows run; what they get is counted anew. */
void flows_run(struct lab *lab, int64_t span_ns);
uint64_t flow_borrowed(const struct flow *flow);
/* Each within 2% of what is fair, and a token or two. */
void flow_assert_share(const struct flow *flow, uint64_t expected);

#endif

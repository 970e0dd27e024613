/* support_flows.c - see support_flows.h. */
#include "tests/unit/support_flows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S (1000 * LAB_MS)

enum { ITEMS_MAX = 1 << 16 };

struct flow flows[FLOWS_MAX];
uint32_t flow_count;
static int64_t begun_ns;
static uint8_t flow_of[ITEMS_MAX]; /* by seq */

void flows_begin(struct lab *lab)
{
    memset(flows, 0, sizeof flows);
    flow_count = 0;
    lab->large = true;
    begun_ns = lab->now_ns;
}

struct flow *flow_add(const char *kind, uint32_t entry, uint64_t rate)
{
    assert_in_range(flow_count, 0, FLOWS_MAX - 1);
    struct flow *flow = &flows[flow_count++];
    (void)snprintf(flow->kind, sizeof flow->kind, "kind=%s", kind);
    flow->entry = entry;
    flow->rate = rate;
    return flow;
}

static void take_replies(struct lab *lab)
{
    const int64_t second = (lab->now_ns - begun_ns) / S;
    assert_in_range(second, 0, FLOWS_SECONDS_MAX - 1);
    for (size_t i = 0; i < lab->reply_count; i++) {
        char error[WIRE_ERROR_LEN];
        struct wire_decision decision;
        const struct lab_reply *reply = &lab->replies[i];
        assert_int_equal(
            wire_decode_decisions(reply->bytes, reply->len, &lab->space, &lab->decisions, error),
            0);
        wire_decision_at(&lab->decisions, 0, &decision);
        struct flow *flow = &flows[flow_of[lab->decisions.head.seq % ITEMS_MAX]];
        flow->counts[decision.outcome]++;
        flow->borrowed_at[second] += decision.outcome == OUTCOME_ELASTIC_BORROWED;
        flow->allowed_at[second] += decision.outcome == OUTCOME_ALLOW;
        free(reply->bytes);
    }
    lab->reply_count = 0;
}

void flows_run(struct lab *lab, int64_t span_ns)
{
    for (uint32_t i = 0; i < flow_count; i++)
        memset(flows[i].counts, 0, sizeof flows[i].counts);
    for (int64_t at = 0; at < span_ns; at += LAB_MS) {
        for (uint32_t i = 0; i < flow_count; i++) {
            struct flow *flow = &flows[i];
            const char *attributes[] = {flow->user, flow->kind, NULL};
            for (flow->due += flow->rate; flow->due >= 1000; flow->due -= 1000) {
                lab_ask_attributes(lab, 1, attributes);
                flow_of[lab_send(lab, flow->entry, 5000) % ITEMS_MAX] = (uint8_t)i;
            }
        }
        lab_run(lab, LAB_MS);
        take_replies(lab);
        lab_forget(lab);
    }
}

uint64_t flow_borrowed(const struct flow *flow)
{
    return flow->counts[OUTCOME_ELASTIC_BORROWED];
}

void flow_assert_share(const struct flow *flow, uint64_t expected)
{
    const uint64_t spread = expected / 50 + 2;
    assert_in_range(flow_borrowed(flow), expected > spread ? expected - spread : 0,
                    expected + spread);
}

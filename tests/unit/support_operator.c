/* support_operator.c - an operator who asks by HTTP. */
#include "tests/unit/support_operator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mp_json.h"
#include "node/gateway/api/api_routes.h"

enum { TOKENS = 256, SESSION = 99 };

void operator_open(struct operator_bench *bench)
{
    memset(bench, 0, sizeof *bench);
    digest_make(OPERATOR_TOKEN, strlen(OPERATOR_TOKEN), &bench->operators);
    struct http_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                               .anonymous_grpc = ACCESS_ANONYMOUS,
                               .name = "n1",
                               .version = "9",
                               .operators = &bench->operators};
    facts.routes = api_routes(&facts.route_count);
    assert_int_equal(http_gate_new(alloc_heap(), SESSION, &facts, &bench->stats, &bench->gate), 0);
    bench->out = malloc(OPERATOR_OUT);
    assert_non_null(bench->out);
    bench->peer.base.out.data = bench->out;
    bench->peer.base.out.capacity = OPERATOR_OUT;
    (void)snprintf(bench->peer.base.address, GATEWAY_ADDRESS_LEN, "[2001:db8::1]:5000");
    http_gate_open(bench->gate, &bench->peer);
}

void operator_close(struct operator_bench *bench)
{
    http_gate_free(&bench->gate);
    free(bench->out);
}

static void put(void *text, const char *data, size_t len)
{
    char *end = (char *)text + strlen(text);
    assert_true(strlen(text) + len < OPERATOR_TEXT);
    memcpy(end, data, len);
    end[len] = '\0';
}

void operator_say(struct operator_bench *bench, const char *request)
{
    static struct mp_token tokens[TOKENS];
    static uint8_t copy[OPERATOR_TEXT];
    const struct mp_sink sink = {put, bench->asked};
    const uint8_t *frame;
    char error[WIRE_ERROR_LEN];
    size_t used;
    bench->peer.base.out.len = 0;
    bench->asked[0] = '\0';
    (void)http_gate_take(bench->gate, &bench->peer, 0, request, strlen(request), &used);
    assert_int_equal(used, strlen(request));
    const size_t len = batches_submit(http_gate_batches(bench->gate), &frame);
    batches_check_invariants(http_gate_batches(bench->gate));
    batches_check_peer(http_gate_batches(bench->gate), &bench->peer.base, 0);
    if (len == 0)
        return;
    assert_true(len <= sizeof copy);
    memcpy(copy, frame, len);
    if (wire_decode_admin(copy, len, tokens, TOKENS, &bench->admin, error) != 0) {
        put(bench->asked, OPERATOR_CHECKS, sizeof OPERATOR_CHECKS - 1);
        return;
    }
    put(bench->asked, bench->admin.command.data, bench->admin.command.len);
    put(bench->asked, " ", 1);
    mp_json(&sink, bench->admin.arguments.tokens, bench->admin.arguments.token_count);
}

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)token;
    return context;
}

void operator_answer(struct operator_bench *bench, const void *frame, size_t len)
{
    const struct gateway_finder finder = {find, &bench->peer.base};
    batches_answer(http_gate_batches(bench->gate), frame, len, &finder);
    batches_check_peer(http_gate_batches(bench->gate), &bench->peer.base, 0);
}

void operator_wait(struct operator_bench *bench, int64_t ns)
{
    const struct gateway_finder finder = {find, &bench->peer.base};
    http_gate_now(bench->gate, ns);
    batches_expire(http_gate_batches(bench->gate), &finder);
}

const char *operator_heard(struct operator_bench *bench)
{
    bench->out[bench->peer.base.out.len] = '\0';
    return bench->out;
}

void operator_expect(struct operator_bench *bench, const char *part)
{
    if (strstr(operator_heard(bench), part) == NULL)
        fail_msg("'%s' is not in: %s", part, operator_heard(bench));
}

/* test_client_parts.c - the library's parts without sockets: pending messages, interned texts,
 * endpoints, routes, requests and decisions. */
#include "base/error.h"

#include "client/include/tidegate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "client/lib/endpoints.h"
#include "client/lib/intern.h"
#include "client/lib/link.h"
#include "client/lib/pending.h"
#include "client/lib/request.h"
#include "client/lib/route.h"

static const tg_limit_t limit = {
    .algorithm = TG_TOKEN_BUCKET, .count = 5, .window_ns = 60000000000ULL};

/* Against a plain array: found exactly while pending, never a seq twice, full at the capacity. */
static void pending_messages_are_found_by_seq_until_removed(void **state)
{
    enum { CAPACITY = 61 };
    struct client_pending pending;
    struct random random;
    uint64_t seqs[CAPACITY];
    size_t count = 0;
    uint64_t last = 0;
    static char messages[CAPACITY];

    (void)state;
    random_init(&random, 4);
    assert_int_equal(client_pending_init(&pending, alloc_heap(), CAPACITY), 0);
    for (int step = 0; step < 20000; step++) {
        if (random_below(&random, 2) == 0) {
            uint64_t seq = 0;
            const int status = client_pending_next(&pending, &seq);

            assert_int_equal(status, count == CAPACITY ? TG_EBUSY : 0);
            if (status != 0)
                continue;
            assert_true(seq > last);
            last = seq;
            client_pending_put(&pending, seq, &messages[count]);
            seqs[count++] = seq;
        } else if (count != 0) {
            const size_t at = random_below(&random, count);

            assert_non_null(client_pending_find(&pending, seqs[at]));
            client_pending_remove(&pending, seqs[at]);
            assert_null(client_pending_find(&pending, seqs[at]));
            seqs[at] = seqs[--count];
        }
        assert_int_equal(pending.count, count);
        assert_null(client_pending_find(&pending, last + 1 + random_below(&random, 200)));
    }
    client_pending_fini(&pending);
}

/* Equal texts give one pointer, others another; memory that fails gives "". */
static void equal_texts_are_interned_once(void **state)
{
    struct alloc_failing failing;
    struct client_intern intern;
    const char *first;
    char copy[8] = "login";

    (void)state;
    alloc_failing_init(&failing, 0);
    assert_int_equal(client_intern_init(&intern, &failing.allocator), 0);
    first = client_intern_get(&intern, wire_text_of("login"));
    assert_string_equal(first, "login");
    assert_ptr_equal(client_intern_get(&intern, wire_text_of(copy)), first);
    assert_string_equal(client_intern_get(&intern, (struct wire_text){"login", 3}), "log");
    assert_string_equal(client_intern_get(&intern, (struct wire_text){NULL, 0}), "");
    for (int i = 0; i < 10000; i++) {
        char text[16];

        (void)snprintf(text, sizeof text, "t%d", i);
        assert_string_equal(client_intern_get(&intern, wire_text_of(text)), text);
    }
    failing.fail_at = failing.requests + 1;
    assert_string_equal(client_intern_get(&intern, wire_text_of("new")), "");
    client_intern_fini(&intern);
    assert_int_equal(failing.bytes_live, 0);
}

/* The table stops growing at its bound, whatever nodes send. */
static void interned_texts_are_bounded(void **state)
{
    struct client_intern intern;
    char text[16];

    (void)state;
    assert_int_equal(client_intern_init(&intern, alloc_heap()), 0);
    for (int i = 0; i < CLIENT_INTERN_MAX + 10; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        assert_string_equal(client_intern_get(&intern, wire_text_of(text)),
                            i < CLIENT_INTERN_MAX ? text : "");
    }
    assert_string_equal(client_intern_get(&intern, wire_text_of("7")), "7");
    client_intern_fini(&intern);
}

/* Blanks, repeats and a missing scheme are understood. */
static void endpoint_lists_are_read(void **state)
{
    struct client_endpoints endpoints;
    char error[200];
    char many[2000] = "";

    (void)state;
    assert_int_equal(client_endpoints_parse(&endpoints,
                                            "tcp://a:1 , b:2,tcp://[::1]:65535,tcp://a:1", error,
                                            sizeof error),
                     0);
    assert_int_equal(endpoints.count, 3);
    assert_string_equal(endpoints.text[0], "tcp://a:1");
    assert_string_equal(endpoints.text[1], "tcp://b:2");
    assert_string_equal(endpoints.text[2], "tcp://[::1]:65535");
    for (int i = 1; i <= CLIENT_ENDPOINTS_MAX + 1; i++)
        (void)snprintf(many + strlen(many), 16, "h:%d,", i);
    assert_int_equal(client_endpoints_parse(&endpoints, many, error, sizeof error), TG_EINVALID);
    assert_string_equal(error, "endpoints: found more than 64");
    memset(many, 'h', 300);
    memcpy(many + 300, ":1", 3);
    assert_int_equal(client_endpoints_parse(&endpoints, many, error, sizeof error), TG_EINVALID);
    assert_int_equal(client_endpoints_parse(&endpoints, NULL, error, sizeof error), TG_EINVALID);
}

/* A ring of two members with two shards: vnode v is decided by v % 2, on shard v % 2 of it. */
static void routes_follow_the_ring(void **state)
{
    static struct client_route route;
    const struct wire_ring_member members[] = {
        {.node_id = 1, .endpoint_first = 0, .shard_count = 1},
        {.node_id = 2, .endpoint_first = 1, .shard_count = 2},
    };
    const struct wire_text endpoints[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    const uint8_t deciders[] = {0, 0, 1, 0, 1, 0, 0xff, 0xff};
    const struct wire_ring ring = {.view_version = 9,
                                   .member_count = 2,
                                   .endpoint_count = 3,
                                   .members = members,
                                   .endpoints = endpoints,
                                   .vnode_count = 4,
                                   .deciders = deciders};
    const uint16_t links[] = {30, 31, 32};
    const uint16_t expected[] = {30, 32, 31, CLIENT_LINK_NONE};
    const struct hash_key key = {{3}};

    (void)state;
    assert_int_equal(client_route_init(&route, alloc_heap()), 0);
    assert_int_equal(client_route_inline(&route, "k", 1), CLIENT_LINK_NONE);
    client_route_key(&route, &key);
    client_route_ring(&route, &ring, links);
    assert_memory_equal(route.table, expected, sizeof expected);
    for (int i = 0; i < 50; i++) {
        struct identity identity;

        assert_int_equal(identity_inline(&identity, &i, sizeof i), 0);
        assert_int_equal(client_route_inline(&route, &i, sizeof i),
                         expected[identity_vnode(&key, &identity, 4)]);
    }
    assert_int_equal(client_route_attributes(&route, 5), CLIENT_LINK_NONE);
    client_route_learn(&route, 5, 1);
    assert_int_equal(client_route_attributes(&route, 5), 32);
    client_route_learn(&route, 5 + CLIENT_HINTS, 2); /* the same place in the cache */
    assert_int_equal(client_route_attributes(&route, 5), CLIENT_LINK_NONE);
    client_route_learn(&route, 6, 400); /* outside this ring */
    assert_int_equal(client_route_attributes(&route, 6), CLIENT_LINK_NONE);
    client_route_learn(&route, 5, WIRE_VNODE_NONE);
    assert_int_equal(client_route_attributes(&route, 5 + CLIENT_HINTS), 31);
    client_route_fini(&route);
}

/* Of two members of whom one decides, of both, of none for one vnode. */
static void a_link_that_decides_all_is_told_without_a_hash(void **state)
{
    static struct client_route route;
    const struct wire_ring_member members[] = {
        {.node_id = 1, .endpoint_first = 0, .shard_count = 1},
        {.node_id = 2, .endpoint_first = 1, .shard_count = 1},
    };
    const struct wire_text endpoints[] = {{"a", 1}, {"b", 1}};
    const uint8_t by_one[] = {1, 0, 1, 0}, by_both[] = {1, 0, 0, 0},
                  by_nobody[] = {1, 0, 0xff, 0xff};
    struct wire_ring ring = {.view_version = 9,
                             .member_count = 2,
                             .endpoint_count = 2,
                             .members = members,
                             .endpoints = endpoints,
                             .vnode_count = 2,
                             .deciders = by_one};
    const uint16_t links[] = {30, 31};

    (void)state;
    assert_int_equal(client_route_init(&route, alloc_heap()), 0);
    assert_int_equal(client_route_only(&route), CLIENT_LINK_NONE);
    client_route_ring(&route, &ring, links);
    assert_int_equal(client_route_only(&route), 31);
    ring.deciders = by_both;
    client_route_ring(&route, &ring, links);
    assert_int_equal(client_route_only(&route), CLIENT_LINK_NONE);
    ring.deciders = by_one;
    client_route_ring(&route, &ring, links);
    assert_int_equal(client_route_only(&route), 31);
    ring.deciders = by_nobody;
    client_route_ring(&route, &ring, links);
    assert_int_equal(client_route_only(&route), CLIENT_LINK_NONE);
    client_route_fini(&route);
}

/* Names and values, and where one ends and the next begins, all count. */
static void attribute_hashes_tell_attributes_apart(void **state)
{
    const tg_attribute_t a[] = {{"ip", "1", TG_STRLEN}, {"user", "23", TG_STRLEN}};
    const tg_attribute_t same[] = {{"ip", "1x", 1}, {"user", "23", 2}};
    const tg_attribute_t moved[] = {{"ip", "12", TG_STRLEN}, {"user", "3", TG_STRLEN}};
    const tg_attribute_t renamed[] = {{"ip", "1", TG_STRLEN}, {"phone", "23", TG_STRLEN}};

    (void)state;
    assert_int_equal(client_route_hash(a, 2), client_route_hash(same, 2));
    assert_int_not_equal(client_route_hash(a, 2), client_route_hash(moved, 2));
    assert_int_not_equal(client_route_hash(a, 2), client_route_hash(renamed, 2));
    assert_int_not_equal(client_route_hash(a, 2), client_route_hash(a, 1));
}

/* Each mistake has its sentence. */
static void bad_requests_have_their_sentence(void **state)
{
    const tg_attribute_t nameless[] = {{"", "1", 1}};
    const tg_attribute_t valueless[] = {{"ip", NULL, 1}};
    const tg_limit_t bad_limit = {.count = 0, .window_ns = 1000000000};
    char error[CLIENT_REQUEST_ERROR_LEN];
    tg_limit_t valid = {.count = 0};
    tg_request_t request = tg_request_inline("k", &limit);

    (void)state;
    assert_int_equal(client_request_check(&request, -1, &valid, error), 0);
    request.operation = (tg_operation_t)11;
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    assert_string_equal(error, "operation: found 11, expected 0 to 10");
    request.used = 999;
    assert_int_equal(client_request_check(&request, TG_RESERVE, &valid, error), TG_EINVALID);
    assert_string_equal(error, "used: found 999, expected how long the reservation lasts, 1000 to "
                               "3600000 ms, or 0");
    assert_int_equal(client_request_check(&request, TG_COMMIT, &valid, error), TG_EINVALID);
    assert_string_equal(error, "lease_id: found 0, expected that of the decision which gave the "
                               "reservation");
    assert_int_equal(client_request_check(&request, TG_CHECK, &valid, error), 0);
    request = tg_request_inline("k", &limit);
    request.explain_max = 3;
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    request = tg_request_inline("k", &bad_limit);
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    assert_non_null(strstr(error, "limit: "));
    request.limit.algorithm = (tg_algorithm_t)77;
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    assert_non_null(strstr(error, "limit.algorithm: found 77, expected 0 to "));
    request = tg_request_inline(NULL, &limit);
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    request = tg_request(nameless, 1);
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    assert_string_equal(error, "attributes[0].name: found 0 bytes, expected 1 to 64");
    request = tg_request(valueless, 1);
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    request = tg_request(NULL, 1);
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
}

/* A limit that was never filled in is as wrong as any, also before there was a valid one. */
static void an_empty_limit_is_refused_by_its_sentence(void **state)
{
    const tg_limit_t empty = {.count = 0};
    const tg_request_t request = tg_request_inline("k", &empty);
    char error[CLIENT_REQUEST_ERROR_LEN] = "";
    tg_limit_t valid = {.count = 0};

    (void)state;
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    assert_non_null(strstr(error, "limit: count 0"));
}

/* tg_release and tg_renew name the operation, whatever the request says; so its lease counts. */
static void a_request_is_judged_by_the_operation_it_will_have(void **state)
{
    char error[CLIENT_REQUEST_ERROR_LEN] = "";
    tg_limit_t valid = {.count = 0};
    tg_request_t request = tg_request_inline("k", &limit);

    (void)state;
    assert_int_equal(client_request_check(&request, TG_RELEASE, &valid, error), TG_EINVALID);
    assert_non_null(strstr(error, "lease_id: found 0, expected "));
    assert_int_equal(client_request_check(&request, TG_RENEW, &valid, error), TG_EINVALID);
    request.operation = TG_RELEASE;
    assert_int_equal(client_request_check(&request, TG_CHECK, &valid, error), 0);
    request.lease_id = 9;
    assert_int_equal(client_request_check(&request, -1, &valid, error), 0);
}

struct build {
    struct wire_checks_builder builder;
    uint8_t values[8192];
};

/* The cache of the last template never mixes templates up, also when names move in memory. */
static void requests_share_equal_templates_only(void **state)
{
    struct build *build = calloc(1, sizeof *build);
    struct client_template_cache cache = {0};
    char name[] = "ip";
    const tg_attribute_t a[] = {{"ip", "1", TG_STRLEN}};
    const tg_attribute_t moved[] = {{name, "1", TG_STRLEN}};
    const tg_attribute_t other[] = {{"user", "1", TG_STRLEN}};
    const tg_limit_t more = {.count = 6, .window_ns = 60000000000ULL};
    const tg_request_t requests[] = {tg_request(a, 1),
                                     tg_request(a, 1),
                                     tg_request(moved, 1),
                                     tg_request(other, 1),
                                     tg_request(a, 1),
                                     tg_request_inline("k", &limit),
                                     tg_request_inline("j", &limit),
                                     tg_request_inline("k", &more),
                                     tg_request(a, 1)};
    const uint8_t expected[] = {0, 0, 0, 1, 0, 2, 2, 3, 0};

    (void)state;
    assert_non_null(build);
    wire_checks_builder_init(&build->builder, build->values, sizeof build->values);
    for (size_t i = 0; i < sizeof expected; i++) {
        assert_int_equal(client_request_append(&requests[i], -1, &cache, &build->builder), (int)i);
        assert_int_equal(build->builder.template_index[2 * i], expected[i]);
    }
    free(build);
}

/* What a lease was used for goes along with its release, and with nothing else. */
static void a_release_says_what_was_used(void **state)
{
    struct build *build = calloc(1, sizeof *build);
    struct client_template_cache cache = {0};
    char error[CLIENT_REQUEST_ERROR_LEN];
    tg_limit_t valid = {.count = 0};
    tg_request_t request = tg_request_inline("k", &limit);

    (void)state;
    assert_non_null(build);
    wire_checks_builder_init(&build->builder, build->values, sizeof build->values);
    request.lease_id = 9;
    request.used = 40;
    assert_int_equal(client_request_append(&request, TG_CHECK, &cache, &build->builder), 0);
    assert_false(build->builder.states_uses);
    assert_int_equal(client_request_append(&request, TG_RELEASE, &cache, &build->builder), 1);
    assert_true(build->builder.states_uses && build->builder.uses[8] == 40);
    request.used = TG_COST_MAX + UINT64_C(1);
    assert_int_equal(client_request_check(&request, -1, &valid, error), TG_EINVALID);
    free(build);
}

/* Errors of the moment become decisions if that was chosen; mistakes never do. */
static void on_failure_decides_only_for_failures_of_the_moment(void **state)
{
    static const int moment[] = {TG_ETIMEOUT, TG_EUNREACHABLE, TG_EBUSY, TG_EUNAVAILABLE};
    static const int mistakes[] = {TG_EINVALID, TG_EVERSION, TG_EPROTOCOL, TG_ECLOSED, TG_ETOOBIG};
    tg_decision_t decision;

    (void)state;
    for (size_t i = 0; i < sizeof moment / sizeof moment[0]; i++) {
        assert_int_equal(client_decision_fail(&decision, moment[i], TG_FAIL_OPEN), 0);
        assert_true(decision.allowed && decision.degraded && decision.error == moment[i]);
        assert_int_equal(client_decision_fail(&decision, moment[i], TG_FAIL_CLOSED), 0);
        assert_true(!decision.allowed && decision.degraded && decision.error == moment[i]);
        assert_int_equal(decision.retry_after_ms, 1000); /* no denial says that it may be at once */
        assert_int_equal(client_decision_fail(&decision, moment[i], TG_FAIL_ERROR), moment[i]);
        assert_true(!decision.allowed && !decision.degraded);
    }
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        assert_int_equal(client_decision_fail(&decision, mistakes[i], TG_FAIL_OPEN), mistakes[i]);
        assert_int_equal(decision.allowed, 0);
        assert_string_equal(decision.rule, "");
    }
}

/* The rule on trial that would have denied is named, of that outcome alone; what a node of an older
 * release does not tell, and what there is no memory for, is an empty name. */
static void a_rule_on_trial_is_named_behind_the_message(void **state)
{
    const struct wire_decision denied = {.allowed = true, .outcome = OUTCOME_SHADOW_DENIED};
    struct wire_source source = {.rule = wire_text_of("real"),
                                 .window = wire_text_of("5/h"),
                                 .status = 200,
                                 .message = wire_text_of(""),
                                 .node = wire_text_of("n1"),
                                 .shadow_rule = wire_text_of("trial")};
    struct client_intern intern;
    struct client_source interned;
    tg_decision_t decision;

    (void)state;
    assert_int_equal(client_intern_init(&intern, alloc_heap()), 0);
    client_source_intern(&intern, &source, &interned);
    client_decision_fill(&decision, &denied, &interned);
    assert_string_equal(decision.message, "");
    assert_string_equal(tg_shadow_rule(&decision), "trial");
    decision.outcome = TG_ALLOW;
    assert_string_equal(tg_shadow_rule(&decision), "");
    source.shadow_rule = wire_text_of("");
    client_source_intern(&intern, &source, &interned);
    client_decision_fill(&decision, &denied, &interned);
    assert_string_equal(tg_shadow_rule(&decision), "");
    client_decision_fill(&decision, &denied, NULL);
    assert_string_equal(tg_shadow_rule(&decision), "");
    source.message = wire_text_of("WHY");
    source.shadow_rule = wire_text_of("trial");
    client_source_intern(&intern, &source, &interned);
    client_decision_fill(&decision, &denied, &interned);
    assert_string_equal(decision.message, "WHY");
    assert_string_equal(tg_shadow_rule(&decision), "");
    client_intern_fini(&intern);
}

/* No more rows than the caller has room for, and each item its own. */
static void explanations_are_cut_to_the_callers_room(void **state)
{
    static struct wire_explain explain;
    struct client_intern intern;
    tg_explain_t rows[3] = {{0}};
    tg_request_t request = tg_request_inline("k", &limit);
    tg_decision_t decision = {.explain_count = 0};

    (void)state;
    assert_int_equal(client_intern_init(&intern, alloc_heap()), 0);
    for (uint32_t i = 0; i < 7; i++)
        explain.rows[i] = (struct wire_explain_row){.rule = wire_text_of("r"),
                                                    .window = wire_text_of("5/h"),
                                                    .limit = i,
                                                    .retry_after_ms = -1};
    explain.end[0] = 2;
    explain.end[1] = 7;
    request.explain = rows;
    request.explain_max = 3;
    client_decision_explain(&decision, &request, &explain, 0, &intern);
    assert_int_equal(decision.explain_count, 2);
    decision.explain_count = 0;
    client_decision_explain(&decision, &request, &explain, 1, &intern);
    assert_int_equal(decision.explain_count, 3);
    assert_int_equal(rows[0].limit, 2);
    assert_int_equal(rows[2].limit, 4);
    assert_string_equal(rows[2].window, "5/h");
    assert_int_equal(rows[2].retry_after_ms, -1);
    client_intern_fini(&intern);
}

/* A heartbeat of libzmq may end the node that reads it: TCP notices that a node has vanished. */
static void a_link_has_tcp_notice_a_loss_and_sends_no_heartbeats(void **state)
{
    static const struct client_keys no_keys;
    struct client_link link = {.endpoint = "tcp://127.0.0.1:1"};
    void *context = zmq_ctx_new();
    int heartbeats = -1;
    int patience_ms = -1;
    size_t len = sizeof heartbeats;

    (void)state;
    assert_non_null(context);
    assert_int_equal(client_link_open(&link, context, &no_keys, 1), 0);
    assert_int_equal(zmq_getsockopt(link.socket, ZMQ_HEARTBEAT_IVL, &heartbeats, &len), 0);
    assert_int_equal(zmq_getsockopt(link.socket, ZMQ_TCP_MAXRT, &patience_ms, &len), 0);
    client_link_close(&link);
    (void)zmq_ctx_term(context);
    assert_int_equal(heartbeats, 0);
    assert_int_equal(patience_ms, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pending_messages_are_found_by_seq_until_removed),
        cmocka_unit_test(equal_texts_are_interned_once),
        cmocka_unit_test(interned_texts_are_bounded),
        cmocka_unit_test(endpoint_lists_are_read),
        cmocka_unit_test(a_link_has_tcp_notice_a_loss_and_sends_no_heartbeats),
        cmocka_unit_test(routes_follow_the_ring),
        cmocka_unit_test(a_link_that_decides_all_is_told_without_a_hash),
        cmocka_unit_test(attribute_hashes_tell_attributes_apart),
        cmocka_unit_test(bad_requests_have_their_sentence),
        cmocka_unit_test(an_empty_limit_is_refused_by_its_sentence),
        cmocka_unit_test(a_request_is_judged_by_the_operation_it_will_have),
        cmocka_unit_test(requests_share_equal_templates_only),
        cmocka_unit_test(a_release_says_what_was_used),
        cmocka_unit_test(on_failure_decides_only_for_failures_of_the_moment),
        cmocka_unit_test(a_rule_on_trial_is_named_behind_the_message),
        cmocka_unit_test(explanations_are_cut_to_the_callers_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_http_batch.c - questions of handlers, of one check or thousands, in messages to the shard.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/http/http_batch.h"

enum { PEERS = 3, SESSION = 99, OUT = 1 << 20, ROOM = 2 << 10 };

struct bench {
    struct http_batches *batches;
    struct http_facts facts;
    struct gateway_stats stats;
    struct http_stats http_stats;
    struct http_peer peers[PEERS];
    char out[PEERS][OUT];
    uint8_t frame[WIRE_MESSAGE_MAX];
    size_t frame_len;
    uint32_t done; /* completions */
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    struct bench *b = context;
    return &b->peers[token].base;
}

static const struct gateway_finder finder = {find, &bench};

static int setup(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(http_batches_new(alloc_heap(), SESSION, &bench.facts, &bench.stats,
                                      &bench.http_stats, &bench.batches),
                     0);
    for (uint32_t i = 0; i < PEERS; i++) {
        bench.peers[i].base.out.data = bench.out[i];
        bench.peers[i].base.out.capacity = OUT;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_batches_free(&bench.batches);
    return 0;
}

static struct http_exchange exchange_of(uint32_t peer)
{
    struct http_exchange exchange = {
        .facts = &bench.facts, .batches = bench.batches, .peer = &bench.peers[peer], .token = peer};
    exchange.access.rights = RIGHT_OBSERVE;
    http_reply_init(&exchange.reply, &bench.peers[peer].base.out, HTTP_ROOM, exchange.form,
                    http_batches_date(bench.batches));
    return exchange;
}

/* The response: what the handler kept, and the sum of what remains. */
static void complete(struct http_completion *completion)
{
    const uint32_t *kept = completion->context;
    uint64_t sum = 0;
    char text[64];
    for (uint32_t i = 0; i < completion->count; i++) {
        struct wire_decision decision;
        http_decision(completion, i, &decision);
        assert_false(decision.pending);
        sum += decision.remaining;
    }
    (void)snprintf(text, sizeof text, "[%u:%u:%u]", *kept, completion->count, (unsigned)sum);
    http_reply_begin(&completion->reply, 200);
    http_reply_body(&completion->reply, "text/plain");
    http_put_text(&completion->reply, text);
    http_reply_end(&completion->reply);
    bench.done++;
}

/* A handler that asks `count` checks of cost i + 1, of `limits` different limits. */
static enum http_verdict handle(struct http_exchange *exchange, struct http_ask *ask,
                                uint32_t limits, uint32_t kept)
{
    const struct wire_text key = wire_text_of("key");
    uint32_t *context;
    ask->complete = complete;
    const enum http_verdict verdict = http_ask_begin(exchange, ask, (void **)&context);
    if (verdict != HTTP_ASKED)
        return verdict;
    *context = kept;
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct limit limit = {
            .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 1 + i % limits, .window_ns = 1000000000};
        const int template = wire_checks_builder_inline(exchange->builder, &limit);
        if (template == TG_EFULL)
            return http_ask_full(exchange);
        assert_true(template >= 0);
        assert_true(wire_checks_builder_append(exchange->builder, (uint32_t) template,
                                               OPERATION_CHECK, i + 1, &key, 1) >= 0);
    }
    batches_commit(http_batches_of(exchange->batches), &exchange->peer->base);
    return HTTP_ASKED;
}

static enum http_verdict ask(uint32_t peer, uint32_t count, uint32_t limits, uint32_t kept)
{
    struct http_exchange exchange = exchange_of(peer);
    struct http_ask asked = {.count = count, .room = ROOM};
    const enum http_verdict verdict = handle(&exchange, &asked, limits, kept);
    batches_check_invariants(http_batches_of(bench.batches));
    batches_check_peer(http_batches_of(bench.batches), &bench.peers[peer].base, peer);
    return verdict == HTTP_AGAIN ? (enum http_verdict)(HTTP_AGAIN + 1 + (int)exchange.stop)
                                 : verdict;
}

enum { NEEDS = HTTP_AGAIN + 1 }; /* of `ask`: and a reason to stop */

static void submit(void)
{
    const uint8_t *frame;
    bench.frame_len = batches_submit(http_batches_of(bench.batches), &frame);
    memcpy(bench.frame, frame, bench.frame_len);
}

/* The shard answers the frame that was submitted last; the last `pending` checks of it are left. */
static void answer(uint32_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.flags[i] = i + pending >= checks.count ? WIRE_PENDING : WIRE_ALLOWED;
        columns.remaining[i] = wire_checks_cost(&checks, i);
        columns.source_index[i] = WIRE_SOURCE_NONE;
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(http_batches_of(bench.batches), reply, (size_t)len, &finder);
    batches_check_invariants(http_batches_of(bench.batches));
}

static uint32_t count_sent(void)
{
    static struct wire_checks_space space;
    return wire_checks_count(bench.frame, bench.frame_len, &space);
}

static const char *heard(uint32_t peer)
{
    struct gateway_out *out = &bench.peers[peer].base.out;
    out->data[out->len] = '\0';
    return out->data;
}

static void expect_heard(uint32_t peer, const char *text)
{
    if (strstr(heard(peer), text) == NULL)
        print_error("%s\n", heard(peer));
    assert_non_null(strstr(heard(peer), text));
}

static void requests_of_several_checks_share_a_message(void **state)
{
    (void)state;
    assert_int_equal(ask(0, 3, 1, 7), HTTP_ASKED);
    assert_int_equal(ask(1, 2, 1, 8), HTTP_ASKED);
    assert_int_equal(ask(0, 1, 1, 9), HTTP_ASKED);
    submit();
    answer(0);
    expect_heard(0, "[7:3:6]HTTP/1.1 200 OK");
    expect_heard(0, "[9:1:1]");
    expect_heard(1, "[8:2:3]");
    assert_int_equal(bench.stats.checks, 6);
    assert_int_equal(bench.stats.batches, 1);
}

static void a_request_may_have_as_many_checks_as_a_message(void **state)
{
    (void)state;
    assert_int_equal(ask(0, WIRE_CHECKS_MAX, 256, 1), HTTP_ASKED);
    assert_true(batches_full(http_batches_of(bench.batches)));
    assert_int_equal(ask(1, 1, 1, 2), (int)NEEDS + (int)GATEWAY_NEED_SUBMIT);
    submit();
    answer(1); /* one of them is another node's */
    assert_int_equal(bench.done, 0);
    answer(0);
    expect_heard(0, "[1:4096:8390656]");
    assert_int_equal(http_batches_of(bench.batches)->waiting, 0);
}

static void what_does_not_fit_beside_others_comes_in_the_next_message(void **state)
{
    (void)state;
    assert_int_equal(ask(0, 2, 2, 1), HTTP_ASKED);
    assert_int_equal(ask(1, BATCH_MAX, 1, 2), (int)NEEDS + (int)GATEWAY_NEED_SUBMIT);
    submit();
    assert_int_equal(ask(1, 300, 256, 2), HTTP_ASKED);
    answer(0);
    expect_heard(0, "[1:2:3]");
    submit();
    answer(0);
    expect_heard(1, "[2:300:45150]");
}

static void too_many_different_limits_are_a_413_and_charge_nothing(void **state)
{
    (void)state;
    assert_int_equal(ask(0, 300, 257, 1), HTTP_ANSWERED);
    expect_heard(0, "HTTP/1.1 413 Content Too Large\r\n");
    assert_int_equal(ask(1, 1, 1, 2), HTTP_ASKED); /* the batch is as it was */
    submit();
    assert_int_equal(count_sent(), 1);
    answer(0);
    expect_heard(1, "[2:1:1]");
    assert_int_equal(bench.stats.checks, 1);
}

static void what_is_cancelled_is_not_asked(void **state)
{
    const struct wire_text key = wire_text_of("key");
    const struct limit limit = {
        .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 77, .window_ns = 1000000000};
    void *context;
    (void)state;
    assert_int_equal(ask(0, 2, 2, 1), HTTP_ASKED);
    struct http_exchange exchange = exchange_of(1);
    const struct http_ask asked = {.count = 1, .room = ROOM, .complete = complete};
    assert_int_equal(http_ask_begin(&exchange, &asked, &context), HTTP_ASKED);
    const int template = wire_checks_builder_inline(exchange.builder, &limit);
    assert_true(wire_checks_builder_append(exchange.builder, (uint32_t) template, OPERATION_CHECK,
                                           5, &key, 1) >= 0);
    http_ask_cancel(&exchange);
    assert_int_equal(ask(1, 1, 1, 3), HTTP_ASKED);
    submit();
    assert_int_equal(count_sent(), 3);
    answer(0);
    expect_heard(0, "[1:2:3]");
    expect_heard(1, "[3:1:1]");
}

static void a_retry_that_is_cancelled_leaves_no_name_behind(void **state)
{
    const struct http_ask asked = {
        .count = 1, .room = ROOM, .complete = complete, .session = 5, .seq = 6};
    void *context;
    (void)state;
    struct http_exchange exchange = exchange_of(0);
    assert_int_equal(http_ask_begin(&exchange, &asked, &context), HTTP_ASKED);
    http_ask_cancel(&exchange);
    struct mp_writer *writer;
    assert_int_equal(http_ask_admin(&exchange, "block", ROOM, complete, &context, &writer),
                     HTTP_ANSWERED); /* it needs more than the route has looked for */
    exchange = exchange_of(0);
    assert_int_equal(http_ask_admin(&exchange, "status", ROOM, complete, &context, &writer),
                     HTTP_ASKED);
    http_ask_cancel(&exchange);
    assert_int_equal(ask(0, 1, 1, 1), HTTP_ASKED);
    assert_int_equal(ask(1, 1, 1, 2), HTTP_ASKED);
    submit();
    answer(0);
    expect_heard(0, "[1:1:1]");
    expect_heard(1, "[2:1:1]");
}

static void a_client_is_in_one_batch_at_a_time(void **state)
{
    (void)state;
    assert_int_equal(ask(0, 1, 1, 1), HTTP_ASKED);
    submit();
    assert_int_equal(ask(1, 1, 1, 2), HTTP_ASKED);
    assert_int_equal(ask(0, 1, 1, 3), (int)NEEDS + (int)GATEWAY_NEED_ANSWER);
    answer(0);
    assert_int_equal(ask(0, 1, 1, 3), HTTP_ASKED);
}

static void a_response_has_its_room_beforehand(void **state)
{
    (void)state;
    bench.peers[0].base.out.capacity = 3 * ROOM;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(0, 1, 1, 1), HTTP_ASKED);
    struct http_exchange exchange = {.batches = bench.batches, .peer = &bench.peers[0]};
    struct http_ask asked = {.count = 1, .room = ROOM};
    assert_int_equal(handle(&exchange, &asked, 1, 1), HTTP_AGAIN);
    assert_int_equal(exchange.stop, GATEWAY_NEED_ROOM);
    assert_int_equal(bench.peers[0].base.room, ROOM);
    submit();
    answer(0);
    asked.room = 4 * ROOM;
    exchange = exchange_of(0);
    assert_int_equal(handle(&exchange, &asked, 1, 1), HTTP_AGAIN);
    bench.peers[0].base.cramped = true; /* the loop has no more */
    exchange = exchange_of(0);
    assert_int_equal(handle(&exchange, &asked, 1, 1), HTTP_ANSWERED);
    expect_heard(0, "HTTP/1.1 503 Service Unavailable\r\n");
}

static void complete_too_long(struct http_completion *completion)
{
    http_reply_begin(&completion->reply, 200);
    http_reply_body(&completion->reply, "text/plain");
    for (int i = 0; i < ROOM; i++)
        http_put_text(&completion->reply, "too long");
    http_reply_end(&completion->reply);
}

static void a_response_that_does_not_fit_is_a_500(void **state)
{
    struct http_exchange exchange = exchange_of(0);
    struct http_ask asked = {.count = 1, .room = ROOM};
    const struct http_ask long_one = {.count = 1, .room = ROOM, .complete = complete_too_long};
    const struct wire_text key = wire_text_of("key");
    const struct limit limit = {
        .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 1, .window_ns = 1000000000};
    void *context;
    (void)state;
    assert_int_equal(http_ask_begin(&exchange, &long_one, &context), HTTP_ASKED);
    const int template = wire_checks_builder_inline(exchange.builder, &limit);
    assert_true(wire_checks_builder_append(exchange.builder, (uint32_t) template, OPERATION_CHECK,
                                           1, &key, 1) >= 0);
    batches_commit(http_batches_of(bench.batches), &exchange.peer->base);
    exchange = exchange_of(0);
    assert_int_equal(handle(&exchange, &asked, 1, 4), HTTP_ASKED);
    submit();
    answer(0);
    assert_memory_equal(heard(0), "HTTP/1.1 500 Internal Server Error\r\n", 36);
    expect_heard(0, "[4:1:1]");
    assert_int_equal(bench.http_stats.failed, 1);
}

/* A retry keeps its name, so that the shard gives its first answer again. */
static void a_retry_is_a_message_of_its_own_name(void **state)
{
    static struct wire_checks_space space;
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    struct http_ask asked = {.count = 2, .room = ROOM, .session = 5, .seq = 6};
    (void)state;
    assert_int_equal(ask(0, 1, 1, 1), HTTP_ASKED);
    struct http_exchange exchange = exchange_of(1);
    assert_int_equal(handle(&exchange, &asked, 1, 2), HTTP_AGAIN);
    assert_int_equal(exchange.stop, GATEWAY_NEED_SUBMIT);
    submit();
    answer(0);
    exchange = exchange_of(1);
    assert_int_equal(handle(&exchange, &asked, 1, 2), HTTP_ASKED);
    assert_true(batches_full(http_batches_of(bench.batches))); /* others are kept out */
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.session, 5);
    assert_int_equal(checks.seq, 6);
    assert_int_equal(checks.flags & (WIRE_FLAG_RETRY | WIRE_FLAG_ONCE), WIRE_FLAG_RETRY);
    exchange = exchange_of(2); /* the same again, before there is an answer */
    assert_int_equal(handle(&exchange, &asked, 1, 3), HTTP_ASKED);
    submit();
    answer(0);
    answer(0);
    expect_heard(1, "[2:2:3]");
    expect_heard(2, "[3:2:3]");
    assert_int_equal(http_batches_of(bench.batches)->waiting, 0);
    assert_int_equal(ask(2, 1, 1, 9), HTTP_ASKED); /* shared again */
    assert_int_equal(ask(1, 1, 1, 9), HTTP_ASKED);
}

/* Its flag is one of the whole message. */
static void what_is_explained_is_a_message_of_its_own(void **state)
{
    static struct wire_checks_space space;
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    struct http_ask asked = {.count = 1, .room = ROOM, .explain = true};
    (void)state;
    assert_int_equal(ask(0, 1, 1, 1), HTTP_ASKED);
    struct http_exchange exchange = exchange_of(1);
    assert_int_equal(handle(&exchange, &asked, 1, 2), HTTP_AGAIN);
    assert_int_equal(exchange.stop, GATEWAY_NEED_SUBMIT);
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.flags & WIRE_FLAG_EXPLAIN, 0);
    answer(0);
    exchange = exchange_of(1);
    assert_int_equal(handle(&exchange, &asked, 1, 2), HTTP_ASKED);
    assert_true(batches_full(http_batches_of(bench.batches))); /* others are kept out */
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.flags & WIRE_FLAG_EXPLAIN, WIRE_FLAG_EXPLAIN);
    answer(0);
    asked.session = asked.seq = 6; /* a retry may be explained, too */
    exchange = exchange_of(2);
    assert_int_equal(handle(&exchange, &asked, 1, 3), HTTP_ASKED);
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.flags & (WIRE_FLAG_EXPLAIN | WIRE_FLAG_RETRY),
                     WIRE_FLAG_EXPLAIN | WIRE_FLAG_RETRY);
    answer(0);
    assert_int_equal(ask(2, 1, 1, 9), HTTP_ASKED); /* shared again */
    submit();
    assert_int_equal(wire_decode_checks(bench.frame, bench.frame_len, &space, &checks, error), 0);
    assert_int_equal(checks.flags & WIRE_FLAG_EXPLAIN, 0);
}

/* Two clients may have chosen the same number: their sessions differ. */
static void retries_are_told_apart_by_both_their_names(void **state)
{
    static uint8_t kept[WIRE_MESSAGE_MAX];
    size_t kept_len = 0;
    (void)state;
    for (uint32_t i = 0; i < PEERS; i++) {
        struct http_ask asked = {.count = i + 1, .room = ROOM, .session = i + 5, .seq = 6};
        struct http_exchange exchange = exchange_of(i);
        assert_int_equal(handle(&exchange, &asked, 1, i), HTTP_ASKED);
        submit();
        if (i == 1) {
            memcpy(kept, bench.frame, bench.frame_len);
            kept_len = bench.frame_len;
        }
    }
    memcpy(bench.frame, kept, kept_len);
    bench.frame_len = kept_len;
    answer(0);
    expect_heard(1, "[1:2:3]");
    assert_int_equal(bench.done, 1);
}

static void complete_admin(struct http_completion *completion)
{
    assert_null(completion->decisions);
    http_reply_begin(&completion->reply, completion->admin->code == 0 ? 200 : 404);
    http_reply_body(&completion->reply, "text/plain");
    http_put(&completion->reply, completion->admin->value.data, completion->admin->value.len);
    http_reply_end(&completion->reply);
}

static void a_command_is_a_message_of_its_own(void **state)
{
    struct mp_token tokens[32];
    struct wire_admin admin;
    struct mp_writer *writer;
    struct mp_writer answered;
    char error[WIRE_ERROR_LEN];
    uint8_t reply[256];
    void *context;
    (void)state;
    struct http_exchange exchange = exchange_of(0);
    assert_int_equal(http_ask_admin(&exchange, "status", ROOM, complete_admin, &context, &writer),
                     HTTP_ASKED);
    mp_put_map(writer, 1);
    mp_put_str(writer, "shard");
    mp_put_uint(writer, 3);
    batches_commit(http_batches_of(bench.batches), &exchange.peer->base);
    assert_int_equal(ask(1, 1, 1, 1), (int)NEEDS + (int)GATEWAY_NEED_SUBMIT);
    submit();
    assert_int_equal(wire_decode_admin(bench.frame, bench.frame_len, tokens, 32, &admin, error), 0);
    assert_memory_equal(admin.command.data, "status", admin.command.len);
    http_batches_now(bench.batches, INT64_C(29000000000));
    batches_expire(http_batches_of(bench.batches), &finder); /* it may take longer than a check */
    assert_int_equal(http_batches_of(bench.batches)->waiting, 1);
    mp_writer_init(&answered, reply, sizeof reply);
    wire_begin_admin_reply(&answered, admin.session, admin.seq, 0);
    mp_put_str(&answered, "fine");
    batches_answer(http_batches_of(bench.batches), reply, answered.len, &finder);
    expect_heard(0, "\r\n\r\n\xa4"
                    "fine");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_of_several_checks_share_a_message),
        TEST(a_request_may_have_as_many_checks_as_a_message),
        TEST(what_does_not_fit_beside_others_comes_in_the_next_message),
        TEST(too_many_different_limits_are_a_413_and_charge_nothing),
        TEST(what_is_cancelled_is_not_asked),
        TEST(a_retry_that_is_cancelled_leaves_no_name_behind),
        TEST(a_client_is_in_one_batch_at_a_time),
        TEST(a_response_has_its_room_beforehand),
        TEST(a_response_that_does_not_fit_is_a_500),
        TEST(what_is_explained_is_a_message_of_its_own),
        TEST(a_retry_is_a_message_of_its_own_name),
        TEST(retries_are_told_apart_by_both_their_names),
        TEST(a_command_is_a_message_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_batches.c - requests of one connection whose answers name them: any batch, any order.
 *
 * What holds of connections with an order is tested by their gates (test_resp_gate.c,
 * test_http_batch.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/batches.h"

enum { SESSION = 3, TOKEN = 7, FRAMES = 4, HEARD = 16 };

struct call {
    struct batch_call base;
    uint32_t stream;
};

struct bench {
    struct batches *batches;
    struct gateway_stats stats;
    struct gateway_peer peer;
    bool gone;
    char out[GATEWAY_OUT_LEN];
    struct {
        uint8_t bytes[4096];
        size_t len;
    } frames[FRAMES];
    uint32_t frame_count;
    uint32_t heard[HEARD]; /* streams in the order of their answers */
    uint32_t heard_count;
    uint32_t failed;
    uint32_t told_gone;
    int code;
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    assert_int_equal(token, TOKEN);
    return bench.gone ? NULL : &bench.peer;
}

static const struct gateway_finder finder = {find, NULL};

static void decided(void *gate, struct gateway_peer *peer, struct batch_call *call,
                    const struct wire_decisions *decisions)
{
    assert_ptr_equal(gate, &bench);
    assert_ptr_equal(peer, &bench.peer);
    assert_true(call->first + call->count <= decisions->head.count);
    bench.heard[bench.heard_count++] = ((struct call *)call)->stream;
}

static void failed(void *gate, struct gateway_peer *peer, struct batch_call *call,
                   const struct batch_failure *failure)
{
    (void)gate;
    (void)peer;
    (void)call;
    bench.failed++;
    bench.code = failure->code;
}

static void is_gone(void *gate, struct batch_call *call)
{
    assert_ptr_equal(gate, &bench);
    assert_true(call->answered);
    bench.told_gone++;
}

/* The same of a call whose notes are all of its stream's number, in its lowest byte. */
static void decided_noting(void *gate, struct gateway_peer *peer, struct batch_call *call,
                           const struct wire_decisions *decisions)
{
    const uint8_t *notes = batches_notes(bench.batches, call);
    const uint32_t stream = ((struct call *)call)->stream;
    for (size_t i = 0; i < call->extra * sizeof(struct call) && i < stream; i++)
        assert_int_equal(notes[i], stream & 255);
    decided(gate, peer, call, decisions);
}

static const struct batch_user noting = {&bench, decided_noting, NULL, failed, is_gone};
static const struct batch_user user = {&bench, decided, NULL, failed, is_gone};

static int setup(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    bench.peer.by_stream = true;
    bench.peer.out.data = bench.out;
    bench.peer.out.capacity = sizeof bench.out;
    return batches_new(alloc_heap(), SESSION, sizeof(struct call), &bench.stats, &bench.batches);
}

static int teardown(void **state)
{
    (void)state;
    batches_free(&bench.batches);
    return 0;
}

static void check(void)
{
    batches_check_invariants(bench.batches);
    batches_check_peer(bench.batches, &bench.peer, TOKEN);
}

/* A request of `count` checks. */
static void ask(uint32_t stream, uint32_t count)
{
    const struct batch_ask asked = {
        .count = count, .kind = BATCH_SHARED, .timeout_ms = BATCH_TIMEOUT_MS};
    const struct limit limit = {
        .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 5, .window_ns = 1000000000};
    const struct wire_text key = wire_text_of("key");
    struct batch_call *place;
    assert_false(batches_elsewhere(bench.batches, &bench.peer));
    assert_int_equal(batches_begin(bench.batches, &asked, &place), BATCH_BEGUN);
    struct call *call = (struct call *)place;
    *call = (struct call){.base = {.token = TOKEN,
                                   .user = &user,
                                   .first = place->first,
                                   .count = place->count,
                                   .room = 100},
                          .stream = stream};
    for (uint32_t i = 0; i < count; i++) {
        const int template = wire_checks_builder_inline(&bench.batches->builder, &limit);
        assert_true(wire_checks_builder_append(&bench.batches->builder, (uint32_t) template,
                                               OPERATION_CHECK, 1, &key, 1) >= 0);
    }
    batches_commit(bench.batches, &bench.peer);
    check();
}

static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(bench.batches, &frame);
    assert_true(len > 0 && len <= sizeof bench.frames[0].bytes);
    memcpy(bench.frames[bench.frame_count].bytes, frame, len);
    bench.frames[bench.frame_count++].len = len;
    check();
}

/* The shard answers that frame; the checks whose bits are in `pending` are left. */
static void answer(uint32_t number, uint32_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[1 << 16];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    assert_int_equal(wire_decode_checks(bench.frames[number].bytes, bench.frames[number].len,
                                        &space, &checks, error),
                     0);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++) {
        columns.flags[i] = (pending >> i & 1) != 0 ? WIRE_PENDING : WIRE_ALLOWED;
        columns.source_index[i] = WIRE_SOURCE_NONE;
    }
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    batches_answer(bench.batches, reply, (size_t)len, &finder);
    check();
}

static void expect_heard(uint32_t count, const uint32_t *streams)
{
    assert_int_equal(bench.heard_count, count);
    assert_memory_equal(bench.heard, streams, count * sizeof *streams);
}

static void requests_by_stream_are_in_any_batch_and_answered_in_any_order(void **state)
{
    (void)state;
    ask(1, 1);
    submit();
    ask(3, 1);
    submit();
    assert_int_equal(bench.peer.waiting, 2);
    answer(1, 0);
    answer(0, 0);
    expect_heard(2, (const uint32_t[]){3, 1});
    assert_int_equal(bench.peer.waiting, 0);
    assert_int_equal(bench.batches->waiting, 0);
}

static void a_stream_that_waits_holds_up_no_other_of_its_batch(void **state)
{
    (void)state;
    ask(1, 2);
    ask(3, 1);
    ask(5, 1);
    submit();
    answer(0, 2); /* the second check of the first one is another node's */
    expect_heard(2, (const uint32_t[]){3, 5});
    answer(0, 0);
    expect_heard(3, (const uint32_t[]){3, 5, 1});
    assert_int_equal(bench.batches->waiting, 0);
}

static void what_no_answer_came_to_is_given_up_once(void **state)
{
    (void)state;
    ask(1, 1);
    submit();
    ask(3, 1);
    submit();
    bench.batches->now_ns = (BATCH_TIMEOUT_MS + BATCH_GRACE_MS) * INT64_C(1000000) - 1;
    batches_expire(bench.batches, &finder);
    assert_int_equal(bench.failed, 0);
    bench.batches->now_ns++;
    batches_expire(bench.batches, &finder);
    assert_int_equal(bench.failed, 2);
    assert_int_equal(bench.code, TG_ETIMEOUT);
    assert_int_equal(bench.stats.late, 2);
    answer(0, 0);
    assert_int_equal(bench.heard_count, 0);
    assert_int_equal(bench.peer.waiting, 0);
}

/* A request of one check that notes `len` bytes, all of its stream's number. */
static enum batch_begun ask_noting(uint32_t stream, size_t len)
{
    const struct batch_ask asked = {
        .count = 1, .notes_len = len, .kind = BATCH_SHARED, .timeout_ms = BATCH_TIMEOUT_MS};
    const struct limit limit = {
        .algorithm = ALGORITHM_TOKEN_BUCKET, .count = 5, .window_ns = 1000000000};
    const struct wire_text key = wire_text_of("key");
    struct batch_call *place;
    const enum batch_begun begun = batches_begin(bench.batches, &asked, &place);
    if (begun != BATCH_BEGUN)
        return begun;
    struct call *call = (struct call *)place;
    *call = (struct call){.base = {.token = TOKEN,
                                   .user = &noting,
                                   .first = place->first,
                                   .count = place->count,
                                   .extra = place->extra},
                          .stream = stream};
    memset(batches_notes(bench.batches, place), (int)stream, len);
    const int template = wire_checks_builder_inline(&bench.batches->builder, &limit);
    assert_true(wire_checks_builder_append(&bench.batches->builder, (uint32_t) template,
                                           OPERATION_CHECK, 1, &key, 1) >= 0);
    batches_commit(bench.batches, &bench.peer);
    check();
    return begun;
}

static void notes_are_kept_until_the_answer_and_take_places_of_their_batch(void **state)
{
    const uint32_t each = sizeof(struct call);
    (void)state;
    assert_int_equal(ask_noting(10 * each, 10 * each), BATCH_BEGUN); /* 11 places */
    assert_int_equal(ask_noting(1, 1), BATCH_BEGUN);                 /* 2 */
    assert_int_equal(ask_noting(50 * each - 50, 0), BATCH_BEGUN);    /* 1 */
    assert_int_equal(ask_noting(2, 50 * each), BATCH_SUBMIT);        /* 51 of 50 */
    assert_int_equal(ask_noting(3, 49 * each), BATCH_BEGUN);         /* 50 */
    assert_true(batches_full(bench.batches));
    submit();
    assert_int_equal(ask_noting(4, 63 * each), BATCH_BEGUN);
    assert_true(batches_full(bench.batches));
    submit();
    answer(0, 1);
    assert_int_equal(bench.heard_count, 3);
    answer(1, 0);
    answer(0, 0);
    expect_heard(5, (const uint32_t[]){1, 50 * each - 50, 3, 4, 10 * each});
    assert_int_equal(bench.batches->waiting, 0);
    assert_int_equal(ask_noting(5, 7), BATCH_BEGUN);
    submit();
    bench.batches->now_ns += (BATCH_TIMEOUT_MS + BATCH_GRACE_MS) * INT64_C(1000000);
    batches_expire(bench.batches, &finder);
    assert_int_equal(bench.failed, 1);
}

static void nobody_is_told_of_a_connection_that_is_gone(void **state)
{
    (void)state;
    ask(1, 1);
    submit();
    bench.gone = true;
    bench.peer.waiting = bench.peer.reserved = 0;
    answer(0, 0);
    assert_int_equal(bench.heard_count, 0);
    assert_int_equal(bench.told_gone, 1); /* but its protocol, once */
    assert_int_equal(bench.batches->waiting, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_by_stream_are_in_any_batch_and_answered_in_any_order),
        TEST(a_stream_that_waits_holds_up_no_other_of_its_batch),
        TEST(what_no_answer_came_to_is_given_up_once),
        TEST(notes_are_kept_until_the_answer_and_take_places_of_their_batch),
        TEST(nobody_is_told_of_a_connection_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

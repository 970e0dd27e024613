/* test_resp_gate.c - Redis clients at a gate, with a shard that answers when the test wants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "node/gateway/batches.h"
#include "node/gateway/resp_gate.h"
#include "node/gateway/resp_topology.h"
#include "tests/unit/support_effort.h"

enum { PEERS = 8, FRAMES = 4096, SESSION = 99, INPUT = 1 << 16 };

#define MS INT64_C(1000000)

struct frame {
    uint8_t *bytes;
    size_t len;
};

/* Peers with what they have sent and have been sent, and frames that the shard has not answered. */
struct bench {
    struct resp_gate *gate;
    struct resp_peer peers[PEERS];
    bool gone[PEERS];
    char out[PEERS][GATEWAY_OUT_LEN];
    char input[PEERS][INPUT];
    size_t input_len[PEERS];
    enum gateway_stop stop[PEERS];
    struct frame frames[FRAMES];
    uint32_t frame_count;
    int64_t now_ns;
    struct gateway_stats stats;
    bool unused; /* no key is in use */
};

static struct bench bench;

static struct gateway_peer *find(void *context, uint64_t token)
{
    struct bench *b = context;
    return b->gone[token] ? NULL : &b->peers[token].base;
}

static const struct gateway_finder finder = {find, &bench};

static int setup(void **state)
{
    static const _Atomic uint64_t keys = 12;
    const struct resp_facts facts = {.anonymous = ACCESS_ANONYMOUS,
                                     .node_id = 7,
                                     .keys = &keys,
                                     .name = "n1",
                                     .version = "9.9",
                                     .connections_max = 10,
                                     .port = 7603,
                                     .now_ns = MS};
    (void)state;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(resp_gate_new(alloc_heap(), SESSION, &facts, &bench.stats, &bench.gate), 0);
    bench.now_ns = 1700 * 1000 * MS;
    resp_gate_now(bench.gate, bench.now_ns);
    for (uint32_t i = 0; i < PEERS; i++) {
        bench.peers[i].base.id = i + 1;
        resp_peer_init(&bench.peers[i]);
        bench.peers[i].base.out.data = bench.out[i];
        bench.peers[i].base.out.capacity = GATEWAY_OUT_LEN;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < bench.frame_count; i++)
        free(bench.frames[i].bytes);
    resp_gate_free(&bench.gate);
    return 0;
}

/* Looks at the gate and at all who are there. */
static void check_all(void)
{
    batches_check_invariants(resp_gate_batches(bench.gate));
    for (uint32_t i = 0; i < PEERS; i++)
        if (!bench.gone[i])
            batches_check_peer(resp_gate_batches(bench.gate), &bench.peers[i].base, i);
}

/* Gives the open batch to the shard, which keeps it. */
static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(resp_gate_batches(bench.gate), &frame);
    if (len == 0)
        return;
    assert_true(bench.frame_count < FRAMES);
    struct frame *kept = &bench.frames[bench.frame_count++];
    *kept = (struct frame){malloc(len), len};
    assert_non_null(kept->bytes);
    memcpy(kept->bytes, frame, len);
}

/* Has the gate take what it can of what the peer has sent. */
static void feed(uint32_t peer)
{
    size_t used;
    do {
        bench.stop[peer] = resp_gate_take(bench.gate, &bench.peers[peer], peer, bench.input[peer],
                                          bench.input_len[peer], &used);
        assert_true(used <= bench.input_len[peer]);
        bench.input_len[peer] -= used;
        memmove(bench.input[peer], bench.input[peer] + used, bench.input_len[peer]);
        if (bench.stop[peer] == GATEWAY_NEED_SUBMIT)
            submit();
    } while (bench.stop[peer] == GATEWAY_NEED_SUBMIT);
    check_all();
}

static void say(uint32_t peer, const char *text)
{
    const size_t len = strlen(text);
    assert_true(len <= INPUT - bench.input_len[peer]);
    memcpy(bench.input[peer] + bench.input_len[peer], text, len);
    bench.input_len[peer] += len;
    feed(peer);
}

/* The answer to an item: remaining is its cost, and a cost of 7 is denied, 8 is busy, 9 an error.
 */
static void decide(const struct wire_checks *checks, uint32_t i, struct wire_sources *sources,
                   struct wire_decision_columns *columns)
{
    const uint64_t cost = wire_checks_cost(checks, i);
    const struct wire_source source = {.rule = wire_text_of("some-rule"), .status = 200};
    columns->outcomes[i] = cost == 7   ? OUTCOME_DENY
                           : cost == 8 ? OUTCOME_BUSY
                           : cost == 9 ? OUTCOME_ERROR
                                       : OUTCOME_ALLOW;
    columns->flags[i] = columns->outcomes[i] == OUTCOME_ALLOW ? WIRE_ALLOWED : 0;
    columns->limit[i] = 100;
    columns->used[i] = bench.unused ? 0 : 100 - cost;
    columns->remaining[i] = cost;
    columns->reset_after_ms[i] = 2500;
    columns->retry_after_ms[i] = cost == 7 ? 1000 : 0;
    columns->source_index[i] = wire_sources_add(sources, &source);
}

/* The shard answers the frame that it was given as number `at`; checks whose bit (of their index,
 * modulo 64) is in `pending` are not decided yet. */
static void answer_partly(uint32_t at, uint64_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    struct frame *frame = &bench.frames[at];
    if (frame->bytes == NULL)
        return;
    if (wire_decode_checks(frame->bytes, frame->len, &space, &checks, error) != 0)
        fail_msg("%s", error);
    assert_int_equal(checks.session, SESSION);
    assert_int_equal(checks.flags, WIRE_FLAG_PARTLY | WIRE_FLAG_ONCE);
    const struct wire_decisions_head head = {
        .session = checks.session, .seq = checks.seq, .count = checks.count};
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < checks.count; i++)
        decide(&checks, i, &sources, &columns);
    for (uint32_t i = 0; i < checks.count; i++)
        if ((pending >> i % 64 & 1) != 0)
            columns.flags[i] = WIRE_PENDING;
    const int len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    assert_true(len > 0);
    if (pending == 0) {
        free(frame->bytes);
        frame->bytes = NULL;
    }
    batches_answer(resp_gate_batches(bench.gate), reply, (size_t)len, &finder);
    check_all();
}

static void answer(uint32_t at)
{
    answer_partly(at, 0);
}

static void answer_all(void)
{
    submit();
    for (uint32_t i = 0; i < bench.frame_count; i++)
        answer(i);
}

/* What the peer has been sent since it was asked last. */
static void expect(uint32_t peer, const char *wanted)
{
    struct gateway_out *out = &bench.peers[peer].base.out;
    assert_false(out->failed);
    if (out->len != strlen(wanted) || memcmp(out->data, wanted, out->len) != 0)
        fail_msg("peer %u: found \"%.*s\", expected \"%s\"", peer, (int)out->len, out->data,
                 wanted);
    out->len = 0;
}

#define THROTTLED(cost) "*5\r\n:0\r\n:16\r\n:" cost "\r\n:-1\r\n:3\r\n"

/* Checks of several clients travel together, and each gets its own answers, in order. */
static void checks_of_several_clients_are_one_message(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\ncl.throttle b 15 30 60 2\r\n");
    say(1, "TG.CHECK api /x user ada COST 3\r\nCL.THROTTLE a 15 30 60 4\r\n");
    expect(0, "");
    answer_all();
    assert_int_equal(bench.frame_count, 1);
    expect(0, THROTTLED("1") THROTTLED("2"));
    expect(1, "*7\r\n:0\r\n:100\r\n:3\r\n:-1\r\n:3\r\n$5\r\nallow\r\n$9\r\nsome-rule\r\n" THROTTLED(
                  "4"));
    assert_int_equal((&bench.stats)->checks, 4);
    assert_int_equal((&bench.stats)->batches, 1);
}

/* Denials, BUSY and who cannot be reached are told apart. */
static void outcomes_are_told_apart(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 7\r\nCL.THROTTLE a 15 30 60 8\r\nCL.THROTTLE a 15 30 60 9\r\n"
           "TG.HIT u a COST 7\r\nTG.HIT u a COST 8\r\nTG.HIT u a COST 9\r\n");
    answer_all();
    expect(0, "*5\r\n:1\r\n:16\r\n:7\r\n:1\r\n:3\r\n"
              "-BUSY the node has more requests than it can decide; try again later\r\n"
              "-UNAVAILABLE no node that holds this key can be reached\r\n"
              "*7\r\n:1\r\n:100\r\n:7\r\n:1\r\n:3\r\n$4\r\ndeny\r\n$9\r\nsome-rule\r\n"
              "-BUSY the node has more requests than it can decide; try again later\r\n"
              "*7\r\n:1\r\n:100\r\n:9\r\n:1\r\n:3\r\n$5\r\nerror\r\n$9\r\nsome-rule\r\n");
    assert_int_equal((&bench.stats)->busy, 2);
}

/* Whatever is answered at once waits for the checks before it. */
static void a_ping_waits_for_the_check_before_it(void **state)
{
    (void)state;
    say(0, "PING\r\nCL.THROTTLE a 15 30 60 1\r\nPING\r\nCL.THROTTLE a 15 30 60 2\r\nCL.THROTTLE "
           "a\r\n");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    expect(0, "+PONG\r\n");
    answer_all();
    expect(0, THROTTLED("1"));
    feed(0);
    expect(0, "+PONG\r\n");
    answer_all();
    feed(0);
    expect(0, THROTTLED("2") "-Cell error: Usage: cl.throttle <key> <max_burst> <count per period> "
                             "<period> [<quantity>]\r\n");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_BYTES);
}

/* While checks of a client are under way, it has no others in a later message; other clients do. */
static void a_client_is_in_one_batch_at_a_time(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\n");
    submit();
    say(0, "CL.THROTTLE a 15 30 60 2\r\n");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    say(1, "CL.THROTTLE a 15 30 60 3\r\n");
    assert_int_equal(bench.stop[1], GATEWAY_NEED_BYTES);
    submit();
    assert_int_equal(bench.frame_count, 2);
    answer(1);
    expect(1, THROTTLED("3"));
    expect(0, "");
    answer(0);
    feed(0);
    answer_all();
    expect(0, THROTTLED("1") THROTTLED("2"));
}

/* A check that waits for its leader holds up what is behind it on its own connection, and nobody
 * else in its batch; each is answered once. */
static void a_check_that_waits_holds_up_its_client_alone(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\nCL.THROTTLE b 15 30 60 2\r\n");
    say(1, "CL.THROTTLE c 15 30 60 3\r\nCL.THROTTLE d 15 30 60 4\r\nCL.THROTTLE e 15 30 60 5\r\n");
    say(2, "CL.THROTTLE f 15 30 60 6\r\nPING\r\n");
    submit();
    assert_int_equal(bench.frame_count, 1);
    answer_partly(0, 1 << 0 | 1 << 3);
    expect(0, "");
    expect(1, THROTTLED("3"));
    expect(2, THROTTLED("6"));
    feed(2);
    expect(2, "+PONG\r\n");
    assert_int_equal(bench.peers[0].base.waiting, 2);
    assert_int_equal(bench.peers[1].base.waiting, 2);
    say(1, "CL.THROTTLE g 15 30 60 1\r\n");
    assert_int_equal(bench.stop[1], GATEWAY_NEED_ANSWER); /* it is in the batch still */
    answer_partly(0, 1 << 3);
    expect(0, THROTTLED("1") THROTTLED("2"));
    expect(1, "");
    assert_int_equal(resp_gate_batches(bench.gate)->waiting, 1);
    answer(0);
    expect(1, THROTTLED("4") THROTTLED("5"));
    assert_int_equal(resp_gate_batches(bench.gate)->waiting, 0);
    feed(1);
    answer_all();
    expect(0, "");
    expect(1, THROTTLED("1"));
}

/* What was answered in part is given up in part. */
static void what_was_answered_is_not_given_up(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\nCL.THROTTLE b 15 30 60 2\r\n");
    say(1, "CL.THROTTLE c 15 30 60 3\r\n");
    submit();
    answer_partly(0, 1 << 1);
    resp_gate_now(bench.gate, bench.now_ns + 2100 * MS);
    batches_expire(resp_gate_batches(bench.gate), &finder);
    expect(
        0,
        THROTTLED(
            "1") "-TIMEOUT the node did not decide in time; whether it counted is not known\r\n");
    expect(1, THROTTLED("3"));
    answer(0);
    expect(0, "");
    assert_int_equal(resp_gate_batches(bench.gate)->waiting, 0);
}

/* Limits that differ in one number alone are not taken for one another. */
static void limits_are_not_mixed_up(void **state)
{
    static struct wire_checks_space space;
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    (void)state;
    say(0, "CL.THROTTLE a 1 3 60\r\nCL.THROTTLE a 2 3 60\r\nCL.THROTTLE a 2 4 60\r\n"
           "CL.THROTTLE a 2 4 61\r\nCL.THROTTLE a 2 4 61\r\nCL.THROTTLE a 1 3 60\r\n");
    submit();
    assert_int_equal(
        wire_decode_checks(bench.frames[0].bytes, bench.frames[0].len, &space, &checks, error), 0);
    const uint64_t wanted[6][3] = {{2, 3, 60}, {3, 3, 60}, {3, 4, 60},
                                   {3, 4, 61}, {3, 4, 61}, {2, 3, 60}};
    assert_int_equal(checks.count, 6);
    assert_int_equal(checks.template_count, 4);
    for (uint32_t i = 0; i < 6; i++) {
        const struct limit *limit = &wire_checks_template(&checks, i)->limit;
        assert_int_equal(limit->burst, wanted[i][0]);
        assert_int_equal(limit->count, wanted[i][1]);
        assert_true(limit->window_ns == wanted[i][2] * 1000 * (uint64_t)MS);
    }
}

/* A check is taken only if its answer has room, whatever is in front of it. */
static void answers_always_have_room(void **state)
{
    struct gateway_out *out = &bench.peers[0].base.out;
    (void)state;
    out->len = GATEWAY_OUT_LEN - RESP_THROTTLE_MAX - RESP_ANSWER_MAX;
    say(0, "CL.THROTTLE a 15 30 60 1\r\nCL.THROTTLE a 15 30 60 2\r\nCL.THROTTLE a 15 30 60 3\r\n");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ROOM);
    assert_int_equal(bench.peers[0].base.waiting, 2);
    answer_all();
    assert_false(out->failed);
    out->len = 0; /* sent */
    feed(0);
    answer_all();
    expect(0, THROTTLED("3"));
}

/* A batch is full at its bound; what is left goes into the next. */
static void a_full_batch_is_submitted(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        say(0, "CL.THROTTLE a 15 30 60 1\r\n");
        say(1, "CL.THROTTLE b 1 1 1 1\r\n");
    }
    assert_int_equal(bench.frame_count, 1);
    assert_int_equal(bench.peers[0].base.waiting, 32);
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    answer(0);
    feed(0);
    feed(1);
    answer_all();
    assert_int_equal((&bench.stats)->checks, 80);
    assert_int_equal(bench.peers[0].base.out.len, 40 * strlen(THROTTLED("1")));
}

/* With no batch left there is BUSY, at once and counted; answers make room again. */
static void without_a_batch_there_is_busy(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < BATCHES_MAX; i++) {
        bench.peers[0].base.waiting = bench.peers[0].base.reserved =
            0; /* as if it were another each time */
        say(0, "CL.THROTTLE a 15 30 60 1\r\n");
        submit();
    }
    assert_int_equal(resp_gate_batches(bench.gate)->waiting, BATCHES_MAX);
    say(1, "CL.THROTTLE a 15 30 60 1\r\nPING\r\n");
    expect(1, "-BUSY the node has more requests than it can decide; try again later\r\n+PONG\r\n");
    assert_int_equal((&bench.stats)->busy, 1);
    bench.gone[0] = true;
    answer_all();
    assert_int_equal(resp_gate_batches(bench.gate)->waiting, 0);
    say(1, "CL.THROTTLE a 15 30 60 1\r\n");
    answer_all();
    expect(1, THROTTLED("1"));
}

/* A batch whose answer does not come is given up; a late answer meets nothing. */
static void what_is_not_answered_is_given_up(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\n");
    submit();
    resp_gate_now(bench.gate, bench.now_ns + 1900 * MS);
    batches_expire(resp_gate_batches(bench.gate), &finder);
    expect(0, "");
    resp_gate_now(bench.gate, bench.now_ns + 2100 * MS);
    batches_expire(resp_gate_batches(bench.gate), &finder);
    expect(0, "-TIMEOUT the node did not decide in time; whether it counted is not known\r\n");
    assert_int_equal((&bench.stats)->late, 1);
    say(1, "CL.THROTTLE a 15 30 60 2\r\n");
    submit();
    answer(0);
    expect(0, "");
    answer(1);
    expect(1, THROTTLED("2"));
}

/* A client that is gone is not answered, and harms nobody in its batch. */
static void who_is_gone_is_not_answered(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\n");
    say(1, "CL.THROTTLE a 15 30 60 2\r\n");
    bench.gone[0] = true;
    answer_all();
    expect(0, "");
    expect(1, THROTTLED("2"));
}

/* An error of the shard is that of every check of the batch. */
static void an_error_of_the_shard_reaches_all(void **state)
{
    uint8_t frame[512];
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\nTG.PEEK u a\r\n");
    submit();
    struct wire_envelope envelope;
    char error[WIRE_ERROR_LEN];
    assert_int_equal(wire_peek(bench.frames[0].bytes, bench.frames[0].len, &envelope, error), 0);
    struct wire_error message = {.session = SESSION,
                                 .seq = envelope.seq,
                                 .code = TG_EUNAVAILABLE,
                                 .text = wire_text_of("this node is about to stop")};
    int len = wire_encode_error(&message, frame, sizeof frame);
    batches_answer(resp_gate_batches(bench.gate), frame, (size_t)len, &finder);
    expect(
        0,
        "-UNAVAILABLE this node is about to stop\r\n-UNAVAILABLE this node is about to stop\r\n");
    batches_answer(resp_gate_batches(bench.gate), frame, (size_t)len,
                   &finder); /* again: nobody waits for it */
    expect(0, "");
}

/* A pool's load is a message of its own, between others. */
static void a_load_is_a_message_of_its_own(void **state)
{
    struct wire_admin admin;
    struct mp_token tokens[64];
    char error[WIRE_ERROR_LEN];
    uint8_t reply[128];
    struct mp_writer writer;
    (void)state;
    say(0, "TG.LOAD api 2\r\nTG.LOAD api x\r\nTG.LOAD api\r\n");
    expect(0, "-ERR expected TG.LOAD pool load, with a load from 0 to 1\r\n"
              "-ERR expected TG.LOAD pool load, with a load from 0 to 1\r\n"
              "-ERR wrong number of arguments for 'tg.load' command; expected pool 0..1\r\n");
    say(1, "CL.THROTTLE a 15 30 60 1\r\n");
    say(0, "TG.LOAD api 0.25\r\nPING\r\n");
    assert_int_equal(bench.frame_count, 1);
    say(2, "CL.THROTTLE a 15 30 60 2\r\n");
    assert_int_equal(bench.frame_count, 2);
    assert_int_equal(
        wire_decode_admin(bench.frames[1].bytes, bench.frames[1].len, tokens, 64, &admin, error),
        0);
    assert_memory_equal(admin.command.data, "pools.report", 12);
    mp_writer_init(&writer, reply, sizeof reply);
    wire_begin_admin_reply(&writer, SESSION, admin.seq, 0);
    mp_put_map(&writer, 0);
    batches_answer(resp_gate_batches(bench.gate), reply, writer.len, &finder);
    free(bench.frames[1].bytes);
    bench.frames[1].bytes = NULL;
    feed(0);
    expect(0, "+OK\r\n+PONG\r\n");
    answer_all();
    expect(2, THROTTLED("2"));
}

/* ---- handshakes ------------------------------------------------------------------------------ */

/* What redis-py, redis-cli, node-redis, ioredis and redis-benchmark send first, byte by byte. */
static void clients_shake_hands(void **state)
{
    (void)state;
    say(0,
        "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n"
        "$10\r\nnode-redis\r\n*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n1.2."
        "3\r\n");
    expect(0,
           "%7\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n$3\r\n9.9\r\n$5\r\nproto\r\n:3"
           "\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
           "$7\r\nmodules\r\n*0\r\n+OK\r\n+OK\r\n");
    say(0, "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n");
    expect(0, "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    say(0, "CLIENT GETNAME\r\n");
    expect(0, "_\r\n");
    say(1, "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$10\r\nappendonly\r\n");
    expect(1, "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    say(1, "HELLO 2 AUTH default pw SETNAME me\r\nCLIENT GETNAME\r\nHELLO 4\r\nHELLO x\r\nHELLO 3 "
           "AUTH "
           "eve pw\r\nHELLO 3 SETNAME\r\n");
    expect(
        1,
        "*14\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n$3\r\n9.9\r\n$5\r\nproto\r\n:2"
        "\r\n$2\r\nid\r\n:2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        "$7\r\nmodules\r\n*0\r\n$2\r\nme\r\n"
        "-NOPROTO unsupported protocol version\r\n"
        "-ERR Protocol version is not an integer or out of range\r\n"
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
        "-ERR Syntax error in HELLO: expected AUTH user password, or SETNAME name\r\n");
    say(1, "AUTH default x\r\nAUTH eve x\r\nSELECT 0\r\nSELECT 16\r\nSELECT a\r\nCLIENT ID\r\n");
    expect(
        1,
        "+OK\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n"
        "-ERR DB index is out of range\r\n-ERR value is not an integer or out of range\r\n:2\r\n");
    say(1, "PING hi\r\nECHO yes\r\nRESET\r\nGET k\r\nECHO\r\nping 1 2\r\n");
    expect(1, "$2\r\nhi\r\n$3\r\nyes\r\n+RESET\r\n"
              "-ERR unknown command 'GET', with args beginning with: 'k' \r\n"
              "-ERR wrong number of arguments for 'echo' command\r\n"
              "-ERR wrong number of arguments for 'ping' command\r\n");
}

/* What redis-py's pipeline sends unless it is told not to: the replies come in one array, each
 * command is decided by itself, and what is in one reply travels as any pipeline would. */
static void a_transaction_is_a_pipeline_with_one_reply(void **state)
{
    (void)state;
    say(0, "MULTI\r\nCL.THROTTLE a 15 30 60 1\r\nPING\r\nCL.THROTTLE a 15 30 60 2\r\n");
    expect(0, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    submit();
    assert_int_equal(bench.frame_count, 0);
    say(0, "EXEC\r\nPING after\r\n");
    assert_int_equal(bench.stop[0], GATEWAY_NEED_ANSWER);
    answer_all();
    feed(0);
    answer_all();
    feed(0);
    expect(0, "*3\r\n" THROTTLED("1") "+PONG\r\n" THROTTLED("2") "$5\r\nafter\r\n");
    say(0, "multi\r\nexec\r\n");
    expect(0, "+OK\r\n*0\r\n");
}

/* Nothing is decided of a transaction in which a command was refused, or that was dropped. */
static void a_spoiled_or_dropped_transaction_decides_nothing(void **state)
{
    (void)state;
    say(0, "MULTI\r\nMULTI\r\nCL.THROTTLE a 15 30 60 1\r\nNOTHING\r\nEXEC\r\nEXEC\r\n");
    expect(0, "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n"
              "-ERR unknown command 'NOTHING', with args beginning with: \r\n"
              "-EXECABORT Transaction discarded because of previous errors.\r\n"
              "-ERR EXEC without MULTI\r\n");
    say(0, "MULTI\r\nNOTHING\r\nCL.THROTTLE a 15 30 60 1\r\nEXEC\r\n");
    expect(0, "+OK\r\n-ERR unknown command 'NOTHING', with args beginning with: \r\n+QUEUED\r\n"
              "-EXECABORT Transaction discarded because of previous errors.\r\n");
    say(0, "MULTI\r\nCL.THROTTLE a 15 30 60 1\r\nDISCARD\r\nDISCARD\r\n");
    expect(0, "+OK\r\n+QUEUED\r\n+OK\r\n-ERR DISCARD without MULTI\r\n");
    say(0, "MULTI\r\nSUBSCRIBE c\r\nECHO\r\nEXEC\r\n");
    expect(0, "+OK\r\n-ERR there is no subscribing in a transaction\r\n"
              "-ERR wrong number of arguments for 'echo' command\r\n"
              "-EXECABORT Transaction discarded because of previous errors.\r\n");
    say(0, "MULTI\r\nCL.THROTTLE a 15 30 60 1\r\nRESET\r\nEXEC\r\n");
    expect(0, "+OK\r\n+QUEUED\r\n+RESET\r\n-ERR EXEC without MULTI\r\n");
    submit();
    assert_int_equal(bench.frame_count, 0);
}

/* Of what a transaction may keep there is a bound; all of it is given back at the connection's end
 * (the sanitizer looks). */
static void a_transaction_has_a_bound(void **state)
{
    enum { TEXT = 8000 };
    static char text[TEXT + 16];
    (void)state;
    (void)snprintf(text, sizeof text, "ECHO %0*d\r\n", TEXT, 1);
    say(0, "MULTI\r\n");
    expect(0, "+OK\r\n");
    for (int i = 0; i < RESP_QUEUE_MAX / TEXT; i++) {
        say(0, text);
        expect(0, "+QUEUED\r\n");
    }
    say(0, text);
    expect(0,
           "-ERR the transaction is too long: expected at most 65536 bytes and 4096 commands\r\n");
    say(1, "MULTI\r\nPING\r\n");
    resp_codec.close(bench.gate, &bench.peers[0].base);
    resp_codec.close(bench.gate, &bench.peers[1].base);
}

/* Many in one batch, some decided later: the replies still come in order, each once. */
static void keys_are_made_new_and_counted(void **state)
{
    (void)state;
    say(0, "DEL a b c\r\nEXISTS a\r\nTYPE a\r\nUNLINK a\r\nCL.THROTTLE a 15 30 60 1\r\n");
    for (int i = 0; i < 5; i++) {
        answer_all();
        feed(0);
    }
    expect(0, ":3\r\n:1\r\n+string\r\n:1\r\n" THROTTLED("1"));
    bench.unused = true;
    say(0, "EXISTS a a b\r\nTYPE a\r\n");
    answer_all();
    feed(0);
    answer_all();
    expect(0, ":0\r\n+none\r\n");
    bench.unused = false;
    say(0, "DEL a b\r\n");
    submit();
    answer_partly(bench.frame_count - 1, 1);
    expect(0, "");
    answer(bench.frame_count - 1);
    expect(0, ":2\r\n");
}

/* Two and a half seconds, as the shard tells; Redis rounds them up. */
static void a_key_in_use_has_a_time_to_live(void **state)
{
    (void)state;
    say(0, "TTL a\r\nPTTL a\r\n");
    answer_all();
    expect(0, ":3\r\n:2500\r\n");
    bench.unused = true;
    say(0, "PTTL a\r\nTTL a\r\n");
    answer_all();
    expect(0, ":-2\r\n:-2\r\n");
    bench.unused = false;
    say(0, "TTL a b\r\n");
    expect(0, "-ERR wrong number of arguments for 'ttl' command; expected key\r\n");
    say(0, "PTTL a\r\n");
    submit();
    bench.now_ns += 5000 * MS;
    resp_gate_now(bench.gate, bench.now_ns);
    batches_expire(resp_gate_batches(bench.gate), &finder);
    expect(0, "-UNAVAILABLE the node did not decide; what became of the keys is not known\r\n");
}

/* A shard that did not decide does not say that there was no key. */
static void keys_of_which_nothing_is_known_are_an_error(void **state)
{
    (void)state;
    say(0, "DEL a b\r\n");
    submit();
    bench.now_ns += 5000 * MS;
    resp_gate_now(bench.gate, bench.now_ns);
    batches_expire(resp_gate_batches(bench.gate), &finder);
    expect(0, "-UNAVAILABLE the node did not decide; what became of the keys is not known\r\n");
    say(0, "EXISTS\r\n");
    expect(0, "-ERR wrong number of arguments for 'exists' command; expected key ...\r\n");
    say(0, "DEL 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 "
           "31 32 33\r\n");
    expect(0, "-ERR too many keys: expected at most 32 of DEL and UNLINK, and 64 of EXISTS\r\n");
}

/* The key of the only check of the frame that was submitted last. */
static void expect_key(const char *key, size_t len)
{
    static struct wire_checks_space space;
    struct wire_checks checks;
    char error[WIRE_ERROR_LEN];
    submit();
    const struct frame *frame = &bench.frames[bench.frame_count - 1];
    assert_int_equal(wire_decode_checks(frame->bytes, frame->len, &space, &checks, error), 0);
    assert_int_equal(checks.count, 1);
    const struct wire_text found = wire_checks_key(&checks, 0);
    assert_int_equal(found.len, len);
    assert_memory_equal(found.data, key, len);
    answer(bench.frame_count - 1);
}

/* The keys of database 0 are those of native clients; others have a name before theirs. */
static void databases_have_keys_of_their_own(void **state)
{
    static char longest[2200];
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\n");
    expect_key("a", 1);
    expect(0, THROTTLED("1"));
    say(0, "SELECT 15\r\nCL.THROTTLE a 15 30 60 1\r\n");
    expect_key("db15\0a", 6);
    expect(0, "+OK\r\n" THROTTLED("1"));
    say(0, "EXISTS a\r\n");
    expect_key("db15\0a", 6);
    expect(0, ":1\r\n");
    (void)snprintf(longest, sizeof longest, "CL.THROTTLE %01020d 15 30 60\r\nDEL %01020d\r\n", 1,
                   1);
    say(0, longest);
    expect(0, "-ERR the key, with its database, has more than 1024 bytes\r\n"
              "-ERR the key, with its database, has more than 1024 bytes\r\n");
    say(0, "SELECT 0\r\nCL.THROTTLE a 15 30 60 1\r\n");
    expect_key("a", 1);
    expect(0, "+OK\r\n" THROTTLED("1"));
}

/* Clients of a cluster and of sentinels are told that this node is all there is, where they have
 * found it. */
static void the_node_is_a_whole_cluster_and_every_master(void **state)
{
    const struct wire_text tagged = wire_text_of("{user1000}.following");
    (void)state;
    (void)snprintf(bench.peers[0].base.local, GATEWAY_ADDRESS_LEN, "10.1.2.3:7613");
    (void)snprintf(bench.peers[1].base.local, GATEWAY_ADDRESS_LEN, "[fd00::1]:7603");
    say(0, "CLUSTER SLOTS\r\n");
    expect(0, "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$8\r\n10.1.2.3\r\n:7613\r\n$40\r\n"
              "0000000000000007000000000000000700000007\r\n*0\r\n");
    say(1, "SENTINEL get-master-addr-by-name any\r\n");
    expect(1, "*2\r\n$7\r\nfd00::1\r\n$4\r\n7603\r\n");
    say(1, "CLUSTER MYID\r\nROLE\r\nREADONLY\r\nWAIT 1 0\r\nSCAN 0\r\nDBSIZE\r\n");
    expect(1, "$40\r\n0000000000000007000000000000000700000007\r\n*3\r\n$6\r\nmaster\r\n:0\r\n"
              "*0\r\n+OK\r\n:0\r\n*2\r\n$1\r\n0\r\n*0\r\n:12\r\n");
    say(1, "CLUSTER KEYSLOT {user1000}.followers\r\n");
    expect(1, ":3443\r\n"); /* as the specification has it */
    assert_int_equal(resp_topology_slot(tagged), 3443);
    assert_int_equal(resp_topology_slot(wire_text_of("123456789")), 0x31c3);
    assert_int_equal(resp_topology_slot(wire_text_of("foo{}{bar}")), 8363);
    say(0, "SUBSCRIBE +switch-master\r\nPING\r\nUNSUBSCRIBE\r\nPING\r\n");
    expect(0, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n"
              "\r\n*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n+PONG\r\n");
}

/* A browser that was made to speak to this port is not listened to. */
static void http_ends_the_connection_whatever_the_method(void **state)
{
    static const char *const lines[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "PATCH /x HTTP/1.0\r\n", "PING x HTTP/1.1\r\n"};
    (void)state;
    for (uint32_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        say(i, lines[i]);
        assert_true(bench.peers[i].base.closing);
        expect(i, "-ERR Protocol error: found HTTP; expected a client of Redis: this is the port "
                  "of --resp\r\n");
    }
    say(3, "*2\r\n$4\r\nECHO\r\n$8\r\nHTTP/1.1\r\n");
    expect(3, "$8\r\nHTTP/1.1\r\n");
}

/* INFO has what clients wait for; COMMAND tells where keys are. */
static void the_node_tells_of_itself(void **state)
{
    struct gateway_out *out = &bench.peers[0].base.out;
    (void)state;
    say(0, "INFO\r\n");
    bench.out[0][out->len] = '\0';
    assert_non_null(strstr(out->data, "loading:0\r\n"));
    assert_non_null(strstr(out->data, "redis_version:7.0.0\r\n"));
    assert_non_null(strstr(out->data, "role:master\r\n"));
    out->len = 0;
    say(0, "INFO persistence\r\n");
    expect(0, "$28\r\n# Persistence\r\nloading:0\r\n\r\n\r\n");
    say(0, "COMMAND INFO cl.throttle nothing\r\n");
    expect(0, "*2\r\n*10\r\n$11\r\ncl.throttle\r\n:-1\r\n*1\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*"
              "0\r\n*0\r\n"
              "*0\r\n$-1\r\n");
    say(0, "COMMAND COUNT\r\n");
    expect(0, ":41\r\n");
    say(0, "CONFIG GET *\r\n");
    assert_memory_equal(out->data, "*14\r\n", 5);
    out->len = 0;
    say(0, "CONFIG GET max?emory p*t\r\n");
    expect(0, "*4\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nport\r\n$4\r\n7603\r\n");
    say(0, "CONFIG SET save x\r\n");
    assert_int_equal(out->data[0], '-');
}

/* QUIT ends the connection, and what is no protocol does, when all before it is answered. */
static void a_connection_ends_in_order(void **state)
{
    (void)state;
    say(0, "CL.THROTTLE a 15 30 60 1\r\nQUIT\r\nPING\r\n");
    assert_false(bench.peers[0].base.closing);
    answer_all();
    feed(0);
    expect(0, THROTTLED("1") "+OK\r\n");
    assert_true(bench.peers[0].base.closing);
    assert_int_equal(bench.stop[0], GATEWAY_AT_END);
    say(1, "CL.THROTTLE a 15 30 60 1\r\n*1\r\nPING\r\n");
    assert_int_equal(bench.stop[1], GATEWAY_NEED_ANSWER);
    answer_all();
    feed(1);
    expect(1, THROTTLED("1") "-ERR Protocol error: expected '$' before each argument\r\n");
    assert_true(bench.peers[1].base.closing);
    assert_int_equal((&bench.stats)->protocol_errors, 1);
}

/* An answer that would be longer than there is room for is an error, and the next one is whole. */
static void too_long_an_answer_is_an_error(void **state)
{
    (void)state;
    say(0, "COMMAND DOCS");
    for (int i = 0; i < 125; i++)
        say(0, " cl.throttle");
    say(0, "\r\nPING\r\n");
    expect(0, "-ERR the answer is too long; ask for less at a time\r\n+PONG\r\n");
}

/* ---- any order ------------------------------------------------------------------------------- */

/* Counts the answers in the peer's output, which are numbered: PONGs of numbers, and throttles. */
static uint32_t count_in_order(uint32_t peer, uint32_t next)
{
    struct gateway_out *out = &bench.peers[peer].base.out;
    size_t at = 0;
    while (at < out->len) {
        char wanted[64];
        int len = snprintf(wanted, sizeof wanted, "$%d\r\n%u\r\n",
                           next < 10    ? 1
                           : next < 100 ? 2
                                        : 3,
                           next);
        if (out->data[at] == '*')
            len = snprintf(wanted, sizeof wanted, "*5\r\n:0\r\n:16\r\n:%u\r\n:-1\r\n:3\r\n", next);
        assert_memory_equal(out->data + at, wanted, (size_t)len);
        at += (size_t)len;
        next++;
    }
    out->len = 0;
    return next;
}

/* However answers and clients are mixed, each client gets its replies in the order of requests. */
static void replies_keep_their_order(void **state)
{
    enum { REQUESTS = 500, FIRST = 10 };
    struct random random;
    uint32_t asked[PEERS];
    uint32_t told[PEERS];
    (void)state;
    random_init(&random, 3);
    for (uint32_t i = 0; i < PEERS; i++)
        asked[i] = told[i] = FIRST;
    bool more = true;
    while (more) {
        const uint32_t peer = (uint32_t)random_below(&random, PEERS);
        const uint64_t burst = random_below(&random, 90);
        for (uint64_t i = 0; i < burst && asked[peer] < REQUESTS; i++) {
            char text[64];
            (void)snprintf(text, sizeof text,
                           random_below(&random, 9) == 0 ? "PING %u\r\n"
                                                         : "CL.THROTTLE k 15 30 60 %u\r\n",
                           asked[peer]);
            if (strlen(text) > INPUT - bench.input_len[peer])
                break;
            asked[peer]++;
            say(peer, text);
        }
        if (random_below(&random, 2) == 0)
            submit();
        if (bench.frame_count > 0 && random_below(&random, 2) == 0)
            answer_partly(
                (uint32_t)random_below(&random, bench.frame_count),
                random_below(&random, 3) == 0 ? 0 : random_next(&random) & random_next(&random));
        if (random_below(&random, 16) == 0)
            answer_all();
        more = false;
        for (uint32_t i = 0; i < PEERS; i++) {
            told[i] = count_in_order(i, told[i]);
            feed(i);
            more = more || told[i] < REQUESTS;
        }
    }
    assert_int_equal((&bench.stats)->busy, 0);
}

#define WITH_GATE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_GATE(checks_of_several_clients_are_one_message),
        WITH_GATE(outcomes_are_told_apart),
        WITH_GATE(a_ping_waits_for_the_check_before_it),
        WITH_GATE(a_client_is_in_one_batch_at_a_time),
        WITH_GATE(a_check_that_waits_holds_up_its_client_alone),
        WITH_GATE(what_was_answered_is_not_given_up),
        WITH_GATE(limits_are_not_mixed_up),
        WITH_GATE(answers_always_have_room),
        WITH_GATE(a_full_batch_is_submitted),
        WITH_GATE(without_a_batch_there_is_busy),
        WITH_GATE(what_is_not_answered_is_given_up),
        WITH_GATE(who_is_gone_is_not_answered),
        WITH_GATE(an_error_of_the_shard_reaches_all),
        WITH_GATE(a_load_is_a_message_of_its_own),
        WITH_GATE(clients_shake_hands),
        WITH_GATE(a_transaction_is_a_pipeline_with_one_reply),
        WITH_GATE(a_spoiled_or_dropped_transaction_decides_nothing),
        WITH_GATE(a_transaction_has_a_bound),
        WITH_GATE(keys_are_made_new_and_counted),
        WITH_GATE(a_key_in_use_has_a_time_to_live),
        WITH_GATE(keys_of_which_nothing_is_known_are_an_error),
        WITH_GATE(databases_have_keys_of_their_own),
        WITH_GATE(the_node_is_a_whole_cluster_and_every_master),
        WITH_GATE(http_ends_the_connection_whatever_the_method),
        WITH_GATE(the_node_tells_of_itself),
        WITH_GATE(a_connection_ends_in_order),
        WITH_GATE(too_long_an_answer_is_an_error),
        WITH_GATE(replies_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_zmtp.c - what clients of ZeroMQ send, right and wrong, in any pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/gateway/zmtp.h"

enum { INPUT = 2 << 20, SAID = 64, TOKEN = 77 };

struct bench {
    struct gateway_stats stats;
    struct zmtp_gate gate;
    struct zmtp_peer peer;
    char out[GATEWAY_OUT_LEN];
    uint8_t input[INPUT];
    size_t input_len;
    size_t at; /* of what is not taken yet */
    enum gateway_stop stop;
    size_t lens[SAID];    /* of the messages that came */
    uint8_t firsts[SAID]; /* and their first bytes */
    uint32_t messages;
    bool full; /* no message is taken */
};

static struct bench b;

static bool take_message(void *context, uint64_t token, const void *data, size_t len)
{
    assert_ptr_equal(context, &b);
    assert_int_equal(token, TOKEN);
    if (b.full)
        return false;
    b.lens[b.messages % SAID] = len;
    b.firsts[b.messages % SAID] = len > 0 ? *(const uint8_t *)data : 0;
    b.messages++;
    return true;
}

static int set_up(void **state)
{
    (void)state;
    memset(&b, 0, sizeof b);
    b.gate = (struct zmtp_gate){.message = take_message, .context = &b, .stats = &b.stats};
    b.peer.base.id = 1;
    b.peer.base.out.data = b.out;
    b.peer.base.out.capacity = sizeof b.out;
    zmtp_codec.open(&b.gate, &b.peer.base);
    return 0;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

/* Takes what there is, as a loop would: it goes on for as long as anything is taken. */
static void take(void)
{
    size_t used;
    do {
        b.stop = zmtp_codec.take(&b.gate, &b.peer.base, TOKEN, (const char *)b.input + b.at,
                                 b.input_len - b.at, &used);
        b.at += used;
    } while (used > 0 && b.stop == GATEWAY_NEED_BYTES);
}

/* The bytes come in pieces of that length. */
static void send_in(const void *bytes, size_t len, size_t piece)
{
    for (size_t at = 0; at < len; at += piece) {
        const size_t now = len - at < piece ? len - at : piece;
        assert_true(b.input_len + now <= INPUT);
        memcpy(b.input + b.input_len, (const uint8_t *)bytes + at, now);
        b.input_len += now;
        take();
    }
}

static void send_all(const void *bytes, size_t len)
{
    send_in(bytes, len, len);
}

#define SEND(literal) send_all(literal, sizeof(literal) - 1)

#define ZEROS_8  "\0\0\0\0\0\0\0\0"
#define GREETING "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8

static_assert(sizeof GREETING - 1 == ZMTP_GREETING_LEN, "a greeting");

static void shake_hands(void)
{
    SEND(GREETING);
    SEND("\4\x1c\5READY\xbSocket-Type\0\0\0\6DEALER");
    assert_int_equal(b.peer.state, ZMTP_TRAFFIC);
    b.peer.base.out.len = 0;
}

/* ---- what is answered ------------------------------------------------------------------------ */

static void expect_out(const void *wanted, size_t len)
{
    assert_false(b.peer.base.out.failed);
    assert_int_equal(b.peer.base.out.len, len);
    assert_memory_equal(b.out, wanted, len);
    b.peer.base.out.len = 0;
}

#define EXPECT(literal) expect_out(literal, sizeof(literal) - 1)

/* The peer is told that sentence, and closed. */
static void expect_error(const char *sentence)
{
    const struct gateway_out *out = &b.peer.base.out;
    const size_t len = strlen(sentence);
    assert_int_equal(b.stop, GATEWAY_AT_END);
    assert_true(b.peer.base.closing);
    assert_int_equal(b.stats.protocol_errors, 1);
    assert_true(out->len >= 9 + len);
    const char *command = out->data + out->len - 9 - len;
    assert_int_equal(command[0], 4);
    assert_int_equal(command[1], 7 + len);
    assert_memory_equal(command + 2, "\5ERROR", 6);
    assert_int_equal((uint8_t)command[8], len);
    assert_memory_equal(command + 9, sentence, len);
}

static void expect_end(void)
{
    assert_int_equal(b.stop, GATEWAY_AT_END);
    assert_true(b.peer.base.closing);
    assert_int_equal(b.stats.protocol_errors, 1);
    assert_int_equal(b.peer.base.out.len, ZMTP_GREETING_LEN);
}

#define ROUTER "\4\x29\5READY\xbSocket-Type\0\0\0\6ROUTER\x8Identity\0\0\0\0"

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_dealer_is_greeted_and_taken_in_whatever_it_calls_itself(void **state)
{
    (void)state;
    EXPECT("\xff\0\0\0\0\0\0\0\0\x7f\3\1NULL" ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8 ZEROS_8);
    SEND(GREETING);
    EXPECT("");
    assert_false(b.peer.base.begun);
    SEND("\4\x2e\5READY\xbSocket-Type\0\0\0\6DEALER\x8Identity\0\0\0\5\0abcd");
    assert_true(b.peer.base.begun);
    EXPECT(ROUTER);
}

static void names_of_properties_are_the_same_in_any_case(void **state)
{
    (void)state;
    b.peer.base.out.len = 0;
    SEND(GREETING "\4\x1c\5READY\xbSOCKET-type\0\0\0\6DEALER");
    EXPECT(ROUTER);
}

/* ZMTP-1: however the bytes are cut, the same messages come. */
static void what_comes_does_not_depend_on_how_bytes_are_cut(void **state)
{
    static const char all[] = GREETING "\4\x1c\5READY\xbSocket-Type\0\0\0\6DEALER"
                                       "\0\3abc\2\0\0\0\0\0\0\0\2de\4\xa\4PING\0\0"
                                       "123\0\0f";
    for (size_t piece = 1; piece < sizeof all; piece++) {
        (void)set_up(state);
        b.peer.base.out.len = 0;
        send_in(all, sizeof all - 1, piece);
        assert_int_equal(b.messages, 3);
        assert_int_equal(b.lens[0], 3);
        assert_int_equal(b.lens[1], 2);
        assert_int_equal(b.lens[2], 0);
        assert_int_equal(b.firsts[0], 'a');
        assert_int_equal(b.firsts[1], 'd');
        assert_int_equal(b.stats.checks, 3);
        EXPECT(ROUTER "\4\x8\4PONG123");
    }
}

static void what_is_not_a_greeting_ends_at_once(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } wrong[] = {
        {"GET / HTTP/1.1\r\n", 16},
        {"*1\r\n$4\r\nPING\r\n", 14},
        {"\1\0", 2},                        /* ZMTP 1.0 */
        {"\xff\0\0\0\0\0\0\0\1\x7f\1", 11}, /* 2.0 */
        {"\xff\0\0\0\0\0\0\0\1\x7e", 10},
        {"\xff\0\0\0\0\0\0\0\1\x7f\3\1"
         "CURVE",
         17},
        {"\xff\0\0\0\0\0\0\0\1\x7f\3\1NULLS", 17},
        {"\x16\3\1", 3}, /* TLS */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void)set_up(state);
        send_all(wrong[i].bytes, wrong[i].len);
        expect_end();
    }
}

static void a_greeting_is_waited_for_while_it_may_still_be_one(void **state)
{
    for (size_t len = 1; len < ZMTP_GREETING_LEN; len++) {
        (void)set_up(state);
        send_all(GREETING, len);
        assert_int_equal(b.stop, GATEWAY_NEED_BYTES);
        assert_int_equal(b.at, 0);
    }
}

static void handshakes_of_others_are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *sentence;
    } wrong[] = {
        {"\4\x19\5READY\xbSocket-Type\0\0\0\3REQ", 27, "expected a socket of type DEALER"},
        {"\4\x1c\5READY\xbSocket-Type\0\0\0\6ROUTER", 30, "expected a socket of type DEALER"},
        {"\4\6\5READY", 8, "expected metadata with a Socket-Type behind READY"},
        {"\4\x1c\5READY\xbSocket-Type\0\0\0\7DEALER", 30,
         "expected metadata with a Socket-Type behind READY"},
        {"\4\7\5READY\0", 9, "expected metadata with a Socket-Type behind READY"},
        {"\4\xa\5READY\3abc", 12, "expected metadata with a Socket-Type behind READY"},
        {"\4\6\5HELLO", 8, "expected the command READY"},
        {"\4\0", 2, "expected a command with a name"},
        {"\4\1\0", 3, "expected a command with a name"},
        {"\4\2\5R", 4, "expected a command with a name"},
        {"\0\0", 2, "expected the command READY"},
        {"\5\0", 2, "expected a command in one frame"},
        {"\6\0\0\0\0\0\0\x10\1", 9, "expected a command of at most 4096 bytes"},
        {"\x8\0", 2, "expected flags of MORE, LONG and COMMAND alone"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void)set_up(state);
        SEND(GREETING);
        send_all(wrong[i].bytes, wrong[i].len);
        expect_error(wrong[i].sentence);
        assert_int_equal(b.messages, 0);
    }
}

/* The other side's ERROR ends the connection, and is not answered by another one. */
static void an_error_of_the_peer_ends_without_a_word(void **state)
{
    (void)state;
    SEND(GREETING "\4\xb\5ERROR\4oops");
    expect_end();
}

/* The shard says so in the client's own protocol, and is the first to. */
static void a_message_of_several_frames_is_told_once_and_ends_the_connection(void **state)
{
    (void)state;
    shake_hands();
    SEND("\1\1a\1\1b");
    assert_int_equal(b.messages, 1);
    assert_int_equal(b.lens[0], 0);
    expect_error("expected messages of one frame");
    SEND("\0\1c");
    assert_int_equal(b.messages, 1);
    assert_int_equal(b.stop, GATEWAY_AT_END);
}

/* ZMTP-3: by its head, before anything of it has come. */
static void a_frame_that_is_too_long_is_refused_by_its_head(void **state)
{
    shake_hands();
    SEND("\2\0\0\0\0\0\x10\0\1");
    expect_error("expected a message of at most 1048576 bytes");
    (void)set_up(state);
    shake_hands();
    SEND("\2\xff\xff\xff\xff\xff\xff\xff\xff");
    expect_error("expected a message of at most 1048576 bytes");
}

static void the_longest_message_is_taken_and_asked_for_in_one_piece(void **state)
{
    static uint8_t message[ZMTP_HEAD_MAX + WIRE_MESSAGE_MAX] = "\2\0\0\0\0\0\x10\0\0m";
    (void)state;
    shake_hands();
    send_all(message, ZMTP_HEAD_MAX + 10);
    assert_int_equal(b.peer.base.need, sizeof message);
    assert_int_equal(sizeof message, ZMTP_PENDING_MAX);
    send_all(message + ZMTP_HEAD_MAX + 10, WIRE_MESSAGE_MAX - 10);
    assert_int_equal(b.messages, 1);
    assert_int_equal(b.lens[0], WIRE_MESSAGE_MAX);
    assert_int_equal(b.peer.base.need, 0);
}

/* ZMTP-4 */
static void few_pings_a_second_are_answered(void **state)
{
    static const char context_too_long[] = "\4\x18\4PING\0\0"
                                           "12345678901234567";
    (void)state;
    shake_hands();
    zmtp_codec.now(&b.gate, INT64_C(5000000000));
    SEND("\4\x17\4PING\0\0"
         "1234567890123456");
    EXPECT("\4\x15\4PONG"
           "1234567890123456");
    SEND(context_too_long);
    SEND("\4\6\4PING\0");
    EXPECT("");
    for (int i = 0; i < 100; i++)
        SEND("\4\7\4PING\0\0");
    assert_int_equal(b.peer.base.out.len, (ZMTP_PONGS_MAX - 1) * 7);
    b.peer.base.out.len = 0;
    zmtp_codec.now(&b.gate, INT64_C(6000000000));
    SEND("\4\7\4PING\0\0");
    EXPECT("\4\5\4PONG");
}

static void commands_that_are_of_no_concern_are_skipped(void **state)
{
    (void)state;
    shake_hands();
    SEND("\4\xb\x9SUBSCRIBEx\4\5\4PONG\4\5\4WHAT\0\2hi");
    EXPECT("");
    assert_int_equal(b.messages, 1);
    assert_int_equal(b.firsts[0], 'h');
}

/* What a turn does not take is offered again, with all behind it. */
static void what_is_not_taken_is_offered_again(void **state)
{
    (void)state;
    shake_hands();
    b.full = true;
    SEND("\0\1a\0\1b");
    assert_int_equal(b.stop, GATEWAY_NEED_TURN);
    assert_int_equal(b.messages, 0);
    b.full = false;
    take();
    assert_int_equal(b.messages, 2);
    assert_int_equal(b.firsts[0], 'a');
    assert_int_equal(b.firsts[1], 'b');
    assert_int_equal(b.stats.checks, 2);
}

/* A client that does not read what it was sent is not read from either. */
static void nothing_is_taken_while_answers_have_no_room(void **state)
{
    (void)state;
    shake_hands();
    b.peer.base.out.len = sizeof b.out - 200;
    SEND("\0\1a");
    assert_int_equal(b.stop, GATEWAY_NEED_ROOM);
    assert_int_equal(b.messages, 0);
    b.peer.base.out.len = 0;
    take();
    assert_int_equal(b.messages, 1);
}

static void answers_are_frames_of_either_length(void **state)
{
    static char long_one[256];
    (void)state;
    shake_hands();
    zmtp_codec.put(&b.gate, &b.peer.base, "abc", 3);
    EXPECT("\0\3abc");
    zmtp_codec.put(&b.gate, &b.peer.base, long_one, 255);
    assert_memory_equal(b.out, "\0\xff", 2);
    assert_int_equal(b.peer.base.out.len, 257);
    b.peer.base.out.len = 0;
    zmtp_codec.put(&b.gate, &b.peer.base, long_one, 256);
    assert_memory_equal(b.out, "\2\0\0\0\0\0\0\1\0", 9);
    assert_int_equal(b.peer.base.out.len, 265);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_dealer_is_greeted_and_taken_in_whatever_it_calls_itself),
        TEST(names_of_properties_are_the_same_in_any_case),
        TEST(what_comes_does_not_depend_on_how_bytes_are_cut),
        TEST(what_is_not_a_greeting_ends_at_once),
        TEST(a_greeting_is_waited_for_while_it_may_still_be_one),
        TEST(handshakes_of_others_are_refused_with_a_sentence),
        TEST(an_error_of_the_peer_ends_without_a_word),
        TEST(a_message_of_several_frames_is_told_once_and_ends_the_connection),
        TEST(a_frame_that_is_too_long_is_refused_by_its_head),
        TEST(the_longest_message_is_taken_and_asked_for_in_one_piece),
        TEST(few_pings_a_second_are_answered),
        TEST(commands_that_are_of_no_concern_are_skipped),
        TEST(what_is_not_taken_is_offered_again),
        TEST(nothing_is_taken_while_answers_have_no_room),
        TEST(answers_are_frames_of_either_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

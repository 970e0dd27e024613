/* test_wire.c - every message by the vectors file, and hostile bytes of every kind.
 *
 * `use` decodes a frame as what it claims to be, then touches everything that the decoded struct
 * promises to be in range, and encodes it again. Frames are given in blocks of exactly
 * their size, so that under AddressSanitizer a single byte too far is seen.
 */
#include "client/protocol/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/random.h"
#include "tests/unit/support_tokens.h"
#include "tests/unit/support_vectors.h"

struct spaces {
    struct wire_checks_space checks;
    struct wire_checks_builder builder;
    struct wire_decisions_space decisions;
    struct wire_decision_columns columns;
    struct wire_sources sources;
    struct wire_ring_space ring;
    struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    uint8_t values[WIRE_MESSAGE_MAX];
    uint8_t out[WIRE_MESSAGE_MAX];
    char error[WIRE_ERROR_LEN];
    unsigned long sum; /* keeps the touching from being optimised away */
    size_t capacity;   /* of `out`, lowered by a test */
};

static struct vector *vectors;
static size_t vector_count;

static int set_up(void **state)
{
    struct spaces *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->capacity = sizeof s->out;
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void touch(struct spaces *s, struct wire_text text)
{
    for (size_t i = 0; i < text.len; i++)
        s->sum += (unsigned char)text.data[i];
}

static int use_checks(struct spaces *s, const void *frame, size_t len)
{
    struct wire_checks checks;
    int status = wire_decode_checks(frame, len, &s->checks, &checks, s->error);
    int index[WIRE_TEMPLATES_MAX];

    if (status != 0)
        return status;
    wire_checks_builder_init(&s->builder, s->values, sizeof s->values);
    for (uint32_t i = 0; i < checks.template_count; i++) {
        const struct wire_template *template = &checks.templates[i];

        index[i] =
            template->kind == WIRE_TEMPLATE_INLINE
                ? wire_checks_builder_inline(&s->builder, &template->limit)
            : template->kind == WIRE_TEMPLATE_RULES
                ? wire_checks_builder_rules(&s->builder, template->rules, template->value_count)
                : wire_checks_builder_attributes(&s->builder, template->names,
                                                 template->value_count);
        assert_true(index[i] >= 0);
    }
    for (uint32_t i = 0; i < checks.count; i++) {
        struct wire_text values[WIRE_ATTRIBUTES_MAX];
        const uint32_t count = wire_checks_values(&checks, i, values);

        assert_true(wire_checks_operation(&checks, i) < OPERATION_COUNT);
        assert_int_equal(values[0].len, wire_checks_key(&checks, i).len);
        for (uint32_t k = 0; k < count; k++)
            touch(s, values[k]);
        const uint32_t at = (uint32_t)index[bytes_u16_at(checks.template_index, i)];
        const uint64_t used = wire_checks_used(&checks, i);
        const enum operation operation = wire_checks_operation(&checks, i);
        const bool states = wire_names_lease(operation) || operation == OPERATION_RESERVE;
        const int added =
            states && used > 0
                ? wire_checks_builder_append_used(&s->builder, at, checks.operations[i],
                                                  wire_checks_cost(&checks, i), used, values, count)
                : wire_checks_builder_append(&s->builder, at, checks.operations[i],
                                             wire_checks_cost(&checks, i), values, count);
        assert_int_equal(added, (int)i);
    }
    return wire_checks_builder_encode(&s->builder, checks.session, checks.seq, checks.flags,
                                      checks.timeout_ms, s->out, s->capacity);
}

static int use_decisions(struct spaces *s, const void *frame, size_t len)
{
    struct wire_decisions decisions;
    struct wire_decision item;
    int status = wire_decode_decisions(frame, len, &s->decisions, &decisions, s->error);

    if (status != 0)
        return status;
    wire_sources_init(&s->sources);
    for (uint32_t i = 0; i < decisions.head.count; i++) {
        wire_decision_at(&decisions, i, &item);
        assert_true(item.outcome < OUTCOME_COUNT);
        s->columns.outcomes[i] = (uint8_t)item.outcome;
        s->columns.flags[i] =
            (uint8_t)((item.allowed ? WIRE_ALLOWED : 0) | (item.degraded ? WIRE_DEGRADED : 0));
        s->columns.limit[i] = item.limit;
        s->columns.used[i] = item.used;
        s->columns.remaining[i] = item.remaining;
        s->columns.granted[i] = item.granted;
        s->columns.reset_after_ms[i] = item.reset_after_ms;
        s->columns.retry_after_ms[i] = item.retry_after_ms;
        s->columns.delay_ms[i] = item.delay_ms;
        s->columns.vnode[i] = item.vnode;
        s->columns.leases[i] = item.lease;
        s->columns.lease_ms[i] = item.lease_ms;
        s->columns.source_index[i] = WIRE_SOURCE_NONE;
        if (item.source != NULL) {
            touch(s, item.source->rule);
            touch(s, item.source->window);
            touch(s, item.source->message);
            touch(s, item.source->node);
            s->columns.source_index[i] = wire_sources_add(&s->sources, item.source);
        }
    }
    return wire_encode_decisions(&decisions.head, &s->columns, &s->sources, decisions.explain,
                                 s->out, s->capacity);
}

static int use_ring(struct spaces *s, const void *frame, size_t len)
{
    struct wire_ring ring;
    int status = wire_decode_ring(frame, len, &s->ring, &ring, s->error);

    if (status != 0)
        return status;
    for (uint32_t v = 0; v < ring.vnode_count; v++) {
        const uint32_t member = wire_ring_decider(&ring, v);

        if (member != WIRE_MEMBER_NONE)
            touch(s, wire_ring_endpoint(&ring, member, v));
    }
    return wire_encode_ring(&ring, s->out, s->capacity);
}

/* Tokens -> msgpack again, in the shortest form. */
static void put_value(struct mp_writer *writer, const struct wire_value *value)
{
    for (size_t i = 0; i < value->token_count; i++)
        if (!tokens_put(writer, &value->tokens[i]))
            mp_put_bin(writer, value->tokens[i].data, value->tokens[i].count);
}

static int end_value(const struct mp_writer *writer)
{
    return writer->failed ? TG_ETOOBIG : (int)writer->len;
}

/* The value as bytes must parse to the value as tokens. */
static void compare_value(const struct wire_value *value)
{
    struct mp_token *again = calloc(value->token_count + 1, sizeof *again);

    assert_non_null(again);
    assert_int_equal(mp_parse(value->data, value->len, again, value->token_count + 1),
                     (int)value->token_count);
    for (size_t i = 0; i < value->token_count; i++)
        assert_int_equal(again[i].type, value->tokens[i].type);
    free(again);
}

static int use_admin(struct spaces *s, const void *frame, size_t len)
{
    struct wire_admin admin;
    struct mp_writer writer;
    char command[WIRE_NAME_MAX + 1] = "";
    int status = wire_decode_admin(frame, len, s->tokens, WIRE_ADMIN_TOKENS_MAX, &admin, s->error);

    if (status != 0)
        return status;
    compare_value(&admin.arguments);
    memcpy(command, admin.command.data, admin.command.len);
    mp_writer_init(&writer, s->out, s->capacity);
    wire_begin_admin(&writer, admin.session, admin.seq, command);
    put_value(&writer, &admin.arguments);
    return end_value(&writer);
}

static int use_admin_reply(struct spaces *s, const void *frame, size_t len)
{
    struct wire_admin_reply reply;
    struct mp_writer writer;
    int status =
        wire_decode_admin_reply(frame, len, s->tokens, WIRE_ADMIN_TOKENS_MAX, &reply, s->error);

    if (status != 0)
        return status;
    compare_value(&reply.value);
    mp_writer_init(&writer, s->out, s->capacity);
    wire_begin_admin_reply(&writer, reply.session, reply.seq, reply.code);
    put_value(&writer, &reply.value);
    return end_value(&writer);
}

static int use_small(struct spaces *s, uint32_t type, const void *frame, size_t len)
{
    union {
        struct wire_hello hello;
        struct wire_welcome welcome;
        struct wire_get_ring get_ring;
        struct wire_error error;
        uint64_t session;
    } m;
    int status;

    switch (type) {
    case WIRE_HELLO:
        status = wire_decode_hello(frame, len, &m.hello, s->error);
        return status != 0 ? status : wire_encode_hello(&m.hello, s->out, s->capacity);
    case WIRE_WELCOME:
        status = wire_decode_welcome(frame, len, &m.welcome, s->error);
        return status != 0 ? status : wire_encode_welcome(&m.welcome, s->out, s->capacity);
    case WIRE_GET_RING:
        status = wire_decode_get_ring(frame, len, &m.get_ring, s->error);
        return status != 0 ? status : wire_encode_get_ring(&m.get_ring, s->out, s->capacity);
    case WIRE_ERROR:
        status = wire_decode_error(frame, len, &m.error, s->error);
        return status != 0 ? status : wire_encode_error(&m.error, s->out, s->capacity);
    case WIRE_GOODBYE:
        status = wire_decode_goodbye(frame, len, &m.session, s->error);
        return status != 0 ? status : wire_encode_goodbye(m.session, s->out, s->capacity);
    default:
        return TG_EUNSUPPORTED;
    }
}

/* Decodes, touches and re-encodes into s->out. A frame's length, or why it was refused. */
static int use(struct spaces *s, const void *frame, size_t len)
{
    struct wire_envelope envelope;
    int status = wire_peek(frame, len, &envelope, s->error);

    if (status != 0)
        return status;
    switch (envelope.type) {
    case WIRE_CHECKS:
        return use_checks(s, frame, len);
    case WIRE_DECISIONS:
        return use_decisions(s, frame, len);
    case WIRE_RING:
        return use_ring(s, frame, len);
    case WIRE_ADMIN:
        return use_admin(s, frame, len);
    case WIRE_ADMIN_REPLY:
        return use_admin_reply(s, frame, len);
    default:
        return use_small(s, envelope.type, frame, len);
    }
}

/* The same on a block of exactly `len` bytes. */
static int use_exactly(struct spaces *s, const void *frame, size_t len)
{
    uint8_t *block = malloc(len != 0 ? len : 1);
    int status;

    assert_non_null(block);
    if (len != 0)
        memcpy(block, frame, len);
    status = use(s, block, len);
    free(block);
    return status;
}

static bool is_frame(const struct vector *vector)
{
    return vector->vnodes == 0;
}

static bool is_accepted(const struct vector *vector)
{
    return is_frame(vector) && vector->error[0] == '\0';
}

/* What the spec shows is what the codec reads and writes, byte for byte. */
static void every_vector_is_accepted_and_encoded_back(void **state)
{
    struct spaces *s = *state;
    size_t seen = 0;

    for (size_t i = 0; i < vector_count; i++) {
        const struct vector *vector = &vectors[i];
        int len;

        if (!is_accepted(vector))
            continue;
        len = use_exactly(s, vector->frame, vector->len);
        if (len <= 0)
            fail_msg("%s: %d %s", vector->name, len, s->error);
        if (strncmp(vector->name, "newer", 5) == 0)
            continue;
        assert_int_equal(len, (int)vector->len);
        assert_memory_equal(s->out, vector->frame, vector->len);
        seen++;
    }
    assert_true(seen >= WIRE_TYPE_END - 1);
}

/* A refusal names the field, what was found and what was expected. */
static void every_refused_vector_has_its_sentence(void **state)
{
    struct spaces *s = *state;
    size_t seen = 0;

    for (size_t i = 0; i < vector_count; i++) {
        if (!is_frame(&vectors[i]) || vectors[i].error[0] == '\0')
            continue;
        if (use_exactly(s, vectors[i].frame, vectors[i].len) >= 0)
            fail_msg("%s: accepted", vectors[i].name);
        assert_string_equal(s->error, vectors[i].error);
        seen++;
    }
    assert_true(seen >= 40);
}

/* Too many items are told from a malformed message: whoever sent them can send less at once. */
static void more_items_than_fit_are_too_big_and_none_are_malformed(void **state)
{
    const struct {
        const char *name;
        int code;
    } expected[] = {{"refused: n 0", TG_EPROTOCOL},
                    {"refused: n too high", TG_ETOOBIG},
                    {"refused: n explained", TG_ETOOBIG}};
    struct spaces *s = *state;
    size_t seen = 0;

    for (size_t i = 0; i < vector_count; i++)
        for (size_t k = 0; k < sizeof expected / sizeof *expected; k++)
            if (strcmp(vectors[i].name, expected[k].name) == 0) {
                assert_int_equal(use_exactly(s, vectors[i].frame, vectors[i].len),
                                 expected[k].code);
                seen++;
            }
    assert_int_equal(seen, sizeof expected / sizeof *expected);
}

/* A frame cut anywhere is refused, and nothing behind the cut is read. */
static void every_prefix_of_every_vector_is_refused(void **state)
{
    struct spaces *s = *state;

    for (size_t i = 0; i < vector_count; i++) {
        if (!is_accepted(&vectors[i]))
            continue;
        for (size_t len = 0; len < vectors[i].len; len++)
            assert_true(use_exactly(s, vectors[i].frame, len) < 0);
    }
}

/* With any less room than the frame needs, an encoder says so and writes no byte too many. */
static void an_encoder_never_writes_beyond_its_bound(void **state)
{
    struct spaces *s = *state;

    for (size_t i = 0; i < vector_count; i++) {
        if (!is_accepted(&vectors[i]) || strncmp(vectors[i].name, "newer", 5) == 0)
            continue;
        for (size_t capacity = 0; capacity < vectors[i].len; capacity++) {
            s->capacity = capacity;
            memset(s->out, 0xee, vectors[i].len);
            assert_int_equal(use(s, vectors[i].frame, vectors[i].len), TG_ETOOBIG);
            assert_int_equal(s->out[capacity], 0xee);
        }
        s->capacity = vectors[i].len;
        assert_int_equal(use(s, vectors[i].frame, vectors[i].len), (int)vectors[i].len);
    }
}

/* Each single bit of each vector flipped: refused or decoded, but never out of range. */
static void a_flipped_bit_never_gives_an_index_out_of_range(void **state)
{
    struct spaces *s = *state;

    for (size_t i = 0; i < vector_count; i++) {
        uint8_t frame[VECTOR_FRAME_MAX];

        if (!is_accepted(&vectors[i]))
            continue;
        memcpy(frame, vectors[i].frame, vectors[i].len);
        for (size_t bit = 0; bit < vectors[i].len * 8; bit++) {
            frame[bit / 8] = (uint8_t)(frame[bit / 8] ^ 1u << bit % 8);
            (void)use_exactly(s, frame, vectors[i].len);
            frame[bit / 8] = (uint8_t)(frame[bit / 8] ^ 1u << bit % 8);
        }
    }
}

/* Vectors with several bytes overwritten, cut or joined, and plain noise. */
static void random_bytes_never_crash_a_decoder(void **state)
{
    struct spaces *s = *state;
    struct random random;
    unsigned long accepted = 0;

    random_init(&random, 20);
    for (int round = 0; round < 30000; round++) {
        const struct vector *vector = &vectors[random_below(&random, vector_count)];
        uint8_t frame[VECTOR_FRAME_MAX];
        size_t len = vector->len;

        memcpy(frame, vector->frame, len);
        if (random_below(&random, 8) == 0)
            len = random_below(&random, 64);
        for (uint64_t edits = random_below(&random, 5); edits > 0 && len > 0; edits--) {
            static const uint8_t heads[] = {0xc4, 0xc5, 0xc6, 0xcf, 0xd9, 0xdc, 0xdd, 0xdf, 0xff};

            frame[random_below(&random, len)] = random_below(&random, 2) == 0
                                                    ? (uint8_t)random_next(&random)
                                                    : heads[random_below(&random, sizeof heads)];
        }
        accepted += use_exactly(s, frame, len) > 0;
    }
    assert_true(accepted > 1000); /* else the noise never reaches the inner checks */
}

/* A bad body is answered with the seq of its envelope; so is a frame over its bound. */
static void the_envelope_is_read_before_the_body(void **state)
{
    struct spaces *s = *state;
    const uint8_t bad_body[] = {0x9c, 0x01, 0x05, 0x07, 0xcd, 0x01, 0x02, 0xc1};
    struct wire_envelope envelope;
    uint8_t *huge = calloc(1, WIRE_MESSAGE_MAX + 1);

    assert_non_null(huge);
    assert_int_equal(wire_peek(bad_body, sizeof bad_body, &envelope, s->error), 0);
    assert_int_equal(envelope.type, WIRE_CHECKS);
    assert_int_equal(envelope.session, 7);
    assert_int_equal(envelope.seq, 0x102);
    assert_int_equal(use(s, bad_body, sizeof bad_body), TG_EPROTOCOL);
    memcpy(huge, bad_body, sizeof bad_body);
    assert_int_equal(wire_peek(huge, WIRE_MESSAGE_MAX + 1, &envelope, s->error), TG_ETOOBIG);
    assert_string_equal(s->error, "message: found 1048577 bytes, expected at most 1048576");
    assert_int_equal(envelope.seq, 0x102);
    free(huge);
}

/* Two releases without a common version can still tell each other so. */
static void another_major_version_is_told_from_malformed_bytes(void **state)
{
    struct spaces *s = *state;
    const uint8_t newer[] = {0x95, 0x02, 0x05, 0x07, 0x09, 0xc0};
    struct wire_envelope envelope;

    assert_int_equal(wire_peek(newer, sizeof newer, &envelope, s->error), TG_EVERSION);
    assert_int_equal(envelope.version, 2);
    assert_int_equal(envelope.session, 7);
    assert_int_equal(envelope.seq, 9);
    assert_string_equal(s->error, "version: found 2, expected 1");
    assert_int_equal(wire_peek("", 0, &envelope, s->error), TG_EPROTOCOL);
    assert_int_equal(envelope.session, 0);
}

/* A decoder given another message names both. */
static void a_message_of_another_type_is_refused_by_name(void **state)
{
    struct spaces *s = *state;
    const uint8_t goodbye[] = {0x93, 0x01, 0x0a, 0x07};
    struct wire_hello hello;

    assert_int_equal(wire_decode_hello(goodbye, sizeof goodbye, &hello, s->error), TG_EPROTOCOL);
    assert_string_equal(s->error, "type: found 10 (GOODBYE), expected 1 (HELLO)");
}

/* An administrative value with more tokens than the reader has room for is not cut silently. */
static void an_admin_value_over_the_token_space_is_too_big(void **state)
{
    struct spaces *s = *state;
    struct wire_admin_reply reply;
    struct mp_writer writer;

    mp_writer_init(&writer, s->out, sizeof s->out);
    wire_begin_admin_reply(&writer, 1, 2, 0);
    mp_put_array(&writer, 100);
    for (int i = 0; i < 100; i++)
        mp_put_nil(&writer);
    assert_int_equal(wire_decode_admin_reply(s->out, writer.len, s->tokens, 50, &reply, s->error),
                     TG_ETOOBIG);
    assert_int_equal(wire_decode_admin_reply(s->out, writer.len, s->tokens, 107, &reply, s->error),
                     0);
    assert_int_equal(reply.value.token_count, 101);
    assert_int_equal(reply.value.len, 103);
}

/* A sentence over the bound is cut, never refused: it is an answer to an error already. */
static void a_long_error_text_is_cut(void **state)
{
    struct spaces *s = *state;
    char text[600];
    struct wire_error message = {
        .session = 1, .seq = 2, .code = TG_EBUSY, .text = {text, sizeof text}};
    struct wire_error back;
    int len;

    memset(text, 'x', sizeof text);
    len = wire_encode_error(&message, s->out, sizeof s->out);
    assert_true(len > 0);
    assert_int_equal(wire_decode_error(s->out, (size_t)len, &back, s->error), 0);
    assert_int_equal(back.text.len, WIRE_ERROR_LEN - 1);
    message.code = 0;
    assert_int_equal(wire_encode_error(&message, s->out, sizeof s->out), TG_EINVALID);
}

#define with_spaces(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_spaces(every_vector_is_accepted_and_encoded_back),
        with_spaces(every_refused_vector_has_its_sentence),
        with_spaces(more_items_than_fit_are_too_big_and_none_are_malformed),
        with_spaces(every_prefix_of_every_vector_is_refused),
        with_spaces(an_encoder_never_writes_beyond_its_bound),
        with_spaces(a_flipped_bit_never_gives_an_index_out_of_range),
        with_spaces(random_bytes_never_crash_a_decoder),
        with_spaces(the_envelope_is_read_before_the_body),
        with_spaces(another_major_version_is_told_from_malformed_bytes),
        with_spaces(a_message_of_another_type_is_refused_by_name),
        with_spaces(an_admin_value_over_the_token_space_is_too_big),
        with_spaces(a_long_error_text_is_cut),
    };
    int failed;

    vector_count = vectors_read(&vectors);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(vectors);
    return failed;
}

/* fuzz_wire.c - every decoder of the client protocol, and what it decoded written again.
 *
 * Property: what a decoder accepted can be encoded, the bytes decode again, and encoding that gives
 * the same bytes. (Not those of the input: numbers may be written longer than needed.)
 */
#include "client/protocol/wire.h"
#include "tests/fuzz/fuzz.h"

static uint8_t first[WIRE_MESSAGE_MAX];
static uint8_t second[WIRE_MESSAGE_MAX];
static char error[WIRE_ERROR_LEN];

/* Both encodings are there and equal. */
static void expect_same(int a, int b)
{
    ASSERT(a > 0 && a == b);
    ASSERT(memcmp(first, second, (size_t)a) == 0);
}

static void try_hello(const uint8_t *data, size_t len)
{
    struct wire_hello hello;
    if (wire_decode_hello(data, len, &hello, error) != 0) {
        return;
    }
    const int a = wire_encode_hello(&hello, first, sizeof(first));
    ASSERT(a > 0 && wire_decode_hello(first, (size_t)a, &hello, error) == 0);
    expect_same(a, wire_encode_hello(&hello, second, sizeof(second)));
}

static void try_welcome(const uint8_t *data, size_t len)
{
    struct wire_welcome welcome;
    if (wire_decode_welcome(data, len, &welcome, error) != 0) {
        return;
    }
    const int a = wire_encode_welcome(&welcome, first, sizeof(first));
    ASSERT(a > 0 && wire_decode_welcome(first, (size_t)a, &welcome, error) == 0);
    expect_same(a, wire_encode_welcome(&welcome, second, sizeof(second)));
}

static void try_small(const uint8_t *data, size_t len)
{
    struct wire_get_ring ring;
    struct wire_error failure;
    uint64_t session = 0;
    if (wire_decode_goodbye(data, len, &session, error) == 0) {
        const int a = wire_encode_goodbye(session, first, sizeof(first));
        ASSERT(a > 0 && wire_decode_goodbye(first, (size_t)a, &session, error) == 0);
        expect_same(a, wire_encode_goodbye(session, second, sizeof(second)));
    }
    if (wire_decode_get_ring(data, len, &ring, error) == 0) {
        const int a = wire_encode_get_ring(&ring, first, sizeof(first));
        ASSERT(a > 0 && wire_decode_get_ring(first, (size_t)a, &ring, error) == 0);
        expect_same(a, wire_encode_get_ring(&ring, second, sizeof(second)));
    }
    if (wire_decode_error(data, len, &failure, error) == 0) {
        const int a = wire_encode_error(&failure, first, sizeof(first));
        ASSERT(a > 0 && wire_decode_error(first, (size_t)a, &failure, error) == 0);
        expect_same(a, wire_encode_error(&failure, second, sizeof(second)));
    }
}

static void try_ring(const uint8_t *data, size_t len)
{
    static struct wire_ring_space space;
    struct wire_ring ring;
    if (wire_decode_ring(data, len, &space, &ring, error) != 0) {
        return;
    }
    for (uint32_t vnode = 0; vnode < ring.vnode_count; vnode++) {
        const uint32_t member = wire_ring_decider(&ring, vnode);
        if (member != WIRE_MEMBER_NONE) {
            const struct wire_text endpoint = wire_ring_endpoint(&ring, member, vnode);
            ASSERT(endpoint.len <= WIRE_ENDPOINT_LEN_MAX);
        }
    }
    const int a = wire_encode_ring(&ring, first, sizeof(first));
    ASSERT(a > 0 && wire_decode_ring(first, (size_t)a, &space, &ring, error) == 0);
    expect_same(a, wire_encode_ring(&ring, second, sizeof(second)));
}

/* Builds the same checks item by item; the frame's length. */
static int build_again(const struct wire_checks *checks, uint8_t *out)
{
    static struct wire_checks_builder builder;
    static uint8_t values[WIRE_MESSAGE_MAX];
    wire_checks_builder_init(&builder, values, sizeof(values));
    for (uint32_t i = 0; i < checks->count; i++) {
        const struct wire_template *const template = wire_checks_template(checks, i);
        struct wire_text texts[WIRE_ATTRIBUTES_MAX];
        const uint32_t count = wire_checks_values(checks, i, texts);
        ASSERT(count == template->value_count);
        const int index =
            template->kind == WIRE_TEMPLATE_INLINE
                ? wire_checks_builder_inline(&builder, &template->limit)
            : template->kind == WIRE_TEMPLATE_RULES
                ? wire_checks_builder_rules(&builder, template->rules, template->value_count)
                : wire_checks_builder_attributes(&builder, template->names, template->value_count);
        ASSERT(index >= 0);
        const int item =
            wire_checks_builder_append(&builder, (uint32_t)index, checks->operations[i],
                                       wire_checks_cost(checks, i), texts, count);
        if (item == TG_EFULL) {
            return 0; /* the input was as long as a message may be, written more shortly */
        }
        ASSERT(item == (int)i);
    }
    return wire_checks_builder_encode(&builder, checks->session, checks->seq, checks->flags,
                                      checks->timeout_ms, out, WIRE_MESSAGE_MAX);
}

static void try_checks(const uint8_t *data, size_t len)
{
    static struct wire_checks_space space;
    struct wire_checks checks;
    if (wire_checks_retry(data, len, 250, second, sizeof(second)) > 0) {
        /* A retry is made of what this side encoded; other bytes only must do no harm. */
    }
    if (wire_decode_checks(data, len, &space, &checks, error) != 0) {
        return;
    }
    const int a = build_again(&checks, first);
    if (a == 0) {
        return;
    }
    ASSERT(a > 0 && wire_decode_checks(first, (size_t)a, &space, &checks, error) == 0);
    expect_same(a, build_again(&checks, second));
}

static int encode_again(const struct wire_decisions *decisions, uint8_t *out)
{
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    wire_sources_init(&sources);
    for (uint32_t i = 0; i < decisions->source_count; i++) {
        (void)wire_sources_add(&sources, &decisions->sources[i]);
    }
    for (uint32_t i = 0; i < decisions->head.count; i++) {
        struct wire_decision decision;
        wire_decision_at(decisions, i, &decision);
        columns.outcomes[i] = (uint8_t)decision.outcome;
        columns.flags[i] = (uint8_t)((decision.allowed ? WIRE_ALLOWED : 0) |
                                     (decision.degraded ? WIRE_DEGRADED : 0));
        columns.source_index[i] = decision.source == NULL
                                      ? WIRE_SOURCE_NONE
                                      : wire_sources_add(&sources, decision.source);
        columns.vnode[i] = decision.vnode;
        columns.limit[i] = decision.limit;
        columns.used[i] = decision.used;
        columns.remaining[i] = decision.remaining;
        columns.granted[i] = decision.granted;
        columns.reset_after_ms[i] = decision.reset_after_ms;
        columns.retry_after_ms[i] = decision.retry_after_ms;
        columns.delay_ms[i] = decision.delay_ms;
    }
    return wire_encode_decisions(&decisions->head, &columns, &sources, decisions->explain, out,
                                 WIRE_MESSAGE_MAX);
}

static void try_decisions(const uint8_t *data, size_t len)
{
    static struct wire_decisions_space space;
    struct wire_decisions decisions;
    if (wire_decode_decisions(data, len, &space, &decisions, error) != 0) {
        return;
    }
    const int a = encode_again(&decisions, first);
    ASSERT(a > 0 && wire_decode_decisions(first, (size_t)a, &space, &decisions, error) == 0);
    expect_same(a, encode_again(&decisions, second));
}

static void try_admin(const uint8_t *data, size_t len)
{
    static struct mp_token tokens[WIRE_ADMIN_TOKENS_MAX];
    struct wire_admin admin;
    struct wire_admin_reply reply;
    struct mp_cursor cursor;
    if (wire_decode_admin(data, len, tokens, WIRE_ADMIN_TOKENS_MAX, &admin, error) == 0) {
        ASSERT(admin.command.len >= 1 && admin.command.len <= WIRE_NAME_MAX);
        mp_cursor_init(&cursor, admin.arguments.tokens, admin.arguments.token_count);
        (void)mp_get_map(&cursor);
        ASSERT(!cursor.failed);
    }
    if (wire_decode_admin_reply(data, len, tokens, WIRE_ADMIN_TOKENS_MAX, &reply, error) == 0) {
        mp_cursor_init(&cursor, reply.value.tokens, reply.value.token_count);
        mp_skip(&cursor);
        ASSERT(!cursor.failed && cursor.at == cursor.count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct wire_envelope envelope;
    uint8_t *const frame = fuzz_copy(data, len);
    const int peeked = wire_peek(frame, len, &envelope, error);
    ASSERT(peeked <= 0);
    try_hello(frame, len);
    try_welcome(frame, len);
    try_small(frame, len);
    try_ring(frame, len);
    try_checks(frame, len);
    try_decisions(frame, len);
    try_admin(frame, len);
    free(frame);
    return 0;
}

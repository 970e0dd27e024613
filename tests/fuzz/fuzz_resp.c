/* fuzz_resp.c - Redis clients that send anything, at a gate whose shard answers now or later.
 *
 *   input   | op 1 | operand ...        op & 7:  0-3 peer op & 3 sends a piece   | len 1 | bytes |
 *                                                4   the batch is submitted
 *                                                5   a submitted batch is answered | which 1 |
 *                                                6   a peer is gone, and another comes
 *                                                7   time passes, what is late is given up;
 *                                                    op >> 3 says what who has no token may
 *
 * Properties: what is taken never depends on how the bytes are cut; the shard can read whatever the
 * gate sends it (BATCHES-4); no reply is lost for want of room (BATCHES-2); and a peer that is
 * waited for by nobody has been answered all that it asked (BATCHES-3). The gate is whole
 * meanwhile.
 */
#include <stdio.h>
#include <string.h>

#include "node/gateway/batches.h"
#include "node/gateway/resp_gate_state.h"
#include "tests/fuzz/fuzz.h"

enum { PEERS = 4, FRAMES = 16, INPUT = RESP_PENDING_MAX + 256, SESSION = 7, CHECK_EVERY = 16 };

struct peer {
    struct resp_peer peer;
    uint32_t generation;
    size_t len;
    char input[INPUT];
    char out[GATEWAY_OUT_LEN];
};

static struct peer peers[PEERS];
static uint8_t frames[FRAMES][WIRE_MESSAGE_MAX / 8];
static size_t frame_lens[FRAMES];
static struct resp_gate *gate;
static struct gateway_stats stats;
static int64_t now_ns;

static struct gateway_peer *find(void *context, uint64_t token)
{
    (void)context;
    struct peer *peer = &peers[token & 0xff];
    return peer->generation == token >> 8 ? &peer->peer.base : NULL;
}

static const struct gateway_finder finder = {find, NULL};

static void come(struct peer *peer)
{
    peer->generation++;
    peer->len = 0;
    memset(&peer->peer, 0, sizeof peer->peer);
    peer->peer.base.id = peer->generation;
    resp_peer_init(&peer->peer);
    peer->peer.base.out.data = peer->out;
    peer->peer.base.out.capacity = sizeof peer->out;
}

/* The gate must have made a message that the shard takes (BATCHES-4). */
static void answer(uint32_t at, uint8_t pending)
{
    static struct wire_checks_space space;
    static struct wire_decision_columns columns;
    static struct wire_sources sources;
    static uint8_t reply[WIRE_MESSAGE_MAX];
    static struct mp_token tokens[64];
    char error[WIRE_ERROR_LEN];
    struct wire_checks checks;
    struct wire_admin admin;
    int len;
    const size_t frame_len = frame_lens[at];
    if (frame_len == 0)
        return;
    if (pending == 0)
        frame_lens[at] = 0;
    if (wire_decode_admin(frames[at], frame_len, tokens, 64, &admin, error) == 0) {
        const struct wire_error message = {SESSION, admin.seq, TG_ENOTFOUND, wire_text_of("no")};
        len = wire_encode_error(&message, reply, sizeof reply);
    } else {
        const int result = wire_decode_checks(frames[at], frame_len, &space, &checks, error);
        ASSERT(result == 0);
        const struct wire_decisions_head head = {
            .session = SESSION, .seq = checks.seq, .count = checks.count};
        wire_sources_init(&sources);
        for (uint32_t i = 0; i < checks.count; i++) {
            columns.outcomes[i] = (uint8_t)(wire_checks_cost(&checks, i) % OUTCOME_COUNT);
            columns.flags[i] = columns.outcomes[i] < OUTCOME_DENY ? WIRE_ALLOWED : 0;
            if ((pending >> i % 4 & 1) != 0)
                columns.flags[i] = WIRE_PENDING;
            columns.remaining[i] = columns.used[i] = wire_checks_cost(&checks, i);
            columns.reset_after_ms[i] = INT64_MAX;
            columns.source_index[i] = WIRE_SOURCE_NONE;
        }
        len = wire_encode_decisions(&head, &columns, &sources, NULL, reply, sizeof reply);
    }
    ASSERT(len > 0);
    batches_answer(resp_gate_batches(gate), reply, (size_t)len, &finder);
}

static void submit(void)
{
    const uint8_t *frame;
    const size_t len = batches_submit(resp_gate_batches(gate), &frame);
    uint32_t at = 0;
    if (len == 0)
        return;
    while (at < FRAMES - 1 && frame_lens[at] != 0)
        at++;
    answer(at, 0);               /* one that was there is answered first */
    if (len > sizeof frames[at]) /* longer than any of these inputs can ask for */
        return;
    memcpy(frames[at], frame, len);
    frame_lens[at] = len;
}

static uint64_t token_of(const struct peer *peer)
{
    return (uint64_t)peer->generation << 8 | (uint64_t)(peer - peers);
}

/* Goes on with a peer as long as it can. */
static void feed(struct peer *peer)
{
    enum gateway_stop stop;
    do {
        size_t used;
        char *const copy = (char *)fuzz_copy((const uint8_t *)peer->input, peer->len);
        stop = resp_gate_take(gate, &peer->peer, token_of(peer), copy, peer->len, &used);
        free(copy);
        ASSERT(!peer->peer.base.out.failed && used <= peer->len); /* BATCHES-2 */
        peer->len -= used;
        memmove(peer->input, peer->input + used, peer->len);
        if (stop == GATEWAY_NEED_SUBMIT)
            submit();
        if (stop == GATEWAY_NEED_ROOM && peer->peer.base.out.len == 0)
            submit();
        if (stop == GATEWAY_NEED_ROOM && peer->peer.base.out.len == 0 &&
            peer->peer.base.waiting > 0)
            return;
        if (stop == GATEWAY_NEED_ROOM)
            peer->peer.base.out.len = 0; /* sent */
    } while (stop == GATEWAY_NEED_SUBMIT || stop == GATEWAY_NEED_ROOM);
    ASSERT(stop != GATEWAY_NEED_ANSWER || peer->peer.base.waiting > 0);
    ASSERT(stop != GATEWAY_NEED_BYTES || peer->len < RESP_PENDING_MAX); /* RESPPARSER-3 */
}

static void take_piece(struct fuzz_input *input, struct peer *peer)
{
    size_t len;
    const uint8_t *piece = fuzz_take(input, fuzz_u8(input), &len);
    if (len > INPUT - peer->len)
        len = INPUT - peer->len;
    memcpy(peer->input + peer->len, piece, len);
    peer->len += len;
    feed(peer);
}

static void take_operation(struct fuzz_input *input)
{
    const uint8_t byte = fuzz_u8(input);
    const uint8_t op = byte & 7;
    switch (op) {
    case 4:
        submit();
        break;
    case 5:
        answer(fuzz_u8(input) % FRAMES, byte >> 4);
        break;
    case 6:
        come(&peers[fuzz_u8(input) % PEERS]);
        break;
    case 7:
        now_ns += INT64_C(700000000);
        resp_gate_now(gate, now_ns);
        batches_expire(resp_gate_batches(gate), &finder);
        gate->facts.anonymous = (uint8_t)(~(unsigned)byte >> 3 & ACCESS_ANONYMOUS);
        break;
    default:
        take_piece(input, &peers[op]);
        break;
    }
}

/* Looks at all peers, and now and then at the gate, which has room for many more batches. */
static void check_all(uint32_t step)
{
    for (uint32_t i = 0; i < PEERS; i++)
        batches_check_peer(resp_gate_batches(gate), &peers[i].peer.base, token_of(&peers[i]));
    if (step % CHECK_EVERY == 0)
        batches_check_invariants(resp_gate_batches(gate));
}

/* The same requests, whole and in pieces of one byte. */
static void try_cuts(const uint8_t *data, size_t len)
{
    static struct resp_request whole;
    static struct resp_request cut;
    const char *error;
    char *const copy = (char *)fuzz_copy(data, len);
    const int result = resp_parse(copy, len, &whole, &error);
    ASSERT(result <= (int)len);
    for (size_t i = 0; i < len && i < 512; i++) {
        const int now = resp_parse(copy, i, &cut, &error);
        ASSERT(now == 0 || now == result);
        if (now != 0)
            break;
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct resp_facts facts = {
        .anonymous = ACCESS_ANONYMOUS, .name = "n", .version = "v", .connections_max = PEERS};
    struct fuzz_input input = fuzz_open(data, len);
    try_cuts(data, len);
    if (gate == NULL && resp_gate_new(alloc_heap(), SESSION, &facts, &stats, &gate) != 0)
        return 0;
    gate->facts.anonymous = ACCESS_ANONYMOUS;
    memset(frame_lens, 0, sizeof frame_lens);
    for (uint32_t i = 0; i < PEERS; i++)
        come(&peers[i]);
    for (uint32_t step = 0; fuzz_more(&input); step++) {
        take_operation(&input);
        check_all(step);
    }
    submit();
    for (uint32_t i = 0; i < FRAMES; i++)
        answer(i, 0);
    now_ns += INT64_C(5000000000);
    resp_gate_now(gate, now_ns);
    batches_expire(resp_gate_batches(gate), &finder);
    for (uint32_t i = 0; i < PEERS; i++)
        ASSERT(peers[i].peer.base.waiting == 0 && peers[i].peer.base.reserved == 0); /* BATCHES-3 */
    ASSERT(resp_gate_batches(gate)->waiting == 0); /* so the next input begins with a gate as new */
    return 0;
}

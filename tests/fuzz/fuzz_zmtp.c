/* fuzz_zmtp.c - a client of ZeroMQ that sends anything, in any pieces.
 *
 *   input   | seed of the pieces 1 | what a turn takes 1 | bytes ...
 *
 * Properties: what is taken, told and answered never depends on how the bytes are cut, nor on how
 * much a turn takes (ZMTP-1); no more than ZMTP_PENDING_MAX bytes are ever waited for (ZMTP-3);
 * what is answered without the shard has room (ZMTP-4); nothing is taken behind the end.
 */
#include "node/gateway/zmtp.h"
#include "tests/fuzz/fuzz.h"

enum { TOKEN = 5 };

/* What became of one way to send the bytes. */
struct told {
    struct gateway_stats stats;
    struct zmtp_gate gate;
    struct zmtp_peer peer;
    uint64_t digest; /* of the messages, and of how many there were */
    uint32_t messages;
    uint32_t budget; /* messages that are left in this turn */
    char out[GATEWAY_OUT_LEN];
    uint64_t sent;   /* digest of what was sent, */
    size_t sent_len; /* and how much that was */
};

static uint64_t mix(uint64_t digest, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static bool take_message(void *context, uint64_t token, const void *data, size_t len)
{
    struct told *told = context;
    ASSERT(token == TOKEN && len <= WIRE_MESSAGE_MAX && told->peer.state == ZMTP_TRAFFIC);
    if (told->budget == 0)
        return false;
    told->budget--;
    told->digest = mix(mix(told->digest, &len, sizeof len), data, len);
    told->messages++;
    return true;
}

static void send_out(struct told *told)
{
    struct gateway_out *out = &told->peer.base.out;
    ASSERT(!out->failed); /* ZMTP-4 */
    told->sent = mix(told->sent, out->data, out->len);
    told->sent_len += out->len;
    out->len = 0;
}

/* Takes what can be taken of `len` bytes; returns how many were. */
static size_t feed(struct told *told, const uint8_t *data, size_t len, uint32_t budget)
{
    size_t at = 0;
    for (;;) {
        size_t used;
        char *const copy = (char *)fuzz_copy(data + at, len - at);
        told->budget = budget;
        const enum gateway_stop stop =
            zmtp_codec.take(&told->gate, &told->peer.base, TOKEN, copy, len - at, &used);
        free(copy);
        ASSERT(used <= len - at);
        at += used;
        ASSERT(told->peer.base.closing == (stop == GATEWAY_AT_END));
        ASSERT(stop != GATEWAY_NEED_BYTES || len - at < ZMTP_PENDING_MAX); /* ZMTP-3 */
        ASSERT(told->peer.base.need <= ZMTP_PENDING_MAX);
        const bool full = told->peer.base.out.len > 0;
        send_out(told);
        if (stop == GATEWAY_NEED_TURN || (stop == GATEWAY_NEED_ROOM && full) ||
            (stop == GATEWAY_NEED_BYTES && used > 0 && at < len))
            continue;
        ASSERT(stop != GATEWAY_NEED_ROOM);
        return at;
    }
}

static void tell(struct told *told, const uint8_t *data, size_t len, uint8_t pieces,
                 uint32_t budget)
{
    size_t from = 0;
    memset(told, 0, sizeof *told);
    told->gate =
        (struct zmtp_gate){.message = take_message, .context = told, .stats = &told->stats};
    told->peer.base.out.data = told->out;
    told->peer.base.out.capacity = sizeof told->out;
    zmtp_codec.open(&told->gate, &told->peer.base);
    send_out(told);
    uint32_t noise = pieces;
    for (size_t to = 0; to < len && !told->peer.base.closing;) {
        noise = noise * 1103515245 + 12345;
        const size_t piece = pieces == 0 ? len : 1 + (noise >> 16) % (1U + pieces);
        to = len - to < piece ? len : to + piece;
        from += feed(told, data + from, to - from, budget);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct told whole;
    static struct told cut;
    struct fuzz_input input = fuzz_open(data, len);
    const uint8_t pieces = fuzz_u8(&input);
    const uint8_t budget = fuzz_u8(&input);
    if (len < 2)
        return 0;
    tell(&whole, data + 2, len - 2, 0, UINT32_MAX);
    tell(&cut, data + 2, len - 2, pieces, 1U + budget);
    ASSERT(whole.messages == cut.messages && whole.digest == cut.digest); /* ZMTP-1 */
    ASSERT(whole.sent_len == cut.sent_len && whole.sent == cut.sent);
    ASSERT(whole.peer.state == cut.peer.state);
    ASSERT(whole.peer.base.closing == cut.peer.base.closing);
    ASSERT(whole.stats.commands == cut.stats.commands && whole.stats.checks == cut.stats.checks);
    ASSERT(whole.stats.protocol_errors == cut.stats.protocol_errors);
    return 0;
}
